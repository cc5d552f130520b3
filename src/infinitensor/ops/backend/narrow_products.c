/* Products of matrices with a short side, without copies of what is read: a block of the result stays in registers while
   rows of the right matrix pass. A library packs both operands first, which takes longer than such a product.

   Each element is added up in the order of k, in chunks that follow each other, by fused multiply-adds where there are
   any: its bits depend on neither the block that it is in nor the vectors of the machine. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __clang__
#pragma clang fp contract(fast)
#define FUSED
#else
#define FUSED __attribute__((optimize("fp-contract=fast")))
#endif

#define LINES(T)
#define HALVES_AS_FLOATS
#include "tasking/c/halves.h"
#include "ops/backend/half_lines.h"
#include "ops/backend/narrow_products.h"
#include "ops/forms/transposed.h"

/* Rows by some vectors of columns, of which the last has `n_last` columns; is_padded: what follows it may be read. The
   first chunk is stored, others are added. */
typedef struct {
  int64_t k;
  const char *left, *right;
  char *out;
  int64_t left_row, left_column, right_row, out_row, out_column, n_last, is_padded, is_first;
} Block;
typedef void (*Multiply)(const Block *);

/* Columns of the right matrix, which become `wide`; the bytes from row to row and from column to column. */
typedef struct {
  int64_t k, columns, wide, row, column;
} Panel;
typedef void (*Pack)(void *, const char *, const Panel *);

enum { CHUNK = 256, AHEAD = 8, MOST_HEIGHT = 12, MOST_BESIDE = 4, N_HEIGHTS = 10 };
static const int heights[N_HEIGHTS] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12};

/* What multiplies elements of a dtype: functions for blocks of so many vectors and of each of the heights that the
   registers hold; is_masked: they read a part of a vector at once. */
typedef struct {
  int64_t size, width, is_masked;
  Multiply blocks[MOST_BESIDE][N_HEIGHTS];
  Pack pack;
} Kind;

#define JOINED(a, b) a##_##b
#define JOIN(a, b) JOINED(a, b)
#define OWN(name) JOIN(name, NAME)
#define BLOCK_OF(height, n) JOIN(JOIN(OWN(block), height), n)
#define SIZED(height, n) \
  TARGET static void BLOCK_OF(height, n)(const Block *b) { OWN(block)(height, n, b); }
#define LISTED(height, n) BLOCK_OF(height, n),
#define EACH_ROW _Pragma("GCC unroll 12") for (int r = 0; r < height; ++r)
#define EACH_VECTOR _Pragma("GCC unroll 4") for (int i = 0; i < n; ++i)
#define TO_4(WHAT, n) WHAT(1, n) WHAT(2, n) WHAT(3, n) WHAT(4, n)
#define TO_6(WHAT, n) TO_4(WHAT, n) WHAT(5, n) WHAT(6, n)
#define TO_8(WHAT, n) TO_6(WHAT, n) WHAT(7, n) WHAT(8, n)
#define TO_12(WHAT, n) TO_8(WHAT, n) WHAT(10, n) WHAT(12, n)
#ifdef IS_CHECKED /* by a sanitizer: compilers take minutes for all of them */
#define SIZES_OF_32(WHAT) TO_4(WHAT, 1) TO_4(WHAT, 2)
#define TABLE_OF_32 {TO_4(LISTED, 1)}, {TO_4(LISTED, 2)}
#define SIZES_OF_16 SIZES_OF_32
#define TABLE_OF_16 TABLE_OF_32
#else
#define SIZES_OF_32(WHAT) TO_12(WHAT, 1) TO_12(WHAT, 2) TO_8(WHAT, 3) TO_6(WHAT, 4)
#define TABLE_OF_32 {TO_12(LISTED, 1)}, {TO_12(LISTED, 2)}, {TO_8(LISTED, 3)}, {TO_6(LISTED, 4)}
#define SIZES_OF_16(WHAT) TO_12(WHAT, 1) TO_6(WHAT, 2) TO_4(WHAT, 3)
#define TABLE_OF_16 {TO_12(LISTED, 1)}, {TO_6(LISTED, 2)}, {TO_4(LISTED, 3)}
#endif

#ifdef __AVX2__
#define SIZES SIZES_OF_32
#define TABLE TABLE_OF_32
#define IS_MASKED 1
#define TARGET FUSED __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))
#define BITS(n) ((1 << (n)) - 1)
#define T float
#define NAME float_512
#define BYTES 64
#define FIRST(at, n) _mm512_maskz_loadu_ps((__mmask16)BITS(n), at)
#define PUT(at, n, x) _mm512_mask_storeu_ps(at, (__mmask16)BITS(n), (__m512)(x))
#include "ops/backend/narrow_block.h"
#define T double
#define NAME double_512
#define BYTES 64
#define FIRST(at, n) _mm512_maskz_loadu_pd((__mmask8)BITS(n), at)
#define PUT(at, n, x) _mm512_mask_storeu_pd(at, (__mmask8)BITS(n), (__m512d)(x))
#include "ops/backend/narrow_block.h"
#undef SIZES
#undef TABLE
#undef TARGET

#define SIZES SIZES_OF_16
#define TABLE TABLE_OF_16
#define TARGET FUSED
static const int32_t float_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static const int64_t double_lanes[8] = {-1, -1, -1, -1};
#define LANES(masks, most, n) _mm256_loadu_si256((const __m256i *)((masks) + (most) - (n)))
#define T float
#define NAME float_here
#define BYTES 32
#define FIRST(at, n) _mm256_maskload_ps((const float *)(at), LANES(float_lanes, 8, n))
#define PUT(at, n, x) _mm256_maskstore_ps((float *)(at), LANES(float_lanes, 8, n), (__m256)(x))
#include "ops/backend/narrow_block.h"
#define T double
#define NAME double_here
#define BYTES 32
#define FIRST(at, n) _mm256_maskload_pd((const double *)(at), LANES(double_lanes, 4, n))
#define PUT(at, n, x) _mm256_maskstore_pd((double *)(at), LANES(double_lanes, 4, n), (__m256d)(x))
#include "ops/backend/narrow_block.h"

#else
#ifdef __aarch64__
#define SIZES SIZES_OF_32
#define TABLE TABLE_OF_32
#else
#define SIZES SIZES_OF_16
#define TABLE TABLE_OF_16
#endif
#define IS_MASKED 0
#define TARGET FUSED
#define BY_PARTS                                                                                         \
  typedef T OWN(Part) __attribute__((vector_size(BYTES)));                                               \
  static inline OWN(Part) OWN(first)(const void *at, int64_t n) {                                        \
    OWN(Part) x = {0};                                                                                   \
    memcpy(&x, at, (size_t)n * sizeof(T));                                                               \
    return x;                                                                                            \
  }                                                                                                      \
  static inline void OWN(put)(void *at, int64_t n, OWN(Part) x) { memcpy(at, &x, (size_t)n * sizeof(T)); }
#define T float
#define NAME float_here
#define BYTES 16
#define FIRST(at, n) OWN(first)(at, n)
#define PUT(at, n, x) OWN(put)(at, n, x)
BY_PARTS
#include "ops/backend/narrow_block.h"
#define T double
#define NAME double_here
#define BYTES 16
#define FIRST(at, n) OWN(first)(at, n)
#define PUT(at, n, x) OWN(put)(at, n, x)
BY_PARTS
#include "ops/backend/narrow_block.h"
#endif

/* Whether this processor has what this was built for. */
int is_able(void) {
#ifdef __AVX2__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return 1;
#endif
}

/* With vectors of 64 bytes where the processor has them, or with those that this was built for. */
static const Kind *const kinds[2][2] = {{&kind_float_here, &kind_double_here},
#ifdef __AVX2__
                                        {&kind_float_512, &kind_double_512}
#endif
};
int64_t most_vectors(void) {
#ifdef __AVX2__
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return 0;
#endif
}

enum { PACKED_BYTES = 1 << 17, LEFT_BYTES = 1 << 17, OUT_BYTES = 1 << 17, WIDEST = 1 << 11 };
enum { FEW_ROWS = 16, MANY_ROWS = 128, LONG_ROW = 2048, LEAST_DOWN = 48, SHALLOW = 48 };
/* What is read again and again stays in a core's cache. Rows that are far from each other are packed if they are read
   often. What is written leaves the cache, row by row: of shallow products it is most of what passes. */
static __thread char packed[PACKED_BYTES] __attribute__((aligned(64)));
static __thread float left_floats[LEFT_BYTES / sizeof(float)], out_floats[OUT_BYTES / sizeof(float)];

/* How a product is cut: `down` rows at once by `across` columns, in panels of `beside` vectors. */
typedef struct {
  const Kind *kind;
  const Narrow *p;
  int64_t is_packed, down, across;
  int beside;
} Way;

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x < y ? y : x; }
static int has_halves(const Narrow *p) { return p->left_halves || p->right_halves || p->out_halves; }

/* The largest height of blocks of so many vectors that is not more than `most`. */
static int highest(const Kind *kind, int64_t n, int64_t most) {
  int i = N_HEIGHTS - 1;
  while (!kind->blocks[n - 1][i] || heights[i] > most) --i;
  return i;
}

/* Few rows leave registers for more vectors; where sums are short, longer pieces of rows are written, if there are registers
   enough. */
static int vectors_beside(const Kind *kind, int64_t k, int64_t rows, int64_t vectors) {
  int n = MOST_BESIDE;
  while (!kind->blocks[n - 1][0]) --n;
  const int is_long = k <= SHALLOW && n == MOST_BESIDE;
  while (!is_long && n > 2 && n != vectors && heights[highest(kind, n, MOST_HEIGHT)] < rows) --n;
  return (int)least(n, vectors);
}

static Way way_of(const Kind *kind, const Narrow *p) {
  const int64_t deep = least(p->k, CHUNK) * kind->size;
  Way w = {.kind = kind, .p = p};
  w.beside = vectors_beside(kind, p->k, p->rows, (p->columns + kind->width - 1) / kind->width);
  w.is_packed = p->right_halves || p->right_column != kind->size || p->rows > MANY_ROWS;
  w.is_packed = w.is_packed || (p->rows > FEW_ROWS && p->right_row > LONG_ROW);
  const int64_t wide = w.beside * kind->width;
  w.across = least(PACKED_BYTES / deep, has_halves(p) ? WIDEST : PACKED_BYTES / deep) / wide * wide;
  const int64_t of_out = OUT_BYTES / kind->size / least(w.across, p->columns);
  w.down = least(LEFT_BYTES / deep, has_halves(p) ? of_out : most(of_out, p->k <= SHALLOW ? 2 * MOST_HEIGHT : LEAST_DOWN));
  if (w.down > 2 * MOST_HEIGHT) w.down = w.down / (2 * MOST_HEIGHT) * (2 * MOST_HEIGHT);
  return w;
}

/* Rows by columns of the result, as far as a chunk of k adds to them. */
typedef struct {
  int64_t row, rows, column, columns, k, deep;
  const char *left;
  char *out;
  int64_t left_row, left_column, out_row, out_column;
} Part;

/* As `pack`, of numbers of 16 bits. */
static void pack_halves(int64_t kind, float *to, const char *from, const Panel *p) {
  if (p->column == sizeof(float16))
    for (int64_t k = 0; k < p->k; ++k, from += p->row) {
      widen(kind, from, p->column, to + k * p->wide, p->columns);
      for (int64_t i = p->columns; i < p->wide; ++i) to[k * p->wide + i] = 0;
    }
  else {
    float lines[8 * CHUNK]; /* columns that are behind each other are cast together */
    const int64_t n_joined = p->column == p->k * p->row ? 8 * CHUNK / p->k : 1;
    for (int64_t i = 0, n; i < p->columns; i += n, from += n * p->column) {
      n = least(n_joined, p->columns - i);
      widen(kind, from, p->row, lines, n * p->k);
      const int64_t size = sizeof(float), step = p->wide * size;
      if (!transposed(size, (char *)(to + i), step, (const char *)lines, p->k * size, n, p->k))
        for (int64_t k = 0; k < p->k; ++k)
          for (int64_t c = 0; c < n; ++c) to[k * p->wide + i + c] = lines[c * p->k + k];
    }
    for (int64_t k = 0; k < p->k; ++k)
      for (int64_t i = p->columns; i < p->wide; ++i) to[k * p->wide + i] = 0;
  }
}

/* Where a panel of the right matrix is once it is packed; is_new: it was not before. */
static const char *packed_panel(const Way *w, const Part *part, const char *from, int64_t column, int64_t columns, int is_new) {
  const Narrow *const p = w->p;
  char *const to = packed + column * part->deep * w->kind->size;
  const Panel panel = {part->deep, columns, w->beside * w->kind->width, p->right_row, p->right_column};
  if (is_new && p->right_halves)
    pack_halves(p->right_halves, (float *)to, from, &panel);
  else if (is_new)
    w->kind->pack(to, from, &panel);
  return to;
}

static void multiply_part(const Way *w, const Part *part, int is_new) {
  const Narrow *const p = w->p;
  const Kind *const kind = w->kind;
  const int64_t wide = w->beside * kind->width;
  const char *right = p->right + part->k * p->right_row + part->column * p->right_column;
  Block b = {.k = part->deep, .left_row = part->left_row, .left_column = part->left_column, .right_row = p->right_row,
             .out_row = part->out_row, .out_column = part->out_column, .n_last = kind->width, .is_first = part->k == 0};
  int64_t beside = w->beside;
  for (int64_t column = 0; column < part->columns; column += wide, right += wide * p->right_column) {
    const int64_t columns = least(wide, part->columns - column);
    if (columns < wide) beside = (columns + kind->width - 1) / kind->width, b.n_last = columns - (beside - 1) * kind->width;
    b.is_padded = w->is_packed || (b.n_last < kind->width && !kind->is_masked);
    b.right = b.is_padded ? packed_panel(w, part, right, column, columns, is_new) : right;
    b.right_row = b.is_padded ? wide * kind->size : p->right_row;
    b.left = part->left, b.out = part->out + column * part->out_column;
    const Multiply *const blocks = kind->blocks[beside - 1];
    const int highest_here = highest(kind, beside, MOST_HEIGHT);
    for (int64_t rest = part->rows; rest > 0;) {
      const int64_t most = heights[highest_here];
      const int h = rest >= 2 * most ? highest_here : highest(kind, beside, rest <= most ? rest : (rest + 1) / 2);
      blocks[h](&b);
      b.left += heights[h] * b.left_row, b.out += heights[h] * b.out_row, rest -= heights[h];
    }
  }
}

/* Chunk by chunk, each with all rows: a chunk of the right matrix is packed once. */
static void multiply_floats(const Way *w) {
  const Narrow *const p = w->p;
  Part part = {.left_row = p->left_row, .left_column = p->left_column, .out_row = p->out_row, .out_column = p->out_column};
  for (part.column = 0; part.column < p->columns; part.column += w->across)
    for (part.k = 0; part.k < p->k; part.k += CHUNK)
      for (part.row = 0; part.row < p->rows; part.row += w->down) {
        part.columns = least(w->across, p->columns - part.column);
        part.deep = least(CHUNK, p->k - part.k);
        part.rows = least(w->down, p->rows - part.row);
        part.left = p->left + part.row * p->left_row + part.k * p->left_column;
        part.out = p->out + part.row * p->out_row + part.column * p->out_column;
        multiply_part(w, &part, part.row == 0);
      }
}

/* Rows of the left matrix as floats: of as many lines as it has rows, or columns if these follow each other. */
static void widen_left(const Narrow *p, Part *part) {
  const int is_transposed = p->left_row == sizeof(float16) && p->left_column != sizeof(float16);
  const int64_t n_lines = is_transposed ? part->deep : part->rows, length = is_transposed ? part->rows : part->deep;
  const int64_t line = is_transposed ? p->left_column : p->left_row, step = is_transposed ? p->left_row : p->left_column;
  const int64_t n_joined = line == length * step ? n_lines : 1; /* lines behind each other are one */
  for (int64_t i = 0; i < n_lines; i += n_joined)
    widen(p->left_halves, part->left + i * line, step, left_floats + i * length, n_joined * length);
  part->left = (const char *)left_floats;
  part->left_row = sizeof(float) * (is_transposed ? 1 : length);
  part->left_column = sizeof(float) * (is_transposed ? length : 1);
}

/* Rows of the result one after another, each with all chunks: it is rounded once. */
static void multiply_halves(const Way *w) {
  const Narrow *const p = w->p;
  Part part = {.left_row = p->left_row, .left_column = p->left_column, .out_row = p->out_row, .out_column = p->out_column};
  for (part.column = 0; part.column < p->columns; part.column += w->across)
    for (part.row = 0; part.row < p->rows; part.row += w->down) {
      part.columns = least(w->across, p->columns - part.column);
      part.rows = least(w->down, p->rows - part.row);
      char *const out = p->out + part.row * p->out_row + part.column * p->out_column;
      part.out = p->out_halves ? (char *)out_floats : out;
      if (p->out_halves) part.out_row = part.columns * (int64_t)sizeof(float), part.out_column = sizeof(float);
      for (part.k = 0; part.k < p->k; part.k += CHUNK) {
        part.deep = least(CHUNK, p->k - part.k);
        part.left = p->left + part.row * p->left_row + part.k * p->left_column;
        if (p->left_halves) widen_left(p, &part);
        multiply_part(w, &part, part.row == 0 || p->k > CHUNK);
      }
      const int64_t n_joined = p->out_row == part.columns * p->out_column ? part.rows : 1;
      for (int64_t i = 0; p->out_halves && i < part.rows; i += n_joined)
        round_to(p->out_halves, out_floats + i * part.columns, out + i * p->out_row, p->out_column, n_joined * part.columns);
    }
}

/* The transposed product of the transposed matrices. */
static Narrow transpose_of(const Narrow *p) {
  Narrow made = {.rows = p->columns, .columns = p->rows, .k = p->k, .left = p->right, .right = p->left, .out = p->out};
  made.left_row = p->right_column, made.left_column = p->right_row;
  made.right_row = p->left_column, made.right_column = p->left_row;
  made.out_row = p->out_column, made.out_column = p->out_row;
  made.left_halves = p->right_halves, made.right_halves = p->left_halves, made.out_halves = p->out_halves;
  return made;
}

enum { NARROW = 80, LOW = 16, LEAST_PACKED_ROWS = 32, DEEP = 8, LONG_SUMS = 4, MOST_READ = 1 << 22, LITTLE = 1 << 21, MOST_OF_ROW = 1 << 15 };
/* Measured against OpenBLAS and MKL (docs/decisions/0020): with so few columns a block is as wide as the result; with so few
   rows what is read from memory in lines apart takes as long as to pack it, more where elements are wide. To transpose what is
   packed pays with so many rows, to store what is made element by element where sums are so much longer than that. One row is
   multiplied by what stays in the first cache. */

static int64_t size_of(const Kind *kind, int64_t halves) { return halves ? (int64_t)sizeof(float16) : kind->size; }
static int has_columns(const Kind *kind, const Narrow *p) { return p->right_column == size_of(kind, p->right_halves) || p->columns == 1; }
static int has_rows(const Kind *kind, const Narrow *p) { return p->left_row == size_of(kind, p->left_halves) || p->rows == 1; }

/* Whether vectors along the rows take less time than along the columns: these do not follow each other and are more to
   be packed than is stored apart, or they do not fill a vector; but what is made is stored element by element. */
static int is_along_rows(const Kind *kind, const Narrow *p) {
  if (!has_columns(kind, p))
    return has_rows(kind, p) ? p->k >= LONG_SUMS * p->rows : (p->rows <= 2 * LOW && least(p->columns, p->k) > p->rows);
  return has_rows(kind, p) && p->columns < kind->width && p->rows >= 2 * p->columns && p->k >= DEEP * p->columns;
}

/* The same product with its columns along the vectors. */
static Narrow along_vectors(const Kind *kind, const Narrow *p) { return is_along_rows(kind, p) ? transpose_of(p) : *p; }

/* Whether this takes less time than a library. */
int is_narrow(int64_t vectors, int64_t is_double, const Narrow *given) {
  const Kind *const kind = kinds[vectors][is_double];
  if (given->k == 1) return 0;
  const Narrow p = along_vectors(kind, given);
  if (p.columns == 1) return 0;
  const int64_t right_bytes = p.k * p.columns * kind->size;
  const int has_vectors = has_columns(kind, &p) && p.columns >= kind->width;
  if (p.rows == 1) return has_vectors && !has_halves(&p) && right_bytes <= MOST_OF_ROW;
  if (has_halves(&p)) return p.rows * p.columns * p.k <= LITTLE || least(p.rows, p.columns) <= NARROW;
  if (!has_columns(kind, &p) && p.rows < LEAST_PACKED_ROWS && p.columns * p.k > CHUNK * kind->width) return 0;
  return p.k <= SHALLOW || p.columns <= NARROW || (p.rows <= LOW && (!is_double || right_bytes <= MOST_READ));
}

/* out = left @ right, by the larger vectors or not; nothing is empty. */
void multiply_narrow(int64_t vectors, int64_t is_double, const Narrow *given) {
  const Kind *const kind = kinds[vectors][is_double];
  const Narrow p = along_vectors(kind, given);
  const Way w = way_of(kind, &p);
  (has_halves(&p) ? multiply_halves : multiply_floats)(&w);
}
