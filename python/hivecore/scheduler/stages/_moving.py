"""Regrouping: running jobs that share GPUs change places where that is worth their restarts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hivecore.interleaving import interleave
from hivecore.quotas import QuotaTree
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.stages._regrouping import Regrouping
from hivecore.scheduler.stages.sharing import SharingStage
from hivecore.scheduler.stages.units import Unit

if TYPE_CHECKING:
    from hivecore.scheduler.stages.transaction import Stages

__all__ = ["move_jobs"]


def move_jobs(
    stages: "Stages",
    sharing: SharingStage,
    tree: QuotaTree | None,
    units: Mapping[str, Unit],
    seconds: float,
) -> list[Move]:
    """Let jobs change places, and return the moves.

    :param tree: the quotas.
    :param units: the running units by name.
    :param seconds: how long the groups are to last.
    """
    changes = sharing.regrouped(seconds)
    if not changes:
        return []
    come = {
        name: units[name].placed
        for one in changes
        for name in one.jobs
        if name not in one.group.jobs
    }
    _hand_around(stages, tree, units, changes)
    sharing.regroup(changes)
    for group, names in changes:
        for name in names:
            units[name].placed = group.placed
            units[name].is_placed = group.is_placed and name == names[0]
    return [_move(one, name, come[name]) for one in changes for name in one.jobs if name in come]


def _move(change: Regrouping, name: str, before: tuple[PlacedPod, ...]) -> Move:
    jobs = change.group.jobs
    others = tuple(other for other in jobs if other != name)
    order = interleave([jobs[name], *(jobs[other] for other in others)])
    return Move(name, change.group.placed, before, others, order.offsets if others else ())


def _hand_around(
    stages: "Stages",
    tree: QuotaTree | None,
    units: Mapping[str, Unit],
    changes: list[Regrouping],
) -> None:
    """Pass what each group has to the job that is to hold it."""
    passed: list[tuple[str, str, bool]] = []
    for group, names in changes:
        holder = next(iter(group.jobs))
        if not names:
            stages.empty(units[holder], group.is_placed)
        elif holder != names[0]:
            passed.append((holder, names[0], group.is_placed))
    # A new holder may still hold the GPUs of another group.
    for old, _, is_placed in passed:
        stages.rename(units[old], old, f"{old}//", is_placed)
    for old, new, is_placed in passed:
        stages.rename(units[old], f"{old}//", new, is_placed)
    if tree is not None:
        _exchange(tree, {old: new for old, new, _ in passed})


def _exchange(tree: QuotaTree, holders: dict[str, str]) -> None:
    """Admit each new holder in place of the old holder."""
    admitted = {old: old for old in holders}  # by place, named after the old holder
    places = dict(admitted)
    for place, new in holders.items():
        before = admitted[place]
        if before == new:
            continue
        tree.exchange(before, new)
        other = places.pop(new, None)
        del places[before]
        admitted[place], places[new] = new, place
        if other is not None:
            admitted[other], places[before] = before, other
