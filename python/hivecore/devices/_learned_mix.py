"""What the policy "fgd" goes by: a mix that is given, or one that is learned from commits.

A learned mix counts every owner's class. The kernel is told when the counts have grown by a
sixteenth since it was told last, as every answer that it keeps goes by them; when they are too
large to be multiplied by a node's memory, all are halved.
"""

from typing import Any

from hivecore.devices.device_request import DeviceRequest
from hivecore.devices.task_mix import Task, TaskMix

__all__ = ["LearnedMix"]


class LearnedMix:
    """The mix of one cluster."""

    def __init__(self, given: TaskMix | None) -> None:
        self.is_given = given is not None
        self.weights = {} if given is None else dict(given.weights)
        self.total = sum(self.weights.values())
        self.told = -1

    def copy(self) -> "LearnedMix":
        """An independent equal."""
        other = LearnedMix(None)
        other.is_given, other.told, other.total = self.is_given, self.told, self.total
        other.weights = dict(self.weights)
        return other

    def see(self, request: DeviceRequest) -> None:
        """One more of its class has come."""
        if not self.is_given:
            task = Task.of(request)
            self.weights[task] = self.weights.get(task, 0) + 1
            self.total += 1

    def tell(self, core: Any, model_number: Any) -> None:
        """Bring the kernel's mix up to date, as far as need be; ValueError: too large a mix."""
        if self.told >= 0 and (self.is_given or 16 * self.total <= 17 * self.told):
            return
        while not core.set_mix([self._numbers(task, model_number) for task in self.weights]):
            if self.is_given:
                raise ValueError("mix: the weights are too large for so much memory on a node")
            self.weights = {task: -(-weight // 2) for task, weight in self.weights.items()}
            self.total = sum(self.weights.values())
        self.told = self.total

    def _numbers(self, task: Task, model_number: Any) -> tuple[Any, ...]:
        models = [model_number(model) for model in task.models]
        weight = self.weights[task]
        return task.share, task.is_percent, task.gpus, task.cpu_milli, models, weight
