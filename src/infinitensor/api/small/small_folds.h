/* Reductions of small arrays, over any axes: sums, means, variances and standard deviations of floats by the functions
   of `folds.c`, in the order that plans add up in (`fold_order.py`), the largest and the smallest of halves by their
   bits, and what else a ufunc reduces without what NumPy does around it. Halves are added up as floats and rounded once.
   Before `small_calls.c`. All answer NULL (or 0) without an error where Python has to look. */

enum { SUM = 0, MEAN = 1, VAR = 2, STD = 3, MOST = 4, LEAST = 5 }; /* and 6 what a ufunc does: `FOLDED` of numpy_table.py */
enum { OF_FLOAT = 0, OF_DOUBLE = 1 };
enum { SUM_LINES = 0, ADD_LINES = 1, MOMENTS_OF_LINES = 2, MOMENTS_OF_ROWS = 3, N_FOLDERS = 4 };
typedef void (*Adder)(const char *, const int64_t *, const int64_t *, const int64_t *, void *);
typedef void (*Momenter)(const char *, const int64_t *, const int64_t *, const int64_t *, void *, void *);
static Py_ssize_t folders[2][N_FOLDERS]; /* the functions of `folds.c`; 0: they are not there */

/* Halves to floats and back, of `functions.c`; 0 where it is not there. */
typedef void (*Widener)(const npy_uint16 *, float *, npy_intp);
typedef void (*Narrower)(const float *, npy_uint16 *, npy_intp);
static Py_ssize_t half_casts[4]; /* float16 wider, narrower, bfloat16 likewise */

enum { MOST_AXES = 8, SHORT_ROW = 64, LEAST_ROW = 16 }; /* the last two as in fold_order.py */
typedef int64_t Axes[2 + 2 * MOST_AXES]; /* as `folds.c` takes them */

/* What is reduced, and how it is walked. */
typedef struct {
    int ndim, is_reduced[MOST_AXES];
    npy_intp shape[MOST_AXES];
    int first, last, is_along; /* the line: from an axis to another, of which those that are reduced are in it */
    npy_intp n_reduced;
    int made_ndim, place; /* of the result, and which axis of it is last while it is made; -1: the one that is */
    npy_intp made[MOST_AXES];
    Axes kept, reduced, line;
} Fold;

/* Whether the arguments say which axes; those of a number are Python's. */
static int are_axes(PyObject *axis, PyArrayObject *x, Fold *fold) {
    const int n = PyArray_NDIM(x);
    if (n < 1 || n > MOST_AXES || !PyArray_SIZE(x)) return 0;
    fold->ndim = n;
    fold->n_reduced = 1;
    for (int a = 0; a < n; a++) fold->shape[a] = PyArray_DIM(x, a), fold->is_reduced[a] = axis == Py_None;
    const int is_tuple = PyTuple_CheckExact(axis);
    const Py_ssize_t n_given = is_tuple ? PyTuple_GET_SIZE(axis) : axis != Py_None;
    if (is_tuple && !n_given) return 0;
    for (Py_ssize_t i = 0; i < n_given; i++) {
        PyObject *one = is_tuple ? PyTuple_GET_ITEM(axis, i) : axis;
        if (!PyLong_CheckExact(one)) return 0;
        int overflow;
        const long a = PyLong_AsLongAndOverflow(one, &overflow);
        if (overflow || a < -n || a >= n || fold->is_reduced[a < 0 ? a + n : a]) return 0;
        fold->is_reduced[a < 0 ? a + n : a] = 1;
    }
    for (int a = 0; a < n; a++)
        if (fold->is_reduced[a]) fold->n_reduced *= fold->shape[a];
    return 1;
}

/* The line to an axis, and how many elements it has: `_line_to` of fold_order.py. */
static npy_intp line_to(Fold *fold, int last) {
    npy_intp n = fold->shape[last];
    fold->first = fold->last = last;
    if (fold->is_reduced[last] && fold->shape[last] < SHORT_ROW)
        for (int a = last - 1; a >= 0; a--) {
            if (fold->is_reduced[a]) fold->first = a, n *= fold->shape[a];
            else if (fold->shape[a] != 1) break;
        }
    return n;
}

/* As `line_axes` of fold_order.py. */
static void choose_line(Fold *fold) {
    const int end = fold->ndim - 1;
    int is_last_alone = fold->is_reduced[end];
    for (int a = 0; a < end; a++) is_last_alone = is_last_alone && !fold->is_reduced[a];
    if (!(is_last_alone && end > 0 && fold->shape[end] > 1 && fold->shape[end] < SHORT_ROW))
        for (int last = end; last >= 0; last--)
            if (line_to(fold, last) >= LEAST_ROW) return;
    fold->first = fold->last = end;
}

static int is_in_line(const Fold *fold, int a) {
    return a == fold->last || (a >= fold->first && a < fold->last && fold->is_reduced[a]);
}

/* Axes as `folds.c` takes them; neighbours that can be walked as one are. */
static void join_axes(PyArrayObject *x, const int *some, int n_some, int64_t *into) {
    npy_intp lengths[MOST_AXES], steps[MOST_AXES], size = 1;
    int n = 0;
    for (int i = 0; i < n_some; i++) {
        const npy_intp length = PyArray_DIM(x, some[i]), step = PyArray_STRIDE(x, some[i]);
        size *= length;
        if (length == 1 && (n || i != n_some - 1)) continue;
        if (n && steps[n - 1] == length * step) lengths[n - 1] *= length, steps[n - 1] = step;
        else lengths[n] = length, steps[n++] = step;
    }
    into[0] = n, into[1] = size;
    for (int i = 0; i < n; i++) into[2 + i] = lengths[i], into[2 + n + i] = steps[i];
}

/* How an array is walked along its line. */
static void walk_lines(PyArrayObject *x, Fold *fold) {
    int kept[MOST_AXES], reduced[MOST_AXES], line[MOST_AXES], n_kept = 0, n_reduced = 0, n_line = 0;
    fold->is_along = fold->is_reduced[fold->last];
    fold->made_ndim = 0, fold->place = -1;
    for (int a = 0; a < fold->ndim; a++) {
        if (is_in_line(fold, a)) line[n_line++] = a;
        else if (fold->is_reduced[a]) reduced[n_reduced++] = a;
        else kept[n_kept++] = a;
    }
    for (int i = 0; i < n_kept; i++) fold->made[fold->made_ndim++] = fold->shape[kept[i]];
    if (!fold->is_along) {
        int before = 0;
        while (before < n_kept && kept[before] < fold->last) before++;
        if (before < n_kept) fold->place = before;
        fold->made[fold->made_ndim++] = fold->shape[fold->last];
    }
    join_axes(x, kept, n_kept, fold->kept);
    join_axes(x, reduced, n_reduced, fold->reduced);
    join_axes(x, line, n_line, fold->line);
}

/* The result in its own shape (`made` is stolen); a number where nothing is left of it. */
static PyObject *shaped(const Fold *fold, PyObject *made, int keeps) {
    if (made && fold->place >= 0) {
        npy_intp order[MOST_AXES];
        for (int i = 0, at = 0; i < fold->made_ndim; i++) order[i] = i == fold->place ? fold->made_ndim - 1 : at++;
        PyArray_Dims axes = {order, fold->made_ndim};
        Py_SETREF(made, PyArray_Transpose((PyArrayObject *)made, &axes));
        if (made) Py_SETREF(made, PyArray_NewCopy((PyArrayObject *)made, NPY_CORDER));
    }
    if (!made || !keeps) return made ? PyArray_Return((PyArrayObject *)made) : NULL;
    npy_intp shape[MOST_AXES];
    for (int a = 0; a < fold->ndim; a++) shape[a] = fold->is_reduced[a] ? 1 : fold->shape[a];
    PyArray_Dims whole = {shape, fold->ndim};
    Py_SETREF(made, PyArray_Newshape((PyArrayObject *)made, &whole, NPY_CORDER));
    return made;
}

/* Memory for what is read and made on the way; it stays, and is as large as what is small. */
static char *scratch_of(size_t n_bytes) {
    static char *memory;
    static size_t there;
    if (n_bytes > there) {
        char *more = PyMem_RawRealloc(memory, n_bytes);
        if (!more) return NULL;
        memory = more, there = n_bytes;
    }
    return memory;
}

#define FINISH(T, root)                                                                       \
    {                                                                                         \
        T *at = out;                                                                          \
        const T *from = kind == VAR || kind == STD ? squares : out, degrees = (T)fold->n_reduced; \
        for (npy_intp i = 0; i < n && kind != SUM; i++) at[i] = from[i] / degrees;            \
        for (npy_intp i = 0; i < n && kind == STD; i++) at[i] = root(at[i]);                  \
    }

/* The sums and what is made of them, into `out`; `squares` has as much place. */
static void fold_into(int kind, int of, const Fold *fold, const char *x, npy_intp n, void *out, void *squares) {
    const Py_ssize_t *ways = folders[of];
    const int64_t *kept = fold->kept, *reduced = fold->reduced, *line = fold->line;
    if (kind == SUM || kind == MEAN) ((Adder)ways[fold->is_along ? SUM_LINES : ADD_LINES])(x, kept, reduced, line, out);
    else ((Momenter)ways[fold->is_along ? MOMENTS_OF_LINES : MOMENTS_OF_ROWS])(x, kept, reduced, line, out, squares);
    if (of == OF_FLOAT) FINISH(float, sqrtf) else FINISH(double, sqrt)
}

static npy_intp made_size(const Fold *fold) {
    npy_intp n = 1;
    for (int i = 0; i < fold->made_ndim; i++) n *= fold->made[i];
    return n;
}

static PyObject *folded_floats(int kind, PyArrayObject *x, Fold *fold, int keeps) {
    const int is_double = array_type(x) == NPY_DOUBLE;
    walk_lines(x, fold);
    const npy_intp n = made_size(fold);
    const int squared = kind == VAR || kind == STD;
    char *squares = squared ? scratch_of(n * sizeof(double)) : NULL;
    if (squared && !squares) return PyErr_NoMemory();
    PyObject *made = PyArray_SimpleNew(fold->made_ndim, fold->made, array_type(x));
    if (made) fold_into(kind, is_double, fold, PyArray_BYTES(x), n, PyArray_DATA((PyArrayObject *)made), squares);
    return shaped(fold, made, keeps);
}

/* Of integers and truth values what has a fraction is made of doubles. */
static PyObject *folded_integers(int kind, PyArrayObject *x, Fold *fold, int keeps) {
    PyObject *wide = PyArray_Cast(x, NPY_DOUBLE);
    PyObject *made = wide ? folded_floats(kind, (PyArrayObject *)wide, fold, keeps) : NULL;
    Py_XDECREF(wide);
    return made;
}

/* An empty array of halves. */
static PyObject *new_halves(const Fold *fold, PyArrayObject *like) {
    PyArray_Descr *dtype = PyArray_DESCR(like);
    Py_INCREF(dtype);
    return PyArray_NewFromDescr(&PyArray_Type, dtype, fold->made_ndim, fold->made, NULL, NULL, 0, NULL);
}

static PyObject *folded_halves(int kind, PyArrayObject *x, Fold *fold, int keeps) {
    const Py_ssize_t *casts = half_casts + (array_type(x) == NPY_HALF ? 0 : 2);
    const npy_intp size = PyArray_SIZE(x);
    if (!casts[0] || !PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISBEHAVED_RO(x)) return NULL;
    walk_lines(x, fold);
    Axes *all[] = {&fold->kept, &fold->reduced, &fold->line};
    for (int i = 0; i < 3; i++) /* steps over floats */
        for (int64_t a = 0; a < (*all[i])[0]; a++) (*all[i])[2 + (*all[i])[0] + a] *= 2;
    const npy_intp n = made_size(fold);
    float *wide = (float *)scratch_of((size + 2 * n) * sizeof(float));
    if (!wide) return PyErr_NoMemory();
    PyObject *made = new_halves(fold, x);
    if (!made) return NULL;
    float *sums = wide + size;
    ((Widener)casts[0])((const npy_uint16 *)PyArray_DATA(x), wide, size);
    fold_into(kind, OF_FLOAT, fold, (const char *)wide, n, sums, sums + n);
    ((Narrower)casts[1])(sums, (npy_uint16 *)PyArray_DATA((PyArrayObject *)made), n);
    return shaped(fold, made, keeps);
}

/* Halves as integers in their order, or against it, and back; NaN is beyond what is infinite. */
#define RANKED(bits, flip) ((npy_int16)(((bits) ^ (((bits) >> 15) & 0x7fff)) ^ (flip)))
#define LARGER_INT(x, y) ((x) > (y) ? (x) : (y))
static npy_uint16 of_rank(npy_int16 best, npy_int16 farthest, npy_int16 flip, npy_int16 infinite, npy_int16 unknown) {
    const npy_int16 rank = best ^ flip;
    return (npy_uint16)(farthest > infinite ? unknown : rank ^ ((rank >> 15) & 0x7fff));
}

/* The largest (or smallest) of halves in C order: rows of m, of which n are one after the other. */
static void extremes_of_rows(const npy_int16 *x, npy_intp n, npy_intp m, npy_int16 flip, npy_int16 infinite, npy_int16 unknown, npy_uint16 *out) {
    for (npy_intp k = 0; k < n; k++, x += m) {
        npy_int16 best = -32768, farthest = 0;
        for (npy_intp i = 0; i < m; i++) {
            const npy_int16 rank = RANKED(x[i], flip), far = x[i] & 0x7fff;
            best = LARGER_INT(best, rank), farthest = LARGER_INT(farthest, far);
        }
        out[k] = of_rank(best, farthest, flip, infinite, unknown);
    }
}

/* The same of columns, n times m rows of so many, with scratch for two rows. */
static void extremes_of_columns(const npy_int16 *x, npy_intp n, npy_intp m, npy_intp width, npy_int16 flip, npy_int16 infinite, npy_int16 unknown, npy_uint16 *out, npy_int16 *best) {
    npy_int16 *farthest = best + width;
    for (npy_intp k = 0; k < n; k++, out += width) {
        for (npy_intp i = 0; i < width; i++) best[i] = -32768, farthest[i] = 0;
        for (npy_intp r = 0; r < m; r++, x += width)
            for (npy_intp i = 0; i < width; i++) {
                const npy_int16 rank = RANKED(x[i], flip), far = x[i] & 0x7fff;
                best[i] = LARGER_INT(best[i], rank), farthest[i] = LARGER_INT(farthest[i], far);
            }
        for (npy_intp i = 0; i < width; i++) out[i] = of_rank(best[i], farthest[i], flip, infinite, unknown);
    }
}

/* Of halves in C order, over neighbouring axes. */
static PyObject *extreme_halves(int kind, PyArrayObject *x, Fold *fold, int keeps) {
    npy_intp before = 1, within = 1, after = 1;
    int n_runs = 0;
    fold->made_ndim = 0, fold->place = -1;
    for (int a = 0; a < fold->ndim; a++) {
        const npy_intp n = fold->shape[a];
        if (!fold->is_reduced[a]) fold->made[fold->made_ndim++] = n;
        if (n == 1) continue;
        if (fold->is_reduced[a]) n_runs += after > 1 || within == 1, within *= n;
        else if (within > 1) after *= n;
        else before *= n;
    }
    if (n_runs > 1 || !PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISBEHAVED_RO(x)) return NULL;
    const int is_wide = array_type(x) == NPY_HALF;
    const npy_int16 flip = kind == LEAST ? -1 : 0, infinite = is_wide ? 0x7c00 : 0x7f80, unknown = is_wide ? 0x7e00 : 0x7fc0;
    npy_int16 *scratch = (npy_int16 *)scratch_of(2 * after * sizeof(npy_int16));
    if (!scratch) return PyErr_NoMemory();
    PyObject *made = new_halves(fold, x);
    if (!made) return NULL;
    const npy_int16 *from = (const npy_int16 *)PyArray_DATA(x);
    npy_uint16 *into = (npy_uint16 *)PyArray_DATA((PyArrayObject *)made);
    if (after == 1) extremes_of_rows(from, before, within, flip, infinite, unknown, into);
    else extremes_of_columns(from, before, within, after, flip, infinite, unknown, into, scratch);
    return shaped(fold, made, keeps);
}

/* What a ufunc's own `reduce` makes, which may have warnings to give. */
static PyObject *reduced_by(PyObject *reduce, PyObject *x, PyObject *axis, PyObject *keepdims) {
    PyObject *given[] = {x, axis, Py_None, Py_None, keepdims};
    const int type = array_type((PyArrayObject *)x);
    const int is_quiet = PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type);
    PyObject *token = is_quiet ? NULL : PyContextVar_Set(silence, silent);
    if (!is_quiet && !token) return NULL;
    PyObject *made = PyObject_Vectorcall(reduce, given, 5, NULL), *kind, *error, *trace;
    if (token) {
        PyErr_Fetch(&kind, &error, &trace);
        PyContextVar_Reset(silence, token);
        PyErr_Restore(kind, error, trace);
        Py_DECREF(token);
    }
    return made;
}

/* A reduction of a small array; `how` is its kind, and the `reduce` of its ufunc or None. */
static PyObject *folded(PyObject *how, PyArrayObject *x, PyObject *axis, PyObject *keepdims) {
    const int kind = (int)PyLong_AsLong(PyTuple_GET_ITEM(how, 0)), type = array_type(x), keeps = keepdims == Py_True;
    PyObject *reduce = PyTuple_GET_ITEM(how, 1);
    Fold fold;
    if (!are_axes(axis, x, &fold)) return NULL;
    if (kind <= STD && folders[0][0]) {
        choose_line(&fold);
        if (type == NPY_FLOAT || type == NPY_DOUBLE) return folded_floats(kind, x, &fold, keeps);
        if (is_half(type)) return folded_halves(kind, x, &fold, keeps);
        if (kind != SUM && (PyTypeNum_ISINTEGER(type) || PyTypeNum_ISBOOL(type))) return folded_integers(kind, x, &fold, keeps);
    }
    if (is_half(type)) return kind == MOST || kind == LEAST ? extreme_halves(kind, x, &fold, keeps) : NULL;
    const int is_float = PyTypeNum_ISFLOAT(type) && kind == SUM;
    return reduce == Py_None || is_float ? NULL : reduced_by(reduce, (PyObject *)x, axis, keepdims);
}
