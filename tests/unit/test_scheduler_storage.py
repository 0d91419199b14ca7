"""Storage in the scheduler: objectives that ask how much jobs have yet to read."""

from math import inf

import pytest

from hivecore.scheduler import Data, Job, Scheduler, SetCache, SetRemoteIO, StoragePool, recover

SIZES = {"images": 1000.0, "text": 1000.0}


def pool(objective, cache_gb=0.0, **options):
    return StoragePool(SIZES, cache_gb, 100.0, objective, **options)


def reader(name, total_gb, dataset="images", rate_mbps=100.0):
    return Job(name, "a", 1, data=Data(dataset, rate_mbps, total_gb))


def remote_io(actions):
    return {one.job: one.rate_mbps for one in actions if isinstance(one, SetRemoteIO)}


def with_jobs(objective, *jobs, cache_gb=0.0):
    scheduler = Scheduler(storage=pool(objective, cache_gb), immediate=True)
    for job in jobs:
        scheduler.submit(job, 0.0)
    return scheduler, scheduler.decide(0.0)


def test_the_job_with_the_least_left_has_remote_io_first():
    _, actions = with_jobs("sjf", reader("long", 60.0), reader("short", 50.0, "text", 70.0))
    assert remote_io(actions) == {"long": 100.0}  # 600 s before 714 s
    _, actions = with_jobs("sjf", reader("long", 60.0), reader("short", 35.0, "text", 70.0))
    assert remote_io(actions) == {"short": 70.0, "long": 30.0}


def test_what_was_read_by_now_is_not_left():
    scheduler, actions = with_jobs("sjf", reader("first", 60.0))
    assert remote_io(actions) == {"first": 100.0}
    scheduler.submit(reader("second", 20.0, "text"), 300.0)
    # 30 GB of the first are left.
    assert remote_io(scheduler.decide(300.0)) == {"first": 0.0, "second": 100.0}
    scheduler, _ = with_jobs("sjf", reader("first", 60.0))
    scheduler.submit(reader("second", 20.0, "text"), 500.0)
    # 10 GB of the first are left.
    assert remote_io(scheduler.decide(500.0)) == {}


def test_the_cache_counts_for_what_was_read():
    # Half of what it reads is cached, so that 50 MB/s of remote IO are enough for 100 MB/s.
    scheduler, actions = with_jobs("sjf", reader("first", 60.0), cache_gb=500.0)
    assert remote_io(actions) == {"first": 50.0}
    assert SetCache("images", 500_000_000_000) in actions
    again = scheduler.copy()
    # The first has 10 GB left, which are 100 s; the second 24 GB, which are 120 s.
    scheduler.submit(reader("second", 24.0, rate_mbps=200.0), 500.0)
    assert remote_io(scheduler.decide(500.0)) == {"second": 50.0}
    # The first has 20 GB left, which are 200 s.
    again.submit(reader("second", 24.0, rate_mbps=200.0), 400.0)
    assert remote_io(again.decide(400.0)) == {"first": 0.0, "second": 100.0}


def test_who_has_read_more_than_he_was_to_has_nothing_left():
    scheduler, _ = with_jobs("sjf", reader("late", 10.0))
    scheduler.submit(reader("new", 1.0, "text"), 1e6)
    assert remote_io(scheduler.decide(1e6)) == {}


@pytest.mark.parametrize("objective", ["sjf", "finish_time"])
def test_who_does_not_say_how_much_he_reads_has_the_most_left(objective):
    _, actions = with_jobs(objective, reader("unknown", inf), reader("known", 1e6, "text"))
    found = remote_io(actions)
    if objective == "sjf":
        assert found == {"known": 100.0}
    else:
        assert sum(found.values()) == pytest.approx(100.0)
        assert min(found.values()) > 0.0


@pytest.mark.parametrize("fails", [False, True])
def test_who_begins_again_has_read_nothing(fails):
    scheduler, _ = with_jobs("sjf", reader("first", 60.0))
    scheduler.submit(reader("other", 100.0), 450.0)
    scheduler.decide(450.0)
    scheduler.cancel("other", 460.0)
    scheduler.decide(460.0)
    if fails:
        scheduler.fail("first", 500.0)
        scheduler.decide(500.0)
    scheduler.submit(reader("second", 20.0, "text"), 500.0)
    # 60 GB of the first are left if it begins again, else 10.
    found = remote_io(scheduler.decide(500.0))
    assert found == ({"first": 0.0, "second": 100.0} if fails else {})


def test_who_had_more_than_an_equal_share_gets_less_for_it():
    # Two jobs of 100 GB, of which the first has run alone for 500 s: of its 100 GB 50 are left.
    scheduler, _ = with_jobs("finish_time", reader("first", 100.0))
    scheduler.submit(reader("second", 100.0, "text"), 500.0)
    found = remote_io(scheduler.decide(500.0))
    first, second = found["first"], found["second"]
    assert first + second == pytest.approx(100.0)
    # With 50 MB/s each would have needed 2,000 s in all.
    assert 500.0 + 50_000.0 / first == pytest.approx(100_000.0 / second)


@pytest.mark.parametrize("objective", ["sjf", "finish_time"])
def test_copies_and_saved_schedulers_know_how_far_jobs_are(objective):
    scheduler, _ = with_jobs(objective, reader("first", 60.0))
    scheduler.submit(reader("other", 100.0), 100.0)
    scheduler.decide(100.0)
    others = [scheduler.copy(), Scheduler.from_bytes(scheduler.to_bytes())]
    found = []
    for one in (scheduler, *others):
        one.submit(reader("second", 40.0, "text"), 300.0)
        found.append(remote_io(one.decide(300.0)))
    assert found[1] == found[2] == found[0]
    if objective == "sjf":  # 30 to 40 GB of the first are left
        assert "first" not in found[0]


def test_a_log_with_progress_is_run_again(tmp_path):
    path = tmp_path / "log"
    scheduler = Scheduler(storage=pool("sjf"), log=path)
    scheduler.submit(reader("first", 60.0), 0.0)
    scheduler.decide(0.0)
    scheduler.submit(reader("second", 20.0, "text"), 300.0)
    scheduler.decide(300.0)
    scheduler.close()
    again = recover(path)
    scheduler.cancel("second", 301.0)
    again.cancel("second", 301.0)
    assert again.decide(301.0) == scheduler.decide(301.0)
