"""Workers and the directory over slow lines: arbitrated evictions never take a last copy.

Every worker has a line to the directory and one back. Messages on a line arrive in order, after any
time. Late copies of reports and lease requests arrive whenever they like; lines break, and what was
on them is lost; the worker then joins again with all that it has.
"""

import random
from collections import deque

import pytest
from profiles import seeds

from hivecore.errors import FullReportNeededError
from hivecore.reference.replicas import ReplicaAwareCache as CacheTwin
from hivecore.reference.replicas import ReplicaDirectory as DirectoryTwin
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory


class Cluster:
    def __init__(self, seed, workers, blocks, capacity, arbitrated, classes):
        self.random = random.Random(seed)
        self.blocks = blocks
        self.arbitrated = arbitrated
        directory_class, cache_class = classes
        self.directory = directory_class(workers, blocks)
        self.caches = [cache_class(capacity, blocks, arbitrated=arbitrated) for _ in range(workers)]
        self.up = [deque() for _ in range(workers)]
        self.down = [deque() for _ in range(workers)]
        self.strays = []  # messages that were sent again and arrive at any time
        self.evictions = self.losses = self.breaks = 0
        for worker in range(workers):
            self.join(worker)

    # What workers do

    def join(self, worker):
        self.up[worker].clear()
        self.down[worker].clear()
        self.up[worker].append(("join", self.caches[worker].full_report()))
        while self.up[worker]:  # setting up a line waits for the directory
            self.arrive(worker)

    def access(self, worker):
        cache = self.caches[worker]
        block = int(self.blocks * self.random.random() ** 2)
        cache.access(block)
        victim = cache.last_evicted
        if victim >= 0:
            self.evictions += 1
            self.losses += not any(victim in other for other in self.caches)

    def ask(self, worker):
        if self.arbitrated:
            wanted = self.caches[worker].propose(self.random.randint(1, 3)).tolist()
            self.up[worker].append(("lease", wanted))

    def heartbeat(self, worker):
        self.up[worker].append(("report", self.caches[worker].heartbeat()))

    def unload(self):
        """All workers choose to drop the same blocks, which no worker wants to keep."""
        for block in self.random.sample(range(self.blocks), self.blocks // 2):
            for cache in self.caches:
                if block in cache:
                    cache.discard(block)
        self.settle()

    # What lines do

    def arrive(self, worker):
        if not self.up[worker]:
            return
        kind, content = self.up[worker].popleft()
        if kind != "join" and self.random.random() < 0.2:
            self.strays.append((worker, kind, content))
        self.process(worker, kind, content, answer=True)

    def stray(self, _):
        if self.strays:
            index = self.random.randrange(len(self.strays))
            worker, kind, content = self.strays.pop(index)
            try:
                self.process(worker, kind, content, answer=False)
            except FullReportNeededError:
                raise AssertionError("a late copy was taken for a new report") from None

    def process(self, worker, kind, content, answer):
        deltas = {}
        if kind == "join":
            deltas = self.directory.join(worker, *content)
        elif kind == "report":
            deltas = self.directory.report(worker, *content)
            assert answer or not deltas
        else:
            granted = self.directory.lease(worker, content).tolist()
            if answer:
                self.down[worker].append(("answer", (content, granted)))
        for other, delta in deltas.items():
            self.down[other].append(("deltas", delta))

    def receive(self, worker):
        if self.down[worker]:
            kind, content = self.down[worker].popleft()
            if kind == "answer":
                self.caches[worker].answer(*content)
            else:
                self.caches[worker].apply(*content)

    def break_line(self, worker):
        if self.random.random() < 0.1:
            self.breaks += 1
            self.join(worker)

    # All of it

    def run(self, steps):
        actions = [self.access] * 6 + [self.ask, self.heartbeat]
        actions += [self.arrive] * 3 + [self.receive] * 3 + [self.stray, self.break_line]
        for _ in range(steps):
            self.random.choice(actions)(self.random.randrange(len(self.caches)))

    def settle(self):
        """Deliver everything, without further reads."""
        for worker in range(len(self.caches)):
            self.heartbeat(worker)
        for lines, deliver in ((self.up, self.arrive), (self.down, self.receive)):
            for worker, line in enumerate(lines):
                while line:
                    deliver(worker)

    def check(self):
        self.directory.check()
        for worker, cache in enumerate(self.caches):
            cache.check()
            assert self.directory.held(worker).tolist() == cache.cached().tolist()
            for block in range(self.blocks):
                others = self.directory.replicas(block) - 1 if block in cache else 0
                assert cache.count(block) == others


NATIVE = (ReplicaDirectory, ReplicaAwareCache)
TWINS = (DirectoryTwin, CacheTwin)


@pytest.mark.parametrize("seed", seeds(40))
def test_arbitrated_evictions_never_take_a_last_copy(seed):
    workers = 3 + seed % 9
    cluster = Cluster(seed, workers, 30, 4 + seed % 11, True, NATIVE)
    for _ in range(20):
        cluster.run(400)
        assert cluster.losses == 0
        cluster.settle()
        cluster.check()
        cluster.unload()
    assert cluster.evictions > 10
    assert cluster.breaks > 0


def test_hundreds_of_workers_arbitrate():
    cluster = Cluster(7, 300, 60, 8, True, NATIVE)
    for _ in range(3):
        cluster.run(8_000)
        assert cluster.losses == 0
        cluster.settle()
        cluster.unload()
    cluster.check()
    assert cluster.evictions > 100


def test_twins_arbitrate_alike():
    ours, theirs = (Cluster(3, 5, 30, 9, True, classes) for classes in (NATIVE, TWINS))
    for cluster in (ours, theirs):
        cluster.run(2000)
    assert ours.evictions == theirs.evictions > 0
    for worker, (cache, twin) in enumerate(zip(ours.caches, theirs.caches, strict=True)):
        for holding in ("held", "leases"):
            kernel_holds, twin_holds = (
                getattr(cluster.directory, holding)(worker).tolist() for cluster in (ours, theirs)
            )
            assert kernel_holds == twin_holds
        assert ours.directory.sequence(worker) == theirs.directory.sequence(worker)
        assert cache.eviction_order().tolist() == twin.eviction_order().tolist()
        counts = [[side.count(block) for block in range(30)] for side in (cache, twin)]
        assert counts[0] == counts[1]
        assert cache.leased == twin.leased
        beats = [[part.tolist() for part in side.heartbeat()[:3]] for side in (cache, twin)]
        assert beats[0] == beats[1]


def test_naive_evictions_do_lose_last_copies_and_yet_count_right_in_the_end():
    cluster = Cluster(1, 5, 30, 9, False, NATIVE)
    cluster.run(5000)
    assert cluster.losses > 0
    cluster.settle()
    cluster.check()
