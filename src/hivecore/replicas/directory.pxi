"""The replica directory, and what the replica-aware cache shares with it."""

# A batch of more elements than this takes about 20 microseconds: worth giving up the GIL for.
cdef enum:
    LONG_BATCH = 1024


cdef extern from "replicas/directory.hpp" namespace "hivecore::replicas" nogil:
    cdef cppclass WorkerDeltas "hivecore::replicas::ReplicaDirectory::Deltas":
        vector[int64_t] workers
        vector[int64_t] first
        vector[int64_t] blocks
        vector[int64_t] changes

    cdef cppclass DirectoryKernel "hivecore::replicas::ReplicaDirectory":
        DirectoryKernel(int64_t, int64_t) except +
        int64_t workers() noexcept
        int64_t blocks() noexcept
        bint is_known(int64_t) noexcept
        int64_t sequence(int64_t) noexcept
        int64_t replicas(int64_t) noexcept
        void grow(int64_t) except +
        WorkerDeltas join(int64_t, Values, int64_t) except +
        WorkerDeltas report(int64_t, Values, Values, Values) except +
        void set_sequence(int64_t, int64_t) noexcept
        WorkerDeltas remove_worker(int64_t) except +
        void lease(int64_t, Values, uint8_t*) except +
        vector[int64_t] holders(int64_t) except +
        vector[int64_t] held(int64_t) except +
        vector[int64_t] leases(int64_t) except +
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept

    enum:
        MOST_WORKERS "hivecore::replicas::ReplicaDirectory::kMaxWorkers"
        MOST_BLOCKS "hivecore::replicas::ReplicaDirectory::kMaxBlocks"
        MOST_SEQUENCE "hivecore::replicas::ReplicaDirectory::kMaxSequence"


cdef cnp.ndarray as_short_array(object values):
    """A short list or tuple of plain ints >= 0 as int64, or None for what takes more care."""
    cdef Py_ssize_t length
    cdef Py_ssize_t i
    cdef int64_t value
    if type(values) is not list and type(values) is not tuple:
        return None
    length = len(values)
    if length > 64:
        return None
    cdef cnp.ndarray array = new_int64_array(length)
    for i in range(length):
        value = small_int(values[i])
        if value < 0:
            return None
        (<int64_t*> cnp.PyArray_DATA(array))[i] = value
    return array


cdef cnp.ndarray as_block_array(object values, str name, int64_t blocks):
    array = as_short_array(values)
    if array is None:
        return as_ids_below(values, name, blocks)
    check_range(array, 0, blocks - 1, name, 0)
    return array


cdef dict deltas_by_worker(WorkerDeltas& deltas):
    cdef size_t i
    cdef int64_t begin
    cdef int64_t length
    cdef cnp.ndarray blocks
    cdef cnp.ndarray changes
    result = {}
    for i in range(deltas.workers.size()):
        begin = deltas.first[i]
        length = deltas.first[i + 1] - begin
        blocks, changes = new_int64_array(length), new_int64_array(length)
        memcpy(cnp.PyArray_DATA(blocks), deltas.blocks.data() + begin, 8 * length)
        memcpy(cnp.PyArray_DATA(changes), deltas.changes.data() + begin, 8 * length)
        result[deltas.workers[i]] = blocks, changes
    return result


@cython.final
cdef class ReplicaDirectory(KernelObject):
    """ReplicaDirectory(workers, blocks)\n--\n\nThe master's view of which workers hold which blocks: answers reports with the deltas to pass on.

    Workers and blocks are numbers from 0. A worker is known from its ``join`` until
    ``remove_worker``. The deltas of a call are a dict ``{worker: (blocks, changes)}`` of int64
    arrays for ``ReplicaAwareCache.apply``: what each worker, the reporting one included, has to add
    to its counts. What has been sent to a worker for a block sums to the number of other holders
    while the worker holds it, and to 0 otherwise.

    :param workers: the most workers, 1 to 2**20.
    :param blocks: number of block ids, 0 to 2**31 - 1; see ``grow``.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an argument is not an integer.

    Leases arbitrate evictions: a worker may get one for a block while another holder without a
    lease is left. Workers that evict only under a lease never lose a last copy, however late
    messages arrive: they only have to keep their order on the way from a worker to the directory,
    and on the way back. (To ask only when few copies are believed to exist would not do: any
    number of holders can evict at once, each counting on the others.) What a worker drops without
    a lease, or loses in a crash, is not protected.

    Repeated reports are harmless: an addition of what is held, a removal of what is not and a
    release of what is not leased are ignored. With sequence numbers, late copies of old reports
    are ignored as well, and lost ones are noticed. Repeated requests for leases are harmless.

    A report costs O(workers / 64 + holders) per block. Memory: workers / 8 + 8 bytes per block.
    Deterministic. One object may be used by several threads: calls take turns. Source: Alluxio
    pull requests 16251 and 16357; leases are hivecore's own.

    >>> directory = ReplicaDirectory(workers=3, blocks=10)
    >>> for worker in range(3):
    ...     _ = directory.join(worker)
    >>> directory.report(0, added=[4, 5])
    {}
    >>> directory.report(2, added=[5])              # one more for 0; 2 learns of 0's copy
    {0: (array([5]), array([1])), 2: (array([5]), array([1]))}
    >>> directory.lease(0, [4, 5]), directory.lease(2, [5])
    (array([False,  True]), array([False]))
    >>> directory.report(0, removed=[5])
    {0: (array([5]), array([-1])), 2: (array([5]), array([-1]))}
    """

    cdef DirectoryKernel* kernel

    def __cinit__(self, workers, blocks):
        cdef int64_t most = as_bounded(workers, "workers", 1, MOST_WORKERS)
        cdef int64_t size = as_bounded(blocks, "blocks", 0, MOST_BLOCKS)
        self.kernel = new DirectoryKernel(most, size)

    def __dealloc__(self):
        del self.kernel

    cdef int64_t as_worker(self, object worker) except -1:
        return as_bounded(worker, "worker", 0, self.kernel.workers() - 1)

    cdef int64_t as_block(self, object block) except -1:
        return as_bounded(block, "block", 0, self.block_count() - 1)

    cdef int64_t block_count(self) noexcept:
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.blocks()

    cdef int need_known(self, int64_t worker) except -1:
        if not self.kernel.is_known(worker):
            raise FullReportNeededError(f"worker={worker}: not known, it has to join")
        return 0

    @property
    def workers(self):
        """The most workers."""
        return self.kernel.workers()

    @property
    def blocks(self):
        """Number of block ids."""
        return self.block_count()

    def grow(self, blocks, /):
        """Allow block ids below ``blocks``, which must not be less than before.

        :raises ValueError: out of range. Cost: O(blocks * workers / 64) when it has to move.
        """
        cdef Guard guard
        cdef int64_t size = as_int64(blocks, "blocks")
        guard.lock(self.mutex)
        as_bounded(size, "blocks", self.kernel.blocks(), MOST_BLOCKS)
        self.kernel.grow(size)

    def join(self, worker, held=(), sequence=0):
        """Make a worker known, or known again, with all that it holds; returns the deltas.

        Whatever was known of it before is replaced; its leases end. The worker must have set its
        counts to zero, as ``ReplicaAwareCache.full_report`` does.

        :param held: one-dimensional array of block ids.
        :param sequence: of this message, an integer >= 0; the next report's is one more.
        :raises ValueError: a worker, block or sequence number is out of range.
        :raises TypeError: an argument does not hold integers.

        Cost: O(blocks + deltas).
        """
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        cdef int64_t number = as_bounded(sequence, "sequence", 0, MOST_SEQUENCE)
        array = as_block_array(held, "held", self.block_count())
        cdef Values blocks = as_values(array)
        cdef WorkerDeltas deltas
        guard.lock(self.mutex)
        guard.keep()
        with nogil:
            deltas = self.kernel.join(row, blocks, number)
        return deltas_by_worker(deltas)

    def report(self, worker, added=(), removed=(), released=(), sequence=None):
        """Take over a worker's heartbeat; returns the deltas.

        Deltas are returned only once. A worker that does not receive them has wrong counts until
        it joins again; its evictions are then worse, but still safe.

        :param added: one-dimensional array of the blocks that it holds now and did not before.
        :param removed: those that it does not hold any more; they count before ``added``.
        :param released: blocks that it keeps, and for which it gives its lease to evict back.
        :param sequence: number of the report, one more than that of the one before; a report with
            a number that is not above the last is ignored, without deltas. ``None``: not checked.
        :raises FullReportNeededError: the worker is not known, or reports before this one are
            missing; nothing has changed, and it has to ``join``.
        :raises ValueError: a worker, block or sequence number is out of range; nothing has changed.
        :raises TypeError: an argument does not hold integers.
        """
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        cdef int64_t number = -1 if sequence is None else as_bounded(sequence, "sequence", 0, MOST_SEQUENCE)
        cdef int64_t limit = self.block_count()
        more = as_block_array(added, "added", limit)
        less = as_block_array(removed, "removed", limit)
        freed = as_block_array(released, "released", limit)
        cdef Values more_span = as_values(more)
        cdef Values less_span = as_values(less)
        cdef Values freed_span = as_values(freed)
        cdef WorkerDeltas deltas
        guard.lock(self.mutex)
        self.need_known(row)
        if number >= 0:
            if number <= self.kernel.sequence(row):
                return {}
            if number > self.kernel.sequence(row) + 1:
                raise FullReportNeededError(
                    f"sequence={number}: the last report of worker {row} was number "
                    f"{self.kernel.sequence(row)}"
                )
        if more_span.size() + less_span.size() <= LONG_BATCH:
            deltas = self.kernel.report(row, more_span, less_span, freed_span)
        else:
            guard.keep()
            with nogil:
                deltas = self.kernel.report(row, more_span, less_span, freed_span)
        if number >= 0:
            self.kernel.set_sequence(row, number)
        return deltas_by_worker(deltas)

    def remove_worker(self, worker, /):
        """Forget a lost worker, its copies and its leases; returns the deltas of the others.

        Nothing happens if it is not known. Its reports are refused until it joins again.

        :raises ValueError: no such worker. Cost: O(blocks + deltas).
        """
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        cdef WorkerDeltas deltas
        guard.lock(self.mutex)
        guard.keep()
        with nogil:
            deltas = self.kernel.remove_worker(row)
        return deltas_by_worker(deltas)

    def lease(self, worker, blocks, /):
        """Ask for leases to evict blocks, one after the other: bool array of those granted.

        A lease is granted if the worker holds the block and another holder has no lease of it; the
        worker's own lease is granted again. It ends when the worker reports the block as removed
        or released, is lost or joins.

        :param blocks: one-dimensional array of block ids.
        :raises FullReportNeededError: the worker is not known.
        :raises ValueError: a worker or block is out of range; nothing has changed.
        :raises TypeError: an argument does not hold integers.

        Cost: O(1) per block.
        """
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        array = as_block_array(blocks, "blocks", self.block_count())
        cdef cnp.ndarray granted = new_bool_array(len(array))
        guard.lock(self.mutex)
        self.need_known(row)
        self.kernel.lease(row, as_values(array), <uint8_t*> cnp.PyArray_DATA(granted))
        return granted

    def is_known(self, worker, /):
        """Whether the worker has joined and was not removed since."""
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        guard.lock(self.mutex)
        return bool(self.kernel.is_known(row))

    def sequence(self, worker, /):
        """Number of the last message with a sequence number that took effect."""
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        guard.lock(self.mutex)
        return self.kernel.sequence(row)

    def replicas(self, block, /):
        """How many workers hold the block. Cost: O(1)."""
        cdef Guard guard
        cdef int64_t row = self.as_block(block)
        guard.lock(self.mutex)
        return self.kernel.replicas(row)

    def holders(self, block, /):
        """The workers that hold the block: int64 array, ascending. Cost: O(workers / 64)."""
        cdef Guard guard
        cdef int64_t row = self.as_block(block)
        guard.lock(self.mutex)
        return as_array(self.kernel.holders(row))

    def held(self, worker, /):
        """The blocks that the worker holds: int64 array, ascending. Cost: O(blocks)."""
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        guard.lock(self.mutex)
        return as_array(self.kernel.held(row))

    def leases(self, worker, /):
        """The blocks that the worker may evict: int64 array, ascending. Cost: O(all leases)."""
        cdef Guard guard
        cdef int64_t row = self.as_worker(worker)
        guard.lock(self.mutex)
        return as_array(self.kernel.leases(row))

    def copy(self):
        """An independent directory in the same state."""
        cdef Guard guard
        cdef ReplicaDirectory other = ReplicaDirectory.__new__(ReplicaDirectory, 1, 0)
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        return other

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases."""
        return self.saved(b"HCRD", 1)

    @classmethod
    def from_bytes(cls, data, /):
        """The directory whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCRD", 1, data)
        return restored(ReplicaDirectory.__new__(ReplicaDirectory, 1, 0), payload)

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
        return f"ReplicaDirectory(workers={self.workers}, blocks={self.blocks})"
