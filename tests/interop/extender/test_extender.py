"""kube-scheduler's extender over a scheduler: gangs of pods, end to end."""

import copy
import json

import pytest
from interop.extender.pods_and_kubelets import GANG, HIVED, hived_gang, hived_pod, koordinator_pod
from scheduler.lives import NODES

from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.interop.kubernetes.serving.evictions import Evictions
from hivecore.scheduler import Scheduler


def assert_no_gpu_is_given_twice(cluster):
    assert all(len(pods) == 1 for pods in cluster.gpus().values())


KEY = "gang.scheduling.koordinator.sh"


def pod_group(name, least, api="scheduling.sigs.k8s.io", **notes):
    meta = {"name": name, "namespace": "x"}
    meta["annotations"] = {f"{KEY}/{key.replace('_', '-')}": text for key, text in notes.items()}
    kind = {"kind": "PodGroup", "apiVersion": f"{api}/v1alpha1"}
    return {**kind, "metadata": meta, "spec": {"minMember": least}}


def allocated(world, name):
    """The GPUs that Koordinator's annotation of a pod names."""
    annotations = world.cluster.pod(name)["metadata"]["annotations"]
    return json.loads(annotations["scheduling.koordinator.sh/device-allocated"])["gpu"]


def of_group(name, group, gpus=2, label="pod-group.scheduling.sigs.k8s.io"):
    """A pod whose label names a PodGroup."""
    return koordinator_pod(name, "a", gpus, **({label: group} if label else {}))


# --- gangs


@pytest.mark.parametrize("watches", [True, False])
def test_a_gang_waits_for_its_last_member_and_starts_then(worlds, watches):
    world = worlds("cells", watches=watches)
    first, second = hived_gang("bert", 2)
    world.cluster.run(first)
    assert world.cluster.bound() == {}
    assert world.cluster.reasons == {"bert-0": "1 of the 2 pods that 'bert' needs are there"}
    assert world.states() == {}
    world.cluster.run(second)
    assert world.states() == {"pods:bert": "running"}
    assert set(world.cluster.bound().values()) <= {"n0", "n1"}
    assert len(world.cluster.gpus()) == 8
    assert_no_gpu_is_given_twice(world.cluster)


def test_pods_of_several_sizes_get_places_of_their_own_size(worlds):
    world = worlds("cells")
    members = [(1, 1), (2, 2)]
    pods = [hived_pod(f"w{i}", "a", 2, "ps", members) for i in range(2)]
    world.cluster.run(*pods, hived_pod("l", "a", 1, "ps", members))
    gpus = [name for names in world.cluster.gpus().values() for name in names]
    assert sorted(gpus) == ["l", "w0", "w0", "w1", "w1"]


def test_ranks_follow_the_numbers_in_the_names_of_pods(worlds):
    world = worlds("cells")
    pods = [hived_pod(f"w-{i}", "a", 1, "g", [(5, 1)]) for i in (10, 9, 0, 2, 1)]
    world.cluster.run(*pods)
    places = [pod["metadata"]["annotations"]["hivecore.io/place"] for pod in pods]
    assert places == ["1-gpu/4", "1-gpu/3", "1-gpu/0", "1-gpu/2", "1-gpu/1"]


def test_a_waiting_gang_gets_the_reason_on_every_node(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("a1", 2), *hived_gang("a2", 2))
    assert set(world.cluster.bound()) == {"a1-0", "a1-1"}
    pod = world.cluster.pod("a2-0")
    answer = world.cluster.filter(pod)
    reason = world.scheduler.status("pods:a2").refusal.reason
    assert answer["FailedNodes"] == dict.fromkeys(NODES, reason)
    assert reason


@pytest.mark.parametrize("parts", ["cells", "topology", "devices", "cells and devices"])
def test_a_gang_goes_elsewhere_if_its_node_is_never_offered(worlds, parts):
    world = worlds(parts)
    first, second = hived_gang("bert", 2, gpus=2)
    world.cluster.create(first, second)
    (node,) = world.cluster.filter(first)["NodeNames"]
    others = [name for name in NODES if name != node]
    nominated = {**first, "status": {"nominatedNodeName": others[0]}}
    answer = world.cluster.filter(nominated, others[:1])  # it is asked about alone
    assert answer["FailedNodes"] == {others[0]: f"the pod goes to {node}, which is not offered"}
    (other,) = world.cluster.filter(first, others)["NodeNames"]
    assert other in others
    assert world.cluster.filter(second, others)["NodeNames"]
    world.cluster.nodes = others
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"bert-0", "bert-1"}
    assert node not in world.cluster.bound().values()


@pytest.mark.parametrize("parts", ["cells", "topology", "devices", "cells and devices"])
def test_a_pod_takes_the_place_on_the_node_that_it_is_nominated_for(worlds, parts):
    world = worlds(parts)
    first, second = hived_gang("bert", 2)
    world.cluster.create(first, second)
    (entry,) = world.cluster.filter(first)["NodeNames"]
    (two,) = world.cluster.filter(second)["NodeNames"]
    assert entry != two
    # The victims of the other's node were named for it, and kube-scheduler keeps that node for it.
    nominated = {**first, "status": {"nominatedNodeName": two}}
    assert world.cluster.filter(nominated, [two])["NodeNames"] == [two]
    assert world.cluster.filter(second)["NodeNames"] == [entry]
    world.cluster.bind(first, two)
    world.cluster.bind(second, entry)
    assert world.cluster.bound() == {"bert-0": two, "bert-1": entry}
    assert world.states() == {"pods:bert": "running"}


def test_a_gang_goes_to_the_nodes_that_are_offered_to_all_of_its_pods(worlds):
    nodes = [f"m{i}" for i in range(64)]
    machine = NodeDevices.uniform(gpus=8)
    world = worlds("", Scheduler(devices=DeviceCluster(dict.fromkeys(nodes, machine))))
    pods = [koordinator_pod(f"p{i}", "a", 8, "g", 2) for i in range(2)]
    world.cluster.create(*pods)
    answer = world.cluster.filter(pods[0], nodes[5:9])
    assert answer["NodeNames"][0] in nodes[5:9]
    answer = world.cluster.filter(pods[1], nodes[7:11])
    assert answer["NodeNames"][0] in nodes[7:9]
    world.cluster.nodes = nodes[5:9]
    world.cluster.pump()
    assert set(world.cluster.bound().values()) == {"m7", "m8"}


def test_a_gang_stays_if_there_is_nothing_else_or_a_pod_of_it_is_bound(worlds):
    world = worlds("cells")
    (pod,) = hived_gang("alone", 1)
    world.cluster.run(pod, *hived_gang("full", 3, priority=-1))
    assert len(world.cluster.bound()) == 4
    assert world.states() == {"pods:alone": "running", "pods:full": "running"}
    world.cluster.end("alone-0")
    (next_one,) = hived_gang("next", 1)
    world.cluster.create(next_one)
    (node,) = world.cluster.filter(next_one)["NodeNames"]
    others = [name for name in NODES if name != node]
    assert "not offered" in str(world.cluster.filter(next_one, others, times=30)["FailedNodes"])
    assert world.states() == {"pods:full": "running", "pods:next": "running"}
    world.cluster.delete("full-0", "full-1", "full-2")
    two = hived_gang("two", 2, gpus=1)
    world.cluster.create(*two)
    (node,) = world.cluster.filter(two[0])["NodeNames"]
    world.cluster.bind(two[0], node)
    (present,) = world.cluster.filter(two[1])["NodeNames"]
    others = [name for name in NODES if name != present]
    assert "not offered" in str(world.cluster.filter(two[1], others, times=30)["FailedNodes"])


def test_the_end_of_the_last_pod_frees_what_the_gang_had(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("a1", 2), *hived_gang("a2", 2))
    world.cluster.end("a1-0")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"a1-1"}
    world.cluster.delete("a1-1")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"a2-0", "a2-1"}
    assert world.states() == {"pods:a2": "running"}


def test_a_pod_that_comes_in_the_place_of_another_one_gets_its_place(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("a1", 2))
    before = world.cluster.bound()
    world.cluster.delete("a1-1")
    again = hived_gang("a1", 2)[1]
    world.cluster.run(again)
    assert world.cluster.bound() == before
    assert_no_gpu_is_given_twice(world.cluster)


def test_a_gang_that_waits_is_no_job_any_more_when_a_member_is_gone(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("a1", 2), *hived_gang("a2", 2))
    assert world.states()["pods:a2"] == "pending"
    world.cluster.delete("a2-1")
    assert set(world.states()) == {"pods:a1"}
    world.cluster.delete("a1-0", "a1-1")
    world.cluster.pump()
    assert world.cluster.bound() == {}
    world.cluster.run(hived_gang("a2", 2)[1])
    assert set(world.cluster.bound()) == {"a2-0", "a2-1"}


# --- preemption


def test_an_opportunistic_gang_leaves_for_a_guaranteed_one(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("spare", 4, priority=-1))
    assert len(world.cluster.bound()) == 4
    world.cluster.run(*hived_gang("train", 2), grace=True)
    assert world.states() == {"pods:spare": "running", "pods:train": "reserved"}
    assert len(world.cluster.evicted) == 2  # each of the two pods has those of another node
    assert len(world.cluster.bound()) == 4
    world.cluster.pump()
    # Whole jobs leave: those of the other nodes go as well.
    assert set(world.cluster.bound()) == {"train-0", "train-1"}
    assert world.states() == {"pods:train": "running"}
    assert_no_gpu_is_given_twice(world.cluster)


def test_a_victim_whose_pods_have_come_again_waits_at_its_old_place(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("spare", 4, priority=-1))
    world.cluster.run(*hived_gang("train", 2), grace=True)
    again = hived_gang("spare", 4, priority=-1)
    for pod in again:
        pod["metadata"]["name"] += "-again"
    world.cluster.run(*again)
    assert world.states() == {"pods:train": "running", "pods:spare": "pending"}
    world.cluster.delete("train-0", "train-1")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {f"spare-{i}-again" for i in range(4)}


def test_a_pod_that_is_not_bound_yet_stops_at_once(worlds):
    world = worlds("cells")
    spare = hived_gang("spare", 4, priority=-1)
    world.cluster.create(*spare)
    answer = world.cluster.filter(spare[0])
    assert len(answer["NodeNames"]) == 1
    world.cluster.create(*hived_gang("train", 2))
    assert world.states() == {"pods:spare": "pending", "pods:train": "running"}
    node = answer["NodeNames"][0]
    named = {"PodName": "spare-0", "PodNamespace": "x", "Node": node}
    answer = world.cluster.verb("bind", {**named, "PodUID": spare[0]["metadata"]["uid"]})
    assert answer["Error"].startswith("pod 'x/spare-0' has to be filtered again: ")


def test_victims_of_a_job_that_is_gone_do_not_leave_for_a_job_that_they_do_not_help(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("firm", 1, vc="b"))
    world.cluster.run(*hived_gang("spare", 3, priority=-1))
    world.cluster.create(*hived_gang("train", 2))
    world.cluster.delete("train-0")
    assert world.states() == {"pods:firm": "running", "pods:spare": "running"}
    world.cluster.run(*hived_gang("late", 1, vc="b"), grace=True)
    assert world.states()["pods:late"] == "pending" and not world.cluster.evicted
    assert set(world.cluster.bound()) == {"firm-0", "spare-0", "spare-1", "spare-2"}
    world.cluster.run(*hived_gang("next", 2))
    assert {"next-0", "next-1"} <= set(world.cluster.bound())


@pytest.mark.parametrize("parts", ["cells", "quotas and cells"])
def test_a_larger_gang_of_the_same_name_names_all_of_its_victims_at_once(worlds, parts):
    world = worlds(parts)
    world.cluster.run(*[pod for i in range(4) for pod in hived_gang(f"spare{i}", 1, priority=-1)])
    world.cluster.run(*hived_gang("train", 2, gpus=2), grace=True)
    assert len(world.cluster.evicted) == 1
    world.cluster.delete("train-0", "train-1")
    world.cluster.run(*hived_gang("train", 2), grace=True)
    assert len(world.cluster.evicted) == 2
    world.cluster.pump()
    assert {"train-0", "train-1"} <= set(world.cluster.bound())


def test_pods_that_are_bound_or_gone_keep_no_node_of_victims(worlds, monkeypatch):
    settled = []
    monkeypatch.setattr(Evictions, "forget", lambda _, pod: settled.append(pod))
    world = worlds("cells")
    bound, gone = hived_gang("train", 2), hived_gang("next", 2)
    world.cluster.run(*bound)
    world.cluster.create(*gone)
    uids = {name: pod["metadata"]["uid"] for pod in gone for name in [pod["metadata"]["name"]]}
    assert {*settled} == {pod["metadata"]["uid"] for pod in bound}
    settled.clear()
    world.cluster.delete(*uids)
    assert settled == [*uids.values()]


# --- nodes


def test_nothing_is_placed_on_a_node_that_is_not_ready(worlds):
    world = worlds("cells")
    world.cluster.set_ready("n0", False)
    world.cluster.set_ready("elsewhere", False)
    for i in range(4):
        world.cluster.create(*hived_gang(f"g{i}", 1, priority=-1))
    world.cluster.pump()
    assert sorted(world.cluster.bound().values()) == ["n1", "n2", "n3"]
    world.cluster.set_ready("n0", True)
    world.cluster.pump()
    assert sorted(world.cluster.bound().values()) == ["n0", "n1", "n2", "n3"]


def test_nodes_that_a_list_leaves_out_are_lost(worlds):
    world = worlds("cells")
    world.cluster.list_nodes("n1", "n2", "n3")
    assert world.scheduler.summary().unhealthy == ("n0",)


# --- Koordinator


def test_a_koordinator_gang_starts_with_its_minimum(worlds):
    world = worlds("quotas, topology and devices")
    pods = [koordinator_pod(f"g{i}", "a", 4, "bert", 2) for i in range(3)]
    world.cluster.run(pods[0])
    assert world.cluster.reasons["g0"] == "1 of the 2 pods that 'x/bert' needs are there"
    world.cluster.run(pods[1])
    assert set(world.cluster.bound()) == {"g0", "g1"}
    assert world.states() == {"pods:x/bert": "running"}
    assert [entry["minor"] for entry in allocated(world, "g0")] == [0, 1, 2, 3]
    world.cluster.delete("g0", "g1")
    assert world.states() == {}


# --- groups of gangs, and places in the network


def grouped(name, least, *groups, pods=None, gpus=4, **notes):
    """The pods of a gang of Koordinator's that starts with others."""
    members = [koordinator_pod(f"{name}{i}", "a", gpus, name, least) for i in range(pods or least)]
    for pod in members:
        annotations = {f"{KEY}/{key.replace('_', '-')}": text for key, text in notes.items()}
        if groups:
            annotations[f"{KEY}/groups"] = json.dumps([f"x/{group}" for group in groups])
        pod["metadata"]["annotations"] = annotations
    return members


RACK = json.dumps({"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]})


@pytest.mark.parametrize("first", ["ps", "w"])
def test_gangs_of_one_group_start_together(worlds, first):
    world = worlds("topology")
    gangs = {name: grouped(name, 1, "ps", "w") for name in ("ps", "w")}
    (second,) = gangs.keys() - {first}
    world.cluster.run(*gangs[first])
    assert world.cluster.bound() == {}
    expected = f"the gang 'x/{second}' of its group: none of its pods is there"
    assert world.cluster.reasons == {f"{first}0": expected}
    world.cluster.run(*gangs[second])
    assert set(world.cluster.bound()) == {"ps0", "w0"}
    assert world.scheduler.job("pods:x/w").together == ("pods:x/ps",)


def test_a_gang_without_room_for_its_group_waits_with_it(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("big", 3), *grouped("ps", 1, "ps", "w"))
    world.cluster.run(*grouped("w", 1, "ps", "w"))
    assert set(world.cluster.bound()) == {"big0", "big1", "big2"}
    world.cluster.delete("big0", "big1", "big2")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"ps0", "w0"}


def test_a_gang_that_names_no_partner_does_not_wait_for_gangs_that_name_it(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("ps", 1))
    assert set(world.cluster.bound()) == {"ps0"}
    world.cluster.run(*grouped("w", 1, "ps"))
    assert set(world.cluster.bound()) == {"ps0", "w0"}


def test_a_group_that_has_lost_a_pod_before_it_started_waits_for_another(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("big", 4), *grouped("ps", 2, "w", "ps"), *grouped("w", 1, "ps"))
    assert world.states()["pods:x/w"] == world.states()["pods:x/ps"] == "pending"
    world.cluster.delete("ps0")
    assert set(world.states()) == {"pods:x/big"}
    for i in range(4):
        world.cluster.delete(f"big{i}")
    world.cluster.pump()
    assert world.cluster.bound() == {}
    expected = "the gang 'x/ps' of its group: 1 of the 2 pods that 'x/ps' needs are there"
    assert world.cluster.reasons["w0"] == expected
    world.cluster.run(grouped("ps", 2, "w", "ps")[0])
    assert set(world.cluster.bound()) == {"ps0", "ps1", "w0"}


def test_a_gang_does_not_start_without_a_partner_that_the_scheduler_refuses(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("ps", 1, "w"), *grouped("w", 1, "ps", gpus=5))
    assert world.cluster.bound() == {}
    assert world.states() == {}
    assert world.cluster.reasons["ps0"].startswith("the gang 'x/w' of its group: ")
    assert world.cluster.reasons["w0"] != ""


def test_a_gang_that_has_started_waits_for_no_partner_that_has_ended(worlds):
    world = worlds("cells")
    world.cluster.run(*grouped("ps", 1, "w"), *grouped("w", 1, "ps"))
    assert set(world.cluster.bound()) == {"ps0", "w0"}
    world.cluster.end("ps0")
    urgent = [koordinator_pod(f"u{i}", "a", 4, "u", 2, 9000) for i in range(2)]
    world.cluster.run(*urgent, grace=True)
    (again,) = grouped("w", 1, "ps")
    again["metadata"]["name"] = "w-again"
    world.cluster.run(again)
    assert world.states() == {"pods:x/u": "running", "pods:x/w": "pending"}
    assert set(world.cluster.bound()) == {"u0", "u1"}
    world.cluster.delete("u0", "u1")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"w-again"}


def test_a_chain_of_gangs_starts_when_the_last_of_them_is_there(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("c", 1, "b"), *grouped("b", 1, "a"))
    assert world.cluster.bound() == {}
    assert world.cluster.reasons["c0"] == "the gang 'x/a' of its group: none of its pods is there"
    world.cluster.run(*grouped("a", 1))
    assert set(world.cluster.bound()) == {"a0", "b0", "c0"}


def test_a_gang_stays_in_the_domain_that_its_rules_name(worlds):
    world = worlds("topology")
    alone = koordinator_pod("alone", "a", 4)
    world.cluster.run(alone)
    left = world.cluster.bound()["alone"]
    world.cluster.run(*grouped("w", 2, network_topology_spec=RACK))
    nodes = {world.cluster.bound()[f"w{i}"] for i in range(2)}
    assert nodes in ({"n0", "n1"}, {"n2", "n3"})
    assert left not in nodes
    world.cluster.run(*grouped("v", 3, network_topology_spec=RACK, gpus=2))
    assert "v0" not in world.cluster.bound()


def test_a_layer_that_the_network_does_not_have_is_named(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("w", 1, network_topology_spec=RACK.replace("rack", "row")))
    expected = "gang 'x/w': network-topology-spec: 'row' is none of rack, node"
    assert world.cluster.reasons["w0"] == expected


def of_kubernetes(kind, version, name, **spec):
    """An object of Kubernetes' own API that defines gangs."""
    api = {"kind": kind, "apiVersion": f"scheduling.k8s.io/{version}"}
    return {**api, "metadata": {"name": name, "namespace": "x"}, "spec": spec}


OF_TWO = {"gang": {"minCount": 2}}
GROUPS = [
    (GANG, pod_group("w", 2)),
    ("scheduling.x-k8s.io/pod-group", pod_group("w", 2, "scheduling.x-k8s.io")),
    ("", of_kubernetes("PodGroup", "v1alpha2", "w", schedulingPolicy=OF_TWO)),
    ("", of_kubernetes("PodGroup", "v1alpha3", "w", schedulingPolicy=OF_TWO)),
]


@pytest.mark.parametrize(("label", "group"), GROUPS)
def test_a_pod_group_of_each_api_says_what_its_gang_needs(worlds, label, group):
    world = worlds("quotas, topology and devices")
    for i in range(2):
        pod = of_group(f"w{i}", "w", label=label)
        if not label:
            pod["spec"]["schedulingGroup"] = {"podGroupName": "w"}
        world.cluster.run(pod)
    assert world.cluster.reasons["w0"].startswith("the PodGroup 'x/w' is not known, and the pod")
    group["metadata"]["annotations"] = {f"{KEY}/network-topology-spec": RACK}
    world.cluster.watch("ADDED", group)
    if label != GANG:  # a list of one API says nothing of the others'
        api = "scheduling.sigs.k8s.io/v1alpha1"
        world.ask("/v1/watch", {"kind": "PodGroupList", "apiVersion": api, "items": []})
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"w0", "w1"}
    assert world.scheduler.job("pods:x/w").where.must == "rack"


def test_pods_of_a_basic_group_start_as_they_come(worlds):
    world = worlds("topology")
    group = of_kubernetes("PodGroup", "v1alpha2", "w", schedulingPolicy={"basic": {}})
    world.cluster.watch("ADDED", group)
    for i in range(2):
        pod = koordinator_pod(f"w{i}", "a", 2)
        pod["spec"]["schedulingGroup"] = {"podGroupName": "w"}
        world.cluster.run(pod)
        assert len(world.cluster.bound()) == i + 1


def test_each_replica_of_a_group_of_a_workload_is_a_gang(worlds):
    world = worlds("topology")
    groups = [{"name": "driver", "policy": {"basic": {}}}, {"name": "worker", "policy": OF_TWO}]
    world.cluster.watch("ADDED", of_kubernetes("Workload", "v1alpha1", "w", podGroups=groups))
    for name, group, key in (("d", "driver", ""), ("a0", "worker", "a"), ("b0", "worker", "b")):
        pod = koordinator_pod(name, "a", 1)
        pod["spec"]["workloadRef"] = {"name": "w", "podGroup": group}
        if key:
            pod["spec"]["workloadRef"]["podGroupReplicaKey"] = key
        world.cluster.create(pod)
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"d"}
    assert world.cluster.reasons["a0"] == "1 of the 2 pods that 'x/w/worker/a' needs are there"
    pod = koordinator_pod("a1", "a", 1)
    pod["spec"]["workloadRef"] = {"name": "w", "podGroup": "worker", "podGroupReplicaKey": "a"}
    world.cluster.run(pod)
    assert set(world.cluster.bound()) == {"d", "a0", "a1"}
    assert set(world.states()) == {"pods:x/w/driver", "pods:x/w/worker/a"}
    assert world.ask("/v1/watch", {"kind": "WorkloadList", "items": []}) == (200, {})
    world.ask(
        "/v1/watch",
        {"kind": "WorkloadList", "apiVersion": "scheduling.k8s.io/v1alpha1", "items": []},
    )
    world.cluster.pump()
    assert world.cluster.reasons["b0"].startswith("the PodGroup 'x/w/worker/b' is not known")


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (
            of_kubernetes("PodGroup", "v1alpha2", "g", schedulingPolicy={"gang": {}}),
            "PodGroup 'g': spec.schedulingPolicy.gang.minCount: is missing",
        ),
        (
            of_kubernetes("Workload", "v1alpha1", "g", podGroups=[{"policy": {"basic": {}}}]),
            "Workload 'g': spec.podGroups[0].name: is missing",
        ),
        (
            of_kubernetes("Workload", "v1alpha1", "g", podGroups=[{"name": "w", "policy": 3}]),
            "Workload 'g': spec.podGroups[0].policy must be a mapping, not 3",
        ),
    ],
)
def test_a_group_of_kubernetes_that_makes_no_sense_is_named(worlds, item, says):
    status, result = worlds("cells").ask("/v1/watch", {"type": "ADDED", "object": item})
    assert status == 400
    assert result["Error"].endswith(says)


def test_pod_groups_of_both_apis_that_differ_are_named(worlds):
    world = worlds("topology")
    world.cluster.create(of_group("w0", "w", label="scheduling.x-k8s.io/pod-group"))
    for number, api in enumerate(("scheduling.sigs.k8s.io", "scheduling.x-k8s.io")):
        world.cluster.watch("ADDED", pod_group("w", 2 + number, api))
    world.cluster.pump()
    assert world.cluster.reasons["w0"].startswith("two PodGroups 'x/w', of different APIs")


def test_a_pod_group_that_changes_changes_the_job_that_waits(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("big", 4), of_group("w0", "w"), of_group("w1", "w"))
    world.cluster.watch("ADDED", pod_group("w", 2))
    assert world.scheduler.job("pods:x/w").where.must == ""
    world.cluster.watch("MODIFIED", pod_group("w", 2, network_topology_spec=RACK))
    assert world.scheduler.job("pods:x/w").where.must == "rack"


def test_a_pod_that_comes_later_may_change_where_its_gang_that_waits_goes(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("big", 4), *grouped("w", 2))
    assert world.scheduler.job("pods:x/w").where.must == ""
    late = grouped("w", 2, pods=3, network_topology_spec=RACK)[2]
    world.cluster.create(late)
    assert world.scheduler.job("pods:x/w").where.must == "rack"
    other = grouped("w", 2, pods=4, network_topology_spec=RACK.replace("Must", "Prefer"))[3]
    world.cluster.run(other)
    assert "pods:x/w" not in world.states()
    assert "its network-topology-spec differ" in world.cluster.reasons["w0"]


def test_a_pod_group_that_is_corrected_is_tried_again(worlds):
    world = worlds("topology")
    world.cluster.create(of_group("w0", "w"))
    wrong = pod_group("w", 1, network_topology_spec=RACK.replace("rack", "row"))
    world.cluster.watch("ADDED", wrong)
    world.cluster.pump()
    assert "'row' is none of rack, node" in world.cluster.reasons["w0"]
    world.cluster.watch("MODIFIED", pod_group("w", 1, network_topology_spec=RACK))
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"w0"}


def test_ranks_follow_the_index_of_pods_then_their_names(worlds):
    world = worlds("topology")
    pods = grouped("w", 4, gpus=1)
    for pod, index in zip(pods, ("2", None, "0", "10"), strict=True):
        if index:
            pod["metadata"]["annotations"][f"{KEY}/network-topology-index"] = index
    world.cluster.run(*pods)
    places = [pod["metadata"]["annotations"]["hivecore.io/place"] for pod in pods]
    assert places == ["pod/1", "pod/3", "pod/0", "pod/2"]


def test_a_pod_of_hived_with_a_gang_of_koordinator_is_refused(worlds):
    world = worlds("cells")
    pod = hived_pod("p", "a", 4)
    pod["metadata"]["labels"][f"{KEY}/name".replace("gang", "x")] = "unread"
    world.cluster.run(pod)
    assert "p" in world.cluster.bound()
    other = hived_pod("q", "a", 4)
    other["metadata"]["annotations"][f"{KEY}/network-topology-spec"] = RACK
    status, answer = world.ask("/v1/watch", {"type": "ADDED", "object": other})
    assert status == 400
    assert "is not read beside the annotation hivedscheduler" in answer["Error"]


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_a_misspelt_annotation_of_hived_is_named(worlds, place):
    world = worlds("cells")
    pod = koordinator_pod("p", "a", 4)
    key = "pod-scheduling-specs" if place == "annotations" else "pod-scheduling-spec"
    pod["metadata"][place][f"{HIVED}/{key}"] = "{}"
    status, answer = world.ask("/v1/watch", {"type": "ADDED", "object": pod})
    assert status == 400
    assert f"{HIVED}/{key}" in answer["Error"]
    assert "annotation" in answer["Error"]


def test_a_bound_pod_is_recovered_whatever_else_it_says(worlds):
    world = worlds("topology")
    world.cluster.run(*grouped("w", 1))
    pod = world.cluster.pod("w0")
    pod["metadata"]["annotations"]["scheduling.koordinator.sh/network-topology-selector"] = "s"
    pod["metadata"]["annotations"][f"{KEY}/mode"] = "perhaps"
    again = worlds(after=world)
    assert again.cluster.listed() == (200, {})
    assert again.states() == {"pods:x/w": "running"}


def test_a_share_of_a_gpu_is_given_as_koordinator_writes_it(worlds):
    world = worlds("devices")
    limits = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}
    for name in ("p", "q"):
        pod = koordinator_pod(name, "a", 0)
        pod["spec"]["containers"][0]["resources"]["limits"] = limits
        world.cluster.create(pod)
    world.cluster.pump()
    results = [allocated(world, name)[0] for name in ("p", "q")]
    assert [entry["minor"] for entry in results] == [0, 0]
    assert {entry["resources"]["koordinator.sh/gpu-core"] for entry in results} == {"50"}


@pytest.mark.parametrize("parts", ["devices", "topology and devices", "quotas and devices"])
def test_processors_that_the_scheduler_does_not_count_are_left_to_kubernetes(worlds, parts):
    world = worlds(parts)
    for i in range(2):
        pod = koordinator_pod(f"g{i}", "a", 4, "bert", 2)
        pod["spec"]["containers"][0]["resources"]["limits"] |= {"cpu": 4 + i, "memory": "8Gi"}
        world.cluster.create(pod)
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"g0", "g1"}
    assert world.states() == {"pods:x/bert": "running"}


def test_the_quota_of_a_label_counts(worlds):
    world = worlds("quotas and devices")
    world.cluster.run(*(koordinator_pod(f"b{i}", "b", 4) for i in range(4)))
    assert len(world.cluster.bound()) == 3  # b has 12 GPUs at most
    assert "'b'" in world.cluster.reasons["b3"]


def test_a_pod_that_does_not_exist_gets_nothing(worlds):
    world = worlds("cells", watches=False, listed=True)
    (ghost,) = hived_gang("ghost", 1)
    answer = world.cluster.filter(ghost)
    uid = ghost["metadata"]["uid"]
    expected = f"pod 'x/ghost-0' ({uid}) does not exist, or is not known yet"
    assert answer["Error"] == expected
    assert world.states() == {}


def test_a_list_that_is_older_than_a_pod_does_not_forget_it(worlds):
    world = worlds("cells", watches=False)
    (pod,) = hived_gang("new", 1)
    pod["metadata"]["resourceVersion"] = "150"
    world.cluster.run(pod)
    for version, states in (("120", {"pods:new": "running"}), ("151", {})):
        page = {"kind": "PodList", "metadata": {"resourceVersion": version}, "items": []}
        assert world.ask("/v1/watch", page) == (200, {})
        assert world.states() == states


@pytest.mark.parametrize("listed", [False, True])
def test_a_pod_that_asks_for_nothing_may_go_anywhere(worlds, listed):
    world = worlds("cells", listed=listed)
    plain = hived_pod("plain", "a", 1)
    plain["metadata"]["annotations"] = {}
    world.cluster.run(plain)
    assert world.cluster.bound() == {"plain": "n0"}
    assert world.states() == {}


def test_a_pod_that_is_reported_as_bound_stays_so_if_the_answer_to_binding_is_lost(worlds):
    async def binder(binding):
        target = copy.deepcopy(world.cluster.pod(binding["metadata"]["name"]))
        target["spec"]["nodeName"] = binding["target"]["name"]
        target["metadata"]["annotations"].update(binding["metadata"]["annotations"])
        await world.service.apply({"type": "MODIFIED", "object": target})
        raise TimeoutError("no answer")

    world = worlds("devices", binder=binder)
    pod = koordinator_pod("p", "a", 4)
    world.cluster.create(pod)
    (node,) = world.cluster.filter(pod)["NodeNames"]
    answer = world.cluster.verb("bind", world.cluster.bind_body(pod, node))
    assert answer["Error"] == "binding failed: no answer"
    assert world.service.extender.jobs.counts() == {"bound": 1, "waiting": 0}


def test_a_service_without_a_binder_says_so(worlds):
    world = worlds("cells", others_bind=False)
    (pod,) = hived_gang("a", 1)
    world.cluster.create(pod)
    (node,) = world.cluster.filter(pod)["NodeNames"]
    named = {"PodName": "a-0", "PodNamespace": "x", "PodUID": pod["metadata"]["uid"]}
    answer = world.cluster.verb("bind", {**named, "Node": node})
    assert "start the server with" in answer["Error"]


# --- restarts


def test_bound_pods_are_recovered_by_the_next_process(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("a1", 2), *hived_gang("b1", 1, vc="b"), *hived_gang("a2", 2))
    before = world.cluster.bound()
    assert set(before) == {"a1-0", "a1-1", "b1-0"}

    after = worlds(after=world)
    after.cluster.pump()
    assert after.cluster.reasons["a2-0"] == "the pods of the cluster have not been listed yet"
    assert after.states() == world.states()
    assert after.cluster.listed() == (200, {})
    after.cluster.pump()
    assert after.cluster.bound() == before
    assert after.cluster.reasons["a2-0"] == world.cluster.reasons["a2-0"]
    after.cluster.delete("a1-0", "a1-1")
    after.cluster.pump()
    assert set(after.cluster.bound()) == {"a2-0", "a2-1", "b1-0"}
    assert_no_gpu_is_given_twice(after.cluster)


def test_a_pod_that_was_not_bound_before_a_restart_gets_the_place_that_is_left(worlds):
    world = worlds("cells")
    pods = [hived_pod(f"a1-{i}", "a", 2, "a1", [(3, 2)]) for i in range(3)]
    world.cluster.create(*pods)
    for pod in pods[1:]:
        (node,) = world.cluster.filter(pod)["NodeNames"]
        world.cluster.bind(pod, node)
    after = worlds(after=world, listed=True)
    after.cluster.pump()
    assert len(after.cluster.bound()) == 3
    assert_no_gpu_is_given_twice(after.cluster)


def test_jobs_whose_pods_have_gone_meanwhile_end(worlds):
    world = worlds("cells")
    world.cluster.run(*hived_gang("a1", 2), *hived_gang("a2", 2))
    after = worlds(after=world)
    pods = world.cluster.pods.values()
    after.cluster.appear(*(pod for pod in pods if not pod["metadata"]["name"].startswith("a1")))
    after.cluster.pump()
    assert set(after.cluster.bound()) == {"a2-0", "a2-1"}
    assert after.states() == {"pods:a2": "running"}


# --- the reasons in the answers for a pod


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (koordinator_pod("p", "unknown", 1), "'unknown', which the pod's label quota.scheduling.k"),
        (hived_pod("p", "unknown", 1), "'unknown', the virtualCluster of the annotation hivedsch"),
    ],
)
def test_an_unknown_tenant_is_named_with_the_field_of_the_pod(worlds, pod, says):
    world = worlds("quotas and devices")
    world.cluster.run(pod)
    assert says in world.cluster.reasons["p"]
    other = koordinator_pod("q", "a", 1)
    other["metadata"]["labels"].clear()
    world.cluster.run(other)
    assert "'x', the pod's namespace; it has no label quota.sched" in world.cluster.reasons["q"]


def test_a_gang_that_can_never_run_gets_the_reason_before_its_last_pod_comes(worlds):
    world = worlds("devices")
    world.cluster.run(*[koordinator_pod(f"p{i}", "a", 4, "g", 50) for i in range(3)])
    reason = world.cluster.reasons["p0"]
    assert reason.startswith(
        "3 of the 50 pods that 'x/g' needs are there; with all of them it can ne"
    )
    world.cluster.run(*[koordinator_pod(f"q{i}", "a", 4, "h", 4) for i in range(3)])
    assert world.cluster.reasons["q0"] == "3 of the 4 pods that 'x/h' needs are there"


def test_a_number_of_gpus_beside_that_of_the_annotation_is_refused(worlds):
    world = worlds("cells")
    pod = hived_pod("p", "a", 4)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    answer = world.cluster.filter(pod)
    assert "nvidia.com/gpu=1, and the annotation says leafCellNumber=4" in answer["Error"]


# --- nothing trusts a body


def test_a_pod_group_that_makes_no_sense_is_refused_and_changes_nothing(worlds):
    world = worlds("cells")
    world.cluster.create(*hived_gang("a1", 2))
    before = world.scheduler.to_bytes()
    group = {"kind": "PodGroup", "metadata": {"name": "g"}}
    status, result = world.ask("/v1/watch", {"type": "ADDED", "object": group})
    error = "podgroup 'g': PodGroup 'g': spec.minMember: is missing"
    assert (status, result) == (400, {"Error": error})
    assert world.scheduler.to_bytes() == before


def with_spec(text):
    pod = hived_pod("p", "a", 1)
    pod["metadata"]["annotations"][f"{HIVED}/pod-scheduling-spec"] = text
    return pod


MEMBERS = "{virtualCluster: a, leafCellNumber: 1, affinityGroup: {name: %s, members: [%s]}}"
MISTAKES = [
    (with_spec("["), "annotation hivedscheduler.microsoft.com/pod-scheduling-spec"),
    (with_spec("{virtualCluster: a}"), "spec: leafCellNumber=0: allowed are 1 to"),
    (with_spec("{leafCellNumber: 1}"), "virtualCluster=nothing"),
    (with_spec("{virtualCluster: a, leafCellNumber: 1, priority: 1001}"), "priority=1001"),
    (
        with_spec(MEMBERS % ("g", "{podNumber: 65537, leafCellNumber: 1}")),
        "gang 'g': more than 65536 pods",
    ),
    (
        with_spec(MEMBERS % ("g" * 1001, "{podNumber: 1, leafCellNumber: 1}")),
        "the name of its gang has more than 1000 characters",
    ),
    (with_spec("{virtualCluster: a, leafCellNumber: 2000000}"), "2000000"),
    (with_spec("{virtualCluster: none, leafCellNumber: 1}"), "'none'"),
    (with_spec("{virtualCluster: a, leafCellNumber: 5}"), "5"),
    (
        with_spec(MEMBERS % ("bert", "{podNumber: 2, leafCellNumber: 1}")),
        "gang 'bert': the pod says something else of it than x/bert-0",
    ),
    (
        with_spec(MEMBERS % ("runs", "{podNumber: 2, leafCellNumber: 1}")),
        "gang 'runs': its job 'pods:runs' is another one",
    ),
    (koordinator_pod("p", "a", -1), "Pod 'p': "),
    (koordinator_pod("p", 7, 1), "must be a string, not 7"),
]


@pytest.mark.parametrize(("pod", "says"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_of_a_pod_is_an_error_of_its_own_and_takes_nothing(worlds, pod, says):
    world = worlds("cells")
    world.cluster.run(hived_gang("bert", 2)[0], *hived_gang("runs", 1))
    world.cluster.pods.clear()
    held = world.states()
    answer = world.cluster.filter(pod)
    assert says in answer["Error"]
    assert len(answer["Error"]) < 700
    assert (answer["NodeNames"], answer["FailedNodes"]) == (None, None)
    answer = world.cluster.verb("preempt", {"Pod": pod})
    assert answer["NodeNameToMetaVictims"] == {}
    assert world.states() == held


def test_pods_that_come_one_by_one_in_the_place_of_impossible_ones_run(worlds):
    world = worlds("devices")
    world.cluster.run(*[koordinator_pod(f"p-{i}", "a", 64, "g", 2) for i in range(2)])
    assert world.cluster.reasons["p-0"] == "4 nodes: too few devices of a type"
    for number in range(2):
        world.cluster.delete(f"p-{number}")
        world.cluster.run(koordinator_pod(f"p-{number}", "a", 4, "g", 2))
    assert set(world.cluster.bound()) == {"p-0", "p-1"}


@pytest.mark.parametrize("why", ["gates", "deletion"])
def test_a_pod_that_kube_scheduler_does_not_try_counts_for_nothing(worlds, why):
    world = worlds("devices")
    pods = [koordinator_pod(f"p-{i}", "a", 4, "g", 2) for i in range(2)]
    if why == "gates":
        pods[0]["spec"]["schedulingGates"] = [{"name": "quota"}]
    else:
        pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.create(*pods)
    assert world.states() == {}
    assert "1 of the 2 pods" in world.cluster.filter(pods[1])["FailedNodes"]["n0"]
    if why == "gates":
        pods[0]["spec"]["schedulingGates"] = []
        world.cluster.watch("MODIFIED", pods[0])
        assert world.states() == {"pods:x/g": "running"}
        pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.cluster.watch("MODIFIED", pods[0])
        world.cluster.watch("ADDED", koordinator_pod("p-0", "a", 4, "g", 2))
        assert world.states() == {"pods:x/g": "running"}


def test_an_object_that_only_has_the_name_of_a_workload_does_not_define_its_gang(worlds):
    world = worlds("topology")
    meta = {"name": "train", "namespace": "x"}
    policy = {"name": "all", "policy": {"gang": {"minCount": 3}}}
    for api, kind, spec in (
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 2}),
        ("scheduling.k8s.io/v1alpha1", "Workload", {"podGroups": [policy]}),
    ):
        world.cluster.watch(
            "ADDED", {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}
        )
    pod = koordinator_pod("p", "a", 4)
    pod["spec"]["workloadRef"] = {"name": "train", "podGroup": "all", "podGroupReplicaKey": "0"}
    world.cluster.run(pod)
    jobs = world.service.extender.jobs
    defined = jobs.definitions_of(jobs.gang("pods:x/train/all/0"))
    assert defined == [("Workload.k8s.io", "x/train")]


def test_a_late_event_of_a_pod_does_not_drop_the_pod_that_has_its_name_now(worlds):
    world = worlds("cells")
    old, new = hived_pod("p", "a", 4), hived_pod("p", "a", 4)
    old["metadata"]["resourceVersion"] = "5"
    world.cluster.run(old)
    del world.cluster.pods[old["metadata"]["uid"]]
    late = copy.deepcopy(old)
    late["metadata"]["resourceVersion"] = "6"
    new["metadata"]["resourceVersion"] = "9"
    world.cluster.pods[new["metadata"]["uid"]] = new
    world.cluster.watches = False  # kube-scheduler has heard of it before us
    world.cluster.pump()
    world.cluster.watches = True
    world.cluster.watch("MODIFIED", late)
    world.cluster.watch("DELETED", late)
    world.cluster.run(*(hived_pod(f"q{i}", "a", 4) for i in range(4)))
    assert "p" in world.cluster.bound()
    assert_no_gpu_is_given_twice(world.cluster)
