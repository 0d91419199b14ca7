"""Limits of pods of a role per node, in all circumstances."""

import copy
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, seeds
from scheduler.histories import FailingHistory
from scheduler.lives import COMPOSITIONS, decided, machines, make_scheduler, rack_network
from scheduler.test_elastic import ElasticHistory

from hivecore.devices import DeviceRequest
from hivecore.errors import InvariantError
from hivecore.scheduler import (
    Job,
    PlacedPod,
    Role,
    Scheduler,
    Start,
    Where,
    plain_record,
)
from hivecore.verify import verify_start

PLACING = ["topology", "cells", "devices", "topology and devices", "cells and devices"]


def crowded(scheduler):
    """Nodes with more pods of a role than they may have."""
    for name in scheduler:
        counts = Counter((pod.role, pod.node) for pod in scheduler.status(name).pods if pod.node)
        most = {role.name: role.per_node for role in scheduler.job(name).roles}
        yield from (where for where, pods in counts.items() if pods > (most[where[0]] or pods))


class SpreadHistory(FailingHistory):
    """Jobs with limits of pods per node."""

    def varied(self, job):
        job, first = super().varied(job), self.ways.choice([1, 1, 2, None])
        most = [first, *[self.ways.choice([1, 2, None]) for _ in job.roles[1:]]]
        roles = [role.replace(per_node=of) for role, of in zip(job.roles, most, strict=True)]
        return self.if_enforced(job.replace(roles=roles)) or job

    def if_enforced(self, job):
        return None if self.scheduler._state.stages.unenforced(job) else job

    def amend(self):
        """A waiting job gets other limits, if it may."""
        waiting = [name for name in self.scheduler if self.scheduler.status(name).since is None]
        for name in self.one_of(waiting):
            roles = [
                role.replace(per_node=self.ways.choice([1, 2])) for role in self.jobs[name].roles
            ]
            if job := self.if_enforced(self.jobs[name].replace(roles=roles)):
                self.scheduler.amend(name, self.now, roles=roles)
                self.jobs[name] = job

    def decide(self):
        super().decide()
        assert list(crowded(self.scheduler)) == []


class SpreadElasticHistory(SpreadHistory, ElasticHistory):
    """The same for jobs that grow and shrink."""


@pytest.mark.parametrize("kind", [SpreadHistory, SpreadElasticHistory])
@pytest.mark.parametrize(
    "parts", [parts for parts in sorted(COMPOSITIONS) if "queues" not in parts]
)
@pytest.mark.parametrize("seed", seeds(1))
def test_no_node_gets_more_pods_of_a_role_whatever_happens(parts, kind, seed):
    kind(parts, seed).live(40)


def test_a_job_is_tried_again_when_a_quota_exceeds_its_runtime_by_more():
    SpreadElasticHistory("quotas and lending", 5015).live(60)


@pytest.mark.parametrize("parts", PLACING)
def test_pods_that_come_by_themselves_are_on_other_nodes_too(parts):
    scheduler = make_scheduler(COMPOSITIONS[parts])
    role = Role("w", 2, gpus=1, min_pods=1, max_pods=8, per_node=1)
    decided(scheduler, Job("j", "a", [role]))
    assert sorted(pod.node for pod in scheduler.status("j").pods) == ["n0", "n1", "n2", "n3"]


def fits(free, roles):
    """Whether there is a placement of these roles (pods, GPUs, per node), by trying all."""
    nodes = {tuple(free)}
    for pods, gpus, most in roles:
        counts = {(state, pods) for state in nodes}
        for at in range(len(free)):
            counts = {
                ((*state[:at], state[at] - n * gpus, *state[at + 1 :]), left - n)
                for state, left in counts
                for n in range(min(left, most, state[at] // gpus) + 1)
            }
        nodes = {state for state, left in counts if not left}
    return bool(nodes)


roles = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))


@examples(150)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(roles, min_size=1, max_size=2),
    st.sampled_from(["topology", "devices"]),
)
def test_a_job_starts_exactly_if_its_pods_fit(free, requested, part):
    if part == "devices":
        requested = requested[:1]
    nodes = [f"n{i}" for i in range(len(free))]
    network = rack_network({node: f"r{int(node[1]) // 2}" for node in nodes}, gpu=4)
    composition = {"topology": network} if part == "topology" else {"devices": machines(nodes)}
    scheduler = Scheduler(preemption=False, **composition)
    for node, idle in zip(nodes, free, strict=True):
        if idle < 4:
            name = f"on-{node}"
            where = Where(nodes=[node])
            scheduler.submit(Job(name, "a", [Role("w", gpus=4 - idle)], where=where), 0.0)
    assert all(isinstance(action, Start) for action in scheduler.decide(0.0))
    given = [Role(f"r{i}", n, gpus=g, per_node=most) for i, (n, g, most) in enumerate(requested)]
    before, job = scheduler.copy(), Job("j", "a", given)
    before.submit(job, 1.0)
    (action,) = decided(scheduler, job, now=1.0)
    assert isinstance(action, Start) == fits(free, requested)
    assert (type(action).__name__ == "Reject") == (not fits([4] * len(free), requested))
    if isinstance(action, Start):
        verify_start(action, job, before)


def test_pods_that_run_already_have_to_keep_it():
    scheduler = make_scheduler(("topology",))
    job = Job("j", "a", [Role("w", 2, gpus=1, per_node=1)])
    pods = [PlacedPod("w", i, "n0") for i in range(2)]
    with pytest.raises(ValueError, match="pods: 2 of role 'w' on 'n0'"):
        scheduler.adopt(job, pods, now=0.0)
    assert list(scheduler) == []
    scheduler.adopt(job, [pods[0], PlacedPod("w", 1, "n1")], now=0.0)
    scheduler.check()


def test_the_reason_and_the_explanation_name_it():
    scheduler = make_scheduler(("topology",))
    scheduler.submit(Job("busy", "a", [Role("w", 3, gpus=4)]), 0.0)
    decided(scheduler, Job("j", "a", [Role("w", 2, gpus=1, per_node=1)]))
    explanation = scheduler.explain("j")
    assert (
        explanation.reason
        == "2 pods need as many slots: the network has 1 slot; at most 1 of 'w' per node"
    )
    assert explanation.changes[0].text == "without per_node"


@pytest.mark.parametrize("parts", PLACING)
def test_every_part_that_keeps_a_limit_names_it(parts):
    scheduler = make_scheduler(COMPOSITIONS[parts], growing=True)
    decided(scheduler, Job("j", "a", [Role("w", 5, gpus=1, per_node=1)]))
    explanation = scheduler.explain("j")
    assert explanation.reason.endswith("; at most 1 of 'w' per node")
    assert scheduler.status("j").refusal.reason == explanation.reason
    assert explanation.changes[-1].text == "without per_node"
    assert "no nodes" not in explanation.text


@pytest.mark.parametrize("parts", PLACING)
def test_a_scheduler_that_adopts_what_runs_goes_on_in_the_same_way(parts):
    """Cells name the GPUs, so that the guarantee is the same."""
    for seed in seeds(30):
        rng = random.Random(seed)
        first, other = (make_scheduler(COMPOSITIONS[parts]) for _ in range(2))
        for i in range(4):
            role = Role("w", rng.randint(1, 3), gpus=rng.randint(1, 2), per_node=rng.randint(1, 2))
            first.submit(Job(f"j{i}", "a", [role], on_failure="pod"), 0.0)
        first.decide(0.0)
        for name in first:
            if first.state(name) == "running":
                other.adopt(first.job(name), first.status(name).pods, now=0.0)
        other.check()
        node = rng.choice(other.status(next(iter(other))).pods).node
        said = []
        for scheduler in (first, other):
            for name in [name for name in scheduler if scheduler.state(name) != "running"]:
                scheduler.cancel(name, 0.0)
            scheduler.remove_node(node, 1.0)
            said.append([plain_record(action) for action in scheduler.decide(1.0)])
            scheduler.check()
            assert list(crowded(scheduler)) == []
        assert said[0] == said[1], seed


NIC = DeviceRequest("any", gpus=0, nics=1)


@pytest.mark.parametrize(
    ("parts", "roles", "reason"),
    [
        ("queues", [Role("w", 2, per_node=1)], "no part enforces it; cells or topology or"),
        ("cells", [Role("l", gpus=1), Role("w", 2, per_node=1)], "cells limit the pods of a node"),
        ("devices", [Role("l", gpus=1), Role("w", 2, per_node=1)], "devices limit the pods of a"),
        (
            "cells",
            [Role("l"), Role("w", 2, gpus=0, per_node=1)],
            "cells counts nothing that its pods",
        ),
    ],
)
def test_limits_that_no_part_enforces_are_refused(parts, roles, reason):
    scheduler = make_scheduler(COMPOSITIONS[parts])
    with pytest.raises(ValueError, match=rf"roles\['w'\].per_node=1: ({reason})"):
        scheduler.submit(Job("j", "a", roles), 0.0)
    assert list(scheduler) == []


def test_a_network_knows_two_kinds_of_pods():
    scheduler = make_scheduler(("topology",))
    (rejected,) = decided(scheduler, Job("j", "a", [Role(name, per_node=1) for name in "xyz"]))
    assert rejected.reason.startswith("per_node: a network places pods of two kinds at most")


def test_cells_place_pods_without_gpus_through_devices():
    scheduler = make_scheduler(COMPOSITIONS["cells and devices"])
    roles = [Role("w", 2, gpus=1), Role("n", 2, devices=NIC, per_node=1)]
    (start,) = decided(scheduler, Job("j", "a", roles))
    assert len({pod.node for pod in start.pods if pod.role == "n"}) == 2


@pytest.mark.parametrize("value", [0, -1, 2**20 + 1, 1.5, "1"])
def test_a_number_out_of_range_is_named(value):
    with pytest.raises((ValueError, TypeError), match="per_node"):
        Role("w", per_node=value)


def test_verify_finds_what_is_together():
    scheduler = make_scheduler(("topology",))
    job = Job("j", "a", [Role("w", 2, gpus=1)])
    scheduler.submit(job, 0.0)
    before = copy.copy(scheduler)
    (start,) = scheduler.decide(0.0)
    verify_start(start, job, before)
    with pytest.raises(InvariantError, match="nodes: 2 pods of role 'w' of 'j' on 'n0', not 1"):
        verify_start(start, job.replace(roles=[Role("w", 2, gpus=1, per_node=1)]), before)
