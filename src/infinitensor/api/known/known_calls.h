/* What `known_calls.c` looks up: the slots of what it makes, calls and numbers it has seen, and the places that called. */

enum { T_CELL, T_DTYPE, T_FROZEN, T_INDEX, T_IS_VALUE, T_LAZY_VIEW, T_LENT, T_OWNER, T_SEEN,
       T_SEEN_OF, T_SHAPE, N_TENSOR };
enum { V_DTYPE, V_EXPORTED, V_HOST, V_LIVE, V_NODE, V_OUT, V_READERS, V_SESSION, V_SHAPE,
       V_TABLE, N_VERSION };
enum { C_SESSION, C_VERSION, N_CELL };
enum { O_ACCESSES, O_ALIVE, O_CALL, O_INPUTS, O_OP, O_OUTS, O_REGION, O_SEQ, O_SHAPES, O_SITE,
       O_STOPPED, N_NODE };
enum { P_CODE, P_LASTI, N_SITE };
enum { Q_KNOWN, Q_OP, Q_SCALARS, Q_UNKNOWN, N_QUICK };
enum { K_CALL, K_DTYPE, K_IS_VALUE, K_LARGEST, K_MAKERS, K_MOVES, K_BYTES, K_OUTS, K_SHAPE, K_SHAPES, N_KNOWN };
enum { G_BYTES, G_NODES, G_SMALL, N_CONFIG };
enum { U_CALL, U_NIN, U_QUICK, N_UFUNC };
enum { S_CLOSED, S_CUT, S_DROPPED, S_GENERATION, S_GRAVEYARD, S_LOCK, S_SEQ, S_TAPE, S_WAITING, S_WRITES,
       N_SESSION };

/* One type with the places of its slots. */
typedef struct {
    PyTypeObject *type;
    Py_ssize_t at[16];
} Slots;
static Slots tensor, version, cell, node, site, quick, known, sessions, ufuncs, config_slots;
static ternaryfunc slow_call; /* of a ufunc, before ours */
static const Locking *locking; /* NULL: sessions have locks of Python's */

static PyObject *config, *unknown, *structure, *alias, *dtypes, *places, *settled, *lane, *generation, *no_views;
static PyObject *slow, *slow_run, *slow_fill, *views, *write_op, *empty, *no_options, *zero, *one, *minus_one, *package;
static PyObject *n_acquire, *n_release, *n_in_task, *n_drain, *n_name, *n_view, *n_cell;
static long few, many, medium, often;
static const double SAFE = 1e30; /* numbers up to which float32 and wider overflow nowhere */

#define AT(object, slots, field) (*(PyObject **)((char *)(object) + (slots).at[field]))
#define IS(object) ((object) != NULL && (object) != Py_None)
/* The first value of a slot. */
#define SET(object, slots, field, value) (AT(object, slots, field) = Py_NewRef(value))

static void put(PyObject *object, Slots *slots, int field, PyObject *value) {
    Py_INCREF(value);
    Py_XSETREF(AT(object, *slots, field), value);
}

/* What recording makes is in no cycle but through the queues of a session, which close with it (`released.c`): so the
   garbage collector need not look at it, which at every few hundred calls it would. */
static PyObject *unwatched(PyObject *made) {
    if (made) PyObject_GC_UnTrack(made);
    return made;
}

/* `object.field += by`; 0 if it went well. */
static int add(PyObject *object, Slots *slots, int field, PyObject *by) {
    PyObject *before = AT(object, *slots, field);
    PyObject *after = before ? PyNumber_Add(before, by) : NULL;
    if (!after) return -1;
    Py_SETREF(AT(object, *slots, field), after);
    return 0;
}

/* A plain integer that is not negative; -1 for others, which Python compares with. */
static long long plain(PyObject *value) {
    int overflow;
    long long n = value && PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : -1;
    return n < 0 ? -1 : n;
}

/* Elements of a list of a session; -1 where it has none. */
static Py_ssize_t length_of(PyObject *session, int field) {
    PyObject *list = AT(session, sessions, field);
    return list && PyList_CheckExact(list) ? PyList_GET_SIZE(list) : -1;
}

static PyObject *session_of(PyObject *x) {
    PyObject *owner = AT(x, tensor, T_OWNER);
    if (IS(owner)) return owner;
    PyObject *held = AT(x, tensor, T_CELL);
    return IS(held) ? AT(held, cell, C_SESSION) : NULL;
}

/* The arguments of a call, by position. */
typedef struct {
    PyObject *const *items;
    Py_ssize_t n;
} Args;

/* New: what a call is known by, as `Quick._key` makes it. */
static PyObject *key_of(Args args, PyObject *options, int takes_scalars) {
    Py_ssize_t m = 3 * PyDict_GET_SIZE(options);
    for (Py_ssize_t i = 0; i < args.n; i++)
        m += 2 - (takes_scalars && Py_TYPE(args.items[i]) != tensor.type);
    PyObject *key = PyTuple_New(m);
    if (!key) return NULL;
    m = 0;
#define PUT(value) (Py_INCREF(value), PyTuple_SET_ITEM(key, m++, value))
    for (Py_ssize_t i = 0; i < args.n; i++) {
        PyObject *x = args.items[i];
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
        if (Py_TYPE(value) == tensor.type) { /* to look it up would compute it */
            Py_DECREF(key);
            return NULL;
        }
        PUT(name);
        PUT((PyObject *)Py_TYPE(value));
        PUT(value);
    }
#undef PUT
    return key;
}

/* Calls found before, by the identity of all that `key_of` looks at: objects that are kept here, so that no others get
   their addresses. What can be looked up does not change. */
enum { PARTS = 8, CALLS = 256 };
typedef struct {
    PyObject *self, *found, *parts[PARTS];
} Seen;
static Seen seen[CALLS];

/* Those objects, borrowed; how many, or -1 where they are too many. */
static int parts_of(Args args, PyObject *options, int takes_scalars, PyObject **parts) {
    if (2 * (args.n + PyDict_GET_SIZE(options)) > PARTS) return -1;
    int m = 0;
    for (Py_ssize_t i = 0; i < args.n; i++) {
        PyObject *x = args.items[i];
        int is_tensor = Py_TYPE(x) == tensor.type;
        parts[m++] = is_tensor ? AT(x, tensor, T_SHAPE) : (PyObject *)Py_TYPE(x);
        parts[m++] = is_tensor ? AT(x, tensor, T_DTYPE) : takes_scalars ? NULL : x;
    }
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(options, &at, &name, &value);)
        parts[m++] = name, parts[m++] = value;
    for (int i = m; i < PARTS; i++) parts[i] = NULL;
    return m;
}

/* The two places where a call may be: what comes goes to the first, and what was there to the second. */
static Seen *place_of(PyObject *self, PyObject *const *parts, int m) {
    size_t at = (size_t)self >> 4;
    for (int i = 0; i < m; i++) at = (at ^ (size_t)parts[i] >> 4) * 0x9E3779B97F4A7C15u;
    return &seen[at >> 40 & (CALLS - 2)];
}

/* Borrowed: a call known before; NULL, and maybe an error, for any other. */
static PyObject *found_for(PyObject *self, Args args, PyObject *options) {
    int takes_scalars = AT(self, quick, Q_SCALARS) == Py_True;
    PyObject *parts[PARTS];
    int m = parts_of(args, options, takes_scalars, parts);
    Seen *place = m < 0 ? NULL : place_of(self, parts, m);
    for (int i = 0; place && i < 2; i++)
        if (place[i].self == self && !memcmp(place[i].parts, parts, sizeof parts)) return place[i].found;
    PyObject *key = key_of(args, options, takes_scalars);
    PyObject *found = key ? PyDict_GetItemWithError(AT(self, quick, Q_KNOWN), key) : NULL;
    Py_XDECREF(key);
    if (!found || !place) return found;
    Seen before = place[1];
    place[1] = place[0];
    place->self = Py_NewRef(self);
    place->found = Py_NewRef(found);
    for (int i = 0; i < PARTS; i++) place->parts[i] = Py_XNewRef(parts[i]);
    Py_XDECREF(before.self), Py_XDECREF(before.found);
    for (int i = 0; i < PARTS; i++) Py_XDECREF(before.parts[i]);
    return found;
}

/* Numbers as scalars of NumPy's, by their bits: the same few are used over and over. */
enum { NUMBERS = 256 };
typedef struct {
    PyObject *maker, *made;
    PyTypeObject *type;
    long long bits;
} Number;
static Number numbers[NUMBERS];

/* New: `maker(x)`. */
static PyObject *scalar_of(PyObject *maker, PyObject *x) {
    long long bits = 0;
    int overflow = 0;
    if (PyFloat_CheckExact(x)) {
        double value = PyFloat_AS_DOUBLE(x);
        memcpy(&bits, &value, sizeof bits);
    } else if (PyLong_CheckExact(x)) {
        bits = PyLong_AsLongLongAndOverflow(x, &overflow);
    } else {
        overflow = 1;
    }
    if (overflow) return PyObject_CallOneArg(maker, x);
    size_t at = ((size_t)bits ^ (size_t)maker >> 4) * 0x9E3779B97F4A7C15u;
    Number *place = &numbers[at >> 40 & (NUMBERS - 2)];
    for (int i = 0; i < 2; i++)
        if (place[i].bits == bits && place[i].maker == maker && place[i].type == Py_TYPE(x))
            return Py_NewRef(place[i].made);
    PyObject *made = PyObject_CallOneArg(maker, x);
    if (!made) return NULL;
    PyObject *before = place[1].made, *maker_before = place[1].maker;
    place[1] = place[0];
    place[0] = (Number){Py_NewRef(maker), Py_NewRef(made), Py_TYPE(x), bits};
    Py_XDECREF(before), Py_XDECREF(maker_before);
    return made;
}

/* Whether a module is ours, by its globals. */
static int is_ours(PyObject *globals) {
    PyObject *name = PyDict_GetItemWithError(globals, n_name);
    if (!name || !PyUnicode_Check(name)) return PyErr_Occurred() ? -1 : 0;
    Py_ssize_t n = PyUnicode_GET_LENGTH(package);
    return PyUnicode_Tailmatch(name, package, 0, n, -1) == 1 &&
           (PyUnicode_GET_LENGTH(name) == n || PyUnicode_READ_CHAR(name, n) == '.');
}

/* Code that ran, by its address, and whether it is ours; and the places in it that called. */
enum { CODES = 256, SITES = 1024 };
static struct { PyCodeObject *code; int is_ours; } codes[CODES];
static struct Called { PyObject *site; int lasti; } sites[SITES];

static size_t spread(PyCodeObject *code, int lasti) {
    return (((size_t)code >> 4) + lasti) * 0x9E3779B97F4A7C15u >> 40;
}

static int is_our_code(PyCodeObject *code, PyFrameObject *frame) {
    size_t at = spread(code, 0) & (CODES - 1);
    if (codes[at].code == code) return codes[at].is_ours;
    PyObject *globals = PyFrame_GetGlobals(frame);
    int is = is_ours(globals);
    Py_DECREF(globals);
    if (is < 0) return -1;
    PyCodeObject *before = codes[at].code;
    codes[at].code = (PyCodeObject *)Py_NewRef(code);
    codes[at].is_ours = is;
    Py_XDECREF(before);
    return is;
}

/* New: a place; one that called before is the same object. */
static PyObject *site_at(PyCodeObject *code, int lasti) {
    struct Called *place = &sites[spread(code, lasti) & (SITES - 2)];
    for (int i = 0; i < 2; i++)
        if (place[i].site && AT(place[i].site, site, P_CODE) == (PyObject *)code && place[i].lasti == lasti)
            return Py_NewRef(place[i].site);
    PyObject *made = site.type->tp_alloc(site.type, 0), *number = PyLong_FromLong(lasti);
    if (!made || !number) {
        Py_XDECREF(made), Py_XDECREF(number);
        return NULL;
    }
    SET(made, site, P_CODE, (PyObject *)code);
    AT(made, site, P_LASTI) = number;
    PyObject *before = place[1].site;
    place[1] = place[0];
    place[0] = (struct Called){Py_NewRef(made), lasti};
    Py_XDECREF(before);
    return made;
}

/* New: the innermost call that is not ours. */
static PyObject *user_site(void) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    if (!frame) return PyErr_Format(PyExc_RuntimeError, "no frame calls");
    for (;;) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int is = is_our_code(code, frame);
        PyFrameObject *back = is == 1 ? PyFrame_GetBack(frame) : NULL;
        if (!back) {
            PyObject *made = is < 0 ? NULL : site_at(code, PyFrame_GetLasti(frame));
            Py_DECREF(code), Py_DECREF(frame);
            return made;
        }
        Py_DECREF(code);
        Py_SETREF(frame, back);
    }
}
