"""Records of the scheduler: to JSON and back, copied, and refused if they are wrong."""

import copy
import json
import pickle
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from scheduler.records import RECORDS

import hivecore.scheduler
from hivecore._record import Record
from hivecore.decisions import Refusal
from hivecore.devices import DeviceRequest, LabelExpression
from hivecore.dra import ResourceClaim
from hivecore.gangs import GangSpec
from hivecore.queues import QueuedJob
from hivecore.quotas import Quota, QuotaRequest
from hivecore.scheduler import (
    Action,
    Job,
    Role,
    Scheduler,
    Sharing,
    action_of_plain,
    plain_record,
    record_of_plain,
)

KINDS = sorted(RECORDS, key=lambda kind: kind.__name__)
every_record = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
#: Records with fields of several types, which are only returned.
MIXED = {
    hivecore.scheduler.JobChange,
    hivecore.scheduler.JobExplanation,
    hivecore.scheduler.MovePlan,
    hivecore.scheduler.SchedulerEvent,
}
CLAIM = ResourceClaim("gpus", "team")
FOUR = DeviceRequest("any pod", gpus=4)
SLOW = LabelExpression("net", "NotIn", ["slow", "old"])
WRONG = st.sampled_from([b"bytes", 1j, object()])


def test_the_table_has_every_public_record_with_plain_fields():
    public = {getattr(hivecore.scheduler, name) for name in hivecore.scheduler.__all__}
    known = {
        exported
        for exported in public
        if isinstance(exported, type) and issubclass(exported, Record)
    }
    assert known - MIXED | {Refusal} == set(KINDS)


@every_record
@examples(25)
@given(st.data())
def test_a_record_comes_back_from_json_pickle_and_copies(kind, data):
    record = data.draw(RECORDS[kind])
    again = record_of_plain(kind, json.loads(json.dumps(plain_record(record))), "record")
    for other in (again, pickle.loads(pickle.dumps(record)), copy.deepcopy(record)):
        assert other == record and hash(other) == hash(record) and repr(other) == repr(record)
    assert record.replace() == record
    if kind in get_args(Action):
        assert action_of_plain(json.loads(json.dumps(plain_record(record)))) == record


@pytest.mark.parametrize("rules", [{}, {"a": "b"}, [("ring", "a"), SLOW], [SLOW]])
@pytest.mark.parametrize("wish", ["selector", "vf_selector"])
def test_rules_of_labels_come_back_from_json(wish, rules):
    request = DeviceRequest("any", nics=1, nic_wishes={wish: rules})
    role = Role("w", devices=request)
    again = record_of_plain(Role, json.loads(json.dumps(plain_record(role))))
    assert again == role and again.devices.content == request.content


def test_a_required_field_is_checked_whatever_its_value():
    with pytest.raises(TypeError, match="name must be a string, not ellipsis"):
        Job(..., "a", 1)
    with pytest.raises(TypeError, match="max must be a mapping, not ellipsis"):
        Quota("a", max=...)


@pytest.mark.parametrize("ask", [Scheduler.counted, Scheduler.places, Scheduler.spreads])
def test_questions_about_a_job_that_is_none_name_the_argument(ask):
    with pytest.raises(TypeError, match="job must be a Job, not str"):
        ask(Scheduler(), "train")


def test_an_unknown_action_is_refused():
    with pytest.raises(ValueError, match="action='halt'"):
        action_of_plain({"action": "halt"})


@every_record
@examples(15)
@given(st.data())
def test_a_field_of_a_wrong_type_is_named(kind, data):
    plain = plain_record(data.draw(RECORDS[kind]))
    names = [name for name in kind.__struct_fields__ if name not in kind._hidden]
    written = names[: len(plain)] if isinstance(plain, list) else names  # without empty last fields
    name = data.draw(st.sampled_from(written))
    plain[names.index(name) if isinstance(plain, list) else name] = data.draw(WRONG)
    with pytest.raises(TypeError, match=rf"^{name}\b.* must be "):
        record_of_plain(kind, plain, "record")


@every_record
@examples(5)
@given(st.data())
def test_what_is_missing_or_unknown_is_named(kind, data):
    plain = plain_record(data.draw(RECORDS[kind]))
    with pytest.raises(TypeError, match=r"^record must be"):
        record_of_plain(kind, None, "record")
    if isinstance(plain, list):
        with pytest.raises(ValueError, match=r"^record: must be "):
            record_of_plain(kind, plain[1:], "record")
        return
    with pytest.raises(ValueError, match=r"^record: there is no field 'other'"):
        record_of_plain(kind, {**plain, "other": 1}, "record")
    for name in list(plain):
        rest = {field: value for field, value in plain.items() if field != name}
        try:
            record_of_plain(kind, rest, "record")
        except ValueError as error:
            assert name in str(error) or "offsets" in str(error)


def test_a_job_of_one_pod_may_be_written_with_gpus():
    short = Job("q", "a", gpus=8, priority=2)
    assert (
        short == Job("q", "a", [Role("pod", 1, gpus=8)], priority=2) == Job("q", "a", 8, priority=2)
    )
    assert plain_record(short) == plain_record(Job("q", "a", 8, priority=2))
    assert pickle.loads(pickle.dumps(short)) == short == short.replace(priority=2)
    assert short.replace(roles=4).gpus == short.__replace__(roles=4).gpus == 4
    assert type(copy.copy(short)) is Job
    assert Job("q", "a", np.int64(8), priority=2) == short == short.replace(roles=np.int8(8))


@pytest.mark.parametrize(
    ("arguments", "fields", "error", "says"),
    [
        (("q", "a", 4), {"gpus": 8}, ValueError, "^gpus=8: .*roles"),
        (("q", "a"), {"roles": [Role("w")], "gpus": 2}, ValueError, "^gpus=2: .*roles"),
        (("q", "a"), {"gpus": -1}, ValueError, "^gpus=-1"),
        (("q", "a"), {"gpus": "8"}, TypeError, "^gpus must be"),
        (("q", "a", 8.0), {}, TypeError, "^roles must be Roles or a number of GPUs, not float"),
        (("q", "a", "8"), {}, TypeError, "^roles must be Roles or a number of GPUs, not str"),
        (("q", "a", Role("w")), {}, TypeError, "^roles must be a sequence, not Role"),
        (("q", "a"), {}, ValueError, "roles"),
    ],
)
def test_gpus_of_a_job_are_refused_by_name(arguments, fields, error, says):
    with pytest.raises(error, match=says):
        Job(*arguments, **fields)


@pytest.mark.parametrize(
    ("record", "changes", "same"),
    [
        (Role("w", 4), {"pods": 8}, Role("w", 8)),
        (Role("w", 4, min_pods=2), {"pods": 8}, Role("w", 8, min_pods=2)),
        (Role("w", 4), {"pods": 8, "min_pods": 4}, Role("w", 8, min_pods=4)),
        (Role("w"), {"claims": [CLAIM]}, Role("w", claims=[CLAIM])),
        (Role("w", devices=FOUR), {"claims": [CLAIM]}, Role("w", devices=FOUR, claims=[CLAIM])),
        (Role("w"), {"devices": FOUR}, Role("w", devices=FOUR)),
        (Role("w", devices=FOUR), {"devices": None}, Role("w")),
        (Role("w", gpus=2), {"claims": [CLAIM]}, Role("w", gpus=2, claims=[CLAIM])),
        (Job("j", "a", 1), {"tenant": "b"}, Job("j", "b", 1)),
        (Job("j", "a", 1, quota="q"), {"tenant": "b"}, Job("j", "b", 1, quota="q")),
        (QueuedJob("j", "a", 1), {"tenant": "b"}, QueuedJob("j", "b", 1)),
        (QuotaRequest("j", "q", {}, count=2), {"count": 3}, QuotaRequest("j", "q", {}, count=3)),
        (Sharing(2), {"resources": 4}, Sharing(4)),
        (GangSpec("g", 2), {"min_members": 5}, GangSpec("g", 5)),
        (GangSpec("g", 2, groups=["h"]), {"name": "k"}, GangSpec("k", 2, groups=["h"])),
    ],
)
def test_what_followed_from_a_field_follows_from_its_new_value(record, changes, same):
    assert record.replace(**changes) == record.__replace__(**changes) == same
