"""On which NUMA nodes a pod goes: hints of devices, and their merging with those of others."""

import pytest
from peers.koordinator_numa import Hint, merge_hints

from hivecore.devices import (
    Device,
    DeviceCluster,
    DeviceRequest,
    NodeDevices,
    NumaHint,
    NumaMerge,
    merge_numa_hints,
)

GIB = 1 << 30
POLICIES = ("best-effort", "restricted", "single-numa-node")
BOTH, LEFT, RIGHT = (0, 1), (0,), (1,)
ANY, REFUSED = NumaMerge(None, True), NumaMerge(None, False)


def hints(*sets, preferred=1, score=0):
    """Hints of one resource, of which those of so many NUMA nodes are preferred."""
    return [NumaHint(item, len(item) == preferred, score) for item in sets]


def merge(policy, *resources, nodes=BOTH, kinds=None):
    named = {f"resource {i}": resource for i, resource in enumerate(resources)}
    return merge_numa_hints(nodes, named, policy, kinds=kinds)


def gpu(minor, **options):
    return Device("gpu", minor, {"core": 100, "memory": 80 * GIB}, **options)


# --- merging


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pod_goes_where_all_of_its_resources_prefer(policy):
    gpus, cores = hints(LEFT, RIGHT, BOTH), hints(RIGHT, BOTH)
    assert merge(policy, gpus, cores) == NumaMerge(RIGHT, True)
    assert merge(policy, gpus, None) == NumaMerge(LEFT, True)
    assert merge(policy, None, None) == merge(policy) == ANY


@pytest.mark.parametrize("policy", POLICIES)
def test_koordinator_takes_a_later_set_that_is_lower_before_one_of_a_higher_score(policy):
    scored = [NumaHint(RIGHT, True, 500), NumaHint(LEFT, True, 0)]
    given = [Hint(item.nodes, item.preferred, item.score) for item in scored]
    assert merge_hints(BOTH, [given], policy) == (LEFT, True)
    assert merge_hints(BOTH, [given[::-1]], policy) == (RIGHT, True)
    assert merge(policy, scored) == merge(policy, scored[::-1]) == NumaMerge(RIGHT, True)


def test_the_order_of_resources_decides_in_koordinator():
    first = [NumaHint((2,), False, 5), NumaHint((0, 1), False)]
    second = [NumaHint((0,), False), NumaHint((2,), False)]
    given = [[Hint(h.nodes, h.preferred, h.score) for h in entry] for entry in (first, second)]
    nodes = (0, 1, 2)
    assert merge_hints(nodes, given, "best-effort") == (nodes, True)
    assert merge_hints(nodes, given[::-1], "best-effort") == ((2,), True)
    for item in ((first, second), (second, first)):
        assert merge("best-effort", *item, nodes=nodes) == NumaMerge((2,), True)


def test_a_machine_of_one_numa_node_gives_any():
    assert merge("single-numa-node", hints((7,)), nodes=[7]) == ANY
    assert merge("single-numa-node", hints((7,)), nodes=[7], kinds={7: "shared"}) == REFUSED


def test_many_resources_of_many_hints_are_merged():
    sets = [tuple(i for i in range(12) if bits >> i & 1) for bits in range(1, 1 << 12)]
    resources = [hints(*sets, preferred=0)] * 20
    assert merge("restricted", *resources, nodes=range(12)) == NumaMerge((0,), False)
    few = [hints(*([i] for i in range(12) if i != item)) for item in range(11)]
    assert merge("restricted", *few, nodes=range(12)) == NumaMerge((11,), True)


# --- what is wrong


def test_a_hint_is_checked():
    assert NumaHint([3, 1, 3], True).nodes == (1, 3)
    with pytest.raises(ValueError, match="nodes must not be empty"):
        NumaHint((), True)
    with pytest.raises(ValueError, match="nodes=-1: allowed are 0 to 2147483647"):
        NumaHint((-1,), True)
    with pytest.raises(ValueError, match="score=-1: allowed are 0 to 2147483647"):
        NumaHint((0,), True, -1)
    for wrong, words in (
        ((0, True), "nodes must be a sequence, not int"),
        ((("0",), True), "nodes must be an integer, not str"),
        (((0,), 1), "preferred must be a bool, not int"),
        (((0,), True, 0.5), "score must be an integer, not float"),
    ):
        with pytest.raises(TypeError, match=words):
            NumaHint(*wrong)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"nodes": ()}, ValueError, "nodes: 0 are given, allowed are 1 to 12"),
        ({"nodes": range(13)}, ValueError, "nodes: 13 are given, allowed are 1 to 12"),
        ({"nodes": (0, -1)}, ValueError, "nodes=-1: allowed are 0 to 2147483647"),
        ({"nodes": (0, "1")}, TypeError, "nodes must be an integer, not str"),
        ({"nodes": 2}, TypeError, "nodes must be a sequence, not int"),
        ({"resources": [hints(LEFT)]}, TypeError, "resources must be a mapping, not list"),
        ({"resources": {0: hints(LEFT)}}, TypeError, "resources must be a string, not int"),
        ({"resources": {"a": 3}}, TypeError, r"resources\['a'\] must be a sequence, not int"),
        ({"resources": {"a": [LEFT]}}, TypeError, r"resources\['a'\] must hold NumaHint, not tup"),
        (
            {"resources": {"a": hints((0, 7))}},
            ValueError,
            r"resources\['a'\]: 7 is none of the machine's NUMA nodes, 0, 1",
        ),
        ({"policy": "none"}, ValueError, "policy must be one of best-effort, restricted, single-"),
        ({"policy": None}, TypeError, "policy must be a string, not NoneType"),
        ({"kinds": ["single"]}, TypeError, "kinds must be a mapping, not list"),
        ({"kinds": {"0": "single"}}, TypeError, "kinds must be an integer, not str"),
        ({"kinds": {2: "single"}}, ValueError, "kinds: 2 is none of the machine's NUMA nodes"),
        ({"kinds": {0: "idle"}}, ValueError, r"kinds\[0\] must be one of single, shared, not"),
        ({"kinds": {0: 1}}, TypeError, r"kinds\[0\] must be a string, not int"),
    ],
)
def test_arguments_are_checked(change, error, words):
    given = {"nodes": BOTH, "resources": {"a": hints(LEFT)}, "policy": "restricted"} | change
    with pytest.raises(error, match=words):
        merge_numa_hints(**given)


# --- hints of devices, and allocations on what was merged


def test_a_hint_has_a_score_if_it_has_the_best_devices():
    cluster = DeviceCluster({"n": NodeDevices.uniform(8, sockets=2, switches=4)})
    cluster.allocate(DeviceRequest("other", gpus=1), "n", numa=[1])
    item = DeviceRequest("one", gpus=1)  # best beside the other one
    assert cluster.numa_hints(item, "n") == (
        NumaHint((0,), True, 0),
        NumaHint((1,), True, 500),
        NumaHint((0, 1), False, 500),
    )
    merged = merge("restricted", cluster.numa_hints(item, "n"), hints(LEFT, RIGHT, score=100))
    assert merged == NumaMerge(RIGHT, True)
    assert cluster.schedule(item).placement == cluster.allocate(item, "n", numa=RIGHT).placement


def test_the_host_is_on_all_numa_nodes():
    host = Device("host", 0, {"cpu": 64_000, "memory": 512 * GIB})
    cluster = DeviceCluster({"n": NodeDevices((gpu(0, numa=0), gpu(1, numa=1), host))})
    request = DeviceRequest("pod", gpus=1, cpu_milli=4000)
    assert [hint.nodes for hint in cluster.numa_hints(request, "n")] == [LEFT, RIGHT, BOTH]
    placed = cluster.allocate(request, "n", numa=RIGHT).placement
    assert [(item.type, item.minor) for item in placed] == [("gpu", 1), ("host", 0)]


def test_devices_that_do_not_say_their_numa_node_serve_on_any():
    mixed = NodeDevices((gpu(0, numa=0), gpu(1, numa=1), gpu(2)))
    cluster = DeviceCluster({"n": mixed})
    two = DeviceRequest("pod", gpus=2)
    assert [hint.nodes for hint in cluster.numa_hints(two, "n")] == [LEFT, RIGHT, BOTH]
    placed = cluster.allocate(two, "n", numa=RIGHT).placement
    assert [item.minor for item in placed] == [1, 2]


def test_numa_nodes_do_not_matter_where_nothing_that_is_needed_says_its_own():
    fpga = Device("fpga", 0, {"share": 100})
    placed = NodeDevices((gpu(0, numa=0), gpu(1, numa=1), fpga))
    cluster = DeviceCluster({"placed": placed, "unplaced": NodeDevices((gpu(0), fpga))})
    for node in cluster.nodes:
        for name, needs in (("with", {"fpgas": 1}), ("without", {})):
            request = DeviceRequest(f"{node} {name}", **needs)
            results = cluster.numa_hints(request, node)
            assert results is None
            merged = merge("restricted", results, hints(BOTH, preferred=2), nodes=range(3))
            assert merged == NumaMerge(BOTH, True)
            assert cluster.allocate(request, node, numa=merged.nodes).outcome == "bind"
    # That there is no way is another answer.
    assert cluster.numa_hints(DeviceRequest("more", fpgas=1), "placed") == ()
    assert cluster.numa_hints(DeviceRequest("many", gpus=2), "unplaced") == ()


def test_numa_nodes_have_any_numbers():
    cluster = DeviceCluster({"n": NodeDevices((gpu(0, numa=5), gpu(1, numa=900)))})
    results = cluster.numa_hints(DeviceRequest("pod", gpus=1), "n")
    assert [hint.nodes for hint in results] == [(5,), (900,), (5, 900)]
    merged = merge("single-numa-node", results, hints((900,)), nodes=[900, 5])
    assert merged == NumaMerge((900,), True)
    decision = cluster.allocate(DeviceRequest("pod", gpus=1), "n", numa=merged.nodes)
    assert [allocation.minor for allocation in decision.placement] == [1]


def test_too_many_numa_nodes_matter_only_to_devices_on_them():
    fpga = Device("fpga", 0, {"share": 100})
    many = NodeDevices((*[gpu(i, numa=i) for i in range(13)], fpga))
    cluster = DeviceCluster({"n": many})
    assert cluster.numa_hints(DeviceRequest("pod", fpgas=1), "n") is None
    with pytest.raises(ValueError, match="node: has 13 NUMA nodes, hints are for 12"):
        cluster.numa_hints(DeviceRequest("pod", gpus=1), "n")
