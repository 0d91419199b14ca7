"""What a `DeviceCluster` answers when it is asked for devices."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from hivecore._devices import Plan
from hivecore._record import Record, force_setattr
from hivecore._stateful import counted
from hivecore.decisions import Outcome, Refusal
from hivecore.devices.device import TYPES
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.feasibility import CODES, REASONS
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.proof import check_placement

__all__ = ["DeviceDecision"]


class DeviceDecision(Record, frozen=True, eq=False, gc=True):
    """What a pod would get now: a proposal of `DeviceCluster.schedule`, until it is committed.

    :ivar node: the node that it would be on; "": it waits.
    :ivar counts: how many nodes cannot serve it for which code, the most hopeful code last; empty
        when it binds.
    :ivar victims: the owners that have to be released first; only where ``preemptible`` owners
        were given.
    :ivar reservation: the reservation that it would use; "": none.
    :ivar impossible: whether it waits and no node would serve it idle and healthy.

    >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
    >>> cluster = DeviceCluster({"n0": NodeDevices.uniform(gpus=2)})
    >>> decision = cluster.schedule(DeviceRequest("train", gpus=1))
    >>> decision.outcome, decision.node, [one.minor for one in decision.placement]
    ('bind', 'n0', [0])
    >>> cluster.schedule(DeviceRequest("big", gpus=3)).reason
    '1 node: too few devices of a type'
    """

    _request: DeviceRequest | tuple[DeviceRequest, str]
    node: str
    counts: tuple[tuple[str, int], ...]
    _plan: Any
    _cluster: Any = None
    _inventory: NodeDevices | None = None
    _placement: tuple[DeviceAllocation, ...] | None = None
    victims: tuple[str, ...] = ()
    reservation: str = ""
    _of_all: bool = True  # see `check_placement`
    _mark: object = None  # that of its node in the cluster
    impossible: bool = False

    @property
    def outcome(self) -> Outcome:
        """What to do: to "bind" is to commit it; to "preempt" is to release the victims, then to
        ask again; "wait": no node serves it now.
        """
        return "wait" if self._plan is None else "preempt" if self.victims else "bind"

    @property
    def request(self) -> DeviceRequest:
        """The request that was decided on."""
        request = self._request
        if isinstance(request, tuple):  # like that of others, for this owner
            request = request[0].replace(name=request[1])
            force_setattr(self, "_request", request)
        return request

    @property
    def placement(self) -> tuple[DeviceAllocation, ...]:
        """What of which devices, by type and minor; empty when it waits."""
        if self._placement is None:
            placement: tuple[DeviceAllocation, ...] = self._cluster._placed(
                self._plan, self._inventory
            )
            force_setattr(self, "_placement", placement)
            return placement
        return self._placement

    @property
    def minors(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """By type the numbers of the devices, ascending: what is quicker to say than how much of
        each; empty when it waits.
        """
        plan = self._plan
        if isinstance(plan, Plan):
            return plan.minors(TYPES)
        by_type: dict[str, list[int]] = {}
        for allocation in self.placement:
            by_type.setdefault(allocation.type, []).append(allocation.minor)
        return tuple([(type, tuple(sorted(minors))) for type, minors in by_type.items()])

    @property
    def reason(self) -> str:
        """Why the request waits: for victims, or what the nodes lack; "" if it is bound."""
        if self.outcome == "bind":
            return ""
        if self.victims:
            return f"waits for {', '.join(map(repr, self.victims))} to leave node {self.node!r}"
        if not self.counts:
            return "there are no nodes"
        return "; ".join(
            f"{counted(nodes, 'node')}: {REASONS[code]}" for code, nodes in self.counts
        )

    @property
    def refusal(self) -> Refusal | None:
        """Why it waits, by what came nearest; ``None``: it does not."""
        if self.outcome != "wait":
            return None
        code = self.counts[-1][0] if self.counts else CODES[1]
        return Refusal("devices", code, self.reason)

    def verify(self, inventory: NodeDevices, held: Iterable[DeviceAllocation] = ()) -> None:
        """Check the placement against the rules, from the inventory alone.

        :param inventory: the devices of the node.
        :param held: what others have on the node, without the reservation that the request uses.
        :raises CertificateError: the placement breaks a rule, which the message names.
        :raises ValueError: the outcome is not "bind".

        The check is plain Python and shares no code with the search. A request for every device of
        a type must get all that suit it; if it was limited to some NUMA nodes or to a restricted
        reservation, some are enough. Cost: O(devices * held).
        """
        if self.outcome != "bind":
            raise ValueError(f"decision.outcome must be 'bind', not {self.outcome!r}")
        check_placement(self.request, self.placement, inventory, held, of_all=self._of_all)

    def __reduce__(self) -> tuple[Any, ...]:
        """By value, of no cluster: it fits wherever its names mean the same."""
        plan = None if self._plan is None else _LoosePlan(self._plan.idle)
        loose = self.request, self.node, self.counts, plan, None, None, self.placement
        other = self.victims, self.reservation, self._of_all, None, self.impossible
        return DeviceDecision, loose + other

    def __copy__(self) -> Self:
        make, fields = self.__reduce__()
        return make(*fields)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"DeviceDecision({self.outcome!r}, {self.request.name!r}, node={self.node!r})"


class _LoosePlan(NamedTuple):
    """The plan of a decision of no cluster."""

    idle: bool
