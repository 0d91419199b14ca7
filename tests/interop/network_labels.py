"""Networks for the tests, and which nodes share a domain, from the labels of nodes alone."""

from hypothesis import strategies as st

__all__ = ["by_name", "domains", "labelled"]


@st.composite
def labelled(draw):
    """Layers and labels with few names, so that domains share theirs; some labels are missing."""
    layers = ["spine", "block", "rack"][draw(st.integers(0, 2)) :]
    names = st.sampled_from(["a", "b", "a.b", "b-2", "n00"])
    label = st.dictionaries(st.sampled_from(layers), names)
    return layers, {f"n{i:02d}": draw(label) for i in range(draw(st.integers(1, 10)))}


def domains(layers, labels):
    """By layer the sets of nodes that are domains."""
    keys = {}
    for node, known in labels.items():
        path = [("is", node)]
        for layer in reversed(layers):
            path.append(("is", known[layer]) if layer in known else ("for", path[-1]))
        keys[node] = path[:0:-1]
    results = []
    for end in range(1, len(layers) + 1):
        groups = {}
        for node, path in keys.items():
            groups.setdefault(tuple(path[:end]), set()).add(node)
        results.append({frozenset(group) for group in groups.values()})
    return results


def by_name(network):
    """The same, as the names of domains tell them."""
    paths = [(node, network.domain(node)) for node in network.nodes]
    results = []
    for end in range(1, len(network.layers) + 1):
        groups = {}
        for node, path in paths:
            groups.setdefault(path[:end], set()).add(node)
        results.append({frozenset(group) for group in groups.values()})
    return results
