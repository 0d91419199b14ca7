"""`hivecore what-if`: whether a job would start in a cluster now, and which jobs it would evict."""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hivecore._arguments import utf8_text
from hivecore._stateful import counted
from hivecore.interop.cluster_dump import ClusterDump
from hivecore.interop.koordinator.quotas.amounts import read_resources, write_amount
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Job, Preempt, Reject, Role, Scheduler, Start, Where

__all__ = ["add_what_if_command"]

#: where a text of the scheduler has amounts of a resource
_AMOUNTS = (
    r"asks for (\d+) of '{}'(?:, and (?:\w+ of '[^']*' is|there are) (\d+))?",
    r"\btakes {} (\d+), and no node has more than (\d+)",
    r"\b{}: (\d+) used \+ (\d+) asked > (\d+)",
    r"\bwere {}: (\d+)",
)


def add_what_if_command(commands: Any) -> None:
    """Add the command to `commands`, the subparsers of a parser of `argparse`."""
    parser = commands.add_parser(
        "what-if",
        help="would a job start in this cluster now, and which jobs would have to leave",
        description="Reads what `kubectl get -A -o yaml` prints of nodes, queues, workloads and "
        "pods, or a file of hivecore init, which has no jobs. Says whether a job would start now, "
        "on which nodes, and which jobs would have to leave, or why it would wait. The exit status "
        "is 1 if it would wait.",
    )
    parser.set_defaults(run=_what_if, needs=("yaml",), extra="kubernetes")
    parser.add_argument("file", type=Path, metavar="FILE", help="YAML or JSON")
    what = "of the job: a queue or quota, or a LocalQueue as NAMESPACE/NAME"
    parser.add_argument("--queue", required=True, metavar="NAME", help=what)
    parser.add_argument("--pods", type=int, default=1, metavar="N", help="(default 1)")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="of a pod (default 1)")
    more = "what else a pod takes, such as cpu=8 or memory=64Gi; as often as needed"
    parser.add_argument("--resource", action="append", default=[], metavar="NAME=N", help=more)
    urgent = "from -1000 to 1000, or the name of a class (default 0)"
    parser.add_argument("--priority", default="0", metavar="P", help=urgent)
    parser.add_argument("--must", default="", metavar="LAYER", help="one domain has to hold it")
    flavor = "of Kueue: count only quotas and nodes of this ResourceFlavor"
    parser.add_argument("--flavor", default="", metavar="NAME", help=flavor)


def _what_if(arguments: argparse.Namespace) -> int:
    text, name = utf8_text(arguments.file), str(arguments.file)
    classes: Mapping[str, int] = {}
    considered = ""
    if ClusterDump.recognises(text):
        dump = ClusterDump.of_yaml(text, name, flavor=arguments.flavor)
        scheduler = SchedulerSpec.of_yaml(dump.text, name).scheduler(immediate=True)
        for remark in (*dump.remarks, *dump.fill(scheduler)):
            print(remark, file=sys.stderr)
        queues, classes = dict(dump.queues), dump.priorities
    else:
        if arguments.flavor:
            raise ValueError(f"--flavor: {name} is no dump of a cluster, and has no flavors")
        spec = SchedulerSpec.of_yaml(text, name)
        scheduler = spec.scheduler(immediate=True)
        quotas = () if spec.quotas is None else spec.quotas.quotas
        queues = {name: name for name in (*spec.tenants, *quotas) or (arguments.queue,)}
        considered = _considered(spec)
    job = _job(arguments, queues, classes)
    try:
        scheduler.submit(job, now=1.0)
    except ValueError as error:
        raise ValueError(_as_written(str(error), job)) from None
    status = _answer(scheduler, job)
    if considered and not status:
        print(considered)
    return status


def _considered(spec: SchedulerSpec) -> str:
    """What a start in a cluster does not depend on, as the cluster's file does not have it."""
    text = "The file has no other jobs"
    if spec.quotas is None and spec.cells is None:
        text += ", and no quotas, so --queue limits nothing"
    if all(part is None for part in (spec.devices, spec.cells, spec.topology)):
        text += ". It has no devices, cells or network, so no room on its nodes was looked for"
    return f"{text}."


def _job(
    arguments: argparse.Namespace, queues: Mapping[str, str], classes: Mapping[str, int]
) -> Job:
    if arguments.queue not in queues:
        known = ", ".join(sorted(queues))
        raise ValueError(f"--queue: there is no queue {arguments.queue!r}, there are {known}")
    try:
        priority = int(classes.get(arguments.priority, arguments.priority))
    except ValueError:
        known = ", ".join(sorted(classes)) or "none"
        what = f"{arguments.priority!r} is no number and no class; classes: {known}"
        raise ValueError(f"--priority: {what}") from None
    amounts: dict[str, str] = {}
    for text in arguments.resource:
        resource, sign, amount = text.partition("=")
        if not (resource and sign):
            raise ValueError(f"--resource: must be NAME=N, not {text!r}")
        if resource in amounts:
            raise ValueError(f"--resource: names {resource!r} twice")
        amounts[resource] = amount
    resources = read_resources(Field(amounts, "--resource"))
    role = Role("pod", arguments.pods, gpus=arguments.gpus, resources=resources)
    where = Where(must=arguments.must)
    return Job("it", queues[arguments.queue], [role], priority=priority, where=where)


def _answer(scheduler: Scheduler, job: Job) -> int:
    """Print what would happen to the job; return the exit status."""
    jobs = {name: scheduler.job(name) for name in scheduler}
    actions = scheduler.decide(now=1.0)
    for action in actions:
        if isinstance(action, Reject) and action.job == job.name:
            print(f"It could never start: {_as_written(action.reason, job)}")
            return 1
    starts = [each for each in actions if isinstance(each, Start) and each.job == job.name]
    if not starts:
        why = scheduler.explain(job.name)
        text = why.text.replace(f"{job.name} is pending", "It would wait", 1)
        print(_as_written(text, job))
        return 1
    nodes = ", ".join(dict.fromkeys(pod.node for pod in starts[-1].pods))
    victims = [a.job for a in actions if isinstance(a, Preempt) and a.for_job == job.name]
    where, condition = f" on {nodes}" if nodes else "", ", if these left:" if victims else ""
    print(f"It would start now{where}{condition}")
    for name in victims:
        left = jobs[name]
        print(
            f"  {name}: queue {left.quota}, priority {left.priority}, {counted(left.gpus, 'GPU')}"
        )
    return 0


def _as_written(text: str, job: Job) -> str:
    """A text with the amounts of the job's resources as users write them, such as CPUs in place of
    thousandths, and with the option for a domain in place of the field.
    """
    text = re.sub(rf"^job={job.name!r}: ", "", text)
    text = re.sub(r"^where\.must(='.*?')?: ", "--must: ", text)
    text = text.replace(
        "no part enforces it; topology would", "there is no network with such a layer"
    )
    for resource in {name for role in job.roles for name, _ in role.resources}:

        def written(match: re.Match[str], name: str = resource) -> str:
            whole, begin = match.group(), match.start()
            for number in reversed(range(1, len(match.groups()) + 1)):
                start, end = match.span(number)
                if start >= 0:
                    amount = write_amount(name, int(match.group(number)))
                    whole = f"{whole[: start - begin]}{amount}{whole[end - begin :]}"
            return whole

        for pattern in _AMOUNTS:
            text = re.sub(pattern.format(re.escape(resource)), written, text)
    return text
