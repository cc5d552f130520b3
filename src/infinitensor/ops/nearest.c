/* The nearest of k centres for each row, and sums over the rows of each label. T is the element.

   Distances decide in float64, by the differences of a row and a centre (`apart`); the first of equal ones wins. What
   goes before only leaves out work whose outcome is certain: bounds kept from the pass before (`nearest`), and
   products in float32 with a bound on their error (`scan`). */

#include <math.h>
#include <string.h>
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 8
#elif defined(__AVX__)
#define LANES 8
#define ROWS 6
#else
#define LANES 4
#define ROWS 8
#endif
#define WIDE 2
#define PANEL (LANES * WIDE)
#define UP 1.000001f
#define DOWN 0.999999f
#define UNIT 5.9604644775390625e-8 /* 2^-24 */

typedef float V __attribute__((vector_size(4 * LANES)));
typedef int32_t VI __attribute__((vector_size(4 * LANES)));

INLINE V pick(VI mask, V a, V b) { return (V)((mask & (VI)a) | (~mask & (VI)b)); }
INLINE float above(double v) { return (float)(v * (1 + 1e-12)) * UP + 1e-37f; }
INLINE float below(double v) { return v > 0 ? (float)v * DOWN - 1e-37f : -1e-37f; }

/* The nearest whole number, of two as near the one farther from zero. */
INLINE int64_t whole(double v) {
    int64_t q = (int64_t)v;
    double rest = v - (double)q;
    return q + (rest >= 0.5) - (rest <= -0.5);
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

/* Centres about their mean in float32, in panels side by side, as products read them. */
typedef struct {
    int64_t d, k, width, n_panels;
    const T *shift;
    double *pivot, *wide, *point;
    float *packed, *norms, *row, *found;
    double most, offset;
} Centers;

static int pack(Centers *c, const T *centers, int64_t k, int64_t d, const T *shift) {
    int64_t n_panels = (k + PANEL - 1) / PANEL, padded = n_panels * PANEL;
    size_t floats = (size_t)padded * d + padded + (size_t)ROWS * d + (size_t)ROWS * padded;
    c->wide = widened(centers, k, d);
    if (!c->wide) return 1;
    c->width = PADDED(d);
    c->point = c->wide + k * c->width;
    c->pivot = malloc(sizeof(double) * (d + 1) + sizeof(float) * floats + 64);
    if (!c->pivot) {
        free(c->wide);
        return 1;
    }
    c->d = d, c->k = k, c->n_panels = n_panels, c->shift = shift;
    c->packed = (float *)(((uintptr_t)(c->pivot + d + 1) + 63) & ~(uintptr_t)63);
    c->found = c->packed + padded * d;
    c->norms = c->found + ROWS * padded;
    c->row = c->norms + padded;
    c->most = c->offset = 0;
    for (int64_t j = 0; j < d; j++) {
        double total = 0;
        for (int64_t i = 0; i < k; i++) total += (double)centers[i * d + j];
        c->pivot[j] = total / (double)k;
        c->offset += c->pivot[j] * c->pivot[j];
    }
    c->offset = sqrt(c->offset);
    for (int64_t i = 0; i < padded; i++) {
        float *to = c->packed + (i / PANEL) * d * PANEL + i % PANEL;
        double norm = 0;
        for (int64_t j = 0; j < d; j++) {
            double v = i < k ? (double)centers[i * d + j] - c->pivot[j] : 0;
            to[j * PANEL] = (float)v;
            norm += v * v;
        }
        c->norms[i] = i < k ? (float)norm : INFINITY;
        if (norm > c->most) c->most = norm;
    }
    c->most = sqrt(c->most);
    return 0;
}

/* The products of ROWS rows with every centre: norms - 2 x . c */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
static void products(const Centers *c) {
    const int64_t d = c->d;
    for (int64_t p = 0; p < c->n_panels; p++) {
        const V *from = (const V *)(c->packed + p * d * PANEL);
        const float *x = c->row;
        V sum[ROWS][WIDE];
        for (int r = 0; r < ROWS; r++)
            for (int w = 0; w < WIDE; w++) sum[r][w] = (V){0};
        for (int64_t j = 0; j < d; j++, from += WIDE, x += ROWS)
            for (int r = 0; r < ROWS; r++)
                for (int w = 0; w < WIDE; w++) sum[r][w] += from[w] * x[r];
        const V *norms = (const V *)(c->norms + p * PANEL);
        for (int r = 0; r < ROWS; r++) {
            V *to = (V *)(c->found + (r * c->n_panels + p) * PANEL);
            for (int w = 0; w < WIDE; w++) to[w] = norms[w] - (sum[r][w] + sum[r][w]);
        }
    }
}
#pragma GCC pop_options

/* The two least of a row of products. */
INLINE void least_two(const float *g, int64_t n, float *first, float *second) {
    V one = *(const V *)g, two = one - one + INFINITY;
    for (int64_t j = LANES; j < n; j += LANES) {
        V v = *(const V *)(g + j);
        VI less = v < one;
        V larger = pick(less, one, v);
        one = pick(less, v, one);
        two = pick(larger < two, larger, two);
    }
    float a = INFINITY, b = INFINITY;
    for (int i = 0; i < LANES; i++) {
        float v = one[i], w = two[i];
        if (v < a) b = a, a = v;
        else if (v < b) b = v;
        if (w < b) b = w;
    }
    *first = a;
    *second = b;
}

/* Where a value that is there stands first. */
INLINE int64_t position(const float *g, float value) {
    int64_t at = 0;
    for (;; at += PANEL) {
        const V *v = (const V *)(g + at);
        VI hit = (v[0] == value) | (v[1] == value);
        int64_t any = 0;
        for (int i = 0; i < LANES; i++) any |= hit[i];
        if (any) break;
    }
    while (g[at] != value) at++;
    return at;
}

/* The nearest of all centres to one row whose products are known to within `error`. */
INLINE int32_t decide(const Centers *c, const T *x, const float *g, double norm, double error, float *upper,
                      float *lower) {
    float first, second;
    least_two(g, c->n_panels * PANEL, &first, &second);
    if (error < 1e30 && (double)second - (double)first > 2 * error) {
        int64_t at = position(g, first);
        *upper = above(sqrt(fmax(first + norm + error, 0)));
        *lower = below(sqrt(fmax(second + norm - error, 0)));
        return (int32_t)at;
    }
    double limit = error < 1e30 ? (double)first + 2 * error : INFINITY;
    double least = INFINITY, next = error < 1e30 ? first + norm + error : INFINITY;
    int32_t at = 0;
    widen(x, c->shift, c->d, c->point);
    for (int64_t j = 0; j < c->k; j++)
        if (!((double)g[j] > limit)) {
            double v = apart(c->point, c->wide + j * c->width, c->width);
            if (v < least) {
                next = fmin(next, least);
                least = v;
                at = (int32_t)j;
            } else next = fmin(next, v);
        }
    *upper = above(sqrt(least));
    *lower = below(sqrt(fmax(next, 0)));
    return at;
}

/* Rows `which` (at most ROWS) about the pivot in float32, side by side, and their squared lengths; then `products`. */
INLINE void multiply(const Centers *c, const T *x, const int64_t *which, int n, double *norms) {
    const int64_t d = c->d;
    for (int r = 0; r < ROWS; r++) {
        const T *from = x + which[r < n ? r : 0] * d;
        double lane[4] = {0};
        float *to = c->row + r;
        int64_t j = 0;
        for (; j + 4 <= d; j += 4)
            for (int i = 0; i < 4; i++) {
                double v = (double)(T)(from[j + i] - c->shift[j + i]) - c->pivot[j + i];
                to[(j + i) * ROWS] = (float)v;
                lane[i] += v * v;
            }
        for (; j < d; j++) {
            double v = (double)(T)(from[j] - c->shift[j]) - c->pivot[j];
            to[j * ROWS] = (float)v;
            lane[0] += v * v;
        }
        norms[r] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }
    products(c);
}

/* What a product of a row is wrong by at most: roundings of both factors, of d products and sums, of the norms and of
   the last difference, each at most UNIT of what they stand for; then what float64 itself leaves, of the pivot and of
   `apart`. */
INLINE double error_of(const Centers *c, double norm) {
    const int64_t d = c->d;
    double unit = UNIT * (1 + 4 * UNIT * d), most = c->most, length = sqrt(norm), reach = length + most;
    return unit * ((2 * d + 16) * length * most + 4 * most * most) + 8.9e-16 * (length + c->offset) * reach +
           (d + 8) * 2.3e-16 * reach * reach + d * 1e-37;
}

/* Rows `which` (at most ROWS) against all centres. */
INLINE void scan(const Centers *c, const T *x, const int64_t *which, int n, int32_t *labels, float *bounds) {
    double norms[ROWS];
    multiply(c, x, which, n, norms);
    for (int r = 0; r < n; r++) {
        double error = error_of(c, norms[r]);
        float upper, lower;
        int64_t i = which[r];
        labels[i] = decide(c, x + i * c->d, c->found + r * c->n_panels * PANEL, norms[r], error, &upper, &lower);
        if (bounds) bounds[2 * i] = upper, bounds[2 * i + 1] = lower;
    }
}

/* One row against few centres, each by differences: packing it would take longer. */
INLINE void compare(const Centers *c, const T *x, int64_t i, int32_t *labels, float *bounds) {
    double least = INFINITY, next = INFINITY;
    int32_t at = 0;
    widen(x + i * c->d, c->shift, c->d, c->point);
    for (int64_t j = 0; j < c->k; j++) {
        double v = apart(c->point, c->wide + j * c->width, c->width);
        if (v < least) {
            next = least;
            least = v;
            at = (int32_t)j;
        } else if (v < next) next = v;
    }
    labels[i] = at;
    if (bounds) bounds[2 * i] = above(sqrt(least)), bounds[2 * i + 1] = below(sqrt(next));
}

/* Labels of rows, and how near each row's centre is at most and every other one at least.

   With `before` and `kept`, of centres that have moved since: moves[3a] is how far centre a has moved, moves[3a + 1]
   how far any other has, moves[3a + 2] half the way from it to the next. A row that stays nearer to its centre than
   that keeps it. Returns how many rows were compared with every centre. */
int64_t nearest(const T *x, int64_t n, int64_t d, const T *shift, const T *centers, int64_t k, const int32_t *before,
                const float *kept, const float *moves, int32_t *labels, float *bounds) {
    Centers c;
    if (pack(&c, centers, k, d, shift)) return -1;
    int64_t which[ROWS], n_compared = 0;
    int m = 0, few = k * (12 + d) < 140 + 5 * d;
    for (int64_t i = 0; i < n; i++) {
        int32_t a = before ? before[i] : -1;
        if (a >= 0) {
            float upper = (kept[2 * i] + moves[3 * a]) * UP, lower = (kept[2 * i + 1] - moves[3 * a + 1]);
            lower = lower > 0 ? lower * DOWN : -1e-37f;
            float room = lower > moves[3 * a + 2] ? lower : moves[3 * a + 2];
            if (!(upper < room)) {
                widen(x + i * d, shift, d, c.point);
                upper = above(sqrt(apart(c.point, c.wide + a * c.width, c.width)));
            }
            if (upper < room) {
                labels[i] = a;
                bounds[2 * i] = upper;
                bounds[2 * i + 1] = lower;
                continue;
            }
        }
        if (few) {
            compare(&c, x, i, labels, bounds);
            n_compared++;
            continue;
        }
        which[m++] = i;
        if (m == ROWS) {
            scan(&c, x, which, m, labels, bounds);
            n_compared += m;
            m = 0;
        }
    }
    if (m) scan(&c, x, which, m, labels, bounds);
    free(c.pivot);
    free(c.wide);
    return n_compared + m;
}

/* For rows whose label is another one than before: what they weigh, in whole numbers of 1 / scale, is taken from the
   old label and given to the new one. sums is (k + 1) x (d + 2): coordinates, the weight and how many rows have one;
   the last row tells how many have changed. before and weights may be NULL. */
int64_t label_sums(const T *x, int64_t n, int64_t d, const T *shift, const double *scale, const int32_t *now,
                   const int32_t *before, const T *weights, int64_t k, int64_t *sums) {
    int64_t width = d + 2, n_changed = 0;
    int64_t *q = malloc(sizeof(int64_t) * width);
    if (!q) return -1;
    for (int64_t i = 0; i < n; i++) {
        int32_t a = before ? before[i] : -1, b = now[i];
        if (a == b) continue;
        n_changed++;
        const T *from = x + i * d;
        int64_t *to = sums + b * width;
        if (!weights && a < 0) {
            for (int64_t j = 0; j < d; j++) to[j] += whole((double)(T)(from[j] - shift[j]) * scale[j]);
            to[d] += whole(scale[d]);
            to[d + 1] += 1;
            continue;
        }
        double w = weights ? (double)weights[i] : 1;
        for (int64_t j = 0; j < d; j++) q[j] = whole((double)(T)(from[j] - shift[j]) * w * scale[j]);
        q[d] = whole(w * scale[d]);
        q[d + 1] = w != 0;
        for (int64_t j = 0; j < width; j++) to[j] += q[j];
        if (a < 0) continue;
        to = sums + a * width;
        for (int64_t j = 0; j < width; j++) to[j] -= q[j];
    }
    free(q);
    sums[k * width] += n_changed;
    return 0;
}

/* Weighted squared distances to the centre of each row's label, added up by label in two whole numbers: of 1 / scale
   and of 2^-40 of that. */
int64_t label_inertia(const T *x, int64_t n, int64_t d, const T *shift, const T *centers, int64_t k,
                      const int32_t *labels, const T *weights, double scale, int64_t *sums) {
    int64_t width = PADDED(d);
    double *wide = widened(centers, k, d);
    if (!wide) return -1;
    double *point = wide + k * width;
    for (int64_t i = 0; i < n; i++) {
        int32_t a = labels[i];
        widen(x + i * d, shift, d, point);
        double v = apart(point, wide + a * width, width) * (weights ? (double)weights[i] : 1) * scale;
        int64_t q = whole(v);
        sums[2 * a] += q;
        sums[2 * a + 1] += whole((v - (double)q) * 1099511627776.0);
    }
    free(wide);
    return 0;
}

int64_t label_distances(const T *x, int64_t n, int64_t d, const T *shift, const T *centers, int64_t k,
                        const int32_t *labels, T *out) {
    int64_t width = PADDED(d);
    double *wide = widened(centers, k, d);
    if (!wide) return -1;
    double *point = wide + k * width;
    for (int64_t i = 0; i < n; i++) {
        widen(x + i * d, shift, d, point);
        out[i] = (T)apart(point, wide + labels[i] * width, width);
    }
    free(wide);
    return 0;
}

/* Distances of rows to k points, squared or not: out is n x k. */
int64_t distances(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t k, int64_t squared,
                  T *out) {
    int64_t width = PADDED(d);
    double *wide = widened(points, k, d);
    if (!wide) return -1;
    double *point = wide + k * width;
    for (int64_t i = 0; i < n; i++) {
        widen(x + i * d, shift, d, point);
        for (int64_t j = 0; j < k; j++) {
            double v = apart(point, wide + j * width, width);
            out[i * k + j] = (T)(squared ? v : sqrt(v));
        }
    }
    free(wide);
    return 0;
}

/* For each of m candidates: the squared distances to the nearest seed so far, were it one too. A row as near to its
   seed as reach[candidate, seed] cannot be nearer to the candidate. owner and closest NULL: there is no seed yet. */
int64_t closer(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t m, const T *closest,
               const int32_t *owner, const double *reach, int64_t n_seeds, T *out) {
    Centers c;
    if (pack(&c, points, m, d, shift)) return -1;
    int64_t which[ROWS];
    double norms[ROWS];
    int held = 0;
    for (int64_t i = 0; i <= n; i++) {
        if (i < n) {
            T old = closest ? closest[i] : (T)INFINITY;
            int open = !closest;
            for (int64_t j = 0; j < m; j++) {
                out[j * n + i] = old;
                if (closest) open |= !((double)old < reach[j * n_seeds + owner[i]]);
            }
            if (open) which[held++] = i;
        }
        if (!held || (held < ROWS && i < n)) continue;
        if (closest) multiply(&c, x, which, held, norms);
        for (int r = 0; r < held; r++) {
            int64_t at = which[r];
            const float *g = c.found + r * c.n_panels * PANEL;
            double error = closest ? error_of(&c, norms[r]) : 0;
            double room = closest ? (double)closest[at] * (1 + 1e-6) - norms[r] + error : 0;
            int sure = closest && error < 1e30; /* beyond, products overflow */
            int read = 0;
            for (int64_t j = 0; j < m; j++) {
                if (sure && (double)g[j] > room) continue;
                if (!read) widen(x + at * d, shift, d, c.point);
                read = 1;
                T new = (T)apart(c.point, c.wide + j * c.width, c.width);
                if (new < out[j * n + at]) out[j * n + at] = new;
            }
        }
        held = 0;
    }
    free(c.pivot);
    free(c.wide);
    return 0;
}

/* Centres after a batch, as running means, in the order of its rows. counts is changed. */
int64_t batch_update(const T *x, int64_t n, int64_t d, const T *weights, const int32_t *labels, const T *old, int64_t k,
                     T *counts, T *sums, T *out) {
    memset(sums, 0, sizeof(T) * k);
    for (int64_t i = 0; i < n; i++) sums[labels[i]] += weights[i];
    for (int64_t a = 0; a < k; a++) {
        T by = sums[a] > 0 ? counts[a] : (T)1;
        for (int64_t j = 0; j < d; j++) out[a * d + j] = old[a * d + j] * by;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t a = labels[i];
        if (!(sums[a] > 0)) continue;
        for (int64_t j = 0; j < d; j++) out[a * d + j] += x[i * d + j] * weights[i];
    }
    for (int64_t a = 0; a < k; a++) {
        if (!(sums[a] > 0)) continue;
        counts[a] += sums[a];
        T by = 1 / counts[a];
        for (int64_t j = 0; j < d; j++) out[a * d + j] *= by;
    }
    return 0;
}

/* Labels of sparse rows: entries of row i are starts[i] .. starts[i + 1], counted from the first. turned is d x k, the
   centres side by side, norms their squares; both float64, and so is what decides. room has k numbers. */
int64_t nearest_sparse(const T *data, const int64_t *columns, const int64_t *starts, int64_t n, const double *turned,
                       const double *norms, int64_t k, double *room, int32_t *labels) {
    for (int64_t i = 0; i < n; i++) {
        memset(room, 0, sizeof(double) * k);
        for (int64_t e = starts[i]; e < starts[i + 1]; e++) {
            const double *c = turned + columns[e] * k;
            double v = (double)data[e];
            for (int64_t j = 0; j < k; j++) room[j] += v * c[j];
        }
        double least = INFINITY;
        labels[i] = 0;
        for (int64_t j = 0; j < k; j++) {
            double v = norms[j] - 2 * room[j];
            if (v < least) least = v, labels[i] = (int32_t)j;
        }
    }
    return 0;
}
