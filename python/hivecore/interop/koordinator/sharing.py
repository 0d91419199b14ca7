"""Reads how the GPUs of each model may be shared, from the configuration of Koordinator's
scheduler.

    huawei-Ascend-310P:              # in data.yaml of the ConfigMap: vendor and model
      vir02:                         # a template, and all that it gives
        koordinator.sh/gpu-memory: 6Gi
        huawei.com/npu-core: 2
        huawei.com/npu-cpu: 2

The arguments of its plug-in DeviceShare say which requests need a template and which models are not
shared. Both apply to the whole cluster; `GpuSharing.on` applies them to a node.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from hivecore._arguments import as_instance, as_mapping, as_text, as_tuple
from hivecore._record import Record
from hivecore.devices import DeviceRequest, NodeDevices, ShareTemplate, ShareTemplates
from hivecore.interop.koordinator.names import AMOUNTS, NPU_CORE
from hivecore.interop.kubernetes.documents import read_yaml
from hivecore.interop.kubernetes.fields import Field

__all__ = ["GpuSharing", "read_gpu_sharing"]

_MOST = 2**48
_NAMES = {resource: name for name, resource in AMOUNTS["gpu"].items()}


def _by_model(value: Any, name: str) -> dict[str, ShareTemplates]:
    return {
        as_text(model, name): as_instance(rows, f"{name}[{model!r}]", ShareTemplates)
        for model, rows in as_mapping(value, name).items()
    }


def _models(value: Any, name: str) -> frozenset[tuple[str, str]]:
    pairs = [as_tuple(pair, name) for pair in as_tuple(value, name)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{name} must hold pairs of a vendor and a model")
    return frozenset((as_text(vendor, name), as_text(model, name)) for vendor, model in pairs)


class GpuSharing(Record, frozen=True):
    """How the GPUs of each model may be shared; see `read_gpu_sharing`.

    :param templates: by "<vendor>-<model>".
    :param others: for all other models: no template.
    :param unshareable: pairs of vendor and model whose GPUs are only allocated whole.
    :raises TypeError: an argument has a wrong type.
    :raises ValueError: ``unshareable`` has an entry that is not a pair.
    """

    templates: Annotated[Mapping[str, ShareTemplates], _by_model] = {}
    others: ShareTemplates = ShareTemplates()
    unshareable: Annotated[frozenset[tuple[str, str]], _models] = frozenset()

    def __post_init__(self) -> None:
        self._check()

    def on(self, inventory: NodeDevices) -> NodeDevices:
        """Return the inventory with the rules for sharing its GPUs."""
        return inventory.replace(
            templates=self.templates.get(f"{inventory.vendor}-{inventory.model}", self.others),
            shareable=(inventory.vendor, inventory.model) not in self.unshareable,
        )

    def admits(self, request: DeviceRequest) -> bool:
        """Whether the request needs no template, or some model has one for it.

        If not, Koordinator refuses the pod before it looks at nodes. A `DeviceCluster` needs no
        such check, as each of its nodes refuses the request as well.
        """
        gpus = request.need("gpu")
        if gpus is None or not gpus.shared:
            return True
        amounts = dict(gpus.amounts)
        return amounts.keys().isdisjoint(self.others.matched) or any(
            template.amounts == gpus.amounts
            for model in self.templates.values()
            for template in model.templates
        )


def read_gpu_sharing(
    config_map: Mapping[str, Any] | None = None, arguments: Mapping[str, Any] | None = None
) -> GpuSharing:
    """Return the sharing templates of all models, and the models that are not shared.

    Templates that no request can equal are left out: those with an amount of 0, or of a resource
    that GPUs do not have.

    :param config_map: the ConfigMap object as plain data, "gpu-shared-resource-templates" by
        default; ``None`` if there is none. PyYAML is needed to read its text.
    :param arguments: of the plug-in DeviceShare, as plain data; by default only requests for
        ``huawei.com/npu-core`` need a template.
    :raises ValueError: the text is not YAML, or a value is out of range. The message has the path.
    :raises TypeError: a field has a wrong type.
    :raises ImportError: PyYAML is missing.

    Source: Koordinator, ``gpu_shared_resource_templates_cache.go``, ``DeviceShareArgs``.

    >>> from hivecore.interop.koordinator import read_device_record, read_gpu_sharing
    >>> sharing = read_gpu_sharing(
    ...     {"data": {"data.yaml": "huawei-Ascend-310P: {vir01: {huawei.com/npu-core: 1}}"}},
    ...     {"gpuShareUnsupportedModels": [{"vendor": "huawei", "model": "Ascend-310P3-300I-DUO"}]},
    ... )
    >>> labels = {"node.koordinator.sh/gpu-vendor": "huawei",
    ...           "node.koordinator.sh/gpu-model": "Ascend-310P"}
    >>> node = sharing.on(read_device_record({"metadata": {"labels": labels}}))
    >>> [template.name for template in node.templates.templates], node.shareable
    (['vir01'], True)
    """
    given = Field({} if arguments is None else as_mapping(arguments, "arguments"), "arguments")
    config = given["gpuSharedResourceTemplatesConfig"]
    matched: tuple[str, ...] = (_NAMES[NPU_CORE],)
    if config.value is not None:
        resources = [entry.name() for entry in config["matchedResources"].entries()]
        matched = tuple(_NAMES[resource] for resource in resources if resource in _NAMES)
    models = frozenset(
        (entry["vendor"].text(), entry["model"].text())
        for entry in given["gpuShareUnsupportedModels"].entries()
    )
    templates = {}
    if config_map is not None:
        data = Field(as_mapping(config_map, "config_map"), "config_map")["data"]["data.yaml"]
        templates = {
            model: ShareTemplates(_templates(rows), matched) for model, rows in _yaml(data).items()
        }
    return GpuSharing(templates, ShareTemplates((), matched), models)


def _yaml(text: Field) -> Field:
    """Return the YAML document in a string."""
    documents = read_yaml(text)
    return Field(documents[0] if documents else None, text.path)


def _templates(rows: Field) -> tuple[ShareTemplate, ...]:
    documents = []
    for name, row in rows.items():
        entries = dict(row.items())
        if entries.keys() <= _NAMES.keys():
            amounts = {_NAMES[key]: entries[key].quantity(0, _MOST) for key in entries}
            if amounts and all(amounts.values()):
                with row.named():
                    documents.append(ShareTemplate(name, amounts))
    return tuple(documents)
