"""Moves on random clusters: carried out by a ledger, and compared with all sets of jobs."""

import random
from math import inf

import pytest
from profiles import seeds
from scheduler.lives import NODES, jobs_of, make_job
from scheduler.moves.ledger import carried_out, crowded, least_cost, used

from hivecore.scheduler import Fit, FreeDomain, FreeNodes, Start

#: whether room is all that matters, by parts
COMPOSITIONS = {
    ("topology",): True,
    ("devices",): True,
    ("topology", "devices"): True,
    ("cells",): False,
    ("cells", "devices"): False,
    ("quotas", "topology", "devices"): True,
    ("quotas", "cells", "devices"): False,
}
DOMAINS = {"node": [(node,) for node in NODES], "rack": [NODES[:2], NODES[2:]]}


def costs_of(scheduler, running, cost):
    """The cost of each job; jobs have started at different times."""
    names = {name: scheduler.job(name).gpus for name in running}
    if cost == "jobs":
        return dict.fromkeys(names, 1)
    since = {name: float(name[1:]) for name in names}
    return {name: (scheduler.now - since[name]) * gpus for name, gpus in names.items()}


def on(running, nodes):
    return [name for name, pods in running.items() if {pod.node for pod in pods} & set(nodes)]


def check_plan(scheduler, running, plan, least, is_exact):
    """Check that each step of a plan is feasible, its cost is right, and no bound is too high."""
    least = inf if least is None else least
    assert plan.lower_bound <= least + 1e-9
    if plan.cost == inf:
        assert plan.reason and plan.moves == ()
        assert not is_exact or least == inf
        return None
    assert least - 1e-9 <= plan.cost and (plan.reason, plan.lower_bound <= plan.cost) == ("", True)
    assert not plan.optimal or plan.cost == pytest.approx(least)
    assert not is_exact or plan.optimal
    after = carried_out(scheduler, running, plan)
    branch = scheduler.copy()
    for step in plan.steps:
        branch.move(step, branch.now)
        branch.check()
    counted = used(scheduler, after)
    assert all(counted[node] == 0 for node in plan.nodes)
    return branch


@pytest.mark.parametrize("cost", ["jobs", "gpu_seconds"])
@pytest.mark.parametrize("parts", COMPOSITIONS)
@pytest.mark.parametrize("seed", seeds(25))
def test_nodes_get_free_at_the_least_cost(seed, parts, cost):
    rng = random.Random(seed)
    scheduler, running = crowded(rng, parts)
    state = scheduler.to_bytes()
    costs = costs_of(scheduler, running, cost)
    nodes = rng.sample(NODES, rng.choice([1, 1, 2]))
    plan = scheduler.plan_moves(FreeNodes(nodes), cost=cost)
    least = least_cost(scheduler, running, costs, on(running, nodes), nodes)
    check_plan(scheduler, running, plan, least, COMPOSITIONS[parts])
    moved = sum(costs[move.job] for move in plan.moves)
    assert plan.cost == inf or moved == pytest.approx(plan.cost)
    for layer in ("node", "rack"):
        if layer == "node" or parts != ("devices",):
            plan = scheduler.plan_moves(FreeDomain(layer), cost=cost)
            all_costs = [
                least_cost(scheduler, running, costs, on(running, nodes), nodes)
                for nodes in DOMAINS[layer]
            ]
            least = min((known for known in all_costs if known is not None), default=None)
            check_plan(scheduler, running, plan, least, COMPOSITIONS[parts])
    assert scheduler.to_bytes() == state


@pytest.mark.parametrize("cost", ["jobs", "gpu_seconds"])
@pytest.mark.parametrize("parts", [parts for parts in COMPOSITIONS if "quotas" not in parts])
@pytest.mark.parametrize("seed", seeds(25))
def test_a_job_fits_at_the_least_cost(seed, parts, cost):
    rng = random.Random(seed)
    sizes = rng.choice([("one", "two"), ("two", "pairs"), ("one", "two", "four")])
    scheduler, running = crowded(rng, parts, jobs=20, sizes=sizes, gone=rng.choice([0.3, 0.4, 0.5]))
    costs = costs_of(scheduler, running, cost)
    job = make_job("new", rng.choice("ab"), rng.choice(["four", "gang", "pairs"]), guaranteed=False)
    scheduler.submit(job, scheduler.now)
    state = scheduler.to_bytes()
    plan = scheduler.plan_moves(Fit("new"), cost=cost)
    assert scheduler.to_bytes() == state
    pods = [role.gpus for role in job.roles for _ in range(role.pods)]
    least = least_cost(scheduler, running, costs, sizes=pods)
    branch = check_plan(scheduler, running, plan, least, COMPOSITIONS[parts])
    if branch is not None:
        said = branch.decide(branch.now)
        assert jobs_of(said, Start) == ["new"]


@pytest.mark.parametrize("seed", seeds(15))
def test_the_bound_holds_however_little_is_tried(seed):
    rng = random.Random(seed)
    scheduler, running = crowded(rng, ("topology", "devices"), sizes=("one", "two", "four"))
    costs = costs_of(scheduler, running, "jobs")
    for node in NODES:
        plan = scheduler.plan_moves(FreeNodes([node]), most_tries=1)
        least = least_cost(scheduler, running, costs, on(running, [node]), [node])
        check_plan(scheduler, running, plan, least, False)
