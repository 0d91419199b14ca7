"""The pictures of the documentation, drawn from what the library itself answers, or has measured.

`python docs/scripts/pictures.py` writes them to docs/pictures/; a test fails while one differs.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "bench"))

import numpy as np
from peers.koordinator_devices import Refusal, place
from peers.koordinator_topology import GreedyNetwork
from svg import COLOURS, INK, LINE, PALE, Picture

from hivecore.caching import expected_hit_ratio
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceAllocation, DeviceCluster, DeviceRequest, NodeDevices
from hivecore.dra import DraCluster
from hivecore.gangs import Action, Coscheduler, GangSpec
from hivecore.interleaving import interleave
from hivecore.matching import max_weight_matching
from hivecore.queues import QueuedJob, TenantQueues
from hivecore.quotas import water_fill, water_fill_rounds
from hivecore.reference.devices.node_state import Charge, NodeState
from hivecore.replicas import ReplicaAwareCache, ReplicaDirectory
from hivecore.sim import Workload, replay, summarize
from hivecore.storage import StorageJobs, allocate_storage
from hivecore.topology import NetworkTopology, TopologyRequest
from hivecore.traces import generate

FOLDER = Path(__file__).resolve().parents[1] / "pictures"


def _cluster() -> CellCluster:
    """The cluster of the tutorial."""
    nodes = Chain(levels=["gpu", "pair", "node"], fanouts=[2, 4], roots=4)
    owned = {"vision": {"A100": {"node": 2}}, "speech": {"A100": {"node": 1, "pair": 2}}}
    return CellCluster(ClusterSpec(chains={"A100": nodes}, virtual_clusters=owned))


def cells() -> Picture:
    """What tenants own, and which GPUs their groups got."""
    cluster = _cluster()
    names = ["resnet", "asr", "sweep"]
    for group in (
        AffinityGroup("resnet", "vision", [(1, 8)]),
        AffinityGroup("asr", "speech", [(2, 2)]),
        AffinityGroup("sweep", "speech", [(2, 8)], priority=-1),
    ):
        cluster.commit(cluster.schedule(group))
    picture = Picture(720, 300, "Each tenant gets the cells that it owns; idle GPUs are lent")
    picture.text(20, 32, "what tenants own", at="start")
    x = 170.0
    for tenant, chains in cluster.spec.virtual_clusters.items():
        first = x
        for level, count in chains["A100"].items():
            for _ in range(count):
                width = 118 if level == "node" else 58
                picture.box(x, 28, width, 34, "white")
                picture.text(x + width / 2, 50, level)
                x += width + 6
        picture.text((first + x) / 2 - 3, 20, tenant)
        x += 20
    picture.text(20, 140, "nodes of 8 GPUs", at="start")
    users, _ = cluster.leaf_groups("A100")
    for node in range(4):
        left = 170 + 136 * node
        picture.box(left, 100, 126, 82, "white")
        picture.text(left + 63, 200, f"A100/{node}", size=12)
        for gpu in range(8):
            user = users[8 * node + gpu]
            fill = PALE if user is None else COLOURS[names.index(user)]
            pair, half = divmod(gpu, 2)
            picture.box(left + 8 + 29 * pair + 12 * half, 112, 11, 58, fill)
    picture.legend(170, 222, ["resnet: a node that vision owns", "asr: the pairs of speech"])
    picture.box(430, 222, 14, 14, COLOURS[2], COLOURS[2])
    picture.text(452, 234, "sweep: opportunistic, on idle GPUs", at="start")
    picture.box(430, 244, 14, 14, PALE)
    picture.text(452, 256, "idle: kept together for its owner", at="start")
    return picture


def _result(benchmark: str) -> Any:
    """The figures that a benchmark has written."""
    file = FOLDER.parents[1] / "bench" / "results" / f"{benchmark}.json"
    return json.loads(file.read_text("utf-8"))["figures"]


def _times(title: str, sizes: list[int], below: str, curves: dict[str, list[float]]) -> Picture:
    """Seconds against sizes, both in powers of ten.

    :param below: what the sizes count.
    """
    picture = Picture(720, 300, title)
    left, top, width, height = 80, 30, 380, 210
    picture.box(left, top, width, height, "white")
    spent = [seconds for line in curves.values() for seconds in line]
    low, high = math.floor(math.log10(min(spent))), math.ceil(math.log10(max(spent)))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def place(size: float, seconds: float) -> tuple[float, float]:
        return (
            left + width * (math.log10(size) - first) / (last - first),
            top + height * (high - math.log10(seconds)) / (high - low),
        )

    for power in range(low, high + 1):
        _, y = place(sizes[0], 10.0**power)
        words = f"{10 ** (power % 3)} {('us', 'ms', 's')[power // 3 + 2]}"
        picture.text(left - 8, y + 4, words, size=11, at="end")
        picture.line([(left, y), (left + width, y)], PALE)
    for colour, line in zip(COLOURS, curves.values(), strict=False):
        picture.line([place(*point) for point in zip(sizes, line, strict=True)], colour, 3)
    for size in sizes:
        picture.text(place(size, 1.0)[0], top + height + 18, f"{size:,}", size=11)
    picture.text(left + width / 2, 285, below, size=12)
    picture.legend(480, 60, list(curves))
    return picture


def decisions() -> Picture:
    """How long a decision takes in clusters of any size."""
    curve = _result("cell_cluster")["curve"]
    gpus = [point["gpus"] for point in curve]
    group = [point["group"]["p50"] / 1e9 for point in curve]
    title = f"{gpus[-1] / gpus[0]:,.0f} times the GPUs, {group[-1] / group[0]:.1f} times the time"
    lines = {
        "gang of 8 pods of 8 GPUs, median": [point["gang"]["p50"] / 1e9 for point in curve],
        "1 to 8 GPUs, 99th percentile": [point["group"]["p99"] / 1e9 for point in curve],
        "1 to 8 GPUs, median": group,
        "a node gets bad or well, median": [point["node_event"]["p50"] / 1e9 for point in curve],
    }
    below = "GPUs; release + schedule + commit, from Python"
    return _times(f"{title} of a decision", gpus, below, lines)


_MACHINE = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
_IN_USE = (
    *(DeviceAllocation("gpu", minor, {"core": 100, "memory": 80 << 30}) for minor in (2, 6, 7)),
    DeviceAllocation("rdma", 0, {"share": 100}),
)


def _gpus_first(request: DeviceRequest) -> tuple[list[int], bool]:
    """The GPUs that Koordinator's order takes, and whether it finds NICs to go with them."""
    state = NodeState(_MACHINE)
    state.charge("others", tuple(Charge(a.type, a.minor, dict(a.amounts)) for a in _IN_USE))
    alone = place(state, DeviceRequest("alone", gpus=2))
    assert not isinstance(alone, Refusal)
    return [charge.minor for charge in alone], not isinstance(place(state, request), Refusal)


def devices() -> Picture:
    """One machine, and where two GPUs with a NIC on their switch go."""
    cluster = DeviceCluster({"n0": _MACHINE})
    cluster.recover("others", "n0", _IN_USE)
    request = DeviceRequest("train", gpus=2, nics=1, joint=("gpu", "nic"), same_pcie=True)
    chosen = {(entry.type, entry.minor) for entry in cluster.schedule(request).placement}
    greedy, served = _gpus_first(request)
    assert not served and chosen == {("gpu", 4), ("gpu", 5), ("rdma", 2)}
    used = {(entry.type, entry.minor) for entry in _IN_USE}
    picture = Picture(
        720, 300, "GPUs chosen together with their NIC start where GPUs chosen first wait"
    )
    for socket in range(2):
        picture.box(20 + 345 * socket, 20, 335, 176, "white")
        picture.text(187 + 345 * socket, 40, f"socket {socket}", size=12)
    places = {"gpu": (0, 2), "rdma": (2, 1)}  # of a type on its switch: first column, how many
    for device in _MACHINE.devices:
        switch = int(device.pcie or 0)
        left = 30 + 164 * switch + 17 * (switch // 2)
        first, count = places[device.type]
        if device.minor % count == 0 and device.type == "gpu":
            picture.box(left, 52, 156, 134, "#fafafa")
            picture.text(left + 78, 176, f"PCIe switch {device.pcie}", size=12)
        x = left + 8 + 48 * (first + device.minor % count)
        key = device.type, device.minor
        fill = COLOURS[2] if key in chosen else LINE if key in used else "white"
        first_try = device.type == "gpu" and device.minor in greedy
        picture.box(x, 66, 44, 88, fill, COLOURS[1] if first_try else LINE)
        if first_try:
            picture.box(x + 3, 69, 38, 82, fill, COLOURS[1])
        name = "NIC" if device.type == "rdma" else "GPU"
        ink = "white" if key in chosen else INK
        picture.text(x + 22, 106, name, size=12, fill=ink)
        picture.text(x + 22, 124, str(device.minor), size=12, fill=ink)
    for i, (fill, edge, words) in enumerate(
        (
            (COLOURS[2], COLOURS[2], "train: two GPUs and a NIC on one switch, chosen together"),
            (
                "white",
                COLOURS[1],
                "if GPUs are chosen first: the NIC there is in use, so the pod waits",
            ),
            (LINE, LINE, "in use"),
        )
    ):
        picture.box(30, 212 + 26 * i, 14, 14, fill, edge)
        picture.text(52, 224 + 26 * i, words, at="start")
    return picture


def devices_curve() -> Picture:
    """How long a decision and a filter take in clusters of any size."""
    curve = _result("devices")["curve"]
    nodes = [point["nodes"] for point in curve]
    lines = {
        "all nodes filtered, first time": [point["filter"] for point in curve],
        "schedule + commit, seen before": [point["schedule and commit"] for point in curve],
    }
    slower = curve[-1]["schedule and commit"] / curve[0]["schedule and commit"]
    title = f"{nodes[-1] / nodes[0]:,.0f} times the nodes, {slower:.1f} times the time"
    below = "nodes of 8 GPUs and 4 NICs in random states"
    return _times(f"{title} of a decision", nodes, below, lines)


def queues() -> Picture:
    """Three tenants whose jobs leave in turn; one of them comes later."""
    waiting = TenantQueues()
    sizes = {"vision": (2, 4, 2, 4), "speech": (3, 1, 2), "ads": (2, 2, 4)}
    weights = {"vision": 2, "speech": 1, "ads": 1}
    for tenant, weight in weights.items():
        waiting.set_weight(tenant, weight)
    for tenant in ("vision", "speech"):
        for i in range(12):
            size = sizes[tenant][i % len(sizes[tenant])]
            waiting.push(QueuedJob(f"{tenant}-{i}", tenant, size), now=0)
    picture = Picture(
        760,
        236,
        "A tenant of twice the weight gets twice the GPUs; a late one catches up with nothing",
    )
    rows = dict.fromkeys(weights, 0)
    for row, (tenant, weight) in enumerate(weights.items()):
        rows[tenant] = 56 + 48 * row
        picture.text(20, rows[tenant] + 21, f"{tenant}, weight {weight}", at="start")
    started, late = 0, 0
    while started < 44:
        if started >= 16 and not late:
            late = started
            for i in range(6):
                waiting.push(QueuedJob(f"ads-{i}", "ads", sizes["ads"][i % 3]), now=100)
        job = waiting.next(now=100).job  # type: ignore[union-attr]
        colour = COLOURS[list(weights).index(job.tenant)]
        picture.box(140 + 13 * started, rows[job.tenant], 13 * job.size - 2, 32, colour, colour)
        picture.text(
            139 + 13 * (started + job.size / 2), rows[job.tenant] + 21, f"{job.size}", fill="white"
        )
        started += job.size
    x = 140 + 13 * late
    picture.line([(x - 1, 40), (x - 1, 196)])
    picture.text(x, 30, "ads comes, and has nothing saved up", at="start", size=12)
    picture.text(140, 222, "GPUs, in the order in which they are given away", at="start", size=12)
    picture.arrow(440, 218, 520, 218)
    return picture


def quotas() -> Picture:
    """An amount divided among four quotas, step by step."""
    names, amount = "ABCD", 100
    requests, minimums, weights = [5, 20, 40, 70], [10, 15, 20, 15], [40, 60, 50, 80]
    has = [min(pair) for pair in zip(requests, minimums, strict=True)]
    steps = [(f"1. minimums: {sum(has)} of {amount} given", has.copy())]
    for number, step in enumerate(water_fill_rounds(amount, requests, minimums, weights), 1):
        for child, share in zip(step.children, step.shares, strict=True):
            has[child] = min(requests[child], has[child] + share)
        steps.append((f"{number + 1}. the {step.amount} that are left, by weight", has.copy()))
    assert has == water_fill(amount, requests, minimums, weights).tolist()
    picture = Picture(
        720,
        360,
        "Each quota gets its minimum first; weights divide the rest among those that ask for more",
    )
    top, height = 50, 220
    for panel, (title, reached) in enumerate(steps):
        left = 20 + 235 * panel
        picture.text(left + 105, 30, title)
        for child, name in enumerate(names):
            x, y = left + 4 + 52 * child, top + height
            scale = height / max(requests)
            wanted = requests[child] * scale
            picture.box(x, y - wanted, 42, wanted, "white")
            bottom = 0
            for step in range(panel + 1):
                level = steps[step][1][child]
                if level > bottom:
                    tall = (level - bottom) * scale
                    picture.box(x, y - level * scale, 42, tall, COLOURS[step], COLOURS[step])
                bottom = level
            least = y - minimums[child] * scale
            picture.line([(x - 3, least), (x + 45, least)], INK, 2)
            picture.text(x + 21, y + 18, name)
            picture.text(x + 21, y + 34, str(reached[child]), size=12)
    picture.box(24, 318, 14, 14, "white")
    picture.text(46, 330, "asked for", at="start", size=12)
    picture.line([(124, 325), (144, 325)], INK, 2)
    picture.text(152, 330, "minimum", at="start", size=12)
    picture.text(
        700,
        330,
        "weights 40, 60, 50, 80; what B does not need of its share goes into the last step",
        size=12,
        at="end",
    )
    return picture


def quotas_curve() -> Picture:
    """How long runtimes take in trees of any size."""
    curve = _result("quotas")["curve"]
    leaves = [point["leaves"] for point in curve]
    lines = {
        "all runtimes, from scratch": [point["runtimes"] for point in curve],
        "one request comes, one is read": [point["change"]["p50"] for point in curve],
    }
    slower = curve[-1]["change"]["p50"] / curve[0]["change"]["p50"]
    title = f"{leaves[-1] / leaves[0]:,.0f} times the quotas, {slower:.0f} times the time"
    below = "leaves, in as many groups as leaves of a group"
    return _times(f"{title} of a change", leaves, below, lines)


def _curves(axis: str, below: str) -> Picture:
    """Times of decisions against sizes, both in powers of ten, named at their ends."""
    curves = _result("curves")[axis]
    few, many = (next(iter(curves.values()))[i]["size"] for i in (0, -1))
    most = max(points[-1]["p50"] / points[0]["p50"] for points in curves.values())
    title = f"{many / few:,.0f} times the {axis}, at most {most:.1f} times the time of a decision"
    first, last = math.floor(math.log10(few)), math.ceil(math.log10(many) - 0.1)
    picture = Picture(480, 316, title)
    left, top, width, height = 66, 20, 300, 232
    picture.box(left, top, width, height, "white")

    def place(size: float, seconds: float) -> tuple[float, float]:
        return (
            left + width * (math.log10(size) - first) / (last + 0.1 - first),
            top + height * (1 - (math.log10(seconds) + 6) / 4),
        )

    for power, words in enumerate(("1 us", "10 us", "100 us", "1 ms", "10 ms")):
        _, y = place(10.0**first, 10.0 ** (power - 6))
        picture.text(left - 8, y + 5, words, size=14, at="end")
        picture.line([(left, y), (left + width, y)], PALE)
    for power in range(first, last + 1):
        x, _ = place(10.0**power, 1.0)
        words = f"{10**power:,}".replace(",000,000", "M").replace(",000", "k")
        picture.text(x, top + height + 20, words, size=14)
    picture.text(left + width / 2, 302, below, size=14)
    lowest = float(top)
    slowest_first = sorted(curves.items(), key=lambda curve: -curve[1][-1]["p50"])
    for colour, (part, points) in zip(COLOURS, slowest_first, strict=False):
        line = [place(point["size"], point["p50"]) for point in points]
        picture.line(line, colour, 3)
        lowest = max(lowest + 17, line[-1][1] + 5)  # names keep apart
        picture.text(left + width + 8, lowest, part, size=14, fill=colour, at="start")
    return picture


def curves_gpus() -> Picture:
    """How long a decision takes in clusters of any size."""
    return _curves("GPUs", "GPUs, two thirds in use; medians")


def curves_jobs() -> Picture:
    """How long a decision takes however many jobs wait."""
    return _curves("jobs", "jobs that wait; medians")


def topology() -> Picture:
    """A gang on a tree of spines, blocks and nodes, and where a greedy one would go."""
    labels = {f"n{i}": {"spine": f"s{i // 6}", "block": f"b{i // 3}"} for i in range(12)}
    network = NetworkTopology(["spine", "block"], labels)
    slots = [1, 0, 2, 0, 3, 0, 6, 1, 1, 4, 4, 1]
    network.set_slots(slots)
    request = TopologyRequest("train", 8)
    chosen = {entry.node: entry.pods for entry in network.schedule(request).placement}
    paths = [network.domain(node) for node in network.nodes]
    _, greedy = GreedyNetwork(paths).place(slots, request.pods) or (0, {})
    assert len(chosen) == 2 and len(greedy) == 3
    picture = Picture(720, 300, "The best place takes two nodes, the greedy one three")
    middle = [30 + 57 * i + 26 for i in range(12)]
    for spine in range(2):
        x = (middle[6 * spine] + middle[6 * spine + 5]) / 2
        picture.line([(360, 34), (x, 74)])
        for block in (2 * spine, 2 * spine + 1):
            below = (middle[3 * block] + middle[3 * block + 2]) / 2
            picture.line([(x, 74), (below, 124)])
            for node in range(3 * block, 3 * block + 3):
                picture.line([(below, 124), (middle[node], 164)])
            picture.box(below - 34, 112, 68, 24)
            picture.text(below, 129, f"block b{block}", size=12)
        picture.box(x - 34, 62, 68, 24)
        picture.text(x, 79, f"spine s{spine}", size=12)
    picture.box(320, 16, 80, 24)
    picture.text(360, 33, "network", size=12)
    for node, count in enumerate(slots):
        name, x = f"n{node}", middle[node]
        picture.box(x - 24, 164, 48, 50, "white", COLOURS[1] if name in greedy else LINE)
        if name in greedy:
            picture.box(x - 21, 167, 42, 44, "white", COLOURS[1])
        for slot in range(count):
            used = slot < chosen.get(name, 0)
            left, top = x - 19 + 13 * (slot % 3), 171 + 13 * (slot // 3)
            picture.box(left, top, 10, 10, COLOURS[2] if used else "white")
        picture.text(x, 230, name, size=11)
    for i, (fill, edge, words) in enumerate(
        (
            (COLOURS[2], COLOURS[2], "slots of the eight pods: two nodes of one block"),
            ("white", COLOURS[1], "nodes if the block with the fewest slots is filled first"),
        )
    ):
        picture.box(30, 246 + 24 * i, 14, 14, fill, edge)
        picture.text(52, 258 + 24 * i, words, at="start")
    return picture


class _ThreeNodes:
    """A scheduler that places pods one by one on three nodes, as a coscheduler says."""

    PODS = ("train-0", "train-1", "train-2", "tune-0", "tune-1")

    def __init__(self) -> None:
        self.gangs = Coscheduler()
        self.free = ["n1", "n2", "n3"]
        self.places: dict[str, str] = {}
        self.ahead: list[str] = []
        self.states: list[list[str]] = []
        self.deadlock, self.letting_go = 0, ""

    def record(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            if action.kind == "try":
                self.ahead += action.pods
            if action.kind == "reject":
                self.deadlock, self.letting_go = len(self.states), action.pods[0]
                self.free += [self.places.pop(pod) for pod in action.pods]
        self.states.append(
            [self.gangs.pod(pod).state if pod in self.gangs else "" for pod in self.PODS]
        )

    def live(self) -> None:
        """From the first pod until the last one has ended."""
        now = 0
        for pod in self.PODS:
            gang, size = pod[:-2], sum(entry.startswith(pod[:-2]) for entry in self.PODS)
            self.record(self.gangs.create_pod(pod, GangSpec(gang, size, mode="non-strict"), now))
        while len(self.gangs):
            now += 1
            released = [pod for pod in self.PODS if self._is(pod, "released")]
            if released:
                for pod in released:
                    self.record(self.gangs.bind_pod(pod, now))
                for pod in released:
                    self.free.append(self.places.pop(pod))
                    self.record(self.gangs.delete_pod(pod, now))
                continue
            pod = self.ahead.pop(0)
            if self.free:
                self.places[pod] = self.free.pop(0)
                self.record(self.gangs.assume_pod(pod, now, [self.places[pod]]))
            else:
                self.record(self.gangs.fail_pod(pod, now, ["n1", "n2", "n3"]))

    def _is(self, pod: str, state: str) -> bool:
        return pod in self.gangs and self.gangs.pod(pod).state == state


def gang_life() -> Picture:
    """Two gangs that want the same three nodes, event by event."""
    nodes = _ThreeNodes()
    nodes.live()
    looks = {
        "pending": ("not tried", "#cfd8dc"),
        "trying": ("is tried", COLOURS[3]),
        "held-up": ("found no place", COLOURS[4]),
        "waiting": ("holds a place", COLOURS[1]),
        "released": ("may start", COLOURS[0]),
        "bound": ("bound", COLOURS[2]),
    }
    picture = Picture(
        760, 286, "Two gangs want the same nodes: one starts whole, the other gives way"
    )
    for row, pod in enumerate(nodes.PODS):
        y = 40 + 34 * row + (10 if pod.startswith("tune") else 0)
        picture.text(90, y + 19, pod, at="end")
        for column, states in enumerate(nodes.states):
            if states[row]:
                colour = looks[states[row]][1]
                picture.box(100 + 27 * column, y, 25, 26, colour, colour)
    x = 112 + 27 * nodes.deadlock
    picture.text(x, 18, f"a deadlock: `{nodes.letting_go}` gives its place back")
    picture.arrow(x, 22, x, 38)
    picture.text(100, 238, "one event after the other", at="start", size=12)
    picture.arrow(262, 234, 340, 234)
    for i, (name, colour) in enumerate(looks.values()):
        picture.box(20 + 123 * i, 260, 14, 14, colour, colour)
        picture.text(40 + 123 * i, 272, name, at="start", size=12)
    return picture


def matching() -> Picture:
    """A small graph and its matching of the greatest weight."""
    weights = [
        [0, 9, 3, 2, 4, 7],
        [9, 0, 8, 1, 5, 3],
        [3, 8, 0, 6, 2, 4],
        [2, 1, 6, 0, 8, 5],
        [4, 5, 2, 8, 0, 6],
        [7, 3, 4, 5, 6, 0],
    ]
    edges = max_weight_matching(np.array(weights))
    pairs = {tuple(pair) for pair in edges.pairs.tolist()}
    picture = Picture(720, 330, "The best pairs of all together are not each one's best partner")
    places = [
        (240 + 130 * math.cos(i * math.pi / 3), 165 + 130 * math.sin(i * math.pi / 3))
        for i in range(6)
    ]
    for i in range(6):
        for j in range(i + 1, 6):
            if (i, j) not in pairs:
                picture.line([places[i], places[j]], "#cfd8dc", 1 + weights[i][j] / 4)
    for i, j in sorted(pairs):
        picture.line([places[i], places[j]], COLOURS[1], 5)
        x, y = ((a + b) / 2 for a, b in zip(places[i], places[j], strict=True))
        picture.box(x - 11, y - 12, 22, 22, "white", COLOURS[1])
        picture.text(x, y + 4, str(weights[i][j]))
    for i, (x, y) in enumerate(places):
        picture.box(x - 15, y - 15, 30, 30, COLOURS[0], COLOURS[0])
        picture.text(x, y + 5, str(i), fill="white")
    lines = ["15 edges, the heavier the thicker.", f"The matching weighs {edges.weight};"]
    lines += ["the certificate proves that", "no other one weighs more."]
    for i, words in enumerate(lines):
        picture.text(430, 130 + 24 * i, words, at="start")
    return picture


def claims() -> Picture:
    """Partitions of four GPUs that claims have, each with the memory slices that it takes."""
    sizes = {"1g": (range(7), 1), "2g": ((0, 2, 4), 2), "3g": ((0, 4), 4), "7g": ((0,), 8)}
    sets = [
        {"name": f"gpu{gpu}", "counters": {f"slice{i}": {"value": "1"} for i in range(8)}}
        for gpu in range(4)
    ]
    parts = [
        {
            "name": f"{gpu}-{profile}-{start}",
            "attributes": {"kind": {"string": profile}},
            "consumesCounters": [
                {
                    "counterSet": f"gpu{gpu}",
                    "counters": {f"slice{start + i}": {"value": "1"} for i in range(size)},
                }
            ],
        }
        for gpu in range(4)
        for profile, (starts, size) in sizes.items()
        for start in starts
    ]
    cluster = DraCluster()
    for name, content in (("parts", {"devices": parts}), ("sets", {"sharedCounters": sets})):
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": "gpu", "nodeName": "n1", "pool": pool, **content}
        cluster.update({"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})
    for profile in sizes:
        expression = f'device.attributes["gpu"].kind == "{profile}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        cluster.update({"kind": "DeviceClass", "metadata": {"name": profile}, "spec": spec})
    picture = Picture(
        720, 250, "Partitions of a GPU are allocated exactly, by the counters that they share"
    )
    wanted = [("train", "7g", 1), ("serve", "3g", 3), ("notebooks", "1g", 4), ("tune", "2g", 2)]
    for gpu in range(4):
        picture.text(20, 50 + 44 * gpu, f"GPU {gpu}", at="start")
        for i in range(8):
            picture.box(90 + 46 * i, 30 + 44 * gpu, 44, 32, PALE)
    for colour, (name, profile, count) in zip(COLOURS, wanted, strict=False):
        request = {"name": profile, "exactly": {"deviceClassName": profile, "count": count}}
        spec = {"devices": {"requests": [request]}}
        decision = cluster.schedule([{"metadata": {"name": name}, "spec": spec}])
        assert decision is not None
        cluster.commit(decision)
        for given in decision.devices:
            gpu, _, start = given.device.device.split("-")
            x, y = 90 + 46 * int(start), 30 + 44 * int(gpu)
            picture.box(x, y, 46 * sizes[profile][1] - 2, 32, colour, colour)
            picture.text(x + 23 * sizes[profile][1] - 1, y + 21, profile, fill="white", size=12)
    picture.legend(490, 40, [f"{name}: {count} x {profile}" for name, profile, count in wanted])
    words = "each row the memory slices of a GPU: a partition takes those from its place on"
    picture.text(90, 225, words, at="start")
    return picture


def interleaving() -> Picture:
    """Three jobs that take turns at three resources."""
    durations = [[6.0, 2.0, 2.0], [2.0, 5.0, 2.0], [1.0, 2.0, 6.0]]
    turns = interleave(durations)
    resources = ("storage", "GPU", "network")
    alone = sum(map(sum, durations))
    title = f"In turns three jobs need {turns.iteration_time:.0f} s together, not {alone:.0f} s"
    picture = Picture(720, 250, title)
    scale = 530 / turns.iteration_time
    x = 150.0
    for slot in range(3):
        stages = [(slot - offset) % 3 for offset in turns.offsets]
        longest = max(row[stage] for row, stage in zip(durations, stages, strict=True))
        for job, stage in enumerate(stages):
            width = durations[job][stage] * scale
            picture.box(x, 30 + 44 * job, width - 3, 34, COLOURS[stage], COLOURS[stage])
            if width > 60:
                words = f"{resources[stage]} {durations[job][stage]:.0f} s"
                picture.text(x + width / 2, 52 + 44 * job, words, fill="white", size=12)
        x += longest * scale
        picture.line([(x - 1, 22), (x - 1, 160)], LINE)
    for job in range(3):
        picture.text(140, 52 + 44 * job, f"job {job}", at="end")
    picture.text(
        150,
        185,
        f"a round of all three: {turns.iteration_time:.0f} s; one after another: {alone:.0f} s; "
        f"resources are busy {turns.efficiency:.0%}",
        at="start",
    )
    for i, name in enumerate(resources):
        picture.box(150 + 120 * i, 205, 14, 14, COLOURS[i], COLOURS[i])
        picture.text(172 + 120 * i, 217, name, at="start")
    return picture


def caching() -> Picture:
    """Hit ratios of jobs that read every item once per epoch."""
    picture = Picture(
        720,
        330,
        "A cache that keeps what it has hits more often than LRU, for jobs that shuffle their data",
    )
    left, top, width, height = 70, 25, 420, 250
    picture.box(left, top, width, height, "white")
    for i in range(6):
        picture.text(left + width * i / 5, top + height + 18, f"{20 * i} %", size=11)
        picture.text(left - 8, top + height * (1 - i / 5) + 4, f"{20 * i} %", size=11, at="end")
    names = ("uniform", "random", "fifo", "lru")
    for colour, name in zip(COLOURS, names, strict=False):
        points = []
        for i in range(41):
            ratio = float(expected_hit_ratio(name, i / 40, 1.0))
            points.append((left + width * i / 40, top + height * (1 - ratio)))
        picture.line(points, colour, 3)
    picture.legend(520, 40, ["uniform: keeps what it has", "RANDOM", "FIFO", "LRU"])
    picture.text(left + width / 2, 318, "part of the dataset that is cached", size=12)
    picture.text(520, 160, "hits of a job that reads", at="start")
    picture.text(520, 180, "every item once per epoch", at="start")
    picture.text(520, 200, "in a new random order", at="start")
    return picture


def storage() -> Picture:
    """What jobs get under different objectives."""
    jobs = StorageJobs(dataset=["images", "images", "text"], rate_mbps=[114.0, 69.0, 8.0])
    sizes = {"images": 660.0, "text": 20_900.0}
    picture = Picture(720, 310, "The objective decides which job reads how fast")
    names = ("images, 114 MB/s at most", "images, 69 MB/s at most", "text, 8 MB/s at most")
    picture.legend(20, 20, names)
    picture.text(250, 32, "500 GB of cache and 20 MB/s of remote IO, divided:", at="start")
    for row, objective in enumerate(("greedy", "fifo", "max_min", "throughput")):
        shares = allocate_storage(
            jobs, sizes, cache_gb=500.0, bandwidth_mbps=20.0, objective=objective
        )
        x, y = 250.0, 84 + 54 * row
        picture.text(240, y + 26, f'"{objective}"', at="end")
        for job, rate in enumerate(shares.rates_mbps):
            width = 3.6 * float(rate)
            picture.box(x, y, max(width, 1), 38, COLOURS[job], "white")
            if width > 24:
                picture.text(x + width / 2, y + 24, f"{rate:.0f}", fill="white")
            x += width
        picture.text(x + 10, y + 24, f"{shares.throughput_mbps:.0f} MB/s", at="start")
    return picture


def replicas() -> Picture:
    """Which worker holds which block, and what each evicts first."""
    held = [[2, 0, 1], [0, 3, 4], [0, 4, 5]]
    directory = ReplicaDirectory(workers=3, blocks=6)
    caches = [ReplicaAwareCache(capacity=3, blocks=6) for _ in held]
    for worker in range(3):
        directory.join(worker)
    for worker, blocks in enumerate(held):
        for block in blocks:
            caches[worker].access(block)
        for other, (changed, by) in directory.report(worker, added=blocks).items():
            caches[other].apply(changed, by)
    picture = Picture(720, 260, "Each worker evicts first what another worker has as well")
    for block in range(6):
        picture.text(175 + 60 * block, 30, f"block {block}", size=12)
    for worker, cache in enumerate(caches):
        y = 46 + 56 * worker
        picture.text(130, y + 28, f"worker {worker}", at="end")
        first = cache.eviction_order()[0]
        for block in range(6):
            copies = len(directory.holders(block))
            if block not in held[worker]:
                picture.box(150 + 60 * block, y, 50, 44, "white", "#cfd8dc")
                continue
            colour = COLOURS[4] if copies == 1 else COLOURS[0]
            picture.box(150 + 60 * block, y, 50, 44, colour, INK if block == first else colour)
            picture.text(175 + 60 * block, y + 27, f"{copies}", fill="white")
        picture.text(525, y + 27, f"evicts block {first} first", at="start")
    picture.box(150, 226, 14, 14, COLOURS[4], COLOURS[4])
    picture.text(172, 238, "the only copy in the cluster", at="start")
    picture.box(390, 226, 14, 14, COLOURS[0], COLOURS[0])
    picture.text(412, 238, "there are others", at="start")
    return picture


def simulator() -> Picture:
    """Delays of tenants under three policies and lending."""
    tenants = {"speech": 4, "vision": 4, "ads": 2, "search": 2, "maps": 2}
    work = Workload.of(generate(tenants, jobs=3000, seed=1), tenants)
    result = replay(work, ["private", "quota", "cells", "lending"])
    labels = ["private clusters", "quota", "cells", "cells that lend"]
    values, texts = [], []
    for policy in ("private", "quota", "cells", "lending"):
        everyone = summarize(result, policy)[-1]
        values.append(everyone.mean_delay / 3600)
        texts.append(f"{everyone.mean_delay / 3600:.1f} h, {everyone.later} later")
    later = {policy: summarize(result, policy)[-1].later for policy in ("quota", "cells")}
    title = (
        f"Quota makes {later['quota']} of 3,000 jobs wait longer than alone, cells {later['cells']}"
    )
    picture = Picture(720, 210, title)
    picture.text(
        20, 24, "mean delay, and jobs that start later than in private clusters", at="start"
    )
    picture.bars(labels, values, texts, left=140)
    return picture


def demo() -> Picture:
    """What each part of a scheduler brings in the demo, from the result file."""
    runs = _result("demo")["configurations"]
    runs = [run for run in runs if run["setting"] == "as in the demo"]
    labels = list(dict.fromkeys(run["configuration"] for run in runs))
    means, texts = [], []
    for label in labels:
        of = [run for run in runs if run["configuration"] == label]
        means.append(sum(run["mean_completion"] for run in of) / len(of) / 3600)
        later = sum(run["later"] for run in of) / sum(run["jobs"] for run in of)
        worst = max(run["max_excess"] for run in of)
        longest = f"{worst / 3600:.0f} h" if worst > 5400 else f"{worst / 60:.0f} min"
        more = f"; {later:.1%} wait longer, up to {longest}" if label != labels[0] else ""
        texts.append(f"{means[-1]:.1f} h{more}")
    title = f"With all parts a job completes after {means[-1]:.0f} h, not {means[0]:.0f} h"
    picture = Picture(520, 250, title)
    picture.bars(["alone: no sharing", *labels[1:]], means, texts, left=140, top=14)
    below = (
        "mean time from submission to completion; jobs that wait longer than alone, and by how much"
    )
    picture.text(16, 236, below, size=12, at="start")
    return picture


def traces() -> Picture:
    """Jobs and GPU time by size, of a generated trace."""
    trace = generate({"speech": 8, "vision": 8}, jobs=5000, seed=0)
    sizes = sorted(set(trace.gpus.tolist()))
    time = trace.gpus * trace.duration
    picture = Picture(
        720, 70 + 34 * len(sizes), "Most jobs are small, most GPU time is that of large ones"
    )
    labels = [f"{size} GPU{'s' * (size > 1)}" for size in sizes]
    jobs = [float((trace.gpus == size).mean()) for size in sizes]
    work = [float(time[trace.gpus == size].sum() / time.sum()) for size in sizes]
    for i, label in enumerate(labels):
        y = 40 + 34 * i
        picture.text(100, y + 16, label, at="end")
        for row, share in enumerate((jobs[i], work[i])):
            picture.box(110, y + 12 * row, max(460 * share, 1), 11, COLOURS[row], COLOURS[row])
            x, at = 116 + 460 * share, y + 10 + 12 * row
            picture.text(x, at, f"{share:.0%}", size=10, at="start")
    picture.legend(600, 40, ["jobs", "GPU time"])
    return picture


def hived() -> Picture:
    """The messages between the parts on Kubernetes."""
    picture = Picture(720, 190, "kube-scheduler asks hivecore what it asked HiveD")
    for x, words in (
        (20, ("pods with HiveD's", "annotations")),
        (270, ("kube-scheduler,", "extender configured")),
        (520, ("hivecore serve", "HiveD's YAML")),
    ):
        picture.box(x, 60, 170, 64)
        for i, line in enumerate(words):
            picture.text(x + 85, 88 + 20 * i, line)
    picture.arrow(192, 92, 266, 92, "asks")
    picture.arrow(442, 80, 516, 80, "filter")
    picture.arrow(516, 108, 442, 108)
    picture.text(480, 126, "bind, preempt", size=12)
    picture.text(605, 150, "CellCluster", size=12)
    return picture


def kubernetes() -> Picture:
    """A pod on its way, and one that waits, and the messages of four programs."""
    picture = Picture(820, 452, "A gang is bound when all its pods have a place")
    columns = {"you": 70, "API server": 270, "kube-scheduler": 500, "hivecore serve": 730}
    for name, x in columns.items():
        picture.box(x - 62, 14, 124, 30)
        picture.text(x, 34, name)
        picture.line([(x, 44), (x, 440)])
    you, api, asks, core = columns.values()
    steps = (
        (core, api, "list and watch nodes and pods", COLOURS[2]),
        (core, api, "nodes have hivecore.io/leaf-cell: 8", COLOURS[2]),
        (you, api, "submit a gang", COLOURS[0]),
        (asks, core, "filter: a pod, the nodes left", COLOURS[0]),
        (core, asks, "its node; the gang has its cells", COLOURS[0]),
        (asks, core, "bind", COLOURS[0]),
        (core, api, "Binding with the pod's GPUs", COLOURS[0]),
        (asks, core, "preempt, where cells are exhausted", COLOURS[4]),
        (core, asks, "for each pod another node's victims", COLOURS[4]),
        (asks, api, "evict them", COLOURS[4]),
        (api, core, "the victims are gone", COLOURS[1]),
        (core, api, "touch the pods that wait for them", COLOURS[1]),
        (api, asks, "they have changed: try again", COLOURS[1]),
    )
    for i, (start, end, words, colour) in enumerate(steps):
        y = 76 + 29 * i
        toward = 4 if end > start else -4
        picture.arrow(start + toward, y, end - toward, y)
        middle = (start + end) / 2
        if abs(start - end) > 300:  # past kube-scheduler, whose line it crosses
            middle = (api + asks) / 2
        picture.text(middle, y - 6, words, size=12, fill=colour)
    return picture


def openb() -> Picture:
    """What stays unallocated on openb, and what FGD's authors recorded."""
    figures = _result("devices_openb")
    loads = figures["curves"]["loads"]
    name = figures["replays"][0]["list"]
    runs = [run for run in figures["replays"] if run["list"] == name and run["reported"]]
    runs.reverse()  # as they stand above each other at the right
    best = min(runs, key=lambda run: 100 - run["allocated"]["100"])["policy"]
    picture = Picture(720, 330, f"Of these policies {best} leaves the fewest GPUs idle")
    left, top, width, height, most = 70, 25, 420, 250, 25
    picture.box(left, top, width, height, "white")

    def point(load: float, allocated: float) -> tuple[float, float]:
        x = left + width * (load - loads[0]) / (loads[-1] - loads[0])
        return x, top + height * (1 - (100 - allocated) / most)

    for share in range(0, most + 1, 5):
        picture.text(left - 8, point(0, 100 - share)[1] + 4, f"{share} %", size=11, at="end")
    for load in (80, 90, 100, 110, 120, 130):
        picture.text(point(load, 0)[0], top + height + 18, f"{load} %", size=11)
    picture.line([point(loads[0], loads[0]), point(100, 100)])
    names = []
    for colour, run in zip(COLOURS, runs, strict=False):
        curve = zip(loads, figures["curves"]["allocated"][run["policy"]], strict=True)
        picture.line([point(*entry) for entry in curve if entry[1] >= 100 - most], colour, 2.5)
        for load, share in run["reported"]["allocated"].items():
            if int(load) >= loads[0]:
                x, y = point(int(load), share)
                picture.box(x - 3, y - 3, 6, 6, colour, "white")
        names.append(f"{run['policy']}: {100 - run['allocated']['100']:.1f} %")
    picture.text(left + width / 2, 318, "GPUs that pods have asked for, of all", size=12)
    picture.text(510, 38, "idle when all are asked for:", at="start")
    picture.legend(510, 52, names)
    picture.text(510, 220, "lines: medians of ten orders", at="start")
    picture.text(510, 240, "dots: recorded by its authors", at="start")
    picture.text(510, 260, "grey: no job turned away", at="start")
    return picture


def floors() -> Picture:
    """The three floors of the library."""
    picture = Picture(720, 260, "Kernels know no Python; users see nothing else")
    for i, (name, words) in enumerate(
        (
            ("python/hivecore/", "what users import: names, checks, dataclasses, docstrings"),
            ("src/hivecore/", "bindings: one extension module per kernel, no logic"),
            ("src/cpp/", "kernels: plain C++20, no Python header"),
        )
    ):
        y = 20 + 80 * i
        picture.box(130, y, 420, 56)
        picture.text(340, y + 24, name, size=14)
        picture.text(340, y + 44, words, size=12)
        if i:
            picture.arrow(340, y - 24, 340, y)
    picture.text(640, 40, "names", size=12)
    picture.text(640, 125, "ids and arrays", size=12)
    picture.text(640, 205, "flat memory", size=12)
    picture.text(64, 40, "Python users", size=12)
    picture.text(64, 205, "C++ users", size=12)
    return picture


def scheduler() -> Picture:
    """The way of a job through the parts."""
    title = "A job starts where all parts accept it; else it joins a job, evicts jobs, or waits"
    picture = Picture(470, 600, title)
    steps = (
        ("queues", "which job is next?"),
        ("quotas", "may its team have that much?"),
        ("cells, or a network", "on which nodes?"),
        ("devices, claims", "which GPUs and NICs?"),
        ("all accept", "all resources are taken at once"),
        ("sharing", "may it join a job on its GPUs?"),
        ("victims", "which jobs have to leave for it?"),
    )
    left, width, high = 110.0, 240.0, 48.0
    tops = [40.0 + 70 * i + (30 if i > 4 else 0) for i in range(len(steps))]
    picture.text(left + width / 2, 20, "submit", size=15)
    picture.arrow(left + width / 2, 24, left + width / 2, tops[0])
    for i, (name, question) in enumerate(steps):
        picture.box(left, tops[i], width, high, PALE if i < 4 else "white")
        picture.text(left + width / 2, tops[i] + 20, name, size=16)
        picture.text(left + width / 2, tops[i] + 39, question, size=14)
        if i not in (0, 5):
            picture.arrow(left + width / 2, tops[i - 1] + high, left + width / 2, tops[i])
    for i, words in ((4, "Start"), (5, "Start"), (6, "Preempt")):
        picture.arrow(left, tops[i] + 24, 78, tops[i] + 24)
        picture.text(72, tops[i] + 29, words, size=15, at="end")
    picture.line([(left, tops[3] + 24), (90, tops[3] + 24), (90, tops[2] + 24)], INK, 1.5)
    picture.arrow(90, tops[2] + 24, left, tops[2] + 24)
    picture.text(82, tops[2] + 56, "other", size=14, at="end")
    picture.text(82, tops[2] + 73, "nodes", size=14, at="end")
    bus = left + width + 22
    for i in (1, 2, 3):
        picture.line([(left + width, tops[i] + 24), (bus, tops[i] + 24)], INK, 1.5)
    picture.line([(bus, tops[1] + 24), (bus, tops[5] + 24)], INK, 1.5)
    picture.arrow(bus, tops[5] + 24, left + width, tops[5] + 24)
    picture.text(bus + 8, tops[3] + 78, "one refuses", size=14, at="start")
    picture.arrow(left + width / 2, tops[6] + high, left + width / 2, tops[6] + high + 30)
    picture.text(left + width / 2, tops[6] + high + 46, "Wait, with the reason", size=15)
    return picture


PICTURES: tuple[Callable[[], Picture], ...] = (
    caching,
    cells,
    claims,
    curves_gpus,
    curves_jobs,
    demo,
    decisions,
    devices,
    devices_curve,
    floors,
    gang_life,
    hived,
    interleaving,
    kubernetes,
    matching,
    openb,
    queues,
    quotas,
    quotas_curve,
    replicas,
    scheduler,
    simulator,
    storage,
    topology,
    traces,
)


def drawn() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {f"{draw.__name__}.svg": draw().svg() for draw in PICTURES}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, svg in drawn().items():
        (FOLDER / name).write_text(svg, "utf-8")
