"""The scripts in examples/ run, are short, and print what a newcomer understands."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="only the installed package is here")

SAYS = {
    "compose_gpushare.py": "large (16 GiB) on GPU 0 of n1",
    "compose_hived.py": "2 h  sweep leaves for bert (opportunistic)",
    "compose_koordinator.py": "3 h  ads-2 leaves for train (reclaim)",
    "compose_muri.py": "reads too joins computes on A100/1",
    "compose_silod.py": "2 h  clips may read 400 MB/s from remote",
    "data_loader.py": "epoch 3: 0 remote reads of text",
    "devices.py": "train on n0: gpu 2, gpu 3, rdma 1",
    "group_muri_jobs.py": "6 jobs in 2 groups; gap to the best: 0%",
    "hived_decisions.py": "default/asr-0: preempts default/sweep-0",
    "networkx_backend.py": "hivecore: 40 pairs of weight 3903",
    "scheduler_loop.py": " 2 h  sweep is evicted by bert",
}


def test_every_script_is_tried():
    assert sorted(file.name for file in EXAMPLES.glob("*.py")) == sorted(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_says_what_happens(name):
    script = EXAMPLES / name
    assert len(script.read_text("utf-8").splitlines()) <= 60
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout
