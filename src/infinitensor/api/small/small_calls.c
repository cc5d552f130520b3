/* The shortest ways of `api/small/small_calls.py` and `api/access/small_items.py`, over the same slots: operators, elements,
   slices and element writes of small tensors on the host. What is here is what a loop over elements or
   short rows does; whatever is in doubt goes to the Python method that was there before (`slow`). */

#include "api/session/slots.h"
#include "api/small/numbers.h"
#include "api/eager/ufunc_loops.h"
#include "api/small/plain_loops.h"
#include "api/small/host_values.h"
#include "api/small/small_folds.h"
#include "api/small/small_products.h"
#include "api/access/small_items.h"

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

/* Without floating-point warnings, as errstate.py's `quietly`. */
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
    if (n > 4 || size < cores_least) return NULL;
    PyObject *args[] = {ufunc, given[0], n > 1 ? given[1] : NULL, n > 2 ? given[2] : NULL, n > 3 ? given[3] : NULL};
    PyObject *made = PyObject_Vectorcall(cores_made, args, n + 1, NULL);
    if (made == Py_None) Py_CLEAR(made);
    return made;
}

/* Whether all cores did `out[...] = ufunc(a, b)`, or a copy (None): not where NumPy has to, or on an error. */
static int into_by_cores(PyObject *ufunc, PyObject *out, PyObject *a, PyObject *b) {
    PyObject *args[] = {ufunc, out, a, b};
    if (PyArray_SIZE((PyArrayObject *)out) < cores_least) return 0;
    PyObject *done = PyObject_Vectorcall(cores_into, args, b ? 4 : 3, NULL);
    Py_XDECREF(done);
    return done == Py_True;
}

/* Borrowed values of an operand, a tensor or a number; NULL: Python has to look. */
static PyObject *operand(PyObject *x, PyObject **session, npy_intp limit) {
    if (Py_TYPE(x) == tensor_type) {
        PyObject *values = seen(x);
        if (!values && !(values = seen_bfloat16(x))) return NULL;
        npy_intp n = size_of(values);
        if (n < 0 || n > limit) return NULL;
        PyObject *home = session_of(x);
        if (*session && *session != home) return NULL;
        *session = home;
        return values;
    }
    return is_number(x) ? x : NULL;
}

/* Whether an operand is bfloat16: then NumPy has no part in the call, only our own loops. */
static int has_bfloat16(PyObject *const *given, Py_ssize_t n) {
    for (Py_ssize_t k = 0; k < n; k++)
        if (is_bfloat16(given[k])) return 1;
    return 0;
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

enum { MATRICES = 4 };
/* Whether what is multiplied has a small result, of which NumPy's library makes no work of several cores; of halves it
   makes none (`product` in numpy_table.py). A matrix times a vector may be MATRICES times as large as what is small: one
   pass over it takes less than a plan for itself. */
static int is_little_product(PyArrayObject *x, PyArrayObject *y, npy_intp limit) {
    int n = PyArray_NDIM(x), m = PyArray_NDIM(y), type = PyArray_DESCR(x)->type_num;
    if (type == NPY_HALF) return 0;
    if (n == 1 && m == 1) return PyArray_SIZE(x) <= ONE_CORE_DOT;
    if (n == 1 || m == 1) {
        PyArrayObject *matrix = n == 1 ? y : x;
        npy_intp size = PyArray_SIZE(matrix), length = PyArray_SIZE(n == 1 ? x : y);
        if (size <= limit) return length <= limit;
        int is_plain = PyArray_IS_C_CONTIGUOUS(matrix) || PyArray_IS_F_CONTIGUOUS(matrix);
        if (PyArray_NDIM(matrix) != 2 || !is_plain || type != PyArray_DESCR(y)->type_num) return 0;
        return PyTypeNum_ISFLOAT(type) && length > 0 && length <= limit && size / length <= limit;
    }
    if (n != 2 || m != 2 || PyArray_DIM(x, 1) != PyArray_DIM(y, 0) || !are_uncut(x, y, limit)) return 0;
    npy_intp size = PyArray_DIM(x, 0) * PyArray_DIM(y, 1);
    return size <= limit && size * PyArray_DIM(x, 1) <= ONE_CORE;
}

static int is_stepped(PyArrayObject *x) {
    return PyArray_NDIM(x) == 1 && PyArray_DIM(x, 0) > 1 && PyArray_ISBEHAVED_RO(x) && PyArray_STRIDE(x, 0) > 0 &&
           PyArray_STRIDE(x, 0) % PyArray_ITEMSIZE(x) == 0;
}

/* `a @ b` and `dot(a, b)` of two vectors: NumPy's loop for both, without what `matmul` asks first; it gives no
   warnings. NULL without an error for anything else. */
static PyObject *dotted(PyObject *a, PyObject *b) {
    PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
    int type = PyArray_DESCR(x)->type_num;
    if (type != NPY_DOUBLE && type != NPY_FLOAT && type != NPY_CDOUBLE && type != NPY_CFLOAT) return NULL;
    if (type != PyArray_DESCR(y)->type_num || !is_stepped(x) || !is_stepped(y)) return NULL;
    if (PyArray_DIM(x, 0) != PyArray_DIM(y, 0) || PyArray_DIM(x, 0) > ONE_CORE_DOT) return NULL;
    PyObject *made = PyArray_MatrixProduct2(a, b, NULL);
    return made ? PyArray_Return((PyArrayObject *)made) : NULL;
}

/* Whether NumPy makes a product of stacks: as `product_fits` of numpy_table.py, for what is no product of matrices. */
static int is_little_stack(PyArrayObject *x, PyArrayObject *y, npy_intp limit) {
    const int n = PyArray_NDIM(x), m = PyArray_NDIM(y);
    if (n < 2 || m < 2 || (n == 2 && m == 2) || array_type(x) == NPY_HALF) return 0;
    const npy_intp k = PyArray_DIM(x, n - 1), inner = PyArray_DIM(y, m - 2);
    if (!k || !inner) return 0;
    const npy_intp size = PyArray_SIZE(x) / k * (PyArray_SIZE(y) / inner);
    return size <= limit && size * k <= EACH_OF_RESULT * limit;
}

enum { LEAST_OF_OURS = 1 << 12 };
/* Whether our library multiplies them: NumPy's packs what is narrow, and has several cores multiply one vector of complex
   numbers, whose bits then depend on how many are free. */
static int is_for_ours(PyArrayObject *x, PyArrayObject *y) {
    const int n = PyArray_NDIM(x), m = PyArray_NDIM(y), type = PyArray_DESCR(x)->type_num;
    if (n < 2 || m < 2 || code_of(type) < 0 || !PyArray_DIM(y, m - 2)) return 0;
    if (PyTypeNum_ISCOMPLEX(type) && PyArray_DIM(x, n - 2) > 1 && PyArray_DIM(y, m - 1) > 1) return 0;
    return PyArray_SIZE(x) * (PyArray_SIZE(y) / PyArray_DIM(y, m - 2)) >= LEAST_OF_OURS;
}

/* `a @ b`, with a small result: by NumPy's library, or by ours. NULL without an error where Python has to look. */
static PyObject *multiplied(PyObject *a, PyObject *b, npy_intp limit) {
    PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
    PyObject *made = dotted(a, b);
    const int is_numpys = !is_bfloat16(a) && !is_bfloat16(b) && (is_little_product(x, y, limit) || is_little_stack(x, y, limit));
    if (!made && !PyErr_Occurred() && (!is_numpys || is_for_ours(x, y))) made = by_library(x, y, limit);
    if (!made && !PyErr_Occurred() && is_numpys) made = quietly(MATMUL, call_of, a, b);
    if (!made) PyErr_Clear(); /* Python's has the better words */
    return made;
}

/* multiply(x, y): a small product of two arrays by our library, or None. */
static PyObject *do_product(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 2 || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "multiply() takes 2 arrays");
    PyObject *made = by_library((PyArrayObject *)args[0], (PyArrayObject *)args[1], limit_now());
    return made || PyErr_Occurred() ? made : Py_NewRef(Py_None);
}

/* Let a view on the host, of up to so many elements, know its values; -1: an error. Python runs: nothing is borrowed
   yet. */
static int look_at_view(PyObject *x, npy_intp limit) {
    if (Py_TYPE(x) != tensor_type || IS(T(x, OWNER)) || !IS(T(x, CELL)) || T(x, LAZY_VIEW) == Py_None) return 0;
    PyObject *version = C(T(x, CELL), C_VERSION), *host = V(version, V_HOST);
    if (!IS(host) || T(x, SEEN_OF) == host || !PyArray_CheckExact(host)) return 0;
    if (PyArray_SIZE((PyArrayObject *)host) > limit || T(x, DTYPE) == bfloat16) return 0;
    PyObject *values = PyObject_CallOneArg(values_of, x);
    Py_XDECREF(values);
    return values ? 0 : -1;
}

/* The result of an operator, or NULL: without an error where Python has to do it. */
static PyObject *operated(int op, PyObject *first, PyObject *second) {
    npy_intp limit = limit_now(), most = op == MATMUL && limit < ONE_CORE ? MATRICES * limit : limit;
    PyObject *session = NULL;
    if (limit > 0 && (look_at_view(first, most) || look_at_view(second, most))) return NULL;
    PyObject *a = limit > 0 ? operand(first, &session, most) : NULL;
    PyObject *b = a ? operand(second, &session, most) : NULL;
    if (!b || !session) return NULL;
    if (PyComplex_CheckExact(a) && PyFloat_Check(b)) return NULL; /* Python's arithmetic takes a float64 */
    int n_arrays = PyArray_CheckExact(a) + PyArray_CheckExact(b);
    npy_intp size = 0; /* of an elementwise result */
    if (n_arrays == 2) {
        PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
        if (op != MATMUL && (size = broadcast_size(x, y)) > limit) return NULL;
    } else if (op == MATMUL) {
        return NULL;
    } else if (n_arrays) {
        size = PyArray_SIZE((PyArrayObject *)(PyArray_CheckExact(a) ? a : b));
    }
    PyObject *both[] = {a, b};
    const int is_ours = op == MATMUL || has_bfloat16(both, 2);
    Py_INCREF(a), Py_INCREF(b), Py_INCREF(session);
    PyObject *made = !n_arrays ? of_numbers(op, a, b) : op == MATMUL ? multiplied(a, b, limit) : NULL;
    if (size) {
        made = by_cores(PyTuple_GET_ITEM(ufuncs, op), both, 2, size);
        if (!made && !PyErr_Occurred()) made = looped(PyTuple_GET_ITEM(ufuncs, op), both, 2);
    }
    if (!made && !is_ours && !PyErr_Occurred()) made = quietly(op, call_of, a, b);
    if (made && PyArray_CheckExact(made) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)made))
        Py_SETREF(made, PyArray_NewCopy((PyArrayObject *)made, NPY_CORDER));
    if (made && (size_of(made) < 0 || count(session, NUMPY))) Py_CLEAR(made);
    Py_DECREF(a), Py_DECREF(b);
    made = wrapped(made, session, NULL, NULL);
    Py_DECREF(session);
    return made;
}

/* Whether x may be changed where it is; borrowed values or NULL. */
static PyObject *writeable(PyObject *tensor) {
    if (T(tensor, FROZEN) != Py_False || T(tensor, IS_VALUE) != Py_False) return NULL;
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
    npy_intp limit = limit_now();
    PyObject *session = NULL;
    PyObject *b = limit > 0 ? operand(other, &session, limit) : NULL;
    PyObject *values = b && !is_bfloat16(b) ? writeable(tensor) : NULL;
    if (!values || PyArray_SIZE((PyArrayObject *)values) > limit) return NULL;
    Py_INCREF(values), Py_INCREF(b);
    int done = into_by_cores(PyTuple_GET_ITEM(ufuncs, op), values, values, b);
    if (!done && !PyErr_Occurred()) done = looped_into(PyTuple_GET_ITEM(ufuncs, op), values, b);
    if (!done && !PyErr_Occurred()) {
        PyObject *made = quietly(op, in_place_of, values, b);
        done = made != NULL;
        Py_XDECREF(made);
    }
    Py_DECREF(values), Py_DECREF(b);
    if (!done || count(session_of(tensor), IN_PLACE)) return NULL;
    Py_INCREF(tensor);
    return tensor;
}

/* 1: written; 0: Python has to do it; -1: an error. */
/* Whether a statement of Python's writes, `x[index] = value`, and not compiled code: `assign.check_swap`. */
static int is_statement(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame) return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *steps = PyCode_GetCode(code);
    int found = steps && (unsigned char)PyBytes_AS_STRING(steps)[PyFrame_GetLasti(frame)] == STORE_SUBSCR;
    Py_XDECREF(steps), Py_DECREF(code);
    return found;
}

static int was_put_plain(PyObject *tensor, PyObject *index, PyObject *value, npy_intp limit) {
    if (Py_TYPE(value) == tensor_type) {
        int is_same = !IS(T(value, OWNER)) && !IS(T(tensor, OWNER)) && T(value, CELL) == T(tensor, CELL);
        if (is_same && index != Py_None && T(value, INDEX) == index && T(tensor, LAZY_VIEW) == Py_None)
            return T(tensor, FROZEN) == Py_False;
        if (is_same && PyLong_CheckExact(index) && !is_statement()) return 0; /* Python says why not */
        int is_value = T(value, IS_VALUE) == Py_True;
        value = seen(value);
        if (value && is_value && PyArray_CheckExact(value)) return 0; /* Python takes its scalar: it must fit */
    } else if (!is_number(value)) {
        return 0;
    }
    PyObject *values = value ? writeable(tensor) : NULL;
    if (!values) return 0;
    PyArrayObject *array = (PyArrayObject *)values;
    if (was_element_put(array, index, value)) return count(session_of(tensor), WRITE) ? -1 : 1;
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
        return count(session_of(tensor), WRITE) ? -1 : 1;
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
    return bad || count(session_of(tensor), WRITE) ? -1 : 1;
}

static int was_put(PyObject *tensor, PyObject *index, PyObject *value) {
    npy_intp limit = limit_now();
    int kind = limit > 0 ? kind_of_index(index) : IN_DOUBT;
    if (kind == IN_DOUBT) return 0;
    if (kind == PLAIN) return was_put_plain(tensor, index, value, limit);
    PyObject *plain = plain_index(index);
    int done = plain ? was_put_plain(tensor, plain, value, limit) : -1;
    Py_XDECREF(plain);
    return done;
}

/* Arguments of a call as the interpreter gives them: those by place, then those by name. */
typedef struct { PyObject *const *items; Py_ssize_t n; PyObject *names; } Given;

/* Whether all options are integers, truth values or None. */
static int are_plain(Given all) {
    for (Py_ssize_t i = 0; all.names && i < PyTuple_GET_SIZE(all.names); i++) {
        PyObject *value = all.items[all.n + i];
        if (!PyLong_CheckExact(value) && !PyBool_Check(value) && value != Py_None) return 0;
    }
    return 1;
}

/* A function of NumPy's without floating-point warnings. */
static PyObject *called_quietly(PyObject *like, PyObject *const *given, Given all) {
    PyObject *token = PyContextVar_Set(silence, silent);
    if (!token) return NULL;
    PyObject *made = PyObject_Vectorcall(like, given, all.n, all.names);
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyContextVar_Reset(silence, token);
    Py_DECREF(token);
    PyErr_Restore(type, error, trace);
    return made;
}

/* What NumPy's loops make of operands, without NumPy's own call; NULL as above. */
static PyObject *by_loops(PyObject *like, PyObject *fits, PyObject *const *given, Py_ssize_t n, npy_intp alike) {
    PyObject *made = NULL;
    if (fits == dot_fits) return n == 2 && PyArray_CheckExact(given[0]) && PyArray_CheckExact(given[1])
                                     ? dotted(given[0], given[1]) : NULL;
    if (fits == where_fits) return chosen(given);
    if (fits == counts_fit) return counts_of(given, n, limit_now());
    if (fits != broadcast_fits) return NULL;
    if (alike) made = by_cores(like, given, n, alike);
    return made || PyErr_Occurred() ? made : looped(like, given, n);
}

/* A result (stolen) as a tensor of its own, in C order; NULL, without an error, where it is no array or scalar. */
static PyObject *owned(PyObject *made, PyObject *session) {
    if (made && PyArray_CheckExact(made) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)made))
        Py_SETREF(made, PyArray_NewCopy((PyArrayObject *)made, NPY_CORDER));
    if (made && size_of(made) < 0) Py_CLEAR(made);
    return wrapped(made, session, NULL, NULL);
}

/* Several results likewise: a tuple of tensors. */
static PyObject *all_owned(PyObject *several, PyObject *session) {
    PyObject *found = PyTuple_New(PyTuple_GET_SIZE(several));
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(several); i++) {
        PyObject *one = PyTuple_GET_ITEM(several, i);
        Py_INCREF(one);
        one = owned(one, session);
        if (one) PyTuple_SET_ITEM(found, i, one);
        else Py_CLEAR(found);
    }
    return found;
}

enum { MOST_GIVEN = 4, MOST_NAMED = 4 };

/* A function of NumPy's of few arguments, and of plain options, that has a small result; NULL as above. */
static PyObject *called(PyObject *like, PyObject *fits, Given all) {
    int is_elementwise = fits == broadcast_fits || fits == where_fits;
    npy_intp limit = limit_now(), product = 1;
    Py_ssize_t n = all.n, n_named = all.names ? PyTuple_GET_SIZE(all.names) : 0;
    PyObject *session = NULL, *given[MOST_GIVEN + MOST_NAMED];
    PyArrayObject *first = NULL;
    int is_alike = 1, n_arrays = 0, n_matrices = 0;
    if (limit <= 0 || n > MOST_GIVEN || n_named > MOST_NAMED || (fits == where_fits && n != 3)) return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (look_at_view(all.items[i], limit)) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = all.items[i];
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
    if (!is_elementwise && fits != Py_None && fits != counts_fit && n_matrices < 2) return NULL; /* no plain product */
    const int is_ours = has_bfloat16(given, n);
    if (is_ours && !is_elementwise) return NULL;
    int is_one = first && PyArray_NDIM(first) == 1 && fits != outer_fits;
    int is_few = product <= limit || (is_alike && (is_elementwise || is_one));
    if (!is_few && is_elementwise && n == 2 && n_arrays == 2) {
        const npy_intp size = broadcast_size((PyArrayObject *)given[0], (PyArrayObject *)given[1]);
        is_few = size > 0 && size <= limit;
    }
    if (n_arrays > 1 && !is_few) return NULL;
    for (Py_ssize_t i = 0; i < n_named; i++) given[n + i] = all.items[n + i];
    for (Py_ssize_t i = 0; i < n; i++) Py_INCREF(given[i]);
    Py_INCREF(session);
    PyObject *made = first ? by_loops(like, fits, given, n, is_alike ? PyArray_SIZE(first) : 0) : NULL;
    if (!made && !is_ours && !PyErr_Occurred()) made = called_quietly(like, given, all);
    for (Py_ssize_t i = 0; i < n; i++) Py_DECREF(given[i]);
    if (made && PyTuple_CheckExact(made)) Py_SETREF(made, all_owned(made, session));
    else made = owned(made, session);
    if (made && count(session, NUMPY)) Py_CLEAR(made);
    Py_DECREF(session);
    return made;
}

/* Whether a name is this one; names of options are short. */
static int is_named(PyObject *name, const char *text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

/* A reduction of one small tensor, its axes and `keepdims`; NULL as above. */
static PyObject *reduced(PyObject *how, Given all) {
    PyObject *session = NULL, *axis = all.n > 1 ? all.items[1] : Py_None, *keepdims = Py_False;
    npy_intp limit = limit_now();
    Py_ssize_t n_named = all.names ? PyTuple_GET_SIZE(all.names) : 0;
    if (limit <= 0 || all.n < 1 || all.n > 2) return NULL;
    for (Py_ssize_t i = 0; i < n_named; i++) {
        PyObject *name = PyTuple_GET_ITEM(all.names, i), *value = all.items[all.n + i];
        if (all.n == 1 && is_named(name, "axis")) axis = value;
        else if (is_named(name, "keepdims") && PyBool_Check(value)) keepdims = value;
        else return NULL;
    }
    if (Py_TYPE(all.items[0]) != tensor_type) return NULL;
    if (look_at_view(all.items[0], limit)) return NULL;
    PyObject *x = operand(all.items[0], &session, limit);
    if (!x || !PyArray_CheckExact(x)) return NULL;
    Py_INCREF(x), Py_INCREF(session);
    PyObject *made = owned(folded(how, (PyArrayObject *)x, axis, keepdims), session);
    if (made && count(session, NUMPY)) Py_CLEAR(made);
    Py_DECREF(x), Py_DECREF(session);
    return made;
}

/* Whether an operand waits, is stored elsewhere or is no small one: then no call of these is small. */
static int is_far(Given all) {
    npy_intp limit = limit_now();
    for (Py_ssize_t i = 0; i < all.n; i++) {
        PyObject *x = all.items[i];
        if (Py_TYPE(x) != tensor_type || IS(T(x, OWNER)) || !IS(T(x, CELL))) continue;
        PyObject *version = C(T(x, CELL), C_VERSION), *shape = T(x, SHAPE);
        if (!IS(V(version, V_HOST))) return 1;
        double n = limit > 0;
        for (Py_ssize_t a = 0; a < PyTuple_GET_SIZE(shape); a++) n *= PyLong_AsDouble(PyTuple_GET_ITEM(shape, a));
        if (n > limit) return 1;
    }
    return 0;
}

/* --- ladders: functions that ask C for their first way ---------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *like, *fits, *fold, *rest, *far, *attributes, *weak;
} Ladder;

/* Whether C knows how to say if a result is small. */
static int is_known_fit(PyObject *fits) {
    return fits == Py_None || fits == broadcast_fits || fits == outer_fits || fits == dot_fits || fits == where_fits || fits == counts_fit;
}

static PyObject *call_ladder(PyObject *self, PyObject *const *args, size_t n, PyObject *names) {
    Ladder *ladder = (Ladder *)self;
    Given all = {args, PyVectorcall_NARGS(n), names && PyTuple_GET_SIZE(names) ? names : NULL};
    if (!tensor_type) return PyObject_Vectorcall(ladder->rest, args, n, names); /* not installed yet */
    if (is_far(all)) return PyObject_Vectorcall(ladder->far, args, n, names);
    if (ladder->fold != Py_None) {
        PyObject *made = reduced(ladder->fold, all);
        if (made) return made;
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
        PyErr_Clear();
    }
    if (ladder->fits == product_fits && all.n == 2 && !all.names) {
        PyObject *made = operated(MATMUL, all.items[0], all.items[1]);
        if (made || PyErr_Occurred()) return made;
    }
    if (is_known_fit(ladder->fits) && (!all.names || (ladder->fits == Py_None && are_plain(all)))) {
        PyObject *made = called(ladder->like, ladder->fits, all);
        if (made) return made;
        if (PyErr_Occurred() && (ladder->fits == broadcast_fits || !PyErr_ExceptionMatches(PyExc_Exception)))
            return NULL; /* NumPy's own words, or Ctrl-C */
        PyErr_Clear();
    }
    return PyObject_Vectorcall(ladder->rest, args, n, names);
}

/* `concatenate` or `stack` (`fits`) of small tensors on the host along an axis that is given, by `like`, the join of
   `moved_rows.c`; what it leaves by `rest`. */
static PyObject *call_join(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    Ladder *ladder = (Ladder *)self;
    const Py_ssize_t n = PyVectorcall_NARGS(flags), n_named = names ? PyTuple_GET_SIZE(names) : 0;
    const npy_intp limit = limit_now();
    PyObject *axis = n + n_named == 2 ? args[1] : NULL, *session = NULL, *arrays = NULL, *made = NULL;
    const int is_axis = axis && PyLong_CheckExact(axis) && (n == 2 || is_named(PyTuple_GET_ITEM(names, 0), "axis"));
    if (!tensor_type || limit <= 0 || n < 1 || !is_axis || !(PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])))
        return PyObject_Vectorcall(ladder->rest, args, flags, names);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[0]); k++)
        if (look_at_view(PySequence_Fast_GET_ITEM(args[0], k), limit)) return NULL;
    arrays = PyList_New(0);
    for (Py_ssize_t k = 0; arrays && k < PySequence_Fast_GET_SIZE(args[0]); k++) {
        PyObject *x = PySequence_Fast_GET_ITEM(args[0], k);
        PyObject *values = Py_TYPE(x) == tensor_type ? operand(x, &session, limit) : NULL;
        if (!values || !PyArray_CheckExact(values) || PyList_Append(arrays, values)) Py_CLEAR(arrays);
    }
    if (arrays && session) {
        PyObject *most = PyLong_FromSsize_t(limit), *given[] = {arrays, axis, ladder->fits, most};
        Py_INCREF(session);
        made = most ? PyObject_Vectorcall(ladder->like, given, 4, NULL) : NULL;
        Py_XDECREF(most);
        if (made && !PyArray_CheckExact(made)) Py_CLEAR(made);
        if (made && count(session, NUMPY)) Py_CLEAR(made);
        made = wrapped(made, session, NULL, NULL);
        Py_DECREF(session);
    }
    Py_XDECREF(arrays);
    if (made || PyErr_Occurred()) return made;
    return PyObject_Vectorcall(ladder->rest, args, flags, names);
}

static int visit_ladder(PyObject *self, visitproc visit, void *arg) {
    Ladder *ladder = (Ladder *)self;
    Py_VISIT(ladder->like);
    Py_VISIT(ladder->fits);
    Py_VISIT(ladder->fold);
    Py_VISIT(ladder->rest);
    Py_VISIT(ladder->far);
    Py_VISIT(ladder->attributes);
    return 0;
}

static int clear_ladder(PyObject *self) {
    Ladder *ladder = (Ladder *)self;
    Py_CLEAR(ladder->like);
    Py_CLEAR(ladder->fits);
    Py_CLEAR(ladder->fold);
    Py_CLEAR(ladder->rest);
    Py_CLEAR(ladder->far);
    Py_CLEAR(ladder->attributes);
    return 0;
}

static void free_ladder(PyObject *self) {
    PyObject_GC_UnTrack(self);
    if (((Ladder *)self)->weak) PyObject_ClearWeakRefs(self);
    clear_ladder(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *bound_ladder(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type)) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyObject *ladder_text(PyObject *self) {
    PyObject *name = PyObject_GetAttrString(self, "__name__");
    PyObject *text = name ? PyUnicode_FromFormat("<function %U>", name) : NULL;
    Py_XDECREF(name);
    return text;
}

/* Others find it by its name, as they do a function. */
static PyObject *reduced_ladder(PyObject *self, PyObject *Py_UNUSED(none)) {
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef ladder_methods[] = {{"__reduce__", reduced_ladder, METH_NOARGS, NULL}, {NULL}};
static PyGetSetDef ladder_parts[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL}};
static PyTypeObject ladder_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "infinitensor.function",
    .tp_doc = "A function of tensors.",
    .tp_basicsize = sizeof(Ladder),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Ladder, call),
    .tp_dictoffset = offsetof(Ladder, attributes),
    .tp_weaklistoffset = offsetof(Ladder, weak),
    .tp_traverse = visit_ladder,
    .tp_clear = clear_ladder,
    .tp_dealloc = free_ladder,
    .tp_free = PyObject_GC_Del,
    .tp_repr = ladder_text,
    .tp_descr_get = bound_ladder,
    .tp_methods = ladder_methods,
    .tp_getset = ladder_parts,
};

static PyObject *new_ladder(vectorcallfunc call, PyObject *like, PyObject *fits, PyObject *fold, PyObject *rest, PyObject *far) {
    Ladder *made = PyObject_GC_New(Ladder, &ladder_type);
    if (!made) return NULL;
    made->call = call;
    made->like = Py_NewRef(like), made->fits = Py_NewRef(fits), made->fold = Py_NewRef(fold);
    made->rest = Py_NewRef(rest), made->far = Py_NewRef(far);
    made->attributes = made->weak = NULL;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

/* ladder(like, fits, fold, rest, far): `like` of small operands on the host, a reduction as `fold` says; what C is not
   sure of by `rest`, and what is no such call by `far`. */
static PyObject *do_ladder(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 5) return PyErr_Format(PyExc_TypeError, "ladder() takes 5 arguments, not %zd", n);
    return new_ladder(call_ladder, args[0], args[1], args[2], args[3], args[4]);
}

/* joining(join, is_new, rest): tensors joined along an axis, one that is new or not. */
static PyObject *do_joining(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3) return PyErr_Format(PyExc_TypeError, "joining() takes 3 arguments, not %zd", n);
    return new_ladder(call_join, args[0], args[1], Py_None, args[2], args[2]);
}

/* --- slots of Tensor -------------------------------------------------------------------------- */

#define FALLS(made, call) ((made) || PyErr_Occurred() ? (made) : (call))
/* A call that was recorded before, of a tensor and another or a number; NULL where Python looks. */
static PyObject *recorded(int op, PyObject *a, PyObject *b) {
    PyObject *calls = PyTuple_GET_ITEM(recorders, op);
    int is_first = Py_TYPE(a) == tensor_type;
    int is_reflected = Py_TYPE(b) == tensor_type && (PyFloat_CheckExact(a) || PyLong_CheckExact(a));
    return recorder && calls != Py_None && (is_first || is_reflected) ? recorder(calls, a, b) : NULL;
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
        if (T(a, IS_VALUE) == Py_True) return binary(op, a, b); /* as scalars: the name gets a new one */ \
        PyObject *made = changed(op, a, b); \
        return FALLS(made, slow_number.nb_inplace_##name(a, b)); \
    }
#define EACH_ARITHMETIC(X) \
    X(add, ADD) X(subtract, SUB) X(multiply, MUL) X(true_divide, DIV) X(floor_divide, FLOORDIV) \
    X(remainder, MOD) X(and, AND) X(or, OR) X(xor, XOR) X(lshift, LSHIFT) X(rshift, RSHIFT)
EACH_ARITHMETIC(ARITHMETIC)
BINARY(matrix_multiply, MATMUL)

/* An operator of one operand; errors and what has work for several cores are Python's. */
static PyObject *unary(PyObject *self, int op, PyObject *(*call)(PyObject *)) {
    PyObject *values = seen(self);
    if (!values) values = seen_bfloat16(self);
    npy_intp n = values ? size_of(values) : -1;
    if (n < 0 || n > limit_now() || n >= cores_least) return NULL;
    if (PyArray_CheckExact(values) ? PyArray_ISCOMPLEX((PyArrayObject *)values) : type_of(values) < 0) return NULL;
    PyObject *session = session_of(self);
    Py_INCREF(values), Py_INCREF(session);
    PyObject *made = PyArray_CheckExact(values) ? looped(PyTuple_GET_ITEM(ufuncs, op), &values, 1) : NULL;
    PyObject *token = made || is_bfloat16(values) ? NULL : PyContextVar_Set(silence, silent);
    if (token && call) made = call(values);
    if (!made) PyErr_Clear();
    if (token) PyContextVar_Reset(silence, token);
    Py_XDECREF(token);
    if (made && PyArray_CheckExact(made) && !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)made))
        Py_SETREF(made, PyArray_NewCopy((PyArrayObject *)made, NPY_CORDER));
    if (made && (size_of(made) < 0 || count(session, NUMPY))) Py_CLEAR(made);
    Py_DECREF(values);
    made = wrapped(made, session, NULL, NULL);
    Py_DECREF(session);
    return made;
}

#define UNARY(name, op, call) \
    static PyObject *do_##name(PyObject *self) { \
        PyObject *made = unary(self, op, call); \
        return FALLS(made, slow_number.nb_##name(self)); \
    }
UNARY(negative, NEGATIVE, PyNumber_Negative)
UNARY(absolute, ABSOLUTE, PyNumber_Absolute)
UNARY(invert, INVERT, PyNumber_Invert)

static PyObject *slow_power, *slow_reflected_power; /* the Python methods */

/* A square or a root, as NumPy's operator takes them; of what is no small tensor, and any other power, Python's. */
static PyObject *do_power(PyObject *a, PyObject *b, PyObject *modulus) {
    const int is_float = PyFloat_CheckExact(b), is_two = is_float ? PyFloat_AS_DOUBLE(b) == 2 : PyLong_CheckExact(b) && PyLong_AsLong(b) == 2;
    if (PyErr_Occurred()) PyErr_Clear(); /* an integer of more than 64 bits */
    const int is_root = is_float && PyFloat_AS_DOUBLE(b) == 0.5;
    if (modulus == Py_None && Py_TYPE(a) == tensor_type && T(a, IS_VALUE) != Py_True && (is_two || is_root)) {
        PyArray_Descr *dtype = (PyArray_Descr *)T(a, DTYPE);
        if (PyTypeNum_ISFLOAT(dtype->type_num) || (is_two && !is_float && PyTypeNum_ISINTEGER(dtype->type_num))) {
            PyObject *made = unary(a, is_two ? SQUARE : ROOT, NULL);
            if (made || PyErr_Occurred()) return made;
        }
    }
    const int is_first = PyObject_TypeCheck(a, tensor_type);
    PyObject *given[] = {is_first ? a : b, is_first ? b : a, modulus};
    return PyObject_Vectorcall(is_first ? slow_power : slow_reflected_power, given, modulus == Py_None ? 2 : 3, NULL);
}

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
    if (x == PyArrayScalar_True || x == PyArrayScalar_False) return x == PyArrayScalar_True;
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
    slow_power = PyObject_GetAttrString((PyObject *)tensor_type, "__pow__");
    slow_reflected_power = PyObject_GetAttrString((PyObject *)tensor_type, "__rpow__");
    if (!slow_power || !slow_reflected_power) return -1;
    slow_number = *number;
    slow_mapping = *mapping;
    slow_compare = tensor_type->tp_richcompare;
#define FILL(name, op) \
    number->nb_##name = do_##name; \
    number->nb_inplace_##name = do_inplace_##name;
    EACH_ARITHMETIC(FILL)
    number->nb_matrix_multiply = do_matrix_multiply;
    number->nb_power = do_power;
    number->nb_negative = do_negative;
    number->nb_absolute = do_absolute;
    number->nb_invert = do_invert;
    number->nb_float = do_float;
    number->nb_int = do_int;
    number->nb_index = do_index;
    number->nb_bool = do_bool;
    mapping->mp_subscript = do_subscript;
    mapping->mp_ass_subscript = do_ass_subscript;
    tensor_type->tp_richcompare = do_compare;
    tensor_type->tp_alloc = allocated;
    tensor_type->tp_dealloc = gone;
    PyType_Modified(tensor_type);
    return 0;
}

/* install(Tensor, Version, Cell, config, bfloat16, UNKNOWN, numbers, silence, silent, broadcast_fits, outer_fits,
   dot_fits, where_fits, counts_fit, product_fits, find_products, recorders, recorded, fill, made, into, least, ufuncs, ways, own_loops, small_tensor, values_of,
   folds, casts): four are of `numpy_loops.py`; `own_loops` is the address of what finds our loops, `folds` those of
   `folds.c`, and `casts` those that convert halves; 0 where they are not there. */
static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *tensor, *version, *cell, *pointer;
    Py_ssize_t own_loops;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOOOOO!OOOOnO!O!nOO(nnnnnnnn)(nnnn)", &tensor, &version, &cell, &config, &bfloat16,
                          &unknown, &numbers, &silence, &silent, &broadcast_fits,
                          &outer_fits, &dot_fits, &where_fits, &counts_fit, &product_fits, &find_products, &PyTuple_Type, &recorders, &pointer, &slow_fill,
                          &cores_made, &cores_into, &cores_least, &PyTuple_Type, &ufuncs,
                          &PyTuple_Type, &ways, &own_loops, &small_tensor, &values_of,
                          &folders[0][0], &folders[0][1], &folders[0][2], &folders[0][3], &folders[1][0],
                          &folders[1][1], &folders[1][2], &folders[1][3], &half_casts[0], &half_casts[1],
                          &half_casts[2], &half_casts[3]))
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
    if (PyTuple_GET_SIZE(recorders) != GE + 1 || PyTuple_GET_SIZE(ufuncs) != ROOT + 1)
        return PyErr_Format(PyExc_ValueError, "%d recorders and %d ufuncs are meant", GE + 1, ROOT + 1);
    if (PyTuple_GET_SIZE(ways) != N_WAYS) return PyErr_Format(PyExc_ValueError, "%d ways are counted in C", N_WAYS);
    if (pointer != Py_None && !(recorder = (Recorded)PyCapsule_GetPointer(pointer, RECORDED))) return NULL;
    *(Py_ssize_t *)&find_own_loop = own_loops;
    bfloat16_type = ((PyArray_Descr *)bfloat16)->type_num;
    tensor_type = (PyTypeObject *)tensor;
    Py_INCREF(args); /* all of them stay */
    if (fill_slots()) return NULL;
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef functions[] = {{"install", install, METH_VARARGS, NULL},
                                  {"ladder", FAST(do_ladder)},
                                  {"joining", FAST(do_joining)},
                                  {"transposed", do_transposed, METH_O, NULL},
                                  {"viewed", FAST(do_viewed)},
                                  {"reshaped", FAST(do_reshaped)},
                                  {"own_copy", FAST(do_own_copy)},
                                  {"cast", FAST(do_cast)},
                                  {"multiply", FAST(do_product)},
                                  {"put_counts", do_put_counts, METH_NOARGS, NULL},
                                  {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_small_calls", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__small_calls(void) {
    import_array();
    import_umath();
    empty = PyTuple_New(0);
    name_ways = PyUnicode_InternFromString("ways");
    name_cell = PyUnicode_InternFromString("_cell");
    no_part = PyUnicode_InternFromString("");
    return PyType_Ready(&ladder_type) ? NULL : PyModule_Create(&definition);
}
