"""A job evicts the cheapest set of jobs, found by trying all sets on the parts."""

import random

import pytest
from profiles import SCALE
from scheduler.victims.oracle import COMPOSITIONS, answer, instance, random_limits


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_victims_are_a_cheapest_set_and_no_job_waits_that_could_evict(name):
    rng = random.Random(f"victims {name}")
    evictions = 0
    for number in range(max(10, int(100 * SCALE))):
        scheduler, job, _ = instance(COMPOSITIONS[name], rng)
        if job.name not in scheduler:  # it could never start
            continue
        result = answer(scheduler, job)
        assert result.rank == result.least, f"instance {number}: {result}"
        assert result.is_irreducible, f"instance {number}: {result}"
        evictions += bool(result.victims)
        scheduler.check()
    assert evictions > (2 if SCALE >= 1 else 1)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_limits_of_evictions_leave_the_cheapest_set_that_keeps_to_them(name):
    """As soon as there is such a set; the scheduler decides whenever a limit ends."""
    rng = random.Random(f"limits {name}")
    evictions = waits = 0
    for number in range(max(10, int(100 * SCALE))):
        limits = random_limits(rng)
        scheduler, job, before = instance(COMPOSITIONS[name], rng, limits)
        if job.name not in scheduler:
            continue
        starts = {scheduler.status(other).since for other in scheduler if other != job.name}
        ends = {start + limit.min_run_time for start in starts for limit in limits}
        for now in sorted({11.0, *ends, *(time + 3600 for _, time in before)}):
            if now < 11.0:
                continue
            victims = answer(scheduler, job, before, now)
            assert victims.rank == victims.least, f"instance {number} at {now}: {victims}"
            assert victims.is_irreducible, f"instance {number} at {now}: {victims}"
            scheduler.check()
            if victims.victims is not None:
                evictions += bool(victims.victims)
                break
            waits += 1
    assert SCALE < 1 or (waits and evictions > 2)
