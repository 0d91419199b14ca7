"""How much the tests try, in two numbers of the environment.

HIVECORE_EXAMPLES, by default 1, scales the examples of every hypothesis test and the seeds of every
random history. A test says only how much it tries at scale 1; the sanitized run tries less, a long
run for new counterexamples more. HIVECORE_FIRST_SEED, by default 0, is the first of these seeds:
histories that were never tried find more than the same ones again.
"""

import os

from hypothesis import settings

SCALE = float(os.environ.get("HIVECORE_EXAMPLES") or 1)
FIRST_SEED = int(os.environ.get("HIVECORE_FIRST_SEED") or 0)


def times(count):
    """So many at scale 1, and one at least."""
    return max(1, round(count * SCALE))


def examples(count, **options):
    """Settings of a hypothesis test that tries so many examples; there is no deadline."""
    return settings(max_examples=times(count), deadline=None, **options)


def seeds(count):
    """The seeds of so many random cases, by default 0, 1, ..."""
    return range(FIRST_SEED, FIRST_SEED + times(count))
