"""Anti-affinity and spread constraints of pods as the most pods of a role on a node."""

import pytest
from hypothesis import given
from interop.cluster_dump.dumps import read, workload
from interop.cluster_dump.test_what_if import CLUSTER
from interop.extender.pods_and_kubelets import koordinator_pod
from interop.hostile import broken, refused_clearly
from profiles import examples

from hivecore.interop.koordinator import job_of_koordinator_pods
from hivecore.interop.kubernetes.fields import Field
from hivecore.interop.kubernetes.pod_spread import NO_SPREAD, read_pod_spread
from hivecore.interop.scheduler_file import SchedulerSpec

HOST = "kubernetes.io/hostname"
JOB = {"job-name": "train"}
LABELS = {**JOB, "app": "bert"}
APP = {"matchLabels": {"app": "bert"}}
OTHERS = "may select pods of other jobs, which do not count"


def rule(selector=JOB, key=HOST, **more):
    selector = {"matchLabels": selector} if selector and set(selector) <= {*LABELS} else selector
    return {"topologyKey": key, "labelSelector": selector, **more}


def spec(terms=(), spreads=()):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    constraints = [
        {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **spread} for spread in spreads
    ]
    affinity = {"podAntiAffinity": required} if terms else {}
    return {"affinity": affinity, "topologySpreadConstraints": constraints}


def spread(terms=(), spreads=()):
    pod = {"metadata": {"namespace": "me", "labels": LABELS}, "spec": spec(terms, spreads)}
    return read_pod_spread(Field(pod))


def expressions(*wanted):
    keys = ("key", "operator", "values")
    return {
        "matchExpressions": [dict(zip(keys, expression, strict=False)) for expression in wanted]
    }


@pytest.mark.parametrize(
    ("term", "per_node", "says"),
    [
        (rule(), 1, ()),
        (rule(namespaces=["me"]), 1, ()),
        (rule(APP["matchLabels"], matchLabelKeys=["job-name"]), 1, ()),
        (rule(expressions(("job-name", "In", ["train"]))), 1, ()),
        (rule(expressions(("job-name", "In", ["train", "other"]))), 1, (OTHERS,)),
        (rule(expressions(("job-name", "Exists"), ("gone", "DoesNotExist"))), 1, (OTHERS,)),
        (rule({}), 1, (OTHERS,)),
        (rule(APP), 1, (OTHERS,)),
        (rule(expressions(("app", "NotIn", ["bert"]))), None, ("selects other pods",)),
        (rule(None), None, ("selects other pods",)),
        (rule(mismatchLabelKeys=["app"]), None, ("selects other pods",)),
        (rule(namespaces=["you"]), None, ("is about pods of other namespaces",)),
        (rule(namespaceSelector={}), None, ("is about pods of other namespaces",)),
        (rule(key="zone"), None, ("is about zone, not about nodes",)),
    ],
)
def test_an_anti_affinity_is_read_or_named(term, per_node, says):
    answer = spread([term])
    assert (answer.most(3), answer.unread) == (
        per_node,
        tuple(f"an anti-affinity {w}" for w in says),
    )
    answer = spread(spreads=[{**term, "minDomains": 3}])
    assert answer.most(3) == per_node
    assert answer.left_out(3) == tuple(f"a spread constraint {why}" for why in says)


def test_a_pod_without_rules_and_a_wish_limit_nothing():
    assert spread() is not NO_SPREAD and spread().most(5) is None
    assert read_pod_spread(Field({})) is NO_SPREAD
    wish = spread(spreads=[rule(whenUnsatisfiable="ScheduleAnyway")])
    assert (wish.most(3), wish.left_out(3)) == (None, ("a spread constraint is a wish",))


def reachable(pods, nodes, skew, least):
    """The numbers of pods by node to which kube-scheduler may come, one pod after the other."""
    states = {(0,) * nodes}
    for _ in range(pods):
        grown = set()
        for counts in states:
            fewest = 0 if nodes < least else min(counts)
            for at, count in enumerate(counts):
                if count + 1 - fewest <= skew:
                    grown.add((*counts[:at], count + 1, *counts[at + 1 :]))
        states = grown
    return states


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("skew", [1, 2, 3])
def test_a_spread_constraint_is_read_exactly_where_it_limits_the_pods_of_a_node(nodes, skew):
    for pods in range(2, 6):
        for least in range(1, 7):
            answer = spread(spreads=[rule(maxSkew=skew, minDomains=least)])
            most = answer.most(pods)
            assert (most is None) == (least < pods) == bool(answer.left_out(pods))
            if most is not None:
                placed = reachable(pods, nodes, skew, least)
                assert placed == {
                    counts for counts in reachable(pods, nodes, pods, 9) if max(counts) <= most
                }


def test_the_narrowest_rule_counts():
    answer = spread(spreads=[rule(maxSkew=3, minDomains=4), rule(maxSkew=2, minDomains=3)])
    assert [answer.most(pods) for pods in (1, 3, 4, 5)] == [None, 2, 3, None]
    assert spread([rule()], [rule(maxSkew=3, minDomains=4)]).most(4) == 1


def gang(count, **more):
    pods = [koordinator_pod(f"p{i}", "a", 1, "g", count, **more) for i in range(count)]
    for pod in pods:
        label = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
        pod["spec"] |= spec([rule({"matchLabels": label})])
    return pods


def test_pods_of_a_gang_are_a_role_with_that_limit():
    (role,) = job_of_koordinator_pods(gang(3)).roles
    assert (role.pods, role.per_node) == (3, 1)
    pods = gang(3)
    del pods[0]["spec"]["affinity"]
    roles = job_of_koordinator_pods(pods).roles
    assert [(role.pods, role.per_node) for role in roles] == [(1, None), (2, 1)]


def waiting(name, pods, *terms, spreads=()):
    document = workload(name, "ns-a/main", 2, pods)
    template = document["spec"]["podSets"][0]["template"]
    template["metadata"]["labels"] = LABELS
    template["spec"] |= spec(terms, spreads)
    return document


def test_workloads_of_a_cluster_have_it_and_other_rules_are_named():
    dump = read(*CLUSTER, waiting("apart", 2, rule()), waiting("zones", 2, rule(key="zone")),
                waiting("even", 3, spreads=[rule()]))  # fmt: skip
    assert [job.roles[0].per_node for job in dump.waiting] == [1, None, None]
    assert [text for text in dump.remarks if text.startswith("Job")] == [
        "Job ns-a/zones: an anti-affinity is about zone, not about nodes; that is not read",
        "Job ns-a/even: a spread constraint allows 1 more pod on a node than on the emptiest; "
        "that is not read",
    ]
    scheduler = SchedulerSpec.of_yaml(dump.text).scheduler()
    assert dump.fill(scheduler) == ()
    scheduler.decide(0.0)
    assert len({pod.node for pod in scheduler.status("ns-a/apart").pods}) == 2


RICH = {"metadata": {"namespace": "me", "labels": LABELS},
        "spec": spec([rule(namespaces=["me"], namespaceSelector=None, matchLabelKeys=["app"])],
                     [rule(expressions(("app", "In", ["a"])), minDomains=2)])}  # fmt: skip


@given(broken(RICH))
@examples(300)
def test_hostile_rules_are_refused_clearly_or_read(document):
    with refused_clearly():
        read_pod_spread(Field(document))
