"""The status of a quota."""

from hivecore._record import Record
from hivecore.quotas._amounts import Amount

__all__ = ["QuotaStatus"]


class QuotaStatus(Record, frozen=True):
    """Requests and usage of a quota together with the quotas below it, by dimension.

    :param name: the quota.
    :param request: the requests of its owners, and the limited requests of the quotas below; at
        least its minimum if it does not lend.
    :param limited_request: the part of the request that counts at its parent: at most the maximum,
        or the usage, if the maximum was lowered below it.
    :param used: what running owners use.
    :param non_preemptible: the part of ``used`` by owners that are not preemptible.
    :param min: its minimum, scaled down where the minimums of siblings add up to more than their
        parent can ever have.
    :param runtime: how much it may use now.
    """

    name: str
    request: dict[str, Amount]
    limited_request: dict[str, Amount]
    used: dict[str, Amount]
    non_preemptible: dict[str, Amount]
    min: dict[str, Amount]
    runtime: dict[str, Amount]
