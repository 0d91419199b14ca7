# distutils: language = c++
"""Bindings of the quotas kernel: `hivecore.quotas` turns names into its numbers and checks them.

Numbers are range-checked here where they index; all work is done in quotas/*.cpp.
"""


from libc.stdint cimport int8_t, int32_t
from libcpp cimport bool as bool_t

include "kernel_object.pxi"
include "quotas/water_fill.pxi"
include "quotas/quota_tree.pxi"
