"""Limits of pods per domain, and balance between domains."""

import random
from collections import Counter

import pytest
from profiles import SCALE, seeds
from scheduler.histories import History
from scheduler.lives import COMPOSITIONS, RACKS, decided, make_scheduler

from hivecore.errors import InvariantError
from hivecore.scheduler import Job, PlacedPod, Role, Scheduler, Start, Where
from hivecore.topology import NetworkTopology
from hivecore.verify import verify_start


def in_racks(pods):
    """How many pods are in each rack."""
    racks = [RACKS[pod.node] for pod in pods]
    return {rack: racks.count(rack) for rack in sorted({*racks})}


class LimitedHistory(History):
    """Jobs with limits per rack or node, or balance."""

    def __init__(self, parts, seed):
        super().__init__(parts, seed)
        self.ways = random.Random(seed + 1)

    def varied(self, job):
        if job.stages or any(role.joining_numbers for role in job.roles):
            return job
        limits = {"per_domain": {self.ways.choice(["rack", "node"]): self.ways.randint(1, 2)}}
        where = job.where.replace(**self.ways.choice([{}, limits, {"balance": "rack"}]))
        return job.replace(where=where)

    def amend(self):
        """Waiting jobs keep their request: other roles may not be compatible with it."""

    def decide(self):
        super().decide()
        for name in self.scheduler:
            pods = self.scheduler.status(name).pods
            for layer, most in self.scheduler.job(name).where.per_domain:
                names = [RACKS[pod.node] if layer == "rack" else pod.node for pod in pods]
                assert all(names.count(name) <= most for name in names)


@pytest.mark.parametrize("parts", [parts for parts in sorted(COMPOSITIONS) if "topology" in parts])
@pytest.mark.parametrize("seed", seeds(4))
def test_no_domain_gets_more_whatever_happens(parts, seed):
    LimitedHistory(parts, seed).live(40)


@pytest.mark.parametrize("parts", ["topology", "topology and devices"])
def test_pods_are_even_between_racks(parts):
    role = Role("w", 6, gpus=2)
    usual = decided(make_scheduler(COMPOSITIONS[parts]), Job("j", "a", [role]))[0].pods
    assert in_racks(usual) == {"r0": 4, "r1": 2}
    even = Job("j", "a", [role], where=Where(balance="rack"))
    assert in_racks(decided(make_scheduler(COMPOSITIONS[parts]), even)[0].pods) == {
        "r0": 3,
        "r1": 3,
    }


def balanced(seed):
    """A balanced job in a partly used network: its start, and the state before."""
    rng = random.Random(seed)
    racks = rng.randint(2, 4)
    labels = {f"n{i}": {"rack": f"r{rng.randrange(racks)}"} for i in range(rng.randint(3, 8))}
    network = NetworkTopology(["rack"], labels)
    for node in network.nodes:
        network.set_free(node, {"gpu": rng.randint(1, 6)})
    scheduler = Scheduler(topology=network)
    decided(scheduler, *[Job(f"o{i}", "a", rng.randint(1, 3)) for i in range(rng.randint(0, 5))])
    role = Role("w", rng.randint(3, 9), 1, per_node=rng.choice([None, None, 2, 3]))
    job = Job("j", "a", [role], where=Where(balance="rack"))
    scheduler.submit(job, 0.0)
    before = scheduler.copy()
    starts = [action for action in scheduler.decide(0.0) if isinstance(action, Start)]
    return (starts[0] if starts else None), job, before, labels


def test_the_verifier_accepts_even_pods_and_refuses_others():
    """One pod more in the fullest rack is too many."""
    refused = 0
    for seed in seeds(200):
        start, job, before, labels = balanced(seed)
        if start is None:
            continue
        verify_start(start, job, before)
        counts = Counter(labels[pod.node]["rack"] for pod in start.pods)
        fullest = max(counts.values())
        for i, pod in enumerate(start.pods):
            for node in labels:
                rack = labels[node]["rack"]
                if counts[rack] != fullest or counts[labels[pod.node]["rack"]] == 1:
                    continue
                if rack == labels[pod.node]["rack"]:
                    continue
                moved = [*start.pods[:i], PlacedPod("w", i, node), *start.pods[i + 1 :]]
                with pytest.raises(InvariantError) as caught:
                    verify_start(Start("j", tuple(moved)), job, before)
                refused += "fewer would do" in str(caught.value)
    assert refused > 2 or SCALE < 1


@pytest.mark.parametrize("free", [{}, {"cpu": 1}])
@pytest.mark.parametrize("others", [[], [Role("driver", 1, gpus=0)]])
def test_the_verifier_counts_only_what_pods_take_and_only_pods_on_nodes(free, others):
    scheduler = make_scheduler(("topology",))
    for node in scheduler.topology.nodes:
        scheduler.topology.set_free(node, {"gpu": 4, **free})
    job = Job("j", "a", [*others, Role("w", 6, gpus=2)], where=Where(balance="rack"))
    before = scheduler.copy()
    before.submit(job, 0.0)
    (start,) = decided(scheduler, job)
    verify_start(start, job, before)
    nodes = iter(["n0", "n0", "n1", "n1", "n2", "n2"])
    pods = [pod.replace(node=next(nodes)) if pod.node else pod for pod in start.pods]
    with pytest.raises(InvariantError, match="topology: 4 pods in a 'rack', and fewer would do"):
        verify_start(start.replace(pods=pods), job, before)


def test_a_rack_gets_no_more_than_it_may():
    scheduler = make_scheduler(("topology",))
    job = Job("j", "a", [Role("w", 4, gpus=1)], where=Where(per_domain={"rack": 2}))
    before = scheduler.copy()
    before.submit(job, 0.0)
    (start,) = decided(scheduler, job)
    assert in_racks(start.pods) == {"r0": 2, "r1": 2}
    verify_start(start, job, before)
    wrong = Start("j", tuple(PlacedPod("w", i, "n0") for i in range(4)))
    with pytest.raises(InvariantError, match="topology: 4 pods in a 'rack', at most 2 may be"):
        verify_start(wrong, job, before)
    (rejected,) = decided(scheduler, job.replace(name="k", roles=[Role("w", 5, gpus=1)]))
    assert rejected.reason == "not with at most 2 in each rack"


def test_pods_that_run_already_have_to_keep_it():
    scheduler = make_scheduler(("topology",))
    job = Job("j", "a", [Role("w", 2, gpus=1)], where=Where(per_domain={"rack": 1}))
    with pytest.raises(ValueError, match="pods of 'j': 2 in a 'rack', at most 1 may be"):
        scheduler.adopt(job, [PlacedPod("w", 0, "n0"), PlacedPod("w", 1, "n1")], now=0.0)
    scheduler.adopt(job, [PlacedPod("w", 0, "n0"), PlacedPod("w", 1, "n2")], now=0.0)
    scheduler.check()


@pytest.mark.parametrize("wish", [{"per_domain": {"rack": 1}}, {"balance": "rack"}])
def test_incompatible_arguments_are_named(wish):
    where, (field,) = Where(**wish), wish
    for more, name in (
        ({"roles": [Role("w", 2, min_pods=1)]}, "min_pods"),
        ({"roles": [Role("w", 2, max_pods=3)]}, "max_pods"),
        ({"roles": 1, "stages": (1.0, 1.0)}, "stages"),
        ({"roles": 1, "on_failure": "pod"}, "on_failure='pod'"),
    ):
        with pytest.raises(ValueError, match=f"{name}: .*where.{field}"):
            Job("j", "a", **more, where=where)
    for parts in ("cells", "devices", "queues"):
        with pytest.raises(ValueError, match=rf"where.{field}=.*: no part enforces it; topology"):
            decided(make_scheduler(COMPOSITIONS[parts]), Job("j", "a", 1, where=where))
    two = Job("j", "a", [Role("l", gpus=1), Role("w", gpus=2)], where=where)
    (rejected,) = decided(make_scheduler(("topology",)), two)
    assert rejected.reason == f"role: cannot be combined with {field}"
    row = Job(
        "j", "a", 1, where=where.replace(**{field: "row" if field == "balance" else {"row": 1}})
    )
    (rejected,) = decided(make_scheduler(("topology",)), row)
    assert "row" in rejected.reason
