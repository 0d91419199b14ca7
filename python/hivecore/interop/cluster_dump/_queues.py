"""What any of the systems says of queues, in the terms of a scheduler's file."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hivecore.interop.koordinator.quotas.amounts import MOST, write_amount
from hivecore.quotas import Limit, Quota

__all__ = ["Queues", "filled", "path_of", "with_children"]


@dataclass(slots=True)
class Queues:
    """Queues with their quotas.

    :param system: the scheduler whose they are.
    :param quotas: in the order of the objects.
    :param total: what the quotas at the top have together; ``None``: what the nodes have.
    :param limit: as of `hivecore.quotas.QuotaTree`.
    :param order: of the queues, as in the file; "priority": all jobs are in one queue.
    :param weights: of the queues.
    :param strict: the queues in which a job that cannot start blocks those behind it.
    :param preemption: whether any job may have to leave.
    :param users: by the queue that jobs name the quota.
    """

    system: str
    quotas: list[Quota]
    total: Mapping[str, int] | None = None
    limit: Limit = "max"
    order: str = "priority"
    weights: Mapping[str, int] = field(default_factory=dict)
    strict: Collection[str] = ()
    preemption: bool = True
    users: Mapping[str, str] = field(default_factory=dict)

    def sections(self) -> dict[str, Any]:
        """The sections of a scheduler's file that are not about nodes."""
        order = "arrival" if self.strict and self.order == "priority" else self.order
        quotas = {} if self.total is None else {"total": _written(self.total.items())}
        return {
            "tenants": {quota.name: self._tenant(quota, order) for quota in self.quotas},
            "queues": {"order": order},
            "quotas": {"limit": self.limit, **quotas},
            "scheduler": {"preemption": self.preemption},
        }

    def _tenant(self, quota: Quota, order: str) -> dict[str, Any]:
        tenant: dict[str, Any] = {}
        if order == "weighted" and quota.name in self.weights:
            tenant["weight"] = self.weights[quota.name]
        if quota.name in self.strict:
            tenant["blocking"] = "fifo"
        return {**tenant, "quota": _section(quota)}


def _section(quota: Quota) -> dict[str, Any]:
    """A quota as the file has it, without what it has by default."""
    section: dict[str, Any] = {"parent": quota.parent} if quota.parent else {}
    section |= {"max": _written(quota.max), "min": _written(quota.min)}
    if quota.weight is not None:
        section["weight"] = _written(quota.weight)
    for key, usual in {"lends": True, "scales": True, "outside": False}.items():
        if getattr(quota, key) != usual:
            section[key] = not usual
    return section


def _written(amounts: Iterable[tuple[str, Any]]) -> dict[str, str]:
    return {name: write_amount(name, amount) for name, amount in amounts}


def filled(amounts: Mapping[str, int], names: Iterable[str], missing: int = 0) -> dict[str, int]:
    """The amounts of all these resources."""
    return {name: min(amounts.get(name, missing), MOST) for name in names}


def path_of(name: str, parents: Mapping[str, str], kind: str) -> list[str]:
    """The queue and all above it.

    :raises ValueError: a parent is missing, or a queue is above itself.
    """
    path = [name]
    while parent := parents[path[-1]]:
        if parent not in parents:
            raise ValueError(f"{kind} {path[-1]!r}: there is no parent {parent!r}")
        if parent in path:
            raise ValueError(f"{kind} {parent!r} is above itself")
        path.append(parent)
    return path


def with_children(
    own: Mapping[str, Mapping[str, int]],
    parents: Mapping[str, str],
    names: Iterable[str],
    kind: str,
) -> dict[str, dict[str, int]]:
    """By queue, parents first, its minimums: at least those of its children together."""
    resources = list(names)
    depths = {name: len(path_of(name, parents, kind)) for name in parents}
    order = sorted(parents, key=lambda name: depths[name])
    sums = {name: filled({}, resources) for name in order}
    for name in reversed(order):
        low = {key: max(own[name].get(key, 0), sums[name][key]) for key in resources}
        sums[name] = low
        if parent := parents[name]:
            for key in resources:
                sums[parent][key] += low[key]
    return {name: filled(low, resources) for name, low in sums.items()}
