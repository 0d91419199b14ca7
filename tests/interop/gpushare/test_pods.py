"""gpushare's nodes, pods and annotations, its agent, and open-gpu-share's several cards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.gpushare.objects import cards_of, node, pod
from interop.hostile import broken, refused_clearly
from profiles import examples

from hivecore.devices import Device, DeviceAllocation, DeviceCluster, DeviceRequest, NodeDevices
from hivecore.devices.device_cluster import POLICIES
from hivecore.interop.gpushare import (
    match_container,
    open_gpu_share,
    read_assignment,
    read_bound_pod,
    read_node,
    read_pod,
    read_unhealthy,
    timed_out,
    with_unhealthy,
    write_assignment,
)
from hivecore.reference.devices.sharing import slots_in_order

MI, GI = 1 << 20, 1 << 30


def memory(inventory):
    return [dict(card.amounts).get("memory", 0) for card in inventory.devices]


def annotations(card, amount, time=None, assigned="false"):
    results = {
        "ALIYUN_COM_GPU_MEM_IDX": str(card),
        "ALIYUN_COM_GPU_MEM_POD": str(amount),
        "ALIYUN_COM_GPU_MEM_ASSIGNED": assigned,
    }
    return results | ({} if time is None else {"ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(time)})


def assumed(name, card, *amounts, time, **fields):
    return pod(name, *amounts, annotations=annotations(card, sum(amounts), time), **fields)


# --- nodes


def test_the_node_of_the_design_has_two_cards_of_16276_mib():
    # gpushare-scheduler-extender, docs/designs/designs.md
    assert memory(read_node(node("n", 2, 32552), "MiB")) == [16276 * MI] * 2
    assert memory(read_node(node("n", 4, 63), "GiB")) == [15 * GI] * 4


@pytest.mark.parametrize(("cards", "total"), [(0, 0), (0, 100), (4, 0)])
def test_a_node_without_cards_or_memory_shares_none(cards, total):
    assert read_node(node("n", cards, total), "MiB").devices == ()
    assert read_node({}, "MiB").devices == ()


def test_cards_of_a_node_may_differ():
    assert memory(read_node(node("n", 2, 40), "GiB", cards=[16, 24])) == [16 * GI, 24 * GI]
    with pytest.raises(ValueError, match=r"cards: 1 of them, but aliyun.com/gpu-count is 2"):
        read_node(node("n", 2, 40), "GiB", cards=[40])


def test_the_config_map_names_cards_that_are_unhealthy_until_it_does_not():
    sick = read_unhealthy({"data": {"gpus": "0,2,9"}})
    inventory = read_node(node("n", 3, 30), "GiB", unhealthy=sick)
    assert [card.healthy for card in inventory.devices] == [False, True, False]
    assert [card.healthy for card in with_unhealthy(inventory, [1]).devices] == [True, False, True]
    for nothing in ({}, {"data": None}, {"data": {"gpus": ""}}, {"data": {"gpus": "  "}}):
        assert read_unhealthy(nothing) == ()


@pytest.mark.parametrize("text", ["0,x", "x", "0,,2", "1;2", "-1", "1.0", "0,", "٣", "9" * 30])
def test_a_malformed_card_is_an_error_and_not_card_0(text):
    with pytest.raises(ValueError, match=r"^data\.gpus"):
        read_unhealthy({"data": {"gpus": text}})


# --- pods


def test_containers_add_up_to_what_one_card_must_give():
    assert read_pod(pod("p", 3, "5"), "GiB") == DeviceRequest("default/p", 1, memory=8 * GI)
    assert read_pod(pod("p", "8138"), "MiB") == DeviceRequest("default/p", 1, memory=8138 * MI)


def test_a_pod_that_asks_for_nothing_needs_no_card():
    for nothing in (pod("p"), pod("p", 0), pod("p", None)):
        assert read_pod(nothing, "GiB") == DeviceRequest("default/p")


@pytest.mark.parametrize(
    ("amount", "error"),
    [(-1, ValueError), ("1.5", ValueError), (True, TypeError), ([], TypeError), ("x", ValueError)],
)
def test_a_wrong_amount_is_named_by_its_path(amount, error):
    with pytest.raises(error, match=r"^spec\.containers\[0\]\.resources\.limits\['aliyun"):
        read_pod(pod("p", amount), "GiB")


def test_more_than_any_card_has_is_refused():
    with pytest.raises(ValueError, match=r"^spec\.containers: aliyun\.com/gpu-mem=.* are too many"):
        read_pod(pod("p", 2**18, 1), "GiB")
    with pytest.raises(ValueError, match="unit must be one of MiB, GiB"):
        read_pod(pod("p", 1), "KiB")


@given(
    st.lists(st.integers(1, 10**5), min_size=1, max_size=4),
    st.sampled_from(["MiB", "GiB"]),
    st.data(),
)
@examples(100)
def test_written_annotations_are_read_as_the_same_card(sizes, unit, data):
    scale = {"MiB": MI, "GiB": GI}[unit]
    card = data.draw(st.integers(0, len(sizes) - 1))
    amount = data.draw(st.integers(1, sizes[card]))
    now = data.draw(st.integers(0, 2**63 - 1))
    held = (DeviceAllocation("gpu", card, {"memory": amount * scale}),)
    annotations = write_assignment(held, cards_of(*sizes, unit=unit), unit, now)
    assert annotations["ALIYUN_COM_GPU_MEM_DEV"] == str(sizes[card])
    bound = pod("p", amount, annotations=annotations, node="n")
    assert read_bound_pod(bound, unit) == ("default/p", "n", held)
    assignment = read_assignment(bound, unit)
    assert (assignment.assumed_at, assignment.assigned) == (now, False)


def test_a_time_of_today_is_read():
    now = 1_790_000_000_123_456_789
    assignment = read_assignment(assumed("p", 0, 2, time=now), "GiB")
    assert assignment.assumed_at == now


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ([], "0 of them, a pod has one card"),
        ([DeviceAllocation("gpu", i, {"memory": GI}) for i in (0, 1)], "2 of them"),
        ([DeviceAllocation("rdma", 0, {"share": 1})], "a pod has one card"),
        ([DeviceAllocation("gpu", 0, {"memory": GI + 1})], "no whole number of GiB"),
        ([DeviceAllocation("gpu", 0, {})], "no whole number of GiB"),
        ([DeviceAllocation("gpu", 2, {"memory": GI})], "the node has no card 2"),
    ],
)
def test_what_is_no_card_of_the_node_is_not_written(held, says):
    with pytest.raises(ValueError, match=says):
        write_assignment(held, cards_of(8, 8, unit="GiB"), "GiB", 0)


def test_a_pod_counts_until_it_has_ended_also_while_it_is_being_deleted():
    running = pod("p", 2, annotations=annotations(1, 2), node="n", phase="Running")
    running["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_bound_pod(running, "GiB").allocations[0].minor == 1
    for phase in ("Succeeded", "Failed"):
        assert read_bound_pod({**running, "status": {"phase": phase}}, "GiB") is None
    assert read_bound_pod(pod("p", 2, annotations=annotations(1, 2)), "GiB") is None
    assert read_bound_pod(pod("p", 2, node="n"), "GiB") is None
    assert read_bound_pod(pod("p", 2, annotations=annotations(1, 0), node="n"), "GiB") is None


@pytest.mark.parametrize(("card", "amount"), [("x", 1), ("-1", 1), (1, "x"), (1, -2), ("0-1", 1)])
def test_a_malformed_annotation_is_an_error_and_no_missing_pod(card, amount):
    bound = pod("p", 2, annotations=annotations(card, amount), node="n")
    with pytest.raises(ValueError, match=r"^metadata\.annotations\.ALIYUN_COM_GPU_MEM_"):
        read_bound_pod(bound, "GiB")


def test_pods_that_do_not_start_in_time_are_late():
    pods = [
        assumed("late", 0, 2, time=100, phase="Pending"),
        assumed("early", 0, 2, time=101),
        assumed("runs", 0, 2, time=1, phase="Running"),
        pod("assigned", 2, annotations=annotations(0, 2, 1, "true")),
        pod("timeless", 2, annotations=annotations(0, 2)),
        pod("new", 2),
    ]
    assert timed_out(pods, "GiB", 130, 30) == ("default/late",)
    assert timed_out(pods, "GiB", 131, 30) == ("default/late", "default/early")
    assert timed_out(pods, "GiB", 20, 30) == ()


# --- the agent


def test_the_agent_takes_the_pod_that_was_assumed_first():
    pods = [
        assumed("b", 0, 2, time=5, node="n"),
        assumed("a", 1, 2, time=4, node="n"),
        assumed("other", 2, 2, time=1, node="m"),
        assumed("larger", 3, 3, time=1, node="n"),
        assumed("runs", 4, 2, time=1, node="n", phase="Running"),
        pod("assigned", 2, annotations=annotations(5, 2, 1, "true"), node="n"),
    ]
    match = match_container(pods, "n", 2, "GiB", {})
    assert (match.name, match.card) == ("default/a", 1)
    assert match.annotations == {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
    assert match_container(pods, "n", 4, "GiB", {}) is None


def test_pods_with_several_containers_start_one_container_after_the_other():
    pods = [assumed("two", 1, 2, 0, 3, time=5, node="n"), assumed("one", 0, 3, time=4, node="n")]
    first = match_container(pods, "n", 2, "GiB", {})
    assert (first.name, first.annotations) == ("default/two", {})
    # kubelet goes on with the pod that it has begun, though the other is older.
    second = match_container(pods, "n", 3, "GiB", {"default/two": 1})
    assert (second.name, second.card) == ("default/two", 1)
    assert second.annotations == {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
    assert match_container(pods, "n", 3, "GiB", {}).name == "default/one"
    assert match_container(pods[:1], "n", 5, "GiB", {}) is None


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=6).map(
        lambda shapes: [shape for shape in shapes if any(shape)]
    ),
    st.randoms(),
)
@examples(100)
def test_pods_that_start_in_the_order_of_their_times_get_each_its_own_card(shapes, random):
    pods = [assumed(f"p{i}", i, *shape, time=i + 1, node="n") for i, shape in enumerate(shapes)]
    started = {}
    for i, shape in enumerate(shapes):
        for done, amount in enumerate(filter(None, shape), 1):
            match = match_container(random.sample(pods, len(pods)), "n", amount, "GiB", started)
            assert (match.name, match.card) == (f"default/p{i}", i)
            assert bool(match.annotations) == (done == len([entry for entry in shape if entry]))
            started[match.name] = done
        pods[i]["metadata"]["annotations"] |= match.annotations


# --- open-gpu-share


def test_a_card_has_a_thousand_thousandths():
    inventory = open_gpu_share.read_node(
        {
            "metadata": {"labels": {"alibabacloud.com/gpu-card-model": "V100M16"}},
            "status": {"capacity": {"alibabacloud.com/gpu-count": 4}},
        }
    )
    assert memory(inventory) == [1000] * 4
    assert inventory.model == "V100M16"


def shared(count, milli, index=None, node="n"):
    texts = {"alibabacloud.com/gpu-count": str(count), "alibabacloud.com/gpu-milli": str(milli)}
    if index is not None:
        texts["alibabacloud.com/gpu-index"] = index
    return pod("p", annotations=texts, node=node)


def test_a_pod_asks_for_a_number_of_cards():
    assert open_gpu_share.read_pod(shared(3, 1000)) == DeviceRequest("default/p", 3, memory=1000)
    assert open_gpu_share.read_pod(shared(0, 0)) == DeviceRequest("default/p")
    assert open_gpu_share.read_pod(pod("p")) == DeviceRequest("default/p")
    with pytest.raises(ValueError, match=r"gpu-milli'.=1001: allowed are 0 to 1000"):
        open_gpu_share.read_pod(shared(1, 1001))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 1000))
@examples(100)
def test_the_cards_of_a_pod_are_read_as_they_were_written(cards, milli):
    assert open_gpu_share.read_cards(open_gpu_share.write_cards(cards)) == tuple(cards)
    text = open_gpu_share.write_cards(sorted(cards))
    bound = open_gpu_share.read_bound_pod(shared(len(cards), milli, text))
    assert (
        sum(dict(allocation.amounts)["memory"] for allocation in bound.allocations)
        == len(cards) * milli
    )
    annotations = open_gpu_share.write_assignment(bound.allocations, milli, 5)
    assert annotations == {"alibabacloud.com/gpu-index": text, "alibabacloud.com/assume-time": "5"}


def cards_with(used):
    """A node of cards with 1000 each, of which so much is used."""
    node = NodeDevices([Device("gpu", i, {"memory": 1000}) for i in range(len(used))])
    cluster = DeviceCluster({"n": node})
    for i, amount in enumerate(used):
        if not amount:
            continue
        cluster.recover(f"owner-{i}", "n", [DeviceAllocation("gpu", i, {"memory": amount})])
    return cluster, node


def assigned(cluster, node, count, milli, policy=None):
    """The cards that a pod is assigned, as its annotation says; None: it waits."""
    request = open_gpu_share.read_pod(shared(count, milli))
    decision = cluster.schedule(request, policy=policy)
    if decision.outcome == "wait":
        return None
    held = [
        allocation for owner in cluster.owners("n") for allocation in cluster.allocations(owner)
    ]
    decision.verify(node, held)
    cluster.commit(decision)
    cluster.check()
    cluster.release(request.name)
    index = open_gpu_share.write_assignment(decision.placement, milli, 0)[
        "alibabacloud.com/gpu-index"
    ]
    bound = open_gpu_share.read_bound_pod(shared(count, milli, index))
    assert bound.allocations == decision.placement
    return open_gpu_share.read_cards(index)


def test_a_card_gives_several_shares_of_one_pod():
    assert assigned(*cards_with([600, 100, 100]), 3, 450) == (1, 1, 2)
    assert assigned(*cards_with([0]), 2, 500) == (0, 0)
    assert assigned(*cards_with([0]), 3, 500) is None
    assert assigned(*cards_with([0, 0]), 2, 600) == (0, 1)
    assert assigned(*cards_with([500, 0]), 1, 500) == (0,)  # a single share: the best fit


def test_all_of_a_card_is_given_only_while_no_pod_is_on_it():
    cluster, node = cards_with([0, 0])
    cluster.recover("of-no-memory", "n", [DeviceAllocation("gpu", 0, {})])
    assert assigned(cluster, node, 2, 500) == (0, 1)
    assert assigned(cluster, node, 4, 250) == (0, 0, 0, 1)
    assert assigned(cluster, node, 4, 500) is None


@given(
    st.lists(st.sampled_from([0, 100, 400, 550, 999, 1000]), min_size=1, max_size=5),
    st.integers(2, 8),
    st.sampled_from([1, 100, 250, 334, 450, 500, 501, 999]),
    st.sampled_from(POLICIES),
)
@examples(150)
def test_several_shares_are_on_the_cards_that_open_gpu_share_takes(used, count, milli, policy):
    cluster, node = cards_with(used)
    free = [1000 - amount for amount in used]
    assert assigned(cluster, node, count, milli, policy) == slots_in_order(free, milli, count)
    room = sum(1000 // milli for _ in used) // count
    request = open_gpu_share.read_pod(shared(count, milli))
    assert bool(cluster.impossible([request] * 3)) == (room < 3)


def test_only_cards_are_written_as_cards():
    for entry in (
        DeviceAllocation("rdma", 0, {"share": 5}),
        DeviceAllocation("gpu", 0, {"memory": 501}),
        DeviceAllocation("gpu", 0, {"core": 5}),
    ):
        with pytest.raises(ValueError, match="gives no multiple of 500"):
            open_gpu_share.write_assignment([entry], 500, 0)


@pytest.mark.parametrize("text", ["1-", "-1", "a", "1--2", "1,2", "1-2-x"])
def test_a_malformed_list_of_cards_is_an_error(text):
    with pytest.raises(ValueError, match="is no integer"):
        open_gpu_share.read_cards(text)


def test_a_pod_with_fewer_cards_than_it_asks_for_is_an_error():
    with pytest.raises(ValueError, match=r"gpu-index'.: 2 cards, the pod asks for 3"):
        open_gpu_share.read_bound_pod(shared(3, 500, "1-2"))
    assert open_gpu_share.read_bound_pod(shared(2, 500, "1-2", node=None)) is None
    assert open_gpu_share.read_bound_pod(shared(2, 500)) is None


# --- hostile objects

POD = assumed("p", 1, 2, 3, time=5, node="n", phase="Pending")
SHARED = shared(2, 500, "0-1")
NODE = node("n", 2, 32)
READERS = [
    (POD, lambda item: read_pod(item, "GiB")),
    (POD, lambda item: read_bound_pod(item, "GiB")),
    (POD, lambda item: timed_out([item], "GiB", 10, 1)),
    (POD, lambda item: match_container([item], "n", 2, "GiB", {})),
    (SHARED, open_gpu_share.read_pod),
    (SHARED, open_gpu_share.read_bound_pod),
    (NODE, lambda item: read_node(item, "GiB")),
    (NODE, open_gpu_share.read_node),
    ({"data": {"gpus": "0,1"}}, read_unhealthy),
]


@given(st.sampled_from(READERS), st.data())
@examples(800)
def test_hostile_objects_are_refused_clearly_or_read(case, data):
    document, read = case
    with refused_clearly(most=500):
        read(data.draw(broken(document)))
