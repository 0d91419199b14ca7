"""Reads quotas from a YAML file: Kubernetes objects, or hivecore's short form.

The short form, with amounts as in Kubernetes (``cpu: 1.5``, ``memory: 64Gi``)::

    total: {cpu: 64, gpu: 16}
    quotas:
      research: {max: {cpu: 64, gpu: 16}, min: {cpu: 32, gpu: 8}}
      vision: {parent: research, max: {cpu: 64, gpu: 16}, weight: {gpu: 2}, lends: false}
    owners:
      train: {quota: vision, amounts: {cpu: 4, gpu: 1}, count: 8, running: 8, priority: 5}

``trees`` may have the totals of other trees: ``pool: {total: {gpu: 8}, carved: true}``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hivecore._quantities import resource_meant
from hivecore.interop.koordinator.quotas.amounts import read_resources, read_weights
from hivecore.interop.koordinator.quotas.cluster import read_quota_cluster
from hivecore.interop.kubernetes.documents import check_is_object, objects_of, read_yaml
from hivecore.interop.kubernetes.fields import Field
from hivecore.quotas import Quota, QuotaRequest, QuotaTree, quota_rules

__all__ = ["QuotaFile", "read_quota_file"]

_PARTS = ("total", "trees", "quotas", "owners")
_OF_TREE = ("total", "carved")
_FLAGS = ("lends", "scales", "outside")
_OF_QUOTA = ("parent", "max", "min", "weight", "tree", *_FLAGS)
_OF_OWNER = ("quota", "amounts", "count", "min_count", "running", "priority", "preemptible")
_MANY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """The content of a file.

    :param tree: its quotas and their owners.
    :param remarks: what the tree leaves out, a sentence each.
    """

    tree: QuotaTree
    remarks: tuple[str, ...] = ()


def read_quota_file(text: str, *, total: Mapping[str, Any] | None = None) -> QuotaFile:
    """Return the quota tree in a YAML text.

    :param text: Kubernetes objects, see `hivecore.interop.koordinator.read_quota_cluster`, or the
        short form: a document with the key ``quotas``.
    :param total: of the default tree, quantities by resource; by default that of the nodes or the
        text.
    :raises ValueError: the text is not YAML; a value is out of range or missing; quotas contradict
        each other; the default tree has no total. The message has the path.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is missing.

    >>> from hivecore.interop.quota_file import read_quota_file
    >>> file = read_quota_file('''
    ... total: {cpu: 8}
    ... quotas:
    ...   lab: {max: {cpu: 6}, min: {cpu: 1500m}}
    ... owners:
    ...   train: {quota: lab, amounts: {cpu: 2}, count: 4, running: 1}
    ... ''')
    >>> file.tree.runtime("lab"), file.tree.status("lab").used
    ({'cpu': 6000}, {'cpu': 2000})
    """
    given = None if total is None else read_resources(Field(total, "total"))
    documents = [
        entry
        for document in read_yaml(Field(text, "the text"))
        for entry in (document if isinstance(document, list) else [document])
        if entry is not None
    ]
    alone = documents[0] if len(documents) == 1 else None
    if isinstance(alone, Mapping) and not alone.keys().isdisjoint(_PARTS):
        file = QuotaFile(_short_form(Field(alone), given))
    else:
        file = _of_objects(documents, given)
    _check_total(file.tree, given, "total")
    return file


def _of_objects(documents: list[Any], total: dict[str, int] | None) -> QuotaFile:
    alone = len(documents) == 1 and isinstance(documents[0], Mapping)
    given = documents[0] if alone else documents
    for document in objects_of(given, "objects"):
        check_is_object(document.value)
    cluster = read_quota_cluster(given, total=total)
    if not cluster.quotas.quotas:
        raise ValueError("there is no object of kind ElasticQuota, and no key 'quotas'")
    default = [quota for quota in cluster.quotas.quotas if not quota.parent and not quota.tree]
    shared = any(not quota.outside for quota in default)
    if shared and total is None and not cluster.nodes:
        raise ValueError("total: is missing, and there are no nodes that would say it")
    remarks = []
    if (count := len(cluster.free)) > 0:
        others = f" and {count - 1} more" if count > 1 else ""
        verb = "belong" if count > 1 else "belongs"
        remarks.append(f"{cluster.free[0]}{others} {verb} to no quota.")
    return QuotaFile(cluster.tree, tuple(remarks))


def _short_form(document: Field, total: dict[str, int] | None) -> QuotaTree:
    document.among(_PARTS)
    quotas = [_quota(name, field) for name, field in document["quotas"].items()]
    if not quotas:
        raise document["quotas"].error("is empty")
    for broken in quota_rules(quotas, same_dimensions=False):
        if broken.rule != "min":
            raise document["quotas"].error(str(broken))
    own = document["total"]
    if total is None and own.value is not None:
        total = read_resources(own)
    if total is None and any(not (quota.parent or quota.tree or quota.outside) for quota in quotas):
        raise own.error("is missing")
    with document["quotas"].named():
        tree = QuotaTree(quotas, total=total)
    _check_total(tree, total, "total")
    trees = sorted({quota.tree for quota in quotas if quota.tree})
    for name, field in document["trees"].items():
        field.among(_OF_TREE)
        if not name:
            raise field.error("is the default tree, whose total is that of the file")
        amounts, carved = read_resources(field["total"]), field["carved"].flag()
        _check_total(tree, amounts, field["total"].path)
        if name not in trees:
            raise field.error(f"no quota is in it; trees of quotas: {', '.join(trees) or 'none'}")
        with field.named():
            tree.set_total(amounts, tree=name, carved=carved)
    names = {quota.name for quota in quotas}
    resources = dict.fromkeys(resource for quota in quotas for resource, _ in quota.max)
    for name, field in document["owners"].items():
        request, running = _owner(name, field)
        if request.quota not in names:
            raise field["quota"].error(f"there is no quota {request.quota!r}")
        for resource, _ in request.amounts:
            if resource not in resources and (meant := resource_meant(resource, resources)):
                raise field["amounts"][resource].error(f"no quota has it; is {meant} meant?")
        with field.named():
            tree.recover(request, running)
    return tree


def _quota(name: str, field: Field) -> Quota:
    field.among(_OF_QUOTA)
    weight = field["weight"]
    fields: dict[str, Any] = {
        "parent": field["parent"].text(),
        "max": read_resources(field["max"]),
        "min": read_resources(field["min"]),
        "weight": None if weight.value is None else read_weights(weight),
        "tree": field["tree"].text(),
    }
    fields.update((key, field[key].flag()) for key in _FLAGS if key in field)
    with field.named():
        return Quota(name, **fields)


def _owner(name: str, field: Field) -> tuple[QuotaRequest, int]:
    """Return an owner's request, and the number of its members that run."""
    field.among(_OF_OWNER)
    quota, amounts = field["quota"].name(), read_resources(field["amounts"])
    count = field["count"].integer(1, _MANY) if "count" in field else 1
    numbers = {"min_count": (1, count), "priority": (-_MANY - 1, _MANY)}
    fields: dict[str, Any] = {
        key: field[key].integer(*limits) for key, limits in numbers.items() if key in field
    }
    if "preemptible" in field:
        fields["preemptible"] = field["preemptible"].flag()
    running = field["running"].integer(0, count) if "running" in field else 0
    with field.named():
        return QuotaRequest(name, quota, amounts, count=count, **fields), running


def _check_total(tree: QuotaTree, total: Mapping[str, int] | None, path: str) -> None:
    """Refuse a resource that no quota has, which is probably misspelt."""
    known = {dimension for name in tree.quotas for dimension, _ in tree.quota(name).max}
    for resource in total or ():
        if resource not in known:
            have = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{path}: no quota has {resource!r}; resources of quotas: {have}")
