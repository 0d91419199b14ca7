"""What one would write in Python for a cache that evicts by recency and copies elsewhere."""

from heapq import heapify, heappop, heappush

Entry = tuple[float, int, int]  # score, clock, block


class HeapCache:
    """One heap of all scores ever; what is out of date is skipped when it comes up."""

    def __init__(self, capacity: int, alpha: float, beta: float, most: int) -> None:
        self.capacity, self.alpha, self.beta, self.most = capacity, alpha, beta, most
        self.clock = 0
        self.entries: dict[int, Entry] = {}
        self.counts: dict[int, int] = {}
        self.heap: list[Entry] = []

    def put(self, block: int, clock: int) -> None:
        copies = min(max(self.counts.get(block, 0), 0), self.most)
        entry = self.alpha * clock - self.beta * copies, clock, block
        self.entries[block] = entry
        heappush(self.heap, entry)
        if len(self.heap) > 4 * self.capacity:
            self.heap = list(self.entries.values())
            heapify(self.heap)

    def access(self, block: int) -> bool:
        self.clock += 1
        hit = block in self.entries
        if not hit and len(self.entries) >= self.capacity:
            while True:
                entry = heappop(self.heap)
                if self.entries.get(entry[2]) is entry:
                    del self.entries[entry[2]]
                    break
        self.put(block, self.clock)
        return hit

    def apply(self, blocks: list[int], changes: list[int]) -> None:
        for block, change in zip(blocks, changes, strict=True):
            self.counts[block] = self.counts.get(block, 0) + change
            if block in self.entries:
                self.put(block, self.entries[block][1])
