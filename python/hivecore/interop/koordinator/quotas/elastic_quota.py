"""A single ElasticQuota object, its parent and its tree."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from hivecore._thousandths import Amount
from hivecore.interop.koordinator.quotas.amounts import read_resources
from hivecore.interop.koordinator.quotas.names import (
    ALLOW_LENT,
    API_VERSION,
    DEFAULT_QUOTA,
    IGNORE_DEFAULT_TREE,
    IS_PARENT,
    IS_ROOT,
    KIND,
    NAMESPACES,
    PARENT,
    ROOT_QUOTA,
    SHARED_WEIGHT,
    SYSTEM_QUOTA,
    TOTAL_RESOURCE,
    TREE_ID,
)
from hivecore.interop.kubernetes.documents import check_kind
from hivecore.interop.kubernetes.fields import Field
from hivecore.quotas import Quota

__all__ = ["RESERVED", "ElasticQuota", "parent_of", "read_one", "tree_of", "weight_of"]

_LABELS = (PARENT, IS_PARENT, IS_ROOT, TREE_ID, ALLOW_LENT, IGNORE_DEFAULT_TREE)
_ANNOTATIONS = (SHARED_WEIGHT, TOTAL_RESOURCE, NAMESPACES)
_GROUP = PARENT.partition("/")[0]

#: Quotas whose use does not count against the total of a tree.
RESERVED = (SYSTEM_QUOTA, DEFAULT_QUOTA)


@dataclass(frozen=True, slots=True)
class ElasticQuota:
    """An ElasticQuota object.

    :param quota: has the tree of the object's label only if it is at the top.
    :param namespace: of the object.
    :param namespaces: whose pods belong to the quota.
    :param tree: from the label.
    :param is_parent: whether it holds quotas instead of pods.
    :param total: of its tree, if the object has it.
    :param carved: whether that total is taken off the default tree.
    :param field: the object.
    """

    quota: Quota
    namespace: str
    namespaces: tuple[str, ...]
    tree: str
    is_parent: bool
    total: Mapping[str, int] | None
    carved: bool
    field: Field


def read_one(field: Field) -> ElasticQuota:
    """Read a single object, without checks against others.

    :raises ValueError: a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.
    """
    check_kind(field, KIND, (API_VERSION,))
    metadata = field["metadata"]
    name, labels, annotations = metadata["name"].name(), metadata["labels"], metadata["annotations"]
    _check_keys(field)
    tree, parent = tree_of(field), parent_of(field)
    if name in RESERVED and (parent or tree):
        label = labels[PARENT if parent else TREE_ID]
        raise label.error(f"{name!r} is at the top of the default tree")
    most = read_resources(field["spec"]["max"])
    with field["spec"].named():
        quota = Quota(
            name,
            max=most,
            min=read_resources(field["spec"]["min"]),
            weight=weight_of(annotations[SHARED_WEIGHT], most),
            parent=parent,
            lends=labels[ALLOW_LENT].text() != "false",
            outside=name in RESERVED,
            tree="" if parent else tree,
        )
    total = annotations[TOTAL_RESOURCE]
    is_root = bool(tree) and labels[IS_ROOT].text() == "true"
    return ElasticQuota(
        quota,
        metadata["namespace"].text(),
        _namespaces(annotations[NAMESPACES]),
        tree,
        labels[IS_PARENT].text() == "true",
        read_resources(total.json()) if is_root and not total.absent else None,
        labels[IGNORE_DEFAULT_TREE].text() != "true",
        field,
    )


def _check_keys(field: Field) -> None:
    """Refuse misspelt keys, which would otherwise have no effect."""
    field["spec"].only("max", "min")
    for place, keys in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
        names = [key.partition("/")[2] for key in keys]
        for key, entry in field["metadata"][place].items():
            group, _, name = key.partition("/")
            if group != _GROUP or key in keys:
                continue
            near = get_close_matches(name.lower(), names, n=1, cutoff=0.9)
            if near:
                raise entry.error(f"is unknown, is {group}/{near[0]} meant?")


def parent_of(field: Field) -> str:
    """Return the name of the parent that an object's label names; "": it is at the top."""
    parent = field["metadata"]["labels"][PARENT].text()
    return "" if parent == ROOT_QUOTA else parent


def tree_of(field: Field) -> str:
    """Return the tree from the object's label."""
    return field["metadata"]["labels"][TREE_ID].text()


def weight_of(annotation: Field, most: Mapping[str, Amount]) -> dict[str, int] | None:
    """Return the weight by resource that an annotation gives a quota with these maximums.

    As in Koordinator, it is ``None`` if the annotation is missing, unreadable or all zero; then the
    maximums are the weights. Resources without a maximum are left out.

    :raises ValueError: a weight is negative, as in Koordinator's webhook.
    """
    if annotation.absent:
        return None
    try:
        values = annotation.json()
        entries = [entry for _, entry in values.items()]
    except (TypeError, ValueError):
        return None
    if any(_is_negative(entry) for entry in entries):
        raise annotation.error("a weight is negative")
    try:
        weights = read_resources(values)
    except (TypeError, ValueError):
        return None
    if not any(weights.values()):
        return None
    return {name: weight for name, weight in weights.items() if name in most}


def _is_negative(entry: Field) -> bool:
    value = entry.value
    if isinstance(value, str):
        return value.startswith("-") and value.strip("-0.") != ""
    return isinstance(value, (int, float)) and value < 0


def _namespaces(annotation: Field) -> tuple[str, ...]:
    if annotation.absent:
        return ()
    return tuple(entry.name() for entry in annotation.json().entries())
