"""The cache of several jobs whose shuffles are known."""


cdef extern from "caching/clairvoyant_cache.hpp" namespace "hivecore::caching::policies" nogil:
    cdef cppclass ClairvoyantJob "hivecore::caching::policies::Clairvoyant::Job":
        int64_t name
        uint64_t seed
        uint64_t first_epoch
        uint64_t epochs
        uint64_t uses
        double rate
        double base
        uint32_t dataset

    cdef cppclass Clairvoyant:
        Clairvoyant(Values, int64_t) except +
        size_t datasets() noexcept
        uint32_t items(uint32_t) noexcept
        int64_t capacity() noexcept
        uint64_t count() noexcept
        const vector[ClairvoyantJob]& jobs() noexcept
        const ClairvoyantJob* find(int64_t) noexcept
        bint contains(uint32_t, uint32_t) noexcept
        void attach(const ClairvoyantJob&) except +
        void detach(int64_t) except +
        double time_of(int64_t) noexcept
        void set_rate(int64_t, double, double) noexcept
        uint64_t left(int64_t) noexcept
        uint64_t access(int64_t, uint64_t, uint8_t*) noexcept
        double next_use(uint32_t, uint32_t) noexcept
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept


@cython.final
cdef class ClairvoyantCache(KernelObject):
    """ClairvoyantCache(capacity, datasets)\n--\n\nA cache shared by jobs with known shuffles that keeps the items which are needed soonest.

    Each job reads its dataset epoch after epoch in the order of its `EpochShuffle`, at a known
    rate. So the next use of an item by a job is known in O(1), by the inverse permutation; the
    next use of an item is the soonest over the jobs. A miss admits the item and evicts the one
    whose next use is farthest away, or bypasses the item if that is its own (ties: the item with
    the lowest dataset, then number, leaves). This is Belady's MIN on the merged schedule as long
    as the jobs keep to their rates, and more hits than that are impossible.

    A job's use number u falls on the time ``start + u / rate``. A job that runs ahead of that or
    behind is predicted as if it were on time; tell the truth with ``set_rate``. After ``attach``,
    ``detach`` and ``set_rate`` all predictions are computed again before the next access, in
    O(residents * jobs). There are no quotas. An item without a reader is never used again: it
    stays until its place is needed. With independent shuffles of one dataset several jobs get more
    hits than capacity / items, the bound for one job; with the same shuffle, little apart, J jobs
    get 1 - (1 - capacity / items) / J: what one fetches waits for the others.

    :param capacity: number of items that fit, at least 1.
    :param datasets: number of items of each dataset, each at least 1, 2**31 - 1 in all.
    :raises ValueError: a value is out of range. :raises TypeError: it is not an integer.

    Memory is 4 bytes per item and 16 per item that fits. An access takes O(jobs on the dataset +
    log capacity). One object may be used by several threads: calls take turns. Sources: Belady
    (1966); Dryden et al., Clairvoyant prefetching for distributed machine learning I/O (SC'21).

    >>> cache = ClairvoyantCache(capacity=50, datasets=[100])
    >>> cache.attach(1, 0, shuffle=11, rate=1.0)
    >>> cache.attach(2, 0, shuffle=12, rate=1.0, start=0.5)
    >>> hits = 0
    >>> for _ in range(1000):                 # ten epochs of both, in turns
    ...     hits += cache.access(1, 1) + cache.access(2, 1)
    >>> hits > 0.6 * 2000                     # the uniform cache has 0.5
    True
    """

    cdef Clairvoyant* kernel

    def __cinit__(self, capacity, datasets):
        cdef int64_t allowed = as_bounded(capacity, "capacity", 1, INT64_MAX)
        array = as_int64_array(datasets, "datasets", 0)
        check_range(array, 1, MOST_POLICY_ITEMS, "datasets", 0)
        total = sum(array.tolist())
        if total > MOST_POLICY_ITEMS:
            raise ValueError(f"datasets have {total} items, at most {MOST_POLICY_ITEMS} are allowed")
        self.kernel = new Clairvoyant(as_values(array), allowed)

    def __dealloc__(self):
        del self.kernel

    cdef const ClairvoyantJob* job(self, object job, Guard& guard) except NULL:
        """The job; the turn begins between the conversion of its name and the look-up."""
        cdef int64_t name = as_int64(job, "job")
        guard.lock(self.mutex)
        cdef const ClairvoyantJob* record = self.kernel.find(name)
        if record == NULL:
            raise KeyError(f"job={name}: not attached")
        return record

    cdef int64_t as_dataset(self, object dataset) except -1:
        cdef int64_t number = as_int64(dataset, "dataset")
        if not 0 <= number < <int64_t> self.kernel.datasets():
            raise KeyError(f"dataset={number}: allowed are 0 to {self.kernel.datasets() - 1}")
        return number

    cdef int64_t as_item(self, int64_t dataset, object item) except -1:
        return as_bounded(item, "item", 0, <int64_t> self.kernel.items(<uint32_t> dataset) - 1)

    @property
    def capacity(self):
        """Number of items that fit."""
        return self.kernel.capacity()

    @property
    def datasets(self):
        """Number of items of each dataset, as a tuple."""
        return tuple([self.kernel.items(i) for i in range(self.kernel.datasets())])

    @property
    def jobs(self):
        """The numbers of the attached jobs, as a tuple in the order in which they came."""
        cdef Guard guard
        guard.lock(self.mutex)
        return tuple([self.kernel.jobs()[i].name for i in range(self.kernel.jobs().size())])

    def __len__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.count()

    def attach(self, job, dataset, shuffle, rate, start=0.0, first_epoch=0, epochs=None):
        """Let a job read a dataset from now on.

        :param job: its number, an integer that no attached job has.
        :param dataset: number of the dataset.
        :param shuffle: its `EpochShuffle` of that many items, or the seed of one.
        :param rate: items per unit of time, finite and above 0.
        :param start: time of the first use, finite.
        :param first_epoch: the epoch of the shuffle that it reads first.
        :param epochs: how many epochs it reads, 2**53 uses at most; none: without end.
        :raises KeyError: no such dataset, or the job is attached already.
        :raises ValueError: a value is out of range. :raises TypeError: it is of the wrong type.
        """
        cdef Guard guard
        cdef ClairvoyantJob entry
        cdef EpochShuffle known
        entry.name = as_int64(job, "job")
        cdef int64_t number = self.as_dataset(dataset)
        cdef int64_t items = self.kernel.items(<uint32_t> number)
        entry.dataset = <uint32_t> number
        if isinstance(shuffle, EpochShuffle):
            known = <EpochShuffle> shuffle
            if known.items != items:
                raise ValueError(f"shuffle has {known.items} items, dataset={number} has {items}")
            entry.seed = known.seed
        else:
            entry.seed = as_bounded(shuffle, "shuffle", 0, INT64_MAX)
        entry.rate = as_rate(rate)
        entry.base = as_finite(start, "start")
        cdef int64_t first = as_int64(first_epoch, "first_epoch")
        if not 0 <= first < _MOST_USES:
            raise ValueError(f"first_epoch={first}: allowed are 0 to 2**53 - 1")
        entry.first_epoch = first
        cdef int64_t most = 0
        if epochs is not None:
            most = as_int64(epochs, "epochs")
            if not 1 <= most < _MOST_USES // items:
                raise ValueError(f"epochs={most}: allowed are 1 to {_MOST_USES // items - 1}")
        entry.epochs = most
        guard.lock(self.mutex)
        if self.kernel.find(entry.name) != NULL:
            raise KeyError(f"job={entry.name}: attached already")
        self.kernel.attach(entry)

    def detach(self, job, /):
        """Forget a job; what it alone would have read leaves first from now on.

        :raises KeyError: it is not attached.
        """
        cdef Guard guard
        self.kernel.detach(self.job(job, guard).name)

    def set_rate(self, job, rate, now=None):
        """Let a job's next use fall on the time ``now``, and those after it on this rate.

        :param rate: items per unit of time, finite and above 0.
        :param now: finite; none: the time on which the next use falls already.
        :raises KeyError: the job is not attached.
        :raises ValueError: a value is out of range. :raises TypeError: it is no number.
        """
        cdef Guard guard
        cdef double speed = as_rate(rate)
        cdef double time = 0.0
        if now is not None:
            time = as_finite(now, "now")
        cdef int64_t name = self.job(job, guard).name
        if now is None:
            time = as_finite(self.kernel.time_of(name), "now")
        self.kernel.set_rate(name, speed, time)

    def time(self, job, /):
        """The time on which the job's next use falls.

        :raises KeyError: the job is not attached.
        """
        cdef Guard guard
        return self.kernel.time_of(self.job(job, guard).name)

    def uses(self, job, /):
        """How many uses the job has had.

        :raises KeyError: the job is not attached.
        """
        cdef Guard guard
        return self.job(job, guard).uses

    def access(self, job, count=1, out=None):
        """Let a job read its next items; the number of hits.

        :param count: how many, at least 0.
        :param out: optional bool array of that length, is filled with whether each was a hit.
        :raises KeyError: the job is not attached.
        :raises ValueError: the job has not that many uses left, or ``out`` does not fit; nothing
            has changed. :raises TypeError: an argument is of the wrong type.

        Many uses at once stand for uses that are not interleaved with those of other jobs; many
        of them run without the GIL.
        """
        cdef Guard guard
        cdef int64_t number = as_int64(count, "count")
        if not 0 <= number <= _MOST_USES:
            raise ValueError(f"count={number}: allowed are 0 to 2**53")
        cdef uint8_t* mask = as_mask(out, number)
        cdef const ClairvoyantJob* record = self.job(job, guard)
        cdef int64_t name = record.name
        cdef uint64_t left = min(self.kernel.left(name), <uint64_t> _MOST_USES - record.uses)
        if <uint64_t> number > left:
            raise ValueError(f"count={number}: job {name} has {left} uses left")
        cdef uint64_t hits
        if number <= 256:
            return self.kernel.access(name, number, mask)
        guard.keep()
        with nogil:
            hits = self.kernel.access(name, number, mask)
        return hits

    def next_use(self, dataset, item, /):
        """The time of an item's next use by any job, infinity if there is none.

        :raises KeyError: no such dataset. :raises ValueError: no such item. Cost: O(jobs).
        """
        cdef Guard guard
        cdef int64_t number = self.as_dataset(dataset)
        cdef int64_t which = self.as_item(number, item)
        guard.lock(self.mutex)
        return self.kernel.next_use(<uint32_t> number, <uint32_t> which)

    def is_cached(self, dataset, item, /):
        """Whether an item is resident.

        :raises KeyError: no such dataset. :raises ValueError: no such item. Cost: O(1).
        """
        cdef Guard guard
        cdef int64_t number = self.as_dataset(dataset)
        cdef int64_t which = self.as_item(number, item)
        guard.lock(self.mutex)
        return self.kernel.contains(<uint32_t> number, <uint32_t> which)

    def copy(self):
        """An independent cache in the same state. Cost: O(items)."""
        cdef Guard guard
        cdef ClairvoyantCache other = ClairvoyantCache.__new__(ClairvoyantCache, 1, ())
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        return other

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases."""
        return self.saved(b"HCCV", 1)

    @classmethod
    def from_bytes(cls, data, /):
        """The cache whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCCV", 1, data)
        return restored(ClairvoyantCache.__new__(ClairvoyantCache, 1, ()), payload)

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
        return f"ClairvoyantCache(capacity={self.capacity}, datasets={list(self.datasets)})"
