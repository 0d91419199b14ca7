"""The scheduler: combines queues, quotas, cells or a network, devices and storage."""

from hivecore.scheduler.actions import (
    Action,
    Move,
    PlacedPod,
    Preempt,
    Promote,
    Reject,
    SetCache,
    SetRemoteIO,
    Shrink,
    Start,
    Stop,
    TakeOver,
    Wait,
)
from hivecore.scheduler.events import SchedulerEvent, event_of_plain
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.explanation import JobChange, JobExplanation
from hivecore.scheduler.history.difference import JobDifference, LogDifference, LogFigures, diff_log
from hivecore.scheduler.history.standing import JobStanding, LogStanding, explain_log, log_standing
from hivecore.scheduler.job import Data, Job, Role, Where
from hivecore.scheduler.log.files import is_new_log
from hivecore.scheduler.log.reader import LogRecord, read_log
from hivecore.scheduler.log.replay import recover, replay
from hivecore.scheduler.moves.fragments import Fragments
from hivecore.scheduler.moves.plan import Fit, FreeDomain, FreeNodes, MovePlan
from hivecore.scheduler.plain import action_of_plain, plain_record, record_of_plain
from hivecore.scheduler.scheduler import Scheduler
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages.storage import StoragePool
from hivecore.scheduler.status import JobStatus
from hivecore.scheduler.summary import SchedulerSummary, TenantSummary

__all__ = [
    "Action",
    "Data",
    "EvictionLimit",
    "Fit",
    "Fragments",
    "FreeDomain",
    "FreeNodes",
    "Job",
    "JobChange",
    "JobDifference",
    "JobExplanation",
    "JobStanding",
    "JobStatus",
    "LogDifference",
    "LogFigures",
    "LogRecord",
    "LogStanding",
    "Move",
    "MovePlan",
    "PlacedPod",
    "Preempt",
    "Promote",
    "Reject",
    "Role",
    "Scheduler",
    "SchedulerEvent",
    "SchedulerSummary",
    "SetCache",
    "SetRemoteIO",
    "Sharing",
    "Shrink",
    "Start",
    "Stop",
    "StoragePool",
    "TakeOver",
    "TenantSummary",
    "Wait",
    "Where",
    "action_of_plain",
    "diff_log",
    "event_of_plain",
    "explain_log",
    "is_new_log",
    "log_standing",
    "plain_record",
    "read_log",
    "record_of_plain",
    "recover",
    "replay",
]
