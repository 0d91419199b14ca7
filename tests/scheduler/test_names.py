"""Names of jobs may contain slashes, as names of extra pods do; they never collide."""

import re
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.lives import decided

from hivecore.cells import CellCluster, Chain, ClusterSpec
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import Job, PlacedPod, Role, Scheduler
from hivecore.topology import NetworkTopology
from hivecore.verify import verify_actions

ELASTIC = [Role("w", 1, gpus=1, max_pods=3)]
JOINING = [Role("w", 4, gpus=1, min_pods=2)]
SPARES = [Role("w", 2, gpus=1, spares=1)]
SHAPES = {
    "plain": {"roles": [Role("w", 2, gpus=1)]},
    "elastic": {"roles": ELASTIC},
    "joining": {"roles": JOINING},
    "spares": {"roles": SPARES, "on_failure": "pod"},
    "lost": {"roles": [Role("lost", 2, gpus=1, max_pods=4)], "on_failure": "pod"},
}


def quotas():
    return QuotaTree([Quota("t", max={"gpu": 12})], total={"gpu": 12})


def job(name, shape):
    return Job(name, "t", **SHAPES[shape])


@pytest.mark.parametrize(
    ("name", "shape", "other"),
    [
        ("a", "elastic", "a/w/2"),
        ("a", "joining", "a/w/3"),
        ("x/a", "elastic", "x/a/w/1"),
        ("a", "spares", "a/lost"),
        ("a", "spares", "a/lost/w/2"),
        ("a", "lost", "a/lost/3"),
    ],
)
def test_a_name_that_a_pod_of_another_job_may_have_is_refused_in_any_order(name, shape, other):
    for first, second in (
        [job(name, shape), job(other, "plain")],
        [job(other, "plain"), job(name, shape)],
    ):
        scheduler = Scheduler(quotas=quotas())
        decided(scheduler, first)
        before = scheduler.to_bytes()
        with pytest.raises(ValueError, match="may have th"):
            scheduler.submit(second, 0.0)
        pods = [PlacedPod(role.name, i, "") for role in second.roles for i in role.first_numbers]
        with pytest.raises(ValueError, match="may have th"):
            scheduler.adopt(second, pods, 0.0)
        assert scheduler.to_bytes() == before
        scheduler.finish(first.name, 0.0)
        scheduler.submit(second, 0.0)
        assert Scheduler.from_bytes(scheduler.to_bytes()).state(second.name) == "pending"


def test_a_job_that_is_amended_gets_no_pods_of_the_name_of_another_job():
    scheduler = Scheduler(quotas=quotas())
    scheduler.submit(job("a", "plain"), 0.0)
    scheduler.submit(job("a/w/2", "plain"), 0.0)
    before = scheduler.to_bytes()
    with pytest.raises(ValueError, match="its pods may have the name of the job 'a/w/2'"):
        scheduler.amend("a", 0.0, roles=ELASTIC)
    assert scheduler.to_bytes() == before
    scheduler.amend("a/w/2", 0.0, priority=3)


def test_with_idle_cells_a_job_has_a_second_unit():
    spec = ClusterSpec({"c": Chain(["gpu", "node"], [2], 1)}, {"t": {"c": {"node": 1}}})
    for lending in (False, True):
        scheduler = Scheduler(cells=CellCluster(spec), lending=lending)
        scheduler.submit(Job("a", "t", 1), 0.0)
        if lending:
            with pytest.raises(ValueError, match="pods of 'a' may have this name"):
                scheduler.submit(Job("a/lent", "t", 1), 0.0)
        else:
            scheduler.submit(Job("a/lent", "t", 1), 0.0)


@pytest.mark.parametrize("name", ["/a", "a/", "a//b", "/"])
def test_nothing_is_empty_beside_a_slash(name):
    with pytest.raises(ValueError, match="name="):
        Job(name, "t", 1)
    with pytest.raises(ValueError, match="name="):
        Job("a", "t", 1).replace(name=name)
    with pytest.raises(ValueError, match="'/' is not allowed in the name of a role"):
        Role("a/b")


SEGMENTS = st.sampled_from(["a", "w", "lost", "lent", "0", "1", "2", "3", "03"])
NAMES = st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join)
JOBS = st.lists(st.tuples(NAMES, st.sampled_from(sorted(SHAPES))), min_size=1, max_size=8)


def running_in(scheduler):
    return [name for name in scheduler if scheduler.state(name) == "running"]


@given(JOBS, st.data())
@examples(60)
def test_jobs_of_any_names_do_as_jobs_of_plain_names(given, data):
    """The same jobs under names without slashes get the same decisions."""
    scheduler, plain = Scheduler(quotas=quotas()), Scheduler(quotas=quotas())
    written, jobs, numbers = {}, {}, count()

    def tell(event, name, *more):
        getattr(scheduler, event)(name, 0.0, *more)
        getattr(plain, event)(written[name], 0.0, *more)

    def decide():
        before, others = scheduler.copy(), plain.decide(0.0)
        actions = scheduler.decide(0.0)
        scheduler.check()
        verify_actions(actions, jobs, before)
        mine = [
            (type(action), written[action.job], getattr(action, "pods", ())) for action in actions
        ]
        assert mine == [
            (type(action), action.job, getattr(action, "pods", ())) for action in others
        ]

    for name, shape in given:
        new_job = job(name, shape)
        try:
            scheduler.submit(new_job, 0.0)
        except ValueError as error:
            assert str(error).startswith(f"job={name!r}: ")
            continue
        written[name], jobs[name] = f"j{next(numbers)}", new_job
        plain.submit(new_job.replace(name=written[name]), 0.0)
        decide()
        if (running := running_in(scheduler)) and data.draw(st.booleans()):
            chosen = data.draw(st.sampled_from(running))
            pod = data.draw(st.sampled_from(scheduler.status(chosen).pods))
            tell("fail", chosen, f"{pod.role}/{pod.index}")
            decide()
        if (running := running_in(scheduler)) and data.draw(st.booleans()):
            tell("finish", data.draw(st.sampled_from(running)))
            decide()
        scheduler = Scheduler.from_bytes(scheduler.to_bytes())


# --- resources that nodes call otherwise


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        *(("nvidia.com/gpu", "gpu"), ("requests.nvidia.com/gpu", "gpu"), ("cpus", "cpu")),
        *(("CPU", "cpu"), ("limits.cpu", "cpu"), ("memroy", "memory"), ("infiniban", "infiniband")),
        *(("licenses", ""), ("vgpu", ""), ("mig-2g", ""), ("infiniband", ""), ("memory", "")),
        ("a.deviceclass.resource.k8s.io/capacity/memory", ""),
    ],
)
def test_a_quota_of_what_nodes_call_otherwise_is_refused(resource, meant):
    """Nodes have infiniband and mig-1g; a quota may limit licenses, which no node has."""
    network = NetworkTopology([], {"n": {}})
    network.set_free("n", {"gpu": 8, "infiniband": 8, "mig-1g": 8})
    quota = Quota("a", max={resource: 4})
    says = f"no node has {resource!r}; is {meant!r} meant?"
    scheduler = Scheduler(quotas=QuotaTree([Quota("a", max={"gpu": 4})]), topology=network.copy())
    if not meant:
        assert Scheduler(quotas=QuotaTree([quota]), topology=network) is not None
        scheduler.set_quota(quota, now=0.0)
        return
    with pytest.raises(ValueError, match=re.escape(says)):
        Scheduler(quotas=QuotaTree([quota]), topology=network)
    with pytest.raises(ValueError, match=re.escape(says)):
        scheduler.set_quota(quota, now=0.0)
    assert dict(scheduler.quotas.quota("a").max) == {"gpu": 4}
    assert Scheduler(quotas=QuotaTree([quota])) is not None  # without nodes, jobs may say so


def test_the_reason_of_an_unknown_quota_names_one_like_it():
    scheduler = Scheduler(quotas=QuotaTree([Quota("vision", max={"gpu": 4})]))
    for name in ("vison", "other"):
        scheduler.submit(Job(name, name, 1), now=0.0)
    reasons = [action.reason for action in scheduler.decide(now=0.0)]
    assert reasons == [
        "there is no quota 'vison'; is 'vision' meant?",
        "there is no quota 'other'",
    ]
