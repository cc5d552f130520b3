/* Householder's QR of tall matrices in panels of WIDTH columns. T is the element.

   LAPACK's way and LAPACK's signs, laid out for this: a panel's rows are one after the other, a cache line each in
   float32. A pass over a panel takes one reflector off its rows and, with each row still in registers, adds up the
   products of the next column with all others: what the next reflector needs. The other panels then meet all WIDTH
   reflectors at once, as two products of matrices. */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 16
#define STRIP 64 /* rows whose products are added up before they join the others: sums of few are more exact */
#if !defined(BYTES) /* tests try those of other machines */
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#endif
#define LANES (8 * BYTES / BITS)
#define WORDS (WIDTH / LANES) /* of a row of a panel */
#if defined(__aarch64__) || defined(__AVX512F__)
#define SUMS 16 /* registers to add up in */
#else
#define SUMS 8
#endif
#define GROUP (SUMS / WORDS > 4 ? 4 : SUMS / WORDS)
#if defined(__aarch64__) && BYTES == 16
#define BY_LANE 1
#else
#define BY_LANE 0
#endif
#define INLINE static inline __attribute__((always_inline))

typedef T V __attribute__((vector_size(BYTES), may_alias));
typedef T Far __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
#if BITS == 32
#define ROOT sqrtf
#define SIZE fabsf
#define LARGEST FLT_MAX
#define TINY 1e-24f
#define UNSIGNED INT32_MAX
typedef int32_t Bits __attribute__((vector_size(BYTES)));
#else
#define ROOT sqrt
#define SIZE fabs
#define LARGEST DBL_MAX
#define TINY 1e-200
#define UNSIGNED INT64_MAX
typedef int64_t Bits __attribute__((vector_size(BYTES)));
#endif
#define MODEST 1024 /* largest elements of columns between 1 / MODEST and MODEST have squares that can be added */

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

/* --- one panel -------------------------------------------------------------------------------- */

/* Products of a column with all columns, over rows from..to. */
static void products(const T *panel, int64_t from, int64_t to, int column, V *sums) {
    for (int c = 0; c < WORDS; c++) sums[c] = (V){0};
    for (int64_t first = from; first < to; first += STRIP) {
        const int64_t end = first + STRIP < to ? first + STRIP : to;
        V found[WORDS];
        for (int c = 0; c < WORDS; c++) found[c] = (V){0};
        for (int64_t i = first; i < end; i++) {
            const V *row = (const V *)(panel + i * WIDTH);
            const T x = panel[i * WIDTH + column];
            for (int c = 0; c < WORDS; c++) found[c] += row[c] * x;
        }
        for (int c = 0; c < WORDS; c++) sums[c] += found[c];
    }
}

/* Take `by` times column j off rows from..to, and add up the products of column j + 1 with all columns. Words before
   `active` have only columns up to j, which stay. */
INLINE void pass_of(T *panel, int64_t from, int64_t to, int j, const int active, const V *by, V *sums) {
    const T next = ((const T *)by)[j + 1];
    V factors[WORDS];
    for (int c = 0; c < WORDS; c++) {
        factors[c] = by[c];
        sums[c] = (V){0};
    }
    for (int64_t first = from; first < to; first += STRIP) {
        const int64_t end = first + STRIP < to ? first + STRIP : to;
        V found[WORDS];
        for (int c = 0; c < WORDS; c++) found[c] = (V){0};
        for (int64_t i = first; i < end; i++) {
            T *const at = panel + i * WIDTH;
            V *const row = (V *)at;
            const T v = at[j], x = at[j + 1] - v * next;
#pragma GCC unroll 8
            for (int c = 0; c < WORDS; c++) {
                V word = row[c];
                if (c >= active) row[c] = word -= factors[c] * v;
                found[c] += word * x;
            }
        }
        for (int c = 0; c < WORDS; c++) sums[c] += found[c];
    }
}

#define ACTIVE(k) \
    case k:       \
        if (k < WORDS) pass_of(panel, from, to, j, k, by, sums); \
        break;
static void pass(T *panel, int64_t from, int64_t to, int j, const V *by, V *sums) {
    switch ((j + 1) / LANES) {
        ACTIVE(0) ACTIVE(1) ACTIVE(2) ACTIVE(3) ACTIVE(4) ACTIVE(5) ACTIVE(6) ACTIVE(7)
    }
}

/* Multiply column j from row `top` on by a power of two that makes its largest element about 1; what it was divided
   by. 1 for a column of zeros. */
static T enlarge(T *panel, int64_t top, int64_t rows, int j) {
    T most = 0;
    for (int64_t i = top; i < rows; i++) most = SIZE(panel[i * WIDTH + j]) > most ? SIZE(panel[i * WIDTH + j]) : most;
    if (!(most > 0)) return 1;
    /* in two steps: the power for the smallest numbers is too large for one */
    int power;
    frexp(most, &power);
    power = 1 - power;
    const T half = (T)ldexp(1, power / 2), rest = (T)ldexp(1, power - power / 2);
    for (int64_t i = top; i < rows; i++) panel[i * WIDTH + j] = panel[i * WIDTH + j] * half * rest;
    return (T)1 / half / rest;
}

/* Factor `width` columns of a panel, whose first reflector begins in row `top`: it becomes V, with ones and zeros at
   its top; its part of R goes to `r`, rows of n, T of I - V T V' to `triangle`. */
static void factor_panel(T *panel, int64_t top, int64_t rows, int width, T *r, int64_t n, T *triangle) {
    V sums[WORDS], by[WORDS], normal[WORDS];
    T *const sum = (T *)sums, *const minus = (T *)by, *const inverse = (T *)normal;
    memset(triangle, 0, WIDTH * WIDTH * sizeof(T));
    memset(normal, 0, sizeof normal);
    products(panel, top + 1, rows, 0, sums);
    for (int j = 0; j < width; j++) {
        T *const row = panel + (top + j) * WIDTH;
        T square = row[j] * row[j] + sum[j], shrunk = 1;
        if (square < TINY) { /* its own squares, or products, may have been lost */
            shrunk = enlarge(panel, top + j, rows, j);
            products(panel, top + j + 1, rows, j, sums);
            square = row[j] * row[j] + sum[j];
        }
        T tau = 0, end = row[j], apart = 1;
        if (sum[j] != 0) {
            end = -copysign(ROOT(square), row[j]);
            apart = row[j] - end;
            tau = -apart / end;
        }
        inverse[j] = 1 / apart;
        T *const to = r + j * n;
        to[j] = end * shrunk;
        memset(by, 0, sizeof by);
        for (int k = j + 1; k < width; k++) {
            const T product = tau * (row[k] + sum[k] * inverse[j]);
            to[k] = row[k] -= product;
            minus[k] = product * inverse[j];
        }
        T *const corner = triangle + j;
        for (int k = 0; k < j; k++) {
            const T gram = inverse[k] * (row[k] + sum[k] * inverse[j]);
            for (int i = 0; i <= k; i++) corner[i * WIDTH] -= tau * triangle[i * WIDTH + k] * gram;
        }
        corner[j * WIDTH] = tau;
        row[j] = apart;
        if (j + 1 == width) break;
        if (top + j + 1 < rows) {
            V *const below = (V *)(row + WIDTH);
            const T v = row[WIDTH + j];
            for (int c = 0; c < WORDS; c++) below[c] -= by[c] * v;
        }
        pass(panel, top + j + 2, rows, j, by, sums);
    }
    for (int64_t i = top; i < rows; i++) {
        V *const row = (V *)(panel + i * WIDTH);
        for (int c = 0; c < WORDS; c++) row[c] *= normal[c];
    }
    for (int j = 0; j < width; j++) {
        T *const row = panel + (top + j) * WIDTH;
        row[j] = 1;
        for (int k = j + 1; k < WIDTH; k++) row[k] = 0;
    }
}

/* --- the panels behind it --------------------------------------------------------------------- */

#if BY_LANE
#define FACTORS(from) const V lanes = *(const V *)(from)
#define FACTOR(from, g) lanes[g] /* taken by lane: to load and spread each would keep a pipe from multiplying */
#else
#define FACTORS(from)
#define FACTOR(from, g) (from)[g]
#endif

/* found += V' A over n rows of two panels. */
static void cross(const T *v, const T *a, int64_t n, T *found) {
    for (int first = 0; first < WIDTH; first += GROUP) {
        V sums[GROUP][WORDS], *const to = (V *)(found + first * WIDTH);
        for (int g = 0; g < GROUP; g++)
            for (int c = 0; c < WORDS; c++) sums[g][c] = (V){0};
        for (int64_t i = 0; i < n; i++) {
            const T *const from = v + i * WIDTH + first;
            const V *const row = (const V *)(a + i * WIDTH);
            FACTORS(from);
#pragma GCC unroll 4
            for (int g = 0; g < GROUP; g++)
#pragma GCC unroll 8
                for (int c = 0; c < WORDS; c++) sums[g][c] += row[c] * FACTOR(from, g);
        }
        for (int g = 0; g < GROUP; g++)
            for (int c = 0; c < WORDS; c++) to[g * WORDS + c] += sums[g][c];
    }
}

/* A += V W for `n` rows of a panel, at most GROUP. */
INLINE void add(const T *v, const V *w, T *a, const int n) {
    V rows[GROUP][WORDS];
    for (int g = 0; g < n; g++)
        for (int c = 0; c < WORDS; c++) rows[g][c] = ((V *)(a + g * WIDTH))[c];
#if BY_LANE
    for (int k = 0; k < WIDTH; k += LANES) {
        V lanes[GROUP];
        for (int g = 0; g < n; g++) lanes[g] = *(const V *)(v + g * WIDTH + k);
#pragma GCC unroll 4
        for (int l = 0; l < LANES; l++)
#pragma GCC unroll 4
            for (int g = 0; g < n; g++)
#pragma GCC unroll 8
                for (int c = 0; c < WORDS; c++) rows[g][c] += w[(k + l) * WORDS + c] * lanes[g][l];
    }
#else
    for (int k = 0; k < WIDTH; k++)
#pragma GCC unroll 4
        for (int g = 0; g < n; g++)
#pragma GCC unroll 8
            for (int c = 0; c < WORDS; c++) rows[g][c] += w[k * WORDS + c] * v[g * WIDTH + k];
#endif
    for (int g = 0; g < n; g++)
        for (int c = 0; c < WORDS; c++) ((V *)(a + g * WIDTH))[c] = rows[g][c];
}

/* A panel meets the reflectors of another: A -= V T' V' A. */
static void reflect(const T *v, const T *triangle, T *a, int64_t n) {
    V first[WIDTH * WORDS], found[WIDTH * WORDS];
    memset(first, 0, sizeof first);
    memset(found, 0, sizeof found);
    for (int64_t i = 0; i < n; i += STRIP) cross(v + i * WIDTH, a + i * WIDTH, n - i < STRIP ? n - i : STRIP, (T *)first);
    for (int k = 0; k < WIDTH; k++)
        for (int i = k; i < WIDTH; i++)
            for (int c = 0; c < WORDS; c++) found[i * WORDS + c] -= first[k * WORDS + c] * triangle[k * WIDTH + i];
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) add(v + i * WIDTH, found, a + i * WIDTH, GROUP);
    for (; i < n; i++) add(v + i * WIDTH, found, a + i * WIDTH, 1);
}

/* Columns of T of I - V T V' for the panel p: those of its own and, above them, -T (V' V_p) T_p, where T and V are those
   of the panels before it. `all`: rows of n; `column`: room for p panels' rows. */
static void join(const T *panels, int64_t rows, int64_t p, int width, const T *own, T *all, int64_t n, V *column) {
    const int64_t top = p * WIDTH;
    memset(column, 0, top * WIDTH * sizeof(T));
    for (int64_t o = 0; o < p; o++) {
        V across[WIDTH * WORDS];
        memset(across, 0, sizeof across);
        for (int64_t i = top; i < rows; i += STRIP)
            cross(panels + (o * rows + i) * WIDTH, panels + (p * rows + i) * WIDTH, rows - i < STRIP ? rows - i : STRIP, (T *)across);
        for (int64_t i = 0; i < (o + 1) * WIDTH; i++) {
            const T *const before = all + i * n + o * WIDTH;
            for (int c = 0; c < WORDS; c++) {
                V sum = column[i * WORDS + c];
                for (int k = 0; k < WIDTH; k++) sum -= across[k * WORDS + c] * before[k];
                column[i * WORDS + c] = sum;
            }
        }
    }
    for (int64_t i = 0; i < top; i++) {
        const T *const from = (const T *)(column + i * WORDS);
        T row[WIDTH] = {0};
        for (int k = 0; k < width; k++)
            for (int c = 0; c < WIDTH; c++) row[c] += from[k] * own[k * WIDTH + c];
        memcpy(all + i * n + top, row, width * sizeof(T));
    }
    for (int i = 0; i < width; i++) {
        memset(all + (top + i) * n, 0, top * sizeof(T));
        memcpy(all + (top + i) * n + top, own + i * WIDTH, width * sizeof(T));
    }
}
#pragma GCC pop_options

/* --- a matrix --------------------------------------------------------------------------------- */

/* Rows of n elements, `step` bytes apart, as panels; the largest element of each column. */
static void spread(const char *x, int64_t step, int64_t rows, int64_t n, T *panels, T *most) {
    const int64_t n_panels = (n + WIDTH - 1) / WIDTH;
    memset(most, 0, n_panels * WIDTH * sizeof(T));
    for (int64_t strip = 0; strip < rows; strip += STRIP)
        for (int64_t p = 0; p < n_panels; p++) {
            const int64_t end = strip + STRIP < rows ? strip + STRIP : rows, left = n - p * WIDTH;
            V largest[WORDS];
            memcpy(largest, most + p * WIDTH, sizeof largest);
            for (int64_t i = strip; i < end; i++) {
                const T *const from = (const T *)(x + i * step) + p * WIDTH;
                V *const to = (V *)(panels + (p * rows + i) * WIDTH);
                if (left < WIDTH) {
                    memset(to, 0, WIDTH * sizeof(T));
                    memcpy(to, from, left * sizeof(T));
                }
                for (int c = 0; c < WORDS; c++) {
                    if (left >= WIDTH) to[c] = *(const Far *)(from + c * LANES);
                    const V size = (V)((Bits)to[c] & UNSIGNED);
                    const Bits more = size > largest[c];
                    largest[c] = (V)((more & (Bits)size) | (~more & (Bits)largest[c]));
                }
            }
            memcpy(most + p * WIDTH, largest, sizeof largest);
        }
}

/* Columns whose squares could be too large or too small are multiplied by a power of two; `most` becomes what each was
   divided by. Neither V nor T depends on it. */
static void level(T *panels, int64_t rows, int64_t n, T *most) {
    for (int64_t k = 0; k < n; k++) {
        const int is_modest = most[k] == 0 || (most[k] >= (T)1 / MODEST && most[k] <= MODEST) || most[k] > LARGEST;
        most[k] = is_modest ? 1 : enlarge(panels + k / WIDTH * rows * WIDTH, 0, rows, (int)(k % WIDTH));
    }
}

/* V as rows of n elements, with zeros above its diagonal. */
static void gather(const T *panels, int64_t rows, int64_t n, T *v) {
    for (int64_t i = 0; i < rows; i++, v += n)
        for (int64_t top = 0; top < n; top += WIDTH) {
            const T *const row = panels + (top / WIDTH * rows + i) * WIDTH;
            if (i < top) memset(v + top, 0, (n - top < WIDTH ? n - top : WIDTH) * sizeof(T));
            else if (n - top < WIDTH) memcpy(v + top, row, (n - top) * sizeof(T));
            else memcpy(v + top, row, WIDTH * sizeof(T));
        }
}

/* V, T and R of `count` matrices of n columns and at least as many rows, which are `step` bytes apart, the matrices
   `between`: Q is I - V T V', its first n columns times R the matrix. R alone where `v` is 0. -1 where there is no memory
   for it. */
int64_t factor(const char *x, int64_t between, int64_t step, int64_t count, int64_t rows, int64_t n, T *v, T *t, T *r) {
    const int64_t n_panels = (n + WIDTH - 1) / WIDTH;
    T *const memory = malloc(n_panels * WIDTH * (rows + 1 + WIDTH) * sizeof(T) + 64);
    if (!memory) return -1;
    T *const panels = (T *)(((uintptr_t)memory + 63) & ~(uintptr_t)63), *const most = panels + n_panels * WIDTH * rows;
    V *const column = (V *)(most + n_panels * WIDTH);
    T triangle[WIDTH * WIDTH];
    for (int64_t b = 0; b < count; b++, x += between, r += n * n) {
        spread(x, step, rows, n, panels, most);
        level(panels, rows, n, most);
        memset(r, 0, n * n * sizeof(T));
        for (int64_t p = 0; p < n_panels; p++) {
            const int64_t top = p * WIDTH, left = n - top;
            const int width = (int)(left < WIDTH ? left : WIDTH);
            T *const panel = panels + p * rows * WIDTH;
            factor_panel(panel, top, rows, width, r + top * n + top, n, triangle);
            for (int64_t q = p + 1; q < n_panels; q++) {
                T *const other = panels + (q * rows + top) * WIDTH;
                const int64_t its = n - q * WIDTH < WIDTH ? n - q * WIDTH : WIDTH;
                reflect(panel + top * WIDTH, triangle, other, rows - top);
                for (int i = 0; i < WIDTH; i++) memcpy(r + (top + i) * n + q * WIDTH, other + i * WIDTH, its * sizeof(T));
            }
            if (v) join(panels, rows, p, width, triangle, t, n, column);
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = i; k < n; k++) r[i * n + k] *= most[k];
        if (!v) continue;
        gather(panels, rows, n, v);
        v += rows * n, t += n * n;
    }
    free(memory);
    return 0;
}
