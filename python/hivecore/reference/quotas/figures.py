"""What follows from the quotas and the owners in them (sections 1.4 and 3 of the specification).

Everything is computed from scratch: requests and usage from the leaves up, minimums and runtimes
from the roots down. A quota ignores dimensions that it has no maximum of. A dimension with
fractions is divided in thousandths.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from hivecore.reference.quotas.water_fill import Claim, Round, shares, water_fill

__all__ = ["MOST", "Figures", "Limits", "Owner", "Vector", "exactly", "figures_of"]

Vector = dict[str, Any]

#: No sum counts for more, in the unit of its dimension.
MOST = 2**62


def exactly(amounts: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Vector:
    """The amounts by dimension; those that are not whole are the nearest thousandths."""
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
        """Of a `hivecore.quotas.Quota`."""
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
    """An owner: its request, and how many of its members run."""

    request: Any
    members: int = 0
    """How many run; 0: it waits."""
    start: int = 0
    """The place in the order of admission."""
    may_borrow: bool = True

    def held(self, members: int | None = None) -> Vector:
        """What this number of members takes; ``None``: the running ones."""
        count = self.members if members is None else members
        return {name: amount * count for name, amount in exactly(self.request.amounts).items()}


class Figures:
    """Vectors by quota; "" stands for the root of a tree, by the tree's name in ``totals``."""

    def __init__(self) -> None:
        self.request: dict[str, Vector] = {}
        #: what counts at the parent
        self.limited: dict[str, Vector] = {}
        #: of that, what it claims among its siblings
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
    """Of a `reference.quotas.QuotaTree`.

    :param taken: by tree, what is taken off its total beside what quotas outside of it use.
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
        # What is used beyond a maximum that was lowered meanwhile counts until it ends.
        claim[d] = min(request[d], most)
        limited[d] = min(request[d], max(most, used[d])) if tree.counts_beyond_max else claim[d]
        firm[d] = sum(owner.held().get(d, 0) for owner in owners if not owner.request.preemptible)
        firm[d] += sum(figures.firm[child].get(d, 0) for child in below)
        allocated = own + sum(figures.guaranteed[child].get(d, 0) for child in below)
        # What runs is kept even beyond a maximum that was lowered meanwhile.
        allocated = min(allocated, tree.most(d))
        guaranteed[d] = min(max(allocated, quota.min.get(d, 0)), max(most, used[d]))
    figures.request[name], figures.limited[name], figures.used[name] = request, limited, used
    figures.claim[name], figures.firm[name], figures.guaranteed[name] = claim, firm, guaranteed


def _net_total(tree: Any, root: str, figures: Figures, taken: Vector) -> Vector:
    """What the quotas at the top of a tree have in all."""
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
    """The minimums in effect, scaled by what a parent can ever have, and what each quota can have
    for its own children: what the minimums of its siblings leave, its maximum at most; without a
    weight its minimum. They do not depend on requests.
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
    """Scaled down if they add up to more than an amount."""
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
        # Where the parent has little because little is asked for, no minimum is missing.
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
    """Minimums scaled down to the amount, as far as they may be scaled."""
    fixed = sum(least for name, least in minimums.items() if name not in scalable)
    names = [name for name in minimums if name in scalable]
    weights = [int(minimums[name] // unit) for name in names]
    left = max(amount - fixed, 0)
    parts = shares(int(left // unit), weights) if sum(weights) > 0 else weights
    return {**minimums, **{name: part * unit for name, part in zip(names, parts, strict=True)}}
