/* NumPy's own loops over the elements of one call, and choosing by masks, on several cores.

   A call of `LEAST` elements or more whose operands have the dtypes of a loop of the ufunc is cut into parts; this
   thread and those of `threads.c` take part after part. It is the loops that NumPy would call, without Python's lock, or
   our own of the same bits. Whatever would have to be cast, buffered or copied first is left to NumPy. */

#include "api/session/slots.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "api/eager/ufunc_loops.h"
#include "api/eager/aligned.h"
#include "threads.h"

#define MOST_ARGS 5
#define MOST_AXES 16
#define MOST_THREADS 64
#define PART 8192 /* elements of a part, at least */
#define PARTS 4   /* for each thread: one that is late holds up little */

typedef struct Job {
    void (*run)(const struct Job *, npy_intp part);
    npy_intp n_parts;
    /* a ufunc */
    Loop loop;
    int n_args, n_axes; /* outer axes */
    npy_intp n, n_rows, widths[MOST_ARGS];
    npy_intp inner[MOST_ARGS], lengths[MOST_AXES], steps[MOST_AXES][MOST_ARGS];
    char *at[MOST_ARGS];
    /* a mask of n: what is before each part, the elements it chooses from, their bytes and how far apart they are
       (those it puts to, the same) */
    const npy_uint8 *mask;
    npy_intp *starts, width, step;
    const char *x;
    char *out;
} Job;

/* --- parts ------------------------------------------------------------------------------------ */

static void run_rows(const Job *job, npy_intp first, npy_intp last, npy_intp from, npy_intp to) {
    npy_intp index[MOST_AXES], rest = first, n = to - from;
    char *at[MOST_ARGS], *now[MOST_ARGS];
    npy_intp steps[MOST_ARGS];
    for (int k = 0; k < job->n_args; k++) at[k] = job->at[k] + from * job->inner[k];
    for (int a = job->n_axes - 1; a >= 0; a--) {
        index[a] = rest % job->lengths[a];
        rest /= job->lengths[a];
        for (int k = 0; k < job->n_args; k++) at[k] += index[a] * job->steps[a][k];
    }
    if (job->n_axes == 1 && n == job->n &&
        walk_in_blocks(&job->loop, job->n_args, n, last - first, at, job->inner, job->steps[0], job->widths)) return;
    for (npy_intp row = first; row < last; row++) {
        npy_intp count = n;
        memcpy(now, at, sizeof now);
        memcpy(steps, job->inner, sizeof steps);
        job->loop.run(now, &count, steps, job->loop.data);
        for (int a = job->n_axes - 1; a >= 0; a--) {
            for (int k = 0; k < job->n_args; k++) at[k] += job->steps[a][k];
            if (++index[a] < job->lengths[a]) break;
            for (int k = 0; k < job->n_args; k++) at[k] -= index[a] * job->steps[a][k];
            index[a] = 0;
        }
    }
}

static void run_part(const Job *job, npy_intp part) {
    if (job->n_rows >= job->n_parts)
        run_rows(job, job->n_rows * part / job->n_parts, job->n_rows * (part + 1) / job->n_parts, 0, job->n);
    else
        run_rows(job, 0, job->n_rows, job->n * part / job->n_parts, job->n * (part + 1) / job->n_parts);
}

/* --- threads ---------------------------------------------------------------------------------- */

static ShareParts share_parts; /* of `threads.c` */
static const int64_t *n_threads_given;

static npy_intp n_threads(void) {
    if (!share_parts) return 1;
    const int64_t n = __atomic_load_n(n_threads_given, __ATOMIC_RELAXED);
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}

static void run_all(const Job *job) {
    for (npy_intp part = 0; part < job->n_parts; part++) job->run(job, part);
}

static void take_part(void *given, int64_t part) {
    const Job *job = given;
    if (part < 0) run_all(job);
    else job->run(job, part);
}

/* What calls took of late, by loop, size and threads: two that share a place forget each other. */
enum { KNOWN_TIMES = 1024 };
static struct { unsigned long long kind; Times times; } known[KNOWN_TIMES];
#define FORGET(x) __atomic_store_n(&(x), 0, __ATOMIC_RELAXED)

/* Do all parts, of so many elements together, here or also in other threads. */
static void share(Job *job, npy_intp size) {
    const npy_intp n = n_threads();
    if (n < 2 || job->n_parts < 2) {
        run_all(job);
        return;
    }
    const uintptr_t loop = job->loop.run ? (uintptr_t)job->loop.run : (uintptr_t)job->run;
    const unsigned long long magnitude = 63 - __builtin_clzll((unsigned long long)size | 1);
    const unsigned long long kind = (unsigned long long)loop << 12 ^ magnitude << 6 ^ (unsigned long long)(n % MOST_THREADS);
    const npy_intp at = (npy_intp)((kind * 0x9E3779B97F4A7C15ull) >> 54) % KNOWN_TIMES;
    Times *const times = &known[at].times;
    if (__atomic_exchange_n(&known[at].kind, kind, __ATOMIC_RELAXED) != kind) {
        FORGET(times->alone_ps), FORGET(times->shared_ps);
        FORGET(times->n_calls), FORGET(times->n_alone), FORGET(times->n_shared);
    }
    share_parts(take_part, job, job->n_parts, n, size, times);
}

/* --- calls ------------------------------------------------------------------------------------ */

#define COPY(name, type)                                                                              \
    static void name(char **at, npy_intp const *n, npy_intp const *steps, void *data) {               \
        (void)data;                                                                                   \
        if (steps[0] == sizeof(type) && steps[1] == sizeof(type)) {                                   \
            memcpy(at[1], at[0], *n * sizeof(type));                                                  \
            return;                                                                                   \
        }                                                                                             \
        for (npy_intp i = 0; i < *n; i++)                                                             \
            *(type *)(at[1] + i * steps[1]) = *(const type *)(at[0] + i * steps[0]);                  \
    }
typedef struct { npy_uint64 a, b; } Pair;
COPY(copy_1, npy_uint8) COPY(copy_2, npy_uint16) COPY(copy_4, npy_uint32) COPY(copy_8, npy_uint64)
COPY(copy_16, Pair)

static PyUFuncGenericFunction copy_of(npy_intp width) {
    switch (width) {
    case 1: return copy_1;
    case 2: return copy_2;
    case 4: return copy_4;
    case 8: return copy_8;
    case 16: return copy_16;
    default: return NULL;
    }
}

/* Loops of halves of a processor that computes them itself; others compute floats (`functions.c`). The bits are the
   same: each result is rounded once, and a float has more than twice their digits. */
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define HAS_HALVES (getauxval(AT_HWCAP) >> 10 & 1) /* ASIMDHP */
#define HALF_LOOP __attribute__((target("arch=armv8.2-a+fp16")))
typedef _Float16 Half;

#define HALVES(name, Out, how)                                                                        \
    HALF_LOOP static void name(char **at, npy_intp const *count, npy_intp const *steps, void *data) { \
        (void)data;                                                                                   \
        const npy_intp n = *count, p = steps[0], q = steps[1], r = steps[2];                          \
        const Half *x = (const Half *)at[0], *y = (const Half *)at[1];                                \
        Out *o = (Out *)at[2];                                                                        \
        if (p == sizeof(Half) && q == sizeof(Half) && r == sizeof(Out)) {                             \
            HALVES_OVER(x[i], y[i], o[i], how)                                     \
        } else if (p == sizeof(Half) && q == 0 && r == sizeof(Out)) {                                 \
            const Half one = *y;                                                                      \
            HALVES_OVER(x[i], one, o[i], how)                                      \
        } else {                                                                                      \
            HALVES_OVER(*(const Half *)(at[0] + i * p), *(const Half *)(at[1] + i * q),               \
                        *(Out *)(at[2] + i * r), how)                                                 \
        }                                                                                             \
    }
#define HALVES_OVER(first, second, out, how)                                                          \
    _Pragma("GCC ivdep") for (npy_intp i = 0; i < n; i++) {                                           \
        const Half a = first, b = second;                                                             \
        out = how;                                                                                    \
    }
HALVES(half_add, Half, a + b)
HALVES(half_subtract, Half, a - b)
HALVES(half_multiply, Half, a * b)
HALVES(half_divide, Half, a / b)
HALVES(half_less, npy_bool, a < b)
HALVES(half_less_equal, npy_bool, a <= b)
HALVES(half_greater, npy_bool, a > b)
HALVES(half_greater_equal, npy_bool, a >= b)
HALVES(half_equal, npy_bool, a == b)
HALVES(half_not_equal, npy_bool, a != b)

static const struct { const char *name; PyUFuncGenericFunction loop; } half_loops[] = {
    {"add", half_add}, {"subtract", half_subtract}, {"multiply", half_multiply}, {"divide", half_divide},
    {"less", half_less}, {"less_equal", half_less_equal}, {"greater", half_greater},
    {"greater_equal", half_greater_equal}, {"equal", half_equal}, {"not_equal", half_not_equal},
};

static PyUFuncGenericFunction own_loop(const PyUFuncObject *ufunc, int type) {
    if (ufunc->nin != 2 || type != NPY_HALF || !HAS_HALVES) return NULL;
    for (size_t i = 0; i < sizeof half_loops / sizeof *half_loops; i++)
        if (!strcmp(ufunc->name, half_loops[i].name)) return half_loops[i].loop;
    return NULL;
}
#else
static PyUFuncGenericFunction own_loop(const PyUFuncObject *Py_UNUSED(ufunc), int Py_UNUSED(type)) { return NULL; }
#endif

/* The loop for operands that is worth several threads, or has one of ours in its place. */
static Loop loop_over(PyUFuncObject *ufunc, PyArrayObject *const *ins, int n_in) {
    int types[MOST_ARGS];
    if (n_in != ufunc->nin || n_in > MOST_ARGS - 1) return (Loop){NULL, NULL, 0, 0, 0};
    for (int k = 0; k < n_in; k++) types[k] = array_type(ins[k]);
    Loop found = find_loop(ufunc, types);
    if (n_threads() < 2 && !found.is_ours && !is_half(types[0])) return (Loop){NULL, NULL, 0, 0, 0};
    PyUFuncGenericFunction own = found.run && (n_in < 2 || types[1] == types[0]) ? own_loop(ufunc, types[0]) : NULL;
    if (own) found.run = own, found.data = NULL;
    return found;
}

/* Whether an operand is the very elements of the output, or has none of them. */
static int is_apart(PyArrayObject *x, PyArrayObject *out) {
    if (are_apart(x, out)) return 1;
    int ndim = PyArray_NDIM(x);
    return PyArray_BYTES(x) == PyArray_BYTES(out) && ndim == PyArray_NDIM(out) &&
           !memcmp(PyArray_SHAPE(x), PyArray_SHAPE(out), ndim * sizeof(npy_intp)) &&
           !memcmp(PyArray_STRIDES(x), PyArray_STRIDES(out), ndim * sizeof(npy_intp)) &&
           PyArray_ITEMSIZE(x) == PyArray_ITEMSIZE(out);
}

/* Parts of so many elements: as many for each thread, or one thread would be waited for. */
static npy_intp parts_for(npy_intp size) {
    const npy_intp most = n_threads(), n = size / PART;
    if (n >= PARTS * most) return PARTS * most;
    return n < 1 ? 1 : n <= most ? n : (n + most - 1) / most * most;
}

/* Fill in how operands and the output are walked; 0 where NumPy has to look. */
static int laid_out(Job *work, PyArrayObject *const *ins, int n_in, PyArrayObject *out) {
    int ndim = PyArray_NDIM(out);
    if (ndim > MOST_AXES || !PyArray_ISBEHAVED(out)) return 0;
    work->n_args = n_in + 1;
    npy_intp lengths[MOST_AXES], steps[MOST_AXES][MOST_ARGS];
    int n = 0;
    for (int a = 0; a < ndim; a++) {
        if (PyArray_DIM(out, a) == 1) continue;
        if (!PyArray_STRIDE(out, a)) return 0;
        lengths[n] = PyArray_DIM(out, a);
        steps[n++][n_in] = PyArray_STRIDE(out, a);
    }
    for (int k = 0; k < n_in; k++) {
        PyArrayObject *x = ins[k];
        int less = ndim - PyArray_NDIM(x), m = 0;
        if (less < 0 || !PyArray_ISBEHAVED_RO(x) || !is_apart(x, out)) return 0;
        for (int a = 0; a < ndim; a++) {
            npy_intp length = PyArray_DIM(out, a), own = a < less ? 1 : PyArray_DIM(x, a - less);
            if (own != length && own != 1) return 0;
            if (length != 1) steps[m++][k] = own == 1 ? 0 : PyArray_STRIDE(x, a - less);
        }
        work->at[k] = PyArray_BYTES(x), work->widths[k] = PyArray_ITEMSIZE(x);
    }
    work->at[n_in] = PyArray_BYTES(out), work->widths[n_in] = PyArray_ITEMSIZE(out);
    for (int a = 1; a < n; a++) /* the output in the order of its memory */
        for (int b = a; b > 0 && labs(steps[b - 1][n_in]) < labs(steps[b][n_in]); b--)
            for (int k = -1; k <= n_in; k++) {
                npy_intp *p = k < 0 ? &lengths[b] : &steps[b][k], *q = k < 0 ? &lengths[b - 1] : &steps[b - 1][k], r = *p;
                *p = *q, *q = r;
            }
    int m = 0; /* neighbours of the same strides are one */
    for (int a = 1; a < n; a++) {
        int alike = 1;
        for (int k = 0; k <= n_in; k++) alike = alike && steps[m][k] == steps[a][k] * lengths[a];
        if (alike) lengths[a] *= lengths[m];
        else m++;
        lengths[m] = lengths[a];
        memcpy(steps[m], steps[a], sizeof steps[a]);
    }
    work->n_axes = n ? m : 0;
    work->n = n ? lengths[m] : 1;
    work->n_rows = 1;
    for (int a = 0; a < work->n_axes; a++) {
        work->lengths[a] = lengths[a];
        work->n_rows *= lengths[a];
        memcpy(work->steps[a], steps[a], sizeof steps[a]);
    }
    if (n) memcpy(work->inner, steps[m], sizeof steps[m]);
    else memset(work->inner, 0, sizeof work->inner);
    work->run = run_part;
    work->n_parts = parts_for(work->n * work->n_rows);
    if (work->n_rows < work->n_parts && work->n < work->n_parts) return 0;
    if (work->n >= 16) return 1;
    return work->n_axes == 1 && work->n > 1 && work->inner[n_in] == work->widths[n_in] && !work->loop.by_rows;
}

static int converted(PyObject *const *given, Py_ssize_t n, PyArrayObject **ins) {
    int model = -1;
    for (Py_ssize_t k = 0; k < n; k++)
        if (PyArray_CheckExact(given[k]) && model < 0) model = (int)k;
    if (model < 0 || n > MOST_ARGS - 1) return 0;
    PyArray_Descr *like = PyArray_DESCR((PyArrayObject *)given[model]);
    for (Py_ssize_t k = 0; k < n; k++) ins[k] = NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = given[k];
        PyArrayObject *made = NULL;
        int is_real = like->type_num == NPY_DOUBLE || like->type_num == NPY_CDOUBLE ||
                      ((like->type_num == NPY_FLOAT || like->type_num == NPY_CFLOAT) &&
                       PyFloat_CheckExact(x) && fabs(PyFloat_AS_DOUBLE(x)) < 1e30) || /* overflows are NumPy's to report */
                      (is_half(like->type_num) && PyFloat_CheckExact(x) && fabs(PyFloat_AS_DOUBLE(x)) < 6e4);
        int weak = (PyFloat_CheckExact(x) && is_real) ||
                   (PyLong_CheckExact(x) && (PyTypeNum_ISINTEGER(like->type_num) || is_real));
        if (PyArray_CheckExact(x)) {
            Py_INCREF(x);
            made = (PyArrayObject *)x;
        } else if (weak) { /* in the dtype of the other, as NumPy takes numbers of Python's */
            Py_INCREF(like);
            made = (PyArrayObject *)PyArray_FromAny(x, like, 0, 0, NPY_ARRAY_DEFAULT, NULL);
            if (!made) PyErr_Clear(); /* one that does not fit is NumPy's error */
        } else if (PyArray_CheckScalar(x) && !PyArray_Check(x)) {
            made = (PyArrayObject *)PyArray_FromScalar(x, NULL);
        }
        if (!(ins[k] = made)) {
            for (Py_ssize_t j = 0; j < k; j++) Py_CLEAR(ins[j]);
            return 0;
        }
    }
    return 1;
}

static int run_call(PyObject *what, PyArrayObject *const *ins, int n_in, PyArrayObject *out) {
    Job work;
    int is_ours = 0; /* worth its call in one part, too */
    if (what == Py_None) {
        work.loop = (Loop){n_in == 1 && PyArray_EquivTypes(PyArray_DESCR(ins[0]), PyArray_DESCR(out)) &&
                           !PyDataType_REFCHK(PyArray_DESCR(out)) ? copy_of(PyArray_ITEMSIZE(out)) : NULL, NULL, 0, 1, 0};
    } else {
        PyUFuncObject *ufunc = (PyUFuncObject *)what;
        work.loop = loop_over(ufunc, ins, n_in);
        if (work.loop.made != array_type(out)) return 0;
        is_ours = work.loop.is_ours || is_half(array_type(ins[0]));
    }
    if (!work.loop.run || !laid_out(&work, ins, n_in, out)) return 0;
    if (!is_ours && (work.n_parts < 2 || n_threads() < 2)) return 0;
    Py_BEGIN_ALLOW_THREADS
    share(&work, work.n * work.n_rows);
    Py_END_ALLOW_THREADS
    return 1;
}

/* A new array for the result, or NULL: without an error where NumPy has to make it. */
static PyArrayObject *blank(PyUFuncObject *ufunc, PyArrayObject *const *ins, int n_in) {
    Loop found = loop_over(ufunc, ins, n_in);
    int ndim = 0;
    if (!found.run) return NULL;
    npy_intp shape[NPY_MAXDIMS];
    for (int k = 0; k < n_in; k++)
        if (PyArray_NDIM(ins[k]) > ndim) ndim = PyArray_NDIM(ins[k]);
    for (int a = 0; a < ndim; a++) {
        shape[a] = 1;
        for (int k = 0; k < n_in; k++) {
            int own = a - (ndim - PyArray_NDIM(ins[k]));
            npy_intp n = own < 0 ? 1 : PyArray_DIM(ins[k], own);
            if (n != 1 && shape[a] != 1 && n != shape[a]) return NULL;
            if (n != 1) shape[a] = n;
        }
    }
    return (PyArrayObject *)PyArray_EMPTY(ndim, shape, found.made, 0);
}

static int is_ufunc(PyObject *what) { return PyObject_TypeCheck(what, &PyUFunc_Type); }

/* into(ufunc or None, out, *ins): whether out[...] = ufunc(*ins), or a copy, was done. */
static PyObject *into(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    PyArrayObject *ins[MOST_ARGS];
    if (n < 3 || !PyArray_CheckExact(args[1]) || !(args[0] == Py_None || is_ufunc(args[0])) ||
        !converted(args + 2, n - 2, ins))
        Py_RETURN_FALSE;
    int done = run_call(args[0], ins, (int)n - 2, (PyArrayObject *)args[1]);
    for (Py_ssize_t k = 0; k < n - 2; k++) Py_DECREF(ins[k]);
    return PyBool_FromLong(done);
}

/* compute(ufunc, *ins): a new array in C order, or None. */
static PyObject *compute(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    PyArrayObject *ins[MOST_ARGS];
    if (n < 2 || !is_ufunc(args[0]) || !converted(args + 1, n - 1, ins)) Py_RETURN_NONE;
    PyArrayObject *out = blank((PyUFuncObject *)args[0], ins, (int)n - 1);
    int done = out && run_call(args[0], ins, (int)n - 1, out);
    for (Py_ssize_t k = 0; k < n - 1; k++) Py_DECREF(ins[k]);
    if (!done) Py_CLEAR(out);
    if (PyErr_Occurred()) return NULL;
    if (!out) Py_RETURN_NONE;
    return (PyObject *)out;
}

/* --- masks ------------------------------------------------------------------------------------ */

#define MOST_PARTS 64
#define FIRST(job, part) ((job)->n * (part) / (job)->n_parts)
#define ALL UINT64_C(0x0101010101010101)

static npy_uint64 eight(const npy_uint8 *mask) {
    npy_uint64 word;
    memcpy(&word, mask, 8);
    return word;
}

/* Bytes that are 1 among n: lanes of bytes, emptied before they are full. */
static npy_intp ones(const npy_uint8 *mask, npy_intp n) {
    npy_intp count = 0, i = 0;
    while (i + 16 <= n) {
        npy_uint8 lanes[16] = {0};
        npy_intp end = i + 255 * 16 < n ? i + 255 * 16 : n;
        for (; i + 16 <= end; i += 16)
            for (int j = 0; j < 16; j++) lanes[j] += mask[i + j];
        for (int j = 0; j < 16; j++) count += lanes[j];
    }
    for (; i < n; i++) count += mask[i];
    return count;
}

static void count_part(const Job *job, npy_intp part) {
    npy_intp first = FIRST(job, part);
    job->starts[part + 1] = ones(job->mask + first, FIRST(job, part + 1) - first);
}

/* Whether 32 entries are none or all: 0 or 1, else -1. */
static int alike(const npy_uint8 *mask) {
    const npy_uint64 a = eight(mask), b = eight(mask + 8), c = eight(mask + 16), d = eight(mask + 24);
    return !(a | b | c | d) ? 0 : (a & b & c & d) == ALL ? 1 : -1;
}

/* 32 entries at a time, then eight: none, all or some of them. An element is written where the next will be, so not
   behind the last of a part, which is another's. */
#define CHOOSE(name, type)                                                                                  \
    static void name(const Job *job, npy_intp part) {                                                       \
        const npy_uint8 *mask = job->mask;                                                                  \
        const type *x = (const type *)job->x;                                                               \
        type *out = (type *)job->out + job->starts[part];                                                   \
        npy_intp i = FIRST(job, part), end = FIRST(job, part + 1), k = 0;                                   \
        const npy_intp count = job->starts[part + 1] - job->starts[part];                                   \
        while (k < count && i + 32 <= end) {                                                                \
            const int all = alike(mask + i);                                                                \
            if (all == 1) {                                                                                 \
                memcpy(out + k, x + i, 32 * sizeof(type));                                                  \
                k += 32;                                                                                    \
            }                                                                                               \
            for (int part_of = 0; all < 0 && part_of < 32; part_of += 8) {                                  \
                const npy_uint64 word = eight(mask + i + part_of);                                          \
                const npy_uint8 *in = mask + i + part_of;                                                   \
                const type *from = x + i + part_of;                                                         \
                if (word == ALL) {                                                                          \
                    memcpy(out + k, from, 8 * sizeof(type));                                                \
                    k += 8;                                                                                 \
                } else if (word && k + 8 <= count) {                                                        \
                    for (int j = 0; j < 8; j++) {                                                           \
                        out[k] = from[j];                                                                   \
                        k += in[j];                                                                         \
                    }                                                                                       \
                } else if (word) {                                                                          \
                    for (int j = 0; j < 8; j++)                                                             \
                        if (in[j]) out[k++] = from[j];                                                      \
                }                                                                                           \
            }                                                                                               \
            i += 32;                                                                                        \
        }                                                                                                   \
        for (; k < count; i++)                                                                              \
            if (mask[i]) out[k++] = x[i];                                                                   \
    }
CHOOSE(choose_1, npy_uint8) CHOOSE(choose_2, npy_uint16) CHOOSE(choose_4, npy_uint32)
CHOOSE(choose_8, npy_uint64) CHOOSE(choose_16, Pair)

static void choose_rows(const Job *job, npy_intp part) {
    npy_intp i = FIRST(job, part), k = job->starts[part];
    for (; k < job->starts[part + 1]; i++)
        if (job->mask[i]) memcpy(job->out + k++ * job->width, job->x + i * job->step, job->width);
}

/* From elements that are apart; and the values in turn, or one number, to where the mask is: each entry by `does`, with
   32 at a time passed over where there are none. */
#define WALK(does)                                                                                          \
    const npy_intp end = FIRST(job, part + 1), last = job->starts[part + 1];                                \
    for (npy_intp i = FIRST(job, part), k = job->starts[part]; i < end && k < last;) {                      \
        const npy_intp stop = i + 32 <= end ? i + 32 : end;                                                 \
        if (stop == i + 32 && !alike(job->mask + i)) i = stop;                                              \
        for (; i < stop; i++)                                                                               \
            if (job->mask[i]) does;                                                                         \
    }
#define MOVE(name, type)                                                                                    \
    static void choose_far_##name(const Job *job, npy_intp part) {                                          \
        type *out = (type *)job->out;                                                                       \
        WALK(out[k++] = *(const type *)(job->x + i * job->step))                                            \
    }                                                                                                       \
    static void put_##name(const Job *job, npy_intp part) {                                                 \
        const type *x = (const type *)job->x;                                                               \
        WALK(*(type *)(job->out + i * job->step) = x[k++ * job->inner[0]])                                  \
    }
MOVE(1, npy_uint8) MOVE(2, npy_uint16) MOVE(4, npy_uint32) MOVE(8, npy_uint64) MOVE(16, Pair)

#define BY_WIDTH(how, width, other)                                                                         \
    ((width) == 1 ? how##1 : (width) == 2 ? how##2 : (width) == 4 ? how##4 : (width) == 8 ? how##8 :        \
     (width) == 16 ? how##16 : other)

static int is_mask(PyObject *x) {
    return PyArray_CheckExact(x) && array_type((PyArrayObject *)x) == NPY_BOOL && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)x);
}

/* Count the parts of a mask: how many there are before each of them, and in all. */
static npy_intp count_parts(Job *work, PyArrayObject *mask, npy_intp *starts) {
    work->mask = (const npy_uint8 *)PyArray_DATA(mask);
    work->n = PyArray_SIZE(mask);
    work->loop.run = NULL;
    work->starts = starts;
    work->run = count_part;
    work->n_parts = parts_for(work->n);
    if (work->n_parts > MOST_PARTS) work->n_parts = MOST_PARTS;
    if (work->n_parts < 1) work->n_parts = 1;
    starts[0] = 0;
    share(work, work->n);
    for (npy_intp part = 0; part < work->n_parts; part++) starts[part + 1] += starts[part];
    return starts[work->n_parts];
}

/* count(mask): entries of a mask in C order; -1 of anything else. */
static PyObject *count(PyObject *Py_UNUSED(module), PyObject *mask) {
    Job work;
    npy_intp starts[MOST_PARTS + 1], found = -1;
    if (is_mask(mask)) {
        Py_BEGIN_ALLOW_THREADS
        found = count_parts(&work, (PyArrayObject *)mask, starts);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromSsize_t(found);
}

/* How far apart the elements are that a mask of so many is over, in bytes; 0 where they are not evenly so. */
static npy_intp step_of(PyArrayObject *x, PyArrayObject *mask) {
    if (PyArray_IS_C_CONTIGUOUS(x)) return PyArray_SIZE(x) / PyArray_SIZE(mask) * PyArray_ITEMSIZE(x);
    return PyArray_NDIM(x) == 1 && PyArray_SIZE(x) == PyArray_SIZE(mask) ? PyArray_STRIDE(x, 0) : 0;
}

/* choose(mask, x, out): whether out[...] = x[mask] was done: of as many as the mask has; mask and out in C order, x too
   or a vector. */
static PyObject *choose(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !is_mask(args[0]) || !PyArray_CheckExact(args[1]) || !PyArray_CheckExact(args[2])) Py_RETURN_FALSE;
    PyArrayObject *mask = (PyArrayObject *)args[0], *x = (PyArrayObject *)args[1], *out = (PyArrayObject *)args[2];
    npy_intp size = PyArray_SIZE(mask), starts[MOST_PARTS + 1];
    if (!size || PyArray_SIZE(x) % size || !PyArray_IS_C_CONTIGUOUS(out) || !PyArray_ISBEHAVED(out) ||
        !PyArray_ISBEHAVED_RO(x) || array_type(x) != array_type(out) || PyDataType_REFCHK(PyArray_DESCR(x)))
        Py_RETURN_FALSE;
    Job work;
    work.width = PyArray_SIZE(x) / size * PyArray_ITEMSIZE(x);
    work.step = step_of(x, mask);
    work.x = PyArray_BYTES(x);
    work.out = PyArray_BYTES(out);
    if (!work.width || !work.step) Py_RETURN_FALSE;
    int fits;
    Py_BEGIN_ALLOW_THREADS
    fits = count_parts(&work, mask, starts) * work.width == PyArray_NBYTES(out);
    work.run = work.step == work.width ? BY_WIDTH(choose_, work.width, choose_rows)
                                       : BY_WIDTH(choose_far_, work.width, choose_rows);
    if (fits) share(&work, work.n);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(fits);
}

/* put(mask, out, x): whether out[mask] = x was done: x is a vector of as many as the mask has, or one number. */
static PyObject *put(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !is_mask(args[0]) || !PyArray_CheckExact(args[1]) || !PyArray_CheckExact(args[2])) Py_RETURN_FALSE;
    PyArrayObject *mask = (PyArrayObject *)args[0], *out = (PyArrayObject *)args[1], *x = (PyArrayObject *)args[2];
    npy_intp size = PyArray_SIZE(mask), starts[MOST_PARTS + 1], wanted = PyArray_SIZE(x);
    char *low, *high, *from, *to;
    extent(x, &low, &high), extent(out, &from, &to);
    if (!size || PyArray_SIZE(out) != size || !PyArray_ISBEHAVED(out) || !PyArray_ISBEHAVED_RO(x) ||
        PyArray_NDIM(x) > 1 || !PyArray_IS_C_CONTIGUOUS(x) || array_type(x) != array_type(out) ||
        PyDataType_REFCHK(PyArray_DESCR(x)) || (low < to && from < high))
        Py_RETURN_FALSE;
    Job work;
    work.width = PyArray_ITEMSIZE(out);
    work.step = step_of(out, mask);
    work.inner[0] = PyArray_NDIM(x) == 1;
    work.x = PyArray_BYTES(x);
    work.out = PyArray_BYTES(out);
    void (*run)(const Job *, npy_intp) = BY_WIDTH(put_, work.width, NULL);
    if (!run || !work.step) Py_RETURN_FALSE;
    int fits;
    Py_BEGIN_ALLOW_THREADS
    npy_intp found = count_parts(&work, mask, starts);
    fits = !work.inner[0] || found == wanted;
    work.run = run;
    if (fits) share(&work, work.n);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(fits);
}

/* use(share, n, own_loops, bfloat16): addresses of the function that shares parts with threads, of their number, the
   caller among them, and of the one that finds our loops; the number of a dtype. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_ssize_t share, n, own_loops;
    if (!PyArg_ParseTuple(args, "nnni", &share, &n, &own_loops, &bfloat16_type)) return NULL;
    *(Py_ssize_t *)&find_own_loop = own_loops;
    *(Py_ssize_t *)&share_parts = share;
    n_threads_given = (const int64_t *)n;
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef functions[] = {
    {"into", FAST(into)}, {"compute", FAST(compute)}, {"choose", FAST(choose)}, {"put", FAST(put)},
    {"count", count, METH_O, NULL}, {"use", use, METH_VARARGS, NULL},
    {"align_arrays", align_arrays, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_numpy_loops", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__numpy_loops(void) {
    import_array();
    import_umath();
    return PyModule_Create(&definition);
}
