"""One YAML file for a whole cluster: what it is made of, who is promised what, and who is next."""

from hivecore.interop.scheduler_file.shapes import SHAPES, shape_text
from hivecore.interop.scheduler_file.spec import SchedulerSpec

__all__ = ["SHAPES", "SchedulerSpec", "shape_text"]
