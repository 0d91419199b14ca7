"""Reads how a machine's GPUs are linked.

`read_nvidia_topology` reads the output of ``nvidia-smi topo -m``, `read_rocm_topology` that of
``rocm-smi --showtopo``; `devices_of_levels` takes NVML's answers for pairs of GPUs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product, takewhile
from typing import Any

from hivecore._arguments import as_choice, as_int, as_text, as_tuple
from hivecore.devices import Device, GpuLinks, NodeDevices

__all__ = ["devices_of_levels", "read_nvidia_topology", "read_rocm_topology"]

_CODES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # from near to far
_UNKNOWN = ""  # the link is printed instead of the path
_ON_A_SWITCH, _ON_A_NUMA_NODE = _CODES[:2], _CODES[:4]
_NVML = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_AFFINITIES = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
_HEADS = re.compile("|".join([*_AFFINITIES, r"\S+"]))
_NUMA = re.compile(r"GPU\[(\d+)\]\s*:\s*\(Topology\) Numa Node:\s*(-?\d+)\s*")


def _inventory(
    paths: Sequence[Sequence[str]],
    links: Sequence[Sequence[int]],
    numa: Sequence[int | str | None],
    nics: Sequence[str],
    gpu_memory: int | str,
    model: str,
) -> NodeDevices:
    """Return the inventory of GPUs and NICs.

    :param paths: a code, or unknown, for each pair.
    :param links: for each pair of GPUs.
    :param numa: the NUMA node of each GPU: a number, or a text shared by its GPUs.
    """
    gpus, switches = len(links), _switches(paths)
    texts = list(dict.fromkeys(cell for cell in numa if isinstance(cell, str)))
    nodes = [texts.index(cell) if isinstance(cell, str) else cell for cell in numa]
    for row in paths[gpus:]:  # a NIC is in the NUMA node of the nearest GPU
        near = [
            (_CODES.index(code), i)
            for i, code in enumerate(row[:gpus])
            if code in _ON_A_NUMA_NODE and nodes[i] is not None
        ]
        nodes.append(nodes[min(near)[1]] if near else None)
    amounts = {"core": 100, "memory": gpu_memory, "memory_ratio": 100}
    devices = [Device("gpu", i, amounts, numa=nodes[i], pcie=switches[i]) for i in range(gpus)]
    for i, (name, node) in enumerate(zip(nics, nodes[gpus:], strict=True)):
        share = {"share": 100}
        devices.append(Device("rdma", i, share, uuid=name, numa=node, pcie=switches[gpus + i]))
    known = gpus <= 16 or any(map(any, links))  # more GPUs without links: unknown
    return NodeDevices(devices, model=model, links=GpuLinks(links) if known else None)


def _switches(paths: Sequence[Sequence[str]]) -> list[str | None]:
    """Return a name for each PCIe switch with several devices; ``None`` for a single device."""
    first = list(range(len(paths)))
    for i, row in enumerate(paths):
        for j in range(i):
            if row[j] in _ON_A_SWITCH:
                low, high = sorted((first[i], first[j]))
                first = [low if number == high else number for number in first]
    return [str(number) if first.count(number) > 1 else None for number in first]


def read_nvidia_topology(
    text: str, *, gpu_memory: int | str = 80 << 30, model: str = ""
) -> NodeDevices:
    """Return the GPUs and NICs in the output of ``nvidia-smi topo -m``.

    :param text: the output, with or without legend and escape codes.
    :param gpu_memory: bytes of each GPU, or a text such as "80Gi".
    :param model: of the GPUs.
    :raises ValueError: it is not such a matrix; the message names the line.

    Devices with PIX or PXB between them share a PCIe switch. An NVLink hides the PCIe path: two
    such GPUs share a switch if both share it with a NIC. NUMA nodes come from "NUMA Affinity", or
    else from equal "CPU Affinity", and are unknown without both columns; a NIC is in the node of
    the nearest GPUs. A NIC's name is its ``uuid``.

    >>> from hivecore.interop.gpu_topology import read_nvidia_topology
    >>> node = read_nvidia_topology('''
    ...         GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
    ... GPU0     X      NV12    PIX     0-31            0
    ... GPU1    NV12     X      SYS     32-63           1
    ... NIC0    PIX     SYS      X
    ... ''')
    >>> node.links.counts, [(device.type, device.numa, device.pcie) for device in node.devices]
    (((0, 12), (12, 0)), [('gpu', 0, '0'), ('gpu', 1, None), ('rdma', 0, '0')])
    """
    lines = _plain(text).splitlines()
    at, heads = _header(lines)
    names = list(takewhile(lambda head: head not in _AFFINITIES, heads))
    gpus = _gpus(names)
    rows: dict[str, list[str]] = {}
    for i, line in enumerate(lines[at + 1 :], at + 2):
        name, *cells = line.split() or [""]
        if name not in names:
            continue
        if name in rows:
            raise ValueError(f"text, line {i}: {name} has a row already")
        if not len(names) <= len(cells) <= len(heads):
            raise ValueError(f"text, line {i}: {name}: {len(cells)} cells of {len(names)} columns")
        rows[name] = cells
    if missing := [name for name in names if name not in rows]:
        raise ValueError(f"text: no row of {missing[0]}")
    codes = [rows[name][: len(names)] for name in names]
    _check_codes(names, codes)
    links = [[_links(code) for code in row[:gpus]] for row in codes[:gpus]]
    paths = [[code if code in _CODES else _UNKNOWN for code in row] for row in codes]
    numa = [_numa_of(dict(zip(heads, rows[name], strict=False))) for name in names[:gpus]]
    full = dict(re.findall(r"^\s*(NIC\d+): (\S+)\s*$", "\n".join(lines), re.MULTILINE))
    nics = [full.get(name, name) for name in names[gpus:]]
    return _inventory(paths, links, numa, nics, gpu_memory, model)


def _plain(text: str) -> str:
    """Return the text without escape codes and the byte order mark that editors may write."""
    return _ANSI.sub("", as_text(text, "text")).removeprefix("\ufeff")


def _header(lines: Sequence[str]) -> tuple[int, list[str]]:
    """Return the line with the columns' names; of a row, the second cell on are codes."""
    for at, line in enumerate(lines):
        heads = _HEADS.findall(line)
        if heads[:1] == ["GPU0"] and not _is_code(heads[1] if heads[1:] else ""):
            return at, heads
    raise ValueError("text: no line begins with the columns GPU0, GPU1, ...")


def _is_code(cell: str) -> bool:
    return cell in ("X", *_CODES) or bool(_links(cell))


def _gpus(names: list[str]) -> int:
    """Return the number of GPUs, which come first and are numbered."""
    gpus = sum(1 for name in names if re.fullmatch(r"GPU\d+", name))
    wanted = [f"GPU{i}" for i in range(gpus)]
    if not gpus or names[:gpus] != wanted or len(set(names)) < len(names):
        raise ValueError(f"text: its columns are {names}, not GPU0, GPU1, ... and NICs")
    return gpus


def _check_codes(names: list[str], codes: list[list[str]]) -> None:
    for i, j in product(range(len(names)), repeat=2):
        code, back, where = codes[i][j], codes[j][i], f"text: {names[i]} to {names[j]}"
        if code != back:
            raise ValueError(f"{where} is {code!r}, but {back!r} the other way round")
        if (code == "X") != (i == j) or not _is_code(code):
            raise ValueError(f"{where}: {code!r} is none of {', '.join(_CODES)}, NV1, NV2, ...")


def _links(code: str) -> int:
    return int(code[2:]) if re.fullmatch(r"NV[1-9]\d?", code) else 0


def _numa_of(cells: Mapping[str, str]) -> int | str | None:
    """Return a number, or a text that all GPUs of the NUMA node share."""
    if "NUMA Affinity" not in cells:
        return cells.get("CPU Affinity")
    text = cells["NUMA Affinity"]
    return int(text) if text.isdecimal() else None


def devices_of_levels(
    levels: Sequence[Sequence[int | str]] | Mapping[tuple[int, int], int | str],
    links: Sequence[Sequence[int]] | Mapping[tuple[int, int], int] = (),
    numa: Iterable[int | None] = (),
    *,
    gpu_memory: int | str = 80 << 30,
    model: str = "",
) -> NodeDevices:
    """Return the GPUs of a machine from NVML's answers for pairs of them.

    :param levels: ``nvmlDeviceGetTopologyCommonAncestor`` of each pair: 0, 10, ..., 50 or "PIX",
        "PXB", "PHB", "NODE", "SYS", as a square, or as a mapping with each pair once or both ways.
    :param links: the number of NVLinks of each pair, in the same form; missing pairs have none.
    :param numa: the NUMA node of each GPU; empty if unknown.
    :raises ValueError: a level is unknown, or pairs are missing or contradict each other.

    >>> from hivecore.interop.gpu_topology import devices_of_levels
    >>> node = devices_of_levels({(0, 1): 10, (0, 2): 50, (1, 2): 50}, {(0, 1): 4})
    >>> [gpu.pcie for gpu in node.devices], node.links.between([0, 1, 2])
    (['0', '0', None], 4)
    """
    near = _pairs(levels, "levels")
    gpus = 1 + max((j for _, j in near), default=0)
    paths = [[_UNKNOWN] * gpus for _ in range(gpus)]
    counts = [[0] * gpus for _ in range(gpus)]
    for i, j in combinations(range(gpus), 2):
        if (i, j) not in near:
            raise ValueError(f"levels: nothing of GPUs {i} and {j}")
        level = near[i, j]
        code = _NVML.get(level, str(level)) if isinstance(level, int) else level
        paths[i][j] = paths[j][i] = as_choice(code, f"levels[{i}, {j}]", _CODES)
    for (i, j), count in _pairs(links, "links").items():
        if j >= gpus:
            raise ValueError(f"links: of GPU {j}, of which levels say nothing")
        counts[i][j] = counts[j][i] = as_int(count, f"links[{i}, {j}]", 0, 1000)
    nodes = as_tuple(numa, "numa") or (None,) * gpus
    if len(nodes) != gpus:
        raise ValueError(f"numa: {len(nodes)} of {gpus} GPUs")
    return _inventory(paths, counts, nodes, (), gpu_memory, model)


def _pairs(value: Any, name: str) -> dict[tuple[int, int], Any]:
    """Return the value of each pair of GPUs, lower number first, from a mapping or a square."""
    if not isinstance(value, Mapping):
        rows = [as_tuple(row, f"{name}[{i}]") for i, row in enumerate(as_tuple(value, name))]
        if any(len(row) != len(rows) for row in rows):
            raise ValueError(f"{name}: rows of {[*map(len, rows)]} numbers are no square")
        value = {(i, j): what for i, row in enumerate(rows) for j, what in enumerate(row)}
    pairs: dict[tuple[int, int], Any] = {}
    for pair, what in value.items():
        numbers = sorted(as_int(number, name, 0, 255) for number in as_tuple(pair, name))
        if len(numbers) != 2:
            raise ValueError(f"{name}: {pair!r} is no pair of GPUs")
        i, j = numbers
        if i != j and pairs.setdefault((i, j), what) != what:
            raise ValueError(f"{name}: GPUs {i} and {j} have {pairs[i, j]!r} and {what!r}")
    return pairs


def read_rocm_topology(
    text: str, *, gpu_memory: int | str = 64 << 30, model: str = ""
) -> NodeDevices:
    """Return the GPUs in the output of ``rocm-smi --showtopo``.

    :param text: its tables; "Link Type between two GPUs" is required.
    :param gpu_memory: bytes of each GPU, or a text such as "80Gi".
    :param model: of the GPUs.
    :raises ValueError: a table is missing or invalid; the message names it.

    A pair has a link if its type is XGMI and it has the lowest weight of that type, as the tool
    also prints one hop for GPUs that reach each other through others. It prints neither the number
    of links nor PCIe switches.

    >>> from hivecore.interop.gpu_topology import read_rocm_topology
    >>> read_rocm_topology('''
    ... ============== Link Type between two GPUs ==============
    ...        GPU0         GPU1
    ... GPU0   0            XGMI
    ... GPU1   XGMI         0
    ... ''').links.counts
    ((0, 1), (1, 0))
    """
    text = _plain(text)
    types = _table(text, "Link Type")
    gpus = range(len(types))
    weight: dict[tuple[int, int], int] = {}
    weights = (
        _table(text, "Weight") if "Weight between" in text else [["0"] * len(gpus)] * len(gpus)
    )
    if len(weights) != len(types):
        raise ValueError(f"text, Weight: {len(weights)} of {len(types)} GPUs")
    for i, j in product(gpus, repeat=2):
        kind = types[i][j]
        if kind != types[j][i] or kind not in (("XGMI", "PCIE") if i != j else ("0",)):
            raise ValueError(f"text, Link Type: {kind!r} of GPU{i} and GPU{j}, or not both ways")
        if kind == "XGMI":
            if not weights[i][j].isdecimal():
                raise ValueError(f"text, Weight: no number for GPU{i} and GPU{j}")
            weight[i, j] = int(weights[i][j])
    least = min(weight.values(), default=0)
    links = [[int(weight.get((i, j)) == least) for j in gpus] for i in gpus]
    numa = {int(gpu): int(node) for gpu, node in _NUMA.findall(text)}
    nodes = [node if (node := numa.get(i, -1)) >= 0 else None for i in gpus]
    paths = [[_UNKNOWN] * len(types)] * len(types)
    return _inventory(paths, links, nodes, (), gpu_memory, model)


def _table(text: str, title: str) -> list[list[str]]:
    """Return the cells of a table, by its title."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if f"{title} between two GPUs" in line), None)
    if at is None:
        raise ValueError(f"text: no table {title!r}, as `rocm-smi --showtopo` prints it")
    heads = lines[at + 1].split() if at + 1 < len(lines) else []
    if not heads or heads != [f"GPU{i}" for i in range(len(heads))]:
        raise ValueError(f"text, {title}: its columns are {heads}")
    rows = [line.split() for line in lines[at + 2 : at + 2 + len(heads)]]
    for i, name in enumerate(heads):
        if i >= len(rows) or rows[i][:1] != [name] or len(rows[i]) != len(heads) + 1:
            raise ValueError(f"text, {title}: no row of {name} with {len(heads)} cells")
    return [row[1:] for row in rows]
