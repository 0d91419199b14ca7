# distutils: language = c++
"""Bindings of the devices kernel: `hivecore.devices` turns names into its numbers and checks them.

Numbers are range-checked here where they index; all work is done in devices/*.cpp.
"""


from libc.stdint cimport int8_t, int32_t, uint32_t
from libcpp cimport bool as bool_t
from libcpp.memory cimport make_unique, unique_ptr

from hivecore._arguments import as_name, as_tuple

include "kernel_object.pxi"
include "devices/records.pxi"
include "devices/query.pxi"
include "devices/cluster.pxi"
