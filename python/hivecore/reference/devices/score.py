"""How good a node is for a request, as the policy's name says (D1, D4, D5 of section 4 mended)."""

from typing import Any

from hivecore.reference.devices.eligible import View, charge_of, columns, primary

__all__ = ["FULL", "node_score"]

FULL = 10_000


def node_score(view: View, request: Any, policy: str) -> int:
    """0 to 10,000, more is better: the mean over the types of what would be in use with the whole
    request (bin-pack), or of what would be left (spread). The host counts if nothing else is asked.
    """
    needs = [need for need in request.needs if need.type != "host"] or list(request.needs)
    if not needs:
        return 0
    used = sum(_used_with(view, need) for need in needs)
    return (FULL * len(needs) - used if policy == "spread" else used) // len(needs)


def _used_with(view: View, need: Any) -> int:
    """In ten-thousandths of all healthy devices; a share is taken as on the first that fits."""
    healthy = view.healthy(need.type)
    eligible = view.eligible(need)
    total = sum(columns(device).get(primary(device), 0) for device in healthy)
    free = sum(view.free(one).get(primary(one), 0) for one in healthy)
    first = eligible[0]
    wanted = charge_of(need, first).get(primary(first), 0)
    count = len(eligible) if need.every else need.count
    shift = max(total.bit_length() - 48, 0)  # amounts that large are taken in steps
    part = total - free + count * wanted
    return FULL if part >= total else (part >> shift) * FULL // (total >> shift)
