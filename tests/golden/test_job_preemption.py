"""Whole jobs that leave for a gang: the steps of Koordinator's job preemption, and what it breaks.

Nodes have slots; a pod takes one. All counts are worked out by hand.
"""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.gangs import Coscheduler, GangSpec, RunningPod, preempt_jobs
from hivecore.quotas import Quota, QuotaRequest, QuotaTree
from hivecore.topology import NetworkTopology, TopologyRequest


def pending(count, waiting=0):
    """A gang of so many pods that have no place, and some that have one."""
    gangs = Coscheduler()
    gangs.define_gang(GangSpec("urgent", count + waiting, mode="non-strict"), 0)
    for i in range(count + waiting):
        gangs.create_pod(f"u{i}", "urgent", 0)
    for i in range(waiting):
        gangs.assume_pod(f"u{i}", 1)
    return gangs


class Nodes:
    """Slots on nodes, and what runs there: (pod, node, priority, job, preemptible)."""

    def __init__(self, sizes, running):
        self.sizes = sizes
        self.running = [RunningPod(*item) for item in running]

    def slots(self, node, gone):
        present = [pod for pod in self.running if pod.node == node and pod.name not in gone]
        return max(0, self.sizes[node] - len(present))

    def ask(self, gangs, priority=9, **options):
        return preempt_jobs(
            gangs,
            "urgent",
            self.running,
            self.slots,
            nodes=self.sizes,
            priority=priority,
            **options,
        )


def names(result):
    return [victim.name for victim in result.victims]


def test_no_job_leaves_where_all_fit():
    result = Nodes({"n1": 2, "n2": 2}, [("x", "n1", 0, "low")]).ask(pending(3))
    assert (result.outcome, result.victims, result.cost) == ("bind", (), 0)
    assert result.placement == (("u0", "n1"), ("u1", "n2"), ("u2", "n2"))


def test_all_pending_pods_or_nothing():
    nodes = Nodes({"n1": 2, "n2": 1}, [("x", "n1", 1, "low"), ("y", "n2", 9, "high")])
    assert names(nodes.ask(pending(2))) == ["low"]
    result = nodes.ask(pending(3))
    assert (result.outcome, result.victims, result.placement) == ("wait", (), ())
    assert result.reason.startswith("2 of 3 pods")


def test_the_node_of_the_lowest_priority_is_taken_first_then_that_of_the_first_name():
    nodes = Nodes(
        {"n1": 1, "n2": 1, "n3": 1},
        [("x", "n1", 5, "jx"), ("y", "n2", 3, "jy"), ("z", "n3", 3, "jz")],
    )
    result = nodes.ask(pending(1))
    assert (result.placement, names(result), result.cost) == ((("u0", "n2"),), ["jy"], 1)
    assert names(nodes.ask(pending(2))) == ["jy", "jz"]
    assert nodes.ask(pending(3)).cost == 1 + 1 + 2


def test_the_lowest_rank_is_not_free():
    # five jobs of the lowest priority on n1, one of the next on n2: where rank 0 costs nothing,
    # all five would go
    running = [(f"x{i}", "n1", 0, f"j{i}") for i in range(5)] + [("y", "n2", 1, "k")]
    result = Nodes({"n1": 5, "n2": 1}, running).ask(pending(1))
    assert (names(result), result.cost) == (["k"], 2)


def test_a_job_leaves_as_a_whole_and_costs_once():
    running = [("x0", "n1", 1, "wide"), ("x1", "n2", 1, "wide"), ("x2", "n9", 1, "wide")]
    result = Nodes({"n1": 1, "n2": 1}, running).ask(pending(2))
    assert [victim.pods for victim in result.victims] == [("x0", "x1", "x2")]
    assert result.cost == 1


def test_a_job_with_a_pod_that_stays_stays():
    for stays in (("x1", "n2", 9, "job"), ("x1", "n2", 1, "job", False)):
        nodes = Nodes({"n1": 1, "n2": 1}, [("x0", "n1", 1, "job"), stays])
        assert nodes.ask(pending(1)).reason == "no job may leave"


def test_pods_without_a_job_are_jobs_of_their_own():
    running = [("x0", "n1", 1), ("x1", "n1", 1), ("x2", "n1", 2)]
    result = Nodes({"n1": 3}, running).ask(pending(1))
    assert names(result) == ["x0"] or names(result) == ["x1"]
    assert len(result.victims[0].pods) == 1
    assert len(Nodes({"n1": 3}, running).ask(pending(2)).victims) == 2


def test_the_gang_of_a_running_pod_leaves_as_a_whole():
    gangs = pending(1)
    for i in range(2):
        gangs.create_pod(f"x{i}", GangSpec("low", 2), 0, bound=True)
    nodes = Nodes({"n1": 1, "n2": 1}, [("x0", "n1", 1), ("x1", "n2", 1)])
    result = nodes.ask(gangs)
    assert [(v.name, v.pods) for v in result.victims] == [("low", ("x0", "x1"))]
    alone = Nodes({"n1": 1}, [("x0", "n1", 1)])
    with pytest.raises(ValueError, match="pod 'x1' of gang 'low' is bound and missing"):
        alone.ask(gangs)


def test_a_gang_of_which_two_jobs_have_pods_leaves_with_both():
    gangs = pending(1)
    for i in range(3):
        gangs.create_pod(f"x{i}", GangSpec("low", 3), 0, bound=True)
    running = [
        ("x0", "n1", 1, "one"),
        ("x1", "n2", 1, "two"),
        ("x2", "n2", 1),
        ("y", "n2", 1, "two"),
    ]
    [victim] = Nodes({"n1": 1, "n2": 3}, running).ask(gangs).victims
    assert (victim.name, victim.pods) == ("one", ("x0", "x1", "x2", "y"))
    running[3] = ("y", "n2", 9, "two")
    assert Nodes({"n1": 1, "n2": 3}, running).ask(gangs).reason == "no job may leave"


def test_gangs_leave_with_those_that_start_only_with_them():
    gangs = pending(1)
    gangs.create_pod("a", GangSpec("a", 1), 0, bound=True)
    gangs.create_pod("b", GangSpec("b", 1, groups=["a"]), 0, bound=True)
    [victim] = Nodes({"n1": 1, "n2": 1}, [("a", "n1", 1), ("b", "n2", 1)]).ask(gangs).victims
    assert victim.pods == ("a", "b")


def test_groups_that_jobs_join_leave_or_stay_together():
    gangs = pending(1)
    running = []
    for i in range(6):  # a pod of each job is in the gang before, the other in the next
        for pod, gang in ((f"x{i}", f"g{i}"), (f"y{i}", f"g{i + 1}")):
            if gang not in gangs.gangs:
                gangs.define_gang(GangSpec(gang, 1), 0)
            gangs.create_pod(pod, gang, 0, bound=True)
            running.append((pod, "n1", 1, f"j{5 - i}"))
    [victim] = Nodes({"n1": 12}, running).ask(gangs).victims
    assert len(victim.pods) == 12
    for staying in range(12):
        pod, node, _, job = running[staying]
        some = [*running[:staying], (pod, node, 9, job), *running[staying + 1 :]]
        assert Nodes({"n1": 12}, some).ask(gangs).reason == "no job may leave"


def test_what_the_own_group_starts_with_never_leaves():
    gangs = Coscheduler()
    gangs.create_pod("z", GangSpec("z", 1), 0, bound=True)
    gangs.create_pod("u", GangSpec("urgent", 1, groups=["z"]), 0)
    assert Nodes({"n1": 1}, [("z", "n1", 1)]).ask(gangs).reason == "no job may leave"


def test_what_the_own_group_starts_with_through_a_gang_that_does_not_run_never_leaves():
    gangs = Coscheduler()
    gangs.create_pod("z", GangSpec("z", 1), 0, bound=True)
    gangs.define_gang(GangSpec("between", 1, groups=["z"]), 0)
    gangs.create_pod("u", GangSpec("urgent", 1, groups=["between"]), 0)
    assert Nodes({"n1": 1}, [("z", "n1", 1)]).ask(gangs).reason == "no job may leave"


def test_the_own_group_never_leaves():
    gangs = pending(1)
    gangs.create_pod("mine", "urgent", 0, bound=True)
    assert Nodes({"n1": 1}, [("mine", "n1", 0)]).ask(gangs).reason == "no job may leave"


def test_a_victim_that_is_not_needed_comes_back_the_most_important_first():
    running = [("x", "n1", 1, "a"), ("y", "n1", 3, "b"), ("z", "n1", 2, "c")]
    nodes = Nodes({"n1": 3}, running)
    assert names(nodes.ask(pending(1))) == ["a"]
    assert names(nodes.ask(pending(2))) == ["a", "c"]


def test_a_victim_that_cannot_come_back_makes_room_for_those_that_can():
    running = [("x", "n1", 3, "big"), ("y", "n1", 3, "big"), ("z", "n1", 1, "small")]
    assert names(Nodes({"n1": 3}, running).ask(pending(2))) == ["big"]


def test_waiting_pods_count_and_keep_their_places():
    result = Nodes({"n1": 1}, [("x", "n1", 1, "low")]).ask(pending(1, waiting=2))
    assert (result.placement, result.reason) == (
        (("u2", "n1"),),
        "1 pod has a place, 2 of 3 wait",
    )


def test_a_job_without_pending_pods_or_whose_victims_are_leaving_has_to_wait():
    nodes = Nodes({"n1": 1}, [("x", "n1", 1, "low")])
    gangs = pending(1)
    assert nodes.ask(gangs, leaving=["x"]).reason == "pod 'x' is leaving for it already"
    assert nodes.ask(gangs, leaving=["gone"]).outcome == "preempt"
    gangs.delete_pod("u0", 1)
    assert nodes.ask(gangs).reason == "no pod is pending"
    assert nodes.ask(pending(1), priority=1).reason == "no job may leave"


def test_a_search_without_success_looks_at_each_node_three_times_or_four_with_budgets():
    running = [(f"x{i}", "n1", 1, f"j{i}") for i in range(2)]
    nodes, calls = Nodes({"n1": 2}, running), []

    def slots(node, gone):
        calls.append(sorted(gone))
        return nodes.slots(node, gone)

    def search(budgets):
        calls.clear()
        preempt_jobs(
            pending(3), "urgent", nodes.running, slots, nodes=["n1"], priority=9, budgets=budgets
        )
        return calls

    assert search([]) == [[], ["x0", "x1"], ["x0", "x1"]]
    assert search([(["x0", "x1"], 1)]) == [[], ["x0"], ["x0", "x1"], ["x0", "x1"]]


def test_budgets_are_kept():
    running = [(f"x{i}", "n1", 1, f"j{i}") for i in range(3)] + [("y", "n1", 5, "k")]
    nodes = Nodes({"n1": 4}, running)
    budget = [(["x0", "x1", "x2"], 1)]
    result = nodes.ask(pending(2), budgets=budget)
    assert (len(names(result)), "k" in names(result), result.exceeded) == (2, True, ())
    result = nodes.ask(pending(3), budgets=budget)
    assert (result.outcome, result.reason) == ("wait", "a budget would be exceeded")
    result = nodes.ask(pending(3), budgets=budget, exceed_budgets=True)
    assert (result.outcome, result.exceeded) == ("preempt", (0,))


def test_a_budget_is_no_hindrance_where_the_one_that_it_spares_is_of_no_use():
    running = [("x0", "n8", 1, "a"), ("x1", "n1", 1, "b")]  # nothing is to be had on n8
    nodes = Nodes({"n1": 1}, running)
    assert names(nodes.ask(pending(1), budgets=[(["x0", "x1"], 1)])) == ["b"]


def test_quotas_are_asked():
    tree = QuotaTree([Quota("team", max={"gpu": 2})], total={"gpu": 2})
    for name in ("j0", "j1"):
        tree.commit(tree.schedule(QuotaRequest(name, "team", {"gpu": 1})))

    def allows(gone):
        branch = tree.copy()
        for pod in gone & {"j0", "j1"}:
            branch.release(pod)
        return branch.schedule(QuotaRequest("urgent", "team", {"gpu": 2})).outcome == "bind"

    nodes = Nodes({"n1": 2, "n2": 2}, [("j0", "n1", 1), ("j1", "n1", 1)])
    # there is room without anybody's leaving, but no quota
    assert nodes.ask(pending(2)).outcome == "bind"
    assert names(nodes.ask(pending(2), allows=allows)) == ["j0", "j1"]
    assert nodes.ask(pending(2), allows=lambda gone: False).reason.startswith("quotas do not ")


def test_a_placement_of_the_caller_s_decides_where_they_go():
    nodes = Nodes({"n1": 2, "n2": 1, "n3": 2}, [("x", "n3", 1, "low")])

    def on_one_node(slots, pods, costs):
        wide = [node for node in sorted(slots, key=lambda n: (costs[n], n)) if slots[node] >= pods]
        return {wide[0]: pods} if wide else None

    assert nodes.ask(pending(2), place=on_one_node).placement == (("u0", "n1"), ("u1", "n1"))
    assert nodes.ask(pending(3), place=on_one_node).outcome == "wait"
    with pytest.raises(ValueError, match="1 of 2 pods are placed"):
        nodes.ask(pending(2), place=lambda slots, pods, costs: {"n1": 1})
    with pytest.raises(ValueError, match="place"):
        nodes.ask(pending(2), place=lambda slots, pods, costs: {"n9": 2})


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ("n1", TypeError, r"place\(\.\.\.\) must be a mapping, not str"),
        (["n1", "n2"], TypeError, r"place\(\.\.\.\) must be a mapping, not list"),
        ([("n1", 2)], TypeError, r"place\(\.\.\.\) must be a mapping, not list"),
        (2, TypeError, r"place\(\.\.\.\) must be a mapping, not int"),
        (False, TypeError, r"place\(\.\.\.\) must be a mapping, not bool"),
        ({"n1": "2"}, TypeError, r"place\(\.\.\.\)\['n1'\] must be an integer, not str"),
        ({"n1": 2.0}, TypeError, r"place\(\.\.\.\)\['n1'\] must be an integer, not float"),
        ({"n1": -1, "n2": 3}, ValueError, r"place\(\.\.\.\)\['n1'\]=-1: allowed are 0 to 2"),
        ({"n1": 3}, ValueError, r"place\(\.\.\.\)\['n1'\]=3: allowed are 0 to 2"),
        ({None: 2}, ValueError, r"place\(\.\.\.\)\[None\]=2: allowed are 0 to 0"),
        ({}, ValueError, r"place\(\.\.\.\): 0 of 2 pods are placed"),
    ],
)
def test_a_placement_that_is_none_names_the_argument(answer, kind, says):
    nodes = Nodes({"n1": 2, "n2": 2}, [])
    with pytest.raises(kind, match=says):
        nodes.ask(pending(2), place=lambda slots, pods, costs: answer)


@pytest.mark.parametrize("answer", [None, "2", 1.5, [], -1, 2**70])
def test_slots_that_are_no_number_name_the_argument(answer):
    gangs = pending(2)
    with pytest.raises((TypeError, ValueError), match=r"slots\(\.\.\.\)"):
        preempt_jobs(gangs, "urgent", [], lambda node, gone: answer, nodes=["n1"], priority=1)


def test_a_placement_that_changes_the_slots_it_is_shown_gets_no_more_of_them():
    def greedy(slots, pods, costs):
        slots["n1"] = 99
        return {"n1": pods}

    with pytest.raises(ValueError, match="allowed are 0 to 1"):
        Nodes({"n1": 1, "n2": 1}, []).ask(pending(2), place=greedy)


def test_in_a_network_only_jobs_leave_that_are_in_the_spine_that_is_taken():
    """Koordinator's fixture: four pods must share a spine, of which both have lost a node."""
    spines = {"s1": (8, 1, 7, 2), "s2": (6, 3, 5, 4)}
    labels = {f"node-{i}": {"spine": spine} for spine, some in spines.items() for i in some}
    network = NetworkTopology(["spine"], labels)
    nodes = Nodes(
        dict.fromkeys(labels, 1),
        [("existing-pod-1", "node-1", 1, "low-1"), ("existing-pod-2", "node-4", 1, "low-2")],
    )

    def in_one_spine(slots, pods, costs):
        network.set_slots([slots[node] for node in network.nodes])
        decision = network.schedule(TopologyRequest("urgent", pods, must="spine", cost=costs))
        return {part.node: part.pods for part in decision.placement} or None

    result = nodes.ask(pending(4), place=in_one_spine)
    assert {node for _, node in result.placement} == {"node-8", "node-1", "node-7", "node-2"}
    assert [job.pods for job in result.victims] == [("existing-pod-1",)]
    assert nodes.ask(pending(5), place=in_one_spine).outcome == "wait"


def test_wrong_arguments_are_named():
    gangs, nodes = pending(1), Nodes({"n1": 1}, [("x", "n1", 1, "low")])
    for options, kind, says in (
        ({"budgets": [(["x"],)]}, ValueError, "budgets"),
        ({"budgets": [(["x"], -1)]}, ValueError, "budgets"),
        ({"place": 3}, TypeError, "place must be callable"),
        ({"allows": 3}, TypeError, "allows must be callable"),
        ({"allows": lambda gone: 1}, TypeError, "allows"),
        ({"priority": 2**40}, ValueError, "priority"),
        ({"exceed_budgets": 1}, TypeError, "exceed_budgets"),
    ):
        with pytest.raises(kind, match=says):
            nodes.ask(gangs, **options)
    with pytest.raises(KeyError, match="unknown"):
        preempt_jobs(gangs, "unknown", [], nodes.slots, nodes=["n1"], priority=1)
    with pytest.raises(TypeError, match="gangs must be a Coscheduler"):
        preempt_jobs(None, "urgent", [], nodes.slots, nodes=["n1"], priority=1)
    with pytest.raises(ValueError, match="'x' is there twice"):
        preempt_jobs(gangs, "urgent", nodes.running * 2, nodes.slots, nodes=["n1"], priority=1)
    with pytest.raises(TypeError, match="RunningPod"):
        preempt_jobs(gangs, "urgent", ["x"], nodes.slots, nodes=["n1"], priority=1)
    with pytest.raises(ValueError, match="node"):
        RunningPod("x", "")


@examples(300)
@given(st.data())
def test_victims_are_whole_enough_and_none_too_many(data):
    sizes = {f"n{i}": data.draw(st.integers(1, 3)) for i in range(data.draw(st.integers(1, 4)))}
    running = []
    for node, size in sizes.items():
        for slot in range(data.draw(st.integers(0, size))):
            job = data.draw(st.sampled_from(["", "a", "b", "c", "d"]))
            firm = data.draw(st.integers(0, 9)) > 0
            running.append((f"{node}.{slot}", node, data.draw(st.integers(0, 4)), job, firm))
    budgets = [
        (
            data.draw(st.sets(st.sampled_from([entry[0] for entry in running]))),
            data.draw(st.integers(0, 2)),
        )
        for _ in range(data.draw(st.integers(0, 2)) if running else 0)
    ]
    count, priority = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 5))
    nodes = Nodes(sizes, running)
    result = nodes.ask(pending(count), priority=priority, budgets=budgets)

    jobs = {}
    for pod, _, level, job, may in running:
        jobs.setdefault(job or pod, []).append((pod, level < priority and may))
    free = [job for job, pods in jobs.items() if all(may for _, may in pods)]

    def enough(chosen):
        gone = {pod for job in chosen for pod, _ in jobs[job]}
        kept = all(len(gone & set(pods)) <= left for pods, left in budgets)
        return kept and sum(nodes.slots(node, gone) for node in sizes) >= count

    possible = any(enough(some) for n in range(len(free) + 1) for some in combinations(free, n))
    if result.outcome == "wait":
        if not budgets:
            assert not possible
        return
    assert possible
    chosen = names(result)
    assert set(chosen) <= set(free) and enough(chosen) and not result.exceeded
    gone = set()
    for victim in result.victims:
        assert sorted(victim.pods) == sorted(pod for pod, _ in jobs[victim.name])
        gone.update(victim.pods)
    placed = [node for _, node in result.placement]
    assert len(placed) == count
    assert all(placed.count(node) <= nodes.slots(node, gone) for node in sizes)
    for item in result.victims:  # each of them is needed for these places
        less = gone - set(item.pods)
        assert any(placed.count(node) > nodes.slots(node, less) for node in sizes)
