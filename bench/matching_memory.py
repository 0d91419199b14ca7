"""The peak memory of a matching, beyond the given dense array."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from hivecore.matching import max_weight_matching

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
BITS = {"int32": 26, "int64": 40}  # by the kernel's lanes: the bits of the weights given


def bytes_per_entry(n: int, lanes: str) -> float | None:
    """Measure in a separate process; None if the system cannot (it must be Linux)."""
    if not RESET.exists():
        return None
    command = [sys.executable, __file__, str(n), str(BITS[lanes])]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def kibibytes(name: str) -> int:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def peak_of_call(n: int, bits: int) -> float:
    weights = np.random.default_rng(n).integers(1, 2**bits, (n, n))
    weights = np.maximum(weights, weights.T)
    max_weight_matching(weights[:2, :2])  # whatever is loaded at the first call
    RESET.write_text("5")  # resets the peak
    before = kibibytes("VmRSS")
    max_weight_matching(weights)
    return 1024 * (kibibytes("VmHWM") - before) / n**2


if __name__ == "__main__":
    print(peak_of_call(int(sys.argv[1]), int(sys.argv[2])))
