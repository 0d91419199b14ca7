"""Logs as lines of JSON: what was decided, and what went wrong."""

import logging
import sys
from datetime import UTC, datetime

from hivecore.interop.kubernetes.json_text import write_json

__all__ = ["LEVELS", "LOG", "start_logging"]

LOG = logging.getLogger("hivecore.serve")
LEVELS = ("debug", "info", "warning", "error")


class _JsonLines(logging.Formatter):
    """A line has time, level and message, and what was given under ``extra={"fields": ...}``."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return write_json(line).decode()


def start_logging(level: str) -> None:
    """Write logs of this level and above to standard error, of libraries what went wrong.

    :param level: one of `LEVELS`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    LOG.setLevel(level.upper())
