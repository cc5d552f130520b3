/* `Few._take`, `_replay` and `_tables` of `few_kernels.py` for a program that was recorded on the memory it gets: one call, over
   the same slots. No Python of ours runs in between but the device's `play`; where evaluations ask (`start_alone`), not even that. */

#include "api/session/slots.h"
#include "devices/ledger.h"
#include "runtime/replay/few_kernels.h"
#include "runtime/state/model_table.h"

enum { F_ALIKE, F_DEVICE, F_HELD, F_IN_PLACE, F_LEAVES, F_LEDGER, F_LOADS, F_PEAK_BYTES, F_REPLAYS, F_SLOT_BYTES, N_FEW };
enum { B_BLOCK, N_BUFFER };
enum { K_FORM, K_MODEL, N_BLANK };
enum { P_MISSED, P_SCALARS, P_SEEN, P_TEXTS, N_REPLAYS };
enum { G_CHECKS, G_NOTED, G_START, N_RECORDING };
enum { D_BY_DRIVER, D_HANDLES, N_RECORDED };
static Py_ssize_t few_at[N_FEW], buffer_at[N_BUFFER], blank_at[N_BLANK], replays_at[N_REPLAYS], recording_at[N_RECORDING];
static Py_ssize_t recorded_at[N_RECORDED];
static PyTypeObject *few_type, *replays_type, *recording_type, *recorded_type;
static const Ledgers *ledgers;
static PyObject *zero, *hooks;

#define NAMES(_) _(_infinitensor) _(array) _(data_ptr) _(fill) _(forget) _(hold) _(is_outdone) _(move_to_end) _(play) _(take) _(texts)
#define DECLARED(word) static PyObject *n_##word;
NAMES(DECLARED)
#define INTERNED(word) || !(n_##word = PyUnicode_InternFromString(#word))

#define F(field) PyTuple_GET_ITEM(few, few_at[field])
#define BLOCK(buffer) AT(buffer, buffer_at[B_BLOCK])

/* Where a tensor's memory begins; 0 with an error. */
static long long place_of(PyObject *tensor) {
    PyObject *place = PyObject_CallMethodNoArgs(tensor, n_data_ptr);
    const long long found = place ? PyLong_AsLongLong(place) : 0;
    Py_XDECREF(place);
    return found;
}

/* New: memory for what is made, by slots. */
static PyObject *buffers_of(PyObject *few) {
    PyObject *sizes = F(F_SLOT_BYTES), *buffers = PyList_New(PyTuple_GET_SIZE(sizes));
    for (Py_ssize_t k = 0; buffers && k < PyList_GET_SIZE(buffers); k++) {
        PyObject *n_bytes = PyTuple_GET_ITEM(sizes, k), *buffer = ledgers->take_at_rest(F(F_LEDGER), n_bytes);
        if (buffer == Py_None) Py_SETREF(buffer, PyObject_CallMethodOneArg(F(F_LEDGER), n_take, n_bytes));
        if (!buffer) Py_CLEAR(buffers);
        else PyList_SET_ITEM(buffers, k, buffer);
    }
    return buffers;
}

/* Order the buffers of slots that are alike by their places. */
static void order_by_place(PyObject *slots, PyObject *buffers, long long *places) {
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(slots); i++)
        for (Py_ssize_t j = i; j > 0; j--) {
            const Py_ssize_t a = PyLong_AsSsize_t(PyTuple_GET_ITEM(slots, j - 1)), b = PyLong_AsSsize_t(PyTuple_GET_ITEM(slots, j));
            if (places[a] <= places[b]) break;
            PyObject *buffer = PyList_GET_ITEM(buffers, a);
            const long long place = places[a];
            PyList_SET_ITEM(buffers, a, PyList_GET_ITEM(buffers, b)), places[a] = places[b];
            PyList_SET_ITEM(buffers, b, buffer), places[b] = place;
        }
}

/* New: the memory of a program, leaves that are read where they are and then slots; NULL with an error. */
static PyObject *memory_of(PyObject *few, PyObject *leaves, PyObject *buffers) {
    PyObject *in_place = F(F_IN_PLACE), *alike = F(F_ALIKE);
    const Py_ssize_t n_read = PyTuple_GET_SIZE(in_place), n_made = PyList_GET_SIZE(buffers);
    PyObject *memory = PyBytes_FromStringAndSize(NULL, (n_read + n_made) * sizeof(long long));
    if (!memory) return NULL;
    long long *places = (long long *)PyBytes_AS_STRING(memory);
    for (Py_ssize_t k = 0; k < n_read; k++) {
        PyObject *leaf = PyTuple_GET_ITEM(F(F_LEAVES), PyLong_AsSsize_t(PyTuple_GET_ITEM(in_place, k)));
        PyObject *table = PyList_GetItem(leaves, PyLong_AsSsize_t(PyTuple_GET_ITEM(leaf, 0)));
        PyObject *arrays = table && Py_TYPE(table) == table_type ? T(table, T_ARRAYS) : NULL;
        PyObject *array = arrays ? PySequence_GetItem(arrays, PyLong_AsSsize_t(PyTuple_GET_ITEM(leaf, 1))) : NULL;
        places[k] = array ? place_of(array) : 0;
        Py_XDECREF(array);
        if (!places[k]) goto failed;
    }
    for (Py_ssize_t k = 0; k < n_made; k++)
        if (!(places[n_read + k] = place_of(BLOCK(PyList_GET_ITEM(buffers, k)))) && PyErr_Occurred()) goto failed;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(alike); k++) order_by_place(PyTuple_GET_ITEM(alike, k), buffers, places + n_read);
    return memory;
failed:
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no memory");
    Py_DECREF(memory);
    return NULL;
}

/* New: scalars as they are compared (`Replays.texts`). */
static PyObject *texts_of(PyObject *replays, PyObject *scalars) {
    PyObject *before = AT(replays, replays_at[P_SCALARS]), *texts = AT(replays, replays_at[P_TEXTS]);
    int are = PyTuple_GET_SIZE(before) == PyList_GET_SIZE(scalars);
    for (Py_ssize_t k = 0; are && k < PyTuple_GET_SIZE(before); k++)
        are = PyTuple_GET_ITEM(before, k) == PyList_GET_ITEM(scalars, k);
    return are ? Py_NewRef(texts) : PyObject_CallMethodOneArg(replays, n_texts, scalars);
}

/* New: the recording of a key, as the one that was used last (`Replays.find`); None where there is none. */
static PyObject *recording_of(PyObject *replays, PyObject *key) {
    PyObject *seen = AT(replays, replays_at[P_SEEN]), *found = PyDict_GetItemWithError(seen, key);
    if (!found || found == Py_None) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Py_INCREF(found);
    PyObject *moved = PyObject_CallMethodOneArg(seen, n_move_to_end, key);
    if (!moved) Py_CLEAR(found);
    Py_XDECREF(moved);
    Py_INCREF(zero);
    Py_SETREF(AT(replays, replays_at[P_MISSED]), zero);
    return found;
}

/* Start what was recorded: 1; 0 where operands were wrong; -1 with an error. */
static int play(PyObject *few, PyObject *replays, PyObject *key, PyObject *recording) {
    PyObject *start = AT(recording, recording_at[G_START]), *checks = AT(recording, recording_at[G_CHECKS]);
    PyObject *played = PyObject_CallMethodOneArg(F(F_DEVICE), n_play, start);
    if (!played) return -1;
    Py_DECREF(played);
    if (PyList_GET_SIZE(AT(recording, recording_at[G_NOTED]))) {
        PyObject *due = PyObject_CallMethodNoArgs(recording, n_is_outdone);
        PyObject *done = !due ? NULL : due == Py_True ? PyObject_CallMethodOneArg(replays, n_forget, key) : Py_NewRef(Py_None);
        Py_XDECREF(due), Py_XDECREF(done);
        if (!done) return -1;
    }
    if (!PyObject_IsTrue(checks)) return 1;
    PyObject *right = PyObject_CallMethodOneArg(few, n_hold, checks);
    const int is = right ? PyObject_IsTrue(right) : -1;
    Py_XDECREF(right);
    return is;
}

/* New: the array that a buffer shows: the one before, if it is asked for again (`CudaDevice.array`). */
static PyObject *array_of(PyObject *few, PyObject *block, PyObject *shape, PyObject *dtype) {
    PyObject *before = PyObject_GetAttr(block, n__infinitensor);
    if (before && PyTuple_CheckExact(before) && PyTuple_GET_SIZE(before) == 3 && PyTuple_GET_ITEM(before, 1) == dtype) {
        const int is = PyObject_RichCompareBool(PyTuple_GET_ITEM(before, 0), shape, Py_EQ);
        PyObject *array = is > 0 ? Py_NewRef(PyTuple_GET_ITEM(before, 2)) : NULL;
        Py_DECREF(before);
        if (is) return array;
    } else
        Py_XDECREF(before);
    PyErr_Clear();
    return PyObject_CallMethodObjArgs(F(F_DEVICE), n_array, block, shape, dtype, NULL);
}

/* New: the table of these tiles (`BlankTable.fill`), a copy of the model of its form. */
static PyObject *table_of(PyObject *blank, PyObject *buffers, PyObject *arrays) {
    PyObject *model = AT(blank, blank_at[K_MODEL]);
    if (!model || Py_TYPE(model) != table_type || AT(blank, blank_at[K_FORM]) == Py_None)
        return PyObject_CallMethodObjArgs(blank, n_fill, buffers, arrays, NULL);
    return table_like(model, buffers, arrays);
}

/* New: the table of a value that outlives the program. */
static PyObject *held_table(PyObject *few, PyObject *kept, PyObject *buffers) {
    PyObject *outs = PyTuple_GET_ITEM(kept, 1), *table = NULL;
    PyObject *homes = PyList_New(PyTuple_GET_SIZE(outs)), *arrays = PyList_New(PyTuple_GET_SIZE(outs));
    int bad = !homes || !arrays;
    for (Py_ssize_t k = 0; !bad && k < PyTuple_GET_SIZE(outs); k++) {
        PyObject *out = PyTuple_GET_ITEM(outs, k), *home = PyList_GET_ITEM(buffers, PyLong_AsSsize_t(PyTuple_GET_ITEM(out, 0)));
        PyObject *array = array_of(few, BLOCK(home), PyTuple_GET_ITEM(out, 1), PyTuple_GET_ITEM(out, 2));
        bad = !array;
        PyList_SET_ITEM(homes, k, Py_NewRef(home)), PyList_SET_ITEM(arrays, k, array);
    }
    if (!bad) table = table_of(PyTuple_GET_ITEM(kept, 0), homes, arrays);
    Py_XDECREF(homes), Py_XDECREF(arrays);
    return table;
}

/* New: the tables of what is held, by number. */
static PyObject *tables_of(PyObject *few, PyObject *buffers) {
    PyObject *held = F(F_HELD), *tables = PyDict_New();
    for (Py_ssize_t k = 0; tables && k < PyTuple_GET_SIZE(held); k++) {
        PyObject *one = PyTuple_GET_ITEM(held, k), *table = held_table(few, PyTuple_GET_ITEM(one, 1), buffers);
        if (!table || PyDict_SetItem(tables, PyTuple_GET_ITEM(one, 0), table)) Py_CLEAR(tables);
        Py_XDECREF(table);
    }
    return tables;
}

/* The memory that a program has taken, and what was recorded on it, by its key. */
typedef struct {
    PyObject *buffers, *key, *recording; /* Py_None where nothing was */
} Taken;

static void let_go(Taken *taken) {
    Py_XDECREF(taken->buffers), Py_XDECREF(taken->key), Py_XDECREF(taken->recording);
    *taken = (Taken){0};
}

/* Take memory, and find what was recorded on it; 0 if it went well. */
static int take(PyObject *few, PyObject *leaves, PyObject *scalars, Taken *taken) {
    PyObject *replays = F(F_REPLAYS);
    *taken = (Taken){buffers_of(few), NULL, NULL};
    PyObject *memory = taken->buffers && Py_TYPE(replays) == replays_type ? memory_of(few, leaves, taken->buffers) : NULL;
    if (!taken->buffers) return -1;
    if (!memory) { /* some of it is on the host */
        PyErr_Clear();
        taken->recording = Py_NewRef(Py_None);
        return 0;
    }
    PyObject *texts = texts_of(replays, scalars);
    taken->key = texts ? PyTuple_Pack(2, memory, texts) : NULL;
    taken->recording = taken->key ? recording_of(replays, taken->key) : NULL;
    Py_DECREF(memory), Py_XDECREF(texts);
    if (taken->recording) return 0;
    let_go(taken);
    return -1;
}

/* start_recorded(few, leaves, scalars): the tables of what is held; a list, the memory that was taken, where nothing was recorded
   on it; None where operands were wrong. */
static PyObject *start_recorded(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || !few_type || Py_TYPE(args[0]) != few_type || !PyList_CheckExact(args[1]) || !PyList_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "start_recorded takes a program and two lists");
    PyObject *few = args[0], *result = NULL;
    Taken taken;
    if (take(few, args[1], args[2], &taken)) return NULL;
    if (Py_TYPE(taken.recording) != recording_type) result = Py_NewRef(taken.buffers);
    else {
        const int started = play(few, F(F_REPLAYS), taken.key, taken.recording);
        result = started > 0 ? tables_of(few, taken.buffers) : started ? NULL : Py_NewRef(Py_None);
    }
    let_go(&taken);
    return result;
}

/* Whether the driver has started what was recorded, for which C asks it; -1 with an error. */
static int is_launched(PyObject *start) {
    if (Py_TYPE(start) != recorded_type) return 0;
    PyObject *launch = AT(start, recorded_at[D_BY_DRIVER]), *handles = AT(start, recorded_at[D_HANDLES]);
    if (!PyCFunction_CheckExact(launch)) return 0; /* there is no driver */
    PyObject *given[] = {PyTuple_GET_ITEM(handles, 0), PyTuple_GET_ITEM(handles, 1)};
    PyObject *done = PyObject_Vectorcall(launch, given, 2, NULL);
    Py_XDECREF(done);
    return done ? done == Py_True : -1;
}

static PyObject *start_alone(PyObject *few, PyObject *leaves, PyObject *scalars) {
    if (!few_type || Py_TYPE(few) != few_type || PyTuple_GET_SIZE(F(F_LOADS)) || PyDict_GET_SIZE(hooks)) return NULL;
    Taken taken = {0};
    PyObject *tables = NULL;
    int is = ledgers->has(F(F_LEDGER), F(F_PEAK_BYTES));
    if (is > 0) is = take(few, leaves, scalars, &taken) ? -1 : Py_TYPE(taken.recording) == recording_type;
    if (is > 0) {
        PyObject *noted = AT(taken.recording, recording_at[G_NOTED]), *checks = AT(taken.recording, recording_at[G_CHECKS]);
        is = PyList_GET_SIZE(noted) ? 0 : PyObject_IsTrue(checks) ? 0 : (tables = tables_of(few, taken.buffers)) ? 1 : -1;
    }
    if (is > 0) is = is_launched(AT(taken.recording, recording_at[G_START]));
    if (is <= 0) Py_CLEAR(tables);
    if (is < 0) PyErr_Clear(); /* nothing is started: who looks sees it again */
    let_go(&taken);
    return tables;
}
static const FewKernels started_alone = {start_alone};

/* install(Few, Buffer, TileTable, BlankTable, Replays, Recording, Recorded, ledgers, hooks) */
static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *few, *buffer, *table, *blank, *replays, *recording, *recorded, *pointer;
    static const char *const of_few[] = {"alike", "device", "held", "in_place", "leaves", "ledger", "loads", "peak_bytes", "replays",
                                         "slot_bytes"};
    static const char *const of_buffer[] = {"block"}, *const of_blank[] = {"_form", "_model"};
    static const char *const of_replays[] = {"_n_missed", "_scalars", "_seen", "_texts"};
    static const char *const of_recording[] = {"checks", "noted", "start"}, *const of_recorded[] = {"_by_driver", "_handles"};
    if (!PyArg_ParseTuple(args, "OOOOOOOOO!", &few, &buffer, &table, &blank, &replays, &recording, &recorded, &pointer,
                          &PyDict_Type, &hooks) ||
        !(ledgers = PyCapsule_GetPointer(pointer, LEDGERS)) || find_fields(few, of_few, few_at, N_FEW) ||
        find_slots(buffer, of_buffer, buffer_at, N_BUFFER) || know_tables(table) ||
        find_slots(blank, of_blank, blank_at, N_BLANK) || find_slots(replays, of_replays, replays_at, N_REPLAYS) ||
        find_slots(recording, of_recording, recording_at, N_RECORDING) ||
        find_slots(recorded, of_recorded, recorded_at, N_RECORDED))
        return NULL;
    few_type = (PyTypeObject *)few, replays_type = (PyTypeObject *)replays, recording_type = (PyTypeObject *)recording;
    recorded_type = (PyTypeObject *)recorded;
    Py_INCREF(args); /* they stay */
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"install", install, METH_VARARGS, NULL},
                                  {"start_recorded", (PyCFunction)(void (*)(void))start_recorded, METH_FASTCALL, NULL},
                                  {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_few_kernels", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__few_kernels(void) {
    if (!(zero = PyLong_FromLong(0)) NAMES(INTERNED)) return NULL;
    PyObject *module = PyModule_Create(&definition), *pointer = PyCapsule_New((void *)&started_alone, FEW_KERNELS, NULL);
    if (module && (!pointer || PyObject_SetAttrString(module, "started_alone", pointer))) Py_CLEAR(module);
    Py_XDECREF(pointer);
    return module;
}
