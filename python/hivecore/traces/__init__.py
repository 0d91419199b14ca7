"""Loads public traces, or generates traces, in a common column layout.

`load` reads the formats in `FORMATS`, such as "philly", "helios" and "csv", into a `Trace`: NumPy
arrays of job id, tenant, submission time, duration and GPU count. `generate` creates one.
`load_training` and `generate_training` do the same for jobs with iterations, `load_storage` and
`generate_storage` for jobs that read a dataset repeatedly; `with_datasets` adds datasets to other
traces. `generate_tenants` creates five tenants with all of these properties. `load_openb_nodes` and
`load_openb_pods` read nodes and pods that share GPUs; `generate_openb_nodes` and
`generate_openb_pods` create some.
"""

from hivecore.traces.errors import TraceFormatError
from hivecore.traces.formats import FORMATS, load
from hivecore.traces.openb import load_openb_nodes, load_openb_pods
from hivecore.traces.plain import save_csv
from hivecore.traces.shared_gpus import GpuNodes, GpuPods
from hivecore.traces.storage import StorageTrace, load_storage, save_storage
from hivecore.traces.synthetic import generate
from hivecore.traces.synthetic_openb import generate_openb_nodes, generate_openb_pods
from hivecore.traces.synthetic_storage import generate_storage, with_datasets
from hivecore.traces.synthetic_tenants import TenantsTrace, generate_tenants
from hivecore.traces.synthetic_training import generate_training
from hivecore.traces.trace import Trace
from hivecore.traces.training import TrainingTrace, load_training
from hivecore.traces.virtual_clusters import load_virtual_clusters

__all__ = [
    "FORMATS",
    "GpuNodes",
    "GpuPods",
    "StorageTrace",
    "TenantsTrace",
    "Trace",
    "TraceFormatError",
    "TrainingTrace",
    "generate",
    "generate_openb_nodes",
    "generate_openb_pods",
    "generate_storage",
    "generate_tenants",
    "generate_training",
    "load",
    "load_openb_nodes",
    "load_openb_pods",
    "load_storage",
    "load_training",
    "load_virtual_clusters",
    "save_csv",
    "save_storage",
    "with_datasets",
]
