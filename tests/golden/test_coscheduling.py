"""Koordinator's rules for gangs, case by case, worked out by hand from its description."""

import pytest

from hivecore.errors import GangError
from hivecore.gangs import BindInfo, Coscheduler, GangSpec, gang_phase


def plain(actions):
    """What is to be done, in short."""
    return [(action.kind, *action.pods) for action in actions]


def with_pods(*specs, **options):
    """A coscheduler with as many pods of each gang as its minimum: "a0", "a1", ..."""
    gangs = Coscheduler(**options)
    said = []
    for spec in specs:
        said += gangs.define_gang(spec, 0)
    for spec in specs:
        for i in range(spec.min_members):
            said += gangs.create_pod(f"{spec.name}{i}", spec.name, 0)
    return gangs, plain(said)


def bind_both(gangs):
    for pod in ("a0", "a1"):
        gangs.assume_pod(pod, 1)
    for pod in ("a0", "a1"):
        gangs.bind_pod(pod, 2)


# --- definition


def test_the_first_definition_by_a_pod_holds_and_an_object_takes_its_place():
    gangs = Coscheduler()
    gangs.create_pod("p", GangSpec("a", 3), 0)
    gangs.create_pod("q", GangSpec("a", 9, mode="non-strict"), 0)
    assert gangs.spec("a") == GangSpec("a", 3)
    gangs.define_gang(GangSpec("a", 2), 1)
    assert gangs.spec("a").min_members == 2
    gangs.create_pod("r", GangSpec("a", 9), 1)
    assert gangs.spec("a").min_members == 2


def test_a_gang_known_by_a_label_alone_is_not_defined_and_takes_no_places():
    gangs = Coscheduler()
    assert plain(gangs.create_pod("p", "a", 0)) == [("hold", "p")]
    assert not gangs.gang("a").defined
    assert gangs.pod("p").reason == "gang 'a' is not defined"
    assert plain(gangs.assume_pod("p", 1, ["n"])) == [("reject", "p")]  # its wait time is 0
    assert plain(gangs.define_gang(GangSpec("a", 1), 2)) == [("try", "p")]


def test_a_gang_of_pods_ends_with_its_last_pod_and_that_of_an_object_with_the_object():
    gangs = Coscheduler()
    gangs.create_pod("p", GangSpec("a", 1), 0)
    gangs.define_gang(GangSpec("b", 1), 0)
    gangs.create_pod("q", "b", 0)
    gangs.delete_pod("p", 1)
    gangs.delete_pod("q", 1)
    assert gangs.gangs == ("b",)
    gangs.remove_gang("b", 2)
    assert gangs.gangs == ()


def test_a_removed_object_leaves_its_pods_without_places():
    gangs, _ = with_pods(GangSpec("a", 2))
    gangs.assume_pod("a0", 1)
    assert plain(gangs.remove_gang("a", 2))[0] == ("reject", "a0")
    assert not gangs.gang("a").defined and gangs.pods("a") == ("a0", "a1")
    with pytest.raises(KeyError, match="not defined"):
        gangs.remove_gang("a", 2)


# --- the gate, and one representative


def test_pods_are_held_until_each_gang_of_the_group_has_enough_and_one_is_tried_for_all():
    a, b = (GangSpec(name, 2, groups=["a", "b"]) for name in "ab")
    gangs = Coscheduler()
    assert plain(gangs.create_pod("a0", a, 0)) == [("hold", "a0")]
    [hold] = gangs.create_pod("a1", "a", 0)
    assert hold.reason == "gang 'b' is not defined"
    [hold] = gangs.create_pod("b0", b, 0)
    assert hold.reason == "gang 'b' has 1 of 2 pods"
    assert plain(gangs.create_pod("b1", "b", 0)) == [("try", "a0"), ("hold", "b1")]
    assert gangs.pod("b1").reason == "pod 'a0' is tried first for group 'a,b'"


def test_once_the_representative_has_a_place_the_others_follow_one_by_one():
    gangs, said = with_pods(GangSpec("a", 3))
    assert said == [("hold", "a0"), ("hold", "a1"), ("try", "a0"), ("hold", "a2")]
    assert plain(gangs.assume_pod("a0", 1)) == [("hold", "a0"), ("try", "a1")]
    assert plain(gangs.assume_pod("a1", 1)) == [("hold", "a1"), ("try", "a2")]
    assert plain(gangs.assume_pod("a2", 1)) == [("release", "a0", "a1", "a2")]


def test_the_representative_that_is_deleted_is_followed_by_another_one():
    gangs, _ = with_pods(GangSpec("a", 2))
    gangs.create_pod("a2", "a", 0)
    assert plain(gangs.delete_pod("a0", 1)) == [("try", "a1")]
    assert plain(gangs.delete_pod("a1", 2)) == []
    assert gangs.pod("a2").reason == "gang 'a' has 1 of 2 pods"


def test_a_gang_that_ends_while_its_last_pod_is_next_to_be_tried():
    a, b = (GangSpec(name, 1, groups=["a", "b"]) for name in "ab")
    gangs = Coscheduler()
    gangs.create_pod("a0", a, 0)
    assert plain(gangs.create_pod("b0", b, 0)) == [("try", "a0"), ("hold", "b0")]
    gangs.delete_pod("b0", 1)  # and gang b with it
    assert plain(gangs.assume_pod("a0", 1)) == [("reject", "a0")]
    gangs.check()


def test_a_pod_that_is_deleted_before_its_turn_is_not_saved():
    gangs, _ = with_pods(GangSpec("a", 1))
    for name in ("a1", "a2"):
        gangs.create_pod(name, "a", 0)
    gangs.delete_pod("a1", 1)
    assert Coscheduler.from_bytes(gangs.to_bytes()).pods("a") == ("a0", "a2")


def test_a_gang_that_leaves_its_group_and_returns_is_tried_once():
    a, b = (GangSpec(name, 1, groups=["a", "b"]) for name in "ab")
    gangs, _ = with_pods(a, b)
    gangs.define_gang(GangSpec("b", 1), 1)
    gangs.define_gang(b, 1)
    gangs.assume_pod("a0", 2)
    gangs.check()
    branch = Coscheduler.from_bytes(gangs.to_bytes())
    assert branch.pod("b0") == gangs.pod("b0")


# --- permit: three match policies; 3 pods, minimum 2


def permit(policy):
    """Released: the pods that are let go as each of the pods takes a place or is bound."""
    gangs = Coscheduler()
    spec = GangSpec("a", 2, 3, match_policy=policy)
    gangs.define_gang(spec, 0)
    for i in range(3):
        gangs.create_pod(f"a{i}", "a", 0)
    return gangs


@pytest.mark.parametrize("policy", ["once-satisfied", "only-waiting", "waiting-and-running"])
def test_two_of_two_start_under_every_policy(policy):
    gangs = permit(policy)
    gangs.assume_pod("a0", 1)
    assert plain(gangs.assume_pod("a1", 1)) == [("release", "a0", "a1"), ("try", "a2")]


@pytest.mark.parametrize(
    ("policy", "then"),
    [
        ("once-satisfied", [("release", "a2")]),  # a0 and a1 are bound
        ("waiting-and-running", [("release", "a2")]),  # 1 waits, 2 are bound
        ("only-waiting", [("reject", "a2")]),  # 1 of 2 waits, and no pod is left to try
    ],
)
def test_the_third_after_two_are_bound(policy, then):
    gangs = permit(policy)
    bind_both(gangs)
    actions = gangs.assume_pod("a2", 3) if gangs.pod("a2").state == "trying" else ()
    assert [item for item in plain(actions) if item[0] in ("release", "reject")][:1] == then


def test_while_one_bound_pod_is_replaced():
    # minimum 2; two bound, one is deleted and created again
    for policy, starts in (
        ("once-satisfied", True),
        ("waiting-and-running", True),
        ("only-waiting", False),
    ):
        gangs, _ = with_pods(GangSpec("a", 2, match_policy=policy))
        bind_both(gangs)
        gangs.delete_pod("a0", 3)
        said = plain(gangs.create_pod("new", "a", 3))
        if starts:
            assert said == [("try", "new")]
            assert plain(gangs.assume_pod("new", 4)) == [("release", "new")]
        else:
            assert said == [("hold", "new")]
            assert gangs.pod("new").reason == "gang 'a' has 1 of 2 pods"


# --- groups


def test_gangs_that_name_each_other_start_together():
    gangs, _ = with_pods(*(GangSpec(name, 1, groups=["a", "b"]) for name in "ab"))
    assert plain(gangs.assume_pod("a0", 1)) == [("hold", "a0"), ("try", "b0")]
    assert plain(gangs.assume_pod("b0", 1)) == [("release", "a0", "b0")]


def test_a_group_has_a_direction():
    gangs, said = with_pods(GangSpec("a", 1), GangSpec("b", 1, groups=["a", "b"]))
    assert said == [("try", "a0"), ("try", "b0")]
    assert plain(gangs.assume_pod("b0", 1)) == [("hold", "b0")]
    assert gangs.pod("b0").reason == "gang 'a' has places for 0 of 1 pod"
    assert plain(gangs.assume_pod("a0", 1)) == [("release", "a0"), ("release", "b0")]
    # the other way round, a does not wait
    gangs, _ = with_pods(GangSpec("a", 1), GangSpec("b", 1, groups=["a", "b"]))
    assert plain(gangs.assume_pod("a0", 1)) == [("release", "a0")]
    assert plain(gangs.assume_pod("b0", 1)) == [("release", "b0")]


def test_a_gang_starts_only_if_those_that_its_gangs_start_with_do():
    # c needs b, b needs a; in the original c would take b along without a
    gangs, _ = with_pods(
        GangSpec("a", 1), GangSpec("b", 1, groups=["a"]), GangSpec("c", 1, groups=["b"])
    )
    assert plain(gangs.assume_pod("c0", 1)) == [("hold", "c0")]
    assert plain(gangs.assume_pod("b0", 1)) == [("hold", "b0")]
    assert plain(gangs.assume_pod("a0", 1)) == [("release", name) for name in ("a0", "b0", "c0")]


def test_each_role_has_a_minimum():
    spec = GangSpec("a", 3, roles={"leader": 1, "worker": 2})
    gangs = Coscheduler()
    gangs.create_pod("w0", spec, 0, role="worker")
    gangs.create_pod("w1", "a", 0, role="worker")
    [hold] = gangs.create_pod("w2", "a", 0, role="worker")
    assert hold.reason == "gang 'a' has too few pods of a role"
    assert plain(gangs.create_pod("l", "a", 0, role="leader"))[0] == ("try", "w0")
    for pod in ("w0", "w1"):
        gangs.assume_pod(pod, 1)
    actions = gangs.assume_pod("w2", 1)
    assert actions[0].reason == "gang 'a' has places for too few pods of a role"
    assert plain(gangs.assume_pod("l", 1)) == [("release", "w0", "w1", "w2", "l")]


# --- failure, timeout, bind


def test_a_strict_gang_gives_everything_back_when_one_fails():
    gangs, _ = with_pods(*(GangSpec(name, 2, groups=["a", "b"]) for name in "ab"))
    for pod in ("a0", "a1", "b0"):
        gangs.assume_pod(pod, 1)
    [reject] = gangs.fail_pod("b1", 2, reason="0 of 4 nodes fit")
    assert reject.kind == "reject" and reject.pods == ("a0", "a1", "b0")
    assert reject.reason == "pod 'b1' found no place: 0 of 4 nodes fit"
    assert gangs.deadline == 3  # after the backoff they are tried again
    assert plain(gangs.advance(3)) == [("try", "a0")]


def test_a_non_strict_gang_keeps_its_places_when_one_fails():
    gangs, _ = with_pods(GangSpec("a", 3, mode="non-strict"))
    gangs.assume_pod("a0", 1)
    assert plain(gangs.fail_pod("a1", 2)) == [("try", "a2")]
    assert plain(gangs.assume_pod("a2", 2)) == [("hold", "a2")]
    assert plain(gangs.advance(3)) == [("try", "a1")]
    assert plain(gangs.assume_pod("a1", 3)) == [("release", "a0", "a1", "a2")]


def test_with_more_pods_than_needed_a_non_strict_gang_starts_without_those_that_fail():
    gangs = Coscheduler()
    gangs.define_gang(GangSpec("a", 2, mode="non-strict"), 0)
    for i in range(3):
        gangs.create_pod(f"a{i}", "a", 0)
    gangs.assume_pod("a0", 1)
    gangs.fail_pod("a1", 1)
    assert plain(gangs.assume_pod("a2", 1)) == [("release", "a0", "a2")]


def test_after_a_failure_a_pod_that_is_tried_fails_at_once_with_its_group():
    gangs, _ = with_pods(GangSpec("a", 2, wait_time=10))
    gangs.assume_pod("a0", 0)  # a1 is being tried now
    assert plain(gangs.advance(10)) == [("reject", "a0")]
    [reject] = gangs.assume_pod("a1", 10)
    assert (reject.kind, reject.reason) == ("reject", "pod 'a0' has waited for 10")


@pytest.mark.parametrize(("mode", "rejected"), [("strict", ("a0", "a1")), ("non-strict", ("a0",))])
def test_a_timeout_rejects_a_strict_group_and_one_pod_of_another(mode, rejected):
    gangs, _ = with_pods(GangSpec("a", 3, mode=mode, wait_time=600))
    [hold, _] = gangs.assume_pod("a0", 5)
    assert hold.until == 605
    gangs.assume_pod("a1", 6)
    assert gangs.advance(604) == ()
    actions = gangs.advance(605)
    assert ("reject", *rejected) in plain(actions)
    assert gangs.pod("a0").state == "pending"


def test_the_scheduler_s_own_timeout_does_the_same():
    gangs, _ = with_pods(GangSpec("a", 3))
    gangs.assume_pod("a0", 5)
    gangs.assume_pod("a1", 6)
    assert plain(gangs.time_out_pod("a1", 7)) == [("reject", "a0", "a1")]


def test_a_bind_that_fails_rejects_those_that_still_wait():
    gangs, _ = with_pods(GangSpec("a", 2), GangSpec("b", 1, groups=["a", "b"]))
    gangs.assume_pod("a0", 1)
    gangs.assume_pod("a1", 1)
    assert gangs.fail_binding("a0", 2, "node is gone") == ()  # no pod waits
    assert gangs.pod("a0").state == "pending"
    assert gangs.gang("a").waiting == 1


# --- once satisfied


def test_once_satisfied_pods_start_and_fail_alone():
    gangs, _ = with_pods(GangSpec("a", 2))
    for pod in ("a0", "a1"):
        gangs.assume_pod(pod, 1)
    gangs.bind_pod("a0", 2)
    assert gangs.gang("a").once_satisfied
    assert plain(gangs.create_pod("more", "a", 3)) == [("try", "more")]
    assert plain(gangs.create_pod("most", "a", 3)) == [("try", "most")]
    assert gangs.fail_pod("more", 4) == ()
    assert plain(gangs.assume_pod("most", 4)) == [("release", "most")]
    assert plain(gangs.advance(5)) == [("try", "more")]


def test_a_pod_that_appears_bound_satisfies_its_group():
    gangs = Coscheduler()
    assert gangs.create_pod("p", GangSpec("a", 3), 0, bound=True) == ()
    assert gangs.gang("a").once_satisfied
    assert plain(gangs.create_pod("q", "a", 1)) == [("try", "q")]


@pytest.mark.parametrize("end", ["delete", "succeeded", "failed"])
def test_a_restarted_gang_has_to_be_complete_again(end):
    gangs, _ = with_pods(GangSpec("a", 2))
    bind_both(gangs)
    for pod in ("a0", "a1"):
        if end == "delete":
            gangs.delete_pod(pod, 3)
        else:
            gangs.report_pod(pod, end, 3)
    assert not gangs.gang("a").once_satisfied
    assert plain(gangs.create_pod("b0", "a", 4)) == [("hold", "b0")]
    assert plain(gangs.create_pod("b1", "a", 4)) == [("try", "b0"), ("hold", "b1")]


# --- what is written


def test_bind_info_is_that_of_the_first_release():
    gangs = permit("waiting-and-running")
    gangs.assume_pod("a0", 1)
    assert gangs.bind_info("a0") is None
    gangs.assume_pod("a1", 1)
    gangs.assume_pod("a2", 1)
    assert {gangs.bind_info(f"a{i}") for i in range(3)} == {BindInfo("a", 2)}
    gangs, _ = with_pods(*(GangSpec(name, 2, groups=["a", "b"]) for name in "ab"))
    for pod in ("a0", "a1", "b0", "b1"):
        gangs.assume_pod(pod, 1)
    assert gangs.bind_info("a0") == BindInfo("a,b", 4)


@pytest.mark.parametrize(
    ("before", "counts", "after"),
    [
        ("", {"pods": 0}, "Pending"),
        ("", {"pods": 1}, "Pending"),
        ("Pending", {"pods": 2}, "PreScheduling"),
        ("PreScheduling", {"pods": 2, "bound": 1}, "Scheduling"),
        ("Scheduling", {"pods": 2, "bound": 1, "running": 1}, "Scheduling"),
        ("Scheduling", {"pods": 2, "bound": 2}, "Scheduled"),
        ("Scheduled", {"pods": 2, "bound": 2, "running": 1, "succeeded": 1}, "Running"),
        ("Running", {"pods": 2, "bound": 2, "running": 1, "failed": 1}, "Failed"),
        ("Running", {"pods": 2, "bound": 2, "failed": 1}, "Running"),
        ("Running", {"pods": 2, "bound": 2, "succeeded": 2}, "Finished"),
        ("Running", {"pods": 0}, "Pending"),
        ("Failed", {"pods": 2, "bound": 2, "running": 2}, "Failed"),
        ("Finished", {"pods": 0}, "Finished"),
    ],
)
def test_phases(before, counts, after):
    assert gang_phase(before, 2, **counts) == after


def test_a_gang_has_the_phase_of_its_pods():
    gangs, _ = with_pods(GangSpec("a", 2))
    phases = [gangs.gang("a").phase]
    for pod in ("a0", "a1"):
        gangs.assume_pod(pod, 1)
    for pod in ("a0", "a1"):
        gangs.bind_pod(pod, 2)
        phases.append(gangs.gang("a").phase)
    for state in ("running", "succeeded"):
        for pod in ("a0", "a1"):
            gangs.report_pod(pod, state, 3)
        phases.append(gangs.gang("a").phase)
    assert phases == ["PreScheduling", "Scheduling", "Scheduled", "Running", "Finished"]


# --- deadlocks


def two_that_hold(mode="non-strict", **options):
    gangs, _ = with_pods(*(GangSpec(name, 2, mode=mode) for name in "ab"), **options)
    gangs.assume_pod("a0", 1, ["n1"])
    gangs.assume_pod("b0", 1, ["n2"])
    return gangs


def test_of_two_non_strict_gangs_that_hold_what_the_other_lacks_the_younger_lets_go():
    gangs = two_that_hold()
    assert gangs.fail_pod("a1", 2, ["n2"]) == ()
    assert gangs.waits_for("a") == ("b",)
    reject, again = gangs.fail_pod("b1", 2, ["n1"])
    assert (reject.kind, reject.pods) == ("reject", ("b0",))
    assert reject.reason.startswith("a deadlock with group 'a'")
    assert (again.kind, again.pods) == ("try", ("a1",))  # what it lacks is free now
    assert plain(gangs.assume_pod("a1", 3, ["n2"])) == [("release", "a0", "a1")]


def test_without_that_they_hold_on_until_they_have_waited_long_enough():
    gangs = two_that_hold(resolve_deadlocks=False)
    assert gangs.fail_pod("a1", 2, ["n2"]) == gangs.fail_pod("b1", 2, ["n1"]) == ()
    assert gangs.waits_for("a") == ("b",) and gangs.waits_for("b") == ("a",)
    assert {gangs.pod(name).state for name in ("a0", "b0")} == {"waiting"}


def test_strict_gangs_hold_nothing_while_they_are_held_up():
    gangs = two_that_hold("strict")
    assert plain(gangs.fail_pod("a1", 2, ["n2"])) == [("reject", "a0")]
    assert plain(gangs.assume_pod("b1", 2, ["n1"])) == [("release", "b0", "b1")]


def test_a_ring_of_deadlocks_costs_its_youngest_member_only():
    names = [f"g{i}" for i in range(5)]
    gangs, _ = with_pods(*(GangSpec(name, 2, mode="non-strict") for name in names))
    for name in names:
        gangs.assume_pod(f"{name}0", 1, [name])
    said = []
    for i, name in enumerate(names):
        said += gangs.fail_pod(f"{name}1", 2, [names[(i + 1) % 5]])
    assert plain(said) == [("reject", "g40"), ("try", "g31")]


def test_a_gang_that_waits_for_another_one_while_it_holds_what_that_one_lacks_lets_go():
    # b starts with a only; a lacks the node that b holds
    gangs, _ = with_pods(GangSpec("a", 1), GangSpec("b", 1, groups=["a", "b"]))
    gangs.assume_pod("b0", 1, ["n1"])
    actions = gangs.fail_pod("a0", 2, ["n1"])
    assert plain(actions) == [("reject", "b0")]
    assert "a group that it starts with" in actions[0].reason


def test_a_deadlock_may_begin_with_a_place():
    gangs, _ = with_pods(*(GangSpec(name, 2, mode="non-strict") for name in "ab"))
    gangs.assume_pod("a0", 1, ["n1"])
    assert gangs.fail_pod("a1", 1, ["n2"]) == ()
    assert plain(gangs.fail_pod("b0", 1, ["n1"])) == [("try", "b1")]
    assert plain(gangs.assume_pod("b1", 2, ["n2"])) == [("reject", "b1"), ("try", "a1")]


def test_a_gang_is_in_no_deadlock_with_itself():
    gangs, _ = with_pods(GangSpec("a", 2, mode="non-strict"))
    gangs.assume_pod("a0", 1, ["n1"])
    assert gangs.fail_pod("a1", 1, ["n1"]) == ()
    assert gangs.waits_for("a") == ()


def test_a_gang_that_goes_to_another_group_may_leave_a_deadlock_behind():
    gangs, _ = with_pods(
        GangSpec("a", 1, mode="non-strict", groups=["a", "b"]),
        GangSpec("b", 1, mode="non-strict", groups=["a", "b"]),
        GangSpec("c", 1, mode="non-strict", groups=["a", "c"]),
    )
    assert plain(gangs.fail_pod("a0", 1, ["n1"])) == [("try", "b0")]
    assert plain(gangs.assume_pod("b0", 1, ["n1"])) == [("hold", "b0")]
    # b waits for a, which lacks what b holds, and c0 of its new group is being tried
    changed = GangSpec("a", 1, mode="non-strict", groups=["a", "c"])
    assert plain(gangs.define_gang(changed, 1)) == [("reject", "b0")]
    gangs.check()


def test_a_gang_that_has_to_start_with_one_that_lacks_what_it_holds_lets_go():
    gangs, _ = with_pods(GangSpec("b", 3, mode="non-strict"), GangSpec("a", 2, mode="non-strict"))
    gangs.assume_pod("a0", 1, ["n1"])
    assert plain(gangs.fail_pod("b0", 1, ["n1"])) == [("try", "b1")]
    changed = GangSpec("a", 2, mode="non-strict", groups=["b"])
    assert plain(gangs.define_gang(changed, 2)) == [("reject", "a0")]
    gangs.check()


# --- events that cannot be


def test_events_of_pods_that_are_elsewhere_are_refused():
    gangs, _ = with_pods(GangSpec("a", 2))
    for call, says in (
        (lambda: gangs.bind_pod("a0", 1), "pod 'a0' is trying: it cannot be bound"),
        (lambda: gangs.fail_binding("a0", 1), "cannot fail to be bound"),
        (lambda: gangs.time_out_pod("a0", 1), "cannot time out"),
        (lambda: gangs.report_pod("a0", "running", 1), "cannot be running"),
    ):
        with pytest.raises(GangError, match=says):
            call()
    gangs.assume_pod("a0", 1)
    with pytest.raises(GangError, match="pod 'a0' is waiting: it cannot be given a place"):
        gangs.assume_pod("a0", 1)
    with pytest.raises(GangError, match="pod 'a0' is waiting: it cannot fail to be placed"):
        gangs.fail_pod("a0", 1)
