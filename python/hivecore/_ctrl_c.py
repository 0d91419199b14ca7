"""Ctrl-C at a better moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["held_back"]


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C interrupt what follows this context, not what is in it.

    Nothing changes where it is ignored, as in the background of a script, and in threads other than
    the main one, which it does not interrupt.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        yield
        return
    caught: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            raise KeyboardInterrupt
