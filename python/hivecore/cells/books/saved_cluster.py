"""The saved state of a `CellCluster`: its specification, its groups and its bad leaves, as JSON.

Everything else, the free lists and what is bound above the leaves, follows from these.
"""

import json
from collections.abc import Iterator

from hivecore._arguments import as_int, as_text
from hivecore.cells.affinity_group import AffinityGroup, check_evictions
from hivecore.cells.books.group_books import GroupBooks
from hivecore.cells.cluster_spec import Chain, ClusterSpec
from hivecore.cells.pod_placement import PodPlacement, as_placement
from hivecore.errors import CorruptStateError

__all__ = ["as_ranges", "decode", "encode"]

_FIELDS = (
    "virtual_cluster",
    "members",
    "priority",
    "leaf_type",
    "pinned_cell",
    "lazy_preemption",
    "within",
    "placement",
    "merge_siblings",
    "evictions",
)


def encode(books: GroupBooks) -> bytes:
    """The state as JSON text."""
    spec, core = books.names.spec, books.core
    groups = []
    for name, live in books.live.items():
        held = core.group(live.handle)
        fields = {field: getattr(live.group, field) for field in _FIELDS}
        groups.append(
            [
                name,
                fields,
                live.downgraded_by,
                held.preempting,
                held.pods,
                held.virtual,
                live.record,
                core.wanted_pools(live.handle),
            ]
        )
    state = {
        "chains": {
            name: [
                chain.levels,
                chain.fanouts,
                chain.roots,
                chain.node_level,
                chain.nodes,
                chain.leaf_indices,
            ]
            for name, chain in spec.chains.items()
        },
        "virtual_clusters": spec.virtual_clusters,
        "pinned_cells": spec.pinned_cells,
        "evictions": books.evictions,
        "groups": groups,
        "order": [books.named[handle] for handle in core.handles()],
        "bad": [
            [leaves.start, leaves.stop]
            for chain in range(len(spec.chains))
            for leaves in as_ranges(core.bad_leaves(chain).tolist())
        ],
    }
    return json.dumps(state, separators=(",", ":")).encode()


def decode(text: bytes) -> GroupBooks:
    """The books of such a text; any error that it raises means that the text is damaged."""
    state = json.loads(text)
    chains = {name: Chain(*fields) for name, fields in state["chains"].items()}
    spec = ClusterSpec(chains, state["virtual_clusters"], state["pinned_cells"])
    evictions = state.get("evictions", "packing")  # absent from older states
    check_evictions(evictions)
    books = GroupBooks(spec, {}, evictions)
    names, core = books.names, books.core
    saved = {name: rest for name, *rest in state["groups"]}
    if sorted(state["order"]) != sorted(saved):
        raise CorruptStateError("data: the groups and their order do not match")
    leaves = names.offsets[-1]
    handles = {}
    for name in state["order"]:
        fields, _, preempting, pods, virtual, _, *later = saved[name]
        fields["members"] = [tuple(member) for member in fields["members"]]
        group = AffinityGroup(name, **fields)
        if len(pods) != len(group.sizes):
            raise CorruptStateError(f"data: group {name!r} has other pods than its members")
        tenant = names.tenants.get(group.virtual_cluster, len(names.tenants))
        for pod in pods:
            for leaf in pod:
                as_int(leaf, "leaf", 0, leaves - 1)
        if virtual is not None:
            virtual = [[(pool, cell) for pool, cell in pod] for pod in virtual]
        wanted = later[0] if later else None  # absent from older states
        lazy = group.lazy_preemption
        handle = core.restore(tenant, group.priority, lazy, preempting, pods, virtual, wanted)
        handles[name] = group, handle
    for name, (_, by, _, _, _, record, *_) in saved.items():
        group, handle = handles[name]
        if by is not None:
            as_text(by, "downgraded_by")
        if record is not None:
            record = as_placement([PodPlacement(*pod) for pod in record], group)
        books.groups.enter(group, handle, by, record)
        _check_places(books, name)
    for first, end in state["bad"]:
        as_int(first, "bad leaf", 0, leaves - 1)
        core.set_health(first, as_int(end, "bad leaf", first + 1, leaves), False)
    books.groups.check()
    return books


def _check_places(books: GroupBooks, name: str) -> None:
    """The leaves of a group are those of its pods, but for lost ones."""
    live, names = books.live[name], books.names
    pods = books.core.group(live.handle).pods
    record = live.record or as_placement(books.placement(live), live.group)
    for leaves, pod in zip(pods, record, strict=True):
        if not set(leaves) <= set(names.find_pod(pod)):
            raise CorruptStateError(f"data: group {name!r} has leaves where its pods are not")


def as_ranges(ascending: list[int]) -> Iterator[range]:
    """Runs of consecutive integers."""
    start = 0
    for end in range(1, len(ascending) + 1):
        if end == len(ascending) or ascending[end] != ascending[end - 1] + 1:
            yield range(ascending[start], ascending[end - 1] + 1)
            start = end
