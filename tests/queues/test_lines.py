"""The line of a tenant: when dead jobs leave its middle."""

from hivecore._trial import UndoLog
from hivecore.queues import QueuedJob
from hivecore.queues._line import Entry, Line


def line_of(jobs, undo=None):
    """A line of so many jobs of one priority."""
    line = Line(undo or UndoLog(), lambda entry, other: False)
    for number in range(jobs):
        job = QueuedJob(f"job {number}", "a", 1)
        line.push(Entry(0, number, number, number, job))
    return line


def test_nothing_is_looked_at_where_no_job_is_dead():
    line, looked_at = line_of(5), []
    line.tidy(5, looked_at.append)
    assert (line.length, looked_at) == (5, [])


def test_the_dead_leave_the_middle_when_there_are_sixteen_more_than_twice_the_living():
    for jobs, left in ((36, 36), (37, 10)):
        line = line_of(jobs)
        line.tidy(10, lambda entry: entry.number < 10)
        assert line.length == left
        assert [entry.number for entry in line][:10] == list(range(10))


def test_the_dead_stay_in_the_middle_while_an_undo_may_need_them():
    undo = UndoLog()
    line = line_of(100, undo)
    mark = undo.mark()
    line.tidy(10, lambda entry: entry.number < 10)
    assert line.length == 100
    undo.rewind(mark)
    line.tidy(10, lambda entry: entry.number < 10)
    assert line.length == 10
