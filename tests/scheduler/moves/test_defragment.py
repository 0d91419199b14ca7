"""Running jobs move so that idle GPUs become usable, if that is worth the cost."""

import random
from itertools import product

import pytest
from scheduler.lives import (
    COMPOSITIONS,
    GPUS,
    NODES,
    decided,
    flat_network,
    make_scheduler,
    said,
)
from scheduler.moves.ledger import crowded
from scheduler.moves.test_moves import PLACING, filled, put

from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Fragments,
    Job,
    Move,
    PlacedPod,
    Role,
    Scheduler,
    Start,
    Where,
    event_of_plain,
    plain_record,
    read_log,
    recover,
    replay,
)
from hivecore.verify import verify_actions

HOUR = 3600.0


def moved(scheduler, goal=None, now=1.0, *, seconds=HOUR, **terms):
    """The jobs that move, and their new nodes."""
    scheduler.defragment(now, goal or Fragments(), seconds=seconds, **terms)
    actions = scheduler.decide(now)
    scheduler.check()
    return [(move.job, *sorted({p.node for p in move.pods})) for move in actions]


@pytest.mark.parametrize("parts", PLACING)
def test_a_node_becomes_free_and_the_waiting_job_starts(parts):
    scheduler, _ = filled(parts, {"a": (2, "n0"), "b": (1, "n1"), "c": (4, "n2"), "d": (4, "n3")})
    decided(scheduler, Job("whole", "a", 4, guaranteed=False), now=1.0)
    assert moved(scheduler, restart_cost=1.0) == [("b", "n0"), ("whole", "n1")]
    assert moved(scheduler) == []


def test_a_job_that_starts_for_its_victims_in_the_same_round_moves_in_the_next_call():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=4))
    stays = {"where": Where(nodes=["n0"]), "preemptible": False}
    jobs = [Job("keep", "a", 2, **stays), Job("ends", "a", 2, **stays)]
    decided(scheduler, *jobs, Job("low", "a", 3, where=Where(nodes=["n1"])))
    decided(scheduler, Job("high", "a", 2, priority=1), now=1.0)
    assert scheduler.state("high") == "reserved"
    scheduler.stopped("low", 2.0)
    scheduler.cancel("low", 2.0)
    scheduler.finish("ends", 2.0)
    scheduler.defragment(2.0, Fragments(), seconds=HOUR)
    assert said(scheduler.decide(2.0)) == [("Start", "high")]
    assert moved(scheduler, now=3.0) == [("high", "n0")]


def test_a_job_whose_failed_pods_start_in_the_same_round_moves_in_the_next_call():
    scheduler = Scheduler(topology=flat_network("n0", "n1", gpu=4))
    first = Where(nodes=["n0"])
    pair = Job("pair", "a", [Role("w", 2)], priority=1, on_failure="pod")
    low = Job("low", "a", 4, where=Where(nodes=["n1"]))
    decided(scheduler, low, Job("keep", "a", 2, where=first, preemptible=False), pair)
    scheduler.fail("pair", 1.0, "w/1")
    fill = Job("fill", "a", 1, priority=2, where=first, preemptible=False)
    assert said(decided(scheduler, fill, now=1.0)) == [("Start", "fill"), ("Preempt", "low")]
    scheduler.stopped("low", 2.0)
    scheduler.cancel("low", 2.0)
    scheduler.finish("fill", 2.0)
    scheduler.defragment(2.0, Fragments(), seconds=HOUR)
    assert said(scheduler.decide(2.0)) == [("Start", "pair")]
    assert moved(scheduler, now=3.0) == [("pair", "n0")]


@pytest.mark.parametrize("parts", PLACING)
def test_no_job_moves_for_less_than_its_cost_or_beyond_the_budget(parts):
    scheduler, _ = filled(parts, {"a": (2, "n0"), "b": (1, "n1"), "c": (1, "n1")})
    # another whole node is worth 4 GPUs for this time; each move costs a GPU for a minute
    assert moved(scheduler, seconds=30.0) == []
    assert moved(scheduler, most_moves=1) == [("a", "n1")]
    scheduler, _ = filled(parts, {"a": (2, "n0"), "b": (1, "n1"), "c": (1, "n1")})
    assert moved(scheduler, most_gpu_seconds=119.0) == []
    assert moved(scheduler, saves=False, now=HOUR, seconds=100.0) == []
    assert len(moved(scheduler, now=HOUR, seconds=100.0)) in (1, 2)


@pytest.mark.parametrize("parts", PLACING)
def test_a_job_that_is_not_preemptible_stays(parts):
    scheduler = make_scheduler(parts)
    for name, node in (("a", "n0"), ("b", "n1")):
        put(scheduler, Job(name, "a", 2, guaranteed=True, preemptible=False), node)
    assert moved(scheduler) == []


def test_sizes_decide_which_gpus_are_usable():
    """Two more GPUs make a pair on each of two nodes, though no node becomes free."""
    where = {"a": (3, "n0"), "b": (3, "n1"), "c": (3, "n2"), "d": (1, "n2"), "e": (4, "n3")}
    scheduler, _ = filled(("topology",), where)
    assert moved(scheduler) == []
    assert moved(scheduler, Fragments([4, 4])) == []
    scheduler, _ = filled(("topology",), {"a": (3, "n0"), "b": (2, "n1"), "c": (1, "n1")})
    scheduler.set_node("n2", False, 0.0)
    scheduler.set_node("n3", False, 0.0)
    assert moved(scheduler, Fragments([2])) == [("c", "n0")]


def test_a_gang_moves_whole():
    scheduler = make_scheduler(("topology",))
    gang = Job("gang", "a", [Role("w", 2, gpus=1)])
    scheduler.adopt(gang, [PlacedPod("w", 0, "n0"), PlacedPod("w", 1, "n1")], 0.0)
    put(scheduler, Job("a", "a", 1), "n0")
    assert moved(scheduler, most_moves=1) == [("gang", "n0")]


def test_two_shares_are_on_one_card_afterwards():
    devices = DeviceCluster({"n0": NodeDevices.uniform(gpus=2, gpu_memory=100)})
    scheduler = Scheduler(devices=devices)
    half = DeviceRequest("any", gpus=1, memory=50)
    for name in "abc":
        scheduler.submit(Job(name, "a", [Role("w", devices=half)]), 0.0)
    assert {pod.gpus for start in scheduler.decide(0.0) for pod in start.pods} == {(0,), (1,)}
    scheduler.finish("a", 0.0)
    scheduler.submit(Job("whole", "a", 1), 0.0)
    assert not [action for action in scheduler.decide(0.0) if isinstance(action, Start)]
    scheduler.defragment(1.0, Fragments([1]), seconds=HOUR)
    move, start = scheduler.decide(1.0)
    assert isinstance(move, Move) and start.job == "whole"
    scheduler.check()


def test_defragmentation_is_logged_replayed_and_recovered(tmp_path):
    quotas = QuotaTree([Quota("a", max={"gpu": 16}, min={"gpu": 16})], total={"gpu": 16})
    nodes = dict.fromkeys(NODES, NodeDevices.uniform(gpus=GPUS))
    scheduler = Scheduler(quotas=quotas, devices=DeviceCluster(nodes), log=tmp_path / "log")
    put(scheduler, Job("a", "a", 2), "n0")
    put(scheduler, Job("b", "a", 1), "n1")
    scheduler.defragment(1.0, Fragments([4]), seconds=HOUR, most_gpu_seconds=600.0)
    waiting = Scheduler.from_bytes(scheduler.to_bytes())
    before = scheduler.copy()
    actions = scheduler.decide(1.0)
    assert waiting.decide(1.0) == actions == before.copy().decide(1.0)
    assert [type(action) for action in actions] == [Move]
    verify_actions(actions, {}, before)
    scheduler.close()
    record = next(line for line in read_log(tmp_path / "log") if line.event == "defragment")
    assert record.fields == {
        "goal": {"sizes": [4]},
        "seconds": HOUR,
        "most_gpu_seconds": 600.0,
    }
    event = event_of_plain({"event": "defragment", "now": 1.0, **record.fields})
    event.tell(again := before.copy(), now=0.0)
    assert again.decide(1.0) == actions
    assert replay(tmp_path / "log").status("b") == scheduler.status("b")
    recovered = recover(tmp_path / "log")
    assert recovered.to_bytes() == scheduler.to_bytes()
    recovered.close()


@pytest.mark.parametrize(
    ("terms", "error", "says"),
    [
        ({"goal": 3}, TypeError, "goal must be Fragments, not int"),
        ({"seconds": 0}, ValueError, r"seconds=0\.0: must be positive"),
        ({"seconds": float("nan")}, ValueError, "seconds"),
        ({"restart_cost": -1}, ValueError, r"restart_cost=-1\.0"),
        ({"saves": 1}, TypeError, "saves must be a bool"),
        ({"most_moves": 0}, ValueError, "most_moves=0"),
        ({"most_gpu_seconds": -1}, ValueError, "most_gpu_seconds"),
        ({"now": -1.0}, ValueError, r"now=-1\.0"),
    ],
)
def test_terms_are_checked_and_nothing_changes(terms, error, says):
    scheduler, _ = filled(("topology",), {"a": (2, "n0")})
    before = scheduler.to_bytes()
    with pytest.raises(error, match=says):
        scheduler.defragment(**{"now": 1.0, "goal": Fragments(), "seconds": HOUR, **terms})
    assert scheduler.to_bytes() == before
    with pytest.raises(ValueError, match=r"sizes=0|sizes"):
        Fragments([0])
    with pytest.raises(ValueError, match="no part chooses nodes"):
        Scheduler().defragment(0.0, Fragments(), seconds=1.0)
    scheduler.reorder(["a"], 1.0)
    with pytest.raises(ValueError, match="an order says which jobs run"):
        scheduler.defragment(1.0, Fragments(), seconds=1.0)


# --- compared with all possible moves


def of_use(free, sizes):
    if not sizes:
        return float(sum(n for n in free.values() if n == GPUS))
    return sum(n for n in free.values() for size in sizes if n >= size) / len(sizes)


def most_worth(pods, sizes, seconds, most_moves, cost=60.0):
    """The best gain beyond the cost of all moves of jobs: pods by job, with node and GPUs."""
    flat = [(job, node, gpus) for job, its in pods.items() for node, gpus in its]
    full = dict.fromkeys(NODES, GPUS)
    before = dict(full)
    for _, node, gpus in flat:
        before[node] -= gpus
    best = 0.0
    for nodes in product(NODES, repeat=len(flat)):
        free = dict(full)
        for (_, _, gpus), node in zip(flat, nodes, strict=True):
            free[node] -= gpus
        if min(free.values()) < 0:
            continue
        movers = {job for (job, old, _), new in zip(flat, nodes, strict=True) if old != new}
        if len(movers) <= most_moves:
            lost = sum(gpus for job in movers for _, gpus in pods[job]) * cost
            gain = of_use(free, sizes) - of_use(before, sizes)
            best = max(best, gain * seconds - lost)
    return best


def worth(scheduler, pods, sizes, seconds, most_moves):
    """The gain of the moves that the scheduler makes."""
    before = scheduler.copy()
    scheduler.defragment(50.0, Fragments(sizes), seconds=seconds, most_moves=most_moves)
    actions = scheduler.decide(50.0)
    if scheduler.cells is None:
        verify_actions(actions, {}, before)
    scheduler.check()
    after = pods | {
        move.job: [(p.node, len(p.gpus) or None) for p in move.pods] for move in actions
    }
    free = [dict.fromkeys(NODES, GPUS), dict.fromkeys(NODES, GPUS)]
    lost = 0.0
    for name, its in pods.items():
        for (old, gpus), (new, _) in zip(its, after[name], strict=True):
            free[0][old] -= gpus
            free[1][new] -= gpus
            lost += 60.0 * gpus * (name in {move.job for move in actions})
    assert min(free[1].values()) >= 0 and len(actions) <= most_moves
    return (of_use(free[1], sizes) - of_use(free[0], sizes)) * seconds - lost


def ratios(parts, seeds):
    """The gain of the scheduler and the best gain, on small clusters with something to gain."""
    for seed in seeds:
        rng = random.Random(seed)
        scheduler, running = crowded(rng, COMPOSITIONS[parts], sizes=("one", "two", "pairs"))
        for name in list(scheduler):
            if not scheduler.job(name).preemptible:
                scheduler.cancel(name, 40.0)
                del running[name]
        while sum(map(len, running.values())) > 6:
            name = rng.choice(sorted(running))
            scheduler.cancel(name, 40.0)
            del running[name]
        gpus_of = {name: scheduler.job(name).roles[0].gpus for name in running}
        pods = {n: [(p.node, gpus_of[n]) for p in its] for n, its in running.items()}
        sizes, seconds = rng.choice([(), (4,), (3,), (1, 2, 4)]), rng.choice([100.0, HOUR])
        most = rng.choice([1, 2, 8])
        best = most_worth(pods, sizes, seconds, most)
        yield worth(scheduler, pods, sizes, seconds, most), best


@pytest.mark.parametrize("parts", ["topology", "devices", "topology and devices"])
def test_moves_never_lose_and_are_mostly_the_best(parts):
    gains = [*ratios(parts, range(40))]
    assert all(-1e-6 <= mine <= best + 1e-6 for mine, best in gains)
    assert any(best > 0 for _, best in gains)
    exact = sum(mine > best - 1e-6 for mine, best in gains)
    assert exact >= 0.8 * len(gains)


def test_plain_goals():
    assert plain_record(Fragments([1, 8])) == {"sizes": [1, 8]} and plain_record(Fragments()) == {}
