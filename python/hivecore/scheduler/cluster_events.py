"""Events of nodes, quotas and cells."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import LONGEST, as_bool, as_dict, as_instance, as_name, as_text
from hivecore._record import between
from hivecore._thousandths import AmountsLike, as_fractions
from hivecore.cells import ClusterSpec, Reconfiguration
from hivecore.devices import NodeDevices
from hivecore.dra import DraCluster, ResourceClaim
from hivecore.dra.ledger import owner_of, record_of
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler.eviction_limit import EvictionLimit
from hivecore.scheduler.ledger.budgets import by_quota
from hivecore.scheduler.ledger.changes import hold_nothing, hold_on_good_nodes, renew, stop_on
from hivecore.scheduler.ledger.lost import take_over_on
from hivecore.scheduler.plain import plain_record
from hivecore.scheduler.scheduler_ledger import SchedulerLedger
from hivecore.scheduler.stages.cells import check_chains
from hivecore.scheduler.stages.constraints import (
    check_counted,
    check_limits,
    check_names,
    offered_by,
)

__all__ = ["ClusterEvents"]


class ClusterEvents(SchedulerLedger):
    """The events of `Scheduler` that change its parts."""

    def set_node(self, node: str, healthy: bool, now: float) -> None:
        """Report that a node failed or recovered. Jobs on a failed node stay until they `fail` or
        end. A recovered node is no longer drained.

        :raises KeyError: no part knows the node.
        :raises ValueError: the time goes back.
        :raises TypeError: an argument is of a wrong type.
        """
        node, healthy = as_text(node, "node"), as_bool(healthy, "healthy")
        with self._lock:
            moment = self._state.moment(now)
            with self._changing(moment):
                self._state.stages.set_health(node, healthy)
                if healthy:
                    self._state.drain(node, None)
                    take_over_on(self._state, node)
                else:
                    hold_on_good_nodes(self._state, (node,))
                self._state.waiting.touch_all()
            self._note("set_node", node=node, healthy=healthy)

    def drain(self, node: str, now: float, *, by: float | None = None) -> None:
        """Drain a node, for instance before maintenance: no pod starts there, and jobs leave it.

        :param by: when the node has to be empty, in seconds. Jobs stay if their `Job.run_time` says
            that they end by then, even if they are late. ``None``: all leave now.
        :raises KeyError: no part knows the node.
        :raises ValueError: ``by`` is before ``now``, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        The node is unhealthy from now on. The next `decide` moves jobs away: guaranteed jobs first,
        then by priority and arrival. A job that fits elsewhere moves there at once with all of its
        pods, before waiting jobs, and keeps its quota (`Move`). Otherwise it stops and returns to
        its queue (`Stop`), as do jobs that share GPUs or run on idle cells. With
        ``on_failure="pod"`` only the pods on the node stop, and start again elsewhere, as do pods
        that joined later. Do not call ``stopped`` for any of them.

        A job that is not preemptible stays until it ends; victims stop as they would. Other jobs
        that stayed leave at the time ``by``. `set_node` with ``healthy=True``, `add_node` or
        `remove_node` ends the drain; another `drain` replaces ``by``.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> from hivecore.topology import NetworkTopology
        >>> network = NetworkTopology([], {"n0": {}, "n1": {}})
        >>> network.set_slots([1, 1])
        >>> scheduler = Scheduler(topology=network)
        >>> scheduler.submit(Job("train", "vision", 1), now=0.0)
        >>> start = scheduler.decide(now=0.0)[0]
        >>> scheduler.drain(start.pods[0].node, now=5.0)
        >>> move = scheduler.decide(now=5.0)[0]
        >>> move.before[0].node, move.pods[0].node
        ('n0', 'n1')
        """
        node = as_text(node, "node")
        with self._lock:
            moment = self._state.moment(now)
            until = moment if by is None else between(moment, LONGEST)(by, "by")
            with self._changing(moment):
                self._state.stages.set_health(node, False)
                hold_on_good_nodes(self._state, (node,))
                self._state.drain(node, until)
                self._state.waiting.touch_all()
            self._note("drain", node=node, **({} if by is None else {"by": until}))

    def add_node(
        self,
        node: str,
        now: float,
        *,
        labels: Mapping[str, str] | None = None,
        free: AmountsLike | None = None,
        inventory: NodeDevices | None = None,
    ) -> None:
        """Add a node, or a removed node again. All waiting jobs are tried again.

        :param labels: for a network: its domain in each layer, see `NetworkTopology.add_node`;
            ``None``: none.
        :param free: for a network: its free resources, such as {"gpu": 8} or {"slots": 8};
            ``None``: none.
        :param inventory: for devices: its devices.
        :raises KeyError: the cells have no such node; `reconfigure` them first.
        :raises ValueError: the node exists; no part has nodes; an argument for a part is missing,
            or there is no such part; a network would count nothing; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Cells keep the nodes of their specification, so a removed node becomes healthy again. The
        totals of quotas do not change, see `set_total`.

        >>> from hivecore.scheduler import Job, Scheduler
        >>> from hivecore.topology import NetworkTopology
        >>> scheduler = Scheduler(topology=NetworkTopology(["rack"], {}), growing=True)
        >>> scheduler.add_node("n1", now=5.0, labels={"rack": "r0"}, free={"slots": 1})
        >>> scheduler.submit(Job("train", "vision", 1), now=5.0)
        >>> scheduler.decide(now=5.0)[0].pods[0].node
        'n1'
        """
        node = as_name(node, "node")
        labels = None if labels is None else as_dict(labels, "labels")
        given = None if free is None else dict(as_fractions(free, "free", 0, 2**62))
        with self._lock:
            moment = self._state.moment(now)
            topology = self.topology
            if topology is not None and not self._is_rerun:
                check_counted({*topology.resources, *(given or ())}, "free")
            with self._changing(moment):
                self._state.stages.add_node(node, labels, given, inventory)
                self._state.drain(node, None)
                renew(self._state)
            fields = {
                "labels": labels and dict(labels),
                "free": given,
                "inventory": inventory and plain_record(inventory),
            }
            fields = {name: value for name, value in fields.items() if value is not None}
            self._note("add_node", node=node, **fields)

    def remove_node(self, node: str, now: float) -> None:
        """Remove a node with all pods on it.

        :raises KeyError: no part knows the node.
        :raises ValueError: the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs that started with a pod there have failed, and return to their queues. A pod that
        joined its job later waits alone. The next `decide` returns `Stop` for the pods, also for
        those of failed jobs on other nodes. Their resources are free already: do not call `stopped`
        for them. A job whose victims run on that node waits again. A job that can never start
        without the node is rejected.

        Other owners in a network or in devices are removed, too. Cells keep their guarantees: the
        node is bad until `add_node`, or, if cells alone have nodes, until `set_node` reports it as
        healthy.
        """
        node = as_text(node, "node")
        with self._lock:
            moment = self._state.moment(now)
            self._state.stages.knowing(node)
            with self._changing(moment):
                stop_on(self._state, node)
                self._state.stages.remove_node(node)
                self._state.drain(node, None)
                renew(self._state)
            self._note("remove_node", node=node)

    def set_quota(self, quota: Quota, now: float) -> None:
        """Change the limits or the parent of a quota, or add a quota.

        :raises KeyError: its parent is missing.
        :raises ValueError: the quota is invalid, see `QuotaTree.set_quota`; no job can request one
            of its resources, such as "gpus"; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay. Usage above a runtime is reclaimed once a job waits that is entitled to
        it. The next `decide` rejects waiting jobs that request more than they can ever get.

        >>> from hivecore.quotas import Quota, QuotaTree
        >>> from hivecore.scheduler import Job, Scheduler
        >>> quota = Quota("vision", max={"gpu": 8})
        >>> scheduler = Scheduler(quotas=QuotaTree([quota], total={"gpu": 16}))
        >>> for name in ("train", "tune"):
        ...     scheduler.submit(Job(name, "vision", 8), now=0.0)
        >>> [type(action).__name__ for action in scheduler.decide(now=0.0)]
        ['Start', 'Wait']
        >>> scheduler.set_quota(quota.replace(max={"gpu": 16}), now=5.0)
        >>> [action.job for action in scheduler.decide(now=5.0)]
        ['tune']
        """
        with self._lock:
            moment = self._state.moment(now)
            tree = self._tree("quota")
            if isinstance(quota, Quota):
                self._check_names(dict(quota.max), f"quota={quota.name!r}")
            with self._changing(moment):
                tree.set_quota(quota)
                hold_nothing(self._state)
                renew(self._state, only_quotas=True)
            self._note("set_quota", quota=plain_record(quota))

    def set_total(
        self, total: AmountsLike, now: float, *, tree: str = "", carved: bool = False
    ) -> None:
        """Change the total of a tree of quotas, for instance when nodes are added.

        :param total: by dimension; others are 0.
        :param tree: its name; a new tree is added.
        :param carved: subtract the total from that of the default tree.
        :raises ValueError: the total is invalid, see `QuotaTree.set_total`; no job can request one
            of its resources, such as "gpus"; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay, as in `set_quota`.
        """
        with self._lock:
            moment = self._state.moment(now)
            given = dict(as_fractions(total, "total", 0, 2**62))
            quotas = self._tree("total")
            self._check_names(given, "total")
            with self._changing(moment):
                quotas.set_total(given, tree=tree, carved=carved)
                hold_nothing(self._state)
                renew(self._state, only_quotas=True)
            more = {"tree": tree, "carved": carved}
            self._note(
                "set_total", total=given, **{name: value for name, value in more.items() if value}
            )

    def set_eviction_limits(self, limits: Iterable[EvictionLimit], now: float) -> None:
        """Replace all limits on evictions, see `EvictionLimit`. They hold for later decisions.

        :raises ValueError: a quota is unknown or has two limits, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        The evictions of the last hour count for quotas that have had a limit ``per_hour`` since.

        >>> from hivecore.scheduler import EvictionLimit, Scheduler
        >>> scheduler = Scheduler()
        >>> scheduler.set_eviction_limits([EvictionLimit("vision", per_hour=4)], now=0.0)
        >>> scheduler.eviction_limits[0].per_hour
        4
        """
        given = by_quota(limits, "limits")
        with self._lock:
            moment = self._state.moment(now)
            if not self._is_rerun:
                check_limits(given, self.quotas, "limits")
            with self._changing(moment):
                self._state.budgets.change(given)
                self._state.waiting.touch_all()
            self._note("set_eviction_limits", limits=[*map(plain_record, given.values())])

    def _check_names(self, names: Iterable[str], argument: str) -> None:
        """Refuse resources that no job can request."""
        if not self._is_rerun:
            check_names(names, argument, offered_by(self.devices, self.topology, self.cells))

    def _tree(self, argument: str) -> QuotaTree:
        tree = self._state.stages.find(QuotaTree)
        if tree is None:
            raise ValueError(f"{argument}: there are no quotas")
        return tree

    def reconfigure(self, spec: ClusterSpec, now: float) -> Reconfiguration:
        """Change the specification of the cells, and the guarantees of tenants.

        :returns: what has changed for running jobs, by their names in the cells.
        :raises InfeasibleAssignmentError: the tenants' cells do not fit.
        :raises ValueError: the specification is invalid, see `CellCluster.reconfigure`; two chains
            have the same GPU of a node; there are no cells; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay where they are. A job without its guarantee becomes opportunistic, as in
        HiveD. The next `decide` rejects waiting jobs that request what no longer exists; running
        jobs are rejected once they have to wait. Nodes and GPUs without devices are bad until
        `add_node`. Removed nodes are no longer drained.
        """
        with self._lock:
            moment = self._state.moment(now)
            cells = self.cells
            if cells is None:
                raise ValueError("spec: there are no cells")
            check_chains(as_instance(spec, "spec", ClusterSpec), "spec")
            with self._changing(moment):
                hold_nothing(self._state)
                changes = cells.reconfigure(spec)
                self._state.stages.forget()
                self._state.stages.shun_missing(cells.nodes)
                for node in [*self._state.draining]:
                    if not self._state.stages.knows(node):
                        self._state.drain(node, None)
                renew(self._state)
            self._note("reconfigure", spec=plain_record(spec))
            return changes

    def update_claims(
        self,
        now: float,
        *,
        objects: Iterable[Mapping[str, Any]] = (),
        remove: Iterable[tuple[str, str]] = (),
        release: Iterable[str] = (),
    ) -> None:
        """Report changed objects of device claims, as Kubernetes reports them.

        :param objects: slices, classes, nodes, taint rules, and claims that other schedulers have
            allocated, as Kubernetes writes them; see `DraCluster.update`.
        :param remove: kind and name of each removed object, see `DraCluster.remove`.
        :param release: claims that no longer hold devices, see `DraCluster.release`.
        :raises KeyError: an object or a claim is unknown.
        :raises ValueError: an object is invalid; a claim has devices that another claim holds;
            there are no device claims; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs keep their devices. If more than claims have changed, all waiting jobs are
        tried again, and jobs that can never start are rejected.
        """
        documents = [as_dict(document, f"objects[{i}]") for i, document in enumerate(objects)]
        gone, freed = [tuple(pair) for pair in remove], [*release]
        with self._lock:
            moment = self._state.moment(now)
            part = self._state.stages.find(DraCluster)
            if part is None:
                raise ValueError("objects: there are no device claims")
            with self._changing(moment):
                for claim in freed:
                    part.release(as_text(claim, "release"))
                for kind, name in gone:
                    part.remove(kind, name)
                records = [record_of(document, i) for i, document in enumerate(documents)]
                claims = [record for record in records if isinstance(record, ResourceClaim)]
                is_exchanged = any(owner_of(claim) in part for claim in claims)
                part.update(*records)
                if gone or len(claims) < len(records):
                    renew(self._state)
                elif freed or is_exchanged:
                    self._state.waiting.touch_all()
            fields = {"objects": documents, "remove": [*map(list, gone)], "release": freed}
            self._note("update_claims", **{name: value for name, value in fields.items() if value})

    def touch(self) -> None:
        """Report that a part was changed from outside: waiting jobs are tried again, or
        rejected.
        """
        with self._lock:
            with self._changing(self._state.now):
                renew(self._state)
            if self._log is not None:
                self._logged += 1
                self._log.state("state", self.to_bytes())
