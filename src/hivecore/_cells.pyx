# distutils: language = c++
"""Bindings of the cell kernels: arguments are checked here once, all work is done in cells/*.cpp."""

from collections import namedtuple

from hivecore._sealed import unseal
from hivecore.errors import NoFreeCellError, NotAllocatedError, StaleDecisionError

from libc.stdint cimport INT64_MAX, int32_t, uint32_t

include "kernel_object.pxi"


cdef extern from "cells/shape.hpp" namespace "hivecore::cells" nogil:
    ctypedef uint32_t CellIndex

    cdef cppclass Shape:
        int levels
        CellIndex* fanout
        CellIndex* size
        CellIndex* leaves


ctypedef span[const CellIndex] Fanouts


cdef extern from "common/index_set.hpp" namespace "hivecore" nogil:
    cdef cppclass IndexSet:
        void copy_to(int64_t*) noexcept
        int64_t size() noexcept


cdef extern from "cells/buddy.hpp" namespace "hivecore::cells" nogil:
    cdef cppclass Buddy:
        Buddy(Fanouts, CellIndex) except +
        const Shape& shape() noexcept
        bint fits(int) noexcept
        bint is_allocated(int, CellIndex) noexcept
        bint is_free(int, CellIndex) noexcept
        const IndexSet& listed(int) noexcept
        CellIndex listed_count(int) noexcept
        int64_t allocate(int) noexcept
        bint allocate_at(int, CellIndex) noexcept
        int release(int, CellIndex) noexcept
        void allocate_many(Batch) noexcept
        int64_t first_bad_cell(Values, Values) noexcept
        int64_t release_many(Values, Values) noexcept
        void save(StateWriter&) except +
        string audit() except +
        uint64_t bytes() noexcept


# A batch of more elements than this takes about 20 microseconds: worth giving up the GIL for.
cdef enum:
    LONG_BATCH = 4096
    LONG_GANG = 64


@cython.final
cdef class Mutex:
    """A reentrant lock for the wrappers' objects, that costs less than RLock and serves in turns.

    A thread that releases it and takes it again at once keeps it for about a millisecond, while
    others wait: an RLock would change threads at every call.
    """

    cdef ObjectMutex mutex

    def __enter__(self):
        self.mutex.acquire()

    def __exit__(self, kind, error, trace, /):
        if not self.mutex.is_mine():
            raise RuntimeError("this thread is not within it")
        self.mutex.release()


@cython.final
cdef class BuddyAllocator(KernelObject):
    """BuddyAllocator(fanouts, roots)\n--\n\nThe free lists of one cell chain: allocates cells of any level by splitting and merging.

    A chain is a forest of ``roots`` equal trees. Level 1 is the leaf (a GPU); a level-(i+2) cell
    consists of ``fanouts[i]`` level-(i+1) cells. Cells of a level are numbered from left to
    right, so the leaves of cell ``i`` of a level with ``n`` leaves per cell are ``i*n`` to
    ``i*n + n - 1``. A free list is canonical: it holds a cell if that is free and its parent
    is not.

    :param fanouts: sequence of at most 15 integers >= 1.
    :param roots: number of cells of the highest level, >= 1; at most 2**31 leaves in all.
    :raises ValueError: the shape is not allowed.
    :raises TypeError: an argument is not made of integers.

    Deterministic: ties break by lowest index. Every call is O(levels) and one machine word per
    64 buddies that it splits or merges, unless it says otherwise. Memory is 2 bits per cell over
    all levels, about half a byte per leaf for fan-outs of two. One object may be used by several
    threads: calls take turns. Source: HiveD (OSDI'20), Algorithm 1.

    >>> chain = BuddyAllocator([2, 2, 2], roots=2)   # GPU, pair, quad, node: two nodes of 8 GPUs
    >>> chain.allocate(1)                            # splits node 0 down to GPU 0
    0
    >>> chain.allocate(3)                            # the other half of node 0
    1
    >>> chain.free_counts()                          # GPU 1, pair 1 and node 1 are left
    array([1, 1, 0, 1])
    >>> chain.release(1, 0)                          # merges up to quad 0
    >>> chain.free_counts()
    array([0, 0, 1, 1])
    """

    cdef Buddy* kernel

    def __cinit__(self, fanouts, roots):
        cdef vector[CellIndex] shape
        cdef int64_t value
        try:
            entries = list(fanouts)
        except TypeError:
            raise TypeError(
                f"fanouts must be a sequence of integers, not {type(fanouts).__name__}"
            ) from None
        for position, entry in enumerate(entries):
            value = as_int64(entry, f"fanouts[{position}]")
            if not 1 <= value <= 1 << 31:
                raise ValueError(f"fanouts[{position}]={value}: allowed are 1 to 2**31")
            shape.push_back(<CellIndex> value)
        value = as_int64(roots, "roots")
        if not 1 <= value <= 1 << 31:
            raise ValueError(f"roots={value}: allowed are 1 to 2**31")
        self.kernel = new Buddy(Fanouts(shape.data(), shape.size()), <CellIndex> value)

    def __dealloc__(self):
        del self.kernel

    cdef inline int as_level(self, object level) except -1:
        """The kernel's level, from 0, for a user's level, from 1."""
        cdef int64_t value = as_int64(level, "level")
        if not 1 <= value <= self.kernel.shape().levels:
            raise ValueError(
                f"level={value}: levels run from 1 (leaf) to {self.kernel.shape().levels}"
            )
        return <int> value - 1

    cdef inline CellIndex as_cell(self, int level, object index) except? 0xFFFFFFFF:
        cdef int64_t value = as_int64(index, "index")
        if not 0 <= value < self.kernel.shape().size[level]:
            raise ValueError(
                f"index={value}: cells of level {level + 1} run from 0 to "
                f"{self.kernel.shape().size[level] - 1}"
            )
        return <CellIndex> value

    cdef tuple fanout_tuple(self):
        return tuple([self.kernel.shape().fanout[i] for i in range(self.kernel.shape().levels - 1)])

    @property
    def levels(self):
        """Number of levels; 1 is the leaf, this one the roots."""
        return self.kernel.shape().levels

    @property
    def fanouts(self):
        """The fan-outs as a tuple of ``levels - 1`` integers."""
        return self.fanout_tuple()

    @property
    def roots(self):
        """Number of cells of the highest level."""
        return self.kernel.shape().size[self.kernel.shape().levels - 1]

    def fits(self, level, /):
        """Whether ``allocate(level)`` would find a cell.

        :raises ValueError: no such level. Cost: O(1).
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        guard.lock(self.mutex)
        return self.kernel.fits(row)

    def is_free(self, level, index, /):
        """Whether every leaf of this cell is free.

        :raises ValueError: no such level or cell.
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        cdef CellIndex cell = self.as_cell(row, index)
        guard.lock(self.mutex)
        return self.kernel.is_free(row, cell)

    def is_allocated(self, level, index, /):
        """Whether this very cell is allocated (not merely a part of it, or a cell around it).

        :raises ValueError: no such level or cell. Cost: O(1).
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        cdef CellIndex cell = self.as_cell(row, index)
        guard.lock(self.mutex)
        return self.kernel.is_allocated(row, cell)

    def free_cells(self, level, /):
        """The listed free cells of a level: int64 array of indices, ascending.

        Free cells whose parent is free as well are not listed.

        :raises ValueError: no such level. Cost: O(cells of the level / 64 + result).
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        cdef vector[int64_t] cells
        guard.lock(self.mutex)
        cells.resize(self.kernel.listed_count(row))
        self.kernel.listed(row).copy_to(cells.data())
        return as_array(cells)

    def free_counts(self):
        """How many free cells each level lists: int64 array of length ``levels``, leaf first."""
        cdef Guard guard
        cdef cnp.ndarray result = new_int64_array(self.kernel.shape().levels)
        guard.lock(self.mutex)
        for row in range(self.kernel.shape().levels):
            (<int64_t*> cnp.PyArray_DATA(result))[row] = self.kernel.listed_count(row)
        return result

    def allocate(self, level, /):
        """Take a free cell of this level and return its index.

        It is cut from the lowest free cell of the lowest level that has one.

        :raises NoFreeCellError: no level from this one up has a free cell.
        :raises ValueError: no such level.
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        guard.lock(self.mutex)
        cdef int64_t cell = self.kernel.allocate(row)
        if cell < 0:
            raise NoFreeCellError(f"level={level}: no free cell at this level or above")
        return cell

    def allocate_at(self, level, index, /):
        """Take this very cell, splitting the free cell that it lies in around it.

        For pinned cells and for recovery.

        :raises NoFreeCellError: some part of the cell is taken.
        :raises ValueError: no such level or cell.
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        cdef CellIndex cell = self.as_cell(row, index)
        guard.lock(self.mutex)
        if not self.kernel.allocate_at(row, cell):
            raise NoFreeCellError(f"level={level}, index={index}: the cell is not wholly free")

    def release(self, level, index, /):
        """Put an allocated cell back and merge it with its buddies where all of them are free.

        :raises NotAllocatedError: this is not an allocated cell; nothing has changed.
        :raises ValueError: no such level or cell.
        """
        cdef Guard guard
        cdef int row = self.as_level(level)
        cdef CellIndex cell = self.as_cell(row, index)
        guard.lock(self.mutex)
        if self.kernel.release(row, cell) < 0:
            raise NotAllocatedError(f"level={level}, index={index}: not an allocated cell")

    def allocate_many(self, levels, /):
        """Allocate one cell after the other: int64 array of their indices, -1 where none was free.

        :param levels: one-dimensional array of n integers, each from 1 to ``self.levels``.
        :raises ValueError: a level is out of range; nothing has been allocated.
        :raises TypeError: the array does not hold integers.

        Same results as n calls of ``allocate``. Long batches run without the GIL.

        >>> BuddyAllocator([2, 2], roots=1).allocate_many([1, 2, 2, 1])
        array([ 0,  1, -1,  1])
        """
        cdef Guard guard
        cells = as_int64_array(levels, "levels", -1)
        check_range(cells, 0, self.kernel.shape().levels - 1, "levels", -1)
        cdef Batch batch = as_batch(cells)
        guard.lock(self.mutex)
        if batch.size() <= LONG_BATCH:
            self.kernel.allocate_many(batch)
            return cells
        guard.keep()
        with nogil:
            self.kernel.allocate_many(batch)
        return cells

    def release_many(self, levels, indices, /):
        """Release n cells, all or nothing.

        :param levels: one-dimensional array of n integers, each from 1 to ``self.levels``.
        :param indices: one-dimensional array of the n cells' indices.
        :raises NotAllocatedError: one is not allocated, or is named twice; nothing has changed.
        :raises ValueError: lengths differ, or no such level or cell; nothing has changed.
        :raises TypeError: an array does not hold integers.
        """
        cdef Guard guard
        rows = as_int64_array(levels, "levels", -1)
        cells = as_int64_array(indices, "indices", 0)
        if len(rows) != len(cells):
            raise ValueError(f"levels has {len(rows)} elements, indices has {len(cells)}")
        check_range(rows, 0, self.kernel.shape().levels - 1, "levels", -1)
        cdef Values row_span = as_values(rows)
        cdef Values cell_span = as_values(cells)
        cdef int64_t position = self.kernel.first_bad_cell(row_span, cell_span)
        if position >= 0:
            raise ValueError(
                f"indices[{position}]={cells[position]}: cells of level {rows[position] + 1} run "
                f"from 0 to {self.kernel.shape().size[<int> rows[position]] - 1}"
            )
        guard.lock(self.mutex)
        if row_span.size() <= LONG_BATCH:
            position = self.kernel.release_many(row_span, cell_span)
        else:
            guard.keep()
            with nogil:
                position = self.kernel.release_many(row_span, cell_span)
        if position >= 0:
            raise NotAllocatedError(
                f"levels[{position}]={rows[position] + 1}, indices[{position}]={cells[position]}: "
                "not an allocated cell"
            )

    def copy(self):
        """An independent allocator in the same state. Cost: O(cells / 64)."""
        cdef Guard guard
        cdef BuddyAllocator other = BuddyAllocator.__new__(BuddyAllocator, (), 1)
        guard.lock(self.mutex)
        copy_kernel(other.kernel, self.kernel[0])
        return other

    def to_bytes(self):
        """The state as bytes, for ``from_bytes`` of this and later releases.

        Holds the shape and one bit per cell; the free lists follow from the allocated cells.
        """
        return self.saved(b"HCBA", 1)

    @classmethod
    def from_bytes(cls, data, /):
        """The allocator whose ``to_bytes`` gave these bytes.

        :raises CorruptStateError: they are damaged, or describe no possible state.
        :raises TypeError: ``data`` is not bytes.

        Cost: O(cells / 64 + allocated cells * levels).
        """
        payload = unseal(b"HCBA", 1, data)
        return restored(BuddyAllocator.__new__(BuddyAllocator, (), 1), payload)

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
        return f"BuddyAllocator({list(self.fanouts)}, roots={self.roots})"

include "cells/group_kernel.pxi"
include "cells/group_plan.pxi"
include "cells/name_table.pxi"
include "cells/pod_names.pxi"
include "cells/group_scheduler.pxi"
include "cells/named_groups.pxi"
