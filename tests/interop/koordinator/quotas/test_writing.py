"""ElasticQuota objects written: what people say, and what the scheduler says of them."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop.hostile import broken
from interop.koordinator.quotas.objects import K, elastic_quota
from profiles import examples

from hivecore.interop.koordinator import (
    elastic_quota_status,
    elastic_quota_statuses,
    read_elastic_quotas,
    write_elastic_quota,
)
from hivecore.quotas import Quota, QuotaRequest, QuotaTree

GI = 1 << 30


def test_a_new_object_says_what_differs_from_the_default_and_nothing_else():
    assert write_elastic_quota(Quota("a", max={"cpu": 1500, "memory": GI})) == {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "a"},
        "spec": {"max": {"cpu": "1500m", "memory": "1Gi"}},
    }
    quota = Quota(
        "a", parent="p", max={"cpu": 9000}, min={"cpu": 2000}, weight={"cpu": 7}, lends=False
    )
    written = write_elastic_quota(quota, is_parent=True)
    assert written["metadata"]["labels"] == {
        f"{K}/parent": "p",
        f"{K}/allow-lent-resource": "false",
        f"{K}/is-parent": "true",
    }
    assert written["metadata"]["annotations"] == {f"{K}/shared-weight": '{"cpu":"7m"}'}
    assert written["spec"] == {"max": {"cpu": "9"}, "min": {"cpu": "2"}}
    top = write_elastic_quota(Quota("a", max={}, tree="pool"))
    assert top["metadata"]["labels"] == {f"{K}/tree-id": "pool"}


RECORD = {
    **elastic_quota(
        "a",
        {"cpu": 1.5, "memory": "1024Mi", "gpu": "8"},
        {"cpu": "500m"},
        parent="p",
        labels={"tree-id": "pool", "is-parent": "true"},
        notes={"shared-weight": {"cpu": 3}, "namespaces": ["x"]},
        resourceVersion="77",
    ),
    "status": {"used": {"cpu": "1"}},
    "extra": {"deep": [1, 2]},
}
SAME = Quota(
    "a",
    parent="p",
    max={"cpu": 1500, "memory": GI, "gpu": 8},
    min={"cpu": 500},
    weight={"cpu": 3000},
)


def test_what_reads_as_the_quota_has_it_stays_as_it_is_written():
    before = copy.deepcopy(RECORD)
    assert write_elastic_quota(SAME, RECORD) == RECORD == before


def test_what_has_changed_is_written_and_the_rest_kept():
    changed = SAME.replace(max={"cpu": 2500, "memory": GI}, min={}, weight=None, lends=False)
    written = write_elastic_quota(changed, RECORD, is_parent=False)
    assert written["spec"] == {"max": {"cpu": "2500m", "memory": "1024Mi"}}
    labels, notes = written["metadata"]["labels"], written["metadata"]["annotations"]
    assert labels == {
        f"{K}/parent": "p",
        f"{K}/tree-id": "pool",
        f"{K}/is-parent": "false",
        f"{K}/allow-lent-resource": "false",
    }
    assert notes == {f"{K}/namespaces": '["x"]'}
    for kept in ("status", "extra"):
        assert written[kept] == RECORD[kept]
    assert written["metadata"]["resourceVersion"] == "77"
    up = write_elastic_quota(SAME.replace(parent="", tree="pool"), RECORD)
    assert up["metadata"]["labels"][f"{K}/parent"] == "koordinator-root-quota"


def test_what_no_object_can_say_is_refused():
    plain = Quota("a", max={"cpu": 1})
    for quota, says in (
        (plain.replace(scales=False), "scales: no object can say that the min of 'a' does not"),
        (plain.replace(weight={}), "weight: is 0 throughout, which means 'as max'"),
        (plain.replace(weight={"cpu": 0}), "weight: is 0 throughout"),
        (plain.replace(outside=True), "outside: is for koordinator-system-quota and koordinator-d"),
        (plain.replace(name="koordinator-system-quota"), "outside: is for"),
    ):
        with pytest.raises(ValueError, match=says):
            write_elastic_quota(quota)
    with pytest.raises(ValueError, match=r"ElasticQuota 'b': metadata.name: the quota is 'a'"):
        write_elastic_quota(plain, {"metadata": {"name": "b"}})
    with pytest.raises(TypeError, match="quota must be a Quota, not dict"):
        write_elastic_quota({})
    with pytest.raises(TypeError, match="record"):
        write_elastic_quota(plain, [1])
    with pytest.raises(TypeError, match="is_parent must be a bool"):
        write_elastic_quota(plain, is_parent="true")


@given(broken(RECORD))
@examples(500)
def test_hostile_records_are_written_or_refused_and_nothing_else(record):
    try:
        written = write_elastic_quota(SAME, record)
    except (TypeError, ValueError) as error:
        assert "\n" not in str(error)
    else:
        most = dict.fromkeys(("cpu", "memory", "gpu"), "9Gi")
        tree = written["metadata"]["labels"].get(f"{K}/tree-id") or ""
        above = elastic_quota("p", most, labels={"is-parent": "true", "tree-id": tree})
        assert SAME in read_elastic_quotas([above, written]).quotas


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-1Gi", "nvidia.com/gpu"]),
    st.integers(0, 2**62) | st.sampled_from([0, 1000, GI, 3 << 20]),
)


@st.composite
def quotas(draw):
    """Quotas that an object can say."""
    most = draw(amounts)
    least = {key: draw(st.integers(0, value)) for key, value in most.items()}
    weight = {key: draw(st.integers(0, 9999)) for key in most}
    return Quota(
        "a",
        max=most,
        min={key: value for key, value in least.items() if value},
        weight=weight if any(weight.values()) and draw(st.booleans()) else None,
        lends=draw(st.booleans()),
        tree=draw(st.sampled_from(["", "pool"])),
    )


@given(quotas(), quotas())
@examples(300)
def test_what_is_written_reads_as_the_quota_again_over_any_object_of_before(first, second):
    record = write_elastic_quota(first)
    assert read_elastic_quotas(record).quotas == (first,)
    again = write_elastic_quota(second, record)
    assert read_elastic_quotas(again).quotas == (second,)
    assert write_elastic_quota(second, again) == again


def annotations(tree, name):
    """What is said of a quota, by the last part of the key."""
    patch = elastic_quota_status(tree, name)
    assert set(patch) == {"metadata", "status"} and set(patch["metadata"]) == {"annotations"}
    said = {key.rpartition("/")[2]: json.loads(v) for key, v in _notes(patch).items()}
    return {**said, "used": patch["status"]["used"]}


def _notes(patch):
    result = patch["metadata"]["annotations"]
    assert all(key.startswith(f"{K}/") for key in result)
    return result


def test_the_status_tells_requests_runtimes_and_what_cannot_be_preempted_on_all_levels():
    tree = QuotaTree(
        [
            Quota("p", max={"cpu": 40_000, "gpu": 10}, min={"cpu": 9000}),
            Quota("a", parent="p", max={"cpu": 20_000, "gpu": 4}, min={"cpu": 8000}, lends=False),
            Quota("b", parent="p", max={"cpu": 6000}),
        ],
        total={"cpu": 30_000, "gpu": 3},
    )
    tree.recover(QuotaRequest("x", "a", {"cpu": 1500, "gpu": 1}, count=3, preemptible=False), 2)
    tree.submit(QuotaRequest("y", "b", {"cpu": 10_000, "gpu": 1}))
    tree.submit(QuotaRequest("z", "p", {"cpu": 500}, preemptible=False))
    # b asks for 10 cores and may ask for 6; its GPU is none of its business.
    assert annotations(tree, "b") == {
        "runtime": {"cpu": "6"},
        "request": {"cpu": "10"},
        "child-request": {"cpu": "10"},
        "non-preemptible-request": {"cpu": "0"},
        "non-preemptible-used": {"cpu": "0"},
        "used": {"cpu": "0"},
    }
    # a asks for 4.5 cores, but does not lend: it counts with its minimum.
    assert annotations(tree, "a") == {
        "runtime": {"cpu": "8", "gpu": "3"},
        "request": {"cpu": "8", "gpu": "3"},
        "child-request": {"cpu": "4500m", "gpu": "3"},
        "non-preemptible-request": {"cpu": "4500m", "gpu": "3"},
        "non-preemptible-used": {"cpu": "3", "gpu": "2"},
        "used": {"cpu": "3", "gpu": "2"},
    }
    # p: what its children may ask for, and its own pod.
    assert annotations(tree, "p") == {
        "runtime": {"cpu": "14500m", "gpu": "3"},
        "request": {"cpu": "14500m", "gpu": "3"},
        "child-request": {"cpu": "14500m", "gpu": "3"},
        "non-preemptible-request": {"cpu": "5", "gpu": "3"},
        "non-preemptible-used": {"cpu": "3", "gpu": "2"},
        "used": {"cpu": "3", "gpu": "2"},
    }

    # All at once it is the same.
    result = elastic_quota_statuses(tree)
    assert result == {name: elastic_quota_status(tree, name) for name in tree.quotas}
    assert list(result) == ["p", "a", "b"]


def test_a_status_laid_over_the_object_keeps_what_it_says():
    tree = QuotaTree([Quota("a", max={"cpu": 4000})], total={"cpu": 2000})
    tree.submit(QuotaRequest("x", "a", {"cpu": 3000}))
    record = elastic_quota("a", {"cpu": 4}, notes={"namespaces": ["x"]})
    patch = elastic_quota_status(tree, "a")
    record["metadata"]["annotations"].update(patch["metadata"]["annotations"])
    record["status"] = patch["status"]
    assert record["metadata"]["annotations"][f"{K}/runtime"] == '{"cpu":"2"}'
    again = read_elastic_quotas(record)
    assert (again.quotas, again.namespaces) == ((tree.quota("a"),), {"x": "a"})
    assert write_elastic_quota(tree.quota("a"), record) == record


def test_the_status_of_what_is_not_there_is_an_error():
    with pytest.raises(KeyError, match="there is no quota 'a'"):
        elastic_quota_status(QuotaTree(), "a")
    with pytest.raises(TypeError, match="tree must be a QuotaTree, not dict"):
        elastic_quota_status({}, "a")
    with pytest.raises(TypeError, match="tree must be a QuotaTree, not dict"):
        elastic_quota_statuses({})
    assert elastic_quota_statuses(QuotaTree()) == {}
