"""Long random histories of all compositions; see `histories.py`."""

import pytest
from profiles import seeds
from scheduler.histories import History
from scheduler.lives import COMPOSITIONS


@pytest.mark.parametrize("parts", sorted(COMPOSITIONS))
@pytest.mark.parametrize("seed", seeds(2))
def test_long_histories_are_consistent(parts, seed):
    History(parts, seed).live(40)


def test_a_job_that_could_not_stay_beside_its_companion_is_tried_again():
    History("devices", 127).live(40)


@pytest.mark.parametrize("seed", [12, 193, 246])
def test_a_job_that_its_quota_refuses_is_tried_again_when_others_may_leave(seed):
    History("quotas", seed).live(40)


@pytest.mark.parametrize(
    ("parts", "seed"),
    [
        ("lending", 3295),
        ("lending and sharing", 1965),
        ("devices", 4201),
        ("topology and sharing", 4140),
        ("quotas, topology, devices and sharing", 7012),
        ("cells and sharing", 30223),
        ("quotas and lending", 30602),
        ("cells", 40110),
        ("quotas and lending", 41009),
        ("all with cells and sharing", 41080),
        ("quotas, topology and devices", 42043),
        ("quotas", 42047),
        ("topology", 500077),
        ("all with lending", 500015),
        ("quotas", 600059),
        ("quotas and devices", 600089),
        ("quotas and cells", 600179),
        ("quotas and cells", 700095),
        ("quotas", 900179),
        ("quotas, topology, devices and sharing", 900052),
        ("quotas and lending", 700151),
        ("all with lending", 920234),
        ("lending", 930055),
        ("all with cells", 940109),
        ("quotas and cells", 940109),
        ("quotas, cells and devices", 940109),
        ("topology and sharing", 940133),
        ("quotas", 940144),
        ("quotas, topology, devices and sharing", 940144),
        ("quotas", 700067),
    ],
)
def test_histories_that_went_wrong_once(parts, seed):
    History(parts, seed).live(40)
