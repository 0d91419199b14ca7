"""`hivecore slurm` with commands of Slurm that print recorded texts."""

import pytest
from interop.fake_slurm import FakeSlurm

from hivecore import cli
from hivecore.interop.slurm.live import command

pytest.importorskip("yaml")

CONFIGURATION = """\
JobSubmitPlugins        = {plugins}
SelectType              = select/cons_tres
SLURM_VERSION           = 22.05.8
TopologyPlugin          = topology/none
"""


@pytest.fixture
def slurm(monkeypatch):
    fake, plugins = FakeSlurm(nodes=2), ["lua"]

    def run(given, text=""):
        if given == ("scontrol", "show", "config"):
            return CONFIGURATION.format(plugins=",".join(plugins))
        if given == ("scontrol", "show", "topology"):
            return ""
        return fake(given, text)

    monkeypatch.setattr(command, "run_command", run)
    return fake


def test_spec_prints_a_file_that_validates(slurm, tmp_path, capsys):
    assert cli.main(["slurm", "spec", "--typed"]) == 0
    file = tmp_path / "cluster.yaml"
    file.write_text(capsys.readouterr().out)
    assert cli.main(["validate", str(file)]) == 0
    assert "gpus8" in capsys.readouterr().out


def test_check_says_what_is_missing(slurm, capsys):
    assert cli.main(["slurm", "check"]) == 0
    assert "yes      2 nodes have GPUs" in capsys.readouterr().out
    assert cli.main(["slurm", "check", "--typed"]) == 1
    assert "MISSING  the GPUs of each node have types" in capsys.readouterr().out


def test_explain_and_a_dry_run_change_nothing(slurm, capsys):
    first, second, large = slurm.submit(2, 8), slurm.submit(1, 4), slurm.submit(3, 8)
    assert cli.main(["slurm", "run", "--dry-run"]) == 0
    assert capsys.readouterr().out == "update jobid=1 reqnodelist=n[1-2]\nrelease 1\n"
    assert cli.main(["slurm", "explain", first]) == 0
    assert "would start now on n[1-2]" in capsys.readouterr().out
    for job, why in ((second, f"{second} is pending"), (large, "3: "), ("9", "no such job")):
        assert cli.main(["slurm", "explain", job]) == 1
        assert why in capsys.readouterr().out
    assert not slurm.obeyed


def test_run_and_shadow_go_on_for_some_rounds(slurm, capsys):
    job = slurm.submit(1, 8)
    assert cli.main(["slurm", "run", "--rounds", "2", "--interval", "0"]) == 0
    assert f"Start {job} on n1" in capsys.readouterr().out
    slurm.tick()
    assert slurm.jobs[int(job)].nodes == ("n1",)
    assert cli.main(["slurm", "shadow", "--rounds", "1"]) == 0
    assert "hivecore" in capsys.readouterr().out


def test_a_shadow_draws_how_long_jobs_wait_in_both(slurm, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    slurm.submit(1, 8)
    picture = tmp_path / "waits.svg"
    assert cli.main(["slurm", "shadow", "--rounds", "1", "--plot", str(picture)]) == 0
    text = picture.read_text()
    assert "Slurm: 0 of 1 (none yet)" in text and "hivecore: 1 of 1 (mean 0.0 s)" in text
    with pytest.raises(SystemExit):
        cli.main(["slurm", "shadow", "--rounds", "1", "--plot", str(tmp_path / "none" / "a.svg")])
    assert str(tmp_path / "none" / "a.svg") in capsys.readouterr().err


def test_lua_is_the_submit_plugin(capsys):
    assert cli.main(["slurm", "lua", "--uid", "0", "--uid", "64030"]) == 0
    text = capsys.readouterr().out
    assert "{ [0] = true, [64030] = true }" in text and "comment" not in text
    assert cli.main(["slurm", "lua", "--typed"]) == 0
    assert 'job.comment = "hivecore:gpu="' in capsys.readouterr().out
