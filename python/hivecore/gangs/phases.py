"""The phase of a gang, as a PodGroup controller shows it."""

from hivecore._arguments import as_choice, as_int

__all__ = ["gang_phase"]

_PHASES = (
    "",
    "Pending",
    "PreScheduling",
    "Scheduling",
    "Scheduled",
    "Running",
    "Failed",
    "Finished",
)
_MOST = 2**62


def gang_phase(
    before: str,
    min_members: int,
    *,
    pods: int,
    bound: int = 0,
    running: int = 0,
    succeeded: int = 0,
    failed: int = 0,
) -> str:
    """Return the next phase of a gang.

    :param before: its last phase, or "" for a new gang. "Finished" and "Failed" are final.
    :param min_members: the number of pods with which it starts; 0 counts as 1.
    :param pods: its pods, including ended ones; without any it is "Pending" again.
    :param bound: pods with a node, including running and ended ones.
    :param running: running pods.
    :param succeeded: pods that have succeeded.
    :param failed: pods that have failed.
    :raises ValueError: a number is negative, or the phase is unknown.
    :raises TypeError: an argument has a wrong type.

    "Pending" until there are enough pods, then "PreScheduling"; "Scheduling" from the first bound
    pod until enough are bound; "Scheduled"; "Running" when enough run or have succeeded; "Failed"
    when a pod has failed and enough run or have ended; "Finished" when enough have succeeded.
    Source: Koordinator's PodGroup controller, whose phases take a pass for each step.

    >>> from hivecore.gangs import gang_phase
    >>> gang_phase("", 2, pods=2), gang_phase("PreScheduling", 2, pods=2, bound=1)
    ('PreScheduling', 'Scheduling')
    >>> gang_phase("Scheduling", 2, pods=2, bound=2, running=2)
    'Running'
    """
    phase = as_choice(before, "before", _PHASES)
    least = max(1, as_int(min_members, "min_members", 0, _MOST))
    counts = {"pods": pods, "bound": bound, "running": running, "succeeded": succeeded}
    counts["failed"] = failed
    number = {name: as_int(count, name, 0, _MOST) for name, count in counts.items()}
    if phase in ("Failed", "Finished"):
        return phase
    if number["pods"] < least:
        if phase in ("", "Pending") or not number["pods"]:
            return "Pending"
    elif phase in ("", "Pending"):
        phase = "PreScheduling"
    good = number["running"] + number["succeeded"]
    if number["bound"] >= least and phase in ("PreScheduling", "Scheduling", "Scheduled"):
        phase = "Scheduled"
    elif phase == "Scheduled" or (phase == "PreScheduling" and number["bound"]):
        phase = "Scheduling"
    if good >= least and phase == "Scheduled":
        phase = "Running"
    if number["failed"] and number["failed"] + good >= least:
        return "Failed"
    return "Finished" if number["succeeded"] >= least else phase
