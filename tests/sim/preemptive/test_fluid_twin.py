"""The fluid kernel and its twin are one: after every step all numbers are equal to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from profiles import examples

from hivecore._sim import FluidClock
from hivecore.reference.sim import FluidClock as Twin

IO_MODES = ["priority", "throughput", "maxmin_io", "maxmin_rate", "proportional"]
sizes = st.one_of(st.sampled_from([40.0, 100.0, 250.0]), st.floats(0.5, 400.0))
rates = st.one_of(st.sampled_from([0.0, 10.0, 60.0, 114.0]), st.floats(0.01, 200.0))


class FluidTwins(RuleBasedStateMachine):
    @initialize(
        sizes=st.lists(sizes, min_size=1, max_size=4),
        readers=st.lists(st.integers(0, 3), min_size=1, max_size=6),
        epochs=st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.5, 4.0]), min_size=6, max_size=6),
        capacity=st.sampled_from([0.0, 30.0, 90.0, 200.0, 2000.0]),
        bandwidth=st.sampled_from([5.0, 60.0, 400.0]),
        io_mode=st.sampled_from(IO_MODES),
        lru=st.booleans(),
        shrink=st.sampled_from(["random", "read_first"]),
        lazy=st.booleans(),
        warm_up=st.booleans(),
    )
    def begin(
        self, sizes, readers, epochs, capacity, bandwidth, io_mode, lru, shrink, lazy, warm_up
    ):
        cache_of = [reader % len(sizes) for reader in readers]
        totals = [epochs[job] * sizes[cache] for job, cache in enumerate(cache_of)]
        options = {"policy": "lru"}
        if not lru:
            options = {"shrink": shrink, "lazy": lazy, "warm_up": warm_up}
            options["private"] = len(set(cache_of)) == len(cache_of)
        arguments = sizes, cache_of, totals, capacity, bandwidth
        self.kernel = FluidClock(*arguments, io_mode=io_mode, **options)
        self.twin = Twin(*arguments, io_mode=io_mode, **options)
        self.sizes, self.capacity, self.count = sizes, capacity, len(readers)

    @rule(data=st.data())
    def allocate(self, data):
        left = self.kernel.left
        alive = [job for job in range(self.count) if left[job] > 1e-6] or [0]
        jobs = data.draw(st.lists(st.sampled_from(alive), unique=True))
        quota, room = [], self.capacity
        for size in self.sizes:
            quota.append(data.draw(st.sampled_from([0.0, 0.4, 1.0])) * min(size, room))
            room -= quota[-1]
        order = st.permutations(range(len(self.sizes)))
        speeds = st.lists(rates, min_size=len(jobs), max_size=len(jobs))
        again = data.draw(st.sets(st.integers(0, self.count - 1), max_size=1))
        arguments = jobs, data.draw(speeds), quota, data.draw(order), data.draw(order), list(again)
        against = data.draw(st.one_of(st.none(), speeds))
        for entry in (self.kernel, self.twin):
            entry.allocate(*arguments, reference=against)

    @precondition(lambda self: len(self.kernel.jobs))
    @rule(
        seconds=st.one_of(st.just(np.inf), st.floats(0.0, 30.0)),
        events=st.sampled_from([1, 3, 40]),
    )
    def advance(self, seconds, events):
        until = self.kernel.now + seconds
        results = []
        for entry in (self.kernel, self.twin):
            try:
                results.append(list(entry.advance(until, events)))
            except ValueError as error:
                assert "no job gets ahead" in str(error)
                results.append(None)
        assert results[0] == results[1]

    @invariant()
    def are_equal(self):
        if not hasattr(self, "kernel"):
            return
        for name in ("now", "events", "fetched", "warming"):
            assert getattr(self.kernel, name) == getattr(self.twin, name), name
        for name in ("jobs", "rates", "misses", "left", "last_use"):
            assert getattr(self.kernel, name).tolist() == getattr(self.twin, name), name
        assert self.kernel.cached.tolist() == self.twin.cached
        self.kernel.check()
        self.twin.check()


FluidTwins.TestCase.settings = examples(50, stateful_step_count=25)
TestFluidTwins = FluidTwins.TestCase


@given(st.floats(1.0, 500.0), st.floats(0.0, 1.0), st.floats(1.0, 200.0), st.floats(1.0, 200.0))
def test_a_filled_cache_gives_the_rate_of_the_performance_model(size, share, rate, bandwidth):
    storage = FluidClock([size], [0], [10 * size], share * size, bandwidth)
    storage.allocate([0], [rate], [share * size])
    begin = size / min(rate, bandwidth)
    storage.advance(until=begin * 1.0001)
    storage.advance(until=begin * 1.0002)
    missed = 1.0 - share
    model = rate if missed * rate <= bandwidth else bandwidth / missed
    assert storage.rates[0] == pytest.approx(model, rel=1e-6)
