/* Arithmetic and comparisons of halves, in blocks of floats. Before the loops of `functions.c`, which convert: each
   result is rounded once, and a float has more than twice the digits of a half. They have the bits of NumPy's loops
   (of bfloat16, of those of ml_dtypes), which take halves one by one. */

typedef struct {
    const char *name; /* of NumPy's ufunc */
    int n_args;
    enum { ROUNDED, KEPT, TRUTH } made; /* a number; one that is a half as it is; a truth value */
    void (*f16)(const float *x, const float *y, void *made, int64_t n);
    void (*b16)(const float *x, const float *y, void *made, int64_t n);
} HalfWord;

#define OVER_FLOATS(name, T, value)                                                             \
    static void name(const float *p, const float *q, void *into, int64_t n) {                   \
        T *r = into;                                                                            \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                  \
            const float x = p[i], y = q[i];                                                     \
            (void)y;                                                                            \
            r[i] = (T)(value);                                                                  \
        }                                                                                       \
    }
#define EACH_HALF_WORD(X)                                                                       \
    X(add, 2, ROUNDED, float, x + y) X(subtract, 2, ROUNDED, float, x - y)                      \
    X(multiply, 2, ROUNDED, float, x * y) X(divide, 2, ROUNDED, float, x / y)                   \
    X(less, 2, TRUTH, uint8_t, x < y) X(less_equal, 2, TRUTH, uint8_t, x <= y)                  \
    X(greater, 2, TRUTH, uint8_t, x > y) X(greater_equal, 2, TRUTH, uint8_t, x >= y)            \
    X(equal, 2, TRUTH, uint8_t, x == y) X(not_equal, 2, TRUTH, uint8_t, x != y)                 \
    X(negative, 1, KEPT, float, -x) X(absolute, 1, KEPT, float, fabsf(x))                       \
    X(square, 1, ROUNDED, float, x * x) X(sqrt, 1, ROUNDED, float, sqrtf(x))                    \
    X(reciprocal, 1, ROUNDED, float, 1 / x) X(floor, 1, KEPT, float, floorf(x))                 \
    X(ceil, 1, KEPT, float, ceilf(x)) X(trunc, 1, KEPT, float, truncf(x))                       \
    X(rint, 1, KEPT, float, rintf(x)) X(isnan, 1, TRUTH, uint8_t, x != x)                       \
    X(isinf, 1, TRUTH, uint8_t, fabsf(x) == INFINITY) X(isfinite, 1, TRUTH, uint8_t, fabsf(x) < INFINITY)
#define MAKE_HALF_WORD(name, n_args, made, T, value) OVER_FLOATS(floats_##name, T, value)
EACH_HALF_WORD(MAKE_HALF_WORD)
/* Of two zeros the first is the larger in float16, the second in bfloat16. */
OVER_FLOATS(floats_maximum_f16, float, x >= y || x != x ? x : y)
OVER_FLOATS(floats_maximum_b16, float, x > y || x != x ? x : y)
OVER_FLOATS(floats_minimum_f16, float, x <= y || x != x ? x : y)
OVER_FLOATS(floats_minimum_b16, float, x < y || x != x ? x : y)
/* The sign of a zero is that of zero in float16, and its own in bfloat16. */
OVER_FLOATS(floats_sign_f16, float, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x)
OVER_FLOATS(floats_sign_b16, float, x > 0 ? 1 : x < 0 ? -1 : x)

#define OF_HALF_WORD(name, n_args, made, T, value) {#name, n_args, made, floats_##name, floats_##name},
static const HalfWord half_words[] = {
    EACH_HALF_WORD(OF_HALF_WORD){"sign", 1, KEPT, floats_sign_f16, floats_sign_b16},
    {"maximum", 2, KEPT, floats_maximum_f16, floats_maximum_b16},
    {"minimum", 2, KEPT, floats_minimum_f16, floats_minimum_b16},
};
