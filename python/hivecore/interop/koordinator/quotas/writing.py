"""Writes a quota as an ElasticQuota object."""

from collections.abc import Mapping
from typing import Any

from hivecore._arguments import as_bool, as_instance, as_mapping
from hivecore._thousandths import Amount
from hivecore.interop.koordinator.quotas.amounts import (
    json_resources,
    read_resources,
    write_amount,
)
from hivecore.interop.koordinator.quotas.elastic_quota import RESERVED, read_one, weight_of
from hivecore.interop.koordinator.quotas.names import (
    ALLOW_LENT,
    API_VERSION,
    IS_PARENT,
    KIND,
    PARENT,
    ROOT_QUOTA,
    SHARED_WEIGHT,
    TREE_ID,
)
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.quotas import Quota

__all__ = ["write_elastic_quota"]


def write_elastic_quota(
    quota: Quota, record: Mapping[str, Any] | None = None, *, is_parent: bool | None = None
) -> dict[str, Any]:
    """Return the ElasticQuota object of a quota.

    Fields of ``record`` that agree with the quota or have no meaning here stay as they are written.

    :param quota: the state to write.
    :param record: the previous object, which is not changed; ``None`` makes a new one.
    :param is_parent: whether quotas may be below it; ``None`` keeps the record's value, false for a
        new object. The tree is written only for a quota at the top: Koordinator copies it down.
    :raises ValueError: the record cannot be read or is of another quota, or an object cannot
        express the quota: a weight of 0 in all dimensions means "as max" there, scaled minimums are
        an option of the whole scheduler, and only the two reserved quotas are outside the total.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.koordinator import write_elastic_quota
    >>> from hivecore.quotas import Quota
    >>> record = {"metadata": {"name": "lab", "uid": "kept"}, "spec": {"max": {"cpu": "40"}}}
    >>> lab = Quota("lab", max={"cpu": 40_000}, min={"cpu": 1500})
    >>> written = write_elastic_quota(lab, record)
    >>> written["metadata"]["uid"], written["spec"]
    ('kept', {'max': {'cpu': '40'}, 'min': {'cpu': '1500m'}})
    """
    as_instance(quota, "quota", Quota)
    given = {} if record is None else as_mapping(record, "record")
    with named_object(Field(given), KIND):
        named = dict(Field(given)["metadata"].items())
    values = {key: field.value for key, field in named.items()}
    before = Field({**given, "metadata": {"name": quota.name, **values}})
    with named_object(before, KIND):
        old = read_one(before)
        _check(quota, old.quota)
        written = {"apiVersion": API_VERSION, "kind": KIND, **before.value}
        metadata = dict(written["metadata"])
        labels = dict(metadata.get("labels") or {})
        annotations = dict(metadata.get("annotations") or {})
        if quota.parent != old.quota.parent:
            labels[PARENT] = quota.parent or ROOT_QUOTA
        if not quota.parent and quota.tree != old.tree:
            _put(labels, TREE_ID, quota.tree or None)
        if quota.lends != old.quota.lends:
            labels[ALLOW_LENT] = "true" if quota.lends else "false"
        if is_parent is not None and as_bool(is_parent, "is_parent") != old.is_parent:
            labels[IS_PARENT] = "true" if is_parent else "false"
        _set_weight(quota, annotations, before["metadata"]["annotations"][SHARED_WEIGHT])
        for key, value in (("labels", labels), ("annotations", annotations)):
            if value != (metadata.get(key) or {}):
                metadata[key] = value
        written["metadata"] = metadata
        spec = dict(written.get("spec") or {})
        for key, now, then in (
            ("max", quota.max, old.quota.max),
            ("min", quota.min, old.quota.min),
        ):
            if now != then:
                _put(spec, key, _resources(dict(now), before["spec"][key]) or None)
        if spec != (written.get("spec") or {}):
            written["spec"] = spec
    return written


def _check(quota: Quota, old: Quota) -> None:
    if quota.name != old.name:
        raise ValueError(f"metadata.name: the quota is {quota.name!r}")
    if not quota.scales:
        raise ValueError(f"scales: no object can say that the min of {quota.name!r} does not")
    if quota.outside != (quota.name in RESERVED):
        raise ValueError(f"outside: is for {' and '.join(RESERVED)}, and for no others")


def _set_weight(quota: Quota, annotations: dict[str, Any], before: Field) -> None:
    wanted = None if quota.weight is None else dict(quota.weight)
    if wanted == weight_of(before, dict(quota.max)):
        return
    if wanted is not None and not any(wanted.values()):
        raise ValueError("weight: is 0 throughout, which means 'as max' in a shared-weight")
    _put(annotations, SHARED_WEIGHT, None if wanted is None else json_resources(wanted))


def _put(entries: dict[str, Any], key: str, value: Any) -> None:
    """Set a value in place, or remove the key for ``None``."""
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


def _resources(amounts: dict[str, Amount], before: Field) -> dict[str, Any]:
    old = read_resources(before)
    kept = {name: before[name].value for name in old if old[name] == amounts.get(name)}
    new = {name: write_amount(name, amounts[name]) for name in amounts if name not in kept}
    order = [*(name for name in old if name in amounts), *(name for name in new if name not in old)]
    return {name: kept[name] if name in kept else new[name] for name in order}
