"""The terms that all stages of scheduling share: requests, decisions and explanations.

A *stage* allocates one kind of resource: cells, devices, quotas, places in a network. It decides on
the request of an *owner*, which has one name in all stages: `schedule` returns a decision and
changes nothing, `commit` carries it out, `release` ends it. A stage that cannot serve a request now
returns a decision with the reason; errors are for wrong arguments.
"""

from typing import Any, Literal, Protocol, Self, TypeVar

from hivecore._record import Record
from hivecore._thousandths import Amount

__all__ = ["Change", "Decision", "Explanation", "Outcome", "Refusal", "Request", "Stage"]

#: "bind": it can be committed. "preempt": the victims have to be released first. "wait": neither.
Outcome = Literal["bind", "preempt", "wait"]


class Refusal(Record, frozen=True):
    """Why a stage, or a part of it, cannot serve a request now.

    :param stage: the name of the stage, such as "cells".
    :param code: the reason in a word for programs, from the stage's own list.
    :param reason: the reason in a line for people.
    :param part: the part of the stage that refuses, such as a chain; "": all of it.
    """

    stage: str
    code: str
    reason: str
    part: str = ""


class Request(Protocol):
    """A request to a stage: a frozen record in the terms of its subject."""

    @property
    def name(self) -> str:
        """The owner."""


class Decision(Protocol):
    """A decision of a stage on a request, to be committed."""

    @property
    def request(self) -> Any:
        """The request."""

    @property
    def outcome(self) -> Outcome:
        """Whether it can be committed."""

    @property
    def placement(self) -> tuple[Any, ...]:
        """The resources of the owner, part by part; empty when it waits."""

    @property
    def victims(self) -> tuple[str, ...]:
        """The owners that have to be released first, each as a whole."""

    @property
    def refusal(self) -> Refusal | None:
        """Why it waits; ``None``: it does not."""


class Change(Record, frozen=True):
    """A change after which a request would be admitted: it was tried on a copy.

    :param kind: "preempt": owners leave that the request may preempt. "release": other owners
        leave, too. "relax": the request drops some of its constraints. "limits": limits are raised.
        "health": unhealthy resources work again.
    :param owners: the owners that leave, for "preempt" and "release".
    :param cost: how much these hold together, by how much limits are raised, or how much has to
        work again, in the stage's unit.
    :param relaxed: the arguments that are dropped, for "relax".
    :param request: the request to schedule after the change.
    :param limits: the raised limits, for "limits", in the terms of the stage.
    :param nodes: the nodes on which resources have to work again, for "health".
    """

    kind: Literal["preempt", "release", "relax", "limits", "health"]
    owners: tuple[str, ...]
    cost: Amount
    relaxed: tuple[str, ...]
    request: Any
    limits: tuple[Any, ...] = ()
    nodes: tuple[str, ...] = ()


class Explanation(Record, frozen=True):
    """Whether a request would be served now, and the changes that would admit it.

    :param outcome: the outcome that `Stage.schedule` would return.
    :param reason: why it does not bind, in a line; "": it does.
    :param refusals: the refusals of the parts of the stage.
    :param changes: the changes that admit the request, the cheapest first.
    """

    outcome: Outcome
    reason: str
    refusals: tuple[Refusal, ...]
    changes: tuple[Change, ...]

    @property
    def cheapest(self) -> Change | None:
        """The first of the changes; ``None``: there are none."""
        return self.changes[0] if self.changes else None


_R_contra = TypeVar("_R_contra", bound=Request, contravariant=True)
_D = TypeVar("_D", bound=Decision)


class Stage(Protocol[_R_contra, _D]):
    """The methods of every stage.

    Several threads may use one object: calls take turns, and results are immutable. After an error
    nothing has changed. Unknown names raise `KeyError`. ``copy.copy``, ``copy.deepcopy`` and pickle
    do the same as ``copy``.
    """

    def fits(self, request: _R_contra, /) -> bool:
        """Whether the request would be served now, without victims."""

    def schedule(self, request: _R_contra, /) -> _D:
        """The decision on the request now; nothing changes."""

    def commit(self, decision: _D, /) -> None:
        """Carry out a decision to bind.

        :raises StaleDecisionError: the state has changed, and the decision is no longer possible.
        :raises ValueError: its outcome is not "bind".
        """

    def release(self, name: str, /) -> None:
        """Free the resources of an owner.

        :raises KeyError: there is no such owner.
        """

    def explain(self, request: _R_contra, /) -> Explanation:
        """Why the request would have to wait, and the cheapest change that would admit it."""

    def check(self) -> None:
        """Audit every invariant; raises `InvariantError`."""

    def copy(self) -> Self:
        """An independent what-if branch."""

    def to_bytes(self) -> bytes:
        """The state, for ``from_bytes``."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The stage whose ``to_bytes`` gave these bytes, or `CorruptStateError`."""
