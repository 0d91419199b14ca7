"""The scripts in examples/ run, are short, and print what a newcomer understands."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
#: what the schedulers of `compose_*.py` decide, whole
COMPOSITIONS = Path(__file__).resolve().parent / "golden" / "compositions"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="only the installed package is here")

SAYS = {
    "broker.py": "second leads, and knows ['train']\nsecond handled tune\n",
    "cluster_dump.py": "2 pods of 5 GPUs: starts, ['speech/tts'] would leave",
    "data_loader.py": "epoch 3: 0 remote reads of text",
    "defragment.py": "train starts on n1",
    "devices.py": "train on n0: gpu 2, gpu 3, rdma 1",
    "dra_claims.py": "tune waits; n1: request whole wants 1; devices that suit it and are free: 0",
    "elastic_jobs.py": "2 h  train: Shrink worker/3 on n3",
    "gpu_links.py": "second: GPUs (4, 5, 6, 7) with 9 links",
    "group_muri_jobs.py": "6 jobs in 2 groups; gap to the best: 0%",
    "hived_decisions.py": "default/asr-0: preempts default/sweep-0",
    "mig.py": "for a 4g.20gb, /serve/pod/0/mig moves from 2 to 4",
    "networkx_backend.py": "hivecore: 40 pairs of weight 3903",
    "ray_gangs.py": "Preempt sweep, Start train, Wait sweep\ntrain ([{'GPU': 8.0}",
    "replace_failed_pods.py": "  TakeOver: worker/0 on n2",
    "spread_pods.py": "even   racks {'r0': 5, 'r1': 5}",
    "scheduler_loop.py": " 2 h  sweep is evicted by bert",
}


OUTCOMES = {f"compose_{file.stem}.py": file for file in sorted(COMPOSITIONS.glob("*.txt"))}


def test_every_script_is_tried():
    assert sorted(file.name for file in EXAMPLES.glob("*.py")) == sorted([*SAYS, *OUTCOMES])


def said(name):
    script = EXAMPLES / name
    assert len(script.read_text("utf-8").splitlines()) <= 60
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_says_what_happens(name):
    assert SAYS[name] in said(name)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_composition_decides_what_is_recorded(name):
    assert said(name) == OUTCOMES[name].read_text("utf-8")
