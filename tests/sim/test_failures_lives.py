"""Random training jobs and failures: every job ends, and all work is accounted for."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.preemptive.second_jobs import jobs_of

from hivecore.sim.preemptive import JobFailure, MuriOptions, NodeFailure, schedule
from hivecore.sim.preemptive.interleaving import INTERFERENCE, IterationTimes
from hivecore.sim.preemptive.slots import bars

NODES = 3
STAGES = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.2, 0.3, 0.5)]

jobs_strategy = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.sampled_from([1, 2, 4, 4, 8, 8, 12, 24]),
        st.integers(1, 60),
        st.sampled_from(STAGES),
    ),
    min_size=1,
    max_size=15,
)
# Small integers, so that failures often fall on submissions, ends and each other.
failures_strategy = st.lists(
    st.tuples(st.booleans(), st.integers(0, 150), st.integers(0, 14), st.integers(0, 40)),
    max_size=25,
)
policies = st.sampled_from(["fifo", "srtf", "srsf", "muri-s", "muri-l"])


def failures_of(rows, jobs):
    return [
        NodeFailure(time, number % NODES, time + away) if node else JobFailure(time, number % jobs)
        for node, time, number, away in sorted(rows, key=lambda row: row[1])
    ]


@given(jobs_strategy, failures_strategy, policies, st.sampled_from([1.0, 7.0, inf]))
def test_what_ran_is_what_was_needed_and_what_was_lost(rows, failing, policy, every):
    jobs = jobs_of(*sorted(rows))
    failures = failures_of(failing, len(jobs))
    options = MuriOptions(autopack=False)
    outcome = schedule(jobs, policy, NODES, options, failures, every, record=True)
    times = IterationTimes(jobs.stages, jobs.solo, False, INTERFERENCE)
    done, held = [0.0] * len(jobs), [0.0] * len(jobs)
    for span in outcome.history:
        for job in span.jobs:
            held[job] += span.end - span.begin
            done[job] += (span.end - span.begin) / times.of(span.jobs)
    needed = [count + lost for count, lost in zip(jobs.iterations, outcome.lost, strict=True)]
    # An end and a submission within 0.1 ms are one event.
    assert done == pytest.approx(needed, abs=1e-2)
    assert held == pytest.approx(outcome.held)
    assert max(outcome.end) < inf
    assert min(outcome.lost) >= 0
    if not outcome.interruptions:
        assert max(outcome.lost) == 0


@given(jobs_strategy, failures_strategy, policies)
def test_no_gpu_is_given_twice_and_none_of_a_lost_node(rows, failing, policy):
    jobs = jobs_of(*sorted(rows))
    failures = failures_of(failing, len(jobs))
    history = schedule(jobs, policy, NODES, failures=failures, record=True).history
    needed = sum(jobs.gpus[span.jobs[0]] for span in history)
    assert sum(length for _, _, length in bars(history, jobs.gpus, NODES)) == needed
    for failure in failures:
        if isinstance(failure, NodeFailure):
            for span in history:
                apart = span.end <= failure.time or span.begin >= failure.back
                assert apart or failure.node not in span.nodes


@given(jobs_strategy, failures_strategy, st.sampled_from([1.0, 7.0, inf]))
def test_under_tiresias_all_work_is_accounted_for(rows, failing, every):
    jobs = jobs_of(*sorted(rows))
    failures = [entry for entry in failures_of(failing, len(jobs)) if isinstance(entry, JobFailure)]
    outcome = schedule(jobs, "tiresias", NODES, failures=failures, report_interval=every)
    needed = [count + lost for count, lost in zip(jobs.iterations, outcome.lost, strict=True)]
    assert outcome.held == pytest.approx(needed)
