"""The ElasticQuota objects of a cluster, checked against each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hivecore._record import Record
from hivecore.interop.koordinator.quotas.elastic_quota import ElasticQuota, read_one
from hivecore.interop.koordinator.quotas.names import (
    IS_PARENT,
    KIND,
    NAMESPACES,
    PARENT,
    ROOT_QUOTA,
    TOTAL_RESOURCE,
    TREE_ID,
)
from hivecore.interop.kubernetes.documents import Objects, named_object, objects_of
from hivecore.interop.kubernetes.fields import Field
from hivecore.quotas import Quota, QuotaTree

__all__ = ["ElasticQuotas", "TreeTotal", "quotas_among", "read_elastic_quotas"]


@dataclass(frozen=True, slots=True)
class TreeTotal:
    """The total of a tree, from the quota at its root.

    :param tree: its name.
    :param amounts: by dimension.
    :param carved: whether it is taken off the total of the default tree.
    """

    tree: str
    amounts: Mapping[str, int]
    carved: bool


class ElasticQuotas(Record, frozen=True, gc=True, dict=True):
    """The quotas of a cluster, and the pods that belong to them.

    :param quotas: in the order of the objects. The quotas for system pods and for pods without a
        quota do not count against the total.
    :param totals: of trees whose root has one, sorted. The default tree's total comes from the
        nodes.
    :param namespaces: namespace -> the quota of its pods that name none.
    :param parents: the names of quotas that hold quotas instead of pods.
    """

    quotas: tuple[Quota, ...]
    totals: tuple[TreeTotal, ...] = ()
    namespaces: Mapping[str, str] = {}
    parents: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> Mapping[str, Quota]:
        """The quotas by name."""
        return {quota.name: quota for quota in self.quotas}

    def tree(self, total: Mapping[str, int] | None = None, **options: Any) -> QuotaTree:
        """Return a `QuotaTree` of these quotas.

        :param total: of the default tree, including the trees that are carved out of it.
        :param options: of `QuotaTree`.
        :raises ValueError: quotas contradict each other; see `QuotaTree`.
        :raises TypeError: an argument has a wrong type.

        >>> from hivecore.interop.koordinator import read_elastic_quotas
        >>> team = {"metadata": {"name": "team-a"}, "spec": {"max": {"cpu": 40}}}
        >>> read_elastic_quotas(team).tree({"cpu": 64_000}).quota("team-a").max
        (('cpu', 40000),)
        """
        tree = QuotaTree(self.quotas, total=total, **options)
        for root in self.totals:
            tree.set_total(root.amounts, tree=root.tree, carved=root.carved)
        return tree


def read_elastic_quotas(objects: Objects) -> ElasticQuotas:
    """Return the quotas of a cluster.

    :param objects: ElasticQuota objects as plain data: one, several, a List, or YAML text. Other
        kinds, objects that are being deleted, and fields without a meaning here are ignored.
    :raises ValueError: a value is out of range; a name is used twice; a parent is missing, lacks
        the label of a parent, lacks a maximum that its child has, or is in another tree; a
        namespace has two quotas; a tree has two totals; a key is misspelt. The message names the
        object and has the path.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is needed to read text.

    ``cpu`` is counted in thousandths of a core, everything else in whole units, rounded up, at most
    2**62. ``koordinator-root-quota`` is not a quota here; its children are at the top. Unlike in
    Koordinator, a total or namespaces that cannot be read are an error. Source: Koordinator,
    ``apis/extension/elastic_quota.go``, ``pkg/webhook/elasticquota``.

    >>> from hivecore.interop.koordinator import read_elastic_quotas
    >>> prefix = "quota.scheduling.koordinator.sh"
    >>> quotas = read_elastic_quotas([
    ...     {"metadata": {"name": "lab", "labels": {f"{prefix}/is-parent": "true"}},
    ...      "spec": {"max": {"cpu": 40, "memory": "80Gi"}, "min": {"cpu": "2500m"}}},
    ...     {"metadata": {"name": "vision", "labels": {f"{prefix}/parent": "lab"},
    ...                   "annotations": {f"{prefix}/namespaces": '["images"]'}},
    ...      "spec": {"max": {"cpu": 40, "memory": "80Gi"}}},
    ... ])
    >>> quotas.quotas[0].min, quotas.quotas[1].parent, quotas.namespaces
    ((('cpu', 2500),), 'lab', {'images': 'vision'})
    """
    return quotas_among(objects_of(objects, "objects"))


def quotas_among(documents: Iterable[Field]) -> ElasticQuotas:
    """As `read_elastic_quotas`, for objects of any kind."""
    named: dict[str, ElasticQuota] = {}
    for document in documents:
        with named_object(document, KIND):
            if document["kind"].text() not in ("", KIND):
                continue
            metadata = document["metadata"]
            if "deletionTimestamp" in metadata or metadata["name"].text() == ROOT_QUOTA:
                continue
            record = read_one(document)
            if record.quota.name in named:
                raise metadata["name"].error(f"{record.quota.name!r} is there twice")
            named[record.quota.name] = record
    for record in named.values():
        with named_object(record.field, KIND):
            _check_parent(record, named)
    return ElasticQuotas(
        tuple(record.quota for record in named.values()),
        _totals(named.values()),
        _namespaces(named.values()),
        frozenset(name for name, record in named.items() if record.is_parent),
    )


def _check_parent(child: ElasticQuota, named: Mapping[str, ElasticQuota]) -> None:
    if not child.quota.parent:
        return
    labels = child.field["metadata"]["labels"]
    parent = named.get(child.quota.parent)
    if parent is None:
        raise labels[PARENT].error(f"there is no quota {child.quota.parent!r}")
    if not parent.is_parent:
        raise labels[PARENT].error(
            f"{child.quota.parent!r} is no parent: its label {IS_PARENT} is not 'true'"
        )
    known = dict(parent.quota.max)
    for resource, _ in child.quota.max:
        if resource not in known:
            raise child.field["spec"]["max"][resource].error(
                f"{parent.quota.name!r} has no max of it"
            )
    top, seen = parent, {child.quota.name}
    while top.quota.parent in named and top.quota.name not in seen:
        seen.add(top.quota.name)
        top = named[top.quota.parent]
    if top is child:
        raise labels[PARENT].error(f"{child.quota.name!r} is above itself")
    if child.tree and child.tree != top.tree:
        raise labels[TREE_ID].error(
            f"{child.tree!r} is not the tree of {top.quota.name!r} at its top, {top.tree!r}"
        )


def _totals(quotas: Iterable[ElasticQuota]) -> tuple[TreeTotal, ...]:
    totals: dict[str, TreeTotal] = {}
    for record in quotas:
        if record.total is not None:
            if record.tree in totals:
                with named_object(record.field, KIND):
                    annotation = record.field["metadata"]["annotations"][TOTAL_RESOURCE]
                    raise annotation.error(f"tree {record.tree!r} has a total already")
            totals[record.tree] = TreeTotal(record.tree, record.total, record.carved)
    return tuple(totals[tree] for tree in sorted(totals))


def _namespaces(quotas: Iterable[ElasticQuota]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for record in quotas:
        for namespace in record.namespaces:
            if owners.setdefault(namespace, record.quota.name) != record.quota.name:
                with named_object(record.field, KIND):
                    annotation = record.field["metadata"]["annotations"][NAMESPACES]
                    raise annotation.error(f"{namespace!r} is of {owners[namespace]!r} already")
    # A quota with the name of its own namespace takes precedence.
    owners.update((q.namespace, q.namespace) for q in quotas if q.quota.name == q.namespace)
    return owners
