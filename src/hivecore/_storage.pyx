# distutils: language = c++
"""Bindings of the storage kernels: arguments are checked here once, all work is done in storage/*.cpp.

Each kernel has its part of this file below storage/.
"""

import operator

import numpy as np

from hivecore._arguments import as_float
from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError, InvariantError

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from libcpp.span cimport span
from libcpp.string cimport string
from libcpp.vector cimport vector

cnp.import_array()

include "arguments.pxi"
include "mutex.pxi"
include "kernel_object.pxi"
include "checks.pxi"
include "reals.pxi"
include "storage/io_mode.pxi"
include "storage/allocation.pxi"
include "storage/knapsack.pxi"
include "storage/limiter.pxi"
