"""Reads nodes and their network for a scheduler's file."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

from msgspec import field as default

from hivecore.interop.cluster_dump._objects import Condition, Dump, Object, Schema
from hivecore.interop.koordinator.quotas.amounts import write_amount
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kueue.names import GROUP, HOSTNAME
from hivecore.interop.slurm import compress_hostlist

__all__ = ["Host", "Hosts", "read_hosts"]

_PRODUCT, _MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
_REPLICAS = "nvidia.com/gpu.replicas"
_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_STOPS = ("NoSchedule", "NoExecute")
_FLAVOR = f"ResourceFlavor.{GROUP}"
_UNHEALTHY = "is cordoned, not ready or leaving; a trace may use it, what-if starts nothing on it"
_MOST_GPUS = 256
_TOPOLOGIES = (f"Topology.{GROUP}", "Topology.kai.scheduler")


class _Taint(Schema, frozen=True):
    key: str = ""
    effect: str = ""


class _Spec(Schema, frozen=True):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _Status(Schema, frozen=True):
    allocatable: dict[str, Fraction] = default(default_factory=dict)
    conditions: tuple[Condition, ...] = ()

    @property
    def is_ready(self) -> bool:
        return all(each.status == "True" for each in self.conditions if each.type == "Ready")


class _Flavor(Schema, frozen=True):
    node_labels: dict[str, str] = default(default_factory=dict)
    node_taints: tuple[dict[str, Any], ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_name: str = ""


class _Level(Schema, frozen=True):
    node_label: str


class _Topology(Schema, frozen=True):
    levels: tuple[_Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """A node that jobs may use while it is healthy."""

    labels: Mapping[str, str]
    amounts: Mapping[str, int]
    healthy: bool

    def model(self, counted: Collection[str]) -> dict[str, Any]:
        """Return the file's entry for machines like this."""
        model: dict[str, Any] = {"gpus": self.amounts.get("gpu", 0)}
        if model["gpus"] and (memory := self.labels.get(_MEMORY, "")).isdecimal():
            replicas = self.labels.get(_REPLICAS, "1")
            shares = int(replicas) if replicas.isdecimal() else 1
            model["gpu_memory"] = f"{int(memory) // max(1, shares)}Mi"
        if model["gpus"] and (product := self.labels.get(_PRODUCT)):
            model["model"] = product
        kept = [name for name in self.amounts if name in counted and name != "gpu"]
        return {**model, "resources": {n: write_amount(n, self.amounts[n]) for n in kept}}


@dataclass(frozen=True, slots=True)
class Hosts:
    """All nodes that jobs may use, and the layers of their network."""

    hosts: Mapping[str, Host]
    layers: Sequence[str]

    @property
    def total(self) -> dict[str, int]:
        """Return the sum of their resources."""
        total: Counter[str] = Counter()
        for host in self.hosts.values():
            total.update(host.amounts)
        return dict(total)

    def section(self, counted: Iterable[str]) -> dict[str, Any]:
        """Return the section `cluster` of a scheduler's file.

        :param counted: resources to include beside GPUs, CPUs and memory.
        """
        kept = {"cpu", "memory", *counted}
        models: dict[str, dict[str, Any]] = {}
        nodes: dict[str, list[str]] = defaultdict(list)
        for name, host in self.hosts.items():
            model = host.model(kept)
            nodes[_name_in(models, model)].append(name)
        section: dict[str, Any] = {
            "models": models,
            "nodes": {compress_hostlist(names): model for model, names in nodes.items()},
        }
        if self.layers:
            section["network"] = {"layers": {layer: self._domains(layer) for layer in self.layers}}
        return section

    def _domains(self, layer: str) -> dict[str, str]:
        """Return the domain of each node; a node without a label is its own domain."""
        domains: dict[str, list[str]] = defaultdict(list)
        for name, host in self.hosts.items():
            domains[host.labels.get(layer) or name].append(name)
        return {domain: compress_hostlist(nodes) for domain, nodes in domains.items()}


def _name_in(models: dict[str, dict[str, Any]], model: dict[str, Any]) -> str:
    """Return a model's name, from its GPUs with a number if needed, and add it if it is new."""
    stem = model.get("model", "gpu") if model["gpus"] else "cpu"
    for number in count(1):
        name = f"{stem}-{number}" if number > 1 else stem
        if models.setdefault(name, model) == model:
            return str(name)
    raise AssertionError


def read_hosts(dump: Dump, flavors: Collection[str]) -> Hosts:
    """Return the nodes that jobs may use; remarks name the others.

    :param flavors: those of Kueue that count; if empty, all nodes do.
    :raises ValueError: there is no node, or none that jobs may use.
    """
    items = {item.meta.name: item for item in dump.kinds["Node"]}
    if not items:
        raise ValueError("there is no Node: dump the nodes, too, as in kubectl get nodes,...")
    specs = _flavors(dump, flavors)
    labels = [spec.node_labels for spec in specs]
    hosts = {name: host for name, item in items.items() if (host := _host(dump, item, labels))}
    if not hosts:
        raise ValueError(f"no node of {len(items)} belongs to a flavor in use")
    return Hosts(hosts, _layers(dump, hosts, [spec.topology_name for spec in specs]))


def _flavors(dump: Dump, names: Collection[str]) -> list[_Flavor]:
    items = {item.meta.name: item for item in dump.kinds[_FLAVOR]}
    for name in sorted(set(names) - set(items)):
        dump.remark("ResourceFlavor", name, "is not among the objects; it is taken for all nodes")
    specs = [dump.read(items[name], _Flavor) if name in items else _Flavor() for name in names]
    if any(spec.node_taints or spec.tolerations for spec in specs):
        dump.remark("ResourceFlavor", "", "taints and tolerations do not count")
    return specs


def _host(dump: Dump, item: Object, flavors: Sequence[Mapping[str, str]]) -> Host | None:
    spec = dump.read(item, _Spec, whole=False)
    status = dump.read(item, _Status, "status", whole=False)
    stops = [taint.key for taint in spec.taints if taint.effect in _STOPS]
    why = ""
    if any(key in _CONTROL for key in stops):
        why = "is of the control plane; it is left out"
    elif flavors and not any(item.meta.labels.items() >= labels.items() for labels in flavors):
        why = "has the labels of no flavor that counts; it is left out"
    if why:
        dump.remark("Node", item.meta.name, why)
        return None
    amounts = dump.units(status.allocatable)
    if amounts.get("gpu", 0) > _MOST_GPUS:
        place = f"Node {show(item.meta.name)}: status.allocatable[{show(dump.gpu)}]"
        raise ValueError(f"{place}: more than {_MOST_GPUS} GPUs of a node are not supported")
    if amounts.get("gpu") and item.meta.labels.get(_REPLICAS, "1") not in ("0", "1"):
        text = f"shares each GPU {item.meta.labels[_REPLICAS]} times, and each share is a GPU here"
        dump.remark("Node", item.meta.name, text)
    healthy = status.is_ready and not spec.unschedulable and not item.meta.deletion_timestamp
    if not healthy:
        dump.remark("Node", item.meta.name, _UNHEALTHY)
    for key in stops if healthy else ():
        dump.remark("Node", item.meta.name, f"has the taint {key}; here jobs do not mind it")
    return Host(item.meta.labels, amounts, healthy)


def _layers(dump: Dump, hosts: Mapping[str, Host], wanted: Sequence[str]) -> list[str]:
    """Return the levels of the first topology that a flavor names, or else of the only topology."""
    items = {item.meta.name: item for kind in _TOPOLOGIES for item in dump.kinds[kind]}
    named = [name for name in dict.fromkeys(wanted) if name in items] or list(items)
    if not named:
        return []
    for name in named[1:]:
        dump.remark("Topology", name, f"is not read; {show(named[0])} is the network of all nodes")
    levels = [level.node_label for level in dump.read(items[named[0]], _Topology).levels]
    layers = [level for level in levels if level != HOSTNAME]
    for layer in layers:
        for name, host in hosts.items():
            if not host.labels.get(layer):
                text = f"has no label {layer}; it is a domain of its own"
                dump.remark("Node", name, text)
    return layers
