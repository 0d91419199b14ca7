"""Ctrl-C at a better moment."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["held_back"]


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C interrupt what follows this context, not what is in it; for the main thread.

    Where it is ignored, as in the background of a script, it stays so.
    """
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
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
