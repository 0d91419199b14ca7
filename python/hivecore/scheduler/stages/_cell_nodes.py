"""The nodes of the cells of a level."""

from collections.abc import Iterator

from hivecore.cells import CellCluster

__all__ = ["cells_of_level", "chain_nodes"]


def cells_of_level(cells: CellCluster, level: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The cells of a level that is not below nodes, named as "H100/0", and the nodes of each."""
    for name, chain in cells.spec.chains.items():
        assert chain.node_level is not None
        if level not in chain.levels[chain.levels.index(chain.node_level) :]:
            continue
        per_cell = dict(zip(chain.levels, chain.leaves_per_cell(), strict=True))
        width = per_cell[level] // per_cell[chain.node_level]
        nodes = chain_nodes(cells, name)
        for i in range(len(nodes) // width):
            yield f"{name}/{i}", tuple(dict.fromkeys(nodes[i * width : (i + 1) * width]))


def chain_nodes(cells: CellCluster, chain: str) -> tuple[str, ...]:
    """The names of the nodes of a chain, left to right."""
    made = cells.spec.chains[chain]
    if made.nodes is not None:
        return tuple(made.nodes)
    assert made.node_level is not None
    per_node = made.leaves_per_cell()[made.levels.index(made.node_level)]
    return tuple(f"{chain}/{i}" for i in range(made.leaves // per_node))
