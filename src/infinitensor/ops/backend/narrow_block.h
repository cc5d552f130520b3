/* One block of a product for elements `T` and vectors of `BYTES`, in functions of `TARGET` whose names end with `NAME`;
   `FIRST` reads and `PUT` writes the first elements of a vector. `narrow_products.c` includes this for each kind. */
#define Vector OWN(Vector)
#define INLINE TARGET __attribute__((always_inline, unused)) static inline
typedef T Vector __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));

INLINE void OWN(multiply)(const int height, const int n, const int is_whole, const Block *b, Vector (*sums)[MOST_BESIDE]) {
  const int64_t row = b->left_row, three = 3 * row;
  const char *left[3] = {b->left, b->left + 4 * row, b->left + 8 * row}, *right = b->right;
  for (int64_t k = b->k; k > 0; --k, right += b->right_row) {
    Vector v[MOST_BESIDE];
    EACH_VECTOR {
      const char *const at = right + i * BYTES;
      __builtin_prefetch(at + AHEAD * b->right_row);
      v[i] = i < n - 1 || is_whole ? *(const Vector *)at : (Vector)FIRST(at, b->n_last);
    }
    EACH_ROW {
      const T x = *(const T *)(left[r / 4] + (r % 4 == 3 ? three : r % 4 * row));
      EACH_VECTOR sums[r][i] += v[i] * x;
    }
    _Pragma("GCC unroll 3") for (int i = 0; 4 * i < height; ++i) left[i] += b->left_column;
  }
}

/* Into rows whose elements follow each other. */
INLINE void OWN(store)(const int height, const int n, const int is_whole, const Block *b, Vector (*sums)[MOST_BESIDE]) {
  EACH_ROW EACH_VECTOR {
    char *const to = b->out + r * b->out_row + i * BYTES;
    Vector made = sums[r][i];
    if (i < n - 1 || is_whole) {
      if (!b->is_first) made += *(Vector *)to;
      *(Vector *)to = made;
    } else {
      if (!b->is_first) made += (Vector)FIRST(to, b->n_last);
      PUT(to, b->n_last, made);
    }
  }
}

/* Into elements that are anywhere. */
INLINE void OWN(scatter)(const int height, const int n, const Block *b, Vector (*sums)[MOST_BESIDE]) {
  enum { WIDTH = BYTES / sizeof(T) };
  T made[MOST_BESIDE * WIDTH] = {0};
  EACH_ROW {
    EACH_VECTOR *(Vector *)(made + i * WIDTH) = sums[r][i];
    char *to = b->out + r * b->out_row;
    for (int64_t i = 0; i < (n - 1) * WIDTH + b->n_last; ++i, to += b->out_column)
      *(T *)to = b->is_first ? made[i] : *(T *)to + made[i];
  }
}

INLINE void OWN(block)(const int height, const int n, const Block *b) {
  Vector sums[MOST_HEIGHT][MOST_BESIDE];
  EACH_ROW EACH_VECTOR sums[r][i] = (Vector){0};
  if (b->out_row > n * BYTES) /* what is written comes while the sums are made */
    EACH_ROW EACH_VECTOR __builtin_prefetch(b->out + r * b->out_row + i * BYTES, 1);
  const int is_whole = b->n_last == BYTES / sizeof(T);
  if (is_whole || b->is_padded)
    OWN(multiply)(height, n, 1, b, sums);
  else
    OWN(multiply)(height, n, 0, b, sums);
  if (b->out_column != sizeof(T))
    OWN(scatter)(height, n, b, sums);
  else if (is_whole)
    OWN(store)(height, n, 1, b, sums);
  else
    OWN(store)(height, n, 0, b, sums);
}
SIZES(SIZED)

/* A panel of the right matrix: its rows one behind the other, with zeros up to `wide`. */
TARGET static void OWN(pack)(T *to, const char *from, const Panel *p) {
  if (p->column == sizeof(T))
    for (int64_t k = 0; k < p->k; ++k, from += p->row) {
      memcpy(to + k * p->wide, from, p->columns * sizeof(T));
      for (int64_t i = p->columns; i < p->wide; ++i) to[k * p->wide + i] = 0;
    }
  else {
    const int is_done = p->row == sizeof(T) && transposed(sizeof(T), (char *)to, p->wide * (int64_t)sizeof(T), from, p->column, p->columns, p->k);
    for (int64_t i = is_done ? p->columns : 0; i < p->wide; ++i)
      for (int64_t k = 0; k < p->k; ++k) to[k * p->wide + i] = i < p->columns ? *(const T *)(from + i * p->column + k * p->row) : 0;
  }
}
static const Kind OWN(kind) = {sizeof(T), BYTES / sizeof(T), IS_MASKED, {TABLE}, (Pack)OWN(pack)};
#undef Vector
#undef INLINE
#undef T
#undef BYTES
#undef NAME
#undef FIRST
#undef PUT
