"""Training jobs that share GPUs, cache and the bandwidth of remote storage.

`schedule_storage` runs jobs that read a dataset again and again under FIFO, SJF, SRTF, LAS or
max-min fairness, with SiloD's joint allocation of cache and remote IO, or with a storage system
that acts for itself: Alluxio's LRU, CoorDL or Quiver. `hivecore.scheduler.Scheduler` says which
jobs run, and what SiloD caches, in the one event loop of the simulator; amounts of data are a fluid
in it. `storage_figures` turns the outcome into completion times, utilisation and fairness. Jobs of
any scheduler read by the same model with `reading_from`.
"""

from hivecore.sim.storage.history import StorageHistory
from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.report import StorageFigures, storage_figures
from hivecore.sim.storage.rules import GPU_POLICIES, STORAGE_SYSTEMS, Rules, rules_of
from hivecore.sim.storage.schedule import reading_from, schedule_storage
from hivecore.sim.storage.workload import StorageCluster, StorageWorkload

__all__ = [
    "GPU_POLICIES",
    "STORAGE_SYSTEMS",
    "Rules",
    "StorageCluster",
    "StorageFigures",
    "StorageHistory",
    "StorageOutcome",
    "StorageWorkload",
    "reading_from",
    "rules_of",
    "schedule_storage",
    "storage_figures",
]
