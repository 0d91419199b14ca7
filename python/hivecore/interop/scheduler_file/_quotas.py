"""The quotas of tenants or of Koordinator's objects, and the total that they divide."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, get_args

from hivecore._quantities import resource_meant
from hivecore._thousandths import Amount
from hivecore.interop.koordinator import ElasticQuotas, read_elastic_quotas
from hivecore.interop.koordinator.quotas.amounts import write_amount
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place
from hivecore.interop.scheduler_file._reader import Reader
from hivecore.quotas import Limit, Quota, QuotaTree, quota_rules
from hivecore.scheduler import Scheduler

__all__ = ["read_quotas"]

_Amount = TypeVar("_Amount", bound=Amount)
_AT: Place = (None, "quotas")
_SETTINGS = {"check_ancestors": True, "scale_min": True, "guarantee": False}
_KEYS = ("total", "limit", *_SETTINGS, "koordinator", "gpu")
_FLAGS = {"lends": True, "scales": True, "outside": False}
_OF_QUOTA = ("parent", "max", "min", "weight", *_FLAGS)
_GPU = "nvidia.com/gpu"
_USUAL = ("gpu", "cpu", "memory")


@dataclass(frozen=True, slots=True)
class _Declared:
    """Quotas, and where each is declared."""

    quotas: tuple[Quota, ...]
    places: Mapping[str, Place]
    trees: tuple[Any, ...] = ()


def read_quotas(
    section: Any,
    tenants: Mapping[str, Mapping[str, Any]],
    cluster: Mapping[str, int],
    reader: Reader,
) -> QuotaTree | None:
    """Return the tree; None if there are no quotas, or after a mistake.

    :param section: the value of `quotas`.
    :param tenants: name -> its fields in `tenants`.
    :param cluster: the nodes' amounts by resource.
    """
    before = reader.mistakes
    fields = reader.keys(section, _AT, _KEYS)
    declared = _of_file(fields, reader) if "koordinator" in fields else None
    if declared is None:
        declared = _of_tenants(fields, tenants, reader)
    else:
        for name, tenant in tenants.items():
            if "quota" in tenant:
                at = ((None, "tenants"), name), "quota"
                reader.add(at, "is what the file of quotas.koordinator says")
    settings: dict[str, Any] = {
        "limit": reader.choice(fields.get("limit"), (_AT, "limit"), get_args(Limit)),
        **{
            key: reader.flag(fields.get(key), (_AT, key), default)
            for key, default in _SETTINGS.items()
        },
    }
    total = _total(fields, declared, cluster, reader)
    is_needless = "koordinator" not in fields and not any("quota" in of for of in tenants.values())
    if section is not None and is_needless:
        reader.add(_AT, "no tenant has a quota")
    if not declared.quotas or reader.mistakes > before or not reader.knows_nodes:
        return None
    _remark_promises(declared.quotas, total, cluster, reader)
    tree = reader.build(_AT, lambda: QuotaTree(declared.quotas, total=total, **settings))
    if tree is not None and reader.build(_AT, lambda: Scheduler(quotas=tree)) is not None:
        reader.remarks += [
            f"{reader.path(((None, 'tenants'), name))}: has no quota: its jobs must name another"
            for name in tenants
            if name not in tree.quotas
        ]
        for root in declared.trees:
            set_total = partial(tree.set_total, tree=root.tree, carved=root.carved)
            reader.build((_AT, "koordinator"), partial(set_total, root.amounts))
    return tree


def _remark_promises(
    quotas: Sequence[Quota], total: Mapping[str, int], cluster: Mapping[str, int], reader: Reader
) -> None:
    """Name resources of which the minimums need more than there is; they are scaled down then."""
    needs = _needs([quota for quota in quotas if not (quota.tree or quota.outside)])
    missing = []
    for name, amount in sorted(total.items()):
        has = min(amount, cluster.get(name, amount))
        if needs[name] > has:
            missing.append(f"{name} {write_amount(name, needs[name])} of {write_amount(name, has)}")
    if missing:
        what = f"not all quotas can have their min at the same time: {', '.join(missing)}"
        reader.remarks.append(f"{reader.path(_AT)}: {what}")


def _needs(quotas: Sequence[Quota]) -> Counter[str]:
    """The sum of the minimums; of quotas below another one if they need more than it."""
    children: dict[str, list[str]] = {}
    for quota in quotas:
        children.setdefault(quota.parent, []).append(quota.name)
    order = [""]
    for name in order:
        order += children.get(name, ())
    needs = {quota.name: Counter(dict(quota.min)) for quota in quotas}
    for name in reversed(order):
        below = sum((needs[child] for child in children.get(name, ())), Counter[str]())
        needs[name] = needs.get(name, Counter()) | below
    return needs[""]


def _total(
    fields: Mapping[str, Any], declared: _Declared, cluster: Mapping[str, int], reader: Reader
) -> dict[str, int]:
    known = {resource for quota in declared.quotas for resource, _ in quota.max}
    given = fields.get("total")
    if given is None and not reader.knows_nodes:
        return {}
    if given is None:
        for name, place in declared.places.items():
            _check_known(name, place, declared, cluster, reader)
        if known and not cluster:
            what = "is missing, and no nodes say it: it is 0 until it is set"
            reader.remarks.append(f"{reader.path((_AT, 'total'))}: {what}")
        return {name: amount for name, amount in cluster.items() if name in known}
    amounts = reader.amounts(given, (_AT, "total"))
    for resource in amounts:
        if resource not in known and declared.quotas:
            have = ", ".join(sorted(known))
            at = (_AT, "total"), resource
            reader.add(at, f"no quota has {show(resource)}; resources of quotas: {have}")
    for quota in declared.quotas if cluster else ():
        for resource in dict(quota.max).keys() - cluster.keys() - set(_USUAL):
            if meant := resource_meant(resource, [*cluster, *_USUAL]):
                at = (declared.places[quota.name], "max"), resource
                reader.add(at, f"no node has any of it; is {meant} meant?")
    return amounts


def _check_known(
    name: str, place: Place, declared: _Declared, cluster: Mapping[str, int], reader: Reader
) -> None:
    """Refuse a resource that no node has, which is probably misspelt."""
    for quota in declared.quotas:
        for resource, _ in quota.max if quota.name == name else ():
            if cluster and resource not in cluster:
                have = ", ".join(sorted(cluster))
                at = (place, "max"), resource
                reader.add(at, f"the nodes have none of it, they have {have}")


def _of_tenants(
    fields: Mapping[str, Any], tenants: Mapping[str, Mapping[str, Any]], reader: Reader
) -> _Declared:
    if "gpu" in fields:
        reader.add((_AT, "gpu"), "is for koordinator only")
    before = reader.mistakes
    places: dict[str, Place] = {}
    quotas: list[Quota] = []
    for name, tenant in tenants.items():
        if "quota" in tenant:
            at = places[name] = ((None, "tenants"), name), "quota"
            quotas += _quota(name, tenant["quota"], at, reader)
    parents = {quota.name: quota.parent for quota in quotas}
    is_sound = reader.mistakes == before
    for broken in quota_rules(quotas, same_dimensions=False):
        # Minimums that are too high are scaled down, which is allowed. If the file has other
        # mistakes, a missing parent may just be unread.
        is_missing = broken.rule == "parent" and parents[broken.quota] not in places
        if is_missing or (is_sound and broken.rule != "min"):
            reader.add(places[broken.quota], str(broken))
    return _Declared(tuple(quotas), places)


def _quota(name: str, value: Any, place: Place, reader: Reader) -> list[Quota]:
    fields = reader.keys(value, place, _OF_QUOTA)
    before = len(reader.found)
    if "max" not in fields:
        reader.add(place, "max is missing: amounts by resource, such as {gpu: 64}")
    weight = fields.get("weight")
    given: dict[str, Any] = {
        "parent": reader.text(fields.get("parent"), (place, "parent")) or "",
        "max": reader.amounts(fields.get("max"), (place, "max")),
        "min": reader.amounts(fields.get("min"), (place, "min")),
        "weight": None
        if weight is None
        else reader.amounts(weight, (place, "weight"), rounded=False),
    }
    for resource, least in given["min"].items():
        if least > (most := given["max"].get(resource, least)):
            above = f"{write_amount(resource, least)} is above max, {write_amount(resource, most)}"
            reader.add(((place, "min"), resource), above)
    for key, default in _FLAGS.items():
        given[key] = reader.flag(fields.get(key), (place, key), default)
    quota = None
    if len(reader.found) == before:
        quota = reader.build(place, lambda: Quota(name, **given))
    return [] if quota is None else [quota]


def _of_file(fields: Mapping[str, Any], reader: Reader) -> _Declared:
    place = _AT, "koordinator"
    opened = reader.file(fields["koordinator"], place)
    if opened is None:
        return _Declared((), {})
    path, text = opened
    gpu = _gpu(fields, reader)
    try:
        objects: ElasticQuotas = read_elastic_quotas(text)
        quotas = tuple(_in_gpus(quota, gpu) for quota in objects.quotas)
        others = dict.fromkeys(
            name for quota in quotas for name, _ in quota.max if _means_gpus(name)
        )
        quotas = tuple(_only(quota, others) for quota in quotas)
        totals = tuple(
            replace(root, amounts=_renamed(root.amounts, gpu)) for root in objects.totals
        )
    except (TypeError, ValueError) as error:
        reader.add(place, f"{path}: {error}")
        return _Declared((), {})
    if not quotas:
        reader.add(place, f"{path}: there is no object of kind ElasticQuota")
    for name in others:
        reader.remarks.append(f"{path}: {name} limits nothing here: GPUs are {gpu}")
    return _Declared(quotas, dict.fromkeys((quota.name for quota in quotas), place), totals)


def _in_gpus(quota: Quota, gpu: str) -> Quota:
    weight = quota.weight
    return quota.replace(
        max=_renamed(dict(quota.max), gpu),
        min=_renamed(dict(quota.min), gpu),
        weight=None if weight is None else _renamed(dict(weight), gpu),
    )


def _means_gpus(name: str) -> bool:
    """Whether another system calls GPUs so; no job requests them by this name."""
    return name != "gpu" and resource_meant(name, ["gpu"]) == "gpu"


def _only(quota: Quota, others: Container[str]) -> Quota:
    """Return a quota without limits of these resources."""
    given = {"max": quota.max, "min": quota.min, "weight": quota.weight}
    return quota.replace(
        **{
            key: amounts and {name: amount for name, amount in amounts if name not in others}
            for key, amounts in given.items()
        }
    )


def _gpu(fields: Mapping[str, Any], reader: Reader) -> str:
    """Return what the objects call GPUs."""
    return reader.text(fields.get("gpu"), (_AT, "gpu")) or _GPU


def _renamed(amounts: Mapping[str, _Amount], gpu: str) -> dict[str, _Amount]:
    """Return the amounts with GPUs named "gpu", as in a scheduler."""
    if gpu != "gpu" and {"gpu", gpu} <= amounts.keys():
        raise ValueError(f"an object has both gpu and {gpu}: which are the GPUs?")
    return {"gpu" if name == gpu else name: amount for name, amount in amounts.items()}
