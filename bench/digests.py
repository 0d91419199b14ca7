"""Finds figures that are older than their sources; `python bench/digests.py` lists them.

A file of bench/results has a digest of the sources of each library part that its benchmark imports:
kernel, binding and Python package. Comments, docstrings and spacing do not count. Digests are
compared with the tree, not with commits, which may be rewritten or missing in a source archive.
"""

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# Strings are matched so that comment signs inside them are kept.
_STRING = r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'"
_C = re.compile(rf"(//[^\n]*|/\*[\s\S]*?\*/)|{_STRING}")
_PYTHON = re.compile(rf'(#[^\n]*|^[ \t]*[rR]?"""[\s\S]*?""")|{_STRING}', re.MULTILINE)


def bare(text: str, suffix: str) -> str:
    """Return a source without comments, docstrings and spaces."""
    comments = _PYTHON if suffix.startswith(".py") or suffix == ".pxi" else _C
    return "".join(comments.sub(lambda result: "" if result[1] else result[0], text).split())


def parts(root: Path = ROOT) -> set[str]:
    """Return the parts: subjects and their subfolders, such as `cells` and `interop/hived`."""
    package = root / "python" / "hivecore"
    files = [*package.glob("*/__init__.py"), *package.glob("interop/*/__init__.py")]
    others = {"interop", "reference", "traces", "verify"}
    return {file.parent.relative_to(package).as_posix() for file in files} - others


def imported(script: Path, root: Path = ROOT) -> set[str]:
    """Return the parts that a benchmark imports, directly or through scripts beside it."""
    text = script.read_text("utf-8")
    imports = r"^ *(?:from|import) (?:hivecore\._?)?(interop\.\w+|\w+)"
    named = {name.replace(".", "/") for name in re.findall(imports, text, re.MULTILINE)}
    beside = [file for name in named if (file := script.parent / f"{name}.py").is_file()]
    return (named & parts(root)).union(*(imported(file, root) for file in beside))


def sources(part: str, root: Path = ROOT) -> list[Path]:
    folders = ("src/cpp", "src/hivecore", "python/hivecore")
    files = [file for folder in folders for file in (root / folder / part).rglob("*")]
    files += (root / "src/hivecore").glob(f"_{part}.*")
    suffixes = {".py", ".pyx", ".pxi", ".hpp", ".cpp"}
    return sorted(file for file in files if file.suffix in suffixes)


def digests(names: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """Return a digest of the sources of each of these parts."""
    return {
        part: sha256(
            "\n".join(
                bare(file.read_text("utf-8"), file.suffix) for file in sources(part, root)
            ).encode()
        ).hexdigest()[:12]
        for part in sorted(names)
    }


def outdated(document: dict[str, Any], root: Path = ROOT) -> list[str]:
    """Return the parts whose sources have changed since these figures were measured."""
    measured = document["parts"]
    return [part for part, now in digests(measured, root).items() if now != measured[part]]


def stale(root: Path = ROOT) -> Iterator[str]:
    """Yield what to measure again, and why."""
    for file in sorted((root / "bench" / "results").glob("*.json")):
        document = json.loads(file.read_text("utf-8"))
        if "source" in document:
            continue  # measured elsewhere, with other code
        if "parts" not in document:
            yield f"{file.name}: of {document['date']}, before digests were kept"
        elif changed := ", ".join(outdated(document, root)):
            yield f"bench/{document['script']}: {changed} changed since {document['date']}"


if __name__ == "__main__":
    print("\n".join(stale()) or "all figures are of these sources")
