"""Years of a cache in seconds: everything at random, crashes included, and no drift."""

from contextlib import suppress

import numpy as np
import pytest
from profiles import times

from hivecore.caching import UniformCache

SIZES = {"images": 20_000, "texts": 6_000, "shards": 500, "tiny": 3, "records": 1_500}


def plain(answer):
    if isinstance(answer, tuple):
        return [part.tolist() for part in answer]
    return answer.tolist() if isinstance(answer, np.ndarray) else answer


class Churn:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.cache = UniformCache(1_000_000, seed)
        self.shadow = None  # the cache before the crash, which must go on in the same way
        self.operations = self.checks = self.crashes = 0
        self.reads = dict.fromkeys(SIZES, 0)
        for name, items in SIZES.items():
            sizes = self.rng.integers(1, 200, items) if name in ("shards", "records") else None
            size = None if sizes is not None else 40
            self.cache.add_dataset(name, items, size, sizes=sizes, quota=150_000)
        self.positions = {}
        for job in "pqrstu":
            self.attach(job)

    def call(self, method, *arguments):
        answer = getattr(self.cache, method)(*arguments)
        if self.shadow is not None:
            other = getattr(self.shadow, method)(*arguments)
            assert plain(answer) == plain(other)
        return answer

    def attach(self, job):
        name = str(self.rng.choice(list(SIZES)))
        self.cache.attach(job, name)
        if self.shadow is not None:
            self.shadow.attach(job, name)
        self.positions[job] = (name, self.rng.permutation(SIZES[name]), 0)

    def read_on(self, job, count):
        """A loader's next reads, in the order of its epoch."""
        name, order, position = self.positions[job]
        if position == len(order):
            order, position = self.rng.permutation(len(order)), 0
        reads = order[position : position + count]
        self.positions[job] = (name, order, position + len(reads))
        self.reads[name] += len(reads)
        return name, reads

    def step(self):
        rng = self.rng
        deed = rng.choice(12, p=np.array([30, 12, 10, 6, 5, 4, 4, 3, 3, 1, 1, 1]) / 80)
        name = str(rng.choice(list(SIZES)))
        job = str(rng.choice(list(self.positions)))
        some = rng.integers(0, SIZES[name], rng.integers(0, 30))
        used = 1
        match deed:
            case 0:
                name, reads = self.read_on(job, int(rng.integers(1, 500)))
                dtype = np.int32 if rng.random() < 0.5 else np.int64
                self.call("access", name, reads.astype(dtype), job)
                used = len(reads)
            case 1:
                name, reads = self.read_on(job, 100)
                for item in reads.tolist():
                    self.call("access", name, item, job)
                used = len(reads)
            case 2:
                self.call("access", name, some)
                self.reads[name] += len(some)
                used = max(len(some), 1)
            case 3:
                room = self.cache.unassigned + self.cache.statistics(name)["quota"]
                pinned = self.cache.statistics(name)["pinned"]
                quota = int(rng.integers(pinned, max(room, pinned) + 1))
                shrink = str(rng.choice(["random", "read_first", "lazy"]))
                self.call("set_quota", name, quota, shrink)
            case 4:
                name = self.positions[job][0]
                until = [None, "first_epoch", "job_end"][rng.integers(3)]
                self.call("warm", name, rng.integers(0, SIZES[name], 20), job, until)
            case 5:
                with suppress(ValueError):  # no room: nothing may have changed, the audit tells
                    self.call("pin", name, some[:4])
            case 6:
                self.call("unpin", name, some)
            case 7:
                self.call("drain_changes", name)
            case 8:
                self.call("start_epoch", job)
                name, order, _ = self.positions[job]
                self.positions[job] = (name, rng.permutation(len(order)), 0)
            case 9:
                self.call("unload", name, bool(rng.integers(2)))
            case 10:
                for cache in filter(None, (self.cache, self.shadow)):
                    cache.detach(job)
                self.attach(job)
            case 11:
                self.crash()
        self.operations += used

    def crash(self):
        if self.shadow is not None:
            assert self.shadow.to_bytes() == self.cache.to_bytes()
        saved = self.cache.to_bytes()
        self.shadow, self.cache = self.cache, UniformCache.from_bytes(saved)
        assert self.cache.to_bytes() == saved
        self.crashes += 1

    def check(self):
        self.cache.check()
        self.checks += 1
        total = 0
        for name in SIZES:
            counted = self.cache.statistics(name)
            assert counted["hits"] + counted["misses"] == self.reads[name]
            for what, now in (("", counted["cached_items"]), ("_bytes", counted["used"])):
                came = counted[f"admitted{what}"] + counted[f"warmed{what}"]
                assert came - counted[f"evicted{what}"] == now
            total += counted["used"]
        assert total == self.cache.used <= self.cache.capacity

    def run(self, operations):
        since = 0
        while self.operations < operations:
            before = self.operations
            self.step()
            since += self.operations - before
            if since >= 1000:
                self.check()
                since = 0


@pytest.mark.parametrize(
    "operations", [300_000, pytest.param(times(10**7), marks=pytest.mark.slow)]
)
def test_nothing_drifts_in_a_long_life_with_crashes(operations):
    churn = Churn(seed=operations)
    churn.run(operations)
    assert churn.checks > operations // 1500
    assert churn.crashes > operations // 300_000
    assert min(churn.cache.statistics(name)["evicted"] for name in SIZES) > 0
