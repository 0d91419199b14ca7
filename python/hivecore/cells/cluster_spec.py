"""What a cluster is made of and who owns which cells: the plain data behind `VirtualClusters`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hivecore import _cells
from hivecore._arguments import as_int, as_mapping, as_name, as_tuple
from hivecore.errors import InfeasibleAssignmentError

__all__ = ["Chain", "ClusterSpec"]


@dataclass(frozen=True, slots=True)
class Chain:
    """One homogeneous part of a cluster: `roots` equal trees of cells.

    :param levels: names of the 1 to 16 levels, leaf first.
    :param fanouts: ``fanouts[i]`` cells of ``levels[i]`` make one cell of ``levels[i + 1]``;
        integers >= 1, one fewer than levels.
    :param roots: cells of the last level, >= 1; at most 2**31 leaves in all.
    :raises ValueError: the shape is not allowed, or two levels have one name.
    :raises TypeError: an argument is of a wrong type.

    >>> Chain(levels=["gpu", "socket", "node"], fanouts=[4, 2], roots=3).leaves
    24
    """

    levels: Sequence[str]
    fanouts: Sequence[int]
    roots: int

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
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "fanouts", fanouts)
        object.__setattr__(self, "roots", as_int(self.roots, "roots", 1, 2**31))
        if self.leaves > 2**31:
            raise ValueError(f"fanouts and roots make {self.leaves} leaves, at most 2**31")

    def leaves_per_cell(self) -> tuple[int, ...]:
        """How many leaves a cell of each level has, leaf first."""
        per_cell = [1]
        for fanout in self.fanouts:
            per_cell.append(per_cell[-1] * fanout)
        return tuple(per_cell)

    @property
    def leaves(self) -> int:
        """How many leaves the chain has."""
        return self.leaves_per_cell()[-1] * self.roots


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The chains of a heterogeneous cluster and the cells that each virtual cluster owns.

    :param chains: name -> `Chain`, not empty.
    :param virtual_clusters: tenant -> chain -> level -> how many cells of that level it owns.
    :raises KeyError: an assignment names an unknown chain or level.
    :raises ValueError: a count is negative, or a name is empty.
    :raises TypeError: an argument is of a wrong type.

    Whether the assignments fit is asked by `VirtualClusters`, or by ``check_feasible``.

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

    def __post_init__(self) -> None:
        chains = dict(as_mapping(self.chains, "chains"))
        if not chains:
            raise ValueError("chains must not be empty")
        for name, chain in chains.items():
            as_name(name, "a name in chains")
            if not isinstance(chain, Chain):
                raise TypeError(f"chains[{name!r}] must be a Chain, not {type(chain).__name__}")
        owned: dict[str, dict[str, dict[str, int]]] = {}
        for tenant, by_chain in as_mapping(self.virtual_clusters, "virtual_clusters").items():
            as_name(tenant, "a name in virtual_clusters")
            owned[tenant] = {}
            place = f"virtual_clusters[{tenant!r}]"
            for name, by_level in as_mapping(by_chain, place).items():
                if name not in chains:
                    raise KeyError(f"{place}: no chain {name!r}, known are {sorted(chains)}")
                owned[tenant][name] = {}
                for level, count in as_mapping(by_level, f"{place}[{name!r}]").items():
                    if level not in chains[name].levels:
                        raise KeyError(
                            f"{place}[{name!r}]: no level {level!r}, "
                            f"known are {list(chains[name].levels)}"
                        )
                    count = as_int(count, f"{place}[{name!r}][{level!r}]", 0, 2**31)
                    owned[tenant][name][level] = count
        object.__setattr__(self, "chains", chains)
        object.__setattr__(self, "virtual_clusters", owned)

    def check_feasible(self) -> None:
        """Raise `InfeasibleAssignmentError` where a chain cannot hold what is owned of it.

        It names the chain, the highest level at which cells are missing, and how many.
        Cost: O(tenants * levels). Source: HiveD (OSDI'20), section 3.
        """
        for name, chain in self.chains.items():
            owned = [
                sum(cells.get(name, {}).get(level, 0) for cells in self.virtual_clusters.values())
                for level in chain.levels
            ]
            short = _cells.shortfall(chain.fanouts, chain.roots, owned)
            if short is not None:
                level, missing = short
                raise InfeasibleAssignmentError(
                    f"chain {name!r}, level {chain.levels[level]!r}: "
                    f"{missing} cell{'s' if missing > 1 else ''} too few"
                )
