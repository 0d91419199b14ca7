"""The coscheduler's arguments, states, audit and sizes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore._sealed import seal, unseal
from hivecore.errors import CorruptStateError, GangError, InvariantError
from hivecore.gangs import Coscheduler, GangSpec, gang_phase
from hivecore.gangs._wait_graph import WaitGraph


def waiting_gang():
    gangs = Coscheduler()
    spec = GangSpec("a", 3, mode="non-strict", roles={"ps": 1})
    for i, role in enumerate(["ps", "", ""]):
        gangs.create_pod(f"a{i}", spec, 0, role=role)
    gangs.assume_pod("a0", 1, ["n1"])
    gangs.fail_pod("a1", 1, ["n2"])
    return gangs


# --- arguments


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "says"),
    [
        (("", 1), {}, ValueError, "name must not be empty"),
        ((1, 1), {}, TypeError, "name must be a string"),
        (("a", -1), {}, ValueError, "min_members=-1: allowed are 0"),
        (("a", 2**31), {}, ValueError, "min_members"),
        (("a", 1.5), {}, TypeError, "min_members must be an integer"),
        (("a", 2, 1), {}, ValueError, "total=1: allowed are 2"),
        (("a", 1), {"mode": "Strict"}, ValueError, "mode must be one of strict, non-strict"),
        (("a", 1), {"match_policy": "x"}, ValueError, "match_policy must be one of"),
        (("a", 1), {"wait_time": 0}, ValueError, "wait_time=0"),
        (("a", 1), {"wait_time": None}, TypeError, "wait_time"),
        (("a", 1), {"groups": "b"}, TypeError, "groups must be a sequence"),
        (("a", 1), {"groups": [""]}, ValueError, "groups must not be empty"),
        (("a", 1), {"roles": 3}, TypeError, "roles must be a mapping"),
        (("a", 1), {"roles": {"ps": -1}}, ValueError, "roles"),
        (("a", 1), {"roles": {3: 1}}, TypeError, "roles"),
    ],
)
def test_a_wrong_definition_is_refused(arguments, options, kind, says):
    with pytest.raises(kind, match=says):
        GangSpec(*arguments, **options)


def test_definitions_are_values():
    spec = GangSpec("a", 2, groups=["b", "a", "b"], roles={"w": 1, "ps": 2})
    assert spec.groups == ("a", "b") and spec.roles == (("ps", 2), ("w", 1))
    assert spec == GangSpec("a", 2, groups=["b"], roles=spec.roles) and hash(spec) == hash(
        spec.replace()
    )
    assert spec.replace(min_members=5, total=5).total == 5
    with pytest.raises(TypeError, match="colour"):
        spec.replace(colour=1)
    with pytest.raises(AttributeError):
        spec.name = "b"


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"backoff": 0}, ValueError, "backoff=0"),
        ({"backoff": 5, "max_backoff": 4}, ValueError, "max_backoff=4: allowed are 5"),
        ({"backoff": "1"}, TypeError, "backoff"),
        ({"resolve_deadlocks": 1}, TypeError, "resolve_deadlocks must be a bool"),
    ],
)
def test_wrong_settings_are_refused(options, kind, says):
    with pytest.raises(kind, match=says):
        Coscheduler(**options)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda it: it.create_pod("", "a", 1), ValueError, "pod must not be empty"),
        (lambda it: it.create_pod(3, "a", 1), TypeError, "pod must be a string"),
        (lambda it: it.create_pod("a0", "a", 1), ValueError, "pod='a0': there is one"),
        (lambda it: it.create_pod("x", "", 1), ValueError, "gang must not be empty"),
        (lambda it: it.create_pod("x", 3, 1), TypeError, "gang must be a GangSpec"),
        (lambda it: it.create_pod("x", "a", 0), ValueError, "now=0: allowed are 1"),
        (lambda it: it.create_pod("x", "a", 1.5), TypeError, "now must be an integer"),
        (lambda it: it.create_pod("x", "a", 2**61 + 1), ValueError, "now"),
        (lambda it: it.create_pod("x", "a", 1, role=3), TypeError, "role"),
        (lambda it: it.create_pod("x", "a", 1, bound=1), TypeError, "bound must be a bool"),
        (lambda it: it.create_pod("x", "a", 1, holds=["n"]), ValueError, "holds: only a pod"),
        (lambda it: it.assume_pod("x", 1), KeyError, "no pod 'x'"),
        (lambda it: it.assume_pod(3, 1), TypeError, "pod must be a string"),
        (lambda it: it.assume_pod("a2", 1, "n1"), TypeError, "holds must be a sequence"),
        (lambda it: it.assume_pod("a2", 1, [3]), TypeError, "holds must be a string"),
        (lambda it: it.assume_pod("a2", 0), ValueError, "now=0"),
        (lambda it: it.fail_pod("a2", 1, [3]), TypeError, "lacks must be a string"),
        (lambda it: it.fail_pod("a2", 1, [], 3), TypeError, "reason"),
        (lambda it: it.fail_pod("x", 1), KeyError, "no pod 'x'"),
        (lambda it: it.bind_pod("x", 1), KeyError, "no pod 'x'"),
        (lambda it: it.bind_pod("a0", 1), GangError, "pod 'a0' is waiting: it cannot be bound"),
        (lambda it: it.bind_pod("a0", 1, by_others=3), TypeError, "by_others"),
        (lambda it: it.fail_binding("x", 1), KeyError, "no pod 'x'"),
        (lambda it: it.time_out_pod("a1", 1), GangError, "is held-up"),
        (lambda it: it.report_pod("a0", "gone", 1), ValueError, "state must be one of running"),
        (lambda it: it.delete_pod("x", 1), KeyError, "no pod 'x'"),
        (lambda it: it.define_gang("a", 1), TypeError, "spec must be a GangSpec, not str"),
        (lambda it: it.define_gang(GangSpec("b", 1), 0), ValueError, "now=0"),
        (lambda it: it.remove_gang("b", 1), KeyError, "gang 'b' is not defined"),
        (lambda it: it.free("n1", 1), TypeError, "what must be a sequence"),
        (lambda it: it.retry("b", 1), KeyError, "no gang 'b'"),
        (lambda it: it.advance(None), TypeError, "now"),
        (lambda it: it.pod("x"), KeyError, "no pod 'x'"),
        (lambda it: it.gang("x"), KeyError, "no gang 'x'"),
        (lambda it: it.spec("x"), KeyError, "no gang 'x'"),
        (lambda it: it.pods("x"), KeyError, "no gang 'x'"),
        (lambda it: it.bind_info("x"), KeyError, "no pod 'x'"),
        (lambda it: it.waits_for("x"), KeyError, "no gang 'x'"),
    ],
)
def test_a_wrong_event_is_refused_and_changes_nothing(call, kind, says):
    gangs = waiting_gang()
    before = gangs.to_bytes()
    with pytest.raises(kind, match=says):
        call(gangs)
    assert gangs.to_bytes() == before
    gangs.check()


@pytest.mark.parametrize(
    ("arguments", "counts", "says"),
    [
        (("Gone", 1), {"pods": 1}, "before must be one of"),
        (("", -1), {"pods": 1}, "min_members"),
        (("", 1), {"pods": -1}, "pods"),
        (("", 1), {"pods": 1, "failed": -1}, "failed"),
    ],
)
def test_wrong_counts_of_a_phase_are_refused(arguments, counts, says):
    with pytest.raises(ValueError, match=says):
        gang_phase(*arguments, **counts)


def test_the_phases_of_a_gang_of_no_least_number_are_those_of_one_pod():
    counts = [{}, {}, {"bound": 1}, {"bound": 1, "running": 1}, {"bound": 1, "succeeded": 1}]
    for least in (0, 1):
        phases = [""]
        for count in counts:
            phases.append(gang_phase(phases[-1], least, pods=1, **count))
        assert phases[2:] == ["PreScheduling", "Scheduled", "Running", "Finished"]


# --- states


def test_what_is_known_of_pods_and_gangs():
    gangs = waiting_gang()
    pod = gangs.pod("a0")
    assert (pod.gang, pod.role, pod.state, pod.until, pod.holds) == (
        "a",
        "ps",
        "waiting",
        601,
        ("n1",),
    )
    assert pod.reason == "gang 'a' has places for 1 of 3 pods"
    assert gangs.pod("a1").lacks == ("n2",)
    status = gangs.gang("a")
    assert (status.pods, status.waiting, status.bound, status.satisfied) == (3, 1, 0, False)
    assert gangs.gangs == ("a",) and gangs.pods("a") == ("a0", "a1", "a2")
    assert len(gangs) == 3 and "a0" in gangs and "x" not in gangs
    assert gangs.deadline == 601


@given(st.data())
@examples(400)
def test_an_arbitrary_payload_is_corrupt_or_a_valid_state(data):
    state = json.loads(unseal(b"HVGA", 1, waiting_gang().to_bytes()))
    junk = st.one_of(
        st.none(), st.booleans(), st.integers(-2, 9), st.just(2**70), st.just("a"), st.just([]),
        st.just({}), st.just([[1]]),
    )  # fmt: skip
    where, key = state, data.draw(st.sampled_from(sorted(state)))
    while isinstance(where[key], (list, dict)) and where[key] and data.draw(st.booleans()):
        where = where[key]
        keys = sorted(where) if isinstance(where, dict) else range(len(where))
        key = data.draw(st.sampled_from(keys))
    where[key] = data.draw(junk)
    try:
        result = Coscheduler.from_bytes(seal(b"HVGA", 1, json.dumps(state).encode()))
    except CorruptStateError:
        return
    result.check()


# --- pods that start alone


def tried(actions):
    return [pod for action in actions if action.kind == "try" for pod in action.pods]


@pytest.mark.parametrize("field", [5, 6])
def test_a_saved_pod_that_holds_or_lacks_something_twice_is_corrupt(field):
    gangs = waiting_gang()
    state = json.loads(unseal(*Coscheduler._SAVED_AS, gangs.to_bytes()))
    state["pods"][0 if field == 5 else 1][field] *= 2
    with pytest.raises(CorruptStateError, match="holds or lacks something twice"):
        Coscheduler.from_bytes(seal(*Coscheduler._SAVED_AS, json.dumps(state).encode()))


def test_the_audit_notices_a_forgotten_pod():
    gangs = Coscheduler()
    gangs.create_pod("a0", GangSpec("a", 2), 0, bound=True)
    gangs.create_pod("a1", "a", 0)
    gangs.fail_pod("a1", 0)
    gangs.check()
    rounds = gangs._rounds
    rounds.call_off(rounds.pods["a1"])
    with pytest.raises(InvariantError, match="pod 'a1', held-up: may start alone and is forgotten"):
        gangs.check()


def test_a_saved_state_with_a_forgotten_pod_is_read_and_the_pod_is_tried():
    gangs = Coscheduler()
    gangs.create_pod("a0", GangSpec("a", 9), 0, bound=True)
    gangs.create_pod("a1", "a", 0)
    gangs.fail_pod("a1", 3)
    state = json.loads(unseal(b"HVGA", 1, gangs.to_bytes()))
    pods = [[-1 if field == 4 else field for field in pod] for pod in state["pods"]]
    assert pods != state["pods"]
    state["pods"] = pods
    again = Coscheduler.from_bytes(seal(b"HVGA", 1, json.dumps(state).encode()))
    again.check()
    assert tried(again.advance(3)) == ["a1"]


# --- the audit


def test_an_audit_that_finds_a_fault_leaves_it_there():
    gangs = waiting_gang()
    gang = gangs._rounds.gangs["a"]
    gang.valid = not gang.valid
    for _ in range(2):
        with pytest.raises(InvariantError, match="gang 'a': valid, collected"):
            gangs.check()
    gang.valid, gang.collected = not gang.valid, not gang.collected
    for _ in range(2):
        with pytest.raises(InvariantError, match="gang 'a': valid, collected"):
            gangs.check()


# --- sizes


def test_ten_thousand_gangs_that_all_wait_time_out_at_once():
    gangs = Coscheduler()
    number = 10_000
    for i in range(number):
        spec = GangSpec(f"g{i}", 2)
        gangs.create_pod(f"{i}a", spec, 0)
        gangs.create_pod(f"{i}b", spec, 0)
        gangs.assume_pod(f"{i}a", 0)
    assert gangs.deadline == 600
    rejected = [action for action in gangs.advance(600) if action.kind == "reject"]
    assert len(rejected) == number
    assert all(action.kind != "reject" for action in gangs.advance(600))
    for i in range(number):
        gangs.delete_pod(f"{i}a", 601)
        gangs.delete_pod(f"{i}b", 601)
    assert gangs.gangs == () and gangs.deadline is None
    gangs.check()


def test_a_failed_pod_of_a_large_gang_does_not_cost_a_look_at_all_that_the_gang_holds(monkeypatch):
    looks = []
    sort = WaitGraph.sort
    monkeypatch.setattr(WaitGraph, "sort", lambda *given: (looks.append(given), sort(*given)))
    gangs = Coscheduler()
    spec = GangSpec("g", 1000, mode="non-strict")
    for i in range(1000):
        gangs.create_pod(f"p{i}", spec, 0)
    for i in range(1000):
        if i % 2:
            gangs.fail_pod(f"p{i}", 0, ["n"])
        else:
            gangs.assume_pod(f"p{i}", 0, [f"n{i}"])
    assert len(looks) < 5
    gangs.check()


def test_a_group_of_a_thousand_gangs_starts_with_its_last_pod():
    names = [f"g{i:03}" for i in range(1000)]
    gangs = Coscheduler()
    for name in names:
        gangs.create_pod(name, GangSpec(name, 1, groups=names), 0)
    said = [gangs.assume_pod(name, 1)[-1] for name in names]
    assert {action.kind for action in said[:-1]} == {"try"}
    assert (said[-1].kind, said[-1].pods) == ("release", tuple(names))
    assert gangs.bind_info("g000").members == 1000
    gangs.check()


def test_a_chain_of_a_thousand_gangs_starts_with_its_end():
    gangs = Coscheduler()
    for i in range(1000):
        gangs.create_pod(f"p{i}", GangSpec(f"g{i}", 1, groups=[f"g{min(i + 1, 999)}"]), 0)
    for i in range(999):
        [hold] = gangs.assume_pod(f"p{i}", 1, [f"n{i}"])
        assert hold.kind == "hold"
    said = gangs.assume_pod("p999", 1)
    assert sorted(pod for action in said for pod in action.pods) == sorted(
        f"p{i}" for i in range(1000)
    )
    gangs.check()


def test_a_ring_of_a_thousand_groups_is_broken_once():
    gangs = Coscheduler()
    number = 1000
    for i in range(number):
        for half in "ab":
            gangs.create_pod(f"{i}{half}", GangSpec(f"g{i}", 2, mode="non-strict"), 0)
        gangs.assume_pod(f"{i}a", 0, [f"n{i}"])
    said = []
    for i in range(number):
        said += gangs.fail_pod(f"{i}b", 1, [f"n{(i + 1) % number}"])
    assert [(action.kind, action.pods) for action in said] == [
        ("reject", ("999a",)),
        ("try", ("998b",)),
    ]
    gangs.check()


def test_waits_that_are_called_off_leave_nothing_behind():
    gangs = Coscheduler()
    gangs.create_pod("a", GangSpec("g", 2, wait_time=2**60), 0)
    gangs.create_pod("b", "g", 0)
    for now in range(0, 40_000, 20):
        gangs.assume_pod("a", now)
        gangs.fail_pod("b", now)
        gangs.advance(now + 10)
    assert len(gangs._rounds.timers._heap) < 200
