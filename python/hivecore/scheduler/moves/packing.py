"""Whether pods of some sizes find room at all."""

from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["may_pack"]

_MOST_PODS = 64
_MOST_STEPS = 500


def may_pack(pods: Sequence[int], rooms: Mapping[int, int]) -> bool:
    """Whether pods find room, or it takes too long to find out that they do not.

    :param rooms: by size, how many there are.
    """
    return len(pods) > _MOST_PODS or _Packing(pods, rooms).fits(0)


class _Packing:
    def __init__(self, pods: Sequence[int], rooms: Mapping[int, int]) -> None:
        self.pods, self.left, self.steps = sorted(pods, reverse=True), Counter(rooms), 0

    def fits(self, i: int) -> bool:
        """Place the pods from the i-th on, the largest first, in tight rooms first."""
        self.steps += 1
        if i == len(self.pods) or self.steps > _MOST_STEPS:
            return True
        size, left = self.pods[i], self.left
        for room in sorted(room for room, count in left.items() if count > 0 and room >= size):
            left[room] -= 1
            left[room - size] += 1
            found = self.fits(i + 1)
            left[room - size] -= 1
            left[room] += 1
            if found:
                return True
        return False
