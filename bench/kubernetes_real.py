"""hivecore's services behind a real kube-scheduler and API server: what users do, with figures.

    python bench/kubernetes_real.py --kubeconfig FILE --kube-scheduler PROGRAM [--only NAME ...]

`kubernetes_world.py` says what this needs and what it leaves in the cluster: here also the
definition of PodGroups.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from kubernetes_cluster import LEAF_CELL, MEMORY, Cluster, until
from kubernetes_world import (
    GANG,
    Figures,
    Scenarios,
    Service,
    World,
    apply,
    bound_of,
    deployed,
    gang,
    main,
    named,
    names_of,
    pages_configuration,
    priorities,
    run_all,
)

from hivecore.interop.kubernetes.client.api_server import ApiError

HIVED = "hivedscheduler.microsoft.com/pod-scheduling-spec"
SCENARIOS = Scenarios()

_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_VERSION = {"name": "v1alpha1", "served": True, "storage": True}
_POD_GROUPS = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {
        "name": "podgroups.scheduling.sigs.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, of a benchmark"},
    },
    "spec": {
        "group": "scheduling.sigs.k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [{**_VERSION, "schema": {"openAPIV3Schema": _SCHEMA}}],
    },
}


# --- the composed scheduler


@SCENARIOS.of("composed")
async def pods_beyond_the_minimum(world: World) -> Figures:
    """4 pods of 8 GPUs of a gang that needs 2."""
    await world.composed()
    return await run_all(world.cluster, gang(world.cluster, "beyond", 4, 8, 2))


@SCENARIOS.of("composed")
async def a_launcher_without_GPUs(world: World) -> Figures:
    """A gang of 4: kube-scheduler itself binds one of its pods."""
    await world.composed()
    pods = gang(world.cluster, "launched", 4, 8)
    pods[0] = {**world.cluster.pod("launched-0"), "metadata": pods[0]["metadata"]}
    return await run_all(world.cluster, pods)


@SCENARIOS.of("composed")
async def a_gang_of_a_PodGroup(world: World) -> Figures:
    """scheduler-plugins' PodGroup says how many there are."""
    cluster = world.cluster
    await apply(cluster.api, _POD_GROUPS)
    group = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{cluster.namespace}/podgroups"
    kind = {"kind": "PodGroup", "apiVersion": "scheduling.sigs.k8s.io/v1alpha1"}
    body = {**kind, "metadata": {"name": "grouped"}, "spec": {"minMember": 3}}
    await asyncio.sleep(2)  # the API server serves the new kind
    with suppress(ApiError):
        await cluster.api.request("POST", group, body)
    await world.composed()
    pods = [cluster.pod(f"grouped-{i}", 8, labels={GANG: "grouped"}) for i in range(3)]
    figures = await run_all(cluster, pods[:2], 2.0)
    early = figures["bound"]
    begin = await cluster.create(pods[2])
    seconds = await cluster.seconds(begin, names_of(pods))
    return {
        "seconds": seconds,
        "bound": len(cluster.bound(names_of(pods))),
        "of": 3,
        "early": early,
    }


@SCENARIOS.of("composed")
async def nodeSelector_on_the_13th_of_64_nodes(world: World) -> Figures:
    """A pod for which only one node is offered."""
    await world.composed()
    await world.cluster.patch_node("hc-12", metadata={"labels": {"disk": "ssd"}})
    pod = world.cluster.pod("chosen", 8, nodeSelector={"disk": "ssd"})
    return await run_all(world.cluster, [pod])


@SCENARIOS.of("composed")
async def four_tainted_nodes(world: World) -> Figures:
    """The first nodes are tainted."""
    await world.composed()
    taint = {"key": "bench", "value": "x", "effect": "NoSchedule"}
    for i in range(4):
        await world.cluster.patch_node(f"hc-{i}", spec={"taints": [taint]})
    return await run_all(world.cluster, gang(world.cluster, "tainted", 2, 8))


@SCENARIOS.of("composed")
async def nodes_full_of_foreign_pods(world: World) -> Figures:
    """Pods without GPUs use all CPUs of the first nodes, others all GPUs of the next ones."""
    await world.composed()
    cluster = world.cluster
    full = [cluster.pod(f"cpus-{i}", cpu=95, nodeName=f"hc-{i}") for i in range(4)]
    held = [foreign(cluster, f"gpus-{i}", 8, f"hc-{4 + i}") for i in range(4)]
    await run_all(cluster, full + held)
    return await run_all(cluster, [cluster.pod(f"own-{i}", 8, cpu=4) for i in range(2)])


def foreign(cluster: Cluster, name: str, gpus: int, node: str) -> dict[str, Any]:
    """A pod that another scheduler has bound."""
    return cluster.pod(name, gpus, schedulerName="another", nodeName=node)


@SCENARIOS.of("composed")
async def a_lost_log_while_pods_run(world: World) -> Figures:
    """A gang and single pods run, the log is lost, and pods come for the rest and more."""
    cluster = world.cluster
    service = await world.composed(16)
    await run_all(cluster, gang(cluster, "first", 4, 8))
    await run_all(cluster, [cluster.pod(f"half-{i}", 4) for i in range(3)])
    await service.end()
    world.end()
    service = await world.serve_composed(16)
    world.schedule(pages_configuration(), service.port)
    free = 16 * 2 - 4 * 2 - 3
    pods = [cluster.pod(f"more-{i}", 4) for i in range(free + 4)]
    return await bound_of(cluster, pods, free)


@SCENARIOS.of("composed")
async def pods_of_another_scheduler(world: World) -> Figures:
    """They hold half of the GPUs of each node; pods come for the other half and more."""
    cluster = world.cluster
    await world.composed(16)
    await run_all(cluster, [foreign(cluster, f"other-{i}", 4, f"hc-{i}") for i in range(16)])
    pods = [cluster.pod(f"own-{i}", 4) for i in range(20)]
    begin = await cluster.create(*pods)
    await until(lambda: len(cluster.bound(names_of(pods))) >= 16)
    seconds = perf_counter() - begin
    await asyncio.sleep(2)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": 16}


@SCENARIOS.of("composed")
async def a_node_is_lost(world: World) -> Figures:
    """A pod of a running gang is replaced on another node."""
    cluster = world.cluster
    await world.composed(16)
    pods = gang(cluster, "replaced", 4, 8)
    await run_all(cluster, pods)
    node = cluster.pods["replaced-2"]["spec"]["nodeName"]
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    await cluster.patch_node(node, "/status", status={"conditions": [lost]})
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    await cluster.patch_node(node, spec={"taints": [taint]})
    await cluster.delete("replaced-2")
    figures = await run_all(cluster, [pods[2]])
    return {**figures, "elsewhere": cluster.bound(["replaced-2"]) != [node]}


@SCENARIOS.of("composed")
async def gangs_and_pods_by_priority(world: World) -> Figures:
    """A cluster full of pods of low priority, and a gang of high priority for half of it."""
    cluster = world.cluster
    await priorities(cluster)
    await world.composed(8)
    low = [cluster.pod(f"low-{i}", 8, priorityClassName="bench-low") for i in range(8)]
    await run_all(cluster, low)
    high = gang(cluster, "high", 4, 8)
    for pod in high:
        pod["spec"]["priorityClassName"] = "bench-high"
    return {**await run_all(cluster, high), "evicted": len(cluster.evicted)}


@SCENARIOS.of("composed")
async def a_quota_takes_back_what_it_has_lent(world: World) -> Figures:
    """A tenant uses all nodes, half of them lent; the other's gang has the same priority."""
    cluster = world.cluster
    await cluster.set_nodes(named(8))
    half = "{quota: {max: {gpu: 64}, min: {gpu: 32}}}"
    tenants = f"tenants: {{lender: {half}, borrower: {half}}}"
    service = await world.serve_composed(8, f"{tenants}\nquotas: {{limit: runtime}}\ndevices:")
    world.schedule(pages_configuration(), service.port)
    tenant = "quota.scheduling.koordinator.sh/name"
    lent = [cluster.pod(f"lent-{i}", 8, labels={tenant: "borrower"}) for i in range(8)]
    await run_all(cluster, lent)
    owed = gang(cluster, "owed", 4, 8)
    for pod in owed:
        pod["metadata"]["labels"][tenant] = "lender"
    return {**await run_all(cluster, owed), "evicted": len(cluster.evicted)}


@SCENARIOS.of("composed")
async def SIGTERM_while_pods_are_touched(world: World) -> Figures:
    """200 gangs wait for the GPUs of a job that ends; seconds until the process has ended."""
    cluster = world.cluster
    service = await world.composed(16)
    await run_all(cluster, [cluster.pod(f"run-{i}", 8) for i in range(16)])
    waiting = [cluster.pod(f"wait-{i}", 1) for i in range(128)]
    await cluster.create(*waiting)
    await asyncio.sleep(3)
    deleting = asyncio.create_task(cluster.delete(*(f"run-{i}" for i in range(16))))
    await until(lambda: cluster.bound(names_of(waiting)))
    begin = perf_counter()
    status = await service.end(signal.SIGTERM)
    seconds = perf_counter() - begin
    await deleting
    said = service.errors()
    unseen = said.count("never retrieved") + said.count("Traceback")
    return {"seconds": seconds, "status": status, "errors": unseen}


# --- HiveD


def hived_gang(
    cluster: Cluster, name: str, pods: int, gpus: int, tenant: str, priority: int
) -> list[dict[str, Any]]:
    """Pods of a group of HiveD's."""
    member = {"podNumber": pods, "leafCellNumber": gpus}
    spec = {"virtualCluster": tenant, "leafCellNumber": gpus, "priority": priority}
    spec["affinityGroup"] = {"name": name, "members": [member]}
    classes = {-1: "hived-opportunistic", 0: "hived-guaranteed", 100: "hived-urgent"}
    more = {"annotations": {HIVED: json.dumps(spec)}, "priorityClassName": classes[priority]}
    return [cluster.pod(f"{name}-{i}", gpus, LEAF_CELL, **more) for i in range(pods)]


@SCENARIOS.of("hived")
async def a_gang_of_HiveD_preempts_twice(world: World) -> Figures:
    """One of two tenants uses all nodes; the other's gang reclaims its own, twice."""
    cluster = world.cluster
    await world.hived(8, 2)
    figures: Figures = {}
    for number, round_ in enumerate(("seconds", "second round")):
        names = [f"low{i}-{number}" for i in range(8)]
        pods = [pod for name in names for pod in hived_gang(cluster, name, 1, 8, "vc0", -1)]
        await run_all(cluster, pods)
        cluster.evicted.clear()
        high = hived_gang(cluster, "again", 4, 8, "vc1", 0)
        figures[round_] = (await run_all(cluster, high))["seconds"]
        times = [at for at, _ in cluster.evicted]
        figures["evicted"] = len(times)
        figures["apart"] = max(times, default=0.0) - min(times, default=0.0)
        await cluster.delete(*list(cluster.pods))
    return figures


@SCENARIOS.of("hived")
async def the_leader_is_killed(world: World) -> Figures:
    """Two replicas, kill -9; seconds until the other one binds a new pod."""
    return await failover(world, signal.SIGKILL)


@SCENARIOS.of("hived")
async def the_leader_is_ended_in_good_order(world: World) -> Figures:
    """The same with SIGTERM."""
    return await failover(world, signal.SIGTERM)


async def failover(world: World, number: int) -> Figures:
    cluster = world.cluster
    await cluster.set_nodes(named(8))
    lease = "--lease", "hivecore/bench"
    with suppress(ApiError):
        path = "/apis/coordination.k8s.io/v1/namespaces/hivecore/leases/bench"
        await cluster.api.request("DELETE", path)
    first = await world.serve_hived(8, 2, *lease)
    second = Service(world, first.options, "hivecore", next(world.ports))
    await second.start()
    replicas = [first, second]
    async with front(world, replicas) as port:
        world.schedule(deployed("kube-scheduler.yaml")[0], port)
        await run_all(cluster, hived_gang(cluster, "before", 2, 8, "vc0", 0))
        begin = perf_counter()
        await first.end(number)
        pods = hived_gang(cluster, "after", 2, 8, "vc0", 0)
        await cluster.create(*pods)
        seconds = await cluster.seconds(begin, names_of(pods), 90)
    return {"seconds": seconds}


@asynccontextmanager
async def front(world: World, replicas: list[Service]) -> AsyncIterator[int]:
    """Plays a Service: a port that leads to the ready replica, checked every 2 seconds."""
    ready = [replicas[0]]

    async def probe() -> None:
        while True:
            answering = [
                replica
                for replica in replicas
                if replica.process.poll() is None and await replica.is_ready()
            ]
            ready[:] = answering
            await asyncio.sleep(2)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not ready or ready[0].process.poll() is not None:
                return
            forward, back = await asyncio.open_connection("127.0.0.1", ready[0].port)
            pipes = [pipe(reader, back), pipe(forward, writer)]
            await asyncio.wait(map(asyncio.ensure_future, pipes), return_when="FIRST_COMPLETED")
            back.close()
        except OSError:
            pass
        finally:
            writer.close()

    async def pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()

    port = next(world.ports)
    server = await asyncio.start_server(connect, "127.0.0.1", port)
    task = asyncio.create_task(probe())
    try:
        yield port
    finally:
        task.cancel()
        server.close()


# --- gpushare


@SCENARIOS.of("gpushare")
async def gpushare_after_a_restart(world: World) -> Figures:
    """Pods share cards, the service is killed and restarted; pods come for more than is left."""
    cluster = world.cluster
    await cluster.set_nodes(named(4), {"aliyun.com/gpu-count": 2, MEMORY: 32552})
    service = await world.serve("--gpushare", "MiB", account="gpushare")
    world.schedule(deployed("gpushare-kube-scheduler.yaml")[0], service.port)
    pods = [cluster.pod(f"share-{i}", 8138, MEMORY) for i in range(10)]
    await run_all(cluster, pods)
    await service.end()
    await service.start()
    pods = [cluster.pod(f"more-{i}", 8138, MEMORY) for i in range(8)]
    begin = await cluster.create(*pods)
    await until(lambda: len(cluster.bound(names_of(pods))) >= 6)
    seconds = perf_counter() - begin
    await asyncio.sleep(2)
    return {"seconds": seconds, "bound": len(cluster.bound(names_of(pods))), "of": 6}


# --- throughput

_PODS = 400


@SCENARIOS.of("all")
async def throughput_of_400_pods(world: World) -> Figures:
    """400 pods of a GPU each wait on 64 nodes when kube-scheduler starts: pods a second from the
    first that is bound to the last, for kube-scheduler alone, with an extender that does nothing
    (`null_extender.py`) and with each service, which has bound a pod before. Of each the best turn;
    "CPU" is the milliseconds that the extender's process has computed for a pod then."""
    figures: Figures = {}
    for _ in range(world.arguments.turns):
        for kind in ("alone", "null", "composed", "hived"):
            rate, milliseconds = await throughput(world, kind)
            if rate > figures.get(kind, 0.0):
                figures |= {kind: rate, f"{kind} CPU": milliseconds}
    del figures["alone CPU"]
    for kind in ("null", "composed", "hived"):
        figures[f"{kind} / alone"] = figures[kind] / figures["alone"]
    return figures


async def throughput(world: World, kind: str) -> tuple[float, float]:
    """Pods a second, and the extender's milliseconds for one of them."""
    cluster = world.cluster
    await cluster.set_nodes(named(64))
    configuration, port, extender = await world.extended(kind)
    first, *pods = [one_GPU(cluster, kind, i) for i in range(_PODS + 1)]
    await world.try_first(configuration, port, first)
    await cluster.create(*pods)
    await asyncio.sleep(1)
    before = cpu_seconds(extender)
    world.schedule(configuration, port)
    seconds = await cluster.seconds(0.0, names_of(pods), 180)
    spent = cpu_seconds(extender) - before
    times = cluster.bound_at.values()
    world.end()
    if seconds == float("inf"):
        return 0.0, 0.0
    return (len(times) - 1) / (max(times) - min(times)), 1e3 * spent / _PODS


def one_GPU(cluster: Cluster, kind: str, number: int) -> dict[str, Any]:
    """A pod for one of the extenders."""
    if kind == "hived":
        return hived_gang(cluster, f"t{number}", 1, 1, "vc0", 0)[0]
    return cluster.pod(f"t-{number}", 1)


def cpu_seconds(program: "subprocess.Popen[bytes] | None") -> float:
    """What a process has computed so far; 0: there is none, or the system does not say."""
    file = Path(f"/proc/{program.pid}/stat") if program else Path("/nowhere")
    if not file.exists():
        return 0.0
    user, system = file.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def add_turns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=2, help="of the throughput")


if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCENARIOS, "kubernetes_real", add_turns))
