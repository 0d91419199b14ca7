"""bench/against.py: when a change counts as slower than its base."""

import json

import pytest
from against import compare, read, table


def verdicts(base, change):
    return {row.name: row.verdict for row in compare(base, change)}


QUIET = [{"a": 1.0, "b": 2.0}, {"a": 1.01, "b": 2.02}]


def test_runs_of_the_same_code_are_the_same_within_their_noise():
    runs = [{"a": seconds, "b": 2.0} for seconds in (1.0, 1.2, 1.1)]
    assert verdicts(runs[:2], runs[2:]) == {"a": "same", "b": "same"}


def test_a_benchmark_is_slower_when_all_its_runs_are_slower_than_the_noise():
    assert verdicts(QUIET, [{"a": 1.3, "b": 2.0}, {"a": 1.1, "b": 2.0}]) == {
        "a": "slower",
        "b": "same",
    }


def test_one_fast_run_of_the_change_is_enough_to_be_the_same():
    assert verdicts(QUIET, [{"a": 1.3, "b": 2.0}, {"a": 1.0, "b": 2.0}])["a"] == "same"


def test_a_benchmark_is_faster_beyond_the_noise():
    assert verdicts(QUIET, [{"a": 0.9, "b": 2.0}])["a"] == "faster"


@pytest.mark.parametrize(("seconds", "verdict"), [(1.02, "same"), (1.04, "slower")])
def test_growth_below_the_least_noise_is_the_same(seconds, verdict):
    assert verdicts([{"a": 1.0}, {"a": 1.0}], [{"a": seconds}]) == {"a": verdict}


def test_a_benchmark_whose_runs_agree_by_chance_has_the_median_noise_of_all():
    base = [{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 1.2, "c": 1.3}]
    change = [{"a": 1.15, "b": 1.0, "c": 1.0}]
    assert verdicts(base, change)["a"] == "same"


def test_benchmarks_that_only_one_side_has_are_named():
    assert verdicts([{"a": 1.0, "old": 1.0}], [{"a": 1.0, "fresh": 1.0}]) == {
        "a": "same",
        "old": "missing",
        "fresh": "new",
    }


def test_the_table_begins_with_what_is_slower():
    rows = compare(QUIET, [{"a": 1.0, "b": 3.0, "fresh": 1e-6}])
    assert table(rows).splitlines()[2:] == [
        "| b | 2,000,000.0 | 3,000,000.0 | 1.50 | 3% | slower |",
        "| fresh |  | 1.0 |  | 3% | new |",
        "| a | 1,000,000.0 | 1,000,000.0 | 1.00 | 3% | same |",
    ]


def test_a_file_of_figures_is_read_as_the_least_seconds_of_each_benchmark(tmp_path):
    entries = [{"name": "test_x[1]", "stats": {"min": 0.5, "median": 0.6}}]
    (tmp_path / "run.json").write_text(json.dumps({"benchmarks": entries}))
    assert read(tmp_path / "run.json") == {"test_x[1]": 0.5}
