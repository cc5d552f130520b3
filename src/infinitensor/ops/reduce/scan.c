/* Running sums over the middle axis of (n_outer, n, n_inner); `out` may be where `x` is. T is the element; `carry`, if
   given, has (n_outer, n_inner) and is added to each sum at its end, so that bits are those of a scan and an addition
   after it. Lines are taken two at a time, totals four: an addition waits for the one before it. */

#include <sched.h>

#define INLINE static inline __attribute__((always_inline))

/* Elements of a line at a time: fewer, and streams push each other out of cache; more, and with a carry there are not
   enough registers. */
enum { CHUNK = 16, CHUNK_AFTER = 8 };

/* Lines at a time: as many as there are registers for. An addition of floats takes as long as four of integers. */
enum { SINGLE = IS_FLOAT && sizeof(T) == 4, LINES = SINGLE ? 4 : 2, CHUNK_OF_LINES = SINGLE ? CHUNK_AFTER : CHUNK };

INLINE T scan_chunk(const T *x, const int m, T sum, const T *before, T *out) {
    T sums[CHUNK];
    if (!IS_FLOAT) {
        for (int i = 0; i < m; i++) {
            sum += x[i];
            out[i] = before ? *before + sum : sum;
        }
        return sum;
    }
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

/* k lines, the next one `step` elements on; their totals into `ends`, unless it is NULL. */
INLINE void scan_lines(const T *x, int k, int64_t step, int64_t n, const T *carry, const int m, T *out, T *ends) {
    T sum[LINES];
    int64_t i = n < m ? n : m; /* chunks begin where cache lines do */
    for (int j = 0; j < k; j++) {
        const T *before = carry ? carry + j : 0;
        const T first = x[j * step]; /* which may be where `out` is */
        out[j * step] = before ? *before + first : first;
        sum[j] = scan_rest(x + j * step + 1, i - 1, first, before, out + j * step + 1);
    }
    for (; i + m <= n; i += m)
        for (int j = 0; j < k; j++)
            sum[j] = scan_chunk(x + j * step + i, m, sum[j], carry ? carry + j : 0, out + j * step + i);
    for (int j = 0; j < k; j++) {
        sum[j] = scan_rest(x + j * step + i, n - i, sum[j], carry ? carry + j : 0, out + j * step + i);
        if (ends) ends[j] = sum[j];
    }
}

enum { SHORT_LINE = sizeof(T) < 8 ? 48 : 12, LINES_TOGETHER = 4 };

/* Short lines: an element of each at a time. A line is shorter than its own beginning and end. */
INLINE void scan_short_lines(const T *x, int64_t n, const T *carry, T *out) {
    T sum[LINES_TOGETHER];
    for (int j = 0; j < LINES_TOGETHER; j++) {
        sum[j] = x[j * n];
        out[j * n] = carry ? carry[j] + sum[j] : sum[j];
    }
    for (int64_t i = 1; i < n; i++)
        for (int j = 0; j < LINES_TOGETHER; j++) {
            sum[j] += x[j * n + i];
            out[j * n + i] = carry ? carry[j] + sum[j] : sum[j];
        }
}

INLINE void scan_all_lines(const T *x, int64_t n_lines, int64_t n, const T *carry, const int m, T *out) {
    int64_t line = 0;
    for (; n < SHORT_LINE && line + LINES_TOGETHER <= n_lines; line += LINES_TOGETHER)
        scan_short_lines(x + line * n, n, carry ? carry + line : 0, out + line * n);
    for (; line + LINES <= n_lines; line += LINES)
        scan_lines(x + line * n, LINES, n, n, carry ? carry + line : 0, CHUNK_OF_LINES < m ? CHUNK_OF_LINES : m, out + line * n, 0);
    for (; line + 2 <= n_lines; line += 2) scan_lines(x + line * n, 2, n, n, carry ? carry + line : 0, m, out + line * n, 0);
    if (line < n_lines) scan_lines(x + line * n, 1, n, n, carry ? carry + line : 0, m, out + line * n, 0);
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

static void (*share)(void (*)(void *), void *, int64_t); /* of `threads.c` */

void set_share(void (*given)(void (*)(void *), void *, int64_t)) { share = given; }

/* Lines by several threads: whole ones, or where they are side by side some of those of a matrix. */
typedef struct {
    const T *x;
    T *out;
    int64_t n_outer, n, n_inner, each, n_parts, n_taken;
    int64_t block; /* of long lines */
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

enum { SIDE_BY_SIDE_BYTES = 256 }; /* of a row that a thread takes at least, where lines are side by side */

/* As `scan` without a carry; a line is taken by one thread, so that bits are the same. */
int64_t scan_shared(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, int64_t n_threads, T *out) {
    const int64_t n_all = n_inner == 1 ? n_outer : n_inner;
    const int64_t least = n_inner == 1 ? 1 : SIDE_BY_SIDE_BYTES / (int64_t)sizeof(T);
    const int64_t even = n_all / (4 * n_threads), each = even > least ? even : least;
    Lines lines = {x, out, n_outer, n, n_inner, each, (n_all + each - 1) / each, 0, 0};
    if (n) share(scan_parts, &lines, n_threads);
    return 0;
}

/* --- long lines -------------------------------------------------------------------------------- */

/* Lines of blocks, read from memory once; bits are those of the totals of blocks, their running sum, and blocks scanned
   after it. Where there are few lines a thread takes the next few blocks of one, adds them up, learns what comes before
   them from who took those before, and scans them while they are still in its cache. Else a line is one thread's, two at
   a time. */
enum { BLOCKS_TOGETHER = 4, MOST_CHAINED = 64, LINES_EACH = 8 };

typedef struct {
    const T *x;
    T *out;
    int64_t n_lines, n, block, n_taken;
    int most;                 /* blocks that a thread takes */
    T before[MOST_CHAINED];   /* what comes before the next blocks of each line, */
    int64_t n_known[MOST_CHAINED]; /* which are these */
} LongLines;

/* Changes nothing that is added to it, not even the sign of a zero. */
#define NOTHING ((T)-0.0)

static void add_blocks(const T *x, int k, int64_t block, T *sums) {
    if (k == 4) total_lines(x, 4, block, sums);
    else if (k == 2) total_lines(x, 2, block, sums);
    else for (int j = 0; j < k; j++) total_lines(x + j * block, 1, block, sums + j);
}

static void walk_blocks(void *given) {
    LongLines *all = given;
    const int64_t block = all->block, each = all->most * block, n_groups = (all->n + each - 1) / each;
    for (;;) {
        const int64_t taken = __atomic_fetch_add(&all->n_taken, 1, __ATOMIC_RELAXED);
        if (taken >= n_groups * all->n_lines) return;
        const int64_t line = taken / n_groups, group = taken % n_groups, at = line * all->n + group * each;
        const int64_t left = all->n - group * each;
        const int k = left < each ? (int)(left / block) : all->most;
        T carry[BLOCKS_TOGETHER + 1];
        add_blocks(all->x + at, k, block, carry + 1);
        int64_t *known = all->n_known + line;
        for (int spins = 0; __atomic_load_n(known, __ATOMIC_ACQUIRE) < group; spins++)
            if (spins > 1000) sched_yield(); /* who took those before has no core */
        carry[0] = all->before[line];
        for (int j = 0; j < k; j++) carry[j + 1] = carry[j] + carry[j + 1];
        all->before[line] = carry[k];
        __atomic_store_n(known, group + 1, __ATOMIC_RELEASE);
        scan_all_lines(all->x + at, k, block, carry, CHUNK_AFTER, all->out + at);
        const int64_t rest = left - k * block, from = at + k * block;
        if (k < all->most && rest) scan_lines(all->x + from, 1, rest, rest, carry + k, CHUNK_AFTER, all->out + from, 0);
    }
}

static void walk_lines(void *given) {
    LongLines *all = given;
    for (;;) {
        const int64_t first = 2 * __atomic_fetch_add(&all->n_taken, 1, __ATOMIC_RELAXED), n = all->n;
        if (first >= all->n_lines) return;
        const int is_pair = first + 1 < all->n_lines;
        T carry[2] = {NOTHING, NOTHING}, sums[2];
        for (int64_t i = 0; i < n; i += all->block) {
            const int64_t m = n - i < all->block ? n - i : all->block;
            const T *x = all->x + first * n + i;
            T *out = all->out + first * n + i;
            if (is_pair) scan_lines(x, 2, n, m, carry, CHUNK_AFTER, out, sums);
            else scan_lines(x, 1, n, m, carry, CHUNK_AFTER, out, sums);
            for (int j = 0; j <= is_pair; j++) carry[j] += sums[j];
        }
    }
}

/* Lines side by side: some columns of a matrix at a time, whose sums and what comes before them stay in cache. */
enum { STRIP = 64, LEAST_STRIP_BYTES = 64 };

static void walk_strip(const Lines *lines, int64_t outer, int64_t first, int64_t last) {
    const int64_t n_inner = lines->n_inner, n = last - first;
    const T *row = lines->x + outer * lines->n * n_inner + first;
    T *to = lines->out + outer * lines->n * n_inner + first, sum[STRIP], carry[STRIP];
    for (int64_t j = 0; j < n; j++) carry[j] = NOTHING;
    for (int64_t i = 0; i < lines->n; i += lines->block) {
        const int64_t end = lines->n - i < lines->block ? lines->n - i : lines->block;
        for (int64_t k = 0; k < end; k++, row += n_inner, to += n_inner)
            for (int64_t j = 0; j < n; j++) {
                sum[j] = k ? sum[j] + row[j] : row[j];
                to[j] = carry[j] + sum[j];
            }
        for (int64_t j = 0; j < n; j++) carry[j] = carry[j] + sum[j];
    }
}

static void walk_strips(void *given) {
    Lines *lines = given;
    for (;;) {
        const int64_t part = __atomic_fetch_add(&lines->n_taken, 1, __ATOMIC_RELAXED);
        if (part >= lines->n_parts * lines->n_outer) return;
        const int64_t first = part % lines->n_parts * lines->each, last = first + lines->each;
        walk_strip(lines, part / lines->n_parts, first, last < lines->n_inner ? last : lines->n_inner);
    }
}

static int64_t long_columns(const T *x, int64_t n_outer, int64_t n, int64_t n_inner, int64_t block, int64_t n_threads, T *out) {
    const int64_t least = LEAST_STRIP_BYTES / (int64_t)sizeof(T), even = (n_inner * n_outer + n_threads - 1) / n_threads;
    const int64_t each = even < least ? least : even < STRIP ? even : STRIP;
    Lines lines = {x, out, n_outer, n, n_inner, each, (n_inner + each - 1) / each, 0, block};
    if (n_threads > 1 && lines.n_parts * n_outer > 1) share(walk_strips, &lines, n_threads);
    else walk_strips(&lines);
    return 0;
}

int64_t long_lines(const T *x, int64_t n_lines, int64_t n, int64_t n_inner, int64_t block, int64_t n_threads, T *out) {
    if (n_inner > 1) return long_columns(x, n_lines, n, n_inner, block, n_threads, out);
    const int64_t fit = (1 << 19) / (int64_t)sizeof(T) / block; /* that stay in a core's cache */
    LongLines all = {.x = x, .out = out, .n_lines = n_lines, .n = n, .block = block};
    all.most = fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
    const int is_chained = n_lines <= MOST_CHAINED && (n_lines == 1 || (n_threads > 1 && n_lines < LINES_EACH * n_threads));
    for (int64_t line = 0; is_chained && line < n_lines; line++) all.before[line] = NOTHING;
    if (n_threads > 1) share(is_chained ? walk_blocks : walk_lines, &all, n_threads);
    else if (is_chained) walk_blocks(&all);
    else walk_lines(&all);
    return 0;
}

/* --- calls of `c_program.c` --------------------------------------------------------------------- */

enum { SHARED_ELEMENTS = 1 << 15 }; /* for each thread; as in `scan.py` */

/* `n_threads` are there; `how` has n_outer, n, n_inner, and elements of a block (0: lines are not divided). */
void scan_called(int64_t n_threads, int64_t n, int64_t n_outer, const int64_t *how, char **arrays, const int64_t *steps,
                 const char *words, const int64_t *folded, int64_t n_same) {
    (void)n, (void)n_outer, (void)steps, (void)words, (void)folded, (void)n_same;
    const T *x = (const T *)arrays[0];
    T *out = (T *)arrays[1];
    const int64_t most = how[0] * how[1] * how[2] / SHARED_ELEMENTS;
    if (n_threads > most) n_threads = most > 1 ? most : 1;
    if (how[3]) long_lines(x, how[0], how[1], how[2], how[3], n_threads, out);
    else if (n_threads > 1) scan_shared(x, how[0], how[1], how[2], n_threads, out);
    else scan(x, how[0], how[1], how[2], 0, out);
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
