"""Replays of public traces: Microsoft's Philly (2017) and ITP (2021) clusters.

The traces are not part of the repository. They are looked for in the folder that HIVECORE_TRACES
names, else in `shared/traces` beside the checkout.
"""

import os
from pathlib import Path

import pytest

from hivecore.sim import Workload, findings, own_nodes, replay, summarize
from hivecore.traces import load, load_virtual_clusters

FOLDER = Path(os.environ.get("HIVECORE_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
ITP = [FOLDER / "itp" / f"cluster{number}.csv" for number in ("02", "03", "04", "06", "07")]
PHILLY = FOLDER / "philly" / "jobs.csv"


def needs(path):
    reason = "the public trace is not here; HIVECORE_TRACES names the folder of traces"
    return pytest.mark.skipif(not path.is_file(), reason=reason)


@pytest.fixture(scope="module")
def itp():
    return load(ITP, "itp")


@needs(ITP[0])
@pytest.mark.parametrize(
    ("oversubscribe", "nodes"), [(1.3, [9, 14, 48, 9, 25]), (2.0, [8, 9, 31, 8, 16])]
)
def test_itp_tenants_own_nodes_by_their_average_use_and_largest_job(itp, oversubscribe, nodes):
    assert list(own_nodes(itp, oversubscribe).values()) == nodes


@needs(ITP[0])
@pytest.mark.whole_trace
@pytest.mark.parametrize(
    ("oversubscribe", "later"),
    [(1.3, [0, 2513, 0, 411, 0, 2924]), (2.0, [46, 2581, 0, 83, 0, 2710])],
)
def test_quota_delays_itp_tenants_and_cells_delays_no_job(itp, oversubscribe, later):
    assert itp.jobs == 39_686
    result = replay(Workload.of(itp, own_nodes(itp, oversubscribe)))
    assert int(result.later("cells").sum()) == 0
    quota = summarize(result, "quota")
    # Tenants of whole-node jobs pay; the last row is that of all together.
    assert [item.later for item in quota] == later
    assert max(item.max_excess for item in quota) > 3600


@needs(PHILLY)
@pytest.mark.whole_trace
def test_philly_is_so_lightly_loaded_that_quota_does_no_harm():
    trace = load(PHILLY, "philly")
    assert (trace.jobs, len(trace.tenants)) == (82_247, 15)
    owners = load_virtual_clusters(PHILLY.with_name("virtual_clusters.csv"))
    assert sum(owners.values()) == 352
    work = Workload.of(trace, owners)
    assert (work.unowned.jobs, work.oversized.jobs, work.rounded) == (18, 0, 7)
    result = replay(work)
    assert int(result.later("cells").sum()) == 0
    assert findings(result)[0] == (
        "quota starts no job later than its private cluster does (82,229 jobs compared)."
    )


@needs(FOLDER / "muri" / "trace1.csv")
@pytest.mark.parametrize(
    ("name", "jobs", "days"),
    [("trace1", 1494, 125.2), ("trace2", 5755, 99.2), ("trace3", 992, 94.5)],
)
def test_muri_traces_span_the_days_that_their_milliseconds_say(name, jobs, days):
    trace = load(FOLDER / "muri" / f"{name}.csv", "muri")
    assert (trace.jobs, trace.tenants) == (jobs, (name,))
    assert trace.submit[-1] / 86400 == pytest.approx(days, abs=0.05)
