# distutils: language = c++
"""Bindings of the replicas kernels: arguments are checked here once, all work is done in replicas/*.cpp.

Each kernel has its part of this file below replicas/.
"""

from hivecore._sealed import unseal
from hivecore.errors import FullReportNeededError

include "kernel_object.pxi"
include "replicas/directory.pxi"
include "replicas/cache.pxi"
