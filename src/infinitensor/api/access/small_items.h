/* `tensor[index]` for integers, slices and few indices of a small part on the host, and views of what is
   large or waits. As `api/access/small_items.py`, before `small_calls.c`. NULL without an error: Python has to look. */

/* Borrowed: the scalar that a tensor of its own is. */
static PyObject *scalar(PyObject *self) {
    PyObject *values = IS(T(self, OWNER)) ? T(self, SEEN) : NULL;
    return values && is_scalar(values) ? values : NULL;
}

enum { IN_DOUBT, PLAIN, WITH_TENSORS };

static int kind_of_end(PyObject *x) {
    if (x == Py_None || is_integer(x)) return PLAIN;
    PyObject *number = Py_TYPE(x) == tensor_type ? scalar(x) : NULL;
    return number && PyArray_IsScalar(number, Integer) ? WITH_TENSORS : IN_DOUBT;
}

static int both(int a, int b) { return a && b ? (a > b ? a : b) : IN_DOUBT; }

/* A slice's ends may be the user's own, whose __index__ could change the tensor meanwhile. */
static int kind_of_item(PyObject *x) {
    if (!PySlice_Check(x)) return x == Py_Ellipsis ? PLAIN : kind_of_end(x);
    PySliceObject *slice = (PySliceObject *)x;
    return both(kind_of_end(slice->start), both(kind_of_end(slice->stop), kind_of_end(slice->step)));
}

/* Of integers and slices, an ellipsis and None; or with tensors that are an integer each. */
static int kind_of_index(PyObject *index) {
    if (!PyTuple_CheckExact(index)) return kind_of_item(index);
    int kind = PLAIN;
    for (Py_ssize_t i = 0; kind && i < PyTuple_GET_SIZE(index); i++)
        kind = both(kind, kind_of_item(PyTuple_GET_ITEM(index, i)));
    return kind;
}

static PyObject *plain_item(PyObject *item) {
    return Py_TYPE(item) == tensor_type ? PyNumber_Index(scalar(item)) : Py_NewRef(item);
}

/* New: the index with integers where it has tensors; the ends of slices are asked for theirs by NumPy. */
static PyObject *plain_index(PyObject *index) {
    if (!PyTuple_CheckExact(index)) return plain_item(index);
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(index));
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(index); i++) {
        PyObject *item = plain_item(PyTuple_GET_ITEM(index, i));
        if (item) PyTuple_SET_ITEM(made, i, item);
        else Py_CLEAR(made);
    }
    return made;
}

static int is_element(PyObject *index, int ndim) {
    if (!PyTuple_CheckExact(index)) return ndim == 1 && is_integer(index);
    if (PyTuple_GET_SIZE(index) != ndim) return 0;
    for (Py_ssize_t i = 0; i < ndim; i++)
        if (!is_integer(PyTuple_GET_ITEM(index, i))) return 0;
    return 1;
}

/* Elements of one of n at m indices; whether all are within. */
#define TAKE_WORDS(T)                                                                   \
    {                                                                                   \
        T *made = to;                                                                   \
        for (npy_intp i = 0; i < m; i++) {                                              \
            const int64_t place = index[i] + (n & (index[i] >> 63));                    \
            const int is_out = (uint64_t)place >= (uint64_t)n;                          \
            wrong |= is_out;                                                            \
            made[i] = ((const T *)from)[is_out ? 0 : place];                            \
        }                                                                               \
        return !wrong;                                                                  \
    }
static int take_words(const void *from, int64_t n, const int64_t *index, npy_intp m, int width, void *to) {
    int wrong = 0;
    switch (width) {
    case 1: TAKE_WORDS(uint8_t)
    case 2: TAKE_WORDS(uint16_t)
    case 4: TAKE_WORDS(uint32_t)
    default: TAKE_WORDS(uint64_t)
    }
}
#undef TAKE_WORDS

/* New: elements of a vector at indices; NULL, without an error, where they are no words or an index is not within. */
static PyObject *taken_words(PyArrayObject *from, PyArrayObject *at) {
    const npy_intp width = PyArray_ITEMSIZE(from);
    const int is_word = width == 1 || width == 2 || width == 4 || width == 8;
    if (PyArray_NDIM(from) != 1 || !is_word || !PyArray_ISCARRAY_RO(at) || !PyArray_ISALIGNED(from)) return NULL;
    PyArray_Descr *dtype = PyArray_DESCR(from);
    Py_INCREF(dtype);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, dtype, PyArray_NDIM(at), PyArray_DIMS(at), NULL, NULL, 0, NULL);
    if (!made) {
        PyErr_Clear();
        return NULL;
    }
    if (!take_words(PyArray_DATA(from), PyArray_DIM(from, 0), PyArray_DATA(at), PyArray_SIZE(at), (int)width,
                    PyArray_DATA((PyArrayObject *)made)))
        Py_CLEAR(made);
    return made;
}

/* New: `values[index]` for a vector of indices, or more of them; NULL as ever. */
static PyObject *gathered(PyObject *tensor, PyObject *index, npy_intp limit) {
    PyObject *values = seen(tensor), *places = seen(index);
    if (!values || !places || !PyArray_CheckExact(values) || !PyArray_CheckExact(places)) return NULL;
    PyArrayObject *from = (PyArrayObject *)values, *at = (PyArrayObject *)places;
    if (PyArray_DESCR(at)->type_num != NPY_INT64 || !PyArray_NDIM(at) || !PyArray_NDIM(from)) return NULL;
    if (!PyArray_IS_C_CONTIGUOUS(from) || !PyArray_SIZE(from) || PyArray_SIZE(at) > limit) return NULL;
    PyObject *session = session_of(tensor);
    if (PyArray_SIZE(from) / PyArray_DIM(from, 0) * PyArray_SIZE(at) > limit || session_of(index) != session) return NULL;
    Py_INCREF(values), Py_INCREF(places), Py_INCREF(session);
    PyObject *made = taken_words(from, at);
    if (!made) made = PyArray_TakeFrom(from, places, 0, NULL, NPY_RAISE);
    if (!made) PyErr_Clear(); /* Python's has the better words */
    else if (count(session, READ)) Py_CLEAR(made);
    Py_DECREF(values), Py_DECREF(places);
    made = wrapped(made, session, NULL, NULL);
    Py_DECREF(session);
    return made;
}

/* A view of `tensor` that shows `found`, a part of the `values` that it shows itself; takes `found`. */
static PyObject *shown(PyObject *tensor, PyObject *values, PyObject *found, npy_intp limit) {
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
    PyObject *made = wrapped(found, NULL, cell, tensor);
    Py_DECREF(cell);
    return made;
}

static PyObject *got_plain(PyObject *tensor, PyObject *index, npy_intp limit, int is_own) {
    PyObject *values = seen(tensor);
    if (!values || !PyArray_CheckExact(values)) return NULL;
    Py_INCREF(values); /* what is allocated may start the collector, and that a __del__ */
    PyObject *found = element_of((PyArrayObject *)values, index);
    if (!found && !PyErr_Occurred()) found = PyObject_GetItem(values, index);
    Py_DECREF(values);
    if (!found) return NULL;
    if (!PyArray_CheckExact(found)) {
        PyObject *session = session_of(tensor);
        if (size_of(found) < 0 || count(session, READ)) Py_CLEAR(found);
        return wrapped(found, session, NULL, NULL);
    }
    PyObject *made = shown(tensor, values, found, limit);
    if (made && is_own && T(tensor, LAZY_VIEW) == Py_None) put(made, INDEX, index);
    return made;
}

/* transposed(tensor): the axes of a small tensor on the host reversed, a view; None: Python has to look. */
static PyObject *do_transposed(PyObject *Py_UNUSED(module), PyObject *tensor) {
    const npy_intp limit = limit_now();
    PyObject *values = limit > 0 && T(tensor, IS_VALUE) != Py_True ? seen(tensor) : NULL;
    if (!values || !PyArray_CheckExact(values)) Py_RETURN_NONE;
    Py_INCREF(values);
    PyObject *found = PyArray_Transpose((PyArrayObject *)values, NULL);
    Py_DECREF(values);
    PyObject *made = found ? shown(tensor, values, found, limit) : NULL;
    if (!made && !PyErr_Occurred()) Py_RETURN_NONE;
    return made;
}

/* The values of a small tensor that has some, and is no scalar; held. */
static PyObject *held_values(PyObject *tensor, npy_intp limit) {
    if (limit <= 0 || Py_TYPE(tensor) != tensor_type || T(tensor, IS_VALUE) == Py_True) return NULL;
    PyObject *values = seen(tensor);
    if (!values || !PyArray_CheckExact(values)) return NULL;
    const npy_intp n = PyArray_SIZE((PyArrayObject *)values);
    return n > 0 && n <= limit ? Py_NewRef(values) : NULL;
}

/* What was made of one, or None where there is nothing, or NumPy has something to say: Python has the better words. */
static PyObject *or_none(PyObject *made) {
    if (made) return made;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* viewed(tensor, change, *args): what `change` makes of the values of a small tensor, where it is a view; else None. */
static PyObject *do_viewed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    enum { MOST_OPTIONS = 4 };
    const npy_intp limit = limit_now();
    PyObject *given[1 + MOST_OPTIONS], *tensor = args[0];
    if (n < 2 || n > 2 + MOST_OPTIONS || !(given[0] = held_values(tensor, limit))) Py_RETURN_NONE;
    for (Py_ssize_t i = 2; i < n; i++) given[i - 1] = args[i];
    PyObject *found = PyObject_Vectorcall(args[1], given, n - 1, NULL);
    if (found && (!PyArray_CheckExact(found) || !PyArray_SIZE((PyArrayObject *)found) ||
                  are_apart((PyArrayObject *)found, (PyArrayObject *)given[0])))
        Py_CLEAR(found); /* a copy */
    PyObject *made = found ? shown(tensor, given[0], found, limit) : NULL;
    Py_DECREF(given[0]);
    return or_none(made);
}

/* The lengths that integers, or a tuple of them, say; 0: Python has to look. */
static int are_lengths(PyObject *shape, npy_intp *lengths, int *n) {
    if (PyTuple_GET_SIZE(shape) == 1 && PyTuple_CheckExact(PyTuple_GET_ITEM(shape, 0))) shape = PyTuple_GET_ITEM(shape, 0);
    *n = (int)PyTuple_GET_SIZE(shape);
    if (*n < 1 || *n > NPY_MAXDIMS) return 0;
    for (int a = 0; a < *n; a++) {
        PyObject *length = PyTuple_GET_ITEM(shape, a);
        int overflow;
        if (!PyLong_CheckExact(length)) return 0;
        lengths[a] = PyLong_AsLongAndOverflow(length, &overflow);
        if (overflow || lengths[a] < -1) return 0;
    }
    return 1;
}

/* reshaped(tensor, shape): a view of a small tensor in C order; else None. */
static PyObject *do_reshaped(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    const npy_intp limit = limit_now();
    npy_intp lengths[NPY_MAXDIMS];
    PyArray_Dims shape = {lengths, 0};
    if (n != 2 || !PyTuple_CheckExact(args[1]) || !are_lengths(args[1], lengths, &shape.len)) Py_RETURN_NONE;
    PyObject *values = held_values(args[0], limit), *found = NULL;
    if (!values) Py_RETURN_NONE;
    if (PyArray_IS_C_CONTIGUOUS((PyArrayObject *)values)) found = PyArray_Newshape((PyArrayObject *)values, &shape, NPY_CORDER);
    PyObject *made = found ? shown(args[0], values, found, limit) : NULL;
    Py_DECREF(values);
    return or_none(made);
}

/* What was made of a small tensor as one of its own, a call of NumPy's; None where there is nothing. */
static PyObject *made_of(PyObject *tensor, PyObject *made) {
    if (made && count(session_of(tensor), NUMPY)) Py_CLEAR(made);
    return or_none(wrapped(made, session_of(tensor), NULL, NULL));
}

/* own_copy(tensor, is_flat): a small tensor of its own with the same values, in one axis if that is asked; else None. */
static PyObject *do_own_copy(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    PyObject *values = n == 2 ? held_values(args[0], limit_now()) : NULL;
    if (!values) Py_RETURN_NONE;
    PyArrayObject *x = (PyArrayObject *)values;
    PyObject *made = args[1] == Py_True ? PyArray_Flatten(x, NPY_CORDER) : PyArray_NewCopy(x, NPY_CORDER);
    Py_DECREF(values);
    return made_of(args[0], made);
}

/* A dtype of those that every tensor may have, but bfloat16, in the order of this machine; NULL: Python has to look. */
static PyArray_Descr *plain_dtype(PyObject *given) {
    const int is_scalars = PyType_Check(given) && PyType_IsSubtype((PyTypeObject *)given, &PyGenericArrType_Type);
    PyArray_Descr *dtype = NULL;
    if (!is_scalars && !PyArray_DescrCheck(given)) return NULL;
    if (PyArray_DescrConverter(given, &dtype) != NPY_SUCCEED) return NULL;
    const int type = dtype->type_num, is_long = type == NPY_LONGDOUBLE || type == NPY_CLONGDOUBLE;
    const int is_other = type == NPY_LONGLONG || type == NPY_ULONGLONG;
    if (PyArray_ISNBO(dtype->byteorder) && !is_long && !is_other && (PyTypeNum_ISNUMBER(type) || PyTypeNum_ISBOOL(type))) return dtype;
    Py_DECREF(dtype);
    return NULL;
}

/* Values in C order as another dtype; of halves and floats by the instructions for it. */
static PyObject *cast_to(PyArrayObject *x, PyArray_Descr *dtype) {
    const int from = array_type(x), to = dtype->type_num;
    const int is_wider = from == NPY_HALF && to == NPY_FLOAT, is_narrower = from == NPY_FLOAT && to == NPY_HALF;
    if (half_casts[0] && PyArray_ISBEHAVED_RO(x) && (is_wider || is_narrower)) {
        PyObject *made = PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), to);
        if (!made) return NULL;
        void *into = PyArray_DATA((PyArrayObject *)made);
        if (is_wider) ((Widener)half_casts[0])(PyArray_DATA(x), into, PyArray_SIZE(x));
        else ((Narrower)half_casts[1])(PyArray_DATA(x), into, PyArray_SIZE(x));
        return made;
    }
    PyObject *token = PyContextVar_Set(silence, silent);
    if (!token) return NULL;
    Py_INCREF(dtype);
    PyObject *made = PyArray_CastToType(x, dtype, 0);
    PyContextVar_Reset(silence, token);
    Py_DECREF(token);
    return made;
}

/* cast(tensor, dtype): a small tensor of its own, of another dtype or the same; else None. */
static PyObject *do_cast(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    PyArray_Descr *dtype = n == 2 ? plain_dtype(args[1]) : NULL;
    PyObject *values = dtype ? held_values(args[0], limit_now()) : NULL, *made = NULL;
    PyArrayObject *x = (PyArrayObject *)values;
    if (values && PyArray_IS_C_CONTIGUOUS(x) && !PyArray_ISCOMPLEX(x))
        made = dtype->type_num == array_type(x) ? PyArray_NewCopy(x, NPY_CORDER) : cast_to(x, dtype);
    Py_XDECREF(dtype), Py_XDECREF(values);
    return made ? made_of(args[0], made) : or_none(NULL);
}

static PyObject *got(PyObject *tensor, PyObject *index) {
    npy_intp limit = limit_now();
    if (limit <= 0 || T(tensor, IS_VALUE) == Py_True) return NULL; /* a scalar has no views */
    int kind = kind_of_index(index);
    if (kind == PLAIN) return got_plain(tensor, index, limit, 1);
    if (kind == IN_DOUBT) return Py_TYPE(index) == tensor_type ? gathered(tensor, index, limit) : NULL;
    PyObject *plain = plain_index(index); /* a tensor may be another number by the time it is asked again */
    PyObject *made = plain ? got_plain(tensor, plain, limit, 0) : NULL;
    Py_XDECREF(plain);
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
    if (view && (made = blank())) {
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
