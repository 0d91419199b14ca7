import copy
import pickle
import random
import threading

import numpy as np
import pytest
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
    one = cluster(NAMES)
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
        one.copy().schedule(group, suggested_nodes=nodes)
        plain = one.schedule(group, suggested_nodes=listed)
        prepared = one.schedule(group, suggested_nodes=nodes)
        assert (prepared.outcome, prepared.placement, prepared.victims, prepared.reason) == (
            plain.outcome,
            plain.placement,
            plain.victims,
            plain.reason,
        )
        assert {pod.node for pod in prepared.placement} <= set(names)
        if prepared.outcome == "bind":
            one.commit(prepared)
        if rng.random() < 0.3 and one.groups():
            one.release(rng.choice(list(one.groups())))
    one.check()


def test_it_is_a_set_of_names():
    nodes = NodeSet(iter(["b", "a", "b"]))
    assert (len(nodes), set(nodes), "a" in nodes, "c" in nodes, 3 in nodes) == (
        2,
        {"a", "b"},
        True,
        False,
        False,
    )
    assert nodes == NodeSet(["a", "b"]) != NodeSet(["a"])
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
    one = cluster(NAMES)
    nodes = NodeSet(["n11"])
    group = AffinityGroup("g", "B", [(1, 4)], priority=-1)
    assert one.schedule(group, suggested_nodes=nodes).placement[0].node == "n11"
    one.reconfigure(cluster(NAMES[:6]).spec)
    assert one.schedule(group, suggested_nodes=nodes).outcome == "wait"
    one.reconfigure(cluster(NAMES[::-1]).spec)
    assert one.schedule(group, suggested_nodes=nodes).placement[0].node == "n11"


def test_threads_share_it():
    nodes = NodeSet(["n3"])
    clusters = [cluster(NAMES), cluster(NAMES[::-1])]
    group = AffinityGroup("g", "B", [(1, 4)], priority=-1)
    found = []

    def ask(one):
        for _ in range(200):
            found.append(one.schedule(group, suggested_nodes=nodes).placement[0].node)

    threads = [threading.Thread(target=ask, args=(one,)) for one in clusters * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["n3"] * 800


@pytest.mark.parametrize(
    "wrong", [np.array([2], np.int32), np.array([-1], np.int32), np.array([[0]], np.int32), [2]]
)
def test_numbers_out_of_range_do_not_reach_the_kernel(wrong):
    core = _cells.GroupScheduler([([4], 2, 1)], 1, [], [])
    with pytest.raises((ValueError, TypeError)):
        core.schedule(0, 0, -1, -1, [4], None, -1, False, False, wrong, None)
    strided = np.arange(4, dtype=np.int32)[::2][:1]
    plan = core.schedule(0, 0, -1, -1, [4], None, -1, False, False, strided, None)
    assert plan.outcome == "bind"
