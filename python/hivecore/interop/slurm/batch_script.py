"""The job of a batch script for sbatch, from its ``#SBATCH`` lines.

A pod is the part of the job on a node where the script says how many nodes it needs, else a task.
"""

import re
import shlex
from collections.abc import Iterator, Mapping

from hivecore._arguments import as_name, as_text
from hivecore._stateful import counted
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._gres import count_of, gpus_of, split_gres
from hivecore.scheduler import Job, Role

__all__ = ["job_of_batch_script"]

_SHORT = {
    "A": "account",
    "C": "constraint",
    "F": "nodefile",
    "G": "gpus",
    "J": "job-name",
    "L": "licenses",
    "M": "clusters",
    "N": "nodes",
    "a": "array",
    "m": "distribution",
    "n": "ntasks",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
#: Options that say where a job may run, and have no counterpart here.
_REFUSED = (
    "array",
    "cluster-constraint",
    "clusters",
    "constraint",
    "contiguous",
    "distribution",
    "exclude",
    "exclusive",
    "gpus",
    "gpus-per-socket",
    "licenses",
    "nodefile",
    "nodelist",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-socket",
    "prefer",
    "reservation",
    "segment",
    "spread-job",
    "switches",
    "use-min-nodes",
)
_NICE = "100"  # what --nice means without a number
_IS_GPU = re.compile(r"(gres[:/])?gpu(?![\w-])")
_OPTION = re.compile(r"--([a-z][a-z-]*)(?:=(.*))?|-([A-Za-z])(.*)", re.DOTALL)


def job_of_batch_script(text: str, name: str = "", tenant: str = "") -> Job:
    """The job that sbatch would submit for a batch script.

    :param text: of the script.
    :param name: of the job; "": that in the script.
    :param tenant: "": its account in the script.
    :raises ValueError: an option that says where the job may run has no counterpart here, or cannot
        be read; or the script says no name or account.
    :raises TypeError: an argument is of a wrong type.

    With ``--nodes`` each pod is the part of the job on a node: ``--gpus-per-node``, ``--gres`` or
    ``--gpus-per-task`` and its ``--ntasks-per-node`` say its GPUs, and a node has one such pod.
    Otherwise each of the ``--ntasks`` tasks is a pod, and a node has ``--ntasks-per-node`` of them
    at most. Types of GPUs, partitions, CPUs, memory and options that are not about places are not
    read.

    >>> from hivecore.interop.slurm import job_of_batch_script
    >>> script = '''#!/bin/sh
    ... #SBATCH --job-name=bert --account=vision --time=2:00:00
    ... #SBATCH -N 2 --ntasks-per-node=4 --gpus-per-task=1
    ... srun train
    ... '''
    >>> job = job_of_batch_script(script)
    >>> [(role.pods, role.gpus, role.per_node) for role in job.roles], job.run_time
    ([(2, 4, 1)], 7200.0)
    """
    options = dict(_options(as_text(text, "text")))
    for option in _REFUSED:
        if option in options:
            raise ValueError(f"--{option}={show(options[option])}: has no counterpart here")
    nice = {"nice": options.get("nice", "0") or _NICE}
    name, tenant = name or options.get("job-name", ""), tenant or options.get("account", "")
    for value, argument, option in (name, "name", "job-name"), (tenant, "tenant", "account"):
        if not value:
            raise ValueError(f"{argument} must not be empty: the script has no --{option}")
    return Job(
        as_name(name, "name"),
        as_name(tenant, "tenant"),
        [_role(options)],
        priority=max(-1000, min(1000, -_number(nice, "nice", "0"))),
        run_time=_seconds(options),
    )


def _options(text: str) -> Iterator[tuple[str, str]]:
    """The options in the lines before the first command, with their values."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            return
        if not re.match(r"#SBATCH\s", line):
            continue
        words = shlex.split(re.split(r"\s#", line.removeprefix("#SBATCH"))[0])
        while words:
            match = _OPTION.fullmatch(word := words.pop(0))
            if match is None:
                raise ValueError(f"text: {show(word)} is no option of sbatch")
            value = match[2] or match[4] or ""
            if "=" not in word and not value and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield match[1] or _SHORT.get(match[3], match[3]), value


def _role(options: Mapping[str, str]) -> Role:
    on_node = _gpus(options, "gpus-per-node") or _gpus(options, "gres")
    each, most = _gpus(options, "gpus-per-task"), _number(options, "ntasks-per-node", "0")
    tasks = _number(options, "ntasks", "1")
    if on_node and each:
        raise ValueError("text: asks for GPUs per node and for GPUs per task")
    if "nodes" not in options and not on_node and ("ntasks" in options or not most):
        return Role("task", tasks, gpus=each, per_node=(most or None) if tasks > 1 else None)
    if "nodes" not in options and tasks > 1:
        raise ValueError("text: says GPUs per node, but not on how many --nodes")
    nodes = _number(options, "nodes", "1")
    if each and nodes > 1 and not most:
        raise ValueError("text: says GPUs per task, but not how many --ntasks-per-node")
    if each and "ntasks" in options and most and tasks != nodes * most:
        raise ValueError(
            f"--ntasks={tasks}: is not {counted(most, 'task')} on each of {counted(nodes, 'node')}"
        )
    on_node = on_node or each * (most or tasks)
    return Role("node", nodes, gpus=on_node, per_node=1 if nodes > 1 else None)


def _gpus(options: Mapping[str, str], option: str) -> int:
    text = options.get(option, "")
    parts = [part for part in split_gres(text) if option != "gres" or _IS_GPU.match(part)]
    given = [gpus_of(part if option == "gres" else f"gpu:{part}") for part in parts]
    if not all(gpus and (option == "gres" or gpus[0].number is not None) for gpus in given):
        raise ValueError(f"--{option}={show(text)}: is no number of GPUs")
    return count_of(gpus for part in given for gpus in part)


def _number(options: Mapping[str, str], option: str, otherwise: str) -> int:
    text = options.get(option, otherwise)
    if not re.fullmatch(r"-?\d{1,10}", text):
        raise ValueError(f"--{option}={show(text)}: is no number")
    return int(text)


def _seconds(options: Mapping[str, str]) -> float | None:
    """Of minutes, minutes:seconds, hours:minutes:seconds, or days-hours:minutes:seconds."""
    text = options.get("time", "0").lower()
    if text in ("infinite", "unlimited"):
        return None
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not re.fullmatch(r"(\d{1,6}-)?\d{1,9}(:\d{1,9}){0,2}", text):
        raise ValueError(f"--time={show(options['time'])}: is no time")
    units = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    times = (int(part) * unit for part, unit in zip(parts, units, strict=False))
    return float(int(days or 0) * 86400 + sum(times)) or None
