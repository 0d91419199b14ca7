"""The cluster's objects that define gangs: PodGroups of several APIs, and Workloads.

Each kind has its own name here, as four of them are called PodGroup.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import structs

from hivecore.gangs import GangSpec
from hivecore.interop.koordinator import read_pod_group
from hivecore.interop.kubernetes.documents import named_object
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import owner_name

__all__ = ["GANG_KINDS", "GangKind", "called_by_api", "owner_of", "read_gangs", "renamed"]

_MOST = 2**31 - 1


class GangKind(NamedTuple):
    """A kind of object that defines gangs.

    :param api: its group and version.
    :param kind: its name in that API.
    :param condition: the type of the condition that shows whether a gang is scheduled, or "".
    """

    api: str
    kind: str = "PodGroup"
    condition: str = ""

    @property
    def is_of_kubernetes(self) -> bool:
        """Whether it is part of Kubernetes."""
        return self.api.startswith("scheduling.k8s.io/")

    def path(self, namespace: str = "") -> str:
        """Return the path of its objects, in all namespaces or in one."""
        within = f"namespaces/{namespace}/" if namespace else ""
        return f"/apis/{self.api}/{within}{self.kind.lower()}s"


#: Kinds by the names under which they are watched.
GANG_KINDS = {
    "PodGroup": GangKind("scheduling.sigs.k8s.io/v1alpha1"),
    "PodGroup.x-k8s.io": GangKind("scheduling.x-k8s.io/v1alpha1"),
    # of Kubernetes 1.35, 1.36 and 1.37
    "Workload.k8s.io": GangKind("scheduling.k8s.io/v1alpha1", "Workload"),
    "PodGroup.k8s.io": GangKind("scheduling.k8s.io/v1alpha2", condition="PodGroupScheduled"),
    "PodGroup.v1alpha3.k8s.io": GangKind(
        "scheduling.k8s.io/v1alpha3", condition="PodGroupInitiallyScheduled"
    ),
}
_NAMES = {(kind.api, kind.kind): name for name, kind in GANG_KINDS.items()}


def called_by_api(events: Any) -> Any:
    """Return a watch event or list with kinds named as in `GANG_KINDS`."""
    if not isinstance(events, Mapping):
        return events
    if "object" in events:
        return {**events, "object": called_by_api(events["object"])}
    api, kind = events.get("apiVersion"), events.get("kind")
    if not isinstance(api, str) or not isinstance(kind, str):
        return events
    base = kind.removesuffix("List")
    return {**events, "kind": _NAMES.get((api, base), base) + kind[len(base) :]}


def read_gangs(kind: str, item: Mapping[str, Any]) -> dict[str, GangSpec]:
    """Return the gangs that an object defines, by name.

    :param kind: a name in `GANG_KINDS`.
    :raises ValueError: a name or a number is missing or wrong; the message names the object.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.extender.gang_objects import read_gangs
    >>> policy = {"gang": {"minCount": 4}}
    >>> spec = {"podGroups": [{"name": "workers", "policy": policy}]}
    >>> workload = {"metadata": {"name": "train", "namespace": "ai"}, "spec": spec}
    >>> [(name, gang.min_members) for name, gang in read_gangs("Workload.k8s.io", workload).items()]
    [('ai/train/workers', 4)]
    """
    given, document = GANG_KINDS[kind], Field(item)
    with named_object(document, given.kind):
        name = owner_name(document)
        if not given.is_of_kubernetes:
            minimums = {}
        elif given.kind == "PodGroup":
            minimums = {name: _minimum(document["spec"]["schedulingPolicy"])}
        else:
            minimums = {
                f"{name}/{group['name'].name()}": _minimum(group["policy"])
                for group in document["spec"]["podGroups"].entries()
            }
    if not given.is_of_kubernetes:
        return {name: read_pod_group({**item, "kind": given.kind}, strict=True)}
    # Koordinator's annotations apply to gangs of all kinds.
    return {
        gang: renamed(
            read_pod_group(
                {"metadata": item.get("metadata"), "spec": {"minMember": least}}, strict=True
            ),
            gang,
        )
        for gang, least in minimums.items()
    }


def _minimum(policy: Field) -> int:
    """Return the minimum of a gang with this policy; 0 if its pods need not wait for each other."""
    if policy["basic"].value is not None:
        return 0
    return policy["gang"]["minCount"].integer(1, _MOST)


def renamed(spec: GangSpec, gang: str) -> GangSpec:
    """Return the same definition under another name."""
    groups = [group for group in spec.groups if group != spec.name]
    return structs.replace(spec, name=gang, groups=groups)


def owner_of(gang: str) -> str:
    """Return the object that may define a gang: the first two parts of its name.

    >>> owner_of("ai/train/workers/0")
    'ai/train'
    """
    return "/".join(gang.split("/")[:2])
