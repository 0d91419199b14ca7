"""Why jobs wait, in the fields of Koordinator's ScheduleExplanation."""

import json

import pytest
from scheduler.lives import COMPOSITIONS, ROLES, make_job, make_scheduler, network

from hivecore.interop.koordinator import schedule_explanation
from hivecore.queues import TenantQueues
from hivecore.scheduler import Job, Role, Scheduler

#: The fields of each type by what holds it: a type's name, a list of one, or a plain type.
#: Source: Koordinator, apis/scheduling/v1alpha1/schedule_explanation.go.
TYPES = {
    "ScheduleExplanation": {
        "apiVersion": str,
        "kind": str,
        "metadata": dict,
        "spec": "Spec",
        "status": "Status",
    },
    "Spec": {"questionObjectKey": str, "questionObjectTemplate": dict, "ttl": str},
    "Status": {
        "schedulable": bool,
        "schedulableAfterPreemption": bool,
        "failedMessage": str,
        "lastUpdateTime": str,
        "detailedExplanation": ["TopologyDomain"],
    },
    "TopologyDomain": {
        "topologyDomain": str,
        "schedulable": bool,
        "schedulableAfterPreemption": bool,
        "failedMessage": str,
        "scheduleExplanation": "Nodes",
        "nodePossibleVictims": ["NodeVictims"],
        "preemptExplanation": "Nodes",
    },
    "Nodes": {
        "schedulable": bool,
        "failedMessage": str,
        "feasibleSchedulingResult": ["Result"],
        "nodeFailedDetails": ["Detail"],
    },
    "Result": {"namespace": str, "name": str, "uid": str, "nodeName": str},
    "Detail": {"failedPlugin": str, "reason": str, "preemptMightHelp": bool, "failedNodes": [str]},
    "NodeVictims": {"nodeName": str, "possibleVictims": ["Victim"]},
    "Victim": {"namespace": str, "name": str, "uid": str, "isNominatedPod": bool},
}


def strangers(value, kind):
    """What is in a value that its type does not have."""
    if isinstance(kind, list):
        assert isinstance(value, list)
        return [stranger for item in value for stranger in strangers(item, kind[0])]
    if isinstance(kind, type):
        return [] if type(value) is kind else [value]
    known = TYPES[kind]
    results = [f"{kind}.{name}" for name in value if name not in known]
    return results + [
        stranger
        for name in value
        if name in known
        for stranger in strangers(value[name], known[name])
    ]


def explained(scheduler, job, **options):
    why = schedule_explanation(scheduler.explain(job), scheduler, **options)
    assert strangers(why, "ScheduleExplanation") == []
    assert json.loads(json.dumps(why)) == why
    return why["spec"], why["status"], why["status"]["detailedExplanation"][0]


def two_gangs(**options):
    """The first one has all four nodes; the second one needs two of them."""
    scheduler = Scheduler(topology=network(), queues=TenantQueues(), **options)
    scheduler.submit(Job("ml/first", "a", [Role("w", 4, gpus=4)], preemptible=False), 0.0)
    scheduler.decide(0.0)
    scheduler.submit(Job("pods:ml/second", "b", [Role("w", 2, gpus=4)]), 5.0)
    scheduler.decide(5.0)
    return scheduler


def test_a_job_that_runs_says_where():
    spec, status, domain = explained(two_gangs(), "ml/first", now="2026-11-24T10:00:00Z")
    assert spec == {"questionObjectKey": "ml/first"}
    assert status["schedulable"] and not status["schedulableAfterPreemption"]
    assert (status["failedMessage"], status["lastUpdateTime"]) == ("", "2026-11-24T10:00:00Z")
    results = domain["scheduleExplanation"]["feasibleSchedulingResult"]
    assert [result["name"] for result in results] == [f"first-w-{number}" for number in range(4)]
    assert {result["namespace"] for result in results} == {"ml"}
    assert {result["nodeName"] for result in results} == {"n0", "n1", "n2", "n3"}


def test_a_job_on_which_nothing_was_decided_yet_may_be_schedulable():
    scheduler = Scheduler(topology=network())
    scheduler.submit(Job("ml/new", "a", 4), 0.0)
    _, status, domain = explained(scheduler, "ml/new")
    assert status["schedulable"] and status["failedMessage"] == ""
    assert domain["scheduleExplanation"]["feasibleSchedulingResult"] == []


def test_a_job_that_cannot_be_preempted_is_no_victim():
    spec, status, domain = explained(two_gangs(), "pods:ml/second")
    assert spec == {"questionObjectKey": "ml/second"}
    assert not status["schedulable"] and not status["schedulableAfterPreemption"]
    assert "lastUpdateTime" not in status and domain["nodePossibleVictims"] == []
    assert status["failedMessage"].endswith("it would start if ml/first ended")
    [detail] = domain["scheduleExplanation"]["nodeFailedDetails"]
    assert detail["failedPlugin"] == "topology" and not detail["preemptMightHelp"]


def test_jobs_that_would_have_to_end_are_possible_victims_by_node():
    scheduler = Scheduler(topology=network(), preemption=False)
    for name, pods in (("ml/pair", 2), ("ml/other", 2)):
        scheduler.submit(Job(name, "a", [Role("w", pods, gpus=4)]), 0.0)
    scheduler.decide(0.0)
    scheduler.submit(Job("ml/all", "b", [Role("w", 4, gpus=4)]), 5.0)
    scheduler.decide(5.0)
    _, status, domain = explained(
        scheduler, "ml/all", pod_name=lambda job, pod: f"x/{job[3:]}.{pod.index}"
    )
    assert status["schedulableAfterPreemption"] and domain["preemptExplanation"]["schedulable"]
    victims = {
        entry["nodeName"]: [pod["name"] for pod in entry["possibleVictims"]]
        for entry in domain["nodePossibleVictims"]
    }
    assert sorted(victims) == ["n0", "n1", "n2", "n3"]
    names = sorted(name for pods in victims.values() for name in pods)
    assert names == ["other.0", "other.1", "pair.0", "pair.1"]
    details = domain["scheduleExplanation"]["nodeFailedDetails"]
    assert [detail["preemptMightHelp"] for detail in details] == [True]


def test_while_victims_stop_the_explanation_names_them_and_the_nodes_of_the_job():
    scheduler = make_scheduler(("topology",))
    weak = make_job("weak", "a", "gang", guaranteed=False)
    for job in (weak, make_job("weak2", "a", "gang", guaranteed=False)):
        scheduler.submit(job, 0.0)
    scheduler.decide(0.0)
    scheduler.submit(Job("strong", "b", ROLES["gang"]), 1.0)
    scheduler.decide(1.0)
    assert scheduler.state("strong") == "reserved"
    spec, status, domain = explained(scheduler, "strong")
    assert spec == {"questionObjectKey": "strong"}
    assert not status["schedulable"] and status["schedulableAfterPreemption"]
    assert status["failedMessage"] == "others have to stop for it"
    where = {
        entry["nodeName"] for entry in domain["preemptExplanation"]["feasibleSchedulingResult"]
    }
    assert where == {entry["nodeName"] for entry in domain["nodePossibleVictims"]}
    assert len(where) == 2


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_each_refusing_stage_is_listed(name):
    scheduler = make_scheduler(COMPOSITIONS[name])
    for number in range(6):
        scheduler.submit(make_job(f"j{number}", "a", "gang", preemptible=False), 0.0)
    scheduler.decide(0.0)
    plugins = {"quotas": "ElasticQuota", "devices": "DeviceShare"}
    for job in scheduler:
        explanation = scheduler.explain(job)
        _, status, domain = explained(scheduler, job)
        assert status["schedulable"] == (not explanation.refusals)
        details = domain["scheduleExplanation"]["nodeFailedDetails"]
        assert [(detail["failedPlugin"], detail["reason"]) for detail in details] == [
            (plugins.get(refusal.stage, refusal.stage), refusal.reason)
            for refusal in explanation.refusals
        ]
    if name != "queues":
        assert any(scheduler.explain(job).refusals for job in scheduler)


def test_what_is_no_explanation_is_refused():
    scheduler = two_gangs()
    with pytest.raises(TypeError, match="explanation must be a JobExplanation, not str"):
        schedule_explanation("why", scheduler)
    explanation = scheduler.explain("ml/first")
    scheduler.finish("ml/first", 9.0)
    with pytest.raises(KeyError, match="there is no job 'ml/first'"):
        schedule_explanation(explanation, scheduler)
