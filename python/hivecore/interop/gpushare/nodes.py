"""What a node of gpushare has: so many cards, and the memory of all of them together."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_int, as_mapping, as_tuple
from hivecore.devices import Device, NodeDevices
from hivecore.interop.gpushare.names import GPU_COUNT, GPU_MEM, Unit, bytes_of
from hivecore.interop.kubernetes.fields import Field

__all__ = ["CONFIG_MAP", "read_node", "read_unhealthy", "with_unhealthy"]

#: The ConfigMap that names a node's unhealthy cards is called so, and then the node's name.
CONFIG_MAP = "unhealthy-gpu-"
_MOST_CARDS = 256
_MOST_BYTES = 2**48
_MOST_ID = 2**31 - 1


def read_node(
    node: Mapping[str, Any],
    unit: Unit,
    *,
    unhealthy: Iterable[int] = (),
    cards: Iterable[int] | None = None,
) -> NodeDevices:
    """The cards of a node; none if it has no memory to share.

    :param node: the object of Kubernetes as plain data: ``aliyun.com/gpu-mem`` and ``gpu-count``
        of ``status.capacity``. A remainder of the division of memory by cards is on no card.
    :param unit: of gpu-mem, "MiB" or "GiB".
    :param unhealthy: cards that take no new pods, see `read_unhealthy`.
    :param cards: the memory of each card in the unit, where they differ; else all are equal.
    :raises ValueError: something is out of range, or the cards are not as many as the node says.
        The message has the path.
    :raises TypeError: something is of a wrong type.

    Source: gpushare-scheduler-extender, ``NewNodeInfo``.

    >>> from hivecore.interop.gpushare import read_node
    >>> node = {"status": {"capacity": {"aliyun.com/gpu-mem": 32552, "aliyun.com/gpu-count": 2}}}
    >>> [dict(card.amounts)["memory"] >> 20 for card in read_node(node, "MiB").devices]
    [16276, 16276]
    """
    scale = bytes_of(unit)
    capacity = Field(as_mapping(node, "node"))["status"]["capacity"]
    count, memory = (
        _amount(capacity[name], most)
        for name, most in ((GPU_COUNT, _MOST_CARDS), (GPU_MEM, _MOST_CARDS * _MOST_BYTES // scale))
    )
    if cards is None:
        sizes = [memory // count] * count if count and memory else []
    else:
        sizes = [
            as_int(size, "cards", 0, _MOST_BYTES // scale) for size in as_tuple(cards, "cards")
        ]
        if len(sizes) != count:
            raise ValueError(f"cards: {len(sizes)} of them, but {GPU_COUNT} is {count}")
    with capacity[GPU_MEM].named():
        made = NodeDevices(
            tuple(Device("gpu", i, {"memory": size * scale}) for i, size in enumerate(sizes))
        )
    return with_unhealthy(made, unhealthy)


def _amount(field: Field, most: int) -> int:
    return 0 if field.value is None else field.quantity(0, most)


def read_unhealthy(config_map: Mapping[str, Any]) -> tuple[int, ...]:
    """The cards that a ConfigMap ``unhealthy-gpu-NODE`` names: ``{"gpus": "0,2"}``.

    :param config_map: the object of Kubernetes as plain data.
    :raises ValueError: what stands between commas is no card.
    :raises TypeError: something is of a wrong type.

    Source: gpushare-scheduler-extender, ``getUnhealthyGPUs``, which takes every word that it
    cannot read for card 0.

    >>> from hivecore.interop.gpushare import read_unhealthy
    >>> read_unhealthy({"data": {"gpus": "0, 2"}})
    (0, 2)
    """
    gpus = Field(as_mapping(config_map, "config_map"))["data"]["gpus"]
    if not gpus.text().strip():
        return ()
    words = [Field(word.strip(), gpus.path) for word in gpus.text().split(",")]
    return tuple(word.integer_text(0, _MOST_ID) for word in words)


def with_unhealthy(inventory: NodeDevices, unhealthy: Iterable[int]) -> NodeDevices:
    """The inventory with just these cards unhealthy.

    :param unhealthy: cards; those that the node does not have, or no longer, have no effect.

    >>> from hivecore.devices import Device, NodeDevices
    >>> from hivecore.interop.gpushare import with_unhealthy
    >>> node = NodeDevices([Device("gpu", i, {}) for i in range(2)])
    >>> [card.healthy for card in with_unhealthy(node, [1]).devices]
    [True, False]
    """
    sick = {as_int(card, "unhealthy", 0, _MOST_ID) for card in as_tuple(unhealthy, "unhealthy")}
    devices = tuple(one.replace(healthy=one.minor not in sick) for one in inventory.devices)
    return inventory.replace(devices=devices)
