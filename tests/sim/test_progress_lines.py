"""Off a terminal a simulation says every now and then how far it is."""

import re
import time

from hivecore.sim import console


def test_lines_say_how_many_jobs_have_been_submitted(monkeypatch, capsys):
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.01)
    with console.progress_bar(3000) as step:
        move = step("quotas")
        move(500)
        move(1000)
        step("cells")(250)
        said = ""
        for _ in range(500):
            said += capsys.readouterr().err
            if "1,250" in said:
                break
            time.sleep(0.01)
    assert re.search(r"simulated 1,250 of 3,000 jobs \(cells\), \d+ s\n", said)


def test_a_short_simulation_says_nothing(capsys):
    with console.progress_bar(3000) as step:
        step("quotas")(3000)
    assert capsys.readouterr().err == ""
