"""Many replays at once: loads by seeds by policies, spread over processes or machines by joblib.

Whoever calls chooses where: inside `joblib.parallel_config(backend=...)` the same sweep runs in
threads, in local processes, or on a Dask or Ray cluster. A replay is one task; only its figures
come back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hivecore.sim.extras import require
from hivecore.sim.metrics import Figures, summarize
from hivecore.sim.replay import POLICIES, replay
from hivecore.sim.workload import Workload
from hivecore.traces import Trace, generate

__all__ = ["Point", "sweep"]


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of all tenants together, for one policy, load and seed.

    :param seed: of the generated trace, or None for a given one.
    :param load: see `sweep`.
    :param policy: its name.
    :param figures: over all tenants.
    :param fragmentation: see `Run.fragmentation`.
    """

    seed: int | None
    load: float
    policy: str
    figures: Figures
    fragmentation: float


def sweep(
    nodes: Mapping[str, int],
    loads: Iterable[float],
    seeds: Iterable[int] = (0,),
    jobs: int = 10_000,
    trace: Trace | None = None,
    policies: Iterable[str] = POLICIES,
    opportunistic: bool = False,
) -> list[Point]:
    """Return a point per seed, load and policy, in this order.

    :param nodes: nodes of 8 GPUs that each tenant owns.
    :param loads: of generated traces, or factors by which to scale the load of `trace`.
    :param seeds: of generated traces; without meaning for a given trace, which is replayed once.
    :param jobs: of each generated trace.
    :param trace: replayed instead of generated ones.
    :param policies: names among `POLICIES`. "private" is replayed in any case, as the yardstick.
    :param opportunistic: see `replay`.
    :raises ValueError: see `generate`, `Trace.scale_load` and `replay`.

    Needs joblib, and runs one replay after the other unless its configuration says otherwise.

    >>> points = sweep({"speech": 8, "vision": 8}, loads=[0.5, 1.0], jobs=200, policies=["cells"])
    >>> [(point.seed, point.load, point.policy, point.figures.later) for point in points]
    [(0, 0.5, 'cells', 0), (0, 1.0, 'cells', 0)]
    """
    require("joblib")
    from joblib import Parallel, delayed

    names = tuple(policies)
    wanted = [name for name in POLICIES if name in names]
    if len(wanted) < len(set(names)) or not wanted:
        raise ValueError(f"policies must be among {', '.join(POLICIES)}, not {', '.join(names)}")
    sources: list[int | None] = list(seeds) if trace is None else [None]
    levels = list(loads)
    tasks = [(seed, load) for seed in sources for load in levels]
    results: Iterable[list[Point]] = Parallel()(
        delayed(_points)(dict(nodes), seed, load, jobs, trace, wanted, opportunistic)
        for seed, load in tasks
    )
    return [point for points in results for point in points]


def _points(
    nodes: dict[str, int],
    seed: int | None,
    load: float,
    jobs: int,
    trace: Trace | None,
    policies: list[str],
    opportunistic: bool,
) -> list[Point]:
    if trace is not None:
        trace = trace.scale_load(load)
    else:
        assert seed is not None
        trace = generate(nodes, jobs=jobs, seed=seed, load=load)
    result = replay(Workload.of(trace, nodes), policies, opportunistic)
    return [
        Point(
            seed=seed,
            load=load,
            policy=policy,
            figures=summarize(result, policy)[-1],
            fragmentation=result.runs[policy].fragmentation,
        )
        for policy in policies
    ]
