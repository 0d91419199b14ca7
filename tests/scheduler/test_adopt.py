"""Jobs that run already when a scheduler learns of them."""

import pytest
from dra.worlds import claim, request
from profiles import seeds
from scheduler.histories import History
from scheduler.lives import COMPOSITIONS, NIC, NODES, decided, limited, make_scheduler, said

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.errors import StaleDecisionError
from hivecore.scheduler import Job, PlacedPod, Role, Scheduler, Where

ALONE = sorted(name for name, parts in COMPOSITIONS.items() if "sharing" not in parts)
PLACING = [name for name in ALONE if {"cells", "topology", "devices"} & {*COMPOSITIONS[name]}]


def pod(role, index, node, *gpus):
    return PlacedPod(role, index, node, (("gpu", gpus),) if gpus else ())


@pytest.mark.parametrize("parts", ALONE)
def test_a_new_scheduler_adopts_what_another_has_started(parts):
    adopted = 0
    for seed in range(max(4, len(seeds(8)))):
        history = History(parts, seed)
        for event in (history.change, history.set_node):
            history.weights[history.events.index(event)] = 0
        history.live(12)
        before = history.scheduler
        new = make_scheduler(COMPOSITIONS[parts], growing=seed % 4 == 2)
        for name in before:
            status = before.status(name)
            is_there = all(pod.node in (*NODES, "") for pod in status.pods)
            if status.state == "running" and not status.has_stopped and is_there:
                now = max(new.now, status.since)
                new.adopt(before.job(name), status.pods, now, since=status.since)
                assert new.status(name).pods == status.pods
                assert (new.state(name), new.status(name).since) == ("running", status.since)
                new.check()
                adopted += 1
        new.decide(new.now)
        new.check()
        assert Scheduler.from_bytes(new.to_bytes()).summary() == new.summary()
        for number, name in enumerate(list(new)):
            if number % 2 and new.state(name) == "running" and not new.status(name).for_job:
                new.fail(name, new.now)
                new.check()
        new.decide(new.now)
        for name in list(new):
            new.cancel(name, new.now)
        new.check()
    assert adopted


@pytest.mark.parametrize("parts", PLACING)
def test_a_job_on_resources_of_another_is_refused_and_nothing_changes(parts):
    scheduler = make_scheduler(COMPOSITIONS[parts])
    decided(scheduler, Job("runs", "a", 4))
    (running_pod,) = scheduler.status("runs").pods
    before = scheduler.to_bytes()
    with pytest.raises((ValueError, StaleDecisionError), match="pods of 'late'"):
        scheduler.adopt(Job("late", "b", 4), [running_pod.replace(role="pod")], 1.0)
    assert scheduler.to_bytes() == before


@pytest.mark.parametrize("parts", PLACING)
def test_a_contradiction_names_both_pods(parts):
    scheduler = make_scheduler(COMPOSITIONS[parts])
    two, here = [Role("w", 2, gpus=2)], [pod("w", 0, "n0", 0, 1), pod("w", 1, "n1", 0, 1)]
    scheduler.adopt(Job("runs", "a", two), here, 0.0)
    places = [pod("w", i, f"n{2 - i}", 0, 1, 2) for i in (0, 1)]
    with pytest.raises((ValueError, StaleDecisionError)) as error:
        scheduler.adopt(Job("late", "b", [Role("w", 2, gpus=3)]), places, 1.0)
    assert "pods of 'late'" in str(error.value) and "w/1 on 'n1'" in str(error.value)
    assert "'runs/w/1' has" in str(error.value) and "'runs/w/0'" not in str(error.value)


def test_a_pod_without_room_names_the_pods_of_its_node():
    scheduler = make_scheduler(("topology",))
    for i in range(10):
        role = Role("w", gpus=0 if i else 4)
        scheduler.adopt(Job(f"j{i}", "a", [role]), [pod("w", 0, "n0")], 0.0)
    with pytest.raises(StaleDecisionError) as error:
        scheduler.adopt(Job("late", "b", [Role("w", gpus=1)]), [pod("w", 0, "n0")], 0.0)
    has = [f"'j{i}/w/0' is there" for i in range(8)]
    assert str(error.value).endswith(f"; w/0 on 'n0': {', '.join(has)}, 2 more pods are there")
    scheduler = make_scheduler(("devices",))
    scheduler.adopt(Job("runs", "a", 4), [pod("pod", 0, "n0")], 0.0)
    with pytest.raises(ValueError, match=r"pod/0 on 'n0': .*; 'runs/pod/0' has gpu 0"):
        scheduler.adopt(Job("late", "b", 1), [pod("pod", 0, "n0")], 0.0)


@pytest.mark.parametrize("parts", [(), ("topology",), ("quotas",), ("quotas", "topology")])
def test_gpus_that_no_part_counts_belong_to_one_pod(parts):
    scheduler = make_scheduler(parts)
    two = [Role("w", 2, gpus=1, min_pods=1)]
    scheduler.adopt(Job("runs", "a", two), [pod("w", 0, "n0", 0), pod("w", 1, "n0", 1)], 0.0)
    before = scheduler.to_bytes()
    for places, says in (
        ([pod("w", 0, "n1", 0), pod("w", 1, "n0", 1)], "GPU 1 of 'n0' is in use; w/1 on 'n0': 'r"),
        ([pod("w", 0, "n1", 0), pod("w", 1, "n1", 0)], "GPU 0 of 'n1' is in use"),
        ([pod("w", 0, "n1", 0, 1)], "w/0 has 2 GPUs, its role asks for 1"),
    ):
        with pytest.raises((ValueError, StaleDecisionError), match=says):
            scheduler.adopt(Job("late", "b", two), places, 1.0)
        assert scheduler.to_bytes() == before
    scheduler.adopt(Job("late", "b", two), [pod("w", 0, "n0", 2), pod("w", 1, "n0")], 1.0)
    scheduler.check()


def test_a_claim_for_a_device_in_use_names_its_pod():
    scheduler = make_scheduler(("claims",))
    templates = [claim(request("r", 3), name="gpu")]
    job = Job("runs", "a", [Role("w", 1, gpus=0, claims=templates)])
    (start,) = decided(scheduler, job)
    node = start.pods[0].node
    with pytest.raises(ValueError, match=f"is in use; w/0 on '{node}': 'runs/w/0' has gpu.x/"):
        scheduler.adopt(job.replace(name="late"), start.pods, 1.0)


def test_wrong_pods_are_named_and_change_nothing():
    scheduler = make_scheduler(COMPOSITIONS["all with cells"])
    gang = Job("gang", "a", [Role("w", 3, gpus=2, min_pods=2)], where=Where(within="rack"))
    first, second = pod("w", 0, "n0", 0, 1), pod("w", 1, "n0", 2, 3)
    before = scheduler.to_bytes()
    for pods, says in [
        ([first], "pods: w/1 is missing"),
        ([first, first], "pods: w/0:"),
        ([first, pod("w", 3, "n0")], "pods: w/3: the job has no such pod"),
        ([first, pod("x", 0, "n0")], "pods: x/0: the job has no such pod"),
        ([first, pod("w", 1, "n9", 0, 1)], "there is no node 'n9'"),
        ([first, pod("w", 1, "n2", 0, 1)], "'n2' is not in the domain of w/0 on 'n0'"),
        ([first, pod("w", 1, "n0", 2)], "has not the 2 leaves"),
        ([first, pod("w", 1, "n0", 2, 9)], "node 'n0' has no GPU 9"),
    ]:
        with pytest.raises(ValueError, match=says):
            scheduler.adopt(gang, pods, 1.0)
    with pytest.raises(TypeError, match="pods must hold PlacedPods"):
        scheduler.adopt(gang, ["w/0"], 1.0)
    with pytest.raises(ValueError, match=r"since=2\.0"):
        scheduler.adopt(gang, [first, second], 1.0, since=2.0)
    elsewhere = gang.replace(where=Where(nodes=["n1"]))
    with pytest.raises(ValueError, match=r"where\.nodes has no 'n0'"):
        scheduler.adopt(elsewhere, [first, second], 1.0)
    assert scheduler.to_bytes() == before
    scheduler.adopt(gang, [first, second], 1.0)
    with pytest.raises(ValueError, match="job='"):
        scheduler.adopt(gang, [first, second], 1.0)
    # The third pod joins the job in its rack.
    assert said(scheduler.decide(1.0))[0] == ("Start", "gang")
    assert {pod.node for pod in scheduler.status("gang").pods} <= {"n0", "n1"}


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (PlacedPod("w", "0", "n0"), r"pods\[0\]\.index must be an integer, not str"),
        (PlacedPod("w", 0, 5), r"pods\[0\]\.node must be a string, not int"),
        (PlacedPod("w", 0, "n0", "gpu"), r"pods\[0\]\.minors must be a mapping, not str"),
        (PlacedPod("w", 0, "n0", (("gpu", 0),)), r"pods\[0\]\.minors must be a sequence, not int"),
        (PlacedPod("w", 0, "n0", (("gp", (0,)),)), r"gp \(0,\): the pod gets none"),
        (PlacedPod("cpu", 0, "n0", (("gpu", (0,)),)), "its role requests no devices"),
    ],
)
def test_a_malformed_pod_is_named_and_changes_nothing(pod, message):
    scheduler = Scheduler(devices=DeviceCluster({"n0": NodeDevices.uniform(gpus=2)}))
    roles = [Role("w", gpus=1), Role("cpu", gpus=0)]
    other = PlacedPod("w" if pod.role == "cpu" else "cpu", 0, "n0")
    before = scheduler.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        scheduler.adopt(Job("a", "t", roles), [pod, other], 0.0)
    assert scheduler.to_bytes() == before


def test_devices_of_a_pod_may_be_given_as_a_mapping():
    scheduler = Scheduler(devices=DeviceCluster({"n0": NodeDevices.uniform(gpus=2)}))
    scheduler.adopt(
        Job("a", "t", [Role("w", gpus=1)]), [PlacedPod("w", 0, "n0", {"gpu": [1]})], 0.0
    )
    assert scheduler.status("a").pods[0].gpus == (1,)
    scheduler.check()


def test_a_pod_keeps_the_nics_that_it_has():
    nodes = {"n0": NodeDevices.uniform(gpus=4, nics=2, sockets=1, switches=2)}
    scheduler = Scheduler(devices=DeviceCluster(nodes))
    job = Job("train", "a", [Role("w", devices=NIC)])
    mine = PlacedPod("w", 0, "n0", (("gpu", (0, 1)), ("rdma", (1,))))
    scheduler.adopt(job, [mine], 0.0)
    assert scheduler.status("train").pods == (mine,)
    used = scheduler.devices.allocations("train/w/0")
    assert [(device.type, device.minor) for device in used] == [("gpu", 0), ("gpu", 1), ("rdma", 1)]
    other = PlacedPod("w", 0, "n0", (("gpu", (2, 3)), ("rdma", (1,))))
    with pytest.raises(ValueError, match=r"rdma 1 .*'train/w/0' has rdma 1"):
        scheduler.adopt(job.replace(name="other"), [other], 1.0)
    scheduler.check()


def test_quotas_count_a_job_beyond_their_limits():
    scheduler = limited(8)
    for name in ("first", "second"):
        scheduler.adopt(Job(name, "a", 6), [PlacedPod("pod", 0, "")], 0.0)
    assert scheduler.quotas.status("a").used == {"gpu": 12}
    assert said(decided(scheduler, Job("waits", "a", 1))) == []
    scheduler.finish("first", 1.0)
    assert said(scheduler.decide(1.0)) == [("Start", "waits")]


@pytest.mark.parametrize("on_failure", ["job", "pod", "pod-then-job"])
@pytest.mark.parametrize("parts", ["queues", "topology", "cells", "devices", "quotas and devices"])
def test_a_job_that_was_adopted_fails_and_is_evicted_like_others(parts, on_failure):
    scheduler = make_scheduler(COMPOSITIONS[parts], immediate=True)
    nodes = [f"n{i}" if parts != "queues" else "" for i in range(2)]
    pods = [PlacedPod("w", i, node, (("gpu", (0,)),)) for i, node in enumerate(nodes)]
    job = Job("j", "a", [Role("w", 2, gpus=1)], guaranteed=False, on_failure=on_failure)
    scheduler.adopt(job, pods, now=0.0)
    scheduler.fail("j", 1.0, "w/1")
    assert scheduler.to_bytes() == Scheduler.from_bytes(scheduler.to_bytes()).to_bytes()
    assert [type(action).__name__ for action in scheduler.decide(1.0)][-1] == "Start"
    scheduler.check()
    scheduler.fail("j", 2.0)
    assert [type(action).__name__ for action in scheduler.decide(2.0)] == ["Start"]
    scheduler.check()


def test_an_adopted_job_that_has_to_leave_waits_again():
    scheduler = make_scheduler(COMPOSITIONS["cells"])
    for i, node in enumerate(NODES):
        pods = [PlacedPod("pod", 0, node, (("gpu", (0, 1, 2, 3)),))]
        scheduler.adopt(Job(f"idle{i}", "a", 4, guaranteed=False), pods, now=0.0)
    leaving = [action.job for action in decided(scheduler, Job("train", "a", [Role("w", 2, 4)]))]
    assert len(leaving) == 2
    for job in leaving:
        scheduler.stopped(job, now=1.0)
    scheduler.decide(now=1.0)
    scheduler.check()
    assert [scheduler.state(job) for job in ("train", *leaving)] == [
        "running",
        "pending",
        "pending",
    ]


def test_spares_and_pods_above_the_least_run_on():
    scheduler = make_scheduler(COMPOSITIONS["topology"], growing=True)
    spare = Job("spare", "a", [Role("w", 1, spares=1)], on_failure="pod")
    scheduler.adopt(spare, [pod("w", 0, "n0"), pod("w", 1, "n1")], 1.0)
    elastic = Job("elastic", "a", [Role("w", 2, gpus=2, min_pods=1, max_pods=4)])
    pods = [pod("w", number, "n2") for number in (0, 1)] + [pod("w", 3, "n3")]
    scheduler.adopt(elastic, pods, 1.0)
    assert [*scheduler.status("elastic").pods] == pods
    scheduler.check()
    assert [action.pods[0].index for action in scheduler.decide(1.0)] == [2]
    assert Scheduler.from_bytes(scheduler.to_bytes()).summary() == scheduler.summary()
    scheduler.fail("spare", 2.0, "w/0")
    assert scheduler.status("spare").pods[0] == pod("w", 0, "n1")
    with pytest.raises(ValueError, match="pods: w/1 is missing"):
        scheduler.adopt(spare.replace(name="half"), [pod("w", 0, "n0")], 2.0)
    with pytest.raises(ValueError, match="pods: w/4: the job has no such pod"):
        scheduler.adopt(elastic.replace(name="more"), [*pods, pod("w", 4, "n3")], 2.0)


def test_a_job_that_wants_other_gpus_than_it_has_is_refused():
    nodes = {"A": "n0", "B": "n1"}
    chains = {gpu: Chain([gpu, "node"], [2], 1, nodes=[node]) for gpu, node in nodes.items()}
    scheduler = Scheduler(cells=CellCluster(ClusterSpec(chains, {"t": {}})))
    job = Job("train", "t", 2, where=Where(leaf_type="A"))
    before = scheduler.to_bytes()
    with pytest.raises(ValueError, match=r"pods of 'train': where.leaf_type='A': 'n1' has 'B'"):
        scheduler.adopt(job, [pod("pod", 0, "n1", 0, 1)], 1.0)
    assert scheduler.to_bytes() == before
    scheduler.adopt(job, [pod("pod", 0, "n0", 0, 1)], 1.0)


def test_pods_are_in_the_domains_in_multiples_unless_a_narrower_domain_holds_all():
    job = Job("j", "a", [Role("w", 3, gpus=1)], where=Where(multiple={"rack": 2}))
    scheduler = make_scheduler(COMPOSITIONS["topology"])
    before = scheduler.to_bytes()
    for nodes in ("n0", "n0", "n1"), ("n0", "n2", "n2"):
        with pytest.raises(ValueError, match="pods of 'j': not in multiples of 2 in each 'rack'"):
            scheduler.adopt(job, [pod("w", i, node) for i, node in enumerate(nodes)], 0.0)
        assert scheduler.to_bytes() == before
    scheduler.adopt(job, [pod("w", i, "n0") for i in range(3)], 0.0)
    even = job.replace(name="even", roles=[Role("w", 4, gpus=1)])
    nodes = "n1", "n1", "n2", "n3"
    scheduler.adopt(even, [pod("w", i, node) for i, node in enumerate(nodes)], 0.0)
    scheduler.check()


def test_a_job_whose_pods_would_never_join_it_in_multiples_is_refused():
    with pytest.raises(ValueError, match=r"^min_pods: .*where\.multiple"):
        Job("j", "a", [Role("w", 4, min_pods=2)], where=Where(multiple={"node": 2}))
