"""Random small workloads: promises that hold for each, and a scheduler against a naive loop."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.tenant_clusters import TenantClusters, workload

from hivecore.sim import POLICIES, Workload, own_nodes, replay
from hivecore.traces import Trace

# Small integers, so that completions, arrivals and ties often fall on one instant.
jobs_strategy = st.lists(
    st.tuples(
        st.sampled_from(["x", "y", "z"]),
        st.integers(0, 20),
        st.integers(1, 12),
        st.sampled_from([1, 1, 1, 2, 3, 4, 4, 6, 8, 8, 12, 16]),
    ),
    min_size=1,
    max_size=30,
)
nodes_strategy = st.fixed_dictionaries({name: st.integers(1, 3) for name in "xyz"})


def with_one_more(jobs, nodes):
    """The jobs (tenant, submit, duration, gpus) that fit, and one more so that there is one."""
    return workload([*jobs, ("x", 0, 1, 1)], nodes)


def naive(work, policy):
    """Starts by the rules alone: at each instant, heads are tried until none can start."""
    trace = work.trace
    start = np.full(trace.jobs, inf)
    placed = set()
    waiting = list(range(trace.jobs))
    now = -inf
    while waiting or placed:
        ends = [start[job] + trace.duration[job] for job in placed]
        coming = [trace.submit[job] for job in waiting if trace.submit[job] > now]
        now = min([*ends, *coming])
        for job in [job for job in placed if start[job] + trace.duration[job] == now]:
            policy.finish(job)
            placed.remove(job)
        again = True
        while again:
            again = False
            tried = set()
            for job in list(waiting):
                if trace.submit[job] <= now and trace.tenant[job] not in tried:
                    tried.add(trace.tenant[job])
                    if policy.try_start(job):
                        placed.add(job)
                        start[job] = now
                        waiting.remove(job)
                        again = True
                        # Heads go in order of submission, and a start brings up a new head.
                        break
    return start.tolist()


@given(jobs_strategy, nodes_strategy)
def test_cells_start_every_job_when_its_private_cluster_does(jobs, nodes):
    result = replay(with_one_more(jobs, nodes), ["cells"])
    assert result.runs["cells"].start.tolist() == result.runs["private"].start.tolist()


@given(jobs_strategy, nodes_strategy, st.sampled_from(POLICIES))
def test_a_scheduler_starts_jobs_when_the_naive_loop_does(jobs, nodes, policy):
    work = with_one_more(jobs, nodes)
    start = replay(work, [policy]).runs[policy].start
    assert start.tolist() == naive(work, TenantClusters(work, policy))


@given(jobs_strategy, nodes_strategy, st.sampled_from(POLICIES))
def test_no_tenant_holds_more_than_it_owns_and_the_samples_agree_with_the_starts(
    jobs, nodes, policy
):
    work = with_one_more(jobs, nodes)
    result = replay(work, [policy])
    run = result.runs[policy]
    assert (run.start >= work.trace.submit).all()
    end = run.start + work.trace.duration
    for instant in np.unique(run.start):
        holds = (run.start <= instant) & (instant < end)
        for tenant, owned in enumerate(work.nodes):
            assert work.held[holds & (work.trace.tenant == tenant)].sum() <= 8 * owned
    for instant, free in zip(result.instants, run.free, strict=True):
        holds = (run.start <= instant) & (instant < end)
        assert free == 8 * sum(work.nodes) - work.held[holds].sum()
    assert (run.stranded <= run.free).all() and (run.stranded >= 0).all()


@given(jobs_strategy, nodes_strategy)
def test_opportunistic_jobs_complete_and_hold_no_gpu_twice(jobs, nodes):
    work = with_one_more(jobs, nodes)
    result = replay(work, ["cells"], opportunistic=True)
    start = result.runs["cells"].start
    end = start + work.trace.duration
    assert np.isfinite(start).all()
    assert (start >= work.trace.submit).all()
    for instant in np.unique(start):
        holds = (start <= instant) & (instant < end)
        assert work.held[holds].sum() <= 8 * sum(work.nodes)


@given(jobs_strategy, nodes_strategy)
def test_a_tenant_alone_gains_nothing_and_loses_nothing_by_any_policy(jobs, nodes):
    alone = [("x", *rest) for _, *rest in jobs]
    result = replay(with_one_more(alone, {"x": nodes["x"]}))
    private = result.runs["private"].start.tolist()
    assert result.runs["quota"].start.tolist() == private
    assert result.runs["cells"].start.tolist() == private


@given(jobs_strategy, nodes_strategy)
def test_opportunistic_jobs_of_one_size_start_no_later_than_in_private(jobs, nodes):
    # FIFO queues are monotone for equal jobs, so here borrowing can only help.
    equal = [(tenant, submit, duration, 1) for tenant, submit, duration, _ in jobs]
    result = replay(with_one_more(equal, nodes), ["cells"], opportunistic=True)
    assert not result.later("cells").any()


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({"x": 0}, r"nodes\['x'\]=0: allowed are 1 to"),
        ({"x": 1.5}, r"nodes\['x'\] must be an integer, not float"),
        ({"x": float("nan")}, r"nodes\['x'\] must be an integer, not float"),
        ({"x": 1, "z": 10**30}, r"nodes\['z'\]=1000000000000000000000000000000: allowed"),
        ({"x": 1, 2: 1}, "nodes must be a string, not int"),
        ([("x", 1)], "nodes must be a mapping, not list"),
    ],
)
def test_nodes_that_no_tenant_can_own_are_named(nodes, says):
    with pytest.raises((TypeError, ValueError), match=says):
        Workload.of(Trace.from_columns(["a"], ["x"], [0], [1], [1]), nodes)


def test_what_is_no_trace_factor_or_workload_is_named():
    trace = Trace.from_columns(["a"], ["x"], [0], [1], [1])
    for call, says in (
        (lambda: Workload.of(None, {"x": 1}), "trace must be a Trace, not NoneType"),
        (lambda: own_nodes(None, 1.0), "trace must be a Trace, not NoneType"),
        (lambda: own_nodes(trace, "1"), "oversubscribe must be a float, not str"),
        (lambda: own_nodes(trace, 1e-300), "oversubscribe=1e-300: tenant 'x' would own"),
        (lambda: own_nodes(trace, 5e-324), "oversubscribe=5e-324: tenant 'x' would own"),
        (lambda: replay(trace), "work must be a Workload, not Trace"),
    ):
        with pytest.raises((TypeError, ValueError), match=says):
            call()
