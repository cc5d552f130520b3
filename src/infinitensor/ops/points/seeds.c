/* Distances of rows to points, and the seeds of k-means++ that are drawn by them. T is the element.

   Distances are float64's, by the differences of a row and a point (`apart`). What goes before only leaves out work
   whose outcome is certain: rows that are too near to their seed for a candidate to matter, and products. */

#include "products.c"

/* Distances of rows to k points, squared or not: out is n x k, or k x n if `transposed`. */
INLINE int64_t measured(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t k, int squared,
                        int transposed, T *out) {
    int64_t width = PADDED(d);
    double *wide = widened(points, k, d);
    if (!wide) return -1;
    double *point = wide + k * width;
    for (int64_t i = 0; i < n; i++) {
        widen(x + i * d, shift, d, point);
        for (int64_t j = 0; j < k; j++) {
            double v = apart(point, wide + j * width, width);
            out[transposed ? j * n + i : i * k + j] = (T)(squared ? v : sqrt(v));
        }
    }
    free(wide);
    return 0;
}

int64_t distances(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t k, int64_t squared,
                  T *out) {
    return measured(x, n, d, shift, points, k, (int)squared, 0, out);
}

/* For each of m candidates: the squared distances to the nearest seed so far, were it one too. Rows whose seed s is as
   near as nearest[s] stay there. */
static void left_by(const Centers *c, const T *x, int64_t n, const T *closest, const int32_t *owner,
                    const double *nearest, T *out) {
    const int64_t m = c->k, d = c->d;
    for (int64_t j = 0; j < m; j++) memcpy(out + j * n, closest, sizeof(T) * n);
    int64_t which[ROWS];
    V norms[WIDE], errors[WIDE];
    float room[ROWS];
    int32_t open[ROWS];
    int held = 0;
    for (int64_t i = 0; i <= n; i++) {
        if (i < n && !((double)closest[i] < nearest[owner[i]])) which[held++] = i;
        if (!held || (held < ROWS && i < n)) continue;
        multiply(c, x, which, held, norms, errors);
        products_alone(c);
        for (int r = 0; r < ROWS; r++) {
            double far = (double)closest[which[r < held ? r : 0]] * (1 + 1e-6), error = errors[r / LANES][r % LANES];
            far = far - (double)norms[r / LANES][r % LANES] * (1 - c->own) + error;
            room[r] = error < TRUSTED ? (float)(far + fabs(far) * 1e-6) : INFINITY;
            open[r] = 0;
        }
        for (int64_t j = 0; j < m; j++)
            for (int r = 0; r < ROWS; r++) open[r] |= !(c->found[j * ROWS + r] > room[r]);
        for (int r = 0; r < held; r++) {
            if (!open[r]) continue;
            int64_t at = which[r];
            widen(x + at * d, c->shift, d, c->point);
            for (int64_t j = 0; j < m; j++) {
                if (c->found[j * ROWS + r] > room[r]) continue;
                T new = (T)apart(c->point, c->wide + j * c->width, c->width);
                if (new < out[j * n + at]) out[j * n + at] = new;
            }
        }
        held = 0;
    }
}

/* The same, of seeds that are known by reach[candidate, seed]: no row as near to its seed as that is nearer to the
   candidate. owner and closest NULL: there is no seed yet. */
int64_t closer(const T *x, int64_t n, int64_t d, const T *shift, const T *points, int64_t m, const T *closest,
               const int32_t *owner, const double *reach, int64_t n_seeds, T *out) {
    Centers c;
    if (!closest) return measured(x, n, d, shift, points, m, 1, 1, out);
    if (pack(&c, points, m, d, shift)) return -1;
    double *nearest = malloc(sizeof(double) * (n_seeds + 1)); /* reach of the candidate that is nearest to each seed */
    if (nearest) {
        for (int64_t s = 0; s < n_seeds; s++) {
            nearest[s] = INFINITY;
            for (int64_t j = 0; j < m; j++) nearest[s] = fmin(nearest[s], reach[j * n_seeds + s]);
        }
        left_by(&c, x, n, closest, owner, nearest, out);
    }
    unpack(&c);
    free(nearest);
    return nearest ? 0 : -1;
}

/* Where the running sum of x times weights (if given) reaches each of m draws; the last row where it never does. */
static void drawn(const T *x, const T *weights, int64_t n, const double *draws, int64_t m, int64_t *order,
                  int64_t *rows) {
    for (int64_t j = 0; j < m; j++) {
        int64_t at = j;
        for (; at && draws[order[at - 1]] > draws[j]; at--) order[at] = order[at - 1];
        order[at] = j;
    }
    T sum = 0;
    int64_t next = 0;
    for (int64_t i = 0; i < n && next < m; i++) {
        T value = weights ? weights[i] * x[i] : x[i];
        sum = i ? sum + value : value;
        while (next < m && !((double)sum < draws[order[next]])) rows[order[next++]] = i;
    }
    while (next < m) rows[order[next++]] = n - 1;
}

/* A step of greedy k-means++ over few rows, after n_seeds seeds. First the last of these, which was candidate `best` of
   the step before (below 0: it is the first of all), takes the rows that are nearer to it. Then rows are drawn by what
   is left (closest), and out has for each what it would leave. seeds has float64's values, each seed with zeros up to a
   multiple of eight. */
int64_t try_seeds(const T *x, int64_t n, int64_t d, const T *shift, const T *weights, const double *draws, int64_t m,
                  int64_t best, int64_t n_seeds, double *seeds, T *closest, int32_t *owner, int64_t *rows,
                  T *candidates, T *out) {
    const int64_t width = PADDED(d);
    if (best >= 0) {
        double *to = seeds + (n_seeds - 1) * width;
        for (int64_t j = 0; j < d; j++) to[j] = (double)candidates[best * d + j];
        const T *nearer = out + best * n;
        const int32_t last = (int32_t)(n_seeds - 1);
        for (int64_t i = 0; i < n; i++) {
            owner[i] = nearer[i] < closest[i] ? last : owner[i];
            closest[i] = nearer[i];
        }
    }
    double *nearest = malloc(sizeof(double) * (n_seeds + m + 1));
    if (!nearest) return -1;
    drawn(closest, weights, n, draws, m, (int64_t *)(nearest + n_seeds), rows);
    for (int64_t t = 0; t < m; t++)
        for (int64_t j = 0; j < d; j++) candidates[t * d + j] = (T)(x[rows[t] * d + j] - shift[j]);
    Centers c;
    if (pack(&c, candidates, m, d, shift)) {
        free(nearest);
        return -1;
    }
    for (int64_t s = 0; s < n_seeds; s++) {
        double least = INFINITY;
        for (int64_t t = 0; t < m; t++) {
            double far = apart(c.wide + t * width, seeds + s * width, width);
            if (far < least) least = far;
        }
        nearest[s] = least * (0.25 - 1e-6); /* half the way there */
    }
    left_by(&c, x, n, closest, owner, nearest, out);
    unpack(&c);
    free(nearest);
    return 0;
}
