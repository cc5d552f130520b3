/* Fourier transforms of lines, by several threads, through functions of a library that are given.

   Lines stand in planes; a block of the lines of a plane is one call of the library, with a plan of its own for the
   block that is left over. What a block is does not depend on who computes it.

   A long line is a matrix of n_rows by n_columns in C order, and transformed by columns, then by rows: term r + n_rows * c
   is element c of row r, if each element is rotated by (row * column) n-ths of a circle between both passes. Of real
   values half of the rows are conjugates of the others, and are not made. Where the result is real it goes the other
   way: by rows, then by columns. A pass is shared among threads; so the bits of a line depend on its length alone. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef long (*Compute)(void *, void *, ...);

/* What is transformed, as `fft_mkl.py` fills it. Steps are in bytes, but for those of mirrored terms. */
typedef struct {
    Compute compute;
    void *whole, *rest; /* plans of a block, and of the last one of each plane */
    int64_t n_planes, n_blocks, n_lines, n_rest; /* blocks of a plane; lines of a block, and of the last one */
    int64_t x_plane, x_block, out_plane, out_block;
    int64_t mirror, n, step, line; /* how terms beyond the half are made: MIRROR_…; their number and steps in terms */
    int64_t is_double;
} How;

enum { MIRROR_NONE, MIRROR_FORWARD, MIRROR_BACKWARD };
#define SIGN ((uint64_t)1 << 63)

enum { COMPLEX, FROM_REAL, TO_REAL }; /* what is read, or made: else complex */
enum { SIDE = 16 }; /* columns, or rows, of a long line at a time: as in `fft_mkl.py` */

/* How a long line is transformed, as `fft_mkl.py` fills it. Steps are in bytes, but for `row`. */
typedef struct {
    Compute compute;
    void *columns, *last_columns, *rows, *last_rows; /* plans of SIDE of them, and of those that are left over */
    const void *starts, *steps; /* a factor is that of a row and of a column at which a block begins, times that within */
    int64_t n, n_rows, n_columns, n_made; /* rows that are made */
    int64_t n_terms; /* that are written, or read where the result is real */
    int64_t row; /* elements from row to row of those that are transformed together */
    int64_t kind, mirror, is_double;
    int64_t n_lines, x_line, out_line; /* from line to line */
} Split;

typedef struct {
    const How *how;
    const Split *split;
    char *x, *out, *between; /* the matrix between both passes */
    int64_t n_taken, failed, is_by_columns;
} Work;

/* The conjugate of a term, of 64 or 128 bits: with the other sign of its second number. */
static inline void conjugate_float(const uint64_t *from, uint64_t *to) { *to = *from ^ SIGN; }

static inline void conjugate_double(const uint64_t *from, uint64_t *to) {
    to[0] = from[0];
    to[1] = from[1] ^ SIGN;
}

/* Of lines of real values half the terms are there: term n - k is the conjugate of term k. Backward all are conjugates
   of what the library made. Either lines or terms stand side by side. */
#define MIRRORED(T, WORDS)                                                                                             \
    static void mirror_##T(uint64_t *out, const How *how, int64_t n_lines) {                                           \
        const int64_t n = how->n, step = how->step * WORDS, line = how->line * WORDS;                                  \
        const int is_backward = how->mirror == MIRROR_BACKWARD, along = how->step == 1;                                \
        const int64_t n_outer = along ? n_lines : 1, n_inner = along ? 1 : n_lines;                                    \
        for (int64_t o = 0; o < n_outer; o++, out += line) {                                                           \
            if (along)                                                                                                 \
                for (int64_t k = n / 2 + 1; k < n; k++) conjugate_##T(out + (n - k) * WORDS, out + k * WORDS);         \
            else                                                                                                       \
                for (int64_t k = n / 2 + 1; k < n; k++)                                                                \
                    for (int64_t i = 0; i < n_inner; i++)                                                              \
                        conjugate_##T(out + (n - k) * step + i * WORDS, out + k * step + i * WORDS);                   \
            for (int64_t k = 0; is_backward && k < n; k++)                                                             \
                for (int64_t i = 0; i < n_inner; i++)                                                                  \
                    conjugate_##T(out + k * step + i * WORDS, out + k * step + i * WORDS);                             \
        }                                                                                                              \
    }

MIRRORED(float, 1)
MIRRORED(double, 2)

static void transform_blocks(void *given) {
    Work *work = given;
    const How *how = work->how;
    for (;;) {
        const int64_t at = __atomic_fetch_add(&work->n_taken, 1, __ATOMIC_RELAXED);
        if (at >= how->n_planes * how->n_blocks) return;
        const int64_t plane = at / how->n_blocks, block = at % how->n_blocks;
        const int is_rest = block == how->n_blocks - 1;
        char *x = work->x + plane * how->x_plane + block * how->x_block;
        char *out = work->out + plane * how->out_plane + block * how->out_block;
        if (how->compute(is_rest ? how->rest : how->whole, x, out))
            __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
        const int64_t n_lines = is_rest ? how->n_rest : how->n_lines;
        if (how->mirror == MIRROR_NONE) continue;
        if (how->is_double) mirror_double((uint64_t *)out, how, n_lines);
        else mirror_float((uint64_t *)out, how, n_lines);
    }
}

static void (*share)(void (*)(void *), void *, int64_t); /* of `threads.c` */
static const int64_t *n_threads;

void use(void (*given)(void (*)(void *), void *, int64_t), const int64_t *number) {
    share = given;
    n_threads = number;
}

/* By all threads, or by this one alone; whether the library failed. */
int64_t transform_lines(const How *how, void *x, void *out, int64_t is_alone) {
    Work work = {.how = how, .x = x, .out = out};
    const int64_t n_all = how->n_planes * how->n_blocks, n = *n_threads < n_all ? *n_threads : n_all;
    if (share && !is_alone && n > 1) share(transform_blocks, &work, n);
    else transform_blocks(&work);
    return work.failed;
}

/* --- long lines ------------------------------------------------------------------------------- */

#define T float
#define NAME(x) x##_float
#include "ops/signal/split_line.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_double
#include "ops/signal/split_line.h"
#undef T
#undef NAME

/* The first pass over columns of complex values, straight from what is given. */
static int begin_columns(const Work *work, int64_t first, int64_t n, void *plan, void *room) {
    const Split *split = work->split;
    const int64_t size = split->is_double ? 16 : 8;
    (void)n, (void)room;
    return (int)split->compute(plan, work->x + first * size, work->between + first * split->n_made * size);
}

typedef int (*Pass)(const Work *, int64_t, int64_t, void *, void *);

/* The pass by columns, or by rows, of a kind of transform. */
static const Pass passes[][2][2] = {
    [COMPLEX] = {{begin_columns, begin_columns}, {end_rows_float, end_rows_double}},
    [FROM_REAL] = {{begin_real_columns_float, begin_real_columns_double}, {end_rows_float, end_rows_double}},
    [TO_REAL] = {{end_real_columns_float, end_real_columns_double}, {begin_rows_float, begin_rows_double}},
};

static void run_pass(void *given) {
    Work *work = given;
    const Split *split = work->split;
    const Pass pass = passes[split->kind][!work->is_by_columns][split->is_double];
    const int64_t n = work->is_by_columns ? split->n_columns : split->n_made;
    void *const whole = work->is_by_columns ? split->columns : split->rows;
    void *const rest = work->is_by_columns ? split->last_columns : split->last_rows;
    const int64_t longest = split->n_rows > 2 * split->row ? split->n_rows : 2 * split->row;
    void *const room = malloc(SIDE * longest * (split->is_double ? 16 : 8));
    for (;;) {
        const int64_t first = __atomic_fetch_add(&work->n_taken, SIDE, __ATOMIC_RELAXED), left = n - first;
        if (left <= 0) break;
        if (!room || pass(work, first, left < SIDE ? left : SIDE, left < SIDE ? rest : whole, room))
            __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
    }
    free(room);
}

/* By all threads, or by this one alone; whether the library failed. */
int64_t transform_long_lines(const Split *split, char *x, char *out, int64_t is_alone) {
    Work work = {.split = split};
    const int64_t n_blocks = (split->n_columns + SIDE - 1) / SIDE;
    work.between = malloc(split->n_made * n_blocks * SIDE * (split->is_double ? 16 : 8));
    work.failed = !work.between;
    for (int64_t line = 0; line < split->n_lines && !work.failed; line++) {
        work.x = x + line * split->x_line;
        work.out = out + line * split->out_line;
        for (int is_second = 0; is_second < 2 && !work.failed; is_second++) {
            work.is_by_columns = is_second == (split->kind == TO_REAL);
            const int64_t n_all = work.is_by_columns ? n_blocks : (split->n_made + SIDE - 1) / SIDE;
            const int64_t n = *n_threads < n_all ? *n_threads : n_all;
            work.n_taken = 0;
            if (share && !is_alone && n > 1) share(run_pass, &work, n);
            else run_pass(&work);
        }
    }
    free(work.between);
    return work.failed;
}
