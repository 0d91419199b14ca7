"""The interleaving kernel against its twin: equal to the last bit, on any input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interleaving.jobs_that_share import grouped, jobs_that_share, rounds, with_proved_matchings
from profiles import seeds

from hivecore import _interleaving
from hivecore.interleaving import efficiencies, group_jobs, interleave
from hivecore.matching import max_weight_matching
from hivecore.reference import interleaving as twin

MODELS = ["barrier", "data2", "artifact"]
ORDERS = ["best", "worst"]

# Few values make many ties; the others, sums that round.
stage = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 0.1, 0.3, 1e-300, 1e300]) | st.floats(0, 10)
models = st.sampled_from(MODELS)
orders = st.sampled_from(ORDERS)


def rows_of(columns, low, high):
    row = st.tuples(*[stage] * columns).filter(any)
    return st.lists(row, min_size=low, max_size=high)


@st.composite
def groups(draw):
    """A model and the rows of one group; many slots seldom, for the twin's sake."""
    model = draw(models)
    columns = draw(st.sampled_from([2, 3, 4, 4, 5, 6])) if model == "barrier" else 3
    slots = columns if model == "barrier" else 4
    return model, draw(rows_of(columns, 1, slots))


@given(groups(), orders)
def test_one_group_is_interleaved_as_by_the_twin(group, order):
    model, rows = group
    time, share, offsets = rounds(rows, [range(len(rows))], model, order)
    expected = twin.interleave(rows, model, order)
    assert (tuple(offsets.tolist()), time[0], share[0]) == expected
    if model != "artifact":
        result = interleave(rows, model=model, order=order)
        assert (result.offsets, result.iteration_time, result.efficiency) == expected


@pytest.mark.parametrize(("slots", "jobs"), [(k, p) for k in (7, 8) for p in range(1, k + 1)])
def test_many_slots_are_searched_as_by_the_twin(slots, jobs):
    rows = np.random.default_rng(10 * slots + jobs).integers(0, 4, (jobs, slots)) + 0.1
    result = interleave(rows)
    expected = twin.interleave([tuple(row) for row in rows.tolist()])
    assert (result.offsets, result.iteration_time, result.efficiency) == expected


def test_the_recurrence_ends_where_that_of_the_twin_does():
    rows = np.random.default_rng(0).integers(1, 1000, (1600, 3)).astype(float)
    groups = np.arange(1600).reshape(400, 4)
    expected = twin.efficiencies([tuple(row) for row in rows.tolist()], groups.tolist(), "artifact")
    assert rounds(rows, groups, "artifact")[1].tolist() == expected


@given(st.data(), orders)
def test_lists_of_groups_are_worth_what_each_group_is(data, order):
    model, rows = data.draw(groups())
    rows = rows * 3
    slots = len(rows[0]) if model == "barrier" else 4
    places = st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=slots, unique=True)
    lists = data.draw(st.lists(places, max_size=30))
    expected = twin.efficiencies(rows, lists, model, order)
    assert rounds(rows, lists, model, order)[1].tolist() == expected
    if model != "artifact":
        assert efficiencies(rows, lists, model=model, order=order).tolist() == expected


@given(st.data(), models, orders)
def test_all_pairs_are_worth_what_the_twin_says(data, model, order):
    columns = data.draw(st.integers(2, 8)) if model == "barrier" else 3
    few = data.draw(rows_of(columns, 1, 6))
    # More than one tile of the kernel, from few rows.
    rows = (few * 40)[: data.draw(st.integers(1, 70))]
    result = _interleaving.pairs(np.array(rows), model, order == "best")
    assert result.tolist() == twin.efficiencies(rows, None, model, order)
    if model != "artifact":
        assert (efficiencies(rows, model=model, order=order) == result).all()
    assert (result == result.T).all()


@given(groups().filter(lambda group: group[0] != "artifact"))
def test_a_round_is_as_long_as_its_longest_job_and_its_busiest_resource_at_least(group):
    model, rows = group
    result, worst = interleave(rows, model=model), interleave(rows, model=model, order="worst")
    busy = [sum(column) for column in zip(*rows, strict=True)]
    if model == "data2":
        busy[0] /= 2  # two jobs at once, one on storage and one on the CPU
    bound = max(*map(sum, rows), *busy)
    assert bound * (1 - 1e-12) <= result.iteration_time <= worst.iteration_time * (1 + 1e-12)
    assert 0 < result.efficiency <= 1
    assert result.offsets[0] == 0
    assert len(set(result.offsets)) == len(rows)


# --- groups ------------------------------------------------------------------------------------


@st.composite
def candidates(draw):
    """Rows, GPUs, capacity and options of `grouped`."""
    rows, gpus, options = draw(jobs_that_share(columns=5, jobs=14, types=6))
    options["order"] = draw(orders)
    options["least_waste_first"] = draw(st.booleans())
    options["method"] = draw(st.sampled_from(["muri", "local"]))
    if draw(st.booleans()):
        slots = len(rows[0]) if options["model"] == "barrier" else 4
        places = [job for job in draw(st.permutations(range(len(rows)))) if gpus[job] == 1]
        size = draw(st.integers(1, options.get("max_group", slots)))
        options["start"] = [places[i : i + size] for i in range(0, len(places) // 2, size)]
    return rows, gpus, draw(st.none() | st.integers(1, sum(gpus))), options


@given(candidates())
def test_jobs_are_grouped_as_by_the_twin_with_matchings_that_are_proved(given_jobs):
    rows, gpus, capacity, options = given_jobs
    matcher = with_proved_matchings(54 if options["weight"] == "gain" else 56)
    grouping = grouped(rows, gpus, capacity, **options).groups
    options["merge_order"] = "waste" if options.pop("least_waste_first") else "index"
    assert grouping == twin.group_jobs(rows, gpus, capacity, matcher=matcher, **options)


def test_many_profiles_are_grouped_as_by_the_twin():
    rows = [tuple(row) for row in np.random.default_rng(0).random((110, 3)).tolist()]
    expected = twin.group_jobs(rows, [1] * 110, matcher=with_proved_matchings(56))
    assert group_jobs(rows, [1] * 110, method="muri").groups == expected


@pytest.mark.parametrize("seed", seeds(60))
def test_a_local_search_takes_the_steps_of_the_twin(seed):
    random = np.random.default_rng(seed)
    columns = int(random.choice([3, 4, 4, 5]))
    n = int(random.integers(9, 15))
    types = random.integers(1, 30, (5, columns)) / 10
    rows = [tuple(types[number].tolist()) for number in random.integers(0, 5, n)]
    gpus = random.choice([1, 1, 2, 3], n).tolist()
    options = {"method": "local", "weight": str(random.choice(["efficiency", "gain"]))}
    if seed % 4 == 0:
        options |= {"max_slowdown": 1.6, "priorities": random.permutation(n).tolist()}
    if seed % 4 == 1:
        options |= {"gpu_memory": 12, "memory": random.integers(2, 6, n).tolist()}
    if seed % 4 == 2:
        options |= {"interference": [1, 1.3, 1.5, 1.4, 1.7], "solo": random.integers(1, 300, n)}
        options["solo"] = (options["solo"] / 3).tolist()
        options["start"] = [[i, i + 1] for i in range(0, n - 1, 2) if gpus[i] == gpus[i + 1]]
        options["start"] += [[n - 1]] if n % 2 else []
    capacity = int(sum(gpus) * random.uniform(0.2, 0.8)) if seed % 4 != 3 else 1
    matcher = with_proved_matchings(54 if options["weight"] == "gain" else 56)
    expected = twin.group_jobs(rows, gpus, capacity, matcher=matcher, **options)
    assert grouped(rows, gpus, capacity, **options).groups == expected


@given(candidates())
def test_every_job_is_in_one_group_of_its_kind(given_jobs):
    rows, gpus, capacity, options = given_jobs
    grouping = grouped(rows, gpus, capacity, **options)
    assert sorted(job for group in grouping.groups for job in group) == list(range(len(rows)))
    for group in grouping.groups:
        assert len({gpus[job] for job in group}) == 1
    assert grouping.gpus == sum(gpus[group[0]] for group in grouping.groups)
    for group, time in zip(grouping.groups, grouping.iteration_times, strict=True):
        members = sorted(rows[job] for job in group)
        alone = options["solo"][group[0]] if "solo" in options else sum(members[0])
        order = options["model"], options["order"]
        together = rounds(members, [range(len(members))], *order)[0][0]
        factor = options.get("interference", [1.0] * 8)[len(group) - 1]
        expected = alone if len(group) == 1 else together * factor
        assert time == pytest.approx(expected, rel=1e-9)


@given(candidates())
def test_a_function_that_returns_efficiencies_makes_groups_as_good(given_jobs):
    rows, gpus, _, options = given_jobs
    options = {"model": options["model"], "max_group": 2}

    def weight(lists):
        return rounds(rows, lists, options["model"])[1]

    own = grouped(rows, gpus, weight=weight, **options)
    native = grouped(rows, gpus, **options)
    assert own.gpus == native.gpus
    pairs = [
        sum(
            share
            for group, share in zip(result.groups, result.efficiencies, strict=True)
            if len(group) == 2
        )
        for result in (own, native)
    ]
    assert pairs[0] == pytest.approx(pairs[1])


@given(candidates())
def test_a_function_s_groups_are_those_of_the_twin(given_jobs):
    rows, gpus, capacity, options = given_jobs
    for name in ("method", "least_waste_first"):
        del options[name]
    # Of few values, so that many matchings and merges are equally good.
    options["weight"] = lambda lists: [
        sum(map(sum, (rows[job] for job in group))) // 1 for group in lists
    ]

    def matcher(weights):
        return max_weight_matching(np.array(weights)).mate.tolist()

    expected = twin.group_jobs(rows, gpus, capacity, matcher=matcher, **options)
    assert grouped(rows, gpus, capacity, **options).groups == expected
