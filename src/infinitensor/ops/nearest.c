/* The nearest of k centres for each row, and sums over the rows of each label. T is the element.

   Distances decide in float64, by the differences of a row and a centre (`apart`); the first of equal ones wins. What
   goes before only leaves out work whose outcome is certain: bounds kept from the pass before (`nearest`), and
   products in float32 with a bound on their error (`scan`). */

#include "apart.c"

#define WIDE 2
#define ROWS (LANES * WIDE)
#define BLOCK 256 /* rows whose bounds are looked at together */
#define SKIPPED 4

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
INLINE int stripe(int64_t left) { return left >= MANY - 1 ? MANY : left > 2 ? 4 : 2; }

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
static void turn(const Centers *c, const T *x, const int64_t *which, int n) {
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
    V sum[MANY][WIDE];
    for (int i = 0; i < n; i++)
        for (int w = 0; w < WIDE; w++) sum[i][w] = (V){0};
    for (int64_t j = 0; j < c->d; j++, from += n, x += WIDE) {
#if defined(__aarch64__) && MANY % 4 == 0
        /* four centres a load, taken by lane: to load and spread each would keep a pipe from multiplying */
        Q four[(MANY + 3) / 4];
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
        if (n == MANY) products_of(c, begin, MANY, found);
        else if (n == 4) products_of(c, begin, 4, found);
        else products_of(c, begin, 2, found);
        begin += n;
    }
}

/* Products with every centre, kept in c->found. */
static void products_alone(const Centers *c) { products(c, 0); }

static void products_least(const Centers *c, Least *found) {
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
    turn(c, x, which, n);
    lengths(c, norms);
    for (int w = 0; w < WIDE; w++) {
        V length = root(norms[w]);
        errors[w] = (c->fixed + length * (c->linear + length * c->square)) * UP;
    }
}

/* The nearest of all centres to one row whose products, ROWS apart, are known to within `error`. */
static int32_t decide(const Centers *c, const T *x, const float *g, float first, float norm, float error, float *upper,
                      float *lower) {
    int sure = error < TRUSTED;
    double limit = sure ? (double)first + 2 * (double)error : INFINITY, least = INFINITY;
    double next = sure ? first + (double)norm * (1 - c->own) + error : INFINITY;
    int32_t at = 0;
    widen(x, c->shift, c->d, c->point);
    for (int64_t j = 0; j < c->k; j++)
        if (!((double)g[j * ROWS] > limit)) {
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

/* Rows `which` (at most ROWS) against all centres. */
static void scan(const Centers *c, const T *x, const int64_t *which, int n, int32_t *labels, float *bounds) {
    V norms[WIDE], errors[WIDE], upper[WIDE], lower[WIDE];
    VI sure[WIDE];
    Least found;
    multiply(c, x, which, n, norms, errors);
    products_least(c, &found);
    for (int w = 0; w < WIDE; w++) {
        V slack = errors[w] + norms[w] * c->own, none = {0};
        upper[w] = root(most(found.first[w] + norms[w] + slack, none)) * UP + 1e-37f;
        lower[w] = root(most(found.second[w] + norms[w] - slack, none)) * DOWN - 1e-37f;
        sure[w] = (errors[w] < TRUSTED) & (found.second[w] - found.first[w] > 2.00001f * errors[w]);
    }
    VI all = sure[0];
    for (int w = 1; w < WIDE; w++) all &= sure[w];
    int32_t at[ROWS], known[LANES], every = -1;
    float near[ROWS], far[ROWS];
    memcpy(at, found.at, sizeof at);
    memcpy(near, upper, sizeof near);
    memcpy(far, lower, sizeof far);
    memcpy(known, &all, sizeof known);
    for (int l = 0; l < LANES; l++) every &= known[l];
    if (!every)
        for (int r = 0; r < n; r++) {
            int w = r / LANES, l = r % LANES;
            if (sure[w][l]) continue;
            const T *row = x + which[r] * c->d;
            at[r] = decide(c, row, c->found + r, found.first[w][l], norms[w][l], errors[w][l], near + r, far + r);
        }
    if (n == ROWS && which[n - 1] - which[0] == n - 1) { /* rows that follow each other: they come in rising order */
        memcpy(labels + which[0], at, sizeof at);
        if (!bounds) return;
        float *to = bounds + 2 * which[0];
        for (int r = 0; r < ROWS; r++) to[2 * r] = near[r], to[2 * r + 1] = far[r];
        return;
    }
    for (int r = 0; r < n; r++) {
        int64_t i = which[r];
        labels[i] = at[r];
        if (bounds) bounds[2 * i] = near[r], bounds[2 * i + 1] = far[r];
    }
}

/* How far a row is from a centre at most, by differences in its own precision. */
INLINE float at_most(const Centers *c, const T *x, int64_t a) {
    const T *center = c->centers + a * c->d, *shift = c->shift;
    const int64_t step = sizeof(Own) / sizeof(T);
    Own sum[2] = {{0}, {0}};
    int64_t j = 0;
    for (; j + 2 * step <= c->d; j += 2 * step)
        for (int i = 0; i < 2; i++) {
            int64_t at = j + i * step;
            Own v = (*(const Own *)(x + at) - *(const Own *)(shift + at)) - *(const Own *)(center + at);
            sum[i] += v * v;
        }
    if (j + step <= c->d) {
        Own v = (*(const Own *)(x + j) - *(const Own *)(shift + j)) - *(const Own *)(center + j);
        sum[0] += v * v;
        j += step;
    }
    sum[0] += sum[1];
    T total = 0;
    for (int64_t i = 0; i < step; i++) total += sum[0][i];
    for (; j < c->d; j++) {
        T v = (T)(x[j] - shift[j]) - center[j];
        total += v * v;
    }
    return sqrtf(above((double)total)) * (1 + c->own) * UP;
}

/* Of rows begin .. end the labels and bounds that moves leave; `open` gets those that may be nearer to another centre.
   No step depends on an outcome, so that none is guessed wrong. Returns how many are open. */
INLINE int left_open(int64_t begin, int64_t end, const int32_t *before, const float *kept, const float *moves,
                     int32_t *labels, float *bounds, int64_t *open) {
    int n_open = 0;
    for (int64_t i = begin; i < end; i++) {
        int32_t a = before[i];
        const float *move = moves + 3 * (a < 0 ? 0 : a);
        float upper = (kept[2 * i] + move[0]) * UP, lower = kept[2 * i + 1] - move[1];
        lower = lower > 0 ? lower * DOWN : -1e-37f;
        float room = lower > move[2] ? lower : move[2];
        labels[i] = a;
        bounds[2 * i] = upper;
        bounds[2 * i + 1] = lower;
        open[n_open] = i;
        n_open += (a < 0) | !(upper < room);
    }
    return n_open;
}

/* The way to the own centre is measured of rows that are open: how many are so still. */
INLINE int still_open(const Centers *c, const T *x, const float *moves, const int32_t *labels, float *bounds,
                      int64_t *open, int n_open) {
    int n = 0;
    for (int t = 0; t < n_open; t++) {
        int64_t i = open[t];
        int32_t a = labels[i];
        open[n] = i;
        if (a < 0) {
            n++;
            continue;
        }
        float upper = at_most(c, x + i * c->d, a), lower = bounds[2 * i + 1], half = moves[3 * a + 2];
        bounds[2 * i] = upper;
        n += !(upper < (lower > half ? lower : half));
    }
    return n;
}

/* Labels of rows, and how near each row's centre is at most and every other one at least.

   With `before` and `kept`, of centres that have moved since: moves[3a] is how far centre a has moved, moves[3a + 1]
   how far any other has, moves[3a + 2] half the way from it to the next. A row that stays nearer to its centre than
   that keeps it. Where bounds do not say so, the way to the own centre is measured anew; but not where that was of no use
   for the rows before. Returns how many rows were compared with every centre. */
int64_t nearest(const T *x, int64_t n, int64_t d, const T *shift, const T *centers, int64_t k, const int32_t *before,
                const float *kept, const float *moves, int32_t *labels, float *bounds) {
    Centers c;
    if (pack(&c, centers, k, d, shift)) return -1;
    int64_t open[BLOCK + ROWS], n_compared = 0;
    int held = 0, to_skip = 0; /* rows that wait for more, blocks that are not measured */
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        int64_t end = begin + BLOCK < n ? begin + BLOCK : n;
        int n_open = (int)(end - begin);
        if (before) {
            n_open = left_open(begin, end, before, kept, moves, labels, bounds, open + held);
            if (to_skip) to_skip--;
            else if (n_open) {
                int n_before = n_open;
                n_open = still_open(&c, x, moves, labels, bounds, open + held, n_open);
                /* about what it takes, as a part of comparing with k centres */
                if ((n_before - n_open) * (k + 8) < 4 * n_before) to_skip = SKIPPED;
            }
        } else
            for (int t = 0; t < n_open; t++) open[held + t] = begin + t;
        n_open += held;
        n_compared += n_open - held;
        int t = 0;
        for (; t + ROWS <= n_open; t += ROWS) scan(&c, x, open + t, ROWS, labels, bounds);
        held = n_open - t;
        memmove(open, open + t, sizeof(int64_t) * held);
    }
    if (held) scan(&c, x, open, held, labels, bounds);
    unpack(&c);
    return n_compared;
}

INLINE int same(const int32_t *a, const int32_t *b) {
    int32_t other = 0;
    for (int i = 0; i < AT_ONCE; i++) other |= a[i] ^ b[i];
    return !other;
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
        while (before && i + AT_ONCE <= n && same(now + i, before + i)) i += AT_ONCE;
        if (i == n) break;
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

/* What `nearest` asks for of centres that have moved from old to new: ways moved are rounded up, half the way to the
   next one down. */
static void moved(const T *old, const T *new, int64_t k, int64_t d, float *moves) {
    double first = 0, second = 0;
    for (int64_t a = 0; a < k; a++) {
        double way = 0, next = INFINITY;
        for (int64_t j = 0; j < d; j++) {
            double v = (double)new[a * d + j] - (double)old[a * d + j];
            way += v * v;
        }
        way = sqrt(way);
        moves[3 * a] = above(way);
        if (way > first) second = first, first = way;
        else if (way > second) second = way;
        for (int64_t b = 0; b < k; b++) {
            double far = 0;
            for (int64_t j = 0; j < d; j++) {
                double v = (double)new[a * d + j] - (double)new[b * d + j];
                far += v * v;
            }
            if (b != a && far < next) next = far;
        }
        moves[3 * a + 2] = k > 1 ? below(sqrt(next) / 2) : 0;
    }
    for (int64_t a = 0; a < k; a++) moves[3 * a + 1] = above(first) > moves[3 * a] ? above(first) : above(second);
}

/* Labels and bounds of rows that follow the centres, and what that changes in the sums by label. Returns how many
   labels have changed. */
int64_t assign(const T *x, int64_t n, int64_t d, const T *shift, const double *scale, const T *weights, int64_t k,
               const T *centers, const float *moves, const int32_t *before, const float *kept, int32_t *labels,
               float *bounds, int64_t *sums) {
    int64_t *n_changed = sums + k * (d + 2), known = *n_changed;
    if (nearest(x, n, d, shift, centers, k, before, kept, moves, labels, bounds) < 0) return -1;
    if (label_sums(x, n, d, shift, scale, labels, before, weights, k, sums) < 0) return -1;
    return *n_changed - known;
}

/* The means that sums by label make, and how far those are from the centres. Returns 1 if some label has no row: then
   no mean was made. */
int64_t means(const int64_t *sums, int64_t k, int64_t d, const double *scale, const T *centers, T *made,
              float *next_moves) {
    int64_t width = d + 2, largest = 0;
    for (int64_t a = 0; a < k; a++)
        if (!sums[a * width + d + 1]) return 1;
    for (int64_t a = 0; a < k; a++)
        if (sums[a * width + d] > sums[largest * width + d]) largest = a;
    for (int64_t a = 0; a < k; a++) {
        const int64_t *own = sums + (sums[a * width + d] > 0 ? a : largest) * width;
        double weight = (double)own[d] / scale[d], by = weight > 0 ? 1.0 / weight : 1.0;
        for (int64_t j = 0; j < d; j++) made[a * d + j] = (T)(weight > 0 ? (double)own[j] / scale[j] * by : 0.0);
    }
    moved(centers, made, k, d, next_moves);
    return 0;
}

/* One of Lloyd's iterations over few rows: both. Returns how many labels have changed; below -1, less two: some label
   has no row, and no mean was made. */
int64_t step(const T *x, int64_t n, int64_t d, const T *shift, const double *scale, const T *weights, int64_t k,
             const T *centers, const float *moves, const int32_t *before, const float *kept, int32_t *labels,
             float *bounds, int64_t *sums, T *made, float *next_moves) {
    int64_t n_changed =
        assign(x, n, d, shift, scale, weights, k, centers, moves, before, kept, labels, bounds, sums);
    if (n_changed < 0) return -1;
    return means(sums, k, d, scale, centers, made, next_moves) ? -2 - n_changed : n_changed;
}

/* Weighted squared distances to the centre of each row's label, added up by label in two whole numbers: of 1 / scale
   and of 2^-40 of that. Rows are x[where[i]]; where NULL: all, in order. */
int64_t label_inertia(const T *x, const int64_t *where, int64_t n, int64_t d, const T *shift, const T *centers,
                      int64_t k, const int32_t *labels, const T *weights, double scale, int64_t *sums) {
    int64_t width = PADDED(d);
    double *wide = widened(centers, k, d);
    if (!wide) return -1;
    double *point = wide + k * width;
    for (int64_t i = 0; i < n; i++) {
        int32_t a = labels[i];
        widen(x + (where ? where[i] : i) * d, shift, d, point);
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

/* Distances of rows to k points, squared or not: out is n x k, or k x n if `turned`. */
INLINE int64_t measured(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t k, int squared,
                        int turned, T *out) {
    int64_t width = PADDED(d);
    double *wide = widened(points, k, d);
    if (!wide) return -1;
    double *point = wide + k * width;
    for (int64_t i = 0; i < n; i++) {
        widen(x + i * d, shift, d, point);
        for (int64_t j = 0; j < k; j++) {
            double v = apart(point, wide + j * width, width);
            out[turned ? j * n + i : i * k + j] = (T)(squared ? v : sqrt(v));
        }
    }
    free(wide);
    return 0;
}

int64_t distances(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t k, int64_t squared,
                  T *out) {
    return measured(x, n, d, shift, points, k, (int)squared, 0, out);
}

/* For each of m candidates: the squared distances to the nearest seed so far, were it one too. A row as near to its
   seed as reach[candidate, seed] cannot be nearer to the candidate. owner and closest NULL: there is no seed yet. */
int64_t closer(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t m, const T *closest,
               const int32_t *owner, const double *reach, int64_t n_seeds, T *out) {
    Centers c;
    if (!closest) return measured(x, n, d, shift, points, m, 1, 1, out);
    if (pack(&c, points, m, d, shift)) return -1;
    double *nearest = malloc(sizeof(double) * (n_seeds + 1)); /* reach of the candidate that is nearest to each seed */
    if (!nearest) {
        unpack(&c);
        return -1;
    }
    for (int64_t s = 0; s < n_seeds; s++) {
        nearest[s] = INFINITY;
        for (int64_t j = 0; j < m; j++) nearest[s] = fmin(nearest[s], reach[j * n_seeds + s]);
    }
    for (int64_t j = 0; j < m; j++) memcpy(out + j * n, closest, sizeof(T) * n);
    int64_t which[ROWS];
    V norms[WIDE], errors[WIDE];
    float room[ROWS];
    int32_t open[ROWS];
    int held = 0;
    for (int64_t i = 0; i <= n; i++) {
        if (i < n && !((double)closest[i] < nearest[owner[i]])) which[held++] = i;
        if (!held || (held < ROWS && i < n)) continue;
        multiply(&c, x, which, held, norms, errors);
        products_alone(&c);
        for (int r = 0; r < ROWS; r++) {
            double far = (double)closest[which[r < held ? r : 0]] * (1 + 1e-6), error = errors[r / LANES][r % LANES];
            far = far - (double)norms[r / LANES][r % LANES] * (1 - c.own) + error;
            room[r] = error < TRUSTED ? (float)(far + fabs(far) * 1e-6) : INFINITY;
            open[r] = 0;
        }
        for (int64_t j = 0; j < m; j++)
            for (int r = 0; r < ROWS; r++) open[r] |= !(c.found[j * ROWS + r] > room[r]);
        for (int r = 0; r < held; r++) {
            if (!open[r]) continue;
            int64_t at = which[r];
            widen(x + at * d, shift, d, c.point);
            for (int64_t j = 0; j < m; j++) {
                if (c.found[j * ROWS + r] > room[r]) continue;
                T new = (T)apart(c.point, c.wide + j * c.width, c.width);
                if (new < out[j * n + at]) out[j * n + at] = new;
            }
        }
        held = 0;
    }
    free(nearest);
    unpack(&c);
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
