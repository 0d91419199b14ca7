"""How fast jobs run by what they share, and what the event loop makes of it."""

from functools import partial
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import limited

from hivecore.errors import InvariantError
from hivecore.scheduler import Job, Move, PlacedPod, Preempt, Scheduler, Sharing, Start
from hivecore.sim import simulate
from hivecore.sim.progress import JobFails, NodeChanges
from hivecore.sim.progress.paced import Paced
from hivecore.sim.worlds import InterleavedGpus
from hivecore.topology import NetworkTopology

one_node = partial(limited, immediate=True)


class Script:
    """A world whose speeds change at known times."""

    def __init__(self, *changes):
        self.changes = list(changes)
        self.events = []

    def obey(self, actions, now):
        self.events += [(now, type(action).__name__, action.job) for action in actions]

    def end(self, job, now):
        self.events.append((now, "ends", job))

    def speeds(self, now):
        result = {}
        while self.changes and self.changes[0][0] <= now:
            result |= self.changes.pop(0)[1]
        return result

    def next_change(self):
        return self.changes[0][0] if self.changes else inf


def test_what_is_left_goes_on_at_another_speed():
    world = Script((4, {"one": 0.5}), (8, {"one": 0.0}), (20, {"one": 0.25}))
    outcome = simulate(one_node(), [Job("one", "a", 8)], [1], [10], world)
    # 3 seconds done at 4, 5 at 8, and the other 5 take 20.
    assert outcome.start.tolist() == [1] and outcome.end.tolist() == [40]
    assert world.events == [(1, "Start", "one"), (40, "ends", "one")]


def test_the_end_of_a_run_that_was_slowed_is_no_event_any_more():
    times = []

    def watch(now, come):
        times.append(now)
        return now

    world = Script((4, {"one": 0.5}))
    simulate(one_node(), [Job("one", "a", 8)], [1], [10], world, watch)
    assert times == [1, 4, 18]


def test_a_job_that_waits_for_one_that_is_slowed_starts_later():
    jobs = [Job("one", "a", 8), Job("two", "a", 8)]
    outcome = simulate(one_node(), jobs, [0, 0], [10, 5], Script((5, {"one": 0.1})))
    assert outcome.end.tolist() == [55, 60]


def test_a_job_without_progress_is_named():
    with pytest.raises(InvariantError, match="'one' never ends"):
        simulate(one_node(), [Job("one", "a", 8)], [0], [10], Script((4, {"one": 0.0})))


class Failures(Paced):
    """What fails when."""

    def __init__(self, *incidents):
        super().__init__(None)
        self.incidents = incidents

    def next_change(self, before):
        return min([before, *(time for time, _ in self.incidents)])

    def happen(self, now):
        results = [what for time, what in self.incidents if time <= now]
        self.incidents = self.incidents[len(results) :]
        for what in results:
            if isinstance(what, JobFails):
                del self._number[what.job]
        return results


def test_a_failed_job_runs_again_elsewhere_if_its_node_is_lost():
    network = NetworkTopology([], {"x": {}, "y": {}})
    for node in "xy":
        network.set_free(node, {"gpu": 8})
    failures = Failures((3, JobFails("one")), (3, NodeChanges("x", False)))
    scheduler = Scheduler(topology=network, immediate=True)
    outcome = simulate(scheduler, [Job("one", "a", 8)], [0], [10], progress=failures)
    assert (outcome.end.tolist(), outcome.lost.tolist()) == ([13], [3])
    assert outcome.preemptions.tolist() == [0]
    assert network.unhealthy == ("x",)


def test_an_order_ranks_jobs_before_each_decision():
    jobs = [Job("long", "a", 8), Job("short", "a", 8), Job("last", "a", 8)]
    length = {"long": 10, "short": 4, "last": 5}
    scheduler, wanted = one_node(), []

    def shortest_first(now):
        wanted.append(now)
        return sorted(scheduler, key=length.__getitem__)

    outcome = simulate(scheduler, jobs, [0, 2, 3], [10, 4, 5], order=shortest_first)
    assert outcome.end.tolist() == [21, 6, 11]
    assert outcome.preemptions.tolist() == [1, 0, 0]
    assert outcome.lost.tolist() == [2, 0, 0]
    assert wanted == [0, 2, 3, 6, 11, 21]


def test_a_world_and_a_progress_of_its_own_do_not_go_together():
    with pytest.raises(ValueError, match="progress says already how fast jobs run"):
        simulate(one_node(), [], [], [], Script(), progress=Failures())


def test_members_of_a_group_run_at_the_round_of_the_present_members():
    stages = {"reads": [3, 1], "computes": [1, 3], "evenly": [2, 2]}
    jobs = [Job(name, "a", 8, stages=stage) for name, stage in stages.items()]
    outcome = simulate(
        one_node(sharing=Sharing(2)), jobs, [0, 0, 0], [60, 90, 5], InterleavedGpus(jobs)
    )
    # The first two fit without loss; the third joins at 60, in rounds of 5 where one alone needs 4.
    assert outcome.start.tolist() == [0, 0, 60]
    assert outcome.end.tolist() == [60, 91.25, 66.25]


def pods(node):
    return (PlacedPod("pod", 0, node),)


@given(st.data())
@examples(200)
def test_speeds_are_those_of_the_groups_that_the_actions_say(data):
    names = [f"j{i}" for i in range(5)]
    jobs = [Job(name, "a", 1, stages=[1 + i, 2, 7 - i]) for i, name in enumerate(names)]
    world, where, speeds = InterleavedGpus(jobs), {}, {}
    for now in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(names))
        node = data.draw(st.sampled_from("xyz"))
        others = tuple(sorted(entry for entry in where if where[entry] == node and entry != name))
        if len(others) == 3:
            continue
        if name not in where:
            world.obey([Start(name, pods(node), others)], now)
            where[name] = node
        elif data.draw(st.booleans()) and where[name] != node:
            world.obey([Move(name, pods(node), pods(where[name]), others)], now)
            where[name] = node
        else:
            world.obey([Preempt(name, "other", "priority")], now)
            del where[name]
            speeds.pop(name, None)
        speeds |= world.speeds(now)
        assert speeds == pytest.approx({entry: speed_of(entry, where, jobs) for entry in where})


def speed_of(name, where, jobs):
    """Of three resources: in each slot all wait for the longest stage; the best order."""
    stages = {job.name: job.stages for job in jobs}
    group = [stages[entry] for entry in sorted(where) if where[entry] == where[name]]
    if len(group) == 1:
        return 1.0
    first, *others = group
    orders = [(1,), (2,)] if len(others) == 1 else [(1, 2), (2, 1)]
    rounds = []
    for order in orders:
        turns = [
            first,
            *(entry[-by:] + entry[:-by] for entry, by in zip(others, order, strict=True)),
        ]
        rounds.append(sum(max(turn[slot] for turn in turns) for slot in range(3)))
    return sum(stages[name]) / min(rounds)
