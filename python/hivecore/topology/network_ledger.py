"""The nodes of a network in their domains, what is free on them, and the placed owners."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from threading import RLock
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore._arguments import as_bool, as_int, as_name, as_tuple
from hivecore._stateful import PlainState, counted, shown
from hivecore._thousandths import Amount, Amounts, AmountsLike, as_fraction, as_fractions
from hivecore._topology import TopologyKernel
from hivecore._trial import LoggedTrials, UndoLog
from hivecore._turns import in_turn
from hivecore.errors import InvariantError
from hivecore.topology._domains import Domains
from hivecore.topology._free import Free, Ints, Owner, as_array, as_counts
from hivecore.topology._kernels import Kernels
from hivecore.topology.node_pods import NodePods
from hivecore.topology.topology_request import MOST, TopologyRequest, TopologyRole

__all__ = ["NetworkLedger"]


class NetworkLedger(LoggedTrials, PlainState):
    """The state of a `NetworkTopology`, without its decisions: nodes, free amounts, owners, changes
    that can be undone, and saved states.
    """

    _SAVED_AS = b"HCNT", 2

    def __init__(self, layers: Iterable[str], nodes: Mapping[str, Mapping[str, str]]) -> None:
        self._start(Domains(layers, nodes))

    def _start(self, domains: Domains) -> None:
        self._lock = RLock()
        self._domains = domains
        self._free = Free(len(domains.nodes))
        self._kernels = Kernels(domains.counts)
        self._owners: dict[str, Owner] = {}
        self._undo = UndoLog()

    def __repr__(self) -> str:
        with self._lock:
            return shown(
                self,
                counted(len(self._domains.nodes), "node"),
                " > ".join(self._domains.layers),
                counted(len(self._owners), "owner", unless_none=True),
            )

    # --- the network

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers, from wide to narrow."""
        with self._lock:
            return self._domains.layers

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, domain by domain."""
        with self._lock:
            return self._domains.nodes

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that were ever set on a node, such as "slots", sorted.

        >>> from hivecore.topology import NetworkTopology
        >>> network = NetworkTopology([], {"a": {}})
        >>> network.set_free("a", {"gpu": 8, "cpu": 64})
        >>> network.resources
        ('cpu', 'gpu')
        """
        with self._lock:
            return tuple(sorted(self._free.amounts))

    def domain(self, node: str) -> tuple[str, ...]:
        """The names of the domains around a node, from wide to narrow, and its own."""
        with self._lock:
            return self._domains.around(node)

    def domains(self, layer: str) -> tuple[tuple[str, ...], ...]:
        """The nodes of each domain of a layer, in the order of ``nodes``; "node": each node alone.

        :raises KeyError: the layer is unknown.

        >>> from hivecore.topology import NetworkTopology
        >>> labels = {"a": {"rack": "r1"}, "b": {"rack": "r2"}, "c": {"rack": "r1"}}
        >>> NetworkTopology(["rack"], labels).domains("rack")
        (('a', 'c'), ('b',))
        """
        with self._lock:
            level = self._domains.level(layer, "layer")
            ends: Iterable[int] = range(len(self._domains.names[level]) + 1)
            for begins in self._domains.begins[level:]:
                ends = [begins[end] for end in ends]
            return tuple(self.nodes[first:last] for first, last in pairwise(ends))

    def add_node(self, name: str, labels: Mapping[str, str], free: AmountsLike = ()) -> None:
        """Add a node, as the last of its domain.

        :param labels: the name of its domain in each layer, see `NetworkTopology`.
        :param free: what is free on it, by resource.
        :raises ValueError: the name is taken or empty, a layer is unknown, or an amount is not from
            0 to 2**62.

        Cost: O(nodes x layers), and again for each kind of pod that is requested later.

        >>> from hivecore.topology import NetworkTopology
        >>> network = NetworkTopology(["rack"], {"a": {"rack": "r1"}, "b": {"rack": "r2"}})
        >>> network.add_node("c", {"rack": "r1"}, {"gpu": 8})
        >>> network.nodes, network.free("c")
        (('a', 'c', 'b'), {'gpu': 8})
        """
        name = as_name(name, "node")
        given = as_fractions(free, "free", 0, 2**62)
        with self._lock:
            if name in self._domains.numbers:
                raise ValueError(f"node={name!r}: is there already")
            named = {**self._domains.labels, name: labels}
            domains = Domains(self.layers, named, self._domains, added=name)
            numbers = self._counted(given)
            self._become(domains)
            for resource, number in numbers.items():
                self._free.set(resource, self._numbers((name,)), np.array([number]))

    def remove_node(self, name: str) -> tuple[str, ...]:
        """Remove a node, and release all owners with pods on it.

        :returns: the names of these owners, sorted.

        Cost: as ``add_node``.
        """
        with self._lock:
            number = self._domains.number(name)
            owners = [
                owner
                for owner, known in self._owners.items()
                if any(node == number for node, *_ in known.pods)
            ]
            for owner in owners:
                self.release(owner)
            labels = {
                node_name: known_labels
                for node_name, known_labels in self._domains.labels.items()
                if node_name != name
            }
            self._become(Domains(self.layers, labels, self._domains))
            return tuple(sorted(owners))

    def _become(self, domains: Domains) -> None:
        """Change the nodes; those that stay keep what is free on them."""
        before, numbers, nodes = self._domains.numbers, domains.numbers, self.nodes
        if self._undo.is_on:
            state = self._domains, self._free, self._owners, self._kernels
            self._undo.add((self._use, *state))

        def moved(owner: Owner) -> Owner:
            pods = [(numbers[nodes[node]], count, others) for node, count, others in owner.pods]
            return owner._replace(pods=tuple(pods))

        self._use(
            domains,
            self._free.of_nodes([before.get(name, -1) for name in domains.nodes]),
            {name: moved(owner) for name, owner in self._owners.items()},
            Kernels(domains.counts),
        )

    def _use(
        self, domains: Domains, free: Free, owners: dict[str, Owner], kernels: Kernels
    ) -> None:
        self._domains, self._free, self._owners, self._kernels = domains, free, owners, kernels

    # --- what is free

    def set_slots(self, counts: npt.ArrayLike, nodes: Iterable[str] | None = None) -> None:
        """Set how many more pods nodes have room for: their resource "slots".

        :param counts: int[nodes], 0 to 2**31 each.
        :param nodes: the nodes; ``None``: all, in the order of ``nodes``.
        :raises ValueError: a count is out of range, or the number of counts is wrong.
        """
        named = None if nodes is None else as_tuple(nodes, "nodes")
        given = as_array(counts, "counts")
        with self._lock:
            numbers = self._numbers(named)
            values = as_counts(given, len(numbers))
            self._log_free(("slots",), numbers)
            self._free.set("slots", numbers, values * self._free.number("slots", 1))
            self._kernels.touch(numbers.tolist(), "slots")

    def set_free(self, node: str, amounts: AmountsLike) -> None:
        """Set what is free on a node, by resource; resources that are not named get 0.

        :param amounts: multiples of 0.001.
        :raises ValueError: an amount is not from 0 to 2**62, or no multiple of 0.001.
        """
        given = as_fractions(amounts, "amounts", 0, 2**62)
        with self._lock:
            number = np.array([self._domains.number(node)])
            values = self._counted(given)
            resources = {*self._free.amounts, *values}
            self._log_free(resources, number)
            for resource in resources:
                self._free.set(resource, number, np.array([values.get(resource, 0)]))
            self._kernels.touch(number.tolist())

    def _counted(self, amounts: Amounts) -> dict[str, int]:
        """Amounts as they are counted; resources with fractions are counted in thousandths."""
        self._refine(amounts)
        return {resource: self._free.number(resource, amount) for resource, amount in amounts}

    def _refine(self, amounts: Amounts) -> None:
        """Count in thousandths the resources that have fractions here."""
        for name, amount in amounts:
            if type(amount) is not int and name not in self._free.fine:
                self._free.refine((name,))
                if self._undo.is_on:
                    self._undo.add((self._coarsen, name))

    def _coarsen(self, resource: str) -> None:
        self._free.coarsen((resource,))
        self._kernels.forget_fractions(resource)

    def _log_free(self, resources: Iterable[str], nodes: Ints) -> None:
        """Remember for a trial what is free of these resources on these nodes."""
        if self._undo.is_on:
            part = self._free.part(resources, nodes)
            self._undo.add((self._restore_free, part, nodes))

    def _restore_free(self, part: dict[str, Ints | None], nodes: Ints) -> None:
        self._free.restore(part, nodes)
        self._kernels.touch(nodes.tolist())

    def _put_back(self, amounts: list[tuple[str, int, int]], nodes: list[int]) -> None:
        self._free.write(amounts)
        self._kernels.touch(nodes)

    def free(self, node: str) -> dict[str, Amount]:
        """What is free on a node, by resource; 0 on an unhealthy node."""
        with self._lock:
            number = self._domains.number(node)
            usable = self._free.usable is None or bool(self._free.usable[number])
            resources = sorted(self._free.amounts.items())
            amount_of = self._free.amount
            return {
                name: amount_of(name, int(numbers[number])) if usable else 0
                for name, numbers in resources
            }

    def total_free(self, resource: str) -> Amount:
        """How much of a resource is free on all healthy nodes together. Cost: O(nodes).

        >>> from hivecore.topology import NetworkTopology
        >>> network = NetworkTopology([], {"a": {}, "b": {}})
        >>> network.set_free("a", {"gpu": 8})
        >>> network.total_free("gpu"), network.total_free("nic")
        (8, 0)
        """
        with self._lock:
            return self._free.total(resource)

    def free_by_node(self, resource: str) -> dict[str, Amount]:
        """How much of a resource is free on each node, by name; see `free`. Cost: O(nodes)."""
        with self._lock:
            numbers, amount_of = self._free.of(resource).tolist(), self._free.amount
            return {
                name: amount_of(resource, n) for name, n in zip(self.nodes, numbers, strict=True)
            }

    def set_health(self, node: str, healthy: bool) -> None:
        """Mark a node as healthy, or as unhealthy: it gets no new pods, those there stay."""
        usable = as_bool(healthy, "healthy")
        with self._lock:
            number = self._domains.number(node)
            if self._undo.is_on:
                before = self._free.usable is None or bool(self._free.usable[number])
                self._undo.add((self._set_usable, number, before))
            self._set_usable(number, usable)

    def _set_usable(self, number: int, usable: bool) -> None:
        self._free.set_usable(number, usable)
        self._kernels.touch([number])

    @property
    def unhealthy(self) -> tuple[str, ...]:
        """The unhealthy nodes, in the order of ``nodes``."""
        with self._lock:
            return tuple(self.nodes[number] for number in self._free.unusable())

    def slots(
        self, layer: str = "node", *, amounts: AmountsLike = (("slots", 1),)
    ) -> dict[str, int]:
        """For how many such pods each domain of a layer has room, by name; equal names are added
        up.

        :raises KeyError: the layer is unknown.
        """
        wanted = TopologyRequest("any", 1, amounts=amounts).amounts
        with self._lock:
            level = self._domains.level(layer, "layer")
            sums: dict[str, int] = {}
            names = self._domains.names[level]
            for name, count in zip(names, self._counts(level, wanted), strict=True):
                sums[name] = sums.get(name, 0) + count
            return sums

    def _counts(self, level: int, amounts: Amounts) -> list[int]:
        if not self.nodes:
            return [0] * len(self._domains.names[level])
        counts: list[int] = self._kernel(amounts).slots(level).tolist()
        return counts

    def _kernel(self, amounts: Amounts) -> TopologyKernel:
        self._refine(amounts)
        return self._kernels.of(amounts, self._free)

    def _numbers(self, given: tuple[str, ...] | None) -> Ints:
        if given is None:
            return np.arange(len(self.nodes))
        known = self._domains.numbers
        try:
            numbers = [known[node] for node in given]
        except (KeyError, TypeError):
            numbers = [self._domains.number(node) for node in given]
        return np.array(numbers, dtype=np.int64)

    # --- owners

    @property
    def owners(self) -> tuple[str, ...]:
        """The names of all placed owners, sorted."""
        with self._lock:
            return tuple(sorted(self._owners))

    def placement(self, name: str) -> tuple[NodePods, ...]:
        """The pods of an owner on each of its nodes."""
        with self._lock:
            return self._placed(self._owner(name).pods)

    def _placed(self, pods: Iterable[tuple[int, int, int]]) -> tuple[NodePods, ...]:
        return tuple(NodePods(self.nodes[node], count, others) for node, count, others in pods)

    def _owner(self, name: str) -> Owner:
        try:
            return self._owners[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no owner {name!r}") from None

    def release(self, name: str) -> None:
        """Remove an owner; what its pods took is free again."""
        with self._lock:
            owner = self._owner(name)
            del self._owners[name]
            if self._undo.is_on:
                self._undo.add((self._owners.__setitem__, name, owner))
            self._take(owner, -1)

    def rename(self, name: str, new: str) -> None:
        """Give an owner another name; its pods stay where they are. Cost: O(1).

        :raises ValueError: the new name is taken or empty.
        """
        new = as_name(new, "new")
        with self._lock:
            owner = self._owner(name)
            if new in self._owners:
                raise ValueError(f"new={new!r}: there is an owner of this name")
            self._owners[new] = owner
            del self._owners[name]
            if self._undo.is_on:
                self._undo.add((self._owners.__setitem__, name, owner))
                self._undo.add((self._owners.pop, new))

    def _take(self, owner: Owner, sign: int) -> None:
        nodes = [node for node, *_ in owner.pods]
        if self._undo.is_on:
            self._undo.add((self._put_back, self._free.read(owner), nodes))
        self._free.take(owner, sign)
        self._kernels.touch(nodes)

    # --- all of it

    def check(self) -> None:
        """Audit every invariant.

        :raises InvariantError: one is broken. Cost: O(nodes x layers x kinds of pods), and a search
            for each recent kind of gang.
        """
        with self._lock:
            for resource, amounts in self._free.amounts.items():
                if (amounts < 0).any():
                    raise InvariantError(f"less than nothing is free of {resource!r}")
            for name, owner in self._owners.items():
                taken = {key for _, of in owner.by_node() for key, amount in of.items() if amount}
                if unknown := taken - self._free.amounts.keys():
                    raise InvariantError(f"owner {name!r} takes of {min(unknown)!r}: unknown")
            self._kernels.check(self._free, len(self.layers) + 1)

    def copy(self) -> Self:
        """An independent branch for what-if questions."""
        with self._lock:
            branch = object.__new__(type(self))
            branch._start(self._domains)
            branch._free = self._free.copy()
            branch._kernels = self._kernels.copy()
            branch._owners = dict(self._owners)
            return branch

    def _plain(self) -> dict[str, Any]:
        return {
            "layers": self.layers,
            "nodes": self._domains.labels,
            "free": {
                name: [self._free.amount(name, number) for number in free.tolist()]
                for name, free in sorted(self._free.amounts.items())
            },
            "unhealthy": self.unhealthy,
            "owners": {
                name: [wanted, more, [(self.nodes[node], *counts) for node, *counts in pods]]
                for name, (wanted, more, pods) in sorted(self._owners.items())
            },
        }

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        network = cls(state["layers"], state["nodes"])
        for name, amounts in state["free"].items():
            as_name(name, "free")
            values = [(name, as_fraction(amount, "free", 0, 2**62)) for amount in amounts]
            if len(values) != len(network.nodes):
                raise ValueError("free: is not of all nodes")
            network._refine(tuple(values))
            network._free.amounts[name] = np.array(
                [network._free.number(*value) for value in values], dtype=np.int64
            )
        for node in state["unhealthy"]:
            network._free.set_usable(network._domains.number(node), False)
        for name, (wanted, more, pods) in state["owners"].items():
            request = TopologyRequest(name, 1, amounts=dict(wanted))
            role = TopologyRole(name, 1, dict(more)).amounts if more else ()
            where = tuple(
                (
                    network._domains.number(node),
                    as_int(count, "pods", 0, MOST),
                    as_int(others, "pods", 0, MOST if more else 0),
                )
                for node, count, others in pods
            )
            network._refine((*request.amounts, *role))
            network._owners[name] = Owner(request.amounts, role, where)
        return network

    @in_turn
    def __sizeof__(self) -> int:
        kernels = self._kernels.__sizeof__()
        free = sum(amounts.nbytes for amounts in self._free.amounts.values())
        return object.__sizeof__(self) + kernels + free
