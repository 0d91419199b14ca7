"""Which GPUs and NICs of which node a pod gets: topology, fabric partitions, shared GPUs."""

from hivecore.devices.device import Device, VirtualFunction, VirtualFunctionGroup
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_cluster import DeviceCluster
from hivecore.devices.device_decision import DeviceDecision
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.explanation import DeviceExplanation, NodeShortage
from hivecore.devices.feasibility import Feasibility
from hivecore.devices.gpu_links import GpuLinks
from hivecore.devices.label_expression import LabelExpression
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.numa_hints import NumaHint
from hivecore.devices.numa_policies import NumaMerge, merge_numa_hints
from hivecore.devices.partition_table import Partition, PartitionTable
from hivecore.devices.reservation import DeviceReservation
from hivecore.devices.share_templates import ShareTemplate, ShareTemplates
from hivecore.devices.task_mix import Task, TaskMix

__all__ = [
    "Device",
    "DeviceAllocation",
    "DeviceCluster",
    "DeviceDecision",
    "DeviceExplanation",
    "DeviceNeed",
    "DeviceRequest",
    "DeviceReservation",
    "Feasibility",
    "GpuLinks",
    "LabelExpression",
    "NodeDevices",
    "NodeShortage",
    "NumaHint",
    "NumaMerge",
    "Partition",
    "PartitionTable",
    "ShareTemplate",
    "ShareTemplates",
    "Task",
    "TaskMix",
    "VirtualFunction",
    "VirtualFunctionGroup",
    "merge_numa_hints",
]
