"""Orders of Muri's own job types: what the recurrence of its published simulator loses.

Each of the trace's 48 job types, a model on a number of GPUs, has one row of stage durations.
"""

import os
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from interleaving.jobs_that_share import rounds

from hivecore.interleaving import efficiencies
from hivecore.traces import load_training

FOLDER = Path(os.environ.get("HIVECORE_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
TRACE = FOLDER / "muri" / "trace2.csv"

pytestmark = pytest.mark.skipif(
    not TRACE.is_file(), reason="the public traces are not here; HIVECORE_TRACES names their folder"
)


@pytest.fixture(scope="module")
def stages():
    """{GPUs: {model: milliseconds of data, GPU, network}}."""
    results = {}
    trace = load_training(TRACE)
    for gpus, model, row in zip(
        trace.gpus.tolist(), trace.model.tolist(), trace.stages_ms.tolist(), strict=True
    ):
        results.setdefault(gpus, {}).setdefault(model, tuple(row))
    return results


def times(models, names, model):
    rows = [models[name] for name in names]
    return rounds(rows, [range(len(rows))], model)[0][0]


def shortfalls(stages, jobs):
    """By how much, relatively, the recurrence is below the steady state, of all mixtures."""
    return [
        1 - times(models, names, "artifact") / times(models, names, "data2")
        for models in stages.values()
        for names in combinations_with_replacement(sorted(models), jobs)
    ]


def test_one_known_group(stages):
    models = stages[32]
    names = [name for name in models if name.startswith("shufflenet")] + ["dqn"] * 3
    assert round(times(models, names, "artifact")) == 879
    assert round(times(models, names, "data2")) == 1236


def test_the_recurrence_ends_too_early_for_304_of_1980_groups_of_four(stages):
    lost = shortfalls(stages, 4)
    assert len(lost) == 1980
    assert sum(share > 1e-9 for share in lost) == 304
    assert max(lost) == pytest.approx(0.289, abs=5e-4)
    assert min(lost) > -1e-9


def test_two_jobs_wait_less_than_with_a_full_barrier_in_35_of_216_pairs(stages):
    lost = shortfalls(stages, 2)
    assert len(lost) == 216
    assert sum(share > 1e-9 for share in lost) == 35
    assert max(lost) == pytest.approx(0.285, abs=5e-4)


def test_no_group_of_real_jobs_is_more_efficient_than_it_can_be(stages):
    for models in stages.values():
        pairs = efficiencies(list(models.values()), model="data2")
        assert ((pairs > 0) & (pairs <= 1)).all()
