/* What `narrow_products.c` is asked for by `blas.c`: matrices, with the bytes from row to row and from column to column of
   each, and what numbers of 16 bits are among them (`half_lines.h`): then the others are floats, and the result is rounded
   once. */
typedef struct {
  int64_t rows, columns, k;
  const char *left, *right;
  char *out;
  int64_t left_row, left_column, right_row, right_column, out_row, out_column;
  int64_t left_halves, right_halves, out_halves;
} Narrow;
