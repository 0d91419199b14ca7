"""How a quota stands."""

from collections.abc import Mapping
from dataclasses import dataclass

from hivecore._thousandths import Amount, exact

__all__ = ["QuotaRow"]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """How a quota stands, or all of a tree.

    :param name: of the quota, or "total", or "total of" a tree.
    :param depth: 0: all of a tree; 1: a quota at the top, and so on.
    :param request: what is asked for, by resource.
    :param min: what it is entitled to, as it is in effect.
    :param runtime: what it may use now.
    :param used: what it uses.
    :param max: the most that it may use; of a tree, what it has for the quotas in it.
    """

    name: str
    depth: int
    request: Mapping[str, Amount]
    min: Mapping[str, Amount]
    runtime: Mapping[str, Amount]
    used: Mapping[str, Amount]
    max: Mapping[str, Amount]

    def over(self) -> dict[str, Amount]:
        """How much more is used than may be, by resource; what is not above is left out."""
        may = self.runtime
        pairs = ((each, exact(amount - may.get(each, 0))) for each, amount in self.used.items())
        return {resource: more for resource, more in pairs if more > 0}
