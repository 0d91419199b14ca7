"""What every object over a kernel has: turns, copies, saved states, an audit, its size."""

from hivecore._sealed import seal
from hivecore.errors import CorruptStateError, InvariantError

from cpython.bytes cimport PyBytes_AS_STRING

include "arguments.pxi"
include "mutex.pxi"
include "checks.pxi"


cdef extern from "common/state.hpp" namespace "hivecore" nogil:
    cdef cppclass StateWriter:
        StateWriter() except +
        void put_text(string) except +
        string take() noexcept

    cdef cppclass StateReader:
        StateReader() noexcept
        StateReader(const char*, size_t) noexcept
        string get_text() except +
        void end() except +


cdef extern from *:
    """
    #include <type_traits>

    // Another kernel, made of a saved state or of its like, in place of the one that is there.
    template <class Pointer, class Source>
    void replace_kernel(Pointer& kernel, Source& source) {
        Pointer replacement = new std::remove_pointer_t<Pointer>(source);
        delete kernel;
        kernel = replacement;
    }
    """
    void read_kernel "replace_kernel"[P](P&, StateReader&) except +
    void copy_kernel "replace_kernel"[P, K](P&, K&) except +


cdef class KernelObject:
    """Its methods are those of the class that is derived from it."""

    cdef ObjectMutex mutex

    cdef string find_fault(self) except * nogil:
        """What is wrong with the state; empty: nothing. It is this thread's turn."""
        return string()

    cdef uint64_t kernel_bytes(self) noexcept:
        """What the kernel takes."""
        return 0

    cdef int write_state(self, StateWriter& writer) except -1:
        """Write the state. It is this thread's turn."""
        raise NotImplementedError

    cdef int read_state(self, StateReader& reader) except -1:
        """Take over the state that is read; no other thread has seen this object yet."""
        raise NotImplementedError

    cdef bytes saved(self, bytes magic, int version):
        """The state in its envelope."""
        cdef Guard guard
        cdef StateWriter writer
        guard.lock(self.mutex)
        self.write_state(writer)
        guard.unlock()  # a new object may start a collection, whose finalizers may run any code
        return seal(magic, version, <bytes> writer.take())

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


cdef inline object restored(KernelObject target, bytes payload):
    """The object in the state that a payload describes, or a CorruptStateError."""
    cdef StateReader reader = StateReader(PyBytes_AS_STRING(payload), <size_t> len(payload))
    try:
        target.read_state(reader)
        reader.end()
    except ValueError as error:
        raise CorruptStateError(f"data: {error}") from None
    return target
