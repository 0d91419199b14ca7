"""What every object over a kernel has: turns, copies, saved states, an audit, its size."""


cdef extern from "common/state.hpp" namespace "hivecore" nogil:
    cdef cppclass StateWriter:
        StateWriter() except +
        string take() noexcept

    cdef cppclass StateReader:
        StateReader() noexcept
        StateReader(const char*, size_t) noexcept
        void end() except +


cdef class KernelObject:
    """Its methods are those of the class that is derived from it."""

    cdef ObjectMutex mutex

    cdef string find_fault(self) except * nogil:
        """What is wrong with the state; empty: nothing. It is this thread's turn."""
        return string()

    cdef uint64_t kernel_bytes(self) noexcept:
        """What the kernel takes."""
        return 0

    def check(self):
        """Audit every invariant of the state.

        :raises InvariantError: one is broken. Cost: O(size).
        """
        cdef Guard guard
        cdef string fault
        guard.lock(self.mutex)
        guard.keep()
        with nogil:
            fault = self.find_fault()
        if not fault.empty():
            raise InvariantError(fault.decode())

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        return type(self).from_bytes, (self.to_bytes(),)

    def __sizeof__(self):
        cdef Guard guard
        guard.lock(self.mutex)
        return object.__sizeof__(self) + self.kernel_bytes()


cdef StateReader reader_of(bytes payload):
    """Of bytes that outlive it."""
    return StateReader(PyBytes_AS_STRING(payload), <size_t> len(payload))


cdef bytes sealed(bytes magic, int version, StateWriter& writer):
    """What a kernel has written, in its envelope."""
    return seal(magic, version, <bytes> writer.take())
