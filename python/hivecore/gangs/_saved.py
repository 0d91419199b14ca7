"""The state of all groups as records, without what follows from them."""

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any

from msgspec import Meta, convert

from hivecore._record import Record
from hivecore.gangs._records import GangBook, PodBook
from hivecore.gangs._rounds import Rounds
from hivecore.gangs._states import IDLE
from hivecore.gangs.action import PodState
from hivecore.gangs.gang_spec import GangSpec

__all__ = ["plain", "rebuilt"]

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Number = Annotated[int, Meta(ge=1, le=2**62)]
_Time = Annotated[int, Meta(ge=-1, le=2**62)]
_Text = Annotated[str, Meta(min_length=1)]


class _Settings(Record, frozen=True, array_like=True):
    backoff: _Number
    max_backoff: _Number
    resolve: bool


class _Gang(Record, frozen=True, array_like=True):
    name: _Text
    source: str
    spec: GangSpec | None


class _Group(Record, frozen=True, array_like=True):
    names: tuple[_Text, ...]
    number: _Number
    once: bool
    members_bound: _Time
    open: bool
    queue: list[int]
    trying: int | None
    failure: str
    failures: _Count
    time: _Time


class _Pod(Record, frozen=True, array_like=True):
    name: _Text
    gang: str
    role: str
    number: _Number
    state: PodState
    holds: tuple[str, ...]
    lacks: tuple[str, ...]
    time: _Time
    failures: _Count
    doomed: bool


class _State(Record, frozen=True):
    settings: _Settings
    now: _Count
    numbered: _Count
    gangs: list[_Gang]
    groups: list[_Group]
    pods: list[_Pod]


def _fields(kind: type[Record], **other: str) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads a record's fields from a book, where some names differ."""
    return attrgetter(*[other.get(name, name) for name in kind.__struct_fields__])


_of_settings, _of_gang, _of_group = _fields(_Settings), _fields(_Gang), _fields(_Group)
_of_pod = _fields(_Pod, gang="gang.name")


def plain(rounds: Rounds) -> dict[str, Any]:
    """Return settings, gangs by name, and groups and pods by number, each as a row of fields."""
    groups = []
    for group in sorted(rounds.groups.values(), key=lambda group: group.number):
        names, number, once, members_bound, is_open, queue, trying, *rest = _of_group(group)
        queued = [pod.number for pod in queue if pod.queued]
        tried = trying and trying.number
        groups.append((names, number, once, members_bound, is_open, queued, tried, *rest))
    return {
        "settings": _of_settings(rounds),
        "now": rounds.now,
        "numbered": rounds.numbered,
        "gangs": [_of_gang(gang) for _, gang in sorted(rounds.gangs.items())],
        "groups": groups,
        "pods": [_of_pod(pod) for pod in rounds.pods.values()],
    }


def rebuilt(state: dict[str, Any]) -> Rounds:
    """The groups from such data; ValueError if it is damaged."""
    saved = convert(state, _State)
    settings = saved.settings
    if settings.max_backoff < settings.backoff:
        raise ValueError(f"max_backoff={settings.max_backoff} is below the backoff")
    rounds = Rounds(settings.backoff, settings.max_backoff, settings.resolve)
    rounds.now, rounds.numbered = saved.now, saved.numbered
    for group in saved.groups:
        if group.names in rounds.groups or group.names != tuple(sorted(set(group.names))):
            raise ValueError(f"group {group.names} is there twice, or out of order")
        rounds.new_group(group.names, group.number)
    for gang in saved.gangs:
        if gang.name in rounds.gangs or (gang.spec and gang.spec.name != gang.name):
            raise ValueError(f"gang {gang.name!r} is there twice, or has another one's definition")
        book = rounds.gangs[gang.name] = GangBook(gang.name, gang.spec, gang.source)
        rounds.enter(book, rounds.groups[gang.spec.groups if gang.spec else (gang.name,)])
    numbers: dict[int, PodBook] = {}
    for pod in saved.pods:
        if pod.name in rounds.pods or pod.number in numbers:
            raise ValueError(f"pod {pod.name!r} is there twice")
        if any(len(set(names)) < len(names) for names in (pod.holds, pod.lacks)):
            raise ValueError(f"pod {pod.name!r} holds or lacks something twice")
        of = rounds.gangs[pod.gang]
        restored = PodBook(pod.name, of, pod.role, pod.number)
        restored.holds, restored.lacks = pod.holds, pod.lacks
        restored.failures, restored.doomed = pod.failures, pod.doomed
        rounds.pods[pod.name] = of.pods[pod.name] = numbers[pod.number] = restored
        rounds.move(restored, pod.state)
        if pod.time >= 0:
            (rounds.put_off if pod.state in IDLE else rounds.timers.set)(restored, pod.time)
    for group in saved.groups:
        _restore_round(rounds, group, numbers)
    for known in rounds.gangs.values():
        rounds.judge(known)
    for changed in rounds.changes:
        changed.clear()
    for restored in rounds.pods.values():
        # Earlier releases tried these in rounds, or forgot them.
        if restored.state in IDLE and restored.time < 0 and rounds.starts_alone(restored):
            rounds.put_off(restored, rounds.now)
    return rounds


def _restore_round(rounds: Rounds, saved: _Group, numbers: dict[int, PodBook]) -> None:
    group = rounds.groups[saved.names]
    group.once, group.members_bound, group.open = saved.once, saved.members_bound, saved.open
    group.failure, group.failures = saved.failure, saved.failures
    group.trying = None if saved.trying is None else numbers[saved.trying]
    rounds.mind(group)
    for number in saved.queue:
        pod = numbers[number]
        if pod.queued or pod.gang.group is not group:
            raise ValueError(f"pod {pod.name!r} is in a queue that is not its own")
        rounds.enqueue(pod)
        group.queue.append(pod)
    if saved.time >= 0:
        rounds.timers.set(group, saved.time)
