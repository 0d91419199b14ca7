"""The process of the `hivecore` command, also `python -m hivecore`: what ends it from outside.

Ctrl-C ends with one line and status 130, a reader of the output that has gone (`| head -1`) without
a word and with status 141: what a shell reports of programs that die of SIGINT and SIGPIPE.
"""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

__all__ = ["main"]


def _name_output(stream: Any) -> None:
    """Let errors of a stream name the output, as they have no file."""

    def named(act: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(act)
        def do(*arguments: Any) -> Any:
            try:
                return act(*arguments)
            except OSError as error:
                error.filename = error.filename or "the output"
                raise

        return do

    stream.write, stream.flush = named(stream.write), named(stream.flush)


def main() -> int:
    """Run `hivecore.cli.main` on the arguments of the process, and return the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the process that started this one
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    _name_output(sys.stdout)
    plain = warnings.formatwarning
    warnings.formatwarning = lambda message, category, *rest: (
        f"hivecore: warning: {message}\n"
        if category is UserWarning
        else plain(message, category, *rest)
    )
    try:
        try:
            from hivecore.cli import main as command

            # Jobs are many, live long and are in no cycles: to look for some among them every 700
            # objects takes a sixth of a replay.
            gc.set_threshold(50_000)
            return command()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one: at once, without a trace
            exec("")  # forget it if it left an exec(): Python would kill itself at its end
            print("hivecore: interrupted", file=sys.stderr)
            return 130
        finally:
            sys.stdout.flush()
    except OSError as error:
        # The output cannot be written. Python would try once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141
        print(f"hivecore: error: the output: {error.strerror or error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
