"""A configuration written down again: the shortest document that reads as the same one."""

from collections.abc import Mapping
from typing import Any

from hivecore.cells import Chain, ClusterSpec
from hivecore.interop.hived.configuration.addresses import ChainAddresses, TenantAddresses


def write_document(
    spec: ClusterSpec,
    addresses: Mapping[str, ChainAddresses],
    tenants: Mapping[str, TenantAddresses],
) -> dict[str, Any]:
    """Plain data for JSON or YAML; what the configuration ignores is left out."""
    types: dict[str, Any] = {}
    cells: dict[int, Any] = {}
    for name, chain in spec.chains.items():
        for level, child, number in zip(
            chain.levels[1:], chain.levels[:-1], chain.fanouts, strict=True
        ):
            types[level] = {
                "childCellType": child,
                "childCellNumber": number,
                "isNodeLevel": level == chain.node_level,
            }
        pins = {
            (chain.levels.index(level), index): pin
            for own in spec.pinned_cells.values()
            for pin, (pinned_in, level, index) in own.items()
            if pinned_in == name
        }
        writer = _Writer(addresses[name], pins)
        for root, place in enumerate(addresses[name].places):
            cells[place] = {"cellType": name, **writer.cell(len(chain.fanouts), root)}
    return {
        "physicalCluster": {
            "cellTypes": types,
            "physicalCells": [cell for _, cell in sorted(cells.items())],
        },
        "virtualClusters": {name: _owned(spec, tenant) for name, tenant in tenants.items()},
    }


class _Writer:
    """Spells out the cells of a chain that differ from the default, and their siblings."""

    def __init__(self, addresses: ChainAddresses, pins: Mapping[tuple[int, int], str]) -> None:
        self.addresses = addresses
        self.pins = pins
        self.torn: list[set[int]] = [set()]
        """Per level the cells which contain such a cell."""
        for level, fanout in enumerate(addresses.fanouts):
            special = self.torn[level].union(addresses.parts[level])
            special.update(index for pinned_at, index in pins if pinned_at == level)
            self.torn.append({index // fanout for index in special})

    def cell(self, level: int, index: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        part = self.addresses.parts[level].get(index)
        if part is not None:
            fields["cellAddress"] = part
        if (level, index) in self.pins:
            fields["pinnedCellId"] = self.pins[level, index]
        if index in self.torn[level]:
            fanout = self.addresses.fanouts[level - 1]
            fields["cellChildren"] = [
                self.cell(level - 1, child) for child in range(index * fanout, (index + 1) * fanout)
            ]
        return fields


def _owned(spec: ClusterSpec, tenant: TenantAddresses) -> dict[str, Any]:
    return {
        "virtualCells": [
            {"cellType": _path(spec.chains[run.chain], run.level), "cellNumber": run.count}
            for run in tenant.runs
            if run.pin is None
        ],
        "pinnedCells": [{"pinnedCellId": run.pin} for run in tenant.runs if run.pin is not None],
    }


def _path(chain: Chain, level: int) -> str:
    return ".".join(reversed(chain.levels[level:]))
