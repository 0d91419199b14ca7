"""A world of the simulator for benchmarks that only observe: all jobs run at full speed."""

from collections.abc import Mapping
from math import inf


class Onlooker:
    """Subclasses define `obey` to observe the actions."""

    def end(self, job: str, now: float) -> None:
        pass

    def speeds(self, now: float) -> Mapping[str, float]:
        return {}

    def next_change(self) -> float:
        return inf
