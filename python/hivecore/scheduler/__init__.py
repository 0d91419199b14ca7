"""All parts composed: queues, quotas, cells or topology, and devices decide together."""

from hivecore.scheduler.actions import (
    Action,
    PlacedPod,
    Preempt,
    Reject,
    SetCache,
    SetRemoteIO,
    Start,
    Wait,
)
from hivecore.scheduler.explanation import JobChange, JobExplanation
from hivecore.scheduler.job import Data, Job, Role, Where
from hivecore.scheduler.log import LogRecord, read_log, recover, replay
from hivecore.scheduler.plain import action_of_plain, job_of_plain, plain_action, plain_job
from hivecore.scheduler.scheduler import Scheduler
from hivecore.scheduler.stages.storage import StoragePool

__all__ = [
    "Action",
    "Data",
    "Job",
    "JobChange",
    "JobExplanation",
    "LogRecord",
    "PlacedPod",
    "Preempt",
    "Reject",
    "Role",
    "Scheduler",
    "SetCache",
    "SetRemoteIO",
    "Start",
    "StoragePool",
    "Wait",
    "Where",
    "action_of_plain",
    "job_of_plain",
    "plain_action",
    "plain_job",
    "read_log",
    "recover",
    "replay",
]
