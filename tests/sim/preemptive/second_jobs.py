"""Training jobs of one second per iteration."""

from hivecore.sim.preemptive import Jobs
from hivecore.sim.preemptive.interleaving import INTERFERENCE

DATA, GPU, NET = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
PAIR = INTERFERENCE[1]


def jobs_of(*rows, stages=GPU, restart=0.0):
    """(submit, gpus, iterations[, stages[, restart]]) of each."""
    columns = [(*row, *(stages, restart)[len(row) - 3 :]) for row in rows]
    submit, gpus, iterations, stages, restart = map(list, zip(*columns, strict=True))
    counts = [float(count) for count in iterations]
    return Jobs([*map(float, submit)], gpus, counts, [1.0] * len(rows), stages, counts, restart)
