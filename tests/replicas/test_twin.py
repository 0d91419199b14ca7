"""Kernel == twin: the same operations on both give equal answers; an audit after every step."""

import copy
import itertools
import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from profiles import examples

from hivecore.errors import FullReportNeededError
from hivecore.reference.replicas import ReplicaAwareCache as CacheTwin
from hivecore.reference.replicas import ReplicaDirectory as DirectoryTwin
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory

BLOCKS = 12
blocks = st.integers(0, BLOCKS - 1)
batches = st.lists(blocks, max_size=30)


def plain(answer):
    """An answer with its arrays as lists, and their dtypes."""
    if isinstance(answer, np.ndarray):
        return str(answer.dtype), answer.tolist()
    if isinstance(answer, dict):
        return {key: plain(value) for key, value in answer.items()}
    if isinstance(answer, tuple):
        return tuple(map(plain, answer))
    return answer


class Twins(RuleBasedStateMachine):
    def both(self, call):
        """The kernel's answer, which must be the twin's, be it a value or an error."""
        answers = []
        for side in (self.kernel, self.twin):
            try:
                answers.append(plain(call(side)))
            except (ValueError, KeyError, FullReportNeededError) as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        return answers[0]

    @rule()
    def go_on_with_a_copy(self):
        copied = self.kernel.copy()
        self.spoil()
        self.kernel = copied

    @rule()
    def go_on_with_the_saved_state(self):
        self.kernel = pickle.loads(pickle.dumps(self.kernel))

    @invariant()
    def equal_and_sound(self):
        if hasattr(self, "kernel"):
            self.kernel.check()
            self.twin.check()


def what_follows(cache):
    """What the cache keeps for later: leases, proposals, refusals, and what the directory knows."""
    copied = copy.deepcopy(cache)
    result = [copied.clock, copied.last_evicted, copied.victim()]
    for _ in range(2):  # the first heartbeat ends what the second shows again
        if copied.arbitrated:
            wanted = copied.propose(BLOCKS)
            result.append(plain(wanted))
            copied.answer(wanted, [True] * len(wanted))
        result += [copied.leased, plain(copied.heartbeat()), plain(copied.eviction_order())]
    return result


class CacheMachine(Twins):
    @initialize(
        capacity=st.integers(1, 15),
        weights=st.sampled_from([(1e-5, 1000.0), (1.0, 3.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]),
        max_count=st.sampled_from([0, 1, 3, 8, 63]),
        arbitrated=st.booleans(),
    )
    def build(self, capacity, weights, max_count, arbitrated):
        options = {"alpha": weights[0], "beta": weights[1]}
        options |= {"max_count": max_count, "arbitrated": arbitrated}
        self.kernel = ReplicaAwareCache(capacity, BLOCKS, **options)
        self.twin = CacheTwin(capacity, BLOCKS, **options)

    def spoil(self):
        self.kernel.access_many(list(range(BLOCKS)) * 2)
        self.kernel.heartbeat()

    @rule(block=blocks, copies=st.integers(0, 9))
    def access(self, block, copies):
        victim = self.both(lambda cache: cache.victim())
        full = len(self.kernel) == self.kernel.capacity
        if not self.both(lambda cache: cache.access(block, copies)):
            assert self.kernel.last_evicted in (
                (victim, -1) if copies and full else (victim if full else -1,)
            )
        self.both(lambda cache: cache.last_evicted)

    @rule(batch=batches, data=st.data())
    def access_many(self, batch, data):
        self.both(lambda cache: cache.access_many(batch))
        copies = [data.draw(st.integers(0, 9)) for _ in batch]
        self.both(lambda cache: cache.access_many(batch, copies))

    @rule(batch=st.lists(st.tuples(blocks, st.integers(-4, 4)), max_size=12))
    def apply(self, batch):
        order = self.kernel.cached()
        clock = self.kernel.clock
        self.both(lambda cache: cache.apply([b for b, _ in batch], [c for _, c in batch]))
        assert clock == self.kernel.clock
        assert plain(order) == plain(self.kernel.cached())

    @rule(block=blocks, sign=st.sampled_from([-1, 1]))
    def apply_huge_changes(self, block, sign):
        self.both(lambda cache: cache.apply([block] * 3, [sign * 2**31] * 3))
        self.both(lambda cache: cache.apply([block], [-sign * 2**31]))

    @rule(block=blocks)
    def pin(self, block):
        self.both(lambda cache: cache.pin(block))

    @rule(block=blocks)
    def unpin(self, block):
        self.both(lambda cache: cache.unpin(block))

    @rule(block=blocks)
    def discard(self, block):
        self.both(lambda cache: cache.discard(block))

    @rule(limit=st.integers(0, 5), data=st.data())
    def propose_and_answer(self, limit, data):
        wanted = self.both(lambda cache: cache.propose(limit))
        if isinstance(wanted, tuple) and data.draw(st.booleans()):
            granted = data.draw(
                st.lists(st.booleans(), min_size=len(wanted[1]), max_size=len(wanted[1]))
            )
            self.both(lambda cache: cache.answer(wanted[1], granted))

    @rule(batch=st.lists(st.tuples(blocks, st.booleans()), max_size=5))
    def answer_anything(self, batch):
        self.both(lambda cache: cache.answer([b for b, _ in batch], [yes for _, yes in batch]))

    @rule()
    def heartbeat(self):
        self.both(lambda cache: cache.heartbeat())

    @rule()
    def full_report(self):
        self.both(lambda cache: cache.full_report())

    @invariant()
    def equal_answers(self):
        if hasattr(self, "kernel"):
            for block in range(BLOCKS):
                self.both(lambda cache, block=block: (block in cache, cache.count(block)))
                self.both(lambda cache, block=block: cache.is_pinned(block))
            self.both(lambda cache: (len(cache), cache.leased, cache.cached()))
            self.both(lambda cache: cache.eviction_order())
            self.both(what_follows)


CacheMachine.TestCase.settings = examples(60, stateful_step_count=40)
test_the_cache_does_what_its_twin_does = CacheMachine.TestCase

WORKERS = 70  # more than one word of the bitmaps
workers = st.sampled_from([0, 1, 2, 63, 64, 69])


class DirectoryMachine(Twins):
    @initialize()
    def build(self):
        self.kernel, self.twin = ReplicaDirectory(WORKERS, BLOCKS), DirectoryTwin(WORKERS, BLOCKS)
        self.sent = {}  # (worker, block) -> sum of the deltas since the worker joined

    def spoil(self):
        self.kernel.join(3, range(BLOCKS))

    def send(self, call):
        answer = self.both(call)
        if isinstance(answer, dict):
            for worker, (touched, changes) in answer.items():
                for block, change in zip(touched[1], changes[1], strict=True):
                    self.sent[worker, block] = self.sent.get((worker, block), 0) + change

    @rule(worker=workers, held=batches, sequence=st.integers(0, 3))
    def join(self, worker, held, sequence):
        self.sent = {key: total for key, total in self.sent.items() if key[0] != worker}
        self.send(lambda directory: directory.join(worker, held, sequence))

    @rule(
        worker=workers,
        lists=st.tuples(batches, batches, batches),
        sequence=st.none() | st.integers(0, 6),
    )
    def report(self, worker, lists, sequence):
        self.send(lambda directory: directory.report(worker, *lists, sequence))

    @rule(worker=workers, blocks=batches)
    def lease(self, worker, blocks):
        self.both(lambda directory: directory.lease(worker, blocks))

    @rule(worker=workers)
    def remove_worker(self, worker):
        self.sent = {key: total for key, total in self.sent.items() if key[0] != worker}
        self.send(lambda directory: directory.remove_worker(worker))

    @invariant()
    def equal_answers(self):
        if hasattr(self, "kernel"):
            for worker in (0, 1, 2, 63, 64, 69):
                self.both(lambda d, worker=worker: (d.held(worker), d.leases(worker)))
                if self.both(lambda d, worker=worker: d.is_known(worker)):
                    self.both(lambda d, worker=worker: d.sequence(worker))

    @invariant()
    def the_deltas_sum_to_the_number_of_other_holders(self):
        if hasattr(self, "kernel"):
            for block in range(BLOCKS):
                holders = self.both(lambda d, block=block: d.holders(block))[1]
                assert self.kernel.replicas(block) == len(holders)
                for worker in (0, 1, 2, 63, 64, 69):
                    others = len(holders) - 1 if worker in holders else 0
                    assert self.sent.get((worker, block), 0) == others


DirectoryMachine.TestCase.settings = examples(40, stateful_step_count=30)
test_the_directory_does_what_its_twin_does = DirectoryMachine.TestCase


@given(batch=st.lists(st.integers(0, 299), max_size=400), capacity=st.integers(1, 200))
@examples(100)
def test_without_weight_for_copies_the_cache_is_lru(batch, capacity):
    cache = ReplicaAwareCache(capacity, 300, beta=0.0)
    cache.apply(np.arange(300), np.arange(300) % 7)
    recent: dict[int, None] = {}
    hits = []
    for block in batch:
        hits.append(block in recent)
        recent.pop(block, None)
        recent[block] = None
        if len(recent) > capacity:
            del recent[next(iter(recent))]
    assert cache.access_many(batch)[0].tolist() == hits
    assert cache.cached().tolist() == sorted(recent)
    cache.check()


@given(
    batch=st.lists(st.integers(0, 99), max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=5),
)
def test_batches_give_the_answers_of_single_accesses(batch, cuts):
    entry, many = ReplicaAwareCache(20, 100), ReplicaAwareCache(20, 100)
    entry.apply(np.arange(100), np.arange(100) % 5)
    many.apply(np.arange(100), np.arange(100) % 5)
    singles = []
    for block in batch:
        hit = entry.access(block)
        singles.append((hit, not hit and block in entry, entry.last_evicted))
    edges = [0, *sorted(cuts), len(batch)]
    parts = [many.access_many(batch[a:b]) for a, b in itertools.pairwise(edges)]
    joined = [np.concatenate(column).tolist() for column in zip(*parts, strict=True)]
    assert list(zip(*joined, strict=True)) == singles
    assert entry.copy().to_bytes() == entry.to_bytes()
    assert many.cached().tolist() == entry.cached().tolist()
