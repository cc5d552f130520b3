/* The offsets of a Python class's slots in its objects, and methods of it in C; before every C file of the api, and
   `ledger.c`. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

static inline int find_slots(PyObject *type, const char *const *names, Py_ssize_t *into, int n) {
    for (int i = 0; i < n; i++) {
        PyObject *member = PyObject_GetAttrString(type, names[i]);
        if (!member) return -1;
        if (Py_TYPE(member) != &PyMemberDescr_Type) {
            PyErr_Format(PyExc_TypeError, "%s is no slot", names[i]);
            Py_DECREF(member);
            return -1;
        }
        into[i] = ((PyMemberDescrObject *)member)->d_member->offset;
        Py_DECREF(member);
    }
    return 0;
}

/* Where fields are in a named tuple. */
static inline int find_fields(PyObject *type, const char *const *names, Py_ssize_t *into, int n) {
    PyObject *fields = PyObject_GetAttrString(type, "_fields");
    for (int k = 0; fields && k < n; k++) {
        PyObject *name = PyUnicode_FromString(names[k]);
        if ((into[k] = name ? PySequence_Index(fields, name) : -1) < 0) Py_CLEAR(fields);
        Py_XDECREF(name);
    }
    Py_XDECREF(fields);
    return fields ? 0 : -1;
}

/* Let a function of a module be a method of a Python class. */
static inline int put_method(PyObject *module, PyObject *type, const char *name) {
    PyObject *function = PyObject_GetAttrString(module, name);
    PyObject *method = function ? PyInstanceMethod_New(function) : NULL; /* others do not bind */
    int bad = !method || PyObject_SetAttrString(type, name, method);
    Py_XDECREF(function), Py_XDECREF(method);
    return bad;
}

/* What `lock.c` gives `known_calls.c`, by a pointer of this name; 0 where it went well. */
#define LOCKING "infinitensor.locking"
typedef struct {
    PyTypeObject *type;
    int (*acquire)(PyObject *);
    int (*release)(PyObject *);
} Locking;

/* What `known_calls.c` gives `small_calls.c`: `recorded(quick, a, b)`, by a pointer of this name. */
#define RECORDED "infinitensor.recorded"
typedef PyObject *(*Recorded)(PyObject *, PyObject *, PyObject *);
