/* The nearest of k centres for each row, and sums over the rows of each label. T is the element.

   Distances decide in float64, by the differences of a row and a centre (`apart`); the first of equal ones wins. What
   goes before only leaves out work whose outcome is certain: bounds kept from the pass before (`nearest`), and
   products in float32 with a bound on their error (`scan`). */

#include "products.c"

#define BLOCK 256 /* rows whose bounds are looked at together */
#define SKIPPED 4

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
    for (int i = 0; i < ROWS_AT_A_TIME; i++) other |= a[i] ^ b[i];
    return !other;
}

/* For rows whose label is another one than before: what they weigh, in whole numbers of 1 / scale, is taken from the
   old label and given to the new one. sums is (k + 1) x (d + 2): coordinates, the weight and how many rows have one;
  the last row counts how many have changed. before and weights may be NULL. */
int64_t label_sums(const T *x, int64_t n, int64_t d, const T *shift, const double *scale, const int32_t *now,
                   const int32_t *before, const T *weights, int64_t k, int64_t *sums) {
    int64_t width = d + 2, n_changed = 0;
    int64_t *q = malloc(sizeof(int64_t) * width);
    if (!q) return -1;
    for (int64_t i = 0; i < n; i++) {
        while (before && i + ROWS_AT_A_TIME <= n && same(now + i, before + i)) i += ROWS_AT_A_TIME;
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
static int moved(const T *old, const T *new, int64_t k, int64_t d, float *moves) {
    const int64_t width = PADDED(d);
    double first = 0, second = 0, *wide = widened(new, k, d), *next = malloc(sizeof(double) * (k + 1));
    if (!wide || !next) {
        free(wide);
        free(next);
        return -1;
    }
    for (int64_t a = 0; a < k; a++) next[a] = INFINITY;
    for (int64_t a = 0; a < k; a++) {
        double way = 0, nearest = next[a];
        for (int64_t j = 0; j < d; j++) {
            double v = wide[a * width + j] - (double)old[a * d + j];
            way += v * v;
        }
        way = sqrt(way);
        moves[3 * a] = above(way);
        if (way > first) second = first, first = way;
        else if (way > second) second = way;
        for (int64_t b = a + 1; b < k; b++) { /* each pair once */
            double far = apart(wide + a * width, wide + b * width, width);
            if (far < nearest) nearest = far;
            if (far < next[b]) next[b] = far;
        }
        moves[3 * a + 2] = k > 1 ? below(sqrt(nearest) / 2) : 0;
    }
    for (int64_t a = 0; a < k; a++) moves[3 * a + 1] = above(first) > moves[3 * a] ? above(first) : above(second);
    free(wide);
    free(next);
    return 0;
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
   no mean was made; -1 without memory. */
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
    return moved(centers, made, k, d, next_moves);
}

/* One of Lloyd's iterations over few rows: both. Returns how many labels have changed; below -1, less two: some label
   has no row, and no mean was made. */
int64_t step(const T *x, int64_t n, int64_t d, const T *shift, const double *scale, const T *weights, int64_t k,
             const T *centers, const float *moves, const int32_t *before, const float *kept, int32_t *labels,
             float *bounds, int64_t *sums, T *made, float *next_moves) {
    int64_t n_changed =
        assign(x, n, d, shift, scale, weights, k, centers, moves, before, kept, labels, bounds, sums);
    if (n_changed < 0) return -1;
    int64_t is_empty = means(sums, k, d, scale, centers, made, next_moves);
    return is_empty < 0 ? -1 : is_empty ? -2 - n_changed : n_changed;
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

/* Labels of sparse rows: entries of row i are starts[i] .. starts[i + 1], counted from the first. transposed is d x k, the
   centres side by side, norms their squares; both float64, and so is what decides. room has k numbers. */
int64_t nearest_sparse(const T *data, const int64_t *columns, const int64_t *starts, int64_t n, const double *transposed,
                       const double *norms, int64_t k, double *room, int32_t *labels) {
    for (int64_t i = 0; i < n; i++) {
        memset(room, 0, sizeof(double) * k);
        for (int64_t e = starts[i]; e < starts[i + 1]; e++) {
            const double *c = transposed + columns[e] * k;
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
