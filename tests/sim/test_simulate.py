"""Jobs under schedulers of any kind: what the event loop makes of what they say."""

import pytest

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Scheduler
from hivecore.sim import simulate


def quotas(**most):
    limits = {name: {"gpu": gpus} for name, gpus in most.items()}
    tree = [Quota(name, min=amounts, max={"gpu": 8}) for name, amounts in limits.items()]
    return QuotaTree(tree, total={"gpu": 8})


def two_nodes():
    chain = Chain(["gpu", "node"], [8], 2)
    return CellCluster(ClusterSpec({"c": chain}, {name: {"c": {"node": 1}} for name in "ab"}))


def test_jobs_run_for_their_durations_and_end_in_order():
    scheduler = Scheduler(quotas=quotas(a=8), immediate=True)
    jobs = [Job("one", "a", 8), Job("two", "a", 4), Job("three", "a", 4)]
    outcome = simulate(scheduler, jobs, [0, 1, 2], [10, 5, 7])
    assert outcome.start.tolist() == [0, 10, 10]
    assert outcome.end.tolist() == [10, 15, 17]
    assert not outcome.preemptions.any() and not outcome.lost.any()
    assert len(scheduler) == 0


@pytest.mark.parametrize("immediate", [True, False])
def test_a_preempted_job_loses_its_work_and_runs_again(immediate):
    scheduler = Scheduler(quotas=quotas(a=4, b=4), immediate=immediate)
    jobs = [Job("borrows", "a", 8), Job("own", "b", 4)]
    outcome = simulate(scheduler, jobs, [0, 3], [10, 5])
    assert outcome.start.tolist() == [8, 3]
    assert outcome.end.tolist() == [18, 8]
    assert outcome.preemptions.tolist() == [1, 0]
    assert outcome.lost.tolist() == [3, 0]


def test_work_on_idle_cells_counts_until_the_promotion():
    scheduler = Scheduler(cells=two_nodes(), lending=True, immediate=True)
    jobs = [Job("first", "a", 8), Job("second", "a", 8)]
    outcome = simulate(scheduler, jobs, [0, 10], [60, 100])
    assert outcome.start.tolist() == [0, 10]
    assert outcome.end.tolist() == [60, 110]
    assert outcome.lent.tolist() == [0, 50]
    assert outcome.promotions == 1


def test_work_on_idle_cells_that_is_lost_was_in_vain():
    scheduler = Scheduler(cells=two_nodes(), lending=True, immediate=True)
    jobs = [Job("first", "a", 8), Job("second", "a", 8), Job("owner", "b", 8)]
    outcome = simulate(scheduler, jobs, [0, 10, 30], [60, 100, 50])
    assert outcome.start.tolist() == [0, 60, 30]
    assert outcome.lost.tolist() == [0, 20, 0]
    assert not outcome.lent.any() and outcome.promotions == 0


def test_the_watch_is_called_before_time_moves_on():
    seen = []

    def watch(now, come):
        seen.append((now, come))
        return now

    simulate(Scheduler(), [Job("one", "a", 1), Job("two", "a", 1)], [1, 4], [2, 2], watch=watch)
    assert seen == [(1, 0), (3, 1), (4, 1), (6, 2)]


def test_what_cannot_be_simulated_is_refused():
    jobs = [Job("one", "a", 1), Job("two", "a", 1)]
    with pytest.raises(ValueError, match="jobs=2, submit=1, duration=2 differ"):
        simulate(Scheduler(), jobs, [0], [1, 1])
    with pytest.raises(ValueError, match="submit: the times fall"):
        simulate(Scheduler(), jobs, [1, 0], [1, 1])
    with pytest.raises(ValueError, match="'one' can never run: there is no quota 'a'"):
        simulate(Scheduler(quotas=quotas(b=8)), jobs, [0, 0], [1, 1])
    busy = Scheduler()
    busy.submit(jobs[0], 0.0)
    with pytest.raises(ValueError, match="scheduler: it has 1 job already"):
        simulate(busy, jobs, [0, 0], [1, 1])
    with pytest.raises(ValueError, match="duration: must be positive and finite"):
        simulate(Scheduler(), jobs, [0, 0], [1, 0])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"scheduler": "a"}, TypeError, "scheduler must be a Scheduler, not str"),
        ({"jobs": ["one", "two"]}, TypeError, "jobs must hold Job, not str"),
        ({"jobs": [Job("one", "a", 1)] * 2}, ValueError, "jobs: 'one' is there twice"),
        ({"submit": None}, TypeError, "submit must be a sequence, not NoneType"),
        ({"submit": [0, "1"]}, TypeError, r"submit\[1\] must be a float, not str"),
        ({"submit": [0, NAN]}, ValueError, r"submit\[1\]=nan: allowed are 0 to 2\*\*40"),
        ({"submit": [0, INF]}, ValueError, r"submit\[1\]=inf: allowed are 0 to 2\*\*40"),
        ({"submit": [-1, 0]}, ValueError, r"submit\[0\]=-1.0: allowed are 0 to 2\*\*40"),
        ({"duration": [1, None]}, TypeError, r"duration\[1\] must be a float, not NoneType"),
        ({"duration": [1, 10**400]}, ValueError, r"duration\[1\] is too large for a float"),
    ],
)
def test_wrong_arguments_are_named_before_anything_runs(given, error, says):
    jobs = [Job("one", "a", 1), Job("two", "a", 1)]
    arguments = {"scheduler": Scheduler(), "jobs": jobs, "submit": [0, 1], "duration": [5, 5]}
    with pytest.raises(error, match=says):
        simulate(**(arguments | given))
    assert len(arguments["scheduler"]) == 0


def test_jobs_that_may_be_refused_are_named_with_the_reason():
    jobs = [Job("huge", "a", 16), Job("one", "a", 8), Job("unknown tenant's", "c", 1)]
    outcome = simulate(Scheduler(quotas=quotas(a=8)), jobs, [0, 0, 5], [9, 9, 9], may_refuse=True)
    assert outcome.end.tolist() == [float("inf"), 9, float("inf")]
    assert sorted(outcome.refused) == ["huge", "unknown tenant's"]
    assert outcome.refused["unknown tenant's"] == "there is no quota 'c'"
    with pytest.raises(ValueError, match="'huge' can never run"):
        simulate(Scheduler(quotas=quotas(a=8)), jobs, [0, 0, 5], [9, 9, 9])
