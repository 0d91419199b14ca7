"""Everything that follows from quotas and owners (sections 1.4 and 3 of the specification).

It is computed from scratch: requests and use from the leaves up, minimums and runtimes from the
roots down. A quota ignores dimensions without a maximum. Fractional dimensions are divided in
thousandths.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from hivecore.reference.quotas.water_fill import Claim, Round, shares, water_fill

__all__ = ["MOST", "Figures", "Limits", "Owner", "Vector", "exactly", "figures_of"]

Vector = dict[str, Any]

#: Sums are capped here, in the unit of their dimension.
MOST = 2**62


def exactly(amounts: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Vector:
    """Return the amounts by dimension; fractions are rounded to thousandths."""
    return {
        d: n if type(n) is int else Fraction(round(n * 1000), 1000)
        for d, n in dict(amounts).items()
    }


class Limits(NamedTuple):
    """A quota, with its amounts by dimension."""

    name: str
    parent: str
    tree: str
    max: Vector
    min: Vector
    weight: Vector
    lends: bool
    scales: bool
    outside: bool

    @classmethod
    def of(cls, quota: Any) -> "Limits":
        """Read a `hivecore.quotas.Quota`."""
        weight = quota.max if quota.weight is None else quota.weight
        return cls(
            quota.name,
            quota.parent,
            quota.tree,
            exactly(quota.max),
            exactly(quota.min),
            exactly(weight),
            quota.lends,
            quota.scales,
            quota.outside,
        )


class Owner(NamedTuple):
    """An owner: its request, and the number of its running members."""

    request: Any
    members: int = 0
    """Running members; 0 if it waits."""
    start: int = 0
    """Its position in the order of admission."""
    may_borrow: bool = True

    def held(self, members: int | None = None) -> Vector:
        """Return what this number of members takes; by default the running ones."""
        count = self.members if members is None else members
        return {name: amount * count for name, amount in exactly(self.request.amounts).items()}


class Figures:
    """Vectors by quota; the root of a tree is "", or the tree's name in ``totals``."""

    def __init__(self) -> None:
        self.request: dict[str, Vector] = {}
        #: the request that counts at the parent
        self.limited: dict[str, Vector] = {}
        #: the part of it that competes with siblings
        self.claim: dict[str, Vector] = {}
        self.used: dict[str, Vector] = {}
        self.firm: dict[str, Vector] = {}
        self.guaranteed: dict[str, Vector] = {}
        self.minimum: dict[str, Vector] = {}
        self.reach: dict[str, Vector] = {}
        self.runtime: dict[str, Vector] = {}
        self.totals: dict[str, Vector] = {}
        self.rounds: dict[tuple[str, str], tuple[int, list[str], list[Claim], list[Round]]] = {}


def figures_of(tree: Any, taken: Mapping[str, Vector] | None = None) -> Figures:
    """Return the figures of a `reference.quotas.QuotaTree`.

    :param taken: tree -> what its total lacks beyond the use of outside quotas.
    """
    figures = Figures()
    for name in reversed(tree.in_order()):
        _add_up(tree, name, figures)
    for root in tree.roots():
        figures.totals[root] = _net_total(tree, root, figures, (taken or {}).get(root, {}))
        _settle(tree, tree.children("", root), figures.totals[root], figures)
        _divide(tree, tree.children("", root), figures.totals[root], figures, root)
    return figures


def _add_up(tree: Any, name: str, figures: Figures) -> None:
    quota = tree.quotas[name]
    owners = [owner for owner in tree.owners.values() if owner.request.quota == name]
    below = [child for child in tree.children(name) if not tree.quotas[child].outside]
    lends = quota.lends and not tree.guarantee
    vectors: list[Vector] = [{}, {}, {}, {}, {}, {}]
    request, limited, claim, used, firm, guaranteed = vectors
    for d, most in quota.max.items():
        request[d] = sum(owner.held(owner.request.count).get(d, 0) for owner in owners)
        request[d] += sum(figures.limited[child].get(d, 0) for child in below)
        if not lends:
            request[d] = max(request[d], quota.min.get(d, 0))
        own = sum(owner.held().get(d, 0) for owner in owners)
        used[d] = own + sum(figures.used[child].get(d, 0) for child in below)
        # Use above a maximum that was lowered later counts until it ends.
        claim[d] = min(request[d], most)
        limited[d] = min(request[d], max(most, used[d])) if tree.counts_beyond_max else claim[d]
        firm[d] = sum(owner.held().get(d, 0) for owner in owners if not owner.request.preemptible)
        firm[d] += sum(figures.firm[child].get(d, 0) for child in below)
        allocated = own + sum(figures.guaranteed[child].get(d, 0) for child in below)
        # Running members are kept even above a maximum that was lowered later.
        allocated = min(allocated, tree.most(d))
        guaranteed[d] = min(max(allocated, quota.min.get(d, 0)), max(most, used[d]))
    figures.request[name], figures.limited[name], figures.used[name] = request, limited, used
    figures.claim[name], figures.firm[name], figures.guaranteed[name] = claim, firm, guaranteed


def _net_total(tree: Any, root: str, figures: Figures, taken: Vector) -> Vector:
    """Return what the quotas at the top of a tree have in total."""
    total = dict(tree.totals.get(root, {}))
    for d, amount in taken.items():
        total[d] = total.get(d, 0) - amount
    if root == "":
        for other in tree.carved:
            for d, amount in tree.totals[other].items():
                total[d] = total.get(d, 0) - amount
    for name in tree.children("", root):
        if tree.quotas[name].outside:
            for d, amount in figures.used[name].items():
                total[d] = total.get(d, 0) - amount
    return {d: max(amount, 0) for d, amount in total.items()}


def _settle(tree: Any, children: list[str], amounts: Vector, figures: Figures) -> None:
    """Set the scaled minimums, and what each quota can give its own children.

    The latter is what its siblings' minimums leave, at most its maximum; without a weight, its
    minimum. Neither depends on requests.
    """
    inside = [tree.quotas[name] for name in children if not tree.quotas[name].outside]
    for quota in [tree.quotas[name] for name in children]:
        figures.minimum[quota.name] = {d: quota.min.get(d, 0) for d in quota.max}
        figures.reach[quota.name] = {}
    for d in {d for quota in inside for d in quota.max}:
        amount = amounts.get(d, 0)
        rivals = [quota for quota in inside if d in quota.max]
        minimums = _minimums(tree, rivals, d, amount)
        for quota in rivals:
            own = minimums[quota.name]
            left = min(amount - sum(minimums.values()) + own, quota.max[d])
            figures.minimum[quota.name][d] = own
            figures.reach[quota.name][d] = max(own, left) if quota.weight.get(d, 0) else own
    for quota in inside:
        _settle(tree, tree.children(quota.name), figures.reach[quota.name], figures)


def _minimums(tree: Any, quotas: list[Limits], d: str, amount: Any) -> Vector:
    """Return the minimums, scaled down if their sum exceeds the amount."""
    minimums = {quota.name: quota.min.get(d, 0) for quota in quotas}
    if tree.scale_min and sum(minimums.values()) > amount:
        scalable = {quota.name for quota in quotas if quota.scales}
        return _scaled(minimums, scalable, amount, tree.unit(d))
    return minimums


def _divide(tree: Any, children: list[str], amounts: Vector, figures: Figures, key: str) -> None:
    for name in children:
        outside = tree.quotas[name].outside
        figures.runtime[name] = dict(tree.quotas[name].max) if outside else {}
    inside = [name for name in children if not tree.quotas[name].outside]
    for d in sorted({d for name in inside for d in tree.quotas[name].max}):
        _divide_dimension(
            tree,
            [name for name in inside if d in tree.quotas[name].max],
            d,
            amounts.get(d, 0),
            figures,
            key,
        )
    for name in inside:
        _divide(tree, tree.children(name), figures.runtime[name], figures, name)


def _divide_dimension(
    tree: Any, names: list[str], d: str, amount: Any, figures: Figures, key: str
) -> None:
    quotas, unit = [tree.quotas[name] for name in names], tree.unit(d)
    if sum(figures.limited[name][d] for name in names) <= amount:
        # If the parent has little because little is requested, no minimum is missing.
        minimums = {name: figures.minimum[name][d] for name in names}
    else:
        minimums = _minimums(tree, quotas, d, amount)
    claims = []
    for quota in quotas:
        least = minimums[quota.name]
        if tree.guarantee:
            least = max(least, figures.guaranteed[quota.name][d])
        lends = quota.lends and not tree.guarantee
        claim, weight = figures.claim[quota.name][d], quota.weight.get(d, 0)
        claims.append(Claim(claim // unit, least // unit, weight // unit, lends))
    runtimes, rounds = water_fill(int(amount // unit), claims)
    for quota, runtime in zip(quotas, runtimes, strict=True):
        figures.runtime[quota.name][d] = runtime * unit
    figures.rounds[key, d] = int(amount // unit), names, claims, rounds


def _scaled(minimums: Vector, scalable: set[str], amount: Any, unit: Fraction) -> Vector:
    """Return the scalable minimums scaled down to the amount."""
    fixed = sum(least for name, least in minimums.items() if name not in scalable)
    names = [name for name in minimums if name in scalable]
    weights = [int(minimums[name] // unit) for name in names]
    left = max(amount - fixed, 0)
    parts = shares(int(left // unit), weights) if sum(weights) > 0 else weights
    return {**minimums, **{name: part * unit for name, part in zip(names, parts, strict=True)}}
