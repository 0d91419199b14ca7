"""`hivecore demo`: what each part of a scheduler gains, as a table and a page of pictures."""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hivecore.sim.console import Stopwatch, add, progress_bar, publish, try_outputs, whole
from hivecore.sim.demo.report import demo_report
from hivecore.sim.demo.run import CONFIGURATIONS, run_demo
from hivecore.sim.workers import workers
from hivecore.traces import generate_tenants

__all__ = ["Terms", "add_demo_command"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The simulated load: jobs that ask for nearly all GPUs and twice the available remote IO."""

    jobs: int = 2000
    seed: int = 0
    load: float = 0.9
    days: float = 2.0
    cache_gb: float = 4000.0
    bandwidth_mbps: float = 6000.0


def add_demo_command(commands: Any, **needs: Any) -> None:
    """Add the command to a parser."""
    demo = commands.add_parser(
        "demo",
        help="show what cells, lending, sharing and storage bring to a generated trace",
        description="Simulates generated jobs of five tenants under quotas, cells, cells that lend, "
        "sharing of GPUs, and allotted cache and remote IO; prints what each part brings, and draws "
        "it.",
    )
    demo.set_defaults(run=_run, **needs)
    demo.add_argument("--out", type=Path, required=True, metavar="DIR", help="for page and JSON")
    processes = "simulations at once (default: as many as there are processors)"
    add(demo, "--workers", "N", processes, type=whole(1, 1024))


def _run(arguments: argparse.Namespace) -> None:
    from joblib import cpu_count

    json_file = arguments.out / "demo.json"
    try_outputs(json_file, arguments.out)
    terms, watch = Terms(), Stopwatch()
    with watch("generate"):
        work = generate_tenants(terms.jobs, terms.seed, terms.load, terms.days)
    count = len(CONFIGURATIONS) + 1
    at_once = min(arguments.workers or cpu_count(), count)
    with (
        progress_bar(work.trace.jobs * count) as step,
        watch("simulate"),
        workers(at_once),
    ):
        demo = run_demo(
            work,
            terms.cache_gb,
            terms.bandwidth_mbps,
            lambda name: step(name)(work.trace.jobs),
        )
    publish(demo_report(demo), watch, asdict(terms), json_file, arguments.out)
