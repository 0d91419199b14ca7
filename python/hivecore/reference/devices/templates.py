"""Which template a share of a GPU is, where its node's GPUs can only be cut into some shares.

Templates go by what each GPU gives, as it is asked for: nothing is converted, and a share that
gives more than was asked will not do. So the answer follows from the need and the inventory.
"""

from typing import Any

__all__ = ["template_of"]


def template_of(need: Any, inventory: Any) -> str | None:
    """The template's name; "": the share need not be one, or is several; None: it is none, and
    must be one.

    :param need: of GPUs, whole ones or shares.
    :param inventory: with ``templates``, as `hivecore.devices.NodeDevices` has them.
    """
    shares = inventory.templates
    asked = dict(need.amounts)
    if shares is None or not need.shared or not set(asked) & set(shares.matched):
        return ""
    found = [one.name for one in shares.templates if dict(one.amounts) == asked]
    if not found:
        return None
    return found[0] if len(found) == 1 else ""
