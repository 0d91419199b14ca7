import numpy as np
import pytest

from hivecore.traces import (
    StorageTrace,
    TraceFormatError,
    generate,
    generate_storage,
    generate_training,
    load_storage,
    save_storage,
    with_datasets,
)

HEADER = "job_id,dataset,dataset_gb,epochs,rate_mbps,gpus,submit"


@pytest.fixture
def trace(tmp_path):
    def write(*rows, header=HEADER):
        path = tmp_path / "jobs.csv"
        path.write_text("\n".join([header, *rows]))
        return path

    return write


def test_jobs_are_sorted_by_submission_and_epochs_become_gb(trace):
    outcome = load_storage(trace("a,x,100,2.5,114,1,60", "b,y,20,1,8,4,0"))
    assert outcome.job_id.tolist() == ["b", "a"]
    assert outcome.total_gb.tolist() == [20.0, 250.0]


def test_a_column_total_gb_takes_the_place_of_epochs(trace):
    path = trace("a,x,100,30,114,1,0", header=HEADER.replace("epochs", "total_gb"))
    assert load_storage(path).total_gb.tolist() == [30.0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            "b,y,0,1,8,4,0",
            "jobs.csv:3: field 'dataset_gb': '0' is not a finite and positive number",
        ),
        ("b,y,20,one,8,4,0", "jobs.csv:3: field 'epochs': 'one' is not a finite number"),
        ("b,y,20,1,nan,4,0", "jobs.csv:3: field 'rate_mbps': 'nan' is not"),
        ("b,y,20,1,8,1.5,0", "field 'gpus': '1.5' is not a whole number"),
        ("b,y,20,1,8,1,-1", "field 'submit': '-1' is not a finite number that is not negative"),
        ("b,,20,1,8,1,0", "field 'dataset': '' is not a name"),
        ("b,y,20,1,8,1", "jobs.csv:3: 6 fields, the header has 7"),
        (
            "b,x,20,1,8,1,0",
            r"jobs.csv:3: field 'dataset_gb': dataset x has 20 GB for job b, but 100 GB before",
        ),
    ],
)
def test_a_faulty_line_is_named(row, says, trace):
    with pytest.raises(TraceFormatError, match=says):
        load_storage(trace("a,x,100,2,114,1,0", row))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("b,y,20,-1,8,4,0", "negative epochs"),
        ("b,y,20,,8,4,0", "missing epochs"),
        ("b,y,20,0,8,4,0", "zero epochs"),
        ("b,y,20,1,8,0,0", "zero GPUs"),
        ("b,y,20,1,8,None,0", "missing GPUs"),
        ("b,y,20,1,8,-1,0", "negative GPUs"),
    ],
)
def test_a_job_that_never_ran_is_dropped_and_counted(row, reason, trace):
    loaded = load_storage(trace("a,x,100,2,114,1,0", row))
    assert (loaded.job_id.tolist(), loaded.dropped) == (["a"], {reason: 1})


def test_a_trace_of_which_no_job_ran_says_why(trace):
    with pytest.raises(TraceFormatError, match="has no job; dropped are jobs: 1 of missing epochs"):
        load_storage(trace("a,x,100,,114,1,60"))


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("b,y,20,1e308,8,4,0", "epochs"),
        ("b,y,20,1,1e-300,4,0", "epochs"),
        ("b,y,20,1,8,4,1e300", "submit"),
    ],
)
def test_a_job_that_takes_too_long_is_named_with_its_line(row, field, trace):
    with pytest.raises(
        TraceFormatError, match=rf"jobs\.csv:3: field '{field}': .* at most 2\*\*40 s"
    ):
        load_storage(trace("a,x,100,1,114,1,60", row))


def test_a_column_total_gb_behind_an_empty_first_line_is_read(trace):
    path = trace("a,x,100,30,114,1,0", header="\n" + HEADER.replace("epochs", "total_gb"))
    assert load_storage(path).total_gb.tolist() == [30.0]


def test_a_missing_column_is_named(trace):
    with pytest.raises(TraceFormatError, match=r"jobs\.csv:1: no column 'rate_mbps'"):
        load_storage(trace("a,x,100,2,1,0", header=HEADER.replace("rate_mbps,", "")))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_what_is_saved_is_read_back_bit_for_bit(name, tmp_path):
    trace = generate_storage(jobs=50, seed=3)
    save_storage(trace, tmp_path / name)
    again = load_storage(tmp_path / name)
    assert again.dropped == trace.dropped == {}
    for column in set(StorageTrace.__slots__) - {"dropped"}:
        assert getattr(again, column).tolist() == getattr(trace, column).tolist()


def test_the_same_seed_gives_the_same_jobs_and_another_one_others():
    entry, same, other = (generate_storage(jobs=40, seed=seed) for seed in (1, 1, 2))
    assert entry.total_gb.tolist() == same.total_gb.tolist() != other.total_gb.tolist()


def test_the_share_of_common_datasets_is_an_argument():
    alone, shared = (generate_storage(jobs=200, seed=0, shared=share) for share in (0.0, 1.0))
    assert len(set(alone.dataset.tolist())) == 200
    assert len(set(shared.dataset.tolist())) <= 5


@pytest.mark.parametrize(
    "trace", [generate({"x": 8}, jobs=30, seed=0), generate_training(jobs=30, seed=0)]
)
def test_jobs_of_other_traces_keep_times_and_gpus(trace):
    outcome = with_datasets(trace, seed=0)
    assert outcome.submit.tolist() == trace.submit.tolist()
    assert outcome.gpus.tolist() == trace.gpus.tolist()
    assert 1e3 * outcome.total_gb / outcome.rate_mbps == pytest.approx(trace.duration)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"jobs": 0}, "jobs=0: allowed are 1 to"),
        ({"jobs": 1.5}, "jobs must be an integer, not float"),
        ({"seed": None}, "seed must be an integer, not NoneType"),
        ({"gpus": 0}, "gpus=0: allowed are 1 to"),
        ({"gpus": 2**70}, "gpus=1180591620717411303424: allowed are 1 to"),
        ({"load": np.nan}, "load must be finite and positive"),
        ({"load": 10**400}, "load is too large for a float"),
        ({"shared": 1.5}, "shared must be between 0 and 1, not 1.5"),
        ({"shared": "x"}, "shared must be a float, not str"),
    ],
)
def test_wrong_arguments_of_the_generator_are_named(change, says):
    with pytest.raises((TypeError, ValueError), match=says):
        generate_storage(**{"jobs": 9, "seed": 0, **change})


def test_what_gets_no_datasets_is_named():
    with pytest.raises(TypeError, match="trace must be a Trace or a TrainingTrace, not str"):
        with_datasets("x", seed=0)
    with pytest.raises(TypeError, match="seed must be an integer, not str"):
        with_datasets(generate({"x": 8}, jobs=3, seed=0), seed="x")
