"""The state of a quota."""

from collections.abc import Mapping
from dataclasses import dataclass

from hivecore._thousandths import Amount, exact

__all__ = ["QuotaRow"]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The state of a quota, or of a whole tree.

    :param name: of the quota, or "total", or "total of" a tree.
    :param depth: 0 for a tree, 1 for a quota at the top, and so on.
    :param request: resource -> the requested amount.
    :param min: what it is entitled to at present.
    :param runtime: what it may use now.
    :param used: what it uses.
    :param max: its maximum; of a tree, what its quotas divide.
    """

    name: str
    depth: int
    request: Mapping[str, Amount]
    min: Mapping[str, Amount]
    runtime: Mapping[str, Amount]
    used: Mapping[str, Amount]
    max: Mapping[str, Amount]

    def over(self) -> dict[str, Amount]:
        """Return how much more is used than allowed, by resource, without zeros."""
        may = self.runtime
        pairs = ((each, exact(amount - may.get(each, 0))) for each, amount in self.used.items())
        return {resource: more for resource, more in pairs if more > 0}
