"""Pools of a node: generations, complete and invalid pools, order, selection of nodes."""

import pytest
from dra.worlds import (
    World,
    claim,
    consumption,
    counter_slice,
    device,
    device_class,
    gpus,
    published_slice,
    request,
)

from hivecore.dra import KubernetesFeatures


def selector(key="zone", operator="In", values=("a",), fields=False):
    rule = {"key": key, "operator": operator, "values": list(values)}
    term = {"matchFields" if fields else "matchExpressions": [rule]}
    return {"nodeSelectorTerms": [term]}


def names(world, **node):
    return [
        f"{pool.name}/{device.device.name}"
        for pool in world.pools(**node)
        for device in pool.devices
    ]


def states(world, **node):
    return [(pool.name, pool.state) for pool in world.pools(**node)]


def test_pools_come_by_driver_and_name_and_their_devices_by_slice_and_place():
    world = World(
        published_slice("s3", [device("z"), device("a")], driver="b.x", pool="a"),
        published_slice("s2", [device("second")], driver="a.x", pool="B", count=2),
        published_slice("s1", [device("first")], driver="a.x", pool="B", count=2),
        published_slice("s0", [device("last")], driver="a.x", pool="a"),
    )
    assert names(world) == ["B/first", "B/second", "a/last", "a/z", "a/a"]


def test_pools_with_binding_conditions_come_after_all_others():
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    on = [device("slow", nodeName="n2", **conditions), device("z", nodeName="n1")]
    world = World(
        published_slice("a", [device("x"), device("slow", **conditions)], pool="a"),
        published_slice("b", [device("y")], pool="b"),
        published_slice("c", on, pool="c", perDeviceNodeSelection=True),
    )
    assert names(world) == ["b/y", "c/z", "a/x", "a/slow"]


@pytest.mark.parametrize(
    ("spec", "labels", "selected"),
    [
        ({"nodeName": "n1"}, {}, True),
        ({"nodeName": "n2"}, {}, False),
        ({"allNodes": True}, {}, True),
        ({"allNodes": False}, {}, False),
        ({"nodeSelector": selector()}, {"zone": "a"}, True),
        ({"nodeSelector": selector()}, {}, False),
        ({"nodeSelector": selector(operator="NotIn")}, {}, True),
        ({"nodeSelector": selector(operator="Exists", values=())}, {"zone": ""}, True),
        ({"nodeSelector": selector(operator="DoesNotExist", values=())}, {"zone": ""}, False),
        ({"nodeSelector": selector(operator="Gt", values=["9"])}, {"zone": "10"}, True),
        ({"nodeSelector": selector(operator="Gt", values=["9"])}, {"zone": "x"}, False),
        ({"nodeSelector": selector(operator="Lt", values=["-1"])}, {"zone": "-2"}, True),
        ({"nodeSelector": selector("metadata.name", values=["n1"], fields=True)}, {}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{}]}}, {}, False),
        ({"aNewKind": True, "nodeName": ""}, {}, False),
    ],
)
def test_a_slice_is_of_the_nodes_that_it_selects(spec, labels, selected):
    world = World(published_slice("s", [device("d")], **spec))
    assert names(world, labels=labels) == ["p/d"] * selected


def test_devices_select_their_nodes_if_the_slice_says_so():
    on = [
        device("d0", nodeName="n1"),
        device("d1", nodeName="n2"),
        device("d2", allNodes=True),
        device("d3", nodeSelector=selector()),
        device("d4"),
    ]
    world = World(published_slice("s", on, perDeviceNodeSelection=True))
    assert names(world) == ["p/d0", "p/d2"]
    assert names(world, node="n3", labels={"zone": "a"}) == ["p/d2", "p/d3"]
    world.features = KubernetesFeatures.of("1.35")
    assert names(world) == []


def test_the_newest_generation_of_the_slices_of_the_node_counts():
    world = World(gpus(1), published_slice("t", [device("new")], generation=2))
    assert names(world) == ["p/new"]


def test_a_pool_that_is_being_replaced_elsewhere_is_left_out():
    world = World(gpus(1, count=2), published_slice("t", generation=2, nodeName="n2"))
    assert states(world) == []


def test_a_pool_all_of_whose_slices_the_node_sees_is_used_though_another_generation_begins():
    world = World(gpus(1), published_slice("t", generation=2, nodeName="n2"))
    assert states(world) == [("p", "complete")]


def test_slices_of_other_nodes_complete_a_pool():
    world = World(gpus(1, count=2), published_slice("t", [device("d0")], count=2, nodeName="n2"))
    assert names(world) == ["p/d0"]


def test_a_pool_that_lacks_a_slice_is_incomplete_and_gives_no_devices():
    world = World(gpus(1, count=3), published_slice("t", count=3, nodeName="n2"))
    assert states(world) == [("p", "incomplete")]
    assert world.given(claim(request("r"))) == "unsatisfiable"
    assert world.given(claim(request("r", "All"))) == "pool_incomplete"


SETS = {"set": {"x": 4}}


@pytest.mark.parametrize(
    ("slices", "says"),
    [
        ([gpus(1, count=2), published_slice("t", [device("d0")], count=2)], "device 'd0'"),
        (
            [
                counter_slice("a", SETS, count=2),
                counter_slice("b", SETS, count=2, nodeName="n2"),
                gpus(1, pool="q"),
            ],
            None,
        ),
        ([gpus(1, count=3), *(counter_slice(n, SETS, count=3) for n in "ab")], "counter set 'set'"),
        (
            [published_slice("s", [device("d", counters={"other": {"x": 1}})])],
            "no counter set 'other'",
        ),
        (
            [
                published_slice("s", [device("d", counters={"set": {"y": 1}})], count=2),
                counter_slice("t", SETS, count=2),
            ],
            "no counter 'y' in counter set 'set'",
        ),
        (
            [
                gpus(1, count=2),
                published_slice(
                    "t", [device("d", counters={"z": {"x": 1}})], count=2, nodeName="n2"
                ),
            ],
            "no counter set 'z'",
        ),
    ],
)
def test_a_pool_that_contradicts_itself_is_invalid(slices, says):
    world = World(*slices)
    (pool,) = [pool for pool in world.pools() if pool.name == "p"]
    assert pool.state == "invalid"
    assert says is None or says in pool.reason
    assert pool.devices == ()
    assert world.given(claim(request("r", "All"))) == "pool_invalid"


def test_an_invalid_pool_is_an_error_only_if_no_other_pool_serves():
    broken = published_slice("s", [device("d", counters={"other": {"x": 1}})])
    assert World(broken).given(claim(request("r"))) == "invalid_pools"
    assert World(broken, gpus(1, pool="q")).given(claim(request("r"))) == "r:d0"


def test_counters_do_not_invalidate_a_pool_where_partitions_are_off():
    taken = [device("d", counters={"other": {"x": 1}}), device("e")]
    world = World(published_slice("s", taken), features=KubernetesFeatures.of("1.35"))
    assert world.given(claim(request("r"))) == "r:e"
    assert world.given(claim(request("r", "All"))) == "unsatisfiable"


def test_counter_sets_of_one_name_in_two_drivers_or_pools_are_two():
    taken = [device("d", counters={"set": {"x": 4}})]
    slices = [
        of
        for i, (driver, pool) in enumerate([("a.x", "p"), ("b.x", "p"), ("b.x", "q")])
        for of in (
            published_slice(f"s{i}", taken, driver=driver, pool=pool, count=2),
            counter_slice(f"t{i}", SETS, driver=driver, pool=pool, count=2),
        )
    ]
    assert World(*slices).given(claim(request("r", 3))) == "r:d r:d r:d"
    assert World(*slices).given(claim(request("r", 4))) == "unsatisfiable"


def test_devices_on_other_nodes_take_from_the_counters_of_the_pool():
    here = [device("d0", nodeName="n1"), device("d1", nodeName="n2")]
    for entry in here:
        entry["consumesCounters"] = [consumption("set", x=3)]
    slices = [
        published_slice("s", here, count=2, perDeviceNodeSelection=True),
        counter_slice("t", SETS, count=2, nodeSelector=selector()),
    ]
    world = World(*slices)
    assert world.given(claim(request("r"))) == "r:d0"
    world.commit("other", world.allocate(claim(request("r")), node="n2").allocations[0])
    assert world.given(claim(request("r"))) == "unsatisfiable"


def test_selectors_see_no_devices_of_other_nodes():
    on = [device("d0", nodeName="n2"), device("d1", {"model": "a"}, nodeName="n1")]
    world = World(
        published_slice("s", on, perDeviceNodeSelection=True),
        classes=[device_class("strict", ["model=a"])],
    )
    assert world.given(claim(request("r", "All", deviceClassName="strict"))) == "r:d1"
