"""All stages as one: a unit gets from each of them what it asks for, or nothing.

The stages are asked in the order quotas, placement (cells or a network), devices. Each adds its
decision to an offer; when all have, all carry their decisions out. Devices are allocated at once,
pod by pod, since what one pod takes the next cannot have. Where devices refuse a node, placement is
told for how many pods each node has devices, and asked again, a bounded number of times.

`Stages.trial` undoes all changes of a block. `Stages.listener` is told what has happened outside of
trials, so that jobs that wait for it are tried again.
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

#: All parts that there can be.
_KINDS: tuple[type[Stage], ...] = (
    QuotaStage,
    CellStage,
    TopologyStage,
    DeviceStage,
    StorageStage,
    SharingStage,
)
#: What units do: methods of a stage.
_ACTIONS = (
    *("submit", "withdraw", "evict", "commit", "begin", "vacate", "rename"),
    *("hold", "let_go", "check_holds"),
)
_NO_NODE = "none of the nodes that it may use is there"
_NODES = ("scheduler", "nodes")
_MOST_VERDICTS = 4096  # that are remembered


class Started(NamedTuple):
    """A unit has what it asked for."""

    #: what was committed, by stage; devices stand with the pods
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
    """The parts that decide, each of them optional.

    :param tries: how often placement is asked for a unit at most.
    :param growing: whether nodes may come that serve what those that are there cannot.
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
        #: those that decide on starts, and those that know nodes
        self._deciding = [stage for stage in self.all if stage.part is not None]
        self._noded = [stage for stage in self.all if stage.nodes is not None]
        self._parts = [stage.part for stage in self._deciding]
        #: why placement and devices together cannot serve kinds, by what these ask for
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
        #: is told what has happened; None: nothing is
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
        """The same parts but for the quotas: a job that moves stays admitted."""
        return self._some(None, self._place, self._devices)

    def without_devices(self) -> Self | None:
        """The same parts but for the devices; ``None``: there are none."""
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
        """Begin what `rewind` undoes and `keep` keeps: other threads wait for the parts."""
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

    # --- what can be at all

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
        """Why idle, healthy nodes with room for a unit and with devices for it are not the same."""
        if self._devices is None or not isinstance(self._place, TopologyStage):
            return ""
        if self._place.nodes != self._devices.nodes:
            return ""  # some are yet to be known
        asked = kind.sizes, kind.job.where, nodes
        reason = self._verdicts.get(asked)
        if reason is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            most = self._limits(kind, is_idle=True).most
            reason = self._verdicts[asked] = self._place.impossible(kind, nodes, False, most)
        return reason

    def forget(self) -> None:
        """The parts are made of something else now."""
        for stage in self.all:
            stage.forget()
        self._verdicts.clear()
        self.note_health()

    # --- nodes

    def nodes_beside(
        self, job: Job, placed: Iterable[PlacedPod], nodes: tuple[str, ...] = ()
    ) -> tuple[str, ...] | None:
        """The nodes that further pods of a job may use, which has to be in one domain; none: all.

        :param placed: the pods that have a place.
        :param nodes: the only ones to use otherwise; none: those that the job allows.
        :returns: ``None``: none is left.
        """
        used = {pod.node for pod in placed if pod.node}
        where = self._place.domain(job, used) if self._place is not None and used else None
        if where is None:
            return nodes
        allowed = nodes or job.where.nodes
        return tuple(sorted(where.intersection(allowed) if allowed else where)) or None

    def _nodes_for(self, kind: Kind) -> tuple[str, ...] | None:
        """The only nodes that units of a kind may use, of those that are there; None: all."""
        named = kind.job.where.nodes
        return tuple(filter(self.knows, named)) if named else None

    def knows(self, node: str) -> bool:
        """Whether all parts that have nodes know one."""
        return all(stage.knows(node) for stage in self._noded)

    def note_health(self) -> None:
        """Nodes have come, gone, failed or recovered."""
        if self._devices is not None:
            self._devices.usable = ()
            if self._place is not None and not self._devices.nodes <= self._place.nodes:
                self._devices.usable = tuple(sorted(self._devices.nodes & self._place.nodes))
        if self._sharing is not None:
            gone = [node for node in self._sharing.used_nodes() if not self.knows(node)]
            self._sharing.avoid(frozenset([*self.unhealthy(), *gone]))

    def unhealthy(self) -> tuple[str, ...]:
        """The nodes that some part has marked so or does not know, sorted; those that are gone
        are none.
        """
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
        """A node is lost, or back.

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
        """A node comes; see `Scheduler.add_node`."""
        add_node(self._place, self._devices, node, labels, free, inventory)
        for stage in self._noded:
            stage.forget()
        self._verdicts.clear()
        self.shun_missing([node])

    def remove_node(self, node: str) -> None:
        """A node has gone."""
        for stage in self.knowing(node):
            stage.remove_node(node)

    def shun_missing(self, nodes: Iterable[str]) -> None:
        """Mark nodes as unhealthy that only some parts know."""
        if self._place is not None and self._devices is not None:
            shun_missing(self._place, self._devices, nodes)

    def demand(self, unit: Unit) -> Any:
        """What those units have in common that would be answered alike."""
        if self._quotas is not None:
            return unit.kind.number  # what one may borrow another one may not
        job = unit.kind.job
        return job.roles, job.where, job.tenant, job.priority, job.guaranteed

    @property
    def places_by_cells(self) -> bool:
        """Whether cells place the pods."""
        return isinstance(self._place, CellStage)

    def room(self) -> Amount | float:
        """How many GPUs are idle, at most; inf: that is not known."""
        return self._place.room() if isinstance(self._place, TopologyStage) else inf

    # --- what waits for what

    def _tell(self, kind: Kind) -> None:
        """A unit of a kind has freed resources."""
        if self.listener:
            self.listener.touch(self.released(kind))

    def released(self, kind: Kind) -> Iterator[Key]:
        """What has happened when a unit of a kind frees its resources."""
        for stage in self.all:
            yield from stage.released(kind)

    def _tell_of_request(self) -> None:
        if self.listener and self._quotas is not None:
            self.listener.touch(self._quotas.requested())

    def able_to_share(self, kinds: Iterable[Kind]) -> Iterable[int]:
        """Of kinds that wait for others to share what they have those that can join them now."""
        return () if self._sharing is None else self._sharing.able(kinds)

    def known_refusal(self, kind: Kind) -> Refused | None:
        """Why units of a kind find nothing of their own, if that is known in this round."""
        return None if self._sharing is None else self._sharing.known_refusal(kind)

    def note_refusal(self, kind: Kind, refused: Refused) -> Refused:
        """Nobody can leave for units of a kind either; the same, as they may still share."""
        if self._sharing is None:
            return refused
        self._sharing.note_refusal(kind, refused)
        return self._or_shares(kind, refused)

    def begin_round(self) -> None:
        """Anything may have happened since the last round of decisions."""
        if self._sharing is not None:
            self._sharing.forget_refusals()

    def members(self, job: str) -> tuple[str, ...]:
        """A job and those that share its GPUs, the one first that holds them."""
        return (job,) if self._sharing is None else self._sharing.members(job)

    def holds(self, job: str) -> bool:
        """Whether a job has resources of its own, or shares those of another one."""
        return self.members(job)[0] == job

    def told_to_stop(self, job: str) -> None:
        """No job joins a job any more."""
        if self._sharing is not None:
            self._sharing.stop(job)

    def lacks(self) -> Lacks | None:
        """Where to note what quotas refuse; None: there are none."""
        return None if self._quotas is None else Lacks(self._quotas)

    def branched_lacks(self, lacks: Lacks) -> Lacks | None:
        """The lacks of another scheduler of which these stages are a branch."""
        return lacks.branch(self._quotas)

    def still_refused(self, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
        """Why a unit of a kind that waits is not worth a try, by the stage that refused; None: it
        is.
        """
        if self._quotas is not None and refusal.stage == self._quotas.name:
            again = self._quotas.still_refused(owner_of(name) if kind.is_lent else name)
            return again and self._or_shares(kind, again)
        for stage in self.all:
            if stage.name == refusal.stage and not stage.may_start(kind):
                return Refused(refusal, ())
        return None

    def _or_shares(self, kind: Kind, refused: Refused) -> Refused:
        """A refusal that may end when others share what they have."""
        if self._sharing is None:
            return refused
        return refused._replace(keys=(*refused.keys, *self._sharing.released(kind)))

    # --- a unit comes and goes

    def _each(self, action: str, of: Unit | Offer, *arguments: Any) -> None:
        """Call a method of all stages; an error names the stage that raised it."""
        for stage in self._acting[action]:
            try:
                getattr(stage, action)(of, *arguments)
            except BaseException as error:
                error.add_note(f"{stage.name}: {action} of {of.name!r}")
                raise

    def submit(self, unit: Unit) -> None:
        """A unit asks for its part from now on."""
        self._each("submit", unit)
        self._tell_of_request()

    def withdraw(self, unit: Unit) -> None:
        """A unit that waits asks for nothing any more."""
        self._each("withdraw", unit)
        self._tell_of_request()

    def start(self, unit: Unit, nodes: tuple[str, ...] = ()) -> Refused | Started:
        """Let a unit have what it asks for, or say why it cannot; then nothing has changed.

        :param nodes: the only ones to use; none: those that its job allows.
        """
        offer = self.propose(unit, nodes)
        if isinstance(offer, Refused):
            return offer
        self._each("commit", offer)
        unit.placed, unit.is_placed = offer.pods(), offer.is_placed
        self.begin(unit)
        return Started(tuple(offer.decisions.items()))

    def begin(self, unit: Unit) -> None:
        """A unit that has what it asked for runs from now on."""
        self._each("begin", unit)
        self._tell_of_sharing(unit)

    def _tell_of_sharing(self, unit: Unit) -> None:
        if self._sharing is not None and self.listener:
            self.listener.touch(self._sharing.released(unit.kind))

    def propose(self, unit: Unit, nodes: tuple[str, ...] = ()) -> Refused | Offer:
        """What all stages would give a unit, of which it has the devices already, or why not."""
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
                    # A unit that was let in earlier may ask for what there is no more.
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
        """Which of these is refused first when each in turn takes what it asks for, and why; None:
        none is. Nothing has changed then.
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
        """Whether a unit that gives back what it has can have the very same again."""
        is_alone = len(self._deciding) == 1 and self._storage is None
        return is_alone and isinstance(self._place, TopologyStage)

    def put_back(self, unit: Unit, placed: tuple[PlacedPod, ...]) -> bool:
        """Let a unit that has left be where it was, if it can; else nothing has changed."""
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
        """Let a unit share what others have, and ask for its part all the same; None: nothing has
        changed.
        """
        joined = None if self._sharing is None else self._sharing.join(unit)
        if joined is not None:
            unit.placed, unit.is_placed = joined.placed, False
            self._tell_of_sharing(unit)
        return joined

    def give_back(self, unit: Unit, *, end: bool, reclaimed: bool = False) -> str:
        """Take back what a running unit has, or hand it on to one with which it was shared.

        :param end: it asks for nothing any more; else it waits from now on.
        :param reclaimed: if it waits: another quota takes it back.
        :returns: who has it now; "": nobody, or those who had it before.
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
        """Take back where a unit is that shares with nobody; its quota goes on to count it."""
        self._vacate(unit, unit.is_placed)
        self._tell(unit.kind)

    def _vacate(self, unit: Unit, is_placed: bool) -> None:
        self._each("vacate", unit, is_placed)

    def rename(self, unit: Unit, old: str, new: str, is_placed: bool) -> None:
        """What somebody has who is like a unit is had under another name."""
        self._each("rename", unit, old, new, is_placed)

    def is_downgraded(self, unit: str) -> bool:
        """Whether cells have taken its guarantee from a unit that runs."""
        return any(stage.is_downgraded(unit) for stage in self.all)

    # --- what is held for a unit until others have stopped

    def hold(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Hold for a unit what it starts with when others have left; if it would not, nothing.

        :param leaving: what has to stop for it, and has something or shares it.
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
        for one in leaving:  # it may be more than the unit takes
            self._tell(one.kind)

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Hold nothing for a unit any more; it waits.

        :param leaving: those of whom something was held, as far as they have not left.
        """
        holding = [one for one in leaving if self.holds(one.name)]
        self._each("let_go", unit, holding)
        unit.placed, unit.is_placed = (), False
        self._tell(unit.kind)

    def fulfil(self, unit: Unit) -> Started | Refused:
        """Start a unit with what was held for it, now that the others have left.

        If it is refused, because somebody else has changed a part, it is held still.
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
        """Whether what a quota uses is taken off the total of the others."""
        return self._quotas is not None and self._quotas.is_outside(quota)

    def limit_changes(self, unit: Unit) -> Iterator[tuple[LimitChange, ...]]:
        """Limits of quotas that would have to be higher for a unit that they refuse."""
        tree = self._quotas and self._quotas.part
        if tree and tree.schedule(unit.request).outcome != "bind":
            for change in tree.explain(unit.request).changes:
                if change.kind == "limits":
                    yield change.limits

    def raise_limits(self, quota: str, limits: Sequence[LimitChange]) -> None:
        """Raise limits of a quota and those above it."""
        if self._quotas is not None:
            raise_limits(self._quotas.part, quota, limits)

    # --- sharing

    def may_share(self, kind: Kind) -> bool:
        """Whether units of a kind may share what others have."""
        return self._sharing is not None and bool(self._sharing.released(kind))

    def best_group(self, job: Job) -> Group | None:
        """The jobs on whose GPUs a job would run, if it shared them now."""
        return None if self._sharing is None else self._sharing.best(job)

    def unlike(self, jobs: Sequence[Job]) -> str:
        """Why jobs cannot share GPUs with one another; "": they can."""
        if self._sharing is None:
            return "share GPUs only where sharing was given"
        return self._sharing.unlike(jobs)

    def is_open(self, job: str) -> bool:
        """Whether others may come to where a running job is."""
        return self._sharing is not None and self._sharing.is_open(job)

    def share(self, unit: Unit, holder: Unit) -> None:
        """Let a unit share what another one has, which is like it."""
        assert self._sharing is not None
        unit.placed, unit.is_placed = self._sharing.share(unit, holder), False

    def regroup(self, units: Mapping[str, Unit], seconds: float) -> list[Move]:
        """Let jobs that share GPUs change places, and say which job goes where.

        :param units: by name those that run.
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
        """A unit goes elsewhere, with all that share what it has."""
        self._vacate(unit, is_placed)
        self._each("evict", unit, False)

    # --- storage

    def come(self, job: Job) -> None:
        """A job waits, and will read its data."""
        if self._storage is not None:
            self._storage.come(job)

    def go(self, job: str) -> None:
        """A job is gone."""
        if self._storage is not None:
            self._storage.go(job)

    def read(self, job: str, runs: bool) -> None:
        """A job reads its data from now on; or it waits, and will begin from nothing."""
        if self._storage is not None:
            self._storage.read(job, runs)

    @property
    def is_stale(self) -> bool:
        """Whether cache and remote IO have to be shared out again."""
        return self._storage is not None and self._storage.is_stale

    def allot(self, now: float) -> Sequence[SetCache | SetRemoteIO]:
        """Share out cache and remote IO if other jobs run now, or something was observed."""
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
        """What the other stages know, as plain data."""
        others = (self._storage, self._sharing)
        return {stage.name: stage.plain() for stage in others if stage is not None}

    def restore(self, data: Mapping[str, Any], units: Mapping[str, Unit]) -> None:
        """What plain data say, when it is known which jobs run and wait.

        :param units: by name those that run.
        """
        if self._storage is not None:
            self._storage.restore(data[self._storage.name])
        if self._sharing is not None:
            self._sharing.restore(data[self._sharing.name], units)
            self.note_health()
            self._sharing.restore_fresh(data[self._sharing.name])

    def check(self, audited: Audited) -> Iterator[str]:
        """Audit the parts, and say what they have other than the jobs have.

        :raises InvariantError: a part is not sound by itself.
        """
        for stage in self._deciding:
            stage.part.check()
        for stage in self.all:
            yield from stage.faults(audited)

    # --- what searches ask of all stages

    def nodes(self) -> tuple[str, ...]:
        """The nodes that some part has."""
        return tuple(dict.fromkeys(node for one in self.all for node in one.ordered_nodes()))

    def common_nodes(self) -> tuple[str, ...]:
        """The nodes that all parts with nodes have."""
        known = [nodes for one in self.all if (nodes := one.ordered_nodes())]
        common = frozenset(self.nodes()).intersection(*known)
        return tuple(node for node in self.nodes() if node in common)

    def dimensions(self, pods: Sequence[PlacedPod]) -> list[Dimension]:
        """What the parts count by node.

        :param pods: all pods that have a place.
        """
        return [dimension for one in self.all for dimension in one.dimensions(pods)]

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
        """Sets of nodes of which one has to hold a job; none: it may use all nodes together."""
        groups = [nodes for one in self.all for nodes in one.domains_for(job)]
        if sum(map(len, groups)) > len({node for nodes in groups for node in nodes}):
            groups = []  # chains that share nodes are counted together
        if job.where.nodes:
            allowed = frozenset(job.where.nodes)
            return tuple(allowed.intersection(nodes) for nodes in groups) or (allowed,)
        return tuple(map(frozenset, groups))

    @property
    def reclaims(self) -> bool:
        """Whether a part takes back what it has lent, and decides which priorities count."""
        return any(one.reclaims for one in self.all)

    def is_last(self, stage: str) -> bool:
        """Whether no part decides on a unit after the one of this name."""
        return self._deciding[-1].name == stage

    def not_admitted(self, unit: Unit) -> str:
        """Why a unit would not be admitted, wherever it is placed; "": it would."""
        return next(filter(None, (one.not_admitted(unit) for one in self.all)), "")

    def borrows(self, unit: Unit) -> bool:
        """Whether a unit uses, or would use, more than it is entitled to, or is not admitted."""
        return any(one.borrows(unit) for one in self.all)

    def overusers(self, jobs: Iterable[Job]) -> dict[str, bool]:
        """Those of these jobs that use what others are entitled to, and whether each of them would
        be evicted first.
        """
        names = [(job.name, job.quota) for job in jobs]
        return {name: first for one in self.all for name, first in one.overusers(names).items()}

    def overuse(self) -> dict[str, dict[str, Amount]]:
        """By quota that uses more than it is entitled to, by dimension how much more."""
        return {quota: more for one in self.all for quota, more in one.overuse().items()}

    def less_important(self, unit: Unit) -> tuple[str, ...]:
        """Units of lower priority without which a unit would be admitted; none: too few."""
        return next(filter(None, (one.less_important(unit) for one in self.all)), ())

    def has_less_important(self, unit: Unit) -> bool:
        """Whether any unit of lower priority uses the same quota."""
        return any(one.has_less_important(unit) for one in self.all)

    def has_opportunistic(self, unit: Unit, refusal: Refusal) -> bool:
        """Whether opportunistic units of other quotas use what a unit lacks that was refused."""
        return any(one.has_opportunistic(unit, refusal) for one in self.all)

    def uncharge(self, requests: Iterable[str]) -> None:
        """Charge nothing for units any more, given by the names that quotas know."""
        for request in requests:
            for one in self.all:
                one.uncharge(request)
