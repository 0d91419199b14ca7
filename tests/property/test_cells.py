"""Kernel == twin: the same operations on both, equal answers, an audit after every step."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
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

from hivecore.cells import BuddyAllocator, Cell, Chain, ClusterSpec, VirtualClusters
from hivecore.errors import (
    HivecoreError,
    InfeasibleAssignmentError,
    NoFreeCellError,
    NoHealthyCellError,
    NotAllocatedError,
    QuotaExceededError,
)
from hivecore.reference.cells import BuddyAllocator as BuddyTwin
from hivecore.reference.cells import VirtualClusters as ClustersTwin

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
        assert saved == self.twin.to_bytes()
        self.kernel = pickle.loads(pickle.dumps(self.kernel))
        self.twin = BuddyTwin.from_bytes(saved)

    @invariant()
    def equal_and_sound(self):
        if not hasattr(self, "kernel"):
            return
        self.kernel.check()
        self.twin.check()
        self.both(lambda a: a.free_counts())
        for level in range(1, self.kernel.levels + 1):
            self.both(lambda a, level=level: a.free_cells(level))


BuddyMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
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


def shrunk_to_fit(spec):
    """The same specification with owned cells taken away until it is feasible."""
    while True:
        try:
            spec.check_feasible()
            return spec
        except InfeasibleAssignmentError:
            owned = {
                tenant: {
                    chain: {level: n // 2 for level, n in cells.items()}
                    for chain, cells in chains.items()
                }
                for tenant, chains in spec.virtual_clusters.items()
            }
            spec = ClusterSpec(spec.chains, owned)


class ClustersMachine(RuleBasedStateMachine):
    @initialize(spec=cluster_specs())
    def build(self, spec):
        self.spec = shrunk_to_fit(spec)
        self.kernel, self.twin = VirtualClusters(self.spec), ClustersTwin(self.spec)
        self.pairs = {}  # the kernel's id -> (the kernel's cell, the twin's cell)

    def some_request(self, data):
        tenant = data.draw(st.sampled_from(sorted(self.spec.virtual_clusters)))
        chain = data.draw(st.sampled_from(sorted(self.spec.chains)))
        return tenant, chain, data.draw(st.sampled_from(self.spec.chains[chain].levels))

    def outcome(self, call):
        try:
            return call()
        except HivecoreError as error:
            return type(error)

    def take_both(self, kernel_call, twin_call):
        ours, theirs = self.outcome(kernel_call), self.outcome(twin_call)
        if isinstance(ours, type):
            assert ours is theirs
            return ours
        assert len(ours) == len(theirs)
        for cell, twin in zip(ours, theirs, strict=True):
            assert cell == replace(twin, id=cell.id)
            gone = [self.pairs.pop(victim.id) for victim in cell.preempted]
            assert [pair[0] for pair in gone] == list(cell.preempted)
            assert [pair[1].id for pair in gone] == [victim.id for victim in twin.preempted]
            self.pairs[cell.id] = (cell, twin)
        return ours

    @rule(data=st.data(), count=st.sampled_from([1, 1, 1, 2, 3]))
    def allocate(self, data, count):
        request = self.some_request(data)
        fits = self.kernel.fits(*request, count)
        assert fits == self.twin.fits(*request, count)
        assert self.kernel.available(*request) == self.twin.available(*request)
        before = self.kernel.to_bytes()
        cells = self.take_both(
            lambda: self.kernel.allocate_many(*request, count),
            lambda: self.twin.allocate_many(*request, count),
        )
        assert fits == (not isinstance(cells, type))
        if not fits:
            assert self.kernel.to_bytes() == before
        bad = self.twin.trees[request[1]].bad
        assert not fits or all(bad.isdisjoint(cell.leaves) for cell in cells)

    @rule(data=st.data(), count=st.sampled_from([1, 1, 1, 2, 3]))
    def allocate_opportunistic(self, data, count):
        request = self.some_request(data)
        before = self.kernel.to_bytes()
        cells = self.take_both(
            lambda: self.kernel.allocate_opportunistic_many(*request, count),
            lambda: self.twin.allocate_opportunistic_many(*request, count),
        )
        if cells is NoFreeCellError:
            assert self.kernel.to_bytes() == before

    @rule(data=st.data(), most=st.integers(1, 4))
    def release(self, data, most):
        if self.pairs:
            ids = data.draw(
                st.lists(
                    st.sampled_from(sorted(self.pairs)), min_size=1, max_size=most, unique=True
                )
            )
            gone = [self.pairs.pop(i) for i in ids]
            self.kernel.release_many(pair[0] for pair in gone)
            self.twin.release_many(pair[1] for pair in gone)
            with pytest.raises(NotAllocatedError):
                self.kernel.release(gone[0][0])

    @rule(data=st.data(), healthy=st.booleans())
    def set_health(self, data, healthy):
        chain = data.draw(st.sampled_from(sorted(self.spec.chains)))
        shape = self.spec.chains[chain]
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, shape.leaves - 1))
            cells = range(start, data.draw(st.integers(start + 1, shape.leaves)))
        else:
            level = data.draw(st.integers(0, len(shape.levels) - 1))
            last = shape.leaves // shape.leaves_per_cell()[level] - 1
            cells = (shape.levels[level], data.draw(st.integers(0, last)))
        self.kernel.set_health(chain, cells, healthy)
        self.twin.set_health(chain, cells, healthy)

    @rule()
    def go_on_with_a_copy(self):
        copied = self.kernel.copy()
        self.kernel.release_many(self.kernel.cells())
        self.kernel = copied

    @rule()
    def go_on_with_the_saved_state(self):
        saved = self.kernel.to_bytes()
        self.kernel = VirtualClusters.from_bytes(saved)
        assert self.kernel.to_bytes() == saved

    @rule(data=st.data())
    def what_is_explained_admits(self, data):
        request = self.some_request(data)
        explanation = self.kernel.explain(*request)
        assert explanation.fits == self.kernel.fits(*request)
        if explanation.release and not self.twin.trees[request[1]].bad:
            branch = self.kernel.copy()
            branch.release_many(explanation.release)
            assert branch.fits(*request)
            assert all(cell.virtual_cluster == request[0] for cell in explanation.release)

    @invariant()
    def equal_and_sound(self):
        if not hasattr(self, "kernel"):
            return
        self.kernel.check()
        self.twin.check()
        assert {cell.id for cell in self.kernel.cells()} == set(self.pairs)
        for chain in self.spec.chains:
            assert self.kernel.surplus(chain) == self.twin.surplus(chain)
            assert min(self.kernel.surplus(chain).values()) >= 0
            assert self.kernel.free_counts(chain).tolist() == self.twin.free_counts(chain)
            assert set(self.kernel.bad_leaves(chain).tolist()) == self.twin.trees[chain].bad


ClustersMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
test_virtual_clusters_do_what_their_twin_does = ClustersMachine.TestCase


@settings(max_examples=100, deadline=None)
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
        VirtualClusters(spec).check()
    else:
        with pytest.raises(InfeasibleAssignmentError):
            VirtualClusters(spec)


def random_feasible_spec(rng):
    fanouts = rng.integers(1, 5, size=rng.integers(1, 5)).tolist()
    chain = Chain([f"l{i}" for i in range(len(fanouts) + 1)], fanouts, int(rng.integers(1, 6)))
    spare = BuddyTwin(fanouts, chain.roots)
    owned = {tenant: {"c": dict.fromkeys(chain.levels, 0)} for tenant in "ABCD"}
    while spare.fits(1):
        level = int(rng.integers(1, spare.levels + 1))
        if spare.fits(level):
            spare.allocate(level)
            owned[rng.choice(list("ABCD"))]["c"][chain.levels[level - 1]] += 1
    return ClusterSpec({"c": chain}, owned)


@pytest.mark.parametrize("seed", range(10))
def test_a_legal_request_is_never_refused(seed):
    """Theorem 1: 10 x 10^4 steps on clusters that are owned to the last leaf.

    Legal is what a private cluster of the tenant's own cells serves, asked from allocators of
    its own. Opportunistic work comes and goes and must never be in the way.
    """
    rng = np.random.default_rng(seed)
    spec = random_feasible_spec(rng)
    clusters, chain = VirtualClusters(spec), spec.chains["c"]
    private = {
        tenant: [
            BuddyAllocator(chain.fanouts[:row], cells["c"][level])
            for row, level in enumerate(chain.levels)
            if cells["c"][level]
        ]
        for tenant, cells in spec.virtual_clusters.items()
    }
    guaranteed: list[tuple[Cell, BuddyAllocator, int, int]] = []
    extra: dict[int, Cell] = {}
    served = 0
    for step in range(10_000):
        tenant, row = rng.choice(list(private)), int(rng.integers(len(chain.levels)))
        action = rng.random()
        if action < 0.5:
            able = [
                (source, pool)
                for source in range(row + 1, len(chain.levels) + 1)
                for pool in private[tenant]
                if pool.levels >= source and len(pool.free_cells(source))
            ]
            assert clusters.fits(tenant, "c", chain.levels[row]) == bool(able)
            if not able:
                with pytest.raises(QuotaExceededError):
                    clusters.allocate(tenant, "c", chain.levels[row])
                continue
            pool = able[0][1]
            cell = clusters.allocate(tenant, "c", chain.levels[row])
            assert cell.virtual_index == pool.allocate(row + 1)
            for victim in cell.preempted:
                assert set(victim.leaves) & set(cell.leaves)
                del extra[victim.id]
            guaranteed.append((cell, pool, row + 1, cell.virtual_index))
            served += 1
        elif action < 0.7:
            try:
                spare = clusters.allocate_opportunistic(tenant, "c", chain.levels[row])
                extra[spare.id] = spare
            except NoFreeCellError:
                pass
        elif action < 0.75 and extra:
            clusters.release(extra.pop(rng.choice(list(extra))))
        elif guaranteed:
            cell, pool, level, index = guaranteed.pop(int(rng.integers(len(guaranteed))))
            clusters.release(cell)
            pool.release(level, index)
        assert min(clusters.surplus("c").values()) >= 0
        if step % 500 == 0:
            clusters.check()
            leaves = [leaf for cell in clusters.cells() for leaf in cell.leaves]
            assert len(leaves) == len(set(leaves))
    assert served > 500


@settings(max_examples=60, deadline=None)
@given(data=st.data(), shape=shapes)
def test_damaged_bytes_of_an_allocator_are_refused_or_mean_another_state(data, shape):
    allocator = BuddyAllocator(*shape)
    allocator.allocate_many(data.draw(st.lists(st.integers(1, allocator.levels), max_size=9)))
    damage(data, allocator.to_bytes(), BuddyAllocator.from_bytes)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), spec=cluster_specs())
def test_damaged_bytes_of_virtual_clusters_are_refused_or_mean_another_state(data, spec):
    clusters = VirtualClusters(shrunk_to_fit(spec))
    for tenant, chains in clusters.spec.virtual_clusters.items():
        for chain, owned in chains.items():
            for level, count in owned.items():
                if count and data.draw(st.booleans()):
                    clusters.allocate(tenant, chain, level)
    damage(data, clusters.to_bytes(), VirtualClusters.from_bytes)


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


def test_every_refusal_of_hardware_names_it():
    spec = ClusterSpec({"c": Chain(["gpu", "node"], [2], 2)}, {"A": {"c": {"node": 2}}})
    clusters = VirtualClusters(spec)
    clusters.set_health("c", ("node", 0), False)
    clusters.allocate("A", "c", "node")
    with pytest.raises(NoHealthyCellError, match="in use or owed to others"):
        clusters.allocate("A", "c", "node")
