"""The content of a cluster: objects, claims that hold devices, and the state of nodes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from fractions import Fraction
from itertools import chain
from threading import RLock
from typing import Any, Self, TypeAlias
from uuid import uuid4

from msgspec import to_builtins
from msgspec.json import encode
from msgspec.structs import force_setattr

from hivecore._arguments import as_choice, as_instance, as_int, show
from hivecore._quantities import read_exactly
from hivecore._stateful import PlainState, counted, shown
from hivecore._trial import LoggedTrials, UndoLog
from hivecore.dra._book import Book, Entry
from hivecore.dra._claim_kind import ClaimKind
from hivecore.dra._node_class import (
    ANY_GROUP,
    FREE,
    SHARED,
    Change,
    Classes,
    NodeClass,
    NodeView,
    number_node,
)
from hivecore.dra._numbering import FinerUnitError, Numbering, UnitOverflowError
from hivecore.dra._reading import from_plain
from hivecore.dra.cel import Evaluator
from hivecore.dra.claim import DeviceClass, ResourceClaim
from hivecore.dra.decision import ClaimDecision
from hivecore.dra.device import CounterConsumption, DeviceId
from hivecore.dra.features import KubernetesFeatures
from hivecore.dra.node import Node
from hivecore.dra.pools import Pool, gather_pools, published
from hivecore.dra.resource_slice import DeviceTaintRule, ResourceSlice
from hivecore.errors import InvariantError, StaleDecisionError

__all__ = ["MOST_QUESTIONS", "DraLedger", "owner_of", "record_of"]

_Object: TypeAlias = ResourceSlice | DeviceClass | Node | DeviceTaintRule | ResourceClaim
_KINDS: dict[str, type[_Object]] = {
    kind.__name__: kind
    for kind in (ResourceSlice, DeviceClass, Node, DeviceTaintRule, ResourceClaim)
}
MOST_QUESTIONS = 1024


class DraLedger(LoggedTrials, PlainState):
    """The part of a `DraCluster` that makes no decisions."""

    _SAVED_AS = b"HVdc", 1

    def __init__(
        self,
        features: KubernetesFeatures | None = None,
        *,
        evaluator: Evaluator | None = None,
        limit: int = 1_000_000,
        share_id: Callable[[], object] = uuid4,
    ) -> None:
        if features is not None:
            as_instance(features, "features", KubernetesFeatures)
        self._features = features or KubernetesFeatures.of()
        self._evaluator, self._share_id = evaluator, share_id
        self._limit = as_int(limit, "limit", 1, 2**63 - 1)
        self._lock = RLock()
        self._undo = UndoLog()
        self._slices: dict[str, ResourceSlice] = {}
        self._device_classes: dict[str, DeviceClass] = {}
        self._nodes: dict[str, Node] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._pools: dict[tuple[str, str], dict[str, ResourceSlice]] = {}
        self._book = Book()
        self._numbering, self._classes = Numbering(self._features.reads_lists), Classes()
        self._views: dict[str, NodeView] = {}
        self._viewers: dict[tuple[str, str], set[str]] = {}  # nodes by pool
        self._local: dict[str, dict[tuple[str, str], int]] = {}  # node -> pools of its own slices
        self._everywhere: dict[tuple[str, str], int] = {}  # pools of slices without node name
        self._dirty: dict[str, bool] = {}  # nodes to recompute -> whether to recompute their pools
        self._version = 0  # of the state
        self._claim_kinds: dict[bytes, ClaimKind] = {}
        self._prototypes: dict[bytes, ResourceClaim] = {}

    def __repr__(self) -> str:
        with self._lock:
            nodes, slices = counted(len(self.nodes), "node"), counted(len(self._slices), "slice")
            return shown(self, nodes, slices, counted(len(self._book.owners), "claim"))

    # --- what is in the cluster

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that exist or that slices name, sorted."""
        with self._lock:
            return tuple(sorted(self._nodes.keys() | self._local.keys()))

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that hold devices, by uid or ``namespace/name``, sorted."""
        with self._lock:
            return tuple(sorted(self._book.owners))

    def __contains__(self, claim: object) -> bool:
        """Whether a claim (by uid or ``namespace/name``) holds devices."""
        with self._lock:
            return claim in self._book.owners

    def update(self, *objects: _Object | Mapping[str, Any]) -> None:
        """Add objects, or replace those of the same kind and name.

        :param objects: slices, classes, nodes, taint rules, and claims, which hold what their
            ``status.allocation`` says; records or plain data.
        :raises ValueError: an object is invalid, or a claim holds what another holds; then nothing
            is added.

        Cost: O(size of the objects). Affected nodes are recomputed when they are next used.
        """
        with self._lock:
            records = [record_of(record, i) for i, record in enumerate(objects)]
            book, touched = _booked(self._book, self._pools, records)
            self._check_units(records, book)
            self._undo.note(self._exchange_book, self._book, touched)
            self._book = book
            self._soil({node for pool in touched for node in self._viewers.get(pool, ())}, False)
            for record in records:
                if not isinstance(record, ResourceClaim):
                    self._put(type(record).__name__, record.name, record)

    def remove(self, kind: str, name: str) -> None:
        """Remove an object other than a claim (see `release`). Devices stay in use.

        :param kind: "ResourceSlice", "DeviceClass", "Node" or "DeviceTaintRule".
        :raises KeyError: there is no such object.
        """
        kind = as_choice(kind, "kind", tuple(_KINDS)[:4])
        with self._lock:
            objects = self._objects(kind)
            if name not in objects:
                raise KeyError(f"no {kind} {show(name)}")
            self._put(kind, name, None)

    def _objects(self, kind: str) -> dict[str, Any]:
        objects: dict[str, dict[str, Any]] = {
            "ResourceSlice": self._slices,
            "DeviceClass": self._device_classes,
            "Node": self._nodes,
            "DeviceTaintRule": self._rules,
        }
        return objects[kind]

    def _put(self, kind: str, name: str, new: _Object | None) -> None:
        """Replace, add or remove an object."""
        objects = self._objects(kind)
        old = objects.pop(name, None)
        self._undo.note(self._put, kind, name, old)
        if new is not None:
            objects[name] = new
        for record, change in ((old, -1), (new, 1)):
            if isinstance(record, ResourceSlice):
                self._count_slice(record, change)
            if record is not None:
                self._changed(record)

    def _count_slice(self, of: ResourceSlice, change: int) -> None:
        pool = of.driver, of.pool.name
        if change > 0:
            slices = self._pools.setdefault(pool, {})
            slices[of.name] = of
            if self._book.unknown:
                self._charge_unknown(pool, slices.values())
        else:
            del self._pools[pool][of.name]
            if not self._pools[pool]:
                del self._pools[pool]
        counts = self._local.setdefault(of.node_name, {}) if of.node_name else self._everywhere
        counts[pool] = counts.get(pool, 0) + change
        if not counts[pool]:
            del counts[pool]
        if of.node_name and not counts:
            del self._local[of.node_name]

    def _charge_unknown(self, pool: tuple[str, str], slices: Iterable[ResourceSlice]) -> None:
        """Charge devices in use that a pool publishes for the first time."""
        book, first = self._book, published(slices)
        for device in sorted(book.unknown & first.keys()):
            book.charge(device, first[device].consumes_counters)
            self._undo.note(book.uncharge, device)

    def _changed(self, of: _Object) -> None:
        """Mark the nodes that an object affects for recomputation."""
        if isinstance(of, DeviceClass):
            self._claim_kinds.clear()
            self._classes.forget_answers()
        elif isinstance(of, Node):
            self._soil([of.name], True)
        elif isinstance(of, ResourceSlice) and of.node_name:
            self._soil([of.node_name], True)
            self._soil(self._viewers.get((of.driver, of.pool.name), ()), True)
        else:
            self._soil(self._nodes.keys() | self._local.keys(), True)

    def _check_units(self, records: list[_Object], book: Book) -> None:
        """Check that the amounts of new objects can be counted beside those that stay.

        :param book: with the claims among the objects.
        :raises ValueError: they cannot.
        """
        try:
            is_finer = _count(records, self._numbering)
        except UnitOverflowError:
            self._recount(records, book)
            try:
                is_finer = _count(records, self._numbering)
            except UnitOverflowError:
                self._recount()
                raise
        if is_finer:
            self._renumber()

    def _recount(self, new: Iterable[_Object] = (), book: Book | None = None) -> None:
        """Choose the units for the slices and the book again, without what new objects replace.

        Cost: O(size of the cluster).
        """
        self._undo.note(self._recount)  # for slices that come back
        slices = self._slices.keys() - {of.name for of in new if isinstance(of, ResourceSlice)}
        owners = {owner_of(of) for of in new if isinstance(of, ResourceClaim)}
        amounts = [of[1:] for name in slices for of in _amounts_of(self._slices[name])]
        self._renumber()
        self._numbering.recount([*amounts, *(book or self._book).amounts(owners)])

    # --- claims that hold devices

    def commit(self, decision: ClaimDecision) -> None:
        """Let the claims of a decision hold its devices.

        :raises ValueError: there is no allocation, a claim holds devices already, or the id of a
            share is in use.
        :raises StaleDecisionError: the node has changed since.

        Cost: O(devices of the claims) if the change is known for this node class, otherwise
        O(devices of the node).
        """
        as_instance(decision, "decision", ClaimDecision)
        if decision.outcome != "allocated":
            raise ValueError(f"decision: it is {decision.outcome!r}, not 'allocated'")
        with self._lock:
            self._refresh()
            owners = [owner_of(claim) for claim in decision.claims]
            for owner in owners:
                if owner in self._book.owners or owners.count(owner) > 1:
                    raise ValueError(f"decision: claim {show(owner)} has devices")
            view = self._views.get(decision.node)
            changes = None if view is None else self._changes_of(decision, view)
            if view is None or changes is None:
                raise StaleDecisionError(f"node {show(decision.node)} has changed since")
            view = self._views[decision.node]  # the decision may have refined units
            every = decision.entries
            taken = self._book.conflict(chain.from_iterable(every))
            if taken is not None:
                raise ValueError(f"share_id: a share of {'/'.join(taken)} has this id")
            self._undo.note(self._take_out, owners, decision.node, view.node_class, self._classes)
            for owner, entries in zip(owners, every, strict=True):
                own = [view.devices[view.positions[entry.device]] for entry in entries]
                charged = {device.id: device.device.consumes_counters for device in own}
                self._book.add(owner, entries, charged)
            self._move(decision.node, view, changes)

    def _changes_of(self, decision: ClaimDecision, view: NodeView) -> tuple[Change, ...] | None:
        """Return how a decision changes a node; ``None`` if it is stale."""
        raise NotImplementedError

    def release(self, claim: ResourceClaim | Mapping[str, Any] | str) -> None:
        """Release a claim's devices.

        :param claim: the claim, its uid, or ``namespace/name``.
        :raises KeyError: it holds nothing.

        Cost: as for `commit`.
        """
        with self._lock:
            owner = claim if isinstance(claim, str) else owner_of(self._claim(claim))
            if owner not in self._book.owners:
                raise KeyError(f"claim {show(owner)} holds no devices")
            self._refresh()
            charges = {
                entry.device: self._book.charges[entry.device[:2]][entry.device]
                for entry in self._book.owners[owner]
                if entry.device not in self._book.unknown
            }
            entries = self._book.remove(owner)
            self._undo.note(self._put_in, owner, entries, charges)
            nodes = {node for entry in entries for node in self._viewers.get(entry.device[:2], ())}
            if len(nodes) != 1:
                self._soil(nodes, False)
                return
            (node,) = nodes
            view = self._views[node]
            changes = self._coming_back(view, entries, charges)
            if changes is None:
                self._soil([node], False)
            else:
                self._move(node, view, changes)

    def rename(self, old: str, new: str) -> None:
        """Transfer what a claim holds to another; both by uid or ``namespace/name``.

        :raises KeyError: the first one holds nothing.
        :raises ValueError: the other one holds something.
        """
        with self._lock:
            owners = self._book.owners
            if old not in owners or new in owners:
                error = ValueError if old in owners else KeyError
                raise error(f"old={show(old)}, new={show(new)}: only the first may hold devices")
            self._undo.note(self.rename, new, old)
            owners[new] = owners.pop(old)

    def _coming_back(
        self,
        view: NodeView,
        entries: Iterable[Entry],
        charges: Mapping[DeviceId, tuple[CounterConsumption, ...]],
    ) -> tuple[Change, ...] | None:
        """Return how a node changes; ``None`` if that does not follow from its class alone."""
        changes = []
        for device, share, consumed in entries:
            position = view.positions.get(device)
            if position is None:
                return None
            key, own = view.node_class.key.devices[position], view.devices[position].device
            if charges.get(device) != own.consumes_counters or any(
                groups != ANY_GROUP for _, groups, _ in key[2]
            ):
                return None
            use = SHARED if device in self._book.shares else FREE
            if not share:
                changes.append(Change(position, None, False, use))
                continue
            if len(key[3]) != len(own.capacity):
                return None
            taken = [
                self._numbering.units(name, consumed.get(name, read_exactly(0, name)))
                for name in sorted(own.capacity)
            ]
            changes.append(Change(position, tuple(taken), False, use))
        return tuple(changes)

    def _move(self, node: str, view: NodeView, changes: tuple[Change, ...]) -> None:
        positions = [change.position for change in changes]
        pools = {view.devices[position].id[:2] for position in positions}
        others = {other for pool in pools for other in self._viewers[pool]} - {node}
        self._soil(others, False)
        if len(set(positions)) < len(positions):  # shares of the same device
            self._soil([node], False)
        elif changes:
            self._classes.move(node, view, self._classes.after(view.node_class, changes))

    def _claim(self, given: ResourceClaim | Mapping[str, Any]) -> ResourceClaim:
        """Return the claim as a record; equal requests are parsed once."""
        if isinstance(given, ResourceClaim):
            return given
        if not isinstance(given, Mapping):
            raise TypeError(f"claims must be ResourceClaim or mappings, not {show(given)}")
        try:
            key = encode((given["spec"], given.get("kind"), given.get("apiVersion")))
            metadata = given["metadata"]
            name, namespace = metadata["name"], metadata.get("namespace", "")
            uid = metadata.get("uid", "")
        except (KeyError, TypeError, AttributeError):
            return ResourceClaim.of(given)
        prototype = self._prototypes.get(key)
        texts = type(name) is type(namespace) is type(uid) is str and name
        if given.get("status"):  # claims of equal requests do not share it
            return ResourceClaim.of(given)
        if prototype is None or not texts:
            if len(self._prototypes) >= MOST_QUESTIONS:
                self._prototypes.clear()
            prototype = self._prototypes[key] = ResourceClaim.of(given)
            return prototype
        alike = copy(prototype)
        for field, value in (("name", name), ("namespace", namespace), ("uid", uid)):
            force_setattr(alike, field, value)
        return alike

    # --- what undoes changes

    def _exchange_book(self, book: Book, pools: Iterable[tuple[str, str]]) -> None:
        self._book = book
        self._soil({node for pool in pools for node in self._viewers.get(pool, ())}, False)

    def _take_out(self, owners: list[str], node: str, before: NodeClass, classes: Classes) -> None:
        """Undo a commit."""
        pools = {entry.device[:2] for owner in owners for entry in self._book.remove(owner)}
        nodes = {other for pool in pools for other in self._viewers.get(pool, ())}
        view = self._views.get(node)
        if view is not None and classes is self._classes and nodes <= {node}:
            self._version += 1
            self._classes.move(node, view, before)
        else:
            self._soil(nodes | {node}, False)

    def _put_in(
        self,
        owner: str,
        entries: tuple[Entry, ...],
        charges: Mapping[DeviceId, tuple[CounterConsumption, ...]],
    ) -> None:
        """Undo a release."""
        self._book.add(owner, entries, charges)
        pools = {entry.device[:2] for entry in entries}
        self._soil({node for pool in pools for node in self._viewers.get(pool, ())}, False)

    # --- nodes that have changed

    def _soil(self, nodes: Iterable[str], with_pools: bool) -> None:
        """Mark nodes for recomputation, with or without the devices that they may use."""
        self._version += 1
        for node in nodes:
            self._dirty[node] = with_pools or self._dirty.get(node, False)

    def _renumber(self) -> None:
        self._classes = Classes()
        self._soil(self._views, False)
        for kind in self._claim_kinds.values():
            kind.forget_profiles()

    def _refresh(self, *kinds: ClaimKind) -> None:
        """Recompute the nodes that have changed, and prepare kinds of claims.

        :raises ValueError: an amount of the claims cannot be counted beside those of the cluster.
        """
        is_recounted = False
        while True:
            try:
                while self._dirty:
                    node, with_pools = next(iter(self._dirty.items()))
                    self._view(node, with_pools)
                    del self._dirty[node]
                for kind in kinds:
                    kind.prepare()
                return
            except FinerUnitError:
                self._renumber()
            except UnitOverflowError:
                if is_recounted:
                    raise
                is_recounted = True
                self._recount()

    def _view(self, node: str, with_pools: bool) -> None:
        """Recompute a node."""
        old = self._views.get(node)
        if old is not None and not with_pools:
            pools, gathered = old.pools, old.gathered
        else:
            pools = frozenset([*self._local.get(node, ()), *self._everywhere])
            gathered = self._gathered(node, pools)
        devices, key = number_node(gathered, self._book, self._numbering, self._features)
        if old is not None:
            old.node_class.nodes.discard(node)
            for pool in old.pools:
                self._viewers[pool].discard(node)
            del self._views[node]
        if node not in self._nodes and node not in self._local:
            return
        view = NodeView(pools, gathered, devices, self._classes.of(key))
        self._views[node] = view
        self._classes.enter(node, view.node_class)
        for pool in pools:
            self._viewers.setdefault(pool, set()).add(node)

    def _gathered(self, node: str, pools: Iterable[tuple[str, str]]) -> tuple[Pool, ...]:
        of = self._nodes.get(node) or Node(node)
        slices = [part for pool in pools for part in self._pools[pool].values()]
        return gather_pools(slices, of, self._features, self._rules.values())

    # --- saved states

    def _plain(self) -> dict[str, Any]:
        def plain(record: Any) -> Any:
            return to_builtins(record, enc_hook=str)

        book = self._book
        return {
            "features": [self._features.version, sorted(self._features.enabled)],
            "limit": self._limit,
            "objects": {
                kind: [plain(record) for _, record in sorted(self._objects(kind).items())]
                for kind in list(_KINDS)[:4]
            },
            "owners": {owner: plain(entries) for owner, entries in sorted(book.owners.items())},
            "charges": [
                [*device, plain(charges)]
                for _, devices in sorted(book.charges.items())
                for device, charges in sorted(devices.items())
                if device not in book.unknown
            ],
        }

    @classmethod
    def _restored(cls, state: dict[str, Any]) -> Self:
        version, enabled = state["features"]
        restored = cls(KubernetesFeatures(version, frozenset(enabled)), limit=state["limit"])
        for kind, objects in state["objects"].items():
            for record in objects:
                restored._put(kind, record["name"], from_plain(record, _KINDS[kind]))
        charges = {
            DeviceId(driver, pool, device): from_plain(of, tuple[CounterConsumption, ...])
            for driver, pool, device, of in state["charges"]
        }
        for owner, entries in state["owners"].items():
            restored._book.add(owner, from_plain(entries, tuple[Entry, ...]), charges)
        return restored

    def copy(self) -> Self:
        """Return an independent copy with the same evaluator. Cost: O(state)."""
        with self._lock:
            copied = type(self)(
                self._features,
                evaluator=self._evaluator,
                limit=self._limit,
                share_id=self._share_id,
            )
            for kind in list(_KINDS)[:4]:
                for name, record in self._objects(kind).items():
                    copied._put(kind, name, record)
            copied._book = self._book.copy()
            return copied

    # --- audit

    def check(self) -> None:
        """Check that every node's state follows from its slices and claims.

        :raises InvariantError: it does not. Cost: O(size of the cluster).
        """
        with self._lock:
            self._refresh()
            self._book.check(published(self._slices.values()))
            for node, view in self._views.items():
                gathered = self._gathered(node, view.pools)
                _, key = number_node(gathered, self._book, self._numbering, self._features)
                if key != view.node_class.key:
                    raise InvariantError(f"node {node} is not what its slices and claims say")
                if node not in view.node_class.nodes:
                    raise InvariantError(f"node {node} is not in its class")


def owner_of(claim: ResourceClaim) -> str:
    """Return the name under which a claim holds devices."""
    return claim.uid or f"{claim.namespace}/{claim.name}"


def _entries(claim: ResourceClaim) -> tuple[Entry, ...]:
    """Return what a claim's status says that it holds."""
    if claim.allocation is None:
        return ()
    entries = []
    try:
        for result in claim.allocation["devices"].get("results") or ():
            if result.get("adminAccess"):
                continue
            amounts = result.get("consumedCapacity") or {}
            consumed = {name: read_exactly(amount, name) for name, amount in amounts.items()}
            if min(consumed.values(), default=0) < 0:
                raise TypeError("a negative amount in consumedCapacity")
            device = DeviceId(result["driver"], result["pool"], result["device"])
            share = result.get("shareID") or ""
            if not all(isinstance(of, str) for of in (*device, share, *consumed)):
                raise TypeError("a name is no string")
            entries.append(Entry(device, share, consumed))
    except (AttributeError, KeyError, TypeError) as error:
        where = f"ResourceClaim {show(claim.full_name)}: status.allocation"
        raise ValueError(f"{where}: {type(error).__name__} {error}") from None
    return tuple(entries)


def _amounts_of(record: _Object) -> Iterator[tuple[str, str, Fraction]]:
    """The amounts in a record: where each is, the name of what is counted, and the amount."""
    if isinstance(record, ResourceSlice):
        at = f"ResourceSlice {show(record.name)}: spec."
        for i, counter_set in enumerate(record.shared_counters):
            for name, counter in counter_set.counters.items():
                yield f"{at}sharedCounters[{i}].counters", name, counter.value
        for i, device in enumerate(record.devices):
            for name, capacity in device.capacity.items():
                yield f"{at}devices[{i}].capacity", name, capacity.value
            for consumed in device.consumes_counters:
                for name, counter in consumed.counters.items():
                    yield f"{at}devices[{i}].consumesCounters", name, counter.value
    elif isinstance(record, ResourceClaim):
        where = f"ResourceClaim {show(record.full_name)}: status.allocation: consumedCapacity"
        for entry in _entries(record):
            for name, amount in entry.consumed.items():
                yield where, name, amount


def _count(records: Iterable[_Object], numbering: Numbering) -> bool:
    """Let units represent the amounts in records; return whether a unit has become smaller."""
    is_finer = False
    for record in records:
        for where, name, amount in _amounts_of(record):
            try:
                numbering.units(name, amount)
            except FinerUnitError:
                is_finer = True
            except UnitOverflowError as error:
                raise UnitOverflowError(f"{where}.{error}") from None
    return is_finer


def _booked(
    before: Book,
    known: Mapping[tuple[str, str], Mapping[str, ResourceSlice]],
    records: Iterable[_Object],
) -> tuple[Book, set[tuple[str, str]]]:
    """A copy of a book with the claims among these records, and the pools that they affect.

    :param known: slices by pool and name; those among the records are about to replace them.
    """
    claims = [record for record in records if isinstance(record, ResourceClaim)]
    touched: set[tuple[str, str]] = set()
    if not claims:
        return before, touched
    book, kept = before.copy(), dict[DeviceId, tuple[CounterConsumption, ...]]()
    for claim in claims:
        owner = owner_of(claim)
        if owner in book.owners:
            for device, _, _ in book.owners[owner]:
                if device not in book.unknown:
                    kept[device] = book.charges[device[:2]][device]
            touched.update(entry.device[:2] for entry in book.remove(owner))
    new = {record.name: record for record in records if isinstance(record, ResourceSlice)}
    for claim in claims:
        entries = _entries(claim)
        conflict = book.conflict(entries)
        if conflict is not None:
            message = f"{'/'.join(conflict)} is in use"
            raise ValueError(f"ResourceClaim {show(claim.full_name)}: {message}")
        if entries:
            pools = {entry.device[:2] for entry in entries}
            touched |= pools
            slices = [of for pool in pools for of in known.get(pool, {}).values()]
            slices = [of for of in slices if of.name not in new]
            slices += [of for of in new.values() if (of.driver, of.pool.name) in pools]
            first = {id: of.consumes_counters for id, of in published(slices).items()}
            book.add(owner_of(claim), entries, first | kept)
    return book, touched


def record_of(given: _Object | Mapping[str, Any], number: int) -> _Object:
    """Return the record of a cluster object.

    :param number: its index, for messages.
    :raises ValueError: its kind is unknown, or it is invalid.
    """
    if isinstance(given, (ResourceSlice, DeviceClass, Node, DeviceTaintRule, ResourceClaim)):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"objects[{number}] must be an object of Kubernetes, not {show(given)}")
    kind = given.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"objects[{number}]: kind {show(kind)} is none of {', '.join(_KINDS)}")
    return _KINDS[kind].of(given)
