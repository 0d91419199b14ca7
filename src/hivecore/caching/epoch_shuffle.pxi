"""Shuffles of a dataset, one per epoch."""


cdef extern from "caching/epoch_shuffle.hpp" namespace "hivecore::caching::policies" nogil:
    cdef cppclass Permutation:
        Permutation() noexcept
        Permutation(uint64_t, uint64_t, uint32_t) noexcept
        uint32_t item(uint32_t) noexcept
        uint32_t position(uint32_t) noexcept
        void order(span[uint32_t]) except +


@cython.final
cdef class EpochShuffle:
    """EpochShuffle(seed, items)\n--\n\nSeeded permutations of the items 0 to ``items`` - 1, one per epoch, that can be inverted.

    Which item stands at a position of an epoch, and at which position an item stands, is computed
    in O(1) without the permutation being stored: 8 rounds of a Feistel network over a grid of
    about sqrt(items) by sqrt(items), repeated while the result is no item (Black and Rogaway,
    2002). Up to 16 items are shuffled outright. Epochs are independent of each other.

    :param seed: 0 to 2**63 - 1.
    :param items: number of items, 1 to 2**31 - 1.
    :raises ValueError: a value is out of range. :raises TypeError: it is not an integer.

    The same on every platform. Immutable. For statistics and simulations, not for secrets.

    >>> shuffle = EpochShuffle(seed=7, items=20)
    >>> order = shuffle.order(0)
    >>> sorted(order.tolist()) == list(range(20))
    True
    >>> bool(shuffle.item(0, 5) == order[5]), shuffle.position(0, order[5])
    (True, 5)
    """

    cdef readonly int64_t seed
    """The seed."""
    cdef readonly int64_t items
    """The number of items."""

    def __cinit__(self, seed, items):
        self.seed = as_bounded(seed, "seed", 0, INT64_MAX)
        self.items = as_bounded(items, "items", 1, MOST_POLICY_ITEMS)

    cdef Permutation permutation(self, object epoch) except *:
        cdef int64_t number = as_int64(epoch, "epoch")
        if not 0 <= number <= _MOST_USES:
            raise ValueError(f"epoch={number}: allowed are 0 to 2**53")
        return Permutation(self.seed, number, <uint32_t> self.items)

    def order(self, epoch, /):
        """The items of an epoch in order: uint32 array. Cost: O(items), without the GIL.

        :raises ValueError: the epoch is negative or above 2**53.
        """
        cdef Permutation permutation = self.permutation(epoch)
        cdef cnp.ndarray result = np.empty(self.items, dtype=np.uint32)
        cdef span[uint32_t] target = span[uint32_t](
            <uint32_t*> cnp.PyArray_DATA(result), <size_t> self.items
        )
        with nogil:
            permutation.order(target)
        return result

    def item(self, epoch, position, /):
        """The item at a position of an epoch, or for an array of positions an int64 array of items.

        :raises ValueError: epoch or position is out of range. Cost: O(1) each.
        """
        return self.apply(epoch, position, "position", False)

    def position(self, epoch, item, /):
        """The position of an item in an epoch, or for an array of items an int64 array of positions.

        :raises ValueError: epoch or item is out of range. Cost: O(1) each.
        """
        return self.apply(epoch, item, "item", True)

    cdef object apply(self, object epoch, object values, str name, bint inverse):
        cdef Permutation permutation = self.permutation(epoch)
        cdef int64_t value
        if small_int(values) >= 0 or np.ndim(values) == 0:
            value = as_bounded(values, name, 0, self.items - 1)
            return (
                permutation.position(<uint32_t> value) if inverse
                else permutation.item(<uint32_t> value)
            )
        array = as_ids_below(values, name, self.items)
        cdef Batch batch = as_batch(array)
        cdef size_t i
        with nogil:
            for i in range(batch.size()):
                batch[i] = (
                    permutation.position(<uint32_t> batch[i]) if inverse
                    else permutation.item(<uint32_t> batch[i])
                )
        return array

    def __eq__(self, other):
        if not isinstance(other, EpochShuffle):
            return NotImplemented
        return self.seed == other.seed and self.items == other.items

    def __hash__(self):
        return hash((EpochShuffle, self.seed, self.items))

    def __reduce__(self):
        return EpochShuffle, (self.seed, self.items)

    def __repr__(self):
        return f"EpochShuffle(seed={self.seed}, items={self.items})"
