"""`hivecore slurm`: what hivecore would do, or does, in front of a live Slurm."""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.interop.slurm.hostlists import compress_hostlist
from hivecore.interop.slurm.live.broker import Broker
from hivecore.interop.slurm.live.cluster_file import cluster_file, submit_plugin
from hivecore.interop.slurm.live.commands import HOW, run_command
from hivecore.interop.slurm.live.places import Places
from hivecore.interop.slurm.live.queue import (
    EXCLUDED,
    NODES,
    QUEUE,
    TYPED_QUEUE,
    SlurmNode,
    read_excluded,
    read_nodes,
    read_queue,
)
from hivecore.interop.slurm.live.shadow import Shadow
from hivecore.scheduler import Scheduler, Start, Wait

__all__ = ["add_slurm_command"]

_SETTING = re.compile(r"^(\w+)\s*= (.*?)\s*$", re.MULTILINE)
_DELAY = re.compile(r"\bbatch_sched_delay=(\d+)")

_Draw = Callable[[Mapping[str, Sequence[float]], int], None]


def add_slurm_command(
    commands: Any, picture: Callable[[str], Path], plot: Callable[[Path], _Draw]
) -> None:
    """Add the command to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    :param picture: reads the path of a picture.
    :param plot: finds out that a picture can be written to a path, and returns what draws it of
        the seconds that jobs waited, by what started them, and of the number of jobs.
    """
    parser = commands.add_parser(
        "slurm",
        help="what hivecore would decide for a live Slurm; or decide for it",
        description="Reads a live Slurm by its commands. Only `run` changes anything.",
    )
    ways = parser.add_subparsers(dest="way", required=True, metavar="WAY")
    _add(ways, "spec", _spec, "print the file of a scheduler for this Slurm")
    _add(ways, "check", _check, "what this Slurm lacks; the exit status is 1 then")
    shadow = _add(ways, "shadow", _shadow(plot), "when hivecore would start what Slurm starts")
    what = "draw how long jobs wait in both: a .svg or .png file"
    shadow.add_argument("--plot", type=picture, metavar="PICTURE", help=what)
    explain = _add(ways, "explain", _explain, "why a job waits, and what would let it start")
    explain.add_argument("job", metavar="JOBID", help="such as 12 or 12_3")
    run = _add(ways, "run", _run, "release held jobs to the nodes that hivecore decides")
    lua = _add(ways, "lua", _lua, "print job_submit.lua, which holds jobs with GPUs")
    what = "the number of a user that may release jobs; as often as needed (default 0)"
    lua.add_argument(
        "--uid", type=_within(int, 0, 2**32 - 3), action="append", metavar="UID", help=what
    )
    for command in (shadow, explain, run):
        _add_scheduler(command)
    for command, seconds in ((shadow, 5.0), (run, 0.5)):
        what = f"seconds between two looks (default {seconds:g})"
        pause = _within(float, 0, 2**31)
        command.add_argument("--interval", type=pause, default=seconds, metavar="S", help=what)
        what = "stop after so many looks (default: at Ctrl-C)"
        command.add_argument("--rounds", type=_within(int, 1, 2**31), metavar="N", help=what)
    run.add_argument("--dry-run", action="store_true", help="print the commands of one round")
    what = "seconds that a job waits for a place under fewer switches (default: a tenth of its"
    what += " time limit, at most 300)"
    run.add_argument("--switch-wait", type=_within(float, 0, 2**31), metavar="S", help=what)
    what = "name the nodes of a job, or exclude all others (default require)"
    run.add_argument("--how", choices=HOW, default=HOW[0], help=what)


def _within(kind: Any, least: int, most: int) -> Callable[[str], Any]:
    """Return a parser of numbers, whole ones if they are an `int`, within limits."""
    what = f"must be a {'whole ' if kind is int else ''}number from {least} to {most}"

    def read(text: str) -> Any:
        with suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"{what}, not {text[:60]!r}")

    return read


def _add(ways: Any, name: str, run: Callable[..., int | None], what: str) -> Any:
    parser = ways.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    parser.set_defaults(run=run, needs=("yaml",), extra="hived")
    what = "each GPU of a node has a type, i0, i1 and so on: choose them as well"
    parser.add_argument("--typed", action="store_true", help=what)
    return parser


def _add_scheduler(parser: Any) -> None:
    what = "the file of a scheduler (default: what `hivecore slurm spec` prints)"
    parser.add_argument("--scheduler", type=Path, metavar="FILE", help=what)
    tenants = ("account", "user", "partition", "qos")
    what = "what hivecore's tenants are (default account)"
    parser.add_argument("--tenant", choices=tenants, default="account", help=what)
    what = "a partition or QOS without guarantee; as often as needed"
    parser.add_argument("--spare", action="append", default=[], metavar="NAME", help=what)


def _scheduler(arguments: argparse.Namespace, immediate: bool) -> Scheduler:
    if arguments.scheduler:
        spec = SchedulerSpec.read(arguments.scheduler)
    else:
        spec = SchedulerSpec.of_yaml(cluster_file(run_command, typed=arguments.typed))
    return spec.scheduler(immediate=immediate)


def _broker(arguments: argparse.Namespace, run: Callable[..., str], **more: Any) -> Broker:
    given = {"tenant": arguments.tenant, "spare": arguments.spare, "typed": arguments.typed}
    return Broker(_scheduler(arguments, immediate=False), run, **given, **more)


def _spec(arguments: argparse.Namespace) -> None:
    print(cluster_file(run_command, typed=arguments.typed), end="")


def _lua(arguments: argparse.Namespace) -> None:
    print(submit_plugin(typed=arguments.typed, operators=arguments.uid or (0,)), end="")


def _check(arguments: argparse.Namespace) -> int:
    settings = dict(_SETTING.findall(run_command(("scontrol", "show", "config"))))
    nodes = [node for node in read_nodes(run_command(NODES)) if node.gpus]
    typed = all(node.types == tuple(f"i{i}" for i in range(node.gpus)) for node in nodes)
    plugins = settings.get("JobSubmitPlugins", "").split(",")
    delay = _DELAY.search(settings.get("SchedulerParameters", ""))
    failed = 0
    for fulfilled, needed, what in (
        (bool(nodes), True, f"{len(nodes)} {'node has' if len(nodes) == 1 else 'nodes have'} GPUs"),
        (settings.get("SelectType") == "select/cons_tres", True, "SelectType=select/cons_tres"),
        ("lua" in plugins, False, "JobSubmitPlugins=lua holds jobs; else each needs sbatch -H"),
        (typed, arguments.typed, "the GPUs of each node have types i0, i1 ...: they can be chosen"),
        ("none" not in settings.get("TopologyPlugin", "none"), False, "TopologyPlugin has a tree"),
        (
            delay is not None and int(delay[1]) < 3,
            False,
            "SchedulerParameters=batch_sched_delay=1: released jobs start sooner",
        ),
    ):
        failed += needed and not fulfilled
        print(f"{'yes    ' if fulfilled else 'MISSING' if needed else 'no     '}  {what}")
    for problem, count in _problems(nodes, arguments.typed).items():
        print(f"no       {count} of the jobs that wait: {problem}")
    print(f"Slurm {settings.get('SLURM_VERSION', '?')}; tried with 22.05")
    return int(failed > 0)


def _problems(nodes: Sequence[SlurmNode], typed: bool) -> Mapping[str, int]:
    """Why jobs that wait are left to Slurm or cannot start, with the number of these jobs."""
    places, node_gpus = Places("", typed), max((node.gpus for node in nodes), default=0)
    places.renew(nodes)
    excluded = read_excluded(run_command(EXCLUDED))
    text = run_command(TYPED_QUEUE if typed else QUEUE)
    jobs = read_queue(text, node_gpus=node_gpus, typed=typed)
    placed = [places.with_place(job, excluded.get(job.id, ())) for job in jobs if job.waits]
    return Counter(job.problem for job in placed if job.problem)


def _read_only(written: list[str], failures: list[OSError]) -> Callable[..., str]:
    """Runs commands that only read; keeps what the others would send, and why commands failed."""

    def run(command: tuple[str, ...], text: str = "") -> str:
        if command == ("scontrol",):
            written.append(text)
            return ""
        try:
            return run_command(command, text)
        except OSError as error:
            failures.append(error)
            raise

    return run


def _explain(arguments: argparse.Namespace) -> int:
    failures: list[OSError] = []
    broker, now = _broker(arguments, _read_only([], failures)), time.time()
    actions = broker.step(now)
    if failures:
        raise failures[0]
    name, scheduler, job = arguments.job, broker.scheduler, broker.jobs.get(arguments.job)
    if job is None:
        print(f"{name}: Slurm has no such job with GPUs now")
    elif name in broker.problems:
        print(f"{name}: {broker.problems[name]}")
    elif name not in scheduler:
        until = "for other jobs" if job.depends else f"until {time.ctime(job.start)}"
        print(f"{name}: waits {until}")
    elif name in broker.switch_waits:
        seconds = broker.switch_waits[name] - now
        print(f"{name}: could start, but waits up to {seconds:.0f} s for nodes at fewer switches")
    elif scheduler.state(name) == "pending":
        print(scheduler.explain(name).text)
    else:
        starts = any(isinstance(each, Start) and each.job == name for each in actions)
        nodes = compress_hostlist(dict.fromkeys(p.node for p in scheduler.status(name).pods))
        print(f"{name}: {'would start now' if starts else scheduler.state(name)} on {nodes}")
        return 0
    return 1


def _rounds(arguments: argparse.Namespace) -> Iterator[float]:
    """The time of each round."""
    done = 0
    while arguments.rounds is None or done < arguments.rounds:
        if done:
            time.sleep(arguments.interval)
        yield time.time()
        done += 1


def _run(arguments: argparse.Namespace) -> None:
    written: list[str] = []
    failures: list[OSError] = []
    run = _read_only(written, failures) if arguments.dry_run else run_command
    more = {"how": arguments.how, "switch_wait": arguments.switch_wait}
    broker = _when_it_answers(lambda: _broker(arguments, run, **more), arguments)
    if arguments.dry_run:
        broker.step(time.time())
        if failures:
            raise failures[0]
        print("".join(written), end="")
    known: dict[str, str] = {}
    for now in () if arguments.dry_run else _rounds(arguments):
        for action in broker.step(now):
            if not isinstance(action, Wait):
                print(f"{now:.1f} {_line(action)}", flush=True)
        for name, why in broker.problems.items():
            if known.get(name) != why:
                print(f"{now:.1f} {name}: {why}", file=sys.stderr, flush=True)
        known = dict(broker.problems)


def _when_it_answers(begin: Callable[[], Broker], arguments: argparse.Namespace) -> Broker:
    """Without a number of rounds, wait for a controller that restarts."""
    while True:
        try:
            return begin()
        except OSError as error:
            if arguments.rounds is not None or arguments.dry_run or error.errno is not None:
                raise  # with a number it is of a file or a program, not from Slurm
            print(f"{time.time():.1f} {error}", file=sys.stderr, flush=True)
        time.sleep(arguments.interval)


def _line(action: Any) -> str:
    if isinstance(action, Start):
        nodes = compress_hostlist(dict.fromkeys(pod.node for pod in action.pods))
        return f"Start {action.job} on {nodes}"
    return f"{type(action).__name__} {getattr(action, 'job', '')}"


def _shadow(plot: Callable[[Path], _Draw]) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        draw = plot(arguments.plot) if arguments.plot else None
        shadow = _follow(arguments)
        print(shadow.table, end="")
        if draw:
            draw(shadow.waits, len(shadow.rows))

    return run


def _follow(arguments: argparse.Namespace) -> Shadow:
    given = {"tenant": arguments.tenant, "spare": arguments.spare}
    shadow = Shadow(_scheduler(arguments, immediate=True), run_command, **given)
    try:
        for now in _rounds(arguments):
            try:
                shadow.step(now)
            except OSError as error:
                print(f"{now:.1f} {error}", file=sys.stderr)
    except KeyboardInterrupt:
        pass  # the table is what was asked for
    return shadow
