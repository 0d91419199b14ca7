"""Jobs of any scheduler that read through one cache: by hand, and as `schedule_storage` has it."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import limited
from sim.storage.items import caches_of_items

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Data, Job, Sharing, StoragePool
from hivecore.sim import simulate
from hivecore.sim.specs import TraceJobs, replay_specs
from hivecore.sim.storage import (
    StorageCluster,
    StorageWorkload,
    reading_from,
    schedule_storage,
)
from hivecore.sim.storage.reading import Reading
from hivecore.sim.worlds import InterleavedGpus
from hivecore.traces import generate_storage

OBJECTIVES = ["greedy", "throughput", "max_min", "finish_time", "fifo", "sjf"]


def readers(*rates, dataset=None):
    return [
        Job(f"j{i}", "a", 1, data=Data(dataset or f"d{i}", rate)) for i, rate in enumerate(rates)
    ]


one_node = partial(limited, immediate=True)


def run(jobs, submit, seconds, pool, allots=False, gpus=None, **settings):
    """What becomes of jobs on one node of 8 GPUs."""
    scheduler = one_node(storage=pool if allots else None, **settings)
    reading = reading_from(pool, jobs, seconds, scheduler if allots else None, gpus)
    return simulate(scheduler, jobs, submit, seconds, progress=reading)


# --- no scheduler allots storage


def test_remote_io_is_shared_so_that_a_job_that_wants_little_has_all_of_it():
    jobs = [*readers(30.0, 100.0, 100.0), Job("reads nothing", "a", 1)]
    pool = StoragePool({f"d{i}": 500.0 for i in range(3)}, 0.0, 130.0)
    end = run(jobs, [0.0] * 4, [10.0, 1000.0, 1000.0, 70.0], pool).end
    # 50 MB/s for two jobs until the first has ended at 10 s, and 65 MB/s from then on.
    assert end == pytest.approx([10.0, *[10.0 + (100e3 - 500.0) / 65.0] * 2, 70.0])


def test_in_a_cache_that_holds_all_only_the_first_epoch_waits_for_data():
    pool = StoragePool({"d0": 50.0}, 100.0, 20.0)
    assert run(readers(100.0), [0.0], [1500.0], pool).end == pytest.approx([2500.0 + 1000.0])


def test_jobs_that_share_gpus_want_less_remote_io():
    jobs = [
        Job(name, "a", 8, stages=stages, data=Data("images", 80.0))
        for name, stages in (("one", [2, 2]), ("two", [3, 1]))
    ]
    pool = StoragePool({"images": 500.0}, 0.0, 100.0)
    gpus = InterleavedGpus(jobs)
    end = run(jobs, [0.0, 0.0], [500.0, 1000.0], pool, gpus=gpus, sharing=Sharing(2)).end
    # Rounds of 5 seconds instead of 4: both at 64 MB/s by their GPUs, and at 50 by the network.
    assert end == pytest.approx([800.0, 800.0 + 40e3 / 80.0])


def test_jobs_that_share_gpus_and_have_enough_remote_io_go_as_their_gpus_let_them():
    jobs = [
        Job("reads", "a", 8, stages=[2, 2], data=Data("images", 80.0)),
        Job("reads nothing", "a", 8, stages=[3, 1]),
    ]
    pool = StoragePool({"images": 500.0}, 0.0, 100.0)
    gpus = InterleavedGpus(jobs)
    end = run(jobs, [0.0, 0.0], [400.0, 1000.0], pool, gpus=gpus, sharing=Sharing(2)).end
    assert end == pytest.approx([500.0, 500.0 + 600.0])


# --- a scheduler allots it


def test_a_cache_counts_from_the_epoch_after_it_was_filled():
    pool = StoragePool({"d0": 100.0}, 50.0, 40.0)
    assert run(readers(100.0), [0.0], [3000.0], pool, allots=True).end == pytest.approx([5000.0])


@pytest.mark.parametrize("objective", ["greedy", "fifo"])
def test_remote_io_follows_what_jobs_find_cached_not_what_will_be(objective):
    """The first job has all 60 MB/s in its first epoch, and 50 in the others; the rest is for the
    second one. Real items in real caches say 4,667 s and 8,090 s.
    """
    jobs = readers(100.0, 100.0, dataset="x")
    pool = StoragePool({"x": 100.0}, 50.0, 60.0, objective)
    end = run(jobs, [0.0, 0.0], [4000.0, 4000.0], pool, allots=True).end
    assert end == pytest.approx([100e3 / 60 + 3000.0, 8066.7], abs=0.1)


def test_a_job_that_comes_later_finds_what_another_one_has_read():
    jobs = readers(100.0, 100.0, dataset="x")
    pool = StoragePool({"x": 100.0}, 100.0, 100.0, "max_min")
    end = run(jobs, [0.0, 600.0], [1000.0, 1000.0], pool, allots=True).end
    # 60 GB are cached by then, and each item that comes after that is new to both.
    assert 1000.0 < end[0] < 1400.0 and 1600.0 <= end[1] < 2000.0


def test_a_job_that_was_preempted_reads_all_again_and_finds_its_cache():
    pool = StoragePool({"d0": 100.0}, 50.0, 50.0)
    scheduler = one_node(storage=pool)
    jobs = [Job("low", "a", 8, data=Data("d0", 100.0)), Job("high", "a", 8)]
    seconds = [1000.0, 500.0]
    reading = reading_from(pool, jobs, seconds, scheduler)
    outcome = simulate(
        scheduler,
        jobs,
        [0.0, 1000.0],
        seconds,
        order=lambda now: [name for name in ("high", "low") if name in scheduler],
        progress=reading,
    )
    assert outcome.preemptions.tolist() == [1, 0] and outcome.lost.tolist() == [1000.0, 0.0]
    # 50 GB are cached, so that it reads 100 GB at full speed.
    assert outcome.end == pytest.approx([1500.0 + 1000.0, 1500.0])


@pytest.mark.parametrize("allots", [True, False])
def test_jobs_that_begin_again_read_as_real_items_do(allots):
    """The first job is stopped in its second epoch, while another one reads the same dataset."""
    jobs = [
        Job("low", "a", 4, data=Data("x", 60.0)),
        Job("beside", "a", 4, data=Data("x", 50.0)),
        Job("high", "a", 4, data=Data("y", 80.0)),
    ]
    submit, seconds = [0.0, 500.0, 3000.0], [5000.0, 6000.0, 1500.0]
    pool = StoragePool({"x": 100.0, "y": 50.0}, 60.0, 70.0, "fifo")
    seconds_of = []
    for real in (False, True):
        scheduler = one_node(storage=pool if allots else None)
        reading = reading_from(pool, jobs, seconds, scheduler if allots else None)
        if real:
            parts = reading._work, reading._cluster, reading._rules
            caches = caches_of_items(*parts, items=20_000 if allots else 5_000)
            reading = Reading(*parts, caches, reading._scheduler)
        outcome = simulate(
            scheduler,
            jobs,
            submit,
            seconds,
            order=lambda now, scheduler=scheduler: [
                job for job in ("high", "beside", "low") if job in scheduler
            ],
            progress=reading,
        )
        assert outcome.preemptions.tolist() == [1, 0, 0]
        seconds_of.append(outcome.end - submit)
    assert seconds_of[0] == pytest.approx(seconds_of[1], rel=1e-2)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_with_enough_remote_io_jobs_end_as_if_they_read_nothing(objective):
    jobs = readers(10.0, 20.0, 30.0, dataset="x")
    pool = StoragePool({"x": 5.0}, 2.0, 60.0, objective)
    end = run(jobs, [0.0, 10.0, 20.0], [300.0, 400.0, 500.0], pool, allots=True).end
    assert end == pytest.approx([300.0, 410.0, 520.0])


def test_max_min_gives_the_bandwidth_to_jobs_that_are_slowest_for_their_share():
    jobs = readers(100.0, 100.0)
    pool = StoragePool({"d0": 100.0, "d1": 200.0}, 0.0, 60.0, "max_min")
    end = run(jobs, [0.0, 0.0], [600.0, 600.0], pool, allots=True).end
    assert end == pytest.approx([2000.0, 2000.0])


@pytest.mark.parametrize("objective", ["sjf", "finish_time"])
def test_objectives_by_progress_follow_what_is_left(objective):
    """The long job came first and has read 60 GB of 120 when the short one comes."""
    jobs = [
        Job(name, "a", 1, data=Data(name, 60.0, total))
        for name, total in (("x", 120.0), ("y", 30.0))
    ]
    pool = StoragePool({"x": 120.0, "y": 30.0}, 0.0, 60.0, objective)
    end = run(jobs, [0.0, 1000.0], [2000.0, 500.0], pool, allots=True).end
    assert end[0] == pytest.approx(2500.0) and end[1] <= 2000.0 + 1e-6
    assert (end[1] == pytest.approx(1500.0)) == (objective == "sjf")


def test_a_job_that_is_refused_is_none_of_those_that_wait():
    large, small = (
        Job("large", "a", 9, data=Data("x", 50.0)),
        Job("small", "a", 1, data=Data("x", 50.0)),
    )
    pool = StoragePool({"x": 100.0}, 50.0, 25.0, ahead=True)
    scheduler = one_node(storage=pool)
    reading = reading_from(pool, [large, small], [2000.0] * 2, scheduler)
    outcome = simulate(
        scheduler, [large, small], [0.0, 0.0], [2000.0] * 2, progress=reading, may_refuse=True
    )
    assert list(outcome.refused) == ["large"] and outcome.end[1] == pytest.approx(4000.0)


def test_pools_that_cannot_be_read_from_are_refused():
    jobs = readers(1.0)
    with pytest.raises(ValueError, match="datasets_gb: job 'j0' reads 'd0'"):
        reading_from(StoragePool({"x": 1.0}, 1.0, 1.0), jobs, [1.0])
    with pytest.raises(ValueError, match="bandwidth_mbps is missing"):
        reading_from(StoragePool({"d0": 1.0}, 1.0, None), jobs, [1.0])


# --- the same jobs under `schedule_storage`


SPEC = """
cluster: {models: {m: {gpus: 16}}, nodes: {n: m}, network: {layers: {rack: 1}}}
queues: {blocking: fifo}
"""
POOL = "storage: {cache_gb: 2000, bandwidth_mbps: 200, objective: fifo, ahead: true}"


@pytest.mark.parametrize("seed", range(3))
def test_specs_with_and_without_storage_are_silod_and_alluxio(seed):
    trace = generate_storage(60, seed=seed, gpus=16)
    specs = {"silod": SchedulerSpec.of_yaml(SPEC + POOL), "alluxio": SchedulerSpec.of_yaml(SPEC)}
    runs = replay_specs(TraceJobs.of_storage(trace, "lab"), specs)
    cluster = StorageCluster(16, 2000.0, 200.0)
    for system, replayed in runs.items():
        same = schedule_storage(StorageWorkload.of(trace), cluster, "fifo", system).end
        assert replayed.outcome.end == pytest.approx(same, rel=1e-9)


# --- any jobs


class Audited(InterleavedGpus):
    """A world that audits what caches hold whenever jobs start, stop or end."""

    reading = None

    def obey(self, actions, now):
        self.reading._contents.check()
        super().obey(actions, now)


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, *OBJECTIVES]))
@examples(40)
def test_all_jobs_end_and_none_is_faster_than_alone(seed, objective):
    rng = np.random.default_rng(seed)
    datasets = {f"d{i}": float(rng.uniform(1, 40)) for i in range(4)}
    jobs = [
        Job(
            f"j{i}",
            "a",
            int(rng.choice([1, 2, 4, 8])),
            stages=rng.uniform(0.1, 1.0, 3).tolist(),
            data=Data(f"d{rng.integers(4)}", float(rng.uniform(5, 100))) if i % 4 else None,
        )
        for i in range(25)
    ]
    pool = StoragePool(
        datasets, float(rng.uniform(1, 60)), float(rng.uniform(20, 200)), objective or "greedy"
    )
    submit = np.cumsum(rng.exponential(60.0, len(jobs))).tolist()
    duration = rng.uniform(10, 2000, len(jobs))
    scheduler = one_node(sharing=Sharing(3), storage=pool if objective else None)
    gpus = Audited(jobs)
    gpus.reading = reading_from(pool, jobs, duration.tolist(), objective and scheduler, gpus)
    outcome = simulate(scheduler, jobs, submit, duration.tolist(), progress=gpus.reading)
    assert (outcome.end - outcome.start >= duration * (1 - 1e-6)).all()
