"""Ctrl-C at each line of a call: it changes nothing, or the call has ended.

No action is lost: the next `decide` returns what did not reach the caller.
"""

import signal
import sys
from threading import Thread

import pytest
from profiles import seeds
from scheduler.lives import COMPOSITIONS, make_job, make_scheduler

from hivecore import _common
from hivecore._common import InterruptLock, check_interrupt
from hivecore.scheduler import Scheduler

pytestmark = pytest.mark.usefixtures("interruptible")


def full(parts):
    """A scheduler in which the next round evicts opportunistic jobs or lets others start."""
    scheduler = make_scheduler(COMPOSITIONS[parts])
    for number in range(8):
        job = make_job(f"weak{number}", "ab"[number % 2], "two", guaranteed=False)
        scheduler.submit(job, 0.0)
    scheduler.decide(0.0)
    scheduler.submit(make_job("gang", "a", "gang"), 1.0)
    scheduler.submit(make_job("pairs", "b", "pairs"), 1.0)
    return scheduler


def interrupted(call, line):
    """Press Ctrl-C at this line of a call; return how many lines ran, and whether it came."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if "hivecore" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return lines, True
    else:
        return lines, False
    finally:
        sys.settrace(before)


CALLS = {
    "decide": lambda scheduler: scheduler.decide(1.0),
    "submit": lambda scheduler: scheduler.submit(make_job("more", "a", "leader"), 1.0),
    "finish": lambda scheduler: scheduler.finish("weak1", 1.0),
    "explain": lambda scheduler: scheduler.explain("gang"),
    "forecast": lambda scheduler: scheduler.forecast("gang"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "parts",
    ["cells", "quotas, cells and devices", "quotas, topology and devices", "all with lending"],
)
def test_ctrl_c_at_any_line_changes_nothing_or_ends_with_the_call(parts, call):
    saved = full(parts).to_bytes()
    scheduler = Scheduler.from_bytes(saved)
    before, answers = scheduler.to_bytes(), []
    lines, _ = interrupted(lambda: answers.append(CALLS[call](scheduler)), 0)
    after = scheduler.to_bytes()
    undone = 0
    for seed in seeds(10):
        scheduler = Scheduler.from_bytes(saved)
        line = seed * 7919 % lines + 1
        done, was_interrupted = interrupted(lambda: CALLS[call](scheduler), line)  # noqa: B023
        assert was_interrupted or done < line  # it kept results of the call before
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        other = Thread(target=scheduler.check, daemon=True)  # waits if a lock was left behind
        other.start()
        other.join(60)
        assert not other.is_alive()
        now = scheduler.to_bytes()
        undone += now == before
        if call == "decide" and was_interrupted and now != before:
            assert scheduler.actions(0) == []
            assert scheduler.decide(1.0) == answers[0]
            now = scheduler.to_bytes()
        assert now in (before, after)
        scheduler.decide(2.0)
        scheduler.check()
    assert undone or call != "decide"


def press():
    signal.raise_signal(signal.SIGINT)


def test_a_lock_holds_ctrl_c_back_until_changes_can_be_undone():
    lock, seen = InterruptLock(), []
    with pytest.raises(KeyboardInterrupt), lock, lock:
        press()
        seen.append("inside")
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()
        seen.append("to the end")
    assert seen == ["inside", "to the end"]
    with pytest.raises(KeyboardInterrupt):
        press()
    check_interrupt()


def test_a_second_ctrl_c_interrupts_at_once():
    with pytest.raises(KeyboardInterrupt), InterruptLock():
        press()
        press()
        raise AssertionError("it went on")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    check_interrupt()


def test_handlers_that_are_not_pythons_own_stay():
    seen = []
    for handler in (signal.SIG_IGN, lambda *_: seen.append("mine")):
        signal.signal(signal.SIGINT, handler)
        with InterruptLock():
            press()
        assert signal.getsignal(signal.SIGINT) is handler
    assert seen == ["mine"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with InterruptLock():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_wait_and_leave_ctrl_c_to_the_main_thread():
    lock, seen = InterruptLock(), []

    def work():
        with lock:
            seen.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=work)
    free = Thread(target=lambda: (check_interrupt(), seen.append("free")))
    with pytest.raises(KeyboardInterrupt), InterruptLock():
        press()
        free.start()
        free.join()
    assert seen.pop() == "free"
    with lock:
        thread.start()
        thread.join(0.1)
        assert seen == []
        assert signal.getsignal(signal.SIGINT) is _common.note_interrupt
    thread.join()
    assert seen[0] in (signal.default_int_handler, _common.note_interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
