"""What would let a request start that no owner's end does: devices that are healthy again, wishes
that it gives up, fewer devices or smaller amounts. Every change was tried.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from hivecore.decisions import Change
from hivecore.devices.device import Device
from hivecore.devices.device_ledger import Policy
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.placer import DevicePlacer

__all__ = ["other_changes"]

_NODES = 16  # on which all devices are tried as healthy
_WISHES: dict[str, Any] = {
    "selector": (),
    "vf_selector": None,
    "exclusive": None,
    "scope": None,
}
_ANYWHERE: dict[str, Any] = {"partition": None, "bandwidth": None, "links": None}
_OF_ALL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("same_pcie", {"same_pcie": False}),
    ("joint", {"joint": (), "same_pcie": False}),
    ("links", {"links": None}),
    ("partition", _ANYWHERE),
    ("isolation_provider", {"isolation_provider": ""}),
    ("models", {"models": ()}),
)


def other_changes(
    cluster: DevicePlacer, request: DeviceRequest, policy: Policy, nodes: Iterable[str]
) -> tuple[Change, ...]:
    """The changes that admit the request, the cheapest first.

    :param nodes: those that come nearest first.
    """
    healed = _healed(cluster, request, policy, nodes)
    return (*([] if healed is None else [healed]), *_relaxed(cluster, request, policy))


def _healed(
    cluster: DevicePlacer, request: DeviceRequest, policy: Policy, nodes: Iterable[str]
) -> Change | None:
    """The fewest devices of a node that have to be healthy again."""
    types = {need.type for need in request.needs}
    best: Change | None = None
    tried = 0
    for name in nodes:
        devices = cluster.inventory(name).devices
        unhealthy = [item for item in devices if item.type in types and not item.healthy]
        if not unhealthy or tried == _NODES:
            continue
        tried += 1
        with cluster.trial():
            needed = _needed(cluster, request, policy, name, unhealthy)
        if needed and (best is None or needed < best.cost):
            best = Change("health", (), needed, (), request, (), (name,))
    return best


def _needed(
    cluster: DevicePlacer,
    request: DeviceRequest,
    policy: Policy,
    name: str,
    unhealthy: list[Device],
) -> int:
    """How many of these have to be healthy, so that none of them can be left out; 0: all of them
    would not do. What it tries stays.
    """

    def set_health(item: Device, healthy: bool) -> None:
        cluster.set_health(name, healthy, type=item.type, minor=item.minor)

    def binds() -> bool:
        return cluster.schedule(request, nodes=(name,), policy=policy).outcome == "bind"

    for item in unhealthy:
        set_health(item, True)
    if not binds():
        return 0
    needed = len(unhealthy)
    for item in unhealthy:
        set_health(item, False)
        needed -= 1
        if not binds():
            set_health(item, True)
            needed += 1
    return needed


def _relaxed(cluster: DevicePlacer, request: DeviceRequest, policy: Policy) -> Iterator[Change]:
    for wishes, variants in _variants(cluster, request):
        for variant in variants:
            if cluster.schedule(variant, policy=policy).outcome == "bind":
                yield Change("relax", (), 0, (wishes,), variant)
                break


def _variants(
    cluster: DevicePlacer, request: DeviceRequest
) -> Iterator[tuple[str, Iterable[DeviceRequest]]]:
    """What is given up, and the requests without it, the one that asks for most first."""
    for name, without in _OF_ALL:
        if any(getattr(request, field) != value for field, value in without.items()):
            yield name, [request.replace(**without)]
    inventories = {id(item): item for item in map(cluster.inventory, cluster.nodes)}.values()
    for need in request.needs:
        for name, without in _WISHES.items():
            if getattr(need, name) not in (without, "node"):
                yield f"{need.type} {name}", _with(request, need, [{name: without}])
        devices = [item.of_type(need.type) for item in inventories]
        most = min(need.count - 1, max(map(len, devices), default=0))
        yield f"{need.type} count", _with(request, need, [{"count": n} for n in range(most, 0, -1)])
        sizes = {item.amounts for some in devices for item in some}
        smaller = {tuple(_capped(need, dict(size)).items()) for size in sizes}
        amounts = sorted(smaller - {(), need.amounts}, reverse=True)
        yield f"{need.type} amounts", _with(request, need, [{"amounts": item} for item in amounts])


def _capped(need: DeviceNeed, size: dict[str, int]) -> dict[str, int]:
    """What is needed, as far as a device of this size has it."""
    if "memory" in size:
        size = size | {"memory_ratio": 100}
    capped = {name: min(amount, size.get(name, 0)) for name, amount in need.amounts}
    return {name: amount for name, amount in capped.items() if amount}


def _with(
    request: DeviceRequest, need: DeviceNeed, changes: Iterable[dict[str, Any]]
) -> Iterator[DeviceRequest]:
    others = [item for item in request.needs if item is not need]
    for change in changes:
        partition: dict[str, Any] = {}
        changed = need.replace(**change)
        if need.type == "gpu" and changed.shared:
            partition = _ANYWHERE
        yield request.replace(needs=[*others, changed], **partition)
