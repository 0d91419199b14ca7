"""Quotas in a YAML file: the short form, and which form it is."""

import pytest
import yaml
from hypothesis import given
from interop.hostile import broken, refused_clearly
from interop.koordinator.quotas.objects import elastic_quota, node, pod
from profiles import examples

from hivecore.interop.quota_file import read_quota_file
from hivecore.quotas import Quota, QuotaRequest

GI = 1 << 30
WHOLE = """
total: {cpu: 64, memory: 256Gi, gpu: 16}
trees:
  pool: {total: {gpu: 4}, carved: true}
quotas:
  research: {max: {cpu: 64, memory: 256Gi, gpu: 16}, min: {cpu: 1500m, gpu: 8}}
  vision: {parent: research, max: {gpu: 16}, weight: {gpu: 2}, lends: false, scales: false}
  system: {max: {cpu: 2}, outside: true}
  batch: {max: {gpu: 4}, tree: pool}
owners:
  train: {quota: vision, amounts: {gpu: 2}, count: 4, min_count: 2, running: 3, priority: -5}
  serve: {quota: research, amounts: {cpu: 0.5}, preemptible: false}
"""


def test_the_short_form_says_all_that_a_tree_can_hold():
    file = read_quota_file(WHOLE)
    tree = file.tree
    assert file.remarks == ()
    assert [tree.quota(name) for name in ("research", "vision", "system", "batch")] == [
        Quota(
            "research",
            max={"cpu": 64_000, "memory": 256 * GI, "gpu": 16},
            min={"cpu": 1500, "gpu": 8},
        ),
        Quota(
            "vision",
            parent="research",
            max={"gpu": 16},
            weight={"gpu": 2},
            lends=False,
            scales=False,
        ),
        Quota("system", max={"cpu": 2000}, outside=True),
        Quota("batch", max={"gpu": 4}, tree="pool"),
    ]
    assert tree.total() == {"cpu": 64_000, "memory": 256 * GI, "gpu": 12}
    assert tree.total("pool") == {"gpu": 4}
    assert tree.request("train") == QuotaRequest(
        "train", "vision", {"gpu": 2}, count=4, min_count=2, priority=-5
    )
    assert tree.request("serve") == QuotaRequest(
        "serve", "research", {"cpu": 500}, preemptible=False
    )
    assert (tree.members("train"), tree.members("serve")) == (3, 0)
    tree.check()


def test_a_given_total_is_instead_of_the_files():
    tree = read_quota_file(WHOLE, total={"cpu": "1.5", "gpu": 6}).tree
    assert tree.total() == {"cpu": 1500, "gpu": 2}
    objects = yaml.safe_dump_all([elastic_quota("a", {"cpu": 4}), node("n", {"cpu": 3})])
    assert read_quota_file(objects).tree.total() == {"cpu": 3000}
    assert read_quota_file(objects, total={"cpu": 2}).tree.total() == {"cpu": 2000}


def test_objects_may_stand_in_several_lists():
    lists = [elastic_quota("a", {"cpu": 4})], [node("n", {"cpu": 3}), node("m", {"cpu": 2})]
    assert read_quota_file(yaml.safe_dump_all(lists)).tree.total() == {"cpu": 5000}
    assert read_quota_file(yaml.safe_dump_all(lists[1:] + lists[:1])).tree.total() == {"cpu": 5000}


def test_pods_without_a_quota_are_remarked():
    def remarks(*names):
        pods = [pod(name, {"cpu": 1}) for name in names]
        return read_quota_file(
            yaml.safe_dump_all([elastic_quota("a", {"cpu": 4}), *pods]), total={"cpu": 4}
        ).remarks

    assert remarks() == ()
    assert remarks("p") == ("ns/p belongs to no quota.",)
    assert remarks("r", "q", "p") == ("ns/p and 2 more belong to no quota.",)


def test_only_trees_with_their_own_totals_need_no_other():
    pool = elastic_quota(
        "r",
        {"cpu": 1},
        labels={"is-root": "true", "tree-id": "pool"},
        notes={"total-resource": {"cpu": 3}},
    )
    system = elastic_quota("koordinator-system-quota", {"cpu": 1})
    tree = read_quota_file(yaml.safe_dump_all([pool, system])).tree
    assert tree.total("pool") == {"cpu": 3000}
    short = "quotas: {a: {max: {x: 1}, tree: t}, b: {max: {x: 1}, outside: true}}"
    assert read_quota_file(short).tree.total("t") == {}


A = "quotas: {a: {max: {x: 9}}}\n"
T = "total: {x: 1}\nquotas: {a: {max: {x: 9}}, b: {max: {x: 9}, tree: t}}\n"
REFUSED = [
    ("", "there is no object of kind ElasticQuota, and no key 'quotas'"),
    ("kind: Pod\nmetadata: {name: p}", "there is no object of kind ElasticQuota"),
    ("- 1", "must be an object, not 1"),
    ("a: [", "the text: is no YAML: line 1"),
    ("quotas:", "quotas: is empty"),
    ("total: {x: 1}", "quotas: is empty"),
    ("total: {x: 1}\nquota: {a: {max: {x: 9}}}", "quota: is none of total, trees, quotas, owners"),
    ("quotas: {}", "quotas: is empty"),
    ("quotas: 3", "quotas must be a mapping, not 3"),
    ("quotas: {a: 3}", "quotas.a must be a mapping, not 3"),
    ("quotas: {a: {max: {x: 1}}, a: {}}", "the key 'a' is there twice"),
    ("quotas: {1: {}}", "quotas has the key 1: keys must be strings"),
    ("quotas: {a: {max: {x: 1}, mim: {x: 1}}}", "quotas.a.mim: is none of parent, max, min"),
    ("quotas: {a: {max: {x: -1}}}", "quotas.a.max.x: -1 is negative"),
    ("quotas: {a: {max: {x: .nan}}}", "quotas.a.max.x: nan is no quantity"),
    ("quotas: {a: {max: {x: many}}}", "quotas.a.max.x: 'many' is no quantity"),
    ("quotas: {a: {max: {x: 1}, min: {x: 2}}}", r"quotas.a: min\['x'\]=2: is above max, 1"),
    ("quotas: {a: {max: {x: 1}, min: {y: 2}}}", "quotas.a: min: 'y' has no max"),
    ("quotas: {a: {max: {x: 1}, weight: {y: 2}}}", "quotas.a: weight: 'y' has no max"),
    ("quotas: {a: {max: {x: 1}, weight: {x: 1.5}}}", "quotas.a.weight.x: 1.5 is no whole number"),
    ("quotas: {a: {max: {x: 1}, weight: {cpu: .1m}}}", "weight.cpu: '.1m' is no whole number"),
    ("quotas: {a: {max: {x: 1}, lends: yep}}", "quotas.a.lends must be true or false, not 'yep'"),
    ("quotas: {a: {parent: b}}", "quotas: a: its parent 'b' is missing"),
    ("quotas: {a: {parent: b}, b: {parent: a}}", "quotas: a / b: is its own ancestor"),
    ("quotas: {a: {max: {x: 1}, parent: b}, b: {}}", "quotas: b / a: max has x, that of 'b'"),
    ("quotas: {a: {parent: b}, b: {outside: true}}", "its parent 'b' is an outside quota"),
    ("quotas: {a: {parent: b, tree: t}, b: {}}", "quotas.a: tree: is for quotas at the top"),
    (A, "total: is missing"),
    (A + "total: 3", "total must be a mapping, not 3"),
    (A + "total: {x: 1, y: 2}", "total: no quota has 'y'; resources of quotas: x"),
    (A + "totals: {x: 1}", "totals: is none of total, trees, quotas, owners"),
    (A + "total: {x: 1}\ntrees: {t: {total: {y: 1}}}", "trees.t.total: no quota has 'y'"),
    (A + "total: {x: 1}\ntrees: {t: {carved: 1}}", "trees.t.carved must be true or false, not 1"),
    (A + "total: {x: 1}\ntrees: {'': {carved: true}}", "is the default tree, whose total"),
    (A + "total: {x: 1}\ntrees: {'': {total: {x: 2}}}", "is the default tree, whose total"),
    (T + "trees: {s: {carved: true}}", "trees.s: no quota is in it; trees of quotas: t"),
    (A + "total: {x: 1}\ntrees: {t: {total: {x: 1}}}", "trees.t: no quota is in it; .* none"),
    (A + "total: {x: 1}\nowners: {o: {}}", "owners.o.quota: is missing"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, amounts: {xs: 1}}}", "xs: .*; is x meant?"),
    (A + "total: {x: 1}\nowners: {o: {quota: b}}", "owners.o.quota: there is no quota 'b'"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, count: 0}}", "owners.o.count"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, running: 2}}", "owners.o.running"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, min_count: 2}}", "owners.o.min_count"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, priority: high}}", "owners.o.priority must be"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, amounts: {x: 1e99}, count: 2}}", "owners.o: amou"),
    (A + "total: {x: 1}\nowners: {o: {quota: a, memebers: 2}}", "owners.o.memebers: is none of"),
    (yaml.safe_dump(elastic_quota("a", {"cpu": 1})), "total: is missing, and there are no nodes"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_is_wrong_is_refused_in_one_line_with_its_path(text, says):
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        read_quota_file(text)
    assert "\n" not in str(caught.value)


def test_a_given_total_is_checked_as_well():
    for total, says in (
        ({"y": 1}, "total: no quota has 'y'; resources of quotas: x"),
        ({"x": "many"}, "total.x: 'many' is no quantity"),
        ({"x": -1}, "total.x: -1 is negative"),
    ):
        with pytest.raises(ValueError, match=says):
            read_quota_file(A, total=total)


@given(broken(yaml.safe_load(WHOLE)))
@examples(300)
def test_hostile_files_are_read_or_refused_and_nothing_else(document):
    try:
        text = yaml.safe_dump(document, allow_unicode=False)
    except (yaml.YAMLError, UnicodeError):
        return
    with refused_clearly():
        read_quota_file(text).tree.check()
