"""The random numbers of all twins: SplitMix64 (Steele, Lea, Flood, OOPSLA'14)."""

STEP = 0x9E3779B97F4A7C15
_WORD = 2**64


class SplitMix64:
    """A generator with a single word of state."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        """Return the next 64 bits."""
        self.state = (self.state + STEP) % _WORD
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % _WORD
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """Return each of 0..bound-1 with exactly equal probability."""
        while True:
            value = self.next()
            if value >= _WORD % bound:
                return value % bound

    def draw(self, pool: list[int]) -> int:
        """Remove and return a random element of the pool."""
        place = self.below(len(pool))
        pool[place], pool[-1] = pool[-1], pool[place]
        return pool.pop()
