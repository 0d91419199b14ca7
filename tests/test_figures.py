"""What result files say of themselves: when, where and of which sources they were measured."""

import json
from pathlib import Path

import pytest
from digests import bare, digests, imported, outdated, stale

ROOT = Path(__file__).resolve().parents[1]

in_source_tree = pytest.mark.skipif(
    not (ROOT / "bench" / "results").is_dir(), reason="only the installed package is here"
)


@in_source_tree
def test_result_files_name_commit_date_and_machine():
    files = sorted((ROOT / "bench" / "results").glob("*.json"))
    lacking = [
        f"{file.name}: {key}"
        for file in files
        for key in ("benchmark", "commit", "date", "processor")
        if not json.loads(file.read_text("utf-8")).get(key)
    ]
    assert files
    assert lacking == []


@in_source_tree
def test_the_table_of_the_readme_is_of_these_sources():
    document = json.loads((ROOT / "bench" / "results" / "readme.json").read_text("utf-8"))
    changed = ", ".join(outdated(document))
    advice = "changed since README's table was measured: `make bench-readme` takes some minutes"
    assert not changed, f"{changed} {advice}"


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "python/hivecore/cells/__init__.py": '"""Cells."""\n',
        "python/hivecore/cells/tree.py": "def f(x):\n    return x + 1\n",
        "src/hivecore/_cells.pyx": "cdef int g(int x):\n    return x\n",
        "src/cpp/cells/buddy.hpp": "// A buddy.\nint h(int x);\n",
        "python/hivecore/quotas/__init__.py": "",
        "bench/bench_cells.py": "from beside import y\nfrom hivecore._cells import x\n",
        "bench/beside.py": "from hivecore.quotas import y\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (tmp_path / "bench" / "results").mkdir()
    return tmp_path


def written(tree, **more):
    document = {
        "date": "2026-01-01",
        "script": "bench_cells.py",
        "parts": digests(imported(tree / "bench/bench_cells.py", tree), tree),
        **more,
    }
    (tree / "bench/results/cells.json").write_text(json.dumps(document), "utf-8")
    return document


def test_a_benchmark_speaks_of_the_parts_that_it_and_scripts_beside_it_import(tree):
    assert sorted(written(tree)["parts"]) == ["cells", "quotas"]
    assert list(stale(tree)) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("src/cpp/cells/buddy.hpp", "// A buddy.\nint h(long x);\n"),
        ("src/cpp/cells/buddy.cpp", "int h(int x) { return x; }\n"),
        ("src/hivecore/_cells.pyx", "cdef int g(int x):\n    return x + 1\n"),
        ("src/hivecore/cells/group.pxi", "cdef int g(int x):\n    return x\n"),
        ("python/hivecore/cells/tree.py", "def f(x):\n    return x + 2\n"),
    ],
)
def test_figures_are_stale_when_sources_have_changed(tree, file, text):
    document = written(tree)
    (tree / file).parent.mkdir(exist_ok=True)
    (tree / file).write_text(text, "utf-8")
    assert outdated(document, tree) == ["cells"]
    assert list(stale(tree)) == ["bench/bench_cells.py: cells changed since 2026-01-01"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("src/cpp/cells/buddy.hpp", "/* Another\n buddy. */\n\nint h(\n    int x);  // that\n"),
        ("python/hivecore/cells/tree.py", 'def f(x):\n    """Next."""\n\n    return x + 1  # so\n'),
        ("python/hivecore/quotas/README.md", "a page"),
        ("python/hivecore/cells/__init__.py", ""),
        ("src/cpp/devices/node.hpp", "int other();\n"),
    ],
)
def test_comments_docstrings_spacing_and_other_parts_do_not_count(tree, file, text):
    document = written(tree)
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text(text, "utf-8")
    assert outdated(document, tree) == []


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('url = "http://a"  # that', ".py"),
        ("x = '#'", ".pyx"),
        ('x = "\\"#"', ".py"),
        ('text = """\n# no comment\n"""', ".py"),
        ('auto url = "http://a"; // that', ".cpp"),
        ("auto quote = '\"'; // that \"", ".hpp"),
    ],
)
def test_what_looks_like_a_comment_within_a_string_stays(text, suffix):
    code = text.partition("  #")[0].partition(" //")[0]
    assert bare(text, suffix) == "".join(code.split())


def test_figures_of_elsewhere_are_never_stale_and_those_without_digests_always(tree):
    written(tree, source="by others")
    assert list(stale(tree)) == []
    (tree / "bench/results/cells.json").write_text('{"date": "2025-12-31"}', "utf-8")
    assert list(stale(tree)) == ["cells.json: of 2025-12-31, before digests were kept"]
