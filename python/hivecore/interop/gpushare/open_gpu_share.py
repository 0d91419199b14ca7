"""open-gpu-share's format, in which a pod may use several cards, in thousandths of each.

The 1000 thousandths of a card stand for its memory. A pod's cards are one text, "2-3-4"; a card
that is listed twice gives twice as much.
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
    """Return the cards of a node, each with 1000 units of memory.

    :param node: the Kubernetes object as plain data: ``alibabacloud.com/gpu-count`` in its
        capacity, and the label ``alibabacloud.com/gpu-card-model``.
    :raises ValueError: a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.

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
    """Return a pod's request for cards, from its annotations; without them it asks for nothing.

    As in open-gpu-share, a card may give several shares to a pod: from card 0 on, each gives as
    many as it can. For a single share the policy chooses the card. Models in the annotations are
    ignored, as they restrict nodes.

    :param pod: the Kubernetes object as plain data.
    :raises ValueError: a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.

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
    """Return the cards in a text such as "2-3-4"; none in "".

    :raises ValueError: a part of the text is not a card number.
    :raises TypeError: it is not a string.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> open_gpu_share.read_cards("2-3-4")
    (2, 3, 4)
    """
    return _cards(Field(text, "text"))


def _cards(field: Field) -> tuple[int, ...]:
    words = field.text().split("-") if field.text() else []
    return tuple(Field(word, field.path).integer_text(0, _MOST_ID) for word in words)


def write_cards(cards: Iterable[int]) -> str:
    """Return these cards as a text.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> open_gpu_share.write_cards([2, 3, 4])
    '2-3-4'
    """
    return "-".join(str(as_int(card, "cards", 0, _MOST_ID)) for card in as_tuple(cards, "cards"))


def read_bound_pod(pod: Mapping[str, Any]) -> BoundPod | None:
    """Return the cards of a bound pod, to recover them after a restart; ``None`` if there are none.

    :param pod: the Kubernetes object as plain data.
    :raises ValueError: the number of cards is not what the pod asks for, or a value is out of
        range. The message has the path.
    :raises TypeError: a field has a wrong type.

    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> pod = {"spec": {"nodeName": "n1"}, "metadata": {"name": "p", "annotations": {
    ...     "alibabacloud.com/gpu-count": "3", "alibabacloud.com/gpu-milli": "500",
    ...     "alibabacloud.com/gpu-index": "2-2-3"}}}
    >>> [(card.minor, card.amounts) for card in open_gpu_share.read_bound_pod(pod).allocations]
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
    """Return the annotations of a pod that was just given cards.

    :param allocations: the pod's cards.
    :param milli: thousandths that it asked for of each; a card that gives a multiple is listed as
        often.
    :param now: the time in nanoseconds.
    :raises ValueError: the memory of a card is not a multiple of ``milli``.
    :raises TypeError: an argument has a wrong type.

    >>> from hivecore.devices import DeviceAllocation
    >>> from hivecore.interop.gpushare import open_gpu_share
    >>> cards = [DeviceAllocation("gpu", 2, {"memory": 1000})]
    >>> open_gpu_share.write_assignment(cards, 500, 7)
    {'alibabacloud.com/gpu-index': '2-2', 'alibabacloud.com/assume-time': '7'}
    """
    each = as_int(milli, "milli", 1, _CARD)
    cards: list[int] = []
    for allocation in as_tuple(allocations, "allocations"):
        if not isinstance(allocation, DeviceAllocation):
            raise TypeError(
                f"allocations must hold DeviceAllocation, not {type(allocation).__name__}"
            )
        times, rest = divmod(dict(allocation.amounts).get("memory", 0), each)
        if allocation.type != "gpu" or rest or not times:
            raise ValueError(
                f"allocations: {allocation.type} {allocation.minor} gives no multiple of {each}"
            )
        cards += [allocation.minor] * times
    time = as_int(now, "now", 0, _MOST_TIME)
    return {_INDEX: write_cards(cards), _ASSUME_TIME: str(time)}
