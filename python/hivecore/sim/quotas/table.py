"""How quotas stand, as a table."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hivecore.sim.quotas.amounts import shown
from hivecore.sim.quotas.rows import QuotaRow
from hivecore.sim.tables import empty_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["quota_table"]

_COLUMNS = ("request", "min", "runtime", "used", "max")
_CAPTION = (
    "cpu in cores. min: as it is in effect. runtime: what may be used now.\n"
    "max of a total: what there is to share out. !: more than the runtime"
)


def quota_table(rows: Iterable[QuotaRow]) -> "Table":
    """A Rich table with a row per quota and resource, quotas below others further to the right.

    :param rows: of `quota_rows`.

    >>> row = QuotaRow("lab", 1, {"gpu": 9}, {"gpu": 2}, {"gpu": 8}, {"gpu": 8}, {"gpu": 8})
    >>> table = quota_table([row])
    >>> [str(next(iter(column.cells))) for column in table.columns]
    ['  lab', 'gpu', '9', '2', '8', '8', '8']
    """
    from rich.cells import cell_len
    from rich.text import Text

    table = empty_table("Quotas", _CAPTION, ("quota", "resource", *_COLUMNS))
    longest = 0
    for row in rows:
        label = "  " * row.depth + row.name
        longest = max(longest, cell_len(label))
        over = row.over()
        for resource in sorted(row.max):
            cells = [shown(resource, getattr(row, one).get(resource, 0)) for one in _COLUMNS]
            if resource in over:
                cells[_COLUMNS.index("used")] = f"! {cells[_COLUMNS.index('used')]}"
            # As text: a name in brackets is no colour.
            table.add_row(Text(label), Text(resource), *cells)
            label = ""
    # Rich would cut off as much of a name as it is indented.
    table.columns[0].min_width = longest
    return table
