# distutils: language = c++
"""Bindings of the caching kernels: arguments are checked here once, all work is done in caching/*.cpp.

Each kernel has its part of this file below caching/.
"""

import operator
import struct

import numpy as np

from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError, InvariantError

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.span cimport span
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

cnp.import_array()

include "arguments.pxi"
include "caching/storage.pxi"
# include "caching/uniform.pxi"
include "caching/policies.pxi"
include "caching/replicas.pxi"
include "caching/replicas_cache.pxi"
include "caching/limiter.pxi"
