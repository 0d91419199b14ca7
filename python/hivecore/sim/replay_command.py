"""`hivecore replay`: a trace under several policies, of which each kind of replay has its own."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hivecore.sim.console import add
from hivecore.sim.devices.command import add_pods
from hivecore.sim.preemptive import JOB_POLICIES
from hivecore.sim.preemptive.command import add_jobs
from hivecore.sim.specs import Spec
from hivecore.sim.specs.command import add_spec
from hivecore.sim.storage.command import add_storage
from hivecore.sim.tenants.command import add_tenants

__all__ = ["add_replay_command", "kind_of"]

_Add = Callable[[argparse.ArgumentParser], None]
#: What is replayed, how many traces it takes, and what adds its options.
_KINDS: dict[str, tuple[str, str | int, _Add]] = {
    "tenants": (
        "tenants in private clusters, under quotas and in cells: queueing delay, and excess over "
        "the private cluster",
        "+",
        add_tenants,
    ),
    "jobs": (
        "training jobs, in Muri's format, under policies that stop and restart them, or let "
        "several share GPUs: completion times",
        1,
        add_jobs,
    ),
    "storage": (
        "jobs that share GPUs, cache and remote IO: completion times and throughput",
        1,
        add_storage,
    ),
    "pods": (
        "pods that share GPUs, in openb's format, until they ask for more than there is: what is "
        "allocated",
        0,
        add_pods,
    ),
}
_FILES = {"+": "TRACE [TRACE ...]", 1: "TRACE", 0: "NODES PODS"}
_SPEC = "the jobs of any trace under the schedulers that files describe, side by side"


def add_replay_command(commands: Any, read: Callable[[Path], Spec], **needs: Any) -> None:
    """Add the command to the subparsers of a parser; `read` reads the file of a spec."""
    replay = commands.add_parser(
        "replay",
        help="replay traces: tenants, jobs, storage, pods, or specs of schedulers",
        description="Replays a trace under several policies, and compares them.",
    )
    replay.set_defaults(**needs)
    kinds = replay.add_subparsers(dest="kind", required=True, metavar="KIND")
    for name, kind in _KINDS.items():
        _add_common(kinds, name, *kind)
    _add_common(kinds, "spec", _SPEC, "+", lambda kind: add_spec(kind, read))


def _add_common(kinds: Any, name: str, what: str, traces: str | int, add_options: _Add) -> None:
    kind = kinds.add_parser(
        name,
        usage=f"hivecore replay {name} [options] {_FILES[traces]}",
        help=what.partition(":")[0],
        description=f"Replays {what}.",
    )
    if traces:
        add(kind, "traces", "TRACE", "trace file, .gz is unpacked", type=Path, nargs=traces)
    add_options(kind)
    add(kind, "--json", "FILE", "write all figures as JSON", type=Path)
    add(kind, "--plots", "DIR", "write plots as PNG files", type=Path)
    # The spelling without a kind has these options, too.
    if name in ("jobs", "pods"):
        formats = {"jobs": ["muri"], "pods": ["openb"]}
        kind.add_argument("--format", choices=formats[name], help=argparse.SUPPRESS)
    elif name == "storage":
        kind.add_argument(
            "--storage", dest="system", nargs="+", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )


def kind_of(given: Sequence[str]) -> str:
    """Return the kind of a replay that is spelled without one; "" if it is spelled with one."""
    if not given or given[0] in (*_KINDS, "spec", "-h", "--help"):
        return ""
    probe = argparse.ArgumentParser(add_help=False)
    for options in (["--format"], ["--policy"], ["--storage"], ["--spec", "--compare"]):
        probe.add_argument(*options, nargs="*", default=[])
    known, _ = probe.parse_known_args(given)
    if known.spec:
        return "spec"
    if known.format == ["openb"]:
        return "pods"
    if known.storage or known.format == ["storage"]:
        return "storage"
    return "jobs" if set(known.policy) & set(JOB_POLICIES) else "tenants"
