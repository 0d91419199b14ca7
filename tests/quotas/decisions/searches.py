"""All that can become of a small tree of quotas while nothing happens from outside."""

from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.reference.quotas import QuotaTree as Twin

SHAPES = [
    {"a": "", "b": "", "c": ""},
    {"a": "", "b": "", "c": "b"},
    {"a": "", "b": "a", "c": "a"},
    {"a": "", "b": "a", "c": "b"},
]


def drawn(rng, most_owners, outside=False, growing=False):
    """(total, quotas, requests) of three quotas and some owners, with amounts up to 4.

    :param outside: one of the quotas is outside of what is divided.
    :param growing: all owners have two members, and may begin with one.
    """
    names = rng.choice(("x", "xy"))
    quotas = []
    for name, parent in rng.choice(SHAPES[:2] if outside else SHAPES).items():
        most = {d: rng.randint(2, 10) for d in names}
        least = {d: rng.randint(0, min(amount, 4)) for d, amount in most.items()}
        weight = {d: rng.randint(0, 3) for d in names}
        lends, scales = rng.random() < 0.9, rng.random() < 0.9
        options = {"parent": parent, "lends": lends, "scales": scales}
        options["outside"] = outside and name == "a"
        quotas.append(Quota(name, max=most, min=least, weight=weight, **options))
    requests = []
    for i in range(rng.randint(3, most_owners)):
        count = 2 if growing else rng.choice((1, 1, 2))
        requests.append(
            QuotaRequest(
                f"o{i}",
                rng.choice("abc"),
                {d: rng.randint(0, 4 // count) for d in names},
                count=count,
                min_count=1,
                priority=rng.randint(0, 2),
                preemptible=rng.random() < 0.9,
            )
        )
    return {d: rng.randint(3, 10) for d in names}, quotas, requests


class Kernel:
    """A state of the kernel."""

    def __init__(self, total, quotas, requests, settings):
        self.total = total
        self.tree = QuotaTree(quotas, total=total, **settings)
        self.tree.submit_many(requests)
        self.forgets = False

    def start(self, request, members):
        """It runs, whether that is admitted or not."""
        self.tree.release(request.name)
        self.tree.recover(request, members)

    def key(self):
        return self.tree.to_bytes()

    def copy(self):
        created = object.__new__(Kernel)
        created.total, created.tree, created.forgets = self.total, self.tree.copy(), self.forgets
        return created

    def owners(self):
        return self.tree.owners

    def is_complete(self, name):
        return self.tree.members(name) == self.tree.request(name).count

    def decide(self, name):
        decision = self.tree.schedule(name)
        return decision.outcome, decision.victims

    def admit(self, name):
        self.tree.commit(self.tree.schedule(name))

    def evict(self, name):
        self.tree.evict(name)
        if self.forgets:
            self.tree.set_total(self.total)  # an event, after which everybody may borrow again

    def excess(self):
        """What is used beyond runtimes, over quotas and dimensions."""
        count = 0
        for name in self.tree.quotas:
            status = self.tree.status(name)
            count += sum(max(status.used[d] - status.runtime[d], 0) for d in status.used)
        return count

    def beyond(self):
        """What is used beyond maximums."""
        count = 0
        for name in self.tree.quotas:
            used = self.tree.status(name).used
            count += sum(max(used[d] - most, 0) for d, most in self.tree.quota(name).max)
        return count

    def runtimes(self):
        return [self.tree.runtime(name) for name in self.tree.quotas]


class Plain:
    """A state of the twin."""

    def __init__(self, total, quotas, requests, settings):
        self.tree = Twin(**settings)
        self.settings = settings
        self.tree.set_total(total)
        for quota in quotas:
            self.tree.set_quota(quota)
        for request in requests:
            self.tree.submit(request)
        self.forgets = False

    def start(self, request, members):
        self.tree.admit(request.name, members)

    def key(self):
        running = sorted(
            (owner.start, name) for name, owner in self.tree.owners.items() if owner.members
        )
        kept = tuple(
            (name, owner.members, owner.may_borrow) for name, owner in self.tree.owners.items()
        )
        return tuple(name for _, name in running), kept

    def copy(self):
        created = object.__new__(Plain)
        created.settings, created.forgets = self.settings, self.forgets
        created.tree = Twin(**self.settings)
        created.tree.quotas, created.tree.totals = self.tree.quotas, self.tree.totals
        created.tree.owners, created.tree.starts = dict(self.tree.owners), self.tree.starts
        return created

    def owners(self):
        return sorted(self.tree.owners)

    def is_complete(self, name):
        owner = self.tree.owners[name]
        return owner.members == owner.request.count

    def decide(self, name):
        answer = self.tree.decide({name: 1})
        return answer.outcome, answer.victims

    def admit(self, name):
        assert self.tree.decide({name: 1}).outcome == "bind"
        self.tree.admit(name, 1)

    def evict(self, name):
        self.tree.evict(name)
        if self.forgets:
            self.tree.owners[name] = self.tree.owners[name]._replace(may_borrow=True)

    def excess(self):
        figures = self.tree.figures()
        return sum(
            max(used - figures.runtime[name][d], 0)
            for name in self.tree.quotas
            for d, used in figures.used[name].items()
        )

    def runtimes(self):
        return self.tree.figures().runtime


class Search:
    """Every state that decisions lead to, each carried out with its evictions at once."""

    def __init__(self, start, seen=lambda before, kind, after: None):
        self.seen = seen
        self.states = self.reclaims = 0
        self.cycle = self.explore(start)

    def steps(self, state):
        for name in state.owners():
            if state.is_complete(name):
                continue
            outcome, victims = state.decide(name)
            if outcome == "wait":
                continue
            after = state.copy()
            for victim in victims:
                after.evict(victim)
            after.admit(name)
            self.reclaims += outcome == "preempt"
            self.seen(state, outcome, after)
            yield (outcome, name, victims), after

    def explore(self, start):
        """The steps of a cycle, None if there is none; depth first, without recursion."""
        done, path = set(), [start.key()]
        on_path = {path[0]: 0}
        stack, taken = [self.steps(start)], []
        while stack:
            step, after = next(stack[-1], (None, None))
            if after is None:
                stack.pop()
                key = path.pop()
                del on_path[key]
                done.add(key)
                self.states += 1
                if taken:
                    taken.pop()
                continue
            key = after.key()
            if key in on_path:
                return [*taken[on_path[key] :], step]
            if key not in done:
                taken.append(step)
                on_path[key] = len(path)
                path.append(key)
                stack.append(self.steps(after))
        return None
