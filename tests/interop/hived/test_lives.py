"""Random HiveD clusters under random pods, retries, node events, restarts and reconfigurations.

Whatever happens, nothing crashes, no two groups share a leaf cell, nothing new is placed on a bad
node, and when all pods are gone the cluster is as it was in the beginning.
"""

import json
import random

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from interop.hived.clusters import assert_same, spec, walk
from profiles import examples

from hivecore.errors import StaleDecisionError
from hivecore.interop.hived import ConfigError, HivedConfig, HivedScheduler, RequestError

SHAPES = [
    # (cell types of the chain, leaf first, fan-outs, position of the node level, its leaf type)
    (("GPU", "NODE"), (2,), 1),
    (("GPU", "SOCKET", "NODE"), (2, 2), 2),
    (("GPU", "NODE", "RACK"), (2, 2), 1),
    (("GPU", "PAIR", "NODE", "RACK"), (2, 2, 2), 2),
    (("TPU", "TPU-NODE"), (3,), 1),
]


@st.composite
def configs(draw):
    """A configuration that can be met: owned cells are drawn until they no longer fit."""
    types, cells, tops = {}, [], []
    chosen = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2, unique_by=id))
    for number, (levels, fanouts, node_level) in enumerate(chosen):
        names = [levels[0], *(f"{name}-{number}" for name in levels[1:])]
        for i, fanout in enumerate(fanouts):
            types[names[i + 1]] = {
                "childCellType": names[i],
                "childCellNumber": fanout,
                "isNodeLevel": i + 1 == node_level,
            }
        for _ in range(draw(st.integers(2, 4))):
            cells.append(top_cell(names[-1], fanouts, node_level, f"m{len(cells)}"))
        tops.append(names)
    pins = []
    for i, cell in enumerate(cells):
        if draw(st.integers(0, 5)) == 0:
            cell["pinnedCellId"] = f"pin-{i}"
            pins.append(f"pin-{i}")
    tenants = {vc: {"virtualCells": [], "pinnedCells": []} for vc in ("A", "B", "C")}
    for pin in pins:
        tenants[draw(st.sampled_from("ABC"))]["pinnedCells"].append({"pinnedCellId": pin})
    document = {
        "physicalCluster": {"cellTypes": types, "physicalCells": cells},
        "virtualClusters": tenants,
    }
    for vc, chain, level, number in draw(
        st.lists(
            st.tuples(st.sampled_from("AAB"), *[st.integers(0, 3)] * 2, st.integers(1, 3)),
            min_size=2,
            max_size=6,
        )
    ):
        names = tops[chain % len(tops)]
        path = ".".join(names[max(len(names) - 1 - level, 0) :][::-1])
        owned = tenants[vc]["virtualCells"]
        owned.append({"cellType": path, "cellNumber": number})
        if not fits(document):
            owned.pop()
    return document


def top_cell(kind, fanouts, node_level, name):
    """A top-level cell whose nodes have names of their own."""
    if node_level == len(fanouts):
        return {"cellType": kind, "cellAddress": name}
    children = [{"cellAddress": f"{name}-{i}"} for i in range(fanouts[node_level])]
    return {"cellType": kind, "cellAddress": name, "cellChildren": children}


def fits(document):
    try:
        HivedConfig.read(document)
    except ConfigError:
        return False
    return True


PHASES = ["Filtering", "Preempting"]
REQUESTS = st.fixed_dictionaries(
    {
        "virtualCluster": st.sampled_from("AAABBC"),
        "priority": st.sampled_from([-1, -1, 0, 0, 1, 2]),
        "lazyPreemptionEnable": st.booleans(),
        "ignoreK8sSuggestedNodes": st.booleans(),
        "leafCellType": st.sampled_from(["", "", "", "GPU"]),
        "members": st.lists(
            st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=2
        ),
    }
)


class HivedMachine(RuleBasedStateMachine):
    @initialize(
        document=configs(),
        healthy=st.sampled_from([True, True, True, False]),
        requests=st.lists(st.tuples(REQUESTS, st.integers(0, 99)), min_size=5, max_size=25),
    )
    def start(self, document, healthy, requests):
        self.document = document
        self.healthy = healthy
        self.scheduler = HivedScheduler(document, initially_healthy=healthy)
        self.bad = set() if healthy else set(self.nodes())
        self.groups = {}  # name -> spec without leafCellNumber
        self.bound = {}  # pod -> (spec, record)
        self.placed = {}  # group -> (node, leaf cells) per slot, while it is allocated
        self.count = 0
        self.removed = []
        for request, pick in requests:
            self.submit(request, pick, "Filtering")

    def nodes(self):
        spec = self.scheduler.config.spec
        return sorted({node for chain in spec.chains.values() for node in chain.nodes})

    def request(self, group, number):
        more = dict(self.groups[group])
        vc, members = more.pop("virtualCluster"), more.pop("members")
        return spec(vc, members[number % len(members)][1], group, members, **more)

    def some(self, names, pick):
        names = sorted(names)
        return names[pick % len(names)]

    # --- pods

    @rule(request=REQUESTS, pick=st.integers(0, 99), phase=st.sampled_from(PHASES))
    def new_group(self, request, pick, phase):
        self.submit(request, pick, phase)

    @rule(request=REQUESTS, priority=st.integers(0, 3), phase=st.sampled_from(PHASES))
    def new_guaranteed_group(self, request, priority, phase):
        self.submit(request | {"priority": priority}, 99, phase)

    def submit(self, request, pick, phase):
        """A new group: its pods are scheduled one after the other, as long as they are bound."""
        pins = [
            cell["pinnedCellId"]
            for cell in self.document["physicalCluster"]["physicalCells"]
            if "pinnedCellId" in cell
        ]
        if pins and pick < 20:
            request = request | {"pinnedCellId": pins[pick % len(pins)]}
        self.count += 1
        group = f"g{self.count}"
        self.groups[group] = request
        for number in range(sum(pods for pods, _ in request["members"])):
            if self.ask(group, number, phase, True, None) != "bind":
                break

    @precondition(lambda self: self.groups)
    @rule(
        group=st.integers(0, 99),
        number=st.integers(0, 9),
        phase=st.sampled_from(PHASES),
        allocate=st.sampled_from([True, True, True, False]),
        suggested=st.none() | st.sets(st.integers(0, 12)),
    )
    def schedule(self, group, number, phase, allocate, suggested):
        """A pod of a known group, retried or one too many, with suggested nodes or without."""
        if suggested is not None:
            nodes = self.nodes()
            suggested = [nodes[i] for i in sorted(suggested) if i < len(nodes)]
        self.ask(self.some(self.groups, group), number, phase, allocate, suggested)

    def ask(self, group, number, phase, allocate, suggested):
        request = self.request(group, number)
        pod = f"{group}/{number}"
        known = self.scheduler.affinity_group(group)
        given = None if suggested is None else [*suggested, "cpu-node"]
        try:
            decision = self.scheduler.schedule(pod, request, phase, given)
        except RequestError:
            return None
        live = known is not None and known["state"] != "Preempting"
        now = self.scheduler.affinity_group(group)
        if phase == "Filtering" and (live or known is None):
            assert now == known
        if decision.outcome == "wait":
            assert decision.reason
            assert decision.node is None
            return "wait"
        row = [r for r in decision.group if r["leaf_cell_number"] == request["leafCellNumber"]]
        assert {"node": decision.node, "leaf_cells": list(decision.leaf_cells)} in row[0]["pods"]
        if not live:
            # In phase filtering other nodes are suggested while victims are still on theirs.
            fixed = known is None or phase == "Preempting" or decision.outcome == "bind"
            self.check_new(decision, request, suggested if fixed else None)
        if decision.outcome == "preempt":
            assert decision.victims
            assert set(decision.victims) <= set(self.bound)
            by_node = decision.victims_by_node
            assert sorted(pod for pods in by_node.values() for pod in pods) == decision.victims
        elif allocate:
            if live:
                assert decision.group == self.placed[group]
            self.scheduler.allocate(pod)
            self.note(pod, request)
        return decision.outcome

    def note(self, pod, request):
        """A pod has been bound."""
        record = json.loads(json.dumps(self.scheduler.bind_info(pod)))
        self.bound[pod] = request, record
        group = self.scheduler.affinity_group(request["affinityGroup"]["name"])
        self.placed[group["name"]] = [
            {
                "leaf_cell_number": row["leaf_cell_number"],
                "pods": [
                    {"node": seat["node"], "leaf_cells": seat["leaf_cells"]} for seat in row["pods"]
                ],
            }
            for row in group["placements"]
        ]

    def check_new(self, decision, request, suggested):
        for row in decision.group:
            for pod in row["pods"]:
                assert len(pod["leaf_cells"]) == row["leaf_cell_number"]
                assert pod["node"] not in self.bad
                if suggested is not None and not request["ignoreK8sSuggestedNodes"]:
                    assert pod["node"] in suggested

    @precondition(lambda self: self.groups)
    @rule(group=st.integers(0, 99), pick=st.integers(0, 9))
    def allocate_late(self, group, pick):
        group = self.some(self.groups, group)
        pod = f"{group}/{pick}"
        before = self.scheduler.affinity_group(group)
        try:
            self.scheduler.allocate(pod)
        except (RequestError, StaleDecisionError):
            assert self.scheduler.affinity_group(group) == before
            return
        if before is None or before["state"] == "Preempting":
            nodes = {
                seat["node"]
                for row in self.scheduler.affinity_group(group)["placements"]
                for seat in row["pods"]
            }
            assert nodes.isdisjoint(self.bad)
        if pod not in self.bound:
            number = len(self.scheduler.bind_info(pod)["leafCellIsolation"])
            self.note(pod, self.request(group, 0) | {"leafCellNumber": number})

    @precondition(lambda self: self.bound)
    @rule(pick=st.integers(0, 99))
    def delete_bound(self, pick):
        pod = self.some(self.bound, pick)
        self.scheduler.delete(pod)
        del self.bound[pod]

    @precondition(lambda self: self.groups)
    @rule(group=st.integers(0, 99), pick=st.integers(0, 9))
    def delete_any(self, group, pick):
        pod = f"{self.some(self.groups, group)}/{pick}"
        self.scheduler.delete(pod)
        self.bound.pop(pod, None)

    @precondition(lambda self: self.groups)
    @rule(group=st.integers(0, 99), number=st.integers(0, 9))
    def evict(self, group, number):
        """What Kubernetes does after a preemption: the victims go."""
        group = self.some(self.groups, group)
        try:
            decision = self.scheduler.schedule(
                f"{group}/{number}", self.request(group, number), "Preempting"
            )
        except RequestError:
            return
        for victim in decision.victims:
            self.scheduler.delete(victim)
            del self.bound[victim]
        if decision.victims:
            again = self.scheduler.schedule(
                f"{group}/{number}", self.request(group, number), "Preempting"
            )
            assert (again.outcome, again.group) == ("bind", decision.group)

    # --- nodes, restarts, configurations

    @rule(pick=st.integers(0, 99))
    def node_event(self, pick):
        """A healthy node fails; or, a bad one recovers."""
        node = self.some(self.nodes(), pick)
        self.scheduler.set_node(node, node in self.bad)
        self.bad ^= {node}

    @rule()
    def all_nodes_recover(self):
        for node in self.nodes():
            self.scheduler.set_node(node, True)
        self.bad = set()

    @rule(seed=st.integers(0, 2**16), early=st.booleans())
    def restart(self, seed, early):
        """A new scheduler learns of the nodes and of the bound pods, in any order."""
        old = self.scheduler
        guaranteed = {name: old.affinity_group(name)["guaranteed"] for name in self.live_groups()}
        again = HivedScheduler(self.document, initially_healthy=early)
        for node in [] if early else self.nodes():
            again.set_node(node, True)
        for node in sorted(self.bad):
            again.set_node(node, False)
        pods = sorted(self.bound)
        random.Random(seed).shuffle(pods)
        for pod in pods:
            request, record = self.bound[pod]
            again.recover(pod, request, record)
        again.check()
        self.scheduler = again
        self.healthy = early
        for name in guaranteed:
            group = again.affinity_group(name)
            assert group["allocated_pods"] == old.affinity_group(name)["allocated_pods"]

    def live_groups(self):
        return [
            item["metadata"]["name"]
            for item in self.scheduler.affinity_groups()["items"]
            if item["status"]["state"] != "Preempting"
        ]

    @rule(data=st.data())
    def shrink_or_grow(self, data):
        """Fewer owned cells, one physical cell less, or a lost one back."""
        document, removed = json.loads(json.dumps([self.document, self.removed]))
        cluster, tenants = document["physicalCluster"], document["virtualClusters"]
        what = data.draw(st.sampled_from(["owned", "cell", "more", "more"]))
        vc = data.draw(st.sampled_from("ABC"))
        if what == "owned" and tenants[vc]["virtualCells"]:
            tenants[vc]["virtualCells"].pop()
        elif what == "cell" and len(cluster["physicalCells"]) > 1:
            removed.append(gone := cluster["physicalCells"].pop())
            pin = gone.get("pinnedCellId")
            for tenant in tenants.values():
                tenant["pinnedCells"] = [
                    cell for cell in tenant["pinnedCells"] if cell["pinnedCellId"] != pin
                ]
        elif what == "more" and removed:
            back = dict(removed.pop())
            back.pop("pinnedCellId", None)
            cluster["physicalCells"].append(back)
        before = self.scheduler.status()
        allocated = {name: self.scheduler.affinity_group(name) for name in self.live_groups()}
        try:
            self.scheduler.reconfigure(document)
        except ConfigError:
            assert self.scheduler.status() == before
            return
        self.document, self.removed = document, removed
        for name, old in allocated.items():
            new = self.scheduler.affinity_group(name)
            assert new["allocated_pods"] == old["allocated_pods"]
            assert new["placements"] == old["placements"]
        if not self.healthy:
            spec = self.scheduler.config.spec
            known = {node for chain in spec.chains.values() for node in chain.nodes}
            self.bad |= known - self.scheduler._reported.keys()

    @rule()
    def branch(self):
        """A copy and a saved state are as good as the original."""
        other = self.scheduler.copy()
        again = HivedScheduler.from_bytes(self.scheduler.to_bytes())
        assert other.status() == again.status() == self.scheduler.status()
        assert other.affinity_groups() == again.affinity_groups()
        for pod in sorted(self.bound):
            other.delete(pod)
        other.check()
        self.scheduler = again

    # --- what always holds

    @invariant()
    def sound(self):
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.check()
        assert_same(self.scheduler)
        holders = {}
        for request, record in self.bound.values():
            group = request["affinityGroup"]["name"]
            for row in record["affinityGroupBindInfo"]:
                for slot in row["podPlacements"]:
                    for leaf in slot["physicalLeafCellIndices"]:
                        place = record["cellChain"], slot["physicalNode"], leaf
                        assert holders.setdefault(place, group) == group
        leaf_cells = [
            cell for cell in walk(self.scheduler.physical_cluster()) if "cellChildren" not in cell
        ]
        drawn = sum(cell["cellState"] in ("Used", "Reserving") for cell in leaf_cells)
        assert drawn <= sum(
            row["leaf_cell_number"]
            for name in self.live_groups()
            for row in self.scheduler.affinity_group(name)["placements"]
            for _ in row["pods"]
        )

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        for group in self.groups:
            for pick in range(10):
                self.scheduler.delete(f"{group}/{pick}")
        for node in self.nodes():
            self.scheduler.set_node(node, True)
        self.scheduler.check()
        fresh = HivedScheduler(self.document)
        assert self.scheduler.status() == fresh.status()
        assert self.scheduler.affinity_groups() == {"items": []}
        assert self.scheduler.free_cells() == fresh.free_cells()


TestHived = HivedMachine.TestCase
TestHived.settings = examples(20, stateful_step_count=40)
