"""Pods that anti-affinity keeps apart get different nodes, where the scheduler chooses these."""

import pytest
from interop.extender.pods_and_kubelets import GANG, koordinator_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def gang(count):
    """Pods of a GPU, of which a node may have one."""
    selector = {"matchLabels": {f"{GANG}/name": "g"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    pods = [koordinator_pod(f"p{i}", "a", 1, "g", count) for i in range(count)]
    for pod in pods:
        pod["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    return pods


@pytest.mark.parametrize("parts", ["topology", "cells", "quotas, cells and devices"])
def test_each_pod_gets_a_node_of_its_own(worlds, parts):
    world = worlds(parts)
    world.cluster.run(*gang(2))
    assert len(set(world.cluster.bound().values())) == 2
    world.cluster.run(koordinator_pod("lone", "a", 1))
    assert "lone" in world.cluster.bound()


def test_a_gang_with_more_pods_than_nodes_waits(worlds):
    world = worlds("topology")
    world.cluster.run(*gang(5))
    assert world.cluster.bound() == {}
    assert "1 of 'pod'" in world.cluster.reasons["p0"]


@pytest.mark.parametrize("parts", ["queues", "quotas"])
def test_where_the_scheduler_chooses_no_nodes_kubernetes_does(worlds, parts):
    world = worlds(parts)
    world.cluster.run(*gang(2))
    assert len(world.cluster.bound()) == 2


def test_pods_that_run_are_taken_up_with_the_limit(worlds):
    before = worlds("topology")
    before.cluster.run(*gang(3))
    bound = before.cluster.bound()
    world = worlds("topology")
    world.cluster.pods = before.cluster.pods
    assert world.cluster.listed()[0] == 200
    (role,) = world.scheduler.job("pods:x/g").roles
    assert role.per_node == 1 and world.cluster.bound() == bound
