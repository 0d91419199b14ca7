"""Which node's victims are named for which pod of a gang."""

from hivecore.interop.kubernetes.serving.evictions import Evictions


def test_a_gang_of_the_same_name_with_other_victims_gets_new_nodes() -> None:
    evictions = Evictions()
    assert evictions.node("gang", "old-0", {"n1": ["a"]}) == "n1"
    assert evictions.node("gang", "old-1", {"n1": ["a"]}) == "n1"
    victims = {"n1": ["b"], "n2": ["c"]}
    nodes = [evictions.node("gang", pod, victims) for pod in ("new-0", "new-1")]
    assert nodes == ["n1", "n2"]


def test_a_pod_that_is_gone_holds_no_node() -> None:
    evictions = Evictions()
    victims = {"n1": ["a"], "n2": ["b"]}
    for pod in ("old-0", "old-1", "old-2"):
        evictions.node("gang", pod, victims)
    for pod in ("old-0", "old-1", "old-2", "stranger"):
        evictions.forget(pod)
    assert evictions.node("gang", "kept", {"n1": ["a"]}) == "n1"
    nodes = [evictions.node("gang", pod, victims) for pod in ("new-0", "new-1")]
    assert nodes == ["n2", "n1"]
