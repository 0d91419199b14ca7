# distutils: language = c++
"""What all subjects share: the log of what undoes the changes of Python objects."""

cimport cython


cdef object ABSENT = object()


def put_back(of, key, value, /):
    """Restore an entry of a dictionary, or its absence."""
    if value is ABSENT:
        of.pop(key, None)
    else:
        of[key] = value


cdef object PUT_BACK = put_back


@cython.final
cdef class UndoLog:
    """UndoLog()\n--\n\nThe calls that undo the changes of a Python object since the first mark, in their order.

    A change adds its undo only while the log is on: there are marks, and nothing is being undone.

    >>> log, numbers = UndoLog(), {"one": 1}
    >>> mark = log.mark()
    >>> log.keep(numbers, "one", "two")
    >>> numbers |= {"one": 0, "two": 2}
    >>> log.rewind(mark)
    >>> numbers, log.is_on
    ({'one': 1}, False)
    """

    cdef readonly bint is_on
    cdef readonly object add
    """Adds a call, as a tuple of a function and its arguments, that undoes the next change."""
    cdef list steps
    cdef list starts

    def __cinit__(self):
        self.is_on = False
        self.steps = []
        self.starts = []
        self.add = self.steps.append

    def keep(self, of, *keys):
        """Let the undo restore these entries of a dictionary, which may be absent."""
        if self.is_on:
            for key in keys:
                self.steps.append((PUT_BACK, of, key, of.get(key, ABSENT)))

    def note(self, *undo):
        """Let the undo call a function with arguments."""
        if self.is_on:
            self.steps.append(undo)

    def set(self, object, str name not None, value):
        """Set an attribute, and let the undo restore it."""
        if self.is_on:
            self.steps.append((setattr, object, name, getattr(object, name)))
        setattr(object, name, value)

    def mark(self):
        """Set a mark; from now on changes add their undo.

        :returns: the number of marks.
        """
        self.starts.append(len(self.steps))
        self.is_on = True
        return len(self.starts)

    cdef int check(self, mark) except -1:
        if mark is not None and mark != len(self.starts):
            raise RuntimeError("a trial must end before the one in which it was begun")
        return 0

    def rewind(self, mark=None):
        """Remove the last mark, and undo the changes since then.

        :param mark: its number, to be checked.
        """
        self.check(mark)
        cdef Py_ssize_t start = self.starts[len(self.starts) - 1]
        self.is_on = False
        while len(self.steps) > start:
            undo, *arguments = self.steps.pop()
            undo(*arguments)
        self.end()

    def end(self, mark=None):
        """Remove the last mark; the changes stay."""
        self.check(mark)
        self.starts.pop()
        self.is_on = len(self.starts) > 0
        if not self.is_on:
            self.steps.clear()
