"""The state of a scheduler as its web page shows it: nodes, waiting jobs, quotas."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from hivecore._thousandths import as_number
from hivecore.cells import CellCluster
from hivecore.dra import DeviceId, DraCluster
from hivecore.dra.pools import published
from hivecore.quotas import QuotaTree
from hivecore.scheduler import Scheduler
from hivecore.scheduler.stages.cells import chain_nodes
from hivecore.topology import NetworkTopology

__all__ = ["plain_overview"]

_MOST_WAITING = 500
_MOST_QUOTAS = 500
_NODES = "nodes"  # the group's name without cells and network
_WAITS = "pending", "reserved"
_OF_QUOTA = "min", "used", "request", "runtime"
_Groups = Iterator[tuple[str, Sequence[str]]]


def plain_overview(scheduler: Scheduler) -> dict[str, Any]:
    """Return the data of the web page. Cost: O(jobs + pods + nodes + quotas).

    ``groups``: the nodes of each cell above the node level, or of each narrowest domain of the
    network, as [name, GPUs, GPUs in use, jobs]. ``waiting``: the first waiting jobs, with reasons.
    ``quotas``: the first quotas, parents before children. ``owned``: the GPUs of each tenant's
    cells.

    >>> from hivecore.devices import DeviceCluster, NodeDevices
    >>> from hivecore.interop.events.overview import plain_overview
    >>> from hivecore.scheduler import Job, Role, Scheduler
    >>> scheduler = Scheduler(devices=DeviceCluster({"n1": NodeDevices.uniform(gpus=8)}))
    >>> scheduler.submit(Job("train", "vision", [Role("worker", gpus=2)]), now=0.0)
    >>> _ = scheduler.decide(now=0.0)
    >>> plain_overview(scheduler)["groups"]
    [{'name': 'nodes', 'nodes': [['n1', 8, 2, ['train']]]}]
    """
    used, jobs = _used(scheduler)
    totals = _totals(scheduler)
    if scheduler.topology is not None and scheduler.devices is None:
        totals, used = _counted(scheduler.topology)
    elif scheduler.claims is not None and not totals:
        totals, used = _claimed(scheduler.claims)
    groups = [
        {"name": name, "nodes": [[node, totals[node], used[node], jobs[node]] for node in nodes]}
        for name, nodes in _groups(scheduler, totals)
    ]
    cells, quotas = scheduler.cells, scheduler.quotas
    return {
        "groups": groups,
        "waiting": list(islice(_waiting(scheduler), _MOST_WAITING)),
        "quotas": [] if quotas is None else list(_quotas(quotas)),
        "owned": {} if cells is None else _owned(cells),
    }


def _used(scheduler: Scheduler) -> tuple[Counter[str], dict[str, list[str]]]:
    """Return the GPUs in use on each node, counting a shared GPU once, and its jobs."""
    minors: defaultdict[str, set[int]] = defaultdict(set)
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for name in scheduler:
        for pod in scheduler.status(name).pods:
            minors[pod.node].update(pod.gpus)
            if name not in jobs[pod.node][-1:]:
                jobs[pod.node].append(name)
    return Counter({node: len(gpus) for node, gpus in minors.items()}), jobs


def _totals(scheduler: Scheduler) -> dict[str, int]:
    """Return the number of GPUs of each node; empty if neither devices nor cells say it."""
    devices, cells = scheduler.devices, scheduler.cells
    if devices is not None:
        inventories = {node: devices.inventory(node) for node in devices.nodes}
        counts = {
            id(inventory): len(inventory.of_type("gpu")) for inventory in inventories.values()
        }
        return {node: counts[id(inventory)] for node, inventory in inventories.items()}
    totals: Counter[str] = Counter()
    if cells is not None:
        for name, of in cells.spec.chains.items():
            nodes = chain_nodes(cells, name)
            totals.update(dict.fromkeys(nodes, of.leaves // len(nodes)))
    return totals


def _counted(network: NetworkTopology) -> tuple[dict[str, int], Counter[str]]:
    """Return by node its GPUs, or slots, and how many of them the network's books have in use."""
    emptied = network.copy()
    for node in network.unhealthy:
        emptied.set_health(node, True)
    resource = "slots" if "slots" in network.resources else "gpu"
    free = emptied.free_by_node(resource)
    for owner in network.owners:
        emptied.release(owner)
    totals = {node: int(amount) for node, amount in emptied.free_by_node(resource).items()}
    return totals, Counter({node: total - int(free[node]) for node, total in totals.items()})


def _claimed(cluster: DraCluster) -> tuple[dict[str, int], Counter[str]]:
    """Return by node its GPUs and those in use; partitions that share a counter set are one."""
    facts = cluster.facts()
    held = {device for devices in facts.held.values() for device, *_ in devices}
    nodes = {
        DeviceId(part.driver, part.pool.name, device.name): device.node_name or part.node_name
        for part in sorted(facts.slices, key=lambda part: part.pool.generation)
        for device in part.devices
    }
    in_use: dict[tuple[str, str, str, tuple[str, ...]], bool] = {}
    for device, of in published(facts.slices).items():
        if device.driver.startswith("gpu."):
            sets = tuple(counters.counter_set for counters in of.consumes_counters)
            gpu = nodes[device], device.driver, device.pool, sets or (device.device, "")
            in_use[gpu] = in_use.get(gpu, False) or device in held
    totals = Counter(node for node, *_ in in_use)
    used = Counter(gpu[0] for gpu, is_used in in_use.items() if is_used)
    return {node: totals[node] for node in cluster.nodes}, used


def _groups(scheduler: Scheduler, totals: dict[str, int]) -> _Groups:
    cells, network = scheduler.cells, scheduler.topology
    named = _of_network(network) if network is not None else iter(())
    if cells is not None:
        named = _of_cells(cells)
    left = dict.fromkeys(totals)
    for name, nodes in named:  # a node of several chains is shown once
        if new := [node for node in nodes if node in left]:
            yield name, new
        for node in new:
            del left[node]
    if left:
        yield _NODES, list(left)


def _of_cells(cells: CellCluster) -> _Groups:
    """Return the nodes of each cell right above the node level, else of each chain."""
    for name, of in cells.spec.chains.items():
        nodes, level = chain_nodes(cells, name), of.levels.index(of.node_level or "")
        if level + 1 == len(of.levels):
            yield name, nodes
            continue
        size = of.fanouts[level]
        for i in range(len(nodes) // size):
            yield f"{name}/{of.levels[level + 1]} {i}", nodes[i * size : (i + 1) * size]


def _of_network(network: NetworkTopology) -> _Groups:
    """Return the nodes of each domain of the narrowest layer."""
    if network.layers:
        for nodes in network.domains(network.layers[-1]):
            yield "/".join(network.domain(nodes[0])[:-1]), nodes


def _waiting(scheduler: Scheduler) -> Iterator[dict[str, Any]]:
    for name in scheduler:
        if (state := scheduler.state(name)) in _WAITS:
            job, status = scheduler.job(name), scheduler.status(name)
            reason = "" if status.refusal is None else status.refusal.reason
            if status.victims:
                reason = f"these have to stop first: {', '.join(status.victims)}"
            own = {"job": name, "tenant": job.tenant, "gpus": job.gpus, "state": state}
            yield {**own, "pods": sum(role.pods for role in job.roles), "reason": reason}


def _owned(cells: CellCluster) -> dict[str, int]:
    """Return the GPUs of each tenant's cells, including pinned cells."""
    spec, owned = cells.spec, Counter[str]()
    sizes = {
        (name, level): leaves
        for name, of in spec.chains.items()
        for level, leaves in zip(of.levels, of.leaves_per_cell(), strict=True)
    }
    for tenant, chains in spec.virtual_clusters.items():
        for name, counts in chains.items():
            owned[tenant] += sum(sizes[name, level] * count for level, count in counts.items())
    for tenant, pins in spec.pinned_cells.items():
        owned[tenant] += sum(sizes[name, level] for name, level, _ in pins.values())
    return dict(owned)


def _quotas(tree: QuotaTree) -> Iterator[dict[str, Any]]:
    """Yield quotas with depth and amounts, parents before children."""
    depths: dict[str, int] = {"": -1}
    for name in tree.quotas[:_MOST_QUOTAS]:
        declared, status = tree.quota(name), tree.status(name)
        depths[name] = depths[declared.parent] + 1
        amounts = {
            dimension: {
                "max": as_number(most),
                **{of: as_number(getattr(status, of).get(dimension, 0)) for of in _OF_QUOTA},
            }
            for dimension, most in declared.max
        }
        yield {"name": name, "depth": depths[name], "amounts": amounts}
