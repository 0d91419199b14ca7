"""Each pod gets the devices of all of its claims, by the rules of Kubernetes."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import copy
from typing import Any

from hivecore._quantities import read_exactly
from hivecore._record import force_setattr
from hivecore.dra import DeviceId, ResourceClaim, published
from hivecore.dra.proof import ClusterFacts, verify_allocations
from hivecore.errors import CertificateError
from hivecore.scheduler import Job, PlacedPod, Promote, Start
from hivecore.verify._state import OF_CLASS, State, hold, pod_name

__all__ = ["check_claims"]


def check_claims(action: Start | Promote, job: Job, state: State) -> None:
    """Check a job's allocations, jointly for each node, and let its claims hold the devices."""
    assert state.claims is not None
    by_node: dict[str, list[tuple[ResourceClaim, Any]]] = defaultdict(list)
    for pod in action.pods:
        by_node[pod.node] += _allocated(job, pod)
    for node, pairs in by_node.items():
        claims, allocations = [claim for claim, _ in pairs], [of for _, of in pairs]
        facts = state.claims.facts()
        try:
            verify_allocations(facts, node, claims, allocations)
        except CertificateError as error:
            hold(False, "claims", f"{job.name!r} on {node!r}: {error}")
        for claim, allocation in pairs:
            state.of_devices[job.name] += _taken(claim, allocation, facts)
        state.claims.update(*[_changed(claim, "allocation", of) for claim, of in pairs])


def _allocated(job: Job, pod: PlacedPod) -> Iterator[tuple[ResourceClaim, Any]]:
    """Yield a pod's claims, under their own names, with their allocations."""
    role, name = next(known for known in job.roles if known.name == pod.role), pod_name(job, pod)
    given = dict(pod.claims)
    wanted = [template.name for template in role.claims]
    what = f"{name!r} has allocations for {sorted(given)}, and claims {sorted(wanted)}"
    hold(sorted(given) == sorted(wanted), "claims", what)
    for template in role.claims:
        yield _changed(template, "name", f"{name}/{template.name}"), given[template.name]


def _taken(claim: ResourceClaim, allocation: Any, facts: ClusterFacts) -> Counter[str]:
    """Return what a claim's devices take, by the names of quotas."""
    taken, devices = Counter[str](), published(facts.slices)
    classes = {
        request.name: request.exactly.device_class_name
        for request in claim.requests
        if request.exactly
    }
    for request in claim.requests:
        classes |= {
            f"{request.name}/{sub.name}": sub.device_class_name for sub in request.first_available
        }
    for result in allocation["devices"]["results"]:
        id = DeviceId(result["driver"], result["pool"], result["device"])
        sizes = {f"capacity/{name}": of.value for name, of in devices[id].capacity.items()}
        for name, amount in result.get("consumedCapacity", {}).items():
            sizes[f"capacity/{name}"] = read_exactly(amount, name)
        uses = [use.counters.items() for use in devices[id].consumes_counters]
        counters = [(f"counters/{name}", of.value) for use in uses for name, of in use]
        for name, amount in [*sizes.items(), *counters] if not result.get("adminAccess") else ():
            named = f"{classes[result['request']]}{OF_CLASS}/{name}"
            taken[named] += amount  # type: ignore[assignment]
    return taken


def _changed(claim: ResourceClaim, field: str, value: Any) -> ResourceClaim:
    changed = copy(claim)
    force_setattr(changed, field, value)
    return changed
