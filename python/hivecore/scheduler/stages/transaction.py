"""All stages together: a unit gets the resources that it requests from all of them, or none.

Stages decide in the order quotas, placement (cells or a network), devices. Each adds its decision
to an offer; then all commit. Devices are allocated at once, pod by pod, as pods compete for them.
If devices refuse a pod on its node, placement learns how many pods each node has devices for, and
decides again, a bounded number of times.

`Stages.trial` undoes all changes of a block. Outside of trials, `Stages.listener` is notified of
changes, so that waiting jobs are tried again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hivecore.decisions import Refusal
from hivecore.errors import StaleDecisionError
from hivecore.interleaving import interleave
from hivecore.quotas.explanation import LimitChange, raise_limits
from hivecore.scheduler.actions import Move, PlacedPod
from hivecore.scheduler.stages._groups import Group
from hivecore.scheduler.stages._lacks import Lacks
from hivecore.scheduler.stages._plain_starts import PlainStarts, Started
from hivecore.scheduler.stages._regrouping import Regrouping
from hivecore.scheduler.stages.cells import CellStage
from hivecore.scheduler.stages.claims import ClaimStage
from hivecore.scheduler.stages.composed import NO_NODE
from hivecore.scheduler.stages.devices import DeviceStage
from hivecore.scheduler.stages.limits import Limits
from hivecore.scheduler.stages.quotas import QuotaStage
from hivecore.scheduler.stages.sharing import Joined
from hivecore.scheduler.stages.stage import Offer, Rebooking, refused
from hivecore.scheduler.stages.storage import Observed, StorageStage
from hivecore.scheduler.stages.topology import TopologyStage
from hivecore.scheduler.stages.units import (
    BEGUN,
    FREED,
    Key,
    Kind,
    Pod,
    Refused,
    Unit,
)

__all__ = ["Stages", "Started"]

_NODES = ("scheduler", "nodes")


class Stages(PlainStarts):
    """The stages that decide on units; see `Composed` for the arguments."""

    # --- waiting

    def _notify_freed(self, kind: Kind) -> None:
        """Notify that a unit of a kind has released resources."""
        if self.listener is not None and self.listener.by_key:
            self.listener.touch((FREED, *self.released(kind)))

    def released(self, kind: Kind) -> Iterator[Key]:
        """The keys to touch when a unit of a kind releases its resources."""
        for stage in self.all:
            yield from stage.released(kind)

    def _notify_request(self, kind: Kind) -> None:
        if self._quotas is not None and self.listener is not None and self.listener.by_key:
            self.listener.touch(self._quotas.released(kind))

    def note_refusal(self, kind: Kind, refused: Refused) -> Refused:
        """Record that evictions do not help a kind either; add the keys of sharing."""
        if self._sharing is None:
            return refused
        self._sharing.note_refusal(kind, refused)
        return self._or_shares(kind, refused)

    def members(self, job: str) -> tuple[str, ...]:
        """The jobs that share the GPUs of a job, the holder first."""
        return (job,) if self._sharing is None else self._sharing.members(job)

    def holds(self, job: str) -> bool:
        """Whether a job holds its resources itself, rather than a job that it shares them with."""
        return self.members(job)[0] == job

    def lacks(self, branched: Lacks | None = None) -> Lacks | None:
        """A table for what quotas refuse, like ``branched`` if given; None: there are no quotas."""
        if self._quotas is None:
            return None
        return Lacks(self._quotas) if branched is None else branched.branch(self._quotas)

    def still_refused(self, kind: Kind, refusal: Refusal, name: str) -> Refused | None:
        """Why a waiting kind is not worth a try, as the refusing stage says; None if it is."""
        if self._quotas is not None and refusal.stage == self._quotas.name:
            request = name.removesuffix("/lent") if kind.is_lent else name
            again = self._quotas.still_refused(kind, request)
            return again and self._or_shares(kind, again)
        for stage in self.all:
            if stage.name == refusal.stage and stage.still_refuses(kind, refusal):
                return Refused(refusal, ())
        return None

    def _or_shares(self, kind: Kind, refused: Refused) -> Refused:
        """Add the keys of sharing to a refusal."""
        if self._sharing is None:
            return refused
        return refused._replace(keys=(*refused.keys, *self._sharing.released(kind)))

    # --- units

    def submit(self, unit: Unit) -> None:
        """Record that a unit waits."""
        self._each("submit", unit)
        self._notify_request(unit.kind)

    def withdraw(self, unit: Unit) -> None:
        """Record that a waiting unit will not run."""
        self._each("withdraw", unit)
        self._notify_request(unit.kind)

    def start(
        self, unit: Unit, nodes: tuple[str, ...] = (), beside: Iterable[PlacedPod] = ()
    ) -> Refused | Started:
        """Allocate what a unit requests; or return a refusal, and change nothing.

        :param nodes: the allowed nodes; empty: those that its job allows.
        :param beside: the other running pods of its job.
        """
        if self.is_plain and not (nodes or unit.has_quota) and unit.kind.is_plain:
            started = self._start_plain(unit)
            if started is not None:
                return started
        offer = self.propose(unit, nodes, beside)
        if isinstance(offer, Refused):
            return offer
        self._each("commit", offer)
        unit.placed, unit.is_placed = offer.pods(), offer.places is not None
        self.begin(unit)
        return Started(tuple(offer.decisions.items()))

    def adopt(self, unit: Unit) -> None:
        """Let a unit run where it is placed.

        :raises ValueError: it cannot be there.
        :raises StaleDecisionError: another unit uses the resources.
        """
        self._each("adopt", unit)
        self.begin(unit)

    def propose(
        self, unit: Unit, nodes: tuple[str, ...] = (), beside: Iterable[PlacedPod] = ()
    ) -> Refused | Offer:
        """The offer of all stages, with devices allocated already; or a refusal."""
        if not nodes and unit.kind.job.where.nodes:
            nodes = self._nodes_for(unit.kind) or ()
            if not nodes:
                return refused("scheduler", "nodes", NO_NODE, _NODES)
        offer = Offer(unit, nodes, self.usable)
        place = self._place
        if unit.kind.is_spread:
            offer.beside = Counter((pod.role, pod.node) for pod in beside)
            if place is not None:
                try:
                    limits = Limits(place, None, None, unit.kind, False, offer.beside)
                except ValueError as error:  # other resources are counted now
                    reason = str(error.args[0])
                    return refused(place.name, "impossible", reason, ("scheduler", "made"))
                offer.most = limits.most
        if (
            self._claims is not None
            and self._devices is not None
            and not (
                place
                and all(place.chooses_node(role) for role, _ in unit.kind.sizes if role.claims)
            )
        ):
            refusal = self._claims.narrow(offer)
            if refusal is not None:
                return refusal
        stages, at, tries = self._deciding, 0, self.tries
        before: Refused | None = None
        full: Limits | None = None
        while at < len(stages):
            stage = stages[at]
            try:
                refusal = stage.propose(offer)
            except BaseException as error:
                self._retract(offer, at)
                return self._refused_by_error(error, stage.name, unit)
            if refusal is None:
                at += 1
                continue
            self._retract(offer, at)
            if stage is self._place or offer.refused_pod < 0:
                return before or refusal
            before, tries = refusal, tries - 1
            if not tries:
                return refusal
            if offer.places and offer.places[offer.refused_pod][0]:
                full = full or self._limits(unit.kind, beside=offer.beside)
                full.refuse(offer.places, offer.refused_pod)
                offer.most = full.most
            elif not offer.able.get(offer.refused_pod):
                return refusal
            offer.refused_pod = -1
            at = stages.index(self._place) if self._place is not None else 0
        if not offer.granted:
            return offer
        try:
            refusal = self._charge_devices(offer)
        except BaseException:
            self._retract(offer, at)
            raise
        if refusal is not None:
            self._retract(offer, at)
            keys = () if self._claims is None else self._claims.released(unit.kind)
            return refusal._replace(keys=(*refusal.keys, *keys))
        return offer

    def _charge_devices(self, offer: Offer) -> Refused | None:
        """Charge what devices take. If a quota refuses, choose devices within its limit."""
        refusal = None if self._quotas is None else self._quotas.charge_devices(offer)
        if refusal is None or self._quotas is None or self._claims is None:
            return refusal
        offer.within = self._quotas.most_for_devices(offer.unit)
        if not offer.within:
            return refusal
        self._claims.retract(offer)
        if self._claims.propose(offer) is not None:
            return refusal
        return self._quotas.charge_devices(offer)

    def _retract(self, offer: Offer, at: int) -> None:
        """Undo the changes of the first stages."""
        for stage in self._deciding[:at]:
            stage.retract(offer)

    def first_refused(self, units: list[Unit]) -> tuple[int, Refused] | None:
        """The first unit that is refused if these start in turn, and why; changes nothing."""
        placing = self
        if self._quotas is not None:
            first = self._quotas.first_refused(units)
            if first is not None:
                return first
            if not any(unit.kind.has_claims for unit in units):
                placing = self.without_quotas()
        with placing.trial():
            for at, unit in enumerate(units):
                started = placing.start(unit)
                if isinstance(started, Refused):
                    return at, started
        return None

    def refusals(self, unit: Unit) -> Iterator[Refused]:
        """Why quotas, placement with devices, and devices refuse a unit; else, all together."""
        placing = CellStage, TopologyStage, DeviceStage, ClaimStage
        alone = [*self._without(*placing)._refusal(unit), *self.without_quotas()._refusal(unit)]
        # quotas learn the capacities of devices after these are chosen
        yield from alone or self._refusal(unit)
        if alone and self._place is not None and alone[-1].refusal.stage == self._place.name:
            yield from self._without(QuotaStage, CellStage, TopologyStage)._refusal(unit)

    def _refusal(self, unit: Unit) -> Iterator[Refused]:
        with self.trial():
            tried = self.start(unit.trial())
        if isinstance(tried, Refused):
            yield tried

    @property
    def puts_back(self) -> bool:
        """Whether a unit that releases its resources can get exactly the same again."""
        is_alone = len(self._deciding) == 1 and self._storage is None
        return is_alone and isinstance(self._place, TopologyStage)

    def put_back(self, unit: Unit, placed: tuple[PlacedPod, ...]) -> bool:
        """Place a unit where it was; or return False, and change nothing."""
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
        """Let a unit join running jobs; None if it cannot, and nothing changes."""
        joined = None if self._sharing is None else self._sharing.join(unit)
        if joined is not None:
            unit.placed, unit.is_placed = joined.placed, False
            if self._sharing is not None and self.listener is not None:
                self.listener.touch((BEGUN, *self._sharing.begun(unit.kind)))
        return joined

    def give_back(self, unit: Unit, *, end: bool, reclaimed: bool = False) -> str:
        """Release the resources of a running unit, or pass them to a job that shares them.

        :param end: the unit ends; otherwise it waits again.
        :param reclaimed: another quota reclaims the resources; only if the unit waits again.
        :returns: the job that holds them now; "" if none does, or the holder is the same.
        """
        is_placed, heir = unit.is_placed, ""
        left = None if self._sharing is None else self._sharing.leave(unit.name)
        if left is not None:
            is_placed = left.is_placed
        if left is not None and left.heir:
            if left.held:
                heir = left.heir
                self._each("rename", unit, unit.name, heir, is_placed)
                if self._quotas is not None:
                    self._quotas.part.exchange(unit.name, heir)
                    self._quotas.stir(unit)
            if end:
                self.withdraw(unit)
        else:
            self._each("vacate", unit, is_placed)
            if end:
                self._each("withdraw", unit)
            else:
                self._each("evict", unit, reclaimed)
        self._notify_freed(unit.kind)
        return heir

    def check_holds(self, unit: Unit) -> None:
        """Raise KeyError if a running unit has lost resources to a change from outside."""
        self._each("check_holds", unit)

    def vacate(self, unit: Unit) -> None:
        """Release the placement of a unit that does not share; its quota still counts it."""
        self._each("vacate", unit, unit.is_placed)
        self._notify_freed(unit.kind)

    def rebook(
        self,
        unit: Unit,
        kind: Kind,
        placed: tuple[PlacedPod, ...],
        *,
        other: Unit | None = None,
        taken: Sequence[tuple[PlacedPod, PlacedPod]] = (),
    ) -> None:
        """Change the pods of a running unit; its quota is charged as before.

        :param kind: the kind of its new pods.
        :param placed: its new pods.
        :param other: a unit of the same job whose pods it takes.
        :param taken: pods that change their numbers, before and after.
        """
        pods = tuple(Pod(pod.role, pod.index) for pod in placed)
        now = Unit(unit.name, unit.owner, kind, pods, unit.job)
        now.placed = placed
        self._each("rebook", Rebooking(unit, now, other, taken))
        unit.placed, unit.is_placed = placed, now.is_placed
        if other is not None:
            other.placed, other.is_placed = (), False
        else:
            self._notify_freed(unit.kind)

    # --- resources that are held for a unit until its victims have stopped

    def hold(
        self,
        unit: Unit,
        leaving: Sequence[Unit],
        nodes: tuple[str, ...] = (),
        beside: Sequence[PlacedPod] = (),
    ) -> None:
        """Reserve what a unit needs to start without its victims; nothing if it would not start.

        :param leaving: the units of its victims.
        :param nodes, beside: see `propose`.
        """
        with self.trial():
            for victim in leaving:
                self.give_back(victim, end=False)
            offer = self.propose(unit.trial(), nodes, beside)
        if isinstance(offer, Refused):
            return
        unit.placed = offer.pods()
        self._each("hold", unit, offer, [victim for victim in leaving if victim.is_placed])
        for victim in leaving:  # they may free more than the unit takes
            self._notify_freed(victim.kind)

    def let_go(self, unit: Unit, leaving: Sequence[Unit]) -> None:
        """Release what is reserved for a unit; ``leaving``: units of victims that still run."""
        self._each("let_go", unit, [victim for victim in leaving if self.holds(victim.name)])
        unit.placed, unit.is_placed = (), False
        self._notify_freed(unit.kind)
        if self.listener is not None:  # its quota was charged for both
            self.listener.touch((BEGUN,))

    def fulfil(self, unit: Unit) -> Started | Refused:
        """Start a unit on its reserved resources; they stay so if a changed part refuses."""
        offer = Offer(unit, ())
        if self._quotas is not None and self._claims is not None:
            offer.within = self._quotas.charged_for_devices(unit)
        for stage in self.all:
            refusal = stage.fulfil(unit, offer)
            if refusal is not None:
                return refusal
        if self._quotas is not None:
            self._quotas.recharge_devices(unit, offer)
        self.begin(unit)
        return Started(tuple(offer.decisions.items()))

    # --- quotas

    def may_borrow(self, unit: Unit) -> bool:
        """Whether a waiting unit may borrow: no quota has just reclaimed from it."""
        return self._quotas is None or self._quotas.part.may_borrow(unit.request)

    def limit_changes(self, unit: Unit) -> tuple[tuple[LimitChange, ...], ...]:
        """Limits of quotas that would have to be higher for a refused unit."""
        if self._quotas is None:
            return ()
        tree, request = self._quotas.part, unit.request
        return () if tree.schedule(request).outcome == "bind" else tree.limit_changes(request)

    def raise_limits(self, quota: str, limits: Sequence[LimitChange]) -> None:
        """Raise limits of a quota and its ancestors."""
        if self._quotas is not None:
            raise_limits(self._quotas.part, quota, limits)

    # --- sharing

    def share(self, unit: Unit, holder: Unit) -> None:
        """Let a unit share the resources of another unit like it."""
        assert self._sharing is not None
        unit.placed, unit.is_placed = self._sharing.share(unit, holder), False

    def regroup(
        self, units: Mapping[str, Unit], seconds: float, begun: Collection[str]
    ) -> list[Move]:
        """Regroup jobs that share GPUs, and return the moves.

        :param units: running units by name.
        :param seconds: the expected lifetime of the groups.
        :param begun: jobs that start in this round; their groups stay.
        """
        changes = [] if self._sharing is None else self._sharing.regrouped(seconds, begun)
        if self._sharing is None or not changes:
            return []
        before = {
            name: units[name].placed
            for group, names in changes
            for name in names
            if name not in group.jobs
        }
        self._pass_around(units, changes)
        self._sharing.regroup(changes)
        for group, names in changes:
            for name in names:
                units[name].placed = group.placed
                units[name].is_placed = group.is_placed and name == names[0]
        moved = [(group, name) for group, names in changes for name in names if name in before]
        moves = [_move(group, name, before[name]) for group, name in moved]
        for _, name in moved:
            self._notify_freed(units[name].kind)
        return moves

    def _pass_around(self, units: Mapping[str, Unit], changes: list[Regrouping]) -> None:
        """Pass the resources of each group to its new holder."""
        passed: list[tuple[str, str, bool]] = []
        for group, names in changes:
            holder = next(iter(group.jobs))
            if not names:
                self._each("vacate", units[holder], group.is_placed)
                self._each("evict", units[holder], False)
            elif holder != names[0]:
                passed.append((holder, names[0], group.is_placed))
        # a new holder may still hold the GPUs of another group
        for old, _, is_placed in passed:
            self._each("rename", units[old], old, f"{old}//", is_placed)
        for old, new, is_placed in passed:
            self._each("rename", units[old], f"{old}//", new, is_placed)
        if self._quotas is not None:
            self._quotas.exchange({old: new for old, new, _ in passed})

    # --- storage

    @property
    def is_stale(self) -> bool:
        """Whether cache and remote IO must be allocated again."""
        return self._storage is not None and self._storage.is_stale

    def reading_order(self, now: float) -> list[str]:
        """The jobs that read data, the shortest first; see `Scheduler.reading_order`."""
        return self._reading(shares_io=True).shortest_first(now)

    def reading_shares(self, gpus: Callable[[str], float], gpu_capacity: float) -> dict[str, float]:
        """By job that reads data, the fraction of time for which it should have its GPUs.

        :param gpus: the GPUs of a job, by its name.
        :param gpu_capacity: the GPUs of the cluster.
        """
        return self._reading(shares_io=True).fair_shares(gpus, gpu_capacity)

    def observe(
        self, amounts: Mapping[str, Any], knows: Callable[[str, str], object], now: float
    ) -> Observed:
        """Check and store observations of the storage.

        :param amounts: by the fields of `Observed`.
        :param knows: called with the name of a job that reads nothing, and the field; raises
            KeyError if it is unknown.
        """
        storage = self._reading()
        observed = storage.as_observed(amounts, knows)
        storage.observe(observed, now)
        return observed

    def _reading(self, *, shares_io: bool = False) -> StorageStage:
        """The storage, which must allocate remote IO if ``shares_io``."""
        if self._storage is None:
            raise ValueError("there is no storage")
        if shares_io and self._storage.pool.bandwidth_mbps is None:
            raise ValueError("the network shares out remote IO")
        return self._storage


def _move(group: Group, name: str, before: tuple[PlacedPod, ...]) -> Move:
    """The move of a job to a group that it has joined."""
    others = tuple(other for other in group.jobs if other != name)
    order = interleave([group.jobs[name], *(group.jobs[other] for other in others)])
    return Move(name, group.placed, before, others, order.offsets if others else ())
