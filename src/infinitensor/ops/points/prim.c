/* Prim's tree of mutual reachability: one step after the other, over leaves of points with boxes.

   The weight of a pair is the largest of its distance / alpha and the two core distances. At each step the point with
   the least (weight to the tree, number) joins it; its edge comes from the first point of the tree that gave it
   that weight. A leaf is looked at only where the new point could make one of its weights smaller. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "look.c"

#define LEAF 32

#if defined(__AVX512F__)
#define VECTOR 64
#elif defined(__AVX__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
/* Vectors of the machine's own width, and 4 of them at a time, stay in registers. */
typedef double Doubles __attribute__((vector_size(VECTOR)));
#define N_DOUBLES 4

/* Squared distances of a row to a leaf of columns, added feature by feature. */
static void squares(const double *row, const double *columns, int64_t d, double out[LEAF]) {
    for (int64_t c = 0; c < LEAF; c += N_DOUBLES * VECTOR / 8) {
        Doubles sums[N_DOUBLES] = {{0}};
        for (int64_t f = 0; f < d; f++) {
            double v = row[f];
            _Pragma("GCC unroll 4") for (int k = 0; k < N_DOUBLES; k++) {
                Doubles y;
                memcpy(&y, columns + f * LEAF + c + k * (VECTOR / 8), sizeof y);
                y = v - y;
                sums[k] += y * y;
            }
        }
        memcpy(out + c, sums, sizeof sums);
    }
}

typedef struct {
    double *columns; /* leaf after leaf: feature by feature, LEAF points side by side; NaN: in the tree, or no point */
    double *lo, *hi;
    double *weight;  /* of each point to the tree */
    double *limit;   /* squared distances from here on change nothing */
    int64_t *source;
    double *most;    /* of each leaf: the largest weight that may become smaller, */
    double *least;   /* its least, */
    int64_t *first;  /* and the place of the point that has it, the smallest number of several */
} Tree;

static void note(Tree *t, int64_t leaf, int64_t n, const int64_t *id, const uint8_t *in_tree) {
    int64_t j0 = leaf * LEAF, j1 = j0 + LEAF < n ? j0 + LEAF : n, first = -1;
    double most = -1, least = INFINITY;
    for (int64_t j = j0; j < j1; j++) {
        if (in_tree[j]) continue;
        double w = t->weight[j];
        if (t->limit[j] >= 0 && w > most) most = w;
        if (first < 0 || w < least || (w == least && id[j] < id[first])) least = w, first = j;
    }
    t->most[leaf] = most;
    t->least[leaf] = least;
    t->first[leaf] = first;
}

/* Squares of at least this are no nearer than `w` after rounding, sqrt and the division. */
static double square_of(double w, double alpha) {
    double far = w * alpha;
    return far * far * (1 + 1e-14) + 1e-300;
}

/* Points in any order, `id` their numbers; the edges in the order they are found, by number. `start` is the place of the
   first point. With `previous` an edge is said to come from the point that joined before. -1 without memory, LEFT if
   it was stopped. */
int64_t prim(const double *x, int64_t n, int64_t d, const double *core, const int64_t *id, int64_t start, double alpha,
             int64_t previous, int64_t *from, int64_t *to, double *weight) {
    int64_t n_leaves = (n + LEAF - 1) / LEAF, padded = n_leaves * LEAF;
    double *room = malloc(sizeof(double) * (size_t)(padded * (d + 2) + 2 * n_leaves * (d + 1) + 16));
    int64_t *places = malloc(sizeof(int64_t) * (size_t)(padded + n_leaves + 16));
    uint8_t *in_tree = calloc((size_t)padded + 1, 1);
    if (!room || !places || !in_tree) {
        free(room);
        free(places);
        free(in_tree);
        return -1;
    }
    Tree tree = {.columns = room, .source = places, .first = places + padded}, *t = &tree;
    t->weight = room + padded * d;
    t->limit = t->weight + padded;
    t->lo = t->limit + padded;
    t->hi = t->lo + n_leaves * d;
    t->most = t->hi + n_leaves * d;
    t->least = t->most + n_leaves;
    for (int64_t leaf = 0; leaf < n_leaves; leaf++) {
        double *lo = t->lo + leaf * d, *hi = t->hi + leaf * d;
        for (int64_t f = 0; f < d; f++) lo[f] = INFINITY, hi[f] = -INFINITY;
        for (int64_t c = 0; c < LEAF; c++) {
            int64_t j = leaf * LEAF + c;
            for (int64_t f = 0; f < d; f++) {
                double v = j < n ? x[j * d + f] : NAN;
                t->columns[(leaf * d + f) * LEAF + c] = v;
                if (v < lo[f]) lo[f] = v;
                if (v > hi[f]) hi[f] = v;
            }
            t->weight[j] = t->limit[j] = INFINITY;
            t->source[j] = start;
        }
        note(t, leaf, n, id, in_tree);
    }
    int64_t now = start, due = 0, found = 0;
    for (int64_t step = 0; step + 1 < n; step++) {
        if (step % 16 == 0 && is_left(&due)) {
            found = LEFT;
            break;
        }
        in_tree[now] = 1;
        for (int64_t f = 0; f < d; f++) t->columns[(now / LEAF * d + f) * LEAF + now % LEAF] = NAN;
        note(t, now / LEAF, n, id, in_tree);
        const double *row = x + now * d;
        double own = core[now];
        for (int64_t leaf = 0; leaf < n_leaves; leaf++) {
            if (!(t->most[leaf] > own)) continue;
            const double *lo = t->lo + leaf * d, *hi = t->hi + leaf * d;
            double gap = 0;
            for (int64_t f = 0; f < d; f++) {
                double up = lo[f] - row[f], down = row[f] - hi[f];
                double out = up > down ? up : down;
                out = out > 0 ? out : 0;
                gap += out * out;
            }
            if (!(gap < square_of(t->most[leaf], alpha))) continue;
            double sum[LEAF];
            squares(row, t->columns + leaf * LEAF * d, d, sum);
            const double *limit = t->limit + leaf * LEAF;
            int32_t any = 0, changed = 0;
            for (int64_t c = 0; c < LEAF; c++) any |= sum[c] < limit[c];
            if (!any) continue;
            for (int64_t c = 0; c < LEAF; c++) {
                if (!(sum[c] < limit[c])) continue;
                int64_t j = leaf * LEAF + c;
                double w = sqrt(sum[c]) / alpha;
                w = own > w ? own : w;
                w = core[j] > w ? core[j] : w;
                if (!(w < t->weight[j])) continue;
                t->weight[j] = w;
                /* a weight that is the point's own core distance does not become smaller */
                t->limit[j] = w > core[j] ? square_of(w, alpha) : -1;
                t->source[j] = now;
                changed = 1;
            }
            if (changed) note(t, leaf, n, id, in_tree);
        }
        int64_t best = -1;
        double least = INFINITY;
        for (int64_t leaf = 0; leaf < n_leaves; leaf++) {
            int64_t j = t->first[leaf];
            if (j < 0 || t->least[leaf] > least) continue;
            if (best < 0 || t->least[leaf] < least || id[j] < id[best]) least = t->least[leaf], best = j;
        }
        from[step] = id[previous ? now : t->source[best]];
        to[step] = id[best];
        weight[step] = least;
        now = best;
    }
    free(room);
    free(places);
    free(in_tree);
    return found;
}

/* One step over a row of distances: takes it into the weights of points that are not in the tree, and finds the next.
   Returns it. */
int64_t prim_row(const double *apart, int64_t n, int64_t now, const double *core, uint8_t *in_tree, double *weight,
                 int64_t *source) {
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t j = 0; j < n; j++) {
        if (in_tree[j]) continue;
        double w = apart[j] > core[now] ? apart[j] : core[now];
        w = core[j] > w ? core[j] : w;
        if (w < weight[j]) weight[j] = w, source[j] = now;
        if (best < 0 || weight[j] < least) least = weight[j], best = j;
    }
    return best;
}

/* --- over the edges of a sparse graph -------------------------------------------------------- */

/* The edges of each node of a graph of m undirected edges, those it is the first end of before the others, each in the
   order they are given in. `starts` is of n + 1 zeros. */
int64_t adjacent(const int64_t *a, const int64_t *b, const double *weight, int64_t m, int64_t n, int64_t *starts,
                 int64_t *ends, double *weights) {
    for (int64_t e = 0; e < m; e++) starts[a[e]]++, starts[b[e]]++;
    for (int64_t i = 0, at = 0; i <= n; i++) {
        int64_t count = starts[i];
        starts[i] = at;
        at += count;
    }
    for (int64_t e = 0; e < m; e++) ends[starts[a[e]]] = b[e], weights[starts[a[e]]++] = weight[e];
    for (int64_t e = 0; e < m; e++) ends[starts[b[e]]] = a[e], weights[starts[b[e]]++] = weight[e];
    for (int64_t i = n; i > 0; i--) starts[i] = starts[i - 1];
    starts[0] = 0;
    return 0;
}

typedef struct {
    double weight;
    int64_t node;
} Next;

static int before(Next a, Next b) { return a.weight < b.weight || (a.weight == b.weight && a.node < b.node); }

/* Prim's tree of a connected graph from node 0: node i has the edges `starts[i]` up to `starts[i + 1]`, to `ends`, of
   `weights`. Ties go to the smaller number. Returns how many edges were found, -1 without memory. */
int64_t sparse_prim(const int64_t *starts, const int64_t *ends, const double *weights, int64_t n, int64_t *from,
                    int64_t *to, double *weight) {
    Next *heap = malloc(sizeof(Next) * (size_t)(starts[n] + 2));
    double *least = malloc(sizeof(double) * (size_t)(n + 1));
    int64_t *source = calloc((size_t)n + 1, sizeof(int64_t)), held = 0, found = 0, now = 0, due = 0;
    uint8_t *in_tree = calloc((size_t)n + 1, 1);
    if (!heap || !least || !source || !in_tree) found = -1;
    for (int64_t i = 0; found >= 0 && i < n; i++) least[i] = INFINITY;
    while (found >= 0 && found < n - 1) {
        if (found % 1024 == 0 && is_left(&due)) {
            found = LEFT;
            break;
        }
        in_tree[now] = 1;
        for (int64_t e = starts[now]; e < starts[now + 1]; e++) {
            int64_t node = ends[e];
            if (in_tree[node] || !(weights[e] < least[node])) continue;
            least[node] = weights[e];
            source[node] = now;
            Next one = {weights[e], node};
            int64_t at = held++;
            while (at && before(one, heap[(at - 1) / 2])) heap[at] = heap[(at - 1) / 2], at = (at - 1) / 2;
            heap[at] = one;
        }
        Next top = {INFINITY, -1};
        while (held) { /* what a smaller weight has made stale is passed over */
            top = heap[0];
            Next last = heap[--held];
            int64_t at = 0;
            for (;;) {
                int64_t child = 2 * at + 1;
                if (child >= held) break;
                if (child + 1 < held && before(heap[child + 1], heap[child])) child++;
                if (!before(heap[child], last)) break;
                heap[at] = heap[child];
                at = child;
            }
            heap[at] = last;
            if (!in_tree[top.node] && top.weight == least[top.node]) break;
            top.node = -1;
        }
        if (top.node < 0) break;
        from[found] = source[top.node];
        to[found] = top.node;
        weight[found++] = top.weight;
        now = top.node;
    }
    free(heap);
    free(least);
    free(source);
    free(in_tree);
    return found;
}
