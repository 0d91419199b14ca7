# distutils: language = c++
"""Bindings of the storage kernels: arguments are checked here once, all work is done in storage/*.cpp.

Each kernel has its part of this file below storage/.
"""

from hivecore._arguments import as_float
from hivecore._sealed import unseal

from libc.math cimport INFINITY

include "kernel_object.pxi"
include "reals.pxi"
include "storage/io_mode.pxi"
include "storage/allocation.pxi"
include "storage/knapsack.pxi"
include "storage/limiter.pxi"
