/* Objects that are gone: the finalisers of `api/session/version.py` and `Session.drain`, over the same slots. No Python runs in
   between, so Ctrl-C cannot tear a count. */

#include "api/session/slots.h"

enum { V_EXPORTED, V_HOST, V_LIVE, V_NODE, V_READERS, V_SESSION, V_TABLE, N_VERSION };
enum { C_SESSION, C_VERSION, N_CELL };
enum { O_ALIVE, O_INPUTS, O_OP, N_NODE };
enum { S_CLOSED, S_DROPPED, S_GRAVEYARD, N_SESSION };
static Py_ssize_t version_at[N_VERSION], cell_at[N_CELL], node_at[N_NODE], session_at[N_SESSION];
static PyTypeObject *version_type, *session_type;
static PyObject *one, *empty;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define V(object, field) AT(object, version_at[field])
#define C(object, field) AT(object, cell_at[field])
#define O(object, field) AT(object, node_at[field])
#define S(object, field) AT(object, session_at[field])
#define IS(object) ((object) != NULL && (object) != Py_None)

/* Something is handed over to a session: what follows is done under its lock, without recursion. A closed one counts no
   more, and what it held would hold it. */
static void hand_over(PyObject *self, PyObject *session, int field, PyObject *what) {
    if (!session || !PyObject_TypeCheck(session, session_type)) return; /* it never came to be */
    if (S(session, S_CLOSED) == Py_True) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *list = S(session, field);
    if (list && PyList_CheckExact(list) && PyList_Append(list, what)) PyErr_WriteUnraisable(self);
    PyErr_Restore(type, value, trace);
}

static void version_gone(PyObject *self) {
    PyObject *from = V(self, V_NODE);
    if (!IS(from)) return;
    hand_over(self, V(self, V_SESSION), S_GRAVEYARD, from);
    Py_INCREF(Py_None);
    Py_SETREF(V(self, V_NODE), Py_None);
}

static void cell_gone(PyObject *self) {
    PyObject *shown = C(self, C_VERSION);
    if (shown && (IS(V(shown, V_TABLE)) || !IS(V(shown, V_HOST)))) /* only tiles can be used up */
        hand_over(self, C(self, C_SESSION), S_DROPPED, shown);
}

/* `count -= 1`; 0 if it went well. */
static int count_down(PyObject **count) {
    PyObject *after = PyNumber_Subtract(*count, one);
    if (!after) return -1;
    Py_SETREF(*count, after);
    return 0;
}

/* New: what was in a list; nothing is in it now. */
static PyObject *taken(PyObject *list) {
    Py_ssize_t n = PyList_GET_SIZE(list);
    PyObject *items = PyList_GetSlice(list, 0, n);
    if (items && PyList_SetSlice(list, 0, n, NULL)) Py_CLEAR(items);
    return items;
}

/* One that a node made is gone; with the last it lets go of what it reads. */
static int bury(PyObject *node) {
    if (count_down(&O(node, O_ALIVE))) return -1;
    if (PyLong_AsLong(O(node, O_ALIVE)) > 0) return 0;
    PyObject *inputs = O(node, O_INPUTS);
    int field = O(node, O_OP) == Py_None ? V_EXPORTED : V_READERS; /* or a value over its memory is gone */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        PyObject *given = PyTuple_GET_ITEM(inputs, i);
        if (Py_TYPE(given) == version_type && count_down(&V(given, field))) return -1;
    }
    Py_INCREF(empty);
    Py_SETREF(O(node, O_INPUTS), empty);
    return 0;
}

/* drain(session) */
static PyObject *drain(PyObject *Py_UNUSED(module), PyObject *session) {
    int bad = !PyObject_TypeCheck(session, session_type);
    PyObject *dropped = bad ? NULL : S(session, S_DROPPED), *graveyard = bad ? NULL : S(session, S_GRAVEYARD);
    if (!dropped || !graveyard || !PyList_CheckExact(dropped) || !PyList_CheckExact(graveyard))
        return PyErr_Format(PyExc_TypeError, "no session");
    while (!bad && PyList_GET_SIZE(dropped) + PyList_GET_SIZE(graveyard)) {
        PyObject *shown = taken(dropped), *nodes = shown ? taken(graveyard) : NULL;
        bad = !nodes;
        for (Py_ssize_t i = 0; !bad && i < PyList_GET_SIZE(shown); i++)
            bad = count_down(&V(PyList_GET_ITEM(shown, i), V_LIVE));
        for (Py_ssize_t i = 0; !bad && i < PyList_GET_SIZE(nodes); i++)
            bad = bury(PyList_GET_ITEM(nodes, i));
        Py_XDECREF(shown), Py_XDECREF(nodes); /* more may be gone with them */
    }
    if (bad) return NULL;
    Py_RETURN_NONE;
}

/* install(Version, Cell, Node, Session) */
static PyObject *install(PyObject *module, PyObject *args) {
    PyObject *version, *cell, *node, *session;
    static const char *const of_version[] = {"exported", "host", "live", "node", "readers", "session", "table"};
    static const char *const of_cell[] = {"session", "version"};
    static const char *const of_node[] = {"alive", "inputs", "op"};
    static const char *const of_session[] = {"closed", "dropped", "graveyard"};
    if (!PyArg_ParseTuple(args, "OOOO", &version, &cell, &node, &session) ||
        find_slots(version, of_version, version_at, N_VERSION) ||
        find_slots(cell, of_cell, cell_at, N_CELL) || find_slots(node, of_node, node_at, N_NODE) ||
        find_slots(session, of_session, session_at, N_SESSION))
        return NULL;
    Py_INCREF(args); /* they stay */
    version_type = (PyTypeObject *)version;
    session_type = (PyTypeObject *)session;
    version_type->tp_finalize = version_gone;
    ((PyTypeObject *)cell)->tp_finalize = cell_gone;
    if (put_method(module, session, "drain")) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"install", install, METH_VARARGS, NULL},
                                {"drain", drain, METH_O, NULL},
                                {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_released", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__released(void) {
    one = PyLong_FromLong(1);
    empty = PyTuple_New(0);
    return PyModule_Create(&definition);
}
