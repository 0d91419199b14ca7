"""Sharing an amount out among children: the kernel, its twin, and fractions that are never rounded
before they have to be.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.quotas import Quota, QuotaRequest, QuotaTree, water_fill, water_fill_rounds
from hivecore.reference.quotas import Claim
from hivecore.reference.quotas import water_fill as twin_fill

MOST = 2**62

#: Mostly small, so that there are ties, or near the largest.
AMOUNTS = st.one_of(
    st.integers(0, 12),
    st.integers(0, 1000),
    st.integers(0, MOST),
    st.sampled_from([0, 1, 2**31, 2**53 + 1, 2**61, MOST - 1, MOST]),
)
CHILD = st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, st.booleans())


def exact(amount, children):
    """Rounds as the specification puts them: (runtimes, [(amount, {child: share})])."""
    runtimes, wanting = {}, {}
    for name, (request, least, weight, lends) in enumerate(children):
        runtimes[name] = least if request > least or not lends else request
        if request > least:
            wanting[name] = weight
    rounds = []
    spare = amount - sum(runtimes.values())
    while spare > 0 and sum(wanting.values()) > 0:
        parts = {name: Fraction(w * spare, sum(wanting.values())) for name, w in wanting.items()}
        shares = {name: part.numerator // part.denominator for name, part in parts.items()}
        missing = spare - sum(shares.values())
        by_rest = sorted(parts, key=lambda name: (shares[name] - parts[name], name))
        for name in by_rest[:missing]:
            shares[name] += 1
        rounds.append((spare, shares))
        spare = 0
        for name, share in shares.items():
            runtimes[name] += share
            too_much = runtimes[name] - children[name][0]
            if too_much >= 0:
                runtimes[name] -= too_much
                spare += too_much
                del wanting[name]
    return list(runtimes.values()), rounds


def columns(children):
    return ([child[i] for child in children] for i in range(4))


def filled(amount, children):
    requests, minimums, weights, lends = columns(children)
    return water_fill(amount, requests, minimums, weights, lends).tolist()


def bases(children):
    return [
        least if request > least or not lends else request for request, least, _, lends in children
    ]


@examples(400)
@given(AMOUNTS, st.lists(CHILD, max_size=9))
def test_kernel_twin_and_fractions_share_alike(amount, children):
    runtimes, rounds = exact(amount, children)
    assert filled(amount, children) == runtimes
    plain, plain_rounds = twin_fill(amount, [Claim(*child) for child in children])
    assert plain == runtimes
    assert [(item.amount, item.shares) for item in plain_rounds] == rounds
    requests, minimums, weights, lends = columns(children)
    result = water_fill_rounds(amount, requests, minimums, weights, lends)
    assert [
        (item.amount, dict(zip(item.children, item.shares, strict=True))) for item in result
    ] == rounds


@examples(200)
@given(st.data(), st.integers(1, 5), st.integers(0, 6))
def test_dimensions_have_nothing_to_do_with_each_other(data, dimensions, count):
    rows = data.draw(st.lists(AMOUNTS, min_size=dimensions, max_size=dimensions))
    table = [data.draw(st.lists(CHILD, min_size=count, max_size=count)) for _ in range(dimensions)]
    lends = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    given_ = [
        np.array([[child[i] for child in row] for row in table], dtype=np.int64) for i in range(3)
    ]
    together = water_fill(rows, *given_, lends)
    assert together.dtype == np.int64
    assert together.shape == (dimensions, count)
    for d, amount in enumerate(rows):
        alone = water_fill(amount, *(array[d] for array in given_), lends)
        assert together[d].tolist() == alone.tolist()
    # Arrays in any order of memory and of any type of integers are the same numbers.
    turned = [np.asfortranarray(array) for array in given_]
    assert water_fill(np.array(rows, dtype=object).tolist(), *turned, lends).tolist() == (
        together.tolist()
    )
    unsigned = [array.astype(np.uint64) for array in given_]
    assert water_fill(rows, *unsigned, np.array(lends, dtype=bool)).tolist() == together.tolist()


@examples(300)
@given(AMOUNTS, st.lists(CHILD, max_size=9))
def test_rounds_add_up_to_what_is_given(amount, children):
    requests, minimums, weights, lends = columns(children)
    rounds = water_fill_rounds(amount, requests, minimums, weights, lends)
    have = bases(children)
    for i, item in enumerate(rounds):
        assert sum(item.shares) == item.amount  # no unit gets lost
        assert list(item.children) == sorted(item.children)
        for child, share in zip(item.children, item.shares, strict=True):
            assert have[child] <= requests[child]
            have[child] += share
        back = sum(max(have[child] - requests[child], 0) for child in item.children)
        for child in item.children:
            have[child] = min(have[child], requests[child])
        assert [after.amount for after in rounds[i + 1 : i + 2]] in ([], [back])
    assert have == filled(amount, children)
    if rounds:
        assert rounds[0].amount == amount - sum(bases(children))
        assert len(rounds) <= 63


@examples(300)
@given(AMOUNTS, st.lists(CHILD, max_size=9))
def test_no_child_gets_more_than_its_request_or_less_than_its_base(amount, children):
    runtimes, least = filled(amount, children), bases(children)
    for (request, minimum, weight, lends), runtime, base in zip(
        children, runtimes, least, strict=True
    ):
        assert base <= runtime
        assert runtime <= (request if lends else max(request, minimum))
        assert weight > 0 or runtime == base
    assert sum(runtimes) <= max(amount, sum(least))
    # What is left over is of no use to anybody with a weight.
    if amount > sum(runtimes):
        assert all(
            runtime >= request
            for (request, _, weight, _), runtime in zip(children, runtimes, strict=True)
            if weight > 0
        )


@examples(200)
@given(AMOUNTS, st.lists(CHILD, min_size=1, max_size=4), st.integers(2, 3))
def test_of_equals_the_first_has_most_but_for_a_unit_a_round(amount, children, times_each):
    runtimes = filled(amount, [child for child in children for _ in range(times_each)])
    for i in range(len(children)):
        equals = runtimes[i * times_each : (i + 1) * times_each]
        assert equals == sorted(equals, reverse=True)
        assert equals[0] - equals[-1] <= 63


@examples(200)
@given(st.integers(0, MOST), st.lists(st.integers(1, MOST), min_size=1, max_size=9))
def test_a_single_round_is_within_a_unit_of_the_exact_parts(amount, weights):
    """A child that asks for all of it takes part in one round alone."""
    runtimes = filled(amount, [(MOST, 0, weight, True) for weight in weights])
    assert sum(runtimes) == amount
    for weight, runtime in zip(weights, runtimes, strict=True):
        assert abs(runtime - Fraction(amount * weight, sum(weights))) < 1
    for (item, first), (other, second) in pairwise(sorted(zip(weights, runtimes, strict=True))):
        assert item == other or first <= second


@examples(150)
@given(st.integers(0, 40), st.lists(CHILD, min_size=1, max_size=6), st.data())
def test_in_a_tree_names_decide_ties_in_whatever_order_children_come(amount, children, data):
    names = data.draw(st.permutations("abcdef"[: len(children)]))
    tree = QuotaTree(total={"x": amount}, scale_min=False)
    for name, (request, least, weight, lends) in zip(names, children, strict=True):
        quota = Quota(name, max={"x": MOST}, min={"x": least}, weight={"x": weight}, lends=lends)
        tree.set_quota(quota)
        tree.submit(QuotaRequest(f"of {name}", name, {"x": request}))
    sorted_children = [child for _, child in sorted(zip(names, children, strict=True))]
    # One that does not lend asks for its minimum at least, which makes no difference to it.
    expected = filled(amount, sorted_children)
    assert [tree.runtime(name)["x"] for name in sorted(names)] == expected
    assert tree.runtimes(["x"])[:, 0].tolist() == expected
    tree.check()


def test_the_largest_numbers_of_all_do_not_overflow():
    count = 10_000
    everything = np.full(count, MOST)
    runtimes = water_fill(MOST, everything, np.zeros(count, dtype=int), everything)
    assert sorted(set(runtimes.tolist())) == [MOST // count, MOST // count + 1]
    assert sum(runtimes.tolist()) == MOST
    assert runtimes.tolist() == sorted(runtimes.tolist(), reverse=True)


def test_what_each_gives_back_needs_a_round_each_at_most_63():
    """Staircases of requests and weights: the most rounds that were found."""
    for ratio in (2, 3, 4, 7):
        requests = [min(ratio**i, MOST) for i in range(40)]
        children = [(request, 0, 1, True) for request in requests]
        for amount in (sum(requests[:20]), MOST // 3, MOST):
            runtimes, rounds = exact(amount, children)
            assert filled(amount, children) == runtimes
            assert len(rounds) <= 63
