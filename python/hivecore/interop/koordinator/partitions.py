"""Partition tables as annotations: {"2": [{"minors": [0, 1], "gpuLinkType": "NVLink", ...}]}."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hivecore._quantities import write_binary
from hivecore.devices import Device, Partition, PartitionTable
from hivecore.interop.kubernetes.fields import Field

__all__ = ["read_table", "write_table"]

_MOST_MINOR = 2**31 - 1
_FASTEST = 2**62
_BEST_SCORE = 10**6


def read_table(annotation: Field) -> PartitionTable:
    """Return the partition table in the annotation of a device record.

    :raises ValueError: a row is listed under a number other than that of its GPUs, a set of GPUs is
        listed twice, or a value is out of range.

    >>> read_table(Field('{"2": [{"minors": [0, 1], "allocationScore": 3}]}')).partitions
    (Partition(members=(0, 1), score=3, bandwidth=None, link=''),)
    """
    table = annotation.json()
    if table.value is None:
        raise annotation.error("holds no table")
    rows = []
    for number, entries in table.items():
        for entry in entries.entries():
            row = _row(entry)
            if str(len(row.members)) != number:
                raise entry["minors"].error(f"are {len(row.members)}, but stand under {number!r}")
            rows.append(row)
    with annotation.named():
        return PartitionTable(tuple(rows))


def _row(row: Field) -> Partition:
    bandwidth, score = row["ringBusBandwidth"], row["allocationScore"]
    values = (
        tuple(minor.integer(0, _MOST_MINOR) for minor in row["minors"].entries()),
        0 if score.value is None else score.integer_text(0, _BEST_SCORE),
        None if bandwidth.value is None else bandwidth.quantity(0, _FASTEST),
        row["gpuLinkType"].text(),
    )
    with row.named():
        return Partition(*values)


def write_table(table: PartitionTable, devices: Iterable[Device]) -> str:
    """Return the annotation of a table, in minors, without rows whose GPUs do not all exist.

    >>> table = PartitionTable.of_sets([(1, 3)], "module")
    >>> gpus = [Device("gpu", 4, {}, module_id=1), Device("gpu", 5, {}, module_id=3)]
    >>> write_table(table, gpus)
    '{"2":[{"minors":[4,5],"gpuLinkType":"NVLink","allocationScore":1}]}'
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    minors = _minors(table, devices)
    for row in table.partitions:
        if minors is None or minors.keys() >= set(row.members):
            members = [minors[i] for i in row.members] if minors else list(row.members)
            rows.setdefault(str(len(members)), []).append(_written(row, sorted(members)))
    return json.dumps(rows, separators=(",", ":"))


def _minors(table: PartitionTable, devices: Iterable[Device]) -> Mapping[int, int] | None:
    """Return the minors of the table's numbers; ``None`` if the numbers are minors."""
    if table.numbers == "minor":
        return None
    return {
        device.module_id: device.minor
        for device in devices
        if device.type == "gpu" and device.module_id is not None
    }


def _written(row: Partition, minors: list[int]) -> dict[str, Any]:
    entry: dict[str, Any] = {"minors": minors}
    if row.link:
        entry["gpuLinkType"] = row.link
    if row.bandwidth is not None:
        entry["ringBusBandwidth"] = write_binary(row.bandwidth)
    if row.score:
        entry["allocationScore"] = row.score
    return entry
