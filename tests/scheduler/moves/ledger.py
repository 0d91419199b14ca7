"""Checks and brute force for moves, sharing no code with the search.

The ledger tracks the pods of all jobs from the actions, carries out moves pod by pod, and checks
that no GPU has two owners and no node is overfull. The brute force tries all sets of jobs, and all
nodes for each pod.
"""

from itertools import chain, combinations

from scheduler.lives import GPUS, NODES, make_job, make_scheduler

from hivecore.scheduler import Start

ALL = ("one", "two", "four", "gang", "pairs")


def crowded(rng, parts, *, jobs=12, sizes=ALL, gone=0.45, **settings):
    """A scheduler with fragmented nodes, and the pods of each running job."""
    scheduler = make_scheduler(parts, preemption=False, **settings)
    running = {}

    def decide(now):
        for action in scheduler.decide(now):
            if isinstance(action, Start):
                running.setdefault(action.job, []).extend(action.pods)

    for i in range(jobs):
        guaranteed = rng.random() < 0.5
        job = make_job(
            f"j{i}",
            rng.choice("ab"),
            rng.choice(sizes),
            guaranteed=guaranteed,
            preemptible=not guaranteed or rng.random() < 0.9,
        )
        scheduler.submit(job, float(i))
        decide(float(i))
    for name in list(scheduler):
        if scheduler.state(name) == "pending" or rng.random() < gone:
            scheduler.cancel(name, float(jobs))
            running.pop(name, None)
    return scheduler, running


def size(job, pod):
    return next(role.gpus for role in job.roles if role.name == pod.role)


def used(scheduler, running):
    """GPUs in use by node, after checking that no GPU has two owners."""
    counted, owners = dict.fromkeys(NODES, 0), {}
    for name, pods in running.items():
        for pod in pods:
            counted[pod.node] += size(scheduler.job(name), pod)
            for gpu in pod.gpus:
                assert owners.setdefault((pod.node, gpu), (name, pod)) == (name, pod)
    assert all(count <= GPUS for count in counted.values()), counted
    return counted


def carried_out(scheduler, running, plan):
    """The pods of all jobs after each step of a plan; all running jobs still run."""
    running = {name: list(pods) for name, pods in running.items()}
    moved = [move.job for move in plan.moves]
    assert len(set(moved)) == len(moved)
    for step in plan.steps:
        for move in step:
            assert list(move.before) == running.pop(move.job)
            job = scheduler.job(move.job)
            assert job.preemptible
            before, pods = ({(p.role, p.index) for p in of} for of in (move.before, move.pods))
            assert before == pods and len(pods) == len(move.pods)
            assert not job.where.nodes or {p.node for p in move.pods} <= set(job.where.nodes)
        for move in step:
            running[move.job] = list(move.pods)
            used(scheduler, running)
    return running


def least_cost(scheduler, running, costs, forced=(), closed=(), sizes=()):
    """The least cost of emptying nodes and placing pods, by GPUs of nodes; None: impossible."""
    free = {node: GPUS - count for node, count in used(scheduler, running).items()}
    movable = [name for name in running if scheduler.job(name).preemptible]
    if not set(forced) <= set(movable):
        return None
    others = [name for name in movable if name not in forced]
    sets = chain.from_iterable(combinations(others, n) for n in range(len(others) + 1))
    for more in sorted(sets, key=lambda names: sum(costs[name] for name in names)):
        left = dict(free)
        pods = list(sizes)
        for name in (*forced, *more):
            for pod in running[name]:
                left[pod.node] += size(scheduler.job(name), pod)
                pods.append(size(scheduler.job(name), pod))
        rooms = sorted(left[node] for node in NODES if node not in closed)
        if packs(sorted(pods, reverse=True), rooms):
            return sum(costs[name] for name in (*forced, *more))
    return None


def packs(pods, rooms):
    """Whether pods fit, placed with the largest first."""
    if not pods:
        return True
    for i, room in enumerate(rooms):
        if room >= pods[0] and room not in rooms[:i]:
            rest = sorted([*rooms[:i], room - pods[0], *rooms[i + 1 :]])
            if packs(pods[1:], rest):
                return True
    return False
