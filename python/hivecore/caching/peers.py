"""What the caches of a job's workers are worth together: private, or read by each other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hivecore.caching._numbers import as_amount, as_amounts, as_flag, as_one_shape

__all__ = ["PeerCacheModel", "peer_cache_model"]


@dataclass(frozen=True, slots=True, eq=False)
class PeerCacheModel:
    """Where the bytes of an epoch come from, as shares of the dataset that sum to 1."""

    local: npt.NDArray[np.float64]
    """From the cache of the worker that reads."""
    peer: npt.NDArray[np.float64]
    """From the cache of another worker."""
    remote: npt.NDArray[np.float64]
    """From remote storage."""

    @property
    def hit(self) -> npt.NDArray[np.float64]:
        """The hit ratio by bytes: ``local + peer``."""
        return self.local + self.peer


def peer_cache_model(
    cached: npt.ArrayLike, dataset: npt.ArrayLike, *, replicas: float = 1.0, peers: bool = True
) -> PeerCacheModel:
    """The expected shares of local, peer and remote reads of a data-parallel job.

    Every epoch each item is read once, by a worker drawn at random. With ``peers`` the workers read
    each other's caches: ``hit = min(1, sum(cached) / (replicas * dataset))``; without, each only
    its own: ``hit = sum(cached) / (K * dataset)``. Either way ``mean(cached) / dataset`` is local.

    :param cached: GB of the dataset that each of the K workers caches, shape (..., K), at most the
        dataset.
    :param dataset: size in GB, above 0, shape (...).
    :param replicas: mean number of copies of what is cached, at least 1; only matters with
        ``peers``.
    :param peers: whether workers read each other's caches.
    :raises ValueError: a value is out of range, or no such mean is possible: the largest cache
        alone holds more than ``sum(cached) / replicas`` different bytes.
    :raises TypeError: an argument does not hold numbers.
    :returns: arrays of shape (...).

    Cost: O(elements). Source: CoorDL (PVLDB 14(5), 2021) for partitioned caches with peer reads;
    the formulas follow from each worker's reading a random K-th of the items.

    >>> peer_cache_model([25, 25, 25, 25], 200)              # four private caches of 25 of 200 GB
    PeerCacheModel(local=array(0.125), peer=array(0.375), remote=array(0.5))
    >>> float(peer_cache_model([25, 25, 25, 25], 200, peers=False).hit)
    0.125
    """
    each = as_amounts(cached, "cached")
    size = as_amounts(dataset, "dataset", positive=True)
    copies = as_amount(replicas, "replicas", 1.0)
    if each.ndim == 0 or each.shape[-1] == 0:
        raise ValueError("cached must have at least one worker along its last dimension")
    as_one_shape(each[..., 0], size)
    if (each > size[..., np.newaxis]).any():
        raise ValueError(f"cached={float(each.max())} GB: a cache holds more than the dataset")
    local = each.mean(axis=-1) / size
    if not as_flag(peers, "peers"):
        return PeerCacheModel(np.asarray(local), np.zeros_like(local), np.asarray(1.0 - local))
    different = each.sum(axis=-1) / copies
    if (different < each.max(axis=-1) * (1 - 1e-12)).any():
        raise ValueError(
            f"replicas={replicas}: the largest cache alone holds more than sum(cached) / replicas"
        )
    hit = np.maximum(np.minimum(1.0, different / size), local)
    return PeerCacheModel(np.asarray(local), np.asarray(hit - local), np.asarray(1.0 - hit))
