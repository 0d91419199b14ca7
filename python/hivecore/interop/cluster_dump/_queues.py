"""Queues of any of these systems, as sections of a scheduler's file."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hivecore.interop.koordinator.quotas.amounts import MOST, write_amount
from hivecore.quotas import Limit, Quota

__all__ = ["Queues", "filled", "path_of", "with_children"]


@dataclass(slots=True)
class Queues:
    """Queues with their quotas.

    :param system: the scheduler that they belong to.
    :param quotas: in the order of the objects.
    :param total: of the top quotas together; by default what the nodes have.
    :param limit: as in `hivecore.quotas.QuotaTree`.
    :param order: of the queues, as in the file; "priority" puts all jobs into one queue.
    :param weights: by queue.
    :param strict: queues in which a blocked job blocks all later ones.
    :param preemption: whether jobs may be preempted.
    :param users: queue that jobs name -> quota.
    :param of_pod: the quota of a pod, where its namespace may say it.
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
    of_pod: Callable[[Mapping[str, Any]], str | None] | None = None

    def sections(self) -> dict[str, Any]:
        """Return the sections of a scheduler's file, except for the nodes."""
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
    """Return a quota's section, without defaults."""
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
    """Return the amounts with an entry for each of these resources."""
    return {name: min(amounts.get(name, missing), MOST) for name in names}


def path_of(name: str, parents: Mapping[str, str], kind: str) -> list[str]:
    """Return the queue and its ancestors.

    :raises ValueError: a parent is missing, or a queue is its own ancestor.
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
    """Return each queue's minimums, at least the sum of its children's; parents come first."""
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
