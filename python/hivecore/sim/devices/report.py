"""Policies beside each other at several loads, as a table for people and as JSON for programs.

The table has what others reported beside it, if that is given.
"""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from hivecore.sim.devices.replay import DeviceReplay
from hivecore.sim.tables import empty_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Reported", "median_at", "replay_table", "replays_to_json"]

_SCHEMA = "hivecore.devices/1"

#: By policy and load in percent of the capacity: the allocated GPUs in percent of it.
Reported = Mapping[str, Mapping[int, float]]

_LOADS = (90, 95, 100, 110, 120)


def median_at(replays: Iterable[DeviceReplay], load: float) -> float:
    """Return the median of what the replays had allocated at a load, over the capacity.

    :param replays: of one policy, one per seed.
    :param load: over the capacity.
    :raises ValueError: no replay.

    >>> median_at([], 1.0)
    Traceback (most recent call last):
    ...
    ValueError: replays must hold one at least
    """
    found = [float(one.allocation[one.at(load)]) for one in replays]
    if not found:
        raise ValueError("replays must hold one at least")
    return median(found)


def replay_table(
    replays: Iterable[DeviceReplay],
    reported: Reported | None = None,
    loads: Iterable[int] = _LOADS,
) -> "Table":
    """Return a Rich table with a row per policy: allocated GPUs in percent of all, by load.

    :param replays: any number per policy, of which the medians are shown.
    :param reported: what others found, shown in a second row of the policy.
    :param loads: in percent of the capacity.

    >>> import numpy as np
    >>> one = np.array([900, 1000])
    >>> run = DeviceReplay("fgd", 0, 1000, one, one, one, one, one, np.array([0, 1]), one * 0.0)
    >>> table = replay_table([run], {"fgd": {100: 95.2}}, loads=[90, 100])
    >>> [list(column.cells) for column in table.columns]
    [['fgd', 'fgd, reported'], ['90.0', ''], ['100.0', '95.2']]
    """
    groups: dict[str, list[DeviceReplay]] = {}
    for one in replays:
        groups.setdefault(one.policy, []).append(one)
    shown = list(loads)
    seeds = max((len(runs) for runs in groups.values()), default=0)
    grid = empty_table(
        "GPUs allocated, in % of all",
        f"columns: what arrived pods asked for, in % of all GPUs; median of {seeds} orders",
        ["policy", *(f"{load} %" for load in shown)],
    )
    for policy, runs in groups.items():
        grid.add_row(policy, *(f"{100 * median_at(runs, load / 100):.1f}" for load in shown))
        theirs = (reported or {}).get(policy)
        if theirs is not None:
            cells = (f"{theirs[load]:.1f}" if load in theirs else "" for load in shown)
            grid.add_row(f"{policy}, reported", *cells)
    return grid


def replays_to_json(
    replays: Iterable[DeviceReplay],
    configuration: Mapping[str, Any],
    runtime_seconds: Mapping[str, float],
    loads: Iterable[int] = _LOADS,
) -> dict[str, Any]:
    """Return what every replay came to at some loads, as plain data for `json.dump`.

    :param replays: any number per policy.
    :param configuration: how they were asked for, stored as it is.
    :param runtime_seconds: how long the steps took; all else is equal for equal inputs.
    :param loads: in percent of the capacity. "allocated" is over the capacity at each of them,
        "fragmented" over what is idle.

    >>> import numpy as np
    >>> one = np.array([900, 1000])
    >>> run = DeviceReplay("fgd", 0, 1000, one, one, one, one, one, np.array([0, 1]), one * 0.0)
    >>> replays_to_json([run], {}, {}, loads=[90])["policies"]
    {'fgd': [{'seed': 0, 'allocated': [0.9], 'fragmented': [0.0]}]}
    """
    shown = list(loads)
    policies: dict[str, list[dict[str, Any]]] = {}
    for one in replays:
        samples = [one.at(load / 100) for load in shown]
        figures = {
            "seed": one.seed,
            "allocated": one.allocation[samples].tolist(),
            "fragmented": one.fragmentation[samples].tolist(),
        }
        policies.setdefault(one.policy, []).append(figures)
    return {
        "schema": _SCHEMA,
        "configuration": dict(configuration),
        "loads": shown,
        "policies": policies,
        "runtime_seconds": dict(runtime_seconds),
    }
