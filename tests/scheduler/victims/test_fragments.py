"""Among sets of victims with the same cost, those that leave the fewest fragments."""

import random
from itertools import combinations

import pytest
from scheduler.lives import COMPOSITIONS, GPUS, NODES, decided, jobs_of, make_scheduler

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Fragments, Job, Preempt, Scheduler, Start


def victims(scheduler, job, now=9.0):
    return set(jobs_of(decided(scheduler, job, now=now), Preempt))


@pytest.mark.parametrize("goal", [None, Fragments(), Fragments([2, 4])])
def test_a_victim_that_leaves_no_fragment_is_preferred(goal):
    """By GPU-seconds "b" would leave, which would keep a GPU idle."""
    scheduler = make_scheduler(("topology",), immediate=True, fragments=goal)
    for name, gpus, node in (("a", 3, "n0"), ("c", 1, "n0"), ("b", 2, "n1"), ("d", 2, "n1")):
        for other in NODES:
            scheduler.set_node(other, other == node, 0.0)
        decided(scheduler, Job(name, "a", gpus, guaranteed=False), now=0.0)
    for node in NODES:
        scheduler.set_node(node, node in ("n0", "n1"), 0.0)
    scheduler = Scheduler.from_bytes(scheduler.to_bytes())
    assert victims(scheduler, Job("new", "a", 2)) < {"b", "d"}
    assert len(victims(scheduler, Job("more", "a", 3))) == 1


def fragments(scheduler, goal):
    idle = dict.fromkeys(NODES, GPUS)
    for name in scheduler:
        for pod in scheduler.status(name).pods:
            idle[pod.node] -= scheduler.job(name).roles[0].gpus
    empty = [node for node, gpus in idle.items() if gpus == GPUS]
    return sum(idle.values()) - goal.usable(idle, empty)


@pytest.mark.parametrize("parts", ["topology", "devices", "topology and devices"])
@pytest.mark.parametrize("seed", range(25))
def test_no_other_set_of_as_many_leaves_fewer(parts, seed):
    rng = random.Random(seed)
    goal = Fragments(rng.choice([(), (2,), (4,), (1, 2, 4)]))
    scheduler = make_scheduler(COMPOSITIONS[parts], immediate=True, fragments=goal)
    for i in range(12):
        job = Job(f"j{i}", "a", rng.choice([1, 1, 2, 3]), guaranteed=False)
        if not any(isinstance(action, Start) for action in decided(scheduler, job, now=float(i))):
            scheduler.cancel(job.name, float(i))
    new = Job("new", "a", rng.choice([2, 3, 4]))
    before, running = scheduler.copy(), list(scheduler)
    gone = victims(scheduler, new, now=20.0)
    scheduler.check()
    left = {}
    for names in combinations(running, len(gone)) if gone else ():
        branch = before.copy()
        for name in names:
            branch.cancel(name, 20.0)
        if {type(action) for action in decided(branch, new, now=20.0)} == {Start}:
            left[frozenset(names)] = fragments(branch, goal)
    assert not gone or left[frozenset(gone)] == min(left.values())


def test_a_cluster_file_sets_the_goal():
    cluster = "cluster:\n  models: {m: {gpus: 8}}\n  nodes: {n1: m}\n"
    text = cluster + "devices:\nscheduler: {fragments: %s}"
    spec = SchedulerSpec.of_yaml(text % "[1, 8]")
    assert spec.fragments == Fragments([1, 8]) and not spec.scheduler()
    assert SchedulerSpec.of_yaml(text % "[]").fragments == Fragments()
    with pytest.raises(ValueError, match=r"scheduler.fragments: must be an integer from 1"):
        SchedulerSpec.of_yaml(text % "[0]")
    with pytest.raises(ValueError, match=r"scheduler.fragments: must be a list"):
        SchedulerSpec.of_yaml(text % "8")
    with pytest.raises(TypeError, match="fragments must be a Fragments, not int"):
        Scheduler(fragments=3)
