"""Objects that several threads change, save, copy and read at the same time.

Each thread takes random steps. Copies and restored states of whatever moment must pass their own
audit, and so must the object in the end. HIVECORE_STRESS is how many seconds all objects together
are used; some, if it is not set.
"""

import os
import pickle
import random
import sys
import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from interop.hived.clusters import FLAT, Hived, config, nodes
from objects import thread_books

from hivecore.caching import (
    ClairvoyantCache,
    EpochShuffle,
    PolicyCache,
    UniformCache,
    UniformMapping,
)
from hivecore.cells import (
    AffinityGroup,
    BuddyAllocator,
    CellCluster,
    Chain,
    ClusterSpec,
)
from hivecore.errors import (
    FullReportNeededError,
    NoFreeCellError,
    StaleDecisionError,
)
from hivecore.interleaving import Grouper
from hivecore.interop.hived import HivedScheduler
from hivecore.matching import Matcher
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory
from hivecore.storage import RemoteIOLimiter

THREADS = 4

NODES = Chain(["gpu", "pair", "node"], fanouts=[2, 4], roots=8)
SPEC = ClusterSpec(
    chains={"V100": NODES},
    virtual_clusters={"A": {"V100": {"node": 4}}, "B": {"V100": {"node": 2, "pair": 6}}},
)


# One step of a thread: `mine` is what it holds, `new` a number that no thread has had.


def use_buddies(buddies, rng, mine, new):
    if mine and rng.random() < 0.5:
        buddies.release(*mine.pop(rng.randrange(len(mine))))
    elif rng.random() < 0.2:
        levels = np.full(6000, 1)
        cells = buddies.allocate_many(levels)
        cells = cells[cells >= 0]
        buddies.release_many(np.ones(len(cells), np.int64), cells)
    else:
        level = rng.randint(1, 5)
        try:
            mine.append((level, buddies.allocate(level)))
        except NoFreeCellError:
            assert len(buddies.free_cells(level)) >= 0


def use_cluster(cluster, rng, mine, new):
    if mine and rng.random() < 0.5:
        cluster.release(mine.pop(rng.randrange(len(mine))))
        return
    group = AffinityGroup(
        f"group {new}", rng.choice("AB"), [(rng.randint(1, 2), rng.choice([1, 2, 8]))]
    )
    decision = cluster.schedule(group)
    if decision.outcome == "bind":
        try:
            cluster.commit(decision)
            mine.append(group.name)
        except StaleDecisionError:  # another thread was faster
            assert group.name not in cluster
    cluster.set_health(f"V100/{rng.randrange(8)}", rng.random() < 0.9)
    cluster.status()


def use_hived(scheduler, rng, mine, new):
    if mine and rng.random() < 0.5:
        scheduler.delete(mine.pop(rng.randrange(len(mine))))
        return
    pod, size = f"pod {new}", rng.choice([1, 2, 4])
    spec = Hived.spec(pod, rng.choice("AB"), size, rng.randint(-1, 2))
    if scheduler.schedule(pod, spec).outcome == "bind":
        try:
            scheduler.allocate(pod)
            mine.append(pod)
        except StaleDecisionError:  # another thread was faster
            scheduler.delete(pod)
    else:
        scheduler.delete(pod)
    scheduler.set_node(rng.choice(["n1", "n2", "n3"]), rng.random() < 0.9)
    scheduler.status()


def use_uniform_cache(cache, rng, mine, new):
    if mine and rng.random() < 0.3:
        cache.detach(mine.pop(rng.randrange(len(mine))))
    elif len(mine) < 3 and rng.random() < 0.3:
        cache.attach(f"job {new}", "data")
        mine.append(f"job {new}")
    elif rng.random() < 0.2:
        cache.set_quota("data", rng.randint(0, 20_000), shrink=rng.choice(["random", "lazy"]))
    else:
        many = rng.choice([1, 100, 10_000])
        out = np.empty(many, bool) if rng.random() < 0.5 else None
        ids = np.random.default_rng(new).integers(0, 20_000, many)
        cache.access("data", ids, job=mine[0] if mine else None, out=out)
    cache.statistics("data"), cache.cached("data"), cache.jobs(), cache.jobs("data")


def use_mapping(mapping, rng, mine, new):
    key = rng.randrange(200)
    rng.choice(
        [
            lambda: mapping.__setitem__(key, "x" * rng.randint(0, 9)),
            lambda: mapping.pop(key, None),
            lambda: mapping.get(key),
            lambda: mapping.setdefault(key, "abc"),
            lambda: key in mapping,
        ]
    )()


def use_policy_cache(cache, rng, mine, new):
    many = rng.choice([1, 10, 20_000])
    ids = np.random.default_rng(new).integers(0, 5_000, many)
    cache.access(ids, out=np.empty(many, bool))
    cache.cached(), len(cache), 17 in cache


def use_clairvoyant_cache(cache, rng, mine, new):
    if mine and rng.random() < 0.3:
        cache.detach(mine.pop())
    elif len(mine) < 2:
        cache.attach(new, rng.randrange(2), EpochShuffle(new, 300), rate=rng.uniform(1, 5))
        mine.append(new)
    else:
        cache.access(mine[0], rng.choice([1, 200]))
        cache.set_rate(mine[0], rng.uniform(1, 5)), cache.uses(mine[0]), cache.jobs


def use_directory(directory, rng, mine, new):
    worker, other = rng.randrange(8), rng.randrange(8)
    blocks = rng.sample(range(500), 20)
    try:
        directory.report(worker, added=blocks[:10], removed=blocks[10:])
        directory.lease(worker, blocks)
    except FullReportNeededError:
        directory.join(worker, held=blocks)
    if rng.random() < 0.1:
        directory.remove_worker(other)
        with suppress(ValueError):  # another thread has let it grow further
            directory.grow(directory.blocks + 1)
    directory.holders(blocks[0]), directory.held(other), directory.leases(worker)


def use_replica_cache(cache, rng, mine, new):
    blocks = np.random.default_rng(new).integers(0, 500, rng.choice([1, 10, 10_000]))
    cache.access_many(blocks)
    cache.apply(blocks[:5], np.ones(len(blocks[:5]), np.int64))
    cache.access(int(blocks[0]))
    cache.heartbeat(), cache.eviction_order(), cache.cached()
    if rng.random() < 0.1:
        with suppress(ValueError):
            cache.grow(cache.blocks + 1)


def use_limiter(limiter, rng, mine, new):
    if mine and rng.random() < 0.3:
        limiter.remove_job(mine.pop(), now_ns=new)
    elif len(mine) < 3:
        mine.append(limiter.add_job(1000, 1000, now_ns=new))
    else:
        limiter.take(mine[0], rng.randint(0, 1000), now_ns=new)
        limiter.take_many([mine[1]] * 5000, [1] * 5000, now_ns=new)
        limiter.spare(now_ns=new)


def use_matcher(matcher, rng, mine, new):
    if mine and rng.random() < 0.5:
        matcher.remove_vertex(mine.pop())
    else:
        with suppress(ValueError):  # another thread has added a vertex: the row is too short
            mine.append(matcher.add_vertex(np.random.default_rng(new).random(matcher.n)))
    if mine:
        matcher.set_edge(mine[0], (mine[0] + 1) % 4, rng.random())
    matcher.solve()


def use_grouper(grouper, rng, mine, new):
    if mine and rng.random() < 0.5:
        grouper.remove(mine.pop(rng.randrange(len(mine))))
    else:
        durations = [rng.randint(1, 9) for _ in range(3)]
        grouper.add(new, durations, gpus=rng.choice([1, 2]))
        mine.append(new)
    grouper.groups()


def hived():
    owned = {"A": {"NODE": 2}, "B": {"NODE": 2}}
    scheduler = HivedScheduler(config(FLAT, nodes("n1", "n2", "n3", "n4"), owned))
    for node in ("n1", "n2", "n3", "n4"):
        scheduler.set_node(node, True)
    return scheduler


def uniform_cache():
    cache = UniformCache(capacity=20_000)
    cache.add_dataset("data", items=20_000, item_size=1, quota=5_000)
    return cache


CASES = {
    "BuddyAllocator": (lambda: BuddyAllocator([2] * 8, roots=40), use_buddies),
    "CellCluster": (lambda: CellCluster(SPEC), use_cluster),
    "HivedScheduler": (hived, use_hived),
    "UniformCache": (uniform_cache, use_uniform_cache),
    "UniformMapping": (lambda: UniformMapping(300, getsizeof=len), use_mapping),
    "PolicyCache": (lambda: PolicyCache("s3fifo", 5_000, 500), use_policy_cache),
    "ClairvoyantCache": (lambda: ClairvoyantCache(100, [300, 300]), use_clairvoyant_cache),
    "ReplicaDirectory": (lambda: ReplicaDirectory(8, 500), use_directory),
    "ReplicaAwareCache": (lambda: ReplicaAwareCache(50, 500), use_replica_cache),
    "RemoteIOLimiter": (lambda: RemoteIOLimiter(10**6, 10**6, lend=True), use_limiter),
    "Matcher": (lambda: Matcher(np.ones((4, 4))), use_matcher),
    "Grouper": (lambda: Grouper(3, capacity=6), use_grouper),
}
BOOKS = {
    "NetworkTopology": thread_books.TopologyBooks,
    "DeviceCluster": thread_books.DeviceBooks,
    "QuotaTree": thread_books.QuotaBooks,
    "TenantQueues": thread_books.QueueBooks,
    "Coscheduler": thread_books.GangBooks,
    "Scheduler": thread_books.SchedulerBooks,
}
SECONDS = float(os.environ.get("HIVECORE_STRESS") or 8.0) / (len(CASES) + len(BOOKS))


def look(thing):
    """Read every property, save and copy."""
    for name in dir(type(thing)):
        if not name.startswith("_") and not callable(getattr(type(thing), name)):
            getattr(thing, name)
    assert repr(thing) and sys.getsizeof(thing) > 0
    thing.copy().check()
    pickle.loads(pickle.dumps(thing)).check()


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def use_by_threads(thing, use):
    """Let threads take steps with an object and look at it, for some time."""
    errors = []
    stop = time.monotonic() + SECONDS
    begin = threading.Barrier(THREADS)

    def run(number):
        rng, mine, new = random.Random(number), [], number
        try:
            begin.wait()
            while not errors and (new < 10 * THREADS or time.monotonic() < stop):
                use(thing, rng, mine, new)
                if rng.random() < 0.2:
                    look(thing)
                new += THREADS
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    thing.check()


@pytest.mark.parametrize("name", CASES)
def test_an_object_that_threads_share_stays_sound(name, frequent_switches):
    make, use = CASES[name]
    use_by_threads(make(), use)


@pytest.mark.parametrize("name", BOOKS)
def test_what_threads_were_answered_is_what_was_done(name, frequent_switches):
    books = BOOKS[name]()
    thing = books.make()
    use_by_threads(thing, books.use)
    books.compare(thing)
    thing.check()


@contextmanager
def overwritten_ids(good):
    """A copy of the ids in which another thread puts one bad id at a time.

    So a check of all of them before they are used seldom meets it.
    """
    ids, stop = good.copy(), threading.Event()

    def scribble():
        rng = random.Random(1)
        while not stop.is_set():
            position = rng.randrange(len(ids))
            ids[position] = 1 << 50
            ids[position] = good[position]

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        yield ids
    finally:
        stop.set()
        thread.join()


def test_ids_that_are_overwritten_during_a_batch_do_no_harm():
    cache = UniformCache(capacity=2_000_000)
    cache.add_dataset("equal", items=1_000_000, item_size=1, quota=500_000)
    cache.add_dataset("sized", items=1_000_000, sizes=np.full(1_000_000, 1), quota=500_000)
    for dataset in ("equal", "sized"):
        cache.attach(dataset, dataset)
    good = np.random.default_rng(1).permutation(1_000_000)
    out = np.empty(len(good), bool)
    answers = set()
    with overwritten_ids(good) as ids:
        for step in range(24):
            dataset = ("equal", "sized")[step % 2]
            job, mask = (dataset if step & 2 else None), (out if step & 4 else None)
            try:
                answers.add(cache.access(dataset, ids, job=job, out=mask) >= 0)
            except ValueError as error:
                answers.add(str(error).partition("[")[0].partition(":")[0])
    assert answers <= {True, "items"}
    cache.check()


def test_ids_that_are_overwritten_in_the_batch_that_ends_an_epoch_do_no_harm():
    cache = UniformCache(capacity=1_000_000)
    cache.add_dataset("d", items=1_000_000, item_size=1, quota=500_000)
    cache.attach("d", "d")
    good = np.random.default_rng(1).permutation(1_000_000)
    cache.access("d", good)
    with overwritten_ids(good) as ids:
        for _ in range(20):
            cache.access("d", good[:1000], job="d")
            with suppress(ValueError):
                cache.access("d", ids, job="d")
    cache.check()
