"""Random small workloads: promises that hold for each, and the event loop against a naive one."""

from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hivecore.sim import Workload, replay
from hivecore.sim.engine import run
from hivecore.sim.opportunistic import run_opportunistic
from hivecore.sim.policies import Cells, Private, Quota
from hivecore.sim.workload import CHAIN
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


def workload(jobs, nodes):
    """The jobs (tenant, submit, duration, gpus) that fit, and one more so that there is one."""
    jobs = [*jobs, ("x", 0, 1, 1)]
    tenant, submit, duration, gpus = zip(*jobs, strict=True)
    ids = [str(row) for row in range(len(jobs))]
    return Workload.of(Trace.from_columns(ids, tenant, submit, duration, gpus), nodes)


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


class Recording:
    """A policy that notes who holds what, and checks at each start that nobody else does."""

    def __init__(self, policy, work):
        self.policy = policy
        self.shared = policy.shared
        self.held = work.held.tolist()
        self.tenant = work.trace.tenant.tolist()
        self.owned = [8 * nodes for nodes in work.nodes]
        self.in_use = [0] * len(self.owned)
        self.running = {}
        self.started = []

    def try_start(self, job):
        started = self.policy.try_start(job)
        if started:
            self.started.append(job)
            self.in_use[self.tenant[job]] += self.held[job]
            assert self.in_use[self.tenant[job]] <= self.owned[self.tenant[job]]
            leaves = self.leaves(job)
            assert len(leaves) == self.held[job]
            for other in self.running.values():
                assert not leaves & other
            self.running[job] = leaves
        return started

    def finish(self, job):
        self.in_use[self.tenant[job]] -= self.held[job]
        del self.running[job]
        self.policy.finish(job)

    def free_gpus(self):
        return self.policy.free_gpus()

    def leaves(self, job):
        cluster = self.policy.clusters[self.tenant[job]]
        pods = cluster.group(str(job)).placement
        return {(id(cluster), leaf) for pod in pods for leaf in pod.leaves}


@given(jobs_strategy, nodes_strategy)
def test_cells_start_every_job_when_its_private_cluster_does(jobs, nodes):
    result = replay(workload(jobs, nodes), ["cells"])
    assert result.runs["cells"].start.tolist() == result.runs["private"].start.tolist()


@given(jobs_strategy, nodes_strategy, st.sampled_from([Private, Quota, Cells]))
def test_the_event_loop_finds_the_starts_of_the_naive_one(jobs, nodes, policy):
    work = workload(jobs, nodes)
    assert run(work, policy(work), np.array([])).start.tolist() == naive(work, policy(work))


@given(jobs_strategy, nodes_strategy, st.sampled_from([Private, Quota, Cells]))
def test_each_job_runs_once_and_nobody_holds_more_than_owned_or_what_another_holds(
    jobs, nodes, policy
):
    work = workload(jobs, nodes)
    recording = Recording(policy(work), work)
    instants = np.linspace(0, 40, 9)
    result = run(work, recording, instants)
    assert sorted(recording.started) == list(range(work.trace.jobs))
    assert recording.running == {}
    assert recording.in_use == [0] * len(work.nodes)
    assert (result.start >= work.trace.submit).all()

    # The samples agree with the starts.
    end = result.start + work.trace.duration
    for instant, free in zip(instants, result.free, strict=True):
        holds = (result.start <= instant) & (instant < end)
        assert free == 8 * sum(work.nodes) - work.held[holds].sum()


class Recounting(Cells):
    """Counts the GPUs in use anew, leaf by leaf, whenever it is asked for the free ones."""

    def free_gpus(self):
        users, _ = self.cluster.leaf_groups(CHAIN)
        free = [users[first : first + 8].count(None) for first in range(0, len(users), 8)]
        found = sum(free), sum(gpus for gpus in free if gpus < 8)
        assert super().free_gpus() == found
        return found


@given(jobs_strategy, nodes_strategy)
def test_the_free_gpus_under_cells_are_those_of_a_recount(jobs, nodes):
    work = workload(jobs, nodes)
    instants = np.linspace(0, 60, 121)
    run(work, Recounting(work), instants)
    run_opportunistic(work, Recounting(work), instants)


@given(jobs_strategy, nodes_strategy)
def test_opportunistic_jobs_complete_and_hold_no_gpu_twice(jobs, nodes):
    work = workload(jobs, nodes)
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
    result = replay(workload(alone, {"x": nodes["x"]}))
    private = result.runs["private"].start.tolist()
    assert result.runs["quota"].start.tolist() == private
    assert result.runs["cells"].start.tolist() == private


@given(jobs_strategy, nodes_strategy)
def test_opportunistic_jobs_of_one_size_start_no_later_than_in_private(jobs, nodes):
    # FIFO queues are monotone for equal jobs, so here borrowing can only help.
    equal = [(tenant, submit, duration, 1) for tenant, submit, duration, _ in jobs]
    result = replay(workload(equal, nodes), ["cells"], opportunistic=True)
    assert not result.later("cells").any()
