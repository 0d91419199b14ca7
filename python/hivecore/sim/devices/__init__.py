"""Pods that share GPUs, placed one after the other by several policies: FGD's comparison.

`replay_devices` lets pods come until they ask for more than the cluster has, and tells how many
GPUs were allocated and how fragmented the idle ones were at each load. `devices_report` shows
policies beside each other, and beside what others reported of them.
"""

from hivecore.sim.devices.arrivals import arrivals
from hivecore.sim.devices.inventories import inventories, request_of
from hivecore.sim.devices.replay import SHARING_POLICIES, DeviceReplay, replay_devices
from hivecore.sim.devices.report import Reported, devices_report, median_at

__all__ = [
    "SHARING_POLICIES",
    "DeviceReplay",
    "Reported",
    "arrivals",
    "devices_report",
    "inventories",
    "median_at",
    "replay_devices",
    "request_of",
]
