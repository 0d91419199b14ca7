"""Starts of units where quotas and devices alone decide, and all nodes are allowed.

The quota is charged at once, then each pod gets the devices of the best node. The result is that of
`Stages.propose`, with fewer calls; if devices refuse, the charge is undone.
"""

from typing import Any, NamedTuple

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

    def _start_plain(self, unit: Unit) -> Refused | Started:
        """As `start`, with fewer calls: quotas and devices alone decide, and all nodes are
        allowed.
        """
        quotas, devices, stage = self._quotas, self._devices, QuotaStage.name
        decisions: tuple[tuple[str, Any], ...] = ()
        assert devices is not None
        try:
            if quotas is not None:
                admitted = quotas.admit(unit)
                if isinstance(admitted, Refused):
                    return admitted
                decisions = ((stage, admitted),)
            stage = devices.name
            placed = devices.place(unit)
        except BaseException as error:
            if quotas is not None and decisions:
                quotas.take_back(unit)
            return self._refused_by_error(error, stage, unit)
        if isinstance(placed, Refused):
            if quotas is not None:
                quotas.take_back(unit)
            return placed
        if quotas is not None:
            quotas.note_start(unit)
        unit.placed, unit.is_placed = placed, False
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
