"""Many replays at once, over loads, seeds, policies and specs, distributed by joblib.

The caller chooses where: inside `joblib.parallel_config(backend=...)` a sweep runs in threads,
local processes, or on a Dask or Ray cluster. A replay is a task that returns only its figures.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from hivecore._arguments import as_tuple
from hivecore.sim.console import named
from hivecore.sim.metrics import Figures, figures_of, summarize
from hivecore.sim.replay import POLICIES, replay
from hivecore.sim.report import require
from hivecore.sim.specs import Spec, TraceJobs, replay_specs
from hivecore.sim.workload import GPUS_PER_NODE, Workload
from hivecore.traces import Trace, generate

__all__ = ["Point", "sweep"]


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of all tenants together, for a policy or spec, a load and a seed.

    :param seed: of the generated trace, or None for a given one.
    :param load: see `sweep`.
    :param policy: name of the policy or spec.
    :param figures: over all tenants; for a spec, over the jobs that it runs and all of its GPUs.
    :param fragmentation: see `Run.fragmentation`; ``None`` for a spec.
    :param refused: jobs that the spec rejects or lets wait forever.
    """

    seed: int | None
    load: float
    policy: str
    figures: Figures
    fragmentation: float | None
    refused: int = 0


def sweep(
    nodes: Mapping[str, int],
    loads: Iterable[float],
    seeds: Iterable[int] = (0,),
    jobs: int = 10_000,
    trace: Trace | None = None,
    policies: Iterable[str] = POLICIES,
    opportunistic: bool = False,
    specs: Mapping[str, Spec] | None = None,
    tenants: Mapping[str, str] | None = None,
) -> list[Point]:
    """Return a point per seed, load and policy or spec, in this order.

    :param nodes: tenant -> owned nodes of 8 GPUs.
    :param loads: of generated traces, or factors that scale the load of `trace`.
    :param seeds: of generated traces; a given trace is replayed once. Equal ones count once, as
        do equal loads.
    :param jobs: of each generated trace.
    :param trace: replayed instead of generated ones.
    :param policies: names among `POLICIES`. "private" is always replayed, as the reference.
    :param opportunistic: see `replay`.
    :param specs: further schedulers by name, for the jobs that fit in the private clusters.
    :param tenants: tenant -> its name in the specs, see `TraceJobs.with_tenants`.
    :raises ValueError: see `generate`, `Trace.scale_load`, `replay` and `replay_specs`; a policy is
        unknown, a spec has the name of a policy, or there is neither.

    Needs joblib, whose configuration sets the parallelism.

    >>> points = sweep({"speech": 8, "vision": 8}, loads=[0.5, 1.0], jobs=200, policies=["cells"])
    >>> [(point.seed, point.load, point.policy, point.figures.later) for point in points]
    [(0, 0.5, 'cells', 0), (0, 1.0, 'cells', 0)]
    """
    require("joblib")
    from joblib import Parallel, delayed

    names = tuple(policies)
    wanted = [name for name in POLICIES if name in names]
    more = dict(specs or {})
    if len(wanted) < len(set(names)) or not (wanted or more):
        raise ValueError(f"policies must be among {', '.join(POLICIES)}, not {', '.join(names)}")
    if taken := [name for name in more if name in POLICIES]:
        raise ValueError(f"specs: {taken[0]!r} is the name of a policy")
    sources = as_tuple(seeds, "seeds") if trace is None else (None,)
    levels = dict.fromkeys(as_tuple(loads, "loads"))
    tasks = [(seed, load) for seed in dict.fromkeys(sources) for load in levels]
    points = partial(
        _points, dict(nodes), jobs, trace, wanted, opportunistic, more, dict(tenants or {})
    )
    results: Iterable[list[Point]] = Parallel()(delayed(points)(*task) for task in tasks)
    return [point for points in results for point in points]


def _points(
    nodes: dict[str, int],
    jobs: int,
    trace: Trace | None,
    policies: list[str],
    opportunistic: bool,
    specs: dict[str, Spec],
    tenants: dict[str, str],
    seed: int | None,
    load: float,
) -> list[Point]:
    of = "" if seed is None else f"seed={seed}, "
    with named(f"{of}load={load:g}"):
        if trace is not None:
            trace = trace.scale_load(load)
        else:
            assert seed is not None
            trace = generate(nodes, jobs=jobs, seed=seed, load=load)
        work = Workload.of(trace, nodes)
        result = replay(work, policies, opportunistic)
        points = [
            Point(
                seed=seed,
                load=load,
                policy=policy,
                figures=summarize(result, policy)[-1],
                fragmentation=result.runs[policy].fragmentation,
            )
            for policy in policies
        ]
        private = result.runs["private"].start
        given = TraceJobs.of(work.trace).with_tenants(tenants)
        for name, run in replay_specs(given, specs).items():
            start, refused = run.outcome.start, len(run.outcome.refused)
            gpus = run.gpus or sum(nodes.values()) * GPUS_PER_NODE
            figures = figures_of(work, start, private, np.isfinite(start), None, gpus)
            points.append(Point(seed, load, name, figures, None, refused))
        return points
