/* The loops of NumPy's ufuncs by the dtypes of operands, and whether two arrays have memory in common. Before
   `numpy_loops.c` and, in `small_calls.c`, `plain_loops.h`. */

#include <numpy/ufuncobject.h>
#include <string.h>

typedef struct {
    PyUFuncGenericFunction run; /* NULL: there is none that needs no cast and cannot raise */
    void *data;
    int made; /* the dtype of its results */
    int by_rows; /* whether each row has to be a call of its own */
    int is_ours;
} Loop;

/* Of `ops/table/functions.c`, or NULL: our loop for what NumPy takes one by one; and the dtype of bfloat16. */
static int (*find_own_loop)(const PyUFuncObject *, int type, int is_bfloat16, PyUFuncGenericFunction *, void **);
static int bfloat16_type = -1;

static int is_half(int type) { return type == NPY_HALF || type == bfloat16_type; }

static Loop find_loop(PyUFuncObject *ufunc, const int *types) {
    Loop none = {NULL, NULL, 0, 0, 0}, ours = none;
    ours.is_ours = 1;
    if (ufunc->core_enabled || ufunc->nout != 1 || !ufunc->functions) return none;
    if (find_own_loop && (ufunc->nin == 1 || (ufunc->nin == 2 && types[1] == types[0]))) {
        int found = find_own_loop(ufunc, types[0], types[0] == bfloat16_type, &ours.run, &ours.data);
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
        if (k < ufunc->nin) continue;
        /* that of powers looks at an exponent that is repeated */
        return (Loop){ufunc->functions[i], ufunc->data ? ufunc->data[i] : NULL, of[k], !strcmp(ufunc->name, "power"), 0};
    }
    return none;
}

enum { FEW_IN_ROW = 256, IN_BLOCK = 1024, MOST_WALKED = 5 };

/* Put n elements of each of so many rows side by side. */
static void gather_rows(const char *x, npy_intp step, npy_intp row, npy_intp width, npy_intp n, npy_intp n_rows, char *to) {
#define GATHER(T)                                                                        \
    for (npy_intp r = 0; r < n_rows; r++, x += row) {                                    \
        typedef T __attribute__((aligned(1), may_alias)) Any; /* complex numbers are aligned as their parts */ \
        T *out = (T *)to + r * n;                                                        \
        if (step == 0) for (npy_intp i = 0; i < n; i++) out[i] = *(const Any *)x;        \
        else for (npy_intp i = 0; i < n; i++) out[i] = *(const Any *)(x + i * step);     \
    }
    switch (width) {
    case 1: GATHER(npy_uint8) break;
    case 2: GATHER(npy_uint16) break;
    case 4: GATHER(npy_uint32) break;
    case 8: GATHER(npy_uint64) break;
    }
#undef GATHER
}

/* A loop over rows of few elements, each of which would be a call: several rows together, where what is no whole line of
   the output (the last operand) is put side by side first. 0, and nothing done, where they are not so. */
static int walk_in_blocks(const Loop *loop, int n_args, npy_intp n, npy_intp n_rows, char *const *from,
                          const npy_intp *steps, const npy_intp *rows, const npy_intp *widths) {
    if (loop->by_rows || n > FEW_IN_ROW || n_rows < 4 || n < 1 || n_args > MOST_WALKED) return 0;
    npy_uint64 beside[MOST_WALKED][IN_BLOCK];
    int is_whole[MOST_WALKED], is_one[MOST_WALKED];
    for (int k = 0; k < n_args; k++) {
        is_whole[k] = steps[k] == widths[k] && rows[k] == n * steps[k];
        is_one[k] = steps[k] == 0 && rows[k] == 0;
        if (!is_whole[k] && (k == n_args - 1 || widths[k] > 8 || widths[k] & (widths[k] - 1))) return 0;
    }
    const npy_intp most = IN_BLOCK / n;
    for (npy_intp row = 0; row < n_rows; row += most) {
        const npy_intp n_here = n_rows - row < most ? n_rows - row : most;
        npy_intp count = n_here * n, now[MOST_WALKED];
        char *at[MOST_WALKED];
        for (int k = 0; k < n_args; k++) {
            at[k] = is_whole[k] || is_one[k] ? from[k] + row * rows[k] : (char *)beside[k];
            now[k] = is_one[k] ? 0 : widths[k];
            if (!is_whole[k] && !is_one[k] && (row == 0 || rows[k] != 0))
                gather_rows(from[k] + row * rows[k], steps[k], rows[k], widths[k], n, n_here, at[k]);
        }
        loop->run(at, &count, now, loop->data);
    }
    return 1;
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
