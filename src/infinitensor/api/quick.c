/* `Quick.made` and `of_two` of `api/quick.py` for the plain case: a call known before, of tensors and Python's
   numbers, with one result that waits; and writes that wait. Whatever else there is, or is in doubt, goes to the Python
   method (`slow`), which is complete without this. */

enum { T_CELL, T_DTYPE, T_FROZEN, T_INDEX, T_IS_VALUE, T_LAZY_VIEW, T_LENT, T_OWNER, T_SEEN,
       T_SEEN_OF, T_SHAPE, N_TENSOR };
enum { V_DTYPE, V_EXPORTED, V_HOST, V_LIVE, V_NODE, V_OPENED, V_OUT, V_READERS, V_SESSION, V_SHAPE,
       V_TABLE, N_VERSION };
enum { C_SESSION, C_VERSION, N_CELL };
enum { O_ACCESSES, O_ALIVE, O_CALL, O_INPUTS, O_OP, O_OUTS, O_REGION, O_SEQ, O_SHAPES, O_SITE,
       O_STOPPED, N_NODE };
enum { S_CODE, S_LASTI, N_SITE };
enum { Q_KNOWN, Q_OP, Q_SCALARS, N_QUICK };
enum { K_CALL, K_DTYPE, K_LARGEST, K_MAKERS, K_BYTES, K_SHAPE, K_SHAPES, N_KNOWN };
enum { G_BYTES, G_NODES, G_SMALL, N_CONFIG };

/* One type with the places of its slots. */
typedef struct {
    PyTypeObject *type;
    Py_ssize_t at[16];
} Slots;
static Slots tensor, version, cell, node, site, quick, known, config_slots;

static PyObject *config, *unknown, *structure, *ours, *places, *lane, *generation, *no_views;
static PyObject *slow, *slow_of_two, *empty, *no_options, *zero, *one, *minus_one, *package;
static PyObject *n_writes, *n_append, *n_closed, *n_dropped, *n_graveyard, *n_seq, *n_waiting, *n_cut, *n_tape, *n_lock,
    *n_acquire, *n_release, *n_generation, *n_in_task, *n_drain, *n_name;
static long few, many, medium;

#define AT(object, slots, field) (*(PyObject **)((char *)(object) + (slots).at[field]))
#define IS(object) ((object) != NULL && (object) != Py_None)

static void put(PyObject *object, Slots *slots, int field, PyObject *value) {
    Py_INCREF(value);
    Py_XSETREF(AT(object, *slots, field), value);
}

/* `object.field += by`; 0 if it went well. */
static int add(PyObject *object, Slots *slots, int field, PyObject *by) {
    PyObject *before = AT(object, *slots, field);
    PyObject *after = before ? PyNumber_Add(before, by) : NULL;
    if (!after) return -1;
    Py_SETREF(AT(object, *slots, field), after);
    return 0;
}

static int add_attribute(PyObject *object, PyObject *name, PyObject *by) {
    PyObject *before = PyObject_GetAttr(object, name);
    PyObject *after = before ? PyNumber_Add(before, by) : NULL;
    int bad = !after || PyObject_SetAttr(object, name, after);
    Py_XDECREF(before), Py_XDECREF(after);
    return bad;
}

/* 1: it is true, 0: it is not, -1: an error. */
static int truth_of(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    int is = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is;
}

static Py_ssize_t length_of(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    Py_ssize_t n = value ? PyObject_Size(value) : -1;
    Py_XDECREF(value);
    return n;
}

/* A setting that is a plain integer; -1 for others, which Python compares with. */
static long setting(int field) {
    PyObject *value = AT(config, config_slots, field);
    int overflow;
    long n = value && PyLong_CheckExact(value) ? PyLong_AsLongAndOverflow(value, &overflow) : -1;
    return n < 0 ? -1 : n;
}

static PyObject *session_of(PyObject *x) {
    PyObject *owner = AT(x, tensor, T_OWNER);
    if (IS(owner)) return owner;
    PyObject *held = AT(x, tensor, T_CELL);
    return IS(held) ? AT(held, cell, C_SESSION) : NULL;
}

/* New: what a call is known by, as `Quick._key` makes it. */
static PyObject *key_of(PyObject *args, PyObject *options, int takes_scalars) {
    Py_ssize_t n = PyTuple_GET_SIZE(args), m = 3 * PyDict_GET_SIZE(options);
    for (Py_ssize_t i = 0; i < n; i++)
        m += 2 - (takes_scalars && Py_TYPE(PyTuple_GET_ITEM(args, i)) != tensor.type);
    PyObject *key = PyTuple_New(m);
    if (!key) return NULL;
    m = 0;
#define PUT(value) (Py_INCREF(value), PyTuple_SET_ITEM(key, m++, value))
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (Py_TYPE(x) == tensor.type) {
            PUT(AT(x, tensor, T_SHAPE));
            PUT(AT(x, tensor, T_DTYPE));
        } else {
            PUT((PyObject *)Py_TYPE(x));
            if (!takes_scalars) PUT(x);
        }
    }
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(options, &at, &name, &value);) {
        PUT(name);
        PUT((PyObject *)Py_TYPE(value));
        PUT(value);
    }
#undef PUT
    return key;
}

/* Whether a module is ours, by its globals; those are remembered by their address. */
static int is_ours(PyObject *globals) {
    PyObject *address = PyLong_FromVoidPtr(globals);
    int found = address ? PySet_Contains(ours, address) : -1;
    if (!found) {
        PyObject *name = PyDict_GetItemWithError(globals, n_name);
        if (name && PyUnicode_Check(name)) {
            Py_ssize_t n = PyUnicode_GET_LENGTH(package);
            found = PyUnicode_Tailmatch(name, package, 0, n, -1) == 1 &&
                    (PyUnicode_GET_LENGTH(name) == n || PyUnicode_READ_CHAR(name, n) == '.');
        } else if (PyErr_Occurred()) {
            found = -1;
        }
        PyObject *modules = found == 1 ? PyImport_GetModule(name) : NULL;
        if (modules && PyModule_Check(modules) && PyModule_GetDict(modules) == globals)
            PySet_Add(ours, address);
        Py_XDECREF(modules);
        PyErr_Clear(); /* it is only not remembered */
    }
    Py_XDECREF(address);
    return found;
}

/* New: the innermost call that is not ours. */
static PyObject *user_site(void) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        PyObject *globals = PyFrame_GetGlobals(frame);
        int is = is_ours(globals);
        Py_DECREF(globals);
        PyFrameObject *back = is == 1 ? PyFrame_GetBack(frame) : NULL;
        if (is < 0) {
            Py_DECREF(frame);
            return NULL;
        }
        if (!back) break;
        Py_SETREF(frame, back);
    }
    PyObject *made = frame ? site.type->tp_alloc(site.type, 0) : NULL;
    if (made) {
        AT(made, site, S_CODE) = (PyObject *)PyFrame_GetCode(frame);
        AT(made, site, S_LASTI) = PyLong_FromLong(PyFrame_GetLasti(frame));
    }
    Py_XDECREF(frame);
    return made;
}

/* Operands as a node holds them, and their accesses (NULL: all are read whole). 1: done, 0: not a
   case for here, -1: an error. */
static int operands(PyObject *self, PyObject *found, PyObject *session, PyObject *args,
                    PyObject **inputs, PyObject **accesses) {
    int takes_scalars = AT(self, quick, Q_SCALARS) == Py_True, is_large = 0;
    PyObject *makers = AT(found, known, K_MAKERS);
    Py_ssize_t n = PyTuple_GET_SIZE(args), m = PyTuple_GET_SIZE(AT(found, known, K_SHAPES)), k = 0;
    *accesses = NULL;
    if (m >= PyTuple_GET_SIZE(no_views)) return 0;
    if (!(*inputs = PyTuple_New(m))) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i), *given;
        if (Py_TYPE(x) != tensor.type) {
            if (!takes_scalars) continue;
            if (k >= m || i >= PyTuple_GET_SIZE(makers)) return 0;
            if (!(given = PyObject_CallOneArg(PyTuple_GET_ITEM(makers, i), x))) return -1;
            PyTuple_SET_ITEM(*inputs, k++, given);
            continue;
        }
        PyObject *held = AT(x, tensor, T_CELL), *view = AT(x, tensor, T_LAZY_VIEW);
        if (k >= m || !IS(held) || view == unknown) return 0;
        given = AT(held, cell, C_VERSION);
        if (AT(given, version, V_SESSION) != session) return 0;
        if (IS(AT(given, version, V_TABLE)) || !IS(AT(given, version, V_HOST))) is_large = 1;
        Py_INCREF(given);
        PyTuple_SET_ITEM(*inputs, k, given);
        if (view != Py_None) {
            PyObject *access = PyObject_CallOneArg(structure, view);
            if (!access) return -1;
            if (access != Py_None && !*accesses) {
                *accesses = PyTuple_New(m);
                for (Py_ssize_t j = 0; *accesses && j < m; j++) {
                    Py_INCREF(Py_None);
                    PyTuple_SET_ITEM(*accesses, j, Py_None);
                }
            }
            if (access == Py_None || !*accesses) {
                int is = access == Py_None ? 0 : -1;
                Py_DECREF(access);
                return is;
            }
            PyTuple_SetItem(*accesses, k, access);
        }
        k++;
    }
    return is_large && k == m;
}

static PyObject *allocated(Slots *slots) { return slots->type->tp_alloc(slots->type, 0); }

/* New: the node of a call. */
static PyObject *node_of(PyObject *op, PyObject *found, PyObject *inputs, PyObject *accesses,
                         PyObject *where, PyObject *seq, PyObject *region) {
    PyObject *made = allocated(&node);
    if (!made) return NULL;
    put(made, &node, O_OP, op);
    put(made, &node, O_CALL, AT(found, known, K_CALL));
    put(made, &node, O_SHAPES, AT(found, known, K_SHAPES));
    put(made, &node, O_SITE, where);
    put(made, &node, O_SEQ, seq);
    put(made, &node, O_REGION, region);
    put(made, &node, O_STOPPED, Py_None);
    put(made, &node, O_ALIVE, one);
    put(made, &node, O_INPUTS, inputs);
    put(made, &node, O_ACCESSES,
        accesses ? accesses : PyTuple_GET_ITEM(no_views, PyTuple_GET_SIZE(inputs)));
    return made;
}

static PyObject *version_of(PyObject *session, PyObject *found, PyObject *from) {
    PyObject *made = allocated(&version);
    if (!made) return NULL;
    put(made, &version, V_SESSION, session);
    put(made, &version, V_SHAPE, AT(found, known, K_SHAPE));
    put(made, &version, V_DTYPE, AT(found, known, K_DTYPE));
    put(made, &version, V_NODE, from);
    static const int zeros[] = {V_OUT, V_LIVE, V_READERS, V_EXPORTED};
    static const int nones[] = {V_HOST, V_TABLE, V_OPENED};
    for (int i = 0; i < 4; i++) put(made, &version, zeros[i], zero);
    for (int i = 0; i < 3; i++) put(made, &version, nones[i], Py_None);
    put(made, &version, V_LIVE, one); /* its cell shows it */
    return made;
}

/* New: the version that a node makes; it is on the tape. */
static PyObject *taped(PyObject *session, PyObject *found, PyObject *from) {
    PyObject *of = version_of(session, found, from), *tape = PyObject_GetAttr(session, n_tape);
    PyObject *ref = of ? PyWeakref_NewRef(of, NULL) : NULL, *outs = ref ? PyTuple_Pack(1, ref) : NULL;
    if (outs) put(from, &node, O_OUTS, outs);
    int bad = !outs || !tape || PyList_Append(tape, ref);
    Py_XDECREF(tape), Py_XDECREF(ref), Py_XDECREF(outs);
    if (bad) Py_CLEAR(of);
    return of;
}

static PyObject *tensor_of(PyObject *session, PyObject *of) {
    PyObject *held = allocated(&cell);
    if (!held) return NULL;
    put(held, &cell, C_SESSION, session);
    put(held, &cell, C_VERSION, of);
    PyObject *made = allocated(&tensor);
    if (made) {
        put(made, &tensor, T_CELL, held);
        put(made, &tensor, T_SHAPE, AT(of, version, V_SHAPE));
        put(made, &tensor, T_DTYPE, AT(of, version, V_DTYPE));
        put(made, &tensor, T_LENT, empty);
        put(made, &tensor, T_FROZEN, Py_False);
        put(made, &tensor, T_IS_VALUE, Py_False);
        static const int nones[] = {T_LAZY_VIEW, T_SEEN, T_SEEN_OF, T_OWNER, T_INDEX};
        for (int i = 0; i < 5; i++) put(made, &tensor, nones[i], Py_None);
    }
    Py_DECREF(held);
    return made;
}

/* Whether something may have to be evaluated first: then Python decides. 1: plain, 0: not, -1. */
static int is_plain(PyObject *session, PyObject *found) {
    PyObject *tape = PyObject_GetAttr(session, n_tape);
    PyObject *waiting = tape ? PyObject_GetAttr(session, n_waiting) : NULL;
    PyObject *bytes = waiting ? PyNumber_Add(waiting, AT(found, known, K_BYTES)) : NULL;
    int plain = -1;
    if (bytes) {
        Py_ssize_t n = PyList_GET_SIZE(tape) + 1;
        int many = PyObject_RichCompareBool(bytes, AT(config, config_slots, G_BYTES), Py_GT);
        long limit = setting(G_NODES);
        plain = many < 0 ? -1 : n <= limit && (!many || n < few);
    }
    Py_XDECREF(tape), Py_XDECREF(waiting), Py_XDECREF(bytes);
    if (plain == 1) {
        int is = truth_of(session, n_cut);
        plain = is < 0 ? -1 : !is;
    }
    return plain;
}

/* Whether a call at this place is better run than recorded, as far as the place says; -1: an error. */
static int is_hasty(PyObject *where, PyObject *found) {
    if (!PyDict_GET_SIZE(places) || PyLong_AsLong(AT(found, known, K_LARGEST)) > medium) return 0;
    PyObject *key = PyTuple_Pack(2, AT(where, site, S_CODE), AT(where, site, S_LASTI));
    PyObject *times = key ? PyDict_GetItemWithError(places, key) : NULL;
    Py_XDECREF(key);
    return times ? PyLong_AsLong(times) > 1 : PyErr_Occurred() ? -1 : 0;
}

/* New: the tensor of a call that waits; Py_None: Python has to look. The lock is held. */
static PyObject *waiting(PyObject *self, PyObject *found, PyObject *session, PyObject *args) {
    PyObject *inputs = NULL, *accesses = NULL, *where = NULL, *made = NULL, *of = NULL,
             *from = NULL, *seq = NULL;
    int is = truth_of(session, n_closed);
    if (is) return is < 0 ? NULL : Py_NewRef(Py_None);
    is = is_plain(session, found);
    if (is == 1) is = operands(self, found, session, args, &inputs, &accesses);
    if (is != 1) {
        if (is == 0) made = Py_NewRef(Py_None);
        goto end;
    }
    Py_ssize_t dropped = length_of(session, n_dropped), gone = length_of(session, n_graveyard);
    if (dropped < 0 || gone < 0) goto end;
    if (dropped > many || gone > many) {
        PyObject *none = PyObject_CallMethodNoArgs(session, n_drain);
        if (!none) goto end;
        Py_DECREF(none);
    }
    if (!(where = user_site())) goto end;
    if ((is = is_hasty(where, found))) {
        if (is > 0) made = Py_NewRef(Py_None);
        goto end;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        PyObject *given = PyTuple_GET_ITEM(inputs, i);
        if (Py_TYPE(given) != version.type) continue;
        if (add(given, &version, V_READERS, one)) goto end;
        put(given, &version, V_OPENED, Py_None);
    }
    if (add_attribute(session, n_seq, one) ||
        add_attribute(session, n_waiting, AT(found, known, K_BYTES)))
        goto end;
    if (!(seq = PyObject_GetAttr(session, n_seq))) goto end;
    if (!(from = node_of(AT(self, quick, Q_OP), found, inputs, accesses, where, seq, Py_None)))
        goto end;
    if (!(of = taped(session, found, from))) goto end;
    made = tensor_of(session, of);
end:
    Py_XDECREF(inputs), Py_XDECREF(accesses), Py_XDECREF(where), Py_XDECREF(of);
    Py_XDECREF(from), Py_XDECREF(seq);
    return made;
}

/* written(known, op, region, tensor, operand, access, site): the cell of a tensor shows a next
   version, with an operand (a version or a scalar) written to a region. The lock is held. False,
   and nothing done, where Python has to look. */
static PyObject *written(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    if (n != 7 || Py_TYPE(given[0]) != known.type || Py_TYPE(given[3]) != tensor.type)
        Py_RETURN_FALSE;
    PyObject *found = given[0], *operand = given[4], *where = given[6];
    PyObject *held = AT(given[3], tensor, T_CELL);
    if (!IS(held)) Py_RETURN_FALSE;
    PyObject *base = AT(held, cell, C_VERSION), *session = AT(held, cell, C_SESSION);
    int is = truth_of(session, n_closed);
    if (!is) is = is_plain(session, found) - 1;
    Py_ssize_t dropped = is ? 0 : length_of(session, n_dropped);
    Py_ssize_t gone = is ? 0 : length_of(session, n_graveyard);
    if (PyErr_Occurred()) return NULL;
    if (is || dropped > many || gone > many) Py_RETURN_FALSE;
    PyObject *inputs = PyTuple_Pack(2, base, operand), *seq = NULL, *from = NULL, *of = NULL;
    PyObject *accesses = given[5] == Py_None ? NULL : PyTuple_Pack(2, Py_None, given[5]);
    if (!inputs || (!accesses && given[5] != Py_None)) goto end;
    for (int i = 0; i < 2; i++) {
        PyObject *read = PyTuple_GET_ITEM(inputs, i);
        if (Py_TYPE(read) != version.type) continue;
        if (add(read, &version, V_READERS, one)) goto end;
        put(read, &version, V_OPENED, Py_None);
    }
    if (PyObject_SetAttr(session, n_writes, Py_True) || add_attribute(session, n_seq, one)) goto end;
    if (!(seq = PyObject_GetAttr(session, n_seq))) goto end;
    if (!(from = node_of(given[1], found, inputs, accesses, where, seq, given[2]))) goto end;
    if (!(of = taped(session, found, from)) || add(base, &version, V_LIVE, minus_one)) goto end;
    put(held, &cell, C_VERSION, of);
end:
    Py_XDECREF(inputs), Py_XDECREF(accesses), Py_XDECREF(seq), Py_XDECREF(from), Py_XDECREF(of);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_TRUE;
}

/* The same under the session's lock, as `Session.guard` gives it. */
static PyObject *guarded(PyObject *self, PyObject *found, PyObject *session, PyObject *args) {
    int busy = truth_of(lane, n_in_task);
    PyObject *mine = busy ? NULL : PyObject_GetAttr(session, n_generation);
    int same = mine ? PyObject_RichCompareBool(mine, PyList_GET_ITEM(generation, 0), Py_EQ) : 0;
    Py_XDECREF(mine);
    if (busy < 0 || same < 0 || PyErr_Occurred()) return NULL;
    if (busy || !same) Py_RETURN_NONE;
    PyObject *lock = PyObject_GetAttr(session, n_lock);
    PyObject *got = lock ? PyObject_CallMethodNoArgs(lock, n_acquire) : NULL;
    if (!got) {
        Py_XDECREF(lock);
        return NULL;
    }
    Py_DECREF(got);
    PyObject *made = waiting(self, found, session, args);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    got = PyObject_CallMethodNoArgs(lock, n_release);
    Py_XDECREF(got);
    if (type) PyErr_Restore(type, value, trace);
    Py_DECREF(lock);
    return made;
}

/* Whether an operand is more than what is computed at once, or is not at hand. */
static int has_large(PyObject *args, long limit) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (Py_TYPE(x) != tensor.type) continue;
        PyObject *held = IS(AT(x, tensor, T_OWNER)) ? NULL : AT(x, tensor, T_CELL);
        PyObject *of = IS(held) ? AT(held, cell, C_VERSION) : NULL;
        if (of && AT(x, tensor, T_SEEN_OF) != of && !IS(AT(of, version, V_HOST))) return 1;
        PyObject *shape = AT(x, tensor, T_SHAPE);
        double n = 1;
        for (Py_ssize_t a = 0; a < PyTuple_GET_SIZE(shape); a++)
            n *= PyLong_AsDouble(PyTuple_GET_ITEM(shape, a));
        if (n > limit) return 1;
    }
    return 0;
}

/* New: the result, or Py_None where Python has to look. */
static PyObject *tried(PyObject *self, PyObject *args, PyObject *options) {
    PyObject *session = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (Py_TYPE(x) != tensor.type) continue;
        PyObject *home = session_of(x);
        if (!home) Py_RETURN_NONE;
        if (!session) session = home;
    }
    long limit = setting(G_SMALL);
    if (!session || limit < 0) Py_RETURN_NONE;
    PyObject *key = key_of(args, options, AT(self, quick, Q_SCALARS) == Py_True);
    PyObject *found = key ? PyDict_GetItemWithError(AT(self, quick, Q_KNOWN), key) : NULL;
    Py_XDECREF(key);
    if (!found) {
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL; /* Ctrl-C */
        PyErr_Clear(); /* an argument that cannot be looked up */
        Py_RETURN_NONE;
    }
    long largest = PyLong_AsLong(AT(found, known, K_LARGEST));
    if ((largest <= limit && !has_large(args, limit)) || !IS(AT(found, known, K_SHAPE)))
        Py_RETURN_NONE;
    Py_INCREF(session), Py_INCREF(found); /* while others have the lock they may be dropped */
    PyObject *made = guarded(self, found, session, args);
    Py_DECREF(session), Py_DECREF(found);
    return made;
}
/* made(quick, args, options) */
static PyObject *made(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    if (n != 3 || Py_TYPE(given[0]) != quick.type || !PyTuple_CheckExact(given[1]) ||
        !PyDict_CheckExact(given[2]))
        return PyObject_Vectorcall(slow, given, n, NULL);
    PyObject *result = tried(given[0], given[1], given[2]);
    if (result != Py_None) return result;
    Py_DECREF(result);
    return PyObject_Vectorcall(slow, given, n, NULL);
}

/* of_two(quick, a, b) */
static PyObject *of_two(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    if (n == 3 && Py_TYPE(given[0]) == quick.type) {
        PyObject *args = PyTuple_Pack(2, given[1], given[2]);
        PyObject *result = args ? tried(given[0], args, no_options) : NULL;
        Py_XDECREF(args);
        if (result != Py_None) return result;
        Py_DECREF(result);
    }
    return PyObject_Vectorcall(slow_of_two, given, n, NULL);
}

/* What `__del__` of versions and cells does: something is handed over to the session. */
static void hand_over(PyObject *self, PyObject *session, PyObject *name, PyObject *what) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *list = session ? PyObject_GetAttr(session, name) : NULL;
    PyObject *none = list ? PyObject_CallMethodOneArg(list, n_append, what) : NULL;
    if (!none && PyErr_Occurred()) PyErr_WriteUnraisable(self);
    Py_XDECREF(list), Py_XDECREF(none);
    PyErr_Restore(type, value, trace);
}

static void version_gone(PyObject *self) {
    PyObject *from = AT(self, version, V_NODE);
    if (!IS(from)) return;
    hand_over(self, AT(self, version, V_SESSION), n_graveyard, from);
    put(self, &version, V_NODE, Py_None);
}

static void cell_gone(PyObject *self) {
    PyObject *shown = AT(self, cell, C_VERSION);
    if (shown && (IS(AT(shown, version, V_TABLE)) || !IS(AT(shown, version, V_HOST))))
        hand_over(self, AT(self, cell, C_SESSION), n_dropped, shown);
}

static int replace(PyObject *module, PyObject *type, const char *name) {
    PyObject *function = PyObject_GetAttrString(module, name);
    PyObject *method = function ? PyInstanceMethod_New(function) : NULL; /* others do not bind */
    int bad = !method || PyObject_SetAttrString(type, name, method);
    Py_XDECREF(function), Py_XDECREF(method);
    return bad;
}

static int find(Slots *slots, PyObject *type, const char *const *names, int n) {
    slots->type = (PyTypeObject *)type;
    return find_slots(type, names, slots->at, n);
}

/* install(types, config, UNKNOWN, structure, ours, places, lane, generation, no_views, made,
   of_two, few, many, medium, package) */
static PyObject *install(PyObject *module, PyObject *args) {
    PyObject *types[7];
    if (!PyArg_ParseTuple(args, "(OOOOOOO)OOOOOOOOOOlllO", &types[0], &types[1], &types[2], &types[3],
                          &types[4], &types[5], &types[6], &config, &unknown, &structure, &ours,
                          &places, &lane, &generation, &no_views, &slow, &slow_of_two, &few, &many,
                          &medium, &package))
        return NULL;
    static const char *const of_tensor[] = {"_cell", "_dtype", "_frozen", "_index", "_is_value",
        "_lazy_view", "_lent", "_owner", "_seen", "_seen_of", "_shape"};
    static const char *const of_version[] = {"dtype", "exported", "host", "live", "node", "opened",
        "out", "readers", "session", "shape", "table"};
    static const char *const of_cell[] = {"session", "version"};
    static const char *const of_node[] = {"accesses", "alive", "call", "inputs", "op", "outs",
        "region", "seq", "shapes", "site", "stopped"};
    static const char *const of_site[] = {"code", "lasti"};
    static const char *const of_quick[] = {"known", "op", "takes_scalars"};
    static const char *const of_known[] = {"call", "dtype", "largest", "makers", "n_bytes", "shape",
        "shapes"};
    static const char *const of_config[] = {"max_recorded_bytes", "max_recorded_nodes",
        "small_elements"};
    if (find(&tensor, types[0], of_tensor, N_TENSOR) ||
        find(&version, types[1], of_version, N_VERSION) ||
        find(&cell, types[2], of_cell, N_CELL) || find(&node, types[3], of_node, N_NODE) ||
        find(&site, types[4], of_site, N_SITE) || find(&quick, types[5], of_quick, N_QUICK) ||
        find(&known, types[6], of_known, N_KNOWN) ||
        find(&config_slots, (PyObject *)Py_TYPE(config), of_config, N_CONFIG))
        return NULL;
    Py_INCREF(args); /* all of them stay */
    version.type->tp_finalize = version_gone;
    cell.type->tp_finalize = cell_gone;
    if (replace(module, types[5], "made") || replace(module, types[5], "of_two")) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"install", install, METH_VARARGS, NULL},
    {"made", (PyCFunction)(void (*)(void))made, METH_FASTCALL, NULL},
    {"of_two", (PyCFunction)(void (*)(void))of_two, METH_FASTCALL, NULL},
    {"written", (PyCFunction)(void (*)(void))written, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "infinitensor_quick", NULL, -1,
                                        methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_infinitensor_quick(void) {
    empty = PyTuple_New(0);
    no_options = PyDict_New();
    zero = PyLong_FromLong(0);
    one = PyLong_FromLong(1);
    minus_one = PyLong_FromLong(-1);
    struct { PyObject **name; const char *text; } names[] = {
        {&n_writes, "writes"}, {&n_append, "append"}, {&n_closed, "closed"}, {&n_dropped, "dropped"}, {&n_graveyard, "graveyard"},
        {&n_seq, "seq"}, {&n_waiting, "waiting_bytes"}, {&n_cut, "cut_next"}, {&n_tape, "tape"},
        {&n_lock, "lock"}, {&n_acquire, "acquire"}, {&n_release, "release"},
        {&n_generation, "generation"}, {&n_in_task, "in_task"}, {&n_drain, "drain"},
        {&n_name, "__name__"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*names[i].name = PyUnicode_InternFromString(names[i].text))) return NULL;
    return PyModule_Create(&definition);
}
