"""Past states, explanations and comparisons from a log."""

import random
from functools import partial
from heapq import heappop, heappush
from math import inf

import pytest
from profiles import seeds
from scheduler.lives import (
    COMPOSITIONS,
    ROLES,
    TENANTS,
    change_parts,
    decided,
    enforced,
    gpu_quotas,
    limited,
    make_job,
    make_scheduler,
)

from hivecore.errors import CorruptStateError
from hivecore.queues import TenantQueues
from hivecore.scheduler import (
    Job,
    Preempt,
    Role,
    Scheduler,
    Start,
    Stop,
    diff_log,
    explain_log,
    log_standing,
    read_log,
)

#: what becomes of a job on idle cells depends on when its tenant's cells were free
KNOWN = sorted(name for name in COMPOSITIONS if "lending" not in name)


lab = partial(limited, quota="lab")


def lived(scheduler, rng, immediate, steps=40):
    """Jobs come and end, with a decision after each event."""
    ends, now = [], 0.0
    comes = sorted(rng.choice([i / 2, i / 3]) for i in range(steps))
    for i, time in enumerate(comes):
        heappush(ends, (time, i, "submit", f"j{i}"))
    number = steps
    since = {}
    while ends and number < 400:
        now, _, kind, name = heappop(ends)
        running = name in scheduler and scheduler.state(name) in ("running", "lent")
        if kind == "submit":
            job = make_job(
                name,
                rng.choice(TENANTS),
                rng.choice(sorted(ROLES)),
                priority=rng.randint(0, 2),
                guaranteed=rng.random() < 0.7,
            )
            scheduler.submit(enforced(scheduler, job), now)
        elif kind == "node":
            change_parts(scheduler, rng, now)
        elif kind == "stopped":
            if since.pop(("stop", name), None) is None or name not in scheduler:
                continue
            scheduler.stopped(name, now)
            since.pop(name)
        elif kind == "cancel":
            if name not in scheduler or running:
                continue
            scheduler.cancel(name, now)
        elif not running or since.get(name) != kind or ("stop", name) in since:
            continue
        else:
            getattr(scheduler, rng.choice(["finish", "finish", "finish", "fail", "cancel"]))(
                name, now
            )
        for action in scheduler.decide(now):
            number += 1
            if isinstance(action, Start):
                if scheduler.state(action.job) == "running":
                    kind = since[action.job] = f"end {number}"
                    heappush(ends, (now + rng.choice([0.5, 1.7, 4.1]), number, kind, action.job))
            elif isinstance(action, Stop):
                since.pop(("stop", action.job), None)
            elif isinstance(action, Preempt) and not immediate:
                since["stop", action.job] = True
                heappush(ends, (now + rng.choice([0.1, 0.3]), number, "stopped", action.job))
        number += 1
        if kind == "submit" and rng.random() < 0.2:
            heappush(ends, (now + 3.3, number, "cancel", name))
        if kind == "submit" and rng.random() < 0.1:
            heappush(ends, (now + 0.2, number, "node", ""))


@pytest.mark.parametrize("immediate", [True, False])
@pytest.mark.parametrize("seed", seeds(10))
def test_the_same_configuration_gives_the_same_starts_and_the_same_use(seed, immediate, tmp_path):
    rng = random.Random(seed)
    parts = COMPOSITIONS[rng.choice(KNOWN)]
    scheduler = make_scheduler(parts, immediate=immediate, log=tmp_path / "log")
    lived(scheduler, rng, immediate)
    scheduler.close()
    difference = diff_log(tmp_path / "log", make_scheduler(parts, immediate=immediate))
    assert [(job.job, job.before) for job in difference.jobs] == [
        (job.job, job.after) for job in difference.jobs
    ]
    assert difference.before == difference.after
    assert difference.before.started > 5
    assert not difference.sooner
    assert not difference.later
    assert difference.skipped == 0


@pytest.mark.parametrize("seed", seeds(10))
def test_another_configuration_gets_all_that_users_did(seed, tmp_path):
    rng = random.Random(seed)
    first, second = (COMPOSITIONS[rng.choice(KNOWN)] for _ in range(2))
    immediate = rng.random() < 0.5
    scheduler = make_scheduler(first, immediate=immediate, log=tmp_path / "log")
    lived(scheduler, rng, immediate)
    scheduler.close()
    other = make_scheduler(second, immediate=rng.random() < 0.5)
    difference = diff_log(tmp_path / "log", other)
    other.check()
    came = sum(record.event == "submit" for record in read_log(tmp_path / "log"))
    assert len(difference.jobs) == came > 20
    for job in difference.jobs:
        assert job.after is None or job.submitted <= job.after <= difference.end
    for figures in (difference.before, difference.after):
        assert 0.0 <= figures.utilisation <= 1.5  # nodes may be added
        assert all(used >= 0 for _, used in figures.usage)
        assert all(0 <= count <= 40 for _, count in figures.waiting)


def log_of(tmp_path, gpus=8, jobs=(("a", 6, 0.0), ("b", 6, 1.0), ("c", 2, 2.0))):
    """a runs from 0 to 60, b from 60 to 100, c from 2 without an end."""
    path = tmp_path / "log"
    scheduler = lab(gpus, log=path)
    for name, size, now in jobs:
        decided(scheduler, Job(name, "lab", size), now=now)
    for name, now in (("a", 60.0), ("b", 100.0)):
        scheduler.finish(name, now)
        scheduler.decide(now)
    scheduler.close()
    return path


def test_a_job_that_starts_sooner_ends_sooner(tmp_path):
    difference = diff_log(log_of(tmp_path), lab(14))
    assert {job.job: (job.before, job.after) for job in difference.jobs} == {
        "a": (0.0, 0.0),
        "b": (60.0, 1.0),
        "c": (2.0, 2.0),
    }
    assert [(job.job, job.sooner) for job in difference.sooner] == [("b", 59.0)]
    assert difference.after.usage == ((0.0, 6), (1.0, 12), (2.0, 14), (41.0, 8), (60.0, 2))
    assert difference.after.gpu_seconds == 6 * 60 + 6 * 40 + 2 * 98 == difference.before.gpu_seconds
    assert difference.before.utilisation == pytest.approx(796 / 800)
    assert difference.before.mean_wait == pytest.approx(59 / 3)
    assert difference.after.mean_wait == 0.0
    assert difference.before.waiting == ((0.0, 0), (1.0, 1), (2.0, 1), (60.0, 0))
    assert difference.endless == 1
    assert (difference.begin, difference.end) == (0.0, 100.0)


def test_jobs_that_start_later_or_not_at_all_are_listed(tmp_path):
    difference = diff_log(log_of(tmp_path), lab(6))
    assert {job.job: job.after for job in difference.jobs} == {"a": 0.0, "b": 60.0, "c": 100.0}
    assert [(job.job, job.sooner) for job in difference.later] == [("c", -98.0)]
    difference = diff_log(tmp_path / "log", lab(4))
    assert {job.job: job.after for job in difference.jobs} == {"a": None, "b": None, "c": 2.0}
    assert difference.after.rejected == 2
    assert (difference.sooner, difference.later) == ((), ())
    reason = "asks for 6 of 'gpu', and max of 'lab' is 4"
    assert [(job.job, job.sooner, job.rejected_before) for job in difference.rejected] == [
        ("a", -inf, ""),
        ("b", -inf, ""),
    ]
    assert {job.rejected_after for job in difference.rejected} == {reason}
    assert difference.before.mean_wait == difference.after.mean_wait == 0.0  # of c


def test_only_what_happened_until_a_time_is_compared(tmp_path):
    difference = diff_log(log_of(tmp_path), lab(14), until=50.0)
    assert difference.end == 2.0
    assert [(job.job, job.sooner) for job in difference.sooner] == [("b", inf)]


def test_a_preempted_job_resumes_and_victims_take_their_time(path):

    def cluster(**options):
        return Scheduler(quotas=gpu_quotas(8, a=(8, 4), b=(8, 4)), **options)

    scheduler = cluster(log=path)
    decided(scheduler, Job("borrows", "a", 8))
    scheduler.submit(Job("owns", "b", 4), 10.0)
    assert scheduler.decide(10.0) == [Preempt("borrows", "owns", "reclaim")]
    scheduler.stopped("borrows", 12.0)
    scheduler.decide(12.0)
    scheduler.finish("owns", 20.0)
    scheduler.decide(20.0)
    scheduler.finish("borrows", 50.0)
    scheduler.decide(50.0)
    scheduler.close()
    difference = diff_log(path, cluster())
    assert difference.before == difference.after
    assert difference.before.preemptions == 1
    assert difference.before.usage == ((0.0, 8), (12.0, 4), (20.0, 8), (50.0, 0))
    # No job is preempted; a victim takes 12 seconds to stop, others 30.
    difference = diff_log(path, cluster(preemption=False))
    assert {job.job: job.after for job in difference.jobs} == {"borrows": 0.0, "owns": 42.0}
    assert difference.after.usage == ((0.0, 8), (42.0, 4), (50.0, 0))


def test_jobs_of_the_same_name_have_different_keys(path):
    scheduler = lab(8, log=path)
    for now in (0.0, 10.0):
        decided(scheduler, Job("again", "lab", 8), now=now)
        scheduler.finish("again", now + 5.0)
        scheduler.decide(now + 5.0)
    scheduler.close()
    difference = diff_log(path, lab(8))
    assert [(job.job, job.before, job.after) for job in difference.jobs] == [
        ("again", 0.0, 0.0),
        ("again#2", 10.0, 10.0),
    ]


def test_a_cancelled_job_is_cancelled_at_the_same_time(path):
    scheduler = lab(8, log=path)
    decided(scheduler, *(Job(name, "lab", 8) for name in ("a", "b")))
    scheduler.cancel("b", 4.0)
    scheduler.decide(4.0)
    scheduler.finish("a", 10.0)
    scheduler.decide(10.0)
    scheduler.close()
    difference = diff_log(path, lab(16))
    assert difference.after.usage == ((0.0, 16), (4.0, 8), (10.0, 0))
    assert difference.before.mean_wait == 2.0


def test_rare_decisions_are_repeated_at_the_logged_times(path):
    scheduler = lab(8, log=path)
    for name, now in (("a", 1.0), ("b", 2.0)):
        scheduler.submit(Job(name, "lab", 8), now)
    scheduler.decide(10.0)
    scheduler.finish("a", 13.0)
    scheduler.decide(20.0)
    scheduler.close()
    difference = diff_log(path, lab(16))
    assert {job.job: (job.before, job.after) for job in difference.jobs} == {
        "a": (10.0, 10.0),
        "b": (20.0, 10.0),
    }


def test_a_decision_that_came_later_than_most_comes_as_late_again(path):
    scheduler = lab(8, log=path)
    for now in (0.0, 1.0, 2.0):
        decided(scheduler, Job(f"j{now:g}", "lab", 2), now=now)
    scheduler.submit(Job("late", "lab", 2), 2.0)
    scheduler.decide(9.0)
    scheduler.close()
    late = diff_log(path, lab(8)).jobs[-1]
    assert (late.before, late.after) == (9.0, 9.0)


def test_jobs_that_were_there_at_the_beginning_come_at_the_beginning(path):
    scheduler = lab(8)
    scheduler.submit(Job("a", "lab", 6), 0.0)
    scheduler.submit(Job("b", "lab", 6), 0.0)
    scheduler.decide(5.0)
    branch = Scheduler.from_bytes(scheduler.to_bytes())
    branch.write_log(path)
    branch.finish("a", 9.0)
    branch.decide(9.0)
    branch.close()
    difference = diff_log(path, lab(8))
    assert [(job.job, job.submitted, job.before, job.after) for job in difference.jobs] == [
        ("a", 5.0, 5.0, 5.0),
        ("b", 5.0, 9.0, 9.0),
    ]


def test_nodes_that_another_configuration_does_not_have_are_counted(path):
    scheduler = make_scheduler(("devices",), log=path)
    scheduler.set_node("n0", False, 1.0)
    scheduler.touch()
    scheduler.decide(1.0)
    scheduler.close()
    assert diff_log(path, lab(8)).skipped == 2
    assert diff_log(path, make_scheduler(("devices",))).skipped == 1


def test_the_other_scheduler_has_to_be_empty_and_not_in_the_future(tmp_path):
    path = log_of(tmp_path)
    busy = lab(8)
    busy.submit(Job("x", "lab", 1), 0.0)
    with pytest.raises(ValueError, match="scheduler: has 1 job"):
        diff_log(path, busy)
    late = lab(8)
    late.advance(3.0)
    with pytest.raises(ValueError, match=r"its time is 3\.0, the log begins at 0\.0"):
        diff_log(path, late)
    with pytest.raises(TypeError, match="scheduler must be a Scheduler, not str"):
        diff_log(path, "spec.yaml")


# --- past states


def test_a_standing_has_running_and_waiting_jobs_and_reasons(tmp_path):
    path = log_of(tmp_path)
    standing = log_standing(path, until=1.5)
    assert (standing.now, standing.gpus, standing.in_use) == (1.0, 8, 6)
    assert [(job.job, job.state, job.since) for job in standing.jobs] == [
        ("a", "running", 0.0),
        ("b", "pending", 1.0),
    ]
    assert standing.jobs[1].reason.startswith("runtime of 'lab' is exceeded")
    standing = log_standing(path)
    assert [job.job for job in standing.jobs] == ["c"]
    assert (standing.finished, standing.rejected, standing.in_use) == (2, 0, 2)
    assert standing.events == 10


def test_a_log_explains_why_a_job_did_not_start_then(tmp_path):
    path = log_of(tmp_path)
    explanation = explain_log(path, "b", at=30.0)
    assert explanation.state == "pending"
    assert explanation.changes[0].kind == "limits"
    assert explain_log(path, "b", at=60.0).state == "running"
    with pytest.raises(KeyError, match="job='b'"):
        explain_log(path, "b", at=0.5)
    with pytest.raises(KeyError, match=r"it had started at 60\.0 and was gone at 100\.0"):
        explain_log(path, "b", at=100.0)


def test_rejected_and_cancelled_jobs_are_explained(path):
    scheduler = lab(8, log=path)
    decided(scheduler, Job("huge", "lab", 9), Job("a", "lab", 8), Job("b", "lab", 8))
    scheduler.cancel("b", 3.0)
    scheduler.decide(3.0)
    scheduler.close()
    with pytest.raises(KeyError, match=r"it was rejected at 0\.0: asks for 9"):
        explain_log(path, "huge", at=1.0)
    with pytest.raises(KeyError, match=r"it was cancelled at 3\.0, before it started"):
        explain_log(path, "b", at=4.0)
    standing = log_standing(path)
    assert (standing.finished, standing.rejected) == (1, 1)


def test_a_job_that_is_yet_to_be_rejected_has_not_been_cancelled(path):
    scheduler = lab(8, log=path)
    scheduler.submit(Job("huge", "lab", 9), 1.0)
    scheduler.decide(2.0)
    scheduler.close()
    with pytest.raises(KeyError, match=r"it came at 1\.0 and can never run: the next decision rej"):
        explain_log(path, "huge", at=1.5)


def test_a_damaged_log_is_an_error_of_its_line(tmp_path):
    path = log_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    for ask in (log_standing, lambda path: diff_log(path, lab(8))):
        with pytest.raises(CorruptStateError, match="line 4: "):
            ask(path)


def test_pods_that_join_later_count_as_used(path):

    def cluster(gpus, **options):
        tree = gpu_quotas(gpus, lab=gpus)
        return Scheduler(queues=TenantQueues(), quotas=tree, **options)

    scheduler = cluster(5, log=path)
    decided(scheduler, Job("elastic", "lab", [Role("w", 4, gpus=2, min_pods=1)]))
    scheduler.finish("elastic", 10.0)
    scheduler.decide(10.0)
    scheduler.close()
    difference = diff_log(path, cluster(8))
    assert difference.before.gpu_seconds == 40.0
    assert difference.after.gpu_seconds == 80.0


def test_orders_moves_and_regroupings_are_skipped_and_counted(tmp_path):
    scheduler = lab(8, immediate=True, log=tmp_path / "log")
    for name in ("long", "short"):
        scheduler.submit(Job(name, "lab", 8), 0.0)
    scheduler.reorder(["short", "long"], 0.0)
    scheduler.decide(0.0)
    scheduler.finish("short", 60.0)
    scheduler.decide(60.0)
    scheduler.close()
    difference = diff_log(tmp_path / "log", lab(8, immediate=True))
    assert difference.skipped == 1
    assert [job.job for job in difference.sooner] == ["long"]


def test_a_victim_that_had_not_stopped_by_the_end_of_the_log_does_not_stop(tmp_path):
    scheduler = lab(8, log=tmp_path / "log")
    decided(scheduler, Job("spare", "lab", 8, guaranteed=False))
    assert [type(action) for action in decided(scheduler, Job("train", "lab", 8), now=60.0)] == [
        Preempt
    ]
    scheduler.advance(100.0)
    scheduler.close()
    difference = diff_log(tmp_path / "log", lab(8))
    assert (difference.sooner, difference.later, difference.skipped) == ((), (), 0)
