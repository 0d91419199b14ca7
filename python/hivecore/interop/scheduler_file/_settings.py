"""`queues`, `devices`, `claims`, `sharing`, `storage` and `scheduler`: settings of each part."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

from hivecore.cells.affinity_group import EVICTIONS, Evictions
from hivecore.devices import DeviceCluster
from hivecore.devices.device_cluster import POLICIES
from hivecore.dra import DraCluster, KubernetesFeatures
from hivecore.dra.features import VERSIONS
from hivecore.interop.kubernetes.claim_objects import put_objects, read_objects
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place
from hivecore.interop.scheduler_file._nodes import Node
from hivecore.interop.scheduler_file._reader import Reader
from hivecore.queues import TenantQueues
from hivecore.scheduler import EvictionLimit, Fragments, Scheduler, Sharing, StoragePool

__all__ = [
    "read_claims",
    "read_devices",
    "read_evictions",
    "read_queues",
    "read_settings",
    "read_sharing",
    "read_storage",
]

_ORDERS = (
    *("weighted", "gpu-time", "round-robin", "key", "priority"),
    *("sjf", "srsf", "2d-las", "arrival"),
)
_BLOCKING = ("best-effort", "fifo")  # "backfill" needs run times, which queues lack
_OBJECTIVES = ("greedy", "throughput", "max_min", "finish_time", "fifo", "sjf")
_OF_STORAGE = ("cache_gb", "bandwidth_mbps", "objective", "threshold", "ahead", "eps")
_OF_SHARING = ("min_gain", "max_slowdown", "restart_cost")
_OF_SCHEDULER = (
    "immediate",
    "preemption",
    "evictions",
    "lending",
    "growing",
    "tries",
    "reservation_seconds",
    "eviction_limits",
    "backfill",
    "fragments",
)
_KUBERNETES = "1.36"
_FINEST = 2**31  # parts of a priority per microsecond
_MICRO = 1_000_000


def read_queues(
    document: Mapping[str, Any], tenants: Mapping[str, Mapping[str, Any]], reader: Reader
) -> TenantQueues | None:
    """Return a queue for each tenant; None for one common queue, or after a mistake."""
    place: Place = (None, "queues")
    fields = reader.keys(document.get("queues"), place, ("order", "ageing", "blocking"))
    given = fields.get("order", None if "queues" in document else "priority")
    order = reader.choice(given, (place, "order"), _ORDERS)
    for key, needed in (("weight", ("weighted", "gpu-time")), ("key", ("key",))):
        for name, tenant in tenants.items():
            if key in tenant and order not in needed:
                at = ((None, "tenants"), name), key
                reader.add(at, f"has no meaning unless queues.order is {' or '.join(needed)}")
    if order == "priority":
        for name in [name for name, fields_of in tenants.items() if "blocking" in fields_of]:
            at = ((None, "tenants"), name), "blocking"
            reader.add(at, "has no meaning for the order priority, which has one queue for all")
        for key in fields.keys() - {"order"}:
            reader.add((place, key), "has no meaning for the order priority")
        return None
    ageing = Fraction(0)
    if fields.get("ageing") is not None:
        number = reader.number(fields["ageing"], (place, "ageing"))
        ageing = Fraction(repr(number)) / _MICRO
        if ageing.denominator > _FINEST:
            reader.add((place, "ageing"), f"{number:g} is too fine: use at most three decimals")
            return None
    blocking: Any = reader.choice(fields.get("blocking"), (place, "blocking"), _BLOCKING)
    chosen: Any = order
    queues = reader.build(
        (place, "ageing"), lambda: TenantQueues(order=chosen, ageing=ageing, blocking=blocking)
    )
    if queues is not None:
        for name, tenant in tenants.items():
            _weigh(queues, name, tenant, reader)
    return queues


def _weigh(queues: TenantQueues, name: str, fields: Mapping[str, Any], reader: Reader) -> None:
    at: Place = ((None, "tenants"), name)
    if "weight" in fields:
        weight = reader.integer(fields["weight"], (at, "weight"), 1, 2**31 - 1, 1)
        queues.set_weight(name, weight)
    if "blocking" in fields:
        blocking: Any = reader.choice(fields["blocking"], (at, "blocking"), _BLOCKING)
        queues.set_blocking(name, blocking)
    if "key" in fields:
        key = reader.number(fields["key"], (at, "key"))
        reader.build((at, "key"), lambda: queues.set_key(name, key))


def read_devices(value: Any, nodes: Mapping[str, Node], reader: Reader) -> DeviceCluster | None:
    """Return the devices of all nodes; None after a mistake."""
    place: Place = (None, "devices")
    fields = reader.keys(value, place, ("policy", "seed", "koordinator"))
    policy: Any = reader.choice(fields.get("policy"), (place, "policy"), POLICIES)
    seed = reader.integer(fields.get("seed"), (place, "seed"), 0, 2**31, 0)
    if not reader.knows_nodes:
        return None
    if not nodes:
        reader.add(place, "needs cluster.nodes, which says what nodes have")
        return None
    inventories = {name: node.devices for name, node in nodes.items()}
    return reader.build(place, lambda: DeviceCluster(inventories, policy=policy, seed=seed))


def read_claims(value: Any, reader: Reader) -> tuple[DraCluster | None, str]:
    """Return the device claims (None after a mistake) and the way to choose their devices.

    Taint rules apply if the cluster's version has them.
    """
    place: Place = (None, "claims")
    fields = reader.keys(value, place, ("kubernetes", "gates", "objects", "mode"))
    given = _KUBERNETES if fields.get("kubernetes") is None else fields["kubernetes"]
    version = reader.choice(given, (place, "kubernetes"), VERSIONS)
    gates = {"DRADeviceTaintRules": True} if version != VERSIONS[0] else {}
    for name, entry, at in reader.named(fields.get("gates"), (place, "gates")):
        if entry is not None:
            gates[name] = reader.flag(entry, at)
    at = place, "gates"
    cluster = reader.build(at, lambda: DraCluster(KubernetesFeatures.of(version, gates)))
    if cluster is not None and fields.get("objects") is not None:
        at = place, "objects"
        opened = reader.file(fields["objects"], at)
        if opened is not None:
            _put_objects(cluster, opened[0], at, reader)
    mode: Any = "first" if fields.get("mode") is None else fields["mode"]
    if cluster is None or reader.build((place, "mode"), lambda: cluster.fits([], mode)) is None:
        return cluster, "first"
    return cluster, mode


def _put_objects(cluster: DraCluster, path: Path, place: Place, reader: Reader) -> None:
    try:
        objects, mistakes = read_objects([path])
        mistakes += put_objects(cluster, objects)
    except ValueError as error:
        mistakes = [str(error)]
    for mistake in mistakes:
        reader.add(place, mistake)


def read_sharing(value: Any, reader: Reader) -> Sharing | None:
    """Return how jobs share GPUs; None after a mistake."""
    place: Place = (None, "sharing")
    fields = reader.keys(value, place, ("resources", "max_group", "any_tenant", *_OF_SHARING))
    if fields.get("resources") is None:
        reader.add((place, "resources"), "is missing: how many stages an iteration has, 2 to 8")
    resources = reader.integer(fields.get("resources"), (place, "resources"), 2, 8, 2)
    group = reader.integer(fields.get("max_group"), (place, "max_group"), 2, resources, resources)
    any_tenant = reader.flag(fields.get("any_tenant"), (place, "any_tenant"))
    terms = {
        key: reader.number(fields[key], (place, key))
        for key in _OF_SHARING
        if fields.get(key) is not None
    }
    return reader.build(place, lambda: Sharing(resources, group, any_tenant=any_tenant, **terms))


def read_storage(value: Any, reader: Reader) -> StoragePool | None:
    """Return the cache and remote IO that jobs share; None after a mistake."""
    place: Place = (None, "storage")
    fields = reader.keys(value, place, (*_OF_STORAGE, "datasets_gb"))
    at = place, "datasets_gb"
    sizes = {
        name: reader.number(entry, where)
        for name, entry, where in reader.named(fields.get("datasets_gb"), at)
    }
    cache_gb = reader.number(fields.get("cache_gb"), (place, "cache_gb"))
    given = fields.get("bandwidth_mbps")
    bandwidth_mbps = None if given is None else reader.number(given, (place, "bandwidth_mbps"))
    objective: Any = reader.choice(fields.get("objective"), (place, "objective"), _OBJECTIVES)
    threshold = reader.number(fields.get("threshold"), (place, "threshold"), 0.05)
    ahead = reader.flag(fields.get("ahead"), (place, "ahead"))
    eps = reader.number(fields.get("eps"), (place, "eps"), 0.1)
    return reader.build(
        place,
        lambda: StoragePool(
            sizes, cache_gb, bandwidth_mbps, objective, threshold, ahead=ahead, eps=eps
        ),
    )


def read_evictions(document: Mapping[str, Any], reader: Reader) -> Evictions:
    """Return what takes precedence over few evictions in cells, as in `CellCluster`."""
    settings = document.get("scheduler")
    given = settings.get("evictions") if isinstance(settings, Mapping) else None
    place: Place = ((None, "scheduler"), "evictions")
    return cast(Evictions, reader.choice(given, place, EVICTIONS))


def _read_limits(value: Any, place: Place, reader: Reader) -> tuple[EvictionLimit, ...]:
    """Return, by quota, how often and how soon jobs may be evicted."""
    limits = []
    for name, entry, at in reader.named(value, place):
        fields = reader.keys(entry, at, ("min_run_time", "per_hour"))
        least = reader.number(fields.get("min_run_time", "0"), (at, "min_run_time"))
        given, place_of = fields.get("per_hour"), (at, "per_hour")
        most = None if given is None else reader.integer(given, place_of, 0, 2**20, 0)
        quota = "" if name == "*" else name
        limit = reader.build(at, partial(EvictionLimit, quota, min_run_time=least, per_hour=most))
        limits += [] if limit is None else [limit]
    return tuple(limits)


def read_settings(value: Any, has_cells: bool, reader: Reader) -> dict[str, Any]:
    """Return the options of `Scheduler`."""
    place: Place = (None, "scheduler")
    fields = reader.keys(value, place, _OF_SCHEDULER)
    immediate = reader.flag(fields.get("immediate"), (place, "immediate"))
    preemption = reader.flag(fields.get("preemption"), (place, "preemption"), True)
    tries = reader.integer(fields.get("tries"), (place, "tries"), 1, 1000, 4)
    lending = reader.flag(fields.get("lending"), (place, "lending"))
    if lending and not has_cells:
        reader.add((place, "lending"), "needs cluster.cells, of which idle ones are lent")
    if fields.get("evictions") in EVICTIONS and not has_cells:
        reader.add((place, "evictions"), "needs cluster.cells, in which others are evicted")
    late, at = fields.get("reservation_seconds"), (place, "reservation_seconds")
    patience = None if late is None else reader.number(late, at)
    reader.build(at, lambda: Scheduler(reservation_seconds=patience))
    limits = _read_limits(fields.get("eviction_limits"), (place, "eviction_limits"), reader)
    return {
        "immediate": immediate,
        "preemption": preemption,
        "lending": lending,
        "growing": reader.flag(fields.get("growing"), (place, "growing")),
        "tries": tries,
        "reservation_seconds": patience,
        "eviction_limits": limits,
        "backfill": reader.integer(fields.get("backfill"), (place, "backfill"), 0, 1000, 0),
        "fragments": _fragments(fields.get("fragments"), (place, "fragments"), reader),
    }


def _fragments(value: Any, place: Place, reader: Reader) -> Fragments | None:
    if value is not None and not isinstance(value, list):
        reader.add(place, f"must be a list of numbers of GPUs, not {show(value)}")
    if not isinstance(value, list):
        return None
    return Fragments([reader.integer(size, place, 1, 2**20, 1) for size in value])
