"""Shared by all benchmarks: rounds in which contenders take turns, and a file of figures."""

import argparse
import faulthandler
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from io import BytesIO
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from digests import digests, imported

import hivecore

# Public traces, which are not in a checkout.
TRACES = Path(os.environ.get("HIVECORE_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
ITP = [TRACES / "itp" / f"cluster{number}.csv" for number in ("02", "03", "04", "06", "07")]


def cpu_seconds(task: Callable[[], Any]) -> float:
    begin = process_time()
    task()
    return process_time() - begin


def milliseconds(task: Callable[[], Any]) -> Callable[[], float]:
    return lambda: 1e3 * cpu_seconds(task)


def hivecore_seconds(*arguments: object) -> float:
    """Return CPU seconds of a process that runs `hivecore` with these arguments."""
    main = [sys.executable, "-c", "from hivecore.cli import main; raise SystemExit(main())"]
    before = os.times()
    subprocess.run([*main, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def take_turns(contenders: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the least of each contender's measurements; every round measures each once."""
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, measure in contenders.items():
            least[name] = min(least[name], measure())
    return least


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def command_line(
    description: str | None, add: Callable[[argparse.ArgumentParser], None] | None = None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--smoke", action="store_true", help="small, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("bench/results"), metavar="DIR")
    if add:
        add(parser)
    arguments = parser.parse_args()
    if arguments.smoke:  # one that hangs ends, and shows where
        faulthandler.dump_traceback_later(900, exit=True)
    return arguments


def commit() -> str:
    """Return the measured commit, with a + if its files have changed; "" if unknown."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        run = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return run.stdout.strip()


def surroundings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return where, when, with what and from which sources the figures are measured."""
    return {
        "hivecore": hivecore.__version__,
        "commit": commit(),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": processor(),
        "cpus": os.cpu_count(),
        "smoke": arguments.smoke,
        "script": Path(sys.argv[0]).name,
        "parts": digests(imported(Path(sys.argv[0]))),
    }


def report(title: str, unit: str, figures: dict[str, float], width: int = 28) -> dict[str, Any]:
    """Print a table of figures, and return it for saving."""
    print(f"\n{title} [{unit}]")
    for name, value in figures.items():
        print(f"  {name:{width}} {value:14,.3f}")
    return {"title": title, "unit": unit, **figures}


def show(figures: Any, name: str = "") -> None:
    """Print figures: a line for each part, of those that are not parts themselves."""
    plain = []
    for key, value in enumerate(figures) if isinstance(figures, list) else figures.items():
        if isinstance(value, dict | list):
            show(value, f"{name} {key}".strip())
        else:
            plain.append(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}")
    if plain:
        print(f"{name}: " * bool(name) + ", ".join(plain), flush=True)


def percentiles(taken: Any) -> dict[str, float]:
    return {"p50": float(np.percentile(taken, 50)), "p99": float(np.percentile(taken, 99))}


def save_picture(drawn: Path | BytesIO, path: Path) -> None:
    """Write a picture in 256 colours, which takes a third of the bytes."""
    from PIL import Image

    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(256).save(path, optimize=True)
    print(f"wrote {path}")


def save_figure(figure: Any, path: Path, **options: Any) -> None:
    with BytesIO() as drawn:
        figure.savefig(drawn, format="png", dpi=100, **options)
        save_picture(drawn, path)


def save(arguments: argparse.Namespace, subject: str, figures: Any) -> None:
    """Write the figures, and where they were measured, to <out>/<subject>.json."""
    data = {"benchmark": subject, **surroundings(arguments), "figures": figures}
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{subject}.json"
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(f"wrote {path}")
