"""How remote IO is divided where it is scarce; the simulator's binding includes it as well."""


cdef extern from "storage/allocation.hpp" namespace "hivecore::storage" nogil:
    cdef enum class IoMode:
        priority
        throughput
        maxmin_io
        maxmin_rate
        proportional


cdef dict _IO_MODES = {
    "priority": <int> IoMode.priority,
    "throughput": <int> IoMode.throughput,
    "maxmin_io": <int> IoMode.maxmin_io,
    "maxmin_rate": <int> IoMode.maxmin_rate,
    "proportional": <int> IoMode.proportional,
}
