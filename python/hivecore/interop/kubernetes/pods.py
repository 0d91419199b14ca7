"""What every scheduler reads of a pod: its name, its node, whether it has ended, its amounts."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from hivecore._arguments import as_mapping, as_text, as_tuple
from hivecore.devices import DeviceAllocation
from hivecore.errors import HivecoreError
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.messages import show

__all__ = [
    "BoundPod",
    "PodId",
    "RequestError",
    "binding_of",
    "has_ended",
    "identify",
    "natural_order",
    "node_of",
    "owner_name",
    "pod_requests",
    "pods_of",
    "priority_of",
    "requested",
]

_MOST = 2**63 - 1
_DIGITS = re.compile(r"([0-9]+)")
_Amount = TypeVar("_Amount", int, Fraction)


class BoundPod(NamedTuple):
    """A pod that has devices of a node, as its annotations say: what a restart has to recover.

    The fields are what `hivecore.devices.DeviceCluster.recover` takes.
    """

    name: str
    node: str
    allocations: tuple[DeviceAllocation, ...]


class RequestError(HivecoreError, ValueError):
    """A pod asks for something that can never be meant: a mistake of its user."""


class PodId(Struct, frozen=True):
    """A pod's name, namespace and uid; "": its uid is not known.

    >>> from hivecore.interop.kubernetes.pods import PodId
    >>> PodId("train", "default").identity, PodId("train", "default", "1").identity
    ('default/train', '1')
    """

    name: str
    namespace: str = "default"
    uid: str = ""

    @property
    def full(self) -> str:
        """The pod as "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """The uid, or the full name where no uid is known."""
        return self.uid or self.full

    @property
    def missing(self) -> str:
        """What is said of the pod where it does not exist."""
        return f"pod {show(self.full)} ({self.identity}) does not exist, or is not known yet"

    @classmethod
    def read(cls, pod: Any, path: str = "pod: ") -> "PodId":
        """The names in a pod's object, or in its metadata alone.

        :param path: what stands before the name of a field in messages.
        :raises RequestError: a name is missing, or is no string.
        """
        if type(pod) is not dict and not isinstance(pod, Mapping):
            kind = type(pod).__name__
            raise RequestError(f"pod must be a name or a mapping with 'name', not {kind}")
        meta = pod.get("metadata", pod)
        if type(meta) is not dict and not isinstance(meta, Mapping):
            place = path.rstrip(".") if path.endswith(".") else f"{path}metadata"
            raise RequestError(f"{place} must be a mapping, not {show(meta)}")
        name = _text_in(meta, "name", path)
        namespace, uid = _text_in(meta, "namespace", path), _text_in(meta, "uid", path)
        if not name:
            raise RequestError(f"{path}name: is missing or empty")
        return cls(name, namespace or "default", uid)


def _text_in(meta: Mapping[str, Any], key: str, path: str) -> str:
    value = meta.get(key)
    if type(value) is str:
        return value
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{path}{key}={show(value)}: must be a string")
    return as_text(value, f"{path}{key}")


def identify(pod: str | PodId | Mapping[str, Any]) -> tuple[str, str]:
    """A pod's identity and its full name; a string is both.

    :raises RequestError: it has no name.
    """
    if isinstance(pod, str):
        if not pod:
            raise RequestError("pod must not be an empty string")
        pod = as_text(pod, "pod")
        return pod, pod
    pod_id = pod if isinstance(pod, PodId) else PodId.read(pod)
    return pod_id.identity, pod_id.full


def binding_of(pod: PodId, node: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    """The object ``Binding``, whose annotations Kubernetes copies to the pod.

    >>> binding_of(PodId("p"), "n", {})["target"]["name"]
    'n'
    """
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "annotations": dict(annotations),
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key for sorting names that counts numbers in them as numbers.

    >>> sorted(["bert-10", "bert-2"], key=natural_order)
    ['bert-2', 'bert-10']
    """
    words = _DIGITS.split(name)  # digits are at odd places; of two numbers the longer is larger
    return [
        (len(word.lstrip("0")), word.lstrip("0")) if i % 2 else (0, word)
        for i, word in enumerate(words)
    ]


def owner_name(pod: Field) -> str:
    """The pod's name as an owner: "namespace/name".

    >>> owner_name(Field({"metadata": {"name": "p"}}))
    'default/p'
    """
    parts = []
    for key in ("namespace", "name"):
        part = pod["metadata"][key]
        parts.append("default" if key == "namespace" and part.absent else part.name())
        if "/" in parts[-1]:
            raise part.error("must not contain '/'")
    return "/".join(parts)


def pods_of(pods: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One pod or several, at least one, as a list."""
    given = (pods,) if isinstance(pods, Mapping) else as_tuple(pods, "pods")
    if not given:
        raise ValueError("pods: is empty")
    return [as_mapping(pod, "pod") for pod in given]


def priority_of(pod: Field) -> int:
    """The pod's priority; 0: it says none."""
    priority = pod["spec"]["priority"]
    return 0 if priority.value is None else priority.integer(-(2**31), 2**31 - 1)


def node_of(pod: Field) -> str:
    """The node that the pod is bound to; "": none."""
    return pod["spec"]["nodeName"].text()


def has_ended(pod: Field) -> bool:
    """Whether its containers have ended; a pod that is being deleted still runs."""
    return pod["status"]["phase"].text() in ("Succeeded", "Failed")


def requested(pod: Field, names: Sequence[str]) -> dict[str, int]:
    """What a pod asks for in all, by the names of resources; what is 0 is left out.

    Containers add up, and so do the init containers that stay (restartPolicy Always). Every other
    init container runs alone beside those that were started before it: where it needs more than
    all containers, that counts. The pod's overhead comes on top.

    :raises ValueError: a request differs from its limit, which Kubernetes does not allow here.

    Source: Kubernetes, ``resource.PodRequests``, and its API server, which takes the limit where
    no request is given.
    """
    spec = pod["spec"]
    amounts = _together(spec, lambda container: {name: _amount(container, name) for name in names})
    overhead = spec["overhead"]
    requests = {}
    for name in names:
        amount = amounts.get(name, 0)
        if name in overhead:
            amount += overhead[name].quantity(0, _MOST)
        if amount:
            requests[name] = amount
    return requests


def pod_requests(pod: Field) -> dict[str, Fraction]:
    """What a pod asks for in all, of every resource; see `requested` for how containers add up.

    Requests may differ from limits, and amounts need not be whole. What is asked for the pod as a
    whole, of CPUs, memory and huge pages, takes the place of what its containers ask for.

    Source: Kubernetes, ``PodRequests`` of ``k8s.io/component-helpers/resource``.
    """
    spec = pod["spec"]
    requests = _together(spec, _requests)
    for name, amount in _requests(spec).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests[name] = amount
    for name, entry in spec["overhead"].items():
        if entry.value is not None:
            requests[name] = requests.get(name, Fraction(0)) + entry.exactly()
    return requests


def _together(
    spec: Field, of_container: Callable[[Field], Mapping[str, _Amount]]
) -> dict[str, _Amount]:
    running: dict[str, _Amount] = {}
    for container in spec["containers"].entries():
        _add(running, of_container(container))
    staying: dict[str, _Amount] = {}
    starting: dict[str, _Amount] = {}
    for container in spec["initContainers"].entries():
        amounts = of_container(container)
        for name, amount in amounts.items():
            beside = staying[name] + amount if name in staying else amount
            starting[name] = max(starting.get(name, beside), beside)
        if container["restartPolicy"].text() == "Always":
            _add(running, amounts)
            _add(staying, amounts)
    for name, amount in starting.items():
        running[name] = max(running.get(name, amount), amount)
    return running


def _add(sums: dict[str, _Amount], amounts: Mapping[str, _Amount]) -> None:
    for name, amount in amounts.items():
        sums[name] = sums[name] + amount if name in sums else amount


def _requests(container: Field) -> dict[str, Fraction]:
    """What is requested; where only a limit is given, that."""
    resources = container["resources"]
    entries = {**dict(resources["limits"].items())}
    entries.update(
        (k, entry) for k, entry in resources["requests"].items() if entry.value is not None
    )
    return {name: entry.exactly() for name, entry in entries.items() if entry.value is not None}


def _amount(container: Field, name: str) -> int:
    resources = container["resources"]
    request, limit = resources["requests"][name], resources["limits"][name]
    if request.value is None:
        return 0 if limit.value is None else limit.quantity(0, _MOST)
    amount = request.quantity(0, _MOST)
    if limit.value is not None and limit.quantity(0, _MOST) != amount:
        raise request.error(f"{amount} differs from the limit: devices are not overcommitted")
    return amount
