"""The defects of HiveD that were reproduced by running it, each as a test of the right behaviour.

D1 ... D12 number them. The families at the end are random traces of the kinds that killed it:
with failing nodes, with failures and restarts, and with a chain that nobody owns.
"""

import itertools
import random

import pytest
from interop.hived.clusters import FLAT, TREE, Hived, config, flat, node, nodes, rack, rack_of
from profiles import seeds

from hivecore.interop.hived import HivedScheduler

ROWS = {**TREE, "ROW": (2, "RACK")}


def rows(count, tenants):
    """Rows of two racks of two nodes: n0 ... n3 in row 0."""
    names = [{"cellAddress": f"n{i}"} for i in range(4 * count)]
    halves = [{"cellChildren": names[i : i + 2]} for i in range(0, 4 * count, 2)]
    cells = [{"cellType": "ROW", "cellChildren": halves[2 * i : 2 * i + 2]} for i in range(count)]
    return Hived(config(ROWS, cells, tenants))


def neighbour(name):
    return f"n{int(name[1:]) ^ 1}"


# --- D1


def test_d1_a_relaxed_split_leaves_every_level_in_between_what_it_owes():
    """2 rows, 4 racks, 8 nodes: 3 racks are owed, so no split may start from the spare row."""
    tenants = {"A": {"ROW.RACK.NODE": 1}, "B": {"ROW.RACK": 3}, "C": {"ROW.RACK.NODE": 1}}
    hived = rows(2, tenants)
    bad = neighbour(hived.run("c", "C", 4).node)
    hived.fail(bad)
    assert hived.ask("a", "A", 4).outcome == "wait"
    for i in range(3):
        gang = hived.gang(f"b{i}", "B", [(2, 4)])
        assert len({rack_of(place.node) for place in gang}) == 1
    hived.heal(bad)
    assert hived.run("a", "A", 4).node == bad


def test_d1_a_relaxed_split_is_made_where_every_level_in_between_can_spare_it():
    tenants = {"A": {"ROW.RACK.NODE": 1}, "B": {"ROW.RACK": 2}, "C": {"ROW.RACK.NODE": 1}}
    hived = rows(2, tenants)
    bad = neighbour(hived.run("c", "C", 4).node)
    hived.fail(bad)
    assert rack_of(hived.run("a", "A", 4).node) != rack_of(bad)
    for i in range(2):
        hived.gang(f"b{i}", "B", [(2, 4)])


def test_d1_the_levels_in_between_hold_for_a_whole_gang():
    """One rack can be spared, and both nodes that are asked find their place in it."""
    tenants = {"A": {"ROW.RACK.NODE": 2}, "B": {"ROW.RACK": 2}, "C": {"ROW.RACK.NODE": 1}}
    hived = rows(2, tenants)
    bad = neighbour(hived.run("c", "C", 4).node)
    hived.fail(bad)
    places = hived.gang("a", "A", [(2, 4)])
    assert {rack_of(place.node) for place in places}.isdisjoint({rack_of(bad)})
    assert rack_of(places[0].node) == rack_of(places[1].node)
    for i in range(2):
        hived.gang(f"b{i}", "B", [(2, 4)])


# --- D2


@pytest.mark.parametrize("order", [("p0", "p1"), ("p1", "p0")])
@pytest.mark.parametrize("bad", [(), ("n0",), ("n1", "n3"), ("n0", "n1", "n2", "n3")])
def test_d2_a_replay_after_a_shrunk_assignment_downgrades_what_would_break_safety(order, bad):
    cells = [rack("n0", "n1"), rack("n2", "n3")]
    hived = Hived(config(TREE, cells, {"A": {"RACK.NODE": 4}}))
    for i in range(4):
        hived.run(f"j{i}", "A", 4)
    on = {rack_of(place.node): pod for pod, place in hived.running.items()}
    hived.gone(*(pod for pod in list(hived.running) if pod not in on.values()))
    names = dict(zip(("p0", "p1"), sorted(on.values()), strict=True))
    document = config(TREE, cells, {"A": {"RACK.NODE": 2}, "B": {"RACK": 1}})
    new = hived.restarted(document, [names[pod] for pod in order], bad=bad)
    kept, lost = names["p0"], names["p1"]  # of equal ones the first, in whatever order they come
    assert new.group(kept)["guaranteed"]
    assert not new.group(lost)["guaranteed"]
    new.heal(*bad)
    decision = new.preempting("b/0", "B", 4, members=[(2, 4)])
    assert list(decision.victims) == [lost]
    new.gone(lost)
    gang = new.gang("b", "B", [(2, 4)])
    assert {rack_of(place.node) for place in gang} == {1 - rack_of(new.running[kept].node)}
    new.claim("A", 4)
    new.gone(*list(new.running))
    assert new.free() == Hived(document).free()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_d2_a_replay_into_no_cells_at_all_is_survived(order):
    hived = flat(3, {"A": {"NODE": 3}})
    for i in range(3):
        hived.run(f"a{i}", "A", 4)
    document = config(FLAT, nodes("n0", "n1", "n2"), {"B": {"NODE": 3}})
    new = hived.restarted(document, [f"a{i}" for i in order])
    assert not any(new.group(pod)["guaranteed"] for pod in new.running)
    new.claim("B", 4, 4, 4)


# --- D3


def test_d3_a_bind_onto_reserved_cells_ends_the_lower_preemption():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("low", "A", 4)
    hived.preempting("mid", "A", 4, priority=1)
    hived.gone("low")
    hived.allocate("high", hived.ask("high", "A", 4, priority=2))
    assert hived.group("mid") is None
    for phase in ("Filtering", "Preempting"):
        assert hived.ask("mid", "A", 4, priority=1, phase=phase).outcome == "wait"
    assert hived.state("high") == "Allocated"
    hived.gone("high")
    hived.allocate("mid", hived.preempting("mid", "A", 4, priority=1))


def test_d3_the_cells_that_the_higher_pod_leaves_alone_are_given_back_too():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low", "A", 4)
    asked = {"members": [(2, 4)], "priority": 1}
    assert list(hived.preempting("mid/0", "A", 4, **asked).victims) == ["low"]
    hived.gone("low")
    hived.allocate("high", hived.ask("high", "A", 4, priority=2))
    assert hived.group("mid") is None
    hived.claim("A", 4)
    assert hived.state("high") == "Allocated"


# --- D4


@pytest.mark.parametrize("heal_first", [False, True])
@pytest.mark.parametrize("priority", [-1, 0])
def test_d4_a_pod_whose_node_failed_can_be_deleted(heal_first, priority):
    tenants = {"A": {"NODE": 1}, "B": {"NODE": 1}}
    hived = flat(2, tenants)
    hived.run("p", "B", 4, priority=priority)
    hived.fail("n0", "n1")
    hived.ask("a", "A", 1)
    if heal_first:
        hived.heal("n0", "n1")
        hived.gone("p")
    else:
        hived.gone("p")
        hived.heal("n0", "n1")
    assert hived.free() == {("NODE", "NODE"): ["n0", "n1"]}
    hived.claim("A", 4)
    hived.claim("B", 4)


def test_d4_the_cell_below_an_opportunistic_pod_may_be_bound_and_fail_in_any_order():
    for steps in itertools.permutations(["fail", "own", "delete", "heal"]):
        if steps.index("fail") > steps.index("heal"):
            continue
        hived = flat(1, {"A": {"NODE": 1}})
        hived.run("o", "A", 2, priority=-1)
        for step in steps:
            if step == "fail":
                hived.fail("n0")
            elif step == "heal":
                hived.heal("n0")
            elif step == "delete":
                hived.gone("o")
            else:
                decision = hived.ask("a", "A", 2)
                assert decision.outcome == ("wait" if hived.bad else "bind")
                if decision.outcome == "bind":
                    hived.allocate("a", decision)
        hived.gone(*list(hived.running))
        assert hived.free() == {("NODE", "NODE"): ["n0"]}
        hived.claim("A", 4)


# --- D5


@pytest.mark.parametrize("flaps", [1, 2, 5])
@pytest.mark.parametrize("priority", [-1, 0])
def test_d5_a_node_may_flap_under_a_running_pod(flaps, priority):
    hived = flat(2, {"A": {"NODE": 1}, "B": {"NODE": 1}})
    name = hived.run("p", "A", 2, priority=priority).node
    (other,) = {"n0", "n1"} - {name}
    for _ in range(flaps):
        hived.fail(name, other)
        hived.heal(name)
        hived.fail(name)
        hived.heal(name, other)
    hived.gone("p")
    hived.fail(name)
    hived.fail(other)
    hived.heal(other)
    hived.heal(name)
    assert hived.free() == {("NODE", "NODE"): ["n0", "n1"]}
    hived.claim("A", 4)
    hived.claim("B", 4)


def test_d5_a_pod_recovered_onto_a_bad_node_leaks_nothing():
    document = config(FLAT, nodes("n0", "n1"), {"A": {"NODE": 1}, "B": {"NODE": 1}})
    hived = Hived(document)
    name = hived.run("p", "A", 4).node
    new = hived.restarted(document, bad=["n0", "n1"])
    assert new.group("p")["guaranteed"]
    new.heal(name)
    new.gone("p")
    new.fail(name)
    new.heal("n0", "n1")
    assert new.free() == {("NODE", "NODE"): ["n0", "n1"]}
    new.claim("A", 4)
    new.claim("B", 4)


# --- D6


@pytest.mark.parametrize("priority", [0, -1])
def test_d6_a_gang_is_placed_whenever_that_is_possible(priority):
    """Free are 3 | 4 GPUs, wanted 1 + 3 + 3: the small pod has to go with a large one into 4."""
    hived = flat(2, {"A": {"NODE": 2}})
    taken = hived.run("one", "A", 1, priority=priority)
    places = hived.gang("g", "A", [(1, 1), (2, 3)], priority=priority)
    assert places[0].node != taken.node
    assert {places[1].node, places[2].node} == {"n0", "n1"}


@pytest.mark.parametrize("seed", seeds(12))
def test_d6_packing_is_complete_on_random_free_counts(seed):
    """Against a search over all assignments of pods to nodes."""
    rng = random.Random(seed)
    counts = [rng.randint(0, 8) for _ in range(3)]
    sizes = [rng.randint(1, 5) for _ in range(rng.randint(2, 4))]
    possible = any(
        all(
            sum(size for size, where in zip(sizes, spots, strict=True) if where == i) <= free
            for i, free in enumerate(counts)
        )
        for spots in itertools.product(range(3), repeat=len(sizes))
    )
    for priority in (0, -1):
        cells = nodes("n0", "n1", "n2")
        hived = Hived(config({"NODE": (8, "GPU")}, cells, {"A": {"NODE": 3}}))
        for i, free in enumerate(counts):
            if free < 8:
                only = {"ignore": False, "suggested": [f"n{i}"]}
                hived.run(f"fill{i}", "A", 8 - free, priority=priority, **only)
        asked = {"members": [(1, size) for size in sizes], "priority": priority}
        decision = hived.ask("g/0", "A", sizes[0], **asked)
        assert (decision.outcome == "bind") == possible
        if possible:
            for i, size in enumerate(sizes):
                hived.run(f"g/{i}", "A", size, **asked)


# --- D7


@pytest.mark.parametrize("wanted", [15, 16, 24, 30])
def test_d7_gpus_are_chosen_in_a_large_node_with_almost_all_free(wanted):
    """32 GPUs, two taken: enumerating the subsets would take half a minute and more."""
    types = {
        "PAIR": (2, "GPU"),
        "QUAD": (2, "PAIR"),
        "HALF": (2, "QUAD"),
        "SOCKET": (2, "HALF"),
        "NODE": (2, "SOCKET"),
    }
    hived = Hived(config(types, nodes("n0"), {"A": {"NODE": 1}}))
    hived.packed(set(range(32)) - {7, 24}, node_leaves=32)
    chosen = set(hived.run("pod", "A", wanted).leaf_cells)
    assert len(chosen) == wanted
    assert chosen.isdisjoint({7, 24})
    if wanted == 15:
        assert chosen in (set(range(16)) - {7}, set(range(16, 32)) - {24})


def test_d7_a_socket_that_is_free_is_found_in_a_large_node():
    types = {"SOCKET": (16, "GPU"), "NODE": (2, "SOCKET")}
    hived = Hived(config(types, nodes("n0"), {"A": {"NODE": 1}}))
    hived.packed(set(range(32)) - {3, 9}, node_leaves=32)
    assert set(hived.run("pod", "A", 16).leaf_cells) == set(range(16, 32))


# --- D8


def test_d8_another_own_cell_is_tried_when_the_first_cannot_reach_a_suggested_node():
    cells = [rack("n0", "n1"), rack("n2", "n3")]
    hived = Hived(config(TREE, cells, {"A": {"RACK": 2}}))
    started = rack_of(hived.run("a", "A", 4).node)
    for i, name in enumerate(n for n in ("n0", "n1", "n2", "n3") if rack_of(n) != started):
        assert hived.run(f"b{i}", "A", 1, ignore=False, suggested=[name]).node == name


def test_d8_every_suggested_node_that_a_tenant_can_reach_is_reached():
    cells = [rack("n0", "n1"), rack("n2", "n3"), rack("n4", "n5")]
    tenants = {"A": {"RACK": 1, "RACK.NODE": 2}, "B": {"RACK.NODE": 2}}
    for name in (f"n{i}" for i in range(6)):
        hived = Hived(config(TREE, cells, tenants))
        assert hived.run("a", "A", 4, ignore=False, suggested=[name]).node == name
        hived.claim("A", 4, 4, 4)
        hived.claim("B", 4, 4)


def test_d8_another_own_cell_is_tried_around_a_bad_node():
    cells = [rack("n0", "n1"), rack("n2", "n3")]
    hived = Hived(config(TREE, cells, {"A": {"RACK": 2}}))
    first = hived.run("a", "A", 4).node
    hived.fail(neighbour(first))
    assert rack_of(hived.run("b", "A", 4).node) != rack_of(first)


# --- D9


def test_d9_a_chain_that_nobody_owns_is_no_obstacle():
    types = {"X-NODE": (4, "X"), "Y-NODE": (4, "Y")}
    cells = [node("x0", "X-NODE"), node("y0", "Y-NODE"), node("y1", "Y-NODE")]
    hived = Hived(config(types, cells, {"A": {"X-NODE": 1}}))
    hived.fail("y0", "x0")
    hived.heal("x0")
    hived.run("a", "A", 4)
    assert hived.run("o", "A", 4, priority=-1).node == "y1"
    hived.fail("y1")
    hived.heal("y0")
    hived.gone("o")
    hived.heal("y1")
    assert hived.free() == {("Y-NODE", "Y-NODE"): ["y0", "y1"]}


def test_d9_a_cluster_that_nobody_owns_starts():
    hived = Hived(config(FLAT, nodes("n0"), {"A": {}}))
    assert hived.run("o", "A", 4, priority=-1).node == "n0"
    assert HivedScheduler(config(FLAT, nodes("n0"), {})).unused_cells() == {}


# --- D10 and D11


def test_d10_a_preemption_that_ignores_suggestions_is_not_planned_anew():
    hived = flat(2, {"A": {"NODE": 2}})
    hived.run("low0", "A", 4)
    hived.run("low1", "A", 4)
    (victim,) = hived.preempting("high", "A", 4, priority=1).victims
    (other,) = {"low0", "low1"} - {victim}
    for suggested in ([hived.running[other].node], []):
        again = hived.preempting("high", "A", 4, priority=1, suggested=suggested)
        assert list(again.victims) == [victim]
    assert hived.state(other) == "Allocated"
    place = hived.running[victim].node
    hived.gone(victim)
    last = hived.preempting("high", "A", 4, priority=1, suggested=[])
    assert hived.allocate("high", last).node == place


def test_d11_a_victim_that_is_spared_is_allocated_again():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.run("low", "A", 4)
    for priority in (1, 2):
        hived.preempting(f"high{priority}", "A", 4, priority=priority)
        assert hived.state("low") == "BeingPreempted"
    hived.gone("high2")
    assert hived.state("low") == "Allocated"
    assert hived.group("low")["guaranteed"]
    assert hived.ask("equal", "A", 1).outcome == "wait"


def test_d11_an_opportunistic_victim_that_is_spared_is_allocated_again():
    hived = flat(1, {"A": {"NODE": 1}})
    hived.gang("o", "A", [(2, 2)], priority=-1)
    hived.preempting("a", "A", 1)
    assert hived.state("o") == "BeingPreempted"
    hived.gone("a")
    assert hived.state("o") == "Allocated"
    assert hived.free() == {("NODE", "NODE"): ["n0"]}


# --- D12


def test_d12_a_gang_counts_what_its_own_earlier_cells_took():
    """Three racks with a bad node each; a gang of two has to split two racks around them."""
    cells = [rack("n0", "n1"), rack("n2", "n3"), rack("n4", "n5")]
    tenants = {"A": {"RACK.NODE": 2}, "C": {"RACK.NODE": 1}, "D": {"RACK.NODE": 3}}
    hived = Hived(config(TREE, cells, tenants))
    first = hived.run("c", "C", 4).node
    others = [name for name in ("n0", "n2", "n4") if rack_of(name) != rack_of(first)]
    bad = [neighbour(first), *map(neighbour, others)]
    hived.fail(*bad)
    gang = hived.gang("a", "A", [(2, 4)])
    assert {place.node for place in gang} == set(others)
    assert hived.ask("d", "D", 1).outcome == "wait"
    hived.heal(*bad)
    hived.claim("D", 4, 4, 4)


# --- The families of random traces


class Trace:
    """Random life of a small cluster: tenants, guests, gangs, preemption, failures, restarts."""

    TENANTS = ("A", "B")

    def __init__(self, seed, *, failures, restarts=False, unused_chain=False):
        self.rng = random.Random(seed)
        self.failures, self.restarts = failures, restarts
        self.gangs = {}
        self.names = [f"n{i}" for i in range(6)]
        cells = [rack(*self.names[i : i + 2]) for i in (0, 2, 4)]
        types = {**TREE}
        if unused_chain:
            types |= {"Y-NODE": (4, "Y")}
            cells += [node("y0", "Y-NODE"), node("y1", "Y-NODE")]
            self.names += ["y0", "y1"]
        self.document = config(types, cells, self.assignment())
        self.hived = Hived(self.document)
        self.whole = self.hived.free()

    def assignment(self):
        """Everything in the racks is owned: what is left after some racks goes in nodes, ..."""
        sizes = {"RACK": 8, "RACK.NODE": 4, "RACK.NODE.SWITCH": 2, "RACK.NODE.SWITCH.GPU": 1}
        owned = {vc: {} for vc in self.TENANTS}
        left = 24
        for path, size in sizes.items():
            take = self.rng.randint(0, left // size) if size > 1 else left
            left -= take * size
            for _ in range(take):
                vc = self.rng.choice(self.TENANTS)
                owned[vc][path] = owned[vc].get(path, 0) + 1
        self.quota = {
            vc: sum(sizes[path] * count for path, count in owned[vc].items()) for vc in owned
        }
        return owned

    def step(self, number):
        rng, hived = self.rng, self.hived
        roll = rng.random()
        if roll < 0.5 or not self.gangs:
            self.arrive(f"g{number}")
        elif roll < 0.8:
            self.leave(rng.choice(sorted(self.gangs)))
        elif self.failures and roll < 0.95:
            name = rng.choice(self.names)
            (hived.heal if name in hived.bad else hived.fail)(name)
        elif self.restarts:
            self.restart()
        self.hived.scheduler.check()

    def restart(self):
        """All that runs is recovered; only who had lost a guarantee may have got it back."""
        old, order = self.hived, list(self.hived.running)
        self.rng.shuffle(order)
        self.hived = new = old.restarted(self.document, order, bad=sorted(old.bad))
        groups = {pod: old.group(pod) for pod in order}
        running = {pod.partition("/")[0] for pod in order}
        if all(group["guaranteed"] or group["priority"] < 0 for group in groups.values()):
            assert all(new.group(pod)["guaranteed"] == groups[pod]["guaranteed"] for pod in order)
            if set(self.gangs) == running:  # nobody had reserved cells for a preemption
                assert new.free() == old.free()
        self.gangs = {name: pods for name, pods in self.gangs.items() if name in running}

    def arrive(self, name):
        rng, hived = self.rng, self.hived
        vc = rng.choice(self.TENANTS)
        members = rng.choice([[(1, 1)], [(1, 2)], [(1, 4)], [(2, 4)], [(2, 1), (1, 3)], [(3, 2)]])
        asked = {
            "priority": rng.choice([-1, -1, 0, 0, 1, 2]),
            "members": members,
            "lazy": rng.random() < 0.3,
        }
        if rng.random() < 0.3:
            asked |= {"ignore": False, "suggested": rng.sample(self.names, 4)}
        phase = rng.choice(["Filtering", "Preempting"])
        sizes = [size for count, size in members for _ in range(count)]
        pods = [f"{name}/{i}" for i in range(len(sizes))]
        decision = hived.ask(pods[0], vc, sizes[0], phase=phase, **asked)
        if decision.outcome == "preempt":
            for victim in decision.victims:
                group = hived.group(victim)
                if group["guaranteed"]:
                    assert group["virtual_cluster"] == vc
                    assert group["priority"] < asked["priority"]
            if rng.random() < 0.6:
                for group in sorted({victim.partition("/")[0] for victim in decision.victims}):
                    self.leave(group)
                decision = hived.ask(pods[0], vc, sizes[0], phase=phase, **asked)
        if decision.outcome == "preempt":
            if hived.group(name) is not None:
                self.gangs[name] = pods
        elif decision.outcome == "bind":
            hived.allocate(pods[0], decision)
            asked.pop("suggested", None)
            for pod, size in zip(pods[1:], sizes[1:], strict=True):
                hived.run(pod, vc, size, **asked)
            self.gangs[name] = pods
        self.gangs = {n: p for n, p in self.gangs.items() if hived.group(n) is not None}

    def leave(self, name):
        pods = self.gangs.pop(name)
        self.rng.shuffle(pods)
        self.hived.gone(*pods)
        assert self.hived.group(name) is None

    def settle(self):
        """Every owed GPU is served once the hardware is whole, and nothing has leaked."""
        hived = self.hived
        hived.heal(*sorted(hived.bad))
        for name in sorted(self.gangs):
            if name not in {pod.partition("/")[0] for pod in hived.running}:
                self.leave(name)
        for vc in self.TENANTS:
            hived.claim(vc, *[1] * (self.quota[vc] - self.held(vc)))
            assert hived.ask("over", vc, 1).outcome == "wait"
        hived.gone(*list(hived.running))
        assert hived.free() == self.whole

    def held(self, vc):
        """GPUs that the guaranteed groups of a tenant hold, with or without a running pod."""
        total = 0
        for name in {pod.partition("/")[0] for pod in self.hived.running}:
            group = self.hived.group(name)
            if group["guaranteed"] and group["virtual_cluster"] == vc:
                total += sum(
                    part["leaf_cell_number"] * len(part["pods"]) for part in group["placements"]
                )
        return total


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize(
    "family",
    [
        {"failures": False},
        {"failures": True},
        {"failures": True, "restarts": True},
        {"failures": True, "unused_chain": True},
    ],
    ids=["whole hardware", "failures", "failures and restarts", "unused chain"],
)
def test_a_random_trace_ends_with_every_guarantee_served_and_nothing_leaked(family, seed):
    trace = Trace(seed, **family)
    for number in range(70):
        trace.step(number)
    trace.settle()
