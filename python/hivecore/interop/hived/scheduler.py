"""HiveD's scheduler as its users know it: pods in, decisions out, over a `CellCluster`.

What a pod asks is read by `pods`, where its group goes is decided by the cluster, which pod of a
group goes where is kept by `placed_groups`, what all of it looks like is drawn by `inspection`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from hivecore._arguments import as_bool, as_text
from hivecore.cells import (
    AffinityGroup,
    CellCluster,
    GroupDecision,
    NodeSet,
    Reconfiguration,
    Recovery,
)
from hivecore.decisions import Outcome
from hivecore.errors import StaleDecisionError
from hivecore.interop.hived import bind_info, catalog
from hivecore.interop.hived.hived_ledger import HivedLedger
from hivecore.interop.hived.placed_groups import PlacedGroup, PlacedGroups, Seat
from hivecore.interop.hived.pod_decision import PodDecision
from hivecore.interop.hived.pods import PodRequest
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.pods import PodId, RequestError, identify

__all__ = ["HivedScheduler", "OfferedNodes", "Outlook"]


class OfferedNodes(Protocol):
    """Nodes of which it is mostly asked whether one is among them, and seldom which they are."""

    def __contains__(self, name: object, /) -> bool:
        """Whether a node of this name is among them."""

    def node_set(self) -> NodeSet:
        """All of them."""


class _InSpec:
    """Names the spec as the place of what can never be served."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, ValueError) and not isinstance(error, RequestError):
            raise RequestError(f"spec: {error}") from None


_IN_SPEC = _InSpec()


class HivedScheduler(HivedLedger):
    """Schedules pods as HiveD does: affinity groups in virtual clusters, without its crashes.

    :param config: a `HivedConfig`, or what ``HivedConfig.read`` takes: a path, a text stream, or
        HiveD's configuration as a mapping.
    :param chain_order: the names of all chains in the order in which a pod that several of them
        could serve tries them; ``None``: as they stand in ``physicalCells``.
    :param initially_healthy: whether nodes are healthy before ``set_node`` says so. HiveD itself
        starts with all nodes bad and waits for the cluster's report.
    :param evictions: "least" puts few evictions before well-packed nodes, "private" before both the
        nodes of a private cluster, see `AffinityGroup`.
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
    ``affinityGroup`` the pod is a group of its own, named ``"namespace/name"``. ``version`` and
    ``gangReleaseEnable`` are ignored, other names are refused. Members of equal size are merged.
    What the first pod of a group declares holds.

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

    # --- pods

    def schedule(
        self,
        pod: str | PodId | Mapping[str, Any],
        spec: Mapping[str, Any],
        phase: str = "Filtering",
        suggested_nodes: Iterable[str] | NodeSet | OfferedNodes | None = None,
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

        A pod of an allocated group gets the lowest empty slot of its size on a suggested node, or
        else the lowest one, whatever has become of the node, and a bound pod its own again.
        """
        identity, name = identify(pod)
        request = PodRequest.read(spec, name)
        offered: Any = suggested_nodes
        if offered is not None and not hasattr(offered, "node_set"):
            with self._lock:
                last = self._offered
            # The caller's iterator runs while others may have their turn.
            offered = NodeSet.of(offered, "suggested_nodes", last)
        wanted: Any = phase
        if not isinstance(wanted, str) or wanted not in ("Filtering", "Preempting"):
            raise RequestError(f"phase={show(phase)}: allowed are 'Filtering' and 'Preempting'")
        with self._lock, _IN_SPEC:
            if isinstance(offered, NodeSet):
                self._keep(offered)
            seat = self._groups.find(identity, request, offered)
            if seat is not None:
                self._groups.offer(identity, seat)
                return _answered("bind", seat)
            live = self._groups.live.get(request.gang)
            if live is None:
                self._catalog.check(request)
                if request.leaves > self._catalog.leaves:
                    self._groups.offers.pop(identity, None)
                    return PodDecision(
                        "wait", reason=self._catalog.hopeless(request), hopeless=True
                    )
            declared = request if live is None else live.declared
            group = request.as_group() if live is None else live.request
            nodes = None
            if offered is not None and not declared.ignore_suggested:
                nodes = offered if isinstance(offered, NodeSet) else offered.node_set()
            decision = self._decide(group, phase, nodes)
            seat = self._groups.take_up(identity, request, decision, phase == "Preempting", offered)
            if seat is None and live is None:
                reason = self._catalog.hopeless(request)
                if reason:
                    return PodDecision("wait", reason=reason, hopeless=True)
            victims = self._groups.bound_pods(decision.victims)
            return _answered(decision.outcome, seat, decision.reason, victims)

    def _keep(self, offered: NodeSet) -> None:
        """Keep nodes for the next pod if the last one was offered such; else they cost too much."""
        ends = offered.ends
        self._offered = offered if ends == self._ends else None
        self._ends = ends

    def _decide(
        self, group: AffinityGroup, phase: str, suggested_nodes: Iterable[str] | NodeSet | None
    ) -> GroupDecision:
        """Decide for a group that is not allocated."""
        cluster = self._cluster
        waits = suggested_nodes is not None and phase == "Filtering" and group.name in cluster
        if waits and cluster.group(group.name).victims:
            # Nodes that its victims still fill are not suggested: only health counts for them.
            decision = cluster.schedule(group)
            if group.name not in decision.cancels and decision.outcome != "wait":
                return decision
        return cluster.schedule(group, suggested_nodes=suggested_nodes)

    def outlook(self) -> "Outlook":
        """What pods would get that asked now, one after the other; nothing changes here."""
        with self._lock:
            return Outlook(self._catalog, self._groups, self._cluster.copy(), self._lock)

    def allocate(self, pod: str | PodId | Mapping[str, Any]) -> None:
        """Commit the pod's last decision to bind: its cells, and those of its group, are taken.

        :raises RequestError: the pod's last decision was not to bind.
        :raises StaleDecisionError: the decision no longer fits; ask again. Nothing has changed.

        For a bound pod nothing happens.
        """
        identity, _ = identify(pod)
        with self._lock:
            self._groups.allocate(identity)

    def delete(self, pod: str | PodId | Mapping[str, Any]) -> None:
        """Forget a pod: a bound one empties its slot, a preempting one no longer asks.

        The last bound pod of a group releases all of its cells, the last preempting one cancels
        its preemption. For an unknown pod nothing happens.
        """
        identity, _ = identify(pod)
        with self._lock:
            self._groups.delete(identity)

    def bind_info(self, pod: str | PodId | Mapping[str, Any]) -> dict[str, Any]:
        """HiveD's bind info of a pod that is bound or to be bound, as plain data for JSON or YAML.

        :raises RequestError: the pod is neither.

        Kept with the pod, it is all that ``recover`` needs after a restart.
        """
        identity, _ = identify(pod)
        with self._lock:
            seat = self._groups.seats.get(identity) or self._groups.offers.get(identity)
            if seat is None:
                raise RequestError(f"pod {identity!r} is not bound")
            return bind_info.write(seat)

    def recover(
        self,
        pod: str | PodId | Mapping[str, Any],
        spec: Mapping[str, Any],
        record: Mapping[str, Any],
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
        request = PodRequest.read(spec, name, strict=False)
        info = bind_info.BindInfo.read(record)
        if len(info.leaf_cells) != request.leaf_number:
            raise RequestError(
                f"bind_info: leafCellIsolation={list(info.leaf_cells)}, but the spec has "
                f"leafCellNumber={request.leaf_number}"
            )
        with self._lock, _IN_SPEC:
            seat = self._groups.own_seat(identity, request)
            if seat is not None:
                if (seat.place.node, seat.place.leaf_indices) != (info.node, info.leaf_cells):
                    raise RequestError(f"bind_info: pod {identity!r} is bound elsewhere by now")
                return None
            live = self._groups.live.get(request.gang)
            known = live is not None and live.preempting is None
            group = live if live is not None and known else info.table(request)
            slots = group.slots.get(request.leaf_number)
            index = None if slots is None else info.index_in(slots)
            if slots is None or index is None:
                raise RequestError(
                    f"bind_info: group {group.name!r} has no slot on node {info.node!r} with leaf "
                    f"cells {list(info.leaf_cells)}"
                )
            if slots.pods[index] is not None:
                raise RequestError(f"bind_info: pod {slots.pods[index]!r} has this slot")
            recovery = None if known else self._book(group)
            self._groups.bind(identity, group, slots, index)
            return recovery

    def _book(self, group: PlacedGroup) -> Recovery:
        """Recover a group as its record says; a preemption of the same group gives way."""
        groups = self._groups
        preempting = group.name in groups.live
        cluster = self._cluster.copy() if preempting else self._cluster
        if preempting:
            cluster.cancel(group.name)
        try:
            recovery = cluster.recover(group.request, [place for place, _ in group.taken()])
        except StaleDecisionError:
            leaves = set(group.leaves())
            others = [
                name for name, other in groups.live.items() if not leaves.isdisjoint(other.leaves())
            ]
            raise RequestError(
                f"bind_info: group {group.name!r} has leaf cells that are used by {others}"
            ) from None
        if preempting:
            groups.forget(group.name)
            groups.given_up += 1
            groups.offers.clear()
            self._cluster = groups.cluster = cluster
        return recovery

    def set_node(self, node: str, healthy: bool) -> None:
        """Say whether a node is ready and schedulable; if not, new pods avoid it, bound pods stay.

        Nodes that are not in the configuration are remembered for a later ``reconfigure``.

        :raises TypeError: an argument is of a wrong type.
        """
        node, healthy = as_text(node, "node"), as_bool(healthy, "healthy")
        with self._lock:
            self._reported[node] = healthy
            if node in self._catalog.nodes:
                self._cluster.set_health(node, healthy)

    def reconfigure(self, config: Any, chain_order: Iterable[str] | None = None) -> Reconfiguration:
        """Go over to another configuration; every bound pod goes on running.

        :param config: as for the scheduler.
        :param chain_order: as for the scheduler.
        :returns: the groups that lost their guarantee, the leaf cells that no longer exist, the
            groups whose preemption was cancelled, and the groups that have a guarantee again.
        :raises ConfigError: the configuration is wrong; nothing has changed.
        :raises ValueError: ``chain_order`` has not exactly the names of the chains.

        Pods with decisions that are not allocated yet have to ask again.
        """
        config, spec = catalog.read(config, chain_order)
        with self._lock:
            change = self._cluster.reconfigure(spec)
            self._groups.offers.clear()
            for name in change.cancelled:
                self._groups.forget(name)
            self._config = config
            self._take_up(spec)
            return change


class Outlook:
    """What pods would get if they asked one after the other, and were bound as answered.

    From `HivedScheduler.outlook`; what happens to the scheduler later is not seen.
    """

    def __init__(
        self, known: catalog.Catalog, groups: PlacedGroups, cluster: CellCluster, lock: Any
    ) -> None:
        self._catalog, self._groups, self._cluster, self._lock = known, groups, cluster, lock

    def outcome(self, pod: str | PodId | Mapping[str, Any], spec: Mapping[str, Any]) -> Outcome:
        """What ``HivedScheduler.schedule`` would answer in phase "Filtering".

        :raises RequestError: as ``schedule``.
        """
        identity, name = identify(pod)
        request = PodRequest.read(spec, name)
        with self._lock, _IN_SPEC:
            if self._groups.find(identity, request) is not None:
                return "bind"
            live = self._groups.live.get(request.gang)
            if live is None:
                self._catalog.check(request)
            group = request.as_group() if live is None else live.request
            decision = self._cluster.schedule(group)
            if decision.outcome == "bind":
                self._cluster.commit(decision)
            return decision.outcome


def _answered(
    outcome: Outcome,
    seat: Seat | None,
    reason: str = "",
    victims: tuple[tuple[str, str], ...] = (),
) -> PodDecision:
    if seat is None:
        return PodDecision("wait", reason=reason)
    place = seat.place
    return PodDecision(
        outcome,
        place.node,
        list(place.leaf_indices),
        place.chain,
        reason,
        seat.group.placement(),
        victims,
    )
