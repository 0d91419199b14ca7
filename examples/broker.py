"""Two copies of a broker: the one that can write the log leads; if it dies, the other goes on."""

import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE, Popen

from hivecore.scheduler import Job, Scheduler, Start, is_new_log, recover
from hivecore.topology import NetworkTopology

MACHINES = [{"host": f"m{i}", "rack": f"rack{i // 2}", "gpus": 8} for i in range(4)]


def lead(log: Path) -> Scheduler:
    """The scheduler, once no other broker has it: that of the last leader, or a new one."""
    network = NetworkTopology(["rack"], {m["host"]: {"rack": m["rack"]} for m in MACHINES})
    for machine in MACHINES:
        network.set_free(machine["host"], {"gpu": machine["gpus"]})
    while True:
        try:
            return Scheduler(topology=network, log=log) if is_new_log(log) else recover(log)
        except (BlockingIOError, FileExistsError):
            time.sleep(0.01)


def serve(name: str, folder: Path) -> None:
    """Lead, and run the jobs that come as empty files: "NAME.GPUS"."""
    scheduler, done = lead(folder / "log"), folder / "done"
    done.touch()
    print(f"{name} leads, and knows {list(scheduler)}", flush=True)
    while True:
        requests, now = list(folder.glob("*.[0-9]")), max(time.time(), scheduler.now)
        for job, gpus in (request.name.split(".") for request in requests):
            if job not in scheduler:
                scheduler.submit(Job(job, "me", int(gpus)), now)
        if requests:
            scheduler.decide(now)
        for request in requests:
            request.unlink()
        new = scheduler.actions(since=int(done.read_text() or 0))
        for action in new:  # after a crash perhaps again: carrying it out twice has to do no harm
            nodes = [pod.node for pod in action.pods] if isinstance(action, Start) else []
            (folder / action.job).write_text(f"{type(action).__name__} {' '.join(nodes)}")
        done.write_text(str(scheduler.last_action))
        print(*(f"{name} handled {action.job}\n" for action in new), sep="", end="", flush=True)
        time.sleep(0.05)


if len(sys.argv) > 1:
    serve(sys.argv[1], Path(sys.argv[2]))
run = [sys.executable, __file__]
with tempfile.TemporaryDirectory() as folder, Popen([*run, "first", folder], stdout=PIPE) as leader:
    print(leader.stdout.readline().decode(), end="")
    with Popen([*run, "second", folder], stdout=PIPE) as other:
        for process, job, lines in ((leader, "train", 1), (other, "tune", 2)):
            (Path(folder) / f"{job}.8").touch()
            print(*(process.stdout.readline().decode() for _ in range(lines)), sep="", end="")
            process.kill()
