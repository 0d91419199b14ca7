"""Training jobs for the policies: lists with an entry per job, all times in seconds."""

from dataclasses import dataclass
from typing import Self

from hivecore.sim.preemptive.restart_costs import restart_seconds
from hivecore.traces import TrainingTrace

__all__ = ["Jobs"]

#: How much longer an iteration takes than in the profile, even alone on its GPUs.
_SOLO_SLOWDOWN = 1.015


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The jobs of a trace in order of submission.

    :param submit: seconds.
    :param gpus: the number that each job needs at once.
    :param iterations: whole numbers, as floats.
    :param solo: seconds of an iteration alone on its GPUs.
    :param stages: seconds of an iteration's stages: storage and CPU, GPU, network.
    :param duration: seconds, as the trace estimates it.
    :param restart: seconds of a restart.
    """

    submit: list[float]
    gpus: list[int]
    iterations: list[float]
    solo: list[float]
    stages: list[tuple[float, float, float]]
    duration: list[float]
    restart: list[float]

    @classmethod
    def of(cls, trace: TrainingTrace, restart_costs: bool = True) -> Self:
        """Return the jobs of a trace.

        :param trace: any trace.
        :param restart_costs: whether restarts take time.
        """
        gpus = trace.gpus.tolist()
        restart = [
            float(restart_seconds(model, count)) if restart_costs else 0.0
            for model, count in zip(trace.model.tolist(), gpus, strict=True)
        ]
        return cls(
            submit=trace.submit.tolist(),
            gpus=gpus,
            iterations=[float(count) for count in trace.iterations.tolist()],
            solo=(trace.iteration_ms * _SOLO_SLOWDOWN / 1000.0).tolist(),
            stages=[(data, gpu, net) for data, gpu, net in (trace.stages_ms / 1000.0).tolist()],
            duration=trace.duration.tolist(),
            restart=restart,
        )

    def __len__(self) -> int:
        return len(self.submit)
