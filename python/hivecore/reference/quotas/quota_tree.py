"""Elastic quotas: which owners are admitted (sections 1, 4, 8 of the specification).

Only quotas, owners and totals are stored; `figures` computes everything else.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from hivecore.reference.quotas.figures import (
    MOST,
    Figures,
    Limits,
    Owner,
    Vector,
    exactly,
    figures_of,
)

__all__ = ["Answer", "QuotaTree"]


class Answer(NamedTuple):
    """The decision on owners that must be admitted together."""

    outcome: str
    victims: tuple[str, ...] = ()
    code: str = ""
    part: str = ""
    """The quota that refuses; "" for the root of its tree."""
    borrows: bool = False


class QuotaTree:
    """The twin of `hivecore.quotas.QuotaTree`; it trusts its caller."""

    def __init__(
        self,
        *,
        limit: str = "runtime",
        check_ancestors: bool = True,
        scale_min: bool = True,
        guarantee: bool = False,
    ) -> None:
        self.limit, self.check_ancestors = limit, check_ancestors
        self.scale_min, self.guarantee = scale_min, guarantee
        #: whether use above a maximum counts at the parent
        self.counts_beyond_max = check_ancestors
        self.quotas: dict[str, Limits] = {}
        self.owners: dict[str, Owner] = {}
        self.totals: dict[str, Vector] = {}
        self.carved: set[str] = set()
        #: fractional dimensions, which are divided in thousandths
        self.fine: set[str] = set()
        self.starts = 0

    def unit(self, d: str) -> Any:
        """Return the smallest amount of a dimension."""
        return Fraction(1, 1000) if d in self.fine else 1

    def most(self, d: str) -> Any:
        """Return the largest sum of a dimension."""
        return MOST * self.unit(d)

    def _look_for_fractions(self, *given: Any) -> None:
        for amounts in given:
            self.fine |= {d for d, n in dict(amounts or ()).items() if n != int(n)}

    # --- the tree

    def children(self, name: str, root: str | None = None) -> list[str]:
        """Return the children by name; for "" the quotas at the top of a tree."""
        return sorted(
            quota.name
            for quota in self.quotas.values()
            if quota.parent == name and (name != "" or quota.tree == root)
        )

    def roots(self) -> list[str]:
        """Return the trees."""
        return sorted({"", *self.totals, *(self.tree_of(name) for name in self.quotas)})

    def in_order(self) -> list[str]:
        """Return all quotas tree by tree, parents before children, then by name."""
        ordered: list[str] = []

        def visit(names: list[str]) -> None:
            for name in names:
                ordered.append(name)
                visit(self.children(name))

        for root in self.roots():
            visit(self.children("", root))
        return ordered

    def path(self, name: str) -> list[str]:
        """Return the quota and its ancestors, from the quota up."""
        path = [name]
        while self.quotas[path[-1]].parent:
            path.append(self.quotas[path[-1]].parent)
        return path

    def tree_of(self, name: str) -> str:
        tree: str = self.quotas[self.path(name)[-1]].tree
        return tree

    # --- changes

    def set_quota(self, quota: Any) -> None:
        """Add or replace a quota."""
        self._look_for_fractions(quota.max, quota.min, quota.weight)
        self.quotas[quota.name] = Limits.of(quota)
        self._something_happened()

    def remove(self, name: str) -> None:
        del self.quotas[name]
        self._something_happened()

    def set_total(self, total: Mapping[str, Any], tree: str = "", carved: bool = False) -> None:
        self._look_for_fractions(total)
        self.totals[tree] = exactly(total)
        (self.carved.add if carved else self.carved.discard)(tree)
        self._something_happened()

    def submit(self, request: Any) -> None:
        self._look_for_fractions(request.amounts)
        self.owners[request.name] = Owner(request)
        self._something_happened()

    def admit(self, name: str, members: int) -> None:
        """Admit more members."""
        owner = self.owners[name]
        start = owner.start
        if owner.members == 0:
            self.starts += 1
            start = self.starts
        self.owners[name] = owner._replace(members=owner.members + members, start=start)

    def evict(self, name: str, *, reclaimed: bool = True) -> None:
        if self.owners[name].members:
            self.owners[name] = Owner(self.owners[name].request, may_borrow=not reclaimed)

    def release(self, name: str) -> None:
        del self.owners[name]
        self._something_happened()

    def _something_happened(self) -> None:
        for name, owner in self.owners.items():
            self.owners[name] = owner._replace(may_borrow=True)

    # --- decisions

    def decide(self, members: Mapping[str, int]) -> Answer:
        """Return whether these owners can get these members, all or none."""
        figures = figures_of(self, self._taken(members))
        plain = self._admitted(members, figures)
        if plain.outcome == "bind" or self._firm_refusal(members, figures):
            return plain
        victims = self._reclaim(members, figures)
        return Answer("preempt", victims) if victims else plain

    def preempt_within(
        self, members: Mapping[str, int], budgets: Sequence[tuple[Iterable[str], int]] = ()
    ) -> Answer:
        """As `decide`, if owners of lower priority in the same quota may be evicted."""
        plain = self._admitted(members)
        ((name, _),) = members.items()
        mine = self.owners[name].request
        weaker = [
            other
            for other, owner in self.owners.items()
            if owner.members > 0
            and owner.request.preemptible
            and owner.request.quota == mine.quota
            and owner.request.priority < mine.priority
        ]
        weaker.sort(key=self._importance)
        if plain.outcome == "bind" or not weaker:
            return plain
        allowed = [(set(names), left) for names, left in budgets]
        violating = []
        for other in weaker:
            over = False
            for i, (names, left) in enumerate(allowed):
                if other in names:
                    allowed[i] = names, left - 1
                    over |= left - 1 < 0
            if over:
                violating.append(other)
        order = violating + [other for other in weaker if other not in violating]
        gone = set(order)
        if self._without(gone)._admitted(members).outcome != "bind":
            return plain
        for other in order:
            if self._without(gone - {other})._admitted(members).outcome == "bind":
                gone.discard(other)
        return Answer("preempt", tuple(sorted(gone, key=self._importance)))

    def revocable(self, name: str) -> tuple[str, ...]:
        """Return the owners to evict until a quota is within its runtime (section 4.2)."""

        def over(gone: set[str]) -> bool:
            figures = self._without(gone).figures()
            return any(used > figures.runtime[name][d] for d, used in figures.used[name].items())

        mine = [
            other
            for other, owner in self.owners.items()
            if owner.members > 0 and owner.request.preemptible and owner.request.quota == name
        ]
        mine.sort(key=self._importance)
        gone: set[str] = set()
        for other in reversed(mine):
            if not over(gone):
                break
            gone.add(other)
        if not over(gone):
            for other in mine:
                if other in gone and not over(gone - {other}):
                    gone.discard(other)
        return tuple(sorted(gone, key=self._importance))

    def figures(self) -> Figures:
        return figures_of(self)

    def _without(self, gone: set[str]) -> "QuotaTree":
        """Return the tree as if these owners waited."""
        other = QuotaTree(
            limit=self.limit,
            check_ancestors=self.check_ancestors,
            scale_min=self.scale_min,
            guarantee=self.guarantee,
        )
        other.quotas, other.totals, other.carved = self.quotas, self.totals, self.carved
        other.fine = self.fine
        other.owners = {
            name: owner._replace(members=0) if name in gone else owner
            for name, owner in self.owners.items()
        }
        return other

    def _importance(self, name: str) -> tuple[int, int]:
        """Return a sort key, the most important owner first."""
        owner = self.owners[name]
        return -owner.request.priority, owner.start

    def _requested_at(self, added: Mapping[str, int]) -> dict[str, Vector]:
        """Return place -> requested amounts on all paths; a root is "" or the tree's name."""
        sums: dict[str, Vector] = {}
        for name, members in added.items():
            owner = self.owners[name]
            managed = self.quotas[owner.request.quota].max
            for place in self._places(owner.request.quota):
                for d, amount in owner.held(members).items():
                    if amount > 0 and d in managed:
                        sums.setdefault(place, {}).setdefault(d, 0)
                        sums[place][d] += amount
        return sums

    def _wanted(self, name: str) -> set[str]:
        """Return the dimensions that an owner uses and its quota limits."""
        request = self.owners[name].request
        return {
            d for d, amount in request.amounts if amount and d in self.quotas[request.quota].max
        }

    def _checked(self, asks: Mapping[str, int]) -> dict[str, set[str]]:
        """Return quota -> the dimensions in which its limit applies to an owner."""
        checked: dict[str, set[str]] = {}
        for name in asks:
            quota = self.owners[name].request.quota
            for place in self._places(quota) if self.check_ancestors else [quota]:
                checked.setdefault(place, set()).update(self._wanted(name))
        return checked

    def _taken(self, asks: Mapping[str, int]) -> dict[str, Vector]:
        """Return tree -> what the requests of outside quotas take off its total."""
        taken: dict[str, Vector] = {}
        outside = {n for n in asks if self.quotas[self.owners[n].request.quota].outside}
        for name in outside if len(outside) < len(asks) else ():
            of_tree = taken.setdefault(self.tree_of(self.owners[name].request.quota), {})
            held = self.owners[name].held(asks[name])
            for d in self._wanted(name):
                of_tree[d] = of_tree.get(d, 0) + held[d]
        return taken

    def _places(self, name: str) -> list[str]:
        """Return where use by owners of a quota counts: on its path and, unless it is outside, in
        its tree.
        """
        path = self.path(name)
        return path if self.quotas[name].outside else [*path, self._root(name)]

    def _root(self, name: str) -> str:
        return f"/{self.tree_of(name)}"

    def _part(self, place: str) -> str:
        return "" if place.startswith("/") else place

    def _used(self, place: str, figures: Figures) -> Vector:
        """Return the use of a quota, or of all quotas that divide a tree's total."""
        if not place.startswith("/"):
            return figures.used[place]
        used: Vector = {}
        for name in self.children("", place[1:]):
            if not self.quotas[name].outside:
                for d, amount in figures.used[name].items():
                    used[d] = used.get(d, 0) + amount
        return used

    def _runtime(self, place: str, figures: Figures) -> Vector:
        return figures.totals[place[1:]] if place.startswith("/") else figures.runtime[place]

    def _admitted(self, members: Mapping[str, int], figures: Figures | None = None) -> Answer:
        """Return whether these owners can get more members while all others stay.

        Each is checked as if the others had been admitted before it.
        """
        figures = figures or figures_of(self, self._taken(members))
        sums, checked = self._requested_at(members), self._checked(members)

        def exceeds(place: str, limits: Vector, among: Iterable[str]) -> bool:
            used = self._used(place, figures)
            return any(used.get(d, 0) + sums[place][d] > limits.get(d, 0) for d in among)

        def refuses(place: str) -> bool:
            limits = figures.totals[place[1:]] if place.startswith("/") else figures.runtime[place]
            if self.limit == "max" and not place.startswith("/"):
                limits = self.quotas[place].max
            return exceeds(place, limits, checked.get(place, ()))

        for name in members:
            quota = self.owners[name].request.quota
            if refuses(quota):
                return Answer("wait", code=self.limit, part=quota)
        if firm := self._firm_refusal(members, figures):
            return firm
        for name in members:
            for place in reversed(self._places(self.owners[name].request.quota)):
                if refuses(place):
                    code = "total" if place.startswith("/") else self.limit
                    return Answer("wait", code=code, part=self._part(place))
        for place in sums:
            used = self._used(place, figures)
            if any(used.get(d, 0) + n > self.most(d) for d, n in sums[place].items()):
                return Answer("wait", code="total", part=self._part(place))
        for name in members:
            quota = self.owners[name].request.quota
            above = reversed(self.path(quota)) if self.check_ancestors else ()
            for place in () if self.owners[name].may_borrow else (quota, *above):
                if exceeds(place, figures.runtime[place], self._wanted(name)):
                    return Answer("wait", code="evicted", part=place)
        quotas = [place for place in sums if not place.startswith("/")]
        borrows = any(exceeds(place, figures.runtime[place], sums[place]) for place in quotas)
        return Answer("bind", borrows=borrows)

    def _firm_refusal(self, added: Mapping[str, int], figures: Figures) -> Answer | None:
        """Refuse non-preemptible owners beyond the minimum of their quota and those below it."""
        firm = {
            name: members
            for name, members in added.items()
            if not self.owners[name].request.preemptible
        }
        sums = self._requested_at(firm)
        for name in firm:
            quota = self.owners[name].request.quota
            for d in self._wanted(name):
                least = self.quotas[quota].min.get(d, 0)
                if figures.firm[quota][d] + sums[quota][d] > least:
                    return Answer("wait", code="min", part=quota)
        return None

    def _reclaim(self, members: Mapping[str, int], figures: Figures) -> tuple[str, ...]:
        """Return owners of over-used quotas whose eviction admits these members; empty if
        impossible (8.4).
        """
        sums, checked = self._requested_at(members), self._checked(members)
        mine = {self.owners[name].request.quota for name in members}
        used = {place: dict(self._used(place, figures)) for place in sums}
        used.update(figures.used)

        def lacking(place: str, gone: Iterable[str] = (), figures: Figures = figures) -> set[str]:
            """Return the dimensions in which a limit would be exceeded."""
            freed = [self.owners[name] for name in gone]
            below = [owner for owner in freed if place in self._places(owner.request.quota)]
            runtime = self._runtime(place, figures)
            return {
                d
                for d in checked.get(place, ())
                if used[place].get(d, 0)
                + sums[place][d]
                - sum(self._counted(owner, d) for owner in below)
                > runtime.get(d, 0)
            }

        def over(name: str, gone: Iterable[str]) -> Vector:
            """Return dimension -> how much a quota exceeds its runtime."""
            excess = {}
            for d, amount in figures.used[name].items():
                left = amount - sum(
                    self._counted(self.owners[owner], d)
                    for owner in gone
                    if name in self.path(self.owners[owner].request.quota)
                )
                if left > figures.runtime[name].get(d, 0):
                    excess[d] = left - figures.runtime[name].get(d, 0)
            return excess

        gone: list[str] = []
        while wanted := {place: lacking(place, gone) for place in sums if lacking(place, gone)}:
            best: tuple[Any, str] | None = None
            for position, name in enumerate(self.in_order()):
                if name in mine or self.quotas[name].outside:
                    continue
                places = set(self._places(name))
                excess = over(name, gone)
                useful = {d for p, dims in wanted.items() if p in places for d in dims} & set(
                    excess
                )
                weakest = self._weakest(name, useful, gone)
                if weakest is None:
                    continue
                total = figures.totals[self.tree_of(name)]
                dominant = max(
                    (1, Fraction(0)) if not total.get(d, 0) else (0, Fraction(amount) / total[d])
                    for d, amount in excess.items()
                )
                key = (dominant, -position)
                if best is None or key > best[0]:
                    best = key, weakest
            if best is None:
                return ()
            gone.append(best[1])
        for name in sorted(gone, key=self._importance):
            rest = [owner for owner in gone if owner != name]
            if not any(lacking(place, rest) for place in sums):
                gone = rest
        if self.counts_beyond_max:  # with less of that, runtimes may change
            after = figures_of(self._without(set(gone)), self._taken(members))
            if any(lacking(place, gone, after) for place in sums):
                return ()
        return tuple(sorted(gone, key=self._importance))

    def _counted(self, owner: Owner, d: str) -> int:
        """Return the part of an owner's use that counts."""
        return owner.held().get(d, 0) if d in self.quotas[owner.request.quota].max else 0

    def _weakest(self, name: str, useful: set[str], gone: Iterable[str]) -> str | None:
        """Return the owner to evict first, of those in a quota that use one of these dimensions."""
        able = [
            other
            for other, owner in self.owners.items()
            if owner.request.quota == name
            and owner.members > 0
            and owner.request.preemptible
            and other not in gone
            and any(self._counted(owner, d) > 0 for d in useful)
        ]
        return max(able, key=self._importance) if able else None
