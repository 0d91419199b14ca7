import pickle

import numpy as np
import pytest

from hivecore.traces import Trace, TraceFormatError


def columns(**changes):
    """Two sound jobs of tenants x and y, with some columns changed."""
    sound = {
        "tenants": ("x", "y"),
        "job_id": ["a", "b"],
        "tenant": [0, 1],
        "submit": [0.0, 10.0],
        "duration": [60.0, 30.0],
        "gpus": [1, 8],
    }
    return sound | changes


def test_columns_have_the_documented_types():
    trace = Trace(**columns())
    assert trace.job_id.dtype.kind == "U"
    assert [trace.tenant.dtype, trace.submit.dtype] == [np.int32, np.float64]
    assert [trace.duration.dtype, trace.gpus.dtype] == [np.float64, np.int64]
    assert len(trace) == trace.jobs == 2
    assert trace.gpu_hours == pytest.approx((60 + 240) / 3600)


def test_arrays_are_read_only_copies():
    submit = np.array([0.0, 10.0])
    trace = Trace(**columns(submit=submit))
    submit[0] = 5.0
    assert trace.submit[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        trace.submit[0] = 5.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpus": [1]}, r"gpus must have shape \(2,\)"),
        ({"gpus": [1, 0]}, r"gpus\[1\] is out of range: 0"),
        ({"duration": [0.0, 1.0]}, r"duration\[0\] is out of range: 0.0"),
        ({"duration": [1.0, np.nan]}, r"duration\[1\] is out of range: nan"),
        ({"duration": [1.0, np.inf]}, r"duration\[1\] is out of range: inf"),
        ({"submit": [-1.0, 0.0]}, r"submit\[0\] is out of range: -1.0"),
        ({"submit": [10.0, 0.0]}, "submit must not fall"),
        ({"tenant": [0, 2]}, r"tenant\[1\] is out of range: 2"),
        ({"tenants": ("y", "x")}, "distinct names in sorted order"),
        ({"tenants": ("x", "x")}, "distinct names in sorted order"),
    ],
)
def test_a_column_out_of_range_is_named(changes, says):
    with pytest.raises(ValueError, match=says):
        Trace(**columns(**changes))


def test_an_empty_trace_is_refused():
    with pytest.raises(ValueError, match="at least one job"):
        Trace.from_columns([], [], [], [], [])


def test_from_columns_sorts_stably_and_counts_from_the_first_submission():
    trace = Trace.from_columns(list("abcd"), ["y", "x", "y", "x"], [7, 5, 7, 9], [1] * 4, [1] * 4)
    assert trace.job_id.tolist() == ["b", "a", "c", "d"]
    assert trace.submit.tolist() == [0, 2, 2, 4]
    assert [trace.tenants[code] for code in trace.tenant] == ["x", "y", "y", "x"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tenant": ["x"]}, r"tenant must have shape \(2,\) like submit, not \(1,\)"),
        ({"gpus": [1]}, r"gpus must have shape \(2,\) like submit, not \(1,\)"),
        ({"duration": [1, 1, 1]}, r"duration must have shape \(2,\) like submit, not \(3,\)"),
        ({"job_id": ["a"]}, r"job_id must have shape \(2,\) like submit, not \(1,\)"),
        ({"job_id": list("abc")}, r"job_id must have shape \(2,\) like submit, not \(3,\)"),
        ({"tenant": list("xyz")}, r"tenant must have shape \(2,\) like submit, not \(3,\)"),
        ({"submit": [0.0, np.inf]}, r"submit\[1\] is out of range: inf"),
        ({"gpus": [1.5, 1]}, r"gpus\[0\] is out of range: 1.5"),
        ({"gpus": [2**63, 1]}, r"gpus\[0\] is out of range: 9.22"),
        ({"gpus": [2**64, 1]}, "gpus must hold numbers, not object"),
        ({"submit": ["0", "1"]}, "submit must hold numbers, not <U1"),
    ],
)
def test_columns_that_are_none_are_named(given, says):
    good = {"job_id": ["a", "b"], "tenant": ["x", "x"], "submit": [0, 1], "duration": [1, 1]}
    with pytest.raises((TypeError, ValueError), match=says):
        Trace.from_columns(**(good | {"gpus": [1, 1]} | given))


def test_jobs_that_take_no_room_are_dropped_and_counted():
    trace = Trace.from_columns(
        list("abcd"),
        ["gone", "x", "x", "x"],
        [0, 1, 2, 3],
        [0, 0, 5, 5],
        [0, 1, 0, 1],
        {"other": 3},
    )
    assert trace.job_id.tolist() == ["d"]
    assert trace.submit.tolist() == [0]
    assert trace.tenants == ("x",)
    assert trace.dropped == {"zero duration": 2, "zero GPUs": 1, "other": 3}


def test_scale_load_divides_the_times_between_submissions():
    trace = Trace(**columns())
    assert trace.scale_load(4.0).submit.tolist() == [0.0, 2.5]
    assert trace.scale_load(4.0).duration.tolist() == trace.duration.tolist()


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_scale_load_refuses_what_is_no_factor(factor):
    with pytest.raises(ValueError, match="factor must be finite and positive"):
        Trace(**columns()).scale_load(factor)


def test_scale_load_names_what_is_no_number():
    with pytest.raises(TypeError, match="factor must be a float, not str"):
        Trace(**columns()).scale_load("2")


def test_select_keeps_the_clock_and_the_tenants():
    trace = Trace(**columns())
    kept = trace.select(trace.gpus == 8)
    assert (kept.submit.tolist(), kept.tenants) == ([10.0], ("x", "y"))
    with pytest.raises(ValueError, match="at least one job"):
        trace.select(trace.gpus > 8)
    with pytest.raises(ValueError, match="one entry per job"):
        trace.select(np.array([True]))
    with pytest.raises(TypeError, match="keep must hold bools, not int64"):
        trace.select(np.array([1, 0]))  # rows, not marks


def test_an_error_survives_the_way_home_from_another_process():
    error = TraceFormatError("'x' is not a number", "jobs.csv", 3, "gpus")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "jobs.csv:3: field 'gpus': 'x' is not a number"
    assert (copy.line, copy.field) == (3, "gpus")
