"""Pictures of jobs that share storage: throughput, completion times, content of the cache."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.sim import pictures as draw
from hivecore.sim.storage.history import StorageHistory
from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.workload import Floats, StorageCluster, StorageWorkload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["storage_pictures"]

#: By storage system; others are black.
_COLORS = {"silod": draw.VERMILION, "quiver": draw.BLUE, "coordl": draw.ORANGE}
_COLORS["alluxio"] = draw.GREEN
_LINES = ("-", "--", ":", "-.", (0, (1, 3)))
_LAYERS = (draw.BLUE, draw.ORANGE, draw.GREEN, draw.PURPLE, draw.SKY, draw.VERMILION, "#F0E442")
_INSTANTS = 800

#: (GPU policy, storage system) -> outcome
_Outcomes = Mapping[tuple[str, str], StorageOutcome]


def storage_pictures(
    work: StorageWorkload, cluster: StorageCluster, outcomes: _Outcomes
) -> dict[str, Callable[[], "Figure"]]:
    """Return functions that draw completion times, and throughput and caches of
    recorded outcomes.
    """
    drawings: dict[str, Callable[[], Figure]] = {"completion": partial(_completion, work, outcomes)}
    histories = {names: outcome.history for names, outcome in outcomes.items() if outcome.history}
    if histories:
        drawings["throughput"] = partial(_throughput, histories)
    for names, history in histories.items():
        drawings["-".join(("cache", *names))] = partial(_cache, names, work, cluster, history)
    return drawings


def _styles(outcomes: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    names = list(outcomes)
    policies = list(dict.fromkeys(policy for policy, _ in names))
    return {
        (policy, system): {
            "color": _COLORS.get(system, draw.BLACK),
            "linestyle": _LINES[policies.index(policy) % len(_LINES)],
            "linewidth": 1.6,
        }
        for policy, system in names
    }


def _completion(work: StorageWorkload, outcomes: _Outcomes) -> "Figure":
    hours = {
        " with ".join(names): (each.end - work.submit) / draw.HOUR
        for names, each in outcomes.items()
    }
    return draw.completion(hours, list(_styles(outcomes).values()))


def _throughput(histories: Mapping[tuple[str, str], StorageHistory]) -> "Figure":
    """Draw what all jobs read together over time, a line for each outcome."""
    figure, (axes,) = draw.panels()
    end = max(float(history.time[-1]) for history in histories.values())
    edges = np.linspace(0.0, end, _INSTANTS // 4 + 1)
    halves = {}  # a mean over the whole run would only say how long it is: all read the same
    for names, style in _styles(histories).items():
        history, name = histories[names], " with ".join(names)
        read = _integral(history.time, history.rate_mbps, edges)
        halves[name] = float(np.interp(read[-1] / 2, read, edges)) / draw.HOUR
        axes.stairs(np.diff(read) / np.diff(edges), edges / draw.HOUR, label=name, **style)
    ordered = dict(sorted(halves.items(), key=lambda item: item[1]))
    title = draw.comparison("Half of all data is read after {} hours under {}", ordered)
    ylabel = "read by all jobs (MB/s)"
    draw.frame(axes, title, "best", ylim=(0, None), xlabel="time (hours)", ylabel=ylabel)
    return figure


def _integral(time: Floats, value: Floats, at: Floats) -> Floats:
    """Return the integral from 0 to each instant of a piecewise constant function."""
    total = np.append(0.0, np.cumsum(np.diff(time) * value[:-1]))
    integral: Floats = np.interp(at, time, total)
    return integral


def _cache(
    names: tuple[str, str],
    work: StorageWorkload,
    cluster: StorageCluster,
    history: StorageHistory,
) -> "Figure":
    """Draw the cached part of each dataset over time: the largest ones, and all others in grey."""
    figure, (axes,) = draw.panels()
    at = np.linspace(0.0, float(history.time[-1]), _INSTANTS)
    cached = history.cached_gb[np.searchsorted(history.time, at, side="right") - 1]
    amount = cached.sum(axis=0)
    largest = [code for code in np.argsort(-amount, kind="stable")[: len(_LAYERS)] if amount[code]]
    axes.stackplot(
        at / draw.HOUR,
        *(cached[:, code] for code in largest),
        np.delete(cached, largest, axis=1).sum(axis=1),
        colors=[*_LAYERS[: len(largest)], draw.GREY],
        labels=[*(draw.literal(work.names[code]) for code in largest), "all others"],
        linewidth=0,
    )
    axes.axhline(cluster.cache_gb, color=draw.BLACK, linewidth=0.8, linestyle="--")
    share = float(cached.sum(axis=1).mean()) / max(cluster.cache_gb, 1e-9)
    title = f"{', '.join(names)}: {share:.0%} of the cache is used on average"
    labels = {"xlabel": "time (hours)", "ylabel": "cached (GB); dashed: capacity"}
    draw.frame(axes, title, grid=None, xlim=(0, at[-1] / draw.HOUR), **labels)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
