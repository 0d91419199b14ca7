import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivecore.cli import main
from hivecore.traces import FORMATS, Trace, TraceFormatError, load, load_virtual_clusters, save_csv

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:00:55,30.5,8,244.0,6214e9
"""
ITP = "job_id,submission_time,duration,num_gpu\nfirst,5010,1265,1\nsecond,5016,2066,16\n"
MURI = """job_id,num_gpu,submit_time,iterations,model_name,duration
0,1,1500,5853661,dqn,2500
1,8,3000,8787693,vgg16,1000
"""
SWF = """; Version: 2.2
; Computer: example
  1  100  5  60  4 -1 -1  8 120 -1 1 3 4 1 2 1 -1 -1
  2  130  0  30 16 -1 -1 -1  60 -1 1 3 4 1 7 1 -1 -1

  3  131 -1  -1  4 -1 -1  4  60 -1 5 3 4 1 2 1 -1 -1
  4  132  0  10 -1 -1 -1 -1  60 -1 1 3 4 1 2 1 -1 -1
  5  133  0   0  4 -1 -1  4  60 -1 1 3 4 1 -1 1 -1 -1
  6  190  0 1.5  2 -1 -1  2  60 -1 1 3 4 1 -1 1 -1 -1 ; a comment
"""
CSV = "job_id,tenant,submit,duration,gpus\na,x,10,60,8\nb,y,0.5,30,1\n"
PHILLY_JSON = """[
{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "attempts": [
  {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09",
   "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]},
  {"start_time": "2017-10-07 01:20:00", "end_time": "2017-10-07 01:21:30",
   "detail": [{"ip": "m4", "gpus": ["gpu0", "gpu1"]}, {"ip": "m5", "gpus": ["gpu3"]}]},
  {"start_time": null, "end_time": "None", "detail": []}
 ], "submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c"},
{"status": "Killed", "vc": "6214e9", "jobid": "application_2", "attempts": [
  {"start_time": "2017-10-07 02:00:00", "end_time": null, "detail": [{"ip": "m4", "gpus": ["g"]}]}
 ], "submitted_time": "2017-10-07 01:11:40", "user": null},
{"status": "Killed", "vc": "6214e9", "jobid": "application_3", "attempts": [],
 "submitted_time": "2017-10-07 01:11:41", "user": "x"}
]
"""
HELIOS = """job_id,user,vc,gpu_num,node_num,state,submit_time,start_time,duration,queue
1425511,uXBbc,vcJkd,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,36848,0
1425512,uVMrF,vchbv,4,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,249,0
1425513,uVMrF,vchbv,0,1,FAILED,2020-06-09 18:41:28,2020-06-09 18:41:28,248,0
"""
PAI = """4f05,ps,1.0,Terminated,100.0,190.0,600.0,29.3,,
4f05,worker,3.0,Terminated,110.0,200.0,600.0,29.3,50.0,MISC
77aa,tensorflow,2.0,Failed,90.0,95.0,600.0,29.3,200.0,V100
88bb,tensorflow,1.0,Waiting,,,600.0,29.3,100.0,T4
99cc,evaluator,1.0,Terminated,5.0,7.0,600.0,29.3,,
"""
DLRM = """instance_sn,role,app_name,gpu_request,creation_time,scheduled_time,deletion_time
instance_1,HN,app_0,1,,,
instance_2,HN,app_1,1,1000.0,1001.0,1060.0
instance_3,CN,app_1,0,1435629.0,1435629.0,1435760.0
instance_4,HN,app_1,1,,,500
"""
SPOT = """job_name,organization,gpu_model,gpu_request,worker_num,submit_time,duration,job_type
239255,13,A10,1,1,0,2764799,HP
437260,57,A100-SXM4-80GB,1,16,9589663,41060,Spot
437261,57,A100-SXM4-80GB,0.5,3,9589664,71718,Spot
"""
GOOD = {
    **{"philly": PHILLY, "itp": ITP, "muri": MURI, "swf": SWF, "csv": CSV, "helios": HELIOS},
    **{"philly-json": PHILLY_JSON, "alibaba-2020": PAI, "alibaba-2025": DLRM},
    "alibaba-2026-spot": SPOT,
}


@pytest.fixture
def write(tmp_path):
    def writer(text, name="jobs.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return writer


def rows(trace):
    names = [trace.tenants[code] for code in trace.tenant]
    columns = (trace.job_id, names, trace.submit, trace.duration, trace.gpus)
    return [tuple(np.array(value).item() for value in row) for row in zip(*columns, strict=True)]


def test_every_format_has_an_example_here():
    assert set(GOOD) == set(FORMATS)


def test_philly_rows_are_sorted_and_belong_to_their_virtual_cluster(write):
    assert rows(load(write(PHILLY), "philly")) == [
        ("1", "6214e9", 0.0, 30.5, 8),
        ("0", "11cb48", 60.0, 66.0, 1),
    ]


def test_an_itp_file_is_one_tenant_and_files_share_one_clock(write):
    east = write(ITP, "east.csv")
    west = write("job_id,submission_time,duration,num_gpu\nother,5000,1,2\n", "west.csv")
    assert rows(load([east, west], "itp")) == [
        ("other", "west", 0.0, 1.0, 2),
        ("first", "east", 10.0, 1265.0, 1),
        ("second", "east", 16.0, 2066.0, 16),
    ]


def test_philly_as_published_adds_up_attempts_of_which_the_times_are_known(write):
    trace = load(write(PHILLY_JSON, "cluster_job_log"), "philly-json")
    assert rows(trace) == [("application_1", "ee9e8c", 0.0, 150.0, 3)]
    assert trace.dropped == {"missing duration": 2}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"vc": "ee9e8c", ', "", r"required field `vc` - at `\$\[0\]`"),
        ('"gpus": ["g"]', '"gpus": 3', r"Expected `array`, got `int` - at `\$\[1\]\.attempts"),
        ("2017-10-07 02:00:00", "2017-10-07", "job 'application_2': not a time: .*'2017-10-07'"),
        ("2017-10-07 01:11:41", "None", "job 'application_3' is without submitted_time"),
        (PHILLY_JSON, "[]", "no job in the file"),
        (PHILLY_JSON, "[{", "not JSON"),
    ],
)
def test_what_is_no_log_of_philly_is_named(old, new, problem, write):
    assert old in PHILLY_JSON
    with pytest.raises(TraceFormatError, match=problem):
        load(write(PHILLY_JSON.replace(old, new)), "philly-json")


def test_a_job_of_philly_with_an_attempt_of_negative_length_is_dropped(write):
    more = PHILLY_JSON.replace('"end_time": null', '"end_time": "2017-10-07 03:00:00"')
    later = more.replace('"end_time": "2017-10-07 01:13:09"', '"end_time": "2017-10-07 01:12:00"')
    trace = load(write(later, "part"), "philly-json")
    assert rows(trace) == [("application_2", "6214e9", 0.0, 3600.0, 1)]
    assert trace.dropped == {"negative duration": 1, "missing duration": 1}


@pytest.mark.parametrize("amount", ["1e16", "1e19", "1e308"])
def test_more_gpus_than_can_be_counted_are_refused(amount, write):
    with pytest.raises(TraceFormatError, match=r"job '437260' has \S+ GPUs, at most 2\*\*53"):
        load(write(SPOT.replace("80GB,1,16", f"80GB,{amount},16")), "alibaba-2026-spot")
    with pytest.raises(TraceFormatError, match=r"job '77aa' has \S+ GPUs, at most 2\*\*53"):
        load(write(PAI.replace("77aa,tensorflow,2.0", f"77aa,t,{amount}")), "alibaba-2020")


def test_helios_jobs_belong_to_their_virtual_cluster_and_need_gpus(write):
    trace = load(write(HELIOS), "helios")
    assert rows(trace) == [
        ("1425511", "vcJkd", 0.0, 36848.0, 1),
        ("1425512", "vchbv", 26.0, 249.0, 4),
    ]
    assert trace.dropped == {"zero GPUs": 1}


def test_tasks_of_pai_are_jobs_with_the_users_of_the_table_beside(write):
    tasks = write(PAI, "pai_task_table.csv")
    alone = load(tasks, "alibaba-2020")
    assert rows(alone) == [
        ("77aa", "pai_task_table", 0.0, 5.0, 4),
        ("4f05", "pai_task_table", 10.0, 100.0, 2),  # 3 x 50 %
    ]
    assert alone.dropped == {"missing duration": 1, "zero GPUs": 1}
    write("4f05,i,u1,Terminated,40,200\n77aa,j,u2,Failed,,95\n", "pai_job_table.csv")
    assert rows(load(tasks, "alibaba-2020")) == [
        ("4f05", "u1", 0.0, 100.0, 2),
        ("77aa", "u2", 50.0, 5.0, 4),
    ]
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,g\n"
    assert rows(load(write(header + PAI, "t.csv"), "alibaba-2020"))[0][0] == "77aa"


def test_instances_before_and_after_the_trace_count_within_it(write):
    trace = load(write(DLRM), "alibaba-2025")
    assert rows(trace) == [
        ("instance_1", "app_0", 0.0, 1435760.0, 1),
        ("instance_4", "app_1", 0.0, 500.0, 1),
        ("instance_2", "app_1", 1000.0, 60.0, 1),
    ]
    assert trace.dropped == {"zero GPUs": 1}


def test_spot_jobs_of_an_organization_are_a_tenant_of_their_own(write):
    assert rows(load(write(SPOT), "alibaba-2026-spot")) == [
        ("239255", "13", 0.0, 2764799.0, 1),
        ("437260", "57 spot", 9589663.0, 41060.0, 16),
        ("437261", "57 spot", 9589664.0, 71718.0, 2),  # 3 x 0.5
    ]


def test_two_one_tenant_files_of_one_name_are_refused(write, tmp_path):
    first = write(ITP, "east.csv")
    (tmp_path / "other").mkdir()
    second = write(ITP, "other/east.csv.gz")
    with pytest.raises(ValueError, match="2 files are named 'east'"):
        load([first, second], "itp")


def test_muri_times_are_milliseconds(write):
    assert rows(load(write(MURI, "trace1.csv"), "muri")) == [
        ("0", "trace1", 0.0, 2.5, 1),
        ("1", "trace1", 1.5, 1.0, 8),
    ]


def test_swf_takes_requested_processors_and_queues_and_counts_what_never_ran(write):
    trace = load(write(SWF, "log.swf"), "swf")
    assert rows(trace) == [
        ("1", "queue 2", 0.0, 60.0, 8),
        ("2", "queue 7", 30.0, 30.0, 16),
        ("6", "unknown queue", 90.0, 1.5, 2),
    ]
    assert trace.dropped == {"unknown run time": 1, "unknown size": 1, "zero duration": 1}


def swf_line(job, submit, run, status, allocated=4, requested=4, queue=3):
    return (
        f"{job} {submit} 5 {run} {allocated} -1 -1 {requested} 90 -1 {status} 1 1 1 {queue} 1 -1 -1"
    )


SUMMARY = swf_line(7, 10, 100, 1)
PARTS = [swf_line(7, 10, 40, 2), swf_line(7, -1, 35, 2), swf_line(7, -1, 25, 3)]
OTHER = swf_line(8, 30, 50, 1, requested=2)


def swf_rows(write, *lines):
    trace = load(write("\n".join(lines) + "\n", "log.swf"), "swf")
    return [row[:1] + row[2:] for row in rows(trace)], dict(trace.dropped)


@pytest.mark.parametrize("seed", range(8))
def test_partial_executions_are_in_the_line_about_all_of_their_job(write, seed):
    lines = [SUMMARY, *PARTS, OTHER]
    order = np.random.default_rng(seed).permutation(len(lines))
    jobs = swf_rows(write, *(lines[at] for at in order))
    assert jobs == ([("7", 0.0, 100.0, 4), ("8", 20.0, 50.0, 2)], {})


@pytest.mark.parametrize(
    ("lines", "job"),
    [
        (PARTS, ("7", 0.0, 100.0, 4)),
        (PARTS[::-1], ("7", 0.0, 100.0, 4)),
        (PARTS[:2], ("7", 0.0, 75.0, 4)),
        (PARTS[:1], ("7", 0.0, 40.0, 4)),
        ([swf_line(7, 10, 40, 4)], ("7", 0.0, 40.0, 4)),
        ([SUMMARY, PARTS[2]], ("7", 0.0, 100.0, 4)),
        ([swf_line(7, -1, 100, 0), PARTS[0]], ("7", 0.0, 100.0, 4)),
        ([swf_line(7, 10, -1, 0), *PARTS], ("7", 0.0, 100.0, 4)),
        ([swf_line(7, 10, -1, 5), *PARTS], ("7", 0.0, 100.0, 4)),
        ([swf_line(7, 10, 100, 1, -1, -1), *PARTS], ("7", 0.0, 100.0, 4)),
        ([PARTS[0], swf_line(7, -1, -1, 2), PARTS[2]], ("7", 0.0, 65.0, 4)),
        ([swf_line(7, 10, 40, 2, 8, -1), swf_line(7, 60, 60, 3, 6, -1)], ("7", 0.0, 100.0, 8)),
    ],
)
def test_partial_executions_without_all_of_their_lines_are_one_job(write, lines, job):
    assert swf_rows(write, *lines, OTHER) == ([job, ("8", 20.0, 50.0, 2)], {})


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (PARTS[1:], "unknown submit time"),
        ([swf_line(7, 10, -1, 2), swf_line(7, -1, -1, 3)], "unknown run time"),
        ([swf_line(7, 10, 40, 2), swf_line(7, -1, -30, 3)], "negative run time"),
        ([swf_line(7, 10, 40, 3, -1, -1)], "unknown size"),
        ([swf_line(7, 10, -30, 1)], "negative run time"),
        ([swf_line(7, 10, 30, 1, -2, -1)], "negative size"),
        ([swf_line(7, 10, 0, 2), swf_line(7, -1, 0, 3)], "zero duration"),
    ],
)
def test_a_job_of_which_too_little_is_known_is_dropped_once(write, lines, reason):
    assert swf_rows(write, *lines, OTHER) == ([("8", 0.0, 50.0, 2)], {reason: 1})


def test_partial_executions_without_a_job_number_belong_to_those_beside_them(write):
    lines = [swf_line(-1, at, 10, status) for at, status in ((0, 2), (-1, 3), (5, 2), (-1, 4))]
    jobs, dropped = swf_rows(write, *lines, OTHER)
    assert [row[2] for row in jobs] == [20.0, 20.0, 50.0]
    assert dropped == {}


def test_only_a_partial_execution_may_lack_its_submission(write):
    with pytest.raises(TraceFormatError, match="field 'submit time': -1 is not a number"):
        swf_rows(write, swf_line(9, -1, 10, 1), *PARTS)


@pytest.mark.parametrize(
    "comment",
    [
        "; Installation: Universit\u00e4t".encode("latin-1"),
        b"; a\x0bb",
        b"; a\x0cb",
        "; a\u2028b".encode(),
        "; a\u0085b".encode(),
    ],
)
def test_a_comment_of_a_workload_log_may_have_any_characters(comment, write):
    log = b"\n".join([comment, OTHER.encode()])
    assert rows(load(write(log, "a.swf"), "swf")) == [("8", "queue 3", 0.0, 50.0, 2)]
    with pytest.raises(TraceFormatError, match=":2: 1 fields instead of 18"):
        load(write(log.replace(OTHER.encode(), b"bad"), "a.swf"), "swf")


def test_a_status_of_a_workload_log_is_a_number(write):
    with pytest.raises(TraceFormatError, match=":2: field 'status': nan is not a finite number"):
        load(write("\n".join([OTHER, swf_line(7, 10, 40, "nan")]), "a.swf"), "swf")


@pytest.mark.parametrize("number", ["1_0", "0x10", "\u0661", "\ufffd"])
def test_a_number_that_only_another_language_reads_is_named(number, write):
    log = write(OTHER.replace(" 50 ", f" {number} ", 1), "a.swf")
    with pytest.raises(TraceFormatError, match=r":1: field 'run time': .* is not a number"):
        load(log, "swf")


def test_the_own_layout_names_the_tenant_in_each_row(write):
    assert rows(load(write(CSV), "csv")) == [("b", "y", 0.0, 30.0, 1), ("a", "x", 9.5, 60.0, 8)]


@pytest.mark.parametrize("format", FORMATS)
def test_packed_files_are_unpacked(format, write):
    plain = load(write(GOOD[format], "jobs.csv"), format)
    packed = load(write(gzip.compress(GOOD[format].encode()), "jobs.csv.gz"), format)
    assert rows(plain) == rows(packed)


@pytest.mark.parametrize("format", FORMATS)
def test_byte_order_mark_and_windows_line_ends_are_accepted(format, write):
    text = "\ufeff" + GOOD[format].replace("\n", "\r\n")
    assert rows(load(write(text), format)) == rows(load(write(GOOD[format]), format))


def test_columns_are_found_by_name_and_other_columns_ignored(write):
    text = 'gpus,note,submit,tenant,job_id,duration\n8,"a, b\nc",10,x,a,60\n'
    assert rows(load(write(text), "csv")) == [("a", "x", 0.0, 60.0, 8)]


def malformed(format, old, new, line, field=None):
    return pytest.param(format, old, new, line, field, id=f"{format}-{new.strip()[:20] or 'blank'}")


@pytest.mark.parametrize(
    ("format", "old", "new", "line", "field"),
    [
        malformed("csv", "0.5", "soon", 3, "submit"),
        malformed("csv", "0.5", "nan", 3, "submit"),
        malformed("csv", "0.5", "inf", 3, "submit"),
        malformed("csv", "0.5", "-0.5", 3, "submit"),
        malformed("csv", "0.5", "", 3, "submit"),
        malformed("csv", ",30,", ",3O,", 3, "duration"),
        malformed("csv", "60,8", "60,1.5", 2, "gpus"),
        malformed("csv", "60,8", "60,1e300", 2, "gpus"),
        malformed("csv", ",x,", ", ,", 2, "tenant"),
        malformed("csv", "a,x,", ",x,", 2, "job_id"),
        malformed("csv", "b,y,0.5,30,1", "b,y,0.5,30", 3),
        malformed("csv", "b,y,0.5,30,1", "b,y,0.5,30,1,1", 3),
        malformed("csv", "a,x,10", "\n\na,x,ten", 4, "submit"),
        malformed("csv", "a,x,10", '"two\nlines",x,ten', 3, "submit"),
        malformed("csv", "job_id,", "id,", 1),
        malformed("csv", "submit", "gpus", 1),
        malformed("philly", "2017-10-09 07:00:55", "2017-10-09", 3, "timestamp"),
        malformed("philly", "2017-10-09 07:00:55", "2017-13-09 07:00:55", 3, "timestamp"),
        malformed("philly", "2017-10-09 07:00:55", "NaT", 3, "timestamp"),
        malformed("philly", "30.5", "thirty", 3, "duration"),
        malformed("philly", ",8,", ",eight,", 3, "num_gpus"),
        malformed("philly", "6214e9", "", 3, "cluster"),
        malformed("itp", "5016", "x", 3, "submission_time"),
        malformed("itp", ",16", ",-1.5", 3, "num_gpu"),
        malformed("muri", "3000", "?", 3, "submit_time"),
        malformed("muri", "1,8,", "1,0.5,", 3, "num_gpu"),
        malformed("helios", "2020-06-09 18:41:27,2020", "soon,2020", 3, "submit_time"),
        malformed("alibaba-2020", "110.0", "soon", 2, "start_time"),
        malformed("alibaba-2020", ",200.0,V", ",V", 3),
        malformed("alibaba-2025", "1000.0", "-1", 3, "creation_time"),
        malformed("alibaba-2026-spot", "9589664", "later", 4, "submit_time"),
        malformed("swf", "  2  130", "  2  soon", 4, "submit time"),
        malformed("swf", "  2  130", "  2  -1", 4, "submit time"),
        malformed("swf", "  0  30 16", "  0  nan 16", 4, "run time"),
        malformed("swf", " 30 16 -1 -1 -1", " 30 16 -1 -1 1.5", 4, "requested processors"),
        malformed("swf", " 30 16", " 30 1.5", 4, "allocated processors"),
        malformed("swf", " 7 1 -1 -1\n", " 7 1 -1\n", 4),
        malformed("swf", "  3  131", "  3 9 131", 6),
        malformed("swf", "4 1 2 1 -1 -1\n  4", "4 1 2 1 -1 x\n  4", 6, "field 18"),
    ],
)
def test_a_malformed_line_is_named(format, old, new, line, field, write):
    text = GOOD[format]
    assert old in text
    path = write(text.replace(old, new, 1))
    with pytest.raises(TraceFormatError) as caught:
        load(path, format)
    assert (caught.value.path, caught.value.line, caught.value.field) == (path, line, field)
    assert str(caught.value).startswith(f"{path}:{line}: ")


COLUMNS = {
    "philly": ("30.5", "8,244.0", 1),
    "itp": ("2066", "16\n", 1),
    "muri": ("vgg16,1000", "1,8,3000", 0.001),
    "csv": (",30,1", "60,8", 1),
}


@pytest.mark.parametrize("format", COLUMNS)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing"),
        (" ", "missing"),
        ("None", "missing"),
        ("NULL", "missing"),
        ("nan", "missing"),
        ("N/A", "missing"),
        ("\\N", "missing"),
        ("-1", "negative"),
        ("-4.0", "negative"),
        ("0", "zero"),
        ("0.0", "zero"),
    ],
)
def test_a_job_without_a_duration_or_gpus_is_dropped_and_counted(format, text, reason, write):
    duration, gpus, _ = COLUMNS[format]
    digits = "".join(char for char in duration.rpartition("vgg16,")[2] if char in "0123456789.")
    first = duration.replace(digits.strip(","), text, 1)
    if format == "csv":
        first = f",{text},1"
    whole = {
        "philly": f"{text},244.0",
        "itp": f"{text}\n",
        "muri": f"1,{text},3000",
        "csv": f"60,{text}",
    }
    for old, new, what in ((duration, first, "duration"), (gpus, whole[format], "GPUs")):
        assert old in GOOD[format]
        trace = load(write(GOOD[format].replace(old, new, 1)), format)
        assert (trace.jobs, trace.dropped) == (1, {f"{reason} {what}": 1})


def test_an_endless_job_is_dropped(write):
    trace = load(write(CSV.replace(",30,", ",inf,")), "csv")
    assert (trace.job_id.tolist(), trace.dropped) == (["a"], {"infinite duration": 1})


def test_of_several_malformed_lines_the_first_is_named(write):
    jobs = [f"{job},x,{job},60,8" for job in range(500)]
    jobs[333] = "333,x,333,60,eight"
    jobs[111] = "111,x,111,none,8"
    jobs[222] = "222,x,222,ten,8"
    jobs[444] = "444,x"
    with pytest.raises(TraceFormatError) as caught:
        load(write("job_id,tenant,submit,duration,gpus\n" + "\n".join(jobs)), "csv")
    assert (caught.value.line, caught.value.field) == (224, "duration")
    assert "'ten' is not a finite number" in str(caught.value)


HEAD = "job_id,tenant,submit,duration,gpus\n"


@pytest.mark.parametrize(
    ("text", "says", "name"),
    [
        ("", "empty file", "jobs.csv"),
        ("\n\n", "empty file", "jobs.csv"),
        (HEAD, "no job in the file", "jobs.csv"),
        (f"{HEAD}a,x,0,0,1\n", "at least one job that ran", "jobs.csv"),
        (
            f"{HEAD}a,x,0,-1,1\nb,x,0,1,0\n",
            "dropped are jobs: 1 of negative duration, 1 of zer",
            "jobs.csv",
        ),
        (HEAD.encode() + b"a,\xff,0,0,1\n", ":2: not UTF-8 text", "jobs.csv"),
        (CSV + "x" * 200_000, ":4: not CSV", "jobs.csv"),
        (CSV, "no gzip file", "jobs.csv.gz"),
        ("; Version: 2.2\n\n", "no job in the file", "log.swf"),
        (f"{OTHER}\x0c{OTHER}", ":1: 36 fields instead of 18", "log.swf"),
    ],
    ids=range(10),
)
def test_a_file_that_is_no_trace_is_an_error(text, says, name, write):
    with pytest.raises(TraceFormatError, match=says):
        load(write(text, name), "swf" if name == "log.swf" else "csv")


@pytest.mark.parametrize(
    ("format", "old", "new", "says"),
    [
        ("csv", ",30,", ",99999999999999,", ":3: job 'b' runs for 1e+14 s, at most 2**40 s"),
        ("csv", "b,y,0.5", "b,y,1e14", ":3: job 'b' is submitted 1e+14 s after the first job"),
        (
            "csv",
            "60,8",
            "60,99999999999999999999",
            "'99999999999999999999' is too large, at",
        ),
        ("philly", "30.5", "1e13", ":3: job '1' runs for 1e+13 s"),
        ("itp", "2066", "1e13", ":3: job 'second' runs for 1e+13 s"),
        ("muri", "vgg16,1000", "vgg16,1e16", ":3: job '1' runs for 1e+13 s"),
        ("swf", "  0  30 16", "  0  1e13 16", ":4: job '2' runs for 1e+13 s"),
    ],
)
def test_a_number_that_is_too_large_is_named_with_its_line(format, old, new, says, write):
    assert GOOD[format].count(old) == 1
    with pytest.raises(TraceFormatError) as caught:
        load(write(GOOD[format].replace(old, new)), format)
    assert says in str(caught.value)


def test_arguments_are_checked(write, tmp_path):
    with pytest.raises(ValueError, match="format must be one of philly, itp"):
        load(write(CSV), "json")
    with pytest.raises(ValueError, match="at least one file"):
        load([], "csv")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.csv", "csv")


text_strategy = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
job_strategy = st.tuples(
    text_strategy.filter(str.strip),
    text_strategy.filter(str.strip),
    st.floats(0, 1e9),
    st.floats(1e-9, 1e9),
    st.integers(1, 2**40),
)


@given(st.lists(job_strategy, min_size=1, max_size=8), st.sampled_from(["t.csv", "t.csv.gz"]))
def test_a_saved_trace_is_read_back_bit_for_bit(jobs, name):
    ids, tenants, submit, duration, gpus = zip(*jobs, strict=True)
    trace = Trace.from_columns(ids, tenants, submit, duration, gpus)
    with tempfile.TemporaryDirectory() as folder:
        save_csv(trace, Path(folder) / name)
        assert rows(load(Path(folder) / name, "csv")) == rows(trace)


def test_virtual_clusters_are_read_in_file_order(write):
    assert load_virtual_clusters(write("vc,node num\nB,64\nA,1\n")) == {"B": 64, "A": 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vc,nodes\nA,1\n", "no column 'node num'"),
        ("vc,node num\nA,1\nA,2\n", "'A' is listed twice"),
        ("vc,node num\nA,0\n", "'A' owns no node"),
        ("vc,node num\nA,-1\n", ":2: field 'node num': '-1' is not a whole number"),
    ],
)
def test_malformed_virtual_clusters_are_errors(text, says, write):
    with pytest.raises(TraceFormatError, match=says):
        load_virtual_clusters(write(text))


@pytest.mark.parametrize(
    ("format", "options"),
    [("storage", ["--system", "silod"]), ("muri", ["--policy", "srtf", "--nodes", "1"])],
)
def test_the_command_says_which_jobs_of_a_trace_are_left_out(format, options, write, capsys):
    texts = {
        "storage": "job_id,dataset,dataset_gb,epochs,rate_mbps,gpus,submit\n"
        "a,x,100,1,114,1,0\nb,x,100,,114,1,0\n",
        "muri": "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time,"
        "resource_time_0,resource_time_1,resource_time_2\n"
        "a,1,0,10,bert,1,200,82,75,66\nb,1,0,,bert,1,200,82,75,66\n",
    }
    path = str(write(texts[format]))
    kind = {"storage": "storage", "muri": "jobs"}[format]
    assert main(["replay", kind, path, *options]) == 0
    missing = {"storage": "epochs", "muri": "iterations"}[format]
    assert f"1 job of the trace dropped: missing {missing}." in capsys.readouterr().out
