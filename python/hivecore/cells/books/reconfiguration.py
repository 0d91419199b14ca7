"""A new specification under running groups: each is booked again where it is.

Those that hold cells of their tenants come first; those that are downgraded take what is left.

A leaf that the new specification does not have is lost to its group only until another
specification has it again; it is then the group's, if no other group has got it meanwhile.
"""

from collections import defaultdict

from hivecore._cells import LiveGroup
from hivecore.cells.books.cluster_names import ClusterNames
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.changes import Reconfiguration
from hivecore.cells.cluster_spec import ClusterSpec

__all__ = ["rebook_all"]


def rebook_all(books: GroupBooks, spec: ClusterSpec) -> tuple[GroupBooks, Reconfiguration]:
    """Books of the new specification with all groups that run, and what has changed for them."""
    fresh = GroupBooks(spec, books.policies, books.evictions)
    books.groups.sort()
    guaranteed = {name: books.is_guaranteed(live) for name, live in books.live.items()}
    cancelled = tuple(name for name, live in books.live.items() if books.is_preempting(live))
    running = [name for name in books.live if name not in set(cancelled)]
    order = sorted(running, key=lambda name: (not guaranteed[name], _rank(books, books.live[name])))
    owners = _owners(books, fresh.names, running)
    lost: dict[str, tuple[tuple[str, int], ...]] = {}
    for name in order:
        live = books.live[name]
        recovery = fresh.recover(live.group, books.record(live), guaranteed[name], owners)
        if recovery.lost:
            lost[name] = recovery.lost
        if not guaranteed[name]:
            fresh.groups.mark_downgraded(name, live.downgraded_by)
    fresh.groups.reorder(running)
    _carry_health(books, fresh)
    downgraded = tuple(
        name
        for name, live in fresh.live.items()
        if guaranteed[name] and not fresh.is_guaranteed(live)
    )
    promoted = tuple(
        name
        for name, live in fresh.live.items()
        if not guaranteed[name] and fresh.is_guaranteed(live)
    )
    return fresh, Reconfiguration(downgraded, lost, cancelled, promoted)


def _rank(books: GroupBooks, live: LiveGroup) -> tuple[int, int]:
    """The more important first, then those with the lower first leaf."""
    leaves = (leaf for pod in books.core.group(live.handle).pods for leaf in pod)
    return -live.group.priority, min(leaves, default=0)


def _carry_health(books: GroupBooks, fresh: GroupBooks) -> None:
    """Bad leaves stay bad; a node that is bad as a whole, with all leaves that it has now."""
    names = books.names
    bad: dict[str, list[int]] = defaultdict(list)
    for number in range(len(names.chains)):
        for leaf in books.core.bad_leaves(number).tolist():
            bad[names.place(leaf)[0]].append(leaf)
    for node, leaves in bad.items():
        whole = sum(len(names.node_leaves(*place)) for place in names.nodes[node])
        if len(leaves) == whole:
            for place in fresh.names.nodes.get(node, ()):
                all_leaves = fresh.names.node_leaves(*place)
                fresh.core.set_health(all_leaves.start, all_leaves.stop, False)
            continue
        for leaf in leaves:
            chain = names.chains[names.chain_of(leaf)]
            now = fresh.names.find_leaf(*names.place(leaf), chain)
            if now is not None:
                fresh.core.set_health(now, now + 1, False)


def _owners(books: GroupBooks, names: ClusterNames, running: list[str]) -> dict[int, str]:
    """The group of each leaf of the new specification: its holder, before one that has lost it."""
    claims = []
    for name in running:
        live = books.live[name]
        held = {(p.node, device) for p in books.placement(live) for device in p.leaf_indices}
        for pod in books.record(live):
            for device in pod.leaf_indices:
                leaf = names.find_leaf(pod.node, device, pod.chain)
                if leaf is not None:
                    moved = names.chains[names.chain_of(leaf)] != pod.chain
                    claims.append(((pod.node, device) not in held, moved, leaf, name))
    owners: dict[int, str] = {}
    for _, _, leaf, name in sorted(claims, key=lambda claim: claim[:2]):
        owners.setdefault(leaf, name)
    return owners
