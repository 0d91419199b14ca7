import numpy as np
import pytest

from hivecore.traces import generate

NODES = {"trainer": 8, "experimenter": 12, "small": 1}


def test_equal_seeds_give_equal_traces_and_others_do_not():
    entry, same, other = (generate(NODES, jobs=300, seed=seed) for seed in (1, 1, 2))
    for column in ("job_id", "tenant", "submit", "duration", "gpus"):
        assert getattr(entry, column).tolist() == getattr(same, column).tolist()
    assert entry.submit.tolist() != other.submit.tolist()


@pytest.mark.parametrize("load", [0.3, 1.0, 2.5])
def test_every_tenant_has_the_asked_load(load):
    trace = generate(NODES, jobs=3000, seed=5, load=load)
    span = trace.submit[-1]
    for code, name in enumerate(trace.tenants):
        own = trace.tenant == code
        in_use = trace.gpus[own] @ trace.duration[own] / span
        # The span drawn and the span that the last submission leaves differ a little.
        assert in_use / (8 * NODES[name]) == pytest.approx(load, rel=0.05)


def test_no_job_is_larger_than_its_tenant_and_each_tenant_has_jobs():
    trace = generate(NODES, jobs=2000, seed=0)
    for code, name in enumerate(trace.tenants):
        assert 1 <= trace.gpus[trace.tenant == code].max() <= 8 * NODES[name]
    assert len(trace) == 2000
    assert len(generate(NODES, jobs=3, seed=0)) == 3


def test_jobs_come_in_bursts_of_one_size_as_in_itp():
    trace = generate(NODES, jobs=20_000, seed=0)
    for code in range(2):
        own = trace.tenant == code
        gaps = np.diff(trace.submit[own])
        assert 2.0 < gaps.std() / gaps.mean() < 5.5
        sizes = trace.gpus[own]
        by_chance = (np.bincount(sizes) / len(sizes)) ** 2
        assert (sizes[1:] == sizes[:-1]).mean() > by_chance.sum() + 0.1


def test_the_trainer_asks_mostly_for_nodes_and_the_experimenter_for_single_gpus():
    trace = generate({"a trainer": 8, "an experimenter": 8}, jobs=20_000, seed=0)
    trainer, experimenter = (trace.gpus[trace.tenant == code] for code in range(2))
    assert (trainer == 8).mean() == pytest.approx(0.452, abs=0.08)
    assert (experimenter == 1).mean() == pytest.approx(0.854, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tenants": {}}, "at least one node each"),
        ({"tenants": {"x": 0}}, r"tenants\['x'\]=0: allowed are 1 to"),
        ({"jobs": 2}, r"at least one per tenant \(3\), not 2"),
        ({"load": 0.0}, "load must be finite and positive"),
        ({"load": float("nan")}, "load must be finite and positive"),
        ({"load": "1"}, "load must be a float, not str"),
        ({"tenants": ["x"]}, "tenants must be a mapping, not list"),
        ({"tenants": {"x": 1.5}}, r"tenants\['x'\] must be an integer, not float"),
        ({"jobs": 100.5}, "jobs must be an integer, not float"),
        ({"seed": -1}, "seed=-1: allowed are 0 to"),
        ({"seed": "a"}, "seed must be an integer, not str"),
    ],
)
def test_arguments_are_checked(arguments, says):
    with pytest.raises((TypeError, ValueError), match=says):
        generate(**({"tenants": NODES, "jobs": 100, "seed": 0} | arguments))
