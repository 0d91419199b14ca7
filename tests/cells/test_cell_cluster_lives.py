"""A cluster under all that can happen to it: groups, failures, restarts, reconfigurations."""

import random
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from cells.affinity_groups import LEVELS, admitted_by, ask, owned, racks, schedule_and_reserve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples, seeds

from hivecore.cells import AffinityGroup, BuddyAllocator, CellCluster, Chain, ClusterSpec, Member
from hivecore.errors import InfeasibleAssignmentError, StaleDecisionError


@st.composite
def chains(draw):
    depth = draw(st.integers(2, 4))
    levels = LEVELS[:depth] if depth > 2 else ("gpu", "node")
    fanouts = [draw(st.integers(1, 3)) for _ in levels[1:]]
    return Chain(levels, fanouts, draw(st.integers(1, 4)))


@st.composite
def specs(draw, physical=None):
    if physical is None:
        physical = {name: draw(chains()) for name in ("X", "Y")[: draw(st.integers(1, 2))]}
    owned = {"A": {}, "B": {}}
    pinned = {"A": {}, "B": {}}
    for name, chain in physical.items():
        for by_chain in owned.values():
            by_chain[name] = {
                level: draw(st.integers(0, 2)) for level in chain.levels if draw(st.booleans())
            }
        if draw(st.integers(0, 3)) == 0:
            level = draw(st.sampled_from(chain.levels))
            per_cell = chain.leaves_per_cell()[chain.levels.index(level)]
            index = draw(st.integers(0, chain.leaves // per_cell - 1))
            pinned["A"][f"pin-{name}"] = (name, level, index)
    spec = ClusterSpec(physical, owned, pinned)
    while True:  # shrink the assignment until it fits
        try:
            CellCluster(spec)
            return spec
        except InfeasibleAssignmentError:
            cuts = [(t, c, k) for t in owned for c in owned[t] for k in owned[t][c]]
            if not cuts:
                spec = ClusterSpec(physical, owned)
                continue
            tenant, chain, level = cuts[0]
            del owned[tenant][chain][level]
            spec = ClusterSpec(physical, owned, pinned)


def shrunk(draw, spec):
    """Another specification with fewer or other cells, whose nodes keep their names."""
    physical = {}
    for name, chain in spec.chains.items():
        roots = draw(st.integers(1, chain.roots + 1))
        physical[name] = Chain(chain.levels, chain.fanouts, roots, chain.node_level)
    if len(physical) > 1 and draw(st.booleans()):
        physical.popitem()
    return draw(specs(physical))


def groups(name):
    return st.builds(
        AffinityGroup,
        st.just(name),
        st.sampled_from("AB"),
        st.lists(
            st.builds(
                Member,
                st.integers(1, 3),
                st.integers(1, 5),
                st.none() | st.sampled_from(("gpu", "node")),
            ),
            min_size=1,
            max_size=2,
        ),
        priority=st.sampled_from((-1, -1, 0, 0, 1, 5)),
        lazy_preemption=st.booleans(),
        within=st.none() | st.none() | st.sampled_from(("node", "rack")),
        placement=st.sampled_from(("pack", "pack", "spread")),
        merge_siblings=st.booleans(),
        evictions=st.sampled_from((None, None, "least", "private")),
    )


def answer(cluster, group):
    """What a cluster decides for a group, without the identity of the cluster."""
    try:
        decision = cluster.schedule(group)
    except ValueError as error:
        return str(error)
    fields = ("outcome", "reason", "placement", "victims", "cancels", "downgrades")
    return tuple(getattr(decision, field) for field in fields)


def sizes_of(placement):
    return tuple(len(pod.leaves) for pod in placement)


class Cluster(RuleBasedStateMachine):
    @initialize(data=st.data())
    def build(self, data):
        self.spec = data.draw(specs())
        self.cluster = CellCluster(self.spec)
        self.counter = 0
        self.trials = []

    @precondition(lambda self: len(self.trials) < 3)
    @rule()
    def begin_a_trial(self):
        branch, trial = self.cluster.copy(), self.cluster.trial()
        trial.__enter__()
        assert self.cluster.to_bytes() == branch.to_bytes()
        self.trials.append((trial, self.cluster, branch, self.spec))

    @precondition(lambda self: self.trials)
    @rule(data=st.data(), error=st.sampled_from((None, KeyError("inside"))))
    def end_a_trial(self, data, error):
        trial, self.cluster, before, self.spec = self.trials.pop()
        assert not trial.__exit__(type(error), error, None)
        assert self.cluster.groups() == before.groups()
        assert self.cluster.to_bytes() == before.to_bytes()
        for number in range(3):
            group = data.draw(groups(f"probe{number}"))
            if self.known(group):
                assert answer(self.cluster, group) == answer(before, group)
        for chain in self.spec.chains:
            assert self.cluster.leaf_groups(chain) == before.leaf_groups(chain)
            assert self.cluster.surplus(chain) == before.surplus(chain)

    def nodes(self):
        return [node for trees in [self.cluster.spec.chains] for node in self.node_names(trees)]

    @staticmethod
    def node_names(physical):
        for name, chain in physical.items():
            per_node = chain.leaves_per_cell()[chain.levels.index(chain.node_level)]
            yield from (f"{name}/{i}" for i in range(chain.leaves // per_node))

    def known(self, group):
        levels = {level for chain in self.cluster.spec.chains.values() for level in chain.levels}
        request = {group.within} | {member.within for member in group.members}
        return request - {None} <= levels

    @rule(data=st.data(), reserve=st.sampled_from((False, False, True)))
    def ask(self, data, reserve):
        self.counter += 1
        group = data.draw(groups(f"g{self.counter}"))
        if not self.known(group):
            return
        pins = self.spec.pinned_cells.get(group.virtual_cluster, {})
        if pins and group.priority >= 0 and data.draw(st.booleans()):
            group = group.replace(pinned_cell=next(iter(pins)))
        suggested = None
        if data.draw(st.integers(0, 3)) == 0:
            suggested = data.draw(st.lists(st.sampled_from(self.nodes()), unique=True))
        most = None
        if data.draw(st.integers(0, 3)) == 0:
            most = [data.draw(st.integers(0, 3)) for _ in self.cluster.nodes]
        before = self.cluster.to_bytes()
        try:
            decision = self.cluster.schedule(group, suggested_nodes=suggested, most=most)
        except ValueError as error:
            assert "can never be served" in str(error)
            assert self.cluster.to_bytes() == before
            assert self.never_fits(group)
            return
        if decision.outcome == "wait":
            assert not self.never_fits(group)
        if suggested is most is None:
            assert self.cluster.fits(group) == (decision.outcome == "bind")
        assert self.cluster.to_bytes() == before
        bad = set(self.cluster.bad_leaves())
        if decision.outcome == "wait":
            assert decision.placement == ()
            assert decision.reason
            return
        assert sizes_of(decision.placement) == group.sizes
        for pod in decision.placement:
            assert not bad & {(pod.node, device) for device in pod.leaf_indices}
            assert suggested is None or pod.node in suggested
        if most is not None:
            limits = dict(zip(self.cluster.nodes, most, strict=True))
            pods_on = Counter(pod.node for pod in decision.placement)
            assert all(pods <= limits[node] for node, pods in pods_on.items())
        if decision.outcome == "preempt":
            live = {name: self.cluster.group(name) for name in decision.victims}
            assert live
            for status in live.values():
                weaker = status.group.priority < group.priority
                own = status.group.virtual_cluster == group.virtual_cluster
                assert weaker if own and status.guaranteed else not status.guaranteed
            if reserve:
                self.cluster.reserve(decision)
            return
        if data.draw(st.integers(0, 4)):
            self.cluster.commit(decision)
            assert self.cluster.group(group.name).placement == decision.placement
            for name in decision.downgrades:
                assert self.cluster.group(name).lazy_preempted_by == group.name

    @rule(data=st.data())
    def make_way_for_a_preemptor(self, data):
        waiting = [n for n in self.cluster.groups() if self.state(n) == "Preempting"]
        if not waiting:
            return
        name = data.draw(st.sampled_from(waiting))
        status = self.cluster.group(name)
        for victim in status.victims:
            self.cluster.release(victim)
        if self.is_bad(status.placement):
            return
        decision = self.cluster.schedule(status.group)
        assert decision.outcome == "bind"
        self.cluster.commit(decision)
        assert self.state(name) != "Preempting"
        assert self.cluster.group(name).placement == status.placement

    def never_fits(self, group):
        """Whether some pod is larger than a node, or what it must be within, wherever it may be."""
        spec, tenant = self.cluster.spec, group.virtual_cluster
        chains = [
            name
            for name in spec.chains
            if group.priority < 0 or any(spec.virtual_clusters[tenant].get(name, {}).values())
        ]
        if group.pinned_cell is not None:
            chains = [spec.pinned_cells[tenant][group.pinned_cell][0]]
        fits = [self.fits_somewhere(group, spec.chains[name]) for name in chains]
        return False in fits and True not in fits

    def fits_somewhere(self, group, chain):
        """None: the chain lacks a level that the group names."""
        per_cell = dict(zip(chain.levels, chain.leaves_per_cell(), strict=True))
        if not {group.within, *(member.within for member in group.members)} - {None} <= {*per_cell}:
            return None
        return all(
            member.leaves <= per_cell[level]
            for member in group.members
            for level in (member.within, group.within, chain.node_level)
            if level
        )

    def is_bad(self, placement):
        bad = set(self.cluster.bad_leaves())
        return any((pod.node, device) in bad for pod in placement for device in pod.leaf_indices)

    @precondition(lambda self: self.cluster.groups())
    @rule(data=st.data())
    def reserve_what_a_group_has(self, data):
        self.counter += 1
        name = data.draw(st.sampled_from(self.cluster.groups()))
        group = self.cluster.group(name).group.replace(
            name=f"g{self.counter}",
            virtual_cluster=data.draw(st.sampled_from("AB")),
            priority=9,
            pinned_cell=None,
        )
        if self.known(group):
            with suppress(ValueError):  # a pod may be larger than the nodes that are left
                schedule_and_reserve(self.cluster, group)

    @precondition(lambda self: any(self.state(n) == "Preempting" for n in self.cluster.groups()))
    @rule(data=st.data(), evict=st.booleans(), sick=st.booleans())
    def ask_again_for_a_reservation(self, data, evict, sick):
        """No answer is on bad hardware, no bind on nodes that are not suggested."""
        cluster = self.cluster
        waiting = [n for n in cluster.groups() if self.state(n) == "Preempting"]
        status = cluster.group(data.draw(st.sampled_from(waiting)))
        group = status.group
        if evict:
            for victim in status.victims:
                cluster.release(victim)
        if sick:
            pod = data.draw(st.sampled_from(status.placement))
            cluster.set_health(
                pod.node, False, leaf_index=data.draw(st.sampled_from(pod.leaf_indices))
            )
        suggested = None
        if data.draw(st.booleans()):
            suggested = data.draw(st.lists(st.sampled_from(self.nodes()), unique=True))
        before = cluster.to_bytes()
        decision = cluster.schedule(group, suggested_nodes=suggested)
        assert cluster.to_bytes() == before
        assert not self.is_bad(decision.placement)
        if decision.outcome != "bind":
            return
        assert suggested is None or {pod.node for pod in decision.placement} <= set(suggested)
        if data.draw(st.booleans()):
            pod = data.draw(st.sampled_from(decision.placement))
            cluster.set_health(pod.node, False)
            before = cluster.to_bytes()
            with pytest.raises(StaleDecisionError):
                cluster.commit(decision)
            assert cluster.to_bytes() == before
        else:
            cluster.commit(decision)
            assert self.state(group.name) != "Preempting"
            assert cluster.group(group.name).placement == decision.placement

    def state(self, name):
        return self.cluster.group(name).state

    @rule(data=st.data())
    def release(self, data):
        if self.cluster.groups():
            self.cluster.release(data.draw(st.sampled_from(self.cluster.groups())))

    @rule(data=st.data())
    def cancel(self, data):
        waiting = [n for n in self.cluster.groups() if self.state(n) == "Preempting"]
        if waiting:
            self.cluster.cancel(data.draw(st.sampled_from(waiting)))

    @rule(data=st.data(), healthy=st.booleans())
    def node_event(self, data, healthy):
        self.cluster.set_health(data.draw(st.sampled_from(self.nodes())), healthy)

    @rule(data=st.data())
    def leaf_event(self, data):
        node = data.draw(st.sampled_from(self.nodes()))
        self.cluster.set_health(node, data.draw(st.booleans()), leaf_index=0)

    @rule()
    def restart_from_bytes(self):
        data = self.cluster.to_bytes()
        twin = CellCluster.from_bytes(data)
        assert twin.to_bytes() == data
        self.cluster = twin

    @rule(data=st.data())
    def restart_from_bind_records(self, data):
        fresh = CellCluster(self.cluster.spec)
        for node, device in self.cluster.bad_leaves():
            fresh.set_health(node, False, leaf_index=device)
        running = [n for n in self.cluster.groups() if self.state(n) != "Preempting"]
        before = {name: self.cluster.group(name) for name in running}
        torn = any(sizes_of(s.placement) != s.group.sizes for s in before.values())
        reserved = len(running) < len(self.cluster.groups())
        if torn:
            return
        for name in data.draw(st.permutations(running)):
            recovery = fresh.recover(before[name].group, before[name].placement)
            assert not recovery.lost
            if not reserved:
                assert not recovery.displaced
                wanted = before[name].group.priority >= 0
                assert recovery.downgraded == (wanted and not before[name].guaranteed)
        for name in running:
            now = fresh.group(name)
            assert [p.leaf_indices for p in now.placement] == [
                p.leaf_indices for p in before[name].placement
            ]
        self.cluster = fresh

    @rule(data=st.data())
    def reconfigure(self, data):
        spec = shrunk(data.draw, self.cluster.spec)
        before = self.occupied()
        running = [n for n in self.cluster.groups() if self.state(n) != "Preempting"]
        changes = self.cluster.reconfigure(spec)
        assert self.cluster.groups() == tuple(running)
        lost = {place for places in changes.lost.values() for place in places}
        after = self.occupied()
        kept = {place: name for place, name in before.items() if place not in lost}
        assert kept.items() <= after.items()
        for name in changes.downgraded:
            assert not self.cluster.group(name).guaranteed
        self.spec = spec

    @rule()
    def a_branch_is_independent(self):
        before = self.cluster.to_bytes()
        branch = self.cluster.copy()
        for name in branch.groups():
            if branch.group(name) is not None:
                branch.release(name)
        branch.check()
        assert self.cluster.to_bytes() == before

    def occupied(self):
        return {
            (pod.node, device): name
            for name in self.cluster.groups()
            if self.state(name) != "Preempting"
            for pod in self.cluster.group(name).placement
            for device in pod.leaf_indices
        }

    @invariant()
    def sound(self):
        if not hasattr(self, "cluster"):
            return
        self.cluster.check()
        taken = []
        for name in self.cluster.groups():
            status = self.cluster.group(name)
            if status.state != "Preempting":
                taken += [(pod.node, d) for pod in status.placement for d in pod.leaf_indices]
        assert len(taken) == len(set(taken))
        users = [name for c in self.cluster.spec.chains for name in self.cluster.leaf_groups(c)[0]]
        assert Counter(users) - Counter([None] * len(users)) == Counter(self.occupied().values())
        names = (*self.cluster.groups(), None)
        for chain in self.cluster.spec.chains:
            assert min(self.cluster.surplus(chain).values()) >= 0
            numbers = self.cluster.leaf_group_numbers(chain)
            named = tuple([names[number] for number in row.tolist()] for row in numbers)
            assert named == self.cluster.leaf_groups(chain)

    def teardown(self):
        if not hasattr(self, "cluster"):
            return
        while self.trials:
            trial, self.cluster, before, self.spec = self.trials.pop()
            trial.__exit__(None, None, None)
            assert self.cluster.to_bytes() == before.to_bytes()
        for name in self.cluster.groups():
            self.cluster.release(name)
        for node in self.nodes():
            self.cluster.set_health(node, True)
        self.cluster.check()
        assert self.cluster.to_bytes() == CellCluster(self.cluster.spec).to_bytes()
        fresh = CellCluster(self.cluster.spec)
        for chain, by_level in fresh.free_cells().items():
            for level, cells in by_level.items():
                assert cells.tolist() == self.cluster.free_cells()[chain][level].tolist()
        assert self.cluster.unused_cells() == fresh.unused_cells()


Cluster.TestCase.settings = examples(200, stateful_step_count=30)
TestCluster = Cluster.TestCase


def owned_to_the_last_leaf(rng):
    fanouts = rng.integers(1, 5, size=rng.integers(2, 5)).tolist()
    levels = [f"level {i}" for i in range(len(fanouts) + 1)]
    chain = Chain(levels, fanouts, int(rng.integers(1, 6)), node_level=levels[2])
    spare = BuddyAllocator(fanouts, chain.roots)
    owned = {tenant: {"c": dict.fromkeys(levels, 0)} for tenant in "ABCD"}
    while spare.fits(1):
        level = int(rng.integers(1, spare.levels + 1))
        if spare.fits(level):
            spare.allocate(level)
            owned[rng.choice(list("ABCD"))]["c"][levels[level - 1]] += 1
    return ClusterSpec({"c": chain}, owned)


def clusters_of_their_own(spec):
    return {
        tenant: CellCluster(ClusterSpec(spec.chains, {tenant: owned}))
        for tenant, owned in spec.virtual_clusters.items()
    }


@pytest.mark.parametrize("seed", seeds(10))
def test_tenants_get_what_they_get_in_a_cluster_of_their_own(seed):
    """Theorem 1 of HiveD, and more: the same of their cells, too."""
    rng = np.random.default_rng(seed)
    spec = owned_to_the_last_leaf(rng)
    node = spec.chains["c"].leaves_per_cell()[2]
    shared = CellCluster(spec)
    private = clusters_of_their_own(spec)
    live, served = [], 0
    for step in range(1000):
        tenant = str(rng.choice(list(private)))
        if live and rng.random() < 0.45:
            name, owner = live.pop(int(rng.integers(len(live))))
            shared.release(name)
            private[owner].release(name)
            continue
        pods, leaves = int(rng.choice([1, 1, 1, 2, 3])), int(rng.integers(1, node + 1))
        group = AffinityGroup(f"{step}", tenant, [(pods, leaves)])
        ours, alone = shared.schedule(group), private[tenant].schedule(group)
        assert ours.outcome == alone.outcome
        assert ours.refusals == alone.refusals
        if ours.outcome == "bind":
            assert [pod.preassigned for pod in ours.placement] == [
                pod.preassigned for pod in alone.placement
            ]
            shared.commit(ours)
            private[tenant].commit(alone)
            live.append((group.name, tenant))
            served += 1
        assert min(shared.surplus("c").values()) >= 0
        if step % 100 == 0:
            shared.check()
    assert served > 50


@pytest.mark.parametrize("seed", seeds(20))
def test_as_in_a_private_cluster_whatever_runs_on_idle_cells(seed):
    """The same with opportunistic groups in the way, and groups that have to be in one cell."""
    rng = np.random.default_rng(seed)
    spec = owned_to_the_last_leaf(rng)
    chain = spec.chains["c"]
    per_cell = chain.leaves_per_cell()
    shared = CellCluster(spec, evictions="private")
    private = clusters_of_their_own(spec)
    live: dict[str, str | None] = {}  # the tenant; None: a guest
    evicted = waited = 0
    for step in range(600):
        if live and rng.random() < 0.45:
            name = str(rng.choice(list(live)))
            owner = live.pop(name)
            shared.release(name)
            if owner is not None:
                private[owner].release(name)
            continue
        tenant, guest = str(rng.choice(list(private))), rng.random() < 0.4
        pods, leaves = int(rng.choice([1, 1, 1, 2, 3])), int(rng.integers(1, per_cell[2] + 1))
        members = [(pods, leaves)]
        if rng.random() < 0.3:
            members.append((1, int(rng.integers(1, per_cell[2] + 1))))
        total = sum(pods * leaves for pods, leaves in members)
        above = [
            level
            for level, width in zip(chain.levels[2:], per_cell[2:], strict=True)
            if width >= total
        ]
        within = str(rng.choice(above)) if above and rng.random() < 0.3 else None
        options = {"priority": -1 if guest else 0, "within": within}
        group = AffinityGroup(f"{step}", tenant, members, **options)
        ours = shared.schedule(group)
        if guest:
            if ours.outcome == "bind":
                shared.commit(ours)
                live[group.name] = None
            continue
        alone = private[tenant].schedule(group)
        while ours.victims:
            for victim in ours.victims:
                assert live.pop(victim) is None
                shared.release(victim)
                evicted += 1
            ours = shared.schedule(group)
        assert (ours.outcome, ours.refusals) == (alone.outcome, alone.refusals)
        if ours.outcome == "wait":
            waited += 1
            continue
        assert [pod.preassigned for pod in ours.placement] == [
            pod.preassigned for pod in alone.placement
        ]
        shared.commit(ours)
        private[tenant].commit(alone)
        live[group.name] = tenant
    shared.check()
    assert evicted + waited > 0


@pytest.mark.parametrize("seed", seeds(10))
def test_no_group_gets_more_than_is_available_and_a_release_adds_at_most_its_leaves(seed):
    rng = random.Random(seed)
    spec = owned_to_the_last_leaf(np.random.default_rng(seed))
    cluster, sizes = CellCluster(spec), {}
    node = spec.chains["c"].leaves_per_cell()[2]
    for step in range(200):
        group = AffinityGroup(
            f"{step}",
            rng.choice("ABCD"),
            [(rng.choice([1, 1, 2, 3]), rng.randint(1, node))],
            priority=rng.choice([-1, 0, 1]),
        )
        available = cluster.available(group)
        decision = cluster.schedule(group)
        if decision.outcome == "bind":
            assert sum(group.sizes) <= available
            cluster.commit(decision)
            sizes[group.name] = sum(group.sizes)
        elif sizes:
            name = rng.choice(list(sizes))
            cluster.release(name)
            assert available <= cluster.available(group) <= available + sizes.pop(name)


@pytest.mark.parametrize("seed", seeds(15))
def test_every_proposed_change_admits_the_group_and_the_cheapest_comes_first(seed):
    rng = random.Random(seed)
    spec = owned({"A": {"rack": 1, "node": 1}, "B": {"pair": 2}}, racks(2, (4, 2, 2)))
    cluster = CellCluster(spec)
    for i in range(12):
        members = [(rng.randint(1, 2), rng.choice([1, 2, 3, 4, 8]))]
        decision = ask(cluster, f"g{i}", rng.choice("AAB"), members, priority=rng.randint(-1, 2))
        if decision.outcome == "bind":
            cluster.commit(decision)
    if rng.random() < 0.5:
        cluster.set_health(f"c/{rng.randrange(4)}", False)
    before = cluster.to_bytes()
    for _ in range(6):
        options = {"within": rng.choice([None, "pair", "rack"]), "priority": rng.randint(-1, 2)}
        group = AffinityGroup("new", rng.choice("AB"), [(rng.randint(1, 2), 4)], **options)
        if cluster.schedule(group).outcome == "bind":
            continue
        explanation = cluster.explain(group)
        assert explanation.outcome in ("wait", "preempt")
        assert explanation.reason
        assert all(admitted_by(cluster, change) for change in explanation.changes)
        costs = [(change.relaxed == ("priority",), change.cost) for change in explanation.changes]
        assert costs == sorted(costs)
        assert explanation.cheapest == (explanation.changes[0] if explanation.changes else None)
        assert cluster.to_bytes() == before


@pytest.mark.parametrize("priority", [-1, 0])
def test_a_gang_waits_only_where_no_placement_keeps_to_what_nodes_may_get(priority):
    """Pods of single leaves: what is idle and what nodes may get are all that there is."""
    outcomes = Counter()
    for seed in seeds(200):
        rng = random.Random(seed)
        fanouts = rng.choice([(2, 2), (2, 2, 2)])
        chain = Chain(LEVELS[: len(fanouts) + 1], fanouts, 4)
        level = rng.choice(chain.levels[2:])
        owns = 4 if level == chain.levels[-1] else 8
        cluster = CellCluster(owned({"A": {level: owns}}, chain))
        idle = dict.fromkeys(cluster.nodes, 4)
        for number, node in enumerate(rng.choices(cluster.nodes, k=rng.randint(0, len(idle)))):
            leaves = rng.randint(1, 3)
            other = AffinityGroup(f"o{number}", "A", [(1, leaves)], priority=priority)
            decision = cluster.schedule(other, suggested_nodes=[node])
            if decision.outcome == "bind":
                cluster.commit(decision)
                idle[node] -= leaves
        most = [rng.choice([0, 1, 1, 2, 3, 4]) for _ in cluster.nodes]
        room = sum(map(min, idle.values(), most))
        gang = AffinityGroup("gang", "A", [(rng.randint(1, 12), 1)], priority=priority)
        decision = cluster.schedule(gang, most=most)
        assert (decision.outcome == "bind") == (room >= len(gang.sizes)), seed
        outcomes[decision.outcome] += 1
    assert len(outcomes) == 2
