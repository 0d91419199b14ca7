"""The answer as Kubernetes writes it: ``status.allocation`` of a claim (6)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from hivecore._quantities import write_exactly
from hivecore.reference.dra.rules import Grant

__all__ = ["write_allocation"]


def write_allocation(
    claim: Any,
    grants: Sequence[Grant],
    classes: Mapping[str, Any],
    node: str,
    clears: bool,
    share_id: Callable[[], object],
) -> dict[str, Any]:
    """The devices of a claim, the configurations for them, and the nodes that can use them.

    :param clears: whether a configuration for all requests is written without their names.
    """
    results = [_without_empty(_result(grant, share_id)) for grant in grants]
    devices = {"results": results, "config": _config(claim, grants, classes, clears)}
    return _without_empty(
        {"devices": _without_empty(devices), "nodeSelector": _node_selector(grants, node)}
    )


def _result(grant: Grant, share_id: Callable[[], object]) -> dict[str, Any]:
    own, consumed = grant.device.device, grant.consumed
    return {
        "request": grant.request,
        **grant.device.id._asdict(),
        "adminAccess": grant.terms.admin_access or None,
        "tolerations": [_without_empty(to_builtins(one)) for one in grant.terms.tolerations],
        "bindingConditions": list(own.binding_conditions),
        "bindingFailureConditions": list(own.binding_failure_conditions),
        "shareID": None if consumed is None else str(share_id()),
        "consumedCapacity": {
            name: write_exactly(of) for name, of in sorted((consumed or {}).items())
        },
    }


def _without_empty(written: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in written.items() if value not in ("", None, [], {})}


def _config(
    claim: Any, grants: Sequence[Grant], classes: Mapping[str, Any], clears: bool
) -> list[dict[str, Any]]:
    """Those of the classes, each class once, then those of the claim that are for its choices."""
    chosen = {grant.request: grant.terms.device_class_name for grant in grants}
    config = [
        ("FromClass", [request for request, of in chosen.items() if of == name], one.opaque)
        for name in dict.fromkeys(chosen.values())
        for one in classes[name].config
    ]
    names = [{request, request.partition("/")[0]} for request in chosen]
    for one in claim.config:
        if not one.requests or any(each & set(one.requests) for each in names):
            config.append(("FromClaim", list(one.requests), one.opaque))
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


def _node_selector(grants: Sequence[Grant], node: str) -> dict[str, Any] | None:
    """The node, if a device is tied to it; else all that devices demand of nodes, each once."""
    if any(one.device.node_name or one.device.device.binds_to_node for one in grants):
        name = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"nodeSelectorTerms": [{"matchFields": [name]}]}
    terms = [one.device.node_selector.term for one in grants if one.device.node_selector]
    rules = {
        "matchFields": dict.fromkeys(rule for term in terms for rule in term.match_fields),
        "matchExpressions": dict.fromkeys(r for term in terms for r in term.match_expressions),
    }
    term = {
        name: [_without_empty(to_builtins(one)) for one in of] for name, of in rules.items() if of
    }
    return {"nodeSelectorTerms": [term]} if term else None
