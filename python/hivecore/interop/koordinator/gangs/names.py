"""What Koordinator calls things of gangs: labels and annotations.

Source: Koordinator, ``apis/extension/coscheduling.go``.
"""

from hivecore.interop.koordinator.quotas.names import GANG_NAME, POD_GROUP

__all__ = [
    "BIND_GROUP",
    "BIND_MEMBERS",
    "GANG_NAME",
    "GROUPS",
    "KIND",
    "LIGHT_MINIMUM",
    "LIGHT_NAME",
    "MATCH_POLICY",
    "MATCH_POLICY_ALIAS",
    "MINIMUM",
    "MODE",
    "POD_GROUP",
    "TOTAL",
    "WAIT_TIME",
]

KIND = "PodGroup"

_GANG = "gang.scheduling.koordinator.sh"

# Annotations of pods; those from MODE on, and TOTAL, of PodGroups as well.
MINIMUM = f"{_GANG}/min-available"
WAIT_TIME = f"{_GANG}/waiting-time"
TOTAL = f"{_GANG}/total-number"
MODE = f"{_GANG}/mode"
GROUPS = f"{_GANG}/groups"
MATCH_POLICY = f"{_GANG}/match-policy"
MATCH_POLICY_ALIAS = "pod-group.scheduling.sigs.k8s.io/match-policy"

# Labels of pods, of an older way to say it.
LIGHT_NAME = "pod-group.scheduling.sigs.k8s.io/name"
LIGHT_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"

# Annotations that the scheduler writes when it binds.
BIND_GROUP = "internal.scheduling.koordinator.sh/bind-gang-group-id"
BIND_MEMBERS = "internal.scheduling.koordinator.sh/bind-gang-member-count"
