"""networkx's matching, computed by hivecore: pair students so that they like their partners best.

No import of hivecore is needed: networkx finds the backend that is installed beside it.
"""

import time

import networkx as nx
import numpy as np


def main() -> None:
    """Solve one graph with both and compare."""
    random = np.random.default_rng(0)
    likes = random.integers(1, 100, size=(80, 80))
    graph = nx.Graph()
    for i in range(80):
        for j in range(i):
            graph.add_edge(f"student {i}", f"student {j}", weight=int(likes[i, j]))

    totals = {}
    for backend in ("networkx", "hivecore"):
        start = time.process_time()
        pairs = nx.max_weight_matching(graph, backend=backend)
        seconds = time.process_time() - start
        totals[backend] = sum(graph.edges[pair]["weight"] for pair in pairs)
        print(f"{backend}: {len(pairs)} pairs of weight {totals[backend]} in {seconds:.3f} s")
    assert totals["networkx"] == totals["hivecore"]

    # For every call that it can serve, without naming it:
    nx.config.backend_priority = ["hivecore"]
    print("least liked, by priority:", len(nx.min_weight_matching(graph)), "pairs")


if __name__ == "__main__":
    main()
