"""Generates training jobs: models that are bound by different resources, in several sizes.

Unlike those of `generate`, the parameters are invented: round numbers with which an iteration of
any model takes a third to half of a second.
"""

import numpy as np

from hivecore._arguments import as_int
from hivecore.traces._random_jobs import (
    MOST_GPUS,
    as_sizes,
    draw_gpus,
    draw_seconds,
    draw_submissions,
)
from hivecore.traces.training import TrainingTrace

__all__ = ["generate_training"]

#: Milliseconds of an iteration for storage and CPU, for the GPU, and for each doubling of the GPUs
#: on the network.
_MODELS = {
    "images": (350.0, 60.0, 10.0),
    "player": (300.0, 20.0, 2.0),
    "speech": (40.0, 330.0, 10.0),
    "language": (5.0, 300.0, 40.0),
    "recommender": (60.0, 60.0, 110.0),
}
_GPUS = (1, 2, 4, 8, 16, 32)
_SHARE = (0.35, 0.08, 0.15, 0.34, 0.05, 0.03)
_MEDIAN_SECONDS, _LOG_DEVIATION = 3600.0, 1.6
_LONGEST = 100.0  # medians


def generate_training(jobs: int, seed: int, gpus: int = 64, load: float = 2.0) -> TrainingTrace:
    """Return random training jobs with random single arrivals.

    :param jobs: their number, at least 1.
    :param seed: equal seeds give equal traces.
    :param gpus: of the cluster, at least 1; no job is larger.
    :param load: positive; GPU time of the jobs, each alone on its GPUs, divided by the GPU time of
        the cluster until the last submission. Above 1, jobs queue up.
    :raises ValueError: an argument is out of range.

    Cost: O(jobs). Source: see the module.

    >>> trace = generate_training(jobs=500, seed=0, load=1.5)
    >>> work = float(trace.gpus @ trace.duration)
    >>> trace.jobs, round(work / (64 * float(trace.submit[-1])), 6)
    (500, 1.5)
    """
    jobs, load, seed = as_sizes(jobs, load, seed)
    gpus = as_int(gpus, "gpus", 1, MOST_GPUS)
    rng = np.random.default_rng(seed)
    size = draw_gpus(rng, jobs, gpus, _GPUS, _SHARE)
    model = rng.integers(len(_MODELS), size=jobs)
    stages = np.array(list(_MODELS.values()))[model]
    stages[:, 2] *= np.log2(size)
    iteration = stages.sum(axis=1)

    seconds = draw_seconds(rng, jobs, _MEDIAN_SECONDS, _LOG_DEVIATION, _LONGEST)
    iterations = np.maximum(np.rint(1000.0 * seconds / iteration), 1.0)
    duration = iterations * iteration / 1000.0
    submit = draw_submissions(rng, float(size @ duration), jobs, load * gpus)
    return TrainingTrace(
        job_id=np.arange(jobs).astype(np.str_),
        model=np.array(list(_MODELS))[model],
        gpus=size,
        submit=submit,
        duration=duration,
        iterations=iterations.astype(np.int64),
        iteration_ms=iteration,
        stages_ms=stages,
    )
