"""The manifests that are shipped, against what the command takes and does."""

import argparse

import pytest
import yaml
from interop.kubernetes.cluster_roles import DEPLOY, documents, is_allowed

from hivecore.interop import gpushare
from hivecore.interop.gpushare.names import GPU_MEM
from hivecore.interop.hived import Extender, HivedConfig, HivedScheduler
from hivecore.interop.hived.serving.link import LEAF_CELL
from hivecore.interop.serve_command import add_serve_command

pytestmark = pytest.mark.skipif(not DEPLOY.is_dir(), reason="only the installed package is here")


def document(name, kind):
    return next(item for item in documents(name) if item["kind"] == kind)


def container(name="hivecore.yaml"):
    return document(name, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def test_the_deployment_runs_the_command_with_options_that_there_are():
    parser = argparse.ArgumentParser()
    add_serve_command(parser.add_subparsers())
    arguments = parser.parse_args(container()["args"])
    assert (arguments.in_cluster, arguments.host, arguments.lease) == (
        True,
        "0.0.0.0",
        ("hivecore", "hivecore"),
    )
    assert arguments.port == container()["ports"][0]["containerPort"]
    mount = container()["volumeMounts"][0]["mountPath"]
    data = document("hivecore.yaml", "ConfigMap")["data"]
    assert {f"{mount}/{name}" for name in data} == {str(arguments.config)}
    config = HivedConfig.read(yaml.safe_load(data["hived.yaml"]))
    assert set(config.spec.virtual_clusters) == {"vision", "speech"}


def test_the_deployment_of_gpushare_runs_the_command_for_its_service():
    parser = argparse.ArgumentParser()
    add_serve_command(parser.add_subparsers())
    arguments = parser.parse_args(container("gpushare.yaml")["args"])
    assert (arguments.gpushare, arguments.in_cluster) == ("MiB", True)
    port = document("gpushare.yaml", "Service")["spec"]["ports"][0]["port"]
    assert arguments.port == container("gpushare.yaml")["ports"][0]["containerPort"] == port
    assert is_allowed(
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}".format(*arguments.lease),
        manifest="gpushare.yaml",
    )
    [extender] = document("gpushare-kube-scheduler.yaml", "KubeSchedulerConfiguration")["extenders"]
    root = "/" + extender["urlPrefix"].split("/", 3)[3]
    for verb in ("filterVerb", "bindVerb"):
        assert gpushare.Extender.method(f"{root}/{extender[verb]}") == "POST"
    assert [resource["name"] for resource in extender["managedResources"]] == [GPU_MEM]
    assert f":{port}/" in extender["urlPrefix"]


def test_only_the_leader_is_ready_and_the_others_live():
    assert container()["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container()["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # A rolling update waits until the new one is ready, which it is when the old one is gone.
    assert document("hivecore.yaml", "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_kube_scheduler_knows_the_paths_and_the_resource():
    config = document("kube-scheduler.yaml", "KubeSchedulerConfiguration")
    assert config["percentageOfNodesToScore"] == 100
    [extender] = config["extenders"]
    root = "/" + extender["urlPrefix"].split("/", 3)[3]
    for verb in ("filterVerb", "preemptVerb", "bindVerb"):
        assert Extender.method(f"{root}/{extender[verb]}") == "POST"
    assert extender["managedResources"] == [{"name": LEAF_CELL, "ignoredByScheduler": False}]
    port = document("hivecore.yaml", "Service")["spec"]["ports"][0]["port"]
    assert f":{port}/" in extender["urlPrefix"]


def test_the_example_is_a_gang_of_the_example_configuration():
    job = document("gang.yaml", "Job")["spec"]
    template = job["template"]
    [(key, text)] = template["metadata"]["annotations"].items()
    spec = yaml.safe_load(text)
    assert key.endswith("/pod-scheduling-spec")
    limits = template["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {LEAF_CELL: spec["leafCellNumber"]}
    classes = {
        item["metadata"]["name"]: item["value"] for item in documents("priority-classes.yaml")
    }
    assert classes[template["spec"]["priorityClassName"]] == spec["priority"]
    config = yaml.safe_load(document("hivecore.yaml", "ConfigMap")["data"]["hived.yaml"])
    scheduler = HivedScheduler(config)
    for i in range(job["parallelism"]):
        pod = f"default/bert-{i}"
        assert scheduler.schedule(pod, spec).outcome == "bind"
        scheduler.allocate(pod)
    assert [group["metadata"]["name"] for group in scheduler.affinity_groups()["items"]] == [
        spec["affinityGroup"]["name"]
    ]


@pytest.mark.parametrize(
    "request_",
    [
        ("DELETE", "/api/v1/namespaces/x/pods/p"),
        ("PATCH", "/api/v1/nodes/n"),
        ("GET", "/api/v1/secrets"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"),
    ],
)
def test_the_roles_allow_nothing_that_is_not_needed(request_):
    assert not is_allowed(*request_)
