"""Reads KAI-Scheduler's Queues as quotas.

A quota becomes `min`. Spare resources are divided by weight, and a queue may reclaim its fair
share. It may use idle resources up to its limit.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Annotated

from msgspec import Meta

from hivecore.interop.cluster_dump._objects import Dump, Schema
from hivecore.interop.cluster_dump._queues import Queues, filled, with_children
from hivecore.interop.koordinator.quotas.amounts import MOST
from hivecore.quotas import Quota

__all__ = ["KAI_QUEUE", "read_kai"]

KAI_QUEUE = "Queue.scheduling.run.ai"
_FINEST = 1000  # a weight's denominator
_NORMAL = 100  # the default priority of a queue


#: -1: no limit
_Amount = Annotated[float, Meta(ge=-1, le=MOST)]


class _Resource(Schema, frozen=True):
    quota: _Amount = 0.0
    limit: _Amount = 0.0
    over_quota_weight: Annotated[float, Meta(ge=0, le=2**30)] = 0.0
    lending_limit: _Amount | None = None


class _Resources(Schema, frozen=True):
    gpu: _Resource = _Resource()
    cpu: _Resource = _Resource()
    memory: _Resource = _Resource()


class _Queue(Schema, frozen=True):
    display_name: str = ""
    parent_queue: str = ""
    resources: _Resources = _Resources()
    priority: int = _NORMAL


#: What a number in the file means in units of quotas: GPUs, thousandths of a core, bytes.
_UNITS = {"gpu": 1, "cpu": 1, "memory": 1_000_000}


def read_kai(dump: Dump, total: Mapping[str, int]) -> Queues:
    """Return the queues.

    :param total: the resources of the nodes.
    """
    specs = {item.meta.name: dump.read(item, _Queue) for item in dump.kinds[KAI_QUEUE]}
    for name, spec in specs.items():
        _remark(dump, name, spec)
    parents = {name: spec.parent_queue for name, spec in specs.items()}
    have = filled(total, _UNITS)
    own = {name: _amounts(spec, "quota", have) for name, spec in specs.items()}
    least = with_children(own, parents, _UNITS, "Queue")
    quotas = [_quota(name, specs[name], low, have) for name, low in least.items()]
    users = {name: name for name in specs if name not in parents.values()}
    return Queues("KAI-Scheduler", quotas, total=have, users=users)


def _amounts(spec: _Queue, key: str, unlimited: Mapping[str, int]) -> dict[str, int]:
    """Return a queue's amounts; -1 means the total."""
    given = {name: getattr(getattr(spec.resources, name), key) for name in _UNITS}
    return {
        name: unlimited[name] if amount < 0 else min(MOST, ceil(Fraction(amount) * _UNITS[name]))
        for name, amount in given.items()
    }


def _quota(name: str, spec: _Queue, least: Mapping[str, int], have: Mapping[str, int]) -> Quota:
    limit = _amounts(spec, "limit", {key: max(have[key], least[key]) for key in have})
    own = _amounts(spec, "quota", have)
    most = {key: max(limit[key], own[key]) for key in _UNITS}
    weights = {
        key: ceil(Fraction(getattr(spec.resources, key).over_quota_weight) * _FINEST)
        for key in _UNITS
    }
    low = {key: min(least[key], most[key]) for key in _UNITS}
    return Quota(name, parent=spec.parent_queue, max=most, min=low, weight=weights)


def _remark(dump: Dump, name: str, spec: _Queue) -> None:
    if spec.priority != _NORMAL:
        dump.remark("Queue", name, "priority does not count; what is spare is shared by weight")
    for key in _UNITS:
        amounts: _Resource = getattr(spec.resources, key)
        if 0 <= amounts.limit < amounts.quota or amounts.quota < 0 <= amounts.limit:
            dump.remark("Queue", name, f"the limit of {key} is below its quota, which counts")
        if not amounts.quota.is_integer() or not amounts.limit.is_integer():
            dump.remark("Queue", name, f"{key} is rounded up to whole units")
        if amounts.lending_limit is not None:
            text = f"lendingLimit of {key} is not kept; all that is idle is lent"
            dump.remark("Queue", name, f"{text}, and taken back on demand")
