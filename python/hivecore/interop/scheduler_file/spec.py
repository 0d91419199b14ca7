"""A cluster as one file says it: read, checked as a whole, and made into schedulers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hivecore._arguments import as_text
from hivecore.cells import CellCluster
from hivecore.cells.affinity_group import Evictions
from hivecore.devices import DeviceCluster
from hivecore.dra import DraCluster
from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.hived import ConfigError
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.scheduler_file._cells import read_cells
from hivecore.interop.scheduler_file._lines import first_keys
from hivecore.interop.scheduler_file._network import read_network
from hivecore.interop.scheduler_file._nodes import Node, read_nodes, read_records
from hivecore.interop.scheduler_file._quotas import read_quotas
from hivecore.interop.scheduler_file._reader import Reader
from hivecore.interop.scheduler_file._settings import (
    read_claims,
    read_devices,
    read_evictions,
    read_queues,
    read_settings,
    read_sharing,
    read_storage,
)
from hivecore.queues import TenantQueues
from hivecore.quotas import QuotaTree
from hivecore.scheduler import EvictionLimit, Fragments, Scheduler, Sharing, StoragePool
from hivecore.topology import NetworkTopology

__all__ = ["SchedulerSpec"]

_SECTIONS = (
    "cluster",
    "tenants",
    "queues",
    "quotas",
    "devices",
    "claims",
    "sharing",
    "storage",
    "scheduler",
)
_OF_CLUSTER = ("models", "nodes", "cells", "network")
_OF_TENANT = ("weight", "key", "blocking", "cells", "pinned_cells", "quota")


@dataclass(frozen=True, slots=True, eq=False)
class SchedulerSpec:
    """What one file says of a cluster, its tenants, and how jobs are scheduled there.

    :param nodes: by name the model of each node, as far as the file says it.
    :param tenants: their names.
    :param queues: with the tenants' weights; ``None``: one queue for all, by priority.
    :param quotas: those of the tenants; ``None``: there are none. So for all parts.
    :param cells: what there is, and which each tenant is promised.
    :param topology: the network with what is free on its nodes.
    :param devices: of all nodes.
    :param claims: the devices of Kubernetes' device claims; those of a cluster that is served are
        added to it.
    :param claims_mode: as of `Scheduler`; under ``claims`` it is ``mode``.
    :param sharing: on which terms they share GPUs; ``None``: they do not.
    :param storage: the cache and the remote IO that they share.
    :param immediate: as of `Scheduler`.
    :param lending: as of `Scheduler`; it needs cells.
    :param preemption: as of `Scheduler`.
    :param growing: as of `Scheduler`.
    :param tries: as of `Scheduler`.
    :param reservation_seconds: as of `Scheduler`.
    :param eviction_limits: as of `Scheduler`.
    :param backfill: as of `Scheduler`.
    :param fragments: as of `Scheduler`.
    :param remarks: what in the file is no mistake, but perhaps not meant.

    The parts are those of an empty cluster; each `scheduler` gets copies of its own.

    >>> from hivecore.interop.scheduler_file import SchedulerSpec
    >>> from hivecore.scheduler import Job, Role
    >>> spec = SchedulerSpec.of_yaml('''
    ... cluster:
    ...   models:
    ...     h100: {gpus: 8, gpu_memory: 80Gi, nics: 8, sockets: 2, switches: 4}
    ...   nodes:
    ...     node[00-15]: h100
    ...   cells:
    ...     H100: {levels: [gpu, node, rack], fanouts: [8, 4], nodes: "node[00-15]"}
    ... tenants:
    ...   vision: {weight: 2, cells: {H100: {rack: 2}}}
    ...   speech: {cells: {H100: {rack: 1, node: 2}}}
    ... queues: {order: weighted}
    ... devices:
    ... ''')
    >>> scheduler = spec.scheduler()
    >>> scheduler.submit(Job("train", "vision", [Role("worker", 2, gpus=8)]), now=0.0)
    >>> [pod.node for pod in scheduler.decide(now=0.0)[0].pods]
    ['node00', 'node01']
    """

    nodes: Mapping[str, str]
    tenants: tuple[str, ...]
    queues: TenantQueues | None = None
    quotas: QuotaTree | None = None
    cells: CellCluster | None = None
    topology: NetworkTopology | None = None
    devices: DeviceCluster | None = None
    claims: DraCluster | None = None
    claims_mode: str = "first"
    sharing: Sharing | None = None
    storage: StoragePool | None = None
    immediate: bool = False
    lending: bool = False
    preemption: bool = True
    growing: bool = False
    tries: int = 4
    reservation_seconds: float | None = None
    eviction_limits: tuple[EvictionLimit, ...] = ()
    backfill: int = 0
    fragments: Fragments | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """What a file says; those that it names are looked for beside it.

        :raises ConfigError: it cannot be used; all mistakes are named, with file and line.
        :raises OSError: the file cannot be read.
        :raises ImportError: PyYAML is not there.
        """
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError as error:
            what = f"is no UTF-8 text: {error.reason} at byte {error.start}"
            raise ConfigError([(str(file), what)]) from None
        return cls.of_yaml(text, str(file))

    @classmethod
    def of_yaml(cls, text: str, name: str = "cluster.yaml") -> Self:
        r"""What a text says.

        :param name: of the file that it could be in: messages call it so, and files that it names
            are looked for beside that.
        :raises ConfigError: it cannot be used; all mistakes are named, with file and line.
        :raises TypeError: an argument is of a wrong type.
        :raises ImportError: PyYAML is not there.

        What is unknown is a mistake. Of other files HiveD's and Slurm's are named with the line,
        objects of Kubernetes by their names.

        >>> from hivecore.interop.scheduler_file import SchedulerSpec
        >>> try:
        ...     SchedulerSpec.of_yaml("cluster:\n  nodes: {n1: h100}")
        ... except ValueError as error:
        ...     print(error)
        cluster.yaml:2: cluster.nodes.n1: there is no model 'h100'; cluster.models has none
        """
        dumped: tuple[str, ...] = ()
        if ClusterDump.recognises(text):
            dump = ClusterDump.of_yaml(text, name)
            text, dumped = dump.text, tuple(f"{name}: {remark}" for remark in dump.remarks)
        reader = Reader(as_text(text, "text"), as_text(name, "name"))
        document = read_yaml(text, reader)
        reader.raise_if_any()
        if not isinstance(document, Mapping):
            reader.add(None, f"must be a mapping with the key cluster, not {show(document)}")
            reader.raise_if_any()
        found = _read(document, reader)
        reader.raise_if_any()
        return cls(**found, remarks=(*dumped, *reader.remarks))

    @staticmethod
    def recognises(text: str) -> bool:
        """Whether a text is meant to be such a file, and not another one's YAML.

        >>> from hivecore.interop.scheduler_file import SchedulerSpec
        >>> SchedulerSpec.recognises("physicalCluster: {}"), SchedulerSpec.recognises("cluster: {}")
        (False, True)
        """
        return ClusterDump.recognises(text) or any(key in _SECTIONS for key in first_keys(text))

    def scheduler(self, **options: Any) -> Scheduler:
        """A scheduler of this cluster, with no job in it.

        :param options: of `Scheduler`, such as ``log``; they count more than what the file says.
        :raises ValueError: as of `Scheduler`.
        :raises TypeError: as of `Scheduler`.

        Cost: that of copying the parts.
        """
        parts: dict[str, Any] = {
            name: part.copy()
            for name in ("queues", "quotas", "cells", "topology", "devices", "claims")
            if (part := getattr(self, name)) is not None
        }
        settings = {
            "claims_mode": self.claims_mode,
            "sharing": self.sharing,
            "storage": self.storage,
            "immediate": self.immediate,
            "lending": self.lending,
            "preemption": self.preemption,
            "growing": self.growing,
            "tries": self.tries,
            "reservation_seconds": self.reservation_seconds,
            "eviction_limits": self.eviction_limits,
            "backfill": self.backfill,
            "fragments": self.fragments,
        }
        return Scheduler(**{**parts, **settings, **options})


def _read(document: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    """The fields of a `SchedulerSpec`; after a mistake, some of them."""
    reader.keys(document, None, _SECTIONS)
    if document.get("cluster") is None and "claims" not in document:
        reader.add((None, "cluster"), f"is missing; it has {', '.join(_OF_CLUSTER)}")
    cluster = reader.keys(document.get("cluster"), (None, "cluster"), _OF_CLUSTER)
    tenants = {
        name: reader.keys(entry, place, _OF_TENANT)
        for name, entry, place in reader.named(document.get("tenants"), (None, "tenants"))
    }
    before = reader.mistakes
    nodes = read_nodes(cluster, reader)
    section = document.get("devices")
    if isinstance(section, Mapping) and "koordinator" in section:
        nodes |= read_records(
            section["koordinator"], ((None, "devices"), "koordinator"), nodes, reader
        )
    reader.knows_nodes = reader.mistakes == before
    found: dict[str, Any] = {
        "nodes": {name: node.model for name, node in nodes.items()},
        "tenants": tuple(tenants),
    }
    evictions = read_evictions(document, reader)
    _place(cluster, nodes, tenants, evictions, found, reader, has_claims="claims" in document)
    found["queues"] = read_queues(document, tenants, reader)
    if "devices" in document:
        found["devices"] = read_devices(section, nodes, reader)
    if "claims" in document:
        found["claims"], found["claims_mode"] = read_claims(document["claims"], reader)
    if "sharing" in document:
        found["sharing"] = read_sharing(document["sharing"], reader)
    if "storage" in document:
        found["storage"] = read_storage(document["storage"], reader)
    found |= read_settings(document.get("scheduler"), "cells" in cluster, reader)
    amounts = _amounts(nodes, found.get("cells"))
    quotas = found["quotas"] = read_quotas(document.get("quotas"), tenants, amounts, reader)
    limited = [limit.quota for limit in found["eviction_limits"] if limit.quota]
    for name in [] if quotas is None else [of for of in limited if of not in quotas.quotas]:
        place = ((None, "scheduler"), "eviction_limits"), name
        reader.add(place, f"there is no quota {show(name)}")
    return found


def _place(
    cluster: Mapping[str, Any],
    nodes: Mapping[str, Node],
    tenants: Mapping[str, Mapping[str, Any]],
    evictions: Evictions,
    found: dict[str, Any],
    reader: Reader,
    *,
    has_claims: bool,
) -> None:
    """Cells or a network, whichever the file has."""
    at = None, "cluster"
    if "cells" in cluster and "network" in cluster:
        reader.add((at, "network"), "cells place the pods already")
    if "cells" in cluster:
        found["cells"] = read_cells(
            cluster["cells"], (at, "cells"), nodes, tenants, evictions, reader
        )
        if found["cells"] is not None:
            owners = found["cells"].spec.virtual_clusters
            found["tenants"] = tuple(dict.fromkeys((*tenants, *owners)))
        return
    for name, fields in tenants.items():
        for key in ("cells", "pinned_cells"):
            if key in fields:
                place = ((None, "tenants"), name), key
                reader.add(place, "has no meaning without cluster.cells")
    if "network" in cluster:
        found["topology"] = read_network(cluster["network"], (at, "network"), nodes, reader)
    elif not (nodes or has_claims) and reader.knows_nodes and not reader.found:
        reader.add(at, "must have nodes or cells")


def _amounts(nodes: Mapping[str, Node], cells: CellCluster | None) -> dict[str, int]:
    """What all nodes have together, by resource."""
    total: dict[str, int] = {}
    for node in nodes.values():
        for name, amount in node.amounts.items():
            total[name] = total.get(name, 0) + amount
    if cells is not None:
        total["gpu"] = sum(chain.leaves for chain in cells.spec.chains.values())
    return total
