"""The quotas of a tree from the top down, with their state."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from hivecore._thousandths import Amount, exact
from hivecore.quotas import QuotaStatus, QuotaTree, quota_rules
from hivecore.sim import columns
from hivecore.sim.quotas.amounts import shown
from hivecore.sim.quotas.picture import quota_picture
from hivecore.sim.quotas.row import QuotaRow
from hivecore.sim.report import Report

__all__ = ["quota_findings", "quota_report", "quota_rows"]

_STANDING = ("request", "min", "runtime", "used")  # of a quota's status
_COLUMNS = (*_STANDING, "max")
_NOTES = (
    "cpu in cores. min: as it is in effect. runtime: what may be used now.",
    "max of a total: what there is to share out. !: more than the runtime",
)


def quota_rows(tree: QuotaTree) -> list[QuotaRow]:
    """Return a row for each tree, followed by its quotas, parents before children.

    A tree's total is without what quotas outside the total use; the sums in its row do not include
    these.
    """
    depths: dict[str, int] = {}
    tops: dict[str, list[QuotaStatus]] = {}
    places: dict[str, int] = {}
    rows: list[QuotaRow] = []
    for name in tree.quotas:
        quota, status = tree.quota(name), tree.status(name)
        depths[name] = depths.get(quota.parent, 0) + 1
        if not quota.parent:
            if quota.tree not in places:
                places[quota.tree] = len(rows) + len(places)
            if not quota.outside:
                tops.setdefault(quota.tree, []).append(status)
        standing = {field: getattr(status, field) for field in _STANDING}
        rows.append(QuotaRow(name, depths[name], **standing, max=dict(quota.max)))
    for each, place in places.items():
        rows.insert(place, _total(each, tree.total(each), tops.get(each, [])))
    return rows


def _total(name: str, has: Mapping[str, Amount], tops: list[QuotaStatus]) -> QuotaRow:
    # Requests count only up to the maximum.
    sums: dict[str, dict[str, Amount]] = {field: {} for field in _STANDING}
    for status in tops:
        for field, amounts in sums.items():
            source = "limited_request" if field == "request" else field
            for resource, amount in getattr(status, source).items():
                amounts[resource] = exact(amounts.get(resource, 0) + amount)
    shared = {resource: has.get(resource, 0) for resource in sums["used"]}
    return QuotaRow(f"total of {name}" if name else "total", 0, **sums, max=shared)


def quota_report(rows: Sequence[QuotaRow], findings: Iterable[str] = ()) -> Report:
    """Return a report with a row for each quota and resource, children indented."""
    table = []
    for row in rows:
        for resource in sorted(row.max):
            cells = [shown(resource, getattr(row, each).get(resource, 0)) for each in _COLUMNS]
            if resource in row.over():
                cells[_COLUMNS.index("used")] = f"! {cells[_COLUMNS.index('used')]}"
            table.append(["  " * row.depth + row.name, resource, *cells])
    names = [columns.label("quota", once=True), columns.label("resource")]
    figures = [columns.Column(heading) for heading in _COLUMNS]
    drawing = {"quotas": partial(quota_picture, rows)}
    return Report("Quotas", names + figures, table, _NOTES, list(findings), pictures=drawing)


def quota_findings(tree: QuotaTree, rows: Sequence[QuotaRow]) -> list[str]:
    """Return what the table does not show, as sentences."""
    running = sum(tree.members(name) > 0 for name in tree.owners)
    lines = [f"Owners: {running} running, {len(tree.owners) - running} pending."]
    scaled = []
    for row in rows:
        if not row.depth:
            continue
        for resource, more in row.over().items():
            used, runtime = (shown(resource, each[resource]) for each in (row.used, row.runtime))
            lines.append(
                f"{row.name} uses {shown(resource, more)} {resource} more than it may now: "
                f"{used} of {runtime}."
            )
        if any(amount > row.min[resource] for resource, amount in tree.quota(row.name).min):
            scaled.append(row.name)
    if scaled:
        lines.append(f"More is promised than there is: min is scaled down of {', '.join(scaled)}.")
    quotas = [tree.quota(name) for name in tree.quotas]
    for broken in quota_rules(quotas, same_dimensions=False):
        lines.append(f"Rule broken (in thousandths of a core, bytes): {broken}.")
    return lines
