/* The words of a job: `fill` of `runtime/native/c_job.py`, the same words by the same rule; and the calls that run it, which let
   go of Python's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>

enum { REAL, WHOLE, REAL_PART, IMAGINARY_PART }; /* as in `ir/call_tables.py` */

static int put_real(PyObject *value, char *into) {
    const double real = PyFloat_AsDouble(value);
    memcpy(into, &real, sizeof real);
    return real == -1.0 && PyErr_Occurred() ? -1 : 0;
}

/* An integer keeps its 64 bits, of either sign. */
static int put_whole(PyObject *value, char *into) {
    PyObject *number = PyNumber_Long(value);
    if (!number) return -1;
    const uint64_t bits = PyLong_AsUnsignedLongLongMask(number);
    Py_DECREF(number);
    memcpy(into, &bits, sizeof bits);
    return bits == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

static int put_word(PyObject *value, int how, char *into) {
    if (how == REAL) return put_real(value, into);
    if (how == WHOLE) return put_whole(value, into);
    PyObject *half = PyObject_GetAttrString(value, how == REAL_PART ? "real" : "imag");
    const int bad = !half || put_real(half, into);
    Py_XDECREF(half);
    return bad;
}

/* fill(words, start, arrays, scalars, codes): from byte `start` on, the addresses of the arrays, then a word of each code. */
static PyObject *fill(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 5 || !PyMemoryView_Check(args[0]) || !PyList_Check(args[2]) || !PyList_Check(args[4]) ||
        !(PyList_Check(args[3]) || PyTuple_Check(args[3])))
        return PyErr_Format(PyExc_TypeError, "fill takes a memoryview, a number and three lists");
    const Py_buffer *view = PyMemoryView_GET_BUFFER(args[0]);
    PyObject *arrays = args[2], *scalars = args[3], *codes = args[4];
    const Py_ssize_t start = PyLong_AsSsize_t(args[1]), n_arrays = PyList_GET_SIZE(arrays);
    if (start < 0 || start + 8 * (n_arrays + PyList_GET_SIZE(codes)) > view->len || view->readonly)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "too many words");
    char *into = (char *)view->buf + start;
    for (Py_ssize_t k = 0; k < n_arrays; k++, into += 8) {
        PyObject *array = PyList_GET_ITEM(arrays, k);
        if (!PyArray_Check(array)) return PyErr_Format(PyExc_TypeError, "memories are arrays");
        const int64_t address = (int64_t)(intptr_t)PyArray_DATA((PyArrayObject *)array);
        memcpy(into, &address, sizeof address);
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(codes); k++, into += 8) {
        const Py_ssize_t code = PyLong_AsSsize_t(PyList_GET_ITEM(codes, k));
        if (code < 0 || code >> 2 >= PySequence_Fast_GET_SIZE(scalars))
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "no such scalar");
        PyObject *value = Py_NewRef(PySequence_Fast_GET_ITEM(scalars, code >> 2));
        const int bad = put_word(value, code & 3, into);
        Py_DECREF(value);
        if (bad) return NULL;
    }
    Py_RETURN_NONE;
}

/* Functions of `c_program.c`. */
static int64_t (*run_alone)(void *, int64_t, int64_t);
static int64_t (*run_together)(void *, void *, int64_t, int64_t);

/* alone(job, given, slice_ns) */
static PyObject *alone(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3) return PyErr_Format(PyExc_TypeError, "alone takes 3 numbers");
    void *job = PyLong_AsVoidPtr(args[0]);
    int64_t found = PyLong_AsLongLong(args[1]);
    const int64_t slice_ns = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = run_alone(job, found, slice_ns);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

/* together(team, job, n_others, slice_ns) */
static PyObject *together(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 4) return PyErr_Format(PyExc_TypeError, "together takes 4 numbers");
    void *team = PyLong_AsVoidPtr(args[0]), *job = PyLong_AsVoidPtr(args[1]);
    int64_t found = PyLong_AsLongLong(args[2]);
    const int64_t slice_ns = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = run_together(team, job, found, slice_ns);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(found);
}

/* use(alone, together): their addresses */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_ssize_t one, all;
    if (!PyArg_ParseTuple(args, "nn", &one, &all)) return NULL;
    *(Py_ssize_t *)&run_alone = one;
    *(Py_ssize_t *)&run_together = all;
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef functions[] = {
    {"fill", FAST(fill)}, {"alone", FAST(alone)}, {"together", FAST(together)}, {"use", use, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_c_job", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__c_job(void) {
    import_array();
    return PyModule_Create(&definition);
}
