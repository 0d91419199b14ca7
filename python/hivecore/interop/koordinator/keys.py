"""The labels and annotations of Koordinator's pods that are read, and guesses for misspelt ones."""

from difflib import get_close_matches

from hivecore.interop.koordinator.gangs.names import (
    DEFINITION,
    GANG_NAME,
    LIGHT_MINIMUM,
    LIGHT_NAME,
    POD_GROUP,
    X_POD_GROUP,
)
from hivecore.interop.koordinator.names import (
    DEVICE_HINT,
    ISOLATION_PROVIDER,
    JOINT_ALLOCATE,
    PARTITION_SPEC,
)
from hivecore.interop.koordinator.quotas.names import PREEMPTIBLE, QUOTA_NAME
from hivecore.interop.koordinator.topology.names import POD_INDEX, SELECTOR, SPEC

__all__ = ["ANNOTATIONS", "LABELS", "meant_key"]

#: Labels of a pod that describe its job.
LABELS = (
    *(POD_GROUP, X_POD_GROUP, LIGHT_NAME, LIGHT_MINIMUM),
    *(QUOTA_NAME, PREEMPTIBLE, ISOLATION_PROVIDER),
)
#: Annotations of a pod that describe its job.
ANNOTATIONS = (
    *(GANG_NAME, *DEFINITION, SPEC, POD_INDEX, SELECTOR),
    *(DEVICE_HINT, JOINT_ALLOCATE, PARTITION_SPEC),
)
_KEYS = (*LABELS, *ANNOTATIONS)
#: The key names of small groups.
_NAMES = {
    group: [key.partition("/")[2] for key in _KEYS if key.startswith(f"{group}/")]
    for group in {key.partition("/")[0] for key in (GANG_NAME, LIGHT_NAME, QUOTA_NAME, X_POD_GROUP)}
}
#: Keys that their last part identifies in any group.
_BY_NAME = {
    key.partition("/")[2]: key for key in reversed(ANNOTATIONS) if "-" in key.partition("/")[2]
}


def meant_key(key: str) -> str:
    """Return the known key that an unknown one probably means; "" if it is known or like none.

    >>> meant_key("gang.scheduling.koordinator.sh/min-avaliable")
    'gang.scheduling.koordinator.sh/min-available'
    >>> meant_key("scheduling.koordinator.sh/network-topology-spec")
    'gang.scheduling.koordinator.sh/network-topology-spec'
    """
    group, _, given = key.partition("/")
    name = given.lower()
    if key in _KEYS or not name:
        return ""
    near = get_close_matches(name, _NAMES.get(group, ()), n=1, cutoff=0.8)
    if near:
        return f"{group}/{near[0]}"
    return _BY_NAME.get(name, "") if group.endswith("koordinator.sh") else ""
