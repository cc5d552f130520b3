/* The loops of NumPy's ufuncs, and of `where`, over operands that need nothing before it: each of the dtype that a loop takes, in C
   order, evenly apart, as rows that repeat, or one number. To find that out takes NumPy most of the time of a small
   call. Before `small_calls.c`. Everything here answers NULL (or 0) without an error where NumPy has to do it. */

enum { MOST_IN = 3, KNOWN_LOOPS = 512 };

/* Loops that were asked for, by ufunc and dtypes: of two at one place the later stays. */
static struct { PyObject *ufunc; int types[2]; Loop loop; } known_loops[KNOWN_LOOPS];

static Loop loop_for(PyObject *ufunc, int n, const int *types) {
    size_t at = ((size_t)ufunc >> 4 ^ (size_t)types[0] * 31 ^ (n > 1 ? (size_t)types[1] * 131 : 0)) % KNOWN_LOOPS;
    int second = n > 1 ? types[1] : 0;
    if (known_loops[at].ufunc != ufunc || known_loops[at].types[0] != types[0] || known_loops[at].types[1] != second) {
        Py_INCREF(ufunc); /* so that no other gets its address */
        Py_XSETREF(known_loops[at].ufunc, ufunc);
        known_loops[at].types[0] = types[0], known_loops[at].types[1] = second;
        known_loops[at].loop = find_loop((PyUFuncObject *)ufunc, types);
    }
    return known_loops[at].loop;
}

/* A number in the dtype of an array: of that dtype, or one of Python's that it has. */
typedef union { double d[2]; float f[2]; npy_uint16 half; npy_int64 i64; npy_int32 i32; npy_int16 i16; npy_int8 i8; } Number;

/* One of Python's as a half; overflows are NumPy's to report. bfloat16 is rounded twice, as ml_dtypes does. */
static int as_half(PyObject *x, int type, npy_uint16 *value) {
    double wide;
    if (!(PyFloat_CheckExact(x) || PyLong_CheckExact(x)) || !as_double(x, &wide) || !(fabs(wide) < 6e4)) return 0;
    if (type != NPY_HALF) {
        const float narrow = (float)wide;
        npy_uint32 bits;
        memcpy(&bits, &narrow, sizeof bits);
        *value = (npy_uint16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        return 1;
    }
    int exponent = -13; /* where the least normal half begins, and what is below it */
    if (wide != 0) frexp(wide, &exponent);
    exponent = exponent < -13 ? -13 : exponent;
    const int places = (int)rint(ldexp(fabs(wide), 11 - exponent)); /* a carry goes into the exponent */
    *value = (npy_uint16)((signbit(wide) ? 0x8000 : 0) + ((exponent + 13) << 10) + places);
    return 1;
}

static int as_number(PyObject *x, int type, Number *value) {
    npy_uint64 bits;
    value->d[1] = 0;
    if (is_half(type)) return as_half(x, type, &value->half);
    switch (type) {
    case NPY_CDOUBLE:
    case NPY_DOUBLE: return (type == NPY_DOUBLE || PyFloat_CheckExact(x)) && as_double(x, value->d);
    case NPY_CFLOAT: value->f[1] = 0; /* fall through */
    case NPY_FLOAT: return (type == NPY_FLOAT || PyFloat_CheckExact(x)) && as_float(x, value->f);
    }
    int n = bits_of(type);
    if (!n || !as_integer(x, type, &bits)) return 0;
    if (n == 64) value->i64 = (npy_int64)bits;
    else if (n == 32) value->i32 = (npy_int32)bits;
    else if (n == 16) value->i16 = (npy_int16)bits;
    else value->i8 = (npy_int8)bits;
    return 1;
}

/* How operands are walked: rows of n; where each begins, and the bytes to its next element and to its next row. */
typedef struct {
    npy_intp n, n_rows;
    char *at[MOST_IN + 1];
    npy_intp steps[MOST_IN + 1], rows[MOST_IN + 1], widths[MOST_IN + 1];
    Number numbers[MOST_IN];
} Walk;

static void run_loop(const Loop *loop, const Walk *walk, int n_args) {
    if (walk->n_rows > 1 && walk_in_blocks(loop, n_args, walk->n, walk->n_rows, walk->at, walk->steps, walk->rows, walk->widths)) return;
    char *at[MOST_IN + 1];
    npy_intp steps[MOST_IN + 1];
    for (npy_intp row = 0; row < walk->n_rows; row++) {
        npy_intp n = walk->n;
        for (int k = 0; k < n_args; k++) {
            at[k] = walk->at[k] + row * walk->rows[k];
            steps[k] = walk->steps[k];
        }
        loop->run(at, &n, steps, loop->data);
    }
}

/* The operand that has the shape of the result; NULL: another array has other lengths, or there is nothing to do. */
static PyArrayObject *widest(PyObject *const *given, int n) {
    PyArrayObject *found = NULL;
    for (int k = 0; k < n; k++) {
        if (!PyArray_CheckExact(given[k])) continue;
        PyArrayObject *x = (PyArrayObject *)given[k];
        if (!found || PyArray_NDIM(x) > PyArray_NDIM(found) ||
            (PyArray_NDIM(x) == PyArray_NDIM(found) && PyArray_SIZE(x) > PyArray_SIZE(found)))
            found = x;
    }
    return found && PyArray_NDIM(found) && PyArray_SIZE(found) ? found : NULL;
}

/* Whether an array is walked in rows as `like` is, or repeats where it is shorter. */
static int walks(PyArrayObject *x, PyArrayObject *like, Walk *walk, int k) {
    int ndim = PyArray_NDIM(like), own = PyArray_NDIM(x);
    npy_intp width = PyArray_ITEMSIZE(x);
    if (!PyArray_ISBEHAVED_RO(x)) return 0;
    walk->at[k] = PyArray_BYTES(x), walk->widths[k] = width;
    if (walk->n_rows == 1 && ndim != 1) { /* all are in C order and of one shape */
        walk->steps[k] = width, walk->rows[k] = 0;
        return PyArray_SAMESHAPE(x, like) && PyArray_IS_C_CONTIGUOUS(x);
    }
    npy_intp n = own ? PyArray_DIM(x, own - 1) : 1, m = own > 1 ? PyArray_DIM(x, 0) : 1;
    if ((n != walk->n && n != 1) || (m != walk->n_rows && m != 1)) return 0;
    walk->steps[k] = n == 1 ? 0 : PyArray_STRIDE(x, own - 1);
    walk->rows[k] = m == 1 ? 0 : PyArray_STRIDE(x, 0);
    /* else NumPy finds a better order, where lines are long */
    return ndim == 1 || walk->steps[k] == 0 || walk->steps[k] == width || (walk->n <= FEW_IN_ROW / 4 && width <= 8);
}

/* Lay out operands, numbers as those of a dtype; 0 where NumPy has to look. */
static int laid_out(PyObject *const *given, int n, PyArrayObject *like, int type, Walk *walk) {
    int ndim = PyArray_NDIM(like), is_plain = PyArray_IS_C_CONTIGUOUS(like);
    for (int k = 0; k < n && is_plain; k++) {
        PyArrayObject *x = (PyArrayObject *)given[k];
        is_plain = !PyArray_CheckExact(given[k]) || (PyArray_IS_C_CONTIGUOUS(x) && PyArray_SAMESHAPE(x, like));
    }
    if (!is_plain && ndim > 2) return 0;
    walk->n = is_plain ? PyArray_SIZE(like) : PyArray_DIM(like, ndim - 1);
    walk->n_rows = is_plain || ndim == 1 ? 1 : PyArray_DIM(like, 0);
    for (int k = 0; k < n; k++) {
        if (PyArray_CheckExact(given[k])) {
            if (!walks((PyArrayObject *)given[k], like, walk, k)) return 0;
        } else if (as_number(given[k], type, &walk->numbers[k])) {
            walk->at[k] = (char *)&walk->numbers[k], walk->steps[k] = walk->rows[k] = walk->widths[k] = 0;
        } else {
            return 0;
        }
    }
    return 1;
}

/* The loop of a ufunc for operands; none where it is not one of NumPy's ufuncs of so many. */
static Loop loop_over(PyObject *ufunc, PyObject *const *given, Py_ssize_t n, int *type) {
    if (Py_TYPE(ufunc) != &PyUFunc_Type || n != ((PyUFuncObject *)ufunc)->nin || n > 2) return (Loop){NULL, NULL, 0, 0, 0};
    *type = array_type((PyArrayObject *)given[!PyArray_CheckExact(given[0])]);
    int types[] = {*type, *type};
    if (n == 2 && PyArray_CheckExact(given[0]) && PyArray_CheckExact(given[1])) types[1] = array_type((PyArrayObject *)given[1]);
    return loop_for(ufunc, (int)n, types);
}

/* A new array in C order: what a loop makes of operands that are walked so. */
static PyObject *filled(const Loop *loop, PyArrayObject *like, Walk *walk, int n) {
    PyObject *made = PyArray_SimpleNew(PyArray_NDIM(like), PyArray_DIMS(like), loop->made);
    if (!made) return NULL;
    walk->at[n] = PyArray_BYTES((PyArrayObject *)made);
    walk->steps[n] = walk->widths[n] = PyArray_ITEMSIZE((PyArrayObject *)made);
    walk->rows[n] = walk->n * walk->steps[n];
    run_loop(loop, walk, n + 1);
    return made;
}

enum { MOST_SPREAD = 6, LEAST_SPREAD = 16 };

/* Operands of several axes, of which none may have the shape of the result: axes that are walked alike are one. */
typedef struct {
    int ndim, n_walked;
    npy_intp shape[MOST_SPREAD], lengths[MOST_SPREAD], steps[MOST_IN + 1][MOST_SPREAD], widths[MOST_IN + 1];
    char *at[MOST_IN + 1];
    Number numbers[MOST_IN];
} Spread;

/* The shape that arrays broadcast to; 0: NumPy has to look. */
static int is_spread(PyObject *const *given, int n, Spread *spread) {
    spread->ndim = 0;
    for (int k = 0; k < n; k++)
        if (PyArray_CheckExact(given[k]) && PyArray_NDIM((PyArrayObject *)given[k]) > spread->ndim)
            spread->ndim = PyArray_NDIM((PyArrayObject *)given[k]);
    if (spread->ndim < 1 || spread->ndim > MOST_SPREAD) return 0;
    for (int a = 0; a < spread->ndim; a++) spread->shape[a] = 1;
    for (int k = 0; k < n; k++) {
        PyArrayObject *x = (PyArrayObject *)given[k];
        if (!PyArray_CheckExact(given[k])) continue;
        if (!PyArray_ISBEHAVED_RO(x)) return 0;
        for (int a = 0, before = spread->ndim - PyArray_NDIM(x); a < PyArray_NDIM(x); a++) {
            const npy_intp length = PyArray_DIM(x, a);
            if (length == 1) continue;
            if (!length || (spread->shape[before + a] != 1 && spread->shape[before + a] != length)) return 0;
            spread->shape[before + a] = length;
        }
    }
    return 1;
}

/* The bytes that an operand goes on along each axis. */
static void step_along(Spread *spread, int k, PyArrayObject *x) {
    const int before = spread->ndim - PyArray_NDIM(x);
    spread->at[k] = PyArray_BYTES(x), spread->widths[k] = PyArray_ITEMSIZE(x);
    for (int a = 0; a < spread->ndim; a++)
        spread->steps[k][a] = a < before || PyArray_DIM(x, a - before) == 1 ? 0 : PyArray_STRIDE(x, a - before);
}

/* Make neighbouring axes one where all operands go on alike. */
static void join_walked(Spread *spread, int n_args) {
    spread->n_walked = 0;
    for (int a = 0; a < spread->ndim; a++) {
        if (spread->shape[a] == 1 && a < spread->ndim - 1) continue;
        int last = spread->n_walked - 1, is_one = last >= 0;
        for (int k = 0; k < n_args && is_one; k++) is_one = spread->steps[k][last] == spread->shape[a] * spread->steps[k][a];
        if (!is_one) last = spread->n_walked++;
        for (int k = 0; k < n_args; k++) spread->steps[k][last] = spread->steps[k][a];
        spread->lengths[last] = is_one ? spread->lengths[last] * spread->shape[a] : spread->shape[a];
    }
}

/* Whether short lines were walked several at a time. */
static int walked_in_blocks(const Loop *loop, const Spread *spread, int n_args) {
    npy_intp steps[MOST_IN + 1], rows[MOST_IN + 1];
    if (spread->n_walked != 2) return 0;
    for (int k = 0; k < n_args; k++) rows[k] = spread->steps[k][0], steps[k] = spread->steps[k][1];
    return walk_in_blocks(loop, n_args, spread->lengths[1], spread->lengths[0], spread->at, steps, rows, spread->widths);
}

/* Call a loop for each line of the last axis. */
static void walk_spread(const Loop *loop, const Spread *spread, int n_args) {
    const int last = spread->n_walked - 1;
    npy_intp index[MOST_SPREAD] = {0}, steps[MOST_IN + 1];
    char *row[MOST_IN + 1], *at[MOST_IN + 1];
    memcpy(row, spread->at, sizeof row);
    for (;;) {
        npy_intp n = spread->lengths[last];
        for (int k = 0; k < n_args; k++) at[k] = row[k], steps[k] = spread->steps[k][last];
        loop->run(at, &n, steps, loop->data);
        int a = last - 1;
        for (; a >= 0; a--) {
            for (int k = 0; k < n_args; k++) row[k] += spread->steps[k][a];
            if (++index[a] < spread->lengths[a]) break;
            for (int k = 0; k < n_args; k++) row[k] -= spread->steps[k][a] * spread->lengths[a];
            index[a] = 0;
        }
        if (a < 0) return;
    }
}

/* A new array of operands that broadcast to more axes than `Walk` has; of what is no half only along long lines, of which
   NumPy would find none better. */
static PyObject *spread_out(const Loop *loop, PyObject *const *given, int n, int type) {
    Spread spread;
    if (!is_spread(given, n, &spread)) return NULL;
    for (int k = 0; k < n; k++) {
        if (PyArray_CheckExact(given[k])) {
            step_along(&spread, k, (PyArrayObject *)given[k]);
            const npy_intp step = spread.steps[k][spread.ndim - 1];
            if (!is_half(type) && step && step != PyArray_ITEMSIZE((PyArrayObject *)given[k])) return NULL;
        } else if (as_number(given[k], type, &spread.numbers[k])) {
            spread.at[k] = (char *)&spread.numbers[k];
            memset(spread.steps[k], 0, sizeof spread.steps[k]), spread.widths[k] = 0;
        } else {
            return NULL;
        }
    }
    PyObject *made = PyArray_SimpleNew(spread.ndim, spread.shape, loop->made);
    if (!made) return NULL;
    step_along(&spread, n, (PyArrayObject *)made);
    join_walked(&spread, n + 1);
    if (walked_in_blocks(loop, &spread, n + 1)) return made;
    if (!is_half(type) && spread.n_walked > 1 && spread.lengths[spread.n_walked - 1] < LEAST_SPREAD) Py_CLEAR(made);
    else walk_spread(loop, &spread, n + 1);
    return made;
}

/* A new array `ufunc(*given)`; one of them is an array. */
static PyObject *looped(PyObject *ufunc, PyObject *const *given, Py_ssize_t n) {
    int type;
    Loop loop = loop_over(ufunc, given, n, &type);
    PyArrayObject *like = loop.run ? widest(given, (int)n) : NULL;
    Walk walk;
    if (!like) return NULL;
    if (laid_out(given, (int)n, like, type, &walk)) return filled(&loop, like, &walk, (int)n);
    return spread_out(&loop, given, (int)n, type);
}

/* --- where ------------------------------------------------------------------------------------ */

/* By bits, not by jumps: masks are seldom foreseen. What is stored may be anything for all a compiler knows, the length
   and single numbers too, so these are read before. */
#define CHOICE(name, type)                                                                            \
    static void name(char **at, npy_intp const *count, npy_intp const *steps, void *data) {           \
        (void)data;                                                                                   \
        const npy_bool *is = (const npy_bool *)at[0];                                                 \
        const type *x = (const type *)at[1], *y = (const type *)at[2];                                \
        type *out = (type *)at[3];                                                                    \
        const npy_intp n = *count, width = sizeof(type), m = steps[0], p = steps[1] / width, q = steps[2] / width; \
        const type one = *x, other = *y;                                                              \
        if (m == 1 && p == 1 && q == 1) CHOOSE(type, is[i], x[i], y[i])                               \
        else if (m == 1 && p == 1 && q == 0) CHOOSE(type, is[i], x[i], other)                         \
        else if (m == 1 && p == 0 && q == 1) CHOOSE(type, is[i], one, y[i])                           \
        else CHOOSE(type, is[i * m], x[i * p], y[i * q])                                              \
    }
#define CHOOSE(type, is, x, y)                                                                        \
    _Pragma("GCC ivdep") for (npy_intp i = 0; i < n; i++) out[i] = (type)((y) ^ (((x) ^ (y)) & (type)((type)((is) == 0) - 1)));
CHOICE(choose_1, npy_uint8) CHOICE(choose_2, npy_uint16) CHOICE(choose_4, npy_uint32) CHOICE(choose_8, npy_uint64)

/* A new array `where(*given)` of numbers of one dtype, of at most 8 bytes. */
static PyObject *chosen(PyObject *const *given) {
    int is_first = PyArray_CheckExact(given[1]), is_second = PyArray_CheckExact(given[2]);
    if (!PyArray_CheckExact(given[0]) || array_type((PyArrayObject *)given[0]) != NPY_BOOL || (!is_first && !is_second)) return NULL;
    int type = array_type((PyArrayObject *)given[is_first ? 1 : 2]);
    if ((!PyTypeNum_ISNUMBER(type) && !PyTypeNum_ISBOOL(type) && type != bfloat16_type) || (is_second && array_type((PyArrayObject *)given[2]) != type)) return NULL;
    npy_intp width = PyArray_ITEMSIZE((PyArrayObject *)given[is_first ? 1 : 2]);
    Loop loop = {width == 1 ? choose_1 : width == 2 ? choose_2 : width == 4 ? choose_4 : choose_8, NULL, type, 0, 1};
    PyArrayObject *like = width <= 8 ? widest(given, 3) : NULL;
    Walk walk;
    if (!like || !laid_out(given, 3, like, type, &walk)) return NULL;
    for (int k = 1; k < 3; k++)
        if (walk.steps[k] % width) return NULL;
    return filled(&loop, like, &walk, 3);
}

/* --- in place --------------------------------------------------------------------------------- */

/* Whether `out op= other` was done. */
static int looped_into(PyObject *ufunc, PyObject *out, PyObject *other) {
    PyArrayObject *target = (PyArrayObject *)out, *second = (PyArrayObject *)other;
    PyObject *given[] = {out, other};
    int type;
    Walk walk;
    if (!PyArray_NDIM(target) || !PyArray_SIZE(target)) return 0;
    if (PyArray_CheckExact(other) && PyArray_NDIM(second) > PyArray_NDIM(target)) return 0;
    if (PyArray_CheckExact(other) && other != out && !are_apart(target, second)) return 0;
    Loop loop = loop_over(ufunc, given, 2, &type);
    if (!loop.run || loop.made != type || !laid_out(given, 2, target, type, &walk)) return 0;
    walk.at[2] = walk.at[0], walk.steps[2] = walk.steps[0], walk.rows[2] = walk.rows[0], walk.widths[2] = walk.widths[0];
    run_loop(&loop, &walk, 3);
    return 1;
}
