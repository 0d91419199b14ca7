"""Trials on trees of quotas: each change is undone, and later ones are as if it had never been."""

import inspect

import pytest
from quotas.lives import same

from hivecore._quotas import QuotaKernel
from hivecore.errors import StaleDecisionError
from hivecore.quotas import Quota, QuotaRequest, QuotaTree


def tree_with_owners(**settings):
    """A full tree: of quota "b" an owner runs, another waits and a third was evicted."""
    most = {"cpu": 40, "gpu": 10}
    tree = QuotaTree(
        [
            Quota("a", max=most, min={"gpu": 9}),
            Quota("b", max=most, min={"gpu": 6}),
            Quota("b1", parent="b", max=most, min={"gpu": 2}),
            Quota("b2", parent="b", max=most, min={"gpu": 5}),
        ],
        total=most,
        **settings,
    )
    tree.submit(QuotaRequest("pending", "b1", {"gpu": 2}, count=2, min_count=1))
    tree.recover(QuotaRequest("runs", "b1", {"gpu": 2}, count=3), 2)
    tree.recover(QuotaRequest("twin", "b1", {"gpu": 2}, count=3), 0)
    tree.recover(QuotaRequest("fixed", "a", {"cpu": 4, "gpu": 4}, preemptible=False), 1)
    tree.recover(QuotaRequest("evicted", "b2", {"gpu": 1}), 1)
    tree.evict("evicted")
    return tree


NEW = QuotaRequest("new", "b2", {"gpu": 1})
CHANGES = {
    "admit": lambda tree: tree.admit("pending"),
    "commit": lambda tree: tree.commit(tree.schedule(NEW)),
    "commit_many": lambda tree: tree.commit_many([tree.schedule(NEW)]),
    "evict": lambda tree: (tree.evict("runs"), tree.evict("evicted", reclaimed=False)),
    "exchange": lambda tree: tree.exchange("runs", "twin"),
    "grow": lambda tree: tree.grow("runs"),
    "move": lambda tree: tree.move("b1", ""),
    "recover": lambda tree: tree.recover(NEW, 1),
    "release": lambda tree: tree.release("runs"),
    "remove": lambda tree: (tree.release("evicted"), tree.remove("b2")),
    "set_quota": lambda tree: tree.set_quota(Quota("c", parent="a", max={"gpu": 3})),
    "set_total": lambda tree: tree.set_total({"gpu": 7}, tree="other", carved=True),
    "set_weights": lambda tree: tree.set_weights({"a": {"gpu": 1}, "b": {"gpu": 5}}),
    "take_back": lambda tree: tree.admit("pending").outcome == "bind" and tree.take_back("pending"),
    "submit": lambda tree: tree.submit(NEW.replace(amounts={"gpu": 1, "nic": 1})),
    "submit_many": lambda tree: tree.submit_many([NEW, NEW.replace(name="newer")]),
}
READS = {
    *("check", "check_ancestors", "copy", "explain", "fits", "from_bytes"),
    *(
        "declared_total",
        "have_room",
        "limit",
        "limit_changes",
        "may_borrow",
        "members",
        "room_version",
        "overuse",
        "overused",
        "overusers",
        "owners",
        "preempt_within",
    ),
    *("quota", "quotas", "request", "runtime", "runtime_trace", "runtimes", "schedule"),
    *("schedule_many", "status", "to_bytes", "total", "tree_of", "trial", "used_below"),
}
SETTINGS = [{}, {"parity": True}, {"guarantee": True}, {"limit": "max", "check_ancestors": False}]


def test_each_public_method_is_a_read_or_is_undone_below():
    methods = {name for name, _ in inspect.getmembers(QuotaTree) if not name.startswith("_")}
    assert methods == READS | set(CHANGES)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_undone_before_and_after_a_change_of_each_other_kind(change, settings):
    for other, change_before in CHANGES.items():
        tree = tree_with_owners(**settings)
        before = tree.copy()
        with tree.trial():
            if other != change:
                change_before(tree)
            middle = tree.copy()
            try:
                with tree.trial():
                    CHANGES[change](tree)
                    tree.runtimes(["cpu", "gpu"])
                    tree.check()
                    raise ZeroDivisionError
            except ZeroDivisionError:
                tree.check()
            except (KeyError, ValueError, StaleDecisionError):
                assert other != change  # which has taken what this change needs
            same(tree, middle)
        tree.check()
        same(tree, before)


def test_reads_of_a_trial_are_undone_where_they_change_what_the_next_read_returns():
    tree = tree_with_owners(parity=True)
    tree.runtimes(["gpu"])
    before = tree.to_bytes()
    with tree.trial():
        tree.set_total({"gpu": 6})
        with tree.trial():
            tree.runtimes(["gpu"])
            assert tree.to_bytes() != before
        tree.runtime("b2")
    assert tree.to_bytes() == before


def test_a_decision_with_a_fraction_is_stale_where_it_can_no_longer_be_counted():
    decided = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    decision = decided.schedule(QuotaRequest("half", "a", {"gpu": 0.5}))
    tree = QuotaTree([Quota("a", max={"gpu": 2**62})], total={"gpu": 2**62})
    before = tree.to_bytes()
    for commit in (tree.commit, lambda each: tree.commit_many([each])):
        with pytest.raises(StaleDecisionError, match="half"):
            commit(decision)
        assert tree.to_bytes() == before


def test_a_decision_of_a_trial_is_stale_where_only_the_trial_had_room():
    tree = tree_with_owners()
    with tree.trial():
        tree.release("fixed")
        decision = tree.schedule(QuotaRequest("large", "a", {"gpu": 6}))
        assert decision.outcome == "bind"
    before = tree.to_bytes()
    with pytest.raises(StaleDecisionError):
        tree.commit(decision)
    assert tree.to_bytes() == before


def test_decisions_that_cannot_all_be_carried_out_leave_a_trial_as_it_was():
    tree = tree_with_owners()
    before = tree.to_bytes()
    with tree.trial():
        tree.release("runs")
        inside = tree.to_bytes()
        decisions = [tree.schedule(NEW), tree.schedule(NEW.replace(amounts={"gpu": 1, "nic": 2}))]
        with pytest.raises(StaleDecisionError):
            tree.commit_many(decisions)
        assert tree.to_bytes() == inside
        tree.commit_many(decisions[:1])
        assert tree.members("new") == 1
    assert tree.to_bytes() == before


def test_owners_beyond_what_the_tree_ever_had_are_undone():
    tree = tree_with_owners()
    before, many = tree.copy(), [NEW.replace(name=f"o{number}") for number in range(200)]
    for _ in range(2):
        with tree.trial():
            tree.submit_many(many)
            for request in many[::2]:
                tree.release(request.name)
            tree.check()
        same(tree, before)
    for item in (tree, before):
        item.submit_many(many)
    same(tree, before)


def test_the_kernel_gives_the_same_numbers_after_a_mark_as_without_it():
    kernel = QuotaKernel(True, True, True, False, False)
    kernel.add_dimension()
    kernel.add_root()
    quota = kernel.add_quota(-1, 0, [8], [4], [1], True, True, False)
    kernel.release(kernel.submit(quota, [1], 1, 1, 0, True))
    kernel.mark()
    assert [kernel.submit(quota, [1], 1, 1, 0, True) for _ in range(3)] == [0, 1, 2]
    kernel.rewind()
    kernel.check()
    assert [kernel.submit(quota, [1], 1, 1, 0, True) for _ in range(3)] == [0, 1, 2]


def test_the_kernel_refuses_what_it_could_not_undo_and_marks_that_are_not_set():
    kernel = QuotaKernel(True, True, True, False, False)
    kernel.add_dimension()
    kernel.add_root()
    limits = [8], [4], [1], True, True
    quota = kernel.add_quota(-1, 0, *limits, False)
    kernel.mark()
    for change, arguments in (
        (kernel.add_dimension, ()),
        (kernel.add_root, ()),
        (kernel.set_total, (0, [8], False)),
        (kernel.add_quota, (-1, 0, *limits, False)),
        (kernel.set_limits, (quota, *limits)),
        (kernel.move, (quota, -1, 0)),
        (kernel.remove, (quota,)),
    ):
        with pytest.raises(RuntimeError, match="a mark is set"):
            change(*arguments)
    kernel.copy().add_root()
    kernel.keep()
    kernel.add_root()
    for end in (kernel.rewind, kernel.keep):
        with pytest.raises(RuntimeError, match="no mark is set"):
            end()


FAILS = {
    "submit_many": lambda tree, owner: tree.submit_many(
        [owner, owner.replace(name="next", quota="x")]
    ),
    "submit": lambda tree, owner: tree.submit(
        owner.replace(quota="a", amounts={"gpu": 0.5, "mem": 2**62})
    ),
    "recover": lambda tree, owner: tree.recover(
        owner.replace(quota="a", amounts={"gpu": 0.5, "mem": 2**62}), 1
    ),
    "commit": lambda tree, owner: tree.commit(FRACTION_OF_ANOTHER_TREE),
    "set_quota": lambda tree, owner: tree.set_quota(
        Quota("b1", parent="b", max={"gpu": 7.5, "x": 1})
    ),
    "set_total": lambda tree, owner: tree.set_total({"gpu": 0.5, "mem": 0.5}),
    "set_weights": lambda tree, owner: tree.set_weights({"a": {"gpu": 0.5}, "b1": {"x": 1}}),
    "schedule": lambda tree, owner: tree.schedule([owner, owner.replace(name="next", quota="x")]),
}


def decision_of_another_tree():
    tree = QuotaTree([Quota("b", max={"gpu": 100})], total={"gpu": 100})
    return tree.schedule(QuotaRequest("new", "b", {"gpu": 20.5}))


FRACTION_OF_ANOTHER_TREE = decision_of_another_tree()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("change", FAILS)
def test_a_refused_fraction_leaves_a_dimension_counted_in_whole_units(change, settings):
    tree = tree_with_owners(**settings)
    tree.submit(QuotaRequest("large", "a", {"mem": 2**51}, count=1024))
    before = tree.copy()
    with pytest.raises((KeyError, ValueError, StaleDecisionError)):
        FAILS[change](tree, NEW.replace(amounts={"gpu": 0.5, "mem": 0.5}))
    same(tree, before)
    tree.check()
