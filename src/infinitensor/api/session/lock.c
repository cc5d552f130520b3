/* A lock that its thread may take again, as `threading.RLock`, for who holds the interpreter's own lock anyway: to take it
   is to write down who has it. Only a thread that finds it taken waits, at a gate that the owner opens when it goes. */

#include "api/session/slots.h"

typedef struct {
    PyObject_HEAD
    unsigned long owner;
    Py_ssize_t count, n_waiting;
    int is_open; /* the gate, until somebody has come through */
    PyThread_type_lock gate;
} Lock;

/* Wait until it is free, and take it; Ctrl-C ends the wait. */
static int wait_for(Lock *self, unsigned long me) {
    do {
        PyLockStatus how;
        self->n_waiting++;
        Py_BEGIN_ALLOW_THREADS
        how = PyThread_acquire_lock_timed(self->gate, -1, 1);
        Py_END_ALLOW_THREADS
        self->n_waiting--;
        if (how == PY_LOCK_ACQUIRED) self->is_open = 0;
        else if (Py_MakePendingCalls() < 0) return -1;
    } while (self->count); /* somebody else was quicker: the gate opens again when that one goes */
    self->owner = me;
    self->count = 1;
    return 0;
}

static int acquire(PyObject *lock) {
    Lock *self = (Lock *)lock;
    unsigned long me = PyThread_get_thread_ident();
    if (self->count && self->owner != me) return wait_for(self, me);
    self->owner = me;
    self->count++;
    return 0;
}

static int release(PyObject *lock) {
    Lock *self = (Lock *)lock;
    if (!self->count || self->owner != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "cannot release un-acquired lock");
        return -1;
    }
    if (!--self->count && self->n_waiting && !self->is_open) {
        self->is_open = 1;
        PyThread_release_lock(self->gate);
    }
    return 0;
}

static PyObject *do_acquire(PyObject *self, PyObject *Py_UNUSED(none)) { return acquire(self) ? NULL : Py_NewRef(Py_True); }
static PyObject *do_release(PyObject *self, PyObject *Py_UNUSED(none)) { return release(self) ? NULL : Py_NewRef(Py_None); }
static PyObject *do_exit(PyObject *self, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(n)) { return do_release(self, NULL); }

static PyObject *new_lock(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(options)) {
    Lock *self = (Lock *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    if (!(self->gate = PyThread_allocate_lock())) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    PyThread_acquire_lock(self->gate, WAIT_LOCK);
    return (PyObject *)self;
}

static void free_lock(PyObject *lock) {
    Lock *self = (Lock *)lock;
    if (self->gate) {
        if (!self->is_open) PyThread_release_lock(self->gate);
        PyThread_free_lock(self->gate);
    }
    Py_TYPE(lock)->tp_free(lock);
}

static PyMethodDef of_lock[] = {
    {"acquire", do_acquire, METH_NOARGS, NULL},
    {"release", do_release, METH_NOARGS, NULL},
    {"__enter__", do_acquire, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))do_exit, METH_FASTCALL, NULL},
    {NULL},
};
static PyTypeObject lock_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "infinitensor.Lock",
    .tp_basicsize = sizeof(Lock),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A lock that its thread may take again.",
    .tp_new = new_lock,
    .tp_dealloc = free_lock,
    .tp_methods = of_lock,
};
static const Locking locking = {&lock_type, acquire, release};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_lock", .m_size = -1};

PyMODINIT_FUNC PyInit__lock(void) {
    PyObject *module = PyType_Ready(&lock_type) ? NULL : PyModule_Create(&definition);
    PyObject *pointer = module ? PyCapsule_New((void *)&locking, LOCKING, NULL) : NULL;
    int bad = !pointer || PyObject_SetAttrString(module, "Lock", (PyObject *)&lock_type) ||
              PyObject_SetAttrString(module, "locking", pointer);
    Py_XDECREF(pointer);
    if (bad) Py_CLEAR(module);
    return module;
}
