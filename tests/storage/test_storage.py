"""Cache and remote IO as resources: what the calls accept, answer, refuse and prove."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hivecore._storage import solve_storage
from hivecore.errors import CertificateError
from hivecore.storage import (
    FillingStage,
    StorageJobs,
    allocate_storage,
    cache_efficiency,
    cache_for_rate,
    greedy_cache,
    ration_remote_io,
    reclaim_order,
    remote_io_demand,
    throughput,
)

NAN, INF = math.nan, math.inf
JOBS = StorageJobs(
    dataset=[0, 1, 1, 2],
    rate_mbps=[100.0, 50.0, 30.0, 20.0],
    weight=[1.0, 2.0, 1.0, 1.0],
    remaining_gb=[50.0, 500.0, 5.0, 40.0],
    gpus=[1, 2, 1, 4],
)
SIZES = [100.0, 60.0, 400.0]


def allocate(objective="greedy", io_mode=None, jobs=JOBS, cache=100.0, bandwidth=20.0, **options):
    return allocate_storage(jobs, SIZES, cache, bandwidth, objective, io_mode, **options)


# --- performance model -------------------------------------------------------------------------


def test_numbers_give_a_float_and_arrays_broadcast():
    assert type(throughput(10, 5, 0, 100)) is float
    assert type(throughput(np.float64(10), 5, 0, 100)) is float
    rates = throughput(np.array([[10.0], [200.0]]), 5, [0, 50, 100], 100)
    assert rates.tolist() == [[5, 10, 10], [5, 10, 200]]
    assert throughput([], 1.0, 1.0, 1.0).shape == (0,)
    assert remote_io_demand([10, 20], 50, 100).tolist() == [5, 10]
    assert cache_for_rate([10, 20], 10, 100).tolist() == [0, 50]


def test_a_job_that_needs_nothing_gets_nothing():
    assert throughput(0.0, 0.0, 0.0, 1.0) == 0.0
    assert cache_for_rate(0.0, 0.0, 1.0) == 0.0
    assert cache_for_rate([0.0], 0.0, 1.0).tolist() == [0.0]


def test_a_share_of_misses_below_1e_12_is_none():
    almost = 1.0 - 1e-13
    assert throughput(7.0, 0.0, almost, 1.0) == 7.0
    assert throughput([7.0], 0.0, almost, 1.0).tolist() == [7.0]
    assert remote_io_demand(7.0, almost, 1.0) == 0.0
    assert throughput(7.0, 0.0, 1.0 - 1e-11, 1.0) == 0.0


@pytest.mark.parametrize("bad", [-1.0, NAN, INF, [-1.0], [1.0, NAN], np.array([INF]), -1])
@pytest.mark.parametrize("name", ["rate_mbps", "remote_io_mbps", "cache_gb", "dataset_gb"])
def test_the_performance_model_refuses_bad_numbers_by_name(name, bad):
    good = {"rate_mbps": 1.0, "remote_io_mbps": 1.0, "cache_gb": 1.0, "dataset_gb": 1.0}
    with pytest.raises(ValueError, match=rf"^{name}"):
        throughput(**{**good, name: bad})
    if name != "remote_io_mbps":
        with pytest.raises(ValueError, match=rf"^{name}"):
            remote_io_demand(
                **{key: {**good, name: bad}[key] for key in ("rate_mbps", "cache_gb", "dataset_gb")}
            )
    if name != "cache_gb":
        with pytest.raises(ValueError, match=rf"^{name}"):
            cache_for_rate(
                **{
                    key: {**good, name: bad}[key]
                    for key in ("rate_mbps", "remote_io_mbps", "dataset_gb")
                }
            )


def test_the_performance_model_refuses_what_is_no_number():
    for bad in ("1", None, [True], [object()], 1j):
        with pytest.raises(TypeError, match=r"^rate_mbps must hold numbers"):
            throughput(bad, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"^dataset_gb=0\.0: must be positive"):
        throughput(1.0, 1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"dataset_gb\[1\]=0"):
        throughput(1.0, 1.0, 1.0, [1.0, 0.0])
    with pytest.raises(ValueError, match="do not broadcast"):
        throughput([1.0, 2.0], [1.0, 2.0, 3.0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"^rate_mbps must be a number or an array"):
        throughput([[1.0], [1.0, 2.0]], 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"^rate_mbps=inf"):
        throughput(INF, 1, 1, 1)
    with pytest.raises(TypeError, match=r"^rate_mbps must hold numbers, not object"):
        throughput(10**400, 1, 1, 1)


# --- jobs and datasets -------------------------------------------------------------------------


def test_names_and_ids_give_the_same_shares():
    names = ("x", "y", "z")
    named = allocate_storage(
        JOBS.replace(dataset=[names[d] for d in JOBS.dataset], names=list("abcd")),
        dict(zip(names, SIZES, strict=True)),
        100.0,
        20.0,
    )
    plain = allocate()
    assert named.by_dataset() == dict(zip(names, plain.cache_gb.tolist(), strict=True))
    assert list(named.by_job()) == list("abcd")
    assert list(plain.by_job()) == [0, 1, 2, 3]
    assert plain.by_job()[0] == (plain.remote_io_mbps[0], plain.rates_mbps[0])
    assert list(plain.by_dataset()) == [0, 1, 2]


def test_columns_are_copies_and_cannot_be_changed():
    rate = np.array([1.0, 2.0])
    jobs = StorageJobs([0, 1], rate)
    rate[0] = 9.0
    assert jobs.rate_mbps.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        jobs.rate_mbps[0] = 3.0
    with pytest.raises(AttributeError):
        jobs.rate_mbps = rate
    with pytest.raises(ValueError, match="read-only"):
        allocate().cache_gb[0] = 3.0


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.repeat(a, 2)[::2],
        lambda a: a[::-1].copy()[::-1],
        lambda a: a.astype(np.float32),
        lambda a: a.astype(np.int16),
        lambda a: a.astype(">f8"),
        lambda a: a.tolist(),
        lambda a: tuple(a.tolist()),
    ],
)
def test_arrays_of_any_layout_give_the_same_shares(view):
    jobs = StorageJobs(JOBS.dataset[::-1].copy()[::-1], view(JOBS.rate_mbps))
    allocation = allocate_storage(jobs, view(np.array(SIZES)), 100.0, 20.0)
    plain = allocate_storage(StorageJobs(JOBS.dataset, JOBS.rate_mbps), SIZES, 100.0, 20.0)
    assert allocation.rates_mbps.tolist() == plain.rates_mbps.tolist()


def test_nothing_to_share_out():
    empty = StorageJobs([], [], remaining_gb=[])
    for objective in ("greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"):
        for sizes in ([], [5.0]):
            allocation = allocate_storage(empty, sizes, 10.0, 10.0, objective)
            assert allocation.throughput_mbps == 0.0 and allocation.verify()
            assert allocation.cache_gb.tolist() == [0.0] * len(sizes)
    none = JOBS.replace(running=[False] * 4)
    for objective in ("greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"):
        allocation = allocate(objective, jobs=none)
        assert (
            not allocation.rates_mbps.any()
            and not allocation.cache_gb.any()
            and allocation.verify()
        )
    assert reclaim_order(empty, []).tolist() == []


def test_without_cache_or_bandwidth():
    for objective in ("greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"):
        assert allocate(objective, cache=0.0, bandwidth=0.0).throughput_mbps == 0.0
        dry = allocate(objective, bandwidth=0.0)
        assert not dry.remote_io_mbps.any() and dry.verify()
        assert allocate(objective, cache=0.0).verify()
    # Whatever is cached as a whole runs at its full rate without any remote IO.
    assert allocate("max_min", bandwidth=0.0).throughput_mbps == 80.0


def test_queued_jobs_get_nothing_and_count_nothing():
    queued = JOBS.replace(running=[True, False, False, True])
    assert cache_efficiency(queued, SIZES).tolist() == [1.0, 0.0, 0.05]
    decision = allocate(jobs=queued)
    assert decision.cache_gb.tolist() == [100.0, 0.0, 0.0]
    assert decision.rates_mbps[1] == decision.rates_mbps[2] == decision.demand_mbps[1] == 0.0
    assert decision.certificate.order.tolist() == [0, 3]


BAD_COLUMNS = [
    ({"rate_mbps": [1, 2, 3]}, ValueError, r"dataset must be 3 long"),
    ({"rate_mbps": [[1, 2, 3, 4]]}, ValueError, r"rate_mbps must have one dimension"),
    ({"rate_mbps": [1, 2, 3, NAN]}, ValueError, r"rate_mbps\[3\]=nan"),
    ({"rate_mbps": [1, -2, 3, 4]}, ValueError, r"rate_mbps\[1\]=-2"),
    (
        {"rate_mbps": [1, 2, 3, 1e16]},
        ValueError,
        r"rate_mbps\[3\]=1e\+16: must be from 0 to 1e\+15",
    ),
    ({"rate_mbps": [True] * 4}, TypeError, r"rate_mbps must hold numbers, not bool"),
    ({"rate_mbps": ["a"] * 4}, TypeError, r"rate_mbps must hold numbers"),
    (
        {"rate_mbps": np.array([1, 2, 3, None])},
        TypeError,
        r"rate_mbps must hold numbers, not object",
    ),
    ({"weight": [0, 1, 1, 1]}, ValueError, r"weight\[0\]=0.0: must be from 1e-06 to 1e\+06"),
    ({"weight": [1, 1]}, ValueError, r"weight must have shape \(4,\), not \(2,\)"),
    ({"remaining_gb": [1, 1, 1, INF]}, ValueError, r"remaining_gb\[3\]=inf"),
    ({"gpus": -1}, ValueError, r"gpus=-1"),
    ({"gpus": 1}, ValueError, r"gpus must have shape \(4,\), not \(\)"),
    ({"running": [1, 1, 1, 1]}, TypeError, r"running must hold booleans, not int64"),
    ({"running": [True]}, ValueError, r"running must have shape \(4,\)"),
    ({"running": [[True], [True, False]]}, ValueError, r"running must be an array of booleans"),
    ({"effective_gb": [NAN] * 4}, ValueError, r"effective_gb\[0\]=nan"),
    ({"elapsed": [-1] * 4}, ValueError, r"elapsed\[0\]=-1"),
    ({"names": ["a"]}, ValueError, r"names must be 4, one per job, not 1"),
    ({"names": "abcd"}, TypeError, r"names must be a sequence, not str"),
    ({"names": ["a", "b", "c", "b"]}, ValueError, r"names\[3\]='b': names must differ"),
    ({"names": ["a", "b", [], "d"]}, TypeError, r"names\[2\]=\[\]: must be hashable"),
    ({"dataset": 0}, TypeError, r"dataset must be a sequence, not int"),
    ({"dataset": "abcd"}, TypeError, r"dataset must be a sequence, not str"),
    ({"dataset": [0, 1, 2]}, ValueError, r"dataset must be 4 long like rate_mbps, not 3"),
    ({"dataset": [[0, 1, 2, 2]] * 4}, TypeError, r"dataset\[0\]=.*not list"),
    ({"dataset": np.zeros((4, 1), int)}, ValueError, r"dataset must have one dimension"),
    ({"dataset": [0, 1, 2, 0.5]}, TypeError, r"dataset\[3\]=0.5: must be an id or a name"),
    ({"dataset": np.array([0.0, 1, 2, 2])}, TypeError, r"dataset\[0\]=0.0: must be an id"),
    ({"dataset": [True, 1, 2, 2]}, TypeError, r"dataset\[0\]=True: must be an id or a name"),
    ({"dataset": [0, 1, 2, 10**30]}, ValueError, r"too large for an id"),
    ({"dataset": np.array([2**64 - 1] * 4, np.uint64)}, ValueError, r"too large for an id"),
    ({"colour": [1]}, TypeError, r"StorageJobs.* has no field 'colour'"),
]


@pytest.mark.parametrize(("columns", "error", "says"), BAD_COLUMNS)
def test_bad_columns_are_refused_by_name(columns, error, says):
    with pytest.raises(error, match=says):
        JOBS.replace(**columns)


@pytest.mark.parametrize(
    ("dataset", "sizes", "error", "says"),
    [
        ([0, 1, 1, 3], SIZES, ValueError, r"jobs.dataset\[3\]=3: must be from 0 to 2"),
        ([0, -1, 1, 2], SIZES, ValueError, r"jobs.dataset\[1\]=-1"),
        ([0, 1, 1, 2], [], ValueError, r"jobs.dataset\[0\]=0"),
        (list("aabc"), SIZES, TypeError, r"jobs.dataset holds names, but datasets_gb has none"),
        (
            list("aabc"),
            {"a": 1.0, "b": 2.0},
            KeyError,
            r"jobs.dataset\[3\]='c': not in datasets_gb",
        ),
        ([0, 1, 1, 2], {"a": 1.0}, KeyError, r"jobs.dataset\[0\]=0: not in datasets_gb"),
        ([0, 0, 0, 0], [0.0], ValueError, r"datasets_gb\[0\]=0.0: must be from 1e-09"),
        ([0, 0, 0, 0], [NAN], ValueError, r"datasets_gb\[0\]=nan"),
        ([0, 0, 0, 0], [1e16], ValueError, r"datasets_gb\[0\]=1e\+16"),
        ([0, 0, 0, 0], [[1.0]], ValueError, r"datasets_gb must have one dimension"),
        ([0, 0, 0, 0], "x", TypeError, r"datasets_gb must hold numbers"),
        ([0, 0, 0, 0], {0: "x"}, TypeError, r"datasets_gb must hold numbers"),
        ([0, 0, 0, 0], 5.0, ValueError, r"datasets_gb must have one dimension, not 0"),
    ],
)
def test_bad_datasets_are_refused(dataset, sizes, error, says):
    jobs = JOBS.replace(dataset=dataset)
    for call in (
        lambda: allocate_storage(jobs, sizes, 1.0, 1.0),
        lambda: cache_efficiency(jobs, sizes),
        lambda: reclaim_order(jobs, sizes),
    ):
        with pytest.raises(error, match=says):
            call()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"cache": -1.0}, ValueError, r"cache_gb=-1.0: must be from 0 to 1e\+15"),
        ({"cache": NAN}, ValueError, r"cache_gb=nan"),
        ({"cache": "1"}, TypeError, r"cache_gb must be a float, not str"),
        ({"cache": True}, TypeError, r"cache_gb must be a float, not bool"),
        ({"cache": 10**400}, ValueError, r"cache_gb is too large"),
        ({"bandwidth": INF}, ValueError, r"bandwidth_mbps=inf"),
        ({"bandwidth": None}, TypeError, r"bandwidth_mbps must be a float"),
        ({"objective": "best"}, ValueError, "objective must be one of greedy, throughput"),
        ({"objective": 1}, TypeError, r"objective must be a string"),
        ({"objective": "given"}, ValueError, "objective must be one of .*, not 'given'"),
        ({"io_mode": "fast"}, ValueError, "io_mode must be one of priority"),
        ({"objective": "max_min", "io_mode": "priority"}, ValueError, r"has maxmin_rate only"),
        ({"objective": "throughput", "io_mode": "priority"}, ValueError, r"has throughput only"),
        ({"exact": 1}, TypeError, r"exact must be a bool"),
        ({"exact": True}, ValueError, r"exact is for objective 'throughput', not 'greedy'"),
        ({"gpu_capacity": 1}, ValueError, r"gpu_capacity is not for objective 'greedy'"),
        ({"objective": "fifo", "gpu_capacity": -1}, ValueError, r"gpu_capacity=-1"),
        ({"objective": "fifo", "gpu_capacity": "1"}, TypeError, r"gpu_capacity must be a float"),
        ({"eps": -0.1}, ValueError, r"eps=-0.1"),
        ({"current_gb": [1.0]}, ValueError, r"current_gb must have shape \(3,\)"),
        (
            {"current_gb": [0, 0, 401]},
            ValueError,
            r"current_gb\[2\]=401.0: the dataset has 400.0 GB",
        ),
        ({"current_gb": [0, 0, NAN]}, ValueError, r"current_gb\[2\]=nan"),
        (
            {"current_gb": {"a": 1.0}},
            TypeError,
            r"current_gb is a mapping, but datasets_gb has no names",
        ),
        ({"current_gb": [1, 1, 1], "last_use": [1]}, ValueError, r"last_use must have shape"),
        ({"last_use": [1]}, ValueError, r"last_use must have shape"),
    ],
)
def test_bad_options_are_refused(options, error, says):
    with pytest.raises(error, match=says):
        allocate(**options)


def test_words_and_flags_may_be_of_a_type_derived_from_them():
    plain = allocate("throughput", exact=True)
    decision = allocate(np.str_("throughput"), np.str_("throughput"), exact=np.bool_(True))
    assert decision.certificate.method == plain.certificate.method == "exact"
    assert type(decision.objective) is type(decision.io_mode) is str
    assert ration_remote_io(JOBS, SIZES, [0.0] * 3, 1.0, np.str_("priority")).verify()


def test_missing_columns_are_named():
    bare = StorageJobs([0], [1.0])
    for objective in ("sjf", "finish_time"):
        with pytest.raises(
            TypeError, match=rf"jobs.remaining_gb is missing: '{objective}' needs it"
        ):
            allocate_storage(bare, [1.0], 1.0, 1.0, objective)
    with pytest.raises(TypeError, match=r"jobs.gpus is missing"):
        allocate_storage(bare, [1.0], 1.0, 1.0, "fifo", gpu_capacity=1)
    for call in (allocate_storage, ration_remote_io):
        with pytest.raises(TypeError, match="jobs must be StorageJobs, not list"):
            call([0], [1.0], 1.0, 1.0)
    with pytest.raises(TypeError, match="cached_gb must be an array"):
        ration_remote_io(bare, [1.0], None, 1.0)
    with pytest.raises(ValueError, match=r"cached_gb\[0\]=2.0: the dataset has 1.0 GB"):
        ration_remote_io(bare, [1.0], [2.0], 1.0)
    with pytest.raises(ValueError, match=r"capacity_gb=-1"):
        ration_remote_io(bare, [1.0], [1.0], 1.0, capacity_gb=-1)
    with pytest.raises(KeyError, match=r"cached_gb\['b'\]: not in datasets_gb"):
        ration_remote_io(StorageJobs(["a"], [1.0]), {"a": 1.0}, {"b": 1.0}, 1.0)


def test_extreme_numbers_stay_finite():
    rng = np.random.default_rng(0)
    for low, high in ((0.0, 1e-300), (1e14, 1e15), (1e-300, 1e15)):
        jobs = StorageJobs(
            rng.integers(0, 3, 20),
            rng.choice([low, high], 20),
            weight=rng.choice([1e-6, 1e6], 20),
            remaining_gb=rng.choice([low, high], 20),
            elapsed=rng.choice([low, high], 20),
            effective_gb=rng.choice([low, high], 20),
        )
        for sizes in ([1e-9, 1.0, 1e15], [1e-9] * 3, [1e15] * 3):
            for cache, bandwidth in ((0.0, 1e-300), (1e-9, 1e15), (1e15, 0.0), (1.0, 1.0)):
                for objective in ("greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"):
                    allocation = allocate_storage(jobs, sizes, cache, bandwidth, objective)
                    for array in (
                        allocation.cache_gb,
                        allocation.remote_io_mbps,
                        allocation.rates_mbps,
                    ):
                        assert np.isfinite(array).all() and (array >= 0).all()


def test_less_than_1e_15_counts_as_nothing():
    jobs = StorageJobs([0, 0], [5e-324, 2.0], remaining_gb=[1e-16, -0.0], gpus=[1e-15, 9e-16])
    assert jobs.rate_mbps.tolist() == [0.0, 2.0]
    assert np.signbit(jobs.remaining_gb).tolist() == [False, False] and not jobs.remaining_gb.any()
    assert jobs.gpus.tolist() == [1e-15, 0.0]
    # With subnormal numbers Newton's steps stood nearly still.
    jobs = StorageJobs(
        [0] * 5, [2.7e-9, 2.4e-6, 1e15, 1.0, 1e-9], weight=[1e-6, 1e6, 1.6, 1.0, 1e-6],
        running=[False, True, False, True, True], gpus=[0.0, 0.0, 1.4e-51, 1e-9, 17.5],
    )  # fmt: skip
    allocation = allocate_storage(jobs, [1.0], 1.0, 2e14, "max_min", gpu_capacity=5e-324)
    assert allocation.rates_mbps.tolist() == [0.0, 2.4e-6, 0.0, 0.0, 0.0]
    assert allocation.verify()


def test_the_binding_itself_crashes_on_nothing():
    column, ids, flags = np.ones(2), np.zeros(2, np.int64), np.ones(2, bool)
    good = [ids, column, column, flags, *[column] * 5, np.ones(1), np.ones(1), 1.0, 1.0, 1.0]
    good += ["greedy", "priority", 0.0]
    assert len(solve_storage(*good)) == 14
    for place, bad, error in [
        (0, [0, 0], TypeError),
        (0, ids.astype(np.int32), TypeError),
        (0, np.array([0, 5]), ValueError),
        (1, column[:1], ValueError),
        (1, np.ones((2, 1)), TypeError),
        (1, np.ones(4)[::2], TypeError),
        (3, column, TypeError),
        (9, None, TypeError),
        (10, np.ones(2), ValueError),
        (14, "nothing", KeyError),
        (15, "nothing", KeyError),
    ]:
        with pytest.raises(error):
            solve_storage(*good[:place], bad, *good[place + 1 :])


# --- objectives --------------------------------------------------------------------------------


def test_ties_break_by_the_lowest_id():
    jobs = StorageJobs([2, 1, 0], [10.0, 10.0, 10.0])
    for objective in ("greedy", "fifo", "throughput", "max_min"):
        allocation = allocate_storage(jobs, [50.0, 50.0, 50.0], 75.0, 10.0, objective)
        assert allocation.cache_gb.tolist() == [50.0, 25.0, 0.0], objective
    allocation = allocate_storage(jobs, [50.0, 50.0, 50.0], 0.0, 15.0)
    assert allocation.remote_io_mbps.tolist() == [10.0, 5.0, 0.0]


def test_of_whole_datasets_too_the_lowest_id_comes_first():
    jobs = StorageJobs([0, 1, 2], [100.0, 50.0, 100.0])
    part = allocate_storage(jobs, [100.0, 60.0, 100.0], 70.0, 10.0, "throughput")
    assert part.certificate.method == "whole"
    assert part.cache_gb.tolist() == [10.0, 60.0, 0.0]
    # A larger total that does not fit is none.
    jobs = StorageJobs([0, 1, 2, 3], [100.0, 100.0, 10.0, 500.0])
    largest = allocate_storage(jobs, [60.0, 60.0, 5.0, 1000.0], 60.0, 1.0, "throughput")
    assert largest.certificate.method == "largest"
    assert largest.cache_gb.tolist() == [60.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("io_mode", ["maxmin_io", "maxmin_rate"])
def test_bandwidth_that_just_suffices_has_no_level(io_mode):
    allocation = allocate_storage(
        StorageJobs([0, 0], [10.0, 20.0]), [1.0], 0.0, 30.0, io_mode=io_mode
    )
    assert allocation.certificate.io_level == INF
    assert allocation.remote_io_mbps.tolist() == [10.0, 20.0]


def test_weights_count_in_efficiency_and_fairness():
    jobs = StorageJobs([0, 1], [50.0, 50.0], weight=[1.0, 3.0])
    assert allocate_storage(jobs, [100.0, 100.0], 50.0, 10.0).cache_gb.tolist() == [0.0, 50.0]
    fair = allocate_storage(jobs, [100.0, 100.0], 0.0, 40.0, "max_min")
    assert fair.rates_mbps == pytest.approx([10.0, 30.0])


def test_fifo_runs_jobs_up_to_the_first_whose_gpus_are_taken_and_sjf_passes_over_it():
    fifo = allocate("fifo", gpu_capacity=3)
    assert fifo.running.tolist() == [True, True, False, False]
    sjf = allocate("sjf", gpu_capacity=4)
    assert sjf.certificate.order.tolist() == [2, 0, 1]
    assert sjf.running.tolist() == [True, True, True, False]
    assert fifo.verify() and sjf.verify()


@pytest.mark.parametrize("objective", ["fifo", "sjf"])
def test_parts_of_gpus_that_fill_the_cluster_fit(objective):
    jobs = StorageJobs([0, 0, 0], [1.0] * 3, gpus=[0.9, 0.1, 1e-6], remaining_gb=[1.0, 2.0, 3.0])
    allocation = allocate_storage(jobs, [1.0], 0.0, 1.0, objective, gpu_capacity=1.0)
    assert allocation.running.tolist() == [True, True, False]
    assert allocation.verify()


@pytest.mark.parametrize("objective", ["fifo", "sjf"])
def test_jobs_without_gpus_run_where_there_are_none(objective):
    jobs = StorageJobs([0, 0, 0], [1.0] * 3, gpus=[0, 0, 1], remaining_gb=[1.0] * 3)
    allocation = allocate_storage(jobs, [1.0], 0.0, 3.0, objective, gpu_capacity=0)
    assert allocation.running.tolist() == [True, True, False]


def test_a_job_that_has_all_read_has_no_finish_time_while_another_cache_fills_up():
    jobs = StorageJobs(
        [0, 0, 1], [10.0] * 3, remaining_gb=[0.0, 5.0, 5.0], effective_gb=[50.0, 50.0, 1.0]
    )
    allocation = allocate_storage(jobs, [50.0, 50.0], 100.0, 4.9, "finish_time")
    assert allocation.rates_mbps.tolist() == [0.0, 10.0, pytest.approx(5.0)]
    assert allocation.verify()


def test_max_min_with_gpu_time_and_remote_io_in_either_order():
    # GPU time holds the first job, remote IO the second; the third has all that it can use.
    for weight, order in ((0.5, ["gpus", "remote_io"]), (1.0, ["remote_io", "gpus"])):
        jobs = StorageJobs([0, 1, 2], [100, 100, 100], weight=[1, weight, 1], gpus=[4, 0, 0])
        allocation = allocate_storage(jobs, [100, 1000, 10], 110, 60, "max_min", gpu_capacity=1)
        assert allocation.rates_mbps == pytest.approx([25.0, 60.0, 100.0])
        assert [stage.binding for stage in allocation.certificate.stages] == order
        assert allocation.certificate.stage.tolist() == [
            order.index("gpus"),
            order.index("remote_io"),
            0,
        ]
        assert allocation.verify()


def test_exact_throughput_refuses_too_many_competing_sets():
    n = 400
    rng = np.random.default_rng(1)
    sizes = rng.integers(10**5, 10**6, n).astype(float)
    jobs = StorageJobs(np.arange(n), sizes + 10)  # all alike: nothing can be pruned
    with pytest.raises(ValueError, match=r"exact=True: more than 1,000,000 sets"):
        allocate_storage(jobs, sizes, sizes.sum() / 2.5, 1.0, "throughput", exact=True)


def test_whole_datasets_beat_efficiency_where_the_largest_goes_first():
    jobs = StorageJobs([0, 1, 2], [11.0, 60.0, 59.0])
    allocation = allocate_storage(jobs, [10.0, 60.0, 60.0], 60.0, 0.0, "throughput")
    assert (allocation.certificate.method, allocation.cache_gb.tolist()) == (
        "largest",
        [0.0, 60.0, 0.0],
    )
    assert allocation.verify()


# --- hysteresis --------------------------------------------------------------------------------


def test_at_exactly_one_plus_eps_bytes_stay():
    jobs = StorageJobs([0, 1], [100.0, 150.0])
    allocation = allocate_storage(jobs, [100.0, 100.0], 80.0, 0.0, current_gb=[80.0, 0.0], eps=0.5)
    assert allocation.cache_gb.tolist() == [80.0, 0.0]


@pytest.mark.parametrize("objective", ["greedy", "fifo", "throughput", "max_min", "sjf"])
def test_contents_without_use_stay_while_there_is_room(objective):
    jobs = StorageJobs(["used", "queued"], [10, 10], running=[True, False], remaining_gb=[1, 1])
    allocation = allocate_storage(
        jobs,
        {"used": 50.0, "old": 50.0, "recent": 50.0, "queued": 50.0},
        120.0,
        5.0,
        objective,
        current_gb={"old": 40.0, "recent": 40.0, "queued": 50.0},
        last_use={"old": 1.0, "recent": 2.0},
    )
    # Given up first: what is idle longest.
    assert allocation.by_dataset() == {"used": 50.0, "old": 0.0, "recent": 20.0, "queued": 50.0}
    assert allocation.verify()


def test_contents_without_use_never_exceed_what_is_left():
    # Beside a large dataset the small one is lost in sums.
    allocation = allocate_storage(
        StorageJobs([], []), [1e15, 1.0], 2433.914662500527, 0.0,
        current_gb=[275532447213387.44, 0.8583031582867359], last_use=[0.0, 1.0],
    )  # fmt: skip
    assert allocation.cache_gb[1] == 0.8583031582867359
    assert allocation.cache_gb.sum() == pytest.approx(2433.914662500527, rel=1e-15)
    assert allocation.verify()


def test_all_but_a_rounding_error_of_a_dataset_is_all_of_it_in_the_bound():
    sizes = [71.68953510489958, 6.657784810558754, 0.5450857159854983]
    jobs = StorageJobs([0, 2, 1], [6.0, 1389.0, 587.0])
    for exact in (False, True):
        # Less than the sizes, by the order in which they are added.
        allocation = allocate_storage(
            jobs, sizes, 78.89240563144382, 0.0, "throughput", exact=exact
        )
        assert allocation.throughput_mbps == allocation.bound_mbps == 1982.0
        assert allocation.gap == 0.0 and allocation.verify()


def test_near_its_pole_a_finish_time_takes_no_more_than_the_bandwidth():
    jobs = StorageJobs(
        [2, 0, 2],
        [2422.2069734199504, 21442.77096359077, 0.07161141621335798],
        remaining_gb=[171069.96167501304, 0.003590471163032165, 2.823621992892862],
        elapsed=[244899.63298471327, 497519.3252430661, 0.19597692548230528],
        elapsed_alone=[17013.10751731586, 0.004810846397085657, 0.07742760451625111],
    )
    sizes = [0.4533121438848377, 7.2405850501612194, 12.96393325722238]
    allocation = allocate_storage(jobs, sizes, 0.0, 5042.014324747742, "finish_time")
    assert allocation.remote_io_mbps.sum() <= 5042.014324747742 * (1 + 1e-14)
    assert allocation.verify()


def test_current_may_exceed_a_cache_that_has_shrunk():
    decision = allocate(current_gb=[100.0, 60.0, 400.0], cache=70.0)
    assert decision.cache_gb.tolist() == [10.0, 60.0, 0.0]
    assert decision.verify()


def test_the_least_recently_used_idle_dataset_is_reclaimed_first():
    jobs = StorageJobs([0, 1, 2], [10.0, 20.0, 5.0], running=[True, True, False])
    order = reclaim_order(jobs, [10.0] * 5, last_use=[0, 0, 0, 7, 3])
    assert order.tolist() == [4, 3, 2, 0, 1]
    assert reclaim_order(jobs, [10.0] * 5).tolist() == [3, 4, 2, 0, 1]


# --- certificates ------------------------------------------------------------------------------

TAMPERED = [
    ("cache_gb", lambda a: np.add(a, [1.0, -1.0, 0.0])),
    ("cache_gb", lambda a: np.add(a, [0.0, 0.0, 50.0])),
    ("cache_gb", lambda a: a[:2]),
    ("cache_gb", lambda a: a * np.nan),
    ("remote_io_mbps", lambda a: a + 1.0),
    ("remote_io_mbps", lambda a: a * 0.9),
    ("remote_io_mbps", lambda a: -a),
    ("rates_mbps", lambda a: a * 1.01),
    ("rates_mbps", lambda a: a * 0.99),
    ("demand_mbps", lambda a: a + 0.1),
    ("running", lambda a: ~a),
]
CONFIGURATIONS = [
    ("greedy", mode, {})
    for mode in ("priority", "throughput", "maxmin_io", "maxmin_rate", "proportional")
] + [
    ("fifo", None, {"gpu_capacity": 4}),
    ("sjf", None, {"gpu_capacity": 4}),
    ("throughput", None, {}),
    ("throughput", None, {"exact": True}),
    ("max_min", None, {}),
    ("max_min", None, {"gpu_capacity": 3}),
    ("finish_time", None, {}),
    ("max_min", None, {"jobs": JOBS.replace(effective_gb=[10.0] * 4)}),
]


@pytest.mark.parametrize(("objective", "io_mode", "options"), CONFIGURATIONS)
@pytest.mark.parametrize(("field", "change"), TAMPERED)
def test_a_changed_share_is_found_out(objective, io_mode, options, field, change):
    decision = allocate(objective, io_mode, **{"bandwidth": 12.0, **options})
    assert decision.verify()
    changed = replace(decision, **{field: change(getattr(decision, field))})
    if np.array_equal(getattr(changed, field), getattr(decision, field)):
        pytest.skip("nothing to change here")
    with pytest.raises(CertificateError):
        changed.verify()


@pytest.mark.parametrize(("objective", "io_mode", "options"), CONFIGURATIONS)
def test_another_allocation_does_not_pass_for_this_one(objective, io_mode, options):
    """The shares of another objective are feasible, but not proved by this certificate."""
    decision = allocate(objective, io_mode, **{"bandwidth": 12.0, **options})
    other = allocate("greedy", "proportional", jobs=options.get("jobs", JOBS), bandwidth=11.0)
    columns = ("cache_gb", "remote_io_mbps", "rates_mbps", "demand_mbps", "running")
    mixed = replace(decision, **{name: getattr(other, name) for name in columns})
    with pytest.raises(CertificateError):
        mixed.verify()


@pytest.mark.parametrize(
    ("objective", "options", "change"),
    [
        ("greedy", {}, {"cache_multiplier": 0.0}),
        ("greedy", {}, {"cache_multiplier": NAN}),
        ("greedy", {}, {"cache_multiplier": 99.0}),
        ("greedy", {}, {"io_level": NAN}),
        ("greedy", {}, {"io_level": 99.0}),
        ("greedy", {}, {"order": np.array([0, 1])}),
        ("fifo", {}, {"io_level": 1.0}),
        ("fifo", {}, {"order": np.array([3, 2, 1, 0])}),
        ("sjf", {}, {"order": np.array([0, 1, 2, 3])}),
        ("throughput", {}, {"cache_multiplier": 0.01}),
        ("throughput", {}, {"io_level": 0.0}),
        ("max_min", {}, {"stages": (FillingStage(INF, "rate"),)}),
        ("max_min", {}, {"stages": ()}),
        ("max_min", {}, {"stage": None}),
        ("max_min", {}, {"stage": np.full(4, -1)}),
        ("max_min", {}, {"cache_multiplier": 99.0}),
    ],
)
def test_a_changed_certificate_is_found_out(objective, options, change):
    decision = allocate(objective, bandwidth=12.0, **options)
    changed = replace(decision, certificate=replace(decision.certificate, **change))
    with pytest.raises(CertificateError):
        changed.verify()


@pytest.mark.parametrize("objective", ["greedy", "throughput", "max_min", "finish_time", "fifo"])
def test_a_job_without_rate_runs_all_the_same(objective):
    decision = allocate(objective, jobs=JOBS.replace(rate_mbps=[100.0, 50.0, 0.0, 20.0]))
    running = np.array([True, True, False, True])
    for order in (decision.certificate.order, np.array([0, 1, 3])):
        proof = replace(decision.certificate, order=order)
        with pytest.raises(CertificateError):
            replace(decision, running=running, certificate=proof).verify()


@pytest.mark.parametrize(
    ("jobs", "sizes", "cache", "bandwidth", "options"),
    [
        # The multiplier times the size is the rate but for rounding, which is 0.1 MB/s here.
        (
            StorageJobs([1, 2, 0], [1e15, 294033.9786613151, 2112313373.9421928]),
            [0.0004379988456492524, 444409.1168931413, 0.0003438292647200043], 0.0, 0.0,
            {"objective": "throughput"},
        ),
        # So is io_level times the share of misses 1.
        (
            StorageJobs([0], [1e15], effective_gb=[463850244410.4218]),
            [45463395340853.28], 5e13, 0.00724210905539846, {},
        ),
        # What rounding leaves of the capacity goes to a dataset that is smaller than that.
        (
            StorageJobs(
                [3, 3, 0, 1, 0],
                [6.813529846707215, 2.3126636977837944, 9.462913086955894, 8.03, 13.01],
                weight=[414.41553084246584, 42.05681763576293, 887.5593741727514, 1e-6, 1e-6],
            ),
            [63.89541648800054, 1e-9, 1e-9, 4.3684022574359735], 65.75671626357004, 5.5,
            {"current_gb": [0.0, 1e-9, 1e-9, 2.041314292470706]},
        ),
    ],
)  # fmt: skip
def test_rounding_is_no_fault(jobs, sizes, cache, bandwidth, options):
    assert allocate_storage(jobs, sizes, cache, bandwidth, **options).verify()


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_a_level_that_is_too_low_or_too_high_is_found_out(factor):
    decision = allocate("max_min", bandwidth=12.0)
    first, *rest = decision.certificate.stages
    assert first.binding == "remote_io"
    stages = (first._replace(level=first.level * factor), *rest)
    changed = replace(decision, certificate=replace(decision.certificate, stages=stages))
    with pytest.raises(CertificateError):
        changed.verify()


def test_a_wrong_binding_or_bound_is_found_out():
    decision = allocate("max_min", bandwidth=12.0)
    for binding in ("rate", "gpus", "weather"):
        stages = (decision.certificate.stages[0]._replace(binding=binding),)
        stages += decision.certificate.stages[1:]
        changed = replace(decision, certificate=replace(decision.certificate, stages=stages))
        with pytest.raises(CertificateError):
            changed.verify()
    for exact in (False, True):
        best = allocate("throughput", bandwidth=12.0, exact=exact)
        for bound in (best.bound_mbps * 0.99, best.bound_mbps * 1.01):
            with pytest.raises(CertificateError):
                replace(best, bound_mbps=bound).verify()


def test_a_wrong_reference_is_found_out():
    decision = allocate("max_min", bandwidth=12.0)
    for reference in (None, decision.reference_mbps * 2):
        with pytest.raises(CertificateError):
            replace(decision, reference_mbps=reference).verify()


# --- the greedy cache alone --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (([1.0], [1.0, 2.0], 1.0), ValueError, "efficiency has 1 elements, 2 are needed"),
        (([-1.0], [1.0], 1.0), ValueError, r"efficiency\[0\]=-1.0"),
        (([1.0], [0.0], 1.0), ValueError, r"datasets\[0\]=0.0"),
        (([1.0], [1.0], -1.0), ValueError, "capacity=-1.0"),
        (([1.0], [1.0], 1.0, [2.0]), ValueError, r"current\[0\]=2.0: a full cache holds 1.0"),
        (([1.0], [1.0], 1.0, [1.0], -0.1), ValueError, "eps=-0.1"),
        ((["a"], [1.0], 1.0), TypeError, "efficiency must hold numbers"),
    ],
)
def test_a_greedy_cache_of_what_cannot_be_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        greedy_cache(*arguments)
