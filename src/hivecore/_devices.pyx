# distutils: language = c++
"""Bindings of the devices kernel: `hivecore.devices` turns names into its numbers and checks them.

Numbers are range-checked here where they index; all work is done in devices/*.cpp.
"""

import operator
from types import MemberDescriptorType

import numpy as np

from hivecore._sealed import seal
from hivecore.errors import CorruptStateError, InvariantError

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as bool_t
from libcpp.memory cimport make_unique, unique_ptr
from libcpp.span cimport span
from libcpp.string cimport string
from libcpp.vector cimport vector

cnp.import_array()

include "arguments.pxi"
include "mutex.pxi"
include "kernel_object.pxi"
include "checks.pxi"
include "maker.pxi"
include "devices/records.pxi"
include "devices/query.pxi"
include "devices/cluster.pxi"
