"""What tests of grouping have in common: strategies, a matcher, and all that the kernel can do."""

import math

import numpy as np
from hypothesis import strategies as st

from hivecore import _interleaving
from hivecore.interleaving.candidates import Candidates
from hivecore.interleaving.durations import flat
from hivecore.interleaving.grouping import group_candidates
from hivecore.matching import max_weight_matching

TERMS = (
    "max_group",
    "model",
    "order",
    "interference",
    "solo",
    "priorities",
    "max_slowdown",
    "memory",
    "gpu_memory",
)


def grouped(rows, gpus, capacity=None, **options):
    """`group_jobs` with what only the simulator asks for: every model and order, times alone."""
    terms = {name: options.pop(name) for name in TERMS if name in options}
    return group_candidates(Candidates.of(rows, gpus, **terms), capacity, **options)


def rounds(rows, groups, model="barrier", order="best"):
    """Times, efficiencies and offsets by the kernel, of any model."""
    durations = np.array(rows, dtype=np.float64)
    return _interleaving.rounds(durations, *flat(groups), model, order == "best")


@st.composite
def jobs_that_share(draw, columns, jobs, types):
    """Rows, GPUs and options of `grouped`; the arguments are the most of each."""
    model = draw(st.sampled_from(["barrier", "data2", "artifact"]))
    width = draw(st.integers(2, columns)) if model == "barrier" else 3
    slots = width if model == "barrier" else 4
    n = draw(st.integers(1, jobs))
    share = st.sampled_from([0.05, 1.0, 2.0]) | st.floats(0.05, 2)
    profiles = draw(st.lists(st.tuples(*[share] * width), min_size=1, max_size=types))

    def per_job(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    options = {"model": model, "weight": draw(st.sampled_from(["efficiency", "gain"]))}
    if draw(st.booleans()):
        options["max_group"] = draw(st.integers(1, slots))
    if draw(st.booleans()):
        options["interference"] = [1.0, 1.3, 1.5, 1.4, 1.7][:slots]
    if draw(st.booleans()):
        options["solo"] = per_job(st.sampled_from([1.0, 2.0]) | st.floats(0.1, 10))
    if draw(st.booleans()):
        options["priorities"] = per_job(st.integers(0, 3))
    if draw(st.booleans()):
        options["max_slowdown"] = draw(st.sampled_from([1.0, 1.2, 1.5, 2.5]))
    if draw(st.booleans()):
        options["gpu_memory"] = draw(st.integers(10, 30))
        options["memory"] = per_job(st.integers(0, 10))
    return per_job(st.sampled_from(profiles)), per_job(st.sampled_from([1, 1, 2, 8])), options


def with_proved_matchings(bits):
    """A matcher that counts weights as the kernel does, and has every matching proved."""

    def matcher(weights):
        n = len(weights)
        counts = np.zeros((n, n), dtype=np.int64)
        for u in range(n):
            for v in range(u + 1, n):
                count = round(min(max(math.ldexp(weights[u][v], bits), 0.0), 2.0**57))
                counts[u, v] = counts[v, u] = count
        result = max_weight_matching(counts)
        assert result.verify()
        return result.mate.tolist()

    return matcher
