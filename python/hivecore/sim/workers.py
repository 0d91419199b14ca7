"""Processes, threads or machines for a command's tasks, which end with it at Ctrl-C."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import current_thread, main_thread
from time import sleep

from hivecore._ctrl_c import held_back

__all__ = ["deaf_children", "workers"]


@contextmanager
def workers(count: int, backend: str = "loky") -> Iterator[None]:
    """Let joblib distribute tasks in this context over new workers.

    :param count: at least 1; with 1 none is started.
    :param backend: of joblib.
    """
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend=backend, n_jobs=count):
        if count > 1:
            with deaf_children():  # starts all workers: with a short sleep each, none takes two
                Parallel()(delayed(sleep)(0.1) for _ in range(count))
        yield


@contextmanager
def deaf_children() -> Iterator[None]:
    """Block Ctrl-C while workers start: they inherit that, and this process ends them.

    A terminal interrupts every process of a command, and each would print its traceback.
    """
    if sys.platform == "win32" or current_thread() is not main_thread():
        yield
        return
    # Helper processes of these libraries would enable Ctrl-C again when they start.
    for library in ("multiprocessing", "joblib.externals.loky.backend"):
        import_module(f"{library}.resource_tracker").ensure_running()
    with held_back():  # in this process until they run
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
