import json

import pytest
from sim.storage.jobs_on_storage import workload

from hivecore import cli
from hivecore.sim.storage import (
    GPU_POLICIES,
    STORAGE_SYSTEMS,
    StorageCluster,
    StorageWorkload,
    schedule_storage,
    storage_figures,
)
from hivecore.sim.storage.report import storage_report
from hivecore.traces import generate_storage, generate_training, save_storage

SMALL = StorageCluster(gpus=8, cache_gb=1500.0, bandwidth_mbps=120.0)


def generated(jobs=40):
    return StorageWorkload.of(generate_storage(jobs, seed=0, gpus=8))


@pytest.mark.parametrize("storage", STORAGE_SYSTEMS)
@pytest.mark.parametrize("policy", GPU_POLICIES)
def test_every_policy_ends_all_jobs_with_every_system(policy, storage):
    work = generated()
    figures = storage_figures(work, SMALL, schedule_storage(work, SMALL, policy, storage))
    assert 0 < figures.busy <= 1 and figures.hits < 1 and figures.fairness_min > 0
    assert figures.median_completion <= figures.p99_completion <= figures.makespan


def test_caches_and_remote_io_that_are_managed_together_beat_systems_that_are_not():
    work = generated(120)
    mean = {
        storage: storage_figures(
            work, SMALL, schedule_storage(work, SMALL, "fifo", storage)
        ).mean_completion
        for storage in STORAGE_SYSTEMS
    }
    assert mean["silod"] < min(mean["coordl"], mean["alluxio"])


def test_fifo_starts_nothing_before_what_came_earlier():
    work = workload(
        ("x", 10.0, 10.0, 10.0, 2, 0.0),
        ("y", 10.0, 10.0, 10.0, 4, 0.0),
        ("z", 1.0, 1.0, 10.0, 1, 0.0),
    )
    cluster = StorageCluster(gpus=4, cache_gb=0.0, bandwidth_mbps=100.0)
    assert schedule_storage(work, cluster).start.tolist() == pytest.approx([0.0, 1000.0, 2000.0])


def test_least_attained_service_lets_a_new_job_pass_one_that_has_had_its_hour():
    work = workload(("x", 10.0, 200.0, 10.0, 1, 0.0), ("y", 10.0, 10.0, 10.0, 1, 4000.0))
    cluster = StorageCluster(gpus=1, cache_gb=20.0, bandwidth_mbps=100.0)
    assert schedule_storage(work, cluster, "las").end.tolist() == pytest.approx([21_000.0, 5_000.0])


def test_max_min_gives_equal_jobs_equal_time():
    work = workload(*[("x", 10.0, 100.0, 10.0, 1, 0.0)] * 2)
    cluster = StorageCluster(gpus=1, cache_gb=20.0, bandwidth_mbps=100.0)
    assert schedule_storage(work, cluster, "max-min").end.tolist() == pytest.approx([20_000.0] * 2)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"policy": "lifo"}, "policy must be one of fifo, sjf, srtf, las, max-min, not 'lifo'"),
        ({"storage": "nfs"}, "storage must be one of silod, quiver, coordl, alluxio, not 'nfs'"),
        ({"shrink": "all"}, "shrink must be one of random, read_first, not 'all'"),
    ],
)
def test_unknown_names_are_refused(wanted, says):
    with pytest.raises(ValueError, match=says):
        schedule_storage(generated(3), SMALL, **wanted)


def test_a_job_larger_than_the_cluster_is_refused():
    with pytest.raises(ValueError, match="a job of 9 GPUs does not fit on 8 GPUs"):
        schedule_storage(workload(("x", 1.0, 1.0, 1.0, 9, 0.0)), SMALL)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ((0, 1.0, 1.0), "gpus=0: allowed are 1 to"),
        ((float("nan"), 1.0, 1.0), "gpus must be an integer, not float"),
        ((1, "8", 1.0), "cache_gb must be a float, not str"),
        ((1, 1.0, None), "bandwidth_mbps must be a float, not NoneType"),
        ((1, -1.0, 1.0), "cache_gb must be finite and not negative, not -1.0"),
        ((1, 1.0, 0.0), "bandwidth_mbps must be finite and positive, not 0.0"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(wanted, says):
    with pytest.raises((TypeError, ValueError), match=says):
        StorageCluster(*wanted)


def test_what_is_no_workload_is_named():
    with pytest.raises(TypeError, match="work must be a StorageWorkload, not list"):
        schedule_storage([], SMALL)


def test_pictures_are_drawn_of_what_was_recorded(tmp_path):
    work = generated(20)
    outcomes = {
        ("fifo", "silod"): schedule_storage(work, SMALL, record=True),
        ("fifo", "coordl"): schedule_storage(work, SMALL, "fifo", "coordl", record=True),
        ("las", "silod"): schedule_storage(work, SMALL, "las"),
    }
    paths = storage_report(work, SMALL, outcomes).save_pictures(tmp_path)
    names = [path.name for path in paths]
    pictures = ["completion", "throughput", "cache-fifo-silod", "cache-fifo-coordl"]
    assert names == [f"{name}.png" for name in pictures]


# --- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "jobs.csv"
    save_storage(generate_storage(jobs=25, seed=0, gpus=8), path)
    return path


def replay(trace, *arguments, format="storage"):
    return cli.main(
        [str(entry) for entry in ("replay", "storage", trace, "--format", format, *arguments)]
    )


def test_replay_reports_in_all_forms(trace, tmp_path, capsys):
    out = tmp_path / "out.json"
    shared = ["--gpus", 8, "--cache", 1500, "--bandwidth", 120]
    outputs = ["--json", out, "--plots", tmp_path / "plots"]
    requests = ["--system", "silod", "alluxio", "--policy", "fifo", "las", *shared, *outputs]
    assert replay(trace, *requests) == 0
    assert "alluxio" in capsys.readouterr().out
    data = json.loads(out.read_text())
    assert data["configuration"] == {
        "traces": ["jobs.csv"],
        "format": "storage",
        "seed": None,
        "gpus": 8,
        "cache_gb": 1500.0,
        "bandwidth_mbps": 120.0,
        "warm_up": False,
    }
    assert {name: set(policy) for name, policy in data["policies"].items()} == {
        "fifo": {"silod", "alluxio"},
        "las": {"silod", "alluxio"},
    }
    assert len(list((tmp_path / "plots").iterdir())) == 6


def test_jobs_without_datasets_get_some_that_depend_on_the_seed(tmp_path):
    path = tmp_path / "training.csv"
    jobs = generate_training(jobs=12, seed=0, gpus=8)
    header = "job_id,model_name,num_gpu,iterations,submit_time,duration,iteration_time,"
    header += "resource_time_0,resource_time_1,resource_time_2"
    rows = [
        f"{j},bert,{g},9,{1e3 * s},{1e3 * d},300,100,100,100"
        for j, g, s, d in zip(jobs.job_id, jobs.gpus, jobs.submit, jobs.duration, strict=True)
    ]
    path.write_text("\n".join([header, *rows]))
    results = []
    for seed in (1, 1, 2):
        out = tmp_path / "out.json"
        requests = ["--system", "silod", "--gpus", 8, "--seed", seed, "--warm-up", "--json", out]
        assert replay(path, *requests, format="muri") == 0
        results.append(json.loads(out.read_text())["policies"])
    assert results[0] == results[1] != results[2]


def test_a_cache_that_loads_nothing_ahead_is_named_with_warm_up(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    save_storage(generate_storage(9, seed=0, gpus=8), path)
    command = ["replay", "storage", str(path), "--warm-up", "--system"]
    cli.main([*command, "alluxio", "silod"])
    line = "alluxio: without --warm-up, it caches only what jobs read."
    assert line in capsys.readouterr().out.splitlines()
    cli.main([*command, "quiver"])
    assert "without --warm-up" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([*command, "alluxio", "alluxio"])
    assert "--warm-up has no meaning: alluxio caches only" in capsys.readouterr().err
