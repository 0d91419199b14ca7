"""`hivecore sweep`: many replays, over seeds, loads, policies and specs, in parallel."""

import argparse
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hivecore.sim.console import add, factor, pair, print_report, try_outputs, whole, write_json
from hivecore.sim.replay import POLICIES
from hivecore.sim.specs import Spec
from hivecore.sim.specs.command import add_specs, named_specs, tenant_names
from hivecore.sim.sweep import sweep
from hivecore.sim.tenants.command import MOST_NODES, add_owners, check_nodes, owned_trace
from hivecore.sim.tenants.report import sweep_report
from hivecore.sim.workers import deaf_children, workers
from hivecore.traces import FORMATS

__all__ = ["add_sweep_command"]

# Three trainers (the first, third and fifth) and two experimenters.
_NODES = {"vision": 10, "search": 14, "speech": 8, "ads": 16, "robots": 6}
_SEEDS, _JOBS = 3, 10_000
_OF_GENERATED, _OF_FILES = (
    ("nodes", "seeds", "jobs"),
    ("format", "virtual_clusters", "oversubscribe"),
)


def add_sweep_command(commands: Any, read: Callable[[Path], Spec], **needs: Any) -> None:
    """Add the command to a parser; `read` reads a spec's file."""
    many = commands.add_parser(
        "sweep",
        help="replay over seeds, loads, policies and specs in parallel",
        description="Replays generated traces, or a given one, over seeds and loads, under "
        "policies and under the schedulers that files describe.",
    )
    many.set_defaults(run=_runner(read), **needs)
    add(many, "traces", "TRACE", "given trace (none: generated)", type=Path, nargs="*")
    add(many, "--format", "NAME", "of the trace files: {}", choices=FORMATS)
    add_owners(many)
    loads = [0.8, 1.0, 1.2]
    add(many, "--loads", "X", "(default 0.8 1 1.2)", type=factor, nargs="+", default=loads)
    seeds = f"of generated traces: 0 to N-1 (default {_SEEDS})"
    add(many, "--seeds", "N", seeds, type=whole(1, 10**4))
    add(many, "--jobs", "N", f"per generated trace (default {_JOBS})", type=whole(1, 10**7))
    owned = "of generated traces: how many nodes of 8 GPUs each tenant owns (default "
    owned += f"{' '.join(f'{name}={nodes}' for name, nodes in _NODES.items())})"
    add(many, "--nodes", "TENANT=N", owned, type=_owned, nargs="+")
    add(many, "--policies", "NAME", "{}", choices=POLICIES, nargs="+", default=POLICIES)
    add_specs(many)
    add(many, "--workers", "N", "replays at once", type=whole(1, 1024), default=1)
    where = "of joblib: {}; dask and ray use the cluster that their own settings name"
    backends = ("loky", "threading", "dask", "ray")
    add(many, "--backend", "NAME", where, choices=backends, default="loky")
    add(many, "--json", "FILE", "write all points as JSON", type=Path)


def _owned(text: str) -> tuple[str, int]:
    name, nodes = pair("TENANT=N")(text)
    return name, whole(1, MOST_NODES)(nodes)


def _refuse(arguments: argparse.Namespace, options: tuple[str, ...], what: str) -> None:
    for name in options:
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} has no meaning for {what}")


def _runner(read: Callable[[Path], Spec]) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        try_outputs(arguments.json, None)
        nodes, trace = dict(arguments.nodes or _NODES), None
        if len(nodes) < len(arguments.nodes or ()):
            raise ValueError("--nodes names a tenant twice")
        jobs = arguments.jobs or _JOBS
        if arguments.traces:
            if not arguments.format:
                raise ValueError("--format is needed for trace files")
            _refuse(arguments, _OF_GENERATED, "trace files")
            trace, nodes = owned_trace(arguments)
        else:
            _refuse(arguments, _OF_FILES, "generated traces")
            check_nodes(nodes, "--nodes")
            if jobs < len(nodes):
                raise ValueError(
                    f"--jobs {jobs}: must be at least one per tenant, and there are {len(nodes)}"
                )
        if not arguments.spec:
            _refuse(arguments, ("tenant",), "policies: it needs --spec")
        specs = named_specs(arguments.spec or (), read)
        with deaf_children():
            _connect(arguments.backend)
        with workers(arguments.workers, arguments.backend):
            points = sweep(
                nodes,
                arguments.loads,
                range(arguments.seeds or _SEEDS),
                jobs,
                trace,
                arguments.policies,
                arguments.opportunistic,
                specs,
                tenant_names(arguments),
            )
        report = sweep_report(points)
        print_report(report)
        if arguments.json:
            write_json(arguments.json, {"schema": report.schema, **report.data})

    return run


def _connect(backend: str) -> None:
    """Join the cluster in a backend's own settings, or start one on this machine."""
    if backend == "dask":
        # When interrupted, it warns of all unfinished tasks.
        os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
        import_module("distributed").Client()
    elif backend == "ray":
        import_module("ray.util.joblib").register_ray()
