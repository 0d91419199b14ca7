"""What operators measure: Prometheus' text of counters, latencies and the state of the service."""

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Metrics", "Values"]

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

#: The values of a gauge's labels with a number.
Values = Iterable[tuple[tuple[str, ...], float]]


class Metrics:
    """Counts requests and decisions, and reads gauges at each call of `text`.

    :param paths: those that are counted by their name; all others are ``other``.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._registry = CollectorRegistry()
        self._paths = frozenset(paths)
        self._requests = Counter(
            "hivecore_requests", "Requests answered", ("path", "status"), registry=self._registry
        )
        self._latencies = Histogram(
            "hivecore_request_seconds",
            "Time to answer a request",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._decisions = Counter(
            "hivecore_decisions",
            "Decisions on pods, by verb and outcome",
            ("verb", "outcome"),
            registry=self._registry,
        )
        self._events = Counter(
            "hivecore_events", "What happened besides requests", ("event",), registry=self._registry
        )
        self._children: dict[tuple[str, ...], Any] = {}

    def add_gauge(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Values]
    ) -> None:
        """Read this, too, at each call of `text`."""
        from prometheus_client.core import GaugeMetricFamily

        class State:
            def collect(self) -> Iterable[GaugeMetricFamily]:
                family = GaugeMetricFamily(name, text, labels=labels)
                for values, number in read():
                    family.add_metric(values, number)
                yield family

        self._registry.register(State())

    def answered(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        name = path if path in self._paths else "other"
        self._child(self._requests, name, str(status)).inc()
        self._child(self._latencies, name).observe(seconds)

    def decided(self, verb: str, outcome: str) -> None:
        """A pod was decided on."""
        self._child(self._decisions, verb, outcome).inc()

    def happened(self, event: str) -> None:
        """Something that is worth counting happened."""
        self._child(self._events, event).inc()

    def text(self) -> tuple[bytes, str]:
        """The text, and its content type."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _child(self, metric: Any, *labels: str) -> Any:
        """The metric for these labels; to look it up costs more than to count."""
        key = (metric._name, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child
