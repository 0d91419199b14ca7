"""Training jobs that share GPUs, cache and the bandwidth of remote storage.

`schedule_storage` runs jobs that read a dataset repeatedly, under FIFO, SJF, SRTF, LAS or max-min
fairness, with SiloD's joint allocation of cache and remote IO, or with an independent storage
system: Alluxio's LRU, CoorDL or Quiver. A `hivecore.scheduler.Scheduler` decides which jobs run and
what SiloD caches; amounts of data flow as a fluid between its decisions. `storage_figures` returns
completion times, utilisation and fairness. With `reading_from`, jobs of any scheduler read by the
same model.
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
