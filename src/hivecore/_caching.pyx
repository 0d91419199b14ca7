# distutils: language = c++
"""Bindings of the caching kernels: arguments are checked here once, all work is done in caching/*.cpp.

Each kernel has its part of this file below caching/.
"""

import json
from types import GenericAlias

from hivecore._arguments import as_float, as_mapping
from hivecore._sealed import unseal

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport INT64_MAX, int32_t, uint32_t
from libcpp.memory cimport unique_ptr

include "kernel_object.pxi"
include "caching/arguments.pxi"
include "caching/uniform_cache.pxi"
include "caching/uniform_mapping.pxi"
include "caching/policy_cache.pxi"
include "caching/epoch_shuffle.pxi"
include "caching/clairvoyant_cache.pxi"
