"""Amounts of a device by name, where a name that is missing differs from one that is 0.

A device limits only what it names (defect D6): of a GPU that reports no "core", any core is taken.
But once somebody has been charged core there, "core" is in what is left, with 0, and the next one
does not fit. So subtraction keeps the names of both sides.
"""

__all__ = ["Amounts", "at_most", "fits", "is_nothing", "less", "minus", "plus"]

Amounts = dict[str, int]


def fits(request: Amounts, free: Amounts) -> bool:
    """Whether no amount that both name is larger in the request."""
    return all(request[name] <= free[name] for name in request if name in free)


def is_nothing(amounts: Amounts) -> bool:
    """Whether all of it is 0, or there is no name at all."""
    return not any(amounts.values())


def plus(left: Amounts, right: Amounts) -> Amounts:
    """The sum, by all names."""
    names = dict.fromkeys([*left, *right])
    return {name: left.get(name, 0) + right.get(name, 0) for name in names}


def minus(left: Amounts, right: Amounts) -> Amounts:
    """The difference, by all names; it may be negative."""
    names = dict.fromkeys([*left, *right])
    return {name: left.get(name, 0) - right.get(name, 0) for name in names}


def less(left: Amounts, right: Amounts) -> Amounts:
    """The difference, by all names, and at least 0."""
    return {name: max(amount, 0) for name, amount in minus(left, right).items()}


def at_most(left: Amounts, right: Amounts) -> Amounts:
    """The smaller amount of each name that both have."""
    return {name: min(left[name], right[name]) for name in left if name in right}
