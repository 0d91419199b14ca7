"""What a decision log tells: how things stood at some time, and how they would have gone else."""

from hivecore.scheduler.history.difference import JobDifference, LogDifference, LogFigures, diff_log
from hivecore.scheduler.history.standing import JobStanding, LogStanding, explain_log, log_standing

__all__ = [
    "JobDifference",
    "JobStanding",
    "LogDifference",
    "LogFigures",
    "LogStanding",
    "diff_log",
    "explain_log",
    "log_standing",
]
