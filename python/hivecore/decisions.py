"""The words that all stages of scheduling share: what they are asked, answer and explain.

A *stage* rules over one kind of resource: cells, devices, quotas, places in a network. It is asked
for an *owner*, which has one name in all stages, by a request of its own kind; `schedule` says what
would be done and changes nothing, `commit` does it, `release` ends it. A stage that cannot serve
somebody now answers so, with a reason; errors are for wrong arguments.
"""

from typing import Any, Literal, Protocol, Self, TypeVar

from hivecore._record import Record
from hivecore._thousandths import Amount

__all__ = ["Change", "Decision", "Explanation", "Outcome", "Refusal", "Request", "Stage"]

#: "bind": it can be committed. "preempt": the victims have to be released first. "wait": neither.
Outcome = Literal["bind", "preempt", "wait"]


class Refusal(Record, frozen=True):
    """Why a stage, or a part of it, cannot serve a request now.

    :param stage: the subject that refuses, such as "cells".
    :param code: why, in a word for programs, from the stage's own list.
    :param reason: the same in a line for people.
    :param part: what of the stage refuses, such as a chain; "": all of it.
    """

    stage: str
    code: str
    reason: str
    part: str = ""


class Request(Protocol):
    """What is asked of a stage: a frozen record in the terms of its subject."""

    @property
    def name(self) -> str:
        """The owner."""


class Decision(Protocol):
    """What a stage would do for a request, until it is committed."""

    @property
    def request(self) -> Any:
        """What was decided on."""

    @property
    def outcome(self) -> Outcome:
        """What it comes to."""

    @property
    def placement(self) -> tuple[Any, ...]:
        """What the owner gets, part by part; empty when it waits."""

    @property
    def victims(self) -> tuple[str, ...]:
        """The owners that have to be released first, each as a whole."""

    @property
    def refusal(self) -> Refusal | None:
        """Why it waits; ``None``: it does not."""


class Change(Record, frozen=True):
    """Something after which a request would be admitted: it was tried on a copy.

    :param kind: "preempt": owners that the request may preempt leave. "release": others leave, too.
        "relax": the request gives up some of its wishes. "limits": limits are raised. "health":
        what is unhealthy works again.
    :param owners: who has to leave, for "preempt" and "release".
    :param cost: how much they hold together, by how much limits are raised, or how much has to work
        again, in the stage's unit.
    :param relaxed: the arguments that are given up, for "relax".
    :param request: what to schedule after the change.
    :param limits: what is raised, and to what, for "limits", in the words of the stage.
    :param nodes: those on which something has to work again, for "health".
    """

    kind: Literal["preempt", "release", "relax", "limits", "health"]
    owners: tuple[str, ...]
    cost: Amount
    relaxed: tuple[str, ...]
    request: Any
    limits: tuple[Any, ...] = ()
    nodes: tuple[str, ...] = ()


class Explanation(Record, frozen=True):
    """Why a request would be served now or not, and what would admit it.

    :param outcome: what `Stage.schedule` would answer.
    :param reason: why it does not bind, in a line; "": it does.
    :param refusals: the parts of the stage that were tried in vain.
    :param changes: the changes that admit the request, the cheapest first.
    """

    outcome: Outcome
    reason: str
    refusals: tuple[Refusal, ...]
    changes: tuple[Change, ...]

    @property
    def cheapest(self) -> Change | None:
        """The first of the changes; ``None``: none is needed, or none was found."""
        return self.changes[0] if self.changes else None


_R_contra = TypeVar("_R_contra", bound=Request, contravariant=True)
_D = TypeVar("_D", bound=Decision)


class Stage(Protocol[_R_contra, _D]):
    """What every stage can do.

    One object may be used by several threads: calls take turns, and what they answer does not
    change. After an error nothing has changed. Unknown names raise `KeyError`. ``copy.copy``,
    ``copy.deepcopy`` and pickle give what ``copy`` gives.
    """

    def fits(self, request: _R_contra, /) -> bool:
        """Whether the request would be served now, without anybody's leaving."""

    def schedule(self, request: _R_contra, /) -> _D:
        """What would be done for the request now; nothing changes."""

    def commit(self, decision: _D, /) -> None:
        """Carry out a decision to bind.

        :raises StaleDecisionError: the state has moved on, so that it no longer holds.
        :raises ValueError: it is not one to bind.
        """

    def release(self, name: str, /) -> None:
        """Take back what the owner has.

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
