/* What the C of small calls knows of a tensor: its slots, what it shows, and how one is made. Before
   `small_items.h` and `small_calls.c`. */

enum { CELL, DTYPE, FROZEN, INDEX, IS_VALUE, LAZY_VIEW, LENT, OWNER, SEEN, SEEN_OF, SHAPE, N_TENSOR };
enum { V_DTYPE, V_EXPORTED, V_HOST, V_LIVE, V_READERS, V_TABLE, N_VERSION };
enum { C_SESSION, C_VERSION, N_CELL };
enum { ONE_CORE = 1 << 18, ONE_CORE_DOT = 10000 }; /* as in numpy_table.py */
static const char *const names[] = {"add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or",
                                    "xor", "lshift", "rshift", "matmul"};

static Py_ssize_t tensor_at[N_TENSOR], version_at[N_VERSION], cell_at[N_CELL], limit_at;
static PyTypeObject *tensor_type;
static PyObject *config, *bfloat16, *unknown, *numbers, *silence, *silent, *empty;
static PyObject *name_ways, *name_cell, *ways;
static PyObject *slow_get, *small_tensor, *values_of, *broadcast_fits, *outer_fits, *dot_fits, *where_fits, *counts_fit, *product_fits, *recorders, *slow_fill;
static PyObject *no_part;
static PyObject *cores_made, *cores_into, *ufuncs; /* of `numpy_loops.c`, and the ufuncs of the operators */
static Py_ssize_t cores_least;
static PyObject *slow_forward[LT], *slow_reflected[LT];
static Recorded recorder; /* NULL: Python records */
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
    PyObject *version = C(cell, C_VERSION), *host = V(version, V_HOST);
    if (!IS(host)) return NULL;
    if (T(tensor, SEEN_OF) == host) return IS(T(tensor, SEEN)) ? T(tensor, SEEN) : NULL;
    if ( V(version, V_DTYPE) == bfloat16 || T(tensor, LAZY_VIEW) != Py_None) return NULL;
    return host;
}

/* The same of a whole tensor of bfloat16, whose promotion is not NumPy's: for our own loops alone. */
static PyObject *seen_bfloat16(PyObject *tensor) {
    PyObject *cell = T(tensor, CELL);
    if (IS(T(tensor, OWNER)) || !IS(cell) || T(tensor, LAZY_VIEW) != Py_None) return NULL;
    PyObject *version = C(cell, C_VERSION), *host = V(version, V_HOST);
    return V(version, V_DTYPE) == bfloat16 && IS(host) && PyArray_CheckExact(host) ? host : NULL;
}

static PyObject *session_of(PyObject *tensor) {
    return IS(T(tensor, OWNER)) ? T(tensor, OWNER) : C(T(tensor, CELL), C_SESSION);
}

static int is_bfloat16(PyObject *x) {
    return PyArray_CheckExact(x) && PyArray_DESCR((PyArrayObject *)x)->type_num == bfloat16_type;
}

static npy_intp size_of(PyObject *x) {
    return PyArray_CheckExact(x) ? PyArray_SIZE((PyArrayObject *)x) : is_scalar(x) ? 1 : -1;
}

/* Ways that calls took since they were last put into the counts of a session: how often, its counts, and who it is. */
enum { NUMPY, IN_PLACE, READ, WRITE, N_WAYS }; /* as `IN_C` of ways.py, whose names are in `ways` */
static PyObject *counted_for, *counted_into;
static long long counted[N_WAYS];

static int add_count(PyObject *counts, PyObject *way, long long n) {
    PyObject *before = PyDict_GetItemWithError(counts, way), *more = PyLong_FromLongLong(n);
    PyObject *now = before && more ? PyNumber_Add(before, more) : NULL;
    int bad = !now || PyDict_SetItem(counts, way, now);
    Py_XDECREF(more), Py_XDECREF(now);
    return bad ? -1 : 0;
}

static int put_counts(void) {
    PyObject *counts = counted_into;
    long long n[N_WAYS];
    memcpy(n, counted, sizeof n);
    memset(counted, 0, sizeof counted);
    counted_for = counted_into = NULL;
    int bad = 0;
    for (int way = 0; counts && way < N_WAYS && !bad; way++)
        if (n[way]) bad = add_count(counts, PyTuple_GET_ITEM(ways, way), n[way]);
    Py_XDECREF(counts);
    return bad;
}

/* put_counts(): before somebody reads them, and before there is another session. */
static PyObject *do_put_counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    if (put_counts()) return NULL;
    Py_RETURN_NONE;
}

/* A call of a session takes a way; 0 if it went well. */
static int count(PyObject *session, int way) {
    if (session != counted_for) {
        if (put_counts() || !(counted_into = PyObject_GetAttr(session, name_ways))) return -1;
        counted_for = session;
    }
    counted[way]++;
    return 0;
}

static void put(PyObject *tensor, int field, PyObject *value) {
    Py_INCREF(value);
    Py_XSETREF(T(tensor, field), value);
}

/* Memory of tensors that are gone, for the next ones: loops make and drop one after the other. */
enum { MOST_FREE = 64 };
static PyObject *unused[MOST_FREE];
static int n_unused;

static PyObject *allocated(PyTypeObject *type, Py_ssize_t n) {
    if (type != tensor_type || !n_unused) return PyType_GenericAlloc(type, n);
    PyObject *made = PyObject_Init(unused[--n_unused], type);
    PyObject_GC_Track(made);
    return made;
}

/* A tensor with nothing in its slots. */
static PyObject *blank(void) { return allocated(tensor_type, 0); }

/* What the deallocation of a class with slots does; of subclasses what is theirs is gone already. */
static void gone(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (AT(self, type->tp_weaklistoffset)) PyObject_ClearWeakRefs(self);
    for (int field = 0; field < N_TENSOR; field++) Py_CLEAR(T(self, field));
    if (type == tensor_type && n_unused < MOST_FREE) unused[n_unused++] = self;
    else type->tp_free(self);
    Py_DECREF(type);
}

/* A tensor around values (stolen): one of its own, or a view of a cell. */
static PyObject *wrapped(PyObject *values, PyObject *session, PyObject *cell, PyObject *from) {
    if (!values) return NULL;
    PyObject *shape, *dtype;
    if (is_bfloat16(values)) { /* never one of its own */
        PyObject *made = PyObject_CallFunctionObjArgs(small_tensor, session, values, NULL);
        Py_DECREF(values);
        return made;
    }
    int is_value = !PyArray_CheckExact(values); /* what NumPy gives as a scalar */
    if (!is_value) {
        PyArrayObject *array = (PyArrayObject *)values;
        shape = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array));
        dtype = (PyObject *)PyArray_DESCR(array);
        Py_INCREF(dtype);
    } else {
        shape = empty;
        Py_INCREF(shape);
        dtype = dtype_of(values);
    }
    PyObject *made = shape && dtype ? blank() : NULL;
    if (!made) {
        Py_XDECREF(shape), Py_XDECREF(dtype), Py_DECREF(values);
        return NULL;
    }
    T(made, SHAPE) = shape;
    T(made, DTYPE) = dtype;
    T(made, SEEN) = values;
    put(made, OWNER, cell ? Py_None : session);
    put(made, SEEN_OF, cell ? V(C(cell, C_VERSION), V_HOST) : Py_None);
    if (cell) put(made, CELL, cell);
    put(made, LAZY_VIEW, cell ? unknown : Py_None);
    put(made, FROZEN, from ? T(from, FROZEN) : Py_False);
    put(made, IS_VALUE, is_value ? Py_True : Py_False);
    put(made, LENT, empty);
    put(made, INDEX, Py_None);
    return made;
}
