"""Starts of units where quotas, cells and devices alone decide, and all nodes are allowed.

The quota is charged at once, then each pod gets the devices of its cells, without cells those of
the best node. The result is that of `Stages.propose`, with fewer calls. After a refusal the charge
is undone.
"""

from typing import Any, NamedTuple

from hivecore.cells import GroupDecision
from hivecore.quotas import QuotaDecision
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.stages.composed import Composed
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.stage import Offer, Rebooking, refused
from hivecore.scheduler.stages.units import BEGUN, Refused, Unit

__all__ = ["PlainStarts", "Started"]


class Started(NamedTuple):
    """A unit has started."""

    #: committed decisions by stage; those on devices are with the pods
    decisions: tuple[tuple[str, Any], ...]


class PlainStarts(Composed):
    """The stages, as far as they start plain units, see `Kind.is_plain`."""

    def _each(self, action: str, of: Unit | Offer | Rebooking, *arguments: Any) -> None:
        """Call a method of all stages; if it raises, a note names the stage."""
        stage = ""
        try:
            for name, act in self._acting[action]:
                stage = name
                act(of, *arguments)
        except BaseException as error:
            error.add_note(f"{stage}: {action} of {of.name!r}")
            raise

    def begin(self, unit: Unit) -> None:
        """Record that a unit runs on its resources."""
        if self._acting["begin"]:
            self._each("begin", unit)
        if self.listener is not None and self.listener.by_key:
            keys = (key for stage in self.all for key in stage.begun(unit.kind))
            self.listener.touch((BEGUN, *keys))

    def _start_plain(self, unit: Unit) -> Refused | Started | None:
        """As `start`, with fewer calls: quotas, cells and devices alone decide, and all nodes are
        allowed. None: devices refuse what cells have chosen, and nothing has changed.
        """
        quotas, devices = self._quotas, self._devices
        cells = self._cells if unit.kind.gpus else None
        assert devices is not None
        admitted: Refused | QuotaDecision | None = None
        chosen: Refused | GroupDecision | None = None
        stage = QuotaStage.name
        try:
            if quotas is not None:
                admitted = quotas.admit(unit)
                if isinstance(admitted, Refused):
                    return admitted
            if cells is not None:
                stage = cells.name
                chosen = cells.choose(unit)
            if isinstance(chosen, Refused):
                placed: Refused | tuple[PlacedPod, ...] = chosen
            else:
                stage = devices.name
                places = None if chosen is None else chosen.places
                placed = devices.place(unit, places)
        except BaseException as error:
            if quotas is not None and admitted is not None:
                quotas.take_back(unit)
            return self._refused_by_error(error, stage, unit)
        if isinstance(placed, Refused):
            if quotas is not None:
                quotas.take_back(unit)
            return None if isinstance(chosen, GroupDecision) else placed
        decisions: tuple[tuple[str, Any], ...] = ()
        if quotas is not None:
            quotas.stir(unit)
            decisions = ((QuotaStage.name, admitted),)
        if cells is not None and isinstance(chosen, GroupDecision):
            try:
                cells.part.commit(chosen)
            except BaseException as error:
                error.add_note(f"{cells.name}: commit of {unit.name!r}")
                raise
            decisions = (*decisions, (cells.name, chosen))
        unit.placed, unit.is_placed = placed, cells is not None
        self.begin(unit)
        return Started(decisions)

    def _refused_by_error(self, error: BaseException, stage: str, unit: Unit) -> Refused:
        """The refusal of a unit that requests what no longer exists; otherwise the error, which is
        being handled, with a note that names the stage.
        """
        reason = ""
        if isinstance(error, (KeyError, ValueError)):
            reason = self.impossible(unit.kind, growing=False)
        if not reason:
            error.add_note(f"{stage}: decision on {unit.name!r}")
            raise error
        return refused(stage, "impossible", reason, ("scheduler", "made"))
