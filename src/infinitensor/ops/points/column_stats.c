/* Of the rows of a matrix: the least and the greatest value of each column, and the squared distances to its mean in
   all. T is the element; sums are in double. Loops go along rows, four at a time: compilers make vectors of them. */

#include <stdlib.h>

#define SHORT 16 /* rows of fewer numbers are taken TURNS at a time, as one */
#define TURNS 8

#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))

static void spread(const T *restrict x, int64_t n, int64_t d, const double *restrict mean, double *restrict away,
                   T *restrict low, T *restrict high) {
    for (int64_t j = 0; j < d; j++) away[j] = 0, low[j] = high[j] = x[j];
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, x += 4 * d) {
        const T *a = x, *b = x + d, *c = x + 2 * d, *e = x + 3 * d;
        for (int64_t j = 0; j < d; j++) {
            double p = (double)a[j] - mean[j], q = (double)b[j] - mean[j], r = (double)c[j] - mean[j],
                   s = (double)e[j] - mean[j];
            away[j] += (p * p + q * q) + (r * r + s * s);
            T f = LESS(a[j], b[j]), g = LESS(c[j], e[j]), h = MORE(a[j], b[j]), k = MORE(c[j], e[j]);
            f = LESS(f, g), h = MORE(h, k);
            low[j] = LESS(f, low[j]), high[j] = MORE(h, high[j]);
        }
    }
    for (; i < n; i++, x += d)
        for (int64_t j = 0; j < d; j++) {
            double p = (double)x[j] - mean[j];
            away[j] += p * p;
            low[j] = LESS(x[j], low[j]), high[j] = MORE(x[j], high[j]);
        }
}

/* -1 without memory. Where a value is NaN the mean is, and low and high mean nothing. */
int64_t columns(const T *x, int64_t n, int64_t d, const double *mean, double *away, T *low, T *high) {
    int64_t turns = d < SHORT && n >= TURNS ? TURNS : 1, width = turns * d, whole = n / turns, rest = n - whole * turns;
    double *means = calloc(1, sizeof(double) * (size_t)(2 * width + d) + sizeof(T) * (size_t)(2 * width + 2 * d));
    if (!means) return -1;
    double *part = means + width, *last = part + width;
    T *lo = (T *)(last + d), *hi = lo + width, *last_lo = hi + width, *last_hi = last_lo + d;
    for (int64_t t = 0; t < turns; t++)
        for (int64_t j = 0; j < d; j++) means[t * d + j] = mean[j];
    spread(x, whole, width, means, part, lo, hi);
    if (rest) spread(x + whole * width, rest, d, mean, last, last_lo, last_hi);
    for (int64_t j = 0; j < d; j++) {
        away[j] = rest ? last[j] : 0;
        low[j] = rest ? last_lo[j] : lo[j], high[j] = rest ? last_hi[j] : hi[j];
        for (int64_t t = 0; t < turns; t++) {
            away[j] += part[t * d + j];
            low[j] = LESS(lo[t * d + j], low[j]), high[j] = MORE(hi[t * d + j], high[j]);
        }
    }
    free(means);
    return 0;
}
