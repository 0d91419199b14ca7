"""The uniform cache: names become ids and arguments are checked here; the kernel does the rest."""


ctypedef span[const int32_t] Values32


cdef extern from "caching/uniform/cache.hpp" namespace "hivecore::caching::uniform" nogil:
    enum: MOST_ITEMS "hivecore::caching::uniform::kMostItems"
    int64_t MOST_BYTES "hivecore::caching::uniform::kMostBytes"
    int64_t OVERWRITTEN "hivecore::caching::uniform::kOverwritten"

    cdef enum class UniformShrink "hivecore::caching::uniform::Shrink":
        random
        read_first
        lazy

    cdef enum class UniformHold "hivecore::caching::uniform::Hold":
        none
        first_epoch
        job_end

    cdef cppclass UniformCounters "hivecore::caching::uniform::Counters":
        uint64_t hits
        uint64_t misses
        uint64_t hit_bytes
        uint64_t miss_bytes
        uint64_t admitted
        uint64_t admitted_bytes
        uint64_t warmed
        uint64_t warmed_bytes
        uint64_t evicted
        uint64_t evicted_bytes

    cdef cppclass UniformDataset "hivecore::caching::uniform::Dataset":
        int64_t items
        int64_t item_size
        int64_t total_bytes
        int64_t quota
        int64_t used
        int64_t pinned
        int64_t cached_items
        UniformCounters counters
        vector[uint64_t] cached
        vector[int32_t] jobs

    cdef cppclass UniformJob "hivecore::caching::uniform::Job":
        int32_t dataset
        int64_t epoch
        int64_t unread_items
        int64_t unread_bytes
        int64_t cached_unread_bytes
        int64_t effective_bytes

    cdef cppclass UniformKernel "hivecore::caching::uniform::UniformCache":
        UniformKernel(int64_t, uint64_t) except +
        int64_t capacity() noexcept
        int64_t used() noexcept
        int64_t quotas() noexcept
        int64_t datasets() noexcept
        int64_t jobs() noexcept
        bint is_dataset(int64_t) noexcept
        bint is_job(int64_t) noexcept
        const UniformDataset& dataset(int32_t) noexcept
        const UniformJob& job(int32_t) noexcept
        int32_t add_dataset(int64_t, int64_t, Values, int64_t) except +
        void remove_dataset(int32_t) noexcept
        int32_t attach(int32_t) except +
        void detach(int32_t) except +
        int64_t start_epoch(int32_t) except +
        bint access(int32_t, int32_t, int64_t) except +
        int64_t access_many "access<std::int64_t>"(int32_t, int32_t, Values, uint8_t*) except +
        int64_t access_many_32 "access<std::int32_t>"(
            int32_t, int32_t, Values32, uint8_t*
        ) except +
        vector[int64_t] set_quota(int32_t, int64_t, UniformShrink) except +
        vector[int64_t] unload(int32_t, bint) except +
        void would_pin(int32_t, Values, int64_t&, int64_t&) except +
        vector[int64_t] warm(int32_t, Values, int32_t, UniformHold) except +
        vector[int64_t] pin(int32_t, Values) except +
        int64_t unpin(int32_t, Values) except +
        void drain_changes(int32_t, vector[int64_t]&, vector[int64_t]&) except +
        vector[int64_t] cached(int32_t) except +
        vector[int64_t] pinned_items(int32_t) except +
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept


# A batch of more items than this takes about 20 microseconds: worth giving up the GIL for.
cdef enum:
    LONG_ACCESS = 8192

cdef dict UNIFORM_SHRINKS = {
    "random": <int> UniformShrink.random,
    "read_first": <int> UniformShrink.read_first,
    "lazy": <int> UniformShrink.lazy,
}
cdef dict UNIFORM_HOLDS = {
    None: <int> UniformHold.none,
    "first_epoch": <int> UniformHold.first_epoch,
    "job_end": <int> UniformHold.job_end,
}


cdef str exact_name(object value, str argument):
    """The non-empty name as a plain str, whose hash and comparison run no code of a user."""
    if type(value) is not str:
        if not isinstance(value, str):
            raise TypeError(f"{argument} must be a string, not {type(value).__name__}")
        value = str.__str__(value)
    if not value:
        raise ValueError(f"{argument} must not be empty")
    return value


cdef str bad_item(cnp.ndarray items, int64_t position, int64_t number):
    return f"items[{position}]={items[position]}: allowed are 0 to {number - 1}"


cdef bint is_place(object value):
    return type(value) is int and 0 <= value < 1 << 31


cdef bint is_single(object items) except -1:
    """Whether this is one id, not an array of ids."""
    if isinstance(items, cnp.ndarray):
        return (<cnp.ndarray> items).ndim == 0
    return hasattr(items, "__index__")


cdef cnp.ndarray as_wide_items(object items):
    """The ids, or the one id, as a private aligned int64 array."""
    if is_single(items):
        items = np.array([as_int64(items, "items")])
    return as_ids(items, "items").astype(np.int64)


cdef inline Values32 as_values_32(cnp.ndarray array) noexcept:
    return Values32(
        <const int32_t*> cnp.PyArray_DATA(array), <size_t> cnp.PyArray_SIZE(array)
    )


@cython.final
cdef class UniformCache(KernelObject):
    """UniformCache(capacity, seed=0)\n--\n\nA live cache for training data: datasets with quotas, admission while there is room, and no
    eviction on a miss.

    A dataset has items (or blocks) 0 to n-1. A read of one that is not cached is a miss; it is
    admitted iff the bytes used by the dataset and its own size fit into the dataset's quota, else
    bypassed (a later, smaller one may still fit). Only a quota that shrinks evicts. For jobs that
    read every item once per epoch in random order no policy has more hits (SiloD, EuroSys'23).

    The cache keeps books, not data: the caller fetches what missed and deletes what is reported as
    evicted. A job is attached to one dataset. For each, the cache knows what it has not read in
    its current epoch. The next epoch begins by itself with the read of the last unread item, or
    with ``start_epoch`` for a job that reads only a part; repeated reads change nothing.

    :param capacity: bytes, 1 to 2**62. The quotas never sum up to more.
    :param seed: 0 to 2**64 - 1, of the random choice of what a shrinking quota evicts.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an argument is not an integer.

    An access costs O(1), plus O(jobs of the dataset) if it admits. Memory is 1 bit per item, 2
    more per attached job, and 8 bytes per item where sizes differ. Same calls and same seed, same
    results on every platform, however reads are cut into batches. A wrong call changes nothing.
    One object may be used by several threads: calls take turns.

    >>> cache = UniformCache(capacity=1000)
    >>> cache.add_dataset("imagenet", items=100, item_size=10, quota=250)
    >>> cache.attach("resnet", "imagenet")
    >>> cache.access("imagenet", np.arange(100), job="resnet")    # cold: the first 25 are admitted
    0
    >>> cache.access("imagenet", np.arange(100), job="resnet")    # hits = cached at epoch start
    25
    >>> cache.set_quota("imagenet", 240), cache.hit_ratio("resnet")
    (array([10]), 0.24)
    """

    cdef UniformKernel* kernel
    cdef dict dataset_ids
    cdef dict job_ids
    cdef str last_dataset  # the names of the last access: no look-up for the same objects again
    cdef int32_t last_dataset_id
    cdef str last_job
    cdef int32_t last_job_id

    def __cinit__(self, capacity, seed=0):
        try:
            seed = operator.index(seed)
        except TypeError:
            raise TypeError(f"seed must be an integer, not {type(seed).__name__}") from None
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed={seed}: allowed are 0 to 2**64 - 1")
        cdef int64_t room = as_bounded(capacity, "capacity", 1, MOST_BYTES)
        self.dataset_ids = {}
        self.job_ids = {}
        self.kernel = new UniformKernel(room, seed)

    def __dealloc__(self):
        del self.kernel

    cdef inline int32_t dataset_id(self, str name) except -1:
        if name is self.last_dataset:
            return self.last_dataset_id
        identity = self.dataset_ids.get(name)
        if identity is None:
            raise KeyError(f"dataset={name!r}: there is no dataset of this name")
        self.last_dataset = name
        self.last_dataset_id = identity
        return self.last_dataset_id

    cdef inline int32_t job_id(self, str name) except -1:
        if name is self.last_job:
            return self.last_job_id
        identity = self.job_ids.get(name)
        if identity is None:
            raise KeyError(f"job={name!r}: no job of this name is attached")
        self.last_job = name
        self.last_job_id = identity
        return self.last_job_id

    cdef inline int32_t reader(self, str name, int32_t dataset) except? -1:
        """The id of a job that may read the dataset; -1 for no job."""
        if name is None:
            return -1
        cdef int32_t job = self.job_id(name)
        if self.kernel.job(job).dataset != dataset:
            raise ValueError(f"job={name!r}: attached to another dataset")
        return job

    cdef const UniformDataset* find(self, str name, cnp.ndarray items) except NULL:
        """The dataset, all of whose items these int64 are."""
        cdef const UniformDataset* record = &self.kernel.dataset(self.dataset_id(name))
        cdef int64_t position = first_outside(as_values(items), 0, record.items - 1)
        if position >= 0:
            raise ValueError(bad_item(items, position, record.items))
        return record

    # Datasets and jobs

    def add_dataset(self, name, items, item_size=None, *, sizes=None, quota=0):
        """Add a dataset of which nothing is cached.

        :param name: string, unlike the names of the other datasets.
        :param items: number of items, 1 to 2**31; larger datasets are cached in blocks.
        :param item_size: bytes per item, at least 1, if all have the same size; else
        :param sizes: array of ``items`` integers, at least 1: the bytes of each item.
        :param quota: bytes; with the other quotas at most the capacity.
        :raises ValueError: an argument is out of range, the name is taken, both or none of
            ``item_size`` and ``sizes`` are given, the dataset has more than 2**62 bytes, or the
            quotas would exceed the capacity.

        Cost: O(items / 64), with ``sizes`` O(items).
        """
        cdef Guard guard
        cdef str key = exact_name(name, "name")
        cdef int64_t number = as_bounded(items, "items", 1, MOST_ITEMS)
        cdef int64_t size = 0
        cdef int64_t bytes_allowed = as_bounded(quota, "quota", 0, MOST_BYTES)
        cdef int64_t position
        cdef cnp.ndarray array = None
        cdef Values each
        if (item_size is None) == (sizes is None):
            raise ValueError("one of item_size and sizes must be given, and not both")
        if sizes is None:
            size = as_bounded(item_size, "item_size", 1, MOST_BYTES)
            if size > MOST_BYTES // number:
                raise ValueError(f"item_size={size}: {number} items have more than 2**62 bytes")
        else:
            array = as_int64_array(sizes, "sizes", 0)
            if array.size != number:
                raise ValueError(f"sizes has {array.size} elements, items is {number}")
            check_range(array, 1, MOST_BYTES // number, "sizes", 0)
            each = as_values(array)
        guard.lock(self.mutex)
        if key in self.dataset_ids:
            raise ValueError(f"name={key!r}: there is a dataset of this name")
        if bytes_allowed > self.kernel.capacity() - self.kernel.quotas():
            raise ValueError(
                f"quota={bytes_allowed}: {self.kernel.capacity() - self.kernel.quotas()} bytes "
                "of the capacity are not assigned"
            )
        self.dataset_ids[key] = self.kernel.add_dataset(number, size, each, bytes_allowed)

    def remove_dataset(self, dataset, /):
        """Forget a dataset that no job is attached to and of which nothing is cached.

        :raises ValueError: a job is attached, or an item is cached (see ``unload``).
        :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str key = exact_name(dataset, "dataset")
        guard.lock(self.mutex)
        cdef int32_t identity = self.dataset_id(key)
        cdef const UniformDataset* record = &self.kernel.dataset(identity)
        if record.jobs.size() > 0 or record.cached_items > 0:
            raise ValueError(
                f"dataset={key!r}: {record.jobs.size()} jobs are attached and "
                f"{record.cached_items} items are cached"
            )
        self.kernel.remove_dataset(identity)
        del self.dataset_ids[key]
        self.last_dataset = None

    def datasets(self):
        """The names of the datasets in the order in which they were added."""
        cdef Guard guard
        guard.lock(self.mutex)
        return list(self.dataset_ids)

    def jobs(self, dataset=None):
        """The names of the attached jobs, of one dataset or of all, in order of attachment.

        :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str key = None if dataset is None else exact_name(dataset, "dataset")
        guard.lock(self.mutex)
        if key is None:
            return list(self.job_ids)
        cdef int32_t identity = self.dataset_id(key)
        return [
            name
            for name, job in self.job_ids.items()
            if self.kernel.job(<int32_t> job).dataset == identity
        ]

    def attach(self, job, dataset):
        """Begin epoch 0 of a job on a dataset.

        :raises ValueError: a job of this name is attached, to this or another dataset.
        :raises KeyError: no such dataset. Cost: O(items / 64).
        """
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        cdef str place = exact_name(dataset, "dataset")
        guard.lock(self.mutex)
        if key in self.job_ids:
            raise ValueError(f"job={key!r}: is attached already")
        self.job_ids[key] = self.kernel.attach(self.dataset_id(place))

    def detach(self, job, /):
        """End a job: what was pinned for it is unpinned, and what it has read is forgotten.

        The items stay cached; a dataset without jobs is idle, the first to give way when its quota
        is shrunk lazily.

        :raises KeyError: no such job. Cost: O(items / 64).
        """
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        guard.lock(self.mutex)
        self.kernel.detach(self.job_id(key))
        del self.job_ids[key]
        self.last_job = None

    def start_epoch(self, job, /):
        """Begin the next epoch of a job: all items are unread again; its number is returned.

        An epoch of which nothing has been read yet begins again under the same number, so a loader
        may call this before every epoch, although a complete one has ended by itself.

        :raises KeyError: no such job. Cost: O(items / 64).
        """
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        guard.lock(self.mutex)
        return self.kernel.start_epoch(self.job_id(key))

    # Reads

    def access(self, dataset, items, job=None, out=None):
        """Read items: whether it was a hit for a single id, the number of hits for an array.

        :param items: an integer, or one-dimensional array of integers, each from 0 to n-1. An
            aligned contiguous array of int32 or int64 is not copied; where another thread writes to
            it meanwhile, it is undefined which items were read, and this may raise ValueError.
        :param job: the name of the attached job that reads; without it, no epoch advances.
        :param out: optional bool array as long as ``items``, set to what was a hit.
        :raises ValueError: an id is out of range, the job is attached to another dataset, or
            ``out`` has another length, is not contiguous or not writeable; nothing has changed.
        :raises TypeError: an argument has the wrong type. :raises KeyError: no such dataset or job.

        Same results as one call per item. Long batches run without the GIL.
        """
        cdef Guard guard
        cdef int64_t item = small_int(items)
        cdef str place
        cdef str reader
        cdef int32_t identity
        if type(dataset) is str:
            place = dataset
        else:
            place = exact_name(dataset, "dataset")
        if job is None or type(job) is str:
            reader = job
        else:
            reader = exact_name(job, "job")
        if item < 0:
            if not is_single(items):
                return self.access_batch(place, items, reader, out)
            item = as_int64(items, "items")
        if out is not None:
            raise TypeError("out is for an array of items")
        guard.lock(self.mutex)
        identity = self.dataset_id(place)
        if not 0 <= item < self.kernel.dataset(identity).items:
            raise ValueError(
                f"items={item}: allowed are 0 to {self.kernel.dataset(identity).items - 1}"
            )
        return self.kernel.access(identity, self.reader(reader, identity), item)

    cdef object access_batch(self, str place, object items, str reader, object out):
        cdef Guard guard
        cdef cnp.ndarray array = as_ids(items, "items")
        cdef uint8_t* mask = as_mask_of(out, array, "items")
        cdef int64_t hits = 0
        cdef bint narrow = cnp.PyArray_TYPE(array) == cnp.NPY_INT32
        cdef Values ids
        cdef Values32 ids_32
        if narrow:
            ids_32 = as_values_32(array)
        else:
            array = array.astype(np.int64, copy=False)
            ids = as_values(array)
        guard.lock(self.mutex)
        cdef int32_t identity = self.dataset_id(place)
        cdef int32_t job = self.reader(reader, identity)
        if array.size <= LONG_ACCESS:
            if narrow:
                hits = self.kernel.access_many_32(identity, job, ids_32, mask)
            else:
                hits = self.kernel.access_many(identity, job, ids, mask)
        else:
            guard.keep()
            with nogil:
                if narrow:
                    hits = self.kernel.access_many_32(identity, job, ids_32, mask)
                else:
                    hits = self.kernel.access_many(identity, job, ids, mask)
        if hits == OVERWRITTEN:
            raise ValueError("items: another thread has written to the array meanwhile")
        if hits < 0:
            raise ValueError(bad_item(array, -1 - hits, self.kernel.dataset(identity).items))
        return hits

    def is_cached(self, dataset, items, /):
        """Whether an item is cached; for an array of ids, an array of bool. Counts as no read.

        :raises ValueError: an id is out of range. :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef bint single = is_single(items)
        cdef cnp.ndarray array = as_wide_items(items)
        cdef cnp.ndarray answer = new_bool_array(array.size)
        cdef const int64_t* ids = <const int64_t*> cnp.PyArray_DATA(array)
        cdef uint8_t* marks = <uint8_t*> cnp.PyArray_DATA(answer)
        cdef cnp.npy_intp k
        guard.lock(self.mutex)
        cdef const UniformDataset* data = self.find(place, array)
        for k in range(cnp.PyArray_SIZE(array)):
            marks[k] = data.cached[ids[k] >> 6] >> (ids[k] & 63) & 1
        return bool(answer[0]) if single else answer

    # Quotas

    def set_quota(self, dataset, quota, shrink="random", force=False):
        """Change a dataset's quota: int64 array of the items that this evicts, ascending.

        :param quota: bytes, 0 or more; with the other quotas at most the capacity.
        :param shrink: what to evict where the quota is less than what is cached, pinned items
            excepted, until it is not:

            ``"random"``: each with the same probability, so what stays is unbiased.
            ``"read_first"``: items that every attached job has read in its current epoch go first,
            then the others, at random within both: the running epochs keep their hits.
            ``"lazy"``: none now. The bytes stay useful until an admission elsewhere needs the
            room; then items chosen at random go one by one, from the dataset over its quota that
            is idle and was used least recently, else from the one most over its quota (ties: the
            one with the lowest place; a new dataset takes the lowest free one).
        :param force: evict pinned items as well, after the others.
        :raises ValueError: the quotas would exceed the capacity, or more is pinned than the quota
            and ``force`` is not set or ``shrink`` is ``"lazy"``.
        :raises TypeError: an argument has the wrong type. :raises KeyError: no such dataset.

        A larger quota evicts nothing and admits from the next miss on. Cost: O(1) to grow,
        O(items / 64 + cached items) to shrink.
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef int64_t amount = as_bounded(quota, "quota", 0, MOST_BYTES)
        cdef bint all_of_them = as_flag(force, "force")
        if not isinstance(shrink, str) or shrink not in UNIFORM_SHRINKS:
            raise ValueError(f"shrink={shrink!r}: allowed are {', '.join(UNIFORM_SHRINKS)}")
        cdef UniformShrink mode = <UniformShrink> <int> UNIFORM_SHRINKS[shrink]
        guard.lock(self.mutex)
        cdef int32_t identity = self.dataset_id(place)
        cdef const UniformDataset* record = &self.kernel.dataset(identity)
        cdef int64_t room = self.kernel.capacity() - (self.kernel.quotas() - record.quota)
        if amount > room:
            raise ValueError(f"quota={amount}: the other quotas leave {room} bytes of the capacity")
        if amount < record.pinned and (mode == UniformShrink.lazy or not all_of_them):
            raise ValueError(f"quota={amount}: {record.pinned} bytes are pinned")
        return as_array(self.kernel.set_quota(identity, amount, mode))

    def unload(self, dataset, force=False):
        """Evict all that is not pinned: int64 array of the evicted items, ascending.

        The quota becomes 0, or what is pinned, if anything is.

        :param force: unpin and evict the pinned items as well.
        :raises TypeError: ``force`` is no bool.
        :raises KeyError: no such dataset. Cost: O(items / 64 + cached items).
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef bint all_of_them = as_flag(force, "force")
        guard.lock(self.mutex)
        return as_array(self.kernel.unload(self.dataset_id(place), all_of_them))

    # Pins and warm-up

    def pin(self, dataset, items, /):
        """Keep items until ``unpin``: int64 array of those that were not cached and now are.

        :param items: an integer, or one-dimensional array of integers, each from 0 to n-1.
        :raises ValueError: an id is out of range, or the quota has not room for all of them
            beside what is cached; nothing has changed.
        :raises KeyError: no such dataset.

        The caller fetches what is returned; it counts as effective like items of ``warm``.
        Cost: O(items log items).
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef cnp.ndarray array = as_wide_items(items)
        cdef int64_t pinned = 0
        cdef int64_t used = 0
        guard.lock(self.mutex)
        cdef const UniformDataset* record = self.find(place, array)
        cdef int32_t identity = self.dataset_id(place)
        self.kernel.would_pin(identity, as_values(array), pinned, used)
        if pinned > record.quota:
            raise ValueError(f"items: {pinned} bytes would be pinned, the quota is {record.quota}")
        if used > record.used and used > record.quota:
            raise ValueError(f"items: {used} bytes would be used, the quota is {record.quota}")
        return as_array(self.kernel.pin(identity, as_values(array)))

    def unpin(self, dataset, items, /):
        """Undo ``pin``: how many of the items were pinned by it. They stay cached.

        What a warm-up pins for a job is not touched.

        :raises ValueError: an id is out of range; nothing has changed.
        :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef cnp.ndarray array = as_wide_items(items)
        guard.lock(self.mutex)
        self.find(place, array)
        cdef int32_t identity = self.dataset_id(place)
        return self.kernel.unpin(identity, as_values(array))

    def warm(self, dataset, items, job=None, pin_until=None):
        """Admit items ahead of their reads, in order, as far as they fit: int64 array of those
        that were not cached and now are.

        They count as effective at once for each attached job that has not read them in its
        current epoch.

        :param items: an integer, or one-dimensional array of integers, each from 0 to n-1.
        :param job: the attached job that they are pinned for.
        :param pin_until: None to pin nothing; ``"first_epoch"`` to pin those items, cached before
            or now, that the job has not read, until it reads them, begins another epoch or is
            detached; ``"job_end"`` to pin all of them until it is detached. Never pins more than
            the quota.
        :raises ValueError: an id is out of range, the job is attached to another dataset,
            or ``pin_until`` is unknown or given without a job; nothing has changed.
        :raises KeyError: no such dataset or job.

        The caller fetches what is returned.
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef str reader = None if job is None else exact_name(job, "job")
        cdef cnp.ndarray array = as_wide_items(items)
        if not (pin_until is None or isinstance(pin_until, str)) or pin_until not in UNIFORM_HOLDS:
            raise ValueError(f"pin_until={pin_until!r}: allowed are None, first_epoch, job_end")
        if pin_until is not None and reader is None:
            raise ValueError(f"pin_until={pin_until!r}: needs a job")
        cdef UniformHold hold = <UniformHold> <int> UNIFORM_HOLDS[pin_until]
        guard.lock(self.mutex)
        cdef int32_t identity = self.dataset_id(place)
        cdef int32_t holder = self.reader(reader, identity)
        self.find(place, array)
        return as_array(self.kernel.warm(identity, as_values(array), holder, hold))

    # What is known

    @property
    def capacity(self):
        """Bytes of the whole cache."""
        return self.kernel.capacity()

    @property
    def used(self):
        """Bytes cached of all datasets; at most the capacity."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.used()

    def __repr__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        cdef int64_t used = self.kernel.used()
        cdef Py_ssize_t datasets = len(self.dataset_ids), jobs = len(self.job_ids)
        guard.unlock()  # a new object may start a collection, whose finalizers may run any code
        return (
            f"UniformCache(capacity={self.capacity}, used={used}, datasets={datasets}, "
            f"jobs={jobs})"
        )

    @property
    def unassigned(self):
        """Bytes of the capacity that are in no quota."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.capacity() - self.kernel.quotas()

    def effective(self, job, /):
        """Bytes that count as cached for a job's current epoch.

        Those cached when it began and still cached, and what was warmed up since while unread.

        :raises KeyError: no such job. Cost: O(1). Source: SiloD's delayed effectiveness.
        """
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        guard.lock(self.mutex)
        return self.kernel.job(self.job_id(key)).effective_bytes

    def hit_ratio(self, job, /):
        """The part of the bytes that a job has not read in its epoch which is cached now.

        That is the ratio of hits to expect of its next reads; they never end: with the last of an
        epoch the next begins.

        :raises KeyError: no such job. Cost: O(1).
        """
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        guard.lock(self.mutex)
        cdef const UniformJob* record = &self.kernel.job(self.job_id(key))
        return <double> record.cached_unread_bytes / <double> record.unread_bytes

    def epoch(self, job, /):
        """The number of a job's current epoch, from 0. :raises KeyError: no such job."""
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        guard.lock(self.mutex)
        return self.kernel.job(self.job_id(key)).epoch

    def unread(self, job, /):
        """How many items a job has not read in its epoch, at least 1.

        :raises KeyError: no such job.
        """
        cdef Guard guard
        cdef str key = exact_name(job, "job")
        guard.lock(self.mutex)
        return self.kernel.job(self.job_id(key)).unread_items

    def cached(self, dataset, /):
        """The cached items: int64 array, ascending. :raises KeyError: no such dataset."""
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        guard.lock(self.mutex)
        return as_array(self.kernel.cached(self.dataset_id(place)))

    def pinned_items(self, dataset, /):
        """The pinned items, for whatever reason: int64 array, ascending.

        :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        guard.lock(self.mutex)
        return as_array(self.kernel.pinned_items(self.dataset_id(place)))

    def drain_changes(self, dataset, /):
        """What came and went since the last call: two int64 arrays, ascending: added, removed.

        For the heartbeat of a replica directory. An item that came and went in between is in
        neither. The first call reports all cached items as added; from then on the dataset takes
        1 bit more per item.

        :raises KeyError: no such dataset. Cost: O(items / 64 + changes).
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        cdef vector[int64_t] added
        cdef vector[int64_t] removed
        guard.lock(self.mutex)
        self.kernel.drain_changes(self.dataset_id(place), added, removed)
        return as_array(added), as_array(removed)

    def statistics(self, dataset, /):
        """The state and the counters of a dataset: dict of integers.

        Keys: ``items``, ``total_bytes``, ``quota``, ``used``, ``pinned`` (bytes), ``cached_items``,
        ``jobs``; and counted since the dataset was added, bytes modulo 2**64: ``hits``,
        ``misses``, ``hit_bytes``, ``miss_bytes``, ``admitted``, ``admitted_bytes`` (by misses),
        ``warmed``, ``warmed_bytes`` (by ``warm`` and ``pin``), ``evicted``, ``evicted_bytes``,
        ``served_bytes`` (= hits), ``fetched_bytes`` (= misses + warmed: the remote reads).

        :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str place = exact_name(dataset, "dataset")
        guard.lock(self.mutex)
        cdef const UniformDataset* record = &self.kernel.dataset(self.dataset_id(place))
        cdef UniformCounters counted = record.counters
        # Copies: the dict may start a collection, whose finalizers may remove the dataset.
        cdef int64_t[6] values = [
            record.items, record.total_bytes, record.quota, record.used, record.pinned,
            record.cached_items,
        ]
        cdef size_t jobs = record.jobs.size()
        return {
            "items": values[0],
            "total_bytes": values[1],
            "quota": values[2],
            "used": values[3],
            "pinned": values[4],
            "cached_items": values[5],
            "jobs": jobs,
            "hits": counted.hits,
            "misses": counted.misses,
            "hit_bytes": counted.hit_bytes,
            "miss_bytes": counted.miss_bytes,
            "admitted": counted.admitted,
            "admitted_bytes": counted.admitted_bytes,
            "warmed": counted.warmed,
            "warmed_bytes": counted.warmed_bytes,
            "evicted": counted.evicted,
            "evicted_bytes": counted.evicted_bytes,
            "served_bytes": counted.hit_bytes,
            "fetched_bytes": counted.miss_bytes + counted.warmed_bytes,
        }

    def charges(self, dataset, rates, /):
        """What of a dataset's cached bytes each attached job is charged: dict of floats.

        Job j pays used * rate_j / sum of the rates; equal parts if all rates are 0. A dataset is
        charged once, however many share it.

        :param rates: mapping of each attached job's name to its rate (f*, MB/s), 0 or more.
        :raises ValueError: a rate is negative or not finite, or the names are not those of the
            attached jobs. :raises TypeError: ``rates`` is no mapping, or a rate no number.
        :raises KeyError: no such dataset.
        """
        cdef Guard guard
        cdef str key = exact_name(dataset, "dataset")
        rates = as_mapping(rates, "rates")
        guard.lock(self.mutex)
        names = self.jobs(key)
        cdef int64_t used = self.kernel.dataset(self.dataset_id(key)).used
        guard.unlock()
        if set(rates) != set(names):
            raise ValueError(f"rates are for {list(rates)}, attached are {names}")
        cdef double total = 0
        shares = {}
        for name in names:
            shares[name] = rate = as_float(rates[name], f"rates[{name!r}]")
            if not 0 <= rate < INFINITY:
                raise ValueError(f"rates[{name!r}]={rate}: must be finite and not negative")
            total += rate
        if total == 0:
            return dict.fromkeys(names, used / max(len(names), 1))
        return {name: used * (rate / total) for name, rate in shares.items()}

    # State

    def copy(self):
        """An independent cache in the same state, random state included. Cost: O(items / 64)."""
        cdef Guard guard
        cdef UniformCache other = UniformCache.__new__(UniformCache, 1)
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        other.dataset_ids.update(self.dataset_ids)
        other.job_ids.update(self.job_ids)
        return other

    def to_bytes(self):
        """The whole state as bytes, for ``from_bytes`` of this and later releases.

        Includes unread items, holds, counters, reported changes and the random state: the restored
        cache behaves identically. Cost: O(items / 64).
        """
        # Not as the base has it: the names, which are not the kernel's, stand before its state.
        cdef Guard guard
        cdef StateWriter names
        cdef StateWriter state
        # Made before the turn: a new dict may start a collection, whose finalizers may run any code.
        cdef dict datasets = {}
        cdef dict jobs = {}
        guard.lock(self.mutex)
        self.kernel.save(state)
        datasets.update(self.dataset_ids)
        jobs.update(self.job_ids)
        guard.unlock()
        names.put_text(json.dumps([datasets, jobs]).encode())
        return seal(b"HCUC", 1, <bytes> names.take() + <bytes> state.take())

    @classmethod
    def from_bytes(cls, data, /):
        """The cache whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCUC", 1, data)
        return restored(UniformCache.__new__(UniformCache, 1), payload)

    cdef int read_state(self, StateReader& reader) except -1:
        cdef bytes text = reader.get_text()
        read_kernel(self.kernel, reader)
        try:
            names = json.loads(text)
            datasets, jobs = names
            for table in names:
                distinct = isinstance(table, dict) and len(set(table.values())) == len(table)
                if not distinct or "" in table:
                    raise ValueError("the names are not names of different things")
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        if self.kernel.datasets() != len(datasets) or self.kernel.jobs() != len(jobs):
            raise ValueError("the names are not as many as the datasets and jobs")
        for name, identity in datasets.items():
            if not is_place(identity) or not self.kernel.is_dataset(identity):
                raise ValueError(f"{name!r} is no dataset")
        for name, identity in jobs.items():
            if not is_place(identity) or not self.kernel.is_job(identity):
                raise ValueError(f"{name!r} is no job")
        self.dataset_ids = datasets
        self.job_ids = jobs
        return 0

    cdef string find_fault(self) except * nogil:
        cdef string fault = self.kernel.audit()
        if fault.empty():
            with gil:
                if (
                    len(self.dataset_ids) != self.kernel.datasets()
                    or len(self.job_ids) != self.kernel.jobs()
                ):
                    fault = b"there is not one name for every dataset and job"
        return fault

    cdef uint64_t kernel_bytes(self) noexcept:
        names = dict.__sizeof__(self.dataset_ids) + dict.__sizeof__(self.job_ids)
        return <uint64_t> names + self.kernel.bytes()
