"""The objects of device claims in files of Kubernetes' objects."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hivecore.dra.ledger import record_of
from hivecore.interop.kubernetes.documents import objects_of

__all__ = ["OF_CLAIMS", "read_objects"]

OF_CLAIMS = ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaim", "Node")
"""Their kinds; claims are also read from templates."""
_TEMPLATE = "ResourceClaimTemplate"


def read_objects(paths: Iterable[Path]) -> tuple[list[Any], list[str]]:
    """The objects of files as records, and what is wrong with others."""
    objects, mistakes = [], []
    for path in paths:
        text = path.read_text("utf-8", errors="replace")
        for number, field in enumerate(objects_of(text, "document")):
            document = field.value
            kind = document.get("kind")
            if kind == _TEMPLATE:
                document = _of_template(document)
            elif kind not in OF_CLAIMS:
                continue
            try:
                objects.append(record_of(document, number))
            except (TypeError, ValueError) as error:
                mistakes.append(f"{path}: {error}")
    return objects, mistakes


def _of_template(document: Any) -> Any:
    """A claim as the template makes it."""
    inner = document.get("spec") or {}
    claim = {"kind": "ResourceClaim", "metadata": document.get("metadata") or {}}
    return claim | {"spec": inner.get("spec") or {}}
