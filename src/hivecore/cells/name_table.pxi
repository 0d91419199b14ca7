"""Names of nodes that are suggested, many thousand at a time."""

from libc.string cimport memset
from libcpp.string_view cimport string_view


cdef extern from "cells/name_table.hpp" namespace "hivecore::cells" nogil:
    cdef cppclass Table "hivecore::cells::NameTable":
        Table(size_t) except +
        void add(string_view) except +
        int64_t find(string_view) noexcept
        void mark(string_view, uint8_t*) noexcept

    cdef cppclass Marker "hivecore::cells::NameTable::Marker":
        Marker()
        Marker(const Table&, uint8_t*)
        void add(string_view) noexcept
        void finish() noexcept

    bint has_names "hivecore::cells::NameTable::has_names"(string_view) noexcept


cdef extern from "Python.h":
    int PyUnicode_Compare(object, object) except? -1
    void* PyList_GET_ITEM(object, Py_ssize_t) noexcept
    void* PyTuple_GET_ITEM(object, Py_ssize_t) noexcept


cdef extern from *:
    """
    // Strings lie anywhere: to wait for one after the other takes longer than all else.
    static inline void fetch_ahead(PyObject* names, Py_ssize_t i) {
    #ifdef __GNUC__
        if (i + 16 < PyTuple_GET_SIZE(names)) {
            const char* next = (const char*) PyTuple_GET_ITEM(names, i + 16);
            __builtin_prefetch(next);
            __builtin_prefetch(next + 48);  // its letters
        }
    #endif
    }
    // The letters of a string; none, without an error: it is none, or UTF-8 cannot tell it.
    static inline std::string_view letters_of(PyObject* name) {
        if (PyUnicode_CheckExact(name) && PyUnicode_IS_COMPACT_ASCII(name)) {
            return {(const char*) PyUnicode_DATA(name), (size_t) PyUnicode_GET_LENGTH(name)};
        }
        Py_ssize_t length = 0;
        const char* start = PyUnicode_AsUTF8AndSize(name, &length);
        if (!start) {
            PyErr_Clear();
            return {};
        }
        return {start, (size_t) length};
    }
    """
    void fetch_ahead(tuple, Py_ssize_t) noexcept
    string_view letters_of(object) noexcept


@cython.final
cdef class NameTable:
    """NameTable(names, /)\n--\n\nFinds which of its names are among others.

    :param names: all different.
    :raises TypeError: they are no strings.
    :raises ValueError: a name is there twice.
    """

    cdef Table* table
    cdef Py_ssize_t many

    def __cinit__(self, tuple names not None, /):
        self.table = new Table(len(names))
        for name in names:
            if self.number_of(name) >= 0:
                raise ValueError(f"names: {name!r} is there twice")
            self.add(name)

    def __dealloc__(self):
        del self.table

    def among(self, names, /):
        """Whether each name of the table is one of these: bool array, in the table's order.

        :param names: a tuple, or a text for which ``is_list_of_names`` is true.
        :raises TypeError: they are no strings.
        """
        cdef cnp.ndarray is_among = new_bool_array(self.many)
        cdef uint8_t* marks = <uint8_t*> cnp.PyArray_DATA(is_among)
        cdef int64_t number
        cdef Py_ssize_t i
        cdef string_view letters
        memset(marks, 0, self.many)
        if isinstance(names, bytes):
            self.table.mark(inside_of(names), marks)
            return is_among
        cdef Marker marker = Marker(self.table[0], marks)
        for i, name in enumerate(<tuple?> names):
            fetch_ahead(<tuple> names, i)
            letters = letters_of(name)
            if letters.data() is not NULL:
                marker.add(letters)
                continue
            number = self.number_of(name)
            if number >= 0:
                marks[number] = 1
        marker.finish()
        return is_among

    cdef int64_t number_of(self, object name) except -2:
        plain = encoded(name)
        return self.table.find(string_view(plain, len(plain)))

    cdef int add(self, object name) except -1:
        plain = encoded(name)
        self.table.add(string_view(plain, len(plain)))
        self.many += 1
        return 0


cdef bytes encoded(object name):
    """As UTF-8, and half of a surrogate pair as Python does it: UTF-8 has no such."""
    if not isinstance(name, str):
        raise TypeError(f"names must be strings, not {type(name).__name__}")
    return str.encode(name, "utf-8", "surrogatepass")


def are_strings(tuple names not None, /):
    """Whether all are strings."""
    for name in names:
        if not isinstance(name, str):
            return False
    return True


cdef string_view inside_of(bytes text):
    """A text without its brackets."""
    if len(text) < 2 or text[0] != b"["[0] or text[len(text) - 1] != b"]"[0]:
        return string_view()
    return string_view(<const char*> text + 1, len(text) - 2)


def is_list_of_names(bytes text not None, /):
    """Whether a text is JSON such as ``["n1","n2"]``: not empty, all ASCII, no space, no escape.

    >>> is_list_of_names(b'["n1","n2"]'), is_list_of_names(b'["n1", "n2"]')
    (True, False)
    """
    return has_names(inside_of(text))


def are_same_names(given, tuple known not None, /):
    """Whether a list or tuple holds the very same strings in the same order.

    Strings of a subclass are never the same as others: they may compare as they like.

    >>> are_same_names(["n1", "n2"], ("n1", "n2")), are_same_names(["n2", "n1"], ("n1", "n2"))
    (True, False)
    """
    cdef Py_ssize_t i
    if type(given) is list:
        with cython.critical_section(given):
            if len(<list> given) != len(known):
                return False
            for i in range(len(known)):
                if PyList_GET_ITEM(given, i) != PyTuple_GET_ITEM(known, i):
                    break
            else:
                return True  # without a look at a string: that may cost more than all else
            if i == 0 and not is_same(<object> PyList_GET_ITEM(given, 0), known[0]):
                return False  # another order: copied for nothing
            names = tuple(<list> given)
    elif type(given) is tuple:
        names = given
    else:
        return False
    if len(<tuple> names) != len(known):
        return False
    for i, name in enumerate(<tuple> names):
        fetch_ahead(<tuple> names, i)
        if not is_same(name, known[i]):
            return False
    return True


cdef bint is_same(object name, object known) except -1:
    if name is known:
        return True
    return type(name) is str and type(known) is str and PyUnicode_Compare(name, known) == 0
