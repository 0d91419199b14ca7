"""Each pod gets the devices that it asks for, and no other owner has them."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from hivecore.devices import Device, DeviceCluster, DeviceRequest, NodeDevices
from hivecore.scheduler import Job, PlacedPod, Promote, Start
from hivecore.verify._state import State, hold, pod_name

__all__ = ["check_devices"]

_SCOPES = ("pcie", "numa", "socket")
_Key = tuple[str, int]


def check_devices(action: Start | Promote, job: Job, state: State, part: DeviceCluster) -> None:
    """All pods have healthy devices as requested, and no device gives more than it has."""
    for pod in action.pods:
        request, name = asked_of(job, pod), pod_name(job, pod)
        if request is None:
            continue
        hold(pod.node in part.nodes, "nodes", f"{name!r}: there is no node {pod.node!r}")
        inventory = part.inventory(pod.node)
        known = {(device.type, device.minor): device for device in inventory.devices}
        got = {type: [(type, minor) for minor in minors] for type, minors in pod.minors}
        for key in [key for keys in got.values() for key in keys]:
            hold(key in known, "devices", f"{pod.node!r} has no {key[0]} {key[1]}")
            hold(known[key].healthy, "health", f"{key[0]} {key[1]} of {pod.node!r} is bad")
        devices = {type: [known[key] for key in keys] for type, keys in got.items()}
        _check_kept(name, request, devices)
        _check_partition(name, request, pod.gpus, inventory)
        used, functions = _used(pod.node, state, part, known)
        for key in [key for keys in got.values() for key in keys]:
            most = dict(known[key].amounts)
            for resource, amount in used[key].items():
                what = f"{key[0]} {key[1]} of {pod.node!r}: {amount} {resource} in use"
                hold(amount <= most.get(resource, 0), "devices", what)
        for bus_id, count in functions.items():
            hold(count == 1, "devices", f"function {bus_id} of {pod.node!r} has two owners")


def asked_of(job: Job, pod: PlacedPod) -> DeviceRequest | None:
    role = next(known for known in job.roles if known.name == pod.role)
    whole = DeviceRequest("any", gpus=role.gpus) if role.gpus else None
    return whole if role.devices is None else role.devices


def _used(
    node: str, state: State, part: DeviceCluster, known: dict[_Key, Device]
) -> tuple[dict[_Key, Counter[str]], Counter[str]]:
    """Return the use of a node's devices and virtual functions; memory is in bytes."""
    used: dict[_Key, Counter[str]] = defaultdict(Counter)
    functions: Counter[str] = Counter()

    def use(type: str, minor: int, amounts: Iterable[tuple[str, int]]) -> None:
        for resource, amount in amounts:
            device = known.get((type, minor))
            memory = dict(device.amounts).get("memory") if device is not None else None
            if resource == "memory_ratio" and memory is not None:
                resource, amount = "memory", amount * memory // 100
            used[type, minor][resource] += amount

    for job, pods in state.has.values():
        for pod in pods:
            request = asked_of(job, pod) if pod.node == node else None
            for type, minors in pod.minors if request is not None else ():
                need = request.need(type) if request is not None else None
                given_amounts = {
                    (allocation.type, allocation.minor): allocation.amounts
                    for allocation in pod.devices
                }
                for minor in minors:
                    amounts = () if need is None else need.amounts
                    if need is not None and need.repeat:  # as often as given, at least once
                        amounts = given_amounts.get((type, minor), amounts)
                    use(type, minor, amounts)
            given = (
                [allocation.function for allocation in pod.devices] if request is not None else ()
            )
            functions.update(function.bus_id for function in given if function is not None)
    for owner in part.owners(node):  # an owner outside this scheduler
        if state.job_of_pod(owner) not in state.before:
            for allocation in part.allocations(owner):
                use(allocation.type, allocation.minor, allocation.amounts)
                functions.update(
                    [allocation.function.bus_id] if allocation.function is not None else ()
                )
    return used, functions


def _check_kept(name: str, request: DeviceRequest, got: dict[str, list[Device]]) -> None:
    """A pod gets what it asks for, as close together as it asks."""
    switches = [{device.pcie for device in got.get(type, ())} for type in request.joint]
    first = request.joint.index("gpu") if "gpu" in request.joint else 0
    around = len(switches[first]) if switches else 0
    hold({need.type for need in request.needs} == got.keys(), "devices", f"{name!r} has {[*got]}")
    for need in request.needs:
        devices = got[need.type]
        follows = need.type in request.joint[1:] and need.type != "gpu"
        most = max(need.count, around) if follows else need.count
        least = 1 if need.repeat else need.count
        right = need.every or least <= len(devices) <= most
        hold(right, "devices", f"{name!r} has {len(devices)} {need.type}, not {need.count}")
        if need.scope in _SCOPES and len(devices) > 1:
            near = [
                {getattr(device, scope) for device in devices}
                for scope in _SCOPES[: _SCOPES.index(need.scope) + 1]
            ]
            together = any(len(places) == 1 and None not in places for places in near)
            hold(together, "nearness", f"{need.type} of {name!r} are not in one {need.scope}")
    if request.same_pcie:
        same = None not in switches[0] and all(switch == switches[0] for switch in switches)
        hold(same, "nearness", f"{request.joint} of {name!r} are not on the same switches")


def _check_partition(
    name: str, request: DeviceRequest, gpus: tuple[int, ...], inventory: NodeDevices
) -> None:
    need = request.need("gpu")
    wanted = request.partition is not None or inventory.partition_policy == "honor"
    if need is not None and wanted and not need.shared and not need.every:
        members = tuple(sorted(gpus))
        allowed = inventory.partitions_of(len(members), request.links, is_asked=True)
        rows = {tuple(sorted(row.members)): row.bandwidth for row in allowed}
        hold(members in rows, "partition", f"{name!r}: no row of the table is {members}")
        enough = (rows[members] or 0) >= (request.bandwidth or 0)
        hold(enough, "partition", f"{name!r}: bandwidth is {rows[members]}")
