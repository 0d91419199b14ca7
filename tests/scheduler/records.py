"""How to make a random record of each type of the scheduler."""

from hypothesis import strategies as st

from hivecore.decisions import Refusal
from hivecore.devices import DeviceNeed, DeviceRequest, LabelExpression
from hivecore.scheduler import (
    Data,
    EvictionLimit,
    Fit,
    Fragments,
    FreeDomain,
    FreeNodes,
    Job,
    JobDifference,
    JobStanding,
    JobStatus,
    LogDifference,
    LogFigures,
    LogStanding,
    Move,
    PlacedPod,
    Preempt,
    Promote,
    Reject,
    Role,
    SchedulerSummary,
    SetCache,
    SetRemoteIO,
    Sharing,
    Shrink,
    Start,
    Stop,
    StoragePool,
    TakeOver,
    TenantSummary,
    Wait,
    Where,
)

__all__ = ["RECORDS"]

texts = st.text(max_size=4)
names = st.text('abc"\\é\u2603', min_size=1, max_size=3)
integers = st.integers(0, 2**31 - 1)
floats = st.floats(0.0, 1e15)
positive = st.floats(1e-9, 1e9)


def tuples(each, least=0, **options):
    return st.lists(each, min_size=least, max_size=3, **options).map(tuple)


def pairs(keys, values):
    return st.dictionaries(keys, values, max_size=3).map(lambda them: tuple(sorted(them.items())))


RECORDS = {}


def record(kind, *arguments, **fields):
    RECORDS[kind] = st.builds(kind, *arguments, **fields)
    return RECORDS[kind]


refusal = record(Refusal, texts, texts, texts, texts)
pod = record(PlacedPod, names, integers, texts, pairs(names, tuples(integers)))
pods = tuples(pod)
record(Promote, names, pods)
record(Fit, names)
record(FreeDomain, names, texts)
record(FreeNodes, tuples(names, least=1))
record(StoragePool, pairs(names, positive), floats, floats, st.sampled_from(["greedy", "sjf"]))
record(Preempt, names, names, texts)
record(Stop, names, pods, names)
record(TakeOver, names, pods, pods)
record(Shrink, names, pods, names, texts)
record(Wait, names, refusal)
record(Reject, names, texts)
record(SetCache, names, integers)
record(SetRemoteIO, names, floats)
shared = tuples(names).flatmap(
    lambda others: st.tuples(
        st.just(others),
        st.tuples(*[st.integers(0, 8)] * (len(others) + bool(others))),
    )
)
RECORDS[Start] = st.builds(
    lambda job, pods, shared, lent: Start(job, pods, *shared, lent=lent),
    *(names, pods, shared, st.booleans()),
)
RECORDS[Move] = st.builds(
    lambda job, pods, before, shared: Move(job, pods, before, *shared), names, pods, pods, shared
)

data = record(Data, names, positive, st.just(float("inf")) | positive)
places = {
    **dict.fromkeys(("leaf_type", "pinned_cell", "within", "must", "prefer"), texts),
    "nodes": tuples(names, unique=True),
}
where = record(Where, **places, multiple=pairs(names, st.integers(1, 9)))
operators = st.sampled_from(["In", "NotIn"])
labels = st.builds(LabelExpression, names, operators, tuples(texts, 1))
rules = st.tuples(names, texts) | labels
selectors = st.lists(
    rules, max_size=2, unique_by=lambda rule: rule[0] if type(rule) is tuple else rule
)
nics = st.builds(
    DeviceNeed,
    st.just("rdma"),
    st.integers(1, 4),
    st.just({"share": 50}),
    selector=selectors,
    vf_selector=st.none() | selectors,
    scope=st.sampled_from([None, "pcie", "node"]),
)
requests = st.builds(
    lambda nic, **options: DeviceRequest("any pod", needs=[nic], **options),
    nics,
    gpus=st.integers(0, 4),
    models=tuples(names),
    isolation_provider=texts,
) | st.builds(
    DeviceRequest, st.just("any pod"), gpus=st.integers(1, 4), memory=st.integers(1, 2**40)
)
role = record(
    Role,
    names,
    st.integers(5, 9),
    min_pods=st.none() | st.integers(1, 5),
    devices=st.none() | requests,
    resources=pairs(names, st.integers(0, 9)),
) | st.builds(Role, names, gpus=st.integers(0, 8))
lone = st.builds(Role, names, spares=st.integers(0, 2), max_pods=st.none() | st.integers(1, 9))
job = (
    record(
        Job,
        names.map(lambda name: f"{name}0"),
        names,
        tuples(role, 1, unique_by=lambda role: role.name),
        priority=st.integers(-1000, 1000),
        run_time=st.none() | positive,
        stages=st.just(()) | tuples(positive, 1),
        after=tuples(names),
        together=tuples(names),
        quota=texts,
        preemptible=st.booleans(),
        where=st.builds(Where, **places),
        data=st.none() | data,
    )
    | st.builds(Job, names, names, st.integers(1, 99), where=where)
    | st.builds(
        Job,
        names,
        names,
        tuples(lone, 1, unique_by=lambda role: role.name),
        guaranteed=st.booleans(),
        on_failure=st.sampled_from(["pod", "pod-then-job"]),
    )
)
record(
    EvictionLimit,
    names,
    min_run_time=st.floats(0, 1e6),
    per_hour=st.none() | st.integers(0, 9),
)
record(Fragments, tuples(st.integers(1, 8)))
record(
    Sharing,
    st.integers(4, 8),
    st.none() | st.integers(2, 4),
    any_tenant=st.booleans(),
    min_gain=st.floats(0.001, 1),
    max_slowdown=st.none() | st.floats(1.0, 9.0),
    restart_cost=st.floats(0, 1e9),
)

record(
    JobStatus,
    texts,
    pods,
    st.none() | floats,
    tuples(texts),
    texts,
    st.booleans(),
    st.booleans(),
    tuples(texts),
    st.none() | refusal,
    tuples(texts),
)
tenant = record(TenantSummary, texts, *[integers] * 5)
counts = pairs(names, integers)
record(SchedulerSummary, floats, tuples(tenant), counts, tuples(texts))
times = tuples(st.tuples(floats, integers))
difference = record(
    JobDifference,
    *(texts, texts, integers, floats, st.none() | floats, st.none() | floats, texts, texts),
)
figures = record(LogFigures, *[integers] * 3, floats, integers, floats, floats, times, times)
record(LogDifference, floats, floats, tuples(difference), figures, figures, integers, integers)
standing = record(JobStanding, texts, texts, integers, texts, floats, texts)
record(LogStanding, floats, *[integers] * 3, tuples(standing), integers, integers)
RECORDS[Role], RECORDS[Job] = role, job
