"""Which owners are evicted because their quota has used more than its runtime for too long."""

from typing import Self

from hivecore._arguments import as_instance, as_int
from hivecore._stateful import Branching, counted, shown
from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["OveruseMonitor"]


class OveruseMonitor(Branching):
    """Evicts from quotas that use more than their runtime for longer than a delay.

    :param delay: how long a quota may use too much without a break, in the caller's unit of time.
    :raises ValueError: ``delay`` is below 0.
    :raises TypeError: ``delay`` is no integer.

    The clock of a quota starts at the last call of ``observe`` that saw it within its runtime, or
    at the first call that saw it at all; so a late call does not give a quota more time. One thread
    at a time may use it. Source: Koordinator's over-use revoke, which ignores some dimensions; here
    all of them count.

    >>> from hivecore.quotas import OveruseMonitor, Quota, QuotaRequest, QuotaTree
    >>> tree = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    >>> tree.commit(tree.schedule(QuotaRequest("train", "a", {"gpu": 8})))
    >>> tree.set_total({"gpu": 4})
    >>> monitor = OveruseMonitor(delay=120)
    >>> monitor.observe(tree, 0), monitor.observe(tree, 121)
    ({}, {'a': ('train',)})
    """

    def __init__(self, delay: int) -> None:
        self._delay = as_int(delay, "delay", 0, 2**62)
        self._since: dict[str, int] = {}
        """By quota, when its clock started."""
        self._last = 0

    def __repr__(self) -> str:
        watched = counted(len(self._since), "quota", unless_none=True)
        return shown(self, f"delay={self._delay}", watched)

    def copy(self) -> Self:
        """An independent copy."""
        branch = type(self)(self._delay)
        branch._since, branch._last = dict(self._since), self._last
        return branch

    def observe(self, tree: QuotaTree, now: int) -> dict[str, tuple[str, ...]]:
        """The owners to evict now, by quota.

        A quota is due if it uses more than its runtime and its clock started more than ``delay``
        ago. Its clock starts again then, and the result holds its ``QuotaTree.overusers``, if it
        has any. Cost: O(quotas).

        :param now: 0 to 2**62, not before the last call.
        :raises ValueError: time goes back.
        :raises TypeError: an argument is of a wrong type.
        """
        as_instance(tree, "tree", QuotaTree)
        moment = as_int(now, "now", self._last, 2**62)
        over = tree.overused()
        self._last = moment
        since = dict.fromkeys(tree.quotas, moment)
        since.update((name, self._since.get(name, moment)) for name in over)
        self._since = since
        due = {}
        for name in over:
            if moment - self._since[name] > self._delay:
                self._since[name] = moment
                if victims := tree.overusers(name):
                    due[name] = victims
        return due
