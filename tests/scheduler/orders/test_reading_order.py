"""Orders of jobs that account for storage."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import rack_network

from hivecore.scheduler import Data, Job, Scheduler, StoragePool

SIZES = {"images": 1000.0, "text": 1000.0}


def network(gpus=8):
    return rack_network({"n0": "r0"}, gpu=gpus)


def scheduler_of(*jobs, bandwidth_mbps=100.0, cache_gb=0.0, objective="sjf", gpus=8):
    pool = StoragePool(SIZES, cache_gb, bandwidth_mbps, objective)
    scheduler = Scheduler(topology=network(gpus), storage=pool, immediate=True)
    for job in jobs:
        scheduler.submit(job, 0.0)
    return scheduler


def reader(name, rate_mbps, total_gb=inf, dataset="images", gpus=8, **fields):
    return Job(name, "a", gpus, data=Data(dataset, rate_mbps, total_gb), **fields)


def ends_of(scheduler, order):
    """When each job is done, if the order is computed again each minute."""
    ends, read, now = {}, {}, 0.0
    while len(scheduler):
        scheduler.reorder(order(scheduler), now)
        scheduler.decide(now)
        now += 60.0
        for name in list(scheduler):
            if scheduler.state(name) == "running":
                data = scheduler.job(name).data
                read[name] = read.get(name, 0.0) + 0.06 * min(data.rate_mbps, 100.0)
                if read[name] >= data.total_gb:
                    ends[name] = now
                    scheduler.finish(name, now)
    return ends


def test_the_shortest_job_is_the_one_that_storage_lets_end_first():
    # By GPU speed the first takes 60 s, by the link 600 s; the second takes 300 s.
    jobs = [reader("hungry", 1000.0, 60.0), reader("modest", 50.0, 15.0, "text")]
    assert scheduler_of(*jobs).reading_order() == ["modest", "hungry"]
    aware = ends_of(scheduler_of(*jobs), lambda scheduler: scheduler.reading_order())
    blind = ends_of(scheduler_of(*jobs), list)
    assert aware == {"modest": 300.0, "hungry": 900.0}
    assert blind == {"hungry": 600.0, "modest": 900.0}


def test_read_data_counts():
    scheduler = scheduler_of(reader("first", 100.0, 60.0), reader("second", 100.0, 50.0, "text"))
    assert scheduler.reading_order() == ["second", "first"]
    scheduler.decide(0.0)
    assert scheduler.state("first") == "running"
    scheduler.observe(0.0, read_gb={"first": 20.0})
    assert scheduler.reading_order() == ["first", "second"]


def test_asking_for_an_order_changes_nothing():
    scheduler = scheduler_of(reader("first", 100.0, 60.0), reader("second", 100.0, 50.0, "text"))
    scheduler.decide(0.0)
    scheduler.advance(100.0)
    before = scheduler.to_bytes()
    scheduler.reading_order()
    scheduler.reading_shares(gpus=8)
    assert scheduler.to_bytes() == before


@examples(200)
@given(
    jobs=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 50)), max_size=6),
    bandwidth=st.integers(1, 100),
)
def test_each_job_in_order_is_the_shortest_with_the_remaining_remote_io(jobs, bandwidth):
    by_name = {
        f"j{i}": reader(f"j{i}", float(rate), float(gb)) for i, (rate, gb) in enumerate(jobs)
    }
    order = scheduler_of(*by_name.values(), bandwidth_mbps=float(bandwidth)).reading_order()
    assert sorted(order) == sorted(by_name)
    link = float(bandwidth)
    for at, name in enumerate(order):

        def seconds(name, link=link):
            rate = min(by_name[name].data.rate_mbps, link)
            return by_name[name].data.total_gb / rate if rate else inf

        assert all(seconds(name) <= seconds(other) for other in order[at:])
        link = max(0.0, link - by_name[name].data.rate_mbps)


def turns(scheduler, minutes, late=None):
    """How many minutes each job runs. Its credit grows by its share, and shrinks while it runs."""
    had, credit = {}, {}
    for minute in range(minutes):
        now = 60.0 * minute
        if late is not None and 2 * minute == minutes:
            scheduler.submit(late, now)
        scheduler.advance(now)
        for name, share in scheduler.reading_shares(gpus=8).items():
            credit[name] = credit.get(name, 0.0) + share
        scheduler.reorder(sorted(credit, key=credit.get, reverse=True), now)
        scheduler.decide(now)
        for name in scheduler:
            runs = scheduler.state(name) == "running"
            had[name] = had.get(name, 0) + runs
            credit[name] -= runs
    return had


def test_with_max_min_jobs_take_turns():
    jobs = [reader(name, 10.0) for name in "abc"]
    assert turns(scheduler_of(*jobs), 60) == {"a": 20, "b": 20, "c": 20}
    assert turns(scheduler_of(reader("old", 10.0)), 120, reader("new", 10.0)) == {
        "old": 90,
        "new": 30,
    }


def test_a_job_without_enough_remote_io_gets_gpus_for_less_time():
    # With equal shares both have their GPUs half of the time, for 50 and 5 MB/s. The job that reads
    # 1,000 MB/s on its GPUs needs them a tenth of the time to read 100 MB/s.
    scheduler = scheduler_of(reader("hungry", 1000.0), reader("modest", 10.0, dataset="text"))
    shares = scheduler.reading_shares(gpus=8)
    assert shares["hungry"] < 0.1 < 0.9 < shares["modest"] <= 1.0
    had = turns(scheduler, 200)
    assert had["hungry"] == pytest.approx(200 * shares["hungry"], abs=2)
    assert sum(had.values()) == 200


def test_only_jobs_that_may_be_ordered_are_named():
    scheduler = scheduler_of(
        reader("a", 10.0, together=("b",)), reader("b", 10.0, together=("a",)), reader("c", 10.0)
    )
    scheduler.submit(Job("idle", "a", 1), 0.0)
    assert scheduler.reading_order() == ["c"]
    assert scheduler.reading_shares(gpus=8) == {"c": pytest.approx(1 / 3)}
    assert scheduler_of().reading_order() == []
    assert scheduler_of().reading_shares(gpus=8) == {}


def test_wrong_arguments_are_named():
    scheduler = scheduler_of(reader("a", 10.0))
    for bad in (0, -1.0, inf, float("nan")):
        with pytest.raises(ValueError, match="gpus"):
            scheduler.reading_shares(bad)
    with pytest.raises(TypeError, match="gpus"):
        scheduler.reading_shares("8")
    managed_by_network = Scheduler(storage=StoragePool(SIZES, 10.0, None))
    for tried, reason in ((Scheduler(), "no storage"), (managed_by_network, "the network shares")):
        with pytest.raises(ValueError, match=reason):
            tried.reading_order()
        with pytest.raises(ValueError, match=reason):
            tried.reading_shares(8)


def test_a_job_that_reads_nothing_now_keeps_its_share_of_gpus():
    scheduler = scheduler_of(*[reader(name, 10.0) for name in "abc"])
    scheduler.observe(0.0, rate_mbps={"b": 0.0})
    assert scheduler.reading_shares(8) == dict.fromkeys("abc", pytest.approx(1 / 3))


@pytest.mark.parametrize("objective", ["greedy", "sjf"])
def test_observations_are_saved(objective):
    jobs = reader("first", 50.0, 100.0), reader("second", 50.0, 60.0, "text")
    scheduler = scheduler_of(*jobs, bandwidth_mbps=50.0, objective=objective)
    scheduler.observe(0.0, read_gb={"first": 90.0})
    again = Scheduler.from_bytes(scheduler.to_bytes())
    assert again.reading_order() == scheduler.reading_order() == ["first", "second"]
    assert again.decide(0.0) == scheduler.decide(0.0)
    assert again.to_bytes() == scheduler.to_bytes()
