"""What the limiter refuses, and that refusing changes nothing."""

import pytest
from objects.saved_states import sealed_nonsense_is_refused_or_sound

from hivecore.storage import RemoteIOLimiter

NAN = float("nan")
HUGE = 2**200


def limiter():
    built = RemoteIOLimiter(1000, 500, lend=True)
    built.add_job(300, 100, now_ns=0)
    built.add_job(300, 100, now_ns=0)
    built.remove_job(0, now_ns=0)
    built.take(1, 60, now_ns=10)
    return built


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: RemoteIOLimiter(-1, 0), ValueError, "rate_bytes=-1"),
        (lambda: RemoteIOLimiter(10**12 + 1, 0), ValueError, "rate_bytes=1000000000001"),
        (lambda: RemoteIOLimiter(1, 10**15 + 1), ValueError, "burst_bytes="),
        (lambda: RemoteIOLimiter(1.0, 5), TypeError, "rate_bytes must be an integer, not float"),
        (lambda: RemoteIOLimiter(1, 5, lend="no"), TypeError, "lend must be a bool"),
    ],
)
def test_what_cannot_be_made_is_named(make, error, says):
    with pytest.raises(error, match=says):
        make()


CALLS = [
    (lambda b: b.take(0, 1, 20), KeyError, "job=0: no such job"),
    (lambda b: b.take(7, 1, 20), KeyError, "job=7: no such job"),
    (lambda b: b.take(-1, 1, 20), KeyError, "job=-1: no such job"),
    (lambda b: b.take(1, 101, 20), ValueError, "bytes=101: .* the burst, 100"),
    (lambda b: b.take(1, -1, 20), ValueError, "bytes=-1"),
    (lambda b: b.take(1, 1, -1), ValueError, "now_ns=-1"),
    (lambda b: b.take(1, 1, 2**62 + 1), ValueError, "now_ns="),
    (lambda b: b.take(1, 1, NAN), TypeError, "now_ns must be an integer, not float"),
    (lambda b: b.take(1, HUGE, 20), ValueError, "bytes=.*too large"),
    (lambda b: b.take_many([1, 0], [1, 1], 20), KeyError, r"jobs\[1\]=0: no such job"),
    (lambda b: b.take_many([1, 1], [1, 101], 20), ValueError, r"bytes\[1\]=101"),
    (lambda b: b.take_many([1], [1, 1], 20), ValueError, "jobs has 1 elements"),
    (lambda b: b.add_job(701, 0, 20), ValueError, "rate_bytes=701: allowed are 0 to 700"),
    (lambda b: b.add_job(0, 401, 20), ValueError, "burst_bytes=401: allowed are 0 to 400"),
    (lambda b: b.set_rate(1, 1001, now_ns=20), ValueError, "rate_bytes=1001"),
    (lambda b: b.set_rate(1, 5, 501, now_ns=20), ValueError, "burst_bytes=501"),
    (lambda b: b.set_rate(0, 5, now_ns=20), KeyError, "job=0"),
    (lambda b: b.remove_job(0, 20), KeyError, "job=0"),
    (lambda b: b.tokens(0, 20), KeyError, "job=0"),
]


@pytest.mark.parametrize(("call", "error", "says"), CALLS)
def test_a_wrong_call_is_named_and_changes_nothing(call, error, says):
    thing = limiter()
    before = thing.to_bytes()
    with pytest.raises(error, match=says):
        call(thing)
    assert thing.to_bytes() == before
    thing.check()


def test_saved_nonsense_is_refused_or_sound():
    sealed_nonsense_is_refused_or_sound(limiter)


def test_a_job_without_rate_waits_for_ever_once_its_burst_is_gone():
    bucket = RemoteIOLimiter(10, 10)
    job = bucket.add_job(0, 10, now_ns=0)
    assert bucket.take(job, 10, now_ns=0) == 0
    assert bucket.take(job, 1, now_ns=2**62) == 2**63 - 1


def test_a_bucket_that_fills_only_after_the_last_time_is_never_full():
    limiter = RemoteIOLimiter(1, 8_000_000_000)
    job = limiter.add_job(1, 8_000_000_000, now_ns=0)
    assert limiter.take(job, 8_000_000_000, now_ns=2**62) == 0
    assert limiter.take(job, 1, now_ns=2**62) == 10**9
    limiter.check()


def test_a_smaller_burst_gives_its_tokens_away_and_a_larger_one_takes_room():
    bucket = RemoteIOLimiter(0, 100)
    job = bucket.add_job(0, 60, now_ns=0)
    bucket.set_rate(job, 0, 20, now_ns=0)
    assert (bucket.tokens(job, 0), bucket.spare(0)) == (20, 80)
    bucket.set_rate(job, 0, 90, now_ns=0)
    assert (bucket.tokens(job, 0), bucket.spare(0)) == (90, 10)
    bucket.remove_job(job, 0)
    assert bucket.spare(0) == 100
