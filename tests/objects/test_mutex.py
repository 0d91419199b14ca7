"""How threads take turns on one object, by the lock of the wrappers and by calls of the kernels."""

import threading
import time

import numpy as np
import pytest

from hivecore._cells import Mutex
from hivecore.cells import BuddyAllocator


def in_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_one_thread_at_a_time_is_within():
    mutex, inside, most = Mutex(), [], []

    def work():
        for _ in range(300):
            with mutex:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    in_threads(work, work, work)
    assert set(most) == {1}
    assert len(most) == 900


def test_a_thread_may_enter_again_what_it_holds():
    mutex, order = Mutex(), []

    def wait():
        with mutex:
            order.append("other")

    with mutex:
        with mutex:
            pass
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.05)
        order.append("holder")
    thread.join()
    assert order == ["holder", "other"]


def test_an_exception_releases_it():
    mutex = Mutex()
    with pytest.raises(KeyError), mutex:
        raise KeyError
    in_threads(mutex.__enter__)


def test_a_waiting_thread_gets_in_although_another_thread_always_comes_back():
    mutex, served, rounds = Mutex(), threading.Event(), 0

    def wait():
        with mutex:
            served.set()

    thread = threading.Thread(target=wait)
    with mutex:
        thread.start()
    while not served.is_set() and rounds < 1_000_000:
        with mutex:
            rounds += 1
    assert served.is_set()
    thread.join()


def test_calls_wait_for_a_batch_that_runs_without_the_gil():
    buddies = BuddyAllocator([2] * 10, roots=1024)
    levels = np.ones(1 << 20, dtype=np.int64)
    counts = set()
    begun = threading.Event()

    def allocate_all():
        begun.set()
        buddies.release_many(levels, buddies.allocate_many(levels))

    def look():
        begun.wait()
        for _ in range(50):
            counts.add(int(buddies.free_counts() @ 2 ** np.arange(11)))

    in_threads(allocate_all, look, look)
    assert counts <= {0, 1 << 20}  # free GPUs, before, between or after: never within a batch
    buddies.check()


def test_a_thread_that_is_not_inside_cannot_leave():
    mutex, refused = Mutex(), []
    with pytest.raises(RuntimeError, match="not within"):
        mutex.__exit__(None, None, None)

    def leave():
        try:
            mutex.__exit__(None, None, None)
        except RuntimeError as error:
            refused.append(str(error))

    with mutex:
        in_threads(leave)
    assert refused == ["this thread is not within it"]
    in_threads(mutex.__enter__)
