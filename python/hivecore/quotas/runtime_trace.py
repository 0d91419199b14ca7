"""How the runtime of a quota follows from the amounts of the quotas above it."""

from functools import partial

from hivecore._quotas import QuotaKernel
from hivecore._record import Record
from hivecore.quotas._amounts import Amount
from hivecore.quotas._fields import Field
from hivecore.quotas._names import Names

__all__ = ["RuntimeLevel", "runtime_trace"]


class RuntimeLevel(Record, frozen=True):
    """The share of one child when the amount of its parent is divided among all children.

    :param quota: the child.
    :param parent: the parent; "": the total of the tree is divided.
    :param dimension: the dimension.
    :param amount: the amount of the parent.
    :param request: the child's request, at most its maximum.
    :param minimum: the child's minimum in this division: that of `QuotaStatus`, scaled down to the
        amount where both requests and minimums of all children exceed it; with ``guarantee`` at
        least its usage.
    :param base: what the child has before the spare amount is divided.
    :param bases: the sum of the bases of all children.
    :param weight: the child's weight.
    :param rounds: of each round with the child: the amount left, the weights of all children that
        want more, the child's share. What exceeds its request is divided in the next round.
    :param runtime: how much the child may use.
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
    """The levels from the top down to the quota."""
    core.amounts(names.number(name), Field.RUNTIME)  # which brings all up to date
    numbers = {number: quota for quota, number in names.numbers.items()}
    levels = []
    amount_of = partial(names.amount, dimension)
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
            (
                amount_of(left),
                amount_of(sum(weights[child] for child in takers)),
                amount_of(shares[takers.index(place)]),
            )
            for left, takers, shares in rounds
            if place in takers
        ]
        levels.append(
            RuntimeLevel(
                quota,
                parent,
                dimension,
                amount_of(amount),
                amount_of(requests[place]),
                amount_of(minimums[place]),
                amount_of(bases[place]),
                amount_of(sum(bases)),
                amount_of(weights[place]),
                tuple(mine),
                amount_of(runtimes[place]),
            )
        )
    return tuple(levels)
