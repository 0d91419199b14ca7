"""Gangs as Koordinator's pods and PodGroups define them."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hivecore._arguments import as_int, as_mapping
from hivecore.gangs import BindInfo, GangMode, GangSpec, GangStatus, MatchPolicy
from hivecore.interop.koordinator.gangs.durations import read_duration
from hivecore.interop.koordinator.gangs.names import (
    BIND_GROUP,
    BIND_MEMBERS,
    GANG_NAME,
    GROUPS,
    KIND,
    LIGHT_MINIMUM,
    LIGHT_NAME,
    MATCH_POLICY,
    MATCH_POLICY_ALIAS,
    MINIMUM,
    MODE,
    POD_GROUP,
    TOTAL,
    WAIT_TIME,
)
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import node_of, owner_name

__all__ = [
    "GangPod",
    "bind_annotations",
    "pod_group_status",
    "read_gang_pod",
    "read_pod_group",
]

_MOST = 2**31 - 1
_LONGEST = 2**60
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_POLICIES: dict[str, MatchPolicy] = {
    "only-waiting": "only-waiting",
    "waiting-and-running": "waiting-and-running",
    "once-satisfied": "once-satisfied",
}


@dataclass(frozen=True, slots=True)
class GangPod:
    """A pod of a gang: what `hivecore.gangs.Coscheduler.create_pod` takes.

    :param name: the pod, "namespace/name".
    :param gang: its gang, "namespace/name".
    :param spec: how the pod defines the gang; ``None``: it does not.
    :param node: the node that it is bound to; "": none.
    """

    name: str
    gang: str
    spec: GangSpec | None
    node: str


def read_gang_pod(
    pod: Mapping[str, Any], *, default_wait_time: int = 600, per_second: int = 1
) -> GangPod | None:
    """The gang that a pod belongs to, and its definition if the pod has one; ``None``: no gang.

    :param pod: the object of kind Pod as plain data.
    :param default_wait_time: where the pod says none, in units of time.
    :param per_second: how many of the caller's units of time are a second.
    :raises ValueError: a name is missing; the message names the pod.
    :raises TypeError: something is of a wrong type.

    The name is that of the first of these: the label of PodGroups, the label
    "pod-group.scheduling.sigs.k8s.io/name", the annotation. Whoever uses the first leaves the
    definition to a PodGroup. Without a minimum that can be read there is no definition. All else
    has defaults, and takes them where it cannot be read: as many pods in total as the minimum,
    strict, once-satisfied, ``default_wait_time``, a group of its own. Durations are rounded up.
    Source: Koordinator, ``tryInitByPodConfig``; a negative minimum cannot be read here.

    >>> from hivecore.interop.koordinator import read_gang_pod
    >>> gang = "gang.scheduling.koordinator.sh"
    >>> found = read_gang_pod(
    ...     {
    ...         "metadata": {
    ...             "name": "p",
    ...             "namespace": "ai",
    ...             "annotations": {f"{gang}/name": "train", f"{gang}/min-available": "4"},
    ...         }
    ...     }
    ... )
    >>> found.gang, found.spec.min_members, found.spec.wait_time
    ('ai/train', 4, 600)
    """
    units = as_int(per_second, "per_second", 1, 10**9)
    default = as_int(default_wait_time, "default_wait_time", 1, _LONGEST)
    document = Field(as_mapping(pod, "pod"))
    with named_object(document, "Pod"):
        metadata = document["metadata"]
        labels, annotations = metadata["labels"], metadata["annotations"]
        by_object = labels[POD_GROUP].text()
        local = by_object or labels[LIGHT_NAME].text() or annotations[GANG_NAME].text()
        if not local:
            return None
        name, node = owner_name(document), node_of(document)
        gang = f"{metadata['namespace'].text() or 'default'}/{local}"
        minimum = _integer(labels[LIGHT_MINIMUM].text() or annotations[MINIMUM].text())
        if by_object or minimum is None or minimum < 0:
            return GangPod(name, gang, None, node)
        seconds = read_duration(annotations[WAIT_TIME].text())
        wait = _units(seconds, units) or default
        return GangPod(name, gang, _spec(gang, minimum, annotations, wait), node)


def read_pod_group(
    record: Mapping[str, Any], *, default_wait_time: int = 600, per_second: int = 1
) -> GangSpec:
    """The gang that a PodGroup defines.

    :param record: the object as plain data.
    :param default_wait_time: where it says none, in units of time.
    :param per_second: how many of the caller's units of time are a second.
    :raises ValueError: the name or the minimum is missing or out of range; the message names the
        object and has the path.
    :raises TypeError: something is of a wrong type.

    ``spec.scheduleTimeoutSeconds`` counts if it is above 0. The rest stands in annotations, with
    the defaults of `read_gang_pod`. Source: Koordinator, ``tryInitByPodGroup``.

    >>> from hivecore.interop.koordinator import read_pod_group
    >>> record = {"metadata": {"name": "train"}, "spec": {"minMember": 4}}
    >>> read_pod_group(record).name, read_pod_group(record).min_members
    ('default/train', 4)
    """
    units = as_int(per_second, "per_second", 1, 10**9)
    default = as_int(default_wait_time, "default_wait_time", 1, _LONGEST)
    document = Field(as_mapping(record, "record"))
    with named_object(document, KIND):
        spec = document["spec"]
        minimum = spec["minMember"].integer(0, _MOST)
        timeout = spec["scheduleTimeoutSeconds"]
        seconds = 0 if timeout.value is None else timeout.integer(-_MOST - 1, _MOST)
        wait = _units(Fraction(seconds), units) or default
        return _spec(owner_name(document), minimum, document["metadata"]["annotations"], wait)


def bind_annotations(info: BindInfo) -> dict[str, str]:
    """The annotations that Koordinator's scheduler writes on a pod when it binds it.

    :param info: what `hivecore.gangs.Coscheduler.bind_info` says.
    :raises TypeError: it is no BindInfo.

    >>> from hivecore.gangs import BindInfo
    >>> from hivecore.interop.koordinator import bind_annotations
    >>> sorted(bind_annotations(BindInfo("ai/train", 4)).values())
    ['4', 'ai/train']
    """
    if not isinstance(info, BindInfo):
        raise TypeError(f"info must be a BindInfo, not {type(info).__name__}")
    return {BIND_GROUP: info.group, BIND_MEMBERS: str(info.members)}


def pod_group_status(status: GangStatus) -> dict[str, Any]:
    """The status of a PodGroup, for a merge patch of the object.

    :param status: what `hivecore.gangs.Coscheduler.gang` says.
    :raises TypeError: it is no GangStatus.

    >>> from hivecore.gangs import Coscheduler, GangSpec
    >>> from hivecore.interop.koordinator import pod_group_status
    >>> gangs = Coscheduler()
    >>> _ = gangs.create_pod("p", GangSpec("train", 1), now=0, bound=True)
    >>> pod_group_status(gangs.gang("train"))
    {'status': {'phase': 'Scheduled', 'scheduled': 1, 'running': 0, 'succeeded': 0, 'failed': 0}}
    """
    if not isinstance(status, GangStatus):
        raise TypeError(f"status must be a GangStatus, not {type(status).__name__}")
    ended = status.succeeded + status.failed
    return {
        "status": {
            "phase": status.phase,
            "scheduled": status.bound + ended,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
        }
    }


def _spec(name: str, minimum: int, annotations: Field, wait_time: int) -> GangSpec:
    total = _integer(annotations[TOTAL].text())
    mode: GangMode = "non-strict" if annotations[MODE].text() == "NonStrict" else "strict"
    policy = annotations[MATCH_POLICY].text() or annotations[MATCH_POLICY_ALIAS].text()
    return GangSpec(
        name,
        minimum,
        minimum if total is None else max(total, minimum),
        mode=mode,
        match_policy=_POLICIES.get(policy, "once-satisfied"),
        wait_time=wait_time,
        groups=_groups(annotations[GROUPS].text()),
    )


def _integer(text: str) -> int | None:
    """As Go reads an integer of 32 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_MOST - 1 <= number <= _MOST else None


def _units(seconds: Fraction | None, per_second: int) -> int:
    return 0 if seconds is None or seconds <= 0 else min(_LONGEST, math.ceil(seconds * per_second))


def _groups(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(names, list) or not all(isinstance(one, str) and one for one in names):
        return []
    return names
