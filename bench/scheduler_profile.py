"""Times the public methods of the parts while a job passes, to show where a
decision's time goes.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import perf_counter
from typing import Any

from hivecore.cells import CellCluster
from hivecore.devices import DeviceCluster
from hivecore.queues import TenantQueues
from hivecore.quotas import QuotaTree

PARTS = {
    "queues": (TenantQueues, ("push", "next", "requeue", "remove", "park", "wake")),
    "quotas": (QuotaTree, ("submit", "admit", "take_back", "release")),
    "cells": (CellCluster, ("schedule", "commit", "release")),
    "devices": (DeviceCluster, ("allocate_many", "release_many")),
}


class Clocks:
    """Seconds by part and method, without nested calls of other parts."""

    def __init__(self) -> None:
        self.spent = {(part, name): 0.0 for part, (_, names) in PARTS.items() for name in names}
        self._is_inside = False

    def timed(self, key: tuple[str, str], method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            if self._is_inside:
                return method(*arguments, **named)
            self._is_inside = True
            begin = perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                self.spent[key] += perf_counter() - begin
                self._is_inside = False

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        before = {key: getattr(PARTS[key[0]][0], key[1]) for key in self.spent}
        for (part, name), method in before.items():
            setattr(PARTS[part][0], name, self.timed((part, name), method))
        try:
            yield
        finally:
            for (part, name), method in before.items():
                setattr(PARTS[part][0], name, method)


def profile(work: Callable[[], list[float]]) -> dict[str, Any]:
    """Seconds of each part's methods, by decision, while ``work`` gives the time of each in all.

    What is left is the scheduler's own, and that of the clocks: so read it beside a run without.
    Garbage collection is off: it would be charged to a random function.
    """
    clocks = Clocks()
    gc.collect()
    gc.disable()
    try:
        with clocks.running():
            spent = work()
    finally:
        gc.enable()
    count = len(spent)
    results: dict[str, dict[str, float]] = {part: {} for part in PARTS}
    for (part, name), seconds in clocks.spent.items():
        if seconds:
            results[part][name] = seconds / count
    parts = sum(sum(methods.values()) for methods in results.values())
    return {"parts": results, "own": sum(spent) / count - parts}
