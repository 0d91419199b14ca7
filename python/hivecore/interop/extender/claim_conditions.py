"""Whether the devices of a claim are ready for the pods that wait for them.

Some devices are prepared only once a claim has them, such as those that are attached to a node over
a network. They name conditions, which their driver reports in ``status.devices`` of the claim: all
binding conditions must be true before a pod is bound. A failure condition that is true, or too long
a wait, means that the claim needs other devices.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from hivecore.interop.extender.claims import results_of, share_of
from hivecore.interop.kubernetes.client.pod_events import now
from hivecore.interop.kubernetes.messages import show

__all__ = ["MOST_SECONDS", "Unready", "timed", "unready"]

MOST_SECONDS = 600.0  # as kube-scheduler


class Unready(NamedTuple):
    """Why a pod cannot be bound yet.

    :param is_over: whether waiting is of no use.
    """

    reason: str
    is_over: bool


def timed(allocation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The allocation with the present time, if it has devices that must become ready."""
    if not any(result.get("bindingConditions") for result in results_of(allocation)):
        return allocation
    return {**allocation, "allocationTimestamp": now()}


def unready(claim: Mapping[str, Any], seconds: float) -> Unready | None:
    """Why the devices of a claim are not ready; ``None`` if they are.

    :param claim: as the API server has it.
    :param seconds: the present time, since 1970.
    """
    status = claim.get("status") or {}
    allocation = status.get("allocation") or {}
    said = {share_of(entry): entry.get("conditions") or () for entry in status.get("devices") or ()}
    waits = ""
    for result in results_of(allocation):
        wanted = result.get("bindingConditions") or ()
        reported = said.get(share_of(result), ()) if wanted else ()
        true = {entry.get("type") for entry in reported if entry.get("status") == "True"}
        device = show("/".join(share_of(result)[:3]))
        for condition in result.get("bindingFailureConditions") or ():
            if condition in true:
                return Unready(f"the device {device} reports {show(condition)}", True)
        for condition in wanted:
            if condition not in true:
                waits = waits or f"the device {device} does not report {show(condition)} yet"
    if not waits:
        return None
    return Unready(waits, seconds > _time_of(allocation, seconds) + MOST_SECONDS)


def _time_of(allocation: Mapping[str, Any], unknown: float) -> float:
    try:
        return datetime.fromisoformat(allocation["allocationTimestamp"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return unknown
