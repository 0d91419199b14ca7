"""Jobs whose requests change while they wait or run."""

import pytest
from scheduler.lives import COMPOSITIONS, decided, flat_network, limited, make_scheduler, said

from hivecore.scheduler import Data, Job, Role, Scheduler, Where, diff_log, read_log, replay


def test_an_amended_job_keeps_its_place_in_the_queue():
    scheduler = limited(8)
    decided(scheduler, Job("runs", "a", 8), Job("first", "a", 8), Job("second", "a", 4))
    scheduler.amend("first", 1.0, roles=4)
    scheduler.finish("runs", 2.0)
    assert said(scheduler.decide(2.0)) == [("Start", "first"), ("Start", "second")]
    assert scheduler.job("first") == Job("first", "a", 4)


def test_a_higher_priority_passes_jobs_in_front_and_evicts():
    scheduler = make_scheduler(COMPOSITIONS["cells"], immediate=True)
    jobs = [Job(name, "a", [Role("w", 2, gpus=4)]) for name in ("runs", "first", "second")]
    decided(scheduler, *jobs)
    scheduler.amend("second", 1.0, priority=5)
    assert said(scheduler.decide(1.0)) == [("Preempt", "runs"), ("Start", "second")]


def test_what_no_part_enforces_is_refused_and_nothing_changes():
    scheduler = limited(8)
    decided(scheduler, Job("runs", "a", 8), Job("waits", "a", 8))
    before = scheduler.to_bytes()
    for changes, says in [
        ({"where": Where(must="rack")}, "must"),
        ({"roles": []}, "roles must not be empty"),
        ({"priority": 5000}, "priority=5000"),
        ({"name": "other"}, "'name' of a job that is known cannot change"),
        ({"tenant": "b"}, "'tenant' of a job"),
        ({}, "changes must not be empty"),
    ]:
        with pytest.raises(ValueError, match=says):
            scheduler.amend("waits", 1.0, **changes)
    with pytest.raises(TypeError):
        scheduler.amend("waits", 1.0, gpus=3)
    with pytest.raises(KeyError):
        scheduler.amend("none", 1.0, priority=1)
    with pytest.raises(ValueError, match="changes: 'priority'"):
        scheduler.amend("runs", 1.0, priority=1, run_time=5.0)
    assert scheduler.to_bytes() == before


def test_a_job_that_can_never_run_as_it_is_now_is_rejected():
    scheduler = limited(8)
    decided(scheduler, Job("runs", "a", 8), Job("waits", "a", 8))
    scheduler.amend("waits", 1.0, roles=16)
    assert said(scheduler.decide(1.0)) == [("Reject", "waits")]


def test_a_job_that_runs_gets_another_estimate():
    scheduler = limited(8)
    decided(scheduler, Job("runs", "a", 8, run_time=100.0), Job("waits", "a", 8))
    assert scheduler.forecast("waits") == 100.0
    scheduler.amend("runs", 1.0, run_time=50.0)
    assert scheduler.forecast("waits") == 50.0


def test_a_reserved_job_that_asks_for_less_waits_for_its_victims_no_more():
    network = flat_network("n1", "n2", gpu=8)
    scheduler = Scheduler(topology=network)
    decided(scheduler, *(Job(name, "a", 8, guaranteed=False) for name in ("weak", "also")))
    assert said(decided(scheduler, Job("strong", "a", [Role("w", 2, gpus=8)], priority=1))) == [
        ("Preempt", "also"),
        ("Preempt", "weak"),
    ]
    assert scheduler.state("strong") == "reserved"
    scheduler.amend("strong", 1.0, roles=8)
    assert (scheduler.state("strong"), scheduler.status("strong").pods) == ("pending", ())
    scheduler.stopped("weak", 2.0)
    assert ("Start", "strong") in said(scheduler.decide(2.0))
    scheduler.check()


def test_other_data_are_read_after_an_amendment():
    scheduler = make_scheduler(COMPOSITIONS["topology and storage"])
    scheduler.submit(Job("reads", "a", 4, data=Data("text", 90.0)), 0.0)
    scheduler.amend("reads", 0.0, data=Data("images", 300.0))
    assert ("SetCache", "images") in [
        (type(action).__name__, getattr(action, "dataset", "")) for action in scheduler.decide(0.0)
    ]
    scheduler.amend("reads", 0.0, run_time=4.0)
    scheduler.check()


def test_an_amendment_is_logged_and_replayed_also_under_another_scheduler(path):
    scheduler = limited(8, log=path)
    decided(scheduler, Job("runs", "a", 8, run_time=9.0), Job("waits", "a", 8))
    changes = {"roles": [Role("w", 2, gpus=2)], "run_time": None, "where": Where()}
    scheduler.amend("waits", 1.0, **changes)
    scheduler.finish("runs", 5.0)
    scheduler.decide(5.0)
    scheduler.finish("waits", 7.0)
    scheduler.close()
    assert replay(path).summary() == scheduler.summary()
    events = [record.fields for record in read_log(path) if record.event == "amend"]
    roles = [{"name": "w", "pods": 2, "gpus": 2}]
    assert events == [{"job": "waits", "changes": {"roles": roles, "run_time": None, "where": {}}}]
    # With more GPUs it runs when the amendment comes.
    difference = diff_log(path, limited(12))
    assert difference.skipped == 0
    assert diff_log(path, limited(16)).skipped == 1
