"""Decides which pods of gangs are tried, hold, start or give back: events in, actions out."""

from collections.abc import Callable, Container, Iterable
from typing import Literal

from hivecore._arguments import as_bool, as_choice, as_int, as_name, as_text, as_tuple
from hivecore._record import check_of
from hivecore._turns import in_turn
from hivecore.errors import GangError
from hivecore.gangs._records import GangBook, GroupBook, PodBook
from hivecore.gangs._rounds import Rounds
from hivecore.gangs._states import BOUND, IDLE, NOT_PLACED, PLACED
from hivecore.gangs.action import Action
from hivecore.gangs.gang_ledger import GangLedger
from hivecore.gangs.gang_spec import GangSpec

__all__ = ["Coscheduler"]

_LATEST = 2**61
_check_spec = check_of(GangSpec)
_LIVE = NOT_PLACED | PLACED | BOUND


class Coscheduler(GangLedger):
    """Starts gangs together or not at all, under a scheduler that places pod by pod.

    The scheduler reports events and carries out the actions. It tries the pods of a "try" action,
    and reports a place (`assume_pod`) or none (`fail_pod`) for each. A pod holds its place until
    its gang, and the gangs that start with it, have enough pods; then they are released, to be
    bound. Any number of groups are tried concurrently.

    :param backoff: how long a failed group waits before it is retried, in the caller's unit of
        time; doubled by each further failure, 1 to 2**60.
    :param max_backoff: the longest such time, at least ``backoff``.
    :param resolve_deadlocks: whether groups that wait for each other are detected, and the youngest
        of them gives up its places.
    :raises ValueError: a time is out of range.
    :raises TypeError: an argument has a wrong type.

    Every event takes ``now``, 0 to 2**61 and never decreasing, and returns actions in the order in
    which to carry them out. Pods without an action continue as before. An error changes nothing:
    `KeyError` for unknown pods and gangs, `GangError` for a pod in the wrong state, `ValueError`
    and `TypeError` for other arguments. Only `advance` ends waits and starts retries that are due.

    Pods are tried in the order of their creation, those of the older group first. Cost: O(log n) of
    n waits for an event, and O(1) for each action; additionally O(r) for a gang with r roles, O(g)
    for the g groups that name it or start with it, O(m log m) when a round of m pods starts, and
    O(m) when it fails, or when a gang of m pods is defined, changed or removed. If a pod lacks what
    another held-up group holds, a search among such groups.

    Source: Koordinator's coscheduling plug-in has the same rules for a pod, but tries groups one
    after another, never forgets that a group was satisfied, and lets non-strict groups wait for
    each other.

    >>> from hivecore.gangs import Coscheduler, GangSpec
    >>> gangs = Coscheduler()
    >>> gang = GangSpec("train", 2)
    >>> for action in gangs.create_pod("a", gang, now=0):
    ...     print(action.kind, action.pods, action.reason)
    hold ('a',) gang 'train' has 1 of 2 pods
    >>> for action in gangs.create_pod("b", gang, now=0):
    ...     print(action.kind, action.pods)
    try ('a',)
    hold ('b',)
    >>> for action in gangs.assume_pod("a", now=1, holds=["n1"]):
    ...     print(action.kind, action.pods, action.until)
    hold ('a',) 601
    try ('b',) None
    >>> [(action.kind, action.pods) for action in gangs.assume_pod("b", now=2, holds=["n2"])]
    [('release', ('a', 'b'))]
    """

    __slots__ = ()

    # --- gangs

    @in_turn
    def define_gang(self, spec: GangSpec, now: int) -> tuple[Action, ...]:
        """Define a gang, or change its definition.

        :param spec: replaces any earlier definition, including those by pods. Current waits end as
            planned.
        """
        _check_spec(spec, "spec")
        rounds = self._at(now)
        self._define(rounds.gang(spec.name), spec, "object")
        return self._done()

    @in_turn
    def remove_gang(self, name: str, now: int) -> tuple[Action, ...]:
        """Remove a gang's definition; its pods get no places until it is defined again.

        Pods that wait lose their places; released and bound pods keep theirs.

        :raises KeyError: the gang is not defined.
        """
        gang = self._rounds.gangs.get(as_text(name, "name"))
        if gang is None or gang.spec is None:
            raise KeyError(f"gang {name!r} is not defined")
        rounds = self._at(now)
        group = gang.group
        waiting = [pod for _, pod in sorted(group.waiting.items()) if pod.gang is gang]
        rounds.reject(waiting, group, f"gang {name!r} is not defined any more")
        self._define(gang, None, "")
        return self._done()

    def _define(self, gang: GangBook, spec: GangSpec | None, source: str) -> None:
        rounds = self._rounds
        before = gang.group
        rounds.define(gang, spec, source)
        trying = before.trying
        if trying is not None and trying.gang.group is not before:
            before.trying = None
        rounds.settle()
        if gang.name in rounds.gangs:
            group = gang.group
            if group.waiting:
                (rounds.dropped if group.uncollected else rounds.ready)[group] = None
            rounds.collected[group] = None
            if group is not before:
                # Groups that start with the gang now start with other groups.
                for dependent in sorted(rounds.dependents(group), key=lambda each: each.number):
                    if dependent.waiting:
                        rounds.ready[dependent] = None
                rounds.suspect_below(group)
        if before.members:
            rounds.go_on(before)
        rounds.settle()

    @in_turn
    def create_pod(
        self,
        pod: str,
        gang: str | GangSpec,
        now: int,
        *,
        role: str = "",
        bound: bool = False,
        holds: Iterable[str] = (),
    ) -> tuple[Action, ...]:
        """Add a pod.

        :param pod: its name, such as "namespace/name".
        :param gang: the name of its gang, or a definition. The first definition by a pod is valid
            while the gang has pods, unless `define_gang` replaces it.
        :param role: its role in the gang, or "".
        :param bound: whether it has a node already, as after a restart of the scheduler.
        :param holds: what it holds then, see `assume_pod`.
        :raises ValueError: there is a pod of this name.
        """
        name, role = as_name(pod, "pod"), as_text(role, "role")
        spec = None if isinstance(gang, str) else _check_spec(gang, "gang")
        of = as_name(gang, "gang") if isinstance(gang, str) else gang.name
        bound, held = as_bool(bound, "bound"), _names(holds, "holds")
        rounds = self._rounds
        if name in rounds.pods:
            raise ValueError(f"pod={name!r}: there is one of this name")
        if held and not bound:
            raise ValueError("holds: only a pod that is bound has something")
        self._at(now)
        book = rounds.gang(of)
        if spec is not None and book.spec is None:
            self._define(book, spec, "pod")
        added = rounds.add(name, book, role, "bound" if bound else "pending")
        added.holds = held
        rounds.settle()
        if added.state in IDLE:
            rounds.admit(added)
        return self._done()

    @in_turn
    def delete_pod(self, pod: str, now: int) -> tuple[Action, ...]:
        """Remove a pod in any state."""
        book = self._known(pod)
        rounds = self._at(now)
        self._leave(book, lambda: rounds.remove(book))
        return self._done()

    @in_turn
    def assume_pod(self, pod: str, now: int, holds: Iterable[str] = ()) -> tuple[Action, ...]:
        """Report that the scheduler has found a place for a pod, which holds it from now on.

        :param holds: what others cannot have meanwhile, in the caller's names: the node, or nodes
            and devices. `fail_pod` uses the same names for what a pod lacks.
        :raises GangError: it has a place already, or has ended.

        If its group has failed in the meantime, the pod is rejected at once.
        """
        book = self._in(pod, NOT_PLACED, "cannot be given a place")
        held = _names(holds, "holds")
        rounds = self._at(now)
        gang, group = book.gang, book.gang.group
        if group.trying is book:
            group.trying = None
        doomed = self._was_doomed(book)
        if doomed or gang.spec is None:
            reason = f"gang {gang.name!r} is not defined"
            if doomed:
                reason = group.failure or "its group has failed meanwhile"
            self._back(book)
            rounds.say("reject", (book,), group, reason)
            if not group.open and group.time < 0:
                rounds.again_later(group)
        else:
            rounds.call_off(book)
            book.holds = held
            rounds.move(book, "waiting")
            book.lacks = ()
            until = rounds.now + gang.spec.wait_time
            rounds.timers.set(book, until)
            if not group.lacking:
                rounds.ready[group] = None
            if rounds.graph.is_wanted(held):
                rounds.suspects[group] = None
            rounds.settle()
            if book.state == "waiting":
                reason = rounds.reason(book)
                rounds.actions.append(Action("hold", (book.name,), group.id, reason, until))
        rounds.go_on(group)
        rounds.settle()
        return self._done()

    @in_turn
    def fail_pod(
        self, pod: str, now: int, lacks: Iterable[str] = (), reason: str = ""
    ) -> tuple[Action, ...]:
        """Report that the scheduler has found no place for a pod.

        :param lacks: any of these would help, in the names of ``holds`` in `assume_pod`. Without
            it, deadlocks are not detected, and only time brings another try.
        :param reason: in one line.
        :raises GangError: it has a place, or has ended.
        """
        book = self._in(pod, NOT_PLACED, "cannot fail to be placed")
        wanted, why = _names(lacks, "lacks"), as_text(reason, "reason")
        rounds = self._at(now)
        group = book.gang.group
        if group.trying is book:
            group.trying = None
        self._back(book)
        book.lacks = wanted
        rounds.move(book, "held-up")
        if not self._was_doomed(book):
            text = f"pod {book.name!r} found no place"
            rounds.lose(book, f"{text}: {why}" if why else text)
        if not group.open and group.time < 0:
            rounds.again_later(group)
        rounds.go_on(group)
        rounds.suspect(group)
        rounds.settle()
        return self._done()

    @in_turn
    def bind_pod(self, pod: str, now: int, *, by_others: bool = False) -> tuple[Action, ...]:
        """Report that a pod is bound to its node.

        :param by_others: whether another scheduler has bound it, without a release.
        :raises GangError: it was not released.
        """
        allowed = NOT_PLACED | PLACED
        others = as_bool(by_others, "by_others")
        book = self._in(pod, allowed if others else {"released"}, "cannot be bound")
        rounds = self._at(now)
        self._leave(book, lambda: rounds.move(book, "bound"), keeps=True)
        return self._done()

    @in_turn
    def fail_binding(self, pod: str, now: int, reason: str = "") -> tuple[Action, ...]:
        """Report that a released pod could not be bound, and has lost its place: it is pending
        again. A "strict" gang that lacks pods then gives back the places of those that wait.

        :param reason: why, in one line.
        :raises GangError: it was not released.
        """
        book = self._in(pod, {"released"}, "cannot fail to be bound")
        why = as_text(reason, "reason")
        rounds = self._at(now)
        freed, book.holds = book.holds, ()
        group = book.gang.group
        rounds.move(book, "pending")
        text = f"pod {book.name!r} could not be bound"
        rounds.lose(book, f"{text}: {why}" if why else text)
        rounds.wake(freed, False)
        self._look_again(group)
        return self._done()

    @in_turn
    def time_out_pod(self, pod: str, now: int) -> tuple[Action, ...]:
        """Report that the scheduler's own timer has ended a pod's wait, as `advance` does.

        :raises GangError: it does not wait.
        """
        book = self._in(pod, {"waiting"}, "cannot time out")
        self._at(now)
        self._expire(book)
        return self._done()

    @in_turn
    def report_pod(
        self, pod: str, state: Literal["running", "succeeded", "failed"], now: int
    ) -> tuple[Action, ...]:
        """Report that a bound pod runs, or that a pod has ended; then only the phase counts it.

        :raises GangError: the pod has ended before, or "running" is reported of an unbound pod.
        """
        word = as_choice(state, "state", ("running", "succeeded", "failed"))
        allowed = BOUND if word == "running" else _LIVE
        book = self._in(pod, allowed, f"cannot be {word}")
        rounds = self._at(now)
        if word == "running":
            rounds.move(book, "running")
        else:
            self._leave(book, lambda: rounds.move(book, word))  # type: ignore[arg-type]
        return self._done()

    @in_turn
    def free(self, what: Iterable[str], now: int) -> tuple[Action, ...]:
        """Report that something is free; the groups of pods that lack it are retried now.

        :param what: in the names of ``lacks`` in `fail_pod`.
        """
        freed = _names(what, "what")
        rounds = self._at(now)
        rounds.wake(freed, True)
        rounds.settle()
        return self._done()

    @in_turn
    def retry(self, gang: str, now: int) -> tuple[Action, ...]:
        """Try the idle pods of a gang's group now instead of at the planned time."""
        group = self._gang(gang).group
        rounds = self._at(now)
        for pod in [pod for _, pod in sorted(group.idle.items())]:
            rounds.call_off(pod)
            if rounds.starts_alone(pod):
                rounds.try_pod(pod, "it is tried again")
        if not group.open:
            rounds.timers.clear(group)
        self._look_again(group)
        return self._done()

    @in_turn
    def advance(self, now: int) -> tuple[Action, ...]:
        """Do what is due: end waits that are too long, and start delayed tries.

        The earliest comes first; at equal times waits before tries, then older ones.
        """
        rounds = self._at(now)
        order = sorted(
            rounds.timers.due(rounds.now),
            key=lambda due: (due.time, isinstance(due, GroupBook), due.number),
        )
        for due in order:
            if not 0 <= due.time <= rounds.now:
                continue  # cancelled by an earlier step
            if isinstance(due, GroupBook):
                rounds.timers.clear(due)
                self._look_again(due)
            elif due.state == "waiting":
                self._expire(due)
            else:
                rounds.call_off(due)
                if rounds.starts_alone(due):
                    rounds.try_pod(due, "it is tried again")
                self._look_again(due.gang.group)
        return self._done()

    def _at(self, now: int) -> Rounds:
        """Return the rounds at this time."""
        rounds = self._rounds
        if type(now) is not int or not rounds.now <= now <= _LATEST:
            now = as_int(now, "now", rounds.now, _LATEST)
        rounds.now = now
        return rounds

    def _in(self, pod: str, states: Container[str | None], what: str) -> PodBook:
        book = self._known(pod)
        if book.state not in states:
            raise GangError(f"pod {pod!r} is {book.state}: it {what}")
        return book

    def _was_doomed(self, book: PodBook) -> bool:
        """Whether its group failed while it was tried and it depends on the group; resets that."""
        doomed, book.doomed = book.doomed, False
        return doomed and not self._rounds.starts_alone(book)

    def _back(self, book: PodBook) -> None:
        """Make a pod that is not placed pending, lacking nothing."""
        self._rounds.call_off(book)
        if book.state != "pending":
            self._rounds.move(book, "pending")
        book.lacks = ()

    def _leave(self, book: PodBook, move: Callable[[], None], keeps: bool = False) -> None:
        """Take a pod out of its state; it gives up what it holds unless it keeps it."""
        rounds = self._rounds
        group = book.gang.group
        if group.trying is book:
            group.trying = None
        rounds.call_off(book)
        had_node = book.state in BOUND
        move()
        book.doomed, book.lacks = False, ()
        if not keeps:
            freed, book.holds = book.holds, ()
            if freed:
                rounds.settle()
                rounds.wake(freed, had_node)
        self._look_again(group)

    def _look_again(self, group: GroupBook) -> None:
        """Continue a group's round, or start one if there is a pod to try."""
        rounds = self._rounds
        rounds.settle()
        if group.members and (group.open or len(group.idle) > group.alone):
            rounds.go_on(group)
            if not group.open and len(group.idle) > group.alone:
                rounds.collected[group] = None
            rounds.settle()

    def _expire(self, book: PodBook) -> None:
        rounds = self._rounds
        gang, group = book.gang, book.gang.group
        assert gang.spec is not None
        reason = f"pod {book.name!r} has waited for {gang.spec.wait_time}"
        if gang.spec.mode != "strict" or rounds.starts_alone(book):
            rounds.reject([book], group, reason)
        rounds.lose(book, reason)
        self._look_again(group)

    def _done(self) -> tuple[Action, ...]:
        rounds = self._rounds
        actions, rounds.actions = tuple(rounds.actions), []
        return actions


def _names(given: Iterable[str], name: str) -> tuple[str, ...]:
    """Return texts without repetition."""
    if type(given) is tuple and (not given or (len(given) == 1 and type(given[0]) is str)):
        return given
    return tuple(dict.fromkeys([as_text(text, name) for text in as_tuple(given, name)]))
