"""The `hivecore` command: simulations, quotas, configurations, and `serve`."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from threading import current_thread, main_thread
from time import sleep
from typing import Any, NoReturn

from hivecore import __version__
from hivecore._ctrl_c import held_back
from hivecore.interop.quota_file import read_quota_file
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.interop.scheduler_file.init_command import add_init_command
from hivecore.interop.serve_command import add_serve_command
from hivecore.interop.validate_command import add_validate_command
from hivecore.sim import (
    LENDING,
    POLICIES,
    Replay,
    Workload,
    findings,
    own_nodes,
    replay,
    sweep,
)
from hivecore.sim.console import (
    Watch,
    between,
    count,
    counts,
    file_names,
    named,
    number,
    print_dropped,
    print_sentence,
    print_table,
    print_times,
    progress_bar,
    say_written,
    try_outputs,
    write_json,
)
from hivecore.sim.demo.command import add_demo_command
from hivecore.sim.devices import SHARING_POLICIES
from hivecore.sim.devices.command import (
    DEVICE_OPTIONS,
    OPENB_FORMAT,
    add_device_options,
    replay_openb,
)
from hivecore.sim.logs.command import add_log_command
from hivecore.sim.plots import save_plots
from hivecore.sim.preemptive import (
    JOB_POLICIES,
    Jobs,
    MuriOptions,
    RandomFailures,
    job_figures,
    schedule,
)
from hivecore.sim.preemptive.plots import save_job_plots
from hivecore.sim.preemptive.report import jobs_table, jobs_to_json
from hivecore.sim.quotas.command import add_quota_command
from hivecore.sim.report import notes, sweep_table, sweep_to_json, table, to_json
from hivecore.sim.specs.command import (
    add_spec_options,
    named_specs,
    replay_with_specs,
    tenant_names,
)
from hivecore.sim.storage import GPU_POLICIES
from hivecore.sim.storage.command import (
    STORAGE_FORMAT,
    STORAGE_OPTIONS,
    add_storage_options,
    replay_storage,
)
from hivecore.sim.workload import GPUS_PER_NODE
from hivecore.traces import FORMATS, Trace, load, load_training, load_virtual_clusters

__all__ = ["main"]

# Three trainers (the first, third and fifth) and two experimenters.
_SWEPT_NODES = {"vision": 10, "search": 14, "speech": 8, "ads": 16, "robots": 6}

_TENANT_OPTIONS = ("virtual_clusters", "oversubscribe", "load", "opportunistic")
_JOB_OPTIONS = ("nodes", "job_mtbf", "node_mtbf", "seed", "candidates", "autopack")
_HOUR = 3600.0
# Beyond these a command would take days, or more memory than there is.
_MOST_NODES, _MOST_OF_JOBS, _MOST_SEEDS, _MOST_JOBS = 10**6, 10**5, 10**4, 10**7
_FACTOR = between(1e-6, 1e6)
_MTBF = between(0.01, 1e9)
_NEEDS: dict[str, Any] = {"needs": ("rich", "tqdm", "matplotlib", "joblib"), "extra": "sim"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and returns its exit status.

    :param argv: arguments without the program's name; those of the process by default.

    Returns 0, or 1 if an extra library is missing or a configuration has mistakes. Wrong arguments
    and files that cannot be read or written end with status 2 and a message (`SystemExit`).

    :raises BrokenPipeError: nobody reads the output any more.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    missing = [name for name in arguments.needs if not find_spec(name)]
    if missing:
        print(
            f"hivecore {arguments.command} needs {', '.join(missing)}: "
            f"pip install 'hivecore[{arguments.extra}]'",
            file=sys.stderr,
        )
        return 1
    given = sys.argv[1:] if argv is None else argv
    command: Callable[[argparse.Namespace], int | None] = arguments.run
    try:
        _check_file_names(arguments, given)
        return command(arguments) or 0
    except BrokenPipeError:
        raise
    except OSError as error:
        _fail(parser, _of_file(error, arguments, given))
    except (ImportError, ValueError) as error:
        _fail(parser, str(error))
    except MemoryError:
        _fail(parser, "there is not enough memory for this")


def _fail(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"hivecore: error: {message}\n")


def _check_file_names(arguments: argparse.Namespace, given: Sequence[str]) -> None:
    """Refuse an empty name of a file, which would be that of the folder here."""
    values = [one for value in vars(arguments).values() for one in _listed(value)]
    if Path() not in values and "" not in getattr(arguments, "traces", ()):
        return
    for before, text in zip(("", *given), given, strict=False):
        option, is_joined, value = text.partition("=")
        if text == "" or (is_joined and not value and option.startswith("--")):
            option = option or (before if before.startswith("--") else "")
            raise ValueError(f"{option}{': ' if option else ''}the name of a file is empty")


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _of_file(error: OSError, arguments: argparse.Namespace, given: Sequence[str]) -> str:
    """What is wrong, after the file and the option that names it."""
    paths = {
        str(path): f"--{name.replace('_', '-')}"
        for name, value in vars(arguments).items()
        for path in _listed(value)
        if isinstance(path, Path) or name == "traces"
    }
    file, what = error.filename, error.strerror or str(error)
    if file is None:
        # Errors of a server without a file are those of its address.
        known = arguments.command != "serve" or error.errno == errno.EIO
        return f"{', '.join(paths)}: {what}" if paths and known else what
    # A folder of an output may be missing, or be a file.
    for path in (str(file), *(path for path in paths if Path(str(file)) in Path(path).parents)):
        option = paths.get(path, "")
        if any(text.partition("=")[0] == option for text in given):
            return f"{option} {file}: {what}"
    return f"{file}: {what}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hivecore",
        description="Trace-driven simulation of multi-tenant GPU clusters, elastic quotas, "
        "scheduler extenders.",
        epilog="Exit status: 0; 1 if a library is missing or a configuration has mistakes; 2 for "
        "wrong arguments and files that cannot be read or written; 130 after Ctrl-C; 141 if the "
        "reader of the output has gone.",
    )
    parser.add_argument("--version", action="version", version=f"hivecore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    one = commands.add_parser(
        "replay",
        help="replay traces through private clusters, quotas and cells, or under job policies",
        description="Replays a trace through private clusters, quotas and cells (FIFO per tenant) "
        "and reports queueing delay and excess over the private cluster per tenant; or, with job "
        "policies, runs the training jobs of a trace in Muri's format under policies that stop and "
        "restart jobs, or let several share GPUs, and reports completion times; or, with --storage,"
        f" lets jobs share GPUs, cache and remote IO; or, with --format {OPENB_FORMAT}, lets pods "
        "that share GPUs come to a cluster until they ask for more than it has, and reports what "
        "is allocated; or, with --spec, runs the jobs of any trace under the schedulers that files "
        "describe, side by side.",
    )
    one.set_defaults(run=_replay, **_NEEDS)
    one.add_argument(
        "traces",
        nargs="+",
        metavar="TRACE",
        help=f"trace file, .gz is unpacked; with --format {OPENB_FORMAT} two, NODES PODS, or with "
        "--spec one: PODS",
    )
    one.add_argument(
        "--policy",
        choices=tuple(
            dict.fromkeys((*POLICIES, LENDING, *JOB_POLICIES, *GPU_POLICIES, *SHARING_POLICIES))
        ),
        nargs="+",
        metavar="NAME",
        help=f"of tenants: {', '.join(POLICIES)} (default: these three), "
        f"{LENDING}: cells on which waiting jobs may run while they are idle; of training jobs, "
        f"with --format muri: {', '.join(JOB_POLICIES)}; with --storage: "
        f"{', '.join(GPU_POLICIES)}; with --format {OPENB_FORMAT}: "
        f"{', '.join(SHARING_POLICIES)} (default: all of these)",
    )
    _add_trace_options(one, required=True, formats=(*FORMATS, STORAGE_FORMAT, OPENB_FORMAT))
    one.add_argument(
        "--load",
        type=_FACTOR,
        metavar="X",
        help="divide the times between submissions by X; nodes are owned as without it; "
        f"with --format {OPENB_FORMAT}: pods come until they ask for X times the GPUs "
        "(default 1.3)",
    )
    _add_opportunistic(one)
    one.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    one.add_argument("--plots", type=Path, metavar="DIR", help="write plots as PNG files")
    add_spec_options(one.add_argument_group("schedulers that files describe"))
    _add_job_options(one.add_argument_group("options of job policies"))
    add_storage_options(one.add_argument_group("options of jobs that share storage"))
    add_device_options(one.add_argument_group("options of pods that share GPUs"))

    add_demo_command(commands, **_NEEDS)

    many = commands.add_parser(
        "sweep",
        help="replay over seeds, loads, policies and specs in parallel",
        description="Replays generated traces, or a given one, over seeds and loads, under "
        "policies and under the schedulers that files describe.",
    )
    many.set_defaults(run=_sweep, **_NEEDS)
    many.add_argument("traces", nargs="*", metavar="TRACE", help="given trace (none: generated)")
    _add_trace_options(many, required=False)
    many.add_argument("--loads", type=_FACTOR, nargs="+", default=[0.8, 1.0, 1.2], metavar="X")
    many.add_argument(
        "--seeds",
        type=counts(_MOST_SEEDS),
        metavar="N",
        help="of generated traces: 0 to N-1 (default 3)",
    )
    many.add_argument(
        "--jobs",
        type=counts(_MOST_JOBS),
        metavar="N",
        help="per generated trace (default 10000)",
    )
    many.add_argument(
        "--nodes",
        type=_owned,
        nargs="+",
        metavar="TENANT=N",
        help="of generated traces: how many nodes of 8 GPUs each tenant owns (default "
        f"{' '.join(f'{name}={nodes}' for name, nodes in _SWEPT_NODES.items())})",
    )
    many.add_argument("--policies", choices=POLICIES, nargs="+", default=list(POLICIES))
    _add_opportunistic(many)
    add_spec_options(many)
    many.add_argument(
        "--workers", type=counts(1024), default=1, metavar="N", help="replays at once"
    )
    many.add_argument(
        "--backend",
        choices=("loky", "threading", "dask", "ray"),
        default="loky",
        help="joblib backend; dask and ray use the cluster that their own settings name",
    )
    many.add_argument("--json", type=Path, metavar="FILE", help="write all points as JSON")

    add_quota_command(commands, read_quota_file)
    add_log_command(commands, lambda path: SchedulerSpec.read(path).scheduler())
    add_init_command(commands)
    add_validate_command(commands)
    add_serve_command(commands)
    return parser


def _owned(text: str) -> tuple[str, int]:
    name, equals, nodes = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"must be TENANT=N, not {text!r}")
    return name, counts(_MOST_NODES)(nodes)


def _add_trace_options(
    parser: argparse.ArgumentParser, required: bool, formats: Sequence[str] = FORMATS
) -> None:
    parser.add_argument("--format", choices=formats, required=required, help="of the trace files")
    owners = parser.add_mutually_exclusive_group()
    owners.add_argument(
        "--virtual-clusters", type=Path, metavar="FILE", help="CSV file: vc,node num"
    )
    owners.add_argument(
        "--oversubscribe",
        type=_FACTOR,
        metavar="X",
        help="each tenant owns ceil(average GPUs in use / (8 X)) nodes of 8 GPUs, but never fewer "
        "than its largest job needs (default 1.0)",
    )


def _add_opportunistic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--opportunistic", action="store_true", help="waiting jobs may run on idle cells"
    )


def _add_job_options(group: Any) -> None:
    group.add_argument(
        "--nodes", type=counts(_MOST_OF_JOBS), metavar="N", help="of 8 GPUs each (default 8)"
    )
    group.add_argument(
        "--job-mtbf",
        type=_MTBF,
        metavar="HOURS",
        help="jobs fail at random, on average once in so many hours of running",
    )
    group.add_argument(
        "--node-mtbf",
        type=_MTBF,
        metavar="HOURS",
        help="nodes fail at random, on average once in so many hours, and are back an hour later",
    )
    group.add_argument(
        "--seed",
        type=number,
        metavar="N",
        help="of the failures, the same for all policies; with --storage, of the datasets",
    )
    group.add_argument(
        "--candidates",
        type=count,
        nargs=2,
        metavar=("MUST", "MAY"),
        help="of muri-exact: for each set of GPUs so many jobs must be in groups, and so many may "
        "be (default 3 8; 4 4 are Muri's own candidates)",
    )
    group.add_argument(
        "--autopack",
        choices=("on", "off"),
        help="of muri: split groups that take longer than their jobs one after another "
        "(default on)",
    )


def _owned_trace(arguments: argparse.Namespace) -> tuple[Trace, dict[str, int]]:
    trace = load(arguments.traces, arguments.format)
    if arguments.virtual_clusters:
        said, nodes = (
            str(arguments.virtual_clusters),
            load_virtual_clusters(arguments.virtual_clusters),
        )
    else:
        factor = _given(arguments.oversubscribe, 1.0)
        said = f"{', '.join(arguments.traces)} with --oversubscribe {factor:g}"
        nodes = own_nodes(trace, factor)
    _check_nodes(nodes, said)
    return trace, nodes


def _check_nodes(nodes: Mapping[str, int], said: str) -> None:
    if (total := sum(nodes.values())) > _MOST_NODES:
        most = max(nodes, key=lambda name: nodes[name])
        raise ValueError(
            f"{said}: tenants own {total} nodes, {most} alone {nodes[most]}; allowed are at most "
            f"{_MOST_NODES}"
        )


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value


def _replay(arguments: argparse.Namespace) -> None:
    try_outputs(arguments.json, arguments.plots)
    if arguments.spec:
        unused = [option for option in (*_TENANT_OPTIONS, *_JOB_OPTIONS) if option != "load"]
        others = (*unused, "policy", "storage", *STORAGE_OPTIONS, *DEVICE_OPTIONS)
        _refuse(arguments, others, "schedulers of --spec")
        replay_with_specs(arguments, SchedulerSpec.read)
        return
    _refuse(arguments, ("tenant",), "policies: it needs --spec")
    if arguments.format == OPENB_FORMAT:
        unused = [option for option in (*_TENANT_OPTIONS, *_JOB_OPTIONS) if option != "load"]
        _refuse(arguments, ("storage", *unused, *STORAGE_OPTIONS), "pods that share GPUs")
        replay_openb(arguments)
        return
    _refuse(arguments, DEVICE_OPTIONS, f"jobs: it needs --format {OPENB_FORMAT}")
    if arguments.storage:
        # --seed is for the datasets of jobs that have none.
        unused = [option for option in (*_TENANT_OPTIONS, *_JOB_OPTIONS) if option != "seed"]
        _refuse(arguments, unused, "jobs that share storage")
        replay_storage(arguments)
        return
    policies = _given(arguments.policy, POLICIES)
    of_pods = [policy for policy in policies if policy in SHARING_POLICIES]
    if of_pods and not arguments.storage:
        raise ValueError(f"--policy {of_pods[0]} needs --format {OPENB_FORMAT}")
    of_jobs = [policy for policy in policies if policy in JOB_POLICIES]
    if of_jobs and len(of_jobs) < len(policies):
        raise ValueError(
            f"--policy names policies of tenants ({', '.join(POLICIES)}) or of training jobs "
            f"({', '.join(JOB_POLICIES)}), not both"
        )
    if arguments.format == STORAGE_FORMAT or not set(policies) <= {
        *POLICIES,
        LENDING,
        *JOB_POLICIES,
    }:
        raise ValueError(
            f"--format {STORAGE_FORMAT} and the policies sjf, las and max-min need --storage"
        )
    family = "policies of training jobs" if of_jobs else "policies of tenants"
    _refuse(arguments, _TENANT_OPTIONS if of_jobs else _JOB_OPTIONS, family)
    _refuse(arguments, STORAGE_OPTIONS, f"{family}: it needs --storage")
    if of_jobs:
        _replay_jobs(arguments, list(dict.fromkeys(of_jobs)))
    else:
        _replay_tenants(arguments, policies)


def _refuse(arguments: argparse.Namespace, options: Sequence[str], family: str) -> None:
    for name in options:
        value = getattr(arguments, name)
        if value is not None and value is not False:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} has no meaning for {family}")


def _replay_tenants(arguments: argparse.Namespace, policies: Sequence[str]) -> None:
    if arguments.opportunistic and "cells" not in policies:
        raise ValueError("--opportunistic needs --policy cells")
    if arguments.plots and not set(POLICIES).issubset(policies):
        raise ValueError("--plots shows all policies of tenants: leave --policy out")
    watch = Watch()
    scale = _given(arguments.load, 1.0)
    with watch("read"):
        trace, nodes = _owned_trace(arguments)
        with named(", ".join(arguments.traces)):
            work = Workload.of(trace.scale_load(scale), nodes)
    with named(f"{', '.join(arguments.traces)} with --load {scale:g}"):
        result = _run(work, policies, arguments.opportunistic, watch)
    clusters = arguments.virtual_clusters
    configuration = {
        "traces": file_names(arguments.traces),
        "format": arguments.format,
        "virtual_clusters": clusters.name if clusters else None,
        "oversubscribe": None if clusters else _given(arguments.oversubscribe, 1.0),
        "load": scale,
        "opportunistic": arguments.opportunistic,
    }
    _report(result, configuration, watch, arguments.json, arguments.plots)


def _replay_jobs(arguments: argparse.Namespace, policies: Sequence[str]) -> None:
    if arguments.format != "muri":
        raise ValueError(f"policies of training jobs need --format muri, not {arguments.format}")
    if len(arguments.traces) > 1:
        raise ValueError("policies of training jobs run one TRACE at a time")
    failing = arguments.job_mtbf is not None or arguments.node_mtbf is not None
    if arguments.seed is not None and not failing:
        raise ValueError("--seed needs --job-mtbf or --node-mtbf")
    if arguments.node_mtbf is not None and "tiresias" in policies:
        raise ValueError("--node-mtbf has no meaning for tiresias, which places no job on a node")
    muri = _muri_options(arguments, policies)
    watch = Watch()
    with watch("read"):
        trace = load_training(arguments.traces[0])
        jobs = Jobs.of(trace)
    nodes, seed = _given(arguments.nodes, 8), _given(arguments.seed, 0)
    if (largest := max(jobs.gpus)) > nodes * GPUS_PER_NODE:
        raise ValueError(
            f"{arguments.traces[0]}: a job of {largest} GPUs does not fit on {nodes} nodes of "
            f"{GPUS_PER_NODE} GPUs (--nodes)"
        )
    failures = RandomFailures(
        len(jobs),
        nodes,
        seed,
        job_mtbf=_HOUR * _given(arguments.job_mtbf, inf),
        node_mtbf=_HOUR * _given(arguments.node_mtbf, inf),
    )
    outcomes, figures = {}, {}
    for policy in policies:
        with watch(policy), named(f"{arguments.traces[0]} under {policy}"):
            record = bool(arguments.plots) and policy.startswith("muri")
            outcomes[policy] = schedule(jobs, policy, nodes, muri, failures, record=record)
            figures[policy] = job_figures(jobs, outcomes[policy])
    print_table(jobs_table(figures))
    print_dropped(trace.dropped)
    if arguments.plots:
        with watch("plots"):
            say_written(save_job_plots(jobs, nodes, outcomes, arguments.plots))
    if arguments.json:
        configuration = {
            "traces": file_names(arguments.traces),
            "format": arguments.format,
            "nodes": nodes,
            "job_mtbf_hours": arguments.job_mtbf,
            "node_mtbf_hours": arguments.node_mtbf,
            "seed": seed if failing else None,
            "candidates": list(muri.candidates),
            "autopack": muri.autopack,
        }
        write_json(arguments.json, jobs_to_json(figures, configuration, watch.seconds))
    print_times(watch)


def _muri_options(arguments: argparse.Namespace, policies: Sequence[str]) -> MuriOptions:
    if arguments.autopack and not any(policy.startswith("muri") for policy in policies):
        raise ValueError("--autopack needs a policy of muri")
    options = MuriOptions(autopack=arguments.autopack != "off")
    if not arguments.candidates:
        return options
    if not any(policy.startswith("muri-exact") for policy in policies):
        raise ValueError("--candidates needs --policy muri-exact-s or muri-exact-l")
    must, may = arguments.candidates
    if not must <= min(may, options.largest):
        raise ValueError(
            f"--candidates {must} {may}: allowed are MUST from 1 to {options.largest}, "
            "and MAY from MUST on"
        )
    return replace(options, candidates=(must, may))


def _sweep(arguments: argparse.Namespace) -> None:
    from joblib import Parallel, delayed, parallel_config

    try_outputs(arguments.json, None)
    nodes, trace = dict(arguments.nodes or _SWEPT_NODES), None
    if len(nodes) < len(arguments.nodes or ()):
        raise ValueError("--nodes names a tenant twice")
    if arguments.traces:
        if not arguments.format:
            raise ValueError("--format is needed for trace files")
        _refuse(arguments, ("nodes", "seeds", "jobs"), "trace files")
        trace, nodes = _owned_trace(arguments)
    else:
        _refuse(arguments, ("format", "virtual_clusters", "oversubscribe"), "generated traces")
        _check_nodes(nodes, "--nodes")
    if not arguments.spec:
        _refuse(arguments, ("tenant",), "policies: it needs --spec")
    jobs = _given(arguments.jobs, 10_000)
    if trace is None and jobs < len(nodes):
        raise ValueError(
            f"--jobs {jobs}: must be at least one per tenant, and there are {len(nodes)}"
        )
    specs = named_specs(arguments.spec or (), SchedulerSpec.read)
    with _deaf_children():
        _connect(arguments.backend)
    with parallel_config(backend=arguments.backend, n_jobs=arguments.workers):
        with _deaf_children():  # starts all workers: a nap each, so that none takes two
            Parallel()(delayed(sleep)(0.1) for _ in range(arguments.workers))
        points = sweep(
            nodes,
            arguments.loads,
            range(_given(arguments.seeds, 3)),
            jobs,
            trace,
            arguments.policies,
            arguments.opportunistic,
            specs,
            tenant_names(arguments),
        )
    print_table(sweep_table(points))
    if arguments.json:
        write_json(arguments.json, sweep_to_json(points))


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Hold Ctrl-C back while workers start: they inherit that, and leave it to us to end them.

    A terminal tells every process of a command, and each of them would print its traceback.
    """
    if sys.platform == "win32" or current_thread() is not main_thread():
        yield
        return
    # Helpers of these libraries, whose start would let Ctrl-C through again.
    for library in ("multiprocessing", "joblib.externals.loky.backend"):
        import_module(f"{library}.resource_tracker").ensure_running()
    with held_back():  # in this process until they run
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _connect(backend: str) -> None:
    """Join the cluster that a backend's own settings name, or starts one on this machine."""
    if backend == "dask":
        # When it is interrupted, it warns of all that it has not finished.
        os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
        import_module("distributed").Client()
    elif backend == "ray":
        import_module("ray.util.joblib").register_ray()


def _run(work: Workload, policies: Sequence[str], opportunistic: bool, watch: Watch) -> Replay:
    total = work.trace.jobs * len({"private", *policies})
    with progress_bar(total) as step, watch("replay"):
        return replay(work, policies, opportunistic, step)


def _report(
    result: Replay,
    configuration: dict[str, Any],
    watch: Watch,
    json_file: Path | None,
    plots: Path | None,
) -> None:
    with watch("report"):
        print_table(table(result))
        for sentence in (*notes(result.work), *findings(result)):
            print_sentence(sentence)
        if plots:
            say_written(save_plots(result, plots))
    if json_file:
        write_json(json_file, to_json(result, configuration, watch.seconds))
    print_times(watch)
