"""Compares policies for pods that share GPUs, as in the FGD paper.

`replay_devices` lets pods come until they ask for more than the cluster has, and returns how many
GPUs were allocated and how fragmented the idle ones were at each load. `devices_report` compares
policies with each other, and with reported results.
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
