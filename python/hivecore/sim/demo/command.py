"""`hivecore demo`: what each part of a scheduler brings, as a table and a page of pictures."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hivecore.sim.console import (
    Watch,
    print_sentence,
    print_table,
    print_times,
    say_written,
    try_outputs,
    write_json,
)
from hivecore.sim.demo.page import save_demo_page
from hivecore.sim.demo.report import demo_findings, demo_notes, demo_table, demo_to_json
from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo, run_demo
from hivecore.traces import TenantsTrace, generate_tenants

__all__ = ["Terms", "add_demo_command"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is simulated: jobs that ask for nearly all GPUs, and twice the remote IO there is."""

    jobs: int = 2000
    seed: int = 0
    load: float = 0.9
    days: float = 2.0
    cache_gb: float = 4000.0
    bandwidth_mbps: float = 6000.0


def add_demo_command(commands: Any, **needs: Any) -> None:
    """Add the command to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    :param needs: defaults that say which libraries it needs, and which extra has them.
    """
    demo = commands.add_parser(
        "demo",
        help="show what cells, lending, sharing and storage bring to a generated trace",
        description="Simulates generated jobs of five tenants under quotas, cells, cells that lend, "
        "sharing of GPUs, and allotted cache and remote IO; prints what each part brings, and draws "
        "it.",
    )
    demo.set_defaults(run=_run, **needs)
    demo.add_argument("--out", type=Path, required=True, metavar="DIR", help="for page and JSON")


def _run(arguments: argparse.Namespace) -> None:
    json_file = arguments.out / "demo.json"
    try_outputs(json_file, arguments.out)
    terms, watch = Terms(), Watch()
    with watch("generate"):
        made = generate_tenants(terms.jobs, terms.seed, terms.load, terms.days)
    with watch("simulate"):
        demo = _simulate(made, terms)
    with watch("report"):
        print_table(demo_table(demo))
        for sentence in (*demo_notes(demo), *demo_findings(demo)):
            print_sentence(sentence)
        say_written([save_demo_page(demo, arguments.out)])
    write_json(json_file, demo_to_json(demo, asdict(terms), watch.seconds))
    print_times(watch)


def _simulate(made: TenantsTrace, terms: Terms) -> Demo:
    from tqdm import tqdm

    total = made.trace.jobs * (len(CONFIGURATIONS) + 1)
    # None: a bar only where someone looks at it.
    with tqdm(total=total, unit=" jobs", disable=None, leave=False) as bar:

        def show(name: str) -> Callable[[int], None]:
            bar.set_description(name)
            before = 0 if name == ALONE else made.trace.jobs * (1 + CONFIGURATIONS.index(name))

            def move(submitted: int) -> None:
                bar.update(max(before + submitted - bar.n, 0))

            return move

        return run_demo(made, terms.cache_gb, terms.bandwidth_mbps, show)
