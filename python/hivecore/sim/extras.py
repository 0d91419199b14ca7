"""Libraries that only a part of the simulator needs."""

from importlib.util import find_spec

__all__ = ["require"]


def require(library: str) -> None:
    """Raise an error that says how to get a library, if it is missing.

    :param library: of the extra ``sim``.
    :raises ModuleNotFoundError: it is not installed.

    >>> require("json")
    >>> require("no_such_library")
    Traceback (most recent call last):
    ModuleNotFoundError: this needs no_such_library: pip install 'hivecore[sim]'
    """
    if not find_spec(library):
        raise ModuleNotFoundError(
            f"this needs {library}: pip install 'hivecore[sim]'", name=library
        )
