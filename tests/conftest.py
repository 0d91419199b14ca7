"""Fixtures of tests of several parts."""

import signal

import pytest
from hypothesis import settings
from profiles import times

# What a hypothesis test without `examples` tries.
for name in ("ci", "default"):
    settings.register_profile(name, settings.get_profile(name), max_examples=times(100))


@pytest.fixture
def interruptible():
    """Child processes take Ctrl-C, also where the tests run in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def path(tmp_path):
    """Where a log may be written; there is no such file yet."""
    return tmp_path / "log"
