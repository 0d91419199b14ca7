"""What of decisions on quotas holds how long, and how much a tree holds."""

import pytest
from quotas.examples import request, tree_with_owners

from hivecore.errors import StaleDecisionError
from hivecore.quotas import Quota, QuotaTree

MOST = 2**62


def test_sums_stay_within_62_bits_wherever_they_come_together():
    half = 2**61
    quotas = [Quota("p", max={"x": MOST}), Quota("a", max={"x": MOST}, parent="p")]
    tree = QuotaTree([*quotas, Quota("b", max={"x": MOST}, parent="p")], total={"x": MOST})
    tree.submit_many([request("1", "a", {"x": half}), request("2", "b", {"x": half})])
    assert tree.runtime("p") == {"x": MOST}
    before = tree.to_bytes()
    for quota in ("a", "b"):
        with pytest.raises(ValueError, match="request: '3': a sum would be above"):
            tree.submit(request("3", quota))
    with pytest.raises(ValueError, match="request: '3': a sum would be above"):
        tree.recover(request("3", "a"), 1)
    tree.set_quota(Quota("c", max={"x": MOST}))
    tree.submit(request("3", "c"))
    with pytest.raises(ValueError, match="parent 'p': a sum would be above"):
        tree.move("c", "p")
    with pytest.raises(ValueError, match="quota 'd': a sum would be above"):
        tree.set_quota(Quota("d", max={"x": 1}, min={"x": 1}, lends=False, parent="p"))
    tree.check()
    tree.release("3")
    tree.remove("c")
    assert tree.to_bytes() == before


def test_the_64th_dimension_is_the_last_and_unused_dimensions_make_room():
    tree = QuotaTree([Quota(f"q{i}", max={f"d{i}": 1}) for i in range(64)])
    before = tree.to_bytes()
    with pytest.raises(ValueError, match="dimension 'more': there are 64 already"):
        tree.set_quota(Quota("one more", max={"more": 1}))
    with pytest.raises(ValueError, match="dimension 'more': there are 64 already"):
        tree.submit(request("o", "q0", {"more": 1}))
    with pytest.raises(ValueError, match="dimension 'more': there are 64 already"):
        tree.set_total({"more": 1})
    assert tree.to_bytes() == before
    tree.remove("q7")
    tree.set_total({"more": 7, "d5": 1})
    tree.submit(request("o", "q5", {"d5": 1, "more": 1}))
    assert (tree.total(), tree.runtime("q5")) == ({"more": 7, "d5": 1}, {"d5": 1})
    tree.check()
    assert QuotaTree.from_bytes(tree.to_bytes()).to_bytes() == tree.to_bytes()


# --- decisions


def test_a_decision_holds_until_it_would_not_be_made_so_any_more():
    tree = tree_with_owners()
    decision = tree.schedule("waits")
    assert (decision.outcome, decision.placement[0].members) == ("bind", 2)
    for happens in (
        lambda owner: owner.release("waits"),
        lambda owner: owner.set_total({"x": 6}),
        lambda owner: owner.recover(request("large", "q", {"x": 15}), 1),
        lambda owner: owner.commit(decision),
    ):
        branch = tree.copy()
        happens(branch)
        if "waits" not in branch.owners:
            branch.submit(request("waits", "b"))
        before = branch.to_bytes()
        with pytest.raises(StaleDecisionError, match="decision: 'waits'"):
            branch.commit(decision)
        assert branch.to_bytes() == before
    tree.commit(decision)


def test_a_decision_of_another_tree_is_committed_if_it_holds_there():
    tree = tree_with_owners()
    decision = tree.schedule(request(amounts={"x": 2}))
    empty = QuotaTree()
    with pytest.raises(StaleDecisionError):
        empty.commit(decision)
    assert (empty.owners, empty.to_bytes()) == ((), QuotaTree().to_bytes())
    small = QuotaTree([Quota("a", max={"x": 2})], total={"x": 1})
    with pytest.raises(StaleDecisionError):
        small.commit(decision)
    assert small.owners == ()
    small.set_total({"x": 2})
    small.commit(decision)
    assert small.members("new") == 1


def test_decisions_to_wait_or_to_preempt_are_not_committed():
    tree = tree_with_owners()
    waits = tree.schedule(request(amounts={"x": 50}))
    tree.recover(request("large", "a", {"x": 13}), 1)
    tree.submit(request("asks", "b", {"x": 5}))
    preempts = tree.schedule("asks")
    before = tree.to_bytes()
    for decision, outcome in ((waits, "wait"), (preempts, "preempt")):
        with pytest.raises(ValueError, match=f"decision.outcome must be 'bind', not '{outcome}'"):
            tree.commit(decision)
    assert tree.to_bytes() == before


def test_several_decisions_are_carried_out_together_or_not_at_all():
    tree = tree_with_owners()
    first, second = tree.schedule_many([request("m"), request("n", "b")])
    before = tree.to_bytes()
    with pytest.raises(StaleDecisionError):
        tree.commit_many([first, second, first])
    assert tree.to_bytes() == before
    tree.commit_many([first, second])
    assert (tree.members("m"), tree.members("n")) == (1, 1)
    tree.check()


def test_a_dimension_that_is_no_longer_used_is_unknown():
    tree = QuotaTree([Quota("a", max={"y": 1})])
    before = tree.to_bytes()
    tree.set_quota(Quota("n", max={"x": 1}, tree="other"))
    assert (tree.total("other"), tree.runtimes(["x"]).tolist()) == ({}, [[0], [0]])
    tree.remove("n")
    with pytest.raises(ValueError, match="there are 64 already"):
        tree.set_quota(Quota("n", max={f"d{i}": 1 for i in range(65)}, tree="third"))
    assert tree.to_bytes() == before
    for item in (tree, tree.copy(), QuotaTree.from_bytes(before)):
        assert item.total() == {}
        for name in ("other", "third"):
            with pytest.raises(KeyError, match=f"there is no tree '{name}'"):
                item.total(name)
        for name in ("x", "d1"):
            with pytest.raises(KeyError, match=f"there is no dimension '{name}'"):
                item.runtimes(["y", name])
        assert item.runtimes(["y"]).tolist() == [[0]]


def test_owners_of_several_trees_are_admitted_together_or_refused_by_the_tree_that_has_too_little():
    quotas = [Quota("a", max={"x": 9}), Quota("r", max={"x": 9}, tree="other")]
    tree = QuotaTree(quotas, total={"x": 9}, limit="max")
    tree.set_total({"x": 3}, tree="other")
    first, second = request("1", "a", {"x": 9}), request("2", "r", {"x": 3})
    together = tree.schedule([first, second])
    assert together.outcome == "bind"
    together.verify(tree)
    refusal = tree.schedule([first, second.replace(amounts={"x": 4})]).refusal
    assert (refusal.code, refusal.part) == ("total", "")
    assert refusal.reason == "the total is exceeded (x: 0 used + 4 asked > 3)"
    tree.commit(together)
    assert (tree.members("1"), tree.members("2")) == (1, 1)
