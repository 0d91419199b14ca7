"""A job evicts the cheapest set of jobs there is, beside trying all sets on the parts."""

import random

import pytest
from profiles import SCALE
from scheduler.victims.oracle import COMPOSITIONS, answer, instance


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_victims_are_a_cheapest_set_and_no_job_waits_that_could_evict(name):
    rng = random.Random(f"victims {name}")
    evictions = 0
    for number in range(max(10, int(100 * SCALE))):
        scheduler, job = instance(COMPOSITIONS[name], rng)
        if job.name not in scheduler:  # it could never start
            continue
        found = answer(scheduler, job)
        assert found.rank == found.least, f"instance {number}: {found}"
        assert found.is_irreducible, f"instance {number}: {found}"
        evictions += bool(found.victims)
        scheduler.check()
    assert evictions > (2 if SCALE >= 1 else 1)
