"""HiveD's configuration, as commands read it."""

import sys
from pathlib import Path

from hivecore.interop.hived.configuration.config import ConfigError, HivedConfig

__all__ = ["read_config"]


def read_config(path: Path) -> HivedConfig | None:
    """The configuration; None after its mistakes have been printed.

    Its remarks are printed, too.
    """
    try:
        config = HivedConfig.read(path)
        for place, remark in config.remarks:
            print(f"{path}: {place}: {remark}", file=sys.stderr)
        return config
    except ConfigError as error:
        for place, message in error.problems:
            print(f"{path}: {place + ': ' if place else ''}{message}", file=sys.stderr)
        count = len(error.problems)
        print(f"{path}: {count} mistake{'s' if count > 1 else ''}", file=sys.stderr)
        return None
