"""Which pods come: classes of equal requests with weights, for the policy "fgd"."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from hivecore._arguments import as_int, as_mapping, tuple_of
from hivecore._record import Record, any_value, force_setattr, sorted_names, within
from hivecore.devices._pairs import MOST
from hivecore.devices.device import MOST_DEVICES
from hivecore.devices.device_request import DeviceRequest

__all__ = ["MOST_WEIGHT", "Task", "TaskMix"]

MOST_WEIGHT = 2**31 - 1  # of a class


class Task(Record, frozen=True):
    """A class of equal pods, as far as shared GPUs are concerned.

    :param share: of each GPU's memory, in bytes or percent; 0: it needs no GPU.
    :param is_percent: the share is in percent.
    :param gpus: how many.
    :param cpu_milli: thousandths of a processor.
    :param models: of GPUs that will do; none: all.
    :raises ValueError: something is out of range.
    :raises TypeError: an argument is of a wrong type.
    """

    share: Annotated[int, any_value]
    is_percent: bool
    gpus: Annotated[int, within(0, MOST_DEVICES)]
    cpu_milli: Annotated[int, within(0, MOST)]
    models: Annotated[tuple[str, ...], sorted_names]

    def __post_init__(self) -> None:
        self._check()
        most = 100 if self.is_percent else MOST
        force_setattr(self, "share", as_int(self.share, "share", 0, most))

    @classmethod
    def of(cls, request: DeviceRequest) -> Self:
        """The class of a request."""
        host, gpu = request.need("host"), request.need("gpu")
        cpu = 0 if host is None else dict(host.amounts).get("cpu", 0)
        if gpu is None:
            return cls(0, False, 0, cpu, ())
        amounts = dict(gpu.amounts)
        if "memory" in amounts:
            return cls(amounts["memory"], False, gpu.count, cpu, request.models)
        return cls(amounts.get("memory_ratio", 100), True, gpu.count, cpu, request.models)


def _as_weights(value: Any, name: str) -> tuple[tuple[Task, int], ...]:
    tasks = []
    for task, weight in value if type(value) is tuple else as_mapping(value, name).items():
        if not isinstance(task, Task):
            raise TypeError(f"{name} must be of Task, not of {type(task).__name__}")
        tasks.append((task, as_int(weight, f"{name}[{task}]", 1, MOST_WEIGHT)))
    return tuple(tasks)


class TaskMix(Record, frozen=True):
    """Which classes of pods are expected, and how often each.

    :param weights: class -> weight: how often, relative to the others, from 1 to 2**31 - 1.
    :raises ValueError: a weight is out of range.
    :raises TypeError: an argument is of a wrong type.

    >>> from hivecore.devices import DeviceRequest, TaskMix
    >>> mix = TaskMix.of([DeviceRequest("a", gpus=1), DeviceRequest("b", gpus=1)])
    >>> [(task.gpus, weight) for task, weight in mix.weights]
    [(1, 2)]
    """

    weights: Annotated[tuple[tuple[Task, int], ...], _as_weights]

    if TYPE_CHECKING:

        def __init__(self, weights: Mapping[Task, int]) -> None: ...

    def __post_init__(self) -> None:
        self._check()

    @classmethod
    def of(cls, requests: Iterable[DeviceRequest]) -> Self:
        """Each class as often as these requests are of it."""
        weights: dict[Task, int] = {}
        for request in tuple_of(requests, "requests", DeviceRequest):
            task = Task.of(request)
            weights[task] = weights.get(task, 0) + 1
        return cls(weights)

    @property
    def total(self) -> int:
        """The sum of the weights."""
        return sum(weight for _, weight in self.weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskMix) and dict(self.weights) == dict(other.weights)

    def __hash__(self) -> int:
        return hash(frozenset(self.weights))
