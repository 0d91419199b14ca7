"""What the policy "fgd" goes by: a mix that is given, or one that is learned from commits.

A learned mix counts every owner's class. Every answer that the kernel keeps goes by the mix, so it
follows the counts in steps: when they have grown by a sixteenth since the last step. Steps come
with commits alone, never with questions, so that a question changes nothing. When the weights are
too large to be multiplied by a node's memory, all are halved. What an answer costs grows with the
classes; where pods ask for bytes at will there is no end of them, so when there are too many the
rarer half is forgotten.
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
        #: What the kernel goes by, if these are the weights; else they are to be told.
        self.told: Mapping[Task, int] | None = None
        self.undo = UndoLog()

    @classmethod
    def learned(cls, counts: TaskMix, weights: TaskMix) -> "LearnedMix":
        """One that has come so far."""
        mix = cls(None)
        mix.counts, mix.count = dict(counts.weights), counts.total
        mix.weights, mix.total = dict(weights.weights), weights.total
        return mix

    def copy(self) -> "LearnedMix":
        """An independent equal."""
        other = LearnedMix(None)
        other.is_given, other.told = self.is_given, self.told
        other.counts, other.count = dict(self.counts), self.count
        other.weights, other.total = self.weights, self.total
        return other

    def see(self, request: DeviceRequest) -> None:
        """One more of its class has come."""
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
        """Of equals those go that came first."""
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
        """Let the kernel go by the weights; ValueError: they are too large."""
        while self.told is not self.weights:
            tasks = [self._numbers(task, model_number) for task in self.weights]
            if core.set_mix(tasks):
                self.told = self.weights
                return
            if self.is_given:
                raise ValueError("mix: the weights are too large for so much memory on a node")
            self._halve()

    def _halve(self) -> None:
        """Classes that came once are forgotten; where there are no others, the first half is."""
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
