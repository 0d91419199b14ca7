"""A real Slurm that decides itself, beside one of which hivecore's broker starts the jobs.

throughput  jobs of `true` on one GPU each, as many per second as are submitted and run: plain
            sbatch; held and then released by one scontrol, which is what holding costs; held, with
            a broker beside the submissions. All with Slurm's settings, and with the one that
            `hivecore slurm check` recommends. Contenders take turns; a ratio is of two runs of the
            same turn, the median of all. What a job costs of the CPU, in slurmctld, in the broker
            and in the commands that it runs, depends less on what else the machine does
placement   jobs of whole nodes on a tree of switches (leaves of four nodes): leaf switches beyond
            the fewest that a job could have, makespan and mean wait. The contenders run at the same
            time, each on a cluster of its own: the same jobs, submitted at the same times

slurmctld and emulated nodes run on this machine (Debian's slurmctld, slurmd, slurm-client, munge
and slurm-wlm-basic-plugins, as root); without them nothing is measured.
"""

import os
import resource
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product, repeat
from multiprocessing import Barrier, Lock
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, process_time, sleep, time
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
INTERVAL = 0.2  # seconds between two looks of the broker
SETTINGS = {"Slurm's": "", "recommended": "SchedulerParameters=batch_sched_delay=1\n"}

# What decides -> options of the broker; Slurm has sched/backfill.
DECIDES: dict[str, dict[str, Any] | None] = {
    "Slurm": None,
    "hivecore": {},
    "hivecore, --switch-wait 0": {"switch_wait": 0.0},
}


STARTS = Lock()  # two clusters that start together might choose the same ports
BEGIN = Barrier(len(DECIDES))


class Commands:
    """Runs Slurm's commands, and counts the seconds that they take, and those of the CPU."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu = 0.0

    def __call__(self, command: tuple[str, ...], text: str = "") -> str:
        begin, cpu = perf_counter(), cpu_of_children()
        try:
            return run_command(command, text)
        finally:
            spent = self.seconds.get(command[0], 0.0) + perf_counter() - begin
            self.seconds[command[0]] = spent
            self.cpu += cpu_of_children() - cpu


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def broker_of(run: Callable[..., str], **options: Any) -> Broker:
    scheduler = SchedulerSpec.of_yaml(cluster_file(run)).scheduler()
    return Broker(scheduler, run, **options)


def submit(*options: str, command: str = "true") -> str:
    given = ("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", command)
    return run_command(given).strip()


def jobs_left() -> bool:
    return bool(run_command(("squeue", "-h")).strip())


def until(is_over: Callable[[], bool], step: Callable[[], Any], interval: float) -> None:
    begin = perf_counter()
    while not is_over():
        if perf_counter() - begin > 900:
            raise TimeoutError("jobs in Slurm's queue after 15 minutes")
        step()
        sleep(interval)


# --- throughput


def users(jobs: int, *options: str) -> subprocess.Popen[bytes]:
    """Submits jobs one after the other, in a process of its own."""
    command = "sbatch -o /dev/null --gres=gpu:1 --wrap true"
    loop = f"for i in $(seq {jobs}); do {command} {' '.join(options)} >/dev/null; done"
    return subprocess.Popen(("sh", "-c", loop))


def plain(jobs: int) -> dict[str, float]:
    users(jobs).wait()
    until(lambda: not jobs_left(), lambda: None, 0.1)
    return {}


def released(jobs: int) -> dict[str, float]:
    users(jobs, "-H").wait()
    held = run_command(("squeue", "-h", "-o", "%i")).split()
    run_command(("scontrol",), f"release {','.join(held)}\n")
    until(lambda: not jobs_left(), lambda: None, 0.1)
    return {}


def brokered(jobs: int) -> dict[str, float]:
    run = Commands()
    broker = broker_of(run)
    scheduler, decide = broker.scheduler, broker.scheduler.decide
    spent = {"decide": 0.0, "broker": 0.0}

    def timed(now: float) -> Any:
        begin = perf_counter()
        actions = decide(now)
        spent["decide"] += perf_counter() - begin
        return actions

    def step() -> None:
        begin = process_time()
        broker.step(time())
        spent["broker"] += process_time() - begin

    scheduler.decide = timed  # type: ignore[method-assign]
    submitting = users(jobs, "-H")
    until(lambda: submitting.poll() is not None, step, INTERVAL)
    until(lambda: not jobs_left(), step, INTERVAL)
    return {**run.seconds, "decide": spent["decide"], "cpu": spent["broker"], "commands": run.cpu}


def throughput(jobs: int, rounds: int, slurmctld: int) -> dict[str, Any]:
    ways = {"plain sbatch": plain, "held, one scontrol": released, "broker": brokered}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    shares: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}  # milliseconds a job
    for number in range(rounds):
        for name in ways if number % 2 else reversed(ways):
            begin, busy = perf_counter(), cpu_of(slurmctld)
            parts = ways[name](jobs)
            took = perf_counter() - begin
            rates[name].append(jobs / took)
            used = {f"slurmctld, {name}": cpu_of(slurmctld) - busy}
            if parts:
                used |= {"broker": parts.pop("cpu"), "its commands": parts.pop("commands")}
            for part, seconds in used.items():
                cpu.setdefault(part, []).append(1000 * seconds / jobs)
            for part, seconds in parts.items():
                shares.setdefault(part, []).append(seconds / took)
        print({name: round(of[-1], 1) for name, of in rates.items()}, flush=True)
        print({name: round(of[-1], 2) for name, of in cpu.items()}, flush=True)
    return {
        "jobs_per_second": {name: median(of) for name, of in rates.items()},
        "ratios": {
            name: median(a / b for a, b in zip(of, rates["plain sbatch"], strict=True))
            for name, of in rates.items()
        },
        "runs": rates,
        "cpu_ms_of_a_job": {part: median(of) for part, of in cpu.items()},
        "share_of_the_brokers_time": {part: median(of) for part, of in shares.items()},
    }


# --- placement


def mix(seed: int, count: int, pace: float) -> list[tuple[float, int, float]]:
    """Of each job: seconds after the one before, nodes, and seconds that it runs.

    :param pace: of all seconds; 1.0 is that of the results.
    """
    rng = Random(seed)
    sizes = (1, 1, 2, 2, 3, 4, 6)
    return [
        (pace * rng.uniform(0.8, 3.2), rng.choice(sizes), round(pace * rng.uniform(4.0, 32.0), 1))
        for _ in range(count)
    ]


def placed(
    jobs: list[tuple[float, int, float]], options: dict[str, Any] | None
) -> dict[str, float]:
    """Submit all, and measure by what each job wrote as it started and as it ended."""
    submitted: dict[str, tuple[float, int]] = {}
    with TemporaryDirectory() as folder:

        def submit_all() -> None:
            held = [] if options is None else ["-H"]
            given = ("-t", "1", "-o", f"{folder}/%j", "--gres=gpu:8", *held)
            begin = time()
            for gap, nodes, seconds in jobs:
                begin += gap
                sleep(max(0.0, begin - time()))
                script = f"echo $SLURM_JOB_NODELIST; date +%s.%N; sleep {seconds}; date +%s.%N"
                name = submit(*given, "-N", str(nodes), command=script)
                submitted[name] = time(), nodes

        thread = Thread(target=submit_all)
        broker = None if options is None else broker_of(run_command, **options)
        thread.start()
        step = (lambda: broker.step(time())) if broker else lambda: None
        until(lambda: not (thread.is_alive() or jobs_left()), step, INTERVAL)
        extra, waits, ends = 0, [], []
        for name, (asked_at, nodes) in submitted.items():
            where, began, ended = (Path(folder) / name).read_text().split()
            leaves = {(int(node[1:]) - 1) // LEAF for node in expand_hostlist(where)}
            extra += len(leaves) - -(-nodes // LEAF)
            waits.append(float(began) - asked_at)
            ends.append(float(ended))
    first = min(asked_at for asked_at, _ in submitted.values())
    return {"extra_leaves": extra, "makespan_s": max(ends) - first, "mean_wait_s": mean(waits)}


def contend(seed: int, jobs: int, pace: float, name: str) -> dict[str, Any]:
    """One contender, in a process of its own."""
    with TemporaryDirectory() as folder:
        with STARTS:
            slurm = EmulatedSlurm(Path(folder), typed=False, scheduling="backfill")
        os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
        try:
            BEGIN.wait(120)
            figures = placed(mix(seed, jobs, pace), DECIDES[name])
        finally:
            slurm.close()
    return {"seed": seed, "jobs": jobs, "decides": name, **figures}


def placement(jobs: int, seeds: Iterable[int], pace: float) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds:
        with ProcessPoolExecutor(len(DECIDES)) as pool:  # a process for each
            its = list(pool.map(contend, repeat(seed), repeat(jobs), repeat(pace), DECIDES))
        rows += its
        print(*its, sep="\n", flush=True)
    return rows


def main() -> int:
    arguments = command_line(__doc__)
    if MISSING or os.geteuid() != 0:
        print(f"skipped, as root is needed, and: {', '.join(MISSING) or 'nothing else'}")
        return 0
    small = arguments.smoke
    save(
        arguments, "slurm_placement", placement(*((8, [0], 0.1) if small else (60, range(4), 1.0)))
    )
    rows = []
    for (name, more), (jobs, rounds) in product(
        SETTINGS.items(), [(20, 1)] if small else [(300, 8), (1500, 2)]
    ):
        with TemporaryDirectory() as folder:
            slurm = EmulatedSlurm(Path(folder), typed=False, scheduling="backfill", more=more)
            os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
            try:
                figures = throughput(jobs, rounds, slurm.processes["slurmctld"].pid)
            finally:
                slurm.close()
        rows.append({"settings": name, "jobs": jobs, "rounds": rounds, **figures})
    save(arguments, "slurm_throughput", rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
