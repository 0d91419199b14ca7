"""An account of pods and gangs kept from events and actions alone, which knows every rule itself.

It shares nothing with the library: states are recomputed from lists whenever they are needed.
"""

LIVE = {"pending", "trying", "held-up", "waiting", "released", "bound", "running"}
IDLE = {"pending", "held-up"}


class Checker:
    """Follows the events of a coscheduler and its answers."""

    def __init__(self, resolve=True):
        self.pods = {}  # name -> dict
        self.gangs = {}  # name -> (spec, by an object) of the defined ones
        self.once = set()  # keys of groups
        self.until = {}
        self.failed = {}  # idle pods that start alone and have failed -> when
        self.ripe = {}  # idle pods that a round of their group may try, and none does -> since
        self.resolve = resolve
        self.released = 0
        self.now = 0

    # --- what follows from the pods

    def of(self, gang, *states):
        return [n for n, p in self.pods.items() if p["gang"] == gang and p["state"] in states]

    def key(self, gang):
        return self.gangs[gang][0].groups if gang in self.gangs else (gang,)

    def closure(self, gang):
        result, ahead = {gang}, [gang]
        while ahead:
            for name in self.key(ahead.pop()):
                if name not in result:
                    result.add(name)
                    ahead.append(name)
        return result

    def counts(self, gang, *states):
        pods = self.of(gang, *states)
        roles = [self.pods[name]["role"] for name in pods]
        return len(pods), roles

    def enough(self, gang, *states):
        spec = self.gangs[gang][0]
        number, roles = self.counts(gang, *states)
        return number >= spec.min_members and all(roles.count(r) >= n for r, n in spec.roles)

    def valid(self, gang):
        if gang not in self.gangs:
            return False
        policy = self.gangs[gang][0].match_policy
        states = ["waiting", "released"]
        if policy == "waiting-and-running":
            states += ["bound", "running"]
        elif policy == "once-satisfied" and self.key(gang) in self.once:
            return True
        return self.enough(gang, *states)

    def collected(self, gang):
        if gang not in self.gangs:
            return False
        only = self.gangs[gang][0].match_policy == "only-waiting"
        return self.enough(gang, *(LIVE - {"bound", "running"} if only else LIVE))

    def may_start(self, gang):
        return all(self.valid(entry) for entry in self.closure(gang))

    def starts_alone(self, gang):
        return (
            gang in self.gangs
            and self.gangs[gang][0].match_policy == "once-satisfied"
            and self.key(gang) in self.once
        )

    def edges(self):
        """(group, group that holds what it waits for), of groups that hold something.

        While a pod of a group is being tried, others of it may be about to be.
        """
        held, lacked = {}, {}
        busy = {self.key(pod["gang"]) for pod in self.pods.values() if pod["state"] == "trying"}
        for pod in self.pods.values():
            key = self.key(pod["gang"])
            if pod["state"] == "waiting":
                held.setdefault(key, set()).update(pod["holds"])
            elif pod["state"] == "held-up" and key not in busy:
                lacked.setdefault(key, set()).update(pod["lacks"])
        result = set()
        for key, mine in held.items():
            if not mine:
                continue
            member = next(g for g in key if self.key(g) == key and self.of(g, *LIVE))
            with_it = {self.key(entry) for entry in self.closure(member)}
            for other, theirs in held.items():
                for lacking in with_it | {key}:
                    own = lacking == key and other == key
                    if not own and lacked.get(lacking, set()) & theirs:
                        result.add((key, other))
        return result

    def has_cycle(self):
        edges = self.edges()
        nodes = {a for a, _ in edges} | {b for _, b in edges}
        while True:  # remove what no group waits for, or what waits for no group
            rest = {n for n in nodes if any(a == n and b in nodes for a, b in edges)}
            if rest == nodes:
                return bool(nodes)
            nodes = rest

    # --- events

    def defined(self, spec):
        self.gangs[spec.name] = (spec, True)

    def removed(self, name):
        del self.gangs[name]

    def created(self, name, gang, spec, role, bound, holds=()):
        if spec is not None and gang not in self.gangs:
            self.gangs[gang] = (spec, False)
        state = "bound" if bound else "pending"
        self.pods[name] = {"gang": gang, "role": role, "state": state, "holds": holds, "lacks": ()}
        self.tidy()

    def moved(self, name, state, holds=None, lacks=()):
        pod = self.pods[name]
        pod["state"], pod["lacks"] = state, lacks
        if holds is not None:
            pod["holds"] = holds
        if state != "waiting":
            self.until.pop(name, None)
        if state in IDLE and self.starts_alone(pod["gang"]):
            self.failed[name] = self.now
        self.tidy()

    def deleted(self, name):
        gang = self.pods.pop(name)["gang"]
        self.until.pop(name, None)
        if (
            gang in self.gangs
            and not self.gangs[gang][1]
            and not self.of(gang, *LIVE, "succeeded", "failed")
        ):
            del self.gangs[gang]
        self.tidy()

    def tidy(self):
        """A group is satisfied as soon as one pod is bound, and until no live one is left."""
        live = {self.key(p["gang"]) for p in self.pods.values() if p["state"] in LIVE}
        bound = {
            self.key(p["gang"]) for p in self.pods.values() if p["state"] in ("bound", "running")
        }
        self.once = (self.once | bound) & live

    # --- answers

    def follow(self, actions, now):
        self.now = now
        for action in actions:
            assert action.reason and action.pods, action
            assert len(set(action.pods)) == len(action.pods)
            for name in action.pods:
                assert name in self.pods, f"{action.kind} for {name}, which is gone"
                pod = self.pods[name]
                assert action.group == ",".join(self.key(pod["gang"])), action
                getattr(self, f"_{action.kind}")(name, pod, action, now)
            if action.kind in ("release", "reject"):
                state = "released" if action.kind == "release" else "pending"
                for name in action.pods:
                    self.moved(name, state, None if state == "released" else ())
        self._audit(now)

    def _try(self, name, pod, action, now):
        assert pod["state"] in IDLE, (name, pod)
        if not self.starts_alone(pod["gang"]):
            assert self.is_whole(pod["gang"]), (name, action)
        pod["state"], pod["lacks"] = "trying", ()

    def _hold(self, name, pod, action, now):
        if action.until is None:
            assert pod["state"] in IDLE, (name, pod)
        else:
            assert pod["state"] == "waiting"
            wait = self.gangs[pod["gang"]][0].wait_time
            assert action.until == now + wait
            self.until[name] = action.until

    def _release(self, name, pod, action, now):
        assert pod["state"] == "waiting", (name, pod)
        assert self.may_start(pod["gang"]), (name, action)
        self.released += 1

    def _reject(self, name, pod, action, now):
        assert pod["state"] in ("waiting", "trying"), (name, pod)

    def _audit(self, now):
        for name, pod in self.pods.items():
            if pod["state"] == "waiting":
                assert not self.may_start(pod["gang"]), f"{name} may start and is not released"
                assert name in self.until, f"{name} waits without end"
                assert pod["gang"] in self.gangs
        if self.resolve:
            assert not self.has_cycle(), self.edges()
        self._audit_idle(now)

    def _audit_idle(self, now):
        """An idle pod that starts alone has failed, or it would be tried; a round has its time."""
        busy = {self.key(pod["gang"]) for pod in self.pods.values() if pod["state"] == "trying"}
        idle = {name: pod["gang"] for name, pod in self.pods.items() if pod["state"] in IDLE}
        alone = {name for name, gang in idle.items() if self.starts_alone(gang)}
        self.failed = {name: time for name, time in self.failed.items() if name in alone}
        forgotten = alone - self.failed.keys()
        assert not forgotten, f"{sorted(forgotten)} may start alone and are not tried"
        self.ripe = {
            name: self.ripe.get(name, now)
            for name, gang in idle.items()
            if name not in alone and self.key(gang) not in busy and self.is_whole(gang)
        }

    def is_whole(self, gang):
        return all(self.collected(entry) for entry in self.key(gang))

    def advanced(self, now, longest):
        """Every pause is over after so long a time."""
        for name, since in {**self.failed, **self.ripe}.items():
            assert now - since <= longest, f"{name} may be tried since {since} and is not at {now}"
