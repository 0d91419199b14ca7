"""Reading HiveD's configuration, at sizes from 1,024 to 1,048,576 GPUs in 5 levels.

    python bench/bench_hived_config.py [--smoke] [--out DIR]

A row of 16 racks of 8 nodes of 2 sockets of 4 GPUs; four tenants own racks and nodes.

implied    a mapping that names the rows only; all else follows from the types
spelled    a mapping that gives an address to every row, rack and node
yaml       the same as YAML text
PyYAML     that text to plain data by PyYAML's own C loader, without a look at what it says

The data of all forms are compared once. Times are CPU time, the least of several rounds.
"""

import io
import sys
from collections.abc import Callable
from typing import Any

import yaml
from harness import command_line, cpu_seconds, save, take_turns

from hivecore.interop.hived import HivedConfig

GPUS_PER_ROW = 1024
TYPES = {
    "SOCKET": {"childCellType": "GPU", "childCellNumber": 4},
    "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
    "RACK": {"childCellType": "NODE", "childCellNumber": 8},
    "ROW": {"childCellType": "RACK", "childCellNumber": 16},
}


def document(rows: int, cells: list[dict[str, Any]]) -> dict[str, Any]:
    owned = [
        {"cellType": "ROW.RACK", "cellNumber": 3 * rows},
        {"cellType": "ROW.RACK.NODE", "cellNumber": 8 * rows},
    ]
    return {
        "physicalCluster": {"cellTypes": TYPES, "physicalCells": cells},
        "virtualClusters": {name: {"virtualCells": owned} for name in "ABCD"},
    }


def spelled_cells(rows: int) -> list[dict[str, Any]]:
    """Every row, rack and node with the address that it has anyway."""
    return [
        {
            "cellType": "ROW",
            "cellAddress": f"{row}",
            "cellChildren": [
                {
                    "cellAddress": f"{rack}",
                    "cellChildren": [
                        {"cellAddress": f"{node}"} for node in range(rack * 8, rack * 8 + 8)
                    ],
                }
                for rack in range(row * 16, row * 16 + 16)
            ],
        }
        for row in range(rows)
    ]


def reading(rows: int, rounds: int) -> dict[str, float]:
    """Milliseconds of each form."""
    implied = document(rows, [{"cellType": "ROW"}] * rows)
    spelled = document(rows, spelled_cells(rows))
    text = yaml.dump(spelled, Dumper=yaml.CSafeDumper)
    expected = HivedConfig.read(implied)
    for source in (spelled, io.StringIO(text)):
        found = HivedConfig.read(source)
        assert found.spec == expected.spec
        assert found.addresses("ROW", "GPU") == expected.addresses("ROW", "GPU")

    def timed(task: Callable[[], Any]) -> Callable[[], float]:
        return lambda: cpu_seconds(task) * 1e3

    return take_turns(
        {
            "implied": timed(lambda: HivedConfig.read(implied)),
            "spelled": timed(lambda: HivedConfig.read(spelled)),
            "yaml": timed(lambda: HivedConfig.read(io.StringIO(text))),
            "PyYAML": timed(lambda: yaml.load(text, Loader=yaml.CSafeLoader)),
        },
        rounds,
    )


def main() -> None:
    arguments = command_line(__doc__)
    sizes = [1, 8] if arguments.smoke else [1, 8, 64, 1024]
    figures = []
    for rows in sizes:
        gpus = rows * GPUS_PER_ROW
        found = reading(rows, 2 if arguments.smoke or rows > 64 else 10)
        figures.append({"gpus": gpus, "unit": "ms", **found})
        print(f"{gpus:>9,} GPUs  ", *(f"{name} {ms:8.2f} ms" for name, ms in found.items()))
        sys.stdout.flush()
    save(arguments, "hived_config", figures)


if __name__ == "__main__":
    main()
