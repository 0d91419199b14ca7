"""Seeded invertible permutations, one per epoch.

A position is a point (left, right) of a grid. A round adds a keyed hash of one coordinate to the
other, modulo its length; the next round swaps the roles. Each round can be inverted.
"""

from math import isqrt

from hivecore.reference.caching._splitmix import STEP, SplitMix64

__all__ = ["EpochShuffle"]

_HALF = (1 << 32) - 1
_ROUNDS = 8
_DIRECT = 64  # up to so many items, the grid would be too small to mix well


def _hash(key: int, value: int, limit: int) -> int:
    """Return a hash below the limit."""
    h = ((value + key) * 0x9E3779B1) & _HALF
    h = (((h ^ (h >> 16)) + (key >> 32)) * 0x85EBCA6B) & _HALF
    return ((h ^ (h >> 15)) * limit) >> 32


class EpochShuffle:
    """The readable twin of `hivecore.caching.EpochShuffle`."""

    def __init__(self, seed: int, items: int) -> None:
        self.seed = seed
        self.items = items
        self._width = isqrt(items - 1) + 1
        self._height = (items - 1) // self._width + 1

    def _random(self, epoch: int) -> SplitMix64:
        """Return the random generator of an epoch."""
        start = SplitMix64(self.seed).next()
        return SplitMix64(SplitMix64(start + epoch * STEP).next())

    def _keys(self, epoch: int) -> list[int]:
        random = self._random(epoch)
        return [random.next() for _ in range(_ROUNDS)]

    def _direct(self, epoch: int) -> list[int]:
        """Fisher-Yates shuffle."""
        random = self._random(epoch)
        order = list(range(self.items))
        for left in range(self.items, 1, -1):
            other = (random.next() >> 32) * left >> 32
            order[left - 1], order[other] = order[other], order[left - 1]
        return order

    def order(self, epoch: int) -> list[int]:
        return [self.item(epoch, position) for position in range(self.items)]

    def item(self, epoch: int, position: int) -> int:
        if self.items <= _DIRECT:
            return self._direct(epoch)[position]
        keys = self._keys(epoch)
        right, left = divmod(position, self._width)
        while True:
            for r in range(0, _ROUNDS, 2):
                left = (left + _hash(keys[r], right, self._width)) % self._width
                right = (right + _hash(keys[r + 1], left, self._height)) % self._height
            if right * self._width + left < self.items:
                return right * self._width + left

    def position(self, epoch: int, item: int) -> int:
        if self.items <= _DIRECT:
            return self._direct(epoch).index(item)
        keys = self._keys(epoch)
        right, left = divmod(item, self._width)
        while True:
            for r in range(_ROUNDS - 2, -1, -2):
                right = (right - _hash(keys[r + 1], left, self._height)) % self._height
                left = (left - _hash(keys[r], right, self._width)) % self._width
            if right * self._width + left < self.items:
                return right * self._width + left
