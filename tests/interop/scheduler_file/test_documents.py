"""What is written for a cluster is what is read, and nothing that is written wrong escapes."""

import re

import yaml
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hivecore.interop.hived import ConfigError
from hivecore.interop.scheduler_file import SchedulerSpec
from hivecore.quotas import Quota

NAMES = st.sampled_from(["a", "on", "010", "null", "b.c", "d e", "ü", "[x]"])


@st.composite
def clusters(draw):
    """A document, the cells that are owned, and the quotas."""
    racks, nodes, gpus = (draw(st.integers(1, 4)) for _ in range(3))
    owned, quotas, tenants = {}, {}, {}
    left = racks * nodes
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        count = draw(st.integers(0, left))
        left -= count
        owned[name] = {"c": {"node": count}}
        most = draw(st.integers(0, 64))
        quotas[name] = Quota(name, max={"gpu": most}, min={"gpu": draw(st.integers(0, most))})
        tenants[name] = {
            "cells": owned[name],
            "quota": {"max": dict(quotas[name].max), "min": dict(quotas[name].min)},
        }
    hosts = f"n[0-{racks * nodes - 1}]"
    chain = {"levels": ["gpu", "node", "rack"], "fanouts": [gpus, nodes], "nodes": hosts}
    document = {
        "cluster": {
            "models": {"m": {"gpus": gpus}},
            "nodes": {hosts: "m"},
            "cells": {"c": chain},
        },
        "tenants": tenants,
        "devices": {"policy": draw(st.sampled_from(["bin-pack", "spread"]))},
    }
    return document, owned, quotas


@given(clusters(), st.booleans())
@examples(60)
def test_what_is_written_is_what_is_read(built, flow):
    document, owned, quotas = built
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True)
    spec = SchedulerSpec.of_yaml(text)
    assert spec.cells.spec.virtual_clusters == owned
    assert set(spec.tenants) == set(owned)
    if quotas:
        assert {name: spec.quotas.quota(name) for name in spec.quotas.quotas} == quotas
    assert set(spec.nodes) == set(spec.cells.nodes) == set(spec.devices.nodes)
    assert spec.scheduler().cells.spec == spec.cells.spec


TEXT = """\
cluster:
  models:
    m: {gpus: 2, gpu_memory: 80Gi, nics: 2, resources: {cpu: 8}}
  nodes: {"n[0-3]": m}
  network: {layers: {rack: 2}}
tenants:
  a: {weight: 2, quota: {max: {gpu: 4}, min: {gpu: 2}}}
  b:
    quota: {parent: a, max: {gpu: 4}}
queues: {order: weighted, ageing: 0.5}
quotas: {total: {gpu: 8}}
devices: {policy: spread}
sharing: {resources: 3, max_slowdown: 2}
storage: {cache_gb: 1, bandwidth_mbps: 2.5, datasets_gb: {d: 1}}
scheduler: {tries: 2, immediate: yes}
"""


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TEXT)),
            st.integers(0, 6),
            st.sampled_from(["", " ", "\n", "- ", "{", "]", ": ", "-1", "x", "null", "&a ", "*a"]),
        ),
        min_size=1,
        max_size=3,
    )
)
@examples(300)
def test_a_damaged_file_is_read_or_its_mistakes_are_named_with_lines(edits):
    text = TEXT
    for at, length, new in edits:
        text = text[:at] + new + text[at + length :]
    try:
        spec = SchedulerSpec.of_yaml(text, "f")
    except ConfigError as error:
        last = text.count("\n") + 1
        for where, what in error.problems:
            line = re.match(r"f:(\d+)(: |$)", where)
            assert line, (where, what)
            assert 1 <= int(line[1]) <= last
    else:
        spec.scheduler().check()
