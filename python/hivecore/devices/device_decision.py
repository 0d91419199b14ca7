"""What a `DeviceCluster` answers when it is asked for devices."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, final

from hivecore._devices import Maker, Plan
from hivecore.decisions import Outcome, Refusal
from hivecore.devices.device import TYPES
from hivecore.devices.device_allocation import DeviceAllocation
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.feasibility import CODES, REASONS
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.proof import check_placement

__all__ = ["DeviceDecision", "made_decision", "maker"]


@final
class DeviceDecision:
    """What a pod would get now: a proposal of `DeviceCluster.schedule`, until it is committed.

    >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
    >>> cluster = DeviceCluster({"n0": NodeDevices.uniform(gpus=2)})
    >>> decision = cluster.schedule(DeviceRequest("train", gpus=1))
    >>> decision.outcome, decision.node, [one.minor for one in decision.placement]
    ('bind', 'n0', [0])
    >>> cluster.schedule(DeviceRequest("big", gpus=3)).reason
    '1 node: too few devices of a type'
    """

    __slots__ = {  # noqa: RUF023 - the order in which they are read
        "outcome": '"bind": commit it. "preempt": release the victims, then ask again. "wait": no '
        "node serves it now.",
        "node": 'The node that it would be on; "": it waits.',
        "victims": "The owners that have to be released first; only where it was said who may be.",
        "reservation": 'The reservation that it would use; "": none.',
        "counts": "How many nodes cannot serve it for which code, the most hopeful code last; "
        "empty when it binds.",
        "impossible": "Whether it waits and no node would serve it idle and healthy.",
        "_request": None,
        "_plan": None,
        "_cluster": None,
        "_inventory": None,
        "_of_all": None,
        "_placement": None,
        "_mark": None,
    }

    outcome: Outcome
    node: str
    victims: tuple[str, ...]
    reservation: str
    counts: tuple[tuple[str, int], ...]
    impossible: bool
    if TYPE_CHECKING:
        _request: DeviceRequest | tuple[DeviceRequest, str]
        _plan: Any
        _cluster: Any
        _inventory: NodeDevices | None
        _of_all: bool
        _placement: tuple[DeviceAllocation, ...] | None
        _mark: object

    def __init__(self) -> None:
        """Not for callers: `DeviceCluster.schedule` makes decisions."""
        raise TypeError("a DeviceDecision is made by DeviceCluster.schedule")

    @property
    def request(self) -> DeviceRequest:
        """The request that was decided on."""
        request = self._request
        if isinstance(request, tuple):  # like that of others, for this owner
            request = request[0].replace(name=request[1])
            _set_request(self, request)
        return request

    @property
    def placement(self) -> tuple[DeviceAllocation, ...]:
        """What of which devices, by type and minor; empty when it waits."""
        if self._placement is None:
            placement: tuple[DeviceAllocation, ...] = self._cluster._placed(
                self._plan, self._inventory
            )
            _set_placement(self, placement)
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
        """Why it waits, in one line; empty when it does not."""
        if self.outcome == "bind":
            return ""
        if self.victims:
            return f"waits for {', '.join(map(repr, self.victims))} to leave node {self.node!r}"
        if not self.counts:
            return "there are no nodes"
        return "; ".join(
            f"{nodes} node{'s' * (nodes > 1)}: {REASONS[code]}" for code, nodes in self.counts
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

        :param inventory: of the node.
        :param held: what others have on the node; the reservation that it uses is none of them.
        :raises CertificateError: it breaks a rule, which the message names.
        :raises ValueError: it is not a decision to bind.

        The check is plain Python and shares nothing with what decided. A request for every device
        of a type, on some NUMA nodes only or through a restricted reservation, may have some of the
        node's. Cost: O(devices * held).
        """
        if self.outcome != "bind":
            raise ValueError(f"decision.outcome must be 'bind', not {self.outcome!r}")
        check_placement(self.request, self.placement, inventory, held, of_all=self._of_all)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name}: a DeviceDecision does not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: a DeviceDecision does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        """By value, of no cluster: it fits wherever its names mean the same."""
        idle = self._plan is not None and self._plan.idle
        return _loose_decision, (
            self.request,
            self.node,
            self.counts,
            self.placement,
            idle,
            self.victims,
            self.reservation,
            self._of_all,
            self.impossible,
        )

    def __repr__(self) -> str:
        return f"DeviceDecision({self.outcome!r}, {self.request.name!r}, node={self.node!r})"


_set_placement = DeviceDecision.__dict__["_placement"].__set__
_set_request = DeviceDecision.__dict__["_request"].__set__
maker = Maker(
    DeviceDecision,
    (
        *("_request", "outcome", "node", "victims", "reservation", "counts", "impossible"),
        *("_plan", "_cluster", "_inventory", "_of_all", "_placement", "_mark"),
    ),
)


class _LoosePlan:
    """The plan of a decision of no cluster."""

    __slots__ = ("idle",)

    def __init__(self, idle: bool) -> None:
        self.idle = idle


def _loose_decision(
    request: DeviceRequest, node: str, counts: Any, placement: Any, idle: bool, *others: Any
) -> DeviceDecision:
    victims, reservation, of_all, *impossible = others  # the last is absent from older pickles
    plan, last = _LoosePlan(idle) if node else None, impossible == [True]
    fields = request, node, counts, plan, None, None, placement, victims, reservation, of_all
    return made_decision(*fields, impossible=last)


def made_decision(
    request: DeviceRequest,
    node: str,
    counts: tuple[tuple[str, int], ...],
    plan: Any,
    cluster: Any,
    inventory: NodeDevices | None,
    placement: tuple[DeviceAllocation, ...] | None,
    victims: tuple[str, ...] = (),
    reservation: str = "",
    of_all: bool = True,
    mark: object = None,
    impossible: bool = False,
) -> DeviceDecision:
    """A decision, with what it takes to commit it, and the inventory that it was made for.

    :param of_all: see `check_placement`.
    :param mark: that of its node in the cluster.
    :param impossible: no node could serve it, were all idle and healthy.
    """
    outcome = "wait" if plan is None else ("preempt" if victims else "bind")
    return maker.make(  # type: ignore[no-any-return]
        (
            request,
            outcome,
            node,
            victims,
            reservation,
            counts,
            impossible,
            plan,
            cluster,
            inventory,
            of_all,
            placement,
            mark,
        )
    )
