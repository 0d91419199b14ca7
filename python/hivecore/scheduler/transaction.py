"""One decision on a unit: all stages agree and commit, or nothing has changed.

Stages are asked in the order quotas, placement (cells or topology), devices. Devices are taken pod
by pod, since what one pod takes the next cannot have; the others commit when all have agreed. Where
devices refuse a node, placement is asked again without it, a bounded number of times.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from hivecore.cells import CellCluster, NodeSet
from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster, DeviceDecision
from hivecore.errors import StaleDecisionError
from hivecore.quotas import QuotaTree
from hivecore.scheduler._units import Key, Kind, Places, Refused, Unit
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.stages._lacks import Lacks
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.storage import StoragePool, StorageStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.topology import NetworkTopology

__all__ = ["Stages", "Started"]


class Started(NamedTuple):
    """A unit has what it asked for."""

    #: what was committed, by stage; devices stand with the pods
    decisions: tuple[tuple[str, Any], ...]


class Stages:
    """The parts that decide, each of them optional."""

    def __init__(
        self,
        quotas: QuotaStage | None,
        place: CellStage | TopologyStage | None,
        devices: DeviceStage | None,
        tries: int,
        storage: StorageStage | None = None,
    ) -> None:
        self.quotas, self.place, self.devices, self.tries = quotas, place, devices, tries
        self.storage = storage
        self.all = [one for one in (quotas, place, devices) if one is not None]
        self._empty: Stages | None = None

    @classmethod
    def of(
        cls,
        quotas: QuotaTree | None,
        cells: CellCluster | None,
        topology: NetworkTopology | None,
        devices: DeviceCluster | None,
        storage: StoragePool | None,
        tries: int,
    ) -> Self:
        """The adapters of these parts."""
        place: CellStage | TopologyStage | None = None
        if cells is not None:
            place = CellStage(cells)
        elif topology is not None:
            place = TopologyStage(topology)
        return cls(
            None if quotas is None else QuotaStage(quotas),
            place,
            None if devices is None else DeviceStage(devices),
            tries,
            None if storage is None else StorageStage(storage),
        )

    def branch(self) -> Self:
        """A branch."""
        made = type(self)(
            self.quotas and self.quotas.branch(),
            self.place and self.place.branch(),
            self.devices and self.devices.branch(),
            self.tries,
            self.storage and self.storage.branch(),
        )
        made._empty = self._empty
        return made

    # --- what can be at all

    def impossible(self, kind: Kind) -> str:
        """Why units of this kind would wait for ever; "": they would not."""
        if self._empty is None:
            place = self.place and self.place.emptied()
            self._empty = Stages(None, place, self.devices and self.devices.emptied(), self.tries)
        reason = self.quotas.impossible(kind) if self.quotas is not None else ""
        if not reason and self.place is not None:
            empty: Any = self._empty.place
            reason = self.place.impossible(kind, empty)
        if not reason and self.devices is not None and self._empty.devices is not None:
            reason = self.devices.impossible(kind, self._empty.devices)
        if not reason and self.storage is not None:
            reason = self.storage.impossible(kind)
        return reason

    def forget(self) -> None:
        """The cluster is made of something else now."""
        self._empty = None
        if self.quotas is not None:
            self.quotas.forget_paths()

    def set_health(self, node: str, healthy: bool) -> None:
        """A node is lost, or back, for all parts that know it.

        :raises KeyError: none does.
        """
        known = [one for one in (self.place, self.devices) if one is not None and one.knows(node)]
        if not known:
            raise KeyError(f"node={node!r}: no part knows it")
        for one in known:
            one.part.set_health(node, healthy)

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that some part has marked so, sorted."""
        found: set[str] = set()
        for one in (self.place, self.devices):
            if one is not None:
                found.update(one.unhealthy())
        return tuple(sorted(found))

    @property
    def places_by_cells(self) -> bool:
        """Whether cells place the pods."""
        return isinstance(self.place, CellStage)

    # --- what waits for what

    def touched_by_release(self, kind: Kind) -> Iterator[Key]:
        """What happens when a unit gives back what it has."""
        yield from self.touched_by_request()
        for stage in (self.place, self.devices):
            if stage is not None:
                yield from stage.touched_by_release(kind)

    def touched_by_request(self) -> Iterator[Key]:
        """What happens when a unit that has nothing asks for it, or not any more."""
        if self.quotas is not None:
            yield from self.quotas.touched()

    def lacks(self) -> Lacks | None:
        """Where to note what quotas refuse; None: there are none."""
        return None if self.quotas is None else Lacks(self.quotas.part)

    def still_refused(self, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
        """Why a unit of a kind that waits is not worth a try, by the stage that refused; None: it
        is.
        """
        if refusal.stage == "quotas" and self.quotas is not None:
            decision = self.quotas.part.schedule(name)
            if decision.refusal is None:
                return None
            return Refused(decision.refusal, self.quotas.waits_for(decision.refusal))
        for one in (self.place, self.devices):
            if one is not None and one.name == refusal.stage and not one.may_start(kind):
                return Refused(refusal, ())
        return None

    def withdraw(self, unit: Unit) -> None:
        """One that waits asks for nothing any more."""
        if self.quotas is not None:
            self.quotas.part.release(unit.name)

    # --- one decision

    def start(self, unit: Unit) -> "Refused | Started":
        """Let a unit have what it asks for, or say why it cannot; then nothing has changed."""
        quotas, place, devices = self.quotas, self.place, self.devices
        admitted = None
        if quotas is not None:
            admitted = quotas.schedule(unit)
            if admitted.outcome != "bind":
                return self._not_admitted(unit, admitted)
        placed: Any = None
        places: Places | None = None
        taken: list[DeviceDecision | None] = []
        if place is not None:
            found = self._placed(unit)
            if isinstance(found, Refused):
                return found
            placed, places, taken = found
        elif devices is not None:
            given = devices.take(unit, None)
            if given.refusal is not None:
                return Refused(given.refusal, devices.waits_for())
            taken = given.decisions
        self._commit(unit, admitted, placed, taken)
        unit.placed = _pods(unit, places, taken)
        self._running_changed(unit)
        unit.is_placed = placed is not None
        decisions: list[tuple[str, Any]] = []
        if admitted is not None:
            decisions.append(("quotas", admitted))
        if placed is not None and place is not None:
            decisions.append((place.name, placed))
        return Started(tuple(decisions))

    def _placed(
        self, unit: Unit
    ) -> "Refused | tuple[Any, Places | None, list[DeviceDecision | None]]":
        """What places the pods on nodes of which devices can serve them, and the devices, taken."""
        place, devices = self.place, self.devices
        assert place is not None
        where = unit.kind.job.where.nodes
        allowed: Any = _as_nodes(place, where) if where else None
        shunned: set[str] = set()
        refused: Refused | None = None
        while True:
            placed: Any = place.schedule(unit, allowed)
            if placed is not None and placed.outcome != "bind":
                return refused or self._not_placed(unit, placed)
            places = None if placed is None else place.places(unit, placed)
            if devices is None:
                return placed, places, []
            given = devices.take(unit, places)
            if given.refusal is None:
                return placed, places, given.decisions
            refused = Refused(given.refusal, devices.waits_for())
            node = "" if places is None else places[given.pod][0]
            if not node or len(shunned) + 1 == self.tries:
                return refused
            shunned.add(node)
            nodes = devices.fitting(unit.kind) - shunned
            if where:
                nodes &= set(where)
            if not nodes:
                return refused
            allowed = _as_nodes(place, tuple(sorted(nodes)))

    def _commit(self, unit: Unit, admitted: Any, placed: Any, taken: list[Any]) -> None:
        quotas, place, devices = self.quotas, self.place, self.devices
        admitted_now = False
        try:
            if quotas is not None and admitted is not None:
                quotas.part.commit(admitted)
                admitted_now = True
            if place is not None and placed is not None:
                place.part.commit(placed)
        except StaleDecisionError:
            if admitted_now and quotas is not None:
                quotas.part.evict(unit.name)
            if devices is not None:
                devices.give_back([one.request.name for one in taken if one is not None])
            raise

    def _not_admitted(self, unit: Unit, decision: Any) -> Refused:
        assert self.quotas is not None
        if decision.outcome == "wait":
            refusal = decision.refusal
            return Refused(refusal, self.quotas.waits_for(refusal))
        refusal = Refusal("quotas", "reclaim", decision.reason, unit.kind.job.quota)
        return Refused(refusal, (("quotas", "any"),), decision.victims)

    def _not_placed(self, unit: Unit, decision: Any) -> Refused:
        assert self.place is not None
        keys = self.place.waits_for(unit.kind, decision)
        if decision.outcome == "wait":
            return Refused(decision.refusal, keys)
        refusal = Refusal(self.place.name, "preempt", decision.reason)
        return Refused(refusal, keys, (), decision.victims)

    def give_back(self, unit: Unit, *, end: bool) -> None:
        """Take back what a running unit has.

        :param end: it asks for nothing any more; else it waits from now on.
        """
        if self.devices is not None:
            self.devices.give_back(unit.device_owners())
        if self.place is not None and unit.is_placed:
            self.place.part.release(unit.name)
        if self.quotas is not None:
            if end:
                self.quotas.part.release(unit.name)
            else:
                self.quotas.part.evict(unit.name)
        self._running_changed(unit)

    def _running_changed(self, unit: Unit) -> None:
        if self.storage is not None and unit.kind.job.data is not None:
            self.storage.is_stale = True


def _pods(
    unit: Unit, places: Places | None, taken: list[DeviceDecision | None]
) -> tuple[PlacedPod, ...]:
    """Where each pod is, by who has chosen it."""
    found = []
    for i, (role, number) in enumerate(unit.pods):
        node, gpus = ("", ()) if places is None else places[i]
        decision = taken[i] if taken else None
        if decision is not None:
            found.append(PlacedPod(role, number, decision.node, decision.minors, decision))
        else:
            found.append(PlacedPod(role, number, node, (("gpu", gpus),) if gpus else ()))
    return tuple(found)


def _as_nodes(place: CellStage | TopologyStage, nodes: tuple[str, ...]) -> Any:
    return NodeSet(nodes) if isinstance(place, CellStage) else nodes
