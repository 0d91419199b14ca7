"""`hivecore explain`: which nodes can serve the device claims in files, and why others cannot."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hivecore.dra import DraCluster, KubernetesFeatures, ResourceClaim
from hivecore.interop.kubernetes.claim_objects import OF_CLAIMS, read_objects

__all__ = ["add_explain_command", "validate_claims"]


def add_explain_command(commands: Any) -> None:
    """Add the command to a parser.

    :param commands: from ``add_subparsers`` of `argparse`.
    """
    parser = commands.add_parser(
        "explain",
        help="why device claims of Kubernetes fit, or do not fit, the nodes",
        description="Reads ResourceSlices, DeviceClasses, Nodes, DeviceTaintRules, ResourceClaims "
        "and ResourceClaimTemplates, as `kubectl get -o yaml` writes them. For each claim without "
        "an allocation it prints which nodes can serve it, and why others cannot. The exit status "
        "is 1 if a claim fits no node, or an object has a mistake.",
    )
    parser.set_defaults(run=_explain, needs=("yaml",), extra="kubernetes")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="YAML or JSON")
    parser.add_argument(
        "--kubernetes", default="1.36", metavar="VERSION", help="whose gates count (default 1.36)"
    )
    parser.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="NAME=true|false",
        help="a feature gate that differs from the default of the version; as often as needed",
    )


def validate_claims(path: Path) -> int:
    """Print a file's objects of device claims, or every mistake; return the exit status."""
    objects, mistakes = read_objects([path])
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    if mistakes:
        return 1
    counts = {kind: sum(type(record).__name__ == kind for record in objects) for kind in OF_CLAIMS}
    print(", ".join(f"{count} x {kind}" for kind, count in counts.items() if count))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    gates = dict(_gate(text) for text in arguments.gate)
    cluster = DraCluster(KubernetesFeatures.of(arguments.kubernetes, gates))
    objects, mistakes = read_objects(arguments.files)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    if mistakes:
        return 1
    cluster.update(*objects)
    waiting = [
        record for record in objects if isinstance(record, ResourceClaim) and not record.allocation
    ]
    if not waiting:
        print("no claim without an allocation", file=sys.stderr)
        return 1
    if not cluster.nodes:
        print("no node: neither a Node nor a ResourceSlice with a nodeName", file=sys.stderr)
        return 1
    return max([_explain_claim(cluster, claim) for claim in waiting])


def _explain_claim(cluster: DraCluster, claim: ResourceClaim) -> int:
    name = f"{claim.namespace}/{claim.name}" if claim.namespace else claim.name
    fits = cluster.fits([claim])
    reasons: dict[str, list[str]] = {}
    for node, outcome in fits.items():
        if outcome != "allocated":
            reasons.setdefault(fits.reason(node), []).append(node)
    print(f"{name}: fits {_some(fits.nodes)}" if fits.nodes else f"{name}: fits no node")
    for reason, nodes in reasons.items():
        print(f"  not {_some(nodes)}: {reason}")
        why = cluster.explain([claim], nodes[0])
        for text in why.pools:
            print(f"    {text}")
        if why.deciding:
            print(f"    {nodes[0]} would fit without {why.deciding[0]}")
        for text in why.deciding[1:]:
            print(f"      together with {text}")
    decision = cluster.schedule([claim])
    if decision is not None:
        devices = [f"{given.request}: {'/'.join(given.device)}" for given in decision.devices]
        print(f"  on {decision.node} it would get {', '.join(devices) or 'nothing'}")
    return 0 if fits.nodes else 1


def _some(nodes: Iterable[str]) -> str:
    names = list(nodes)
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def _gate(text: str) -> tuple[str, bool]:
    name, _, value = text.partition("=")
    if value not in ("true", "false"):
        raise ValueError(f"--gate {text}: it must be NAME=true or NAME=false")
    return name, value == "true"
