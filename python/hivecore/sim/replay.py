"""The same jobs through several policies, each job compared with itself in its private cluster."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hivecore.sim.engine import Progress, Run, run
from hivecore.sim.opportunistic import run_opportunistic
from hivecore.sim.policies import Cells, Private, Quota
from hivecore.sim.workload import Workload

__all__ = ["LENDING", "POLICIES", "Replay", "replay"]

#: The policies in the order in which they are run and reported.
POLICIES = ("private", "quota", "cells")
#: Cells, while waiting jobs may run on those that are idle; replayed only if it is asked for.
LENDING = "lending"
_SAMPLES = 400
# Where two policies start a job at the same event, rounding of sums of durations may differ.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """The outcomes of all replayed policies on one workload.

    :param work: the jobs.
    :param instants: float64[samples], seconds, when `Run.free` was recorded.
    :param runs: outcome per policy, "private" always among them.
    """

    work: Workload
    instants: npt.NDArray[np.float64]
    runs: dict[str, Run]

    def delay(self, policy: str) -> npt.NDArray[np.float64]:
        """Queueing delay of each job, float64[jobs], seconds from submission to start."""
        return self.runs[policy].start - self.work.trace.submit

    def excess(self, policy: str) -> npt.NDArray[np.float64]:
        """Start of each job minus its start in its private cluster, float64[jobs], seconds."""
        return self.runs[policy].start - self.runs["private"].start

    def later(self, policy: str) -> npt.NDArray[np.bool_]:
        """Which jobs start later than in their private cluster, by more than a microsecond."""
        return self.excess(policy) > _TOLERANCE


def replay(
    work: Workload,
    policies: Iterable[str] = POLICIES,
    opportunistic: bool = False,
    progress: Callable[[str], Progress] | None = None,
) -> Replay:
    """Return when each job starts under each policy.

    :param work: the jobs.
    :param policies: names among `POLICIES`, and `LENDING`; "private" is always replayed, as the
        yardstick.
    :param opportunistic: whether waiting jobs may run on idle cells under "cells".
    :param progress: called with a policy's name before its run; what it returns is called now and
        then with the number of jobs submitted so far, and at the end with all of them.
    :raises ValueError: an unknown policy.

    Deterministic. Cost: see `engine.run`.

    >>> from hivecore.sim import own_nodes
    >>> from hivecore.traces import generate
    >>> trace = generate({"speech": 8, "vision": 8}, jobs=500, seed=0)
    >>> result = replay(Workload.of(trace, {"speech": 8, "vision": 8}))
    >>> int(result.later("cells").sum())
    0
    """
    wanted = set(policies) | {"private"}
    allowed = (*POLICIES, LENDING)
    if unknown := sorted(wanted.difference(allowed)):
        names = ", ".join(POLICIES)
        raise ValueError(f"policies must be among {names}, not {unknown[0]!r} (or {LENDING!r})")
    instants = np.linspace(0.0, work.window, _SAMPLES)
    runs = {}
    for name in allowed:
        if name in wanted:
            show = progress(name) if progress else None
            runs[name] = _run(name, work, instants, opportunistic, show)
            if show:
                show(work.trace.jobs)
    return Replay(work, instants, runs)


def _run(
    name: str,
    work: Workload,
    instants: npt.NDArray[np.float64],
    opportunistic: bool,
    progress: Progress | None,
) -> Run:
    if name == "private":
        return run(work, Private(work), instants, progress)
    if name == "quota":
        return run(work, Quota(work), instants, progress)
    if opportunistic or name == LENDING:
        return run_opportunistic(work, Cells(work), instants, progress)
    return run(work, Cells(work), instants, progress)
