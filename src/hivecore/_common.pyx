# distutils: language = c++
"""What all subjects share: the log of what undoes the changes of Python objects, and a lock that
makes Ctrl-C wait.
"""

cimport cython
from libc.signal cimport SIGINT

from _signal import default_int_handler, getsignal, signal
from _thread import RLock
from threading import main_thread


cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()


cdef unsigned long MAIN_THREAD = main_thread().ident


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


cdef bint is_interrupted = False


def note_interrupt(number, frame, /):
    """Note the first Ctrl-C; the second interrupts at once.

    :raises KeyboardInterrupt: it is the second.
    """
    global is_interrupted
    if is_interrupted:
        raise KeyboardInterrupt
    is_interrupted = True


cdef object NOTE = note_interrupt


def check_interrupt():
    """Raise what `InterruptLock` holds back; not in other threads.

    :raises KeyboardInterrupt: Ctrl-C was pressed.
    """
    if is_interrupted and PyThread_get_thread_ident() == MAIN_THREAD:
        raise KeyboardInterrupt


cdef bint hold_back() except -1:
    """Let Ctrl-C be noted, if it would raise an error in this thread; return whether it would."""
    if PyThread_get_thread_ident() != MAIN_THREAD or getsignal(SIGINT) is not default_int_handler:
        return False
    try:
        signal(SIGINT, NOTE)
    except ValueError:  # a process that was forked off another thread
        return False
    return True


cdef int let_through() except -1:
    """Undo `hold_back`; raise KeyboardInterrupt if Ctrl-C was pressed."""
    global is_interrupted
    if getsignal(SIGINT) is NOTE:
        try:
            signal(SIGINT, default_int_handler)
        except KeyboardInterrupt:  # a second Ctrl-C, for which `signal` looks first
            signal(SIGINT, default_int_handler)
    if is_interrupted:
        is_interrupted = False
        raise KeyboardInterrupt
    return 0


@cython.final
cdef class InterruptLock:
    """InterruptLock()\n--\n\nA reentrant lock, as a context. While the main thread holds it, Ctrl-C waits.

    `check_interrupt` raises the interrupt where changes can be undone, the end of the context
    otherwise. Only Python's own handler of SIGINT is replaced; a second Ctrl-C interrupts at once.
    Cost: 1 us in the main thread, 0.1 us in others.

    >>> lock = InterruptLock()
    >>> with lock, lock:
    ...     check_interrupt()
    """

    cdef object acquire
    cdef object release
    cdef Py_ssize_t depth
    cdef bint holds_back

    def __cinit__(self):
        lock = RLock()
        self.acquire, self.release = lock.acquire, lock.release

    def __enter__(self):
        self.acquire()
        if self.depth == 0:
            try:
                self.holds_back = hold_back()
            except BaseException:
                self.release()
                raise
        self.depth += 1

    def __exit__(self, kind, error, trace):
        self.depth -= 1
        try:
            if self.depth == 0 and self.holds_back:
                let_through()
        finally:
            self.release()
