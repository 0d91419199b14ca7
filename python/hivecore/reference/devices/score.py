"""Scores nodes for a request by the policy (section 4, with defects D1, D4 and D5 fixed)."""

from typing import Any

from hivecore.reference.devices.eligible import View, charge_of, columns, primary

__all__ = ["FULL", "node_score"]

FULL = 10_000


def node_score(view: View, request: Any, policy: str) -> int:
    """Return 0 to 10,000, higher is better: the mean over types of what would be in use with the
    request (bin-pack) or left (spread). The host counts only if nothing else is requested.
    """
    needs = [need for need in request.needs if need.type != "host"] or list(request.needs)
    if not needs:
        return 0
    used = sum(_used_with(view, need) for need in needs)
    return (FULL * len(needs) - used if policy == "spread" else used) // len(needs)


def _used_with(view: View, need: Any) -> int:
    """Return the used part of all healthy devices in ten-thousandths; a share is on the first that
    fits.
    """
    healthy = view.healthy(need.type)
    eligible = view.eligible(need)
    total = sum(columns(device).get(primary(device), 0) for device in healthy)
    free = sum(view.free(device).get(primary(device), 0) for device in healthy)
    first = eligible[0]
    wanted = charge_of(need, first).get(primary(first), 0)
    count = len(eligible) if need.every else need.count
    shift = max(total.bit_length() - 48, 0)  # large amounts are rounded to steps
    part = total - free + count * wanted
    return FULL if part >= total else (part >> shift) * FULL // (total >> shift)
