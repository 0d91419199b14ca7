"""`hivecore log`: a log run again, and what it tells on the command line."""

import re

import pytest

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Job, Role

FILE = """\
cluster:
  models: {m: {gpus: 4}}
  nodes: {'n[1-%d]': m}
tenants:
  lab: {quota: {max: {gpu: %d}}}
devices:
"""


def spec_file(folder, nodes):
    path = folder / f"{nodes}.yaml"
    path.write_text(FILE % (nodes, 4 * nodes))
    return path


@pytest.fixture
def log(tmp_path):
    """a runs from 0 to 60, b, which came with it, from 60 to 100."""
    path = tmp_path / "decisions.jsonl"
    scheduler = SchedulerSpec.read(spec_file(tmp_path, 1)).scheduler(log=path)
    for name in ("a", "b"):
        scheduler.submit(Job(name, "lab", 4), 0.0)
    scheduler.decide(0.0)
    for name, now in (("a", 60.0), ("b", 100.0)):
        scheduler.finish(name, now)
        scheduler.decide(now)
    scheduler.close()
    return path


def test_replay_says_that_it_is_the_same_or_which_line_is_not(log, output, refused):
    assert output("log", "replay", log) == (
        "4 events and 3 decisions with 3 actions until 100 s: the scheduler says the same again, "
        "to the byte.\n"
    )
    with open(log, "r+b") as file:
        data = file.read().replace(b'"finish"', b'"cancel"', 1)
        file.seek(0)
        file.write(data)
    assert "line 5: " in refused("log", "replay", log)


def test_all_segments_of_a_log_are_asked(log, tmp_path, output):
    whole = [
        output("log", "replay", log),
        output("log", "state", log, "--until", "59"),
        output("log", "explain", log, "b", "--at", "30"),
    ]
    cut = tmp_path / "cut"
    scheduler = SchedulerSpec.read(spec_file(tmp_path, 1)).scheduler(log=cut)
    for name in ("a", "b"):
        scheduler.submit(Job(name, "lab", 4), 0.0)
    scheduler.snapshot()
    scheduler.decide(0.0)
    scheduler.snapshot()
    for name, now in (("a", 60.0), ("b", 100.0)):
        scheduler.finish(name, now)
        scheduler.decide(now)
    scheduler.close()
    assert whole == [
        output("log", "replay", cut),
        output("log", "state", cut, "--until", "59"),
        output("log", "explain", cut, "b", "--at", "30"),
    ]
    wider = spec_file(tmp_path, 2)
    assert output("log", "diff", log, "--spec", wider) == output(
        "log", "diff", cut, "--spec", wider
    )
    for file in tmp_path.glob("cut.0*"):
        file.unlink()
    assert output("log", "replay", cut) == (
        "2 events and 2 decisions with 1 action until 100 s: the scheduler says the same again, "
        "to the byte.\nThe log is there from line 4 on: older segments are not.\n"
    )
    ended = "Jobs: 0 running or waiting, 2 ended, 0 rejected as they could never run"
    assert ended in output("log", "state", cut)


def test_state_lists_running_and_waiting_jobs(log, output):
    text = output("log", "state", log, "--until", "59")
    assert re.search(r"^a +lab +4 running +0", text, re.MULTILINE)
    assert re.search(r"^b +lab +4 pending +0 runtime of 'lab' is exceeded", text, re.MULTILINE)
    assert "At 0 s 4 of 4 GPUs are in use. Jobs: 2 running or waiting, 0 ended, 0 rejected" in text
    assert "0 running or waiting, 2 ended" in output("log", "state", log)


def test_explain_tells_why_a_job_did_not_start_then(log, output, refused):
    text = output("log", "explain", log, "b", "--at", "30")
    assert text.startswith("b is pending, first in its queue\nquotas: runtime of 'lab'")
    assert "it would start if a ended" in text
    assert "job='c'" in refused("log", "explain", log, "c", "--at", "30")
    assert "was gone at 100.0" in refused("log", "explain", log, "b", "--at", "100")


def test_diff_lists_jobs_that_start_sooner_and_draws_them(log, tmp_path, output):
    picture = tmp_path / "diff.png"
    spec = spec_file(tmp_path, 2)
    text = output("log", "diff", log, "--spec", spec, "--plot", picture)
    assert re.search(r"^log +2 +0 +0 +30\.0 +4 +100\.0$", text, re.MULTILINE)
    assert re.search(r"^other +2 +0 +0 +0\.0 +8 +50\.0$", text, re.MULTILINE)
    assert re.search(r"^b +lab +4 +0 +60 +0 +60 sooner$", text, re.MULTILINE)
    assert "1 of 2 jobs start sooner, 0 later.\n" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    same = output("log", "diff", log, "--spec", spec_file(tmp_path, 1))
    assert "0 of 2 jobs start sooner, 0 later.\n" in same
    assert "difference" not in same


def test_diff_lists_rejected_jobs_with_the_reason_and_leaves_them_out_of_the_mean(
    tmp_path, monkeypatch, output
):
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "log"
    scheduler = SchedulerSpec.read(spec_file(tmp_path, 2)).scheduler(log=path)
    for name, gpus in (("wide", 8), ("narrow", 4)):
        scheduler.submit(Job(name, "lab", [Role("w", gpus // 4, gpus=4)]), 0.0)
    scheduler.decide(0.0)
    scheduler.finish("wide", 60.0)
    scheduler.decide(60.0)
    scheduler.submit(Job("huge", "lab", 40), 70.0)
    scheduler.decide(100.0)
    scheduler.close()
    text = output("log", "diff", path, "--spec", spec_file(tmp_path, 1))
    assert re.search(r"^log +2 +1 +0 +60\.0 ", text, re.MULTILINE)
    assert re.search(r"^other +1 +2 +0 +0\.0 ", text, re.MULTILINE)
    reasons = "asks for %d of 'gpu', and max of 'lab' is %d"
    for job, gpus, starts, where, most in (
        ("wide", 8, "0 +0 +-", "by other", 4),
        ("huge", 40, "70 +- +-", "by both", 4),
    ):
        row = rf"^{job} +lab +{gpus} +{starts} +rejected {where} +{reasons % (gpus, most)} *$"
        assert re.search(row, text, re.MULTILINE)
    assert "1 of 3 jobs start sooner, 0 later, and 2 are rejected.\n" in text
    path = tmp_path / "wide"
    scheduler = SchedulerSpec.read(spec_file(tmp_path, 2)).scheduler(log=path)
    scheduler.submit(Job("wide", "lab", [Role("w", 2, gpus=4)]), 0.0)
    scheduler.decide(0.0)
    scheduler.close()
    text = output("log", "diff", path, "--spec", spec_file(tmp_path, 1))
    assert re.search(r"^log +1 +0 +0 +- ", text, re.MULTILINE)
    assert re.search(r"^other +0 +1 +0 +- ", text, re.MULTILINE)


def test_diff_tells_what_the_log_does_not(tmp_path, output):
    path = tmp_path / "log"
    scheduler = SchedulerSpec.read(spec_file(tmp_path, 2)).scheduler(log=path)
    scheduler.submit(Job("a", "lab", 4), 0.0)
    scheduler.set_node("n2", False, 0.0)
    scheduler.decide(0.0)
    scheduler.advance(9.0)
    scheduler.close()
    text = output("log", "diff", path, "--spec", spec_file(tmp_path, 1))
    assert "1 job has no end in the log: under the other configuration it runs until" in text
    assert "1 event of the log has no meaning there, and is left out" in text


def test_mistakes_are_reported(log, tmp_path, refused):
    path = tmp_path / "wrong.yaml"
    path.write_text("cluster:\n  nodes: {n: m}\n")
    assert f"{path}:2: cluster.nodes.n" in refused("log", "diff", log, "--spec", path)
    assert "must be a time in seconds, not '-1'" in refused("log", "state", log, "--until", "-1")
    assert "must end in .png" in refused("log", "diff", log, "--spec", "x", "--plot", "x.svg")
    assert "No such file" in refused("log", "replay", tmp_path / "none")
