"""What was held, waited for and got done over time, and the page that shows it."""

import numpy as np
import pytest

from hivecore.sim.demo import ALONE, CONFIGURATIONS, Demo, DemoRun, demo_report, run_demo
from hivecore.sim.demo.ledger import Books
from hivecore.sim.demo.series import demo_series
from hivecore.traces import TenantsTrace, Trace, generate_tenants


def by_hand():
    """Two tenants of a node each, over four seconds: b shares what a began, the work of c is lost."""
    trace = Trace.from_columns(
        ["a", "b", "c", "d"], ["x", "x", "y", "y"], [0, 1, 1, 4], [1, 2, 1, 1], [8, 8, 4, 8]
    )
    none = np.zeros(4)
    product = TenantsTrace(trace, {"x": 1, "y": 1}, np.ones((4, 3)), np.array([""] * 4), none, {})
    books = Books(
        job=np.array([0, 1, 2, 2, 3]),
        runs=np.array([[0, 2], [1, 5], [1, 2], [3, 4], [4, 5]], dtype=float),
        holder=np.array([0, 2, 2, 3]),
        node=np.array([0, 1, 1, 1]),
        gpus=np.array([8, 4, 4, 8]),
        held=np.array([[0, 5], [1, 2], [3, 4], [4, 5]], dtype=float),
    )
    run = DemoRun(
        np.array([0.0, 1, 3, 4]), np.array([2.0, 5, 4, 5]), np.array([0.0, 0, 1, 0]), books
    )
    return Demo(product, 1.0, 1.0, {ALONE: DemoRun(run.start, run.end, run.lost, None), "cells": run})


def test_series_are_those_worked_out_by_hand():
    series = demo_series(by_hand(), "cells", 5)
    assert series.instants.tolist() == [0, 1, 2, 3, 4]
    assert series.held.tolist() == [[8, 8, 8, 8, 8], [0, 4, 0, 4, 8]]
    assert series.waiting.tolist() == [[0, 0, 0, 0, 0], [0, 0, 4, 0, 0]]
    # a and b go at half speed.
    assert series.useful.tolist() == [4, 8, 4, 8, 12]
    assert series.used.tolist() == [[8, 8, 8, 8, 8], [0, 4, 0, 4, 8]]
    assert series.free.tolist() == [8, 4, 8, 4, 0]
    assert series.stranded.tolist() == [0, 4, 0, 4, 0]
    assert series.fragmentation == pytest.approx(8 / 24)


def test_tenants_that_are_alone_have_no_series():
    with pytest.raises(ValueError, match="name='alone': tenants are alone there"):
        demo_series(by_hand(), ALONE, 5)


@pytest.fixture(scope="module")
def demo():
    return run_demo(generate_tenants(jobs=200, seed=2, load=1.1, days=0.3), 1000.0, 6000.0)


def test_series_agree_with_one_another(demo):
    for name in CONFIGURATIONS:
        series = demo_series(demo, name, 57)
        assert series.held.sum(axis=0) == pytest.approx(series.used.sum(axis=0))
        assert series.used.min() >= 0 and series.used.max() <= 8
        assert series.waiting.min() >= -1e-9
        if name in ("quotas", "cells", "+ lending"):
            assert (series.useful <= series.held.sum(axis=0) + 1e-6).all()


def drawn(demo):
    """All words on the page."""
    from matplotlib.text import Text

    page = demo_report(demo).pictures["demo"]()
    return [text.get_text() for text in page.findobj(Text) if text.get_text()]


def test_titles_say_what_the_figures_say(demo):
    words = drawn(demo)
    for name in ("quotas", "+ data"):
        part = demo_series(demo, name, 500).fragmentation
        assert f"{part:.0%} of the free GPUs are on nodes in part use" in words
    for tenant in demo.work.nodes:
        assert tenant in words
    for name in CONFIGURATIONS:
        assert words.count(name) >= 2  # of a line and of a bar
    assert any(text.startswith("5 tenants, 200 jobs, 432 GPUs") for text in words)
    waits = [f"{demo.wait(name, demo.most_delayed) / 60:,.0f}" for name in ("quotas", "+ data")]
    assert any(f"waits {waits[0]} minutes, alone" in text for text in words)
    assert f"The same job waits {waits[1]} minutes" in words


def test_a_page_of_runs_that_are_alike_says_that_no_part_helps():
    demo = by_hand()
    runs = {ALONE: demo.runs[ALONE]} | dict.fromkeys(CONFIGURATIONS, demo.runs["cells"])
    words = drawn(Demo(demo.work, 1.0, 1.0, runs))
    assert "No part makes jobs complete sooner on average" in words


def test_the_page_is_a_picture(demo, tmp_path):
    (path,) = demo_report(demo).save_pictures(tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "demo.png"
    assert path.read_bytes().startswith(b"\x89PNG")
