"""What a cluster says of a request that waits: counts, what is missing, and victims."""

import itertools
import pickle
import random

import pytest
from devices.cases import machine, request
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceAllocation,
    DeviceCluster,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    VirtualFunctionGroup,
    preemption,
)

EIGHT = NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4)
SEEDS = st.integers(0, 2**32)


def occupied(cluster, node, owners):
    """Owners by name: (minors of their GPUs, percent of each, priority)."""
    for name, (minors, percent, priority) in owners.items():
        amounts = {"core": percent, "memory_ratio": percent}
        held = [DeviceAllocation("gpu", minor, amounts) for minor in minors]
        cluster.recover(name, node, held, priority=priority)


# --- what is said


def test_what_binds_needs_no_explanation():
    explanation = DeviceCluster({"n": EIGHT}).explain(DeviceRequest("x", gpus=8))
    assert explanation.outcome == "bind"
    assert explanation.reason == ""
    assert explanation.cheapest is None
    assert (explanation.counts, explanation.shortages, explanation.refusals) == ((), (), ())


def test_without_nodes_there_is_nothing_to_explain_but_that():
    explanation = DeviceCluster().explain(DeviceRequest("x", gpus=8))
    assert (explanation.outcome, explanation.reason) == ("wait", "there are no nodes")
    assert (explanation.counts, explanation.shortages, explanation.changes) == ((), (), ())


def test_nodes_are_counted_by_reason_and_those_that_come_nearest_are_described():
    cluster = DeviceCluster(
        {
            "cpu": NodeDevices(()),
            "small": NodeDevices.uniform(gpus=1),
            "full": EIGHT,
            "other": NodeDevices(()),
            "torn": EIGHT,
        }
    )
    occupied(cluster, "full", {"a": (range(8), 100, 0)})
    occupied(cluster, "torn", {"b": ((0, 2, 4, 6), 100, 0)})
    explanation = cluster.explain(DeviceRequest("x", gpus=2, gpu_wishes={"scope": "pcie"}))
    assert explanation.counts == (("no devices", 2), ("too few", 1), ("capacity", 1), ("scope", 1))
    assert explanation.reason == cluster.schedule(explanation.cheapest.request).reason
    assert [
        (shortage.node, shortage.code, shortage.type) for shortage in explanation.shortages
    ] == [
        ("torn", "scope", "gpu"),
        ("full", "capacity", "gpu"),
        ("small", "too few", "gpu"),
    ]
    assert [refusal.part for refusal in explanation.refusals] == ["torn", "full", "small"]
    assert all(refusal.stage == "devices" for refusal in explanation.refusals)


SLICED = {"scope": "numa"}


@pytest.mark.parametrize(
    ("inventory", "owners", "arguments", "code", "detail"),
    [
        (NodeDevices(()), {}, {"gpus": 1}, "no devices", "1 gpu wanted, 0 healthy there"),
        (EIGHT, {}, {"gpus": 9}, "too few", "9 gpu wanted, it has 8"),
        (
            EIGHT,
            {},
            {"nics": "all", "nic_wishes": {"vf_selector": {}}},
            "no functions",
            "all rdma with a virtual function wanted, 0 of 4 have any",
        ),
        (
            NodeDevices.uniform(gpus=1, model="T4"),
            {},
            {"gpus": 1, "models": ["H100", "A100"]},
            "model",
            "one of A100, H100 wanted, it has 'T4'",
        ),
        (
            EIGHT,
            {},
            {"gpus": 1, "memory": 1, "isolation_provider": "HAMi-core"},
            "isolation",
            "'HAMi-core' wanted, it has ''",
        ),
        (
            EIGHT,
            {"a": (range(7), 100, 0)},
            {"gpus": 2},
            "capacity",
            "2 gpu wanted, 1 of 8 idle",
        ),
        (
            EIGHT,
            {"a": (range(7), 70, 0)},
            {"gpus": 2, "memory_percent": 40},
            "capacity",
            "2 gpu with memory_ratio 40 wanted, 1 of 8 have it free",
        ),
        (
            EIGHT,
            {"a": (range(8), 20, 0)},
            {"gpus": 1, "memory": 1 << 30, "gpu_wishes": {"exclusive": "device"}},
            "capacity",
            "1 gpu with memory 1073741824 wanted, 0 of 8 have it free",
        ),
        (
            NodeDevices.uniform(gpus=8, model="H100"),
            {"a": ((0, 5), 100, 0)},
            {"gpus": 4, "partition": "restricted"},
            "partition",
            "one of 2 partitions of 4 wanted, idle are [1, 2, 3, 4, 6, 7]",
        ),
        (
            EIGHT,
            {"a": ((0, 1, 4, 5), 100, 0)},
            {"gpus": 4, "gpu_wishes": SLICED},
            "scope",
            "4 gpu in one numa wanted, idle are 4 on switches ['1', '3']",
        ),
    ],
)
def test_a_node_says_what_it_lacks(inventory, owners, arguments, code, detail):
    cluster = DeviceCluster({"n": inventory})
    occupied(cluster, "n", owners)
    explanation = cluster.explain(DeviceRequest("x", **arguments))
    assert [(shortage.code, shortage.detail) for shortage in explanation.shortages] == [
        (code, detail)
    ]
    assert explanation.refusals[0].reason.endswith(detail)


def explained(devices, holder, waiting):
    """What a node of these devices lacks for a request while another one, if any, has devices."""
    cluster = DeviceCluster({"n": NodeDevices(devices)})
    if holder is not None:
        assert cluster.allocate(DeviceRequest("a", **holder), "n").outcome == "bind"
    (shortage,) = cluster.explain(DeviceRequest("x", **waiting)).shortages
    return shortage.detail


def cards(count, **fields):
    return [Device("gpu", i, {"core": 100, "memory": 400}, **fields) for i in range(count)]


def shares(count, memory):
    return {"needs": [DeviceNeed("gpu", count, {"memory": memory}, repeat=True)]}


@pytest.mark.parametrize(
    ("healthy", "holder", "count", "detail"),
    [
        (True, None, 7, "7 gpu with memory 200 wanted, 3 of them have room for 6 such shares"),
        (True, 300, 6, "6 gpu with memory 200 wanted, 3 of them have room for 4 such shares"),
        (False, None, 5, "5 gpu with memory 200 wanted, 2 of them have room for 4 such shares"),
    ],
)
def test_a_need_that_repeats_is_counted_in_shares(healthy, holder, count, detail):
    devices = [*cards(2), cards(3, healthy=healthy)[2]]
    held = None if holder is None else {"needs": [DeviceNeed("gpu", 1, {"memory": holder})]}
    assert explained(devices, held, shares(count, 200)) == detail


def test_virtual_functions_that_are_missing_or_taken_are_named():
    function = VirtualFunctionGroup(["0"], {"net": "a"})
    nic = [Device("rdma", 0, {"share": 100}, vf_groups=[function])]

    def wish(net):
        return {"nics": 1, "nic_percent": 10, "nic_wishes": {"vf_selector": {"net": net}}}

    missing = "1 rdma with a virtual function of net=b wanted, 0 of 1 have any"
    assert explained(nic, None, wish("b")) == missing
    taken = "1 rdma with share 10, a virtual function of net=a wanted, 0 of 1 have it free"
    assert explained(nic, wish("a"), wish("a")) == taken


def test_devices_that_are_not_together_are_described_by_their_switches():
    cluster = DeviceCluster({"n": EIGHT})
    occupied(cluster, "n", {"a": (range(6), 100, 0)})
    cluster.recover("b", "n", [DeviceAllocation("rdma", 3, {"share": 100})])
    wish = DeviceRequest("x", gpus=2, nics=1, joint=("gpu", "rdma"), same_pcie=True)
    explanation = cluster.explain(wish)
    assert explanation.shortages[0].code == "joint"
    assert explanation.shortages[0].detail == (
        "2 gpu wanted, 2 idle on switches ['3']; the others are idle on switches ['0', '1', '2']"
    )
    assert explanation.cheapest.owners == ("b",)


def test_an_owner_that_has_devices_already_is_refused_and_nothing_changes():
    cluster = DeviceCluster({"n": EIGHT})
    cluster.allocate(DeviceRequest("x", gpus=1), "n")
    before = cluster.to_bytes()
    with pytest.raises(ValueError, match="'x' has devices already"):
        cluster.explain(DeviceRequest("x", gpus=8))
    with pytest.raises(ValueError, match="policy"):
        cluster.explain(DeviceRequest("y", gpus=8), policy="tight")
    with pytest.raises(TypeError, match="request"):
        cluster.explain("y")
    cluster.explain(DeviceRequest("y", gpus=8))
    assert cluster.to_bytes() == before


# --- victims


def test_no_victim_is_named_where_no_end_would_help():
    cluster = DeviceCluster({"n": EIGHT})
    occupied(cluster, "n", {"a": (range(8), 100, 0)})
    assert cluster.explain(DeviceRequest("x", gpus=9)).changes == ()
    cluster.set_health("n", False, type="gpu", minor=0)
    assert cluster.explain(DeviceRequest("x", gpus=8)).changes == ()
    assert cluster.explain(DeviceRequest("x", gpus=7)).cheapest.owners == ("a",)


def two_cards(healthy=True):
    """A node with two cards of 80 units, all healthy or none."""
    amounts = {"core": 100, "memory": 80}
    cards = [Device("gpu", i, amounts, healthy=healthy, labels={"i": str(i)}) for i in range(2)]
    return DeviceCluster({"n": NodeDevices(cards)})


def change_named(cluster, request):
    change = cluster.explain(request).cheapest
    return change.kind, change.relaxed, change.nodes, change.cost, change.request


def asking(count, memory, **wishes):
    return DeviceRequest("x", needs=[DeviceNeed("gpu", count, {"memory": memory}, **wishes)])


def test_each_cause_of_a_refusal_has_its_own_code_reason_and_change():
    causes = [
        (two_cards(False), asking(1, 10), "unhealthy", ("health", (), ("n",), 1, asking(1, 10))),
        (
            two_cards(),
            asking(1, 100),
            "too small",
            ("relax", ("gpu amounts",), (), 0, asking(1, 80)),
        ),
        (two_cards(), asking(3, 80), "too few", ("relax", ("gpu count",), (), 0, asking(2, 80))),
        (
            two_cards(),
            asking(2, 80, selector={"i": "1"}),
            "no match",
            ("relax", ("gpu selector",), (), 0, asking(2, 80)),
        ),
    ]
    reasons = set()
    for cluster, wish, code, change in causes:
        decision = cluster.schedule(wish)
        assert decision.refusal.code == code
        assert decision.impossible == (code != "unhealthy")
        explanation = cluster.explain(wish)
        assert (explanation.impossible, explanation.reason) == (
            decision.impossible,
            decision.reason,
        )
        assert change_named(cluster, wish) == change
        reasons |= {decision.reason, explanation.refusals[0].reason}
    assert len(reasons) == 2 * len(causes)


def test_as_few_devices_as_will_do_have_to_be_healthy_again():
    cluster = DeviceCluster({"a": EIGHT, "b": EIGHT})
    for minor in range(6):
        cluster.set_health("a", False, type="gpu", minor=minor)
    for minor in range(5):
        cluster.set_health("b", False, type="gpu", minor=minor)
    cluster.set_health("b", False, type="rdma")
    kind, _, nodes, cost, _ = change_named(cluster, DeviceRequest("x", gpus=4))
    assert (kind, nodes, cost) == ("health", ("b",), 1)
    with_nic = DeviceRequest("x", gpus=4, nics=1)
    kind, _, nodes, cost, _ = change_named(cluster, with_nic)
    assert (kind, nodes, cost) == ("health", ("a",), 2)


def test_a_request_is_impossible_only_if_no_idle_and_healthy_node_would_serve_it():
    cluster = DeviceCluster({"a": EIGHT, "b": NodeDevices.uniform(gpus=4)})
    occupied(cluster, "a", {"o": (range(8), 100, 0)})
    cluster.set_health("a", False, type="gpu", minor=3)
    scope = {"scope": "socket"}
    for gpus, nodes, wishes, impossible in (
        (8, None, {}, False),
        (8, ("b",), {}, True),
        (8, None, scope, True),
        (4, ("a",), scope, False),
        (9, None, {}, True),
    ):
        request = DeviceRequest("x", gpus=gpus, gpu_wishes=wishes)
        decision = cluster.schedule(request, nodes=nodes)
        assert (decision.outcome, decision.impossible) == ("wait", impossible)
        assert pickle.loads(pickle.dumps(decision)).impossible == impossible
    assert not cluster.schedule(DeviceRequest("x", gpus=1)).impossible
    assert not DeviceCluster({}).schedule(DeviceRequest("x", gpus=1)).impossible


def test_chosen_and_designated_devices_are_impossible_only_if_idle_and_healthy_ones_would_not_do():
    cluster = DeviceCluster({"n": EIGHT})
    occupied(cluster, "n", {"o": ((0, 1), 100, 0)})
    cluster.set_health("n", False, type="gpu", minor=2)
    two = DeviceRequest("x", gpus=2)
    amounts = {"core": 100, "memory": 80 << 30}
    for minors, impossible in (((0, 1), False), ((1, 2), False), ((3,), True)):
        decision = cluster.schedule(two, nodes=["n"], gpus=minors)
        assert (decision.outcome, decision.impossible) == ("wait", impossible)
        named = [DeviceAllocation("gpu", minor, amounts) for minor in minors]
        decision = cluster.allocate(two, "n", designated=named)
        assert (decision.outcome, decision.impossible) == ("wait", impossible)
    half = [DeviceAllocation("gpu", minor, {"core": 50, "memory": 40 << 30}) for minor in (0, 1)]
    assert cluster.allocate(two, "n", designated=half).impossible
    five = cluster.allocate(DeviceRequest("x", gpus=5), "n", numa=[0])
    four = cluster.allocate(DeviceRequest("x", gpus=4), "n", numa=[0])
    assert (five.impossible, four.outcome, four.impossible) == (True, "wait", False)


def test_of_equal_sets_that_on_the_first_node_is_named():
    node = NodeDevices.uniform(gpus=1)
    cluster = DeviceCluster({"n0": node, "n1": node})
    occupied(cluster, "n1", {"a": ((0,), 100, 0)})
    occupied(cluster, "n0", {"b": ((0,), 100, 0)})
    assert cluster.explain(DeviceRequest("x", gpus=1)).cheapest.owners == ("b",)
    cluster.release("b")
    occupied(cluster, "n0", {"b": ((0,), 100, 1)})
    assert cluster.explain(DeviceRequest("x", gpus=1)).cheapest.owners == ("a",)


def test_a_search_that_is_cut_short_names_owners_that_will_do(monkeypatch):
    cluster = DeviceCluster({"n": NodeDevices.uniform(gpus=2, gpu_memory=100)})
    occupied(cluster, "n", {"a": ((0,), 30, 0), "b": ((0,), 35, 0), "c": ((1,), 60, 0)})
    wish = DeviceRequest("x", gpus=1)
    monkeypatch.setattr(preemption, "_QUESTIONS", 0)
    assert cluster.explain(wish).cheapest.owners == ("a", "b")
    monkeypatch.setattr(preemption, "_QUESTIONS", 100)
    assert cluster.explain(wish).cheapest.owners == ("c",)


def crowded(rng):
    """A cluster of one or two nodes with a dozen owners, and a request."""
    uniform = rng.random() < 0.7
    model = rng.choice(("", "", "H100"))
    kinds = [
        NodeDevices.uniform(gpus=8, nics=4, sockets=2, switches=4, model=model)
        if uniform
        else machine(rng)
        for _ in range(rng.choice((1, 1, 2)))
    ]
    cluster = DeviceCluster({f"n{i}": kind for i, kind in enumerate(kinds)})
    for i in range(rng.randint(1, 12)):
        node = rng.choice(cluster.nodes)
        policy = rng.choice(("bin-pack", "spread"))
        inventory = cluster.inventory(node)
        share = {"memory_percent": rng.randint(10, 60)} if rng.random() < 0.4 else {}
        owner = rng.choice(
            (
                lambda i=i, share=share: DeviceRequest(f"o{i}", gpus=rng.randint(1, 3), **share),
                lambda i=i: DeviceRequest(f"o{i}", nics=1, nic_percent=rng.choice((50, 100))),
                lambda i=i, inventory=inventory: request(rng, inventory, f"o{i}"),
            )
        )()
        cluster.allocate(owner.replace(priority=rng.randint(0, 2)), node, policy=policy)
    wishes = {"scope": rng.choice((None, "pcie", "numa"))}
    gpus = rng.randint(1, 6)
    wish = rng.choice(
        (
            lambda: DeviceRequest("x", gpus=gpus, gpu_wishes=wishes),
            lambda: DeviceRequest("x", gpus=gpus, memory_percent=rng.randint(30, 90)),
            lambda: DeviceRequest("x", gpus=gpus, nics=1, joint=("gpu", "rdma"), same_pcie=True),
            lambda: DeviceRequest("x", gpus=rng.choice((1, 2, 4)), partition="best-effort"),
            lambda: request(rng, kinds[0], "x"),
        )
    )()
    return cluster, wish


def held_by(cluster, owner):
    """In hundredths of devices: the core of a GPU if it is known, the share of a NIC, or all."""
    return sum(
        dict(allocation.amounts).get("core", 0) or dict(allocation.amounts).get("share", 0) or 100
        for allocation in cluster.allocations(owner)
        if allocation.type != "host"
    )


def fits_without(cluster, wish, gone):
    branch = cluster.copy()
    for owner in gone:
        branch.release(owner)
    return branch.fits(wish)


def check_other_changes(cluster, wish, result):
    """What is to be healthy, or given up, lets the request start."""
    for change in result.changes:
        branch = cluster.copy()
        assert change.owners == ()
        if change.kind == "health":
            assert change.request == wish
            branch.set_health(change.nodes[0], True)
        else:
            assert change.kind == "relax" and change.request != wish
        assert branch.fits(change.request)


@examples(300)
@given(SEEDS)
def test_the_named_owners_are_the_cheapest_that_will_do_and_none_can_stay(seed):
    cluster, wish = crowded(random.Random(seed))
    explanation = cluster.explain(wish)
    if explanation.outcome == "bind":
        return
    priorities = dict(cluster._owners.priorities)
    best = None
    for node in cluster.nodes:
        owners = cluster.owners(node)
        if not fits_without(cluster, wish, owners):
            continue
        for size in range(1, len(owners) + 1):
            for gone in itertools.combinations(owners, size):
                cost = (
                    max(priorities.get(owner, 0) for owner in gone),
                    sum(held_by(cluster, owner) for owner in gone),
                )
                if (best is None or cost < best) and fits_without(cluster, wish, gone):
                    best = cost
    change = explanation.cheapest
    if change is None or change.kind != "release":
        assert best is None
        check_other_changes(cluster, wish, explanation)
        return
    assert change.request == wish
    assert fits_without(cluster, wish, change.owners)
    for owner in change.owners:
        assert not fits_without(cluster, wish, set(change.owners) - {owner})
    assert change.cost == sum(held_by(cluster, owner) for owner in change.owners)
    assert (max(priorities.get(owner, 0) for owner in change.owners), change.cost) == best
