/* `Ledger.take` of `devices/ledger.py` where a slab of the size rests: the same counts, over the same slots. No Python runs in
   between, so Ctrl-C cannot tear a count. */

#include "api/session/slots.h"
#include "devices/ledger.h"

enum { L_BUDGET, L_GIVE_BACK, L_LENT, L_LOANS, L_LOCK, L_N_TAKEN, L_PEAK, L_RESTING, L_RESTING_BYTES, L_RETURNED, L_USED, N_LEDGER };
enum { B_BLOCK, B_LEDGER, B_LOAN, B_N_BYTES, N_BUFFER };
enum { W_BLOCK, W_EXPORTED, W_N_BYTES, N_LOAN };
static Py_ssize_t ledger_at[N_LEDGER], buffer_at[N_BUFFER], loan_at[N_LOAN];
static PyTypeObject *ledger_type, *buffer_type;
static PyObject *loan_type, *acquire, *release, *popleft, *one;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define L(field) AT(ledger, ledger_at[field])
#define B(field) AT(buffer, buffer_at[field])
#define W(field) AT(loan, loan_at[field])

static int put_number(PyObject **where, Py_ssize_t n) {
    PyObject *number = PyLong_FromSsize_t(n);
    if (!number) return -1;
    Py_XSETREF(*where, number);
    return 0;
}

/* The slabs of a size that rest; NULL where there are none yet, or with an error. */
static PyObject *resting(PyObject *ledger, PyObject *n_bytes) { return PyDict_GetItemWithError(L(L_RESTING), n_bytes); }

/* Let the slab of the first loan rest whose buffer is gone: 1; 0 where Python has to look at it; -1 with an error. */
static int let_rest(PyObject *ledger) {
    PyObject *loan = PySequence_GetItem(L(L_RETURNED), 0);
    if (!loan) return -1;
    int done = -1;
    PyObject *n_bytes = W(W_N_BYTES), *slabs = resting(ledger, n_bytes), *key = NULL, *gone = NULL;
    if (W(W_EXPORTED) != Py_False || (!slabs && !PyErr_Occurred())) { /* it is seen, or the first of its size */
        Py_DECREF(loan);
        return 0;
    }
    const Py_ssize_t n = PyLong_AsSsize_t(n_bytes), used = PyLong_AsSsize_t(L(L_USED)), rest = PyLong_AsSsize_t(L(L_RESTING_BYTES));
    if (PyErr_Occurred() || !(key = PyLong_FromVoidPtr(loan)) || !(gone = PyObject_CallMethodNoArgs(L(L_RETURNED), popleft))) goto end;
    if (PyList_Append(slabs, W(W_BLOCK)) || put_number(&L(L_USED), used - n) || put_number(&L(L_RESTING_BYTES), rest + n) ||
        PyDict_DelItem(L(L_LOANS), key))
        goto end;
    Py_CLEAR(W(W_BLOCK));
    done = 1;
end:
    Py_XDECREF(key), Py_XDECREF(gone), Py_DECREF(loan);
    return done;
}

/* New: a buffer that has no slab yet, and its loan. */
static PyObject *blank(PyObject *ledger, PyObject *n_bytes) {
    PyObject *buffer = buffer_type->tp_alloc(buffer_type, 0);
    PyObject *given[] = {buffer, L(L_GIVE_BACK)};
    PyObject *loan = buffer ? PyObject_Vectorcall(loan_type, given, 2, NULL) : NULL;
    if (!loan) {
        Py_XDECREF(buffer);
        return NULL;
    }
    W(W_EXPORTED) = Py_NewRef(Py_False);
    W(W_N_BYTES) = Py_NewRef(n_bytes);
    B(B_LEDGER) = Py_NewRef(ledger);
    B(B_N_BYTES) = Py_NewRef(n_bytes);
    B(B_LOAN) = loan;
    return buffer;
}

/* New: a slab at rest as a buffer; None where there is more to do; NULL with an error. Under the lock. */
static PyObject *taken(PyObject *ledger, PyObject *n_bytes) {
    const Py_ssize_t n = PyLong_AsSsize_t(n_bytes), budget = PyLong_AsSsize_t(L(L_BUDGET));
    int more = PyErr_Occurred() ? -1 : 1;
    if (PyLong_AsSsize_t(L(L_USED)) + PyLong_AsSsize_t(L(L_RESTING_BYTES)) > budget) more = 0;
    while (more > 0 && PyObject_Size(L(L_RETURNED)) > 0) more = let_rest(ledger);
    if (more < 0) return NULL;
    PyObject *slabs = more ? resting(ledger, n_bytes) : NULL;
    if (!slabs || PyList_GET_SIZE(slabs) == 0 || PyList_GET_SIZE(L(L_LENT)) || PyErr_Occurred()) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NONE;
    }
    PyObject *buffer = blank(ledger, n_bytes); /* before anything is counted: it may run a collector, and that anything */
    if (!buffer) return NULL;
    PyObject *loan = B(B_LOAN), *key = PyLong_FromVoidPtr(loan);
    const Py_ssize_t last = (slabs = resting(ledger, n_bytes)) ? PyList_GET_SIZE(slabs) - 1 : -1;
    const Py_ssize_t used = PyLong_AsSsize_t(L(L_USED)) + n;
    PyObject *n_taken = PyNumber_Add(L(L_N_TAKEN), one);
    if (last < 0 || !key || !n_taken || PyDict_SetItem(L(L_LOANS), key, loan)) {
        Py_CLEAR(B(B_LOAN)); /* there is nothing to give back */
        Py_DECREF(buffer), Py_XDECREF(key), Py_XDECREF(n_taken);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    Py_DECREF(key);
    PyObject *block = Py_NewRef(PyList_GET_ITEM(slabs, last));
    W(W_BLOCK) = Py_NewRef(block);
    B(B_BLOCK) = block;
    Py_SETREF(L(L_N_TAKEN), n_taken);
    int bad = PyList_SetSlice(slabs, last, last + 1, NULL);
    bad |= put_number(&L(L_RESTING_BYTES), PyLong_AsSsize_t(L(L_RESTING_BYTES)) - n) | put_number(&L(L_USED), used);
    if (used > PyLong_AsSsize_t(L(L_PEAK))) bad |= put_number(&L(L_PEAK), used);
    if (bad) Py_CLEAR(buffer);
    return buffer;
}

/* New: as `taken`; None too while another thread has the lock. */
static PyObject *rested(PyObject *ledger, PyObject *n_bytes) {
    if (Py_TYPE(ledger) != ledger_type || !PyLong_Check(n_bytes))
        return PyErr_Format(PyExc_TypeError, "take_at_rest takes a ledger and a number of bytes");
    PyObject *lock = L(L_LOCK), *got = PyObject_CallMethodOneArg(lock, acquire, Py_False);
    if (got != Py_True) return got == Py_False ? (Py_DECREF(got), Py_NewRef(Py_None)) : NULL;
    PyObject *buffer = taken(ledger, n_bytes), *free = PyObject_CallMethodNoArgs(lock, release);
    if (!free) Py_CLEAR(buffer);
    Py_XDECREF(free), Py_DECREF(got);
    return buffer;
}

/* `Ledger.has`, as far as it can be said without taking back what was given. */
static int has(PyObject *ledger, PyObject *n_bytes) {
    const long long budget = PyLong_AsLongLong(L(L_BUDGET)), used = PyLong_AsLongLong(L(L_USED)), n = PyLong_AsLongLong(n_bytes);
    return PyErr_Occurred() ? -1 : used <= budget - n;
}

/* take_at_rest(ledger, n_bytes) */
static PyObject *take_at_rest(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    return n == 2 ? rested(args[0], args[1]) : PyErr_Format(PyExc_TypeError, "take_at_rest takes two");
}

/* install(Ledger, Buffer, Loan) */
static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *ledger, *buffer, *loan;
    static const char *const of_ledger[] = {"budget_bytes", "give_back", "_lent", "loans", "_lock", "n_taken", "peak_bytes",
                                            "_resting", "_resting_bytes", "returned", "_used_bytes"};
    static const char *const of_buffer[] = {"block", "ledger", "_loan", "n_bytes"};
    static const char *const of_loan[] = {"block", "exported", "n_bytes"};
    if (!PyArg_ParseTuple(args, "OOO", &ledger, &buffer, &loan) || find_slots(ledger, of_ledger, ledger_at, N_LEDGER) ||
        find_slots(buffer, of_buffer, buffer_at, N_BUFFER) || find_slots(loan, of_loan, loan_at, N_LOAN))
        return NULL;
    Py_INCREF(args); /* they stay */
    ledger_type = (PyTypeObject *)ledger;
    buffer_type = (PyTypeObject *)buffer;
    loan_type = loan;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"install", install, METH_VARARGS, NULL},
    {"take_at_rest", (PyCFunction)(void (*)(void))take_at_rest, METH_FASTCALL, NULL},
    {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_ledger", .m_size = -1, .m_methods = functions};

static const Ledgers ledgers = {rested, has};

PyMODINIT_FUNC PyInit__ledger(void) {
    if (!(acquire = PyUnicode_InternFromString("acquire")) || !(release = PyUnicode_InternFromString("release")) ||
        !(popleft = PyUnicode_InternFromString("popleft")) || !(one = PyLong_FromLong(1)))
        return NULL;
    PyObject *module = PyModule_Create(&definition), *pointer = module ? PyCapsule_New((void *)&ledgers, LEDGERS, NULL) : NULL;
    if (!pointer || PyObject_SetAttrString(module, "ledgers", pointer)) Py_CLEAR(module);
    Py_XDECREF(pointer);
    return module;
}
