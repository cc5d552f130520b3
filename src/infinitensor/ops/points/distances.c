/* Distances of rows to rows: every pair summed along the coordinates in their order, in double. */

#include <math.h>
#include <stdlib.h>

#define WIDE 8
#define TALL 4

/* Columns side by side, WIDE of them for each coordinate; what is missing of the last ones is 0. */
static double *packed(const T *y, int64_t m, int64_t d) {
    int64_t n_panels = (m + WIDE - 1) / WIDE;
    double *made = malloc(n_panels * WIDE * d * sizeof(double) + 1);
    if (!made) return made;
    for (int64_t at = 0; at < n_panels; at++)
        for (int64_t k = 0; k < d; k++)
            for (int64_t l = 0; l < WIDE; l++) {
                int64_t j = at * WIDE + l;
                made[(at * d + k) * WIDE + l] = j < m ? (double)y[j * d + k] : 0;
            }
    return made;
}

/* STEP sees a (of x), b (of y), s and t (sums, 0 at first), w (extra[k]); DONE makes the distance of s and t. */
#define PAIRS(NAME, USES_EXTRA, STEP, DONE)                                                             \
    int64_t NAME(const T *x, int64_t n, const T *y, int64_t m, int64_t d, double p, const double *extra, double *out) { \
        (void)p, (void)extra;                                                                           \
        double *panels = packed(y, m, d);                                                               \
        if (!panels) return -1;                                                                         \
        for (int64_t j = 0; j < m; j += WIDE) {                                                         \
            const double *panel = panels + j * d;                                                       \
            int64_t wide = m - j < WIDE ? m - j : WIDE;                                                 \
            for (int64_t i = 0; i < n; i += TALL) {                                                     \
                double S[TALL][WIDE] = {{0}}, R[TALL][WIDE] = {{0}};                                    \
                int64_t tall = n - i < TALL ? n - i : TALL;                                             \
                const T *row[TALL];                                                                     \
                for (int r = 0; r < TALL; r++) row[r] = x + (i + (r < tall ? r : 0)) * d;               \
                for (int64_t k = 0; k < d; k++) {                                                       \
                    double w = USES_EXTRA ? extra[k] : 0;                                               \
                    (void)w;                                                                            \
                    _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++) {                            \
                        double a = (double)row[r][k];                                                   \
                        _Pragma("GCC unroll 8") for (int l = 0; l < WIDE; l++) {                        \
                            double b = panel[k * WIDE + l], s = S[r][l], t = R[r][l];                   \
                            STEP;                                                                       \
                            S[r][l] = s;                                                                \
                            R[r][l] = t;                                                                \
                        }                                                                               \
                    }                                                                                   \
                }                                                                                       \
                for (int64_t r = 0; r < tall; r++)                                                      \
                    for (int64_t l = 0; l < wide; l++) {                                                \
                        double s = S[r][l], t = R[r][l];                                                \
                        (void)t;                                                                        \
                        out[(i + r) * m + j + l] = DONE;                                                \
                    }                                                                                   \
            }                                                                                           \
        }                                                                                               \
        free(panels);                                                                                   \
        return 0;                                                                                       \
    }

PAIRS(sqeuclidean, 0, s += (a - b) * (a - b), s)
PAIRS(direct, 0, s += (a - b) * (a - b), sqrt(s))
PAIRS(cityblock, 0, s += fabs(a - b), s)
PAIRS(chebyshev, 0, t = fabs(a - b); s = t > s ? t : s, s)
PAIRS(minkowski, 0, s += pow(fabs(a - b), p), pow(s, 1 / p))
PAIRS(minkowski_w, 1, s += w * pow(fabs(a - b), p), pow(s, 1 / p))
PAIRS(seuclidean, 1, s += (a - b) * (a - b) / w, sqrt(s))
PAIRS(canberra, 0, t = fabs(a) + fabs(b); s += fabs(a - b) / (t + (t == 0)), s)
PAIRS(braycurtis, 0, s += fabs(a - b); t += fabs(a + b), s / t)
PAIRS(braycurtis_tree, 0, s += fabs(a - b); t += fabs(a) + fabs(b), t > 0 ? s / t : 0)
PAIRS(hamming, 0, s += a != b, s / d)
PAIRS(dot, 0, s += a * b, s)

/* Products of rows with columns as euclidean distances, summed over runs of columns: run r ends at ends[r] and adds to
   out[i * k + codes[r]]. Row i is column own[i] itself (-1: none of them). `single`: distances are rounded to float. */
int64_t run_sums(const double *g, int64_t n, int64_t m, const double *nx, const double *ny, const int64_t *ends,
                 const int64_t *codes, int64_t n_runs, const int64_t *own, int64_t single, double *out, int64_t k) {
    double *far = malloc((m + WIDE) * sizeof(double));
    if (!far) return -1;
    for (int64_t i = 0; i < n; i++) {
        const double *row = g + i * m;
        double mine = nx[i];
        if (single)
            for (int64_t j = 0; j < m; j++) {
                float v = (float)(-2 * row[j] + mine + ny[j]);
                far[j] = sqrtf(v > 0 ? v : 0);
            }
        else
            for (int64_t j = 0; j < m; j++) {
                double v = -2 * row[j] + mine + ny[j];
                far[j] = sqrt(v > 0 ? v : 0);
            }
        if (own[i] >= 0) far[own[i]] = 0;
        for (int64_t r = 0, j = 0; r < n_runs; r++) {
            double sums[WIDE] = {0}, all = 0;
            int64_t end = ends[r];
            for (; j + WIDE <= end; j += WIDE)
                for (int l = 0; l < WIDE; l++) sums[l] += far[j + l];
            for (; j < end; j++) all += far[j];
            for (int l = 0; l < WIDE; l++) all += sums[l];
            out[i * k + codes[r]] += all;
        }
    }
    free(far);
    return 0;
}
