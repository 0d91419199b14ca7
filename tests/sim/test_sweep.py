from secrets import token_hex

import joblib
import numpy as np
import pytest

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.sim import Workload, replay, sweep
from hivecore.sim.specs import TraceJobs, replay_specs
from hivecore.traces import Trace, generate

NODES = {"speech": 8, "vision": 8}
LOADS = [0.6, 1.2]


def spec(nodes, tenants=""):
    where = "network: {layers: {rack: 16}}"
    text = "cluster: {models: {m: {gpus: 8}}, nodes: {'n[0-%d]': m}, %s}\n%s"
    return SchedulerSpec.of_yaml(text % (nodes - 1, where, tenants))


SPECS = {"all": spec(16), "half": spec(8, "tenants: {anybody: {quota: {max: {gpu: 64}}}}")}
MAPPED = {"*": "anybody"}


def swept():
    specs = {"half": SPECS["half"]}
    return sweep(NODES, LOADS, seeds=[0, 1], jobs=300, specs=specs, tenants=MAPPED)


@pytest.fixture(scope="module")
def serial():
    return swept()


def test_there_is_a_point_per_seed_load_and_policy(serial):
    assert [(point.seed, point.load, point.policy) for point in serial] == [
        (seed, load, policy)
        for seed in (0, 1)
        for load in LOADS
        for policy in ("private", "quota", "cells", "half")
    ]
    assert all(point.figures.later == 0 for point in serial if point.policy == "cells")
    assert any(point.figures.mean_delay > 0 for point in serial)


def test_loads_and_seeds_that_are_named_twice_count_once():
    points = sweep({"x": 2}, loads=[1, 1.0], seeds=[3, 3], jobs=20, policies=["cells"])
    assert [(point.seed, point.load) for point in points] == [(3, 1)]
    with pytest.raises(TypeError, match="loads must be a sequence, not float"):
        sweep({"x": 2}, loads=1.0)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_parallel_sweeps_find_what_the_serial_one_finds(backend, serial):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert swept() == serial


# Dask and its parts warn about their own and about Python's future.
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_finds_what_the_serial_one_finds(serial):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        assert swept() == serial


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_ray_cluster_finds_what_the_serial_one_finds(serial, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", token_hex(16))  # else it leaves one in the home folder
    ray = pytest.importorskip("ray", reason="ray is not installed: make test-ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        register_ray()
        with joblib.parallel_config(backend="ray", n_jobs=2):
            assert swept() == serial
    finally:
        ray.shutdown()


def test_specs_are_swept_beside_policies_on_the_same_jobs():
    trace = generate(NODES, jobs=300, seed=0)
    points = sweep(NODES, [1.0, 2.0], trace=trace, policies=["cells"], specs=SPECS, tenants=MAPPED)
    assert [(point.load, point.policy) for point in points] == [
        (load, policy) for load in (1.0, 2.0) for policy in ("cells", "all", "half")
    ]
    work = Workload.of(trace.scale_load(2.0), NODES)
    private = replay(work, ["private"]).runs["private"].start
    given = TraceJobs.of(work.trace).with_tenants(MAPPED)
    for point in points[4:]:
        outcome = replay_specs(given, {"one": SPECS[point.policy]})["one"].outcome
        ran = np.isfinite(outcome.start)
        delay = (outcome.start - work.trace.submit)[ran]
        assert point.figures.mean_delay == pytest.approx(delay.mean())
        assert point.figures.jobs + point.refused == len(work.trace)
        assert point.refused == int((~ran).sum()) == len(outcome.refused)
        assert point.figures.later == int((outcome.start[ran] > private[ran] + 1e-6).sum())
        assert point.fragmentation is None
    assert points[5].figures.mean_delay > points[4].figures.mean_delay


def test_specs_alone_are_swept_and_have_names_of_their_own():
    (point,) = sweep(NODES, [1.0], jobs=60, policies=[], specs={"all": SPECS["all"]})
    assert (point.policy, point.refused) == ("all", 0)
    with pytest.raises(ValueError, match="specs: 'cells' is the name of a policy"):
        sweep(NODES, LOADS, specs={"cells": SPECS["all"]})


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
