"""Jobs without GPUs of their own share those of others."""

import copy
import io
import pickle

import pytest
from scheduler.lives import (
    cell_cluster,
    decided,
    flat_network,
    machines,
    network,
    quota_tree,
    summary,
)

from hivecore.interleaving import interleave
from hivecore.queues import TenantQueues
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Data,
    Job,
    Move,
    Preempt,
    Reject,
    Role,
    Scheduler,
    Sharing,
    Start,
    StoragePool,
    Wait,
    Where,
    action_of_plain,
    plain_record,
)
from hivecore.topology import NetworkTopology

READS, COMPUTES, TALKS = (4.0, 1.0, 1.0), (1.0, 4.0, 1.0), (1.0, 1.0, 4.0)
LONG = (8.0, 2.0, 2.0)
TWO = [Role("w", 2, gpus=4)]


def scheduler_of(*parts, sharing=None, **settings):
    return Scheduler(
        queues=settings.pop("queues", None),
        quotas=quota_tree() if "quotas" in parts else None,
        cells=cell_cluster() if "cells" in parts else None,
        topology=network() if "topology" in parts else None,
        devices=machines() if "devices" in parts else None,
        sharing=sharing or Sharing(3, min_gain=0.5),
        **settings,
    )


def small(**terms):
    """Four GPUs, with a job that reads."""
    tree = QuotaTree([Quota("a", max={"gpu": 4})], total={"gpu": 4})
    scheduler = Scheduler(quotas=tree, sharing=Sharing(3, **terms))
    decided(scheduler, Job("host", "a", 4, stages=READS))
    return scheduler


def started(scheduler, job, now=0.0):
    """The start of a new job; None: it does not start."""
    starts = [
        action
        for action in decided(scheduler, job, now=now)
        if isinstance(action, Start) and action.job == job.name
    ]
    scheduler.check()
    return starts[0] if starts else None


EVERYWHERE = pytest.mark.parametrize(
    "parts",
    [
        ("quotas",),
        ("cells",),
        ("topology",),
        ("devices",),
        ("quotas", "topology", "devices"),
        ("quotas", "cells", "devices"),
    ],
    ids=" ".join,
)


def full(parts, **settings):
    """All GPUs that tenant a may use are in use by reading jobs on two nodes."""
    scheduler = scheduler_of(*parts, **settings)
    for name in ("one", "two"):
        job = Job(name, "a", TWO, stages=READS)
        scheduler.submit(job, now=0.0)
    scheduler.decide(0.0)
    names = [name for name in scheduler if scheduler.state(name) == "running"]
    for name in list(scheduler):
        if name not in names:
            scheduler.cancel(name, 0.0)
    return scheduler, names


@EVERYWHERE
def test_a_job_joins_one_that_it_complements_on_the_same_places(parts):
    scheduler, names = full(parts)
    before = [part.to_bytes() for part in (scheduler.cells, scheduler.topology) if part]
    begun = started(scheduler, Job("late", "a", TWO, stages=COMPUTES))
    assert begun.shares_with == (names[0],)
    assert begun.offsets == interleave([COMPUTES, READS]).offsets
    assert begun.pods == scheduler._state.jobs[names[0]].units[0].placed
    assert before == [part.to_bytes() for part in (scheduler.cells, scheduler.topology) if part]
    if scheduler.quotas is not None:
        assert scheduler.quotas.members("late") == 0 and scheduler.quotas.members(names[0]) == 1


def test_own_gpus_come_first():
    scheduler = scheduler_of("topology")
    scheduler.submit(Job("one", "a", TWO, stages=READS), now=0.0)
    scheduler.submit(Job("two", "a", TWO, stages=COMPUTES), now=0.0)
    assert [action.shares_with for action in scheduler.decide(0.0)] == [(), ()]


def test_sharing_comes_before_eviction():
    scheduler = scheduler_of("cells", immediate=True)
    scheduler.submit(Job("spare", "a", [Role("w", 2, 4)], guaranteed=False), now=0.0)
    for name, stages in (("host", READS), ("late", COMPUTES)):
        scheduler.submit(Job(name, "b", 4, stages=stages), now=0.0)
    assert summary(scheduler.decide(0.0)) == [("start", name) for name in ("spare", "host", "late")]
    assert scheduler.state("spare") == "running"


def test_jobs_of_other_tenants_share_where_that_is_allowed():
    for parts, any_tenant, shares in (
        (("topology",), True, True),
        (("topology",), False, False),
        (("cells",), True, False),
    ):
        scheduler = scheduler_of(*parts, sharing=Sharing(3, any_tenant=any_tenant))
        where = Where(nodes=["n0"])
        assert started(scheduler, Job("host", "a", 4, stages=READS, where=where))
        late = started(scheduler, Job("late", "b", 4, stages=COMPUTES, where=where))
        assert (late is not None) == shares


def test_jobs_of_one_quota_share_across_tenants():
    tree = QuotaTree([Quota("lab", max={"gpu": 4})], total={"gpu": 4})
    scheduler = Scheduler(quotas=tree, sharing=Sharing(3, any_tenant=True))
    for name, tenant, stages in (("host", "a", READS), ("late", "b", COMPUTES)):
        scheduler.submit(Job(name, tenant, 4, quota="lab", stages=stages), now=0.0)
    assert summary(scheduler.decide(0.0)) == [("start", "host"), ("start", "late")]
    assert tree.status("lab").used == {"gpu": 4} and tree.status("lab").request == {"gpu": 8}


def test_the_gain_of_a_job_is_the_rise_in_progress_of_its_group():
    alone, pair = 1.0, 12.0 / interleave([COMPUTES, READS]).iteration_time
    assert started(small(min_gain=pair - alone), Job("late", "a", 4, stages=COMPUTES))
    assert not started(small(min_gain=pair - alone + 1e-6), Job("late", "a", 4, stages=COMPUTES))
    assert not started(small(min_gain=0.2), Job("late", "a", 4, stages=(4.0, 0.0, 0.0)))


def test_no_job_is_slowed_down_more_than_allowed():
    slow = interleave([(0.5, 0.5, 0.5), READS]).iteration_time / 1.5
    short = Job("late", "a", 4, stages=(0.5, 0.5, 0.5))
    assert started(small(min_gain=0.01, max_slowdown=slow), short)
    assert not started(small(min_gain=0.01, max_slowdown=slow - 1e-6), short)


def test_a_group_has_so_many_jobs_at_most():
    scheduler = small(max_group=2)
    assert started(scheduler, Job("second", "a", 4, stages=COMPUTES))
    assert not started(scheduler, Job("third", "a", 4, stages=TALKS))
    scheduler = small()
    assert started(scheduler, Job("second", "a", 4, stages=COMPUTES))
    third = started(scheduler, Job("third", "a", 4, stages=TALKS))
    assert third.shares_with == ("host", "second")
    assert third.offsets == interleave([TALKS, READS, COMPUTES]).offsets


def test_the_best_group_is_joined_and_among_equals_the_oldest():
    scheduler = scheduler_of("topology")
    for name, stages in (("even", (2.0, 2.0, 2.0)), ("one", READS), ("two", READS)):
        scheduler.submit(Job(name, "a", 4, stages=stages), now=0.0)
    decided(scheduler, Job("rest", "a", 4))
    assert started(scheduler, Job("late", "a", 4, stages=COMPUTES)).shares_with == ("one",)
    assert started(scheduler, Job("next", "a", 4, stages=COMPUTES)).shares_with == ("two",)


@EVERYWHERE
@pytest.mark.parametrize(
    "how", [lambda it: it, copy.copy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_the_next_job_holds_the_shared_gpus_when_the_first_ends(parts, how):
    scheduler, names = full(parts)
    started(scheduler, Job("late", "a", TWO, stages=COMPUTES))
    scheduler = how(scheduler)
    placed = [pod.node for pod in scheduler._state.jobs["late"].units[0].placed]
    scheduler.finish(names[0], now=1.0)
    scheduler.check()
    scheduler = how(scheduler)
    if scheduler.cells is not None:
        assert "late" in scheduler.cells and names[0] not in scheduler.cells
    if scheduler.topology is not None:
        nodes = [pod.node for pod in scheduler.topology.placement("late")]
        assert nodes == placed
    if scheduler.devices is not None:
        assert [scheduler.devices.node_of(f"late/w/{i}") for i in range(2)] == placed
    if scheduler.quotas is not None:
        assert scheduler.quotas.members("late") == 1
        assert names[0] not in scheduler.quotas.owners
    # The old name may be used again meanwhile.
    again = started(scheduler, Job(names[0], "a", TWO, stages=TALKS), now=1.0)
    assert again is not None and "late" in again.shares_with
    for name in list(scheduler):
        scheduler.cancel(name, now=2.0)
        scheduler.check()
    empty = scheduler_of(*parts)
    for part in ("quotas", "cells", "topology", "devices"):
        now, first = getattr(scheduler, part), getattr(empty, part)
        assert now is None or now.to_bytes() == first.to_bytes()


def test_jobs_that_share_leave_together():
    for immediate in (True, False):
        scheduler = scheduler_of("cells", "devices", immediate=immediate)
        for name, stages in (("spare", READS), ("late", COMPUTES)):
            roles = [Role("w", 4, 4)]
            scheduler.submit(Job(name, "b", roles, guaranteed=False, stages=stages), now=0.0)
        scheduler.decide(0.0)
        actions = decided(scheduler, Job("train", "a", TWO), now=1.0)
        assert actions[:2] == [
            Preempt("spare", "train", "opportunistic"),
            Preempt("late", "train", "opportunistic"),
        ]
        scheduler.check()
        if not immediate:
            joiner = Job("more", "b", [Role("w", 4, 4)], guaranteed=False, stages=TALKS)
            assert started(scheduler, joiner, now=1.0) is None
            scheduler.stopped("spare", now=2.0)
            assert summary(scheduler.decide(2.0)) == []
            scheduler.check()
            scheduler.finish("late", now=3.0)
            actions = scheduler.decide(3.0)
            assert "late" not in scheduler
        assert ("start", "train") in summary(actions)
        scheduler.check()


def test_one_job_leaves_rather_than_two_that_share():
    scheduler = Scheduler(
        topology=flat_network("n0", "n1", gpu=4), sharing=Sharing(3), immediate=True
    )
    started(scheduler, Job("alone", "a", 4, guaranteed=False), 0.0)
    started(scheduler, Job("one", "a", 4, guaranteed=False, stages=READS), 10.0)
    assert started(scheduler, Job("two", "a", 4, guaranteed=False, stages=COMPUTES), 10.0)
    scheduler.submit(Job("comes", "a", 4), 20.0)
    assert summary(scheduler.decide(20.0))[:2] == [("preempt", "alone"), ("start", "comes")]


@pytest.mark.parametrize("immediate", [True, False])
def test_no_job_is_evicted_by_priority_of_another_tenants_job(immediate):
    """Jobs that share GPUs leave together, so all must be of the tenant that needs them."""
    scheduler = scheduler_of(
        "topology", sharing=Sharing(3, min_gain=0.5, any_tenant=True), immediate=immediate
    )
    for name, tenant, stages in (
        ("host", "a", READS),
        ("mine", "a", ()),
        ("guest", "b", COMPUTES),
    ):
        decided(scheduler, Job(name, tenant, TWO, stages=stages))
    assert scheduler.status("guest").shares == ("host", "guest")
    scheduler.submit(Job("urgent", "a", [Role("w", 1, gpus=4)], priority=1), now=9.0)
    preempts = [action for action in scheduler.decide(9.0) if isinstance(action, Preempt)]
    assert preempts == [Preempt("mine", "urgent", "priority")]
    scheduler.check()


def test_a_job_waits_where_all_others_share_with_another_tenants_jobs():
    scheduler = scheduler_of("topology", sharing=Sharing(3, min_gain=0.5, any_tenant=True))
    for name, tenant, stages in (("host", "a", READS), ("guest", "b", COMPUTES)):
        roles = [Role("w", 4, gpus=4)]
        decided(scheduler, Job(name, tenant, roles, stages=stages))
    urgent = Job("urgent", "a", [Role("w", 1, gpus=4)], priority=1)
    assert started(scheduler, urgent, now=9.0) is None
    assert scheduler.state("urgent") == "pending" and scheduler.state("host") == "running"


def test_no_job_joins_on_an_unhealthy_node():
    for parts in (("topology",), ("cells",), ("devices",)):
        scheduler, names = full(parts)
        node = scheduler._state.jobs[names[0]].units[0].placed[0].node
        for name in names[1:]:
            scheduler.cancel(name, 0.0)
        for other in ("n0", "n1", "n2", "n3"):
            scheduler.set_node(other, False, now=0.0)
        late = Job("late", "a", TWO, stages=COMPUTES)
        assert started(scheduler, late) is None
        scheduler = pickle.loads(pickle.dumps(scheduler))
        assert scheduler.decide(0.0) == []
        for other in scheduler._state.jobs[names[0]].units[0].placed:
            scheduler.set_node(other.node, True, now=1.0)
        assert [action.shares_with for action in scheduler.decide(1.0)] == [(names[0],)]
        assert node


def test_jobs_with_other_numbers_of_stages_are_rejected_at_once():
    scheduler = small()
    assert decided(scheduler, Job("odd", "a", 4, stages=(1.0, 2.0))) == [
        Reject("odd", "has stages of 2 resources, and sharing knows 3")
    ]


def test_readers_that_share_gpus_have_their_own_remote_io():
    pool = StoragePool({"text": 40.0}, cache_gb=0.0, bandwidth_mbps=100.0)
    scheduler = scheduler_of("topology", storage=pool)
    where = Where(nodes=["n0"])
    for name, stages in (("host", READS), ("late", COMPUTES)):
        job = Job(name, "a", 4, stages=stages, where=where, data=Data("text", 80.0))
        scheduler.submit(job, now=0.0)
    rates = {
        action.job: action.rate_mbps
        for action in scheduler.decide(0.0)
        if hasattr(action, "rate_mbps")
    }
    assert set(rates) == {"host", "late"} and sum(rates.values()) <= 100.0
    scheduler.finish("host", now=1.0)
    assert [action.rate_mbps for action in scheduler.decide(1.0) if action.job == "late"] == [80.0]


def test_a_start_that_shares_is_read_back_from_its_plain_data():
    scheduler = small()
    start = started(scheduler, Job("late", "a", 4, stages=COMPUTES))
    plain = plain_record(start)
    assert plain["shares_with"] == ["host"] and len(plain["offsets"]) == 2
    assert action_of_plain(plain) == start
    for wrong in ({"offsets": [0]}, {"shares_with": []}, {"offsets": [0, 9]}):
        with pytest.raises(ValueError, match="offsets"):
            action_of_plain(plain | wrong)
    alone = Start("host", start.pods)
    assert set(plain_record(alone)) == {"action", "job", "pods"}


def test_without_sharing_nothing_of_it_is_in_the_state_or_the_log():
    file = io.BytesIO()
    scheduler = Scheduler(topology=network(), log=file)
    assert started(scheduler, Job("host", "a", 4, stages=READS))
    assert b"shar" not in file.getvalue() and b"sharing" not in scheduler.to_bytes()
    assert b"sharing" in small().to_bytes()


def test_an_explanation_names_the_jobs_to_share_with():
    queues = TenantQueues(blocking="fifo")
    scheduler = scheduler_of("cells", queues=queues)
    for name, roles in (("host", 4), ("large", [Role("w", 3, 4)])):
        scheduler.submit(Job(name, "b" if name == "host" else "a", roles, stages=READS), now=0.0)
    scheduler.decide(0.0)
    decided(scheduler, Job("first", "b", 4))
    scheduler.submit(Job("late", "b", 4, stages=COMPUTES), now=0.0)
    explanation = scheduler.explain("late")
    assert (explanation.changes[0].kind, explanation.changes[0].jobs) == ("share", ("host",))
    assert "it would start on the GPUs of host, which would share them" in explanation.text
    assert all(change.kind != "share" for change in scheduler.explain("first").changes)


def test_both_jobs_that_share_would_have_to_end():
    scheduler = scheduler_of("cells", sharing=Sharing(3, max_group=2))
    for name, stages in (("host", READS), ("late", COMPUTES), ("third", TALKS)):
        scheduler.submit(Job(name, "b", 4, stages=stages), now=0.0)
    scheduler.decide(0.0)
    decided(scheduler, Job("other", "b", 4))
    explanation = scheduler.explain("other")
    assert [sorted(change.jobs) for change in explanation.changes] == [["host", "late"]]
    scheduler.check()


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"resources": 1}, ValueError, "resources"),
        ({"resources": 9}, ValueError, "resources"),
        ({"resources": "3"}, TypeError, "resources"),
        ({"resources": 3, "max_group": 4}, ValueError, "max_group"),
        ({"resources": 3, "max_group": 1}, ValueError, "max_group"),
        ({"resources": 3, "min_gain": 0.0}, ValueError, "min_gain"),
        ({"resources": 3, "max_slowdown": 0.5}, ValueError, "max_slowdown"),
        ({"resources": 3, "any_tenant": 1}, TypeError, "any_tenant"),
    ],
)
def test_wrong_terms_are_named(arguments, error, says):
    with pytest.raises(error, match=says):
        Sharing(**arguments)


def test_sharing_is_on_terms():
    with pytest.raises(TypeError, match="sharing must be a Sharing"):
        Scheduler(sharing=3)


PLACED = pytest.mark.parametrize(
    "parts",
    [
        ("cells",),
        ("topology",),
        ("quotas", "topology", "devices"),
        ("quotas", "cells", "devices"),
    ],
    ids=" ".join,
)


def grouped(parts, groups, **terms):
    """Jobs by name in these groups; all other GPUs of the tenant are in use."""
    terms = {"max_group": 2, "min_gain": 0.1} | terms
    scheduler = scheduler_of(*parts, sharing=Sharing(3, **terms))
    gpus = 2 if "cells" in parts else 4
    for number in range(4):
        assert started(scheduler, Job(f"busy {number}", "a", gpus))
    for number, names in enumerate(groups):
        scheduler.finish(f"busy {number}", now=0.0)
        for name in names:
            stages = {"r": READS, "c": COMPUTES, "t": TALKS, "l": LONG}[name[0]]
            assert started(scheduler, Job(name, "a", gpus, stages=stages)), name
    assert together(scheduler) == {frozenset(names) for names in groups}
    return scheduler


def together(scheduler):
    return {frozenset(group.jobs) for group in scheduler._state.stages._sharing._groups.values()}


def where(scheduler, name):
    return scheduler._state.jobs[name].units[0].placed


BAD = [("r1", "r2"), ("c1", "c2")]


@PLACED
@pytest.mark.parametrize(
    "how", [lambda it: it, copy.copy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_jobs_that_are_in_each_others_way_change_places(parts, how):
    scheduler = grouped(parts, BAD)
    first, two = where(scheduler, "r1"), where(scheduler, "c1")
    scheduler.regroup(now=1.0, seconds=3600.0)
    scheduler = how(scheduler)
    moves = scheduler.decide(1.0)
    scheduler.check()
    assert [type(move) for move in moves] == [Move, Move]
    assert {move.pods for move in moves} == {first, two}
    for move in moves:
        (other,) = move.shares_with
        assert {move.job[0], other[0]} == {"r", "c"}
        assert where(scheduler, other) == where(scheduler, move.job) == move.pods
        assert action_of_plain(plain_record(move)) == move
        assert len(move.offsets) == 2
    assert scheduler.decide(1.0) == []
    scheduler = how(scheduler)
    for name in ("r1", "c1", "r2", "c2", "busy 2", "busy 3"):
        scheduler.finish(name, now=2.0)
        scheduler.check()
    assert len(scheduler) == 0


def test_no_job_moves_unless_the_gain_exceeds_the_restarts():
    # Two groups of 12/9 jobs each would become two of 2; two jobs move.
    gain = 2 * (2 - 12 / 9)
    for seconds, moves in ((2 * 60 / gain - 0.1, 0), (2 * 60 / gain + 0.1, 2)):
        scheduler = grouped(("topology",), BAD, restart_cost=60.0)
        scheduler.regroup(now=1.0, seconds=seconds)
        assert len(scheduler.decide(1.0)) == moves
        assert (together(scheduler) != {frozenset(names) for names in BAD}) == bool(moves)


def test_gpus_that_become_idle_go_to_waiting_jobs():
    for parts in (("topology",), ("quotas", "topology", "devices"), ("cells", "quotas")):
        scheduler = grouped(parts, [("r1", "r2"), ("c1",), ("t1",)])
        scheduler.cancel("t1", now=0.0)
        gpus = scheduler.job("c1").gpus
        assert started(scheduler, Job("c2", "a", gpus, stages=COMPUTES))
        assert started(scheduler, Job("waits", "a", gpus)) is None
        scheduler.regroup(now=1.0, seconds=3600.0)
        *moves, start = scheduler.decide(1.0)
        assert summary([*moves, start]) == [
            *(("move", move.job) for move in moves),
            ("start", "waits"),
        ]
        assert sorted(map(len, together(scheduler))) == [2, 2]
        scheduler.check()


def test_victims_and_jobs_on_bad_nodes_do_not_move():
    for happens in ("nothing", "failure", "preemption"):
        scheduler = grouped(("topology",), BAD)
        nodes = [pod.node for pod in where(scheduler, "r1")]
        if happens == "failure":
            scheduler.set_node(nodes[0], False, now=1.0)
        elif happens == "preemption":
            urgent = Job("urgent", "a", 4, priority=1, where=Where(nodes=nodes))
            assert [action.job for action in decided(scheduler, urgent, now=1.0)] == ["r1", "r2"]
        scheduler.regroup(now=1.0, seconds=3600.0)
        assert len(scheduler.decide(1.0)) == (2 if happens == "nothing" else 0)
        scheduler.check()


def test_the_group_of_a_job_that_starts_for_its_victims_in_the_same_round_stays_until_the_next():
    scheduler = scheduler_of("topology", sharing=Sharing(3, min_gain=0.05))
    decided(scheduler, *(Job(f"busy {number}", "a", 4) for number in range(3)))
    rows = {"c1": COMPUTES, "c2": COMPUTES, "t": TALKS, "r": READS}
    jobs = [Job(name, "a", 4, priority=1, stages=stages) for name, stages in rows.items()]
    decided(scheduler, *jobs[:3])
    (preempt,) = decided(scheduler, jobs[3], now=1.0)
    scheduler.stopped(preempt.job, now=2.0)
    scheduler.cancel(preempt.job, now=2.0)
    scheduler.regroup(now=2.0, seconds=3600.0)
    assert summary(scheduler.decide(2.0)) == [("start", "r")]
    scheduler.regroup(now=3.0, seconds=3600.0)
    assert summary(scheduler.decide(3.0)) == [("move", "r"), ("move", "c2")]
    scheduler.check()


def test_no_job_moves_where_a_job_would_be_slowed_down_more_than_allowed():
    groups = [("l1", "l2"), ("c1", "c2")]
    for most, moves in ((None, 2), (2.0, 2), (1.9, 0)):
        scheduler = grouped(("topology",), groups, max_slowdown=most)
        scheduler.regroup(now=1.0, seconds=1e6)
        assert len(scheduler.decide(1.0)) == moves


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), "long"])
def test_groups_last_for_some_time(seconds):
    scheduler = small()
    before = scheduler.to_bytes()
    with pytest.raises((TypeError, ValueError), match="seconds"):
        scheduler.regroup(now=1.0, seconds=seconds)
    with pytest.raises(ValueError, match="now"):
        scheduler.regroup(now=-1.0, seconds=1.0)
    assert scheduler.to_bytes() == before
    with pytest.raises(ValueError, match="regroup: "):
        Scheduler().regroup(now=1.0, seconds=1.0)


def one_slot():
    topology = NetworkTopology([], {"n0": {}})
    topology.set_slots([1])
    return topology


@pytest.mark.parametrize("needs", ["after", "together"])
@pytest.mark.parametrize("immediate", [False, True])
def test_jobs_that_share_with_a_needed_job_are_not_evicted(needs, immediate):
    scheduler = Scheduler(topology=one_slot(), sharing=Sharing(2), immediate=immediate)
    scheduler.submit(Job("lead", "t", 1, stages=(3.0, 1.0)), 0.0)
    assert len(decided(scheduler, Job("service", "t", 1, stages=(1.0, 3.0)))) == 2
    scheduler.submit(Job("client", "t", 1, priority=5, **{needs: ["service"]}), 1.0)
    assert [type(action) for action in scheduler.decide(1.0)] == [Wait]
    scheduler.finish("service", 2.0)
    assert [action.for_job for action in scheduler.decide(2.0) if isinstance(action, Preempt)] == [
        "client"
    ]
