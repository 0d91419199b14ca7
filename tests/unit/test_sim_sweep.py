import joblib
import pytest

from hivecore.sim import sweep
from hivecore.traces import Trace, generate

NODES = {"speech": 8, "vision": 8}
LOADS = [0.6, 1.2]


@pytest.fixture(scope="module")
def serial():
    return sweep(NODES, LOADS, seeds=[0, 1], jobs=300)


def test_there_is_a_point_per_seed_load_and_policy(serial):
    assert [(point.seed, point.load, point.policy) for point in serial] == [
        (seed, load, policy)
        for seed in (0, 1)
        for load in LOADS
        for policy in ("private", "quota", "cells")
    ]
    assert all(point.figures.later == 0 for point in serial if point.policy == "cells")
    assert any(point.figures.mean_delay > 0 for point in serial)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_parallel_sweeps_find_what_the_serial_one_finds(backend, serial):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert sweep(NODES, LOADS, seeds=[0, 1], jobs=300) == serial


# Dask and its parts warn about their own and about Python's future.
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_finds_what_the_serial_one_finds(serial):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        assert sweep(NODES, LOADS, seeds=[0, 1], jobs=300) == serial


def test_a_given_trace_is_swept_over_loads():
    trace = generate(NODES, jobs=300, seed=0)
    points = sweep(NODES, iter([0.5, 2.0]), seeds=[4, 5], trace=trace, policies=["quota"])
    assert [(point.seed, point.load, point.policy) for point in points] == [
        (None, 0.5, "quota"),
        (None, 2.0, "quota"),
    ]
    assert points[0].figures.mean_delay < points[1].figures.mean_delay


def test_opportunism_reaches_the_replays():
    trace = Trace.from_columns(["a", "b"], ["x", "x"], [0, 0], [60, 60], [8, 8])
    nodes = {"x": 1, "y": 1}
    plain, lucky = (
        sweep(nodes, [1.0], trace=trace, policies=["cells"], opportunistic=flag)[0]
        for flag in (False, True)
    )
    assert (plain.figures.mean_delay, lucky.figures.mean_delay) == (30, 0)


@pytest.mark.parametrize("policies", [[], ["fair"], ["cells", "fair"]])
def test_unknown_policies_are_refused(policies):
    with pytest.raises(ValueError, match="policies must be among private, quota, cells"):
        sweep(NODES, LOADS, policies=policies)
