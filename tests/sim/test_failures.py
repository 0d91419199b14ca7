from itertools import islice, pairwise
from math import inf

import pytest
from sim.preemptive.second_jobs import DATA, GPU, PAIR, jobs_of

from hivecore.sim.preemptive import (
    JobFailure,
    Jobs,
    MuriOptions,
    NodeFailure,
    RandomFailures,
    Span,
    job_figures,
    schedule,
)

PREEMPTIVE = ["srtf", "srsf", "muri-s", "muri-l"]
EVERY = ["fifo", "tiresias", *PREEMPTIVE]


def run(jobs, policy, *failures, nodes=1, every=inf, **options):
    options = MuriOptions(largest=options.pop("largest", 1))
    return schedule(jobs, policy, nodes, options, failures, every, record=policy != "tiresias")


# --- what is lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", PREEMPTIVE)
def test_a_job_that_fails_keeps_what_it_has_reported(policy):
    # At 250 the reports of 100 and 200 have been made; each start costs 10.
    jobs = jobs_of((0, 8, 1000), restart=10.0)
    outcome = run(jobs, policy, JobFailure(250, 0), every=100)
    assert outcome.end == [250 + 1000 - (200 - 10)]
    assert outcome.held == outcome.end
    assert outcome.lost == [50]
    assert (outcome.interruptions, outcome.preemptions, outcome.events) == (1, 0, 3)
    assert job_figures(jobs, outcome).lost_gpu_hours == 8 * 50 / 3600


def test_a_job_that_fails_before_it_has_restarted_loses_nothing_but_time():
    outcome = run(jobs_of((0, 8, 100), restart=10.0), "srtf", JobFailure(8, 0))
    assert (outcome.end, outcome.lost) == ([108], [0])


@pytest.mark.parametrize("policy", PREEMPTIVE)
def test_each_event_is_a_report_and_reports_count_from_it(policy):
    # The second job comes at 150, so the first reports at 150 and would again at 250.
    outcome = run(jobs_of((0, 4, 1000), (150, 4, 500)), policy, JobFailure(240, 0), every=100)
    assert outcome.end == [240 + 850, 650]
    assert outcome.lost == [90, 0]


@pytest.mark.parametrize("policy", ["muri-s", "muri-l"])
def test_a_job_takes_its_whole_group_with_it_and_no_other_group(policy):
    jobs = jobs_of((0, 8, 100, DATA), (0, 8, 100, GPU), (0, 16, 900, DATA), (0, 16, 900, GPU))
    failed = run(jobs, policy, JobFailure(50, 0), nodes=3, largest=2)
    assert {span.jobs for span in failed.history} == {(0, 1), (2, 3)}
    assert failed.end == pytest.approx([50 + 100 * PAIR] * 2 + [900 * PAIR] * 2)
    assert failed.lost == pytest.approx([50 / PAIR] * 2 + [0, 0])
    assert failed.interruptions == 2


@pytest.mark.parametrize("policy", ["fifo", "tiresias", "srtf", "srsf", "muri-s"])
@pytest.mark.parametrize(
    "failure",
    [
        JobFailure(0, 1),  # not submitted
        JobFailure(20, 1),  # waits
        JobFailure(100, 0),  # ends at this instant
        JobFailure(150, 0),  # has ended
        JobFailure(1e6, 1),  # all have ended
    ],
)
def test_a_failure_of_a_job_that_does_not_run_changes_nothing(policy, failure):
    jobs = jobs_of((0, 8, 100), (10, 8, 200))
    with_it, without = run(jobs, policy, failure), run(jobs, policy)
    for name in ("start", "end", "held", "events", "preemptions", "lost", "history"):
        assert getattr(with_it, name) == getattr(without, name)
    assert with_it.interruptions == 0


@pytest.mark.parametrize("policy", PREEMPTIVE)
def test_of_jobs_that_end_together_with_a_failure_only_the_others_lose(policy):
    jobs = jobs_of((0, 4, 100), (0, 4, 150))
    outcome = run(jobs, policy, JobFailure(100, 0), JobFailure(100, 1))
    assert (outcome.end, outcome.interruptions) == ([100, 250], 1)


def test_time_that_is_lost_counts_as_attained_service():
    jobs = jobs_of((0, 8, 100), (60, 8, 20))
    outcome = run(jobs, "muri-l", JobFailure(50, 0))
    assert outcome.end == [170, 80]
    assert outcome.held == [150, 20]


# --- first in, first out, and Tiresias ---------------------------------------------------------


def test_under_fifo_a_job_that_fails_is_first_in_the_queue_again_and_pays_for_its_restart():
    jobs = jobs_of((0, 8, 100), (0, 8, 10), restart=5.0)
    # Of the second run, the first 5 seconds are the restart.
    outcome = run(jobs, "fifo", JobFailure(50, 0), JobFailure(80, 0))
    assert outcome.end == [185, 195]
    assert (outcome.lost, outcome.interruptions) == ([50 + 25, 0], 2)
    assert (outcome.start, outcome.held) == ([0, 185], [185, 10])


def test_under_fifo_jobs_report_at_each_event_and_in_between():
    # Reports at 30, when the second job comes, and at 70; the restart takes 5.
    jobs = jobs_of((0, 4, 100), (30, 4, 500), restart=5.0)
    outcome = run(jobs, "fifo", JobFailure(80, 0), every=40)
    assert (outcome.end, outcome.lost) == ([80 + 5 + 30, 530], [10, 0])
    assert outcome.held == [115, 500]


def test_under_fifo_the_jobs_of_a_lost_node_go_before_those_that_wait():
    jobs = jobs_of((0, 8, 100), (0, 8, 100), (0, 8, 100))
    outcome = run(jobs, "fifo", NodeFailure(50, 0, 1000), nodes=2)
    assert outcome.end == [200, 100, 300]
    assert outcome.held == [150, 100, 100]


def test_under_tiresias_a_job_that_fails_loses_what_it_did_since_the_last_event():
    # It sinks at 407 and at 900.
    outcome = run(jobs_of((0, 8, 1000)), "tiresias", JobFailure(500, 0))
    assert (outcome.end, outcome.lost, outcome.events) == ([1093], [93], 5)
    assert run(jobs_of((0, 8, 1000)), "tiresias", JobFailure(500, 0), every=40).lost == [13]


def test_tiresias_knows_no_nodes():
    with pytest.raises(ValueError, match="tiresias places no job on a node"):
        run(jobs_of((0, 8, 1000)), "tiresias", NodeFailure(50, 0, 60))
    with pytest.raises(ValueError, match="tiresias places no job on a node"):
        schedule(jobs_of((0, 8, 1000)), "tiresias", record=True)


# --- nodes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", PREEMPTIVE)
def test_a_lost_node_takes_what_runs_there_and_gives_no_gpus_until_it_is_back(policy):
    jobs = jobs_of((0, 8, 100), (0, 8, 100))
    outcome = run(jobs, policy, NodeFailure(50, 1, 80), nodes=2)
    assert outcome.end == [100, 180]
    assert outcome.held == [100, 150]
    assert (outcome.lost, outcome.interruptions, outcome.preemptions) == ([0, 50], 1, 0)


@pytest.mark.parametrize("policy", PREEMPTIVE)
@pytest.mark.parametrize("node", [0, 1])
def test_a_job_on_several_nodes_is_lost_with_each_of_them(policy, node):
    outcome = run(jobs_of((0, 12, 100)), policy, NodeFailure(50, node, 60), nodes=2)
    assert (outcome.end, outcome.lost) == ([160], [50])


@pytest.mark.parametrize("policy", ["fifo", *PREEMPTIVE])
def test_jobs_move_to_the_nodes_that_are_left(policy):
    jobs = jobs_of((0, 8, 100), (0, 8, 200))
    outcome = run(jobs, policy, NodeFailure(50, 0, 1000), nodes=3)
    assert outcome.end == [150, 200]
    assert [span.nodes for span in outcome.history if span.jobs == (0,)][-1] != (0,)


@pytest.mark.parametrize("policy", ["fifo", *PREEMPTIVE])
def test_a_node_that_fails_again_is_back_at_the_latest_of_the_times(policy):
    jobs = jobs_of((0, 8, 100))
    early, late = NodeFailure(50, 0, 80), NodeFailure(60, 0, 70)
    assert run(jobs, policy, early, late).end == [180]
    assert run(jobs, policy, early, NodeFailure(60, 0, 95)).end == [195]
    # The return is before the next loss.
    assert run(jobs, policy, early, NodeFailure(80, 0, 90)).end == [190]


@pytest.mark.parametrize("policy", ["fifo", *PREEMPTIVE])
def test_jobs_wait_for_a_node_that_is_lost_before_they_come(policy):
    assert run(jobs_of((20, 8, 100)), policy, NodeFailure(0, 0, 50)).start == [50]


def test_groups_are_made_for_the_gpus_that_are_left():
    jobs = jobs_of((0, 8, 100, DATA), (0, 8, 100, GPU))
    outcome = run(jobs, "muri-s", NodeFailure(0, 1, 1000), nodes=2, largest=2)
    assert outcome.end == pytest.approx([100 * PAIR] * 2)


# --- history -----------------------------------------------------------------------------------


def test_history_has_the_nodes_of_each_job():
    jobs = jobs_of((0, 8, 100), (10, 6, 20), (20, 4, 5), (20, 2, 50))
    assert run(jobs, "srtf").history == [
        Span(0, 10, (0,), (0,)),
        Span(10, 20, (1,), (0,)),
        Span(20, 25, (2,), (0,)),
        Span(25, 35, (1,), (0,)),
        Span(20, 70, (3,), (0,)),
        Span(70, 160, (0,), (0,)),
    ]
    assert run(jobs, "fifo").history[0] == Span(0, 100, (0,), (0,))


def test_a_failure_ends_a_span_even_if_the_job_goes_on_at_once():
    history = run(jobs_of((0, 12, 100)), "srsf", JobFailure(40, 0), nodes=2).history
    assert history == [Span(0, 40, (0,), (1, 0)), Span(40, 140, (0,), (1, 0))]


def test_nothing_is_recorded_unasked():
    assert schedule(jobs_of((0, 8, 100)), "srtf").history is None
    assert schedule(jobs_of((0, 8, 100)), "fifo").history is None


# --- failures that cannot be -------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fifo", "srtf", "muri-s"])
@pytest.mark.parametrize(
    ("failures", "says"),
    [
        ([JobFailure(5, 0), JobFailure(4, 0)], "in order of time, from 0 on: .*time=4, job=0"),
        ([JobFailure(-1, 0)], "in order of time, from 0 on"),
        ([JobFailure(inf, 0)], "in order of time, from 0 on"),
        ([JobFailure(1, 2)], "only 2 jobs can fail: .*job=2"),
        ([JobFailure(1, -1)], "only 2 jobs can fail"),
        ([NodeFailure(1, 1, 2)], "only 1 node can fail: .*node=1"),
        ([NodeFailure(1, 0, 0.5)], "a node must come back"),
        ([NodeFailure(1, 0, inf)], "a node must come back"),
    ],
)
def test_a_failure_that_cannot_be_is_named(policy, failures, says):
    with pytest.raises(ValueError, match=says):
        run(jobs_of((0, 8, 100), (0, 8, 100)), policy, *failures)


@pytest.mark.parametrize("policy", EVERY)
def test_jobs_that_fail_faster_than_they_restart_are_given_up(policy):
    jobs = jobs_of((0, 8, 1000), restart=10.0)
    with pytest.raises(ValueError, match="no job got ahead during 1,000 failures in a row"):
        schedule(jobs, policy, failures=RandomFailures(1, 8, seed=0, job_mtbf=0.5))


def test_a_report_interval_is_positive():
    with pytest.raises(ValueError, match="report_interval must be positive, not 0"):
        schedule(jobs_of((0, 8, 100)), "srtf", report_interval=0)


# --- random failures ---------------------------------------------------------------------------


def test_equal_seeds_give_equal_failures_each_time():
    def first(seed):
        return list(islice(RandomFailures(5, 3, seed, job_mtbf=100.0, node_mtbf=300.0), 50))

    failures = RandomFailures(5, 3, seed=1, job_mtbf=100.0, node_mtbf=300.0)
    assert list(islice(failures, 50)) == list(islice(failures, 50)) == first(1)
    assert first(1) != first(2)


def test_each_job_and_node_fails_as_often_as_asked():
    result = list(
        islice(RandomFailures(4, 2, 0, job_mtbf=50.0, node_mtbf=200.0, repair=1.0), 20000)
    )
    end = result[-1].time
    for job in range(4):
        times = [entry for entry in result if isinstance(entry, JobFailure) and entry.job == job]
        assert end / len(times) == pytest.approx(50, rel=0.05)
    for node in range(2):
        times = [entry for entry in result if isinstance(entry, NodeFailure) and entry.node == node]
        assert end / len(times) == pytest.approx(201, rel=0.1)


def test_a_node_that_is_away_does_not_fail():
    result = list(islice(RandomFailures(1, 1, 0, node_mtbf=10.0, repair=100.0), 100))
    assert all(entry.back == entry.time + 100 for entry in result)
    assert all(entry.back <= other.time for entry, other in pairwise(result))


def test_without_a_mean_time_nothing_fails():
    assert list(RandomFailures(5, 3, seed=0)) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"job_mtbf": 0.0}, "job_mtbf must be positive, not 0.0"),
        ({"node_mtbf": -1.0}, "node_mtbf must be positive, not -1.0"),
        ({"node_mtbf": float("nan")}, "node_mtbf must be positive, not nan"),
        ({"repair": inf}, "repair must be finite"),
        ({"repair": "1"}, "repair must be a float, not str"),
        ({"jobs": 1.5}, "jobs must be an integer, not float"),
        ({"nodes": -1}, "nodes=-1: allowed are 0 to"),
        ({"seed": None}, "seed must be an integer, not NoneType"),
    ],
)
def test_times_that_cannot_be_are_named(options, says):
    with pytest.raises((TypeError, ValueError), match=says):
        RandomFailures(**({"jobs": 1, "nodes": 1, "seed": 0} | options))


def test_what_is_no_cluster_and_no_jobs_is_named():
    jobs = Jobs([0.0], [1], [1.0], [1.0], [(1.0, 0.0, 0.0)], [1.0], [0.0])
    for call, says in (
        (lambda: schedule(jobs, "fifo", nodes=1.5), "nodes must be an integer, not float"),
        (lambda: schedule(jobs, "fifo", nodes=0), "nodes=0: allowed are 1 to"),
        (lambda: schedule([1], "fifo"), "jobs must be a Jobs, not list"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            call()
