"""How a quota stands."""

from hivecore._record import Record
from hivecore.quotas._amounts import Amount

__all__ = ["QuotaStatus"]


class QuotaStatus(Record, frozen=True):
    """What is asked for and used in a quota and below it, each by the quota's dimensions.

    :param name: the quota.
    :param request: of its owners, and of the quotas below it, as far as these may ask; the minimum
        at least if it does not lend.
    :param limited_request: of that as much as counts at its parent: its maximum at most, or what it
        uses, if that is more since the maximum was lowered.
    :param used: of owners that run.
    :param non_preemptible: of these, of owners that cannot be preempted.
    :param min: its minimum, scaled down where it and those beside it add up to more than their
        parent can ever have, whatever is asked for now.
    :param runtime: what it may use now.
    """

    name: str
    request: dict[str, Amount]
    limited_request: dict[str, Amount]
    used: dict[str, Amount]
    non_preemptible: dict[str, Amount]
    min: dict[str, Amount]
    runtime: dict[str, Amount]
