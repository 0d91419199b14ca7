"""What each part of a scheduler brings: one trace of five tenants under five configurations.

`run_demo` lets the jobs run, `demo_figures` says what came of it in figures, and `demo_report` shows
it to people and programs, and on a page of pictures.
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
