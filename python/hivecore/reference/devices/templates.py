"""The template of a GPU share, where GPUs can only be cut in certain ways.

A template matches exactly what is requested of each GPU: nothing is converted, and a larger share
does not match. So the answer depends only on the need and the inventory.
"""

from typing import Any

__all__ = ["template_of"]


def template_of(need: Any, inventory: Any) -> str | None:
    """Return the template's name; "" if none is needed, or several match; None if none matches.

    :param need: for whole GPUs or shares.
    :param inventory: with ``templates``, as in `hivecore.devices.NodeDevices`.
    """
    shares = inventory.templates
    amounts = dict(need.amounts)
    if shares is None or not need.shared or not set(amounts) & set(shares.matched):
        return ""
    matching = [template.name for template in shares.templates if dict(template.amounts) == amounts]
    if not matching:
        return None
    return matching[0] if len(matching) == 1 else ""
