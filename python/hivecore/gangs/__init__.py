"""Gangs: pods that start together or not at all, and who of them sits where.

Where a stage decides on a gang as a whole, `Gangs` hands its slots to pods that come one by one.
Where a scheduler places pod by pod, `Coscheduler` says which to try, to hold and to start.
"""

from hivecore.gangs.action import Action, BindInfo, GangStatus, PodState, PodStatus
from hivecore.gangs.coscheduler import Coscheduler
from hivecore.gangs.gang import Gang, Role
from hivecore.gangs.gang_spec import GangMode, GangSpec, MatchPolicy
from hivecore.gangs.gangs import Answer, GangRequest, Gangs, ReservingStage
from hivecore.gangs.job_preemption import JobPreemption, RunningPod, VictimJob, preempt_jobs
from hivecore.gangs.phases import gang_phase
from hivecore.gangs.seats import Offer, Seat

__all__ = [
    "Action",
    "Answer",
    "BindInfo",
    "Coscheduler",
    "Gang",
    "GangMode",
    "GangRequest",
    "GangSpec",
    "GangStatus",
    "Gangs",
    "JobPreemption",
    "MatchPolicy",
    "Offer",
    "PodState",
    "PodStatus",
    "ReservingStage",
    "Role",
    "RunningPod",
    "Seat",
    "VictimJob",
    "gang_phase",
    "preempt_jobs",
]
