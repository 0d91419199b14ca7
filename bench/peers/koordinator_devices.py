"""Koordinator's choice of devices on a node, defects included: greedy, one type after the other.

Koordinator's device plugin at commit a7a1b76b, for the filter of a node and the reservation that
follows it. The plugin chooses the primary type as if the pod needed nothing else, gives the other
types what is near to that, and never tries a second choice of the primary type. Victims,
reservations and designated devices are left out.

A device limits only the amounts that it reports: of a GPU without "core" a pod gets any. Once pods
are charged such an amount on a device in use, nothing of it is left for the next one. So a name
that is missing from amounts differs from a name with 0.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from hivecore.devices import Partition, PartitionTable
from hivecore.reference.devices.labels import selects
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.templates import template_of

#: The plugin walks them in the order of a hash map: which of several refusals it tells is chance.
TYPES = ("gpu", "rdma", "fpga")
WEIGHTS = {"memory_ratio": 1, "memory": 1, "share": 1}  # of scores; cores have none
MODELS = ("H100", "H800", "H20")
WORTH = {8: 10_000, 4: 100, 2: 1}  # of a partition that stays whole, by its size
LEVELS = {None: 0, "node": 1, "socket": 1, "numa": 2, "pcie": 3, "device": 4}

Amounts = dict[str, int]
Charges = tuple[Charge, ...]


class Refusal(NamedTuple):
    code: str
    resolvable: bool  # whether it may end when pods end


class View(NamedTuple):
    """The devices of a type that a pod may use, by minor."""

    total: dict[int, Amounts]
    free: dict[int, Amounts]
    used: set[int]  # those of which something is used


class Demand(NamedTuple):
    need: Any
    count: int
    amounts: Amounts
    switches: frozenset[str] = frozenset()  # of the primary type; GPUs do not follow them
    least: int = 0  # with one for each of those switches
    most: int = 0


def place(
    state: NodeState,
    request: Any,
    strategy: str | None = None,
    *,
    numa: Collection[int] | None = None,
    reserving: bool = False,
) -> Charges | Refusal:
    """What the node would charge the pod; `state` stays as it is.

    :param request: a `hivecore.devices.DeviceRequest`; what it needs of the host is not read.
    :param strategy: "least_allocated" or "most_allocated" compares devices; a filter has none.
    :param numa: the only NUMA nodes to use; `None`: all.
    :param reserving: whether the plugin reserves the node, and does not filter it.
    """
    gpus, inventory = request.need("gpu"), state.inventory
    if gpus is not None and gpus.shared:
        if request.isolation_provider not in ("", inventory.isolation_provider):
            return Refusal("no_isolation", False)
        if not inventory.shareable:
            return Refusal("unshareable", False)
    demands = demands_of(state, request, reserving)
    if isinstance(demands, Refusal):
        return demands
    chosen: dict[str, Charges] = {}
    switches: frozenset[str] = frozenset()
    joint = request.joint if len(demands) > 1 else ()
    for type in [*joint, *(type for type in demands if type not in joint)]:
        demand, view = demands[type], view_of(state, demands[type].need, numa)
        most = max(demand.count, len(switches) if type in joint else 0)
        least = most if request.same_pcie else demand.count
        near = switches if type in joint and type != "gpu" else frozenset()
        choose = _gpus if type == "gpu" else _in_order
        demand = demand._replace(switches=near, least=least, most=most)
        answer = choose(state, request, demand, view, strategy)
        if isinstance(answer, Refusal):
            return answer
        chosen[type] = answer
        if len(chosen) == 1:
            switches = _switches_of(state, answer)
        is_joined = request.same_pcie and len(chosen) == len(joint)
        if is_joined and {_switches_of(state, entry) for entry in chosen.values()} != {switches}:
            return Refusal("joint_violation", True)
    template = (template_of(gpus, inventory) if gpus is not None else "") or ""
    return tuple(
        _with_all_memory(state, charge, template)
        for type in TYPES
        for charge in chosen.get(type, ())
    )


def _with_all_memory(state: NodeState, charge: Charge, template: str) -> Charge:
    """The charge of a GPU in bytes and in percent, both cut off."""
    if charge.type != "gpu":
        return charge
    amounts = dict(charge.amounts)
    total = state.total("gpu", charge.minor).get("memory", 0)
    if "memory" not in amounts:
        amounts["memory"] = amounts.get("memory_ratio", 0) * total // 100
    elif "memory_ratio" not in amounts:
        amounts["memory_ratio"] = int(amounts["memory"] / total * 100) if total else 0
    return charge._replace(amounts=amounts, template=template)


def node_score(state: NodeState, request: Any, strategy: str) -> int | Refusal:
    """How good the node is: of each type the score of all devices as if they were a single one.

    The plugin counts a single device of the request, and of GPU memory bytes or percent alone.
    """
    demands = demands_of(state, request)
    if isinstance(demands, Refusal):
        return demands
    points = 0
    for demand in demands.values():
        view = view_of(state, demand.need, None)
        if view.total:
            total, free = _sum(view.total), _sum(view.free)
            points += score(strategy, demand.amounts, total, free)
    return points


def _sum(amounts: dict[int, Amounts]) -> Amounts:
    names = {name for amount in amounts.values() for name in amount}
    return {name: sum(amount.get(name, 0) for amount in amounts.values()) for name in names}


def score(strategy: str, wanted: Amounts, total: Amounts, free: Amounts) -> int:
    """0 to 100: the share that would be in use ("most_allocated"), or free."""
    points = weights = 0
    for name, weight in WEIGHTS.items():
        has, left = total.get(name, 0), free.get(name, 0)
        if has:
            used = has - left + wanted.get(name, 0) if has >= left else has
            share = min(used, has) if strategy == "most_allocated" else max(has - used, 0)
            points += weight * (share * 100 // has)
            weights += weight
    return points // weights if weights else 0


# --- what a pod may use


def demands_of(
    state: NodeState, request: Any, reserving: bool = False
) -> dict[str, Demand] | Refusal:
    """How many devices of each type it needs, and what of each.

    A well planned node leaves what is joint with whole GPUs to its agent until it is reserved. "All
    devices" counts unhealthy ones, too, which then fail it.
    """
    gpus, primary = request.need("gpu"), next(iter(request.joint), None)
    planned = state.inventory.secondary_well_planned and not reserving
    demands = {}
    for type in TYPES:
        need, devices = request.need(type), state.devices.get(type, {}).values()
        is_joint = primary not in (None, type) and gpus is not None and not gpus.shared
        if need is None or (planned and is_joint):
            continue
        count, minors = need.count, state.minors(type)
        if need.every and type != "gpu":
            labelled = sum(selects(need.selector, device.labels) for device in devices)
            count = labelled if need.selector else len(minors)
        if not minors or not count:
            return Refusal("no_devices", False)
        demands[type] = Demand(need, count, dict(need.amounts))
    for type, demand in demands.items():
        if demand.need.vf_selector is not None and not any(
            device.vf_groups for device in state.devices.get(type, {}).values()
        ):
            return Refusal("no_virtual_functions", False)
    return demands


def view_of(state: NodeState, need: Any, numa: Collection[int] | None) -> View:
    left = {minor: _left(state, need.type, minor) for minor in sorted(state.minors(need.type))}
    view = View({}, {}, set())
    if not any(any(amounts.values()) for amounts in left.values()):
        return view
    for minor, device in sorted(state.devices.get(need.type, {}).items()):
        on_numa = numa is None or (_has_place(device) and device.numa in (None, -1, *numa))
        if on_numa and selects(need.selector, device.labels):
            total = view.total[minor] = state.total(need.type, minor)
            view.free[minor] = total
            if any(left[minor][name] < amount for name, amount in total.items()):
                view.free[minor] = left[minor]
                view.used.add(minor)
    return view


def _left(state: NodeState, type: str, minor: int) -> Amounts:
    """What pods have left of a device, by all names that it reports or that they are charged."""
    left = state.total(type, minor)
    for charge in state.charges_on(type, minor):
        for name, amount in charge.amounts.items():
            left[name] = left.get(name, 0) - amount
    return {name: max(amount, 0) for name, amount in left.items()}


def _fits(wanted: Amounts, free: Amounts) -> bool:
    return all(wanted[name] <= free[name] for name in wanted if name in free)


def _has_place(device: Any) -> bool:
    return any(place is not None for place in (device.socket, device.numa, device.pcie))


def _switches_of(state: NodeState, charges: Charges) -> frozenset[str]:
    """Devices that have a place and no switch are on the switch of no name."""
    devices = [state.devices[charge.type][charge.minor] for charge in charges]
    return frozenset(device.pcie or "" for device in devices if _has_place(device))


# --- NICs, FPGAs, and GPUs whose places are not known


def _in_order(
    state: NodeState, request: Any, demand: Demand, view: View, strategy: str | None
) -> Charges | Refusal:
    """The best device of each switch, the second of each, then all others."""
    type, points = demand.need.type, dict.fromkeys(view.free, 0)
    if strategy is not None:
        for minor in points:
            points[minor] = score(strategy, demand.amounts, view.total[minor], view.free[minor])
    ranked = sorted(points, key=lambda minor: (-points[minor], minor))
    seen, rounds = dict.fromkeys(demand.switches, 0), dict[int, int]()
    for minor in ranked:
        device = state.devices[type][minor]
        switch = device.pcie or ""
        if _has_place(device) and switch in seen:
            rounds[minor] = seen[switch]
            seen[switch] += 1
    chosen: list[Charge] = []
    for minor in sorted(ranked, key=lambda minor: rounds.get(minor, len(ranked))):
        free = view.free[minor]
        if len(chosen) == demand.most or not any(free.values()) or not _fits(demand.amounts, free):
            continue
        functions: list[str | None] = [None]
        if demand.need.vf_selector is not None:
            taken = state.used_functions(type, minor)
            functions = sorted(
                function.bus_id
                for group in state.devices[type][minor].vf_groups
                if selects(demand.need.vf_selector, group.labels)
                for function in group.functions
                if function.bus_id not in taken
            )
        if functions:
            chosen.append(Charge(type, minor, demand.amounts, functions[0]))
    return tuple(chosen) if len(chosen) >= demand.least else Refusal("insufficient", True)


# --- GPUs


def _gpus(
    state: NodeState, request: Any, demand: Demand, view: View, strategy: str | None
) -> Charges | Refusal:
    """A partition if it may be one, else the tightest scope, else the default order."""
    need = demand.need
    if template_of(need, state.inventory) is None:
        return Refusal("no_template", False)
    charged = {entry.minor for has in state.owners.values() for entry in has if entry.type == "gpu"}
    in_use = view.used | (charged - view.total.keys())
    answer: tuple[int, ...] | Refusal
    if not need.shared:
        healthy = {minor for minor, total in view.total.items() if any(total.values())}
        answer = _partition(state, request, demand.count, healthy, in_use)
        if not isinstance(answer, Refusal):
            return tuple(Charge("gpu", minor, demand.amounts) for minor in answer)
        if state.inventory.partition_policy == "honor" or request.partition is not None:
            return answer
    answer = _tightest(state, demand, view, in_use, strategy)
    if not isinstance(answer, Refusal):
        return tuple(Charge("gpu", minor, demand.amounts) for minor in answer)
    if answer.resolvable or need.scope is not None:
        return answer
    return _in_order(state, request, demand, view, strategy)


def _partition(
    state: NodeState, request: Any, count: int, healthy: set[int], in_use: set[int]
) -> tuple[int, ...] | Refusal:
    """A free partition of the lowest score that has any: that which leaves most others whole."""
    rows = _rows(state)
    if rows is None:
        return Refusal("no_partition_table", False)
    tiers: dict[int, dict[int, list[Partition]]] = {}  # by size, then by score
    for row in sorted(rows, key=lambda row: row.score):
        tiers.setdefault(len(row.members), {}).setdefault(row.score, []).append(row)
    if count not in tiers:
        return Refusal("unsupported_count", False)

    def stay_whole(row: Partition) -> int:
        return sum(
            worth * other.score
            for size, worth in WORTH.items()
            if count <= size and size in tiers
            for other in next(iter(tiers[size].values()))
            if not set(other.members) & (in_use | set(row.members))
        )

    least, first = request.bandwidth, [*tiers[count].values()][:1]
    for tier in first if request.partition == "restricted" else tiers[count].values():
        feasible = [
            row
            for row in tier
            if not in_use & set(row.members)
            and healthy.issuperset(row.members)
            and (least is None or (row.bandwidth is not None and row.bandwidth >= least))
        ]
        if feasible:
            return max(feasible, key=stay_whole).members
    return Refusal("insufficient_partitions", True)


def _rows(state: NodeState) -> list[Partition] | None:
    """The node's table or, in minors, that of its model; `None`: it has none."""
    inventory = state.inventory
    table = inventory.partitions
    if table is None:
        is_known = inventory.vendor in ("", "nvidia") and inventory.model in MODELS
        return [*PartitionTable.of_model(inventory.model, "minor").partitions] if is_known else None
    gpus = state.devices.get("gpu", {}).values()
    minors = {gpu.module_id: gpu.minor for gpu in gpus if gpu.module_id is not None}
    if table.numbers == "minor":
        minors = {number: number for row in table.partitions for number in row.members}
    return [
        Partition(tuple(minors[slot] for slot in row.members), row.score, row.bandwidth)
        for row in table.partitions
        if minors.keys() >= set(row.members)
    ]


def _tightest(
    state: NodeState, demand: Demand, view: View, in_use: set[int], strategy: str | None
) -> tuple[int, ...] | Refusal:
    """GPUs of the deepest scope that has enough, then of the one in use on most levels, then of a
    share the one with the best score.

    The plugin takes what is free of a GPU for its total and the other way round.
    """
    need, gpus = demand.need, state.devices.get("gpu", {})
    if not gpus or not all(map(_has_place, gpus.values())):
        return Refusal("no_topology", False)
    if need.shared and demand.count > 1:
        return Refusal("many_shared", False)
    able = {
        minor: score(strategy, demand.amounts, view.free[minor], total)
        if need.shared and strategy is not None
        else 0
        for minor, total in view.total.items()
        if any(total.values()) and _fits(demand.amounts, view.free[minor])
    }
    places = {
        minor: (-1 if gpu.numa is None else gpu.numa, gpu.pcie or "")
        for minor, gpu in sorted(gpus.items())
    }

    def visit(scope: tuple[Any, ...], occupied: int) -> tuple[Any, ...] | None:
        """How deep, how often in use, the score, and the GPUs of the best scope in here."""
        depth = len(scope)
        inside = [minor for minor, place in places.items() if place[:depth] == scope]
        if len(inside) < demand.count:
            return None
        occupied += not in_use.isdisjoint(inside)
        if depth < 2:
            children = sorted({place[: depth + 1] for place in map(places.get, inside) if place})
            below = [best for child in children if (best := visit(child, occupied)) is not None]
            if below:
                return max(below, key=lambda best: best[:3])
        fitting = [minor for minor in inside if minor in able]
        if LEVELS[need.scope] > depth + 1 or len(fitting) < demand.count:
            return None
        if need.shared:
            fitting.sort(key=lambda minor: (-able[minor], minor))
        return depth, occupied, able[fitting[0]], tuple(fitting[: demand.count])

    best = visit((), 0)
    if best is not None:
        gpus_of_best: tuple[int, ...] = best[3]
        return gpus_of_best
    return Refusal("insufficient_gpus" if need.scope is None else "insufficient_scope", True)
