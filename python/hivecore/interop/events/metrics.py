"""A scheduler's metrics for operators."""

from collections.abc import Callable, Iterator
from typing import Any

from hivecore.interop.kubernetes.serving.metrics import Metrics, Values
from hivecore.scheduler import SchedulerSummary

__all__ = ["SchedulerMetrics"]

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
_PATHS = (
    *("/v1/events", "/v1/actions", "/v1/explain", "/v1/what-if"),
    *("/v1/overview", "/v1/status", "/v1/jobs"),
)
_OF_PODS = (*(f"/v1/extender/{verb}" for verb in ("filter", "bind", "preempt")), "/v1/watch")
_OF_JOBS = "/v1/explain", "/v1/jobs"


class SchedulerMetrics(Metrics):
    """Counts requests, events and decisions; other metrics come from the status.

    :param status: returns the current status.
    """

    def __init__(self, status: Callable[[], SchedulerSummary]) -> None:
        from prometheus_client import Counter, Histogram

        def jobs() -> Iterator[tuple[tuple[str, ...], float]]:
            for summary in status().tenants:
                for state in ("pending", "reserved", "lent", "running"):
                    yield (summary.tenant, state), getattr(summary, state)

        def gpus() -> Values:
            return [((summary.tenant,), summary.gpus) for summary in status().tenants]

        def queued() -> Values:
            return [((queue,), length) for queue, length in status().queued]

        def unhealthy() -> Values:
            return [((), len(status().unhealthy))]

        super().__init__((*_PATHS, *_OF_PODS))
        labels = "tenant", "state"
        self.add_gauge("hivecore_jobs", "Jobs, by tenant and state", labels, jobs)
        self.add_gauge("hivecore_gpus_in_use", "GPUs that jobs have, by tenant", labels[:1], gpus)
        self.add_gauge("hivecore_queue_length", "What waits in a queue", ("queue",), queued)
        self.add_gauge("hivecore_unhealthy_nodes", "Nodes that are marked so", (), unhealthy)
        self._refusals: Any = Counter(
            "hivecore_refusals",
            "Refusals of jobs, by stage",
            ("stage",),
            registry=self._registry,
        )
        self._decide: Any = Histogram(
            "hivecore_decide_seconds",
            "Time of a round of decisions",
            buckets=_SECONDS,
            registry=self._registry,
        )

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request, with its path but not its job."""
        for metric in _OF_JOBS:
            if path.startswith(f"{metric}/"):
                path = metric
        super().answered(path, status, seconds)

    def refused(self, stage: str) -> None:
        """Count a refusal by a stage."""
        self._child(self._refusals, stage).inc()

    def round_took(self, seconds: float) -> None:
        """Record the duration of a round of decisions."""
        self._decide.observe(seconds)
