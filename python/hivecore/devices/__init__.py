"""Which GPUs and NICs of which node a pod gets: topology, fabric partitions, shared GPUs."""

from hivecore.devices.device import Device, VirtualFunction, VirtualFunctionGroup
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceNeed, DeviceRequest
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.partition_table import Partition, PartitionTable

__all__ = [
    "Device",
    "DeviceAllocation",
    "DeviceNeed",
    "DeviceRequest",
    "NodeDevices",
    "Partition",
    "PartitionTable",
    "VirtualFunction",
    "VirtualFunctionGroup",
]
