"""The gallery: every script of examples/ with what it prints when the pages are built.

Where a script has a scheduler, its picture is drawn from the log of that run; else it is that of
the subject.
"""

import ast
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mkdocs.structure.files import File, Files
from svg import COLOURS, LINE, Picture

from hivecore.scheduler import read_log

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

#: The page that explains what a script shows, and the picture of a script without a scheduler.
SHOWN = {
    "scheduler_loop": ("subjects/cells.md", "cells"),
    "compose_hived": ("subjects/cells.md", ""),
    "compose_koordinator": ("subjects/quotas.md", ""),
    "compose_gpushare": ("howto/gpushare.md", ""),
    "compose_muri": ("subjects/interleaving.md", ""),
    "compose_silod": ("subjects/storage.md", ""),
    "compose_all": ("subjects/scheduler.md", ""),
    "devices": ("subjects/devices.md", "devices"),
    "gpu_links": ("howto/gpu-links.md", "devices"),
    "dra_claims": ("subjects/dra.md", "claims"),
    "mig": ("howto/mig.md", ""),
    "spread_pods": ("howto/spread.md", ""),
    "elastic_jobs": ("howto/elastic.md", ""),
    "replace_failed_pods": ("howto/failures.md", ""),
    "defragment": ("howto/defragment.md", ""),
    "group_muri_jobs": ("subjects/interleaving.md", "interleaving"),
    "data_loader": ("howto/data-loader.md", "caching"),
    "networkx_backend": ("howto/networkx.md", "matching"),
    "hived_decisions": ("subjects/hived.md", "hived"),
    "cluster_dump": ("howto/cluster-dump.md", "quotas"),
    "ray_gangs": ("howto/ray.md", "topology"),
    "broker": ("howto/broker.md", "scheduler"),
}

Rounds = list[tuple[float, dict[str, Counter[str]]]]


def _rounds(log: Path) -> Rounds:
    """After each round of decisions that changed something: its time, and jobs' pods by node."""
    nodes: dict[tuple[str, str, int], str] = {}  # of each pod of a job
    rounds: Rounds = []
    for record in read_log(log):
        if record.event in ("finish", "cancel", "stopped"):
            job = record.fields["job"]
            nodes = {pod: node for pod, node in nodes.items() if pod[0] != job}
        if record.event != "decide":
            continue
        for action in record.fields["actions"]:
            kind, job = action["action"], action.get("job")
            for pod in action.get("before" if kind in ("move", "take_over") else "pods", ()):
                nodes.pop((job, pod[0], pod[1]), None)
            if kind == "preempt":
                nodes = {pod: node for pod, node in nodes.items() if pod[0] != job}
            if kind in ("start", "promote", "move", "take_over"):
                nodes |= {(job, pod[0], pod[1]): pod[2] for pod in action["pods"]}
        held: dict[str, Counter[str]] = {}
        for (job, *_), node in sorted(nodes.items()):
            held.setdefault(node, Counter())[job] += 1
        if not rounds or rounds[-1][1] != held:
            rounds.append((record.now, held))
    return rounds


def _drawn(title: str, rounds: Rounds) -> Picture:
    """A column for each round: a row of a node has a box for each job that has pods there."""
    rounds = rounds[:8]
    nodes = sorted({node for _, held in rounds for node in held})
    jobs = list(dict.fromkeys(job for _, held in rounds for here in held.values() for job in here))
    lines = {node: max(len(held.get(node, ())) for _, held in rounds) for node in nodes}
    width = 120
    height = 60 + sum(22 * lines[node] + 8 for node in nodes)
    picture = Picture(90 + width * len(rounds), height, title)
    y = 40.0
    for node in nodes:
        picture.text(82, y + 15, node, at="end")
        for column, (_, held) in enumerate(rounds):
            x = 90 + width * column
            picture.box(x, y, width - 8, 22 * lines[node] + 2, "white")
            for line, (job, pods) in enumerate(held.get(node, {}).items()):
                colour = COLOURS[jobs.index(job) % len(COLOURS)]
                picture.box(x + 2, y + 2 + 22 * line, width - 12, 20, colour, colour)
                words = job if pods == 1 else f"{job}: {pods} pods"
                picture.text(x + width / 2 - 4, y + 17 + 22 * line, words, fill="white")
        y += 22 * lines[node] + 8
    for column, (now, _) in enumerate(rounds):
        hours = f"{now / 3600:g} h" if now % 360 == 0 else f"{now:g} s"
        picture.text(90 + width * column + width / 2 - 4, 26, f"at {hours}")
    picture.line([(90, 32), (82 + width * len(rounds), 32)], LINE)
    return picture


def _section(script: Path) -> tuple[str, Picture | None]:
    """What the page says of a script that is run now, and its picture."""
    source = script.read_text("utf-8")
    claim, _, more = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    page, picture = SHOWN[script.stem]
    place = Path(page).stem.replace("-", " ")
    title = f"`{script.name}`"
    drawn = None
    with TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = [
            sys.executable,
            str(Path(__file__).with_name("traced.py")),
            str(log),
            str(script),
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if not picture:
            drawn = _drawn(f"What {script.name} decides", _rounds(log))
            picture = f"example_{script.stem}"
    shown = f"pictures/{picture}.svg"
    claim = " ".join(claim.split())
    alt = "The nodes after each round of decisions" if drawn else "The picture of the subject"
    text = (
        f"## {title}\n\n{claim}\n\n{more}\n\n![{alt}]({shown})\n\n```text\n{said.rstrip()}\n```\n\n"
    )
    code = "\n".join(f"    {line}".rstrip() for line in source.splitlines())
    text += (
        f'??? note "The script"\n\n    ```python\n{code}\n    ```\n\nMore: [{place}]({page}).\n\n'
    )
    return text, drawn


HEAD = """# Gallery

Every script of `examples/`, with what it printed when these pages were built. Where a script has a
scheduler, the picture shows the nodes after each round of decisions: a box is a job with its pods.

"""


def on_files(files: Files, *, config: Any) -> Files:
    """Add the page and its pictures."""
    scripts = [EXAMPLES / f"{name}.py" for name in SHOWN]
    with ThreadPoolExecutor(2) as pool:
        sections = list(pool.map(_section, scripts))
    for script, (_, drawn) in zip(scripts, sections, strict=True):
        if drawn:
            name = f"pictures/example_{script.stem}.svg"
            files.append(File.generated(config, name, content=drawn.svg()))
    page = HEAD + "".join(text for text, _ in sections)
    files.append(File.generated(config, "gallery.md", content=page))
    return files
