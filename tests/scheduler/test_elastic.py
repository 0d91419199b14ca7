"""Elastic jobs grow on idle resources, and shrink pod by pod when others need them."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.histories import FailingHistory
from scheduler.lives import decided, flat_network, jobs_of, rack_network, said

from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Fit,
    Job,
    Preempt,
    Role,
    Scheduler,
    Shrink,
    Start,
    Stop,
    Where,
)
from hivecore.topology import NetworkTopology

R0, R1 = (Where(must="rack", nodes=[f"n{i}" for i in of]) for of in (range(4), range(4, 8)))


class ElasticHistory(FailingHistory):
    """Jobs that grow and shrink, some of which run on when pods fail."""

    def __init__(self, parts, seed):
        super().__init__(parts, seed)
        self.weights[4] += 0.3  # victims stop

    def varied(self, job):
        if job.stages or self.ways.random() < 0.3:
            return job
        how = self.ways.choice(["job", "pod", "pod-then-job"])
        roles = []
        for role in job.roles:
            least = self.ways.randint(1, role.pods)
            most = self.ways.choice([None, role.pods, role.pods + self.ways.randint(1, 3)])
            spares = self.ways.choice([0, 1]) if how != "job" else 0
            roles.append(role.replace(min_pods=least, max_pods=most, spares=spares))
        return job.replace(on_failure=how, roles=roles)


def network(nodes=8, size=4):
    return rack_network({f"n{i}": f"r{i // size}" for i in range(nodes)}, gpu=8)


def elastic(name="train", least=1, pods=2, most=8, gpus=8, where=None, **more):
    roles = [Role("w", pods, gpus=gpus, min_pods=least, max_pods=most)]
    return Job(name, "a", roles, where=where or Where(must="rack"), **more)


def start(scheduler, *jobs):
    actions = decided(scheduler, *jobs, now=scheduler.now)
    scheduler.check()
    return actions


def numbers(scheduler, job="train"):
    return sorted(pod.index for pod in scheduler.status(job).pods)


def by_quota(most=8, **settings):
    tree = QuotaTree([Quota("a", max={"gpu": most})], total={"gpu": most})
    return Scheduler(quotas=tree, **settings)


def test_a_job_grows_in_its_rack_as_far_as_that_goes():
    scheduler = Scheduler(topology=network())
    starts = start(scheduler, elastic())
    assert [[pod.index for pod in start.pods] for start in starts] == [[0], [1], [2], [3]]
    assert {pod.node for start in starts for pod in start.pods} == {"n0", "n1", "n2", "n3"}
    assert (list(scheduler), len(scheduler), "train/w/1" in scheduler) == (["train"], 1, False)
    assert scheduler.status("train/w/1").state == "running"
    scheduler.add_node("n9", now=1.0, labels={"rack": "r0"}, free={"gpu": 16})
    start(scheduler)
    assert numbers(scheduler) == [0, 1, 2, 3, 4, 5]


def test_an_elastic_job_shrinks_for_a_guaranteed_job_the_newest_pods_first():
    scheduler = by_quota(immediate=True)
    start(scheduler, elastic(gpus=1, where=Where()))
    assert numbers(scheduler) == [*range(8)]
    *shrinks, started = start(scheduler, Job("other", "a", 3))
    assert all(shrink.for_job == "other" and shrink.why == "opportunistic" for shrink in shrinks)
    assert sorted(pod.index for shrink in shrinks for pod in shrink.pods) == [5, 6, 7]
    assert (started.job, numbers(scheduler)) == ("other", [0, 1, 2, 3, 4])
    # Its least pods stay, as the other job is only as important.
    assert said(start(scheduler, Job("large", "a", 5))) == []
    start(scheduler, Job("small", "a", 4))
    assert numbers(scheduler) == [0] and scheduler.state("small") == "running"
    scheduler.finish("other", now=5.0)
    scheduler.finish("small", now=5.0)
    assert scheduler.state("large") == "pending"
    assert [action.job for action in start(scheduler)] == ["train", "large", "train"]


def test_held_resources_become_free_pod_by_pod():
    scheduler = Scheduler(topology=network())
    start(scheduler, elastic())
    shrinks = start(scheduler, Job("other", "a", [Role("w", 2, gpus=8)], where=R0))
    assert said(shrinks) == [("Shrink", "train"), ("Shrink", "train")]
    assert scheduler.status("other").victims == ("train/w/2", "train/w/3")
    assert scheduler.status("train/w/2").for_job == "other"
    with pytest.raises(KeyError, match="pod='w/0'"):
        scheduler.stopped("train", now=1.0, pod="w/0")
    with pytest.raises(ValueError, match="'train/w/1'"):
        scheduler.stopped("train", now=1.0, pod="w/1")
    scheduler.stopped("train", now=1.0, pod="w/2")
    assert start(scheduler) == [] and scheduler.status("train/w/2").has_stopped
    scheduler.stopped("train", now=2.0, pod="w/3")
    assert said(start(scheduler)) == [("Start", "other")]
    assert numbers(scheduler) == [0, 1]
    assert scheduler.state("train") == "running"


def test_pods_above_what_it_wants_come_after_all_jobs_of_the_tenant():
    for pods, first in ((4, "train"), (2, "late")):
        scheduler = by_quota(2)
        start(scheduler, elastic(pods=pods, gpus=1, where=Where()))
        assert numbers(scheduler) == [0, 1]
        start(scheduler, Job("late", "a", 1, guaranteed=False))
        scheduler.set_total({"gpu": 3}, now=1.0)
        scheduler.set_quota(Quota("a", max={"gpu": 3}), now=1.0)
        assert jobs_of(start(scheduler), Start) == [first]


@pytest.mark.parametrize("immediate", [True, False])
def test_pods_above_the_least_that_leave_for_an_order_are_named(immediate):
    scheduler = Scheduler(topology=flat_network("n0", gpu=4), immediate=immediate)
    decided(scheduler, Job("train", "a", [Role("w", 2, gpus=1, min_pods=1, max_pods=3)]))
    scheduler.reorder(["train"], now=1.0)
    leaving = [action for action in scheduler.decide(1.0) if isinstance(action, Shrink)]
    assert sorted(pod.index for action in leaving for pod in action.pods) == [1, 2]
    assert all(pod.node == "n0" for action in leaving for pod in action.pods)


def test_a_pod_above_the_least_takes_the_number_of_one_that_fails():
    scheduler = Scheduler(topology=network())
    start(scheduler, elastic(least=2, on_failure="pod"))
    scheduler.remove_node("n0", now=1.0)
    scheduler.check()
    _, taken = start(scheduler)
    assert [(pod.index, pod.node) for pod in taken.before] == [(3, "n3")]
    assert [(pod.index, pod.node) for pod in taken.pods] == [(0, "n3")]
    assert numbers(scheduler) == [0, 1, 2]
    assert taken.job == "train" and scheduler.status("train").lost == ()


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("max_pods=1", lambda: Role("w", 2, max_pods=1)),
        ("max_pods=-1", lambda: Role("w", 2, max_pods=-1)),
        ("max_pods: .*stages", lambda: elastic(stages=(1.0, 2.0))),
        ("where.multiple", lambda: elastic().replace(where=Where(multiple={"node": 2}))),
    ],
)
def test_errors_name_the_argument(what, call):
    with pytest.raises(ValueError, match=what):
        call()


@given(
    free=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    jobs=st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=1, max_size=2),
    wanted=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
@examples(150)
def test_the_fewest_possible_pods_leave(free, jobs, wanted):
    nodes = {f"n{i}": {"rack": f"r{i // 2}"} for i in range(len(free))}
    topology = NetworkTopology(["rack"], nodes)
    for node, gpus in zip(nodes, free, strict=True):
        topology.set_free(node, {"gpu": gpus})
    scheduler = Scheduler(topology=topology, immediate=True)
    names = [f"e{i}" for i in range(len(jobs))]
    for name, (least, gpus) in zip(names, jobs, strict=True):
        start(scheduler, elastic(name, least, least, 4, gpus))
    (pods, gpus), must = wanted, Where(must="rack")
    names = [name for name in names if name in scheduler]
    extras = [
        (pod.node, scheduler.job(name).roles[0].gpus)
        for name in names
        for pod in scheduler.status(name).pods
        if pod.index >= scheduler.job(name).roles[0].min_pods
    ]

    def fits(gone):
        idle = {node: topology.free(node).get("gpu", 0) for node in nodes}
        for node, more in gone:
            idle[node] += more
        room = Counter()
        for node in nodes:
            room[nodes[node]["rack"]] += idle[node] // gpus
        return max(room.values()) >= pods

    sizes = range(len(extras) + 1)
    least = next((n for n in sizes if any(map(fits, combinations(extras, n)))), None)
    job = Job("late", "a", [Role("w", pods, gpus=gpus)], where=must)
    actions = start(scheduler, job)
    shrinks = [action for action in actions if isinstance(action, Shrink)]
    assert not any(isinstance(action, Preempt) for action in actions)
    started = "late" in scheduler and scheduler.state("late") == "running"
    assert (len(shrinks) if started else None) == least


def test_no_pod_takes_a_number_on_the_node_that_is_lost():
    scheduler = Scheduler(topology=network(2, size=2))
    start(scheduler, elastic(least=3, pods=3, most=4, gpus=4, on_failure="pod"))
    assert [pod.node for pod in scheduler.status("train").pods] == ["n0", "n0", "n1", "n1"]
    scheduler.remove_node("n1", now=1.0)
    scheduler.check()
    assert scheduler.status("train").lost == ("w/2",)
    stops = [action for action in start(scheduler) if isinstance(action, Stop)]
    assert sorted(pod.index for stop in stops for pod in stop.pods) == [2, 3]


@pytest.mark.parametrize("link", ["after", "together"])
@pytest.mark.parametrize("pod", [1, 2, 5])
def test_pods_of_an_elastic_job_are_no_jobs(link, pod):
    """Pod 1 runs, and pod 2 waits for room."""
    scheduler = Scheduler(topology=flat_network("n0", gpu=3), immediate=True)
    wide = Job("wide", "t", [Role("w", 3, min_pods=1, max_pods=3)], guaranteed=False)
    other = Job("other", "t", 1)
    assert [action.job for action in start(scheduler, other, wide)][:3] == ["other", "wide", "wide"]
    name = f"wide/w/{pod}"
    then = Job("then", "t", 1, **{link: [name]})
    assert said(start(scheduler, then)) == [("Shrink", "wide"), ("Start", "then")]
    with pytest.raises(KeyError, match=f"there is no job '{name}'"):
        scheduler.plan_moves(Fit(name))


def test_jobs_that_have_ended_or_never_started_hold_no_job_up():
    """As the scheduler forgets them."""
    scheduler = by_quota()
    start(scheduler, Job("full", "a", 8), Job("waits", "a", 8))
    scheduler.submit(Job("then", "a", 0, after=["full", "waits", "unknown"]), now=1.0)
    (wait,) = scheduler.decide(now=1.0)
    assert wait.reason == "waits for 'waits' to start"
    scheduler.cancel("waits", now=2.0)
    scheduler.finish("full", now=2.0)
    assert said(scheduler.decide(now=2.0)) == [("Start", "then")]
