/* Pairs of points: what is near what, without an array of all distances.

   Distances are squared, in double, the sum of squared differences in the order of the features: the bits that a
   tree of scikit-learn has. Points come in an order in which neighbours are close together (`kd_order`), in leaves of LEAF
   with a box each; a leaf whose box is too far is left out. Rounding is monotone and the box's distance is added up
   in the same order, so it is never above the distance of a point within. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "look.c"

#define LEAF 32
#define SUPER 32 /* leaves in a group of leaves */
#define INLINE static inline __attribute__((always_inline))

/* --- an order in which neighbours are close together ---------------------------------------- */

static void part_by(const double *x, int64_t d, int64_t f, int64_t *order, int64_t n, int64_t k) {
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        double a = x[order[lo] * d + f], b = x[order[(lo + hi) / 2] * d + f], c = x[order[hi] * d + f];
        double pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (x[order[i] * d + f] < pivot) i++;
            while (x[order[j] * d + f] > pivot) j--;
            if (i <= j) {
                int64_t swap = order[i];
                order[i++] = order[j];
                order[j--] = swap;
            }
        }
        if (k <= j) hi = j;
        else if (k >= i) lo = i;
        else return;
    }
}

/* Whether it was stopped. */
static int halve(const double *x, int64_t d, int64_t *order, int64_t n, double *lo, double *hi, int64_t *due) {
    while (n > LEAF) {
        if (n > 1024 && is_left(due)) return 1;
        for (int64_t f = 0; f < d; f++) lo[f] = INFINITY, hi[f] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            const double *row = x + order[i] * d;
            for (int64_t f = 0; f < d; f++) {
                lo[f] = row[f] < lo[f] ? row[f] : lo[f];
                hi[f] = row[f] > hi[f] ? row[f] : hi[f];
            }
        }
        int64_t widest = 0;
        for (int64_t f = 1; f < d; f++)
            if (hi[f] - lo[f] > hi[widest] - lo[widest]) widest = f;
        if (!(hi[widest] > lo[widest])) return 0; /* equal points stay in the order they came in */
        int64_t leaves = (n + LEAF - 1) / LEAF, k = (leaves / 2) * LEAF;
        part_by(x, d, widest, order, n, k);
        if (halve(x, d, order, k, lo, hi, due)) return 1;
        order += k;
        n -= k;
    }
    return 0;
}

INLINE double apart(const double *a, const double *b, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) {
        double gap = a[f] - b[f];
        sum += gap * gap;
    }
    return sum;
}

/* Puts points into groups by the nearest of some of them. Returns how many come before the last group: that is of points
   far from their own, and of what does not fill a leaf; -1 if it was stopped. `starts` gets where each group starts. */
static int64_t group(const double *x, int64_t n, int64_t d, int64_t *order, int64_t n_pivots, int64_t *starts,
                     int64_t *which, double *far, int64_t *due) {
    int64_t *count = starts + n_pivots + 1;
    memset(count, 0, sizeof(int64_t) * (size_t)(n_pivots + 1));
    for (int64_t i = 0; i < n; i++) {
        if (i % 64 == 0 && is_left(due)) return -1;
        far[i] = INFINITY;
        which[i] = 0;
        for (int64_t p = 0; p < n_pivots; p++) {
            double gap = apart(x + i * d, x + p * (n / n_pivots) * d, d);
            if (gap < far[i]) far[i] = gap, which[i] = p;
        }
        count[which[i]]++;
    }
    starts[0] = 0;
    for (int64_t p = 0; p < n_pivots; p++) starts[p + 1] = starts[p] + count[p], count[p] = starts[p];
    for (int64_t i = 0; i < n; i++) order[count[which[i]]++] = i;
    int64_t kept = 0, left = 0;
    for (int64_t p = 0; p < n_pivots; p++) {
        int64_t size = starts[p + 1] - starts[p], *mine = order + starts[p];
        if (size > 1) part_by(far, 1, 0, mine, size, size / 2);
        double border = size ? 4 * far[mine[size / 2]] : 0; /* twice as far as half of them */
        int64_t near = 0, first = kept;
        for (int64_t i = 0; i < size; i++) near += far[mine[i]] <= border;
        near = near / LEAF * LEAF;
        if (near && near < size) part_by(far, 1, 0, mine, size, near - 1);
        for (int64_t i = near; i < size; i++) which[left++] = mine[i];
        memmove(order + kept, mine, sizeof(int64_t) * (size_t)near);
        kept += near;
        starts[p] = first;
    }
    memcpy(order + kept, which, sizeof(int64_t) * (size_t)left);
    starts[n_pivots] = kept;
    return kept;
}

/* An order of rows; leaves are LEAF points of it. Leaves are split along the widest feature. With many features one far
   point makes the box of its leaf useless: points are put into groups before, and far ones into leaves of their own.
   Finite values only. -1 without memory, LEFT if it was stopped. */
int64_t kd_order(const double *x, int64_t n, int64_t d, int64_t n_pivots, int64_t *order) {
    double *lo = malloc(sizeof(double) * (size_t)(2 * d + n + 2));
    int64_t *room = malloc(sizeof(int64_t) * (size_t)(n + 2 * n_pivots + 4));
    if (!lo || !room) {
        free(lo);
        free(room);
        return -1;
    }
    for (int64_t i = 0; i < n; i++) order[i] = i;
    int64_t due = 0, kept = 0, *starts = room + n;
    if (n_pivots >= 2) kept = group(x, n, d, order, n_pivots, starts, room, lo + 2 * d, &due);
    int stops = kept < 0;
    for (int64_t p = 0; n_pivots >= 2 && p < n_pivots && !stops; p++)
        stops = halve(x, d, order + starts[p], starts[p + 1] - starts[p], lo, lo + d, &due);
    stops = stops || halve(x, d, order + kept, n - kept, lo, lo + d, &due);
    free(lo);
    free(room);
    return stops ? LEFT : 0;
}

/* --- what a search knows --------------------------------------------------------------------- */

enum { COUNT, TOP, UNITE, LEAST, FILL, EDGE };

typedef struct {
    const double *x, *y;      /* rows of points, */
    const float *x32, *y32;   /* or these: then they are widened leaf by leaf */
    const int64_t *xid, *yid; /* their numbers; UNITE: below 0 a point is no node */
    int64_t n, m, d;
    double limit;             /* squared radius */
    int64_t in_float;         /* products first; then */
    const double *centre;     /* what rows are taken less of, */
    double scale;             /* and times, */
    double unit;              /* the error of a product of rows of length 1, */
    int64_t asked;            /* and pairs that were left open */
    int64_t own;              /* UNITE: both sides are one set in one order, each pair is asked once */
    /* COUNT */
    const double *weight;     /* of y; NULL: 1 */
    double *sum;              /* of each x */
    double enough;            /* a sum that need not grow further */
    /* TOP */
    int64_t k;
    double *far;              /* (n, k): heaps, the farthest first */
    int64_t *who;
    int64_t *held;
    /* UNITE */
    int64_t *parent;
    /* LEAST */
    const int64_t *label;     /* of y */
    int64_t *least;           /* of each x */
    /* FILL */
    int64_t *place;           /* of each x: where its next neighbour goes */
    int64_t *found;
    double *apart;            /* their distances squared; NULL: not wanted */
    /* EDGE */
    const int64_t *xgroup, *ygroup;
    const double *xcore, *ycore; /* squared; a pair is no nearer than the larger */
    double *weigh;            /* of each group: its lightest edge out, */
    int64_t *from, *to;       /* and its ends, the smaller number first */
} Search;

INLINE int64_t root(int64_t *parent, int64_t i) {
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

INLINE void unite(int64_t *parent, int64_t i, int64_t j) {
    i = root(parent, i);
    j = root(parent, j);
    if (i < j) parent[j] = i;
    else parent[i] = j;
}

INLINE int beyond(double d, int64_t id, double e, int64_t ie) { return d > e || (d == e && id > ie); }

/* Puts (d, id) where the top of a heap of n was, and lets it sink. */
INLINE void sink(double *far, int64_t *who, int64_t n, double d, int64_t id) {
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && beyond(far[child + 1], who[child + 1], far[child], who[child])) child++;
        if (!beyond(far[child], who[child], d, id)) break;
        far[at] = far[child];
        who[at] = who[child];
        at = child;
    }
    far[at] = d;
    who[at] = id;
}

INLINE void push(Search *s, int64_t i, double d, int64_t id) {
    double *far = s->far + i * s->k;
    int64_t *who = s->who + i * s->k;
    if (s->held[i] == s->k) {
        if (beyond(far[0], who[0], d, id)) sink(far, who, s->k, d, id);
        return;
    }
    int64_t at = s->held[i]++;
    while (at) {
        int64_t up = (at - 1) / 2;
        if (!beyond(d, id, far[up], who[up])) break;
        far[at] = far[up];
        who[at] = who[up];
        at = up;
    }
    far[at] = d;
    who[at] = id;
}

/* The distance above which a pair of row i is of no use. */
INLINE double reach(const int mode, const Search *s, int64_t i) {
    if (mode == TOP) return s->held[i] == s->k ? s->far[i * s->k] : INFINITY;
    if (mode == EDGE) {
        double best = s->weigh[s->xgroup[i]];
        return s->xcore[i] > best ? -1 : best;
    }
    if (mode == COUNT && s->sum[i] >= s->enough) return -1;
    if (mode == UNITE && s->xid[i] < 0) return -1;
    return s->limit;
}

/* A pair within reach; `d` is exact but where no mode asks for it. */
INLINE void accept(const int mode, Search *s, int64_t i, int64_t j, double d) {
    if (mode == COUNT) s->sum[i] += s->weight ? s->weight[j] : 1;
    else if (mode == TOP) push(s, i, d, s->yid[j]);
    else if (mode == UNITE) unite(s->parent, s->xid[i], s->yid[j]);
    else if (mode == LEAST) s->least[i] = s->label[j] < s->least[i] ? s->label[j] : s->least[i];
    else if (mode == FILL) {
        int64_t at = s->place[i]++;
        s->found[at] = s->yid[j];
        if (s->apart) s->apart[at] = d;
    } else {
        int64_t g = s->xgroup[i], a = s->xid[i], b = s->yid[j];
        if (g == s->ygroup[j]) return;
        double w = d > s->xcore[i] ? d : s->xcore[i];
        w = s->ycore[j] > w ? s->ycore[j] : w;
        /* ties by the smaller, then the larger end: all groups see one order of edges, and no ring closes */
        int64_t lo = a < b ? a : b, hi = a < b ? b : a;
        if (w < s->weigh[g] ||
            (w == s->weigh[g] && (lo < s->from[g] || (lo == s->from[g] && hi < s->to[g])))) {
            s->weigh[g] = w;
            s->from[g] = lo;
            s->to[g] = hi;
        }
    }
}

/* Whether a pair need not be looked at, however near. */
INLINE int idle(const int mode, Search *s, int64_t i, int64_t j) {
    if (mode == UNITE) {
        if (s->yid[j] < 0 || (s->own && s->yid[j] <= s->xid[i])) return 1;
        return root(s->parent, s->xid[i]) == root(s->parent, s->yid[j]);
    }
    if (mode == EDGE) return s->xgroup[i] == s->ygroup[j];
    if (mode == LEAST) return s->label[j] >= s->least[i];
    return 0;
}

/* --- boxes ----------------------------------------------------------------------------------- */

static void boxes(const double *x, int64_t n, int64_t d, int64_t step, double *lo, double *hi) {
    for (int64_t at = 0; at < n; at += step, lo += d, hi += d) {
        int64_t end = at + step < n ? at + step : n;
        for (int64_t f = 0; f < d; f++) lo[f] = INFINITY, hi[f] = -INFINITY;
        for (int64_t i = at; i < end; i++)
            for (int64_t f = 0; f < d; f++) {
                double v = x[i * d + f];
                lo[f] = v < lo[f] ? v : lo[f];
                hi[f] = v > hi[f] ? v : hi[f];
            }
    }
}

INLINE double box_gap(const double *alo, const double *ahi, const double *blo, const double *bhi, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) {
        double up = blo[f] - ahi[f], down = alo[f] - bhi[f];
        double gap = up > down ? up : down;
        gap = gap > 0 ? gap : 0;
        sum += gap * gap;
    }
    return sum;
}

typedef struct {
    double gap;
    int64_t leaf;
} Near;

static int nearer(const void *a, const void *b) {
    const Near *p = a, *q = b;
    if (p->gap != q->gap) return p->gap < q->gap ? -1 : 1;
    return p->leaf < q->leaf ? -1 : p->leaf > q->leaf;
}

/* --- leaves of y ----------------------------------------------------------------------------- */

typedef struct {
    int64_t n, n_groups;
    double *lo, *hi, *glo, *ghi;  /* boxes of leaves, and of groups of leaves */
    double *columns;              /* leaf after leaf: feature by feature, LEAF points side by side */
    float *columns32;             /* the same centred, in float, or */
    float *half32;                /* with half of the squared length of each point */
    double *longest;              /* and the largest length in a leaf */
    int64_t *one;                 /* UNITE, EDGE: what all points of a leaf belong to, or -1 */
    double *xlo, *xhi;            /* box of the current rows */
    const double *rows;           /* and they, */
    int64_t first;                /* from this one on, */
    float *rows32;                /* and centred */
    double *wide;                 /* room for a leaf of rows, and for a row */
    double half[LEAF];
    Near *near;
    double centre_scale;
} Leaves;

static const double U = 1.0 / (1 << 24);

/* The error of `product - yhalf` against `(length squared - distance squared) / 2`; see ops/points/pairs_c.py. */
INLINE double slack(double unit, double half, double longest, double bound) {
    double all = 2 * half + longest * longest + bound;
    return unit * sqrt(2 * half) * longest + 2 * U * all + 1e-36;
}

INLINE float below(double v) { return nextafterf((float)v, -INFINITY); }

INLINE float above(double v) { return nextafterf((float)v, INFINITY); }

/* Rows less `centre`, times `scale`, in float, `step` apart; half of the squared length of one in double. */
INLINE double centred(const double *row, int64_t d, const double *centre, double scale, float *out, int64_t step) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) {
        double v = (row[f] - centre[f]) * scale;
        out[f * step] = (float)v;
        sum += v * v;
    }
    return sum / 2;
}

/* Sums of a few vectors stay in registers. Wider ones than the machine has would not. */
#if defined(__AVX512F__)
#define VECTOR 64
#define COLUMNS 32
#elif defined(__AVX__)
#define VECTOR 32
#define COLUMNS 16
#else
#define VECTOR 16
#define COLUMNS 16
#endif
typedef float Singles __attribute__((vector_size(VECTOR)));
#define N_SINGLES (COLUMNS * 4 / VECTOR)

/* Products of four rows with a leaf of columns. Fused or not, in any order: the bound allows for both. */
__attribute__((noinline, optimize("O3", "fp-contract=fast"))) static void products(const float *const rows[4],
                                                                                   const float *columns, int64_t d,
                                                                                   float out[4][LEAF]) {
    const float *p = rows[0], *q = rows[1], *r = rows[2], *s = rows[3];
    for (int64_t c = 0; c < LEAF; c += COLUMNS) {
        Singles sums[4][N_SINGLES] = {{{0}}};
        for (int64_t f = 0; f < d; f++) {
            float a = p[f], b = q[f], e = r[f], g = s[f];
            _Pragma("GCC unroll 8") for (int k = 0; k < N_SINGLES; k++) {
                Singles y;
                memcpy(&y, columns + f * LEAF + c + k * (VECTOR / 4), sizeof y);
                sums[0][k] += y * a;
                sums[1][k] += y * b;
                sums[2][k] += y * e;
                sums[3][k] += y * g;
            }
        }
        for (int i = 0; i < 4; i++) memcpy(out[i] + c, sums[i], sizeof sums[i]);
    }
}

typedef double Doubles __attribute__((vector_size(VECTOR)));
#define N_DOUBLES (COLUMNS * 4 / VECTOR)

/* Squared distances of a row to a leaf of columns, added feature by feature. */
static void squares(const double *row, const double *columns, int64_t d, double out[LEAF]) {
    for (int64_t c = 0; c < LEAF; c += COLUMNS / 2) {
        Doubles sums[N_DOUBLES] = {{0}};
        for (int64_t f = 0; f < d; f++) {
            double v = row[f];
            _Pragma("GCC unroll 8") for (int k = 0; k < N_DOUBLES; k++) {
                Doubles y;
                memcpy(&y, columns + f * LEAF + c + k * (VECTOR / 8), sizeof y);
                y = v - y;
                sums[k] += y * y;
            }
        }
        memcpy(out + c, sums, sizeof sums);
    }
}

/* Rows in double: in place, or widened into `room`. */
INLINE const double *widened(const double *rows, const float *rows32, int64_t n, double *room) {
    if (!rows32) return rows;
    for (int64_t k = 0; k < n; k++) room[k] = rows32[k];
    return room;
}

/* What row i says of a leaf, from exact distances. */
INLINE void exact_row(const int mode, Search *s, const Leaves *l, int64_t i, int64_t leaf) {
    int64_t j0 = leaf * LEAF, d = s->d, n = s->m - j0 < LEAF ? s->m - j0 : LEAF;
    const double *block = l->columns + leaf * LEAF * d, *row = l->rows + (i - l->first) * d;
    double bound = reach(mode, s, i), sum[LEAF];
    if (bound < 0 || box_gap(row, row, l->lo + leaf * d, l->hi + leaf * d, d) > bound) return;
    squares(row, block, d, sum);
    if (mode == COUNT && !s->weight) {
        int64_t within = 0;
        for (int64_t c = 0; c < LEAF; c++) within += sum[c] <= bound; /* padding is NaN */
        s->sum[i] += (double)within;
        return;
    }
    int32_t any = 0;
    for (int64_t c = 0; c < LEAF; c++) any |= sum[c] <= bound;
    for (int64_t c = 0; any && c < n; c++)
        if (sum[c] <= bound && !idle(mode, s, i, j0 + c)) {
            accept(mode, s, i, j0 + c, sum[c]);
            if (mode == TOP || mode == EDGE) bound = reach(mode, s, i);
        }
}

/* What row i says of a leaf, from products in float; pairs they leave open are compared in double. */
INLINE void product_row(const int mode, Search *s, const Leaves *l, int64_t i, double half, int64_t leaf,
                        const float *product) {
    int64_t j0 = leaf * LEAF, d = s->d, n = s->m - j0 < LEAF ? s->m - j0 : LEAF;
    const float *yhalf = l->half32 + j0;
    double bound = reach(mode, s, i), longest = l->longest[leaf], scale = l->centre_scale;
    if (bound < 0) return;
    double scaled = bound * scale, error = slack(s->unit, half, longest, scaled);
    float maybe = below(half - scaled / 2 - error), sure = above(half - scaled / 2 + error);
    if (!(error < INFINITY)) maybe = -INFINITY, sure = INFINITY;
    float v[LEAF];
    int32_t any = 0;
    for (int64_t c = 0; c < LEAF; c++) v[c] = product[c] - yhalf[c]; /* padding is -infinity */
    for (int64_t c = 0; c < LEAF; c++) any |= !(v[c] < maybe);
    if (!any) return;
    if (mode == COUNT && !s->weight) {
        int32_t within = 0, open = 0;
        for (int64_t c = 0; c < LEAF; c++) within += v[c] > sure, open += !(v[c] < maybe);
        if (within == open) {
            s->sum[i] += within;
            return;
        }
    }
    for (int64_t c = 0; c < n; c++) {
        if (v[c] < maybe || idle(mode, s, i, j0 + c)) continue;
        double gap = 0;
        int known = v[c] > sure && (mode == COUNT || mode == UNITE || mode == LEAST || (mode == FILL && !s->apart));
        if (!known) {
            s->asked++;
            int64_t at = (j0 + c) * d;
            const double *other = widened(s->y + at, s->y32 ? s->y32 + at : NULL, d, l->wide + LEAF * d);
            gap = apart(l->rows + (i - l->first) * d, other, d);
            if (!(gap <= bound)) continue;
        }
        accept(mode, s, i, j0 + c, gap);
        if (mode == TOP || mode == EDGE) {
            double now = reach(mode, s, i);
            if (now < 0) return;
            if (now < bound) {
                bound = now;
                scaled = bound * scale;
                maybe = below(half - scaled / 2 - slack(s->unit, half, longest, scaled));
            }
        }
    }
}

INLINE int64_t owner(const int mode, Search *s, const int64_t *id, const int64_t *group, int64_t i) {
    if (mode == UNITE) return id[i] < 0 ? -1 : root(s->parent, id[i]);
    return group[i];
}

/* What all of some points belong to, or -1. */
INLINE int64_t owner_of_all(const int mode, Search *s, const int64_t *id, const int64_t *group, int64_t i0,
                            int64_t i1) {
    int64_t first = owner(mode, s, id, group, i0);
    for (int64_t i = i0 + 1; i < i1; i++)
        if (owner(mode, s, id, group, i) != first) return -1;
    return first;
}

INLINE void leaf_pair(const int mode, const int in_float, Search *s, Leaves *l, int64_t i0, int64_t i1, int64_t *one,
                      int64_t leaf) {
    int64_t d = s->d, j0 = leaf * LEAF, j1 = j0 + LEAF < s->m ? j0 + LEAF : s->m;
    if (mode == UNITE || mode == EDGE) { /* leaves that are one already have nothing to say */
        if (mode == UNITE && *one < 0) *one = owner_of_all(mode, s, s->xid, s->xgroup, i0, i1);
        if (mode == UNITE && l->one[leaf] < 0) l->one[leaf] = owner_of_all(mode, s, s->yid, s->ygroup, j0, j1);
        if (*one >= 0 && l->one[leaf] >= 0) {
            if (*one == l->one[leaf]) return;
            if (mode == UNITE && root(s->parent, *one) == root(s->parent, l->one[leaf])) return;
        }
    }
    if (!in_float) {
        for (int64_t i = i0; i < i1; i++) exact_row(mode, s, l, i, leaf);
        return;
    }
    int64_t active[LEAF + 4], n = 0;
    for (int64_t i = i0; i < i1; i++)
        if (reach(mode, s, i) >= 0) active[n++] = i;
    for (int64_t c = n; c < n + 3; c++) active[c] = active[n ? n - 1 : 0];
    for (int64_t a = 0; a < n; a += 4) {
        const float *rows[4];
        float out[4][LEAF];
        for (int r = 0; r < 4; r++) rows[r] = l->rows32 + (active[a + r] - i0) * d;
        products(rows, l->columns32 + leaf * LEAF * d, d, out);
        for (int r = 0; r < 4 && a + r < n; r++) {
            int64_t i = active[a + r];
            product_row(mode, s, l, i, l->half[i - i0], leaf, out[r]);
        }
    }
}

INLINE double widest_reach(const int mode, const Search *s, int64_t i0, int64_t i1) {
    double most = -1;
    for (int64_t i = i0; i < i1; i++) {
        double one = reach(mode, s, i);
        most = one > most ? one : most;
    }
    return most;
}

static size_t sized(int64_t n) { return sizeof(double) * (size_t)(n + 8); }

static void *drop(Leaves *l) {
    free(l->lo);
    free(l->columns);
    free(l->columns32);
    free(l->one);
    free(l->near);
    free(l->wide);
    return NULL;
}

static int fill_leaves(Leaves *l, const Search *s, int in_float) {
    int64_t d = s->d;
    memset(l, 0, sizeof *l);
    l->n = (s->m + LEAF - 1) / LEAF;
    l->n_groups = (l->n + SUPER - 1) / SUPER;
    l->lo = malloc(sized(2 * (l->n + l->n_groups + 1) * d + l->n));
    l->near = malloc(sizeof(Near) * (size_t)(l->n + 1));
    l->one = malloc(sized(l->n));
    int is_narrow = s->x32 || s->y32;
    if (is_narrow) l->wide = malloc(sized((LEAF + 1) * d));
    if (in_float) l->columns32 = malloc(sized((l->n + 1) * LEAF * (d + 1) / 2));
    else l->columns = malloc(sized(l->n * LEAF * d));
    if (!l->lo || !l->near || !l->one || (is_narrow && !l->wide) || !(in_float ? (void *)l->columns32 : (void *)l->columns)) {
        drop(l);
        return -1;
    }
    l->hi = l->lo + l->n * d;
    l->glo = l->hi + l->n * d;
    l->ghi = l->glo + l->n_groups * d;
    l->xlo = l->ghi + l->n_groups * d;
    l->xhi = l->xlo + d;
    l->longest = l->xhi + d;
    l->rows32 = l->columns32 + l->n * LEAF * d;
    l->half32 = l->rows32 + LEAF * d;
    l->centre_scale = s->scale * s->scale;
    for (int64_t leaf = 0; leaf < l->n; leaf++) {
        double most = 0;
        int64_t j0 = leaf * LEAF, n = s->m - j0 < LEAF ? s->m - j0 : LEAF;
        const double *rows = widened(s->y + j0 * d, s->y32 ? s->y32 + j0 * d : NULL, n * d, l->wide);
        boxes(rows, n, d, LEAF, l->lo + leaf * d, l->hi + leaf * d);
        l->one[leaf] = -1;
        for (int64_t c = 0; c < LEAF; c++) {
            int64_t j = j0 + c;
            if (!in_float) {
                double *to = l->columns + leaf * LEAF * d + c;
                for (int64_t f = 0; f < d; f++) to[f * LEAF] = j < s->m ? rows[c * d + f] : NAN;
                continue;
            }
            float *to = l->columns32 + leaf * LEAF * d + c;
            if (j < s->m) {
                double half = centred(rows + c * d, d, s->centre, s->scale, to, LEAF);
                l->half32[j] = (float)half;
                most = half > most ? half : most;
            } else {
                for (int64_t f = 0; f < d; f++) to[f * LEAF] = 0;
                l->half32[j] = INFINITY;
            }
        }
        if (in_float) l->longest[leaf] = sqrt(2 * most) * (1 + 1e-12);
    }
    for (int64_t g = 0; g < l->n_groups; g++) {
        int64_t end = (g + 1) * SUPER < l->n ? (g + 1) * SUPER : l->n;
        double *lo = l->glo + g * d, *hi = l->ghi + g * d;
        for (int64_t f = 0; f < d; f++) lo[f] = INFINITY, hi[f] = -INFINITY;
        for (int64_t k = g * SUPER * d; k < end * d; k++) {
            int64_t f = k % d;
            lo[f] = l->lo[k] < lo[f] ? l->lo[k] : lo[f];
            hi[f] = l->hi[k] > hi[f] ? l->hi[k] : hi[f];
        }
    }
    return 0;
}

INLINE int64_t search(const int mode, const int in_float, Search *s) {
    Leaves leaves, *l = &leaves;
    int64_t d = s->d;
    if (fill_leaves(l, s, in_float) < 0) return -1;
    if (mode == EDGE)
        for (int64_t leaf = 0; leaf < l->n; leaf++) {
            int64_t j1 = (leaf + 1) * LEAF < s->m ? (leaf + 1) * LEAF : s->m;
            l->one[leaf] = owner_of_all(mode, s, s->yid, s->ygroup, leaf * LEAF, j1);
        }
    for (int64_t i0 = 0, due = 0; i0 < s->n; i0 += LEAF) {
        if (is_left(&due)) {
            drop(l);
            return LEFT;
        }
        int64_t i1 = i0 + LEAF < s->n ? i0 + LEAF : s->n, n = 0, first = -1, one = -1;
        double bound = widest_reach(mode, s, i0, i1);
        if (bound < 0) continue;
        l->rows = widened(s->x + i0 * d, s->x32 ? s->x32 + i0 * d : NULL, (i1 - i0) * d, l->wide);
        l->first = i0;
        boxes(l->rows, i1 - i0, d, LEAF, l->xlo, l->xhi);
        if (in_float)
            for (int64_t i = i0; i < i1; i++)
                l->half[i - i0] = centred(l->rows + (i - i0) * d, d, s->centre, s->scale, l->rows32 + (i - i0) * d, 1);
        if (mode == EDGE) one = owner_of_all(mode, s, s->xid, s->xgroup, i0, i1);
        if (mode == TOP) { /* the nearest leaf first: it sets how far to look */
            double best = INFINITY;
            for (int64_t g = 0; g < l->n_groups; g++) {
                if (box_gap(l->xlo, l->xhi, l->glo + g * d, l->ghi + g * d, d) > best) continue;
                int64_t end = (g + 1) * SUPER < l->n ? (g + 1) * SUPER : l->n;
                for (int64_t leaf = g * SUPER; leaf < end; leaf++) {
                    double gap = box_gap(l->xlo, l->xhi, l->lo + leaf * d, l->hi + leaf * d, d);
                    if (first < 0 || gap < best) best = gap, first = leaf;
                }
            }
            leaf_pair(mode, in_float, s, l, i0, i1, &one, first);
            bound = widest_reach(mode, s, i0, i1);
        }
        for (int64_t g = 0; g < l->n_groups; g++) {
            if (box_gap(l->xlo, l->xhi, l->glo + g * d, l->ghi + g * d, d) > bound) continue;
            int64_t end = (g + 1) * SUPER < l->n ? (g + 1) * SUPER : l->n;
            for (int64_t leaf = g * SUPER; leaf < end; leaf++) {
                if (leaf == first) continue;
                int64_t j1 = (leaf + 1) * LEAF < s->m ? (leaf + 1) * LEAF : s->m;
                if (mode == UNITE && s->own && s->yid[j1 - 1] <= s->xid[i0]) continue;
                if (mode == EDGE && one >= 0 && one == l->one[leaf]) continue;
                double gap = box_gap(l->xlo, l->xhi, l->lo + leaf * d, l->hi + leaf * d, d);
                if (gap > bound) continue;
                l->near[n].gap = gap;
                l->near[n++].leaf = leaf;
            }
        }
        if (mode != FILL && mode != LEAST) qsort(l->near, (size_t)n, sizeof(Near), nearer);
        for (int64_t k = 0; k < n; k++) {
            if (mode == TOP || mode == EDGE || mode == COUNT) {
                bound = widest_reach(mode, s, i0, i1);
                if (l->near[k].gap > bound) break;
            }
            leaf_pair(mode, in_float, s, l, i0, i1, &one, l->near[k].leaf);
        }
    }
    drop(l);
    return s->asked;
}

/* --- doors ----------------------------------------------------------------------------------- */

/* How many pairs were compared in double beside the products; -1 without memory, LEFT if it was stopped. */
#define DOOR(name, mode)                                                   \
    int64_t name(Search *s) { return s->in_float ? search(mode, 1, s) : search(mode, 0, s); }

DOOR(search_count, COUNT)
DOOR(search_top, TOP)
DOOR(search_unite, UNITE)
DOOR(search_least, LEAST)
DOOR(search_fill, FILL)
DOOR(search_edge, EDGE)

/* Each heap becomes a list, the nearest first; what is missing is infinitely far, of number -1. */
int64_t in_order(double *far, int64_t *who, const int64_t *held, int64_t n, int64_t k) {
    for (int64_t i = 0; i < n; i++, far += k, who += k) {
        for (int64_t left = held[i]; left > 1; left--) {
            double d = far[0];
            int64_t id = who[0];
            sink(far, who, left - 1, far[left - 1], who[left - 1]);
            far[left - 1] = d;
            who[left - 1] = id;
        }
        for (int64_t c = held[i]; c < k; c++) far[c] = INFINITY, who[c] = -1;
    }
    return 0;
}

/* The k nearest of two sorted lists of k each, row by row. */
int64_t merge_top(const double *a, const int64_t *ia, const double *b, const int64_t *ib, int64_t n, int64_t k,
                  double *out, int64_t *iout) {
    for (int64_t i = 0; i < n; i++) {
        int64_t p = i * k, q = i * k;
        for (int64_t c = i * k; c < (i + 1) * k; c++) {
            int second = ib[q] >= 0 && (ia[p] < 0 || beyond(a[p], ia[p], b[q], ib[q]));
            out[c] = second ? b[q] : a[p];
            iout[c] = second ? ib[q++] : ia[p++];
        }
    }
    return 0;
}

/* Joins forest b to forest a. */
int64_t join_forests(int64_t *a, const int64_t *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (b[i] != i) unite(a, i, b[i]);
    return 0;
}

/* Every node points at the smallest of its tree. */
int64_t flatten(int64_t *parent, int64_t n) {
    for (int64_t i = 0; i < n; i++) parent[i] = root(parent, i);
    return 0;
}

/* Sorts the neighbours of each row, `starts` apart, by number or by (distance, number). */
typedef struct {
    double apart;
    int64_t id;
} Found;

static int by_number(const void *a, const void *b) {
    int64_t p = ((const Found *)a)->id, q = ((const Found *)b)->id;
    return p < q ? -1 : p > q;
}

static int by_distance(const void *a, const void *b) {
    double p = ((const Found *)a)->apart, q = ((const Found *)b)->apart;
    return p < q ? -1 : p > q ? 1 : by_number(a, b);
}

int64_t sort_found(const int64_t *starts, int64_t n, int64_t nearest_first, int64_t *id, double *apart) {
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) most = starts[i + 1] - starts[i] > most ? starts[i + 1] - starts[i] : most;
    Found *row = malloc(sizeof(Found) * (size_t)(most + 1));
    if (!row) return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = starts[i], count = starts[i + 1] - at;
        for (int64_t c = 0; c < count; c++) row[c].id = id[at + c], row[c].apart = apart[at + c];
        qsort(row, (size_t)count, sizeof(Found), nearest_first ? by_distance : by_number);
        for (int64_t c = 0; c < count; c++) id[at + c] = row[c].id, apart[at + c] = row[c].apart;
    }
    free(row);
    return 0;
}
