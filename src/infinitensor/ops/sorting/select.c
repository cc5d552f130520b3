/* Values of given ranks, found by their digits and not by sorting; the parts that ranks divide a line into; the
   first few. */

#include "keys.c"

#define INLINE static inline __attribute__((always_inline))
#if IS_FLOAT
#define IS_NUMBER(x) ((x) == (x))
#else
#define IS_NUMBER(x) 1
#endif
#define N_DIGITS (BITS / 8)
#define GROUP 16 /* values that are looked at together: most groups have nothing to count */

typedef T Values __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
typedef S Flags __attribute__((vector_size(16)));

/* Whether one of a group holds something; compilers leave such a loop over single values as it is. */
#define SOME(x, holds)                                                      \
    ({                                                                      \
        Flags some = {0};                                                   \
        for (int k = 0; k < GROUP; k += 16 / sizeof(T)) {                   \
            Values v = *(const Values *)(x + k);                            \
            some |= holds;                                                  \
        }                                                                   \
        uint64_t both[2];                                                   \
        memcpy(both, &some, 16);                                            \
        (both[0] | both[1]) != 0;                                           \
    })

/* --- lines ----------------------------------------------------------------------------------- */

/* The keys of r ranks (rising; `base` keys come before) among n keys that agree above the digit number d. What
   shares a rank's digit is put into `spare` and looked at again. */
static void select_keys(U *keys, int64_t n, int d, const int64_t *ranks, int64_t r, int64_t base, U *out, U *spare) {
    uint32_t counts[256];
    for (; n > SHORT && d >= 0; d--) {
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < n; i++) counts[(keys[i] >> (8 * d)) & 255]++;
        if (counts[(keys[0] >> (8 * d)) & 255] < n) break;
    }
    if (n <= SHORT) insert_keys(keys, n);
    if (n <= SHORT || d < 0) {
        for (int64_t j = 0; j < r; j++) out[j] = keys[ranks[j] - base];
        return;
    }
    int64_t j = 0, sum = base;
    for (U digit = 0; j < r; sum += counts[digit++]) {
        int64_t first = j, m = 0, count = counts[digit];
        while (j < r && ranks[j] < sum + count) j++;
        if (j == first) continue;
        for (int64_t i = 0; i < n && m < count; i++) {
            spare[m] = keys[i];
            m += ((keys[i] >> (8 * d)) & 255) == digit;
        }
        select_keys(spare, m, d - 1, ranks + first, j - first, sum, out + first, spare + m);
    }
}

/* Of each of `n_lines` lines of n elements those of r ranks, which rise. `spare`: N_DIGITS + 1 lines. */
int64_t select_lines(const T *x, int64_t n_lines, int64_t n, const int64_t *ranks, int64_t r, T *out, U *spare) {
    U *keys = spare, *found = (U *)out;
    for (int64_t line = 0; line < n_lines; line++, x += n, out += r, found += r) {
        U most = 0;
        for (int64_t i = 0; i < n; i++) {
            keys[i] = key_of(x[i]);
            most = keys[i] > most ? keys[i] : most;
        }
        int64_t inner = r;
        while (inner > 0 && ranks[inner - 1] == n - 1) found[--inner] = most;
        select_keys(keys, n, N_DIGITS - 1, ranks, inner, 0, found, spare + n);
        for (int64_t j = 0; j < r; j++) out[j] = value_of(found[j]);
    }
    return 0;
}

/* --- digits ---------------------------------------------------------------------------------- */

#define CHUNK 1024 /* values that stay in the first cache while several prefixes are looked for */

/* Counts the digit of `bits` bits at `shift` of those keys that agree with a prefix above it. */
INLINE void count_chunk(const T *x, int64_t n, U prefix, int64_t shift, int64_t bits, int64_t *counts) {
    int64_t top = shift + bits, i = 0;
    U mask = (U)(((U)1 << bits) - 1), rest = top < BITS ? (U)(((U)1 << top) - 1) : (U)~(U)0, keys[CHUNK];
    T low = value_of(prefix & ~rest), high = value_of(prefix | rest);
    if (top >= BITS) {
        for (i = 0; i < n; i++) keys[i] = key_of(x[i]) >> shift;
        for (i = 0; i < n; i++) counts[keys[i]]++;
    } else if (low <= high) /* not so where NaN shares the prefix */
        for (; i + GROUP <= n; i += GROUP) {
            if (!SOME(x + i, (v >= low) & (v <= high))) continue;
            for (int k = 0; k < GROUP; k++) {
                U key = key_of(x[i + k]);
                if (key >> top == prefix >> top) counts[(key >> shift) & mask]++;
            }
        }
    for (; i < n; i++) {
        U key = key_of(x[i]);
        if (key >> top == prefix >> top) counts[(key >> shift) & mask]++;
    }
}

/* The same for each line and each of its r prefixes: `state` has (prefix, rank) for each; `counts` (n_lines, r,
   2^bits) zeros. Prefixes that agree are counted once. */
int64_t count_digits(const T *x, int64_t n_lines, int64_t n, const int64_t *state, int64_t r, int64_t shift, int64_t bits, int64_t *counts) {
    int64_t n_digits = (int64_t)1 << bits, top = shift + bits;
    for (int64_t line = 0; line < n_lines; line++, x += n, state += 2 * r, counts += r * n_digits) {
#define AGREE(j) (j > 0 && (top >= BITS || (U)state[2 * (j) - 2] >> top == (U)state[2 * (j)] >> top))
        for (int64_t i = 0; i < n; i += CHUNK)
            for (int64_t j = 0; j < r; j++)
                if (!AGREE(j)) count_chunk(x + i, n - i < CHUNK ? n - i : CHUNK, (U)state[2 * j], shift, bits, counts + j * n_digits);
        for (int64_t j = 0; j < r; j++)
            if (AGREE(j)) memcpy(counts + j * n_digits, counts + (j - 1) * n_digits, n_digits * sizeof *counts);
    }
    return 0;
}

/* --- parts ----------------------------------------------------------------------------------- */

/* The part a key is in: before the first of r borders, equal to it, between it and the next, ... */
INLINE int64_t part_of(U key, const U *borders, int64_t r) {
    int64_t part = 0;
    for (int64_t j = 0; j < r; j++) part += (key > borders[j]) + (key >= borders[j]);
    return part;
}

/* A run of n elements, part after part, each in its own order. `places`: 2 r + 2 numbers; `borders`: r keys. */
int64_t part_run(const T *x, int64_t n, const T *values, int64_t r, T *out, U *borders, int64_t *places) {
    for (int64_t j = 0; j < r; j++) borders[j] = stable_key_of(values[j]);
    memset(places, 0, (2 * r + 2) * sizeof *places);
    T one = values[0];
    if (r == 1 && IS_NUMBER(one)) { /* the same without keys */
        int64_t before = 0, equal = 0, behind = 0;
        for (int64_t i = 0; i < n; i++) {
            equal += x[i] < one;
            behind += x[i] <= one;
        }
        for (int64_t i = 0; i < n; i++) {
            int is_below = x[i] < one, is_upto = x[i] <= one;
            out[is_below ? before : is_upto ? equal : behind] = x[i];
            before += is_below;
            equal += is_upto - is_below;
            behind += !is_upto;
        }
        return 0;
    }
    for (int64_t i = 0; i < n; i++) places[part_of(stable_key_of(x[i]), borders, r) + 1]++;
    for (int64_t p = 0; p <= 2 * r; p++) places[p + 1] += places[p];
    for (int64_t i = 0; i < n; i++) out[places[part_of(stable_key_of(x[i]), borders, r)]++] = x[i];
    return 0;
}

/* The elements lo..hi of a line whose runs are in parts: each part of each run after the other. `starts`: a number
   for each run. */
int64_t join_parts(const T *line, int64_t n, int64_t run, const T *values, int64_t r, int64_t lo, int64_t hi, T *out, U *borders, int64_t *starts) {
    int64_t at = 0;
    for (int64_t j = 0; j < r; j++) borders[j] = stable_key_of(values[j]);
    for (int64_t first = 0, k = 0; first < n; first += run) starts[k++] = first;
    for (int64_t part = 0; part <= 2 * r; part++)
        for (int64_t first = 0, k = 0; first < n; first += run, k++) {
            int64_t a = starts[k], b = first + run < n ? first + run : n;
            while (a < b) {
                int64_t middle = (a + b) / 2;
                if (part_of(stable_key_of(line[middle]), borders, r) <= part) a = middle + 1;
                else b = middle;
            }
            int64_t from = at > lo ? at : lo, to = at + a - starts[k];
            to = to < hi ? to : hi;
            if (from < to) memcpy(out + from - lo, line + starts[k] + from - at, (to - from) * sizeof(T));
            at += a - starts[k];
            starts[k] = a;
        }
    return 0;
}

/* --- top k ----------------------------------------------------------------------------------- */

/* The first k of each line in order, rising or (`largest`) falling; of equal ones the earlier is first, NaN is the
   largest of all. Their places, `first` added. For few k: each better one is inserted among the best so far. */
INLINE void first_of_lines(const T *x, int64_t n_lines, int64_t n, int64_t k, int largest, int64_t first, T *values, int64_t *places, U *best) {
    U turn = largest ? (U)~(U)0 : 0;
    for (int64_t line = 0; line < n_lines; line++, x += n, values += k, places += k) {
        int64_t count = 0;
        for (int64_t i = 0; i < n;) {
            if (count == k && i + GROUP <= n) {
                T limit = value_of(best[k - 1] ^ turn);
                int some = largest ? SOME(x + i, ~(v <= limit)) : SOME(x + i, ~(v >= limit));
                if (!some) {
                    i += GROUP;
                    continue;
                }
            }
            for (int64_t end = i + GROUP < n ? i + GROUP : n; i < end; i++) {
                U key = stable_key_of(x[i]) ^ turn;
                if (count == k && key >= best[k - 1]) continue;
                int64_t at = count < k ? count++ : k - 1;
                for (; at > 0 && best[at - 1] > key; at--) {
                    best[at] = best[at - 1];
                    places[at] = places[at - 1];
                }
                best[at] = key;
                places[at] = i;
            }
        }
        for (int64_t j = 0; j < k; j++) {
            values[j] = x[places[j]];
            places[j] += first;
        }
    }
}

int64_t first_k(const T *x, int64_t n_lines, int64_t n, int64_t k, int64_t largest, int64_t first, T *values, int64_t *places, U *best) {
    if (largest) first_of_lines(x, n_lines, n, k, 1, first, values, places, best);
    else first_of_lines(x, n_lines, n, k, 0, first, values, places, best);
    return 0;
}
