"""The decision log: everything that came in and went out, so that it can be run again."""

from hivecore.scheduler.log.reader import LogRecord, read_log
from hivecore.scheduler.log.replay import recover, replay, replayed

__all__ = ["LogRecord", "read_log", "recover", "replay", "replayed"]
