/* Counting: how often each integer, how many values in each bin. T is the element. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

static void (*share)(void (*)(void *), void *, int64_t); /* of `threads.c` */

void set_share(void (*given)(void (*)(void *), void *, int64_t)) { share = given; }

/* Few counts are made in tables in turns: an addition to a count waits for the one before it to the same. Values are
   looked at a chunk at a time, and taken by threads in parts. */
enum { CHUNK = 256, TABLES = 4, MOST_TABLED = 1 << 10, PART = 1 << 14 };

typedef struct {
    const T *x;
    int64_t n, next, n_counts;
    int64_t *counts;
    int64_t least, most;       /* of values that are not counted */
    const double *edges;       /* of bins; NULL: each integer is counted */
    double scale, near_an_edge; /* bins of a unit; parts of a bin in which a guess may be wrong */
} Counting;

/* The number of each value's bin among rising edges; the last bin has its right edge too, others get -1.
   A guess as if bins were of one width is put right by looking at the edges. */
INLINE int64_t bin_of(double v, const double *edges, int64_t n_bins, double scale) {
    double first = edges[0], last = edges[n_bins];
    if (!(v >= first && v <= last)) return -1;
    int64_t bin = (int64_t)((v - first) * scale);
    bin = bin < n_bins ? bin : n_bins - 1;
    while (v < edges[bin]) bin--;
    while (bin < n_bins - 1 && v >= edges[bin + 1]) bin++;
    return bin;
}

/* The bin that each of m values is in, n_counts for none; whether some are not sure. Loops of one kind of number each,
   which compilers make loops over vectors. */
INLINE int find_bins(const Counting *c, const T *x, int m, uint32_t *place) {
    const double first = c->edges[0], scale = c->scale, n = (double)c->n_counts, none = n + 0.5;
    const double low = c->near_an_edge, high = 1 - low, end = n + low;
    double guess[CHUNK];
    int64_t doubts = 0;
    for (int i = 0; i < m; i++) guess[i] = ((double)x[i] - first) * scale;
    for (int i = 0; i < m; i++) doubts |= (int64_t)(guess[i] >= n) & (int64_t)(guess[i] <= end);
    for (int i = 0; i < m; i++) {
        const double g = guess[i] >= 0 ? guess[i] : none;
        guess[i] = g < n ? g : none;
    }
    for (int i = 0; i < m; i++) place[i] = (uint32_t)(int32_t)guess[i];
    for (int i = 0; i < m; i++) {
        const double part = guess[i] - (double)(int32_t)place[i];
        doubts |= (int64_t)(part < low) | (int64_t)(part > high);
    }
    return doubts != 0;
}

/* The count that each of m integers is for, n_counts for none; whether there are such. */
INLINE int find_counts(const Counting *c, const T *x, int m, uint32_t *place) {
    const uint64_t none = (uint64_t)c->n_counts;
    uint64_t others = 0;
    for (int i = 0; i < m; i++) {
        const uint64_t v = (uint64_t)x[i];
        others |= (uint64_t)(v >= none);
        place[i] = (uint32_t)(v < none ? v : none);
    }
    return others != 0;
}

INLINE int find_places(const Counting *c, const T *x, int m, uint32_t *place, const int is_binned) {
    return is_binned ? find_bins(c, x, m, place) : find_counts(c, x, m, place);
}

static inline void note_other(Counting *c, int64_t v) {
    c->least = v < c->least ? v : c->least;
    c->most = v > c->most ? v : c->most;
}

static void look_again(Counting *c, const T *x, int m, uint32_t *place, const int is_binned) {
    for (int i = 0; i < m; i++)
        if (is_binned) {
            const int64_t bin = bin_of((double)x[i], c->edges, c->n_counts, c->scale);
            place[i] = (uint32_t)(bin < 0 ? c->n_counts : bin);
        } else if (place[i] == c->n_counts) note_other(c, (int64_t)x[i]);
}

static void count_directly(Counting *c, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        const uint64_t v = (uint64_t)c->x[i];
        if (v < (uint64_t)c->n_counts) c->counts[v]++;
        else note_other(c, (int64_t)c->x[i]);
    }
}

/* Parts of the values until there are none left, into counts of this thread's own: n_counts and one for the others. */
INLINE void count_parts(Counting *all, Counting *own, const int is_binned) {
    const int64_t n = own->n_counts, is_few = n <= MOST_TABLED;
    uint32_t tables[TABLES * (MOST_TABLED + 1)], place[CHUNK];
    if (is_few) memset(tables, 0, TABLES * (n + 1) * sizeof *tables);
    for (int64_t from; (from = __atomic_fetch_add(&all->next, PART, __ATOMIC_RELAXED)) < own->n;) {
        const int64_t to = own->n - from < PART ? own->n : from + PART;
        if (!is_few && !is_binned) {
            count_directly(own, from, to);
            continue;
        }
        for (int64_t i = from; i < to; i += CHUNK) {
            const int m = to - i < CHUNK ? (int)(to - i) : CHUNK;
            const int is_sure = m == CHUNK ? !find_places(own, own->x + i, CHUNK, place, is_binned)
                                           : !find_places(own, own->x + i, m, place, is_binned);
            if (!is_sure) look_again(own, own->x + i, m, place, is_binned);
            int k = 0;
            if (is_few) for (; k + TABLES <= m; k += TABLES)
                for (int t = 0; t < TABLES; t++) tables[t * (n + 1) + place[k + t]]++;
            for (; k < m; k++)
                if (is_few) tables[place[k]]++;
                else own->counts[place[k]]++;
        }
        if (is_few) { /* before they could be full */
            for (int64_t v = 0; v <= n; v++)
                for (int t = 0; t < TABLES; t++) own->counts[v] += tables[t * (n + 1) + v];
            memset(tables, 0, TABLES * (n + 1) * sizeof *tables);
        }
    }
}

static void count_own(void *given) {
    Counting *all = given, own = *all;
    own.counts = calloc(own.n_counts + 1, sizeof *own.counts);
    if (!own.counts) return; /* others do it; the one that asked has counts */
    if (own.edges) count_parts(all, &own, 1);
    else count_parts(all, &own, 0);
    for (int64_t v = 0; v < own.n_counts; v++)
        if (own.counts[v]) __atomic_fetch_add(all->counts + v, own.counts[v], __ATOMIC_RELAXED);
    for (int64_t known = __atomic_load_n(&all->least, __ATOMIC_RELAXED); own.least < known;)
        if (__atomic_compare_exchange_n(&all->least, &known, own.least, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
    for (int64_t known = __atomic_load_n(&all->most, __ATOMIC_RELAXED); own.most > known;)
        if (__atomic_compare_exchange_n(&all->most, &known, own.most, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
    free(own.counts);
}

/* Adds to the counts, by as many threads as have much more to look at than to add up; 0 if there is no memory. */
static int64_t count_all(Counting *all, int64_t n_threads) {
    all->least = INT64_MAX, all->most = INT64_MIN;
    const int64_t most = all->n / (2 * PART + 4 * all->n_counts);
    if (n_threads > most) n_threads = most;
    if (n_threads > 1) share(count_own, all, n_threads);
    else count_own(all);
    return all->next >= all->n;
}

#if !IS_FLOAT
/* The same of values that are not many more than counts, by one thread: no other table is filled, none looked through. */
static int64_t count_few(const T *x, int64_t n, int64_t n_counts, int64_t *counts, int64_t *ends) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = (int64_t)x[i];
        least = v < least ? v : least;
        most = v > most ? v : most;
        if ((uint64_t)v < (uint64_t)n_counts) counts[v]++;
    }
    ends[0] = least;
    ends[1] = most;
    return 1;
}

/* Adds to counts[v] for each v in 0 .. n_counts - 1; others are left out. The smallest and the largest value of all go
   into `ends`; those of counted values follow from the counts, which costs less than comparing. */
int64_t count_values(const T *x, int64_t n, int64_t n_counts, int64_t n_threads, int64_t *counts, int64_t *ends) {
    if (n_counts > MOST_TABLED && n < 4 * n_counts) return count_few(x, n, n_counts, counts, ends);
    Counting all = {.x = x, .n = n, .n_counts = n_counts, .counts = counts};
    const int64_t is_done = count_all(&all, n_threads);
    for (int64_t v = 0; v < n_counts; v++)
        if (counts[v]) {
            all.least = v < all.least ? v : all.least;
            all.most = v > all.most ? v : all.most;
        }
    ends[0] = all.least;
    ends[1] = all.most;
    return is_done;
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

int64_t count_bins(const T *x, int64_t n, const double *edges, int64_t n_bins, int64_t n_threads, int64_t *counts) {
    const double first = edges[0], last = edges[n_bins];
    double scale = n_bins / (last - first);
    if (!(scale > 0 && scale < 1e300)) scale = 0;
    /* an edge is where a guess has it but for how uneven edges are and what is rounded */
    double uneven = 0;
    for (int64_t i = 0; i <= n_bins; i++) {
        const double off = fabs((edges[i] - first) * scale - (double)i);
        uneven = off > uneven ? off : uneven;
    }
    const double near_an_edge = uneven + 0x1p-48 * ((double)n_bins + (fabs(first) + fabs(last)) * scale);
    Counting all = {.x = x, .n = n, .n_counts = n_bins, .counts = counts, .edges = edges, .scale = scale};
    all.near_an_edge = scale > 0 && near_an_edge < 0.25 ? near_an_edge : 1; /* none is sure */
    return count_all(&all, n_threads);
}
