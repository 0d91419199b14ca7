"""Any history of events: what the coscheduler answers keeps every rule of an account of its own."""

import pickle

import pytest
from gang_checker import IDLE, LIVE, Checker
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples

from hivecore.errors import GangError
from hivecore.gangs import Coscheduler, GangSpec

GANGS = ["a", "b", "c", "d"]
PLACES = ["n1", "n2", "n3", "n4"]
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
        self.gangs = Coscheduler(backoff=2, max_backoff=5, resolve_deadlocks=resolve)
        self.told = Checker(resolve)
        self.now = 0
        self.made = 0

    def in_states(self, *states):
        return [name for name, pod in self.told.pods.items() if pod["state"] in states]

    def pick(self, data, *states):
        return data.draw(st.sampled_from(sorted(self.in_states(*states))))

    def follow(self, actions):
        self.told.follow(actions, self.now)

    @rule(spec=specs)
    def define(self, spec):
        self.told.defined(spec)
        before = set(self.in_states("waiting"))
        actions = self.gangs.define_gang(spec, self.now)
        self.told.tidy()
        self.follow(actions)
        assert before <= set(self.told.pods)

    @precondition(lambda self: self.told.gangs)
    @rule(data=st.data())
    def remove(self, data):
        name = data.draw(st.sampled_from(sorted(self.told.gangs)))
        waiting = self.told.of(name, "waiting")
        actions = self.gangs.remove_gang(name, self.now)
        rejected = {pod for action in actions if action.kind == "reject" for pod in action.pods}
        assert rejected >= set(waiting)
        # What is said of the gang before its end is said under its group of before.
        cut = next((i for i, one in enumerate(actions) if one.kind != "reject"), len(actions))
        first = [one for one in actions[:cut] if set(one.pods) & set(waiting)]
        for action in first:
            for pod in action.pods:
                self.told.moved(pod, "pending", ())
        self.told.removed(name)
        self.told.tidy()
        rest = [one for one in actions if one not in first]
        for one in rest:  # groups may have had other names while this was going on
            assert one.kind in ("try", "reject", "hold", "release")
        self.follow_loosely(rest)

    def follow_loosely(self, actions):
        for action in actions:
            for pod in action.pods:
                state = {"try": "trying", "reject": "pending", "release": "released"}
                if action.kind in state:
                    self.told.moved(pod, state[action.kind])
                    if action.kind == "reject":
                        self.told.pods[pod]["holds"] = ()
        self.told.follow((), self.now)

    @rule(data=st.data(), gang=st.sampled_from(GANGS), role=st.sampled_from(["", "ps", "worker"]))
    def create(self, data, gang, role):
        self.made += 1
        name = f"p{self.made}"
        spec = data.draw(st.none() | specs.map(lambda one: one.replace(name=gang)))
        bound = data.draw(st.sampled_from([False] * 6 + [True]))
        holds = data.draw(some_places) if bound else ()
        self.told.created(name, gang, spec, role, bound, holds)
        self.follow(
            self.gangs.create_pod(name, spec or gang, self.now, role=role, bound=bound, holds=holds)
        )

    @precondition(lambda self: self.told.pods)
    @rule(data=st.data())
    def delete(self, data):
        name = self.pick(data, *LIVE, "succeeded", "failed")
        self.told.deleted(name)
        self.follow(self.gangs.delete_pod(name, self.now))
        assert name not in self.gangs

    def assume(self, name, holds):
        self.told.moved(name, "waiting", holds)
        gang = self.told.pods[name]["gang"]
        if gang in self.told.gangs:
            self.told.until[name] = self.now + self.told.gangs[gang][0].wait_time
        self.follow(self.gangs.assume_pod(name, self.now, holds))

    @precondition(lambda self: self.in_states("trying"))
    @rule(data=st.data(), holds=some_places)
    def place(self, data, holds):
        self.assume(self.pick(data, "trying"), holds)

    @precondition(lambda self: self.in_states(*IDLE))
    @rule(data=st.data(), holds=some_places)
    def place_one_that_was_not_to_be_tried(self, data, holds):
        self.assume(self.pick(data, *IDLE), holds)

    @precondition(lambda self: self.in_states("trying"))
    @rule(data=st.data(), lacks=some_places)
    def fail(self, data, lacks):
        name = self.pick(data, "trying")
        gang = self.told.pods[name]["gang"]
        doomed = self.gangs._rounds.pods[name].doomed
        alone = self.told.starts_alone(gang)
        strict = gang not in self.told.gangs or self.told.gangs[gang][0].mode == "strict"
        key = self.told.key(gang)
        self.told.moved(name, "held-up", (), lacks)
        self.follow(self.gangs.fail_pod(name, self.now, lacks, "no room"))
        if strict and not alone and not doomed:
            assert not [
                p for g in key if self.told.key(g) == key for p in self.told.of(g, "waiting")
            ]

    @precondition(lambda self: self.in_states("released"))
    @rule(data=st.data())
    def bind(self, data):
        name = self.pick(data, "released")
        info = self.gangs.bind_info(name)
        assert info.group == ",".join(self.told.key(self.told.pods[name]["gang"]))
        self.told.moved(name, "bound")
        self.follow(self.gangs.bind_pod(name, self.now))

    @precondition(lambda self: self.in_states("released"))
    @rule(data=st.data())
    def fail_to_bind(self, data):
        name = self.pick(data, "released")
        self.told.moved(name, "pending", ())
        self.follow(self.gangs.fail_binding(name, self.now, "node is gone"))

    @precondition(lambda self: self.in_states("waiting"))
    @rule(data=st.data())
    def time_out(self, data):
        name = self.pick(data, "waiting")
        self.follow(self.gangs.time_out_pod(name, self.now))
        assert self.told.pods[name]["state"] in ("pending", "trying")

    @precondition(lambda self: self.in_states(*LIVE))
    @rule(data=st.data(), state=st.sampled_from(["running", "succeeded", "failed"]))
    def report(self, data, state):
        states = ("bound", "running") if state == "running" else LIVE
        if self.in_states(*states):
            name = self.pick(data, *states)
            self.told.moved(name, state, None if state == "running" else ())
            self.follow(self.gangs.report_pod(name, state, self.now))

    @precondition(lambda self: self.in_states(*LIVE - {"bound", "running"}))
    @rule(data=st.data())
    def be_bound_by_others(self, data):
        name = self.pick(data, *(LIVE - {"bound", "running"}))
        self.told.moved(name, "bound")
        self.follow(self.gangs.bind_pod(name, self.now, by_others=True))

    @rule(what=some_places)
    def free(self, what):
        self.follow(self.gangs.free(what, self.now))

    @precondition(lambda self: self.gangs.gangs)
    @rule(data=st.data())
    def retry(self, data):
        self.follow(self.gangs.retry(data.draw(st.sampled_from(self.gangs.gangs)), self.now))

    @rule(later=st.integers(0, 40))
    def advance(self, later):
        self.now += later
        self.follow(self.gangs.advance(self.now))
        assert all(until > self.now for until in self.told.until.values())
        assert self.gangs.deadline is None or self.gangs.deadline > self.now

    @precondition(lambda self: self.told.pods)
    @rule(data=st.data())
    def events_out_of_place_change_nothing(self, data):
        name = self.pick(data, *LIVE, "succeeded", "failed")
        state = self.told.pods[name]["state"]
        before = self.gangs.to_bytes()
        wrong = [lambda: self.gangs.create_pod(name, "a", self.now)]
        if state not in IDLE | {"trying"}:
            wrong.append(lambda: self.gangs.assume_pod(name, self.now))
            wrong.append(lambda: self.gangs.fail_pod(name, self.now))
        if state != "released":
            wrong.append(lambda: self.gangs.bind_pod(name, self.now))
            wrong.append(lambda: self.gangs.fail_binding(name, self.now))
        if state != "waiting":
            wrong.append(lambda: self.gangs.time_out_pod(name, self.now))
        if self.now:
            wrong.append(lambda: self.gangs.advance(self.now - 1))
        for call in wrong:
            with pytest.raises((GangError, ValueError)):
                call()
        assert self.gangs.to_bytes() == before

    @rule(way=st.sampled_from(["copy", "bytes", "pickle"]))
    def go_on_with_a_copy(self, way):
        before = self.gangs.to_bytes()
        other = {
            "copy": self.gangs.copy,
            "bytes": lambda: Coscheduler.from_bytes(before),
            "pickle": lambda: pickle.loads(pickle.dumps(self.gangs)),
        }[way]()
        assert other.to_bytes() == before
        self.gangs = other

    @invariant()
    def states_are_what_was_said(self):
        if not hasattr(self, "gangs"):
            return
        self.gangs.check()
        assert len(self.gangs) == len(self.told.pods)
        for name, pod in self.told.pods.items():
            status = self.gangs.pod(name)
            assert (status.gang, status.role, status.state) == (
                pod["gang"],
                pod["role"],
                pod["state"],
            )
            assert status.holds == pod["holds"], (name, status, pod)
            assert status.lacks == pod["lacks"]
        for name in self.gangs.gangs:
            status = self.gangs.gang(name)
            assert status.satisfied == self.told.valid(name)
            assert status.once_satisfied == (self.told.key(name) in self.told.once)


Histories.TestCase.settings = examples(150, stateful_step_count=40, report_multiple_bugs=False)
TestHistories = Histories.TestCase
