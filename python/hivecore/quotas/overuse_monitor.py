"""Which owners have to leave because a quota has used more than its runtime for long."""

from typing import Self

from hivecore._arguments import as_instance, as_int
from hivecore._stateful import Branching, counted, shown
from hivecore.quotas.quota_tree import QuotaTree

__all__ = ["OveruseMonitor"]


class OveruseMonitor(Branching):
    """Watches which quotas use more than their runtime, by the caller's clock.

    :param delay: how long a quota may do so without a break, in the caller's unit of time.

    The clock of a quota starts at the last look at which the quota did not use too much, as
    Koordinator's does; of a quota that is new to the monitor at the first look. So a look that
    comes late does not give a quota more time.

    :raises ValueError: the delay is below 0.
    :raises TypeError: it is no integer.

    It may be used by one thread at a time. Source: Koordinator's over-use revoke, which forgets
    dimensions; here all of them count.

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
        """An independent equal."""
        made = type(self)(self._delay)
        made._since, made._last = dict(self._since), self._last
        return made

    def observe(self, tree: QuotaTree, now: int) -> dict[str, tuple[str, ...]]:
        """The owners that have to leave now, by quota.

        A quota is due if it uses more than its runtime and its clock started more than ``delay``
        ago; then its clock starts again, and ``QuotaTree.overusers`` says which owners leave. A
        quota without such owners is left out. Cost: O(quotas).

        :param now: 0 to 2**62, not before the last time.
        :raises ValueError: time goes back.
        :raises TypeError: ``tree`` is none, or ``now`` is no integer.
        """
        as_instance(tree, "tree", QuotaTree)
        moment = as_int(now, "now", self._last, 2**62)
        over = tree.overused()
        self._last = moment
        since = dict.fromkeys(tree.quotas, moment)
        since.update((name, self._since.get(name, moment)) for name in over)
        self._since = since
        found = {}
        for name in over:
            if moment - self._since[name] > self._delay:
                self._since[name] = moment
                if victims := tree.overusers(name):
                    found[name] = victims
        return found
