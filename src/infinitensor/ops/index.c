/* Writing by index and choosing by masks. T is the element. */

#include <string.h>

/* Which of n indices into an axis of `size` fall into lo..hi, in order, into `hits`; how many, or -1 where one is
   out of bounds: it is put into `wrong`. Where lo..hi is the whole axis all do, and `hits` may be NULL. */
int64_t find_hits(const int64_t *index, int64_t n, int64_t size, int64_t lo, int64_t hi, int64_t *hits, int64_t *wrong) {
    int64_t count = 0, least = 0, most = -1;
    for (int64_t i = 0; i < n; i++) {
        least = index[i] < least ? index[i] : least;
        most = index[i] > most ? index[i] : most;
        if (!hits) continue;
        int64_t at = index[i] + (size & (index[i] >> 63));
        if ((uint64_t)(at - lo) < (uint64_t)(hi - lo)) hits[count++] = i;
    }
    if (least >= -size && most < size) return hits ? count : n;
    *wrong = least < -size ? least : most;
    return -1;
}

#define HIT(k) (hits ? hits[k] : k)
#define PLACE(i) (index[i] + (size & (index[i] >> 63)) - lo)

/* Rows of `width` elements at their index, the last of equal ones stays. */
int64_t put_rows(T *out, int64_t width, const int64_t *index, int64_t size, int64_t lo, const int64_t *hits, int64_t n_hits, const T *rows) {
    if (width == 1)
        for (int64_t k = 0; k < n_hits; k++) out[PLACE(HIT(k))] = rows[HIT(k)];
    else
        for (int64_t k = 0; k < n_hits; k++) memcpy(out + PLACE(HIT(k)) * width, rows + HIT(k) * width, width * sizeof(T));
    return 0;
}

/* Rows added at their index, one after the other. */
int64_t add_rows(T *out, int64_t width, const int64_t *index, int64_t size, int64_t lo, const int64_t *hits, int64_t n_hits, const T *rows) {
    for (int64_t k = 0; k < n_hits; k++) {
        T *to = out + PLACE(HIT(k)) * width;
        const T *from = rows + HIT(k) * width;
        for (int64_t j = 0; j < width; j++) to[j] += from[j];
    }
    return 0;
}

/* The elements number skip .. skip + count of those a mask chooses. */
int64_t choose(const uint8_t *mask, int64_t skip, int64_t count, const T *x, T *out) {
    int64_t i = 0;
    while (skip > 0) skip -= mask[i++];
    for (int64_t k = 0; k < count; i++) {
        out[k] = x[i];
        k += mask[i];
    }
    return 0;
}

/* Their places, `first` added. */
int64_t places(const uint8_t *mask, int64_t skip, int64_t count, int64_t first, int64_t *out) {
    int64_t i = 0;
    while (skip > 0) skip -= mask[i++];
    for (int64_t k = 0; k < count; i++) {
        out[k] = first + i;
        k += mask[i];
    }
    return 0;
}
