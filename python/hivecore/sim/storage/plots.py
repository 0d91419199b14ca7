"""Pictures of jobs that share storage: throughput, completion times, and what the cache holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hivecore.sim.extras import require
from hivecore.sim.pictures import BLUE, GREY, VERMILION, literal, rising, save_figures, set_title
from hivecore.sim.storage.history import StorageHistory
from hivecore.sim.storage.ranked import StorageOutcome
from hivecore.sim.storage.workload import Floats, StorageCluster, StorageWorkload

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save_storage_plots"]

_HOUR = 3600.0
#: By storage system; what is not listed is black.
_COLORS = {"silod": VERMILION, "quiver": BLUE, "coordl": "#E69F00", "alluxio": "#009E73"}
_LINES = ("-", "--", ":", "-.", (0, (1, 3)))
_LAYERS = (BLUE, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", VERMILION, "#F0E442")
_INSTANTS = 800

#: By policy of the GPUs and storage system.
_Outcomes = Mapping[tuple[str, str], StorageOutcome]


def save_storage_plots(
    work: StorageWorkload, cluster: StorageCluster, outcomes: _Outcomes, folder: str | Path
) -> list[Path]:
    """Write completion.png, and throughput.png and a cache-...png for each outcome with a history.

    :param work: the jobs.
    :param cluster: what they shared.
    :param outcomes: by policy and storage system, at least one.
    :param folder: made if it does not exist; files in it are overwritten.
    :returns: the paths.
    :raises OSError: a file cannot be written.

    >>> import tempfile
    >>> from hivecore.sim.storage import schedule_storage
    >>> from hivecore.traces import generate_storage
    >>> work = StorageWorkload.of(generate_storage(jobs=20, seed=0, gpus=8))
    >>> cluster = StorageCluster(gpus=8, cache_gb=2000.0, bandwidth_mbps=200.0)
    >>> outcomes = {("fifo", "silod"): schedule_storage(work, cluster, record=True)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_storage_plots(work, cluster, outcomes, folder)]
    ['completion.png', 'throughput.png', 'cache-fifo-silod.png']
    """
    require("matplotlib")
    figures = {"completion": _completion(work, outcomes)}
    histories = {names: outcome.history for names, outcome in outcomes.items() if outcome.history}
    if histories:
        figures["throughput"] = _throughput(histories)
    for (policy, system), history in histories.items():
        name = f"cache-{policy}-{system}"
        figures[name] = _cache(f"{policy}, {system}", work, cluster, history)
    return save_figures(figures, folder)


def _style(names: tuple[str, str], policies: list[str]) -> dict[str, Any]:
    policy, system = names
    style = _LINES[policies.index(policy) % len(_LINES)]
    return {"color": _COLORS.get(system, "black"), "linestyle": style, "linewidth": 1.6}


def _completion(work: StorageWorkload, outcomes: _Outcomes) -> "Figure":
    """Distribution of completion times, a line per outcome."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    policies = list(dict.fromkeys(policy for policy, _ in outcomes))
    taken = {names: (outcome.end - work.submit) / _HOUR for names, outcome in outcomes.items()}
    longest = max(float(hours.max()) for hours in taken.values())
    means = {}
    for names, hours in taken.items():
        means[" with ".join(names)] = mean = float(hours.mean())
        label = f"{', '.join(names)} (mean {mean:,.1f} h)"
        times, done = rising(hours, longest)
        done *= 100 / len(work)
        axes.step(times, done, where="post", label=label, **_style(names, policies))
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    axes.set_xlabel("completion time, from submission to end (hours)")
    axes.set_ylabel("jobs that are done by then (%)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    best, worst = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    text = f"A job takes {means[best]:,.1f} hours on average under {best}"
    if means[worst] > means[best]:
        text += f",\n{means[worst]:,.1f} under {worst}"
    set_title(axes, text)
    return figure


def _throughput(histories: Mapping[tuple[str, str], StorageHistory]) -> "Figure":
    """What all jobs read together over time, a line per outcome."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    policies = list(dict.fromkeys(policy for policy, _ in histories))
    end = max(float(history.time[-1]) for history in histories.values())
    edges = np.linspace(0.0, end, _INSTANTS // 4 + 1)
    means = {}
    for names, history in histories.items():
        read = _integral(history.time, history.rate_mbps, edges)
        rate = np.diff(read) / np.diff(edges)
        means[" with ".join(names)] = float(read[-1] / history.time[-1])
        axes.stairs(rate, edges / _HOUR, label=", ".join(names), **_style(names, policies))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time (hours)")
    axes.set_ylabel("read by all jobs (MB/s)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    text = f"Jobs read {means[best]:,.0f} MB/s on average under {best}"
    if means[worst] < means[best]:
        text += f",\n{means[worst]:,.0f} under {worst}"
    set_title(axes, text)
    return figure


def _integral(time: Floats, value: Floats, at: Floats) -> Floats:
    """Return the integral, from 0 to each instant, of what is constant from time to time."""
    total = np.append(0.0, np.cumsum(np.diff(time) * value[:-1]))
    found: Floats = np.interp(at, time, total)
    return found


def _cache(
    name: str, work: StorageWorkload, cluster: StorageCluster, history: StorageHistory
) -> "Figure":
    """What the cache holds of each dataset over time: the largest ones, and all others in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    at = np.linspace(0.0, float(history.time[-1]), _INSTANTS)
    cached = history.cached_gb[np.searchsorted(history.time, at, side="right") - 1]
    amount = cached.sum(axis=0)
    largest = [code for code in np.argsort(-amount, kind="stable")[: len(_LAYERS)] if amount[code]]
    rest = np.delete(cached, largest, axis=1).sum(axis=1)
    axes.stackplot(
        at / _HOUR,
        *(cached[:, code] for code in largest),
        rest,
        colors=[*_LAYERS[: len(largest)], GREY],
        labels=[*(literal(work.names[code]) for code in largest), "all others"],
        linewidth=0,
    )
    axes.axhline(cluster.cache_gb, color="black", linewidth=0.8, linestyle="--")
    axes.set_xlim(0, at[-1] / _HOUR)
    axes.set_xlabel("time (hours)")
    axes.set_ylabel("cached (GB); dashed: capacity")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    share = float(cached.sum(axis=1).mean()) / max(cluster.cache_gb, 1e-9)
    set_title(axes, f"{name}: {share:.0%} of the cache is used on average")
    return figure
