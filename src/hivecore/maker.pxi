"""Records of a wrapper: objects of a Python class that lets no attribute be set."""


cdef extern from *:
    """
    static PyObject* new_object(PyTypeObject* record, PyObject* nothing) {
        return PyBaseObject_Type.tp_new(record, nothing, NULL);
    }

    static int fill_slot(PyObject* slot, PyObject* made, PyObject* value) {
        return Py_TYPE(slot)->tp_descr_set(slot, made, value);
    }
    """
    object new_object(type, tuple)
    int fill_slot(object, object, object) except -1


@cython.final
cdef class Maker:
    """Maker(record, slots)\n--\n\nMakes objects of a class, whose ``__init__`` and ``__setattr__`` are not called.

    A class that changes its objects' ``__class__`` once they are filled would stop all threads of
    an interpreter without the GIL, each time.

    :param record: a class with slots.
    :param slots: their names.
    :raises TypeError: ``object`` cannot make its objects, or a name is none of a slot.
    :raises AttributeError: it has no such attribute.

    >>> class Point:
    ...     __slots__ = ("x", "y")
    >>> point = Maker(Point, ("x", "y")).make((3, 4))
    >>> point.x, point.y
    (3, 4)
    """

    cdef type record
    cdef tuple slots

    def __cinit__(self, type record, tuple slots):
        object.__new__(record)  # or it is refused here
        self.record = record
        self.slots = tuple([getattr(record, name) for name in slots])
        for name, slot in zip(slots, self.slots):
            if type(slot) is not MemberDescriptorType:
                raise TypeError(f"slots: {name!r} is no slot of {record.__name__}")

    def make(self, tuple values not None):
        """The object with these values in its slots.

        :raises ValueError: there are more values than slots, or fewer.
        """
        cdef Py_ssize_t i
        if len(values) != len(self.slots):
            raise ValueError(f"values: {len(values)} are given for {len(self.slots)} slots")
        made = new_object(self.record, ())
        for i in range(len(values)):
            fill_slot(self.slots[i], made, values[i])
        return made
