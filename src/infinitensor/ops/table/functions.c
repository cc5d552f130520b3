/* NumPy's ufuncs of functions such as exp, with the loops over blocks that generated code calls: the same bits whether
   a group runs step by step or compiled.

   `like(ufunc, name, number)` is a copy of a ufunc whose loops of float32 and float64 are those of `vector.h` by this
   name, and those of complex numbers for what has one; float16, and bfloat16 (the number of its dtype), are computed in
   float32 and rounded once. All other loops, the dtype rules and the words of errors are NumPy's.

   `own_loops()` is the address of a function that knows our loop of a ufunc for what NumPy takes one by one: halves, of
   those above and of arithmetic and comparisons (`half_words.h`); integers that one number divides; signs. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tasking/c/polynomials.h"
#include "tasking/c/vector.h"
#include "tasking/c/blocks.h"
#ifdef __x86_64__ /* the same once more, for processors with registers of 64 bytes */
#undef BLOCK_NAME
#undef BLOCK_WIDTH
#define BLOCK_NAME(name) wide_##name
#define BLOCK_WIDTH __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl" PREFER_WIDE)))
#ifdef __clang__
#define PREFER_WIDE
#else
#define PREFER_WIDE ",prefer-vector-width=512"
#endif
#include "tasking/c/blocks.h"
#endif

#define LINES(T)
#define HALVES_AS_FLOATS
#include "tasking/c/halves.h"
#include "tasking/c/complex.h"
#include "tasking/c/division.h"

#define BLOCK 1024

/* --- loops ------------------------------------------------------------------------------------ */

/* Up to BLOCK elements of an operand side by side: where they are, unless they are apart, have another type, or are
   where the result goes: functions read an operand again after they have written. */
#define GATHERED(name, from, to, value)                                                             \
    static const to *name(const char *at, npy_intp step, npy_intp n, const char *out, to *into) {   \
        if (sizeof(from) == sizeof(to) && step == sizeof(to) && at != out) return (const to *)at;   \
        for (npy_intp i = 0; i < n; i++) {                                                          \
            const from x = *(const from *)(at + i * step);                                          \
            into[i] = value;                                                                        \
        }                                                                                           \
        return into;                                                                                \
    }
#define SCATTERED(name, from, to, value)                                                            \
    static void name(const from *made, char *at, npy_intp step, npy_intp n) {                       \
        for (npy_intp i = 0; i < n; i++) {                                                          \
            const from x = made[i];                                                                 \
            *(to *)(at + i * step) = value;                                                         \
        }                                                                                           \
    }
GATHERED(gather_f64, double, double, x) SCATTERED(scatter_f64, double, double, x)
GATHERED(gather_f32, float, float, x) SCATTERED(scatter_f32, float, float, x)
GATHERED(gather_c128, complex128, complex128, x) SCATTERED(scatter_c128, complex128, complex128, x)
GATHERED(gather_c64, complex64, complex64, x) SCATTERED(scatter_c64, complex64, complex64, x)

/* Halves side by side, as floats and back, as many at a time as the processor converts; then those that are left. */
static void widen_f16(const float16 *from, float *to, npy_intp n) {
    npy_intp i = 0;
#ifdef CONVERTS_HALVES
    for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE) read_halves(from + i, to + i);
    for (; i < n; i++) to[i] = _cvtsh_ss(from[i]);
#endif
    for (; i < n; i++) to[i] = read_float16(from[i]);
}
static void narrow_f16(const float *from, float16 *to, npy_intp n) {
    npy_intp i = 0;
#ifdef CONVERTS_HALVES
    for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE) write_halves(from + i, to + i);
    for (; i < n; i++) to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
#endif
    for (; i < n; i++) to[i] = written_float16(rounded_float16(from[i]));
}
static void widen_b16(const bfloat16 *from, float *to, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) to[i] = read_bfloat16(from[i]);
}
static void narrow_b16(const float *from, bfloat16 *to, npy_intp n) {
    for (npy_intp i = 0; i < n; i++) to[i] = written_bfloat16(rounded_bfloat16(from[i]));
}

#include "ops/table/half_words.h"

/* The same of halves that are anywhere: those apart are brought together, and one number is converted once. */
#define OF_HALVES(kind)                                                                             \
    static const float *gather_##kind(const char *at, npy_intp step, npy_intp n, const char *out, float *into) { \
        uint16_t block[BLOCK];                                                                      \
        (void)out;                                                                                  \
        if (step == 2) {                                                                            \
            widen_##kind((const uint16_t *)at, into, n);                                            \
        } else if (step == 0) {                                                                     \
            widen_##kind((const uint16_t *)at, into, 1);                                            \
            for (npy_intp i = 1; i < n; i++) into[i] = into[0];                                     \
        } else {                                                                                    \
            for (npy_intp i = 0; i < n; i++) block[i] = *(const uint16_t *)(at + i * step);         \
            widen_##kind(block, into, n);                                                           \
        }                                                                                           \
        return into;                                                                                \
    }                                                                                               \
    static void scatter_##kind(const float *made, char *at, npy_intp step, npy_intp n) {            \
        uint16_t block[BLOCK];                                                                      \
        narrow_##kind(made, step == 2 ? (uint16_t *)at : block, n);                                 \
        for (npy_intp i = 0; step != 2 && i < n; i++) *(uint16_t *)(at + i * step) = block[i];      \
    }
OF_HALVES(f16)
OF_HALVES(b16)

typedef struct {
    const char *name;
    int n_args;
    void *f32, *f64;  /* NULL: NumPy's */
    void *c64, *c128; /* of complex numbers */
    int of_parts;     /* what those take are real and imaginary parts, and they make reals */
} Function;

#define LOOP(kind, T, width, function)                                                              \
    static void loop_##kind(char **at, npy_intp const *n, npy_intp const *steps, void *data) {      \
        const Function *f = data;                                                                   \
        T given[2][BLOCK], made[BLOCK];                                                             \
        for (npy_intp i = 0; i < *n; i += BLOCK) {                                                  \
            const npy_intp m = *n - i < BLOCK ? *n - i : BLOCK;                                     \
            const T *in[2] = {NULL, NULL};                                                          \
            char *out = at[f->n_args] + i * steps[f->n_args];                                       \
            for (int k = 0; k < f->n_args; k++)                                                     \
                in[k] = gather_##kind(at[k] + i * steps[k], steps[k], m, out, given[k]);            \
            const int is_there = width == sizeof(T) && steps[f->n_args] == sizeof(T);               \
            T *into = is_there ? (T *)out : made;                                                   \
            if (f->n_args == 1) ((void (*)(const T *, T *, int64_t))f->function)(in[0], into, m);   \
            else ((void (*)(const T *, const T *, T *, int64_t))f->function)(in[0], in[1], into, m); \
            if (!is_there) scatter_##kind(made, out, steps[f->n_args], m);                          \
        }                                                                                           \
    }
LOOP(f64, double, 8, f64)
LOOP(f32, float, 4, f32)
LOOP(f16, float, 2, f32)
LOOP(b16, float, 2, f32)
LOOP(c128, complex128, 16, c128)
LOOP(c64, complex64, 8, c64)

/* The sizes of complex numbers, as generated code has them: of their parts. */
#define SIZES(kind, C, T, real)                                                                     \
    static void size_##kind(char **at, npy_intp const *n, npy_intp const *steps, void *data) {      \
        const Function *f = data;                                                                   \
        T x[BLOCK], y[BLOCK], made[BLOCK];                                                          \
        for (npy_intp i = 0; i < *n; i += BLOCK) {                                                  \
            const npy_intp m = *n - i < BLOCK ? *n - i : BLOCK, step = steps[0];                    \
            const char *in = at[0] + i * step;                                                      \
            char *out = at[1] + i * steps[1];                                                       \
            T *into = steps[1] == sizeof(T) && out != in ? (T *)out : made;                         \
            if (step == sizeof(C))                                                                  \
                for (npy_intp j = 0; j < m; j++) x[j] = ((const T *)in)[2 * j], y[j] = ((const T *)in)[2 * j + 1]; \
            else                                                                                    \
                for (npy_intp j = 0; j < m; j++)                                                    \
                    x[j] = ((const T *)(in + j * step))[0], y[j] = ((const T *)(in + j * step))[1]; \
            ((void (*)(const T *, const T *, T *, int64_t))f->kind)(x, y, into, m);                 \
            if (into == made) scatter_##real(made, out, steps[1], m);                               \
        }                                                                                           \
    }
SIZES(c64, complex64, float, f32)
SIZES(c128, complex128, double, f64)

/* Up to BLOCK halves, or truth values, side by side; and to where they belong. */
static void gather_apart(const char *at, npy_intp step, npy_intp n, uint16_t *into) {
    for (npy_intp i = 0; i < n; i++) into[i] = *(const uint16_t *)(at + i * step);
}
static void scatter_apart(const void *made, int is_truth, char *at, npy_intp step, npy_intp n) {
    if (is_truth)
        for (npy_intp i = 0; i < n; i++) at[i * step] = ((const char *)made)[i];
    else
        for (npy_intp i = 0; i < n; i++) *(uint16_t *)(at + i * step) = ((const uint16_t *)made)[i];
}

#define WORD_LOOP(kind)                                                                             \
    static void word_##kind(char **at, npy_intp const *count, npy_intp const *steps, void *data) {  \
        const HalfWord *word = data;                                                                \
        const npy_intp n = *count, step = steps[word->n_args];                                      \
        const int is_there = step == (word->is_truth ? 1 : 2);                                      \
        uint16_t given[2][BLOCK], made[BLOCK];                                                      \
        for (npy_intp i = 0; i < n; i += BLOCK) {                                                   \
            const npy_intp m = n - i < BLOCK ? n - i : BLOCK;                                       \
            const uint16_t *in[2];                                                                  \
            char *out = at[word->n_args] + i * step;                                                \
            for (int k = 0; k < word->n_args; k++) {                                                \
                in[k] = steps[k] == 2 ? (const uint16_t *)(at[k] + 2 * i) : given[k];               \
                /* one number is there after the first block */                                     \
                if (steps[k] != 2 && (!i || steps[k])) gather_apart(at[k] + i * steps[k], steps[k], m, given[k]); \
            }                                                                                       \
            word->kind(in[0], in[word->n_args - 1], is_there ? (void *)out : made, m);              \
            if (!is_there) scatter_apart(made, word->is_truth, out, step, m);                       \
        }                                                                                           \
    }
WORD_LOOP(f16)
WORD_LOOP(b16)

/* --- integers by one divisor, and signs ------------------------------------------------------- */

typedef struct {
    PyUFuncGenericFunction run;
    void *data;
} Theirs;

/* What NumPy does where there is no such divisor, or it reports something: that is in `data`. */
#define IS_NUMPYS(T)                                                                                \
    (n < 16 || steps[0] != sizeof(T) || steps[1] || steps[2] != sizeof(T) || y == 0 || y == (T)-1)
#define DIVIDED(name, T, all)                                                                       \
    static void numbers_##name##_##T(char **at, npy_intp const *count, npy_intp const *steps, void *data) { \
        const Theirs *numpys = data;                                                                \
        const npy_intp n = *count;                                                                  \
        const T y = n < 1 ? 0 : *(const T *)at[1];                                                  \
        if (IS_NUMPYS(T)) {                                                                         \
            numpys->run(at, count, steps, numpys->data);                                            \
            return;                                                                                 \
        }                                                                                           \
        const inverse_##T by = inverse_of_##T(y);                                                   \
        const T *x = (const T *)at[0];                                                              \
        T *made = (T *)at[2];                                                                       \
        all                                                                                         \
    }
#define ONES(name, T)                                                                               \
    DIVIDED(name, T, _Pragma("GCC ivdep") for (npy_intp i = 0; i < n; i++) made[i] = name##_by_##T(x[i], by);)
/* Blocks are read again where they have long numbers, after something was written. */
#define IN_BLOCKS(name, T)                                                                          \
    DIVIDED(name, T, for (npy_intp i = 0; i < n; i += BLOCK) {                                      \
        const npy_intp m = n - i < BLOCK ? n - i : BLOCK;                                           \
        T apart[BLOCK];                                                                             \
        block_##name##_by_##T(x + i, by, made == x ? apart : made + i, m);                          \
        if (made == x) memcpy(made + i, apart, m * sizeof(T));                                      \
    })
ONES(floor_remainder, int8_t) ONES(floor_remainder, uint8_t)
ONES(floor_remainder, int16_t) ONES(floor_remainder, uint16_t)
ONES(floor_remainder, int32_t) ONES(floor_remainder, uint32_t)
IN_BLOCKS(floor_remainder, int64_t) IN_BLOCKS(floor_remainder, uint64_t)
IN_BLOCKS(floor_divide, int64_t) IN_BLOCKS(floor_divide, uint64_t)

#define SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x) == 0 ? 0 : (x))
#define SIGNS(T)                                                                                    \
    static void signs_##T(char **at, npy_intp const *count, npy_intp const *steps, void *data) {    \
        const npy_intp n = *count, step = steps[0], to = steps[1];                                  \
        const T *x = (const T *)at[0];                                                              \
        T *made = (T *)at[1];                                                                       \
        (void)data;                                                                                 \
        if (step == sizeof(T) && to == sizeof(T)) {                                                 \
            _Pragma("GCC ivdep") for (npy_intp i = 0; i < n; i++) made[i] = SIGN(x[i]);             \
            return;                                                                                 \
        }                                                                                           \
        for (npy_intp i = 0; i < n; i++) {                                                          \
            const T one = *(const T *)(at[0] + i * step);                                           \
            *(T *)(at[1] + i * to) = SIGN(one);                                                     \
        }                                                                                           \
    }
SIGNS(float)
SIGNS(double)

#define OF(of, name, n_args) {#name, n_args, (void *)of##_##name##_f32, (void *)of##_##name##_f64, NULL, NULL, 0}
#define EACH_FUNCTION(of)                                                                            \
    {"exp", 1, (void *)of##_exp_f32, (void *)of##_exp_f64, (void *)of##_exp_c64, (void *)of##_exp_c128, 0}, \
    {"absolute", 1, NULL, NULL, (void *)of##_size_f32, (void *)of##_size_f64, 1},                    \
    OF(of, exp2, 1), OF(of, expm1, 1), OF(of, log, 1), OF(of, log2, 1), OF(of, log10, 1), OF(of, log1p, 1), \
    OF(of, sin, 1), OF(of, cos, 1), OF(of, tan, 1), OF(of, sinh, 1), OF(of, cosh, 1), OF(of, tanh, 1), \
    OF(of, asin, 1), OF(of, acos, 1), OF(of, atan, 1), OF(of, asinh, 1), OF(of, acosh, 1), OF(of, atanh, 1), \
    OF(of, cbrt, 1), OF(of, pow, 2), OF(of, hypot, 2), OF(of, atan2, 2)
static const Function of_every_processor[] = {EACH_FUNCTION(block)};
enum { N_FUNCTIONS = sizeof of_every_processor / sizeof *of_every_processor };
static const Function *functions = of_every_processor;
#ifdef __x86_64__
static const Function of_wide_processors[] = {EACH_FUNCTION(wide)};
#endif

/* --- ufuncs ----------------------------------------------------------------------------------- */

/* Our loop for operands and a result of these dtypes, or NULL. */
static PyUFuncGenericFunction loop_of(const Function *f, const char *types, int n_args) {
    for (int k = 1; k < n_args; k++)
        if (types[k] != types[0]) return NULL;
    const char type = types[0], made = types[n_args];
    if (f->of_parts && type == NPY_CFLOAT && made == NPY_FLOAT) return size_c64;
    if (f->of_parts && type == NPY_CDOUBLE && made == NPY_DOUBLE) return size_c128;
    if (made != type) return NULL;
    switch (type) {
    case NPY_HALF: return f->f32 ? loop_f16 : NULL;
    case NPY_FLOAT: return f->f32 ? loop_f32 : NULL;
    case NPY_DOUBLE: return f->f64 ? loop_f64 : NULL;
    case NPY_CFLOAT: return f->c64 && !f->of_parts ? loop_c64 : NULL;
    case NPY_CDOUBLE: return f->c128 && !f->of_parts ? loop_c128 : NULL;
    default: return NULL;
    }
}

/* What a ufunc is of halves, if it is arithmetic or a comparison. */
static const HalfWord *half_word_of(const PyUFuncObject *ufunc) {
    for (size_t i = 0; i < sizeof half_words / sizeof *half_words; i++) {
        const HalfWord *word = half_words + i;
        if (word->n_args == ufunc->nin && ufunc->nout == 1 && !strcmp(word->name, ufunc->name)) return word;
    }
    return NULL;
}

/* The same for a word of halves. */
static PyUFuncGenericFunction half_loop_of(const HalfWord *word, const char *types, int n_args) {
    for (int k = 0; k < n_args; k++)
        if (types[k] != NPY_HALF) return NULL;
    return types[n_args] == (word->is_truth ? NPY_BOOL : NPY_HALF) ? word_f16 : NULL;
}

/* New: a ufunc with the loops of a function, or of a word of halves, in place of those of its dtypes. It lives as long as the
   process, and so do its tables. */
static PyObject *copied(PyUFuncObject *old, const Function *function, const HalfWord *word) {
    const size_t n = (size_t)old->ntypes, width = (size_t)old->nargs;
    PyUFuncGenericFunction *loops = malloc(n * sizeof *loops);
    void **data = malloc(n * sizeof *data);
    char *types = malloc(n * width);
    if (!loops || !data || !types) return free(loops), free(data), free(types), PyErr_NoMemory();
    memcpy(types, old->types, n * width);
    for (size_t i = 0; i < n; i++) {
        const char *of = types + i * width;
        PyUFuncGenericFunction ours = function ? loop_of(function, of, old->nin) : half_loop_of(word, of, old->nin);
        loops[i] = ours ? ours : old->functions[i];
        data[i] = ours ? function ? (void *)function : (void *)word : old->data ? old->data[i] : NULL;
    }
    return PyUFunc_FromFuncAndData(
        loops, data, types, old->ntypes, old->nin, 1, PyUFunc_None, old->name, old->doc, 0
    );
}

/* Otherwise it computes in float64, whatever it is given. */
static int has_float32(const PyUFuncObject *old) {
    for (int i = 0; i < old->ntypes; i++)
        if (old->types[(npy_intp)i * old->nargs] == NPY_FLOAT) return 1;
    return 0;
}

/* Copies that were made, and of which functions. */
static struct { const PyUFuncObject *ufunc; const Function *function; } copies[N_FUNCTIONS];
static size_t n_copies;

/* By size, one without a sign first; of quotients NumPy takes the short ones several at a time. */
static const struct { int size, has_sign; PyUFuncGenericFunction remainder, quotient; } divisions[] = {
    {1, 0, numbers_floor_remainder_uint8_t, NULL}, {1, 1, numbers_floor_remainder_int8_t, NULL},
    {2, 0, numbers_floor_remainder_uint16_t, NULL}, {2, 1, numbers_floor_remainder_int16_t, NULL},
    {4, 0, numbers_floor_remainder_uint32_t, NULL}, {4, 1, numbers_floor_remainder_int32_t, NULL},
    {8, 0, numbers_floor_remainder_uint64_t, numbers_floor_divide_uint64_t},
    {8, 1, numbers_floor_remainder_int64_t, numbers_floor_divide_int64_t},
};

static size_t size_of_integer(int type) {
    switch (type) {
    case NPY_BYTE: case NPY_UBYTE: return sizeof(npy_byte);
    case NPY_SHORT: case NPY_USHORT: return sizeof(npy_short);
    case NPY_INT: case NPY_UINT: return sizeof(npy_int);
    case NPY_LONG: case NPY_ULONG: return sizeof(npy_long);
    case NPY_LONGLONG: case NPY_ULONGLONG: return sizeof(npy_longlong);
    default: return 0;
    }
}

/* Our loop for integers that one number divides, which has NumPy's beside it; NULL of other ufuncs. */
static PyUFuncGenericFunction division_of(const PyUFuncObject *ufunc, int type, void **data) {
    static Theirs numpys[2][NPY_ULONGLONG + 1];
    const int is_quotient = !strcmp(ufunc->name, "floor_divide");
    const size_t size = size_of_integer(type);
    if (!size || ufunc->nin != 2 || (!is_quotient && strcmp(ufunc->name, "remainder"))) return NULL;
    for (int i = 0; i < ufunc->ntypes; i++) {
        const char *types = ufunc->types + 3 * (size_t)i;
        if (types[0] != type || types[1] != type || types[2] != type) continue;
        numpys[is_quotient][type].run = ufunc->functions[i];
        numpys[is_quotient][type].data = ufunc->data ? ufunc->data[i] : NULL;
        *data = &numpys[is_quotient][type];
        for (size_t k = 0; k < sizeof divisions / sizeof *divisions; k++)
            if ((size_t)divisions[k].size == size && divisions[k].has_sign == PyTypeNum_ISSIGNED(type))
                return is_quotient ? divisions[k].quotient : divisions[k].remainder;
    }
    return NULL;
}

/* Our loop of a ufunc of NumPy's, or of a copy, all of whose operands have a type: 1 if its results have it too, 2 if they
   are truth values, 0 if there is none. */
static int find_own_loop(
    const PyUFuncObject *ufunc, int type, int is_bfloat16, PyUFuncGenericFunction *loop, void **data
) {
    if (type != NPY_HALF && !is_bfloat16) {
        const int has_signs = (type == NPY_FLOAT || type == NPY_DOUBLE) && ufunc->nin == 1 && !strcmp(ufunc->name, "sign");
        *loop = !has_signs ? division_of(ufunc, type, data) : type == NPY_FLOAT ? signs_float : signs_double;
        return *loop != NULL;
    }
    for (size_t i = 0; i < n_copies; i++) {
        if (copies[i].ufunc != ufunc) continue;
        *loop = is_bfloat16 ? loop_b16 : loop_f16;
        *data = (void *)copies[i].function;
        return 1;
    }
    const HalfWord *word = half_word_of(ufunc);
    if (!word) return 0;
    *loop = is_bfloat16 ? word_b16 : word_f16;
    *data = (void *)word;
    return word->is_truth ? 2 : 1;
}

static PyObject *own_loops(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromVoidPtr((void *)find_own_loop);
}

static PyObject *half_casts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return Py_BuildValue("(NNNN)", PyLong_FromVoidPtr((void *)widen_f16), PyLong_FromVoidPtr((void *)narrow_f16),
                         PyLong_FromVoidPtr((void *)widen_b16), PyLong_FromVoidPtr((void *)narrow_b16));
}

static PyObject *like(PyObject *module, PyObject *args) {
    PyUFuncObject *old;
    const char *name;
    int number;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!si", &PyUFunc_Type, &old, &name, &number)) return NULL;
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        const Function *function = functions + i;
        if (strcmp(function->name, name) || function->n_args != old->nin || old->nout != 1) continue;
        PyObject *made = copied(old, function, NULL);
        const int types[3] = {number, number, number};
        const HalfWord *word = function->f32 ? NULL : half_word_of(old); /* NumPy's ufunc has one of ml_dtypes */
        PyUFuncGenericFunction of_bfloat16 = word ? word_b16 : function->f32 && has_float32(old) ? loop_b16 : NULL;
        void *given = word ? (void *)word : (void *)function;
        if (made && of_bfloat16 && PyUFunc_RegisterLoopForType((PyUFuncObject *)made, number, of_bfloat16, types, given) < 0)
            Py_CLEAR(made);
        if (made && of_bfloat16 == loop_b16 && n_copies < N_FUNCTIONS) {
            copies[n_copies].ufunc = (PyUFuncObject *)made;
            copies[n_copies++].function = function;
        }
        return made;
    }
    return PyErr_Format(PyExc_ValueError, "no function over blocks %s", name);
}

/* with_halves(ufunc, number): a copy whose loops of float16, and of the dtype of this number, are ours; of what is not
   arithmetic of halves the ufunc itself. */
static PyObject *with_halves(PyObject *Py_UNUSED(module), PyObject *args) {
    PyUFuncObject *old;
    int number;
    if (!PyArg_ParseTuple(args, "O!i", &PyUFunc_Type, &old, &number)) return NULL;
    const HalfWord *word = half_word_of(old);
    if (!word) return Py_NewRef((PyObject *)old);
    PyObject *made = copied(old, NULL, word);
    int types[3] = {number, number, number};
    if (word->is_truth) types[old->nin] = NPY_BOOL;
    if (made && PyUFunc_RegisterLoopForType((PyUFuncObject *)made, number, word_b16, types, (void *)word) < 0) Py_CLEAR(made);
    return made;
}

static PyMethodDef methods[] = {
    {"with_halves", with_halves, METH_VARARGS, "A copy of a ufunc with our loops of halves."},
    {"like", like, METH_VARARGS, "A copy of a ufunc with the loops of generated code."},
    {"own_loops", own_loops, METH_NOARGS, "The address of the function that finds our loops."},
    {"half_casts", half_casts, METH_NOARGS, "The addresses of what makes floats of halves, and back."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_functions", NULL, -1, methods, NULL, NULL, NULL, NULL};

#if defined(__FP_FAST_FMA) || defined(__FMA__)
#define HAS_FMA 1
#else
#define HAS_FMA 0
#endif

/* For the oldest processors of its kind: this is what finds out whether the rest can run here. */
#ifdef __x86_64__
__attribute__((target("no-avx")))
#endif
PyMODINIT_FUNC PyInit__functions(void) {
    int is_able = HAS_FMA;
#ifdef __x86_64__
    is_able = is_able && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#endif
    if (!is_able) {
        PyErr_SetString(PyExc_ImportError, "the processor has no fused multiply-adds, or does not convert halves");
        return NULL;
    }
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        functions = of_wide_processors;
#endif
    import_array();
    import_umath();
    return PyModule_Create(&definition);
}
