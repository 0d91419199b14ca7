"""What every answer of Koordinator's device allocation keeps, on random nodes and requests."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.devices import (
    Device,
    DeviceNeed,
    DeviceRequest,
    NodeDevices,
    Partition,
    PartitionTable,
    VirtualFunctionGroup,
)
from hivecore.reference.devices.koordinator import (
    QUIRKS,
    Failure,
    Restriction,
    allocate,
    filter_nodes,
    normalised,
    score_node,
)
from hivecore.reference.devices.node_state import Charge, NodeState

GIB = 1 << 30
SHARES = [{"core": 100, "memory_ratio": 100}, {"core": 50, "memory_ratio": 30}, {"memory": 7 * GIB}]
STRATEGIES = st.sampled_from([None, "least_allocated", "most_allocated"])
QUIRK_SETS = st.sets(st.sampled_from(sorted(QUIRKS))).map(frozenset)


@st.composite
def nodes(draw, gpus=8, nics=6):
    """A node with GPUs and NICs on random switches, two of them in a NUMA node, in use in part."""
    devices = []
    for type_, count in (("gpu", draw(st.integers(1, gpus))), ("rdma", draw(st.integers(1, nics)))):
        for minor in range(count):
            switch = draw(st.integers(0, 3))
            amounts = {"core": 100, "memory": 16 * GIB, "memory_ratio": 100}
            groups = []
            if type_ == "rdma":
                amounts = {"share": 100}
                ids = [f"{minor}:{i}" for i in range(draw(st.integers(0, 2)))]
                groups = [VirtualFunctionGroup(ids)]
            healthy = draw(st.integers(0, 9)) > 0
            devices.append(
                Device(
                    type_,
                    minor,
                    amounts,
                    healthy=healthy,
                    numa=switch // 2,
                    pcie=str(switch),
                    vf_groups=groups,
                )
            )
    rows = draw(st.sets(st.frozensets(st.integers(0, gpus - 1), min_size=1, max_size=4)))
    table = tuple(
        Partition(tuple(row), draw(st.integers(0, 2))) for row in sorted(rows, key=sorted)
    )
    partitions = draw(st.sampled_from([None, PartitionTable(table)]))
    policy = draw(st.sampled_from(["honor", "prefer"])) if partitions else "prefer"
    state = NodeState(NodeDevices(tuple(devices), partitions, policy))
    for i, device in enumerate(devices):
        used = draw(st.sampled_from([0, 0, 0, 40, 100]))
        if used:
            amounts = {"core": used, "memory": used * 16 * GIB // 100, "memory_ratio": used}
            amounts = amounts if device.type == "gpu" else {"share": used}
            state.charge(f"owner {i}", (Charge(device.type, device.minor, amounts),))
    return state


@st.composite
def requests(draw):
    shares = draw(st.sampled_from(SHARES))
    scope = draw(st.sampled_from([None, None, "pcie", "numa", "node"]))
    needs = [DeviceNeed("gpu", draw(st.integers(1, 4)), shares, scope=scope)]
    joint = ()
    if draw(st.booleans()):
        functions = draw(st.sampled_from([None, ()]))
        share = draw(st.sampled_from([1, 100]))
        count = draw(st.integers(1, 3))
        needs.append(DeviceNeed("rdma", count, {"share": share}, vf_selector=functions))
        joint = draw(st.sampled_from([(), ("gpu", "rdma"), ("rdma", "gpu")]))
    same = bool(joint) and draw(st.booleans())
    return DeviceRequest("pod", needs=needs, joint=joint, same_pcie=same)


def switches(state, charges, type_):
    return {state.devices[type_][charge.minor].pcie for charge in charges if charge.type == type_}


@given(nodes(), requests(), STRATEGIES, QUIRK_SETS)
@examples(300)
def test_an_answer_fits_what_is_free_and_leaves_the_node_as_it_is(state, request, strategy, quirks):
    before = dict(state.owners)
    answer = allocate(state, request, Restriction(), strategy, quirks)
    assert state.owners == before
    if isinstance(answer, Failure):
        return
    for need in request.needs:
        charges = [charge for charge in answer if charge.type == need.type]
        assert len({charge.minor for charge in charges}) == len(charges) >= need.count
        assert need.type == "rdma" or len(charges) == need.count or request.same_pcie
        for charge in charges:
            free = state.free(charge.type, charge.minor)
            assert all(amount <= free[name] for name, amount in need.amounts)
            assert (charge.function is None) == (need.vf_selector is None)
            assert charge.function not in state.used_functions("rdma", charge.minor)


@given(nodes(), requests(), STRATEGIES, QUIRK_SETS)
@examples(300)
def test_an_answer_keeps_the_scope_the_switches_and_the_partition(state, request, strategy, quirks):
    answer = allocate(state, request, Restriction(), strategy, quirks)
    if isinstance(answer, Failure):
        return
    gpus = [state.devices["gpu"][charge.minor] for charge in answer if charge.type == "gpu"]
    need = request.need("gpu")
    honoured = state.inventory.partition_policy == "honor" and not need.shared
    if need.scope in ("pcie", "numa") and state.inventory.partitions is None:
        assert len({getattr(gpu, need.scope) for gpu in gpus}) == 1
    if honoured:
        rows = {row.members for row in state.inventory.partitions.partitions}
        assert tuple(gpu.minor for gpu in gpus) in rows
    if request.same_pcie:
        assert switches(state, answer, "gpu") == switches(state, answer, "rdma")


@given(nodes(), requests(), STRATEGIES.filter(bool), QUIRK_SETS)
@examples(150)
def test_scores_are_percents_of_each_type(state, request, strategy, quirks):
    points = score_node(state, request, strategy, quirks=quirks)
    assert isinstance(points, Failure) or 0 <= points <= 100 * len(request.needs)


@given(st.lists(st.integers(0, 300)))
@examples(100)
def test_normalised_scores_keep_their_order_and_end_at_100(scores):
    found = normalised(scores)
    assert max(found, default=0) == (100 if any(scores) else 0)
    assert sorted(range(len(scores)), key=lambda i: (scores[i], i)) == sorted(
        range(len(scores)), key=lambda i: (found[i], scores[i], i)
    )


@given(st.lists(nodes(), max_size=3), requests())
@examples(100)
def test_a_filter_is_one_allocation_per_node(states, request):
    answers = [allocate(state, request, Restriction(preemptible={})) for state in states]
    expected = [answer if isinstance(answer, Failure) else None for answer in answers]
    assert filter_nodes(states, request) == expected


def servable(state, request):
    """Whether any GPUs and NICs at all are on the same switches, by trying all of them."""
    gpu_need, nic_need = request.need("gpu"), request.need("rdma")

    def fitting(need):
        found = []
        for minor, device in sorted(state.devices[need.type].items()):
            free = state.free(need.type, minor)
            functions = [one for group in device.vf_groups for one in group.functions]
            enough = device.healthy and all(amount <= free[name] for name, amount in need.amounts)
            if enough and (need.vf_selector is None or functions):
                found.append(device)
        return found

    for gpus in combinations(fitting(gpu_need), gpu_need.count):
        around = {gpu.pcie for gpu in gpus}
        scope = gpu_need.scope if gpu_need.scope in ("pcie", "numa") else "type"
        if len({getattr(gpu, scope) for gpu in gpus}) > 1:
            continue
        count = max(nic_need.count, len(around))
        for nics in combinations(fitting(nic_need), count):
            if {nic.pcie for nic in nics} == around:
                return True
    return False


@given(nodes(gpus=6, nics=5), requests().filter(lambda request: request.joint == ("gpu", "rdma")))
@examples(300)
def test_without_the_greedy_choice_no_placement_on_the_same_switches_is_missed(state, request):
    state.set_inventory(NodeDevices(state.inventory.devices))  # without partitions
    request = request.replace(same_pcie=True)
    if request.need("gpu").shared and request.need("gpu").count > 1:
        return  # shares of several GPUs have no scope
    exact = allocate(state, request, quirks=QUIRKS - {"greedy_joint"})
    greedy = allocate(state, request)
    assert isinstance(exact, Failure) != servable(state, request)
    assert isinstance(greedy, Failure) or exact == greedy
