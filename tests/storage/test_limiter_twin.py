"""The limiter equals its twin, and keeps the bounds that it promises for every window of time."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from profiles import examples

from hivecore.reference.storage import RemoteIOLimiter as LimiterTwin
from hivecore.storage import RemoteIOLimiter

GIGA = 10**9
NEVER = 2**63 - 1

# Small numbers make ties and exact fits likely, large ones need every bit of the arithmetic.
rates = st.integers(0, 30) | st.integers(0, 10**12)
bursts = st.integers(0, 30) | st.integers(0, 10**15)
steps = st.integers(0, 3) | st.integers(0, 2 * GIGA) | st.integers(0, 10**16)


def to_the_nano_byte(limiter, jobs):
    """What tokens and waits tell of every bucket, down to the nano-byte; the limiter stays."""
    limiter = copy.deepcopy(limiter)
    now = limiter.now_ns
    results = []
    for job in jobs:
        rate, burst = limiter.job_rate(job)
        limiter.set_rate(job, min(rate, 1), now_ns=now)
        results.append((rate, burst, tokens := limiter.tokens(job, now), limiter.spare(now)))
        if tokens < burst:
            results.append(limiter.take(job, tokens + 1, now))
    if limiter.free_burst_bytes > limiter.spare(now):  # all that is spare goes to a new job
        job = limiter.add_job(min(limiter.free_rate_bytes, 1), limiter.free_burst_bytes, now)
        results.append((job, limiter.take(job, limiter.tokens(job, now) + 1, now)))
    return results


class LimiterMachine(RuleBasedStateMachine):
    @initialize(rate=rates, burst=bursts, lend=st.booleans())
    def build(self, rate, burst, lend):
        self.kernel = RemoteIOLimiter(rate, burst, lend=lend)
        self.twin = LimiterTwin(rate, burst, lend=lend)
        self.now = 0
        self.jobs = []

    def both(self, call):
        answers = []
        for limiter in (self.kernel, self.twin):
            try:
                answer = call(limiter)
                answers.append(answer.tolist() if isinstance(answer, np.ndarray) else answer)
            except KeyError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        return answers[0]

    def refused(self, call):
        """A wrong argument is the kernel's to find; the twin trusts its caller."""
        before = self.kernel.to_bytes()
        with pytest.raises(ValueError, match="allowed are"):
            call(self.kernel)
        assert self.kernel.to_bytes() == before

    def some_job(self, data):
        return data.draw(st.sampled_from([*self.jobs, 40]))

    @rule(step=steps)
    def pass_time(self, step):
        self.now = min(self.now + step, 2**62)

    @rule(data=st.data())
    def add(self, data):
        rate = data.draw(st.integers(0, self.kernel.free_rate_bytes) | rates)
        burst = data.draw(st.integers(0, self.kernel.free_burst_bytes) | bursts)
        if rate > self.kernel.free_rate_bytes or burst > self.kernel.free_burst_bytes:
            self.refused(lambda limiter: limiter.add_job(rate, burst, self.now))
        else:
            self.jobs.append(self.both(lambda limiter: limiter.add_job(rate, burst, self.now)))

    @rule(data=st.data())
    def remove(self, data):
        job = self.some_job(data)
        if self.both(lambda limiter: limiter.remove_job(job, self.now)) is None:
            self.jobs.remove(job)

    @rule(data=st.data())
    def set_rate(self, data):
        job = self.some_job(data)
        rate = data.draw(st.integers(0, self.kernel.free_rate_bytes) | rates)
        burst = data.draw(st.none() | st.integers(0, self.kernel.free_burst_bytes) | bursts)
        old_rate, old_burst = self.kernel.job_rate(job) if job in self.jobs else (0, 0)
        too_much = rate > self.kernel.free_rate_bytes + old_rate
        too_much |= (burst or 0) > self.kernel.free_burst_bytes + old_burst
        answer = self.refused if job in self.jobs and too_much else self.both
        answer(lambda limiter: limiter.set_rate(job, rate, burst, now_ns=self.now))

    @rule(data=st.data(), late=st.sampled_from([0, 0, 5]))
    def take(self, data, late):
        job = self.some_job(data)
        most = self.kernel.job_rate(job)[1] if job in self.jobs else 9
        size = data.draw(st.integers(0, most) | st.just(most) | st.integers(-1, most + 1))
        now = max(self.now - late, 0)
        if job in self.jobs and not 0 <= size <= most:
            self.refused(lambda limiter: limiter.take(job, size, now))
            return
        wait = self.both(lambda limiter: limiter.take(job, size, now))
        if isinstance(wait, int) and 0 < wait < NEVER and self.now + wait < 2**61:
            if not self.kernel.lend:
                assert self.kernel.copy().take(job, size, self.kernel.now_ns + wait - 1) == 1
            self.now = max(self.now, self.kernel.now_ns + wait)
            assert self.both(lambda limiter: limiter.take(job, size, self.now)) == 0

    @rule(data=st.data())
    def take_many(self, data):
        jobs = [self.some_job(data) for _ in range(data.draw(st.integers(0, 6)))]
        sizes = [data.draw(st.integers(0, 12)) for _ in jobs]
        bad = [
            job not in self.jobs or size > self.kernel.job_rate(job)[1]
            for job, size in zip(jobs, sizes, strict=True)
        ]
        too_large = any(bad) and jobs[bad.index(True)] in self.jobs
        answer = self.refused if too_large else self.both
        answer(lambda limiter: limiter.take_many(jobs, sizes, self.now))

    @rule()
    def go_on_with_a_copy(self):
        copied = self.kernel.copy()
        for job in self.jobs:
            self.kernel.remove_job(job, self.now)
        self.kernel = copied

    @rule()
    def go_on_with_the_saved_state(self):
        self.kernel = pickle.loads(pickle.dumps(self.kernel))

    @invariant()
    def equal_and_sound(self):
        if hasattr(self, "kernel"):
            self.kernel.check()
            self.twin.check()
            self.both(lambda limiter: (len(limiter), limiter.now_ns))
            self.both(lambda limiter: (limiter.free_rate_bytes, limiter.free_burst_bytes))
            self.both(lambda limiter: to_the_nano_byte(limiter, self.jobs))

    def teardown(self):
        if hasattr(self, "kernel"):
            for job in self.jobs:
                self.both(lambda limiter, job=job: limiter.tokens(job, self.now))
            self.both(lambda limiter: limiter.spare(self.now))


LimiterMachine.TestCase.settings = examples(60, stateful_step_count=40)
test_the_limiter_does_what_its_twin_does = LimiterMachine.TestCase


def worst_excess(grants, rate):
    """The most, over all windows between two grants, of granted - rate * length, in nano-bytes."""
    worst = best = 0
    last = 0
    for time, size in grants:
        best = max(best - rate * (time - last), 0) + size * GIGA
        last = time
        worst = max(worst, best)
    return worst


@given(
    seed=st.integers(0, 2**32 - 1),
    lend=st.booleans(),
    churn=st.booleans(),
)
@examples(40)
def test_no_window_gets_more_than_rate_times_length_plus_burst(seed, lend, churn):
    rng = np.random.default_rng(seed)
    limiter = RemoteIOLimiter(1000, 900, lend=lend)
    limits = {limiter.add_job(int(r), 200, now_ns=0): int(r) for r in (500, 300, 0)}
    grants = {job: [] for job in limits}
    everything = []
    now = 0
    for _ in range(400):
        now += int(rng.integers(0, 2 * 10**8))
        job = int(rng.integers(3))
        size = int(rng.integers(0, 201))
        if limiter.take(job, size, now) == 0:
            grants[job].append((now, size))
            everything.append((now, size))
        if churn and rng.random() < 0.1:
            limiter.remove_job(job, now)
            assert limiter.add_job(limits[job], 200, now) == job
    assert worst_excess(everything, 1000) <= 900 * GIGA
    if not lend and not churn:
        for job, rate in limits.items():
            assert worst_excess(grants[job], rate) <= 200 * GIGA


@given(seed=st.integers(0, 2**32 - 1))
@examples(25)
def test_lending_never_delays_an_owner(seed):
    """A job among greedy borrowers is served whenever it would be served with a bucket alone."""
    rng = np.random.default_rng(seed)
    shared = RemoteIOLimiter(1000, 600, lend=True)
    alone = RemoteIOLimiter(1000, 600)
    owner = [limiter.add_job(200, 150, now_ns=0) for limiter in (shared, alone)]
    greedy = [shared.add_job(100, 100, now_ns=0) for _ in range(3)]
    now = 0
    for _ in range(300):
        now += int(rng.integers(0, 3 * 10**8))
        for job in greedy:
            while shared.take(job, int(rng.integers(20, 101)), now) == 0:
                pass
        if rng.random() < 0.4:
            size = int(rng.integers(0, 151))
            if alone.take(owner[1], size, now) == 0:
                assert shared.take(owner[0], size, now) == 0


def test_lending_uses_the_whole_rate_for_one_busy_job():
    limiter = RemoteIOLimiter(1000, 400, lend=True)
    busy = limiter.add_job(100, 100, now_ns=0)
    limiter.add_job(900, 200, now_ns=0)
    granted = 0
    for now in range(0, 100 * GIGA, GIGA // 100):
        while limiter.take(busy, 10, now) == 0:
            granted += 10
    assert granted == 1000 * 99 + 990 + 200  # the rate, and what two buckets had at first


def test_nothing_drifts_over_a_million_requests():
    limiter = RemoteIOLimiter(10**9 + 7, 1000)
    job = limiter.add_job(333_333_331, 1000, now_ns=0)
    granted = now = 0
    for _ in range(1000):
        waits = limiter.take_many([job] * 1000, [997] * 1000, now)
        granted += 997 * int((waits == 0).sum())
        now += int(waits[-1])
    # Greedy: one request at a time, each as soon as the tokens are there, to the nanosecond.
    assert granted == 997 * 1000
    for nanoseconds in (now, now + 1):
        tokens = 1000 * GIGA + nanoseconds * 333_333_331
        assert limiter.copy().tokens(job, nanoseconds) == (tokens - granted * GIGA) // GIGA


@pytest.mark.parametrize("limiter_class", [RemoteIOLimiter, LimiterTwin])
def test_time_that_goes_back_stands_still(limiter_class):
    limiter = limiter_class(100, 100)
    job = limiter.add_job(100, 100, now_ns=5 * GIGA)
    assert limiter.take(job, 100, now_ns=5 * GIGA) == 0
    assert limiter.take(job, 10, now_ns=0) == GIGA // 10
    assert limiter.now_ns == 5 * GIGA
    assert limiter.take(job, 10, now_ns=5 * GIGA + GIGA // 10) == 0
