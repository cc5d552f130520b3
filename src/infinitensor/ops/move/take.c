/* Writing by index and choosing by masks. T is the element. */

#include <string.h>

#define PLACE(i) (index[i] + (size & (index[i] >> 63)))

/* Whether indices into an axis of `size` are in bounds; else one that is not is put into `wrong`. */
static int in_bounds(const int64_t *index, int64_t n, int64_t size, int64_t *wrong) {
    int64_t least = 0, most = -1;
    for (int64_t i = 0; i < n; i++) {
        least = index[i] < least ? index[i] : least;
        most = index[i] > most ? index[i] : most;
    }
    if (least >= -size && most < size) return 1;
    *wrong = least < -size ? least : most;
    return 0;
}

/* --- one tile -------------------------------------------------------------------------------- */

#define ENTRIES 1024

static inline void write_row(T *to, const T *from, int64_t width, int64_t adds) {
    if (adds)
        for (int64_t j = 0; j < width; j++) to[j] += from[j];
    else
        memcpy(to, from, width * sizeof(T));
}

/* Of n rows of `width` elements those whose index falls into lo..hi, the tile `out`, one after the other: put, so
   that the last of equal ones stays, or added. -1, and nothing is written, where an index is out of bounds. */
int64_t write_rows(T *out, int64_t width, const int64_t *index, int64_t n, int64_t size, int64_t lo, int64_t hi, const T *rows, int64_t adds, int64_t *wrong) {
    if (!in_bounds(index, n, size, wrong)) return -1;
    for (int64_t first = 0; first < n; first += ENTRIES, index += ENTRIES, rows += ENTRIES * width) {
        int64_t k = n - first < ENTRIES ? n - first : ENTRIES;
        if (hi - lo == size && width == 1 && adds)
            for (int64_t i = 0; i < k; i++) out[PLACE(i)] += rows[i];
        else if (hi - lo == size && width == 1)
            for (int64_t i = 0; i < k; i++) out[PLACE(i)] = rows[i];
        else {
            int64_t hits[ENTRIES], count = 0;
            for (int64_t i = 0; i < k; i++) {
                hits[count] = i;
                count += (uint64_t)(PLACE(i) - lo) < (uint64_t)(hi - lo);
            }
            for (int64_t h = 0; h < count; h++)
                write_row(out + (PLACE(hits[h]) - lo) * width, rows + hits[h] * width, width, adds);
        }
    }
    return 0;
}

/* The same by k indices, for the leading axes of a tile lo..hi: `index` has where each begins, and `wrong` is an
   index that is out of bounds and its axis. */
int64_t write_points(T *out, int64_t width, int64_t k, const int64_t *const *indices, int64_t n, const int64_t *sizes, const int64_t *lo, const int64_t *hi, const T *rows, int64_t adds, int64_t *wrong) {
    for (int64_t a = 0; a < k; a++)
        if (!in_bounds(indices[a], n, sizes[a], wrong)) {
            wrong[1] = a;
            return -1;
        }
    for (int64_t first = 0; first < n; first += ENTRIES, rows += ENTRIES * width) {
        int64_t m = n - first < ENTRIES ? n - first : ENTRIES, hits[ENTRIES], place[ENTRIES], count = 0;
        uint64_t outside[ENTRIES];
        memset(place, 0, sizeof place), memset(outside, 0, sizeof outside);
        for (int64_t a = 0; a < k; a++) {
            const int64_t *index = indices[a] + first, size = sizes[a], length = hi[a] - lo[a], from = lo[a];
            for (int64_t i = 0; i < m; i++) {
                const int64_t at = PLACE(i) - from;
                outside[i] |= (uint64_t)at >= (uint64_t)length;
                place[i] = place[i] * length + at;
            }
        }
        for (int64_t i = 0; i < m; i++) {
            hits[count] = i;
            count += !outside[i];
        }
        if (width == 1 && !adds)
            for (int64_t h = 0; h < count; h++) out[place[hits[h]]] = rows[hits[h]];
        else
            for (int64_t h = 0; h < count; h++)
                write_row(out + place[hits[h]] * width, rows + hits[h] * width, width, adds);
    }
    return 0;
}

/* --- many entries: dealt into buckets first -------------------------------------------------- */

/* Entries in the order of their buckets of 2^shift places, those of one bucket in their own order; places are not
   negative any more. `at`: a zero for each bucket and one more. -1 where an index is out of bounds. */
int64_t deal(const int64_t *index, const T *rows, int64_t n, int64_t size, int64_t shift, int64_t *at, uint32_t *places, T *dealt, int64_t *wrong) {
    int64_t n_buckets = ((size - 1) >> shift) + 1;
    for (int64_t i = 0; i < n; i++) {
        uint64_t place = PLACE(i);
        at[place < (uint64_t)size ? (int64_t)(place >> shift) : n_buckets]++;
    }
    if (at[n_buckets]) return in_bounds(index, n, size, wrong) - 1;
    for (int64_t b = 0, sum = 0; b < n_buckets; b++) {
        int64_t count = at[b];
        at[b] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t place = PLACE(i), to = at[place >> shift]++;
        places[to] = place;
        dealt[to] = rows[i];
    }
    return 0;
}

/* The entries of dealt runs that fall into lo..hi, bucket by bucket: what is written stays in cache. `next`: a
   number for each run. */
int64_t write_dealt(T *out, int64_t lo, int64_t hi, const uint32_t *places, const T *rows, int64_t n, int64_t run, int64_t shift, int64_t adds, int64_t *next) {
    for (int64_t r = 0, start = 0; start < n; r++, start += run) {
        int64_t a = start, b = start + run < n ? start + run : n;
        while (a < b) {
            int64_t middle = (a + b) / 2;
            if (places[middle] >> shift < lo >> shift) a = middle + 1;
            else b = middle;
        }
        next[r] = a;
    }
    for (int64_t bucket = lo >> shift; bucket << shift < hi; bucket++) {
        int64_t end = (bucket + 1) << shift;
        int whole = bucket << shift >= lo && end <= hi;
        for (int64_t r = 0, start = 0; start < n; r++, start += run) {
            int64_t i = next[r], stop = start + run < n ? start + run : n;
            if (whole && adds)
                for (; i < stop && places[i] < end; i++) out[places[i] - lo] += rows[i];
            else if (whole)
                for (; i < stop && places[i] < end; i++) out[places[i] - lo] = rows[i];
            else
                for (; i < stop && places[i] < end; i++)
                    if (places[i] >= lo && places[i] < hi) write_row(out + places[i] - lo, rows + i, 1, adds);
            next[r] = i;
        }
    }
    return 0;
}

/* --- masks ----------------------------------------------------------------------------------- */

/* Eight entries of a mask at a time: none, all or some of them. */
#define NONE 0
#define ALL UINT64_C(0x0101010101010101)
static uint64_t eight(const uint8_t *mask) {
    uint64_t word;
    memcpy(&word, mask, 8);
    return word;
}

/* Where the entry behind the first `skip` ones of a mask of n is looked for. */
static int64_t behind(const uint8_t *mask, int64_t n, int64_t skip) {
    int64_t i = 0;
    while (skip > 0) {
        const int64_t held = i + 8 <= n ? (int64_t)((eight(mask + i) * ALL) >> 56) : skip + 1;
        if (held <= skip)
            skip -= held, i += 8;
        else
            skip -= mask[i++];
    }
    return i;
}

#if defined(__aarch64__) && (BITS == 32 || BITS == 64)
#include <arm_neon.h>
#define FOUR_BYTES (4 * sizeof(T))
#define BY_SHUFFLES 1

/* For each mask of four elements, the bytes of those that it chooses, one after the other. */
static void orders(uint8_t (*order)[FOUR_BYTES]) {
    memset(order, 0, 16 * FOUR_BYTES);
    for (int mask = 0; mask < 16; mask++)
        for (int j = 0, k = 0; j < 4; j++)
            for (unsigned b = 0; mask >> j & 1 && b < sizeof(T); b++) order[mask][k++] = j * sizeof(T) + b;
}

/* Four elements, those that are chosen first. */
static inline void shuffle(const T *x, const uint8_t *order, T *out) {
    const uint8_t *from = (const uint8_t *)x;
    uint8_t *to = (uint8_t *)out;
#if BITS == 64
    const uint8x16x2_t four = {{vld1q_u8(from), vld1q_u8(from + 16)}};
    vst1q_u8(to, vqtbl2q_u8(four, vld1q_u8(order)));
    vst1q_u8(to + 16, vqtbl2q_u8(four, vld1q_u8(order + 16)));
#else
    vst1q_u8(to, vqtbl1q_u8(vld1q_u8(from), vld1q_u8(order)));
#endif
}

/* The elements that a mask chooses from i on, 32 at a time, as long as there is room for them; how far it came. */
static int64_t choose_some(const uint8_t *mask, int64_t n, int64_t i, int64_t count, const T *x, T *out, int64_t *chosen) {
    uint8_t order[16][FOUR_BYTES];
    int64_t k = 0;
    orders(order);
    while (i + 32 <= n && k + 32 <= count) {
        const uint64_t sums = eight(mask + i) + eight(mask + i + 8) + eight(mask + i + 16) + eight(mask + i + 24);
        const int64_t held = (int64_t)((sums * ALL) >> 56), end = i + 32;
        if (held == 32) memcpy(out + k, x + i, 32 * sizeof(T)), k += 32;
        if (held == 0 || held == 32) i = end;
        for (; i < end; i += 8) {
            const uint64_t word = eight(mask + i);
            const unsigned bits = (unsigned)((word * UINT64_C(0x0102040810204080)) >> 56);
            shuffle(x + i, order[bits & 15], out + k);
            shuffle(x + i + 4, order[bits >> 4], out + k + (((uint32_t)word * UINT32_C(0x01010101)) >> 24));
            k += (int64_t)((word * ALL) >> 56);
        }
    }
    *chosen = k;
    return i;
}
#else
#define BY_SHUFFLES 0
#endif

/* The elements number skip .. skip + count of those a mask of n chooses. */
int64_t choose(const uint8_t *mask, int64_t n, int64_t skip, int64_t count, const T *x, T *out) {
    int64_t i = behind(mask, n, skip), k = 0;
#if BY_SHUFFLES
    if (count < (n - i) / 8 * 7) /* else most are, in one run */
        i = choose_some(mask, n, i, count, x, out, &k);
#endif
    while (k < count) {
        const uint64_t word = i + 8 <= n ? eight(mask + i) : 1;
        if (word == NONE) {
            i += 8;
        } else if (i + 8 > n || k + 8 > count) {
            out[k] = x[i];
            k += mask[i++];
        } else if (word == ALL) {
            memcpy(out + k, x + i, 8 * sizeof(T));
            k += 8, i += 8;
        } else {
            for (int j = 0; j < 8; j++) {
                out[k] = x[i];
                k += mask[i++];
            }
        }
    }
    return 0;
}

/* The same of rows of so many bytes, `step` bytes apart. */
int64_t choose_rows(const uint8_t *mask, int64_t n, int64_t skip, int64_t count, const char *x,
                    int64_t step, int64_t n_bytes, char *out) {
    int64_t i = behind(mask, n, skip);
    for (int64_t k = 0; k < count;) {
        if (i + 8 <= n && eight(mask + i) == NONE) {
            i += 8;
            continue;
        }
        if (mask[i]) memcpy(out + k++ * n_bytes, x + i * step, n_bytes);
        i++;
    }
    return 0;
}

/* Their places, `first` added. */
int64_t places(const uint8_t *mask, int64_t n, int64_t skip, int64_t count, int64_t first,
               int64_t *out) {
    int64_t i = behind(mask, n, skip);
    for (int64_t k = 0; k < count;) {
        if (i + 8 <= n && eight(mask + i) == NONE) {
            i += 8;
            continue;
        }
        const int64_t end = i + 8 <= n && k + 8 <= count ? i + 8 : i + 1;
        for (; i < end; i++) {
            out[k] = first + i;
            k += mask[i];
        }
    }
    return 0;
}

/* --- what rows that a mask chooses come to ------------------------------------------------------ */

#define FOLD(how)                                                                         \
    for (int64_t i = first + 1; i < n; i++) {                                             \
        if (i + 8 <= n && eight(mask + i) == NONE) {                                      \
            i += 7;                                                                       \
            continue;                                                                     \
        }                                                                                 \
        if (!mask[i]) continue;                                                           \
        const T *row = (const T *)(x + i * step);                                         \
        for (int64_t j = 0; j < width; j++) out[j] = how;                                 \
    }

/* Of rows of `width` elements, `step` bytes apart, those a mask of n chooses (one at least), element by element: the
   bits of one or all of them, the largest, or the smallest (a NaN is both). */
int64_t fold_rows(const uint8_t *mask, int64_t n, const char *x, int64_t step, int64_t width, int64_t word, T *out) {
    int64_t first = behind(mask, n, 0);
    while (!mask[first]) first++;
    memcpy(out, x + first * step, width * sizeof(T));
    switch (word) {
#if !IS_FLOAT
    case 0: FOLD(out[j] | row[j]) break;
    case 1: FOLD(out[j] & row[j]) break;
#endif
    case 2: FOLD(out[j] >= row[j] || out[j] != out[j] ? out[j] : row[j]) break;
    default: FOLD(out[j] <= row[j] || out[j] != out[j] ? out[j] : row[j])
    }
    return 0;
}
