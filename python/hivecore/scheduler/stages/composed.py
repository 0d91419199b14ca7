"""The stages of a scheduler as one object."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from math import inf
from types import MappingProxyType
from typing import Any, Self, TypeVar

from hivecore._thousandths import Amount
from hivecore._trial import Trials, UndoLog
from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.dra import DraCluster
from hivecore.quotas import QuotaTree
from hivecore.scheduler.actions import PlacedPod
from hivecore.scheduler.job import Job
from hivecore.scheduler.sharing import Sharing
from hivecore.scheduler.stages._asking import answer, asks
from hivecore.scheduler.stages._counting import Dimension
from hivecore.scheduler.stages._verdicts import Verdicts
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.claims import ClaimStage
from hivecore.scheduler.stages.constraints import spreads, unenforced
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.limits import Limits
from hivecore.scheduler.stages.nodes import Place, add_node, shun_missing
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.sharing import SharingStage
from hivecore.scheduler.stages.stage import Audited, Listener, Stage
from hivecore.scheduler.stages.storage import StoragePool, StorageStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.scheduler.stages.units import Kind, Unit
from hivecore.topology import NetworkTopology

__all__ = ["NO_NODE", "Composed"]

#: All classes of stages.
_KINDS: tuple[type[Stage], ...] = (
    QuotaStage,
    CellStage,
    TopologyStage,
    DeviceStage,
    ClaimStage,
    StorageStage,
    SharingStage,
)
#: The methods of a stage that change the state of a unit.
_ACTIONS = (
    *("submit", "withdraw", "evict", "commit", "begin", "vacate", "rename"),
    *("hold", "let_go", "check_holds", "adopt", "rebook"),
)
_ACTIONS_OF = {
    kind: [name for name in _ACTIONS if getattr(kind, name) is not getattr(Stage, name)]
    for kind in _KINDS
}
_Part = TypeVar("_Part")
NO_NODE = "none of the nodes that it may use is there"


class Composed(Trials):
    """The stages; each is optional.

    :param stages: in the order in which they decide.
    :param tries: how often placement decides on a unit at most.
    :param growing: whether nodes may be added, and totals may grow.
    :param log: undoes changes of the stages; ``None``: a new log.
    """

    #: the parts have their own locks
    _lock = nullcontext()

    not_admitted = asks(QuotaStage, QuotaStage.not_admitted, "")
    borrows = asks(QuotaStage, QuotaStage.borrows, False)
    overusers = asks(QuotaStage, QuotaStage.overusers, {})
    overuses = asks(QuotaStage, QuotaStage.overuses, False)
    overuse = asks(QuotaStage, QuotaStage.overuse, {})
    is_lending = asks(QuotaStage, QuotaStage.is_lending, False)
    lending = asks(QuotaStage, QuotaStage.lending, frozenset())
    less_important = asks(QuotaStage, QuotaStage.less_important, ())
    has_less_important = asks(QuotaStage, QuotaStage.has_less_important, False)
    may_be_admitted = asks(QuotaStage, QuotaStage.may_be_admitted, False)
    is_outside = asks(QuotaStage, QuotaStage.is_outside, False)
    uncharge = asks(QuotaStage, QuotaStage.uncharge, None)
    note_passing = asks(QuotaStage, QuotaStage.note_passing, None)
    is_downgraded = asks(CellStage, CellStage.is_downgraded, False)
    available = asks(CellStage, CellStage.available, inf)
    room = asks(TopologyStage, TopologyStage.room, inf)
    may_share = asks(SharingStage, SharingStage.may_share, False)
    able_to_share = asks(SharingStage, SharingStage.able, iter(()))
    known_refusal = asks(SharingStage, SharingStage.known_refusal, None)
    begin_round = asks(SharingStage, SharingStage.forget_refusals, None)
    close_group = asks(SharingStage, SharingStage.stop, None)
    best_group = asks(SharingStage, SharingStage.best, None)
    unlike = asks(SharingStage, SharingStage.unlike, "share GPUs only where sharing was given")
    is_open = asks(SharingStage, SharingStage.is_open, False)
    come = asks(StorageStage, StorageStage.come, None)
    go = asks(StorageStage, StorageStage.go, None)
    read_otherwise = asks(StorageStage, StorageStage.amend, None)
    read = asks(StorageStage, StorageStage.read, None)
    allot = asks(StorageStage, StorageStage.allot, ())

    def __init__(
        self,
        stages: Iterable[Stage],
        tries: int,
        growing: bool = False,
        log: UndoLog | None = None,
    ) -> None:
        self.tries, self.growing, self.log = tries, growing, log or UndoLog()
        self.all = [*stages]
        self.of_kind: dict[type[Any], Any] = {type(stage): stage for stage in self.all}
        answer(self)
        stage_of = self.of_kind.get
        self._quotas: QuotaStage | None = stage_of(QuotaStage)
        self._place: Place | None = stage_of(CellStage) or stage_of(TopologyStage)
        self._devices: DeviceStage | None = stage_of(DeviceStage)
        self._claims: ClaimStage | None = stage_of(ClaimStage)
        self._storage: StorageStage | None = stage_of(StorageStage)
        self._sharing: SharingStage | None = stage_of(SharingStage)
        for stage in self.all:
            stage.log = self.log
        #: see `is_whole`; None: unknown, as nodes have changed
        self._is_whole: bool | None = None
        #: whether jobs with different iteration stages have different kinds
        self.by_stages = self._sharing is not None
        self._cells: CellStage | None = stage_of(CellStage)
        self.places_by_cells = self._cells is not None
        #: whether quotas reclaim what was borrowed, and decide which priorities count
        self.reclaims = self._quotas is not None
        #: whether a start may make a quota exceed its runtime
        self.may_exceed = self._quotas is not None and not self._quotas.is_kept
        #: resources that pods take from the "host" device of their node
        self.hosts = frozenset[str]() if self._devices is None else self._devices.hosts
        #: as for `gpu_amount`
        self.gpu_memory: int | None = 0 if self._devices is None else self._devices.gpu_memory
        if self.places_by_cells:
            self.gpu_memory = None
        #: the stages that decide on starts, and those that have nodes
        self._deciding = [stage for stage in self.all if stage.part is not None]
        self._noded = [stage for stage in self.all if stage.nodes is not None]
        self._parts = [stage.part for stage in self._deciding]
        #: names of the parts that decide on starts
        self.names = [stage.name for stage in self._deciding]
        #: why placement and devices together cannot serve kinds, by request
        self._verdicts = Verdicts()
        #: how to set a mark in all parts, in order, and to end it, in reverse order
        self._marking = [(part._lock.__enter__, part._mark) for part in self._parts]
        self._ending = [
            (part._rewind, part._keep, part._lock.__exit__) for part in reversed(self._parts)
        ]
        #: for each action, the stages that take part in it: name and bound method
        self._acting: dict[str, list[tuple[str, Callable[..., None]]]] = {
            action: [
                (stage.name, getattr(stage, action))
                for stage in self.all
                if action in _ACTIONS_OF[type(stage)]
            ]
            for action in _ACTIONS
        }
        #: whether quotas, cells and devices alone decide on starts
        self.is_plain = self._devices is not None and all(
            stage in (self._quotas, self._cells, self._devices) for stage in self._deciding
        )
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
        claims: DraCluster | None = None,
        claims_mode: str = "first",
    ) -> Self:
        """The stages for these parts; ``gpu_memory``: bytes by GPU, ``None``: as nodes have now."""
        stages: list[Stage] = [] if quotas is None else [QuotaStage(quotas)]
        gpus = None if devices is None else DeviceStage(devices, hosts, gpu_memory)
        if cells is not None:
            stages.append(CellStage(cells))
        elif topology is not None:
            stages.append(TopologyStage(topology, 0 if gpus is None else gpus.gpu_memory))
        if gpus is not None:
            stages.append(gpus)
        if claims is not None:
            is_alone = all(stage.nodes is None for stage in stages)
            stages.append(ClaimStage(claims, is_alone, claims_mode))
        if storage is not None:
            stages.append(StorageStage(storage))
        if sharing is not None:
            stages.append(SharingStage(sharing, quotas is not None, cells is not None))
        parts = cls(stages, tries, growing)
        parts.note_health()
        return parts

    def branch(self) -> Self:
        """A copy that shares nothing."""
        return type(self)([stage.branch() for stage in self.all], self.tries, self.growing)

    def without_quotas(self) -> Self:
        """The stages without quotas, for jobs that move: they stay admitted."""
        return self._without(QuotaStage)

    def without_devices(self) -> Self | None:
        """The stages without devices; ``None`` if there are no devices."""
        return None if self._devices is None else self._without(DeviceStage)

    def _without(self, *kinds: type[Stage]) -> Self:
        """The stages that decide on starts, without these classes, on the same parts."""
        stages = (stage for stage in self.all if not isinstance(stage, (StorageStage, *kinds)))
        parts = type(self)(stages, self.tries, log=self.log)
        parts.listener = self.listener
        return parts

    def find(self, kind: type[_Part]) -> _Part | None:
        """The part of a type; None if there is none."""
        return next((part for part in self._parts if isinstance(part, kind)), None)

    # --- trials

    def mark(self) -> list[Any]:
        """Set a mark for `rewind` or `keep`; until then other threads wait for the parts."""
        marks = []
        for lock, mark in self._marking:
            lock()
            marks.append(mark())
        self.log.mark()
        return marks

    def rewind(self, marks: list[Any]) -> None:
        """Undo all changes of the parts since the last mark. Units are not restored."""
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

    def _mark(self) -> tuple[Any, ...]:
        before, self.listener = self.listener, None
        return before, self.mark()

    def _rewind(self, mark: tuple[Any, ...]) -> None:
        self.listener, marks = mark
        self.rewind(marks)

    # --- what is possible

    def unenforced(self, job: Job) -> str:
        """A constraint of a job that no part enforces; "" if all are enforced."""
        return unenforced(job, self.all, _KINDS)

    def counted(self, job: Job) -> frozenset[str]:
        """The resources of a job's roles that some part limits."""
        names = {resource for role in job.roles for resource, _ in role.resources}
        return frozenset(name for name in names if any(of.counts(job, name) for of in self.all))

    def places(self, job: Job) -> bool:
        """Whether some part chooses nodes for pods of a job."""
        return any(stage.chooses_node(role) for role in job.roles for stage in self.all)

    def spreads(self, job: Job) -> bool:
        """Whether parts enforce the limits of pods per node of a job."""
        return spreads(job, self.all)

    def impossible(
        self, kind: Kind, growing: bool | None = None, *, only_quotas: bool = False
    ) -> str:
        """Why units of this kind would wait forever; "" if they would not.

        :param growing: whether nodes may be added; ``None``: as the scheduler says.
        :param only_quotas: the other stages are known to serve such a kind.
        """
        growing = self.growing if growing is None else growing
        if only_quotas:
            return "" if self._quotas is None else self._quotas.impossible(kind, (), growing)
        nodes = self._nodes_for(kind)
        if nodes == () and not growing:
            return NO_NODE
        reasons = (self._impossible_in(stage, kind, nodes or (), growing) for stage in self.all)
        reason = next(filter(None, reasons), "")
        return reason or ("" if growing else self._impossible_together(kind, nodes or ()))

    def _impossible_in(
        self, stage: Stage, kind: Kind, nodes: tuple[str, ...], growing: bool
    ) -> str:
        if self._place is None or stage is not self._place or not kind.is_spread:
            return stage.impossible(kind, nodes, growing)
        try:
            most = Limits(self._place, None, None, kind, is_idle=True).most
        except ValueError as error:
            return str(error.args[0])
        return self._place.impossible(kind, nodes, growing, most)

    def _impossible_together(self, kind: Kind, nodes: tuple[str, ...]) -> str:
        """Why no idle, healthy nodes have room for a unit with its devices; "": some have."""
        if not isinstance(self._place, TopologyStage) or not (self._devices or self._claims):
            return ""
        if self._devices is not None and self._place.nodes != self._devices.nodes:
            return ""  # some nodes are not added yet
        place = self._place

        def find() -> str:
            return place.impossible(kind, nodes, False, self._limits(kind, is_idle=True).most)

        return self._verdicts.of((kind.sizes, kind.job.where, nodes), find)

    def _limits(
        self,
        kind: Kind,
        is_idle: bool = False,
        beside: Mapping[tuple[str, str], int] = MappingProxyType({}),
    ) -> Limits:
        assert self._place is not None
        return Limits(self._place, self._devices, self._claims, kind, is_idle, beside)

    def forget(self, *, only_quotas: bool = False) -> None:
        """Forget what was derived from the parts, or only from quotas, as they have changed."""
        if only_quotas and self._quotas is not None:
            self._quotas.forget()
            return
        for stage in self.all:
            stage.forget()
        self._verdicts.clear()
        self.note_health()

    # --- nodes

    def nodes_beside(
        self, job: Job, placed: Iterable[PlacedPod], nodes: tuple[str, ...] = ()
    ) -> tuple[str, ...] | None:
        """The nodes that further pods of a job may use if one domain must hold it; empty: all.

        :param placed: pods of the job that are placed.
        :param nodes: the allowed nodes; empty: those that the job allows.
        :returns: ``None`` if no node is left.
        """
        used = {pod.node for pod in placed if pod.node}
        where = self._place.domain(job, used) if self._place is not None and used else None
        if where is None:
            return nodes
        allowed = nodes or job.where.nodes
        return tuple(sorted(where.intersection(allowed) if allowed else where)) or None

    def _nodes_for(self, kind: Kind) -> tuple[str, ...] | None:
        """The existing nodes that a kind may use; None: all."""
        named = kind.job.where.nodes
        return tuple(filter(self.knows, named)) if named else None

    @property
    def has_nodes(self) -> bool:
        """Whether some part has nodes."""
        return bool(self._noded)

    def knows(self, node: str) -> bool:
        """Whether all parts with nodes know a node."""
        return all(stage.knows(node) for stage in self._noded)

    def note_health(self) -> None:
        """Update what depends on the nodes and their health."""
        self.log.set(self, "_is_whole", None)
        if self._devices is not None:
            devices, nodes = self._devices, self._devices.nodes
            devices.unplaced = frozenset() if self._place is None else nodes - self._place.nodes
            devices.usable = tuple(sorted(nodes - devices.unplaced)) if devices.unplaced else ()
        if self._sharing is not None:
            gone = [node for node in self._sharing.used_nodes() if not self.knows(node)]
            self._sharing.avoid(frozenset([*self.unhealthy(), *gone]))

    @property
    def is_whole(self) -> bool:
        """Whether all nodes are healthy."""
        if self._is_whole is None:
            self._is_whole = not self.unhealthy()
        return self._is_whole

    def unhealthy(self) -> tuple[str, ...]:
        """Nodes that are unhealthy in, or unknown to, some part, sorted; without removed nodes."""
        nodes = {node for stage in self._noded for node in stage.unhealthy()}
        if self._place is not None and self._devices is not None:
            if self._place.keeps_nodes:
                nodes = set(filter(self._devices.knows, nodes))
            nodes |= self._devices.unplaced
        return tuple(sorted(nodes))

    def usable(self, nodes: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...] | None:
        """The healthy nodes among these, or among the known nodes; None: all nodes are healthy."""
        if self.is_whole and all(stage is self._claims for stage in self._noded):
            return nodes or None
        bad = set(self.unhealthy())
        return tuple(node for node in nodes or known if node not in bad and self.knows(node))

    def knowing(self, node: str) -> list[Stage]:
        """The stages that have a node; KeyError if none has it."""
        known = [stage for stage in self._noded if stage.knows(node)]
        is_gone = len(known) < len(self._noded) and all(stage.keeps_nodes for stage in known)
        if is_gone or not known:
            raise KeyError(f"node={node!r}: no part knows it")
        return known

    def set_health(self, node: str, healthy: bool) -> None:
        """Record that a node failed or recovered; KeyError if no part has it."""
        for stage in self.knowing(node):
            stage.set_health(node, healthy)
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
        self.log.set(self, "_is_whole", None)
        self.shun_missing([node])

    def remove_node(self, node: str) -> None:
        """Remove a node."""
        self.log.set(self, "_is_whole", None)
        for stage in self.knowing(node):
            stage.remove_node(node)

    def shun_missing(self, nodes: Iterable[str]) -> None:
        """Mark nodes as unhealthy that only some parts know."""
        if self._place is not None and self._devices is not None:
            shun_missing(self._place, self._devices, nodes)

    def demand(self, unit: Unit) -> Any:
        """A key of units that get the same decision."""
        if self._quotas is not None:
            return unit.kind.number  # units may differ in whether they may borrow
        job = unit.kind.job
        return job.roles, job.where, job.tenant, job.priority, job.guaranteed

    # --- the whole state

    @property
    def claims_mode(self) -> str:
        """How claims choose devices; "first" without claims."""
        return "first" if self._claims is None else self._claims.mode

    def to_bytes(self) -> list[bytes]:
        """The states of the parts that decide on starts."""
        return [part.to_bytes() for part in self._parts]

    def plain(self) -> dict[str, Any]:
        """The states of the other stages as plain data."""
        others = (self._storage, self._sharing, self._claims)
        return {stage.name: stage.plain() for stage in others if stage is not None}

    def restore(self, data: Mapping[str, Any], units: Mapping[str, Unit]) -> None:
        """Restore the other stages, once running units, by name, and waiting ones are known."""
        if self._storage is not None:
            self._storage.restore(data[self._storage.name])
        if self._claims is not None:
            self._claims.restore(data[self._claims.name])
            self.note_health()
        if self._sharing is not None:
            self._sharing.restore(data[self._sharing.name], units)
            self.note_health()
            self._sharing.restore_fresh(data[self._sharing.name])

    def check(self, audited: Audited) -> Iterator[str]:
        """Audit the parts, and yield differences between them and the jobs."""
        for stage in self._deciding:
            stage.part.check()
        for stage in self.all:
            yield from stage.faults(audited)

    # --- for searches

    def nodes(self) -> tuple[str, ...]:
        """The nodes of all parts."""
        return tuple(dict.fromkeys(node for stage in self.all for node in stage.ordered_nodes()))

    def common_nodes(self) -> tuple[str, ...]:
        """The nodes that all parts with nodes have."""
        known = [nodes for stage in self.all if (nodes := stage.ordered_nodes())]
        common = frozenset(self.nodes()).intersection(*known)
        return tuple(node for node in self.nodes() if node in common)

    def dimensions(self) -> list[Dimension]:
        """The resources that the parts count on nodes."""
        return [dimension for stage in self.all for dimension in stage.dimensions()]

    def idle_gpus(self) -> dict[str, int]:
        """The number of idle GPUs by node, as devices count, else cells or a network."""
        return next(filter(None, (stage.idle_gpus() for stage in reversed(self.all))), {})

    def domains(self, layer: str) -> dict[str, tuple[str, ...]]:
        """The nodes of each domain of a layer; "node": each node alone.

        If a domain of a network shares its name with others, the names of the domains around it are
        put in front, joined by "/". A cell is named by its chain and number, like "H100/0".

        :raises KeyError: the layer does not exist, or is below nodes.
        """
        domains: dict[str, tuple[str, ...]] = {}
        if layer == "node":
            domains = {node: (node,) for node in self.nodes()}
        for stage in self.all:
            domains = domains or stage.domains(layer)
        if not domains:
            raise KeyError(f"layer={layer!r}: there are no such domains of nodes")
        return domains

    def domains_for(self, job: Job) -> tuple[frozenset[str], ...]:
        """Domains, one of which must hold a job; empty: all nodes are one domain."""
        groups = [nodes for stage in self.all for nodes in stage.domains_for(job)]
        if sum(map(len, groups)) > len({node for nodes in groups for node in nodes}):
            groups = []  # chains that share nodes are counted together
        if job.where.nodes:
            allowed = frozenset(job.where.nodes)
            return tuple(allowed.intersection(nodes) for nodes in groups) or (allowed,)
        return tuple(map(frozenset, groups))
