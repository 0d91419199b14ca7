"""The objects of a cluster that define gangs: PodGroups of several APIs, and Workloads.

Each kind is watched under a name of its own, as four of them are called PodGroup.
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
    """A kind of objects that define gangs.

    :param api: its group and version.
    :param kind: what it is called there.
    :param condition: the type of the condition that says whether a gang is scheduled; "": none.
    """

    api: str
    kind: str = "PodGroup"
    condition: str = ""

    @property
    def is_of_kubernetes(self) -> bool:
        """Whether it comes with Kubernetes."""
        return self.api.startswith("scheduling.k8s.io/")

    def path(self, namespace: str = "") -> str:
        """The path of the objects, of all namespaces or of this one."""
        within = f"namespaces/{namespace}/" if namespace else ""
        return f"/apis/{self.api}/{within}{self.kind.lower()}s"


#: By the names under which they are watched.
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
    """An event or a list whose objects define gangs, with their kind called as in `GANG_KINDS`."""
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
    """The gangs that an object defines, by name.

    :param kind: as in `GANG_KINDS`.
    :raises ValueError: a name or a number is missing or wrong; the message names the object.
    :raises TypeError: something is of a wrong type.

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
    # Koordinator's annotations say the same of a gang wherever it is defined.
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
    """With how many pods a gang of this policy may start; 0: its pods do not wait for others."""
    if policy["basic"].value is not None:
        return 0
    return policy["gang"]["minCount"].integer(1, _MOST)


def renamed(spec: GangSpec, gang: str) -> GangSpec:
    """The same definition for a gang of this name."""
    groups = [group for group in spec.groups if group != spec.name]
    return structs.replace(spec, name=gang, groups=groups)


def owner_of(gang: str) -> str:
    """The object that may define a gang: its first two names.

    >>> owner_of("ai/train/workers/0")
    'ai/train'
    """
    return "/".join(gang.split("/")[:2])
