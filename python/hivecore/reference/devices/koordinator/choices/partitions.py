"""Whole GPUs as one row of the table of partitions (section 1.7).

Partitions of one size fall into tiers by their score. The first tier with a feasible partition is
taken; of its feasible ones that which leaves most: every partition that is as large as the request
or larger, and still free afterwards, counts by its size and score. What is taken is always exactly
one row.
"""

from typing import Any, NamedTuple

from hivecore.reference.devices.koordinator.outcome import Failure
from hivecore.reference.devices.node_state import NodeState

__all__ = ["Row", "Table", "feasible_rows", "partition_of", "residual", "table_of"]

_BUILT_IN_MODELS = ("H100", "H800", "H20")
_BUILT_IN = (*((i,) for i in range(8)), (0, 1), (2, 3), (4, 5), (6, 7), (0, 1, 2, 3), (4, 5, 6, 7))
_WORTH = {8: 10000, 4: 100, 2: 1}


class Row(NamedTuple):
    """A partition, in minors."""

    minors: tuple[int, ...]
    score: int
    bandwidth: int | None


Table = dict[int, list[list[Row]]]
"""The tiers of each size, that which is taken first in front."""


def table_of(state: NodeState, quirks: frozenset[str]) -> Table | None:
    """The node's table, or the built-in one of its model; `None`: there is none.

    Upstream takes the tier of the lowest score first, other than its comment says (defect D2). Of a
    table of physical slots rows are left out of which a slot has no GPU.
    """
    inventory = state.inventory
    if inventory.partitions is not None:
        rows = _rows(inventory.partitions, state.devices.get("gpu", {}))
    elif inventory.vendor in ("", "nvidia") and inventory.model in _BUILT_IN_MODELS:
        rows = [Row(minors, 1, None) for minors in (*_BUILT_IN, tuple(range(8)))]
    else:
        return None
    sign = 1 if "lowest_tier_first" in quirks else -1
    table: Table = {}
    for size in dict.fromkeys(len(row.minors) for row in rows):
        of_size = [row for row in rows if len(row.minors) == size]
        scores = sorted({row.score for row in of_size}, key=lambda score: sign * score)
        table[size] = [[row for row in of_size if row.score == score] for score in scores]
    return table


def _rows(partitions: Any, gpus: dict[int, Any]) -> list[Row]:
    if partitions.numbers == "minor":
        minors = {number: number for row in partitions.partitions for number in row.members}
    else:
        minors = {gpu.module_id: minor for minor, gpu in gpus.items() if gpu.module_id is not None}
    return [
        Row(tuple(minors[number] for number in row.members), row.score, row.bandwidth)
        for row in partitions.partitions
        if all(number in minors for number in row.members)
    ]


def feasible_rows(
    table: Table | None, request: Any, count: int, visible: set[int], in_use: set[int]
) -> list[list[Row]] | Failure:
    """The tiers' rows that could be taken, for as many tiers as the request lets in.

    A row must be of visible, healthy GPUs, none of which is in use even in part. How much they have
    is not looked at.
    """
    if table is None:
        return Failure("no_partition_table", False, "the node has no table of partitions")
    if count not in table:
        return Failure("unsupported_count", False, f"no partition is of {count} GPUs")
    tiers = table[count][:1] if request.partition == "restricted" else table[count]
    return [
        [
            row
            for row in tier
            if in_use.isdisjoint(row.minors)
            and visible.issuperset(row.minors)
            and (
                request.bandwidth is None
                or (row.bandwidth is not None and row.bandwidth >= request.bandwidth)
            )
        ]
        for tier in tiers
    ]


def partition_of(
    table: Table | None, request: Any, count: int, visible: set[int], in_use: set[int]
) -> Row | Failure:
    """The row that is taken; ties are broken by the order of the table.

    Source: upstream's sort is stable up to 12 feasible rows; beyond, its ties are arbitrary (D21).
    """
    tiers = feasible_rows(table, request, count, visible, in_use)
    if isinstance(tiers, Failure):
        return tiers
    for rows in tiers:
        if rows:
            assert table is not None
            left = {row: residual(table, count, in_use | set(row.minors)) for row in rows}
            return max(rows, key=lambda row: left[row])
    return Failure("insufficient_partitions", True, f"no partition of {count} GPUs is free")


def residual(table: Table, count: int, in_use: set[int]) -> int:
    """What is still free of the first tiers of sizes from `count` on."""
    return sum(
        worth * row.score
        for size, worth in _WORTH.items()
        if size >= count and size in table
        for row in table[size][0]
        if in_use.isdisjoint(row.minors)
    )
