"""Dimensions, trees and quotas: from their names to their numbers in the kernel."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hivecore._quotas import QuotaKernel
from hivecore._stateful import counted as in_words
from hivecore._thousandths import THOUSAND, counted, of_thousandths
from hivecore.quotas._amounts import MOST, Amount, Amounts
from hivecore.quotas.quota import Quota

__all__ = ["FirstFraction", "Names"]


class FirstFraction(ValueError):
    """An amount is a fraction, but its dimension is counted in whole units."""


class Names:
    """The names of a tree, and the calls of the kernel that need their numbers."""

    def __init__(self, core: QuotaKernel) -> None:
        self.core = core
        self.dimensions: dict[str, int] = {}
        self.width = 0
        #: the dimensions that the kernel counts in thousandths
        self.fine: set[str] = set()
        self.roots: dict[str, int] = {"": core.add_root()}
        self.totals: dict[str, tuple[Amounts, bool]] = {}
        """By tree: its total, and whether that is carved out of the default tree."""
        self.quotas: dict[str, Quota] = {}
        self.numbers: dict[str, int] = {}
        self._children: dict[tuple[str, str, bool], list[str]] = {}
        """By (parent, tree, outside): names, sorted."""
        self._order: tuple[str, ...] | None = None
        self._order_numbers = np.empty(0, dtype=np.int64)
        #: by number: the place of a quota in that order
        self._places: dict[int, int] = {}

    def copy(self, core: QuotaKernel) -> Self:
        """The same names, for a copy of the kernel."""
        branch = object.__new__(type(self))
        branch.core, branch.width, branch.fine = core, self.width, set(self.fine)
        branch.dimensions, branch.roots = dict(self.dimensions), dict(self.roots)
        branch.totals, branch.quotas = dict(self.totals), dict(self.quotas)
        branch.numbers = dict(self.numbers)
        branch._children = {key: list(names) for key, names in self._children.items()}
        branch._order, branch._order_numbers = self._order, self._order_numbers
        branch._places = self._places
        return branch

    # --- dimensions

    def row(self, amounts: Amounts, missing: int = 0) -> list[int]:
        """Amounts in the order of the kernel's dimensions; new dimensions are added."""
        known = self.dimensions
        row: list[Any] = [missing] * self.width
        try:
            for name, amount in amounts:
                row[known[name]] = amount
        except KeyError:
            for name in [dimension for dimension, _ in amounts if dimension not in known]:
                self._add_dimension(
                    name, [known[dimension] for dimension, _ in amounts if dimension in known]
                )
            return self.row(amounts, missing)
        if self.fine:
            for name, amount in amounts:
                if name in self.fine:
                    if amount > self.most(name):
                        raise ValueError(f"{name!r}: {amount} is too much to count in thousandths")
                    row[known[name]] = counted(amount, True)
        return row

    def coarse(self, amounts: Amounts) -> list[str]:
        """The dimensions that have a fraction but are counted in whole units."""
        return [
            name for name, amount in amounts if type(amount) is not int and name not in self.fine
        ]

    def refine(self, dimensions: Iterable[str]) -> None:
        """Count dimensions in thousandths from now on."""
        for name in dimensions:
            number = self.dimensions.get(name)
            if number is not None and not self.core.scale(number, THOUSAND):
                raise ValueError(f"{name!r}: a sum is too large to count it in thousandths")
            self.fine.add(name)

    def most(self, dimension: str) -> int:
        """The largest possible sum of a dimension."""
        return MOST // THOUSAND if dimension in self.fine else MOST

    def counted(self, dimension: str, amount: Amount) -> int:
        """An amount as the kernel counts it."""
        return counted(amount, dimension in self.fine)

    def counted_rows(self, rows: npt.NDArray[Any], dimensions: Iterable[str]) -> npt.NDArray[Any]:
        """Rows of amounts as the kernel counts them; fractions of whole units are rounded up."""
        is_fine = np.array([name in self.fine for name in dimensions])
        most = MOST // THOUSAND
        if rows.dtype.kind in "iu":
            thousandths = np.clip(rows, -most, most) * THOUSAND
            return np.where(is_fine, thousandths, rows)
        if not ((rows >= -MOST) & (rows <= MOST)).all():
            raise ValueError(f"amounts: allowed are {-MOST} to {MOST}")
        thousandths = np.rint(np.clip(rows, -most, most) * THOUSAND)
        numbers = np.where(is_fine, thousandths, np.ceil(rows))
        return np.asarray(numbers, dtype=np.int64)

    def amount(self, dimension: str, number: int) -> Amount:
        """The amount that a number of the kernel means."""
        return of_thousandths(number) if dimension in self.fine else number

    def _add_dimension(self, name: str, kept: Iterable[int]) -> None:
        number = self.core.add_dimension(kept)
        if number is None:
            raise ValueError(f"dimension {name!r}: there are 64 already")
        for other in [dimension for dimension, known in self.dimensions.items() if known == number]:
            del self.dimensions[other]  # no quota or owner uses it any more
        self.dimensions[name] = number
        self.width = self.core.dimensions

    def amounts(self, row: Iterable[int], wanted: Iterable[str]) -> dict[str, Amount]:
        """The amounts of these dimensions, by name."""
        values = list(row)
        amounts: dict[str, Amount] = {name: values[self.dimensions[name]] for name in wanted}
        for name in self.fine & amounts.keys():
            amounts[name] = of_thousandths(int(amounts[name]))
        return amounts

    def named(self, quota: str, row: Iterable[int]) -> dict[str, Amount]:
        """The amounts of the dimensions of a quota, by name."""
        return self.amounts(row, (name for name, _ in self.quotas[quota].max))

    # --- trees

    def root(self, tree: str) -> int:
        """The number of a tree, which is created if it is new."""
        if tree not in self.roots:
            self.roots[tree] = self.core.add_root()
        return self.roots[tree]

    def set_total(self, tree: str, total: Amounts, carved: bool) -> None:
        """Set the total of a tree."""
        row = self.row(total)
        self.core.set_total(self.root(tree), row, carved)
        self.totals[tree] = (total, carved)

    def tree_of(self, name: str) -> str:
        """The tree that a quota is in."""
        return self.quotas[self.path(name)[-1]].tree

    # --- quotas

    def number(self, name: str) -> int:
        """The number of a quota; a KeyError names an unknown one."""
        try:
            return self.numbers[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no quota {name!r}") from None

    def path(self, name: str) -> list[str]:
        """The quota and its ancestors, from the quota up."""
        path = [name]
        while parent := self.quotas[path[-1]].parent:
            path.append(parent)
        return path

    def children(self, name: str, tree: str = "") -> list[str]:
        """The children of a quota: outside quotas first, then by name."""
        outside = self._children.get((name, tree, True), [])
        return outside + self._children.get((name, tree, False), [])

    def in_order(self) -> tuple[str, ...]:
        """All quotas tree by tree, parents before children."""
        if self._order is None:
            names: list[str] = []
            for tree in sorted(self.roots):
                stack = self.children("", tree)[::-1]
                while stack:
                    name = stack.pop()
                    names.append(name)
                    stack.extend(self.children(name)[::-1])
            self._order = tuple(names)
            numbers = [self.numbers[name] for name in names]
            self._order_numbers = np.array(numbers, dtype=np.int64)
            self._places = {number: place for place, number in enumerate(numbers)}
        return self._order

    def sorted(self, numbers: Iterable[int]) -> list[str]:
        """The names of quotas given by number, in the same order."""
        names = self.in_order()
        return [names[place] for place in sorted(map(self._places.__getitem__, numbers))]

    def numbers_in_order(self) -> npt.NDArray[np.int64]:
        """The numbers of all quotas, in the same order."""
        self.in_order()
        return self._order_numbers

    def set_quota(self, quota: Quota) -> None:
        """Add a quota, or replace it."""
        before = self.quotas.get(quota.name)
        self._check(quota, before)
        row = self.row(quota.max, -1)
        weight = quota.max if quota.weight is None else quota.weight
        limits = row, self.row(quota.min), self.row(weight), quota.lends, quota.scales
        siblings = self._siblings(quota)
        if before is None:
            place = bisect_left(siblings, quota.name)
            above = self._parent_number(quota)
            number = self.core.add_quota(above, place, *limits, quota.outside)
            if number is None:
                raise _too_much(f"quota {quota.name!r}")
            self.numbers[quota.name] = number
        else:
            number = self.numbers[quota.name]
            if quota.parent != before.parent:
                self._move(quota, before)
            if not self.core.set_limits(number, *limits):
                if quota.parent != before.parent:
                    self._move(before, quota)
                raise _too_much(f"quota {quota.name!r}")
            self._siblings(before).remove(quota.name)
        insort(siblings, quota.name)
        self.quotas[quota.name] = quota
        if before is None or before.parent != quota.parent:
            self._order = None

    def remove(self, name: str) -> None:
        """Remove a quota; it must have no children and no owners."""
        number = self.number(name)
        if below := self.children(name):
            raise ValueError(f"quota {name!r} has others below it, such as {below[0]!r}")
        if owners := self.core.owners_in(number):
            raise ValueError(f"quota {name!r} has {in_words(owners, 'owner')}")
        self.core.remove(number)
        quota = self.quotas.pop(name)
        del self.numbers[name]
        self._siblings(quota).remove(name)
        self._order = None

    def _siblings(self, quota: Quota) -> list[str]:
        return self._children.setdefault((quota.parent, quota.tree, quota.outside), [])

    def _parent_number(self, quota: Quota) -> int:
        return self.numbers[quota.parent] if quota.parent else -1 - self.root(quota.tree)

    def _move(self, quota: Quota, before: Quota) -> None:
        place = bisect_left(self._siblings(quota), quota.name)
        if not self.core.move(self.numbers[quota.name], self._parent_number(quota), place):
            raise _too_much(f"parent {quota.parent!r}")

    def _check(self, quota: Quota, before: Quota | None) -> None:
        """Whether a quota fits into the rest of the tree."""
        if quota.parent:
            parent = self.quotas.get(quota.parent)
            if parent is None:
                raise KeyError(f"parent: there is no quota {quota.parent!r}")
            if parent.outside:
                raise ValueError(f"parent {quota.parent!r} is an outside quota")
            _check_dimensions(quota, parent)
            if before is not None and quota.name in self.path(quota.parent):
                raise ValueError(f"parent {quota.parent!r} is below {quota.name!r} itself")
        if before is None:
            return
        if quota.outside != before.outside:
            raise ValueError(f"outside: cannot change, quota {quota.name!r} has {before.outside}")
        tree = self.tree_of(quota.parent) if quota.parent else quota.tree
        if tree != self.tree_of(quota.name):
            raise ValueError(f"tree: quota {quota.name!r} is in {self.tree_of(quota.name)!r}")
        for child in self.children(quota.name):
            _check_dimensions(self.quotas[child], quota)


def _check_dimensions(quota: Quota, parent: Quota) -> None:
    known = dict(parent.max)
    for dimension, _ in quota.max:
        if dimension not in known:
            raise ValueError(
                f"max of {quota.name!r}: {dimension!r} is no dimension of {parent.name!r}"
            )


def _too_much(what: str) -> ValueError:
    return ValueError(f"{what}: a sum would be above {MOST}")
