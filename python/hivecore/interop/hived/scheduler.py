"""HiveD's scheduler as its users know it: pods in, decisions out, over a `CellCluster`.

What a pod asks is read by `pods`, where its group goes is decided by the cluster, which pod of a
group goes where is kept by `seating`, and what all of it looks like is drawn by `inspect`.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from hivecore.cells import (
    CellCluster,
    ClusterSpec,
    Decision,
    Reconfiguration,
    Recovery,
)
from hivecore.errors import CorruptStateError, StaleDecisionError
from hivecore.interop.hived import bind_info, catalog, saved
from hivecore.interop.hived.config import HivedConfig
from hivecore.interop.hived.gangs import Gang, PodDecision, Row
from hivecore.interop.hived.inspect import Inspector, describe
from hivecore.interop.hived.pods import PodRequest, RequestError, identify, plain
from hivecore.interop.hived.problems import show
from hivecore.interop.hived.seating import Offer, Seating

__all__ = ["HivedScheduler"]


class HivedScheduler:
    """Schedules pods as HiveD does: affinity groups in virtual clusters, without its crashes.

    :param config: a `HivedConfig`, or what ``HivedConfig.read`` takes: a path, a text stream, or
        HiveD's configuration as a mapping.
    :param chain_order: the names of all chains in the order in which a pod that several of them
        could serve tries them; ``None``: as they stand in ``physicalCells``.
    :param initially_healthy: whether nodes are healthy before ``set_node`` says so. HiveD itself
        starts with all nodes bad and waits for the cluster's report.
    :param evictions: "least" puts few evictions before well-packed nodes, see `AffinityGroup`.
    :raises ConfigError: the configuration is wrong; lists every mistake.
    :raises ValueError: ``chain_order`` has not exactly the names of the chains, or ``evictions`` is
        no such value.
    :raises TypeError: an argument is of a wrong type.

    A *pod* is a string, best ``"namespace/name"``, or a mapping with ``name``, ``namespace``
    (default ``"default"``) and ``uid``, or a Kubernetes object that has them under ``metadata``.
    It is known, and named in answers, by its uid if it has one, else by ``"namespace/name"``.

    A *spec* is the mapping of HiveD's annotation pod-scheduling-spec: ``virtualCluster``,
    ``priority`` (-1 opportunistic, 0 to 1000 guaranteed, default 0), ``leafCellNumber``,
    ``leafCellType``, ``pinnedCellId``, ``lazyPreemptionEnable`` (default false),
    ``ignoreK8sSuggestedNodes`` (default true) and ``affinityGroup`` with ``name`` and ``members``
    (``podNumber``, ``leafCellNumber``); ``gpuNumber`` and ``gpuType`` are old names. Without
    ``affinityGroup`` the pod is a group of its own, named ``"namespace/name"``. Other names are
    ignored. Members of equal size are merged. What the first pod of a group declares holds.

    Deterministic: the same calls give the same answers. Beyond the decision of `CellCluster`, a
    call costs O(pods of the group). One object may be used by several threads: calls take turns.
    Source: HiveD (OSDI'20) and its open implementation.

    >>> scheduler = HivedScheduler({
    ...     "physicalCluster": {
    ...         "cellTypes": {"V100-NODE": {"childCellType": "V100", "childCellNumber": 4,
    ...                                     "isNodeLevel": True}},
    ...         "physicalCells": [{"cellType": "V100-NODE", "cellAddress": "node-0"}],
    ...     },
    ...     "virtualClusters": {
    ...         "A": {"virtualCells": [{"cellType": "V100-NODE", "cellNumber": 1}]},
    ...     },
    ... })
    >>> spec = {"virtualCluster": "A", "leafCellNumber": 3}
    >>> decision = scheduler.schedule("default/train", spec)
    >>> decision.outcome, decision.node, decision.leaf_cells
    ('bind', 'node-0', [0, 1, 2])
    >>> scheduler.allocate("default/train")
    >>> scheduler.schedule("default/more", spec).outcome
    'wait'
    >>> scheduler.schedule("default/urgent", {**spec, "priority": 9}).victims
    ['default/train']
    >>> scheduler.delete("default/train")
    """

    def __init__(
        self,
        config: Any,
        chain_order: Iterable[str] | None = None,
        *,
        initially_healthy: bool = True,
        evictions: Literal["packing", "least"] = "packing",
    ) -> None:
        self._initially_healthy = _flag(initially_healthy, "initially_healthy")
        self._config, spec = catalog.read(config, chain_order)
        self._cluster = CellCluster(spec, evictions=evictions)
        self._seating = Seating()
        self._reported: dict[str, bool] = {}
        self._lock = threading.RLock()
        self._take_up(spec)

    def _take_up(self, spec: ClusterSpec) -> None:
        """Derive what follows from the configuration, and tell the cluster of its nodes."""
        self._spec = spec
        self._catalog = catalog.Catalog(spec)
        self._inspector = Inspector(self._config, spec)
        for node in self._catalog.nodes:
            if not self._reported.get(node, self._initially_healthy):
                self._cluster.set_node_health(node, False)

    @property
    def config(self) -> HivedConfig:
        """The configuration in force."""
        return self._config

    # --- pods

    def schedule(
        self,
        pod: str | Mapping[str, Any],
        spec: Mapping[str, Any],
        phase: str = "Filtering",
        suggested_nodes: Iterable[str] | None = None,
    ) -> PodDecision:
        """Decide where this pod could go now.

        :param phase: "Filtering": nothing changes. "Preempting": an answer of "preempt" reserves
            its cells at once for the group, which holds them until all of its pods that asked are
            deleted, or a planned node is no longer healthy and suggested, or a higher priority
            takes over; the pod asks again when victims are gone. In phase "Filtering" such a lost
            node is not answered either: the pod goes elsewhere, and ``allocate`` moves the group,
            or it waits. (While victims are there, only health counts.)
        :param suggested_nodes: names of the only nodes to use, unknown ones too; ``None``: all.
            They count only where the spec says ``ignoreK8sSuggestedNodes: false``.
        :raises RequestError: the user's mistake: a spec that can never be served, such as a pod
            that is larger than the nodes of all chains it may use.
        :raises TypeError: ``suggested_nodes`` is not an iterable of names.

        A pod of an allocated group gets the lowest empty slot of its size, whatever has become of
        the node, and a bound pod its own again.
        """
        identity, name = identify(pod)
        request = PodRequest.read(spec, name)
        wanted: Any = phase
        if not isinstance(wanted, str) or wanted not in ("Filtering", "Preempting"):
            raise RequestError(f"phase={show(phase)}: allowed are 'Filtering' and 'Preempting'")
        with self._lock:
            seating = self._seating
            seat = seating.seats.get(identity)
            if seat is not None:
                _same_group(identity, "bound", seat.gang, request)
                return PodDecision.bind(seat.gang, seat.row, seat.slot)
            asked = seating.asking.get(identity)
            if asked is not None:
                _same_group(identity, "preempting", asked, request)
            gang = seating.gangs.get(request.group)
            if gang is not None and gang.preempting is None:
                row, slot = _empty_slot(gang, request.leaf_number)
                seating.offers[identity] = Offer(gang, row, slot, None)
                return PodDecision.bind(gang, row, slot)
            return self._place(identity, request, gang, phase == "Preempting", suggested_nodes)

    def _place(
        self,
        identity: str,
        request: PodRequest,
        gang: Gang | None,
        preempting: bool,
        suggested_nodes: Iterable[str] | None,
    ) -> PodDecision:
        """Decide for a pod whose group is not allocated."""
        if gang is not None:
            if request.leaf_number not in gang.rows:
                raise _no_slot(gang, request.leaf_number)
            declared, group = gang.request, gang.group
        else:
            self._catalog.check(request)
            if request.leaves > self._catalog.leaves:
                self._seating.offers.pop(identity, None)
                return PodDecision(
                    "wait",
                    reason=f"the group asks for {request.leaves} leaf cells, the cluster has "
                    f"{self._catalog.leaves}",
                )
            declared, group = request, request.as_group()
        if declared.ignore_suggested:
            suggested_nodes = None
        try:
            decision = self._cluster.schedule(
                group,
                phase="preempting" if preempting else "filtering",
                suggested_nodes=suggested_nodes,
            )
        except ValueError as error:  # it can never be served
            raise RequestError(f"spec: {error}") from None
        seating = self._seating
        seating.offers.pop(identity, None)
        if decision.outcome == "wait":
            if gang is not None and preempting:  # its reservation was given up in vain
                seating.forget(gang.name)
            return PodDecision("wait", reason=decision.reason)
        planned = Gang.place(declared, group, decision.placement)
        if gang is not None and gang.placement() == planned.placement():
            seating.ask(identity, gang)
        elif preempting:
            self._follow(identity, gang, planned, decision)
        row = planned.rows[request.leaf_number]
        if decision.outcome == "bind":
            seating.offers[identity] = Offer(planned, row, 0, decision)
            return PodDecision.bind(planned, row, 0)
        slot = row.slots[0]
        return PodDecision(
            "preempt",
            slot.node,
            list(slot.leaf_cells),
            slot.chain,
            decision.reason,
            planned.placement(),
            seating.victims(decision.victims),
        )

    def _follow(self, identity: str, gang: Gang | None, planned: Gang, decision: Decision) -> None:
        """Note the reservations that the cluster has made and given up in phase preempting."""
        seating = self._seating
        asked = [] if gang is None else list(gang.preempting or ())
        if gang is not None:
            seating.forget(gang.name)
        if decision.outcome == "preempt":
            for name in decision.cancels:
                seating.forget(name)
            planned.preempting = {}
            seating.gangs[planned.name] = planned
            for pod in [*asked, identity]:
                seating.ask(pod, planned)

    def allocate(self, pod: str | Mapping[str, Any]) -> None:
        """Commit the pod's last decision to bind: its cells, and those of its group, are taken.

        :raises RequestError: the pod's last decision was not to bind.
        :raises StaleDecisionError: the decision no longer fits; ask again. Nothing has changed.

        For a bound pod nothing happens.
        """
        identity, _ = identify(pod)
        with self._lock:
            seating = self._seating
            if identity in seating.seats:
                return
            offer = seating.offers.get(identity)
            if offer is None:
                raise RequestError(f"pod {identity!r} has no decision to bind: schedule it first")
            gang, row, slot, decision = offer
            live = seating.gangs.get(gang.name)
            if live is None or live.preempting is not None:
                if decision is None:
                    raise StaleDecisionError(f"group {gang.name!r} is gone")
                self._cluster.commit(decision)
                ended = () if live is None else (live.name,)
                for name in {*decision.cancels, *ended}:
                    seating.forget(name)
                seating.gangs[gang.name] = gang
            elif live is not gang:
                if live.placement() != gang.placement():
                    raise StaleDecisionError(f"group {gang.name!r} is placed elsewhere by now")
                gang, row = live, live.rows[row.leaf_number]
            if row.pods[slot] is not None:
                raise StaleDecisionError(f"pod {row.pods[slot]!r} has taken this slot")
            del seating.offers[identity]
            seating.sit(identity, gang, row, slot)

    def delete(self, pod: str | Mapping[str, Any]) -> None:
        """Forget a pod: a bound one empties its slot, a preempting one no longer asks.

        The last bound pod of a group releases all of its cells, the last preempting one cancels
        its preemption. For an unknown pod nothing happens.
        """
        identity, _ = identify(pod)
        with self._lock:
            seating = self._seating
            seating.offers.pop(identity, None)
            seat = seating.seats.pop(identity, None)
            if seat is not None:
                gang, row, slot = seat
                gang.clear(row, slot)
                if not gang.bound:
                    self._cluster.release(gang.name)
                    del seating.gangs[gang.name]
                return
            wanted = seating.asking.pop(identity, None)
            if wanted is not None and wanted.preempting is not None:
                del wanted.preempting[identity]
                if not wanted.preempting:
                    self._cluster.cancel(wanted.name)
                    del seating.gangs[wanted.name]

    def bind_info(self, pod: str | Mapping[str, Any]) -> dict[str, Any]:
        """HiveD's bind info of a pod that is bound or to be bound, as plain data for JSON or YAML.

        :raises RequestError: the pod is neither.

        Kept with the pod, it is all that ``recover`` needs after a restart.
        """
        identity, _ = identify(pod)
        with self._lock:
            place = self._seating.seats.get(identity) or self._seating.offers.get(identity)
            if place is None:
                raise RequestError(f"pod {identity!r} is not bound")
            return bind_info.write(place.gang, place.row.slots[place.slot])

    def recover(
        self, pod: str | Mapping[str, Any], spec: Mapping[str, Any], record: Mapping[str, Any]
    ) -> Recovery | None:
        """Take up a pod that is bound already, after a restart; in any order of the pods.

        :param record: what ``bind_info`` gave, or HiveD's own record.
        :returns: what became of the pod's group if this is its first pod, else ``None``.
        :raises RequestError: spec or record are wrong, the record's cells are another group's, or
            the pod has no slot in its group. Nothing has changed.

        Running pods are never given up: a leaf cell that no longer exists is left out, and a group
        whose virtual cells cannot be had runs on opportunistically, as a whole.
        """
        identity, name = identify(pod)
        request = PodRequest.read(spec, name)
        info = bind_info.BindInfo.read(record)
        if len(info.leaf_cells) != request.leaf_number:
            raise RequestError(
                f"bind_info: leafCellIsolation={list(info.leaf_cells)}, but the spec has "
                f"leafCellNumber={request.leaf_number}"
            )
        with self._lock:
            seating = self._seating
            seat = seating.seats.get(identity)
            if seat is not None:
                _same_group(identity, "bound", seat.gang, request)
                there = seat.row.slots[seat.slot]
                if (there.node, there.leaf_cells) != (info.node, info.leaf_cells):
                    raise RequestError(f"bind_info: pod {identity!r} is bound elsewhere by now")
                return None
            wanted = seating.asking.get(identity)
            if wanted is not None:
                _same_group(identity, "preempting", wanted, request)
            live = seating.gangs.get(request.group)
            known = live is not None and live.preempting is None
            gang = live if live is not None and known else info.table(request)
            row = gang.rows.get(request.leaf_number)
            slot = None if row is None else row.find(info.node, info.leaf_cells[0])
            if row is None or slot is None:
                raise RequestError(
                    f"bind_info: group {gang.name!r} has no slot on node {info.node!r} with leaf "
                    f"cells {list(info.leaf_cells)}"
                )
            if row.pods[slot] is not None:
                raise RequestError(f"bind_info: pod {row.pods[slot]!r} has this slot")
            recovery = None if known else self._book(gang)
            seating.offers.pop(identity, None)
            seating.sit(identity, gang, row, slot)
            return recovery

    def _book(self, gang: Gang) -> Recovery:
        """Recover a gang as its record says; a preemption of the same group gives way."""
        seating = self._seating
        preempting = gang.name in seating.gangs
        cluster = self._cluster.copy() if preempting else self._cluster
        if preempting:
            cluster.cancel(gang.name)
        try:
            recovery = cluster.recover(gang.group, gang.recorded())
        except StaleDecisionError:
            places = set(gang.places())
            others = [
                name
                for name, other in seating.gangs.items()
                if not places.isdisjoint(other.places())
            ]
            raise RequestError(
                f"bind_info: group {gang.name!r} has leaf cells that are used by {others}"
            ) from None
        if preempting:
            seating.forget(gang.name)
            seating.offers.clear()
            self._cluster = cluster
        seating.gangs[gang.name] = gang
        return recovery

    # --- hardware and configuration

    def set_node(self, node: str, healthy: bool) -> None:
        """Say that a node is ready and schedulable, or not; pods that are there stay.

        Nodes that are not in the configuration are remembered for a later ``reconfigure``.

        :raises TypeError: an argument is of a wrong type.
        """
        node, healthy = _text(node, "node"), _flag(healthy, "healthy")
        with self._lock:
            self._reported[node] = healthy
            if node in self._catalog.nodes:
                self._cluster.set_node_health(node, healthy)

    def reconfigure(self, config: Any, chain_order: Iterable[str] | None = None) -> Reconfiguration:
        """Go over to another configuration; every bound pod goes on running.

        :param config: as for the scheduler.
        :param chain_order: as for the scheduler.
        :returns: the groups that lost their guarantee, the leaf cells that no longer exist, and
            the groups whose preemption was cancelled.
        :raises ConfigError: the configuration is wrong; nothing has changed.
        :raises ValueError: ``chain_order`` has not exactly the names of the chains.

        Pods with decisions that are not allocated yet have to ask again.
        """
        config, spec = catalog.read(config, chain_order)
        with self._lock:
            change = self._cluster.reconfigure(spec)
            self._seating.offers.clear()
            for name in change.cancelled:
                self._seating.forget(name)
            self._config = config
            self._take_up(spec)
            return change

    # --- what there is

    def affinity_group(self, name: str) -> dict[str, Any] | None:
        """A live group, or ``None``.

        Its keys: name, virtual_cluster, priority, state ("Allocated", "Preempting" or
        "BeingPreempted"), guaranteed (whether it holds virtual cells), lazy_preempted_by (the group
        for which it lost them, itself if they are gone; or ``None``), placements (as
        ``PodDecision.group``, and the pod of each slot or ``None``), allocated_pods and
        preempting_pods (sorted).

        :raises TypeError: ``name`` is not a string.
        """
        name = _text(name, "name")
        with self._lock:
            gang, status = self._seating.gangs.get(name), self._cluster.group(name)
            return None if gang is None or status is None else describe(gang, status)

    def free_cells(self) -> dict[str, dict[str, list[str]]]:
        """Chain -> cell type -> addresses of the cells that are free as wholes.

        Free means not given to a virtual cell; opportunistic pods may be on them. Cells inside a
        listed one are not listed.
        """
        with self._lock:
            return {
                chain: {
                    level: [self._config.address(chain, level, int(i)) for i in cells]
                    for level, cells in levels.items()
                }
                for chain, levels in self._cluster.free_cells().items()
            }

    def unused_cells(self) -> dict[str, dict[str, dict[str, int]]]:
        """Virtual cluster -> chain -> cell type -> how many of its cells are not in use.

        These are whole preassigned cells without a physical one; pinned cells do not count.
        """
        with self._lock:
            return self._cluster.unused_cells()

    def status(self) -> dict[str, Any]:
        """HiveD's cluster status: every physical and virtual cell, as plain data for JSON."""
        with self._lock:
            physical, virtual = self._inspector.trees(self._cluster, self._seating.gangs)
            return {"physicalCluster": physical, "virtualClusters": virtual}

    def physical_cluster(self) -> list[dict[str, Any]]:
        """The physical part of ``status()``: the trees of all chains."""
        with self._lock:
            return self._inspector.trees(self._cluster, self._seating.gangs)[0]

    def virtual_clusters(self) -> dict[str, list[dict[str, Any]]]:
        """The virtual part of ``status()``: virtual cluster -> its trees."""
        with self._lock:
            return self._inspector.trees(self._cluster, self._seating.gangs)[1]

    def virtual_cluster(self, name: str) -> list[dict[str, Any]]:
        """The trees of one virtual cluster; raises `RequestError` where there is none."""
        name = _text(name, "name")
        trees = self.virtual_clusters()
        if name not in trees:
            raise RequestError(f"virtual cluster {name!r}: known are {sorted(trees)}")
        return trees[name]

    def affinity_groups(self) -> dict[str, Any]:
        """HiveD's list of all groups: ``{"items": [...]}`` in the order of their commits."""
        with self._lock:
            return {"items": self._inspector.groups(self._cluster, self._seating.gangs)}

    def affinity_group_status(self, name: str) -> dict[str, Any] | None:
        """HiveD's status of one group, or ``None``."""
        name = _text(name, "name")
        with self._lock:
            gang = self._seating.gangs.get(name)
            if gang is None:
                return None
            return self._inspector.groups(self._cluster, {name: gang})[0]

    # --- state

    def copy(self) -> Self:
        """An independent what-if branch. Decisions that are not allocated are left behind."""
        with self._lock:
            other = object.__new__(type(self))
            other.__dict__.update(self.__dict__)
            other._cluster = self._cluster.copy()
            other._reported = dict(self._reported)
            other._lock = threading.RLock()
            other._seating = self._seating.copy()
            return other

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Configuration, groups, pods and health as bytes, for ``from_bytes``.

        Decisions that are not allocated are left out.
        """
        with self._lock:
            return saved.encode(
                saved.SavedState(
                    self._config.document,
                    list(self._spec.chains),
                    self._initially_healthy,
                    self._reported,
                    self._cluster,
                    self._seating.gangs,
                )
            )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The scheduler whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        state = saved.decode(data)
        with saved.corrupt_if_it_fails():
            scheduler = cls(state.document, state.chains, initially_healthy=state.initially_healthy)
            spec = state.cluster.spec
            if spec != scheduler._spec or list(spec.chains) != state.chains:
                raise CorruptStateError("data: the cluster is not that of the configuration")
            scheduler._cluster = state.cluster
            scheduler._reported = state.reported
            scheduler._seating = Seating(state.gangs)
            scheduler.check()
        return scheduler

    def check(self) -> None:
        """Audit the cluster, and that gangs and pods agree with it.

        :raises InvariantError: something is inconsistent. Cost: O(cells + pods).
        """
        with self._lock:
            self._cluster.check()
            self._seating.check(self._cluster)


def _empty_slot(gang: Gang, leaf_number: int) -> tuple[Row, int]:
    row = gang.rows.get(leaf_number)
    slot = None if row is None else row.empty()
    if row is None or slot is None:
        raise _no_slot(gang, leaf_number)
    return row, slot


def _no_slot(gang: Gang, leaf_number: int) -> RequestError:
    row = gang.rows.get(leaf_number)
    return RequestError(
        f"spec: affinityGroup: group {gang.name!r} was declared with "
        f"{len(row.slots) if row else 0} pods of {leaf_number} leaf cells, this is one more"
    )


def _same_group(identity: str, state: str, gang: Gang, request: PodRequest) -> None:
    if gang.name != request.group:
        raise RequestError(
            f"spec: pod {identity!r} is {state} in group {gang.name!r}, not {request.group!r}"
        )


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    return plain(value)
