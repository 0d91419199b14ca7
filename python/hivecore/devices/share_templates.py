"""The shares that GPUs of some models can be cut into: each is one of a few templates."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from hivecore._arguments import as_choice, as_tuple, tuple_of
from hivecore._record import Name, Record
from hivecore.devices._pairs import Amounts, AmountsLike, as_amounts
from hivecore.devices.device import AMOUNTS

__all__ = ["ShareTemplate", "ShareTemplates"]


def _share(value: Any, name: str) -> Amounts:
    amounts = as_amounts(value, name, AMOUNTS["gpu"], 1)
    if not amounts:
        raise ValueError(f"{name}: a template gives something")
    return amounts


class ShareTemplate(Record, frozen=True):
    """A share of one GPU that its driver knows by name.

    :param name: what the driver calls it.
    :param amounts: what it gives, by name, see `Device`; all of it, each at least 1.
    """

    name: Name
    amounts: Annotated[Amounts, _share]

    if TYPE_CHECKING:

        def __init__(self, name: str, amounts: AmountsLike) -> None: ...

    def __post_init__(self) -> None:
        self._check()


def _by_name(value: Any, name: str) -> tuple[ShareTemplate, ...]:
    templates = tuple_of(value, name, ShareTemplate)
    if len({template.name for template in templates}) != len(templates):
        raise ValueError(f"{name}: two have the same name")
    return tuple(sorted(templates, key=lambda template: template.name))


def _names_of_amounts(value: Any, name: str) -> tuple[str, ...]:
    names = {as_choice(amount, name, AMOUNTS["gpu"]) for amount in as_tuple(value, name)}
    return tuple([amount for amount in AMOUNTS["gpu"] if amount in names])


class ShareTemplates(Record, frozen=True):
    """The templates of the GPUs of one node.

    A request for shares that names one of ``matched`` gets one that gives exactly what it asks of
    each GPU; where none does, the node cannot serve it. Where several do, any share will do, and
    none of them is named. Other requests do not care.

    :param templates: the templates; kept by name. None: all such requests are refused.
    :param matched: names of the amounts of GPUs that say that a share is meant to be a template.
    :raises ValueError: two templates have the same name, or an amount is none of a GPU.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import DeviceCluster, DeviceRequest, DeviceNeed
    >>> from hivecore.devices import Device, NodeDevices, ShareTemplate, ShareTemplates
    >>> quarter = {"memory": 6 << 30, "npu_core": 2, "npu_cpu": 2}
    >>> npu = Device("gpu", 0, {"memory": 24 << 30, "npu_core": 8, "npu_cpu": 7})
    >>> node = NodeDevices([npu], templates=ShareTemplates([ShareTemplate("vir02", quarter)]))
    >>> cluster = DeviceCluster({"n0": node})
    >>> decision = cluster.schedule(DeviceRequest("job", needs=[DeviceNeed("gpu", 1, quarter)]))
    >>> decision.placement[0].template
    'vir02'
    >>> odd = DeviceNeed("gpu", 1, quarter | {"npu_cpu": 1})
    >>> cluster.schedule(DeviceRequest("odd", needs=[odd])).reason
    '1 node: its GPUs have no template for such a share'

    Source: Koordinator's GPU shared resource templates.
    """

    templates: Annotated[tuple[ShareTemplate, ...], _by_name] = ()
    matched: Annotated[tuple[str, ...], _names_of_amounts] = ("npu_core",)

    if TYPE_CHECKING:

        def __init__(
            self, templates: Iterable[ShareTemplate] = (), matched: Iterable[str] = ("npu_core",)
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
