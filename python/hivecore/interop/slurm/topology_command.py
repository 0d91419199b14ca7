"""`hivecore topology`: Slurm's topologies from the labels of nodes, and back."""

import argparse
import json
from pathlib import Path
from typing import Any

from hivecore._arguments import utf8_text
from hivecore.interop.kubernetes.documents import read_yaml
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.slurm.hostlists import expand_hostlist
from hivecore.interop.slurm.node_labels import read_node_labels, write_node_labels
from hivecore.interop.slurm.topologies import SlurmTopology
from hivecore.interop.slurm.topology_conf import read_topology_conf, write_topology_conf
from hivecore.interop.slurm.topology_yaml import read_topology_yaml, write_topology_yaml

__all__ = ["add_topology_command"]


def add_topology_command(commands: Any) -> None:
    """Add the command to `commands`, the subparsers of a parser of `argparse`."""
    parser = commands.add_parser(
        "topology",
        help="Slurm's topology.yaml or topology.conf from the labels of nodes, and back",
        description="Reads Nodes as `kubectl get nodes -o yaml` prints them, with the labels of "
        "topograph, or topology.conf or topology.yaml; prints one of the others.",
    )
    parser.set_defaults(run=_run, needs=("yaml",), extra="kubernetes")
    parser.add_argument("file", type=Path, metavar="FILE", help="Nodes or a file of Slurm")
    kinds = ("yaml", "conf", "labels")
    parser.add_argument("--to", choices=kinds, default="yaml", help="what to print (default yaml)")
    what = "of Nodes: a topology for a partition with these nodes; as often as needed"
    parser.add_argument("--partition", action="append", metavar="NAME=HOSTLIST", help=what)
    what = "of Nodes: block sizes, from small to large"
    parser.add_argument("--block-sizes", type=int, nargs="+", default=(), metavar="N", help=what)


def _run(arguments: argparse.Namespace) -> None:
    try:
        topologies = _read(utf8_text(arguments.file), arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(_of_file(str(error), arguments.file)) from None
    if arguments.to == "yaml":
        named = [each.replace(name=each.name or "default") for each in topologies]
        print(_yaml(write_topology_yaml(named)), end="")
    elif len(topologies) > 1 and arguments.to == "conf":
        raise ValueError(f"topology.conf has but one topology, here are {len(topologies)}")
    elif arguments.to == "conf":
        print(write_topology_conf(topologies[0]), end="")
    else:
        for topology in topologies:
            for node, labels in write_node_labels(topology).items():
                print("kubectl label node", node, *(f"{k}={v}" for k, v in labels.items()))


def _of_file(message: str, file: Path) -> str:
    """An error that names the file, instead of what Slurm calls such a file."""
    if message.startswith(("--", str(file))):
        return message
    for usual in ("topology.yaml", "topology.conf"):
        if message.startswith(usual):
            return f"{file}{message.removeprefix(usual)}"
    return f"{file}: {message}"


def _read(text: str, arguments: argparse.Namespace) -> tuple[SlurmTopology, ...]:
    is_yaml = arguments.file.suffix in (".yaml", ".yml", ".json")
    named = str(arguments.file)
    documents = read_yaml(Field(text, named)) if is_yaml else ()
    documents = [each for each in documents if each is not None]
    if not any(isinstance(each, dict) and "kind" in each for each in documents):
        for option in ("partition", "block_sizes"):
            if getattr(arguments, option):
                option = option.replace("_", "-")
                raise ValueError(f"--{option} is for Nodes, which are not in {named}")
        return read_topology_yaml(text) if is_yaml else (read_topology_conf(text),)
    partitions: dict[str, tuple[str, ...]] = {}
    for name, _, nodes in (given.partition("=") for given in arguments.partition or ()):
        if name in partitions:
            raise ValueError(f"--partition {name} is there twice")
        partitions[name] = expand_hostlist(nodes)
    sizes = arguments.block_sizes
    return read_node_labels(documents, partitions=partitions or None, block_sizes=sizes)


def _yaml(data: Any) -> str:
    import yaml

    # What JSON cannot tell apart, such as equal strings, is not written as an alias.
    return str(yaml.safe_dump(json.loads(json.dumps(data)), sort_keys=False))
