# distutils: language = c++
"""Binding of the simulator's kernel: jobs that share cache and remote IO, from event to event.

Arrays are those of `hivecore.sim.storage`: ids are checked where they index, amounts are not.
"""

from hivecore.errors import InvariantError

from libc.math cimport INFINITY
from libcpp.memory cimport unique_ptr

include "arguments.pxi"
include "reals.pxi"
include "storage/io_mode.pxi"


cdef extern from "sim/fluid/contents.hpp" namespace "hivecore::sim" nogil:
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
        Values again


cdef extern from "sim/fluid/uniform.hpp" namespace "hivecore::sim" nogil:
    cdef cppclass FluidUniformRules "hivecore::sim::FluidUniform::Rules":
        bint read_first
        bint lazy
        bint own

    cdef cppclass FluidUniform(FluidContents):
        FluidUniform(FluidShape, FluidUniformRules) except +


cdef extern from "sim/fluid/lru.hpp" namespace "hivecore::sim" nogil:
    cdef cppclass FluidLru(FluidContents):
        FluidLru(FluidShape) except +


cdef extern from "sim/fluid/clock.hpp" namespace "hivecore::sim" nogil:
    cdef enum class FluidStop "hivecore::sim::FluidClock::Stop":
        time
        done
        events
        stuck

    cdef cppclass FluidRules "hivecore::sim::FluidClock::Rules":
        double bandwidth
        IoMode io_mode
        bint warm_up

    cdef cppclass Clock "hivecore::sim::FluidClock":
        Clock(unique_ptr[FluidContents], vector[int64_t], vector[double], size_t, FluidRules) except +
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
        string audit() except +


cdef extern from *:
    """
    #include <utility>
    """
    unique_ptr[FluidContents] move_contents "std::move"(unique_ptr[FluidContents]&) noexcept nogil


cdef vector[double] as_vector(object values, str name, cnp.npy_intp length) except *:
    cdef cnp.ndarray array = np.ascontiguousarray(values, np.float64)
    cdef Reals numbers = as_reals(array, name, length)
    cdef vector[double] copied
    copied.assign(numbers.data(), numbers.data() + numbers.size())
    return copied


cdef cnp.ndarray copy_reals(Reals values):
    cdef vector[double] copied
    copied.assign(values.data(), values.data() + values.size())
    return hold_reals(copied)


cdef cnp.ndarray copy_ids(Values values):
    cdef vector[int64_t] copied
    copied.assign(values.data(), values.data() + values.size())
    return as_array(copied)


# Not on the base of kernel objects: one thread uses it, and it is neither copied nor saved.
@cython.final
cdef class FluidClock:
    """FluidClock(sizes, cache_of, totals, capacity, bandwidth, *, io_mode="priority", policy="uniform", shrink="random", lazy=True, private=False, warm_up=False)\n--\n\nJobs that share cache and remote IO, as amounts that flow: from event to event.

    A scheduler decides with ``allocate`` which jobs run and how much each cache may hold;
    ``advance`` lets time pass. Jobs read their whole dataset in each epoch, in a new random order.
    What an epoch brings into a cache is read again only in the next one (SiloD's delayed
    effectiveness), but at once by other jobs on the same cache. At each event remote IO is divided
    by what the jobs miss then.

    :param sizes: float64[caches], MB that each cache holds if it is full: its dataset.
    :param cache_of: int64[jobs], the cache through which each job reads.
    :param totals: float64[jobs], MB that each job reads before it ends.
    :param capacity: MB of all caches together.
    :param bandwidth: MB/s of remote IO for all jobs together, above 0.
    :param io_mode: how it is divided where it is scarce, as for ``allocate_storage``; the order
        of "priority" is that of the jobs in ``allocate``.
    :param policy: "uniform": a quota for each cache, no eviction while it is kept; "lru": one LRU
        cache for all, which knows no quotas.
    :param shrink: what a cache gives up first: "random" items, or with "read_first" those that all
        of its jobs have read in their epochs.
    :param lazy: whether caches above their quota keep their contents until another one needs the
        room; else they shrink at once.
    :param private: whether the cache of a job that does not run is dropped.
    :param warm_up: whether spare remote IO fills caches, see ``wanted`` of ``allocate``.
    :raises ValueError: arrays of different lengths, or a cache that is not there.

    Where a miss ratio moves by itself an event comes soon enough, and rates are those of the middle
    of the step: the error is of second order. Epochs of a steady job end without an event.
    Deterministic. Cost: O(running jobs + caches in use) per event. For one thread. Sources: SiloD
    (EuroSys'23) for uniform caches; the fluid LRU is hivecore's own.

    A job of three epochs over 100 GB with 50 GB of cache reads at 40 MB/s first, then at 80 MB/s:

    >>> storage = FluidClock([100e3], [0], [300e3], capacity=50e3, bandwidth=40.0)
    >>> storage.allocate([0], rates=[114.0], quota=[50e3])
    >>> storage.advance(until=3000.0).tolist(), storage.rates.tolist(), storage.cached.tolist()
    ([], [80.0], [50000.0])
    >>> storage.advance().tolist(), storage.now
    ([0], 5000.0)
    """

    cdef Clock* kernel
    cdef int64_t caches, job_count

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
        cdef FluidUniformRules uniform
        cdef FluidRules rules
        cdef unique_ptr[FluidContents] contents
        shape.size = as_vector(sizes, "sizes", -1)
        self.caches = shape.size.size()
        cdef cnp.ndarray codes = as_ids_below(cache_of, "cache_of", self.caches)
        self.job_count = cnp.PyArray_SIZE(codes)
        cdef const int64_t* ids = <const int64_t*> cnp.PyArray_DATA(codes)
        shape.cache_of.assign(ids, ids + self.job_count)
        cdef vector[double] total = as_vector(totals, "totals", self.job_count)
        shape.capacity = capacity
        rules.bandwidth = bandwidth
        rules.io_mode = <IoMode> <int> _IO_MODES[io_mode]
        rules.warm_up = warm_up
        if policy == "lru":
            contents.reset(new FluidLru(shape))
        else:
            uniform.read_first = shrink == "read_first"
            uniform.lazy = lazy
            uniform.own = private
            contents.reset(new FluidUniform(shape, uniform))
        self.kernel = new Clock(move_contents(contents), shape.cache_of, total, self.caches, rules)

    def __dealloc__(self):
        del self.kernel

    def allocate(
        self, jobs, rates, quota=None, reclaim=(), wanted=(), again=(), *, reference=None
    ):
        """Decide which jobs run from now on, and how much each cache may hold.

        :param jobs: int64[running], distinct, the most urgent first.
        :param rates: float64[running], MB/s of each when it never waits for data.
        :param quota: float64[caches], MB, none more than the size; nothing by default.
        :param reclaim: caches in the order in which they give up what they hold above their quota;
            those that are not named keep it.
        :param wanted: caches in the order in which they are warmed up to their quota.
        :param again: jobs that have lost all that they have read, and begin again.
        :param reference: float64[running], MB/s that "maxmin_rate" compares the rates with;
            ``rates`` by default, and where it is 0.
        :raises ValueError: lengths differ, or an id is out of range; nothing has changed.

        A job that is stopped goes on later where it was in its epoch. O(jobs + caches).
        """
        cdef FluidDecision decision
        cdef vector[double] room, against
        cdef cnp.ndarray ids = as_ids_below(jobs, "jobs", self.job_count)
        cdef cnp.ndarray given = as_ids_below(reclaim, "reclaim", self.caches)
        cdef cnp.ndarray warmed = as_ids_below(wanted, "wanted", self.caches)
        cdef cnp.ndarray lost = as_ids_below(again, "again", self.job_count)
        cdef vector[double] full = as_vector(rates, "rates", cnp.PyArray_SIZE(ids))
        room.resize(self.caches, 0.0)
        if quota is not None:
            room = as_vector(quota, "quota", self.caches)
        if reference is not None:
            against = as_vector(reference, "reference", cnp.PyArray_SIZE(ids))
        decision.jobs = as_values(ids)
        decision.quota = Reals(room.data(), room.size())
        decision.reclaim = as_values(given)
        decision.wanted = as_values(warmed)
        decision.again = as_values(lost)
        self.kernel.allocate(
            decision, Reals(full.data(), full.size()), Reals(against.data(), against.size())
        )

    def advance(self, double until=INFINITY, int64_t events=1_000_000):
        """Let time pass until a job ends, or until that instant; int64[n], the jobs that have ended.

        :param until: seconds, not before ``now``; may be infinite.
        :param events: stop after so many, even if nothing has ended before ``until``.
        :raises ValueError: no job gets ahead, however long one waits; nothing has changed then.
        """
        cdef FluidStop stop
        with nogil:
            stop = self.kernel.advance(until, events)
        if stop == FluidStop.stuck:
            raise ValueError(
                f"no job gets ahead from {self.kernel.now():g} s on: "
                f"{self.kernel.jobs().size()} run without data"
            )
        return copy_ids(self.kernel.done())

    @property
    def now(self):
        """Seconds since the begin."""
        return self.kernel.now()

    @property
    def events(self):
        """How many times rates have been set."""
        return self.kernel.events()

    @property
    def fetched(self):
        """MB that have come from remote storage, warm-ups included."""
        return self.kernel.fetched()

    @property
    def warming(self):
        """MB/s of remote IO that went into warm-ups in the last step."""
        return self.kernel.warming()

    @property
    def jobs(self):
        """int64[running], the jobs that run, in the order of ``allocate``."""
        return copy_ids(self.kernel.jobs())

    @property
    def rates(self):
        """float64[running], MB/s at which each read in the last step; 0 before the first one."""
        return copy_reals(self.kernel.rates())

    @property
    def misses(self):
        """float64[running], the share of that which came from remote storage."""
        return copy_reals(self.kernel.misses())

    @property
    def cached(self):
        """float64[caches], MB in each."""
        cdef vector[double] amounts = self.kernel.cached()
        return hold_reals(amounts)

    @property
    def last_use(self):
        """float64[caches], seconds at which a job that read through it last ran; 0 if none did."""
        cdef vector[double] seconds = self.kernel.last_use()
        return hold_reals(seconds)

    @property
    def left(self):
        """float64[jobs], MB that each has yet to read; 0 but for rounding if it has ended."""
        cdef vector[double] amounts = self.kernel.left()
        return hold_reals(amounts)

    def check(self):
        """Audit every invariant of the state.

        :raises InvariantError: one is broken. Cost: O(jobs + caches); for "lru" times the events
            since the begin of what the cache holds.
        """
        cdef string fault = self.kernel.audit()
        if not fault.empty():
            raise InvariantError(fault.decode())
