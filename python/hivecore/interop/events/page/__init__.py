"""The web page: static files, whose script fetches ``/v1/overview``."""

from collections.abc import Mapping
from importlib.resources import files

from hivecore.interop.kubernetes.serving.server import Page

__all__ = ["pages"]

_KINDS = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


def pages() -> Mapping[str, Page]:
    """Return the files by path.

    >>> from hivecore.interop.events.page import pages
    >>> list(pages())
    ['/', '/page.css', '/page.js']
    """
    folder = files(__name__)
    return {
        "/" if name == "index.html" else f"/{name}": Page(
            (folder / name).read_bytes(), f"{kind}; charset=utf-8"
        )
        for name, kind in _KINDS.items()
    }
