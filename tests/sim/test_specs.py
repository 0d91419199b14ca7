"""Traces under the schedulers that specs describe, side by side."""

import json

import numpy as np
import pytest

from hivecore import cli
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Data, StoragePool
from hivecore.sim import Workload, replay, simulate
from hivecore.sim.demo import run_demo
from hivecore.sim.specs import (
    TraceJobs,
    load_jobs,
    replay_specs,
    scheduler_jobs,
    spec_figures,
    specs_report,
)
from hivecore.sim.storage import reading_from
from hivecore.traces import (
    FORMATS,
    GpuPods,
    Trace,
    generate,
    generate_storage,
    generate_training,
    save_csv,
    save_storage,
)

NODES = "cluster: {models: {m: {gpus: 8, %s}}, nodes: {'n[0-%d]': m}%s}\n"
CELLS = ", cells: {M: {levels: [gpu, pair, quad, node], fanouts: [2, 2, 2], nodes: 'n[0-%d]'}}"


def spec(nodes=1, *sections, model="nics: 0", placing=", network: {layers: {rack: 64}}"):
    return SchedulerSpec.of_yaml("\n".join([NODES % (model, nodes - 1, placing), *sections]))


def jobs(*rows):
    """Tenant, submission, duration and GPUs of each."""
    names = [str(row) for row in range(len(rows))]
    return TraceJobs.of(Trace.from_columns(names, *zip(*rows, strict=True)))


def ends(trace, **specs):
    return [run.outcome.end.tolist() for run in replay_specs(trace, specs).values()]


# --- what is asked for


def test_a_job_of_more_gpus_than_a_node_has_is_whole_nodes_and_a_rest():
    trace = jobs(("x", 0, 60, 20), ("x", 0, 60, 16), ("x", 0, 60, 3))
    for entry in (spec(3), spec(3, "devices:", placing=""), spec(3, placing=CELLS % 2)):
        jobs_ = scheduler_jobs(trace, entry.scheduler())
        assert [[(role.pods, role.gpus) for role in job.roles] for job in jobs_] == [
            [(2, 8), (1, 4)],
            [(2, 8)],
            [(1, 3)],
        ]
        assert [job.run_time for job in jobs_] == [60, 60, 60]


def test_a_job_of_more_gpus_than_a_job_can_have_is_named():
    with pytest.raises(ValueError, match="job 1 of 'x' requests 1,000,000,000,000,000 GPUs: pods"):
        scheduler_jobs(jobs(("x", 0, 60, 8), ("x", 1, 60, 10**15)), spec(2).scheduler())


def test_a_tenant_without_cells_asks_for_idle_ones():
    each = spec(2, "tenants: {x: {cells: {M: {node: 1}}}, y: {cells: {M: {node: 0}}}, z: {}}",
               placing=CELLS % 1)  # fmt: skip
    trace = jobs(("x", 0, 60, 8), ("y", 0, 60, 8), ("z", 0, 60, 8))
    jobs_ = scheduler_jobs(trace, each.scheduler())
    assert [job.guaranteed for job in jobs_] == [True, False, False]


def test_stages_are_asked_for_only_where_jobs_share_and_padded_in_front():
    trace = TraceJobs.of_training(generate_training(jobs=5, seed=0), "all")
    bare = spec().scheduler()
    assert not scheduler_jobs(trace, bare)[0].stages
    assert scheduler_jobs(trace, bare, 4)[0].stages == (0.0, *trace.stages[0])
    with pytest.raises(ValueError, match="sharing has 2 resources, and jobs have 3 stages"):
        scheduler_jobs(trace, bare, 2)


def pods(**columns):
    plain = {"cpu_milli": [4000, 8000, 2000], "memory_mib": [0, 1024, 0]}
    shares = {"gpus": [1, 2, 0], "gpu_milli": [455, 1000, 0]}
    return GpuPods(
        np.array(["a", "b", "c"]),
        **{name: np.array(column) for name, column in (plain | shares).items()},
        models=(frozenset(), frozenset({"H100"}), frozenset()),
        **columns,
    )


def test_pods_ask_for_percents_and_only_for_what_nodes_tell_of():
    times = {"created": np.array([0.0, 5.0, 6.0]), "deleted": np.array([60.0, 65.0, 66.0])}
    trace = TraceJobs.of_pods(pods(**times), "all")
    assert trace.gpus.tolist() == [0.455, 2.0, 0.0]
    bare, full = (
        scheduler_jobs(trace, spec(1, "devices:", model=model, placing="").scheduler())
        for model in ("nics: 0", "model: H100, resources: {cpu: 64, memory: 64Gi}")
    )
    part, whole, none = (job.roles[0].devices for job in bare)
    assert dict(part.need("gpu").amounts)["memory_ratio"] == 46  # never less than asked
    assert whole.need("gpu").count == 2 and not whole.models and whole.need("host") is None
    assert none is None
    part, whole, none = (job.roles[0].devices for job in full)
    assert whole.models == ("H100",)
    assert dict(whole.need("host").amounts) == {"cpu": 8000, "memory": 1 << 30}
    assert dict(none.need("host").amounts) == {"cpu": 2000}
    with pytest.raises(ValueError, match="one: pods that share GPUs need devices"):
        replay_specs(trace, {"one": spec()})


def test_pods_without_times_and_those_that_never_ran_are_left_out():
    with pytest.raises(ValueError, match="no creation_time and deletion_time"):
        TraceJobs.of_pods(pods(), "all")
    created = np.array([7.0, 5.0, 5.0])
    trace = TraceJobs.of_pods(pods(created=created, deleted=np.array([8.0, 7.0, 5.0])), "all")
    assert trace.submit.tolist() == [0, 2] and trace.duration.tolist() == [2, 1]
    assert trace.pods.gpus.tolist() == [2, 1] and trace.dropped == {"zero duration": 1}


# --- whose jobs they are


def test_a_tenant_that_a_spec_lacks_is_named_and_can_be_mapped():
    trace = jobs(("east", 0, 60, 8), ("west", 0, 60, 8), ("x", 0, 60, 8))
    two = spec(2, "tenants: {x: {}, y: {}}")
    says = "two has no tenants east, west, .* that it has .x, y., as in --tenant east=x"
    with pytest.raises(ValueError, match=says):
        replay_specs(trace, {"any": spec(2), "two": two})
    mapped = trace.with_tenants({"east": "y", "*": "x"})
    assert mapped.tenant == ("y", "x", "x")
    assert ends(mapped, two=two) == [[60, 60, 120]]
    with pytest.raises(ValueError, match="the trace has no tenant 'north', it has east, west, x"):
        trace.with_tenants({"north": "x"})


# --- what becomes of them


def test_a_cluster_of_cells_starts_jobs_when_the_built_in_policy_does():
    trace = generate({"a": 4, "b": 4}, jobs=500, seed=1, load=1.2)
    tenants = "tenants: {a: {cells: {M: {node: 4}}}, b: {cells: {M: {node: 4}}}}"
    queues = "queues: {order: round-robin, blocking: fifo}"
    each = spec(8, tenants, queues, placing=CELLS % 7)
    run = replay_specs(TraceJobs.of(trace), {"one": each})["one"]
    built_in = replay(Workload.of(trace, {"a": 4, "b": 4}), ["private"]).runs["private"]
    assert run.gpus == 64
    assert (run.outcome.start <= built_in.start + 1e-6).all()
    assert (run.outcome.start > trace.submit + 1).any()


def test_jobs_that_never_run_are_counted_with_the_reason_and_not_compared():
    trace = jobs(("x", 0, 60, 24), ("x", 0, 60, 16), ("x", 0, 30, 8))
    specs = {"small": spec(1), "large": spec(3)}
    runs = replay_specs(trace, specs)
    small, large = (spec_figures(trace, runs, name) for name in specs)
    assert (small.refused, small.compared, small.mean_completion) == (2, 1, 30)
    assert (large.refused, large.compared, large.mean_completion) == (0, 1, 90)
    assert set(runs["small"].outcome.refused) == {"0", "1"}
    notes = specs_report(trace, runs).findings
    assert notes[0] == "1 of 3 jobs run to their end under all specs."
    assert len(notes) == 2 and notes[1].startswith("small refuses 2 jobs: ")


def test_a_job_that_waits_for_ever_is_refused_with_what_it_waits_for():
    lends_not = "{max: {gpu: 16}, min: {gpu: 8}, lends: no}"
    tenants = f"tenants: {{x: {{quota: {{max: {{gpu: 16}}}}}}, y: {{quota: {lends_not}}}}}"
    trace = jobs(("x", 0, 60, 16), ("x", 0, 60, 8))
    result = replay_specs(trace, {"one": spec(2, tenants)})["one"].outcome
    assert result.end.tolist() == [np.inf, 60]
    assert result.refused == {"0": "runtime of 'x' is exceeded (gpu: 0 used + 16 asked > 8)"}


def test_figures_of_a_small_case_are_those_by_hand():
    trace = jobs(("x", 0, 60, 8), ("y", 0, 60, 8), ("x", 30, 60, 8), ("y", 240, 60, 4))
    runs = replay_specs(trace, {"one": spec(1), "two": spec(2)})
    entry, two, only_x = (
        spec_figures(trace, runs, name, tenant)
        for name, tenant in (("one", None), ("two", None), ("one", "x"))
    )
    assert (entry.mean_completion, two.mean_completion) == (97.5, 67.5)
    assert (entry.p50_completion, entry.p99_completion) == (90, pytest.approx(120 + 0.97 * 30))
    assert (entry.mean_queueing, only_x.mean_queueing) == (37.5, 45)
    assert (entry.utilisation, two.utilisation) == (0.75, 0.375)
    assert only_x.utilisation == 0.5
    with pytest.raises(KeyError, match="there is no tenant 'z'"):
        spec_figures(trace, runs, "one", "z")


def test_runs_that_were_preempted_are_lost_work():
    tenants = "tenants: {x: {quota: {max: {gpu: 8}}}, y: {quota: {max: {gpu: 8}, min: {gpu: 8}}}}"
    trace = jobs(("x", 0, 60, 8), ("y", 45, 30, 8))
    runs = replay_specs(trace, {"one": spec(1, tenants)})
    figures = spec_figures(trace, runs, "one")
    assert runs["one"].outcome.end.tolist() == [135, 75]
    assert (figures.preemptions, figures.lost_gpu_hours) == (1, 8 * 45 / 3600)


def test_jobs_that_share_gpus_take_turns_on_them():
    trace = TraceJobs(
        ("x", "x"),
        np.array([0.0, 0.0]),
        np.array([60.0, 60.0]),
        np.array([8.0, 8.0]),
        stages=((3.0, 1.0), (1.0, 3.0)),
    )
    assert ends(trace, alone=spec(), shared=spec(1, "sharing: {resources: 2}")) == [
        [60, 120],
        [60, 60],
    ]


def test_a_spec_without_storage_has_a_plain_cache_of_the_size_that_another_one_tells():
    trace = TraceJobs(
        ("x",),
        np.array([0.0]),
        np.array([600.0]),
        np.array([8.0]),
        data=(Data("images", 100.0, 60.0),),
        datasets_gb={"images": 20.0},
    )
    pool = "storage: {cache_gb: 10, bandwidth_mbps: 25%s}"
    stored = spec(1, pool % "")
    assert ends(trace, bare=spec()) == [[600]]
    allotted, plain = ends(trace, stored=stored, bare=spec())
    assert allotted == [1600]
    jobs_ = scheduler_jobs(trace, spec().scheduler())
    reading = reading_from(StoragePool(trace.datasets_gb, 10, 25), jobs_, trace.duration)
    by_hand = simulate(spec().scheduler(), jobs_, trace.submit, trace.duration, progress=reading)
    assert plain == by_hand.end.tolist() and 1600 < plain[0] < 2400
    other = spec(1, pool % ", datasets_gb: {images: 30}")
    with pytest.raises(ValueError, match="one: dataset images has 30 GB, and 20 in the trace"):
        replay_specs(trace, {"one": other})


def test_figures_that_there_are_not_are_null_in_json():
    trace = jobs(("x", 0, 60, 24))
    runs = replay_specs(trace, {"one": spec()})
    text = json.dumps(specs_report(trace, runs).data, allow_nan=False)
    result = json.loads(text)["specs"]["one"]
    assert result["all"]["mean_completion_seconds"] is None and result["all"]["utilisation"] == 0
    assert sum(result["refusals"].values()) == 1


# --- files and the command


@pytest.fixture
def files(tmp_path):
    save_csv(generate({"a": 2, "b": 2}, jobs=120, seed=0), tmp_path / "jobs.csv")
    quotas = "tenants: {a: {quota: {max: {gpu: 32}}}, b: {quota: {max: {gpu: 16}}}}"
    for name, nodes in (("two.yaml", 2), ("four.yaml", 4)):
        text = NODES % ("nics: 0", nodes - 1, ", network: {layers: {rack: 64}}")
        (tmp_path / name).write_text(text + quotas)
    return tmp_path


def run(*arguments):
    return cli.main(list(map(str, arguments)))


def test_the_command_compares_and_writes_all_forms(files, capsys):
    names = [files / "two.yaml", files / "four.yaml"]
    outputs = ["--json", files / "out.json", "--plots", files / "plots"]
    common = ["replay", "spec", files / "jobs.csv", "--format", "csv"]
    assert run(*common, "--spec", names[0], "--compare", names[1], *outputs) == 0
    out = capsys.readouterr().out
    assert "two.yaml" in out and "four.yaml" in out
    assert max(map(len, out.partition("jobs run to")[0].splitlines())) <= 80
    data = json.loads((files / "out.json").read_text())
    assert data["configuration"]["specs"] == ["two.yaml", "four.yaml"]
    two, four = (data["specs"][name]["all"] for name in ("two.yaml", "four.yaml"))
    assert (
        two["mean_completion_seconds"] > four["mean_completion_seconds"]
        and two["refused"] >= four["refused"]
    )
    assert set(data["specs"]["two.yaml"]["tenants"]) == {"a", "b"}
    assert (files / "plots" / "completions.png").read_bytes().startswith(b"\x89PNG")
    again = [*common, "--spec", *names, "--json", files / "again.json"]
    assert run(*again, "--tenant", "a=a") == 0
    other = json.loads((files / "again.json").read_text())
    assert other["specs"] == data["specs"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tenant", "a=c"], "two.yaml has no tenant c, and the trace has jobs of it"),
        (["--tenant", "a=b", "a=a"], "--tenant says a=b and a=a"),
        (["--compare", "two.yaml"], "--spec names two.yaml twice"),
        (["--compare", "jobs.csv"], "jobs.csv:1: must be a mapping"),
    ],
)
def test_mistakes_are_named(arguments, says, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    with pytest.raises(SystemExit) as end:
        run("replay", "spec", "jobs.csv", "--format", "csv", "--spec", "two.yaml", *arguments)
    assert end.value.code == 2
    assert says in capsys.readouterr().err


TEXTS = {
    "philly": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,8,480,a\n",
    "itp": "job_id,submission_time,duration,num_gpu\nfirst,5010,60,8\n",
    "muri": "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2\n0,8,1500,600,dqn,60000,100,50,30,20\n",
    "swf": "1 100 5 60 8 -1 -1 8 120 -1 1 3 4 1 2 1 -1 -1\n",
    "csv": "job_id,tenant,submit,duration,gpus\nx,a,10,60,8\n",
    "storage": "job_id,dataset,dataset_gb,epochs,rate_mbps,gpus,submit\n7,images,6,1,100,8,5\n",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
    "p,4000,1024,8,1000,7,67\n",
    "philly-json": json.dumps([{
        "jobid": "a", "vc": "x", "submitted_time": "2017-10-09 07:01:55", "attempts": [{
            "start_time": "2017-10-09 08:01:00", "end_time": "2017-10-09 08:02:00",
            "detail": [{"ip": "m1", "gpus": [f"gpu{i}" for i in range(8)]}]}]}]),
    "helios": "job_id,vc,gpu_num,submit_time,duration\n1,vc,8,2020-06-09 18:41:01,60\n",
    "alibaba-2020": "a,worker,8.0,Terminated,100.0,160.0,600.0,29.3,100.0,V100\n",
    "alibaba-2025": "instance_sn,app_name,gpu_request,creation_time,deletion_time\ni,app,8,7,67\n",
    "alibaba-2026-spot": "job_name,organization,gpu_request,worker_num,submit_time,duration,"
    "job_type\n1,13,4,2,0,60,Spot\n",
}  # fmt: skip


def test_every_format_has_an_example_here():
    assert set(TEXTS) == {*FORMATS, "storage", "openb"}


@pytest.mark.parametrize("format", TEXTS)
def test_jobs_of_every_format_run(format, tmp_path, capsys):
    """In each it is one of 8 GPUs and a minute."""
    (tmp_path / "a.csv").write_text(TEXTS[format])
    cluster = NODES % ("nics: 0", 0, ", network: {layers: {rack: 1}}")
    text = cluster + "tenants: {lab: {}}\ndevices:\nsharing: {resources: 3}\n"
    (tmp_path / "one.yaml").write_text(text + "storage: {cache_gb: 1, bandwidth_mbps: 200}\n")
    trace = ["replay", "spec", tmp_path / "a.csv", "--format", format]
    outputs = ["--json", tmp_path / "out.json"]
    assert run(*trace, "--spec", tmp_path / "one.yaml", "--tenant", "*=lab", *outputs) == 0
    result = json.loads((tmp_path / "out.json").read_text())["specs"]["one.yaml"]["all"]
    assert (result["jobs"], result["refused"], result["mean_completion_seconds"]) == (1, 0, 60)
    assert result["utilisation"] == 1


def test_in_formats_without_tenants_a_file_is_one(tmp_path):
    for name, seed in (("east.csv", 0), ("west.csv", 1)):
        save_storage(generate_storage(jobs=20, seed=seed), tmp_path / name)
    east, west = (load_jobs([tmp_path / name], "storage") for name in ("east.csv", "west.csv"))
    both = load_jobs([tmp_path / "east.csv", tmp_path / "west.csv"], "storage")
    assert set(both.tenant) == {"east", "west"}
    assert (np.diff(both.submit) >= 0).all() and both.submit[0] == 0
    for entry in (east, west):
        rows = [row for row, name in enumerate(both.tenant) if name == entry.tenant[0]]
        assert [both.data[row] for row in rows] == list(entry.data)
        assert both.duration[rows].tolist() == entry.duration.tolist()
    (tmp_path / "more").mkdir()
    save_storage(generate_storage(jobs=20, seed=0), tmp_path / "more" / "east.csv")
    with pytest.raises(ValueError, match="several files are named 'east'"):
        load_jobs([tmp_path / "east.csv", tmp_path / "more" / "east.csv"], "storage")


def test_what_is_no_trace_spec_demo_or_pool_is_named():
    trace = TraceJobs.of(Trace.from_columns(["a"], ["x"], [0], [1], [1]))
    for call, says in (
        (lambda: TraceJobs.of("x"), "trace must be a Trace, not str"),
        (lambda: replay_specs("x", {}), "trace must be a TraceJobs, not str"),
        (lambda: replay_specs(trace, ["a"]), "specs must be a mapping, not list"),
        (lambda: run_demo(trace, 1.0, 1.0), "work must be a TenantsTrace, not TraceJobs"),
        (lambda: reading_from(None, [], []), "pool must be a StoragePool, not NoneType"),
    ):
        with pytest.raises(TypeError, match=says):
            call()
