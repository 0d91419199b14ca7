"""What an owner has of one device."""

from dataclasses import dataclass
from typing import Literal

from hivecore._arguments import as_choice, as_int, as_text
from hivecore.devices._pairs import Amounts, AmountsLike, as_amounts
from hivecore.devices.device import AMOUNTS, TYPES, VirtualFunction

__all__ = ["DeviceAllocation"]


@dataclass(frozen=True, slots=True, init=False)
class DeviceAllocation:
    """A device, and how much of it.

    :param type: "gpu", "rdma", "fpga" or "host".
    :param minor: the device's number.
    :param amounts: what it gives, by name, see `Device`.
    :param function: the virtual function; ``None``: none was asked for.
    :param exclusive: "device": nobody else may use the device; "pcie": nor any other of the type on
        its PCIe switch.
    :param template: of a share of a GPU, see `ShareTemplates`; "": it is of none.
    """

    type: str
    minor: int
    amounts: Amounts
    function: VirtualFunction | None
    exclusive: Literal["device", "pcie"] | None
    template: str

    def __init__(
        self,
        type: str,
        minor: int,
        amounts: AmountsLike,
        function: VirtualFunction | None = None,
        exclusive: Literal["device", "pcie"] | None = None,
        template: str = "",
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "type", as_choice(type, "type", TYPES))
        set_field(self, "minor", as_int(minor, "minor", 0, 2**31 - 1))
        set_field(self, "amounts", as_amounts(amounts, "amounts", AMOUNTS[self.type]))
        given: object = function
        if given is not None and not isinstance(given, VirtualFunction):
            kind = given.__class__.__name__
            raise TypeError(f"function must be a VirtualFunction, not {kind}")
        set_field(self, "function", given)
        if exclusive is not None:
            exclusive = as_choice(exclusive, "exclusive", ("device", "pcie"))  # type: ignore[assignment]
        set_field(self, "exclusive", exclusive)
        set_field(self, "template", as_text(template, "template"))
        if self.template and self.type != "gpu":
            raise ValueError(f"template={self.template!r}: only GPUs have any")
