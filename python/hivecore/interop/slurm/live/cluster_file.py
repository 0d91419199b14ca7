"""The file of a scheduler, and the submit plugin, for a live Slurm."""

from collections.abc import Callable, Collection, Iterable

from hivecore.interop.slurm.hostlists import compress_hostlist
from hivecore.interop.slurm.live.queue import NODES, SlurmNode, read_nodes
from hivecore.interop.slurm.topology_conf import read_topology_conf

__all__ = ["cluster_file", "submit_plugin"]


def cluster_file(run: Callable[..., str], *, typed: bool = False) -> str:
    """The YAML of a scheduler with the nodes that have GPUs, and their tree of switches.

    :param run: as of `Broker`.
    :param typed: choose GPUs as well.
    :raises OSError: Slurm does not answer.
    :raises ValueError: no node has GPUs.
    """
    nodes = [node for node in read_nodes(run(NODES)) if node.gpus]
    if not nodes:
        raise ValueError("no node of this Slurm has GPUs, see GresTypes and gres.conf")
    models: dict[int, list[str]] = {}
    for node in nodes:
        models.setdefault(node.gpus, []).append(node.name)
    lines = ["cluster:", "  models:"]
    lines += [f"    gpus{gpus}: {{gpus: {gpus}}}" for gpus in models]
    lines += ["  nodes:"]
    lines += [f'    "{compress_hostlist(names)}": gpus{gpus}' for gpus, names in models.items()]
    lines += ["  network:", "    layers:", *_layers(run, nodes)]
    lines += ["# One queue for all; a start is promised to the first job that waits.", "queues:"]
    lines += ["  order: priority", "scheduler: {backfill: 1}"]
    if typed:
        lines.append("devices: {policy: bin-pack}")
    return "\n".join(lines) + "\n"


def _layers(run: Callable[..., str], nodes: Collection[SlurmNode]) -> Iterable[str]:
    """Each layer with its domains; nodes that no switch has are in domains of their own."""
    names = [node.name for node in nodes]
    text = run(("scontrol", "show", "topology"))
    if "Name=" not in text:
        return ["      cluster:", f'        all: "{compress_hostlist(names)}"']
    network = read_topology_conf(text, warn=lambda odd: None).network
    lines = []
    for at, layer in enumerate(network.layers):
        domains: dict[str, list[str]] = {}
        for name in names:
            path = network.domain(name) if name in network.nodes else ()
            own = path[at] if at < len(path) else f"no-switch-{name}"
            domains.setdefault(own, []).append(name)
        lines.append(f"      {layer}:")
        lines += [f'        {name}: "{compress_hostlist(its)}"' for name, its in domains.items()]
    return lines


_PLUGIN = """\
-- job_submit.lua: jobs with GPUs wait held until hivecore releases them.
-- JobSubmitPlugins=lua in slurm.conf; this file beside it.
local operators = {{ {operators} }}

-- how many GPUs a wish is for; nil: none
local function gpus_of(wish)
    local count = 0
    for part in string.gmatch(wish or "", "[^,]+") do
        part = string.gsub(part, "^gres[:/]", "")
        if part == "gpu" or string.match(part, "^gpu[:=]") then
            count = count + (tonumber(string.match(part, "[:=](%d+)$")) or 1)
        end
    end
    return count > 0 and count or nil
end

local function is_given(nodes)
    return nodes ~= nil and nodes ~= ""
end

function slurm_job_submit(job, partitions, uid)
    local each = gpus_of(job.tres_per_node)
    if each then
        local lists = {{}}
        if is_given(job.req_nodes) then table.insert(lists, "nodelist") end
        if is_given(job.exc_nodes) then table.insert(lists, "exclude") end
        job.admin_comment = "hivecore:" .. table.concat(lists, ",")
        if is_given(job.req_nodes) or is_given(job.reservation) then
            slurm.log_user("hivecore leaves jobs with --nodelist or --reservation to Slurm")
        else{checked}
            job.priority = 0{moved}
        end
    elseif gpus_of(job.tres_per_job) or gpus_of(job.tres_per_task)
        or gpus_of(job.tres_per_socket) then
        slurm.log_user("ask for GPUs per node: --gres=gpu:N or --gpus-per-node=N")
        return slurm.ERROR
    end
{cleaned}    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    local asked = job.priority ~= nil and job.priority ~= slurm.NO_VAL{fixed}
    if string.match(record.admin_comment or "", "^hivecore:") then
        asked = asked or job.req_nodes ~= nil or job.exc_nodes ~= nil
    end
    if asked and not operators[uid] then
        slurm.log_user("hivecore decides when and where a job is released")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

return slurm.SUCCESS
"""

# The GPUs of such a job have types, which hivecore chooses.
_CHECKED = """
            if string.match(job.tres_per_node, "gpu[:=][^,:=]*[^%d,:=]")
                or string.match(job.tres_per_node, "gpu[:=][^,:=]+[:=]") then
                slurm.log_user("ask for GPUs without a type: hivecore chooses them")
                return slurm.ERROR
            end"""
_MOVED = """
            job.comment = "hivecore:gpu=" .. each
            job.tres_per_node = \"\""""
_CLEANED = """\
    if job.comment and job.priority ~= 0 then
        job.comment = string.gsub("- " .. job.comment, "[%c|]", " ")
    end
"""
_FIXED = "\n        or job.comment ~= nil or job.tres_per_node ~= nil"


def submit_plugin(*, typed: bool = False, operators: Collection[int] = (0,)) -> str:
    """The text of ``job_submit.lua``.

    :param typed: hivecore chooses the GPUs too, so a job's wish replaces its comment.
    :param operators: the users that may release jobs, by number.
    """
    allowed = ", ".join(f"[{uid}] = true" for uid in operators)
    parts = {"checked": _CHECKED, "moved": _MOVED, "cleaned": _CLEANED, "fixed": _FIXED}
    chosen = {name: text if typed else "" for name, text in parts.items()}
    return _PLUGIN.format(operators=allowed, **chosen)
