"""`hivecore serve --gpushare` with a cluster that it follows itself."""

import sys
from contextlib import contextmanager

import pytest
from interop.gpushare.objects import COUNT, MEM
from interop.kubernetes.cluster_roles import DEPLOY, allowed_by
from interop.kubernetes.fake_api_server import FakeApiServer
from interop.kubernetes.fake_kube_scheduler import FakeKubeScheduler, bound
from interop.servers import Command, until

INDEX = "ALIYUN_COM_GPU_MEM_IDX"
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="ends processes by signals"),
    pytest.mark.skipif(not DEPLOY.is_dir(), reason="only the installed package is here"),
]


@contextmanager
def served(folder, cards=1, sick=""):
    """An API server with a node of cards with 8 GiB each, a kube-scheduler, and a server."""
    with FakeApiServer(page=2) as api:
        api.refuse = allowed_by("gpushare.yaml")
        api.add_node("n", **{COUNT: str(cards), MEM: str(8 * cards)})
        meta = {"name": "unhealthy-gpu-n", "namespace": "kube-system"}
        api._put("configmaps", {"metadata": meta, "data": {"gpus": sick}})
        kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
        with (
            Command("--gpushare", "GiB", "--kubeconfig", kubeconfig) as server,
            FakeKubeScheduler(api, lambda: server.url, root="/gpushare-scheduler"),
        ):
            yield api, server


def add(api, name, amount, namespace="x"):
    limits = {"limits": {MEM: str(amount)}}
    api.add_pod(
        name, namespace=namespace, spec={"containers": [{"name": "c", "resources": limits}]}
    )


def cards(api):
    """Pod -> the card that its annotations name."""
    pods = [pod for pod in api.all("pods") if "nodeName" in pod["spec"]]
    return {pod["metadata"]["name"]: pod["metadata"]["annotations"][INDEX] for pod in pods}


def test_no_card_is_given_twice_after_a_restart(tmp_path):
    with served(tmp_path, cards=2) as (api, server):
        for i, namespace in enumerate(("x", "y", "z")):
            add(api, f"p{i}", 4, namespace)
        until(lambda: sorted(cards(api).values()) == ["0", "0", "1"])  # binds run side by side
        server.end()
        server.start().listening()
        assert server.get("/readyz").status_code == 200
        add(api, "large", 8)
        add(api, "small", 4)
        until(lambda: "small" in bound(api))
        assert cards(api)["small"] == "1"
        assert "large" not in bound(api)


def test_a_pod_that_waits_is_tried_again_when_there_is_a_card(tmp_path):
    with served(tmp_path) as (api, _):
        add(api, "first", 8)
        until(lambda: "first" in bound(api))
        add(api, "next", 8)
        api.delete_pod("first")
        until(lambda: "next" in bound(api))
        # A pod that ends unnoticed is missing in the next list.
        with api.away():
            api.delete_pod("next")
            api.compact()
        add(api, "last", 8)
        until(lambda: "last" in bound(api))


def test_unhealthy_cards_are_followed(tmp_path):
    with served(tmp_path, cards=2, sick="0") as (api, _):
        add(api, "p", 8)
        until(lambda: cards(api) == {"p": "1"})
        add(api, "q", 8)
        api.delete("configmaps", "unhealthy-gpu-n", "kube-system")
        until(lambda: set(cards(api).values()) == {"0", "1"})
