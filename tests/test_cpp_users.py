"""The kernels as C++ users get them: built and installed by CMake, found by a project of theirs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "cpp"


def installed_cmake():
    """The program, first of all that of this interpreter's environment; None if there is none."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake = shutil.which("cmake", path=path)
    # A version manager's stub exists and does not run.
    if cmake is None:
        return None
    answer = subprocess.run([cmake, "--version"], capture_output=True, check=False)
    return cmake if answer.returncode == 0 else None


CMAKE = installed_cmake()

pytestmark = [
    pytest.mark.skipif(CMAKE is None, reason="there is no cmake (pip install cmake)"),
    pytest.mark.skipif(
        not (ROOT / "CMakeLists.txt").is_file(), reason="only the installed package is here"
    ),
    pytest.mark.skipif(os.name == "nt", reason="the commands are those of a Unix generator"),
]

UNOPTIMIZED = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"]


def cmake(*arguments):
    done = subprocess.run(
        [CMAKE, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_project_of_ones_own_finds_the_installed_kernels(tmp_path):
    build, prefix, own = (tmp_path / name for name in ("build", "prefix", "own"))
    # Only what the example needs: the whole takes minutes.
    cmake(
        "-S", ROOT, "-B", build, "-DHIVECORE_SUBJECTS=cells", "-DCMAKE_UNITY_BUILD=ON", *UNOPTIMIZED
    )
    cmake("--build", build, "-j2")
    cmake("--install", build, "--prefix", prefix)
    cmake("-S", EXAMPLE, "-B", own, f"-DCMAKE_PREFIX_PATH={prefix}", *UNOPTIMIZED)
    cmake("--build", own)
    shown = subprocess.run([own / "gangs"], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == [
        "train: node 0 node 1",
        "tune: waits",
        "sweep: node 3 node 2",
        "serve: preempts",
        "tune: node 0",
    ]


def test_every_subject_is_in_the_library(tmp_path):
    cmake("-S", ROOT, "-B", tmp_path, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    commands = (tmp_path / "compile_commands.json").read_text()
    kernels = ROOT / "src" / "cpp"
    assert all(str(file.relative_to(ROOT)) in commands for file in kernels.rglob("*.cpp"))
