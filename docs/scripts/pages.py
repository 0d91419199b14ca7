"""What every built page keeps to; a warning ends the strict build."""

import logging
import re
from typing import Any

LOG = logging.getLogger("mkdocs.plugins.pages")

_FIELD = re.compile(r"(?:^|>|\s):(?:param|ivar|raises?|returns?)\b[^<\n]*", re.MULTILINE)
_CLASS = re.compile(
    r'<div class="doc doc-object doc-class">\s*<h\d id="([^"]+)"(.*?)<div class="doc doc-contents'
    r'(?: first)?">(.*?)<(?:div|h\d)\b',
    re.DOTALL,
)


def unfinished(page: str) -> list[str]:
    """Fields that no list shows, and classes whose parameters stand below no signature."""
    faults = [f"raw field: {field.strip()}" for field in _FIELD.findall(page)]
    for name, head, text in _CLASS.findall(page):
        signature = re.sub("<[^>]+>", "", head.partition("doc-signature")[2])
        if "<strong>Parameters</strong>" in text and not re.search(r"\(\s*[\w*]", signature):
            faults.append(f"no signature: {name}")
    return faults


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Warn of what is unfinished on a page."""
    for fault in unfinished(output):
        LOG.warning("%s: %s", page.file.src_uri, fault)
    return output
