"""How the GPUs of each model may be shared: what Koordinator's scheduler is configured with.

    huawei-Ascend-310P:              # in data.yaml of the ConfigMap: vendor and model
      vir02:                         # a template, and all that it gives
        koordinator.sh/gpu-memory: 6Gi
        huawei.com/npu-core: 2
        huawei.com/npu-cpu: 2

Which requests have to be of a template, and which models are not shared, is told by the arguments
of its plugin DeviceShare. Both hold for the whole cluster; `GpuSharing.on` gives a node its part.
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
_NAMES = {there: name for name, there in AMOUNTS["gpu"].items()}


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
    """How the GPUs of each model may be shared; `read_gpu_sharing` makes it.

    :param templates: of each "<vendor>-<model>" that has any.
    :param others: what the GPUs of all other models have instead: no template.
    :param unshareable: vendor and model of GPUs that are given whole.
    :raises TypeError: an argument is of a wrong type.
    :raises ValueError: one of ``unshareable`` is not a pair.
    """

    templates: Annotated[Mapping[str, ShareTemplates], _by_model] = {}
    others: ShareTemplates = ShareTemplates()
    unshareable: Annotated[frozenset[tuple[str, str]], _models] = frozenset()

    def __post_init__(self) -> None:
        self._check()

    def on(self, inventory: NodeDevices) -> NodeDevices:
        """The inventory, with how its GPUs may be shared."""
        return inventory.replace(
            templates=self.templates.get(f"{inventory.vendor}-{inventory.model}", self.others),
            shareable=(inventory.vendor, inventory.model) not in self.unshareable,
        )

    def admits(self, request: DeviceRequest) -> bool:
        """Whether GPUs of any model have a template for the request, if it must be of one.

        If not, Koordinator refuses the pod before it looks at nodes. A cluster need not be told:
        each of its nodes refuses the request as well.
        """
        gpus = request.need("gpu")
        if gpus is None or not gpus.shared:
            return True
        asked = dict(gpus.amounts)
        return asked.keys().isdisjoint(self.others.matched) or any(
            one.amounts == gpus.amounts
            for model in self.templates.values()
            for one in model.templates
        )


def read_gpu_sharing(
    config_map: Mapping[str, Any] | None = None, arguments: Mapping[str, Any] | None = None
) -> GpuSharing:
    """The templates of all models, and the models that are not shared.

    Templates that no request can equal are left out: those with an amount of 0, or of something
    that is no GPU's.

    :param config_map: the object of kind ConfigMap as plain data, "gpu-shared-resource-templates"
        by default; ``None``: there is none. Its text is YAML, which takes PyYAML to read.
    :param arguments: of the plugin DeviceShare, as plain data; ``None``: those by default, by which
        requests for ``huawei.com/npu-core`` have to be of a template.
    :raises ValueError: the text is no YAML, or something is out of range. The message has the path.
    :raises TypeError: something is of a wrong type.
    :raises ImportError: PyYAML is not there.

    Source: Koordinator, ``gpu_shared_resource_templates_cache.go``, ``DeviceShareArgs``.

    >>> from hivecore.interop.koordinator import read_device_record, read_gpu_sharing
    >>> sharing = read_gpu_sharing(
    ...     {"data": {"data.yaml": "huawei-Ascend-310P: {vir01: {huawei.com/npu-core: 1}}"}},
    ...     {"gpuShareUnsupportedModels": [{"vendor": "huawei", "model": "Ascend-310P3-300I-DUO"}]},
    ... )
    >>> labels = {"node.koordinator.sh/gpu-vendor": "huawei",
    ...           "node.koordinator.sh/gpu-model": "Ascend-310P"}
    >>> node = sharing.on(read_device_record({"metadata": {"labels": labels}}))
    >>> [one.name for one in node.templates.templates], node.shareable
    (['vir01'], True)
    """
    given = Field({} if arguments is None else as_mapping(arguments, "arguments"), "arguments")
    config = given["gpuSharedResourceTemplatesConfig"]
    matched: tuple[str, ...] = (_NAMES[NPU_CORE],)
    if config.value is not None:
        resources = [entry.name() for entry in config["matchedResources"].entries()]
        matched = tuple(_NAMES[one] for one in resources if one in _NAMES)
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
    """What this string holds as YAML."""
    documents = read_yaml(text)
    return Field(documents[0] if documents else None, text.path)


def _templates(rows: Field) -> tuple[ShareTemplate, ...]:
    found = []
    for name, row in rows.items():
        entries = dict(row.items())
        if entries.keys() <= _NAMES.keys():
            amounts = {_NAMES[key]: entries[key].quantity(0, _MOST) for key in entries}
            if amounts and all(amounts.values()):
                with row.named():
                    found.append(ShareTemplate(name, amounts))
    return tuple(found)
