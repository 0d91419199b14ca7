"""What a scheduler is told, as records, and as plain data in the fields of the decision log."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hivecore._arguments import (
    as_amounts,
    as_bool,
    as_choice,
    as_dict,
    as_float,
    as_mapping,
    as_name,
    as_positive,
    as_text,
    as_tuple,
)
from hivecore._record import Record
from hivecore.cells import ClusterSpec
from hivecore.scheduler.actions import Move
from hivecore.scheduler.orders.ordering import as_order
from hivecore.scheduler.plain import (
    action_of_plain,
    inventory_of_plain,
    job_of_plain,
    quota_of_plain,
    spec_of_plain,
)
from hivecore.scheduler.stages.storage import Observed

if TYPE_CHECKING:
    from hivecore.scheduler.scheduler import Scheduler

__all__ = ["SchedulerEvent", "event_of_plain"]

_LATEST = 2.0**40


def _name(value: Any) -> str:
    return as_name(value, "job")


def _pod(value: Any) -> str | None:
    return None if value is None else as_text(value, "pod")


def _moves(value: Any) -> tuple[Move, ...]:
    found = []
    for one in as_tuple(value, "moves"):
        action = action_of_plain(one)
        if not isinstance(action, Move):
            raise ValueError(f"moves: {one['action']!r} is none")
        found.append(action)
    return tuple(found)


def _spec(value: Any) -> ClusterSpec:
    try:
        return spec_of_plain(as_mapping(value, "spec"))
    except KeyError as error:
        raise ValueError(f"spec: {error.args[0]}") from None


def _amounts(field: str) -> Callable[[Any], dict[str, float]]:
    def read(value: Any) -> dict[str, float]:
        given = as_mapping(value, field)
        return {as_name(name, field): as_float(given[name], field) for name in given}

    return read


_OF_NODE: dict[str, Callable[[Any], Any]] = {"node": lambda value: as_name(value, "node")}
_OF_JOB: dict[str, Callable[[Any], Any]] = {"job": _name}
#: By event what it needs besides the time, and how that is read.
_FIELDS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "submit": {"job": lambda value: job_of_plain(as_mapping(value, "job"))},
    "finish": _OF_JOB,
    "cancel": _OF_JOB,
    "fail": {**_OF_JOB, "pod": _pod},
    "stopped": _OF_JOB,
    "move": {"moves": _moves},
    "set_node": {**_OF_NODE, "healthy": lambda value: as_bool(value, "healthy")},
    "add_node": {
        **_OF_NODE,
        "labels": lambda value: dict(as_dict(value, "labels")),
        "free": lambda value: dict(as_amounts(value, "free", 0, 2**62)),
        "inventory": lambda value: inventory_of_plain(as_mapping(value, "inventory")),
    },
    "remove_node": _OF_NODE,
    "set_quota": {"quota": lambda value: quota_of_plain(as_mapping(value, "quota"))},
    "set_total": {
        "total": lambda value: dict(as_amounts(value, "total", 0, 2**62)),
        "tree": lambda value: as_text(value, "tree"),
        "carved": lambda value: as_bool(value, "carved"),
    },
    "reconfigure": {"spec": _spec},
    "regroup": {"seconds": lambda value: as_positive(value, "seconds", _LATEST)},
    "reorder": {"order": lambda value: tuple(as_order(value))},
    "observe": {field: _amounts(field) for field in Observed._fields},
    "advance": {},
}
_EVENTS = tuple(_FIELDS)
_OPTIONAL = {"pod", "labels", "free", "inventory", "tree", "carved", *Observed._fields}


class SchedulerEvent(Record, frozen=True):
    """Something that has happened.

    :param name: the method of `Scheduler` that takes it.
    :param now: when, in seconds; ``None``: it is not told.
    :param arguments: what else that method takes, with names.
    """

    name: str
    now: float | None
    arguments: tuple[tuple[str, Any], ...]

    def tell(self, scheduler: "Scheduler", now: float) -> None:
        """Tell a scheduler that it has happened.

        :param now: when, if the event does not say it itself.
        :raises KeyError: as of the method. So are ValueError, TypeError and StaleDecisionError.

        >>> from hivecore.scheduler import Scheduler, event_of_plain
        >>> scheduler = Scheduler()
        >>> event_of_plain({"event": "advance", "now": 5}).tell(scheduler, now=0.0)
        >>> scheduler.now
        5.0
        """
        moment = now if self.now is None else self.now
        getattr(scheduler, self.name)(**dict(self.arguments), now=moment)


def event_of_plain(data: Mapping[str, Any]) -> SchedulerEvent:
    """The event of plain data, in the fields of the decision log.

    :raises ValueError: something is missing, unknown or out of range.
    :raises TypeError: something is of a wrong type.

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
        now = as_float(now, "now")
        if not 0.0 <= now <= _LATEST:
            raise ValueError(f"now={now!r}: allowed are 0 to 2**40 seconds")
    arguments = []
    for field, read in _FIELDS[name].items():
        if field in given:
            arguments.append((field, read(given.pop(field))))
        elif field not in _OPTIONAL:
            raise ValueError(f"{name}: {field!r} is missing")
    if given:
        raise ValueError(f"{name}: there is no field {next(iter(given))!r}")
    return SchedulerEvent(name, now, tuple(arguments))
