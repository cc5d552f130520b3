/* Arithmetic and comparisons of halves, as floats in registers. For the loops of `functions.c`: each result is rounded
   once, and a float has more than twice the digits of a half. They have the bits of NumPy's loops (of bfloat16, of those of
   ml_dtypes), which take halves one by one. */

typedef void (*OverHalves)(const uint16_t *x, const uint16_t *y, void *made, int64_t n);
typedef struct {
    const char *name; /* of NumPy's ufunc */
    int n_args, is_truth; /* what is made are truth values, else halves */
    OverHalves f16, b16; /* of one operand y is x */
} HalfWord;

#define ONE_BY_ONE(name, T, read, store, value)                                                     \
    static void name(const uint16_t *p, const uint16_t *q, void *into, int64_t n) {                 \
        T *r = into;                                                                                \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                      \
            const float x = read(p[i]), y = read(q[i]);                                             \
            (void)y;                                                                                \
            r[i] = (T)store(value);                                                                 \
        }                                                                                           \
    }
/* What a word makes: a number that is rounded; one that is a half as it is; a truth value. */
#define TO_B16(x) written_bfloat16(rounded_bfloat16(x))
#define B16_ROUNDED(name, value) ONE_BY_ONE(name, uint16_t, read_bfloat16, TO_B16, value)
#define B16_KEPT(name, value) ONE_BY_ONE(name, uint16_t, read_bfloat16, written_bfloat16, value)
#define B16_TRUTH(name, value) ONE_BY_ONE(name, uint8_t, read_bfloat16, , value)
#define OVER_B16(name, made, value) B16_##made(b16_##name, value)

#ifdef CONVERTS_HALVES
/* As many at a time as the processor converts; of what is left so many, too, with ones behind it. */
#define IN_LANES(name, value)                                                                       \
    static void name(const uint16_t *p, const uint16_t *q, void *into, int64_t n) {                 \
        uint16_t *r = into;                                                                         \
        int64_t i = 0;                                                                              \
        for (; i + HALVES_AT_ONCE <= n; i += HALVES_AT_ONCE) {                                      \
            float xs[HALVES_AT_ONCE], ys[HALVES_AT_ONCE], numbers[HALVES_AT_ONCE];                  \
            read_halves(p + i, xs);                                                                 \
            read_halves(q + i, ys);                                                                 \
            EACH_HALF {                                                                             \
                const float x = xs[w], y = ys[w];                                                   \
                (void)y;                                                                            \
                numbers[w] = value;                                                                 \
            }                                                                                       \
            write_halves(numbers, r + i);                                                           \
        }                                                                                           \
        if (i == n) return;                                                                         \
        uint16_t rest[2][HALVES_AT_ONCE], made[HALVES_AT_ONCE];                                     \
        for (int w = 0; w < HALVES_AT_ONCE; w++) rest[0][w] = rest[1][w] = 0x3c00;                  \
        memcpy(rest[0], p + i, (n - i) * sizeof *p);                                                \
        memcpy(rest[1], q + i, (n - i) * sizeof *q);                                                \
        name(rest[0], rest[1], made, HALVES_AT_ONCE);                                               \
        memcpy(r + i, made, (n - i) * sizeof *r);                                                   \
    }
#define F16_ROUNDED IN_LANES
#define F16_KEPT IN_LANES
#else
#define TO_F16(x) written_float16(rounded_float16(x))
#define F16_ROUNDED(name, value) ONE_BY_ONE(name, uint16_t, read_float16, TO_F16, value)
#define F16_KEPT(name, value) ONE_BY_ONE(name, uint16_t, read_float16, written_float16, value)
#endif
/* Truth values by way of a block of floats: of so few lanes compilers compare one after another. */
#define F16_TRUTH(name, value)                                                                      \
    static void name(const uint16_t *p, const uint16_t *q, void *into, int64_t n) {                 \
        uint8_t *r = into;                                                                          \
        float xs[FEW_HALVES], ys[FEW_HALVES];                                                       \
        for (int64_t i = 0; i < n; i += FEW_HALVES) {                                               \
            const int64_t m = n - i < FEW_HALVES ? n - i : FEW_HALVES;                              \
            widen_f16(p + i, xs, m);                                                                \
            widen_f16(q + i, ys, m);                                                                \
            _Pragma("GCC ivdep") for (int64_t w = 0; w < m; w++) {                                  \
                const float x = xs[w], y = ys[w];                                                   \
                (void)y;                                                                            \
                r[i + w] = (uint8_t)(value);                                                        \
            }                                                                                       \
        }                                                                                           \
    }
enum { FEW_HALVES = 256 };
#define OVER_F16(name, made, value) F16_##made(f16_##name, value)

#define EACH_HALF_WORD(X)                                                                           \
    X(add, 2, ROUNDED, x + y) X(subtract, 2, ROUNDED, x - y)                                        \
    X(multiply, 2, ROUNDED, x * y) X(divide, 2, ROUNDED, x / y)                                     \
    X(less, 2, TRUTH, x < y) X(less_equal, 2, TRUTH, x <= y)                                        \
    X(greater, 2, TRUTH, x > y) X(greater_equal, 2, TRUTH, x >= y)                                  \
    X(equal, 2, TRUTH, x == y) X(not_equal, 2, TRUTH, x != y)                                       \
    X(square, 1, ROUNDED, x * x) X(sqrt, 1, ROUNDED, sqrtf(x))                                      \
    X(reciprocal, 1, ROUNDED, 1 / x) X(floor, 1, KEPT, floorf(x))                                   \
    X(ceil, 1, KEPT, ceilf(x)) X(trunc, 1, KEPT, truncf(x))                                         \
    X(rint, 1, KEPT, rintf(x)) X(isnan, 1, TRUTH, x != x)                                           \
    X(isinf, 1, TRUTH, fabsf(x) == INFINITY) X(isfinite, 1, TRUTH, fabsf(x) < INFINITY)
#define MAKE_HALF_WORD(name, n_args, made, value) OVER_F16(name, made, value) OVER_B16(name, made, value)
EACH_HALF_WORD(MAKE_HALF_WORD)
/* Of two zeros the first is the larger in float16, the second in bfloat16. */
OVER_F16(maximum, KEPT, x >= y || x != x ? x : y)
OVER_B16(maximum, KEPT, x > y || x != x ? x : y)
OVER_F16(minimum, KEPT, x <= y || x != x ? x : y)
OVER_B16(minimum, KEPT, x < y || x != x ? x : y)
/* The sign of a zero is that of zero in float16, and its own in bfloat16. */
OVER_F16(sign, KEPT, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x)
OVER_B16(sign, KEPT, x > 0 ? 1 : x < 0 ? -1 : x)

/* The first bit is the sign, of a NaN too. */
#define OVER_BITS(name, value)                                                                      \
    static void name(const uint16_t *p, const uint16_t *q, void *into, int64_t n) {                 \
        uint16_t *r = into;                                                                         \
        (void)q;                                                                                    \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) r[i] = (uint16_t)(value);              \
    }
OVER_BITS(bits_negative, p[i] ^ 0x8000)
OVER_BITS(bits_absolute, p[i] & 0x7fff)

enum { IS_ROUNDED, IS_KEPT = 0, IS_TRUTH };
#define OF_HALF_WORD(name, n_args, made, value) {#name, n_args, IS_##made, f16_##name, b16_##name},
static const HalfWord half_words[] = {
    EACH_HALF_WORD(OF_HALF_WORD){"sign", 1, IS_KEPT, f16_sign, b16_sign},
    {"maximum", 2, IS_KEPT, f16_maximum, b16_maximum},
    {"minimum", 2, IS_KEPT, f16_minimum, b16_minimum},
    {"negative", 1, IS_KEPT, bits_negative, bits_negative},
    {"absolute", 1, IS_KEPT, bits_absolute, bits_absolute},
};
