"""Reads the events in request bodies, which are not trusted.

Sizes are checked before objects are built: nesting, lengths of texts, the number of events, pods of
a job, and GPUs in cells.
"""

from typing import Any

from hivecore.cells import ClusterSpec
from hivecore.interop.kubernetes.calls import BadCall, parsed
from hivecore.scheduler import Job, SchedulerEvent, event_of_plain

__all__ = ["events_of", "message_of"]

_MOST_EVENTS = 10_000
_MOST_PODS = 65_536  # of a job
_MOST_GPUS = 2**20  # of cells
_MOST_RESOURCES = 64  # of a node
_DEEPEST = 16
_LONGEST_TEXT = 1000  # characters
_LONGEST_MESSAGE = 500


def events_of(body: bytes) -> tuple[list[SchedulerEvent], bool]:
    """Return the events in a body (an error in place of an invalid one), and whether it is a list.

    :raises BadCall: the body is malformed.

    >>> from hivecore.interop.events.bodies import events_of
    >>> events, is_list = events_of(b'{"event": "finish", "job": "train"}')
    >>> events[0].name, is_list
    ('finish', False)
    """
    data = parsed(body)
    _check_bounds(data)
    if not isinstance(data, list):
        return [_event(data, "")], False
    if len(data) > _MOST_EVENTS:
        raise BadCall(413, f"{len(data)} events: at most {_MOST_EVENTS} are taken at once")
    return [_event(entry, f"event {index}: ") for index, entry in enumerate(data)], True


def message_of(error: Exception) -> str:
    """Return an error's message, shortened where it repeats the body."""
    said = str(error.args[0] if error.args else error)
    return said if len(said) <= _LONGEST_MESSAGE else f"{said[:_LONGEST_MESSAGE]}..."


def _check_bounds(data: Any) -> None:
    level, depth = [data], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise BadCall(400, f"the body is nested deeper than {_DEEPEST} levels")
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                _check_text(value)
            elif isinstance(value, list):
                below += value
            elif isinstance(value, dict):
                below += value.keys()
                below += value.values()
        level = below


def _check_text(text: str) -> None:
    if len(text) > _LONGEST_TEXT:
        raise BadCall(400, f"a text of the body has more than {_LONGEST_TEXT} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadCall(400, "a text of the body has half a character of UTF-16") from None


def _event(data: Any, where: str) -> SchedulerEvent:
    try:
        event = event_of_plain(data)
    except (TypeError, ValueError) as error:
        raise BadCall(400, where + message_of(error)) from None
    for name, value in event.arguments:
        if isinstance(value, Job) and sum(role.pods for role in value.roles) > _MOST_PODS:
            raise BadCall(400, f"{where}job: more than {_MOST_PODS} pods")
        if isinstance(value, ClusterSpec) and _gpus(value) > _MOST_GPUS:
            raise BadCall(400, f"{where}spec: more than {_MOST_GPUS} GPUs")
        if name == "free" and len(value) > _MOST_RESOURCES:
            raise BadCall(400, f"{where}free: more than {_MOST_RESOURCES} resources")
    return event


def _gpus(spec: ClusterSpec) -> int:
    return sum(chain.leaves for chain in spec.chains.values())
