"""The amounts of one device that an owner has."""

from typing import TYPE_CHECKING, Literal

from hivecore.devices._pairs import AmountsLike
from hivecore.devices.device import Numbered, VirtualFunction

__all__ = ["DeviceAllocation"]


class DeviceAllocation(Numbered, frozen=True):
    """A device, and its amounts that are allocated.

    :param type: "gpu", "rdma", "fpga" or "host".
    :param minor: the device's number.
    :param amounts: the allocated amounts, by name, see `Device`.
    :param function: the virtual function; ``None``: none was requested.
    :param exclusive: "device": no other owner may use the device; "pcie": nor any other device of
        the type on its PCIe switch.
    :param template: the template of a share of a GPU, see `ShareTemplates`; "": there is none.
    """

    function: VirtualFunction | None = None
    exclusive: Literal["device", "pcie"] | None = None
    template: str = ""

    if TYPE_CHECKING:

        def __init__(
            self,
            type: str,
            minor: int,
            amounts: AmountsLike,
            function: VirtualFunction | None = None,
            exclusive: Literal["device", "pcie"] | None = None,
            template: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.template and self.type != "gpu":
            raise ValueError(f"template={self.template!r}: only GPUs have any")
