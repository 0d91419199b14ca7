"""What each part of a scheduler brings: one trace of five tenants under five configurations.

`run_demo` lets the jobs run, `demo_figures` says what came of it in figures, `demo_table`,
`demo_findings` and `demo_to_json` for people and programs, and `save_demo_page` draws it.
"""

from hivecore.sim.demo.figures import DemoFigures, demo_figures
from hivecore.sim.demo.page import save_demo_page
from hivecore.sim.demo.report import demo_findings, demo_table, demo_to_json
from hivecore.sim.demo.run import ALONE, CONFIGURATIONS, Demo, DemoRun, run_demo

__all__ = [
    "ALONE",
    "CONFIGURATIONS",
    "Demo",
    "DemoFigures",
    "DemoRun",
    "demo_figures",
    "demo_findings",
    "demo_table",
    "demo_to_json",
    "run_demo",
    "save_demo_page",
]
