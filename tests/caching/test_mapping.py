import copy
import pickle
import sys
import threading
from collections.abc import MutableMapping

import cachetools
import pytest

from hivecore.caching import UniformMapping


def test_what_fits_is_kept_and_never_evicted():
    mapping = UniformMapping(3)
    for number in range(10):
        mapping[number] = str(number)
    assert dict(mapping) == {0: "0", 1: "1", 2: "2"}
    assert (mapping.maxsize, mapping.currsize, len(mapping)) == (3, 3, 3)
    assert 5 not in mapping
    with pytest.raises(KeyError, match="5"):
        mapping[5]


def test_a_smaller_value_may_still_fit():
    mapping = UniformMapping(10, getsizeof=len)
    mapping["a"] = "x" * 8
    mapping["b"] = "x" * 3
    mapping["c"] = "xx"
    assert list(mapping) == ["a", "c"]
    assert mapping.currsize == 10


def test_a_value_of_size_0_always_fits():
    mapping = UniformMapping(1, getsizeof=len)
    mapping.update(a="x", b="", c="")
    assert len(mapping) == 3


def test_another_value_takes_the_place_of_the_old_one_or_removes_it():
    mapping = UniformMapping(10, getsizeof=len)
    mapping["a"] = "1234"
    mapping["b"] = "1234"
    mapping["a"] = "123456"
    assert (mapping["a"], mapping.currsize) == ("123456", 10)
    mapping["a"] = "1234567"
    assert "a" not in mapping
    assert mapping.currsize == 4


def test_the_largest_sizes_do_not_overflow():
    mapping = UniformMapping(2**62, getsizeof=lambda value: value)
    mapping["a"] = mapping["b"] = 2**61
    mapping["c"] = 2**63 - 1
    assert mapping.currsize == 2**62
    mapping["a"] = 2**63 - 1
    assert dict(mapping) == {"b": 2**61}


def test_setdefault_answers_what_is_not_kept():
    mapping = UniformMapping(1)
    assert mapping.setdefault("a", 1) == 1
    assert mapping.setdefault("a", 2) == 1
    assert mapping.setdefault("b", 2) == 2
    assert "b" not in mapping
    assert UniformMapping(2).setdefault("a") is None


def test_it_has_all_of_a_mutable_mapping():
    mapping = UniformMapping(9)
    assert isinstance(mapping, MutableMapping)
    mapping.update({1: 2}, a=3)
    assert list(mapping.keys()) == [1, "a"]
    assert list(mapping.values()) == [2, 3]
    assert list(mapping.items()) == [(1, 2), ("a", 3)]
    assert mapping == {1: 2, "a": 3}
    assert mapping != {1: 2}
    assert mapping.get("b") is None
    assert mapping.get("b", 4) == 4
    assert mapping.pop("b", 4) == 4
    assert mapping.pop("b", None) is None
    assert mapping.pop("a") == 3
    with pytest.raises(KeyError, match="'a'"):
        mapping.pop("a")
    with pytest.raises(KeyError, match="'a'"):
        del mapping["a"]
    assert mapping.popitem() == (1, 2)
    with pytest.raises(KeyError):
        mapping.popitem()
    with pytest.raises(TypeError, match="unhashable"):
        hash(mapping)


@pytest.mark.parametrize("key", [[], {}, UniformMapping(1)])
def test_a_key_that_has_no_hash_is_refused(key):
    mapping = UniformMapping(2)
    mapping["a"] = 1
    for call in (mapping.get, mapping.pop, mapping.setdefault, mapping.__getitem__):
        with pytest.raises(TypeError, match="unhashable"):
            call(key)
    assert dict(mapping) == {"a": 1}


@pytest.mark.parametrize(
    ("maxsize", "error"),
    [
        *((wrong, ValueError) for wrong in (0, -1, 2**62 + 1, 2**80)),
        *((wrong, TypeError) for wrong in (1.5, "1", None, float("nan"))),
    ],
)
def test_a_bad_maxsize_is_named(maxsize, error):
    with pytest.raises(error, match="maxsize"):
        UniformMapping(maxsize)


def test_getsizeof_must_be_callable():
    with pytest.raises(TypeError, match="getsizeof must be callable, not int"):
        UniformMapping(3, getsizeof=3)


@pytest.mark.parametrize(
    ("size", "error"),
    [(-1, ValueError), (2**70, ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)],
)
def test_a_bad_size_changes_nothing(size, error):
    mapping = UniformMapping(5, getsizeof=lambda value: value[0])
    mapping["a"] = (2,)
    for key in ("a", "b"):
        with pytest.raises(error, match="getsizeof"):
            mapping[key] = (size,)
        if key == "b":
            with pytest.raises(error, match="getsizeof"):
                mapping.setdefault(key, (size,))
    assert dict(mapping) == {"a": (2,)}
    mapping.check()


def test_whatever_raises_leaves_all_as_it_was():
    def fail(*_):
        raise RuntimeError("no")

    mapping = UniformMapping(5, getsizeof=lambda value: fail() if value == "bad" else 1)
    mapping[1] = "good"
    odd = type("Odd", (), {"__hash__": lambda self: hash(1), "__eq__": fail})()
    bad = type("Bad", (), {"__hash__": fail})()
    for key, value in ((1, "bad"), (2, "bad"), (odd, "good"), (bad, "good")):
        with pytest.raises(RuntimeError, match="no"):
            mapping[key] = value
        with pytest.raises(RuntimeError, match="no"):
            mapping[fail() if value == "bad" else key]
    assert dict(mapping) == {1: "good"}
    mapping.check()


def test_a_key_unequal_to_itself_can_be_stored():
    mapping = UniformMapping(5)
    nan = float("nan")
    mapping[nan] = 1
    assert mapping[nan] == 1  # the same object, as in a dict
    assert mapping.get(float("nan")) is None


def test_a_subclass_may_size_values_and_have_attributes():
    class Sized(UniformMapping):
        def __init__(self, label):
            super().__init__(10)
            self.label = label

        def getsizeof(self, value):
            return 2 * len(value)

    mapping = Sized("mine")
    mapping["a"] = "1234"
    mapping["b"] = "12"
    assert (mapping.currsize, list(mapping)) == (8, ["a"])
    for other in (copy.copy(mapping), mapping.copy(), copy.deepcopy(mapping)):
        assert type(other) is Sized
        assert other == mapping
        assert (other.label, other.currsize, other.maxsize) == ("mine", 8, 10)
        other["c"] = "1"
        assert "c" not in mapping


def test_a_mapping_made_without_init_keeps_nothing():
    mapping = UniformMapping.__new__(UniformMapping)
    mapping["a"] = 1
    assert (dict(mapping), mapping.maxsize, mapping.currsize) == ({}, 0, 0)
    mapping.check()


def test_a_copy_shares_the_values_and_a_deep_copy_does_not():
    mapping = UniformMapping(4, getsizeof=len)
    mapping["a"] = [1]
    assert copy.copy(mapping)["a"] is mapping["a"]
    assert copy.deepcopy(mapping)["a"] is not mapping["a"]
    assert copy.copy(mapping).getsizeof([1, 2]) == 2


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_restores_sizes_without_asking_for_them(protocol):
    mapping = UniformMapping(10, getsizeof=len)
    mapping["a"] = [1, 2]
    mapping["a"].append(3)  # grown since, still counted as 2
    restored = pickle.loads(pickle.dumps(mapping, protocol))
    assert restored == {"a": [1, 2, 3]}
    assert (restored.currsize, restored.maxsize) == (2, 10)
    restored.check()


def test_a_mapping_that_holds_itself_can_be_shown_and_copied():
    mapping = UniformMapping(2)
    mapping["me"] = mapping
    assert repr(mapping) == "UniformMapping({'me': UniformMapping(...)}, maxsize=2, currsize=1)"
    other = copy.deepcopy(mapping)
    assert other["me"] is other


@pytest.mark.parametrize("lock", [None, threading.Lock()])
@pytest.mark.parametrize("info", [False, True])
def test_it_works_with_cachetools_cached(lock, info):
    calls = []

    @cachetools.cached(UniformMapping(3), lock=lock, info=info)
    def square(number):
        calls.append(number)
        return number * number

    for _ in range(3):
        assert [square(number) for number in range(5)] == [0, 1, 4, 9, 16]
    assert calls == [0, 1, 2, 3, 4, 3, 4, 3, 4]
    assert len(square.cache) == 3
    square.cache_clear()
    assert len(square.cache) == 0


def test_it_works_with_cachetools_cachedmethod_and_a_size():
    class Loader:
        def __init__(self):
            self.cache = UniformMapping(10, getsizeof=len)
            self.loads = 0

        @cachetools.cachedmethod(lambda self: self.cache)
        def load(self, length):
            self.loads += 1
            return b"x" * length

    loader = Loader()
    for _ in range(4):
        assert len(loader.load(7)) == 7
        assert len(loader.load(8)) == 8
    assert loader.loads == 5


def test_its_memory_counts_the_entries():
    plain, sized = UniformMapping(10**6), UniformMapping(10**6, getsizeof=lambda _: 1)
    for mapping, each in ((plain, 30), (sized, 60)):
        empty = sys.getsizeof(mapping)
        mapping.update(dict.fromkeys(range(1000)))
        assert 1000 * each < sys.getsizeof(mapping) - empty < 2000 * each


@pytest.mark.parametrize("entries", [[(1, 2, -1)], [(1, 2, "x")], [([], 2, 1)], [(1, 2)], 7])
def test_a_made_up_pickle_is_refused_or_harmless(entries):
    mapping = UniformMapping.__new__(UniformMapping)
    with pytest.raises((TypeError, ValueError)):
        mapping.__setstate__(((5, None, entries), {}))
    mapping.check()
