import numpy as np
import pytest

from hivecore.sim.specs import TraceJobs
from hivecore.traces import (
    GpuNodes,
    GpuPods,
    TraceFormatError,
    generate_openb_nodes,
    generate_openb_pods,
    load_openb_nodes,
    load_openb_pods,
)

NODES = "sn,cpu_milli,memory_mib,gpu,model"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
SPECS = f"{PODS},gpu_spec"


@pytest.fixture
def file(tmp_path):
    def write(*lines):
        path = tmp_path / "list.csv"
        path.write_text("\n".join(lines))
        return path

    return write


def test_nodes_are_read_in_their_order(file):
    nodes = load_openb_nodes(file(NODES, "b,64000,262144,2,P100", "a,96000,393216,8,G2"))
    assert nodes.name.tolist() == ["b", "a"]
    assert nodes.cpu_milli.tolist() == [64000, 96000]
    assert nodes.memory_mib.tolist() == [262144, 393216]
    assert nodes.model.tolist() == ["P100", "G2"]
    assert nodes.gpu_milli == 10_000


def test_a_node_without_gpus_needs_no_model(file):
    assert load_openb_nodes(file(NODES, "a,32000,262144,0,")).model.tolist() == [""]


def test_a_pod_may_run_on_all_models_or_on_some(file):
    pods = load_openb_pods(
        file(SPECS, "a,1,2,1,460,", "b,1,2,8,1000,V100M16|V100M32", "c,1,0,0,0,")
    )
    assert pods.models == (frozenset(), frozenset({"V100M16", "V100M32"}), frozenset())
    assert pods.total_milli.tolist() == [460, 8000, 0]
    assert pods.created is None


def test_a_list_without_models_is_read(file):
    assert load_openb_pods(file(PODS, "a,1,2,1,460")).models == (frozenset(),)


def test_times_are_read_where_there_are_some(file):
    header = f"{SPECS},qos,pod_phase,creation_time,deletion_time,scheduled_time"
    pods = load_openb_pods(file(header, "a,1,2,1,460,,LS,Pending,7,9,"))
    assert (pods.created.tolist(), pods.deleted.tolist()) == ([7.0], [9.0])


def test_more_gpus_than_a_node_of_a_cluster_may_have_are_named_with_their_line(file):
    says = r"list\.csv:2: field '{}': '257' is not a whole number from 0 to 256"
    with pytest.raises(TraceFormatError, match=says.format("gpu")):
        load_openb_nodes(file(NODES, "a,1,2,257,P100"))
    with pytest.raises(TraceFormatError, match=says.format("num_gpu")):
        load_openb_pods(file(PODS, "a,1,2,257,1000"))


def test_columns_behind_an_empty_first_line_are_read(file):
    pods = load_openb_pods(file("", f"{SPECS},creation_time", "a,1,2,1,460,V100M16,7"))
    assert (pods.models, pods.created.tolist()) == ((frozenset({"V100M16"}),), [7.0])


def test_a_first_line_too_long_for_csv_is_an_error(file):
    with pytest.raises(TraceFormatError, match=r"list\.csv:1: not CSV"):
        load_openb_pods(file("x" * 200_000))


def test_pods_without_a_time_that_makes_sense_are_read_and_never_ran(file):
    header = f"{SPECS},creation_time,deletion_time"
    times = ("7,9", "9,7", "5,5", ",9", "7,None", "4,nan")
    pods = load_openb_pods(file(header, *(f"{i},1,2,1,460,,{two}" for i, two in enumerate(times))))
    assert len(pods) == 6
    assert np.isnan(pods.deleted).tolist() == [False] * 4 + [True] * 2
    jobs = TraceJobs.of_pods(pods, "x")
    assert jobs.duration.tolist() == [2.0]
    expected = {"missing duration": 3, "negative duration": 1, "zero duration": 1}
    assert jobs.dropped == expected


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("b,x,2,1,460,", "list.csv:3: field 'cpu_milli': 'x' is not a whole number"),
        ("b,1,-2,1,460,", "list.csv:3: field 'memory_mib': '-2' is not"),
        ("b,1,2,1.5,460,", "list.csv:3: field 'num_gpu': '1.5' is not"),
        ("b,1,2,1,1001,", "list.csv:3: field 'gpu_milli': '1001' is not a whole number from 0"),
        ("b,1,2,1,0,", "list.csv:3: field 'gpu_milli': 0 with num_gpu 1"),
        ("b,1,2,0,500,", "list.csv:3: field 'gpu_milli': 500 with num_gpu 0"),
        ("b,1,2,1,460,T4||A10", "list.csv:3: field 'gpu_spec': 'T4||A10' is not nothing, a model"),
        ("a,1,2,1,460,", "list.csv:3: field 'name': 'a' is there twice"),
        (",1,2,1,460,", "list.csv:3: field 'name': '' is not a name"),
        ("b,1,2,1", "list.csv:3: 4 fields, the header has 6"),
    ],
)
def test_a_fault_of_a_pod_is_named_with_file_line_and_field(file, row, says):
    with pytest.raises(TraceFormatError) as caught:
        load_openb_pods(file(SPECS, "a,1,2,1,460,", row))
    assert says in str(caught.value)


def test_a_fault_of_a_node_is_named_with_file_line_and_field(file):
    with pytest.raises(TraceFormatError, match=r"list\.csv:3: field 'sn': 'a' is there twice"):
        load_openb_nodes(file(NODES, "a,1,1,1,T4", "a,1,1,1,T4"))
    with pytest.raises(TraceFormatError, match=r"list\.csv:2: field 'gpu': 'two' is not"):
        load_openb_nodes(file(NODES, "a,1,1,two,T4"))


def pods_with(**columns):
    given = {
        "name": np.array(["a", "b"]),
        "cpu_milli": np.array([1, 2]),
        "memory_mib": np.array([1, 2]),
        "gpus": np.array([1, 0]),
        "gpu_milli": np.array([500, 0]),
        "models": (frozenset(), frozenset()),
    }
    return GpuPods(**(given | columns))


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"gpus": np.array([1.0, 0.0])}, TypeError, "gpus must hold int64, not float64"),
        ({"gpus": np.array([1])}, ValueError, "gpus must have shape"),
        ({"cpu_milli": np.array([1, -1])}, ValueError, "cpu_milli must not be negative, not -1"),
        ({"gpu_milli": np.array([0, 0])}, ValueError, "not 0 of pod a with 1"),
        ({"gpu_milli": np.array([1001, 0])}, ValueError, "not 1001 of pod a"),
        ({"name": np.array(["a", "a"])}, ValueError, "name 'a' is there twice"),
        ({"models": (frozenset(),)}, ValueError, "models must have one entry for each of 2"),
        ({"created": np.array([0.0, np.inf])}, ValueError, "created must be finite, or nan"),
    ],
)
def test_columns_that_are_no_pods_are_refused(columns, error, says):
    with pytest.raises(error, match=says):
        pods_with(**columns)


def test_columns_are_copies_that_cannot_be_written_to():
    gpus = np.array([1, 0])
    pods = pods_with(gpus=gpus)
    gpus[0] = 7
    assert pods.gpus.tolist() == [1, 0]
    with pytest.raises(ValueError, match="read-only"):
        pods.gpus[0] = 7


def test_selected_nodes_come_in_the_order_asked_for():
    nodes = generate_openb_nodes(5, seed=0)
    assert nodes.select(np.array([3, 1])).name.tolist() == nodes.name[[3, 1]].tolist()
    with pytest.raises(ValueError, match="there twice"):
        nodes.select(np.array([1, 1]))
    assert isinstance(nodes.select(nodes.gpus >= 0), GpuNodes)


def test_equal_seeds_generate_equal_nodes_and_pods():
    for make in (generate_openb_nodes, generate_openb_pods):
        entry, same, other = make(50, seed=1), make(50, seed=1), make(50, seed=2)
        assert entry.cpu_milli.tolist() == same.cpu_milli.tolist() != other.cpu_milli.tolist()


def test_generated_pods_ask_for_as_much_as_those_of_the_trace():
    # openb: 5.12 GPUs a node, 747 thousandths a pod, 13.3 % of the pods without GPUs.
    nodes, pods = generate_openb_nodes(5000, seed=0), generate_openb_pods(20000, seed=0)
    assert abs(nodes.gpus.mean() - 5.12) < 0.2
    assert abs(pods.total_milli.mean() - 747) < 25
    assert abs((pods.gpus == 0).mean() - 0.133) < 0.015


def test_some_generated_pods_with_gpus_run_on_one_model_only():
    pods = generate_openb_pods(4000, seed=0, constrained=0.33)
    named = np.array([len(models) for models in pods.models])
    assert set(named.tolist()) == {0, 1}
    assert not named[pods.gpus == 0].any()
    assert abs(named[pods.gpus > 0].mean() - 0.33) < 0.04


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: generate_openb_nodes(0, seed=0), "nodes=0"),
        (lambda: generate_openb_pods(0, seed=0), "pods=0"),
        (lambda: generate_openb_pods(1, seed=-1), "seed=-1"),
        (lambda: generate_openb_pods(1, seed=0, constrained=1.5), "constrained must be between"),
    ],
)
def test_a_generator_refuses_what_it_cannot_make(call, says):
    with pytest.raises(ValueError, match=says):
        call()
