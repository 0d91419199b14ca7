"""Which jobs move so that nodes become free or a job fits, on small clusters."""

from math import inf

import pytest
from scheduler.lives import DATA, NODES, decided, make_job, make_scheduler, node_cells

from hivecore.errors import CorruptStateError, StaleDecisionError
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Fit,
    FreeDomain,
    FreeNodes,
    Job,
    Move,
    PlacedPod,
    Role,
    Scheduler,
    SetRemoteIO,
    Start,
    Where,
    action_of_plain,
    plain_record,
    read_log,
    replay,
)
from hivecore.topology import NetworkTopology

PLACING = [("topology",), ("devices",), ("cells",), ("topology", "devices"), ("cells", "devices")]


def put(scheduler, job, *nodes, now=0.0):
    """Start a job, and check that it runs on these nodes; return its pods."""
    for node in NODES:
        scheduler.set_node(node, node in nodes, now)
    started = [action for action in decided(scheduler, job, now=now) if isinstance(action, Start)]
    for node in NODES:
        scheduler.set_node(node, True, now)
    pods = [pod for action in started for pod in action.pods]
    assert {action.job for action in started} == {job.name} and {pod.node for pod in pods} == set(
        nodes
    )
    return pods


def filled(parts, where, **settings):
    """A scheduler with opportunistic jobs (name -> GPUs, node), and their pods."""
    scheduler = make_scheduler(parts, **settings)
    running = {
        name: put(scheduler, Job(name, "a", gpus, guaranteed=False), node)
        for name, (gpus, node) in where.items()
    }
    return scheduler, running


def routes(plan):
    """The jobs that move and their new nodes, step by step."""
    return [[(move.job, *sorted({p.node for p in move.pods})) for move in s] for s in plan.steps]


def test_each_job_moves_as_soon_as_its_place_is_free():
    scheduler = make_scheduler(("topology",))
    put(scheduler, Job("a", "a", 2, where=Where(nodes=("n0", "n1"))), "n0")
    for name, gpus, node in (("b", 2, "n1"), ("c", 2, "n1"), ("d", 2, "n2"), ("e", 4, "n3")):
        put(scheduler, Job(name, "a", gpus, preemptible=name == "b"), node)
    scheduler.submit(Job("new", "b", 4, where=Where(nodes=("n0",))), 0.0)
    plan = scheduler.plan_moves(Fit("new"))
    assert routes(plan) == [[("b", "n2")], [("a", "n1")]]
    assert plan.cost == 2 and plan.lower_bound == 1 and not plan.optimal


def test_jobs_that_take_each_others_places_stop_together():
    scheduler = make_scheduler(("topology",))
    both = Where(nodes=("n0", "n1"))
    put(scheduler, Job("a", "a", 4, where=both), "n0")
    put(scheduler, Job("b", "a", 2, where=both), "n1")
    scheduler.submit(Job("new", "b", 2, where=Where(nodes=("n0",))), 0.0)
    plan = scheduler.plan_moves(Fit("new"))
    assert routes(plan) == [[("a", "n1"), ("b", "n0")]]
    scheduler.move(plan.steps[0], 5.0)
    scheduler.check()
    assert [action.job for action in scheduler.decide(5.0)] == ["new"]


@pytest.mark.parametrize("parts", [("topology",), ("devices",), ("topology", "devices")])
def test_a_small_job_with_few_nodes_gets_its_place_before_a_large_one(parts):
    scheduler = make_scheduler(parts)
    for name, node in (("x", "n1"), ("y", "n2")):
        put(scheduler, Job(name, "a", 2, preemptible=False), node)
    put(scheduler, Job("z", "a", 4, preemptible=False), "n3")
    put(scheduler, Job("large", "a", 2), "n0")
    put(scheduler, Job("small", "a", 1, where=Where(nodes=("n0", "n1"))), "n0")
    plan = scheduler.plan_moves(FreeNodes(["n0"]))
    assert sorted(pair for step in routes(plan) for pair in step) == [
        ("large", "n2"),
        ("small", "n1"),
    ]
    assert plan.optimal


def test_jobs_in_one_cell_of_their_tenant_move_together():
    cells = node_cells(NODES[:3], a=1, b=0)
    scheduler = Scheduler(cells=cells)
    for name in ("one", "two"):
        scheduler.submit(Job(name, "a", 2), 0.0)
    node = {pod.node for action in scheduler.decide(0.0) for pod in action.pods}.pop()
    plan = scheduler.plan_moves(FreeNodes([node]))
    assert len(plan.steps) == 1 and len(plan.steps[0]) == 2 and plan.optimal
    scheduler.move(plan.steps[0], 1.0)
    scheduler.check()
    assert scheduler.plan_moves(FreeNodes([node])).cost == 0


def test_jobs_that_must_stay_stay():
    scheduler = make_scheduler(("topology",))
    put(scheduler, Job("rock", "a", 1, preemptible=False), "n0")
    plan = scheduler.plan_moves(FreeNodes(["n0"]))
    assert plan.reason == "job 'rock' is there and has to stay"
    assert (plan.cost, plan.lower_bound, plan.moves) == (inf, inf, ()) and plan.optimal
    assert scheduler.plan_moves(FreeDomain("rack")).nodes == ("n2", "n3")


def test_the_cheapest_domain_gets_free():
    scheduler, _ = filled(
        ("topology",), {"a": (1, "n0"), "b": (1, "n1"), "c": (2, "n2"), "d": (2, "n3")}
    )
    scheduler.cancel("c", 0.0)
    plan = scheduler.plan_moves(FreeDomain("rack"))
    assert routes(plan) == [[("d", "n0")]] or routes(plan) == [[("d", "n1")]]
    assert plan.nodes == ("n2", "n3") and plan.optimal
    plan = scheduler.plan_moves(FreeDomain("rack", "r0"))
    assert plan.nodes == ("n0", "n1") and plan.cost == 2
    scheduler.set_node("n2", False, 0.0)
    assert scheduler.plan_moves(FreeDomain("rack")).nodes == ("n0", "n1")
    assert scheduler.plan_moves(FreeDomain("node")).cost == 1


def test_cells_and_domains_of_one_name_have_names():
    scheduler, _ = filled(("cells",), {"a": (4, "n0"), "b": (2, "n3")})
    assert scheduler.plan_moves(FreeDomain("rack", "c/1")).moves[0].job == "b"
    with pytest.raises(KeyError, match="no such domain"):
        scheduler.plan_moves(FreeDomain("rack", "c/2"))
    with pytest.raises(KeyError, match="layer='pair'"):
        scheduler.plan_moves(FreeDomain("pair"))
    labels = {"x": {"row": "1", "rack": "r"}, "y": {"row": "2", "rack": "r"}}
    network = NetworkTopology(["row", "rack"], labels)
    network.set_slots([1, 1])
    assert Scheduler(topology=network).plan_moves(FreeDomain("rack", "2/r")).nodes == ("y",)


def test_no_moves_are_planned_for_a_job_that_quotas_refuse():
    tree = QuotaTree([Quota("a", max={"gpu": 8}), Quota("b", max={"gpu": 2})], total={"gpu": 8})
    scheduler = Scheduler(quotas=tree)
    decided(scheduler, *(Job(name, "b", 2) for name in ("one", "two")))
    plan = scheduler.plan_moves(Fit("two"))
    assert plan.lower_bound == inf and "of 'b' is exceeded" in plan.reason
    with pytest.raises(ValueError, match="it is running"):
        scheduler.plan_moves(Fit("one"))
    scheduler.submit(Job("three", "a", 1, after=["two"]), 0.0)
    assert scheduler.plan_moves(Fit("three")).reason == "waits for 'two' to start"


def test_a_borrower_keeps_what_it_has_borrowed():
    scheduler = make_scheduler(("quotas", "topology"), preemption=False)
    put(scheduler, Job("borrower", "a", [Role("w", 3, 4)]), "n0", "n1", "n2")
    decided(scheduler, Job("owner", "b", [Role("w", 2, 4)]), now=1.0)
    assert scheduler.quotas.schedule("owner").outcome != "bind"
    plan = scheduler.plan_moves(FreeNodes(["n1"]))
    assert {pod.node for pod in plan.moves[0].pods} == {"n0", "n2", "n3"}
    used = scheduler.quotas.members("borrower")
    scheduler.move(plan.moves, 2.0)
    assert scheduler.quotas.members("borrower") == used
    scheduler.check()


def test_a_move_that_is_out_of_date_changes_nothing():
    scheduler, _ = filled(("topology", "devices"), {"a": (2, "n0"), "b": (1, "n1")})
    plan = scheduler.plan_moves(FreeNodes(["n0"]))
    (move,) = plan.moves
    before = scheduler.to_bytes()
    for given, error, message in (
        ([], ValueError, "moves: "),
        ([move, move], ValueError, "moves: "),
        (Move("unknown", (), ()), KeyError, "no job 'unknown'"),
        ([plan], TypeError, "not MovePlan"),
        (Move("a", move.pods, move.pods), StaleDecisionError, "has started or moved since"),
        (Move("a", (PlacedPod("pod", 0, "n3"),), move.before), StaleDecisionError, "other GPUs"),
    ):
        with pytest.raises(error, match=message):
            scheduler.move(given, 1.0)
        assert scheduler.to_bytes() == before
    with pytest.raises(ValueError, match="now="):
        scheduler.move(move, -1.0)
    put(scheduler, Job("c", "b", 3), move.pods[0].node)
    before = scheduler.to_bytes()
    with pytest.raises(StaleDecisionError, match="does not fit there"):
        scheduler.move(move, 1.0)
    assert scheduler.to_bytes() == before
    put(scheduler, Job("rock", "b", 2, preemptible=False), "n2")
    with pytest.raises(ValueError, match="has to stay"):
        scheduler.move(Move("rock", (), ()), 1.0)


def test_victims_do_not_move():
    scheduler = make_scheduler(("cells",))
    scheduler.submit(make_job("spare", "b", "gang", guaranteed=False), 0.0)
    scheduler.submit(make_job("more", "b", "gang", guaranteed=False), 0.0)
    scheduler.decide(0.0)
    plan = scheduler.plan_moves(FreeNodes(["n0"]))
    assert plan.lower_bound == inf
    stops = decided(scheduler, make_job("train", "a", "four"), now=1.0)[0].job
    node = next(n for n in NODES if stops in scheduler.plan_moves(FreeNodes([n])).reason)
    assert "has to stay" in scheduler.plan_moves(FreeNodes([node])).reason


def test_moves_are_in_the_log_and_replayed(path):
    scheduler, _ = filled(("topology", "devices"), {"a": (2, "n0"), "b": (1, "n1")}, log=path)
    plan = scheduler.plan_moves(FreeNodes(["n0"]))
    scheduler.move(plan.steps[0], 7.0)
    scheduler.finish("b", 8.0)
    scheduler.close()
    record = next(line for line in read_log(path) if line.event == "move")
    assert record.now == 7.0
    assert [action_of_plain(move) for move in record.fields["moves"]] == list(plan.moves)
    again = replay(path)
    again.check()
    assert again.plan_moves(FreeNodes(["n0"])).moves == ()
    goal = FreeNodes([plan.moves[0].pods[0].node])
    assert again.plan_moves(goal) == scheduler.plan_moves(goal) and again.now == 8.0


def test_a_log_with_a_move_that_cannot_be_is_named(path):
    scheduler, _ = filled(("topology",), {"a": (2, "n0")}, log=path)
    (move,) = scheduler.plan_moves(FreeNodes(["n0"])).moves
    scheduler._note("move", moves=[plain_record(Move("a", move.before, move.pods))])
    scheduler.close()
    with pytest.raises(CorruptStateError, match="has started or moved since"):
        replay(path)


def test_a_moved_job_counts_as_started_and_gets_its_remote_io_again():
    scheduler = make_scheduler(("topology", "storage"))
    put(scheduler, make_job("reader", "a", "two", run_time=50.0, data=DATA["images"]), "n0")
    assert scheduler.decide(1.0) == []
    plan = scheduler.plan_moves(FreeNodes(["n0"]), cost="gpu_seconds")
    assert plan.cost == 2.0
    scheduler.move(plan.steps[0], 30.0)
    assert [type(action) for action in scheduler.decide(30.0)] == [SetRemoteIO]
    assert scheduler.forecast("reader") == 30.0


def test_a_move_is_plain_data_and_back():
    pods = (PlacedPod("w", 0, "n1", (("gpu", (2, 3)),)),)
    move = Move("train", pods, (PlacedPod("w", 0, "n0", (("gpu", (0, 1)),)),))
    plain = plain_record(move)
    assert plain["action"] == "move" and plain["before"] == [["w", 0, "n0", {"gpu": [0, 1]}]]
    assert action_of_plain(plain) == move


def test_wrong_goals_are_named():
    scheduler = make_scheduler(("topology",))
    for make, error, message in (
        (lambda: FreeNodes([]), ValueError, "must not be empty"),
        (lambda: FreeNodes("n0"), TypeError, "nodes"),
        (lambda: FreeDomain(""), ValueError, "layer"),
        (lambda: Fit(3), TypeError, "job"),
        (lambda: scheduler.plan_moves("n0"), TypeError, "not str"),
        (lambda: scheduler.plan_moves(FreeNodes(["x"])), KeyError, "no part knows 'x'"),
        (lambda: scheduler.plan_moves(Fit("x")), KeyError, "no job 'x'"),
        (lambda: scheduler.plan_moves(FreeDomain("spine")), KeyError, "spine"),
        (lambda: scheduler.plan_moves(FreeNodes(["n0"]), cost="time"), ValueError, "cost"),
        (lambda: scheduler.plan_moves(FreeNodes(["n0"]), most_tries=0), ValueError, "most_tries"),
    ):
        with pytest.raises(error, match=message):
            make()


def test_nothing_moves_on_an_empty_cluster():
    scheduler = make_scheduler(("devices",))
    for goal in (FreeNodes(NODES), FreeDomain("node", "n2"), FreeDomain("node")):
        plan = scheduler.plan_moves(goal)
        assert (plan.steps, plan.cost, plan.optimal) == ((), 0, True)
