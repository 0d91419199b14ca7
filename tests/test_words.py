"""One word for each thing: docs/words.md names the words that hide what is meant, and each folder
may hold only fewer of them than tests/words.json says.

`python tests/test_words.py` lowers the numbers there to what is counted now.
"""

import ast
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "tests" / "words.json"
FOLDERS = ("python", "src", "tests", "docs", "bench", "examples")
SUFFIXES = {".py", ".pyx", ".pxi", ".pyi", ".hpp", ".cpp", ".md"}
# They name the words to forbid them.
EXEMPT = {"docs/words.md", "tests/test_words.py"}

# A declaration in C++ or Cython, such as `const auto found = ` or `int one)`.
_DECLARED = r"[\w>\]][&*]* ({names}) *(?:[=;:{{,)(]|$)"

in_source_tree = pytest.mark.skipif(
    not (ROOT / "docs" / "words.md").is_file(), reason="only the installed package is here"
)


def unwanted(page: str) -> tuple[list[str], list[str]]:
    """The words that docs/words.md forbids, in prose and as names."""
    cells = re.search(r"\| not \| but \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page)
    assert cells, "docs/words.md has no table of words that are not used"
    rows = [line.split(" | ")[0].removeprefix("| ") for line in cells[1].splitlines()]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    return [word for row in rows if "`" not in row for word in row.split(", ")], names


def count(text: str, suffix: str, words: list[str], names: list[str]) -> int:
    """How often a file uses a forbidden word, in prose and in names like `test_who_waits`, or binds
    a forbidden name.
    """
    forbidden = re.findall(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])", text, re.IGNORECASE)
    if suffix in (".py", ".pyi"):
        return len(forbidden) + sum(name in names for name in bound(text))
    if suffix == ".md":
        return len(forbidden)
    code = re.sub(r"//.*|#.*|\breturn ", "", text)
    return len(forbidden) + len(re.findall(_DECLARED.format(names="|".join(names)), code, re.M))


def bound(text: str) -> list[str]:
    """Names that a Python source binds: variables, parameters, functions and classes."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
    return names


def folder(file: Path, root: Path) -> str:
    """Where a file is counted: three folders deep at most, such as src/cpp/cells."""
    return "/".join(file.relative_to(root).parts[:-1][:3]) or file.name


def counts(root: Path) -> dict[str, int]:
    words, names = unwanted((root / "docs" / "words.md").read_text("utf-8"))
    files = [file for top in FOLDERS for file in sorted((root / top).rglob("*"))]
    files += [root / "README.md", root / "CHANGELOG.md", root / "CONTRIBUTING.md"]
    total: Counter[str] = Counter()
    for file in files:
        where = file.relative_to(root).as_posix()
        if file.suffix in SUFFIXES and where not in EXEMPT and file.is_file():
            number = count(file.read_text("utf-8"), file.suffix, words, names)
            total[folder(file, root)] += number
    return {where: number for where, number in sorted(total.items()) if number}


def too_many(counted: dict[str, int], allowed: dict[str, int]) -> list[str]:
    return [
        f"{where} has {number} words that docs/words.md forbids, {allowed.get(where, 0)} before"
        for where, number in counted.items()
        if number > allowed.get(where, 0)
    ]


@in_source_tree
def test_no_folder_uses_more_forbidden_words_than_before():
    assert too_many(counts(ROOT), json.loads(ALLOWED.read_text("utf-8"))) == []


@in_source_tree
def test_the_glossary_has_one_row_for_each_word():
    page = (ROOT / "docs" / "words.md").read_text("utf-8").partition("Other systems")[0]
    rows = re.findall(r"^\| ([\w ]+) \| (.+) \|$", page, re.MULTILINE)
    words = [word for word, _ in rows]
    assert {"job", "pod", "gang", "quota", "victim", "reclaim", "domain"} < set(words)
    assert len(set(words)) == len(words)


PAGE = "| not | but |\n| --- | --- |\n| who, anew | x |\n| `found`, `one` as names | y |\n\nwho"


@pytest.mark.parametrize(
    ("text", "suffix", "number"),
    [
        ("Who waits, anew.", ".md", 2),
        ("The whole, renewed `found`.", ".md", 0),
        ("def test_who_waits():\n    one = 1\n    for found in one: pass\n", ".py", 3),
        ("def f(found):\n    return one.found\n", ".py", 1),
        ("const auto found = one(1); // one = found\nint* one;", ".cpp", 2),
        ("return found;", ".cpp", 0),
    ],
)
def test_forbidden_words_are_counted_in_prose_and_names(text, suffix, number):
    assert count(text, suffix, *unwanted(PAGE)) == number


def test_a_folder_may_only_get_better():
    assert too_many({"docs": 3, "src": 1}, {"docs": 3}) == [
        "src has 1 words that docs/words.md forbids, 0 before"
    ]


if __name__ == "__main__":
    before = json.loads(ALLOWED.read_text("utf-8")) if ALLOWED.exists() else {}
    now = counts(ROOT)
    worse = too_many(now, before) if before else []
    if not worse:
        ALLOWED.write_text(json.dumps(now, indent=1) + "\n", "utf-8")
    sys.exit("\n".join(worse) or 0)
