"""`hivecore quota`."""

from pathlib import Path

import pytest

from hivecore import cli

SHORT = """
total: {cpu: 4, gpu: 8}
quotas:
  lab: {max: {cpu: 4, gpu: 8}, min: {gpu: 4}}
  vision: {parent: lab, max: {cpu: 4, gpu: 8}, min: {gpu: 3}}
  speech: {parent: lab, max: {cpu: 4, gpu: 8}, min: {gpu: 2}}
owners:
  train: {quota: vision, amounts: {cpu: 0.5, gpu: 2}, count: 4, running: 3}
  tune: {quota: speech, amounts: {gpu: 4}}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "quotas.yaml"
    path.write_text(SHORT)
    return path


def test_it_prints_each_quota_with_its_amounts_and_what_is_wrong(file, output):
    out = output("quota", file)
    lines = [line.split() for line in out.splitlines()]
    assert ["quota", "resource", "request", "min", "runtime", "used", "max"] in lines
    # vision: min 3 of 8, asks for 8; speech: min 2, asks for 4. Three are left: 1.5 each, the odd
    # one to the name that comes first.
    assert ["total", "cpu", "2", "0", "2", "1.5", "4"] in lines
    assert ["gpu", "8", "4", "8", "6", "8"] in lines
    assert ["gpu", "12", "4", "8", "6", "8"] in lines
    speech, vision = (next(x for x in out.splitlines() if name in x) for name in ("speech", "vis"))
    assert speech.startswith("    speech ") and vision.startswith("    vision ")
    assert ["gpu", "4", "2", "4", "0", "8"] in lines
    assert ["gpu", "8", "3", "4", "!", "6", "8"] in lines
    assert "Owners: 1 running, 1 pending." in out
    assert "vision uses 2 gpu more than it may now: 6 of 4." in out
    assert (
        "Rule broken (in thousandths of a core, bytes): lab: min of gpu is 4, those below it have "
        "5 in all: speech 2, vision 3." in out
    )
    assert "scaled" not in out


def test_more_promised_than_there_is_is_said(file, capsys):
    assert cli.main(["quota", str(file), "--total", "gpu=2,cpu=1"]) == 0
    assert "More is promised than there is: min is scaled down of lab, speech, vision.\n" in (
        capsys.readouterr().out
    )


NESTED = """
total: {gpu: 96}
quotas:
  org: {max: {gpu: 96}, min: {gpu: 96}}
  vision: {parent: org, max: {gpu: 96}, min: {gpu: 48}}
  speech: {parent: org, max: {gpu: 96}, min: {gpu: 48}}
owners:
  train: {quota: vision, amounts: {gpu: 8}, count: 9, running: RUNNING}
"""


@pytest.mark.parametrize("running", [0, 1, 9])
def test_minimums_that_add_up_to_the_total_are_not_said_to_be_scaled(tmp_path, running, output):
    path = tmp_path / "nested.yaml"
    text = NESTED.replace("RUNNING", str(running))
    path.write_text(text if running else text[: text.index("owners")])
    out = output("quota", path)
    assert "promised" not in out and "scaled" not in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if " gpu " in line}
    assert [rows[name][3] for name in ("org", "speech", "vision")] == ["96", "48", "48"]
    said = output("quota", path, "--total", "gpu=50")
    assert "min is scaled down of org, speech, vision.\n" in said


@pytest.mark.parametrize("name", ["picture.svg", "picture.png", "picture.PNG"])
def test_it_draws_what_it_prints(file, tmp_path, name, output):
    out = tmp_path / name
    assert output("quota", file, "--out", out).splitlines()[-1] == f"wrote {out}"
    begin = out.read_bytes()[:5]
    assert begin == (b"<?xml" if name.endswith("svg") else b"\x89PNG\r")


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ("quotas: {a: {max: {x: -1}}}", [], "{file}: quotas.a.max.x: -1 is negative"),
        ("quotas: 3", [], "{file}: quotas must be a mapping, not 3"),
        ("a: [", [], "{file}: the text: is no YAML: line 1, column 5"),
        ("", [], "{file}: there is no object of kind ElasticQuota, and no key 'quotas'"),
        ("quotas: {a: {max: {x: 1}}}", [], "{file}: total: is missing"),
        (b"\xff", [], "{file}: is no UTF-8 text"),
        (SHORT, ["--total", "gpus=3"], "{file}: --total: no quota has 'gpus'; resources"),
        (SHORT, ["--total", "gpu=many"], "{file}: --total.gpu: 'many' is no quantity"),
        (SHORT, ["--total", "gpu=-1"], "{file}: --total.gpu: '-1' is negative"),
        (SHORT, ["--total", "gpu"], "argument --total: must be resource=amount,..., not 'gpu'"),
        (SHORT, ["--total", "gpu="], "argument --total: must be resource=amount,..., not 'gpu='"),
        (SHORT, ["--total", "gpu=1,gpu=2"], "argument --total: names 'gpu' twice"),
        (SHORT, ["--out", "x.pdf"], "argument --out: must end in .svg or .png, not 'x.pdf'"),
        (SHORT, ["--out", "{file}/x.svg"], "{file}/x.svg"),
    ],
)
def test_what_is_wrong_ends_with_one_line_and_status_2(tmp_path, capsys, text, arguments, says):
    file = tmp_path / "file.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SystemExit) as caught:
        cli.main(["quota", str(file), *(argument.format(file=file) for argument in arguments)])
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    last = printed.err.splitlines()[-1]
    assert says.format(file=file) in last
    if "argument" not in says:
        assert printed.err == f"{last}\n"
        assert last.startswith("hivecore: error: ")


EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "quotas.yaml"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="only the installed package is here")
def test_the_example_is_shown_and_drawn(tmp_path, output):
    out = tmp_path / "quotas.svg"
    printed = output("quota", EXAMPLE, "--out", out)
    assert "vision uses 1 nvidia.com/gpu more than it may now: 8 of 7." in printed
    assert "Rule broken" not in printed and "no quota" not in printed
    picture = out.read_text("utf-8")
    assert "1 of 6 quotas uses more than may be used now: vision" in picture
    assert "8 / 7" in picture
