/* `Quick.made` of `api/known/known_calls.py` for the plain case: a call known before, of tensors and Python's
   numbers, whose results wait; steps of programs; and writes that wait. Whatever else there is, or is in doubt, goes to the Python
   method (`slow`), which is complete without this. */

#include "api/session/slots.h"
#include "api/known/known_calls.h"

/* Whether an object could say what one of its attributes is. */
static int was_asked(PyObject *x, PyObject *name) {
    PyObject *found = PyObject_GetAttr(x, name);
    Py_XDECREF(found);
    return found != NULL;
}

/* Operands as a node holds them, and their accesses (NULL: all are read whole). 1: done, 0: not a
   case for here, -1: an error. */
static int operands(PyObject *self, PyObject *found, PyObject *session, Args args, PyObject **inputs,
                    PyObject **accesses) {
    int takes_scalars = AT(self, quick, Q_SCALARS) == Py_True;
    int is_large = plain(AT(found, known, K_LARGEST)) > plain(AT(config, config_slots, G_SMALL));
    PyObject *makers = AT(found, known, K_MAKERS);
    Py_ssize_t m = PyTuple_GET_SIZE(AT(found, known, K_SHAPES)), k = 0;
    *accesses = NULL;
    if (m >= PyTuple_GET_SIZE(no_views)) return 0;
    if (!(*inputs = unwatched(PyTuple_New(m)))) return -1;
    for (Py_ssize_t i = 0; i < args.n; i++) {
        PyObject *x = args.items[i], *given;
        if (Py_TYPE(x) != tensor.type) {
            if (!takes_scalars) continue;
            if (k >= m || i >= PyTuple_GET_SIZE(makers)) return 0;
            if (!(given = scalar_of(PyTuple_GET_ITEM(makers, i), x))) return -1;
            PyTuple_SET_ITEM(*inputs, k++, given);
            continue;
        }
        /* of small values Python works out once which cell they are, and which view of it */
        if (!IS(AT(x, tensor, T_CELL)) && !was_asked(x, n_cell)) return -1;
        if (AT(x, tensor, T_LAZY_VIEW) == unknown && !was_asked(x, n_view)) return -1;
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
            if (access == Py_None) { /* no box: a value of its own over the same memory, if that can be */
                Py_DECREF(access);
                PyObject *asked[] = {session, given, view}, *shaped = PyObject_Vectorcall(alias, asked, 3, NULL);
                if (!shaped) return -1;
                PyTuple_SetItem(*inputs, k++, shaped);
                if (shaped == Py_None) return 0;
                continue;
            }
            if (!*accesses) {
                Py_DECREF(access);
                return -1;
            }
            PyTuple_SetItem(*accesses, k, access);
        }
        k++;
    }
    return is_large && k == m;
}

static PyObject *allocated(Slots *slots) { return unwatched(slots->type->tp_alloc(slots->type, 0)); }

/* New: the node of a call. */
static PyObject *node_of(PyObject *op, PyObject *found, PyObject *inputs, PyObject *accesses,
                         PyObject *where, PyObject *seq, PyObject *region) {
    PyObject *made = allocated(&node);
    if (!made) return NULL;
    SET(made, node, O_OP, op);
    SET(made, node, O_CALL, AT(found, known, K_CALL));
    SET(made, node, O_SHAPES, AT(found, known, K_SHAPES));
    SET(made, node, O_SITE, where);
    SET(made, node, O_SEQ, seq);
    SET(made, node, O_REGION, region);
    SET(made, node, O_STOPPED, Py_None);
    SET(made, node, O_ALIVE, one);
    SET(made, node, O_INPUTS, inputs);
    SET(made, node, O_ACCESSES,
        accesses ? accesses : PyTuple_GET_ITEM(no_views, PyTuple_GET_SIZE(inputs)));
    return made;
}

static PyObject *version_of(PyObject *session, PyObject *shape, PyObject *dtype, PyObject *from, PyObject *out) {
    PyObject *made = allocated(&version);
    if (!made) return NULL;
    SET(made, version, V_SESSION, session);
    SET(made, version, V_SHAPE, shape);
    SET(made, version, V_DTYPE, dtype);
    SET(made, version, V_NODE, from);
    SET(made, version, V_OUT, out);
    SET(made, version, V_READERS, zero);
    SET(made, version, V_EXPORTED, zero);
    SET(made, version, V_HOST, Py_None);
    SET(made, version, V_TABLE, Py_None);
    SET(made, version, V_LIVE, one); /* its cell shows it */
    return made;
}

/* A version is on the tape, and the next result of its node; 0 if it went well. */
static int put_on_tape(PyObject *session, PyObject *of, PyObject *outs, Py_ssize_t k) {
    PyObject *ref = unwatched(PyWeakref_NewRef(of, NULL));
    if (!ref) return -1;
    PyTuple_SET_ITEM(outs, k, ref);
    return PyList_Append(AT(session, sessions, S_TAPE), ref);
}

/* New: the version that a node makes; it is on the tape. */
static PyObject *taped(PyObject *session, PyObject *found, PyObject *from) {
    PyObject *of = version_of(session, AT(found, known, K_SHAPE), AT(found, known, K_DTYPE), from, zero);
    PyObject *outs = of ? unwatched(PyTuple_New(1)) : NULL;
    if (outs) AT(from, node, O_OUTS) = outs;
    if (of && (!outs || put_on_tape(session, of, outs, 0))) Py_CLEAR(of);
    return of;
}

static PyObject *tensor_of(PyObject *session, PyObject *of, PyObject *is_value) {
    PyObject *held = allocated(&cell);
    if (!held) return NULL;
    SET(held, cell, C_SESSION, session);
    SET(held, cell, C_VERSION, of);
    PyObject *made = allocated(&tensor);
    if (!made) {
        Py_DECREF(held);
        return NULL;
    }
    AT(made, tensor, T_CELL) = held;
    SET(made, tensor, T_SHAPE, AT(of, version, V_SHAPE));
    SET(made, tensor, T_DTYPE, AT(of, version, V_DTYPE));
    SET(made, tensor, T_LENT, empty);
    SET(made, tensor, T_FROZEN, Py_False);
    SET(made, tensor, T_IS_VALUE, is_value);
    static const int nones[] = {T_LAZY_VIEW, T_SEEN, T_SEEN_OF, T_OWNER, T_INDEX};
    for (int i = 0; i < 5; i++) SET(made, tensor, nones[i], Py_None);
    return made;
}

/* Whether so many calls, which hold more bytes, wait and start nothing: then there is nothing for Python to decide. */
static int are_plain(PyObject *session, Py_ssize_t calls, long long more) {
    Py_ssize_t n = length_of(session, S_TAPE) + calls;
    long long before = plain(AT(session, sessions, S_WAITING)), limit = plain(AT(config, config_slots, G_BYTES));
    if (n < calls || before < 0 || more < 0 || limit < 0) return 0;
    if (AT(session, sessions, S_CLOSED) != Py_False || AT(session, sessions, S_CUT) != Py_False) return 0;
    return n <= plain(AT(config, config_slots, G_NODES)) && (before <= limit - more || n < few);
}

static int is_plain(PyObject *session, PyObject *found) { return are_plain(session, 1, plain(AT(found, known, K_BYTES))); }

/* Whether much is handed over that is to be counted down. */
static int has_gone(PyObject *session) {
    return length_of(session, S_DROPPED) > many || length_of(session, S_GRAVEYARD) > many;
}

/* Whether a call of n elements at this place is better run than recorded, as far as the place says; -1: an error. */
static int has_changing_shapes(PyObject *where, long long n) {
    if (!PyDict_GET_SIZE(places) || n > medium) return 0;
    PyObject *key = PyTuple_Pack(2, AT(where, site, P_CODE), AT(where, site, P_LASTI));
    PyObject *times = key ? PyDict_GetItemWithError(places, key) : NULL;
    Py_XDECREF(key);
    if (!times || PyLong_AsLong(times) <= 1) return PyErr_Occurred() ? -1 : 0;
    PyObject *sized = Py_BuildValue("(OOL)", AT(where, site, P_CODE), AT(where, site, P_LASTI), n);
    const int stays = sized ? PySet_Contains(settled, sized) : -1;
    Py_XDECREF(sized);
    return stays < 0 ? -1 : !stays;
}

/* A version is read by one node more; 0 if it went well. */
static int is_read(PyObject *given) {
    if (Py_TYPE(given) != version.type) return 0;
    return add(given, &version, V_READERS, one);
}

/* New: the tensors that a node with several results makes; `outs` of a call are their shapes and dtypes. */
static PyObject *several(PyObject *session, PyObject *found, PyObject *from) {
    PyObject *specs = AT(found, known, K_OUTS);
    Py_ssize_t n = PyTuple_GET_SIZE(specs);
    PyObject *outs = unwatched(PyTuple_New(n)), *alive = PyLong_FromSsize_t(n), *made = PyTuple_New(n);
    int bad = !outs || !alive || !made;
    if (alive) put(from, &node, O_ALIVE, alive);
    for (Py_ssize_t k = 0; !bad && k < n; k++) {
        PyObject *spec = PyTuple_GET_ITEM(specs, k), *shape = PyTuple_GET_ITEM(spec, 0), *number = PyLong_FromSsize_t(k);
        PyObject *of = number ? version_of(session, shape, PyTuple_GET_ITEM(spec, 1), from, number) : NULL;
        PyObject *is_value = PyTuple_GET_SIZE(shape) ? Py_False : Py_True;
        PyObject *shown = of && !put_on_tape(session, of, outs, k) ? tensor_of(session, of, is_value) : NULL;
        Py_XDECREF(number), Py_XDECREF(of);
        bad = !shown;
        if (shown) PyTuple_SET_ITEM(made, k, shown);
    }
    if (outs) AT(from, node, O_OUTS) = outs;
    Py_XDECREF(alive);
    if (bad) Py_CLEAR(made);
    return made;
}

/* New: the tensor of a call that waits; Py_None: Python has to look. The lock is held. */
static PyObject *waiting(PyObject *self, PyObject *found, PyObject *session, Args args) {
    PyObject *inputs = NULL, *accesses = NULL, *where = NULL, *made = NULL, *of = NULL, *from = NULL;
    int is = is_plain(session, found);
    if (is == 1) is = operands(self, found, session, args, &inputs, &accesses);
    if (is != 1) {
        if (is == 0) made = Py_NewRef(Py_None);
        goto end;
    }
    if (has_gone(session)) {
        PyObject *none = PyObject_CallMethodNoArgs(session, n_drain);
        if (!none) goto end;
        Py_DECREF(none);
    }
    if (!(where = user_site())) goto end;
    if ((is = has_changing_shapes(where, PyLong_AsLongLong(AT(found, known, K_LARGEST))))) {
        if (is > 0) made = Py_NewRef(Py_None);
        goto end;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++)
        if (is_read(PyTuple_GET_ITEM(inputs, i))) goto end;
    if (add(session, &sessions, S_SEQ, one) ||
        add(session, &sessions, S_WAITING, AT(found, known, K_BYTES)))
        goto end;
    PyObject *seq = AT(session, sessions, S_SEQ);
    if (!(from = node_of(AT(self, quick, Q_OP), found, inputs, accesses, where, seq, Py_None)))
        goto end;
    if (!IS(AT(found, known, K_SHAPE))) {
        made = several(session, found, from);
        goto end;
    }
    if (!(of = taped(session, found, from))) goto end;
    made = tensor_of(session, of, AT(found, known, K_IS_VALUE));
end:
    Py_XDECREF(inputs), Py_XDECREF(accesses), Py_XDECREF(where), Py_XDECREF(of), Py_XDECREF(from);
    return made;
}

/* Whether this thread runs a kernel; -1: an error. What a thread says of itself is in a dict of its own, which is asked
   for once as long as the same thread calls. */
static int is_in_task(void) {
    static uint64_t thread;
    static PyObject *said;
    uint64_t now = PyThreadState_GetID(PyThreadState_Get());
    if (now != thread || !said) {
        PyObject *found = PyObject_GetAttrString(lane, "__dict__");
        if (!found) return -1;
        thread = now;
        Py_XSETREF(said, found);
    }
    PyObject *is = PyDict_GetItemWithError(said, n_in_task);
    return is ? is != Py_False : PyErr_Occurred() ? -1 : 0;
}

/* Whether a session's lock may be taken, as `Session.guard` asks; -1: an error. */
static int is_free(PyObject *session) {
    if (!PyObject_TypeCheck(session, sessions.type)) return 0;
    PyObject *mine = AT(session, sessions, S_GENERATION), *now = PyList_GET_ITEM(generation, 0);
    int same = !mine ? 0 : mine == now ? 1 : PyObject_RichCompareBool(mine, now, Py_EQ);
    if (same != 1) return same;
    int is = is_in_task();
    return is < 0 ? -1 : !is;
}

/* New: the session's lock, which is held; NULL without an error where Python has to ask for it. */
static PyObject *locked(PyObject *session) {
    int may = session ? is_free(session) : 0;
    PyObject *lock = may == 1 ? AT(session, sessions, S_LOCK) : NULL;
    if (!lock) return NULL;
    if (locking && Py_TYPE(lock) == locking->type) return locking->acquire(lock) ? NULL : Py_NewRef(lock);
    PyObject *got = PyObject_CallMethodNoArgs(lock, n_acquire);
    Py_XDECREF(got);
    return got ? Py_NewRef(lock) : NULL;
}

static void unlock(PyObject *lock) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (locking && Py_TYPE(lock) == locking->type) {
        locking->release(lock);
    } else {
        PyObject *none = PyObject_CallMethodNoArgs(lock, n_release);
        Py_XDECREF(none);
    }
    Py_DECREF(lock);
    if (type) PyErr_Restore(type, value, trace);
}

/* The same under the session's lock. */
static PyObject *guarded(PyObject *self, PyObject *found, PyObject *session, Args args) {
    PyObject *lock = locked(session);
    if (!lock) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *made = waiting(self, found, session, args);
    unlock(lock);
    return made;
}

/* Whether an operand is more than what is computed at once, or is not on the host and not read in a loop. */
static int has_large(Args args, long long limit) {
    for (Py_ssize_t i = 0; i < args.n; i++) {
        PyObject *x = args.items[i];
        if (Py_TYPE(x) != tensor.type) continue;
        PyObject *held = IS(AT(x, tensor, T_OWNER)) ? NULL : AT(x, tensor, T_CELL);
        PyObject *of = IS(held) ? AT(held, cell, C_VERSION) : NULL;
        if (of && !IS(AT(of, version, V_HOST)) && plain(AT(of, version, V_READERS)) < often) return 1;
        PyObject *shape = AT(x, tensor, T_SHAPE);
        double n = 1;
        for (Py_ssize_t a = 0; a < PyTuple_GET_SIZE(shape); a++)
            n *= PyLong_AsDouble(PyTuple_GET_ITEM(shape, a));
        if (n > limit) return 1;
    }
    return 0;
}

/* Whether all tensors are on the host. */
static int are_here(Args args) {
    for (Py_ssize_t i = 0; i < args.n; i++) {
        PyObject *x = args.items[i];
        if (Py_TYPE(x) != tensor.type || IS(AT(x, tensor, T_OWNER))) continue;
        PyObject *held = AT(x, tensor, T_CELL), *of = IS(held) ? AT(held, cell, C_VERSION) : NULL;
        if (!of || !IS(AT(of, version, V_HOST))) return 0;
    }
    return 1;
}

/* New: the result, or Py_None where Python has to look, with what is known of the call and its session, if it is;
   NULL without an error for a call that is not known. */
typedef struct { PyObject *known, *session; } Found;
static PyObject *tried(PyObject *self, Args args, PyObject *options, Found *of) {
    PyObject *session = NULL;
    for (Py_ssize_t i = 0; i < args.n; i++) {
        PyObject *x = args.items[i];
        if (Py_TYPE(x) != tensor.type) continue;
        PyObject *home = session_of(x);
        if (!home) Py_RETURN_NONE;
        if (!session) session = home;
    }
    long long limit = plain(AT(config, config_slots, G_SMALL));
    if (!session || limit < 0) Py_RETURN_NONE;
    PyObject *found = found_for(self, args, options);
    if (!found) {
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return NULL; /* Ctrl-C */
        PyErr_Clear(); /* an argument that cannot be looked up */
        return NULL;
    }
    long largest = PyLong_AsLong(AT(found, known, K_LARGEST));
    int has_results = IS(AT(found, known, K_SHAPE)) || IS(AT(found, known, K_OUTS));
    int is_here = (largest > limit || has_large(args, limit)) && has_results;
    if (is_here && AT(found, known, K_MOVES) == Py_True && are_here(args)) is_here = 0; /* it runs now */
    *of = (Found){Py_NewRef(found), Py_NewRef(session)}; /* while others have the lock they may be dropped */
    return is_here ? guarded(self, found, session, args) : Py_NewRef(Py_None);
}

static void let_go(Found of) { Py_XDECREF(of.known), Py_XDECREF(of.session); }

/* The ways of a call that was not known. */
static PyObject *first(PyObject *self, Args args) {
    return PyObject_Vectorcall(AT(self, quick, Q_UNKNOWN), args.items, args.n, NULL);
}

static Args items_of(PyObject *args) { return (Args){PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args)}; }

/* call_again(quick, args, options) */
static PyObject *call_again(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t n) {
    if (n != 3 || Py_TYPE(given[0]) != quick.type || !PyTuple_CheckExact(given[1]) ||
        !PyDict_CheckExact(given[2]))
        return PyObject_Vectorcall(slow, given, n, NULL);
    Found of = {NULL, NULL};
    PyObject *result = tried(given[0], items_of(given[1]), given[2], &of);
    if (result == Py_None) {
        PyObject *looked_up[] = {given[0], of.session, of.known, given[1]};
        Py_DECREF(result);
        result = of.known ? PyObject_Vectorcall(slow_run, looked_up, 4, NULL) : PyObject_Vectorcall(slow, given, n, NULL);
    }
    let_go(of);
    return result || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

static int is_plain_operand(PyObject *x) {
    return Py_TYPE(x) == tensor.type || PyFloat_CheckExact(x) || PyLong_CheckExact(x);
}

/* The same for the operators of `small_calls.c`: NULL without an error where Python has to look. */
static PyObject *recorded(PyObject *self, PyObject *a, PyObject *b) {
    if (!is_plain_operand(a) || !is_plain_operand(b)) return NULL;
    PyObject *both[] = {a, b};
    Args args = {both, 2};
    Found of = {NULL, NULL};
    PyObject *result = tried(self, args, no_options, &of);
    let_go(of);
    if (result == Py_None) Py_CLEAR(result);
    else if (!result && !PyErr_Occurred()) result = first(self, args);
    return result;
}

/* ufunc(*args): a known call at once, what else has no options by its ladder, the rest by Python's method. */
static PyObject *call_ufunc(PyObject *self, PyObject *args, PyObject *options) {
    PyObject *calls = AT(self, ufuncs, U_QUICK), *call = AT(self, ufuncs, U_CALL);
    long long limit = plain(AT(config, config_slots, G_SMALL));
    if (!call || (options && PyDict_GET_SIZE(options)) || PyTuple_GET_SIZE(args) != plain(AT(self, ufuncs, U_NIN)))
        return slow_call(self, args, options);
    if (calls && Py_TYPE(calls) == quick.type && limit >= 0 && has_large(items_of(args), limit)) {
        Found of = {NULL, NULL};
        PyObject *result = tried(calls, items_of(args), no_options, &of);
        let_go(of);
        if (!result && !PyErr_Occurred()) result = first(calls, items_of(args));
        if (result != Py_None) return result;
        Py_DECREF(result);
    }
    return PyObject_Call(call, args, NULL);
}

/* New: what is written, a version or a scalar; NULL without an error where Python has to look. */
static PyObject *given_to(PyObject *x, PyObject *view, PyObject *value, PyObject *maker) {
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        return maker != Py_None && -SAFE < number && number < SAFE ? scalar_of(maker, value) : NULL;
    }
    if (Py_TYPE(value) != tensor.type || IS(AT(value, tensor, T_OWNER))) return NULL;
    PyObject *held = AT(value, tensor, T_CELL), *here = AT(x, tensor, T_CELL);
    if (!IS(held) || held == here || AT(held, cell, C_SESSION) != AT(here, cell, C_SESSION)) return NULL;
    if (AT(value, tensor, T_LAZY_VIEW) != Py_None || AT(value, tensor, T_DTYPE) != AT(x, tensor, T_DTYPE)) return NULL;
    PyObject *shape = AT(value, tensor, T_SHAPE), *wanted = PyTuple_GET_ITEM(view, 1);
    if (shape != wanted && PyObject_RichCompareBool(shape, wanted, Py_EQ) != 1) return NULL;
    return Py_NewRef(AT(held, cell, C_VERSION));
}

/* The cell of a tensor shows a next version. 1: done; 0: Python has to look; -1: an error. The lock is held. */
static int written(PyObject *x, PyObject *view, PyObject *value, PyObject *learnt) {
    PyObject *found = PyTuple_GET_ITEM(learnt, 2), *region = PyTuple_GET_ITEM(learnt, 3);
    PyObject *held = AT(x, tensor, T_CELL), *session = AT(held, cell, C_SESSION), *base = AT(held, cell, C_VERSION);
    if (AT(base, version, V_DTYPE) != AT(x, tensor, T_DTYPE) || !is_plain(session, found) || has_gone(session))
        return 0;
    PyObject *operand = given_to(x, view, value, PyTuple_GET_ITEM(learnt, 1));
    if (!operand) return PyErr_Occurred() ? -1 : 0;
    PyObject *inputs = unwatched(PyTuple_Pack(2, base, operand)), *from = NULL, *of = NULL, *where = inputs ? user_site() : NULL;
    int is = where ? has_changing_shapes(where, PyLong_AsLongLong(PyTuple_GET_ITEM(learnt, 4))) : -1;
    if (!is && !is_read(base) && !is_read(operand) && !add(session, &sessions, S_SEQ, one)) {
        put(session, &sessions, S_WRITES, Py_True);
        from = node_of(write_op, found, inputs, NULL, where, AT(session, sessions, S_SEQ), region);
        of = from ? taped(session, found, from) : NULL;
        if (of && !add(base, &version, V_LIVE, minus_one)) put(held, &cell, C_VERSION, of);
    }
    Py_DECREF(operand), Py_XDECREF(inputs), Py_XDECREF(where), Py_XDECREF(from), Py_XDECREF(of);
    return is < 0 || PyErr_Occurred() ? -1 : !is;
}

/* fill(tensor, view, value) */
static PyObject *fill(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t n) {
    PyObject *x = given[0], *view = n == 3 ? given[1] : Py_None;
    PyObject *held = Py_TYPE(x) == tensor.type && !IS(AT(x, tensor, T_OWNER)) ? AT(x, tensor, T_CELL) : NULL;
    PyObject *learnt = IS(held) && view != Py_None ? PyDict_GetItemWithError(views, view) : NULL;
    if (learnt && PyTuple_GET_ITEM(learnt, 0) == AT(x, tensor, T_DTYPE) && AT(x, tensor, T_FROZEN) == Py_False) {
        long long limit = plain(AT(config, config_slots, G_SMALL));
        int is_large = limit >= 0 && PyLong_AsLongLong(PyTuple_GET_ITEM(learnt, 4)) > limit;
        PyObject *lock = is_large ? locked(AT(held, cell, C_SESSION)) : NULL;
        if (lock) {
            Py_INCREF(learnt);
            int done = written(x, view, given[2], learnt);
            Py_DECREF(learnt);
            unlock(lock);
            if (done > 0) Py_RETURN_TRUE;
        }
    }
    return PyErr_Occurred() ? NULL : PyObject_Vectorcall(slow_fill, given, n, NULL);
}

static int put_in(PyObject *list, PyObject *value) { return PyList_Append(list, value); }

/* A tensor in the key of a call of a program, and its cell. 1: done, 0: calls of such are not remembered, -1: an error. */
static int takes_tensor(PyObject *x, PyObject *key, PyObject *cells) {
    PyObject *held = IS(AT(x, tensor, T_OWNER)) ? NULL : AT(x, tensor, T_CELL), *of = IS(held) ? AT(held, cell, C_VERSION) : NULL;
    if (!of || IS(AT(of, version, V_HOST))) return 0;
    if (IS(AT(of, version, V_NODE)) && plain(AT(of, version, V_READERS)) >= often) return 0;
    if (AT(x, tensor, T_LAZY_VIEW) == unknown && !was_asked(x, n_view)) return -1;
    return put_in(key, AT(x, tensor, T_SHAPE)) || put_in(key, AT(x, tensor, T_DTYPE)) || put_in(key, AT(x, tensor, T_LAZY_VIEW)) ||
           put_in(key, AT(x, tensor, T_IS_VALUE)) || put_in(cells, held) ? -1 : 1;
}

static int takes_all(PyObject *args, PyObject *key, PyObject *cells);

/* The same of any argument. */
static int takes_one(PyObject *x, PyObject *key, PyObject *cells) {
    PyTypeObject *kind = Py_TYPE(x);
    if (kind == tensor.type) return takes_tensor(x, key, cells);
    int is_plain = kind == &PyBool_Type || kind == &PyLong_Type || kind == &PyUnicode_Type || kind == &PyType_Type;
    if (is_plain || x == Py_None || kind == &PyFloat_Type) {
        double value = kind == &PyFloat_Type ? PyFloat_AS_DOUBLE(x) : 1;
        PyObject *sign = value == 0 ? PyFloat_FromDouble(signbit(value) ? -1 : 1) : Py_NewRef(x);
        int bad = !sign || put_in(key, (PyObject *)kind) || (kind == &PyFloat_Type && put_in(key, sign)) || put_in(key, x);
        Py_XDECREF(sign);
        return bad ? -1 : 1;
    }
    if (kind == &PyTuple_Type || kind == &PyList_Type) {
        PyObject *n = PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(x));
        int bad = !n || put_in(key, (PyObject *)kind) || put_in(key, n);
        Py_XDECREF(n);
        return bad ? -1 : takes_all(x, key, cells);
    }
    int is = PyObject_IsInstance(x, dtypes);
    return is == 1 && (put_in(key, dtypes) || put_in(key, x)) ? -1 : is;
}

static int takes_all(PyObject *args, PyObject *key, PyObject *cells) {
    if (Py_EnterRecursiveCall(" in an argument")) return -1;
    int is = 1;
    for (Py_ssize_t i = 0; is == 1 && i < PySequence_Fast_GET_SIZE(args); i++) {
        PyObject *x = Py_NewRef(PySequence_Fast_GET_ITEM(args, i));
        is = takes_one(x, key, cells);
        Py_DECREF(x);
    }
    Py_LeaveRecursiveCall();
    return is;
}

/* takes(args, key, cells): as `_takes` of `known_programs.py` */
static PyObject *takes(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t n) {
    if (n != 3 || !PyTuple_CheckExact(given[0]) || !PyList_CheckExact(given[1]) || !PyList_CheckExact(given[2]))
        return PyErr_Format(PyExc_TypeError, "takes takes a tuple and two lists");
    int is = takes_all(given[0], given[1], given[2]);
    return is < 0 ? NULL : PyBool_FromLong(is);
}

/* Record one step of `known_programs.py`: an op, what is known of its call, where its operands are among the values, and
   its accesses; what it makes comes behind them. No tensor shows it yet. 0 if it went well. */
static int step_again(PyObject *session, PyObject *step, PyObject *values, PyObject *where) {
    PyObject *op = PyTuple_GET_ITEM(step, 0), *found = PyTuple_GET_ITEM(step, 1), *at = PyTuple_GET_ITEM(step, 2);
    Py_ssize_t n = PyTuple_GET_SIZE(at);
    PyObject *inputs = unwatched(PyTuple_New(n)), *from = NULL, *of = NULL;
    for (Py_ssize_t i = 0; inputs && i < n; i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(at, i));
        if (place < 0 || place >= PyList_GET_SIZE(values)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "a step reads what is not there");
            Py_CLEAR(inputs);
            break;
        }
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(PyList_GET_ITEM(values, place)));
    }
    int bad = !inputs;
    for (Py_ssize_t i = 0; !bad && i < n; i++) bad = is_read(PyTuple_GET_ITEM(inputs, i));
    bad = bad || add(session, &sessions, S_SEQ, one) || add(session, &sessions, S_WAITING, AT(found, known, K_BYTES));
    if (!bad) from = node_of(op, found, inputs, PyTuple_GET_ITEM(step, 3), where, AT(session, sessions, S_SEQ), Py_None);
    if (from && (of = taped(session, found, from))) put(of, &version, V_LIVE, zero);
    bad = !of || PyList_Append(values, of);
    Py_XDECREF(inputs), Py_XDECREF(from), Py_XDECREF(of);
    return bad;
}

/* play(session, steps, values, bytes): as `_play` of `known_programs.py` */
static PyObject *play(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t n) {
    if (n != 4 || Py_TYPE(given[0]) != sessions.type || !PyTuple_CheckExact(given[1]) || !PyList_CheckExact(given[2]))
        return PyErr_Format(PyExc_TypeError, "play takes a session, steps, values and bytes");
    PyObject *session = given[0], *steps = given[1], *values = given[2], *where = NULL;
    PyObject *lock = locked(session);
    if (!lock) return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    int is = are_plain(session, PyTuple_GET_SIZE(steps), plain(given[3])), bad = 0;
    if (is && has_gone(session)) {
        PyObject *none = PyObject_CallMethodNoArgs(session, n_drain);
        bad = !none;
        Py_XDECREF(none);
    }
    bad = bad || (is && !(where = user_site()));
    for (Py_ssize_t k = 0; is && !bad && k < PyTuple_GET_SIZE(steps); k++)
        bad = step_again(session, PyTuple_GET_ITEM(steps, k), values, where);
    Py_XDECREF(where);
    unlock(lock);
    return bad ? NULL : PyBool_FromLong(is);
}

static int find(Slots *slots, PyObject *type, const char *const *names, int n) {
    slots->type = (PyTypeObject *)type;
    return find_slots(type, names, slots->at, n);
}

/* install(types, config, UNKNOWN, structure, alias, places, settled, lane, generation, no_views, made, run, fill, views, write_op,
   locking, few, many, medium, often, package) */
static PyObject *install(PyObject *module, PyObject *args) {
    PyObject *types[8], *pointer;
    if (!PyArg_ParseTuple(args, "(OOOOOOOO)OOOOOOOOOOOOOOOllllO", &types[0], &types[1], &types[2], &types[3],
                          &types[4], &types[5], &types[6], &types[7], &config, &unknown, &structure,
                          &alias, &places, &settled, &lane, &generation, &no_views, &slow, &slow_run, &slow_fill, &views, &write_op, &pointer,
                          &few, &many, &medium, &often, &package))
        return NULL;
    static const char *const of_tensor[] = {"_cell", "_dtype", "_frozen", "_index", "_is_value",
        "_lazy_view", "_lent", "_owner", "_seen", "_seen_of", "_shape"};
    static const char *const of_version[] = {"dtype", "exported", "host", "live", "node", "out",
        "readers", "session", "shape", "table"};
    static const char *const of_cell[] = {"session", "version"};
    static const char *const of_node[] = {"accesses", "alive", "call", "inputs", "op", "outs",
        "region", "seq", "shapes", "site", "stopped"};
    static const char *const of_site[] = {"code", "lasti"};
    static const char *const of_quick[] = {"known", "op", "takes_scalars", "unknown"};
    static const char *const of_known[] = {"call", "dtype", "is_value", "largest", "makers", "moves",
        "n_bytes", "outs", "shape", "shapes"};
    static const char *const of_config[] = {"max_recorded_bytes", "max_recorded_nodes",
        "small_elements"};
    static const char *const of_session[] = {"closed", "cut_next", "dropped", "generation",
        "graveyard", "lock", "seq", "tape", "waiting_bytes", "writes"};
    if (find(&tensor, types[0], of_tensor, N_TENSOR) ||
        find(&version, types[1], of_version, N_VERSION) ||
        find(&cell, types[2], of_cell, N_CELL) || find(&node, types[3], of_node, N_NODE) ||
        find(&site, types[4], of_site, N_SITE) || find(&quick, types[5], of_quick, N_QUICK) ||
        find(&known, types[6], of_known, N_KNOWN) ||
        find(&sessions, types[7], of_session, N_SESSION) ||
        find(&config_slots, (PyObject *)Py_TYPE(config), of_config, N_CONFIG))
        return NULL;
    PyObject *numpy = PyImport_ImportModule("numpy");
    dtypes = numpy ? PyObject_GetAttrString(numpy, "dtype") : NULL;
    Py_XDECREF(numpy);
    if (!dtypes) return NULL;
    if (pointer != Py_None && !(locking = PyCapsule_GetPointer(pointer, LOCKING))) return NULL;
    Py_INCREF(args); /* all of them stay */
    pointer = PyCapsule_New((void *)recorded, RECORDED, NULL);
    int bad = !pointer || PyObject_SetAttrString(module, "recorded", pointer);
    Py_XDECREF(pointer);
    if (bad || put_method(module, types[5], "call_again")) return NULL;
    Py_RETURN_NONE;
}

/* install_ufunc(type): its calls come here first. */
static PyObject *install_ufunc(PyObject *Py_UNUSED(module), PyObject *type) {
    static const char *const of_ufunc[] = {"_call", "_n_inputs", "_quick"};
    if (find(&ufuncs, type, of_ufunc, N_UFUNC)) return NULL;
    Py_INCREF(type); /* it stays */
    slow_call = ufuncs.type->tp_call;
    ufuncs.type->tp_call = call_ufunc;
    PyType_Modified(ufuncs.type);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"install_ufunc", install_ufunc, METH_O, NULL},
    {"install", install, METH_VARARGS, NULL},
    {"call_again", (PyCFunction)(void (*)(void))call_again, METH_FASTCALL, NULL},
    {"fill", (PyCFunction)(void (*)(void))fill, METH_FASTCALL, NULL},
    {"takes", (PyCFunction)(void (*)(void))takes, METH_FASTCALL, NULL},
    {"play", (PyCFunction)(void (*)(void))play, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_known_calls", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__known_calls(void) {
    empty = PyTuple_New(0);
    no_options = PyDict_New();
    zero = PyLong_FromLong(0);
    one = PyLong_FromLong(1);
    minus_one = PyLong_FromLong(-1);
    struct { PyObject **name; const char *text; } names[] = {
        {&n_acquire, "acquire"}, {&n_release, "release"}, {&n_in_task, "in_task"},
        {&n_drain, "drain"}, {&n_name, "__name__"}, {&n_view, "_view"}, {&n_cell, "_cell"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*names[i].name = PyUnicode_InternFromString(names[i].text))) return NULL;
    return PyModule_Create(&definition);
}
