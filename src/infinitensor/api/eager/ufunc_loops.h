/* The loops of NumPy's ufuncs by the dtypes of operands, and whether two arrays have memory in common. Before
   `numpy_loops.c` and, in `small_calls.c`, `plain_loops.h`. */

#include <numpy/ufuncobject.h>
#include <string.h>

typedef struct {
    PyUFuncGenericFunction run; /* NULL: there is none that needs no cast and cannot raise */
    void *data;
    int made; /* the dtype of its results */
} Loop;

static Loop find_loop(PyUFuncObject *ufunc, const int *types) {
    Loop none = {NULL, NULL, 0};
    if (ufunc->core_enabled || ufunc->nout != 1 || !ufunc->functions) return none;
    for (int k = 0; k < ufunc->nin; k++)
        if (!PyTypeNum_ISNUMBER(types[k]) && !PyTypeNum_ISBOOL(types[k])) return none;
    if (!strcmp(ufunc->name, "power") && PyTypeNum_ISINTEGER(types[0])) return none; /* it may raise */
    for (int i = 0; i < ufunc->ntypes; i++) {
        const char *of = ufunc->types + (npy_intp)i * ufunc->nargs;
        int k = 0;
        while (k < ufunc->nin && of[k] == types[k]) k++;
        if (k == ufunc->nin) return (Loop){ufunc->functions[i], ufunc->data ? ufunc->data[i] : NULL, of[k]};
    }
    return none;
}

static int array_type(PyArrayObject *x) { return PyArray_DESCR(x)->type_num; }

static void extent(PyArrayObject *x, char **low, char **high) {
    *low = *high = PyArray_BYTES(x);
    for (int a = 0; a < PyArray_NDIM(x); a++) {
        npy_intp reach = (PyArray_DIM(x, a) - 1) * PyArray_STRIDE(x, a);
        if (reach < 0) *low += reach;
        else *high += reach;
    }
    *high += PyArray_ITEMSIZE(x);
}

/* Whether two arrays have no byte in common, as far as their borders say. */
static int are_apart(PyArrayObject *x, PyArrayObject *y) {
    char *low, *high, *from, *to;
    extent(x, &low, &high), extent(y, &from, &to);
    return high <= from || to <= low;
}
