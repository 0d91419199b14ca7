"""The parts of kubernetes_asyncio that talk to an API server, without its models of objects.

The package imports all of its modules at once, most of them models: 1.7 CPU seconds at each start
of a service, of which 0.4 remain. Its packages are replaced by empty ones while the few modules
that are needed load. Afterwards none of it is left among Python's modules, so that others import
the whole as ever. A release that is built otherwise is imported as a whole.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple

__all__ = ["Library", "load"]

_NAME = "kubernetes_asyncio"
_lock = RLock()


class Library(NamedTuple):
    """What is used of kubernetes_asyncio."""

    #: the module with `load_kube_config` and `load_incluster_config`
    config: Any
    #: the class of credentials and addresses
    configuration: Any
    #: the class that makes connections
    connections: Any


@cache
def load() -> Library:
    """Import the library once.

    :raises ImportError: it is not installed.
    """
    with _lock:
        if _NAME in sys.modules:
            return _whole()
        try:
            with _bare_packages() as client:
                configuration = import_module(f"{_NAME}.client.configuration").Configuration
                connections = import_module(f"{_NAME}.client.rest").RESTClientObject
                client.Configuration, client.ApiClient = configuration, None  # type: ignore[attr-defined]
                return Library(import_module(f"{_NAME}.config"), configuration, connections)
        except (ImportError, AttributeError):
            return _whole()


def _whole() -> Library:
    client = import_module(f"{_NAME}.client")
    rest = import_module(f"{_NAME}.client.rest")
    config = import_module(f"{_NAME}.config")
    return Library(config, client.Configuration, rest.RESTClientObject)


@contextmanager
def _bare_packages() -> Iterator[ModuleType]:
    """Let modules of the library load without their packages; gives that of its client."""
    spec = find_spec(_NAME)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(_NAME)
    root, client = ModuleType(_NAME), ModuleType(f"{_NAME}.client")
    root.__path__ = [*spec.submodule_search_locations]
    client.__path__ = [f"{path}/client" for path in root.__path__]
    sys.modules |= {_NAME: root, client.__name__: client}
    try:
        yield client
    finally:
        for name in [*sys.modules]:
            if name == _NAME or name.startswith(f"{_NAME}."):
                del sys.modules[name]
