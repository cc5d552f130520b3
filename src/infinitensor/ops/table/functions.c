/* NumPy's ufuncs of functions such as exp, with the loops over blocks that generated code calls: the same bits whether
   a group runs step by step or compiled.

   `like(ufunc, name, number)` is a copy of a ufunc whose loops of float32 and float64 are those of `vector.h` by this
   name, and those of complex numbers for what has one; float16, and bfloat16 (the number of its dtype), are computed in
   float32 and rounded once. All other loops, the dtype rules and the words of errors are NumPy's.

   `half_loops()` is the address of a function that knows our loop of a ufunc for halves: of those above, and of
   arithmetic and comparisons (`half_words.h`). */

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
#include "ops/table/half_words.h"

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
SCATTERED(scatter_kept_b16, float, bfloat16, written_bfloat16(x))
SCATTERED(scatter_truth, npy_bool, npy_bool, x)
#define scatter_kept_f16 scatter_f16 /* rounding leaves halves as they are; a NaN of bfloat16 keeps its bits */

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

#define WORD_LOOP(kind)                                                                             \
    static void word_##kind(char **at, npy_intp const *n, npy_intp const *steps, void *data) {      \
        const HalfWord *word = data;                                                                \
        float given[2][BLOCK], made[BLOCK];                                                         \
        for (npy_intp i = 0; i < *n; i += BLOCK) {                                                  \
            const npy_intp m = *n - i < BLOCK ? *n - i : BLOCK, step = steps[word->n_args];         \
            char *out = at[word->n_args] + i * step;                                                \
            for (int k = 0; k < word->n_args; k++) /* one number is there after the first block */  \
                if (!i || steps[k]) gather_##kind(at[k] + i * steps[k], steps[k], m, out, given[k]); \
            word->kind(given[0], given[word->n_args - 1], made, m);                                 \
            if (word->made == ROUNDED) scatter_##kind(made, out, step, m);                          \
            else if (word->made == KEPT) scatter_kept_##kind(made, out, step, m);                   \
            else scatter_truth((const npy_bool *)made, out, step, m);                               \
        }                                                                                           \
    }
WORD_LOOP(f16)
WORD_LOOP(b16)

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

/* A ufunc lives as long as the process, and so do its tables. */
static PyObject *copied(PyUFuncObject *old, const Function *function) {
    const size_t n = (size_t)old->ntypes, width = (size_t)old->nargs;
    PyUFuncGenericFunction *loops = malloc(n * sizeof *loops);
    void **data = malloc(n * sizeof *data);
    char *types = malloc(n * width);
    if (!loops || !data || !types) return free(loops), free(data), free(types), PyErr_NoMemory();
    memcpy(types, old->types, n * width);
    for (size_t i = 0; i < n; i++) {
        PyUFuncGenericFunction ours = loop_of(function, types + i * width, old->nin);
        loops[i] = ours ? ours : old->functions[i];
        data[i] = ours ? (void *)function : old->data ? old->data[i] : NULL;
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

/* What a ufunc is of halves, if it is arithmetic or a comparison. */
static const HalfWord *half_word_of(const PyUFuncObject *ufunc) {
    for (size_t i = 0; i < sizeof half_words / sizeof *half_words; i++) {
        const HalfWord *word = half_words + i;
        if (word->n_args == ufunc->nin && ufunc->nout == 1 && !strcmp(word->name, ufunc->name)) return word;
    }
    return NULL;
}

/* Our loop of a ufunc of NumPy's, or of a copy, all of whose operands are halves: 1 if it makes halves, 2 if truth
   values, 0 if there is none. */
static int find_half_loop(const PyUFuncObject *ufunc, int is_bfloat16, PyUFuncGenericFunction *loop, void **data) {
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
    return word->made == TRUTH ? 2 : 1;
}

static PyObject *half_loops(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromVoidPtr((void *)find_half_loop);
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
        PyObject *made = copied(old, function);
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

static PyMethodDef methods[] = {
    {"like", like, METH_VARARGS, "A copy of a ufunc with the loops of generated code."},
    {"half_loops", half_loops, METH_NOARGS, "The address of the function that finds loops of halves."},
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
