"""A start that breaks one rule is found, and the rule is named."""

from types import SimpleNamespace

import pytest
from scheduler.lives import NIC, NODES, cell_cluster, decided, flat_network, machines, network

from hivecore.cells import CellCluster, Chain, ClusterSpec, PodPlacement
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices, PartitionTable
from hivecore.errors import InvariantError
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, Move, PlacedPod, Preempt, Role, Scheduler, Start, Wait, Where
from hivecore.topology import NetworkTopology
from hivecore.verify import verify_actions, verify_start


class Case:
    """A job that is about to start, the scheduler before that, and what it says."""

    def __init__(self, scheduler, job):
        self.scheduler, self.job = scheduler, job
        scheduler.submit(job, scheduler.now)
        self.before = scheduler.copy()
        (self.start,) = scheduler.decide(scheduler.now, most=1)
        verify_start(self.start, job, self.before)

    def forged(self, *pods, **changes):
        """The rule that it breaks with other pods."""
        start = self.start.replace(pods=pods, **changes)
        with pytest.raises(InvariantError) as result:
            verify_start(start, self.job, self.before)
        return str(result.value)


def started(scheduler, *jobs):
    for job in jobs:
        scheduler.submit(job, scheduler.now)
    assert [action.job for action in scheduler.decide(scheduler.now)] == [job.name for job in jobs]
    return scheduler


def on(node, *gpus, index=0, role="pod", **others):
    """A pod on GPUs of a node."""
    minors = {"gpu": gpus} if gpus else {}
    return PlacedPod(role, index, node, tuple((minors | others).items()))


# --- gangs


def test_a_reservation_ends_with_the_job_whose_extra_pod_has_to_leave_for_it():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=2))
    jobs = {
        "wide": Job("wide", "a", [Role("w", 1, gpus=1, max_pods=2, per_node=1)]),
        "high": Job("high", "a", 2, priority=1),
        "top": Job("top", "a", 2, priority=2),
    }
    decided(scheduler, jobs["wide"])
    decided(scheduler, jobs["high"])
    assert scheduler.state("high") == "reserved"
    (first, *_) = scheduler.status("wide").pods
    scheduler.drain(first.node, 1.0)
    scheduler.submit(jobs["top"], 1.0)
    before = scheduler.copy()
    stop, start, *waits = scheduler.decide(1.0)
    assert (stop.job, start.job, [wait.job for wait in waits]) == ("wide", "top", ["high", "wide"])
    verify_actions([stop, start, *waits], jobs, before)


def test_a_job_may_move_while_the_job_that_it_followed_waits_again():
    scheduler = Scheduler(
        devices=DeviceCluster({n: NodeDevices.uniform(gpus=2) for n in NODES[:2]})
    )
    jobs = {"first": Job("first", "a", 2), "second": Job("second", "a", 2, after=["first"])}
    started(scheduler, *jobs.values())
    scheduler.fail("first", 1.0)
    (pod,) = scheduler.status("second").pods
    scheduler.drain(pod.node, 1.0)
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert [type(action) for action in actions] == [Move, Wait]
    verify_actions(actions, jobs, before)


def test_roles_start_with_all_that_they_need():
    roles = [Role("leader", 1), Role("worker", 3, min_pods=2)]
    case = Case(Scheduler(), Job("j", "a", roles))
    first, *_ = case.start.pods
    third, two = PlacedPod("worker", 0, ""), PlacedPod("worker", 2, "")
    verify_start(Start("j", (first, third, two)), case.job, case.before)
    assert case.forged(first, third) == "gang: role 'worker' of 'j' starts with 1 pod of 2"
    assert case.forged(third, two) == "gang: role 'leader' of 'j' starts with 0 pods of 1"
    assert case.forged(first, third, third) == "gang: pod 'j/worker/0' starts twice"
    assert case.forged(first, third, PlacedPod("worker", 3, "")).startswith("gang: there is no pod")
    assert case.forged(first, third, PlacedPod("boss", 0, "")).startswith("gang: there is no pod")


def test_a_pod_that_runs_does_not_start_again():
    scheduler, job = Scheduler(), Job("j", "a", [Role("worker", 2, min_pods=1)])
    scheduler.submit(job, 0.0)
    first, second = scheduler.decide(0.0, most=1) + scheduler.decide(0.0)
    with pytest.raises(InvariantError, match=r"^gang: pod 'j/worker/0' starts twice"):
        verify_actions([first, second.replace(pods=first.pods)], {"j": job}, scheduler.copy())
    with pytest.raises(InvariantError, match=r"^gang: pod 'j/worker/1' starts twice"):
        verify_start(second, job, scheduler)


def test_no_job_starts_before_the_jobs_that_it_waits_for():
    scheduler = Scheduler()
    scheduler.submit(Job("first", "a", 1), 0.0)
    job = Job("j", "a", 1, after=["first"])
    scheduler.submit(job, 0.0)
    before = scheduler.copy()
    first, second = scheduler.decide(0.0)
    verify_actions([first, second], {"first": before.job("first"), "j": job}, before)
    with pytest.raises(InvariantError, match=r"^gang: 'j' starts before 'first'"):
        verify_start(second, job, before)


def test_a_job_that_must_stop_takes_no_more_pods():
    scheduler = Scheduler(topology=network())
    elastic = Job("e", "a", [Role("worker", 5, gpus=4, min_pods=1)], guaranteed=False)
    decided(scheduler, elastic)
    scheduler.submit(Job("j", "a", 4), 0.0)
    preempt = [action for action in scheduler.decide(0.0) if isinstance(action, Preempt)]
    assert [action.job for action in preempt] == ["e"]
    scheduler.topology.set_free(NODES[0], {"gpu": 4})
    with pytest.raises(InvariantError, match=r"^gang: 'e' has to stop"):
        verify_start(Start("e", (on(NODES[0], role="worker", index=4),)), elastic, scheduler)


# --- nodes and their health


def test_pods_are_only_where_they_may_be_and_fit():
    scheduler = started(Scheduler(topology=network()), Job("there", "a", 2))
    case = Case(scheduler, Job("j", "a", 3, where=Where(nodes=NODES[:3])))
    assert case.forged(on("n3")) == "nodes: 'j/pod/0' may not be on 'n3'"
    assert case.forged(on("n0")) == "nodes: 'n0' has 2 gpu free, 3 would be taken"
    case = Case(scheduler, Job("k", "a", [Role("pod", 2, gpus=2)]))
    assert case.forged(on("n1"), on("n1", index=1)).startswith("nodes: 'n1' has 1 gpu free")
    assert case.forged(on("n9"), on("n3", index=1)) == "nodes: 'k/pod/0': there is no node 'n9'"
    assert case.forged(on(""), on("n3", index=1)).startswith("nodes: 'k/pod/0': there is no node")


def test_nothing_starts_on_a_bad_node_of_a_network():
    scheduler = Scheduler(topology=network())
    scheduler.set_node("n2", False, 0.0)
    assert Case(scheduler, Job("j", "a", 4)).forged(on("n2")) == "health: node 'n2' is bad"


def test_pods_without_gpus_keep_the_rules_of_nodes_too():
    for free in ({"cpu": 4}, {"slots": 1}):
        scheduler = Scheduler(topology=flat_network("n0", "n1", "n2", **free))
        scheduler.set_node("n2", False, 0.0)
        taken = {name: amount for name, amount in free.items() if name == "cpu"}
        case = Case(scheduler, Job("j", "a", [Role("pod", 2, gpus=0, resources=taken)]))
        assert case.forged(on("n0"), on("n2", index=1)) == "health: node 'n2' is bad"
        assert "there is no node 'n9'" in case.forged(on("n0"), on("n9", index=1))
        assert case.forged(on("n0"), on("n0", index=1)).startswith("nodes: 'n0' has ")


def test_a_pod_that_takes_nothing_of_the_network_starts_without_a_node():
    case = Case(Scheduler(topology=flat_network("n0", cpu=4)), Job("j", "a", 1))
    assert [pod.node for pod in case.start.pods] == [""]
    assert case.forged(on("n9")) == "nodes: 'j/pod/0': there is no node 'n9'"


def test_nothing_starts_on_bad_devices():
    devices = machines()
    devices.set_health("n0", False, type="gpu", minor=1)
    case = Case(Scheduler(devices=devices), Job("j", "a", 2))
    assert case.forged(on("n0", 0, 1)) == "health: gpu 1 of 'n0' is bad"


# --- devices


def test_no_device_has_two_owners():
    scheduler = started(Scheduler(devices=machines()), Job("there", "a", 2))
    case = Case(scheduler, Job("j", "a", 2))
    taken = dict(scheduler.status("there").pods[0].minors)["gpu"]
    assert case.forged(on("n0", *taken)).startswith(f"devices: gpu {taken[0]} of 'n0':")
    assert case.forged(on("n0", 3, 3)).startswith("devices: gpu 3 of 'n0':")
    assert case.forged(on("n0", 7, 8)) == "devices: 'n0' has no gpu 7"
    assert case.forged(on("n0", 3)) == "devices: 'j/pod/0' has 1 gpu, not 2"
    assert case.forged(on("n0")).startswith("devices: 'j/pod/0' has []")
    assert case.forged(on("n0", 2, 3, rdma=(0,))).startswith("devices: 'j/pod/0' has ['gpu', ")


def test_what_others_have_of_devices_counts():
    scheduler = Scheduler(devices=machines())
    scheduler.devices.allocate(DeviceRequest("other owner", gpus=1), "n1")
    case = Case(scheduler, Job("j", "a", 4))
    assert case.forged(on("n1", 0, 1, 2, 3)).startswith("devices: gpu 0 of 'n1': ")


def test_a_shared_gpu_gives_no_more_than_it_has():
    devices = DeviceCluster({"n": NodeDevices.uniform(gpus=2, gpu_memory=10)})
    half = DeviceRequest("any", gpus=1, memory_percent=60)
    scheduler = started(Scheduler(devices=devices), Job("there", "a", [Role("pod", devices=half)]))
    case = Case(scheduler, Job("j", "a", [Role("pod", devices=half)]))
    assert case.forged(on("n", 0)) == "devices: gpu 0 of 'n': 12 memory in use"


def test_shares_of_one_pod_on_one_card_are_counted_as_often_as_they_are_given():
    devices = DeviceCluster({"n": NodeDevices.uniform(gpus=2, gpu_memory=1000)})
    thrice = DeviceRequest("any", gpus=3, memory=450, gpu_wishes={"repeat": True})
    scheduler = started(Scheduler(devices=devices), Job("j", "a", [Role("pod", devices=thrice)]))
    (pod,) = scheduler.status("j").pods
    assert [dict(device.amounts)["memory"] for device in pod.devices] == [900, 450]
    once = DeviceRequest("any", gpus=1, memory=500)
    case = Case(scheduler, Job("k", "a", [Role("pod", devices=once)]))
    assert case.forged(on("n", 0)) == "devices: gpu 0 of 'n': 1400 memory in use"


def test_no_virtual_function_has_two_owners():
    devices = DeviceCluster({"n": NodeDevices.uniform(nics=2, functions=2)})
    wish = DeviceRequest("any", nics=1, nic_percent=10, nic_wishes={"vf_selector": {}})
    scheduler = started(Scheduler(devices=devices), Job("there", "a", [Role("pod", devices=wish)]))
    case = Case(scheduler, Job("j", "a", [Role("pod", devices=wish)]))
    (present,) = scheduler.status("there").pods
    assert case.forged(present) == "devices: function 000:000 of 'n' has two owners"


def test_nics_are_on_the_switches_of_the_gpus():
    same = NIC.replace(same_pcie=True)
    case = Case(Scheduler(devices=machines()), Job("j", "a", [Role("pod", devices=same)]))
    assert case.forged(on("n0", 0, 1, rdma=(1,))).startswith("nearness: ('gpu', 'rdma')")
    assert case.forged(on("n0", 1, 2, rdma=(1,))).startswith("nearness: ('gpu', 'rdma')")
    case = Case(Scheduler(devices=machines()), Job("j", "a", [Role("pod", devices=NIC)]))
    verify_start(Start("j", (on("n0", 1, 2, rdma=(0, 1)),)), case.job, case.before)
    assert case.forged(on("n0", 0, 1, rdma=(0, 1))) == "devices: 'j/pod/0' has 2 rdma, not 1"


def test_devices_are_within_the_scope_that_was_asked_for():
    machine = NodeDevices.uniform(gpus=4, sockets=2, switches=4)
    near = DeviceRequest("any", gpus=2, gpu_wishes={"scope": "numa"})
    scheduler = Scheduler(devices=DeviceCluster({"n": machine}))
    case = Case(scheduler, Job("j", "a", [Role("pod", devices=near)]))
    verify_start(Start("j", (on("n", 2, 3),)), case.job, case.before)
    assert case.forged(on("n", 1, 2)) == "nearness: gpu of 'j/pod/0' are not in one numa"


def test_whole_gpus_are_a_row_of_the_table():
    table = PartitionTable.of_sets([[0, 1], [2, 3]])
    machine = NodeDevices.uniform(gpus=4).replace(partitions=table, partition_policy="honor")
    case = Case(Scheduler(devices=DeviceCluster({"n": machine})), Job("j", "a", 2))
    assert case.forged(on("n", 1, 2)) == "partition: 'j/pod/0': no row of the table is (1, 2)"


def test_a_partition_has_the_bandwidth_that_was_asked_for():
    rows = [row.replace(bandwidth=100 * row.members[0]) for row in PAIRS.partitions]
    machine = NodeDevices.uniform(gpus=4).replace(partitions=PartitionTable(rows))
    fast = DeviceRequest("any", gpus=2, bandwidth=150)
    scheduler = Scheduler(devices=DeviceCluster({"n": machine}))
    case = Case(scheduler, Job("j", "a", [Role("pod", devices=fast)]))
    assert case.forged(on("n", 0, 1)) == "partition: 'j/pod/0': bandwidth is 0"


PAIRS = PartitionTable.of_sets([[0, 1], [2, 3]])


# --- topology


def test_one_domain_holds_all_that_has_to_be_together():
    where = Where(must="rack")
    case = Case(Scheduler(topology=network()), Job("j", "a", [Role("pod", 2, gpus=4)], where=where))
    verify_start(Start("j", (on("n2"), on("n3", index=1))), case.job, case.before)
    says = case.forged(on("n1"), on("n2", index=1))
    assert says == "topology: no 'rack' holds all of 'j'"


def test_domains_in_use_have_multiples_of_pods():
    racks = NetworkTopology(["rack"], {f"n{i}": {"rack": f"r{i // 2}"} for i in range(4)})
    racks.set_slots([2, 2, 2, 2])
    where = Where(multiple={"rack": 2})
    case = Case(Scheduler(topology=racks), Job("j", "a", [Role("pod", 6)], where=where))
    pods = [on(f"n{int(i)}", index=k) for k, i in enumerate("001223")]
    assert case.forged(*pods) == "topology: 3 pods in a 'rack', no multiple of 2"
    even = [on(f"n{int(i)}", index=k) for k, i in enumerate("002233")]
    verify_start(Start("j", tuple(even)), case.job, case.before)


# --- cells: tenant a owns a rack of two nodes, b a node and a pair of GPUs, of two racks


def cells_of(level, *pods):
    """What the stage would say of pods."""
    placed = [PodPlacement("c", p.node, p.gpus, (level,) * len(p.gpus), ()) for p in pods]
    return {"decisions": (("cells", SimpleNamespace(placement=tuple(placed))),)}


def forged(case, level, *pods):
    return case.forged(*pods, **cells_of(level, *pods))


def allowed(case, level, *pods):
    start = Start(case.job.name, pods, **cells_of(level, *pods))
    verify_start(start, case.job, case.before)


def test_what_is_promised_to_others_still_fits():
    scheduler = started(Scheduler(cells=cell_cluster()), Job("there", "b", 4))
    (present,) = scheduler.status("there").pods
    case = Case(scheduler, Job("j", "b", 2))
    beside, far = ("n1", "n2") if present.node == "n0" else ("n2", "n1")
    allowed(case, "pair", on(beside, 2, 3))
    assert forged(case, "pair", on(far, 0, 1)) == "guarantee: S of 'rack' in chain 'c' would be -1"


def test_a_tenant_has_no_more_cells_than_it_owns():
    scheduler = started(Scheduler(cells=cell_cluster()), Job("there", "b", 4))
    (present,) = scheduler.status("there").pods
    beside = "n1" if present.node == "n0" else "n2"
    case = Case(scheduler, Job("j", "b", 1))
    says = forged(case, "node", on(beside, 0))
    assert says == "guarantee: 'b' uses 1 'node' more than its own"
    assert forged(case, "", on(beside, 0)) == "guarantee: 'j' is on no cells"


def test_no_tenant_uses_a_cell_of_another():
    scheduler = started(Scheduler(cells=cell_cluster()), Job("there", "a", 2))
    (present,) = scheduler.status("there").pods
    case = Case(scheduler, Job("j", "b", 1))
    other = next(gpu for gpu in range(4) if gpu not in present.gpus)
    assert (
        forged(case, "pair", on(present.node, other)) == "guarantee: a 'pair' is in another's cell"
    )
    says = "guarantee: 'j' uses a 'rack' of ('a', None)"
    assert forged(case, "rack", on(present.node, other)) == says


def test_a_pinned_cell_is_its_tenants_alone():
    chain = Chain(["gpu", "node"], [2], 3, nodes=NODES[:3])
    spec = ClusterSpec(
        {"c": chain}, {"a": {"c": {}}, "b": {"c": {"node": 1}}}, {"a": {"pin": ("c", "node", 1)}}
    )
    pinned = Case(
        Scheduler(cells=CellCluster(spec)), Job("p", "a", 1, where=Where(pinned_cell="pin"))
    )
    assert pinned.start.pods[0].node == "n1"
    assert forged(pinned, "node", on("n0", 0)).startswith("guarantee: 'p' uses a 'node'")
    case = Case(Scheduler(cells=CellCluster(spec)), Job("j", "b", 1))
    assert forged(case, "node", on("n1", 0)).startswith("guarantee: 'j' uses a 'node' of ('a', ")


def test_a_job_that_must_stop_uses_no_cells_of_its_tenant():
    chain = Chain(["gpu", "node", "rack"], [4, 2], 2, nodes=NODES)
    spec = ClusterSpec({"c": chain}, {"a": {"c": {"rack": 1}}})
    scheduler = Scheduler(cells=CellCluster(spec))
    old = started(scheduler, Job("old", "a", 1)).job("old")
    [pod] = scheduler.status("old").pods
    scheduler.set_node(NODES[NODES.index(pod.node) ^ 1], False, 0.0)
    jobs = {name: Job(name, "a", 4, priority=1) for name in ("first", "second")}
    for job in jobs.values():
        scheduler.submit(job, 0.0)
    before = scheduler.copy()
    preempt, start = scheduler.decide(0.0)
    assert preempt == Preempt("old", "first", "priority")
    assert (start.job, start.lent) == ("second", False)
    verify_actions([preempt, start], jobs | {"old": old}, before)
    with pytest.raises(InvariantError, match="guarantee: 'a' uses 1 'rack' more than its own"):
        verify_actions([start], jobs, before)


def test_opportunistic_work_is_in_nobodys_way():
    scheduler = Scheduler(cells=cell_cluster())
    case = Case(scheduler, Job("j", "b", [Role("pod", 2, gpus=4)], guaranteed=False))
    allowed(case, "", on("n0", 0, 1, 2, 3), on("n2", 0, 1, 2, 3, index=1))


def test_no_gpu_of_a_cell_has_two_owners():
    scheduler = started(Scheduler(cells=cell_cluster()), Job("there", "b", 1, guaranteed=False))
    (present,) = scheduler.status("there").pods
    case = Case(scheduler, Job("j", "b", 1))
    assert "has two owners, 'there' and 'j'" in forged(
        case, "pair", on(present.node, *present.gpus)
    )
    says = "devices: 'j/pod/0' has 2 GPUs, and asks for 1"
    assert forged(case, "pair", on("n1", 0, 1)) == says


def test_pods_are_on_the_cells_that_were_decided_on():
    case = Case(Scheduler(cells=cell_cluster()), Job("j", "a", 1))
    assert case.forged(on("n3", 3)) == "nodes: 'j' starts elsewhere than on its cells"
    with pytest.raises(ValueError, match="says nothing of cells"):
        verify_start(case.start.replace(decisions=()), case.job, case.before)


def test_nothing_starts_on_a_bad_gpu_of_a_cell():
    cells = cell_cluster()
    cells.set_health("n0", False, leaf_index=1)
    case = Case(Scheduler(cells=cells), Job("j", "a", 2))
    assert forged(case, "rack", on("n0", 0, 1)) == "health: GPU 1 of 'n0' is bad"


# --- quotas: starts of jobs that are not admitted are forged


def refused(scheduler, job):
    """The rule that a job would break that starts nevertheless."""
    scheduler.submit(job, scheduler.now)
    pods = [PlacedPod(role.name, i, "") for role in job.roles for i in range(role.pods)]
    assert not any(isinstance(action, Start) for action in scheduler.copy().decide(scheduler.now))
    with pytest.raises(InvariantError) as result:
        verify_start(Start(job.name, tuple(pods)), job, scheduler)
    return str(result.value)


def tree(**settings):
    quotas = [
        Quota("all", max={"gpu": 12}),
        Quota("a", max={"gpu": 10}, min={"gpu": 4}, parent="all"),
        Quota("b", max={"gpu": 10}, min={"gpu": 4}, parent="all"),
    ]
    return QuotaTree(quotas, total={"gpu": 12}, **settings)


def test_no_job_exceeds_the_maximum_of_its_quota():
    scheduler = started(Scheduler(quotas=tree(limit="max")), Job("there", "a", 6))
    assert refused(scheduler, Job("j", "a", 5)) == "quota: max of 'a' is 10 gpu, 11 would be used"


def test_no_job_exceeds_the_maximum_of_the_quota_above():
    scheduler = started(Scheduler(quotas=tree(limit="max"), preemption=False), Job("there", "a", 8))
    assert refused(scheduler, Job("j", "b", 5)) == "quota: max of 'all' is 12 gpu, 13 would be used"
    lax = Scheduler(quotas=tree(limit="max", check_ancestors=False))
    started(lax, Job("there", "a", 8))
    Case(lax, Job("j", "b", 5))


def test_all_together_use_no_more_than_there_is():
    quotas = [Quota(name, max={"gpu": 8}) for name in "ab"]
    tree = QuotaTree(quotas, total={"gpu": 10}, limit="max")
    scheduler = started(Scheduler(quotas=tree, preemption=False), Job("there", "a", 6))
    assert refused(scheduler, Job("j", "b", 5)) == "quota: the total is 10 gpu, 11 would be used"


def test_no_job_exceeds_the_runtime_of_its_quota():
    scheduler = started(Scheduler(quotas=tree()), Job("there", "a", 3))
    scheduler.submit(Job("waits", "b", 8, after=["there", "later"]), 0.0)
    says = refused(scheduler, Job("j", "a", 7))
    assert says == "quota: runtime of 'a' is 6 gpu, 10 would be used"


def test_jobs_that_cannot_be_preempted_are_within_the_minimum():
    scheduler = started(Scheduler(quotas=tree()), Job("there", "a", 3, preemptible=False))
    started(scheduler, Job("weak", "a", 2))
    says = refused(scheduler, Job("j", "a", 2, preemptible=False))
    assert says == "quota: min of 'a' is 4 gpu, 5 would be used"


def test_a_job_that_cannot_be_preempted_is_within_the_minimum_together_with_those_below():
    quotas = [
        Quota("p", max={"gpu": 20}, min={"gpu": 10}),
        Quota("c", parent="p", max={"gpu": 20}, min={"gpu": 6}),
    ]
    quota_tree = QuotaTree(quotas, total={"gpu": 20})
    scheduler = started(Scheduler(quotas=quota_tree), Job("below", "c", 6, preemptible=False))
    says = refused(scheduler, Job("j", "p", 6, preemptible=False))
    assert says == "quota: min of 'p' is 10 gpu, 12 would be used"


# --- one after the other


def test_a_victim_that_has_left_is_not_in_the_way():
    scheduler = Scheduler(cells=cell_cluster(), devices=machines(), immediate=True)
    started(scheduler, Job("weak", "b", [Role("pod", 4, gpus=4)], guaranteed=False))
    job = Job("j", "a", [Role("pod", 2, gpus=4)])
    scheduler.submit(job, 0.0)
    before = scheduler.copy()
    preempt, start, *_ = scheduler.decide(0.0)
    assert (preempt.job, start.job) == ("weak", "j")
    verify_actions([preempt, start], {"j": job}, before)
    with pytest.raises(InvariantError, match=r"^devices: "):
        verify_start(start, job, before)


def test_a_job_admitted_with_its_victims_starts_whatever_runtimes_are_later():
    quotas = [Quota(name, max={"gpu": 8}, min={"gpu": 4}) for name in "ab"]
    scheduler = Scheduler(quotas=QuotaTree(quotas, total={"gpu": 8}))
    started(scheduler, Job("stays", "a", 4, priority=2), Job("old", "a", 4))
    job = Job("urgent", "a", 4, priority=1)
    assert decided(scheduler, job, now=1.0) == [Preempt("old", "urgent", "priority")]
    scheduler.submit(Job("other", "b", 4), 2.0)  # so that a may have half of it
    scheduler.stopped("old", 3.0)
    before = scheduler.copy()
    start = scheduler.decide(3.0)[0]
    assert start.job == "urgent"
    verify_start(start, job, before)
    before.set_quota(Quota("a", max={"gpu": 4}, min={"gpu": 4}), 3.0)  # nothing is held any more
    with pytest.raises(InvariantError, match="quota: max of 'a' is 4 gpu, 8 would be used"):
        verify_start(start, job, before)


def test_what_is_held_for_one_job_is_not_given_to_another():
    scheduler = Scheduler(topology=network())
    weak = [Job(f"w{i}", "a", 4, guaranteed=False) for i in range(4)]
    started(scheduler, *weak)
    scheduler.submit(Job("j", "a", [Role("pod", 2, gpus=4)]), 0.0)
    gone, other = [action.job for action in scheduler.decide(0.0)]
    node = scheduler.status(gone).pods[0].node
    scheduler.stopped(gone, 1.0)
    assert scheduler.status(gone).has_stopped
    thief = Job("thief", "a", 4)
    scheduler.submit(thief, 1.0)
    with pytest.raises(InvariantError, match=r"^nodes: "):
        verify_start(Start("thief", (on(node),)), thief, scheduler)
    scheduler.stopped(other, 2.0)
    before = scheduler.copy()
    actions = scheduler.decide(2.0)
    assert isinstance(actions[0], Start)
    verify_actions(actions, {"j": before.job("j")}, before)


def test_runtimes_follow_what_has_come_before_in_the_same_round():
    scheduler = Scheduler(quotas=tree())
    elastic = Job("e", "a", [Role("worker", 8, min_pods=1)])
    greedy = Job("greedy", "b", 10)
    for job in (elastic, greedy):
        scheduler.submit(job, 0.0)
    (first,) = scheduler.copy().decide(0.0, most=1)
    second = Start("greedy", (PlacedPod("pod", 0, ""),))
    verify_start(second, greedy, scheduler)
    with pytest.raises(InvariantError, match=r"^quota: runtime of 'b' is 6 gpu, 10 would be used"):
        verify_actions([first, second], {"e": elastic, "greedy": greedy}, scheduler)


def test_pods_join_a_job_in_the_round_in_which_it_is_promoted():
    tree_of_a = QuotaTree([Quota("a", max={"gpu": 16})], total={"gpu": 16}, limit="max")
    scheduler = Scheduler(quotas=tree_of_a, cells=cell_cluster(), lending=True)
    rack = Where(within="rack")
    started(scheduler, Job("first", "a", [Role("w", 2, gpus=4)], where=rack))
    elastic = Job("e", "a", [Role("w", 2, gpus=4, min_pods=1)])
    scheduler.submit(elastic, 0.0)
    scheduler.decide(0.0)
    assert scheduler.state("e") == "lent"
    scheduler.finish("first", 1.0)
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert [type(action).__name__ for action in actions] == ["Promote", "Start"]
    verify_actions(actions, {"e": elastic}, before)


def test_a_reserved_job_limits_no_quota_below_if_ancestors_do_not_count():
    quotas = [Quota("a", max={"gpu": 4}), Quota("below", parent="a", max={"gpu": 4})]
    parts = QuotaTree(quotas, total={"gpu": 100}, limit="max", check_ancestors=False)
    scheduler = Scheduler(quotas=parts)
    for now, name, quota, priority in ((0.0, "low", "a", 0), (1.0, "urgent", "a", 5)):
        decided(scheduler, Job(name, quota, 4, priority=priority), now=now)
    decided(scheduler, Job("child", "below", 4), now=1.0)
    jobs = {name: scheduler.job(name) for name in scheduler}
    scheduler.stopped("low", 2.0)
    before = scheduler.copy()
    actions = scheduler.decide(2.0)
    verify_actions(actions, jobs, before)
    assert [action.job for action in actions if isinstance(action, Start)] == ["urgent"]
