"""Figures of a `CellCluster`: what is bound, unused, doomed; all of it read from the core."""

from typing import Any

import numpy as np

from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.changes import GroupStatus
from hivecore.cells.cluster_view import VirtualTree

__all__ = ["doomed_cells", "group_status", "status", "unused_cells", "virtual_trees"]

_ByLevel = dict[str, dict[str, dict[str, int]]]  # tenant -> chain -> level -> cells


def unused_cells(books: GroupBooks) -> _ByLevel:
    """Cells of tenants that are not bound."""
    names = books.names
    tenants = tuple(names.tenants)
    unused: _ByLevel = {tenant: {} for tenant in tenants}
    for number, pool in enumerate(names.pools):
        if pool.pin is None:
            levels = unused[tenants[pool.tenant]].setdefault(names.chains[pool.chain], {})
            free = books.core.unbound_roots(number)
            levels[names.levels[pool.chain][pool.level]] = free
    return unused


def doomed_cells(books: GroupBooks) -> _ByLevel:
    """Cells of tenants that healthy hardware cannot back."""
    names = books.names
    tenants = tuple(names.tenants)
    lost: _ByLevel = {}
    for number, chain in enumerate(names.chains):
        for row, tenant, count in books.core.doomed(number):
            level = names.levels[number][row]
            lost.setdefault(tenants[tenant], {}).setdefault(chain, {})[level] = count
    return lost


def virtual_trees(books: GroupBooks, tenant: int) -> tuple[VirtualTree, ...]:
    """The bindings of a tenant's virtual cells."""
    names = books.names
    return tuple(
        VirtualTree(
            names.chains[pool.chain],
            names.levels[pool.chain][pool.level],
            pool.roots,
            pool.pin,
            {
                names.levels[pool.chain][row]: books.core.bindings(number, row)
                for row in range(pool.level + 1)
            },
        )
        for number, pool in enumerate(names.pools)
        if pool.tenant == tenant
    )


def group_status(books: GroupBooks, name: str) -> GroupStatus:
    """A live group."""
    live = books.live[name]
    held = books.core.group(live.handle)
    return GroupStatus(
        live.group,
        "Preempting"
        if held.preempting
        else "BeingPreempted"
        if held.being_preempted
        else "Allocated",
        held.virtual is not None,
        books.downgraded_by(live),
        books.names.describe_pods(held.pods, held.virtual),
        books.groups.names_of(books.core.victims(live.handle)) if held.preempting else (),
    )


def status(books: GroupBooks) -> dict[str, Any]:
    """All figures as plain data."""
    names = books.names
    spec, unused, doomed = names.spec, unused_cells(books), doomed_cells(books)
    return {
        "chains": {chain: _chain(books, number) for number, chain in enumerate(names.chains)},
        "virtual_clusters": {
            tenant: {
                "owned": {chain: dict(by) for chain, by in spec.virtual_clusters[tenant].items()},
                "pinned": {p: list(cell) for p, cell in spec.pinned_cells.get(tenant, {}).items()},
                "unused": unused[tenant],
                "doomed": doomed.get(tenant, {}),
            }
            for tenant in names.tenants
        },
        "groups": {name: _group(books, name) for name in books.live},
    }


def _chain(books: GroupBooks, number: int) -> dict[str, Any]:
    core, levels = books.core, books.names.levels[number]
    users, reservers = core.leaf_users(number), core.leaf_reservers(number)
    bad = np.zeros(len(users), bool)
    bad[core.bad_leaves(number) - books.names.offsets[number]] = True
    return {
        "leaves": len(users),
        "used": int((users >= 0).sum()),
        "reserved": int((reservers >= 0).sum()),
        "bad": int(bad.sum()),
        "idle": int(((users < 0) & (reservers < 0) & ~bad).sum()),
        "free_cells": {
            level: len(core.free_cells(number, row)) for row, level in enumerate(levels)
        },
        "surplus": dict(zip(levels, core.surplus(number), strict=True)),
    }


def _group(books: GroupBooks, name: str) -> dict[str, Any]:
    status = group_status(books, name)
    return {
        "virtual_cluster": status.group.virtual_cluster,
        "priority": status.group.priority,
        "state": status.state,
        "guaranteed": status.guaranteed,
        "lazy_preempted_by": status.lazy_preempted_by,
        "pods": [[pod.chain, pod.node, list(pod.leaf_indices)] for pod in status.placement],
    }
