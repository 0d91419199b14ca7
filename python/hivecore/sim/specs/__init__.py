"""Compares schedulers that specs describe, on any trace."""

from hivecore.sim.specs.report import SpecFigures, spec_figures, specs_report
from hivecore.sim.specs.run import Spec, SpecRun, replay_specs
from hivecore.sim.specs.scheduler_jobs import scheduler_jobs
from hivecore.sim.specs.trace_jobs import TraceJobs, load_jobs

__all__ = [
    "Spec",
    "SpecFigures",
    "SpecRun",
    "TraceJobs",
    "load_jobs",
    "replay_specs",
    "scheduler_jobs",
    "spec_figures",
    "specs_report",
]
