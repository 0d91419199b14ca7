"""The description of a cluster and of the cells that each tenant owns."""

from collections.abc import Mapping, Sequence

from hivecore._arguments import as_instance, as_int, as_mapping, as_name, as_text, as_tuple
from hivecore._record import Record, force_setattr
from hivecore._stateful import counted
from hivecore.errors import InfeasibleAssignmentError

__all__ = ["Chain", "ClusterSpec"]


class Chain(Record, frozen=True):
    """A homogeneous part of a cluster: ``roots`` equal trees of cells.

    :param levels: names of the 1 to 16 levels, leaf first.
    :param fanouts: ``fanouts[i]`` cells of ``levels[i]`` form a cell of ``levels[i + 1]``; integers
        >= 1, one fewer than levels.
    :param roots: number of cells of the last level, >= 1; at most 2**31 leaves in all.
    :param node_level: name of the level whose cells are nodes; ``None``: "node" if there is such a
        level, else the last.
    :param nodes: names of the nodes, left to right; ``None``: `CellCluster` calls them "<chain>/0",
        "<chain>/1", ...
    :param leaf_indices: for each node the device indices of its leaves, left to right, integers >=
        0; ``None``: 0, 1, ... on each node. A machine with two kinds of devices may occur as
        several nodes of one name, if no device index occurs twice in a chain.
    :raises ValueError: the shape is not allowed, a name occurs twice among the levels, or ``nodes``
        or ``leaf_indices`` have a wrong length.
    :raises TypeError: an argument is of a wrong type.

    >>> Chain(levels=["gpu", "socket", "node"], fanouts=[4, 2], roots=3).leaves
    24
    """

    levels: Sequence[str]
    fanouts: Sequence[int]
    roots: int
    node_level: str | None = None
    nodes: Sequence[str] | None = None
    leaf_indices: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        levels = tuple(
            as_name(name, f"levels[{i}]") for i, name in enumerate(as_tuple(self.levels, "levels"))
        )
        if not 1 <= len(levels) <= 16:
            raise ValueError(f"levels has {len(levels)} names, allowed are 1 to 16")
        for i, name in enumerate(levels):
            if name in levels[:i]:
                raise ValueError(f"levels[{i}]={name!r}: the name is taken by levels[0:{i}]")
        fanouts = tuple(
            as_int(fanout, f"fanouts[{i}]", 1, 2**31)
            for i, fanout in enumerate(as_tuple(self.fanouts, "fanouts"))
        )
        if len(fanouts) != len(levels) - 1:
            raise ValueError(
                f"fanouts has {len(fanouts)} entries, {len(levels)} levels need {len(levels) - 1}"
            )
        force_setattr(self, "levels", levels)
        force_setattr(self, "fanouts", fanouts)
        force_setattr(self, "roots", as_int(self.roots, "roots", 1, 2**31))
        if self.leaves > 2**31:
            raise ValueError(f"fanouts and roots make {self.leaves} leaves, at most 2**31")
        self._name_nodes()

    def _name_nodes(self) -> None:
        level = self.node_level
        if level is None:
            level = "node" if "node" in self.levels else self.levels[-1]
        else:
            level = as_text(level, "node_level")
            if level not in self.levels:
                raise ValueError(f"node_level={level!r}: the levels are {list(self.levels)}")
        force_setattr(self, "node_level", level)
        per_node = self.leaves_per_cell()[self.levels.index(level)]
        count = self.leaves // per_node
        if self.nodes is not None:
            nodes = as_tuple(self.nodes, "nodes")
            if len(nodes) != count:
                has = f"{counted(len(nodes), 'name')}, the chain has {counted(count, 'node')}"
                raise ValueError(f"nodes has {has}")
            nodes = tuple(as_name(name, f"nodes[{i}]") for i, name in enumerate(nodes))
            force_setattr(self, "nodes", nodes)
        if self.leaf_indices is not None:
            rows = as_tuple(self.leaf_indices, "leaf_indices")
            if len(rows) != count:
                has = f"{counted(len(rows), 'row')}, the chain has {counted(count, 'node')}"
                raise ValueError(f"leaf_indices has {has}")
            indices = []
            for i, values in enumerate(rows):
                row = tuple(
                    as_int(value, f"leaf_indices[{i}][{j}]", 0, 2**31 - 1)
                    for j, value in enumerate(as_tuple(values, f"leaf_indices[{i}]"))
                )
                if len(row) != per_node:
                    raise ValueError(
                        f"leaf_indices[{i}] has {len(row)} entries, a node has {per_node} leaves"
                    )
                indices.append(row)
            force_setattr(self, "leaf_indices", tuple(indices))

    def leaves_per_cell(self) -> tuple[int, ...]:
        """The number of leaves of a cell of each level, leaf first."""
        per_cell = [1]
        for fanout in self.fanouts:
            per_cell.append(per_cell[-1] * fanout)
        return tuple(per_cell)

    @property
    def leaves(self) -> int:
        """The number of leaves of all roots of the chain."""
        return self.leaves_per_cell()[-1] * self.roots


class ClusterSpec(Record, frozen=True):
    """The chains of a cluster, and the cells that each tenant (virtual cluster) owns.

    :param chains: name -> `Chain`, not empty; `CellCluster` searches them in this order.
    :param virtual_clusters: tenant -> chain -> level -> number of cells of that level that it owns.
    :param pinned_cells: tenant -> name of the pinned cell -> (chain, level, index): the tenant owns
        this very cell as well; only requests that name it use it. Names are unique.
    :raises KeyError: a chain, level or tenant is unknown.
    :raises ValueError: a count is negative, a name is empty, a pinned cell does not exist, or two
        pinned cells have the same name.
    :raises TypeError: an argument is of a wrong type.

    ``check_feasible`` and `CellCluster` check that the assignments fit.

    >>> spec = ClusterSpec(
    ...     chains={"V100": Chain(levels=["gpu", "node"], fanouts=[8], roots=2)},
    ...     virtual_clusters={"A": {"V100": {"node": 1, "gpu": 9}}},
    ... )
    >>> spec.check_feasible()
    Traceback (most recent call last):
    hivecore.errors.InfeasibleAssignmentError: chain 'V100', level 'gpu': 1 cell too few
    """

    chains: Mapping[str, Chain]
    virtual_clusters: Mapping[str, Mapping[str, Mapping[str, int]]]
    pinned_cells: Mapping[str, Mapping[str, tuple[str, str, int]]] = {}

    def __post_init__(self) -> None:
        chains: dict[str, Chain] = {}
        for name, chain in as_mapping(self.chains, "chains").items():
            name = as_name(name, "a name in chains")
            chains[name] = chain
            as_instance(chain, f"chains[{name!r}]", Chain)
        if not chains:
            raise ValueError("chains must not be empty")
        owned: dict[str, dict[str, dict[str, int]]] = {}
        for tenant, by_chain in as_mapping(self.virtual_clusters, "virtual_clusters").items():
            tenant = as_name(tenant, "a name in virtual_clusters")
            owned[tenant] = {}
            place = f"virtual_clusters[{tenant!r}]"
            for name, by_level in as_mapping(by_chain, place).items():
                name = as_text(name, f"a chain in {place}")
                if name not in chains:
                    raise KeyError(f"{place}: no chain {name!r}, known are {sorted(chains)}")
                owned[tenant][name] = {}
                for level, count in as_mapping(by_level, f"{place}[{name!r}]").items():
                    level = as_text(level, f"a level in {place}[{name!r}]")
                    if level not in chains[name].levels:
                        raise KeyError(
                            f"{place}[{name!r}]: no level {level!r}, "
                            f"known are {list(chains[name].levels)}"
                        )
                    count = as_int(count, f"{place}[{name!r}][{level!r}]", 0, 2**31)
                    owned[tenant][name][level] = count
        force_setattr(self, "chains", chains)
        force_setattr(self, "virtual_clusters", owned)
        force_setattr(self, "pinned_cells", self._pins())

    def _pins(self) -> dict[str, dict[str, tuple[str, str, int]]]:
        pinned: dict[str, dict[str, tuple[str, str, int]]] = {}
        taken: set[str] = set()
        for tenant, pins in as_mapping(self.pinned_cells, "pinned_cells").items():
            tenant = as_text(tenant, "a name in pinned_cells")
            if tenant not in self.virtual_clusters:
                known = sorted(self.virtual_clusters)
                raise KeyError(f"pinned_cells: no virtual cluster {tenant!r}, known are {known}")
            pinned[tenant] = {}
            for name, pin in as_mapping(pins, f"pinned_cells[{tenant!r}]").items():
                name = as_name(name, f"a name in pinned_cells[{tenant!r}]")
                place = f"pinned_cells[{tenant!r}][{name!r}]"
                if name in taken:
                    raise ValueError(f"{place}: another pinned cell has this name")
                taken.add(name)
                pin = as_tuple(pin, place)
                if len(pin) != 3:
                    raise ValueError(f"{place} must be (chain, level, index), not {pin!r}")
                chain_name, level = as_text(pin[0], f"{place}[0]"), as_text(pin[1], f"{place}[1]")
                chain = self.chains.get(chain_name)
                if chain is None:
                    known = sorted(self.chains)
                    raise KeyError(f"{place}: no chain {chain_name!r}, known are {known}")
                if level not in chain.levels:
                    known = list(chain.levels)
                    raise KeyError(f"{place}: no level {level!r}, known are {known}")
                per_cell = chain.leaves_per_cell()[chain.levels.index(level)]
                last = chain.leaves // per_cell - 1
                pinned[tenant][name] = chain_name, level, as_int(pin[2], f"{place}[2]", 0, last)
        return pinned

    def check_feasible(self) -> None:
        """Raise `InfeasibleAssignmentError` if a chain has too few cells for the tenants.

        The message names the chain, the highest level with too few cells, and how many are missing.
        Pinned cells count as owned; only `CellCluster` checks that they also split other cells.
        Cost: O(tenants * levels). Source: HiveD (OSDI'20), section 3.
        """
        for name, chain in self.chains.items():
            pinned = [
                level
                for pins in self.pinned_cells.values()
                for pinned_in, level, _ in pins.values()
                if pinned_in == name
            ]
            spare = 1
            per_parent = (chain.roots, *reversed(chain.fanouts))
            for level, parts in zip(reversed(chain.levels), per_parent, strict=True):
                spare = spare * parts - pinned.count(level)
                spare -= sum(
                    cells.get(name, {}).get(level, 0) for cells in self.virtual_clusters.values()
                )
                if spare < 0:
                    raise InfeasibleAssignmentError(
                        f"chain {name!r}, level {level!r}: "
                        f"{-spare} cell{'s' if spare < -1 else ''} too few"
                    )
