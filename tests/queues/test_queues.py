"""Which job is next: each rule by a small case, and what bad input leaves as it was."""

import json
from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivecore._sealed import seal
from hivecore.errors import InvariantError
from hivecore.queues import Capacity, NamespaceQuota, QueuedJob, TenantQueues


def filled(names, **options):
    """Jobs "a1" of tenant a and so on, of size 1."""
    queues = TenantQueues(**options)
    for name in names:
        queues.push(QueuedJob(name, name[0], 1), 0)
    return queues


def drained(queues, **how):
    return drained_at(0, queues, **how)


def drained_at(now, queues, **how):
    results = []
    while departure := queues.next(now, **how):
        results.append(departure.job.name)
    return results


class Plugin:
    def __init__(self, **methods):
        vars(self).update(methods)


def failing(job):
    raise RuntimeError(job.name)


def test_equal_scores_leave_by_priority_then_arrival():
    """KubeDL: at random."""
    queues = TenantQueues()
    for name, priority in [("x", 0), ("y", 1), ("z", 1)]:
        queues.push(QueuedJob(name, "a", 1, priority), 0)
    same = Plugin(score=lambda job: 7)
    assert drained(queues, plugins=[same]) == ["y", "z", "x"]


def test_the_highest_sum_of_scores_leaves():
    queues = filled(["a1", "a2", "a3"])
    first = Plugin(score=lambda job: {"a1": 3, "a2": 1, "a3": 2}[job.name])
    second = Plugin(score=lambda job: {"a1": 0, "a2": 5, "a3": 2}[job.name])
    assert drained(queues, plugins=[first, second]) == ["a2", "a3", "a1"]


@pytest.mark.parametrize("scores", [(np.uint8(200), np.uint8(100)), (Decimal("99.5"), 0.75)])
def test_scores_of_all_kinds_add_up(scores):
    queues = filled(["a1", "a2"])
    plugins = [Plugin(score=lambda job, s=s: s if job.name == "a2" else 50) for s in scores]
    assert drained(queues, plugins=plugins) == ["a2", "a1"]


@pytest.mark.parametrize("answer", [True, None, "", "Skip", np.True_])
def test_a_filter_passes(answer):
    assert filled(["a1"]).next(0, plugins=[Plugin(filter=lambda job: answer)]).job.name == "a1"


@pytest.mark.parametrize("answer", [False, "Wait", np.False_])
def test_a_filter_holds_back(answer):
    queues = filled(["a1"])
    assert queues.next(0, plugins=[Plugin(filter=lambda job: answer)]) is None
    assert len(queues) == 1


def test_pre_dequeue_is_called_only_for_jobs_that_leave():
    seen = []
    plugin = Plugin(pre_dequeue=seen.append, filter=lambda job: job.name != "a1")
    queues = filled(["a1", "a2"])
    queues.peek(0, plugins=[plugin])
    queues.explain("a2", 0, plugins=[plugin])
    assert not seen
    queues.next(0, plugins=[plugin])
    assert [job.name for job in seen] == ["a2"]


@pytest.mark.parametrize("method", ["filter", "score", "pre_dequeue"])
@pytest.mark.parametrize("order", ["weighted", "round-robin", "key"])
def test_a_plugin_that_fails_leaves_all_as_it_was(method, order):
    queues = filled(["a1", "a2", "b1"], order=order)
    before = queues.to_bytes()
    with pytest.raises(RuntimeError):
        queues.next(5, plugins=[Plugin(**{method: failing})])
    assert queues.to_bytes() == before


@pytest.mark.parametrize(
    "scores", [["7"], [None], [nan], [1j], [Decimal("sNaN")], [inf, -inf], [Decimal("inf"), -inf]]
)
def test_scores_that_are_no_numbers_are_refused(scores):
    queues = filled(["a1", "a2", "b1"])
    before = queues.to_bytes()
    with pytest.raises((TypeError, ValueError), match="of job 'a1'"):
        queues.next(5, plugins=[Plugin(score=lambda job, s=s: s) for s in scores])
    assert queues.to_bytes() == before


@pytest.mark.parametrize("blocking", ["best-effort", "backfill"])
def test_by_arrival_the_next_job_of_all_tenants_passes_one_that_cannot_leave(blocking):
    queues = TenantQueues(order="arrival", blocking=blocking)
    for name, size, priority in [("a1", 8, 3), ("a2", 1, 0), ("b1", 8, 2), ("b2", 1, 1)]:
        queues.push(QueuedJob(name, name[0], size, priority, run_time=2), 0)
    capacity = Capacity(2, [(5, 6)])
    assert drained(queues.copy(), capacity=capacity) == ["b2", "a2"]
    best = Plugin(score=lambda job: job.name == "a2", filter=lambda job: job.name != "b2")
    assert drained(queues, plugins=[best], capacity=capacity) == ["a2"]


def test_a_reservation_is_never_in_the_past():
    queues = TenantQueues(blocking="backfill")
    queues.push(QueuedJob("head", "a", 4), 20)
    queues.push(QueuedJob("other", "a", 2, run_time=1), 20)
    standing = queues.explain("other", 20, capacity=Capacity(2, [(10, 2)]))
    assert standing.reason == "would delay 'head', reserved for 20"


def test_behind_a_job_that_is_too_large_for_all_the_next_one_has_the_reservation():
    queues = TenantQueues(blocking="backfill")
    for name, size in [("impossible", 16), ("large", 8), ("small", 4)]:
        queues.push(QueuedJob(name, "a", size, run_time=10), 0)
    capacity = Capacity(4, [(5, 4)])
    assert queues.peek(0, capacity=capacity) is None
    reason = queues.explain("small", 0, capacity=capacity).reason
    assert reason == "would delay 'large', reserved for 5"


def test_explain_says_what_is_in_front_and_why_it_waits():
    queues = filled(["a1", "a2"])
    assert queues.explain("a1", 0).reason == ""
    standing = queues.explain("a2", 0)
    assert (standing.position, standing.ahead) == (1, "a1")
    assert standing.reason == "'a1' leaves first" or "a1" in standing.reason
    why = queues.explain("a1", 0, fits=lambda job: "no node")
    assert why.reason == "no node"
    assert "0 are free" in queues.explain("a1", 0, capacity=Capacity(0)).reason
    queues.set_blocking("a", "fifo")
    held = queues.explain("a2", 0, fits=lambda job: job.name == "a2")
    assert held.reason == "is behind 'a1', which waits"


@pytest.mark.parametrize("order", ["weighted", "arrival", "key"])
def test_explain_knows_what_a_tenant_in_front_has_reserved(order):
    queues = TenantQueues(order=order, blocking="backfill")
    queues.push(QueuedJob("large", "a", 8), 0)
    queues.push(QueuedJob("other", "b", 2), 0)
    capacity = Capacity(4, [(10, 4)])
    assert queues.peek(0, capacity=capacity) is None
    reason = queues.explain("other", 0, capacity=capacity).reason
    assert reason == "would delay 'large', reserved for 10"
    assert queues.explain("large", 0, capacity=capacity).reason == "needs 8, and 4 are free"
    queues.set_key("b", -1)
    if order == "key":
        assert queues.explain("other", 0, capacity=capacity).reason == ""


def test_explain_names_the_job_that_blocks_a_queue_that_backfills_without_a_capacity():
    queues = filled(["a1", "a2", "a3", "a4"], blocking="backfill")
    held = Plugin(filter=lambda job: job.name != "a1")
    ask = {"plugins": [held], "fits": lambda job: job.name != "a3"}
    assert queues.peek(0, **ask).name == "a2"
    assert queues.explain("a4", 0, **ask).reason == "is behind 'a3', which waits"


def test_coming_and_going_at_one_tag_leaves_no_litter():
    queues = filled(["a1"])
    for _ in range(1000):
        queues.push(QueuedJob("b1", "b", 1), 0)
        queues.remove("b1")
    assert len(queues._ring) < 100


# --- kinds


def kinds(text, **options):
    """Jobs such as "a1.3": of tenant a and kind 1."""
    queues = TenantQueues(**options)
    for name in text.split():
        queues.push(QueuedJob(name, name[0], 1, kind=int(name[1])), 0)
    return queues


def left(queues):
    """What leaves, one after the other, from a copy."""
    return " ".join(drained(queues.copy()))


def test_explain_says_that_a_kind_is_parked():
    queues = kinds("a0.1 a1.1 a2.1", blocking="fifo")
    queues.park("a", 1)
    standing = queues.explain("a1.1", 0, fits=failing)
    assert (standing.position, standing.reason) == (1, "its kind is parked")
    assert queues.explain("a0.1", 0).reason == ""
    assert queues.explain("a2.1", 0).reason == "is behind 'a1.1', which waits"
    queues.set_blocking("a", "backfill")
    assert queues.explain("a2.1", 0).reason == "'a0.1' leaves first"
    queues.park("a", 2)
    queues.remove("a0.1")
    queues.push(QueuedJob("a3.1", "a", 1, kind=3), 0)
    queues.push(QueuedJob("a4.1", "a", 1, kind=4), 0)
    behind = queues.explain("a4.1", 0, fits=lambda job: job.kind == 4)
    assert behind.reason == "is behind 'a3.1', which waits"


@pytest.mark.parametrize("blocking", ["fifo", "best-effort", "backfill"])
def test_a_tenant_all_of_whose_jobs_are_parked_is_not_asked(blocking):
    queues = kinds("a1.1 a1.2 b1.1", blocking=blocking)
    queues.park("a", 1)
    assert [entry[2].name for entry in queues._ring] == ["b"]
    queues.remove("b1.1")
    assert queues.next(0) is None
    assert queues.next(0, fits=failing) is None
    queues.push(QueuedJob("a1.3", "a", 1, kind=1), 0)
    assert not queues._ring


def test_the_key_of_a_tenant_without_jobs_may_change():
    queues = filled(["a1"], order="key")
    queues.set_key("a", 0.5)
    queues.next(0)
    queues.set_key("a", 1)
    assert queues.copy().to_bytes() == queues.to_bytes()


def asked_for(queues, **how):
    seen = []

    def refuse(job):
        seen.append(job.name)
        return False

    return queues.next(0, fits=refuse, **how), seen


def test_one_of_a_kind_and_priority_is_asked_for_all():
    queues = kinds("a1.1 a0.1 a1.2 a2.1 a0.2 a1.3 b1.1 b1.2")
    queues.push(QueuedJob("low", "a", 1, -1, kind=1), 0)
    result, seen = asked_for(queues)
    assert result is None
    assert seen == ["a1.1", "a0.1", "a2.1", "a0.2", "low", "b1.1"]
    seen.clear()
    hold = Plugin(filter=lambda job: seen.append(job.name) or False)
    assert queues.next(0, plugins=[hold]) is None
    assert seen == ["a1.1", "a0.1", "a2.1", "a0.2", "low", "b1.1"]


def test_what_lacks_capacity_says_nothing_of_its_kind_and_what_is_refused_does():
    queues = TenantQueues()
    for name, size in [("large", 4), ("small", 1), ("other", 1)]:
        queues.push(QueuedJob(name, "a", size, kind=1), 0)
    assert asked_for(queues, capacity=Capacity(2)) == (None, ["small"])


def test_no_plugin_is_called_for_100000_parked_jobs():
    queues = TenantQueues(order="round-robin")
    for i in range(100_000):
        queues.push(QueuedJob(f"a{i}", f"t{i % 10}", 1, kind=1 + i // 10 % 50), 0)
    for i in range(10):
        for kind in range(1, 50):
            queues.park(f"t{i}", kind)
    result, seen = asked_for(queues)
    assert result is None
    assert len(seen) == 10


def test_parking_and_waking_leave_no_litter():
    queues = kinds("a1.1 a2.1 a3.1 a3.2")
    for _ in range(1000):
        queues.park("a", 3)
        queues.wake("a", 3)
        queues.requeue(queues.next(0))
    queues.check()
    line = queues._tenants["a"].line
    assert len(line.heads) + len(line.shut) < 30


def test_jobs_that_come_back_in_front_leave_no_litter():
    """Last out, first in, behind a job that stays on top."""
    queues = kinds(" ".join(f"a1.{i}" for i in range(100)))
    out = [queues.next(0) for _ in range(99)]
    queues.push(QueuedJob("top", "a", 1, 9), 0)
    for item in reversed(out):
        queues.requeue(item)
        queues.check()
    assert left(queues) == "top " + " ".join(f"a1.{i}" for i in range(100))


def test_saved_states_of_before_there_were_kinds_are_read():
    state = {
        "settings": ["weighted", 0, 1, "best-effort"],
        "counts": [3, 1, 0, 0],
        "tenants": [["a", "fifo", 2, 0, 0, 0]],
        "jobs": [[["x", "a", 4, 1, None], [["gpu", 4]], "ns", 3, 1, 0]],
    }
    queues = TenantQueues.from_bytes(seal(b"HVTQ", 1, json.dumps(state).encode()))
    job = QueuedJob("x", "a", 4, 1, resources={"gpu": 4}, namespace="ns")
    assert list(queues) == [job]
    assert queues.parked("a") == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.parked.clear(),
        lambda line: line.parked.setdefault(2),
        lambda line: line.shut.clear(),
        lambda line: line.heads.extend(line.shut),
        lambda line: line.priorities.clear(),
        lambda line: line.queues[0, 1].pop(),
    ],
)
def test_check_sees_what_is_parked_and_offered(damage):
    queues = kinds("a1.1 a2.1 a1.2")
    queues.park("a", 1)
    damage(queues._tenants["a"].line)
    with pytest.raises(InvariantError):
        queues.check()


def test_check_sees_which_tenants_offer_a_job():
    queues = kinds("a1.1 b2.1")
    queues.park("a", 1)
    queues._tenants["a"].offers = True
    with pytest.raises(InvariantError):
        queues.check()


# --- bad input


WRONG = [
    (TypeError, lambda it: it.push("a", 9)),
    (TypeError, lambda it: NamespaceQuota().filter(None)),
    (TypeError, lambda it: NamespaceQuota().pre_dequeue(None)),
    (ValueError, lambda it: it.push(QueuedJob("a1", "b", 1), 9)),
    (ValueError, lambda it: it.push(QueuedJob("x", "a", 1), 4)),
    (TypeError, lambda it: it.push(QueuedJob("x", "a", 1), 5.0)),
    (ValueError, lambda it: it.next(4)),
    (TypeError, lambda it: it.next(9, plugins=[3])),
    (TypeError, lambda it: it.next(9, plugins=5)),
    (TypeError, lambda it: it.next(9, fits=3)),
    (TypeError, lambda it: it.next(9, fits=lambda job: 3)),
    (TypeError, lambda it: it.next(9, capacity=3)),
    (TypeError, lambda it: it.requeue("a1")),
    (KeyError, lambda it: it.remove("x")),
    (TypeError, lambda it: it.remove(3)),
    (KeyError, lambda it: it.explain("x", 9)),
    (ValueError, lambda it: it.set_weight("new", 0)),
    (TypeError, lambda it: it.set_weight(3, 1)),
    (ValueError, lambda it: it.set_key("new", float("nan"))),
    (ValueError, lambda it: it.set_key("new", 10**400)),
    (TypeError, lambda it: it.set_key("new", "3")),
    (ValueError, lambda it: it.set_blocking("new", "easy")),
    (KeyError, lambda it: it.park("new", 1)),
    (TypeError, lambda it: it.park(3, 1)),
    (ValueError, lambda it: it.park("a", 0)),
    (ValueError, lambda it: it.park("a", 2**61 + 1)),
    (TypeError, lambda it: it.park("a", "1")),
    (KeyError, lambda it: it.wake("new", 1)),
    (ValueError, lambda it: it.wake("a", -1)),
    (KeyError, lambda it: it.parked("new")),
]


@pytest.mark.parametrize(("error", "act"), WRONG)
def test_bad_input_leaves_all_as_it_was(error, act):
    queues = filled(["a1", "b1"])
    queues.push(QueuedJob("a2", "a", 1), 5)
    before = queues.to_bytes()
    with pytest.raises(error):
        act(queues)
    assert queues.to_bytes() == before


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ValueError, lambda: QueuedJob("", "a", 1)),
        (ValueError, lambda: QueuedJob("x", "", 1)),
        (ValueError, lambda: QueuedJob("x", "a", 0)),
        (ValueError, lambda: QueuedJob("x", "a", 2**31)),
        (TypeError, lambda: QueuedJob("x", "a", 1.0)),
        (ValueError, lambda: QueuedJob("x", "a", 1, 2**31)),
        (ValueError, lambda: QueuedJob("x", "a", 1, 0, 0)),
        (ValueError, lambda: QueuedJob("x", "a", 1, kind=-1)),
        (ValueError, lambda: QueuedJob("x", "a", 1, kind=2**61 + 1)),
        (TypeError, lambda: QueuedJob("x", "a", 1, kind="1")),
        (ValueError, lambda: QueuedJob("x", "a", 1, resources={"gpu": -1})),
        (ValueError, lambda: Capacity(-1)),
        (ValueError, lambda: Capacity(1, [(1, 2, 3)])),
        (ValueError, lambda: TenantQueues(order="fair")),
        (ValueError, lambda: TenantQueues(blocking="easy")),
        (ValueError, lambda: TenantQueues(ageing=-1)),
        (TypeError, lambda: TenantQueues(ageing=0.5)),
        (ValueError, lambda: TenantQueues(order="srsf", ageing=1)),
        (ValueError, lambda: QueuedJob("x", "a", 1, attained=-1)),
        (ValueError, lambda: NamespaceQuota(0)),
    ],
)
def test_bad_values_are_refused(error, make):
    with pytest.raises(error):
        make()


def test_check_sees_a_lost_job():
    queues = filled(["a1", "a2"])
    queues._tenants["a"].line.heads.pop()
    with pytest.raises(InvariantError):
        queues.check()


# --- KubeDL's quota plug-in


def job(name, tenant="a", namespace="ns", **resources):
    return QueuedJob(name, tenant, 1, resources=resources, namespace=namespace)


def test_a_job_may_ask_for_all_that_is_left_and_not_for_more():
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 8}, {"gpu": 3})
    assert not quota.filter(job("x", gpu=5, tpu=99))
    assert "5 are left" in quota.filter(job("x", gpu=6))
    assert not quota.filter(job("x", namespace="other", gpu=99))


def test_a_namespace_that_uses_too_much_of_anything_waits():
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 8, "cpu": 1}, {"cpu": 2})
    assert "2 of 'cpu' are used" in quota.filter(job("x", gpu=1))


def test_what_is_assumed_counts_for_all_tenants_of_the_namespace():
    """KubeDL: counted per tenant, checked per namespace."""
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 4})
    quota.pre_dequeue(job("x", "a", gpu=3))
    assert quota.filter(job("y", "b", gpu=2))
    assert not quota.filter(job("y", "b", gpu=1))


def test_what_is_assumed_of_a_job_does_not_hold_up_the_job_itself():
    """It left its queue, could not start, and was put back."""
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 4})
    queues = TenantQueues()
    queues.push(job("x", gpu=3), 0)
    queues.requeue(queues.next(0, plugins=[quota]))
    assert not quota.filter(job("x", gpu=4))
    assert quota.filter(job("x", gpu=5)) == "quota of 'ns': asks for 5 of 'gpu', and 4 are left"
    assert "1 is left" in quota.filter(job("y", gpu=2))
    quota.set_quota("other", {"gpu": 4})
    assert quota.filter(job("x", namespace="other", gpu=5))
    assert queues.next(0, plugins=[quota]).job.name == "x"
    quota.check()


def test_a_job_that_asks_for_none_of_what_is_used_up_passes():
    """What was assumed of a job appears in what is used before it is forgotten."""
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 4}, {"gpu": 3})
    quota.pre_dequeue(job("x", gpu=3))
    assert not quota.filter(job("y", gpu=0))
    assert "0 are left" in quota.filter(job("y", gpu=1))


def test_500m_times_n_is_exact():
    """KubeDL: a core times N."""
    quota = NamespaceQuota()
    quota.set_quota("ns", {"cpu": 2000})
    assert not quota.filter(job("x", cpu=4 * 500))


def test_what_is_assumed_is_dropped_after_its_time_or_when_it_runs():
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 4})
    quota.pre_dequeue(job("x", gpu=3))
    quota.advance(30)
    quota.pre_dequeue(job("y", gpu=1))
    quota.advance(59)
    assert quota.assumed == ("x", "y")
    quota.advance(60)
    assert quota.assumed == ("y",)
    quota.check()
    quota.forget("y")
    quota.forget("y")
    assert not quota.filter(job("z", gpu=4))


def test_the_quota_plugin_holds_jobs_in_their_queue():
    quota = NamespaceQuota()
    quota.set_quota("ns", {"gpu": 4})
    queues = TenantQueues()
    for name, tenant in [("x", "a"), ("y", "b"), ("z", "c")]:
        queues.push(job(name, tenant, gpu=2), 0)
    assert drained(queues, plugins=[quota]) == ["x", "y"]
    quota.advance(60)
    assert drained(queues, plugins=[quota]) == ["z"]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=30),
    st.fractions(Fraction(1, 9), 9, max_denominator=9),
)
def test_ageing_bounds_how_many_jobs_pass_one_that_waits(later, ageing):
    """Those that are more important by p pass it if they came less than p / ageing after it."""
    queues, now, passing = TenantQueues(ageing=ageing), 0, []
    queues.push(QueuedJob("waits", "a", 1), 0)
    for i, (pause, priority) in enumerate(later):
        now += pause
        queues.push(QueuedJob(f"j{i}", "a", 1, priority=priority), now)
        passing += [f"j{i}"] * (now * ageing < priority)
    passed = []
    while (left := queues.next(now).job.name) != "waits":
        passed.append(left)
    assert sorted(passed) == sorted(passing)
