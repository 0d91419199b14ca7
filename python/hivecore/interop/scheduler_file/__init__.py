"""Reads a cluster from one YAML file: its nodes, tenants, quotas and queues."""

from hivecore.interop.scheduler_file.shapes import SHAPES, shape_text
from hivecore.interop.scheduler_file.spec import SchedulerSpec

__all__ = ["SHAPES", "SchedulerSpec", "shape_text"]
