"""Jobs that share cache and remote IO, as amounts; and the cache that serves them best."""


cdef extern from "storage/fluid/contents.hpp" namespace "hivecore::storage" nogil:
    cdef cppclass FluidContents:
        pass

    cdef cppclass FluidShape:
        vector[double] size
        vector[int64_t] cache_of
        double capacity

    cdef cppclass FluidDecision:
        Values jobs
        Reals quota
        Values reclaim
        Values wanted


cdef extern from "storage/fluid/uniform.hpp" namespace "hivecore::storage" nogil:
    cdef cppclass FluidUniformRules "hivecore::storage::FluidUniform::Rules":
        bint read_first
        bint lazy
        bint own

    cdef cppclass FluidUniform(FluidContents):
        FluidUniform(FluidShape, FluidUniformRules) except +


cdef extern from "storage/fluid/lru.hpp" namespace "hivecore::storage" nogil:
    cdef cppclass FluidLru(FluidContents):
        FluidLru(FluidShape) except +


cdef extern from "storage/fluid/clock.hpp" namespace "hivecore::storage" nogil:
    cdef enum class FluidStop "hivecore::storage::FluidStorage::Stop":
        time
        done
        events
        stuck

    cdef cppclass FluidRules "hivecore::storage::FluidStorage::Rules":
        double bandwidth
        IoMode io_mode
        bint warm_up

    cdef cppclass Fluid "hivecore::storage::FluidStorage":
        Fluid(unique_ptr[FluidContents], vector[int64_t], vector[double], size_t, FluidRules) except +
        Fluid(const Fluid&) except +
        void allocate(const FluidDecision&, Reals, Reals) except +
        FluidStop advance(double, int64_t) except +
        double now() noexcept
        int64_t events() noexcept
        double fetched() noexcept
        double warming() noexcept
        vector[double] cached() except +
        vector[double] last_use() except +
        vector[double] left() except +
        Values jobs() noexcept
        Values done() noexcept
        Reals rates() noexcept
        Reals misses() noexcept
        int64_t first_repeated(Values) except +
        vector[double] save() except +
        bint restore(Reals) except +
        string audit() except +
        uint64_t bytes() noexcept


cdef extern from "storage/knapsack.hpp" namespace "hivecore::storage" nogil:
    cdef cppclass Knapsack:
        double fill(Reals, Reals, double, Reals, double, vector[double]&) except +


cdef extern from *:
    """
    #include <utility>
    """
    unique_ptr[FluidContents] move_contents "std::move"(unique_ptr[FluidContents]&) noexcept nogil


cdef enum:
    MOST_EVENTS = 1_000_000


cdef double LEAST_SIZE = 1e-6
cdef double MOST_MB = 1e18
cdef double MOST_RATE = 1e15


cdef cnp.ndarray as_amounts(
    object values, str name, cnp.npy_intp length, double low, double high
):
    """A private one-dimensional float64 of this length (-1: any), within these limits."""
    cdef cnp.ndarray array
    cdef cnp.npy_intp i
    cdef const double* data
    try:
        array = values if isinstance(values, cnp.ndarray) else np.asarray(values)
    except ValueError:  # lists of several lengths
        raise ValueError(f"{name} must be an array of numbers") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT64 or not cnp.PyArray_ISCARRAY_RO(array):
        if array.size and array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold numbers, not {array.dtype}")
        array = np.require(array, np.float64, ["C", "A"])
    if array is values:
        array = array.copy()
    if length >= 0 and cnp.PyArray_SIZE(array) != length:
        raise ValueError(f"{name} has {array.size} elements, {length} are needed")
    data = <const double*> cnp.PyArray_DATA(array)
    for i in range(cnp.PyArray_SIZE(array)):
        if not low <= data[i] <= high:
            raise ValueError(f"{name}[{i}]={data[i]}: allowed are {low:g} to {high:g}")
    return array


cdef double as_amount_within(object value, str name, double low, double high) except? -1.0:
    cdef double number = value if type(value) is float else as_float(value, name)
    if not low <= number <= high:
        raise ValueError(f"{name}={number}: allowed are {low:g} to {high:g}")
    return number


cdef inline Reals as_real_span(cnp.ndarray array) noexcept:
    return Reals(<const double*> cnp.PyArray_DATA(array), <size_t> cnp.PyArray_SIZE(array))


cdef int check_quotas(cnp.ndarray quota, const double* most, str name) except -1:
    cdef const double* amount = <const double*> cnp.PyArray_DATA(quota)
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(quota)):
        if amount[i] > most[i] * (1 + 1e-9):
            raise ValueError(f"{name}[{i}]={amount[i]}: a full cache holds {most[i]}")
    return 0


cdef cnp.ndarray copy_reals(Reals values):
    cdef vector[double] copied
    copied.assign(values.data(), values.data() + values.size())
    return hold_reals(copied)


cdef cnp.ndarray copy_ids(Values values):
    cdef cnp.ndarray result = new_int64_array(values.size())
    if values.size():
        memcpy(cnp.PyArray_DATA(result), values.data(), 8 * values.size())
    return result


def greedy_cache(efficiency, datasets, capacity, current=None, eps=0.1):
    """The cache with the least demand for remote IO, from efficiencies: float64[m].

    What ``allocate_storage`` caches for "greedy", and nothing else, in some microseconds: for those
    who decide at each event and keep efficiencies themselves.

    :param efficiency: float64[m], what each unit of a dataset in the cache saves, as by
        ``cache_efficiency``, 0 to 1e30; what saves nothing is not cached.
    :param datasets: float64[m], sizes in GB, or any other unit, 1e-9 to 1e18.
    :param capacity: of the cache, in that unit, 0 to 1e300.
    :param current: float64[m], what is cached now, at most the size: displaced only by what saves
        more than ``1 + eps`` times as much.
    :param eps: 0 to 1e6.
    :raises ValueError: a number out of range, or arrays of different lengths.
    :raises TypeError: what does not hold numbers.

    Ties break by lowest id, what is cached now first. Cost: O(m log m). Source: SiloD (EuroSys'23).

    >>> greedy_cache([0.2, 0.4, 0.0], [100.0, 60.0, 10.0], 90.0).tolist()
    [30.0, 60.0, 0.0]
    >>> greedy_cache([0.39, 0.4], [100.0, 60.0], 90.0, current=[90.0, 0.0]).tolist()
    [90.0, 0.0]
    """
    cdef Knapsack knapsack
    cdef vector[double] found
    cdef cnp.ndarray sizes = as_amounts(datasets, "datasets", -1, 1e-9, MOST_MB)
    cdef cnp.npy_intp count = cnp.PyArray_SIZE(sizes)
    if count > 0x7FFFFFFF:
        raise ValueError(f"datasets has {count} elements, more than 2**31 - 1")
    cdef cnp.ndarray value = as_amounts(efficiency, "efficiency", count, 0.0, 1e30)
    cdef double room = as_amount_within(capacity, "capacity", 0.0, 1e300)
    cdef double margin = as_amount_within(eps, "eps", 0.0, 1e6)
    cdef cnp.ndarray kept
    cdef Reals held
    if current is not None:
        kept = as_amounts(current, "current", count, 0.0, INFINITY)
        check_quotas(kept, <const double*> cnp.PyArray_DATA(sizes), "current")
        kept = np.minimum(kept, sizes)
        held = as_real_span(kept)
    knapsack.fill(as_real_span(value), as_real_span(sizes), room, held, margin, found)
    return hold_reals(found)


cdef tuple FLUID_OPTIONS = (
    "capacity", "bandwidth", "io_mode", "policy", "shrink", "lazy", "private", "warm_up"
)


cdef bytes seal_fluid(Fluid* kernel, tuple arguments, Guard& guard):
    """The arguments of the constructor, options as JSON, and behind them all numbers of the state."""
    cdef vector[double] saved = kernel.save()
    guard.unlock()
    options = json.dumps(dict(zip(FLUID_OPTIONS, arguments))).encode()
    sizes, cache_of, totals = arguments[8], arguments[9], arguments[10]
    return seal(
        b"HCFS",
        1,
        struct.pack("<qqq", len(options), len(sizes), len(totals))
        + options
        + sizes.astype("<f8").tobytes()
        + cache_of.astype("<i8").tobytes()
        + totals.astype("<f8").tobytes()
        + hold_reals(saved).astype("<f8").tobytes(),
    )


cdef cnp.ndarray zeros(cnp.npy_intp length):
    return np.zeros(length)


@cython.final
cdef class FluidStorage:
    """FluidStorage(sizes, cache_of, totals, capacity, bandwidth, *, io_mode="priority", policy="uniform", shrink="random", lazy=True, private=False, warm_up=False)\n--\n\nJobs that share cache and remote IO, as amounts that flow: from event to event.

    A scheduler decides with ``allocate`` who runs and who may cache how much; ``advance`` lets time
    pass. Jobs read their whole dataset in each epoch, in a new random order. What an epoch brings
    into a cache is read again only in the next one (SiloD's delayed effectiveness), but at once by
    other jobs on the same cache. At each event remote IO is shared out by what the jobs miss then.

    :param sizes: float64[caches], MB that each cache holds if it is full: its dataset, 1e-6 to 1e18.
    :param cache_of: int64[jobs], the cache through which each job reads.
    :param totals: float64[jobs], MB that each job reads before it ends, up to 1e18.
    :param capacity: MB of all caches together, up to 1e300.
    :param bandwidth: MB/s of remote IO for all jobs together, above 0, up to 1e300.
    :param io_mode: how it is shared out where it is scarce, as for ``allocate_storage``; the order
        of "priority" is that of the jobs in ``allocate``.
    :param policy: "uniform": a quota for each cache, no eviction while it is kept; "lru": one LRU
        cache for all, which knows no quotas.
    :param shrink: what a cache gives up first: "random" items, or with "read_first" those that all
        of its jobs have read in their epochs.
    :param lazy: whether caches above their quota keep their contents until another one needs the
        room; else they shrink at once.
    :param private: whether the cache of a job that does not run is dropped.
    :param warm_up: whether spare remote IO fills caches, see ``wanted`` of ``allocate``.
    :raises ValueError: an unknown name, a number out of range, arrays of different lengths, or an
        option that "lru" does not have.
    :raises TypeError: an argument of the wrong type.

    Where a miss ratio moves by itself an event comes soon enough, and rates are those of the middle
    of the step: the error is of second order. Epochs of a steady job end without an event.
    Deterministic. Cost: O(running jobs + caches in use) per event. One object may be used by
    several threads: calls take turns. Sources: SiloD (EuroSys'23) for uniform caches; the fluid
    LRU is hivecore's own.

    A job of three epochs over 100 GB with 50 GB of cache reads at 40 MB/s first, then at 80 MB/s:

    >>> storage = FluidStorage([100e3], [0], [300e3], capacity=50e3, bandwidth=40.0)
    >>> storage.allocate([0], rates=[114.0], quota=[50e3])
    >>> storage.advance(until=3000.0).tolist(), storage.rates.tolist(), storage.cached.tolist()
    ([], [80.0], [50000.0])
    >>> storage.advance().tolist(), storage.now
    ([0], 5000.0)
    """

    cdef Fluid* kernel
    cdef vector[double] sizes
    cdef int64_t job_count
    cdef tuple arguments  # of the constructor
    cdef ObjectMutex mutex

    def __cinit__(
        self,
        sizes,
        cache_of,
        totals,
        capacity,
        bandwidth,
        *,
        io_mode="priority",
        policy="uniform",
        shrink="random",
        lazy=True,
        private=False,
        warm_up=False,
    ):
        cdef FluidShape shape
        cdef FluidRules rules
        cdef FluidUniformRules uniform
        cdef unique_ptr[FluidContents] contents
        cdef cnp.ndarray size = as_amounts(sizes, "sizes", -1, LEAST_SIZE, MOST_MB)
        cdef cnp.npy_intp count = cnp.PyArray_SIZE(size)
        cdef cnp.ndarray codes = as_ids_below(cache_of, "cache_of", count)
        cdef cnp.ndarray total = as_amounts(totals, "totals", len(codes), 0.0, MOST_MB)
        shape.capacity = as_amount_within(capacity, "capacity", 0.0, 1e300)
        rules.bandwidth = as_amount_within(bandwidth, "bandwidth", 1e-300, 1e300)
        for name, value, allowed in (
            ("io_mode", io_mode, _IO_MODES),
            ("policy", policy, ("uniform", "lru")),
            ("shrink", shrink, ("random", "read_first")),
        ):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, not {type(value).__name__}")
            if value not in allowed:
                raise ValueError(f"{name}={value!r}: must be one of {', '.join(allowed)}")
        rules.io_mode = <IoMode> <int> _IO_MODES[io_mode]
        rules.warm_up = as_flag(warm_up, "warm_up")
        uniform.read_first = shrink == "read_first"
        uniform.lazy = as_flag(lazy, "lazy")
        uniform.own = as_flag(private, "private")
        cdef const double* first = <const double*> cnp.PyArray_DATA(size)
        shape.size.assign(first, first + count)
        cdef const int64_t* ids = <const int64_t*> cnp.PyArray_DATA(codes)
        shape.cache_of.assign(ids, ids + len(codes))
        if policy == "uniform":
            contents.reset(new FluidUniform(shape, uniform))
        elif uniform.read_first or uniform.own or rules.warm_up or not uniform.lazy:
            raise ValueError("policy='lru' has no shrink, lazy, private or warm_up")
        else:
            contents.reset(new FluidLru(shape))
        first = <const double*> cnp.PyArray_DATA(total)
        cdef vector[double] amounts
        amounts.assign(first, first + len(codes))
        self.kernel = new Fluid(move_contents(contents), shape.cache_of, amounts, count, rules)
        self.sizes.assign(shape.size.begin(), shape.size.end())
        self.job_count = len(codes)
        self.arguments = (
            shape.capacity, rules.bandwidth, str(io_mode), str(policy), str(shrink), bool(lazy),
            bool(private), bool(warm_up), size, codes, total,
        )

    def __dealloc__(self):
        del self.kernel

    def allocate(self, jobs, rates, quota=None, reclaim=(), wanted=(), *, reference=None):
        """Decide who runs from now on, and who may cache how much.

        :param jobs: int64[running], distinct, the most urgent first.
        :param rates: float64[running], MB/s of each when it never waits for data, up to 1e15.
        :param quota: float64[caches], MB, none more than the size; nothing by default.
        :param reclaim: caches in the order in which they give up what they hold above their quota;
            those that are not named keep it.
        :param wanted: caches in the order in which they are warmed up to their quota.
        :param reference: float64[running], MB/s that "maxmin_rate" compares the rates with;
            ``rates`` by default, and where it is 0.
        :raises ValueError: a number out of range, lengths differ, or a job stands there twice;
            nothing has changed.
        :raises TypeError: an argument does not hold numbers.

        A job that is stopped goes on later where it was in its epoch. O(jobs + caches).
        """
        cdef Guard guard
        cdef FluidDecision decision
        cdef Reals compared
        cdef cnp.ndarray ids = as_ids_below(jobs, "jobs", self.job_count)
        cdef cnp.npy_intp caches = self.sizes.size()
        cdef cnp.ndarray full = as_amounts(rates, "rates", len(ids), 0.0, MOST_RATE)
        cdef cnp.ndarray room, against
        if quota is None:
            room = zeros(caches)
        else:
            room = as_amounts(quota, "quota", caches, 0.0, INFINITY)
            check_quotas(room, self.sizes.data(), "quota")
        cdef cnp.ndarray given = as_ids_below(reclaim, "reclaim", caches)
        cdef cnp.ndarray warmed = as_ids_below(wanted, "wanted", caches)
        if reference is not None:
            against = as_amounts(reference, "reference", len(ids), 0.0, MOST_RATE)
            compared = as_real_span(against)
        cdef int64_t twice = self.kernel.first_repeated(as_values(ids))
        if twice >= 0:
            raise ValueError(f"jobs[{twice}]={ids[twice]}: stands there twice")
        decision.jobs = as_values(ids)
        decision.quota = as_real_span(room)
        decision.reclaim = as_values(given)
        decision.wanted = as_values(warmed)
        guard.lock(self.mutex)
        self.kernel.allocate(decision, as_real_span(full), compared)

    def advance(self, until=INFINITY, events=MOST_EVENTS):
        """Let time pass until a job ends, or until that instant; int64[n], the jobs that have ended.

        :param until: seconds, not before ``now``; may be infinite.
        :param events: stop after so many, 1 to 10**6, even if nothing has ended before ``until``.
        :raises ValueError: an argument is out of range, or no job gets ahead, however long one
            waits; nothing has changed then.
        :raises TypeError: an argument is not a number.
        """
        cdef Guard guard
        cdef double limit = until if type(until) is float else as_float(until, "until")
        cdef int64_t most = as_bounded(events, "events", 1, MOST_EVENTS)
        cdef FluidStop stop
        guard.lock(self.mutex)
        if not limit >= self.kernel.now():
            raise ValueError(f"until={limit}: must not be before now, {self.kernel.now()}")
        guard.keep()
        with nogil:
            stop = self.kernel.advance(limit, most)
        if stop == FluidStop.stuck:
            raise ValueError(
                f"no job gets ahead from {self.kernel.now():g} s on: "
                f"{self.kernel.jobs().size()} run without data"
            )
        return copy_ids(self.kernel.done())

    @property
    def now(self):
        """Seconds since the begin."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.now()

    @property
    def events(self):
        """How many times rates have been set."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.events()

    @property
    def fetched(self):
        """MB that have come from remote storage, warm-ups included."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.fetched()

    @property
    def warming(self):
        """MB/s of remote IO that went into warm-ups in the last step."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.warming()

    @property
    def jobs(self):
        """int64[running], the jobs that run, in the order of ``allocate``."""
        cdef Guard guard
        guard.lock(self.mutex)
        return copy_ids(self.kernel.jobs())

    @property
    def rates(self):
        """float64[running], MB/s at which each read in the last step; 0 before the first one."""
        cdef Guard guard
        guard.lock(self.mutex)
        return copy_reals(self.kernel.rates())

    @property
    def misses(self):
        """float64[running], the share of that which came from remote storage."""
        cdef Guard guard
        guard.lock(self.mutex)
        return copy_reals(self.kernel.misses())

    @property
    def cached(self):
        """float64[caches], MB in each."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef vector[double] found = self.kernel.cached()
        return hold_reals(found)

    @property
    def last_use(self):
        """float64[caches], seconds at which a job that read through it last ran; 0 if none did."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef vector[double] found = self.kernel.last_use()
        return hold_reals(found)

    @property
    def left(self):
        """float64[jobs], MB that each has yet to read; 0 but for rounding if it has ended."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef vector[double] found = self.kernel.left()
        return hold_reals(found)

    def copy(self):
        """An independent one in the same state."""
        cdef Guard guard
        cdef FluidStorage other = FluidStorage.__new__(FluidStorage, (), (), (), 0.0, 1.0)
        guard.lock(self.mutex)
        cdef Fluid* kernel = new Fluid(self.kernel[0])
        del other.kernel
        other.kernel = kernel
        other.sizes = self.sizes
        other.job_count = self.job_count
        other.arguments = self.arguments
        return other

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        return FluidStorage.from_bytes, (self.to_bytes(),)

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases."""
        cdef Guard guard
        guard.lock(self.mutex)
        return seal_fluid(self.kernel, self.arguments, guard)

    @classmethod
    def from_bytes(cls, data, /):
        """The storage whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCFS", 1, data)
        cdef FluidStorage storage
        cdef cnp.ndarray numbers
        try:
            length, caches, jobs = struct.unpack_from("<qqq", payload)
            if min(length, caches, jobs) < 0:
                raise ValueError("a length is negative")
            options = json.loads(payload[24 : 24 + length])
            places = 24 + length + 8 * np.cumsum([0, caches, jobs, jobs])
            sizes = np.frombuffer(payload, "<f8", caches, places[0])
            cache_of = np.frombuffer(payload, "<i8", jobs, places[1])
            totals = np.frombuffer(payload, "<f8", jobs, places[2])
            numbers = np.frombuffer(payload, "<f8", -1, places[3]).astype(np.float64)
            storage = cls(sizes, cache_of, totals, **options)
        except (struct.error, ValueError, TypeError, OverflowError) as error:
            raise CorruptStateError(f"data: {error}") from None
        if not storage.kernel.restore(as_real_span(numbers)):
            raise CorruptStateError("data: no possible state")
        return storage

    def check(self):
        """Audit every invariant of the state.

        :raises InvariantError: one is broken. Cost: O(jobs + caches); for "lru" times the events
            since the begin of what the cache holds.
        """
        cdef Guard guard
        guard.lock(self.mutex)
        cdef string fault = self.kernel.audit()
        if not fault.empty():
            raise InvariantError(fault.decode())

    def __sizeof__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return object.__sizeof__(self) + self.kernel.bytes()

    def __repr__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return f"<FluidStorage: {self.kernel.jobs().size()} of {self.job_count} jobs run>"
