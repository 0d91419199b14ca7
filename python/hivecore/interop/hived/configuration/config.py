"""HiveD's configuration file: physical cells, virtual clusters, and the addresses of all of them.

Reading goes through the document once and collects every mistake with its place. Nothing is made
per device: a chain is its shape and what the document spells out, so 65,536 devices take some
tens of milliseconds, most of them in the YAML parser.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

from hivecore.cells import Chain, ClusterSpec
from hivecore.interop.hived.configuration._cell_types import read_cell_types
from hivecore.interop.hived.configuration._document import write_document
from hivecore.interop.hived.configuration._keys import (
    BLOCK,
    HOMES,
    OF_CLUSTER,
    OF_CONFIGURATION,
    THRESHOLD,
)
from hivecore.interop.hived.configuration._physical_cells import PhysicalChain, read_physical_cells
from hivecore.interop.hived.configuration._tenants import Tenant, check_fit, read_virtual_clusters
from hivecore.interop.hived.configuration._yaml_text import read_yaml
from hivecore.interop.hived.configuration.addresses import ChainAddresses, TenantAddresses
from hivecore.interop.hived.configuration.elsewhere import configuration_in
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import ConfigError, Problems

__all__ = ["ConfigError", "HivedConfig"]

_NO_MAPPING = "a configuration must be a mapping, not {}"
_UNOWNED = "belongs to no tenant: no virtual cluster has it, and it is a cell like any other"
_EMPTY = """\
the configuration is empty, or all of it is commented out, as in HiveD's default one; write at least
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 8, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: name-of-a-node}
virtualClusters:
  name-of-a-tenant:
    virtualCells:
    - {cellType: NODE, cellNumber: 1}"""


@dataclass(frozen=True)
class HivedConfig:
    """A configuration of HiveD that has been read and found to be sound.

    >>> config = HivedConfig.read(
    ...     {
    ...         "physicalCluster": {
    ...             "cellTypes": {
    ...                 "node": {"childCellType": "gpu", "childCellNumber": 8, "isNodeLevel": True},
    ...                 "rack": {"childCellType": "node", "childCellNumber": 2},
    ...             },
    ...             "physicalCells": [
    ...                 {"cellType": "rack", "cellChildren": [{"cellAddress": "n1"}, {}]}
    ...             ],
    ...         },
    ...         "virtualClusters": {"A": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]}},
    ...     }
    ... )
    >>> config.spec.chains["rack"].nodes
    ('n1', '1')
    >>> config.address("rack", "gpu", 10)
    '0/1/2'
    >>> config.virtual_address("A", "rack", "rack", None, "gpu", 10)
    'A/0/1/10'
    """

    spec: ClusterSpec
    """Chains by the name of their top cell type, in the order of ``physicalCells``; their levels
    have the names of the cell types."""
    leaf_types: tuple[str, ...]
    """The cell types that are devices, in the order of their first chains."""
    force_bind_threshold: int
    """How often a pod may come back unbound before it is bound without asking Kubernetes."""
    waiting_block_milliseconds: int
    """How long a pod that has to wait holds up all others."""
    _addresses: Mapping[str, ChainAddresses] = field(repr=False)
    _tenants: Mapping[str, TenantAddresses] = field(repr=False)
    remarks: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """What is no mistake, but perhaps not meant, each after its place in the document: pinned cells
    that belong to no virtual cluster."""

    @classmethod
    def read(cls, source: str | os.PathLike[str] | TextIO | Mapping[str, Any]) -> Self:
        """Read a configuration.

        :param source: path of a YAML file, an open one, or the document as a mapping.
        :raises ConfigError: it cannot be used; all mistakes are named, with their places.
        :raises OSError: the file cannot be read.
        :raises ImportError: PyYAML is missing (a mapping needs none).

        A key that HiveD does not know, or that belongs elsewhere, is a mistake: HiveD would ignore
        it. So is a document that has the configuration somewhere in it, such as a ConfigMap or
        OpenPAI's services-configuration.yaml; the message says where. The older names
        ``reservedCells`` and ``reservationId`` are read as ``pinnedCells`` and ``pinnedCellId``.
        Beyond what HiveD refuses, these are mistakes: another number of ``cellChildren`` than the
        type has, a device in two cells, two siblings with one address, a type with two node levels.
        A chain of which no tenant owns a part is none. Cost: O(what is written + nodes).

        >>> try:
        ...     HivedConfig.read({"physicalCluster": {"physicalCells": [{"cellType": "rack"}]}})
        ... except ConfigError as error:
        ...     error.problems
        [('physicalCluster.physicalCells[0].cellType', "'rack' is not among the cell types")]
        """
        problems = Problems()
        document: Any = source
        if not isinstance(source, Mapping):
            text = _text(source, problems)
            document = None if text is None else read_yaml(text, problems)
            problems.raise_if_any()
        if not isinstance(document, Mapping):
            problems.add(None, _EMPTY if document is None else _NO_MAPPING.format(show(document)))
            problems.raise_if_any()
        where = "" if OF_CONFIGURATION & document.keys() else configuration_in(document)
        if where:
            problems.add(None, where)
            problems.raise_if_any()
        chains, tenants, remarks = _read_document(document, problems)
        threshold = _knob(document, THRESHOLD, 3, problems)
        block = _knob(document, BLOCK, 0, problems)
        problems.raise_if_any()
        spec, leaf_types, addresses, owned = _summary(chains, tenants)
        return cls(spec, leaf_types, threshold, block, addresses, owned, remarks)

    @property
    def document(self) -> dict[str, Any]:
        """A document that reads as this very configuration, as plain data for JSON or YAML.

        What was read and means nothing, such as ``skuTypes`` or the id of a pinned cell without an
        owner, is not in it. O(cells that are spelled out).
        """
        return {
            **write_document(self.spec, self._addresses, self._tenants),
            THRESHOLD: self.force_bind_threshold,
            BLOCK: self.waiting_block_milliseconds,
        }

    def address(self, chain: str, level: str, index: int) -> str:
        """The address of a physical cell, counted within its level from the left.

        :raises KeyError: there is no such chain or level in it.
        :raises IndexError: the level has no such cell.

        O(levels). For all cells of a level, `addresses` is faster.
        """
        number = self._level(chain, level)
        self._check_index(index, self._cells(chain, number), f"{chain!r}, level {level!r}")
        return self._addresses[chain].address(number, index)

    def addresses(self, chain: str, level: str) -> list[str]:
        """The addresses of all physical cells of a level, left to right; O(cells).

        :raises KeyError: there is no such chain or level in it.
        """
        return self._addresses[chain].addresses(self._level(chain, level))

    def locate(self, address: str) -> tuple[tuple[str, str, int], ...]:
        """The physical cells at an address, as (chain, level, index), in the order of chains.

        Several chains may have one: a machine with two kinds of devices is a node of each of two
        chains. O(chains * levels), and once O(top-level cells).

        >>> types = {"node": {"childCellType": "gpu", "childCellNumber": 2, "isNodeLevel": True}}
        >>> cells = [{"cellType": "node"}, {"cellType": "node", "cellAddress": "b"}]
        >>> config = HivedConfig.read(
        ...     {"physicalCluster": {"cellTypes": types, "physicalCells": cells}}
        ... )
        >>> config.locate("b/1"), config.locate("b/2")
        ((('node', 'gpu', 3),), ())
        """
        parts = address.split("/")
        places = []
        for name, chain in self._addresses.items():
            place = chain.find(parts)
            if place is not None:
                places.append((name, self.spec.chains[name].levels[place[0]], place[1]))
        return tuple(places)

    def preassigned(self, vc: str) -> list[tuple[str, str, str | None, int]]:
        """The cells that a virtual cluster owns: entry k is the one with the address ``VC/<k>``.

        Each is (chain, level, id of the pinned cell or None, rank among those of its kind).

        :raises KeyError: there is no such virtual cluster.
        """
        return [
            (run.chain, self.spec.chains[run.chain].levels[run.level], run.pin, run.first + i)
            for run in self._tenants[vc].runs
            for i in range(run.count)
        ]

    def virtual_address(
        self, vc: str, chain: str, owned_level: str, pin: str | None, level: str, index: int
    ) -> str:
        """The address of a virtual cell.

        :param owned_level: level of the owned cell that it is a part of.
        :param pin: id of the pinned cell that this is; None: it is none.
        :param level: its own level.
        :param index: its place among the cells of that level, from the left over all owned cells
            of this kind.
        :raises KeyError: there is no such virtual cluster, chain, level or owned cell.
        :raises IndexError: there are fewer cells.

        O(levels).
        """
        root, own = self._level(chain, owned_level), self._level(chain, level)
        tenant = self._tenants[vc]
        cells = tenant.owned(chain, root, pin)
        for fanout in self.spec.chains[chain].fanouts[own:root]:
            cells *= fanout
        what = f"{vc!r}, chain {chain!r}, owned level {owned_level!r}, level {level!r}"
        self._check_index(index, cells if own <= root else 0, what)
        return tenant.address(chain, root, pin, own, index)

    def locate_virtual(self, address: str) -> tuple[str, str, str, str | None, str, int] | None:
        """The virtual cell at an address, ``None`` if there is none: virtual cluster, chain, owned
        level, pin, level and index, as `virtual_address` takes them.

        O(virtual clusters + levels).
        """
        for vc, tenant in self._tenants.items():
            place = tenant.find(address)
            if place is not None:
                chain, root, pin, level, index = place
                levels = self.spec.chains[chain].levels
                return vc, chain, levels[root], pin, levels[level], index
        return None

    def _level(self, chain: str, level: str) -> int:
        levels = self.spec.chains[chain].levels
        if level not in levels:
            raise KeyError(f"level={level!r}: the levels of {chain!r} are {list(levels)}")
        return levels.index(level)

    def _cells(self, chain: str, level: int) -> int:
        shape = self.spec.chains[chain]
        return shape.leaves // shape.leaves_per_cell()[level]

    @staticmethod
    def _check_index(index: int, cells: int, where: str) -> None:
        if not 0 <= index < cells:
            raise IndexError(f"index={index}: {where} has {cells} cells")


def _text(source: Any, problems: Problems) -> str | None:
    text: Any = None
    try:
        if isinstance(source, (str, os.PathLike)):
            text = Path(source).read_text("utf-8")
        elif hasattr(source, "read"):
            text = source.read()
            if isinstance(text, (bytes, bytearray)):
                text = bytes(text).decode("utf-8")
    except UnicodeDecodeError as error:
        problems.add(None, f"is no UTF-8 text: {error.reason} at byte {error.start}")
        return None
    if not isinstance(text, str):
        what = show(source if text is None else text)
        problems.add(None, f"a configuration is read from a path, a text or a mapping, not {what}")
        return None
    return text


def _read_document(
    document: Mapping[Any, Any], problems: Problems
) -> tuple[dict[str, PhysicalChain], dict[str, Tenant], tuple[tuple[str, str], ...]]:
    problems.known(document, OF_CONFIGURATION, None, HOMES)
    at = None, "physicalCluster"
    if document.get("physicalCluster") is None:
        problems.add(at, "is missing")
    cluster = problems.mapping(document.get("physicalCluster"), at)
    problems.known(cluster, OF_CLUSTER, at, HOMES)
    lines = read_cell_types(cluster.get("cellTypes"), (at, "cellTypes"), problems)
    listed = cluster.get("physicalCells")
    chains, pins = read_physical_cells(listed, (at, "physicalCells"), lines, problems)
    if not problems.found and not chains:
        problems.add((at, "physicalCells"), "lists no cell")
    before = len(problems.found)
    at = None, "virtualClusters"
    tenants = read_virtual_clusters(document.get("virtualClusters"), at, chains, pins, problems)
    if before == 0:
        # Whether all fits says nothing where physical cells are not known.
        check_fit(tenants, chains, at, problems)
    owned = {name for tenant in tenants.values() for name in tenant.pins}
    remarks = [
        (problems.path(pin.place), f"the pinned cell {show(name)} {_UNOWNED}")
        for name, pin in pins.items()
        if name not in owned
    ]
    return chains, tenants, tuple(remarks)


def _knob(document: Mapping[Any, Any], name: str, default: int, problems: Problems) -> int:
    value = document.get(name)
    number = None if value is None else problems.count(value, (None, name), low=0)
    return default if number is None else number


def _summary(
    chains: Mapping[str, PhysicalChain], tenants: Mapping[str, Tenant]
) -> tuple[
    ClusterSpec, tuple[str, ...], Mapping[str, ChainAddresses], Mapping[str, TenantAddresses]
]:
    spec = ClusterSpec(
        chains={name: _chain(chain) for name, chain in chains.items()},
        virtual_clusters={
            name: {
                chain: {chains[chain].line.levels[level]: count for level, count in owned.items()}
                for chain, owned in tenant.owned.items()
            }
            for name, tenant in tenants.items()
        },
        pinned_cells={
            name: {
                pin: (cell.chain, chains[cell.chain].line.levels[cell.level], cell.index)
                for pin, cell in tenant.pins.items()
            }
            for name, tenant in tenants.items()
            if tenant.pins
        },
    )
    fanouts = {name: chain.line.fanouts for name, chain in chains.items()}
    return (
        spec,
        tuple(dict.fromkeys(chain.line.levels[0] for chain in chains.values())),
        {name: chain.addresses() for name, chain in chains.items()},
        {name: TenantAddresses(name, fanouts, tenant.runs) for name, tenant in tenants.items()},
    )


def _chain(chain: PhysicalChain) -> Chain:
    indices = None
    if chain.devices:
        plain = tuple(range(chain.devices_per_node))
        indices = [chain.devices.get(node, plain) for node in range(len(chain.nodes))]
    return Chain(
        levels=chain.line.levels,
        fanouts=chain.line.fanouts,
        roots=len(chain.roots),
        node_level=chain.line.levels[chain.node_level],
        nodes=chain.nodes,
        leaf_indices=indices,
    )
