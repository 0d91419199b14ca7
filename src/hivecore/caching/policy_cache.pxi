"""Policies over dense ids: a live cache, and a whole trace at once."""

include "ids.pxi"

ctypedef span[const uint32_t] Trace


cdef extern from "caching/policies/policy.hpp" namespace "hivecore::caching::policies" nogil:
    cdef enum class PolicyKind:
        uniform
        lru
        fifo
        random
        lfu
        clock
        sieve
        s3fifo

    cdef cppclass PolicyRoom "hivecore::caching::policies::Room":
        uint64_t items
        int64_t capacity
        int64_t used
        vector[int64_t] sizes

    cdef cppclass Policy:
        bint access_one(uint32_t) noexcept
        bint contains(uint32_t) noexcept
        unique_ptr[Policy] copy() except +
        PolicyKind kind() noexcept
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept
        uint64_t count() noexcept
        const PolicyRoom& room() noexcept

    unique_ptr[Policy] load_policy "hivecore::caching::policies::Policy::load"(
        StateReader&
    ) except +
    unique_ptr[Policy] make_policy(PolicyKind, uint64_t, int64_t, Values, uint64_t) except +

    int64_t access_batch(Policy&, const Ids&, uint8_t*) noexcept
    bint take_ids(const Ids&, uint64_t, uint32_t*) noexcept

    enum: MOST_POLICY_ITEMS "hivecore::caching::policies::kMostItems"


cdef extern from "caching/policies/min.hpp" namespace "hivecore::caching::policies" nogil:
    uint64_t simulate_min(Trace, uint64_t, int64_t, Values, uint8_t*) except +


cdef enum:
    # A batch of more accesses than this takes about 20 microseconds: worth giving up the GIL for.
    LONG_POLICY_BATCH = 2048

_POLICIES = ("uniform", "lru", "fifo", "random", "lfu", "clock", "sieve", "s3fifo")
_MOST_USES = 1 << 53  # in floats, further ones could not be distinguished


cdef int64_t check_ids(cnp.ndarray ids, uint64_t limit, str name) except -2:
    """The largest id, -1 for none, or a ValueError that names the first outside [0, limit)."""
    cdef int64_t bad = -1
    cdef int64_t most
    cdef Ids view = view_of(ids)
    with nogil:
        most = largest_id(view, limit, bad)
    if bad >= 0:
        raise ValueError(f"{name}[{bad}]={ids[bad]}: allowed are 0 to {limit - 1}")
    return most


cdef object as_sizes(object sizes):
    """A private copy of the sizes, or None."""
    if sizes is None:
        return None
    array = as_int64_array(sizes, "sizes", 0)
    check_range(array, 0, 0x7FFFFFFFFFFFFFFF, "sizes", 0)
    if len(array) > MOST_POLICY_ITEMS:
        raise ValueError(f"sizes has {len(array)} elements, at most {MOST_POLICY_ITEMS} are allowed")
    return array


cdef PolicyKind policy_kind(str policy) except *:
    cdef int position = _POLICIES.index(policy)
    return <PolicyKind> position


cdef PolicyCache new_policy_cache(str policy, uint64_t items, int64_t capacity, sizes, uint64_t seed):
    """A cache of checked arguments, also of no items."""
    cdef PolicyCache cache = PolicyCache.__new__(PolicyCache, policy, 1, 1)
    cdef Values values
    if sizes is not None and items != 0:
        values = as_values(sizes)
    cache.kernel = make_policy(policy_kind(policy), items, capacity, values, seed)
    return cache


@cython.final
cdef class PolicyCache(KernelObject):
    """PolicyCache(policy, items, capacity, sizes=None, seed=0)\n--\n\nA cache over the items 0 to ``items`` - 1 that evicts by one of eight policies.

    A hit changes no content. A miss evicts until the item fits, and admits it; an item larger
    than the whole capacity is bypassed. The policies:

    - ``"uniform"`` admits while there is room and never evicts; what does not fit is bypassed.
    - ``"lru"`` evicts the least recently used item.
    - ``"fifo"`` evicts the item that was admitted first.
    - ``"random"`` evicts a resident drawn uniformly with a seeded generator (splitmix64).
    - ``"lfu"`` evicts the item with the fewest uses since it was admitted, of several the least
      recently used.
    - ``"clock"`` keeps a bit per resident, clear at admission, that a hit sets: the hand clears
      the bits that it passes and evicts the first item without (FIFO with reinsertion).
    - ``"sieve"`` keeps such a bit as well: its hand goes from the oldest item to the newest and
      starts again, and items keep their places (Zhang et al., NSDI'24).
    - ``"s3fifo"`` has a small queue of a tenth of the capacity (at least 1), a main queue and
      ghosts of nine tenths (rounded down). It is the variant of libCacheSim: a newcomer goes to
      small (while nothing was ever evicted and small has its share: to main), a ghost to main;
      from the end of small, items with two hits go to main and others leave as ghosts; from the
      end of main, items with hits go round again, one round per hit, at most three. Main gives
      way while it holds more than its share or small is empty (Yang et al., SOSP'23).

    :param policy: one of these names.
    :param items: number of items, 1 to 2**31 - 1.
    :param capacity: number of items that fit, or number of bytes if there are sizes; at least 1.
    :param sizes: int64 array, the bytes of each item, not negative; none: every item counts 1.
    :param seed: of ``"random"``, from 0 to 2**63 - 1; the others need none.
    :raises ValueError: a value is not allowed. :raises TypeError: it is of the wrong type.

    Deterministic. An access is O(1) (``lru``, ``clock``, ``sieve``, ``s3fifo``: amortised). Memory is
    one bit (uniform, fifo, random), one (clock, sieve) or four bytes per item (five: s3fifo), and 4
    (fifo, clock, random) to 40 bytes (lfu) per item that fits; sizes take 8 bytes per item, and all
    items may fit then. One object may be used by several threads: calls take turns.

    >>> cache = PolicyCache("lru", items=4, capacity=2)
    >>> cache.access([0, 1, 0, 2, 0, 1])      # 2 evicts 1
    2
    >>> cache.access(2), cache.access(0)
    (False, False)
    >>> cache.cached()
    array([0, 2])
    """

    cdef unique_ptr[Policy] kernel

    def __cinit__(self, policy, items, capacity, sizes=None, seed=0):
        if not isinstance(policy, str):
            raise TypeError(f"policy must be a string, not {type(policy).__name__}")
        if policy not in _POLICIES:
            hint = "; 'min' knows the future: see simulate" if policy == "min" else ""
            raise ValueError(f"policy={policy!r}: allowed are {', '.join(_POLICIES)}{hint}")
        cdef int64_t count = as_bounded(items, "items", 1, MOST_POLICY_ITEMS)
        cdef int64_t allowed = as_bounded(capacity, "capacity", 1, INT64_MAX)
        cdef int64_t start = as_bounded(seed, "seed", 0, INT64_MAX)
        cdef Values values
        array = as_sizes(sizes)
        if array is not None:
            if len(array) != count:
                raise ValueError(f"sizes has {len(array)} elements, items={count}")
            values = as_values(array)
        self.kernel = make_policy(policy_kind(policy), count, allowed, values, start)

    @property
    def policy(self):
        """The name of the policy."""
        return _POLICIES[<int> self.kernel.get().kind()]

    @property
    def items(self):
        """Number of items, resident or not."""
        return self.kernel.get().room().items

    @property
    def capacity(self):
        """What fits: items, or bytes if items have sizes."""
        return self.kernel.get().room().capacity

    @property
    def used(self):
        """What is taken of the capacity."""
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.get().room().used

    def __len__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return self.kernel.get().count()

    def __contains__(self, item):
        cdef Guard guard
        cdef int64_t identity = as_int64(item, "item")
        guard.lock(self.mutex)
        if not 0 <= identity < <int64_t> self.kernel.get().room().items:
            return False
        return self.kernel.get().contains(<uint32_t> identity)

    def access(self, ids, /, out=None):
        """Access one item, or many in their order.

        :param ids: an integer: answers whether it was a hit. Or a one-dimensional array of n
            integers: answers the number of hits. int64, int32 and uint32 arrays are not copied.
        :param out: optional bool array of length n, is filled with whether each was a hit.
        :raises ValueError: an id is not an item, or ``out`` does not fit; nothing has changed.
        :raises TypeError: the array does not hold integers.

        Long batches run without the GIL; no one may write to ``ids`` meanwhile.
        """
        cdef Guard guard
        cdef int64_t item = small_int(ids)
        cdef int64_t items = self.kernel.get().room().items
        if item >= 0 and out is None:
            if item >= items:
                raise ValueError(f"ids={item}: allowed are 0 to {items - 1}")
            guard.lock(self.mutex)
            return self.kernel.get().access_one(<uint32_t> item)
        return self.access_many(ids, out)

    cdef object access_many(self, object ids, object out):
        cdef Guard guard
        cdef int64_t item
        if isinstance(ids, (int, np.integer)) and not isinstance(ids, (bool, np.bool_)):
            if out is not None:
                raise TypeError("out is for arrays of ids")
            item = as_int64(ids, "ids")
            if not 0 <= item < <int64_t> self.kernel.get().room().items:
                raise ValueError(f"ids={item}: allowed are 0 to {self.items - 1}")
            guard.lock(self.mutex)
            return self.kernel.get().access_one(<uint32_t> item)
        array = as_ids(ids, "ids")
        check_ids(array, self.kernel.get().room().items, "ids")
        cdef uint8_t* mask = as_mask_of(out, array, "ids")
        cdef int64_t hits
        cdef Ids batch = view_of(array)
        guard.lock(self.mutex)
        if batch.size <= LONG_POLICY_BATCH:
            hits = access_batch(self.kernel.get()[0], batch, mask)
        else:
            guard.keep()
            with nogil:
                hits = access_batch(self.kernel.get()[0], batch, mask)
        if hits < 0:
            raise ValueError("ids: another thread has written to the array meanwhile")
        return hits

    def cached(self):
        """The items in the cache: int64 array, ascending. Cost: O(items)."""
        cdef Guard guard
        guard.lock(self.mutex)
        cdef Policy* kernel = self.kernel.get()
        cdef cnp.ndarray result = new_int64_array(kernel.count())
        cdef int64_t* target = <int64_t*> cnp.PyArray_DATA(result)
        cdef uint64_t item
        cdef uint64_t count = 0
        for item in range(kernel.room().items):
            if kernel.contains(<uint32_t> item):
                target[count] = item
                count += 1
        return result

    def copy(self):
        """An independent cache in the same state. Cost: O(items)."""
        cdef Guard guard
        cdef PolicyCache other = PolicyCache.__new__(PolicyCache, "uniform", 1, 1)
        guard.lock(self.mutex)
        other.kernel = self.kernel.get().copy()
        return other

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases."""
        return self.saved(b"HCPC", 1)

    @classmethod
    def from_bytes(cls, data, /):
        """The cache whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.
        """
        payload = unseal(b"HCPC", 1, data)
        return restored(PolicyCache.__new__(PolicyCache, "uniform", 1, 1), payload)

    cdef int write_state(self, StateWriter& writer) except -1:
        self.kernel.get().save(writer)
        return 0

    cdef int read_state(self, StateReader& reader) except -1:
        self.kernel = load_policy(reader)
        return 0

    cdef string find_fault(self) except * nogil:
        return self.kernel.get().audit()

    cdef uint64_t kernel_bytes(self) noexcept:
        return self.kernel.get().bytes()

    def __repr__(self):
        sizes = "" if self.kernel.get().room().sizes.empty() else ", sizes=..."
        return f"PolicyCache({self.policy!r}, items={self.items}, capacity={self.capacity}{sizes})"


def simulate(policy, trace, capacity, sizes=None, seed=0, out=None):
    """The number of hits of a policy on a trace, from an empty cache on.

    :param policy: a policy of `PolicyCache`, or ``"min"``: Belady's MIN with bypass, where of the
        residents and the accessed item that one leaves whose next use is farthest away. With
        items of one size no policy has more hits.
    :param trace: one-dimensional array of n ids (``"min"``: n below 2**32 - 1): integers, or
        strings, at most 2**31 - 1 different ones. With sizes: integers, as their positions. int64,
        int32 and uint32 arrays of ids from 0 on and below 8 n are not copied (``"min"``: are).
    :param capacity: number of items that fit, or number of bytes if there are sizes; at least 1.
    :param sizes: int64 array, the bytes of each item, not negative; none: every item counts 1.
    :param seed: of ``"random"``, from 0 to 2**63 - 1.
    :param out: optional bool array of length n, is filled with whether each access was a hit.
    :raises ValueError: a value is not allowed; ``out`` is as it was.
    :raises TypeError: an argument is of the wrong type.

    With sizes ``"min"`` is a heuristic (the optimum is NP-hard): residents that are used later
    than the newcomer leave, farthest next use first, if that makes room, else the newcomer is
    bypassed. Memory and costs are those of `PolicyCache`. Other ids than those from 0 to 8 n are
    hashed first: O(1) and 4 bytes per access, up to 96 bytes per different id. ``"min"`` takes
    O(log64(n)) per access, and 4 bytes for each access and item. Runs without the GIL, but for
    lists of strings; no one may write to ``trace`` meanwhile.

    >>> trace = [0, 1, 2, 0, 1, 2, 0, 1, 2]
    >>> {name: simulate(name, trace, 2) for name in ("lru", "uniform", "min")}
    {'lru': 0, 'uniform': 4, 'min': 4}
    >>> simulate("lru", ["a.jpg", "b.jpg", "a.jpg"], 2), simulate("lru", [2**60, -7, 2**60], 2)
    (1, 1)
    """
    if not isinstance(policy, str):
        raise TypeError(f"policy must be a string, not {type(policy).__name__}")
    if policy not in _POLICIES and policy != "min":
        raise ValueError(f"policy={policy!r}: allowed are {', '.join(_POLICIES)}, min")
    cdef cnp.ndarray ids = as_trace(trace) if sizes is None else as_ids(trace, "trace")
    cdef int64_t allowed = as_bounded(capacity, "capacity", 1, INT64_MAX)
    cdef int64_t start = as_bounded(seed, "seed", 0, INT64_MAX)
    cdef uint64_t items = 0
    array = as_sizes(sizes)
    if array is not None:
        items = len(array)
        if items == 0 and len(ids):
            raise ValueError("sizes has 0 elements, but trace is not empty")
        check_ids(ids, items, "trace")
    cdef uint8_t* mask = as_mask_of(out, ids, "trace")
    if array is None:
        ids = as_dense(ids, items)
    cdef int64_t hits
    if policy == "min":
        return min_hits(ids, items, allowed, array, mask)
    cdef PolicyCache cache = new_policy_cache(policy, items, allowed, array, start)
    cdef Ids view = view_of(ids)
    with nogil:
        hits = access_batch(cache.kernel.get()[0], view, mask)
    if hits < 0:
        raise ValueError("trace: another thread has written to the array meanwhile")
    return hits


cdef object min_hits(cnp.ndarray ids, uint64_t items, int64_t capacity, object sizes, uint8_t* mask):
    cdef size_t size = cnp.PyArray_SIZE(ids)
    if size >= 0xFFFFFFFF:
        raise ValueError(f"trace has {size} elements: allowed are less than 2**32 - 1")
    cdef cnp.ndarray copied = np.empty(size, dtype=np.uint32)
    cdef uint32_t* trace = <uint32_t*> cnp.PyArray_DATA(copied)
    cdef Ids view = view_of(ids)
    cdef bint sound
    cdef uint64_t hits = 0
    cdef Values values
    if sizes is not None:
        values = as_values(sizes)
    with nogil:
        sound = take_ids(view, items, trace)
        if sound:
            hits = simulate_min(Trace(trace, size), items, capacity, values, mask)
    if not sound:
        raise ValueError("trace: another thread has written to the array meanwhile")
    return hits
