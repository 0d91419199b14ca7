"""Random events for a scheduler of any parts."""

from scheduler.lives import DATA, NODES, ROLES, TENANTS, change_parts, enforced, make_job

from hivecore.scheduler import FreeNodes, plain_record

__all__ = ["live"]


def live(scheduler, rng, steps, first=0):
    """Cause random events; return the actions as plain data."""
    said = []
    now = scheduler.now
    for step in range(first, first + steps):
        now += rng.choice([0.0, 0.5, 1 / 3])
        names = list(scheduler)
        running = [name for name in names if scheduler.state(name) == "running"]
        draw = rng.random()
        if draw < 0.45:
            guaranteed = rng.random() < 0.7
            job = make_job(
                f"j{step}",
                rng.choice(TENANTS),
                rng.choice(sorted(ROLES)),
                priority=rng.randint(0, 2),
                guaranteed=guaranteed,
                run_time=rng.choice([None, 60.25]),
                data=DATA[rng.choice(sorted(DATA))],
            )
            scheduler.submit(enforced(scheduler, job), now)
        elif draw < 0.6 and running:
            scheduler.finish(rng.choice(running), now)
        elif draw < 0.65 and names:
            scheduler.cancel(rng.choice(names), now)
        elif draw < 0.7 and running:
            scheduler.fail(rng.choice(running), now)
        elif draw < 0.75:
            change_parts(scheduler, rng, now)
        elif draw < 0.78:
            scheduler.advance(now)
        elif draw < 0.81 and scheduler.devices is not None:
            nodes = scheduler.devices.nodes or NODES
            for moves in scheduler.plan_moves(FreeNodes([rng.choice(nodes)]), most_tries=4).steps:
                scheduler.move(moves, now)
        else:
            most = rng.choice([None, None, 1])
            said += [plain_record(action) for action in scheduler.decide(now, most)]
    return said
