"""The state of all groups as plain data; what follows from the rest is left out."""

from typing import Any, get_args

from hivecore._arguments import as_bool, as_int, as_name, as_text
from hivecore.gangs._books import GangBook, PodBook
from hivecore.gangs._rounds import Rounds
from hivecore.gangs._states import IDLE
from hivecore.gangs.action import PodState
from hivecore.gangs.gang_spec import GangSpec

__all__ = ["plain", "rebuilt"]

_MOST = 2**62
_STATES = get_args(PodState)


def plain(rounds: Rounds) -> dict[str, Any]:
    """Settings, gangs by name, groups and pods by number."""
    return {
        "settings": (rounds.backoff, rounds.max_backoff, rounds.resolve),
        "now": rounds.now,
        "numbered": rounds.numbered,
        "gangs": [(gang.name, gang.source, gang.spec) for _, gang in sorted(rounds.gangs.items())],
        "groups": [
            (
                group.names,
                group.number,
                group.once,
                group.members_bound,
                group.open,
                [pod.number for pod in group.queue if pod.queued],
                group.trying.number if group.trying else None,
                group.failure,
                group.failures,
                group.time,
            )
            for group in sorted(rounds.groups.values(), key=lambda one: one.number)
        ],
        "pods": [
            (
                pod.name,
                pod.gang.name,
                pod.role,
                pod.number,
                pod.state,
                pod.holds,
                pod.lacks,
                pod.time,
                pod.failures,
                pod.doomed,
            )
            for pod in rounds.pods.values()
        ],
    }


def rebuilt(state: dict[str, Any]) -> Rounds:
    """The groups of such plain data; it may be somebody's who has no idea."""
    backoff, most, resolve = state["settings"]
    least = as_int(backoff, "backoff", 1, _MOST)
    rounds = Rounds(least, as_int(most, "max_backoff", least, _MOST), as_bool(resolve, "resolve"))
    rounds.now = as_int(state["now"], "now", 0, _MOST)
    for names, number, *_ in state["groups"]:
        key = tuple([as_name(name, "group") for name in names])
        if key in rounds.groups or key != tuple(sorted(set(key))):
            raise ValueError(f"group {key} is there twice, or out of order")
        rounds._new_group(key, as_int(number, "number", 1, _MOST))
    for name, source, fields in state["gangs"]:
        if name in rounds.gangs:
            raise ValueError(f"gang {name!r} is there twice")
        gang = GangBook(as_name(name, "gang"))
        gang.spec = spec = _spec(name, fields)
        gang.source = as_text(source, "source")
        group = rounds.groups[(name,) if spec is None else spec.groups]
        rounds.gangs[name] = gang
        rounds._enter(gang, group)
    numbers: dict[int, PodBook] = {}
    for name, of, role, number, word, holds, lacks, time, failures, doomed in state["pods"]:
        if name in rounds.pods or number in numbers or word not in _STATES:
            raise ValueError(f"pod {name!r} is there twice, or its state is unknown")
        gang = rounds.gangs[of]
        pod = PodBook(as_name(name, "pod"), gang, as_text(role, "role"), number)
        pod.number = as_int(number, "number", 1, _MOST)
        pod.holds = tuple([as_text(one, "holds") for one in holds])
        pod.lacks = tuple([as_text(one, "lacks") for one in lacks])
        pod.failures = as_int(failures, "failures", 0, _MOST)
        pod.doomed = as_bool(doomed, "doomed")
        rounds.pods[name] = gang.pods[name] = numbers[number] = pod
        rounds.move(pod, word)
        if as_int(time, "time", -1, _MOST) >= 0:
            if word in IDLE:
                rounds.put_off(pod, time)
            else:
                rounds.timers.set(pod, time)
    rounds.numbered = as_int(state["numbered"], "numbered", 0, _MOST)
    for names, _, once, bound, opened, queue, trying, failure, failures, time in state["groups"]:
        group = rounds.groups[tuple(names)]
        group.once = as_bool(once, "once")
        group.members_bound = as_int(bound, "members_bound", -1, _MOST)
        group.open = as_bool(opened, "open")
        rounds.mind(group)
        group.trying = None if trying is None else numbers[trying]
        group.failure = as_text(failure, "failure")
        group.failures = as_int(failures, "failures", 0, _MOST)
        for number in queue:
            pod = numbers[number]
            if pod.queued or pod.gang.group is not group:
                raise ValueError(f"pod {pod.name!r} is in a queue that is not its own")
            rounds.enqueue(pod)
            group.queue.append(pod)
        if as_int(time, "time", -1, _MOST) >= 0:
            rounds.timers.set(group, time)
    for gang in rounds.gangs.values():
        rounds.judge(gang)
    for changed in (
        rounds.ready,
        rounds.satisfied,
        rounds.collected,
        rounds.dropped,
        rounds.suspects,
    ):
        changed.clear()
    for pod in rounds.pods.values():
        # Earlier releases tried these in rounds, or forgot them.
        if pod.state in IDLE and pod.time < 0 and rounds.starts_alone(pod):
            rounds.put_off(pod, rounds.now)
    return rounds


def _spec(gang: str, given: Any) -> GangSpec | None:
    """A definition, or the one of these fields."""
    if given is None or isinstance(given, GangSpec):
        return given
    pairs = {field: dict(given.get(field, ())) for field in ("roles", "multiple")}
    spec = GangSpec(**{**given, **pairs})
    if spec.name != gang:
        raise ValueError(f"gang {gang!r} has the definition of {spec.name!r}")
    return spec
