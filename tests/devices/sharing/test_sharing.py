"""Shared cards in the twin: gpushare's filter and bind, open-gpu-share's slots, the policies."""

import pytest

from hivecore.reference.devices.fragmentation import Task, TaskMix, fragmentation
from hivecore.reference.devices.shared_cluster import SharedCluster
from hivecore.reference.devices.sharing import Pod, SharedNode
from hivecore.reference.devices.sharing_policies import choose

CARD = 16276  # MiB, as in gpushare's article


def node_with_free(*free, size=CARD, **options):
    node = SharedNode([size] * len(free), **options)
    for card, left in enumerate(free):
        node.charge(f"before-{card}", Pod(size - left), [card])
    return node


def place(nodes, pod, policy, **options):
    result = choose(nodes, pod, policy, **options)
    return None if result is None else tuple(result)


# --- gpushare ------------------------------------------------------------------------------------


def test_charging_twice_and_refunding_an_unknown_owner_change_nothing():
    node = SharedNode([1000], cpu=8000, memory=100)
    node.charge("a", Pod(300, cpu=2000, memory=10), [0])
    node.charge("a", Pod(900, cpu=1000, memory=90), [0])
    node.refund("b")
    assert (node.free(), node.free_cpu, node.free_memory) == ([700], 6000, 90)


# --- policies ------------------------------------------------------------------------------------


def test_packing_prefers_used_cards_then_used_nodes_then_small_nodes():
    # The four cases of the simulator's gpu_packing_score_test.go, whose scores are 93, 48, 29, 25.
    used = node_with_free(200, 1000, 1000, 500, size=1000)
    four, eight = SharedNode([1000] * 4), SharedNode([1000] * 8)
    assert place([eight, four, used], Pod(200, cards=2), "packing") == (2, (0, 3))
    assert place([eight, four, used], Pod(1000, cards=2), "packing") == (2, (1, 2))
    assert place([eight, four], Pod(1000, cards=2), "packing") == (1, (0, 1))


def test_clustering_prefers_nodes_of_the_same_kind_only():
    def node(*pods):
        machine = SharedNode([1000] * 8)
        cards = iter(range(8))
        for number, pod in enumerate(pods):
            machine.charge(str(number), pod, [next(cards) for _ in range(pod.cards)])
        return machine

    share, item, two = Pod(300), Pod(1000), Pod(1000, cards=2)
    others, empty, among, only = node(two), node(), node(share, two), node(share)
    nodes = [others, empty, among, only]
    order = []
    while nodes:
        result, _ = place(nodes, share, "clustering")
        order.append(nodes.pop(result))
    assert order == [only, among, empty, others]
    assert place([node(two), node(item)], item, "clustering")[0] == 1
    assert place([node(share), node(share, share)], share, "clustering")[0] == 1


def test_random_is_the_same_again_and_other_for_other_seeds_and_pods():
    nodes = [SharedNode([1000] * 8) for _ in range(40)]

    def draws(seed):
        return [place(nodes, Pod(1), "random", seed=seed, number=i) for i in range(50)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert len({node for node, _ in draws(1)}) > 20
    assert len({cards for _, cards in draws(1)}) == 8


def test_random_takes_every_fitting_node_equally_often():
    nodes = [SharedNode([1000]), SharedNode([]), SharedNode([1000]), SharedNode([1000])]
    results = [place(nodes, Pod(1), "random", number=i)[0] for i in range(3000)]
    assert results.count(1) == 0
    # Six standard deviations of a binomial distribution.
    assert all(abs(results.count(node) - 1000) < 6 * (3000 * 2 / 9) ** 0.5 for node in (0, 2, 3))


def test_a_cluster_learns_its_mix_from_pods_as_they_come():
    pods = [Pod(700), Pod(300), Pod(2000), Pod(0, 0)]
    cluster = SharedCluster([SharedNode([1000, 1000])], pods, "fgd")
    assert cluster.fragmented_milli() == 0
    rows = [0, 1, 2, 1, 3]
    assert [cluster.place(number, row) for number, row in enumerate(rows)] == [0, 0, -1, 0, 0]
    assert cluster.mix == TaskMix.of(pods[row] for row in rows)
    # 300 fill up card 0 first; then card 1 gives the other 300.
    assert cluster.nodes[0].free() == [0, 700]
    # All of the 700 for 2000 and for none, nothing for 700 and 300.
    assert cluster.fragmented_milli() == (700 + 700) / 5


def test_a_cluster_with_a_given_mix_does_not_learn():
    mix = TaskMix({Task(700, 1, 0): 1})
    cluster = SharedCluster([SharedNode([1000])], [Pod(300)], "fgd", mix=mix)
    assert cluster.place(0, 0) == 0
    assert cluster.mix == {Task(700, 1, 0): 1}


# --- fragmentation: the facts of the simulator's pkg/utils/frag_test.go --------------------------

# cpu, share, cards, model or -, weight in 1/10000; the test's typical pods.
TYPICAL = """
6000 465 1 - 933; 8000 440 1 2080 915; 8000 475 1 T4 876; 8000 440 1 P100 872; 2000 465 1 - 868
12000 900 1 - 865; 4000 900 1 - 843; 16000 678 1 T4 836; 8000 500 1 - 829; 6000 511 1 - 811
14000 1000 2 2080 54; 4000 1000 1 2080 43; 32000 1000 2 T4 43; 16000 1000 1 V100M16 40
64000 1000 2 - 40; 10000 1000 2 - 40; 11400 1000 1 T4 36; 16000 1000 1 T4 36; 4000 1000 2 - 36
14000 1000 2 V100M16 36; 8000 1000 4 - 36; 16000 1000 2 - 32; 2000 1000 1 T4 32
6000 1000 1 - 32; 4000 1000 1 - 32; 5000 1000 1 - 32; 32000 1000 4 V100M16 32; 32000 1000 2 - 32
24000 1000 8 2080 32; 40000 1000 4 - 29; 32000 1000 8 - 29; 32000 1000 1 T4 29
16000 1000 1 - 25; 7000 1000 1 V100M16 25; 24000 1000 1 T4 25
"""
WITH_CPU_PODS = """
15700 1000 1 - 2869; 11900 1000 1 - 1893; 11400 1000 1 - 1227; 1000 0 0 - 736
18710 1000 1 - 485; 8200 1000 1 - 379; 16400 1000 1 - 331; 9810 1000 1 - 197; 15200 1000 1 - 187
11200 1000 1 - 181; 14200 1000 1 - 176; 12000 0 0 - 165; 14900 1000 1 - 139; 60200 1000 4 - 123
64200 1000 8 - 107; 32200 1000 4 - 101; 17400 1000 2 - 91; 30200 1000 2 - 69; 16000 1000 1 - 64
15000 1000 1 - 59; 64000 1000 8 - 53; 15000 0 0 - 53; 11910 1000 1 - 53; 120200 1000 8 - 48
11300 1000 1 - 37; 30000 1000 2 - 32; 9800 1000 1 - 32; 8000 1000 1 - 32; 2000 1000 1 - 27
2000 80 1 - 27; 1000 1000 1 - 27
"""


def mix_of(text):
    mix = TaskMix()
    for row in text.replace("\n", ";").split(";"):
        if row.strip():
            cpu, share, cards, model, weight = row.split()
            models = frozenset() if model == "-" else frozenset({model})
            mix[Task(int(share), int(cards), int(cpu), models)] += int(weight)
    return mix


@pytest.mark.parametrize(
    ("mix", "free", "cpu", "model", "amount"),
    [
        (TYPICAL, [200, 1000, 1000, 500], 1000, "1080", 2566.62),
        (TYPICAL, [1000] * 4, 1000, "1080", 3802.40),
        (TYPICAL, [1000] * 8, 1000, "1080", 7604.80),
        ("6000 465 1 - 933", [200, 1000, 1000, 500], 1000, "1080", 251.91),
        (WITH_CPU_PODS, [1000] * 8, 64000, "P100", 887.20),
        (WITH_CPU_PODS, [1000] * 4 + [0] * 4, 32000, "P100", 554.4),
        (WITH_CPU_PODS, [1000] * 4 + [0] * 4, 0, "P100", 4000.0),
    ],
)
def test_nodes_of_the_simulators_tests_are_as_fragmented_as_there(mix, free, cpu, model, amount):
    assert abs(fragmentation(free, cpu, model, mix_of(mix)) / 10000 - amount) <= 0.01
