"""Koordinator's labels, annotations and kinds for gangs.

Source: Koordinator, ``apis/extension/coscheduling.go``; scheduler-plugins,
``apis/scheduling/v1alpha1``.
"""

__all__ = [
    "BIND_GROUP",
    "BIND_MEMBERS",
    "DEFINITION",
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
    "VERSIONS",
    "WAIT_TIME",
    "X_POD_GROUP",
]

KIND = "PodGroup"
VERSIONS = ("scheduling.sigs.k8s.io/v1alpha1", "scheduling.x-k8s.io/v1alpha1")

# Labels by which a pod names its PodGroup, one for each API group.
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
X_POD_GROUP = "scheduling.x-k8s.io/pod-group"

_GANG = "gang.scheduling.koordinator.sh"

# Annotation of pods.
GANG_NAME = f"{_GANG}/name"

# Annotations of pods; TOTAL, MODE and those below it also of PodGroups.
MINIMUM = f"{_GANG}/min-available"
WAIT_TIME = f"{_GANG}/waiting-time"
TOTAL = f"{_GANG}/total-number"
MODE = f"{_GANG}/mode"
GROUPS = f"{_GANG}/groups"
MATCH_POLICY = f"{_GANG}/match-policy"
MATCH_POLICY_ALIAS = "pod-group.scheduling.sigs.k8s.io/match-policy"

#: Annotations of pods that define a gang, except for its topology rules.
DEFINITION = (MINIMUM, WAIT_TIME, TOTAL, MODE, GROUPS, MATCH_POLICY, MATCH_POLICY_ALIAS)

# Older labels of pods.
LIGHT_NAME = "pod-group.scheduling.sigs.k8s.io/name"
LIGHT_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"

# Annotations that the scheduler writes when it binds a pod.
BIND_GROUP = "internal.scheduling.koordinator.sh/bind-gang-group-id"
BIND_MEMBERS = "internal.scheduling.koordinator.sh/bind-gang-member-count"
