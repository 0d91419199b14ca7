"""Decision logs of all compositions, stored in tests/golden/decisions.json.gz.

Run this file as a script to create them again, after an intended change of decisions:

    PYTHONPATH=python:tests python tests/scheduler/log/decision_logs.py
"""

import gzip
import io
import json
import random
from contextlib import suppress
from pathlib import Path

from scheduler.lives import (
    COMPOSITIONS,
    DATA,
    NODES,
    ROLES,
    STAGES,
    TENANTS,
    change_parts,
    enforced,
    make_job,
    make_scheduler,
)

from hivecore.scheduler import FreeNodes

FILE = Path(__file__).parents[2] / "golden" / "decisions.json.gz"
STEPS = 80
#: every kind of event and action happens within these
SEED = 26


def read_logs():
    """For each composition, the lines of its log as bytes."""
    texts = json.loads(gzip.decompress(FILE.read_bytes()))
    return {name: text.encode().splitlines(keepends=True) for name, text in texts.items()}


def new_log(name):
    """The log of a scheduler of this composition during random events."""
    rng = random.Random(f"{SEED} {name}")
    log = io.BytesIO()
    parts = COMPOSITIONS[name]
    scheduler = make_scheduler(parts, immediate=rng.random() < 0.5, log=log)
    now = 0.0
    for step in range(STEPS):
        now += rng.choice([0.0, 0.5, 1 / 3, 60.0])
        happen(scheduler, rng, step, now)
        scheduler.check()
    scheduler.decide(now)
    scheduler.close()
    return log.getvalue().decode()


def happen(scheduler, rng, step, now):
    """Cause one event or round of decisions."""
    names = list(scheduler)
    running = [name for name in names if scheduler.state(name) in ("running", "lent")]
    stopping = [name for name in running if scheduler.status(name).for_job]
    draw = rng.random()
    if draw < 0.36:
        submit(scheduler, rng, step, now)
    elif draw < 0.46 and running:
        scheduler.finish(rng.choice(running), now)
    elif draw < 0.48 and names:
        scheduler.cancel(rng.choice(names), now)
    elif draw < 0.50 and running:
        scheduler.fail(rng.choice(running), now)
    elif draw < 0.58 and stopping:
        with suppress(ValueError):  # it has stopped already
            scheduler.stopped(rng.choice(stopping), now)
    elif draw < 0.60:
        change_parts(scheduler, rng, now)
    elif draw < 0.61:
        scheduler.advance(now)
    elif draw < 0.66:
        with suppress(ValueError):  # no sharing, or an order
            scheduler.regroup(now, 36000.0)
    elif draw < 0.69:
        with suppress(ValueError):  # idle cells are lent
            scheduler.reorder(rng.sample(names, len(names) // 2), now)
            scheduler.decide(now)
            scheduler.reorder([], now)
    elif draw < 0.72 and scheduler.devices is not None:
        nodes = scheduler.devices.nodes or NODES
        for moves in scheduler.plan_moves(FreeNodes([rng.choice(nodes)]), most_tries=4).steps:
            scheduler.move(moves, now)
    else:
        scheduler.decide(now, rng.choice([None, None, None, 1]))


def submit(scheduler, rng, step, now):
    # half of them are equal, so that some can share
    plain = rng.random() < 0.5
    guaranteed = plain or rng.random() < 0.6
    job = make_job(
        f"j{step}",
        rng.choice(TENANTS),
        rng.choice(["two", "four"] if plain else sorted(ROLES)),
        priority=0 if plain else rng.randint(0, 2),
        guaranteed=guaranteed,
        preemptible=plain or not guaranteed or rng.random() < 0.8,
        run_time=rng.choice([None, 60.25]),
        data=DATA[rng.choice(["", "images", "text", "text"]) if plain else rng.choice([*DATA])],
        stages=STAGES[rng.choice(sorted(STAGES))],
        rack=not plain and rng.random() < 0.3,
    )
    scheduler.submit(enforced(scheduler, job), now)


if __name__ == "__main__":
    logs = {name: new_log(name) for name in COMPOSITIONS}
    # without a time stamp, equal logs are equal files
    FILE.write_bytes(gzip.compress(json.dumps(logs).encode(), mtime=0))
