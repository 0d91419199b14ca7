"""All stages together: a unit gets the resources that it requests from all of them, or none.

The stages decide in the order quotas, placement (cells or a network), devices. Each adds its
decision to an offer; when all have, all commit. Devices are allocated at once, pod by pod, since
pods compete for them. When devices refuse a pod on its node, placement gets the number of pods for
which each node has devices, and decides again, a bounded number of times.

`Stages.trial` undoes all changes of a block. `Stages.listener` is notified of changes outside of
trials, so that jobs that wait for them are tried again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import Any, NamedTuple, Self

from hivecore._thousandths import Amount
from hivecore._trial import UndoLog
from hivecore.cells import CellCluster
from hivecore.decisions import Refusal
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.errors import StaleDecisionError
from hivecore.quotas import QuotaTree
from hivecore.quotas.explanation import LimitChange, raise_limits
from hivecore.scheduler.actions import Move, PlacedPod, SetCache, SetRemoteIO
from hivecore.scheduler.job import Job
from hivecore.scheduler.lifecycle.units import Key, Kind, Refused, Unit, owner_of
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages._groups import Group
from hivecore.scheduler.stages._lacks import Lacks
from hivecore.scheduler.stages._moving import move_jobs
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.constraints import unenforced
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.limits import Limits
from hivecore.scheduler.stages.nodes import Place, add_node, shun_missing
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.sharing import Joined, SharingStage
from hivecore.scheduler.stages.stage import Audited, Listener, Offer, Stage, refused
from hivecore.scheduler.stages.storage import Observed, StoragePool, StorageStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.topology import NetworkTopology

__all__ = ["Stages", "Started"]

#: All kinds of stages.
_KINDS: tuple[type[Stage], ...] = (
    QuotaStage,
    CellStage,
    TopologyStage,
    DeviceStage,
    StorageStage,
    SharingStage,
)
#: The methods of a stage that change the state of a unit.
_ACTIONS = (
    *("submit", "withdraw", "evict", "commit", "begin", "vacate", "rename"),
    *("hold", "let_go", "check_holds"),
)
_NO_NODE = "none of the nodes that it may use is there"
_NODES = ("scheduler", "nodes")
_MOST_VERDICTS = 4096  # that are remembered


class Started(NamedTuple):
    """A unit has what it asked for."""

    #: the committed decisions by stage; those on devices are with the pods
    decisions: tuple[tuple[str, Any], ...]


def _overrides(kind: type[Stage], action: str) -> bool:
    return getattr(kind, action) is not getattr(Stage, action)


class _Trial:
    """The context of `Stages.trial`."""

    __slots__ = ("_listener", "_marks", "_stages")

    def __init__(self, stages: "Stages") -> None:
        self._stages = stages

    def __enter__(self) -> None:
        stages = self._stages
        self._listener, stages.listener = stages.listener, None
        self._marks = stages.mark()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stages.rewind(self._marks)
        self._stages.listener = self._listener


class Stages:
    """The stages, each of them optional.

    :param tries: how often placement decides on a unit at most.
    :param growing: whether nodes may be added, and totals may grow.
    :param log: undoes changes of the adapters; ``None``: a new one.
    """

    def __init__(
        self,
        quotas: QuotaStage | None,
        place: Place | None,
        devices: DeviceStage | None,
        tries: int,
        storage: StorageStage | None = None,
        sharing: SharingStage | None = None,
        growing: bool = False,
        log: UndoLog | None = None,
    ) -> None:
        self.tries, self.growing, self.log = tries, growing, log or UndoLog()
        self._quotas, self._place, self._devices = quotas, place, devices
        self._storage, self._sharing = storage, sharing
        every: list[Stage | None] = [quotas, place, devices, storage, sharing]
        self.all = [stage for stage in every if stage is not None]
        for stage in self.all:
            stage.log = self.log
        #: the stages that decide on starts, and those that have nodes
        self._deciding = [stage for stage in self.all if stage.part is not None]
        self._noded = [stage for stage in self.all if stage.nodes is not None]
        self._parts = [stage.part for stage in self._deciding]
        #: why placement and devices together cannot serve kinds, by their requests
        self._verdicts: dict[Any, str] = {}
        #: how all parts set a mark, in order, and end it, in reverse
        self._marking = [(part._lock.__enter__, part._mark) for part in self._parts]
        self._ending = [
            (part._rewind, part._keep, part._lock.__exit__) for part in reversed(self._parts)
        ]
        #: by action of a unit, the stages that take part in it
        self._acting = {
            action: [stage for stage in self.all if _overrides(type(stage), action)]
            for action in _ACTIONS
        }
        #: is notified of changes; None: during trials
        self.listener: Listener | None = None

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
        gpu_memory: int | None = None,
    ) -> Self:
        """The adapters of these parts.

        :param gpu_memory: of each GPU; ``None``: what the nodes have now.
        """
        granted = None if devices is None else DeviceStage(devices, hosts, gpu_memory)
        place: Place | None = None
        if cells is not None:
            place = CellStage(cells)
        elif topology is not None:
            place = TopologyStage(topology, 0 if granted is None else granted.gpu_memory)
        sharers, log = None, UndoLog()
        if sharing is not None:
            has_cells = cells is not None
            sharers = SharingStage(sharing, log, has_quotas=quotas is not None, has_cells=has_cells)
        made = cls(
            None if quotas is None else QuotaStage(quotas),
            place,
            granted,
            tries,
            None if storage is None else StorageStage(storage),
            sharers,
            growing,
            log,
        )
        made.note_health()
        return made

    def branch(self) -> Self:
        """A copy that shares nothing."""
        log = UndoLog()
        return type(self)(
            self._quotas and self._quotas.branch(),
            self._place and self._place.branch(),
            self._devices and self._devices.branch(),
            self.tries,
            self._storage and self._storage.branch(log),
            self._sharing and self._sharing.branch(log),
            self.growing,
            log,
        )

    def without_quotas(self) -> Self:
        """The stages without quotas: a job that moves stays admitted."""
        return self._some(None, self._place, self._devices)

    def without_devices(self) -> Self | None:
        """The stages without devices; ``None``: there are no devices."""
        return None if self._devices is None else self._some(self._quotas, self._place, None)

    def _some(
        self,
        quotas: QuotaStage | None,
        place: Place | None,
        devices: DeviceStage | None,
    ) -> Self:
        """Some of the stages, on the same parts."""
        made = type(self)(quotas, place, devices, self.tries, None, self._sharing, log=self.log)
        made.listener = self.listener
        return made

    def find(self, kind: type[Any]) -> Any:
        """The part of a type; None: there is none."""
        return next((part for part in self._parts if isinstance(part, kind)), None)

    @property
    def hosts(self) -> frozenset[str]:
        """The resources of roles that pods take from the "host" of their node."""
        return frozenset() if self._devices is None else self._devices.hosts

    @property
    def gpu_memory(self) -> int | None:
        """As of `gpus_of`."""
        if self._place is not None and self._place.keeps_nodes:
            return None
        return 0 if self._devices is None else self._devices.gpu_memory

    @property
    def by_stages(self) -> bool:
        """Whether jobs differ by the stages of their iterations, too."""
        return self._sharing is not None

    @property
    def names(self) -> list[str]:
        """The names of the parts that decide on starts."""
        return [stage.name for stage in self._deciding]

    # --- trials

    def trial(self) -> _Trial:
        """A context whose changes to all parts are undone at its end; units are left alone."""
        return _Trial(self)

    def mark(self) -> list[Any]:
        """Set a mark for `rewind` or `keep`; until then other threads wait for the parts."""
        marks = []
        for lock, mark in self._marking:
            lock()
            marks.append(mark())
        self.log.mark()
        return marks

    def rewind(self, marks: list[Any]) -> None:
        """Undo all changes since the last mark."""
        self.log.rewind()
        for rewind, _, unlock in self._ending:
            rewind(marks.pop())
            unlock(None, None, None)

    def keep(self, marks: list[Any]) -> None:
        """Keep all changes since the last mark."""
        self.log.end()
        for _, keep, unlock in self._ending:
            keep(marks.pop())
            unlock(None, None, None)

    # --- what is possible

    def unenforced(self, job: Job) -> str:
        """Which constraint of a job no part enforces; "": there is none."""
        return unenforced(job, self.all, _KINDS)

    def counted(self, job: Job) -> frozenset[str]:
        """The resources of a job's roles that some part limits."""
        names = {resource for role in job.roles for resource, _ in role.resources}
        return frozenset(name for name in names if any(of.counts(job, name) for of in self.all))

    def impossible(self, kind: Kind) -> str:
        """Why units of this kind would wait for ever; "": they would not."""
        return self._impossible(kind, self.growing)

    def _impossible(self, kind: Kind, growing: bool) -> str:
        nodes = self._nodes_for(kind)
        if nodes == () and not growing:
            return _NO_NODE
        reasons = (stage.impossible(kind, nodes or (), growing) for stage in self.all)
        reason = next(filter(None, reasons), "")
        return reason or ("" if growing else self._impossible_together(kind, nodes or ()))

    def _impossible_together(self, kind: Kind, nodes: tuple[str, ...]) -> str:
        """Why no idle, healthy nodes have both room for a unit and its devices; "": some have."""
        if self._devices is None or not isinstance(self._place, TopologyStage):
            return ""
        if self._place.nodes != self._devices.nodes:
            return ""  # some nodes are to be added yet
        asked = kind.sizes, kind.job.where, nodes
        reason = self._verdicts.get(asked)
        if reason is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            most = self._limits(kind, is_idle=True).most
            reason = self._verdicts[asked] = self._place.impossible(kind, nodes, False, most)
        return reason

    def forget(self) -> None:
        """Forget what was derived from the parts, which have changed."""
        for stage in self.all:
            stage.forget()
        self._verdicts.clear()
        self.note_health()

    # --- nodes

    def nodes_beside(
        self, job: Job, placed: Iterable[PlacedPod], nodes: tuple[str, ...] = ()
    ) -> tuple[str, ...] | None:
        """The nodes that further pods of a job may use, if a domain has to hold it; none: all.

        :param placed: the pods that have a place.
        :param nodes: the only nodes to use otherwise; none: those that the job allows.
        :returns: ``None``: none is left.
        """
        used = {pod.node for pod in placed if pod.node}
        where = self._place.domain(job, used) if self._place is not None and used else None
        if where is None:
            return nodes
        allowed = nodes or job.where.nodes
        return tuple(sorted(where.intersection(allowed) if allowed else where)) or None

    def _nodes_for(self, kind: Kind) -> tuple[str, ...] | None:
        """The only nodes that units of a kind may use, of those that exist; None: all."""
        named = kind.job.where.nodes
        return tuple(filter(self.knows, named)) if named else None

    def knows(self, node: str) -> bool:
        """Whether all parts that have nodes know a node."""
        return all(stage.knows(node) for stage in self._noded)

    def note_health(self) -> None:
        """Note that nodes were added or removed, have failed or recovered."""
        if self._devices is not None:
            self._devices.usable = ()
            if self._place is not None and not self._devices.nodes <= self._place.nodes:
                self._devices.usable = tuple(sorted(self._devices.nodes & self._place.nodes))
        if self._sharing is not None:
            gone = [node for node in self._sharing.used_nodes() if not self.knows(node)]
            self._sharing.avoid(frozenset([*self.unhealthy(), *gone]))

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that are unhealthy in, or unknown to, a part, sorted; none that are removed."""
        found = {node for stage in self._noded for node in stage.unhealthy()}
        if self._place is not None and self._devices is not None:
            if self._place.keeps_nodes:
                found = set(filter(self._devices.knows, found))
            found |= self._devices.nodes - self._place.nodes
        return tuple(sorted(found))

    def knowing(self, node: str) -> list[Stage]:
        """The stages that have a node.

        :raises KeyError: there is none.
        """
        known = [stage for stage in self._noded if stage.knows(node)]
        is_gone = len(known) < len(self._noded) and all(stage.keeps_nodes for stage in known)
        if is_gone or not known:
            raise KeyError(f"node={node!r}: no part knows it")
        return known

    def set_health(self, node: str, healthy: bool) -> None:
        """A node fails or recovers.

        :raises KeyError: no part knows it.
        """
        for stage in self.knowing(node):
            stage.part.set_health(node, healthy)
        if healthy:
            self.shun_missing([node])
        self.note_health()

    def add_node(
        self,
        node: str,
        labels: Mapping[str, str] | None,
        free: Mapping[str, Amount] | None,
        inventory: NodeDevices | None,
    ) -> None:
        """Add a node; see `Scheduler.add_node`."""
        add_node(self._place, self._devices, node, labels, free, inventory)
        for stage in self._noded:
            stage.forget()
        self._verdicts.clear()
        self.shun_missing([node])

    def remove_node(self, node: str) -> None:
        """Remove a node."""
        for stage in self.knowing(node):
            stage.remove_node(node)

    def shun_missing(self, nodes: Iterable[str]) -> None:
        """Mark nodes as unhealthy that only some parts know."""
        if self._place is not None and self._devices is not None:
            shun_missing(self._place, self._devices, nodes)

    def demand(self, unit: Unit) -> Any:
        """A key of units that get the same decision."""
        if self._quotas is not None:
            return unit.kind.number  # units differ in what they may borrow
        job = unit.kind.job
        return job.roles, job.where, job.tenant, job.priority, job.guaranteed

    @property
    def places_by_cells(self) -> bool:
        """Whether cells place the pods."""
        return isinstance(self._place, CellStage)

    def room(self) -> Amount | float:
        """The number of idle GPUs at most; inf: unknown."""
        return self._place.room() if isinstance(self._place, TopologyStage) else inf

    # --- what waits for what

    def _tell(self, kind: Kind) -> None:
        """Notify of resources that a unit of a kind has freed."""
        if self.listener:
            self.listener.touch(self.released(kind))

    def released(self, kind: Kind) -> Iterator[Key]:
        """The keys to touch when a unit of a kind frees its resources."""
        for stage in self.all:
            yield from stage.released(kind)

    def _tell_of_request(self) -> None:
        if self.listener and self._quotas is not None:
            self.listener.touch(self._quotas.requested())

    def able_to_share(self, kinds: Iterable[Kind]) -> Iterable[int]:
        """The numbers of those waiting kinds that can join running jobs now."""
        return () if self._sharing is None else self._sharing.able(kinds)

    def known_refusal(self, kind: Kind) -> Refused | None:
        """Why units of a kind find no idle resources, if known in this round."""
        return None if self._sharing is None else self._sharing.known_refusal(kind)

    def note_refusal(self, kind: Kind, refused: Refused) -> Refused:
        """Note that evictions do not help a kind either; add the keys of sharing."""
        if self._sharing is None:
            return refused
        self._sharing.note_refusal(kind, refused)
        return self._or_shares(kind, refused)

    def begin_round(self) -> None:
        """Begin a round: anything may have changed since the last."""
        if self._sharing is not None:
            self._sharing.forget_refusals()

    def members(self, job: str) -> tuple[str, ...]:
        """The jobs that share the GPUs of a job, the holder first."""
        return (job,) if self._sharing is None else self._sharing.members(job)

    def holds(self, job: str) -> bool:
        """Whether a job holds its resources, not another job that shares them."""
        return self.members(job)[0] == job

    def told_to_stop(self, job: str) -> None:
        """Let no further job join a job."""
        if self._sharing is not None:
            self._sharing.stop(job)

    def lacks(self) -> Lacks | None:
        """A table for what quotas refuse; None: there are no quotas."""
        return None if self._quotas is None else Lacks(self._quotas)

    def branched_lacks(self, lacks: Lacks) -> Lacks | None:
        """A copy of lacks for these stages, which are a branch."""
        return lacks.branch(self._quotas)

    def still_refused(self, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
        """Why a waiting kind is not worth a try, by the stage that refused; None: it is."""
        if self._quotas is not None and refusal.stage == self._quotas.name:
            request = owner_of(name) if kind.is_lent else name
            again = self._quotas.still_refused(kind, refusal, request)
            return again and self._or_shares(kind, again)
        for stage in self.all:
            if stage.name == refusal.stage and not stage.may_start(kind):
                return Refused(refusal, ())
        return None

    def _or_shares(self, kind: Kind, refused: Refused) -> Refused:
        """A refusal with the keys of sharing."""
        if self._sharing is None:
            return refused
        return refused._replace(keys=(*refused.keys, *self._sharing.released(kind)))

    # --- units

    def _each(self, action: str, of: Unit | Offer, *arguments: Any) -> None:
        """Call a method of all stages; a note of an error names the stage."""
        for stage in self._acting[action]:
            try:
                getattr(stage, action)(of, *arguments)
            except BaseException as error:
                error.add_note(f"{stage.name}: {action} of {of.name!r}")
                raise

    def submit(self, unit: Unit) -> None:
        """Note that a unit waits."""
        self._each("submit", unit)
        self._tell_of_request()

    def withdraw(self, unit: Unit) -> None:
        """Note that a waiting unit will not run."""
        self._each("withdraw", unit)
        self._tell_of_request()

    def start(self, unit: Unit, nodes: tuple[str, ...] = ()) -> Refused | Started:
        """Allocate what a unit requests, or change nothing and return the refusal.

        :param nodes: the only nodes to use; none: those that its job allows.
        """
        offer = self.propose(unit, nodes)
        if isinstance(offer, Refused):
            return offer
        self._each("commit", offer)
        unit.placed, unit.is_placed = offer.pods(), offer.is_placed
        self.begin(unit)
        return Started(tuple(offer.decisions.items()))

    def begin(self, unit: Unit) -> None:
        """Note that a unit runs on its resources."""
        self._each("begin", unit)
        self._tell_of_sharing(unit)

    def _tell_of_sharing(self, unit: Unit) -> None:
        if self._sharing is not None and self.listener:
            self.listener.touch(self._sharing.released(unit.kind))

    def propose(self, unit: Unit, nodes: tuple[str, ...] = ()) -> Refused | Offer:
        """The offer of all stages, of which the devices are allocated already, or a refusal."""
        where = nodes or self._nodes_for(unit.kind)
        if where == ():
            return refused("scheduler", "nodes", _NO_NODE, _NODES)
        offer = Offer(unit, where or ())
        stages, at, tries = self._deciding, 0, self.tries
        before: Refused | None = None
        limits: Limits | None = None
        while at < len(stages):
            stage = stages[at]
            try:
                found = stage.propose(offer)
            except BaseException as error:
                reason = ""
                if isinstance(error, (KeyError, ValueError)):
                    # A unit that was submitted earlier may request what no longer exists.
                    reason = self._impossible(unit.kind, growing=False)
                if not reason:
                    error.add_note(f"{stage.name}: decision on {unit.name!r}")
                    raise
                return refused(stage.name, "impossible", reason, ("scheduler", "made"))
            if found is None:
                at += 1
                continue
            if stage is self._place or offer.refused_pod < 0:
                return before or found
            before, tries = found, tries - 1
            if not tries:
                return found
            limits = limits or self._limits(unit.kind)
            limits.refuse(offer.places or [], offer.refused_pod)
            offer.most, offer.refused_pod = limits.most, -1
            at = next(i for i, one in enumerate(stages) if one is self._place)
        return offer

    def _limits(self, kind: Kind, is_idle: bool = False) -> Limits:
        assert self._place is not None and self._devices is not None
        return Limits(self._place, self._devices, kind, is_idle)

    def first_refused(self, units: list[Unit]) -> tuple[int, Refused] | None:
        """The first of these units that is refused when they start in turn, and why; None: none is.
        Nothing changes.
        """
        placing = self
        if self._quotas is not None:
            found = self._quotas.first_refused(units)
            if found is not None:
                return found
            placing = self.without_quotas()
        with placing.trial():
            for at, unit in enumerate(units):
                started = placing.start(unit)
                if isinstance(started, Refused):
                    return at, started
        return None

    def refusals(self, unit: Unit) -> Iterator[Refusal]:
        """Why a unit does not start, by quotas, by placement and devices, and by devices alone."""
        yield from self._some(self._quotas, None, None)._refusal(unit)
        for refusal in self._some(None, self._place, self._devices)._refusal(unit):
            yield refusal
            if self._place is not None and refusal.stage == self._place.name:
                yield from self._some(None, None, self._devices)._refusal(unit)

    def _refusal(self, unit: Unit) -> Iterator[Refusal]:
        with self.trial():
            tried = self.start(unit.trial())
        if isinstance(tried, Refused):
            yield tried.refusal

    @property
    def puts_back(self) -> bool:
        """Whether a unit that frees its resources can get exactly the same again."""
        is_alone = len(self._deciding) == 1 and self._storage is None
        return is_alone and isinstance(self._place, TopologyStage)

    def put_back(self, unit: Unit, placed: tuple[PlacedPod, ...]) -> bool:
        """Put a unit that has left back where it was, or change nothing."""
        if not (self.puts_back and isinstance(self._place, TopologyStage)):
            nodes = tuple(dict.fromkeys(pod.node for pod in placed if pod.node))
            return bool(nodes) and isinstance(self.start(unit, nodes), Started)
        unit.placed = placed
        try:
            unit.is_placed = self._place.commit_as_placed(unit) is not None
        except StaleDecisionError:
            unit.placed = ()
            return False
        self.begin(unit)
        return True

    def join(self, unit: Unit) -> Joined | None:
        """Let a unit join running jobs; None: it cannot, and nothing changes."""
        joined = None if self._sharing is None else self._sharing.join(unit)
        if joined is not None:
            unit.placed, unit.is_placed = joined.placed, False
            self._tell_of_sharing(unit)
        return joined

    def give_back(self, unit: Unit, *, end: bool, reclaimed: bool = False) -> str:
        """Free the resources of a running unit, or pass them to a job that shares them.

        :param end: it requests nothing any more; otherwise it waits.
        :param reclaimed: if it waits: another quota reclaims its resources.
        :returns: the job that holds them now; "": none, or the job that held them before.
        """
        is_placed, heir = unit.is_placed, ""
        left = None if self._sharing is None else self._sharing.leave(unit.name)
        if left is not None:
            is_placed = left.is_placed
        if left is not None and left.heir:
            if left.held:
                heir = left.heir
                self.rename(unit, unit.name, heir, is_placed)
                if self._quotas is not None:
                    self._quotas.part.exchange(unit.name, heir)
            if end:
                self.withdraw(unit)
        else:
            self._vacate(unit, is_placed)
            if end:
                self._each("withdraw", unit)
            else:
                self._each("evict", unit, reclaimed)
        self._tell(unit.kind)
        return heir

    def check_holds(self, unit: Unit) -> None:
        """See that a unit that runs has all that it was given.

        :raises KeyError: it does not, because a part was changed from outside.
        """
        self._each("check_holds", unit)

    def vacate(self, unit: Unit) -> None:
        """Free the place of a unit that does not share; its quota still counts it."""
        self._vacate(unit, unit.is_placed)
        self._tell(unit.kind)

    def _vacate(self, unit: Unit, is_placed: bool) -> None:
        self._each("vacate", unit, is_placed)

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """Pass the resources of a job that is like a unit to another job."""
        self._each("rename", unit, old, new, is_placed)

    def is_downgraded(self, unit: str) -> bool:
        """Whether a running unit has lost its guarantee in the cells."""
        return any(stage.is_downgraded(unit) for stage in self.all)

    # --- what is held for a unit until its victims have stopped

    def hold(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Hold for a unit what it needs to start without its victims; if it would not, nothing.

        :param leaving: the units of its victims.
        """
        with self.trial():
            for one in leaving:
                self.give_back(one, end=False)
            offer = self.propose(unit.trial())
        if isinstance(offer, Refused):
            return
        unit.placed = offer.pods()
        placed = [one for one in leaving if one.is_placed]
        self._each("hold", unit, offer, placed)
        for one in leaving:  # they may leave more than the unit takes
            self._tell(one.kind)

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Hold nothing for a unit any more; it waits.

        :param leaving: the units of its victims that have not left.
        """
        holding = [one for one in leaving if self.holds(one.name)]
        self._each("let_go", unit, holding)
        unit.placed, unit.is_placed = (), False
        self._tell(unit.kind)

    def fulfil(self, unit: Unit) -> Started | Refused:
        """Start a unit with what was held for it, now that its victims have left.

        If a part was changed from outside and refuses, the resources stay held.
        """
        offer = Offer(unit, ())
        for stage in self.all:
            refusal = stage.fulfil(unit, offer)
            if refusal is not None:
                return refusal
        self.begin(unit)
        return Started(tuple(offer.decisions.items()))

    # --- quotas

    def is_outside(self, quota: str) -> bool:
        """Whether the usage of a quota reduces the total of the others."""
        return self._quotas is not None and self._quotas.is_outside(quota)

    def limit_changes(self, unit: Unit) -> Iterator[tuple[LimitChange, ...]]:
        """Limits of quotas that would have to be higher for a refused unit."""
        tree = self._quotas and self._quotas.part
        if tree and tree.schedule(unit.request).outcome != "bind":
            for change in tree.explain(unit.request).changes:
                if change.kind == "limits":
                    yield change.limits

    def raise_limits(self, quota: str, limits: Sequence[LimitChange]) -> None:
        """Raise limits of a quota and its ancestors."""
        if self._quotas is not None:
            raise_limits(self._quotas.part, quota, limits)

    # --- sharing

    def may_share(self, kind: Kind) -> bool:
        """Whether units of a kind may share."""
        return self._sharing is not None and bool(self._sharing.released(kind))

    def best_group(self, job: Job) -> Group | None:
        """The group that a job would join now."""
        return None if self._sharing is None else self._sharing.best(job)

    def unlike(self, jobs: Sequence[Job]) -> str:
        """Why jobs cannot share GPUs with one another; "": they can."""
        if self._sharing is None:
            return "share GPUs only where sharing was given"
        return self._sharing.unlike(jobs)

    def is_open(self, job: str) -> bool:
        """Whether others may join a running job."""
        return self._sharing is not None and self._sharing.is_open(job)

    def share(self, unit: Unit, holder: Unit) -> None:
        """Let a unit share the resources of another unit like it."""
        assert self._sharing is not None
        unit.placed, unit.is_placed = self._sharing.share(unit, holder), False

    def regroup(self, units: Mapping[str, Unit], seconds: float) -> list[Move]:
        """Let jobs that share GPUs change places, and return the moves.

        :param units: the running units by name.
        :param seconds: how long the groups are to last.
        """
        if self._sharing is None:
            return []
        tree = None if self._quotas is None else self._quotas.part
        moves = move_jobs(self, self._sharing, tree, units, seconds)
        for move in moves:
            self._tell(units[move.job].kind)
        return moves

    def empty(self, unit: Unit, is_placed: bool) -> None:
        """Free the place of a unit that moves with all that share it."""
        self._vacate(unit, is_placed)
        self._each("evict", unit, False)

    # --- storage

    def come(self, job: Job) -> None:
        """Add a waiting job that may read data."""
        if self._storage is not None:
            self._storage.come(job)

    def go(self, job: str) -> None:
        """Remove a job."""
        if self._storage is not None:
            self._storage.go(job)

    def read(self, job: str, runs: bool) -> None:
        """Let a job read its data, or wait and begin from nothing."""
        if self._storage is not None:
            self._storage.read(job, runs)

    @property
    def is_stale(self) -> bool:
        """Whether cache and remote IO have to be allocated again."""
        return self._storage is not None and self._storage.is_stale

    def allot(self, now: float) -> Sequence[SetCache | SetRemoteIO]:
        """Allocate cache and remote IO if other jobs run now, or something was observed."""
        if self._storage is None or not self.is_stale:
            return ()
        return self._storage.allot(now)

    def reading_order(self, now: float) -> list[str]:
        """The jobs that read, the shortest one first; see `Scheduler.reading_order`."""
        return self._reading(shares_io=True).shortest_first(now)

    def reading_shares(self, gpus: Callable[[str], float], gpu_capacity: float) -> dict[str, float]:
        """For which share of the time each job that reads is to have its GPUs."""
        return self._reading(shares_io=True).fair_shares(gpus, gpu_capacity)

    def observe(
        self, amounts: Mapping[str, Any], knows: Callable[[str], object], now: float
    ) -> Observed:
        """What was observed of the storage, checked and from now on counted with.

        :param amounts: by the names of `Observed`.
        :param knows: is asked for jobs that read nothing; raises KeyError if there is none.
        """
        storage = self._reading()
        observed = storage.as_observed(amounts, knows)
        storage.observe(observed, now)
        return observed

    def _reading(self, *, shares_io: bool = False) -> StorageStage:
        """The storage; it has to share out remote IO if that is said."""
        if self._storage is None:
            raise ValueError("there is no storage")
        if shares_io and self._storage.pool.bandwidth_mbps is None:
            raise ValueError("the network shares out remote IO")
        return self._storage

    # --- the whole state

    def to_bytes(self) -> list[bytes]:
        """The states of the parts that decide on starts."""
        return [part.to_bytes() for part in self._parts]

    def plain(self) -> dict[str, Any]:
        """The states of the other stages, as plain data."""
        others = (self._storage, self._sharing)
        return {stage.name: stage.plain() for stage in others if stage is not None}

    def restore(self, data: Mapping[str, Any], units: Mapping[str, Unit]) -> None:
        """Restore the other stages, when it is known which jobs run and wait.

        :param units: the running units by name.
        """
        if self._storage is not None:
            self._storage.restore(data[self._storage.name])
        if self._sharing is not None:
            self._sharing.restore(data[self._sharing.name], units)
            self.note_health()
            self._sharing.restore_fresh(data[self._sharing.name])

    def check(self, audited: Audited) -> Iterator[str]:
        """Audit the parts, and return differences between them and the jobs.

        :raises InvariantError: a part is not sound by itself.
        """
        for stage in self._deciding:
            stage.part.check()
        for stage in self.all:
            yield from stage.faults(audited)

    # --- for searches

    def nodes(self) -> tuple[str, ...]:
        """The nodes that some part has."""
        return tuple(dict.fromkeys(node for one in self.all for node in one.ordered_nodes()))

    def common_nodes(self) -> tuple[str, ...]:
        """The nodes that all parts with nodes have."""
        known = [nodes for one in self.all if (nodes := one.ordered_nodes())]
        common = frozenset(self.nodes()).intersection(*known)
        return tuple(node for node in self.nodes() if node in common)

    def dimensions(self) -> list[Dimension]:
        """What the parts count by node."""
        return [dimension for one in self.all for dimension in one.dimensions()]

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each domain of a layer, by name; "node": each node alone.

        A domain of a network has its own name, or, if it shares that, those of the domains around
        it in front, joined by "/"; a cell has the name of its chain and its number, as "H100/0".

        :raises KeyError: there is no such layer, or it is below nodes.
        """
        found: dict[str, tuple[str, ...]] = {}
        if layer == "node":
            found = {node: (node,) for node in self.nodes()}
        for one in self.all:
            found = found or one.domains(layer)
        if not found:
            raise KeyError(f"layer={layer!r}: there are no such domains of nodes")
        return found

    def domains_for(self, job: Job) -> tuple[frozenset[str], ...]:
        """Sets of nodes, a single one of which has to hold a job; none: all nodes together."""
        groups = [nodes for one in self.all for nodes in one.domains_for(job)]
        if sum(map(len, groups)) > len({node for nodes in groups for node in nodes}):
            groups = []  # chains that share nodes are counted together
        if job.where.nodes:
            allowed = frozenset(job.where.nodes)
            return tuple(allowed.intersection(nodes) for nodes in groups) or (allowed,)
        return tuple(map(frozenset, groups))

    @property
    def reclaims(self) -> bool:
        """Whether a part reclaims what was borrowed, and decides which priorities count."""
        return any(one.reclaims for one in self.all)

    def is_last(self, stage: str) -> bool:
        """Whether no part decides after the part of this name."""
        return self._deciding[-1].name == stage

    def not_admitted(self, unit: Unit) -> str:
        """Why a unit would not be admitted, wherever it is placed; "": it would."""
        return next(filter(None, (one.not_admitted(unit) for one in self.all)), "")

    def borrows(self, unit: Unit) -> bool:
        """Whether a unit uses, or would use, more than it is entitled to, or is not admitted."""
        return any(one.borrows(unit) for one in self.all)

    def overusers(self, jobs: Iterable[Job]) -> dict[str, bool]:
        """The jobs of these that use what others are entitled to, and whether each would be evicted
        first.
        """
        names = [(job.name, job.quota) for job in jobs]
        return {name: first for one in self.all for name, first in one.overusers(names).items()}

    def overuse(self) -> dict[str, dict[str, Amount]]:
        """By over-used quota and dimension, the usage above what it is entitled to."""
        return {quota: more for one in self.all for quota, more in one.overuse().items()}

    def lending(self) -> frozenset[str]:
        """The quotas from which something may be taken back now."""
        return frozenset().union(*[one.lending() for one in self.all])

    def less_important(self, unit: Unit) -> tuple[str, ...]:
        """Units of lower priority without which a unit would be admitted; none: too few."""
        return next(filter(None, (one.less_important(unit) for one in self.all)), ())

    def has_less_important(self, unit: Unit) -> bool:
        """Whether any unit of lower priority uses the same quota."""
        return any(one.has_less_important(unit) for one in self.all)

    def has_opportunistic(self, unit: Unit, refusal: Refusal) -> bool:
        """Whether opportunistic units of other quotas use what a refused unit lacks."""
        return any(one.has_opportunistic(unit, refusal) for one in self.all)

    def uncharge(self, requests: Iterable[str]) -> None:
        """Charge units no more, given by their names in the quotas."""
        for request in requests:
            for one in self.all:
                one.uncharge(request)
