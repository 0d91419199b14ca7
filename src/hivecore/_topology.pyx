# distutils: language = c++
"""Bindings of the topology kernel: `hivecore.topology` turns names into its numbers and checks them.

Numbers are range-checked here where they index; all work is done in topology/*.cpp.
"""

from libc.stdint cimport int8_t, int32_t
from libcpp cimport bool as bool_t
from libcpp.memory cimport make_shared, shared_ptr

include "kernel_object.pxi"
include "topology/network_topology.pxi"
