"""What schedulers decided when the golden logs were written, by CPython 3.11 on x86-64 Linux.

Every other Python and platform has to decide the same, byte for byte. To change decisions on
purpose, write the logs again: see tests/scheduler/log/decision_logs.py.
"""

import io
import json
from base64 import b64decode

import pytest
from scheduler.lives import COMPOSITIONS
from scheduler.log.decision_logs import read_logs

from hivecore.scheduler import Scheduler, event_of_plain, read_log, replay

LOGS = read_logs()
#: Behind each line's text: its checksum, which is over the lines before, too.
TAIL = len(b',"hash":"01234567"}\n')


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_logged_events_lead_to_the_logged_decisions_to_the_byte(name, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(LOGS[name]))
    ended = replay(path)
    first, *records = read_log(path)
    log = io.BytesIO()
    with_log = Scheduler.from_bytes(b64decode(first.fields["state"]))
    with_log._is_rerun = True  # the logs are older than the check of constraints
    with_log.write_log(log)
    for record in records:
        fields = dict(record.fields)
        if record.event == "decide":
            with_log.decide(record.now, fields.get("most"))
        else:
            event_of_plain({"event": record.event, "now": record.now, **fields}).tell(
                with_log, record.now
            )
    with_log.close()
    with_log.check()
    written = log.getvalue().splitlines(keepends=True)
    # Without the first line: another release may tell more of a state.
    assert [line[:-TAIL] for line in written[1:]] == [line[:-TAIL] for line in LOGS[name][1:]]
    assert [(job, with_log.state(job)) for job in with_log] == [
        (job, ended.state(job)) for job in ended
    ]


def test_the_logs_hold_all_kinds_of_events_and_actions():
    events, actions = set(), set()
    for lines in LOGS.values():
        for line in map(json.loads, lines):
            events.add(line["event"])
            for item in line.get("actions", ()):
                more = [f for f in ("lent", "shares_with") if item.get(f)]
                actions.add((item["action"], *more, *([item["why"]] if "why" in item else [])))
    assert events >= {
        *("begin", "submit", "finish", "cancel", "fail", "stopped", "decide", "advance"),
        *("set_node", "add_node", "remove_node", "set_quota", "set_total", "reconfigure"),
        *("regroup", "reorder", "move"),
    }
    assert actions >= {
        *(("start",), ("start", "lent"), ("start", "shares_with"), ("promote",), ("stop",)),
        *(("move",), ("move", "shares_with"), ("wait",), ("reject",)),
        *(("set_cache",), ("set_remote_io",)),
        *(("preempt", why) for why in ("opportunistic", "reclaim", "priority", "order")),
    }
