"""What placement near data refuses."""

import pytest

from hivecore.storage import Bandwidths, epoch_cost, place_near_data

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: place_near_data([1], [1, 2], 1, 10), ValueError, "one element per node"),
        (lambda: place_near_data([1], [1.5], 1, 10), TypeError, "free must hold integers"),
        (lambda: place_near_data([1], [-1], 1, 10), ValueError, r"free\[0\]=-1"),
        (lambda: place_near_data([1, 1], [1, 1025], 1, 10), ValueError, r"free\[1\]=1025"),
        (lambda: place_near_data([1], [1], 1, [10, 10]), TypeError, "dataset_gb must be a float"),
        (lambda: place_near_data([1], [1], 0, 10), ValueError, "gpus=0"),
        (lambda: place_near_data([11], [1], 1, 10), ValueError, r"cached_gb\[0\]=11"),
        (lambda: place_near_data([1], [1], 1, INF), ValueError, "dataset_gb=inf"),
        (lambda: place_near_data([1], [1], 1, 10, replicas=0), ValueError, "replicas=0"),
        (lambda: Bandwidths(0, 1, 1), ValueError, "local_mbps=0.0: must be from 1e-15"),
        (lambda: Bandwidths(1, [1, 2], 1), TypeError, "peer_mbps must be a float"),
        (lambda: Bandwidths(1, 1, NAN), ValueError, "remote_mbps=nan"),
        (lambda: epoch_cost(1, -2, 3), ValueError, "peer_gb=-2"),
        (lambda: epoch_cost(1, 2, 3, 4), TypeError, "bandwidths must be Bandwidths, not int"),
        (lambda: epoch_cost([1, 2], [1, 2, 3], 1), ValueError, r"\(2,\), \(3,\), \(\) do not"),
        (lambda: place_near_data([1], [1], 1, 1e16), ValueError, r"from 1e-09 to 1e\+15"),
    ],
)
def test_wrong_amounts_are_named(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_costs_are_vectorised():
    assert epoch_cost([1, 2], 3, [[4], [5]]).tolist() == [[43, 43], [53, 53]]


def test_too_few_gpus_are_no_error():
    assert place_near_data([1, 1], [2, 3], 6, 10) is None
    assert place_near_data([], [], 1, 10) is None
