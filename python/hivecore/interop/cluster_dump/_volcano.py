"""Reads Volcano's Queues as quotas.

If any queue has `deserved`, they follow the plugin "capacity": `deserved` becomes `min`, which a
queue may reclaim, and it may use idle resources up to its capability. Otherwise, as in the plugin
"proportion", all resources are divided by weight.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from msgspec import field as default

from hivecore.interop.cluster_dump._objects import Dump, Object, Schema
from hivecore.interop.cluster_dump._queues import Queues, filled, with_children
from hivecore.quotas import Quota

__all__ = ["VOLCANO_QUEUE", "read_volcano"]

VOLCANO_QUEUE = "Queue.scheduling.volcano.sh"
_ROOT = "root"
_ALWAYS = ("gpu", "cpu", "memory")


class _Guarantee(Schema, frozen=True):
    resource: dict[str, Fraction] = default(default_factory=dict)


class _Queue(Schema, frozen=True):
    weight: int = 1
    capability: dict[str, Fraction] = default(default_factory=dict)
    deserved: dict[str, Fraction] = default(default_factory=dict)
    guarantee: _Guarantee = _Guarantee()
    reclaimable: bool = True
    parent: str = _ROOT
    priority: int = 0
    dequeue_strategy: Literal["fifo", "traverse"] = "traverse"


class _Status(Schema, frozen=True):
    state: str = "Open"


def read_volcano(dump: Dump, total: Mapping[str, int]) -> Queues:
    """Return the queues.

    :param total: the resources of the nodes, which the root owns.
    """
    items = {item.meta.name: item for item in dump.kinds[VOLCANO_QUEUE]}
    specs = {name: dump.read(item, _Queue) for name, item in items.items()}
    root = specs.pop(_ROOT, _Queue())
    if root.capability or root.deserved:
        dump.remark("Queue", _ROOT, "its limits are not read; it has what the nodes have")
    by_weight = not any(spec.deserved for spec in specs.values())
    for name, spec in specs.items():
        _remark(dump, items[name], spec, by_weight)
    parents = {name: "" if spec.parent == _ROOT else spec.parent for name, spec in specs.items()}
    own = {name: dump.units(spec.guarantee.resource) for name, spec in specs.items()}
    if not by_weight:
        own = {name: own[name] | dump.units(spec.deserved) for name, spec in specs.items()}
    limits = {name: dump.units(spec.capability) for name, spec in specs.items()}
    said = [name for amounts in (*limits.values(), *own.values()) for name in amounts]
    names = list(dict.fromkeys([*said, *(name for name in _ALWAYS if name in total)]))
    have, least = filled(total, names), with_children(own, parents, names, "Queue")
    quotas = [
        _quota(name, parents[name], have | limits[name], low, specs[name], by_weight)
        for name, low in least.items()
    ]
    return Queues(
        "Volcano",
        quotas,
        total=have,
        limit="runtime" if by_weight else "max",
        strict={name for name, spec in specs.items() if spec.dequeue_strategy == "fifo"},
        users={name: name for name in specs},
    )


def _quota(
    name: str,
    parent: str,
    most: Mapping[str, int],
    least: Mapping[str, int],
    spec: _Queue,
    by_weight: bool,
) -> Quota:
    low = {resource: min(amount, most[resource]) for resource, amount in least.items()}
    weight = dict.fromkeys(most, spec.weight if by_weight else 0)
    lends = not (by_weight and spec.guarantee.resource)
    return Quota(name, parent=parent, max=most, min=low, weight=weight, lends=lends)


def _remark(dump: Dump, item: Object, spec: _Queue, by_weight: bool) -> None:
    def say(holds: Any, text: str) -> None:
        if holds:
            dump.remark(item.kind, item.meta.name, text)

    state = dump.read(item, _Status, "status", whole=False).state
    say(state != "Open", f"is {state}; here its jobs start")
    say(not spec.reclaimable, "reclaimable is false; here others take back what it has borrowed")
    say(spec.priority, "priority does not count; of equal jobs the first one comes first")
    if not by_weight:
        say(spec.weight != 1, "weight does not count, as queues say what they deserve")
        text = "guarantee is not kept; all that is idle is lent, and taken back on demand"
        say(spec.guarantee.resource, text)
