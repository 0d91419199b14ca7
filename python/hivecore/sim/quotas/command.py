"""`hivecore quota`: the state of the quotas in a file."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hivecore._arguments import utf8_text
from hivecore.quotas import QuotaTree
from hivecore.sim.console import add, picture, print_report, say_written, try_outputs
from hivecore.sim.pictures import save_figure
from hivecore.sim.quotas.report import quota_findings, quota_report, quota_rows

__all__ = ["Found", "add_quota_command"]


class Found(Protocol):
    """The content of a file: a tree, and what the tree leaves out."""

    @property
    def tree(self) -> QuotaTree:
        """The quotas and their owners."""

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences about what is left out."""


class _Read(Protocol):
    def __call__(self, text: str, *, total: Mapping[str, Any] | None) -> Found: ...


def add_quota_command(commands: Any, read: _Read) -> None:
    """Add the command to a parser.

    `read` is called with a file's text and a total, as quantities by resource.
    """
    parser = commands.add_parser(
        "quota",
        help="show how elastic quotas stand",
        description="Prints what each quota of a tree asks for, is entitled to, may use now, uses, "
        "and may use at most, and draws it. The file has Koordinator's ElasticQuota objects, with "
        "Pods and Nodes if there are any (kubectl get -A -o yaml elasticquotas,pods,nodes), or "
        "hivecore's short form.",
    )
    parser.set_defaults(run=_runner(read), needs=("rich", "matplotlib", "yaml"), extra="sim,hived")
    add(parser, "file", "FILE", "YAML (or JSON) file", type=Path)
    total = "what the cluster has, such as cpu=64,nvidia.com/gpu=16 (default: as the file says)"
    add(parser, "--total", "LIST", total, type=_total)
    endings = (".svg", ".png")
    add(parser, "--out", "PICTURE", "draw it: a .svg or .png file", type=picture(*endings))


def _total(text: str) -> dict[str, str]:
    amounts: dict[str, str] = {}
    for part in text.split(","):
        name, sign, amount = part.strip().partition("=")
        if not (name and sign and amount):
            raise argparse.ArgumentTypeError(f"must be resource=amount,..., not {text!r}")
        if name in amounts:
            raise argparse.ArgumentTypeError(f"names {name!r} twice")
        amounts[name] = amount
    return amounts


def _runner(read: _Read) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        try_outputs(arguments.out, None)
        text = utf8_text(arguments.file)
        try:
            file = read(text, total=arguments.total)
        except (TypeError, ValueError) as error:
            # The option overrides the file.
            of_option = arguments.total is not None and str(error).startswith("total")
            option = "--" if of_option else ""
            raise ValueError(f"{arguments.file}: {option}{error}") from None
        rows = quota_rows(file.tree)
        report = quota_report(rows, [*quota_findings(file.tree, rows), *file.remarks])
        print_report(report)
        if arguments.out:
            say_written(save_figure(report.pictures["quotas"](), arguments.out))

    return run
