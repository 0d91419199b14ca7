"""What is held for a job until others have stopped for it: all that it will start with.

It is found in a trial in which these have left. From then on the job is in all parts, beside those
who still have to stop: nobody else gets anything of it.

* Quotas and devices charge it beside the others, so they may count more than there is.
* Cells are its own; what it does not take of theirs the others keep, as opportunistic groups.
* A network keeps for it what it needs of a node beside what the others leave there.

When all have stopped it starts on its nodes; there is nothing to be decided any more but which
devices are nearest. If it is cancelled or loses a node before, all is as if it had held nothing.
"""

from collections.abc import Sequence
from typing import Any

from hivecore.decisions import Refusal
from hivecore.errors import StaleDecisionError
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.lifecycle.units import Refused, Unit
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.scheduler.stages.transaction import Stages, Started

__all__ = ["fulfil", "hold", "let_go"]


def hold(stages: Stages, unit: Unit, leaving: Sequence[Unit]) -> None:
    """Hold for a unit what it starts with when others have left; nothing, if it would not start.

    :param leaving: what has to stop for it, and has something or shares it.
    """
    with stages.trial():
        for one in leaving:
            stages.give_back(one, end=False)
        found = stages.agree(unit.trial())
    if isinstance(found, Refused):
        return
    unit.placed = found.pods(unit)
    if stages.quotas is not None:
        stages.quotas.hold(unit)
    if found.placed is not None:
        placed = [one for one in leaving if one.is_placed]
        if isinstance(stages.place, CellStage):
            stages.place.hold(unit, found.placed, placed)
            unit.is_placed = True
            _note_places(stages, placed)
        elif stages.place is not None:
            stages.place.hold(unit, placed)
    if stages.devices is not None:
        stages.devices.hold(found.taken)


def let_go(stages: Stages, unit: Unit, leaving: Sequence[Unit]) -> None:
    """Hold nothing for a unit any more; it waits.

    :param leaving: those of whom something was held, as far as they have not left.
    """
    if stages.quotas is not None:
        stages.quotas.evict(unit)
    if isinstance(stages.place, CellStage) and unit.is_placed:
        holding = [one for one in leaving if stages.members(one.name)[0] == one.name]
        stages.place.let_go(unit, holding)
        _note_places(stages, holding)
    elif isinstance(stages.place, TopologyStage):
        stages.place.let_go(unit)
        if unit.is_placed:
            stages.place.part.release(unit.name)
    if stages.devices is not None:
        stages.devices.give_back(unit.device_owners())
    unit.placed, unit.is_placed = (), False


def fulfil(stages: Stages, unit: Unit) -> Started | Refused:
    """Start a unit with what was held for it, now that the others have left.

    If it is refused, because somebody else has changed a part, it is held still.
    """
    placed: Any = None
    if isinstance(stages.place, CellStage):
        placed = stages.place.schedule(unit, None)
    elif stages.place is not None:
        try:
            placed = stages.place.fulfil(unit)
        except StaleDecisionError as error:
            return Refused(Refusal(stages.place.name, "changed", str(error)), ())
        unit.is_placed = placed is not None
    if stages.devices is not None:
        taken = stages.devices.fulfil(unit, stages.places_by_cells)
        if taken.refusal is not None:
            return Refused(taken.refusal, ())
        unit.placed = tuple(
            pod if one is None else PlacedPod(pod.role, pod.index, one.node, one.minors, one)
            for pod, one in zip(unit.placed, taken.decisions, strict=True)
        )
    stages.begin(unit)
    return Started(() if placed is None or stages.place is None else ((stages.place.name, placed),))


def _note_places(stages: Stages, units: Sequence[Unit]) -> None:
    if stages.sharing is not None:
        for one in units:
            stages.sharing.set_placed(one.name, one.is_placed)
