"""A cluster read from one file, checked as a whole, and turned into schedulers."""

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
    """A cluster, its tenants, and how jobs are scheduled, as one file describes them.

    :param nodes: node -> the name of its model, if the file has it.
    :param tenants: their names.
    :param queues: the tenants' queues; ``None`` for one queue, ordered by priority.
    :param quotas: those of the tenants; ``None``, as for all parts, if there are none.
    :param cells: the cells, and which each tenant owns.
    :param topology: the network with the free resources of its nodes.
    :param devices: of all nodes.
    :param claims: the devices for Kubernetes' device claims; a server adds those of its cluster.
    :param claims_mode: as in `Scheduler`; in the file, ``mode`` in ``claims``.
    :param sharing: how jobs share GPUs; ``None`` if they do not.
    :param storage: the cache and remote IO that jobs share.
    :param immediate, preemption, growing, tries, reservation_seconds: as in `Scheduler`.
    :param eviction_limits, backfill, fragments: as in `Scheduler`.
    :param lending: as in `Scheduler`; it needs cells.
    :param remarks: parts of the file that are allowed, but perhaps not intended.

    The parts describe an empty cluster; each `scheduler` gets copies of them.

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
        """Read a file; files that it names are relative to it.

        :raises ConfigError: it is invalid; all mistakes are listed, with file and line.
        :raises OSError: it cannot be read.
        :raises ImportError: PyYAML is missing.
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
        r"""Read a text.

        :param name: of its file, used in messages and for relative paths.
        :raises ConfigError: it is invalid; all mistakes are listed, with file and line.
        :raises TypeError: an argument has a wrong type.
        :raises ImportError: PyYAML is missing.

        Unknown keys are mistakes. Mistakes in HiveD's and Slurm's files have a line, those in
        Kubernetes objects the object's name.

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
        parts = _read(document, reader)
        reader.raise_if_any()
        return cls(**parts, remarks=(*dumped, *reader.remarks))

    @staticmethod
    def recognises(text: str) -> bool:
        """Whether a text looks like such a file rather than other YAML.

        >>> from hivecore.interop.scheduler_file import SchedulerSpec
        >>> SchedulerSpec.recognises("physicalCluster: {}"), SchedulerSpec.recognises("cluster: {}")
        (False, True)
        """
        return ClusterDump.recognises(text) or any(key in _SECTIONS for key in first_keys(text))

    def scheduler(self, **options: Any) -> Scheduler:
        """Return a scheduler of this cluster without jobs.

        :param options: of `Scheduler`, such as ``log``; they override the file.
        :raises ValueError: as in `Scheduler`.
        :raises TypeError: as in `Scheduler`.

        Cost: a copy of all parts.
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
    """Return the fields of a `SchedulerSpec`; after a mistake, only some of them."""
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
    parts: dict[str, Any] = {
        "nodes": {name: node.model for name, node in nodes.items()},
        "tenants": tuple(tenants),
    }
    evictions = read_evictions(document, reader)
    _place(cluster, nodes, tenants, evictions, parts, reader, has_claims="claims" in document)
    parts["queues"] = read_queues(document, tenants, reader)
    if "devices" in document:
        parts["devices"] = read_devices(section, nodes, reader)
    if "claims" in document:
        parts["claims"], parts["claims_mode"] = read_claims(document["claims"], reader)
    if "sharing" in document:
        parts["sharing"] = read_sharing(document["sharing"], reader)
    if "storage" in document:
        parts["storage"] = read_storage(document["storage"], reader)
    parts |= read_settings(document.get("scheduler"), "cells" in cluster, reader)
    amounts = _amounts(nodes, parts.get("cells"))
    quotas = parts["quotas"] = read_quotas(document.get("quotas"), tenants, amounts, reader)
    kind, known = ("quota", quotas.quotas) if quotas else ("tenant", parts["tenants"])
    if quotas or not ("quotas" in document or any("quota" in of for of in tenants.values())):
        limited = [limit.quota for limit in parts["eviction_limits"] if limit.quota]
        for name in [of for of in limited if known and of not in known]:
            place = ((None, "scheduler"), "eviction_limits"), name
            reader.add(place, f"there is no {kind} {show(name)}")
    return parts


def _place(
    cluster: Mapping[str, Any],
    nodes: Mapping[str, Node],
    tenants: Mapping[str, Mapping[str, Any]],
    evictions: Evictions,
    parts: dict[str, Any],
    reader: Reader,
    *,
    has_claims: bool,
) -> None:
    """Read cells or a network, whichever the file has."""
    at = None, "cluster"
    if "cells" in cluster and "network" in cluster:
        reader.add((at, "network"), "cells place the pods already")
    if "cells" in cluster:
        parts["cells"] = read_cells(
            cluster["cells"], (at, "cells"), nodes, tenants, evictions, reader
        )
        if parts["cells"] is not None:
            owners = parts["cells"].spec.virtual_clusters
            parts["tenants"] = tuple(dict.fromkeys((*tenants, *owners)))
        return
    for name, fields in tenants.items():
        for key in ("cells", "pinned_cells"):
            if key in fields:
                place = ((None, "tenants"), name), key
                reader.add(place, "has no meaning without cluster.cells")
    if "network" in cluster:
        parts["topology"] = read_network(cluster["network"], (at, "network"), nodes, reader)
    elif not (nodes or has_claims) and reader.knows_nodes and not reader.found:
        reader.add(at, "must have nodes or cells")


def _amounts(nodes: Mapping[str, Node], cells: CellCluster | None) -> dict[str, int]:
    """Return the sum of all nodes' amounts by resource."""
    total: dict[str, int] = {}
    for node in nodes.values():
        for name, amount in node.amounts.items():
            total[name] = total.get(name, 0) + amount
    if cells is not None:
        total["gpu"] = sum(chain.leaves for chain in cells.spec.chains.values())
    return total
