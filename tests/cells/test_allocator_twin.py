"""Kernel == twin: the same operations on both, equal answers, an audit after every step."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from profiles import examples

from hivecore.cells import BuddyAllocator, CellCluster, Chain, ClusterSpec
from hivecore.errors import (
    HivecoreError,
    InfeasibleAssignmentError,
    NoFreeCellError,
    NotAllocatedError,
)
from hivecore.reference.cells import BuddyAllocator as BuddyTwin

# Wide fan-outs cross word boundaries of the bitmaps, deep ones fill the levels.
shapes = st.one_of(
    st.tuples(st.lists(st.integers(1, 4), max_size=4), st.integers(1, 4)),
    st.tuples(st.lists(st.integers(1, 2), min_size=5, max_size=15), st.integers(1, 2)).filter(
        lambda shape: np.prod(shape[0]) <= 512
    ),
    st.tuples(st.lists(st.integers(60, 140), min_size=1, max_size=1), st.integers(1, 3)),
    st.tuples(st.just([3, 70]), st.integers(1, 2)),
)


class BuddyMachine(RuleBasedStateMachine):
    held = Bundle("held")

    @initialize(shape=shapes)
    def build(self, shape):
        self.kernel, self.twin = BuddyAllocator(*shape), BuddyTwin(*shape)
        self.sizes = self.twin.sizes

    def both(self, call):
        """The kernel's answer, which must be the twin's, be it a value or an error."""
        answers = []
        for allocator in (self.kernel, self.twin):
            try:
                answers.append(call(allocator))
            except HivecoreError as error:
                answers.append(type(error))
        assert type(answers[0]) is type(answers[1])
        np.testing.assert_array_equal(*answers)
        return answers[0]

    def some_cell(self, data):
        level = data.draw(st.integers(1, self.kernel.levels))
        return level, data.draw(st.integers(0, self.sizes[level] - 1))

    @rule(target=held, data=st.data())
    def allocate(self, data):
        level = data.draw(st.integers(1, self.kernel.levels))
        fits = self.both(lambda a: a.fits(level))
        index = self.both(lambda a: a.allocate(level))
        assert fits == (index is not NoFreeCellError)
        return multiple() if index is NoFreeCellError else (level, index)

    @rule(target=held, data=st.data())
    def allocate_at(self, data):
        cell = self.some_cell(data)
        free = self.both(lambda a: a.is_free(*cell))
        outcome = self.both(lambda a: a.allocate_at(*cell))
        assert free == (outcome is None)
        return cell if free else multiple()

    @rule(target=held, data=st.data())
    def allocate_many(self, data):
        levels = data.draw(st.lists(st.integers(1, self.kernel.levels), max_size=20))
        indices = self.both(lambda a: a.allocate_many(levels))
        return multiple(*((n, int(i)) for n, i in zip(levels, indices, strict=True) if i >= 0))

    @rule(cell=consumes(held))
    def release(self, cell):
        assert self.kernel.is_allocated(*cell)
        self.both(lambda a: a.release(*cell))
        assert self.kernel.is_free(*cell)

    @rule(cells=st.lists(consumes(held), max_size=6))
    def release_many(self, cells):
        levels, indices = [c[0] for c in cells], [c[1] for c in cells]
        self.both(lambda a: a.release_many(levels, indices))

    @rule(data=st.data())
    def release_anything(self, data):
        cell = self.some_cell(data)
        if not self.kernel.is_allocated(*cell):
            before = self.kernel.to_bytes()
            assert self.both(lambda a: a.release(*cell)) is NotAllocatedError
            assert self.both(lambda a: a.release_many([cell[0]], [cell[1]])) is NotAllocatedError
            assert self.kernel.to_bytes() == before

    @rule(cells=st.lists(held, min_size=1, max_size=3))
    def release_one_twice(self, cells):
        cells = [c for c in cells if self.kernel.is_allocated(*c)]
        if cells:
            before = self.kernel.to_bytes()
            levels, indices = [c[0] for c in cells], [c[1] for c in cells]
            with pytest.raises(NotAllocatedError):
                self.kernel.release_many([*levels, levels[0]], [*indices, indices[0]])
            assert self.kernel.to_bytes() == before

    @rule()
    def go_on_with_a_copy(self):
        copied = self.kernel.copy()
        while self.kernel.fits(1):
            self.kernel.allocate(1)
        self.kernel = copied

    @rule()
    def go_on_with_the_saved_state(self):
        saved = self.kernel.to_bytes()
        self.kernel = pickle.loads(pickle.dumps(self.kernel))
        assert self.kernel.to_bytes() == saved

    @invariant()
    def equal_and_sound(self):
        if not hasattr(self, "kernel"):
            return
        self.kernel.check()
        self.twin.check()
        self.both(lambda a: a.free_counts())
        for level in range(1, self.kernel.levels + 1):
            self.both(lambda a, level=level: a.free_cells(level))


BuddyMachine.TestCase.settings = examples(60, stateful_step_count=40)
test_the_allocator_does_what_its_twin_does = BuddyMachine.TestCase


@st.composite
def cluster_specs(draw):
    """Up to two chains and three tenants; assignments that may or may not fit."""
    chains, owned = {}, {tenant: {} for tenant in "ABC"[: draw(st.integers(1, 3))]}
    for name in ["x", "y"][: draw(st.integers(1, 2))]:
        fanouts = draw(st.lists(st.integers(1, 4), max_size=3))
        levels = [f"{name}{i}" for i in range(len(fanouts) + 1)]
        chains[name] = Chain(levels, fanouts, draw(st.integers(1, 3)))
        for cells in owned.values():
            cells[name] = {
                level: draw(st.integers(0, 3 if i else 5)) for i, level in enumerate(levels)
            }
    return ClusterSpec(chains, owned)


@examples(100)
@given(spec=cluster_specs())
def test_an_assignment_is_feasible_exactly_when_filling_the_cluster_top_down_succeeds(spec):
    def can_be_placed():
        for name, chain in spec.chains.items():
            allocator = BuddyTwin(chain.fanouts, chain.roots)
            for level in reversed(range(len(chain.levels))):
                for cells in spec.virtual_clusters.values():
                    for _ in range(cells[name][chain.levels[level]]):
                        if not allocator.fits(level + 1):
                            return False
                        allocator.allocate(level + 1)
        return True

    if can_be_placed():
        CellCluster(spec).check()
    else:
        with pytest.raises(InfeasibleAssignmentError):
            CellCluster(spec)


@examples(60)
@given(data=st.data(), shape=shapes)
def test_damaged_bytes_of_an_allocator_are_refused_or_mean_another_state(data, shape):
    allocator = BuddyAllocator(*shape)
    allocator.allocate_many(data.draw(st.lists(st.integers(1, allocator.levels), max_size=9)))
    damage(data, allocator.to_bytes(), BuddyAllocator.from_bytes)


def damage(data, saved, load):
    """Truncate or flip; then again with a valid checksum, where only the content protects."""
    import struct
    import zlib

    broken = bytearray(saved)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = bytes(saved[: data.draw(st.integers(0, len(saved) - 1))])
    for bad in (cut, bytes(broken)):
        if bad != saved:
            with pytest.raises(HivecoreError):
                load(bad)
    resealed = bytes(broken[:-4]) + struct.pack("<I", zlib.crc32(bytes(broken[:-4])))
    try:
        restored = load(resealed)
    except HivecoreError:
        return
    restored.check()
