"""`hivecore log`: what is in a scheduler's decision log."""

import argparse
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from hivecore._stateful import counted
from hivecore.scheduler import Scheduler, diff_log, explain_log, log_standing, read_log, replay
from hivecore.sim.console import (
    add,
    named,
    picture,
    print_report,
    print_sentence,
    say_written,
    try_outputs,
    whole,
)
from hivecore.sim.logs.report import difference_report, figures_report, standing_report
from hivecore.sim.pictures import save_figure

__all__ = ["add_log_command"]

_ROWS = 10


def add_log_command(commands: Any, read: Callable[[Path], Scheduler]) -> None:
    """Add `hivecore log` to a parser's commands; `read` makes a scheduler of a file's path."""
    parser = commands.add_parser(
        "log",
        help="run a scheduler's decision log again, and ask it questions",
        description="Asks the decision log of a scheduler. Times are in the log's seconds.",
    )
    questions = parser.add_subparsers(dest="question", required=True, metavar="QUESTION")

    again = _question(questions, "replay", _replay, "run it again, and compare the decisions")
    again.set_defaults(needs=())

    state = _question(questions, "state", _state, "which jobs ran and waited at a time, and why")
    state.set_defaults(needs=("rich",))
    add(state, "--until", "TIME", "(default: the end)", type=_time)

    why = _question(questions, "explain", _explain, "why a job did not start at a time")
    why.set_defaults(needs=())
    add(why, "job", "JOB", "its name")
    add(why, "--at", "TIME", "then", type=_time, required=True)

    other = _question(questions, "diff", _diff(read), "the same events under another configuration")
    other.set_defaults(needs=("rich", "matplotlib", "yaml"))
    add(other, "--spec", "OTHER", "its file; see hivecore init", type=Path, required=True)
    add(other, "--until", "TIME", "(default: the end)", type=_time)
    rows = f"of jobs that start sooner, that start later, and that are rejected (default {_ROWS})"
    add(other, "--rows", "N", rows, type=whole(), default=_ROWS)
    add(other, "--plot", "PICTURE", "draw it: a .png file", type=picture(".png"))


def _question(questions: Any, name: str, run: Callable[..., None], help: str) -> Any:
    parser = questions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
    parser.set_defaults(run=run, extra="sim,hived")
    add(parser, "file", "FILE", "the log; older segments beside it are read as well", type=Path)
    return parser


def _time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = inf
    if not 0.0 <= seconds < inf:
        raise argparse.ArgumentTypeError(f"must be a time in seconds, not {text!r}")
    return seconds


def _replay(arguments: argparse.Namespace) -> None:
    events = decisions = actions = 0
    begin = None
    with named(str(arguments.file)):
        scheduler = replay(arguments.file)
        for record in read_log(arguments.file):
            begin = record.number if begin is None else begin
            events += record.event not in ("begin", "state", "decide")
            decisions += record.event == "decide"
            actions += len(record.fields.get("actions", ()))
    print_sentence(
        f"{counted(events, 'event')} and {counted(decisions, 'decision')} with "
        f"{counted(actions, 'action')} until "
        f"{scheduler.now:g} s: the scheduler says the same again, to the byte."
    )
    if begin:
        print_sentence(f"The log is there from line {begin + 1} on: older segments are not.")


def _state(arguments: argparse.Namespace) -> None:
    with named(str(arguments.file)):
        answer = log_standing(arguments.file, until=arguments.until)
    print_report(standing_report(answer))


def _explain(arguments: argparse.Namespace) -> None:
    with named(str(arguments.file)):
        try:
            answer = explain_log(arguments.file, arguments.job, at=arguments.at)
        except KeyError as error:
            raise ValueError(error.args[0]) from None
    print(answer.text)


def _diff(read: Callable[[Path], Scheduler]) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        try_outputs(arguments.plot, None)
        other = read(arguments.spec)
        with named(str(arguments.file)):
            answer = diff_log(arguments.file, other, until=arguments.until)
        figures = figures_report(answer)
        print_report(figures)
        if answer.sooner or answer.later or answer.rejected:
            print()
        print_report(difference_report(answer, arguments.rows))
        if arguments.plot:
            say_written(save_figure(figures.pictures["difference"](), arguments.plot))

    return run
