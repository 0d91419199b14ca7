"""How the runtime of a quota follows from the amounts of its ancestors."""

from functools import partial

from hivecore._quotas import QuotaKernel
from hivecore._record import Record
from hivecore.quotas._amounts import Amount
from hivecore.quotas._fields import Field
from hivecore.quotas._names import Names

__all__ = ["RuntimeLevel", "runtime_trace"]


class RuntimeLevel(Record, frozen=True):
    """The share of one child when an amount of its parent is divided among all children.

    :param quota: the child.
    :param parent: the parent; "": the total of the tree is divided.
    :param dimension: the dimension.
    :param amount: the amount of the parent.
    :param request: the child's request, at most its maximum.
    :param minimum: its minimum as it counted here: scaled down to the amount where the requests and
        the minimums of all children are both more than that; else as of `QuotaStatus`. With a
        guarantee its usage, if that is more.
    :param base: its amount before the spare amount was divided.
    :param bases: the sum of the bases of all children.
    :param weight: its weight.
    :param rounds: (the amount left, the weights of all children that wanted more, its share) of
        each round in which it took part. The part of its share beyond its request went into the
        next round.
    :param runtime: the amount that it may use.
    """

    quota: str
    parent: str
    dimension: str
    amount: Amount
    request: Amount
    minimum: Amount
    base: Amount
    bases: Amount
    weight: Amount
    rounds: tuple[tuple[Amount, Amount, Amount], ...]
    runtime: Amount


def runtime_trace(
    core: QuotaKernel, names: Names, name: str, dimension: str
) -> tuple[RuntimeLevel, ...]:
    """From the top down to the quota."""
    core.amounts(names.number(name), Field.RUNTIME)  # which brings all up to date
    numbers = {number: quota for quota, number in names.numbers.items()}
    found = []
    told = partial(names.amount, dimension)
    for quota in reversed(names.path(name)):
        parent = names.quotas[quota].parent
        above = names.numbers[parent] if parent else -1 - names.root(names.quotas[quota].tree)
        amount, children, requests, minimums, weights, lends, runtimes, rounds = core.sharing(
            above, names.dimensions[dimension]
        )
        place = [numbers[child] for child in children].index(quota)
        bases = [
            least if request > least or not lent else request
            for request, least, lent in zip(requests, minimums, lends, strict=True)
        ]
        mine = [
            (told(left), told(sum(weights[child] for child in who)), told(given[who.index(place)]))
            for left, who, given in rounds
            if place in who
        ]
        found.append(
            RuntimeLevel(
                quota,
                parent,
                dimension,
                told(amount),
                told(requests[place]),
                told(minimums[place]),
                told(bases[place]),
                told(sum(bases)),
                told(weights[place]),
                tuple(mine),
                told(runtimes[place]),
            )
        )
    return tuple(found)
