"""A broker in front of a Slurm in memory: the books of the scheduler equal what Slurm runs."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop import fake_slurm
from interop.fake_slurm import FakeSlurm
from profiles import examples

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, NodeDevices
from hivecore.interop.slurm import expand_hostlist
from hivecore.interop.slurm.live import Broker, Shadow, SlurmNode, read_queue
from hivecore.interop.slurm.live.places import Places
from hivecore.interop.slurm.live.queue import EXCLUDED
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Preempt, Scheduler, Start
from hivecore.topology import NetworkTopology


def scheduler_for(slurm, leaf=100, **options):
    leaves = {node: {"leaf": f"l{number // leaf}"} for number, node in enumerate(slurm.free)}
    network = NetworkTopology(["leaf"], leaves)
    for node in slurm.free:
        network.set_free(node, {"gpu": slurm.total})
    return Scheduler(topology=network, **options)


def shadow_of(slurm):
    """A shadow that has looked once."""
    shadow = Shadow(scheduler_for(slurm, immediate=True), slurm)
    shadow.step(1.0)
    return shadow


def rich_and_poor(gpus):
    quotas = [Quota("rich", max={"gpu": gpus}, min={"gpu": gpus}), Quota("poor", max={"gpu": gpus})]
    return QuotaTree(quotas, total={"gpu": gpus})


class World:
    def __init__(self, **more):
        self.slurm = FakeSlurm(**more)
        self.now = 0.0
        self.begin()

    def begin(self, leaf=100, quotas=None, **more):
        scheduler = scheduler_for(self.slurm, leaf, quotas=quotas)
        self.broker = Broker(scheduler, self.slurm, patience=3, **more)

    def step(self, count=1):
        actions = []
        for _ in range(count):
            self.now += 1
            self.slurm.now = self.now
            actions += self.broker.step(self.now)
            self.slurm.tick()
        return actions

    def books(self):
        scheduler = self.broker.scheduler
        return {
            name: {pod.node for pod in scheduler.status(name).pods}
            for name in scheduler
            if scheduler.state(name) == "running"
        }

    def runs(self):
        return {str(job.number): {*job.nodes} for job in self.slurm.jobs.values() if job.nodes}


def test_held_jobs_start_where_the_scheduler_says():
    world = World()
    jobs = [world.slurm.submit(count, each) for count, each in ((1, 4), (2, 8), (2, 2), (1, 3))]
    starts = {a.job: {p.node for p in a.pods} for a in world.step() if isinstance(a, Start)}
    assert world.runs() == world.books() == starts
    assert len(starts) == len(jobs) and len(starts["3"]) == 2


def test_jobs_that_were_submitted_first_start_first():
    world = World(nodes=2)
    first, *others = (world.slurm.submit(1, 8) for _ in range(12))
    world.step(2)
    assert set(world.runs()) == {first, others[0]}
    shadow = shadow_of(world.slurm)
    assert [row.job for row in shadow.rows if row.shadow] == [first, others[0]]


def test_all_others_can_be_excluded_instead():
    world = World()
    world.begin(how="exclude")
    world.slurm.submit(2, 8)
    (start,) = world.step()
    assert world.slurm.obeyed[0] == "update jobid=1 excnodelist=n[3-4]"
    assert world.runs() == {"1": {pod.node for pod in start.pods}}


def test_a_broker_begins_on_a_live_cluster_and_after_its_own_crash():
    world = World()
    for _ in range(5):
        world.slurm.submit(1, 8)
    world.slurm.crash_after = 5
    with pytest.raises(KeyboardInterrupt):
        world.step()
    world.slurm.crash_after = None
    world.slurm.tick()
    assert len(world.runs()) == 1  # the others have nodes, but were not released
    world.begin()
    world.step(2)
    assert world.books() == world.runs()
    assert len(world.runs()) == 4


@pytest.mark.parametrize("how", ["require", "exclude"])
def test_without_the_plugin_a_list_that_was_written_before_a_crash_is_no_users_list(how):
    world = World(nodes=2)
    world.begin(how=how)
    job = world.slurm.submit(1, 8, admin_comment="")
    world.slurm.crash_after = 1
    with pytest.raises(KeyboardInterrupt):
        world.step()
    assert world.slurm.jobs[int(job)].held
    world.slurm.crash_after = None
    (node,) = world.slurm.jobs[int(job)].wanted or {"n1", "n2"} - {*world.slurm.jobs[1].barred}
    world.slurm.down.add(node)
    world.begin(how=how)
    world.step(2)
    assert world.books() == world.runs() == {job: {"n1", "n2"} - {node}}
    assert world.broker.scheduler.job(job).preemptible


def test_a_list_is_noted_beside_that_of_the_user_and_not_over_another_comment():
    world = World(nodes=2)
    jobs = [world.slurm.submit(1, 8, admin_comment="", barred=("n1",))]
    jobs.append(world.slurm.submit(1, 8, admin_comment="paid"))
    world.step(2)
    notes = [world.slurm.jobs[int(job)].admin_comment for job in jobs]
    assert world.runs().keys() == {*jobs} and notes == ["hivecore:exclude", "paid"]


def test_nodes_that_jobs_exclude_are_asked_for_only_where_the_plugin_has_seen_some():
    world, calls = World(), []

    def run(command, text=""):
        calls.append(command)
        return world.slurm(command, text)

    world.broker = Broker(scheduler_for(world.slurm), run, patience=3)
    for comment, barred, times in (
        ("hivecore:", (), 1),  # in its first round it asks for all
        ("hivecore:", (), 0),
        ("hivecore:exclude", ("n1",), 1),
        ("", ("n1",), 1),
    ):
        calls.clear()
        world.slurm.submit(1, 1, admin_comment=comment, barred=barred)
        world.step()
        assert calls.count(EXCLUDED) == times


def test_jobs_of_a_lost_node_are_held_and_start_elsewhere_at_once():
    world = World(nodes=2)
    job = world.slurm.submit(1, 8)
    world.step(2)
    (lost,) = world.runs()[job]
    world.slurm.lose(lost)
    world.step(2)
    (node,) = world.runs()[job]
    assert node != lost
    assert "starttime=now" in next(x for x in reversed(world.slurm.obeyed) if "update" in x)


@pytest.mark.parametrize("known", [True, False])
def test_nodes_that_slurm_does_not_have_get_no_jobs_until_it_has_them(known):
    world = World(nodes=2)
    world.step(known)
    node = world.slurm.free.pop("n1")
    world.step(6)
    first, second = world.slurm.submit(1, 8), world.slurm.submit(1, 8)
    world.step(6)
    assert world.books() == world.runs() == {first: {"n2"}}
    world.slurm.free["n1"] = node
    world.step(6)
    assert world.books() == world.runs() == {first: {"n2"}, second: {"n1"}}


@pytest.mark.parametrize("part", ["devices", "cells", "topology"])
def test_a_node_with_fewer_gpus_than_the_books_say_gets_no_jobs_until_it_has_them(part):
    world = World(nodes=2)
    chain = Chain(["gpu", "node"], [8], 2, nodes=["n1", "n2"])
    cells = CellCluster(ClusterSpec({"c": chain}, {"vision": {"c": {"node": 2}}}))
    devices = DeviceCluster(dict.fromkeys(world.slurm.free, NodeDevices.uniform(gpus=8)))
    if part != "topology":
        scheduler = Scheduler(**{part: cells if part == "cells" else devices})
        world.broker = Broker(scheduler, world.slurm, patience=3)
    world.slurm.sizes["n1"], world.slurm.free["n1"] = 4, set(range(4))
    jobs = [world.slurm.submit(1, 3) for _ in range(4)]
    world.step(6)
    assert world.books() == world.runs() == {job: {"n2"} for job in jobs[:2]}
    assert not [line for line in world.slurm.obeyed if line.startswith("hold")]
    world.slurm.sizes["n1"], world.slurm.free["n1"] = 8, set(range(8))
    world.step(6)
    assert world.books() == world.runs() and world.runs().keys() == {*jobs}


def test_a_job_that_its_user_releases_is_adopted_where_it_runs():
    world = World()
    filler, passed = world.slurm.submit(4, 8), world.slurm.submit(1, 2)
    world.step(2)
    world.slurm.jobs[int(passed)].held = False
    world.step()
    assert world.slurm.jobs[int(passed)].held
    world.slurm.end(filler)
    world.slurm.jobs[int(passed)].held = False
    world.slurm.tick()
    world.step(2)
    assert world.books() == world.runs()
    assert passed in world.books()


def test_a_user_cancels_and_a_controller_restarts():
    world = World()
    first, second = world.slurm.submit(4, 8), world.slurm.submit(4, 8)
    world.step(2)
    world.slurm.answers = False
    assert world.step(3) == []
    world.slurm.answers = True
    world.slurm.end(first)
    world.step(2)
    assert world.books() == world.runs() == {second: {"n1", "n2", "n3", "n4"}}


def test_a_job_whose_nodes_are_busy_is_placed_again():
    world = World(nodes=2)
    job = world.slurm.submit(1, 8)
    world.broker.step(1.0)
    (node,) = world.slurm.jobs[int(job)].wanted
    world.slurm.free[node].clear()  # taken by a job that hivecore does not see
    world.step(6)
    assert [x for x in world.slurm.obeyed if x.startswith("hold")] == [f"hold {job}"]


def a_node_of_each_leaf_gets_idle(**more):
    world = World()
    world.begin(leaf=2, **more)
    for _ in range(4):
        world.slurm.submit(1, 8)
    world.step(2)
    by_node = {node: name for name, (node,) in world.runs().items()}
    for node in ("n1", "n3"):
        world.slurm.end(by_node.pop(node))
    return world, by_node


def test_a_job_waits_a_while_for_a_place_under_fewer_switches():
    world, singles = a_node_of_each_leaf_gets_idle()
    job = world.slurm.submit(2, 8)
    world.step(300)  # a tenth of its limit of an hour, but no longer than this
    assert job not in world.runs()
    world.slurm.end(singles["n4"])
    world.step()
    assert world.runs()[job] == {"n3", "n4"} and world.books() == world.runs()


@pytest.mark.parametrize("more", [{"switch_wait": 5}, {}])
def test_a_job_starts_under_more_switches_when_it_has_waited(more):
    world, singles = a_node_of_each_leaf_gets_idle(**more)
    job, large = (world.slurm.submit(count, 8, limit="0:50") for count in (2, 3))
    world.step(5)
    assert job not in world.runs()
    world.step(1)
    assert world.runs()[job] == {"n1", "n3"}
    for name in (job, *singles.values()):
        world.slurm.end(name)
    world.step(2)
    assert large in world.runs() and world.books() == world.runs()  # no leaf could hold it


def a_victim(**more):
    """A world with the running job of a poor tenant, and one of a rich one that wants its node."""
    world = World(nodes=1)
    world.begin(quotas=rich_and_poor(8))
    poor = world.slurm.submit(1, 8, account="poor", **more)
    world.step(2)
    return world, poor, world.slurm.submit(1, 8, account="rich")


def test_victims_stop_before_the_other_starts():
    world, poor, rich = a_victim()
    actions = world.step(3)
    assert [a.job for a in actions if isinstance(a, Preempt)] == [poor]
    assert world.books() == world.runs() == {rich: {"n1"}}
    assert world.slurm.jobs[int(poor)].held


def test_a_job_that_is_changed_while_its_victims_stop_starts_as_it_asks_now():
    world = World(nodes=2)
    world.begin(quotas=rich_and_poor(16))
    victims = [world.slurm.submit(1, 8, account="poor", may_requeue=False) for _ in range(2)]
    world.step(2)
    rich = world.slurm.submit(2, 8, account="rich")
    world.step(2)
    world.slurm.jobs[int(rich)].count = 1
    world.step(2)
    for job in victims:
        world.slurm.end(job)
    world.step(3)
    assert len(world.runs()[rich]) == 1 and world.books() == world.runs()


def test_a_victim_that_ends_just_before_it_is_stopped_does_not_run_a_second_time():
    world, poor, rich = a_victim()
    slurm = world.slurm

    def ends_first(command, text=""):
        if "requeuehold" in text and int(poor) in slurm.jobs:
            slurm.end(poor)
        return slurm(command, text)

    world.broker._run = ends_first
    world.step(3)
    assert [*slurm.jobs] == [int(rich)]
    assert world.books() == world.runs() == {rich: {"n1"}}


def test_a_victim_that_slurm_cannot_requeue_is_named_until_it_ends():
    world, poor, rich = a_victim(may_requeue=False)
    world.step(3)
    assert not world.broker.problems
    world.step(3)
    assert "has to stop for job 2, but Slurm does not requeue it" in world.broker.problems[poor]
    world.slurm.end(poor)
    world.step(2)
    assert world.books() == world.runs() == {rich: {"n1"}} and not world.broker.problems


def test_what_cannot_be_placed_stays_held_with_its_reason():
    world = World(nodes=2)
    job = world.slurm.submit(3, 8)
    world.step(2)
    assert world.slurm.jobs[int(job)].held and job in world.broker.problems


def test_a_job_that_the_books_cannot_hold_keeps_others_off_its_nodes():
    world = World(nodes=2)
    odd = world.slurm.submit(1, 9, held=False)
    world.slurm.jobs[int(odd)].nodes = ("n1",)
    other = world.slurm.submit(1, 8)
    world.step(3)
    assert odd in world.broker.problems
    assert world.runs()[other] == {"n2"}


def test_a_running_job_of_unknown_gpus_keeps_others_off_its_nodes():
    world = World(nodes=1)
    slurm = world.slurm
    job = slurm.submit(1, 2, held=False)
    slurm.tick()
    other = slurm.submit(1, 4)
    said = {"says": False}

    def run(command, text=""):
        if "-d" in command and not said["says"]:
            return ""  # it does not know the job
        return slurm(command, text).replace("gres:gpu:2|N/A|N/A|N/A", "N/A|N/A|gres:gpu:2|N/A")

    world.broker = Broker(scheduler_for(slurm), run, patience=3)
    world.step(3)
    assert "how many GPUs" in world.broker.problems[job] and not world.books()
    assert [*world.runs()] == [job]
    said["says"] = True
    world.step(3)
    assert world.books() == world.runs() == {job: {"n1"}, other: {"n1"}}


def test_a_job_is_adopted_where_it_runs_on_a_node_that_takes_no_others():
    world = World(nodes=2)
    odd = world.slurm.submit(1, 9, held=False)
    job = world.slurm.submit(1, 4, held=False, admin_comment="")
    for number in (odd, job):
        world.slurm.jobs[int(number)].nodes = ("n1",)
    world.slurm.jobs[int(job)].gpus = {"n1": {0, 1, 2, 3}}
    world.step(2)
    world.slurm.end(odd)
    world.step(6)
    assert world.books() == {job: {"n1"}} and not world.broker.problems
    world.slurm.end(job)
    world.begin()
    late = world.slurm.submit(1, 8, held=False, wanted=("n1",))
    world.slurm.tick()
    world.slurm.down.add("n1")  # draining
    world.step(2)
    assert world.books() == {late: {"n1"}}


def test_a_broker_wants_victims_that_take_time():
    slurm = FakeSlurm()
    with pytest.raises(ValueError, match="stop at once"):
        Broker(scheduler_for(slurm, immediate=True), slurm)


def test_a_slurm_that_is_not_installed_is_no_restart():
    def missing(command, text=""):
        raise FileNotFoundError(2, "No such file", command[0])

    with pytest.raises(FileNotFoundError):
        Broker(Scheduler(), missing).step(1.0)


def two_models():
    """Nodes 1 and 2 have A100 and are in "main" alone, 3 and 4 have H100 and a fast network."""
    world = World()
    slurm = world.slurm
    slurm.kinds = {"n1": "a100", "n2": "a100", "n3": "h100", "n4": "h100"}
    slurm.features = {"n3": ["ib", "hbm"], "n4": ["ib"]}
    slurm.partitions = {"n1": ["main"], "n2": ["main"], "n3": ["main", "spare"]}
    slurm.partitions["n4"] = ["big", "main"]
    return world


EXCLUDES = {"admin_comment": "hivecore:exclude"}


@pytest.mark.parametrize(
    ("wish", "nodes"),
    [
        ({"kind": "h100"}, ["n3", "n4"]),
        ({"kind": "a100"}, ["n1", "n2"]),
        ({"partition": "spare"}, ["n3"]),
        ({"partition": "spare,big"}, ["n3", "n4"]),
        ({"features": "ib"}, ["n3", "n4"]),
        ({"features": "ib&hbm"}, ["n3"]),
        ({"features": "[ib|hbm]"}, ["n3", "n4"]),
        ({"barred": ("n1", "n3")} | EXCLUDES, ["n2", "n4"]),
        ({"kind": "h100", "features": "ib", "partition": "big,main"}, ["n3", "n4"]),
        ({"kind": "h100", "features": "ib", "barred": ("n4",)} | EXCLUDES, ["n3"]),
        ({}, ["n1", "n2", "n3", "n4"]),
    ],
)
def test_jobs_are_released_only_to_nodes_that_slurm_allows(wish, nodes):
    world = two_models()
    jobs = [world.slurm.submit(1, 8, **wish) for _ in range(5)]
    world.step(2)
    assert sorted(node for (node,) in world.runs().values()) == nodes
    assert world.books() == world.runs()
    assert set(world.runs()) == set(jobs[: len(nodes)]) and not world.broker.problems
    shadow = shadow_of(world.slurm)
    assert [row.job for row in shadow.rows if row.shadow is not None] == jobs[: len(nodes)]


def test_a_job_waits_for_near_nodes_only_among_those_that_it_may_use():
    world = two_models()
    world.begin(leaf=3, switch_wait=50)  # n3 is at another switch than n4
    job = world.slurm.submit(2, 8, kind="h100")
    world.step(2)
    assert world.runs() == {job: {"n3", "n4"}}


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"wanted": ("n3",), "admin_comment": "hivecore:nodelist"}, "asks for nodes by name, 'n3'"),
        ({"wanted": ("n3",), "admin_comment": ""}, "asks for nodes by name, 'n3'"),
        ({"reservation": "r"}, "has the reservation 'r'"),
        ({"features": "ib*1"}, "constraint='ib.1': is on all nodes of a job together"),
        ({"features": "ib&"}, "constraint='ib&': is no constraint"),
        ({"contiguous": 1}, "asks for contiguous nodes"),
        ({"switches": 1}, "asks for nodes under 1 switches"),
        ({"most": 3}, "asks for 1 to 3 nodes"),
        ({"sharing": "USER"}, "shares its nodes with some jobs only .--exclusive=user."),
        ({"kind": "mixed"}, "nodes with GPUs of type mixed have other types as well"),
    ],
)
@pytest.mark.parametrize("held", [True, False])
def test_what_only_slurm_can_keep_to_is_left_to_it(monkeypatch, wish, says, held):
    world = two_models()
    world.slurm.kinds["n4"] = "h100:7,gpu:mixed"
    monkeypatch.setattr(fake_slurm, "has_features", lambda *given: True)
    world.slurm.obeyed.clear()
    job = world.slurm.submit(1, 1, held=held, **wish)
    world.step()
    assert "is left to Slurm: " in world.broker.problems[job]
    assert re.search(says, world.broker.problems[job])
    assert world.slurm.obeyed == ([f"release {job}"] if held else [])
    world.step(2)
    assert world.books() == world.runs() and job in world.runs()
    assert not world.broker.problems


def test_a_job_that_is_left_to_slurm_is_no_victim_and_stays_there_when_it_is_requeued():
    world = World(nodes=1)
    job = world.slurm.submit(1, 8, wanted=("n1",), admin_comment="")
    world.step(3)
    assert world.runs() == {job: {"n1"}} and not world.broker.scheduler.job(job).preemptible
    world.slurm.lose("n1")
    world.step(2)
    assert not world.slurm.jobs[int(job)].held and job in world.broker.problems
    assert job not in world.broker.scheduler


@pytest.mark.parametrize("reservation", ["r", ""])
def test_a_job_that_slurm_has_started_beyond_its_quota_may_be_requeued(reservation):
    world = World(nodes=2)
    world.begin(quotas=QuotaTree([Quota("poor", max={"gpu": 16})], total={"gpu": 16}))
    job = world.slurm.submit(1, 8, account="poor", reservation="r")
    world.step(3)
    assert world.books() == world.runs() == {job: {"n1"}}
    world.slurm.jobs[int(job)].reservation = reservation
    world.slurm.lose("n1")
    world.step(3)
    assert world.books() == world.runs() == ({} if reservation else {job: {"n2"}})


@pytest.mark.parametrize("count", [1, 2])
def test_a_job_that_shares_no_node_takes_all_gpus_of_its_nodes(count):
    world = World(nodes=2)
    small = world.slurm.submit(1, 1)
    world.step(2)
    alone = world.slurm.submit(count, 1, sharing="NO")
    other = world.slurm.submit(1, 8)
    world.step(3)
    assert world.runs() == world.books()
    assert world.runs().keys() == ({small, alone} if count == 1 else {small, other})
    world.slurm.end(small)
    world.step(3)
    assert (other in world.runs()) and world.runs() == world.books()
    if count == 2:
        world.slurm.end(other)
        world.step(3)
    assert world.broker.scheduler.job(alone).gpus == 8 * count
    world.begin()
    world.step(2)
    assert world.runs() == world.books() and not world.broker.problems
    assert world.broker.scheduler.job(alone).gpus == 8 * count


def test_a_job_that_shares_its_node_with_its_user_keeps_others_off_it():
    world = World(nodes=2)
    first = world.slurm.submit(1, 1, sharing="USER")
    world.step(2)
    second = world.slurm.submit(2, 1)
    third = world.slurm.submit(1, 8)
    world.step(3)
    assert world.runs().keys() == {first, third} and world.books() == world.runs()
    assert world.slurm.jobs[int(second)].held


def test_a_job_without_gpus_that_runs_alone_keeps_others_off_its_nodes():
    world = World(nodes=2)
    alone = world.slurm.submit(1, 0, sharing="NO", held=False)
    world.slurm.tick()
    (job,) = (world.slurm.submit(1, 1) for _ in range(1))
    both = world.slurm.submit(2, 1)
    world.step(3)
    assert world.books() == world.runs() == {alone: {"n1"}, job: {"n2"}}
    world.slurm.end(alone)
    world.step(3)
    assert both in world.runs() and alone not in world.books()


def test_a_job_of_whole_nodes_gets_those_of_one_size_or_is_left_to_slurm():
    world = World(nodes=2)
    small = SlurmNode("n3", "idle", 2, partitions=("main", "small"))
    nodes = [SlurmNode(name, "idle", 8, partitions=("main",)) for name in ("n1", "n2")]
    places = Places("require")
    places.renew([*nodes, small])
    row = world.slurm._row

    def placed(**wish):
        world.slurm.submit(1, **wish, sharing="NO")
        (job,) = read_queue(row(world.slurm.jobs[world.slurm.last]), node_gpus=8)
        return places.with_place(job)

    large, any_size = placed(each=4), placed(each=2)
    assert large.job.gpus == 8 and large.job.where.nodes == ("n1", "n2")
    assert any_size.left and "whole nodes, and these have 2 or 8 GPUs" in any_size.problem
    assert placed(each=1, partition="small").job.gpus == 2
    none = placed(each=4, partition="small")
    assert none.problem == "there is no node of partition small with 4 GPUs"


def test_nodes_that_a_user_excludes_are_overwritten_by_no_other_list():
    world = World()
    world.begin(how="exclude")
    user = world.slurm.submit(1, 8, barred=("n1",), admin_comment="hivecore:exclude")
    own = world.slurm.submit(1, 8, barred=("n1", "n2", "n3"))  # of a broker before
    world.step(3)
    assert world.slurm.jobs[int(user)].barred == ("n1",) and world.runs().keys() == {user, own}
    assert world.books() == world.runs()


def test_a_job_that_no_node_can_hold_by_what_it_asks_for_stays_held():
    world = two_models()
    job = world.slurm.submit(1, 8, kind="b200", partition="big")
    world.step(2)
    why = "there is no node of partition big with GPUs of type b200"
    assert world.slurm.jobs[int(job)].held and world.broker.problems[job] == why


def test_a_job_that_could_never_start_does_when_its_user_has_changed_it():
    world = World(nodes=2)
    job = world.slurm.submit(1, 9)
    world.step(2)
    assert "no node has more than 8" in world.broker.problems[job]
    world.slurm.jobs[int(job)].each = 8
    world.step(2)
    assert job in world.runs() and job not in world.broker.problems


def test_a_job_follows_a_change_of_its_partition_and_of_the_nodes():
    world = two_models()
    job, other = (world.slurm.submit(1, 8, partition="spare") for _ in range(2))
    world.step(2)
    assert world.runs() == {job: {"n3"}}
    world.slurm.jobs[int(other)].partition = "big"
    world.step(2)
    assert world.runs()[other] == {"n4"}
    last = world.slurm.submit(1, 8, partition="spare")
    world.slurm.partitions["n1"] = ["main", "spare"]
    world.step(12)
    assert world.runs()[last] == {"n1"} and world.books() == world.runs()


@pytest.mark.parametrize("noted", ["hivecore:", ""])
@pytest.mark.parametrize("wish", [{"dependency": "afterok:1(unfulfilled)"}, {"begin": 30.0}])
def test_a_job_that_is_to_wait_by_its_users_later_wish_keeps_no_gpus_from_others(wish, noted):
    world = World(nodes=1)
    slurm = world.slurm
    first, later = slurm.submit(1, 8), slurm.submit(1, 8, admin_comment=noted)
    world.step(2)
    vars(slurm.jobs[int(later)]).update(wish)
    world.step()
    slurm.end(first)
    other = slurm.submit(1, 8)
    world.step(3)
    assert world.books() == world.runs() == {other: {"n1"}}
    slurm.end(other)
    slurm.jobs[int(later)].dependency = "(null)"
    slurm.now = world.now = 31.0
    world.step(3)
    assert world.books() == world.runs() == {later: {"n1"}}


def test_jobs_that_a_slurm_expected_to_start_later_keep_their_turn_when_a_broker_begins():
    world = World(nodes=1)
    slurm, row = world.slurm, world.slurm._row
    slurm._row = lambda job: row(job).replace("BeginTime", "Resources")
    first, second = slurm.submit(1, 8, held=False), slurm.submit(1, 8, held=False)
    slurm.tick()
    slurm.jobs[int(second)].begin = 3000.0  # what squeue says of its start
    world.step()
    third = slurm.submit(1, 8)
    world.step()
    assert [*world.broker.scheduler] == [second, first, third]
    slurm.jobs[int(second)].begin = 0.0  # Slurm does not wait until then
    slurm.end(first)
    world.step(2)
    assert world.books() == world.runs() == {second: {"n1"}}


def test_a_job_that_nothing_holds_before_its_begin_keeps_no_gpus_from_others():
    world = World(nodes=1)
    job = world.slurm.submit(1, 8, held=False, begin=20.0)
    other = world.slurm.submit(1, 8)
    world.step(2)
    assert world.books() == world.runs() == {other: {"n1"}}
    world.slurm.end(other)
    world.step(20)
    assert world.books() == world.runs() == {job: {"n1"}}


def test_a_job_of_whole_nodes_waits_while_slurm_has_none():
    world = World(nodes=2)
    nodes = dict(world.slurm.free)
    world.slurm.free.clear()
    job = world.slurm.submit(1, 1, sharing="NO")
    world.step(2)
    assert "there is no node" in world.broker.problems[job] and not world.slurm.obeyed
    world.slurm.free.update(nodes)
    world.step(7)
    assert world.books().keys() == world.runs().keys() == {job}


def test_a_job_without_nodes_of_which_the_reservation_was_deleted_waits():
    world = World(nodes=1)
    job = world.slurm.submit(1, 8)
    row = world.slurm._row
    world.slurm._row = lambda job: row(job).replace("PENDING", "RESV_DEL_HOLD")
    world.step(2)
    assert world.books() == world.runs() == {job: {"n1"}}


def test_a_refusal_is_not_taken_for_that_of_a_job_that_was_changed_since():
    world = World(nodes=2)
    slurm = world.slurm
    running = slurm.submit(1, 1, held=False)
    slurm.tick()
    job = slurm.submit(1, 9)

    def half(command, text=""):
        if "-d" in command:
            raise OSError("scontrol: Unable to contact slurm controller (connect failure)")
        return slurm(command, text)

    world.broker._run = half
    world.step()
    world.broker._run = slurm
    slurm.jobs[int(job)].each = 8
    world.step(3)
    assert world.runs().keys() == {running, job} and world.books() == world.runs()


def test_a_job_of_a_partition_that_is_down_keeps_no_gpus_from_others():
    world = World(nodes=1)
    slurm = world.slurm
    ran = slurm.submit(1, 4, partition="spare")
    world.step(2)
    slurm.closed.add("spare")
    world.step(6)
    job, other = slurm.submit(1, 4, partition="spare"), slurm.submit(1, 4)
    world.step(6)
    assert world.books() == world.runs() == {ran: {"n1"}, other: {"n1"}}
    world.begin()
    world.step(2)
    assert world.books() == world.runs() == {ran: {"n1"}, other: {"n1"}}
    assert world.broker.problems == {job: "there is no node of partition spare"}
    slurm.end(other)
    slurm.closed.clear()
    world.step(6)
    assert world.books() == world.runs() == {ran: {"n1"}, job: {"n1"}}


def test_nice_jobs_run_where_there_are_cells():
    world = World(nodes=2)
    spec = ClusterSpec(
        {"c": Chain(["gpu", "node"], [8], 2, nodes=["n1", "n2"])}, {"vision": {"c": {"node": 2}}}
    )
    world.broker = Broker(Scheduler(cells=CellCluster(spec)), world.slurm, patience=3)
    ran = world.slurm.submit(1, 8, nice=5, wanted=("n1",), admin_comment="hivecore:nodelist")
    world.step(2)
    job = world.slurm.submit(1, 8, nice=5)
    world.step(2)
    assert world.books() == world.runs() == {ran: {"n1"}, job: {"n2"}}
    assert not world.broker.problems
    shadow = Shadow(Scheduler(cells=CellCluster(spec), immediate=True), world.slurm)
    shadow.step(1.0)
    assert [row.shadow for row in shadow.rows if row.job == job] == [1.0]


def test_typed_gpus_of_a_job_that_slurm_places_are_those_in_the_books():
    world = World(nodes=1, gpus=4)
    slurm, row = world.slurm, world.slurm._row
    slurm._row = lambda job: row(job).replace("(null);", f"hivecore:gpu={job.each}|(null);")
    devices = DeviceCluster({"n1": NodeDevices.uniform(gpus=4)})
    world.broker = Broker(Scheduler(devices=devices), slurm, typed=True, patience=3)
    left, job = slurm.submit(1, 2, reservation="r"), slurm.submit(1, 2)
    world.broker.step(1.0)
    assert f"update jobid={job} reqnodelist=n1 gres=gpu:i0:1,gpu:i1:1" in slurm.obeyed
    slurm.jobs[int(left)].nodes, slurm.jobs[int(left)].gpus = ("n1",), {"n1": {0, 1}}
    world.broker.step(2.0)
    world.broker.step(6.0)
    assert slurm.obeyed[-2] == f"update jobid={job} reqnodelist=n1 gres=gpu:i2:1,gpu:i3:1"
    assert world.broker.scheduler.status(left).pods[0].gpus == (0, 1)


def test_a_victim_that_is_changed_while_it_stops_starts_where_it_may_run_now():
    world = World(nodes=2)
    slurm = world.slurm
    slurm.partitions = {"n1": ["main", "one"], "n2": ["main", "two"]}
    world.begin(quotas=rich_and_poor(16))
    poor = {slurm.submit(1, 8, account="poor") for _ in range(2)}
    world.step(2)
    nodes = {job: node for job, (node,) in world.runs().items()}
    rich = slurm.submit(1, 8, account="rich")
    (victim,) = [action.job for action in world.step() if isinstance(action, Preempt)]
    slurm.jobs[int(victim)].partition = {"n1": "one", "n2": "two"}[nodes[victim]]
    (other,) = poor - {victim}
    slurm.end(other)
    world.step(2)
    assert world.books() == world.runs() == {rich: {nodes[victim]}}
    slurm.end(rich)
    world.step(2)
    assert world.books() == world.runs() == {victim: {nodes[victim]}}


@pytest.mark.parametrize("is_new", [False, True])
def test_a_job_that_ends_and_has_no_nodes_left_gets_no_commands(is_new):
    world = World(nodes=1)
    slurm = world.slurm
    job = slurm.submit(1, 8)
    world.step(2)
    row, obeyed = slurm._row, len(slurm.obeyed)
    slurm._row = lambda job: row(job).replace("RUNNING", "COMPLETING").replace("|n1|", "||")
    if is_new:
        world.begin()
    world.step(5)
    assert len(slurm.obeyed) == obeyed
    other = slurm.submit(1, 8)
    slurm._row = row
    slurm.end(job)
    world.step(2)
    assert world.books() == world.runs() == {other: {"n1"}}


#: Events of jobs, nodes and the broker, see `happen`.
SHARED_EVENTS = (
    st.tuples(st.sampled_from(["end", "release", "requeue"]), st.integers(0, 20)),
    st.tuples(st.sampled_from(["lose", "return"]), st.integers(0, 3)),
    st.tuples(st.just("step")),
)


def happen(world, kind, values):
    """Let one of the shared events happen, if there is a job for it."""
    slurm = world.slurm
    if kind in ("end", "release", "requeue") and slurm.jobs:
        job = slurm.jobs[list(slurm.jobs)[values[0] % len(slurm.jobs)]]
        if kind == "end":
            slurm.end(job.number)
        elif kind == "release":
            job.held = False
        elif job.nodes:
            slurm._requeue(job)
    elif kind == "lose":
        slurm.lose(list(slurm.free)[values[0]])
    elif kind == "return":
        slurm.down.discard(list(slurm.free)[values[0]])
    elif kind == "step":
        world.step()


EVENTS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 3), st.integers(1, 8)),
    st.tuples(st.just("controller"), st.booleans()),
    st.tuples(st.just("crash"), st.integers(0, 4)),
    *SHARED_EVENTS,
)


@examples(100)
@given(
    st.lists(EVENTS, max_size=40),
    st.sampled_from([{}, {"leaf": 2, "switch_wait": 2}]),
    st.sampled_from(["hivecore:", ""]),
)
def test_whatever_happens_the_books_end_as_what_runs(events, options, noted):
    world = World()
    world.begin(**options)
    slurm = world.slurm
    for kind, *values in events:
        if kind == "submit":
            slurm.submit(*values, admin_comment=noted)
        elif kind == "controller":
            slurm.answers = values[0]
        elif kind == "crash":
            slurm.crash_after = values[0]
            try:
                world.step()
            except KeyboardInterrupt:
                world.begin(**options)
            slurm.crash_after = None
        else:
            happen(world, kind, values)
    slurm.answers = True
    slurm.down.clear()
    slurm.now = world.now = (
        world.now + 120
    )  # a job that is left to Slurm and requeued waits so long
    world.step(12)
    assert world.books() == world.runs()
    world.broker.scheduler.check()
    for _ in range(len(slurm.jobs)):  # nothing is stuck: all that can run in the end has run
        for number in [number for number, job in slurm.jobs.items() if job.nodes]:
            slurm.end(number)
        world.step(8)
        assert world.books() == world.runs()
    assert not slurm.jobs


#: Wishes, and the nodes of `two_models` that they allow; without the latter Slurm alone decides.
WISHES = [
    ({}, {"n1", "n2", "n3", "n4"}),
    ({"kind": "h100"}, {"n3", "n4"}),
    ({"partition": "spare,big"}, {"n3", "n4"}),
    ({"features": "ib&hbm"}, {"n3"}),
    ({"barred": ("n1", "n4"), "admin_comment": "hivecore:exclude"}, {"n2", "n3"}),
    ({"wanted": ("n2",), "admin_comment": "hivecore:nodelist", "held": False}, None),
    ({"reservation": "r"}, None),
]


@examples(100)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(0, len(WISHES) - 1), st.integers(1, 8)),
            st.tuples(st.just("begin")),
            *SHARED_EVENTS,
        ),
        max_size=40,
    )
)
def test_whatever_happens_jobs_get_only_nodes_that_they_may_use(events):
    world = two_models()
    slurm, nodes_of = world.slurm, {}
    for kind, *values in events:
        if kind == "submit":
            wish, nodes = WISHES[values[0]]
            nodes_of[slurm.submit(1, values[1], **wish)] = nodes
        elif kind == "begin":
            world.begin()
        else:
            happen(world, kind, values)
    slurm.down.clear()
    slurm.now = world.now = world.now + 120  # Slurm starts what it has requeued
    for _ in range(len(slurm.jobs) + 1):
        world.step(12)
        assert world.books() == world.runs()
        for number in [number for number, job in slurm.jobs.items() if job.nodes]:
            slurm.end(number)
    assert not slurm.jobs
    for line in slurm.obeyed:
        if line.startswith("update"):
            _, job, placed = line.split()[:3]
            (node,) = expand_hostlist(placed.removeprefix("reqnodelist="))
            assert node in (nodes_of[job.removeprefix("jobid=")] or ())


def test_a_shadow_says_how_long_jobs_wait_in_both():
    slurm = FakeSlurm(nodes=1)
    shadow = Shadow(scheduler_for(slurm, immediate=True), slurm)
    first, second = slurm.submit(1, 8), slurm.submit(1, 4)
    shadow.step(1.0)
    slurm.jobs[int(first)].held = False
    slurm.now = 4.0
    slurm.tick()
    shadow.step(5.0)
    slurm.end(first)
    shadow.step(15.0)
    rows = {row.job: row for row in shadow.rows}
    assert (rows[first].slurm, rows[first].shadow) == (5.0, 1.0)
    assert (rows[second].slurm, rows[second].shadow) == (None, 15.0)
    assert "mean" in shadow.table and "waits" in shadow.table
    assert not slurm.obeyed


def test_a_shadow_starts_no_job_on_a_node_that_is_down_or_not_there(monkeypatch):
    slurm = FakeSlurm(nodes=4)
    shadow = Shadow(scheduler_for(slurm, immediate=True), slurm)
    slurm.down.add("n1")
    slurm.sizes["n2"] = 4
    planned, rows = slurm.free.pop("n3"), slurm._node_rows
    # Slurm's own plan for n4 is none of hivecore's
    plan = {"n4": "planned"}
    monkeypatch.setattr(
        slurm, "_node_rows", lambda node: rows(node).replace("idle", plan.get(node, "idle"))
    )
    jobs = [slurm.submit(1, 8) for _ in range(4)]
    shadow.step(1.0)
    started = [row.job for row in shadow.rows if row.shadow is not None]
    assert started == jobs[:1] and shadow.scheduler.status(jobs[0]).pods[0].node == "n4"
    slurm.down.clear()
    slurm.free["n3"] = planned
    shadow.step(2.0)
    assert [row.job for row in shadow.rows if row.shadow is not None] == jobs[:3]


@pytest.mark.parametrize("noted", ["", "hivecore:exclude"])
def test_a_shadow_keeps_to_the_nodes_that_a_job_excludes_which_runs_at_its_begin(noted):
    slurm = FakeSlurm(nodes=2)
    job = slurm.submit(1, 8, held=False, barred=("n1",), admin_comment=noted)
    slurm.tick()
    assert slurm.jobs[int(job)].nodes == ("n2",)
    shadow = shadow_of(slurm)
    assert [pod.node for pod in shadow.scheduler.status(job).pods] == ["n2"]


def test_a_waiting_job_that_its_user_changes_is_amended():
    world = World(nodes=2)
    blocker, job = world.slurm.submit(2, 8), world.slurm.submit(2, 8)
    world.step(2)
    world.slurm.jobs[int(job)].count = 1
    world.step()
    world.slurm.end(blocker)
    world.step(2)
    assert len(world.runs()[job]) == 1 and world.books() == world.runs()


@pytest.mark.parametrize("wish", [{"dependency": "afterok:1(unfulfilled)"}, {"begin": 30.0}])
@pytest.mark.parametrize("held", [False, True])
def test_a_shadow_starts_no_job_that_its_user_wants_later(wish, held):
    slurm = FakeSlurm(nodes=1)
    job, other = slurm.submit(1, 8, held=held, **wish), slurm.submit(1, 8, held=False)
    slurm.tick()
    shadow = shadow_of(slurm)
    assert [row.job for row in shadow.rows] == [other]
    slurm.end(other)
    slurm.jobs[int(job)].dependency = "(null)"
    slurm.now = 31.0
    shadow.step(31.0)
    assert [(row.first, row.shadow) for row in shadow.rows if row.job == job] == [(31.0, 31.0)]


def test_a_job_of_the_shadow_that_is_left_to_slurm_later_runs_on_in_it():
    slurm = FakeSlurm(nodes=1)
    job, other = slurm.submit(1, 8, held=False), slurm.submit(1, 8)
    slurm.tick()
    shadow = shadow_of(slurm)
    slurm.jobs[int(job)].reservation = "r"
    shadow.step(5.0)
    assert [*shadow.scheduler] == [job, other] and shadow.scheduler.state(job) == "running"
    slurm.end(job)
    shadow.step(9.0)
    assert [row.shadow for row in shadow.rows] == [1.0, 9.0]


@pytest.mark.parametrize("name", ["patience", "node_interval", "switch_wait"])
@pytest.mark.parametrize("seconds", [math.nan, -1.0, 1e300])
def test_seconds_that_are_no_duration_are_refused(name, seconds):
    with pytest.raises(ValueError, match=name):
        Broker(Scheduler(), **{name: seconds})
