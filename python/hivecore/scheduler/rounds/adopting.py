"""Adopts jobs that run already when the scheduler learns of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from hivecore._stateful import counted
from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster
from hivecore.errors import StaleDecisionError
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job
from hivecore.scheduler.ledger.extras import expect_extra, expect_extras
from hivecore.scheduler.ledger.lines import push, take_off
from hivecore.scheduler.ledger.live import Live
from hivecore.scheduler.ledger.state import State
from hivecore.scheduler.rounds.starts import runs_now
from hivecore.scheduler.stages.units import Kind, Pod, Unit

__all__ = ["adopt", "checked_pods"]

_MOST_NAMED = 8  # pods of a node
_Placed = dict[Pod, PlacedPod]


def checked_pods(state: State, job: Job, pods: Iterable[PlacedPod]) -> _Placed:
    """Check the running pods of a job, and return them by role and number.

    :raises ValueError: a pod is named twice, does not belong to the job, or may not be on its node.
    """
    placed: _Placed = {}
    numbers = {role.name: role.numbers for role in job.roles}
    for pod in pods:
        name = f"pods: {pod.role}/{pod.index}"
        if pod.index not in numbers.get(pod.role, ()):
            raise ValueError(f"{name}: the job has no such pod")
        if Pod(pod.role, pod.index) in placed:
            raise ValueError(f"{name}: is given twice")
        if job.where.nodes and pod.node not in job.where.nodes:
            raise ValueError(f"{name}: where.nodes has no {pod.node!r}")
        placed[Pod(pod.role, pod.index)] = pod
    stages = state.stages
    first = next(iter(placed.values()), None)
    allowed = stages.nodes_beside(job, [first] if first else [])
    for pod in placed.values():
        name = f"pods: {pod.role}/{pod.index}"
        if stages.has_nodes and not stages.knows(pod.node):
            raise ValueError(f"{name}: there is no node {pod.node!r}")
        if first and allowed and pod.node not in allowed:
            other = f"{first.role}/{first.index} on {first.node!r}"
            raise ValueError(f"{name}: {pod.node!r} is not in the domain of {other}")
    counts = Counter((pod.role, pod.node) for pod in placed.values() if pod.node)
    for role in job.roles:
        most = role.per_node
        for (name, node), count in counts.items():
            if name == role.name and most is not None and count > most:
                reason = f"{count} of role {name!r} on {node!r}, at most {most} are allowed"
                raise ValueError(f"pods: {reason}")
    return placed


def adopt(state: State, job: Job, kind: Kind, placed: _Placed, since: float) -> None:
    """Add a job that runs on the nodes of its pods.

    :raises ValueError: pods are missing, or cannot be on their nodes.
    :raises StaleDecisionError: their resources are in use.
    """
    live = Live.submitted(job, kind)
    first = live.units[0]
    for pod in first.pods:
        if pod not in placed:
            raise ValueError(f"pods: {pod.role}/{pod.number} is missing")
    state.log.note(setattr, state, "came", state.came)
    state.add(live)
    state.stages.submit(first)
    state.stages.come(job)
    push(state, first)
    take_off(state, first)  # records its place in the queue, to which it may return
    _run(state, first, placed)
    runs_now(state, live)
    live.since = since
    for unit in live.units[1:]:
        if unit.pods[0] in placed:
            take_off(state, unit)
            _run(state, unit, placed)
    for role in job.roles:
        for pod in (Pod(role.name, number) for number in role.extra_numbers):
            if pod in placed:
                _adopt_extra(state, live, pod, placed)
    expect_extras(state, live)
    state.outdate_promises()


def _adopt_extra(state: State, live: Live, pod: Pod, placed: _Placed) -> None:
    name = f"{live.job.name}/{pod.role}/{pod.number}"
    extra = live.extras.get(name) or expect_extra(state, live, pod)
    take_off(state, extra.units[0])
    _run(state, extra.units[0], placed)
    runs_now(state, extra)
    extra.since = live.since


def _run(state: State, unit: Unit, placed: _Placed) -> None:
    unit.note(state.log)
    unit.placed = tuple([placed[pod] for pod in unit.pods])
    try:
        _check_gpus(state, unit)
        state.stages.adopt(unit)
    except (KeyError, ValueError, StaleDecisionError) as error:
        holders = "".join(_holders(state, unit, isinstance(error, StaleDecisionError)))
        raise type(error)(f"pods of {unit.name!r}: {error.args[0]}{holders}") from None


def _check_gpus(state: State, unit: Unit) -> None:
    """Refuse GPUs that another pod has, or too many, where no part counts single GPUs.

    Only adopted units have such GPUs; ``state.named`` has the last one of each GPU, if it is known.

    :raises ValueError: a pod has another number of GPUs than its role.
    :raises StaleDecisionError: a GPU is in use.
    """
    named = [pod for pod in unit.placed if pod.node and pod.gpus]
    parts = state.stages.find(DeviceCluster), state.stages.find(CellCluster)
    if not named or any(part is not None for part in parts):
        return
    roles = {role.name: role for role in unit.kind.job.roles}
    if state.named is None:
        others = [other for other in state.units() if other is not unit]
        state.named = {at: other for other in others for at in _gpus(other)}
    for pod in named:
        if len(pod.gpus) != roles[pod.role].gpus:
            has = counted(len(pod.gpus), "GPU")
            asks = f"its role asks for {roles[pod.role].gpus}"
            raise ValueError(f"{pod.role}/{pod.index} has {has}, {asks}")
        for at in ((pod.node, gpu) for gpu in pod.gpus):
            other = state.named.get(at)
            if other is unit or (other is not None and at in _gpus(other)):
                raise StaleDecisionError(f"GPU {at[1]} of {pod.node!r} is in use")
            state.named[at] = unit


def _gpus(unit: Unit) -> list[tuple[str, int]]:
    return [(pod.node, gpu) for pod in unit.placed for gpu in pod.gpus]


def _holders(state: State, unit: Unit, is_in_use: bool) -> Iterator[str]:
    """For each pod of a unit, the other pods that have its devices, for a message.

    :param is_in_use: the error says that something is in use, and names no devices: also name those
        that have its GPUs, or else that are on its node.
    """
    others = defaultdict[str, list[tuple[str, PlacedPod]]](list)
    for other in state.units():
        for pod in other.placed if other is not unit else ():
            others[pod.node].append((f"{other.job}/{pod.role}/{pod.index}", pod))
    for pod in unit.placed:
        near = others[pod.node]
        theirs = {device: name for name, other in near for device in _devices(other, is_in_use)}
        own = _devices(pod, is_in_use)
        has = [f"{theirs[device]!r} has {device}" for device in own if device in theirs]
        if is_in_use and not has:
            has = [f"{name!r} is there" for name, _ in near[:_MOST_NAMED]]
            more = len(near) - len(has)
            has += [f"{more} more {'pod is' if more == 1 else 'pods are'} there"] if more else []
        if has:
            yield f"; {pod.role}/{pod.index} on {pod.node!r}: {', '.join(has)}"


def _devices(pod: PlacedPod, with_gpus: bool) -> list[str]:
    """The devices of a pod's claims, and its GPUs."""
    devices = [f"GPU {gpu}" for gpu in pod.gpus] if with_gpus else []
    for _, allocation in pod.claims:
        for result in allocation.get("devices", {}).get("results", ()):
            devices.append(f"{result.get('driver')}/{result.get('pool')}/{result.get('device')}")
    return devices
