import numpy as np
import pytest

from hivecore.sim.preemptive import Jobs, Span, schedule
from hivecore.sim.preemptive.report import jobs_report
from hivecore.sim.preemptive.slots import bars
from hivecore.traces import generate_training


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        # Neighbours if there are some, though lower numbers are free.
        ([(0, 5, 0), (0, 9, 1), (5, 9, 2)], [(0, 1), (1, 2), (3, 2)]),
        # Where there are none, the free ones in order.
        (
            [(0, 9, 1), (0, 2, 1), (0, 9, 1), (0, 2, 1), (2, 9, 3)],
            [(0, 2), (2, 2), (2, 2), (4, 2), (6, 2), (6, 2)],
        ),
    ],
)
def test_a_group_gets_neighbouring_gpus_or_the_first_free_ones(spans, expected):
    gpus = [1, 2, 2, 4]
    history = [Span(begin, end, (job,), (0,)) for begin, end, job in spans]
    results = [(first, length) for _, first, length in bars(history, gpus, nodes=1)]
    assert sorted(results) == expected


def test_a_group_on_several_nodes_is_a_bar_on_each():
    drawn = bars([Span(0, 9, (0,), (2, 0, 1))], [20], nodes=3)
    assert [(first, length) for _, first, length in drawn] == [(16, 8), (0, 8), (8, 4)]


def test_bars_of_one_instant_do_not_overlap():
    jobs = Jobs.of(generate_training(jobs=150, seed=1))
    history = schedule(jobs, "muri-s", record=True).history
    drawn = bars(history, jobs.gpus, nodes=8)
    assert {len(span.jobs) for span in history} == {1, 2, 3, 4}
    for instant in np.linspace(0, history[-1].end, 100):
        rows = [
            row
            for span, first, length in drawn
            if span.begin <= instant < span.end
            for row in range(first, first + length)
        ]
        assert len(rows) == len(set(rows))
        assert set(rows) <= set(range(64))


def test_pictures_are_drawn_of_what_was_recorded(tmp_path):
    jobs = Jobs.of(generate_training(jobs=150, seed=1))
    outcomes = {
        "srsf": schedule(jobs, "srsf"),
        "muri-s": schedule(jobs, "muri-s", record=True),
        "muri-l": schedule(jobs, "muri-l", record=True),
        "another": schedule(jobs, "srtf"),
    }
    paths = jobs_report(jobs, 8, outcomes).save_pictures(tmp_path / "new")
    names = ["completion.png", "timeline-muri-s.png", "timeline-muri-l.png"]
    assert [path.name for path in paths] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_a_short_history_is_drawn_as_a_whole(tmp_path):
    jobs = Jobs.of(generate_training(jobs=1, seed=0))
    outcomes = {"muri-s": schedule(jobs, "muri-s", record=True)}
    assert len(jobs_report(jobs, 8, outcomes).save_pictures(tmp_path)) == 2
