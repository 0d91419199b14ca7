"""What every scheduler reads of a pod: its name, its node, whether it has ended, its amounts."""

from collections.abc import Sequence
from typing import NamedTuple

from hivecore.devices import DeviceAllocation
from hivecore.interop.kubernetes.fields import Field

__all__ = ["BoundPod", "has_ended", "node_of", "owner_name", "requested"]

_MOST = 2**63 - 1


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
    running = dict.fromkeys(names, 0)
    for container in spec["containers"].entries():
        for name in names:
            running[name] += _amount(container, name)
    staying = dict.fromkeys(names, 0)
    starting = dict.fromkeys(names, 0)
    for container in spec["initContainers"].entries():
        stays = container["restartPolicy"].text() == "Always"
        for name in names:
            amount = _amount(container, name)
            starting[name] = max(starting[name], staying[name] + amount)
            if stays:
                running[name] += amount
                staying[name] += amount
    overhead = spec["overhead"]
    found = {}
    for name in names:
        amount = max(running[name], starting[name])
        if name in overhead:
            amount += overhead[name].quantity(0, _MOST)
        if amount:
            found[name] = amount
    return found


def _amount(container: Field, name: str) -> int:
    resources = container["resources"]
    request, limit = resources["requests"][name], resources["limits"][name]
    if request.value is None:
        return 0 if limit.value is None else limit.quantity(0, _MOST)
    amount = request.quantity(0, _MOST)
    if limit.value is not None and limit.quantity(0, _MOST) != amount:
        raise request.error(f"{amount} differs from the limit: devices are not overcommitted")
    return amount
