"""How much the tests try, in one number of the environment: HIVECORE_EXAMPLES, by default 1.

It scales the examples of every hypothesis test and the seeds of every random history. A test says
only how much it tries at scale 1; the sanitized run tries less, a long run for new counterexamples
more.
"""

import os

from hypothesis import settings

SCALE = float(os.environ.get("HIVECORE_EXAMPLES") or 1)


def times(count):
    """So many at scale 1, and one at least."""
    return max(1, round(count * SCALE))


def examples(count, **options):
    """Settings of a hypothesis test that tries so many examples; there is no deadline."""
    return settings(max_examples=times(count), deadline=None, **options)


def seeds(count):
    """The seeds 0, 1, ... of so many random cases."""
    return range(times(count))
