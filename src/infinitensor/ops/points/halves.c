/* Rows that two centres part: which one is nearer is the sign of one product. T is the element.

   (m - x) . w, where w leads from the first centre to the second and m is half way, is half of how much farther the
   second is, squared. Where the product is larger than its error it decides; else `apart` does, in float64, and the
   first of equal ones wins. Rows are x[where[i]] less a shift: where rows of a tree's node are among the others they
   are read there, none is copied. */

#include "apart.c"

#define BLOCK 256 /* rows that are looked at together */
#define AHEAD 12  /* rows that are asked for before they are read: they do not follow each other */

typedef struct {
    int64_t d, width;
    const T *x, *shift, *middle;
    T *way;                       /* w */
    double *wide, *point;         /* centres in float64, and room for a row */
    double half;                  /* m . w */
    double fixed, linear, square; /* the error of a product: fixed + linear * length + square * length^2 */
    double offset;                /* the length of the middle */
} Halves;

/* Roundings of the way, of d products and their sum, of m . w and of the last difference, each at most a unit of what
   they stand for; then what `apart` leaves in float64. */
static void bound(Halves *h) {
    double unit = (sizeof(T) == 4 ? UNIT : UNIT * UNIT / 32) * 1.01, d = (double)h->d, apart = (d + 8) * 2.3e-16;
    double first = 0, second = 0, way = 0, most;
    h->half = h->offset = 0;
    for (int64_t j = 0; j < h->d; j++) {
        double a = h->wide[j], b = h->wide[h->width + j], v = b - a, middle = (double)h->middle[j];
        h->way[j] = (T)v;
        h->half += (a + b) / 2 * v;
        first += a * a, second += b * b, way += v * v;
        h->offset += middle * middle;
    }
    most = sqrt(first > second ? first : second), way = sqrt(way), h->offset = sqrt(h->offset);
    h->fixed = (4 * unit * way + apart * (way + most)) * most + d * 1e-37;
    h->linear = (unit * (d + 8) * way + 2 * apart * most) * UP;
    h->square = apart * UP;
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
/* Products with the way of four rows; with `squares`, how long the rows are about the middle. */
INLINE void four(const Halves *h, const T *const *from, T *dots, T *squares) {
    const int64_t d = h->d, step = sizeof(Own) / sizeof(T);
    Own sum[4], square[4];
    for (int i = 0; i < 4; i++) sum[i] = square[i] = (Own){0};
    int64_t j = 0;
    for (; j + step <= d; j += step) {
        Own shift = *(const Own *)(h->shift + j), way = *(const Own *)(h->way + j);
        for (int i = 0; i < 4; i++) {
            Own v = *(const Own *)(from[i] + j) - shift;
            sum[i] += v * way;
            if (!squares) continue;
            v -= *(const Own *)(h->middle + j);
            square[i] += v * v;
        }
    }
    for (int i = 0; i < 4; i++) {
        T total = 0, length = 0;
        for (int64_t t = j; t < d; t++) {
            T v = from[i][t] - h->shift[t];
            total += v * h->way[t];
            if (!squares) continue;
            v -= h->middle[t];
            length += v * v;
        }
        for (int64_t t = 0; t < step; t++) total += sum[i][t];
        dots[i] = total;
        if (!squares) continue;
        for (int64_t t = 0; t < step; t++) length += square[i][t];
        squares[i] = length;
    }
}

INLINE void products_of(const Halves *h, const int64_t *rows, int n, T *dots, T *squares) {
    const int64_t line = 64 / sizeof(T), far = h->d < 4 * line ? h->d : 4 * line;
    for (int t = 0; t < n; t += 4) {
        const T *from[4];
        for (int i = 0; i < 4; i++) {
            from[i] = h->x + rows[t + i < n ? t + i : t] * h->d;
            if (t + i + AHEAD >= n) continue;
            const T *next = h->x + rows[t + i + AHEAD] * h->d;
            for (int64_t j = 0; j < far; j += line) __builtin_prefetch(next + j);
        }
        four(h, from, dots + t, squares ? squares + t : 0);
    }
}

static void products(const Halves *h, const int64_t *rows, int n, T *dots) { products_of(h, rows, n, dots, 0); }

static void products_and_lengths(const Halves *h, const int64_t *rows, int n, T *dots, T *squares) {
    products_of(h, rows, n, dots, squares);
}
#pragma GCC pop_options

/* What a row weighs, in whole numbers of 1 / scale, is given to a label, or taken from it. */
INLINE void give(int64_t *to, const Halves *h, const T *from, const double *scale, const T *weight, int64_t sign) {
    const int64_t d = h->d;
    const T *shift = h->shift;
    if (!weight) {
        for (int64_t j = 0; j < d; j++) to[j] += sign * whole((double)(T)(from[j] - shift[j]) * scale[j]);
        to[d] += sign * whole(scale[d]);
        to[d + 1] += sign;
        return;
    }
    double w = (double)*weight;
    for (int64_t j = 0; j < d; j++) to[j] += sign * whole((double)(T)(from[j] - shift[j]) * w * scale[j]);
    to[d] += sign * whole(w * scale[d]);
    to[d + 1] += sign * (w != 0);
}

/* Rows begin .. end that the ways of the centres since they were compared may have given to the other one. */
INLINE int left_open(const float *room, const float *away, float along, float fixed, int64_t begin, int64_t end,
                     int64_t *open) {
    int n = 0;
    for (int64_t i = begin; i < end;) {
        int m = end - i < ROWS_AT_A_TIME ? (int)(end - i) : ROWS_AT_A_TIME;
        if (m == ROWS_AT_A_TIME) {
            int32_t any = 0;
            for (int t = 0; t < ROWS_AT_A_TIME; t++) any |= !(room[i + t] > away[i + t] * along + fixed);
            if (!any) {
                i += ROWS_AT_A_TIME;
                continue;
            }
        }
        for (int t = 0; t < m; t++, i++) {
            open[n] = i;
            n += !(room[i] > away[i] * along + fixed);
        }
    }
    return n;
}

/* Labels (0, 1) of n rows, and what they change in the sums of labels, which are 3 x (d + 2) as those of `label_sums`.
   where NULL: rows follow each other. At first labels, room and away are made: away is a row's distance from the middle,
   room how much the product may change before the row is compared again. drift is what products of these rows have
   changed by since the first pass: drift[0] times away, and drift[1]. add is 0 for no sums, 1 for all, 2 for those of
   the second label only, at first. Returns how many rows were compared. */
int64_t halve(const T *x, int64_t d, const T *shift, const int64_t *where, int64_t n, const T *centers, const T *middle,
              const double *drift, const double *scale, const T *weights, int64_t is_first, int64_t add,
              int32_t *labels, float *room, float *away, int64_t *sums) {
    Halves h = {.d = d, .width = PADDED(d), .x = x, .shift = shift, .middle = middle};
    h.wide = widened(centers, 2, d);
    h.way = malloc(sizeof(T) * (d + 1));
    if (!h.wide || !h.way) {
        free(h.wide);
        free(h.way);
        return -1;
    }
    h.point = h.wide + 2 * h.width;
    bound(&h);
    const float along = above(drift[0]), fixed = above(drift[1]);
    const int64_t width = d + 2;
    int64_t n_changed = 0, n_compared = 0, open[BLOCK], rows[BLOCK];
    T dots[BLOCK + 4], squares[BLOCK + 4];
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        int64_t end = begin + BLOCK < n ? begin + BLOCK : n;
        int m = (int)(end - begin);
        if (is_first)
            for (int t = 0; t < m; t++) open[t] = begin + t;
        else m = left_open(room, away, along, fixed, begin, end, open);
        n_compared += m;
        for (int t = 0; t < m; t++) rows[t] = where ? where[open[t]] : open[t];
        if (is_first) {
            products_and_lengths(&h, rows, m, dots, squares);
            for (int t = 0; t < m; t++)
                away[begin + t] = sqrtf((float)squares[t]) * (1 + (float)((d + 8) * UNIT)) * UP + 1e-18f * (float)d;
        } else products(&h, rows, m, dots);
        for (int t = 0; t < m; t++) {
            int64_t i = open[t];
            double by = h.half - (double)dots[t], length = (double)away[i] + h.offset;
            double error = h.fixed + length * (h.linear + length * h.square), sure = fabs(by) - error;
            int32_t label = by < 0;
            float moved = away[i] * along + fixed;
            room[i] = ((float)sure * DOWN + moved) * DOWN;
            if (!(sure > 0) || !(error < TRUSTED)) {
                widen(x + rows[t] * d, shift, d, h.point);
                label = apart(h.point, h.wide + h.width, h.width) < apart(h.point, h.wide, h.width);
                room[i] = 0;
            }
            int32_t before = is_first ? -1 : labels[i];
            if (label == before) continue;
            labels[i] = label;
            n_changed++;
            if (!add) continue;
            const T *from = x + rows[t] * d, *weight = weights ? weights + i : 0;
            if (label || add == 1) give(sums + label * width, &h, from, scale, weight, 1);
            if (before >= 0) give(sums + before * width, &h, from, scale, weight, -1);
        }
    }
    sums[2 * width] += n_changed;
    free(h.wide);
    free(h.way);
    return n_compared;
}
