import pytest

from hivecore.interop.ray import bundles
from hivecore.scheduler import PlacedPod, Start


def test_each_pod_is_a_bundle_on_its_node():
    pods = [PlacedPod("w", 0, "n1", (("gpu", (0, 5)),)), PlacedPod("w", 1, "n2", (("gpu", (1,)),))]
    assert bundles(Start("a", pods), label="host") == (
        [{"GPU": 2.0}, {"GPU": 1.0}],
        [{"host": "n1"}, {"host": "n2"}],
    )


@pytest.mark.parametrize("pod", [PlacedPod("w", 0, "n1"), PlacedPod("w", 0, "")])
def test_a_pod_without_a_place_is_refused(pod):
    with pytest.raises(ValueError, match="start: pod w/0"):
        bundles(Start("a", [pod]))
    with pytest.raises(TypeError, match="start"):
        bundles("a")
