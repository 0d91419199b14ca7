"""The cost of stopping and restarting a training job, measured by Muri's authors.

Source: Rivendile/Muri (Apache-2.0), the artifact of Muri (SIGCOMM'22).
"""

__all__ = ["restart_seconds"]

_GPUS = (1, 2, 4, 8, 16, 32)
_SECONDS = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
_UNKNOWN_MODEL = 10


def restart_seconds(model: str, gpus: int) -> int:
    """Return the seconds of a job's restart.

    :param model: name of the model; an unknown one takes 10 seconds.
    :param gpus: 1, 2, 4, 8, 16 or 32; other numbers count as the next larger one, at most 32.

    >>> restart_seconds("a2c", 8), restart_seconds("vgg16", 3), restart_seconds("llama", 8)
    (46, 8, 10)
    """
    if model not in _SECONDS:
        return _UNKNOWN_MODEL
    column = sum(size < gpus for size in _GPUS)
    return _SECONDS[model][min(column, len(_GPUS) - 1)]
