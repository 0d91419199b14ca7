"""The number of nodes of each tenant, as a CSV file: `vc,node num`.

This is the layout in which Philly's virtual clusters are published (SenseTime's HeliosArtifact).
"""

from pathlib import Path

from hivecore.traces._table import COUNT, NAME, read_columns
from hivecore.traces.errors import TraceFormatError

__all__ = ["load_virtual_clusters"]


def load_virtual_clusters(path: str | Path) -> dict[str, int]:
    r"""Return the number of nodes per virtual cluster, in the order of the file.

    :param path: a CSV file with the columns `vc` (name) and `node num` (positive integer).
    :raises OSError: the file cannot be read.
    :raises TraceFormatError: the file does not follow the layout, or names a cluster twice.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "virtual_clusters.csv"
    ...     _ = file.write_text("vc,node num\nA,64\nB,32\n")
    ...     load_virtual_clusters(file)
    {'A': 64, 'B': 32}
    """
    source = Path(path)
    columns = read_columns(source, {"vc": NAME, "node num": COUNT})
    clusters: dict[str, int] = {}
    for name, nodes in zip(columns["vc"].tolist(), columns["node num"].tolist(), strict=True):
        if name in clusters:
            raise TraceFormatError(f"virtual cluster {name!r} is listed twice", source)
        if nodes == 0:
            raise TraceFormatError(f"virtual cluster {name!r} owns no node", source)
        clusters[name] = nodes
    return clusters
