"""Device claims in the service of pods: what is written, what is booked, and what comes between."""

import pytest
from interop.extender.claims_and_controllers import ClaimCluster
from interop.kubernetes.fake_api_server import PROTECTION


@pytest.fixture
def cluster(tmp_path):
    made = ClaimCluster(tmp_path)
    yield made
    made.check()
    made.close()


def test_a_pod_is_bound_when_its_claim_says_so(cluster):
    cluster.api.add_claim("c", {"gpu": 2})
    cluster.add_pod("p", gpus="c")
    cluster.settle(1)
    assert cluster.node_of("p") == "n0"
    claim, uid = cluster.api.claim("c"), cluster.api.pod("p")["metadata"]["uid"]
    assert claim["metadata"]["finalizers"] == [PROTECTION]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
    assert cluster.devices("c") == ["n0/d0", "n0/d1"]
    writes = [one for one in cluster.api.requests if one[0] in ("PUT", "POST")]
    path = "/apis/resource.k8s.io/v1/namespaces/x/resourceclaims/c"
    binding = "/api/v1/namespaces/x/pods/p/binding"
    assert writes == [("PUT", path), ("PUT", f"{path}/status"), ("POST", binding)]
    assert cluster.booked() == dict.fromkeys(["n0/d0", "n0/d1"], ["/pods:x:p/pod/0/gpus"])
