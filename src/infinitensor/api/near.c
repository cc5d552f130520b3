/* The shortest ways of `api/near.py`, over the same slots: operators, elements, slices and element
   writes of small tensors on the host. What is here is what a loop over elements or short rows
   does; whatever is in doubt goes to the Python method that was there before (`slow`). */

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

enum { CELL, DTYPE, FROZEN, INDEX, IS_VALUE, LAZY_VIEW, LENT, OWNER, SEEN, SEEN_OF, SHAPE, N_TENSOR };
enum { V_DTYPE, V_EXPORTED, V_HOST, V_LIVE, V_READERS, V_TABLE, N_VERSION };
enum { C_SESSION, C_VERSION, N_CELL };
enum { ONE_CORE_DOT = 10000 }; /* as in near.py */
enum { ADD, SUB, MUL, DIV, FLOORDIV, MOD, AND, OR, XOR, LSHIFT, RSHIFT, MATMUL,
       LT, LE, EQ, NE, GT, GE }; /* comparisons in the order of Py_LT ... Py_GE */
static const char *const names[] = {"add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or",
                                    "xor", "lshift", "rshift", "matmul"};

static Py_ssize_t tensor_at[N_TENSOR], version_at[N_VERSION], cell_at[N_CELL], limit_at;
static PyTypeObject *tensor_type;
static PyObject *config, *bfloat16, *unknown, *numbers, *silence, *silent, *empty;
static PyObject *name_counts, *name_small, *name_cell, *one;
static PyObject *slow_get, *slow_applied, *slow_called, *outer_fits, *recorders, *slow_fill;
static PyObject *no_part;
static PyObject *cores_made, *cores_into, *ufuncs; /* of `cores.c`, and the ufuncs of the operators */
static Py_ssize_t cores_least;
static PyObject *slow_forward[LT], *slow_reflected[LT];
static PyNumberMethods slow_number; /* the slots before ours: they call the Python methods */
static PyMappingMethods slow_mapping;
static richcmpfunc slow_compare;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define T(object, field) AT(object, tensor_at[field])
#define V(object, field) AT(object, version_at[field])
#define C(object, field) AT(object, cell_at[field])
#define IS(object) ((object) != NULL && (object) != Py_None)

/* What may be small now; 0 sends everything to Python, a limit that is no plain integer too. */
static npy_intp limit_now(void) {
    PyObject *limit = AT(config, limit_at);
    if (!limit || !PyLong_CheckExact(limit)) return 0;
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(limit, &overflow);
    return overflow ? 0 : (npy_intp)n;
}

/* Numbers by their types alone: nothing of the user's runs, so what is borrowed stays. */
static int is_number(PyObject *x) {
    if (PyFloat_CheckExact(x) || PyLong_CheckExact(x)) return 1;
    return Py_IS_TYPE(Py_TYPE(x), &PyType_Type) && PySet_Contains(numbers, (PyObject *)Py_TYPE(x)) == 1;
}

static int is_scalar(PyObject *x) { return PyObject_TypeCheck(x, &PyGenericArrType_Type); }

/* Borrowed: the array or scalar that a tensor shows, NULL where Python has to look. */
static PyObject *seen(PyObject *tensor) {
    if (IS(T(tensor, OWNER))) return T(tensor, SEEN);
    PyObject *cell = T(tensor, CELL);
    if (!IS(cell)) return NULL;
    PyObject *version = C(cell, C_VERSION);
    if (T(tensor, SEEN_OF) == version) return IS(T(tensor, SEEN)) ? T(tensor, SEEN) : NULL;
    PyObject *host = V(version, V_HOST);
    if (!IS(host) || V(version, V_DTYPE) == bfloat16 || T(tensor, LAZY_VIEW) != Py_None) return NULL;
    return host;
}

static PyObject *session_of(PyObject *tensor) {
    return IS(T(tensor, OWNER)) ? T(tensor, OWNER) : C(T(tensor, CELL), C_SESSION);
}

static npy_intp size_of(PyObject *x) {
    return PyArray_CheckExact(x) ? PyArray_SIZE((PyArrayObject *)x) : is_scalar(x) ? 1 : -1;
}

static int count(PyObject *session) {
    PyObject *counts = PyObject_GetAttr(session, name_counts);
    if (!counts) return -1;
    PyObject *n = PyDict_GetItemWithError(counts, name_small);
    PyObject *more = n ? PyNumber_Add(n, one) : NULL;
    int bad = !more || PyDict_SetItem(counts, name_small, more);
    Py_XDECREF(more);
    Py_DECREF(counts);
    return bad ? -1 : 0;
}

static void put(PyObject *tensor, int field, PyObject *value) {
    Py_INCREF(value);
    Py_XSETREF(T(tensor, field), value);
}

/* A tensor around values (stolen): one of its own, or a view of a cell. */
static PyObject *wrapped(PyObject *values, PyObject *session, PyObject *cell, PyObject *from,
                         int is_value) {
    if (!values) return NULL;
    PyObject *shape, *dtype;
    if (PyArray_CheckExact(values)) {
        PyArrayObject *array = (PyArrayObject *)values;
        shape = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array));
        dtype = (PyObject *)PyArray_DESCR(array);
        Py_INCREF(dtype);
    } else {
        shape = empty;
        Py_INCREF(shape);
        dtype = (PyObject *)PyArray_DescrFromScalar(values);
    }
    PyObject *made = shape && dtype ? tensor_type->tp_alloc(tensor_type, 0) : NULL;
    if (!made) {
        Py_XDECREF(shape), Py_XDECREF(dtype), Py_DECREF(values);
        return NULL;
    }
    T(made, SHAPE) = shape;
    T(made, DTYPE) = dtype;
    T(made, SEEN) = values;
    put(made, OWNER, cell ? Py_None : session);
    put(made, SEEN_OF, cell ? C(cell, C_VERSION) : Py_None);
    if (cell) put(made, CELL, cell);
    put(made, LAZY_VIEW, cell ? unknown : Py_None);
    put(made, FROZEN, from ? T(from, FROZEN) : Py_False);
    put(made, IS_VALUE, is_value ? Py_True : Py_False);
    put(made, LENT, empty);
    put(made, INDEX, Py_None);
    return made;
}

typedef PyObject *(*Binary)(PyObject *, PyObject *);
#define COMPARED(name, how) \
    static PyObject *name(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, how); }
COMPARED(less, Py_LT) COMPARED(less_equal, Py_LE) COMPARED(equal, Py_EQ)
COMPARED(not_equal, Py_NE) COMPARED(greater, Py_GT) COMPARED(greater_equal, Py_GE)

static const Binary call_of[] = {
    PyNumber_Add, PyNumber_Subtract, PyNumber_Multiply, PyNumber_TrueDivide, PyNumber_FloorDivide,
    PyNumber_Remainder, PyNumber_And, PyNumber_Or, PyNumber_Xor, PyNumber_Lshift, PyNumber_Rshift,
    PyNumber_MatrixMultiply, less, less_equal, equal, not_equal, greater, greater_equal};
static const Binary in_place_of[] = {
    PyNumber_InPlaceAdd, PyNumber_InPlaceSubtract, PyNumber_InPlaceMultiply,
    PyNumber_InPlaceTrueDivide, PyNumber_InPlaceFloorDivide, PyNumber_InPlaceRemainder,
    PyNumber_InPlaceAnd, PyNumber_InPlaceOr, PyNumber_InPlaceXor, PyNumber_InPlaceLshift,
    PyNumber_InPlaceRshift};

/* Without floating-point warnings, as near.py's `quietly`. */
static PyObject *quietly(int op, const Binary *calls, PyObject *a, PyObject *b) {
    Binary call = calls[op];
    if (op >= AND && op <= RSHIFT) return call(a, b); /* bits give none */
    PyObject *token = PyContextVar_Set(silence, silent);
    if (!token) return NULL;
    PyObject *made = call(a, b);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    int bad = PyContextVar_Reset(silence, token);
    Py_DECREF(token);
    if (type) PyErr_Restore(type, value, trace);
    else if (bad) Py_CLEAR(made);
    return made;
}

/* A ufunc on all cores: a new array, or NULL without an error where NumPy has to do it here. */
static PyObject *by_cores(PyObject *ufunc, PyObject *const *given, Py_ssize_t n, npy_intp size) {
    if (size < cores_least || n > 4) return NULL;
    PyObject *args[] = {ufunc, given[0], n > 1 ? given[1] : NULL, n > 2 ? given[2] : NULL, n > 3 ? given[3] : NULL};
    PyObject *made = PyObject_Vectorcall(cores_made, args, n + 1, NULL);
    if (made == Py_None) Py_CLEAR(made);
    return made;
}

/* Whether all cores did `out[...] = ufunc(a, b)`, or a copy (None): not where NumPy has to, or on an error. */
static int into_by_cores(PyObject *ufunc, PyObject *out, PyObject *a, PyObject *b) {
    if (PyArray_SIZE((PyArrayObject *)out) < cores_least) return 0;
    PyObject *args[] = {ufunc, out, a, b};
    PyObject *done = PyObject_Vectorcall(cores_into, args, b ? 4 : 3, NULL);
    Py_XDECREF(done);
    return done == Py_True;
}

static PyObject *truth(int is) {
    PyObject *made = is ? PyArrayScalar_True : PyArrayScalar_False;
    Py_INCREF(made);
    return made;
}

/* Two float64, one of them NumPy's: NULL without an error where it is something else. */
static PyObject *of_floats(int op, PyObject *a, PyObject *b) {
    if (!(Py_TYPE(a) == &PyDoubleArrType_Type || PyFloat_CheckExact(a))) return NULL;
    if (!(Py_TYPE(b) == &PyDoubleArrType_Type || PyFloat_CheckExact(b))) return NULL;
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b), z;
    switch (op) {
    case ADD: z = x + y; break;
    case SUB: z = x - y; break;
    case MUL: z = x * y; break;
    case DIV: z = x / y; break;
    case LT: return truth(x < y);
    case LE: return truth(x <= y);
    case EQ: return truth(x == y);
    case NE: return truth(x != y);
    case GT: return truth(x > y);
    case GE: return truth(x >= y);
    default: return NULL;
    }
    PyObject *made = PyArrayScalar_New(Double);
    if (made) PyArrayScalar_ASSIGN(made, Double, z);
    return made;
}

static int as_int64(PyObject *x, npy_int64 *value) {
    if (Py_TYPE(x) == &PyInt64ArrType_Type) {
        *value = PyArrayScalar_VAL(x, Int64);
        return 1;
    }
    if (!PyLong_CheckExact(x)) return 0;
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(x, &overflow);
    return !overflow;
}

/* The same for int64; they wrap, as NumPy's do. */
static PyObject *of_integers(int op, PyObject *a, PyObject *b) {
    npy_int64 x, y;
    if (!as_int64(a, &x) || !as_int64(b, &y)) return NULL;
    npy_uint64 z;
    switch (op) {
    case ADD: z = (npy_uint64)x + (npy_uint64)y; break;
    case SUB: z = (npy_uint64)x - (npy_uint64)y; break;
    case MUL: z = (npy_uint64)x * (npy_uint64)y; break;
    case AND: z = x & y; break;
    case OR: z = x | y; break;
    case XOR: z = x ^ y; break;
    case LT: return truth(x < y);
    case LE: return truth(x <= y);
    case EQ: return truth(x == y);
    case NE: return truth(x != y);
    case GT: return truth(x > y);
    case GE: return truth(x >= y);
    default: return NULL;
    }
    PyObject *made = PyArrayScalar_New(Int64);
    if (made) PyArrayScalar_ASSIGN(made, Int64, (npy_int64)z);
    return made;
}

/* Borrowed values of an operand, a tensor or a number; NULL: Python has to look. */
static PyObject *operand(PyObject *x, PyObject **session, npy_intp limit) {
    if (Py_TYPE(x) == tensor_type) {
        PyObject *values = seen(x);
        if (!values) return NULL;
        npy_intp n = size_of(values);
        if (n < 0 || n > limit) return NULL;
        PyObject *home = session_of(x);
        if (*session && *session != home) return NULL;
        *session = home;
        return values;
    }
    return is_number(x) ? x : NULL;
}

/* Elements of what two arrays broadcast to; 0 where they do not, which is NumPy's error. */
static npy_intp broadcast_size(PyArrayObject *x, PyArrayObject *y) {
    int n = PyArray_NDIM(x), m = PyArray_NDIM(y), most = n > m ? n : m;
    npy_intp size = 1;
    for (int k = 1; k <= most; k++) {
        npy_intp p = k <= n ? PyArray_DIM(x, n - k) : 1, q = k <= m ? PyArray_DIM(y, m - k) : 1;
        if (p != q && p != 1 && q != 1) return 0;
        size *= p == 1 ? q : p; /* both are small: no overflow */
    }
    return size;
}

/* The result of an operator, or NULL: without an error where Python has to do it. */
static PyObject *operated(int op, PyObject *first, PyObject *second) {
    npy_intp limit = limit_now();
    PyObject *session = NULL;
    PyObject *a = limit > 0 ? operand(first, &session, limit) : NULL;
    PyObject *b = a ? operand(second, &session, limit) : NULL;
    if (!b || !session) return NULL;
    int n_arrays = PyArray_CheckExact(a) + PyArray_CheckExact(b);
    npy_intp size = 0; /* of an elementwise result */
    if (n_arrays == 2) {
        PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
        if (op == MATMUL) {
            if (PyArray_NDIM(x) > 1 && PyArray_NDIM(y) > 1) return NULL;
            if (PyArray_NDIM(x) == PyArray_NDIM(y) && PyArray_SIZE(x) > ONE_CORE_DOT) return NULL;
        } else if ((size = broadcast_size(x, y)) > limit) {
            return NULL;
        }
    } else if (op == MATMUL) {
        return NULL;
    } else if (n_arrays) {
        size = PyArray_SIZE((PyArrayObject *)(PyArray_CheckExact(a) ? a : b));
    }
    Py_INCREF(a), Py_INCREF(b), Py_INCREF(session);
    PyObject *made = n_arrays ? NULL : of_floats(op, a, b);
    if (!made && !n_arrays && !PyErr_Occurred()) made = of_integers(op, a, b);
    if (size >= cores_least) {
        PyObject *both[] = {a, b};
        made = by_cores(PyTuple_GET_ITEM(ufuncs, op), both, 2, size);
    }
    if (!made && !PyErr_Occurred()) made = quietly(op, call_of, a, b);
    if (!made && op == MATMUL) PyErr_Clear(); /* Python's has the better words */
    if (made && PyArray_CheckExact(made) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)made))
        Py_SETREF(made, PyArray_NewCopy((PyArrayObject *)made, NPY_CORDER));
    if (made && (size_of(made) < 0 || count(session))) Py_CLEAR(made);
    Py_DECREF(a), Py_DECREF(b);
    made = wrapped(made, session, NULL, NULL, 0);
    Py_DECREF(session);
    return made;
}

/* Whether x may be changed where it is; borrowed values or NULL. */
static PyObject *writeable(PyObject *tensor) {
    if (T(tensor, FROZEN) != Py_False) return NULL;
    if (!IS(T(tensor, OWNER))) {
        PyObject *cell = T(tensor, CELL);
        if (!IS(cell)) return NULL;
        PyObject *version = C(cell, C_VERSION);
        if (PyLong_AsLong(V(version, V_READERS)) || PyLong_AsLong(V(version, V_EXPORTED)))
            return NULL;
        if (IS(V(version, V_TABLE)) && PyLong_AsLong(V(version, V_LIVE)) != 1) return NULL;
    }
    PyObject *values = seen(tensor);
    if (!values || !PyArray_CheckExact(values)) return NULL;
    return PyArray_ISWRITEABLE((PyArrayObject *)values) ? values : NULL;
}

static PyObject *changed(int op, PyObject *tensor, PyObject *other) {
    PyObject *now = seen(tensor);
    if (T(tensor, IS_VALUE) == Py_True || (now && is_scalar(now))) return operated(op, tensor, other);
    npy_intp limit = limit_now();
    PyObject *session = NULL;
    PyObject *b = limit > 0 ? operand(other, &session, limit) : NULL;
    PyObject *values = b ? writeable(tensor) : NULL;
    if (!values || PyArray_SIZE((PyArrayObject *)values) > limit) return NULL;
    Py_INCREF(values), Py_INCREF(b);
    int done = into_by_cores(PyTuple_GET_ITEM(ufuncs, op), values, values, b);
    if (!done && !PyErr_Occurred()) {
        PyObject *made = quietly(op, in_place_of, values, b);
        done = made != NULL;
        Py_XDECREF(made);
    }
    Py_DECREF(values), Py_DECREF(b);
    if (!done) return NULL;
    Py_INCREF(tensor);
    return tensor;
}

static int is_integer(PyObject *x) {
    return PyLong_CheckExact(x) || Py_TYPE(x) == &PyInt64ArrType_Type;
}

static int is_end(PyObject *x) { return x == Py_None || is_integer(x); }

/* A slice's ends may be the user's own, whose __index__ could change the tensor meanwhile. */
static int is_plain_item(PyObject *x) {
    if (!PySlice_Check(x)) return is_end(x) || x == Py_Ellipsis;
    PySliceObject *slice = (PySliceObject *)x;
    return is_end(slice->start) && is_end(slice->stop) && is_end(slice->step);
}

static int is_plain(PyObject *index) {
    if (!PyTuple_CheckExact(index)) return is_plain_item(index);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); i++)
        if (!is_plain_item(PyTuple_GET_ITEM(index, i))) return 0;
    return 1;
}

static int is_element(PyObject *index, int ndim) {
    if (!PyTuple_CheckExact(index)) return ndim == 1 && is_integer(index);
    if (PyTuple_GET_SIZE(index) != ndim) return 0;
    for (Py_ssize_t i = 0; i < ndim; i++)
        if (!is_integer(PyTuple_GET_ITEM(index, i))) return 0;
    return 1;
}

static PyObject *got(PyObject *tensor, PyObject *index) {
    npy_intp limit = limit_now();
    if (limit <= 0 || !is_plain(index)) return NULL;
    PyObject *values = seen(tensor);
    if (!values || !PyArray_CheckExact(values)) return NULL;
    Py_INCREF(values); /* what is allocated may start the collector, and that a __del__ */
    PyObject *found = PyObject_GetItem(values, index);
    Py_DECREF(values);
    if (!found) return NULL;
    if (!PyArray_CheckExact(found)) {
        PyObject *session = session_of(tensor);
        if (size_of(found) < 0 || count(session)) Py_CLEAR(found);
        return wrapped(found, session, NULL, NULL, 1);
    }
    npy_intp n = PyArray_SIZE((PyArrayObject *)found);
    PyObject *cell = NULL;
    if (n > 0 && n <= limit) {
        if (IS(T(tensor, OWNER))) {
            cell = PyObject_GetAttr(tensor, name_cell);
        } else {
            cell = T(tensor, CELL);
            Py_INCREF(cell);
        }
    }
    if (!cell || seen(tensor) != values || /* another thread, or a __del__, was here */
        (PyObject *)PyArray_DESCR((PyArrayObject *)found) != V(C(cell, C_VERSION), V_DTYPE)) {
        Py_XDECREF(cell), Py_DECREF(found);
        return NULL;
    }
    PyObject *made = wrapped(found, NULL, cell, tensor, 0);
    Py_DECREF(cell);
    if (made && T(tensor, LAZY_VIEW) == Py_None) put(made, INDEX, index);
    return made;
}

/* One axis of a view through an integer (kept: -1) or a slice; 0: Python has to look. */
static int through(PyObject *item, npy_intp length, npy_intp *first, npy_intp *step, npy_intp *kept) {
    if (PyLong_CheckExact(item)) {
        int overflow;
        npy_intp at = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (at < 0) at += length;
        *first = at, *step = 0, *kept = -1;
        return !overflow && at >= 0 && at < length;
    }
    if (!PySlice_Check(item)) return 0;
    PyObject *parts[] = {((PySliceObject *)item)->start, ((PySliceObject *)item)->stop,
                         ((PySliceObject *)item)->step};
    for (int i = 0; i < 3; i++)
        if (parts[i] != Py_None && !PyLong_CheckExact(parts[i])) return 0;
    Py_ssize_t start, stop, stride;
    if (PySlice_Unpack(item, &start, &stop, &stride)) {
        PyErr_Clear();
        return 0;
    }
    *kept = PySlice_AdjustIndices(length, &start, &stop, stride);
    *first = start;
    *step = stride >= -length && stride <= length ? stride : 1; /* beyond, it is one element */
    return *kept > 0;
}

/* Whether these elements are a base of this shape, axis for axis: `View.is_whole`. */
static int is_all(PyObject *base, int n, const npy_intp *lengths, const npy_intp *steps) {
    npy_intp step = 1;
    if (PyTuple_GET_SIZE(base) != n) return 0;
    for (int k = n - 1; k >= 0; k--) {
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(base, k)) != lengths[k] || steps[k] != step) return 0;
        step *= lengths[k] > 1 ? lengths[k] : 1;
    }
    return 1;
}

/* A view of a large or waiting tensor through integers and slices, as `Tensor.__getitem__`. */
static PyObject *sliced(PyObject *tensor, PyObject *index) {
    PyObject *view = T(tensor, LAZY_VIEW), *base = T(tensor, SHAPE), *shape = base, *strides = NULL;
    npy_intp offset = 0, step = 1, lengths[NPY_MAXDIMS], steps[NPY_MAXDIMS];
    if (!IS(T(tensor, CELL)) || !shape) return NULL;
    Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    if (IS(T(tensor, OWNER)) || view == unknown || ndim > NPY_MAXDIMS) return NULL;
    if (view != Py_None) {
        base = PyTuple_GET_ITEM(view, 0);
        offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(view, 2));
        strides = PyTuple_GET_ITEM(view, 3);
        if (PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(view, 4))) return NULL;
    }
    for (Py_ssize_t k = ndim - 1; k >= 0; k--) {
        lengths[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
        steps[k] = strides ? PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, k)) : step;
        step *= lengths[k] > 1 ? lengths[k] : 1;
    }
    int is_tuple = PyTuple_CheckExact(index), n = 0;
    Py_ssize_t n_items = is_tuple ? PyTuple_GET_SIZE(index) : 1;
    if (n_items > ndim) return NULL;
    for (Py_ssize_t k = 0; k < ndim; k++) {
        npy_intp first = 0, stride = 1, kept = lengths[k];
        PyObject *item = k < n_items ? (is_tuple ? PyTuple_GET_ITEM(index, k) : index) : NULL;
        if (item && !through(item, lengths[k], &first, &stride, &kept)) return NULL;
        offset += first * steps[k];
        if (kept < 0) continue;
        lengths[n] = kept;
        steps[n++] = stride * steps[k];
    }
    if (!n) return NULL;
    PyObject *cell = T(tensor, CELL), *made = NULL;
    shape = PyArray_IntTupleFromIntp(n, lengths);
    strides = PyArray_IntTupleFromIntp(n, steps);
    PyObject *fields = shape && strides ? Py_BuildValue("((OOnOO))", base, shape, (Py_ssize_t)offset,
                                                        strides, no_part) : NULL;
    view = fields ? PyTuple_Type.tp_new(Py_TYPE(unknown), fields, NULL) : NULL;
    int whole = is_all(base, n, lengths, steps);
    if (view && (made = tensor_type->tp_alloc(tensor_type, 0))) {
        put(made, CELL, cell);
        put(made, SHAPE, shape);
        put(made, DTYPE, V(C(cell, C_VERSION), V_DTYPE));
        put(made, LAZY_VIEW, whole ? Py_None : view);
        put(made, FROZEN, T(tensor, FROZEN));
        put(made, IS_VALUE, Py_False);
        put(made, LENT, empty);
        for (int field = OWNER; field <= SEEN_OF; field++) put(made, field, Py_None);
        put(made, INDEX, Py_None);
    }
    Py_XDECREF(shape), Py_XDECREF(strides), Py_XDECREF(fields), Py_XDECREF(view);
    return made;
}

/* 1: written; 0: Python has to do it; -1: an error. */
static int was_put(PyObject *tensor, PyObject *index, PyObject *value) {
    npy_intp limit = limit_now();
    if (limit <= 0 || !is_plain(index)) return 0;
    if (Py_TYPE(value) == tensor_type) {
        if (index != Py_None && T(value, INDEX) == index && T(tensor, LAZY_VIEW) == Py_None &&
            !IS(T(value, OWNER)) && !IS(T(tensor, OWNER)) && T(value, CELL) == T(tensor, CELL))
            return T(tensor, FROZEN) == Py_False;
        value = seen(value);
    } else if (!is_number(value)) {
        return 0;
    }
    PyObject *values = value ? writeable(tensor) : NULL;
    if (!values) return 0;
    PyArrayObject *array = (PyArrayObject *)values;
    PyObject *target = values;
    Py_INCREF(target);
    Py_INCREF(value);
    if (!is_element(index, PyArray_NDIM(array)) && PyArray_SIZE(array) > limit) {
        Py_SETREF(target, PyObject_GetItem(values, index));
        index = Py_Ellipsis;
        if (!target || !PyArray_CheckExact(target) || PyArray_SIZE((PyArrayObject *)target) > limit) {
            Py_XDECREF(target), Py_DECREF(value);
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    int is_alike = PyArray_DESCR(array)->type_num == NPY_DOUBLE &&
        (PyFloat_Check(value) || (PyArray_CheckExact(value) &&
                                  PyArray_DESCR((PyArrayObject *)value)->type_num == NPY_DOUBLE));
    if (index == Py_Ellipsis && PyArray_CheckExact(value) && into_by_cores(Py_None, target, value, NULL)) {
        Py_DECREF(target), Py_DECREF(value);
        return 1;
    }
    PyObject *token = is_alike || PyErr_Occurred() ? NULL : PyContextVar_Set(silence, silent);
    int bad = (!is_alike && !token) || PyErr_Occurred() ? -1 : PyObject_SetItem(target, index, value);
    if (token) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        PyContextVar_Reset(silence, token);
        PyErr_Restore(type, error, trace);
        Py_DECREF(token);
    }
    Py_DECREF(target), Py_DECREF(value);
    return bad ? -1 : 1;
}

/* A function of NumPy's of few arguments that has a small result; NULL as above. */
static PyObject *called(PyObject *like, PyObject *args, int is_elementwise, PyObject *fits) {
    npy_intp limit = limit_now(), product = 1;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *session = NULL, *given[4];
    PyArrayObject *first = NULL;
    int is_alike = 1, n_arrays = 0, n_matrices = 0;
    if (limit <= 0 || n > 4) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        given[i] = x == Py_None && !is_elementwise ? x : operand(x, &session, limit);
        if (!given[i]) return NULL;
        if (!PyArray_CheckExact(given[i])) continue;
        PyArrayObject *array = (PyArrayObject *)given[i];
        n_arrays++;
        n_matrices += PyArray_NDIM(array) == 1 || PyArray_NDIM(array) == 2;
        if (product <= limit) product *= PyArray_SIZE(array);
        if (!first) first = array;
        else is_alike = is_alike && PyArray_SAMESHAPE(first, array);
    }
    if (!session) return NULL;
    if (fits && fits != Py_None && n == 2 && n_matrices < 2) return NULL; /* no plain product */
    int is_one = first && PyArray_NDIM(first) == 1 && fits != outer_fits;
    if (n_arrays > 1 && product > limit && !(is_alike && (is_elementwise || is_one))) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) Py_INCREF(given[i]);
    Py_INCREF(session);
    PyObject *made = NULL;
    if (is_elementwise && first && is_alike) made = by_cores(like, given, n, PyArray_SIZE(first));
    PyObject *token = made || PyErr_Occurred() ? NULL : PyContextVar_Set(silence, silent);
    if (token) made = PyObject_Vectorcall(like, given, n, NULL);
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    if (token) PyContextVar_Reset(silence, token);
    Py_XDECREF(token);
    PyErr_Restore(type, error, trace);
    if (made && PyArray_CheckExact(made) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)made))
        Py_SETREF(made, PyArray_NewCopy((PyArrayObject *)made, NPY_CORDER));
    if (made && (size_of(made) < 0 || count(session))) Py_CLEAR(made);
    for (Py_ssize_t i = 0; i < n; i++) Py_DECREF(given[i]);
    made = wrapped(made, session, NULL, NULL, 0);
    Py_DECREF(session);
    return made;
}

/* Whether an operand waits, lies elsewhere or is no small one: then no call of these is small. */
static int is_far(PyObject *args) {
    npy_intp limit = limit_now();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (Py_TYPE(x) != tensor_type || IS(T(x, OWNER)) || !IS(T(x, CELL))) continue;
        PyObject *version = C(T(x, CELL), C_VERSION), *shape = T(x, SHAPE);
        if (T(x, SEEN_OF) != version && !IS(V(version, V_HOST))) return 1;
        double n = limit > 0;
        for (Py_ssize_t a = 0; a < PyTuple_GET_SIZE(shape); a++) n *= PyLong_AsDouble(PyTuple_GET_ITEM(shape, a));
        if (n > limit) return 1;
    }
    return 0;
}

/* applied(ufunc, args), called(function, fits, args, options): as in near.py. */
static PyObject *do_applied(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    if (n == 2 && is_far(args[1])) Py_RETURN_NONE;
    PyObject *made = n == 2 ? called(args[0], args[1], 1, NULL) : NULL;
    if (made || PyErr_Occurred()) return made;
    return PyObject_Vectorcall(slow_applied, args, n, NULL);
}

static PyObject *do_called(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    if (n == 4 && is_far(args[2])) Py_RETURN_NONE;
    if (n == 4 && !PyDict_GET_SIZE(args[3])) {
        PyObject *made = called(args[0], args[2], 0, args[1]);
        if (made) return made;
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL; /* Ctrl-C */
        PyErr_Clear(); /* Python's has the better words */
    }
    return PyObject_Vectorcall(slow_called, args, n, NULL);
}

/* --- slots of Tensor -------------------------------------------------------------------------- */

#define FALLS(made, call) ((made) || PyErr_Occurred() ? (made) : (call))
/* A call that was recorded before, of a tensor and another or a number; NULL where Python looks. */
static PyObject *recorded(int op, PyObject *a, PyObject *b) {
    PyObject *recorder = PyTuple_GET_ITEM(recorders, op);
    int is_first = Py_TYPE(a) == tensor_type;
    int is_reflected = Py_TYPE(b) == tensor_type && (PyFloat_CheckExact(a) || PyLong_CheckExact(a));
    if (recorder == Py_None || !(is_first || is_reflected)) return NULL;
    PyObject *made = PyObject_CallFunctionObjArgs(recorder, a, b, NULL);
    if (made == Py_None) Py_CLEAR(made);
    return made;
}

static PyObject *binary(int op, PyObject *a, PyObject *b) {
    PyObject *made = operated(op, a, b);
    if (made || PyErr_Occurred()) return made;
    made = recorded(op, a, b);
    if (made || PyErr_Occurred()) return made;
    if (PyObject_TypeCheck(a, tensor_type))
        return PyObject_CallFunctionObjArgs(slow_forward[op], a, b, NULL);
    return PyObject_CallFunctionObjArgs(slow_reflected[op], b, a, NULL);
}

#define BINARY(name, op) \
    static PyObject *do_##name(PyObject *a, PyObject *b) { return binary(op, a, b); }
#define ARITHMETIC(name, op) \
    BINARY(name, op) \
    static PyObject *do_inplace_##name(PyObject *a, PyObject *b) { \
        PyObject *made = changed(op, a, b); \
        return FALLS(made, slow_number.nb_inplace_##name(a, b)); \
    }
#define EACH_ARITHMETIC(X) \
    X(add, ADD) X(subtract, SUB) X(multiply, MUL) X(true_divide, DIV) X(floor_divide, FLOORDIV) \
    X(remainder, MOD) X(and, AND) X(or, OR) X(xor, XOR) X(lshift, LSHIFT) X(rshift, RSHIFT)
EACH_ARITHMETIC(ARITHMETIC)
BINARY(matrix_multiply, MATMUL)

static PyObject *do_compare(PyObject *a, PyObject *b, int how) {
    PyObject *made = operated(LT + how, a, b);
    if (!made && !PyErr_Occurred()) made = recorded(LT + how, a, b);
    return FALLS(made, slow_compare(a, b, how));
}

static PyObject *do_subscript(PyObject *self, PyObject *index) {
    PyObject *made = got(self, index);
    if (!made && !PyErr_Occurred()) made = sliced(self, index);
    return FALLS(made, PyObject_CallFunctionObjArgs(slow_get, self, index, NULL));
}

/* A number or a tensor written through a large view; 1, 0 and -1 as above. */
static int was_filled(PyObject *self, PyObject *index, PyObject *value) {
    int is_known = PyFloat_CheckExact(value) || Py_TYPE(value) == tensor_type;
    PyObject *part = is_known ? sliced(self, index) : NULL;
    if (!part) return PyErr_Occurred() ? -1 : 0;
    PyObject *args[] = {self, T(part, LAZY_VIEW), value};
    PyObject *done = PyObject_Vectorcall(slow_fill, args, 3, NULL);
    int found = done ? PyObject_IsTrue(done) : -1;
    Py_XDECREF(done), Py_DECREF(part);
    return found;
}

static int do_ass_subscript(PyObject *self, PyObject *index, PyObject *value) {
    int done = value ? was_put(self, index, value) : 0;
    if (!done && value) done = was_filled(self, index, value);
    return done ? -(done < 0) : slow_mapping.mp_ass_subscript(self, index, value);
}

/* Borrowed: the scalar that a tensor of its own is. */
static PyObject *scalar(PyObject *self) {
    PyObject *values = IS(T(self, OWNER)) ? T(self, SEEN) : NULL;
    return values && is_scalar(values) ? values : NULL;
}

static PyObject *do_float(PyObject *self) {
    PyObject *x = scalar(self);
    if (x && PyFloat_Check(x)) return PyFloat_FromDouble(PyFloat_AS_DOUBLE(x));
    return slow_number.nb_float(self);
}

#define INTEGER(name) \
    static PyObject *do_##name(PyObject *self) { \
        PyObject *x = scalar(self); \
        return x && PyArray_IsScalar(x, Integer) ? PyNumber_Index(x) : slow_number.nb_##name(self); \
    }
INTEGER(int) INTEGER(index)

static int do_bool(PyObject *self) {
    PyObject *x = scalar(self);
    return x ? PyObject_IsTrue(x) : slow_number.nb_bool(self);
}

static PyMethodDef getitem = {"__getitem__", do_subscript, METH_O, "x[index]"};

/* The type's own slots, so that an operator is one call; `x.__add__` stays the Python method.
   `__getitem__` is replaced there too: the interpreter would call a Python function by itself. */
static int fill_slots(void) {
    PyNumberMethods *number = tensor_type->tp_as_number;
    PyMappingMethods *mapping = tensor_type->tp_as_mapping;
    slow_get = PyObject_GetAttrString((PyObject *)tensor_type, "__getitem__");
    PyObject *method = slow_get ? PyDescr_NewMethod(tensor_type, &getitem) : NULL;
    if (!method || PyObject_SetAttrString((PyObject *)tensor_type, "__getitem__", method)) return -1;
    for (int op = ADD; op < LT; op++) { /* the slots before ours look who asks: their methods do not */
        char name[20];
        snprintf(name, sizeof name, "__%s__", names[op]);
        slow_forward[op] = PyObject_GetAttrString((PyObject *)tensor_type, name);
        snprintf(name, sizeof name, "__r%s__", names[op]);
        slow_reflected[op] = PyObject_GetAttrString((PyObject *)tensor_type, name);
        if (!slow_forward[op] || !slow_reflected[op]) return -1;
    }
    slow_number = *number;
    slow_mapping = *mapping;
    slow_compare = tensor_type->tp_richcompare;
#define FILL(name, op) \
    number->nb_##name = do_##name; \
    number->nb_inplace_##name = do_inplace_##name;
    EACH_ARITHMETIC(FILL)
    number->nb_matrix_multiply = do_matrix_multiply;
    number->nb_float = do_float;
    number->nb_int = do_int;
    number->nb_index = do_index;
    number->nb_bool = do_bool;
    mapping->mp_subscript = do_subscript;
    mapping->mp_ass_subscript = do_ass_subscript;
    tensor_type->tp_richcompare = do_compare;
    PyType_Modified(tensor_type);
    return 0;
}

/* install(Tensor, Version, Cell, config, bfloat16, UNKNOWN, numbers, silence, silent, applied,
   called, outer_fits, recorders, fill, made, into, least, ufuncs): the last four are of `cores.py` */
static PyObject *install(PyObject *module, PyObject *args) {
    PyObject *tensor, *version, *cell;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOO!OOOnO!", &tensor, &version, &cell, &config, &bfloat16,
                          &unknown, &numbers, &silence, &silent, &slow_applied, &slow_called,
                          &outer_fits, &PyTuple_Type, &recorders, &slow_fill,
                          &cores_made, &cores_into, &cores_least, &PyTuple_Type, &ufuncs))
        return NULL;
    static const char *const of_tensor[] = {"_cell", "_dtype", "_frozen", "_index", "_is_value",
        "_lazy_view", "_lent", "_owner", "_seen", "_seen_of", "_shape"};
    static const char *const of_version[] = {"dtype", "exported", "host", "live", "readers", "table"};
    static const char *const of_cell[] = {"session", "version"};
    static const char *const of_config[] = {"small_elements"};
    if (find_slots(tensor, of_tensor, tensor_at, N_TENSOR) ||
        find_slots(version, of_version, version_at, N_VERSION) ||
        find_slots(cell, of_cell, cell_at, N_CELL) ||
        find_slots((PyObject *)Py_TYPE(config), of_config, &limit_at, 1))
        return NULL;
    if (PyTuple_GET_SIZE(recorders) != GE + 1 || PyTuple_GET_SIZE(ufuncs) != GE + 1)
        return PyErr_Format(PyExc_ValueError, "%d recorders and ufuncs are meant", GE + 1);
    tensor_type = (PyTypeObject *)tensor;
    Py_INCREF(args); /* all of them stay */
    if (fill_slots()) return NULL;
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef functions[] = {{"install", install, METH_VARARGS, NULL},
                                  {"applied", FAST(do_applied)},
                                  {"called", FAST(do_called)},
                                  {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "infinitensor_near", NULL, -1, functions};

PyMODINIT_FUNC PyInit_infinitensor_near(void) {
    import_array();
    empty = PyTuple_New(0);
    one = PyLong_FromLong(1);
    name_counts = PyUnicode_InternFromString("counts");
    name_small = PyUnicode_InternFromString("small_calls");
    name_cell = PyUnicode_InternFromString("_cell");
    no_part = PyUnicode_InternFromString("");
    return PyModule_Create(&definition);
}
