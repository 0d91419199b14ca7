import pytest

from hivecore.sim.preemptive import Jobs
from hivecore.traces import TraceFormatError, generate_training, load_training

HEADER = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority"
)
ROWS = ["a,8,5000,1000,vgg16,32,999000,0,200,82,75,66,0", "b,3,0,10,llama,1,3000,0,300,0.5,1,0,1"]


@pytest.fixture
def trace(tmp_path):
    def write(*rows):
        path = tmp_path / "jobs.csv"
        path.write_text("\n".join([HEADER, *rows]))
        return path

    return write


def test_jobs_are_sorted_by_submission_and_keep_their_own_duration(trace):
    outcome = load_training(trace(*ROWS))
    assert outcome.job_id.tolist() == ["b", "a"]
    assert (outcome.submit.tolist(), outcome.duration.tolist()) == ([0.0, 5.0], [3.0, 999.0])


def test_alone_an_iteration_takes_a_little_longer_than_profiled(trace):
    jobs = Jobs.of(load_training(trace(*ROWS)))
    assert jobs.solo == [300 * 1.015 / 1000, 200 * 1.015 / 1000]
    assert jobs.stages[1] == (0.082, 0.075, 0.066)


def test_restarts_cost_what_the_table_says(trace):
    loaded = load_training(trace(*ROWS))
    assert Jobs.of(loaded).restart == [10.0, 9.0]
    assert Jobs.of(loaded, restart_costs=False).restart == [0.0, 0.0]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("c,0,0,1,bert,1,1,0,1,1,1,1,0", "zero GPUs"),
        ("c,None,0,1,bert,1,1,0,1,1,1,1,0", "missing GPUs"),
        ("c,1,0,0,bert,1,1,0,1,1,1,1,0", "zero iterations"),
        ("c,1,0,,bert,1,1,0,1,1,1,1,0", "missing iterations"),
        ("c,1,0,1,bert,1,,0,1,1,1,1,0", "missing duration"),
        ("c,1,0,1,bert,1,-4,0,1,1,1,1,0", "negative duration"),
        ("c,1,0,1,bert,1,1,0,0,1,1,1,0", "zero iteration time"),
        ("c,1,0,1,bert,1,1,0,1,0,0,0,0", "zero stage times"),
    ],
)
def test_a_job_that_could_not_run_is_dropped_and_counted(trace, row, reason):
    loaded = load_training(trace(*ROWS, row))
    assert (loaded.jobs, loaded.dropped) == (2, {reason: 1})


def test_a_training_trace_of_which_no_job_ran_says_why(trace):
    with pytest.raises(TraceFormatError, match="has no job; dropped are jobs: 1 of zero stage"):
        load_training(trace("c,1,0,1,bert,1,1,0,1,0,0,0,0"))


def test_stage_times_beyond_a_float_are_dropped_and_counted(trace):
    loaded = load_training(trace(*ROWS, "c,1,0,1,bert,1,1,0,1,1e308,1e308,1e308,0"))
    assert (loaded.jobs, loaded.dropped) == (2, {"infinite stage times": 1})


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("c,1,1e300,1,bert,1,1,0,1,1,0,0,0", "submit_time"),
        ("c,1,0,9007199254740992,bert,1,1,0,1e200,1,0,0,0", "iterations"),
        ("c,1,0,1,bert,1,1e300,0,1,1,0,0,0", "duration"),
    ],
)
def test_a_training_job_that_takes_too_long_is_named_with_its_line(trace, row, field):
    with pytest.raises(TraceFormatError, match=rf":4: field '{field}': .* at most 2\*\*40 s"):
        load_training(trace(*ROWS, row))


def test_a_field_of_training_that_makes_no_sense_is_named(trace):
    with pytest.raises(TraceFormatError, match="field 'resource_time_0': '-1' is not a finite"):
        load_training(trace(*ROWS, "c,1,0,1,bert,1,1,0,1,-1,0,0,0"))


def test_equal_seeds_give_equal_jobs_and_others_do_not():
    entry, same, other = (generate_training(jobs=100, seed=seed) for seed in (1, 1, 2))
    for column in ("job_id", "model", "gpus", "submit", "iterations", "stages_ms"):
        assert getattr(entry, column).tolist() == getattr(same, column).tolist()
    assert entry.iterations.tolist() != other.iterations.tolist()


@pytest.mark.parametrize(("gpus", "load"), [(64, 0.5), (8, 3.0)])
def test_generated_jobs_fit_and_have_the_asked_load(gpus, load):
    trace = generate_training(jobs=400, seed=0, gpus=gpus, load=load)
    assert set(trace.gpus.tolist()) <= {1, 2, 4, 8, 16, 32}
    assert trace.gpus.max() <= gpus
    work = trace.gpus @ (trace.iterations * trace.iteration_ms / 1000)
    assert work / (gpus * trace.submit[-1]) == pytest.approx(load)


def test_one_gpu_needs_no_network():
    trace = generate_training(jobs=100, seed=0)
    assert (trace.stages_ms[:, 2] > 0).tolist() == (trace.gpus > 1).tolist()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"jobs": 0}, "jobs=0: allowed are 1 to"),
        ({"jobs": "5"}, "jobs must be an integer, not str"),
        ({"seed": None}, "seed must be an integer, not NoneType"),
        ({"gpus": 0}, "gpus=0: allowed are 1 to"),
        ({"load": 0.0}, "load must be finite and positive, not 0.0"),
        ({"load": float("nan")}, "load must be finite and positive, not nan"),
    ],
)
def test_a_trace_that_cannot_be_generated_is_named(arguments, says):
    with pytest.raises((TypeError, ValueError), match=says):
        generate_training(**{"jobs": 5, "seed": 0} | arguments)
