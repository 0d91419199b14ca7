"""Alibaba's openb cluster (2023): its GPU nodes, and lists of pods that share GPUs.

Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Pods: `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and
in most lists `gpu_spec`, the models that the pod can run on with `|` between them, as in
`V100M16|V100M32`, and `creation_time` and `deletion_time` in seconds.
Source: alibaba/clusterdata, cluster-trace-gpu-v2023, also in
hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0), the simulator of FGD (USENIX ATC'23).
"""

from pathlib import Path

import numpy as np

from hivecore.traces._table import (
    COUNT,
    MOMENT,
    NAME,
    Column,
    Kind,
    line_of,
    read_columns,
    read_header,
    read_text,
)
from hivecore.traces.errors import TraceFormatError
from hivecore.traces.shared_gpus import MILLI, GpuNodes, GpuPods

__all__ = ["load_openb_nodes", "load_openb_pods"]


def _models(cells: list[str]) -> Column:
    values = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        models = [model.strip() for model in cell.split("|")] if cell.strip() else []
        if not all(models):
            raise ValueError
        values[row] = frozenset(models)
    return values


def _text(cells: list[str]) -> Column:
    return np.array([cell.strip() for cell in cells], dtype=object)


_MODELS = Kind("nothing, a model, or models with '|' between them", _models)
_TEXT = Kind("text", _text)


def _up_to(most: int) -> Kind:
    def convert(cells: list[str]) -> Column:
        values = COUNT.convert(cells)
        if (values > most).any():
            raise ValueError
        return values

    return Kind(f"a whole number from 0 to {most}", convert)


# The limits of device clusters, and of the devices of a type on a node.
_CPU, _MEMORY, _GPUS = _up_to(2**48), _up_to(2**28), _up_to(256)
_MILLI = _up_to(MILLI)

_NODE_KINDS = {"sn": NAME, "cpu_milli": _CPU, "memory_mib": _MEMORY, "gpu": _GPUS, "model": _TEXT}
_POD_KINDS = {
    "name": NAME,
    "cpu_milli": _CPU,
    "memory_mib": _MEMORY,
    "num_gpu": _GPUS,
    "gpu_milli": _MILLI,
}
_OPTIONAL = {"gpu_spec": _MODELS, "creation_time": MOMENT, "deletion_time": MOMENT}


def load_openb_nodes(path: str | Path) -> GpuNodes:
    r"""Return the nodes of one file, in its order.

    :param path: such as `openb_node_list_gpu_node.csv`; unpacked if the name ends in .gz.
    :raises OSError: the file cannot be read.
    :raises TraceFormatError: a file that does not follow its format, with its line and field.

    Cost: O(nodes).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "nodes.csv"
    ...     _ = file.write_text("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100")
    ...     nodes = load_openb_nodes(file)
    >>> nodes.gpus.tolist(), nodes.model.tolist()
    ([2], ['P100'])
    """
    file = Path(path)
    columns = read_columns(file, _NODE_KINDS)
    _check_distinct(columns["sn"], file, "sn")
    return GpuNodes(
        name=columns["sn"].astype(np.str_),
        cpu_milli=columns["cpu_milli"],
        memory_mib=columns["memory_mib"],
        gpus=columns["gpu"],
        model=columns["model"].astype(np.str_),
    )


def load_openb_pods(path: str | Path) -> GpuPods:
    r"""Return the pods of one file, in its order.

    :param path: such as `openb_pod_list_default.csv`; unpacked if the name ends in .gz.
    :raises OSError: the file cannot be read.
    :raises TraceFormatError: a file that does not follow its format, with its line and field.

    Columns that some of the lists lack may be missing: without `gpu_spec` a pod runs on all models,
    without times they are ``None``. A time that is empty or says "None" or the like is nan. Cost:
    O(pods).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pods.csv"
    ...     header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    ...     _ = file.write_text(f"{header}\na,6000,12288,1,460,V100M16|V100M32")
    ...     pods = load_openb_pods(file)
    >>> pods.gpu_milli.tolist(), sorted(pods.models[0])
    ([460], ['V100M16', 'V100M32'])
    """
    file = Path(path)
    header = read_header(file)
    kinds = _POD_KINDS | {name: kind for name, kind in _OPTIONAL.items() if name in header}
    columns = read_columns(file, kinds)
    _check_distinct(columns["name"], file, "name")
    faulty = (columns["gpu_milli"] == 0) != (columns["num_gpu"] == 0)
    if faulty.any():
        row = int(faulty.argmax())
        problem = f"{columns['gpu_milli'][row]} with num_gpu {columns['num_gpu'][row]}"
        raise TraceFormatError(problem, file, line_of(read_text(file), row), "gpu_milli")
    pods = len(columns["name"])
    return GpuPods(
        name=columns["name"].astype(np.str_),
        cpu_milli=columns["cpu_milli"],
        memory_mib=columns["memory_mib"],
        gpus=columns["num_gpu"],
        gpu_milli=columns["gpu_milli"],
        models=tuple(columns.get("gpu_spec", [frozenset()] * pods)),
        created=columns.get("creation_time"),
        deleted=columns.get("deletion_time"),
    )


def _check_distinct(names: Column, path: Path, field: str) -> None:
    seen = set()
    for row, name in enumerate(names.tolist()):
        if name in seen:
            problem = f"{name!r} is there twice"
            raise TraceFormatError(problem, path, line_of(read_text(path), row), field)
        seen.add(name)
