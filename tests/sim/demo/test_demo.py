"""The demo: figures by hand, the books, what cells promise, and the report."""

from dataclasses import fields, replace

import joblib
import numpy as np
import pytest

from hivecore.scheduler import Job, PlacedPod, Preempt, Promote, Role, Start
from hivecore.sim.columns import minutes
from hivecore.sim.demo import (
    ALONE,
    CONFIGURATIONS,
    Demo,
    DemoFigures,
    DemoRun,
    demo_figures,
    demo_findings,
    demo_report,
    run_demo,
)
from hivecore.sim.demo.ledger import Ledger
from hivecore.sim.worlds import InterleavedGpus
from hivecore.traces import TenantsTrace, Trace, generate_tenants

HOUR = 3600.0


@pytest.fixture(scope="module")
def generated():
    return generate_tenants(jobs=300, seed=0, load=0.9, days=0.3)


@pytest.fixture(scope="module")
def demo(generated):
    return run_demo(generated, 1000.0, 6000.0)


def by_hand():
    """Two tenants of a node each; the third job comes at 2 h, where the window ends."""
    trace = Trace.from_columns(
        ["0", "1", "2"], ["x", "x", "y"], [0, 1 * HOUR, 2 * HOUR], [HOUR, 2 * HOUR, HOUR], [8, 8, 4]
    )
    none = np.zeros(3)
    product = TenantsTrace(trace, {"x": 1, "y": 1}, np.ones((3, 3)), np.array(["", "", ""]), none, {})

    def run(start, end, lost=(0, 0, 0)):
        return DemoRun(*(np.array(entry, dtype=float) * HOUR for entry in (start, end, lost)), None)

    runs = dict.fromkeys(CONFIGURATIONS, run([0, 1, 2], [1, 3, 3]))
    runs[ALONE] = run([0, 1, 2], [1, 3, 3])
    # The second job starts half an hour later; the third lost half an hour of work, and ran slowly.
    runs["quotas"] = run([0, 1.5, 2], [1, 4, 5], [0, 0, 0.5])
    return Demo(product, 1.0, 1.0, {ALONE: runs.pop(ALONE), **runs})


def test_figures_are_those_worked_out_by_hand():
    figures = demo_figures(by_hand(), "quotas")
    assert figures == DemoFigures(
        jobs=3,
        mean_completion=(1 + 3 + 3) / 3 * HOUR,
        p99_completion=3 * HOUR,
        mean_queueing=pytest.approx(0.5 / 3 * HOUR),
        # 8 GPU-hours of the first; of the second's 16 in 2.5 hours those of half an hour.
        utilisation=pytest.approx((8 + 16 * 0.5 / 2.5) / (16 * 2)),
        later=1,
        max_excess=0.5 * HOUR,
        ends_later=2,
        lost_gpu_hours=2.0,
    )
    own = demo_figures(by_hand(), "quotas", "y")
    assert (own.jobs, own.later, own.ends_later, own.utilisation) == (1, 0, 1, 0.0)
    for wrong in (("magic", None), ("cells", "z")):
        with pytest.raises((KeyError, ValueError)):
            demo_figures(by_hand(), *wrong)


def test_findings_name_what_lengthens_and_what_brings_nothing():
    delayed, first, second, third = demo_findings(by_hand())
    assert delayed == (
        "The job that quotas delay most is of x and has 8 GPUs. It waits 30.0 minutes under quotas, "
        "0.0 alone, 0.0 in cells, 0.0 with all parts."
    )
    assert first == (
        "The mean completion time is 140 minutes under quotas and 80.0 with all parts. Each part "
        "changes it: cells -43%, lending nothing, sharing nothing, data nothing."
    )
    assert second == (
        "Of 3 jobs so many start later than alone: quotas 1, cells 0, lending 0, sharing 0, data 0."
    )
    assert third == "GPU-hours of work lost as jobs were stopped for others: quotas 2."


def test_the_books_have_every_run_and_hold_shared_gpus_once():
    jobs = [
        Job("a", "x", [Role("pod", 2, gpus=8)], stages=[1, 1]),
        Job("b", "x", [Role("pod", 2, gpus=8)], stages=[1, 1]),
        Job("c", "y", 4),
    ]
    ledger = Ledger(InterleavedGpus(jobs), jobs, {"n0": 0, "n1": 1, "n2": 2})
    two = tuple(PlacedPod("pod", at, node) for at, node in enumerate(("n0", "n1")))
    ledger.obey([Start("a", two), Start("c", (PlacedPod("pod", 0, "n2"),), lent=True)], 1.0)
    ledger.obey([Start("b", two, ("a",))], 2.0)
    ledger.obey([Promote("c", (PlacedPod("pod", 0, "n0"),))], 3.0)
    ledger.end("a", 4.0)
    ledger.obey([Preempt("c", "b", "priority")], 5.0)
    ledger.obey([Start("c", (PlacedPod("pod", 0, "n2"),))], 6.0)
    ledger.end("b", 7.0)
    ledger.end("c", 9.0)
    books = ledger.books()
    runs = sorted(zip(books.job.tolist(), books.runs.tolist(), strict=True))
    assert runs == [(0, [1, 4]), (1, [2, 7]), (2, [1, 5]), (2, [6, 9])]
    columns = (books.holder, books.node, books.gpus, books.held)
    held = sorted(zip(*(column.tolist() for column in columns), strict=True))
    assert held == [
        (0, 0, 8, [1, 7]),
        (0, 1, 8, [1, 7]),
        (2, 0, 4, [3, 5]),
        (2, 2, 4, [1, 3]),
        (2, 2, 4, [6, 9]),
    ]


def test_no_node_gives_more_gpus_than_it_has_and_every_job_ends_with_a_run(demo):
    for name in CONFIGURATIONS:
        run = demo.runs[name]
        last = dict(zip(run.books.job.tolist(), run.books.runs.tolist(), strict=True))
        assert [last[row] for row in range(demo.work.trace.jobs)] == [
            list(pair) for pair in zip(run.start.tolist(), run.end.tolist(), strict=True)
        ]
        for node in range(54):
            here = run.books.node == node
            if not here.any():
                continue
            begin, end = run.books.held[here].T
            # What ends at an instant makes room for what begins then.
            events = sorted(
                [(when, -gpus) for when, gpus in zip(end, run.books.gpus[here], strict=True)]
                + [(when, gpus) for when, gpus in zip(begin, run.books.gpus[here], strict=True)]
            )
            assert max(np.cumsum([gpus for _, gpus in events])) <= 8


def test_equal_traces_give_equal_demos(generated, demo):
    again = run_demo(generated, 1000.0, 6000.0)
    for name, run in demo.runs.items():
        assert again.runs[name].end.tolist() == run.end.tolist()


def test_if_no_job_waits_for_data_cells_keep_every_guarantee_and_storage_changes_nothing():
    trace = generate_tenants(jobs=600, seed=1, load=1.3, days=0.6)
    idle = replace(trace, dataset=np.full(600, ""), rate_mbps=np.zeros(600))
    demo = run_demo(idle, 1000.0, 1.0)
    assert demo_figures(demo, "cells").later == 0
    assert demo_figures(demo, "cells").ends_later == 0
    assert demo_figures(demo, "quotas").later > 0
    assert demo.runs["+ data"].end.tolist() == demo.runs["+ sharing"].end.tolist()
    assert demo.runs["+ lending"].end.tolist() != demo.runs["cells"].end.tolist()


def test_with_remote_io_for_all_only_jobs_that_share_are_slowed(generated):
    demo = run_demo(generated, 1000.0, 1e6)
    for name in (ALONE, "quotas", "cells", "+ lending"):
        run = demo.runs[name]
        assert run.end - run.start == pytest.approx(generated.trace.duration)
    assert (demo.runs["+ sharing"].end - demo.runs["+ sharing"].start).sum() > sum(
        generated.trace.duration
    )


def test_progress_is_reported_for_every_finished_configuration(generated):
    messages = []
    run_demo(generated, 1000.0, 6000.0, messages.append)
    assert sorted(messages) == sorted([ALONE, *CONFIGURATIONS])


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("progress", [None, str])
def test_configurations_that_run_at_once_come_to_the_same(backend, progress, generated, demo):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        outcome = run_demo(generated, 1000.0, 6000.0, progress)
    assert list(outcome.runs) == list(demo.runs)
    for name, run in outcome.runs.items():
        assert state(run) == state(demo.runs[name]), name


def state(run):
    """All numbers of a run, bit by bit."""
    books = [] if run.books is None else [getattr(run.books, f.name) for f in fields(run.books)]
    return [column.tobytes() for column in (run.start, run.end, run.lost, *books)]


def test_a_job_of_a_size_that_no_cells_have_is_refused(generated):
    gpus = generated.trace.gpus.copy()
    gpus[0] = 3
    with pytest.raises(ValueError, match="work: a job has a size that no cells have"):
        run_demo(replace(generated, trace=generated.trace.replace(gpus=gpus)), 1.0, 1.0)


def test_table_and_json_tell_the_same(demo):
    report = demo_report(demo)
    names, means = (list(column) for column in list(zip(*report.cells(), strict=True))[:2])
    assert names == [ALONE, *CONFIGURATIONS]
    assert report.cells()[0][-3:] == [""] * 3
    document = report.data["configurations"]
    given = [minutes(document[name]["all"]["mean_completion_seconds"]) for name in names]
    assert given == means
    assert set(document["cells"]["tenants"]) == set(demo.work.nodes)
    assert (
        sum(tenant["later"] for tenant in document["quotas"]["tenants"].values())
        == (document["quotas"]["all"]["later"])
    )
