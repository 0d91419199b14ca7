"""The store of `hivecore.caching.UniformMapping`: one dict.

Where all sizes are 1 the dict holds the values themselves and its length is the accounting. Else
it holds entries, each a value and its size.

A key's __hash__ and __eq__, getsizeof and the end of a replaced value may run any code, and that
may use this very mapping. So every change is one operation of the dict, which tells what it did,
and the accounting follows at once from that: `total` is the sum of the entries' sizes whenever
such code runs. What was decided before it ran is looked at again afterwards. The dict itself is
never replaced: what is borrowed from it lives as long as it is in there, which it is until then.
"""


@cython.final
@cython.freelist(64)
cdef class _MappingEntry:
    cdef object value
    cdef int64_t size


cdef object NOTHING = object()


cdef class MappingStore:
    """What `hivecore.caching.UniformMapping` does in native code."""

    cdef dict entries
    cdef object sizer
    cdef bint counts  # all sizes are 1
    cdef bint own_getsizeof  # a subclass has its own
    cdef readonly int64_t maxsize
    """The most that ``currsize`` can be."""
    cdef int64_t total

    def __cinit__(self, *arguments, **more):
        self.entries = {}
        self.counts = True

    def __init__(self, maxsize, getsizeof=None):
        cdef int64_t most = as_bounded(maxsize, "maxsize", 1, MOST_BYTES)
        if getsizeof is not None and not callable(getsizeof):
            raise TypeError(f"getsizeof must be callable, not {type(getsizeof).__name__}")
        cdef bint own = type(self).getsizeof is not MappingStore.getsizeof
        self.clear()
        if self.entries:  # the end of a value put it there: it would not be an entry, or be one
            raise RuntimeError("the mapping was used while it was being cleared")
        self.maxsize = most
        self.sizer = getsizeof
        self.own_getsizeof = own
        self.counts = getsizeof is None and not own

    @property
    @cython.critical_section
    def currsize(self):
        """The sum of the sizes of the kept values."""
        return len(self.entries) if self.counts else self.total

    @classmethod
    def __class_getitem__(cls, types, /):
        return GenericAlias(cls, types)

    def getsizeof(self, value, /):
        """The size of a value: what the function of this name gives, 1 without one."""
        return 1 if self.sizer is None else self.sizer(value)

    @cython.final
    cdef int64_t size_of(self, object value) except -1:
        cdef int64_t size
        if self.own_getsizeof:
            size = as_int64(self.getsizeof(value), "getsizeof")
        else:
            size = as_int64(self.sizer(value), "getsizeof")
        if size < 0:
            raise ValueError(f"getsizeof={size}: must not be negative")
        return size

    @cython.final
    cdef inline PyObject* find(self, object key) except? NULL:
        """The value of a key, borrowed, or NULL."""
        cdef PyObject* kept = PyDict_GetItemWithError(self.entries, key)
        if kept == NULL or self.counts:
            return kept
        return <PyObject*> (<_MappingEntry> kept).value

    @cython.final
    cdef object drop(self, object key):
        """The value that was there, or NOTHING."""
        cdef object dropped = self.entries.pop(key, NOTHING)
        if dropped is NOTHING or self.counts:
            return dropped
        self.total -= (<_MappingEntry> dropped).size
        return (<_MappingEntry> dropped).value

    @cython.final
    cdef int keep(self, object key, object value) except -1:
        """Store a value if it fits."""
        if not self.counts:
            self.keep_sized(key, value, self.size_of(value))
        elif len(self.entries) < self.maxsize:
            self.entries[key] = value
            if len(self.entries) > self.maxsize:
                self.drop(key)
        elif PyDict_GetItemWithError(self.entries, key) != NULL:
            self.entries[key] = value
            if len(self.entries) > self.maxsize:
                self.drop(key)
        return 0

    @cython.final
    cdef object keep_sized(self, object key, object value, int64_t size):
        cdef PyObject* kept = PyDict_GetItemWithError(self.entries, key)
        cdef _MappingEntry fresh
        if kept != NULL:
            return self.replace(key, <_MappingEntry> kept, value, size)
        if size > self.maxsize - self.total:
            return None
        fresh = _MappingEntry.__new__(_MappingEntry)
        fresh.value = value
        fresh.size = size
        entry = self.entries.setdefault(key, fresh)
        if entry is not fresh:
            return self.replace(key, <_MappingEntry> entry, value, size)
        self.total += size
        if self.total > self.maxsize:
            self.drop(key)
        return None

    @cython.final
    cdef object replace(self, object key, _MappingEntry entry, object value, int64_t size):
        """Put another value into an entry that is in the dict; answer the old one.

        The caller lets go of that last, when its end may run any code.
        """
        cdef object old = entry.value
        if size <= self.maxsize - (self.total - entry.size):
            self.total += size - entry.size
            entry.size = size
            entry.value = value
        else:
            self.drop(key)
        return old

    @cython.critical_section
    def __getitem__(self, key):
        cdef PyObject* kept = self.find(key)
        if kept == NULL:
            raise KeyError(key)
        return <object> kept

    @cython.critical_section
    def __setitem__(self, key, value):
        self.keep(key, value)

    @cython.critical_section
    def __delitem__(self, key):
        if self.drop(key) is NOTHING:
            raise KeyError(key)

    @cython.critical_section
    def __contains__(self, key):
        return self.find(key) != NULL

    def __len__(self):
        return len(self.entries)

    def __iter__(self):
        return iter(self.entries)

    @cython.critical_section
    def get(self, key, default=None, /):
        """The value of a key, or the default."""
        cdef PyObject* kept = self.find(key)
        return default if kept == NULL else <object> kept

    @cython.critical_section
    def setdefault(self, key, default=None, /):
        """The value of a key; where there is none the default, which is kept if it fits."""
        cdef PyObject* kept = self.find(key)
        if kept != NULL:
            return <object> kept
        self.keep(key, default)
        return default

    @cython.critical_section
    def pop(self, key, default=NOTHING, /):
        """Remove a key and return its value, or the default if one is given.

        :raises KeyError: there is no such key and no default.
        """
        value = self.drop(key)
        if value is not NOTHING:
            return value
        if default is NOTHING:
            raise KeyError(key)
        return default

    @cython.critical_section
    def clear(self):
        """Remove all."""
        self.total = 0  # first: the end of a value may run any code
        self.entries.clear()

    @cython.critical_section
    def _state(self):
        cdef list kept = list(self.entries.items())
        if self.counts:
            entries = [(key, value, 1) for key, value in kept]
        else:
            entries = [
                (key, (<_MappingEntry> entry).value, (<_MappingEntry> entry).size)
                for key, entry in kept
            ]
        return self.maxsize, self.sizer, entries

    def _restore(self, maxsize, getsizeof, entries, /):
        MappingStore.__init__(self, maxsize, getsizeof)
        for key, value, size in entries:
            size = as_bounded(size, "size", 0, MOST_BYTES)
            if self.counts:
                self.keep(key, value)
            else:
                self.keep_sized(key, value, size)

    @cython.critical_section
    def check(self):
        """Audit the accounting.

        :raises InvariantError: it is inconsistent; never the caller's fault. Cost: O(keys).
        """
        cdef int64_t kept = len(self.entries)
        if not self.counts:
            kept = 0
            for entry in self.entries.values():
                kept += (<_MappingEntry> entry).size
        if kept > self.maxsize or not (self.counts or kept == self.total):
            raise InvariantError(f"the sizes sum up to {kept}, not {self.total}: of {self.maxsize}")

    def __sizeof__(self):
        """Bytes of memory, without the keys and values themselves."""
        each = 0 if self.counts else _MappingEntry.__basicsize__
        return object.__sizeof__(self) + dict.__sizeof__(self.entries) + len(self.entries) * each
