"""Template files: commented YAML for clusters of usual shapes."""

from hivecore._arguments import as_choice

__all__ = ["SHAPES", "shape_text"]

_MODEL = """\
cluster:
  # What a machine has; its devices are spread evenly over its sockets and PCIe switches.
  models:
    h100:
      gpus: 8
      gpu_memory: 80Gi
      model: H100               # of the GPUs; NVSwitch partitions are known for H100, H800, H20
      nics: 8
      sockets: 2
      switches: 4
      resources: {cpu: 192, memory: 2Ti}
"""

_POLICIES = """\
# Which GPUs and NICs a pod gets: bin-pack fills devices that are in use, spread takes idle ones.
devices: {policy: bin-pack}

# Kubernetes' device claims (DRA) of pods, from the cluster that is served; objects: a file of them;
# mode: "fewest blocks" begins as few cards as possible.
# claims: {kubernetes: "1.36", objects: claims.yaml}

# immediate: yes for simulators, in which victims have stopped at once.
scheduler: {preemption: yes, immediate: no}
"""

_NODE = f"""\
# One machine that two teams share, GPU by GPU or in parts of a GPU.
{_MODEL}\
  nodes:
    node0: h100

tenants:
  research:
    # min: guaranteed, max: the most. Other tenants may borrow what is idle.
    quota: {{max: {{gpu: 8}}, min: {{gpu: 5}}}}
  product:
    quota: {{max: {{gpu: 8}}, min: {{gpu: 3}}}}

# A queue for each tenant. weighted: tenants with jobs get GPUs in proportion to their `weight`, by
# default 1; round-robin: a job of each in turn; priority: one queue for all.
queues: {{order: weighted}}

{_POLICIES}"""

_RACK = f"""\
# A rack of 16 machines for two teams; pods of a job are placed near to each other.
{_MODEL}\
  nodes:
    node[00-15]: h100
  # From wide to narrow, each layer with the number of nodes in one of its domains, or with their
  # names: {{switch: {{s0: "node[00-03]", ...}}}}. Or {{slurm: topology.conf}}, {{kueue: FILE}} or
  # {{koordinator: FILE}}, looked for beside this file.
  network: {{layers: {{rack: 16, switch: 4}}}}

tenants:
  research:
    weight: 2                   # its queue gets twice as much as others do
    # min: guaranteed, max: the most. Other tenants may borrow what is idle.
    quota: {{max: {{gpu: 128}}, min: {{gpu: 80}}}}
  product:
    quota: {{max: {{gpu: 64}}, min: {{gpu: 48}}}}

# weighted, round-robin, or priority: one queue for all. With {{ageing: 0.01}} a job gains so much
# of priority for each second that it waits.
queues: {{order: weighted}}

{_POLICIES}"""

_FOUR_RACKS = f"""\
# Four racks of 16 machines, in which each team owns cells: what it owns it gets, whole and well
# packed, as if it had a cluster of its own; others use it while it is idle (HiveD).
{_MODEL}\
  nodes:
    node[00-63]: h100
  # Chains of cells, from the leaf up: 8 GPUs are a node, 16 nodes are a rack. The cells of HiveD's
  # own file are {{hived: hived.yaml}}, looked for beside this one.
  cells:
    H100: {{levels: [gpu, node, rack], fanouts: [8, 16], nodes: "node[00-63]"}}

tenants:
  research:                     # a parent of quotas, without cells of its own
    quota: {{max: {{gpu: 384}}, min: {{gpu: 256}}}}
  vision:
    weight: 2                   # its queue gets twice as much as others do
    cells: {{H100: {{rack: 1, node: 8}}}}
    # min: what it gets in any case, max: the most; weight: its share of what is spare.
    quota: {{parent: research, max: {{gpu: 320}}, min: {{gpu: 128}}, weight: {{gpu: 2}}}}
  speech:
    cells: {{H100: {{node: 16}}}}
    quota: {{parent: research, max: {{gpu: 256}}, min: {{gpu: 128}}, weight: {{gpu: 1}}}}
  product:
    cells: {{H100: {{rack: 1}}}}
    quota: {{max: {{gpu: 128}}, min: {{gpu: 128}}, lends: no}}

# weighted, round-robin, or priority: one queue for all. With {{ageing: 0.01}} a job gains so much
# of priority for each second that it waits.
queues: {{order: weighted}}

# Which NICs a pod gets beside the GPUs that cells have chosen.
devices: {{policy: bin-pack}}

# Kubernetes' device claims (DRA) of pods, from the cluster that is served; objects: a file of them;
# mode: "fewest blocks" begins as few cards as possible.
# claims: {{kubernetes: "1.36", objects: claims.yaml}}

# The cache and the remote IO that all jobs share, and what they read.
storage:
  cache_gb: 40000
  bandwidth_mbps: 8000
  objective: greedy             # or throughput, max_min, finish_time, fifo, sjf
  datasets_gb: {{imagenet: 143, laion: 240000}}

# immediate: yes for simulators, in which evicted jobs stop at once. evictions: with private each
# team's jobs get the same nodes as if it were alone; packing evicts fewer borrowers, least the
# fewest.
scheduler: {{preemption: yes, immediate: no, evictions: private}}
"""

_TEXTS = {"node": _NODE, "rack": _RACK, "four-racks": _FOUR_RACKS}

#: The available shapes.
SHAPES = tuple(_TEXTS)


def shape_text(shape: str) -> str:
    """Return a file for a cluster of this shape.

    :param shape: one of `SHAPES`.
    :raises ValueError: there is no such shape.
    :raises TypeError: it is not a string.

    >>> from hivecore.interop.scheduler_file import SchedulerSpec, shape_text
    >>> len(SchedulerSpec.of_yaml(shape_text("rack")).nodes)
    16
    """
    return _TEXTS[as_choice(shape, "shape", SHAPES)]
