"""Pods that run already: after the log was lost, at first, or bound by another scheduler."""

import pytest
from interop.extender.pods_and_kubelets import (
    GANG,
    HIVED,
    KubeScheduler,
    hived_gang,
    hived_pod,
    koordinator_pod,
)
from scheduler.lives import NODES, SPECS

from hivecore.devices import NodeDevices
from hivecore.quotas import Quota
from hivecore.scheduler import plain_record

ALLOCATED = "scheduling.koordinator.sh/device-allocated"


def running(pod, node, held=None):
    """A pod that another scheduler has bound."""
    pod["spec"]["nodeName"] = node
    if held is not None:
        gpus = ",".join(f'{{"minor": {gpu}, "resources": {WHOLE}}}' for gpu in held)
        pod["metadata"]["annotations"][ALLOCATED] = f'{{"gpu": [{gpus}]}}'
    return pod


WHOLE = '{"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}'
PARTS = ["cells", "topology", "devices", "quotas and devices", "cells and devices", "queues"]


def places(world):
    """Job -> pod -> node and GPUs."""
    return {
        name: {(p.role, p.index): (p.node, p.gpus) for p in world.scheduler.status(name).pods}
        for name in world.scheduler
    }


def koordinator_gang(name, size, gpus=4, least=None, tenant="a"):
    return [koordinator_pod(f"{name}-{i}", tenant, gpus, name, least or size) for i in range(size)]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("kind", [hived_gang, koordinator_gang])
def test_a_lost_log_gives_no_gpu_twice(worlds, parts, kind):
    if parts == "cells" and kind is koordinator_gang:
        pytest.skip("cells without devices write no annotation of Koordinator")
    world = worlds(parts)
    world.cluster.run(*kind("one", 2), *kind("two", 1, vc="b") if kind is hived_gang else ())
    before, bound = places(world), world.cluster.bound()
    assert len(bound) == 3 - (kind is koordinator_gang)
    after = worlds(parts, after=world, listed=True)
    after.cluster.run(*kind("new", 2))
    assert {job: after.states()[job] for job in before} == dict.fromkeys(before, "running")
    assert {job: places(after)[job] for job in before} == before
    after.cluster.delete(*bound)
    after.cluster.pump()
    assert set(after.states()) == {"pods:new" if kind is hived_gang else "pods:x/new"}
    assert after.scheduler.state(*after.states()) == "running"


@pytest.mark.parametrize("parts", PARTS)
def test_pods_without_annotations_are_counted_where_they_are(worlds, parts):
    world = worlds(parts)
    old = koordinator_gang("old", 2, least=1)
    world.cluster.appear(*map(running, old, NODES))
    assert world.states() == {"pods:x/old": "running"}
    nodes = {node for node, _ in places(world)["pods:x/old"].values()}
    assert nodes == ({""} if parts == "queues" else {"n0", "n1"})
    world.cluster.run(*[koordinator_pod(f"new-{i}", "a", 4) for i in range(4)])
    if parts != "queues":
        new = {node for name, node in world.cluster.bound().items() if name.startswith("new")}
        assert not new & {"n0", "n1"}


def test_devices_that_are_named_are_not_chosen_for_others(worlds):
    world = worlds("devices")
    pods = [running(koordinator_pod("any", "a", 2), "n0"), koordinator_pod("named", "a", 2)]
    running(pods[1], "n0", [0, 1])
    world.cluster.appear(*pods)
    assert places(world) == {
        "pods:x/any": {("pod", 0): ("n0", (2, 3))},
        "pods:x/named": {("pod", 0): ("n0", (0, 1))},
    }


def test_a_node_that_is_not_ready_keeps_its_pods(worlds):
    world = worlds("topology")
    world.cluster.set_ready("n0", False)
    pod = running(koordinator_pod("old", "a", 4), "n0")
    world.cluster.appear(pod)
    assert world.states() == {"pods:x/old": "running"}
    assert world.scheduler.summary().unhealthy == ("n0",)


@pytest.mark.parametrize("tenant", ["a", "unknown"])
def test_what_breaks_the_rules_of_its_job_is_counted_all_the_same(worlds, tenant):
    world = worlds("quotas, topology and devices")
    rules = '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
    pods = koordinator_gang("old", 2, tenant=tenant)
    for pod, node in zip(pods, ("n0", "n3"), strict=True):
        running(pod, node)["metadata"]["annotations"].update(
            {"gang.scheduling.koordinator.sh/network-topology-spec": rules}
        )
    world.cluster.appear(*pods)
    assert {node for node, _ in places(world)["pods:x/old"].values()} == {"n0", "n3"}


def test_pods_that_contradict_each_other_are_named_until_one_is_gone(worlds):
    world = worlds("devices")
    pods = [running(koordinator_pod(name, "a", 2), "n0", [1, 2]) for name in ("p", "q")]
    world.cluster.pods = {pod["metadata"]["uid"]: pod for pod in pods}
    status, answer = world.cluster.listed()
    assert status == 400
    assert "the pods 'x/p' and 'x/q' both have gpu 1 of 'n0'" in answer["Error"]
    world.cluster.delete("q")
    assert world.cluster.listed() == (200, {})
    assert world.states() == {"pods:x/p": "running"}


@pytest.mark.parametrize("parts", ["devices", "cells and devices"])
def test_a_pod_that_asks_for_no_gpu_has_none_though_its_annotation_names_one(worlds, parts):
    world = worlds(parts)
    launcher = running(koordinator_pod("launcher", "a", 0, "g", 2), "n0", [0])
    worker = running(koordinator_pod("worker", "a", 4, "g", 2), "n0", [0, 1, 2, 3])
    world.cluster.appear(launcher, worker)
    assert [pods["pod-1", 0] for pods in places(world).values()] == [("n0", (0, 1, 2, 3))]


def test_an_annotation_of_hived_does_not_hide_the_gpus_of_another_pod(worlds):
    world = worlds("devices")
    pod = running(koordinator_pod("p", "a", 2), "n0", [2, 3])
    pod["metadata"]["annotations"][f"{HIVED}/pod-leaf-cell-isolation"] = "0,1"  # a copied one
    world.cluster.appear(pod)
    assert places(world) == {"pods:x/p": {("pod", 0): ("n0", (2, 3))}}


def test_a_pod_bound_by_another_scheduler_is_adopted_where_it_is(worlds):
    world = worlds("devices", listed=True)
    (pod, late) = koordinator_gang("p", 2, least=1)
    world.cluster.run(pod)
    world.cluster.create(late)
    world.cluster.watch("MODIFIED", running(late, "n3"))
    other = {"n0", "n1", "n2"} - set(world.cluster.bound().values())
    world.cluster.run(*[koordinator_pod(f"new-{i}", "a", 4) for i in range(3)])
    nodes = sorted(world.cluster.bound().values())
    assert len(nodes) == 4 and nodes.count("n3") == 1
    assert len(other) == 2
    world.cluster.delete("p-0", "p-1")
    world.cluster.pump()
    assert len(world.cluster.bound()) == 3
    assert set(world.states()) == {f"pods:x/new-{i}" for i in range(3)}


@pytest.mark.parametrize("what", ["tenant", "gang"])
def test_a_pod_that_runs_is_counted_where_it_is_whatever_it_says_later(worlds, what):
    world = worlds("cells and devices", listed=True)
    world.cluster.run(*koordinator_gang("g", 2))
    pod = koordinator_pod("p", "a", 2, "g", 2)
    world.cluster.create(running(pod, "n3"))
    before = places(world)
    assert before["pods:lone:x/p"] == {("pod", 0): ("n3", (0, 1))}
    key = {"tenant": "quota.scheduling.koordinator.sh/name", "gang": f"{GANG}/name"}[what]
    pod["metadata"]["labels"][key] = "b"
    world.cluster.watch("MODIFIED", pod)
    assert places(world) == before
    assert world.service.extender.jobs.counts() == {"bound": 3, "waiting": 0}


@pytest.mark.parametrize(
    "key",
    [
        f"{HIVED}/pod-scheduling-spec",
        "gang.scheduling.koordinator.sh/network-topology-spec",
        "scheduling.koordinator.sh/device-allocate-hint",
        "scheduling.koordinator.sh/device-joint-allocate",
        "scheduling.koordinator.sh/gpu-partition-spec",
    ],
)
@pytest.mark.parametrize("gang", [None, "g"])
def test_a_pod_that_runs_counts_though_its_annotations_cannot_be_read(worlds, key, gang):
    world = worlds("quotas, topology and devices")
    pod = running(koordinator_pod("p", "a", 4, gang), "n0")
    pod["metadata"]["annotations"][key] = "{"
    world.cluster.appear(pod)
    assert places(world) == {f"pods:x/{gang or 'p'}": {("pod", 0): ("n0", (0, 1, 2, 3))}}


@pytest.mark.parametrize("held", [(1, 2, 3), (1, 9), "{"])
def test_gpus_that_a_pod_cannot_have_are_named_in_the_log(worlds, held, caplog):
    world = worlds("devices")
    pod = running(koordinator_pod("p", "a", 2), "n0", () if held == "{" else held)
    if held == "{":
        pod["metadata"]["annotations"][ALLOCATED] = held
    world.cluster.appear(pod)
    assert places(world) == {"pods:x/p": {("pod", 0): ("n0", (0, 1))}}
    assert "p may use other GPUs than are counted" in caplog.text


def tell(world, event, **fields):
    status, answer = world.ask("/v1/events", {"event": event, **fields})
    assert (status, answer["errors"]) == (200, [])


def add_node(world, name, gpus=4):
    inventory = plain_record(NodeDevices.uniform(gpus=gpus))
    tell(world, "add_node", node=name, inventory=inventory)


@pytest.mark.parametrize("name", ["default-scheduler", "another"])
def test_a_pod_on_a_node_that_is_added_later_is_counted_there(worlds, name):
    world = worlds("devices")
    pod = running(koordinator_pod("p", "a", 4), "new")
    pod["spec"]["schedulerName"] = name
    world.cluster.appear(pod)
    assert world.states() == {}
    add_node(world, "new")
    (job,) = places(world).values()
    assert job == {("pod", 0): ("new", (0, 1, 2, 3))}


def test_a_pod_that_was_impossible_starts_once_the_cluster_has_what_it_asks_for(worlds):
    world = worlds("quotas and devices")
    world.service.touches = True
    world.cluster.run(koordinator_pod("p", "new", 2))
    assert world.cluster.reasons["p"].startswith("there is no quota 'new'")
    quota = Quota("new", max={"gpu": 8}, parent="all")
    tell(world, "set_quota", quota=plain_record(quota))
    world.cluster.pump(touched_by=world.service.extender.jobs)
    assert set(world.cluster.bound()) == {"p"}
    world.cluster.run(koordinator_pod("large", "new", 8))
    assert world.cluster.reasons["large"] == "4 nodes: too few devices of a type"
    add_node(world, "n9", gpus=8)
    world.cluster.nodes = [*NODES, "n9"]
    world.cluster.delete("p")
    world.cluster.pump()
    assert world.cluster.bound() == {"large": "n9"}


# --- pods of other schedulers


def test_pods_of_other_schedulers_wait_for_nothing_and_use_up_devices(worlds):
    world = worlds("quotas and devices", listed=True)
    others = [koordinator_pod(f"other-{i}", "a", 2) for i in range(2)]
    for pod in others:
        pod["spec"]["schedulerName"] = "another"
    world.cluster.create(*others)
    assert world.states() == {}
    world.cluster.watch("MODIFIED", running(others[0], "n0"))
    assert world.states() == {"pods:lone:x/other-0": "running"}
    assert world.scheduler.job("pods:lone:x/other-0").tenant == "hivecore-others"
    answer = world.cluster.filter(others[1])
    assert "its spec.schedulerName is 'another': see --scheduler-name" in answer["Error"]
    world.cluster.delete("other-1")
    world.cluster.run(*[koordinator_pod(f"p{i}", "a", 4) for i in range(4)])
    assert set(world.cluster.bound()) == {"other-0", "p0", "p1", "p2"}
    after = worlds(after=world, listed=True)
    assert after.states() == world.states()
    after.cluster.delete("other-0")
    after.cluster.pump()
    assert set(after.cluster.bound()) == {"p0", "p1", "p2", "p3"}


def test_where_cells_name_gpus_nodes_of_other_schedulers_pods_are_avoided(worlds):
    world = worlds("cells", scheduler_names=["ours"], listed=True)
    world.cluster.create(running(koordinator_pod("other", "a", 1), "n0"))
    pods = hived_gang("p", 1)
    pods[0]["spec"]["schedulerName"] = "ours"
    world.cluster.run(*pods)
    assert "n0" not in [world.cluster.bound()["p-0"]]
    assert world.scheduler.summary().unhealthy == ("n0",)
    world.cluster.delete("other")
    assert world.scheduler.summary().unhealthy == ()


def test_pods_that_are_listed_page_by_page_are_taken_up_together(worlds):
    world = worlds("devices")
    pods = [running(pod, f"n{i}") for i, pod in enumerate(koordinator_gang("g", 2))]
    pods.append(running(koordinator_pod("other", "a", 4), "n2"))
    pods[2]["spec"]["schedulerName"] = "another"
    for i, pod in enumerate([pods[2], *pods[:2]]):
        meta = {"resourceVersion": "7", **({"continue": str(i)} if i < 2 else {})}
        page = {"kind": "PodList", "metadata": meta, "items": [pod]}
        assert world.states() == {}
        assert world.ask("/v1/watch", page) == (200, {})
    assert world.states() == dict.fromkeys(("pods:x/g", "pods:lone:x/other"), "running")


# --- gangs that grow, and launchers


def test_pods_beyond_the_minimum_run_as_they_come(worlds):
    world = worlds("devices", listed=True)
    pods = koordinator_gang("g", 4, least=2)
    world.cluster.run(*pods[:2])
    assert len(world.cluster.bound()) == 2
    world.cluster.run(*pods[2:])
    assert len(world.cluster.bound()) == 4
    assert world.states() == {"pods:x/g": "running"}
    world.cluster.delete("g-3")
    (late,) = koordinator_gang("late", 1)
    world.cluster.run(late)  # no node is left: the place is that of the next pod of the gang
    assert "late-0" not in world.cluster.bound()


def test_a_gang_that_waits_asks_for_all_that_have_come(worlds):
    world = worlds("devices")
    world.cluster.run(*koordinator_gang("first", 4, least=4))
    world.cluster.run(*koordinator_gang("g", 3, least=2))
    assert world.scheduler.job("pods:x/g").roles[0].pods == 3
    world.cluster.delete(*[f"first-{i}" for i in range(4)])
    world.cluster.pump()
    assert len(world.cluster.bound()) == 3


def test_a_gang_with_a_total_has_no_more(worlds):
    world = worlds("devices")
    pods = koordinator_gang("g", 4, least=1)
    for pod in pods:
        del (
            pod["metadata"]["labels"][f"{GANG}/name"],
            pod["metadata"]["labels"][f"{GANG}/min-available"],
        )
        key = "gang.scheduling.koordinator.sh"
        texts = {f"{key}/name": "g", f"{key}/min-available": "1", f"{key}/total-number": "3"}
        pod["metadata"]["annotations"].update(texts)
    world.cluster.run(*pods)
    assert len(world.cluster.bound()) == 3


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 1, 2), (1, 2, 3, 0)])
@pytest.mark.parametrize("parts", ["devices", "quotas, topology and devices"])
def test_a_launcher_that_is_bound_past_us_counts_for_the_minimum(worlds, order, parts):
    world = worlds(parts, listed=True)
    pods = [koordinator_pod("launcher", "a", 0, "g", 4)]
    pods[0]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    pods += [koordinator_pod(f"worker-{i}", "a", 4, "g", 4) for i in range(3)]
    for number in order:
        if number == 0:
            world.cluster.create(pods[0])
            world.cluster.watch("MODIFIED", running(pods[0], "cpu-node"))
        else:
            world.cluster.run(pods[number])
    world.cluster.pump()
    assert len(world.cluster.bound()) == 4
    after = worlds(parts, after=world, listed=True)
    assert after.states() == {"pods:x/g": "running"}


@pytest.mark.parametrize("parts", [part for part in PARTS if part != "queues"])
@pytest.mark.parametrize("kind", [hived_gang, koordinator_gang])
@pytest.mark.parametrize("loss", ["before", "after", "it is not offered any more"])
def test_a_pod_in_the_place_of_one_on_a_lost_node_goes_elsewhere(worlds, parts, kind, loss):
    def gang():
        more = {"priority": -1} if kind is hived_gang else {}
        return {pod["metadata"]["name"]: pod for pod in kind("train", 2, **more)}

    world = worlds(parts)
    world.cluster.run(*gang().values())
    (job,) = world.states()
    before, bound = places(world)[job], world.cluster.bound()
    name, lost = list(bound.items())[1]
    assert set(bound) == set(gang())
    world.cluster.delete(name)
    if loss == "before":
        world.cluster.set_ready(lost, False)
    world.cluster.create(gang()[name])
    if loss == "after":
        world.cluster.set_ready(lost, False)
    world.cluster.nodes = [node for node in NODES if node != lost]
    world.cluster.pump()
    after = world.cluster.bound()
    if "cells" in parts and kind is koordinator_gang:  # its tenant owns these nodes alone
        assert set(after) == set(bound) - {name}
        return
    assert set(after) == set(bound)
    assert after[name] != lost
    assert world.states() == {job: "running"}
    stays = {slot: place for slot, place in before.items() if place[0] != lost}
    assert stays.items() <= places(world)[job].items()
    world.cluster.set_ready(lost, True)
    world.cluster.delete(*after)
    assert world.states() == {}


@pytest.mark.parametrize("log", ["kept", "lost"])
@pytest.mark.parametrize("relabelled", [1, 2])
def test_pods_with_a_new_label_since_they_run_are_counted_after_a_restart(worlds, log, relabelled):
    parts = "quotas and devices"
    world = worlds(parts, listed=True)
    world.cluster.run(*koordinator_gang("g", 2))
    before = {place for job in places(world).values() for place in job.values()}
    for number in range(relabelled):
        labels = world.cluster.pod(f"g-{number}")["metadata"]["labels"]
        labels["quota.scheduling.koordinator.sh/name"] = "b"
    after = worlds(parts if log == "lost" else "", after=world, listed=True)
    assert {place for job in places(after).values() for place in job.values()} == before


def test_a_gang_that_another_tenant_pays_for_is_known_after_a_restart(worlds):
    world = worlds("quotas and devices")
    pods = koordinator_gang("old", 2, tenant="unknown")
    world.cluster.appear(*map(running, pods, NODES))
    after = worlds(after=world, listed=True)
    assert places(after) == places(world)
    after.cluster.delete("old-1")
    after.cluster.run(koordinator_gang("old", 2, tenant="unknown")[1])
    assert set(after.cluster.bound()) == {"old-0", "old-1"}


def others_pod(name, node, gpus=4):
    pod = running(koordinator_pod(name, "a", gpus), node)
    pod["spec"]["schedulerName"] = "another"
    return pod


def nodes_of(world):
    return [node for job in places(world).values() for node, _ in job.values()]


@pytest.mark.parametrize("parts", ["topology", "devices", "quotas and devices"])
@pytest.mark.parametrize("pages", [1, 2])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_pod_of_others_that_was_made_again_unseen_is_counted_where_it_is_now(
    worlds, parts, pages, restarts
):
    world = worlds(parts)
    world.cluster.appear(others_pod("p", "n0"))
    after = worlds(after=world) if restarts else world
    page = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []}
    listed = [page, {**page, "items": [others_pod("p", "n1")]}][-pages:][::-1]
    if pages == 2:
        listed[0] = {**listed[0], "metadata": {**page["metadata"], "continue": "more"}}
    for part in listed:
        assert after.ask("/v1/watch", part) == (200, {})
    assert nodes_of(after) == ["n1"]
    after.cluster.watch("DELETED", listed[0]["items"][0])
    assert after.states() == {}


def test_a_pod_of_others_goes_nowhere_else_while_its_node_is_removed(worlds):
    world = worlds("devices")
    world.cluster.appear(others_pod("p", "n0"))
    tell(world, "remove_node", node="n0")
    assert nodes_of(world) == []
    add_node(world, "n0")
    assert nodes_of(world) == ["n0"]
    world.cluster.delete("p")
    assert world.states() == {}


@pytest.mark.parametrize("parts", ["topology", "devices"])
@pytest.mark.parametrize("is_new", [True, False])
def test_nodes_offered_at_the_start_of_a_gang_do_not_bind_its_later_pods(worlds, parts, is_new):
    world = worlds(parts, listed=True)
    world.cluster.run(koordinator_pod("busy", "a", 4))
    full = world.cluster.bound()["busy"]
    pods = koordinator_gang("g", 3, least=2)
    world.cluster.create(*pods[:2])
    tainted = world.scheduler.status("pods:x/g").pods[0].node
    world.cluster.nodes = [node for node in NODES if node not in (full, tainted)]
    world.cluster.pump()
    world.cluster.delete("busy")
    bound = world.cluster.bound()
    if not is_new:
        world.cluster.delete("g-1")
        world.cluster.set_ready(bound["g-1"], False)
    world.cluster.nodes = [full]
    world.cluster.run(pods[2])
    assert world.cluster.bound()["g-2"] == full


def test_nodes_offered_at_the_start_of_a_gang_do_not_bind_it_after_an_eviction(worlds):
    world = worlds("devices", listed=True)
    world.cluster.run(koordinator_pod("busy", "a", 4, priority=9000))
    full = world.cluster.bound()["busy"]
    (pod,) = koordinator_gang("g", 1)
    world.cluster.create(pod)
    (tainted,) = places(world)["pods:x/g"].values()
    world.cluster.nodes = [node for node in NODES if node not in (tainted[0], full)]
    world.cluster.pump()
    world.cluster.nodes = list(NODES)
    big = [koordinator_pod(f"big-{i}", "a", 4, "big", 3, priority=9000) for i in range(3)]
    world.cluster.run(*big, grace=True)
    (again,) = koordinator_gang("g", 1)
    again["metadata"]["name"] = "again"
    world.cluster.run(again, grace=True)
    world.cluster.delete("g-0")
    world.cluster.delete("busy")
    world.cluster.pump()
    assert world.cluster.bound()["again"] == full


@pytest.mark.parametrize("why", ["not ready", "pods of others", "not in the cluster"])
@pytest.mark.parametrize("is_again", [True, False])
def test_a_node_that_is_added_is_as_healthy_as_the_cluster_says(worlds, why, is_again):
    world = worlds("cells" if why == "pods of others" else "devices", listed=True)
    node = "n3" if is_again else "n5"
    hidden = {node} if why == "not in the cluster" else ()
    world.cluster.list_nodes(*sorted({*NODES, "n4", "n5"}.difference(hidden)))
    if why == "not ready":
        world.cluster.set_ready(node, False)
    elif why == "pods of others":
        world.cluster.create(others_pod("other", node, 1))
    if why == "pods of others":
        for spec in ["a rack less", "a rack more"]:
            tell(world, "reconfigure", spec=plain_record(SPECS[spec]))
    else:
        if is_again:
            tell(world, "remove_node", node=node)
        add_node(world, node)
    assert node in world.scheduler.summary().unhealthy
    world.cluster.delete("other")
    world.cluster.set_ready(node, True)
    assert world.scheduler.summary().unhealthy == ()


def test_no_pod_starts_before_all_pages_of_the_first_list_are_known(worlds):
    world = worlds("devices")
    old = [running(koordinator_pod(f"old-{i}", "a", 4), node) for i, node in enumerate(NODES)]
    page = {"kind": "PodList", "metadata": {"resourceVersion": "9"}}
    first = {**page, "metadata": {**page["metadata"], "continue": "more"}}
    assert world.ask("/v1/watch", {**first, "items": [koordinator_pod("new", "a", 4)]}) == (200, {})
    assert world.ask("/v1/watch", {**page, "items": old}) == (200, {})
    assert world.states() == {
        **{f"pods:x/old-{i}": "running" for i in range(4)},
        "pods:x/new": "pending",
    }


@pytest.mark.parametrize("parts", ["topology", "devices", "quotas and devices"])
@pytest.mark.parametrize("is_of_others", [True, False])
def test_places_of_pods_that_are_not_bound_give_way_to_pods_that_run(worlds, parts, is_of_others):
    world = worlds(parts, listed=True)
    world.cluster.create(*koordinator_gang("g", 2, gpus=3))
    node = nodes_of(world)[0]
    pod = others_pod("p", node) if is_of_others else koordinator_pod("p", "a", 4)
    world.cluster.create(pod)
    world.cluster.watch("MODIFIED", running(pod, node))
    assert nodes_of(world).count(node) == 1
    assert world.states()["pods:x/g"] == "running"
    world.cluster.pump()
    assert list(world.cluster.bound().values()).count(node) == 1


@pytest.mark.parametrize("parts", ["topology", "devices"])
def test_a_pod_for_which_there_was_no_room_is_counted_once_there_is(worlds, parts):
    world = worlds(parts, listed=True)
    world.cluster.run(koordinator_pod("ours", "a", 4))
    (node,) = nodes_of(world)
    world.cluster.create(others_pod("p", node))
    assert world.states() == {"pods:x/ours": "running"}
    world.cluster.delete("ours")
    assert world.states() == {"pods:lone:x/p": "running"}


def test_a_waiting_gang_with_a_pod_that_cannot_be_counted_comes_to_rest(worlds):
    world = worlds("devices")
    world.cluster.run(*[koordinator_pod(f"full-{i}", "a", 4) for i in range(4)])
    pods = koordinator_gang("g", 3, least=2)
    world.cluster.run(*pods)
    world.cluster.watch("MODIFIED", running(pods[0], "n0"))
    assert "pods:x/g" in world.states()
    world.cluster.delete(world.cluster.pod("full-0")["metadata"]["name"])
    world.cluster.pump()


@pytest.mark.parametrize("parts", ["topology", "devices"])
def test_a_pod_goes_to_a_free_place_of_its_gang_that_is_offered(worlds, parts):
    world = worlds(parts, listed=True)
    pods = koordinator_gang("g", 3)
    world.cluster.create(*pods)
    world.cluster.delete("g-1", "g-2")
    (_, other, _) = nodes_of(world)
    answer = world.cluster.filter(pods[0], [other])
    assert answer["NodeNames"] == [other]


def test_a_pod_does_not_move_to_another_node_that_is_not_offered(worlds):
    world = worlds("devices", listed=True)
    world.cluster.run(koordinator_pod("half", "a", 2), koordinator_pod("busy", "a", 4))
    pods = koordinator_gang("g", 2, gpus=2)
    world.cluster.create(*pods)
    world.cluster.place(pods[0])
    before = places(world)["pods:x/g"]
    assert len({node for node, _ in before.values()}) == 2
    busy = world.cluster.bound()["busy"]
    world.cluster.delete("half")
    world.cluster.filter(pods[1], [busy])
    assert places(world)["pods:x/g"] == before


@pytest.mark.parametrize("parts", ["cells", "cells and devices", "devices"])
@pytest.mark.parametrize("named", [0, 1])
def test_a_pod_that_names_its_gpus_keeps_them_beside_one_that_does_not(worlds, parts, named):
    world = worlds(parts)
    pods = [running(pod, "n0") for pod in hived_gang("g", 2, gpus=2)]
    pods[named]["metadata"]["annotations"][f"{HIVED}/pod-leaf-cell-isolation"] = "0,1"
    world.cluster.appear(*pods)
    at, members = places(world)["pods:g"], world.service.extender.jobs.members
    gpus = [at[members[pod["metadata"]["uid"]].slot][1] for pod in pods]
    assert gpus[named] == (0, 1) and gpus[1 - named] == (2, 3)


def test_a_pod_for_which_there_is_no_room_takes_no_gpus_from_the_next(worlds):
    world = worlds("cells")
    sizes = {"three": 3, "two": 2, "one": 1}
    pods = [hived_pod(name, "a", gpus, priority=-1) for name, gpus in sizes.items()]
    world.cluster.appear(*[running(pod, "n0") for pod in pods])
    assert places(world) == {
        "pods:x/three": {("3-gpu", 0): ("n0", (0, 1, 2))},
        "pods:x/one": {("1-gpu", 0): ("n0", (3,))},
    }


@pytest.mark.parametrize("event", ["drain", "move", "defragment"])
def test_an_event_that_would_move_pods_that_run_is_refused(worlds, event):
    world = worlds("devices")
    pod = koordinator_pod("p", "a", 4)
    world.cluster.run(pod)
    pods = [["pod", 0, "n3", {"gpu": [0, 1, 2, 3]}]]
    before = [["pod", 0, "n0", {"gpu": [0, 1, 2, 3]}]]
    fields = {
        "drain": {"node": "n0"},
        "move": {
            "moves": [{"action": "move", "job": "pods:x/p", "pods": pods, "before": before}],
        },
        "defragment": {"goal": {"sizes": [4]}, "seconds": 60.0},
    }[event]
    status, answer = world.ask("/v1/events", {"event": event, **fields})
    assert (status, answer["Error"]) == (409, f"{event}: 'pods:x/p' runs, and pods cannot move")
    tell(world, "drain", node="n3")
    world.cluster.delete("p")
    if event != "move":
        tell(world, event, **fields)


def test_a_pod_on_a_node_that_comes_back_keeps_its_gpus_before_pods_that_wait(worlds):
    world = worlds("devices", listed=True)
    for name, gpus in (("p", 2), ("full-1", 4), ("full-2", 4)):
        world.cluster.run(koordinator_pod(name, "a", gpus))
    tell(world, "remove_node", node="n0")
    for name, gpus in (("full-3", 4), ("q", 2)):
        world.cluster.run(koordinator_pod(name, "a", gpus))
    add_node(world, "n0")
    world.cluster.pump()
    assert world.cluster.bound()["q"] == "n0"
    assert places(world)["pods:x/p"]["pod", 0] == ("n0", (0, 1))
    assert places(world)["pods:x/q"]["pod", 0] == ("n0", (2, 3))


def add_back(world, parts, name):
    fields = {"topology": {"free": {"gpu": 4}, "labels": {"rack": "r0"}}}
    fields["devices"] = {"inventory": plain_record(NodeDevices.uniform(gpus=4))}
    both = {
        key: value for part, more in fields.items() if part in parts for key, value in more.items()
    }
    tell(world, "add_node", node=name, **both)


@pytest.mark.parametrize("parts", ["topology", "devices", "quotas and devices"])
@pytest.mark.parametrize("is_listed", [True, False])
def test_pods_of_a_gang_on_other_nodes_than_one_that_is_removed_keep_their_gpus(
    worlds, parts, is_listed
):
    world = worlds(parts, listed=is_listed)
    world.cluster.run(*koordinator_gang("g", 2, gpus=3))
    bound = world.cluster.bound()
    others = [node for node in NODES if node not in bound.values()]
    world.cluster.run(*[koordinator_pod(f"full-{node}", "b", 4) for node in others])
    world.cluster.run(koordinator_pod("next", "b", 3))
    before = places(world)["pods:x/g"]
    tell(world, "remove_node", node=bound["g-1"])
    after = places(world)
    assert after["pods:x/g"] == {("pod", 0): before["pod", 0]}
    world.cluster.pump()
    assert "next" not in world.cluster.bound()
    world.cluster.delete("g-0", "g-1")
    world.cluster.pump()
    assert world.cluster.bound()["next"] == bound["g-0"]


@pytest.mark.parametrize("parts", ["topology", "devices", "topology and devices"])
@pytest.mark.parametrize("is_listed", [True, False])
def test_pods_on_a_node_that_comes_back_are_counted_before_jobs_that_wait(worlds, parts, is_listed):
    world = worlds(parts, listed=is_listed)
    world.cluster.run(*koordinator_gang("g", 2, gpus=2))
    (node,) = set(world.cluster.bound().values())
    world.cluster.run(*[koordinator_pod(f"full-{i}", "b", 4) for i in range(3)])
    before = places(world)["pods:x/g"]
    tell(world, "remove_node", node=node)
    world.cluster.run(*koordinator_gang("next", 2, gpus=1, tenant="b"))
    world.cluster.run(*koordinator_gang("more", 2, gpus=1))
    add_back(world, parts, node)
    assert places(world)["pods:x/g"] == before
    world.cluster.pump()
    assert {"next-0", "more-0"}.isdisjoint(world.cluster.bound())


def test_the_job_of_a_pod_on_a_removed_node_takes_no_place_elsewhere(worlds):
    world = worlds("devices")
    world.cluster.run(koordinator_pod("p", "a", 4))
    tell(world, "remove_node", node=world.cluster.bound()["p"])
    assert places(world) == {}


def test_a_pod_that_another_scheduler_bound_keeps_its_gpus_before_pods_that_wait(worlds):
    world = worlds("devices", listed=True)
    world.cluster.create(koordinator_pod("q", "a", 2))
    ((node, gpus),) = places(world)["pods:x/q"].values()
    pod = koordinator_pod("p", "a", 2)
    world.cluster.create(running(pod, node, held=gpus))
    assert places(world)["pods:x/p"] == {("pod", 0): (node, gpus)}
    assert places(world)["pods:x/q"]["pod", 0][1] != gpus


@pytest.mark.parametrize("parts", ["topology", "devices", "cells", "quotas and devices"])
@pytest.mark.parametrize("event", ["cancel", "finish", "fail"])
def test_pods_keep_their_gpus_though_a_client_ends_their_job(worlds, parts, event):
    world = worlds(parts)
    world.cluster.run(*hived_gang("g", 2))
    before = places(world)["pods:g"]
    world.cluster.run(hived_pod("next-a", "a", 4), hived_pod("next-b", "b", 4))
    world.cluster.run(hived_pod("more-a", "a", 4), hived_pod("more-b", "b", 4))
    bound = world.cluster.bound()
    tell(world, event, job="pods:g")
    world.cluster.pump()
    assert (places(world)["pods:g"], world.cluster.bound()) == (before, bound)
    world.cluster.delete(*bound)
    world.cluster.pump()
    assert "pods:g" not in world.states()


@pytest.mark.parametrize("event", ["cancel", "finish", "fail", "stopped"])
def test_a_client_cannot_end_a_job_that_has_to_stop_while_its_pods_run(worlds, event):
    world = worlds("devices")
    world.cluster.run(*[koordinator_pod(f"p{i}", "a", 4) for i in range(4)])
    world.cluster.run(koordinator_pod("next", "a", 4, priority=10), grace=True)
    (victim,) = [job for job in world.scheduler if world.scheduler.status(job).for_job]
    status, answer = world.ask("/v1/events", {"event": event, "job": victim})
    assert (status, answer["Error"]) == (409, f"{event}: {victim!r} has to stop, and its pods run")
    world.cluster.pump()
    assert "next" in world.cluster.bound()


@pytest.mark.parametrize("least", [1, 2])
def test_pods_that_have_to_stop_are_counted_on_a_node_that_comes_back(worlds, least):
    world = worlds("devices", listed=True)
    world.cluster.run(*koordinator_gang("g", 2, least=least))
    world.cluster.run(*[koordinator_pod(f"p{i}", "a", 4, priority=20) for i in range(2)])
    world.cluster.run(koordinator_pod("next", "a", 4, priority=10), grace=True)
    assert world.scheduler.status("pods:x/g").for_job == "pods:x/next"
    for name in ("g-0", "g-1"):
        node = world.cluster.bound()[name]
        tell(world, "remove_node", node=node)
        add_back(world, "devices", node)
        gpus = node, (0, 1, 2, 3)
        holders = {job for job, pods in places(world).items() if gpus in pods.values()}
        assert {"pods:x/g", f"pods:lone:x/{name}"} & holders


@pytest.mark.parametrize("parts", ["devices", "cells"])
def test_a_pod_that_has_just_been_bound_keeps_the_gpus_that_it_was_bound_with(worlds, parts):
    world = worlds(parts, listed=True)
    first, pod = hived_pod("first", "a", 2), hived_pod("p", "a", 2)
    world.cluster.run(first)
    world.cluster.create(pod)
    before = places(world)["pods:x/p"]
    ((node, gpus),) = before.values()
    assert (node, gpus) == (world.cluster.bound()["first"], (2, 3))
    KubeScheduler.bind(world.cluster, pod, node)  # not reported yet
    world.cluster.delete("first")
    tell(world, "cancel", job="pods:x/p")
    assert places(world)["pods:x/p"] == before


def test_a_node_stays_drained_after_a_restart(worlds):
    world = worlds("topology")
    tell(world, "drain", node="n0")
    after = worlds(after=world)
    after.cluster.list_nodes(*NODES)
    assert after.scheduler.summary().draining == ("n0",)


def test_a_drained_node_that_fails_and_recovers_stays_drained(worlds):
    world = worlds("topology")
    tell(world, "drain", node="n0")
    for ready in ("False", "Unknown", "True"):
        world.cluster.set_ready("n0", ready)
        assert world.scheduler.summary().draining == ("n0",)
        assert world.scheduler.summary().unhealthy == ("n0",)
    tell(world, "set_node", node="n0", healthy=True)
    assert world.scheduler.summary().unhealthy == ()
