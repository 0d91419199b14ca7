import json

import pytest

from hivecore import cli
from hivecore.sim.preemptive import Jobs, MuriOptions, job_figures, schedule
from hivecore.traces import generate, generate_training, save_csv

NODES = {"speech": 8, "vision": 8}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "jobs.csv"
    save_csv(generate(NODES, jobs=400, seed=0), path)
    return path


@pytest.fixture(scope="module")
def owners(trace):
    path = trace.with_name("owners.csv")
    path.write_text("vc,node num\nspeech,8\nvision,8\n")
    return path


def test_replay_reports_in_all_forms(trace, owners, tmp_path, capsys):
    arguments = ["replay", trace, "--format", "csv", "--virtual-clusters", owners]
    outputs = ["--json", tmp_path / "out.json", "--plots", tmp_path / "plots"]
    assert cli.main([*map(str, arguments), *map(str, outputs)]) == 0
    out = capsys.readouterr().out
    assert "speech" in out
    assert "(0 violations in 400 jobs compared)" in out
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["configuration"] == {
        "traces": ["jobs.csv"],
        "format": "csv",
        "virtual_clusters": "owners.csv",
        "oversubscribe": None,
        "load": 1.0,
        "opportunistic": False,
    }
    assert data["workload"]["nodes"] == NODES
    assert set(data["runtime_seconds"]) == {"read", "replay", "report"}
    assert sorted(path.suffix for path in (tmp_path / "plots").iterdir()) == [".png"] * 3


def test_oversubscribe_decides_the_nodes_before_load_scales_the_trace(trace, tmp_path):
    nodes, means = [], []
    for load in ("1", "3"):
        out = tmp_path / f"{load}.json"
        scale = ["--oversubscribe", "1.5", "--load", load]
        assert cli.main(["replay", str(trace), "--format", "csv", *scale, "--json", str(out)]) == 0
        data = json.loads(out.read_text())
        nodes.append(data["workload"]["nodes"])
        means.append(data["policies"]["private"]["all"]["mean_delay"])
    assert nodes[0] == nodes[1]
    assert means[0] < means[1]


def test_opportunistic_reports_what_was_borrowed(trace, owners, capsys):
    owned = ["--virtual-clusters", str(owners), "--load", "2"]
    assert cli.main(["replay", str(trace), "--format", "csv", *owned, "--opportunistic"]) == 0
    assert "Opportunistic jobs did" in capsys.readouterr().out


def test_demo_shows_the_anomaly_and_writes_pictures(tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path / "demo")]) == 0
    out = capsys.readouterr().out
    assert "(0 violations in 12,000 jobs compared)" in out
    data = json.loads((tmp_path / "demo" / "replay.json").read_text())
    assert data["violations"]["quota"]["later"] > 1000
    assert data["policies"]["quota"]["all"]["max_excess"] > 12 * 3600
    assert "cells, and waiting jobs run on idle ones" in out
    means = {policy: one["all"]["mean_delay"] for policy, one in data["policies"].items()}
    assert means["lending"] < 0.2 * means["cells"] == 0.2 * means["private"]
    assert 0 < data["violations"]["lending"]["later"] < 100
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert names == {"tenants.png", "excess.png", "fragmentation.png", "replay.json"}


def test_lending_is_a_policy_beside_cells(trace, owners, tmp_path):
    out = tmp_path / "out.json"
    given = ["--format", "csv", "--virtual-clusters", str(owners), "--load", "2"]
    policies = ["--policy", "lending", "cells", "--json", str(out)]
    assert cli.main(["replay", str(trace), *given, *policies]) == 0
    found = json.loads(out.read_text())["policies"]
    assert list(found) == ["private", "cells", "lending"]
    assert found["cells"]["borrowing"] is None
    assert found["lending"]["borrowing"]["gpu_hours"] > 0


def test_sweep_prints_and_writes_its_points(tmp_path, capsys):
    out = tmp_path / "sweep.json"
    small = ["--seeds", "2", "--loads", "0.5", "1.5", "--jobs", "200"]
    assert cli.main(["sweep", *small, "--policies", "quota", "cells", "--json", str(out)]) == 0
    assert "1.5" in capsys.readouterr().out
    data = json.loads(out.read_text())
    assert data["schema"] == "hivecore.sweep/1"
    assert [(point["seed"], point["load"], point["policy"]) for point in data["points"]] == [
        (seed, load, policy)
        for seed in (0, 1)
        for load in (0.5, 1.5)
        for policy in ("quota", "cells")
    ]


def test_sweep_takes_a_given_trace_and_a_backend(trace, owners, tmp_path):
    out = tmp_path / "sweep.json"
    given = [str(trace), "--format", "csv", "--virtual-clusters", str(owners)]
    where = ["--workers", "2", "--backend", "threading"]
    assert cli.main(["sweep", *given, *where, "--loads", "1", "2", "--json", str(out)]) == 0
    assert len(json.loads(out.read_text())["points"]) == 6


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required: COMMAND"),
        (["replay", "--format", "csv"], "required: TRACE"),
        (["replay", "{trace}"], "required: --format"),
        (["replay", "{trace}", "--format", "json"], "invalid choice: 'json'"),
        (["replay", "{trace}", "--format", "itp"], "jobs.csv:1: no column 'submission_time'"),
        (["replay", "missing.csv", "--format", "csv"], "No such file"),
        (["replay", "{trace}", "--format", "csv", "--load", "0"], "finite and positive number"),
        (["replay", "{trace}", "--format", "csv", "--load", "x"], "positive number, not 'x'"),
        (["replay", "{trace}", "--format", "csv", "--oversubscribe", "inf"], "finite and positive"),
        (
            ["replay", "{trace}", "--format", "csv", "--virtual-clusters", "{trace}"],
            "jobs.csv:1: no column 'vc'",
        ),
        (
            [
                "replay",
                "{trace}",
                "--format",
                "csv",
                "--oversubscribe",
                "2",
                "--virtual-clusters",
                "x",
            ],
            "not allowed with argument",
        ),
        (["demo"], "required: --out"),
        (["sweep", "--seeds", "0"], "at least 1, not '0'"),
        (["sweep", "{trace}"], "--format is needed for trace files"),
        (["sweep", "--jobs", "2"], "at least one per tenant"),
    ],
)
def test_wrong_arguments_end_with_a_message_and_status_2(arguments, says, trace, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([argument.format(trace=trace) for argument in arguments])
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_missing_libraries_are_named_with_the_way_to_get_them(monkeypatch, trace, capsys):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "rich" else object())
    assert cli.main(["replay", str(trace), "--format", "csv"]) == 1
    assert capsys.readouterr().err == ("hivecore replay needs rich: pip install 'hivecore[sim]'\n")


@pytest.fixture
def training(tmp_path):
    path = tmp_path / "training.csv"
    times = "submit_time,duration,iteration_time,resource_time_0,resource_time_1,resource_time_2"
    rows = [f"{job},bert,8,1000,0,192000,192,0.5,167,59" for job in range(12)]
    path.write_text("\n".join([f"job_id,model_name,num_gpu,iterations,{times}", *rows]))
    return path


def replay_jobs(training, *arguments):
    base = ["replay", training, "--format", "muri", "--policy", *arguments]
    return cli.main([str(argument) for argument in base])


def test_replay_under_job_policies_reports_completion_times(training, tmp_path, capsys):
    out, plots = tmp_path / "out.json", tmp_path / "plots"
    outputs = ["--json", out, "--plots", plots]
    assert replay_jobs(training, "fifo", "muri-s", "--nodes", 2, *outputs) == 0
    printed = capsys.readouterr().out
    assert "muri-s" in printed and "srtf" not in printed and "interrup" not in printed
    data = json.loads(out.read_text())
    assert data["configuration"] == {
        "traces": ["training.csv"],
        "format": "muri",
        "nodes": 2,
        "job_mtbf_hours": None,
        "node_mtbf_hours": None,
        "seed": None,
        "candidates": [3, 8],
        "autopack": True,
    }
    assert data["policies"]["fifo"]["makespan"] == pytest.approx(6 * 192 * 1.015)
    assert {path.name for path in plots.iterdir()} == {"completion.png", "timeline-muri-s.png"}


def test_candidates_and_autopack_of_the_command_are_those_of_the_simulator(monkeypatch, tmp_path):
    made = generate_training(60, seed=0, gpus=24)
    monkeypatch.setattr(cli, "load_training", lambda path: made)
    jobs, found = Jobs.of(made), {}
    for name, given_options, options in (
        ("default", [], MuriOptions()),
        ("same", ["--candidates", 4, 4], MuriOptions(candidates=(4, 4))),
        ("plain", ["--autopack", "off"], MuriOptions(autopack=False)),
    ):
        out = tmp_path / f"{name}.json"
        policies = ["muri-l", "muri-exact-l"][name == "same" :]
        assert replay_jobs("made", *policies, "--nodes", 3, *given_options, "--json", out) == 0
        data = json.loads(out.read_text())
        assert data["configuration"]["candidates"] == list(options.candidates)
        assert data["configuration"]["autopack"] == options.autopack
        for policy in policies:
            expected = job_figures(jobs, schedule(jobs, policy, 3, options))
            found[name, policy] = expected.mean_completion
            mean = data["policies"][policy]["mean_completion"]
            assert mean == pytest.approx(expected.mean_completion, rel=1e-9)
    assert len(set(found.values())) == len(found)


def test_failures_hit_all_job_policies_and_depend_on_the_seed(training, tmp_path, capsys):
    found = []
    for seed in ("1", "1", "2"):
        out = tmp_path / "out.json"
        failing = ["--job-mtbf", "0.05", "--node-mtbf", "2", "--seed", seed, "--json", out]
        assert replay_jobs(training, "fifo", "srsf", "--nodes", 2, *failing) == 0
        data = json.loads(out.read_text())
        assert data["configuration"]["seed"] == int(seed)
        found.append(data["policies"])
    assert "interrup" in capsys.readouterr().out
    assert found[0] == found[1] != found[2]
    assert all(one["interruptions"] > 0 for one in found[0].values())


def test_replay_of_some_policies_of_tenants(trace, owners, tmp_path):
    out = tmp_path / "out.json"
    given = ["--format", "csv", "--virtual-clusters", str(owners), "--json", str(out)]
    assert cli.main(["replay", str(trace), *given, "--policy", "quota"]) == 0
    # The private clusters are the yardstick.
    assert set(json.loads(out.read_text())["policies"]) == {"private", "quota"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("srsf cells", "--policy names policies of tenants (private, quota, cells) or of training"),
        ("srsf --load 1", "--load has no meaning for policies of training jobs"),
        ("srsf --oversubscribe 1", "--oversubscribe has no meaning for policies of training jobs"),
        ("srsf --virtual-clusters x", "--virtual-clusters has no meaning"),
        ("muri-l --opportunistic", "--opportunistic has no meaning for policies of training jobs"),
        ("cells --nodes 8", "--nodes has no meaning for policies of tenants"),
        ("cells --job-mtbf 8", "--job-mtbf has no meaning for policies of tenants"),
        ("cells --node-mtbf 8", "--node-mtbf has no meaning for policies of tenants"),
        ("cells --seed 0", "--seed has no meaning for policies of tenants"),
        ("srsf --seed 0", "--seed needs --job-mtbf or --node-mtbf"),
        ("srsf --job-mtbf 1 --seed -1", "at least 0, not '-1'"),
        ("srsf tiresias --node-mtbf 1", "--node-mtbf has no meaning for tiresias"),
        ("srsf --format csv", "policies of training jobs need --format muri, not csv"),
        ("quota --opportunistic", "--opportunistic needs --policy cells"),
        ("quota --plots x", "--plots shows all policies of tenants: leave --policy out"),
        ("srsf --nodes 0", "at least 1, not '0'"),
        ("cells --candidates 4 4", "--candidates has no meaning for policies of tenants"),
        ("cells --autopack off", "--autopack has no meaning for policies of tenants"),
        ("srsf muri-s --candidates 4 4", "--candidates needs --policy muri-exact-s or"),
        ("srsf --autopack off", "--autopack needs a policy of muri"),
        ("muri-exact-s --candidates 4 3", "--candidates 4 3: allowed are MUST from 1 to 4, and"),
        ("muri-exact-s --candidates 5 8", "--candidates 5 8: allowed are MUST from 1 to 4, and"),
        ("muri-exact-s --candidates 0 8", "argument --candidates: must be a whole number of at"),
        ("muri-exact-s --candidates 4", "argument --candidates: expected 2 arguments"),
        ("muri-s --autopack no", "argument --autopack: invalid choice: 'no'"),
        ("lifo", "invalid choice: 'lifo'"),
    ],
)
def test_an_option_is_never_ignored(arguments, says, training, capsys):
    with pytest.raises(SystemExit) as caught:
        replay_jobs(training, *arguments.split())
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_options_of_job_policies_need_a_job_policy(training, capsys):
    with pytest.raises(SystemExit):
        cli.main(["replay", str(training), "--format", "muri", "--nodes", "8"])
    assert "--nodes has no meaning for policies of tenants" in capsys.readouterr().err


def test_job_policies_run_one_trace(training, capsys):
    with pytest.raises(SystemExit):
        replay = ["replay", str(training), str(training), "--format", "muri"]
        cli.main([*replay, "--policy", "srsf"])
    assert "one TRACE at a time" in capsys.readouterr().err
