"""ElasticQuota objects read: amounts, flags, trees, totals, and what is wrong with them."""

import json
import re

import pytest
import yaml
from hypothesis import given
from interop.hostile import broken
from interop.koordinator.quotas.objects import K, elastic_quota
from profiles import examples

from hivecore.interop.koordinator import TreeTotal, read_elastic_quotas
from hivecore.quotas import Quota, QuotaTree

GI = 1 << 30
PARENT = {"is-parent": "true"}
ROOT = {"is-root": "true", "tree-id": "pool"}


def read(*objects):
    return read_elastic_quotas(list(objects))


def quota(*args, **fields):
    """The one quota of the one object."""
    (result,) = read(elastic_quota(*args, **fields)).quotas
    return result


def test_amounts_are_thousandths_of_a_core_and_whole_units_of_all_else_rounded_up():
    outcome = quota(
        "a",
        {"cpu": "1.0001", "memory": "1.5Gi", "nvidia.com/gpu": 8, "x": "100m", "y": "3k"},
        {"cpu": 0.25, "x": "1u"},
    )
    assert dict(outcome.max) == {
        "cpu": 1001,
        "memory": 3 * GI // 2,
        "nvidia.com/gpu": 8,
        "x": 1,
        "y": 3000,
    }
    assert dict(outcome.min) == {"cpu": 250, "x": 1}


@pytest.mark.parametrize("huge", ["1e99", "9223372036854775807", 2**63 - 1, "8Ei", 1e300])
def test_amounts_without_end_are_the_largest_that_there_is(huge):
    assert quota("a", {"cpu": huge}).max == (("cpu", 2**62),)


def test_what_is_not_said_is_as_koordinator_has_it():
    job = read(elastic_quota("a", {"cpu": 1}))
    assert job.quotas == (Quota("a", max={"cpu": 1000}),)
    assert (job.totals, job.namespaces, job.parents) == ((), {}, frozenset())


def test_labels_say_parent_and_lending_and_the_root_is_no_quota():
    root = elastic_quota("koordinator-root-quota", None, labels=PARENT)
    a = elastic_quota("a", {"cpu": 2}, parent="koordinator-root-quota", labels=PARENT)
    b = elastic_quota("b", {"cpu": 1}, parent="a", labels={"allow-lent-resource": "false"})
    job = read(b, root, a)
    assert job.quotas == (
        Quota("b", parent="a", max={"cpu": 1000}, lends=False),
        Quota("a", max={"cpu": 2000}),
    )
    assert job.parents == {"a"}
    assert job.tree({"cpu": 5000}).quotas == ("a", "b")


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ('{"cpu": "2", "memory": "1Gi"}', {"cpu": 2000, "memory": GI}),
        ('{"cpu": 3}', {"cpu": 3000}),
        ('{"cpu": 3, "elsewhere": 4}', {"cpu": 3000}),
        ('{"cpu": 0, "memory": 0}', None),
        ("{}", None),
        ("", None),
        ("no JSON", None),
        ('{"cpu": "many"}', None),
        ('{"cpu": true}', None),
        ("[1]", None),
        ('{"cpu": NaN}', None),
    ],
)
def test_a_weight_that_is_missing_unreadable_or_zero_is_as_max(text, weight):
    record = elastic_quota("a", {"cpu": 4, "memory": "4Gi"})
    record["metadata"]["annotations"][f"{K}/shared-weight"] = text
    (result,) = read(record).quotas
    assert result == Quota("a", max={"cpu": 4000, "memory": 4 * GI}, weight=weight)


def test_reserved_quotas_are_outside_and_what_they_use_is_taken_off():
    default = elastic_quota("koordinator-default-quota", {"cpu": "1844674407370955161m"})
    system = elastic_quota("koordinator-system-quota", {"cpu": 8})
    job = read(default, system, elastic_quota("a", {"cpu": 9}))
    assert [quota.outside for quota in job.quotas] == [True, True, False]
    tree = job.tree({"cpu": 4000})
    assert tree.runtime("koordinator-system-quota") == {"cpu": 8000}


def test_totals_of_trees_are_carved_out_of_the_default_tree_and_change_with_their_roots():
    # The numbers of section 1.6 of the specification: cores and thousandths of them.
    def total(*roots):
        top = elastic_quota("top", {"cpu": 300})
        tree = read(top, *roots).tree({"cpu": 300_000})
        return [tree.total(name).get("cpu", 0) for name in ("", *(["pool"] if roots else []))]

    def root(cores, **labels):
        notes = {"total-resource": {"cpu": cores}}
        return elastic_quota("r", {"cpu": 300}, labels={**ROOT, **labels}, notes=notes)

    assert total(root(100)) == [200_000, 100_000]
    assert total(root(50)) == [250_000, 50_000]
    assert total() == [300_000]
    assert total(root(100, **{"ignore-default-tree": "true"})) == [300_000, 100_000]
    assert total(root(100, **{"ignore-default-tree": "false"})) == [200_000, 100_000]
    # Only the root of a tree that is not the default one says what there is.
    assert total(root(100, **{"is-root": "false"})) == [300_000, 0]
    lone = elastic_quota("r", {"cpu": 1}, labels={"is-root": "true"}, notes={"total-resource": {}})
    assert read(lone).totals == ()


def test_quotas_below_are_in_the_tree_of_the_top_whether_they_say_so_or_not():
    notes = {"total-resource": {"cpu": 6}}
    root = elastic_quota("r", {"cpu": 6}, labels={**ROOT, **PARENT}, notes=notes)
    a = elastic_quota("a", {"cpu": 5}, parent="r")
    b = elastic_quota("b", {"cpu": 5}, parent="r", labels={"tree-id": "pool"})
    job = read(a, b, root)
    assert job.quotas[2].tree == "pool"
    assert [quota.tree for quota in job.quotas[:2]] == ["", ""]
    assert job.totals == (TreeTotal("pool", {"cpu": 6000}, True),)
    tree = job.tree()
    assert tree.quotas == ("r", "a", "b")
    assert tree.total("pool") == {"cpu": 6000}


def test_namespaces_have_the_quota_that_lists_them_or_that_is_called_like_them():
    a = elastic_quota("a", {"cpu": 1}, notes={"namespaces": ["x", "own", "x"]})
    own = elastic_quota("own", {"cpu": 1}, namespace="own")
    other = elastic_quota("other", {"cpu": 1}, namespace="elsewhere")
    assert read(a, own, other).namespaces == {"x": "a", "own": "own"}


def test_objects_come_one_by_one_in_lists_and_as_text():
    a, b = elastic_quota("a", {"cpu": 1}), elastic_quota("b", {"cpu": 2})
    expected = read(a, b)
    assert [quota.name for quota in expected.quotas] == ["a", "b"]
    bare = [{key: value for key, value in entry.items() if key != "kind"} for entry in (a, b)]
    for form in (
        {"kind": "List", "items": [a, {"kind": "Pod", "metadata": 3}, b]},
        {"kind": "ElasticQuotaList", "items": bare},
        bare,
        (entry for entry in (a, b)),
        yaml.safe_dump_all([a, None, b]),
        yaml.safe_dump({"kind": "List", "items": [a, b]}),
        json.dumps({"kind": "List", "items": [a, b]}),
        " " + json.dumps([a, b]),
        f"{json.dumps(a)}\n---\n{json.dumps(b)}",
    ):
        assert read_elastic_quotas(form) == expected
    assert read_elastic_quotas(a) == read(a)
    assert read_elastic_quotas("") == read()


def test_entries_of_a_list_of_pods_are_no_quotas_though_they_do_not_say_what_they_are():
    pods = {"kind": "PodList", "items": [{"metadata": {"name": "p"}, "spec": {}}]}
    assert read_elastic_quotas(pods).quotas == ()


def test_objects_that_are_being_deleted_are_not_there():
    gone = elastic_quota("a", {"cpu": "no number"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert read(gone).quotas == ()


of = elastic_quota
A = of("a", {"cpu": 4}, labels=PARENT)
REFUSED = [
    (of("b", 3), TypeError, r"'b': objects.1..spec.max must be a mapping, not 3"),
    (of("b", {"cpu": "four"}), ValueError, "spec.max.cpu: 'four' is no quantity"),
    (of("b", {"cpu": -1}), ValueError, "spec.max.cpu: -1 is negative"),
    (of("b", {"cpu": "-1m"}), ValueError, "spec.max.cpu: '-1m' is negative"),
    (of("b", {"cpu": float("nan")}), ValueError, "spec.max.cpu: nan is no quantity"),
    (of("b", {"cpu": float("inf")}), ValueError, "spec.max.cpu: inf is no quantity"),
    (of("b", {"cpu": "NaN"}), ValueError, "spec.max.cpu: 'NaN' is no quantity"),
    (of("b", {"cpu": True}), TypeError, "spec.max.cpu must be a quantity"),
    (of("b", {"cpu": [1]}), TypeError, "spec.max.cpu must be a quantity"),
    (of("b", {"cpu": 2**70}), ValueError, "spec.max.cpu"),
    (of("b", {1: 2}), TypeError, "spec.max has the key 1"),
    (of("b", {"cpu": 1}, {"cpu": 2}), ValueError, "spec: min.'cpu'.=2000: is above"),
    (of("b", {"cpu": 1}, {"x": 2}), ValueError, "spec: min: 'x' has no max"),
    (of("", {"cpu": 1}), ValueError, r"ElasticQuota: objects.1..metadata.name: is missing"),
    (of("a", {"cpu": 1}), ValueError, "metadata.name: 'a' is there twice"),
    (of("b", {}, parent="c"), ValueError, "parent'.: there is no quota 'c'"),
    (of("b", {}, parent="b", labels=PARENT), ValueError, "'b' is above itself"),
    (of("b", {"gpu": 1}, parent="a"), ValueError, "spec.max.gpu: 'a' has no max of it"),
    (
        of("b", {}, parent="a", labels={"tree-id": "t"}),
        ValueError,
        "tree-id'.: 't' is not the tree of 'a' at its top, ''",
    ),
    (of("b", {}, labels={"is-parent": True}), TypeError, "is-parent'. must be a string"),
    (of("b", {}, notes={"namespaces": "x"}), TypeError, "namespaces'. must be a list"),
    (of("b", {}, notes={"namespaces": [""]}), ValueError, "namespaces'..0.: is missing"),
    (
        of("b", {"cpu": 1}, notes={"shared-weight": {"cpu": -1}}),
        ValueError,
        "shared-weight'.: a weight is negative",
    ),
    (
        of("b", {"cpu": 1}, notes={"shared-weight": {"cpu": "-1m"}}),
        ValueError,
        "shared-weight'.: a weight is negative",
    ),
    (
        of("b", {}, labels=ROOT, notes={"total-resource": {"cpu": -5}}),
        ValueError,
        "total-resource'..cpu: -5 is negative",
    ),
    (
        of("koordinator-system-quota", {}, parent="a"),
        ValueError,
        "'koordinator-system-quota' is at the top of the default tree",
    ),
    ({**A, "kind": 3}, TypeError, "kind must be a string, not 3"),
    ({**A, "apiVersion": "v2"}, ValueError, "must be 'scheduling.sigs.k8s.io/v1alpha1', not 'v2'"),
]


@pytest.mark.parametrize(("item", "kind", "says"), REFUSED)
def test_what_is_wrong_is_refused_with_object_path_and_rule(item, kind, says):
    with pytest.raises(kind, match=says) as caught:
        read(A, item)
    assert "\n" not in str(caught.value)
    assert "objects[1]" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "key", "says"),
    [
        ("spec", "mim", "spec.mim: is unknown, known are max, min"),
        ("spec", "mins", "spec.mins: is unknown, is min meant?"),
        ("labels", f"{K}/is-parnt", f"is unknown, is {K}/is-parent meant?"),
        ("labels", f"{K}/Parent", f"is unknown, is {K}/parent meant?"),
        ("annotations", f"{K}/shared-weights", f"is unknown, is {K}/shared-weight meant?"),
    ],
)
def test_a_misspelt_key_of_a_quota_is_named(place, key, says):
    document = {
        "metadata": {"name": "b", "labels": {}, "annotations": {}},
        "spec": {"max": {"cpu": 1}},
    }
    (document["spec"] if place == "spec" else document["metadata"][place])[key] = "1"
    with pytest.raises(ValueError, match=re.escape(says)):
        read(document)


@pytest.mark.parametrize("key", [f"{K}/guaranteed", f"{K}/profile", "example.com/parents"])
def test_other_keys_of_a_quota_say_nothing(key):
    document = {"metadata": {"name": "b", "labels": {key: "x"}}, "spec": {"max": {"cpu": 1}}}
    assert read(document).quotas[0] == Quota("b", max={"cpu": 1000})


def test_a_parent_must_be_one_by_its_label():
    with pytest.raises(ValueError, match=r"'b': .*'a' is no parent: its label .*/is-parent is not"):
        read(elastic_quota("a", {"cpu": 4}), elastic_quota("b", {"cpu": 4}, parent="a"))


def test_a_circle_is_refused_wherever_one_enters_it():
    def circle(*names):
        pairs = zip(names, (*names[1:], names[0]), strict=True)
        return [elastic_quota(entry, {"cpu": 1}, parent=up, labels=PARENT) for entry, up in pairs]

    for names in (("a", "b"), ("a", "b", "c")):
        with pytest.raises(ValueError, match="is above itself"):
            read(*circle(*names))
        with pytest.raises(ValueError, match=r"'[abc]' is above itself"):
            read(elastic_quota("d", {"cpu": 1}, parent="a"), *circle(*names))


def test_a_tree_has_one_total_and_a_namespace_one_quota():
    notes = {"total-resource": {"cpu": 1}}
    roots = [elastic_quota(name, {"cpu": 1}, labels=ROOT, notes=notes) for name in "ab"]
    with pytest.raises(ValueError, match=r"'b': .*total-resource'.: tree 'pool' has a total alre"):
        read(*roots)
    both = [elastic_quota(name, {"cpu": 1}, notes={"namespaces": ["x"]}) for name in "ab"]
    with pytest.raises(ValueError, match=r"'b': .*namespaces'.: 'x' is of 'a' already"):
        read(*both)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "objects: is no YAML: line 1, column 6"),
        ("a: 1\na: 2", "objects: is no YAML: line 2, column 1: the key 'a' is there twice"),
        ("spec: {max: {cpu: 1, cpu: 2}}", "column 22: the key 'cpu' is there twice"),
        ("[" * 3000, "objects: is nested too deeply"),
        ('{"spec": {"max": 1, "max": 2}}', "line 1, column 21: the key 'max' is there twice"),
        ('{"a": 1}}', "line 1, column 9"),
        ("a: !!bool perhaps", "objects: is no YAML: a value is not what its tag says"),
        ("a: !!timestamp x", "objects: is no YAML: a value is not what its tag says"),
        ("a: !thing x", "could not determine a constructor"),
        ("a: \x00", "objects: is no YAML"),
    ],
)
def test_text_that_is_no_yaml_is_refused_with_its_place(text, says):
    with pytest.raises(ValueError, match=says) as caught:
        read_elastic_quotas(text)
    assert "\n" not in str(caught.value)


def test_a_key_may_be_merged_in_and_said_again():
    text = "base: &b {cpu: 1}\nkind: Other\nmore: {<<: *b, cpu: 2}"
    assert read_elastic_quotas(text).quotas == ()


@pytest.mark.parametrize("given_", [3, None, "3", "- 3", "- - {}", ["a"], [None], [[]], 1.5])
def test_what_is_no_object_is_a_type_error(given_):
    with pytest.raises(TypeError, match="object"):
        read_elastic_quotas(given_)


RICH = [
    elastic_quota("r", {"cpu": 8, "memory": "1Gi"}, {"cpu": 1}, labels={**ROOT, **PARENT}),
    elastic_quota(
        "a",
        {"cpu": 4, "memory": "1Gi"},
        {"cpu": 2},
        parent="r",
        labels={"tree-id": "pool", "allow-lent-resource": "false"},
        notes={"shared-weight": {"cpu": 1}, "namespaces": ["x"], "total-resource": {"cpu": 9}},
    ),
]


@given(broken({"kind": "List", "items": RICH}))
@examples(500)
def test_hostile_objects_are_read_or_refused_and_nothing_else(document):
    before = repr(document)
    try:
        quotas_ = read_elastic_quotas(document)
        tree = quotas_.tree({"cpu": 10})
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(tree, QuotaTree)
        assert set(tree.quotas) == {quota.name for quota in quotas_.quotas}
    assert repr(document) == before
