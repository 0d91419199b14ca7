"""The file topology.yaml: several topologies, each a tree, blocks, or flat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hivecore._arguments import as_mapping, as_name
from hivecore.interop.kubernetes.documents import read_yaml
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.slurm.hostlists import expand_hostlist, fold_hostlist
from hivecore.interop.slurm.switches import (
    Block,
    Switch,
    blocks_of,
    network_of_blocks,
    network_of_switches,
    switches_of,
)
from hivecore.topology import NetworkTopology

__all__ = ["SlurmTopologies", "read_topology_yaml", "write_topology_yaml"]


@dataclass(frozen=True, slots=True)
class SlurmTopologies:
    """What a topology.yaml says.

    :param networks: by name, without slots; those that are flat are left out.
    :param flat: the names of these.
    :param default: the one for partitions that name none.
    """

    networks: Mapping[str, NetworkTopology]
    flat: tuple[str, ...]
    default: str


def read_topology_yaml(text: str) -> SlurmTopologies:
    """The networks of a topology.yaml; layers are called as `read_topology_conf` calls them.

    :raises ValueError: it is no YAML, an attribute is wrong, which the message names by its path,
        or switches are no tree.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: PyYAML is not there.

    >>> from hivecore.interop.slurm import read_topology_yaml
    >>> found = read_topology_yaml('''
    ... - topology: gpu
    ...   cluster_default: true
    ...   block:
    ...     block_sizes: [2, 4]
    ...     blocks:
    ...       - {block: b1, nodes: "n[1-2]"}
    ...       - {block: b2, nodes: "n[3-4]"}
    ... ''')
    >>> found.default, found.networks["gpu"].layers
    ('gpu', ('block4', 'block'))
    """
    documents = [one for one in read_yaml(Field(text, "text")) if one is not None]
    if len(documents) != 1:
        raise ValueError(f"text: must be one document, not {len(documents)}")
    networks: dict[str, NetworkTopology] = {}
    flat: list[str] = []
    defaults: list[str] = []
    for entry in Field(documents[0], "").entries():
        name = entry["topology"].name()
        if name in networks or name in flat:
            raise entry["topology"].error(f"{name!r} is there twice")
        kinds = [kind for kind in ("tree", "block", "flat") if kind in entry]
        if len(kinds) != 1:
            raise entry.error("must have one of tree, block and flat")
        if entry["cluster_default"].flag():
            defaults.append(name)
        with entry.named():
            if kinds == ["tree"]:
                networks[name] = network_of_switches(_switches(entry["tree"]))
            elif kinds == ["block"]:
                networks[name] = _of_blocks(entry["block"])
            elif entry["flat"].flag():
                flat.append(name)
            else:
                raise ValueError("flat must be true")
    known = [*networks, *flat]
    if not known:
        raise ValueError("text: there is no topology")
    return SlurmTopologies(networks, tuple(flat), (defaults or known)[0])


def _switches(tree: Field) -> list[Switch]:
    return [
        Switch(one["switch"].name(), _hosts(one["children"]), _hosts(one["nodes"]))
        for one in tree["switches"].entries()
    ]


def _of_blocks(block: Field) -> NetworkTopology:
    sizes = [one.integer(1, 2**30) for one in block["block_sizes"].entries()]
    blocks = [Block(one["block"].name(), _hosts(one["nodes"])) for one in block["blocks"].entries()]
    return network_of_blocks(blocks, sizes)


def _hosts(field: Field) -> tuple[str, ...]:
    with field.named():
        return tuple(expand_hostlist(field.text()))


def write_topology_yaml(
    networks: Mapping[str, NetworkTopology],
    *,
    default: str = "",
    blocks: Mapping[str, str] | None = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """Networks as a topology.yaml.

    :param networks: by the name of their topology.
    :param default: of these; "": the first.
    :param blocks: of those that are to be blocks, the layer whose domains they are.
    :param sizes: of these, the sizes of blocks.
    :raises ValueError: as of `write_topology_conf`; ``default`` is not there.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: PyYAML is not there.

    >>> from hivecore.interop.slurm import read_topology_yaml, write_topology_yaml
    >>> from hivecore.topology import NetworkTopology
    >>> network = NetworkTopology(["rack"], {"n1": {"rack": "r1"}, "n2": {"rack": "r2"}})
    >>> again = read_topology_yaml(write_topology_yaml({"net": network})).networks["net"]
    >>> again.domain("n2")
    ('r2', 'n2')
    """
    try:
        import yaml
    except ImportError:
        raise ImportError("writing YAML needs PyYAML: pip install pyyaml") from None
    given = {
        as_name(name, "networks"): one for name, one in as_mapping(networks, "networks").items()
    }
    first = default or next(iter(given), "")
    if first not in given:
        raise ValueError(f"default={first!r}: there is no such network")
    document: list[dict[str, Any]] = []
    for name, network in given.items():
        if not isinstance(network, NetworkTopology):
            raise TypeError(f"networks[{name!r}] must be a NetworkTopology")
        entry: dict[str, Any] = {"topology": name, "cluster_default": name == first}
        layer = (blocks or {}).get(name, "")
        if layer:
            of = [
                {"block": one.name, "nodes": fold_hostlist(one.nodes)}
                for one in blocks_of(network, layer)
            ]
            entry["block"] = {"block_sizes": list((sizes or {}).get(name, ())), "blocks": of}
        else:
            entry["tree"] = {"switches": [_written(one) for one in switches_of(network)]}
        document.append(entry)
    written: str = yaml.safe_dump(document, sort_keys=False)
    return written


def _written(one: Switch) -> dict[str, str]:
    below = {"children": fold_hostlist(one.switches)} if one.switches else {}
    nodes = {"nodes": fold_hostlist(one.nodes)} if one.nodes else {}
    return {"switch": one.name, **below, **nodes}
