/* The words of a job: `fill` of `runtime/native/c_job.py`, the same words by the same rule; the calls that run it, which let go of
   Python's lock; and what a job that is run again takes and gives: `take` and `give`. */

#include "api/session/slots.h"
#include "devices/ledger.h"
#include "runtime/state/model_table.h"
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

/* From byte `start` on, the addresses of the arrays, then a word of each code: 0; -1 with an error. */
static int put_words(PyObject *words, Py_ssize_t start, PyObject *arrays, PyObject *scalars, PyObject *codes) {
    const Py_buffer *view = PyMemoryView_GET_BUFFER(words);
    const Py_ssize_t n_arrays = PyList_GET_SIZE(arrays);
    if (start < 0 || start + 8 * (n_arrays + PyList_GET_SIZE(codes)) > view->len || view->readonly) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "too many words");
        return -1;
    }
    char *into = (char *)view->buf + start;
    for (Py_ssize_t k = 0; k < n_arrays; k++, into += 8) {
        PyObject *array = PyList_GET_ITEM(arrays, k);
        if (!PyArray_Check(array)) {
            PyErr_SetString(PyExc_TypeError, "memories are arrays");
            return -1;
        }
        const int64_t address = (int64_t)(intptr_t)PyArray_DATA((PyArrayObject *)array);
        memcpy(into, &address, sizeof address);
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(codes); k++, into += 8) {
        const Py_ssize_t code = PyLong_AsSsize_t(PyList_GET_ITEM(codes, k));
        if (code < 0 || code >> 2 >= PySequence_Fast_GET_SIZE(scalars)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "no such scalar");
            return -1;
        }
        PyObject *value = Py_NewRef(PySequence_Fast_GET_ITEM(scalars, code >> 2));
        const int bad = put_word(value, code & 3, into);
        Py_DECREF(value);
        if (bad) return -1;
    }
    return 0;
}

/* fill(words, start, arrays, scalars, codes) */
static PyObject *fill(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 5 || !PyMemoryView_Check(args[0]) || !PyList_Check(args[2]) || !PyList_Check(args[4]) ||
        !(PyList_Check(args[3]) || PyTuple_Check(args[3])))
        return PyErr_Format(PyExc_TypeError, "fill takes a memoryview, a number and three lists");
    if (put_words(args[0], PyLong_AsSsize_t(args[1]), args[2], args[3], args[4])) return NULL;
    Py_RETURN_NONE;
}

/* Jobs that are run again ------------------------------------------------------------------------------------------------------ */

enum { S_LEDGER, S_N_BYTES, S_LEAF, S_PART, S_IS_GIVEN, N_SOURCE }; /* fields of `Source` */
static Py_ssize_t block_at;
static const Ledgers *ledgers;
static PyObject *n_take;

/* New: a home of memory that is taken, and the memory. */
static int take_slab(PyObject *source, PyObject **home, PyObject **memory) {
    PyObject *ledger = PyTuple_GET_ITEM(source, S_LEDGER), *n_bytes = PyTuple_GET_ITEM(source, S_N_BYTES);
    *home = ledgers->take_at_rest(ledger, n_bytes);
    if (*home == Py_None) Py_SETREF(*home, PyObject_CallMethodOneArg(ledger, n_take, n_bytes));
    *memory = *home ? Py_XNewRef(AT(*home, block_at)) : NULL;
    return *memory ? 0 : -1;
}

/* New: the home of a leaf's memory, if that is used up, and the memory. */
static int take_leaf(PyObject *source, PyObject *leaves, PyObject **home, PyObject **memory) {
    PyObject *table = PyList_GetItem(leaves, PyLong_AsSsize_t(PyTuple_GET_ITEM(source, S_LEAF)));
    const Py_ssize_t part = PyLong_AsSsize_t(PyTuple_GET_ITEM(source, S_PART));
    const int is_given = PyTuple_GET_ITEM(source, S_IS_GIVEN) == Py_True;
    if (!table || Py_TYPE(table) != table_type) return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "no table"), -1);
    *home = is_given ? PySequence_GetItem(T(table, T_BUFFERS), part < 0 ? 0 : part) : Py_NewRef(Py_None);
    if (!*home) return -1;
    if (part < 0) *memory = Py_NewRef(T(table, T_WHOLE));
    else *memory = is_given ? Py_NewRef(AT(*home, block_at)) : PySequence_GetItem(T(table, T_ARRAYS), part);
    return *memory ? 0 : -1;
}

/* The homes and the memories of a job, new, whose words are filled: 0. `given`: sources, words, blank, start, codes, leaves,
   scalars. */
static int take_all(PyObject *const *given, PyObject **homes, PyObject **memories) {
    if (!ledgers || !PyTuple_CheckExact(given[0]) || !PyMemoryView_Check(given[1]) || !PyMemoryView_Check(given[2]) ||
        !PyList_CheckExact(given[4]) || !PyList_CheckExact(given[5]) || !(PyList_Check(given[6]) || PyTuple_Check(given[6]))) {
        PyErr_SetString(PyExc_TypeError, "a job takes sources, two memoryviews, a number and three lists");
        return -1;
    }
    const Py_ssize_t n_sources = PyTuple_GET_SIZE(given[0]);
    *homes = PyList_New(n_sources), *memories = PyList_New(n_sources);
    int bad = !*homes || !*memories;
    for (Py_ssize_t k = 0; !bad && k < n_sources; k++) {
        PyObject *source = PyTuple_GET_ITEM(given[0], k), *home = NULL, *memory = NULL;
        bad = PyTuple_GET_ITEM(source, S_LEDGER) == Py_None ? take_leaf(source, given[5], &home, &memory) : take_slab(source, &home, &memory);
        PyList_SET_ITEM(*homes, k, home), PyList_SET_ITEM(*memories, k, memory);
    }
    const Py_buffer *words = PyMemoryView_GET_BUFFER(given[1]), *blank = PyMemoryView_GET_BUFFER(given[2]);
    if (!bad && words->len != blank->len) bad = (PyErr_SetString(PyExc_ValueError, "too many words"), 1);
    if (!bad) memcpy(words->buf, blank->buf, blank->len);
    return bad || put_words(given[1], PyLong_AsSsize_t(given[3]), *memories, given[6], given[4]) ? -1 : 0;
}

/* take(sources, words, blank, start, codes, leaves, scalars): the homes and the memories of a job, whose words are filled */
static PyObject *take(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 7) return PyErr_Format(PyExc_TypeError, "take takes 7 arguments");
    PyObject *homes = NULL, *memories = NULL;
    PyObject *both = take_all(args, &homes, &memories) ? NULL : PyTuple_Pack(2, homes, memories);
    Py_XDECREF(homes), Py_XDECREF(memories);
    return both;
}

/* New: an array over a block. */
static PyObject *view_of(PyObject *block, PyObject *shape, PyObject *dtype) {
    npy_intp lengths[NPY_MAXDIMS];
    const int n_axes = (int)PyTuple_GET_SIZE(shape);
    for (int k = 0; k < n_axes; k++) lengths[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
    Py_INCREF(dtype);
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)dtype, n_axes, lengths, NULL,
                                          PyArray_DATA((PyArrayObject *)block), NPY_ARRAY_WRITEABLE, NULL);
    if (view && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef(block))) Py_CLEAR(view);
    return view;
}

/* New: the table of a value in one array, from (model, place, shape, dtype, whether a leaf gave the memory). */
static PyObject *whole_table(PyObject *one, PyObject *homes, PyObject *memories) {
    const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(one, 1));
    PyObject *block = PyList_GET_ITEM(memories, at), *shape = PyTuple_GET_ITEM(one, 2), *dtype = PyTuple_GET_ITEM(one, 3);
    if (!PyArray_Check(block) || !PyArray_DescrCheck(dtype) || !PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) > NPY_MAXDIMS)
        return PyErr_Format(PyExc_TypeError, "no array");
    PyObject *whole = PyTuple_GET_ITEM(one, 4) == Py_True ? Py_NewRef(block) : view_of(block, shape, dtype);
    PyObject *arrays = whole ? PyList_New(1) : NULL, *buffers = arrays ? PyList_New(1) : NULL, *table = NULL;
    if (buffers) {
        PyList_SET_ITEM(arrays, 0, Py_NewRef(whole)), PyList_SET_ITEM(buffers, 0, Py_NewRef(PyList_GET_ITEM(homes, at)));
        table = table_like(PyTuple_GET_ITEM(one, 0), buffers, arrays);
    }
    if (table) {
        Py_INCREF(whole), Py_INCREF(whole);
        Py_XSETREF(T(table, T_WHOLE), whole);
        Py_XSETREF(T(table, T_IN_REACH), whole);
    }
    Py_XDECREF(whole), Py_XDECREF(arrays), Py_XDECREF(buffers);
    return table;
}

/* New: the tables of values in one array each, by number. */
static PyObject *tables_of(PyObject *values, PyObject *homes, PyObject *memories) {
    PyObject *tables = PyDict_New();
    for (Py_ssize_t k = 0; tables && k < PyTuple_GET_SIZE(values); k++) {
        PyObject *value = PyTuple_GET_ITEM(values, k), *table = whole_table(PyTuple_GET_ITEM(value, 1), homes, memories);
        if (!table || PyDict_SetItem(tables, PyTuple_GET_ITEM(value, 0), table)) Py_CLEAR(tables);
        Py_XDECREF(table);
    }
    return tables;
}

/* give(values, homes, memories) */
static PyObject *give(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !PyTuple_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || !PyList_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "give takes values and two lists");
    return tables_of(args[0], args[1], args[2]);
}

/* install(Buffer, TileTable, ledgers) */
static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *buffer, *table, *pointer;
    static const char *const block[] = {"block"};
    if (!PyArg_ParseTuple(args, "OOO", &buffer, &table, &pointer) || find_slots(buffer, block, &block_at, 1) || know_tables(table) ||
        !(n_take = PyUnicode_InternFromString("take")) || !(ledgers = PyCapsule_GetPointer(pointer, LEDGERS)))
        return NULL;
    Py_INCREF(args); /* they stay */
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

/* run(sources, words, blank, start, codes, leaves, scalars, values, job, team, n_others, over, slice_ns): take, have all of it
   run, and give, in one call */
static PyObject *run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 13 || !PyTuple_CheckExact(args[7])) return PyErr_Format(PyExc_TypeError, "run takes 13 arguments");
    void *job = PyLong_AsVoidPtr(args[8]), *team = PyLong_AsVoidPtr(args[9]);
    const int64_t n_others = PyLong_AsLongLong(args[10]), over = PyLong_AsLongLong(args[11]), slice_ns = PyLong_AsLongLong(args[12]);
    PyObject *homes = NULL, *memories = NULL, *tables = NULL;
    if (!PyErr_Occurred() && !take_all(args, &homes, &memories)) {
        Py_BEGIN_ALLOW_THREADS
        while ((n_others < 1 ? run_alone(job, over, slice_ns) : run_together(team, job, n_others, slice_ns)) != over);
        Py_END_ALLOW_THREADS
        tables = tables_of(args[7], homes, memories);
    }
    Py_XDECREF(homes), Py_XDECREF(memories);
    return tables;
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
    {"fill", FAST(fill)}, {"alone", FAST(alone)}, {"together", FAST(together)}, {"use", use, METH_VARARGS, NULL},
    {"take", FAST(take)}, {"give", FAST(give)},   {"run", FAST(run)},     {"install", install, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_c_job", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__c_job(void) {
    import_array();
    return PyModule_Create(&definition);
}
