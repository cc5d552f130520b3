/* Searching in sorted values, many at once so that their steps overlap, and lines between points. */

#define LANES 8
#define INLINE static inline __attribute__((always_inline))

/* Into `found`: how many of the n sorted values are below (after: not above) each of LANES values. NaN compares
   with nothing, so those at the end of `a` are never counted. */
INLINE void bisect(const T *a, int64_t n, const T *v, int64_t *found, int after) {
    uint64_t base[LANES] = {0};
    while (n > 1) {
        int64_t half = n / 2;
#pragma GCC unroll 8
        for (int k = 0; k < LANES; k++) { /* a mask and no choice, or compilers branch */
            T middle = a[base[k] + half - 1];
            base[k] += half & -(uint64_t)(after ? middle <= v[k] : middle < v[k]);
        }
        n -= half;
    }
    for (int k = 0; k < LANES; k++) found[k] = base[k] + (n > 0 && (after ? a[base[k]] <= v[k] : a[base[k]] < v[k]));
}

INLINE void bisect_all(const T *a, int64_t n, const T *v, int64_t n_values, int64_t *out, int after) {
    int64_t i = 0;
    for (; i + LANES <= n_values; i += LANES) bisect(a, n, v + i, out + i, after);
    if (i < n_values) {
        T last[LANES] = {0};
        int64_t found[LANES];
        for (int64_t k = i; k < n_values; k++) last[k - i] = v[k];
        bisect(a, n, last, found, after);
        for (int64_t k = i; k < n_values; k++) out[k] = found[k - i];
    }
}

/* NumPy's searchsorted: NaN is above every number. */
int64_t search(const T *a, int64_t n, const T *v, int64_t n_values, int64_t *out, int64_t after) {
    if (after) bisect_all(a, n, v, n_values, out, 1);
    else bisect_all(a, n, v, n_values, out, 0);
#if IS_FLOAT
    int64_t n_numbers = n;
    while (n_numbers > 0 && a[n_numbers - 1] != a[n_numbers - 1]) n_numbers--;
    for (int64_t i = 0; i < n_values; i++)
        if (v[i] != v[i]) out[i] = after ? n : n_numbers;
#endif
    return 0;
}

#if IS_FLOAT
/* NumPy's interp at x, between the n points (at, value). */
int64_t interpolate(const T *x, int64_t n_values, const T *at, const T *value, int64_t n, T left, T right, T *out) {
    int64_t found[LANES];
    for (int64_t i = 0; i < n_values; i += LANES) {
        int64_t here = n_values - i < LANES ? n_values - i : LANES;
        bisect_all(at, n, x + i, here, found, 1);
        for (int64_t k = 0; k < here; k++) {
            int64_t j = found[k] > 0 ? found[k] - 1 : 0;
            T v = x[i + k], made;
            if (v != v) made = n == 1 ? value[0] : v; /* one point is asked only what is beside it */
            else if (v > at[n - 1]) made = right;
            else if (v < at[0]) made = left;
            else if (j == n - 1) made = value[j];
            else if (v == at[j]) made = value[j];
            else {
                T slope = (value[j + 1] - value[j]) / (at[j + 1] - at[j]);
                made = slope * (v - at[j]) + value[j];
                if (made != made) {
                    made = slope * (v - at[j + 1]) + value[j + 1];
                    if (made != made && value[j] == value[j + 1]) made = value[j];
                }
            }
            out[i + k] = made;
        }
    }
    return 0;
}
#endif
