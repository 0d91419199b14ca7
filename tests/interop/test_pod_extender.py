"""kube-scheduler's extender over a scheduler: gangs of pods, end to end."""

import asyncio
import json

import pytest
from interop.pods_and_kubelets import HIVED, Cluster, hived_pod, koordinator_pod
from scheduler_lives import COMPOSITIONS, NODES, make_scheduler

from hivecore.interop.extender.service import PodService
from hivecore.scheduler import Scheduler


class World:
    """A service in a loop of its own, and a cluster that asks it; time stands still."""

    def __init__(self, scheduler, watches=True, **options):
        self.scheduler, self.time = scheduler, 0.0
        self.runner = asyncio.Runner()
        self.service = self.runner.run(self.made(options))
        self.cluster = Cluster(self.ask, NODES, watches)

    async def made(self, options):
        options = {"others_bind": True, **options}
        return PodService(self.scheduler, clock=lambda: self.time, **options)

    def ask(self, path, body=b""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text = self.runner.run(self.service.answer(path, data, {}))
        return status, json.loads(text)

    def states(self):
        return {name: self.scheduler.state(name) for name in self.scheduler}


@pytest.fixture
def worlds():
    found = []

    def make(parts, scheduler=None, **options):
        made = make_scheduler(COMPOSITIONS[parts]) if scheduler is None else scheduler
        found.append(World(made, **options))
        return found[-1]

    yield make
    for world in found:
        world.scheduler.check()
        world.runner.close()


def gang(name, size, gpus=4, vc="a", priority=0):
    return [hived_pod(f"{name}-{i}", vc, gpus, name, [(size, gpus)], priority) for i in range(size)]


def assert_no_gpu_is_given_twice(cluster):
    assert all(len(pods) == 1 for pods in cluster.gpus().values())


# --- gangs


@pytest.mark.parametrize("watches", [True, False])
def test_a_gang_waits_for_its_last_member_and_starts_then(worlds, watches):
    world = worlds("cells", watches=watches)
    first, second = gang("bert", 2)
    world.cluster.create(first)
    world.cluster.pump()
    assert world.cluster.bound() == {}
    assert world.cluster.told == {"bert-0": "1 of the 2 pods that 'bert' needs are there"}
    assert world.states() == {}
    world.cluster.create(second)
    world.cluster.pump()
    assert world.states() == {"pods:bert": "running"}
    assert set(world.cluster.bound().values()) <= {"n0", "n1"}
    assert len(world.cluster.gpus()) == 8
    assert_no_gpu_is_given_twice(world.cluster)


def test_pods_of_several_sizes_get_places_of_their_own_size(worlds):
    world = worlds("cells")
    members = [(1, 1), (2, 2)]
    pods = [hived_pod(f"w{i}", "a", 2, "ps", members) for i in range(2)]
    world.cluster.create(*pods, hived_pod("l", "a", 1, "ps", members))
    world.cluster.pump()
    gpus = [name for names in world.cluster.gpus().values() for name in names]
    assert sorted(gpus) == ["l", "w0", "w0", "w1", "w1"]


def test_a_waiting_gang_is_told_why_on_every_node(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 2), *gang("a2", 2))
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"a1-0", "a1-1"}
    pod = world.cluster.pod("a2-0")
    answer = world.cluster.verb("filter", {"Pod": pod, "NodeNames": list(NODES)})
    reason = world.scheduler.status("pods:a2").refusal.reason
    assert answer["FailedNodes"] == dict.fromkeys(NODES, reason)
    assert reason


def test_the_end_of_the_last_pod_frees_what_the_gang_had(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 2), *gang("a2", 2))
    world.cluster.pump()
    world.cluster.end("a1-0")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"a1-1"}
    world.cluster.delete("a1-1")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"a2-0", "a2-1"}
    assert world.states() == {"pods:a2": "running"}


def test_a_pod_that_comes_in_the_place_of_another_one_gets_its_place(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 2))
    world.cluster.pump()
    before = world.cluster.bound()
    world.cluster.delete("a1-1")
    again = gang("a1", 2)[1]
    world.cluster.create(again)
    world.cluster.pump()
    assert world.cluster.bound() == before
    assert_no_gpu_is_given_twice(world.cluster)


def test_a_gang_that_waits_is_no_job_any_more_when_a_member_is_gone(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 2), *gang("a2", 2))
    world.cluster.pump()
    assert world.states()["pods:a2"] == "pending"
    world.cluster.delete("a2-1")
    assert set(world.states()) == {"pods:a1"}
    world.cluster.delete("a1-0")
    world.cluster.delete("a1-1")
    world.cluster.pump()
    assert world.cluster.bound() == {}
    world.cluster.create(gang("a2", 2)[1])
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"a2-0", "a2-1"}


# --- preemption


def test_an_opportunistic_gang_leaves_for_a_guaranteed_one(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("spare", 4, priority=-1))
    world.cluster.pump()
    assert len(world.cluster.bound()) == 4
    world.cluster.create(*gang("train", 2))
    world.cluster.pump(grace=True)
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
    world.cluster.create(*gang("spare", 4, priority=-1))
    world.cluster.pump()
    world.cluster.create(*gang("train", 2))
    world.cluster.pump(grace=True)
    again = gang("spare", 4, priority=-1)
    for pod in again:
        pod["metadata"]["name"] += "-again"
    world.cluster.create(*again)
    world.cluster.pump()
    assert world.states() == {"pods:train": "running", "pods:spare": "pending"}
    world.cluster.delete("train-0")
    world.cluster.delete("train-1")
    world.cluster.pump()
    assert set(world.cluster.bound()) == {f"spare-{i}-again" for i in range(4)}


def test_who_is_not_bound_yet_stops_at_once(worlds):
    world = worlds("cells")
    spare = gang("spare", 4, priority=-1)
    world.cluster.create(*spare)
    answer = world.cluster.verb("filter", {"Pod": spare[0], "NodeNames": list(NODES)})
    assert len(answer["NodeNames"]) == 1
    world.cluster.create(*gang("train", 2))
    assert world.states() == {"pods:spare": "pending", "pods:train": "running"}
    node = answer["NodeNames"][0]
    named = {"PodName": "spare-0", "PodNamespace": "x", "Node": node}
    told = world.cluster.verb("bind", {**named, "PodUID": spare[0]["metadata"]["uid"]})
    assert told["Error"].startswith("pod 'x/spare-0' has to be filtered again: ")


def test_victims_of_somebody_who_is_gone_leave_for_the_next_one(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("spare", 4, priority=-1))
    world.cluster.pump()
    world.cluster.create(*gang("train", 2))
    world.cluster.delete("train-0")
    assert world.states() == {"pods:spare": "running"}
    world.cluster.create(*gang("next", 2))
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"next-0", "next-1"}


# --- nodes


def test_nothing_is_placed_on_a_node_that_is_not_ready(worlds):
    world = worlds("cells")
    world.cluster.set_ready("n0", False)
    world.cluster.set_ready("elsewhere", False)
    for i in range(4):
        world.cluster.create(*gang(f"g{i}", 1, priority=-1))
    world.cluster.pump()
    assert sorted(world.cluster.bound().values()) == ["n1", "n2", "n3"]
    world.cluster.set_ready("n0", True)
    world.cluster.pump()
    assert sorted(world.cluster.bound().values()) == ["n0", "n1", "n2", "n3"]


def test_nodes_that_a_list_leaves_out_are_lost(worlds):
    world = worlds("cells")
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    items = [{"metadata": {"name": name}, "status": status} for name in ("n1", "n2", "n3")]
    world.ask("/v1/watch", {"kind": "NodeList", "metadata": {}, "items": items})
    assert world.scheduler.summary().unhealthy == ("n0",)


# --- Koordinator


def test_a_koordinator_gang_starts_with_its_minimum(worlds):
    world = worlds("quotas, topology and devices")
    pods = [koordinator_pod(f"g{i}", "a", 4, "bert", 2) for i in range(3)]
    world.cluster.create(pods[0])
    world.cluster.pump()
    assert world.cluster.told["g0"] == "1 of the 2 pods that 'x/bert' needs are there"
    world.cluster.create(pods[1])
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"g0", "g1"}
    assert world.states() == {"pods:x:bert": "running"}
    allocated = world.cluster.pod("g0")["metadata"]["annotations"][
        "scheduling.koordinator.sh/device-allocated"
    ]
    assert [one["minor"] for one in json.loads(allocated)["gpu"]] == [0, 1, 2, 3]
    world.cluster.delete("g0")
    world.cluster.delete("g1")
    assert world.states() == {}


def test_a_pod_group_says_how_many_pods_its_gang_needs(worlds):
    world = worlds("quotas, topology and devices")
    group = {"kind": "PodGroup", "metadata": {"name": "bert", "namespace": "x"}}
    pods = [koordinator_pod(f"g{i}", "a", 2) for i in range(2)]
    for pod in pods:
        pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = "bert"
    world.cluster.create(*pods)
    world.cluster.pump()
    assert world.cluster.told["g0"] == "the PodGroup 'x/bert' is not known"
    world.cluster.watch("ADDED", {**group, "spec": {"minMember": 2}})
    world.cluster.pump()
    assert set(world.cluster.bound()) == {"g0", "g1"}


def test_a_share_of_a_gpu_is_given_as_koordinator_writes_it(worlds):
    world = worlds("devices")
    limits = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}
    for name in ("p", "q"):
        pod = koordinator_pod(name, "a", 0)
        pod["spec"]["containers"][0]["resources"]["limits"] = limits
        world.cluster.create(pod)
    world.cluster.pump()
    found = [
        json.loads(
            world.cluster.pod(name)["metadata"]["annotations"][
                "scheduling.koordinator.sh/device-allocated"
            ]
        )["gpu"][0]
        for name in ("p", "q")
    ]
    assert [one["minor"] for one in found] == [0, 0]
    assert {one["resources"]["koordinator.sh/gpu-core"] for one in found} == {"50"}


def test_the_quota_of_a_label_counts(worlds):
    world = worlds("quotas and devices")
    world.cluster.create(*(koordinator_pod(f"b{i}", "b", 4) for i in range(4)))
    world.cluster.pump()
    assert len(world.cluster.bound()) == 3  # b has 12 GPUs at most
    assert "'b'" in world.cluster.told["b3"]


def test_a_pod_that_asks_for_nothing_may_go_anywhere(worlds):
    world = worlds("cells")
    plain = hived_pod("plain", "a", 1)
    plain["metadata"]["annotations"] = {}
    world.cluster.create(plain)
    world.cluster.pump()
    assert world.cluster.bound() == {"plain": "n0"}
    assert world.states() == {}


# --- restarts


def test_bound_pods_are_recovered_by_the_next_process(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 2), *gang("b1", 1, vc="b"), *gang("a2", 2))
    world.cluster.pump()
    before = world.cluster.bound()
    assert set(before) == {"a1-0", "a1-1", "b1-0"}

    saved = Scheduler.from_bytes(world.scheduler.to_bytes())
    after = worlds("", saved)
    after.cluster.pods = world.cluster.pods
    after.cluster.pump()
    assert after.cluster.told["a2-0"] == "the pods of the cluster have not been listed yet"
    assert after.states() == world.states()
    assert after.cluster.listed() == (200, {})
    after.cluster.pump()
    assert after.cluster.bound() == before
    assert after.cluster.told["a2-0"] == world.cluster.told["a2-0"]
    after.cluster.delete("a1-0")
    after.cluster.delete("a1-1")
    after.cluster.pump()
    assert set(after.cluster.bound()) == {"a2-0", "a2-1", "b1-0"}
    assert_no_gpu_is_given_twice(after.cluster)


def test_who_was_not_bound_before_a_restart_gets_the_place_that_is_left(worlds):
    world = worlds("cells")
    pods = [hived_pod(f"a1-{i}", "a", 2, "a1", [(3, 2)]) for i in range(3)]
    world.cluster.create(*pods)
    for pod in pods[1:]:
        (node,) = world.cluster.verb("filter", {"Pod": pod, "NodeNames": list(NODES)})["NodeNames"]
        world.cluster.bind(pod, node)
    after = worlds("", Scheduler.from_bytes(world.scheduler.to_bytes()))
    after.cluster.pods = world.cluster.pods
    after.cluster.listed()
    after.cluster.pump()
    assert len(after.cluster.bound()) == 3
    assert_no_gpu_is_given_twice(after.cluster)


def test_jobs_whose_pods_have_gone_meanwhile_end(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 2), *gang("a2", 2))
    world.cluster.pump()
    after = worlds("", Scheduler.from_bytes(world.scheduler.to_bytes()))
    after.cluster.pods = {
        uid: pod
        for uid, pod in world.cluster.pods.items()
        if not pod["metadata"]["name"].startswith("a1")
    }
    after.cluster.listed()
    after.cluster.pump()
    assert set(after.cluster.bound()) == {"a2-0", "a2-1"}
    assert after.states() == {"pods:a2": "running"}


def test_a_bound_pod_that_no_job_knows_is_named(worlds):
    world = worlds("cells")
    world.cluster.create(*gang("a1", 1))
    world.cluster.pump()
    after = worlds("cells")
    after.cluster.pods = world.cluster.pods
    error = {
        "Error": "items[0]: pod 'a1-0': it is bound to 'n0', where its job 'pods:a1' has no place "
        "for it"
    }
    assert after.cluster.listed() == (400, error)
    assert after.cluster.listed() == (200, {})  # once is enough
    assert (
        f"{HIVED}/pod-leaf-cell-isolation" in world.cluster.pod("a1-0")["metadata"]["annotations"]
    )
