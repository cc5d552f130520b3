/* Rows of bytes moved on all cores: joined side by side, read by index, or added at indices.

   Arrays are in C order and of one dtype. Rows of 1, 2, 4, 8 or 16 bytes have loops of their own. An index that is out of
   bounds is said and left to who called, who has the words for it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

enum { MOST_JOINED = 64, MOST_THREADS = 64, PARTS = 4, FEW = 64, BLOCK_BYTES = 1 << 14 };
#define LEAST_SHARED (1 << 18) /* bytes that are moved in the time in which another core is there */

/* --- threads ---------------------------------------------------------------------------------- */

typedef struct Work {
    void (*run)(const struct Work *, int64_t from, int64_t to);
    int64_t n, step, next; /* units, those of a part, and where the next one begins */
    int64_t width, n_rows, n_read, inner; /* bytes of a row; rows to choose from; of each of these so many are read */
    const char *x;
    const int64_t *index;
    char *out;
    int64_t wrong; /* whether some index is out of bounds */
    /* what is joined */
    int64_t n_joined, widths[MOST_JOINED];
    const char *joined[MOST_JOINED];
} Work;

static void (*share_with_threads)(void (*)(void *), void *, int64_t); /* of `threads.c` */
static const int64_t *n_threads_given;

static void take_parts(void *given) {
    Work *work = given;
    for (int64_t from; (from = __atomic_fetch_add(&work->next, work->step, __ATOMIC_RELAXED)) < work->n;)
        work->run(work, from, from + work->step < work->n ? from + work->step : work->n);
}

/* Do n units, of so many bytes together, here and in other threads. */
static void share(Work *work, int64_t n, int64_t n_bytes) {
    int64_t most = share_with_threads ? __atomic_load_n(n_threads_given, __ATOMIC_RELAXED) : 1;
    if (most > n_bytes / LEAST_SHARED + 1) most = n_bytes / LEAST_SHARED + 1;
    if (most > MOST_THREADS) most = MOST_THREADS;
    work->n = n, work->next = 0;
    work->step = most < 2 ? n : (n - 1) / (PARTS * most) + 1;
    if (most < 2) take_parts(work);
    else share_with_threads(take_parts, work, most);
}

#define BY_WIDTH(how, width)        \
    switch (width) {                \
    case 1: how(1) break;           \
    case 2: how(2) break;           \
    case 4: how(4) break;           \
    case 8: how(8) break;           \
    case 16: how(16) break;         \
    default: how(width)             \
    }

/* --- joins ------------------------------------------------------------------------------------ */

/* Units are rows of the result, of two elements. */
#define PAIR(name, T)                                                                     \
    typedef T __attribute__((aligned(1), may_alias)) name##_element;                      \
    static void name(const Work *work, int64_t from, int64_t to) {                        \
        const name##_element *restrict a = (const name##_element *)work->joined[0];       \
        const name##_element *restrict b = (const name##_element *)work->joined[1];       \
        name##_element *restrict out = (name##_element *)work->out;                       \
        for (int64_t i = from; i < to; i++) out[2 * i] = a[i], out[2 * i + 1] = b[i];     \
    }
PAIR(pair_1, uint8_t) PAIR(pair_2, uint16_t) PAIR(pair_4, uint32_t) PAIR(pair_8, uint64_t)
#undef PAIR

/* Units are rows of the result. */
static void join_rows(const Work *work, int64_t from, int64_t to) {
    const int64_t step = work->width, block = BLOCK_BYTES / step + 1; /* what is written in parts stays in cache */
    for (int64_t row = from; row < to; row += block) {
        const int64_t n = to - row < block ? to - row : block;
        char *restrict out = work->out + row * step;
        for (int64_t k = 0; k < work->n_joined; out += work->widths[k++]) {
            const int64_t width = work->widths[k];
            const char *restrict x = work->joined[k] + row * width;
#define MOVE(w) for (int64_t i = 0; i < n; i++) memcpy(out + i * step, x + i * (w), w);
            BY_WIDTH(MOVE, width)
#undef MOVE
        }
    }
}

static void (*joining_rows(const Work *work))(const Work *, int64_t, int64_t) {
    if (work->n_joined == 2 && work->widths[0] == work->widths[1]) switch (work->widths[0]) {
        case 1: return pair_1;
        case 2: return pair_2;
        case 4: return pair_4;
        case 8: return pair_8;
        }
    return join_rows;
}

/* Units are bytes of the result, whose rows are few and long. */
static void join_bytes(const Work *work, int64_t from, int64_t to) {
    for (int64_t row = from / work->width; row * work->width < to; row++) {
        int64_t at = row * work->width;
        for (int64_t k = 0; k < work->n_joined; at += work->widths[k++]) {
            const int64_t low = at > from ? at : from, end = at + work->widths[k], high = end < to ? end : to;
            if (low < high) memcpy(work->out + low, work->joined[k] + row * work->widths[k] + low - at, high - low);
        }
    }
}

static int is_plain(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)x) && PyArray_ISBEHAVED_RO((PyArrayObject *)x) &&
           !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)x));
}

static int is_target(PyObject *x) { return is_plain(x) && PyArray_ISWRITEABLE((PyArrayObject *)x); }

static int are_alike(PyArrayObject *x, PyArrayObject *y) {
    return PyArray_DESCR(x) == PyArray_DESCR(y) || PyArray_EquivTypes(PyArray_DESCR(x), PyArray_DESCR(y));
}

static int64_t product(PyArrayObject *x, int from, int to) {
    int64_t n = 1;
    for (int a = from; a < to; a++) n *= PyArray_DIM(x, a);
    return n;
}

/* Whether arrays of n rows each were put side by side into the n rows of `out`. */
static int were_joined(PyObject *arrays, int64_t n, PyArrayObject *out) {
    Work work;
    const int64_t n_bytes = PyArray_NBYTES(out);
    work.n_joined = PyList_GET_SIZE(arrays);
    if (n < 1 || work.n_joined > MOST_JOINED) return 0;
    work.width = 0;
    work.out = PyArray_BYTES(out);
    for (int64_t k = 0; k < work.n_joined; k++) {
        PyArrayObject *x = (PyArrayObject *)PyList_GET_ITEM(arrays, k);
        if (!is_plain((PyObject *)x) || !are_alike(x, out) || PyArray_NBYTES(x) % n) return 0;
        work.joined[k] = PyArray_BYTES(x);
        work.width += work.widths[k] = PyArray_NBYTES(x) / n;
    }
    if (work.width * n != n_bytes || !n_bytes) return 0;
    const int by_rows = n >= FEW;
    work.run = by_rows ? joining_rows(&work) : join_bytes;
    Py_BEGIN_ALLOW_THREADS
    share(&work, by_rows ? n : n_bytes, n_bytes);
    Py_END_ALLOW_THREADS
    return 1;
}

/* join_into(arrays, axis, out): whether arrays were joined along an axis, one of theirs or a new one, into an array in C
   order that has the shape for it. */
static PyObject *join_into(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 3 || !PyList_CheckExact(args[0]) || !is_target(args[2])) Py_RETURN_FALSE;
    PyArrayObject *out = (PyArrayObject *)args[2];
    const long axis = PyLong_AsLong(args[1]);
    if (axis < 0 || axis >= PyArray_NDIM(out)) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_FALSE;
    }
    return PyBool_FromLong(were_joined(args[0], product(out, 0, (int)axis), out));
}

/* How many axes arrays of one dtype have once they are joined along one, which is new or not, and how long these are; 0
   where they do not fit. */
static int joined_shape(PyObject *arrays, long *axis, int is_new, npy_intp *shape) {
    const Py_ssize_t n = PyList_GET_SIZE(arrays);
    PyArrayObject *first = n ? (PyArrayObject *)PyList_GET_ITEM(arrays, 0) : NULL;
    if (!first || !is_plain((PyObject *)first)) return 0;
    const int n_axes = PyArray_NDIM(first) + is_new;
    if (*axis < 0) *axis += n_axes;
    if (*axis < 0 || *axis >= n_axes || n_axes > NPY_MAXDIMS) return 0;
    for (int a = 0, b = 0; a < n_axes; a++) shape[a] = is_new && a == *axis ? n : PyArray_DIM(first, b++);
    for (Py_ssize_t k = 1; k < n; k++) {
        PyArrayObject *x = (PyArrayObject *)PyList_GET_ITEM(arrays, k);
        if (!is_plain((PyObject *)x) || !are_alike(x, first) || PyArray_NDIM(x) != PyArray_NDIM(first)) return 0;
        for (int a = 0; a < PyArray_NDIM(x); a++)
            if (PyArray_DIM(x, a) != PyArray_DIM(first, a) && (is_new || a != *axis)) return 0;
        if (!is_new) shape[*axis] += PyArray_DIM(x, *axis);
    }
    return n_axes;
}

/* join(arrays, axis, is_new, most): arrays in C order joined along an axis; the shape, where that is more than so many
   elements; None where they are not in C order, not of one dtype, or do not fit. */
static PyObject *join(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
    npy_intp shape[NPY_MAXDIMS + 1];
    if (n_args != 4 || !PyList_CheckExact(args[0]) || !PyLong_CheckExact(args[1])) Py_RETURN_NONE;
    long axis = PyLong_AsLong(args[1]);
    const long long most = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred()) return NULL;
    const int n_axes = joined_shape(args[0], &axis, args[2] == Py_True, shape);
    if (!n_axes) Py_RETURN_NONE;
    if (PyArray_MultiplyList(shape, n_axes) > most) return PyArray_IntTupleFromIntp(n_axes, shape);
    PyArray_Descr *dtype = PyArray_DESCR((PyArrayObject *)PyList_GET_ITEM(args[0], 0));
    Py_INCREF(dtype);
    PyArrayObject *made = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, dtype, n_axes, shape, NULL, NULL, 0, NULL);
    if (!made) return NULL;
    if (!PyArray_SIZE(made) || were_joined(args[0], product(made, 0, (int)axis), made)) return (PyObject *)made;
    Py_DECREF(made);
    Py_RETURN_NONE;
}

/* --- reads by index --------------------------------------------------------------------------- */

#define PLACE(i) (index[i] + (size & (index[i] >> 63)))

/* Units are rows of the result: of each x of `n_rows` rows those at the indices, which are the same for every x. */
static void take_rows(const Work *work, int64_t from, int64_t to) {
    const int64_t size = work->n_rows, *index = work->index;
    uint64_t wrong = 0;
    for (int64_t row = from; row < to;) {
        const int64_t of = row / work->n_read, first = row - of * work->n_read, left = work->n_read - first;
        const int64_t last = first + (left < to - row ? left : to - row), width = work->width;
        const char *x = work->x + of * size * width;
        char *out = work->out + of * work->n_read * width;
#define MOVE(w)                                                  \
    for (int64_t i = first; i < last; i++) {                     \
        const int64_t place = PLACE(i);                          \
        const int is_out = (uint64_t)place >= (uint64_t)size;    \
        wrong |= is_out;                                         \
        memcpy(out + i * (w), x + (is_out ? 0 : place) * (w), w); \
    }
        BY_WIDTH(MOVE, width)
#undef MOVE
        row += last - first;
    }
    if (wrong) __atomic_store_n(&((Work *)work)->wrong, 1, __ATOMIC_RELAXED);
}

/* Units are indices, each for an element of some row of its own x. */
static void take_along_line(const Work *work, int64_t from, int64_t to) {
    const int64_t size = work->n_rows, n_read = work->n_read, *index = work->index, step = size * work->width;
    const char *x = work->x + from / n_read * step;
    char *out = work->out;
    int64_t left = n_read - from % n_read;
    uint64_t wrong = 0;
#define MOVE(w)                                                   \
    for (int64_t i = from; i < to; i++) {                         \
        const int64_t place = PLACE(i);                           \
        const int is_out = (uint64_t)place >= (uint64_t)size;     \
        wrong |= is_out;                                          \
        memcpy(out + i * (w), x + (is_out ? 0 : place) * (w), w); \
        if (--left == 0) left = n_read, x += step;                \
    }
    BY_WIDTH(MOVE, work->width)
#undef MOVE
    if (wrong) __atomic_store_n(&((Work *)work)->wrong, 1, __ATOMIC_RELAXED);
}

/* Units are rows of `inner` indices, each for the element beside it of some row of its own x. */
static void take_along_rows(const Work *work, int64_t from, int64_t to) {
    const int64_t size = work->n_rows, inner = work->inner;
    uint64_t wrong = 0;
    for (int64_t row = from; row < to; row++) {
        const int64_t *index = work->index + row * inner;
        const char *x = work->x + row / work->n_read * size * inner * work->width;
        char *out = work->out + row * inner * work->width;
#define MOVE(w)                                                                \
    for (int64_t i = 0; i < inner; i++) {                                      \
        const int64_t place = PLACE(i);                                        \
        const int is_out = (uint64_t)place >= (uint64_t)size;                  \
        wrong |= is_out;                                                       \
        memcpy(out + i * (w), x + ((is_out ? 0 : place) * inner + i) * (w), w); \
    }
        BY_WIDTH(MOVE, work->width)
#undef MOVE
    }
    if (wrong) __atomic_store_n(&((Work *)work)->wrong, 1, __ATOMIC_RELAXED);
}

/* What both read: x, indices of 64 bits, an axis, and where it goes. */
static int are_read(PyObject *const *args, Py_ssize_t n_args, int *axis) {
    if (n_args != 4 || !is_plain(args[0]) || !is_plain(args[1]) || !is_target(args[3])) return 0;
    PyArrayObject *x = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1], *out = (PyArrayObject *)args[3];
    *axis = (int)PyLong_AsLong(args[2]);
    return *axis >= 0 && *axis < PyArray_NDIM(x) && are_alike(x, out) && PyArray_DESCR(index)->type_num == NPY_INT64 &&
           PyArray_DIM(x, *axis) > 0 && PyArray_SIZE(out) > 0;
}

static PyObject *read_all(Work *work, int64_t n, int64_t n_bytes) {
    work->wrong = 0;
    Py_BEGIN_ALLOW_THREADS
    share(work, n, n_bytes);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(!work->wrong);
}

/* take(x, index, axis, out): whether out = x[..., index, ...] was done; some of it is where an index is out of bounds. */
static PyObject *take(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
    int axis;
    if (!are_read(args, n_args, &axis)) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_FALSE;
    }
    PyArrayObject *x = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1], *out = (PyArrayObject *)args[3];
    Work work = {.run = take_rows, .x = PyArray_BYTES(x), .index = PyArray_DATA(index), .out = PyArray_BYTES(out)};
    const int64_t n_before = product(x, 0, axis);
    work.n_rows = PyArray_DIM(x, axis);
    work.n_read = PyArray_SIZE(index);
    work.width = product(x, axis + 1, PyArray_NDIM(x)) * PyArray_ITEMSIZE(x);
    if (n_before * work.n_read * work.width != PyArray_NBYTES(out)) Py_RETURN_FALSE;
    return read_all(&work, n_before * work.n_read, PyArray_NBYTES(out) + 8 * n_before * work.n_read);
}

/* take_along(x, index, axis, out): the same for `take_along_axis` of shapes that differ along the axis alone. */
static PyObject *take_along(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
    int axis;
    if (!are_read(args, n_args, &axis)) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_FALSE;
    }
    PyArrayObject *x = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1], *out = (PyArrayObject *)args[3];
    const int n_axes = PyArray_NDIM(x);
    if (PyArray_NDIM(index) != n_axes || !PyArray_SAMESHAPE(index, out)) Py_RETURN_FALSE;
    for (int a = 0; a < n_axes; a++)
        if (a != axis && PyArray_DIM(x, a) != PyArray_DIM(index, a)) Py_RETURN_FALSE;
    Work work = {.x = PyArray_BYTES(x), .index = PyArray_DATA(index), .out = PyArray_BYTES(out)};
    work.n_rows = PyArray_DIM(x, axis);
    work.n_read = PyArray_DIM(index, axis);
    work.inner = product(x, axis + 1, n_axes);
    work.run = work.inner == 1 ? take_along_line : take_along_rows;
    work.width = PyArray_ITEMSIZE(x);
    const int64_t n = PyArray_SIZE(index);
    return read_all(&work, n / work.inner, n * (work.width + 8));
}

/* --- additions at indices --------------------------------------------------------------------- */

/* Units are columns: of each row those from..to are added, in the order of the index, to the row of `out` that it says. */
#define ADD(name, T)                                                                \
    static void name(const Work *work, int64_t from, int64_t to) {                  \
        const int64_t size = work->n_rows, *index = work->index, inner = work->inner; \
        const T *rows = (const T *)work->x;                                         \
        if (inner == 1) {                                                           \
            T *out = (T *)work->out;                                                \
            for (int64_t i = 0; i < work->n_read; i++) out[PLACE(i)] += rows[i];    \
            return;                                                                 \
        }                                                                           \
        for (int64_t i = 0; i < work->n_read; i++) {                                \
            T *out = (T *)work->out + PLACE(i) * inner;                             \
            for (int64_t j = from; j < to; j++) out[j] += rows[i * inner + j];      \
        }                                                                           \
    }
ADD(add_floats, float) ADD(add_doubles, double)
ADD(add_1, uint8_t) ADD(add_2, uint16_t) ADD(add_4, uint32_t) ADD(add_8, uint64_t)
#undef ADD

/* The loop that adds numbers of a dtype; NULL: none. Complex numbers are two of them. */
static void (*adding(PyArrayObject *x, int64_t *n_parts))(const Work *, int64_t, int64_t) {
    const int type = PyArray_DESCR(x)->type_num;
    *n_parts = PyTypeNum_ISCOMPLEX(type) ? 2 : 1;
    if (type == NPY_FLOAT || type == NPY_CFLOAT) return add_floats;
    if (type == NPY_DOUBLE || type == NPY_CDOUBLE) return add_doubles;
    if (!PyTypeNum_ISINTEGER(type)) return NULL;
    switch (PyArray_ITEMSIZE(x)) {
    case 1: return add_1;
    case 2: return add_2;
    case 4: return add_4;
    default: return add_8;
    }
}

static int are_in_bounds(const int64_t *index, int64_t n, int64_t size) {
    int64_t least = 0, most = -1;
    for (int64_t i = 0; i < n; i++) {
        least = index[i] < least ? index[i] : least;
        most = index[i] > most ? index[i] : most;
    }
    return least >= -size && most < size;
}

static int are_apart(PyArrayObject *x, PyArrayObject *y) {
    return PyArray_BYTES(x) + PyArray_NBYTES(x) <= PyArray_BYTES(y) || PyArray_BYTES(y) + PyArray_NBYTES(y) <= PyArray_BYTES(x);
}

/* add_at(out, index, rows): whether np.add.at(out, index, rows) was done; nothing is where an index is out of bounds. */
static PyObject *add_at(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 3 || !is_target(args[0]) || !is_plain(args[1]) || !is_plain(args[2])) Py_RETURN_FALSE;
    PyArrayObject *out = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1], *rows = (PyArrayObject *)args[2];
    const int n_axes = PyArray_NDIM(out), n_more = PyArray_NDIM(index);
    if (PyArray_DESCR(index)->type_num != NPY_INT64 || !are_alike(out, rows) || n_axes < 1 ||
        PyArray_NDIM(rows) != n_more + n_axes - 1 || !PyArray_SIZE(out) || !are_apart(out, rows) || !are_apart(out, index))
        Py_RETURN_FALSE;
    for (int a = 0; a < PyArray_NDIM(rows); a++)
        if (PyArray_DIM(rows, a) != (a < n_more ? PyArray_DIM(index, a) : PyArray_DIM(out, a - n_more + 1))) Py_RETURN_FALSE;
    Work work = {.x = PyArray_BYTES(rows), .index = PyArray_DATA(index), .out = PyArray_BYTES(out)};
    int64_t n_parts;
    work.run = adding(out, &n_parts);
    if (!work.run) Py_RETURN_FALSE;
    work.n_rows = PyArray_DIM(out, 0);
    work.n_read = PyArray_SIZE(index);
    work.inner = product(out, 1, n_axes) * n_parts;
    int fits;
    Py_BEGIN_ALLOW_THREADS
    fits = are_in_bounds(work.index, work.n_read, work.n_rows);
    /* short rows are not cut: each core would look at every index for little */
    if (fits) share(&work, work.inner, work.inner < FEW ? 0 : PyArray_NBYTES(rows));
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(fits);
}

/* --- the module ------------------------------------------------------------------------------- */

/* use(share, n): addresses of the function that shares work with threads, and of their number, the caller among them. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_ssize_t address, n;
    if (!PyArg_ParseTuple(args, "nn", &address, &n)) return NULL;
    *(Py_ssize_t *)&share_with_threads = address;
    n_threads_given = (const int64_t *)n;
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef functions[] = {
    {"join", FAST(join)}, {"join_into", FAST(join_into)}, {"take", FAST(take)}, {"take_along", FAST(take_along)}, {"add_at", FAST(add_at)},
    {"use", use, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_moved_rows", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__moved_rows(void) {
    import_array();
    return PyModule_Create(&definition);
}
