"""Events that happen to a coscheduler and, at the same time, to an account of its own."""

import pickle

from gangs.checker import IDLE, LIVE, Checker

from hivecore.gangs import Coscheduler, GangSpec

GANGS = ["a", "b", "c", "d"]
PLACES = ["n1", "n2", "n3", "n4"]
ROLES = ["", "ps", "worker"]
LONGEST = 5


def waits(gangs):
    """The wait-for graph, order included."""
    graph = gangs._rounds.graph
    return pickle.dumps([getattr(graph, name) for name in graph.__slots__ if name != "named"])


class History:
    """A coscheduler whose every answer is compared with the rules."""

    def __init__(self, resolve):
        self.gangs = Coscheduler(backoff=2, max_backoff=LONGEST, resolve_deadlocks=resolve)
        self.checker = Checker(resolve)
        self.now = self.made = 0

    def in_states(self, *states):
        return sorted(name for name, pod in self.checker.pods.items() if pod["state"] in states)

    def follow(self, actions):
        self.checker.follow(actions, self.now)

    def define(self, spec):
        self.checker.defined(spec)
        before = set(self.in_states("waiting"))
        actions = self.gangs.define_gang(spec, self.now)
        self.checker.tidy()
        self.follow(actions)
        assert before <= set(self.checker.pods)

    def remove(self, name):
        waiting = self.checker.of(name, "waiting")
        actions = self.gangs.remove_gang(name, self.now)
        rejected = {pod for action in actions if action.kind == "reject" for pod in action.pods}
        assert rejected >= set(waiting)
        # What is said of the gang before its end is said under its group of before.
        cut = next((i for i, action in enumerate(actions) if action.kind != "reject"), len(actions))
        first = [action for action in actions[:cut] if set(action.pods) & set(waiting)]
        for action in first:
            for pod in action.pods:
                self.checker.moved(pod, "pending", ())
        self.checker.removed(name)
        self.checker.tidy()
        # Groups may have had other names while the rest was going on.
        for action in actions:
            if action in first:
                continue
            state = {"try": "trying", "reject": "pending", "release": "released"}
            for pod in action.pods:
                if action.kind in state:
                    self.checker.moved(pod, state[action.kind])
                    if action.kind == "reject":
                        self.checker.pods[pod]["holds"] = ()
        self.follow(())

    def create(self, gang, spec, role, bound, holds):
        self.made += 1
        name = f"p{self.made}"
        self.checker.created(name, gang, spec, role, bound, holds)
        self.follow(
            self.gangs.create_pod(name, spec or gang, self.now, role=role, bound=bound, holds=holds)
        )

    def delete(self, name):
        self.checker.deleted(name)
        self.follow(self.gangs.delete_pod(name, self.now))
        assert name not in self.gangs

    def assume(self, name, holds):
        self.checker.moved(name, "waiting", holds)
        gang = self.checker.pods[name]["gang"]
        if gang in self.checker.gangs:
            self.checker.until[name] = self.now + self.checker.gangs[gang][0].wait_time
        self.follow(self.gangs.assume_pod(name, self.now, holds))

    def fail(self, name, lacks):
        gang = self.checker.pods[name]["gang"]
        doomed = self.gangs._rounds.pods[name].doomed
        alone = self.checker.starts_alone(gang)
        strict = gang not in self.checker.gangs or self.checker.gangs[gang][0].mode == "strict"
        key = self.checker.key(gang)
        self.checker.moved(name, "held-up", (), lacks)
        self.follow(self.gangs.fail_pod(name, self.now, lacks, "no room"))
        if strict and not alone and not doomed:
            assert not [
                p for g in key if self.checker.key(g) == key for p in self.checker.of(g, "waiting")
            ]

    def bind(self, name):
        info = self.gangs.bind_info(name)
        assert info.group == ",".join(self.checker.key(self.checker.pods[name]["gang"]))
        self.checker.moved(name, "bound")
        self.follow(self.gangs.bind_pod(name, self.now))

    def bind_by_others(self, name):
        self.checker.moved(name, "bound")
        self.follow(self.gangs.bind_pod(name, self.now, by_others=True))

    def fail_to_bind(self, name):
        self.checker.moved(name, "pending", ())
        self.follow(self.gangs.fail_binding(name, self.now, "node is gone"))

    def time_out(self, name):
        self.follow(self.gangs.time_out_pod(name, self.now))
        assert self.checker.pods[name]["state"] in ("pending", "trying")

    def report(self, name, state):
        self.checker.moved(name, state, None if state == "running" else ())
        self.follow(self.gangs.report_pod(name, state, self.now))

    def free(self, what):
        self.follow(self.gangs.free(what, self.now))

    def retry(self, gang):
        self.follow(self.gangs.retry(gang, self.now))

    def advance(self, later):
        self.now += later
        self.follow(self.gangs.advance(self.now))
        self.checker.advanced(self.now, LONGEST)
        assert all(until > self.now for until in self.checker.until.values())
        assert self.gangs.deadline is None or self.gangs.deadline > self.now

    def go_on_with(self, other):
        assert other.to_bytes() == self.gangs.to_bytes()
        self.gangs = other

    def compare(self):
        """The audit finds nothing, changes nothing, and pods and gangs are as reported."""
        before = self.gangs.to_bytes(), waits(self.gangs)
        self.gangs.check()
        assert before == (self.gangs.to_bytes(), waits(self.gangs))
        assert len(self.gangs) == len(self.checker.pods)
        for name, pod in self.checker.pods.items():
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
            assert status.satisfied == self.checker.valid(name)
            assert status.once_satisfied == (self.checker.key(name) in self.checker.once)


# --- histories by a seed


def some_spec(rng, name=None):
    return GangSpec(
        name or rng.choice(GANGS),
        rng.randint(0, 3),
        mode=rng.choice(["strict", "non-strict", "non-strict"]),
        match_policy=rng.choice(["once-satisfied", "only-waiting", "waiting-and-running"]),
        wait_time=rng.randint(1, 30),
        groups=rng.sample([*GANGS, "e"], rng.randint(0, 2)),
        roles=rng.choice([{}, {}, {"ps": 1}, {"ps": 1, "worker": 2}]),
    )


def some_places(rng):
    return tuple(rng.sample(PLACES, rng.randint(0, 2)))


def happen(history, rng):
    """One random event."""

    def on(states, event, *arguments):
        names = history.in_states(*states)
        if names:
            event(rng.choice(names), *arguments)

    draw = rng.random()
    if draw < 0.04:
        history.define(some_spec(rng))
    elif draw < 0.06:
        if history.checker.gangs:
            history.remove(rng.choice(sorted(history.checker.gangs)))
    elif draw < 0.26:
        gang, bound = rng.choice(GANGS), rng.random() < 0.15
        spec = some_spec(rng, gang) if rng.random() < 0.7 else None
        holds = some_places(rng) if bound else ()
        history.create(gang, spec, rng.choice(ROLES), bound, holds)
    elif draw < 0.36:
        on((*LIVE, "succeeded", "failed"), history.delete)
    elif draw < 0.56:
        on(["trying"], history.assume, some_places(rng))
    elif draw < 0.58:
        on(IDLE, history.assume, some_places(rng))
    elif draw < 0.68:
        on(["trying"], history.fail, some_places(rng))
    elif draw < 0.76:
        on(["released"], history.bind)
    elif draw < 0.79:
        on(["released"], history.fail_to_bind)
    elif draw < 0.81:
        on(["waiting"], history.time_out)
    elif draw < 0.83:
        on(["bound", "running"], history.report, "running")
    elif draw < 0.86:
        on(LIVE, history.report, rng.choice(["succeeded", "failed"]))
    elif draw < 0.89:
        on(LIVE - {"bound", "running"}, history.bind_by_others)
    elif draw < 0.91:
        history.free(some_places(rng))
    elif draw < 0.93:
        if history.gangs.gangs:
            history.retry(rng.choice(history.gangs.gangs))
    else:
        history.advance(rng.choice([0, 1, 3, 8, 40]))
