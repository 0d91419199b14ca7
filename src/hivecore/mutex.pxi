"""How the threads that use one object take turns; see mutex.hpp. A method that needs its turn reads

    cdef Guard guard
    ...                       # conversions of arguments, which may run a user's code
    guard.lock(self.mutex)
    ...                       # the kernel
    guard.keep()              # only before it gives up the GIL
"""


cdef extern from "mutex.hpp" namespace "hivecore":
    cdef cppclass ObjectMutex "hivecore::Mutex":
        void acquire() noexcept
        void release() noexcept
        bint is_mine() noexcept

    cdef cppclass Guard:
        void lock(ObjectMutex&) noexcept
        void keep() noexcept
        void unlock() noexcept
