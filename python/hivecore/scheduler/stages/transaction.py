"""One decision on a unit: all stages agree and commit, or nothing has changed.

Stages are asked in the order quotas, placement (cells or topology), devices. Devices are taken pod
by pod, since what one pod takes the next cannot have; the others commit when all have agreed. Where
devices refuse a node, placement is asked again without it, a bounded number of times.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from typing import Any, NamedTuple, Self

from hivecore.cells import CellCluster, NodeSet
from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster, DeviceDecision
from hivecore.errors import StaleDecisionError
from hivecore.quotas import QuotaTree
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.units import Key, Kind, Places, Refused, Unit, owner_of
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages._lacks import Lacks
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.constraints import unenforced
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.sharing import Joined, SharingStage
from hivecore.scheduler.stages.stage import Stage
from hivecore.scheduler.stages.storage import StoragePool, StorageStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.topology import NetworkTopology

__all__ = ["Agreed", "Stages", "Started"]


class Agreed(NamedTuple):
    """What all stages would give a unit; devices are taken already."""

    admitted: Any
    placed: Any
    places: Places | None
    taken: list[DeviceDecision | None]

    def pods(self, unit: Unit) -> tuple[PlacedPod, ...]:
        """Where each pod is, by who has chosen it."""
        found = []
        for i, (role, number) in enumerate(unit.pods):
            node, gpus = ("", ()) if self.places is None else self.places[i]
            decision = self.taken[i] if self.taken else None
            if decision is not None:
                found.append(PlacedPod(role, number, decision.node, decision.minors, decision))
            else:
                found.append(PlacedPod(role, number, node, (("gpu", gpus),) if gpus else ()))
        return tuple(found)


#: All parts that there can be.
_KINDS: tuple[type[Stage], ...] = (
    QuotaStage,
    CellStage,
    TopologyStage,
    DeviceStage,
    StorageStage,
    SharingStage,
)
_NOWHERE = "none of the nodes that it may use is there"


class Started(NamedTuple):
    """A unit has what it asked for."""

    #: what was committed, by stage; devices stand with the pods
    decisions: tuple[tuple[str, Any], ...]


class Stages:
    """The parts that decide, each of them optional.

    :param growing: whether nodes may come that serve what those that are there cannot.
    """

    def __init__(
        self,
        quotas: QuotaStage | None,
        place: CellStage | TopologyStage | None,
        devices: DeviceStage | None,
        tries: int,
        storage: StorageStage | None = None,
        sharing: SharingStage | None = None,
        growing: bool = False,
    ) -> None:
        self.growing = growing
        self.quotas, self.place, self.devices, self.tries = quotas, place, devices, tries
        self.storage, self.sharing = storage, sharing
        self.all = [one for one in (quotas, place, devices) if one is not None]
        self._empty: Stages | None = None
        #: the part that was asked last
        self._asked = ""
        #: the nodes that devices have, and placement does not
        self._unplaced: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        quotas: QuotaTree | None,
        cells: CellCluster | None,
        topology: NetworkTopology | None,
        devices: DeviceCluster | None,
        storage: StoragePool | None,
        tries: int,
        sharing: Sharing | None = None,
        growing: bool = False,
        hosts: frozenset[str] = frozenset(),
    ) -> Self:
        """The adapters of these parts."""
        place: CellStage | TopologyStage | None = None
        if cells is not None:
            place = CellStage(cells)
        elif topology is not None:
            place = TopologyStage(topology)
        sharers = None
        if sharing is not None:
            has_cells = cells is not None
            sharers = SharingStage(sharing, has_quotas=quotas is not None, has_cells=has_cells)
        made = cls(
            None if quotas is None else QuotaStage(quotas),
            place,
            None if devices is None else DeviceStage(devices, hosts),
            tries,
            None if storage is None else StorageStage(storage),
            sharers,
            growing,
        )
        made.note_health()
        return made

    def branch(self) -> Self:
        """A branch."""
        made = type(self)(
            self.quotas and self.quotas.branch(),
            self.place and self.place.branch(),
            self.devices and self.devices.branch(),
            self.tries,
            self.storage and self.storage.branch(),
            self.sharing and self.sharing.branch(),
            self.growing,
        )
        made._empty, made._unplaced = self._empty, self._unplaced
        return made

    @property
    def hosts(self) -> frozenset[str]:
        """The resources of roles that pods take from the "host" of their node."""
        return frozenset() if self.devices is None else self.devices.hosts

    @contextmanager
    def trial(self) -> Iterator[None]:
        """A context whose changes to all parts are undone at its end; units are left alone."""
        with ExitStack() as undone:
            for one in (*self.all, self.storage, self.sharing):
                if one is not None:
                    undone.enter_context(one.trial())
            yield

    def without_quotas(self) -> Self:
        """The same parts but for the quotas: who moves stays admitted."""
        made = type(self)(None, self.place, self.devices, self.tries, self.storage)
        made.sharing, made._unplaced = self.sharing, self._unplaced
        return made

    def without_devices(self) -> Self | None:
        """The same parts but for the devices; ``None``: there are none."""
        if self.devices is None:
            return None
        made = type(self)(self.quotas, self.place, None, self.tries)
        made.sharing = self.sharing
        return made

    # --- what can be at all

    def unenforced(self, job: Job) -> str:
        """Which constraint of a job no part enforces; "": there is none."""
        parts = (*self.all, self.storage, self.sharing)
        return unenforced(job, [stage for stage in parts if stage is not None], _KINDS)

    def counted(self, job: Job) -> frozenset[str]:
        """The resources of a job's roles that some part limits."""
        names = {resource for role in job.roles for resource, _ in role.resources}
        return frozenset(name for name in names if any(of.counts(job, name) for of in self.all))

    def impossible(self, kind: Kind) -> str:
        """Why units of this kind would wait for ever; "": they would not."""
        return self._impossible(kind, self.growing)

    def _impossible(self, kind: Kind, growing: bool) -> str:
        """The same.

        :param growing: whether there may be other nodes, and more to share out, in time.
        """
        if self._empty is None:
            place = self.place and self.place.emptied()
            self._empty = Stages(None, place, self.devices and self.devices.emptied(), self.tries)
        nodes = self._nodes_for(kind)
        if nodes == () and not growing:
            return _NOWHERE
        reason = self.quotas.impossible(kind, growing) if self.quotas is not None else ""
        if not reason and self.place is not None:
            empty: Any = self._empty.place
            reason = self.place.impossible(kind, empty, nodes or (), growing)
        if not (reason or growing or self.devices is None or self._empty.devices is None):
            reason = self.devices.impossible(kind, self._empty.devices, nodes or ())
        if not reason and self.storage is not None:
            reason = self.storage.impossible(kind)
        if not reason and self.sharing is not None:
            reason = self.sharing.impossible(kind)
        return reason

    def forget(self) -> None:
        """The cluster is made of something else now."""
        self._empty = None
        if self.quotas is not None:
            self.quotas.forget_paths()
        for one in (self.place, self.devices):
            if one is not None:
                one.forget()
        self.note_health()

    def nodes_beside(
        self, job: Job, placed: Iterable[PlacedPod], nodes: tuple[str, ...] = ()
    ) -> tuple[str, ...] | None:
        """The nodes that further pods of a job may use, which has to be in one domain; none: all.

        :param placed: the pods that have a place.
        :param nodes: the only ones to use otherwise; none: those that the job allows.
        :returns: ``None``: none is left.
        """
        used = {pod.node for pod in placed if pod.node}
        where = self.place.domain(job, used) if self.place is not None and used else None
        if where is None:
            return nodes
        allowed = nodes or job.where.nodes
        return tuple(sorted(where.intersection(allowed) if allowed else where)) or None

    def _nodes_for(self, kind: Kind) -> tuple[str, ...] | None:
        """The only nodes that units of a kind may use, of those that are there; None: all."""
        named = kind.job.where.nodes
        if not named:
            return None
        parts = [one for one in (self.place, self.devices) if one is not None]
        return tuple(node for node in named if all(one.knows(node) for one in parts))

    def note_health(self) -> None:
        """Nodes have come, gone, failed or recovered."""
        if self.place is not None and self.devices is not None:
            self._unplaced = self.devices.nodes - self.place.nodes
        if self.sharing is not None:
            parts = [one for one in (self.place, self.devices) if one is not None]
            gone = [
                node for node in self.sharing.nodes() if not all(one.knows(node) for one in parts)
            ]
            self.sharing.unhealthy = frozenset([*self.unhealthy(), *gone])

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that some part has marked so, sorted; those that are gone are none."""
        found: set[str] = set()
        for one in (self.place, self.devices):
            if one is not None:
                found.update(one.unhealthy())
        if self.places_by_cells and self.devices is not None:
            found = set(filter(self.devices.knows, found))
        return tuple(sorted(found.union(self._unplaced)))

    def is_downgraded(self, unit: str) -> bool:
        """Whether cells have taken its guarantee from a unit that runs."""
        return isinstance(self.place, CellStage) and not self.place.part.group(unit).guaranteed

    @property
    def places_by_cells(self) -> bool:
        """Whether cells place the pods."""
        return isinstance(self.place, CellStage)

    def room(self) -> float:
        """How many GPUs are idle, at most; inf: that is not known."""
        return self.place.room() if isinstance(self.place, TopologyStage) else inf

    def demand(self, unit: Unit) -> Any:
        """What those have in common that would be answered alike."""
        if self.quotas is not None:
            return unit.kind.number  # what one may borrow another one may not
        job = unit.kind.job
        return job.roles, job.where, job.tenant, job.priority, job.guaranteed

    # --- what waits for what

    def touched_by_release(self, kind: Kind) -> Iterator[Key]:
        """What happens when a unit gives back what it has."""
        yield from self.touched_by_request()
        for stage in (self.place, self.devices):
            if stage is not None:
                yield from stage.touched_by_release(kind)
        yield from self.touched_by_sharing(kind)

    def touched_by_request(self) -> Iterator[Key]:
        """What happens when a unit that has nothing asks for it, or not any more."""
        if self.quotas is not None:
            yield from self.quotas.touched()

    def touched_by_sharing(self, kind: Kind) -> tuple[Key, ...]:
        """What happens when a unit may share what it has from now on, or shares it with others."""
        return () if self.sharing is None else self.sharing.keys(kind)

    def able_to_share(self, kinds: Iterable[Kind]) -> Iterable[int]:
        """Of kinds that wait for others to share what they have those that can join them now."""
        return () if self.sharing is None else self.sharing.able(kinds)

    def known_refusal(self, kind: Kind) -> Refused | None:
        """Why units of a kind find nothing of their own, if that is known in this round."""
        return None if self.sharing is None else self.sharing.known_refusal(kind)

    def note_refusal(self, kind: Kind, refused: Refused) -> Refused:
        """Nobody can leave for units of a kind either; the same, as they may still share."""
        if self.sharing is None:
            return refused
        self.sharing.note_refusal(kind, refused)
        return self.or_shares(kind, refused)

    def begin_round(self) -> None:
        """Anything may have happened since the last round of decisions."""
        if self.sharing is not None:
            self.sharing.forget_refusals()

    def members(self, job: str) -> tuple[str, ...]:
        """A job and those that share its GPUs, the one first that holds them."""
        return (job,) if self.sharing is None else self.sharing.members(job)

    def told_to_stop(self, job: str) -> None:
        """Nobody joins a job any more."""
        if self.sharing is not None:
            self.sharing.stop(job)

    def lacks(self) -> Lacks | None:
        """Where to note what quotas refuse; None: there are none."""
        return None if self.quotas is None else Lacks(self.quotas)

    def still_refused(self, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
        """Why a unit of a kind that waits is not worth a try, by the stage that refused; None: it
        is.
        """
        if refusal.stage == "quotas" and self.quotas is not None:
            decision = self.quotas.part.schedule(owner_of(name) if kind.is_lent else name)
            if decision.refusal is None:
                return None
            keys = self.quotas.waits_for(decision.refusal)
            return self.or_shares(kind, Refused(decision.refusal, keys))
        for one in (self.place, self.devices):
            if one is not None and one.name == refusal.stage and not one.may_start(kind):
                return Refused(refusal, ())
        return None

    def or_shares(self, kind: Kind, refused: Refused) -> Refused:
        """A refusal that may end when others share what they have."""
        if self.sharing is None:
            return refused
        return refused._replace(keys=(*refused.keys, *self.sharing.keys(kind)))

    def withdraw(self, unit: Unit) -> None:
        """One that waits asks for nothing any more."""
        if self.quotas is not None:
            self.quotas.release(unit)

    # --- one decision

    def start(self, unit: Unit, nodes: tuple[str, ...] = ()) -> "Refused | Started":
        """Let a unit have what it asks for, or say why it cannot; then nothing has changed.

        :param nodes: the only ones to use; none: those that its job allows.
        """
        agreed = self.agree(unit, nodes)
        if isinstance(agreed, Refused):
            return agreed
        admitted, placed, _, taken = agreed
        self._commit(unit, admitted, placed, taken)
        unit.placed = agreed.pods(unit)
        unit.is_placed = placed is not None
        self.begin(unit)
        decisions: list[tuple[str, Any]] = []
        if admitted is not None:
            decisions.append(("quotas", admitted))
        if placed is not None and self.place is not None:
            decisions.append((self.place.name, placed))
        return Started(tuple(decisions))

    @property
    def puts_back(self) -> bool:
        """Whether a unit that gives back what it has can have the very same again."""
        return isinstance(self.place, TopologyStage) and len(self.all) == 1 and not self.storage

    def put_back(self, unit: Unit, placed: tuple[PlacedPod, ...]) -> bool:
        """Let a unit that has left be where it was, if it can; else nothing has changed."""
        if not (self.puts_back and isinstance(self.place, TopologyStage)):
            nodes = tuple(dict.fromkeys(pod.node for pod in placed if pod.node))
            return bool(nodes) and isinstance(self.start(unit, nodes), Started)
        unit.placed = placed
        try:
            unit.is_placed = self.place.commit_as_placed(unit) is not None
        except StaleDecisionError:
            unit.placed = ()
            return False
        self.begin(unit)
        return True

    def begin(self, unit: Unit) -> None:
        """A unit that has what it asked for runs from now on."""
        self._reads(unit)
        if self.sharing is not None:
            self.sharing.begin(unit)

    def agree(self, unit: Unit, nodes: tuple[str, ...] = ()) -> "Refused | Agreed":
        """What all stages would give a unit, of which it has the devices already, or why not."""
        where = nodes or self._nodes_for(unit.kind)
        if where == ():
            return Refused(Refusal("scheduler", "nodes", _NOWHERE), (("scheduler", "nodes"),))
        try:
            return self._agreed(unit, where or ())
        except BaseException as error:
            error.add_note(f"{self._asked}, asked for {unit.name!r}")
            raise

    def _agreed(self, unit: Unit, where: tuple[str, ...]) -> "Refused | Agreed":
        admitted = None
        if self.quotas is not None and not unit.has_quota:
            self._asked = self.quotas.name
            admitted = self.quotas.schedule(unit)
            if admitted.outcome != "bind":
                return self._not_admitted(unit, admitted)
        placed: Any = None
        places: Places | None = None
        taken: list[DeviceDecision | None] = []
        if self.place is not None:
            found = self._placed(unit, where)
            if isinstance(found, Refused):
                return found
            placed, places, taken = found
        elif self.devices is not None:
            self._asked = self.devices.name
            given = self.devices.take(unit, None, where)
            if given.refusal is not None:
                return Refused(given.refusal, self.devices.waits_for())
            taken = given.decisions
        return Agreed(admitted, placed, places, taken)

    def first_refused(self, units: list[Unit]) -> tuple[int, Refused] | None:
        """Which of these is refused first when each in turn takes what it asks for, and why; None:
        none is. Nothing has changed then.
        """
        if self.quotas is not None:
            for at, decision in enumerate(self.quotas.schedule_many(units)):
                if decision.outcome != "bind":
                    return at, self._not_admitted(units[at], decision)
        placing = self.without_quotas()
        taken: list[tuple[Unit, bool]] = []
        found = None
        for at, unit in enumerate(units):
            agreed = placing.agree(unit)
            if isinstance(agreed, Refused):
                found = at, agreed
                break
            placing._commit(unit, None, agreed.placed, agreed.taken)
            taken.append((unit, agreed.placed is not None))
        for unit, is_placed in reversed(taken):
            placing._vacate(unit, is_placed)
        return found

    def not_placed(self, unit: Unit) -> "Refused | None":
        """Why cells do not have a place for a unit; None: they do, without anybody's leaving."""
        assert self.place is not None
        where = self._nodes_for(unit.kind)
        allowed = None if where is None else _as_nodes(self.place, where)
        placed = self._scheduled(unit, allowed)
        if isinstance(placed, Refused):
            return placed
        return None if placed.outcome == "bind" else self._not_placed(unit, placed)

    def _placed(
        self, unit: Unit, where: tuple[str, ...]
    ) -> "Refused | tuple[Any, Places | None, list[DeviceDecision | None]]":
        """What places the pods on nodes of which devices can serve them, and the devices, taken."""
        place, devices = self.place, self.devices
        assert place is not None
        allowed: Any = _as_nodes(place, where) if where else None
        shunned: set[str] = set()
        refused: Refused | None = None
        while True:
            placed = self._scheduled(unit, allowed)
            if isinstance(placed, Refused):
                return placed
            if placed is not None and placed.outcome != "bind":
                return refused or self._not_placed(unit, placed)
            places = None if placed is None else place.places(unit, placed)
            if devices is None:
                return placed, places, []
            if self._unplaced and not where:
                where = tuple(sorted(devices.nodes & place.nodes))
            self._asked = devices.name
            given = devices.take(unit, places, where)
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

    def _scheduled(self, unit: Unit, allowed: Any) -> Any:
        """What cells or a network decide; who was let in when they were others may ask for what
        there is no more.
        """
        assert self.place is not None
        self._asked = self.place.name
        try:
            return self.place.schedule(unit, allowed)
        except (KeyError, ValueError):
            reason = self._impossible(unit.kind, growing=False)
            if not reason:
                raise
            refusal = Refusal(self.place.name, "impossible", reason)
            return Refused(refusal, (("scheduler", "made"),))

    def _commit(self, unit: Unit, admitted: Any, placed: Any, taken: list[Any]) -> None:
        quotas, place, devices = self.quotas, self.place, self.devices
        admitted_now, asked = False, "quotas"
        try:
            if quotas is not None and admitted is not None:
                quotas.admit(unit, admitted)
                admitted_now = True
            if place is not None and placed is not None:
                asked = place.name
                place.part.commit(placed)
        except BaseException as error:
            if admitted_now and quotas is not None:
                quotas.evict(unit)
            if devices is not None:
                devices.give_back([one.request.name for one in taken if one is not None])
            error.add_note(f"{asked}, asked for {unit.name!r}")
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
        return Refused(refusal, keys, (), decision.victims, not decision.cut_short)

    def join(self, unit: Unit) -> Joined | None:
        """Let a unit share what others have, and ask for its part all the same; None: nothing has
        changed.
        """
        joined = None if self.sharing is None else self.sharing.join(unit)
        if joined is not None:
            unit.placed, unit.is_placed = joined.placed, False
            self._reads(unit)
        return joined

    def share(self, unit: Unit, holder: Unit) -> None:
        """Let a unit share what another one has, which is like it."""
        assert self.sharing is not None
        unit.placed, unit.is_placed = self.sharing.share(unit, holder), False
        self._reads(unit)

    def give_back(self, unit: Unit, *, end: bool, reclaimed: bool = False) -> str:
        """Take back what a running unit has, or hand it on to one with which it was shared.

        :param end: it asks for nothing any more; else it waits from now on.
        :param reclaimed: if it waits: another quota takes it back.
        :returns: who has it now; "": nobody, or those who had it before.
        """
        is_placed = unit.is_placed
        left = None if self.sharing is None else self.sharing.leave(unit.name)
        if left is not None:
            is_placed = left.is_placed
            if left.heir:
                if left.held:
                    self._hand_on(unit, left.heir, is_placed)
                if end and self.quotas is not None:
                    self.quotas.release(unit)
                self.reads_no_more(unit)
                return left.heir if left.held else ""
        self._vacate(unit, is_placed)
        if self.quotas is not None:
            if end:
                self.quotas.release(unit)
            else:
                self.quotas.evict(unit, reclaimed=reclaimed)
        self.reads_no_more(unit)
        return ""

    def vacate(self, unit: Unit) -> None:
        """Take back where a unit is that shares with nobody; its quota goes on to count it."""
        self._vacate(unit, unit.is_placed)

    def _vacate(self, unit: Unit, is_placed: bool) -> None:
        if self.devices is not None:
            self.devices.give_back(unit.device_owners())
        if self.place is not None and is_placed:
            self.place.part.release(unit.name)

    def _hand_on(self, unit: Unit, heir: str, is_placed: bool) -> None:
        """What a unit has is another one's, which is like it and asks for the same."""
        self.rename(unit, unit.name, heir, is_placed)
        if self.quotas is not None:
            self.quotas.part.exchange(unit.name, heir)

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """What somebody has who is like a unit is had under another name."""
        if self.devices is not None:
            for pod in unit.device_owners():
                end = pod.removeprefix(unit.owner)
                self.devices.part.rename(old + end, new + end)
        if self.place is not None and is_placed:
            self.place.part.rename(old, new)

    def empty(self, unit: Unit, is_placed: bool) -> None:
        """A unit goes elsewhere, with all that share what it has."""
        self._vacate(unit, is_placed)
        if self.quotas is not None:
            self.quotas.evict(unit)

    def reads_no_more(self, unit: Unit) -> None:
        """A unit that ran has ended, or stopped."""
        if self.storage is not None:
            self.storage.stop(unit.request)

    def _reads(self, unit: Unit) -> None:
        if self.storage is not None:
            self.storage.begin(unit.request)


def _as_nodes(place: CellStage | TopologyStage, nodes: tuple[str, ...]) -> Any:
    return NodeSet(nodes) if isinstance(place, CellStage) else nodes
