"""Method "auto": never worse than Muri's rounds, the best groups where there are few kinds."""

from collections import Counter
from itertools import combinations
from math import inf
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interleaving.jobs_that_share import grouped, jobs_that_share, with_proved_matchings
from profiles import seeds

from hivecore.interleaving import Grouper, automatic, group_jobs
from hivecore.interleaving.automatic import count_kinds
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.in_rounds import group_in_rounds
from hivecore.reference import interleaving as twin


@st.composite
def shared(draw):
    """Rows, GPUs, capacity and options of `grouped`."""
    rows, gpus, options = draw(jobs_that_share(columns=5, jobs=14, types=6))
    if draw(st.booleans()):
        options["start"] = [[job] for job in range(len(rows)) if draw(st.booleans())]
    return rows, gpus, draw(st.none() | st.integers(1, sum(gpus))), options


@given(shared(), st.sampled_from([0, 20, 5000]))
def test_auto_is_never_worse_than_rounds(given_jobs, most_kinds):
    rows, gpus, capacity, options = given_jobs
    with patch.object(automatic, "_MAX_KINDS", most_kinds):
        grouping = grouped(rows, gpus, capacity, **options)
    rounds = grouped(rows, gpus, capacity, method="muri", **options)
    assert sorted(job for group in grouping.groups for job in group) == list(range(len(rows)))
    assert grouping.gpus <= max(capacity or 0, rounds.gpus)
    if rounds.gpus <= max(capacity or 0, grouping.gpus):
        assert grouping.value >= rounds.value * (1 - 1e-9)
        assert grouping.bound >= rounds.value * (1 - 1e-9)


@given(shared())
def test_auto_finds_the_best_groups_where_there_are_few_kinds(given_jobs):
    rows, gpus, capacity, options = given_jobs
    options |= {"weight": "efficiency"}
    options.pop("start", None)
    capacity = None if capacity is None else min(capacity, sum(gpus) - 1) or None
    grouping = grouped(rows, gpus, capacity, **options)
    best = grouped(rows, gpus, capacity, method="exact", **options)
    assert grouping.groups == best.groups
    assert grouping.gap == 0.0


@given(shared(), st.integers(1, 3000), st.booleans())
def test_a_search_stops_where_the_twin_has_no_effort_left(given_jobs, effort, least_waste_first):
    rows, gpus, capacity, options = given_jobs
    start = options.pop("start", [])
    gain = options["weight"] == "gain"
    expected = twin.group_jobs(
        rows,
        gpus,
        capacity,
        matcher=with_proved_matchings(54 if gain else 56),
        method="local",
        merge_order="waste" if least_waste_first else "index",
        start=start,
        effort=effort,
        **options,
    )
    jobs = candidates(rows, gpus, **options)
    begin = jobs.start_of(start)
    result = group_in_rounds(
        jobs, capacity or 0, gain, effort, begin, least_waste_first=least_waste_first
    )
    assert result == expected


def candidates(rows, gpus, weight="efficiency", **options):
    return Candidates.of(rows, gpus, **options)


@given(jobs_that_share(columns=4, jobs=9, types=5))
def test_kinds_of_groups_are_counted_as_by_listing_them(given_jobs):
    rows, gpus, options = given_jobs
    options.pop("gpu_memory", None), options.pop("memory", None)
    jobs = candidates(rows, gpus, **options)
    solo = jobs.solo.tolist()
    each = range(len(rows)) if jobs.max_slowdown < inf else [0] * len(rows)
    types = list(zip(gpus, rows, solo, each, strict=True))
    listed = {
        tuple(sorted(group))
        for size in range(1, len(jobs.factors) + 1)
        for group in combinations(types, size)
        if len({item[0] for item in group}) == 1
    }
    assert count_kinds(jobs, 10**9) == len(listed)
    assert min(count_kinds(jobs, 3), 4) == min(len(listed), 4)


def test_many_jobs_of_few_profiles_are_grouped_best_and_of_many_by_matchings():
    rng = np.random.default_rng(0)
    profiles = rng.random((8, 4))
    result = group_jobs(profiles[rng.integers(0, 8, 2000)], [1] * 2000, 700)
    assert result.gap == 0.0
    rows = rng.random((150, 4))
    result = group_jobs(rows, [1] * 150, 50)
    assert result.bound == inf
    assert result.value > group_jobs(rows, [1] * 150, 50, method="muri").value
    assert [sorted(group) for group in result.groups] != [[job] for job in range(150)]


def test_jobs_that_find_gpus_enough_stay_alone():
    # Together they would keep one GPU busier than two.
    rows, solo = [(1.0, 0.0), (0.0, 1.0)], [100.0, 100.0]
    assert grouped(rows, [1, 1], 2, solo=solo).groups == [[0], [1]]
    assert grouped(rows, [1, 1], 2, solo=solo, method="exact").groups == [[0, 1]]


def test_merges_at_a_loss_are_not_made_for_gain():
    rows, slow = [(5.0, 0.0)] * 2, [1.0, 4.0]
    result = group_jobs(rows, [1, 1], 1, interference=slow, weight="gain")
    assert result.groups == [[0], [1]]
    assert group_jobs(rows, [1, 1], 1, interference=slow).groups == [[0, 1]]


@pytest.mark.parametrize("weight", ["efficiency", "gain"])
def test_what_the_exact_program_refuses_is_grouped_by_matchings(weight):
    rows = [(9.0, 1.0), (1.0, 9.0)]
    result = group_jobs(rows, [2**31, 3], 2**31 + 2, weight=weight)
    assert result.groups == [[0], [1]]
    result = grouped(rows, [1, 1], 1, weight=weight, solo=[1e300, 1e300])
    assert sorted(result.groups[0]) == [0, 1]


def test_a_grouper_uses_method_auto_by_default():
    rng = np.random.default_rng(1)
    rows = rng.random((6, 4))[rng.integers(0, 6, 40)]
    grouper = Grouper(4, 14)
    for job, row in enumerate(rows):
        grouper.add(job, row, 1)
    taken = Counter(job for group in grouper.groups() for job in group.jobs)
    rows = rows[sorted(taken)]
    value = sum(group.efficiency for group in grouper.groups())
    best = group_jobs(rows, [1] * len(rows), 14, method="exact")
    assert value == pytest.approx(best.value)
    assert best.value > group_jobs(rows, [1] * len(rows), 14, method="muri").value


@pytest.mark.parametrize("method", ["auto", "muri", "local", "exact"])
@pytest.mark.parametrize("model", ["barrier", "artifact"])
def test_no_jobs_are_an_empty_grouping(method, model):
    for capacity in (None, 4):
        grouping = grouped([], [], capacity, method=method, model=model)
        assert (grouping.groups, grouping.gpus, grouping.value, grouping.gap) == ([], 0, 0.0, 0.0)


def test_a_proved_optimum_has_no_gap_at_all():
    # Sums of values and of bounds are rounded apart.
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        rows = rng.random((12, 4))[rng.integers(0, 12, 60)]
        gpus = rng.choice([1, 2, 4], 60)
        result = group_jobs(rows, gpus, int(gpus.sum()) // 2, method="exact")
        assert result.gap == 0.0
        assert result.bound == result.value
