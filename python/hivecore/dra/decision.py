"""Answers to claims: allocations as Kubernetes writes them, or why there are none."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from hivecore._record import Record
from hivecore._stateful import counted
from hivecore.dra._book import Entry
from hivecore.dra._node_class import Change, NodeClass, NodeView
from hivecore.dra._question import Question, Taking
from hivecore.dra.claim import ResourceClaim
from hivecore.dra.device import Device, DeviceId
from hivecore.dra.pools import PoolDevice
from hivecore.dra.result import DeviceResult, write_allocation

__all__ = [
    "Answer",
    "ClaimDecision",
    "ClaimFits",
    "ClaimOutcome",
    "ClaimProblem",
    "Given",
    "Grant",
    "vector_of",
]

ClaimOutcome = Literal["allocated", "unsatisfiable", "unknown", "error"]


class ClaimProblem(Record, frozen=True):
    """Why claims, or some of their alternatives, cannot be served.

    :param code: "class_not_found", "missing_class", "unsupported_selector", "unsupported_mode",
        "unsupported_constraint", "feature_disabled", "too_many_devices", "all_mode_constraint",
        "pool_incomplete", "pool_invalid", "invalid_pools", "cel_compile" or "cel_runtime".
    :param claim: the claim's name; "" if it is about several.
    :param message: the details.
    """

    code: str
    claim: str
    message: str

    @property
    def scope(self) -> Literal["node", "claims"]:
        """What the problem is about: "node" if another node may help, else "claims"."""
        node = ("pool_incomplete", "pool_invalid", "invalid_pools", "cel_compile", "cel_runtime")
        return "node" if self.code in node else "claims"


class Given(NamedTuple):
    """A device for a request."""

    claim: int  # its number in the call
    request: str  # "request", or "request/subrequest"
    device: DeviceId
    consumed: Mapping[str, Fraction] | None  # by capacity; None: the whole device


class Grant(NamedTuple):
    """A node's device for an alternative of a request."""

    alternative: int
    position: int
    consumed: Mapping[str, Fraction] | None


class Answer(NamedTuple):
    """The answer for all nodes of a class."""

    outcome: ClaimOutcome
    grants: tuple[Grant, ...] = ()
    is_first: bool = True
    work: int = 0
    reason: str = ""
    problems: tuple[tuple[str, int, str, int], ...] = ()  # code, claim, message, position; -1: none
    changes: tuple[Change, ...] = ()  # of the node
    #: in a mode that minimizes: (how much it uses, a proved lower bound)
    fewest: tuple[int | Fraction, int | Fraction] | None = None

    def taken(
        self, question: Question, device_at: Callable[[int], Device], claim: int | None = None
    ) -> dict[Taking, Fraction]:
        """Return what all devices take, or those of a claim.

        :param device_at: position -> device.
        """
        taken: dict[Taking, Fraction] = {}
        for number, position, consumed in self.grants:
            of = question.alternatives[number]
            if claim in (None, of.claim):
                for key, amount in of.takes(device_at(position), consumed).items():
                    taken[key] = taken.get(key, Fraction()) + amount
        return taken


def vector_of(answer: Answer) -> tuple[int, ...]:
    """Return the chosen alternatives of all requests, each once, in order."""
    return tuple(dict.fromkeys(grant.alternative for grant in answer.grants))


class ClaimDecision:
    """The answer to all claims of a call on a node: an allocation for each, or none.

    It is immutable; all threads may use it.
    """

    __slots__ = (
        "_allocations",
        "_answer",
        "_devices",
        "_node_class",
        "_question",
        "_share_ids",
        "claims",
        "mode",
        "node",
        "within",
    )

    def __init__(
        self,
        node: str,
        claims: tuple[ResourceClaim, ...],
        mode: str,
        answer: Answer,
        question: Question,
        devices: tuple[PoolDevice, ...],
        share_ids: tuple[str, ...],
        node_class: NodeClass | None = None,
        within: Mapping[Taking, Fraction] | None = None,
    ) -> None:
        self.within = within or {}
        self.node, self.claims, self.mode = node, claims, mode
        self._answer, self._question, self._devices = answer, question, devices
        self._share_ids, self._node_class = share_ids, node_class
        self._allocations: tuple[dict[str, Any], ...] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        own = self.node, self.claims, self.mode, self._answer, self._question, self._devices
        return ClaimDecision, (*own, self._share_ids, None, self.within)

    def __repr__(self) -> str:
        return f"ClaimDecision({self.outcome!r}, node={self.node!r}, devices={len(self.devices)})"

    @property
    def outcome(self) -> ClaimOutcome:
        """The kind of answer: "allocated", "unsatisfiable" (proved), "unknown" (the search reached
        its limit of work) or "error" (see ``problems``).
        """
        return self._answer.outcome

    @property
    def reason(self) -> str:
        """Why the node cannot serve the claims; "" if it can or if that is unknown."""
        return self._answer.reason

    @property
    def work(self) -> int:
        """The steps of the search after the first few."""
        return self._answer.work

    @property
    def is_first(self) -> bool:
        """Whether these are the devices that the mode asks for.

        If not, the search reached its limit of work after an answer.
        """
        return self._answer.is_first

    @property
    def fewest(self) -> tuple[int | Fraction, int | Fraction] | None:
        """In a mode that minimizes: (how much is used or wasted, a proved lower bound).

        They differ only if the limit of work was reached.
        """
        return self._answer.fewest

    @property
    def problems(self) -> tuple[ClaimProblem, ...]:
        """Problems of claims, pools or selectors; the first is the reason of an error."""
        return tuple(
            ClaimProblem(
                code,
                "" if claim < 0 else self.claims[claim].name,
                _with_device(message, self._devices, position),
            )
            for code, claim, message, position in self._answer.problems
        )

    @property
    def devices(self) -> tuple[Given, ...]:
        """The devices, in the order of claims and requests."""
        alternatives = self._question.alternatives
        return tuple(
            Given(
                alternatives[number].claim,
                alternatives[number].name,
                self._devices[position].id,
                consumed,
            )
            for number, position, consumed in self._answer.grants
        )

    def taken_of(self, claim: int) -> dict[tuple[str, str, str], Fraction]:
        """Return what a claim's devices take, by (device class, "capacity" or "counters", name).

        :param claim: its number in the call. Devices with admin access do not count.

        A whole device takes all of its capacity, a share its part. Each device and each share takes
        all counters that the device consumes.
        """
        return self._answer.taken(self._question, lambda i: self._devices[i].device, claim)

    @property
    def allocations(self) -> tuple[dict[str, Any], ...]:
        """``status.allocation`` of each claim; must not be changed."""
        if self._allocations is None:
            self._allocations = tuple(self._written()) if self.outcome == "allocated" else ()
        return self._allocations

    @property
    def changes(self) -> tuple[Change, ...]:
        """How the node changes; used by the cluster."""
        return self._answer.changes

    def was_made_on(self, view: NodeView) -> bool:
        """Whether the node is unchanged; used by the cluster. False for a copy of a decision."""
        same = view.devices is self._devices or view.devices == self._devices
        return view.node_class is self._node_class and same

    def with_share_ids(self, share_id: Callable[[ResourceClaim, int], object]) -> "ClaimDecision":
        """Return the decision with other ids of shares.

        :param share_id: (claim, number of the device) -> id.
        """
        if not any(self._share_ids):
            return self
        of = [self._question.alternatives[grant.alternative].claim for grant in self._answer.grants]
        share_ids = tuple(
            share and str(share_id(self.claims[claim], number))
            for number, (share, claim) in enumerate(zip(self._share_ids, of, strict=True))
        )
        own = self.node, self.claims, self.mode, self._answer, self._question, self._devices
        return ClaimDecision(*own, share_ids, self._node_class, self.within)

    @property
    def entries(self) -> tuple[tuple[Entry, ...], ...]:
        """Return what each claim would hold."""
        entries: list[list[Entry]] = [[] for _ in self.claims]
        for (number, position, consumed), share in zip(
            self._answer.grants, self._share_ids, strict=True
        ):
            of = self._question.alternatives[number]
            if not of.is_admin:
                device = self._devices[position].id
                entries[of.claim].append(Entry(device, share, consumed or {}))
        return tuple(map(tuple, entries))

    def _written(self) -> list[dict[str, Any]]:
        results: list[list[DeviceResult]] = [[] for _ in self.claims]
        for (number, position, consumed), share in zip(
            self._answer.grants, self._share_ids, strict=True
        ):
            of = self._question.alternatives[number]
            results[of.claim].append(
                DeviceResult(of.name, of.terms, self._devices[position], consumed, share)
            )
        clears = self._question.features.clears_covering_requests
        return [
            write_allocation(claim, own, self._question.classes, self.node, clears)
            for claim, own in zip(self.claims, results, strict=True)
        ]


class ClaimFits(Mapping[str, ClaimOutcome]):
    """The outcome of some claims on each node, sorted by name. It is immutable."""

    __slots__ = ("_able", "_answers", "_by_class", "_devices")

    def __init__(
        self,
        answers: Sequence[tuple[Answer, tuple[str, ...]]],
        devices: Mapping[str, tuple[PoolDevice, ...]],
    ) -> None:
        self._by_class, self._devices = answers, devices
        self._able: tuple[str, ...] | None = None
        self._answers: dict[str, Answer] | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that can serve the claims."""
        if self._able is None:
            able = [nodes for answer, nodes in self._by_class if answer.outcome == "allocated"]
            self._able = tuple(sorted(chain.from_iterable(able)))
        return self._able

    def _answer(self, node: str) -> Answer:
        return self._of_nodes()[node]

    def _of_nodes(self) -> dict[str, Answer]:
        if self._answers is None:
            pairs = [(node, answer) for answer, nodes in self._by_class for node in nodes]
            self._answers = dict(sorted(pairs, key=itemgetter(0)))
        return self._answers

    def reason(self, node: str) -> str:
        """Return why a node cannot serve the claims, or "".

        :raises KeyError: there is no such node.
        """
        answer = self._answer(node)
        if answer.outcome == "unknown":
            return f"not known after {answer.work} steps"
        if answer.outcome == "error":
            _, _, message, position = answer.problems[0]
            return _with_device(message, self._devices[node], position)
        return answer.reason

    def __reduce__(self) -> tuple[Any, ...]:
        return ClaimFits, (self._by_class, self._devices)

    def __getitem__(self, node: str) -> ClaimOutcome:
        return self._answer(node).outcome

    def __iter__(self) -> Iterator[str]:
        return iter(self._of_nodes())

    def __len__(self) -> int:
        return sum(len(nodes) for _, nodes in self._by_class)

    def __repr__(self) -> str:
        return f"ClaimFits({len(self.nodes)} of {counted(len(self), 'node')})"


def _with_device(message: str, devices: tuple[PoolDevice, ...], position: int) -> str:
    return message if position < 0 else f"device {'/'.join(devices[position].id)}: {message}"
