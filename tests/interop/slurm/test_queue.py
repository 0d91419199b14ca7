"""Texts as squeue, sinfo and scontrol of Slurm 22.05 print them."""

import json

import pytest

from hivecore.interop.slurm.live import (
    SlurmJob,
    commands,
    read_details,
    read_nodes,
    read_queue,
)
from hivecore.scheduler import PlacedPod, Preempt, Reject, Role, SetCache, Start

QUEUE = """\
1|RUNNING|None|4294901759|2|n[01-02]|gres:gpu:4|N/A|N/A|N/A|0|0|1:00:00|1795789670|(null)|ann|main|(null)|(null)|||2|OK|0|0|(null);||
2|PENDING|JobHeldUser|0|1||gres:gpu:2|N/A|N/A|N/A|5|0|10:00|N/A|vision|ann|main|(null)|(null)|||1|OK|0|0|(null);||
3|PENDING|JobHeldUser|0|1||N/A|gres:gpu:4|N/A|N/A|0|0|1:00:00|N/A|(null)|ann|main|(null)|(null)|||1|OK|0|0|(null);||
5_1|PENDING|JobHeldUser|0|1||gres:gpu:1|N/A|N/A|N/A|0|0|1-00:00:00|N/A|(null)|ann|main|(null)|(null)|||1|OK|0|0|(null);||
6|PENDING|job requeued in held state|0|2||gres:gpu:i2:1,gres:gpu:i5:1\
|N/A|N/A|N/A|0|1|UNLIMITED|1795789999|(null)|ann|spare|(null)|afterok:2|||1|OK|0|0|(null);||
7|PENDING|JobHeldUser|0|1||N/A|N/A|N/A|N/A|0|0|1:00:00|N/A|(null)|ann|main|(null)|(null)|||1|OK|0|0|(null);||
"""


def test_jobs_are_read_from_columns():
    first, two, three, element, again, none = read_queue(QUEUE, node_gpus=8, spare=["spare"])
    assert (first.nodes, first.held, first.waits, first.start) == (
        ("n01", "n02"),
        False,
        False,
        1795789670,
    )
    assert first.job.roles == (Role("node", 2, gpus=4, per_node=1),)
    assert (two.job.tenant, two.job.priority, two.job.run_time) == ("vision", -5, 600)
    assert three.job is None and "not per node" in three.problem
    assert (element.id, element.job.tenant, element.job.run_time) == ("5_1", "ann", 86400)
    assert (again.each, again.restarts, again.depends) == (2, 1, True)
    assert not again.job.guaranteed and again.job.run_time is None
    assert none.job is None and not none.problem


def test_jobs_are_read_from_json():
    job = {"job_id": 4, "job_state": "PENDING", "state_reason": "JobHeldUser", "priority": 0}
    job |= {"node_count": 1, "tres_per_node": "gres:gpu:2", "time_limit": 90, "user_name": "ann"}
    newer = {"job_id": 5, "job_state": ["RUNNING"], "nodes": "n1", "tres_per_node": "gres/gpu:1"}
    newer |= {"node_count": {"set": True, "number": 1}, "array_job_id": {"set": True, "number": 3}}
    newer |= {"array_task_id": {"set": True, "number": 0}}
    ended = {"job_id": 6, "job_state": "COMPLETED", "node_count": 1}
    first, second = read_queue(json.dumps({"jobs": [job, newer, ended]}))
    assert (first.id, first.held, first.each, first.job.run_time) == ("4", True, 2, 5400)
    assert (second.id, second.state, second.nodes, second.each) == ("3_0", "RUNNING", ("n1",), 1)
    still = job | {"job_state": ["COMPLETED", "COMPLETING"], "nodes": "n1"}
    part = job | {"het_job_id": {"set": True, "number": 5}, "het_job_offset": {"number": 1}}
    still, part = read_queue(json.dumps({"jobs": [still, part]}))
    assert (still.state, still.nodes) == ("COMPLETING", ("n1",))
    assert part.id == "5+0" and "heterogeneous" in part.problem


def test_what_only_slurm_can_keep_to_is_read_from_json():
    job = {"job_id": 4, "job_state": "PENDING", "node_count": 1, "tres_per_node": "gres:gpu:2"}
    wishes = [
        ({}, False, ""),
        ({"shared": "shared"}, False, ""),
        ({"shared": ["none"], "max_nodes": {"set": True, "number": 0}}, True, ""),
        ({"shared": "none", "contiguous": False}, True, ""),
        ({"shared": ["mcs"]}, True, "some jobs only (--exclusive=mcs)"),
        ({"contiguous": True}, False, "contiguous nodes"),
        ({"minimum_switches": 2}, False, "under 2 switches"),
        ({"max_nodes": 3}, False, "1 to 3 nodes"),
    ]
    jobs = read_queue(json.dumps({"jobs": [job | more for more, _, _ in wishes]}))
    for read, (_, whole, says) in zip(jobs, wishes, strict=True):
        assert read.whole == whole and says in read.beyond and bool(says) == bool(read.beyond)


def test_a_wish_for_gpus_is_in_the_comment_if_gpus_are_typed():
    row = "2|PENDING|JobHeldUser|0|2||N/A|N/A|N/A|N/A|0|0|10:00|N/A|(null)|ann|main|(null)|(null)"
    row += "|||2|OK|0|0|"
    (job,) = read_queue(row + "hivecore:gpu=3|(null);||", node_gpus=8, typed=True)
    assert job.each == 3 and job.job.roles[0].gpus == 8
    (untyped,) = read_queue(row + "(null);||", node_gpus=8)
    assert untyped.job is None


@pytest.mark.parametrize("text", ["1|RUNNING", "{", "{}", '{"jobs": 3}', QUEUE.replace("7|", "x|")])
def test_what_is_no_queue_is_refused(text):
    with pytest.raises(ValueError, match="text"):
        read_queue(text)


@pytest.mark.parametrize("typed", [False, True])
def test_a_job_that_asks_for_more_gpus_than_there_can_be_keeps_no_other_from_being_read(typed):
    row = "2|PENDING|JobHeldUser|0|1||gres:gpu:2000000|N/A|N/A|N/A|0|0|10:00|N/A|(null)|ann|main"
    row += "|(null)|(null)|||1|OK|0|0|"
    huge, other = read_queue(
        f"{row}{'hivecore:gpu=99999999999999999999|' * typed}(null);||\n"
        + row.replace("2000000", "2")
        + "hivecore:gpu=2|" * typed
        + "(null);||",
        typed=typed,
    )
    assert huge.job is None and "gpus=" in huge.problem and other.job.gpus == 2


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x1c"])
def test_signs_that_divide_lines_may_be_in_names_and_comments(sign):
    row = f"2|PENDING|JobHeldUser|0|1||N/A|N/A|N/A|N/A|0|0|10:00|N/A|a{sign}b|ann|main|(null)"
    row += f"|(null)|||1|OK|0|0|- x{sign}y|(null);||\n"
    first, _ = read_queue(row + row, typed=True)
    assert first.tenant == f"a{sign}b"
    text = f"JobId=9 JobName=x{sign}y   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1) MinCPUsNode=1"
    assert read_details(text) == {"9": {"n1": (0, 1)}}


def test_several_nodes_need_the_size_of_a_node():
    assert "how many GPUs a node has" in read_queue(QUEUE)[0].problem


def test_nodes_are_read_with_their_health():
    text = "n1|mixed|gpu:i0:1,gpu:i1:1|64|p|a,b\nn1|mixed|gpu:i0:1,gpu:i1:1|64|q|a,b\n"
    first, two = read_nodes(f"{text}n2|down*|gpu:8(S:0-1)|64|q|(null)\n")
    assert (first.partitions, first.features) == (("p", "q"), ("a", "b"))
    assert (two.partitions, two.features) == (("q",), ())
    assert (first.gpus, first.types, first.healthy, first.cpus) == (2, ("i0", "i1"), True, 64)
    assert (two.gpus, two.types, two.healthy) == (8, (), False)
    states = ["idle", "allocated", "idle*", "drained", "draining", "mixed"]
    rows = "".join(f"n{i}|{state}|gpu:1|1|p|(null)\n" for i, state in enumerate(states))
    assert [n.healthy for n in read_nodes(rows)] == [True, True, False, False, False, True]
    rows = "".join(f"n1|idle|gpu:1|1|{state}|(null)|{state}\n" for state in ("up", "inact", "down"))
    (node,) = read_nodes(rows + "n1|idle|gpu:1|1|drain|(null)|drain\n")
    assert node.partitions == ("up", "drain")
    data = {"nodes": [{"name": "n1", "state": "idle", "state_flags": ["DRAIN"], "gres": "gpu:4"}]}
    (node,) = read_nodes(json.dumps(data))
    assert (node.gpus, node.healthy) == (4, False)


TYPES = ["2080ti", "1g.5gb", "a100-sxm4", "nvidia_a100_1g.10gb+me", "i0", "1080"]


@pytest.mark.parametrize("kind", TYPES)
def test_the_name_of_a_type_may_begin_with_a_digit_or_hold_signs(kind):
    (node,) = read_nodes(f"n1|idle|gpu:{kind}:8(S:0-1,3),nvme:2|64|p|(null)\n")
    assert (node.gpus, node.types) == (8, (kind,))
    for wish in (f"gres:gpu:{kind}:4", f"gres/gpu:{kind}:4,gres/nvme:1", f"gres/gpu:{kind}=4"):
        (job,) = read_queue(QUEUE.splitlines()[1].replace("gres:gpu:2", wish))
        assert job.each == 4 and job.job.gpus == 4
    text = f"JobId=9 JobName=x   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:{kind}:5(IDX:0-3,5) MinCPUs=1"
    assert read_details(text) == {"9": {"n1": (0, 1, 2, 3, 5)}}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu", 1),
        ("gpu:a100", 1),
        ("gpu:0", 0),
        ("gpu:2080", 2080),
        ("gpu:1K", 1024),
        ("gpu:a100:no_consume:2", 2),
        ("gpu:i0:1,gpu:i3:1(IDX:3),gpu:i4:0(IDX:)", 2),
        ("billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=3,gres/gpu:h100=1,mem=8G", 4),
        ("gpu_mem:8,shard:4,mps:400,gres/gpumem=3", 0),
        ("(null)", 0),
    ],
)
def test_gpus_are_counted_in_texts_of_generic_resources(text, count):
    (node,) = read_nodes(f"n1|idle|{text}|1|p|(null)\n")
    assert node.gpus == count


#: By what sinfo prints, in 22.05 to 24.05, whether a job that is released may start there.
STATES = {
    "allocated": True, "alloc+": True, "completing": True, "idle": True, "mixed": True,
    "idle~": True, "idle#": True, "mixed#": True, "powered_down": True, "pow_up": True,
    "idle*": False, "idle!": False, "idle%": False, "idle$": False, "idle@": False, "idle^": False,
    "idle-": False, "mixed-": False, "mixed@": False, "allocated$": False, "down~": False,
    "blocked": False, "down": False, "drained": False, "draining": False, "drng*": False,
    "fail": False, "failing": False, "future": False, "inval": False, "maint": False,
    "reboot_issued": False, "reboot_requested": False, "perfctrs": False, "npc": False,
    "planned": False, "plnd": False, "power_down": False, "powering_down": False,
    "reserved": False, "resv": False, "unknown": False, "error": False, "a_new_state": False,
    "IDLE+CLOUD+POWERED_DOWN": True, "IDLE+DRAIN": False, "IDLE+POWERED_DOWN+NOT_RESPONDING": True,
    "": False,
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_jobs_start_only_on_nodes_of_these_states(state):
    (node,) = read_nodes(f"n1|{state}|gpu:1|1|p|(null)\n")
    assert node.healthy is STATES[state]


def test_all_states_of_a_node_count_in_json():
    for words, healthy in ((["IDLE", "DRAIN"], False), (["IDLE", "CLOUD", "POWERED_DOWN"], True)):
        data = {"nodes": [{"name": "n1", "state": words, "gres": "gpu:4"}]}
        assert read_nodes(json.dumps(data))[0].healthy is healthy


def test_gpus_of_running_jobs_are_read_by_node():
    text = "JobId=9 ArrayJobId=7 ArrayTaskId=2 JobName=x   Nodes=n[1-2] CPU_IDs=0 Mem=0 "
    text += "GRES=gpu:i0:1(IDX:0),gpu:i3:1(IDX:3),gpu:i4:0(IDX:)   Nodes=n3 CPU_IDs=0 Mem=0 "
    text += "GRES=gpu:4(IDX:0-2,7) MinCPUsNode=1"
    details = read_details(f"scontrol: show job 7_2\n{text}\n")
    assert details == {"7_2": {"n1": (0, 3), "n2": (0, 3), "n3": (0, 1, 2, 7)}}


def pods(*nodes, gpus=()):
    return [PlacedPod("node", i, node, (("gpu", gpus),)) for i, node in enumerate(nodes)]


def test_gpus_of_a_part_of_a_heterogeneous_job_are_read():
    text = "JobId=8 HetJobId=7 HetJobOffset=1 JobName=x   Nodes=n2 CPU_IDs=0 Mem=0 "
    text += "GRES=gpu:2(IDX:0-1) MinCPUsNode=1"
    assert read_details(text) == {"7+1": {"n2": (0, 1)}}


def test_commands_carry_out_actions():
    job = SlurmJob("7", None, "PENDING", count=2, each=2, restarts=1)
    start = Start("7", pods("n1", "n3", gpus=(3, 6, 7)))
    assert commands(start, job, typed=True) == [
        "update jobid=7 reqnodelist=n[1,3] gres=gpu:i3:1,gpu:i6:1 starttime=now",
        "release 7",
    ]
    (line, _) = commands(start, job, "exclude", nodes=["n1", "n2", "n3"])
    assert line == "update jobid=7 excnodelist=n2 starttime=now"
    assert commands(Preempt("7", "8", "priority"), job) == ["hold 7", "requeuehold incomplete 7"]
    for action in (Start("7", pods("n1")), Start("7", pods("n1", "n1")), SetCache("d", 1)):
        with pytest.raises(ValueError, match="action"):
            commands(action, job)
    with pytest.raises(ValueError, match="same 2 GPUs"):
        commands(Start("7", pods("n1", "n2", gpus=(3,))), job, typed=True)
    with pytest.raises(ValueError, match="no command for Reject"):
        commands(Reject("7", "too large"), job)
