"""No victims are searched for a job that could not start even if all candidates left."""

import pytest
from scheduler.lives import decided, flat_network, jobs_of, machines, make_scheduler, running

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.scheduler import Job, Move, PlacedPod, Preempt, Role, Scheduler, Start, Where
from hivecore.scheduler.rounds import offers as module
from hivecore.topology import NetworkTopology

PARTS = pytest.mark.parametrize(
    "parts", [("topology",), ("devices",), ("topology", "devices")], ids=" ".join
)


@pytest.fixture
def searched(monkeypatch):
    """The jobs that victims are searched for."""
    names, search = [], module.find_victims

    def noted(state, unit, refused):
        names.append(unit.name)
        return search(state, unit, refused)

    monkeypatch.setattr(module, "find_victims", noted)
    return names


def crowded(parts, firm=3, **settings):
    """On each node a job that stays, and small opportunistic jobs."""
    scheduler = make_scheduler(parts, immediate=True, **settings)
    nodes = [Where(nodes=[f"n{i}"]) for i in range(4)]
    stay = [Job(f"f{i}", "b", firm, preemptible=False, where=nodes[i]) for i in range(4)]
    running(scheduler, *stay)
    weak = [Job(f"w{i}", "b", 1, guaranteed=False) for i in range(4 * (4 - firm))]
    running(scheduler, *weak)
    return scheduler


@PARTS
def test_no_victims_are_searched_where_too_little_would_be_left(parts, searched):
    scheduler = crowded(parts)
    for name in ("whole", "many"):
        roles = {"whole": [Role("w", 1, gpus=2)], "many": [Role("w", 5, gpus=1)]}[name]
        scheduler.submit(Job(name, "a", roles), 1.0)
    scheduler.decide(1.0)
    scheduler.finish("w0", 2.0)
    scheduler.decide(2.0)
    assert searched == [] and scheduler.state("whole") == scheduler.state("many") == "pending"


def test_only_nodes_where_the_job_may_be_count(searched):
    scheduler = crowded(("topology",), firm=2)
    scheduler.submit(Job("needs", "a", [Role("w", 2, gpus=2)], where=Where(nodes=["n0"])), 1.0)
    scheduler.decide(1.0)
    assert searched == []
    decided(scheduler, Job("fits", "a", 2, where=Where(nodes=["n0"])), now=1.0)
    assert searched == ["fits"] and scheduler.state("fits") == "running"


def test_shares_of_gpus_take_no_whole_ones(searched):
    """Two jobs that stay are on one GPU; if they counted twice, too little would be left."""
    half = DeviceRequest("any", gpus=1, core=50, memory_percent=50)
    scheduler, here = Scheduler(devices=machines(), immediate=True), Where(nodes=["n0"])
    roles = [Role("w", 1, devices=half)]
    stay = [Job(f"s{i}", "b", roles, preemptible=False, where=here) for i in range(2)]
    running(scheduler, *stay, Job("weak", "b", 2, guaranteed=False, where=here))
    scheduler.submit(Job("needs", "a", 3, where=here), 1.0)
    assert Preempt("weak", "needs", "opportunistic") in scheduler.decide(1.0)
    assert searched == ["needs"]


def test_amounts_of_any_size_are_counted():
    scheduler = Scheduler(topology=flat_network("n0", gpu=8, memory=2**40), immediate=True)
    running(scheduler, Job("small", "t", 8))
    roles = [Role("w", 1, gpus=1, resources={"memory": 2**36})]
    scheduler.submit(Job("large", "t", roles, priority=1), 1.0)
    assert [type(action) for action in scheduler.decide(1.0)[:2]] == [Preempt, Start]


@pytest.mark.parametrize("size", [2**62, 2**42, 1])
def test_the_room_of_many_nodes_is_counted_beyond_64_bits(size):
    nodes = [f"n{i}" for i in range(4)]
    scheduler = Scheduler(topology=flat_network(*nodes, gpu=1, memory=2**62), immediate=True)
    running(scheduler, *[Job(f"small{i}", "t", 1) for i in range(4)])
    roles = [Role("w", 1, gpus=1, resources={"memory": size})]
    scheduler.submit(Job("large", "t", roles, priority=1), 1.0)
    assert [type(action) for action in scheduler.decide(1.0)[:2]] == [Preempt, Start]
    scheduler.check()


def test_shares_of_different_sizes_leave_for_a_gang_of_whole_gpus(searched):
    network = NetworkTopology([], {"n0": {}})
    network.set_free("n0", {"gpu": 4})
    scheduler = Scheduler(
        topology=network, devices=DeviceCluster({"n0": NodeDevices.uniform(gpus=4)}), immediate=True
    )
    shares = [(2, 75), (2, 25)] * 2
    weak = [
        Job(f"w{i}", "t", [Role("w", 1, devices=DeviceRequest("any", n, memory_percent=part))])
        for i, (n, part) in enumerate(shares)
    ]
    running(scheduler, *weak)
    actions = decided(scheduler, Job("whole", "t", 4, priority=1), now=1.0)
    assert sum(isinstance(action, Preempt) for action in actions) == 4 and searched
    assert scheduler.state("whole") == "running"
    scheduler.check()


@pytest.mark.parametrize("change", ["a pod fails", "a job moves", "its victims stop"])
def test_the_count_of_evictable_resources_follows_jobs(change, searched):
    scheduler = make_scheduler(("topology",), immediate=False)
    running(scheduler, Job("f", "b", 2, preemptible=False, where=Where(nodes=["n3"])))
    roles = [Role("w", 2, gpus=2, min_pods=1)]
    running(scheduler, Job("elastic", "b", roles, guaranteed=False, where=Where(nodes=["n0"])))
    running(scheduler, Job("other", "b", 4, guaranteed=False, where=Where(nodes=["n1"])))
    decided(scheduler, Job("vast", "a", [Role("w", 4, gpus=4)]), now=1.0)
    assert searched == [] and scheduler._state.relief is not None
    if change == "a pod fails":
        scheduler.fail("elastic", 2.0, "w/1")
    elif change == "a job moves":
        before = scheduler.status("elastic").pods
        after = tuple(PlacedPod(pod.role, pod.index, "n2") for pod in before)
        scheduler.move(Move("elastic", after, before), 2.0)
    else:
        scheduler.submit(Job("large", "a", [Role("w", 3, gpus=4)]), 2.0)
        assert any(isinstance(action, Preempt) for action in scheduler.decide(2.0))
        scheduler.check()
        for name in ("elastic", "other"):
            scheduler.stopped(name, 3.0)
    scheduler.check()
    scheduler.decide(4.0)
    scheduler.check()


@PARTS
def test_a_job_that_started_after_the_count_may_have_to_leave(parts, searched):
    scheduler = make_scheduler(parts, order="arrival", immediate=True)
    running(scheduler, *[Job(f"f{i}", "b", 4, preemptible=False) for i in range(3)])
    running(scheduler, Job("low", "a", 4))
    scheduler.finish("f0", 1.0)
    scheduler.submit(Job("vast", "a", [Role("w", 3, gpus=4)], priority=1), 1.0)
    scheduler.submit(Job("weak", "b", 4, guaranteed=False), 1.0)
    actions = decided(scheduler, Job("late", "b", 4), now=1.0)
    assert searched == ["late"]
    assert jobs_of(actions, Start) == ["late"]
