"""Promised starts of waiting jobs, which later jobs must not delay."""

import random
from heapq import heappop, heappush

import pytest
from profiles import seeds
from scheduler.lives import (
    COMPOSITIONS,
    decided,
    enforced,
    flat_network,
    gpu_quotas,
    jobs_of,
    limited,
    make_job,
    make_scheduler,
    rack_network,
    said,
)

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.queues import TenantQueues
from hivecore.scheduler import (
    EvictionLimit,
    FreeNodes,
    Job,
    PlacedPod,
    Role,
    Scheduler,
    Start,
    Wait,
    Where,
)

PLACING = ["quotas", "cells", "topology", "devices", "quotas, cells and devices"]


def lived(scheduler, jobs, look=lambda scheduler, now: None):
    """When each job starts, if jobs end by their estimates; jobs are given with their arrival."""
    events, started = [], {}
    for number, (time, job) in enumerate(jobs):
        heappush(events, (time, 1, number, job))
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, comes, _, job = heappop(events)
            if comes:
                scheduler.submit(job, now)
            else:
                scheduler.finish(job.name, now)
        for action in scheduler.decide(now):
            if isinstance(action, Start):
                started[action.job] = now
                job = scheduler.job(action.job)
                heappush(events, (now + job.run_time, 0, len(started), job))
        scheduler.check()
        look(scheduler, now)
    return started


def easy(jobs, gpus):
    """The same by counting GPUs: first come, first served with EASY backfilling."""
    arrivals, running, waiting, started = list(jobs), [], [], {}
    now = 0.0
    while arrivals or waiting:
        times = [end for end, _ in running] + [time for time, _ in arrivals[:1]]
        now = min(times)
        running = [(end, size) for end, size in running if end > now]
        while arrivals and arrivals[0][0] == now:
            waiting.append(arrivals.pop(0)[1])
        head = shadow = None
        for job in list(waiting):
            free = gpus - sum(size for _, size in running)
            ends_late = shadow is not None and now + job.run_time > shadow
            if shadow is not None and ends_late and not fits_at(shadow, running, gpus, head, job):
                continue
            if job.gpus <= free:
                waiting.remove(job)
                started[job.name] = now
                running.append((now + job.run_time, job.gpus))
            elif shadow is None:
                head, shadow = job, earliest(now, running, gpus, job)
    return started


def fits_at(time, running, gpus, head, job):
    """Whether the head starts at a time although a job that ends later has started."""
    return gpus - sum(size for end, size in running if end > time) - job.gpus >= head.gpus


def earliest(now, running, gpus, job):
    times = sorted(end for end, _ in running)
    return next(time for time in times if gpus - sum(s for e, s in running if e > time) >= job.gpus)


def workload(rng, number, gpus):
    time, jobs = 0.0, []
    for i in range(number):
        time += rng.choice([0.0, 1.0, 5.0])
        size, run_time = rng.randint(1, gpus), float(rng.randint(1, 40))
        jobs.append((time, Job(f"j{i}", "a", size, run_time=run_time)))
    return jobs


@pytest.mark.parametrize("seed", seeds(60))
def test_one_promise_is_easy_backfilling(seed):
    rng = random.Random(seed)
    jobs = workload(rng, 40, 8)
    assert lived(limited(8, backfill=1), jobs) == easy(jobs, 8)


@pytest.mark.parametrize("parts", PLACING)
@pytest.mark.parametrize("backfill", [1, 8])
def test_no_job_starts_later_than_promised(parts, backfill):
    promised_to = 0
    for seed in seeds(3):
        rng = random.Random(seed)
        settings = {"backfill": backfill, "blocking": "best-effort", "order": "arrival"}
        if "quotas" in COMPOSITIONS[parts]:
            settings["limit"] = "max"  # runtimes change with what others request
        scheduler = make_scheduler(COMPOSITIONS[parts], immediate=True, **settings)
        jobs, time = [], 0.0
        for i in range(30):
            time += rng.choice([0.0, 3.0])
            roles = rng.choice(["one", "two", "four", "gang", "pairs", "leader"])
            job = make_job(f"j{i}", "a", roles, run_time=float(rng.randint(1, 30)))
            jobs.append((time, enforced(scheduler, job)))
            if i % 7 == 6:  # it starts together with the job before
                names = job.name, f"j{i - 1}"
                jobs[-2:] = [
                    (time, pair.replace(together=[other]))
                    for (_, pair), other in zip(jobs[-2:], names, strict=True)
                ]
        promises = {}

        def look(scheduler, now, promises=promises):
            for name in scheduler:
                at = scheduler.promised(name)
                if at is not None:
                    promises.setdefault(name, at)

        started = lived(scheduler, jobs, look)
        assert all(started[name] <= at for name, at in promises.items())
        promised_to += len(promises)
    assert promised_to > 2.5 * len(seeds(3))


def test_a_job_that_would_delay_the_first_waits_and_a_shorter_one_like_it_starts():
    scheduler = limited(8, backfill=1)
    jobs = [("now", 6, 60), ("next", 8, 10), ("long", 2, 90), ("short", 2, 50)]
    started = decided(scheduler, *(Job(name, "a", of, run_time=time) for name, of, time in jobs))
    assert jobs_of(started, Start) == ["now", "short"]
    assert scheduler.status("long").refusal.reason == "would delay 'next'"
    explained = scheduler.explain("long")
    assert explained.reason == "would delay 'next', which is to start at 60"
    assert explained.changes == ()
    assert scheduler.promised("next") == 60.0
    scheduler.finish("now", 20.0)
    scheduler.finish("short", 20.0)
    assert jobs_of(scheduler.decide(20.0), Start) == ["next"]
    assert scheduler.promised("next") is None


def test_a_job_on_other_nodes_starts_though_it_ends_later():
    network = flat_network("n1", "n2", gpu=8)
    scheduler = Scheduler(topology=network, backfill=1)
    first, second = Where(nodes=["n1"]), Where(nodes=["n2"])
    decided(scheduler, Job("now", "a", 8, run_time=60, where=first))
    jobs = [
        Job("next", "a", 8, run_time=60, where=first),
        Job("beside", "a", 8, run_time=900, where=second),
    ]
    assert "beside" in jobs_of(decided(scheduler, *jobs), Start)


def test_a_more_important_job_breaks_a_promise_and_gets_it():
    scheduler = limited(8, backfill=1)
    decided(scheduler, Job("now", "a", 6, run_time=60), Job("next", "a", 8, run_time=60))
    decided(scheduler, Job("urgent", "a", 2, priority=1, run_time=90), now=1.0)
    assert scheduler.state("urgent") == "running"
    decided(scheduler, Job("larger", "a", 8, priority=1, run_time=9), now=2.0)
    assert (scheduler.promised("larger"), scheduler.promised("next")) == (91.0, None)


@pytest.mark.parametrize("is_last", [True, False])
def test_a_promise_to_a_more_important_job_takes_no_account_of_others(is_last):
    scheduler = limited(8, backfill=2)
    for name, seconds in (("u", 100), ("v", 10)):
        decided(scheduler, Job(name, "a", 4, priority=1, run_time=seconds))
    first = Job("first", "a", 4, run_time=100)
    urgent = Job("urgent", "a", 8, priority=1, run_time=10)
    for job in (first, urgent) if is_last else (urgent, first):
        decided(scheduler, job, now=1.0)
    assert [scheduler.promised(name) for name in ("urgent", "first")] == [100.0, 110.0]
    scheduler.finish("u", 5.0)
    assert jobs_of(scheduler.decide(5.0), Start) == []
    assert [scheduler.promised(name) for name in ("urgent", "first")] == [10.0, 20.0]
    scheduler.finish("v", 10.0)
    assert jobs_of(scheduler.decide(10.0), Start) == ["urgent"]


@pytest.mark.parametrize("priorities", [1, 3])
@pytest.mark.parametrize("seed", seeds(40))
def test_the_first_waiting_jobs_have_promises_also_if_others_are_like_them(seed, priorities):
    rng = random.Random(seed)
    most, nodes = rng.randint(1, 4), [f"n{i}" for i in range(rng.randint(1, 2))]
    devices = DeviceCluster(dict.fromkeys(nodes, NodeDevices.uniform(gpus=4)))
    scheduler, now, ends = Scheduler(devices=devices, backfill=most, preemption=False), 0.0, {}
    for number in range(40):
        now += rng.choice((0, 1, 1, 2))
        leaves = [name for name, end in ends.items() if end <= now or rng.random() < 0.05]
        for name in leaves:
            scheduler.finish(name, now)
            del ends[name]
        waiting = [name for name in scheduler if name not in ends]
        if waiting and rng.random() < 0.1:
            scheduler.cancel(rng.choice(waiting), now)
        for name in range(2 * number, 2 * number + rng.randint(0, 2)):
            seconds, priority = rng.choice((1, 3, 5, 9)), rng.randrange(priorities)
            job = Job(str(name), "a", rng.randint(1, 4), run_time=seconds, priority=priority)
            scheduler.submit(job, now)
        for name in jobs_of(scheduler.decide(now), Start):
            ends[name] = now + scheduler.job(name).run_time
        scheduler.check()
        waiting = [name for name in scheduler if name not in ends]
        waiting.sort(key=lambda name: -scheduler.job(name).priority)
        promised = [name for name in waiting if scheduler.promised(name) is not None]
        assert promised == waiting[:most]


def test_a_job_between_two_that_start_together_does_not_take_their_promise_for_ever():
    scheduler = Scheduler(
        devices=DeviceCluster({"n": NodeDevices.uniform(gpus=4)}), backfill=3, preemption=False
    )
    jobs = [
        Job("now", "a", 4, priority=2, run_time=10),
        Job("low", "a", 2),
        Job("high", "a", 2, priority=2, run_time=10, together=["low"]),
        Job("mid", "a", 4, priority=1, run_time=3),
        Job("last", "a", 3, run_time=3),
    ]
    decided(scheduler, *jobs)
    assert [scheduler.promised(name) for name in ("high", "low")] == [10.0, 10.0]


def test_a_job_is_tried_again_where_a_more_important_one_delays_the_promise_that_it_waits_for():
    scheduler = Scheduler(devices=DeviceCluster({"n": NodeDevices.uniform(gpus=4)}), backfill=4)
    for now, name, gpus, seconds, priority in (
        (0.0, "nine", 2, 18, 1),
        (1.0, "ten", 4, 3, 1),
        (10.0, "twelve", 1, 9, 1),
    ):
        decided(scheduler, Job(name, "a", gpus, run_time=seconds, priority=priority), now=now)
    assert scheduler.state("twelve") == "pending"
    urgent = Job("urgent", "a", 3, run_time=9, priority=2)
    assert "twelve" in jobs_of(decided(scheduler, urgent, now=17.0), Start)


def test_a_promise_gets_earlier_once_the_job_before_it_is_cancelled():
    scheduler = limited(8, backfill=2)
    decided(scheduler, Job("now", "a", 8, run_time=60))
    decided(scheduler, *(Job(name, "a", 8, run_time=60) for name in ("next", "last")))
    assert scheduler.promised("last") == 120.0
    scheduler.cancel("next", 1.0)
    assert scheduler.promised("last") == 60.0
    decided(scheduler, Job("more", "a", 8, run_time=60), now=1.0)
    assert [scheduler.promised(name) for name in ("last", "more")] == [60.0, 120.0]


def strict(*jobs, backfill=1):
    """4 GPUs, and a queue per tenant that no job passes; a job of 4 GPUs was promised a start."""
    queues = TenantQueues(order="arrival", blocking="fifo")
    scheduler = Scheduler(topology=flat_network("n0", gpu=4), queues=queues, backfill=backfill)
    assert said(decided(scheduler, *jobs)) == [("Start", job.name) for job in jobs]
    decided(scheduler, Job("whole", "a", 4, run_time=10.0), now=1.0)
    assert scheduler.promised("whole") is not None
    return scheduler


def test_a_job_that_returns_to_the_front_of_a_strict_queue_waits_for_none_behind_it():
    """The promised job could not start before it either."""
    scheduler = strict(Job("first", "a", 2, run_time=30.0))
    scheduler.fail("first", 2.0)
    assert said(scheduler.decide(2.0)) == [("Start", "first")]
    assert scheduler.promised("whole") == 32.0
    scheduler.check()


@pytest.mark.parametrize("backfill", [1, 3])
def test_a_job_that_returns_to_the_front_of_a_strict_queue_gets_the_promise(backfill):
    first, other = Job("first", "a", 3, run_time=30.0), Job("other", "b", 1, run_time=90.0)
    scheduler = strict(first, other, backfill=backfill)
    scheduler.fail("first", 2.0)
    late = Job("late", "b", 2, priority=1, run_time=20.0)
    assert said(decided(scheduler, late, now=2.0)) == [("Start", "late")]
    assert (scheduler.promised("first"), scheduler.promised("whole")) == (22.0, None)
    scheduler.check()


@pytest.mark.parametrize("limit", ["runtime", "max"])
def test_an_entitled_job_waits_for_no_promise_to_a_job_of_a_quota_that_has_to_share(limit):
    """Either the promise cannot be kept any more, or `large` would be evicted at once."""
    tree = gpu_quotas(4, limit=limit, a=(4, 2), b=(4, 2))
    scheduler = Scheduler(quotas=tree, backfill=1, immediate=True)
    decided(scheduler, Job("runs", "a", 2, run_time=1000), Job("large", "a", 4, run_time=60))
    assert scheduler.promised("large") == 1000.0
    decided(scheduler, Job("mine", "b", 2, run_time=5000), now=1.0)
    assert scheduler.state("mine") == "running"
    assert scheduler.promised("large") == (None if limit == "runtime" else 5001.0)


@pytest.mark.parametrize(
    "happens",
    [
        lambda scheduler: scheduler.set_node("n1", False, 1.0),
        lambda scheduler: scheduler.amend("second", 1.0, run_time=100),
    ],
)
def test_a_promise_is_up_to_date_when_it_is_asked_for(happens):
    machine = NodeDevices.uniform(gpus=4)
    devices = DeviceCluster(dict.fromkeys(("n0", "n1"), machine))
    scheduler = Scheduler(devices=devices, backfill=1)
    nodes = [Where(nodes=[node]) for node in ("n0", "n1")]
    scheduler.submit(Job("first", "a", 4, run_time=20, where=nodes[0]), 0.0)
    scheduler.submit(Job("second", "a", 4, run_time=10, where=nodes[1]), 0.0)
    scheduler.submit(Job("large", "a", 4, run_time=5), 0.0)
    scheduler.decide(0.0)
    assert scheduler.promised("large") == 10.0
    happens(scheduler)
    before = scheduler.to_bytes()
    assert scheduler.promised("large") == scheduler.forecast("large") == 20.0
    assert scheduler.to_bytes() == before
    scheduler.decide(1.0)
    assert scheduler.promised("large") == 20.0


def test_without_estimates_nothing_is_promised():
    scheduler = limited(8, backfill=1)
    jobs = [Job("now", "a", 6), Job("next", "a", 8), Job("long", "a", 2)]
    started = decided(scheduler, *jobs)
    assert jobs_of(started, Start) == ["now", "long"]
    assert scheduler.promised("next") is None


def moved(scheduler):
    (step,) = scheduler.plan_moves(FreeNodes(["n0"])).steps
    scheduler.move(step, 50.0)


@pytest.mark.parametrize(
    "happens",
    [
        moved,
        lambda scheduler: scheduler.amend("first", 50.0, run_time=150.0),
        lambda scheduler: scheduler.adopt(
            Job("runs", "a", 1, run_time=100.0), [PlacedPod("pod", 0, "n1")], 50.0
        ),
    ],
)
def test_jobs_are_tried_again_where_what_runs_ends_later_than_was_promised(happens):
    scheduler = Scheduler(topology=flat_network("n0", "n1", "n2", gpu=1), backfill=1)
    whole = Job("next", "a", [Role("w", 3)], run_time=9)
    decided(scheduler, Job("first", "a", 1, run_time=100), whole)
    decided(scheduler, Job("beside", "a", 1, run_time=70), now=40.0)
    assert scheduler.state("beside") == "pending"
    happens(scheduler)
    assert said(scheduler.decide(50.0)) == [("Start", "beside")]
    assert scheduler.promised("next") == scheduler.forecast("next") == 150.0


def test_jobs_are_tried_again_where_a_more_important_one_gets_the_promise():
    network = flat_network("n0", "n1", gpu=2)
    scheduler = Scheduler(topology=network, backfill=1, preemption=False)

    def submit(name, gpus, node, seconds, now=0.0, priority=0):
        where = Where(nodes=[node])
        job = Job(name, "a", gpus, priority=priority, run_time=seconds, where=where)
        return said(decided(scheduler, job, now=now))

    assert submit("first", 1, "n0", 60) == [("Start", "first")]
    assert submit("second", 1, "n1", 60) == [("Start", "second")]
    submit("next", 2, "n0", 60)
    submit("long", 1, "n0", 90)
    assert (scheduler.promised("next"), scheduler.state("long")) == (60.0, "pending")
    assert ("Start", "long") in submit("urgent", 2, "n1", 60, 1.0, priority=1)
    assert (scheduler.promised("urgent"), scheduler.promised("next")) == (60.0, None)


@pytest.mark.parametrize("most", [None, 1])
def test_jobs_are_tried_again_where_a_more_important_one_delays_a_promise_later_in_the_round(most):
    queues = TenantQueues(order="weighted")
    settings = {"backfill": 1, "preemption": False}
    scheduler = Scheduler(topology=flat_network("n0", gpu=2), queues=queues, **settings)
    decided(scheduler, Job("runs", "b", 1, run_time=100.0))
    decided(scheduler, Job("whole", "b", 2, priority=1, run_time=8.0), now=1.0)
    scheduler.finish("runs", 2.0)
    scheduler.submit(Job("small", "a", 1, run_time=5.0), 2.0)
    scheduler.submit(Job("urgent", "b", 1, priority=2, run_time=13.0), 2.0)
    for _ in range(1 if most is None else 9):
        scheduler.decide(2.0, most)
    assert [scheduler.state(name) for name in ("urgent", "small")] == ["running", "running"]
    assert scheduler.promised("whole") == 15.0
    scheduler.check()


def test_two_promised_jobs_do_not_wait_for_each_other_after_a_job_ahead_took_the_room_of_one():
    queues = TenantQueues(order="arrival", blocking="fifo")
    scheduler = Scheduler(topology=flat_network("n0", gpu=4), queues=queues, backfill=1)
    decided(scheduler, Job("first", "a", 2, run_time=30.0), Job("runs", "b", 2, run_time=40.0))
    decided(scheduler, *(Job(name, name, 2, run_time=9.0) for name in "ab"), now=1.0)
    scheduler.fail("first", 2.0)
    scheduler.finish("runs", 2.0)
    assert jobs_of(scheduler.decide(2.0), Start) == ["first", "a"]
    assert (scheduler.promised("a"), scheduler.promised("b")) == (None, 11.0)
    scheduler.check()


def test_a_more_important_job_whose_start_is_unknown_takes_no_promise():
    network = flat_network("n0", "n1", gpu=2)
    scheduler = Scheduler(topology=network, backfill=1, preemption=False)
    first, second = Where(nodes=["n0"]), Where(nodes=["n1"])
    runs = Job("r0", "a", 2, where=first), Job("r1", "a", 1, where=second, run_time=20.0)
    decided(scheduler, *runs, Job("next", "a", 2, where=second, run_time=9.0))
    decided(scheduler, Job("urgent", "a", 2, where=first, priority=1), now=1.0)
    decided(scheduler, Job("long", "a", 1, run_time=99.0), now=1.0)
    assert (scheduler.promised("next"), scheduler.promised("urgent")) == (20.0, None)
    assert scheduler.status("long").refusal.reason == "would delay 'next'"


def test_a_more_important_job_gets_a_promise_beside_one_whose_time_has_passed():
    scheduler = limited(8, backfill=2, preemption=False)
    decided(scheduler, Job("runs", "a", 8, run_time=10.0), Job("next", "a", 8, run_time=60.0))
    decided(scheduler, Job("urgent", "a", 8, priority=1, run_time=5.0), now=11.0)
    assert scheduler.promised("urgent") is not None


def test_no_later_job_passes_one_that_waits_for_a_start_whose_time_has_passed():
    scheduler = limited(10, backfill=1)
    jobs = [("first", 4, 10), ("second", 4, 20), ("next", 6, 60), ("small", 2, 90)]
    decided(scheduler, *(Job(name, "a", gpus, run_time=time) for name, gpus, time in jobs))
    assert (scheduler.promised("next"), scheduler.state("small")) == (10.0, "pending")
    # Both that run should have ended by now; then there is room for both that wait.
    actions = decided(scheduler, Job("later", "a", 1, run_time=90), now=21.0)
    assert jobs_of(actions, Start) == ["small"]


@pytest.mark.parametrize("passes", ["no event", "advance"])
def test_jobs_are_tried_again_when_only_time_passes_after_a_promised_start(passes):
    scheduler = limited(10, "t", backfill=1)
    sizes = {"x": (4, 10), "y": (4, 20), "large": (6, 60), "small": (2, 90)}
    jobs = [Job(name, "t", gpus, run_time=time) for name, (gpus, time) in sizes.items()]
    assert jobs_of(decided(scheduler, *jobs), Start) == ["x", "y"]
    assert scheduler.promised("large") == 10.0
    for now in (10.0, 11.0, 19.0):  # "y" may run on
        assert scheduler.decide(now) == []
    if passes == "advance":
        scheduler.advance(20.5)
    assert said(scheduler.decide(21.0)) == [("Start", "small")]
    assert scheduler.promised("large") == 21.0


def test_queues_that_backfill_by_themselves_are_refused():
    with pytest.raises(ValueError, match="use Scheduler"):
        Scheduler(queues=TenantQueues(blocking="backfill"))
    with pytest.raises(ValueError, match="backfill=-1"):
        Scheduler(backfill=-1)


def test_a_job_that_waits_on_idle_cells_keeps_its_promise():
    scheduler = make_scheduler(COMPOSITIONS["all with lending"], backfill=1)
    decided(scheduler, Job("first", "b", 4, run_time=100), Job("next", "b", 4, run_time=500))
    assert (scheduler.state("next"), scheduler.promised("next")) == ("lent", 100.0)
    decided(scheduler, Job("beside", "b", 1, run_time=90), now=1.0)
    assert (scheduler.state("beside"), scheduler.promised("next")) == ("running", 100.0)
    scheduler.amend("first", 2.0, run_time=300)
    decided(scheduler, Job("more", "b", 1, run_time=290), now=2.0)
    assert (scheduler.state("more"), scheduler.promised("next")) == ("running", 300.0)
    scheduler.check()


def test_a_forecast_takes_no_promise_back():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=1), backfill=2)
    roles = {"first": Role("w", 2), "next": Role("w", 2), "last": Role("v", 2)}
    decided(scheduler, *[Job(name, "a", [role], run_time=9) for name, role in roles.items()])
    before = scheduler.to_bytes()
    assert (scheduler.promised("next"), scheduler.promised("last")) == (9.0, 18.0)
    assert scheduler.forecast("next") == 9.0
    assert scheduler.to_bytes() == before


@pytest.mark.parametrize("role", [Role("w", 2), Role("w", 2, min_pods=1)])
def test_a_pod_that_joins_its_job_again_ends_with_it(role):
    scheduler = Scheduler(topology=flat_network("n0", "n1", "n2", gpu=1), backfill=1)
    train = Job("train", "a", [role], run_time=100, on_failure="pod")
    decided(scheduler, train, Job("next", "a", [Role("w", 3)], run_time=9))
    scheduler.fail("train", 50.0, "w/1")
    assert said(scheduler.decide(50.0)) == [("Start", "train")]
    assert (scheduler.promised("next"), scheduler.forecast("next")) == (100.0, 100.0)


def test_pods_above_the_least_end_with_their_job():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=1), backfill=1)
    train = Job("train", "a", [Role("w", 1, max_pods=2)], run_time=100)
    later = Job("next", "a", [Role("w", 2)], run_time=9, guaranteed=False)
    decided(scheduler, train, later)
    assert (len(scheduler.status("train").pods), scheduler.promised("next")) == (2, 100.0)
    scheduler.amend("next", 1.0, priority=1)
    scheduler.decide(1.0)
    assert scheduler.promised("next") == 100.0


def test_a_pod_that_would_grow_where_another_job_is_promised_its_start_waits():
    network = rack_network({f"n{i}": f"r{i > 0}" for i in range(4)}, gpu=4)
    scheduler = Scheduler(topology=network, backfill=1, preemption=False)
    grows = [Role("w", 1, gpus=4, max_pods=2)]
    near, pair = Where(must="rack"), [Role("w", 2, gpus=4)]
    blocks = [Job(f"b{i}", "a", 4, where=Where(nodes=[f"n{i}"]), run_time=1.0) for i in (0, 3)]
    ends = Job("ends", "a", 4, where=Where(nodes=["n2"]), run_time=9.0)
    train = Job("train", "a", grows, where=near, run_time=99.0)
    head = Job("head", "a", pair, where=near, run_time=1.0)
    decided(scheduler, *blocks, ends, train, head)
    for i in (0, 3):
        scheduler.finish(f"b{i}", 1.0)
    assert scheduler.promised("head") == 9.0
    assert said(scheduler.decide(1.0)) == []  # the pod would be on n3, not on n0, which is idle
    scheduler.finish("ends", 9.0)
    assert said(scheduler.decide(9.0)) == [("Start", "head")]


def test_a_pod_above_the_least_takes_no_promise_from_a_job():
    scheduler = limited(8, backfill=1, preemption=False)
    train = Job("train", "a", [Role("w", 2, gpus=2, min_pods=1, max_pods=2)], run_time=50.0)
    decided(scheduler, Job("one", "a", 6, run_time=10.0), train)
    decided(scheduler, Job("head", "a", 6, run_time=9.0), now=1.0)
    assert scheduler.promised("head") == 10.0
    assert said(decided(scheduler, Job("late", "a", 1, run_time=99.0), now=2.0)) == []


def pair_of(*gpus, **more):
    names = [f"p{i}" for i in range(len(gpus))]
    return [
        Job(name, "a", size, together=[other for other in names if other != name], **more)
        for name, size in zip(names, gpus, strict=True)
    ]


def test_jobs_that_start_together_are_promised_one_start():
    scheduler = limited(8, backfill=1, preemption=False)
    decided(scheduler, *(Job(f"r{end}", "a", 4, run_time=end) for end in (10.0, 5.0)))
    decided(scheduler, *pair_of(4, 4, run_time=1.0), now=1.0)
    assert [scheduler.promised(name) for name in ("p0", "p1")] == [10.0, 10.0]
    scheduler.finish("r5.0", 5.0)
    late = [Job("late", "a", 4, run_time=99.0), Job("short", "a", 2, run_time=5.0)]
    assert said(decided(scheduler, *late, now=5.0)) == [("Start", "short")]
    scheduler.finish("short", 10.0)
    scheduler.finish("r10.0", 10.0)
    assert said(scheduler.decide(10.0)) == [("Start", "p0"), ("Start", "p1")]
    scheduler.check()


def test_promises_are_renewed_while_victims_leave_for_a_job_that_another_starts_with():
    scheduler = Scheduler(
        queues=TenantQueues(blocking="best-effort"),
        quotas=gpu_quotas(8, a=(8, 8)),
        backfill=2,
        eviction_limits=[EvictionLimit("a", min_run_time=5.0)],
    )
    decided(scheduler, Job("weak", "a", 8, guaranteed=False, run_time=50.0))
    first = Job("first", "a", 4, priority=5)
    decided(scheduler, first, Job("second", "a", 2, together=["first"]), now=1.0)
    assert [scheduler.promised(name) for name in ("first", "second")] == [50.0, 50.0]
    decided(scheduler, Job("late", "a", 4, run_time=99.0), now=6.0)
    assert scheduler.state("first") == "reserved"
    decided(scheduler, Job("later", "a", 3, run_time=99.0), now=51.0)
    scheduler.check()
    scheduler.stopped("weak", 52.0)
    assert said(scheduler.decide(52.0)) == [("Start", "first"), ("Start", "second")]


def test_jobs_that_never_fit_together_are_promised_nothing():
    scheduler = limited(8, backfill=1, preemption=False)
    decided(scheduler, Job("runs", "a", 4, run_time=9.0))
    decided(scheduler, *pair_of(5, 5, run_time=1.0), now=1.0)
    assert [scheduler.promised(name) for name in ("p0", "p1")] == [None, None]
    assert said(decided(scheduler, Job("late", "a", 4, run_time=99.0), now=1.0)) == [
        ("Start", "late")
    ]


def test_jobs_that_wait_for_another_job_to_start_are_promised_nothing():
    scheduler = limited(8, backfill=1, preemption=False)
    first, second = pair_of(4, 4, run_time=1.0)
    decided(scheduler, Job("runs", "a", 4, run_time=9.0), Job("large", "a", 8))
    decided(scheduler, first.replace(after=["large"]), second, now=1.0)
    assert scheduler.promised("p0") is None


def test_groups_that_share_companions_do_not_take_promises_from_each_other_for_ever():
    scheduler = Scheduler(topology=flat_network("n0", gpu=2), backfill=1)
    decided(scheduler, Job("runs", "a", 2, run_time=3.0))
    elastic = [Role("w", 1, gpus=1, max_pods=2)]
    scheduler.submit(Job("j6", "a", elastic, priority=1, together=["j7"]), 1.0)
    spare = {"guaranteed": False, "run_time": 3.0}
    scheduler.submit(Job("j7", "b", 1, priority=2, together=["j1", "j8"], **spare), 1.0)
    scheduler.submit(Job("j8", "b", 1, together=["j1", "j9"]), 1.0)
    scheduler.submit(Job("j9", "b", elastic, priority=2, together=["j10"]), 1.0)
    scheduler.submit(Job("j10", "a", 1, priority=1, together=["j9"]), 1.0)
    assert {type(action) for action in scheduler.decide(1.0)} == {Wait}
    assert scheduler.decide(1.0) == []


def test_a_job_whose_own_promised_time_has_passed_delays_later_promises():
    queues = TenantQueues(order="arrival")
    scheduler = Scheduler(topology=flat_network("n0", gpu=2), queues=queues, backfill=1)
    runs = Job("ends", "a", 1, run_time=10.0), Job("runs", "a", 1, run_time=18.0)
    decided(scheduler, *runs)
    decided(scheduler, Job("small", "a", 1, run_time=8.0), Job("whole", "b", 2, run_time=8.0))
    assert (scheduler.promised("small"), scheduler.promised("whole")) == (10.0, 18.0)
    scheduler.finish("ends", 11.0)
    assert jobs_of(scheduler.decide(11.0), Start) == ["small"]
    assert scheduler.promised("whole") == 19.0
