"""Each pod gets the devices of all of its claims, by the rules of Kubernetes."""

from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from typing import Any

from hivecore._record import force_setattr
from hivecore.dra import ResourceClaim
from hivecore.dra.proof import verify_allocations
from hivecore.errors import CertificateError
from hivecore.scheduler import Job, PlacedPod, Promote, Start
from hivecore.verify._state import State, hold, pod_name

__all__ = ["check_claims"]


def check_claims(action: Start | Promote, job: Job, state: State) -> None:
    """Allocations keep all rules, those of a node together; from now on claims hold devices."""
    assert state.claims is not None
    by_node: dict[str, list[tuple[ResourceClaim, Any]]] = defaultdict(list)
    for pod in action.pods:
        by_node[pod.node] += _allocated(job, pod)
    for node, pairs in by_node.items():
        claims, allocations = [claim for claim, _ in pairs], [of for _, of in pairs]
        try:
            verify_allocations(state.claims.facts(), node, claims, allocations)
        except CertificateError as error:
            hold(False, "claims", f"{job.name!r} on {node!r}: {error}")
        state.claims.update(*[_changed(claim, "allocation", of) for claim, of in pairs])


def _allocated(job: Job, pod: PlacedPod) -> Iterator[tuple[ResourceClaim, Any]]:
    """The claims of a pod by their own names, and what they get."""
    role, name = next(one for one in job.roles if one.name == pod.role), pod_name(job, pod)
    given = dict(pod.claims)
    wanted = [template.name for template in role.claims]
    what = f"{name!r} has allocations for {sorted(given)}, and claims {sorted(wanted)}"
    hold(sorted(given) == sorted(wanted), "claims", what)
    for template in role.claims:
        yield _changed(template, "name", f"{name}/{template.name}"), given[template.name]


def _changed(claim: ResourceClaim, field: str, value: Any) -> ResourceClaim:
    changed = copy(claim)
    force_setattr(changed, field, value)
    return changed
