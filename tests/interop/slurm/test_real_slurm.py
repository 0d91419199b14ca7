"""The broker in front of a real slurmctld with 16 emulated nodes: `make test-slurm`."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from interop.emulated_slurm import MISSING, EmulatedSlurm

from hivecore.interop.slurm.live import Broker
from hivecore.interop.slurm.live.cluster_file import cluster_file, submit_plugin
from hivecore.interop.slurm.live.commands import run_command

yaml = pytest.importorskip("yaml")
from hivecore.interop.scheduler_file import SchedulerSpec  # noqa: E402

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd as another user cannot emulate nodes"),
    pytest.mark.slow,
]


USER = 65534  # one without rights


@contextmanager
def emulated(**options):
    before = os.environ.get("SLURM_CONF")
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # users read the configuration
        slurm = EmulatedSlurm(Path(folder), **options)
        os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
        try:
            yield slurm
        finally:
            slurm.close()
            os.environ.pop("SLURM_CONF")
            if before is not None:
                os.environ["SLURM_CONF"] = before


@pytest.fixture(scope="module")
def slurm():
    # Slurm sees only now and then that a held job depends on nothing any more.
    often = "SchedulerParameters=sched_interval=2\n"
    with emulated(plugin=submit_plugin(typed=True), more=often) as started:
        yield started


def submit(slurm, *options, seconds=1, **more):
    given = ["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", f"sleep {seconds}"]
    return slurm.run(*given, check=True, **more).strip()


def broker_for(quota=False, typed=True, **more):
    text = cluster_file(run_command, typed=typed)
    if quota:
        text += "tenants:\n  main: {quota: {max: {gpu: 128}, min: {gpu: 128}}}\n"
        text += "  spare: {quota: {max: {gpu: 128}}}\n"
    scheduler = SchedulerSpec.of_yaml(text).scheduler()
    return Broker(scheduler, typed=typed, tenant="partition", patience=8, **more)


def steps(broker, until, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        broker.step(time.time())
        if until():
            return
        time.sleep(0.2)
    state = {name: broker.scheduler.state(name) for name in broker.scheduler}
    raise TimeoutError(f"{state} {broker.problems} {run_command(('squeue',))}")


def running(slurm):
    """By running job its nodes, and the GPUs on them, as Slurm says."""
    rows = slurm.run("squeue", "-h", "-t", "running", "-o", "%i").split()
    text = "".join(f"show job {row}\n" for row in rows)
    from hivecore.interop.slurm.live import read_details

    return read_details(slurm.run("scontrol", "-d", "-o", text=text)) if rows else {}


def books(broker):
    scheduler = broker.scheduler
    return {
        name: {pod.node: pod.gpus for pod in scheduler.status(name).pods}
        for name in scheduler
        if scheduler.state(name) == "running"
    }


def is_empty(slurm):
    return not slurm.run("squeue", "-h", check=True).strip()


def test_jobs_run_on_the_nodes_and_gpus_that_were_chosen(slurm):
    broker, seen = broker_for(), {}
    for number in range(40):
        submit(slurm, f"-N{1 + number % 3}", f"--gres=gpu:{1 + number % 8}", seconds=2)

    def until():
        for name, gpus in running(slurm).items():
            if name in broker.scheduler:
                seen[name] = gpus, books(broker).get(name)
        return is_empty(slurm)

    steps(broker, until)
    broker.step(time.time())
    assert len(broker.scheduler) == 0 and not broker.problems
    assert len(seen) > 20
    for gpus, booked in seen.values():
        if booked is not None:
            assert set(gpus) == set(booked)
            assert all(set(gpus[node]) <= set(booked[node]) for node in gpus)


def test_spare_jobs_leave_for_promised_ones_and_come_back(slurm):
    broker = broker_for(quota=True)
    spare = [submit(slurm, "-p", "spare", "--gres=gpu:8", seconds=20) for _ in range(16)]
    steps(broker, lambda: len(running(slurm)) == 16)
    urgent = submit(slurm, "-N2", "--gres=gpu:8", seconds=1)
    steps(broker, lambda: urgent in running(slurm))
    assert len(running(slurm).keys() & set(spare)) == 14
    steps(broker, lambda: len(running(slurm)) == 16 and urgent not in running(slurm))
    slurm.run("scancel", *spare)
    steps(broker, lambda: is_empty(slurm) and not len(broker.scheduler))


def test_a_lost_node_and_a_controller_that_restarts(slurm):
    broker = broker_for()
    jobs = [submit(slurm, "--gres=gpu:8", seconds=60) for _ in range(4)]
    steps(broker, lambda: len(running(slurm)) == 4)
    ((node, _),) = running(slurm)[jobs[0]].items()
    slurm.end(node)
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost", check=True)
    steps(broker, lambda: node not in running(slurm).get(jobs[0], {node: ()}))
    slurm.end("slurmctld", signal.SIGTERM)
    assert broker.step(time.time()) == []
    slurm.start_controller()
    late = submit(slurm, "-N2", "--gres=gpu:8", seconds=60)

    def until():
        now = {name: {*gpus} for name, gpus in running(slurm).items()}
        return late in now and now == {name: {*gpus} for name, gpus in books(broker).items()}

    steps(broker, until)
    slurm.start_node(node)
    slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    slurm.run("scancel", *jobs, late)
    steps(broker, lambda: is_empty(slurm) and not len(broker.scheduler))


def test_a_broker_is_killed_in_mid_round_and_another_goes_on(slurm):
    jobs = [submit(slurm, "--gres=gpu:4", seconds=5) for _ in range(30)]
    command = [sys.executable, "-m", "hivecore", "slurm", "run", "--typed", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        first.stdout.readline()  # it has just notified Slurm, and is killed beside it
        first.send_signal(signal.SIGKILL)
    broker = broker_for()

    def until():
        for name, gpus in running(slurm).items():
            booked = books(broker).get(name)
            assert booked is None or set(gpus) == set(booked)
        return is_empty(slurm)

    steps(broker, until)
    broker.step(time.time())
    assert len(jobs) == 30 and len(broker.scheduler) == 0


def test_elements_of_arrays_and_jobs_that_depend_run_where_all_others_are_excluded(slurm):
    broker = broker_for(how="exclude")
    array = submit(slurm, "--array=1-6", "-N2", "--gres=gpu:8", seconds=2)
    last = submit(slurm, "-d", f"afterany:{array}", "--gres=gpu:3", seconds=2)
    names, seen = {*(f"{array}_{number}" for number in range(1, 7)), last}, {}

    def until():
        now = running(slurm)
        assert last not in now or now.keys() == {last}
        for name in now.keys() & books(broker).keys():
            seen[name] = now[name]
            assert {*now[name]} == {*books(broker)[name]}
        return is_empty(slurm)

    steps(broker, until)
    assert seen.keys() == names and not broker.problems


def test_users_release_no_job_themselves(slurm):
    broker = broker_for()
    job = submit(slurm, "--gres=gpu:8", seconds=1, user=USER)
    for command in (f"release {job}", f"update jobid={job} priority=5"):
        slurm.run("scontrol", *command.split(), user=USER)
    assert slurm.run("squeue", "-h", "-o", "%i %t %Q").split() == [job, "PD", "0"]
    steps(broker, lambda: job in running(slurm))
    steps(broker, lambda: is_empty(slurm))


def test_jobs_run_only_where_they_may_and_what_slurm_alone_can_keep_to_is_left_to_it(slurm):
    slurm.run("scontrol", "update", "nodename=n[03-06]", "availablefeatures=ib", check=True)
    slurm.run("scontrol", "update", "nodename=n[07-08]", "availablefeatures=roce", check=True)
    broker, seen, why = broker_for(), {}, {}
    wishes = {
        submit(slurm, *options, "--gres=gpu:4", seconds=2): nodes
        for options, nodes in (
            (["-C", "ib"], {"n03", "n04", "n05", "n06"}),
            (["-C", "roce|ib", "-x", "n[03-07]"], {"n08"}),
            (["-w", "n12"], {"n12"}),
            (["-N2", "-C", "[ib|roce]"], {f"n0{number}" for number in range(3, 9)}),
        )
        for _ in range(3)
    }

    def until():
        now = running(slurm)  # GPUs of a job that ends meanwhile are not listed
        seen.update({name: gpus for name, gpus in now.items() if all(gpus.values())})
        why.update(broker.problems)
        return is_empty(slurm)

    steps(broker, until)
    assert seen.keys() == wishes.keys()
    for name, nodes in wishes.items():
        assert {*seen[name]} <= nodes
        assert [len(gpus) for gpus in seen[name].values()] == [4] * len(seen[name])
    assert all("left to Slurm" in each for each in why.values()) and len(why) >= 3


def test_a_job_of_whole_nodes_takes_their_gpus_and_wishes_for_switches_are_left_to_slurm(slurm):
    broker, seen, booked, why = broker_for(), {}, {}, {}
    alone = [submit(slurm, "--exclusive", "-N2", "--gres=gpu:1", seconds=3) for _ in range(6)]
    others = [submit(slurm, "--gres=gpu:5", seconds=3) for _ in range(8)]
    left = {
        submit(slurm, *options, "--gres=gpu:1", seconds=3)
        for options in (
            ["-N2", "--switches=1"],
            ["-N2", "--contiguous"],
            ["-N1-2"],
            ["--exclusive=user"],
        )
    }

    def until():
        now = running(slurm)
        seen.update({name: gpus for name, gpus in now.items() if all(gpus.values())})
        booked.update(books(broker))
        why.update(broker.problems | why)
        return is_empty(slurm)

    steps(broker, until)
    assert seen.keys() == {*alone, *others, *left} and why.keys() >= left
    assert all("left to Slurm" in why[name] for name in left)
    for name in alone:
        assert name not in why
        assert [len(gpus) for gpus in booked[name].values()] == [8, 8]
        assert booked[name].keys() == seen[name].keys()


def test_jobs_run_on_gpus_of_their_type():
    models = {"n01": "2080ti", "n02": "a100-sxm4", "n03": "2080ti", "n04": "a100-sxm4"}
    given = {"count": 4, "gpus": 2, "typed": False, "models": models}
    with emulated(plugin=submit_plugin(), **given) as slurm:
        broker, seen = broker_for(typed=False), {}
        names = [
            submit(slurm, f"--gres=gpu:{model}:2", "-p", "main,spare", seconds=3)
            for model in ("a100-sxm4", "2080ti") * 3
        ]

        def until():
            for name, gpus in running(slurm).items():
                seen[name] = gpus
                assert name not in books(broker) or {*gpus} == {*books(broker)[name]}
            return is_empty(slurm)

        steps(broker, until)
    assert seen.keys() == {*names} and not broker.problems
    for number, name in enumerate(names):
        assert all(models[node] == ("a100-sxm4", "2080ti")[number % 2] for node in seen[name])
