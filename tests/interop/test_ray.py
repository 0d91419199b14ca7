import pytest

from hivecore.devices import DeviceCluster, DeviceRequest
from hivecore.interop.ray import Gangs, bundles
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, PlacedPod, Role, Scheduler, Start
from hivecore.topology import NetworkTopology


def test_each_pod_is_a_bundle_on_its_node():
    pods = [PlacedPod("w", 0, "n1", (("gpu", (0, 5)),)), PlacedPod("w", 1, "n2", (("gpu", (1,)),))]
    assert bundles(Start("a", pods), label="host") == (
        [{"GPU": 2.0}, {"GPU": 1.0}],
        [{"host": "n1"}, {"host": "n2"}],
    )


@pytest.mark.parametrize("pod", [PlacedPod("w", 0, "n1"), PlacedPod("w", 0, "")])
def test_a_pod_without_a_place_is_refused(pod):
    with pytest.raises(ValueError, match="start: pod w/0"):
        bundles(Start("a", [pod]))
    with pytest.raises(TypeError, match="start"):
        bundles("a")


class FakeRay:
    """Nodes of 8 GPUs, two of them to a rack, and the groups that were made and not removed."""

    def __init__(self, **options):
        self.nodes = {f"n{i}": f"r{i // 2}" for i in range(4)}
        self.groups, self.now, self.made = {}, 0.0, 0
        quotas = [Quota(name, min={"gpu": 16}, max={"gpu": 48}, scales=False) for name in "ab"]
        scheduler = Scheduler(
            topology=NetworkTopology(["rack"], {}),
            devices=DeviceCluster({}),
            quotas=QuotaTree(quotas, total={}),
            **{"immediate": True, "growing": True, **options},
        )
        self.gangs = Gangs(scheduler, self.create, self.groups.pop, label="host")

    def create(self, parts, selectors):
        self.made += 1
        hosts = [selector["host"] for selector in selectors]
        assert all(hosts.count(host) * 8 >= parts[0]["GPU"] for host in hosts)
        self.groups[self.made] = hosts
        return self.made

    def submit(self, name, tenant, pods, **more):
        self.gangs.submit(Job(name, tenant, [Role("w", pods, gpus=8)], **more), self.now)

    def step(self):
        self.now += 1
        rows = [
            {"Alive": True, "Resources": {"GPU": 8.0}, "Labels": {"host": name, "rack": rack}}
            for name, rack in self.nodes.items()
        ]
        head = {"Alive": True, "Resources": {"CPU": 1.0}, "Labels": {}}
        gone = {"Alive": False, "Resources": {}, "Labels": {"host": "n9"}}
        self.gangs.step(self.now, [head, *rows, gone])
        running = {name: self.gangs.group(name) for name in self.gangs.scheduler}
        assert {group for group in running.values() if group} == set(self.groups)
        return {name: self.groups.get(group) for name, group in running.items()}


def test_a_tenant_gets_its_promise_from_one_that_borrowed():
    ray = FakeRay()
    ray.submit("sweep", "a", 4)
    assert ray.step() == {"sweep": ["n0", "n1", "n2", "n3"]}
    ray.submit("train", "b", 2)
    assert ray.step() == {"sweep": None, "train": ["n0", "n1"]}
    ray.gangs.end("train", ray.now)
    assert ray.step() == {"sweep": ["n0", "n1", "n2", "n3"]}


@pytest.mark.parametrize("call", ["create", "remove"])
def test_after_an_error_of_ray_the_next_step_goes_on(call):
    ray = FakeRay()
    ray.submit("sweep", "a", 4)
    ray.step()
    ray.submit("train", "b", 2)

    def fail(*_):
        raise RuntimeError("no answer")

    works = getattr(ray.gangs, f"_{call}")
    setattr(ray.gangs, f"_{call}", fail)
    with pytest.raises(RuntimeError, match="no answer"):
        ray.step()
    setattr(ray.gangs, f"_{call}", works)
    assert ray.step() == {"sweep": None, "train": ["n0", "n1"]}


def test_the_more_important_job_starts_first():
    ray = FakeRay()
    for name, priority in (("first", 0), ("second", 1)):
        ray.submit(name, "a", 3, priority=priority)
    assert ray.step() == {"first": None, "second": ["n0", "n1", "n2"]}


def test_a_group_with_a_lost_node_is_made_again_elsewhere():
    ray = FakeRay()
    ray.submit("train", "a", 2)
    (first,) = ray.step().values()
    del ray.nodes[first[1]]
    (second,) = ray.step().values()
    assert second == ["n2", "n3"] and ray.made == 2
    ray.nodes.pop("n2")
    assert ray.step() == {"train": ["n0", "n3"]}


def test_a_node_that_is_back_with_other_gpus_is_another_one():
    groups = []
    scheduler = Scheduler(devices=DeviceCluster({}), immediate=True, growing=True)
    gangs = Gangs(scheduler, lambda *group: groups.append(group), print, label="host")
    gangs.submit(Job("a", "q", [Role("w", 1, gpus=8)]), 0.0)
    for now, gpus in enumerate((4, 8, 4)):
        gangs.step(now, [{"Alive": True, "Resources": {"GPU": gpus}, "Labels": {"host": "n"}}])
        assert (scheduler.state("a") == "running") == (gpus == 8)
    assert len(groups) == 1


def test_an_autoscaler_is_asked_for_nodes_that_a_job_needs():
    ray = FakeRay()
    for name, tenant, pods in (("runs", "a", 2), ("large", "b", 5), ("too much", "a", 7)):
        ray.submit(name, tenant, pods)
    assert ray.step() == {"runs": ["n0", "n1"], "large": None}  # the last is above its maximum
    assert len(ray.gangs.wanted) == 7
    ray.nodes |= {f"n{i}": f"r{i // 2}" for i in range(4, 8)}
    assert len(ray.step()["large"]) == 5
    ray.gangs.end("runs", ray.now)
    assert ray.gangs.wanted == [{"GPU": 8.0}] * 5


@pytest.mark.parametrize(
    ("role", "more"),
    [
        ({"gpus": 8, "min_pods": 1}, {}),
        ({"gpus": 8, "max_pods": 3}, {}),
        ({"gpus": 8}, {"on_failure": "pod"}),
        ({"gpus": 0}, {}),
        ({"devices": DeviceRequest("w", gpus=1, core=50, memory_percent=50)}, {}),
        ({"gpus": 1}, {"stages": [1.0, 1.0]}),
    ],
)
def test_jobs_that_are_no_groups_of_whole_gpus_are_refused(role, more):
    gangs = FakeRay().gangs
    with pytest.raises(ValueError, match="job='j': a group has whole GPUs"):
        gangs.submit(Job("j", "a", [Role("w", 2, **role)], **more), 0.0)
    assert not len(gangs.scheduler)


def test_victims_have_to_stop_at_once():
    with pytest.raises(ValueError, match=r"scheduler.*at once"):
        FakeRay(immediate=False)
    with pytest.raises(ValueError, match=r"scheduler.*devices"):
        Gangs(Scheduler(immediate=True), print, print)


def test_rows_without_labels_are_left_out_and_others_must_differ():
    world = FakeRay()
    row = {"Alive": True, "Resources": {"GPU": "8"}, "Labels": {"host": "n0", "rack": "r0"}}
    bare = [{"Alive": True, "Resources": {"GPU": 8}}, {**row, "Labels": None}]
    world.gangs.step(1.0, [*bare, row])
    assert world.gangs.scheduler.devices.nodes == ("n0",)
    with pytest.raises(ValueError, match=r"nodes: two have the label host='n0'"):
        world.gangs.step(2.0, [row, {**row}])
    with pytest.raises(ValueError, match="nodes: 'many' is no number of GPUs of 'n0'"):
        world.gangs.step(2.0, [{**row, "Resources": {"GPU": "many"}}])
