"""Runs a script, and logs what its first scheduler decides: `traced.py LOG SCRIPT`."""

import runpy
import sys
from typing import Any

from hivecore.scheduler import Scheduler


def main() -> None:
    """Run the script; what it prints stays the same."""
    log, script = sys.argv[1:]
    logs = [log]
    begin = Scheduler.__init__

    def begin_logged(self: Scheduler, **parts: Any) -> None:
        if logs and "log" not in parts:
            parts["log"] = logs.pop()
        begin(self, **parts)

    Scheduler.__init__ = begin_logged  # type: ignore[method-assign]
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
