"""`virtualClusters`: what each tenant owns, and whether all of it fits.

It fits if S >= 0 on every level of every chain: S(top) = F(top) - owed(top) and S(l) = S(l + 1) *
fanout(l) + F(l) - owed(l), where F counts the cells that are free, but not in a free one, once the
pinned cells are taken, and owed what is owned besides those (HiveD, OSDI'20, section 3).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hivecore.interop.hived.configuration._keys import (
    HOMES,
    OF_PINNED_CELL,
    OF_TENANT,
    OF_VIRTUAL_CELL,
)
from hivecore.interop.hived.configuration._physical_cells import PhysicalChain, Pin
from hivecore.interop.hived.configuration.addresses import Preassigned
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.kubernetes.problems import Place, Problems


@dataclass(slots=True)
class Tenant:
    """What one virtual cluster owns."""

    runs: list[Preassigned] = field(default_factory=list)
    """In the order of its list, pinned cells last."""
    owned: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Chain -> level -> how many cells, pinned ones apart."""
    pins: dict[str, Pin] = field(default_factory=dict)


def read_virtual_clusters(
    value: Any,
    place: Place,
    chains: Mapping[str, PhysicalChain],
    pins: Mapping[str, Pin],
    problems: Problems,
) -> dict[str, Tenant]:
    """The tenants by name; after a mistake they may be incomplete."""
    tenants: dict[str, Tenant] = {}
    users: dict[str, Place] = {}
    for name, entry, at in problems.named(value, place):
        tenant = tenants[name] = Tenant()
        if name in HOMES:
            problems.add(at, f"has no meaning here, it belongs to {HOMES[name]}")
        fields = problems.mapping(entry, at)
        problems.known(fields, OF_TENANT, at, HOMES)
        cells = problems.items(fields.get("virtualCells"), (at, "virtualCells"))
        for position, cell in enumerate(cells):
            _read_cells(cell, ((at, "virtualCells"), position), chains, tenant, problems)
        for key in ("pinnedCells", "reservedCells"):
            for position, pin in enumerate(problems.items(fields.get(key), (at, key))):
                _read_pin(pin, ((at, key), position), pins, users, tenant, problems)
    return tenants


def _read_cells(
    value: Any,
    at: Place,
    chains: Mapping[str, PhysicalChain],
    tenant: Tenant,
    problems: Problems,
) -> None:
    fields = problems.mapping(value, at)
    problems.known(fields, OF_VIRTUAL_CELL, at, HOMES)
    number = problems.count(fields.get("cellNumber"), (at, "cellNumber"), low=0)
    place = _read_path(fields.get("cellType"), (at, "cellType"), chains, problems)
    if number is None or place is None:
        return
    chain, level = place
    first = tenant.owned[chain][level]
    tenant.owned[chain][level] += number
    tenant.runs.append(Preassigned(chain, level, None, first, number))


def _read_path(
    value: Any, at: Place, chains: Mapping[str, PhysicalChain], problems: Problems
) -> tuple[str, int] | None:
    """Chain and level of a path like ``rack.node.socket``."""
    if value is None:
        problems.add(at, "is missing")
        return None
    text = problems.name(value, at)
    if text is None:
        return None
    # A type's own name may have dots in it.
    chain = max((c for c in chains if f"{text}.".startswith(f"{c}.")), key=len, default=None)
    if chain is None:
        name = text.partition(".")[0]
        problems.add(at, f"no physical cell is of the type {show(name)}")
        return None
    levels = chains[chain].line.levels
    level = len(levels) - 1
    rest = text[len(chain) + 1 :]
    while rest:
        below = [i for i in range(level) if f"{rest}.".startswith(f"{levels[i]}.")]
        if not below:
            path = ".".join(reversed(levels))
            problems.add(at, f"{show(text)} is no part of {show(path)}")
            return None
        level = max(below, key=lambda i: len(levels[i]))
        rest = rest[len(levels[level]) + 1 :]
    return chain, level


def _read_pin(
    value: Any,
    at: Place,
    pins: Mapping[str, Pin],
    users: dict[str, Place],
    tenant: Tenant,
    problems: Problems,
) -> None:
    fields = problems.mapping(value, at)
    problems.known(fields, OF_PINNED_CELL, at, HOMES)
    key = "reservationId" if fields.get("reservationId") is not None else "pinnedCellId"
    if key == "reservationId" and fields.get("pinnedCellId") not in (None, fields[key]):
        problems.add((at, "pinnedCellId"), "differs from reservationId, its older name")
    if fields.get(key) is None:
        problems.add((at, key), "is missing")
        return
    name = problems.name(fields[key], (at, key))
    if name is None:
        return
    if name not in pins:
        problems.add((at, key), f"no physical cell has the id {show(name)}")
    elif name in users:
        problems.add((at, key), f"{show(name)} is owned by {problems.path(users[name])} already")
    else:
        users[name] = at
        tenant.pins[name] = pins[name]
        tenant.runs.append(Preassigned(pins[name].chain, pins[name].level, name, 0, 1))


def check_fit(
    tenants: Mapping[str, Tenant],
    chains: Mapping[str, PhysicalChain],
    place: Place,
    problems: Problems,
) -> None:
    """Report pinned cells in pinned cells, and levels on which cells are missing."""
    pins: dict[str, dict[str, Pin]] = defaultdict(dict)
    for tenant in tenants.values():
        for name, pin in tenant.pins.items():
            pins[pin.chain][name] = pin
    for name, chain in chains.items():
        if _check_overlap(pins[name], chain, problems):
            _check_chain(name, chain, tenants, pins[name], place, problems)


def _above(pin: Pin, chain: PhysicalChain) -> Iterator[tuple[int, int]]:
    """The cells that a pinned one is in, by level and index."""
    index = pin.index
    for level, fanout in enumerate(chain.line.fanouts[pin.level :], pin.level + 1):
        index //= fanout
        yield level, index


def _check_overlap(pins: Mapping[str, Pin], chain: PhysicalChain, problems: Problems) -> bool:
    taken = {(pin.level, pin.index): name for name, pin in pins.items()}
    fits = True
    for name, pin in pins.items():
        for above in _above(pin, chain):
            outer = taken.get(above)
            if outer is not None:
                fits = False
                problems.add(
                    pin.place, f"{show(name)} is inside {show(outer)}, which is owned as well"
                )
    return fits


def _check_chain(
    name: str,
    chain: PhysicalChain,
    tenants: Mapping[str, Tenant],
    pins: Mapping[str, Pin],
    place: Place,
    problems: Problems,
) -> None:
    levels, fanouts = chain.line.levels, chain.line.fanouts
    split: list[set[int]] = [set() for _ in levels]
    for pin in pins.values():
        for level, index in _above(pin, chain):
            split[level].add(index)
    left = 0
    for level in range(len(levels) - 1, -1, -1):
        if level == len(fanouts):
            cells = len(chain.roots)
        else:
            cells = len(split[level + 1]) * fanouts[level]
            left *= fanouts[level]
        pinned = sum(pin.level == level for pin in pins.values())
        owners = {
            tenant: count
            for tenant, cells_of in tenants.items()
            if (count := cells_of.owned[name][level] if name in cells_of.owned else 0)
        }
        left += cells - len(split[level]) - pinned - sum(owners.values())
        if left < 0:
            listed = ", ".join(f"{tenant} {count}" for tenant, count in list(owners.items())[:8])
            more = ", ..." if len(owners) > 8 else ""
            problems.add(
                place,
                f"chain {show(name)}, level {show(levels[level])}: {-left} "
                f"cell{'s' if left < -1 else ''} too few for what is owned ({listed}{more})"
                + (f" beside {len(pins)} pinned cells" if pins else ""),
            )
            left = 0
