"""One YAML file for a whole cluster: its nodes, what tenants are promised, and which is next."""

from hivecore.interop.scheduler_file.shapes import SHAPES, shape_text
from hivecore.interop.scheduler_file.spec import SchedulerSpec

__all__ = ["SHAPES", "SchedulerSpec", "shape_text"]
