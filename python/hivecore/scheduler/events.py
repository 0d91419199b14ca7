"""Events as records, and as plain data with the fields of the decision log."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hivecore._arguments import (
    LONGEST,
    as_bool,
    as_choice,
    as_dict,
    as_float,
    as_mapping,
    as_name,
    as_text,
    as_tuple,
)
from hivecore._record import Check, Record, between, check_of, positive
from hivecore._thousandths import Amount, as_fractions
from hivecore.cells import ClusterSpec
from hivecore.devices import NodeDevices
from hivecore.quotas import Quota
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.job import Job
from hivecore.scheduler.moves.fragments import Fragments
from hivecore.scheduler.orders.ordering import as_order
from hivecore.scheduler.plain import fields_of_plain, record_of_plain
from hivecore.scheduler.stages.storage import Observed

if TYPE_CHECKING:
    from hivecore.scheduler.scheduler import Scheduler

__all__ = ["SchedulerEvent", "event_of_plain"]


def _records(kind: type[Any], value: Any, name: str) -> tuple[Any, ...]:
    rows = enumerate(as_tuple(value, name))
    return tuple([record_of_plain(kind, row, f"{name}[{i}]") for i, row in rows])


def _spec(value: Any, name: str) -> ClusterSpec:
    try:
        return record_of_plain(ClusterSpec, value, name)
    except KeyError as error:
        raise ValueError(f"{name}: {error.args[0]}") from None


def _amounts(value: Any, name: str) -> dict[str, Amount]:
    return dict(as_fractions(value, name, 0, 2**62))


def _floats(value: Any, name: str) -> dict[str, float]:
    given = as_mapping(value, name)
    return {as_name(key, name): as_float(number, name) for key, number in given.items()}


def _documents(value: Any, name: str) -> tuple[Mapping[str, Any], ...]:
    rows = enumerate(as_tuple(value, name))
    return tuple([as_mapping(row, f"{name}[{i}]") for i, row in rows])


def _names(value: Any, name: str) -> tuple[str, ...]:
    return tuple([as_name(item, f"{name}[{i}]") for i, item in enumerate(as_tuple(value, name))])


def _pairs(value: Any, name: str) -> tuple[tuple[str, ...], ...]:
    rows = enumerate(as_tuple(value, name))
    pairs = tuple([_names(pair, f"{name}[{i}]") for i, pair in rows])
    for i, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"{name}[{i}]: must be the kind and the name of an object")
    return pairs


def _changes(value: Any, name: str) -> dict[str, Any]:
    return fields_of_plain(Job, as_mapping(value, name), name)


_OF_JOB: dict[str, Check] = {"job": as_name}
#: For each event, its fields without the time, and how to read them.
_FIELDS: dict[str, dict[str, Check]] = {
    "submit": {"job": partial(record_of_plain, Job)},
    "finish": _OF_JOB,
    "cancel": _OF_JOB,
    "fail": {**_OF_JOB, "pod": check_of(str | None)},
    "amend": {**_OF_JOB, "changes": _changes},
    "adopt": {
        "job": partial(record_of_plain, Job),
        "pods": partial(_records, PlacedPod),
        "since": as_float,
    },
    "stopped": {**_OF_JOB, "pod": check_of(str | None)},
    "move": {"moves": partial(_records, Move)},
    "set_node": {"node": as_name, "healthy": as_bool},
    "drain": {"node": as_name, "by": as_float},
    "add_node": {
        "node": as_name,
        "labels": lambda value, name: dict(as_dict(value, name)),
        "free": _amounts,
        "inventory": partial(record_of_plain, NodeDevices),
    },
    "remove_node": {"node": as_name},
    "set_quota": {"quota": partial(record_of_plain, Quota)},
    "set_total": {"total": _amounts, "tree": as_text, "carved": as_bool},
    "set_eviction_limits": {"limits": partial(_records, EvictionLimit)},
    "reconfigure": {"spec": _spec},
    "update_claims": {"objects": _documents, "remove": _pairs, "release": _names},
    "regroup": {"seconds": positive(LONGEST)},
    "defragment": {
        "goal": partial(record_of_plain, Fragments),
        "seconds": positive(LONGEST),
        "restart_cost": as_float,
        "saves": as_bool,
        "most_moves": check_of(int),
        "most_gpu_seconds": check_of(float | None),
    },
    "reorder": {"order": lambda value, name: tuple(as_order(value))},
    "observe": dict.fromkeys(Observed._fields, _floats),
    "advance": {},
}
_EVENTS = tuple(_FIELDS)
_OPTIONAL = {"pod", "since", "labels", "free", "inventory", "tree", "carved", *Observed._fields}
_OPTIONAL |= {"by", "objects", "remove", "release"}
_OPTIONAL |= {"restart_cost", "saves", "most_moves", "most_gpu_seconds"}


class SchedulerEvent(Record, frozen=True):
    """An event for a scheduler.

    :param name: the method of `Scheduler` that takes the event.
    :param now: the time in seconds; ``None``: not given.
    :param arguments: the other arguments of the method, with names.
    """

    name: str
    now: float | None
    arguments: tuple[tuple[str, Any], ...]

    def tell(self, scheduler: "Scheduler", now: float) -> None:
        """Pass the event to a scheduler.

        :param now: the time, if the event has none.
        :raises KeyError, ValueError, TypeError, StaleDecisionError: as the method of `Scheduler`
            that takes the event.

        >>> from hivecore.scheduler import Scheduler, event_of_plain
        >>> scheduler = Scheduler()
        >>> event_of_plain({"event": "advance", "now": 5}).tell(scheduler, now=0.0)
        >>> scheduler.now
        5.0
        """
        moment = now if self.now is None else self.now
        getattr(scheduler, self.name)(**dict(self.arguments), now=moment)


def event_of_plain(data: Mapping[str, Any]) -> SchedulerEvent:
    """Read an event from plain data with the fields of the decision log.

    :raises ValueError: a field is missing, unknown or out of range.
    :raises TypeError: a field is of a wrong type.

    >>> from hivecore.scheduler import event_of_plain
    >>> event_of_plain({"event": "finish", "now": 5.0, "job": "train"})
    SchedulerEvent(name='finish', now=5.0, arguments=(('job', 'train'),))
    """
    given = dict(as_mapping(data, "event"))
    if "event" not in given:
        raise ValueError("event: 'event' is missing")
    name = as_choice(given.pop("event"), "event", _EVENTS)
    now = given.pop("now", None)
    if now is not None:
        now = between(0.0, LONGEST)(now, "now")
    arguments: list[tuple[str, Any]] = []
    for field, check in _FIELDS[name].items():
        if field in given:
            value = check(given.pop(field), field)
            arguments += value.items() if field == "changes" else [(field, value)]
        elif field not in _OPTIONAL:
            raise ValueError(f"{name}: {field!r} is missing")
    if given:
        raise ValueError(f"{name}: there is no field {next(iter(given))!r}")
    return SchedulerEvent(name, now, tuple(arguments))
