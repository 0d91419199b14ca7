"""Tenants stay within their cells, and all owned cells can still be bound."""

from collections import Counter
from collections.abc import Iterable

from hivecore._stateful import counted
from hivecore.cells import Chain, ClusterSpec
from hivecore.scheduler import Job, Promote, Start
from hivecore.verify._state import Group, amounts_of, group_of, hold, pod_name

__all__ = ["check_chain", "group_of_start"]


def group_of_start(action: Start | Promote, job: Job, *, mine: bool) -> Group:
    """Return a job's cells from the stage's decision; its pods must be the action's.

    :param mine: whether it uses cells of its tenant.
    """
    decision = dict(action.decisions).get("cells")
    if decision is None:
        raise ValueError("action: says nothing of cells, it was read from a file")
    for pod in action.pods:
        gpus, requested = len({*pod.gpus}), amounts_of(job, [pod], None)["gpu"]
        what = f"{pod_name(job, pod)!r} has {counted(gpus, 'GPU')}, and asks for {requested}"
        hold(gpus == requested, "devices", what)
    placed = sorted((pod.node, sorted(pod.gpus)) for pod in action.pods if pod.gpus)
    said = sorted((share.node, sorted(share.leaf_indices)) for share in decision.placement)
    hold(placed == said, "nodes", f"{job.name!r} starts elsewhere than on its cells")
    pin = job.where.pinned_cell or None
    return group_of(job.name, job.tenant, pin, decision.placement, mine)


def check_chain(name: str, spec: ClusterSpec, groups: Iterable[Group]) -> None:
    """No GPU has two owners, tenants stay within their cells, and S >= 0 on every level."""
    chain = spec.chains[name]
    leaf_of, sizes = _leaves(name, chain), chain.leaves_per_cell()
    owners: dict[int, str] = {}
    #: (level, number) of a cell -> its owner
    cells: dict[tuple[int, int], tuple[str, str | None]] = {
        (chain.levels.index(level), index): (tenant, pin)
        for tenant, pins in spec.pinned_cells.items()
        for pin, (where, level, index) in pins.items()
        if where == name
    }
    pinned = set(cells)
    for group in groups:
        for where, node, gpu, own in group.gpus:
            if where == name:
                leaf = leaf_of[node, gpu]
                owner = owners.get(leaf, "")
                what = f"GPU {gpu} of {node!r} has two owners, {owner!r} and {group.owner!r}"
                hold(not owner, "devices", what)
                owners[leaf] = group.owner
                if own:
                    key = (chain.levels.index(own), leaf // sizes[chain.levels.index(own)])
                    mine = group.tenant, group.pin
                    held = cells.setdefault(key, mine) == mine
                    held = held and (group.pin is None) == (key not in pinned)
                    what = f"{group.owner!r} uses a {own!r} of {cells[key]}"
                    hold(held, "guarantee", what)
    tops = range(len(sizes))
    for level, cell in cells:
        for above in tops[level + 1 :]:
            around = above, cell * sizes[level] // sizes[above]
            hold(
                around not in cells, "guarantee", f"a {chain.levels[level]!r} is in another's cell"
            )
    spare, parts = 0, chain.roots
    for level in reversed(tops):
        label = chain.levels[level]
        split = {cell * sizes[below] // sizes[level] for below, cell in cells if below < level}
        whole = Counter(whose for (at, _), whose in cells.items() if at == level)
        owed = 0
        for tenant, owned in spec.virtual_clusters.items():
            unused = owned.get(name, {}).get(label, 0) - whole[tenant, None]
            hold(unused >= 0, "guarantee", f"{tenant!r} uses {-unused} {label!r} more than its own")
            owed += unused
        spare += parts - len(split) - whole.total() - owed
        hold(spare >= 0, "guarantee", f"S of {label!r} in chain {name!r} would be {spare}")
        fanout = chain.fanouts[level - 1] if level else 0
        spare, parts = spare * fanout, len(split) * fanout


def _leaves(name: str, chain: Chain) -> dict[tuple[str, int], int]:
    """Return (node, GPU) -> the GPU's number in its chain."""
    each = chain.leaves_per_cell()[chain.levels.index(chain.node_level or "")]
    nodes = chain.nodes or [f"{name}/{i}" for i in range(chain.leaves // each)]
    gpus = chain.leaf_indices or [range(each)] * len(nodes)
    return {
        (node, gpu): i * each + j for i, node in enumerate(nodes) for j, gpu in enumerate(gpus[i])
    }
