"""The grouper under any sequence of changes."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples

from hivecore.interleaving import Grouper

ROWS = [(9.0, 1.0, 1.0), (1.0, 9.0, 1.0), (1.0, 1.0, 9.0), (3.0, 3.0, 3.0), (0.5, 8.0, 0.0)]
CAPACITY = 8


class Groups(RuleBasedStateMachine):
    """A grouper beside a new one of the same jobs, which has nothing to keep."""

    @initialize(
        cost=st.sampled_from([0.0, 0.1, 100.0]),
        weight=st.sampled_from(["efficiency", "gain"]),
        method=st.sampled_from(["auto", "muri", "local", "exact"]),
    )
    def begin(self, cost, weight, method):
        self.cost = cost
        self.weight = weight
        self.options = {"weight": weight, "method": method}
        self.grouper = Grouper(3, CAPACITY, restart_cost=cost, **self.options)
        self.jobs = {}
        self.count = 0

    @rule(row=st.sampled_from(ROWS), gpus=st.sampled_from([1, 4, 4, 8]), priority=st.integers(0, 3))
    def add(self, row, gpus, priority):
        self.grouper.add(self.count, row, gpus, priority)
        self.jobs[self.count] = (row, gpus, priority)
        self.count += 1

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def remove(self, data):
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        self.grouper.remove(job)
        del self.jobs[job]

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), priority=st.integers(0, 3))
    def set_priority(self, data, priority):
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        self.grouper.set_priority(job, priority)
        row, gpus, _ = self.jobs[job]
        self.jobs[job] = (row, gpus, priority)

    def worth(self, groups, before):
        """What the groups bring, less the restarts of jobs that ran before."""
        ran = set().union(*before)
        total = 0.0
        for group in groups:
            solo = sum(sum(self.jobs[job][0]) for job in group.jobs)
            share = group.efficiency if self.weight == "efficiency" else solo / group.iteration_time
            restarts = 0 if set(group.jobs) in before else len(ran.intersection(group.jobs))
            total += group.gpus * (share - self.cost * restarts)
        return total

    @rule()
    def ask(self):
        fresh = Grouper(3, CAPACITY, **self.options)
        for job, (row, gpus, priority) in self.jobs.items():
            fresh.add(job, row, gpus, priority)
        order = sorted(self.jobs, key=lambda job: (self.jobs[job][2], job))
        candidates = set(fresh._urgent(order, CAPACITY))
        before = [candidates.intersection(group) for group in self.grouper._running]
        result, expected = self.grouper.groups(), fresh.groups()
        again = self.grouper.groups()
        assert [group.jobs for group in again] == [group.jobs for group in result]
        assert all(group.kept for group in again)
        waiting = self.jobs.keys() - {job for group in result for job in group.jobs}
        idle = CAPACITY - sum(group.gpus for group in result)
        assert all(self.jobs[job][1] > idle for job in waiting)
        # The others are grouped afterwards, for what is idle then.
        result, expected = (
            [group for group in groups if candidates.issuperset(group.jobs)]
            for groups in (result, expected)
        )
        for group in result:
            assert group.kept == (set(group.jobs) in before)
        if {job for group in expected for job in group.jobs} == candidates:
            assert {job for group in result for job in group.jobs} == candidates
            assert self.worth(result, before) >= self.worth(expected, before) - 1e-6

    @invariant()
    def is_sound(self):
        if hasattr(self, "grouper"):
            self.grouper.check()
            self.grouper.copy().check()


Groups.TestCase.settings = examples(60, stateful_step_count=30)
TestGroups = Groups.TestCase
