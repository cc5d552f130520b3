/* `in_python` of `interrupts.py`: the same answer, without a tuple of all that is found. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* are_as_before(function, given, before): whether the function, called with each, still gives the very objects of before. */
static PyObject *are_as_before(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyTuple_CheckExact(args[1]) || !PyTuple_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "are_as_before takes a function and two tuples");
    const Py_ssize_t n_given = PyTuple_GET_SIZE(args[1]);
    int are = n_given == PyTuple_GET_SIZE(args[2]);
    for (Py_ssize_t k = 0; are && k < n_given; k++) {
        PyObject *found = PyObject_CallOneArg(args[0], PyTuple_GET_ITEM(args[1], k));
        if (!found) return NULL;
        are = found == PyTuple_GET_ITEM(args[2], k);
        Py_DECREF(found);
    }
    return PyBool_FromLong(are);
}

static PyMethodDef functions[] = {
    {"are_as_before", (PyCFunction)(void (*)(void))are_as_before, METH_FASTCALL, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_interrupts", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__interrupts(void) { return PyModule_Create(&definition); }
