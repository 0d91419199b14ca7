"""Which requests an API server allows: the rules of a manifest, applied to requests."""

from functools import cache
from pathlib import Path

import yaml

__all__ = ["DEPLOY", "allowed_by", "documents", "is_allowed"]

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


def documents(name):
    """The objects in a file of the folder."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def allowed_by(manifest="hivecore.yaml"):
    """Refuses what a manifest does not allow, for `FakeApiServer.refuse`."""

    def refuse(request):
        watching = request.query.get("watch") == "true"
        return 0 if is_allowed(request.method, request.path, watching, manifest) else 403

    return refuse


@cache
def _rules(manifest, kind, namespace=None):
    return [
        rule
        for role in documents(manifest)
        if role["kind"] == kind and role["metadata"].get("namespace") == namespace
        for rule in role["rules"]
    ]


def is_allowed(method, path, watching=False, manifest="hivecore.yaml"):
    """Whether the roles of a manifest allow a request of the service account."""
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    parts = parts[3:] if group else parts[2:]
    namespaced = parts[0] == "namespaces"
    if namespaced:
        namespace, parts = parts[1], parts[2:]
    resource = parts[0] + (f"/{parts[2]}" if len(parts) > 2 else "")
    verb = _VERBS[method]
    if method == "GET" and len(parts) == 1:
        verb = "watch" if watching else "list"
    rules = [
        *_rules(manifest, "ClusterRole"),
        *(_rules(manifest, "Role", namespace) if namespaced else ()),
    ]
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in rules
    )
