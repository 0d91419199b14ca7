"""A scheduler as a service, without HTTP: events, actions, questions, and what is refused."""

import asyncio
import json
import os
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken
from profiles import examples
from scheduler.lives import COMPOSITIONS, MACHINE, SPECS, make_scheduler

from hivecore.interop.events import bodies, recent_actions, service
from hivecore.interop.events.recent_actions import RecentActions
from hivecore.interop.events.service import SchedulerService
from hivecore.interop.extender.process import serve_scheduler
from hivecore.interop.kubernetes import json_text
from hivecore.interop.kubernetes.calls import BadCall
from hivecore.interop.kubernetes.serving.server import Listening
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.scheduler import Scheduler, plain_record, recover

ALL = COMPOSITIONS["all with cells"]


def job(name="train", tenant="a", pods=1, gpus=1, **more):
    return {
        "name": name,
        "tenant": tenant,
        "roles": [{"name": "w", "pods": pods, "gpus": gpus}],
        **more,
    }


def submit(*arguments, now=None, **more):
    return {"event": "submit", "job": job(*arguments, **more), "now": now}


def finish(name, **more):
    return {"event": "finish", "job": name, **more}


class Caller:
    """Calls a service in a loop of its own; time advances only on request."""

    def __init__(self, scheduler=None, **arguments):
        self.time = 0.0
        self.scheduler = Scheduler() if scheduler is None else scheduler
        self.runner = asyncio.Runner()
        self.service = self.run(self.made(arguments))

    async def made(self, arguments):
        return SchedulerService(self.scheduler, clock=lambda: self.time, **arguments)

    def run(self, coroutine):
        return self.runner.get_loop().run_until_complete(coroutine)

    def ask(self, path, body=b"", **query):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text = self.run(self.service.answer(path, data, query))
        return status, json.loads(text)

    def take(self, *events):
        status, result = self.ask("/v1/events", list(events))
        assert status == 200
        return result

    def actions(self, after=0, **query):
        status, result = self.ask("/v1/actions", after=str(after), **query)
        assert status == 200
        return result["actions"]


@pytest.fixture
def calling():
    """Makes callers, and ends them with their schedulers."""
    items = []

    def make(scheduler=None, **arguments):
        items.append(Caller(scheduler, **arguments))
        return items[-1]

    yield make
    for entry in items:
        entry.runner.close()
        entry.scheduler.close()


@pytest.fixture
def caller(calling):
    """Of an empty scheduler of all parts."""
    return calling(make_scheduler(ALL))


def said(actions):
    return [
        (action["now"], action["action"], action["job"]) for action in actions if "job" in action
    ]


def test_actions_are_numbered_and_asked_for_from_any_number(caller):
    assert caller.take(submit("a1", gpus=4), submit("b1", "b", gpus=4))["last"] == 2
    assert caller.take(finish("a1", now=9.0), submit("a2", now=9.5)) == {
        "now": 9.5,
        "last": 3,
        "errors": [],
    }
    result = caller.actions()
    assert [entry["number"] for entry in result] == [1, 2, 3]
    assert said(result) == [(0.0, "start", "a1"), (0.0, "start", "b1"), (9.5, "start", "a2")]
    assert caller.actions(2) == result[2:]
    assert caller.actions(3) == []


def test_decisions_are_made_at_the_end_of_each_moment(caller):
    round_ = caller.take(
        submit("a1", now=1.0), finish("a1", now=5.0), submit("a2", now=5.0), finish("a2", now=5.0)
    )
    assert round_["errors"] == [{"event": 3, "Error": "job='a2': it is pending, not running"}]
    assert said(caller.actions()) == [(1.0, "start", "a1"), (5.0, "start", "a2")]
    caller.time = 7.0
    caller.take({"event": "advance"})
    assert caller.scheduler.now == 12.0  # the clock continues from the given time


def test_an_order_by_what_jobs_need_is_served(calling):
    text = "{cluster: {models: {m: {gpus: 8}}, nodes: {n: m}}, devices: , queues: {order: %s}}"
    for order, then in (("srsf", "small"), ("sjf", "short"), ("2d-las", "short")):
        caller = calling(SchedulerSpec.of_yaml(text % order).scheduler())
        caller.take(submit("first", gpus=8), submit("unknown", "b", gpus=8))
        caller.take(submit("short", gpus=8, run_time=10.0), submit("small", gpus=1, run_time=20.0))
        caller.take({"event": "cancel", "job": "unknown"}, finish("first", now=9.0))
        assert said(caller.actions())[-1] == (9.0, "start", then)


def test_a_refused_event_changes_nothing_and_the_others_of_its_list_count(caller):
    round_ = caller.take(submit("a1"), submit("a1"), finish("none"), finish("a1"), submit("a2"))
    assert round_["errors"] == [
        {"event": 1, "Error": "job='a1': there is a job of this name"},
        {"event": 2, "Error": "there is no job 'none'"},
        {"event": 3, "Error": "job='a1': it is pending, not running"},
    ]
    assert sorted(caller.scheduler) == ["a1", "a2"]
    before = caller.scheduler.to_bytes()
    assert caller.ask("/v1/events", finish("none"))[0] == 404
    assert caller.ask("/v1/events", submit("a1"))[0] == 409
    assert caller.ask("/v1/events", submit("a3", now=1e13))[0] == 400
    assert caller.ask("/v1/events", [submit("a3"), {"event": "no"}])[0] == 400
    assert caller.scheduler.to_bytes() == before


def test_numbers_that_are_forgotten_or_not_there_yet_are_refused(calling):
    kept = RecentActions(most_bytes=150)
    for name in "abc":
        kept.add(0.0, {"action": "reject", "job": name, "reason": "x"})
    assert (kept.first, kept.last) == (2, 3)
    caller = calling(actions=kept)
    assert [action["job"] for action in caller.actions(1)] == ["b", "c"]
    assert caller.ask("/v1/actions", after="0") == (
        410,
        {"Error": "after=0: the oldest action that is known is 2"},
    )
    assert caller.ask("/v1/actions", after="4") == (
        400,
        {"Error": "after=4: the last action is number 3"},
    )


def test_an_answer_has_so_many_actions_and_the_next_one_goes_on(monkeypatch):
    kept = RecentActions()
    for number in range(10):
        kept.add(0.0, {"action": "reject", "job": str(number), "reason": "x" * number})
    monkeypatch.setattr(recent_actions, "_MOST_AT_ONCE", 4)
    texts, last = kept.since(3)
    assert ([load["job"] for load in json.loads(b"[%b]" % texts)], last) == (list("3456"), 7)
    monkeypatch.setattr(recent_actions, "_MOST_BYTES_AT_ONCE", 1)
    texts, last = kept.since(3)
    assert ([load["job"] for load in json.loads(b"[%b]" % texts)], last) == (["3"], 4)


def test_a_client_that_waits_for_actions_gets_them_at_once(caller):
    async def both():
        reply = caller.service.answer("/v1/actions", b"", {"after": "0", "wait": "30"})
        waits = asyncio.ensure_future(reply)
        await asyncio.sleep(0)
        assert not waits.done()
        await caller.service.answer("/v1/events", json.dumps(submit("a1")).encode(), {})
        return await asyncio.wait_for(waits, 20)

    status, text = caller.run(both())
    assert (status, said(json.loads(text)["actions"])) == (200, [(0.0, "start", "a1")])
    assert caller.actions(1, wait="0.01") == []


def test_the_status_is_no_older_than_the_events_that_were_answered(caller):
    async def both():
        ask = caller.service.answer
        await ask("/v1/events", json.dumps(submit("a1")).encode(), {})
        async with caller.service._turn:  # the next events are in progress
            status = asyncio.ensure_future(ask("/v1/status", b"", {}))
            await asyncio.sleep(0)
        return await status

    assert json.loads(caller.run(both())[1])["jobs"]["running"] == 1


def test_the_end_answers_all_waiting_clients(caller):
    async def both():
        reply = caller.service.answer("/v1/actions", b"", {"wait": "60"})
        waits = asyncio.ensure_future(reply)
        await asyncio.sleep(0)
        caller.service.end()
        later = caller.service.answer("/v1/actions", b"", {"wait": "60"})
        return await asyncio.wait_for(waits, 20), await asyncio.wait_for(later, 20)

    assert [json.loads(text) for _, text in caller.run(both())] == [{"actions": [], "last": 0}] * 2


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"after": "x"}, "after='x': must be the number of an action, or 0"),
        ({"after": "-1"}, "after='-1'"),
        ({"after": "\u0664"}, "must be the number of an action"),
        ({"after": "9" * 19}, "must be the number of an action"),
        ({"wait": "1e3"}, "wait='1e3': must be a number of seconds"),
        ({"wait": "nan"}, "must be a number of seconds"),
        ({"wait": "61"}, "wait='61': at most 60 seconds"),
        ({"since": "1"}, "there is no parameter 'since', but after and wait"),
    ],
)
def test_wrong_parameters_are_named(caller, query, says):
    status, result = caller.ask("/v1/actions", **query)
    assert status == 400
    assert says in result["Error"]


def test_parameters_are_refused_where_there_are_none(caller):
    error = {"Error": "/v1/status has no parameters in its URL"}
    assert caller.ask("/v1/status", now="3") == (400, error)


def test_what_if_says_what_would_be_done_and_does_nothing(caller):
    caller.take(submit("a1", pods=2, gpus=4), submit("a2", pods=2, gpus=4))
    before, last = caller.scheduler.to_bytes(), caller.service._recent.last
    status, result = caller.ask("/v1/what-if", [finish("a1", now=60.0), finish("none")])
    assert status == 200
    assert said(result["actions"]) == [(60.0, "start", "a2")]
    assert result["errors"] == [{"event": 1, "Error": "there is no job 'none'"}]
    assert caller.scheduler.to_bytes() == before
    assert caller.service._recent.last == last
    caller.take({"event": "advance", "now": 1.0})  # that time has not come yet


def test_a_waiting_job_is_explained(caller):
    caller.take(submit("a1", pods=2, gpus=4), submit("a2", pods=2, gpus=4))
    before = caller.scheduler.to_bytes()
    caller.time = 10.0
    status, result = caller.ask("/v1/explain/a2")
    assert (status, result["state"], result["position"]) == (200, "pending", 0)
    assert result["reason"] == result["refusals"][0]["reason"] != ""
    released = next(change for change in result["changes"] if change["kind"] == "release")
    assert (released["jobs"], released["cost"]) == (["a1"], 80.0)  # 8 GPUs for 10 seconds
    assert released["text"] in result["text"]
    assert caller.ask("/v1/explain/none") == (404, {"Error": "there is no job 'none'"})
    assert caller.scheduler.to_bytes() == before


def test_the_status_says_what_there_is(caller):
    caller.take(submit("a1", pods=2, gpus=4), submit("a2", pods=2, gpus=4))
    caller.take({"event": "set_node", "node": "n3", "healthy": False, "now": 2.0})
    counts = {"pending": 1, "reserved": 0, "lent": 0, "running": 1, "gpus": 8}
    assert caller.ask("/v1/status") == (
        200,
        {
            "now": 2.0,
            "jobs": {"pending": 1, "reserved": 0, "lent": 0, "running": 1},
            "tenants": {"a": counts},
            "queues": {"a": 1},
            "unhealthy": ["n3"],
            "draining": [],
            "last": caller.service._recent.last,
        },
    )


def test_a_client_that_has_missed_actions_asks_for_the_state_of_jobs(caller):
    caller.take(submit("a1", pods=2, gpus=4), submit("a2", pods=2, gpus=4))
    last = caller.service._recent.last
    status, result = caller.ask("/v1/jobs")
    assert (status, result) == (200, {"jobs": {"a1": "running", "a2": "pending"}, "last": last})
    status, result = caller.ask("/v1/jobs/a1")
    (started,) = [action for action in caller.actions() if action["action"] == "start"]
    assert (status, result["state"], result["since"]) == (200, "running", 0.0)
    assert (result["pods"], result["last"]) == (started["pods"], last)
    assert caller.ask("/v1/jobs/a2")[1]["pods"] == []
    assert caller.ask("/v1/jobs/none") == (404, {"Error": "there is no job 'none'"})


def samples(service):
    lines = service.metrics.text()[0].decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_metrics_count_decisions_refusals_and_what_there_is(caller):
    caller.take(submit("a1", pods=2, gpus=4), submit("a2", pods=2, gpus=4), finish("none"))
    result = samples(caller.service)
    for name, value in {
        'hivecore_decisions_total{outcome="start",verb="decide"}': 1,
        'hivecore_decisions_total{outcome="wait",verb="decide"}': 1,
        'hivecore_refusals_total{stage="cells"}': 1,
        'hivecore_events_total{event="submit"}': 2,
        'hivecore_events_total{event="refused"}': 1,
        'hivecore_jobs{state="running",tenant="a"}': 1,
        'hivecore_jobs{state="pending",tenant="a"}': 1,
        'hivecore_gpus_in_use{tenant="a"}': 8,
        'hivecore_queue_length{queue="a"}': 1,
        "hivecore_unhealthy_nodes": 0,
        "hivecore_decide_seconds_count": 1,
    }.items():
        assert float(result[name]) == value, name
    caller.service.metrics.answered("/v1/explain/a2", 200, 0.1)
    assert 'hivecore_requests_total{path="/v1/explain",status="200"}' in samples(caller.service)


def test_a_thread_takes_a_long_list_and_the_old_status_is_served_meanwhile(caller):
    free = threading.Event()
    taken = service.take

    def slowly(*arguments):
        assert threading.current_thread() is not threading.main_thread()
        assert free.wait(20)
        return taken(*arguments)

    async def both():
        events = json.dumps([submit(f"j{i}") for i in range(200)]).encode()
        takes = asyncio.ensure_future(caller.service.answer("/v1/events", events, {}))
        while not caller.service._turn.locked():
            await asyncio.sleep(0.001)
        during = await caller.service.answer("/v1/status", b"", {})
        free.set()
        return await takes, during, await caller.service.answer("/v1/status", b"", {})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "take", slowly)
        answers = [json.loads(text) for _, text in caller.run(both())]
    assert answers[0]["errors"] == []
    assert [sum(answer["jobs"].values()) for answer in answers[1:]] == [0, 200]


def test_changes_of_nodes_quotas_and_cells_name_the_jobs_that_must_stop(caller):
    caller.take(submit("gang", pods=2, gpus=4))
    _, job = caller.ask("/v1/jobs/gang")
    node = job["pods"][0][2]
    comes = {"event": "add_node", "node": node, "inventory": plain_record(MACHINE)}
    status, result = caller.ask(
        "/v1/events",
        [
            {"event": "remove_node", "node": node},
            {"event": "remove_node", "node": node},
            comes,
            {"event": "set_quota", "quota": {"name": "a", "parent": "all", "max": {"gpu": 7}}},
            {"event": "set_total", "total": {"gpu": 12}},
            {"event": "reconfigure", "spec": plain_record(SPECS["a has less"])},
        ],
    )
    assert status == 200
    assert result["errors"] == [{"event": 1, "Error": f"node={node!r}: no part knows it"}]
    stop, reject = caller.actions(job["last"])
    assert (stop["action"], stop["node"], stop["pods"]) == ("stop", node, job["pods"])
    assert reject["action"] == "reject" and "max of 'a' is 7" in reject["reason"]
    assert caller.ask("/v1/events", {"event": "remove_node", "node": "n9"})[0] == 404
    assert caller.ask("/v1/events", comes)[0] == 409


# --- nothing trusts a body

VAST = {
    "chains": {"c": {"levels": ["gpu", "node"], "fanouts": [2**10], "roots": 2**11}},
    "virtual_clusters": {},
}
WRONG = [
    (b"", "the body is no JSON"),
    (b"\xff\xfe", "the body is no JSON"),
    (b"[" * 5000, "the body is no JSON"),
    (b"[" * 17 + b"]" * 17, "nested deeper than 16 levels"),
    (
        b'[{"event":"advance"},{"event":"finish","job":"a","\\u006aob" :"b"}]',
        "the body is no JSON: an object has the key 'job' twice",
    ),
    (b'"finish"', "event must be a mapping, not str"),
    (b'{"event":"finish","job":"a","now":1e400}', ""),
    (b'{"event":"submit","job":{"name":"\\ud800"}}', ""),
    (json.dumps(finish("x" * 1001)).encode(), "a text of the body has more than 1000 characters"),
    (json.dumps({"x" * 1001: 1}).encode(), "a text of the body has more than 1000 characters"),
    (json.dumps(submit(pods=65_537)).encode(), "job: more than 65536 pods"),
    (json.dumps(submit(pods=2**70)).encode(), ""),
    (json.dumps([finish("a"), {}]).encode(), "event 1: event: 'event' is missing"),
    (json.dumps({"event": "submit", "job": {"name": "a" * 900}}).encode(), "is missing"),
    (
        json.dumps({"event": "reconfigure", "spec": VAST}).encode(),
        "spec: more than 1048576 GPUs",
    ),
    (
        json.dumps(
            {"event": "add_node", "node": "n", "free": {f"r{i}": 1 for i in range(65)}}
        ).encode(),
        "free: more than 64 resources",
    ),
]


@pytest.mark.parametrize(("body", "says"), WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("path", ["/v1/events", "/v1/what-if"])
def test_a_wrong_body_is_refused_and_changes_nothing(caller, path, body, says):
    caller.take(submit("a"))
    before = caller.scheduler.to_bytes()
    status, result = caller.ask(path, body)
    assert status == 400
    assert says in result["Error"]
    assert len(result["Error"]) < 600
    assert caller.scheduler.to_bytes() == before


KEYS = st.sampled_from(["a", "b", ":", '"', '":', "\\", '\\":', "a\\", " :", "\n:", "\u00e9", ""])
OBJECTS = st.recursive(
    KEYS | st.integers(-5, 5) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(KEYS, inner), max_size=4).map(lambda pairs: (dict, pairs))
    ),
    max_leaves=12,
)


def text_of(value, rng):
    """JSON in which an object may have a key twice, with white space here and there."""

    def space():
        return rng.choice(["", "", "", " ", "\n", "\t"])

    if isinstance(value, tuple):
        pairs = [
            f"{space()}{json.dumps(key, ensure_ascii=rng.random() < 0.5)}{space()}:{space()}"
            + text_of(entry, rng)
            for key, entry in value[1]
        ]
        return "{" + ",".join(pairs) + space() + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(entry, rng) + space() for entry in value) + "]"
    return json.dumps(value)


def repeats(value):
    if isinstance(value, tuple):
        keys = [key for key, _ in value[1]]
        return len(keys) > len(set(keys)) or any(repeats(entry) for _, entry in value[1])
    return isinstance(value, list) and any(map(repeats, value))


@examples(200)
@given(value=OBJECTS, rng=st.randoms(use_true_random=False))
def test_keys_that_are_there_twice_are_found_in_any_json_and_in_no_other(value, rng):
    text = text_of(value, rng)
    if repeats(value):
        with pytest.raises(ValueError, match="an object has the key"):
            json_text.read_body(text.encode())
        with pytest.raises(ValueError, match="an object has the key"):
            json_text.read_body(text)
    else:
        assert json_text.read_body(text.encode()) == json.loads(text)


def test_an_event_in_the_far_future_is_refused_and_the_next_is_not(caller):
    caller.take(submit("a", now=10.0))
    before = caller.scheduler.to_bytes()
    week = 7 * 86400.0
    for now in (1e12, 2.0**40, 10.0 + week + 1e-6):
        event = {"event": "advance", "now": now}
        status, result = caller.ask("/v1/events", event)
        assert status == 409
        assert result["Error"] == f"now={now!r}: allowed are 10.0 to {10 + week!r}, see --max-step"
        assert caller.take(event)["errors"] == [{"event": 0, **result}]
    assert caller.scheduler.to_bytes() == before
    result = caller.take(
        {"event": "advance", "now": 1e12}, finish("a", now=11.0), {"event": "advance", "now": 1e9}
    )
    assert [error["event"] for error in result["errors"]] == [0, 2]
    assert caller.scheduler.now == 11.0
    assert caller.take({"event": "advance", "now": 11.0 + week})["errors"] == []
    caller.time = 50.0  # the clock has gone on by as much
    assert caller.take({"event": "advance", "now": 61.0 + 2 * week})["errors"] == []
    for now in (5.0, -1.0, 0.0):
        assert caller.ask("/v1/events", {"event": "advance", "now": now})[0] in (400, 409)
    status, _ = caller.ask("/v1/what-if", {"event": "advance", "now": 1e12})
    assert status == 200  # nothing comes after it


def test_the_first_time_may_be_that_of_today(calling):
    today = time.time()
    for now, status in ((1e12, 409), (1e3 * today, 400), (today + 8 * 86400, 409), (today, 200)):
        caller = calling()
        assert caller.ask("/v1/events", {"event": "advance", "now": now})[0] == status
    caller = calling(max_step=2e12)
    assert caller.take({"event": "advance", "now": 1e12})["errors"] == []


def test_too_many_events_are_refused():
    with pytest.raises(BadCall, match="10001 events: at most 10000 are taken at once") as caught:
        bodies.events_of(b"[" + b",".join([b"{}"] * 10_001) + b"]")
    assert caught.value.status == 413


def test_half_characters_are_refused_whatever_reads_json(monkeypatch):
    monkeypatch.setattr(bodies, "parsed", json.loads)
    with pytest.raises(BadCall, match="half a character of UTF-16"):
        bodies.events_of(b'{"event": "finish", "job": "\\ud800"}')
    with pytest.raises(BadCall, match="now=nan: allowed are"):
        bodies.events_of(b'{"event": "advance", "now": NaN}')


@given((st.binary(max_size=200) | st.text(max_size=200).map(str.encode)).filter(b"[]".__ne__))
@examples(300)
def test_bytes_that_are_no_event_are_a_bad_call(body):
    with pytest.raises(BadCall):
        bodies.events_of(body)


FULL = submit(
    "new",
    "a",
    2,
    2,
    priority=1,
    preemptible=True,
    guaranteed=True,
    run_time=60.0,
    stages=[1.0, 2.0],
    after=["a1"],
    quota="a",
    where={"within": "rack", "nodes": ["n1"], "leaf_type": "gpu", "pinned_cell": "", "must": "x"},
    data={"dataset": "images", "rate_mbps": 30.0, "total_gb": 5.0},
)
FULL["job"]["roles"].append(
    {
        "name": "nic",
        "pods": 2,
        "min_pods": 1,
        "resources": {"cpu": 3},
        "devices": {
            "needs": [{"type": "gpu", "amounts": {"gpu-core": 100}, "count": 2}],
            "joint": ["gpu", "rdma"],
            "same_pcie": True,
        },
    }
)
EVENTS = [
    FULL,
    submit("a1"),
    finish("a1", now=3.0),
    {"event": "cancel", "job": "a2"},
    {"event": "fail", "job": "a1", "pod": "w/0"},
    {"event": "stopped", "job": "a1"},
    {"event": "set_node", "node": "n1", "healthy": False},
    {"event": "remove_node", "node": "n0"},
    {
        "event": "add_node",
        "node": "n4",
        "labels": {"rack": "r2"},
        "free": {"gpu": 4},
        "inventory": plain_record(MACHINE),
    },
    {"event": "add_node", "node": "n5", "inventory": plain_record(MACHINE)},
    {"event": "add_node", "node": "n4", "labels": {"rack": "r2"}, "free": {"gpu": 4}},
    {"event": "set_quota", "quota": {"name": "a", "max": {"gpu": 4}, "parent": "all"}},
    {"event": "set_total", "total": {"gpu": 8}},
    {"event": "reconfigure", "spec": plain_record(SPECS["two chains"])},
    {
        "event": "move",
        "moves": [
            {
                "action": "move",
                "job": "a1",
                "pods": [["w", 0, "n1", {"gpu": [0]}]],
                "before": [["w", 0, "n0", {"gpu": [0]}]],
            }
        ],
    },
    {"event": "advance", "now": 5.0},
]


LIKELY = st.sampled_from(("a", "b", "new", "w", "gpu", "n1", "rack", 2**31, 2, True, {"gpu": 1}))


@st.composite
def spoilt(draw):
    """An event with something in it that may be wrong."""
    data = draw(broken(draw(st.sampled_from(EVENTS))) | broken(FULL, LIKELY))
    return json.loads(json.dumps(data, default=str, skipkeys=True))


@given(
    st.sampled_from(sorted(COMPOSITIONS)),
    st.lists(spoilt() | st.sampled_from(EVENTS), min_size=1, max_size=4),
)
@examples(300)
def test_whatever_is_posted_the_answer_is_200_or_4xx_and_what_is_refused_changes_nothing(
    composition, events
):
    caller = Caller(make_scheduler(COMPOSITIONS[composition]))
    caller.take(submit("a1"), submit("a2", "b"))
    try:
        for event in events:
            before = caller.scheduler.to_bytes()
            status, result = caller.ask("/v1/events", event)
            assert status == 200 or 400 <= status < 500, result
            assert ("Error" in result) == (status != 200)
            if status != 200:
                assert caller.scheduler.to_bytes() == before
            caller.scheduler.check()
        assert caller.ask("/v1/what-if", events)[0] in (200, 400)
        assert caller.service.failure is None
    finally:
        caller.runner.close()


# --- when something fails that must not


def test_a_log_that_cannot_be_written_ends_the_service(tmp_path, capsys):
    scheduler = Scheduler(log=tmp_path / "log")

    async def main():
        built = SchedulerService(scheduler)

        def full(data):
            raise OSError(28, "No space left on device")

        scheduler._log._file.close()
        scheduler._log._file = SimpleNamespace(write=full, close=lambda: None)
        body = json.dumps(submit()).encode()
        with pytest.raises(OSError, match="No space"):
            await built.answer("/v1/events", body, {})
        assert built.broken.is_set()
        assert built.not_ready == "the service has failed"
        status, text = await built.answer("/v1/events", body, {})
        assert (status, json.loads(text)) == (503, {"Error": "not ready: the service has failed"})
        # So does the process, which cannot answer by then.
        with pytest.raises(OSError, match="No space"):
            await serve_scheduler(scheduler, Listening("127.0.0.1", 0, 1000))

    asyncio.run(main())
    scheduler._log._file = SimpleNamespace(write=len, close=lambda: None)
    scheduler.close()


# --- the log on the disk


@pytest.fixture
def synced(monkeypatch):
    """The files that have reached the disk, one for each time."""
    result, fsync = [], os.fsync

    def noted(descriptor):
        result.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return result


def test_an_answer_comes_when_the_log_is_on_the_disk_if_that_is_asked_for(
    calling, tmp_path, synced
):
    scheduler = Scheduler(log=tmp_path / "log")
    inode = os.stat(tmp_path / "log").st_ino
    for mode, count in (("always", 2), ("interval", 0), ("never", 0)):
        synced.clear()
        caller = calling(scheduler, fsync=mode)
        caller.take({"event": "advance"})
        assert synced.count(inode) == count, mode  # the first is of the decisions at the start
        caller.run(caller.service.look_after_log())
        caller.run(caller.service.look_after_log())
        assert synced.count(inode) == (1 if mode == "interval" else count)


def test_actions_are_shown_when_the_log_is_on_the_disk(calling, tmp_path, monkeypatch):
    scheduler = Scheduler(log=tmp_path / "log")
    caller = calling(scheduler, fsync="always")
    shown = []

    def seen():
        shown.append(caller.service._recent.last)

    monkeypatch.setattr(scheduler, "sync", seen)
    assert caller.take(submit("a"))["last"] == 1
    assert shown == [0]


@pytest.mark.parametrize("mode", ["always", "interval"])
def test_a_disk_that_refuses_the_log_ends_the_service(calling, tmp_path, monkeypatch, mode):
    scheduler = Scheduler(log=tmp_path / "log")
    caller = calling(scheduler, fsync=mode)

    def refuse():
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(scheduler, "sync", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        caller.take(submit("a"))
        caller.run(caller.service.keep_log())
        raise caller.service.failure
    assert caller.service.broken.is_set()
    assert caller.ask("/v1/events", submit("b"))[0] == 503
    assert caller.service._recent.last == (1 if mode == "interval" else 0)


def test_snapshots_are_written_after_so_many_lines_and_actions_keep_their_numbers(
    calling, tmp_path
):
    scheduler = Scheduler(log=tmp_path / "log")
    caller = calling(scheduler, actions=RecentActions(log=tmp_path / "log"), snapshot_every=10)
    for number in range(20):
        caller.take(submit(f"j{number}", now=float(number)))
        caller.run(caller.service.look_after_log())
    assert len(list(tmp_path.iterdir())) == 5  # 41 lines, each pair of them looked at
    whole = caller.actions()
    assert [entry["number"] for entry in whole] == list(range(1, 21))
    scheduler.close()
    again = recover(tmp_path / "log")
    caller = calling(again, actions=RecentActions.of_log(tmp_path / "log"))
    for after in range(21):
        assert caller.actions(after) == whole[after:]
    assert caller.ask("/v1/actions", after="21")[0] == 400
    assert caller.take(submit("more", now=50.0))["last"] == 21
    for file in tmp_path.iterdir():
        if file.name != "log":
            file.unlink()
    status, result = caller.ask("/v1/actions", after="3")
    assert status == 410
    assert result["Error"].startswith("after=3: ")


def test_a_snapshot_is_written_as_soon_as_it_is_due(calling, tmp_path):
    scheduler = Scheduler(log=tmp_path / "log")
    caller = calling(scheduler, snapshot_every=4)

    async def kept():
        keeping = asyncio.ensure_future(caller.service.keep_log())
        for number in range(10):
            body = json.dumps(submit(f"j{number}")).encode()
            assert (await caller.service.answer("/v1/events", body, {}))[0] == 200
            while caller.service._is_due():
                await asyncio.sleep(0)
        async with caller.service._turn:
            keeping.cancel()

    caller.run(kept())
    assert len(list(tmp_path.iterdir())) == 6


def test_forgotten_actions_are_in_the_log(calling, tmp_path, monkeypatch):
    monkeypatch.setattr(recent_actions, "_MOST_AT_ONCE", 3)
    scheduler = Scheduler(log=tmp_path / "log")
    caller = calling(scheduler, actions=RecentActions(100, tmp_path / "log"))
    for number in range(10):
        caller.take(submit(f"j{number}", now=float(number)))
    after, numbers = 0, []
    while result := caller.actions(after):
        assert len(result) <= 3
        numbers += [entry["number"] for entry in result]
        after = numbers[-1]
    assert numbers == list(range(1, 11))


def test_a_snapshot_that_cannot_be_written_is_tried_again_later(calling, tmp_path, caplog):
    scheduler = Scheduler(log=tmp_path / "log")
    caller = calling(scheduler, snapshot_every=10)
    (tmp_path / "log.part").write_text("mine")
    for number in range(20):
        caller.take(submit(f"j{number}", now=float(number)))
        caller.run(caller.service.look_after_log())
    assert len([record for record in caplog.records if "no snapshot" in record.message]) == 4
    assert caller.service.failure is None
    (tmp_path / "log.part").unlink()
    for number in range(20, 30):
        caller.take(submit(f"j{number}", now=float(number)))
        caller.run(caller.service.look_after_log())
    assert len(list(tmp_path.iterdir())) > 1
    scheduler.close()
    assert recover(tmp_path / "log").to_bytes() == scheduler.to_bytes()
