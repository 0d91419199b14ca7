"""Gangs as Koordinator's pods and PodGroups define them."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from hivecore._arguments import as_bool, as_instance, as_int, as_mapping
from hivecore.gangs import BindInfo, GangMode, GangSpec, GangStatus, MatchPolicy
from hivecore.interop.koordinator.gangs.durations import read_duration
from hivecore.interop.koordinator.gangs.names import (
    BIND_GROUP,
    BIND_MEMBERS,
    DEFINITION,
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
    VERSIONS,
    WAIT_TIME,
    X_POD_GROUP,
)
from hivecore.interop.koordinator.keys import meant_key
from hivecore.interop.koordinator.topology.names import SPEC
from hivecore.interop.koordinator.topology.rules import read_rules
from hivecore.interop.kubernetes.documents import check_kind, named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import node_of, owner_name
from hivecore.interop.kubernetes.workloads import workload_of

__all__ = [
    "GangPod",
    "bind_annotations",
    "pod_group_status",
    "read_gang_pod",
    "read_groups",
    "read_pod_group",
]

_MOST = 2**31 - 1
_LONGEST = 2**60
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_MODES: dict[str, GangMode] = {"Strict": "strict", "NonStrict": "non-strict"}
_POLICIES: dict[str, MatchPolicy] = {policy: policy for policy in get_args(MatchPolicy)}
_WORKLOAD_REF = ("name", "podGroup", "podGroupReplicaKey")
#: Annotations of a PodGroup that are read.
_OF_GROUP = (TOTAL, MODE, GROUPS, MATCH_POLICY, MATCH_POLICY_ALIAS, SPEC)


@dataclass(frozen=True, slots=True)
class GangPod:
    """A pod of a gang, as `hivecore.gangs.Coscheduler.create_pod` takes it.

    :param name: the pod, "namespace/name".
    :param gang: its gang, "namespace/name".
    :param spec: the pod's definition of the gang, if it has one.
    :param node: the node that the pod is bound to; "" if it is not bound.
    """

    name: str
    gang: str
    spec: GangSpec | None
    node: str


def read_gang_pod(
    pod: Mapping[str, Any],
    *,
    default_wait_time: int = 600,
    per_second: int = 1,
    strict: bool = False,
) -> GangPod | None:
    """Return a pod's gang, and the gang's definition if the pod has one; ``None`` without a gang.

    :param pod: the Kubernetes object as plain data.
    :param default_wait_time: used if the pod has none, in the caller's unit of time.
    :param per_second: the caller's units of time in a second.
    :param strict: whether to raise an error instead of a default for a value that cannot be read,
        for two names of one gang, and for a definition without a name.
    :raises ValueError: a name is missing, the pod names several PodGroups, or its topology rules
        cannot be read. The message names the pod.
    :raises TypeError: a field has a wrong type.

    The first of these names the gang: the label "pod-group.scheduling.sigs.k8s.io" or
    "scheduling.x-k8s.io/pod-group"; ``spec.schedulingGroup`` or ``spec.workloadRef`` of Kubernetes
    ("workload/group" and the replica's key); the label "pod-group.scheduling.sigs.k8s.io/name"; the
    annotation; the labels of JobSet, Kubeflow, KubeRay and LeaderWorkerSet if the pod has a
    minimum. If one of the first four names it, the definition is that object's.

    Without a readable minimum there is no definition. Other values that are missing or unreadable
    take their defaults: a total equal to the minimum, strict, once-satisfied,
    ``default_wait_time``, and a group of its own. Durations are rounded up.

    Source: Koordinator, ``tryInitByPodConfig``. Unlike there, a negative minimum is unreadable.

    >>> from hivecore.interop.koordinator import read_gang_pod
    >>> gang = "gang.scheduling.koordinator.sh"
    >>> pod = read_gang_pod(
    ...     {
    ...         "metadata": {
    ...             "name": "p",
    ...             "namespace": "ai",
    ...             "annotations": {f"{gang}/name": "train", f"{gang}/min-available": "4"},
    ...         }
    ...     }
    ... )
    >>> pod.gang, pod.spec.min_members, pod.spec.wait_time
    ('ai/train', 4, 600)
    """
    units = as_int(per_second, "per_second", 1, 10**9)
    default = as_int(default_wait_time, "default_wait_time", 1, _LONGEST)
    reader = _Reader(as_bool(strict, "strict"))
    document = Field(as_mapping(pod, "pod"))
    with named_object(document, "Pod"):
        metadata = document["metadata"]
        labels, annotations = metadata["labels"], metadata["annotations"]
        by_object = _pod_group(labels, document["spec"])
        local = by_object or labels[LIGHT_NAME].text() or annotations[GANG_NAME].text()
        workload = None if local else workload_of(labels, annotations)
        if workload is not None:
            local = workload.gang
        if strict:
            _check_names(labels, annotations, local)
        if not local:
            return None
        name, node = owner_name(document), node_of(document)
        gang = f"{metadata['namespace'].text() or 'default'}/{local}"
        minimum = reader.minimum(labels[LIGHT_MINIMUM], annotations[MINIMUM])
        if workload is not None and minimum is None:
            minimum = None if workload.size is None else reader.number(workload.size)
            if minimum is None:
                return None  # it starts by itself, as nothing says which others it needs
        if by_object or minimum is None:
            return GangPod(name, gang, None, node)
        wait = _units(reader.seconds(annotations[WAIT_TIME]), units) or default
        return GangPod(name, gang, reader.spec(gang, minimum, annotations, wait), node)


def read_groups(annotations: Field, *, strict: bool) -> tuple[str, ...]:
    """Return the gangs that the annotation ``groups`` of a pod or PodGroup names.

    :param strict: as in `read_gang_pod`.

    >>> read_groups(Field({"gang.scheduling.koordinator.sh/groups": '["a/ps"]'}), strict=True)
    ('a/ps',)
    """
    return _Reader(strict).groups(annotations[GROUPS])


def read_pod_group(
    record: Mapping[str, Any],
    *,
    default_wait_time: int = 600,
    per_second: int = 1,
    strict: bool = False,
) -> GangSpec:
    """Return the gang that a PodGroup defines.

    :param record: the Kubernetes object as plain data.
    :param default_wait_time: used if the object has none, in the caller's unit of time.
    :param per_second: the caller's units of time in a second.
    :param strict: as in `read_gang_pod`.
    :raises ValueError: the name or the minimum is missing or out of range, a key of ``spec`` is
        unknown, or the API version is another. The message names the object and has the path.
    :raises TypeError: a field has a wrong type.

    The API is ``scheduling.sigs.k8s.io/v1alpha1`` or ``scheduling.x-k8s.io/v1alpha1``.
    ``spec.scheduleTimeoutSeconds`` counts if it is above 0. ``spec.minResources`` has no effect, as
    pods have their own requests. All other values are annotations with the defaults of
    `read_gang_pod`. Source: Koordinator, ``tryInitByPodGroup``.

    >>> from hivecore.interop.koordinator import read_pod_group
    >>> record = {"metadata": {"name": "train"}, "spec": {"minMember": 4}}
    >>> read_pod_group(record).name, read_pod_group(record).min_members
    ('default/train', 4)
    """
    units = as_int(per_second, "per_second", 1, 10**9)
    default = as_int(default_wait_time, "default_wait_time", 1, _LONGEST)
    reader = _Reader(as_bool(strict, "strict"))
    document = Field(as_mapping(record, "record"))
    with named_object(document, KIND):
        check_kind(document, KIND, VERSIONS)
        spec = document["spec"]
        spec.only("minMember", "minResources", "scheduleTimeoutSeconds")
        minimum = spec["minMember"].integer(0, _MOST)
        timeout = spec["scheduleTimeoutSeconds"]
        seconds = 0 if timeout.value is None else timeout.integer(-_MOST - 1, _MOST)
        wait = _units(Fraction(seconds), units) or default
        annotations = document["metadata"]["annotations"]
        if strict:
            _check_keys(document["metadata"])
        return reader.spec(owner_name(document), minimum, annotations, wait)


def bind_annotations(info: BindInfo) -> dict[str, str]:
    """Return the annotations that Koordinator's scheduler writes on a pod when it binds it.

    :param info: from `hivecore.gangs.Coscheduler.bind_info`.
    :raises TypeError: ``info`` is not a BindInfo.

    >>> from hivecore.gangs import BindInfo
    >>> from hivecore.interop.koordinator import bind_annotations
    >>> sorted(bind_annotations(BindInfo("ai/train", 4)).values())
    ['4', 'ai/train']
    """
    as_instance(info, "info", BindInfo)
    return {BIND_GROUP: info.group, BIND_MEMBERS: str(info.members)}


def pod_group_status(status: GangStatus) -> dict[str, Any]:
    """Return a merge patch with the status of a PodGroup.

    :param status: from `hivecore.gangs.Coscheduler.gang`.
    :raises TypeError: ``status`` is not a GangStatus.

    >>> from hivecore.gangs import Coscheduler, GangSpec
    >>> from hivecore.interop.koordinator import pod_group_status
    >>> gangs = Coscheduler()
    >>> _ = gangs.create_pod("p", GangSpec("train", 1), now=0, bound=True)
    >>> pod_group_status(gangs.gang("train"))
    {'status': {'phase': 'Scheduled', 'scheduled': 1, 'running': 0, 'succeeded': 0, 'failed': 0}}
    """
    as_instance(status, "status", GangStatus)
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


def _check_keys(metadata: Field) -> None:
    """Refuse misspelt keys of a PodGroup, and annotations among its labels."""
    for place in ("labels", "annotations"):
        for key, field in metadata[place].items():
            if key in _OF_GROUP and place == "labels" and metadata["annotations"][key].absent:
                raise field.error("is read as an annotation only")
            meant = meant_key(key)
            if meant in _OF_GROUP:
                raise field.error(f"is unknown, is {meant} meant?")


def _pod_group(labels: Field, spec: Field) -> str:
    """Return the PodGroup that a pod names in any API, or the group of its Workload."""
    fields = {
        POD_GROUP: labels[POD_GROUP],
        X_POD_GROUP: labels[X_POD_GROUP],
        "its schedulingGroup": spec["schedulingGroup"]["podGroupName"],
    }
    names = {key: text for key, field in fields.items() if (text := field.text())}
    if "workloadRef" in spec:
        fields["its workloadRef"] = reference = spec["workloadRef"]
        parts = (reference[key].text() for key in _WORKLOAD_REF)
        names["its workloadRef"] = "/".join(filter(None, parts))
    first = next(iter(names), "")
    for key, name in names.items():
        if name != names[first]:
            raise fields[key].error(f"is {show(name)}, and {first} is {show(names[first])}")
    return names.get(first, "")


def _check_names(labels: Field, annotations: Field, name: str) -> None:
    """Refuse a definition without a name, and a second name."""
    if not name:
        for fields, keys in ((labels, (LIGHT_MINIMUM,)), (annotations, DEFINITION)):
            for key in keys:
                if key in fields and not fields[key].absent:
                    raise fields[key].error("the pod names no gang")
    for field in (labels[LIGHT_NAME], annotations[GANG_NAME]):
        if not field.absent and field.text() != name:
            raise field.error(f"is {show(field.text())}, and its gang is called {show(name)}")


class _Reader:
    """Reads values that have a default; with ``strict``, an unreadable value is an error."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict

    def _misread(self, field: Field, needed: str) -> None:
        if self._strict and not field.absent:
            raise field.error(f"must be {needed}, not {show(field.text())}")

    def minimum(self, label: Field, annotation: Field) -> int | None:
        """Return the first of the two that is set; ``None`` if it cannot be read."""
        return self.number(annotation if label.absent else label)

    def number(self, field: Field) -> int | None:
        """Return a number of pods; ``None`` if it cannot be read."""
        number = _integer(field.text())
        if number is not None and number >= 0:
            return number
        self._misread(field, f"an integer from 0 to {_MOST}")
        return None

    def seconds(self, field: Field) -> Fraction | None:
        """Return a duration above 0, or ``None``."""
        seconds = read_duration(field.text())
        if seconds is not None and seconds > 0:
            return seconds
        self._misread(field, "a duration such as 10m")
        return None

    def spec(self, name: str, minimum: int, annotations: Field, wait_time: int) -> GangSpec:
        """Return the gang that the annotations of a pod or PodGroup define."""
        total = _integer(annotations[TOTAL].text())
        if total is None or total < minimum:
            self._misread(annotations[TOTAL], f"an integer from {minimum} to {_MOST}")
        mode, alias = annotations[MODE], annotations[MATCH_POLICY_ALIAS]
        policy = alias if annotations[MATCH_POLICY].absent else annotations[MATCH_POLICY]
        if mode.text() not in _MODES:
            self._misread(mode, " or ".join(_MODES))
        if policy.text() not in _POLICIES:
            self._misread(policy, f"one of {', '.join(_POLICIES)}")
        return GangSpec(
            name,
            minimum,
            minimum if total is None else max(total, minimum),
            mode=_MODES.get(mode.text(), "strict"),
            match_policy=_POLICIES.get(policy.text(), "once-satisfied"),
            wait_time=wait_time,
            groups=self.groups(annotations[GROUPS]),
            **read_rules(annotations[SPEC])._asdict(),
        )

    def groups(self, field: Field) -> tuple[str, ...]:
        """Return the gangs in a JSON list; empty if the text is not such a list."""
        try:
            names = json.loads(field.text())
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            self._misread(field, 'a list of gangs, such as ["ai/train"]')
            return ()
        if not all("/" in name for name in names):
            self._misread(field, "names with their namespaces, such as ai/train")
        return tuple(names)


def _integer(text: str) -> int | None:
    """Parse a 32-bit integer as Go does."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_MOST - 1 <= number <= _MOST else None


def _units(seconds: Fraction | None, per_second: int) -> int:
    return 0 if seconds is None or seconds <= 0 else min(_LONGEST, math.ceil(seconds * per_second))
