/* Products of matrices by one library: one function for whoever multiplies, so that all have the same
   bits. `T`, the integers that it counts with, is defined before this. The library has one core: one
   over OpenMP is set so for the calling thread alone, one with threads of its own for the whole process
   while somebody multiplies.

   Products are cut here, and the parts are shared by the threads of `threads.c`. Those of the library wait
   for each other in loops: where a core has other work a product takes as long as that is let run, and
   after it they keep the cores from the tasks that follow. The parts depend on the shape and on the number
   of workers that a session has, not on how many of them find the time: the kernels of some libraries add
   up in another order at the border of a matrix than within it. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef T Whole;
#define LINES(T)
#include "tasking/c/halves.h"
#include "ops/backend/half_lines.h"
#include "ops/backend/narrow_products.h"

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112, UPPER = 121 };
enum { GEMM, GEMV, SYRK };
enum { PART_WORK = 1 << 19, MEMORY_USES = 8, EDGE = 16, MORE_PARTS = 4 };
enum { NARROW = 32, SQUARE = 128, WIDE = 512, STRIPE = 512 };
/* A part has so many multiplications at least; to read or write an element takes as long as MEMORY_USES. Parts end
   where the library's kernels do. They are not narrower than NARROW, those of a vector's product than EDGE, or, where
   each has a part of every stored row, than a stripe. There is one for each worker, or MORE_PARTS where they stay WIDE:
   each packs what it reads, and narrow ones take longer. Of a matrix times itself only the blocks on the diagonal and
   above it are multiplied; there are more where they stay SQUARE, with few workers if it is shallow. */

static void *functions[4][3]; /* by dtype (f4, f8, c8, c16) */
static int (*get_threads)(void);
static void (*set_threads)(int);
static int is_of_threads; /* whether the number of cores is the calling thread's */
static int64_t n_sharing;
static int n_before, is_locked;
static int64_t n_made;
static void (*in_threads)(void (*)(void *), void *, int64_t); /* `share` of `threads.c`; none: one thread has all parts */
static const int64_t *n_workers;

/* What the library has, and the threads; called once. */
void use(void *const *given, void *get, void *set, int64_t of_threads, void *sharing, const int64_t *n) {
  n_workers = n;
  in_threads = (void (*)(void (*)(void *), void *, int64_t))sharing;
  memcpy(functions, given, sizeof functions);
  get_threads = (int (*)(void))get;
  set_threads = (void (*)(int))set;
  is_of_threads = (int)of_threads;
}

/* How many products the library has made. */
int64_t made(void) { return __atomic_load_n(&n_made, __ATOMIC_RELAXED); }

/* Whether this processor has what this was built for. */
#ifdef __x86_64__
__attribute__((target("no-avx")))
#endif
int is_able(void) {
#ifdef __AVX2__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#else
  return 1;
#endif
}

/* The cores that the next call of this thread may use. */
int64_t cores(void) { return get_threads(); }

/* From +1 to -1 every call of the library has one core. */
static void share(int64_t by) {
  while (__atomic_exchange_n(&is_locked, 1, __ATOMIC_ACQUIRE));
  if (!n_sharing) n_before = get_threads();
  n_sharing += by;
  const int n = n_sharing ? 1 : n_before;
  if (n_before != 1 && get_threads() != n) set_threads(n);
  __atomic_store_n(&is_locked, 0, __ATOMIC_RELEASE);
}

/* Around what a worker computes, one of several: it has one core. */
void enter(void) {
  if (is_of_threads)
    set_threads(1);
  else
    share(1);
}
void leave(void) {
  if (!is_of_threads) share(-1);
}

/* A matrix as the library takes it: each row is contiguous, or each column (transposed). */
typedef struct {
  const char *at;
  int transposed, step;
} Matrix;

static Matrix seen(const char *at, int64_t rows, int64_t columns, int64_t row, int64_t column,
                   int64_t size) {
  const int is_transposed = !(columns == 1 || column == size) || (columns == 1 && rows > 1 && row == size);
  const int64_t length = is_transposed ? rows : columns;
  int64_t step = (is_transposed ? column : row) / size;
  if ((is_transposed ? columns : rows) == 1 || step < length) step = length;
  return (Matrix){at, is_transposed ? TRANSPOSED : AS_IT_IS, (int)step};
}

typedef struct {
  int64_t rows, columns, k, step; /* step: from row to row of out, in elements */
  Matrix a, b;
  const char *vector; /* where one side is one */
  int apart;
  char *out;
} Product;

/* MKL: its function for each dtype, with the arguments that Fortran has, and how the calling thread says how many cores
   it may use. */
static void *in_fortran[4];
static int (*limit_threads)(int);

typedef void (*Fortran)(const char *, const char *, const int *, const int *, const int *, const void *, const void *,
                        const int *, const void *, const int *, const void *, void *, const int *);

/* Fortran stores columns: it sees the transposes of all three. */
static void multiply_by_mkl(const Product *p, int64_t code) {
  static const float one_float[2] = {1, 0}, zero_float[2];
  static const double one_double[2] = {1, 0}, zero_double[2];
  const void *const one = code % 2 ? (const void *)one_double : one_float, *const zero = code % 2 ? (const void *)zero_double : zero_float;
  const int m = (int)p->rows, n = (int)p->columns, k = (int)p->k, step = (int)p->step;
  const char *const left = p->b.transposed == TRANSPOSED ? "T" : "N", *const right = p->a.transposed == TRANSPOSED ? "T" : "N";
  ((Fortran)in_fortran[code])(left, right, &n, &m, &k, one, p->b.at, &p->b.step, p->a.at, &p->a.step, zero, p->out, &step);
}

#define REAL(T, CODE)                                                                              \
  typedef void (*Gemm_##T)(int, int, int, Whole, Whole, Whole, T, const void *, Whole,             \
                           const void *, Whole, T, void *, Whole);                                 \
  typedef void (*Gemv_##T)(int, int, Whole, Whole, T, const void *, Whole, const void *, Whole, T, \
                           void *, Whole);                                                         \
  typedef void (*Syrk_##T)(int, int, int, Whole, Whole, T, const void *, Whole, T, void *, Whole); \
  static void halve_##T(const Product *p) {                                                        \
    ((Syrk_##T)functions[CODE][SYRK])(ROW_MAJOR, UPPER, p->a.transposed, p->rows, p->k, 1, p->a.at,    \
                                      p->a.step, 0, p->out, p->step);                              \
  }                                                                                                \
  static void multiply_##T(const Product *p) {                                                     \
    ((Gemm_##T)functions[CODE][GEMM])(ROW_MAJOR, p->a.transposed, p->b.transposed, p->rows, p->columns,    \
                                      p->k, 1, p->a.at, p->a.step, p->b.at, p->b.step, 0, p->out,  \
                                      p->step);                                                    \
  }                                                                                                \
  static void apply_##T(const Product *p, int how, int rows, int columns, const Matrix *m,         \
                        int between) {                                                             \
    ((Gemv_##T)functions[CODE][GEMV])(ROW_MAJOR, how, rows, columns, 1, m->at, m->step, p->vector, \
                                      p->apart, 0, p->out, between);                               \
  }
REAL(float, 0)
REAL(double, 1)

#define COMPLEX(T, CODE)                                                                           \
  static const T one_##CODE[2] = {1, 0}, zero_##CODE[2] = {0, 0};                                  \
  static void halve_##CODE(const Product *p) {                                                     \
    ((Syrk_complex)functions[CODE][SYRK])(ROW_MAJOR, UPPER, p->a.transposed, p->rows, p->k,            \
                                          one_##CODE, p->a.at, p->a.step, zero_##CODE, p->out,     \
                                          p->step);                                                \
  }                                                                                                \
  static void multiply_##CODE(const Product *p) {                                                  \
    ((Gemm_complex)functions[CODE][GEMM])(ROW_MAJOR, p->a.transposed, p->b.transposed, p->rows,            \
                                          p->columns, p->k, one_##CODE, p->a.at, p->a.step,        \
                                          p->b.at, p->b.step, zero_##CODE, p->out, p->step);       \
  }                                                                                                \
  static void apply_##CODE(const Product *p, int how, int rows, int columns, const Matrix *m,      \
                           int between) {                                                          \
    ((Gemv_complex)functions[CODE][GEMV])(ROW_MAJOR, how, rows, columns, one_##CODE, m->at,        \
                                          m->step, p->vector, p->apart, zero_##CODE, p->out,       \
                                          between);                                                \
  }
typedef void (*Gemm_complex)(int, int, int, Whole, Whole, Whole, const void *, const void *, Whole,
                             const void *, Whole, const void *, void *, Whole);
typedef void (*Gemv_complex)(int, int, Whole, Whole, const void *, const void *, Whole, const void *,
                             Whole, const void *, void *, Whole);
typedef void (*Syrk_complex)(int, int, int, Whole, Whole, const void *, const void *, Whole,
                             const void *, void *, Whole);
COMPLEX(float, 2)
COMPLEX(double, 3)

static void (*const multiply[4])(const Product *) = {multiply_float, multiply_double, multiply_2,
                                                     multiply_3};
static void (*const apply[4])(const Product *, int, int, int, const Matrix *, int) = {
    apply_float, apply_double, apply_2, apply_3};

static void (*const halve[4])(const Product *) = {halve_float, halve_double, halve_2, halve_3};

/* What is above a diagonal: copied to below it. `down` and `across` are where its rows and columns begin. A block is as
   wide as a line of cache: of longer ones the lines would push each other out where rows are powers of two apart. */
#define MIRROR(T, NAME, BLOCK)                                                                     \
  static void mirror_##NAME(T *out, int64_t row, int64_t down, int64_t across, int64_t height, int64_t width) { \
    for (int64_t i = down; i < down + height; i += BLOCK)                                          \
      for (int64_t j = across; j < across + width; j += BLOCK)                                     \
        if (i + BLOCK <= down + height && j + BLOCK <= across + width && i + BLOCK <= j) {         \
          for (int64_t x = 0; x < BLOCK; ++x)                                                      \
            for (int64_t y = 0; y < BLOCK; ++y) out[(j + x) * row + i + y] = out[(i + y) * row + j + x]; \
        } else {                                                                                   \
          for (int64_t x = j; x < j + BLOCK && x < across + width; ++x)                            \
            for (int64_t y = i; y < i + BLOCK && y < down + height && y < x; ++y)                  \
              out[x * row + y] = out[y * row + x];                                                 \
        }                                                                                          \
  }
typedef struct {
  float real, imaginary;
} Floats;
typedef struct {
  double real, imaginary;
} Doubles;
MIRROR(float, 0, 16)
MIRROR(double, 1, 8)
MIRROR(Floats, 2, 8)
MIRROR(Doubles, 3, 4)

static void mirror(int64_t code, char *out, int64_t row, int64_t down, int64_t across, int64_t height, int64_t width) {
  if (code == 0) mirror_0((float *)out, row, down, across, height, width);
  if (code == 1) mirror_1((double *)out, row, down, across, height, width);
  if (code == 2) mirror_2((Floats *)out, row, down, across, height, width);
  if (code == 3) mirror_3((Doubles *)out, row, down, across, height, width);
}

/* Two vectors. A library adds up in another order where elements are apart, or where the same row is
   handed over as a column; a tile is either, depending on the memory it is in. So these are added up
   here, always in the same order: by lanes, and those in pairs. */
enum { LANES = 32 };

/* `n` numbers that follow each other: those at `at`, or a copy of them in `block`. */
#define DOT(T)                                                                                     \
  static const T *contiguous_##T(const char *at, int64_t step, int64_t n, T *block) {              \
    if (step == sizeof(T)) return (const T *)at;                                                   \
    for (int64_t i = 0; i < n; ++i) block[i] = *(const T *)(at + i * step);                        \
    return block;                                                                                  \
  }                                                                                                \
  static T total_##T(T *sums) {                                                                    \
    for (int half = LANES / 2; half; half /= 2)                                                    \
      for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];                     \
    return sums[0];                                                                                \
  }                                                                                                \
  static void dot_##T(const char *x, int64_t x_step, const char *y, int64_t y_step, int64_t n,     \
                      char *out) {                                                                 \
    T sums[LANES] = {0}, x_block[LANES], y_block[LANES];                                           \
    for (; n >= LANES; n -= LANES, x += LANES * x_step, y += LANES * y_step) {                     \
      const T *const a = contiguous_##T(x, x_step, LANES, x_block);                                \
      const T *const b = contiguous_##T(y, y_step, LANES, y_block);                                \
      for (int lane = 0; lane < LANES; ++lane) sums[lane] += a[lane] * b[lane];                    \
    }                                                                                              \
    for (int64_t i = 0; i < n; ++i)                                                                \
      sums[i] += *(const T *)(x + i * x_step) * *(const T *)(y + i * y_step);                      \
    *(T *)out = total_##T(sums);                                                                   \
  }                                                                                                \
  static void complex_dot_##T(const char *x, int64_t x_step, const char *y, int64_t y_step,        \
                              int64_t n, char *out) {                                              \
    T real[LANES] = {0}, imaginary[LANES] = {0};                                                   \
    for (; n > 0; n -= LANES, x += LANES * x_step, y += LANES * y_step)                            \
      for (int lane = 0; lane < LANES && lane < n; ++lane) {                                       \
        const T *const a = (const T *)(x + lane * x_step), *const b = (const T *)(y + lane * y_step); \
        real[lane] += a[0] * b[0] - a[1] * b[1];                                                   \
        imaginary[lane] += a[0] * b[1] + a[1] * b[0];                                              \
      }                                                                                            \
    ((T *)out)[0] = total_##T(real), ((T *)out)[1] = total_##T(imaginary);                         \
  }
DOT(float)
DOT(double)

static void (*const dot[4])(const char *, int64_t, const char *, int64_t, int64_t, char *) = {
    dot_float, dot_double, complex_dot_float, complex_dot_double};

/* A matrix and a vector, on its right or left; `between`: steps between elements of out. */
static void with_vector(const Product *p, int is_right, int64_t code, int64_t size) {
  const Matrix *const m = is_right ? &p->a : &p->b;
  const int64_t n = is_right ? p->rows : p->columns;
  const int is_transposed = m->transposed == TRANSPOSED;
  const int between = is_right && n > 1 ? (int)p->step : 1;
  for (int64_t i = 0; i < n; ++i) memset(p->out + i * between * size, 0, size); /* 0 * NaN is none */
  const int along = is_right != is_transposed; /* stored rows are what is multiplied */
  apply[code](p, along ? AS_IT_IS : TRANSPOSED, (int)(along ? n : p->k), (int)(along ? p->k : n), m,
              between);
}

/* How products of a shape are cut: into parts of rows and of columns. */
typedef struct {
  enum { MATRICES, VECTOR_RIGHT, VECTOR_LEFT, VECTORS, ITSELF } kind;
  int64_t code, size, rows, columns, k, of_rows, of_columns, n_parts;
  int is_by_mkl;
} Cut;

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Where part i of so many begins, along an axis of n. */
static int64_t border(int64_t n, int64_t i, int64_t parts) { return i == parts ? n : n / EDGE * i / parts * EDGE; }

static int64_t work_of(const Cut *c) {
  return c->rows * c->columns * c->k + MEMORY_USES * (c->rows * c->k + c->k * c->columns + c->rows * c->columns);
}

/* Whether a matrix times itself takes as long to be mirrored as to be multiplied: then its blocks are so small that they
   are in cache for that, and those on the diagonal are multiplied whole, which costs less than the library's halves. */
static int is_shallow(const Cut *c) { return c->kind == ITSELF && c->k < WIDE; }

/* Into parts as square as can be, of `n` alike; is_across: each has a part of every stored row of what a vector is
   multiplied by. */
static void cut(Cut *c, int64_t n, int is_across) {
  const int is_vector = c->kind == VECTOR_RIGHT || c->kind == VECTOR_LEFT;
  const int64_t narrowest = is_across ? STRIPE : is_vector ? EDGE : NARROW;
  const int64_t most = least((MORE_PARTS * *n_workers + n - 1) / n, work_of(c) / PART_WORK);
  c->of_rows = c->of_columns = 1;
  while (c->kind != VECTORS && c->of_rows * c->of_columns * 2 <= most) {
    const int64_t height = c->rows / c->of_rows, width = c->columns / c->of_columns;
    const int64_t longer = height < width ? width : height;
    if (longer < 2 * (c->of_rows * c->of_columns < *n_workers ? narrowest : WIDE)) break;
    *(height < width ? &c->of_columns : &c->of_rows) *= 2;
  }
  c->n_parts = c->of_rows * c->of_columns;
  if (c->kind != ITSELF) return;
  if (c->of_rows < c->of_columns) c->of_rows = c->of_columns;
  if (*n_workers > 2 && c->of_rows > 1 && c->rows >= 2 * c->of_rows * SQUARE) c->of_rows *= 2;
  if (is_shallow(c) && c->of_rows < c->rows / SQUARE) c->of_rows = c->rows / SQUARE;
  c->of_columns = c->of_rows;
  c->n_parts = c->of_rows * (c->of_rows + 1) / 2; /* those on the diagonal and above it */
}

/* Part i of a product. */
static void multiply_part(const Cut *c, const Product *whole, int64_t i) {
  Product p = *whole;
  int64_t down = 0, across;
  if (c->kind == ITSELF) {
    for (across = i; across >= c->of_columns - down; ++down) across -= c->of_columns - down;
    across += down;
  } else
    down = i / c->of_columns, across = i % c->of_columns;
  const int64_t row = border(p.rows, down, c->of_rows), column = border(p.columns, across, c->of_columns);
  p.rows = border(p.rows, down + 1, c->of_rows) - row;
  p.columns = border(p.columns, across + 1, c->of_columns) - column;
  p.a.at += row * (p.a.transposed == TRANSPOSED ? 1 : p.a.step) * c->size;
  p.b.at += column * (p.b.transposed == TRANSPOSED ? p.b.step : 1) * c->size;
  p.out += (row * p.step + column) * c->size;
  if (c->kind == VECTOR_RIGHT || c->kind == VECTOR_LEFT)
    with_vector(&p, c->kind == VECTOR_RIGHT, c->code, c->size);
  else if (c->kind == ITSELF && down == across && !is_shallow(c))
    halve[c->code](&p);
  else if (c->is_by_mkl)
    multiply_by_mkl(&p, c->code);
  else
    multiply[c->code](&p);
  if (c->kind == ITSELF) mirror(c->code, whole->out, p.step, row, column, p.rows, p.columns);
}

static const int64_t sizes[4] = {4, 8, 8, 16};

/* A product: `how` has the dtype, rows, columns, k, and steps in bytes: of both from row to row and
   from column to column, and from row to row of out. */
static Product product_of(const int64_t *how, char *const *arrays) {
  const int64_t size = sizes[how[0]];
  Product p = {.rows = how[1], .columns = how[2], .k = how[3], .step = how[8] / size, .out = arrays[2]};
  if (p.rows == 1 && p.step < p.columns) p.step = p.columns;
  p.a = seen(arrays[0], p.rows, p.k, how[4], how[5], size);
  p.b = seen(arrays[1], p.k, p.columns, how[6], how[7], size);
  p.vector = p.columns == 1 ? arrays[1] : arrays[0];
  p.apart = p.k == 1 ? 1 : (int)((p.columns == 1 ? how[6] : how[5]) / size);
  return p;
}

static Cut cut_of(const int64_t *how, char *const *arrays) {
  Cut c = {.code = how[0], .size = sizes[how[0]], .rows = how[1], .columns = how[2], .k = how[3]};
  const Product p = product_of(how, arrays);
  const int is_right = c.columns == 1;
  c.kind = is_right ? c.rows == 1 ? VECTORS : VECTOR_RIGHT : c.rows == 1 ? VECTOR_LEFT : MATRICES;
  if (c.kind == MATRICES && arrays[0] == arrays[1] && c.rows == c.columns && how[4] == how[7] && how[5] == how[6] &&
      (how[9] == 1 || how[10] == how[11]))
    c.kind = ITSELF;
  const int is_vector = c.kind == VECTOR_RIGHT || c.kind == VECTOR_LEFT;
  cut(&c, how[9], is_vector && is_right == ((is_right ? p.a : p.b).transposed == TRANSPOSED));
  return c;
}

/* Products of the matrices of two stacks: `how` goes on with how many they are, and with the bytes from matrix to matrix
   of both and of out. Each is cut alike; a thread takes so many parts at a time. */
typedef struct {
  const int64_t *how;
  char **arrays;
  Cut cut;
  int64_t n_at_once, n_taken;
} Stack;

static void multiply_parts(void *given) {
  Stack *const s = given;
  const int64_t *const next = s->how + 10, n = s->cut.n_parts, end = s->how[9] * n;
  const int before = is_of_threads ? get_threads() : 1, limit = s->cut.is_by_mkl ? limit_threads(1) : 0;
  if (before != 1) set_threads(1);
  for (int64_t from; (from = __atomic_fetch_add(&s->n_taken, s->n_at_once, __ATOMIC_RELAXED)) < end;)
    for (int64_t i = from; i < from + s->n_at_once && i < end; ++i) {
      char *arrays[3];
      for (int k = 0; k < 3; ++k) arrays[k] = s->arrays[k] + i / n * next[k];
      const Product p = product_of(s->how, arrays);
      if (s->cut.kind == VECTORS)
        dot[s->cut.code](arrays[0], s->how[5], arrays[1], s->how[6], p.k, p.out);
      else
        multiply_part(&s->cut, &p, i % n);
    }
  if (before != 1) set_threads(before);
  if (s->cut.is_by_mkl) limit_threads(limit);
}

/* Whoever has time takes parts; small ones several at a time. */
static void in_parts(void (*some)(void *), Stack *s, int64_t n_threads) {
  const int64_t n = s->cut.n_parts * s->how[9], each = work_of(&s->cut) / s->cut.n_parts;
  if (each < PART_WORK) s->n_at_once = least(PART_WORK / (each + 1) + 1, n);
  n_threads = in_threads ? least(n_threads, (n + s->n_at_once - 1) / s->n_at_once) : 1;
  if (n_threads > 1)
    in_threads(some, s, n_threads);
  else
    some(s);
}

/* MKL takes less time for many shapes, and tenths of a second to be loaded. What a product is to the bit is what the library
   above makes of it; MKL's are the same for most shapes whose sums are not cut, so it makes those once they have paid for it:
   a thread beside loads it, and multiplies random numbers in each such shape by both. Nothing waits, and no bits change. */
typedef struct {
  int64_t code, rows, columns, k, of_rows, of_columns, kind, left, right;
} Shape;
enum { UNKNOWN, CLAIMED, ASKED, SAME, DIFFERENT };
typedef struct {
  uint64_t hash; /* 0: nothing is here */
  Shape shape; /* written by who claims it, read once it is asked for */
  int64_t work;
  int state;
} Known;
enum { N_KNOWN = 2048, N_PLACES = 8, LONGEST_SUM = 512, MOST_BYTES = 1 << 26 };
#define LOADING_WORK ((int64_t)1 << 34)
#define SHAPE_WORK ((int64_t)1 << 28)
/* Longer sums are cut, by each library in its way. Multiplications of one dtype and core take 10 to 40 ps: to load MKL pays
   after LOADING_WORK, to try a shape after SHAPE_WORK. */
static Known known[N_KNOWN];
static const char *mkl_path;
static int64_t n_made_by_mkl, all_work;
static int is_trying, is_ending; /* whether there is a thread that loads and tries; whether it is to end */

/* How many products MKL has made. */
int64_t made_by_mkl(void) { return __atomic_load_n(&n_made_by_mkl, __ATOMIC_RELAXED); }

/* The file that has MKL, of which the caller keeps the name. */
void use_mkl(const char *path) { __atomic_store_n(&mkl_path, path, __ATOMIC_RELEASE); }

static int has_loaded(void) {
  if (limit_threads) return 1;
  static const char *const names[] = {"sgemm_", "dgemm_", "cgemm_", "zgemm_"};
  void *const file = dlopen(mkl_path, RTLD_NOW | RTLD_LOCAL), *const limit = file ? dlsym(file, "MKL_Set_Num_Threads_Local") : 0;
  for (int i = 0; file && i < 4; ++i) in_fortran[i] = dlsym(file, names[i]);
  if (!limit || !in_fortran[0] || !in_fortran[1] || !in_fortran[2] || !in_fortran[3]) return 0;
  limit_threads = (int (*)(int))limit;
  return 1;
}

/* Numbers in [-1, 1) of which no bits are alike; the first row is -0, the first column positive. */
static void draw(char *at, int64_t is_double, int64_t lines, int64_t length, int is_first_zero, uint64_t seed) {
  for (int64_t i = 0; i < lines * length; ++i) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    double x = (double)(int64_t)seed * 0x1p-63;
    if (is_first_zero && i < length) x = -0.0;
    if (!is_first_zero && i % length == 0) x = fabs(x);
    if (is_double)
      ((double *)at)[i] = x;
    else
      ((float *)at)[i] = (float)x;
  }
}

static Cut cut_as(const Shape *s) {
  Cut c = {.kind = (int)s->kind, .code = s->code, .size = sizes[s->code], .rows = s->rows, .columns = s->columns, .k = s->k};
  c.of_rows = s->of_rows, c.of_columns = s->of_columns;
  c.n_parts = c.kind == ITSELF ? c.of_rows * (c.of_rows + 1) / 2 : c.of_rows * c.of_columns;
  return c;
}

static int64_t bytes_to_try(const Cut *c) { return (c->rows * c->k + c->k * c->columns + 2 * c->rows * c->columns) * c->size; }

/* Whether both libraries give a shape the same bits. */
static int is_same(const Shape *s) {
  Cut c = cut_as(s);
  const int64_t n_reals = s->code < 2 ? 1 : 2, out_bytes = c.rows * c.columns * c.size;
  char *const a = malloc(bytes_to_try(&c));
  if (!a) return 0;
  char *const b = a + c.rows * c.k * c.size, *const out = b + c.k * c.columns * c.size;
  draw(a, s->code % 2, c.rows, c.k * n_reals, 1, 0x9e3779b97f4a7c15);
  draw(b, s->code % 2, c.k, c.columns * n_reals, 0, 0xd1342543de82ef95);
  Product p = {.rows = c.rows, .columns = c.columns, .k = c.k, .step = c.columns};
  p.a = (Matrix){a, (int)s->left, (int)(s->left == TRANSPOSED ? c.rows : c.k)};
  p.b = (Matrix){b, (int)s->right, (int)(s->right == TRANSPOSED ? c.k : c.columns)};
  if (c.kind == ITSELF) p.b.at = a, p.b.step = p.a.step;
  share(1);
  for (c.is_by_mkl = 0; c.is_by_mkl < 2; ++c.is_by_mkl) {
    p.out = out + c.is_by_mkl * out_bytes;
    for (int64_t i = 0; i < c.n_parts; ++i) multiply_part(&c, &p, i);
  }
  share(-1);
  const int same = !memcmp(out, out + out_bytes, out_bytes);
  free(a);
  return same;
}

static void *try_shapes(void *unused) {
  (void)unused;
  int is_left = !__atomic_load_n(&is_ending, __ATOMIC_ACQUIRE) && has_loaded();
  if (!limit_threads) use_mkl(0); /* for good */
  if (is_left) limit_threads(1);
  while (is_left) {
    is_left = 0;
    for (int i = 0; i < N_KNOWN && !__atomic_load_n(&is_ending, __ATOMIC_ACQUIRE); ++i)
      if (__atomic_load_n(&known[i].state, __ATOMIC_ACQUIRE) == ASKED) {
        is_left = 1;
        __atomic_store_n(&known[i].state, is_same(&known[i].shape) ? SAME : DIFFERENT, __ATOMIC_RELEASE);
      }
  }
  __atomic_store_n(&is_trying, 0, __ATOMIC_RELEASE);
  return 0;
}

static void begin_to_try(void) {
  pthread_t thread;
  if (__atomic_load_n(&is_trying, __ATOMIC_RELAXED) || __atomic_exchange_n(&is_trying, 1, __ATOMIC_ACQUIRE)) return;
  if (pthread_create(&thread, 0, try_shapes, 0))
    __atomic_store_n(&is_trying, 0, __ATOMIC_RELEASE);
  else
    pthread_detach(thread);
}

/* The process ends, or forks: nobody loads while libraries let go of their memory, nor holds what a child waits for. */
void end_trying(void) {
  __atomic_store_n(&is_ending, 1, __ATOMIC_RELEASE);
  while (__atomic_load_n(&is_trying, __ATOMIC_ACQUIRE)) nanosleep(&(struct timespec){0, 1000000}, 0);
}

void go_on_trying(void) { __atomic_store_n(&is_ending, 0, __ATOMIC_RELEASE); }

static uint64_t hash_of(const Shape *s) {
  const int64_t *const numbers = (const int64_t *)s;
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (unsigned i = 0; i < sizeof *s / sizeof *numbers; ++i) {
    hash = (hash ^ (uint64_t)numbers[i]) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash | 1;
}

/* What is known of a shape; 0 where there is no place for it. */
static Known *place_of(const Shape *shape) {
  const uint64_t hash = hash_of(shape);
  for (int i = 0; i < N_PLACES; ++i) {
    Known *const one = known + (hash / 2 + i) % N_KNOWN;
    uint64_t here = __atomic_load_n(&one->hash, __ATOMIC_RELAXED);
    if (!here && __atomic_compare_exchange_n(&one->hash, &here, hash, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return one;
    if (here == hash) return one;
  }
  return 0;
}

/* Whether MKL multiplies these; what they take counts until that is known. */
static int is_for_mkl(const Cut *c, const int64_t *how, char *const *arrays) {
  if (!__atomic_load_n(&mkl_path, __ATOMIC_ACQUIRE) || !(c->kind == MATRICES || is_shallow(c)) || c->k > LONGEST_SUM || bytes_to_try(c) > MOST_BYTES) return 0;
  const Product p = product_of(how, arrays);
  const Shape shape = {c->code, c->rows, c->columns, c->k, c->of_rows, c->of_columns, c->kind, p.a.transposed, p.b.transposed};
  Known *const one = place_of(&shape);
  const int state = one ? __atomic_load_n(&one->state, __ATOMIC_ACQUIRE) : DIFFERENT;
  if (state == UNKNOWN) {
    const int64_t work = how[9] * c->rows * c->columns * c->k * (c->code < 2 ? 1 : 4);
    const int64_t all = __atomic_add_fetch(&all_work, work, __ATOMIC_RELAXED);
    const int64_t of_shape = __atomic_add_fetch(&one->work, work, __ATOMIC_RELAXED);
    if (all >= LOADING_WORK && of_shape >= SHAPE_WORK) {
      int before = UNKNOWN;
      if (__atomic_compare_exchange_n(&one->state, &before, CLAIMED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        one->shape = shape;
        __atomic_store_n(&one->state, ASKED, __ATOMIC_RELEASE);
      }
    }
  }
  if (state == ASKED && !__atomic_load_n(&is_ending, __ATOMIC_RELAXED)) begin_to_try();
  return state == SAME;
}

/* Products with a short side: by `narrow_products.c`, which takes matrices as they are stored. */
static int (*is_narrow)(int64_t, int64_t, const Narrow *);
static void (*multiply_narrow)(int64_t, int64_t, const Narrow *);
static int64_t vectors;

/* What multiplies them, what says which they are, and by which vectors; called once. */
void use_narrow(void *of_products, void *function, int64_t with) {
  is_narrow = (int (*)(int64_t, int64_t, const Narrow *))of_products;
  multiply_narrow = (void (*)(int64_t, int64_t, const Narrow *))function;
  vectors = with;
}

/* A matrix of a stack. */
static Narrow narrow_of(const int64_t *how, char **arrays, int64_t i) {
  const int64_t *const next = how + 10, *const halves = how + 13;
  const int64_t size = halves[2] ? (int64_t)sizeof(float16) : sizes[how[0]];
  return (Narrow){how[1], how[2], how[3], arrays[0] + i * next[0], arrays[1] + i * next[1], arrays[2] + i * next[2],
                  how[4], how[5], how[6], how[7], how[8], size, halves[0], halves[1], halves[2]};
}

static void multiply_narrow_parts(void *given) {
  Stack *const s = given;
  const Cut *const c = &s->cut;
  const int64_t end = s->how[9] * c->n_parts;
  for (int64_t from; (from = __atomic_fetch_add(&s->n_taken, s->n_at_once, __ATOMIC_RELAXED)) < end;)
    for (int64_t i = from; i < from + s->n_at_once && i < end; ++i) {
      const int64_t down = i % c->n_parts / c->of_columns, across = i % c->of_columns;
      const int64_t row = border(c->rows, down, c->of_rows), column = border(c->columns, across, c->of_columns);
      Narrow p = narrow_of(s->how, s->arrays, i / c->n_parts);
      p.rows = border(c->rows, down + 1, c->of_rows) - row;
      p.columns = border(c->columns, across + 1, c->of_columns) - column;
      p.left += row * p.left_row, p.right += column * p.right_column;
      p.out += row * p.out_row + column * p.out_column;
      multiply_narrow(vectors, c->code, &p);
    }
}

/* One vector is multiplied as NumPy does, and so are few: small calls are NumPy's (`is_for_ours` in `small_calls.c`). */
enum { LEAST_OF_VECTORS = 1 << 12 };

/* Whether it was done: by up to so many threads. */
static int narrow_products(const int64_t *how, char **arrays, int64_t n_threads) {
  const Narrow one = narrow_of(how, arrays, 0);
  const int has_vector = how[1] == 1 || how[2] == 1;
  if (has_vector && (how[9] == 1 || how[9] * how[1] * how[2] * how[3] < LEAST_OF_VECTORS)) return 0;
  if (!is_narrow || how[0] > 1 || !is_narrow(vectors, how[0], &one)) return 0;
  Stack s = {.how = how, .arrays = arrays, .n_at_once = 1};
  s.cut = (Cut){.kind = MATRICES, .code = how[0], .size = sizes[how[0]], .rows = how[1], .columns = how[2], .k = how[3]};
  cut(&s.cut, how[9], 0);
  in_parts(multiply_narrow_parts, &s, n_threads);
  return 1;
}

/* By up to so many threads. */
static void products(const int64_t *how, char **arrays, int64_t n_threads) {
  Stack s = {how, arrays, cut_of(how, arrays), 1, 0};
  s.cut.is_by_mkl = is_for_mkl(&s.cut, how, arrays);
  __atomic_add_fetch(s.cut.is_by_mkl ? &n_made_by_mkl : &n_made, how[9], __ATOMIC_RELAXED);
  if (!is_of_threads) share(1);
  in_parts(multiply_parts, &s, n_threads);
  if (!is_of_threads) share(-1);
}

/* Numbers of 16 bits are multiplied as floats, and the result is rounded once. Floats are stored in the order that the
   numbers are, so the library sees the same matrices. */
enum { PIECE = 1 << 14 }; /* elements that a thread casts before it takes the next */

/* Numbers of 16 bits in lines, with the bytes of a step from stack to stack, line to line and element to element; the
   floats of them follow each other. */
typedef struct {
  char *halves;
  float *floats;
  int64_t kind, is_to_floats, counts[3], steps[3], n_taken;
} Cast;

/* Some elements of a line, of both forms. */
static void cast_line(const Cast *c, char *halves, float *floats, int64_t n) {
  const int64_t step = c->steps[2];
  if (c->is_to_floats)
    widen(c->kind, halves, step, floats, n);
  else
    round_to(c->kind, floats, halves, step, n);
}

/* A part is several short lines, or a piece of a long one. */
static int64_t lines_of_part(const Cast *c) { return c->counts[2] < PIECE ? PIECE / c->counts[2] : 1; }
static int64_t pieces_of_line(const Cast *c) { return (c->counts[2] + PIECE - 1) / PIECE; }
static int64_t parts_of(const Cast *c) {
  const int64_t lines = lines_of_part(c);
  return (c->counts[0] * c->counts[1] + lines - 1) / lines * pieces_of_line(c);
}

static void cast_parts(void *given) {
  Cast *const c = given;
  const int64_t n = c->counts[2], n_lines = c->counts[0] * c->counts[1], n_parts = parts_of(c);
  const int64_t lines = lines_of_part(c), pieces = pieces_of_line(c);
  for (int64_t i; (i = __atomic_fetch_add(&c->n_taken, 1, __ATOMIC_RELAXED)) < n_parts;) {
    const int64_t first = i / pieces * lines, end = least(first + lines, n_lines);
    const int64_t from = i % pieces * PIECE, length = least(n - from, PIECE);
    for (int64_t line = first; line < end; ++line) {
      const int64_t at = line / c->counts[1] * c->steps[0] + line % c->counts[1] * c->steps[1] + from * c->steps[2];
      cast_line(c, c->halves + at, c->floats + line * n + from, length);
    }
  }
}

/* By up to so many threads; lines that follow each other are one. */
static void cast(Cast *c, int64_t n_threads) {
  int64_t *const n = c->counts, *const step = c->steps;
  for (int axis = 1; axis >= 0; --axis)
    if (n[axis] == 1 || step[axis] == n[axis + 1] * step[axis + 1]) {
      n[axis + 1] *= n[axis];
      for (int outer = axis; outer > 0; --outer) n[outer] = n[outer - 1], step[outer] = step[outer - 1];
      n[0] = 1;
    }
  const int64_t most = in_threads ? least(n_threads, parts_of(c)) : 1;
  if (most > 1)
    in_threads(cast_parts, c, most);
  else
    cast_parts(c);
}

/* The matrices of one of the three, with memory for their floats, none for what stays as it is. `steps`, from row to row
   and from column to column, and `next`, from matrix to matrix (0: all are one), become those of the floats. */
static Cast cast_of(char *halves, int64_t kind, int64_t n, const int64_t *counts, int64_t *steps, int64_t *next) {
  if (kind == AS_THEY_ARE) return (Cast){0};
  const int is_transposed = counts[0] > 1 && counts[1] > 1 && llabs(steps[0]) < llabs(steps[1]);
  const int64_t lines = counts[is_transposed], length = counts[!is_transposed], size = sizeof(float);
  Cast c = {halves, 0, kind, 1, {*next ? n : 1, lines, length}, {*next, steps[is_transposed], steps[!is_transposed]}, 0};
  c.floats = malloc(c.counts[0] * lines * length * size);
  steps[is_transposed] = length * size, steps[!is_transposed] = size;
  if (*next) *next = lines * length * size;
  return c;
}

/* Matrices that are multiplied by the same one are one matrix, if their rows and those of out follow each other. */
static void merge(int64_t *how) {
  const int64_t rows = how[1], columns = how[2], k = how[3], n = how[9], *const kinds = how + 13;
  const int64_t x_size = kinds[0] ? 2 : sizes[how[0]], size = kinds[2] ? 2 : sizes[how[0]];
  const int is_even = k == 1 || how[5] == x_size;
  if (n == 1 || how[11]) return;
  if (rows > 1 && !(how[10] == rows * how[4] && how[12] == rows * how[8] && (is_even || how[5] >= n * rows * x_size)))
    return;
  if (rows == 1 && !(is_even && how[10] >= k * x_size && how[12] >= columns * size)) return;
  if (rows == 1) how[4] = how[10], how[8] = how[12];
  how[1] *= n, how[9] = 1, how[10] = how[12] = 0;
}

static float number_at(const char *at, int64_t kind) {
  if (kind == AS_THEY_ARE) return *(const float *)at;
  return kind == FLOAT16 ? read_float16(*(const float16 *)at) : read_bfloat16(*(const bfloat16 *)at);
}

/* Halves one by one, where there is no memory for floats: a task has no way to say so. */
static void multiply_in_place(const int64_t *how, char **arrays) {
  const int64_t *const steps = how + 4, *const next = how + 10, *const kinds = how + 13;
  for (int64_t i = 0; i < how[9] * how[1] * how[2]; ++i) {
    const int64_t column = i % how[2], row = i / how[2] % how[1], m = i / how[2] / how[1];
    const char *const x = arrays[0] + m * next[0] + row * steps[0];
    const char *const y = arrays[1] + m * next[1] + column * steps[3];
    char *const out = arrays[2] + m * next[2] + row * steps[4];
    float sum = 0;
    for (int64_t k = 0; k < how[3]; ++k)
      sum += number_at(x + k * steps[1], kinds[0]) * number_at(y + k * steps[2], kinds[1]);
    if (kinds[2] == AS_THEY_ARE) ((float *)out)[column] = sum;
    if (kinds[2] == FLOAT16) ((float16 *)out)[column] = written_float16(rounded_float16(sum));
    if (kinds[2] == BFLOAT16) ((bfloat16 *)out)[column] = written_bfloat16(rounded_bfloat16(sum));
  }
}

/* Products of stacks, by up to so many threads: `given` is the `how` of a stack, and goes on with what the three are
   made of. */
static void multiply_stacks(const int64_t *given, char **arrays, int64_t n_threads) {
  int64_t how[16];
  memcpy(how, given, sizeof how);
  merge(how);
  if (narrow_products(how, arrays, n_threads)) return;
  const int64_t rows = how[1], columns = how[2], k = how[3], *const kinds = how + 13;
  const int64_t counts[3][2] = {{rows, k}, {k, columns}, {rows, columns}};
  int64_t steps[3][2] = {{how[4], how[5]}, {how[6], how[7]}, {how[8], sizeof(float16)}};
  char *at[3];
  Cast casts[3];
  int has_memory = 1;
  for (int i = 0; i < 3; ++i) {
    casts[i] = cast_of(arrays[i], kinds[i], how[9], counts[i], steps[i], how + 10 + i);
    at[i] = casts[i].floats ? (char *)casts[i].floats : arrays[i];
    has_memory = has_memory && (kinds[i] == AS_THEY_ARE || casts[i].floats);
  }
  if (has_memory) {
    for (int i = 0; i < 2; ++i)
      if (casts[i].floats) cast(casts + i, n_threads);
    memcpy(how + 4, steps, 5 * sizeof *how); /* of both, and from row to row of out */
    products(how, at, n_threads);
    casts[2].is_to_floats = casts[2].n_taken = 0;
    if (casts[2].floats) cast(casts + 2, n_threads);
  } else
    multiply_in_place(given, arrays);
  for (int i = 0; i < 3; ++i) free(casts[i].floats);
}

/* In this thread and others, so many in all. */
void stack(const int64_t *how, char **arrays, int64_t n_threads) { multiply_stacks(how, arrays, n_threads); }

/* The same with the arguments of every kernel that `c_program.c` calls. */
void task(int64_t n_threads, int64_t n, int64_t n_outer, const int64_t *how, char **arrays, const int64_t *steps,
          const char *words, const int64_t *folded, int64_t n_same) {
  (void)n, (void)n_outer, (void)steps, (void)words, (void)folded, (void)n_same;
  multiply_stacks(how, arrays, n_threads);
}
