"""Errors, limits, and the use by several threads of allocator and virtual clusters."""

import contextlib
import struct
import sys
import threading

import numpy as np
import pytest

from hivecore._sealed import seal
from hivecore.cells import BuddyAllocator, CellCluster, Chain, ClusterSpec
from hivecore.errors import (
    CorruptStateError,
    HivecoreError,
    InfeasibleAssignmentError,
    NoFreeCellError,
    NotAllocatedError,
)


@pytest.fixture
def allocator():
    """Two nodes of two pairs; GPU 0 and node 1 are taken."""
    created = BuddyAllocator([2, 2], roots=2)
    assert (created.allocate(1), created.allocate(3)) == (0, 1)
    return created


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
        (lambda: CellCluster({}), TypeError, "spec must be a ClusterSpec, not dict"),
        (
            lambda: CellCluster(spec_with({"c": {"node": 2, "gpu": 1}})),
            InfeasibleAssignmentError,
            "chain 'c', level 'gpu': 1 cell too few",
        ),
        (
            lambda: CellCluster(spec_with({"c": {"node": 5, "gpu": 9}})),
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
