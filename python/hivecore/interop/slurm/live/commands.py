"""The commands of scontrol that carry out an action, and how to run those of Slurm."""

import os
import subprocess
from collections.abc import Collection, Sequence

from hivecore._arguments import as_choice
from hivecore._stateful import counted
from hivecore.interop.slurm.hostlists import compress_hostlist
from hivecore.interop.slurm.live.queue import SlurmJob
from hivecore.scheduler import Action, Preempt, Promote, Start, Stop

__all__ = ["HOW", "commands", "run_command"]

HOW = ("require", "exclude")


def commands(
    action: Action,
    job: SlurmJob,
    how: str = "require",
    typed: bool = False,
    *,
    nodes: Collection[str] = (),
) -> list[str]:
    """The lines for scontrol that carry out an action of a scheduler.

    :param job: the action's job.
    :param how: "require" names the nodes of the job; "exclude" names all others, so that a node
        that is deleted from Slurm's configuration does not kill the jobs that wait for it.
    :param typed: name the GPUs, by the types "i0", "i1" and so on; they are the same on all nodes.
    :param nodes: all nodes of Slurm, to exclude.
    :raises ValueError: Slurm cannot carry it out: the pods are not on as many nodes as it asks for.

    >>> from hivecore.interop.slurm.live import SlurmJob, commands
    >>> from hivecore.scheduler import PlacedPod, Start
    >>> job = SlurmJob("7", None, "PENDING", count=2, each=4)
    >>> start = Start("7", [PlacedPod("node", 0, "n1"), PlacedPod("node", 1, "n2")])
    >>> commands(start, job)
    ['update jobid=7 reqnodelist=n[1-2]', 'release 7']
    """
    as_choice(how, "how", HOW)
    if isinstance(action, Start):
        return [_placement(action, job, how, typed, nodes), f"release {job.id}"]
    if isinstance(action, Preempt | Stop):
        return [f"hold {job.id}", f"requeuehold incomplete {job.id}"]  # it may not run yet
    if isinstance(action, Promote):
        return []  # where it has other nodes now, a broker finds it there
    raise ValueError(f"action: Slurm has no command for {type(action).__name__}")


def _placement(start: Start, job: SlurmJob, how: str, typed: bool, nodes: Collection[str]) -> str:
    chosen = list(dict.fromkeys(pod.node for pod in start.pods))
    if len(chosen) != len(start.pods) or len(chosen) != job.count:
        what = f"{counted(len(start.pods), 'pod')} on {counted(len(chosen), 'node')}"
        raise ValueError(f"action: {what}, but job {job.id} asks for {counted(job.count, 'node')}")
    line = f"update jobid={job.id}"
    if how == "require":
        line += f" reqnodelist={compress_hostlist(chosen)}"
    elif others := [node for node in nodes if node not in set(chosen)]:
        line += f" excnodelist={compress_hostlist(others)}"
    if typed:
        line += f" gres={','.join(f'gpu:i{gpu}:1' for gpu in _gpus(start, job))}"
    line += f" admincomment={job.note}" if job.note else ""
    return line + (" starttime=now" if job.restarts else "")


def _gpus(start: Start, job: SlurmJob) -> tuple[int, ...]:
    sets = {pod.gpus[: job.each] for pod in start.pods}
    if len(sets) != 1 or len(next(iter(sets))) != job.each:
        raise ValueError(f"action: job {job.id} needs the same {job.each} GPUs on all of its nodes")
    return next(iter(sets))


def run_command(command: Sequence[str], text: str = "") -> str:
    """What a command of Slurm prints when it reads this text.

    :raises OSError: it fails, such as while the controller restarts, or takes over a minute.
    """
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no {command[0]!r}, a command of Slurm") from None
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no answer in {error.timeout:.0f} s") from None
    if done.returncode and not text:  # with commands as its input the next round shows what failed
        raise OSError(f"{command[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout
