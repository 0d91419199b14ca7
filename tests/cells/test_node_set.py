import copy
import gc
import pickle
import random
import threading
import weakref

import numpy as np
import pytest
from cells.groups.group_schedulers import schedule
from profiles import seeds

from hivecore import _cells
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec, NodeSet


def cluster(names, others=("m0", "m1")):
    """Racks of two nodes of four GPUs, and a second chain; A owns some of both."""
    chains = {
        "rack": Chain(["gpu", "node", "rack"], [4, 2], len(names) // 2, nodes=names),
        "single": Chain(["gpu", "node"], [4], len(others), nodes=others),
    }
    owned = {"rack": {"node": len(names) // 3}, "single": {"node": 1}}
    return CellCluster(ClusterSpec(chains, {"A": owned, "B": {}}))


NAMES = [f"n{i}" for i in range(12)]


@pytest.mark.parametrize("seed", seeds(60))
def test_a_prepared_set_decides_as_the_list_of_its_names(seed):
    rng = random.Random(seed)
    first = cluster(NAMES)
    kept = {}
    for step in range(40):
        names = rng.choice([NAMES, [*NAMES, "m0", "m1"], rng.sample(NAMES, 5), ["x"], []])
        listed = [*names, *rng.choices(names, k=3)] if names else []
        nodes = kept.setdefault(tuple(names), NodeSet(names))
        members = [(rng.randint(1, 3), rng.choice([1, 2, 4]))]
        group = AffinityGroup(f"g{step}", rng.choice("AB"), members, priority=rng.randint(-1, 2))
        if group.virtual_cluster == "B" and group.priority >= 0:
            continue
        # A copy and a cluster of another shape use it in between.
        cluster(NAMES[:6]).schedule(group, suggested_nodes=nodes)
        first.copy().schedule(group, suggested_nodes=nodes)
        plain = first.schedule(group, suggested_nodes=listed)
        prepared = first.schedule(group, suggested_nodes=nodes)
        assert (prepared.outcome, prepared.placement, prepared.victims, prepared.reason) == (
            plain.outcome,
            plain.placement,
            plain.victims,
            plain.reason,
        )
        assert {pod.node for pod in prepared.placement} <= set(names)
        if prepared.outcome == "bind":
            first.commit(prepared)
        if rng.random() < 0.3 and first.groups():
            first.release(rng.choice(list(first.groups())))
    first.check()


@pytest.mark.parametrize("seed", seeds(60))
def test_its_numbers_are_the_places_of_its_names(seed):
    """Nodes of one chain, of both, and such as are two nodes of one chain."""
    rng = random.Random(seed)
    pool = [f"n{i}" for i in range(8)]
    rows = [[rng.choice(pool) for _ in range(rng.randint(1, 6))] for _ in range(2)]
    chains = {
        name: Chain(
            ["gpu", "node"],
            [2],
            len(row),
            nodes=row,
            leaf_indices=[(2 * i, 2 * i + 1) for i in range(len(row))],
        )
        for name, row in zip("xy", rows, strict=True)
    }
    names = CellCluster(ClusterSpec(chains, {"A": {}}))._books.names
    for _ in range(20):
        request = rng.choices([*pool, "elsewhere"], k=rng.randint(0, 30))
        for result, row in zip(NodeSet(request).numbers(names), rows, strict=True):
            expected = [i for i, name in enumerate(row) if name in request]
            assert (result is None) == (expected == list(range(len(row))))
            if result is not None:
                assert result.dtype == np.int32
                assert sorted(result.tolist()) == expected


@pytest.mark.parametrize("seed", seeds(40))
def test_to_name_all_nodes_is_to_name_none(seed):
    """And an array of numbers is the list of them, in any order and more than once."""
    rng = random.Random(seed)
    core = _cells.GroupScheduler([([2, 2, 2], 4, 2)], 2, [(0, 0, 2, 3), (1, 0, 3, 2)], [])
    nodes = list(range(8))
    for _ in range(60):
        priority = rng.randint(-1, 2)
        sizes = [rng.choice([1, 2, 4]) for _ in range(rng.randint(1, 3))]
        request = {"vc": rng.randrange(2), "priority": priority, "merge": rng.random() < 0.3}
        listed = rng.choices(nodes, k=rng.randint(0, 12))
        strided = np.repeat(np.array(listed, np.int32), 2)[::2]
        for some, same in ((nodes, None), (listed, strided)):
            plans = [schedule(core, sizes, suggested=given, **request) for given in (some, same)]
            seen = [(it.outcome, it.reason, it.pods, it.virtual, it.victims) for it in plans]
            assert seen[0] == seen[1]
        plan = plans[0] if rng.random() < 0.5 else schedule(core, sizes, **request)
        if plan.outcome == "bind":
            handle = core.commit(plan, False)
            lies = {leaf // 4 for pod in plan.pods for leaf in pod}
            assert core.placement_good(handle, [strided]) == (lies <= set(listed))
            assert core.placement_good(handle, [np.array(nodes, np.int32)])
        elif plan.outcome == "preempt" or rng.random() < 0.5:
            for victim in plan.victims or core.handles()[:1]:
                core.release(victim)
    core.check()


def test_it_keeps_no_cluster():
    nodes = NodeSet(NAMES[1:])
    first = cluster(NAMES)
    first.schedule(AffinityGroup("g", "A", [(1, 1)]), suggested_nodes=nodes)
    present = weakref.ref(first._books.names)
    del first
    gc.collect()
    assert present() is None
    group = AffinityGroup("g", "B", [(1, 4)], priority=-1)
    assert cluster(NAMES[::-1]).schedule(group, suggested_nodes=nodes).placement[0].node in nodes


def test_it_is_a_set_of_names():
    assert list(NodeSet(["b", np.str_("c"), "a", "b"])) == ["b", "c", "a"]
    nodes = NodeSet(iter(["b", "a", "b"]))
    assert (len(nodes), set(nodes), "a" in nodes, "c" in nodes, 3 in nodes) == (
        2,
        {"a", "b"},
        True,
        False,
        False,
    )
    assert nodes == NodeSet(["a", "b"]) != NodeSet(["a"])
    assert nodes != NodeSet(["a", "c"])
    assert hash(nodes) == hash(NodeSet(["a", "b"]))
    assert nodes != {"a", "b"}
    assert repr(nodes) == "NodeSet of 2 nodes"
    cluster(NAMES).schedule(AffinityGroup("g", "A", [(1, 1)]), suggested_nodes=nodes)
    for other in (copy.copy(nodes), copy.deepcopy(nodes), pickle.loads(pickle.dumps(nodes))):
        assert other == nodes


@pytest.mark.parametrize("wrong", [3, None, [3], ["a", None], [b"a"]])
def test_what_is_no_name_is_refused(wrong):
    with pytest.raises(TypeError, match="nodes"):
        NodeSet(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="suggested_nodes"):
            cluster(NAMES).schedule(AffinityGroup("g", "A", [(1, 1)]), suggested_nodes=wrong)


def test_it_follows_a_reconfiguration():
    first = cluster(NAMES)
    nodes = NodeSet(["n11"])
    group = AffinityGroup("g", "B", [(1, 4)], priority=-1)
    assert first.schedule(group, suggested_nodes=nodes).placement[0].node == "n11"
    first.reconfigure(cluster(NAMES[:6]).spec)
    assert first.schedule(group, suggested_nodes=nodes).outcome == "wait"
    first.reconfigure(cluster(NAMES[::-1]).spec)
    assert first.schedule(group, suggested_nodes=nodes).placement[0].node == "n11"


def test_threads_share_it():
    nodes = NodeSet(["n3"])
    clusters = [cluster(NAMES), cluster(NAMES[::-1])]
    group = AffinityGroup("g", "B", [(1, 4)], priority=-1)
    results = []

    def ask(item):
        for _ in range(200):
            results.append(item.schedule(group, suggested_nodes=nodes).placement[0].node)

    threads = [threading.Thread(target=ask, args=(item,)) for item in clusters * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["n3"] * 800


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([2], np.int32),
        np.array([0, -1], np.int32),
        np.array([-(2**31)], np.int32),
        np.array([0, 1, 2**31 - 1] * 100, np.int32),
        np.array([[0]], np.int32),
        np.array([0.0]),
        np.array([2**32]),
        np.array([2], ">i4"),
        [2],
        ["n0"],
    ],
    ids=repr,
)
def test_numbers_out_of_range_do_not_reach_the_kernel(wrong):
    core = _cells.GroupScheduler([([4], 2, 1)], 1, [], [])
    with pytest.raises((ValueError, TypeError)):
        schedule(core, [4], priority=-1, suggested=wrong)
    plan = schedule(core, [4], priority=-1, suggested=np.array([1], np.int32))
    handle = core.commit(plan, False)
    with pytest.raises((ValueError, TypeError)):
        core.placement_good(handle, [wrong])
    core.check()


def test_no_nodes_at_all():
    core = _cells.GroupScheduler([([4], 2, 1)], 1, [], [])
    none = np.array([], np.int32)
    assert schedule(core, [4], priority=-1, suggested=none).outcome == "wait"
    handle = core.commit(schedule(core, [4], priority=-1), False)
    assert not core.placement_good(handle, [none])
