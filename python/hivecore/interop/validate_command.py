"""`hivecore validate`: shows what is in a configuration file, or its mistakes."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hivecore.cells import ClusterSpec
from hivecore.interop.claims_command import validate_claims
from hivecore.interop.hived import ConfigError
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.hived.configuration.elsewhere import configuration_in
from hivecore.interop.hived.serving.command import read_config
from hivecore.interop.koordinator.quotas.amounts import write_amount
from hivecore.interop.kubernetes.claim_objects import OF_CLAIMS
from hivecore.interop.kubernetes.problems import Problems
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.quotas import QuotaTree

__all__ = ["add_validate_command"]

_Rows = list[tuple[str, ...]]
#: Words of HiveD's file, even inside a ConfigMap.
_OF_HIVED = re.compile("physicalClusters?|physicalCells|virtualClusters?|cellTypes", re.IGNORECASE)
_KINDS = "|".join(kind for kind in (*OF_CLAIMS, "ResourceClaimTemplate") if kind != "Node")
_OF_CLAIMS = re.compile(
    rf"""\bresource\.k8s\.io/v1|^\s*(?:[-{{]\s*)?["']?kind["']?\s*:\s*["']?(?:{_KINDS})\b""",
    re.MULTILINE,
)
#: What makes a dump of nodes and claims one of a cluster with queues.
_QUEUE = re.compile(r"""\bkind["']?\s*:\s*["']?(?:ClusterQueue|Queue|ElasticQuota)\b""")
#: What a cluster's file has, which may speak of claims, and no object of Kubernetes.
_SECTION = re.compile(r"^\ufeff?(?:cluster|claims)\s*:", re.MULTILINE)
_NEITHER = (
    "a file of hivecore has the key cluster, see `hivecore init`; one of HiveD has physicalCluster"
)
#: what is aligned to the right
_AMOUNT = re.compile(r"\d+(m|[kMGTPE]i?|Ki)?")
_PARTS = ("queues", "quotas", "cells", "topology", "devices", "claims", "sharing", "storage")


def add_validate_command(commands: Any) -> None:
    """Add the command to `commands`, the subparsers of a parser of `argparse`."""
    command = commands.add_parser(
        "validate",
        help="check a configuration file of a cluster, or objects of device claims",
        description="Checks a configuration file: one for a whole cluster, see `hivecore init`, or "
        "one of HiveD; or objects of Kubernetes' device claims. Prints what is in it, or every "
        "mistake with its place in the file; the exit status is 1 then, of objects 2.",
    )
    command.set_defaults(run=_validate, needs=("yaml",), extra="hived")
    command.add_argument("file", type=Path, metavar="FILE", help="YAML (or JSON) file")


def _validate(arguments: argparse.Namespace) -> int:
    path: Path = arguments.file
    text = path.read_text("utf-8", errors="replace").replace("\0", "")  # UTF-16
    if _OF_CLAIMS.search(text) and not _SECTION.search(text):
        status = validate_claims(path)
        if status or not _QUEUE.search(text):
            return status
    if SchedulerSpec.recognises(text):
        return _validate_cluster(path)
    if not _OF_HIVED.search(text):
        status = _validate_cluster(path)
        print(f"{path}: {_NEITHER}", file=sys.stderr)
        return status
    config = read_config(path)
    if config is None:
        return 1
    _print_all([_chains(config.spec), _owners(config.spec)])
    return 0


def _validate_cluster(path: Path) -> int:
    try:
        spec = SchedulerSpec.read(path)
        spec.scheduler()
    except ConfigError as error:
        # OpenPAI's services-configuration.yaml has a section cluster as well.
        where = configuration_in(read_yaml(path.read_text("utf-8", errors="replace"), Problems()))
        print(f"{path}: {where}" if where else error, file=sys.stderr)
        count = 1 if where else len(error.problems)
        print(f"{path}: {count} mistake{'s' if count > 1 else ''}", file=sys.stderr)
        return 1
    except ValueError as error:  # of parts that do not go together
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    for remark in spec.remarks:
        print(remark, file=sys.stderr)
    tables = [_models(spec.nodes)]
    if spec.cells is not None:
        tables += [_chains(spec.cells.spec), _owners(spec.cells.spec)]
    if spec.topology is not None:
        tables.append(_layers(spec))
    tables.append(_quotas(spec))
    _print_all(tables)
    parts = [part for part in _PARTS if getattr(spec, part) is not None]
    print(f"\nA scheduler of it has {', '.join(parts) or 'nothing but one queue'}.")
    return 0


def _models(nodes: Mapping[str, str]) -> _Rows:
    counts = Counter(nodes.values())
    return [("model", "nodes"), *((model, str(count)) for model, count in counts.items())]


def _chains(spec: ClusterSpec) -> _Rows:
    rows: _Rows = [("chain", "cells", "nodes", "devices", "levels")]
    for name, chain in spec.chains.items():
        nodes = len(chain.nodes or ())
        levels = " > ".join(reversed(chain.levels))
        rows.append((name, str(chain.roots), str(nodes), str(chain.leaves), levels))
    return rows


def _owners(spec: ClusterSpec) -> _Rows:
    rows: _Rows = [("virtual cluster", "chain", "level", "cells", "pinned")]
    for vc, owned in spec.virtual_clusters.items():
        pinned = spec.pinned_cells.get(vc, {})
        before = len(rows)
        for chain_name, counts in owned.items():
            rows += [(vc, chain_name, level, str(count), "") for level, count in counts.items()]
        rows += [(vc, chain, level, "1", pin) for pin, (chain, level, _) in pinned.items()]
        if len(rows) == before:
            rows.append((vc, "", "", "0", ""))
    return rows


def _layers(spec: SchedulerSpec) -> _Rows:
    assert spec.topology is not None
    rows: _Rows = [("layer", "domains")]
    for layer in spec.topology.layers:
        rows.append((layer, str(len(spec.topology.domains(layer)))))
    return rows


def _quotas(spec: SchedulerSpec) -> _Rows:
    rows: _Rows = [("quota", "parent", "resource", "min", "max")]
    tree = QuotaTree() if spec.quotas is None else spec.quotas
    for name in tree.quotas:
        quota = tree.quota(name)
        least = dict(quota.min)
        rows += [
            (name, quota.parent, resource, *(write_amount(resource, each) for each in amounts))
            for resource, most in quota.max
            for amounts in [(least.get(resource, 0), most)]
        ]
    return rows


def _print_all(tables: list[_Rows]) -> None:
    """Print the tables that have rows, separated by empty lines."""
    for number, rows in enumerate([rows for rows in tables if len(rows) > 1]):
        if number:
            print()
        _print(rows)


def _print(rows: _Rows) -> None:
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numbers = [all(map(_AMOUNT.fullmatch, column[1:])) for column in columns]
    for row in rows:
        cells = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, numbers, strict=True)
        ]
        print("  ".join(cells).rstrip())
