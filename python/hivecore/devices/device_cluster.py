"""The devices of all nodes: which pod may have which, and what each has."""

from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from hivecore._arguments import (
    MOST_SEED,
    as_choice,
    as_instance,
    as_int,
    as_mapping,
    as_name,
    as_tuple,
)
from hivecore.devices._learned_mix import LearnedMix
from hivecore.devices._nodes import Nodes
from hivecore.devices.device_ledger import POLICIES, Policy
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.explanation import DeviceExplanation, explain
from hivecore.devices.node_devices import NodeDevices
from hivecore.devices.numa_hints import NumaHint, numa_hints
from hivecore.devices.placer import DevicePlacer
from hivecore.devices.task_mix import TaskMix
from hivecore.devices.together import why_impossible

__all__ = ["POLICIES", "DeviceCluster", "Policy"]


class DeviceCluster(DevicePlacer):
    """Decides which node a pod goes to and which of its GPUs, NICs and other devices it gets.

    :param nodes: name -> inventory of each node.
    :param policy: for requests that do not say; see below. ``None``: "bin-pack".
    :param mix: which pods come, for "fgd"; ``None``: learned from those that are committed
        while it is the cluster's policy.
    :param seed: of "random", 0 to 2**64 - 1.
    :raises KeyError: a method is given a name that is not known.
    :raises TypeError: an argument is of a wrong type, here and in all methods.
    :raises ValueError: a name is empty, or there is no such policy.

    Of the nodes that can serve a request the one is taken where most needs are in their preferred
    scopes, then the one with the best score, then the one that was added first (a new node takes
    the place of one that was removed). "bin-pack" and "spread" score a node by the share of its
    devices that would be in use (spread: left), in ten-thousandths, the mean over the types. The
    others are for shared GPUs, and score a node by the opposite of a cost, as FGD's authors compare
    them: "best-fit" and "worst-fit" by what is free of its processors and GPUs; "dot-product" by
    the product of that with what is asked; "packing" takes GPUs in use before idle ones before idle
    nodes; "clustering" joins pods that take as many GPUs; "random" draws a node by the seed and the
    owner's name; "fgd" by how much idle GPU memory becomes useless to the pods that come.

    On a node devices are chosen together, and exactly: a request waits only if no choice of devices
    serves it. The best choice has the best tier of partitions, if it must be one; the tightest
    scope around the GPUs; the fewest places whose nearest NIC is across the machine, then the
    socket, then the NUMA node; leaves most whole partitions; is next to the fewest idle devices
    (spread: used ones), by switches, then NUMA nodes, then sockets; leaves least on its devices
    (spread: most); and has the lowest minors. Of virtual functions the lowest bus addresses are
    taken.

    Memory is counted in bytes; a percentage is converted for each device, rounded down, so shares
    that sum to 100 percent fit on any card, and a card is never promised more than it has. A pod
    with a share that comes to no byte of a small card is on that card all the same.

    ``schedule`` costs O(log(nodes)) for each node that changed since the same was asked last, and
    some microseconds for the choice; the first time, O(different states of nodes). ``trial`` undoes
    what is done in it at the cost of those changes; ``copy`` is a branch that lives on. One object
    may be used by several threads: calls take turns. Source: Koordinator's device scheduling, with
    its defects mended, and gpushare.

    >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
    >>> node = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
    >>> cluster = DeviceCluster({"n0": node, "n1": node})
    >>> request = DeviceRequest("train", gpus=2, nics=1, joint=("gpu", "nic"), same_pcie=True)
    >>> decision = cluster.schedule(request)
    >>> [(one.type, one.minor) for one in decision.placement]
    [('gpu', 0), ('gpu', 1), ('rdma', 0)]
    >>> cluster.commit(decision)
    >>> cluster.release("train")
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeDevices] | None = None,
        *,
        policy: Policy | None = None,
        mix: TaskMix | None = None,
        seed: int = 0,
    ) -> None:
        given = dict(as_mapping({} if nodes is None else nodes, "nodes"))
        wanted: object = mix
        if wanted is not None and not isinstance(wanted, TaskMix):
            raise TypeError(f"mix must be a TaskMix, not {type(wanted).__name__}")
        number = as_int(seed, "seed", 0, MOST_SEED)
        named = as_choice("bin-pack" if policy is None else policy, "policy", POLICIES)
        self._start(named, LearnedMix(mix), number, Nodes())
        for name, inventory in given.items():
            as_instance(inventory, f"nodes[{as_name(name, 'nodes')!r}]", NodeDevices)
            self.add_node(name, inventory)

    def capacity(
        self,
        request: DeviceRequest,
        most: int,
        *,
        nodes: Iterable[str] | None = None,
        policy: Policy | None = None,
        after: tuple[DeviceRequest, int] | None = None,
    ) -> npt.NDArray[np.int32]:
        """How many pods with this request each node can hold now, if ``schedule`` and ``commit``
        place them one after the other.

        :param most: up to which number pods are counted, 0 to 2**31 - 1.
        :param nodes: names of the nodes to look at; ``None``: all.
        :param policy: how devices are chosen; ``None``: as the cluster says. The devices that
            "random" draws depend on the pods' names: it counts as "bin-pack" does.
        :param after: the request of other pods, and how many of them each node gets first.
        :returns: int32[nodes], in the order of ``nodes``; -1: it has no room for those others.
        :raises ValueError: there is no such policy, or ``most`` is out of range.

        Cost: O(nodes); for each different state of nodes some microseconds a pod, unless it was
        counted before for an equal request, ``after`` no others.

        >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
        >>> node = NodeDevices.uniform(gpus=8, nics=2)
        >>> cluster = DeviceCluster({"n0": node, "n1": node})
        >>> pod = DeviceRequest("pod", gpus=1, nics=1, joint=("gpu", "nic"))
        >>> cluster.commit(cluster.schedule(pod))
        >>> cluster.capacity(pod, 8)
        array([1, 2], dtype=int32)
        """
        as_instance(request, "request", DeviceRequest)
        limit = as_int(most, "most", 0, 2**31 - 1)
        names = None if nodes is None else as_tuple(nodes, "nodes")
        first, before = (request, 0) if after is None else after
        as_instance(first, "after[0]", DeviceRequest)
        before = as_int(before, "after[1]", 0, 2**31 - 1)
        with self._lock:
            number = self._policy_number(policy)
            if POLICIES[number] == "random":
                number = POLICIES.index("bin-pack")
            numbers = self._nodes.all_numbers
            if names is not None:
                numbers = [self._nodes.number(name) for name in names]
            of_others = self._nodes.query(first) if before else None
            times: npt.NDArray[np.int32] = self._core.capacity(
                self._nodes.query(request), number, limit, numbers, of_others, before
            )
            return times

    def fragmentation(self, *, node: str | None = None) -> float:
        """Return how much idle GPU memory the expected pods cannot use, as FGD measures it.

        :param node: the node to measure; ``None``: all nodes together.
        :returns: bytes, the mean over the cluster's task mix; 0 if there is no mix.
        :raises KeyError: there is no such node.

        Source: FGD (USENIX ATC'23, section 3). Cost: O(GPUs * classes).
        """
        with self._lock:
            numbers = self._nodes.by_name.values() if node is None else [self._nodes.number(node)]
            self._policy_number("fgd")
            total = sum(self._core.fragmentation(number) for number in numbers)
            return total / max(self._mix.total, 1)

    def numa_hints(
        self, request: DeviceRequest, node: str, *, policy: Policy | None = None
    ) -> tuple[NumaHint, ...] | None:
        """On which sets of a node's NUMA nodes the request could be served now, small ones first;
        none if it could not be with all of them; ``None`` if it could be on any, since no device of
        the types that it needs says its NUMA node.

        `merge_numa_hints` merges them with those of processors, and ``allocate`` takes what that
        has chosen.

        :raises ValueError: it has more than 12 NUMA nodes, or there is no such policy.

        Cost: O(2**NUMA nodes) choices, of about a microsecond.
        """
        as_instance(request, "request", DeviceRequest)
        with self._lock:
            how = self._policy_number(policy)
            number = self._nodes.number(node)
            query, inventory = self._nodes.query(request), self._nodes.inventory(number)
            return numa_hints(self._core, request, query, how, number, inventory)

    def explain(self, request: DeviceRequest, *, policy: Policy | None = None) -> DeviceExplanation:
        """Why a request would have to wait, what is missing where it nearly fits, and the cheapest
        owners to release for it; nothing changes.

        :raises ValueError: the owner has devices already, or there is no such policy.
        """
        with self._lock:
            return explain(
                self, self._nodes, self._owners, request, POLICIES[self._policy_number(policy)]
            )

    def impossible(
        self, requests: Iterable[DeviceRequest], *, nodes: Iterable[str] | None = None
    ) -> str:
        """Why pods that have to run at the same time would wait even if all nodes were idle and
        healthy; "": they would not.

        :param requests: of the pods of a gang; of equal pods the request as often.
        :param nodes: names of the only nodes to use; ``None``: all.
        :returns: the reason of a pod that no node serves, or for how many pods there is room. Pods
            may be possible in a way that ``schedule`` does not find, and what takes too long to
            settle counts as possible.

        Cost: that of a copy and of ``schedule_many``; where these do not all bind, that of up to
        5,000 placements.

        >>> from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
        >>> cluster = DeviceCluster({f"n{i}": NodeDevices.uniform(gpus=6) for i in range(10)})
        >>> cluster.impossible([DeviceRequest("pod", gpus=4)] * 12)
        '12 pods with 4 gpu each: idle and healthy, the nodes have room for 10'
        """
        given = as_tuple(requests, "requests")
        for request in given:
            as_instance(request, "request", DeviceRequest)
        allowed = None if nodes is None else as_tuple(nodes, "nodes")
        with self._lock:
            return why_impossible(self.emptied(), given, allowed)

    def emptied(self) -> Self:
        """A copy without owners on which all devices are healthy.

        Cost: that of a copy, and O(owners).
        """
        with self._lock:
            other = self.copy()
            other.release_many([*other._owners.numbers])
            for name in other.unhealthy_nodes():
                other.set_health(name, True)
            return other
