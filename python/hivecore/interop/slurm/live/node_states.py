"""Which states of Slurm's nodes allow a job to start there.

The words are those of sinfo, long and short, and the flags of scontrol and of JSON; the signs are
those that sinfo puts behind a state. Source: the manual pages of sinfo and scontrol, 24.05.
"""

import re

__all__ = ["SIGNS", "STATES", "is_usable"]

#: By word whether a job that is released may start on the node soon.
STATES = {
    # at work, or with nothing to do
    **dict.fromkeys(("idle", "allocated", "alloc", "mixed", "mix", "completing", "comp"), True),
    # without power: Slurm powers the node up for a job
    **dict.fromkeys(("powered_down", "pow_dn", "powering_up", "pow_up", "power_up"), True),
    # how a node is configured, and the end of another flag
    **dict.fromkeys(("cloud", "dynamic_norm", "resume", "undrain", "cancel_reboot"), True),
    # without a daemon that answers, or with a wrong configuration
    **dict.fromkeys(("down", "error", "unknown", "unk", "not_responding", "no_respond"), False),
    **dict.fromkeys(("inval", "invalid", "invalid_reg", "future", "futr"), False),
    # taken out of use
    **dict.fromkeys(("drain", "draining", "drng", "drained", "fail", "failing", "failg"), False),
    **dict.fromkeys(("maint", "maintenance", "reserved", "resv"), False),
    # about to lose power, or to start again
    **dict.fromkeys(("power_down", "powering_down", "power_drain", "power_off"), False),
    **dict.fromkeys(("reboot", "reboot_requested", "reboot_issued", "boot"), False),
    # kept for other jobs: by an exclusive topology, counters of the network, the backfill
    **dict.fromkeys(("blocked", "block", "perfctrs", "npc", "planned", "plnd"), False),
}
#: By sign the word for it.
SIGNS = {
    "*": "not_responding",
    "~": "powered_down",
    "#": "powering_up",
    "!": "power_down",
    "%": "powering_down",
    "$": "maint",
    "@": "reboot_requested",
    "^": "reboot_issued",
    "-": "planned",
}
_WORD = re.compile(r"[a-z][a-z_]*|[*~#!%$@^-]")


def is_usable(state: str) -> bool:
    """Whether a job may start on a node of this state, such as "idle~" or "IDLE+DRAIN".

    A word that is not in `STATES` says no. A node without power does not respond, and may be used.
    """
    words = {SIGNS.get(word, word) for word in _WORD.findall(state.lower())}
    if "powered_down" in words:
        words -= {"not_responding", "no_respond"}
    return bool(words) and all(STATES.get(word, False) for word in words)
