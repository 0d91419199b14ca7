"""What a format's reader hands over: the columns of one file, before tenants become codes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["Part", "stem"]


@dataclass(frozen=True, slots=True)
class Part:
    """The jobs of one file in file order; columns as in `Trace`, tenants as names."""

    job_id: npt.NDArray[np.str_]
    tenant: list[str]
    submit: npt.NDArray[np.float64]
    duration: npt.NDArray[np.float64]
    gpus: npt.NDArray[np.int64]
    dropped: Mapping[str, int] = field(default_factory=dict)


def stem(path: Path) -> str:
    """Return the file's name without its endings, which names the tenant of a one-tenant file."""
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name
