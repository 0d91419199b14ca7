"""Long random lives of a cluster, beside a ledger that is kept from objects and allocations alone.

The ledger conserves: no device has two owners but in shares, and what is given fits the capacities
and counters of that moment. Now and then the cluster's own book is compared with it, decisions are
verified on it, and the cluster audits itself. HIVECORE_EXAMPLES=200 is a million steps.
"""

import copy
import random
from collections import defaultdict

import pytest
from dra.worlds import (
    claim,
    consumption,
    counter_slice,
    device,
    device_class,
    either,
    object_of,
    published_slice,
    request,
    shared,
    terms,
)
from profiles import seeds

from hivecore._quantities import read_exactly
from hivecore.dra import DeviceId, DraCluster, KubernetesFeatures, ResourceSlice, matches
from hivecore.dra.proof import ClusterFacts, verify_allocations
from hivecore.errors import StaleDecisionError

STEPS = 1000
NODES = ("n1", "n2", "n3")
FEATURES = KubernetesFeatures.of("1.37", {"DRADeviceCompatibilityGroups": True})


def model(of):
    return f"device.attributes['gpu.x'].?model.orValue('') == '{of}'"


# --- what drivers publish: the slices of each pool, of another kind each


def plain_pool(rng, node, **fields):
    devices = [
        device(f"d{i}", {"model": rng.choice("ab"), "root": i % 2})
        for i in range(rng.randint(1, 5))
    ]
    if rng.random() < 0.3:
        devices[0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    return [published_slice(f"plain-{node}", devices, nodeName=node, pool=node, **fields)]


def shared_pool(rng, node, **fields):
    policy = {"default": "1", "validRange": {"min": "1", "step": "1500m"}}
    sizes = [str(rng.randint(3, 9)) for _ in range(2)]
    counters = {"of": {"x": str(rng.randint(0, 2))}}
    devices = [
        shared("s0", {"m": {"value": sizes[0], "requestPolicy": policy}}, {"model": "s"}),
        shared("s1", {"m": {"value": sizes[1]}}, {"model": "s"}, counters=counters),
    ]
    where = {"pool": f"{node}-s", "nodeName": node, "count": 2, **fields}
    return [
        published_slice(f"shared-{node}", devices, **where),
        counter_slice(f"of-{node}", {"of": {"x": "1"}}, **where),
    ]


def parts_pool(rng, node, **fields):
    groups = rng.choice([[], [], ["g"]])
    devices = [
        device(f"{size}-{block}-{i}", {"model": size}, consumesCounters=[
            consumption(f"gpu{block}", groups, memory=str(memory), engines=str(memory // 2))])
        for block in range(2)
        for size, memory, count in (("whole", 4, 1), ("half", 2, 2), ("small", 1, 3))
        for i in range(count)
    ]  # fmt: skip
    where = {"pool": f"{node}-mig", "nodeName": node, "count": 2, **fields}
    sets = {f"gpu{i}": {"memory": str(rng.choice([3, 4])), "engines": "2"} for i in range(2)}
    return [
        published_slice(f"parts-{node}", devices, **where),
        counter_slice(f"sets-{node}", sets, **where),
    ]


def common_pool(rng, node, **fields):
    """Of all nodes; devices of it are on one or two of them."""
    devices = [
        device(f"c{i}", {"model": "c"}, counters={"net": {"x": "2"}}, nodeName=rng.choice(NODES))
        for i in range(4)
    ]
    devices.append(shared("any", {"m": "4"}, {"model": "c"}, allNodes=True))
    where = {"pool": "common", "count": 2, **fields}
    return [
        published_slice("common", devices, perDeviceNodeSelection=True, **where),
        counter_slice("net", {"net": {"x": rng.choice("345")}}, allNodes=True, **where),
    ]


POOLS = [(kind, node) for kind in (plain_pool, shared_pool, parts_pool) for node in NODES]
POOLS += [(common_pool, "")]


def random_claim(rng, name):
    kinds = [
        [request("r", rng.randint(1, 3))],
        [request("r", rng.randint(1, 2), model(rng.choice("abc")))],
        [request("r", "All", model(rng.choice("ac")))],
        [request("r", rng.randint(1, 2), model("s"), {"m": rng.choice(["1", "2500m", "333m"])})],
        [request("r", None, model(rng.choice(["whole", "half", "small"]))), request("q")],
        [either("r", big=terms(1, model("whole")), small=terms(2, model("small")))],
        [request("r", 1, model("a"), adminAccess=True), request("q", 1, model("b"))],
        [request("r", 2, tolerations=[{"operator": "Exists"}])],
    ]
    of = rng.choice(kinds)
    fields = {}
    if rng.random() < 0.15:
        fields[rng.choice(["match", "distinct"])] = "gpu.x/root"
        of = [request("r", 2, f"{model('a')} || {model('b')}")]
    return claim(*of, name=name, **fields)


class Ledger:
    """What claims hold, and what that was charged, from allocations and slices."""

    def __init__(self):
        self.slices, self.held = {}, {}
        self.shares, self.charges = defaultdict(dict), {}

    def copy(self):
        return copy.deepcopy(self)

    def published(self, pool):
        slices = [part for part in self.slices.values() if (part.driver, part.pool.name) == pool]
        newest = max((part.pool.generation for part in slices), default=0)
        slices = [part for part in slices if part.pool.generation == newest]
        return {of.name: of for part in slices for of in part.devices}

    def give(self, owner, allocation):
        """Book an allocation."""
        held = []
        for result in allocation["devices"].get("results", []):
            if not result.get("adminAccess"):
                written = result.get("consumedCapacity", {})
                consumed = {name: read_exactly(of, name) for name, of in written.items()}
                id = DeviceId(result["driver"], result["pool"], result["device"])
                held.append((id, result.get("shareID", ""), consumed))
        self.held[owner] = held
        for id, share, consumed in held:
            shares = self.shares[id]
            assert share not in shares, (id, share)
            assert "" not in shares, (id, share)
            assert share or not shares, (id, share)
            if not shares:
                own = self.published(id[:2]).get(id.device)
                self.charges[id] = () if own is None else own.consumes_counters
            shares[share] = consumed

    def take(self, owner):
        for id, share, _ in self.held.pop(owner):
            del self.shares[id][share]
            if not self.shares[id]:
                del self.shares[id], self.charges[id]


class Life:
    def __init__(self, seed):
        self.rng, self.names, self.done = random.Random(seed), 0, defaultdict(int)
        self.cluster, self.ledger = DraCluster(FEATURES), Ledger()
        self.cluster.update(object_of("DeviceClass", device_class()))
        self.late = None  # a decision that was not committed
        for kind, node in POOLS:
            self.publish(kind(self.rng, node))

    def live(self, steps, depth=0):
        for _ in range(steps):
            what = self.rng.choice(STEP_NAMES)
            if what in ("trial", "branch") and depth > 1:
                continue
            getattr(self, what)(*([depth] if what in ("trial", "branch") else []))
            self.done[what] += 1
            if self.rng.random() < 0.02:
                self.compare()

    def compare(self):
        self.cluster.check()
        facts = self.cluster.facts()
        assert {owner: [*map(tuple, of)] for owner, of in facts.held.items()} == self.ledger.held
        assert facts.charges == self.ledger.charges
        self.done["compare"] += 1

    def facts(self):
        known = self.cluster.facts()
        return ClusterFacts(
            FEATURES, matches, known.nodes, [*self.ledger.slices.values()], known.classes,
            known.rules, self.ledger.held, self.ledger.charges,
        )  # fmt: skip

    # --- steps

    def new(self):
        self.names += 1
        return random_claim(self.rng, f"c{self.names}")

    def schedule(self):
        mode = self.rng.choice(MODES)
        prefer = self.rng.choice(["packed", "spread", "name"])
        asks = [self.new() for _ in range(self.rng.randint(1, 2))]
        decision = self.cluster.schedule(asks, mode=mode, prefer=prefer)
        if decision is not None:
            decision = decision.with_share_ids(lambda item, number: f"{item.name} {number}")
            if self.rng.random() < 0.1:
                self.late = decision
            else:
                self.commit(decision)

    def commit(self, decision):
        self.cluster.commit(decision)  # the ledger does not know of it yet
        verify_allocations(self.facts(), decision.node, decision.claims, decision.allocations)
        for entry, given in zip(decision.claims, decision.allocations, strict=True):
            self.ledger.give(f"/{entry.name}", given)
        self.done["commit"] += 1

    def commit_late(self):
        if self.late is None:
            return
        decision, self.late = self.late, None
        try:
            self.commit(decision)
        except (StaleDecisionError, ValueError):
            self.done["stale"] += 1

    def gang(self):
        pods = [[self.new()] for _ in range(self.rng.randint(2, 3))]
        within = (
            {("any", "capacity", "m"): self.rng.randint(0, 9)} if self.rng.random() < 0.5 else {}
        )
        gang = self.cluster.schedule_gang(pods, within=within)
        for decision in gang.decisions if gang else ():
            self.commit(decision.with_share_ids(lambda item, number: f"{item.name} {number}"))

    def release(self):
        if self.ledger.held:
            owner = self.rng.choice(sorted(self.ledger.held))
            self.cluster.release(owner)
            self.ledger.take(owner)

    def rename(self):
        if self.ledger.held:
            old = self.rng.choice(sorted(self.ledger.held))
            self.names += 1
            self.cluster.rename(old, f"/c{self.names}")
            self.ledger.held[f"/c{self.names}"] = self.ledger.held.pop(old)

    def publish(self, slices):
        self.cluster.update(*[object_of("ResourceSlice", part) for part in slices])
        for part in slices:
            self.ledger.slices[part["metadata"]["name"]] = ResourceSlice.of(part)

    def slices(self):
        kind, node = self.rng.choice(POOLS)
        built = kind(self.rng, node, generation=self.rng.randint(1, 3))
        newest = max(
            (part.pool.generation for part in self.ledger.slices.values()
             if part.pool.name == built[0]["spec"]["pool"]["name"]), default=1,
        )  # fmt: skip
        for entry in built:
            entry["spec"]["pool"]["generation"] = newest + self.rng.randint(0, 1)
        self.publish(built if self.rng.random() < 0.8 else built[:1])

    def unpublish(self):
        if len(self.ledger.slices) > 10:
            name = self.rng.choice(sorted(self.ledger.slices))
            self.cluster.remove("ResourceSlice", name)
            del self.ledger.slices[name]

    def rule(self):
        of = {"pool": self.rng.choice(NODES), "device": "d0"}
        spec = {"deviceSelector": of, "taint": {"key": "t", "effect": "NoSchedule"}}
        if self.cluster.facts().rules and self.rng.random() < 0.6:
            self.cluster.remove("DeviceTaintRule", "rule")
        else:
            document = {"metadata": {"name": "rule"}, "spec": spec}
            self.cluster.update(object_of("DeviceTaintRule", document, "v1alpha3"))

    def outside(self):
        """Another scheduler has written the status of a claim, or of one that is known."""
        decision = self.cluster.schedule([self.new()])
        if decision is None:
            return
        (entry,), (given,) = decision.claims, decision.allocations
        owner, is_known = f"/{entry.name}", self.ledger.held and self.rng.random() < 0.3
        if is_known:
            owner = self.rng.choice(sorted(self.ledger.held))
        document = claim(request("r"), name=owner[1:]) | {"status": {"allocation": given}}
        self.cluster.update(object_of("ResourceClaim", document))
        if is_known:
            self.ledger.take(owner)
        self.ledger.give(owner, given)
        if not self.ledger.held[owner]:
            del self.ledger.held[owner]

    def conflict(self):
        """A claim that says that it has all of a device that another has changes nothing."""
        taken = [id for of in self.ledger.held.values() for id, _, _ in of]
        if taken:
            id = self.rng.choice(sorted(taken))
            result = {"request": "r", **id._asdict()}
            given = {"status": {"allocation": {"devices": {"results": [result]}}}}
            with pytest.raises(ValueError, match="is in use"):
                self.cluster.update(object_of("ResourceClaim", claim(name="no") | given))

    def trial(self, depth):
        ledger, before = self.ledger.copy(), self.cluster.to_bytes()
        with self.cluster.trial():
            self.live(self.rng.randint(1, 12), depth + 1)
            self.late = None
        assert self.cluster.to_bytes() == before
        self.ledger = ledger

    def branch(self, depth):
        original, ledger = self.cluster, self.ledger.copy()
        before = original.to_bytes()
        self.cluster = original.copy()
        self.live(self.rng.randint(1, 12), depth + 1)
        self.compare()
        assert original.to_bytes() == before
        if depth or self.rng.random() < 0.5:  # a trial ends on the cluster on which it began
            self.cluster, self.ledger = original, ledger

    def save(self):
        restored = DraCluster.from_bytes(self.cluster.to_bytes())
        assert restored.to_bytes() == self.cluster.to_bytes()
        single = [self.new()]
        assert dict(restored.fits(single)) == dict(self.cluster.fits(single))


MODES = ["first", "best", "any", "fewest blocks", "least waste of m"]
STEP_NAMES = [
    *["schedule"] * 40, *["release"] * 30, *["slices"] * 4, *["rename"] * 3, *["gang"] * 3,
    *["outside"] * 3, *["commit_late"] * 4, *["conflict"] * 2, "unpublish", "rule", "trial",
    "branch", "save",
]  # fmt: skip


def test_a_cluster_conserves_what_it_gives_in_a_long_life():
    for seed in seeds(5):
        life = Life(seed)
        try:
            life.live(STEPS)
            life.compare()
        except Exception as error:
            error.add_note(f"seed {seed}, {dict(life.done)}")
            raise
        for owner in sorted(life.ledger.held):
            life.cluster.release(owner)
        assert not life.cluster.claims
        assert not life.cluster.facts().charges
        life.cluster.check()
        assert min(life.done[what] for what in {*STEP_NAMES, "commit", "stale"}) > 0
