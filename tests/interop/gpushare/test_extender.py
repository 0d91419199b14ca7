"""The extender of gpushare, with the examples of its article."""

import asyncio
import json
from functools import partial

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.gpushare.objects import best_card, cards_of, node, pod
from interop.servers import at_once, served
from profiles import examples

from hivecore.devices import DeviceCluster
from hivecore.interop.gpushare import Extender, read_assignment
from hivecore.interop.gpushare.service import GpushareService

ROOT = "/gpushare-scheduler"
FILTER, BIND, WATCH, INSPECT = (f"{ROOT}/{verb}" for verb in ("filter", "bind", "watch", "inspect"))
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
GONE = "pod 'default/p' with the uid 'old' is gone"


def make_extender(nodes, unit="MiB", binder=None):
    cluster = DeviceCluster(nodes)
    return Extender(cluster, unit, binder, clock=lambda: 1234), cluster


def owners(cluster):
    """Owner -> node and card."""
    return {
        name: (where, cluster.allocations(name)[0].minor)
        for where in cluster.nodes
        for name in cluster.owners(where)
    }


def free(extender, where):
    """What is left of each card."""
    (drawn,) = get(extender, f"{INSPECT}/{where}")["nodes"]
    return [card["totalGPU"] - card["usedGPU"] for card in drawn["devs"]]


def get(extender, path, body=None):
    status, answer = extender.handle(path, json.loads(json.dumps(body)))
    assert status == 200, answer
    assert not answer.get("Error"), answer
    return json.loads(json.dumps(answer))


def refused(extender, path, body, status=400):
    result, answer = extender.handle(path, body)
    assert result == (200 if path in (FILTER, BIND) else status)
    assert answer["Error"]
    return answer["Error"]


def filter_(extender, wanted, nodes):
    return get(extender, FILTER, {"Pod": wanted, "NodeNames": list(nodes)})


def call(name, where, uid=None):
    return {
        "PodName": name,
        "PodNamespace": "default",
        "PodUID": uid or f"u-{name}",
        "Node": where,
    }


def place(extender, name, amount, where, uid=None):
    """Filter and bind; the index of the card."""
    wish = pod(name, amount, uid=uid)
    assert filter_(extender, wish, [where])["NodeNames"] == [where]
    answer = get(extender, BIND, call(name, where, uid))
    return int(answer["Binding"]["metadata"]["annotations"][INDEX])


def event(type_, item):
    return {"type": type_, "object": item}


def bound(name, amount, card, where, **fields):
    results = {INDEX: str(card), "ALIYUN_COM_GPU_MEM_POD": str(amount)}
    return pod(name, amount, annotations=results, node=where, **fields)


def test_only_a_node_with_one_card_that_is_enough_passes():
    # The example of gpushare's design: 8138 are asked for; n2 has them, but on two cards.
    nodes = {name: cards_of(16276, 16276) for name in ("n1", "n2", "n3")}
    extender, _ = make_extender(nodes)
    used = {"n1": (16276, 12207), "n2": (12207, 12207), "n3": (8138, 16276)}
    for where, amounts in used.items():
        for card, amount in enumerate(amounts):
            get(extender, WATCH, event("ADDED", bound(f"{where}-{card}", amount, card, where)))
    assert {where: free(extender, where) for where in nodes} == {
        "n1": [0, 4069],
        "n2": [4069, 4069],
        "n3": [8138, 0],
    }
    answer = filter_(extender, pod("p", 8138), nodes)
    assert answer["NodeNames"] == ["n3"]
    assert set(answer["FailedNodes"]) == {"n1", "n2"}
    assert get(extender, INSPECT)["nodes"][1]["usedGPU"] == 2 * 12207


def test_the_card_with_the_least_that_is_enough_is_taken_and_written_down():
    # The second example: 12207, 8138, 4069 and 16276 are free.
    extender, _ = make_extender({"n": cards_of(12207, 8138, 4069, 16276)})
    wish = pod("p", 8138)
    filter_(extender, wish, ["n"])
    assert get(extender, BIND, call("p", "n"))["Binding"] == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u-p",
            "annotations": {
                INDEX: "1",
                "ALIYUN_COM_GPU_MEM_DEV": "8138",
                "ALIYUN_COM_GPU_MEM_POD": "8138",
                "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
                "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1234",
            },
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


def test_nodes_are_answered_in_the_form_in_which_they_were_listed():
    extender, _ = make_extender({"a": cards_of(8), "b": cards_of(2)})
    items = [{"metadata": {"name": name, "labels": {}}} for name in ("a", "b", "x")]
    answer = get(extender, FILTER, {"pod": pod("p", 4), "nodes": {"items": items}})
    assert answer["Nodes"] == {"items": items[:1]}
    assert answer["NodeNames"] is None
    assert set(answer["FailedNodes"]) == {"b"}
    assert answer["FailedAndUnresolvableNodes"] == {"x": "node 'x' is unknown"}


def test_a_pod_that_asks_for_nothing_passes_everywhere_and_binds_without_a_card():
    extender, cluster = make_extender({"n": cards_of(8)})
    assert filter_(extender, pod("p"), ["n", "without-cards"])["NodeNames"] == [
        "n",
        "without-cards",
    ]
    answer = get(extender, BIND, call("p", "without-cards"))
    assert answer["Binding"]["metadata"]["annotations"] == {}
    assert owners(cluster) == {}


def test_a_card_that_was_taken_meanwhile_is_said_at_bind():
    extender, _ = make_extender({"n": cards_of(8)})
    for name in ("p", "q"):
        filter_(extender, pod(name, 8), ["n"])
    get(extender, BIND, call("p", "n"))
    assert "node 'n': 1 node: too few devices are free" in refused(extender, BIND, call("q", "n"))


def test_bind_may_be_asked_again_and_answers_the_same():
    extender, cluster = make_extender({"n": cards_of(8, 8), "m": cards_of(8)})
    assert place(extender, "p", 8, "n") == 0
    assert get(extender, BIND, call("p", "n"))["Binding"]["metadata"]["annotations"][INDEX] == "0"
    assert "has a card of node 'n'" in refused(extender, BIND, call("p", "m"))
    assert len(cluster) == 1


def test_bind_of_a_pod_that_was_not_filtered_is_refused():
    extender, _ = make_extender({"n": cards_of(8)})
    assert "has to be filtered first" in refused(extender, BIND, call("p", "n"))
    filter_(extender, pod("p", 2), ["n"])
    assert "has to be filtered first" in refused(extender, BIND, call("p", "n", "u-other"))
    assert "node 'x' is unknown" in refused(extender, BIND, call("p", "x"))


def test_a_pod_may_be_bound_by_its_name_alone():
    extender, _ = make_extender({"n": cards_of(8)})
    filter_(extender, pod("p", 2), ["n"])
    answer = get(extender, BIND, {"podName": "p", "podNamespace": "default", "node": "n"})
    assert answer["Binding"]["metadata"]["annotations"][INDEX] == "0"
    # The uid is that of filter: the end of another pod of this name is none of its business.
    get(extender, WATCH, event("DELETED", pod("p", 2, uid="earlier")))
    assert free(extender, "n") == [6]


def test_a_pod_of_before_a_restart_goes_nowhere_else():
    extender, _ = make_extender({"n": cards_of(8), "m": cards_of(8)})
    get(extender, WATCH, event("ADDED", bound("p", 2, 0, "n")))
    assert filter_(extender, pod("p", 2), ["m"])["NodeNames"] == []


def test_what_the_binder_cannot_bind_gives_its_card_back():
    sent = []

    def binder(binding):
        sent.append(binding)
        if len(sent) == 1:
            raise OSError("no route")

    extender, cluster = make_extender({"n": cards_of(8)}, binder=binder)
    filter_(extender, pod("p", 8), ["n"])
    assert refused(extender, BIND, call("p", "n")) == "binding failed: no route"
    assert owners(cluster) == {}
    assert place(extender, "p", 8, "n") == 0
    assert sent[0] == sent[1]


def test_the_binder_may_ask_the_extender_and_the_same_pod_is_sent_once():
    inside = []

    def binder(binding):
        inside.append(refused(extender, BIND, call("p", "n")))
        inside.append(filter_(extender, pod("q", 4), ["n"])["NodeNames"])

    extender, _ = make_extender({"n": cards_of(8)}, binder=binder)
    place(extender, "p", 4, "n")
    assert inside == ["pod 'default/p' is being bound", ["n"]]


def test_a_pod_that_is_being_sent_insists_on_its_node():
    inside = []

    def binder(binding):
        inside.append(filter_(extender, pod("p", 4), ["m"])["NodeNames"])

    extender, cluster = make_extender({"n": cards_of(8), "m": cards_of(8)}, binder=binder)
    place(extender, "p", 4, "n")
    assert inside == [[]]
    assert cluster.node_of("default/p") == "n"


def test_a_pod_that_was_bound_though_the_binder_failed_keeps_its_card():
    def binder(binding):
        get(extender, WATCH, event("MODIFIED", bound("p", 4, 0, "n")))
        raise TimeoutError("no answer")

    extender, cluster = make_extender({"n": cards_of(8)}, binder=binder)
    filter_(extender, pod("p", 4), ["n"])
    assert refused(extender, BIND, call("p", "n")) == "binding failed: no answer"
    assert list(owners(cluster)) == ["default/p"]


@pytest.mark.parametrize("where", ["n", "m"])
def test_the_card_in_its_annotations_counts_if_a_pod_was_bound_by_an_earlier_attempt(where):
    answers = []

    def binder(binding):
        answers.append(binding)
        if len(answers) == 1:
            raise TimeoutError("no answer")

    extender, cluster = make_extender({"n": cards_of(8, 9), "m": cards_of(9)}, binder=binder)
    filter_(extender, pod("p", 8), ["n"])
    refused(extender, BIND, call("p", "n"))
    place(extender, "other", 8, "n")
    place(extender, "p", 8, where)
    get(extender, WATCH, event("DELETED", pod("other", 8)))
    get(extender, WATCH, event("MODIFIED", bound("p", 8, 0, "n")))
    assert owners(cluster) == {"default/p": ("n", 0)}
    assert free(extender, "n") == [0, 9]
    assert free(extender, "m") == [9]


def test_a_card_is_kept_while_its_pod_is_bound_though_the_answer_was_lost():
    pods = {}

    async def binder(binding):
        name, notes = binding["metadata"]["name"], binding["metadata"]["annotations"]
        pods[name] = pod(name, 8, annotations=notes, node=binding["target"]["name"])
        raise TimeoutError("no answer")

    async def find_pod(namespace, name):
        return pods[name]

    with (
        served(lambda: GpushareService("MiB", binder, find_pod)) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        client.post(WATCH, json={"kind": "NodeList", "items": [node("n", 1, 8)]})
        client.post(WATCH, json={"kind": "PodList", "items": []})
        client.post(FILTER, json={"Pod": pod("p", 8), "NodeNames": ["n"]})
        assert "no answer" in client.post(BIND, json=call("p", "n")).json()["Error"]
        answer = client.post(FILTER, json={"Pod": pod("q", 8), "NodeNames": ["n"]}).json()
        assert answer["FailedNodes"] == {"n": "too few devices are free"}


def test_pages_of_a_list_that_broke_off_do_not_count():
    extender, cluster = make_extender({"n": cards_of(8)})
    broken = {"resourceVersion": "5", "continue": "there is more"}
    page = {"kind": "PodList", "metadata": broken, "items": [bound("p", 8, 0, "n")]}
    get(extender, WATCH, page)
    for i, meta in enumerate(({"continue": "more"}, {})):
        items = [bound(f"q{i}", 1, 0, "n")]
        page = {"kind": "PodList", "metadata": {"resourceVersion": "9", **meta}, "items": items}
        get(extender, WATCH, page)
    assert set(owners(cluster)) == {"default/q0", "default/q1"}


def test_a_pod_that_comes_back_insists_on_its_node_until_that_is_out_of_the_question():
    extender, cluster = make_extender({"n": cards_of(8), "m": cards_of(8)})
    place(extender, "p", 8, "n")
    assert filter_(extender, pod("p", 8), ["m", "n"])["NodeNames"] == ["n"]
    assert filter_(extender, pod("p", 8), ["m"])["NodeNames"] == ["m"]
    assert owners(cluster) == {}
    place(extender, "p", 8, "m")
    get(extender, WATCH, event("MODIFIED", bound("p", 8, 0, "m")))
    answer = filter_(extender, pod("p", 8), ["n"])
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"] == {"n": "pod 'default/p' has a card of node 'm'"}


def test_a_recreated_pod_is_another_one():
    extender, cluster = make_extender({"n": cards_of(8)})
    place(extender, "p", 8, "n", uid="old")
    assert place(extender, "p", 6, "n", uid="new") == 0
    assert list(owners(cluster)) == ["default/p"]
    # The end of the old one comes late.
    get(extender, WATCH, event("DELETED", bound("p", 8, 0, "n", uid="old")))
    assert list(owners(cluster)) == ["default/p"]
    get(extender, WATCH, event("DELETED", bound("p", 6, 0, "n", uid="new")))
    assert owners(cluster) == {}


@pytest.mark.parametrize("is_filtered_late", [False, True])
def test_calls_for_an_earlier_pod_take_no_card_from_the_pod_with_its_name(is_filtered_late):
    extender, _ = make_extender({"n": cards_of(8)})
    filter_(extender, at(7, pod("p", 6, uid="new")), ["n"])
    get(extender, BIND, call("p", "n", "new"))
    if is_filtered_late:
        earlier = {"Pod": at(5, pod("p", 6, uid="old")), "NodeNames": ["n"]}
        assert refused(extender, FILTER, earlier) == GONE
    refused(extender, BIND, call("p", "n", "old"))
    assert free(extender, "n") == [2]


def test_a_bind_that_was_filtered_before_a_later_pod_came_takes_no_card_from_it():
    extender, _ = make_extender({"n": cards_of(8)})
    filter_(extender, at(5, pod("p", 8, uid="old")), ["n"])
    get(extender, WATCH, event("ADDED", at(7, bound("p", 6, 0, "n", uid="new"))))
    assert refused(extender, BIND, call("p", "n", "old")) == GONE
    assert free(extender, "n") == [2]


def test_a_bind_after_the_end_of_its_pod_takes_no_card():
    extender, cluster = make_extender({"n": cards_of(8)})
    filter_(extender, pod("p", 8, uid="old"), ["n"])
    get(extender, WATCH, event("DELETED", pod("p", 8, uid="old")))
    assert refused(extender, BIND, call("p", "n", "old")) == GONE
    assert owners(cluster) == {}


def test_a_late_filter_of_a_pod_that_is_gone_leaves_the_request_of_a_later_one():
    extender, _ = make_extender({"n": cards_of(8)})
    get(extender, WATCH, event("DELETED", pod("p", 9, uid="old")))
    filter_(extender, pod("p", 6, uid="new"), ["n"])
    earlier = {"Pod": pod("p", 9, uid="old"), "NodeNames": ["n"]}
    assert refused(extender, FILTER, earlier) == GONE
    assert extender.may_fit("default/p")
    get(extender, BIND, call("p", "n", "new"))
    assert free(extender, "n") == [2]


def test_a_pod_that_another_scheduler_binds_gives_its_card_back():
    extender, cluster = make_extender({"n": cards_of(8)})
    place(extender, "p", 8, "n")
    get(extender, WATCH, event("MODIFIED", pod("p", 8)))
    assert list(owners(cluster)) == ["default/p"]
    get(extender, WATCH, event("MODIFIED", pod("p", 8, node="n")))
    assert owners(cluster) == {}


# --- events


def at(version, item):
    """The object as it was at this version."""
    item["metadata"]["resourceVersion"] = str(version)
    return item


@pytest.mark.parametrize("where", [None, "n"])
def test_a_late_event_of_an_earlier_pod_takes_no_card_from_the_pod_with_its_name(where):
    extender, _ = make_extender({"n": cards_of(8)})
    filter_(extender, at(7, pod("p", 6, uid="new")), ["n"])
    get(extender, BIND, call("p", "n", "new"))
    earlier = at(5, bound("p", 8, 0, where, uid="old"))
    get(extender, WATCH, event("MODIFIED", earlier))
    get(extender, WATCH, {"kind": "PodList", "items": [earlier]})
    get(extender, WATCH, event("DELETED", at(6, pod("p", 8, uid="old"))))
    assert free(extender, "n") == [2]


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_a_later_pod_of_its_name_says_that_a_pod_is_gone(phase):
    extender, cluster = make_extender({"n": cards_of(8)})
    get(extender, WATCH, event("ADDED", at(5, bound("p", 8, 0, "n", uid="old"))))
    later = at(7, pod("p", 6, uid="new", phase=phase))
    get(extender, WATCH, {"kind": "PodList", "items": [later]})
    assert owners(cluster) == {}


def test_an_event_from_before_the_end_of_its_pod_takes_no_card():
    extender, cluster = make_extender({"n": cards_of(8)})
    get(extender, WATCH, event("DELETED", at(6, bound("p", 8, 0, "n"))))
    get(extender, WATCH, event("MODIFIED", at(5, bound("p", 8, 0, "n"))))
    assert owners(cluster) == {}


def test_the_latest_version_of_a_pod_counts():
    extender, _ = make_extender({"n": cards_of(8)})
    get(extender, WATCH, event("ADDED", at(6, bound("p", 2, 0, "n"))))
    get(extender, WATCH, event("MODIFIED", at(5, bound("p", 8, 0, "n"))))
    assert free(extender, "n") == [6]


def test_a_list_that_is_older_than_a_pod_does_not_end_it():
    extender, cluster = make_extender({"n": cards_of(8)})
    get(extender, WATCH, event("ADDED", at(6, bound("p", 8, 0, "n"))))
    get(extender, WATCH, {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": []})
    assert list(owners(cluster)) == ["default/p"]
    get(extender, WATCH, {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []})
    assert owners(cluster) == {}


def test_the_end_of_an_earlier_pod_does_not_end_one_that_waits_for_its_node():
    extender, cluster = make_extender({})
    get(extender, WATCH, event("ADDED", bound("p", 8, 0, "n", uid="new")))
    get(extender, WATCH, event("DELETED", bound("p", 8, 0, "n", uid="old")))
    get(extender, WATCH, event("ADDED", node("n", 1, 8)))
    assert list(owners(cluster)) == ["default/p"]


def test_a_pod_that_waits_for_its_node_gives_way_to_a_later_one_of_its_name():
    extender, cluster = make_extender({"m": cards_of(8)})
    get(extender, WATCH, event("ADDED", bound("p", 8, 0, "n", uid="old")))
    get(extender, WATCH, event("ADDED", bound("p", 8, 0, "m", uid="new")))
    get(extender, WATCH, event("ADDED", node("n", 1, 8)))
    assert owners(cluster) == {"default/p": ("m", 0)}


def test_an_amount_that_is_changed_in_the_annotations_counts():
    extender, _ = make_extender({"n": cards_of(8)})
    place(extender, "p", 6, "n")
    for amount in (6, 2, 8):
        get(extender, WATCH, event("MODIFIED", bound("p", amount, 0, "n")))
        assert free(extender, "n") == [8 - amount]


def test_a_restart_recovers_pods_and_nodes_in_any_order():
    extender, cluster = make_extender({})
    pods = [bound("p", 6, 1, "n"), bound("q", 2, 0, "n"), bound("over", 2, 0, "n", phase="Failed")]
    get(extender, WATCH, {"kind": "PodList", "items": pods})
    assert owners(cluster) == {}
    get(extender, WATCH, {"kind": "NodeList", "items": [node("n", 2, 16)]})
    assert owners(cluster) == {"default/p": ("n", 1), "default/q": ("n", 0)}
    get(extender, WATCH, {"kind": "PodList", "items": pods})
    assert place(extender, "r", 2 * 1, "n") == 1
    (drawn,) = get(extender, f"{INSPECT}/n")["nodes"]
    assert drawn == {
        "name": "n",
        "totalGPU": 16,
        "usedGPU": 10,
        "devs": [
            {
                "id": 0,
                "totalGPU": 8,
                "usedGPU": 2,
                "pods": [{"name": "q", "namespace": "default", "usedGPU": 2}],
            },
            {
                "id": 1,
                "totalGPU": 8,
                "usedGPU": 8,
                "pods": [
                    {"name": "p", "namespace": "default", "usedGPU": 6},
                    {"name": "r", "namespace": "default", "usedGPU": 2},
                ],
            },
        ],
    }


def test_a_pod_that_is_being_deleted_keeps_its_card_until_it_has_ended():
    extender, cluster = make_extender({"n": cards_of(8)})
    place(extender, "p", 8, "n")
    going = bound("p", 8, 0, "n", phase="Running")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    get(extender, WATCH, event("MODIFIED", going))
    assert list(owners(cluster)) == ["default/p"]
    get(extender, WATCH, event("MODIFIED", bound("p", 8, 0, "n", phase="Succeeded")))
    assert owners(cluster) == {}


def test_more_cards_and_more_memory_are_taken_up_at_once():
    extender, _ = make_extender({"n": cards_of(8)})
    place(extender, "p", 8, "n")
    assert filter_(extender, pod("q", 12), ["n"])["NodeNames"] == []
    get(extender, WATCH, event("MODIFIED", node("n", 2, 24)))
    assert place(extender, "q", 12, "n") == 1


def config_map(text, name="unhealthy-gpu-n", namespace="kube-system"):
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"gpus": text}}


def test_unhealthy_cards_take_no_pods_until_the_config_map_is_gone():
    extender, _ = make_extender({})
    get(extender, WATCH, event("ADDED", config_map("0")))
    get(extender, WATCH, event("ADDED", node("n", 2, 16)))
    assert place(extender, "p", 2, "n") == 1
    get(extender, WATCH, event("MODIFIED", config_map("0,1")))
    assert filter_(extender, pod("q", 2), ["n"])["NodeNames"] == []
    get(extender, WATCH, event("ADDED", config_map("", namespace="elsewhere")))
    assert filter_(extender, pod("q", 2), ["n"])["NodeNames"] == []
    get(extender, WATCH, event("DELETED", config_map("0,1")))
    assert place(extender, "q", 8, "n") == 0


def test_a_malformed_config_map_is_named_and_changes_nothing():
    extender, _ = make_extender({"n": cards_of(8)})
    error = refused(extender, WATCH, event("ADDED", config_map("0,x")))
    assert error == "'unhealthy-gpu-n': data.gpus: 'x' is no integer"
    assert place(extender, "p", 8, "n") == 0


def test_a_deleted_node_keeps_the_cards_of_its_pods_until_they_are_gone():
    extender, cluster = make_extender({"n": cards_of(8, 8), "empty": cards_of(8)})
    place(extender, "p", 4, "n")
    get(extender, WATCH, event("DELETED", node("empty", 1, 8)))
    get(extender, WATCH, event("DELETED", node("n", 2, 16)))
    assert list(cluster.nodes) == ["n"]
    answer = filter_(extender, pod("q", 1), ["n"])
    assert answer["FailedAndUnresolvableNodes"] == {"n": "node 'n' is unknown"}
    # It comes back: the pod still has its card.
    get(extender, WATCH, event("ADDED", node("n", 2, 16)))
    assert place(extender, "q", 8, "n") == 1
    get(extender, WATCH, event("DELETED", node("n", 2, 16)))
    for name, amount, card in (("p", 4, 0), ("q", 8, 1)):
        assert list(cluster.nodes) == ["n"]
        get(extender, WATCH, event("DELETED", bound(name, amount, card, "n")))
    assert cluster.nodes == ()


def test_one_pod_that_cannot_be_read_does_not_hide_the_others():
    extender, cluster = make_extender({"n": cards_of(8)})
    items = [bound("x", 2, "y", "n"), bound("q", 2, 0, "n")]
    error = refused(extender, WATCH, {"kind": "PodList", "items": items})
    assert error.startswith("'x': metadata.annotations.ALIYUN_COM_GPU_MEM_IDX")
    assert owners(cluster) == {"default/q": ("n", 0)}


def test_pods_of_before_are_known_from_the_cluster():
    before, cluster = make_extender({"n": cards_of(8), "m": cards_of(8)})
    place(before, "p", 6, "n")
    extender = Extender(DeviceCluster.from_bytes(cluster.to_bytes()), "MiB")
    assert free(extender, "n") == [2]
    assert filter_(extender, pod("p", 6), ["m"])["NodeNames"] == []
    get(extender, WATCH, event("DELETED", bound("p", 6, 0, "n")))
    assert free(extender, "n") == [8]


def test_the_time_of_an_assignment_is_that_of_today():
    extender = Extender(DeviceCluster({"n": cards_of(8)}), "MiB")
    place(extender, "p", 5, "n")
    annotations = get(extender, BIND, call("p", "n"))["Binding"]["metadata"]["annotations"]
    assignment = read_assignment(pod("p", 5, node="n", annotations=annotations), "MiB")
    assert (assignment.card, assignment.memory) == (0, 5 << 20)
    assert 10**18 < assignment.assumed_at < 10**19


def test_a_clock_that_fails_takes_no_card():
    cluster = DeviceCluster({"n": cards_of(8)})
    extender = Extender(cluster, "MiB", clock=lambda: -1)
    filter_(extender, pod("p", 8), ["n"])
    with pytest.raises(ValueError, match="now=-1"):
        extender.handle(BIND, call("p", "n"))
    assert len(cluster) == 0


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.lists(st.integers(0, 12) | st.none(), max_size=20),
    st.randoms(),
)
@examples(150)
def test_every_pod_gets_the_card_that_gpushare_takes(sizes, amounts, random):
    extender, cluster = make_extender({"n": cards_of(*sizes)})
    left, running = list(sizes), {}
    for i, amount in enumerate(amounts):
        if amount is None:
            if running:
                name = random.choice(sorted(running))
                card, held = running.pop(name)
                left[card] += held
                get(extender, WATCH, event("DELETED", bound(name, held, card, "n")))
        elif amount:
            card = best_card(left, amount)
            passes = filter_(extender, pod(f"p{i}", amount), ["n"])["NodeNames"]
            assert passes == ([] if card is None else ["n"])
            if card is not None:
                assert place(extender, f"p{i}", amount, "n") == card
                left[card] -= amount
                running[f"p{i}"] = card, amount
        assert free(extender, "n") == left
    cluster.check()


# --- the rest


def test_an_unknown_node_is_404():
    extender, _ = make_extender({})
    assert refused(extender, f"{INSPECT}/n", None, 404) == "node 'n' is unknown"


def test_an_unknown_unit_and_a_missing_cluster_are_refused():
    with pytest.raises(ValueError, match="unit must be one of MiB, GiB"):
        make_extender({}, unit="GB")
    with pytest.raises(TypeError, match="cluster must be a DeviceCluster, not dict"):
        Extender({}, "GiB")


def test_it_answers_over_http():
    bound = []

    async def binder(binding):
        bound.append(binding["target"]["name"])

    with (
        served(lambda: GpushareService("MiB", binder)) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        request = {"Pod": pod("p", 2), "NodeNames": ["n"]}
        nodes = {"kind": "NodeList", "items": [node("n", 1, 8)]}
        assert client.post(WATCH, json=nodes).json() == {}
        # A pod that is not listed yet may have the card.
        assert client.get("/readyz").status_code == 503
        assert client.post(FILTER, json=request).status_code == 503
        assert client.post(WATCH, json={"kind": "PodList", "items": []}).json() == {}
        assert client.get("/readyz").status_code == 200
        answer = client.post(FILTER, json=request)
        assert answer.json()["NodeNames"] == ["n"]
        assert client.post(BIND, json=call("p", "n")).json()["Error"] == ""
        assert bound == ["n"]
        assert client.get(f"{INSPECT}/n").json()["nodes"][0]["usedGPU"] == 2


def test_what_becomes_free_while_a_large_request_is_answered_counts_for_its_pod():
    service = GpushareService("MiB", None)
    begin = service.extender.begin

    async def main():
        def begin_and_wait(path, body):
            reply = begin(path, body)
            asyncio.run_coroutine_threadsafe(learn(), loop).result(20)
            return reply

        async def learn():
            await service.apply(event("ADDED", node("n", 1, 8)))
            service.changed.clear()  # as if the pods that wait had been touched

        loop = asyncio.get_running_loop()
        await service.apply({"kind": "NodeList", "items": []})
        await service.apply({"kind": "PodList", "items": []})
        service.extender.begin = begin_and_wait
        body = json.dumps({"Pod": pod("p", 8), "NodeNames": ["n"]}) + " " * 2**20
        await service._answer(FILTER, body.encode(), {})
        return service.changed.is_set(), list(service.waiting)

    assert asyncio.run(main()) == (True, ["default/p"])


def test_many_binds_at_once_never_give_a_card_twice():
    extender, _ = make_extender({"n": cards_of(8, 8)}, binder=lambda binding: None)
    names = [f"p{i}" for i in range(16)]
    for name in names:
        filter_(extender, pod(name, 2), ["n"])
    answers = {}

    def bind(name):
        answers[name] = extender.handle(BIND, call(name, "n"))[1]["Error"]

    at_once(*(partial(bind, name) for name in names))
    assert sum(not error for error in answers.values()) == 8
    assert free(extender, "n") == [0, 0]
