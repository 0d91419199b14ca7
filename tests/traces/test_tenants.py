"""Five tenants of different characters: what the generator promises."""

import numpy as np
import pytest

from hivecore.traces import generate_tenants

COLUMNS = ("stages", "dataset", "rate_mbps")


def rows_of(generated, tenant):
    return generated.trace.tenant == generated.trace.tenants.index(tenant)


@pytest.fixture(scope="module")
def generated():
    return generate_tenants(jobs=2000, seed=3, load=0.9, days=2.0)


def test_equal_seeds_give_equal_traces_and_others_do_not():
    entry, same, other = (generate_tenants(jobs=300, seed=seed) for seed in (1, 1, 2))
    for name in COLUMNS:
        assert getattr(entry, name).tolist() == getattr(same, name).tolist()
    for name in ("tenant", "submit", "duration", "gpus"):
        assert getattr(entry.trace, name).tolist() == getattr(same.trace, name).tolist()
    assert entry.trace.submit.tolist() != other.trace.submit.tolist()
    assert entry.datasets_gb == other.datasets_gb and entry.nodes == other.nodes


@pytest.mark.parametrize("load", [0.5, 1.2])
def test_every_tenant_has_the_asked_load_and_no_job_is_larger_than_its_tenant(load):
    trace = generate_tenants(jobs=800, seed=0, load=load, days=2.0)
    assert trace.trace.jobs == 800
    for tenant, nodes in trace.nodes.items():
        own = rows_of(trace, tenant)
        work = float(trace.trace.gpus[own] @ trace.trace.duration[own])
        assert work / (8 * nodes * 2 * 86400) == pytest.approx(load)
        assert trace.trace.gpus[own].max() <= 8 * nodes
    # From the first submission on; a burst that begins at the end is cut off there.
    assert 1.8 * 86400 < trace.trace.submit[-1] <= 2 * 86400


def test_sizes_are_those_of_cells(generated):
    small = generated.trace.gpus[generated.trace.gpus <= 8]
    assert set(small.tolist()) == {1, 2, 4, 8}
    assert set((generated.trace.gpus[generated.trace.gpus > 8] % 8).tolist()) == {0}


def test_tenants_differ_as_they_are_described(generated):
    gpus, rate, stages = generated.trace.gpus, generated.rate_mbps, generated.stages
    bound = {
        tenant: stages[rows_of(generated, tenant)].argmax(axis=1) for tenant in generated.nodes
    }
    read = {
        tenant: float(rate[own] @ generated.trace.duration[own])
        for tenant in generated.nodes
        for own in [rows_of(generated, tenant)]
    }
    # Most of what is read is for vision, which waits for it.
    assert read["vision"] > 0.5 * sum(read.values())
    assert (bound["vision"] == 0).mean() > 0.5
    assert max(rate[rows_of(generated, "vision")] / gpus[rows_of(generated, "vision")]) == 114.0
    # Gangs of language are at the network longer, the larger they are.
    own = rows_of(generated, "language")
    assert gpus[own].min() == 8 and gpus[own].max() == 64
    assert (bound["language"] == 2).any()
    network = [stages[own & (gpus == size), 2].mean() for size in (8, 32)]
    assert network[1] > 1.5 * network[0]
    # Ads have most of the jobs, all small.
    own = rows_of(generated, "ads")
    assert own.sum() == 860 and gpus[own].max() == 2
    # Robots come at equal intervals, each on all nodes of the tenant, and read nothing.
    own = rows_of(generated, "robots")
    gaps = np.diff(generated.trace.submit[own])
    assert gaps.max() - gaps.min() < 1e-6
    assert set(gpus[own].tolist()) == {48}
    assert set(generated.dataset[own].tolist()) == {""} and rate[own].max() == 0.0
    # Speech comes twenty at once.
    gaps = np.diff(generated.trace.submit[rows_of(generated, "speech")])
    assert 0.9 < (gaps < 5.5).mean() < 0.96


def test_what_is_read_is_there_and_a_burst_reads_one_dataset(generated):
    reads = generated.dataset != ""
    assert set(generated.dataset[reads].tolist()) <= set(generated.datasets_gb)
    assert (generated.rate_mbps[reads] > 0).all() and (generated.rate_mbps[~reads] == 0).all()
    assert (generated.stages.sum(axis=1) > 0).all() and generated.stages.min() >= 0.0
    own = np.flatnonzero(rows_of(generated, "speech"))
    order = own[np.argsort(generated.trace.submit[own], kind="stable")]
    alike = generated.dataset[order][1:] == generated.dataset[order][:-1]
    assert alike.mean() > 0.9


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"jobs": 49}, "jobs must be at least 50, not 49"),
        ({"load": 0.0}, "load must be finite and positive"),
        ({"load": float("nan")}, "load must be finite and positive"),
        ({"days": 0.0}, "days must be finite and positive, not 0.0"),
        ({"days": float("inf")}, "days must be finite and positive, not inf"),
        ({"seed": -1}, "seed=-1: allowed are 0 to"),
        ({"jobs": float("inf")}, "jobs must be an integer, not float"),
        ({"days": "3"}, "days must be a float, not str"),
    ],
)
def test_what_no_trace_can_have_is_refused(change, says):
    with pytest.raises((TypeError, ValueError), match=says):
        generate_tenants(**{"jobs": 100, "seed": 0} | change)
