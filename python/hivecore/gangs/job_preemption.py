"""Finds whole jobs to preempt so that all pending pods of a gang's group find places.

1. Remove every job, on all nodes, whose pods may all be preempted.
2. The cost of a node is the sum over its jobs of the rank of the job's priority, 1 for the lowest.
3. Place all pending pods, or none.
4. Return jobs while the placed pods still fit: first those that would exceed a budget, then the
   more important ones. A job that cannot return is a victim.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from hivecore._arguments import as_bool, as_int, as_mapping, as_name, as_text, as_tuple, by_name
from hivecore._record import Name, Record, within
from hivecore._stateful import counted
from hivecore.gangs._states import BOUND, NOT_PLACED, PLACED
from hivecore.gangs.coscheduler import Coscheduler

__all__ = ["JobPreemption", "Place", "RunningPod", "VictimJob", "preempt_jobs"]

_PRIORITIES = -(2**31), 2**31 - 1
_MOST = 2**62
# The key of a whole is the least key of its pods; gangs only join pods.
_JOB, _GROUP, _POD, _GANG = range(4)
_Key = tuple[int, str]
#: (slots by node, number of pods, costs by node) -> pods by node
Place = Callable[[Mapping[str, int], int, Mapping[str, int]], Mapping[str, int] | None]


class RunningPod(Record, frozen=True):
    """A pod that has a node, with or without a gang.

    :param name: the coscheduler's name, if it has one.
    :param node: where it runs.
    :param priority: -2**31 to 2**31 - 1; only pods with a lower priority than the gang are
        preempted.
    :param job: the job, whose pods are preempted together, with all of their gangs; "": the group
        of its gang, or the pod alone. Gangs are preempted with the gangs that they name.
    :param preemptible: whether it may be preempted.
    """

    name: Name
    node: Name
    priority: Annotated[int, within(-(2**31), 2**31 - 1)] = 0
    job: str = ""
    preemptible: bool = True

    def __post_init__(self) -> None:
        self._check()


class VictimJob(Record, frozen=True):
    """A job to preempt.

    :param name: the job, the group of gangs, or a single pod.
    :param pods: all of its pods, sorted.
    :param priority: the highest of its pods.
    """

    name: str
    pods: tuple[str, ...]
    priority: int


class JobPreemption(Record, frozen=True):
    """What would let a group start.

    :param outcome: "bind": all of its pending pods fit now. "preempt": they fit once the victims
        have left. "wait": preemption does not help.
    :param placement: (pod, node) of pending pods, by gang, then in the order of creation.
    :param victims: the jobs to preempt, the least important first.
    :param cost: the sum of their ranks: 1 for the lowest priority among the jobs that could be
        preempted, 2 for the next, and so on.
    :param exceeded: indices of the exceeded budgets.
    :param reason: in one line.
    """

    outcome: Literal["bind", "preempt", "wait"]
    placement: tuple[tuple[str, str], ...]
    victims: tuple[VictimJob, ...]
    cost: int
    exceeded: tuple[int, ...]
    reason: str


def preempt_jobs(
    gangs: Coscheduler,
    gang: str,
    running: Iterable[RunningPod],
    slots: Callable[[str, frozenset[str]], int],
    *,
    nodes: Iterable[str],
    priority: int,
    place: Place | None = None,
    budgets: Iterable[tuple[Iterable[str], int]] = (),
    exceed_budgets: bool = False,
    allows: Callable[[frozenset[str]], bool] | None = None,
    leaving: Iterable[str] = (),
) -> JobPreemption:
    """Find jobs of lower priority to preempt so that all pending pods of a gang's group have
    places.

    :param gangs: has the group's pending and waiting pods, and the running pods that start
        together.
    :param gang: any gang of the group.
    :param running: every pod that has a node, including those that are leaving.
    :param slots: (node, pods that have left) -> how many pending pods then fit on the node. Places
        of the group's waiting pods are not free. More pods that have left never mean fewer slots.
    :param nodes: names of the nodes to consider: those where preemption can help.
    :param priority: the gang's; pods with at least this priority stay.
    :param place: (slots by node, number of pods, costs by node) -> pods by node, or ``None`` if not
        all can be placed. By default nodes are filled by cost, then name. `hivecore.topology` can
        be used.
    :param budgets: (names, how many of these pods may be preempted).
    :param exceed_budgets: whether jobs beyond a budget may be preempted if nothing else helps.
    :param allows: pods that have left -> whether quotas then admit the pending pods; ``None``: they
        always do.
    :param leaving: pods that already leave for this group. While one of them is among ``running``,
        the outcome is "wait".
    :returns: the places of the pending pods, and the victims; or why preemption does not help.
    :raises KeyError: there is no such gang.
    :raises ValueError: a value is out of range or listed twice, or a bound pod of a gang that would
        be preempted is not among ``running``.
    :raises TypeError: an argument has a wrong type.

    Nothing changes: the caller deletes the victims and reports it. A job is preempted as a whole,
    so a job with a pod that must stay is no victim, nor is a job that starts together with the
    group. If the pending pods take these places, no victim can stay. The search is not exhaustive:
    nodes are taken by cost, so other places may need fewer victims; jobs are fitted into budgets
    from the least important on, so an answer within budgets may be missed. Ties: the lower rank,
    then the lowest name.

    Cost: O(n (j + log n)) for n running pods, of which j jobs might be preempted; up to four calls
    of ``slots`` for each node; for each of these jobs a call for each of its used nodes, and up to
    two of ``allows``. Source: Koordinator's job preemption, which splits gangs, counts all pods
    without a job as one, and ignores quotas and budgets.

    >>> from hivecore.gangs import Coscheduler, GangSpec, RunningPod, preempt_jobs
    >>> gangs = Coscheduler()
    >>> _ = gangs.create_pod("a", GangSpec("urgent", 2), now=0)
    >>> _ = gangs.create_pod("b", "urgent", now=0)
    >>> running = [RunningPod("x", "n1", 1, "low"), RunningPod("y", "n2", 1, "low")]
    >>> free = lambda node, gone: sum(pod.node == node and pod.name in gone for pod in running)
    >>> preemption = preempt_jobs(gangs, "urgent", running, free, nodes=["n1", "n2"], priority=9)
    >>> preemption.outcome, preemption.placement, preemption.victims[0].pods
    ('preempt', (('a', 'n1'), ('b', 'n2')), ('x', 'y'))
    """
    search = _Search(gangs, gang, running, slots, nodes, priority, place, budgets, allows)
    exceeds = as_bool(exceed_budgets, "exceed_budgets")
    going = {as_text(name, "leaving") for name in as_tuple(leaving, "leaving")}
    if not search.pending:
        return _wait("no pod is pending")
    still = sorted(going & search.running.keys())
    if still:
        return _wait(f"pod {still[0]!r} is leaving for it already")
    as_it_is = search.attempt([])
    if as_it_is is not None:
        return as_it_is
    if not search.jobs:
        return _wait("no job may leave")
    within = search.within_budgets()
    first = search.attempt(within)
    if first is not None:
        return first
    if len(within) == len(search.jobs):
        return search.refusal(within)
    second = search.attempt(search.jobs)
    if second is not None and (exceeds or not second.exceeded):
        return second
    return search.refusal(search.jobs) if second is None else _wait("a budget would be exceeded")


def _wait(reason: str) -> JobPreemption:
    return JobPreemption("wait", (), (), 0, (), reason)


@dataclass(slots=True, eq=False)
class _Job:
    """Pods that are preempted together."""

    key: _Key
    pods: list[str] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    priority: int = _PRIORITIES[0]
    rank: int = 0
    beyond: bool = False


def _pods_of(jobs: Iterable[_Job]) -> frozenset[str]:
    return frozenset(pod for job in jobs for pod in job.pods)


class _Search:
    """A search for victims, with checked arguments."""

    def __init__(
        self,
        gangs: Coscheduler,
        gang: str,
        running: Iterable[RunningPod],
        slots: Callable[[str, frozenset[str]], int],
        nodes: Iterable[str],
        priority: int,
        place: Place | None,
        budgets: Iterable[tuple[Iterable[str], int]],
        allows: Callable[[frozenset[str]], bool] | None,
    ) -> None:
        if not isinstance(gangs, Coscheduler):
            raise TypeError(f"gangs must be a Coscheduler, not {type(gangs).__name__}")
        _check_callable(slots, "slots")
        _check_callable(slots if place is None else place, "place")
        _check_callable(slots if allows is None else allows, "allows")
        own = gangs.gang(gang).group
        members = [
            member for member in own if _pods(gangs, member) and gangs.gang(member).group == own
        ]
        pods = [pod for member in members for pod in gangs.pods(member)]
        states = {pod: gangs.pod(pod).state for pod in pods}
        self.pending = [pod for pod in pods if states[pod] in NOT_PLACED]
        self.waiting = sum(state in PLACED for state in states.values())
        self.nodes = sorted({as_name(node, "nodes") for node in as_tuple(nodes, "nodes")})
        self.budgets = _budgets(budgets)
        self.running = by_name(running, "running", RunningPod)
        self._slots = slots
        self._place = place or _cheapest_first
        self._allows = allows
        urgent = as_int(priority, "priority", *_PRIORITIES)
        self.jobs = _jobs(gangs, own, self.running, urgent)

    # --- what the caller answers

    def slots(self, node: str, gone: frozenset[str]) -> int:
        """Return how many pending pods fit there."""
        return as_int(self._slots(node, gone), "slots(...)", 0, _MOST)

    def allows(self, gone: frozenset[str]) -> bool:
        """Whether quotas admit them."""
        return self._allows is None or as_bool(self._allows(gone), "allows(...)")

    def place(self, gone: frozenset[str], costs: Mapping[str, int]) -> dict[str, int] | None:
        """Return where all pending pods go; ``None`` if they do not fit."""
        room = {node: self.slots(node, gone) for node in self.nodes}
        wanted = len(self.pending)
        if sum(room.values()) < wanted:
            return None
        given = self._place(dict(room), wanted, costs)
        if given is None:
            return None
        answer = as_mapping(given, "place(...)")
        counts = {
            node: as_int(answer[node], f"place(...)[{node!r}]", 0, room.get(node, 0))
            for node in answer
        }
        if sum(counts.values()) != wanted:
            raise ValueError(
                f"place(...): {sum(counts.values())} of {counted(wanted, 'pod')} are placed"
            )
        return {node: count for node, count in counts.items() if count}

    # --- the search

    def within_budgets(self) -> list[_Job]:
        """Return the jobs that fit into the budgets, from the least important on."""
        used = [0] * len(self.budgets)
        within = []
        for job in self.jobs:
            takes = [len(names.intersection(job.pods)) for names, _ in self.budgets]
            job.beyond = any(
                take and used[i] + take > self.budgets[i][1] for i, take in enumerate(takes)
            )
            if not job.beyond:
                within.append(job)
                used = [a + b for a, b in zip(used, takes, strict=True)]
        return within

    def attempt(self, jobs: list[_Job]) -> JobPreemption | None:
        """Return the result of removing these jobs; ``None`` if it does not help."""
        gone = _pods_of(jobs)
        if not self.allows(gone):
            return None
        # A job beyond a budget costs more than all others together.
        surcharge = sum(job.rank for job in jobs) + 1
        costs = dict.fromkeys(self.nodes, 0)
        for job in jobs:
            for node in job.nodes & costs.keys():
                costs[node] += job.rank + job.beyond * surcharge
        counts = self.place(gone, costs)
        if counts is None:
            return None
        leaving, still = dict.fromkeys(jobs), set(gone)
        for job in sorted(
            jobs, key=lambda candidate: (not candidate.beyond, -candidate.priority, candidate.key)
        ):
            still.difference_update(job.pods)
            used = {node: counts[node] for node in sorted(job.nodes & counts.keys())}
            if self.holds(still, used):
                del leaving[job]
            else:
                still.update(job.pods)
        return self.answer(list(leaving), counts)

    def holds(self, still: set[str], counts: dict[str, int]) -> bool:
        """Whether the pods still fit on these nodes, and are admitted, without just these jobs."""
        if not counts and self._allows is None:
            return True  # most jobs are on other nodes
        gone = frozenset(still)
        fit = all(self.slots(node, gone) >= count for node, count in counts.items())
        return fit and self.allows(gone)

    def answer(self, victims: list[_Job], counts: dict[str, int]) -> JobPreemption:
        """Return the answer with these victims."""
        spread = [node for node, count in counts.items() for _ in range(count)]
        gone = _pods_of(victims)
        exceeded = [i for i, (names, left) in enumerate(self.budgets) if len(names & gone) > left]
        number = len(self.pending)
        has = "pod has a place" if number == 1 else "pods have places"
        reason = f"{number} {has}, {self.waiting} of {number + self.waiting} wait"
        return JobPreemption(
            "preempt" if victims else "bind",
            tuple(zip(self.pending, spread, strict=True)),
            tuple(VictimJob(job.key[1], tuple(sorted(job.pods)), job.priority) for job in victims),
            sum(job.rank for job in victims),
            tuple(exceeded),
            reason,
        )

    def refusal(self, jobs: list[_Job]) -> JobPreemption:
        """Return why removing these jobs does not help."""
        gone = _pods_of(jobs)
        if not self.allows(gone):
            return _wait(
                "quotas do not admit it even after all jobs that may be preempted have left"
            )
        room = sum(self.slots(node, gone) for node in self.nodes)
        return _wait(
            f"{min(room, len(self.pending))} of {counted(len(self.pending), 'pod')} would have "
            "places after all jobs that may be preempted have left"
        )


def _check_callable(given: object, name: str) -> None:
    if not callable(given):
        raise TypeError(f"{name} must be callable, not {type(given).__name__}")


def _cheapest_first(
    slots: Mapping[str, int], pods: int, costs: Mapping[str, int]
) -> dict[str, int]:
    counts = {}
    for node in sorted(slots, key=lambda node: costs[node]):  # at equal costs by name
        counts[node] = min(slots[node], pods)
        pods -= counts[node]
    return counts


def _budgets(budgets: Iterable[tuple[Iterable[str], int]]) -> list[tuple[frozenset[str], int]]:
    pairs = [as_tuple(pair, "budgets") for pair in as_tuple(budgets, "budgets")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("budgets must hold pairs of names and a number")
    return [
        (
            frozenset(as_text(name, "budgets") for name in as_tuple(names, "budgets")),
            as_int(left, "budgets", 0, _MOST),
        )
        for names, left in pairs
    ]


def _pods(gangs: Coscheduler, gang: str) -> tuple[str, ...]:
    """Return a gang's pods; empty if the gang is unknown."""
    try:
        return gangs.pods(gang)
    except KeyError:
        return ()


def _groups(gangs: Coscheduler, some: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the groups of these gangs and of all gangs that start with them, by gang."""
    groups: dict[str, tuple[str, ...]] = {}
    ahead = list(some)
    while ahead:
        gang = ahead.pop()
        if gang not in groups:
            try:
                groups[gang] = gangs.gang(gang).group
            except KeyError:  # a gang that others name, and that is unknown
                groups[gang] = (gang,)
            ahead.extend(groups[gang])
    return groups


class _Joined:
    """Disjoint sets: a forest whose roots represent their trees."""

    def __init__(self) -> None:
        self._above: dict[_Key, _Key] = {}

    def of(self, key: _Key) -> _Key:
        above = self._above
        while key in above:
            above[key] = above.get(above[key], above[key])
            key = above[key]
        return key

    def join(self, key: _Key, other: _Key) -> None:
        key, other = self.of(key), self.of(other)
        if key != other:
            self._above[key] = other


def _jobs(
    gangs: Coscheduler, own: tuple[str, ...], running: Mapping[str, RunningPod], urgent: int
) -> list[_Job]:
    """Return the preemptible jobs with their ranks, the least important first."""
    joined = _Joined()
    gang_of = {name: gangs.pod(name).gang for name in running if name in gangs}
    groups = _groups(gangs, [*own, *gang_of.values()])
    for gang, group in groups.items():
        for other in group:
            joined.join((_GANG, gang), (_GANG, other))
    keys: dict[str, _Key] = {}
    for name, pod in running.items():
        of = gang_of.get(name)
        alone = (_POD, name) if of is None else (_GROUP, ",".join(groups[of]))
        keys[name] = (_JOB, pod.job) if pod.job else alone
        if of is not None:
            joined.join(keys[name], (_GANG, of))
    jobs: dict[_Key, _Job] = {}
    staying = {joined.of((_GANG, own[0]))}
    for name, pod in running.items():
        key = joined.of(keys[name])
        job = jobs.setdefault(key, _Job(keys[name]))
        job.key = min(job.key, keys[name])
        job.pods.append(name)
        job.nodes.add(pod.node)
        job.priority = max(job.priority, pod.priority)
        if not pod.preemptible or pod.priority >= urgent:
            staying.add(key)
    for gang in groups:
        if joined.of((_GANG, gang)) not in staying:
            for name in _pods(gangs, gang):
                if name not in running and gangs.pod(name).state in BOUND:
                    raise ValueError(f"running: pod {name!r} of gang {gang!r} is bound and missing")
    candidates = [job for key, job in jobs.items() if key not in staying]
    ranks = {p: rank for rank, p in enumerate(sorted({job.priority for job in candidates}), 1)}
    for job in candidates:
        job.rank = ranks[job.priority]
    return sorted(candidates, key=lambda job: (job.priority, job.key))
