"""What every scheduler reads of a pod: its name, its node, whether it has ended, its amounts."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeVar

from hivecore.devices import DeviceAllocation
from hivecore.interop.kubernetes.fields import Field

__all__ = ["BoundPod", "has_ended", "node_of", "owner_name", "pod_requests", "requested"]

_MOST = 2**63 - 1
_Amount = TypeVar("_Amount", int, Fraction)


class BoundPod(NamedTuple):
    """A pod that has devices of a node, as its annotations say: what a restart has to recover.

    The fields are what `hivecore.devices.DeviceCluster.recover` takes.
    """

    name: str
    node: str
    allocations: tuple[DeviceAllocation, ...]


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


def node_of(pod: Field) -> str:
    """The node that the pod is bound to; "": none."""
    return pod["spec"]["nodeName"].text()


def has_ended(pod: Field) -> bool:
    """Whether its containers have ended for good; a pod that is being deleted still runs."""
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
    amounts = _together(spec, lambda one: {name: _amount(one, name) for name in names})
    overhead = spec["overhead"]
    found = {}
    for name in names:
        amount = amounts.get(name, 0)
        if name in overhead:
            amount += overhead[name].quantity(0, _MOST)
        if amount:
            found[name] = amount
    return found


def pod_requests(pod: Field) -> dict[str, Fraction]:
    """What a pod asks for in all, of every resource; see `requested` for how containers add up.

    Requests may differ from limits, and amounts need not be whole. What is asked for the pod as a
    whole, of CPUs, memory and huge pages, takes the place of what its containers ask for.

    Source: Kubernetes, ``PodRequests`` of ``k8s.io/component-helpers/resource``.
    """
    spec = pod["spec"]
    found = _together(spec, _requests)
    for name, amount in _requests(spec).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            found[name] = amount
    for name, entry in spec["overhead"].items():
        if entry.value is not None:
            found[name] = found.get(name, Fraction(0)) + entry.exactly()
    return found


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
    entries.update((k, one) for k, one in resources["requests"].items() if one.value is not None)
    return {name: one.exactly() for name, one in entries.items() if one.value is not None}


def _amount(container: Field, name: str) -> int:
    resources = container["resources"]
    request, limit = resources["requests"][name], resources["limits"][name]
    if request.value is None:
        return 0 if limit.value is None else limit.quantity(0, _MOST)
    amount = request.quantity(0, _MOST)
    if limit.value is not None and limit.quantity(0, _MOST) != amount:
        raise request.error(f"{amount} differs from the limit: devices are not overcommitted")
    return amount
