/* Tables that are copies of a model but for their tiles: `TileTable` in C, for files that make one at every evaluation. */

enum { MOST_SLOTS = 32 };
enum { T_ARRAYS, T_BUFFERS, T_IN_REACH, T_LOWER_BUFFERS, T_LOWER_TILES, T_WHOLE, N_OWN };
static Py_ssize_t table_at[MOST_SLOTS], own_at[N_OWN];
static int n_slots;
static PyTypeObject *table_type;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define T(table, field) AT(table, own_at[field])

/* All slots of tables. */
static int know_tables(PyObject *type) {
    static const char *const own[] = {"arrays", "buffers", "in_reach", "lower_buffers", "lower_tiles", "whole"};
    PyObject *names = PyObject_GetAttrString(type, "__slots__");
    const Py_ssize_t n = names && PyTuple_Check(names) ? PyTuple_GET_SIZE(names) : MOST_SLOTS + 1;
    int bad = n > MOST_SLOTS || find_slots(type, own, own_at, N_OWN);
    for (n_slots = 0; !bad && n_slots < n; n_slots++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, n_slots));
        bad = !name || find_slots(type, &name, &table_at[n_slots], 1);
    }
    Py_XDECREF(names);
    if (bad && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "too many slots");
    table_type = (PyTypeObject *)type;
    return bad ? -1 : 0;
}

/* New: a table like a model, with these buffers and arrays. */
static PyObject *table_like(PyObject *model, PyObject *buffers, PyObject *arrays) {
    PyObject *table = table_type->tp_alloc(table_type, 0), *tiles = PyList_New(0), *slabs = PyList_New(0);
    if (!table || !tiles || !slabs) {
        Py_XDECREF(table), Py_XDECREF(tiles), Py_XDECREF(slabs);
        return NULL;
    }
    for (int k = 0; k < n_slots; k++) AT(table, table_at[k]) = Py_XNewRef(AT(model, table_at[k]));
    Py_INCREF(buffers), Py_INCREF(arrays);
    Py_XSETREF(T(table, T_BUFFERS), buffers);
    Py_XSETREF(T(table, T_ARRAYS), arrays);
    Py_XSETREF(T(table, T_LOWER_TILES), tiles);
    Py_XSETREF(T(table, T_LOWER_BUFFERS), slabs);
    return table;
}
