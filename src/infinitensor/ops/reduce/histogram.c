/* Counting: how often each integer, how many values in each bin. T is the element. */

#if !IS_FLOAT
/* Adds to counts[v] for each v in 0 .. n_counts - 1; others are left out. */
int64_t count_values(const T *x, int64_t n, int64_t n_counts, int64_t *counts) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)x[i];
        if (v < (uint64_t)n_counts) counts[v]++;
    }
    return 0;
}

/* As count_values; the smallest and the largest value of all go into `ends`. Those of counted values follow from the
   counts, which costs less than comparing. */
int64_t count_and_ends(const T *x, int64_t n, int64_t n_counts, int64_t *counts, int64_t *ends) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)x[i];
        if (v < (uint64_t)n_counts) {
            counts[v]++;
            continue;
        }
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    for (int64_t v = 0; v < n_counts; v++)
        if (counts[v]) {
            least = v < least ? v : least;
            most = v > most ? v : most;
        }
    ends[0] = least;
    ends[1] = most;
    return 0;
}

/* Adds weights to sums[v] likewise; the ends as above. */
#define SUM_WEIGHTS(W)                                                                                    \
    int64_t sum_weights_##W(const T *x, int64_t n, int64_t n_sums, double *sums, const W *weights, int64_t *ends) { \
        int64_t least = INT64_MAX, most = INT64_MIN;                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                 \
            int64_t v = (int64_t)x[i];                                                                    \
            least = v < least ? v : least;                                                                \
            most = v > most ? v : most;                                                                   \
            if ((uint64_t)v < (uint64_t)n_sums) sums[v] += (double)weights[i];                            \
        }                                                                                                 \
        ends[0] = least;                                                                                  \
        ends[1] = most;                                                                                   \
        return 0;                                                                                         \
    }
SUM_WEIGHTS(float)
SUM_WEIGHTS(double)
#endif

/* The number of each value's bin among rising edges; the last bin has its right edge too, others get -1.
   A guess as if bins were of one width is put right by looking at the edges. */
static inline __attribute__((always_inline)) int64_t bin_of(double v, const double *edges, int64_t n_bins, double scale) {
    double first = edges[0], last = edges[n_bins];
    if (!(v >= first && v <= last)) return -1;
    int64_t bin = (int64_t)((v - first) * scale);
    bin = bin < n_bins ? bin : n_bins - 1;
    while (v < edges[bin]) bin--;
    while (bin < n_bins - 1 && v >= edges[bin + 1]) bin++;
    return bin;
}

int64_t count_bins(const T *x, int64_t n, const double *edges, int64_t n_bins, int64_t *counts) {
    double scale = n_bins / (edges[n_bins] - edges[0]);
    if (!(scale > 0 && scale < 1e300)) scale = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t bin = bin_of((double)x[i], edges, n_bins, scale);
        if (bin >= 0) counts[bin]++;
    }
    return 0;
}
