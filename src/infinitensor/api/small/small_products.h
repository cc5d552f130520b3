/* Products of few multiplications by the library that plans multiply with (`ops/backend/blas.c`), without Python: of
   halves, of stacks, and of what NumPy's library would use all cores for. The bits are those of plans. Before
   `small_calls.c`; NULL (or 0) without an error where Python has to look. */

enum { N_HOW = 16 }; /* numbers that say how a stack is stored: `_how` of blas.py */
enum { MOST_MATRICES = 8 }; /* axes of a stack, with its own */
enum { EACH_OF_RESULT = 16 }; /* multiplications for an element of what is small: more are made on CPUs alone */
enum { FEW_MULTIPLICATIONS = 1 << 24 }; /* and no more: as in numpy_table.py */
enum { ONE_PIECE = 1 << 17 }; /* elements of a matrix whose products no plan cuts: `LEAF_ELEMENTS` of a CPU */
typedef void (*Multiplier)(const int64_t *how, char **arrays, int64_t n_threads);
static PyObject *find_products; /* the address of the library's `stack`, or 0, and how many threads are to share one; asked whether it is many */

/* An operand as matrices: their rows and columns, the bytes between each and between the matrices, and how many. */
typedef struct {
    npy_intp rows, columns, row, column, next, n;
    char *at;
} Matrices;

/* Whether no plan cuts the sums of a product, which shows in its bits. */
static int are_uncut(PyArrayObject *x, PyArrayObject *y, npy_intp limit) {
    const npy_intp most = limit > ONE_PIECE ? limit : ONE_PIECE;
    return PyArray_SIZE(x) <= most && PyArray_SIZE(y) <= most;
}

/* Whether the library takes a matrix so, without a copy: `is_suited` of blas.py; of halves any. */
static int is_taken(const Matrices *m, npy_intp size, int is_of_halves) {
    if (is_of_halves) return 1;
    if ((m->columns == 1 || m->column == size) && (m->rows == 1 || (m->row >= m->columns * size && m->row % size == 0))) return 1;
    return (m->rows == 1 || m->row == size) && (m->columns == 1 || (m->column >= m->rows * size && m->column % size == 0));
}

static int are_matrices(PyArrayObject *x, int is_left, Matrices *m) {
    const int n = PyArray_NDIM(x);
    const npy_intp size = PyArray_ITEMSIZE(x);
    if (n < 1 || n > MOST_MATRICES || !PyArray_SIZE(x) || !PyArray_ISBEHAVED_RO(x)) return 0;
    if (n > 3 && !PyArray_IS_C_CONTIGUOUS(x)) return 0;
    *m = (Matrices){.n = 1, .at = PyArray_BYTES(x)};
    if (n == 1) {
        const npy_intp length = PyArray_DIM(x, 0), step = PyArray_STRIDE(x, 0);
        m->rows = is_left ? 1 : length, m->columns = is_left ? length : 1;
        m->row = is_left ? length * size : step, m->column = is_left ? step : size;
        if (is_left ? step != size : step <= 0) return 0;
    } else {
        m->rows = PyArray_DIM(x, n - 2), m->columns = PyArray_DIM(x, n - 1);
        m->row = PyArray_STRIDE(x, n - 2), m->column = PyArray_STRIDE(x, n - 1);
        for (int a = 0; a < n - 2; a++) m->n *= PyArray_DIM(x, a);
        if (n > 2) m->next = PyArray_STRIDE(x, n - 3);
        if (m->n == 1) m->next = 0;
    }
    return 1;
}

/* The axes before the matrices: those of both, or of the one that has some. */
static int stack_of(PyArrayObject *x, PyArrayObject *y, npy_intp *shape) {
    const int n = PyArray_NDIM(x) - 2, m = PyArray_NDIM(y) - 2;
    if (n > 0 && m > 0 && n != m) return -1;
    PyArrayObject *like = n > 0 ? x : y;
    for (int a = 0; a < n || a < m; a++) {
        shape[a] = PyArray_DIM(like, a);
        if (n > 0 && m > 0 && PyArray_DIM(y, a) != shape[a]) return -1;
    }
    return n > 0 ? n : m > 0 ? m : 0;
}

static int code_of(int type) {
    switch (type) { /* as `CODES` of blas.py; halves are multiplied as floats */
    case NPY_FLOAT: return 0;
    case NPY_DOUBLE: return 1;
    case NPY_CFLOAT: return 2;
    case NPY_CDOUBLE: return 3;
    }
    return is_half(type) ? 0 : -1;
}

/* A new array x @ y of arrays of one dtype, a small one. */
static PyObject *by_library(PyArrayObject *x, PyArrayObject *y, npy_intp limit) {
    const int type = array_type(x), code = code_of(type), kind = is_half(type) ? 1 + (type != NPY_HALF) : 0;
    npy_intp shape[MOST_MATRICES], size = PyArray_ITEMSIZE(x);
    Matrices a, b;
    if (code < 0 || type != array_type(y) || !are_matrices(x, 1, &a) || !are_matrices(y, 0, &b)) return NULL;
    if (!are_uncut(x, y, limit)) return NULL;
    if (a.columns != b.rows || !is_taken(&a, size, kind) || !is_taken(&b, size, kind)) return NULL;
    int ndim = stack_of(x, y, shape);
    if (ndim < 0) return NULL;
    const npy_intp n = a.n > b.n ? a.n : b.n, made_size = n * a.rows * b.columns;
    const npy_intp n_multiplied = made_size * a.columns;
    if (made_size > limit || n_multiplied > FEW_MULTIPLICATIONS) return NULL;
    if (PyArray_NDIM(x) > 1) shape[ndim++] = a.rows;
    if (PyArray_NDIM(y) > 1) shape[ndim++] = b.columns;
    PyObject *found = PyObject_CallOneArg(find_products, n_multiplied > EACH_OF_RESULT * limit ? Py_True : Py_False);
    Py_ssize_t address, n_threads;
    if (!found || !PyArg_ParseTuple(found, "nn", &address, &n_threads)) return Py_XDECREF(found), NULL;
    Py_DECREF(found);
    if (!address) return NULL;
    PyArray_Descr *dtype = PyArray_DESCR(x);
    Py_INCREF(dtype);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, shape, NULL, NULL, 0, NULL);
    if (!made) return NULL;
    char *arrays[] = {a.at, b.at, PyArray_BYTES((PyArrayObject *)made)};
    const npy_intp row = b.columns * size, next = n > 1 ? a.rows * row : 0;
    const int64_t how[N_HOW] = {code, a.rows, b.columns, a.columns, a.row, a.column, b.row, b.column,
                                row, n, a.next, b.next, next, kind, kind, kind};
    if (n_multiplied > ONE_CORE) {
        Py_BEGIN_ALLOW_THREADS /* the caller holds what is read */
        ((Multiplier)address)(how, arrays, n_threads);
        Py_END_ALLOW_THREADS
    } else {
        ((Multiplier)address)(how, arrays, 1);
    }
    return PyArray_Return((PyArrayObject *)made);
}
