"""hivecore in front of a live Slurm: its queue is read, and held jobs are released to nodes."""

from hivecore.interop.slurm.live.broker import Broker
from hivecore.interop.slurm.live.commands import commands
from hivecore.interop.slurm.live.queue import (
    SlurmJob,
    SlurmNode,
    read_details,
    read_nodes,
    read_queue,
)
from hivecore.interop.slurm.live.shadow import Shadow

__all__ = [
    "Broker",
    "Shadow",
    "SlurmJob",
    "SlurmNode",
    "commands",
    "read_details",
    "read_nodes",
    "read_queue",
]
