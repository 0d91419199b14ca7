"""The ElasticQuota objects of a cluster, held against each other."""

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
    """What a tree has, as the quota at its root says.

    :param tree: which.
    :param amounts: by dimension.
    :param carved: whether that is taken off what the default tree has.
    """

    tree: str
    amounts: Mapping[str, int]
    carved: bool


class ElasticQuotas(Record, frozen=True, gc=True, dict=True):
    """The quotas of a cluster, and which pods are theirs.

    :param quotas: in the order of the objects. The quotas for pods of the system and for those
        without a quota are outside of what is shared out.
    :param totals: of the trees whose root says it, sorted; what the default tree has, the nodes
        say.
    :param namespaces: by namespace the quota of its pods, if these name none themselves.
    :param parents: the names of quotas that are for other quotas, not for pods.
    """

    quotas: tuple[Quota, ...]
    totals: tuple[TreeTotal, ...] = ()
    namespaces: Mapping[str, str] = {}
    parents: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> Mapping[str, Quota]:
        """The quotas by their names."""
        return {one.name: one for one in self.quotas}

    def tree(self, total: Mapping[str, int] | None = None, **options: Any) -> QuotaTree:
        """A `QuotaTree` of these quotas.

        :param total: what the default tree has, those that are carved out of it included.
        :param options: of `QuotaTree`.
        :raises ValueError: quotas do not go together; see `QuotaTree`.
        :raises TypeError: an argument is of a wrong type.

        >>> from hivecore.interop.koordinator import read_elastic_quotas
        >>> team = {"metadata": {"name": "team-a"}, "spec": {"max": {"cpu": 40}}}
        >>> read_elastic_quotas(team).tree({"cpu": 64_000}).quota("team-a").max
        (('cpu', 40000),)
        """
        made = QuotaTree(self.quotas, total=total, **options)
        for one in self.totals:
            made.set_total(one.amounts, tree=one.tree, carved=one.carved)
        return made


def read_elastic_quotas(objects: Objects) -> ElasticQuotas:
    """The quotas of a cluster.

    :param objects: of kind ElasticQuota as plain data: one, several, a List, or YAML text. Objects
        of other kinds, those being deleted, and what has no meaning here are not looked at.
    :raises ValueError: something is out of range, or breaks a rule: a name is there twice; a parent
        is missing, is none by its label, has no max of some resource, or is in another tree; a
        namespace has two quotas; a tree has two totals; a key is misspelt. The message names the
        object and has the path.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: it is text, and PyYAML is not there.

    Amounts are thousandths of a core for ``cpu``, and whole units of everything else, rounded up;
    what is above 2**62 is 2**62. ``koordinator-root-quota`` is no quota here: what is below it is
    at the top. Source: Koordinator, ``apis/extension/elastic_quota.go``,
    ``pkg/webhook/elasticquota``. A total or namespaces that cannot be read are an error; there they
    have no effect.

    >>> from hivecore.interop.koordinator import read_elastic_quotas
    >>> prefix = "quota.scheduling.koordinator.sh"
    >>> found = read_elastic_quotas([
    ...     {"metadata": {"name": "lab", "labels": {f"{prefix}/is-parent": "true"}},
    ...      "spec": {"max": {"cpu": 40, "memory": "80Gi"}, "min": {"cpu": "2500m"}}},
    ...     {"metadata": {"name": "vision", "labels": {f"{prefix}/parent": "lab"},
    ...                   "annotations": {f"{prefix}/namespaces": '["images"]'}},
    ...      "spec": {"max": {"cpu": 40, "memory": "80Gi"}}},
    ... ])
    >>> found.quotas[0].min, found.quotas[1].parent, found.namespaces
    ((('cpu', 2500),), 'lab', {'images': 'vision'})
    """
    return quotas_among(objects_of(objects, "objects"))


def quotas_among(documents: Iterable[Field]) -> ElasticQuotas:
    """The quotas among objects of any kind; else as `read_elastic_quotas`."""
    named: dict[str, ElasticQuota] = {}
    for document in documents:
        with named_object(document, KIND):
            if document["kind"].text() not in ("", KIND):
                continue
            metadata = document["metadata"]
            if "deletionTimestamp" in metadata or metadata["name"].text() == ROOT_QUOTA:
                continue
            one = read_one(document)
            if one.quota.name in named:
                raise metadata["name"].error(f"{one.quota.name!r} is there twice")
            named[one.quota.name] = one
    for one in named.values():
        with named_object(one.field, KIND):
            _check_parent(one, named)
    return ElasticQuotas(
        tuple(one.quota for one in named.values()),
        _totals(named.values()),
        _namespaces(named.values()),
        frozenset(name for name, one in named.items() if one.is_parent),
    )


def _check_parent(one: ElasticQuota, named: Mapping[str, ElasticQuota]) -> None:
    if not one.quota.parent:
        return
    labels = one.field["metadata"]["labels"]
    parent = named.get(one.quota.parent)
    if parent is None:
        raise labels[PARENT].error(f"there is no quota {one.quota.parent!r}")
    if not parent.is_parent:
        raise labels[PARENT].error(
            f"{one.quota.parent!r} is no parent: its label {IS_PARENT} is not 'true'"
        )
    known = dict(parent.quota.max)
    for resource, _ in one.quota.max:
        if resource not in known:
            raise one.field["spec"]["max"][resource].error(
                f"{parent.quota.name!r} has no max of it"
            )
    top, seen = parent, {one.quota.name}
    while top.quota.parent in named and top.quota.name not in seen:
        seen.add(top.quota.name)
        top = named[top.quota.parent]
    if top is one:
        raise labels[PARENT].error(f"{one.quota.name!r} is above itself")
    if one.tree and one.tree != top.tree:
        raise labels[TREE_ID].error(
            f"{one.tree!r} is not the tree of {top.quota.name!r} at its top, {top.tree!r}"
        )


def _totals(quotas: Iterable[ElasticQuota]) -> tuple[TreeTotal, ...]:
    found: dict[str, TreeTotal] = {}
    for one in quotas:
        if one.total is not None:
            if one.tree in found:
                with named_object(one.field, KIND):
                    annotation = one.field["metadata"]["annotations"][TOTAL_RESOURCE]
                    raise annotation.error(f"tree {one.tree!r} has a total already")
            found[one.tree] = TreeTotal(one.tree, one.total, one.carved)
    return tuple(found[tree] for tree in sorted(found))


def _namespaces(quotas: Iterable[ElasticQuota]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in quotas:
        for namespace in one.namespaces:
            if found.setdefault(namespace, one.quota.name) != one.quota.name:
                with named_object(one.field, KIND):
                    annotation = one.field["metadata"]["annotations"][NAMESPACES]
                    raise annotation.error(f"{namespace!r} is of {found[namespace]!r} already")
    # A quota that is called like the namespace that it is in comes first.
    found.update((q.namespace, q.namespace) for q in quotas if q.quota.name == q.namespace)
    return found
