"""`hivecore quota`: how the quotas in a file stand."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hivecore.quotas import QuotaTree, quota_rules
from hivecore.sim.console import print_sentence, print_table, say_written, try_outputs
from hivecore.sim.quotas.amounts import shown
from hivecore.sim.quotas.picture import save_quota_picture
from hivecore.sim.quotas.rows import QuotaRow, quota_rows
from hivecore.sim.quotas.table import quota_table

__all__ = ["Found", "add_quota_command"]


class Found(Protocol):
    """What a file says: a tree, and what of the file is not in it."""

    @property
    def tree(self) -> QuotaTree:
        """Its quotas with the owners in them."""

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences."""


class _Read(Protocol):
    def __call__(self, text: str, *, total: Mapping[str, Any] | None) -> Found: ...


def add_quota_command(commands: Any, read: _Read) -> None:
    """Add the command to the subparsers of a parser.

    :param commands: what ``add_subparsers`` of `argparse` gave.
    :param read: the text of a file and a total, as quantities by resource, to what the file says.
    """
    one = commands.add_parser(
        "quota",
        help="show how elastic quotas stand",
        description="Prints what each quota of a tree asks for, is entitled to, may use now, uses, "
        "and may use at most, and draws it. The file has Koordinator's ElasticQuota objects, with "
        "Pods and Nodes if there are any (kubectl get -A -o yaml elasticquotas,pods,nodes), or "
        "hivecore's short form.",
    )
    one.set_defaults(run=_runner(read), needs=("rich", "matplotlib", "yaml"), extra="sim,hived")
    one.add_argument("file", type=Path, metavar="FILE", help="YAML (or JSON) file")
    one.add_argument(
        "--total",
        type=_total,
        metavar="LIST",
        help="what the cluster has, such as cpu=64,memory=256Gi,nvidia.com/gpu=16 (default: what "
        "the file's nodes can allocate, or what it says)",
    )
    one.add_argument(
        "--out", type=_picture, metavar="PICTURE", help="draw it: a file that ends in .svg or .png"
    )


def _total(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, sign, amount = part.strip().partition("=")
        if not (name and sign and amount):
            raise argparse.ArgumentTypeError(f"must be resource=amount,..., not {text!r}")
        if name in found:
            raise argparse.ArgumentTypeError(f"names {name!r} twice")
        found[name] = amount
    return found


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in (".svg", ".png"):
        raise argparse.ArgumentTypeError(f"must end in .svg or .png, not {text!r}")
    return path


def _runner(read: _Read) -> Callable[[argparse.Namespace], None]:
    def run(arguments: argparse.Namespace) -> None:
        try_outputs(arguments.out, None)
        try:
            found = read(arguments.file.read_text("utf-8"), total=arguments.total)
        except (TypeError, ValueError) as error:
            # What the option says takes the place of what the file says.
            of_option = arguments.total is not None and str(error).startswith("total")
            option = "--" if of_option else ""
            raise ValueError(f"{arguments.file}: {option}{error}") from None
        rows = quota_rows(found.tree)
        print_table(quota_table(rows))
        for sentence in (*_findings(found.tree, rows), *found.remarks):
            print_sentence(sentence)
        if arguments.out:
            say_written([save_quota_picture(rows, arguments.out)])

    return run


def _findings(tree: QuotaTree, rows: Sequence[QuotaRow]) -> list[str]:
    """What somebody has to know beside the table, a sentence each."""
    running = sum(tree.members(name) > 0 for name in tree.owners)
    found = [f"Owners: {running} running, {len(tree.owners) - running} pending."]
    scaled = []
    for row in rows:
        if not row.depth:
            continue
        for resource, more in row.over().items():
            used, runtime = (shown(resource, one[resource]) for one in (row.used, row.runtime))
            found.append(
                f"{row.name} uses {shown(resource, more)} {resource} more than it may now: "
                f"{used} of {runtime}."
            )
        if any(amount > row.min[resource] for resource, amount in tree.quota(row.name).min):
            scaled.append(row.name)
    if scaled:
        found.append(f"More is promised than there is: min is scaled down of {', '.join(scaled)}.")
    quotas = [tree.quota(name) for name in tree.quotas]
    for broken in quota_rules(quotas, same_dimensions=False):
        found.append(f"Rule broken (in thousandths of a core, bytes): {broken}.")
    return found
