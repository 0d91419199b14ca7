"""The rules of quotas, each broken on its own and all together."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.quotas import Quota, QuotaTree, RuleViolation, quota_rules


def quota(name, parent="", most=100, least=0, **fields):
    return Quota(name, parent=parent, max={"gpu": most}, min={"gpu": least}, **fields)


def messages(*quotas, **options):
    return [(name.rule, str(name)) for name in quota_rules(quotas, **options)]


def test_a_tree_in_order_breaks_no_rule():
    assert quota_rules([quota("lab", least=30), quota("a", "lab", least=10)]) == ()
    assert quota_rules([]) == ()
    # Children that have exactly what the parent has, and the third with nothing.
    children = [quota(name, "lab", least=least) for name, least in (("a", 10), ("b", 20), ("c", 0))]
    assert quota_rules([quota("lab", least=30), *children]) == ()


def test_the_max_of_a_child_may_be_above_that_of_its_parent():
    assert quota_rules([quota("lab", most=10), quota("a", "lab", most=1000)]) == ()


def test_minimums_below_a_quota_that_are_more_than_its_own_are_named_with_their_numbers():
    result = quota_rules(
        [quota("lab", least=30), quota("b", "lab", least=20), quota("a", "lab", least=11)]
    )
    text = "lab: min of gpu is 30, those below it have 31 in all: a 11, b 20"
    assert result == (RuleViolation("lab", "min", text),)
    # The scaled minimums of section 3.2 of the specification: legal only at the top.
    three = [quota(name, "p", least=100) for name in "abc"]
    assert quota_rules([quota("p", most=300, least=300), *three]) == ()
    assert messages(quota("p", most=300, least=299), *three) == [
        ("min", "p: min of gpu is 299, those below it have 300 in all: a 100, b 100, c 100")
    ]


def test_minimums_at_the_top_of_a_tree_have_no_sum():
    assert quota_rules([quota("a", least=90), quota("b", least=90), quota("c", tree="x")]) == ()


def test_a_parent_without_a_minimum_has_none_to_hand_on():
    lab = Quota("lab", max={"gpu": 9, "cpu": 9})
    child = Quota("a", parent="lab", max={"gpu": 9, "cpu": 9}, min={"gpu": 1, "cpu": 2})
    assert messages(lab, child) == [
        ("min", "lab: min of cpu is 0, those below it have 2 in all: a 2"),
        ("min", "lab: min of gpu is 0, those below it have 1 in all: a 1"),
    ]


def test_dimensions_are_the_same_as_the_parents_or_some_of_them():
    lab = Quota("lab", max={"gpu": 8, "cpu": 8})
    some = Quota("some", parent="lab", max={"gpu": 8})
    other = Quota("other", parent="lab", max={"gpu": 8, "cpu": 8, "memory": 8})
    more = ("dimensions", "lab / other: max has memory, that of 'lab' has not")
    less = ("dimensions", "lab / some: max has no cpu, that of 'lab' has")
    assert messages(some, other, lab) == [more, less]
    assert messages(some, other, lab, same_dimensions=False) == [more]


def test_a_missing_parent_and_one_outside_are_named():
    outside = Quota("system", max={"gpu": 8}, outside=True)
    assert messages(outside, quota("a", "system"), quota("b", "gone")) == [
        ("parent", "b: its parent 'gone' is missing"),
        ("parent", "system / a: its parent 'system' is an outside quota"),
    ]


def test_a_circle_is_named_at_each_quota_in_it_and_ends():
    result = messages(quota("a", "b"), quota("b", "c"), quota("c", "a"), quota("d", "c"))
    assert result == [
        ("parent", "a / c / b: is its own ancestor"),
        ("parent", "b / a / c: is its own ancestor"),
        ("parent", "c / b / a: is its own ancestor"),
    ]
    assert messages(quota("a", "a")) == [("parent", "a: is its own ancestor")]


def test_all_violations_are_found_tree_by_tree_from_the_top_down():
    quotas = [
        quota("z", least=1),
        quota("y", "z", least=2),
        Quota("x", parent="y", max={"cpu": 5}, min={"cpu": 3}),
        quota("a", tree="other"),
        quota("b", "a", least=7),
    ]
    expected = [
        ("z", "min"),
        ("y", "min"),
        ("x", "dimensions"),
        ("x", "dimensions"),
        ("a", "min"),
    ]
    for order in itertools.permutations(quotas):
        assert [(broken.quota, broken.rule) for broken in quota_rules(order)] == expected


def test_what_are_no_quotas_of_different_names_is_refused():
    with pytest.raises(ValueError, match="quotas: 'a' is there twice"):
        quota_rules([quota("a"), quota("a")])
    with pytest.raises(TypeError, match="quotas must hold Quota, not str"):
        quota_rules(["a"])
    with pytest.raises(TypeError, match="quotas"):
        quota_rules(7)
    with pytest.raises(TypeError, match="same_dimensions must be a bool, not int"):
        quota_rules([], same_dimensions=1)


@st.composite
def forests(draw):
    """Quotas whose parents may be anything, with few dimensions and small numbers."""
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True))
    results = []
    for name in names:
        most = draw(st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 4)))
        least = {key: draw(st.integers(0, amount)) for key, amount in most.items()}
        parent = draw(st.sampled_from(["", *names, "gone"]))
        results.append(Quota(name, parent=parent, max=most, min=least))
    return results


@given(forests())
@examples(300)
def test_a_tree_takes_the_quotas_if_and_only_if_their_parents_and_dimensions_are_right(quotas):
    broken = {name.rule for name in quota_rules(quotas, same_dimensions=False)}
    try:
        QuotaTree(quotas)
    except (KeyError, ValueError):
        assert broken & {"parent", "dimensions"}
    else:
        assert not broken & {"parent", "dimensions"}
