"""Any history of events: what the coscheduler answers keeps every rule of an account of its own."""

import pickle
from random import Random

import pytest
from gang_checker import IDLE, LIVE
from gang_histories import GANGS, PLACES, ROLES, History, happen
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples, seeds

from hivecore.errors import GangError
from hivecore.gangs import Coscheduler, GangSpec

some_places = st.lists(st.sampled_from(PLACES), max_size=2, unique=True).map(tuple)
specs = st.builds(
    GangSpec,
    st.sampled_from(GANGS),
    st.integers(0, 3),
    mode=st.sampled_from(["strict", "non-strict", "non-strict"]),
    match_policy=st.sampled_from(["once-satisfied", "only-waiting", "waiting-and-running"]),
    wait_time=st.integers(1, 30),
    groups=st.lists(st.sampled_from([*GANGS, "e"]), max_size=2),
    roles=st.sampled_from([{}, {}, {"ps": 1}, {"ps": 1, "worker": 2}]),
)


class Histories(RuleBasedStateMachine):
    @initialize(resolve=st.booleans())
    def begin(self, resolve):
        self.history = History(resolve)

    def in_states(self, *states):
        return self.history.in_states(*states)

    def pick(self, data, *states):
        return data.draw(st.sampled_from(self.in_states(*states)))

    @rule(spec=specs)
    def define(self, spec):
        self.history.define(spec)

    @precondition(lambda self: self.history.told.gangs)
    @rule(data=st.data())
    def remove(self, data):
        self.history.remove(data.draw(st.sampled_from(sorted(self.history.told.gangs))))

    @rule(data=st.data(), gang=st.sampled_from(GANGS), role=st.sampled_from(ROLES))
    def create(self, data, gang, role):
        spec = data.draw(st.none() | specs.map(lambda one: one.replace(name=gang)))
        bound = data.draw(st.sampled_from([False] * 6 + [True]))
        holds = data.draw(some_places) if bound else ()
        self.history.create(gang, spec, role, bound, holds)

    @precondition(lambda self: self.history.told.pods)
    @rule(data=st.data())
    def delete(self, data):
        self.history.delete(self.pick(data, *LIVE, "succeeded", "failed"))

    @precondition(lambda self: self.in_states("trying"))
    @rule(data=st.data(), holds=some_places)
    def place(self, data, holds):
        self.history.assume(self.pick(data, "trying"), holds)

    @precondition(lambda self: self.in_states(*IDLE))
    @rule(data=st.data(), holds=some_places)
    def place_one_that_was_not_to_be_tried(self, data, holds):
        self.history.assume(self.pick(data, *IDLE), holds)

    @precondition(lambda self: self.in_states("trying"))
    @rule(data=st.data(), lacks=some_places)
    def fail(self, data, lacks):
        self.history.fail(self.pick(data, "trying"), lacks)

    @precondition(lambda self: self.in_states("released"))
    @rule(data=st.data())
    def bind(self, data):
        self.history.bind(self.pick(data, "released"))

    @precondition(lambda self: self.in_states("released"))
    @rule(data=st.data())
    def fail_to_bind(self, data):
        self.history.fail_to_bind(self.pick(data, "released"))

    @precondition(lambda self: self.in_states("waiting"))
    @rule(data=st.data())
    def time_out(self, data):
        self.history.time_out(self.pick(data, "waiting"))

    @precondition(lambda self: self.in_states(*LIVE))
    @rule(data=st.data(), state=st.sampled_from(["running", "succeeded", "failed"]))
    def report(self, data, state):
        states = ("bound", "running") if state == "running" else LIVE
        if self.in_states(*states):
            self.history.report(self.pick(data, *states), state)

    @precondition(lambda self: self.in_states(*LIVE - {"bound", "running"}))
    @rule(data=st.data())
    def be_bound_by_others(self, data):
        self.history.bind_by_others(self.pick(data, *(LIVE - {"bound", "running"})))

    @rule(what=some_places)
    def free(self, what):
        self.history.free(what)

    @precondition(lambda self: self.history.gangs.gangs)
    @rule(data=st.data())
    def retry(self, data):
        self.history.retry(data.draw(st.sampled_from(self.history.gangs.gangs)))

    @rule(later=st.integers(0, 40))
    def advance(self, later):
        self.history.advance(later)

    @precondition(lambda self: self.history.told.pods)
    @rule(data=st.data())
    def events_out_of_place_change_nothing(self, data):
        name = self.pick(data, *LIVE, "succeeded", "failed")
        gangs, now = self.history.gangs, self.history.now
        state = self.history.told.pods[name]["state"]
        before = gangs.to_bytes()
        wrong = [lambda: gangs.create_pod(name, "a", now)]
        if state not in IDLE | {"trying"}:
            wrong.append(lambda: gangs.assume_pod(name, now))
            wrong.append(lambda: gangs.fail_pod(name, now))
        if state != "released":
            wrong.append(lambda: gangs.bind_pod(name, now))
            wrong.append(lambda: gangs.fail_binding(name, now))
        if state != "waiting":
            wrong.append(lambda: gangs.time_out_pod(name, now))
        if now:
            wrong.append(lambda: gangs.advance(now - 1))
        for call in wrong:
            with pytest.raises((GangError, ValueError)):
                call()
        assert gangs.to_bytes() == before

    @rule(way=st.sampled_from(["copy", "bytes", "pickle"]))
    def go_on_with_a_copy(self, way):
        gangs = self.history.gangs
        other = {
            "copy": gangs.copy,
            "bytes": lambda: Coscheduler.from_bytes(gangs.to_bytes()),
            "pickle": lambda: pickle.loads(pickle.dumps(gangs)),
        }[way]()
        self.history.go_on_with(other)

    @invariant()
    def states_are_what_was_told(self):
        if hasattr(self, "history"):
            self.history.compare()


Histories.TestCase.settings = examples(150, stateful_step_count=40, report_multiple_bugs=False)
TestHistories = Histories.TestCase


@pytest.mark.parametrize("seed", seeds(30))
def test_every_pod_that_may_be_tried_is_tried_in_any_order_of_events(seed):
    rng = Random(seed)
    history = History(rng.random() < 0.8)
    for step in range(100):
        happen(history, rng)
        history.compare()
        if step % 25 == 24:
            history.go_on_with(Coscheduler.from_bytes(history.gangs.to_bytes()))
    history.advance(10**6)
