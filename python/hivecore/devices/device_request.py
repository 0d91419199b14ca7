"""What a pod asks of a node's devices."""

from collections.abc import Iterable
from functools import lru_cache
from inspect import Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from hivecore._arguments import as_choice, as_int, as_mapping, as_tuple, tuple_of
from hivecore._quantities import as_units
from hivecore._record import (
    Name,
    Record,
    RecordType,
    any_value,
    force_setattr,
    sorted_names,
    with_name,
    with_plain_types,
    within,
)
from hivecore.devices._pairs import (
    MOST,
    Amounts,
    AmountsLike,
)
from hivecore.devices.device import MOST_DEVICES, TYPES, OfType, as_type
from hivecore.devices.gpu_links import LinksWish
from hivecore.devices.label_expression import Selector, SelectorLike, as_selector

__all__ = ["SCOPES", "DeviceNeed", "DeviceRequest", "Scope"]

Scope = Literal["device", "pcie", "numa", "socket", "node"]
#: From the tightest to the widest.
SCOPES: tuple[Scope, ...] = ("device", "pcie", "numa", "socket", "node")


class _Counted(OfType, frozen=True):
    count: Annotated[int, within(1, MOST_DEVICES)] = 1
    amounts: Annotated[Amounts, any_value] = ()


class DeviceNeed(_Counted, frozen=True, kw_only=True):
    """Devices of one type.

    :param type: "gpu", "nic" (read as "rdma"), "fpga" or "host".
    :param count: how many; each gives the same.
    :param amounts: what each of them gives, by name, see `Device`; at least one amount. Of a GPU
        either "memory" or "memory_ratio", 100 at most, not both.
    :param every: instead of ``count``: all that the selectors let through, at least one.
    :param selector: what labels the devices must have: a mapping, or (key, value) pairs and
        `LabelExpression`; all must hold, and none matches every device.
    :param vf_selector: each device also gives a virtual function, of a group with these labels,
        written as in ``selector``; ``None``: no virtual function.
    :param exclusive: "device": only devices that are not in use; "pcie": and no other device of
        this type on their PCIe switches is in use. Later owners are kept away in the same way.
    :param repeat: a GPU may give several of them, which take bytes of its memory: as
        open-gpu-share has it, GPUs are taken in the order of their minors, each as often as it can,
        whatever the policy; not with ``every``, ``vf_selector``, ``exclusive``, ``scope``,
        ``preferred_scope`` or ``joint``.
    :param scope: the tightest scope around all of them must be this, or tighter.
    :param preferred_scope: nodes where it can be this, or tighter, come first.
    :raises ValueError: there are no amounts, a value is out of range, or arguments do not go
        together.
    :raises TypeError: an argument is of a wrong type.
    """

    every: bool = False
    selector: Annotated[Selector, as_selector] = ()
    vf_selector: Annotated[Selector, as_selector] | None = None
    exclusive: Literal["device", "pcie"] | None = None
    scope: Scope | None = None
    preferred_scope: Scope | None = None
    repeat: bool = False

    if TYPE_CHECKING:

        def __init__(
            self,
            type: str,
            count: int = 1,
            amounts: AmountsLike = (),
            *,
            every: bool = False,
            selector: SelectorLike = (),
            vf_selector: SelectorLike | None = None,
            exclusive: Literal["device", "pcie"] | None = None,
            scope: Scope | None = None,
            preferred_scope: Scope | None = None,
            repeat: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if not self.amounts:
            raise ValueError("amounts: a device gives something, or is not needed")
        amounts = dict(self.amounts)
        as_int(amounts.get("memory_ratio", 0), "amounts['memory_ratio']", 0, 100)
        if amounts.get("memory_ratio") and "memory" in amounts:
            raise ValueError("amounts: either 'memory' or 'memory_ratio', not both")
        if self.every and self.count != 1:
            raise ValueError(f"count={self.count}: not together with every=True")
        if self.repeat:
            self._check_repeat()

    def _check_repeat(self) -> None:
        if "memory" not in dict(self.amounts) or self.type != "gpu":
            raise ValueError("repeat=True: only for GPUs of which bytes of 'memory' are needed")
        others = {
            "every": self.every,
            "exclusive": self.exclusive,
            "scope": self.scope,
            "preferred_scope": self.preferred_scope,
            "vf_selector": self.vf_selector is not None,
        }
        for name, value in others.items():
            if value:
                raise ValueError(f"repeat=True: not together with {name}")

    @property
    def shared(self) -> bool:
        """Whether others may be on these GPUs, too: less than all memory, or bytes, are needed."""
        return dict(self.amounts).get("memory_ratio", 0) < 100


_WISHES = ("selector", "vf_selector", "exclusive", "scope", "preferred_scope", "every", "repeat")
_WISHED = frozenset(("gpu_wishes", "nic_wishes", "fpga_wishes"))


class _Counting(RecordType):
    """Makes requests of numbers of devices, which become needs and are no fields themselves."""

    def __call__(cls, name: Any, gpus: Any = 0, *, needs: Any = (), **given: Any) -> Any:
        counts = {each: given.pop(each) for each in _COUNTS.intersection(given)} if given else {}
        try:
            needs_of = _known_needs if _WISHED.isdisjoint(counts) else _needs_of
            counted = needs_of(gpus, **counts)
        except TypeError:  # an argument may be wrong, and no key of a cache
            counted = _needs_of(gpus, **counts)
        if counted:
            needs = (*as_tuple(needs, "needs"), *counted) if needs else counted
        return super().__call__(name=name, needs=needs, **given)

    @property
    def __signature__(cls) -> Signature:
        name, *others = super().__signature__.parameters.values()
        counts = with_plain_types(signature(_needs_of), _needs_of).parameters.values()
        return Signature([name.replace(kind=name.POSITIONAL_OR_KEYWORD), *counts, *others])


class _Remembering:
    """What a cluster remembers of a request; it is no part of its value."""

    __slots__ = ("_query",)


def _as_needs(value: Any, name: str) -> tuple[DeviceNeed, ...]:
    needs = tuple_of(value, name, DeviceNeed)
    if len(needs) < 2 and all(need.type != "host" for need in needs):
        return needs
    types = [need.type for need in needs]
    if len(set(types)) != len(types):
        raise ValueError("needs: a type is asked for twice")
    for need in needs:
        if need.type == "host" and (need.count != 1 or need.every):
            raise ValueError("needs: a node has one host")
    return tuple(sorted(needs, key=lambda need: TYPES.index(need.type)))


def _as_joint(value: Any, name: str) -> tuple[str, ...]:
    types = tuple([as_type(type, name, TYPES[:3]) for type in as_tuple(value, name)])
    if len(set(types)) != len(types):
        raise ValueError(f"{name}={types}: a type stands there twice")
    return types


class DeviceRequest(_Remembering, Record, frozen=True, kw_only=True, metaclass=_Counting):
    """The devices of one pod, all on one node.

    :param name: the owner.
    :param gpus: number of GPUs; whole ones, unless a share is given.
    :param core: percent of each GPU's compute.
    :param memory: bytes of each GPU, also as "20Gi".
    :param memory_percent: percent of each GPU's memory.
    :param nics: number of NICs, or "all".
    :param nic_percent: of each NIC.
    :param fpgas: number of FPGAs, or "all".
    :param fpga_percent: of each FPGA.
    :param cpu_milli: thousandths of a processor.
    :param host_memory: bytes of the node's memory, also as "64Gi".
    :param gpu_wishes: further arguments of the GPUs' `DeviceNeed`, such as
        ``{"scope": "pcie"}``; ``nic_wishes`` and ``fpga_wishes`` alike.
    :param needs: `DeviceNeed` of types that no other argument asks for.
    :param joint: types to choose together, near to devices of the first type. GPUs count as the
        first type wherever they are listed. Of each other type there is one device for every PCIe
        switch with chosen devices of the first type, the nearest, as far as there are enough, and
        never fewer than asked. A type listed before the GPUs gets exactly as many as asked; with
        ``same_pcie`` the GPUs are then on no more switches than that.
    :param same_pcie: the joint types have to be on exactly the same PCIe switches.
    :param partition: whole GPUs must be one partition of the fabric: "restricted": of the best
        score that the machine has for so many; "best-effort": of the best score that is free.
        ``None``: "best-effort" with ``bandwidth`` or ``links``, else as the node says.
    :param bandwidth: the least bandwidth of a ring in the partition, in bytes per second.
    :param links: how links such as NVLink must join the GPUs, if there are several: "all": each two
        have a link of their own; "island": over links among themselves each reaches the others.
    :param isolation_provider: the one that the node must have if GPUs are shared; "": anything.
    :param models: of GPUs that will do; none: all.
    :param priority: of the owner; where owners have to go, lower ones are named first.
    :raises ValueError: something is out of range, or does not go together.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import DeviceRequest
    >>> request = DeviceRequest("train", gpus=4, nics=1, joint=("gpu", "nic"), same_pcie=True)
    >>> [(need.type, need.count, need.amounts) for need in request.needs]
    [('gpu', 4, (('core', 100), ('memory_ratio', 100))), ('rdma', 1, (('share', 100),))]
    """

    name: Name
    needs: Annotated[tuple[DeviceNeed, ...], _as_needs] = ()
    joint: Annotated[tuple[str, ...], _as_joint] = ()
    same_pcie: bool = False
    partition: Literal["restricted", "best-effort"] | None = None
    bandwidth: Annotated[int, within(0, 2**62)] | None = None
    links: LinksWish | None = None
    isolation_provider: str = ""
    models: Annotated[tuple[str, ...], sorted_names] = ()
    priority: Annotated[int, within(-(2**31), 2**31 - 1)] = 0

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            gpus: int = 0,
            *,
            core: int | None = None,
            memory: int | str | None = None,
            memory_percent: int | None = None,
            nics: int | Literal["all"] = 0,
            nic_percent: int = 100,
            fpgas: int | Literal["all"] = 0,
            fpga_percent: int = 100,
            cpu_milli: int = 0,
            host_memory: int | str = 0,
            gpu_wishes: Any = (),
            nic_wishes: Any = (),
            fpga_wishes: Any = (),
            needs: Iterable[DeviceNeed] = (),
            joint: Iterable[str] = (),
            same_pcie: bool = False,
            partition: Literal["restricted", "best-effort"] | None = None,
            bandwidth: int | None = None,
            links: LinksWish | None = None,
            isolation_provider: str = "",
            models: Iterable[str] = (),
            priority: int = 0,
        ) -> None: ...

    def __post_init__(self) -> None:
        self._check()
        if self.joint or self.same_pcie:
            self._choose_joint()
        if self.links is not None and (need := self.need("gpu")) is not None and need.count == 1:
            force_setattr(self, "links", None)
        if (self.partition, self.bandwidth, self.links) != (None, None, None):
            need = self.need("gpu")
            if need is None or need.shared:
                raise ValueError("partition, bandwidth, links: only whole GPUs are in a partition")
            force_setattr(self, "partition", self.partition or "best-effort")

    def need(self, type: str) -> DeviceNeed | None:
        """What it needs of one type; ``None``: nothing."""
        type = as_type(type, "type")
        for need in self.needs:
            if need.type == type:
                return need
        return None

    @property
    def content(self) -> tuple[object, ...]:
        """All fields but the name and the priority: equal contents fit on the same devices."""
        return (
            self.needs,
            self.joint,
            self.same_pcie,
            self.partition,
            self.bandwidth,
            self.links,
            self.isolation_provider,
            self.models,
        )

    def remember(self, query: object) -> None:
        """Keep what a cluster will want to know when it is asked again."""
        _put_query(self, query)

    def replace(self, **changes: Any) -> Self:
        """The same request with other values of some fields: of those that it has."""
        other = with_name(self, changes)
        if other is None:
            return Record.replace(self, **changes)
        query = getattr(self, "_query", None)
        if query is not None:
            _put_query(other, query)
        return other

    def _choose_joint(self) -> None:
        """Leave out the joint types of which there is nothing to choose.

        Of one alone it is still known that others were to follow it.
        """
        types = self.joint
        needs = [need for type in types if (need := self.need(type)) and not need.every]
        if len(needs) > 1 and any(need.repeat for need in needs):
            raise ValueError(f"joint={types}: not of GPUs with repeat=True")
        if len(needs) < 2:
            if self.same_pcie and not types:
                raise ValueError("same_pcie=True: joint must say for which types")
            force_setattr(self, "same_pcie", False)
        force_setattr(self, "joint", tuple([need.type for need in needs]))


#: How what is remembered is written past the frozen fields.
_put_query = _Remembering.__dict__["_query"].__set__


def _gpu_amounts(
    core: int | None, memory: int | str | None, memory_percent: int | None
) -> dict[str, int]:
    if core is None and memory is None and memory_percent is None:
        return {"core": 100, "memory_ratio": 100}
    if memory is None and memory_percent is None:
        raise ValueError("core: needs memory or memory_percent beside it")
    amounts = {}
    if core is not None:
        amounts["core"] = as_int(core, "core", 0, 100)
    if memory is not None:
        amounts["memory"] = as_units(memory, "memory", 0, MOST)
    if memory_percent is not None:
        amounts["memory_ratio"] = as_int(memory_percent, "memory_percent", 1, 100)
    return amounts


def _as_wishes(wishes: Any, name: str) -> dict[str, Any]:
    checked = dict(as_mapping(dict(wishes) if type(wishes) is tuple else wishes, name))
    for wish in checked:
        as_choice(wish, name, _WISHES)
    return checked


def _devices(type: str, name: str, count: object, share: int, wishes: Any) -> list[DeviceNeed]:
    every = isinstance(count, str) and bool(as_choice(count, f"{name}s", ("all",)))
    number = 1 if every else as_int(count, f"{name}s", 0, MOST_DEVICES)
    if not number:
        return []
    amounts = {"share": as_int(share, f"{name}_percent", 1, MOST)}
    wished = {"every": every} | _as_wishes(wishes, f"{name}_wishes")
    return [DeviceNeed(type, number, amounts, **wished)]


def _needs_of(
    gpus: int = 0,
    *,
    core: int | None = None,
    memory: int | str | None = None,
    memory_percent: int | None = None,
    nics: int | Literal["all"] = 0,
    nic_percent: int = 100,
    fpgas: int | Literal["all"] = 0,
    fpga_percent: int = 100,
    cpu_milli: int = 0,
    host_memory: int | str = 0,
    gpu_wishes: Any = (),
    nic_wishes: Any = (),
    fpga_wishes: Any = (),
) -> tuple[DeviceNeed, ...]:
    """The needs by the arguments of a `DeviceRequest` that count, and the wishes."""
    shares = core, memory, memory_percent
    needs: list[DeviceNeed] = []
    if as_int(gpus, "gpus", 0, MOST_DEVICES):
        amounts = _gpu_amounts(*shares)
        needs.append(DeviceNeed("gpu", gpus, amounts, **_as_wishes(gpu_wishes, "gpu_wishes")))
    elif any(share is not None for share in shares):
        raise ValueError("gpus=0: a share of a GPU takes at least one")
    needs += _devices("rdma", "nic", nics, nic_percent, nic_wishes)
    needs += _devices("fpga", "fpga", fpgas, fpga_percent, fpga_wishes)
    host = {
        "cpu": as_int(cpu_milli, "cpu_milli", 0, MOST),
        "memory": as_units(host_memory, "host_memory", 0, MOST),
    }
    if any(host.values()):
        needs.append(DeviceNeed("host", 1, host))
    return tuple(needs)


#: Clusters have few kinds of pods, and a need takes 5 us to check.
_known_needs = lru_cache(1024, typed=True)(_needs_of)
_COUNTS = frozenset(signature(_needs_of).parameters)
