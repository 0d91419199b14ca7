"""Writes the answer as Kubernetes does: ``status.allocation`` of a claim (6)."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import to_builtins

from hivecore._quantities import write_exactly
from hivecore.dra.claim import DeviceClass, ResourceClaim
from hivecore.dra.pools import PoolDevice

__all__ = ["DeviceResult", "write_allocation"]


class DeviceResult(NamedTuple):
    """A device for a request; a share of it unless ``consumed`` is ``None``."""

    request: str  # "request", or "request/subrequest"
    terms: Any  # the request or sub-request
    device: PoolDevice
    consumed: Mapping[str, Fraction] | None
    share_id: str


def write_allocation(
    claim: ResourceClaim,
    grants: Sequence[DeviceResult],
    classes: Mapping[str, DeviceClass],
    node: str,
    clears: bool,
) -> dict[str, Any]:
    """Return a claim's devices, their configurations, and the nodes that can use them.

    :param clears: whether a configuration for all requests is written without their names.
    """
    results = [_without_empty(_result(grant)) for grant in grants]
    devices = {"results": results, "config": _config(claim, grants, classes, clears)}
    return _without_empty(
        {"devices": _without_empty(devices), "nodeSelector": _node_selector(grants, node)}
    )


def _result(grant: DeviceResult) -> dict[str, Any]:
    own, consumed = grant.device.device, grant.consumed
    return {
        "request": grant.request,
        **grant.device.id._asdict(),
        "adminAccess": grant.terms.admin_access or None,
        "tolerations": [
            _without_empty({**to_builtins(toleration), "operator": toleration.operator})
            for toleration in grant.terms.tolerations
        ],
        "bindingConditions": list(own.binding_conditions),
        "bindingFailureConditions": list(own.binding_failure_conditions),
        "shareID": grant.share_id,
        "consumedCapacity": {
            name: write_exactly(of) for name, of in sorted((consumed or {}).items())
        },
    }


def _without_empty(written: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in written.items() if value not in ("", None, [], {})}


def _config(
    claim: ResourceClaim,
    grants: Sequence[DeviceResult],
    classes: Mapping[str, DeviceClass],
    clears: bool,
) -> list[dict[str, Any]]:
    """Return the configurations of classes, each once, then the claim's for its chosen requests."""
    chosen = {grant.request: grant.terms.device_class_name for grant in grants}
    config = [
        ("FromClass", [request for request, of in chosen.items() if of == name], entry.opaque)
        for name in dict.fromkeys(chosen.values())
        for entry in classes[name].config
    ]
    names = [{request, request.partition("/")[0]} for request in chosen]
    for entry in claim.config:
        if not entry.requests or any(each & set(entry.requests) for each in names):
            config.append(("FromClaim", list(entry.requests), entry.opaque))
    return [
        _without_empty(
            {
                "source": source,
                "requests": [] if clears and all(each & set(users) for each in names) else users,
                "opaque": to_builtins(opaque),
            }
        )
        for source, users, opaque in config
    ]


def _node_selector(grants: Sequence[DeviceResult], node: str) -> dict[str, Any] | None:
    """Return the node if a device is tied to it; otherwise all node terms of devices, each once."""
    if any(grant.device.node_name or grant.device.device.binds_to_node for grant in grants):
        name = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"nodeSelectorTerms": [{"matchFields": [name]}]}
    terms = [grant.device.node_selector.term for grant in grants if grant.device.node_selector]
    rules = {
        "matchFields": dict.fromkeys(rule for term in terms for rule in term.match_fields),
        "matchExpressions": dict.fromkeys(r for term in terms for r in term.match_expressions),
    }
    term = {
        name: [_without_empty(to_builtins(rule)) for rule in of] for name, of in rules.items() if of
    }
    return {"nodeSelectorTerms": [term]} if term else None
