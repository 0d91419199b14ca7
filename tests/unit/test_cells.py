"""Errors, limits, and the use by several threads of allocator and virtual clusters."""

import contextlib
import copy
import gc
import json
import pickle
import struct
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from hivecore import _cells
from hivecore._sealed import seal
from hivecore.cells import BuddyAllocator, Cell, Chain, ClusterSpec, VirtualClusters
from hivecore.errors import (
    CorruptStateError,
    HivecoreError,
    InfeasibleAssignmentError,
    NoFreeCellError,
    NotAllocatedError,
    QuotaExceededError,
)


@pytest.fixture
def allocator():
    """Two nodes of two pairs; GPU 0 and node 1 are taken."""
    made = BuddyAllocator([2, 2], roots=2)
    assert (made.allocate(1), made.allocate(3)) == (0, 1)
    return made


@pytest.mark.parametrize(
    ("fanouts", "roots", "error", "message"),
    [
        ([2, 0], 1, ValueError, r"fanouts\[1\]=0"),
        ([-1], 1, ValueError, r"fanouts\[0\]=-1"),
        ([2**32], 1, ValueError, r"fanouts\[0\]=4294967296"),
        ([2**70], 1, ValueError, r"fanouts\[0\]=1180591620717411303424: too large"),
        ([1] * 16, 1, ValueError, "fanouts has 16 entries"),
        ([2], 0, ValueError, "roots=0"),
        ([2], 2**31, ValueError, "fanouts and roots make 4294967296 leaves"),
        ([2**16, 2**16], 1, ValueError, r"more than 2\*\*31 leaves"),
        ([2.0], 1, TypeError, r"fanouts\[0\] must be an integer, not float"),
        (["2"], 1, TypeError, r"fanouts\[0\] must be an integer, not str"),
        (2, 1, TypeError, "fanouts must be a sequence of integers, not int"),
        ([2], None, TypeError, "roots must be an integer, not NoneType"),
        ([2], float("nan"), TypeError, "roots must be an integer, not float"),
    ],
)
def test_a_shape_that_is_not_allowed_is_named(fanouts, roots, error, message):
    with pytest.raises(error, match=message):
        BuddyAllocator(fanouts, roots)


def scalar_calls():
    for name in ("fits", "allocate", "free_cells"):
        yield name, lambda a, name=name, **bad: getattr(a, name)(bad.get("level", 1))
    for name in ("is_free", "is_allocated", "allocate_at", "release"):
        yield (
            name,
            lambda a, name=name, **bad: getattr(a, name)(bad.get("level", 1), bad.get("index", 0)),
        )


@pytest.mark.parametrize(("name", "call"), list(scalar_calls()))
@pytest.mark.parametrize(
    ("level", "error", "message"),
    [
        (0, ValueError, "level=0: levels run from 1"),
        (4, ValueError, "level=4: levels run from 1 .leaf. to 3"),
        (-1, ValueError, "level=-1"),
        (2**63, ValueError, "level=9223372036854775808: too large"),
        (1.0, TypeError, "level must be an integer, not float"),
        ("1", TypeError, "level must be an integer, not str"),
        (None, TypeError, "level must be an integer"),
    ],
)
def test_a_bad_level_is_named_and_changes_nothing(allocator, name, call, level, error, message):
    before = allocator.to_bytes()
    with pytest.raises(error, match=message):
        call(allocator, level=level)
    assert allocator.to_bytes() == before


@pytest.mark.parametrize("name", ["is_free", "is_allocated", "allocate_at", "release"])
@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (8, ValueError, "index=8: cells of level 1 run from 0 to 7"),
        (-1, ValueError, "index=-1"),
        (2**32, ValueError, "index=4294967296"),
        (-(2**80), ValueError, "too large"),
        (np.float64(1), TypeError, "index must be an integer"),
    ],
)
def test_a_bad_index_is_named_and_changes_nothing(allocator, name, index, error, message):
    before = allocator.to_bytes()
    with pytest.raises(error, match=message):
        getattr(allocator, name)(1, index)
    assert allocator.to_bytes() == before


@pytest.mark.parametrize(
    ("levels", "error", "message"),
    [
        ([1, 0], ValueError, r"levels\[1\]=0: allowed are 1 to 3"),
        ([4], ValueError, r"levels\[0\]=4"),
        (np.array([2**64 - 1], dtype=np.uint64), ValueError, r"levels\[0\]"),
        ([1.0], TypeError, "levels must hold integers, not float64"),
        ([True], TypeError, "levels must hold integers, not bool"),
        (["a"], TypeError, "levels must hold integers"),
        ([2**70], TypeError, "levels must hold integers, not object"),
        ([[1]], ValueError, "levels must have one dimension, not 2"),
        (1, ValueError, "levels must have one dimension, not 0"),
        ([float("nan")], TypeError, "levels must hold integers"),
    ],
)
def test_bad_levels_of_a_batch_are_named_and_change_nothing(allocator, levels, error, message):
    before = allocator.to_bytes()
    with pytest.raises(error, match=message):
        allocator.allocate_many(levels)
    with pytest.raises(error, match=message):
        allocator.release_many(levels, np.zeros(np.shape(levels), dtype=int))
    assert allocator.to_bytes() == before


@pytest.mark.parametrize(
    ("levels", "indices", "error", "message"),
    [
        ([1], [0, 1], ValueError, "levels has 1 elements, indices has 2"),
        ([1, 3], [0, 2], ValueError, r"indices\[1\]=2: cells of level 3 run from 0 to 1"),
        ([1, 1], [0, -1], ValueError, r"indices\[1\]=-1"),
        ([1, 1], [0, 3], NotAllocatedError, r"levels\[1\]=1, indices\[1\]=3"),
        ([1, 3, 1], [0, 1, 0], NotAllocatedError, r"levels\[2\]=1, indices\[2\]=0"),
        ([1], [0.0], TypeError, "indices must hold integers"),
    ],
)
def test_a_release_of_many_that_fails_changes_nothing(allocator, levels, indices, error, message):
    before = allocator.to_bytes()
    with pytest.raises(error, match=message):
        allocator.release_many(levels, indices)
    assert allocator.to_bytes() == before
    allocator.check()


def test_a_cell_is_released_only_under_its_own_level(allocator):
    for level, index in [(1, 1), (2, 0), (3, 0), (1, 4), (2, 2)]:
        with pytest.raises(NotAllocatedError):
            allocator.release(level, index)


def test_numpy_integers_and_any_integer_array_are_welcome(allocator):
    assert allocator.allocate(np.int8(1)) == 1
    for dtype in (np.int8, np.uint16, np.int64, np.uint64):
        assert allocator.copy().allocate_many(np.array([1, 2, 3], dtype=dtype)).tolist()[2] == -1
    strided = np.array([1, 9, 1, 9])[::2]
    assert allocator.allocate_many(strided).tolist() == [2, 3]
    assert strided.tolist() == [1, 1]
    assert allocator.allocate_many([]).dtype == np.int64


def test_the_largest_chain_works():
    allocator = BuddyAllocator([2] * 15, roots=2**16)
    assert allocator.allocate(1) == 0
    allocator.allocate_at(1, 2**31 - 1)
    assert allocator.allocate(16) == 1
    allocator.release(1, 2**31 - 1)
    assert allocator.free_counts().tolist() == [1] * 15 + [2**16 - 2]


def test_one_level_is_a_plain_free_list():
    allocator = BuddyAllocator([], roots=130)
    assert allocator.allocate_many([1] * 131).tolist() == [*range(130), -1]
    allocator.release_many([1, 1], [129, 64])
    assert allocator.allocate(1) == 64
    assert allocator.levels == 1
    assert allocator.fanouts == ()
    assert allocator.roots == 130


def test_fan_outs_of_one_make_levels_of_equal_cells():
    allocator = BuddyAllocator([1, 1], roots=3)
    assert allocator.allocate(1) == 0
    assert allocator.allocate(3) == 1
    assert allocator.free_counts().tolist() == [0, 0, 1]


def test_copies_and_pickles_are_independent_and_equal(allocator):
    for other in (
        allocator.copy(),
        copy.deepcopy(allocator),
        pickle.loads(pickle.dumps(allocator)),
    ):
        assert other.to_bytes() == allocator.to_bytes()
        other.release(1, 0)
        assert allocator.is_allocated(1, 0)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CorruptStateError),
        (b"x" * 40, CorruptStateError),
        ("text", TypeError),
        (None, TypeError),
        (
            VirtualClusters(ClusterSpec({"c": Chain(["gpu"], [], 1)}, {})).to_bytes(),
            CorruptStateError,
        ),
    ],
)
def test_what_is_no_saved_allocator_is_refused(data, error):
    with pytest.raises(error, match="data"):
        BuddyAllocator.from_bytes(data)


def test_size_is_within_a_byte_per_leaf():
    allocator = BuddyAllocator([2, 2, 2, 16], roots=64)
    assert sys.getsizeof(allocator) < 64 * 128


def hammer(threads, work):
    """Run `work(number)` in threads that start together; errors of a thread fail the test."""
    failures, barrier = [], threading.Barrier(threads)

    def run(number):
        barrier.wait()
        try:
            work(number)
        except Exception as error:
            failures.append(error)

    crowd = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failures


def test_two_threads_on_one_allocator_never_corrupt_it():
    allocator = BuddyAllocator([2, 2, 3], roots=2000)
    empty = allocator.to_bytes()
    held = [[], []]

    def work(number):
        rng = np.random.default_rng(number)
        for _ in range(40):
            # Batches long enough to run without the GIL, between single calls.
            levels = rng.integers(1, 4, size=6000)
            indices = allocator.allocate_many(levels)
            got = indices >= 0
            singles = []
            with contextlib.suppress(NoFreeCellError):  # the other thread may hold everything
                for level in (1, 2) * 20:
                    singles.append((level, allocator.allocate(level)))
            allocator.release_many(levels[got], indices[got])
            for cell in singles[1:]:
                allocator.release(*cell)
            held[number] += singles[:1]

    hammer(2, work)
    allocator.check()
    cells = held[0] + held[1]
    assert len(cells) == len(set(cells)) > 10
    for cell in cells:
        allocator.release(*cell)
    assert allocator.to_bytes() == empty


def two_tenants():
    return VirtualClusters(
        ClusterSpec(
            {"c": Chain(["gpu", "pair", "node"], [2, 2], roots=4)},
            {"A": {"c": {"node": 2}}, "B": {"c": {"node": 1, "pair": 2}}, "C": {}},
        )
    )


def test_two_threads_on_one_cluster_never_corrupt_it():
    clusters = two_tenants()

    def work(number):
        tenant = "AB"[number]
        for _ in range(300):
            mine = [clusters.allocate(tenant, "c", "gpu") for _ in range(6)]
            with contextlib.suppress(NoFreeCellError):
                clusters.allocate_opportunistic(tenant, "c", "pair")
            assert min(clusters.surplus("c").values()) >= 0
            clusters.release_many(mine)

    hammer(2, work)
    clusters.check()
    assert all(cell.opportunistic for cell in clusters.cells())


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Chain([], [], 1), ValueError, "levels has 0 names"),
        (lambda: Chain("gpu", [], 1), TypeError, "levels must be a sequence, not str"),
        (lambda: Chain(["a", "a"], [2], 1), ValueError, r"levels\[1\]='a': the name is taken"),
        (lambda: Chain(["a", ""], [2], 1), ValueError, r"levels\[1\] must not be empty"),
        (lambda: Chain(["a", 3], [2], 1), TypeError, r"levels\[1\] must be a string, not int"),
        (lambda: Chain(["a", "b"], [], 1), ValueError, "fanouts has 0 entries, 2 levels need 1"),
        (lambda: Chain(["a", "b"], [0], 1), ValueError, r"fanouts\[0\]=0"),
        (lambda: Chain(["a", "b"], [1.5], 1), TypeError, r"fanouts\[0\] must be an integer"),
        (lambda: Chain(["a"], [], 0), ValueError, "roots=0"),
        (lambda: Chain(["a", "b"], [4], 2**30), ValueError, "4294967296 leaves"),
        (lambda: ClusterSpec({}, {}), ValueError, "chains must not be empty"),
        (lambda: ClusterSpec([], {}), TypeError, "chains must be a mapping, not list"),
        (lambda: ClusterSpec({"c": 1}, {}), TypeError, r"chains\['c'\] must be a Chain, not int"),
        (lambda: spec_with({"x": {"gpu": 1}}), KeyError, "no chain 'x', known are"),
        (lambda: spec_with({"c": {"rack": 1}}), KeyError, "no level 'rack', known are"),
        (lambda: spec_with({"c": {"gpu": -1}}), ValueError, r"\['A'\]\['c'\]\['gpu'\]=-1"),
        (lambda: spec_with({"c": {"gpu": 1.0}}), TypeError, r"\['gpu'\] must be an integer"),
        (lambda: spec_with({"c": 1}), TypeError, r"\['c'\] must be a mapping, not int"),
        (lambda: VirtualClusters({}), TypeError, "spec must be a ClusterSpec, not dict"),
        (
            lambda: VirtualClusters(spec_with({"c": {"node": 2, "gpu": 1}})),
            InfeasibleAssignmentError,
            "chain 'c', level 'gpu': 1 cell too few",
        ),
        (
            lambda: VirtualClusters(spec_with({"c": {"node": 5, "gpu": 9}})),
            InfeasibleAssignmentError,
            "chain 'c', level 'node': 3 cells too few",
        ),
    ],
)
def test_a_wrong_specification_is_named(build, error, message):
    with pytest.raises(error, match=message):
        build()


def spec_with(owned):
    return ClusterSpec({"c": Chain(["gpu", "node"], [4], 2)}, {"A": owned})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.allocate("X", "c", "gpu"), KeyError, "virtual_cluster='X': known are"),
        (lambda c: c.allocate("A", "x", "gpu"), KeyError, "chain='x': known are"),
        (lambda c: c.allocate("A", "c", "rack"), KeyError, "level='rack': known are"),
        (lambda c: c.allocate(1, "c", "gpu"), TypeError, "virtual_cluster must be a string"),
        (lambda c: c.allocate("A", None, "gpu"), TypeError, "chain must be a string"),
        (lambda c: c.allocate("A", "c", ["gpu"]), TypeError, "level must be a string, not list"),
        (lambda c: c.allocate_many("A", "c", "gpu", 0), ValueError, "count=0"),
        (lambda c: c.allocate_many("A", "c", "gpu", -3), ValueError, "count=-3"),
        (lambda c: c.allocate_many("A", "c", "gpu", 2**70), ValueError, "count="),
        (lambda c: c.allocate_many("A", "c", "gpu", 1.0), TypeError, "count must be an integer"),
        (lambda c: c.allocate_many("A", "c", "gpu", 2**31), QuotaExceededError, "owns too few"),
        (lambda c: c.allocate("C", "c", "gpu"), QuotaExceededError, "'C' owns too few"),
        (lambda c: c.allocate_opportunistic_many("A", "c", "gpu", 99), NoFreeCellError, "99 idle"),
        (lambda c: c.fits("A", "c", "gpu", "1"), TypeError, "count must be an integer, not str"),
        (lambda c: c.release(1), TypeError, "cell must be a Cell, not int"),
        (lambda c: c.release_many([c.cells()[0]] * 2), NotAllocatedError, "names a cell twice"),
        (lambda c: c.release(replace(c.cells()[0], index=3)), NotAllocatedError, "not allocated"),
        (lambda c: c.release(replace(c.cells()[0], id=77)), NotAllocatedError, "not allocated"),
        (lambda c: c.set_health("c", ("gpu", 16), False), ValueError, r"cells\[1\]=16"),
        (lambda c: c.set_health("c", ("gpu", 1.0), False), TypeError, r"cells\[1\] must be an int"),
        (
            lambda c: c.set_health("c", range(8, 17), False),
            ValueError,
            "not a range of leaves 0 to",
        ),
        (lambda c: c.set_health("c", range(0, 8, 2), False), ValueError, "step 1"),
        (lambda c: c.set_health("c", range(3, 3), False), ValueError, "not a range"),
        (lambda c: c.set_health("c", 3, False), TypeError, "cells must be a range"),
        (lambda c: c.set_health("c", range(3), 1), TypeError, "healthy must be a bool, not int"),
        (lambda c: c.surplus("x"), KeyError, "chain='x'"),
    ],
)
def test_a_wrong_request_is_named_and_changes_nothing(call, error, message):
    clusters = two_tenants()
    clusters.allocate("B", "c", "pair")
    clusters.allocate_opportunistic("A", "c", "gpu")
    before = clusters.to_bytes()
    with pytest.raises(error, match=message):
        call(clusters)
    assert clusters.copy().cells() == clusters.cells()
    released = VirtualClusters.from_bytes(before)
    assert released.surplus("c") == clusters.surplus("c")
    assert released.cells() == clusters.cells()
    clusters.check()


def test_a_cell_of_another_cluster_is_refused():
    ours, theirs = two_tenants(), two_tenants()
    ours.allocate("A", "c", "gpu")
    foreign = theirs.allocate("B", "c", "gpu")
    with pytest.raises(NotAllocatedError):
        ours.release(foreign)


def test_a_preempted_cell_cannot_be_released():
    clusters = two_tenants()
    spare = clusters.allocate_opportunistic_many("B", "c", "node", 4)
    first = clusters.allocate("A", "c", "gpu")
    assert first.preempted == (spare[3],)
    with pytest.raises(NotAllocatedError):
        clusters.release(spare[3])
    clusters.release_many(spare[:3])


def test_what_if_branches_do_not_touch_each_other():
    clusters = two_tenants()
    cell = clusters.allocate("A", "c", "node")
    branch = copy.deepcopy(clusters)
    branch.release(cell)
    assert branch.available("A", "c", "node") == 2
    assert clusters.available("A", "c", "node") == 1
    assert pickle.loads(pickle.dumps(clusters)).cells() == (cell,)


def test_explain_names_the_reason_and_the_cheapest_release():
    clusters = two_tenants()
    assert clusters.explain("C", "c", "gpu").reason == "'C' owns no cell of level 'gpu' or above"
    node, gpu = clusters.allocate("A", "c", "node"), clusters.allocate("A", "c", "gpu")
    clusters.allocate("A", "c", "pair")
    why = clusters.explain("A", "c", "node")
    assert (why.fits, why.available, why.owned) == (False, 0, {"node": 2})
    assert why.release == (clusters.cells()[1], clusters.cells()[2]) != (node,)
    assert why.reason == "no whole 'node' of the cells that 'A' owns is free"
    assert clusters.explain("A", "c", "gpu").fits
    clusters.allocate("A", "c", "gpu")
    assert clusters.explain("A", "c", "gpu").release == (gpu,)
    clusters.release_many(clusters.cells())
    clusters.set_health("c", range(16), False)
    assert "16 leaves of chain 'c' are marked bad" in clusters.explain("A", "c", "gpu").reason


def test_the_caller_cannot_change_the_specification_afterwards():
    chains = {"c": Chain(["gpu", "node"], [4], 2)}
    spec = ClusterSpec(chains, {"A": {"c": {"node": 1}}})
    clusters = VirtualClusters(spec)
    for mine in (spec, clusters.spec):
        mine.chains["c"] = Chain(["gpu", "node"], [4], 2**24)
        mine.virtual_clusters["A"]["c"]["node"] = 7
    with pytest.raises(ValueError, match="not a range of leaves 0 to 7"):
        clusters.set_health("c", range(2**26), False)
    assert clusters.explain("A", "c", "node").owned == {"node": 1}
    assert VirtualClusters.from_bytes(clusters.to_bytes()).spec.chains == chains


def test_a_finalizer_may_release_a_cell_while_the_cluster_is_at_work():
    clusters = two_tenants()

    class Job:
        def __init__(self):
            self.cell = clusters.allocate("A", "c", "gpu")
            self.itself = self  # so that only the garbage collector ends it

        def __del__(self):
            clusters.release(self.cell)

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(50):
            Job()
            while not clusters.fits("A", "c", "gpu"):
                gc.collect()
            clusters.release_many(clusters.allocate_many("B", "c", "gpu", 4))
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert clusters.cells() == ()
    clusters.check()


def test_an_interrupted_request_gives_its_cells_back(monkeypatch):
    clusters = two_tenants()
    spare = clusters.allocate_opportunistic_many("B", "c", "node", 4)
    start, made = clusters.surplus("c"), []

    def interrupted(*fields):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(Cell(*fields))
        return made[-1]

    monkeypatch.setattr("hivecore.cells.virtual_clusters.Cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clusters.allocate_many("A", "c", "gpu", 5)
    monkeypatch.undo()
    clusters.check()
    assert clusters.surplus("c") == start
    assert set(clusters.cells()) < set(spare)
    assert VirtualClusters.from_bytes(clusters.to_bytes()).cells() == clusters.cells()


def test_the_kernel_refuses_to_release_a_handle_twice_and_changes_nothing():
    kernel = _cells.VirtualClusters([([2], 2)], 1, [(0, 0, 1, 2)])
    (first, *_), (second, *_) = kernel.allocate(0, 0, 0, 2)[0]
    before = kernel.save()[0].tolist()
    assert kernel.release_many([first, second, first]) == 2
    assert kernel.release_many([second, first + 5]) == 1
    assert kernel.save()[0].tolist() == before
    kernel.check()
    assert kernel.release_many([first, second]) == -1


def test_a_refused_opportunistic_request_leaves_no_trace():
    clusters = two_tenants()
    clusters.allocate_opportunistic("A", "c", "gpu")
    before = clusters.to_bytes()
    for count in (4, 5, 2**31):
        with pytest.raises(NoFreeCellError):
            clusters.allocate_opportunistic_many("A", "c", "node", count)
        assert clusters.to_bytes() == before


def saved_clusters(slots, free=(), owned=None, chain=(["g", "n"], [4], 32)):
    """Bytes of a state that `to_bytes` need not have written, with a valid envelope."""
    state = {
        "chains": {"c": chain},
        "virtual_clusters": owned or {"A": {"c": {"n": 1}}},
        "slots": slots,
        "free_slots": list(free),
        "order": [slot for slot, values in enumerate(slots) if values[0]],
        "bad_leaves": [[]],
    }
    return seal(b"HCVC", 1, json.dumps(state).encode())


# (live, generation, tenant, chain, level, cell, owned level or -1, virtual cell)
@pytest.mark.parametrize(
    "data",
    [
        saved_clusters([[1, 0, 0, 0, 1, 32, -1, 0]]),
        saved_clusters([[1, 0, 0, 0, 0, 0, 1, 4]]),
        saved_clusters([[1, 0, 0, 0, 0, 3, -1, 0], [1, 0, 0, 0, 0, 3, -1, 0]]),
        saved_clusters([[1, 0, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, -1, 0]]),
        saved_clusters([[1, 0, 0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 1, -1, 0]]),
        saved_clusters([[1, 0, 0, 0, 1, 5, -1, 0], [1, 0, 0, 0, 0, 21, -1, 0]]),
        saved_clusters([[0, 0, 0, 0, 0, 0, -1, 0]]),
        saved_clusters([[0, 0, 0, 0, 0, 0, -1, 0]], free=[0, 0]),
        saved_clusters([[1, 0, 0, 0, 0, 3, -1, 0]], free=[0]),
        saved_clusters([], free=[-1]),
        saved_clusters([], free=[2**40]),
        saved_clusters(
            [[1, 0, 0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0, 0]],
            owned={"A": {"c": {"n": 1, "g": 1}}},
        ),
        saved_clusters([[1, 0, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 4, 1, 1]]),
        saved_clusters(
            [[1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 4, 0, 1]],
            owned={"A": {"c": {"g": 2}}, "B": {"c": {"n": 1}}},
            chain=(["g", "n"], [4], 2),
        ),
        saved_clusters([[1, 0, 0, 0, 0, 0, 0, 0]]),
        saved_clusters([[1, 0, 0, 0, 0, 3.5, -1, 0]]),
        saved_clusters([[1, 0, 9, 0, 0, 3, -1, 0]]),
        seal(b"HCVC", 1, b"[" * 200_000),
        seal(b"HCVC", 1, b"{}"),
    ],
)
def test_impossible_states_of_virtual_clusters_are_refused(data):
    with pytest.raises(CorruptStateError, match="data"):
        VirtualClusters.from_bytes(data)


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack("<IIQQ", 1, 65, 0, 1 << 1),  # a cell past the end of the level
        struct.pack("<IIIQQ", 2, 1, 2, 1, 1),  # a leaf inside an allocated cell
        struct.pack("<IIII", 3, 2**31 + 1, 2**31 + 2, 2**31 + 2),
        struct.pack("<II", 17, 1),
        struct.pack("<II", 0, 1),
        struct.pack("<IIIQQ", 2, 1, 0, 1, 1),
    ],
)
def test_impossible_states_of_an_allocator_are_refused(payload):
    with pytest.raises(CorruptStateError, match="data"):
        BuddyAllocator.from_bytes(seal(b"HCBA", 1, payload))


def test_every_error_is_a_hivecore_error():
    import hivecore.errors as errors

    for name in errors.__all__:
        base = UserWarning if name.endswith("Warning") else HivecoreError
        assert issubclass(getattr(errors, name), base)


def test_a_cell_is_a_plain_value():
    cell = two_tenants().allocate("A", "c", "pair")
    assert isinstance(cell, Cell)
    assert cell == pickle.loads(pickle.dumps(cell))
    assert (cell.leaves, cell.owned_level, cell.opportunistic) == (range(2), "node", False)
