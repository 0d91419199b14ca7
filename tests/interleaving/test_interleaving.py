"""Single facts of the interleaving API, and what it says to wrong arguments."""

import threading

import numpy as np
import pytest
from interleaving.jobs_that_share import grouped, rounds

from hivecore.interleaving import (
    GroupingCache,
    Interleaving,
    efficiencies,
    group_jobs,
    interleave,
)

DATA, GPU, NET = (9.0, 1.0, 1.0), (1.0, 9.0, 1.0), (1.0, 1.0, 9.0)
NAN, INF = float("nan"), float("inf")


# --- one group ---------------------------------------------------------------------------------


def test_two_jobs_on_two_resources_follow_equations_1_and_2():
    (a1, a2), (b1, b2) = (3.0, 5.0), (4.0, 1.0)
    result = interleave([(a1, a2), (b1, b2)])
    assert result.iteration_time == max(a1, b2) + max(a2, b1) == 8.0
    assert result.efficiency == (a1 + a2 + b1 + b2) / (2 * 8.0)


def test_the_order_of_three_jobs_matters():
    jobs = [(3, 1, 1), (1, 1, 3), (1, 3, 1)]
    best, worst = interleave(jobs), interleave(jobs, order="worst")
    # Stage s of a job is in slot s + offset: with (0, 1, 2) all three long stages are in slot 0.
    assert best == Interleaving((0, 1, 2), 5.0, 1.0)
    assert worst == Interleaving((0, 2, 1), 9.0, 15 / 27)


def test_a_job_alone_takes_the_sum_of_its_stages():
    assert interleave([(1, 2, 3, 4)]) == Interleaving((0,), 10.0, 0.25)
    assert interleave([(1, 2, 3)], model="data2") == Interleaving((0,), 6.0, 0.25)
    assert rounds([(1, 2, 3)], [[0]], "artifact")[0] == 6.0


def test_stages_of_no_length_take_no_time_but_a_resource_counts():
    assert interleave([(2, 0, 0, 0), (0, 2, 0, 0)]) == Interleaving((0, 3), 2.0, 0.5)
    assert interleave([(2, 0, 0, 0), (2, 0, 0, 0)]) == Interleaving((0, 1), 4.0, 0.25)


def test_equal_times_go_to_the_smallest_offsets():
    assert interleave([(1, 1, 1, 1)] * 4).offsets == (0, 1, 2, 3)
    # The orders add these up in another sequence, which must not decide.
    rows = [(0.1, 0.2, 0.3, 0.7), (0.0, 0.0, 0.0, 1e-3)]
    assert interleave(rows).offsets == (0, 1)


def test_data_spans_two_slots():
    # Alone on storage and CPU for 4; the other's GPU and network fit into that time.
    assert interleave([(4, 0, 0), (0, 2, 2)], model="data2").iteration_time == 4.0
    # Data stages may overlap, one on storage and one on the CPU, GPU stages may not.
    assert interleave([(4, 0, 0), (4, 0, 0)], model="data2").iteration_time == 4.0
    assert interleave([(0, 4, 0), (0, 4, 0)], model="data2").iteration_time == 8.0


def test_the_artifact_can_come_out_too_short():
    rows = [(0, 1, 1), (0, 1, 1)]
    assert rounds(rows, [[0, 1]], "artifact")[0] == 2.0
    assert interleave(rows, model="data2").iteration_time == 3.0


def test_pairs_and_groups_agree_with_single_calls():
    rows = np.random.default_rng(0).random((40, 4))
    pairs = efficiencies(rows)
    assert pairs.shape == (40, 40)
    assert pairs.dtype == np.float64
    assert pairs[3, 17] == pairs[17, 3] == interleave(rows[[3, 17]]).efficiency
    assert pairs[5, 5] == interleave(rows[[5]]).efficiency
    assert efficiencies(rows, [[3, 17], (5,)]).tolist() == [pairs[3, 17], pairs[5, 5]]
    assert efficiencies(rows, np.array([[3, 17]])).tolist() == [pairs[3, 17]]
    matrix = np.array([[3, 17], [5, 4]]).view(np.matrix)
    assert efficiencies(rows, matrix).tolist() == [pairs[3, 17], pairs[5, 4]]
    assert efficiencies(rows, []).shape == (0,)
    assert efficiencies(np.empty((0, 4))).shape == (0, 0)


def test_arrays_of_any_layout_and_number_are_read():
    rows = np.arange(1, 25).reshape(6, 4)
    plain = efficiencies(rows.astype(float))
    for form in (rows, rows.tolist(), rows.astype(np.float32), np.asfortranarray(rows)):
        assert (efficiencies(form) == plain).all()
    assert (efficiencies(rows[::-1])[::-1, ::-1] == plain).all()


WRONG_DURATIONS = [
    ([[1.0, -1.0]], ValueError, r"durations\[0, 1\]=-1.0: allowed are 0 to"),
    ([[1.0, NAN]], ValueError, r"durations\[0, 1\]=nan"),
    ([[1.0, 2.0], [INF, 1.0]], ValueError, r"durations\[1, 0\]=inf"),
    ([[1.0, 1e301]], ValueError, r"durations\[0, 1\]=1e\+301"),
    ([[1.0, 2.0], [0.0, 0.0]], ValueError, r"durations\[1\] is all zero"),
    ([[1.0, 2.0], [1.0]], ValueError, "durations must have rows of equal length"),
    ([1.0, 2.0], ValueError, "durations must have a row per job"),
    ([[1.0]], ValueError, "durations has 1 columns: allowed are 2 to 8"),
    ([[1.0] * 9], ValueError, "durations has 9 columns: allowed are 2 to 8"),
    ([["a", "b"]], TypeError, "durations must hold integers or floats"),
    ([[1j, 2]], TypeError, "durations must hold integers or floats"),
    ([[True, False]], TypeError, "durations must hold integers or floats"),
    (None, TypeError, "durations must hold"),
]


@pytest.mark.parametrize(("durations", "error", "message"), WRONG_DURATIONS)
def test_wrong_durations_are_named(durations, error, message):
    for call in (interleave, efficiencies, lambda rows: group_jobs(rows, [1])):
        with pytest.raises(error, match=message):
            call(durations)


def test_wrong_groups_orders_and_models_are_named():
    rows = [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)]
    with pytest.raises(ValueError, match="durations has 3 rows: allowed are 1 to 2 jobs"):
        interleave(rows)
    with pytest.raises(ValueError, match="durations has 0 rows"):
        interleave(np.empty((0, 2)))
    with pytest.raises(ValueError, match="model 'data2' needs data, GPU, network"):
        interleave(rows[:1], model="data2")
    with pytest.raises(ValueError, match="model must be one of barrier, data2, not 'x'"):
        interleave(rows[:1], model="x")
    for call in (interleave, efficiencies, lambda *rows, **how: group_jobs(*rows, [1], **how)):
        with pytest.raises(ValueError, match="model must be one of barrier, data2, not 'artifact'"):
            call([DATA], model="artifact")
    with pytest.raises(TypeError, match="order must be a string, not NoneType"):
        efficiencies(rows, order=None)
    for groups, error, message in [
        ([[0, 1, 2]], ValueError, r"groups\[0\] has 3 jobs: allowed are 1 to 2"),
        ([[0], []], ValueError, r"groups\[1\] has 0 jobs"),
        ([[1], [0, 3]], ValueError, r"groups\[1\] has job 3: allowed are 0 to 2"),
        ([[0, -1]], ValueError, r"groups\[0\] has job -1"),
        (np.array([[0, 7]]), ValueError, r"groups\[0\] has job 7"),
        (np.array([[0.0, 1.0]]), TypeError, "groups must hold integers, not float64"),
        ([[2**70]], TypeError, "groups must hold integers"),
        ([[1, 1]], ValueError, r"groups\[0\] names a job twice"),
        ([[0.5]], TypeError, "groups must hold integers"),
        ([7], TypeError, r"groups\[0\] must be a sequence"),
        (7, TypeError, "groups must be a sequence"),
    ]:
        with pytest.raises(error, match=message):
            efficiencies(rows, groups)


# --- groups ------------------------------------------------------------------------------------


def test_jobs_that_need_different_resources_share_gpus():
    rows = [DATA, DATA, GPU, GPU]
    assert group_jobs(rows, [1] * 4, max_group=2).groups == [[0, 2], [1, 3]]
    assert group_jobs([DATA, GPU, NET], [8] * 3).groups == [[0, 1, 2]]


def test_groups_are_made_only_while_gpus_are_lacking():
    rows, gpus = [DATA, GPU] * 3, [4] * 6
    rooms = (24, 23, 16, 13, 12)
    groups = [len(group_jobs(rows, gpus, room, method="muri").groups) for room in rooms]
    assert groups == [6, 5, 4, 3, 3]
    # Pairs do not pair to groups of three.
    assert group_jobs(rows, gpus, 1, method="muri").gpus == 12


@pytest.mark.parametrize("method", ["auto", "muri", "local", "exact"])
def test_groups_that_need_more_than_the_capacity_say_by_how_much_and_why(method):
    busy = [[2, 1], [1, 2], [2, 1], [1, 2], [2, 1]]
    grouping = group_jobs(busy, [8, 8, 8, 8, 4], 8, method=method)
    assert (grouping.gpus, grouping.excess) == (20, 12)
    assert grouping.reason == (
        "1 of 3 groups: no other has their number of GPUs; 2 of 3 groups: max_group=2 is reached"
    )
    for capacity in (20, 21, None):
        fits = group_jobs(busy, [8, 8, 8, 8, 4], capacity, method=method)
        assert (fits.excess, fits.reason) == (0, "")


def test_limits_are_why_groups_need_more_than_the_capacity():
    memory = {"memory": [3, 3], "gpu_memory": 4}
    grouping = group_jobs([[2, 1], [1, 2]], [8, 8], 8, **memory)
    assert grouping.excess == 8
    assert grouping.reason == (
        "2 of 2 groups: no merge was found that is worth it and within the limits"
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_excess_is_what_the_groups_need_beyond_the_capacity(seed):
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 3, 8], 30)
    capacity = int(rng.integers(1, 140))
    grouping = group_jobs(rng.random((30, 3)) + 0.1, gpus, capacity)
    assert grouping.gpus == sum(gpus[group[0]] for group in grouping.groups)
    assert grouping.excess == max(0, grouping.gpus - capacity)
    assert bool(grouping.reason) == bool(grouping.excess)


def test_what_wastes_least_merges_first_or_what_comes_first():
    rows = [(5.0, 1.0), (5.0, 2.0), (9.0, 1.0), (1.0, 9.0)]
    gpus = [1, 1, 2, 2]
    assert group_jobs(rows, gpus, 5, method="muri").groups == [[0], [1], [2, 3]]
    grouping = grouped(rows, gpus, 5, method="muri", least_waste_first=False)
    assert grouping.groups == [[0, 1], [2], [3]]


def test_the_memory_of_many_jobs_adds_up_beyond_any_limit():
    whole = 2**59
    result = group_jobs(
        np.eye(8) + 0.1,
        [1] * 8,
        method="muri",
        start=[range(7)],
        memory=[whole] * 8,
        gpu_memory=whole,
    )
    assert result.groups == [[*range(7)], [7]]


def test_a_function_decides_what_merges_are_worth():
    seen = []

    def only_0_and_2(groups):
        seen.append([sorted(group) for group in groups])
        return [1.0 if sorted(group) == [0, 2] else -1.0 for group in groups]

    result = group_jobs([DATA, GPU, NET], [1] * 3, max_group=2, weight=only_0_and_2)
    assert result.groups == [[1], [0, 2]]
    assert seen[0] == [[0, 1], [0, 2], [1, 2]]


def test_a_function_s_mistakes_are_named_and_its_errors_pass():
    def call(weight):
        return group_jobs([DATA, GPU], [1, 1], weight=weight)

    with pytest.raises(ValueError, match=r"weight\(groups\) has shape \(2,\): there are 1 groups"):
        call(lambda groups: [1.0, 2.0])
    with pytest.raises(ValueError, match=r"weight\(groups\) must be finite"):
        call(lambda groups: [NAN])
    with pytest.raises(TypeError, match=r"weight\(groups\) must hold"):
        call(lambda groups: ["a"])
    with pytest.raises(KeyError):
        call(lambda groups: {}[0])


def test_no_jobs_make_no_groups():
    for weight in ("efficiency", lambda groups: [1.0] * len(groups)):
        result = group_jobs(np.empty((0, 3)), [], weight=weight)
        assert (result.groups, result.gpus, result.efficiencies.tolist()) == ([], 0, [])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"gpus": [1]}, ValueError, r"gpus has shape \(1,\): there are 2 jobs"),
        ({"gpus": [1, 0]}, ValueError, r"gpus\[1\]=0: allowed are 1 to"),
        ({"gpus": [1, 1.5]}, TypeError, "gpus must hold integers"),
        ({"gpus": [1, 2**40]}, ValueError, r"gpus\[1\]=1099511627776"),
        ({"capacity": 0}, ValueError, "capacity=0: allowed are 1"),
        ({"capacity": 1.5}, TypeError, "capacity must be an integer"),
        ({"max_group": 0}, ValueError, "max_group=0: allowed are 1 to 3"),
        ({"max_group": 4}, ValueError, "max_group=4: allowed are 1 to 3"),
        ({"method": "best"}, ValueError, "method must be one of"),
        ({"start": [[0], [0]]}, ValueError, "start has job 0 in two groups"),
        ({"start": [[0, 2]]}, ValueError, r"start\[0\] has job 2"),
        ({"start": [[0, 1]], "gpus": [1, 2]}, ValueError, r"start\[0\] has jobs that need"),
        ({"start": [[0]], "method": "exact"}, ValueError, "start is not for method 'exact'"),
        ({"start": [[0, 1]], "max_group": 1}, ValueError, r"start\[0\] has 2 jobs"),
        ({"optional": [True, False]}, ValueError, "optional is for method 'exact' only"),
        ({"cache": GroupingCache(), "method": "muri"}, ValueError, "cache is for methods 'auto'"),
        ({"optional": [1, 0], "method": "exact"}, TypeError, "optional must hold truth values"),
        ({"optional": [True], "method": "exact"}, ValueError, "optional has shape"),
        ({"cache": {}, "method": "exact"}, TypeError, "cache must be a GroupingCache"),
        ({"node_limit": 0, "method": "exact"}, ValueError, "node_limit=0"),
        ({"weight": len, "method": "exact"}, ValueError, "weight must be one of"),
        ({"weight": len, "method": "local"}, ValueError, "weight must be one of"),
        ({"weight": "speed"}, ValueError, "weight must be one of efficiency, gain"),
        ({"model": []}, TypeError, "model must be a string"),
        ({"interference": [1.0]}, ValueError, "interference must have a factor for each of 1 to 3"),
        ({"interference": [1, 0.5, 1]}, ValueError, "interference must be 1 for one job"),
        ({"interference": [1, NAN, 1]}, ValueError, "interference must be 1 for one job"),
        ({"interference": [1, 1e7, 1]}, ValueError, "interference must be 1 for one job"),
        ({"interference": [2, 2, 2]}, ValueError, "interference must be 1 for one job"),
        ({"priorities": [0, NAN]}, ValueError, r"priorities\[1\] is not a number"),
        ({"priorities": ["a", "b"]}, TypeError, "priorities must hold"),
        ({"max_slowdown": 0.5}, ValueError, "max_slowdown=0.5: must be at least 1"),
        ({"max_slowdown": NAN}, ValueError, "max_slowdown=nan"),
        ({"max_slowdown": 10**400}, ValueError, "max_slowdown is too large for a float"),
        ({"max_slowdown": "a"}, TypeError, "max_slowdown must be a float"),
        ({"memory": [1, 1]}, ValueError, "memory and gpu_memory go together"),
        ({"gpu_memory": 1}, ValueError, "memory and gpu_memory go together"),
        ({"memory": [1, 9], "gpu_memory": 8}, ValueError, r"memory\[1\]=9: allowed are 0 to 8"),
        ({"memory": [1, -1], "gpu_memory": 8}, ValueError, r"memory\[1\]=-1"),
        ({"memory": [1, 1], "gpu_memory": 2**60}, ValueError, "gpu_memory=1152921504606846976"),
        ({"memory": [1, 1], "gpu_memory": -1}, ValueError, "gpu_memory=-1"),
    ],
)
def test_wrong_options_are_named(options, error, message):
    arguments = {"durations": [DATA, GPU], "gpus": [1, 1]} | options
    with pytest.raises(error, match=message):
        group_jobs(**arguments)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"solo": [1.0, 0.0]}, r"solo\[1\]=0.0: must be positive"),
        ({"solo": [1.0]}, "solo has shape"),
        ({"order": "x"}, "order must be one of"),
    ],
)
def test_wrong_terms_of_the_simulator_are_named(terms, message):
    with pytest.raises(ValueError, match=message):
        grouped([DATA, GPU], [1, 1], **terms)


def test_of_equal_jobs_the_most_urgent_get_the_shortest_rounds():
    slow, fast, job = (1.0, 9.0), (1.0, 2.0), (2.0, 1.0)
    result = group_jobs([slow, fast, job, job], [1] * 4, 2, method="exact", priorities=[0, 1, 3, 2])
    assert result.groups == [[0, 2], [1, 3]]


def test_the_shortest_rounds_are_not_those_of_the_least_rows():
    slow, fast, job = (1.0, 9.0), (2.0, 3.0), (3.0, 1.0)
    result = group_jobs([slow, fast, job, job], [1] * 4, 2, method="exact")
    assert result.groups == [[0, 3], [1, 2]]


def test_of_equally_good_groups_the_later_bucket_has_fewer():
    # However many share, all of them keep one of two resources busy.
    result = group_jobs([(1.0, 0.0)] * 6, [1] * 4 + [2] * 2, 6, method="exact")
    assert result.groups == [[0], [1], [2], [3], [4, 5]]
    assert result.value == 3.0


def test_a_low_limit_gives_groups_with_a_bound():
    rng = np.random.default_rng(5)
    rows = rng.random((12, 4))[np.arange(60) % 12]
    options = {"method": "exact", "weight": "gain"}
    quick = group_jobs(rows, [1] * 60, 20, node_limit=1, **options)
    best = group_jobs(rows, [1] * 60, 20, **options)
    assert quick.value <= best.value * (1 + 1e-12)
    assert quick.bound >= best.value * (1 - 1e-12)
    assert best.gap == 0.0


def test_a_search_that_gives_up_has_dived_for_good_groups():
    rng = np.random.default_rng(3)
    rows = (rng.random((20, 3)) + 0.01)[rng.integers(0, 20, 118)]
    result = group_jobs(rows, [1] * 118, 30, method="exact", model="data2", node_limit=20)
    assert 1e-9 < result.gap < 1e-3
    best = group_jobs(rows, [1] * 118, 30, method="exact", model="data2")
    assert result.value <= best.value <= result.bound
    assert best.gap == 0.0


def test_more_gpus_than_jobs_could_take_are_no_trouble():
    rows = np.array([DATA, GPU])[np.arange(30) % 2]
    for gpus in (1, 2**31):
        for capacity in (30 * gpus, 30 * gpus + 1, 2**62):
            result = group_jobs(rows, [gpus] * 30, capacity, method="exact", weight="gain")
            few = group_jobs(rows, [gpus] * 30, 30 * gpus, method="exact", weight="gain")
            assert result.groups == few.groups
            assert result.value == few.value
    assert group_jobs(rows, [2**31] * 30, 2**31 * 20 + 1, method="exact").gpus <= 2**31 * 20


def test_with_room_for_all_every_job_may_be_alone():
    rows = np.array([(3.0, 1.0), (2.0, 1.0)])[np.arange(200) % 2]
    solo = rows.max(axis=1)
    grouping = grouped(rows, [1] * 200, 10**6, method="exact", solo=solo)
    assert grouping.groups == [[job] for job in range(200)]


def test_too_many_kinds_of_groups_are_refused():
    rows = np.random.default_rng(0).random((60, 4))
    with pytest.raises(ValueError, match="durations has too many different rows"):
        group_jobs(rows, [1] * 60, 20, method="exact")
    with pytest.raises(ValueError, match="solo and durations are too far apart"):
        grouped([DATA, GPU], [1, 1], method="exact", weight="gain", solo=[1e300, 1e300])


def test_many_gpus_are_no_trouble_unless_their_numbers_have_little_in_common():
    rows, big = [DATA, GPU], 2**31
    assert group_jobs(rows, [big] * 2, big, method="exact").groups == [[0, 1]]
    with pytest.raises(ValueError, match="capacity is too large for these gpus"):
        group_jobs(rows, [big, 3], big + 4, method="exact")


def test_extreme_numbers_do_no_harm():
    rows = [(1e300, 1e-300), (5e-324, 1e300), (1e300, 1e300), (5e-324, 0.0)]
    for weight in ("efficiency", "gain"):
        grouping = grouped(rows, [2**31] * 4, weight=weight, solo=[1e300, 5e-324, 1.0, 1.0])
        assert sorted(job for group in grouping.groups for job in group) == [0, 1, 2, 3]


def test_threads_may_call_at_once():
    rows = np.random.default_rng(0).random((60, 4))
    expected = group_jobs(rows, [1] * 60).groups
    results = []

    def work():
        results.append(group_jobs(rows, [1] * 60).groups)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
