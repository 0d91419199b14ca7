"""Hand-computed replays: few jobs, round numbers, every start worked out on paper."""

import pytest
from sim.tenant_clusters import workload

from hivecore.sim import own_nodes, replay
from hivecore.traces import Trace


def starts(jobs, nodes, policy):
    result = replay(workload(jobs, nodes), [policy])
    return result.runs[policy].start.tolist()


# At 20, x holds one node's worth of GPUs: 2 on one node and 1 on the other. y owns a node and uses
# none of it, but no node is wholly free until x's jobs end.
FRAGMENTED = [
    ("x", 0, 10, 4),
    ("y", 0, 10, 2),
    ("x", 0, 100, 2),
    ("x", 0, 100, 1),
    ("y", 20, 10, 8),
]


def test_a_tenant_whose_jobs_are_too_short_for_its_clock_owns_what_its_largest_job_needs():
    jobs = [("x", 0, 60, 8), ("y", 5, 1e-300, 12)]
    assert own_nodes(workload(jobs, {"x": 1, "y": 2}).trace, 1.0) == {"x": 1, "y": 2}


def test_quota_breaks_the_promise_that_cells_keep():
    nodes = {"x": 1, "y": 1}
    assert starts(FRAGMENTED, nodes, "private") == [0, 0, 0, 0, 20]
    assert starts(FRAGMENTED, nodes, "quota") == [0, 0, 0, 0, 100]
    assert starts(FRAGMENTED, nodes, "cells") == [0, 0, 0, 0, 20]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_the_head_of_a_queue_blocks_the_jobs_behind_it(policy):
    jobs = [("x", 0, 50, 4), ("x", 1, 10, 8), ("x", 2, 10, 1)]
    assert starts(jobs, {"x": 1}, policy) == [0, 50, 60]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_a_blocked_tenant_blocks_no_other(policy):
    jobs = [("x", 0, 50, 8), ("x", 1, 10, 8), ("y", 2, 10, 8)]
    assert starts(jobs, {"x": 1, "y": 1}, policy) == [0, 50, 2]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_completions_of_an_instant_come_before_its_arrivals(policy):
    jobs = [("x", 0, 10, 8), ("x", 10, 10, 8), ("x", 20, 5, 1)]
    assert starts(jobs, {"x": 1}, policy) == [0, 10, 20]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_all_completions_of_an_instant_come_before_the_first_start(policy):
    jobs = [("x", 0, 10, 4), ("x", 0, 10, 4), ("x", 1, 10, 8)]
    assert starts(jobs, {"x": 1}, policy) == [0, 0, 10]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_several_jobs_of_a_queue_start_at_one_instant(policy):
    jobs = [("x", 0, 10, 8), ("x", 1, 5, 2), ("x", 2, 5, 2), ("x", 3, 5, 8)]
    assert starts(jobs, {"x": 1}, policy) == [0, 10, 10, 15]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_a_large_job_takes_whole_nodes_or_nothing(policy):
    jobs = [("x", 0, 30, 1), ("x", 1, 10, 12), ("x", 2, 10, 16)]
    assert starts(jobs, {"x": 3}, policy) == [0, 1, 11]
    assert starts(jobs, {"x": 2}, policy) == [0, 30, 40]


@pytest.mark.parametrize("policy", ["private", "quota", "cells"])
def test_a_size_that_is_no_cell_is_rounded_up(policy):
    jobs = [("x", 0, 10, 3), ("x", 0, 10, 3), ("x", 0, 10, 1)]
    assert starts(jobs, {"x": 1}, policy) == [0, 0, 10]


def test_quota_holds_a_tenant_to_the_gpus_that_it_owns():
    jobs = [("x", 0, 10, 8), ("x", 0, 10, 1)]
    assert starts(jobs, {"x": 1, "idle": 5}, "quota") == [0, 10]


def test_quota_lets_a_tenant_use_gpus_of_any_node():
    # In its private node the pair at GPUs 0-1 and the quad at 4-7 leave no room for another quad.
    jobs = [("x", 0, 10, 2), ("x", 0, 30, 2), ("x", 1, 30, 2), ("x", 10, 10, 4)]
    assert starts(jobs, {"x": 1, "idle": 1}, "private") == [0, 0, 1, 30]
    assert starts(jobs, {"x": 1, "idle": 1}, "quota") == [0, 0, 1, 10]


def test_quota_tries_heads_in_order_of_submission():
    # x is left over on two of three nodes; when the third is free at 50, two tenants wait for it.
    jobs = [
        ("x", 0, 10, 4),
        ("z", 0, 10, 2),
        ("x", 0, 100, 2),
        ("x", 0, 100, 1),
        ("a", 0, 50, 8),
        ("z", 20, 10, 8),
        ("a", 30, 10, 8),
    ]
    assert starts(jobs, {"a": 1, "x": 1, "z": 1}, "quota") == [0, 0, 0, 0, 0, 50, 60]


def test_a_tie_in_submission_follows_the_trace():
    nodes = {"x": 1, "y": 1}
    both = [("x", 0, 10, 8), ("y", 0, 20, 8), ("y", 5, 7, 8), ("x", 5, 7, 8)]
    assert starts(both, nodes, "quota") == [0, 0, 20, 10]


def test_averages_are_taken_until_the_last_submission():
    work = workload([("x", 0, 10, 8), ("x", 40, 10, 4)], {"x": 1})
    assert work.window == 40
    assert workload([("x", 0, 10, 8), ("x", 0, 30, 4)], {"x": 1}).window == 30


def test_samples_show_the_state_after_the_events_of_their_instant():
    work = workload([("x", 0, 10, 8), ("x", 20, 10, 1), ("x", 30, 5, 2)], {"x": 2})
    result = replay(work, ["private"])
    run = result.runs["private"]
    at = {round(instant, 3): row for row, instant in enumerate(result.instants.tolist())}
    assert (run.free[at[0.0]], run.stranded[at[0.0]]) == (8, 0)
    assert (run.free[at[30.0]], run.stranded[at[30.0]]) == (14, 6)
    early, late = result.instants < 10, (result.instants > 20) & (result.instants < 30)
    assert set(run.free[early]) == {8} and set(run.free[late]) == {15}
    assert set(run.stranded[late]) == {7}
    assert run.fragmentation == pytest.approx(run.stranded.sum() / run.free.sum())


def test_progress_ends_with_all_jobs():
    seen = []
    work = workload(FRAGMENTED, {"x": 1, "y": 1})
    replay(work, ["private"], progress=lambda policy: seen.append(policy) or seen.append)
    assert seen[0] == "private"
    assert seen[1:] == sorted(seen[1:])
    assert seen[-1] == 5


def test_jobs_that_no_policy_could_run_are_left_out_and_counted():
    jobs = [("x", 0, 3600, 9), ("x", 0, 3600, 8), ("z", 5, 1800, 4), ("x", 9, 60, 5)]
    work = workload(jobs, {"x": 1, "y": 3})
    assert work.trace.tenants == ("x", "y")
    assert work.trace.job_id.tolist() == ["1", "3"]
    assert (work.oversized.jobs, work.oversized.gpu_hours) == (1, 9.0)
    assert (work.unowned.jobs, work.unowned.gpu_hours) == (1, 2.0)
    assert (work.rounded, work.held.tolist()) == (1, [8, 8])


def test_a_workload_needs_nodes_and_a_job_that_fits():
    with pytest.raises(ValueError, match=r"nodes\['x'\]=0: allowed are 1 to"):
        workload(FRAGMENTED, {"x": 0})
    with pytest.raises(ValueError, match="no job of the trace fits"):
        workload([("x", 0, 1, 9)], {"x": 1})


def test_owned_nodes_follow_the_average_use_and_the_largest_job():
    jobs = [("x", 0, 100, 16), ("x", 0, 100, 16), ("y", 50, 100, 64)]
    trace = Trace.from_columns(["0", "1", "2"], *zip(*jobs, strict=True))
    assert own_nodes(trace, 1.0) == {"x": 4, "y": 8}
    assert own_nodes(trace, 1.3) == {"x": 4, "y": 8}
    assert own_nodes(trace, 10.0) == {"x": 2, "y": 8}
    with pytest.raises(ValueError, match="oversubscribe must be finite and positive"):
        own_nodes(trace, 0.0)


def test_an_unknown_policy_is_refused():
    with pytest.raises(
        ValueError, match="policies must be among private, quota, cells, not 'fair'"
    ):
        replay(workload(FRAGMENTED, {"x": 1, "y": 1}), ["fair"])
