"""The replica-aware cache of one worker."""

ctypedef span[const uint8_t] ReplicaFlags


cdef extern from "replicas/cache.hpp" namespace "hivecore::replicas" nogil:
    cdef cppclass CacheHeartbeat "hivecore::replicas::ReplicaCache::Heartbeat":
        vector[int64_t] added
        vector[int64_t] removed
        vector[int64_t] released

    cdef cppclass ReplicaCache:
        ReplicaCache(int64_t, int64_t, double, double, int, bint) except +
        int64_t capacity() noexcept
        int64_t blocks() noexcept
        double alpha() noexcept
        double beta() noexcept
        int max_count() noexcept
        bint arbitrated() noexcept
        int64_t clock() noexcept
        int64_t size() noexcept
        int64_t leased() noexcept
        int64_t sequence() noexcept
        bint contains(int64_t) noexcept
        bint is_pinned(int64_t) noexcept
        int state(int64_t) noexcept
        int64_t count(int64_t) noexcept
        void grow(int64_t) except +
        int64_t last_evicted() noexcept
        bint access(int64_t, int64_t) noexcept
        void access_many(Values, Values, uint8_t*, uint8_t*, int64_t*) noexcept
        int64_t victim() noexcept
        void apply(Values, Values) noexcept
        void pin(int64_t) noexcept
        void unpin(int64_t) noexcept
        void discard(int64_t) noexcept
        vector[int64_t] propose(int64_t) except +
        void answer(Values, ReplicaFlags) noexcept
        CacheHeartbeat heartbeat() except +
        vector[int64_t] full_report() except +
        vector[int64_t] cached() except +
        vector[int64_t] eviction_order() except +
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept

    enum:
        BLOCK_ASKED "hivecore::replicas::ReplicaCache::kAsked"
        MOST_CAPACITY "hivecore::replicas::ReplicaCache::kMaxCapacity"
        MOST_COUNT "hivecore::replicas::ReplicaCache::kMaxCount"
    double MOST_WEIGHT "hivecore::replicas::ReplicaCache::kMaxWeight"


cdef cnp.ndarray as_bool_array(object values, str name):
    """A private copy of a one-dimensional array of bools."""
    try:
        array = np.array(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of bools") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size == 0:
        return new_bool_array(0)
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must hold bools, not {array.dtype}")
    return array


cdef double as_weight(object value, str name) except -1:
    """A float from 0 to 1e100: its product with any clock is finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError(f"{name} must be a float, not {type(value).__name__}")
    cdef double number
    try:
        number = value
    except OverflowError:
        number = float("inf")
    if not 0 <= number <= MOST_WEIGHT:
        raise ValueError(f"{name}={number}: allowed are 0 to 1e100")
    return number


@cython.final
cdef class ReplicaAwareCache(KernelObject):
    """ReplicaAwareCache(capacity, blocks, *, alpha=1e-5, beta=1000.0, max_count=8, arbitrated=False)\n--\n\nOne worker's cache of blocks that evicts what was not used for long and exists elsewhere.

    The victim has the least ``alpha * clock - beta * min(copies elsewhere, max_count)``; ties are
    broken by the lower clock. The clock counts accesses; a block's is that of its last access, and
    nothing else changes it. With ``beta=0`` this is exactly LRU; with the default weights copies
    come first and recency decides among equals. Pinned blocks are never victims.

    :param capacity: the most blocks that it holds, 1 to 2**30.
    :param blocks: number of block ids, 0 to 2**31 - 1; see ``grow``.
    :param alpha: weight of recency, 0 to 1e100.
    :param beta: weight of a copy, 0 to 1e100.
    :param max_count: more copies than this count as this many, 0 to 63.
    :param arbitrated: evict only under a lease of the directory, see below.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an argument has the wrong type.

    *Naive*: every holder evicts by its own, possibly stale, counts, so the last copies of a block
    may go at the same time. *Arbitrated*: ask ahead, ``blocks = cache.propose(n)``, then
    ``cache.answer(blocks, directory.lease(worker, blocks))``. A miss evicts the best leased block;
    without one, the block is read but not admitted. Another use of a leased block gives the lease
    back. Messages take effect in the order in which they were sent.

    An access or a delta moves a block within bitmaps of one bit per place of a time line twice as
    long as the cache: O(log64(capacity)) words, amortised; an eviction looks at no more than
    max_count + 1 queue heads. Memory: 20 bytes per block id, and 24 + (max_count + 1) / 4 per
    block of capacity (arbitrated: 24 + (max_count + 1) / 2). Deterministic. One object may be used
    by several threads: calls take turns. Source: Alluxio pull request 16357 (ReplicaBasedAnnotator),
    whose deltas also refresh recency; these do not.

    >>> cache = ReplicaAwareCache(capacity=3, blocks=10)
    >>> cache.access(2), cache.access(0), cache.access(1)      # C, A, B: C is least recently used
    (False, False, False)
    >>> cache.apply([0], [2])                                  # A has two more copies
    >>> cache.access(3), cache.last_evicted                    # so A goes
    (False, 0)
    >>> cache.access(2)
    True
    """

    cdef ReplicaCache* kernel

    def __cinit__(
        self, capacity, blocks, *, alpha=1e-5, beta=1000.0, max_count=8, arbitrated=False
    ):
        cdef int64_t room = as_bounded(capacity, "capacity", 1, MOST_CAPACITY)
        cdef int64_t size = as_bounded(blocks, "blocks", 0, MOST_BLOCKS)
        cdef double recency = as_weight(alpha, "alpha")
        cdef double copies = as_weight(beta, "beta")
        cdef int64_t most = as_bounded(max_count, "max_count", 0, MOST_COUNT)
        cdef bint asks = as_flag(arbitrated, "arbitrated")
        self.kernel = new ReplicaCache(room, size, recency, copies, <int> most, asks)

    def __dealloc__(self):
        del self.kernel

    cdef inline int64_t as_block(self, object block, Guard& guard) except -1:
        """The block; the turn begins between its conversion and the look at what is allowed."""
        cdef int64_t value = as_int64(block, "block")
        guard.lock(self.mutex)
        if not 0 <= value < self.kernel.blocks():
            raise ValueError(f"block={value}: allowed are 0 to {self.kernel.blocks() - 1}")
        return value

    cdef int64_t block_count(self) noexcept:
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.blocks()

    cdef int64_t as_cached(self, object block, Guard& guard) except -1:
        cdef int64_t value = self.as_block(block, guard)
        if not self.kernel.contains(value):
            raise KeyError(f"block={value}: not cached")
        return value

    @property
    def capacity(self):
        """The most blocks that it holds."""
        return self.kernel.capacity()

    @property
    def blocks(self):
        """Number of block ids."""
        return self.block_count()

    @property
    def alpha(self):
        """Weight of recency."""
        return self.kernel.alpha()

    @property
    def beta(self):
        """Weight of a copy elsewhere."""
        return self.kernel.beta()

    @property
    def max_count(self):
        """More copies than this count as this many."""
        return self.kernel.max_count()

    @property
    def arbitrated(self):
        """Whether evictions need a lease."""
        return bool(self.kernel.arbitrated())

    @property
    def clock(self):
        """Number of accesses so far."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.clock()

    @property
    def last_evicted(self):
        """The block that the last access evicted, or -1."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.last_evicted()

    @property
    def leased(self):
        """How many cached blocks the directory allows to evict."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.leased()

    def __len__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.size()

    def __contains__(self, block):
        cdef Guard guard
        cdef int64_t value = self.as_block(block, guard)
        return self.kernel.contains(value)

    def grow(self, blocks, /):
        """Allow block ids below ``blocks``, which must not be less than before.

        :raises ValueError: out of range. Cost: O(blocks) when it has to move.
        """
        cdef Guard guard
        cdef int64_t size = as_int64(blocks, "blocks")
        guard.lock(self.mutex)
        as_bounded(size, "blocks", self.kernel.blocks(), MOST_BLOCKS)
        self.kernel.grow(size)

    def access(self, block, copies=0, /):
        """Use a block: whether it was cached. If not, it is admitted if there is room or a victim.

        With ``copies`` the block itself stands for election: it is not admitted where its score
        with so many copies elsewhere is less than the victim's. A reader that looked for peers
        knows that number, and a copy of what a peer has then never displaces a last copy.

        ``last_evicted`` is the block that gave way, or -1; ``block in cache`` tells whether it was
        admitted.

        :param copies: an integer >= 0; it does not change the count.
        :raises ValueError: no such block, or ``copies`` is negative.
        :raises TypeError: not an integer.
        """
        cdef Guard guard
        cdef int64_t known = as_int64(copies, "copies")
        cdef int64_t value = self.as_block(block, guard)
        if known < 0:
            raise ValueError(f"copies={known}: must be at least 0")
        return self.kernel.access(value, known)

    def access_many(self, blocks, copies=None, /):
        """Use blocks one after the other: arrays (hits, admitted, evicted), one element per access.

        ``hits`` and ``admitted`` are bool arrays; ``evicted`` is int64, -1 where nothing gave way.

        :param blocks: one-dimensional array of n block ids.
        :param copies: ``None``, or one-dimensional array of n integers >= 0, as for ``access``.
        :raises ValueError: no such block, lengths differ or a number is negative; nothing has
            changed.
        :raises TypeError: an array does not hold integers.

        Same results as calls of ``access``. Long batches run without the GIL.
        """
        cdef Guard guard
        array = as_block_array(blocks, "blocks", self.block_count())
        numbers = as_int64_array(() if copies is None else copies, "copies", 0)
        if copies is not None and len(numbers) != len(array):
            raise ValueError(f"copies has {len(numbers)} elements, blocks has {len(array)}")
        check_range(numbers, 0, (1 << 63) - 1, "copies", 0)
        cdef Values batch = as_values(array)
        cdef Values known = as_values(numbers)
        cdef cnp.ndarray hits = new_bool_array(len(array))
        cdef cnp.ndarray admitted = new_bool_array(len(array))
        cdef cnp.ndarray evicted = new_int64_array(len(array))
        cdef uint8_t* hit = <uint8_t*> cnp.PyArray_DATA(hits)
        cdef uint8_t* taken = <uint8_t*> cnp.PyArray_DATA(admitted)
        cdef int64_t* gone = <int64_t*> cnp.PyArray_DATA(evicted)
        guard.lock(self.mutex)
        if batch.size() <= LONG_BATCH:
            self.kernel.access_many(batch, known, hit, taken, gone)
        else:
            guard.keep()
            with nogil:
                self.kernel.access_many(batch, known, hit, taken, gone)
        return hits, admitted, evicted

    def apply(self, blocks, changes, /):
        """Add signed changes to the counts of copies elsewhere; no block's recency changes.

        :param blocks: one-dimensional array of n block ids, cached or not.
        :param changes: one-dimensional array of n integers from -2**31 to 2**31.
        :raises ValueError: lengths differ or a value is out of range; nothing has changed.
        :raises TypeError: an array does not hold integers.

        What the directory answers for this worker: ``cache.apply(*deltas[worker])``. Counts stay
        within 32 bits. Cost: O(log64(capacity)) per change.
        """
        cdef Guard guard
        array = as_block_array(blocks, "blocks", self.block_count())
        steps = as_int64_array(changes, "changes", 0)
        if len(array) != len(steps):
            raise ValueError(f"blocks has {len(array)} elements, changes has {len(steps)}")
        check_range(steps, -(1 << 31), 1 << 31, "changes", 0)
        cdef Values block_span = as_values(array)
        cdef Values step_span = as_values(steps)
        guard.lock(self.mutex)
        if block_span.size() <= LONG_BATCH:
            self.kernel.apply(block_span, step_span)
            return
        guard.keep()
        with nogil:
            self.kernel.apply(block_span, step_span)

    def count(self, block, /):
        """The copies elsewhere that this worker believes in: the sum of the changes applied.

        :raises ValueError: no such block.
        """
        cdef Guard guard
        cdef int64_t value = self.as_block(block, guard)
        return self.kernel.count(value)

    def pin(self, block, /):
        """Keep a cached block from being evicted; a lease is given back. Again: no change.

        :raises KeyError: it is not cached.
        """
        cdef Guard guard
        self.kernel.pin(self.as_cached(block, guard))

    def unpin(self, block, /):
        """Allow a cached block to be evicted again; no change if it was not pinned.

        :raises KeyError: it is not cached.
        """
        cdef Guard guard
        self.kernel.unpin(self.as_cached(block, guard))

    def is_pinned(self, block, /):
        """Whether the block is cached and pinned."""
        cdef Guard guard
        cdef int64_t value = self.as_block(block, guard)
        return bool(self.kernel.is_pinned(value))

    def discard(self, block, /):
        """Drop a cached block of one's own will, lease or not; the next heartbeat reports it.

        Without a lease, holders that have one may be counting on this copy: to be safe, drop only
        what ``directory.lease`` grants, or what is not needed.

        :raises KeyError: it is not cached.
        :raises ValueError: it is pinned, or proposed and not yet answered; nothing has changed.
        """
        cdef Guard guard
        cdef int64_t value = self.as_cached(block, guard)
        if self.kernel.is_pinned(value):
            raise ValueError(f"block={value}: pinned")
        if self.kernel.state(value) == BLOCK_ASKED:
            raise ValueError(f"block={value}: proposed and not answered")
        self.kernel.discard(value)

    def victim(self):
        """The block that the next miss of a full cache evicts, or -1. Cost: O(max_count)."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.victim()

    def eviction_order(self):
        """Every cached block that is not pinned, least score first: int64 array.

        Leases are not looked at. Cost: O(n log n).
        """
        cdef Guard guard
        guard.lock(self.mutex)
        return as_array(self.kernel.eviction_order())

    def cached(self):
        """The cached blocks: int64 array, ascending. Cost: O(blocks)."""
        cdef Guard guard
        guard.lock(self.mutex)
        return as_array(self.kernel.cached())

    def propose(self, limit=1, /):
        """The next victims for which the directory is to be asked: int64 array, best first.

        At most ``limit`` blocks that are neither pinned, leased, asked for, nor refused or given
        back since the last heartbeat. Each has to be answered.

        :raises ValueError: the cache is not arbitrated, or ``limit`` is negative.
        """
        cdef Guard guard
        cdef int64_t most = as_bounded(limit, "limit", 0, 1 << 31)
        guard.lock(self.mutex)
        if not self.kernel.arbitrated():
            raise ValueError("arbitrated=False: this cache evicts without leases")
        return as_array(self.kernel.propose(most))

    def answer(self, blocks, granted, /):
        """Take the directory's answer to proposed blocks.

        A block that was refused is not proposed again before the next heartbeat. A lease that was
        not asked for is given back with the next heartbeat.

        :param blocks: one-dimensional array of n block ids.
        :param granted: one-dimensional bool array of n elements; all false if no answer came.
        :raises ValueError: not arbitrated, lengths differ, or no such block; nothing has changed.
        :raises TypeError: wrong element types.
        """
        cdef Guard guard
        array = as_block_array(blocks, "blocks", self.block_count())
        flags = as_bool_array(granted, "granted")
        if len(flags) != len(array):
            raise ValueError(f"granted has {len(flags)} elements, blocks has {len(array)}")
        guard.lock(self.mutex)
        if not self.kernel.arbitrated():
            raise ValueError("arbitrated=False: this cache evicts without leases")
        self.kernel.answer(
            as_values(array),
            ReplicaFlags(<const uint8_t*> cnp.PyArray_DATA(flags), <size_t> len(flags)),
        )

    def heartbeat(self):
        """What has changed since the last one: (added, removed, released, sequence).

        Three int64 arrays, ascending, and the number of the message, for
        ``directory.report(worker, *cache.heartbeat())``. It has to arrive: send it again, as it
        is, until it does, or send a ``full_report``.

        Cost: O(k log k) for k changed blocks.
        """
        cdef Guard guard
        guard.lock(self.mutex)
        cdef CacheHeartbeat beat = self.kernel.heartbeat()
        return (
            as_array(beat.added), as_array(beat.removed), as_array(beat.released),
            self.kernel.sequence(),
        )

    def full_report(self):
        """All that is cached, for joining: (held, sequence).

        Counts start from zero, leases, proposals and refusals are forgotten:
        ``directory.join(worker, *cache.full_report())``. Deltas and answers that were sent before
        must not be used any more. Cost: O(blocks).
        """
        cdef Guard guard
        guard.lock(self.mutex)
        held = as_array(self.kernel.full_report())
        return held, self.kernel.sequence()

    def copy(self):
        """An independent cache in the same state."""
        cdef Guard guard
        cdef ReplicaAwareCache other = ReplicaAwareCache.__new__(ReplicaAwareCache, 1, 0)
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        other.kernel.grow(other.kernel.blocks())
        return other

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases."""
        return self.saved(b"HCRC", 1)

    @classmethod
    def from_bytes(cls, data, /):
        """The cache whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCRC", 1, data)
        return restored(ReplicaAwareCache.__new__(ReplicaAwareCache, 1, 0), payload)

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
        return (
            f"ReplicaAwareCache({self.capacity}, {self.blocks}, alpha={self.alpha}, "
            f"beta={self.beta}, max_count={self.max_count}, arbitrated={self.arbitrated})"
        )
