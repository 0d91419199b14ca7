import json
from dataclasses import fields
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from sim.tenant_clusters import workload

from hivecore.sim import LENDING, POLICIES, Figures, Workload, findings, replay, summarize
from hivecore.sim.columns import Column, as_json, count, label
from hivecore.sim.demo import DemoFigures
from hivecore.sim.preemptive import JobFigures
from hivecore.sim.report import Report
from hivecore.sim.specs import SpecFigures
from hivecore.sim.storage import StorageFigures
from hivecore.sim.tenants import pictures, tenants_report
from hivecore.traces import Trace

# x's leftovers on both nodes keep y's last job waiting under quota: from 20 until 100.
JOBS = [
    ("x", 0, 10, 4),
    ("y", 0, 10, 2),
    ("x", 0, 100, 2),
    ("x", 0, 100, 1),
    ("y", 20, 10, 8),
    ("y", 40, 5, 3),
]


def replayed(jobs=JOBS, opportunistic=False, policies=POLICIES, **nodes):
    work = workload(jobs, nodes or {"x": 1, "y": 1}, {"zero GPUs": 2})
    return replay(work, policies, opportunistic)


def test_figures_are_those_of_the_hand_computed_replay():
    x, y, everyone = summarize(replayed(), "quota")
    assert (x.later, x.max_excess, x.mean_delay) == (0, 0.0, 0.0)
    # y starts at 0, 100 and 110; in its private cluster at 0, 20 and 40.
    assert (y.nodes, y.jobs, y.later) == (1, 3, 2)
    assert y.mean_delay == pytest.approx((80 + 70) / 3)
    assert y.max_delay == 80
    assert y.p99_delay == pytest.approx(np.percentile([0, 80, 70], 99))
    assert (y.mean_excess, y.max_excess) == (75, 80)
    assert (everyone.tenant, everyone.nodes, everyone.jobs, everyone.later) == (None, 2, 6, 2)
    # Until the last submission at 40.
    assert x.utilisation == pytest.approx((4 * 10 + 3 * 40) / (8 * 40))
    assert y.utilisation == pytest.approx(2 * 10 / (8 * 40))


def test_a_tenant_without_jobs_has_figures_of_zero():
    idle = summarize(replayed(x=1, y=1, idle=2), "cells")[0]
    assert (idle.tenant, idle.nodes, idle.jobs, idle.mean_delay) == ("idle", 2, 0, 0.0)


def test_findings_name_the_harmed_tenants_and_the_kept_promise():
    quota, cells, means = findings(replayed())
    assert quota == (
        "quota starts 2 of 6 jobs later than their private clusters do: "
        "2 of 3 jobs of y (mean 1 min, max 1 min)."
    )
    assert cells == ("cells starts no job later than its private cluster does (6 jobs compared).")
    assert means == (
        "Mean queueing delay over all jobs: private 0.0 min, quota 0.4 min, cells 0.0 min."
    )


def test_a_difference_of_rounding_is_not_later():
    result = replayed()
    result.runs["quota"].start[:] = result.runs["private"].start + 1e-9
    assert not result.later("quota").any()


def test_findings_report_borrowing():
    jobs = [("x", 0, 3600, 8), ("x", 0, 3600, 8), ("y", 1800, 3600, 8), ("y", 1800, 60, 8)]
    sentence = findings(replayed(jobs, opportunistic=True))[2]
    assert sentence.startswith("Opportunistic jobs did ")
    assert "1 were preempted and lost 4 GPU-hours." in sentence


def test_notes_list_owners_and_what_was_changed_or_left_out():
    jobs = [*JOBS, ("unowned", 0, 3600, 8), ("x", 0, 7200, 16)]
    assert tenants_report(replayed(jobs)).findings[:5] == [
        "Nodes of 8 GPUs: 2, of which x owns 1, y owns 1.",
        "2 jobs of the trace dropped: zero GPUs.",
        "1 job rounded up to a cell size, in all policies alike.",
        "1 job (8 GPU-hours) left out: their tenants own no node.",
        "1 job (32 GPU-hours) left out: larger than all that their tenants own.",
    ]


def test_the_table_has_a_row_per_tenant_and_policy():
    columns = list(zip(*tenants_report(replayed()).cells(), strict=True))
    assert columns[0] == ("x", "", "", "y", "", "", "all", "", "")
    assert columns[1] == ("3", "", "", "3", "", "", "6", "", "")
    assert columns[2] == ("private", "quota", "cells") * 3
    assert columns[6] == ("", "0", "0", "", "2", "0", "", "2", "0")


def test_a_name_is_repeated_only_where_a_row_stands_alone():
    columns = [label("policy", once=True), label("system"), count("jobs"), Column("use", "{:.1f}")]
    rows = [("a", "x", 1000, float("nan")), ("a", "y", 2, None), ("b", "x", 3, 0.5)]
    report = Report("T", columns, rows, ["use: of all"])
    assert report.cells() == [["a", "x", "1,000", "-"], ["", "y", "2", ""], ["b", "x", "3", "0.5"]]
    assert "policy a, system y\n  jobs             2\n\n" in report.lists(20)
    printed = [list(map(str, column.cells)) for column in report.table().columns]
    assert printed == [list(entry) for entry in zip(*report.cells(), strict=True)]


@pytest.mark.parametrize("name", ["[/x]", "[red]x", "_x", r"x$\frac$"])
def test_names_are_shown_as_they_are(name, tmp_path):
    trace = Trace.from_columns(["1"], [name], [0], [60], [8])
    result = replay(Workload.of(trace, {name: 1}))
    with StringIO() as out:
        Console(file=out, width=200).print(tenants_report(result).table())
        assert name in out.getvalue()
    assert len(tenants_report(result).save_pictures(tmp_path)) == 3


def test_a_tenant_without_jobs_is_no_subject_of_a_picture(tmp_path):
    trace = Trace.from_columns(["1", "2"], ["b", "b"], [0, 100], [60, 60], [8, 4])
    result = replay(Workload.of(trace, {"a": 1, "b": 2}))
    assert len(tenants_report(result).save_pictures(tmp_path)) == 3


def test_lending_is_a_row_a_sentence_and_a_bar_of_its_own(tmp_path):
    jobs = [("x", 0, 3600, 8), ("x", 0, 3600, 8), ("y", 1800, 3600, 8), ("y", 1800, 60, 8)]
    result = replayed(jobs, policies=(*POLICIES, LENDING))
    report = tenants_report(result)
    assert [row[2] for row in report.rows] == ["private", "quota", "cells", "lending"] * 3
    assert "lending: cells, and waiting jobs" in report.notes[-1]
    assert len(tenants_report(replayed(jobs)).notes) == len(report.notes) - 1
    sentences = findings(result)
    assert sentences[1].startswith("cells starts no job later")
    assert sentences[2].startswith("lending starts")
    assert sentences[3].startswith("Opportunistic jobs did")
    assert sentences[4].count("lending") == 1
    assert len(tenants_report(result).save_pictures(tmp_path)) == 3


def test_nothing_free_is_drawn_as_a_gap_and_not_as_no_fragmentation(tmp_path):
    share = pictures._share(np.array([0, 2, 0]), np.array([0, 4, 4]))
    assert np.isnan(share[0])
    assert share[1:].tolist() == [50, 0]


def test_json_carries_all_figures_and_survives_a_round_trip():
    result = replayed(opportunistic=True)
    data = tenants_report(result).to_json({"load": 1.0}, {"replay": 0.5})
    assert json.loads(json.dumps(data)) == data
    assert data["schema"] == "hivecore.replay/2"
    assert data["configuration"] == {"load": 1.0}
    assert data["runtime_seconds"] == {"replay": 0.5}
    assert data["workload"]["nodes"] == {"x": 1, "y": 1}
    assert data["workload"]["dropped"] == {"zero GPUs": 2}
    assert data["policies"]["quota"]["tenants"]["y"]["later"] == 2
    assert data["policies"]["quota"]["borrowing"] is None
    assert set(data["policies"]["cells"]["borrowing"]) == {
        "gpu_hours",
        "promotions",
        "preemptions",
        "lost_gpu_hours",
    }
    assert data["violations"]["quota"] == {"compared": 6, "later": 2}
    assert data["violations"]["cells"]["compared"] == 6
    samples = data["samples"]
    assert len(samples["instants_seconds"]) == len(samples["quota"]["free"]) == 400
    assert data["findings"] == findings(result)


@pytest.mark.parametrize("record", [Figures, JobFigures, StorageFigures, SpecFigures, DemoFigures])
def test_each_time_of_a_record_says_its_unit_in_json(record):
    plain = {"utilisation", "busy", "hits", "fairness_min", "fairness_mean"}
    product = record(**{field.name: 0.5 for field in fields(record)})
    floats = {field.name for field in fields(record) if "float" in str(field.type)}
    for name in as_json(product):
        if not any(name.startswith(float) for float in floats):
            continue
        assert name in plain or name.endswith(("_seconds", "_hours", "_mbps", "_tb")), name


def test_equal_inputs_give_equal_results():
    assert tenants_report(replayed()).data == tenants_report(replayed()).data


@pytest.mark.parametrize("jobs", [JOBS, JOBS[:4], JOBS[:1]], ids=["harm", "no harm", "one job"])
def test_plots_are_written(jobs, tmp_path):
    paths = tenants_report(replayed(jobs)).save_pictures(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["tenants.png", "excess.png", "fragmentation.png"]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
