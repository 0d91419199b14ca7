"""Any history, whatever a scheduler is made of: the ledger of what it said adds up."""

import copy
import pickle

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples
from scheduler_lives import (
    COMPOSITIONS,
    DATA,
    NODES,
    ROLES,
    TENANTS,
    Ledger,
    make_job,
    make_scheduler,
)


def restarted(scheduler):
    return pickle.loads(pickle.dumps(scheduler))


class Lives(RuleBasedStateMachine):
    @initialize(
        parts=st.sampled_from(sorted(COMPOSITIONS)),
        blocking=st.sampled_from(["fifo", "best-effort"]),
        limit=st.sampled_from(["runtime", "max"]),
        immediate=st.booleans(),
    )
    def begin(self, parts, blocking, limit, immediate):
        self.parts = COMPOSITIONS[parts]
        self.immediate = immediate
        self.scheduler = make_scheduler(
            self.parts, blocking=blocking, limit=limit, immediate=immediate
        )
        self.ledger = Ledger(self.parts)
        self.now, self.made = 0.0, 0

    @rule(
        tenant=st.sampled_from(TENANTS),
        roles=st.sampled_from(sorted(ROLES)),
        priority=st.integers(0, 2),
        guaranteed=st.booleans(),
        preemptible=st.booleans(),
        rack=st.booleans(),
        after=st.booleans(),
        data=st.sampled_from(sorted(DATA)),
    )
    def submit(self, tenant, roles, priority, guaranteed, preemptible, rack, after, data):
        self.made += 1
        waits = sorted(set(self.scheduler))[-1:] if after else []
        job = make_job(
            f"j{self.made}",
            tenant,
            roles,
            priority=priority,
            guaranteed=guaranteed,
            preemptible=preemptible or not guaranteed,
            rack=rack,
            after=waits,
            data=DATA[data],
        )
        self.scheduler.submit(job, self.now)
        self.ledger.submit(job)

    @rule(later=st.integers(0, 3), most=st.none() | st.integers(1, 2))
    def decide(self, later, most):
        self.now += later
        actions = self.scheduler.decide(self.now, most)
        self.ledger.note(actions, self.immediate)
        if most is None:
            assert self.scheduler.decide(self.now) == []

    @precondition(lambda self: self.ledger.running)
    @rule(data=st.data())
    def finish(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.running)))
        self.scheduler.finish(name, self.now)
        if self.ledger.stopping.get(name) is None:
            assert name not in self.scheduler
        self.gone(name)

    @precondition(lambda self: len(self.scheduler))
    @rule(data=st.data())
    def cancel(self, data):
        name = data.draw(st.sampled_from(sorted(self.scheduler)))
        self.scheduler.cancel(name, self.now)
        self.gone(name)

    def gone(self, name):
        self.ledger.ended(name)

    @precondition(lambda self: self.ledger.running)
    @rule(data=st.data())
    def fail(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.running)))
        self.scheduler.fail(name, self.now)
        self.ledger.ended(name)

    @precondition(lambda self: self.ledger.stopping)
    @rule(data=st.data())
    def stop(self, data):
        name = data.draw(st.sampled_from(sorted(self.ledger.stopping)))
        self.scheduler.stopped(name, self.now)
        self.ledger.ended(name)

    @precondition(lambda self: {"cells", "topology", "devices"} & set(self.parts))
    @rule(node=st.sampled_from(NODES), healthy=st.booleans())
    def set_node(self, node, healthy):
        self.scheduler.set_node(node, healthy, self.now)
        (self.ledger.bad.discard if healthy else self.ledger.bad.add)(node)

    @rule(how=st.sampled_from([copy.copy, restarted]))
    def branch(self, how):
        """A branch decides alike; what happens to it does not matter to the other."""
        before = self.scheduler.to_bytes()
        branch = how(self.scheduler)
        assert how is restarted or branch.to_bytes() == before
        branch.check()
        other = copy.copy(self.scheduler)
        assert branch.decide(self.now) == other.decide(self.now)
        for name in list(branch):
            branch.cancel(name, self.now)
        branch.decide(self.now)
        assert self.scheduler.to_bytes() == before
        if how is restarted:
            self.scheduler = restarted(self.scheduler)

    @rule()
    def refused(self):
        for call, error in (
            (lambda: self.scheduler.finish("nobody", self.now), KeyError),
            (lambda: self.scheduler.cancel("nobody", self.now), KeyError),
            (lambda: self.scheduler.stopped("nobody", self.now), KeyError),
            (lambda: self.scheduler.advance(self.now - 1), ValueError),
        ):
            with pytest.raises(error):
                call()

    @invariant()
    def all_adds_up(self):
        if hasattr(self, "scheduler"):
            self.scheduler.check()
            self.ledger.check()

    def teardown(self):
        """Everybody goes: all is as it was at first."""
        if hasattr(self, "scheduler"):
            for name in list(self.scheduler):
                self.scheduler.cancel(name, self.now)
            for name in list(self.ledger.stopping):
                if name in self.scheduler:
                    self.scheduler.stopped(name, self.now)
            assert len(self.scheduler) == 0
            self.scheduler.check()


TestLives = Lives.TestCase
TestLives.settings = examples(200, stateful_step_count=40)
