"""Batch scripts for sbatch as jobs: how many pods, their GPUs, and how many a node may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import refused_clearly
from profiles import examples

from hivecore.interop.slurm import job_of_batch_script
from hivecore.scheduler import Role


def read(*lines, **options):
    script = "\n".join(
        ["#!/bin/bash", "# a comment", "", *(f"#SBATCH {line}" for line in lines), "run"]
    )
    return job_of_batch_script(script, **{"name": "j", "tenant": "t", **options})


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("", Role("task", 1, gpus=0)),
        ("-N2 --gpus-per-node=8", Role("node", 2, gpus=8, per_node=1)),
        ("--nodes 2 --gpus-per-node a100:4", Role("node", 2, gpus=4, per_node=1)),
        ("--nodes=1 --gres=gpu:2", Role("node", 1, gpus=2)),
        ("--gres=gpu:a100:2,nvme:1", Role("node", 1, gpus=2)),
        ("--gres=gpu", Role("node", 1, gpus=1)),
        ("--gres=gpu:2080ti:8", Role("node", 1, gpus=8)),
        ("--gpus-per-node=1g.5gb:4", Role("node", 1, gpus=4)),
        ("--gres=nvme:1,gpu:a100-sxm4:2,gpu:2g.10gb:1", Role("node", 1, gpus=3)),
        ("-N 2 --ntasks-per-node 4 --gpus-per-task=2", Role("node", 2, gpus=8, per_node=1)),
        ("-N 2 -n 8 --ntasks-per-node=4 --gpus-per-task=2", Role("node", 2, gpus=8, per_node=1)),
        ("-N1 -n8 --gpus-per-task=1", Role("node", 1, gpus=8)),
        ("--gpus-per-task=2 --ntasks-per-node=4", Role("node", 1, gpus=8)),
        ("-N 3", Role("node", 3, gpus=0, per_node=1)),
        ("-n 8 --gpus-per-task=1", Role("task", 8, gpus=1)),
        ("-n 8 --gpus-per-task=1 --ntasks-per-node=2", Role("task", 8, gpus=1, per_node=2)),
        ("--requeue -n 4 -H --mem=1G --gpus-per-task=h100:1", Role("task", 4, gpus=1)),
        ("-n 4 # -n 5", Role("task", 4, gpus=0)),
    ],
)
def test_nodes_or_tasks_are_pods(line, role):
    assert read(line).roles == (role,)


def test_what_else_a_script_says_is_read_up_to_its_first_command():
    script = """#!/bin/sh
#SBATCH -J bert -A vision
#SBATCH --nice=200 -t 1-12
module load cuda
#SBATCH -N 7
"""
    job = job_of_batch_script(script)
    assert (job.name, job.tenant, job.priority, job.run_time) == ("bert", "vision", -200, 129600.0)
    assert job.roles == (Role("task", 1, gpus=0),)
    assert read("--job-name='my bert'", name="").name == "my bert"
    assert read("--nice").priority == -100
    other = job_of_batch_script(script, name="other", tenant="speech")
    assert (other.name, other.tenant) == ("other", "speech")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-2", 93600), ("1-2:30", 95400),
     ("1-0:0:1", 86401), ("UNLIMITED", None), ("0", None)],
)  # fmt: skip
def test_times_are_read_as_slurm_writes_them(text, seconds):
    assert read(f"--time={text}").run_time == seconds


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-a 0-3", "--array='0-3': has no counterpart"),
        ("--exclusive", "--exclusive='': has no counterpart"),
        ("-G 4", "--gpus='4': has no counterpart"),
        ("-C a100", "--constraint='a100': has no counterpart"),
        ("-F hosts", "--nodefile='hosts': has no counterpart"),
        ("-M other", "--clusters='other': has no counterpart"),
        ("-m cyclic", "--distribution='cyclic': has no counterpart"),
        ("--contiguous", "--contiguous='': has no counterpart"),
        ("--segment=4", "--segment='4': has no counterpart"),
        ("--spread-job", "--spread-job='': has no counterpart"),
        ("--switches=1", "--switches"),
        ("-N 2-4", "--nodes='2-4': is no number"),
        ("-n 4 --gpus-per-node=2", "not on how many --nodes"),
        ("-N 2 -n 4 --gpus-per-task=2", "not how many --ntasks-per-node"),
        ("-N 2 -n 7 --ntasks-per-node=4 --gpus-per-task=2", "--ntasks=7: is not 4 tasks on each"),
        ("-N 2 --gpus-per-node=4 --gpus-per-task=2", "asks for GPUs per node and for"),
        ("--gpus-per-node=many", "is no number of GPUs"),
        ("--gres=gpu:a:b:c:d:2", "is no number of GPUs"),
        ("--time=soon", "--time='soon': is no time"),
        ('-J "bert', "No closing quotation"),
        ("nodes=2", "'nodes=2' is no option of sbatch"),
        ("-N 0", "pods"),
    ],
)
def test_what_has_no_counterpart_or_cannot_be_read_is_named(line, says):
    with pytest.raises(ValueError, match=says):
        read(line)


def test_a_name_and_an_account_are_needed():
    for lines, says in ((["-A a"], "^name .*--job-name$"), (["-J j"], "^tenant .*--account$")):
        with pytest.raises(ValueError, match=says):
            read(*lines, name="", tenant="")
    with pytest.raises(TypeError, match="text"):
        job_of_batch_script(None)


@given(st.text(alphabet="#SBATCH -=:N2ntgpu\n", max_size=60))
@examples(200)
def test_any_text_is_read_or_refused_clearly(text):
    with refused_clearly(of=(ValueError,)):
        job_of_batch_script(f"#SBATCH {text}", name="j", tenant="t")
