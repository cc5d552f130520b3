/* Sorting by radix, short lines by a network, order by numbers of key and place, and merging of sorted runs by rank. With an index -0.0 and 0.0 are equal, so that the order is
   stable; without one -0.0 comes first. */

#include "keys.c"

/* --- radix ----------------------------------------------------------------------------------- */

#define N_DIGITS (BITS / 8)
typedef uint32_t Counts[N_DIGITS][256];

/* Turns counts into first places; 0 where all have one digit and the pass may be left out. */
static int first_places(uint32_t *counts, int64_t n) {
    uint32_t sum = 0;
    for (int c = 0; c < 256; c++) {
        uint32_t count = counts[c];
        if (count == n) return 0;
        counts[c] = sum;
        sum += count;
    }
    return 1;
}

static inline void count_digits(Counts counts, U key) {
    for (int d = 0; d < N_DIGITS; d++) counts[d][(key >> (8 * d)) & 255]++;
}

static void sort_line(const T *x, int64_t n, T *out, U *spare) {
    U *keys = (U *)out, *other = spare;
    int sorted = 1;
    for (int64_t i = 0; i < n; i++) keys[i] = key_of(x[i]);
    for (int64_t i = 1; i < n && sorted; i++) sorted = keys[i] >= keys[i - 1];
    Counts counts;
    if (n < SHORT) {
        insert_keys(keys, n);
        sorted = 1;
    } else if (!sorted) {
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < n; i++) count_digits(counts, keys[i]);
    }
    for (int d = 0; d < N_DIGITS && !sorted; d++) {
        uint32_t *place = counts[d];
        if (!first_places(place, n)) continue;
        for (int64_t i = 0; i < n; i++) other[place[(keys[i] >> (8 * d)) & 255]++] = keys[i];
        U *swap = keys;
        keys = other;
        other = swap;
    }
    for (int64_t i = 0; i < n; i++) out[i] = value_of(keys[i]);
}

static void (*share)(void (*)(void *), void *, int64_t); /* of `threads.c` */

void set_share(void (*given)(void (*)(void *), void *, int64_t)) { share = given; }

/* Lines, or lanes of them, that several threads take; `spare` has room for a line of each thread. */
typedef struct {
    const T *x;
    T *out;
    U *spare;
    int64_t n, n_units, n_taken, n_here;
    const int64_t *shape, *steps;
} Lines;

static void take_lines(void *given) {
    Lines *all = given;
    U *spare = all->spare + __atomic_fetch_add(&all->n_here, 1, __ATOMIC_RELAXED) * all->n;
    for (int64_t line; (line = __atomic_fetch_add(&all->n_taken, 1, __ATOMIC_RELAXED)) < all->n_units;)
        sort_line(all->x + line * all->n, all->n, all->out + line * all->n, spare);
}

/* Sorts each of `n_lines` lines of n elements of x into out; `spare` has room for one line of each thread. */
int64_t sort_lines(const T *x, int64_t n_lines, int64_t n, T *out, U *spare, int64_t n_threads) {
    Lines all = {.x = x, .out = out, .spare = spare, .n = n, .n_units = n_lines};
    if (n_threads > 1) share(take_lines, &all, n_threads);
    else take_lines(&all);
    return 0;
}

/* --- networks --------------------------------------------------------------------------------- */

enum { MOST_EXCHANGED = 32, LANES = 64 };

/* Keys as signed integers, which every processor compares several at a time. */
static inline S signed_key_of(T value) { return (S)(key_of(value) ^ TOP); }
static inline T value_of_signed(S key) { return value_of((U)key ^ TOP); }

static inline void exchange(S *restrict low, S *restrict high) {
    for (int k = 0; k < LANES; k++) {
        S a = low[k], b = high[k];
        low[k] = a < b ? a : b;
        high[k] = a < b ? b : a;
    }
}

/* Sorts lanes of n keys, by exchanges that depend on n alone (Batcher's, as Knuth's algorithm 5.2.2M has them). */
static void exchange_all(S keys[][LANES], int64_t n) {
    int64_t half = 1;
    while (2 * half < n) half *= 2;
    for (int64_t p = half; p > 0; p /= 2)
        for (int64_t q = half, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (int64_t i = 0; i < n - d; i++)
                if ((i & p) == r) exchange(keys[i], keys[i + d]);
            if (q == p) break;
        }
}

/* Lanes of elements: the first, and the steps to the next element and to the next lane. */
typedef struct {
    T *first;
    int64_t next, lane;
} Lanes;

static inline __attribute__((always_inline)) void sort_lanes(Lanes from, Lanes to, int64_t n, int64_t m) {
    S keys[MOST_EXCHANGED][LANES];
    memset(keys, 0, n * sizeof *keys);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < m; k++) keys[i][k] = signed_key_of(from.first[i * from.next + k * from.lane]);
    exchange_all(keys, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < m; k++) to.first[i * to.next + k * to.lane] = value_of_signed(keys[i][k]);
}

/* Sorts as many short lines as there are lanes, beginning anew with each table. */
static void take_lanes(void *given) {
    Lines *all = given;
    const int64_t n = all->n, is_one = all->shape[2] == 1, *steps = all->steps;
    const int64_t n_lanes = is_one ? all->shape[0] : all->shape[2], n_parts = (n_lanes - 1) / LANES + 1;
    for (int64_t unit; (unit = __atomic_fetch_add(&all->n_taken, 1, __ATOMIC_RELAXED)) < all->n_units;) {
        const int64_t table = unit / n_parts, k = unit % n_parts * LANES, m = n_lanes - k < LANES ? n_lanes - k : LANES;
        T *x = (T *)all->x + table * steps[0], *out = all->out + table * steps[2];
        if (is_one)
            sort_lanes((Lanes){x + k * steps[0], steps[1], steps[0]}, (Lanes){out + k * steps[2], steps[3], steps[2]}, n, m);
        else sort_lanes((Lanes){x + k, steps[1], 1}, (Lanes){out + k, steps[3], 1}, n, m);
    }
}

/* Sorts short lines, of up to MOST_EXCHANGED elements, several at a time: the columns of tables, whose elements are side
   by side in a row unless there is one column. `shape`: how many tables, rows and columns; `steps`: from table to table
   and from row to row, of x and of out. */
int64_t sort_short(T *x, T *out, const int64_t *shape, const int64_t *steps, int64_t n_threads) {
    const int64_t is_one = shape[2] == 1, n_lanes = is_one ? shape[0] : shape[2];
    if (!n_lanes) return 0;
    Lines all = {.x = x, .out = out, .n = shape[1], .shape = shape, .steps = steps};
    all.n_units = ((n_lanes - 1) / LANES + 1) * (is_one ? 1 : shape[0]);
    if (n_threads > 1) share(take_lanes, &all, n_threads);
    else take_lanes(&all);
    return 0;
}

typedef struct {
    U key;
    uint32_t at;
} Pair;

/* The stable order of each line, `first` added; the sorted values too, unless `values` is NULL.
   `spare` has room for two lines of pairs. */
int64_t argsort_lines(const T *x, int64_t n_lines, int64_t n, T *values, int64_t *order, Pair *spare, int64_t first) {
    for (int64_t line = 0; line < n_lines; line++, x += n, order += n) {
        Counts counts = {{0}};
        Pair *pairs = spare, *other = spare + n;
        for (int64_t i = 0; i < n; i++) {
            U key = stable_key_of(x[i]);
            count_digits(counts, key);
            pairs[i] = (Pair){key, (uint32_t)i};
        }
        for (int d = 0; d < N_DIGITS; d++) {
            uint32_t *place = counts[d];
            if (!first_places(place, n)) continue;
            for (int64_t i = 0; i < n; i++) other[place[(pairs[i].key >> (8 * d)) & 255]++] = pairs[i];
            Pair *swap = pairs;
            pairs = other;
            other = swap;
        }
        for (int64_t i = 0; i < n; i++) order[i] = first + pairs[i].at;
        if (values) {
            for (int64_t i = 0; i < n; i++) values[i] = x[pairs[i].at];
            values += n;
        }
    }
    return 0;
}

/* --- numbers of key and place ------------------------------------------------------------------ */

/* Each element's key above its place in the line, as one number, so that whoever sorts numbers finds the stable order.
   Keys count from the least of a line; where they are still too long their last bits are lost: `is_exact` says of which
   lines they are not. */
int64_t pack_lines(const T *x, int64_t n_lines, int64_t n, int64_t *packed, uint8_t *is_exact) {
    const uint64_t least = (uint64_t)1 << 63;
    int place_bits = 0;
    while ((int64_t)1 << place_bits < n) place_bits++;
    for (int64_t line = 0; line < n_lines; line++, x += n, packed += n) {
        U low = (U)~(U)0, high = 0;
        for (int64_t i = 0; i < n; i++) {
            const U key = stable_key_of(x[i]);
            low = key < low ? key : low;
            high = key > high ? key : high;
        }
        int lost = 0;
        while ((uint64_t)(high - low) >> lost >> (63 - place_bits) >> 1) lost++;
        is_exact[line] = lost == 0;
        for (int64_t i = 0; i < n; i++)
            packed[i] = (int64_t)(((uint64_t)(U)(stable_key_of(x[i]) - low) >> lost << place_bits | (uint64_t)i) ^ least);
    }
    return 0;
}

/* The stable order of each line, `first` added, from its sorted numbers, which are in `order`, and the sorted values,
   unless `values` is NULL. Keys that lost bits are put in order among neighbours; 0 where that takes many steps. */
int64_t unpack_lines(const T *x, int64_t n_lines, int64_t n, const uint8_t *is_exact, T *values, int64_t *order,
                     int64_t first) {
    enum { MOST_STEPS = 8 }; /* an element, on average of a line */
    int place_bits = 0;
    while ((int64_t)1 << place_bits < n) place_bits++;
    const int64_t places = ((int64_t)1 << place_bits) - 1;
    for (int64_t line = 0; line < n_lines; line++, x += n, order += n) {
        for (int64_t i = 0; i < n; i++) order[i] &= places;
        int64_t steps = 0;
        U before = is_exact[line] ? 0 : stable_key_of(x[order[0]]);
        for (int64_t i = 1; i < n && !is_exact[line]; i++) {
            const int64_t place = order[i];
            const U key = stable_key_of(x[place]);
            if (key >= before) {
                before = key;
                continue;
            }
            int64_t at = i;
            for (; at > 0 && stable_key_of(x[order[at - 1]]) > key; at--) order[at] = order[at - 1];
            order[at] = place;
            if ((steps += i - at) > MOST_STEPS * n) return 0;
        }
        if (values) {
            for (int64_t i = 0; i < n; i++) values[i] = x[order[i]];
            values += n;
        }
        for (int64_t i = 0; first && i < n; i++) order[i] += first;
    }
    return 1;
}

/* --- merging --------------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

INLINE U either_key(T value, int indexed) { return indexed ? stable_key_of(value) : key_of(value); }

/* The first of the sorted values lo..hi whose key is not below (after: is above) a key. */
INLINE int64_t search(const T *x, int64_t lo, int64_t hi, U key, int after, int indexed) {
    while (lo < hi) {
        int64_t middle = (lo + hi) / 2;
        U found = either_key(x[middle], indexed);
        int below = after ? found <= key : found < key;
        lo = below ? middle + 1 : lo;
        hi = below ? hi : middle;
    }
    return lo;
}

/* How many elements of each sorted run are among the `rank` first of all, into lo; equal ones go by run, then
   by place. Bisects the keys; `hi` and `at` are scratch, a number for each run. */
INLINE void split_runs(const T *line, int64_t n, int64_t run, int64_t rank, int64_t *lo, int64_t *hi, int64_t *at, int indexed) {
    int64_t k = (n + run - 1) / run, rest = rank;
    for (int64_t r = 0; r < k; r++) {
        lo[r] = 0;
        hi[r] = r * run + run < n ? run : n - r * run;
    }
    U low = 0, high = (U)~(U)0; /* the key of the element of that rank is within */
    while (low < high) {
        U middle = low + (high - low) / 2;
        int64_t below = 0;
        for (int64_t r = 0; r < k; r++) below += at[r] = search(line + r * run, lo[r], hi[r], middle, 1, indexed);
        if (below > rank) high = middle;
        else low = middle + 1;
        memcpy(below > rank ? hi : lo, at, k * sizeof *at);
    }
    for (int64_t r = 0; r < k; r++) rest -= lo[r] = search(line + r * run, lo[r], hi[r], low, 0, indexed);
    for (int64_t r = 0; r < k && rest > 0; r++) { /* those equal to the key, run by run */
        int64_t equal = search(line + r * run, lo[r], hi[r], low, 1, indexed) - lo[r];
        int64_t taken = equal < rest ? equal : rest;
        lo[r] += taken;
        rest -= taken;
    }
}

typedef struct {
    U *keys;
    int64_t *index; /* of each key; unused without one */
} Buffer;

/* Sorted from[first..middle) and from[middle..last) into `to`: from both ends at once, without branches. */
INLINE void merge_two(Buffer from, Buffer to, int64_t first, int64_t middle, int64_t last, int indexed) {
    const U *keys = from.keys;
    int64_t a = first, a_end = middle - 1, b = middle, b_end = last - 1, head = first, tail = last - 1;
    while (a <= a_end && b <= b_end) {
        int64_t m = a_end - a < b_end - b ? a_end - a + 1 : b_end - b + 1;
        for (int64_t i = 0; i < m; i++) {
            U left = keys[a], right = keys[b], left_end = keys[a_end], right_end = keys[b_end];
            int second = right < left, early = left_end > right_end;
            if (indexed) to.index[head] = from.index[second ? b : a];
            to.keys[head++] = second ? right : left;
            b += second;
            a += !second;
            if (indexed) to.index[tail] = from.index[early ? a_end : b_end];
            to.keys[tail--] = early ? left_end : right_end;
            a_end -= early;
            b_end -= !early;
        }
    }
    int64_t rest = a <= a_end ? a : b;
    memcpy(to.keys + head, keys + rest, (tail - head + 1) * sizeof(U));
    if (indexed) memcpy(to.index + head, from.index + rest, (tail - head + 1) * sizeof(int64_t));
}

typedef struct {
    const T *line;
    const int64_t *index;
    int64_t run;
    const int64_t *start, *at; /* where each piece begins in its run, and in the buffers */
} Pieces;

INLINE void load_piece(const Pieces *p, int64_t r, Buffer to, int indexed) {
    const T *values = p->line + r * p->run + p->start[r] - p->at[r];
    for (int64_t i = p->at[r]; i < p->at[r + 1]; i++) to.keys[i] = either_key(values[i], indexed);
    if (indexed)
        memcpy(to.index + p->at[r], p->index + r * p->run + p->start[r], (p->at[r + 1] - p->at[r]) * sizeof(int64_t));
}

#define MERGE_PIECES(name, indexed)                                                                    \
    static void name(const Pieces *p, int64_t first, int64_t last, Buffer to, Buffer spare) {          \
        if (last - first == 1) {                                                                       \
            load_piece(p, first, to, indexed);                                                         \
            return;                                                                                    \
        }                                                                                              \
        int64_t middle = (first + last) / 2;                                                           \
        name(p, first, middle, spare, to);                                                             \
        name(p, middle, last, spare, to);                                                              \
        merge_two(spare, to, p->at[first], p->at[middle], p->at[last], indexed);                       \
    }
MERGE_PIECES(merge_values, 0)
MERGE_PIECES(merge_indexed, 1)

/* Two sorted runs into `out`, likewise from both ends, without keys in memory. */
static void merge_pair(const T *x, int64_t n_x, const T *y, int64_t n_y, T *out) {
    int64_t a = 0, a_end = n_x - 1, b = 0, b_end = n_y - 1, head = 0, tail = n_x + n_y - 1;
    while (a <= a_end && b <= b_end) {
        const int64_t m = a_end - a < b_end - b ? a_end - a + 1 : b_end - b + 1;
        for (int64_t i = 0; i < m; i++) {
            const U left = key_of(x[a]), right = key_of(y[b]), left_end = key_of(x[a_end]), right_end = key_of(y[b_end]);
            const int second = right < left, early = left_end > right_end;
            out[head++] = value_of(second ? right : left);
            b += second;
            a += !second;
            out[tail--] = value_of(early ? left_end : right_end);
            a_end -= early;
            b_end -= !early;
        }
    }
    for (const T *rest = a <= a_end ? x + a : y + b; head <= tail; rest++) out[head++] = value_of(key_of(*rest));
}

/* The elements with ranks lo..hi of a line of sorted runs. `spare`: hi - lo keys; `places`: 5 numbers a run. */
int64_t merge_runs(const T *line, int64_t n, int64_t run, int64_t lo, int64_t hi, T *out, U *spare, int64_t *places) {
    int64_t k = (n + run - 1) / run, *start = places, *stop = places + k, *at = places + 2 * k;
    split_runs(line, n, run, lo, start, at, at + k, 0);
    split_runs(line, n, run, hi, stop, at, at + k, 0);
    at[0] = 0;
    for (int64_t r = 0; r < k; r++) at[r + 1] = at[r] + stop[r] - start[r];
    if (k == 2) {
        merge_pair(line + start[0], at[1], line + run + start[1], at[2] - at[1], out);
        return 0;
    }
    Pieces pieces = {line, 0, run, start, at};
    U *keys = (U *)out;
    merge_values(&pieces, 0, k, (Buffer){keys, 0}, (Buffer){spare, 0});
    for (int64_t i = 0; i < hi - lo; i++) out[i] = value_of(keys[i]);
    return 0;
}

typedef struct {
    const T *line;
    T *out;
    U *spare;
    int64_t *places, n, run, step, next;
} Merged;

static void take_ranks(void *given) {
    Merged *all = given;
    for (int64_t at; (at = __atomic_fetch_add(&all->next, all->step, __ATOMIC_RELAXED)) < all->n;) {
        const int64_t end = at + all->step < all->n ? at + all->step : all->n, k = (all->n + all->run - 1) / all->run;
        int64_t *places = all->places + at / all->step * 5 * k;
        merge_runs(all->line, all->n, all->run, at, end, all->out + at, all->spare + at, places);
    }
}

/* Merges all of a line of sorted runs, so many ranks in a thread. `spare`: n keys; `places`: 5 numbers a run and thread. */
int64_t merge_shared(const T *line, int64_t n, int64_t run, T *out, U *spare, int64_t *places, int64_t n_threads) {
    Merged all = {line, out, spare, places, n, run, (n - 1) / n_threads + 1, 0};
    if (n_threads > 1) share(take_ranks, &all, n_threads);
    else take_ranks(&all);
    return 0;
}

/* As merge_runs, of the index that is beside the values. `spare`: twice hi - lo keys, then as many numbers. */
int64_t merge_index(const T *line, const int64_t *index, int64_t n, int64_t run, int64_t lo, int64_t hi, int64_t *out,
                    U *spare, int64_t *spare_index, int64_t *places) {
    int64_t k = (n + run - 1) / run, *start = places, *stop = places + k, *at = places + 2 * k;
    split_runs(line, n, run, lo, start, at, at + k, 1);
    split_runs(line, n, run, hi, stop, at, at + k, 1);
    at[0] = 0;
    for (int64_t r = 0; r < k; r++) at[r + 1] = at[r] + stop[r] - start[r];
    Pieces pieces = {line, index, run, start, at};
    merge_indexed(&pieces, 0, k, (Buffer){spare, out}, (Buffer){spare + hi - lo, spare_index});
    return 0;
}
