"""Kueue's queues as quotas: their limits against Kueue's own arithmetic, and what is named."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from interop.cluster_dump.dumps import (
    BLOCK,
    H100,
    KUEUE,
    LEVELS,
    NODES,
    RACK,
    cluster_queue,
    flavor,
    groups,
    node,
    numbers,
    read,
    spec_of,
    thing,
)
from profiles import examples

from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Job, Preempt, Role, Start

NEVER = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}


def test_a_cohort_has_what_is_nominal_and_a_queue_borrows_up_to_its_limit():
    dump = read(
        *NODES,
        flavor(),
        cluster_queue("team-a", 12, "all", borrowingLimit="2"),
        cluster_queue("team-b", "20", "all"),
        cluster_queue("alone", 4),
    )
    assert dump.system == "Kueue" and dump.remarks == ()
    assert numbers(dump) == {
        "all": ("", 32, 32, 0),
        "team-a": ("all", 12, 14, 0),
        "team-b": ("all", 20, 32, 0),
        "alone": ("", 4, 4, 0),
    }
    assert dump.sections["quotas"] == {"limit": "max", "total": {"gpu": "36"}}
    assert dump.sections["queues"] == {"order": "priority"}


def test_cohorts_have_parents_quotas_of_their_own_and_limits():
    pool = {"parentName": "org", "resourceGroups": groups(6, borrowingLimit=1)}
    dump = read(
        *NODES,
        flavor(),
        thing(KUEUE, "Cohort", "team", pool),
        cluster_queue("team", 2, "team", version="kueue.x-k8s.io/v1beta2"),
        cluster_queue("other", 8, "org"),
    )
    assert numbers(dump) == {
        "org": ("", 16, 16, 0),
        "cohort/team": ("org", 8, 9, 0),
        "team": ("cohort/team", 2, 16, 0),
        "other": ("org", 8, 16, 0),
    }


def test_a_queue_has_and_borrows_nothing_of_what_it_does_not_cover():
    cpus = cluster_queue("cpus", "64500m", "all", resource="cpu")
    objects = [*NODES, flavor(), cluster_queue("gpus", 8, "all"), cpus]
    dump = read(*objects)
    assert numbers(dump)["cpus"] == ("all", 0, 0, 0)
    assert numbers(dump, "cpu")["gpus"] == ("all", 0, 0, 0)
    assert numbers(dump)["all"] == ("", 8, 8, 0)
    assert dump.sections["tenants"]["cpus"]["quota"]["min"] == {"gpu": "0", "cpu": "64500m"}
    scheduler = spec_of(*objects).scheduler()
    scheduler.submit(Job("j", "cpus", 1), 0.0)
    assert scheduler.decide(0.0)[0].reason == "asks for 1 of 'gpu', and max of 'cpus' is 0"


def test_a_queue_borrows_all_of_what_it_covers_with_a_nominal_quota_of_0():
    dump = read(
        *NODES, flavor(), cluster_queue("owner", 8, "all"), cluster_queue("guest", 0, "all")
    )
    assert numbers(dump)["guest"] == ("all", 0, 8, 0) and dump.remarks == ()


def test_a_queue_borrows_nothing_of_flavors_that_it_does_not_list():
    other = cluster_queue("other", 5, "all", spec={"resourceGroups": groups(5, "a100")})
    objects = [*NODES, flavor(), flavor("a100"), cluster_queue("q", 8, "all"), other]
    dump = read(*objects)
    assert numbers(dump) == {
        "all": ("", 13, 13, 0),
        "q": ("all", 8, 8, 0),
        "other": ("all", 5, 5, 0),
    }
    assert any("uses a100 only" in remark for remark in dump.remarks)
    assert numbers(read(*objects, flavor="h100"))["other"] == ("all", 0, 0, 0)


def test_quotas_that_stand_for_no_limit_add_up_to_the_largest_amount():
    queues = [cluster_queue(name, "8Ei", "all", resource="memory") for name in "ab"]
    queues[0]["spec"]["resourceGroups"] += groups("8Ei", "a100", "memory")
    dump = read(node("n"), *queues, cluster_queue("c", "8Ei", resource="memory"))
    assert {most for _, _, most, _ in numbers(dump, "memory").values()} == {2**62}


@pytest.mark.parametrize(("limit", "lent"), [({}, 4), ({"lendingLimit": 1}, 1)])
def test_a_queue_that_is_stopped_uses_nothing_and_lends_what_it_may(limit, lent):
    stopped = cluster_queue("stopped", 4, "all", spec={"stopPolicy": "Hold"}, **limit)
    dump = read(*NODES, flavor(), cluster_queue("q", 8, "all"), stopped)
    assert not any("lendingLimit" in remark for remark in dump.remarks)
    assert numbers(dump) == {
        "all": ("", 8 + lent, 8 + lent, 0),
        "q": ("all", 8, 8 + lent, 0),
        "stopped": ("all", 0, 0, 0),
    }


def test_jobs_get_no_gpus_where_no_queue_lists_any():
    scheduler = spec_of(*NODES, flavor(), cluster_queue("q", 8, resource="cpu")).scheduler()
    scheduler.submit(Job("j", "q", 1), 0.0)
    assert "max of 'q' is 0" in scheduler.decide(0.0)[0].reason


def test_strict_queues_block_and_the_others_do_not():
    strict = cluster_queue("strict", 16, "all", spec={"queueingStrategy": "StrictFIFO"})
    scheduler = spec_of(*NODES, flavor(), strict, cluster_queue("b", 16, "all")).scheduler()
    for name, tenant in (("first", "b"), ("big", "strict"), ("small", "strict"), ("last", "b")):
        gpus = {"big": 4, "last": 1, "small": 1}.get(name, 8)
        scheduler.submit(Job(name, tenant, [Role("w", 4 if name == "big" else 1, gpus=gpus)]), 0.0)
    scheduler.submit(Job("huge", "strict", [Role("w", 4, gpus=8)], priority=1), 0.0)
    started = [entry.job for entry in scheduler.decide(0.0) if isinstance(entry, Start)]
    assert started == ["first", "last"]  # huge holds up all of strict, and nothing of b


def test_without_preemption_no_job_is_evicted():
    queues = [cluster_queue(name, 16, "all", NEVER) for name in ("a", "b")]
    dump = read(*NODES, flavor(), *queues)
    assert dump.remarks == () and dump.sections["scheduler"] == {"preemption": False}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"preemption": {**NEVER, "withinClusterQueue": "LowerPriority"}}, "takes back what"),
        ({"preemption": {"reclaimWithinCohort": "LowerPriority"}}, "from jobs of any priority"),
        ({"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}}, "only jobs of lower"),
        ({"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}, "that borrows"),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, "spec.namespaceSelector has no"),
        ({"admissionChecks": ["prov"]}, "spec.admissionChecks has no counterpart"),
        ({"fairSharing": {"weight": "2"}}, "taken to be off"),
        ({"resourceGroups": groups(8, lendingLimit=4)}, "lendingLimit is not kept"),
        ({"resourceGroups": groups(8) + groups(8, "a100")}, "flavors h100, a100 counts together"),
        ({"stopPolicy": "Hold"}, "is stopped"),
    ],
)
def test_what_is_not_the_same_is_named(change, text):
    odd = cluster_queue("odd", 8, "all", spec=change)
    dump = read(*NODES, flavor(), flavor("a100"), odd, cluster_queue("plain", 8, "all"))
    assert any(text in remark for remark in dump.remarks), dump.remarks


def test_queues_of_which_the_same_is_said_share_a_sentence():
    queues = [cluster_queue(f"q{i}", 1, spec={"admissionChecks": ["a"]}) for i in range(9)]
    (remark,) = read(*NODES, flavor(), *queues).remarks
    assert remark.startswith("ClusterQueue q0, q1, q2 and 6 more: spec.admissionChecks has")


def test_fair_sharing_has_weights_if_the_configuration_says_so():
    config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
              "metadata": {"name": "c"}, "fairSharing": {"preemptionStrategies": []}}  # fmt: skip
    heavy = cluster_queue("heavy", 8, "all", spec={"fairSharing": {"weight": "1500m"}})
    objects = [*NODES, flavor(), heavy, cluster_queue("light", 8, "all")]
    dump = read(*objects, config)
    assert numbers(dump)["heavy"] == ("all", 8, 16, 1500)
    assert dump.sections["tenants"]["heavy"]["weight"] == 1500
    assert dump.sections["queues"] == {"order": "weighted"}
    assert read(*objects, fair_sharing=True).sections == dump.sections
    assert numbers(read(*objects))["heavy"] == ("all", 8, 16, 0)


@pytest.mark.parametrize(
    ("version", "sharing", "fair"),
    [
        ("v1beta2", {}, True),
        ("v1beta1", {}, False),
        ("v1beta1", {"enable": False}, False),
        ("v1beta1", {"enable": True}, True),
    ],
)
def test_the_configuration_is_read_as_kueue_reads_its_file(version, sharing, fair):
    # It is a file, not an object, so it has no metadata; v1beta1 shares fairly only if it says so.
    config = {
        "apiVersion": f"config.kueue.x-k8s.io/{version}",
        "kind": "Configuration",
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"], **sharing},
    }
    dump = read(*NODES, flavor(), cluster_queue("q", 8), config)
    assert (dump.sections["queues"] == {"order": "weighted"}) is fair


def test_a_queue_that_admits_no_namespace_is_named():
    closed = cluster_queue("closed", 8)
    del closed["spec"]["namespaceSelector"]
    (remark,) = read(*NODES, flavor(), cluster_queue("open", 8), closed).remarks
    assert remark.startswith("ClusterQueue closed: has no namespaceSelector")


def test_one_flavor_alone_has_its_nodes_and_its_quotas():
    both = groups(8) + groups("4", "a100")
    queue = cluster_queue("q", 0, spec={"resourceGroups": both})
    pools = [node("h0", labels={"pool": "h"}), node("a0", gpus=4, labels={"pool": "a"})]
    objects = [*pools, flavor(labels={"pool": "h"}), flavor("a100", {"pool": "a"}), queue]
    assert numbers(read(*objects)) == {"q": ("", 12, 12, 0)}
    alone = read(*objects, flavor="a100")
    assert numbers(alone) == {"q": ("", 4, 4, 0)} and list(alone.sections["cluster"]["nodes"]) == [
        "a0"
    ]
    with pytest.raises(ValueError, match="no queue has a quota of 'b200', there are a100, h100"):
        read(*objects, flavor="b200")


def test_the_topology_of_a_flavor_is_the_network():
    topology = thing("kueue.x-k8s.io/v1alpha1", "Topology", "default", {"levels": LEVELS})
    stray = node("stray")
    objects = [*NODES, stray, topology, flavor(topologyName="default"), cluster_queue("q", 40)]
    spec = SchedulerSpec.of_yaml(yaml.safe_dump_all(objects), "dump.yaml")
    assert spec.topology.layers == (BLOCK, RACK)
    assert spec.topology.domain("gpu-3") == ("b1", "r1", "gpu-3")
    assert f"dump.yaml: Node stray: has no label {RACK}; it is a domain of its own" in spec.remarks


def test_nodes_that_new_jobs_cannot_use_are_left_out_or_closed_and_named():
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    dump = read(
        *NODES,
        node("down", ready="Unknown"),
        node("cordoned", spec={"unschedulable": True}),
        node("head", gpus=0, spec={"taints": [taint]}),
        node("spot", spec={"taints": [{"key": "spot", "effect": "NoSchedule"}]}, cpu="8"),
        flavor(),
        cluster_queue("q", 8),
    )
    cluster = dump.sections["cluster"]
    model = H100["nvidia.com/gpu.product"]
    assert cluster["nodes"] == {"gpu-[0-3],down,cordoned": model, "spot": f"{model}-2"}
    assert dump.unhealthy == ("down", "cordoned")
    assert cluster["models"][model] == {
        "gpus": 8,
        "gpu_memory": "81559Mi",
        "model": model,
        "resources": {"cpu": "190500m", "memory": "2063937Mi"},
    }
    assert dump.remarks == (
        "Node down, cordoned: is cordoned, not ready or leaving; a trace may use it, what-if "
        "starts nothing on it",
        "Node head: is of the control plane; it is left out",
        "Node spot: has the taint spot; here jobs do not mind it",
    )


# --- against Kueue's arithmetic


@st.composite
def forests(draw):
    """Cohorts, and queues by name: nominal, cohort, borrowing limit."""
    cohorts = {}
    for i in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from(["", *cohorts]))
        own = draw(st.integers(0, 4))
        limit = draw(st.none() | st.integers(0, 4)) if parent else None
        cohorts[f"c{i}"] = (parent, own, limit)
    queues = {
        f"q{i}": (
            draw(st.sampled_from(list(cohorts))),
            draw(st.integers(0, 6)),
            draw(st.none() | st.integers(0, 4)),
        )
        for i in range(draw(st.integers(1, 5)))
    }
    return cohorts, queues


def limits(limit):
    return {} if limit is None else {"borrowingLimit": limit}


def objects_of(cohorts, queues, preemption=None):
    nodes = [node(f"n{i}", gpus=50) for i in range(2)]
    items = [
        thing(KUEUE, "Cohort", name,
              {"parentName": parent, "resourceGroups": groups(own, **limits(limit))})
        for name, (parent, own, limit) in cohorts.items()
    ]  # fmt: skip
    return [*nodes, flavor(), *items, *(
        cluster_queue(name, nominal, cohort, preemption, **limits(limit))
        for name, (cohort, nominal, limit) in queues.items()
    )]  # fmt: skip


class Kueue:
    """What Kueue says is available to a queue: level by level, each with its borrowing limit."""

    def __init__(self, cohorts, queues):
        self.members = {**cohorts, **queues}
        self.subtree = {name: own for name, (_, own, _) in self.members.items()}
        self.used = dict.fromkeys(self.members, 0)
        for name in self.members:
            for above in self.path(name)[1:]:
                self.subtree[above] += self.members[name][1]

    def path(self, name):
        return [name, *(self.path(self.members[name][0]) if self.members[name][0] else ())]

    def available(self, name):
        parent, _, limit = self.members[name]
        left = self.subtree[name] - self.used[name]
        if not parent:
            return left
        above = self.available(parent)
        return above if limit is None else min(above, left + limit)

    def use(self, name, gpus):
        for above in self.path(name):
            self.used[above] += gpus


@given(forests(), st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=12))
@examples(40)
def test_jobs_start_exactly_when_kueue_has_quota_available(forest, jobs):
    kueue = Kueue(*forest)
    scheduler = spec_of(*objects_of(*forest, NEVER)).scheduler()
    names, running = list(forest[1]), {}
    for i, (number, gpus) in enumerate(jobs):
        queue = names[number % len(names)]
        if number > 7 and running:
            name, (owner, held) = running.popitem()
            kueue.use(owner, -held)
            scheduler.finish(name, float(i))
        scheduler.submit(Job(f"j{i}", queue, gpus), float(i))
        started = [entry.job for entry in scheduler.decide(float(i)) if isinstance(entry, Start)]
        assert started == ([f"j{i}"] if gpus <= kueue.available(queue) else [])
        if started:
            kueue.use(queue, gpus)
            running[f"j{i}"] = queue, gpus
        elif f"j{i}" in scheduler:
            scheduler.cancel(f"j{i}", float(i))


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.data())
@examples(40)
def test_what_is_nominal_comes_back_from_those_that_borrow_and_from_no_others(nominal, data):
    queues = {f"q{i}": ("c", amount, None) for i, amount in enumerate(nominal)}
    scheduler = spec_of(*objects_of({"c": ("", 0, None)}, queues)).scheduler(immediate=True)
    for i in range(sum(nominal)):
        queue = data.draw(st.sampled_from(list(queues)))
        scheduler.submit(Job(f"j{i}", queue, 1), 0.0)
    scheduler.decide(0.0)
    mine = data.draw(st.sampled_from(list(queues)))
    used = {name: scheduler.quotas.status(name).used.get("gpu", 0) for name in queues}
    room = queues[mine][1] - used[mine]
    if room <= 0:
        return
    scheduler.submit(Job("it", mine, data.draw(st.integers(1, room))), 1.0)
    actions = scheduler.decide(1.0)
    assert "it" in [action.job for action in actions if isinstance(action, Start)]
    for action in actions:
        if isinstance(action, Preempt):
            owner = scheduler.job(action.job).quota
            assert used[owner] > queues[owner][1]
            used[owner] -= 1
