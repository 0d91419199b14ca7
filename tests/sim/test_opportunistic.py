"""Hand-computed replays with opportunistic jobs."""

import pytest
from sim.tenant_clusters import workload

from hivecore.sim import LENDING, Workload, replay
from hivecore.traces import generate

X_AND_Y = {"x": 1, "y": 1}


def outcome(jobs, nodes):
    """Starts of jobs (tenant, submit, duration, gpus), and what borrowing did."""
    run = replay(workload(jobs, nodes), ["cells"], opportunistic=True).runs["cells"]
    return run.start.tolist(), run.borrowing


def test_a_job_beyond_its_tenants_cells_runs_on_idle_ones():
    start, borrowing = outcome([("x", 0, 60, 8), ("x", 10, 36, 8)], X_AND_Y)
    assert start == [0, 10]
    assert borrowing.gpu_hours == pytest.approx(8 * 36 / 3600)
    assert (borrowing.promotions, borrowing.preemptions) == (0, 0)


def test_a_promoted_job_keeps_its_progress():
    jobs = [("x", 0, 60, 8), ("x", 10, 100, 8), ("y", 70, 5, 8), ("x", 80, 5, 8)]
    start, borrowing = outcome(jobs, X_AND_Y)
    # Promoted at 60, so y's node is free at 70; it runs until 110, beside the last job on y's.
    assert start == [0, 10, 70, 80]
    assert borrowing.promotions == 1
    assert borrowing.preemptions == 0
    assert borrowing.gpu_hours == pytest.approx(8 * (60 - 10 + 5) / 3600)


def test_a_preempted_job_starts_again_when_its_turn_comes():
    jobs = [("x", 0, 60, 8), ("x", 10, 100, 8), ("y", 30, 50, 8)]
    start, borrowing = outcome(jobs, X_AND_Y)
    assert start == [0, 60, 30]
    assert borrowing.preemptions == 1
    assert borrowing.lost_gpu_hours == pytest.approx(8 * 20 / 3600)
    assert borrowing.gpu_hours == 0


def test_a_preempted_job_loses_all_its_cells():
    nodes = {"x": 2, "y": 2}
    jobs = [("x", 0, 60, 16), ("x", 10, 100, 16), ("y", 30, 90, 1), ("x", 40, 7, 8)]
    start, borrowing = outcome(jobs, nodes)
    # The victim's second node is idle again, and the last job borrows it.
    assert start == [0, 60, 30, 40]
    assert borrowing.preemptions == 1


def test_a_smaller_job_may_borrow_past_a_larger_one():
    jobs = [("x", 0, 60, 8), ("x", 10, 100, 8), ("y", 5, 50, 4), ("x", 20, 10, 4)]
    start, _ = outcome(jobs, X_AND_Y)
    # y's node is wholly idle at 55, before x's own one.
    assert start == [0, 5, 55, 20]


def test_jobs_of_equal_shape_borrow_in_order_of_submission():
    jobs = [("x", 0, 100, 8), ("x", 10, 30, 8), ("x", 11, 30, 8), ("z", 12, 20, 8)]
    start, _ = outcome(jobs, X_AND_Y | {"z": 1})
    assert start[0] == 0
    assert start[3] == 12
    # z takes its node back from one of the two, and y's is the only one left until 32.
    assert max(start[1:3]) == 32
    start, _ = outcome(jobs[:3], X_AND_Y)
    assert start == [0, 10, 40]


def test_a_job_that_ends_on_borrowed_cells_frees_the_queue_behind_it():
    jobs = [("x", 0, 60, 4), ("x", 1, 10, 8), ("x", 2, 10, 4)]
    start, _ = outcome(jobs, X_AND_Y)
    # The second job borrows y's node until 11; the third waits behind it, but borrows x's own idle
    # half at once.
    assert start == [0, 1, 2]


def test_without_idle_cells_nothing_changes():
    jobs = [("x", 0, 60, 8), ("x", 10, 100, 8), ("x", 20, 5, 1)]
    start, borrowing = outcome(jobs, {"x": 1})
    assert start == [0, 60, 160]
    assert borrowing.gpu_hours == borrowing.preemptions == 0


def test_with_lending_jobs_wait_a_fifth_as_long_and_hardly_any_longer_than_alone():
    nodes = {"vision": 10, "search": 14, "speech": 8, "ads": 16, "robots": 6}
    work = Workload.of(generate(nodes, jobs=4_000, seed=3, load=1.1), nodes)
    result = replay(work, ["cells", LENDING])
    lent = replay(work, ["cells"], opportunistic=True).runs["cells"]
    assert result.runs[LENDING].start.tolist() == lent.start.tolist()
    assert not result.later("cells").any()
    assert result.later(LENDING).mean() < 0.005  # jobs that overtook them hold their cells
    assert result.delay(LENDING).mean() < 0.2 * result.delay("cells").mean()
