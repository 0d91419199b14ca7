import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

import hivecore
from hivecore import cli
from hivecore._ctrl_c import held_back
from hivecore.sim import columns
from hivecore.sim.console import print_report, try_outputs
from hivecore.sim.demo import CONFIGURATIONS, command
from hivecore.sim.devices import SHARING_POLICIES, replay_devices
from hivecore.sim.preemptive import JobFigures, Jobs, MuriOptions, job_figures, schedule
from hivecore.sim.preemptive import command as jobs_command
from hivecore.sim.replay_command import kind_of
from hivecore.sim.report import Report
from hivecore.sim.storage import StorageFigures
from hivecore.sim.storage import command as storage_command
from hivecore.sim.tenants import command as tenants_command
from hivecore.traces import (
    generate,
    generate_openb_nodes,
    generate_openb_pods,
    generate_training,
    load_openb_nodes,
    load_openb_pods,
    save_csv,
)

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


def ran(folder, *arguments):
    """What the JSON of a command says."""
    out = folder / "out.json"
    assert cli.main([*map(str, arguments), "--json", str(out)]) == 0
    return json.loads(out.read_text())


def test_replay_reports_in_all_forms(trace, owners, tmp_path, capsys):
    given = ["replay", "tenants", trace, "--format", "csv", "--virtual-clusters", owners]
    data = ran(tmp_path, *given, "--plots", tmp_path / "plots")
    out = capsys.readouterr().out
    assert "speech" in out
    assert "cells starts no job later than its private cluster does (400 jobs compared)" in out
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
    given = ["replay", "tenants", trace, "--format", "csv", "--oversubscribe", "1.5", "--load"]
    first, three = (ran(tmp_path, *given, load) for load in (1, 3))
    assert first["workload"]["nodes"] == three["workload"]["nodes"]
    before, after = (data["policies"]["private"]["all"] for data in (first, three))
    assert before["mean_delay_seconds"] < after["mean_delay_seconds"]


def test_lending_is_a_policy_beside_cells_and_an_option_of_them(trace, owners, tmp_path, capsys):
    given = ["replay", "tenants", trace, "--format", "csv", "--virtual-clusters", owners]
    given += ["--load", "2"]
    policies = ran(tmp_path, *given, "--policy", "lending", "cells")["policies"]
    assert list(policies) == ["private", "cells", "lending"]
    assert policies["cells"]["borrowing"] is None
    assert policies["lending"]["borrowing"]["gpu_hours"] > 0
    lent = ran(tmp_path, *given, "--policy", "cells", "--opportunistic")["policies"]["cells"]
    assert lent["borrowing"] == policies["lending"]["borrowing"]
    assert "Opportunistic jobs did" in capsys.readouterr().out


def test_private_clusters_are_the_yardstick_of_some_policies(trace, owners, tmp_path):
    given = ["--format", "csv", "--virtual-clusters", owners, "--policy", "quota"]
    assert set(ran(tmp_path, "replay", "tenants", trace, *given)["policies"]) == {
        "private",
        "quota",
    }


def test_demo_shows_what_each_part_brings_in_80_columns_and_draws_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    small = command.Terms(jobs=400, load=1.0, days=0.4)
    monkeypatch.setattr(command, "Terms", lambda: small)
    folder = tmp_path / "demo"
    assert cli.main(["demo", "--out", str(folder)]) == 0
    table, _, sentences = capsys.readouterr().out.partition("400 generated jobs in ")
    assert max(printed_widths(table)) <= 80
    for explained in (
        "completion",
        "queueing",
        "useful work",
        "by up to",
        "alone",
        "quotas",
        "cells",
    ):
        assert f" {explained}: " in table
    rows = [line.split("  ")[0] for line in table.splitlines() if "%" in line]
    assert rows == ["alone", *CONFIGURATIONS]
    owned = "vision owns 14, language owns 16, speech owns 8, ads owns 10, robots owns 6"
    assert owned in sentences and "The mean completion time is " in sentences
    data = json.loads((folder / "demo.json").read_text())
    terms = {"jobs": 400, "seed": 0, "load": 1.0, "days": 0.4}
    assert data["configuration"] == {**terms, "cache_gb": 4000.0, "bandwidth_mbps": 6000.0}
    assert all(sentence in sentences for sentence in data["findings"])
    assert set(data["runtime_seconds"]) == {"generate", "simulate", "report"}
    assert {path.name for path in folder.iterdir()} == {"demo.png", "demo.json"}
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {folder / 'demo.png'}" in sentences


def test_sweep_prints_and_writes_its_points(tmp_path, capsys):
    small = ["--seeds", 2, "--loads", 0.5, 1.5, "--jobs", 200, "--policies", "quota", "cells"]
    data = ran(tmp_path, "sweep", *small)
    assert "1.5" in capsys.readouterr().out
    assert data["schema"] == "hivecore.sweep/2"
    points = [(point["seed"], point["load"], point["policy"]) for point in data["points"]]
    assert points == list(product((0, 1), (0.5, 1.5), ("quota", "cells")))


def test_sweep_takes_specs_and_tenants_of_generated_traces(tmp_path, capsys):
    spec = tmp_path / "one.yaml"
    spec.write_text(
        "cluster: {models: {m: {gpus: 8}}, nodes: {'n[0-3]': m}, network: {layers: {rack: 4}}}\n"
        "tenants: {a: {quota: {max: {gpu: 4}}}, b: {quota: {max: {gpu: 8}}}}\n"
    )
    small = ["--seeds", 1, "--loads", 1, "--jobs", 90, "--nodes", "a=3", "c=2"]
    where = ["--policies", "cells", "--spec", spec, "--tenant", "c=b"]
    cells, own = ran(tmp_path, "sweep", *small, *where)["points"]
    assert "one.yaml" in capsys.readouterr().out
    assert (cells["policy"], cells["nodes"], cells["refused"]) == ("cells", 5, 0)
    assert (own["policy"], own["nodes"], own["fragmentation"]) == ("one.yaml", 4, None)
    assert own["jobs"] + own["refused"] == cells["jobs"] and own["refused"] > 0


def test_sweep_takes_a_given_trace_and_a_backend(trace, owners, tmp_path):
    given = [trace, "--format", "csv", "--virtual-clusters", owners, "--loads", 1, 2]
    where = ["--workers", 2, "--backend", "threading"]
    assert len(ran(tmp_path, "sweep", *given, *where)["points"]) == 6


SPEC = "{cluster: {models: {m: {gpus: 8}}, nodes: {'n[0-7]': m}}, tenants: {x: {}}, devices: {}}"
LABELS = "{kind: Node, metadata: {name: n, labels: {network.topology.nvidia.com/accelerator: a}}}"


@pytest.mark.parametrize(
    "arguments",
    [
        "replay tenants --format csv --policy quota cells {trace}",
        "replay tenants --policy quota {trace} --format csv",
        "replay tenants --policy quota {trace} {trace} --format csv",
        "replay tenants {trace} --format csv --load 2 {trace}",
        "replay storage --format csv --system silod --policy fifo {trace} --gpus 960",
        "replay jobs --policy fifo muri-s {training}",
        "replay jobs --nodes 2 --candidates 2 4 --policy muri-exact-s {training}",
        "replay pods --seeds 1 --policy fgd {nodes} {pods}",
        "replay pods {nodes} --seeds 1 --policy fgd {pods}",
        "replay spec --format csv --spec {spec} {trace} --tenant speech=x vision=x",
        "replay spec --format csv --tenant speech=x vision=x {trace} --spec {spec} {other}",
        "replay spec --format csv --spec {spec} --tenant speech=x --tenant vision=x {trace}",
        "replay spec {trace} --format csv --tenant speech=x vision=x --spec={spec}",
        "sweep --format csv --policies quota --loads 1 1.5 {trace}",
        "sweep --format csv {trace} --loads 1 --policies quota",
        "sweep --policies quota --loads 1 --seeds 1 --jobs 9 --nodes a=1 b=2",
        "sweep --format csv --loads 1 --spec {spec} --tenant speech=x vision=x {trace}",
        "topology --to conf --block-sizes 1 {labels}",
    ],
)
def test_options_with_several_values_leave_the_files_to_the_arguments(
    arguments, trace, training, shared, tmp_path
):
    known = {"trace": trace, "training": training, "nodes": shared[0], "pods": shared[1]}
    for name, text in (("spec.yaml", SPEC), ("other.yaml", SPEC), ("labels.yaml", LABELS)):
        (tmp_path / name).write_text(text)
        known[name.removesuffix(".yaml")] = tmp_path / name
    assert cli.main(arguments.format(**known).split()) == 0


def test_pods_for_gpus_that_no_node_has_are_named(shared, tmp_path, capsys):
    pods = tmp_path / "pods.csv"
    columns = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    lines = "a,100,100,1,1000,Z9|Y8", "b,100,100,1,1000,", "c,100,100,0,0,X7"  # c needs no GPU
    pods.write_text("\n".join((columns, *lines)))
    assert cli.main(["replay", "pods", str(shared[0]), str(pods), "--policy", "fgd"]) == 0
    assert "1 pod can start on no node, as none has Y8, Z9." in capsys.readouterr().out


CSV = "replay tenants {trace} --format csv"
MURI = "replay jobs {training} --policy"
STORAGE = "replay storage {trace} --format csv --system silod"
PODS = "replay pods {nodes} {pods}"
SPECS = "replay spec {trace} --format csv --spec {spec}"
WHAT_IF = "what-if {cluster} --queue a"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "required: COMMAND"),
        ("replay", "required: KIND"),
        ("replay tenants --format csv", "required: TRACE"),
        ("replay tenants {trace}", "required: --format"),
        ("replay tenants {trace} --format json", "invalid choice: 'json'"),
        ("replay tenants {trace} --format itp", "jobs.csv:1: no column 'submission_time'"),
        ("replay tenants {folder} --format csv", "error: {folder}: Is a directory"),
        ("replay tenants none.csv --format csv", "error: none.csv: No such file or directory"),
        (f"{CSV} --load 0", "finite and positive number"),
        (f"{CSV} --load x", "positive number, not 'x'"),
        (f"{CSV} --load 1e-300", "argument --load: must be a number from 1e-06 to 1e+06"),
        (f"{CSV} --oversubscribe inf", "finite and positive"),
        (f"{CSV} --oversubscribe 1e-6", "--oversubscribe 1e-06: tenants own "),
        (f"{CSV} --oversubscribe 2 --virtual-clusters x", "not allowed with argument"),
        (f"{CSV} --virtual-clusters {{trace}}", "jobs.csv:1: no column 'vc'"),
        (f"{CSV} --virtual-clusters {{many}}", "many.csv: tenants own 2000008 nodes, vision alone"),
        (f"{CSV} --virtual-clusters {{folder}}", "--virtual-clusters {folder}: Is a directory"),
        (f"{CSV} --policy quota --opportunistic", "--opportunistic needs --policy cells"),
        (f"{CSV} --policy quota --plots x", "--plots shows all policies of tenants: leave"),
        (f"{CSV} --nodes 8", "unrecognized arguments: --nodes 8"),
        (f"{MURI} fifo --nodes 1000000000000", "argument --nodes: must be at most 100000, not"),
        (f"{MURI} fifo --nodes {'9' * 200}", "argument --nodes: must be at most 100000, not '9"),
        (f"{MURI} fifo --job-mtbf 1e-300", "argument --job-mtbf: must be a number from 0.01 to"),
        (f"{MURI} srsf cells", "invalid choice: 'cells'"),
        ("replay jobs --policy srsf cells {training}", "invalid choice: 'cells'"),
        ("replay jobs --policy srsf none.csv", "error: none.csv: No such file or directory"),
        ("sweep --policies quota cels", "invalid choice: 'cels'"),
        ("replay spec --format csv --spec a.yaml b.yaml", "required: TRACE"),
        (f"{MURI} srsf --seed 0", "--seed needs --job-mtbf or --node-mtbf"),
        (f"{MURI} srsf --job-mtbf 1 --seed -1", "at least 0, not '-1'"),
        (f"{MURI} srsf tiresias --node-mtbf 1", "--node-mtbf has no meaning for tiresias"),
        (f"{MURI} srsf muri-s --candidates 4 4", "--candidates needs --policy muri-exact-s or"),
        (f"{MURI} srsf --autopack off", "--autopack needs a policy of muri"),
        (f"{MURI} muri-exact-s --candidates 4 3", "--candidates 4 3: allowed are MUST from 1 to 4"),
        (f"{MURI} muri-exact-s --candidates 5 8", "--candidates 5 8: allowed are MUST from 1 to 4"),
        (f"{MURI} muri-exact-s --candidates 0 8", "argument --candidates: must be a whole number"),
        (f"{STORAGE} --cache 1e300", "argument --cache: must be a number from 1e-09 to 1e+15"),
        (f"{STORAGE} --gpus 1", "jobs.csv: a job of "),
        (f"{STORAGE} --policy cells", "invalid choice: 'cells'"),
        ("replay storage {trace} --seed 1", "--seed has no meaning: jobs of --format storage have"),
        ("replay pods {nodes}", "required: PODS"),
        ("replay pods {pods} {nodes}", "pods.csv:1: no column 'sn'"),
        ("replay pods {nodes} missing", "error: missing: No such file"),
        (f"{PODS} --load 0.00001", "error: --load 1e-05: the first pod asks for more already"),
        (f"{PODS} --json no/out.json", "--json no/out.json: No such file or directory"),
        ("replay spec {trace} --format csv", "required: --spec"),
        ("demo", "required: --out"),
        ("sweep {trace}", "--format is needed for trace files"),
        ("sweep {trace} --format csv --nodes a=1", "--nodes has no meaning for trace files"),
        ("sweep --format csv", "--format has no meaning for generated traces"),
        ("sweep --tenant a=b", "--tenant has no meaning for policies: it needs --spec"),
        ("sweep --nodes a", "must be TENANT=N, not 'a'"),
        ("sweep --nodes a=0", "at least 1, not '0'"),
        ("sweep --nodes a=900000 b=900000", "--nodes: tenants own 1800000 nodes, a alone 900000"),
        ("sweep --nodes a=1 a=2", "--nodes names a tenant twice"),
        ("sweep --jobs 99999 --seeds 1 --loads 1e-6", "seed=0, load=1e-06: submit["),
        ("sweep --jobs 2", "--jobs 2: must be at least one per tenant, and there are 5"),
        ("explain {folder}/empty", "error: {folder}/empty: no objects of device claims, such as"),
        ("explain {cluster} {folder}/empty", "{cluster}: a document without a kind is no object"),
        ("log replay {folder}/empty", "{folder}/empty: line 1: "),
        ("log state {trace}", "{trace}: line 1: "),
        ("log explain {trace} a --at 1", "{trace}: line 1: "),
        ("init node --out {trace}", "--out {trace}: exists already; name another file"),
        ("quota {folder}", "error: {folder}: Is a directory"),
        ("validate {folder}", "error: {folder}: Is a directory"),
        ("what-if {latin} --queue a", "{latin}: is no UTF-8 text: invalid continuation byte at"),
        ("explain {latin}", "{latin}: is no UTF-8 text"),
        ("topology {latin}", "{latin}: is no UTF-8 text"),
        ("quota {latin}", "{latin}: is no UTF-8 text"),
        ("init --from {latin}", "{latin}: is no UTF-8 text"),
        ("quota {cluster}", "{cluster}: is a cluster file, see `hivecore validate`"),
        ("init --from {cluster}", "{cluster}: is a cluster file, see `hivecore validate`"),
        ("init node --flavor a", "--flavor: needs --from"),
        ("what-if {cluster} --queue a --flavor b", "--flavor: {cluster} is no dump"),
        (f"{WHAT_IF} --priority 5000", "error: --priority 5000: allowed are -1000 to 1000"),
        (f"{WHAT_IF} --pods 0", "error: --pods 0: allowed are 1 to "),
        (f"{WHAT_IF} --gpus=-1", "error: --gpus -1: allowed are 0 to "),
        (f"{WHAT_IF} --must rack", "error: --must: there is no network with such a layer"),
        (f"{WHAT_IF} --resource x=3", "error: --resource x: no part counts it"),
        ("topology {labels} --partition a=", "{labels}: --partition a: has no nodes"),
        ("topology {labels} --block-sizes 0", "{labels}: --block-sizes"),
        ("explain {labels} --kubernetes 9", "argument --kubernetes: invalid choice: '9'"),
        (
            "explain {labels} --gate X=true",
            "error: --gate: gates of Kubernetes 1.36 must be one of ",
        ),
        (f"{SPECS}", "{trace}: spec.yaml has no tenants speech, vision, and the trace"),
        (f"{SPECS} --load 2", "error: {trace} with --load 2: spec.yaml has no tenants speech"),
        (f"{SPECS} --tenant speech=x", "has no tenant vision, and the trace has jobs of it"),
        (f"{SPECS} --tenant a=x", "error: --tenant: the trace has no tenant 'a', it has"),
        ("what-if {cluster} --queue a --resource =5", "--resource: must be NAME=N, not '=5'"),
        (
            "what-if {cluster} --queue a --resource a=1 --resource a=2",
            "--resource: names 'a' twice",
        ),
    ],
)
def test_a_message_names_the_option_or_the_file(
    arguments, says, trace, training, shared, tmp_path, capsys
):
    (tmp_path / "empty").touch()
    latin, cluster = tmp_path / "latin.yaml", tmp_path / "cluster.yaml"
    latin.write_bytes(b"cluster: {nodes: {caf\xe9: x}}")
    cluster.write_text("cluster: {models: {x: {gpus: 8}}, nodes: {n1: x}}\ndevices:")
    many = tmp_path / "many.csv"
    many.write_text("vc,node num\nspeech,8\nvision,2000000\n")
    spec, labels = tmp_path / "spec.yaml", tmp_path / "labels.yaml"
    spec.write_text(SPEC)
    labels.write_text(LABELS)
    known = {"trace": trace, "training": training, "folder": tmp_path, "many": many}
    known |= {"spec": spec, "labels": labels}
    known |= {"latin": latin, "cluster": cluster}
    known |= {"nodes": shared[0], "pods": shared[1]}
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments.format(**known).split())
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert says.format(**known) in error
    assert "Errno" not in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["quota", ""], "the name of a file is empty"),
        (["sweep", "--spec", ""], "--spec: the name of a file is empty"),
        (["replay", "tenants", "", "--format", "csv"], "the name of a file is empty"),
        (["log", "replay", ""], "the name of a file is empty"),
        (["init", "node", "--out", ""], "--out: the name of a file is empty"),
        (["init", "node", "--out="], "--out: the name of a file is empty"),
        (["serve", "--scheduler", "a.yaml", "--log", ""], "--log: the name of a file is empty"),
        (["serve", "a.yaml", "--tls-key="], "--tls-key: the name of a file is empty"),
        (["demo", "--out", ""], "--out: the name of a file is empty"),
    ],
)
def test_an_empty_name_of_a_file_is_said_to_be_empty(arguments, says, capsys):
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert capsys.readouterr().err == f"hivecore: error: {says}\n"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(5, "Input/output error"), "{trace}: Input/output error"),
        (OSError(13, "Permission denied", "other"), "other: Permission denied"),
        (MemoryError(), "there is not enough memory for this"),
    ],
)
def test_an_error_of_the_system_without_a_file_names_those_that_were_given(
    error, says, trace, monkeypatch, capsys
):
    def fail(*_):
        raise error

    monkeypatch.setattr(tenants_command, "load", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main(["replay", "tenants", str(trace), "--format", "csv"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"hivecore: error: {says.format(trace=trace)}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["init", "rack"], ["validate", "{cluster}"], ["--help"], ["--version"]]
)
def test_an_output_that_cannot_be_written_is_named_and_no_file_that_was_read(
    arguments, unbuffered, tmp_path
):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("cluster: {models: {x: {gpus: 8}}, nodes: {n1: x}}\ndevices:")
    command = [sys.executable, "-m", "hivecore", *arguments]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [text.format(cluster=cluster) for text in command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert process.returncode == 2
    assert process.stderr == "hivecore: error: the output: No space left on device\n"


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"hivecore {hivecore.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "foreign"), [(["--version"], "numpy"), (["serve", "--help"], "hivecore.sim")]
)
def test_the_modules_of_other_commands_are_not_imported(arguments, foreign):
    code = f"""
import sys
from hivecore import cli
try:
    cli.main({arguments})
finally:
    assert {foreign!r} not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_help_names_each_command(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if re.match(r"    [a-z]", line)] == [*cli._COMMANDS]


def test_a_warning_of_a_reader_is_one_line_of_the_command(tmp_path):
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n1,n1\n")
    text = "cluster: {models: {m: {gpus: 8}}, nodes: {n1: m}, network: {slurm: topology.conf}}\n"
    (tmp_path / "cluster.yaml").write_text(text)
    process = in_process("validate", tmp_path / "cluster.yaml", stdout=subprocess.PIPE)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert error.decode() == (
        f"hivecore: warning: {tmp_path / 'topology.conf'}: line 1: Nodes: several times, "
        "counted once: 'n1'\n"
    )


def test_missing_libraries_are_named_with_the_way_to_get_them(monkeypatch, trace, capsys):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "rich" else object())
    assert cli.main(["replay", "tenants", str(trace), "--format", "csv"]) == 1
    assert capsys.readouterr().err == ("hivecore replay needs rich: pip install 'hivecore[sim]'\n")


@pytest.fixture
def training(tmp_path):
    path = tmp_path / "training.csv"
    times = "submit_time,duration,iteration_time,resource_time_0,resource_time_1,resource_time_2"
    rows = [f"{job},bert,8,1000,0,192000,192,0.5,167,59" for job in range(12)]
    path.write_text("\n".join([f"job_id,model_name,num_gpu,iterations,{times}", *rows]))
    return path


def test_replay_under_job_policies_reports_completion_times(training, tmp_path, capsys):
    given = ["--policy", "fifo", "muri-s", "--nodes", 2, "--plots", tmp_path / "plots"]
    data = ran(tmp_path, "replay", "jobs", training, *given)
    printed = capsys.readouterr().out
    assert "muri-s" in printed and "srtf" not in printed and "interrup" not in printed
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
    assert data["policies"]["fifo"]["makespan_seconds"] == pytest.approx(6 * 192 * 1.015)
    drawn = {path.name for path in (tmp_path / "plots").iterdir()}
    assert drawn == {"completion.png", "timeline-muri-s.png"}


def test_candidates_and_autopack_of_the_command_are_those_of_the_simulator(monkeypatch, tmp_path):
    trace = generate_training(60, seed=0, gpus=24)
    monkeypatch.setattr(jobs_command, "load_training", lambda path: trace)
    jobs, expectations = Jobs.of(trace), {}
    for policies, given, options in (
        (["muri-l", "muri-exact-l"], [], MuriOptions()),
        (["muri-exact-l"], ["--candidates", 4, 4], MuriOptions(candidates=(4, 4))),
        (["muri-l", "muri-exact-l"], ["--autopack", "off"], MuriOptions(autopack=False)),
    ):
        data = ran(tmp_path, "replay", "jobs", "made", "--policy", *policies, "--nodes", 3, *given)
        assert data["configuration"]["candidates"] == list(options.candidates)
        assert data["configuration"]["autopack"] == options.autopack
        for policy in policies:
            expected = job_figures(jobs, schedule(jobs, policy, 3, options)).mean_completion
            expectations[policy, options] = expected
            mean = data["policies"][policy]["mean_completion_seconds"]
            assert mean == pytest.approx(expected, rel=1e-9)
    assert len(set(expectations.values())) == len(expectations)


def test_failures_hit_all_job_policies_and_depend_on_the_seed(training, tmp_path, capsys):
    given = ["--policy", "fifo", "srsf", "--nodes", 2, "--job-mtbf", 0.05, "--node-mtbf", 2]
    outcomes = []
    for seed in (1, 1, 2):
        data = ran(tmp_path, "replay", "jobs", training, *given, "--seed", seed)
        assert data["configuration"]["seed"] == seed
        outcomes.append(data["policies"])
    assert "interrup" in capsys.readouterr().out
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert all(figures["interruptions"] > 0 for figures in outcomes[0].values())


@pytest.mark.parametrize("kind", ["tenants", "jobs", "storage", "pods", "spec"])
def test_the_help_of_a_replay_fits_a_screen(kind, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main(["replay", kind, "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 25


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ("t.csv --format itp --load 2", "tenants"),
        ("--format csv t.csv --policy cells lending", "tenants"),
        ("t.csv --format muri --policy srtf muri-s", "jobs"),
        ("t.csv --format muri --storage silod --policy fifo", "storage"),
        ("t.csv --format=storage --storage silod", "storage"),
        ("n.csv p.csv --format openb --seeds 2", "pods"),
        ("--format openb n.csv p.csv", "pods"),
        ("p.csv --format openb --spec a.yaml", "spec"),
        ("t.csv --format csv --compare a.yaml", "spec"),
        ("tenants t.csv --format csv", ""),
        ("--help", ""),
    ],
)
def test_the_kind_of_a_replay_follows_from_its_options(arguments, kind):
    assert kind_of(arguments.split()) == kind


def test_a_replay_without_its_kind_works_as_with_it_and_hints_at_it(training, shared, capsys):
    for kind, files, old, new in (
        ("jobs", [training], "--format muri --policy fifo", "--policy fifo"),
        ("storage", [training], "--format muri --storage silod", "--format muri --system silod"),
        ("pods", shared, "--format openb --policy fgd --seeds 1", "--policy fgd --seeds 1"),
    ):
        names, said = [str(file) for file in files], []
        for options in ([*names, *old.split()], [kind, *names, *new.split()]):
            assert cli.main(["replay", *options]) == 0
            said.append(capsys.readouterr())
        before, after = (output.out.partition("Time:")[0] for output in said)
        assert before == after
        assert said[0].err.startswith(f"hivecore: hint: write `hivecore replay {kind}")
        assert (said[0].err.count("\n"), said[1].err) == (1, "")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Files of nodes and pods in openb's format."""
    folder = tmp_path_factory.mktemp("openb")
    names = {"name": "sn", "gpus": "gpu"}
    for file, trace, fields in (
        ("nodes.csv", generate_openb_nodes(12, seed=0), "name cpu_milli memory_mib gpus model"),
        ("pods.csv", generate_openb_pods(60, seed=0), "name cpu_milli memory_mib gpus gpu_milli"),
    ):
        values = (getattr(trace, column) for column in fields.split())
        rows = [",".join(map(str, row)) for row in zip(*values, strict=True)]
        heads = [names.get(column, column) for column in fields.split()]
        (folder / file).write_text("\n".join([",".join(heads), *rows]))
        names = {"gpus": "num_gpu"}
    return folder / "nodes.csv", folder / "pods.csv"


def test_replay_of_pods_that_share_gpus_reports_what_is_allocated(shared, tmp_path, capsys):
    given = ["--policy", "fgd", "best-fit", "--seeds", 2, "--plots", tmp_path / "plots"]
    data = ran(tmp_path, "replay", "pods", *shared, *given)
    printed = capsys.readouterr().out
    assert "median of 2 orders" in " ".join(printed.split()) and "packing" not in printed
    assert all(f"{load} %" in printed for load in (80, 90, 100, 130))
    files = {"traces": ["nodes.csv", "pods.csv"], "format": "openb"}
    assert data["configuration"] == {**files, "load": 1.3, "seeds": 2}
    assert data["loads"] == [80, 90, 100, 130]
    drawn = {path.name for path in (tmp_path / "plots").iterdir()}
    assert drawn == {"unallocated.png", "fragmentation.png"}
    nodes, pods = load_openb_nodes(shared[0]), load_openb_pods(shared[1])
    for policy in ("fgd", "best-fit"):
        for seed, figures in enumerate(data["policies"][policy]):
            replayed = replay_devices(nodes, pods, policy, seed)
            assert figures["seed"] == seed
            assert figures["allocated"][2] == replayed.allocation[replayed.at(1.0)]
            assert figures["fragmented"][3] == replayed.fragmentation[-1]


def test_replay_of_pods_takes_all_policies_and_ends_at_a_load(shared, tmp_path):
    data = ran(tmp_path, "replay", "pods", *shared, "--load", 0.85)
    assert list(data["policies"]) == list(SHARING_POLICIES)
    assert {len(runs) for runs in data["policies"].values()} == {3}
    assert data["loads"] == [80, 85]


# Sums of some real traces, in seconds: the widest that fit.
JOBS = JobFigures(1_061_564.0, 8_325_522.0, 8_174_994.0, 1_013_880.0, 2_073, 134, 3_551, 745.0)
COMPLETION = (135_400.0, 79_812.0, 673_632.0, 8_171_964.0)
STORAGE = StorageFigures(*COMPLETION, 3_472.0, 0.535, 1_096.4, 0.985, 0.16, 1.04, 7, 3)


def printed_widths(text):
    return [len(line) for line in text.splitlines() if not line.startswith("wrote ")]


def report_of(name, figures):
    return Report(
        "T",
        [columns.label("policy"), *columns.of(type(figures))],
        [(name, *columns.values(figures))],
    )


@pytest.mark.parametrize(
    ("name", "record", "figures"),
    [
        ("muri-exact-s", JOBS, ["136,250", "3,551", "745"]),
        ("max-min, alluxio", STORAGE, ["37.61", "2,270.0", "1,096"]),
    ],
)
def test_tables_fit_80_columns_and_become_lists_on_40(name, record, figures, monkeypatch, capsys):
    for width in ("80", "40"):
        monkeypatch.setenv("COLUMNS", width)
        print_report(report_of(name, record))
        text = capsys.readouterr().out
        assert ("─" in text) == (width == "80")
        assert max(printed_widths(text)) <= int(width)
        assert all(re.search(rf"(?<![\d,.]){figure}(?![\d,.])", text) for figure in figures)


def test_a_table_in_a_pipe_is_never_cut(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_report(report_of("a-policy-with-a-name-of-some-length", JOBS))
    lines = capsys.readouterr().out.splitlines()
    assert any(re.search("a-policy-with-a-name-of-some-length .* 745$", line) for line in lines)


def in_process(*arguments, **options):
    """The command as its users run it; its output is not buffered line by line."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= options.pop("env", {})
    command = [sys.executable, "-m", "hivecore", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, **options)


on_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and terminals")


@on_posix
def test_no_color_means_no_escape_sequence_on_a_terminal():
    import pty

    terminal, end = pty.openpty()
    small = ["--jobs", 100, "--seeds", 1, "--loads", 1]
    process = in_process("sweep", *small, stdout=end, env={"NO_COLOR": "1", "TERM": "xterm"})
    os.close(end)
    text = b""
    try:
        while part := os.read(terminal, 65536):
            text += part
    except OSError:  # how Linux says that the other end is closed
        pass
    assert process.communicate(timeout=60)[1] == b""
    assert b"quota" in text and b"\x1b" not in text
    os.close(terminal)


@on_posix
@pytest.mark.parametrize(
    "arguments", [["--help"], ["sweep", "--jobs", 100, "--seeds", 1, "--loads", 1]]
)
def test_a_reader_that_has_gone_ends_the_command_without_a_word(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    process = in_process(*arguments, stdout=writer)
    os.close(writer)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 141


@on_posix
@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_output_is_no_error(closed, trace, owners):
    given = [trace, "--format", "csv", "--virtual-clusters", owners]
    command = [sys.executable, "-m", "hivecore", "replay", "tenants", *given]
    shell = ["sh", "-c", f'"$@" {closed}>&-', "sh", *map(str, command)]
    done = subprocess.run(shell, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"quota" in done.stdout) == (closed == 2)


def alive(session):
    """The processes of a session that have not ended."""
    ports = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = file.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state not in "ZX":
            ports.append(int(file.parent.name))
    return ports


def eventually(condition):
    for _ in range(1200):
        if condition():
            return True
        time.sleep(0.05)
    return False


LONG = ["sweep", "--jobs", 100_000, "--seeds", 50]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("arguments", "processes"),
    [
        (["demo", "--out", "{folder}", "--workers", 1], 1),
        (["demo", "--out", "{folder}", "--workers", 2], 5),
        (["replay", "tenants", "{folder}/trace", "--format", "csv"], 1),
        (LONG, 1),
        ([*LONG, "--workers", 2, "--backend", "threading"], 1),
        ([*LONG, "--workers", 2], 5),  # and two that clean up after the workers
    ],
)
@pytest.mark.parametrize("pause", [0.0, 1.0])
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_with_one_line_status_130_and_no_process_left(
    arguments, processes, pause, tmp_path
):
    def begun():
        # Before that it would be the start of Python or NumPy that is interrupted.
        libraries = Path(f"/proc/{process.pid}/maps").read_text()
        return "hivecore/_" in libraries and len(alive(process.pid)) >= processes

    os.mkfifo(tmp_path / "trace")  # read for ever
    arguments = [str(argument).format(folder=tmp_path) for argument in arguments]
    with in_process(*arguments, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert eventually(begun)
            time.sleep(pause)  # while the libraries are loaded, or at work: all the same
            os.killpg(process.pid, signal.SIGINT)
            _, error = process.communicate(timeout=60)
            assert error == b"hivecore: interrupted\n"
            assert process.returncode == 130
            assert eventually(lambda: not alive(process.pid))
        finally:
            if alive(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("replay tenants none --format csv --json {folder}", "Is a directory"),
        ("replay tenants none --format csv --json {folder}/none/x.json", "No such file"),
        ("replay tenants none --format csv --plots {folder}/file", "Not a directory"),
        ("replay tenants none --format csv --plots {folder}/file/plots", "Not a directory"),
        (
            "replay tenants none --format csv --plots {folder}/a/b --json {folder}/a/c/x",
            "No such file",
        ),
        ("replay jobs none --policy srsf --json {folder}/none/x.json", "No such file"),
        ("replay storage none --format muri --plots {folder}/file", "Not a directory"),
        ("sweep none --format csv --json {folder}", "Is a directory"),
        ("demo --out {folder}/file", "Not a directory"),
    ],
)
@on_posix
def test_places_that_cannot_be_written_are_refused_before_the_work(
    arguments, says, tmp_path, monkeypatch, capsys
):
    def work(*_, **__):
        raise AssertionError("the work has begun")

    for module, name in (
        (tenants_command, "load"),
        (jobs_command, "load_training"),
        (storage_command, "load_training"),
    ):
        monkeypatch.setattr(module, name, work)
    monkeypatch.setattr(command, "generate_tenants", work)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments.format(folder=tmp_path).split())
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("hivecore: error: ") and error.count("\n") == 1 and says in error
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_trying_places_that_can_be_written_leaves_them_as_they_were(tmp_path):
    old = tmp_path / "old.json"
    old.write_text("kept")
    for file in (old, tmp_path / "new.json", tmp_path / "a" / "b" / "new.json"):
        try_outputs(file, tmp_path / "a" / "b")
    assert [path.name for path in tmp_path.rglob("*")] == ["old.json"]
    assert old.read_text() == "kept"


def test_ctrl_c_that_is_ignored_stays_ignored_while_libraries_load(interruptible):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_back():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("arguments", ["serve --help", "replay tenants --help", "quota --help"])
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_waits_until_the_libraries_of_the_command_are_loaded(arguments):
    code = f"""
import signal, sys
from hivecore import __main__
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "hivecore._quotas":
            signal.raise_signal(signal.SIGINT)
            print("loads on")
sys.meta_path.insert(0, Interrupts())
sys.argv[1:] = {arguments.split()}
sys.exit(__main__.main())
"""
    begun = [sys.executable, "-c", code]
    done = subprocess.run(begun, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("loads on\n", "hivecore: interrupted\n")
    assert done.returncode == 130


@pytest.mark.parametrize(
    ("suffix", "text", "says"),
    [
        (".yaml", "42", ""),
        (".yaml", "- topology: a\n  tree: 5", "tree"),
        (".yaml", "", "one document"),
        (".yaml", "{kind: Node, metadata: 5}", "metadata"),
        (".yaml", "{kind: NodeList, items: 5}", "items"),
        (".conf", "SwitchName=s0 Nodes=", "no node"),
    ],
)
def test_a_wrong_topology_is_named_by_its_file(tmp_path, capsys, suffix, text, says):
    file = tmp_path / f"given{suffix}"
    file.write_text(text, "utf-8")
    with pytest.raises(SystemExit):
        cli.main(["topology", str(file)])
    error = capsys.readouterr().err
    assert str(file) in error and says in error


@pytest.mark.parametrize("option", [("--partition", "a=n0"), ("--block-sizes", "4")])
def test_options_for_nodes_are_refused_for_files_of_slurm(tmp_path, capsys, option):
    file = tmp_path / "topology.conf"
    file.write_text("SwitchName=s0 Nodes=n[0-3]\n", "utf-8")
    with pytest.raises(SystemExit):
        cli.main(["topology", str(file), *option])
    assert f"{option[0]} is for Nodes" in capsys.readouterr().err
