"""Generates training jobs with datasets, or datasets for the jobs of another trace.

The catalogue is synthetic: sizes and rates are rounded recollections of public datasets and models
at the time of SiloD's evaluation (EuroSys'23), not verified. Do not compare results with published
figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hivecore._arguments import MOST_SEED, as_int
from hivecore.traces._random_jobs import (
    MOST_GPUS,
    as_share,
    as_sizes,
    draw_gpus,
    draw_seconds,
    draw_submissions,
)
from hivecore.traces.storage import StorageTrace
from hivecore.traces.trace import Trace
from hivecore.traces.training import TrainingTrace

__all__ = ["generate_storage", "with_datasets"]

_GB: Mapping[str, float] = {
    "imagenet-1k": 143.0,
    "open-images": 660.0,
    "imagenet-22k": 1360.0,
    "youtube-8m": 1460.0,
    "text": 20900.0,
}
_IMAGES = ("imagenet-1k", "open-images", "imagenet-22k")
#: model -> (MB/s per GPU, share of the jobs, datasets that it reads)
_MODELS: Mapping[str, tuple[float, float, Sequence[str]]] = {
    "resnet-50": (114.0, 0.4, _IMAGES),
    "efficientnet-b1": (69.0, 0.3, _IMAGES),
    "vlad": (10.0, 0.1, ("youtube-8m",)),
    "bert": (2.0, 0.2, ("text",)),
}
_GPUS = (1, 2, 4, 8)
_SHARE = (0.7, 0.1, 0.15, 0.05)
_MEDIAN_SECONDS, _LOG_DEVIATION = 6 * 3600.0, 1.0
_LONGEST = 20.0  # medians


def generate_storage(
    jobs: int, seed: int, gpus: int = 96, load: float = 1.5, shared: float = 0.3
) -> StorageTrace:
    """Return random training jobs with datasets, with random single arrivals.

    :param jobs: their number, at least 1.
    :param seed: equal seeds give equal traces.
    :param gpus: of the cluster, at least 1; no job is larger.
    :param load: positive; GPU time of the jobs without waiting for data, divided by the GPU time of
        the cluster until the last submission. Above 1, jobs queue up.
    :param shared: 0 to 1, the fraction of jobs that read the common copy of their dataset; every
        other job has a copy of its own, which counts as a different dataset.
    :raises ValueError: an argument is out of range.

    Cost: O(jobs). Source: the module's synthetic catalogue; the times are log-normal and invented.

    >>> trace = generate_storage(jobs=500, seed=0, load=2.0)
    >>> gpu_seconds = float(trace.gpus @ (1000 * trace.total_gb / trace.rate_mbps))
    >>> trace.jobs, round(gpu_seconds / (96 * float(trace.submit[-1])), 6)
    (500, 2.0)
    """
    jobs, load, seed = as_sizes(jobs, load, seed)
    gpus = as_int(gpus, "gpus", 1, MOST_GPUS)
    rng = np.random.default_rng(seed)
    size = draw_gpus(rng, jobs, gpus, _GPUS, _SHARE)
    duration = draw_seconds(rng, jobs, _MEDIAN_SECONDS, _LOG_DEVIATION, _LONGEST)
    submit = draw_submissions(rng, float(size @ duration), jobs, load * gpus)
    return _assign(np.arange(jobs).astype(np.str_), submit, duration, size, seed, shared)


def with_datasets(trace: Trace | TrainingTrace, seed: int, shared: float = 0.3) -> StorageTrace:
    """Return the jobs of a trace with random datasets and rates.

    :param trace: from any loader, or a `TrainingTrace`; submission, duration and GPUs stay.
    :param seed: equal seeds give equal traces.
    :param shared: 0 to 1, the fraction of jobs that read the common copy of their dataset.
    :raises ValueError: an argument is out of range, or a job has no duration.

    A job reads as much as fits into its duration without waiting. Models and datasets come from the
    module's synthetic catalogue. Cost: O(jobs).

    >>> from hivecore.traces import generate
    >>> storage = with_datasets(generate({"x": 8}, jobs=50, seed=0), seed=0, shared=1.0)
    >>> set(storage.dataset.tolist()) <= {
    ...     "imagenet-1k", "open-images", "imagenet-22k", "youtube-8m", "text"}
    True
    """
    if not isinstance(trace, (Trace, TrainingTrace)):
        raise TypeError(f"trace must be a Trace or a TrainingTrace, not {type(trace).__name__}")
    seed = as_int(seed, "seed", 0, MOST_SEED)
    jobs = _assign(trace.job_id, trace.submit, trace.duration, trace.gpus, seed, shared)
    return replace(jobs, dropped=trace.dropped)


def _assign(
    job_id: npt.NDArray[np.str_],
    submit: npt.NDArray[np.float64],
    duration: npt.NDArray[np.float64],
    gpus: npt.NDArray[np.int64],
    seed: int,
    shared: float,
) -> StorageTrace:
    shared = as_share(shared, "shared")
    rng = np.random.default_rng((seed, 1))
    models = list(_MODELS.values())
    model = rng.choice(len(models), size=len(job_id), p=[share for _, share, _ in models])
    which = rng.random(len(job_id))
    own = rng.random(len(job_id)) >= shared
    per_gpu = np.array([rate for rate, _, _ in models])[model]
    kinds = [
        names[int(at * len(names))]
        for at, (_, _, names) in zip(which.tolist(), (models[code] for code in model), strict=True)
    ]
    rate: npt.NDArray[np.float64] = per_gpu * gpus.astype(np.float64)
    return StorageTrace(
        job_id=job_id,
        dataset=np.array(
            [
                f"{name} of {job}" if alone else name
                for name, job, alone in zip(kinds, job_id.tolist(), own.tolist(), strict=True)
            ]
        ),
        dataset_gb=np.array([_GB[name] for name in kinds]),
        total_gb=rate * duration / 1000.0,
        rate_mbps=rate,
        gpus=gpus,
        submit=submit,
    )
