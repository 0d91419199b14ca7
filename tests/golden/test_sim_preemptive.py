"""Training jobs on Muri's traces, against the figures that its authors' simulator gave.

The recorded figures are in `published.csv` beside the traces; some of them come from runs without
autopack and some with it. The traces are looked for as in `test_sim.py`.
"""

import csv
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hivecore.reference.muri_matching import muri_groups
from hivecore.sim.preemptive import Jobs, MuriOptions, job_figures, schedule
from hivecore.traces import load_training

FOLDER = Path(os.environ.get("HIVECORE_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
MURI = FOLDER / "muri"
ALL = ("mean_completion", "p99_completion", "makespan")
METRICS = dict(zip(("avg_jct_s", "p99_jct_s", "makespan_s"), ALL, strict=True))

pytestmark = pytest.mark.skipif(
    not MURI.is_dir(), reason="the public traces are not here; HIVECORE_TRACES names their folder"
)
whole_trace = pytest.mark.whole_trace


@cache
def jobs_of(name):
    """A trace; its `_pr` form has all jobs submitted at time 0."""
    trace = load_training(MURI / f"{name.removesuffix('_pr')}.csv")
    if name.endswith("_pr"):
        trace = replace(trace, submit=np.zeros_like(trace.submit))
    return Jobs.of(trace)


@cache
def recorded():
    """The simulated runs: {(trace, policy): {metric: (value, half of its last digit)}}."""
    results = {}
    for row in csv.DictReader((MURI / "published.csv").read_text().splitlines()):
        if row["figure"][:2].strip("abc") in {"9", "10", "11", "12", "13"}:
            decimals = len(row["value"].partition(".")[2])
            figure = (float(row["value"]), 0.5 * 10.0**-decimals)
            trace = "trace3" if row["trace"] == "job_type_4" else row["trace"]
            results.setdefault((trace, row["policy"]), {})[METRICS[row["metric"]]] = figure
    return results


@cache
def figures(trace, policy, **options):
    options = MuriOptions(rounds=muri_groups, **options)
    jobs = jobs_of(trace)
    outcome = schedule(jobs, policy, muri=options)
    # The authors do not interpolate: theirs is the job at place floor(0.99 jobs).
    times = sorted(end - submit for end, submit in zip(outcome.end, jobs.submit, strict=True))
    return replace(job_figures(jobs, outcome), p99_completion=times[int(0.99 * len(times))])


def assert_as_recorded(result, trace, name, metrics=ALL):
    checked = recorded()[trace, name]
    for metric in metrics:
        value, half = checked[metric]
        assert getattr(result, metric) == pytest.approx(value, rel=1e-9, abs=1.01 * half), metric


@pytest.mark.parametrize("policy", ["SRTF", "SRSF", "Tiresias"])
@pytest.mark.parametrize(
    "number", [1, pytest.param(2, marks=whole_trace), 3, pytest.param(4, marks=whole_trace)]
)
@pytest.mark.parametrize("form", ["", "_pr"])
def test_preemptive_policies_give_the_recorded_figures(policy, number, form):
    trace = f"trace{number}{form}"
    assert_as_recorded(figures(trace, policy.lower()), trace, policy)


@pytest.mark.parametrize("policy", ["SRTF", "Tiresias"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_fewer_kinds_of_jobs_give_the_recorded_figures(policy, number):
    trace = f"job_type_{number}"
    assert_as_recorded(figures(trace, policy.lower()), trace, policy, ["mean_completion"])


@whole_trace
def test_muri_gives_the_recorded_figures_on_trace3():
    short = figures("trace3", "muri-s", autopack=False)
    assert_as_recorded(short, "trace3", "Muri-S")
    # The recorded mean is of a run with autopack, the recorded p99 of one without it.
    packed, unpacked = (figures("trace3", "muri-l", autopack=on) for on in (True, False))
    assert_as_recorded(packed, "trace3", "Muri-L", ["mean_completion", "makespan"])
    assert_as_recorded(unpacked, "trace3", "Muri-L", ["p99_completion", "makespan"])


@whole_trace
@pytest.mark.parametrize(
    ("name", "largest", "metrics", "events"),
    [
        ("Muri-S", 4, ALL, 988),
        ("Muri-L", 4, ALL, 993),
        ("Muri-L-2", 2, ["mean_completion", "makespan"], 993),
        ("Muri-L-3", 3, ["mean_completion", "makespan"], 993),
    ],
)
def test_muri_gives_the_recorded_figures_when_all_jobs_come_at_once(name, largest, metrics, events):
    result = figures("trace3_pr", name[:6].lower(), autopack=False, largest=largest)
    assert_as_recorded(result, "trace3_pr", name, metrics)
    assert result.events == events


@pytest.mark.parametrize(
    "trace", ["trace3", *(pytest.param(name, marks=whole_trace) for name in ("trace1", "trace4"))]
)
def test_muri_without_matching_gives_the_recorded_figures(trace):
    result = figures(trace, "muri-l", autopack=False, matching=False)
    metrics = ["mean_completion", "makespan"]
    assert_as_recorded(result, trace, "Muri-L w/o Blossom", metrics)


@whole_trace
def test_muri_in_the_worst_order_gives_the_recorded_figures():
    result = figures("trace3", "muri-l", autopack=False, worst_order=True)
    metrics = ["mean_completion", "makespan"]
    assert_as_recorded(result, "trace3", "Muri-L w/ worst ordering", metrics)


@whole_trace
@pytest.mark.parametrize(
    ("policy", "number"),
    [("Muri-S", 1), ("Muri-S", 2), ("Muri-S", 3), ("Muri-L", 2), ("Muri-L", 3)],
)
def test_muri_gives_the_recorded_figures_with_fewer_kinds_of_jobs(policy, number):
    trace = f"job_type_{number}"
    assert_as_recorded(figures(trace, policy.lower()), trace, policy, ["mean_completion"])


@pytest.mark.parametrize(
    ("policy", "options", "expected"),
    [
        ("srtf", {}, (247_452.951389, 4_066_819.995340, 2_726_257.330000)),
        ("srsf", {}, (233_909.169400, 4_198_586.591175, 3_080_984.527375)),
        ("tiresias", {}, (328_736.501183, 3_991_729.080450, 2_847_184.146585)),
        ("muri-s", {"autopack": True}, (120_033.713815, 2_663_198.680519, 797_906.036504)),
        ("muri-s", {"autopack": False}, (120_273.806047, 2_663_275.906687, 795_175.639108)),
        ("muri-l", {"autopack": True}, (127_846.003041, 2_671_191.064545, 869_497.072355)),
        ("muri-l", {"autopack": False}, (125_001.723623, 2_671_073.274781, 854_098.048663)),
    ],
)
def test_the_authors_simulator_agrees_on_cluster_trace(policy, options, expected):
    result = figures("cluster_trace", policy, **options)
    assert (
        result.mean_completion,
        result.makespan,
        result.p99_completion,
    ) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "largest", "expected"),
    [("muri-s", 1, 184_971.580426), ("muri-l", 2, 133_277.804076)],
)
def test_the_authors_simulator_agrees_on_smaller_groups(policy, largest, expected):
    result = figures("trace3", policy, largest=largest)
    assert result.mean_completion == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("trace", "policy", "events"),
    [
        ("trace3", "srtf", 1984),
        ("trace3", "srsf", 1984),
        ("trace3", "tiresias", 3358),
        ("trace3_pr", "srtf", 992),
        ("trace3_pr", "srsf", 990),
        ("cluster_trace", "srtf", 800),
        ("cluster_trace", "tiresias", 1329),
        ("cluster_trace", "muri-s", 800),
    ],
)
def test_the_authors_simulator_has_as_many_events(trace, policy, events):
    assert figures(trace, policy).events == events


@pytest.mark.parametrize("policy", ["Muri-S", "Muri-L"])
def test_the_library_s_own_matching_comes_near(policy):
    jobs = jobs_of("trace3")
    result = job_figures(jobs, schedule(jobs, policy.lower(), muri=MuriOptions(autopack=False)))
    value, _ = recorded()["trace3", policy]["mean_completion"]
    assert result.mean_completion == pytest.approx(value, rel=0.02)
    assert result.makespan == pytest.approx(8_174_135.28, rel=1e-6)


@cache
def mean_of(trace, policy, **options):
    jobs = jobs_of(trace)
    return job_figures(jobs, schedule(jobs, policy, muri=MuriOptions(**options))).mean_completion


def test_the_best_groups_of_muri_s_own_candidates_give_what_an_integer_program_gave():
    # 105,882 s with HiGHS in the authors' simulator: equally good groups of other jobs.
    result = mean_of("cluster_trace", "muri-exact-s", candidates=(4, 4))
    assert result == pytest.approx(105_882, rel=1e-3)


@pytest.mark.parametrize(
    "trace",
    [
        "cluster_trace",
        pytest.param("trace3", marks=whole_trace),
        pytest.param("trace3_pr", marks=whole_trace),
    ],
)
@pytest.mark.parametrize(("form", "shorter"), [("s", 0.09), ("l", 0.08)])
def test_the_best_groups_end_jobs_sooner(trace, form, shorter):
    # On the trace of Muri's testbed under Muri-S the aim is 11 %.
    if (trace, form) == ("cluster_trace", "s"):
        shorter = 0.11
    by_matching = mean_of(trace, f"muri-{form}")
    assert mean_of(trace, f"muri-exact-{form}") <= (1 - shorter) * by_matching
