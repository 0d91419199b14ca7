import copy
import json
import pickle
import struct
import sys
from collections import UserDict

import numpy as np
import pytest

from hivecore._sealed import seal, unseal
from hivecore.caching import UniformCache
from hivecore.errors import CorruptStateError


@pytest.fixture
def cache():
    """One dataset of 100 items of 10 bytes, 25 of them admitted, and two jobs."""
    cache = UniformCache(1000, seed=3)
    cache.add_dataset("d", 100, 10, quota=250)
    cache.add_dataset("e", 3, sizes=[5, 40, 7], quota=50)
    cache.attach("p", "d")
    cache.attach("q", "d")
    cache.access("d", np.arange(30, 80), "p")
    return cache


# --- reads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [5, 20, 300, 9000])
def test_an_item_twice_in_a_batch_is_read_once(length):
    cache = UniformCache(10**6)
    cache.add_dataset("d", 10**4, 1, quota=10**4)
    cache.attach("p", "d")
    batch = np.arange(length)
    batch[1::2] = batch[::2][: length // 2]
    assert cache.access("d", batch, "p") == length // 2
    assert cache.unread("p") == 10**4 - (length + 1) // 2
    assert cache.access("d", batch, "p") == length
    assert cache.unread("p") == 10**4 - (length + 1) // 2
    cache.check()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i8", ">i4"])
def test_every_integer_type_is_understood(cache, dtype):
    assert cache.access("d", np.array([30, 99], dtype=dtype)) == 1
    assert cache.is_cached("d", np.array([30, 99], dtype=dtype)).tolist() == [True, False]


def test_odd_arrays_are_understood(cache):
    wide = np.arange(200).reshape(100, 2)
    unaligned = np.frombuffer(b"x" + np.arange(100).tobytes(), dtype="u1")[1:].view("i8")
    read_only = np.arange(100)
    read_only.flags.writeable = False
    for items in (wide[:50, 0], np.arange(100)[::-1], unaligned, read_only, tuple(range(100))):
        cache.access("d", items)
    assert cache.access("d", []) == 0
    assert cache.access("d", np.array([])) == 0
    for entry in (np.int32(30), np.array(30), np.uint8(30)):
        assert cache.access("d", entry) is True
        assert cache.is_cached("d", entry) is True
    cache.check()


BAD_ITEMS = [
    (-1, ValueError, "items=-1: allowed are 0 to 99"),
    (100, ValueError, "items=100: allowed are 0 to 99"),
    (2**63, ValueError, "items"),
    (-(2**63), ValueError, "items"),
    (1.5, TypeError, "items"),
    (float("nan"), TypeError, "items"),
    (None, TypeError, "items"),
    ("1", TypeError, "items"),
    ([1, 100], ValueError, r"items\[1\]=100: allowed are 0 to 99"),
    ([1, -1], ValueError, r"items\[1\]=-1"),
    (np.array([0, 2**63], dtype=np.uint64), ValueError, "items"),
    (np.array([0, 2**63 - 1]), ValueError, r"items\[1\]"),
    (np.array([0, -(2**63)]), ValueError, r"items\[1\]"),
    (np.array([0, 2**31 - 1], dtype=np.int32), ValueError, r"items\[1\]"),
    (np.array([0, -(2**31)], dtype=np.int32), ValueError, r"items\[1\]"),
    (np.array([1.0]), TypeError, "items must hold integers, not float64"),
    (np.array([True]), TypeError, "items must hold integers, not bool"),
    (np.array([1], dtype=object), TypeError, "items must hold integers, not object"),
    (np.array(["1"]), TypeError, "items"),
    (np.array([[1]]), ValueError, "items must have one dimension, not 2"),
    ([[1], [2, 3]], ValueError, "items must be an array of integers"),
]


@pytest.mark.parametrize(("items", "error", "says"), BAD_ITEMS)
@pytest.mark.parametrize("method", ["access", "is_cached", "pin", "unpin", "warm"])
def test_bad_items_change_nothing(cache, method, items, error, says):
    before = cache.to_bytes()
    with pytest.raises(error, match=says if method == "access" else "items"):
        getattr(cache, method)("d", items)
    assert cache.to_bytes() == before


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("bad", [-1, 10**5])
@pytest.mark.parametrize("place", [0, 8191, 8192, 19_999])
def test_a_bad_id_anywhere_in_a_long_batch_changes_nothing(dtype, bad, place):
    cache = UniformCache(10**6)
    cache.add_dataset("d", 10**5, 1, quota=10**5)
    cache.attach("p", "d")
    before = cache.to_bytes()
    items = np.arange(20_000, dtype=dtype)
    items[place] = bad
    with pytest.raises(ValueError, match=rf"items\[{place}\]={bad}"):
        cache.access("d", items, "p")
    assert cache.to_bytes() == before


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.zeros(2, dtype=np.uint8), TypeError),
        ([False, False], TypeError),
        (np.zeros(3, dtype=bool), ValueError),
        (np.zeros((2, 1), dtype=bool), ValueError),
        (np.zeros(4, dtype=bool)[::2], ValueError),
        (np.frombuffer(b"\0\0", dtype=bool), ValueError),
    ],
)
def test_a_bad_mask_changes_nothing(cache, out, error):
    before = cache.to_bytes()
    with pytest.raises(error, match="out"):
        cache.access("d", [1, 2], "p", out)
    with pytest.raises(TypeError, match="out"):
        cache.access("d", 1, "p", out)
    assert cache.to_bytes() == before


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda it: it.access("e", [1], "p"), "job='p': attached to another dataset"),
        (lambda it: it.warm("e", [1], "p"), "job='p': attached to another dataset"),
        (lambda it: it.attach("p", "e"), "job='p': is attached already"),
        (lambda it: it.remove_dataset("d"), "2 jobs are attached and 25 items are cached"),
        (lambda it: it.warm("d", [1], pin_until="job_end"), "pin_until='job_end': needs a job"),
    ],
)
def test_what_a_job_or_dataset_cannot_do_changes_nothing(cache, call, says):
    before = cache.to_bytes()
    with pytest.raises(ValueError, match=says):
        call(cache)
    assert cache.to_bytes() == before


def test_a_mask_over_the_ids_is_refused(cache):
    items = np.zeros(8, dtype=np.int64)
    with pytest.raises(ValueError, match="share memory"):
        cache.access("d", items[:8], out=items.view(bool)[:8])


# --- names ---------------------------------------------------------------------------------------

CALLS = {
    "access": lambda c, d, j: c.access(d, 1, j),
    "access of a batch": lambda c, d, j: c.access(d, [1, 2], j),
    "warm": lambda c, d, j: c.warm(d, [1], j, "job_end"),
    "set_quota": lambda c, d, j: c.set_quota(d, 10),
    "unload": lambda c, d, j: c.unload(d),
    "pin": lambda c, d, j: c.pin(d, [1]),
    "unpin": lambda c, d, j: c.unpin(d, [1]),
    "is_cached": lambda c, d, j: c.is_cached(d, [1]),
    "cached": lambda c, d, j: c.cached(d),
    "pinned_items": lambda c, d, j: c.pinned_items(d),
    "drain_changes": lambda c, d, j: c.drain_changes(d),
    "statistics": lambda c, d, j: c.statistics(d),
    "charges": lambda c, d, j: c.charges(d, {}),
    "remove_dataset": lambda c, d, j: c.remove_dataset(d),
    "jobs": lambda c, d, j: c.jobs(d),
    "attach": lambda c, d, j: c.attach("new", d),
    "detach": lambda c, d, j: c.detach(j),
    "start_epoch": lambda c, d, j: c.start_epoch(j),
    "effective": lambda c, d, j: c.effective(j),
    "hit_ratio": lambda c, d, j: c.hit_ratio(j),
    "epoch": lambda c, d, j: c.epoch(j),
    "unread": lambda c, d, j: c.unread(j),
}
FOR_JOBS = {"detach", "start_epoch", "effective", "hit_ratio", "epoch", "unread"}


@pytest.mark.parametrize("call", CALLS)
def test_unknown_names_are_named(cache, call):
    before = cache.to_bytes()
    if call not in FOR_JOBS:
        with pytest.raises(KeyError, match="dataset='x'"):
            CALLS[call](cache, "x", "p")
    if call in FOR_JOBS or "access" in call or call == "warm":
        with pytest.raises(KeyError, match="job='x'"):
            CALLS[call](cache, "d", "x")
    assert cache.to_bytes() == before


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", [1, b"d", [], ("d",)])
def test_names_are_strings(cache, call, name):
    before = cache.to_bytes()
    with pytest.raises(TypeError, match="must be a string"):
        CALLS[call](cache, name, name)
    assert cache.to_bytes() == before


def test_a_name_may_be_any_string():
    cache = UniformCache(100)
    for name in ("ä", "\ud800", "a\0b", "x" * 1000, np.str_("numpy")):
        cache.add_dataset(name, 1, 1)
        cache.attach(name, name)
    assert UniformCache.from_bytes(cache.to_bytes()).jobs() == cache.jobs()
    with pytest.raises(ValueError, match="name must not be empty"):
        cache.add_dataset("", 1, 1)


def test_names_may_be_used_again(cache):
    cache.access("d", 1, "q")
    cache.detach("q")
    with pytest.raises(KeyError, match="job='q'"):
        cache.access("d", 1, "q")
    cache.attach("q", "e")
    assert cache.jobs() == ["p", "q"]
    assert (cache.jobs("d"), cache.jobs("e")) == (["p"], ["q"])
    cache.detach("q")
    cache.unload("e")
    cache.remove_dataset("e")
    with pytest.raises(KeyError, match="dataset='e'"):
        cache.access("e", 1)
    cache.add_dataset("e", 7, 1)
    assert cache.statistics("e")["items"] == 7
    assert cache.datasets() == ["d", "e"]
    cache.check()


# --- arguments of datasets and quotas ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((0, 1), ValueError, "items=0"),
        ((-5, 1), ValueError, "items=-5"),
        ((2**31 + 1, 1), ValueError, "items"),
        ((2**70, 1), ValueError, "items"),
        ((1.0, 1), TypeError, "items must be an integer"),
        ((5, 0), ValueError, "item_size=0"),
        ((5, -1), ValueError, "item_size=-1"),
        ((5, 2**61), ValueError, "more than 2"),
        ((5, "1"), TypeError, "item_size must be an integer"),
        ((5,), ValueError, "one of item_size and sizes"),
        ((5, 1, {"sizes": [1] * 5}), ValueError, "one of item_size and sizes"),
        ((2, None, {"sizes": [1, 0]}), ValueError, r"sizes\[1\]=0"),
        ((2, None, {"sizes": [1, -3]}), ValueError, r"sizes\[1\]=-3"),
        ((2, None, {"sizes": [1, 2**62]}), ValueError, r"sizes\[1\]"),
        ((2, None, {"sizes": [1]}), ValueError, "sizes has 1 elements, items is 2"),
        ((2, None, {"sizes": [1.0, 2.0]}), TypeError, "sizes must hold integers"),
        ((2, None, {"sizes": [[1, 2]]}), ValueError, "sizes must have one dimension"),
        ((2, None, {"sizes": []}), ValueError, "sizes has 0 elements"),
        ((2, 1, {"quota": -1}), ValueError, "quota=-1"),
        ((2, 1, {"quota": 701}), ValueError, "quota=701: 700 bytes of the capacity"),
        ((2, 1, {"quota": 1.5}), TypeError, "quota must be an integer"),
    ],
)
def test_a_bad_dataset_is_refused(cache, arguments, error, says):
    before = cache.to_bytes()
    *plain, named = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(error, match=says):
        cache.add_dataset("new", *plain, **named)
    with pytest.raises(ValueError, match="name='d': there is a dataset"):
        cache.add_dataset("d", 1, 1)
    assert cache.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((0,), ValueError, "capacity=0: allowed are 1 to"),
        ((-1,), ValueError, "capacity=-1"),
        ((2**62 + 1,), ValueError, "capacity"),
        ((2**90,), ValueError, "capacity"),
        ((1.5,), TypeError, "capacity must be an integer"),
        ((float("inf"),), TypeError, "capacity"),
        ((5, -1), ValueError, "seed=-1"),
        ((5, 2**64), ValueError, "seed"),
        ((5, 1.5), TypeError, "seed must be an integer"),
        ((5, None), TypeError, "seed must be an integer"),
    ],
)
def test_a_bad_cache_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        UniformCache(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((-1,), ValueError, "quota=-1"),
        ((951,), ValueError, "quota=951: the other quotas leave 950 bytes"),
        ((2**63,), ValueError, "quota"),
        ((1.5,), TypeError, "quota must be an integer"),
        ((10, "LRU"), ValueError, "shrink='LRU': allowed are random, read_first, lazy"),
        ((10, None), ValueError, "shrink=None"),
        ((10, []), ValueError, "shrink"),
        ((29,), ValueError, "quota=29: 30 bytes are pinned"),
        ((29, "lazy", True), ValueError, "quota=29: 30 bytes are pinned"),
        ((29, "random", "no"), TypeError, "force must be a bool, not str"),
    ],
)
def test_a_bad_quota_changes_nothing(cache, arguments, error, says):
    cache.pin("d", [30, 31, 32])
    before = cache.to_bytes()
    with pytest.raises(error, match=says):
        cache.set_quota("d", *arguments)
    assert cache.to_bytes() == before


def test_the_largest_sizes_do_not_overflow():
    cache = UniformCache(2**62)
    cache.add_dataset("d", 1, 2**62, quota=2**62)
    cache.add_dataset("e", 2**30, 2**32)
    cache.attach("p", "d")
    assert cache.access("d", np.zeros(50, dtype=np.int64), "p") == 49
    assert cache.access("d", np.zeros(50, dtype=np.int32)) == 50
    assert cache.used == 2**62
    cache.check()
    assert cache.statistics("d")["hit_bytes"] == 99 * 2**62 % 2**64


# --- quotas --------------------------------------------------------------------------------------


def test_lazy_bytes_stay_until_another_dataset_needs_the_room(cache):
    cache.add_dataset("f", 100, 10)
    cache.set_quota("d", 700)
    cache.access("d", np.arange(100))
    cache.set_quota("e", 0)
    cache.set_quota("d", 100, shrink="lazy")
    cache.set_quota("f", 900)
    assert cache.statistics("d")["used"] == 700
    cache.access("f", np.arange(30))
    assert cache.statistics("d")["used"] == 700
    assert cache.access("d", 99) is False
    cache.access("f", np.arange(30, 90))
    assert cache.statistics("d")["used"] == 100
    assert cache.used == 1000
    cache.check()


def test_idle_datasets_give_way_first_and_of_those_the_least_recently_used():
    cache = UniformCache(90)
    for name in "abcd":
        cache.add_dataset(name, 30, 1)
    for name in "abc":
        cache.set_quota(name, 30)
        cache.access(name, np.arange(30))
    cache.access("a", 3)  # now b was used longest ago
    cache.attach("job", "c")
    for name in "abc":
        cache.set_quota(name, 10, shrink="lazy")
    cache.set_quota("d", 60)
    left = []
    for reads in (np.arange(20), np.arange(20, 25), np.arange(25, 30)):
        cache.access("d", reads)
        left.append([cache.statistics(name)["used"] for name in "abc"])
    assert left == [[30, 10, 30], [25, 10, 30], [20, 10, 30]]
    cache.detach("job")
    cache.check()


def test_unload_leaves_what_is_pinned_and_force_does_not(cache):
    cache.pin("d", [30, 50])
    with pytest.raises(TypeError, match="force must be a bool, not str"):
        cache.unload("d", force="no")
    assert cache.unload("d").size == 23
    assert cache.cached("d").tolist() == [30, 50]
    assert cache.statistics("d")["quota"] == 20
    assert cache.unload("d", force=True).tolist() == [30, 50]
    counted = cache.statistics("d")
    assert (counted["quota"], counted["used"], counted["pinned"]) == (0, 0, 0)
    assert cache.access("d", np.arange(100), "p") == 0
    assert cache.used == 0


# --- pins and warm-up ----------------------------------------------------------------------------


def test_pinning_admits_what_is_not_cached_and_fits(cache):
    with pytest.raises(ValueError, match="260 bytes would be used, the quota is 250"):
        cache.pin("d", [29, 30])
    cache.set_quota("d", 270)
    assert cache.pin("d", [29, 30, 29, 28]).tolist() == [29, 28]
    assert cache.pinned_items("d").tolist() == [28, 29, 30]
    assert cache.statistics("d")["warmed"] == 2
    with pytest.raises(ValueError, match="bytes would be pinned, the quota is 270"):
        cache.pin("d", np.arange(50))


def test_a_warm_up_holds_until_the_first_read_or_the_end_of_the_job(cache):
    cache.unload("d")
    cache.set_quota("d", 100)
    assert cache.warm("d", np.arange(8), "q", "first_epoch").size == 8
    assert cache.warm("d", np.arange(6, 20), "q", "job_end").tolist() == [8, 9]
    assert cache.pinned_items("d").tolist() == list(range(10))
    cache.access("d", [0, 1, 0], "p")
    assert cache.pinned_items("d").tolist() == list(range(10))
    cache.access("d", [0, 1, 6], "q")
    assert cache.pinned_items("d").tolist() == list(range(2, 10))
    assert cache.start_epoch("q") == 1
    assert cache.pinned_items("d").tolist() == [6, 7, 8, 9]
    cache.detach("q")
    assert cache.pinned_items("d").size == 0
    assert cache.cached("d").tolist() == list(range(10))


@pytest.mark.parametrize("until", ["noon", 1, ["first_epoch"], b"job_end"])
def test_a_bad_pin_until_is_named(cache, until):
    with pytest.raises(ValueError, match="pin_until"):
        cache.warm("d", [1], "p", until)


# --- epochs --------------------------------------------------------------------------------------


def test_warmed_items_are_effective_for_jobs_that_have_not_read_them(cache):
    cache.set_quota("d", 300)
    cache.warm("d", [79, 80])
    assert (cache.effective("p"), cache.effective("q")) == (10, 20)
    assert cache.hit_ratio("p") == 10 / 500


def test_charges_are_of_the_moment_at_which_the_jobs_are_named(cache):
    class Rates(UserDict):
        def __getitem__(self, job):
            if job in cache.jobs("d"):  # as another thread may do meanwhile
                cache.detach(job)
                cache.unload("d", force=True)
            return super().__getitem__(job)

    assert cache.charges("d", Rates({"p": 30, "q": 20})) == {"p": 150.0, "q": 100.0}
    assert cache.jobs("d") == []


def test_charges_follow_the_rates(cache):
    assert cache.charges("d", {"p": 30, "q": 20}) == {"p": 150.0, "q": 100.0}
    assert cache.charges("d", {"p": 0, "q": 0}) == {"p": 125.0, "q": 125.0}
    assert cache.charges("e", {}) == {}


@pytest.mark.parametrize(
    ("rates", "error"),
    [
        ({"p": 1}, ValueError),
        ({"p": 1, "q": 1, "r": 1}, ValueError),
        ({"p": -1, "q": 1}, ValueError),
        ({"p": float("nan"), "q": 1}, ValueError),
        ({"p": float("inf"), "q": 1}, ValueError),
        ({"p": "x", "q": 1}, TypeError),
        ({"p": None, "q": 1}, TypeError),
        (None, TypeError),
    ],
)
def test_bad_rates_are_refused(cache, rates, error):
    with pytest.raises(error, match="rates"):
        cache.charges("d", rates)


def test_changes_are_reported_net(cache):
    assert [part.size for part in cache.drain_changes("d")] == [25, 0]
    evicted = cache.set_quota("d", 200)
    back = evicted[:1]
    cache.set_quota("d", 220)
    cache.access("d", [*back, 0])
    added, removed = cache.drain_changes("d")
    assert added.tolist() == [0]
    assert removed.tolist() == evicted[1:].tolist()
    assert [part.size for part in cache.drain_changes("d")] == [0, 0]


# --- state ---------------------------------------------------------------------------------------


def busy(cache):
    """Calls whose results depend on the whole state, the random state included."""
    cache.access("d", np.arange(0, 100, 3), "q")
    answers = [cache.set_quota("d", 120, "read_first").tolist()]
    answers.append(cache.warm("d", [1, 2], "q").tolist())
    answers += [part.tolist() for part in cache.drain_changes("d")]
    return answers, cache.effective("p"), cache.hit_ratio("q"), cache.to_bytes()


@pytest.mark.parametrize(
    "way",
    [
        UniformCache.copy,
        copy.copy,
        copy.deepcopy,
        lambda cache: pickle.loads(pickle.dumps(cache)),
        lambda cache: UniformCache.from_bytes(cache.to_bytes()),
        lambda cache: UniformCache.from_bytes(memoryview(bytearray(cache.to_bytes()))),
    ],
)
def test_every_copy_behaves_identically_and_is_independent(cache, way):
    cache.warm("d", np.arange(40, 50), "q", "first_epoch")
    cache.set_quota("d", 200, "lazy")
    cache.drain_changes("d")
    other = way(cache)
    before = cache.to_bytes()
    result = busy(other)
    assert cache.to_bytes() == before
    assert busy(cache) == result
    other.check()


def test_a_forged_state_is_refused_or_consistent(cache):
    """Any word replaced, under a correct checksum."""
    cache.pin("d", [30])
    cache.warm("d", np.arange(40, 50), "q", "first_epoch")
    cache.set_quota("d", 200, "lazy")
    payload = unseal(b"HCUC", 1, cache.to_bytes())
    (names,) = struct.unpack_from("<Q", payload)
    refused = 0
    for position in range(8 + names, len(payload), 8):
        for value in (0, 1, 2, 99, 2**31, 2**62, 2**63, 2**64 - 1):
            forged = payload[:position] + struct.pack("<Q", value) + payload[position + 8 :]
            try:
                other = UniformCache.from_bytes(seal(b"HCUC", 1, forged))
            except CorruptStateError:
                refused += 1
                continue
            other.check()
            other.access("d", np.arange(50), "p")
            other.set_quota("d", 10, force=True)
            other.check()
    assert refused > 100


@pytest.mark.parametrize(
    "names",
    [
        b"",
        b"{",
        b"[]",
        b"[{}]",
        b"[{}, {}]",
        b'["d", "p"]',
        b'[{"d": 0}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "e": 0}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "e": 2}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "e": "1"}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "e": true}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "e": 1e0}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "": 1}, {"p": 0, "q": 1}]',
        b'[{"d": 0, "e": 1}, {"p": 0, "q": -1}]',
        b'[{"d": 0, "e": [1]}, {"p": 0, "q": 1}]',
        b"\xff\xfe",
        b"[" * 5000,
    ],
)
def test_forged_names_are_refused(cache, names):
    payload = unseal(b"HCUC", 1, cache.to_bytes())
    (length,) = struct.unpack_from("<Q", payload)
    forged = struct.pack("<Q", len(names)) + names + payload[8 + length :]
    with pytest.raises(CorruptStateError):
        UniformCache.from_bytes(seal(b"HCUC", 1, forged))


def test_payloads_of_any_length_are_refused():
    for payload in (b"", b"1234567", struct.pack("<Q", 2**63), struct.pack("<Q", 0), b"\0" * 64):
        with pytest.raises(CorruptStateError):
            UniformCache.from_bytes(seal(b"HCUC", 1, payload))


def test_memory_is_a_bit_per_item_and_two_per_job():
    cache = UniformCache(2**40)
    empty = sys.getsizeof(cache)
    cache.add_dataset("d", 10**6, 10, quota=10**6)
    assert sys.getsizeof(cache) - empty < 10**6 / 8 + 1000
    cache.attach("p", "d")
    assert sys.getsizeof(cache) - empty < 3 * 10**6 / 8 + 2000


# --- threads and calls from within ---------------------------------------------------------------


def test_an_argument_that_removes_the_dataset_is_noticed():
    cache = UniformCache(100)

    class Index:
        def __index__(self):
            cache.detach("p")
            cache.remove_dataset("d")
            return 1

    for call in (
        lambda: cache.access("d", Index(), "p"),
        lambda: cache.is_cached("d", Index()),
        lambda: cache.set_quota("d", Index()),
    ):
        cache.add_dataset("d", 5, 1)
        cache.attach("p", "d")
        with pytest.raises(KeyError, match="there is no dataset"):
            call()
    cache.check()


def test_names_and_state_that_are_saved_are_of_one_moment(cache, monkeypatch):
    # What is not saved natively runs Python code, and another thread may come in between.
    dumps = json.dumps

    def dumps_later(value):
        cache.add_dataset("late", 7, 1)
        cache.attach("late", "late")
        return dumps(value)

    monkeypatch.setattr(json, "dumps", dumps_later)
    saved = cache.to_bytes()
    monkeypatch.undo()
    assert UniformCache.from_bytes(saved).datasets() == ["d", "e"]
    assert cache.datasets() == ["d", "e", "late"]
