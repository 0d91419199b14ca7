"""The shares that GPUs of some models can be cut into: each is one of a few templates."""

from dataclasses import dataclass

from hivecore._arguments import as_choice, as_name, as_tuple
from hivecore.devices._pairs import Amounts, AmountsLike, as_amounts
from hivecore.devices.device import AMOUNTS

__all__ = ["ShareTemplate", "ShareTemplates"]


@dataclass(frozen=True, slots=True, init=False)
class ShareTemplate:
    """A share of one GPU that its driver knows by name.

    :param name: what the driver calls it.
    :param amounts: what it gives, by name, see `Device`; all of it, each at least 1.
    """

    name: str
    amounts: Amounts

    def __init__(self, name: str, amounts: AmountsLike) -> None:
        set_field = object.__setattr__
        set_field(self, "name", as_name(name, "name"))
        given = as_amounts(amounts, "amounts", AMOUNTS["gpu"], 1)
        if not given:
            raise ValueError("amounts: a template gives something")
        set_field(self, "amounts", given)


@dataclass(frozen=True, slots=True)
class ShareTemplates:
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

    templates: tuple[ShareTemplate, ...] = ()
    matched: tuple[str, ...] = ("npu_core",)

    def __post_init__(self) -> None:
        templates = as_tuple(self.templates, "templates")
        for one in templates:
            if not isinstance(one, ShareTemplate):
                raise TypeError(f"templates must hold ShareTemplate, not {type(one).__name__}")
        names = {one.name for one in templates}
        if len(names) != len(templates):
            raise ValueError("templates: two have the same name")
        matched = as_tuple(self.matched, "matched")
        named = {as_choice(one, "matched", AMOUNTS["gpu"]) for one in matched}
        set_field = object.__setattr__
        set_field(self, "templates", tuple(sorted(templates, key=lambda one: one.name)))
        set_field(self, "matched", tuple(name for name in AMOUNTS["gpu"] if name in named))
