"""Gangs: pods that start together or not at all.

For schedulers that place pod by pod: `Coscheduler` says which pods to try, hold and start.
"""

from hivecore.gangs.action import Action, BindInfo, GangStatus, PodState, PodStatus
from hivecore.gangs.coscheduler import Coscheduler
from hivecore.gangs.gang_spec import GangMode, GangSpec, MatchPolicy
from hivecore.gangs.job_preemption import JobPreemption, RunningPod, VictimJob, preempt_jobs
from hivecore.gangs.phases import gang_phase

__all__ = [
    "Action",
    "BindInfo",
    "Coscheduler",
    "GangMode",
    "GangSpec",
    "GangStatus",
    "JobPreemption",
    "MatchPolicy",
    "PodState",
    "PodStatus",
    "RunningPod",
    "VictimJob",
    "gang_phase",
    "preempt_jobs",
]
