"""The status of a quota."""

from hivecore._record import Record
from hivecore.quotas._amounts import Amount

__all__ = ["QuotaStatus"]


class QuotaStatus(Record, frozen=True):
    """The requests and the usage of a quota with the quotas below it, by its dimensions.

    :param name: the quota.
    :param request: the requests of its owners, and the limited requests of the quotas below it; at
        least its minimum if it does not lend.
    :param limited_request: the part of the request that counts at its parent: at most its maximum,
        or its usage, if that is more since the maximum was lowered.
    :param used: the amounts of running owners.
    :param non_preemptible: the part of these that belongs to owners that are not preemptible.
    :param min: its minimum, scaled down where it and those of its siblings add up to more than
        their parent can ever have, whatever the requests are now.
    :param runtime: the amounts that it may use now.
    """

    name: str
    request: dict[str, Amount]
    limited_request: dict[str, Amount]
    used: dict[str, Amount]
    non_preemptible: dict[str, Amount]
    min: dict[str, Amount]
    runtime: dict[str, Amount]
