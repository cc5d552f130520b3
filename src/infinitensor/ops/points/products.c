/* Products of rows and centres in float32, each with a bound on its error: they show which distances need not be
   measured. Other loops begin with this. T is the element. */

#include "apart.c"

#define WIDE 2
#define ROWS (LANES * WIDE)

typedef float V __attribute__((vector_size(4 * LANES)));
typedef int32_t VI __attribute__((vector_size(4 * LANES)));
typedef float Q __attribute__((vector_size(16), aligned(4), may_alias));
typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t QI __attribute__((vector_size(16)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (QI){__VA_ARGS__})
#endif

#if LANES == 16 && defined(__AVX512F__)
#define WORD(name, ...) (V) _mm512_##name##_ps(__VA_ARGS__)
typedef __m512 Native;
#elif LANES == 8 && defined(__AVX__)
#define WORD(name, ...) (V) _mm256_##name##_ps(__VA_ARGS__)
typedef __m256 Native;
#elif LANES == 4 && defined(__aarch64__)
#define WORD(name, ...) (V) v##name##q_f32(__VA_ARGS__)
typedef float32x4_t Native;
#endif

#if defined(WORD)
INLINE V least(V a, V b) { return WORD(min, (Native)a, (Native)b); }
INLINE V most(V a, V b) { return WORD(max, (Native)a, (Native)b); }
INLINE V root(V a) { return WORD(sqrt, (Native)a); }
#else
INLINE V least(V a, V b) {
    VI less = a < b;
    return (V)((less & (VI)a) | (~less & (VI)b));
}
INLINE V most(V a, V b) {
    VI more = a > b;
    return (V)((more & (VI)a) | (~more & (VI)b));
}
INLINE V root(V a) {
    for (int i = 0; i < LANES; i++) a[i] = sqrtf(a[i]);
    return a;
}
#endif

/* Centres about their mean in float32, times -2, side by side in stripes as `products` reads them; and room for ROWS
   rows. */
typedef struct {
    int64_t d, k, width, padded;
    const T *shift, *centers;
    T *pivot; /* of float32's values */
    double *wide, *point;
    float *packed, *norms, *row, *found;
    float fixed, linear, square, own; /* of `multiply`'s error bounds */
} Centers;

/* How many centres the next stripe has, of those that are left. */
INLINE int stripe(int64_t left) { return left >= CENTRES_AT_A_TIME - 1 ? CENTRES_AT_A_TIME : left > 2 ? 4 : 2; }

/* What a product of a row of some length is wrong by at most is fixed + linear * length + square * length^2:
   roundings of both factors, of d products and sums, of the norms and of the last difference, each at most UNIT of
   what they stand for; then what float64 itself leaves, of the pivot and of `apart`. */
static void bound(Centers *c, double most, double offset) {
    double d = (double)c->d, unit = UNIT * (1 + 32 * UNIT * (d + 8)), pivot = 8.9e-16, apart = (d + 8) * 2.3e-16;
    c->fixed = above(4 * unit * most * most + pivot * offset * most + apart * most * most + d * 1e-37);
    c->linear = above(unit * (2 * d + 16) * most + pivot * (offset + most) + 2 * apart * most);
    c->square = above(pivot + apart);
    c->own = above((d + 8) * UNIT);
}

static int pack(Centers *c, const T *centers, int64_t k, int64_t d, const T *shift) {
    int64_t padded = 0;
    while (padded < k) padded += stripe(k - padded);
    size_t floats = (size_t)padded * d + padded + (size_t)ROWS * d + (size_t)ROWS * padded;
    c->wide = widened(centers, k, d);
    if (!c->wide) return 1;
    c->width = PADDED(d);
    c->point = c->wide + k * c->width;
    c->pivot = malloc(sizeof(T) * (d + 1) + sizeof(float) * floats + 64);
    if (!c->pivot) {
        free(c->wide);
        return 1;
    }
    c->d = d, c->k = k, c->padded = padded, c->shift = shift, c->centers = centers;
    c->found = (float *)(((uintptr_t)(c->pivot + d + 1) + 63) & ~(uintptr_t)63);
    c->row = c->found + ROWS * padded;
    c->norms = c->row + ROWS * d;
    c->packed = c->norms + padded;
    double most = 0, offset = 0;
    for (int64_t j = 0; j < d; j++) {
        double total = 0;
        for (int64_t i = 0; i < k; i++) total += c->wide[i * c->width + j];
        c->pivot[j] = (T)(float)(total / (double)k);
        offset += (double)c->pivot[j] * (double)c->pivot[j];
    }
    for (int64_t first = 0; first < padded;) {
        int n = stripe(k - first);
        for (int i = 0; i < n; i++) {
            double norm = 0;
            for (int64_t j = 0; j < d; j++) {
                double v = first + i < k ? c->wide[(first + i) * c->width + j] - (double)c->pivot[j] : 0;
                c->packed[first * d + j * n + i] = -2 * (float)v;
                norm += v * v;
            }
            c->norms[first + i] = first + i < k ? (float)norm : INFINITY;
            if (norm > most) most = norm;
        }
        first += n;
    }
    bound(c, sqrt(most), sqrt(offset));
    return 0;
}

static void unpack(Centers *c) {
    free(c->pivot);
    free(c->wide);
}

/* Rows `which` (at most ROWS) about the pivot in float32, side by side. */
static void transpose(const Centers *c, const T *x, const int64_t *which, int n) {
    const int64_t d = c->d;
    for (int r = 0; r < ROWS; r += 4) {
        const T *from[4];
        for (int i = 0; i < 4; i++) from[i] = x + which[r + i < n ? r + i : 0] * d;
        float *to = c->row + r;
        int64_t j = 0;
        for (; j + 4 <= d; j += 4, to += 4 * ROWS) {
            Four shift = *(const Four *)(c->shift + j), pivot = *(const Four *)(c->pivot + j);
            Q a[4];
            for (int i = 0; i < 4; i++)
                a[i] = __builtin_convertvector((*(const Four *)(from[i] + j) - shift) - pivot, Q);
            Q p = SHUFFLE(a[0], a[1], 0, 4, 1, 5), q = SHUFFLE(a[2], a[3], 0, 4, 1, 5);
            Q s = SHUFFLE(a[0], a[1], 2, 6, 3, 7), t = SHUFFLE(a[2], a[3], 2, 6, 3, 7);
            *(Q *)to = SHUFFLE(p, q, 0, 1, 4, 5);
            *(Q *)(to + ROWS) = SHUFFLE(p, q, 2, 3, 6, 7);
            *(Q *)(to + 2 * ROWS) = SHUFFLE(s, t, 0, 1, 4, 5);
            *(Q *)(to + 3 * ROWS) = SHUFFLE(s, t, 2, 3, 6, 7);
        }
        for (; j < d; j++, to += ROWS)
            for (int i = 0; i < 4; i++) to[i] = (float)((T)(from[i][j] - c->shift[j]) - c->pivot[j]);
    }
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

/* The two least products of each row, and whose the first is. */
typedef struct {
    V first[WIDE], second[WIDE];
    VI at[WIDE];
} Least;

/* Products of ROWS rows with a stripe of n centres: norms - 2 x . c. */
INLINE void products_of(const Centers *c, int64_t begin, const int n, Least *found) {
    const float *from = c->packed + begin * c->d;
    const V *x = (const V *)c->row;
    V sum[CENTRES_AT_A_TIME][WIDE];
    for (int i = 0; i < n; i++)
        for (int w = 0; w < WIDE; w++) sum[i][w] = (V){0};
    for (int64_t j = 0; j < c->d; j++, from += n, x += WIDE) {
#if defined(__aarch64__) && CENTRES_AT_A_TIME % 4 == 0
        /* four centres a load, taken by lane: to load and spread each would keep a pipe from multiplying */
        Q four[(CENTRES_AT_A_TIME + 3) / 4];
        if (n >= 4)
            for (int i = 0; i < n / 4; i++) four[i] = *(const Q *)(from + 4 * i);
        for (int i = 0; i < n; i++)
            for (int w = 0; w < WIDE; w++) sum[i][w] += x[w] * (n >= 4 ? four[i / 4][i % 4] : from[i]);
#else
        for (int i = 0; i < n; i++)
            for (int w = 0; w < WIDE; w++) sum[i][w] += x[w] * from[i];
#endif
    }
    V *to = (V *)(c->found + begin * ROWS);
    Least here; /* in registers */
    if (found) here = *found;
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
#pragma GCC unroll 2
        for (int w = 0; w < WIDE; w++) {
            V v = sum[i][w] + c->norms[begin + i];
            to[i * WIDE + w] = v;
            if (!found) continue;
            VI less = v < here.first[w];
            here.second[w] = least(here.second[w], most(here.first[w], v));
            here.first[w] = least(here.first[w], v);
            here.at[w] = (less & (int32_t)(begin + i)) | (~less & here.at[w]);
        }
    if (found) *found = here;
}

INLINE void products(const Centers *c, Least *found) {
    for (int64_t begin = 0; begin < c->padded;) {
        int n = stripe(c->k - begin);
        if (n == CENTRES_AT_A_TIME) products_of(c, begin, CENTRES_AT_A_TIME, found);
        else if (n == 4) products_of(c, begin, 4, found);
        else products_of(c, begin, 2, found);
        begin += n;
    }
}

/* Products with every centre, kept in c->found. */
__attribute__((unused)) static void products_alone(const Centers *c) { products(c, 0); }

__attribute__((unused)) static void products_least(const Centers *c, Least *found) {
    for (int w = 0; w < WIDE; w++) {
        found->first[w] = found->second[w] = (V){0} + INFINITY;
        found->at[w] = (VI){0};
    }
    products(c, found);
}

/* The squared lengths of ROWS rows. */
INLINE void lengths(const Centers *c, V *norms) {
    const V *x = (const V *)c->row;
    V sum[2 * WIDE];
    for (int w = 0; w < 2 * WIDE; w++) sum[w] = (V){0};
    int64_t j = 0;
    for (; j + 2 <= c->d; j += 2, x += 2 * WIDE)
        for (int w = 0; w < 2 * WIDE; w++) sum[w] += x[w] * x[w];
    for (int w = 0; w < WIDE; w++) {
        if (j < c->d) sum[w] += x[w] * x[w];
        norms[w] = sum[w] + sum[WIDE + w];
    }
}
#pragma GCC pop_options

/* Rows `which`, ready for products: their squared lengths, and what a product of each is wrong by at most. */
INLINE void multiply(const Centers *c, const T *x, const int64_t *which, int n, V *norms, V *errors) {
    transpose(c, x, which, n);
    lengths(c, norms);
    for (int w = 0; w < WIDE; w++) {
        V length = root(norms[w]);
        errors[w] = (c->fixed + length * (c->linear + length * c->square)) * UP;
    }
}
