"""Token buckets that share a total rate, tick by tick.

Each nanosecond, a job's bucket gains `rate` nano-bytes, and the spare bucket gains the unassigned
rate. What does not fit into a full bucket goes to the spare bucket, which holds the unassigned part
of the total burst. With lending, a job takes from the spare bucket what its own lacks.

All tokens together never exceed `burst` and grow by at most `rate` per second, so all jobs together
get at most rate * t + burst bytes in any t seconds.

Amounts are whole nano-bytes, as Python integers.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hivecore.errors import InvariantError

__all__ = ["RemoteIOLimiter"]

_GIGA = 10**9
_NEVER = 2**63 - 1


class _Job:
    def __init__(self, rate: int, burst: int, tokens: int) -> None:
        self.rate = rate
        self.burst = burst
        self.tokens = tokens  # nano-bytes, at most burst * 10**9


class RemoteIOLimiter:
    """The readable twin of `hivecore.storage.RemoteIOLimiter`."""

    def __init__(self, rate_bytes: int, burst_bytes: int, *, lend: bool = False) -> None:
        self.rate_bytes = rate_bytes
        self.burst_bytes = burst_bytes
        self.lend = lend
        self.now_ns = 0
        self._jobs: dict[int, _Job] = {}
        self._spare = burst_bytes * _GIGA

    @property
    def free_rate_bytes(self) -> int:
        return self.rate_bytes - sum(job.rate for job in self._jobs.values())

    @property
    def free_burst_bytes(self) -> int:
        return self.burst_bytes - sum(job.burst for job in self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    def add_job(self, rate_bytes: int, burst_bytes: int, now_ns: int) -> int:
        self._advance(now_ns)
        job = next(job for job in range(len(self._jobs) + 1) if job not in self._jobs)
        tokens = min(burst_bytes * _GIGA, self._spare)
        self._spare -= tokens
        self._jobs[job] = _Job(rate_bytes, burst_bytes, tokens)
        return job

    def remove_job(self, job: int, now_ns: int) -> None:
        self._need(job)
        self._advance(now_ns)
        self._spare += self._jobs.pop(job).tokens

    def set_rate(
        self, job: int, rate_bytes: int, burst_bytes: int | None = None, *, now_ns: int
    ) -> None:
        bucket = self._need(job)
        burst_bytes = bucket.burst if burst_bytes is None else burst_bytes
        self._advance(now_ns)
        bucket.rate, bucket.burst = rate_bytes, burst_bytes
        both = bucket.tokens + self._spare
        bucket.tokens = min(bucket.tokens, burst_bytes * _GIGA)
        self._spare = min(both - bucket.tokens, self.free_burst_bytes * _GIGA)
        bucket.tokens = both - self._spare

    def job_rate(self, job: int) -> tuple[int, int]:
        return self._need(job).rate, self._jobs[job].burst

    def take(self, job: int, bytes: int, now_ns: int) -> int:
        bucket = self._need(job)
        self._advance(now_ns)
        wanted = bytes * _GIGA
        own = min(wanted, bucket.tokens)
        borrowed = wanted - own
        if borrowed == 0 or (self.lend and borrowed <= self._spare):
            bucket.tokens -= own
            self._spare -= borrowed
            return 0
        if bucket.rate == 0 or -(-borrowed // _GIGA) // bucket.rate >= _NEVER // _GIGA:
            return _NEVER
        return -(-borrowed // bucket.rate)

    def take_many(
        self, jobs: Iterable[int], bytes: Iterable[int], now_ns: int
    ) -> npt.NDArray[np.int64]:
        requests = list(zip(jobs, bytes, strict=True))
        for job, _ in requests:
            self._need(job)
        return np.array([self.take(job, size, now_ns) for job, size in requests], dtype=np.int64)

    def tokens(self, job: int, now_ns: int) -> int:
        bucket = self._need(job)
        self._advance(now_ns)
        return bucket.tokens // _GIGA

    def spare(self, now_ns: int) -> int:
        self._advance(now_ns)
        return self._spare // _GIGA

    def check(self) -> None:
        if self.free_rate_bytes < 0 or not 0 <= self._spare <= self.free_burst_bytes * _GIGA:
            raise InvariantError("more is promised than there is, or the spare bucket overflows")
        for job, bucket in self._jobs.items():
            if not 0 <= bucket.tokens <= bucket.burst * _GIGA:
                raise InvariantError(f"job {job}: impossible tokens")

    def _advance(self, now_ns: int) -> None:
        """Fill all buckets; overflow goes to the spare bucket."""
        passed = max(now_ns - self.now_ns, 0)
        self.now_ns += passed
        self._spare += self.free_rate_bytes * passed
        for job in self._jobs.values():
            gained = job.tokens + job.rate * passed
            job.tokens = min(gained, job.burst * _GIGA)
            self._spare += gained - job.tokens
        self._spare = min(self._spare, self.free_burst_bytes * _GIGA)

    def _need(self, job: int) -> _Job:
        if job not in self._jobs:
            raise KeyError(f"job={job}: no such job")
        return self._jobs[job]
