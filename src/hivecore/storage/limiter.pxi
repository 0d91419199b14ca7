"""Token buckets for remote IO."""


cdef extern from "storage/limiter.hpp" namespace "hivecore::storage" nogil:
    cdef cppclass LimiterTokens "hivecore::storage::Limiter::Tokens":
        int64_t bytes
        int64_t nano

    cdef cppclass Limiter:
        Limiter(int64_t, int64_t, bint) except +
        int64_t total_rate "rate"() noexcept
        int64_t total_burst "burst"() noexcept
        bint lend() noexcept
        int64_t now() noexcept
        int64_t free_rate() noexcept
        int64_t free_burst() noexcept
        int64_t slots() noexcept
        int64_t size() noexcept
        bint is_live(int64_t) noexcept
        int64_t rate(int64_t) noexcept
        int64_t burst(int64_t) noexcept
        void reserve() except +
        int64_t add(int64_t, int64_t, int64_t) except +
        void remove(int64_t, int64_t) noexcept
        void set(int64_t, int64_t, int64_t, int64_t) noexcept
        int64_t take(int64_t, int64_t, int64_t) noexcept
        void take_many(Values, Batch, int64_t) noexcept
        int64_t first_bad(Values, Values) noexcept
        LimiterTokens tokens(int64_t, int64_t) noexcept
        LimiterTokens spare(int64_t) noexcept
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept

    enum:
        LIMITER_MOST_RATE "hivecore::storage::Limiter::kMaxRate"
        LIMITER_MOST_BURST "hivecore::storage::Limiter::kMaxBurst"
        LIMITER_MOST_TIME "hivecore::storage::Limiter::kMaxTime"
        LIMITER_MOST_JOBS "hivecore::storage::Limiter::kMaxJobs"


cdef enum:
    LONG_BATCH = 1024  # requests, from which on the GIL is released


cdef int64_t as_now(object now_ns) except -1:
    return as_bounded(now_ns, "now_ns", 0, LIMITER_MOST_TIME)


@cython.final
cdef class RemoteIOLimiter(KernelObject):
    """RemoteIOLimiter(rate_bytes, burst_bytes, *, lend=False)\n--\n\nToken buckets that divide the egress of a remote store among jobs, exactly.

    Every job has a bucket that fills at its rate up to its burst. The jobs' rates and bursts never
    exceed the totals. What full buckets cannot hold, and what no job was promised, goes to a spare
    bucket; with ``lend=True`` a job takes from there what its own bucket lacks. The spare bucket
    has room for the part of the total burst that no job has: leave some, or nothing can be lent.

    :param rate_bytes: of all jobs together, bytes per second, 0 to 10**12 (1 MB/s is 1_000_000).
    :param burst_bytes: of all jobs together, 0 to 10**15; the spare bucket holds what of it no
        job has, and starts full.
    :param lend: whether what idle jobs do not use is lent to the others.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an argument has the wrong type.

    For every window of t seconds: all jobs together are granted at most rate * t + burst
    bytes, whatever jobs come, go or change; without lending, a job at most its own
    rate * t + burst. No job takes from another's bucket: a request that its job repeats after
    the wait that was returned is granted then, unless the job has taken tokens in between.

    Times are nanoseconds since any fixed moment, as of ``time.monotonic_ns()``, integers from 0 to
    2**62. Time that goes back stands still: an earlier ``now_ns`` counts as the latest one. Integer
    arithmetic throughout: no drift. Cost: O(log jobs) per call, amortised; mostly O(1). One object
    may be used by several threads: calls take turns. Source: token bucket; lending of overflow only
    is hivecore's own.

    >>> limiter = RemoteIOLimiter(rate_bytes=200_000_000, burst_bytes=74_000_000, lend=True)
    >>> a = limiter.add_job(150_000_000, 32_000_000, now_ns=0)
    >>> b = limiter.add_job(50_000_000, 32_000_000, now_ns=0)
    >>> limiter.take(b, 32_000_000, now_ns=0)              # the whole burst
    0
    >>> limiter.take(b, 10_000_000, now_ns=0)              # what the spare bucket had
    0
    >>> limiter.take(b, 10_000_000, now_ns=0)              # nanoseconds to wait
    200000000
    >>> limiter.take(b, 10_000_000, now_ns=50_000_000)     # earlier: A is idle and lends
    0
    """

    cdef Limiter* kernel

    def __cinit__(self, rate_bytes, burst_bytes, *, lend=False):
        cdef int64_t most = as_bounded(rate_bytes, "rate_bytes", 0, LIMITER_MOST_RATE)
        cdef int64_t room = as_bounded(burst_bytes, "burst_bytes", 0, LIMITER_MOST_BURST)
        cdef bint lends = as_flag(lend, "lend")
        self.kernel = new Limiter(most, room, lends)

    def __dealloc__(self):
        del self.kernel

    cdef inline int need_live(self, int64_t job) except -1:
        if not (0 <= job < self.kernel.slots() and self.kernel.is_live(job)):
            raise KeyError(f"job={job}: no such job")
        return 0

    @property
    def rate_bytes(self):
        """Bytes per second of all jobs together."""
        return self.kernel.total_rate()

    @property
    def burst_bytes(self):
        """Bytes that all jobs together may be granted at once."""
        return self.kernel.total_burst()

    @property
    def lend(self):
        """Whether what idle jobs do not use is lent to the others."""
        return bool(self.kernel.lend())

    @property
    def free_rate_bytes(self):
        """Bytes per second that no job was promised."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.free_rate()

    @property
    def free_burst_bytes(self):
        """Bytes of the burst that no job has: what the spare bucket can hold."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.free_burst()

    @property
    def now_ns(self):
        """The latest time seen, in nanoseconds."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.now()

    def __len__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.size()

    def add_job(self, rate_bytes, burst_bytes, now_ns):
        """Add a job and return its id, the lowest that is free.

        Its bucket starts with what the spare bucket has, at most its burst.

        :param rate_bytes: bytes per second, at most ``free_rate_bytes``.
        :param burst_bytes: bytes, at most ``free_burst_bytes``; no single request may be larger.
        :param now_ns: nanoseconds.
        :raises ValueError: an argument is out of range, or there are 2**20 jobs; nothing has
            changed.
        :raises TypeError: an argument is not an integer.
        """
        cdef Guard guard
        cdef int64_t speed = as_int64(rate_bytes, "rate_bytes")
        cdef int64_t room = as_int64(burst_bytes, "burst_bytes")
        cdef int64_t time = as_now(now_ns)
        guard.lock(self.mutex)
        if self.kernel.size() >= LIMITER_MOST_JOBS:
            raise ValueError(f"there are {LIMITER_MOST_JOBS} jobs, more are not allowed")
        as_bounded(speed, "rate_bytes", 0, self.kernel.free_rate())
        as_bounded(room, "burst_bytes", 0, self.kernel.free_burst())
        return self.kernel.add(speed, room, time)

    def remove_job(self, job, now_ns):
        """Remove a job; its tokens go to the spare bucket.

        :raises KeyError: no such job.
        :raises ValueError: ``now_ns`` is out of range.
        """
        cdef Guard guard
        cdef int64_t row = as_int64(job, "job")
        cdef int64_t time = as_now(now_ns)
        guard.lock(self.mutex)
        self.need_live(row)
        self.kernel.remove(row, time)

    def set_rate(self, job, rate_bytes, burst_bytes=None, *, now_ns):
        """Change a job's rate, and its burst unless that is ``None``, from ``now_ns`` on.

        Tokens above a smaller burst go to the spare bucket; a larger burst takes room from it,
        with the tokens that have no place there any more.

        :raises KeyError: no such job.
        :raises ValueError: the totals would be exceeded; nothing has changed.
        :raises TypeError: an argument is not an integer.
        """
        cdef Guard guard
        cdef int64_t row = as_int64(job, "job")
        cdef int64_t speed = as_int64(rate_bytes, "rate_bytes")
        cdef int64_t room = -1 if burst_bytes is None else as_int64(burst_bytes, "burst_bytes")
        cdef int64_t time = as_now(now_ns)
        guard.lock(self.mutex)
        self.need_live(row)
        if burst_bytes is None:
            room = self.kernel.burst(row)
        as_bounded(speed, "rate_bytes", 0, self.kernel.free_rate() + self.kernel.rate(row))
        as_bounded(room, "burst_bytes", 0, self.kernel.free_burst() + self.kernel.burst(row))
        self.kernel.set(row, speed, room, time)

    def job_rate(self, job, /):
        """A job's rate and burst: (bytes per second, bytes).

        :raises KeyError: no such job.
        """
        cdef Guard guard
        cdef int64_t row = as_int64(job, "job")
        guard.lock(self.mutex)
        self.need_live(row)
        return self.kernel.rate(row), self.kernel.burst(row)

    def take(self, job, bytes, now_ns):
        """Take bytes: 0 if granted, else nothing is taken and the answer is how long to wait.

        The wait is in nanoseconds, until the job's own bucket suffices; lending may serve it
        earlier. It is 2**63 - 1 where that is never (rate 0).

        :param bytes: an integer from 0 to the job's burst.
        :param now_ns: nanoseconds.
        :raises KeyError: no such job.
        :raises ValueError: ``bytes`` or ``now_ns`` is out of range; nothing has changed.
        :raises TypeError: an argument is not an integer.
        """
        cdef Guard guard
        cdef int64_t row = as_int64(job, "job")
        cdef int64_t size = as_int64(bytes, "bytes")
        cdef int64_t time = as_int64(now_ns, "now_ns")
        guard.lock(self.mutex)
        self.need_live(row)
        if not 0 <= size <= self.kernel.burst(row):
            raise ValueError(f"bytes={size}: allowed are 0 to the burst, {self.kernel.burst(row)}")
        if not 0 <= time <= LIMITER_MOST_TIME:
            raise ValueError(f"now_ns={time}: allowed are 0 to {<int64_t> LIMITER_MOST_TIME}")
        return self.kernel.take(row, size, time)

    def take_many(self, jobs, bytes, now_ns):
        """Take one after the other, all at one time: int64 array of waits, as ``take`` gives them.

        :param jobs: one-dimensional array of n job ids.
        :param bytes: one-dimensional array of n integers.
        :raises KeyError: no such job; nothing has changed.
        :raises ValueError: lengths differ or a value is out of range; nothing has changed.
        :raises TypeError: an array does not hold integers.
        """
        cdef Guard guard
        rows = as_int64_array(jobs, "jobs", 0)
        sizes = as_int64_array(bytes, "bytes", 0)
        if len(rows) != len(sizes):
            raise ValueError(f"jobs has {len(rows)} elements, bytes has {len(sizes)}")
        cdef int64_t time = as_now(now_ns)
        cdef Values row_span = as_values(rows)
        cdef Batch size_span = as_batch(sizes)
        guard.lock(self.mutex)
        cdef int64_t bad = self.kernel.first_bad(row_span, as_values(sizes))
        if bad >= 0:
            row, size = int(rows[bad]), int(sizes[bad])
            if not 0 <= row < self.kernel.slots() or not self.kernel.is_live(row):
                raise KeyError(f"jobs[{bad}]={row}: no such job")
            raise ValueError(
                f"bytes[{bad}]={size}: allowed are 0 to the burst, {self.kernel.burst(row)}"
            )
        if row_span.size() <= LONG_BATCH:
            self.kernel.take_many(row_span, size_span, time)
            return sizes
        guard.keep()
        with nogil:
            self.kernel.take_many(row_span, size_span, time)
        return sizes

    def tokens(self, job, now_ns):
        """The whole bytes in a job's bucket.

        :raises KeyError: no such job.
        :raises ValueError: ``now_ns`` is out of range.
        """
        cdef Guard guard
        cdef int64_t row = as_int64(job, "job")
        cdef int64_t time = as_now(now_ns)
        guard.lock(self.mutex)
        self.need_live(row)
        return self.kernel.tokens(row, time).bytes

    def spare(self, now_ns):
        """The whole bytes in the spare bucket.

        :raises ValueError: ``now_ns`` is out of range.
        """
        cdef Guard guard
        cdef int64_t time = as_now(now_ns)
        guard.lock(self.mutex)
        return self.kernel.spare(time).bytes

    def copy(self):
        """An independent limiter in the same state."""
        cdef Guard guard
        cdef RemoteIOLimiter other = RemoteIOLimiter.__new__(RemoteIOLimiter, 0, 0)
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        other.kernel.reserve()
        return other

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases."""
        return self.saved(b"HCRL", 1)

    @classmethod
    def from_bytes(cls, data, /):
        """The limiter whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCRL", 1, data)
        return restored(RemoteIOLimiter.__new__(RemoteIOLimiter, 0, 0), payload)

    cdef int write_state(self, StateWriter& writer) except -1:
        self.kernel.save(writer)
        return 0

    cdef int read_state(self, StateReader& reader) except -1:
        read_kernel(self.kernel, reader)
        return 0

    cdef string find_fault(self) except * nogil:
        return self.kernel.audit()

    cdef uint64_t kernel_bytes(self) noexcept:
        return self.kernel.bytes()

    def __repr__(self):
        return f"RemoteIOLimiter({self.rate_bytes}, {self.burst_bytes}, lend={self.lend})"
