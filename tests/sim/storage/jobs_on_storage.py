"""What the tests of the storage simulator have in common: jobs from rows, in GB and MB/s."""

import numpy as np

from hivecore.sim.storage import StorageWorkload
from hivecore.traces import StorageTrace


def workload(*rows):
    """Jobs from rows (dataset, size, total, rate, gpus, submit), in order of submission."""
    columns = map(np.array, zip(*rows, strict=True))
    ids = np.arange(len(rows)).astype(np.str_)
    return StorageWorkload.of(StorageTrace(ids, *columns))
