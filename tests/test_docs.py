"""What the documentation promises of itself: every public name has its place in the reference."""

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from hivecore._record import RecordType

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="only the installed package is here")

REFERENCE = sorted((DOCS / "reference").glob("*.md"))
#: names that `hivecore.sim` offers as well, and that stand under it
ELSEWHERE = {"hivecore.sim.simulate.simulate", "hivecore.sim.simulate.Outcome"}


def listed():
    """How often each name stands in the reference."""
    pages = (page.read_text("utf-8") for page in REFERENCE)
    return Counter(
        name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    )


def test_every_public_name_of_a_module_stands_in_the_reference_once():
    names = listed()
    modules = {name.rpartition(".")[0] for name in names}
    public = {f"{m}.{name}" for m in modules for name in importlib.import_module(m).__all__}
    assert names == Counter(public - ELSEWHERE)


def test_signatures_show_types_and_no_checks():
    for name in listed():
        module, _, public = name.rpartition(".")
        named = getattr(importlib.import_module(module), public)
        if isinstance(named, RecordType):
            assert not re.search(r"Annotated| at 0x", str(inspect.signature(named))), name


def test_every_subject_has_a_guide_a_reference_and_figures_in_the_menu():
    menu = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    for guide in (DOCS / "subjects").glob("*.md"):
        text = guide.read_text("utf-8")
        for folder in ("reference", "figures"):
            page = f"{folder}/{guide.name}"
            assert (DOCS / page).is_file() and f" {page}\n" in menu
            assert f"(../{page})" in text


def test_every_example_has_its_place_in_the_gallery():
    scripts = {script.stem for script in (DOCS.parent / "examples").glob("*.py")}
    shown = re.findall(r'^    "(\w+)": \("', (DOCS / "scripts/gallery.py").read_text("utf-8"), re.M)
    assert sorted(shown) == sorted(scripts)
