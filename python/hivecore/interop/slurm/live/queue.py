"""Slurm's jobs and nodes from what squeue, sinfo and scontrol print."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from hivecore._arguments import as_choice, as_text
from hivecore._record import Record
from hivecore.interop.kubernetes.messages import show
from hivecore.interop.slurm._gres import count_of, gpus_of
from hivecore.interop.slurm.hostlists import expand_hostlist
from hivecore.interop.slurm.live.node_states import is_usable
from hivecore.scheduler import Job, Role

__all__ = [
    "EXCLUDED",
    "EXCLUDED_OF_ALL",
    "NODES",
    "QUEUE",
    "TYPED_QUEUE",
    "SlurmJob",
    "SlurmNode",
    "lines_of",
    "read_details",
    "read_excluded",
    "read_nodes",
    "read_queue",
]

#: column of squeue -> key in the JSON of squeue
_COLUMNS = {
    "JobArrayID": "",
    "State": "job_state",
    "Reason": "state_reason",
    "PriorityLong": "priority",
    "NumNodes": "node_count",
    "NodeList": "nodes",
    "tres-per-node": "tres_per_node",
    "tres-per-job": "tres_per_job",
    "tres-per-task": "tres_per_task",
    "tres-per-socket": "tres_per_socket",
    "Nice": "nice",
    "RestartCnt": "restart_cnt",
    "TimeLimit": "time_limit",
    "StartTime": "start_time",
    "Account": "account",
    "UserName": "user_name",
    "Partition": "partition",
    "QOS": "qos",
    "Dependency": "dependency",
    "ReqNodes": "required_nodes",
    "Reservation": "resv_name",
    "MaxNodes": "max_nodes",
    "OverSubscribe": "shared",
    "Contiguous": "contiguous",
    "ReqSwitch": "minimum_switches",
    "Comment": "comment",
    "Feature": "features",
    "admin_comment": "admin_comment",
}
#: Signs behind a column; features have "|" between them, and no ";".
_ENDS = {"Feature": ";|"}
_TENANTS = {"account": "Account", "user": "UserName", "partition": "Partition", "qos": "QOS"}
#: The commands whose output `read_queue` and `read_nodes` take, with SLURM_TIME_FORMAT=%s. Comments
#: are asked for only with typed GPUs, as there the submit plugin writes them: users could forge
#: lines by theirs.
TYPED_QUEUE = (
    "squeue",
    "-h",
    "-r",
    "-O",
    ",".join(f"{name}:{_ENDS.get(name, '|')}" for name in _COLUMNS),
)
QUEUE = (*TYPED_QUEUE[:-1], TYPED_QUEUE[-1].replace("Comment:|,", ""))
#: What `read_excluded` takes, of jobs that wait and of all; `QUEUE` has no such column.
EXCLUDED = ("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i|%x")
EXCLUDED_OF_ALL = ("squeue", "-h", "-r", "-o", "%i|%x")
NODES = ("sinfo", "-h", "-a", "-N", "-o", "%N|%T|%G|%c|%R|%b|%a")

_NOTHING = ("", "N/A", "(null)", "None")
#: With which jobs a job shares its nodes, in lower case: with all, or with none.
_SHARED = ("ok", "yes", "shared", "oversubscribe", "", "n/a")
_EXCLUSIVE = ("no", "none")
_LISTS = re.compile(r"hivecore:([a-z,]*)\|?")
_WISH = re.compile(r"hivecore:gpu=(\d+)")
_JOB = re.compile(r"JobId=(\d+)")
#: an element of an array, or a part of a heterogeneous job
_PART = re.compile(r"(?:ArrayJobId|HetJobId)=(\d+) (ArrayTaskId|HetJobOffset)=(\d+)")
_NODES_OF = re.compile(r"\sNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


class SlurmJob(Record, frozen=True):
    """A job of Slurm.

    :param id: its number, with that of an array's element: "12" or "12_3".
    :param job: the same job as hivecore sees it; ``None``: it has no GPUs, or cannot be placed.
    :param state: "PENDING", "RUNNING", and so on.
    :param reason: why it waits.
    :param nodes: those that it has.
    :param gpus: the indices of its GPUs on each of them, where they are known.
    :param held: whether it waits to be released.
    :param count: how many nodes it asks for.
    :param each: how many GPUs it asks for on each node.
    :param restarts: how often it was requeued.
    :param start: when it started, or is to start at the earliest, in seconds; 0: unknown.
    :param tenant: of the job in hivecore.
    :param depends: whether it waits for other jobs.
    :param problem: why hivecore cannot place it; "": it can, or it has no GPUs.
    :param left: whether Slurm alone decides where it runs; ``job`` is then what it takes.
    :param types: the types of GPUs that it asks for.
    :param partitions: it may run in any of them.
    :param features: the constraint on the features of its nodes.
    :param required: the nodes that Slurm has to give it.
    :param reservation: the reservation that it belongs to.
    :param lists: "nodelist", "exclude": which lists of nodes its user gave, as the submit plugin
        notes it; ``None``: the plugin did not see it.
    :param note: what a broker writes into the administrator's comment when it overwrites a list of
        nodes, so that the list is not taken for the user's; "": there is a comment already.
    :param whole: whether no job of others may use its nodes, so that it takes all GPUs of them.
    :param beyond: what it asks for that only Slurm can keep to; "": nothing.
    """

    id: str
    job: Job | None
    state: str
    reason: str = ""
    nodes: tuple[str, ...] = ()
    gpus: tuple[tuple[int, ...], ...] = ()
    held: bool = False
    count: int = 1
    each: int = 0
    restarts: int = 0
    start: float = 0.0
    tenant: str = "unknown"
    depends: bool = False
    problem: str = ""
    left: bool = False
    types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    features: str = ""
    required: tuple[str, ...] = ()
    reservation: str = ""
    lists: tuple[str, ...] | None = None
    note: str = ""
    whole: bool = False
    beyond: str = ""

    @property
    def waits(self) -> bool:
        """Whether it has no nodes, and not as it ends."""
        states = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
        return self.state in states or not (self.nodes or self.state == "COMPLETING")

    def is_later(self, now: float) -> bool:
        """Whether its user wants it later; Slurm itself lets a requeued job wait two minutes."""
        says = self.held or self.reason == "BeginTime"
        return self.start > now and not self.restarts and says

    @property
    def number(self) -> tuple[int, ...]:
        """Its number, and that of an array's element: jobs were submitted in this order."""
        return tuple(map(int, re.findall(r"\d+", self.id)))


class SlurmNode(Record, frozen=True):
    """A node of Slurm.

    :param state: as sinfo says it, in lower case.
    :param gpus: how many it has.
    :param types: the types of its GPUs, in the order of the file gres.conf.
    :param cpus: how many it has.
    :param healthy: whether jobs may start there.
    :param partitions: those that it belongs to in which jobs may start.
    :param features: those that are active.
    """

    name: str
    state: str
    gpus: int = 0
    types: tuple[str, ...] = ()
    cpus: int = 0
    healthy: bool = True
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


def read_queue(
    text: str,
    *,
    tenant: str = "account",
    spare: Collection[str] = (),
    node_gpus: int = 0,
    typed: bool = False,
    has_cells: bool = False,
) -> tuple[SlurmJob, ...]:
    """The jobs that squeue prints, by `QUEUE` or as JSON.

    :param tenant: what is the tenant in hivecore: "account", "user", "partition" or "qos"; where it
        is missing the user is.
    :param spare: partitions and QOS of which jobs run without a guarantee.
    :param node_gpus: the GPUs of the largest node, for jobs on several nodes.
    :param typed: each GPU of a node has a type of its own, so commands name the GPUs of jobs.
    :param has_cells: the scheduler has cells, which know no priority below 0.
    :raises ValueError: the text is something else.
    :raises TypeError: it is no string.

    The higher ``nice`` is, the lower is the priority. hivecore takes jobs that ask for GPUs per
    node; those that ask in another way have a `SlurmJob.problem`.
    """
    as_choice(tenant, "tenant", tuple(_TENANTS))
    rows = _json_rows(text) if _is_json(text) else [_row(line, typed) for line in lines_of(text)]

    def read(row: Mapping[str, str]) -> SlurmJob:
        return _job(row, _TENANTS[tenant], spare, node_gpus, typed, has_cells)

    return tuple(map(read, rows))


def _is_json(text: str) -> bool:
    return as_text(text, "text").lstrip().startswith("{")


def lines_of(text: str) -> list[str]:
    """The lines that are not empty; what users write may have other signs that divide lines."""
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def _row(line: str, typed: bool) -> dict[str, str]:
    columns = [name for name in _COLUMNS if typed or name != "Comment"]
    *values, rest = line.split("|", len(columns) - 2)
    features, _, comment = rest.partition(";|")
    if len(values) < len(columns) - 2 or ";|" not in rest:
        raise ValueError(f"text: {show(line)} is not of {len(columns)} columns")
    row = dict(zip(columns, (*values, features, comment), strict=True))
    return row if typed else {**row, "Comment": ""}


def _json_rows(text: str) -> list[dict[str, str]]:
    rows = []
    for data in _array(text, "jobs"):
        row = {column: _plain(data.get(key)) for column, key in _COLUMNS.items()}
        task = _plain(data.get("array_task_id"))
        array = _plain(data.get("array_job_id"))
        in_array = array not in ("", "0") and task
        row["JobArrayID"] = f"{array}_{task}" if in_array else _plain(data.get("job_id"))
        if (whole := _plain(data.get("het_job_id"))) not in ("", "0"):
            row["JobArrayID"] = f"{whole}+{_plain(data.get('het_job_offset')) or 0}"
        if "COMPLETING" in (data.get("job_state") or ()):  # it has ended and still has its nodes
            row["State"] = "COMPLETING"
        if row["TimeLimit"].isdecimal():
            row["TimeLimit"] += ":00"  # minutes
        rows.append(row)
    return [row for row in rows if row["State"] not in _ENDED]


_ENDED = (
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
    *("DEADLINE", "OUT_OF_MEMORY"),
)


def _array(text: str, key: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)[key]
        return [{**row} for row in rows]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"text: is no JSON with an array {key!r}: {error}") from None


def _plain(value: Any) -> str:
    """A number or text; newer versions have lists of states, and numbers that may be unset."""
    if isinstance(value, list):
        return _plain(value[0]) if value else ""
    if isinstance(value, dict):
        return _plain(value.get("number")) if value.get("set") else ""
    return "" if value is None else str(value)


def _job(
    row: Mapping[str, str],
    tenant: str,
    spare: Collection[str],
    node_gpus: int,
    typed: bool,
    has_cells: bool,
) -> SlurmJob:
    name = row["JobArrayID"].strip()
    if not re.fullmatch(r"\d+([_+][\d\[\],%-]+)?", name):
        raise ValueError(f"text: {show(name)} is no number of a job")
    wish = _WISH.match(row["Comment"]) if typed else None
    each = int(wish[1]) if wish else _count(row["tres-per-node"])
    nodes = row["NumNodes"]
    wishes, noted = row["tres-per-node"], _LISTS.fullmatch(row["admin_comment"])
    other = [row[f"tres-per-{part}"] for part in ("job", "task", "socket")]
    problem = ""
    if any(map(_count, other)):
        problem = "it asks for GPUs, but not per node (--gres or --gpus-per-node)"
    elif "+" in name:
        problem = "it is a part of a heterogeneous job" if each else ""
    elif each and not nodes.isdecimal():
        problem = f"it asks for {nodes} nodes, not for a number"
    count = int(nodes) if nodes.isdecimal() else 1
    if each and count > 1 and not node_gpus:
        problem = problem or "it has several nodes, and how many GPUs a node has is unknown"
    job = None
    named = next((row[key] for key in (tenant, "UserName") if row[key] not in _NOTHING), "unknown")
    if each and not problem:
        guaranteed = row["Partition"] not in spare and row["QOS"] not in spare
        try:
            job = Job(
                name,
                named,
                [_role(count, each, node_gpus, typed)],
                priority=max(0 if has_cells else -1000, min(1000, -_number(row["Nice"]))),
                guaranteed=guaranteed,
                run_time=_seconds(row["TimeLimit"]),
            )
        except ValueError as error:  # such as for more GPUs than there can be
            problem = str(error)
    return SlurmJob(
        name,
        job,
        row["State"],
        row["Reason"],
        () if row["NodeList"] in _NOTHING else expand_hostlist(row["NodeList"]),
        held=row["PriorityLong"] == "0",
        count=count,
        each=each,
        restarts=_number(row["RestartCnt"]),
        start=float(_number(row["StartTime"])),
        tenant=named,
        depends=row["Dependency"] not in _NOTHING,
        problem=problem,
        types=tuple(dict.fromkeys(gpus.type for gpus in gpus_of(wishes) if gpus.type)),
        partitions=tuple(part for part in row["Partition"].split(",") if part not in _NOTHING),
        features="" if row["Feature"] in _NOTHING else row["Feature"],
        required=() if row["ReqNodes"] in _NOTHING else expand_hostlist(row["ReqNodes"]),
        reservation="" if row["Reservation"] in _NOTHING else row["Reservation"],
        lists=tuple(filter(None, noted[1].split(","))) if noted else None,
        note="hivecore:" if row["admin_comment"].rstrip("|") in _NOTHING else "",
        whole=row["OverSubscribe"].lower() not in _SHARED,
        beyond=_beyond(row, count),
    )


def _beyond(row: Mapping[str, str], count: int) -> str:
    """What a job asks for that only Slurm can keep to."""
    sharing = row["OverSubscribe"].lower()
    if sharing not in (*_SHARED, *_EXCLUSIVE):
        return f"it shares its nodes with some jobs only (--exclusive={sharing})"
    if row["Contiguous"] in ("1", "True"):
        return "it asks for contiguous nodes (--contiguous)"
    if switches := _number(row["ReqSwitch"]):
        return f"it asks for nodes under {switches} switches (--switches)"
    most = _number(row["MaxNodes"])
    return f"it asks for {count} to {most} nodes" if most > count else ""


def _role(nodes: int, gpus: int, node_gpus: int, typed: bool) -> Role:
    """A pod for each node (`-N`); where GPUs have types, pods take whole nodes."""
    if nodes > 1 and typed:
        gpus = node_gpus
    return Role("node", nodes, gpus=gpus, per_node=1 if nodes > 1 else None)


def _count(tres: str) -> int:
    return count_of(gpus_of(tres))


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else 0


def _seconds(text: str) -> float | None:
    parts = _TIME.fullmatch(text)
    if parts is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds) or None


def read_nodes(text: str) -> tuple[SlurmNode, ...]:
    """The nodes that sinfo prints, by `NODES` or as JSON.

    :raises ValueError: the text is something else.
    :raises TypeError: it is no string.
    """
    nodes: dict[str, SlurmNode] = {}
    for name, state, gres, cpus, partitions, features in _node_rows(text):
        gpus, state = gpus_of(gres), state.lower()
        known = nodes[name].partitions if name in nodes else ()
        nodes[name] = SlurmNode(
            name,
            state,
            count_of(gpus),
            tuple(each.type for each in gpus if each.type),
            _number(cpus),
            is_usable(state),
            tuple(dict.fromkeys((*known, *_listed(partitions)))),
            _listed(features),
        )
    return tuple(nodes.values())


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word not in _NOTHING)


def _node_rows(text: str) -> list[list[str]]:
    """Name, state, GRES, CPUs, partitions and features."""
    if _is_json(text):
        return [
            [
                _plain(node.get("name")),
                " ".join(_words(node.get("state")) + _words(node.get("state_flags"))),
                _plain(node.get("gres")),
                _plain(node.get("cpus")),
                ",".join(_words(node.get("partitions"))),
                ",".join(_words(node.get("active_features"))),
            ]
            for node in _array(text, "nodes")
        ]
    rows = [line.split("|") for line in lines_of(text)]
    for row in rows:
        if len(row) not in (6, 7):
            raise ValueError(f"text: {show('|'.join(row))} has {len(row)} of 7 columns")
        if row[6:] in (["down"], ["inact"]):
            row[4] = ""  # Slurm starts no job in this partition
    return [row[:6] for row in rows]


def _words(value: Any) -> list[str]:
    return [str(word) for word in (value if isinstance(value, list) else [value]) if word]


def read_details(text: str) -> dict[str, dict[str, tuple[int, ...]]]:
    """By job and node the indices of its GPUs, of what ``scontrol -d -o show job`` prints."""
    details: dict[str, dict[str, tuple[int, ...]]] = {}
    for line in lines_of(as_text(text, "text")):
        job = _JOB.search(line)
        if job is None:
            continue
        part = _PART.search(line)
        name = f"{part[1]}{'_' if part[2] == 'ArrayTaskId' else '+'}{part[3]}" if part else job[1]
        nodes = details.setdefault(name, {})
        for names, gres in _NODES_OF.findall(line):
            indices = [index for gpus in gpus_of(gres) for index in gpus.indices]
            nodes.update(dict.fromkeys(expand_hostlist(names), tuple(sorted(indices))))
    return details


def read_excluded(text: str) -> dict[str, tuple[str, ...]]:
    """By job the nodes that Slurm excludes for it, of what squeue prints by `EXCLUDED`."""
    rows = [line.partition("|") for line in lines_of(as_text(text, "text"))]
    return {name: expand_hostlist(nodes) for name, _, nodes in rows if nodes not in _NOTHING}
