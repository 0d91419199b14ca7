"""What each part of a scheduler gains: a trace of five tenants under several configurations.

`run_demo` runs the jobs, `demo_figures` returns figures, and `demo_report` a report with a page of
pictures.
"""

from hivecore.sim.demo.figures import DemoFigures
from hivecore.sim.demo.report import demo_figures, demo_findings, demo_report
from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo, DemoRun, run_demo

__all__ = [
    "ALONE",
    "CONFIGURATIONS",
    "Demo",
    "DemoFigures",
    "DemoRun",
    "demo_figures",
    "demo_findings",
    "demo_report",
    "run_demo",
]
