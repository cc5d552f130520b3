/* Running sums over the middle axis of (n_outer, n, n_inner); `out` may be where `x` is. T is the element; `carry`, if
   given, has (n_outer, n_inner) and is added to each sum at its end, so that bits are those of a scan and an addition
   after it. Lines are taken two at a time, totals four: an addition waits for the one before it. */

#include <sched.h>

#define INLINE static inline __attribute__((always_inline))

/* Elements of a line at a time: fewer, and streams push each other out of cache; more, and with a carry there are not
   enough registers. */
enum { CHUNK = 16, CHUNK_AFTER = 8 };

INLINE T scan_chunk(const T *x, const int m, T sum, const T *before, T *out) {
    T sums[CHUNK];
    for (int i = 0; i < m; i++) sums[i] = sum += x[i];
    for (int i = 0; i < m; i++) out[i] = before ? *before + sums[i] : sums[i];
    return sum;
}

/* The same of fewer; not inlined, which would take as long to compile as all the rest. */
static __attribute__((noinline)) T scan_rest(const T *x, int m, T sum, const T *before, T *out) {
    for (int i = 0; i < m; i++) {
        sum += x[i];
        out[i] = before ? *before + sum : sum;
    }
    return sum;
}

INLINE void scan_lines(const T *x, int k, int64_t n, const T *carry, const int m, T *out) {
    T sum[2];
    int64_t i = n < m ? n : m; /* chunks begin where cache lines do */
    for (int j = 0; j < k; j++) {
        const T *before = carry ? carry + j : 0;
        const T first = x[j * n]; /* which may be where `out` is */
        out[j * n] = before ? *before + first : first;
        sum[j] = scan_rest(x + j * n + 1, i - 1, first, before, out + j * n + 1);
    }
    for (; i + m <= n; i += m)
        for (int j = 0; j < k; j++)
            sum[j] = scan_chunk(x + j * n + i, m, sum[j], carry ? carry + j : 0, out + j * n + i);
    for (int j = 0; j < k; j++) scan_rest(x + j * n + i, n - i, sum[j], carry ? carry + j : 0, out + j * n + i);
}

INLINE void scan_all_lines(const T *x, int64_t n_lines, int64_t n, const T *carry, const int m, T *out) {
    int64_t line = 0;
    for (; line + 2 <= n_lines; line += 2) scan_lines(x + line * n, 2, n, carry ? carry + line : 0, m, out + line * n);
    if (line < n_lines) scan_lines(x + line * n, 1, n, carry ? carry + line : 0, m, out + line * n);
}

int64_t scan(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, const T *carry, T *out) {
    if (n == 0) return 0;
    if (n_inner == 1) {
        if (carry) scan_all_lines(x, n_outer, n, carry, CHUNK_AFTER, out);
        else scan_all_lines(x, n_outer, n, 0, CHUNK, out);
        return 0;
    }
    for (int64_t outer = 0; outer < n_outer; outer++) {
        const T *row = x + outer * n * n_inner;
        T *to = out + outer * n * n_inner;
        for (int64_t j = 0; j < n_inner; j++) to[j] = row[j];
        for (int64_t i = 1; i < n; i++, row += n_inner, to += n_inner)
            for (int64_t j = 0; j < n_inner; j++) to[j + n_inner] = to[j] + row[j + n_inner];
        if (!carry) continue;
        to = out + outer * n * n_inner;
        for (int64_t i = 0; i < n; i++, to += n_inner)
            for (int64_t j = 0; j < n_inner; j++) to[j] = carry[outer * n_inner + j] + to[j];
    }
    return 0;
}

/* The same as a call that `c_program.c` makes: `how` has n_outer, n and n_inner. */
void scan_called(int64_t n_rows, int64_t n, int64_t n_outer, const int64_t *how, char **arrays, const int64_t *steps,
                 const char *words, const int64_t *folded, int64_t n_same) {
    (void)n_rows, (void)n, (void)n_outer, (void)steps, (void)words, (void)folded, (void)n_same;
    scan((const T *)arrays[0], how[0], how[1], how[2], 0, (T *)arrays[1]);
}

INLINE void total_lines(const T *x, int k, int64_t n, T *out) {
    T sum[4];
    for (int j = 0; j < k; j++) sum[j] = x[j * n];
    for (int64_t i = 1; i < n; i++)
        for (int j = 0; j < k; j++) sum[j] += x[j * n + i];
    for (int j = 0; j < k; j++) out[j] = sum[j];
}

/* The last of each running sum. */
int64_t total(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, T *out) {
    int64_t outer = 0;
    if (n_inner == 1) {
        for (; outer + 4 <= n_outer; outer += 4) total_lines(x + outer * n, 4, n, out + outer);
        for (; outer < n_outer; outer++) total_lines(x + outer * n, 1, n, out + outer);
    }
    for (; outer < n_outer; outer++) {
        const T *row = x + outer * n * n_inner;
        T *to = out + outer * n_inner;
        for (int64_t j = 0; j < n_inner; j++) to[j] = row[j];
        for (int64_t i = 1; i < n; i++)
            for (int64_t j = 0; j < n_inner; j++) to[j] += row[i * n_inner + j];
    }
    return 0;
}

/* One line of blocks by several threads, read from memory once: a thread takes the next few blocks, adds them up, learns
   what comes before them from who took those before, and scans them while they are still in its cache. Bits are
   those of totals, their running sum, and blocks scanned after it. */
typedef struct {
    const T *x;
    T *out, *carry; /* carry[b]: what comes before block b */
    int64_t n, block, n_blocks, n_taken, n_known;
} Line;

static void add_blocks(Line *line, int64_t b, int k) {
    T sums[4];
    const T *x = line->x + b * line->block;
    if (k == 4) total_lines(x, 4, line->block, sums);
    else if (k == 2) total_lines(x, 2, line->block, sums);
    else for (int j = 0; j < k; j++) total_lines(x + j * line->block, 1, line->block, sums + j);
    for (int spins = 0; __atomic_load_n(&line->n_known, __ATOMIC_ACQUIRE) <= b; spins++)
        if (spins > 1000) sched_yield(); /* who took those before has no core */
    for (int j = 0; j < k && b + j + 1 < line->n_blocks; j++)
        line->carry[b + j + 1] = b + j ? line->carry[b + j] + sums[j] : sums[j];
    __atomic_store_n(&line->n_known, b + k + 1, __ATOMIC_RELEASE);
}

static void walk_blocks(void *given) {
    Line *line = given;
    const int64_t fit = (1 << 19) / (int64_t)sizeof(T) / line->block; /* that stay in a core's cache */
    const int most = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
    for (;;) {
        const int64_t b = __atomic_fetch_add(&line->n_taken, most, __ATOMIC_RELAXED);
        if (b >= line->n_blocks) return;
        const int64_t left = line->n - b * line->block, whole = left / line->block;
        const int k = whole < most ? (int)whole : most;
        add_blocks(line, b, k);
        const T *x = line->x + b * line->block;
        T *out = line->out + b * line->block;
        scan_all_lines(x, k, line->block, line->carry + b, CHUNK_AFTER, out);
        const int64_t rest = left - k * line->block;
        if (k < most && rest)
            scan_lines(x + k * line->block, 1, rest, line->carry + b + k, CHUNK_AFTER, out + k * line->block);
    }
}

static void (*share)(void (*)(void *), void *, int64_t); /* of `threads.c` */

void set_share(void (*given)(void (*)(void *), void *, int64_t)) { share = given; }

/* Lines by several threads: whole ones, or where they are side by side some of those of a matrix. */
typedef struct {
    const T *x;
    T *out;
    int64_t n_outer, n, n_inner, each, n_parts, n_taken;
} Lines;

static void scan_columns(const Lines *lines, int64_t outer, int64_t first, int64_t last) {
    const T *row = lines->x + outer * lines->n * lines->n_inner;
    T *to = lines->out + outer * lines->n * lines->n_inner;
    for (int64_t j = first; j < last; j++) to[j] = row[j];
    for (int64_t i = 1; i < lines->n; i++) {
        const T *before = to;
        row += lines->n_inner, to += lines->n_inner;
        for (int64_t j = first; j < last; j++) to[j] = before[j] + row[j];
    }
}

static void scan_parts(void *given) {
    Lines *lines = given;
    const int64_t n_all = lines->n_inner == 1 ? lines->n_outer : lines->n_inner;
    const int64_t n_matrices = lines->n_inner == 1 ? 1 : lines->n_outer;
    for (;;) {
        const int64_t part = __atomic_fetch_add(&lines->n_taken, 1, __ATOMIC_RELAXED);
        if (part >= lines->n_parts * n_matrices) return;
        const int64_t first = part % lines->n_parts * lines->each;
        const int64_t last = first + lines->each < n_all ? first + lines->each : n_all;
        if (lines->n_inner == 1)
            scan_all_lines(lines->x + first * lines->n, last - first, lines->n, 0, CHUNK, lines->out + first * lines->n);
        else scan_columns(lines, part / lines->n_parts, first, last);
    }
}

/* As `scan` without a carry; `each` lines are one part. */
int64_t scan_shared(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, int64_t each, int64_t n_threads, T *out) {
    const int64_t n_all = n_inner == 1 ? n_outer : n_inner;
    Lines lines = {x, out, n_outer, n, n_inner, each, (n_all + each - 1) / each, 0};
    if (n) share(scan_parts, &lines, n_threads);
    return 0;
}

int64_t line(const T *x, int64_t n, int64_t block, int64_t n_threads, T *carry, T *out) {
    Line line = {x, out, carry, n, block, (n + block - 1) / block, 0, 1};
    share(walk_blocks, &line, n_threads);
    return 0;
}

/* For each of `draws`, which rise, the first place where the running sum of x times weights (if given) reaches it;
   n where it never does. Not stored: the sums are read once, and those after the last draw not at all. */
int64_t reached(const T *x, const T *weights, int64_t n, const double *draws, int64_t m, int64_t *found) {
    T sum = 0;
    int64_t next = 0;
    for (int64_t i = 0; i < n && next < m; i++) {
        T value = weights ? weights[i] * x[i] : x[i];
        sum = i ? sum + value : value;
        while (next < m && !((double)sum < draws[next])) found[next++] = i;
    }
    while (next < m) found[next++] = n;
    return 0;
}
