"""A scheduler's state as bytes: those of its parts, and its jobs as JSON."""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from hivecore.decisions import Refusal
from hivecore.errors import CorruptStateError
from hivecore.queues import Departure
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.lifecycle.kinds import Kinds
from hivecore.scheduler.lifecycle.live import Live
from hivecore.scheduler.lifecycle.units import Pod, Unit
from hivecore.scheduler.plain import job_of_plain, plain_job

__all__ = ["joined", "live_of_plain", "plain_live", "split"]

_LENGTH = struct.Struct("<Q")
_TEXTS = "stage", "code", "reason", "part"


def joined(pieces: Iterable[bytes]) -> bytes:
    """Pieces of any length, one after the other."""
    return b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def split(data: bytes) -> list[bytes]:
    """The pieces."""
    found, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if at > len(data):
            raise CorruptStateError("data: a part is cut off")
        found.append(data[at - length : at])
    return found


def plain_live(live: Live) -> dict[str, Any]:
    """A job, and what has become of it."""
    return {
        "job": plain_job(live.job),
        "state": live.state,
        "since": live.since,
        "told": None if live.told is None else [getattr(live.told, name) for name in _TEXTS],
        "victims": live.victims,
        "stops": [live.for_job, live.has_stopped, live.is_ending],
        "units": [_plain_unit(unit) for unit in live.units],
        "lent": None if live.lent is None else _plain_unit(live.lent),
    }


def _plain_unit(unit: Unit) -> list[Any]:
    departure = unit.departure
    return [
        unit.name,
        unit.kind.number,
        unit.kind.is_alone,
        unit.pods,
        None if departure is None else departure[1:],
        unit.is_placed,
        [[pod.role, pod.index, pod.node, dict(pod.minors)] for pod in unit.placed],
    ]


def live_of_plain(data: Mapping[str, Any], kinds: Kinds, queued_job: Any) -> Live:
    """The job of plain data.

    :param queued_job: what a unit of a job is in its queue.
    """
    job = job_of_plain(data["job"])

    def unit_of(one: list[Any], is_lent: bool) -> Unit:
        name, number, is_alone, pods, departure, is_placed, placed = one
        is_first = is_lent or name == job.name
        role = None if is_first else next(one for one in job.roles if one.name == pods[0][0])
        if is_lent:
            kind = kinds.restored_lent(int(number), live.units[0].kind)
        else:
            kind = kinds.restored(int(number), bool(is_alone), job, role)
        unit = Unit(name, job.name, kind, tuple(Pod(*pod) for pod in pods))
        if departure is not None:
            unit.departure = Departure(queued_job(unit, job), *departure)
        unit.is_placed = bool(is_placed)
        unit.placed = tuple(
            PlacedPod(role_name, index, node, tuple((k, tuple(v)) for k, v in minors.items()))
            for role_name, index, node, minors in placed
        )
        return unit

    live = Live(job, [unit_of(one, False) for one in data["units"]])
    if data["lent"] is not None:
        live.lent = unit_of(data["lent"], True)
        live.units[0].has_quota = live.lent.is_placed
    live.state, live.since = str(data["state"]), float(data["since"])
    live.told = None if data["told"] is None else Refusal(*data["told"])
    live.victims = tuple(data["victims"])
    live.for_job, live.has_stopped, live.is_ending = data["stops"]
    return live
