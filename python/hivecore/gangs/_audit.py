"""Checks that all counts and indices of gangs follow from their pods."""

from hivecore.errors import InvariantError
from hivecore.gangs._records import GangBook, GroupBook, PodBook
from hivecore.gangs._rounds import Rounds
from hivecore.gangs._states import BOUND, ENDED, IDLE, PLACED
from hivecore.gangs._wait_graph import WaitGraph

__all__ = ["audit"]


def audit(rounds: Rounds) -> None:
    """Raise `InvariantError` if something does not follow."""
    for name, pod in rounds.pods.items():
        _require(name == pod.name and pod.gang.pods.get(name) is pod, f"pod {name!r} is lost")
        _require(rounds.gangs.get(pod.gang.name) is pod.gang, f"gang of pod {name!r} is lost")
        _audit_pod(rounds, pod)
    for name, gang in rounds.gangs.items():
        _require(name == gang.name, f"gang {gang.name!r} is known as {name!r}")
        _audit_gang(rounds, gang)
    _require(
        sum(len(gang.pods) for gang in rounds.gangs.values()) == len(rounds.pods),
        "gangs have other pods",
    )
    naming: dict[str, dict[tuple[str, ...], GroupBook]] = {}
    for names, group in rounds.groups.items():
        _require(names == group.names, f"group {group.id!r} is known as {names}")
        for named in names:
            naming.setdefault(named, {})[names] = group
        _audit_group(rounds, group)
    _require(naming == rounds.naming, "groups are named by others than it says")
    _require(not rounds.has_changes(), "an event is not booked to its end")
    _audit_waits(rounds)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantError(what)


def _audit_pod(rounds: Rounds, pod: PodBook) -> None:
    what = f"pod {pod.name!r}, {pod.state}"
    group = pod.gang.group
    _require(0 < pod.number <= rounds.numbered, f"{what}: has the number {pod.number}")
    _require((pod.number in group.idle) == (pod.state in IDLE), f"{what}: idle")
    _require((pod.number in group.waiting) == (pod.state == "waiting"), f"{what}: waiting")
    _require(not pod.lacks or pod.state == "held-up", f"{what}: lacks something")
    _require(not pod.holds or pod.state not in (IDLE | ENDED | {"trying"}), f"{what}: holds")
    _require(pod.state != "waiting" or pod.time >= 0, f"{what}: waits without end")
    _require(pod.time < 0 or pod.state in IDLE | {"waiting"}, f"{what}: is due")
    _require(not pod.doomed or pod.state == "trying", f"{what}: is doomed")
    _require(
        pod.state not in IDLE or pod.time >= 0 or not rounds.starts_alone(pod),
        f"{what}: may start alone and is forgotten",
    )


def _audit_gang(rounds: Rounds, gang: GangBook) -> None:
    what = f"gang {gang.name!r}"
    counts = [0, 0, 0]
    of_role: dict[str, list[int]] = {}
    for pod in gang.pods.values():
        if pod.state not in ENDED:
            for row in (counts, of_role.setdefault(pod.role, [0, 0, 0])):
                row[0] += 1
                row[1] += pod.state in PLACED
                row[2] += pod.state in BOUND
    of_role.pop("", None)
    _require(counts == [gang.live, gang.placed, gang.bound], f"{what}: counts")
    _require(of_role == gang.of_role, f"{what}: counts by role")
    _require(
        gang.source in ("object", "pod", "") and bool(gang.source) == (gang.spec is not None),
        f"{what}: source",
    )
    _require(bool(gang.pods) or gang.source == "object", f"{what}: has no pods")
    names = gang.spec.groups if gang.spec else (gang.name,)
    _require(rounds.groups.get(names) is gang.group, f"{what}: is in another group")
    _require(gang.group.members.get(gang.name) is gang, f"{what}: is no member")
    _require(rounds.verdict(gang) == (gang.valid, gang.collected), f"{what}: valid, collected")


def _audit_group(rounds: Rounds, group: GroupBook) -> None:
    what = f"group {group.id!r}"
    gangs = [rounds.gangs.get(name) for name in group.names]
    known = [gang for gang in gangs if gang is not None]
    members = {gang.name: gang for gang in known if gang.group is group}
    _require(bool(members) and members == group.members, f"{what}: members")
    missing = len(gangs) - len(known)
    lacking = missing + sum(not gang.valid for gang in known)
    uncollected = missing + sum(not gang.collected for gang in known)
    _require((lacking, uncollected) == (group.lacking, group.uncollected), f"{what}: readiness")
    _require(group.short == sum(not gang.valid for gang in members.values()), f"{what}: short")
    awaited = sum(len(rounds.naming[name]) - 1 for name in members)
    _require(awaited == group.awaited, f"{what}: awaited")
    _require(group.live == sum(gang.live for gang in members.values()), f"{what}: live")
    bound = any(gang.bound for gang in members.values())
    _require(group.live > 0 or not group.once, f"{what}: was satisfied, and has no pods")
    _require(group.once or not bound, f"{what}: has bound pods")
    indexed = [*group.idle.items(), *group.waiting.items()]
    _require(
        all(pod.number == number and pod.gang.group is group for number, pod in indexed)
        and all(rounds.pods.get(pod.name) is pod for _, pod in indexed),
        f"{what}: has pods of others",
    )
    alone = sum(pod.time >= 0 for pod in group.idle.values())
    _require(group.alone == alone, f"{what}: pods that have a time of their own")
    trying = group.trying
    _require(group.open == (trying is not None), f"{what}: no pod is tried")
    _require(
        trying is None or (trying.state == "trying" and trying.gang.group is group),
        f"{what}: tries another pod",
    )
    _require(not group.open or group.time < 0, f"{what}: is open, and to be opened")
    _require(not group.open or not group.uncollected, f"{what}: is open, and lacks pods")
    _require(group.open or not group.queue, f"{what}: has a queue")
    queued = [pod for pod in group.queue if pod.queued]
    _require(
        len(set(queued)) == len(queued) and all(pod.gang.group is group for pod in queued),
        f"{what}: has a pod in its queue twice, or another group's",
    )
    forgotten = [pod for pod in group.idle.values() if pod.time < 0]
    if forgotten and not group.uncollected:
        _require(group.open or group.time >= 0, f"{what}: pod {forgotten[0].name!r} is forgotten")
    _require(not group.waiting or rounds.reachable(group) is None, f"{what}: may start")


def _audit_waits(rounds: Rounds) -> None:
    graph = WaitGraph(rounds.named)
    live = 0
    for group in rounds.groups.values():
        live += group.time >= 0
        graph.mind(group, group.open or group.once or bool(group.waiting))
        for pod in group.waiting.values():
            graph.hold(group, pod)
        for pod in group.idle.values():
            if pod.state == "held-up" and not pod.queued:
                graph.lack(group, pod)
    live += sum(pod.time >= 0 for pod in rounds.pods.values())
    _require(rounds.timers.live == live, "some time is lost")
    _require(graph == rounds.graph, "the wait-for graph is another one")
    if rounds.resolve:
        for group in rounds.groups.values():
            _require(
                not graph.cycle(group, rounds.dependents(group)),
                f"group {group.id!r} is in a deadlock",
            )
