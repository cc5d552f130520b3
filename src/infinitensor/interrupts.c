/* `hold_in_python` and `restore_in_python` of `interrupts.py`: the same calls of `getsignal` and `signal`, in the same order. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* New: the handler of a signal, of 60 of which every evaluation asks: without what a call of Python's adds, where it is its own. */
static PyObject *handler_of(PyObject *getsignal, PyObject *number) {
    if (PyCFunction_CheckExact(getsignal) && PyCFunction_GET_FLAGS(getsignal) == METH_O)
        return PyCFunction_GET_FUNCTION(getsignal)(PyCFunction_GET_SELF(getsignal), number);
    return PyObject_CallOneArg(getsignal, number);
}

/* Whether the handler of a signal is this object; -1 with an error. */
static int is_handler(PyObject *getsignal, PyObject *number, PyObject *handler) {
    PyObject *found = handler_of(getsignal, number);
    Py_XDECREF(found);
    return found ? found == handler : -1;
}

/* Before it is put in its place other handlers may run, and those do anything. */
static int put(PyObject *signal, PyObject *number, PyObject *handler) {
    PyObject *given[] = {Py_NewRef(number), Py_NewRef(handler)}, *before = PyObject_Vectorcall(signal, given, 2, NULL);
    Py_XDECREF(before), Py_DECREF(number), Py_DECREF(handler);
    return before ? 0 : -1;
}

/* hold((getsignal, signal), numbers, seen, users, note) */
static PyObject *hold(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 5 || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) != 2 || !PyTuple_CheckExact(args[1]) ||
        !PyTuple_CheckExact(args[2]) || !PyDict_CheckExact(args[3]))
        return PyErr_Format(PyExc_TypeError, "hold takes two functions, two tuples, a dictionary and a handler");
    PyObject *getsignal = PyTuple_GET_ITEM(args[0], 0), *signal = PyTuple_GET_ITEM(args[0], 1), *number, *handler;
    const Py_ssize_t n_given = PyTuple_GET_SIZE(args[1]);
    int are = n_given == PyTuple_GET_SIZE(args[2]);
    for (Py_ssize_t k = 0; are > 0 && k < n_given; k++)
        are = is_handler(getsignal, PyTuple_GET_ITEM(args[1], k), PyTuple_GET_ITEM(args[2], k));
    for (Py_ssize_t at = 0; are > 0 && PyDict_Next(args[3], &at, &number, &handler);)
        if (put(signal, number, args[4])) are = -1;
    return are < 0 ? NULL : PyBool_FromLong(are);
}

/* restore((getsignal, signal), users, note) */
static PyObject *restore(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) != 2 || !PyDict_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "restore takes two functions, a dictionary and a handler");
    PyObject *getsignal = PyTuple_GET_ITEM(args[0], 0), *signal = PyTuple_GET_ITEM(args[0], 1), *number, *handler;
    for (Py_ssize_t at = 0; PyDict_Next(args[1], &at, &number, &handler);) {
        const int is_ours = is_handler(getsignal, number, args[2]); /* a handler may have put another in its place */
        if (is_ours < 0 || (is_ours && put(signal, number, handler))) return NULL;
    }
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef functions[] = {{"hold", FAST(hold)}, {"restore", FAST(restore)}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_interrupts", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__interrupts(void) { return PyModule_Create(&definition); }
