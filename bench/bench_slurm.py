"""A real Slurm that decides itself, beside one of which hivecore's broker starts the jobs.

throughput  jobs of `true` on one GPU each, as many per second as are submitted and run: plain
            sbatch; held and then released by one scontrol, which is what holding costs; held, with
            a broker beside the submissions. Contenders take turns; a ratio is of two runs of the
            same turn, the median of all
placement   jobs of whole nodes on a tree of switches (leaves of four nodes): leaf switches beyond
            the fewest that a job could have, makespan and mean wait, each from the same jobs
            submitted at the same times

slurmctld and emulated nodes run on this machine (Debian's slurmctld, slurmd, slurm-client, munge
and slurm-wlm-basic-plugins, as root); without them nothing is measured.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep, time
from typing import Any

import harness
from harness import command_line, save

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.interop.slurm import expand_hostlist
from hivecore.interop.slurm.live import Broker
from hivecore.interop.slurm.live.cluster_file import cluster_file
from hivecore.interop.slurm.live.commands import run_command

harness.sys.path.append(str(Path(__file__).parents[1] / "tests"))
from interop.emulated_slurm import MISSING, EmulatedSlurm  # noqa: E402

LEAF = 4  # nodes of a leaf switch

# What decides -> how long hivecore's jobs wait for fewer switches; Slurm has sched/backfill.
DECIDES = {"Slurm": None, "hivecore": 0.0, "hivecore, 4 s for fewer switches": 4.0}


class Commands:
    """Runs Slurm's commands, and counts the seconds that each takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, command: tuple[str, ...], text: str = "") -> str:
        begin = perf_counter()
        try:
            return run_command(command, text)
        finally:
            spent = self.seconds.get(command[0], 0.0) + perf_counter() - begin
            self.seconds[command[0]] = spent


def broker_of(run: Callable[..., str], switch_wait: float = 0.0) -> Broker:
    scheduler = SchedulerSpec.of_yaml(cluster_file(run)).scheduler()
    return Broker(scheduler, run, switch_wait=switch_wait)


def submit(*options: str, command: str = "true") -> str:
    given = ("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", command)
    return run_command(given).strip()


def jobs_left() -> bool:
    return bool(run_command(("squeue", "-h")).strip())


def until(is_over: Callable[[], bool], step: Callable[[], Any], interval: float) -> None:
    while not is_over():
        step()
        sleep(interval)


# --- throughput


def plain(jobs: int) -> dict[str, float]:
    for _ in range(jobs):
        submit("--gres=gpu:1")
    until(lambda: not jobs_left(), lambda: None, 0.1)
    return {}


def released(jobs: int) -> dict[str, float]:
    held = [submit("-H", "--gres=gpu:1") for _ in range(jobs)]
    run_command(("scontrol",), f"release {','.join(held)}\n")
    until(lambda: not jobs_left(), lambda: None, 0.1)
    return {}


def brokered(jobs: int) -> dict[str, float]:
    run, deciding = Commands(), 0.0
    broker = broker_of(run)
    scheduler, decide = broker.scheduler, broker.scheduler.decide

    def timed(now: float) -> Any:
        nonlocal deciding
        begin = perf_counter()
        actions = decide(now)
        deciding += perf_counter() - begin
        return actions

    scheduler.decide = timed  # type: ignore[method-assign]
    users = Thread(target=lambda: [submit("-H", "--gres=gpu:1") for _ in range(jobs)])
    users.start()
    until(lambda: not users.is_alive(), lambda: broker.step(time()), 0.2)
    until(lambda: not jobs_left(), lambda: broker.step(time()), 0.1)
    return {"decide": deciding, **run.seconds}


def throughput(jobs: int, rounds: int) -> dict[str, Any]:
    ways = {"plain sbatch": plain, "held, one scontrol": released, "broker": brokered}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    shares: dict[str, list[float]] = {}
    for number in range(rounds):
        for name in ways if number % 2 else reversed(ways):
            begin = perf_counter()
            parts = ways[name](jobs)
            took = perf_counter() - begin
            rates[name].append(jobs / took)
            for part, seconds in parts.items():
                shares.setdefault(part, []).append(seconds / took)
        print({name: round(of[-1], 1) for name, of in rates.items()}, flush=True)
    return {
        "jobs": jobs,
        "rounds": rounds,
        "jobs_per_second": {name: median(of) for name, of in rates.items()},
        "ratios": {
            name: median(a / b for a, b in zip(of, rates["plain sbatch"], strict=True))
            for name, of in rates.items()
        },
        "runs": rates,
        "share_of_the_brokers_time": {part: median(of) for part, of in shares.items()},
    }


# --- placement


def mix(seed: int, count: int) -> list[tuple[float, int, float]]:
    """Of each job: seconds after the one before, nodes, and seconds that it runs."""
    rng = Random(seed)
    sizes = (1, 1, 2, 2, 3, 4, 6)
    return [
        (rng.uniform(0.2, 0.8), rng.choice(sizes), round(rng.uniform(1.0, 8.0), 1))
        for _ in range(count)
    ]


def placed(jobs: list[tuple[float, int, float]], switch_wait: float | None) -> dict[str, float]:
    """Submit all, and measure by what each job wrote as it started and as it ended."""
    submitted: dict[str, tuple[float, int]] = {}
    with TemporaryDirectory() as folder:

        def users() -> None:
            options = [
                "-t",
                "1",
                "-o",
                f"{folder}/%j",
                "--gres=gpu:8",
                *([] if switch_wait is None else ["-H"]),
            ]
            begin = time()
            for gap, nodes, seconds in jobs:
                begin += gap
                sleep(max(0.0, begin - time()))
                script = f"echo $SLURM_JOB_NODELIST; date +%s.%N; sleep {seconds}; date +%s.%N"
                name = submit(*options, "-N", str(nodes), command=script)
                submitted[name] = time(), nodes

        thread = Thread(target=users)
        broker = None if switch_wait is None else broker_of(run_command, switch_wait)
        thread.start()
        step = (lambda: broker.step(time())) if broker else lambda: None
        until(lambda: not (thread.is_alive() or jobs_left()), step, 0.2)
        extra, waits, ends = 0, [], []
        for name, (asked_at, nodes) in submitted.items():
            where, began, ended = (Path(folder) / name).read_text().split()
            leaves = {(int(node[1:]) - 1) // LEAF for node in expand_hostlist(where)}
            extra += len(leaves) - -(-nodes // LEAF)
            waits.append(float(began) - asked_at)
            ends.append(float(ended))
    first = min(asked_at for asked_at, _ in submitted.values())
    return {"extra_leaves": extra, "makespan_s": max(ends) - first, "mean_wait_s": mean(waits)}


def placement(jobs: int, seeds: Iterable[int]) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds:
        for name in DECIDES if seed % 2 else reversed(DECIDES):
            figures = placed(mix(seed, jobs), DECIDES[name])
            rows.append({"seed": seed, "jobs": jobs, "decides": name, **figures})
            print(rows[-1], flush=True)
    return rows


def main() -> int:
    arguments = command_line(__doc__)
    if MISSING or os.geteuid() != 0:
        print(f"skipped, as root is needed, and: {', '.join(MISSING) or 'nothing else'}")
        return 0
    small = arguments.smoke
    with TemporaryDirectory() as folder:
        slurm = EmulatedSlurm(Path(folder), typed=False, scheduling="backfill")
        os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
        try:
            save(arguments, "slurm_placement", placement(*((8, [0]) if small else (60, range(3)))))
            save(arguments, "slurm_throughput", throughput(*((20, 1) if small else (300, 6))))
        finally:
            slurm.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
