/* Lines of host arrays sorted by NumPy's own sort of their dtype, which goes by vectors, on all cores. Lines across a table
   are transposed into neighbours, some at a time, and back. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ops/forms/transposed.h"

enum { MOST_THREADS = 64, PARTS = 4, LINE_BYTES = 64 };

static void (*share_with_threads)(void (*)(void *), void *, int64_t); /* of `threads.c` */

typedef struct {
    PyArray_SortFunc *sort;
    PyArrayObject *array; /* for sorts that ask what they sort */
    const char *x;
    char *out;
    int64_t size, n, inner; /* bytes of an element; elements of a line; neighbours of an element in other lines */
    int64_t n_all;          /* elements of all lines: where there are no neighbours the last may be shorter */
    int64_t together;       /* of these so many are one unit */
    int64_t n_units, step, next;
    int64_t has_failed;     /* for want of memory, in any thread */
} Work;

/* to[i][k] = from[k][i], steps in bytes. */
static void transpose(int64_t size, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n_from, int64_t n) {
    if (transposed(size, to, to_step, from, from_step, n_from, n)) return;
    for (int64_t k = 0; k < n_from; k++)
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step + k * size, from + k * from_step + i * size, size);
}

static void fail(Work *work) { __atomic_store_n(&work->has_failed, 1, __ATOMIC_RELAXED); }

static void sort_line(Work *work, char *line, int64_t n) {
    if (work->sort(line, n, work->array) < 0) fail(work);
}

static void sort_units(Work *work, int64_t from, int64_t to, char *lines) {
    const int64_t size = work->size, n = work->n, line = n * size, row = work->inner * size, pitch = line + LINE_BYTES;
    if (work->inner == 1) {
        const int64_t end = to * n < work->n_all ? to * n : work->n_all;
        if (work->x != work->out) memcpy(work->out + from * line, work->x + from * line, (end - from * n) * size);
        for (int64_t k = from; k < to; k++) sort_line(work, work->out + k * line, n < end - k * n ? n : end - k * n);
        return;
    }
    const int64_t n_parts = (work->inner - 1) / work->together + 1;
    for (int64_t unit = from; unit < to; unit++) {
        const int64_t first = unit % n_parts * work->together, left = work->inner - first;
        const int64_t m = left < work->together ? left : work->together, at = unit / n_parts * n * row + first * size;
        transpose(size, lines, pitch, work->x + at, row, n, m);
        for (int64_t k = 0; k < m; k++) sort_line(work, lines + k * pitch, n);
        transpose(size, work->out + at, row, lines, pitch, m, n);
    }
}

static void take_parts(void *given) {
    Work *work = given;
    char *lines = work->inner == 1 ? NULL : malloc(work->together * (work->n * work->size + LINE_BYTES));
    if (work->inner > 1 && !lines) fail(work);
    for (int64_t from; (from = __atomic_fetch_add(&work->next, work->step, __ATOMIC_RELAXED)) < work->n_units;)
        if (!__atomic_load_n(&work->has_failed, __ATOMIC_RELAXED)) sort_units(work, from, from + work->step < work->n_units ? from + work->step : work->n_units, lines);
    free(lines);
}

static int is_plain(PyObject *x) {
    if (!PyArray_CheckExact(x)) return 0;
    PyArrayObject *array = (PyArrayObject *)x;
    const int type = PyArray_TYPE(array);
    return (PyTypeNum_ISINTEGER(type) || PyTypeNum_ISFLOAT(type)) && PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISBEHAVED_RO(array);
}

/* sort(x, axis, out, n_threads[, run]): whether `out`, which may be x, was filled. With a run, of a line: each part of so
   many elements was sorted, and what is left over. */
static PyObject *sort(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t n_given) {
    if (n_given < 4 || n_given > 5 || !is_plain(given[0]) || !is_plain(given[2])) Py_RETURN_FALSE;
    PyArrayObject *x = (PyArrayObject *)given[0], *out = (PyArrayObject *)given[2];
    const int64_t axis = PyLong_AsLongLong(given[1]), wanted = PyLong_AsLongLong(given[3]);
    const int64_t run = n_given == 5 ? PyLong_AsLongLong(given[4]) : 0;
    if (PyErr_Occurred()) return NULL;
    if (!PyArray_SAMESHAPE(x, out) || PyArray_TYPE(x) != PyArray_TYPE(out) || !PyArray_ISWRITEABLE(out)) Py_RETURN_FALSE;
    if (axis < 0 || axis >= PyArray_NDIM(x) || !PyArray_SIZE(x)) Py_RETURN_FALSE;
    Work work = {
        .sort = PyDataType_GetArrFuncs(PyArray_DESCR(out))->sort[NPY_QUICKSORT],
        .array = out,
        .x = PyArray_DATA(x),
        .out = PyArray_DATA(out),
        .size = PyArray_ITEMSIZE(x),
        .n = PyArray_DIM(x, axis),
        .inner = 1,
        .n_all = PyArray_SIZE(x),
    };
    if (!work.sort || work.size > 8) Py_RETURN_FALSE;
    if (run && (run < 0 || work.n != work.n_all)) Py_RETURN_FALSE;
    if (run) work.n = run;
    for (int k = axis + 1; k < PyArray_NDIM(x); k++) work.inner *= PyArray_DIM(x, k);
    work.together = work.inner == 1 ? 1 : LINE_BYTES / work.size;
    const int64_t outer = ((work.n_all - 1) / work.n + 1) / work.inner;
    work.n_units = outer * ((work.inner - 1) / work.together + 1);
    int64_t most = wanted < work.n_units ? wanted : work.n_units;
    if (most > MOST_THREADS) most = MOST_THREADS;
    work.step = most < 2 ? work.n_units : (work.n_units - 1) / (PARTS * most) + 1;
    Py_BEGIN_ALLOW_THREADS
    if (most < 2 || !share_with_threads) take_parts(&work);
    else share_with_threads(take_parts, &work, most);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(!work.has_failed);
}

/* use(share): the address of what runs a function in several threads. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *address) {
    *(Py_ssize_t *)&share_with_threads = PyLong_AsSsize_t(address);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"sort", (PyCFunction)(void (*)(void))sort, METH_FASTCALL, NULL}, {"use", use, METH_O, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_sorted_lines", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__sorted_lines(void) {
    import_array();
    return PyModule_Create(&definition);
}
