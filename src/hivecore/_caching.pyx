# distutils: language = c++
"""Bindings of the caching kernels: arguments are checked here once, all work is done in caching/*.cpp.

Each kernel has its part of this file below caching/.
"""

import json
import operator
from types import GenericAlias

import numpy as np

from hivecore._arguments import as_float, as_mapping
from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError, InvariantError

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.span cimport span
from libcpp.string cimport string
from libcpp.vector cimport vector

cnp.import_array()

include "arguments.pxi"
include "mutex.pxi"
include "kernel_object.pxi"
include "checks.pxi"
include "caching/arguments.pxi"
include "caching/uniform_cache.pxi"
include "caching/uniform_mapping.pxi"
include "caching/policy_cache.pxi"
include "caching/epoch_shuffle.pxi"
include "caching/clairvoyant_cache.pxi"
