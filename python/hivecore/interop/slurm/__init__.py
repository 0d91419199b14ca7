"""Slurm's topology files and host lists: text in and out."""

from hivecore.interop.slurm.hostlists import expand_hostlist, fold_hostlist
from hivecore.interop.slurm.topology_conf import read_topology_conf, write_topology_conf
from hivecore.interop.slurm.topology_yaml import (
    SlurmTopologies,
    read_topology_yaml,
    write_topology_yaml,
)

__all__ = [
    "SlurmTopologies",
    "expand_hostlist",
    "fold_hostlist",
    "read_topology_conf",
    "read_topology_yaml",
    "write_topology_conf",
    "write_topology_yaml",
]
