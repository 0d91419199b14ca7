"""`cluster.models`, `cluster.nodes` and device records: the resources of each node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hivecore._quantities import resource_meant
from hivecore.devices import Device, NodeDevices
from hivecore.interop.koordinator import read_device_record
from hivecore.interop.kubernetes.documents import named_object, objects_of
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place
from hivecore.interop.scheduler_file._reader import Reader

__all__ = ["Node", "read_nodes", "read_records"]

_MOST = 256
_NUMBERS = {"nics": 0, "functions": 0, "sockets": 1, "switches": 1}
_OF_MODEL = ("gpus", "gpu_memory", "gpu_reserved", "model", *_NUMBERS, "resources")
_MEMORY = {"gpu_memory": "80Gi", "gpu_reserved": 0}
_HOST = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Node:
    """The resources of a node.

    :param model: name of its model.
    :param devices: its inventory.
    :param resources: amounts by resource, without GPUs.
    """

    model: str
    devices: NodeDevices
    resources: Mapping[str, int]

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return len(self.devices.of_type("gpu"))

    @property
    def amounts(self) -> dict[str, int]:
        """The amounts of GPUs and other resources."""
        return {"gpu": self.gpus, **self.resources}


def read_nodes(cluster: Mapping[str, Any], reader: Reader) -> dict[str, Node]:
    """Return the nodes by name, in the order of the file."""
    at: Place = (None, "cluster")
    models = {
        name: _model(name, entry, place, reader)
        for name, entry, place in reader.named(cluster.get("models"), (at, "models"))
    }
    _remark_typos(models, (at, "models"), reader)
    by_name: dict[str, Node] = {}
    for pattern, entry, place in reader.named(cluster.get("nodes"), (at, "nodes")):
        name = reader.name(entry, place)
        if name is not None and name not in models:
            known = ", ".join(models) or "none"
            reader.add(place, f"there is no model {show(name)}; cluster.models has {known}")
        node = models.get(name or "")
        for host in reader.hosts(pattern, place):
            if host in by_name:
                reader.add(place, f"the node {show(host)} is there twice")
            elif node is not None:
                by_name[host] = node
    return by_name


def _remark_typos(models: Mapping[str, Node], at: Place, reader: Reader) -> None:
    """Name resources of a model that others probably spell otherwise."""
    for name, node in models.items():
        own = node.resources.keys()
        others = {of for other in models.values() for of in other.resources} - own
        for resource in own:
            elsewhere = any(resource in of.resources for key, of in models.items() if key != name)
            meant = "" if elsewhere else resource_meant(resource, sorted(others | {*_HOST} - own))
            if meant:
                place = reader.path((((at, name), "resources"), resource))
                reader.remarks.append(f"{place}: is {meant} meant, which this model lacks?")


def _model(name: str, value: Any, place: Place, reader: Reader) -> Node:
    fields = reader.keys(value, place, _OF_MODEL)
    before = len(reader.found)
    gpus = reader.count(fields.get("gpus"), (place, "gpus"), low=0)
    sizes = {key: fields.get(key, usual) for key, usual in _MEMORY.items()}
    memory = reader.amounts(sizes, place)
    numbers = {
        key: reader.integer(fields.get(key), (place, key), default, _MOST, default)
        for key, default in _NUMBERS.items()
    }
    label = reader.text(fields.get("model"), (place, "model")) or ""
    resources = reader.amounts(fields.get("resources"), (place, "resources"))
    for resource in resources:
        if resource.lower() in ("gpu", "gpus"):
            reader.add(((place, "resources"), resource), "is what gpus says")
    devices = None
    if len(reader.found) == before:
        given: dict[str, Any] = {**memory, **numbers, "model": label}
        devices = reader.build(place, lambda: _inventory(gpus or 0, given, resources))
    return Node(name, devices or NodeDevices(()), resources)


def _inventory(gpus: int, given: Mapping[str, Any], resources: Mapping[str, int]) -> NodeDevices:
    inventory = NodeDevices.uniform(gpus, **given)
    return inventory.replace(devices=(*inventory.devices, *_host(resources)))


def _host(resources: Mapping[str, int]) -> tuple[Device, ...]:
    """Return CPUs and memory as a "host" device, which pods may ask for too."""
    amounts = {name: resources[name] for name in _HOST if name in resources}
    return (Device("host", 0, amounts),) if amounts else ()


def read_records(
    value: Any, place: Place, nodes: Mapping[str, Node], reader: Reader
) -> dict[str, Node]:
    """Return the nodes in a file of Koordinator's Device objects and their Nodes,
    used for labels.
    """
    opened = reader.file(value, place)
    by_name: dict[str, Node] = {}
    if opened is None:
        return by_name
    path, text = opened
    try:
        objects = objects_of(text, path.name)
        labelled = {
            document["metadata"]["name"].text(): document.value
            for document in objects
            if document["kind"].text() == "Node"
        }
        for document in objects:
            if document["kind"].text() != "Device":
                continue
            with named_object(document, "Device"):
                name = document["metadata"]["name"].name()
                if name in by_name or name in nodes:
                    raise document["metadata"]["name"].error("the node is there twice")
                inventory = read_device_record(document.value, labelled.get(name))
                by_name[name] = Node(inventory.model or "Device", inventory, {})
    except (TypeError, ValueError) as error:
        reader.add(place, f"{path}: {error}")
    else:
        if not by_name:
            reader.add(place, f"{path}: there is no object of kind Device")
    return by_name
