"""HiveD's own Go code and `HivedScheduler` with the same requests, where Go is installed."""

import io
import json
import os
import shutil
import subprocess
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from hivecore.interop.hived import HivedScheduler

NAME = "github.com/microsoft/hivedscheduler"
LACKING = "it takes Go, and HIVECORE_HIVED=FOLDER of its source with vendor/"


def compiled(folder: Path) -> Path | None:
    """The driver, built in a copy of HiveD's source, which is as old as Go's modules."""
    go, source = shutil.which("go"), os.environ.get("HIVECORE_HIVED")
    if go is None or not source:
        return None
    tree = folder / "src" / NAME
    for part in ("pkg", "vendor"):
        shutil.copytree(Path(source, part), tree / part)
    (tree / "pkg" / "driver").mkdir()
    shutil.copy(Path(__file__).with_name("hived_driver.go"), tree / "pkg" / "driver" / "main.go")
    program = folder / "hived_driver"
    surroundings = os.environ | {"GOPATH": str(folder), "GO111MODULE": "off"}
    command = [go, "build", "-trimpath", "-o", str(program), "./pkg/driver"]
    subprocess.run(command, cwd=tree, env=surroundings, check=True)
    return program


def run_of(tenants: str, gpus: int, lives: int) -> list[tuple[str, str, int]]:
    """Return pods of 1 to 8 GPUs with this total, followed by pods that come and go."""
    rng, wanted, run = np.random.default_rng(gpus), 0, []
    while wanted < gpus:
        size = int(rng.choice((1, 2, 4, 8)))
        run.append(("fill", tenants[int(rng.integers(len(tenants)))], size))
        wanted += size
    return run + [("life", "", int(rng.integers(1 << 30))) for _ in range(lives)]


def figures(spans: Any) -> dict[str, float]:
    return dict(zip(("p50", "p99"), np.percentile(spans, (50, 99)) * 1e-9, strict=True))


def hived(program: Path, document: str, run: list[tuple[str, str, int]]) -> dict[str, Any]:
    """Seconds of a life in HiveD, on one processor."""
    configuration = program.with_suffix(".yaml")
    configuration.write_text(document)
    lines = "\n".join(f"{what} {tenant} {number}" for what, tenant, number in run)
    answer = subprocess.run(
        [program, configuration],
        input=lines,
        env=os.environ | {"GOMAXPROCS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    head, *spans = answer.stdout.splitlines()
    start, bound, lost = map(float, head.split())
    results = {"start": start, "bound": int(bound), "lost": int(lost)}
    return results | figures(np.array(spans, dtype=float))


def hivecore(document: str, run: list[tuple[str, str, int]]) -> dict[str, Any]:
    """Seconds of a life in the same run, its bind record written as text."""
    begin = perf_counter_ns()
    scheduler = HivedScheduler(io.StringIO(document))
    start = (perf_counter_ns() - begin) * 1e-9
    live: list[tuple[str | None, dict[str, Any]]] = []
    spans, lost = [], 0

    def admit(pod: str, spec: dict[str, Any]) -> bool:
        if scheduler.schedule(pod, spec).outcome != "bind":
            return False
        scheduler.allocate(pod)
        return bool(json.dumps(scheduler.bind_info(pod)))

    for i, (what, tenant, number) in enumerate(run):
        pod = f"x/p{i}"
        if what == "fill":
            spec = {"virtualCluster": tenant, "priority": 0, "leafCellNumber": number}
            if admit(pod, spec):
                live.append((pod, spec))
            continue
        gone, spec = live[number % len(live)]
        begin = perf_counter_ns()
        if gone is not None:
            scheduler.delete(gone)
        bound = admit(pod, spec)
        span = perf_counter_ns() - begin
        live[number % len(live)] = (pod if bound else None, spec)
        lost += not bound
        if bound:
            spans.append(span)
    return {"start": start, "bound": len(live), "lost": lost, **figures(spans)}
