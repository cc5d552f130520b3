/* Arithmetic on single numbers of NumPy's, and elements of its arrays, without NumPy: a tenth of the
   time. Before `small_calls.c`. Everything here answers NULL (or 0) without an error where NumPy has to do
   it: numbers of two dtypes, Python's that do not fit, what would raise. Nothing warns. */

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <math.h>
#include <opcode.h>

enum { ADD, SUB, MUL, DIV, FLOORDIV, MOD, AND, OR, XOR, LSHIFT, RSHIFT, MATMUL,
       LT, LE, EQ, NE, GT, GE, /* comparisons in the order of Py_LT ... Py_GE */
       NEGATIVE, ABSOLUTE, INVERT, SQUARE, ROOT };

#define EACH_INTEGER(X) \
    X(INT64, Int64, npy_int64) X(INT32, Int32, npy_int32) X(UINT8, UInt8, npy_uint8) \
    X(INT16, Int16, npy_int16) X(INT8, Int8, npy_int8) X(UINT16, UInt16, npy_uint16) \
    X(UINT32, UInt32, npy_uint32) X(UINT64, UInt64, npy_uint64)

static PyArray_Descr *descr_of[NPY_NTYPES_LEGACY]; /* of the dtypes below, once they are there */

/* The number of a scalar's dtype; -1 for what is not one of these. */
static int type_of(PyObject *x) {
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyDoubleArrType_Type) return NPY_DOUBLE;
#define IS_TYPE(number, name, ctype) \
    if (type == &Py##name##ArrType_Type) return NPY_##number;
    EACH_INTEGER(IS_TYPE)
    if (type == &PyBoolArrType_Type) return NPY_BOOL;
    if (type == &PyFloatArrType_Type) return NPY_FLOAT;
    return -1;
}

/* New: the dtype of a scalar. */
static PyObject *dtype_of(PyObject *x) {
    int type = type_of(x);
    if (type < 0) return (PyObject *)PyArray_DescrFromScalar(x);
    if (!descr_of[type] && !(descr_of[type] = PyArray_DescrFromType(type))) return NULL;
    return Py_NewRef((PyObject *)descr_of[type]);
}

static PyObject *truth(int is) { return Py_NewRef(is ? PyArrayScalar_True : PyArrayScalar_False); }

static PyObject *new_double(double z) {
    PyObject *made = PyArrayScalar_New(Double);
    if (made) PyArrayScalar_ASSIGN(made, Double, z);
    return made;
}

static PyObject *new_float(float z) {
    PyObject *made = PyArrayScalar_New(Float);
    if (made) PyArrayScalar_ASSIGN(made, Float, z);
    return made;
}

/* An integer of a dtype from its low bits. */
static PyObject *new_integer(int type, npy_uint64 bits) {
    PyObject *made = NULL;
    switch (type) {
#define NEW(number, name, ctype) \
    case NPY_##number: \
        if ((made = PyArrayScalar_New(name))) PyArrayScalar_ASSIGN(made, name, (ctype)bits); \
        break;
        EACH_INTEGER(NEW)
    }
    return made;
}

static int bits_of(int type) {
    switch (type) {
#define BITS(number, name, ctype) case NPY_##number: return 8 * (int)sizeof(ctype);
        EACH_INTEGER(BITS)
    }
    return 0;
}

static int is_unsigned(int type) {
    return type == NPY_UINT8 || type == NPY_UINT16 || type == NPY_UINT32 || type == NPY_UINT64;
}

/* Whether x is an integer of this dtype, or one of Python's that it has; extended to 64 bits. */
static int as_integer(PyObject *x, int type, npy_uint64 *bits) {
    if (PyLong_CheckExact(x)) {
        int overflow, n = bits_of(type);
        npy_int64 value = PyLong_AsLongLongAndOverflow(x, &overflow);
        *bits = (npy_uint64)value;
        if (overflow) return 0;
        if (is_unsigned(type)) return value >= 0 && (n == 64 || value >> n == 0);
        return n == 64 || (value >> (n - 1) == 0 || value >> (n - 1) == -1);
    }
    switch (type) {
#define READ(number, name, ctype) \
    case NPY_##number: \
        if (Py_TYPE(x) != &Py##name##ArrType_Type) return 0; \
        *bits = (npy_uint64)PyArrayScalar_VAL(x, name); \
        return 1;
        EACH_INTEGER(READ)
    }
    return 0;
}

#define EXACT (1LL << 53) /* integers up to here are float64 as they are */

static int as_double(PyObject *x, double *value) {
    if (Py_TYPE(x) == &PyDoubleArrType_Type || PyFloat_CheckExact(x)) {
        *value = PyFloat_AS_DOUBLE(x);
        return 1;
    }
    if (!PyLong_CheckExact(x)) return 0;
    int overflow;
    npy_int64 whole = PyLong_AsLongLongAndOverflow(x, &overflow);
    *value = (double)whole;
    return !overflow && -EXACT <= whole && whole <= EXACT;
}

static int as_float(PyObject *x, float *value) {
    double wide;
    if (Py_TYPE(x) == &PyFloatArrType_Type) {
        *value = PyArrayScalar_VAL(x, Float);
        return 1;
    }
    if (Py_TYPE(x) == &PyDoubleArrType_Type || !as_double(x, &wide)) return 0;
    *value = (float)wide;
    return 1;
}

#define COMPARE(x, y) \
    case LT: return truth((x) < (y)); \
    case LE: return truth((x) <= (y)); \
    case EQ: return truth((x) == (y)); \
    case NE: return truth((x) != (y)); \
    case GT: return truth((x) > (y)); \
    case GE: return truth((x) >= (y));
#define CALCULATE(x, y, new) \
    case ADD: return new((x) + (y)); \
    case SUB: return new((x) - (y)); \
    case MUL: return new((x) * (y)); \
    case DIV: return new((x) / (y));

static PyObject *of_doubles(int op, double x, double y) {
    switch (op) { CALCULATE(x, y, new_double) COMPARE(x, y) default: return NULL; }
}

static PyObject *of_floats(int op, float x, float y) {
    switch (op) { CALCULATE(x, y, new_float) COMPARE(x, y) default: return NULL; }
}

static PyObject *of_truths(int op, int x, int y) {
    switch (op) {
    case AND: return truth(x & y);
    case OR: return truth(x | y);
    case XOR: return truth(x ^ y);
    COMPARE(x, y)
    default: return NULL;
    }
}

/* They wrap, as NumPy's do. */
static PyObject *of_integers(int op, int type, npy_uint64 x, npy_uint64 y) {
    npy_int64 p = (npy_int64)x, q = (npy_int64)y, r;
    int positive = is_unsigned(type), n = bits_of(type);
    switch (op) {
    case ADD: return new_integer(type, x + y);
    case SUB: return new_integer(type, x - y);
    case MUL: return new_integer(type, x * y);
    case AND: return new_integer(type, x & y);
    case OR: return new_integer(type, x | y);
    case XOR: return new_integer(type, x ^ y);
    case DIV: return n < 32 || positive ? NULL : new_double((double)p / (double)q);
    case LSHIFT: return y < (npy_uint64)n ? new_integer(type, x << y) : NULL;
    case RSHIFT: return y < (npy_uint64)n ? new_integer(type, positive ? x >> y : (npy_uint64)(p >> q)) : NULL;
    case FLOORDIV:
    case MOD:
        if (positive && y) return new_integer(type, op == MOD ? x % y : x / y);
        if (positive || !q || q == -1) return NULL;
        r = p % q;
        if (op == MOD) return new_integer(type, (npy_uint64)(r && (r < 0) != (q < 0) ? r + q : r));
        return new_integer(type, (npy_uint64)(p / q - (r && (r < 0) != (q < 0))));
    }
    if (positive) switch (op) { COMPARE(x, y) }
    switch (op) { COMPARE(p, q) default: return NULL; }
}

/* An operator on two numbers of one dtype, of which one may be Python's. */
static PyObject *of_numbers(int op, PyObject *a, PyObject *b) {
    int first = type_of(a), second = type_of(b), type = first < 0 ? second : first;
    if (type < 0 || (first >= 0 && second >= 0 && first != second)) return NULL;
    if (type == NPY_DOUBLE) {
        double x, y;
        return as_double(a, &x) && as_double(b, &y) ? of_doubles(op, x, y) : NULL;
    }
    if (type == NPY_FLOAT) {
        float x, y;
        return as_float(a, &x) && as_float(b, &y) ? of_floats(op, x, y) : NULL;
    }
    if (type == NPY_BOOL)
        return first == second ? of_truths(op, a == PyArrayScalar_True, b == PyArrayScalar_True) : NULL;
    npy_uint64 x, y;
    return as_integer(a, type, &x) && as_integer(b, type, &y) ? of_integers(op, type, x, y) : NULL;
}

/* --- elements --------------------------------------------------------------------------------- */

static int is_integer(PyObject *x) {
    return PyLong_CheckExact(x) || Py_TYPE(x) == &PyInt64ArrType_Type;
}

/* Where the element is that an index with an integer for every axis names. */
static char *element_at(PyArrayObject *array, PyObject *index) {
    int ndim = PyArray_NDIM(array), is_tuple = PyTuple_CheckExact(index);
    if (!ndim || (is_tuple ? PyTuple_GET_SIZE(index) : 1) != ndim || !PyArray_ISBEHAVED_RO(array)) return NULL;
    char *at = PyArray_BYTES(array);
    for (int k = 0; k < ndim; k++) {
        PyObject *item = is_tuple ? PyTuple_GET_ITEM(index, k) : index;
        npy_intp length = PyArray_DIM(array, k);
        npy_uint64 bits;
        if (!is_integer(item) || !as_integer(item, NPY_INT64, &bits)) return NULL;
        npy_intp i = (npy_int64)bits < 0 ? (npy_intp)bits + length : (npy_intp)bits;
        if (i < 0 || i >= length) return NULL;
        at += i * PyArray_STRIDE(array, k);
    }
    return at;
}

static PyObject *element_of(PyArrayObject *array, PyObject *index) {
    char *at = element_at(array, index);
    if (!at) return NULL;
    int type = PyArray_DESCR(array)->type_num;
    switch (type) {
    case NPY_DOUBLE: return new_double(*(double *)at);
    case NPY_FLOAT: return new_float(*(float *)at);
    case NPY_BOOL: return truth(*(npy_bool *)at);
#define LOAD(number, name, ctype) case NPY_##number: return new_integer(type, (npy_uint64)*(ctype *)at);
        EACH_INTEGER(LOAD)
    default: return NULL;
    }
}

/* Whether an element was written that is of the array's dtype, or a number of Python's that fits. */
static int was_element_put(PyArrayObject *array, PyObject *index, PyObject *value) {
    char *at = element_at(array, index);
    npy_uint64 bits;
    double wide;
    float narrow;
    if (!at) return 0;
    int type = PyArray_DESCR(array)->type_num;
    switch (type) {
    case NPY_DOUBLE:
        if (!as_double(value, &wide)) return 0;
        *(double *)at = wide;
        return 1;
    case NPY_FLOAT:
        if (!as_float(value, &narrow)) return 0;
        *(float *)at = narrow;
        return 1;
    case NPY_BOOL:
        if (Py_TYPE(value) != &PyBoolArrType_Type) return 0;
        *(npy_bool *)at = value == PyArrayScalar_True;
        return 1;
#define STORE(number, name, ctype) \
    case NPY_##number: \
        if (!as_integer(value, type, &bits)) return 0; \
        *(ctype *)at = (ctype)bits; \
        return 1;
        EACH_INTEGER(STORE)
    default: return 0;
    }
}
