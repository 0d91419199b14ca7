"""Errors, limits, saved states, and the use by several threads of the cache policies."""

import contextlib
import copy
import math
import pickle
import struct
import sys
import threading
from collections import deque

import numpy as np
import pytest

from hivecore._sealed import seal, unseal
from hivecore.caching import (
    ClairvoyantCache,
    EpochShuffle,
    PolicyCache,
    expected_hit_ratio,
    simulate,
)
from hivecore.errors import CorruptStateError

POLICIES = ["uniform", "lru", "fifo", "random", "lfu", "clock", "sieve", "s3fifo"]


@pytest.fixture(params=POLICIES)
def cache(request):
    """Ten items of 1 to 10 bytes, 20 bytes of capacity, some accesses."""
    built = PolicyCache(request.param, 10, 20, sizes=range(1, 11), seed=5)
    built.access([0, 1, 2, 0, 3, 4, 0, 5, 6, 1, 2])
    return built


def bad_construction():
    good = {"policy": "lru", "items": 4, "capacity": 2}
    for change, error, message in (
        ({"policy": "mru"}, ValueError, "policy='mru': allowed are uniform, lru, .*, s3fifo$"),
        ({"policy": "min"}, ValueError, "'min' knows the future: see simulate"),
        ({"policy": 3}, TypeError, "policy must be a string, not int"),
        ({"policy": None}, TypeError, "policy must be a string, not NoneType"),
        ({"items": 0}, ValueError, "items=0: allowed are 1 to 2147483647"),
        ({"items": -1}, ValueError, "items=-1"),
        ({"items": 0, "capacity": 1}, ValueError, "items=0"),
        ({"items": 2**31}, ValueError, "items=2147483648"),
        ({"items": 2**70}, ValueError, "items=1180591620717411303424: too large"),
        ({"items": 4.0}, TypeError, "items must be an integer, not float"),
        ({"capacity": 0}, ValueError, "capacity=0: allowed are 1 to"),
        ({"capacity": -3}, ValueError, "capacity=-3"),
        ({"capacity": 2**63}, ValueError, "capacity=9223372036854775808: too large"),
        ({"capacity": 0.5}, TypeError, "capacity must be an integer, not float"),
        ({"capacity": math.nan}, TypeError, "capacity must be an integer"),
        ({"sizes": [1, 2, 3]}, ValueError, "sizes has 3 elements, items=4"),
        ({"sizes": []}, ValueError, "sizes has 0 elements, items=4"),
        ({"sizes": [1, -2, 3, 4]}, ValueError, r"sizes\[1\]=-2: allowed are 0 to"),
        ({"sizes": [1.0, 2, 3, 4]}, TypeError, "sizes must hold integers, not float64"),
        ({"sizes": [[1, 2, 3, 4]]}, ValueError, "sizes must have one dimension, not 2"),
        ({"sizes": 4}, ValueError, "sizes must have one dimension, not 0"),
        ({"sizes": np.array([2**64 - 1] * 4, dtype=np.uint64)}, ValueError, r"sizes\[0\]"),
        ({"seed": -1}, ValueError, "seed=-1: allowed are 0 to"),
        ({"seed": 2**63}, ValueError, "seed=9223372036854775808: too large"),
        ({"seed": 1.5}, TypeError, "seed must be an integer, not float"),
    ):
        yield pytest.param({**good, **change}, error, message, id=str(change)[:40])


@pytest.mark.parametrize(("arguments", "error", "message"), list(bad_construction()))
def test_a_cache_that_is_not_allowed_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        PolicyCache(**arguments)


BAD_IDS = [
    ([0, 10], ValueError, r"\[1\]=10: allowed are 0 to 9"),
    ([-1], ValueError, r"\[0\]=-1"),
    (np.array([3, -1], dtype=np.int32), ValueError, r"\[1\]=-1"),
    (np.array([2**32 - 1], dtype=np.uint32), ValueError, r"\[0\]=4294967295"),
    (np.array([2**64 - 1], dtype=np.uint64), ValueError, r"\[0\]=18446744073709551615: too large"),
    (np.array([2**63 - 1]), ValueError, r"\[0\]=9223372036854775807"),
    ([2**70], TypeError, "must hold integers, not object"),
    ([1.0], TypeError, "must hold integers, not float64"),
    ([math.nan], TypeError, "must hold integers"),
    ([True], TypeError, "must hold integers, not bool"),
    (["a"], TypeError, "must hold integers"),
    ([None], TypeError, "must hold integers"),
    ([[1, 2]], ValueError, "must have one dimension, not 2"),
    (None, TypeError, "must be an array of integers"),
    (1.0, TypeError, "must be an array of integers"),
    (True, TypeError, "must be an array of integers"),
    ("12", TypeError, "must be an array of integers"),
]


@pytest.mark.parametrize(("ids", "error", "message"), BAD_IDS)
def test_bad_ids_are_named_and_change_nothing(cache, ids, error, message):
    before = cache.to_bytes()
    with pytest.raises(error, match="ids.*" + message):
        cache.access(ids)
    assert cache.to_bytes() == before
    out = np.ones(1, dtype=bool)
    for policy in (cache.policy, "min"):
        with pytest.raises(error, match="trace.*" + message):
            simulate(policy, ids, 3, sizes=np.ones(10, dtype=np.int64), out=out)
    assert out[0]


@pytest.mark.parametrize("item", [10, -1, 2**40, 2**80, np.int64(10), np.uint64(2**63)])
def test_a_single_bad_id_is_named_and_changes_nothing(cache, item):
    before = cache.to_bytes()
    with pytest.raises(ValueError, match=f"ids={item}"):
        cache.access(item)
    assert cache.to_bytes() == before


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.zeros(2, dtype=bool), ValueError, r"out has the shape \(2,\), allowed is \(3,\)"),
        (np.zeros((3, 1), dtype=bool), ValueError, "out has the shape"),
        (np.zeros(6, dtype=bool)[::2], ValueError, "out must be contiguous and writable"),
        (np.zeros(3, dtype=np.uint8), TypeError, "out must be a NumPy array of bool, not an array"),
        ([False] * 3, TypeError, "out must be a NumPy array of bool, not list"),
        (bytearray(3), TypeError, "out must be a NumPy array of bool, not bytearray"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused_and_changes_nothing(cache, out, error, message):
    before = cache.to_bytes()
    with pytest.raises(error, match=message):
        cache.access([1, 2, 3], out=out)
    with pytest.raises(error, match=message):
        simulate("lru", [1, 2, 3], 2, out=out)
    assert cache.to_bytes() == before


def test_a_read_only_mask_is_refused():
    out = np.zeros(1, dtype=bool)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        simulate("lru", [1], 2, out=out)


def test_a_mask_is_for_arrays_only():
    with pytest.raises(TypeError, match="out is for arrays of ids"):
        PolicyCache("lru", 4, 2).access(1, out=np.zeros(1, dtype=bool))


def test_ids_may_come_in_any_layout():
    ids = np.array([[3, 0], [1, 0], [3, 0], [2, 0], [1, 0]])
    expected = simulate("lru", ids[:, 0].copy(), 2)
    assert expected == 1
    for view in (ids[:, 0], ids[:, 0].astype(">i8"), ids[::-1, 0][::-1], ids[:, 0].astype(np.int8)):
        assert simulate("lru", view, 2) == expected
    read_only = ids[:, 0].copy()
    read_only.flags.writeable = False
    assert simulate("lru", read_only, 2) == expected
    assert simulate("lru", memoryview(read_only), 2) == expected


FAR = 2311724755471104521


@pytest.mark.parametrize("policy", [*POLICIES, "min"])
@pytest.mark.parametrize(
    "trace",
    [
        [FAR, 0, FAR, 0],
        [-(2**63), 2**63 - 1, -(2**63), 2**63 - 1],
        [2**63, 0, 2**63, 0],
        [2**63, -1, 2**63, -1],
        [2**70, 0, 2**70, 0],
        np.array([2**64 - 1, 0, 2**64 - 1, 0], dtype=np.uint64),
        np.array([2**64 - 1, 0, 2**64 - 1, 0], dtype=">u8"),
        np.array([-1, 2**31 - 1, -1, 2**31 - 1], dtype=np.int32),
        np.array([FAR, 0, 0, 0, FAR, 0, 0, 0])[::2],
        ["a", "", "a", ""],
        ("a.jpg", "b" * 1000, "a.jpg", "b" * 1000),
        ["\ud800", "\0", "\ud800", "\0"],
        np.array(["a", "ab", "a", "ab"]),
        np.array(["a", "ä", "a", "ä"], dtype=">U7"),
        np.array(["a", "x", "b", "x", "a", "x", "b", "x"])[::2],
        np.array(["a", "b", "a", "b"], dtype=object),
        np.array([FAR, np.int64(3), FAR, 3], dtype=object),
        np.array(["a", "b", "a", "b"], dtype=np.dtypes.StringDType()),
        deque(["a", "b", "a", "b"]),
    ],
    ids=lambda trace: repr(trace)[:40],
)
def test_ids_of_a_trace_may_be_any_integers_or_strings(policy, trace):
    out = np.empty(4, dtype=bool)
    assert simulate(policy, trace, 2, out=out) == 2
    assert out.tolist() == [False, False, True, True]


@pytest.mark.parametrize("policy", [*POLICIES, "min"])
def test_no_ids_are_no_hits(policy):
    for dtype in (np.int64, np.uint64, np.str_, object):
        assert simulate(policy, np.empty(0, dtype=dtype), 2) == 0
    assert simulate(policy, [], 2) == 0


@pytest.mark.parametrize(
    ("trace", "error", "message"),
    [
        ([FAR, None], TypeError, r"trace\[1\] must be an integer as the first is, not NoneType"),
        ([FAR, math.nan], TypeError, r"trace\[1\] must be an integer as the first is, not float"),
        ([1, 2.0], TypeError, r"trace\[1\] must be an integer as the first is, not float"),
        ([1, "a"], TypeError, r"trace\[1\] must be an integer as the first is, not str"),
        (["a", 1], TypeError, r"trace\[1\] must be a string as the first is, not int"),
        (["a", None], TypeError, r"trace\[1\] must be a string as the first is, not NoneType"),
        (["a", ["b"]], TypeError, r"trace\[1\] must be a string as the first is, not list"),
        ([None, "a"], TypeError, r"trace\[0\] must be an integer or a string, not NoneType"),
        ([b"a", b"b"], TypeError, r"trace\[0\] must be an integer or a string, not bytes"),
        ([math.nan], TypeError, r"trace\[0\] must be an integer or a string, not float"),
        ([True, False], TypeError, r"trace\[0\] must be an integer or a string, not bool"),
        (np.array([2**70, True], dtype=object), TypeError, r"trace\[1\] must be .*, not bool"),
        (np.array([1.0]), TypeError, "trace must hold integers or strings, not float64"),
        (np.array([b"a"]), TypeError, r"trace must hold integers or strings, not \|S1"),
        (np.array(["2026-01-01"], dtype="M8[D]"), TypeError, "must hold integers or strings, not"),
        (np.array([["a"]]), ValueError, "trace must have one dimension, not 2"),
        ([["a"], "b"], ValueError, "trace must be an array of integers or strings"),
        ("ab", TypeError, "trace must be an array of integers or strings, not str"),
        ({"a": 1}, TypeError, "trace must be an array of integers or strings, not dict"),
    ],
)
def test_other_ids_are_refused_by_name(trace, error, message):
    out = np.ones(2, dtype=bool)
    for policy in ("lru", "min"):
        with pytest.raises(error, match=message):
            simulate(policy, trace, 3, out=out)
    assert out.all()


def test_ids_that_have_sizes_are_their_positions():
    for trace in (["a"], np.array(["a"])):
        with pytest.raises(TypeError, match="trace must hold integers, not <U1"):
            simulate("lru", trace, 3, sizes=[1])
    with pytest.raises(ValueError, match=rf"trace\[0\]={FAR}: allowed are 0 to 0"):
        simulate("lru", [FAR], 3, sizes=[1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("opt", [0], 1), ValueError, "policy='opt': allowed are uniform.*min"),
        ((None, [0], 1), TypeError, "policy must be a string"),
        (("min", [0], 0), ValueError, "capacity=0"),
        (("lru", [0], "1"), TypeError, "capacity must be an integer"),
        (("lru", [0], 1, []), ValueError, "sizes has 0 elements, but trace is not empty"),
        (("min", [0, 2], 1, [1, 1]), ValueError, r"trace\[1\]=2: allowed are 0 to 1"),
        (("random", [0], 1, None, -1), ValueError, "seed=-1"),
    ],
)
def test_a_simulation_that_is_not_allowed_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        simulate(*arguments)


def test_huge_sizes_and_capacities_do_not_overflow():
    most = 2**63 - 1
    for policy in POLICIES:
        cache = PolicyCache(policy, 3, most, sizes=[most, most, 1])
        cache.access([0, 1, 2, 0, 1, 2, 2, 2, 0])
        cache.check()
        assert cache.used <= most
    assert simulate("min", [0, 1, 0, 1, 2, 2], most, sizes=[most, most, 1]) == 2
    assert simulate("lru", [0, 1, 0, 1], most) == 2


def test_variants_are_those_of_the_documentation():
    def content(policy, capacity, ids):
        cache = PolicyCache(policy, 10, capacity)
        cache.access(ids)
        return cache.cached().tolist()

    assert content("lfu", 3, [0, 0, 1, 2, 1, 2, 3]) == [1, 2, 3]  # two uses each: 0 was used first
    assert content("lfu", 2, [0, 0, 0, 1, 2, 3]) == [0, 3]
    assert content("clock", 3, [0, 1, 2, 0, 3, 4]) == [0, 3, 4]  # 0 went round once
    assert content("sieve", 3, [0, 1, 2, 0, 3, 4, 5]) == [0, 4, 5]  # and 0 keeps its place
    assert content("clock", 3, [0, 1, 2, 0, 3, 4, 5]) == [3, 4, 5]
    assert content("uniform", 3, [0, 1, 2, 3, 4]) == [0, 1, 2]
    # Capacity 10: 1 small, 9 main. Items 0 to 9 fill both; 0, hit twice, is promoted.
    s3fifo = PolicyCache("s3fifo", 40, 10)
    s3fifo.access([*range(10), 0, 0, 10])
    assert s3fifo.cached().tolist() == [0, *range(2, 11)]
    s3fifo.access([11, 12])  # 10 and 11 pass through small, and are ghosts
    assert 10 not in s3fifo
    s3fifo.access([10, 13])  # 10 comes back, to main
    assert 10 in s3fifo
    assert 11 not in s3fifo


# --- saved states --------------------------------------------------------------------------------


def damaged(cache, magic):
    """What is accepted of the states in which a byte has another value."""
    payload = unseal(magic, 1, cache.to_bytes())
    for position in range(len(payload)):
        for value in (0, 1, 0x7F, 0xFF):
            changed = payload[:position] + bytes([value]) + payload[position + 1 :]
            try:
                restored = type(cache).from_bytes(seal(magic, 1, changed))
            except CorruptStateError:
                continue
            restored.check()
            yield restored


def test_a_payload_that_is_no_state_is_refused_or_consistent(cache):
    """Even with a correct checksum: every byte in turn, with several values."""
    for restored in damaged(cache, b"HCPC"):
        restored.access(np.arange(restored.items) % restored.items)
        restored.check()


def test_a_payload_that_announces_too_much_is_refused():
    for items in (0, 2**31, 2**40, 2**64 - 1):
        payload = struct.pack("<BBQq", 1, 0, items, 5) + bytes(100)
        with pytest.raises(CorruptStateError):
            PolicyCache.from_bytes(seal(b"HCPC", 1, payload))
    for head in ((8, 0, 4, 5), (1, 2, 4, 5), (1, 0, 4, 0), (1, 0, 4, -1), (1, 1, 400, 5)):
        with pytest.raises(CorruptStateError):
            PolicyCache.from_bytes(seal(b"HCPC", 1, struct.pack("<BBQq", *head) + bytes(100)))
    with pytest.raises(CorruptStateError):
        PolicyCache.from_bytes(seal(b"HCPC", 1, b""))


def test_attributes_tell_what_the_cache_is(cache):
    assert (cache.items, cache.capacity) == (10, 20)
    assert cache.used == sum(item + 1 for item in cache.cached())
    assert len(cache) == len(cache.cached())
    assert all(item in cache for item in cache.cached())
    assert 10 not in cache
    assert -1 not in cache
    with pytest.raises(TypeError, match="item must be an integer, not str"):
        "1" in cache  # noqa: B015
    assert repr(cache) == f"PolicyCache({cache.policy!r}, items=10, capacity=20, sizes=...)"
    assert sys.getsizeof(cache) > 80


def test_memory_is_a_bit_or_some_bytes_per_item():
    items = 1 << 20
    per_item = {p: sys.getsizeof(PolicyCache(p, items, 16)) / items for p in POLICIES}
    assert all(per_item[policy] < 0.13 for policy in ("uniform", "fifo", "random"))
    assert all(per_item[policy] < 1.01 for policy in ("clock", "sieve"))
    assert all(per_item[policy] < 4.01 for policy in ("lru", "lfu"))
    assert per_item["s3fifo"] < 5.01


def test_a_trace_that_another_thread_spoils_does_no_harm():
    trace = np.zeros(2_000_000, dtype=np.int64)
    texts = np.full(100_000, "a", dtype="U2")
    stop = threading.Event()

    def spoil():
        while not stop.is_set():
            trace[-1000:] = 2**40
            trace[-1000:] = 0
            texts[-1000:] = "bb"
            texts[-1000:] = "a"

    thread = threading.Thread(target=spoil)
    thread.start()
    try:
        for policy in ("lru", "min") * 5:
            with contextlib.suppress(ValueError):
                simulate(policy, trace, 10)
            simulate(policy, texts, 10)
    finally:
        stop.set()
        thread.join()
    trace[:] = 0
    assert simulate("lru", trace, 10) == len(trace) - 1


# --- shuffles ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: EpochShuffle(-1, 5), ValueError, "seed=-1"),
        (lambda: EpochShuffle(2**64, 5), ValueError, "seed=18446744073709551616: too large"),
        (lambda: EpochShuffle(1, 0), ValueError, "items=0: allowed are 1 to 2147483647"),
        (lambda: EpochShuffle(1, 2**31), ValueError, "items=2147483648"),
        (lambda: EpochShuffle(1, 2.0), TypeError, "items must be an integer, not float"),
        (lambda: EpochShuffle(1, 5).order(-1), ValueError, r"epoch=-1: allowed are 0 to 2\*\*53"),
        (lambda: EpochShuffle(1, 5).order(2**60), ValueError, "epoch=1152921504606846976"),
        (lambda: EpochShuffle(1, 5).order(0.5), TypeError, "epoch must be an integer, not float"),
        (lambda: EpochShuffle(1, 5).item(0, 5), ValueError, "position=5: allowed are 0 to 4"),
        (lambda: EpochShuffle(1, 5).item(0, -1), ValueError, "position=-1"),
        (lambda: EpochShuffle(1, 5).position(0, 5), ValueError, "item=5: allowed are 0 to 4"),
        (lambda: EpochShuffle(1, 5).position(0, [0, 5]), ValueError, r"item\[1\]=5"),
        (lambda: EpochShuffle(1, 5).position(0, 1.0), TypeError, "item must be an integer"),
        (lambda: EpochShuffle(1, 5).item(0, [1.0]), TypeError, "position must hold integers"),
        (lambda: EpochShuffle(1, 5).item(0, [[1]]), ValueError, "position must have one dimension"),
        (lambda: EpochShuffle(1, 5).item(0, None), TypeError, "position must be an integer"),
    ],
)
def test_bad_arguments_of_a_shuffle_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_shuffle_is_a_value():
    shuffle = EpochShuffle(7, 20)
    assert pickle.loads(pickle.dumps(shuffle)) == shuffle == copy.deepcopy(shuffle)
    assert hash(shuffle) == hash(EpochShuffle(7, 20))
    assert shuffle != EpochShuffle(8, 20)
    assert shuffle != EpochShuffle(7, 21)
    assert shuffle != (7, 20)
    assert (shuffle.seed, shuffle.items) == (7, 20)
    assert repr(shuffle) == "EpochShuffle(seed=7, items=20)"
    assert shuffle.order(0).dtype == np.uint32


def test_shuffles_are_the_same_on_every_platform():
    """And in every release: jobs are restarted in the middle of an epoch."""
    assert EpochShuffle(1, 8).order(0).tolist() == [0, 3, 7, 1, 4, 2, 6, 5]
    some = EpochShuffle(1, 1000).order(5)[:8]
    assert some.tolist() == [149, 255, 497, 358, 823, 905, 271, 123]
    most = EpochShuffle(9, 2**31 - 1).item(3, [0, 1, 2**30])
    assert most.tolist() == [632528792, 1105238863, 1452249929]


# --- the clairvoyant cache -----------------------------------------------------------------------


@pytest.fixture
def shared():
    """Two jobs on one dataset, one on another; some uses of each."""
    cache = ClairvoyantCache(capacity=6, datasets=[10, 4])
    cache.attach(1, 0, EpochShuffle(1, 10), rate=1.0, epochs=3)
    cache.attach(2, 0, 2, rate=2.0, start=0.5)
    cache.attach(3, 1, 3, rate=1.0, first_epoch=7)
    for job, count in ((1, 5), (2, 13), (3, 2), (1, 8)):
        cache.access(job, count)
    return cache


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.access(9), KeyError, "job=9: not attached"),
        (lambda c: c.access("1"), TypeError, "job must be an integer, not str"),
        (lambda c: c.access(1, -1), ValueError, "count=-1: allowed are 0 to"),
        (lambda c: c.access(1, 18), ValueError, "count=18: job 1 has 17 uses left"),
        (lambda c: c.access(2, 2**54), ValueError, "count=18014398509481984: allowed are"),
        (lambda c: c.access(1, 1.0), TypeError, "count must be an integer, not float"),
        (lambda c: c.access(1, 2, np.zeros(3, dtype=bool)), ValueError, "out has the shape"),
        (lambda c: c.access(1, 2, [0, 0]), TypeError, "out must be a NumPy array"),
        (lambda c: c.detach(4), KeyError, "job=4: not attached"),
        (lambda c: c.time(4), KeyError, "job=4: not attached"),
        (lambda c: c.uses(4), KeyError, "job=4: not attached"),
        (lambda c: c.set_rate(4, 1.0), KeyError, "job=4: not attached"),
        (lambda c: c.set_rate(1, 0.0), ValueError, "rate=0.0: must be above 0"),
        (lambda c: c.set_rate(1, -1), ValueError, "rate=-1: must be above 0"),
        (lambda c: c.set_rate(1, math.nan), ValueError, "rate=nan: must be finite"),
        (lambda c: c.set_rate(1, "1"), TypeError, "rate must be a float, not str"),
        (lambda c: c.set_rate(1, True), TypeError, "rate must be a float, not bool"),
        (lambda c: c.set_rate(1, 1.0, math.inf), ValueError, "now=inf: must be finite"),
        (lambda c: c.set_rate(1, 10**400), ValueError, "rate is too large for a float"),
        (lambda c: c.next_use(2, 0), KeyError, "dataset=2: allowed are 0 to 1"),
        (lambda c: c.next_use(1, 4), ValueError, "item=4: allowed are 0 to 3"),
        (lambda c: c.is_cached(-1, 0), KeyError, "dataset=-1"),
        (lambda c: c.is_cached(0, -1), ValueError, "item=-1"),
        (lambda c: c.attach(1, 0, 5, 1.0), KeyError, "job=1: attached already"),
        (lambda c: c.attach(5, 2, 5, 1.0), KeyError, "dataset=2"),
        (lambda c: c.attach(5, 0, EpochShuffle(1, 9), 1.0), ValueError, "shuffle has 9 items"),
        (lambda c: c.attach(5, 0, -5, 1.0), ValueError, "shuffle=-5"),
        (lambda c: c.attach(5, 0, None, 1.0), TypeError, "shuffle must be an integer"),
        (lambda c: c.attach(5, 0, 5, math.inf), ValueError, "rate=inf: must be finite"),
        (lambda c: c.attach(5, 0, 5, 1.0, math.nan), ValueError, "start=nan: must be finite"),
        (lambda c: c.attach(5, 0, 5, 1.0, 0.0, -1), ValueError, "first_epoch=-1"),
        (lambda c: c.attach(5, 0, 5, 1.0, epochs=0), ValueError, "epochs=0: allowed are 1 to"),
        (lambda c: c.attach(5, 0, 5, 1.0, epochs=2**53), ValueError, "epochs=9007199254740992"),
        (lambda c: c.attach(2**70, 0, 5, 1.0), ValueError, "job=1180591620717411303424: too"),
    ],
)
def test_bad_arguments_of_a_clairvoyant_cache_change_nothing(shared, call, error, message):
    before = shared.to_bytes()
    with pytest.raises(error, match=message):
        call(shared)
    assert shared.to_bytes() == before
    shared.check()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, [4]), ValueError, "capacity=0"),
        ((1, [4, 0]), ValueError, r"datasets\[1\]=0: allowed are 1 to 2147483647"),
        ((1, [2**31 - 1, 1]), ValueError, "datasets have 2147483648 items"),
        ((1, 4), ValueError, "datasets must have one dimension, not 0"),
        ((1, [1.5]), TypeError, "datasets must hold integers, not float64"),
        ((1.0, [1]), TypeError, "capacity must be an integer, not float"),
    ],
)
def test_a_clairvoyant_cache_that_is_not_allowed_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ClairvoyantCache(*arguments)


def test_damaged_bytes_of_a_clairvoyant_cache_are_refused(shared):
    saved = shared.to_bytes()
    for data in (b"", saved[:-1], saved + b"x", b"HCPC" + saved[4:]):
        with pytest.raises(CorruptStateError):
            ClairvoyantCache.from_bytes(data)
    payload = unseal(b"HCCV", 1, saved)
    for restored in damaged(shared, b"HCCV"):
        for job in restored.jobs:
            with contextlib.suppress(ValueError):
                restored.access(job, 3)
        restored.check()
    for length in range(0, len(payload), 5):
        with pytest.raises(CorruptStateError):
            ClairvoyantCache.from_bytes(seal(b"HCCV", 1, payload[:length]))


def test_a_clairvoyant_cache_tells_what_it_is(shared):
    assert (shared.capacity, shared.datasets, shared.jobs) == (6, (10, 4), (1, 2, 3))
    assert [shared.uses(job) for job in (1, 2, 3)] == [13, 13, 2]
    assert [shared.time(job) for job in (1, 2, 3)] == [13.0, 7.0, 2.0]
    assert len(shared) == 6
    assert repr(shared) == "ClairvoyantCache(capacity=6, datasets=[10, 4])"
    assert sys.getsizeof(shared) > 14 * 4
    assert shared.access(1, 0) == 0


# --- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("mru", 1, 2), ValueError, "policy='mru': allowed are"),
        ((3, 1, 2), TypeError, "policy must be a string"),
        (("lru", 1, 2, "zigzag"), ValueError, "pattern='zigzag': allowed are shuffle, scan"),
        (("lru", 1, 2, None), TypeError, "pattern must be a string"),
        (("lru", -1, 2), ValueError, "cache=-1.0: must be finite and at least 0"),
        (("lru", math.nan, 2), ValueError, "cache=nan"),
        (("lru", math.inf, 2), ValueError, "cache=inf"),
        (("lru", 1, 0), ValueError, "dataset=0.0: must be finite and above 0"),
        (("lru", 1, math.nan), ValueError, "dataset=nan"),
        (("lru", "1", 2), TypeError, "cache must be a float, not str"),
        (("lru", 10**400, 2), ValueError, "cache is too large"),
        (("lru", 1.5, 2, "shuffle", True), TypeError, "cache must be an integer, not float"),
        (("lru", 1, 2, "shuffle", "no"), TypeError, "exact must be a bool, not str"),
        (("lru", 0, 2, "shuffle", True), ValueError, "cache=0: allowed are 1"),
        (
            ("lru", 2, 10**6, "shuffle", True),
            ValueError,
            "dataset=1000000: allowed are 1 to 100000",
        ),
        (("lfu", 1, 2), ValueError, "policy='lfu', pattern='shuffle': no closed form is known"),
        (("sieve", 1, 2), ValueError, "no closed form is known"),
        (("s3fifo", 1, 2), ValueError, "no closed form is known"),
        (("s3fifo", 1, 2, "scan"), ValueError, "no closed form is known"),
        (("min", 1, 2, "replacement"), ValueError, "no closed form is known"),
        (("fifo", 1, 2, "shuffle", True), ValueError, "no exact form is known"),
        (("random", 1, 2, "shuffle", True), ValueError, "no exact form is known"),
        (("random", 1, 2, "scan", True), ValueError, "no exact form is known"),
    ],
)
def test_a_hit_ratio_that_is_not_known_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        expected_hit_ratio(*arguments)


def test_a_cache_of_everything_always_hits_and_of_nothing_never():
    for policy in ("uniform", "min", "lru", "clock", "fifo", "random"):
        for pattern in ("shuffle", "scan"):
            assert expected_hit_ratio(policy, 7, 7, pattern) == 1
            assert expected_hit_ratio(policy, 1e300, 7, pattern) == 1
            assert expected_hit_ratio(policy, 0, 7, pattern) == 0
            assert 0 <= expected_hit_ratio(policy, 1e-300, 7, pattern) < 1e-200
    assert expected_hit_ratio("lru", 7, 7, exact=True) == 1


def test_fifo_has_no_jump_where_its_two_forms_meet():
    meeting = 1 - math.exp(-1)
    below, above = (expected_hit_ratio("fifo", meeting + d, 1) for d in (-1e-9, 1e-9))
    assert below == pytest.approx(above, abs=1e-7)


def test_the_exact_form_tends_to_the_limit():
    limit = expected_hit_ratio("lru", 0.3, 1)
    errors = [
        abs(expected_hit_ratio("lru", 3 * n, 10 * n, exact=True) - limit) for n in (3, 30, 300)
    ]
    assert errors[0] > 5 * errors[1] > 25 * errors[2]
