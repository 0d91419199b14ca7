"""Replays of pods that share GPUs: arrivals, the loop, figures, table, pictures, inventories."""

import numpy as np
import pytest
from devices.replays import follow
from profiles import seeds

from hivecore.devices import DeviceRequest
from hivecore.sim.devices import (
    SHARING_POLICIES,
    DeviceReplay,
    arrivals,
    devices_report,
    inventories,
    median_at,
    replay_devices,
    request_of,
)
from hivecore.traces import GpuPods, generate_openb_nodes, generate_openb_pods

NODES = generate_openb_nodes(12, seed=0)
PODS = generate_openb_pods(60, seed=0)


def pods_of(*milli):
    count = len(milli)
    none = np.zeros(count, dtype=np.int64)
    total = np.array(milli)
    return GpuPods(
        name=np.arange(count).astype(np.str_),
        cpu_milli=none,
        memory_mib=none,
        gpus=(total > 0).astype(np.int64),
        gpu_milli=total,
        models=(frozenset(),) * count,
    )


def replay(policy, seed=0, **options):
    return replay_devices(NODES, PODS, policy, seed, **options)


# --- arrivals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20))
def test_all_pods_come_once_and_then_some_again_until_the_load_is_reached(seed):
    rows = arrivals(PODS, 100_000, 1.3, seed)
    wanted = PODS.total_milli[rows]
    assert sorted(rows[: len(PODS)].tolist()) == list(range(len(PODS)))
    assert 130_000 - PODS.total_milli.max() < wanted.sum() <= 130_000


@pytest.mark.parametrize("seed", seeds(20))
def test_a_list_that_asks_for_more_is_cut_off(seed):
    rows = arrivals(PODS, 10_000, 0.5, seed)
    assert len(set(rows.tolist())) == len(rows) < len(PODS)
    assert PODS.total_milli[rows].sum() <= 5_000


def test_pods_without_gpus_come_too():
    rows = arrivals(pods_of(0, 0, 500), 10_000, 1.0, 3)
    assert (rows != 2).sum() > 0
    assert (rows == 2).sum() == 20


@pytest.mark.parametrize(
    ("capacity", "load", "seed", "says"),
    [
        (0, 1.0, 0, "capacity_milli=0"),
        (1000, 0.0, 0, "load must be finite and positive"),
        (1000, float("nan"), 0, "load must be finite and positive"),
        (1000, 1e20, 0, r"load=1e\+20: must be at most 1000"),
        (1000, 1.0, -1, "seed=-1"),
    ],
)
def test_arrivals_refuses_what_is_out_of_range(capacity, load, seed, says):
    with pytest.raises(ValueError, match=says):
        arrivals(PODS, capacity, load, seed)
    with pytest.raises(ValueError, match="none of them needs a GPU"):
        arrivals(pods_of(0, 0), 1000, 1.0, 0)


# --- the replay ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["best-fit", "fgd", "random"])
def test_what_is_allocated_is_what_the_placed_pods_asked_for(policy):
    replayed = replay(policy)
    wanted = PODS.total_milli[replayed.rows]
    placed = replayed.node >= 0
    assert replayed.arrived.tolist() == np.cumsum(wanted).tolist()
    assert replayed.allocated.tolist() == np.cumsum(wanted * placed).tolist()
    assert replayed.capacity_milli == NODES.gpu_milli
    assert replayed.allocated[-1] <= replayed.capacity_milli


@pytest.mark.parametrize("policy", ["packing", "fgd"])
def test_no_node_gives_more_than_it_has(policy):
    replayed = replay(policy)
    for node in range(len(NODES)):
        rows = replayed.rows[replayed.node == node]
        assert PODS.cpu_milli[rows].sum() <= NODES.cpu_milli[node]
        assert PODS.memory_mib[rows].sum() <= NODES.memory_mib[node]
        assert PODS.total_milli[rows].sum() <= 1000 * NODES.gpus[node]


def test_equal_seeds_give_equal_replays():
    entry, same, other = replay("fgd"), replay("fgd"), replay("fgd", seed=1)
    assert entry.node.tolist() == same.node.tolist()
    assert entry.fragmented.tolist() == same.fragmented.tolist()
    assert entry.rows.tolist() != other.rows.tolist()


@pytest.mark.parametrize("policy", SHARING_POLICIES)
@pytest.mark.parametrize("seed", seeds(2))
def test_every_pod_goes_where_the_twin_places_it(policy, seed):
    pods = generate_openb_pods(80, seed=seed, constrained=0.3)
    nodes = generate_openb_nodes(12, seed=seed)
    run = replay_devices(nodes, pods, policy, seed)
    fragmented = follow(run, nodes, pods)
    assert run.fragmented.tolist() == [fragmented[at] for at in run.sampled.tolist()]


def test_a_replay_that_is_not_the_twins_is_noticed():
    replayed = replay("best-fit")
    other = DeviceReplay(
        "worst-fit", 0, replayed.capacity_milli, replayed.order, replayed.rows, replayed.node,
        replayed.arrived, replayed.allocated, replayed.sampled, replayed.fragmented,
    )  # fmt: skip
    with pytest.raises(AssertionError):
        follow(other, NODES, PODS)


def test_the_nodes_are_shuffled_by_the_seed():
    orders = [replay("best-fit", seed).order.tolist() for seed in (0, 1)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(len(NODES)))
    assert orders[0] != orders[1]


def test_fragmentation_is_measured_within_every_percent_of_the_load():
    replayed = replay("best-fit")
    percents = (100 * replayed.arrived[replayed.sampled] // replayed.capacity_milli).tolist()
    assert percents == sorted(set((100 * replayed.arrived // replayed.capacity_milli).tolist()))
    assert replayed.sampled[-1] == len(replayed.rows) - 1
    assert (
        replayed.fragmented <= replayed.capacity_milli - replayed.allocated[replayed.sampled]
    ).all()
    assert ((replayed.fragmentation >= 0) & (replayed.fragmentation <= 1)).all()


def test_the_figures_at_a_load_are_those_of_the_last_pod_before_it():
    numbers = np.array([0, 1, 2])
    run = DeviceReplay(
        "p", 0, 1000, numbers, numbers, numbers, np.array([500, 900, 1200]),
        np.array([500, 800, 850]), numbers, np.array([100.0, 50.0, 15.0]),
    )  # fmt: skip
    assert [run.at(load) for load in (0.1, 0.5, 0.95, 1.2, 9.0)] == [0, 0, 1, 2, 2]
    assert run.fragmentation.tolist() == [0.2, 0.25, 0.1]
    assert median_at([run], 1.0) == 0.8


def test_nodes_without_gpus_are_refused():
    bare = NODES.select(np.array([0]))
    bare = type(bare)(bare.name, bare.cpu_milli, bare.memory_mib, bare.gpus * 0, bare.model)
    with pytest.raises(ValueError, match="nodes: none of them has a GPU"):
        replay_devices(bare, PODS, "fgd", 0)


def test_a_load_at_which_no_pod_comes_is_refused():
    with pytest.raises(ValueError, match="load=1e-06: the first pod asks for more already"):
        replay("fgd", load=1e-6)


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match=r"policy must be one of .* not 'fifo'"):
        replay("fifo")


def test_pods_run_on_the_models_that_they_name_only():
    pods = generate_openb_pods(80, seed=1, constrained=0.5)
    run = replay_devices(NODES, pods, "fgd", 0)
    for row, node in zip(run.rows.tolist(), run.node.tolist(), strict=True):
        assert node < 0 or not pods.models[row] or NODES.model[node] in pods.models[row]
    assert any(pods.models[row] for row in run.rows[run.node >= 0].tolist())


# --- table and pictures --------------------------------------------------------------------------


def test_the_table_shows_medians_and_what_others_reported():
    runs = [replay("best-fit", seed) for seed in (0, 1, 2)] + [replay("random")]
    cells = devices_report(runs, {"best-fit": {100: 92.91}}, loads=[50, 100]).cells()
    assert [row[0] for row in cells] == ["best-fit", "best-fit, reported", "random"]
    assert cells[0][2] == f"{100 * median_at(runs[:3], 1.0):.1f}"
    assert cells[1][1:] == ["", "92.9"]


def test_pictures_are_drawn_of_all_policies(tmp_path):
    runs = [replay(policy) for policy in ("best-fit", "worst-fit")]
    report = devices_report(runs, {"best-fit": {80: 79.0, 100: 92.9}})
    paths = report.save_pictures(tmp_path)
    assert [path.name for path in paths] == ["unallocated.png", "fragmentation.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)
    with pytest.raises(ValueError, match="replays must hold one at least"):
        devices_report([])


@pytest.mark.parametrize("load", [0.02, 0.5, 1.0, 2.5])
def test_pictures_are_drawn_of_any_load(load, tmp_path):
    report = devices_report([replay("fgd", load=load)], {"fgd": {100: 95.2}})
    assert len(report.save_pictures(tmp_path)) == 2


def test_as_json_every_replay_stands_by_itself():
    runs = [replay("fgd"), replay("fgd", 1), replay("random")]
    data = devices_report(runs, loads=[50, 100]).data
    assert data["loads"] == [50, 100]
    assert [entry["seed"] for entry in data["policies"]["fgd"]] == [0, 1]
    assert data["policies"]["random"][0]["allocated"][1] == median_at(runs[2:], 1.0)
    fragmented = data["policies"]["fgd"][1]["fragmented"]
    assert fragmented[0] == runs[1].fragmentation[runs[1].at(0.5)]


# --- as devices ----------------------------------------------------------------------------------


def test_a_gpu_has_a_thousand_of_memory_and_the_host_its_cpu_and_memory():
    for row, node in enumerate(inventories(NODES)):
        cards = node.of_type("gpu")
        assert len(cards) == NODES.gpus[row]
        assert {card.amounts for card in cards} == {(("memory", 1000),)}
        (host,) = node.of_type("host")
        memory = int(NODES.memory_mib[row]) << 20
        assert dict(host.amounts) == {"cpu": NODES.cpu_milli[row], "memory": memory}
        assert node.model == NODES.model[row]
        assert not node.of_type("rdma")


@pytest.mark.parametrize("each", [1, 2, 3, 8])
def test_nics_share_a_switch_with_their_gpus(each):
    for row, node in enumerate(inventories(NODES, gpus_per_nic=each)):
        nics = {nic.pcie: nic for nic in node.of_type("rdma")}
        cards = node.of_type("gpu")
        assert len(nics) == -(-int(NODES.gpus[row]) // each)
        assert {card.pcie for card in cards} == set(nics)
        for card in cards:
            nic = nics[card.pcie]
            assert (card.numa, card.socket) == (nic.numa, nic.socket)
            assert sum(other.pcie == card.pcie for other in cards) <= each


def test_a_request_asks_for_what_the_pod_does():
    for row in range(len(PODS)):
        request = request_of(PODS, row, "owner")
        assert isinstance(request, DeviceRequest)
        need, host = request.need("gpu"), request.need("host")
        assert (need.count if need else 0) == PODS.gpus[row]
        assert (dict(need.amounts)["memory"] if need else 0) == PODS.gpu_milli[row]
        amounts = dict(host.amounts)
        assert amounts["cpu"] == PODS.cpu_milli[row]
        assert amounts.get("memory", 0) == int(PODS.memory_mib[row]) << 20
        assert set(request.models) == PODS.models[row]
