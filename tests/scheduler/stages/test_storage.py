"""Storage in the scheduler: objectives that depend on how much jobs have yet to read."""

import random
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import decided

from hivecore.queues import TenantQueues
from hivecore.scheduler import (
    Data,
    Job,
    Scheduler,
    SetCache,
    SetRemoteIO,
    StoragePool,
    event_of_plain,
    recover,
)

SIZES = {"images": 1000.0, "text": 1000.0}


def pool(objective, cache_gb=0.0, **options):
    return StoragePool(SIZES, cache_gb, 100.0, objective, **options)


def reader(name, total_gb, dataset="images", rate_mbps=100.0):
    return Job(name, "a", 1, data=Data(dataset, rate_mbps, total_gb))


def remote_io(actions):
    return {action.job: action.rate_mbps for action in actions if isinstance(action, SetRemoteIO)}


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


def test_read_data_is_not_left_to_read():
    scheduler, actions = with_jobs("sjf", reader("first", 60.0))
    assert remote_io(actions) == {"first": 100.0}
    scheduler.submit(reader("second", 20.0, "text"), 300.0)
    # 30 GB of the first are left.
    assert remote_io(scheduler.decide(300.0)) == {"first": 0.0, "second": 100.0}
    scheduler, _ = with_jobs("sjf", reader("first", 60.0))
    assert remote_io(decided(scheduler, reader("second", 20.0, "text"), now=500.0)) == {}


def test_the_cache_counts_for_what_was_read():
    # Half of its data is cached, so 50 MB/s of remote IO give 100 MB/s.
    scheduler, actions = with_jobs("sjf", reader("first", 60.0), cache_gb=500.0)
    assert remote_io(actions) == {"first": 50.0}
    assert SetCache("images", 500_000_000_000) in actions
    again = scheduler.copy()
    # The first has 10 GB (100 s) left, the second 24 GB (120 s).
    scheduler.submit(reader("second", 24.0, rate_mbps=200.0), 500.0)
    assert remote_io(scheduler.decide(500.0)) == {"second": 50.0}
    # The first has 20 GB (200 s) left.
    again.submit(reader("second", 24.0, rate_mbps=200.0), 400.0)
    assert remote_io(again.decide(400.0)) == {"first": 0.0, "second": 100.0}


def test_a_job_that_has_read_too_much_has_nothing_left():
    scheduler, _ = with_jobs("sjf", reader("late", 10.0))
    assert remote_io(decided(scheduler, reader("new", 1.0, "text"), now=1e6)) == {}


@pytest.mark.parametrize("objective", ["sjf", "finish_time"])
def test_a_job_of_unknown_length_has_the_most_left(objective):
    _, actions = with_jobs(objective, reader("unknown", inf), reader("known", 1e6, "text"))
    rates = remote_io(actions)
    if objective == "sjf":
        assert rates == {"known": 100.0}
    else:
        assert sum(rates.values()) == pytest.approx(100.0)
        assert min(rates.values()) > 0.0


@pytest.mark.parametrize("fails", [False, True])
def test_a_restarted_job_has_read_nothing(fails):
    scheduler, _ = with_jobs("sjf", reader("first", 60.0))
    decided(scheduler, reader("other", 100.0), now=450.0)
    scheduler.cancel("other", 460.0)
    scheduler.decide(460.0)
    if fails:
        scheduler.fail("first", 500.0)
        scheduler.decide(500.0)
    rates = remote_io(decided(scheduler, reader("second", 20.0, "text"), now=500.0))
    assert rates == ({"first": 0.0, "second": 100.0} if fails else {})


def test_a_job_that_had_more_than_an_equal_share_gets_less():
    # Two jobs of 100 GB. The first has run alone for 500 s, and has 50 GB left.
    scheduler, _ = with_jobs("finish_time", reader("first", 100.0))
    rates = remote_io(decided(scheduler, reader("second", 100.0, "text"), now=500.0))
    first, second = rates["first"], rates["second"]
    assert first + second == pytest.approx(100.0)
    # At 50 MB/s each would need 2,000 s in all.
    assert 500.0 + 50_000.0 / first == pytest.approx(100_000.0 / second)


@pytest.mark.parametrize("objective", ["sjf", "finish_time"])
def test_copies_and_saved_schedulers_know_how_far_jobs_are(objective):
    scheduler, _ = with_jobs(objective, reader("first", 60.0))
    decided(scheduler, reader("other", 100.0), now=100.0)
    others = [scheduler.copy(), Scheduler.from_bytes(scheduler.to_bytes())]
    results = []
    for branch in (scheduler, *others):
        results.append(remote_io(decided(branch, reader("second", 40.0, "text"), now=300.0)))
    assert results[1] == results[2] == results[0]
    if objective == "sjf":  # 30 to 40 GB of the first are left
        assert "first" not in results[0]


def test_a_log_with_progress_is_run_again(path):
    scheduler = Scheduler(storage=pool("sjf"), log=path)
    decided(scheduler, reader("first", 60.0))
    decided(scheduler, reader("second", 20.0, "text"), now=300.0)
    scheduler.close()
    again = recover(path)
    scheduler.cancel("second", 301.0)
    again.cancel("second", 301.0)
    assert again.decide(301.0) == scheduler.decide(301.0)


def test_an_amended_job_keeps_its_place_among_those_that_read():
    scheduler = Scheduler(storage=pool("fifo"), immediate=True)
    scheduler.submit(Job("old", "a", 1), 0.0)
    for name in ("first", "second", "third"):
        scheduler.submit(reader(name, inf), 0.0)
    scheduler.amend("first", 0.0, data=Data("text", 60.0))
    scheduler.amend("third", 0.0, data=None)
    scheduler.amend("old", 0.0, data=Data("text", 30.0))
    restored = Scheduler.from_bytes(scheduler.to_bytes())
    actions = scheduler.decide(0.0)
    assert remote_io(actions) == {"old": 30.0, "first": 60.0, "second": 10.0}
    assert restored.decide(0.0) == actions


# --- observations


def caches(actions):
    return {action.dataset: action.size / 1e9 for action in actions if isinstance(action, SetCache)}


def two_readers(**options):
    """Images fit into the cache, text does not."""
    storage = StoragePool({"images": 100.0, "text": 1000.0}, 100.0, 90.0, **options)
    scheduler = Scheduler(storage=storage, immediate=True)
    scheduler.submit(reader("one", inf, rate_mbps=80.0), 0.0)
    scheduler.submit(reader("two", inf, "text", 50.0), 0.0)
    return scheduler, scheduler.decide(0.0)


def test_a_job_with_an_empty_cache_gets_remote_io_to_fill_it():
    scheduler, actions = two_readers(threshold=0.0)
    assert caches(actions) == {"images": 100.0} and remote_io(actions) == {"two": 50.0}
    results = []
    for cached in (0.0, 50.0, 75.0, 100.0):
        scheduler.observe(10.0, cached_gb={"images": cached})
        results.append(remote_io(scheduler.decide(10.0)))
    assert results == [
        {"one": 80.0, "two": 10.0},
        {"one": 40.0, "two": 50.0},
        {"one": 20.0},
        {"one": 0.0},
    ]


def test_what_a_job_finds_in_its_epoch_may_be_less_than_what_is_cached():
    scheduler, _ = two_readers()
    scheduler.observe(10.0, cached_gb={"images": 100.0}, hit_gb={"one": 50.0})
    assert remote_io(scheduler.decide(10.0)) == {"one": 40.0}
    scheduler.observe(20.0, hit_gb={"one": 100.0})
    assert remote_io(scheduler.decide(20.0)) == {"one": 0.0}


def test_a_job_that_reads_less_now_saves_less_remote_io():
    storage = StoragePool({"images": 100.0, "text": 100.0}, 100.0, None)
    scheduler = Scheduler(storage=storage, immediate=True)
    scheduler.submit(reader("one", inf, rate_mbps=80.0), 0.0)
    scheduler.submit(reader("two", inf, "text", 50.0), 0.0)
    assert scheduler.decide(0.0)[2:] == [SetCache("images", 100 * 10**9)]
    scheduler.observe(10.0, rate_mbps={"one": 46.0})
    assert scheduler.decide(10.0) == []  # the cached data saves a tenth more
    scheduler.observe(20.0, rate_mbps={"one": 40.0})
    assert caches(scheduler.decide(20.0)) == {"images": 0.0, "text": 100.0}


def test_observed_progress_replaces_the_estimate():
    scheduler, _ = with_jobs("sjf", reader("first", 60.0))
    scheduler.observe(500.0, read_gb={"first": 10.0})  # and not 50, as allocated
    scheduler.submit(reader("second", 40.0, "text"), 500.0)
    assert remote_io(scheduler.decide(500.0)) == {"first": 0.0, "second": 100.0}


@pytest.mark.parametrize(
    "observed",
    [{"rate_mbps": {"first": 10.0}}, {"hit_gb": {"first": 0.0}}, {"cached_gb": {"images": 0.0}}],
)
def test_an_observation_does_not_change_what_was_read_before(observed):
    scheduler, actions = with_jobs("sjf", reader("first", 60.0), cache_gb=500.0)
    assert remote_io(actions) == {"first": 50.0}
    scheduler.observe(300.0, **observed)  # it has read 30 GB at 100 MB/s
    scheduler.decide(300.0)
    as_before = {"rate_mbps": {"first": 100.0}, "hit_gb": {"first": 500.0}}
    scheduler.observe(300.0, cached_gb={"images": 500.0}, **as_before)
    scheduler.submit(reader("second", 31.0, "text"), 300.0)
    assert scheduler.reading_order() == ["first", "second"]


def test_unused_cache_is_for_waiting_jobs():
    storage = StoragePool({"images": 40.0, "text": 100.0}, 100.0, None, ahead=True)
    scheduler = Scheduler(queues=TenantQueues(blocking="fifo"), storage=storage, immediate=True)
    assert caches(decided(scheduler, reader("runs", inf))) == {"images": 40.0}
    scheduler.submit(reader("waits", inf, "text").replace(after=("runs",)), 1.0)
    scheduler.reorder(["runs"], 1.0)
    assert caches(scheduler.decide(1.0)) == {"text": 60.0}
    scheduler.cancel("waits", 2.0)
    assert caches(scheduler.decide(2.0)) == {"text": 0.0}


@pytest.mark.parametrize("objective", ["greedy", "throughput", "max_min", "finish_time", "sjf"])
@pytest.mark.parametrize("bandwidth_mbps", [100.0, None])
def test_data_stay_cached_while_no_job_runs(objective, bandwidth_mbps):
    if bandwidth_mbps is None:
        objective = "greedy"
    storage = StoragePool({"images": 40.0, "text": 90.0}, 100.0, bandwidth_mbps, objective)
    scheduler = Scheduler(storage=storage, immediate=True)
    assert caches(decided(scheduler, reader("first", inf))) == {"images": 40.0}
    scheduler.finish("first", 1.0)
    assert scheduler.decide(1.0) == []
    assert caches(decided(scheduler, reader("again", inf), now=2.0)) == {}
    scheduler.finish("again", 3.0)
    scheduler.decide(3.0)
    other = reader("other", inf, "text")
    assert caches(decided(scheduler, other, now=4.0)) == {"images": 10.0, "text": 90.0}


@pytest.mark.parametrize("bandwidth_mbps", [100.0, None])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_job_that_reads_nothing_now_keeps_its_data_while_there_is_room(bandwidth_mbps, ahead):
    sizes = {"images": 40.0, "text": 90.0, "video": 70.0}
    storage = StoragePool(sizes, 100.0, bandwidth_mbps, ahead=ahead)
    scheduler = Scheduler(storage=storage, immediate=True)
    assert caches(decided(scheduler, reader("pauses", inf))) == {"images": 40.0}
    scheduler.observe(1.0, rate_mbps={"pauses": 0.0})
    assert caches(scheduler.decide(1.0)) == {}
    if not ahead:
        decided(scheduler, reader("ends", inf, "video"), now=2.0)
        scheduler.finish("ends", 2.0)
    other = reader("other", inf, "text")
    emptied = {} if ahead else {"video": 0.0}
    assert caches(decided(scheduler, other, now=3.0)) == {"images": 10.0, "text": 90.0} | emptied


def test_the_data_of_the_first_waiting_job_are_kept_first():
    storage = StoragePool(dict.fromkeys("abc", 60.0), 100.0, None, ahead=True)
    for first, second in ("ab", "ba"):
        scheduler = Scheduler(queues=TenantQueues(blocking="fifo"), storage=storage, immediate=True)
        decided(scheduler, reader("runs", inf, "c"))
        for name in (first, second):
            scheduler.submit(reader(name, inf, name), 1.0)
        scheduler.reorder(["runs"], 1.0)
        scheduler.observe(1.0, cached_gb={"a": 50.0, "b": 50.0, "c": 0.0})
        assert caches(scheduler.decide(1.0)) == {first: 40.0}


@given(st.integers(0, 2**32 - 1), st.permutations("abcdef"), st.booleans())
@examples(60)
@pytest.mark.parametrize(
    ("objective", "bandwidth_mbps"),
    [
        ("greedy", None),
        ("greedy", 90.0),
        ("throughput", 90.0),
        ("max_min", 90.0),
        ("finish_time", 90.0),
        ("fifo", 90.0),
        ("sjf", 90.0),
    ],
)
def test_other_names_of_datasets_change_no_decision(objective, bandwidth_mbps, seed, names, ahead):
    """Jobs end only if data that no job reads are dropped, as those are kept by name."""
    decisions = []
    for name_of in (dict(zip("abcdef", letters, strict=True)) for letters in ("abcdef", names)):
        draw = random.Random(seed)
        sizes = {name_of[letter]: draw.choice([50.0, 100.0]) for letter in "abcdef"}
        storage = StoragePool(sizes, 230.0, bandwidth_mbps, objective, ahead=ahead)
        scheduler = Scheduler(storage=storage, immediate=True)
        letter_of = {name: letter for letter, name in name_of.items()}
        for step in range(12):
            now = 50.0 * step
            total, rate = draw.choice([100.0, inf]), draw.choice([50.0, 100.0])
            scheduler.submit(reader(f"j{step}", total, name_of[draw.choice("abcdef")], rate), now)
            scheduler.reorder([name for name in scheduler if draw.random() < 0.7], now)
            held = {name_of[letter]: draw.choice([0.0, 25.0, 50.0]) for letter in "abcdef"}
            read = [scheduler.job(name).data.dataset for name in scheduler]
            if draw.random() < 0.5:
                scheduler.observe(now, cached_gb={name: held[name] for name in read})
            ends = draw.choice(list(scheduler)[1:] or [None])
            if ahead and ends and draw.random() < 0.3:
                scheduler.cancel(ends, now)
            actions = scheduler.decide(now)
            sized = {letter_of[name]: size for name, size in caches(actions).items()}
            decisions.append((sized, remote_io(actions)))
    assert decisions[:12] == decisions[12:]


def test_whole_bytes_are_never_more_than_there_are():
    storage = StoragePool(dict.fromkeys("abc", 1.0), 2e-9, None, eps=0.0)
    scheduler = Scheduler(storage=storage, immediate=True)
    for name in "abc":
        scheduler.submit(reader(name, inf, name), 0.0)
    scheduler.observe(0.0, cached_gb=dict.fromkeys("abc", 0.7e-9))
    sizes = [action.size for action in scheduler.decide(0.0) if isinstance(action, SetCache)]
    assert sum(sizes) <= 2


@pytest.mark.parametrize(
    ("observed", "error", "says"),
    [
        ({"cached_gb": {"video": 1.0}}, KeyError, "there is no dataset 'video'"),
        ({"hit_gb": {"three": 1.0}}, KeyError, "there is no job 'three'"),
        ({"read_gb": {"computes": 1.0}}, ValueError, "job 'computes' reads nothing"),
        ({"read_gb": {"new": 1.0}}, KeyError, "read_gb: there is no job 'new'"),
        ({"read_gb": {3: 1.0}}, TypeError, "read_gb must be a string, not int"),
        ({"read_gb": np.array([1, 2])}, TypeError, "read_gb must be a mapping, not ndarray"),
        ({"rate_mbps": {"one": -1.0}}, ValueError, r"rate_mbps\['one'\]=-1.0: allowed are 0 to"),
        ({"cached_gb": {"images": "full"}}, TypeError, "cached_gb"),
        ({"cached_gb": 7}, TypeError, "cached_gb must be a mapping, not int"),
    ],
)
def test_impossible_observations_change_nothing(observed, error, says):
    scheduler, _ = two_readers()
    scheduler.submit(Job("computes", "a", 1), 0.0)
    before = scheduler.to_bytes()
    with pytest.raises(error, match=says):
        scheduler.observe(10.0, **({"hit_gb": {"one": 1.0}} | observed))
    assert scheduler.to_bytes() == before


def test_nothing_is_observed_without_storage():
    with pytest.raises(ValueError, match="there is no storage"):
        Scheduler().observe(0.0, cached_gb={})


def test_a_pool_without_remote_io_is_for_the_least_of_it():
    with pytest.raises(ValueError, match="bandwidth_mbps"):
        StoragePool(SIZES, 1.0, None, "max_min")


@pytest.mark.parametrize("objective", ["greedy", "sjf", "finish_time"])
def test_copies_saved_schedulers_and_logs_know_what_was_observed(objective, tmp_path):
    log = tmp_path / "log"
    scheduler = Scheduler(storage=pool(objective, 500.0, ahead=True, eps=0.2), log=log)
    for name, dataset in (("first", "images"), ("second", "text")):
        scheduler.submit(reader(name, 60.0, dataset), 0.0)
    scheduler.decide(0.0)
    scheduler.observe(
        100.0,
        cached_gb={"images": 200.0, "text": 7.0},
        hit_gb={"first": 100.0},
        read_gb={"second": 9.0},
        rate_mbps={"first": 70.0},
    )
    scheduler.decide(100.0)
    others = [scheduler.copy(), Scheduler.from_bytes(scheduler.to_bytes())]
    scheduler.close()
    others.append(recover(log))
    results = []
    for branch in (scheduler, *others):
        branch.check()
        results.append(decided(branch, reader("third", 40.0, "text"), now=300.0))
    assert results[1:] == [results[0]] * 3


def test_an_observation_is_an_event_of_the_log():
    scheduler, _ = two_readers()
    event_of_plain({"event": "observe", "cached_gb": {"images": 0}}).tell(scheduler, 5.0)
    assert remote_io(scheduler.decide(5.0)) == {"one": 80.0, "two": 10.0}
