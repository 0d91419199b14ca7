"""`hivecore explain`: which nodes can serve the device claims in files, and why others cannot."""

import argparse
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from hivecore._arguments import show, some
from hivecore.dra import (
    DeviceClass,
    DeviceTaintRule,
    DraCluster,
    KubernetesFeatures,
    ResourceClaim,
    compile_selector,
)
from hivecore.dra.features import VERSIONS
from hivecore.errors import CelSyntaxError
from hivecore.interop.kubernetes.claim_objects import (
    OF_CLAIMS,
    FileObject,
    put_objects,
    read_objects,
)

__all__ = ["add_explain_command", "validate_claims"]

_RULES = "DRADeviceTaintRules"  # the feature gate of rules that taint devices


def add_explain_command(commands: Any) -> None:
    """Add the command to `commands`, the subparsers of a parser of `argparse`."""
    parser = commands.add_parser(
        "explain",
        help="why device claims of Kubernetes fit, or do not fit, the nodes",
        description="Reads ResourceSlices, DeviceClasses, Nodes, DeviceTaintRules, ResourceClaims "
        "and ResourceClaimTemplates, as `kubectl get -o yaml` writes them. For each claim without "
        "an allocation it prints which nodes can serve it, and why others cannot. The exit status "
        "is 1 if a claim fits no node, and 2 if an object has a mistake.",
    )
    parser.set_defaults(run=_explain, needs=("yaml",), extra="kubernetes")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="YAML or JSON")
    version = "of which the feature gates count (default 1.36)"
    known: dict[str, Any] = {"choices": VERSIONS, "default": "1.36", "metavar": "VERSION"}
    parser.add_argument("--kubernetes", help=version, **known)
    parser.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="NAME=true|false",
        help="a feature gate that differs from the default of the version; as often as needed",
    )


def validate_claims(path: Path) -> int:
    """Print a file's objects of device claims, or every mistake; return the exit status."""
    cluster, objects = _read([path], DraCluster(limit=1))
    if cluster is None:
        return 2
    classes = {entry.record.name for entry in objects if entry.kind == "DeviceClass"}
    missing = [mistake for entry in objects for mistake in _missing_classes(entry, classes)]
    mistakes = [mistake for entry in objects for mistake in _senseless(entry)]
    if missing and not classes:
        print(f"{path}: holds no DeviceClass, so no name of a class is checked", file=sys.stderr)
    else:
        mistakes += missing
    if mistakes:
        print("\n".join(mistakes), file=sys.stderr)
        return 2
    kinds = [type(entry.record).__name__ for entry in objects]
    counts = {kind: kinds.count(kind) for kind in OF_CLAIMS}
    print(", ".join(f"{count} x {kind}" for kind, count in counts.items() if count))
    return 0


def _missing_classes(entry: FileObject, classes: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the names of classes in a claim without an allocation."""
    for path, of in _terms(entry):
        if of.device_class_name not in classes:
            name = of.device_class_name
            what = f"no DeviceClass {show(name)}" if name else "is missing"
            yield entry.mistake(f"{path}.deviceClassName: {what}")


def _senseless(entry: FileObject) -> Iterator[str]:
    """Yield the selectors, modes and constraints that no cluster can serve."""
    users = [*_terms(entry)]
    for path, of in users:
        if of.allocation_mode not in ("ExactCount", "All"):
            mode = show(of.allocation_mode)
            yield entry.mistake(f"{path}.allocationMode: {mode}, allowed are ExactCount and All")
    if users:
        for i, constraint in enumerate(entry.record.constraints):
            if not constraint.match_attribute and not constraint.distinct_attribute:
                path = f"{_spec(entry)}.devices.constraints[{i}]"
                yield entry.mistake(f"{path}: matchAttribute or distinctAttribute must be set")
    if isinstance(entry.record, DeviceClass):
        users = [("spec", entry.record)]
    for path, of in users:
        for i, selector in enumerate(of.selectors):
            if not selector.cel:
                yield entry.mistake(f"{path}.selectors[{i}]: cel must be set")
            try:
                if selector.cel:
                    compile_selector(selector.cel.expression)
            except CelSyntaxError as error:
                yield entry.mistake(f"{path}.selectors[{i}].cel.expression: {error}")


def _spec(entry: FileObject) -> str:
    return "spec" if entry.kind == "ResourceClaim" else "spec.spec"


def _terms(entry: FileObject) -> Iterator[tuple[str, Any]]:
    """Yield each alternative of each request of a claim without an allocation, with its path."""
    if not isinstance(entry.record, ResourceClaim) or entry.record.allocation:
        return
    for i, request in enumerate(entry.record.requests):
        path = f"{_spec(entry)}.devices.requests[{i}]"
        if request.exactly:
            yield f"{path}.exactly", request.exactly
        for j, of in enumerate(request.first_available):
            yield f"{path}.firstAvailable[{j}]", of


def _read(files: list[Path], cluster: DraCluster) -> tuple[DraCluster | None, list[FileObject]]:
    """Give a cluster the objects of files; print all mistakes, and return None if there are any."""
    objects, mistakes = read_objects(files)
    mistakes += put_objects(cluster, objects)
    for entry in [] if mistakes else objects:
        if isinstance(entry.record, ResourceClaim) and not entry.record.allocation:
            try:
                cluster.fits([entry.record])
            except ValueError as error:
                mistakes.append(entry.mistake(error))
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return None if mistakes else cluster, objects


def _explain(arguments: argparse.Namespace) -> int:
    gates: dict[str, bool] = {}
    for text in arguments.gate:
        name, value = _gate(text)
        if gates.setdefault(name, value) != value:
            raise ValueError(f"--gate {text}: it is given as {str(not value).lower()} as well")
    try:
        features = KubernetesFeatures.of(arguments.kubernetes, gates)
    except ValueError as error:
        raise ValueError(f"--gate: {error}") from None
    cluster, objects = _read(arguments.files, DraCluster(features))
    if cluster is None:
        return 2
    files = ", ".join(map(str, arguments.files))
    if not objects:
        raise ValueError(f"{files}: no objects of device claims, such as {', '.join(OF_CLAIMS)}")
    records = [entry.record for entry in objects]
    if not features.has(_RULES) and any(isinstance(of, DeviceTaintRule) for of in records):
        what = f"DeviceTaintRules do not count: {_RULES} is off in Kubernetes {features.version}"
        print(f"{files}: {what}", file=sys.stderr)
    waiting = [
        record for record in records if isinstance(record, ResourceClaim) and not record.allocation
    ]
    if not waiting:
        what = "no ResourceClaim without an allocation, so there is nothing to explain"
        print(f"{files}: {what}", file=sys.stderr)
        return 1
    if not cluster.nodes:
        what = "no node: neither a Node nor a ResourceSlice with a nodeName"
        print(f"{files}: {what}", file=sys.stderr)
        return 1
    return max([_explain_claim(cluster, claim) for claim in waiting])


def _explain_claim(cluster: DraCluster, claim: ResourceClaim) -> int:
    name, fits = claim.full_name, cluster.fits([claim])
    reasons: dict[str, list[str]] = {}
    for node, outcome in fits.items():
        if outcome != "allocated":
            reasons.setdefault(fits.reason(node), []).append(node)
    print(f"{name}: fits {some(fits.nodes)}" if fits.nodes else f"{name}: fits no node")
    for reason, nodes in reasons.items():
        print(f"  not {some(nodes)}: {reason}")
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


def _gate(text: str) -> tuple[str, bool]:
    name, _, value = text.partition("=")
    if value not in ("true", "false"):
        raise ValueError(f"--gate {text}: it must be NAME=true or NAME=false")
    return name, value == "true"
