/* The loops of NumPy's ufuncs by the dtypes of operands, and whether two arrays have memory in common. Before
   `numpy_loops.c` and, in `small_calls.c`, `plain_loops.h`. */

#include <numpy/ufuncobject.h>
#include <string.h>

typedef struct {
    PyUFuncGenericFunction run; /* NULL: there is none that needs no cast and cannot raise */
    void *data;
    int made; /* the dtype of its results */
} Loop;

/* Of `ops/table/functions.c`, or NULL: our loop for halves, which NumPy takes one by one; and the dtype of bfloat16. */
static int (*find_half_loop)(const PyUFuncObject *, int is_bfloat16, PyUFuncGenericFunction *, void **);
static int bfloat16_type = -1;

static int is_half(int type) { return type == NPY_HALF || type == bfloat16_type; }

static Loop find_loop(PyUFuncObject *ufunc, const int *types) {
    Loop none = {NULL, NULL, 0}, ours = none;
    if (ufunc->core_enabled || ufunc->nout != 1 || !ufunc->functions) return none;
    if (find_half_loop && is_half(types[0]) && (ufunc->nin == 1 || (ufunc->nin == 2 && types[1] == types[0]))) {
        int found = find_half_loop(ufunc, types[0] == bfloat16_type, &ours.run, &ours.data);
        ours.made = found == 2 ? NPY_BOOL : types[0];
        if (found) return ours;
    }
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
