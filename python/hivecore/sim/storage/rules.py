"""What jobs get of GPUs, cache and remote IO, by policy names or a scheduler's storage."""

from dataclasses import dataclass

from hivecore._arguments import as_choice
from hivecore.scheduler import StoragePool
from hivecore.sim.storage.caches import Allotted, CachePolicy, PerGpu, SharedLru, WholeDatasets
from hivecore.sim.storage.orders import Fifo, GpuOrder, LeastAttained, MaxMin, OfObjective, Shortest

__all__ = ["GPU_POLICIES", "STORAGE_SYSTEMS", "Rules", "rules_of", "rules_of_pool"]

#: First in first out, shortest job first, shortest remaining time first, least attained service
#: first, max-min fairness.
GPU_POLICIES = ("fifo", "sjf", "srtf", "las", "max-min")
_CACHES: dict[str, type[CachePolicy]] = {
    "silod": Allotted,
    "quiver": WholeDatasets,
    "coordl": PerGpu,
    "alluxio": SharedLru,
}
#: "silod", which shares the knowledge of the GPU policy, and the independent systems "quiver"
#: (whole datasets), "coordl" (a cache for each GPU) and "alluxio" (one LRU cache).
STORAGE_SYSTEMS = tuple(_CACHES)


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """A rule each for GPUs, cache and remote IO.

    :param order: which jobs get GPUs.
    :param cache: how much cache each gets.
    :param io_mode: how remote IO is divided, as in `hivecore.storage.allocate_storage`.
    :param warm_up: whether spare remote IO fills the caches of jobs that run or wait.
    """

    order: GpuOrder
    cache: CachePolicy
    io_mode: str
    warm_up: bool = False


def rules_of(policy: str, storage: str, warm_up: bool = False) -> Rules:
    """Return the rules of a policy and a storage system.

    :param policy: of `GPU_POLICIES`. Only with "silod" it estimates times with storage.
    :param storage: of `STORAGE_SYSTEMS`. With "silod" remote IO goes to the most urgent jobs, or
        with "max-min" to equal progress; other systems leave it to the network, which is fair.
    :param warm_up: whether spare remote IO fills caches.
    :raises ValueError: an unknown name.

    >>> rules_of("fifo", "alluxio").io_mode
    'maxmin_io'
    """
    as_choice(storage, "storage", STORAGE_SYSTEMS)
    aware = storage == "silod"
    orders: dict[str, GpuOrder] = {
        "fifo": Fifo(),
        "sjf": Shortest(preemptive=False, aware=aware),
        "srtf": Shortest(preemptive=True, aware=aware),
        "las": LeastAttained(),
        "max-min": MaxMin(aware),
    }
    as_choice(policy, "policy", GPU_POLICIES)
    managed = "maxmin_rate" if policy == "max-min" else "priority"
    return Rules(orders[policy], _CACHES[storage](), managed if aware else "maxmin_io", warm_up)


def rules_of_pool(pool: StoragePool) -> Rules:
    """Return the rules by which a scheduler gives a pool's cache and remote IO to jobs.

    :param pool: its objective decides how remote IO is divided.
    """
    objective = pool.objective
    cache = Allotted(pool.eps, pool.ahead, objective in ("finish_time", "sjf"))
    io_mode = "maxmin_rate" if objective in ("finish_time", "max_min") else "priority"
    return Rules(OfObjective(objective), cache, io_mode)
