"""Annotations of a bound pod, which a restart reads again."""

import re
from collections.abc import Mapping
from typing import Any

from hivecore.devices import DeviceAllocation
from hivecore.interop.extender.gangs import Member, Slot
from hivecore.interop.hived.serving.annotations import ISOLATION
from hivecore.interop.koordinator import read_designated, write_allocation
from hivecore.interop.koordinator.names import DEVICE_ALLOCATED
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name
from hivecore.interop.kubernetes.serving.logs import LOG
from hivecore.scheduler import PlacedPod, Scheduler

__all__ = ["JOB", "PLACE", "annotations_of", "read_devices", "read_place", "without_place"]

JOB = "hivecore.io/job"
"""The annotation with a pod's job."""
PLACE = "hivecore.io/place"
"""The annotation with its role and number in the job: "worker/3"."""
_WRITTEN = frozenset({JOB, PLACE, ISOLATION, DEVICE_ALLOCATED})
_MOST_GPU = 2**20
_PLACE = re.compile(r"([^/]+)/(0|[1-9][0-9]{0,6})")


def annotations_of(member: Member, place: PlacedPod, scheduler: Scheduler) -> dict[str, str]:
    """Return the annotations of a pod that is bound to its place.

    HiveD pods get HiveD's annotations; other pods get Koordinator's if the scheduler has devices.
    """
    notes = {JOB: member.job, PLACE: f"{place.role}/{place.index}"}
    if member.request.is_of_hived:
        notes[ISOLATION] = ",".join(map(str, place.gpus))
        return notes
    devices, owner = scheduler.devices, f"{member.job}/{place.role}/{place.index}"
    if devices is not None and owner in devices:
        node = devices.inventory(devices.node_of(owner))
        notes[DEVICE_ALLOCATED] = write_allocation(devices.allocations(owner), node)
    return notes


def without_place(notes: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a pod without those that `annotations_of` writes."""
    return {key: note for key, note in notes.items() if key not in _WRITTEN}


def read_devices(pod: Mapping[str, Any], is_of_hived: bool = True) -> tuple[DeviceAllocation, ...]:
    """Return the devices in a bound pod's annotations; empty if there are none or they are
    unreadable.

    :param is_of_hived: whether HiveD's annotation comes before Koordinator's; else after it.

    >>> from hivecore.interop.extender.annotations import read_devices
    >>> isolation = {"hivedscheduler.microsoft.com/pod-leaf-cell-isolation": "0,2"}
    >>> [device.minor for device in read_devices({"metadata": {"annotations": isolation}})]
    [0, 2]
    """
    readers = (_isolated, read_designated) if is_of_hived else (read_designated, _isolated)
    try:
        for read in readers:
            if (devices := read(pod)) is not None:
                return devices
    except (TypeError, ValueError) as error:  # a bound pod must not be lost
        text = "pod %s may use other GPUs than are counted: its annotation cannot be read: %s"
        LOG.warning(text, owner_name(Field(pod)), error)
    return ()


def _isolated(pod: Mapping[str, Any]) -> tuple[DeviceAllocation, ...] | None:
    isolation = Field(pod)["metadata"]["annotations"][ISOLATION]
    if isolation.absent:
        return None
    gpus = [Field(word, isolation.path) for word in isolation.text().split(",") if word]
    return tuple(
        DeviceAllocation("gpu", index.integer_text(0, _MOST_GPU), {"core": 100}) for index in gpus
    )


def read_place(pod: Mapping[str, Any]) -> tuple[str, Slot | None]:
    """Return a bound pod's job and slot from its annotations; "" and ``None`` without them.

    >>> from hivecore.interop.extender.annotations import JOB, PLACE, read_place
    >>> read_place({"metadata": {"annotations": {JOB: "pods:a", PLACE: "worker/3"}}})
    ('pods:a', ('worker', 3))
    """
    annotations = Field(pod)["metadata"]["annotations"]
    place = _PLACE.fullmatch(annotations[PLACE].text())
    return annotations[JOB].text(), None if place is None else (place[1], int(place[2]))
