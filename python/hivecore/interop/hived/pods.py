"""What a pod asks for: HiveD's pod-scheduling-spec, checked and with its defaults.

The spec is the mapping that HiveD's users write into the annotation ``pod-scheduling-spec``. What
HiveD reads and never uses is ignored here as there; a name that it does not know is an error.
"""

import operator
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from hivecore._arguments import as_text
from hivecore.cells import AffinityGroup
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import RequestError

__all__ = ["PodRequest"]

_LARGEST = 2**31 - 1  # numbers of the format are int32
_HIGHEST_PRIORITY = 1000
_OLDER = {"leafCellNumber": "gpuNumber", "leafCellType": "gpuType"}
_OF_SPEC = frozenset(
    (
        *("version", "virtualCluster", "priority", "pinnedCellId", "affinityGroup"),
        *("leafCellType", "gpuType", "leafCellNumber", "gpuNumber"),
        *("gangReleaseEnable", "lazyPreemptionEnable", "ignoreK8sSuggestedNodes"),
    )
)
_OF_GROUP = frozenset(("name", "members"))
_OF_MEMBER = frozenset(("podNumber", "leafCellNumber", "gpuNumber"))
_PLACES = {
    "the spec itself": _OF_SPEC,
    "affinityGroup": _OF_GROUP,
    "an entry of affinityGroup.members": _OF_MEMBER,
}


class PodRequest(NamedTuple):
    """One pod's spec with HiveD's defaults; members of equal size are merged."""

    virtual_cluster: str
    priority: int
    pinned_cell: str | None
    leaf_type: str | None
    leaf_number: int
    lazy_preemption: bool
    ignore_suggested: bool
    gang: str
    roles: tuple[tuple[int, int], ...]
    """(leaf cells per pod, how many such pods), in the order of first mention."""

    @classmethod
    def read(cls, spec: Mapping[str, Any], pod_name: str, *, strict: bool = True) -> "PodRequest":
        """The request in this spec; raises `RequestError` naming the field.

        :param strict: whether an unknown field is an error; not for a pod that runs already.
        """
        if not isinstance(spec, Mapping):
            raise RequestError(f"spec must be a mapping, not {type(spec).__name__}")
        if strict:
            _check_fields(spec, _OF_SPEC, "spec")
        get = spec.get
        virtual_cluster = get("virtualCluster")
        if not isinstance(virtual_cluster, str) or not virtual_cluster:
            raise RequestError(
                f"spec: virtualCluster={show(virtual_cluster)}: the name of a virtual cluster is "
                "needed"
            )
        priority = _integer(get("priority"), "spec: priority", -1, _HIGHEST_PRIORITY, 0)
        leaf_number = _integer(
            _either(get, "leafCellNumber", "gpuNumber"), "spec: leafCellNumber", 1, _LARGEST, 0
        )
        pinned_cell = _text(get("pinnedCellId"), "spec: pinnedCellId")
        if pinned_cell is not None and priority < 0:
            raise RequestError(
                f"spec: pinnedCellId={pinned_cell!r} with priority {priority}: opportunistic pods "
                "cannot use pinned cells"
            )
        declared = get("affinityGroup")
        group = pod_name
        members: tuple[tuple[int, int], ...] = ((leaf_number, 1),)
        if declared is not None:
            group, members = _group(declared, strict)
            if all(number != leaf_number for number, _ in members):
                raise RequestError(
                    f"spec: affinityGroup.members: none has leafCellNumber={leaf_number}, the "
                    "number of this pod"
                )
        return cls(
            as_text(virtual_cluster, "virtualCluster"),
            priority,
            pinned_cell,
            _text(_either(get, "leafCellType", "gpuType"), "spec: leafCellType"),
            leaf_number,
            _flag(get("lazyPreemptionEnable"), "spec: lazyPreemptionEnable", False),
            _flag(get("ignoreK8sSuggestedNodes"), "spec: ignoreK8sSuggestedNodes", True),
            group,
            members,
        )

    @property
    def role(self) -> int:
        """Pods with as many leaf cells are alike."""
        return self.leaf_number

    @property
    def leaves(self) -> int:
        """Leaf cells of all pods of the group."""
        return sum(number * pods for number, pods in self.roles)

    def as_group(self) -> AffinityGroup:
        """The whole group, as a `CellCluster` takes it."""
        try:
            return AffinityGroup(
                self.gang,
                self.virtual_cluster,
                [(pods, number) for number, pods in self.roles],
                priority=self.priority,
                leaf_type=None if self.pinned_cell is not None else self.leaf_type,
                pinned_cell=self.pinned_cell,
                lazy_preemption=self.lazy_preemption,
            )
        except ValueError as error:
            raise RequestError(f"spec: affinityGroup: {error}") from None


def _check_fields(fields: Mapping[str, Any], known: frozenset[str], place: str) -> None:
    """Refuse fields that would have no effect: unknown ones, and two names that disagree."""
    if not fields.keys() <= known:
        key = min(fields.keys() - known, key=str)
        homes = [home for home, keys in _PLACES.items() if key in keys]
        near = get_close_matches(str(key), sorted(known), n=1, cutoff=0.8)
        if homes:
            rule = f"has no meaning here, it belongs to {' or '.join(homes)}"
        elif near:
            rule = f"is unknown, is {near[0]} meant?"
        else:
            rule = f"is unknown, known here are {', '.join(sorted(known))}"
        raise RequestError(f"{place}: {show(key)} {rule}")
    for name, old_name in _OLDER.items():
        value, old = fields.get(name), fields.get(old_name)
        if value is not None and old is not None and value != old:
            raise RequestError(f"{place}: {old_name}={show(old)}: {name}, its newer name, differs")


def _group(declared: Any, strict: bool) -> tuple[str, tuple[tuple[int, int], ...]]:
    if not isinstance(declared, Mapping):
        raise RequestError(f"spec: affinityGroup must be a mapping, not {type(declared).__name__}")
    if strict:
        _check_fields(declared, _OF_GROUP, "spec: affinityGroup")
    name = declared.get("name")
    if not isinstance(name, str) or not name:
        raise RequestError(f"spec: affinityGroup.name={show(name)}: a name is needed")
    members = declared.get("members")
    if members is None or isinstance(members, (str, bytes)) or not isinstance(members, Iterable):
        raise RequestError("spec: affinityGroup.members must be a list")
    merged: dict[int, int] = {}
    for i, member in enumerate(members):
        place = f"spec: affinityGroup.members[{i}]"
        if not isinstance(member, Mapping):
            raise RequestError(f"{place} must be a mapping, not {type(member).__name__}")
        if strict:
            _check_fields(member, _OF_MEMBER, place)
        pods = _integer(member.get("podNumber"), f"{place}.podNumber", 1, _LARGEST, 0)
        number = _integer(
            _either(member.get, "leafCellNumber", "gpuNumber"),
            f"{place}.leafCellNumber",
            1,
            _LARGEST,
            0,
        )
        merged[number] = merged.get(number, 0) + pods
    return as_text(name, "name"), tuple(merged.items())


def _either(get: Any, name: str, old_name: str) -> Any:
    value = get(name)
    return get(old_name) if value is None else value


def _integer(value: Any, place: str, low: int, high: int, default: int) -> int:
    if value is None:
        value = default
    if type(value) is not int:
        try:
            if isinstance(value, bool):
                raise TypeError
            value = int.__int__(operator.index(value))
        except TypeError:
            raise RequestError(f"{place}={show(value)}: must be an integer") from None
    if not low <= value <= high:
        raise RequestError(f"{place}={show(value)}: allowed are {low} to {high}")
    return int(value)


def _text(value: Any, place: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise RequestError(f"{place}={show(value)}: must be a string")
    return as_text(value, place) or None


def _flag(value: Any, place: str, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RequestError(f"{place}={show(value)}: must be true or false")
    return value
