"""A token bucket per job as it is usually written in Python, with floats."""


class FloatBucket:
    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.last = burst, 0.0

    def take(self, amount: float, now: float) -> float:
        self.tokens = min(self.burst, self.tokens + (now - self.last) * self.rate)
        self.last = now
        if self.tokens >= amount:
            self.tokens -= amount
            return 0.0
        return (amount - self.tokens) / self.rate


class FloatLimiter:
    def __init__(self, rates: list[float], burst: float) -> None:
        self.buckets = [FloatBucket(rate, burst) for rate in rates]

    def take(self, job: int, amount: float, now: float) -> float:
        return self.buckets[job].take(amount, now)
