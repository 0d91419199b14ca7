"""Slurm's network topologies: ``topology.conf``, ``topology.yaml``, hostlists, labels of nodes;
and its batch scripts.
"""

from hivecore.interop.slurm.batch_script import job_of_batch_script
from hivecore.interop.slurm.hostlists import compress_hostlist, expand_hostlist
from hivecore.interop.slurm.node_labels import read_node_labels, write_node_labels
from hivecore.interop.slurm.topologies import SlurmTopology
from hivecore.interop.slurm.topology_conf import read_topology_conf, write_topology_conf
from hivecore.interop.slurm.topology_yaml import read_topology_yaml, write_topology_yaml

__all__ = [
    "SlurmTopology",
    "compress_hostlist",
    "expand_hostlist",
    "job_of_batch_script",
    "read_node_labels",
    "read_topology_conf",
    "read_topology_yaml",
    "write_node_labels",
    "write_topology_conf",
    "write_topology_yaml",
]
