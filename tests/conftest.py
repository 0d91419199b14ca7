"""Fixtures of tests of several parts."""

import signal

import pytest


@pytest.fixture
def interruptible():
    """Child processes take Ctrl-C, also where the tests run in the background of a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
