/* Reductions of small arrays, over any axes: sums, means, variances and standard deviations of floats by the functions
   of `folds.c`, in the order that plans add up in (`fold_order.py`), the largest and the smallest of halves by their
   bits, and what else a ufunc reduces without what NumPy does around it. Halves are added up as floats and rounded once.
   Before `small_calls.c`. All answer NULL (or 0) without an error where Python has to look. */

/* As `FOLDED` of numpy_table.py has them. */
enum { SUM = 0, MEAN = 1, VAR = 2, STD = 3, MOST = 4, LEAST = 5, BY_UFUNC = 6, ANY = 7, ALL = 8, WHERE_MOST = 9, WHERE_LEAST = 10, NONZERO = 11 };
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

/* An empty array of the dtype of another. */
static PyObject *new_like(const Fold *fold, PyArrayObject *like) {
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
    PyObject *made = new_like(fold, x);
    if (!made) return NULL;
    float *sums = wide + size;
    ((Widener)casts[0])((const npy_uint16 *)PyArray_DATA(x), wide, size);
    fold_into(kind, OF_FLOAT, fold, (const char *)wide, n, sums, sums + n);
    ((Narrower)casts[1])(sums, (npy_uint16 *)PyArray_DATA((PyArrayObject *)made), n);
    return shaped(fold, made, keeps);
}

/* Values as integers in their order, or against it, and back. Of floats, as which is taken what is `infinite` or more
   far from 0, NaN is beyond all; others have no `infinite` (-1), and `flip` turns those without a sign, too. */
typedef struct { npy_int64 flip, infinite, unknown; int is_float; } Order;

/* The axes of an array in C order, as lines of `within` elements, `after` of which are side by side. */
typedef struct { npy_intp before, within, after; } Lines;

static int are_lines(PyArrayObject *x, Fold *fold, Lines *lines) {
    int n_runs = 0;
    lines->before = lines->within = lines->after = 1;
    fold->made_ndim = 0, fold->place = -1;
    for (int a = 0; a < fold->ndim; a++) {
        const npy_intp n = fold->shape[a];
        if (!fold->is_reduced[a]) fold->made[fold->made_ndim++] = n;
        if (n == 1) continue;
        if (fold->is_reduced[a]) n_runs += lines->after > 1 || lines->within == 1, lines->within *= n;
        else if (lines->within > 1) lines->after *= n;
        else lines->before *= n;
    }
    return n_runs <= 1 && PyArray_IS_C_CONTIGUOUS(x) && PyArray_ISBEHAVED_RO(x);
}

enum { IN_PIECE = 64 };
#define LARGER_INT(x, y) ((x) > (y) ? (x) : (y))
#define LEAST_OF(Int) ((Int)((Int)1 << (8 * sizeof(Int) - 1)))
#define MOST_OF(Int) ((Int)~LEAST_OF(Int))
#define ALWAYS static inline __attribute__((always_inline))

/* The most where what is looked at is NaN, by masks: compilers make no vectors of jumps. */
#define BEYOND(W, Int, rank) ((Int)(((rank) | (Int)((infinite - far) >> (W - 1))) & ~((Int)((infinite - far) >> (W - 1)) & LEAST_OF(Int))))

#define ORDERED(W, Int)                                                                                              \
    ALWAYS Int rank_##W(Int bits, Int flip, Int infinite, const int is_float) {                                      \
        const Int far = bits & MOST_OF(Int);                                                                         \
        return is_float ? BEYOND(W, Int, bits ^ ((bits >> (W - 1)) & MOST_OF(Int)) ^ flip) : bits ^ flip;            \
    }                                                                                                                \
    ALWAYS Int of_rank_##W(Int best, const Order *order) {                                                           \
        const Int rank = best ^ (Int)order->flip;                                                                    \
        if (!order->is_float) return rank;                                                                           \
        return best == MOST_OF(Int) ? (Int)order->unknown : (Int)(rank ^ ((rank >> (W - 1)) & MOST_OF(Int)));        \
    }                                                                                                                \
    /* Zeros of both signs are the same place. */                                                                    \
    ALWAYS Int place_##W(Int bits, Int flip, Int infinite, const int is_float) {                                     \
        const Int far = bits & MOST_OF(Int), sign = (Int)((bits ^ flip) >> (W - 1));                                 \
        return is_float ? BEYOND(W, Int, (far ^ sign) - sign) : bits ^ flip;                                         \
    }                                                                                                                \
    /* The largest (or smallest) of each line, as `Order` says. */                                                   \
    ALWAYS void best_##W(const Int *restrict x, const Lines *lines, const Order *order, Int *restrict out, const int is_float) {       \
        const npy_intp m = lines->within, width = lines->after;                                                      \
        const Int flip = (Int)order->flip, infinite = (Int)order->infinite;                                          \
        for (npy_intp k = 0; k < lines->before; k++, out += width) {                                                 \
            if (width == 1) {                                                                                        \
                Int best = LEAST_OF(Int);                                                                            \
                for (npy_intp i = 0; i < m; i++) {                                                                   \
                    const Int rank = rank_##W(x[i], flip, infinite, is_float);                                       \
                    best = LARGER_INT(best, rank);                                                                   \
                }                                                                                                    \
                *out = of_rank_##W(best, order), x += m;                                                             \
                continue;                                                                                            \
            }                                                                                                        \
            for (npy_intp i = 0; i < width; i++) out[i] = LEAST_OF(Int);                                             \
            for (npy_intp r = 0; r < m; r++, x += width)                                                             \
                for (npy_intp i = 0; i < width; i++) {                                                               \
                    const Int rank = rank_##W(x[i], flip, infinite, is_float);                                       \
                    out[i] = LARGER_INT(out[i], rank);                                                               \
                }                                                                                                    \
            for (npy_intp i = 0; i < width; i++) out[i] = of_rank_##W(out[i], order);                                \
        }                                                                                                            \
    }                                                                                                                \
    /* Where the first of the best is in each line; with scratch for two rows. */                                    \
    ALWAYS void find_##W(const Int *restrict x, const Lines *lines, const Order *order, npy_int64 *restrict out, Int *restrict best,            \
                         const int is_float) {                                                                       \
        const npy_intp m = lines->within, width = lines->after;                                                      \
        const Int flip = (Int)order->flip, infinite = (Int)order->infinite;                                          \
        Int *at = best + width;                                                                                      \
        for (npy_intp k = 0; k < lines->before; k++, out += width) {                                                 \
            if (width == 1) {                                                                                        \
                Int most = LEAST_OF(Int), piece;                                                                     \
                npy_intp from = 0, i;                                                                                \
                if (W == 16 && m <= 1 << 16) { /* place and index as one number */                                   \
                    npy_int32 both = NPY_MIN_INT32;                                                                  \
                    for (i = 0; i < m; i++) {                                                                        \
                        const npy_int32 one = (npy_int32)place_##W(x[i], flip, infinite, is_float) * (1 << 16) + (0xffff - (npy_int32)i); \
                        both = LARGER_INT(both, one);                                                                \
                    }                                                                                                \
                    *out = 0xffff - (both & 0xffff), x += m;                                                         \
                    continue;                                                                                        \
                }                                                                                                    \
                for (npy_intp first = 0; first < m; first += IN_PIECE) {                                             \
                    const npy_intp n = m - first < IN_PIECE ? m - first : IN_PIECE;                                  \
                    const Int *part = x + first;                                                                     \
                    piece = LEAST_OF(Int);                                                                           \
                    for (i = 0; i < n; i++) {                                                                        \
                        const Int place = place_##W(part[i], flip, infinite, is_float);                              \
                        piece = LARGER_INT(piece, place);                                                            \
                    }                                                                                                \
                    if (piece > most) most = piece, from = first;                                                    \
                }                                                                                                    \
                for (i = from; i < m - 1 && place_##W(x[i], flip, infinite, is_float) != most;) i++;                 \
                *out = i, x += m;                                                                                    \
                continue;                                                                                            \
            }                                                                                                        \
            for (npy_intp i = 0; i < width; i++) best[i] = place_##W(x[i], flip, infinite, is_float), at[i] = 0;     \
            x += width;                                                                                              \
            for (npy_intp r = 1; r < m; r++, x += width)                                                             \
                for (npy_intp i = 0; i < width; i++) {                                                               \
                    const Int place = place_##W(x[i], flip, infinite, is_float);                                     \
                    at[i] = place > best[i] ? (Int)r : at[i];                                                        \
                    best[i] = LARGER_INT(best[i], place);                                                            \
                }                                                                                                    \
            for (npy_intp i = 0; i < width; i++) out[i] = at[i];                                                     \
        }                                                                                                            \
    }                                                                                                                \
    static void bests_##W(const void *x, const Lines *lines, const Order *order, void *out) {                        \
        if (order->is_float) best_##W(x, lines, order, out, 1);                                                      \
        else best_##W(x, lines, order, out, 0);                                                                      \
    }                                                                                                                \
    static void finds_##W(const void *x, const Lines *lines, const Order *order, npy_int64 *out, void *scratch) {    \
        if (order->is_float) find_##W(x, lines, order, out, scratch, 1);                                             \
        else find_##W(x, lines, order, out, scratch, 0);                                                             \
    }
ORDERED(8, npy_int8) ORDERED(16, npy_int16) ORDERED(32, npy_int32) ORDERED(64, npy_int64)

/* How the values of a dtype are ordered, from the least or from the largest; 0: not as integers are. */
static int is_ordered(int type, npy_intp size, int from_least, Order *order) {
    order->flip = from_least ? -1 : 0, order->infinite = -1, order->is_float = 1;
    switch (type) {
    case NPY_HALF: order->infinite = 0x7c00, order->unknown = 0x7e00; return 1;
    case NPY_FLOAT: order->infinite = 0x7f800000, order->unknown = 0x7fc00000; return 1;
    case NPY_DOUBLE: order->infinite = 0x7ff0000000000000, order->unknown = 0x7ff8000000000000; return 1;
    }
    if (type == bfloat16_type) return order->infinite = 0x7f80, order->unknown = 0x7fc0, 1;
    order->is_float = 0;
    if (!PyTypeNum_ISINTEGER(type) && !PyTypeNum_ISBOOL(type)) return 0;
    if (PyTypeNum_ISUNSIGNED(type) || PyTypeNum_ISBOOL(type)) order->flip ^= -((npy_int64)1 << (8 * size - 1));
    return size <= 8;
}

/* The largest or the smallest over neighbouring axes of an array in C order. NumPy's own loops are for long lines, and
   of halves it has none. */
static PyObject *extremes(int from_least, PyArrayObject *x, Fold *fold, int keeps) {
    const int type = array_type(x);
    const npy_intp size = PyArray_ITEMSIZE(x);
    Order order;
    Lines lines;
    if (!are_lines(x, fold, &lines) || !is_ordered(type, size, from_least, &order)) return NULL;
    const int is_short = lines.after == 1 ? lines.before > 1 && lines.within <= FEW_IN_ROW : lines.after <= FEW_IN_ROW / 4;
    if (!is_half(type) && !is_short) return NULL;
    PyObject *made = new_like(fold, x);
    if (!made) return NULL;
    const void *from = PyArray_DATA(x);
    void *out = PyArray_DATA((PyArrayObject *)made);
    switch (size) {
    case 1: bests_8(from, &lines, &order, out); break;
    case 2: bests_16(from, &lines, &order, out); break;
    case 4: bests_32(from, &lines, &order, out); break;
    default: bests_64(from, &lines, &order, out);
    }
    return shaped(fold, made, keeps);
}

/* Where the first of them is, along one axis or in all of them. */
static PyObject *extreme_places(int from_least, PyArrayObject *x, PyObject *axis, Fold *fold, int keeps) {
    const int type = array_type(x);
    const npy_intp size = PyArray_ITEMSIZE(x);
    Order order;
    Lines lines;
    if (PyTuple_Check(axis) || !are_lines(x, fold, &lines) || !is_ordered(type, size, from_least, &order)) return NULL;
    if (lines.after > 1 && lines.within >= (npy_intp)1 << (8 * (size < 4 ? size : 4) - 1)) return NULL;
    if (lines.after == 1 && lines.within > FEW_IN_ROW && !is_half(type)) return NULL; /* NumPy's own loops are for long lines */
    void *scratch = scratch_of(2 * lines.after * size);
    if (!scratch) return PyErr_NoMemory();
    PyObject *made = PyArray_SimpleNew(fold->made_ndim, fold->made, NPY_INT64);
    if (!made) return NULL;
    const void *from = PyArray_DATA(x);
    npy_int64 *out = PyArray_DATA((PyArrayObject *)made);
    switch (size) {
    case 1: finds_8(from, &lines, &order, out, scratch); break;
    case 2: finds_16(from, &lines, &order, out, scratch); break;
    case 4: finds_32(from, &lines, &order, out, scratch); break;
    default: finds_64(from, &lines, &order, out, scratch);
    }
    return shaped(fold, made, keeps);
}

/* Rows beside each other as one; what is behind them. Whatever is not 0 is true: it may be a view of other bits. */
static const npy_bool *truth_of_rows(int all, const npy_bool *restrict x, npy_intp n, npy_intp width, npy_bool *restrict out) {
    memset(out, all, width);
    for (npy_intp r = 0; r < n; r++)
        if (all) for (npy_intp i = 0; i < width; i++) out[i] &= x[r * width + i] != 0;
        else for (npy_intp i = 0; i < width; i++) out[i] |= x[r * width + i] != 0;
    return x + n * width;
}

static int truth_of_line(int all, const npy_bool *x, npy_intp n) {
    return all ? !memchr(x, 0, n) : x[0] || memcmp(x, x + 1, n - 1);
}

/* Whether some (or all) truth values over neighbouring axes of an array in C order are true. */
static PyObject *truths(int all, PyArrayObject *x, Fold *fold, int keeps) {
    Lines lines;
    if (!are_lines(x, fold, &lines)) return NULL;
    PyObject *made = new_like(fold, x);
    if (!made) return NULL;
    const npy_bool *from = (const npy_bool *)PyArray_DATA(x);
    npy_bool *out = (npy_bool *)PyArray_DATA((PyArrayObject *)made);
    for (npy_intp k = 0; k < lines.before; k++, out += lines.after) {
        if (lines.after == 1) *out = truth_of_line(all, from, lines.within), from += lines.within;
        else from = truth_of_rows(all, from, lines.within, lines.after, out);
    }
    return shaped(fold, made, keeps);
}

/* How many truth values are true, over all axes. */
static PyObject *count_of(PyArrayObject *x, const Fold *fold, int keeps) {
    for (int a = 0; a < fold->ndim; a++)
        if (!fold->is_reduced[a]) return NULL;
    if (keeps) return NULL;
    npy_int64 n = PyArray_CountNonzero(x);
    PyArray_Descr *dtype = PyArray_DescrFromType(NPY_INT64);
    PyObject *made = n < 0 ? NULL : PyArray_Scalar(&n, dtype, NULL);
    Py_DECREF(dtype);
    return made;
}

/* `bincount(x, weights, least)` of a small line of int64: how often each integer occurs, or the sum of its weights in
   their order. NULL where the counts are not small. */
static PyObject *counts_of(PyObject *const *given, Py_ssize_t n, npy_intp limit) {
    if (n < 1 || n > 3 || !PyArray_CheckExact(given[0])) return NULL;
    PyArrayObject *x = (PyArrayObject *)given[0], *weights = n > 1 && given[1] != Py_None ? (PyArrayObject *)given[1] : NULL;
    npy_intp size = PyArray_SIZE(x);
    if (PyArray_NDIM(x) != 1 || array_type(x) != NPY_INT64 || !size || !PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISBEHAVED_RO(x)) return NULL;
    const int type = weights ? (PyArray_CheckExact(given[1]) ? array_type(weights) : -1) : NPY_DOUBLE;
    if (type != NPY_FLOAT && type != NPY_DOUBLE) return NULL;
    if (weights && (!PyArray_SAMESHAPE(x, weights) || !PyArray_IS_C_CONTIGUOUS(weights) || !PyArray_ISBEHAVED_RO(weights))) return NULL;
    npy_int64 least = 0, most = -1;
    if (n == 3) {
        int overflow = 0;
        if (!PyLong_CheckExact(given[2])) return NULL;
        most = PyLong_AsLongLongAndOverflow(given[2], &overflow) - 1;
        if (overflow || most < -1) return NULL;
    }
    const npy_int64 *from = (const npy_int64 *)PyArray_DATA(x);
    for (npy_intp i = 0; i < size; i++) {
        least = from[i] < least ? from[i] : least;
        most = from[i] > most ? from[i] : most;
    }
    if (least < 0 || most >= limit) return NULL;
    npy_intp n_made = most + 1;
    PyArrayObject *made = (PyArrayObject *)PyArray_ZEROS(1, &n_made, weights ? NPY_DOUBLE : NPY_INT64, 0);
    if (!made) return NULL;
    double *sums = (double *)PyArray_DATA(made);
    npy_int64 *counts = (npy_int64 *)PyArray_DATA(made);
    if (!weights) for (npy_intp i = 0; i < size; i++) counts[from[i]]++;
    else if (type == NPY_FLOAT) for (npy_intp i = 0; i < size; i++) sums[from[i]] += ((const float *)PyArray_DATA(weights))[i];
    else for (npy_intp i = 0; i < size; i++) sums[from[i]] += ((const double *)PyArray_DATA(weights))[i];
    return (PyObject *)made;
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
    const int is_truth = PyTypeNum_ISBOOL(type);
    PyObject *made = NULL;
    if (kind == MOST || kind == LEAST) made = extremes(kind == LEAST, x, &fold, keeps);
    else if (kind == WHERE_MOST || kind == WHERE_LEAST) made = extreme_places(kind == WHERE_LEAST, x, axis, &fold, keeps);
    else if ((kind == ANY || kind == ALL) && is_truth) made = truths(kind == ALL, x, &fold, keeps);
    else if (is_truth && (kind == NONZERO || (kind == SUM && reduce != Py_None))) made = count_of(x, &fold, keeps);
    if (made || PyErr_Occurred() || is_half(type)) return made;
    const int is_float = PyTypeNum_ISFLOAT(type) && kind == SUM;
    return reduce == Py_None || is_float ? NULL : reduced_by(reduce, (PyObject *)x, axis, keepdims);
}
