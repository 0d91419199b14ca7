"""A cluster's device claims: what drivers publish, what claims hold, and where new claims fit."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.json import encode

from hivecore._arguments import as_choice, as_dict, as_instance, as_int, as_name, as_text, show
from hivecore.dra._claim_kind import FEWEST, LEAST_WASTE, MODES, ClaimKind, Ranking, Within
from hivecore.dra._fewest import BLOCKS
from hivecore.dra._node_class import (
    Change,
    NodeClass,
    NodeView,
)
from hivecore.dra._question import Question
from hivecore.dra._within import Limits, Vector
from hivecore.dra.cel import compile_selector, matches
from hivecore.dra.claim import DeviceClass, ResourceClaim
from hivecore.dra.decision import Answer, ClaimDecision, ClaimFits, vector_of
from hivecore.dra.explanation import ClaimExplanation, World, explanation_of
from hivecore.dra.gang import DraGangDecision, share_out
from hivecore.dra.ledger import MOST_QUESTIONS, DraLedger, owner_of
from hivecore.dra.node import Node
from hivecore.dra.proof import ClusterFacts, verify_allocations
from hivecore.dra.resource_slice import DeviceTaintRule, ResourceSlice
from hivecore.errors import CelSyntaxError, CertificateError, StaleDecisionError

__all__ = ["DraCluster", "Mode", "Preference"]

#: One of MODES, "fewest blocks", "fewest DOMAIN/ATTRIBUTE" or "least waste of CAPACITY".
Mode: TypeAlias = str
Preference = Literal["packed", "spread", "name"]
_PREFERENCES = ("packed", "spread", "name")
_Pod = list[ResourceClaim]
_OnNode = tuple[Sequence[int], ClaimDecision]


class DraCluster(DraLedger):
    """Allocates devices on the nodes of a cluster to Kubernetes' device claims.

    :param features: the cluster's feature gates; by default those of Kubernetes 1.36.
    :param evaluator: evaluates selectors; by default `matches`.
    :param limit: the most steps of a search on a node; after them, the outcome is "unknown".
    :param share_id: creates the ids of shares.

    Saved states omit the evaluator and ``share_id``. All threads may use a cluster; calls take
    turns.
    """

    @property
    def objects(
        self,
    ) -> dict[tuple[str, str], ResourceSlice | DeviceClass | Node | DeviceTaintRule]:
        """The slices, classes, nodes and taint rules, by (kind, name)."""
        kinds = "ResourceSlice", "DeviceClass", "Node", "DeviceTaintRule"
        with self._lock:
            return {(kind, name): of for kind in kinds for name, of in self._objects(kind).items()}

    def allocate(
        self,
        claims: Sequence[ResourceClaim | Mapping[str, Any]],
        node: str,
        mode: Mode = "first",
        within: Within | None = None,
    ) -> ClaimDecision:
        """Choose devices of a node for all claims together, without changing anything.

        :param mode: "first": the devices that Kubernetes' scheduler would choose. "best": for the
            first claim's first request its earliest alternative that is possible, then for the next
            request, and so on. "any": any devices. "fewest blocks": as "best", then the fewest new
            blocks (counter sets without a device in use), so that whole GPUs stay whole.
            "fewest DOMAIN/ATTRIBUTE": as "best", then the fewest values of the attribute.
            "least waste of CAPACITY": as "best", then the least of the capacity beyond the
            requests.
        :param within: the most that the devices may take together, in terms of
            `ClaimDecision.taken_of`.
        :raises KeyError: there is no such node.

        Cost: O(claims) if the same was asked for a node of this class; otherwise a search.
        """
        with self._lock:
            self._look_at(mode, within)
            known = self._known(claims)
            self._refresh(known.kind)
            view = self._views.get(as_name(node, "node"))
            if view is None:
                raise KeyError(f"no node {show(node)}")
            return self._decision(known, node, view, mode, within)

    def fits(
        self, claims: Sequence[ResourceClaim | Mapping[str, Any]], mode: Mode = "first"
    ) -> ClaimFits:
        """Return which nodes can serve the claims together, and why others cannot.

        :param mode: how devices are chosen, see `allocate`.

        Cost: a search for each new class of nodes, and O(nodes log nodes); O(claims) if nothing has
        changed since the same question.
        """
        with self._lock:
            self._look_at(mode)
            known = self._known(claims)
            self._refresh(known.kind)
            latest = known.kind.fits.get(mode)
            if latest is None or latest[0] != self._version:
                answers = [
                    (self._answer(known.kind, node_class, mode), tuple(node_class.nodes))
                    for node_class in self._classes
                ]
                placed = any(answer.problems for answer, _ in answers)
                views = self._views if placed else {}
                devices = {node: view.devices for node, view in views.items()}
                fits = ClaimFits(answers, devices)
                known.kind.fits[mode] = latest = self._version, fits
            return latest[1]

    def explain(
        self, claims: Sequence[ResourceClaim | Mapping[str, Any]], node: str
    ) -> ClaimExplanation:
        """Return why a node can or cannot serve the claims together, and what decides.

        :raises KeyError: there is no such node.

        Cost: O(size of the cluster), and a search for each constraint, counter, taint, claim with
        devices and selector that might stand in the way.

        >>> from hivecore.dra import DraCluster
        >>> pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        >>> spec = {"driver": "x", "nodeName": "n1", "pool": pool}
        >>> spec["devices"] = [{"name": n, "attributes": {"root": {"string": n}}} for n in "ab"]
        >>> cluster = DraCluster()
        >>> cluster.update({"kind": "DeviceClass", "metadata": {"name": "gpu"}})
        >>> cluster.update({"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec})
        >>> request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
        >>> devices = {"requests": [request], "constraints": [{"matchAttribute": "x/root"}]}
        >>> claim = {"metadata": {"name": "c"}, "spec": {"devices": devices}}
        >>> cluster.explain([claim], "n1").deciding
        ('constraints[0].matchAttribute x/root',)
        """
        with self._lock:
            decision, facts = self.allocate(claims, node), self.facts()
            held = self._book.owners.copy()
            pools = self._views[node].gathered
            evaluator, limit = self._evaluator, self._limit

        def fits(world: World) -> bool:
            copy = DraCluster(facts.features, evaluator=evaluator, limit=limit)
            copy.update(*[facts.nodes[node]] if node in facts.nodes else [], *world.slices)
            copy.update(*facts.classes.values(), *facts.rules)
            for owner in world.owners:
                copy._book.add(owner, held[owner], world.charges)
            return copy.allocate(world.claims, node).outcome == "allocated"

        return explanation_of(decision, pools, facts, fits)

    def schedule(
        self,
        claims: Sequence[ResourceClaim | Mapping[str, Any]],
        nodes: Iterable[str] | None = None,
        mode: Mode = "first",
        prefer: Preference = "packed",
    ) -> ClaimDecision | None:
        """Choose a node and its devices for the claims; ``None`` if no node can serve them.

        :param nodes: the nodes to consider; by default all.
        :param prefer: which node to choose among equally good alternatives (and equally few blocks
            or values, in modes that count them). "packed": the fewest free devices; "spread": the
            most; "name": the lowest name, which also breaks other ties.
        :raises KeyError: there is no such node.
        """
        as_choice(prefer, "prefer", _PREFERENCES)
        with self._lock:
            self._look_at(mode)
            known = self._known(claims)
            self._refresh(known.kind)
            if nodes is None:
                node = self._best(known.kind, mode, prefer)
            else:
                node = self._best_of(known.kind, mode, prefer, nodes)
            return None if node is None else self._decision(known, node, self._views[node], mode)

    def schedule_gang(
        self,
        pods: Sequence[Sequence[ResourceClaim | Mapping[str, Any]]],
        nodes: Iterable[str] | None = None,
        mode: Mode = "first",
        prefer: Preference = "packed",
        within: Within | None = None,
        where: Mapping[int, str] | None = None,
    ) -> DraGangDecision | None:
        """Choose nodes and devices for pods that start together; ``None`` if they do not all fit.

        The pods of a node are served jointly, so that none takes what another needs.

        :param pods: the claims of each pod.
        :param nodes: the nodes to consider; by default all.
        :param within: the most that all devices may take together, as in `allocate`. If they would
            take more, other devices are chosen, such that none could take less unless another took
            more.
        :param where: pod number -> its node, for pods that have one. If that is none of ``nodes``,
            no other pod goes there.
        :raises KeyError: there is no such node.
        :raises ValueError: a claim is in two pods.

        The answer is exact unless a search reaches its limit of work, 10,000 limits have been tried
        on nodes, or several nodes share a pool that the pods need: such nodes choose in turn, so
        ``None`` proves nothing then. Commit the decisions in their order. Cost: a search for each
        node class and each number of pods of each kind that may fit one of its nodes; with
        ``within``, for each limit that is tried.
        """
        with self._lock:
            as_choice(prefer, "prefer", _PREFERENCES)
            self._look_at(mode, within)
            given = [[self._claim(claim) for claim in claims] for claims in pods]
            owners = [owner_of(claim) for claims in given for claim in claims]
            if len(set(owners)) < len(owners):
                raise ValueError("pods: a claim is in two pods")
            self._refresh(*[self._known(claims).kind for claims in given])
            chosen = set(self._views) if nodes is None else set(nodes)
            fixed = as_dict(where or {}, "where")
            for pod in fixed:
                as_int(pod, "where", 0, len(given) - 1)
            others = frozenset(fixed.values()) - chosen
            for node in (chosen | others) - self._views.keys():
                raise KeyError(f"no node {show(node)}")
            question = _Gang(chosen | others, mode, prefer, fixed, {}, others)
            placed = self._placed(given, question)
            if within and min(_left(within, [of for _, of in placed]).values()) < 0:
                placed = self._placed(given, question._replace(within=within))
            on = {pod: decision.node for pods_of, decision in placed for pod in pods_of}
            decisions = tuple(decision for _, decision in placed)
            if len(on) < len(given):
                return None
            return DraGangDecision(tuple(on[pod] for pod in range(len(given))), decisions)

    @property
    def has_common_pools(self) -> bool:
        """Whether nodes share a pool, so that ``None`` from `schedule_gang` is not a proof."""
        with self._lock:
            self._refresh()
            return any(len(nodes) > 1 for nodes in self._viewers.values())

    def _placed(self, given: Sequence[_Pod], of: "_Gang") -> list[_OnNode]:
        """Return each node's pods with its decision; incomplete if some pods fit nowhere.

        Nodes that share a pool may have chosen the same devices; then they decide in turn.
        """
        placed = self._placed_apart(dict(enumerate(given)), of)
        viewers = [
            self._viewers[grant.device[:2]] for _, decision in placed for grant in decision.devices
        ]
        if len(placed) < 2 or all(len(nodes) == 1 for nodes in viewers):
            return placed
        kept: list[_OnNode] = []
        with self.trial():
            left = dict(enumerate(given))
            while placed:
                with suppress(StaleDecisionError):
                    for pods, decision in placed:
                        self.commit(decision)
                        kept.append((pods, decision))
                        left = {pod: of for pod, of in left.items() if pod not in pods}
                now = of.after([decision for _, decision in kept])
                placed = self._placed_apart(left, now) if left else []
        return kept

    def _placed_apart(self, given: Mapping[int, _Pod], of: "_Gang") -> list[_OnNode]:
        """Choose each node as if it were the first; empty unless all pods fit."""
        self._refresh()  # a trial may have ended
        kinds: dict[tuple[ClaimKind, str], list[int]] = {}
        for i, claims in given.items():
            kinds.setdefault((self._known(claims).kind, of.where.get(i, "")), []).append(i)
        samples = [given[numbers[0]] for numbers in kinds.values()]
        groups = self._groups([kind for kind, _ in kinds], of)
        limits = Limits(of.within, self._numbering, of.mode, self._limit)

        def joint(vector: Vector) -> ClaimKind:
            claims = [claim for i, n in enumerate(vector) for claim in samples[i] * n]
            return self._known(claims).kind

        def holds(at: int, vector: Vector) -> bool:
            group, members = groups[at]
            first = next(iter(members), "")
            is_here = all(
                not count or (node == first if node else first not in of.others)
                for (_, node), count in zip(kinds, vector, strict=True)
            )
            return is_here and self._answer(joint(vector), group, of.mode).outcome == "allocated"

        def takes(at: int, vector: Vector) -> list[Vector]:
            return limits.least(joint(vector), groups[at][0])

        sizes = [(at, len(members)) for at, (_, members) in enumerate(groups)]
        shares = share_out([len(of) for of in kinds.values()], sizes, holds, takes, limits.most)
        placed: list[_OnNode] = []
        for (_, members), moves in zip(groups, shares or (), strict=False):
            for node, (vector, taken) in zip(members, moves, strict=False):
                own = [
                    numbers.pop(0)
                    for numbers, count in zip(kinds.values(), vector, strict=True)
                    for _ in range(count)
                ]
                together = self._known([claim for pod in own for claim in given[pod]])
                view = self._views[node]
                decision = self._decision(together, node, view, of.mode, limits.amounts(taken))
                placed.append((own, decision))
        return placed

    def verify(self, decision: ClaimDecision | DraGangDecision) -> None:
        """Check that allocations obey every rule of Kubernetes, together if they are a gang's.

        :param decision: made on the cluster as it is.
        :raises CertificateError: a rule is broken; the message says which.
        :raises ValueError: the decision has no allocation.

        The check is plain Python and shares only the records and the evaluator with the solver. It
        does not check that the devices are the first or best. Cost: O(size of the cluster).
        """
        facts = self.facts()
        if isinstance(decision, DraGangDecision):
            decisions = decision.decisions
        else:
            decisions = (as_instance(decision, "decision", ClaimDecision),)
        for each in decisions:
            if each.outcome != "allocated":
                raise ValueError(f"decision: it is {each.outcome!r}, not 'allocated'")
            facts = verify_allocations(facts, each.node, each.claims, each.allocations)
            for claim, entries in zip(each.claims, each.entries, strict=True):
                if facts.held[owner_of(claim)] != [*entries]:
                    raise CertificateError(f"claim {claim.name!r} would hold {entries}")
        nodes = [each.node for each in decisions]
        if isinstance(decision, DraGangDecision) and {*nodes} != {*decision.nodes}:
            raise CertificateError(f"pods are on {decision.nodes}, with devices on {nodes}")

    def facts(self) -> ClusterFacts:
        """Return the cluster's content, for a proof. Cost: O(size of the cluster)."""
        with self._lock:
            charges = {
                device: of for pool in self._book.charges.values() for device, of in pool.items()
            }
            return ClusterFacts(
                self._features,
                self._evaluator or matches,
                self._nodes.copy(),
                tuple(self._slices.values()),
                self._device_classes.copy(),
                tuple(self._rules.values()),
                self._book.owners.copy(),
                charges,
            )

    def _groups(self, kinds: Iterable[ClaimKind], of: "_Gang") -> list[tuple[NodeClass, list[str]]]:
        """Return the nodes that can serve any of these, by class, preferred ones first.

        A node that already has a pod stands alone.
        """
        groups, taken = [], set(of.where.values())
        for node_class in self._classes:
            answers = [self._answer(kind, node_class, of.mode) for kind in kinds]
            able = [answer for answer in answers if answer.outcome == "allocated"]
            nodes = node_class.nodes & of.nodes
            parts = [[node] for node in nodes & taken] + [sorted(nodes - taken)]
            for members in parts if able else ():
                if members:
                    score = min(_score(answer, node_class, of.prefer) for answer in able)
                    groups.append((score, members[0], node_class, members))
        groups.sort(key=lambda group: group[:2])
        return [(node_class, members) for _, _, node_class, members in groups]

    def _decision(
        self,
        known: "_Known",
        node: str,
        view: NodeView,
        mode: str,
        within: Within | None = None,
    ) -> ClaimDecision:
        answer = known.kind.answer(view.node_class, mode, self._limit, within)
        share_ids = tuple(
            "" if grant.consumed is None else as_name(str(self._share_id()), "share_id")
            for grant in answer.grants
        )
        question, devices = known.kind.question, view.devices
        own = node, known.claims, mode, answer, question, devices, share_ids, view.node_class
        return ClaimDecision(*own, within)

    def _changes_of(self, decision: ClaimDecision, view: NodeView) -> tuple[Change, ...] | None:
        if decision.was_made_on(view):
            return decision.changes
        within = decision.within
        self._look_at(decision.mode, within)
        known = self._known(decision.claims)
        self._refresh(known.kind)
        view = self._views[decision.node]
        now = self._decision(known, decision.node, view, decision.mode, within)
        return now.changes if now.devices == decision.devices else None

    def _answer(self, kind: ClaimKind, node_class: NodeClass, mode: str) -> Answer:
        return kind.answer(node_class, mode, self._limit)

    def _best(self, kind: ClaimKind, mode: str, prefer: str) -> str | None:
        log, epoch = self._classes.log, self._classes.epoch
        ranking = kind.rankings.get((mode, prefer))
        if ranking is None or ranking.epoch != epoch:
            ranking = kind.rankings[mode, prefer] = Ranking(epoch)
        for node_class in log[ranking.seen :]:
            if not node_class.nodes:
                continue  # it is logged again when it gets a node
            answer = self._answer(kind, node_class, mode)
            if answer.outcome == "allocated":
                ranking.add(_score(answer, node_class, prefer), node_class)
        ranking.seen = len(log)
        return ranking.first()

    def _best_of(self, kind: ClaimKind, mode: str, prefer: str, nodes: Iterable[str]) -> str | None:
        able = []
        for node in nodes:
            view = self._views.get(node)
            if view is None:
                raise KeyError(f"no node {show(node)}")
            answer = self._answer(kind, view.node_class, mode)
            if answer.outcome == "allocated":
                able.append((_score(answer, view.node_class, prefer), node))
        return min(able)[1] if able else None

    def _known(self, claims: Sequence[ResourceClaim | Mapping[str, Any]]) -> "_Known":
        """Return the claims, with what is cached for claims like them."""
        given = tuple(self._claim(claim) for claim in claims)
        key = b"\0".join(
            encode((claim.requests, claim.constraints, claim.config), enc_hook=str)
            for claim in given
        )
        kind = self._claim_kinds.get(key)
        if kind is None:
            if len(self._claim_kinds) >= MOST_QUESTIONS:
                self._claim_kinds.clear()
                self._classes.forget_answers()
            question = Question(given, self._device_classes, self._features)
            kind = ClaimKind(question, self._numbering, self._evaluator or matches)
            self._count(self._attributes(question))
            self._claim_kinds[key] = kind
        return _Known(given, kind)

    def _look_at(self, mode: str, within: Within | None = None) -> None:
        """Check a mode, and let profiles distinguish what it and the limits depend on."""
        if not within and mode in MODES:
            return  # the usual case
        for key, amount in as_dict(within or {}, "within").items():
            _check_limit(key, amount)
            if key[1] == "counters" and self._numbering.look_at_counters():
                self._renumber()
        if as_text(mode, "mode").startswith(LEAST_WASTE) and mode != LEAST_WASTE:
            return
        of = mode.removeprefix(FEWEST)
        if of == mode:
            as_choice(mode, "mode", MODES)
            return
        domain, _, name = of.partition("/")
        if of != BLOCKS:
            if not domain or not name or "/" in name:
                raise ValueError(
                    f"mode={show(mode)}: neither {BLOCKS!r} nor 'domain/name' is counted"
                )
            self._count(frozenset([of]))

    def _count(self, attributes: frozenset[str] | None) -> None:
        """Let profiles distinguish these attributes."""
        refined = self._numbering.look_at(attributes)
        if refined is None:
            return
        dirty = self._dirty.copy()
        self._renumber()
        self._dirty = dirty
        for node, view in self._views.items():
            if node in dirty:
                continue  # its view may be a trial's
            key = view.node_class.key
            pairs = zip(view.devices, key.devices, strict=True)
            devices = [(refined(device, of[0]), *of[1:]) for device, of in pairs]
            view.node_class = self._classes.of(key._replace(devices=tuple(devices)))
            self._classes.enter(node, view.node_class)

    def _attributes(self, question: Question) -> frozenset[str] | None:
        """Return the attributes that claims use; ``None`` for any."""
        names = {attribute for _, attribute, _ in question.constraints}
        for expression in {
            expression for of in question.alternatives for expression in of.expressions
        }:
            looked_at = None if self._evaluator else _looked_at(expression)
            if looked_at is None:
                return None
            names |= looked_at
        return frozenset(names)


class _Gang(NamedTuple):
    """The question for pods that start together, without their claims."""

    nodes: set[str]
    mode: str
    prefer: str
    where: Mapping[int, str]
    within: Within
    #: nodes for the pods of ``where`` alone
    others: frozenset[str]

    def after(self, kept: Sequence[ClaimDecision]) -> "_Gang":
        """Return the question for the remaining pods."""
        nodes = self.nodes - {decision.node for decision in kept}
        return self._replace(nodes=nodes, within=_left(self.within, kept))


def _left(within: Within, decisions: Iterable[ClaimDecision]) -> Within:
    """Return what decisions leave of limits."""
    left = dict(within)
    for decision in decisions:
        for i in range(len(decision.claims)):
            for key, amount in decision.taken_of(i).items():
                if key in left:
                    left[key] -= amount
    return left


class _Known(NamedTuple):
    claims: tuple[ResourceClaim, ...]
    kind: ClaimKind


def _check_limit(key: Any, amount: Any) -> None:
    is_named = isinstance(key, tuple) and len(key) == 3 and key[1] in ("capacity", "counters")
    if not is_named or not isinstance(amount, int | Fraction) or amount < 0:
        what = "(device class, 'capacity' or 'counters', name) and an int or Fraction, 0 or more"
        raise ValueError(f"within: allowed are {what}, not {show(key)} and {show(amount)}")


def _looked_at(expression: str) -> set[str] | None:
    """Return the full names of the attributes in an expression; ``None`` for any."""
    try:
        attributes = compile_selector(expression).attributes
    except CelSyntaxError:
        return set()
    return None if attributes is None else {f"{domain}/{name}" for domain, name in attributes}


def _score(answer: Answer, node_class: NodeClass, prefer: str) -> tuple[Any, ...]:
    """Return a score, smaller is better: alternatives, then the mode's count, then how full the
    node is.
    """
    free, fewest = node_class.free, answer.fewest or (0, 0)
    return vector_of(answer), fewest[0], {"packed": free, "spread": -free, "name": 0}[prefer]
