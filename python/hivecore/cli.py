"""The `hivecore` command: simulations, quotas, configurations, and `serve`."""

import argparse
import errno
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hivecore import __version__
from hivecore._ctrl_c import held_back

if TYPE_CHECKING:
    from hivecore.interop.quota_file import QuotaFile
    from hivecore.interop.scheduler_file import SchedulerSpec

__all__ = ["main"]

#: how a message begins that is about an argument of a call, such as `priority=5000`
_FIELD = re.compile(r"(\w+)(?:\['(.*?)'\])?(?:='?(.*?)'?)?(?=: | must )")
_NEEDS: dict[str, Any] = {"needs": ("rich", "tqdm", "matplotlib", "joblib"), "extra": "sim"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and returns its exit status.

    :param argv: arguments without the program's name; those of the process by default.

    Returns 0, or 1 if an extra library is missing or a configuration has mistakes. Wrong arguments
    and files that cannot be read or written end with status 2 and a message (`SystemExit`).

    :raises BrokenPipeError: the reader of the output has gone.
    """
    given = _with_kind(list(sys.argv[1:] if argv is None else argv))
    parser = _parser(given)
    arguments = parser.parse_args(given)
    missing = [name for name in arguments.needs if not find_spec(name)]
    if missing:
        print(
            f"hivecore {arguments.command} needs {', '.join(missing)}: "
            f"pip install 'hivecore[{arguments.extra}]'",
            file=sys.stderr,
        )
        return 1
    command: Callable[[argparse.Namespace], int | None] = arguments.run
    try:
        _check_file_names(arguments, given)
        return command(arguments) or 0
    except BrokenPipeError:
        raise
    except OSError as error:
        _fail(parser, _of_file(error, arguments, given))
    except (ImportError, ValueError) as error:
        _fail(parser, _of_option(str(error), arguments, given))
    except MemoryError:
        _fail(parser, "there is not enough memory for this")


def _imported(module: str) -> Any:
    with held_back():  # native modules take an interrupt for a failure to load
        return import_module(f"hivecore.{module}")


def _with_kind(given: list[str]) -> list[str]:
    """Spell a replay with its kind, and say so where it is without."""
    if given[:1] != ["replay"]:
        return given
    kind = _imported("sim.replay_command").kind_of(given[1:])
    if not kind:
        return given
    new = f"hivecore replay {kind}{' --system' if '--storage' in given else ''}"
    print(f"hivecore: hint: write `{new}`, the spelling without it will go", file=sys.stderr)
    return ["replay", kind, *given[1:]]


def _fail(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"hivecore: error: {message}\n")


def _check_file_names(arguments: argparse.Namespace, given: Sequence[str]) -> None:
    """Refuse an empty name of a file, which would be that of the folder here."""
    values = [path for value in vars(arguments).values() for path in _listed(value)]
    if Path() not in values:
        return
    for before, text in zip(("", *given), given, strict=False):
        option, is_joined, value = text.partition("=")
        if text == "" or (is_joined and not value and option.startswith("--")):
            option = option or (before if before.startswith("--") else "")
            raise ValueError(f"{option}{': ' if option else ''}the name of a file is empty")


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _of_option(message: str, arguments: argparse.Namespace, given: Sequence[str]) -> str:
    """What is wrong, with the option that the user has given in place of a call's argument."""
    values = [path for value in vars(arguments).values() for path in _listed(value)]
    files = [f"{path}: " for path in values if isinstance(path, Path)]
    file = next(filter(message.startswith, files), "")
    field = _FIELD.match(message, len(file))
    for name in (field[1], field[1].removesuffix("s")) if field else ():
        option = f"--{name.replace('_', '-')}"
        if field and any(text.partition("=")[0] == option for text in given):
            value = field[2] or field[3]
            return f"{file}{option}{f' {value}' if value else ''}{message[field.end() :]}"
    return message


def _of_file(error: OSError, arguments: argparse.Namespace, given: Sequence[str]) -> str:
    """What is wrong, after the file and the option that names it."""
    paths = {
        str(path): f"--{name.replace('_', '-')}"
        for name, value in vars(arguments).items()
        for path in _listed(value)
        if isinstance(path, Path)
    }
    file, what = error.filename, error.strerror or str(error)
    if file is None:
        # Errors of a server without a file are those of its address.
        known = arguments.command != "serve" or error.errno == errno.EIO
        return f"{', '.join(paths)}: {what}" if paths and known else what
    # A folder of an output may be missing, or be a file.
    for path in (str(file), *(path for path in paths if Path(str(file)) in Path(path).parents)):
        option = paths.get(path, "")
        if any(text.partition("=")[0] == option for text in given):
            return f"{option} {file}: {what}"
    return f"{file}: {what}"


def _read(path: Path) -> "SchedulerSpec":
    """Read the file of a scheduler, and print what in it is perhaps not meant."""
    spec: SchedulerSpec = _imported("interop.scheduler_file").SchedulerSpec.read(path)
    for remark in spec.remarks:
        print(remark, file=sys.stderr)
    return spec


def _read_quotas(text: str, **options: Any) -> "QuotaFile":
    file: QuotaFile = _imported("interop.quota_file").read_quota_file(text, **options)
    return file


def _picture(text: str) -> Path:
    """An option's picture of waiting times."""
    path: Path = _imported("sim.console").picture(".svg", ".png")(text)
    return path


def _plot_waits(path: Path) -> Callable[[Mapping[str, Sequence[float]], int], None]:
    """Find out that a picture can be written, and return what draws it."""
    console, pictures = _imported("sim.console"), _imported("sim.pictures")
    console.try_outputs(path, None)
    return lambda waits, jobs: console.say_written(
        pictures.save_figure(pictures.waits_picture(waits, jobs), path)
    )


class _Parser(argparse.ArgumentParser):
    """Reads arguments before options, and as arguments also the files after the values of an
    option: argparse takes the trace in `--policy fifo srsf trace.csv` for a policy.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(self._arguments_first(list(args)), namespace)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help; argparse would ignore that it cannot be written."""
        if file is sys.stdout:
            print(message, end="")
        else:
            super()._print_message(message, file)

    def _arguments_first(self, given: list[str]) -> list[str]:
        if "--" in given or self._subparsers is not None:
            return given
        blocks: list[list[str]] = [[]]
        for text in given:
            if text.startswith("--"):
                blocks.append([])
            blocks[-1].append(text)
        options = [self._option_string_actions.get(block[0]) for block in blocks[1:]]
        ends = [0, *map(_end, blocks[1:], options)]
        wanted = [action.nargs for action in self._actions if not action.option_strings]
        least = sum(nargs not in ("*", "?") for nargs in wanted)
        most = len(given) if {"+", "*"} & set(wanted) else len(wanted)
        free = len(given) - sum(ends)
        for place, option in enumerate(options if free < max(least, 1) else (), 1):
            if option is not None and option.nargs == "+":
                files = _files_at_end(blocks[place][1:], option, least > 0)[: most - free]
                ends[place] -= len(files)
                free += len(files)
        split = list(zip(blocks, ends, strict=True))
        arguments = [text for block, end in split for text in block[end:]]
        return [*arguments, *(text for block, end in split for text in block[:end])]


def _end(block: Sequence[str], option: argparse.Action | None) -> int:
    """How many of these texts, which begin with an option, are of the option."""
    if option is None:
        return 1 if "=" in block[0] else len(block)
    values = 1 if option.nargs is None else option.nargs
    return 1 + values if isinstance(values, int) else len(block)


def _files_at_end(values: Sequence[str], option: argparse.Action, may_lack: bool) -> list[str]:
    """What follows the values of an option, the last file first."""
    files = []
    for text in reversed(values[1:]):
        if _is_value(text, option, values) or not (may_lack or Path(text).exists()):
            break
        files.append(text)
    return files


def _is_value(text: str, option: argparse.Action, values: Sequence[str]) -> bool:
    """Whether an option takes a text; it takes files that end as its first one."""
    if option.choices is not None:
        return text in option.choices
    if option.type is Path:
        first, last = Path(values[0]).suffix, Path(values[-1]).suffix
        return first == last or Path(text).suffix != last
    parse: Any = option.type or str
    try:
        parse(text)
    except (argparse.ArgumentTypeError, ValueError):
        return False
    return True


#: a command -> the module that adds it, and what that is given: the rooms of simulations read no
#: files of clusters, and the others draw nothing
_COMMANDS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "replay": ("sim.replay_command", (_read,), _NEEDS),
    "demo": ("sim.demo.command", (), _NEEDS),
    "sweep": ("sim.tenants.sweep_command", (_read,), _NEEDS),
    "quota": ("sim.quotas.command", (_read_quotas,), {}),
    "log": ("sim.logs.command", (lambda path: _read(path).scheduler(),), {}),
    "init": ("interop.scheduler_file.init_command", (), {}),
    "validate": ("interop.validate_command", (), {}),
    "explain": ("interop.claims_command", (), {}),
    "what-if": ("interop.what_if_command", (), {}),
    "topology": ("interop.slurm.topology_command", (), {}),
    "slurm": ("interop.slurm.live.command", (_picture, _plot_waits), {}),
    "serve": ("interop.serve_command", (), {}),
}


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of the command that is given: each one imports much. Otherwise, of all of them."""
    parser = _Parser(
        prog="hivecore",
        description="Trace-driven simulation of multi-tenant GPU clusters, elastic quotas, "
        "scheduler extenders.",
        epilog="Exit status: 0; 1 if a library is missing or a configuration has mistakes; 2 for "
        "wrong arguments and files that cannot be read or written; 130 after Ctrl-C; 141 if the "
        "reader of the output has gone.",
    )
    parser.add_argument("--version", action="version", version=f"hivecore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    if given[:1] != ["--version"]:
        for name in _COMMANDS.keys() & given[:1] or _COMMANDS:
            where, arguments, options = _COMMANDS[name]
            add = getattr(_imported(where), f"add_{name.replace('-', '_')}_command")
            add(commands, *arguments, **options)
    return parser
