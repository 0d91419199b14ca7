"""What is imported of kubernetes_asyncio."""

import subprocess
import sys

import pytest

PARTS = (
    "import sys; from hivecore.interop.kubernetes.client import library; parts = library.load(); "
)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_models_of_objects_are_not_imported_and_others_import_the_whole():
    done = run(
        f"{PARTS}assert not [name for name in sys.modules if name.startswith('kubernetes_')]; "
        "import kubernetes_asyncio as whole; whole.client.CoreV1Api; whole.client.rest; "
        "whole.config.load_kube_config; "
        "assert whole.client.Configuration is not parts.configuration; "
        "assert library.load() is parts; print(len(parts))"
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.parametrize(
    "before",
    [
        "import kubernetes_asyncio",
        "import importlib.util as u; u.find_spec = lambda name: None",
    ],
)
def test_the_whole_is_imported_if_it_is_there_or_is_built_otherwise(before):
    done = run(
        f"{before}; {PARTS}import kubernetes_asyncio as whole; "
        "assert parts.configuration is whole.client.Configuration; print(len(parts))"
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_missing_library_is_an_import_error():
    done = run(f"import sys; sys.modules['kubernetes_asyncio'] = None; {PARTS}")
    assert "ModuleNotFoundError" in done.stderr and "kubernetes_asyncio" in done.stderr
