"""Objects that do not change are made in their class at once."""

import copy
import pickle

import pytest

from hivecore import _cells, _devices, _quotas
from hivecore.cells import AffinityGroup, CellCluster, Chain, ClusterSpec
from hivecore.devices import DeviceCluster, DeviceRequest, NodeDevices
from hivecore.quotas import Quota, QuotaRequest, QuotaTree

MAKERS = pytest.mark.parametrize(
    "maker", [_cells.Maker, _devices.Maker, _quotas.Maker], ids=lambda one: one.__module__
)


class Point:
    __slots__ = ("x", "y")

    def __init__(self):
        raise TypeError("not for callers")

    def __setattr__(self, name, value):
        raise AttributeError(name)


@MAKERS
def test_a_maker_fills_the_slots_of_a_class_that_lets_none_be_set(maker):
    point = maker(Point, ("y", "x")).make((1, None))
    assert type(point) is Point and (point.x, point.y) == (None, 1)
    with pytest.raises(AttributeError):
        point.x = 2


@MAKERS
def test_a_maker_of_a_derived_class_fills_the_slots_of_its_base(maker):
    class Named(Point):
        __slots__ = ("name",)

    point = maker(Named, ("name", "x")).make(("a", 1))
    assert type(point) is Named and (point.name, point.x) == ("a", 1)
    assert not hasattr(point, "y")


@MAKERS
def test_a_maker_leaves_the_other_attributes_of_a_class_alone(maker):
    class Open(Point):
        __setattr__ = object.__setattr__

    point = maker(Open, ("x",)).make((1,))
    point.colour = "red"
    assert (vars(point), point.x) == ({"colour": "red"}, 1)


@MAKERS
@pytest.mark.parametrize(
    ("made", "slots"),
    [
        (int, ()),
        (Exception, ("args",)),
        (Point, ("x", "__init__")),
        (Point, ["x"]),
        (3, ("x",)),
        (None, ()),
        (Point, None),
        (AffinityGroup, ("pods",)),
    ],
)
def test_a_maker_of_what_has_no_such_slots_is_refused(maker, made, slots):
    with pytest.raises(TypeError):
        maker(made, slots)


@MAKERS
def test_a_maker_of_a_slot_that_is_not_there_is_refused(maker):
    with pytest.raises(AttributeError, match="z"):
        maker(Point, ("x", "z"))


@MAKERS
@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)])
def test_values_that_are_not_one_for_each_slot_are_refused(maker, values):
    with pytest.raises(ValueError, match=f"{len(values)} are given for 2 slots"):
        maker(Point, ("x", "y")).make(values)


@MAKERS
@pytest.mark.parametrize("values", [None, [1, 2], 3])
def test_values_that_are_no_tuple_are_refused(maker, values):
    with pytest.raises(TypeError):
        maker(Point, ("x", "y")).make(values)


def cells():
    chain = Chain(["gpu", "node"], fanouts=[4], roots=1)
    cluster = CellCluster(ClusterSpec({"V100": chain}, {"A": {"V100": {"node": 1}}}))
    return cluster.schedule(AffinityGroup("train", "A", [(1, 2)]))


def devices():
    cluster = DeviceCluster({"n0": NodeDevices.uniform(gpus=2)})
    return cluster.schedule(DeviceRequest("train", gpus=1))


def quotas():
    tree = QuotaTree([Quota("a", max={"gpu": 8})], total={"gpu": 8})
    return tree.schedule(QuotaRequest("train", "a", {"gpu": 2}))


@pytest.mark.parametrize(
    "make", [cells, devices, quotas, lambda: AffinityGroup("train", "A", [(1, 2)])]
)
def test_what_was_made_does_not_change_and_can_be_copied(make):
    made = make()
    for name in type(made).__slots__:
        before = getattr(made, name)
        with pytest.raises(AttributeError):
            setattr(made, name, None)
        with pytest.raises(AttributeError):
            delattr(made, name)
        assert getattr(made, name) is before
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(other) is type(made) and repr(other) == repr(made)
