"""Whether a decision keeps every rule, checked from the inventory alone: no kernel, no twin."""

from collections.abc import Iterable

from hivecore.devices.device import Device
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.label_expression import LabelExpression, is_selected, rule_text
from hivecore.devices.node_devices import NodeDevices
from hivecore.errors import CertificateError

__all__ = ["amounts_of", "check_placement", "template_of"]


def check_placement(
    request: DeviceRequest,
    placement: Iterable[DeviceAllocation],
    inventory: NodeDevices,
    held: Iterable[DeviceAllocation],
    *,
    of_all: bool = True,
) -> None:
    """Raise `CertificateError` with the first rule that a placement breaks.

    :param held: what others have on the node.
    :param of_all: all devices of the node could be chosen; if not, those of a need for every device
        may be some of them.
    """
    given = tuple(placement)
    others = inventory.in_bytes(held)
    devices = {(device.type, device.minor): device for device in inventory.devices}
    _need(
        len({(allocation.type, allocation.minor) for allocation in given}) == len(given),
        "a device is given twice",
    )
    for allocation in given:
        device = devices.get((allocation.type, allocation.minor))
        need = request.need(allocation.type)
        where = f"{allocation.type} {allocation.minor}"
        if device is None or need is None:
            raise CertificateError(f"{where}: is not there, or was not asked for")
        _check_device(where, device, allocation, need, others)
        _check_company(where, device, need, others, devices)
    for need in request.needs:
        _check_need(request, need, given, devices)
        if need.every:
            _check_every(need, given, inventory, of_all)
    _check_partition(request, given, inventory, others)
    gpu = request.need("gpu")
    if gpu is not None and request.models:
        _need(inventory.model in request.models, "the node has another model of GPUs")
    if gpu is not None and gpu.shared and request.isolation_provider:
        same = inventory.isolation_provider == request.isolation_provider
        _need(same, "the node has another isolation provider")
    _check_sharing(gpu, given, inventory)
    if request.same_pcie and request.joint:
        switches = [
            {
                devices[allocation.type, allocation.minor].pcie
                for allocation in given
                if allocation.type == type
            }
            for type in request.joint
        ]
        known = None not in switches[0]
        same = all(pcie == switches[0] for pcie in switches)
        _need(known and same, "the joint types are not on the same PCIe switches")


def _check_sharing(
    gpu: DeviceNeed | None, given: tuple[DeviceAllocation, ...], inventory: NodeDevices
) -> None:
    """Shares are given where they may be, each as the one template that it is."""
    name: str | None = ""
    if gpu is not None and gpu.shared:
        _need(inventory.shareable, "the node's GPUs are not shared")
        name = template_of(gpu, inventory)
        _need(name is not None, "the share is of no template")
    for allocation in given:
        wanted = name if allocation.type == "gpu" else ""
        _need(
            allocation.template == wanted,
            f"{allocation.type} {allocation.minor}: has the template {allocation.template!r}",
        )


def template_of(gpu: DeviceNeed, inventory: NodeDevices) -> str | None:
    """The template that shares of GPUs are; "": none in particular, ``None``: they have to be of
    one, and are of none.
    """
    needed, shares = dict(gpu.amounts), inventory.templates
    if not gpu.shared or shares is None or needed.keys().isdisjoint(shares.matched):
        return ""
    same = [template.name for template in shares.templates if dict(template.amounts) == needed]
    if not same:
        return None
    return same[0] if len(same) == 1 else ""


def _need(holds: bool, rule: str) -> None:
    if not holds:
        raise CertificateError(rule)


def _check_device(
    where: str,
    device: Device,
    allocation: DeviceAllocation,
    need: DeviceNeed,
    others: tuple[DeviceAllocation, ...],
) -> None:
    _need(device.healthy, f"{where}: is unhealthy")
    for rule in need.selector:
        if not is_selected((rule,), device.labels):
            raise CertificateError(f"{where}: {_mismatch(rule)}")
    _need(
        allocation.exclusive == need.exclusive,
        f"{where}: is exclusive, which the request did not ask for",
    )
    here = [
        other
        for other in others
        if (other.type, other.minor) == (allocation.type, allocation.minor)
    ]
    has = dict(device.amounts)
    for name, amount in allocation.amounts:
        used = sum(dict(other.amounts).get(name, 0) for other in here)
        _need(used + amount <= has.get(name, 0), f"{where}: has too little {name}")
    gets, needed = dict(allocation.amounts), amounts_of(device, need)
    if need.repeat:
        needed = {name: amount * _times(allocation, need) for name, amount in needed.items()}
    for name in gets | needed:
        missing = needed.get(name, 0) - gets.get(name, 0)
        _need(missing <= 0, f"{where}: gives too little {name}")
        _need(missing >= 0, f"{where}: gives too much {name}")
    if need.vf_selector is None:
        _need(
            allocation.function is None, f"{where}: gives a virtual function that was not asked for"
        )
        return
    fitting = {
        function.bus_id
        for group in device.vf_groups
        for function in group.functions
        if is_selected(need.vf_selector, group.labels)
    }
    name = allocation.function.bus_id if allocation.function is not None else ""
    _need(name in fitting, f"{where}: gives no virtual function as asked for")
    taken = {other.function.bus_id for other in others if other.function is not None}
    _need(name not in taken, f"{where}: its virtual function {name} is taken")


def _times(allocation: DeviceAllocation, need: DeviceNeed) -> int:
    """How often the device gives what is needed, where it may do so several times."""
    return max(dict(allocation.amounts).get("memory", 0) // dict(need.amounts)["memory"], 1)


def _mismatch(rule: tuple[str, str] | LabelExpression) -> str:
    if isinstance(rule, LabelExpression):
        return f"its labels do not match {rule_text(rule)!r}"
    return f"lacks the label {rule_text(rule)}"


def amounts_of(device: Device, need: DeviceNeed) -> dict[str, int]:
    """What it has to give: of a percentage of its memory the whole bytes, if it has bytes."""
    amounts, has = dict(need.amounts), dict(device.amounts)
    if "memory_ratio" in amounts and "memory" in has:
        amounts["memory"] = amounts.pop("memory_ratio") * has["memory"] // 100
    return amounts


def _check_company(
    where: str,
    device: Device,
    need: DeviceNeed,
    others: tuple[DeviceAllocation, ...],
    devices: dict[tuple[str, int], Device],
) -> None:
    """An exclusive owner is alone."""
    for other in others:
        if other.type != device.type:
            continue
        place = devices.get((other.type, other.minor))
        same = other.minor == device.minor
        near = same or (place is not None and None is not place.pcie == device.pcie)
        _need(not (same and need.exclusive), f"{where}: is used, exclusive was asked for")
        _need(not (near and need.exclusive == "pcie"), f"{where}: its PCIe switch is used")
        _need(not (same and other.exclusive), f"{where}: another owner has it exclusively")
        _need(not (near and other.exclusive == "pcie"), f"{where}: its PCIe switch is taken")


def _check_need(
    request: DeviceRequest,
    need: DeviceNeed,
    given: tuple[DeviceAllocation, ...],
    devices: dict[tuple[str, int], Device],
) -> None:
    got = [
        devices[allocation.type, allocation.minor]
        for allocation in given
        if allocation.type == need.type
    ]
    follows = need.type in request.joint[1:] and need.type != "gpu"
    if follows:
        first = "gpu" if "gpu" in request.joint else request.joint[0]
        touched = {
            devices[allocation.type, allocation.minor].pcie
            for allocation in given
            if allocation.type == first
        }
        most = max(need.count, len(touched - {None}))
        _need(need.count <= len(got) <= most, f"{need.type}: {len(got)} of {need.count} to {most}")
    elif need.repeat:
        times = sum(
            _times(allocation, need) for allocation in given if allocation.type == need.type
        )
        _need(times == need.count, f"{need.type}: {times} shares instead of {need.count}")
    elif not need.every:
        _need(len(got) == need.count, f"{need.type}: {len(got)} instead of {need.count}")
    order = ("pcie", "numa", "socket")
    if need.scope in (None, "node") or len(got) == 1:
        return
    allowed = order[: order.index(need.scope) + 1] if need.scope in order else ()
    together = any(
        len({getattr(device, place) for device in got}) == 1 and getattr(got[0], place) is not None
        for place in allowed
    )
    _need(together, f"{need.type}: not within one {need.scope}")


def _check_every(
    need: DeviceNeed, given: tuple[DeviceAllocation, ...], inventory: NodeDevices, of_all: bool
) -> None:
    """All that the selectors let through and that have enough, without owners."""
    meant = set()
    for device in inventory.of_type(need.type):
        has, needed = dict(device.amounts), amounts_of(device, need)
        able = device.healthy and all(has.get(name, 0) >= needed[name] for name in needed)
        groups = [group for group in device.vf_groups if group.functions]
        functions = need.vf_selector is None or any(
            is_selected(need.vf_selector, group.labels) for group in groups
        )
        if able and functions and is_selected(need.selector, device.labels):
            meant.add(device.minor)
    got = {allocation.minor for allocation in given if allocation.type == need.type}
    holds = got == meant if of_all else got <= meant
    _need(bool(got) and holds, f"{need.type}: {sorted(got)} instead of {sorted(meant)}")


def _check_partition(
    request: DeviceRequest,
    given: tuple[DeviceAllocation, ...],
    inventory: NodeDevices,
    others: tuple[DeviceAllocation, ...],
) -> None:
    gpu = request.need("gpu")
    is_required = request.partition is not None or inventory.partition_policy == "honor"
    if gpu is None or gpu.shared or gpu.every or not is_required:
        return
    mine = tuple(sorted(allocation.minor for allocation in given if allocation.type == "gpu"))
    allowed = inventory.partitions_of(len(mine), request.links, is_asked=True)
    rows = {tuple(sorted(row.members)): row for row in allowed}
    if mine not in rows:
        raise CertificateError(f"the GPUs {list(mine)} are no partition of the fabric")
    row = rows[mine]
    if request.bandwidth is not None:
        enough = row.bandwidth is not None and row.bandwidth >= request.bandwidth
        _need(enough, "the partition has too little bandwidth")
    if request.partition == "restricted":
        best = max(other.score for other in allowed)
        _need(row.score == best, "the partition is not of the best score")
    taken = {allocation.minor for allocation in others if allocation.type == "gpu"}
    _need(not taken & set(mine), "another owner uses GPUs of the partition")
