/* What decides between centres: the squared differences of a row and a centre in float64, in one order of adding up on
   every machine; and what roundings towards it are called. Other loops begin with this. T is the element. */

#include <math.h>
#include <string.h>
#include <stdlib.h>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Rows are side by side in vectors, centres are broadcast: what follows a product needs no sum across lanes. */
#if !defined(LANES) /* tests try those of other machines */
#if defined(__AVX512F__)
#define LANES 16
#define CENTRES_AT_A_TIME 8
#elif defined(__AVX__)
#define LANES 8
#define CENTRES_AT_A_TIME 6 /* 12 sums, 2 rows and a centre: 15 of 16 registers */
#elif defined(__aarch64__)
#define LANES 4
#define CENTRES_AT_A_TIME 8
#else
#define LANES 4
#define CENTRES_AT_A_TIME 6
#endif
#endif
#define UP 1.000001f
#define DOWN 0.999999f
#define UNIT 5.9604644775390625e-8 /* 2^-24 */
#define TRUSTED 1e30f /* products of larger errors may have overflowed */
#define ROWS_AT_A_TIME 16
typedef T Own __attribute__((vector_size(4 * LANES), aligned(sizeof(T)), may_alias));

INLINE float above(double v) { return (float)(v * (1 + 1e-12)) * UP + 1e-37f; }
INLINE float below(double v) { return v > 0 ? (float)v * DOWN - 1e-37f : -1e-37f; }

/* The nearest whole number, of two as near the one farther from zero. */
INLINE int64_t whole(double v) {
#if defined(__aarch64__)
    return (int64_t)__builtin_llround(v); /* an instruction there, a call elsewhere */
#else
    int64_t q = (int64_t)v;
    double rest = v - (double)q;
    return q + (rest >= 0.5) - (rest <= -0.5);
#endif
}

#define PAIRS (LANES / 2)
#define QUADS (8 / PAIRS)
typedef double W __attribute__((vector_size(8 * PAIRS), aligned(8), may_alias));
#define PADDED(d) (((d) + 7) & ~(int64_t)7)

/* ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)) of the lanes, however many a vector has. */
INLINE double added(const W *sum) {
#if PAIRS == 2
    W v = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    return v[0] + v[1];
#elif PAIRS == 4
    W v = sum[0] + sum[1];
    return (v[0] + v[2]) + (v[1] + v[3]);
#else
    W v = sum[0];
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#endif
}

/* Squared differences of eight numbers, each to its own lane. */
INLINE void add_eight(const double *x, const double *c, W *sum) {
    for (int i = 0; i < QUADS; i++) {
        W v = *(const W *)(x + i * PAIRS) - *(const W *)(c + i * PAIRS);
        sum[i] += v * v;
    }
}

/* A row less the shift in float64, with zeros up to a multiple of eight. */
INLINE void widen(const T *x, const T *shift, int64_t d, double *to) {
    for (int64_t j = 0; j < d; j++) to[j] = (double)(T)(x[j] - shift[j]);
    for (int64_t j = d; j < PADDED(d); j++) to[j] = 0;
}

/* k centres in float64, each with zeros up to a multiple of eight; and room for a row behind them. */
static double *widened(const T *centers, int64_t k, int64_t d) {
    int64_t width = PADDED(d);
    double *wide = malloc(sizeof(double) * (size_t)(k + 1) * width + 64);
    if (wide)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < width; j++) wide[i * width + j] = j < d ? (double)centers[i * d + j] : 0;
    return wide;
}

/* The squared distance of two rows of `width` numbers, a multiple of eight, added up in eight lanes. */
INLINE double apart(const double *x, const double *c, int64_t width) {
    W sum[QUADS];
    for (int i = 0; i < QUADS; i++) sum[i] = (W){0};
    for (int64_t j = 0; j < width; j += 8) add_eight(x + j, c + j, sum);
    return added(sum);
}
