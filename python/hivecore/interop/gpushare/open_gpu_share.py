"""Several cards for one pod, as open-gpu-share has it: a number of them, and thousandths of each.

A card has 1000 thousandths; they stand for its memory. The cards of a pod are one text, "2-3-4"; a
card that stands there twice gives twice as much.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_int, as_mapping, as_tuple
from hivecore.devices import Device, DeviceAllocation, DeviceRequest, NodeDevices
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pods import BoundPod, has_ended, node_of, owner_name

__all__ = [
    "read_bound_pod",
    "read_cards",
    "read_node",
    "read_pod",
    "write_assignment",
    "write_cards",
]

_DOMAIN = "alibabacloud.com"
_COUNT = f"{_DOMAIN}/gpu-count"
_MILLI = f"{_DOMAIN}/gpu-milli"
_INDEX = f"{_DOMAIN}/gpu-index"
_MODEL = f"{_DOMAIN}/gpu-card-model"
_ASSUME_TIME = f"{_DOMAIN}/assume-time"
_CARD = 1000
_MOST_CARDS = 256
_MOST_ID = 2**31 - 1
_MOST_TIME = 2**63 - 1


def read_node(node: Mapping[str, Any]) -> NodeDevices:
    """The cards of a node, each with 1000 of memory.

    :param node: the object of Kubernetes as plain data: ``alibabacloud.com/gpu-count`` of its
        capacity, the label ``alibabacloud.com/gpu-card-model``.
    :raises ValueError: something is out of range. The message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> node = {"status": {"capacity": {"alibabacloud.com/gpu-count": "2"}}}
    >>> [card.amounts for card in open_gpu_share.read_node(node).devices]
    [(('memory', 1000),), (('memory', 1000),)]
    """
    document = Field(as_mapping(node, "node"))
    count = document["status"]["capacity"][_COUNT]
    cards = 0 if count.value is None else count.quantity(0, _MOST_CARDS)
    devices = tuple(Device("gpu", i, {"memory": _CARD}) for i in range(cards))
    return NodeDevices(devices, model=document["metadata"]["labels"][_MODEL].text())


def read_pod(pod: Mapping[str, Any]) -> DeviceRequest:
    """The cards that a pod asks for in its annotations; without any it needs nothing.

    A card may give several shares of one pod, as open-gpu-share has it: from card 0 on, each gives
    as many as it can. A single share is on the card that the policy chooses.

    Models that it names are not looked at: they are about nodes.

    :param pod: the object of Kubernetes as plain data.
    :raises ValueError: something is out of range. The message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> pod = {"metadata": {"name": "p", "annotations": {
    ...     "alibabacloud.com/gpu-count": "1", "alibabacloud.com/gpu-milli": "460"}}}
    >>> need, = open_gpu_share.read_pod(pod).needs
    >>> need.count, need.amounts
    (1, (('memory', 460),))
    """
    document = Field(as_mapping(pod, "pod"))
    annotations = document["metadata"]["annotations"]
    count, milli = _asked(annotations)
    if not count or not milli:
        return DeviceRequest(owner_name(document))
    wishes = {"repeat": True} if count > 1 and milli < _CARD else {}
    return DeviceRequest(owner_name(document), count, memory=milli, gpu_wishes=wishes)


def _asked(annotations: Field) -> tuple[int, int]:
    count, milli = annotations[_COUNT], annotations[_MILLI]
    return (
        0 if count.absent else count.integer_text(0, _MOST_CARDS),
        0 if milli.absent else milli.quantity(0, _CARD),
    )


def read_cards(text: str) -> tuple[int, ...]:
    """The cards in a text such as "2-3-4"; none in "".

    :raises ValueError: what stands between the dashes is no card.
    :raises TypeError: it is no string.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> open_gpu_share.read_cards("2-3-4")
    (2, 3, 4)
    """
    return _cards(Field(text, "text"))


def _cards(field: Field) -> tuple[int, ...]:
    words = field.text().split("-") if field.text() else []
    return tuple(Field(word, field.path).integer_text(0, _MOST_ID) for word in words)


def write_cards(cards: Iterable[int]) -> str:
    """The text of these cards.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> open_gpu_share.write_cards([2, 3, 4])
    '2-3-4'
    """
    return "-".join(str(as_int(one, "cards", 0, _MOST_ID)) for one in as_tuple(cards, "cards"))


def read_bound_pod(pod: Mapping[str, Any]) -> BoundPod | None:
    """What a restart has to recover of this pod; ``None``: nothing.

    :param pod: the object of Kubernetes as plain data.
    :raises ValueError: the cards are not as many as the pod asks for, or something is out of range.
        The message has the path.
    :raises TypeError: something is of a wrong type.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> pod = {"spec": {"nodeName": "n1"}, "metadata": {"name": "p", "annotations": {
    ...     "alibabacloud.com/gpu-count": "3", "alibabacloud.com/gpu-milli": "500",
    ...     "alibabacloud.com/gpu-index": "2-2-3"}}}
    >>> [(one.minor, one.amounts) for one in open_gpu_share.read_bound_pod(pod).allocations]
    [(2, (('memory', 1000),)), (3, (('memory', 500),))]
    """
    document = Field(as_mapping(pod, "pod"))
    annotations = document["metadata"]["annotations"]
    index = annotations[_INDEX]
    if not node_of(document) or has_ended(document) or index.absent:
        return None
    count, milli = _asked(annotations)
    cards = _cards(index)
    if len(cards) != count:
        raise index.error(f"{len(cards)} cards, the pod asks for {count}")
    if not milli:
        return None
    allocations = [
        DeviceAllocation("gpu", card, {"memory": times * milli})
        for card, times in sorted(Counter(cards).items())
    ]
    return BoundPod(owner_name(document), node_of(document), tuple(allocations))


def write_assignment(
    allocations: Iterable[DeviceAllocation], milli: int, now: int
) -> dict[str, str]:
    """The annotations of a pod that was just given cards.

    :param allocations: what the pod has.
    :param milli: thousandths that it asked for of each card; a multiple of it on one card is as
        many entries.
    :param now: the time in nanoseconds.
    :raises ValueError: the memory of a card is no multiple of it.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import DeviceAllocation
    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> cards = [DeviceAllocation("gpu", 2, {"memory": 1000})]
    >>> open_gpu_share.write_assignment(cards, 500, 7)
    {'alibabacloud.com/gpu-index': '2-2', 'alibabacloud.com/assume-time': '7'}
    """
    each = as_int(milli, "milli", 1, _CARD)
    cards: list[int] = []
    for one in as_tuple(allocations, "allocations"):
        if not isinstance(one, DeviceAllocation):
            raise TypeError(f"allocations must hold DeviceAllocation, not {type(one).__name__}")
        times, rest = divmod(dict(one.amounts).get("memory", 0), each)
        if one.type != "gpu" or rest or not times:
            raise ValueError(f"allocations: {one.type} {one.minor} gives no multiple of {each}")
        cards += [one.minor] * times
    time = as_int(now, "now", 0, _MOST_TIME)
    return {_INDEX: write_cards(cards), _ASSUME_TIME: str(time)}
