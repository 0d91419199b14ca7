"""Whether the devices of a claim are ready for the pods that wait for them.

Some devices are prepared only once a claim has them, such as those that are attached to a node over
a network. They name conditions, which their driver reports in ``status.devices`` of the claim: all
binding conditions must be true before a pod is bound. A failure condition that is true, or too long
a wait, means that the claim needs other devices.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hivecore.interop.kubernetes.messages import show

__all__ = ["MOST_SECONDS", "Unready", "timed", "unready"]

MOST_SECONDS = 600.0  # as kube-scheduler
_OF_SHARE = "driver", "pool", "device", "shareID"


class Unready(NamedTuple):
    """Why a pod cannot be bound yet.

    :param is_over: whether waiting is of no use.
    """

    reason: str
    is_over: bool


def timed(allocation: Mapping[str, Any], now: float) -> Mapping[str, Any]:
    """The allocation with its time, if it has devices that must become ready.

    :param now: in seconds since 1970.
    """
    if not any(result.get("bindingConditions") for result in allocation["devices"]["results"]):
        return allocation
    time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**allocation, "allocationTimestamp": time}


def unready(claim: Mapping[str, Any], now: float) -> Unready | None:
    """Why the devices of a claim are not ready; ``None`` if they are.

    :param claim: as the API server has it.
    :param now: in seconds since 1970.
    """
    status = claim.get("status") or {}
    allocation = status.get("allocation") or {}
    said = {_key(entry): entry.get("conditions") or () for entry in status.get("devices") or ()}
    waits = ""
    for result in (allocation.get("devices") or {}).get("results") or ():
        wanted = result.get("bindingConditions") or ()
        reported = said.get(_key(result), ()) if wanted else ()
        true = {entry.get("type") for entry in reported if entry.get("status") == "True"}
        device = show("/".join(_key(result)[:3]))
        for condition in result.get("bindingFailureConditions") or ():
            if condition in true:
                return Unready(f"the device {device} reports {show(condition)}", True)
        for condition in wanted:
            if condition not in true:
                waits = waits or f"the device {device} does not report {show(condition)} yet"
    if not waits:
        return None
    return Unready(waits, now > _time_of(allocation, now) + MOST_SECONDS)


def _key(device: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(str(device.get(key) or "") for key in _OF_SHARE),)


def _time_of(allocation: Mapping[str, Any], unknown: float) -> float:
    try:
        return datetime.fromisoformat(allocation["allocationTimestamp"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return unknown
