"""Events as records and as plain data, and the summary."""

import re
from pathlib import Path
from typing import get_args

import pytest
from scheduler.lives import COMPOSITIONS, SPECS, decided, make_job, make_scheduler

from hivecore.quotas import Quota, QuotaTree
from hivecore.scheduler import (
    Action,
    Job,
    Scheduler,
    Sharing,
    TenantSummary,
    event_of_plain,
    plain_record,
    read_log,
)

TRAIN = {"name": "train", "tenant": "a", "roles": [{"name": "w", "gpus": 2}]}


def test_lines_of_a_log_are_read_as_events(path):
    scheduler = make_scheduler(COMPOSITIONS["quotas, cells and devices"], log=path)
    decided(scheduler, make_job("j", "a", "leader", priority=1, run_time=5.0))
    scheduler.fail("j", 1.0, "w/1")
    scheduler.decide(1.5)
    scheduler.set_node("n1", False, 2.0)
    scheduler.advance(3.0)
    scheduler.finish("j", 4.0)
    scheduler.close()
    again = make_scheduler(COMPOSITIONS["quotas, cells and devices"])
    for record in read_log(path):
        if record.event == "decide":
            again.decide(record.now)
        elif record.event != "begin":
            event = event_of_plain({"event": record.event, "now": record.now, **record.fields})
            event.tell(again, now=0.0)
    assert again.summary() == scheduler.summary()
    assert (again.now, again.summary().unhealthy) == (4.0, ("n1",))


def test_an_event_without_a_time_takes_the_one_given():
    scheduler = Scheduler()
    event_of_plain({"event": "submit", "job": TRAIN}).tell(scheduler, now=7.0)
    assert (scheduler.now, plain_record(scheduler.job("train"))["name"]) == (7.0, "train")


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ([], TypeError, "event must be a mapping, not list"),
        ({}, ValueError, "event: 'event' is missing"),
        ({"event": 3}, TypeError, "event must be a string, not int"),
        ({"event": "decide"}, ValueError, "event must be one of submit, finish, .* not 'decide'"),
        ({"event": "__init__"}, ValueError, "event must be one of"),
        ({"event": "finish"}, ValueError, "finish: 'job' is missing"),
        ({"event": "finish", "job": ["a"]}, TypeError, "job must be a string, not list"),
        ({"event": "finish", "job": ""}, ValueError, "job must not be empty"),
        ({"event": "finish", "job": "a", "pod": "w/0"}, ValueError, "there is no field 'pod'"),
        ({"event": "fail", "job": "a", "pod": 0}, TypeError, "pod must be a string, not int"),
        ({"event": "submit", "job": "a"}, TypeError, "job must be a mapping, not str"),
        ({"event": "submit", "job": {**TRAIN, "gpu": 1}}, ValueError, "there is no field 'gpu'"),
        ({"event": "set_node", "node": "n", "healthy": 1}, TypeError, "healthy must be a bool"),
        ({"event": "set_total", "total": {"gpu": "x"}}, ValueError, r"total\['gpu'\]: 'x' is no"),
        ({"event": "set_total", "total": {"gpu": -1}}, ValueError, r"total\['gpu'\]=-1"),
        ({"event": "add_node", "node": "n", "free": {"gpu": 1.0005}}, ValueError, "free"),
        (
            {"event": "submit", "job": {"name": "a", "tenant": "a"}},
            ValueError,
            "roles must not be empty",
        ),
        (
            {"event": "submit", "job": {**TRAIN, "roles": [{}]}},
            ValueError,
            r"roles\[0\]: 'name' is missing",
        ),
        ({"event": "move", "moves": [{}]}, ValueError, r"moves\[0\]: 'job' is missing"),
        (
            {"event": "move", "moves": [{"action": "start", "job": "a", "pods": []}]},
            ValueError,
            r"moves\[0\]: must be 'move', not 'start'",
        ),
        ({"event": "regroup", "seconds": 0}, ValueError, "seconds=0.0: must be positive"),
        ({"event": "reorder", "order": "ab"}, TypeError, "order must be a sequence, not str"),
        ({"event": "reorder", "order": [[]]}, ValueError, "order: an entry has no jobs"),
        ({"event": "reorder", "order": ["a", "a"]}, ValueError, "order: job 'a' is named twice"),
        ({"event": "update_claims", "objects": [3]}, TypeError, r"objects\[0\] must be a mapping"),
        ({"event": "update_claims", "remove": [["Node"]]}, ValueError, r"remove\[0\]: must be the"),
        ({"event": "update_claims", "release": [""]}, ValueError, r"release\[0\]"),
        ({"event": "advance", "now": "5"}, TypeError, "now must be a float, not str"),
        ({"event": "advance", "now": True}, TypeError, "now must be a float, not bool"),
        ({"event": "advance", "now": -1}, ValueError, r"now=-1\.0: allowed are 0 to"),
        ({"event": "advance", "now": float("nan")}, ValueError, "now=nan: allowed are 0 to"),
        ({"event": "add_node"}, ValueError, "'node' is missing"),
        ({"event": "add_node", "node": "n", "labels": 3}, TypeError, "labels must be a mapping"),
        ({"event": "add_node", "node": "n", "inventory": {}}, ValueError, "'devices' is missing"),
        (
            {"event": "add_node", "node": "n", "inventory": {"devices": [{"type": "tpu"}]}},
            ValueError,
            r"devices\[0\]: 'minor' is missing",
        ),
        ({"event": "remove_node", "node": ""}, ValueError, "node must not be empty"),
        ({"event": "set_quota", "quota": {"name": "a"}}, ValueError, "quota: 'max' is missing"),
        (
            {"event": "set_quota", "quota": {"name": "a", "max": {}, "most": 1}},
            ValueError,
            "there is no field 'most'",
        ),
        ({"event": "set_total", "total": [1]}, TypeError, "total must be a mapping"),
        ({"event": "set_total", "total": {}, "carved": 1}, TypeError, "carved must be a bool"),
        ({"event": "reconfigure", "spec": {"chains": {}}}, ValueError, "'virtual_clusters' is"),
        (
            {"event": "reconfigure", "spec": {"chains": [], "virtual_clusters": {}}},
            TypeError,
            "chains must be a mapping",
        ),
        (
            {
                "event": "reconfigure",
                "spec": {**plain_record(SPECS["as before"]), "virtual_clusters": {"a": {"x": {}}}},
            },
            ValueError,
            "no chain 'x'",
        ),
    ],
)
def test_a_wrong_event_is_refused_and_what_is_wrong_named(data, error, says):
    with pytest.raises(error, match=says):
        event_of_plain(data)


def test_the_status_counts_jobs_queues_gpus_and_unhealthy_nodes():
    scheduler = make_scheduler(COMPOSITIONS["quotas and devices"])
    assert scheduler.summary().tenants == ()
    scheduler.submit(make_job("elastic", "a", "elastic"), 0.0)
    decided(scheduler, make_job("gang", "b", "gang"), make_job("more", "b", "gang"))
    scheduler.set_node("n3", False, 1.0)
    status = scheduler.summary()
    first, second = status.tenants
    assert first == TenantSummary("a", pending=0, reserved=0, lent=0, running=1, gpus=8)
    assert second == TenantSummary("b", pending=1, reserved=0, lent=0, running=1, gpus=8)
    assert (status.now, status.queued, status.unhealthy) == (1.0, (("b", 1),), ("n3",))


def test_shared_gpus_count_once_for_the_tenant_of_the_holder():
    tree = QuotaTree([Quota("lab", max={"gpu": 4})], total={"gpu": 4})
    scheduler = Scheduler(quotas=tree, sharing=Sharing(2, any_tenant=True))
    for tenant, stages in (("b", [4, 1]), ("a", [1, 4])):
        decided(scheduler, Job(f"j{tenant}", tenant, 4, quota="lab", stages=stages))
    counts = {"pending": 0, "reserved": 0, "lent": 0, "running": 1}
    assert scheduler.summary().tenants == (
        TenantSummary("a", **counts, gpus=0),
        TenantSummary("b", **counts, gpus=4),
    )


def test_a_job_that_waits_for_victims_is_reserved_and_they_keep_their_gpus():
    scheduler = make_scheduler(COMPOSITIONS["devices"])
    scheduler.submit(make_job("spare", "a", "gang", guaranteed=False), 0.0)
    decided(scheduler, make_job("spare2", "a", "gang", guaranteed=False))
    decided(scheduler, Job("train", "b", 4), now=1.0)
    assert scheduler.summary().tenants == (
        TenantSummary("a", pending=0, reserved=0, lent=0, running=2, gpus=16),
        TenantSummary("b", pending=0, reserved=1, lent=0, running=0, gpus=0),
    )


def test_the_page_for_other_languages_names_every_event_and_action():
    page = (Path(__file__).parents[2] / "docs/howto/http.md").read_text()
    rows = page.partition("## Events and actions as JSON")[2]
    named = set()
    for row in rows.splitlines():
        named.update(re.findall(r"`(\w+)`", row.split("|")[1] if row.startswith("|") else ""))
    with pytest.raises(ValueError, match="must be one of") as error:
        event_of_plain({"event": "none"})
    events = set(re.search(r"one of (.*), not", str(error.value))[1].split(", "))
    names = [kind.__name__ for kind in get_args(Action)]
    actions = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names}
    assert named == events | actions
