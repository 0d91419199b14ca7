"""What decides that a node cannot serve claims."""

import pytest
from dra import worlds
from dra.worlds import claim, cluster_of, counter_slice, device, published_slice, request

ROOTS = [device("a", {"root": "0"}), device("b", {"root": "1"})]
PARTS = [device(f"p{i}", counters={"gpu": {"memory": "10Gi"}}) for i in range(3)]
OF_PARTS = [
    counter_slice("c", {"gpu": {"memory": "20Gi", "engines": "7"}}, count=2),
    published_slice("s", PARTS, count=2),
]


@pytest.mark.parametrize(
    ("slices", "held", "of", "reason", "deciding"),
    [
        (
            [published_slice("s", ROOTS)],
            (),
            claim(request("r", 2), match="gpu.x/root"),
            "no value of gpu.x/root has enough devices for request r",
            ["constraints[0].matchAttribute gpu.x/root"],
        ),
        (
            OF_PARTS,
            (),
            claim(request("r", 3)),
            "enough devices suit request r, but they cannot be allocated together",
            ["the counter memory of pool gpu.x/p, which has left 20Gi of 20Gi in set gpu"],
        ),
        (
            OF_PARTS,
            ["p0"],
            claim(request("r"), request("q")),
            "enough devices suit requests r, q, but they cannot be allocated together",
            ["the counter memory of pool gpu.x/p, which has left 10Gi of 20Gi in set gpu"],
        ),
        (
            [published_slice("s", ROOTS)],
            ["a"],
            claim(request("r", 2)),
            "request r wants 2; devices that suit it and are free: 1",
            ["the devices of claim '/a'"],
        ),
        (
            [published_slice("s", ROOTS)],
            ["a"],
            claim(request("r", 2), match="gpu.x/root"),
            "request r wants 2; devices that suit it and are free: 1",
            ["constraints[0].matchAttribute gpu.x/root", "the devices of claim '/a'"],
        ),
        (
            [published_slice("s", [device("a", taints=[{"key": "k", "effect": "NoSchedule"}])])],
            (),
            claim(request("r")),
            "request r wants 1; devices that suit it and are free: 0",
            ["taints that requests do not tolerate: k:NoSchedule"],
        ),
        (
            [published_slice("s", [worlds.shared("a", {"m": "1"})])],
            (),
            claim(request("r", capacity={"m": "2"})),
            "request r wants 1; devices that suit it and are free: 0",
            ["the capacity m of requests[r]"],
        ),
        (
            [published_slice("s", ROOTS)],
            (),
            claim(request("r", where="root=2")),
            "request r wants 1; devices that suit it and are free: 0",
            ["the selectors of requests[r]"],
        ),
        (
            [published_slice("s", ROOTS)],
            (),
            claim(request("r", 3)),
            "request r wants 3; devices that suit it and are free: 2",
            [],
        ),
        ([published_slice("s", ROOTS)], (), claim(request("r", 2)), "", []),
    ],
)
def test_what_decides_is_named(slices, held, of, reason, deciding):
    cluster = cluster_of(*slices)
    cluster.update(*(worlds.holder(name, worlds.allocation(name)) for name in held))
    before = cluster.to_bytes()
    why = cluster.explain([of], "n1")
    assert list(why.deciding) == deciding
    assert why.outcome == ("unsatisfiable" if reason else "allocated")
    without = f"; it would fit without {' together with '.join(deciding)}" if deciding else ""
    assert why.reason == reason + without
    assert cluster.to_bytes() == before


def test_a_group_of_devices_that_does_not_agree_is_named():
    devices = [
        device(name, consumesCounters=[worlds.consumption("gpu", [group], memory="1")])
        for name, group in (("a", "x"), ("b", "y"))
    ]
    sets = counter_slice("c", {"gpu": {"memory": "2"}}, count=2)
    cluster = cluster_of(sets, published_slice("s", devices, count=2))
    why = cluster.explain([claim(request("r", 2))], "n1")
    assert why.deciding == ("the compatibility groups x, y of devices",)


def republished(before, after):
    """A cluster in which a claim holds p0 since its driver published other counters."""
    sets = counter_slice("c", {"gpu": {"memory": "20Gi"}}, count=2)
    cluster = cluster_of(sets, published_slice("s", before, count=2))
    cluster.update(worlds.holder("p0", worlds.allocation("p0")))
    cluster.update(worlds.object_of("ResourceSlice", published_slice("s", after, count=2)))
    return cluster


@pytest.mark.parametrize("charged", ["15Gi", "30Gi"])
def test_a_device_in_use_counts_as_it_was_charged(charged):
    before = [device("p0", counters={"gpu": {"memory": charged}})]
    after = [device(name, counters={"gpu": {"memory": "10Gi"}}) for name in ("p0", "p1")]
    cluster = republished(before, after)
    left = {"15Gi": "5Gi", "30Gi": "-10Gi"}[charged]
    text = f"the counter memory of pool gpu.x/p, which has left {left} of 20Gi in set gpu"
    assert cluster.explain([claim(request("r"))], "n1").deciding == (text,)


def test_a_counter_decides_that_is_too_large_for_sums():
    most = str(2**61)
    parts = [device(f"p{i}", counters={"gpu": {"memory": most}}) for i in range(6)]
    sets = counter_slice("c", {"gpu": {"memory": most}}, count=2)
    cluster = cluster_of(sets, published_slice("s", parts, count=2))
    text = "the counter memory of pool gpu.x/p, which has left 2Ei of 2Ei in set gpu"
    assert cluster.explain([claim(request("r", 2))], "n1").deciding == (text,)


def test_a_device_in_use_has_the_groups_with_which_it_was_charged():
    def part(name, group):
        uses = worlds.consumption("gpu", group, memory="1")
        return device(name, consumesCounters=[uses])

    cluster = republished([part("p0", "x")], [part("p0", "y"), part("p1", "y")])
    why = cluster.explain([claim(request("r"))], "n1")
    assert why.deciding == ("the compatibility groups y of devices",)


@pytest.mark.parametrize("count", [1, "All"])
def test_a_pool_that_is_not_complete_is_named(count):
    cluster = cluster_of(published_slice("s", ROOTS, count=2))
    why = cluster.explain([claim(request("r", count))], "n1")
    assert why.pools == ("pool gpu.x/p is incomplete: 1 of 2 slices",)
    assert why.reason.endswith("; pool gpu.x/p is incomplete: 1 of 2 slices")


def test_each_of_many_terms_is_needed():
    """Without all of them the node would serve the claims; with any of them it would not."""
    devices = [
        device(f"d{i}", {"root": str(i)}, taints=[{"key": "k", "effect": "NoExecute"}] * (i < 1))
        for i in range(3)
    ]
    cluster = cluster_of(published_slice("s", devices))
    cluster.update(worlds.holder("held", worlds.allocation("d2")))
    why = cluster.explain([claim(request("r", 3), match="gpu.x/root", name="c")], "n1")
    assert len(why.deciding) == 3


def test_an_error_and_an_unknown_answer_have_their_reason():
    cluster = cluster_of(published_slice("s", ROOTS))
    why = cluster.explain([claim(request("r", deviceClassName="other"))], "n1")
    assert (why.outcome, why.reason) == ("error", "request r: no device class 'other'")
    with pytest.raises(KeyError):
        cluster.explain([claim(request("r"))], "n2")
