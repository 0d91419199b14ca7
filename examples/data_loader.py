"""A data loader whose files come through a `UniformCache`: two epochs, two datasets, one cache.

The cache keeps books, not data: it says which items are there, which to keep of those that were
fetched, and what to delete when a quota shrinks. The store here is a dict, in earnest it is a disk.
"""

import numpy as np

from hivecore.caching import EpochShuffle, UniformCache

ITEM = 1_000_000  # bytes
BATCH = 50


class Loader:
    """Reads a dataset once per epoch in a new order."""

    def __init__(self, cache: UniformCache, dataset: str, items: int, seed: int) -> None:
        self.cache, self.dataset = cache, dataset
        self.shuffle = EpochShuffle(seed, items)
        self.store: dict[int, bytes] = {}
        self.remote = 0
        cache.attach(f"job of {dataset}", dataset)

    def epoch(self, number: int) -> None:
        """Read every item; what is admitted on the way is kept."""
        order = self.shuffle.order(number)
        for batch in np.split(order, range(BATCH, len(order), BATCH)):
            hits = np.zeros(len(batch), dtype=bool)
            self.cache.access(self.dataset, batch, job=f"job of {self.dataset}", out=hits)
            assert all(int(item) in self.store for item in batch[hits])
            missed = batch[~hits]
            self.remote += len(missed)
            for item in missed[self.cache.is_cached(self.dataset, missed)]:
                self.store[int(item)] = b"pixels"  # fetched, and admitted


def main() -> None:
    """Run two epochs, move quota from one dataset to the other, run two more."""
    cache = UniformCache(capacity=500 * ITEM)
    loaders = []
    for seed, (name, items, quota) in enumerate([("images", 800, 400), ("text", 200, 100)]):
        cache.add_dataset(name, items=items, item_size=ITEM, quota=quota * ITEM)
        loaders.append(Loader(cache, name, items, seed))
    for epoch in range(4):
        if epoch == 2:
            for item in cache.set_quota("images", 300 * ITEM):
                del loaders[0].store[int(item)]
            cache.set_quota("text", 200 * ITEM)
            print("a quarter of the quota of images goes to text")
        for loader in loaders:
            before = loader.remote
            loader.epoch(epoch)
            print(f"epoch {epoch}: {loader.remote - before} remote reads of {loader.dataset}")


if __name__ == "__main__":
    main()
