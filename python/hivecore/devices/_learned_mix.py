"""The mix of requests for which the policy "fgd" keeps room: a given mix, or a learned mix.

A learned mix counts the class of each owner that is committed. The kernel's cached answers depend
on the weights, so these follow the counts in steps, when the counts have grown by a sixteenth.
Only commits make a step; queries change nothing. Weights that are too large to be multiplied by a
node's memory are halved. An answer costs time for each class, and requests in bytes may have any
number of classes, so the rarer half is dropped when there are more than `_MOST_CLASSES`.
"""

from collections.abc import Mapping
from typing import Any

from hivecore._trial import UndoLog
from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.task_mix import Task, TaskMix

__all__ = ["LearnedMix"]

_MOST_CLASSES = 1024


class LearnedMix:
    """The mix of one cluster."""

    def __init__(self, given: TaskMix | None) -> None:
        self.is_given = given is not None
        self.counts = {} if given is None else dict(given.weights)
        self.weights: Mapping[Task, int] = dict(self.counts)  # of the last step
        self.count = self.total = sum(self.counts.values())
        #: the weights that the kernel has; unlike `weights`, they have to be set there first
        self.in_kernel: Mapping[Task, int] | None = None
        self.undo = UndoLog()

    @classmethod
    def learned(cls, counts: TaskMix, weights: TaskMix) -> "LearnedMix":
        """A learned mix with these counts and the weights of its last step."""
        mix = cls(None)
        mix.counts, mix.count = dict(counts.weights), counts.total
        mix.weights, mix.total = dict(weights.weights), weights.total
        return mix

    def copy(self) -> "LearnedMix":
        """An independent equal."""
        other = LearnedMix(None)
        other.is_given, other.in_kernel = self.is_given, self.in_kernel
        other.counts, other.count = dict(self.counts), self.count
        other.weights, other.total = self.weights, self.total
        return other

    def see(self, request: DeviceRequest) -> None:
        """Count a request in its class."""
        if self.is_given:
            return
        task = Task.of(request)
        if self.undo.is_on:
            self._keep()
            self.undo.keep(self.counts, task)
        self.counts[task] = self.counts.get(task, 0) + 1
        self.count += 1
        is_full = len(self.counts) > _MOST_CLASSES
        if is_full:
            self._forget_rare()
        if is_full or 16 * self.count > 17 * self.total:
            self.weights, self.total = dict(self.counts), self.count

    def _forget_rare(self) -> None:
        """Drop the rarer half of the classes; of equally frequent classes the older ones."""
        newest_first = list(self.counts)[::-1]
        common = sorted(newest_first, key=self.counts.__getitem__, reverse=True)
        kept = set(common[: _MOST_CLASSES // 2])
        self.counts = {task: count for task, count in self.counts.items() if task in kept}
        self.count = sum(self.counts.values())

    def _keep(self) -> None:
        """Log what it is, before it changes."""
        for name in ("counts", "count", "weights", "total"):
            self.undo.add((setattr, self, name, getattr(self, name)))

    def tell(self, core: Any, model_number: Any) -> None:
        """Set the weights in the kernel.

        :raises ValueError: they are given, and too large.
        """
        while self.in_kernel is not self.weights:
            tasks = [self._numbers(task, model_number) for task in self.weights]
            if core.set_mix(tasks):
                self.in_kernel = self.weights
                return
            if self.is_given:
                raise ValueError("mix: the weights are too large for so much memory on a node")
            self._halve()

    def _halve(self) -> None:
        """Halve all counts, which drops classes that were seen once; if there are only such, drop
        the older half.
        """
        if self.undo.is_on:
            self._keep()
        halves = {task: count // 2 for task, count in self.counts.items() if count > 1}
        newest = list(self.counts.items())[-(len(self.counts) // 2) :]
        self.counts = halves or dict(newest)
        self.count = self.total = sum(self.counts.values())
        self.weights = dict(self.counts)

    def _numbers(self, task: Task, model_number: Any) -> tuple[Any, ...]:
        models = [model_number(model) for model in task.models]
        weight = self.weights[task]
        return task.share, task.is_percent, task.gpus, task.cpu_milli, models, weight
