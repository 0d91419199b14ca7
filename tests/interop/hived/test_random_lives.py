"""Random lives of random clusters against what can be computed from their status alone.

Before every decision the status tells which leaves of a tenant's virtual nodes are free, and
which physical cells are healthy, free and not owed to others. From that a plain search says
whether the pod must wait. Afterwards: no overlap, no bad or foreign node, victims that have to be
there, and in the end every owed GPU is served and everything is free again.
"""

import random

import pytest
from interop.hived.clusters import Hived, config, walk
from profiles import seeds

from hivecore.interop.hived import HivedScheduler, RequestError

TYPES = {
    "SWITCH": (2, "GPU"),
    "NODE": (2, "SWITCH"),
    "RACK": (2, "NODE"),
    "ROW": (2, "RACK"),
    "X-NODE": (3, "X"),
    "X-RACK": (3, "X-NODE"),
}
# Chain -> its types from the top to the leaf.
CHAINS = {
    "ROW": ["ROW", "RACK", "NODE", "SWITCH", "GPU"],
    "NODE": ["NODE", "SWITCH", "GPU"],
    "X-RACK": ["X-RACK", "X-NODE", "X"],
}
TENANTS = "AB"


def leaves_of(cell_type):
    number, child = TYPES.get(cell_type, (1, None))
    return number if child is None else number * leaves_of(child)


def packable(sizes, units):
    """Whether pods of these sizes fit into units with so many free leaves."""
    if not sizes:
        return True
    size, rest = sizes[0], sizes[1:]
    return any(
        units[i] >= size
        and units[i] not in units[:i]
        and packable(rest, [*units[:i], units[i] - size, *units[i + 1 :]])
        for i in range(len(units))
    )


class Document:
    """A random configuration: some top cells of each chain, some pins, the rest mostly owned."""

    def __init__(self, rng, tops=None):
        self.tops = tops or {"ROW": rng.randint(1, 2), "NODE": rng.randint(1, 2), "X-RACK": 1}
        self.order = rng.sample(sorted(CHAINS), 3)
        self.owned = {vc: [] for vc in TENANTS}  # (chain, type, path), as the cells are counted
        self.pins = {vc: [] for vc in TENANTS}  # (pin, chain)
        self.cells, self.nodes = [], []
        for chain, tops_of_chain in self.tops.items():
            # A pin breaks its top cell; the rest of that one is not owned.
            pinned = sum(self.physical(rng, chain) for _ in range(tops_of_chain))
            self.assign(rng, chain, (tops_of_chain - pinned) * leaves_of(chain))

    def physical(self, rng, chain):
        """Write down a top cell; whether its first node is pinned."""
        pin = f"pin-{len(self.cells)}" if rng.random() < 0.3 else None
        if pin is not None:
            self.pins[rng.choice(TENANTS)].append((pin, chain))
        first = len(self.nodes)

        def cell(cell_type):
            if cell_type.endswith("NODE"):
                self.nodes.append(f"node-{len(self.nodes)}")
                pinned = pin is not None and len(self.nodes) == first + 1
                return {"cellAddress": self.nodes[-1], **({"pinnedCellId": pin} if pinned else {})}
            number, child = TYPES[cell_type]
            return {"cellChildren": [cell(child) for _ in range(number)]}

        self.cells.append({"cellType": chain, **cell(chain)})
        return pin is not None

    def assign(self, rng, chain, left):
        types = CHAINS[chain]
        for i, cell_type in enumerate(types):
            size = leaves_of(cell_type)
            count = rng.randint(0, left // size) if i + 1 < len(types) else left // size
            if rng.random() < 0.2:
                count //= 2
            left -= count * size
            for _ in range(count):
                vc = rng.choice(TENANTS)
                self.owned[vc].append((chain, cell_type, ".".join(types[: i + 1])))

    def hived(self):
        tenants = {}
        for vc in TENANTS:
            counts = {}
            self.owned[vc].sort()
            for _, _, path in self.owned[vc]:
                counts[path] = counts.get(path, 0) + 1
            tenants[vc] = (counts, [pin for pin, _ in self.pins[vc]])
        self.mapping = config(TYPES, self.cells, tenants)
        return Hived(self.mapping, chain_order=self.order)


class View:
    """What the status says about one chain (or one pinned cell) for one tenant."""

    def __init__(self, document, hived, chain, vc, pin=None):
        status = hived.scheduler.status()
        self.types = CHAINS[chain]
        self.physical = [c for c in status["physicalCluster"] if c["cellType"] == chain]
        owned = document.owned[vc]
        trees = status["virtualClusters"][vc]
        if pin is None:
            self.roots = [
                (cell_type, tree)
                for (of, cell_type, _), tree in zip(owned, trees, strict=False)
                if of == chain
            ]
        else:
            index = [name for name, _ in document.pins[vc]].index(pin)
            self.roots = [(self.node_type(), trees[len(owned) + index])]
        self.bad = hived.bad
        self.free = {
            address
            for cells in hived.scheduler.free_cells().get(chain, {}).values()
            for address in cells
        }
        self.spare = {}
        surplus = 0
        for cell_type in self.types:
            surplus *= TYPES[self.parent(cell_type)][0] if cell_type != chain else 0
            surplus += len(hived.scheduler.free_cells()[chain].get(cell_type, ()))
            for tenant in TENANTS:
                unused = hived.scheduler.unused_cells().get(tenant, {}).get(chain, {})
                surplus -= unused.get(cell_type, 0)
            self.spare[cell_type] = surplus
        assert min(self.spare.values()) >= 0

    def parent(self, cell_type):
        return self.types[self.types.index(cell_type) - 1]

    def units(self):
        """Per virtual node the priorities of its leaves, -2: free."""
        found = []
        for cell_type, tree in self.roots:
            above = self.types.index(cell_type) < self.types.index(self.node_type())
            tops = [c for c in walk([tree]) if c.get("isNodeLevel")] if above else [tree]
            for top in tops:
                found.append([c["cellPriority"] for c in walk([top]) if self.is_leaf(c)])
        return found

    def node_type(self):
        return next(cell_type for cell_type in self.types if cell_type.endswith("NODE"))

    def is_leaf(self, cell):
        return cell["cellType"] == self.types[-1]

    def idle(self, suggested):
        """Healthy idle leaves per physical node."""
        return [
            sum(c["cellState"] == "Free" for c in walk([node]) if self.is_leaf(c))
            for node in walk(self.physical)
            if node.get("isNodeLevel") and self.usable(node["cellAddress"], suggested)
        ]

    def usable(self, address, suggested):
        """Whether a cell is on a healthy and suggested node; cells above nodes: any."""
        name = next((part for part in address.split("/") if "-" in part), None)
        return name is None or (name not in self.bad and (suggested is None or name in suggested))

    def reachable(self, size, suggested):
        """Whether one pod can be put somewhere without preempting one of its own tenant."""
        physical = {cell["cellAddress"]: cell for cell in walk(self.physical)}
        return any(
            self.reach(cell_type, tree, physical, size, suggested) for cell_type, tree in self.roots
        )

    def reach(self, cell_type, virtual, physical, size, suggested):
        bound = virtual.get("physicalCell")
        if bound is None:
            return any(
                self.offers(cell, size, suggested)
                for cell in physical.values()
                if cell["cellType"] == cell_type and self.allocatable(cell)
            )
        cell = physical[bound["cellAddress"]]
        if self.types.index(virtual["cellType"]) >= self.types.index(self.node_type()):
            held = sum(
                c.get("cellPriority", -2) >= 0 and "virtualCell" in c
                for c in walk([cell])
                if self.is_leaf(c)
            )
            return self.usable(cell["cellAddress"], suggested) and (
                leaves_of(cell["cellType"]) - held >= size
            )
        unbound = [c for c in cell["cellChildren"] if "virtualCell" not in c]
        return any(self.offers(c, size, suggested) for c in unbound) or any(
            self.reach(None, child, physical, size, suggested)
            for child in virtual["cellChildren"]
            if child.get("physicalCell")
        )

    def offers(self, cell, size, suggested):
        """Whether some node of a free cell (or a cell inside a node) can take the pod."""
        above = self.types.index(cell["cellType"]) < self.types.index(self.node_type())
        tops = [c for c in walk([cell]) if c.get("isNodeLevel")] if above else [cell]
        return any(
            leaves_of(top["cellType"]) >= size and self.usable(top["cellAddress"], suggested)
            for top in tops
        )

    def allocatable(self, cell):
        """Whether a cell is free and can be split off without breaking what is owed."""
        address, levels = cell["cellAddress"], []
        while address not in self.free:
            if "/" not in address:
                return False
            address = address.rpartition("/")[0]
            levels.append(address.count("/"))
        return all(self.spare[self.types[level]] >= 1 for level in levels)


class Life:
    def __init__(self, seed, failures):
        self.rng = random.Random(seed)
        self.failures = failures
        self.document = Document(self.rng)
        self.hived = self.document.hived()
        self.whole = self.hived.free()
        self.gangs = {}

    def expected(self, vc, sizes, priority, leaf_type, suggested, pin):
        """(must it run?, chain, own groups may be victims?); None: not known."""
        hived = self.hived
        for chain in self.document.order:
            if leaf_type not in (None, CHAINS[chain][-1]):
                continue
            if pin is not None and (pin, chain) not in self.document.pins[vc]:
                continue
            view = View(self.document, hived, chain, vc, pin)
            if priority < 0:
                if packable(sizes, view.idle(suggested)):
                    return True, chain, False
                continue
            if not view.roots:
                continue
            units = view.units()
            if not packable(sizes, [sum(p < priority for p in unit) for unit in units]):
                continue
            without = packable(sizes, [sum(p < 0 for p in unit) for unit in units])
            if not hived.bad and suggested is None:
                return True, chain, not without
            if len(sizes) > 1:
                return None, None, True
            if view.reachable(sizes[0], suggested):
                return True, chain, False
            if any(0 <= p < priority for unit in units for p in unit):
                return None, None, True
        return False, None, False

    def arrive(self, name):
        rng, hived = self.rng, self.hived
        vc = rng.choice(TENANTS)
        members = rng.choice(
            [[(1, 1)], [(1, 2)], [(1, 3)], [(1, 4)], [(2, 4)], [(2, 1), (1, 3)], [(3, 2)], [(2, 3)]]
        )
        priority = rng.choice([-1, -1, 0, 0, 1, 2])
        asked = {"members": members, "lazy": rng.random() < 0.3}
        leaf_type, pin = rng.choice([None, "GPU", "GPU", "X"]), None
        if priority >= 0 and self.document.pins[vc] and rng.random() < 0.2:
            leaf_type, (pin, _) = None, rng.choice(self.document.pins[vc])
            asked["pinnedCellId"] = pin
        if leaf_type is not None:
            types = {CHAINS[chain][-1] for chain, _, _ in self.document.owned[vc]}
            if priority >= 0 and leaf_type not in types:
                return
            asked["leafCellType"] = leaf_type
        suggested = None
        if rng.random() < 0.3:
            suggested = rng.sample(self.document.nodes, rng.randint(1, len(self.document.nodes)))
            asked |= {"ignore": False, "suggested": suggested}
        sizes = [size for count, size in members for _ in range(count)]
        descending = sorted(sizes, reverse=True)
        expected = self.expected(vc, descending, priority, leaf_type, suggested, pin)
        phase = rng.choice(["Filtering", "Preempting"])
        pods = [f"{name}/{i}" for i in range(len(sizes))]
        if self.is_too_large(descending[0], vc, priority, leaf_type, pin):
            assert expected[0] is False
            with pytest.raises(RequestError, match=r"can never be served|no node has more"):
                hived.ask(pods[0], vc, sizes[0], priority, phase=phase, **asked)
            return
        decision = hived.ask(pods[0], vc, sizes[0], priority, phase=phase, **asked)
        self.judge(decision, expected, vc, priority, suggested)
        if decision.outcome == "preempt":
            victims = {pod.partition("/")[0] for pod in decision.victims}
            if rng.random() < 0.6:
                for group in sorted(victims):
                    self.leave(group)
                decision = hived.ask(pods[0], vc, sizes[0], priority, phase=phase, **asked)
        if decision.outcome == "bind":
            hived.allocate(pods[0], decision)
            asked.pop("suggested", None)
            for pod, size in zip(pods[1:], sizes[1:], strict=True):
                hived.run(pod, vc, size, priority, **asked)
        if hived.group(name) is not None:
            self.gangs[name] = pods
        self.gangs = {name: pods for name, pods in self.gangs.items() if hived.group(name)}

    def is_too_large(self, size, vc, priority, leaf_type, pin):
        """Whether a pod is larger than the nodes of all chains that it may use."""
        owned = {chain for chain, _, _ in self.document.owned[vc]}
        if pin is not None:
            chains = [chain for name, chain in self.document.pins[vc] if name == pin]
        else:
            chains = [chain for chain in CHAINS if priority < 0 or chain in owned]
        nodes = [
            next(leaves_of(kind) for kind in CHAINS[chain] if kind.endswith("NODE"))
            for chain in chains
            if leaf_type in (None, CHAINS[chain][-1])
        ]
        return bool(nodes) and size > max(nodes)

    def judge(self, decision, expected, vc, priority, suggested):
        runs, chain, own_victims = expected
        if runs is not None:
            assert (decision.outcome != "wait") == runs
        if decision.outcome == "bind" and runs:
            assert decision.chain == chain
        for victim in decision.victims:
            group = self.hived.group(victim)
            if group["guaranteed"]:
                assert (group["virtual_cluster"], own_victims) == (vc, True)
                assert group["priority"] < priority
        if decision.outcome != "wait" and decision.group:
            for part in decision.group:
                for pod in part["pods"]:
                    assert pod["node"] not in self.hived.bad
                    assert suggested is None or pod["node"] in suggested

    def leave(self, name):
        self.hived.gone(*self.gangs.pop(name))
        assert self.hived.group(name) is None

    def retry(self, name):
        """A member dies and comes again, to its old place."""
        pods = [pod for pod in self.gangs[name] if pod in self.hived.running]
        if len(pods) < 2 or self.hived.running[pods[0]].node not in self.document.nodes:
            return
        pod, spec = pods[0], self.hived.specs[pods[0]]
        place = self.hived.running[pod]
        self.hived.gone(pod)
        again = self.hived.allocate(pod, self.hived.decide(pod, spec), insists=True)
        assert (again.node, again.leaf_cells) == (place.node, place.leaf_cells)

    def progress(self, name):
        """A preempting group comes again; perhaps its victims have gone meanwhile."""
        hived, pod = self.hived, self.gangs[name][0]
        if self.rng.random() < 0.7:
            status = hived.group(name)
            planned = {place["node"] for part in status["placements"] for place in part["pods"]}
            for group in sorted(self.gangs):
                pods = [p for p in self.gangs[group] if p in hived.running]
                if hived.group(group)["state"] == "BeingPreempted" and any(
                    hived.running[p].node in planned for p in pods
                ):
                    self.leave(group)
        decision = hived.decide(pod, hived.specs[pod], "Preempting")
        if decision.outcome == "bind":
            hived.allocate(pod, decision)
            for other in self.gangs[name][1:]:
                size = next(
                    part["leaf_cell_number"]
                    for part in hived.group(name)["placements"]
                    if any(place["pod"] is None for place in part["pods"])
                )
                spec = {**hived.specs[pod], "leafCellNumber": size}
                hived.allocate(other, hived.decide(other, spec), insists=True)
        if hived.group(name) is None:
            assert decision.outcome == "wait"
            self.gangs.pop(name)
        self.gangs = {name: pods for name, pods in self.gangs.items() if hived.group(name)}

    def step(self, number):
        rng, hived = self.rng, self.hived
        roll = rng.random()
        preempting = [name for name in self.gangs if hived.state(name) == "Preempting"]
        if preempting and rng.random() < 0.3:
            self.progress(rng.choice(sorted(preempting)))
        elif roll < 0.5 or not self.gangs:
            self.arrive(f"g{number}")
        elif roll < 0.75:
            self.leave(rng.choice(sorted(self.gangs)))
        elif roll < 0.8:
            self.retry(rng.choice(sorted(self.gangs)))
        elif roll < 0.85:
            hived.scheduler = HivedScheduler.from_bytes(hived.scheduler.to_bytes())
        elif roll < 0.9:
            hived.scheduler = hived.scheduler.copy()
        elif self.failures:
            name = rng.choice(self.document.nodes)
            (hived.heal if name in hived.bad else hived.fail)(name)
        self.hived.scheduler.check()

    def reconfigure(self, restart):
        """Another configuration, by a restart or in place; all pods run on."""
        old, running = self.hived, self.hived.running
        self.document = Document(self.rng)
        new = self.document.hived()
        if restart:
            order = self.rng.sample(sorted(running), len(running))
            new = old.restarted(
                self.document.mapping, order, sorted(old.bad), chain_order=self.document.order
            )
        else:
            old.scheduler.reconfigure(self.document.mapping, self.document.order)
            new.scheduler, new.specs, new.running, new.bad = (
                old.scheduler,
                old.specs,
                running,
                old.bad,
            )
        assert set(new.running) == set(running)
        assert all(new.group(pod)["state"] == "Allocated" for pod in running)
        self.hived, self.whole = new, self.document.hived().free()
        kept = {pod.partition("/")[0] for pod in running}
        self.gangs = {name: pods for name, pods in self.gangs.items() if name in kept}
        places = [
            (pod["node"], leaf)
            for name in sorted(kept)
            for part in new.group(name)["placements"]
            for pod in part["pods"]
            for leaf in pod["leaf_cells"]
        ]
        assert len(places) == len(set(places))

    def settle(self):
        hived, document = self.hived, self.document
        hived.heal(*sorted(hived.bad))
        for name in sorted(self.gangs):
            if not any(pod in hived.running for pod in self.gangs[name]):
                self.leave(name)
        for vc in TENANTS:
            for leaf_type in ("GPU", "X"):
                chains = [chain for chain in CHAINS if CHAINS[chain][-1] == leaf_type]
                units = [u for chain in chains for u in View(document, hived, chain, vc).units()]
                free = sum(priority == -2 for unit in units for priority in unit)
                hived.claim(vc, *[1] * free, name=leaf_type, leafCellType=leaf_type)
            for pin, chain in document.pins[vc]:
                (unit,) = View(document, hived, chain, vc, pin).units()
                hived.claim(vc, *[1] * unit.count(-2), name=pin, pinnedCellId=pin)
            if document.owned[vc]:
                assert hived.ask("over", vc, 1).outcome == "wait"
        hived.gone(*list(hived.running))
        assert hived.free() == self.whole


@pytest.mark.parametrize("seed", seeds(16))
@pytest.mark.parametrize("failures", [False, True], ids=["whole", "failing"])
def test_every_decision_is_what_the_status_says_it_must_be(seed, failures):
    life = Life(seed, failures)
    for number in range(40):
        life.step(number)
    life.settle()


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("restarts", [0, 1, 2], ids=["in place", "restarted", "either"])
def test_every_pod_outlives_any_sequence_of_configurations(seed, restarts):
    life = Life(seed, failures=True)
    for number in range(40):
        if number % 8 == 7:
            life.reconfigure(restart=life.rng.randrange(2) < restarts)
        else:
            life.step(number)
    life.settle()
