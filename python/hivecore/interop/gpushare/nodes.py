"""Reads a gpushare node: its number of cards and their total memory."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_int, as_mapping, as_tuple
from hivecore.devices import Device, NodeDevices
from hivecore.interop.gpushare.names import GPU_COUNT, GPU_MEM, Unit, bytes_of
from hivecore.interop.kubernetes.fields import Field

__all__ = ["CONFIG_MAP", "read_node", "read_unhealthy", "with_unhealthy"]

#: The ConfigMap with a node's unhealthy cards has this name, followed by the node's.
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
    """Return the cards of a node; none if it has no memory to share.

    :param node: the Kubernetes object as plain data. ``aliyun.com/gpu-mem`` in ``status.capacity``
        is divided by ``gpu-count``, rounded down.
    :param unit: of gpu-mem, "MiB" or "GiB".
    :param unhealthy: cards that take no new pods, see `read_unhealthy`.
    :param cards: the memory of each card in the unit; by default all are equal.
    :raises ValueError: a value is out of range, or the number of cards is not the node's. The
        message has the path.
    :raises TypeError: a field has a wrong type.

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
        inventory = NodeDevices(
            tuple(Device("gpu", i, {"memory": size * scale}) for i, size in enumerate(sizes))
        )
    return with_unhealthy(inventory, unhealthy)


def _amount(field: Field, most: int) -> int:
    return 0 if field.value is None else field.quantity(0, most)


def read_unhealthy(config_map: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the cards in a ConfigMap ``unhealthy-gpu-NODE``: ``{"gpus": "0,2"}``.

    :param config_map: the Kubernetes object as plain data.
    :raises ValueError: a part of the text is not a card number.
    :raises TypeError: a field has a wrong type.

    Source: gpushare-scheduler-extender, ``getUnhealthyGPUs``, which takes unreadable words as card
    0.

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
    """Return the inventory with exactly these cards unhealthy.

    :param unhealthy: card numbers; those that the node lacks have no effect.

    >>> from hivecore.devices import Device, NodeDevices
    >>> from hivecore.interop.gpushare import with_unhealthy
    >>> node = NodeDevices([Device("gpu", i, {}) for i in range(2)])
    >>> [card.healthy for card in with_unhealthy(node, [1]).devices]
    [True, False]
    """
    sick = {as_int(card, "unhealthy", 0, _MOST_ID) for card in as_tuple(unhealthy, "unhealthy")}
    devices = tuple(
        device.replace(healthy=device.minor not in sick) for device in inventory.devices
    )
    return inventory.replace(devices=devices)
