"""The best groups: against trying all, against HiGHS, and with what earlier calls have left."""

from collections import Counter
from itertools import combinations_with_replacement, pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interleaving.jobs_that_share import grouped, jobs_that_share
from profiles import examples

from hivecore.interleaving import GroupingCache, efficiencies, group_jobs
from hivecore.reference.interleaving.candidates import Candidates
from hivecore.reference.interleaving.exact import best_value
from hivecore.reference.interleaving.rounds import total

optimize = pytest.importorskip("scipy.optimize")
CACHE = GroupingCache()


@st.composite
def small(draw):
    """Rows, GPUs, capacity, which jobs may wait, and options: few enough to try all groups."""
    rows, gpus, options = draw(jobs_that_share(columns=4, jobs=8, types=4))
    n = len(rows)
    wait = st.lists(st.booleans(), min_size=n, max_size=n)
    optional = draw(wait) if draw(st.booleans()) else [False] * n
    return rows, gpus, draw(st.none() | st.integers(1, sum(gpus))), optional, options


@given(small(), st.booleans())
def test_no_grouping_is_better(jobs, with_cache):
    rows, gpus, capacity, optional, options = jobs
    n, slots = len(rows), len(rows[0]) if options["model"] == "barrier" else 4
    like = Candidates(
        rows,
        options["model"],
        "best",
        options.get("interference", [1.0] * 8),
        options.get("solo", [total(row) for row in rows]),
        options.get("priorities", range(n)),
        options.get("max_slowdown", inf),
        options.get("memory", [0] * n),
        options.get("gpu_memory", inf),
    )
    gain = options["weight"] == "gain"
    may_wait = frozenset(job for job in range(n) if optional[job])
    largest = options.get("max_group", slots)
    room, value = best_value(like, gpus, capacity or 0, largest, gain, may_wait)
    grouping = grouped(
        rows,
        gpus,
        capacity,
        method="exact",
        optional=np.array(optional),
        cache=CACHE if with_cache else None,
        **options,
    )
    assert grouping.value == pytest.approx(value, rel=1e-9)
    assert grouping.gap == 0.0
    assert grouping.gpus <= room
    members = sorted(job for group in grouping.groups for job in group)
    assert len(set(members)) == len(members)
    assert set(range(n)) - may_wait <= set(members)
    for group in grouping.groups:
        assert len(group) <= largest
        assert len({gpus[job] for job in group}) == 1
        assert len(group) == 1 or like.is_allowed(like.by_type(group))
    worth = [like.progress(group) if gain else like.efficiency(group) for group in grouping.groups]
    each = [gpus[group[0]] for group in grouping.groups]
    assert grouping.value == pytest.approx(np.dot(worth, each), rel=1e-9)


def best_by_highs(types, counts, gpus, capacity, optional):
    """The greatest efficiency, in GPUs, of groups of jobs: counts[bucket][type]."""
    values, columns, groups = [], [], []
    rows = counts.size
    kinds = [
        c for size in range(1, 5) for c in combinations_with_replacement(range(len(types)), size)
    ]
    worth = efficiencies([types[t] for c in kinds for t in c], places_of(kinds))
    for bucket, size in enumerate(gpus):
        for kind, value in zip(kinds, worth, strict=True):
            column = np.zeros(rows + 1)
            for t, number in Counter(kind).items():
                column[bucket * len(types) + t] = number
            column[rows] = size
            columns.append(column)
            values.append(value * size)
            groups.append(kind)
    must = (counts - optional).ravel()
    result = optimize.milp(
        -np.array(values),
        constraints=optimize.LinearConstraint(
            np.array(columns).T, np.append(must, 0), np.append(counts.ravel(), capacity)
        ),
        integrality=np.ones(len(values)),
        options={"mip_rel_gap": 0},
    )
    return -result.fun if result.status == 0 else None


def places_of(kinds):
    """Each kind as numbers of rows of no other kind."""
    starts = np.cumsum([0, *map(len, kinds)])
    return [list(range(first, end)) for first, end in pairwise(starts)]


@examples(25)
@given(st.integers(0, 2**32), st.booleans())
def test_highs_finds_nothing_better(seed, with_optional):
    rng = np.random.default_rng(seed)
    types = rng.random((rng.integers(2, 7), 4)) + 0.01
    gpus = rng.choice([1, 2, 4, 8], rng.integers(1, 4), replace=False)
    counts = rng.integers(0, 7, (len(gpus), len(types)))
    counts[0, 0] += 1
    optional = rng.integers(0, counts + 1) if with_optional else np.zeros_like(counts)
    demand = int((counts.sum(axis=1) * gpus).sum())
    capacity = int(rng.integers(demand // 4 + 1, demand + 1))
    expected = best_by_highs(types, counts, gpus, capacity, optional)
    rows, sizes, may_wait = [], [], []
    for bucket, size in enumerate(gpus):
        for t, number in enumerate(counts[bucket]):
            rows += [types[t]] * number
            sizes += [int(size)] * number
            may_wait += [place < optional[bucket, t] for place in range(number)]
    result = group_jobs(rows, sizes, capacity, method="exact", optional=np.array(may_wait))
    if expected is None:
        assert result.gpus > capacity
    else:
        assert result.gpus <= capacity
        assert result.value == pytest.approx(expected, rel=1e-7)
        assert result.gap == 0.0


def test_where_many_branches_are_needed_the_best_is_found():
    rng = np.random.default_rng(8)
    types = rng.random((14, 4)) + 0.01
    which = rng.integers(0, 14, 54)
    counts = np.bincount(which, minlength=14)[None]
    result = group_jobs(types[which], [1] * 54, 14, method="exact")
    assert result.value == pytest.approx(
        best_by_highs(types, counts, [1], 14, np.zeros_like(counts)), rel=1e-9
    )
    assert result.gap == 0.0


@examples(30)
@given(st.integers(0, 2**32))
def test_what_is_kept_changes_no_answer(seed):
    rng = np.random.default_rng(seed)
    types = rng.integers(1, 6, (6, 3)).astype(float)
    rows = types[rng.integers(0, 6, 30)]
    gpus = rng.choice([1, 2, 4], 30)
    cache = GroupingCache()
    for _ in range(8):
        some = np.sort(rng.choice(30, rng.integers(5, 25), replace=False))
        optional = rng.random(len(some)) < 0.3
        arguments = (rows[some], gpus[some], 12)
        kept = group_jobs(*arguments, method="exact", optional=optional, cache=cache)
        fresh = group_jobs(*arguments, method="exact", optional=optional)
        assert kept.groups == fresh.groups
        assert (kept.value, kept.bound) == (fresh.value, fresh.bound)


@given(small())
def test_local_search_lies_between_muri_and_the_best(jobs):
    rows, gpus, capacity, _, options = jobs
    muri, local, exact = (
        grouped(rows, gpus, capacity, method=method, **options)
        for method in ("muri", "local", "exact")
    )
    assert local.gpus <= max(muri.gpus, capacity or 0)
    assert local.value >= muri.value * (1 - 1e-9)
    assert muri.bound == local.bound == inf
    if muri.gpus <= (capacity or 0):
        assert exact.value >= local.value * (1 - 1e-9)


@pytest.mark.parametrize("method", ["muri", "local", "exact"])
def test_a_limit_on_slowdown_is_kept_but_for_rounding(method):
    rows = [[0.1, 0.6, 0.1], [0.1, 0, 0]]  # together they take 0.8, as the first one does alone
    grouping = group_jobs(rows, [1, 1], 1, method=method, max_slowdown=1)
    assert [sorted(group) for group in grouping.groups] == [[0, 1]]
