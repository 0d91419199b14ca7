"""What a scheduler is told of nodes, quotas and cells."""

from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._arguments import as_bool, as_dict, as_name, as_text
from hivecore._record import between
from hivecore._thousandths import AmountsLike, as_fractions
from hivecore.cells import ClusterSpec, Reconfiguration
from hivecore.devices import NodeDevices
from hivecore.dra import DraCluster
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler.ledger.changes import hold_nothing, hold_on_good_nodes, renew, stop_on
from hivecore.scheduler.ledger.state import LATEST
from hivecore.scheduler.plain import plain_record
from hivecore.scheduler.scheduler_ledger import SchedulerLedger
from hivecore.scheduler.stages.constraints import check_counted, check_names

__all__ = ["ClusterEvents"]


class ClusterEvents(SchedulerLedger):
    """A scheduler that is told what happens to its parts."""

    def set_node(self, node: str, healthy: bool, now: float) -> None:
        """A node fails or recovers; jobs that run there stay until they `fail` or end. A node that
        recovers is drained no more.

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
                else:
                    hold_on_good_nodes(self._state, (node,))
                self._state.waiting.touch_all()
            self._note("set_node", node=node, healthy=healthy)

    def drain(self, node: str, now: float, *, by: float | None = None) -> None:
        """Let no pod start on a node, and let the jobs there leave it, as before maintenance.

        :param by: when the node has to be empty: until then jobs stay that end in time by their
            `Job.run_time`, even if they are late; ``None``: now.
        :raises KeyError: no part knows the node.
        :raises ValueError: ``by`` is before ``now``, or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        The node is unhealthy from now on. The next `decide` lets the jobs leave, guaranteed ones
        first, then the most important, then the first to come. A job that fits elsewhere within
        its constraints moves there at once with all of its pods, before any waiting job gets that
        room, and keeps its quota (`Move`). Otherwise it stops and waits at its old place (`Stop`);
        so do jobs that share GPUs or run on idle cells. Of a job with ``on_failure="pod"`` only the
        pods there stop, and start again near the others or as spares, as do pods that joined later
        or are above `Role.min_pods`. ``stopped`` is not to be called for any of them.

        A job that is not preemptible stays until it ends, however late; a job that has to stop
        already stops as it would. Jobs that stay are looked at again in each `decide`, and leave
        once ``by`` has come. `set_node` with ``healthy=True``, `add_node` and `remove_node` end
        all this; another `drain` replaces ``by``.

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
            until = moment if by is None else between(moment, LATEST)(by, "by")
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
        """Add a node, perhaps again; all waiting jobs are tried again.

        :param labels: with a network: the name of its domain in each layer, as of
            `NetworkTopology.add_node`; ``None``: it has none.
        :param free: with a network: what is free on it, by resource, such as {"gpu": 8} or
            {"slots": 8}; ``None``: nothing.
        :param inventory: with devices: its devices.
        :raises KeyError: the cells have no such node: `reconfigure` them first.
        :raises ValueError: the node exists, no part has nodes, an argument is missing for a part or
            is for a part that the scheduler does not have; a network would count nothing; or the
            time goes back.
        :raises TypeError: an argument is of a wrong type.

        Cells keep the nodes of their specification: a removed node is made healthy again. Totals of
        quotas do not change, see `set_total`.

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
        free = None if free is None else dict(as_fractions(free, "free", 0, 2**62))
        with self._lock:
            moment = self._state.moment(now)
            topology = self.topology
            if topology is not None and not self._is_rerun:
                check_counted({*topology.resources, *(free or ())}, "free")
            with self._changing(moment):
                self._state.stages.add_node(node, labels, free, inventory)
                self._state.drain(node, None)
                renew(self._state)
            told = {
                "labels": labels and dict(labels),
                "free": free,
                "inventory": inventory and plain_record(inventory),
            }
            told = {name: value for name, value in told.items() if value is not None}
            self._note("add_node", node=node, **told)

    def remove_node(self, node: str, now: float) -> None:
        """A node is gone, with all pods on it.

        :raises KeyError: no part knows the node.
        :raises ValueError: the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Jobs that started with a pod there have failed: they wait again, at their old places. A pod
        that has joined its job later waits by itself. The next `decide` returns `Stop` for their
        pods elsewhere, holds nothing, and expects no `stopped`. A job for which others have to
        leave that node waits again, too. A job that can never start without the node is rejected.

        Owners in a network or in devices that the scheduler does not know are gone as well. In
        cells guarantees stay as they are: the node is bad until `add_node`.
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
        :raises ValueError: as of `QuotaTree.set_quota`; no job can request a resource, such as
            "gpus"; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay, whatever the limits are: what exceeds a runtime is reclaimed when a job
        waits that is entitled to it. A waiting job that requests more than it can ever get now is
        rejected by the next `decide`.

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
            if not self._is_rerun and isinstance(quota, Quota):
                check_names(dict(quota.max), f"quota={quota.name!r}")
            with self._changing(moment):
                tree.set_quota(quota)
                hold_nothing(self._state)
                renew(self._state)
            self._note("set_quota", quota=plain_record(quota))

    def set_total(
        self, total: AmountsLike, now: float, *, tree: str = "", carved: bool = False
    ) -> None:
        """Change the total of a tree of quotas, such as when nodes are added.

        :param total: by dimension; what is not named is 0.
        :param tree: its name; a new tree if there is none.
        :param carved: whether the total is taken off that of the default tree.
        :raises ValueError: as of `QuotaTree.set_total`; there are no quotas; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs stay, as with `set_quota`.
        """
        with self._lock:
            moment = self._state.moment(now)
            given = dict(as_fractions(total, "total", 0, 2**62))
            quotas = self._tree("total")
            with self._changing(moment):
                quotas.set_total(given, tree=tree, carved=carved)
                hold_nothing(self._state)
                renew(self._state)
            more = {"tree": tree, "carved": carved}
            self._note("set_total", total=given, **{name: one for name, one in more.items() if one})

    def _tree(self, argument: str) -> QuotaTree:
        tree = self._state.stages.find(QuotaTree)
        if tree is None:
            raise ValueError(f"{argument}: there are no quotas")
        return tree

    def reconfigure(self, spec: ClusterSpec, now: float) -> Reconfiguration:
        """Change the specification of the cells, and the guarantees of tenants.

        :returns: what has changed for running jobs, by their names in the cells.
        :raises InfeasibleAssignmentError: the tenants' cells do not fit.
        :raises ValueError: as of `CellCluster.reconfigure`; there are no cells; or the time goes
            back.
        :raises TypeError: an argument is of a wrong type.

        All running jobs stay where they are. A job whose guarantee no longer exists runs on as an
        opportunistic job, as in HiveD. A waiting job that requests what does not exist is rejected
        by the next `decide`; so is a running job when it has to wait again. Nodes and GPUs that
        devices do not have are bad until `add_node`. Nodes that are gone are drained no more.
        """
        with self._lock:
            moment = self._state.moment(now)
            cells = self.cells
            if cells is None:
                raise ValueError("spec: there are no cells")
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
        """Objects of the cluster of device claims have changed, as Kubernetes reports it.

        :param objects: slices, classes, nodes, taint rules and claims that other schedulers have
            allocated, as Kubernetes writes them; see `DraCluster.update`.
        :param remove: the kind and name of each object that is gone, as of `DraCluster.remove`.
        :param release: the claims that hold devices no more, as of `DraCluster.release`.
        :raises KeyError: an object or a claim is not known.
        :raises ValueError: an object breaks a rule, or a claim has what another holds; there are no
            device claims; or the time goes back.
        :raises TypeError: an argument is of a wrong type.

        Running jobs keep their devices. If more than claims have changed, all waiting jobs are
        tried again, and those that can never start are rejected.
        """
        documents = [as_dict(one, f"objects[{i}]") for i, one in enumerate(objects)]
        gone, freed = [tuple(one) for one in remove], [*release]
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
                part.update(*documents)
                if gone or any(one.get("kind") != "ResourceClaim" for one in documents):
                    renew(self._state)
                elif freed:
                    self._state.waiting.touch_all()
            told = {"objects": documents, "remove": [*map(list, gone)], "release": freed}
            self._note("update_claims", **{name: value for name, value in told.items() if value})

    def touch(self) -> None:
        """A part was changed from outside: all waiting jobs are tried again, or rejected."""
        with self._lock:
            with self._changing(self._state.now):
                renew(self._state)
            if self._log is not None:
                self._logged += 1
                self._log.state("state", self.to_bytes())
