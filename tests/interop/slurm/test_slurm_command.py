"""`hivecore slurm` with commands of Slurm that print recorded texts."""

import json
import shutil
import subprocess
import time

import pytest
from interop.fake_slurm import FakeSlurm

from hivecore import cli
from hivecore.interop.slurm.live import command
from hivecore.interop.slurm.live.cluster_file import submit_plugin

pytest.importorskip("yaml")

CONFIGURATION = """\
JobSubmitPlugins        = {plugins}
SelectType              = select/cons_tres
SLURM_VERSION           = 22.05.8
SchedulerParameters     = bf_continue,batch_sched_delay=1
TopologyPlugin          = topology/none
"""
TREE = """\
SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[0-1]
"""


@pytest.fixture
def slurm(monkeypatch):
    fake, plugins = FakeSlurm(nodes=2), ["lua"]
    fake.tree = ""

    def run(given, text=""):
        if given == ("scontrol", "show", "config"):
            return CONFIGURATION.format(plugins=",".join(plugins))
        if given == ("scontrol", "show", "topology"):
            return fake.tree
        return fake(given, text)

    monkeypatch.setattr(command, "run_command", run)
    return fake


def test_spec_prints_a_file_that_validates(slurm, tmp_path, capsys, output):
    assert cli.main(["slurm", "spec", "--typed"]) == 0
    file = tmp_path / "cluster.yaml"
    file.write_text(capsys.readouterr().out)
    assert "gpus8" in output("validate", file)


def test_check_says_what_is_missing(slurm, capsys, output):
    said = output("slurm", "check")
    assert "yes      2 nodes have GPUs" in said and "yes      SchedulerParameters" in said
    assert cli.main(["slurm", "check", "--typed"]) == 1
    assert "MISSING  the GPUs of each node have types" in capsys.readouterr().out


def test_check_and_explain_say_which_jobs_are_left_to_slurm(slurm, capsys, output):
    jobs = [slurm.submit(1, 8, reservation="r") for _ in range(2)]
    slurm.submit(1, 8, partition="none")
    said = output("slurm", "check")
    why = "is left to Slurm: it has the reservation 'r'"
    assert f"no       2 of the jobs that wait: {why}" in said
    assert "no       1 of the jobs that wait: there is no node of partition none" in said
    assert cli.main(["slurm", "explain", jobs[1]]) == 1
    assert capsys.readouterr().out == f"{jobs[1]}: {why}\n"


def test_explain_and_a_dry_run_change_nothing(slurm, capsys, output):
    first, second, large = slurm.submit(2, 8), slurm.submit(1, 4), slurm.submit(3, 8)
    assert output("slurm", "run", "--dry-run") == "update jobid=1 reqnodelist=n[1-2]\nrelease 1\n"
    assert "would start now on n[1-2]" in output("slurm", "explain", first)
    for job, why in ((second, f"{second} is pending"), (large, "3: "), ("9", "no such job")):
        assert cli.main(["slurm", "explain", job]) == 1
        assert why in capsys.readouterr().out
    assert not slurm.obeyed


@pytest.mark.parametrize("arguments", [["explain", "1"], ["run", "--dry-run"]])
def test_a_slurm_that_does_not_answer_is_an_error(slurm, tmp_path, arguments, refused, output):
    file = tmp_path / "cluster.yaml"
    file.write_text(output("slurm", "spec"))
    slurm.answers = False
    assert "Unable to contact" in refused("slurm", *arguments, "--scheduler", file)


def test_nodes_at_no_switch_are_not_near_each_other(slurm, output):
    slurm.free |= {f"n{i}": set(range(8)) for i in (3, 4)}
    slurm.tree = "SwitchName=none Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
    said = output("slurm", "spec")
    assert 'none: "n[1-2]"' in said
    assert said.count('"n3"') == said.count('"n4"') == 1


def test_explain_says_what_else_a_job_waits_for(slurm, capsys):
    slurm.free |= {f"n{i}": set(range(8)) for i in (3, 4)}
    slurm.tree = TREE
    for node in ("n1", "n3"):
        job = slurm.submit(1, 8, held=False, wanted=(node,))
    slurm.tick()
    reasons = {
        slurm.submit(1, 1, dependency="afterok:1(unfulfilled)"): "waits for other jobs",
        slurm.submit(1, 1, begin=4e9): f"waits until {time.ctime(4e9)}",
        slurm.submit(2, 8): "could start, but waits up to 300 s",
        job: "running on n3",
    }
    for job, why in reasons.items():
        cli.main(["slurm", "explain", job])
        assert f"{job}: {why}" in capsys.readouterr().out


def test_run_waits_for_a_controller_that_restarts(slurm, capsys, monkeypatch, refused):
    job, slurm.answers = slurm.submit(1, 8), False
    later = [False, True]

    def nap(seconds):
        if not later:
            raise KeyboardInterrupt
        slurm.answers = later.pop(0)

    monkeypatch.setattr(command.time, "sleep", nap)
    with pytest.raises(KeyboardInterrupt):
        cli.main(["slurm", "run"])
    said = capsys.readouterr()
    assert said.err.count("Unable to contact") == 2 and f"Start {job} on n1" in said.out
    slurm.answers = False
    refused("slurm", "run", "--rounds", 1)


def test_run_and_shadow_go_on_for_some_rounds(slurm, output):
    job = slurm.submit(1, 8)
    assert f"Start {job} on n1" in output("slurm", "run", "--rounds", "2", "--interval", "0")
    slurm.tick()
    assert slurm.jobs[int(job)].nodes == ("n1",)
    assert "hivecore" in output("slurm", "shadow", "--rounds", "1")


def test_a_shadow_draws_how_long_jobs_wait_in_both(slurm, tmp_path, refused):
    pytest.importorskip("matplotlib")
    slurm.submit(1, 8)
    picture = tmp_path / "waits.svg"
    assert cli.main(["slurm", "shadow", "--rounds", "1", "--plot", str(picture)]) == 0
    text = picture.read_text()
    assert "Slurm: 0 of 1 (none yet)" in text and "hivecore: 1 of 1 (mean 0.0 s)" in text
    none = tmp_path / "none" / "a.svg"
    assert str(none) in refused("slurm", "shadow", "--rounds", 1, "--plot", none)


def test_lua_is_the_submit_plugin(output):
    text = output("slurm", "lua", "--uid", "0", "--uid", "64030")
    assert "{ [0] = true, [64030] = true }" in text and "job.comment" not in text
    assert 'job.comment = "hivecore:gpu="' in output("slurm", "lua", "--typed")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lua", "--uid", "-1"], "argument --uid: must be a whole number from 0 to 4294967293"),
        (["lua", "--uid", "root"], "argument --uid: must be a whole number from 0 to"),
        (["run", "--rounds", "0"], "argument --rounds: must be a whole number from 1 to"),
        (["shadow", "--interval", "-1"], "argument --interval: must be a number from 0 to"),
        (["run", "--interval", "nan"], "argument --interval: must be a number from 0 to"),
        (["run", "--switch-wait", "-5"], "argument --switch-wait: must be a number from 0 to"),
    ],
)
def test_a_number_out_of_its_range_is_refused_with_the_range(arguments, says, refused):
    assert says in refused("slurm", *arguments)


RUN_PLUGIN = """
slurm = {SUCCESS = "kept", ERROR = "refused", NO_VAL = 4294967294, log_user = function() end}
local function load() %s end
load()
local job = {%s}
print(slurm_job_submit(job, {}, 1000), job.priority, job.comment, job.admin_comment)
"""


def submitted(typed=False, **job):
    """What the plugin does with a job: its result, the priority and the comments."""
    lua = shutil.which("lua") or pytest.skip("there is no lua")
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in job.items())
    program = RUN_PLUGIN % (submit_plugin(typed=typed), fields)
    done = subprocess.run([lua, "-"], input=program, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("wish", "count"),
    [
        ("gres:gpu:2", 2),
        ("gres:gpu:4,gres:nvme:1", 4),
        ("gres/nvme:a:3,gres/gpu=2", 2),
        ("gpu:2080", 2080),
        ("gpu:0", None),
        ("gpu_mem:8,shard:2", None),
    ],
)
def test_the_submit_plugin_holds_jobs_for_the_gpus_that_they_ask_for(wish, count):
    held = ["kept", "0", f"hivecore:gpu={count}"] if count else ["kept", "nil", "nil"]
    assert submitted(typed=True, tres_per_node=wish)[:3] == held
    assert submitted(tres_per_node=wish)[1] == held[1]


@pytest.mark.parametrize("wish", ["gres/gpu:2080ti:8", "gpu:1g.5gb", "gpu:1080:2", "gpu=a-b"])
def test_types_of_gpus_are_no_wish_where_hivecore_chooses_gpus(wish):
    assert submitted(tres_per_node=wish)[:2] == ["kept", "0"]
    assert submitted(typed=True, tres_per_node=wish)[0] == "refused"


@pytest.mark.parametrize(
    ("job", "priority", "noted"),
    [
        ({}, "0", "hivecore:"),
        ({"exc_nodes": "n1"}, "0", "hivecore:exclude"),
        ({"req_nodes": "n1"}, "nil", "hivecore:nodelist"),
        ({"req_nodes": "n1", "exc_nodes": "n2"}, "nil", "hivecore:nodelist,exclude"),
        ({"reservation": "r"}, "nil", "hivecore:"),
    ],
)
def test_the_submit_plugin_leaves_jobs_to_slurm_and_notes_lists_of_nodes(job, priority, noted):
    assert submitted(tres_per_node="gpu:2", **job)[1::2] == [priority, noted]


def test_the_submit_plugin_refuses_only_wishes_for_gpus_in_another_way():
    assert submitted(tres_per_task="cpu:4")[0] == "kept"
    assert submitted(tres_per_task="cpu:4,gres/gpu:1")[0] == "refused"
    assert submitted(tres_per_job="gres:gpu:a100:1")[0] == "refused"
