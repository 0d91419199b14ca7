"""`hivecore replay`: a trace under several policies; each kind of replay has its own."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hivecore.sim.devices.command import add_pods
from hivecore.sim.preemptive import JOB_POLICIES
from hivecore.sim.preemptive.command import add_jobs
from hivecore.sim.specs import Spec
from hivecore.sim.specs.command import add_spec
from hivecore.sim.storage.command import add_storage
from hivecore.sim.storage.rules import STORAGE_SYSTEMS
from hivecore.sim.tenants.command import add_tenants

__all__ = ["add_replay_command", "kind_of"]

_KINDS = ("tenants", "jobs", "storage", "pods", "spec")


def add_replay_command(commands: Any, read: Callable[[Path], Spec], **needs: Any) -> None:
    """Add ``hivecore replay`` to the subparsers of a parser.

    :param read: reads the file of a spec.
    :param needs: defaults of the parsed arguments.
    """
    replay = commands.add_parser(
        "replay",
        help="replay traces: tenants, jobs, storage, pods, or specs of schedulers",
        description="Replays a trace under several policies, and compares them.",
    )
    replay.set_defaults(**needs)
    kinds = replay.add_subparsers(dest="kind", required=True, metavar="KIND")
    add_tenants(kinds)
    jobs, storage, pods = add_jobs(kinds), add_storage(kinds), add_pods(kinds)
    add_spec(kinds, read)
    # The command without a kind has these options as well.
    hidden: dict[str, Any] = dict.fromkeys(("help", "default"), argparse.SUPPRESS)
    jobs.add_argument("--format", choices=["muri"], **hidden)
    pods.add_argument("--format", choices=["openb"], **hidden)
    systems: dict[str, Any] = {"nargs": "+", "choices": STORAGE_SYSTEMS}
    storage.add_argument("--storage", dest="system", **systems, **hidden)


def kind_of(given: Sequence[str]) -> str:
    """Return the kind of a replay whose command does not name it; "" if it does."""
    if not given or given[0] in (*_KINDS, "-h", "--help"):
        return ""
    probe = argparse.ArgumentParser(add_help=False)
    specs = ["--spec", "--compare", "--cluster"]
    for options in (["--format"], ["--policy"], ["--storage"], specs):
        probe.add_argument(*options, nargs="*", default=[])
    known, _ = probe.parse_known_args(given)
    if known.spec:
        return "spec"
    if known.format[:1] == ["openb"]:
        return "pods"
    if known.storage or known.format[:1] == ["storage"]:
        return "storage"
    return "jobs" if set(known.policy) & set(JOB_POLICIES) else "tenants"
