"""Chooses a node's devices for a request: the best of all choices (section 8.3).

The devices of a type are chosen for the whole need at once. Choices are compared in this order:

0. with a reservation: fewest devices outside it;
1. the best tier of partitions, if a partition is asked for;
2. the tightest scope: device, PCIe switch, NUMA node, socket, machine;
3. joint types near: fewest places whose nearest NIC is across the machine, then across the socket,
   then across the NUMA node;
4. the partition that leaves most whole partitions of larger sizes;
5. bin-pack: fewest idle devices on the touched switches, then NUMA nodes, then sockets (spread:
   fewest devices in use);
6. bin-pack: the least left on the devices themselves (spread: the most);
7. the lowest minors.

The costs 1 to 5 depend only on the *places* (switches, or devices without a switch) that a choice
touches. So it suffices to try each set of places, and take the best device of each, then the best
of the rest. This takes O(2**places), which the kernel avoids.

Joint types follow the first type (GPUs, if included). The positions of followers must not reduce
their number: there is one for each touched switch, and never fewer than requested.
"""

from collections.abc import Collection, Iterator
from itertools import chain, combinations, product
from typing import Any, NamedTuple

from hivecore.reference.devices.eligible import View, charge_of, left_after
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.reference.devices.templates import template_of

__all__ = ["CODES", "Choice", "Failure", "capacity", "choose", "choose_in", "scope_of"]

#: Why a node cannot serve a request, the hardest to remedy first.
CODES = (
    "fits",
    "no devices",
    "too few",
    "no match",
    "too small",
    "no functions",
    "model",
    "isolation",
    "unshareable",
    "template",
    "unhealthy",
    "capacity",
    "partition",
    "scope",
    "joint",
)
_SCOPES = ("device", "pcie", "numa", "socket", "node")
_RESIDUAL_WEIGHTS = {2: 1, 4: 100, 8: 10_000}


class Choice(NamedTuple):
    """The devices that a node would allocate."""

    charges: tuple[Charge, ...]
    scopes: dict[str, int]
    """Type -> index in _SCOPES of the tightest scope around its devices."""


class Failure(NamedTuple):
    """Why a node cannot serve a request now."""

    code: str
    type: str
    """Of the need that fails; the first, if it is about several."""
    resolvable: bool
    """Whether it would succeed without the owners."""


def choose(
    node: NodeState,
    request: Any,
    policy: str = "bin-pack",
    numa: Collection[int] | None = None,
    without: Collection[str] = (),
) -> Choice | Failure:
    """Return the best choice on a node, or why there is none."""
    return choose_in(View(node, numa, without), request, policy)


def capacity(node: NodeState, request: Any, most: int, policy: str = "bin-pack") -> int:
    """Return how many pods with this request (at most ``most``) fit when placed one after the
    other.
    """
    tried = node.copy()
    for pods in range(most):
        choice = choose(tried, request, policy)
        if not isinstance(choice, Choice):
            return pods
        tried.charge(f"pod {pods}", choice.charges)
    return most


def choose_in(view: View, request: Any, policy: str) -> Choice | Failure:
    """As `choose`, for the node as the request sees it."""
    choice = _chosen(view, request, policy)
    if isinstance(choice, Choice):
        return choice
    emptied = View(view.node, view.numa, tuple(view.node.owners))
    code, type = choice
    return Failure(code, type, isinstance(_chosen(emptied, request, policy), Choice))


def _chosen(view: View, request: Any, policy: str) -> Choice | tuple[str, str]:
    lacking = _lacking(view, request)
    if lacking:
        return lacking
    groups = _groups(request)
    chosen: dict[str, list[Any]] = {}
    for driver, followers in groups:
        best = _Search(view, request, policy, driver, followers).best()
        if isinstance(best, str):
            return best, driver.type
        chosen |= best
    charges = tuple(
        _charge(view, device, need, view.times(chosen[need.type], need)[device.minor])
        for need in request.needs
        for device in sorted(chosen[need.type], key=lambda entry: int(entry.minor))
    )
    return Choice(charges, {type: scope_of(devices) for type, devices in chosen.items()})


def _charge(view: View, device: Any, need: Any, times: int) -> Charge:
    function = None
    if need.vf_selector is not None:
        function = view.function_for(device, need.vf_selector)
    template = template_of(need, view.node.inventory) if need.type == "gpu" else ""
    amounts = {name: times * amount for name, amount in charge_of(need, device).items()}
    return Charge(device.type, device.minor, amounts, function, need.exclusive, template or "")


def _lacking(view: View, request: Any) -> tuple[str, str] | None:
    """Return the first code that follows from counting devices."""
    for need in request.needs:
        if not view.node.devices.get(need.type):
            return "no devices", need.type
        devices = [
            device for device in view.node.devices[need.type].values() if view.is_visible(device)
        ]
        least = 1 if need.repeat else need.count
        if len(devices) < least:
            return "too few", need.type
        for code, is_suited in (
            ("no match", view.has_labels),
            ("too small", view.is_large_enough),
            ("no functions", view.has_functions),
        ):
            devices = [device for device in devices if is_suited(device, need)]
            if len(devices) < least or (code == "too small" and not view.suffice(devices, need)):
                return code, need.type
    gpu = next((need for need in request.needs if need.type == "gpu"), None)
    if gpu is not None and request.models and view.node.inventory.model not in request.models:
        return "model", "gpu"
    provider = request.isolation_provider if gpu is not None and gpu.shared else ""
    if provider not in ("", view.node.inventory.isolation_provider):
        return "isolation", "gpu"
    if gpu is not None and gpu.shared and not view.node.inventory.shareable:
        return "unshareable", "gpu"
    if gpu is not None and template_of(gpu, view.node.inventory) is None:
        return "template", "gpu"
    for need in request.needs:
        suited = _suited(view, need)
        eligible = view.eligible(need)
        if not view.suffice(suited, need):
            return "unhealthy", need.type
        if need.repeat and not view.times(eligible, need):
            return "capacity", need.type
        if not need.repeat and len(eligible) < (len(suited) if need.every else need.count):
            return "capacity", need.type
    return None


def _suited(view: View, need: Any) -> list[Any]:
    """Return the healthy devices that could serve a need if idle; all that an
    "every" need wants.
    """
    return [
        device
        for device in view.healthy(need.type)
        if view.matches(device, need) and view.has_functions(device, need)
    ]


def _groups(request: Any) -> list[tuple[Any, list[Any]]]:
    """Return needs that are chosen together, as (driver, followers), ordered by type."""
    joint = [next(need for need in request.needs if need.type == type) for type in request.joint]
    groups: list[tuple[Any, list[Any]]] = []
    for need in request.needs:
        if need not in joint:
            groups.append((need, []))
        elif need == _driver(joint):
            groups.append((need, [other for other in joint if other != need]))
    return groups


def _driver(joint: list[Any]) -> Any:
    return next((need for need in joint if need.type == "gpu"), joint[0])


def scope_of(devices: list[Any]) -> int:
    """Return the index in _SCOPES of the tightest scope around the devices."""
    if len(devices) == 1:
        return 0
    for level, place in ((1, "pcie"), (2, "numa"), (3, "socket")):
        places = {getattr(device, place) for device in devices}
        if len(places) == 1 and None not in places:
            return level
    return 4


def _domain(device: Any, scope: str) -> Any:
    """Return the domain of a device in a scope; if unknown, that of the next tighter scope."""
    for level in ("socket", "numa", "pcie")[("socket", "numa", "pcie").index(scope) :]:
        if getattr(device, level) is not None:
            return level, getattr(device, level)
    return "device", device.minor


def _distance(first: Any, other: Any) -> int:
    """0: same switch, 1: same NUMA node, 2: same socket, 3: none of these."""
    for level, place in enumerate(("pcie", "numa", "socket")):
        if getattr(first, place) is not None and getattr(first, place) == getattr(other, place):
            return level
    return 3


class _Search:
    """The best devices for a need and for those that follow it."""

    def __init__(
        self, view: View, request: Any, policy: str, driver: Any, followers: list[Any]
    ) -> None:
        self.view, self.request, self.policy = view, request, policy
        self.driver, self.followers = driver, followers
        self.most = len(_SCOPES) - 1 if driver.scope is None else _SCOPES.index(driver.scope)
        self.candidates = view.eligible(driver)

    def best(self) -> dict[str, list[Any]] | str:
        """Return type -> devices, or the code of the obstacle."""
        choices = [self._keyed(self.followers, pools) for pools in self._pools()]
        keyed = [choice for choice in choices if choice is not None]
        if keyed:
            chosen: dict[str, list[Any]] = min(keyed, key=lambda entry: entry[0])[1]
            return chosen
        if self._keyed([], {}) is not None:
            return "joint"
        if self._is_partitioned() == "must" and self._of_partitions([], {}, 4) is None:
            return "partition"
        return "scope"

    def _pools(self) -> Iterator[dict[str, list[Any]]]:
        """Yield, for each follower, the devices of one scope to choose from."""
        kinds = []
        for need in self.followers:
            eligible = self.view.eligible(need)
            if need.scope in (None, "node"):
                kinds.append([eligible])
            elif need.scope == "device":
                kinds.append([[device] for device in eligible])
            else:
                domains: dict[Any, list[Any]] = {}
                for device in eligible:  # sorted by minor, and so are the domains
                    domains.setdefault(_domain(device, need.scope), []).append(device)
                kinds.append(list(domains.values()))
        for pools in product(*kinds):
            yield {need.type: pool for need, pool in zip(self.followers, pools, strict=True)}

    def _keyed(self, followers: list[Any], pools: dict[str, list[Any]]) -> Any:
        partitioned = self._is_partitioned()
        if partitioned:
            choice = self._of_partitions(followers, pools, self.most)
            if choice is not None or partitioned == "must":
                return choice
        return self._of_places(followers, pools)

    # --- free choice

    def _of_places(self, followers: list[Any], pools: dict[str, list[Any]]) -> Any:
        """Return the best choice over all sets of places."""
        if self.driver.every:
            return self._weighed(list(self.candidates), followers, pools)
        if self.driver.repeat:
            times = self.view.times(self.candidates, self.driver)
            taken = [device for device in self.candidates if device.minor in times]
            return self._weighed(taken, followers, pools)
        by_place: dict[Any, list[Any]] = {}
        for device in self.candidates:
            by_place.setdefault(_place(device), []).append(device)
        best = None
        for number in range(1, min(len(by_place), self.driver.count) + 1):
            for touched in combinations(by_place, number):
                devices = self._filled([by_place[place] for place in touched])
                choice = devices and self._weighed(devices, followers, pools)
                if choice and (best is None or choice[0] < best[0]):
                    best = choice
        return best

    def _filled(self, places: list[list[Any]]) -> list[Any]:
        """Return the best devices with at least one from each place; empty if there are too few."""
        if sum(map(len, places)) < self.driver.count:
            return []
        taken = [min(devices, key=self._rank) for devices in places]
        rest = sorted(
            (device for device in chain(*places) if device not in taken),
            key=self._rank,
        )
        return taken + rest[: self.driver.count - len(taken)]

    def _rank(self, device: Any) -> tuple[bool, int, int]:
        left = left_after(self.view, device, self.driver)
        left = -left if self.policy == "spread" else left
        return not self.view.is_reserved(device), left, device.minor

    # --- partitions

    def _is_partitioned(self) -> str:
        """Return whether the choice "must" be a partition, "may" be if one is free, or "" (not)."""
        rows = self.view.node.inventory.partition_rows()
        if self.driver.type != "gpu" or self.driver.shared or self.driver.every:
            return ""
        if self.request.partition is not None:
            return "must"
        if self.view.node.inventory.partition_policy == "honor":
            return "must"
        return "may" if rows else ""

    def _of_partitions(self, followers: list[Any], pools: dict[str, list[Any]], most: int) -> Any:
        rows = self.view.node.inventory.partitions_of(
            self.driver.count, self.request.links, is_asked=self._is_partitioned() == "must"
        )
        tier = max((row.score for row in rows), default=0)
        by_minor = {device.minor: device for device in self.candidates}
        best = None
        for row in rows:
            slow = self.request.bandwidth is not None and (
                row.bandwidth is None or row.bandwidth < self.request.bandwidth
            )
            if slow or (self.request.partition == "restricted" and row.score < tier):
                continue
            devices = [by_minor[minor] for minor in row.members if minor in by_minor]
            if len(devices) < len(row.members) or any(map(self.view.in_use, devices)):
                continue
            choice = self._weighed(devices, followers, pools, row, most)
            if choice is not None and (best is None or choice[0] < best[0]):
                best = choice
        return best

    def _residual(self, row: Any) -> int:
        """Return a score for the remaining partitions of equal or larger size."""
        rows = self.view.node.inventory.partition_rows()
        usable = {
            device.minor for device in self.view.healthy("gpu") if not self.view.in_use(device)
        } - set(row.members)
        residual = 0
        for size, weight in _RESIDUAL_WEIGHTS.items():
            of_size = [other for other in rows if len(other.members) == size]
            best = max((other.score for other in of_size), default=0)
            if size >= self.driver.count:
                residual += sum(
                    weight * other.score
                    for other in of_size
                    if other.score == best and set(other.members) <= usable
                )
        return residual

    # --- what a choice is worth

    def _weighed(
        self,
        devices: list[Any],
        followers: list[Any],
        pools: dict[str, list[Any]],
        row: Any = None,
        most: int | None = None,
    ) -> Any:
        """Return (key, type -> devices), or None if the devices cannot be used this way."""
        level = scope_of(devices)
        if level > (self.most if most is None else most):
            return None
        chosen = {self.driver.type: devices}
        for need in followers:
            near = self._following(need, pools[need.type], devices)
            if near is None:
                return None
            chosen[need.type] = near
        key = (
            sum(not self.view.is_reserved(device) for device in devices),
            -row.score if row else 0,
            level,
            self._distances(devices, followers, pools),
            -self._residual(row) if row else 0,
            self._neighbourhood(devices),
            sum(self._rank(device)[1] for device in devices),
            sorted(device.minor for device in devices),
        )
        return key, chosen

    def _distances(
        self, devices: list[Any], followers: list[Any], pools: dict[str, list[Any]]
    ) -> tuple[int, int, int]:
        """Count the places whose nearest follower is at distance 3, 2 and 1."""
        places = {_place(device): device for device in devices}
        nearest = [
            min(_distance(device, other) for other in pools[need.type])
            for device in places.values()
            for need in followers
        ]
        return nearest.count(3), nearest.count(2), nearest.count(1)

    def _neighbourhood(self, devices: list[Any]) -> tuple[int, int, int]:
        """Count idle devices (spread: those in use) on the switches, NUMA nodes and sockets."""
        spread = self.policy == "spread"
        counted = [
            device
            for device in self.view.healthy(self.driver.type)
            if self.view.in_use(device) == spread
        ]
        switches = {device.pcie for device in devices} - {None}
        numas = {device.numa for device in devices} - {None}
        sockets = {device.socket for device in devices} - {None}
        return (
            sum(device.pcie in switches for device in counted),
            sum(device.numa in numas for device in counted),
            sum(device.socket in sockets for device in counted),
        )

    def _following(self, need: Any, pool: list[Any], devices: list[Any]) -> list[Any] | None:
        """Return the follower's devices, near to the driver's."""
        by_minor = sorted(devices, key=lambda device: int(device.minor))
        switches = {device.pcie: device for device in reversed(by_minor) if device.pcie is not None}
        wanted = max(need.count, len(switches))
        if self.request.same_pcie:
            pool = [device for device in pool if device.pcie in switches]
            reached = {device.pcie for device in pool}
            if any(device.pcie not in reached for device in devices):
                return None
        else:
            wanted = min(wanted, len(pool))
        if need.type == self.request.joint[0]:  # named first: exactly this number
            if self.request.same_pcie and wanted > need.count:
                return None
            wanted = need.count
        if len(pool) < max(wanted, need.count):
            return None

        def rank(device: Any) -> tuple[int, bool, int, int]:
            near = min(_distance(device, other) for other in devices)
            left = left_after(self.view, device, need)
            left = -left if self.policy == "spread" else left
            return near, not self.view.is_reserved(device), left, device.minor

        taken: list[Any] = []
        for level in range(4):  # use a place's nearest follower unless another is as near
            for device in sorted(switches.values(), key=lambda switch: int(switch.minor)):
                near = [candidate for candidate in pool if _distance(candidate, device) <= level]
                if near and not set(map(id, near)) & set(map(id, taken)) and len(taken) < wanted:
                    taken.append(min(near, key=rank))
        rest = sorted((device for device in pool if device not in taken), key=rank)
        return taken + rest[: wanted - len(taken)]


def _place(device: Any) -> Any:
    """Return the device's switch, or the device itself without one."""
    return ("switch", device.pcie) if device.pcie is not None else ("device", device.minor)
