/* `in_python` and `sight_in_python` of `api/evaluate/waiting.py`: the same numbers by the same rule, over the slots of nodes and
   versions. What it is known by is one row of bytes, not a tuple of integers. */

#include "api/session/slots.h"

enum { V_EXPORTED, V_LIVE, V_NODE, V_READERS, V_TABLE, N_VERSION };
enum { O_ACCESSES, O_CALL, O_INPUTS, O_OP, O_OUTS, O_REGION, O_SEQ, N_NODE };
enum { T_FORM, N_TABLE };
static Py_ssize_t version_at[N_VERSION], node_at[N_NODE], table_at[N_TABLE];
static PyTypeObject *version_type, *table_type;
static PyObject *form_name;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define V(object, field) AT(object, version_at[field])
#define O(object, field) AT(object, node_at[field])

/* Numbers by address, in a table of a power of two of places that is at most half full. */
typedef struct {
    const void *key;
    Py_ssize_t number;
} Numbered;
typedef struct {
    Numbered *places;
    Py_ssize_t n, room;
} Table;

static Py_ssize_t place_of(const Table *table, const void *key) {
    size_t at = ((size_t)key >> 4) * 0x9E3779B97F4A7C15u >> 20;
    for (;; at++) {
        at &= table->room - 1;
        if (!table->places[at].key || table->places[at].key == key) return at;
    }
}

static void free_table(Table *table) { PyMem_Free(table->places); }

static int put_number(Table *table, const void *key, Py_ssize_t number) {
    if (2 * table->n >= table->room) {
        Table larger = {NULL, table->n, table->room ? 2 * table->room : 16};
        larger.places = PyMem_Calloc(larger.room, sizeof *larger.places);
        if (!larger.places) {
            PyErr_NoMemory();
            return -1;
        }
        for (Py_ssize_t i = 0; i < table->room; i++)
            if (table->places[i].key) larger.places[place_of(&larger, table->places[i].key)] = table->places[i];
        free_table(table);
        *table = larger;
    }
    Numbered *place = &table->places[place_of(table, key)];
    table->n += !place->key;
    *place = (Numbered){key, number};
    return 0;
}

static Py_ssize_t number_of(const Table *table, const void *key) {
    if (!table->room) return -1;
    const Numbered *place = &table->places[place_of(table, key)];
    return place->key ? place->number : -1;
}

/* A row of integers that grows. */
typedef struct {
    long long *items;
    Py_ssize_t n, room;
} Row;

static int push(Row *row, long long item) {
    if (row->n == row->room) {
        Py_ssize_t room = row->room ? 2 * row->room : 32;
        long long *items = PyMem_Realloc(row->items, room * sizeof *items);
        if (!items) {
            PyErr_NoMemory();
            return -1;
        }
        row->items = items, row->room = room;
    }
    row->items[row->n++] = item;
    return 0;
}

static long long integer(PyObject *value) { return value ? PyLong_AsLongLong(value) : 0; }

/* A node and its place in recorded order. */
typedef struct {
    long long seq, node;
} Placed;

static int by_seq(const void *a, const void *b) {
    long long x = ((const Placed *)a)->seq, y = ((const Placed *)b)->seq;
    return (x > y) - (x < y);
}

/* Put nodes in recorded order. Those of one program nearly follow each other: then each has its place at once. */
static int put_in_order(Placed *nodes, Py_ssize_t n) {
    long long first = nodes[0].seq, last = first;
    for (Py_ssize_t i = 1; i < n; i++) {
        if (nodes[i].seq < first) first = nodes[i].seq;
        if (nodes[i].seq > last) last = nodes[i].seq;
    }
    if (last - first >= 4 * n + 64) {
        qsort(nodes, n, sizeof *nodes, by_seq);
        return 0;
    }
    Placed *at = PyMem_Calloc(last - first + 1, sizeof *at);
    if (!at) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) at[nodes[i].seq - first] = nodes[i];
    for (long long k = 0; k <= last - first; k++)
        if (at[k].node) *nodes++ = at[k];
    PyMem_Free(at);
    return 0;
}

/* New: the nodes that must run for the roots, in recorded order. */
static PyObject *nodes_of(PyObject *roots) {
    Table met = {0};
    Row stack = {0}, order = {0};
    int bad = 0;
    for (Py_ssize_t i = 0; !bad && i < PyList_GET_SIZE(roots); i++) {
        PyObject *node = V(PyList_GET_ITEM(roots, i), V_NODE);
        if (node && node != Py_None) bad = push(&stack, (long long)(size_t)node);
    }
    while (!bad && stack.n) {
        PyObject *node = (PyObject *)(size_t)stack.items[--stack.n];
        if (number_of(&met, node) >= 0) continue;
        bad = put_number(&met, node, 0) || push(&order, integer(O(node, O_SEQ))) ||
              push(&order, (long long)(size_t)node);
        PyObject *inputs = O(node, O_INPUTS);
        for (Py_ssize_t i = 0; !bad && i < PyTuple_GET_SIZE(inputs); i++) {
            PyObject *given = PyTuple_GET_ITEM(inputs, i);
            if (Py_TYPE(given) != version_type) continue;
            PyObject *before = V(given, V_NODE);
            if (before && before != Py_None && number_of(&met, before) < 0)
                bad = push(&stack, (long long)(size_t)before);
        }
    }
    Py_ssize_t n = order.n / 2;
    Placed *nodes = (Placed *)order.items;
    bad = bad || (n && put_in_order(nodes, n));
    PyObject *found = bad ? NULL : PyList_New(n);
    for (Py_ssize_t i = 0; found && i < n; i++) PyList_SET_ITEM(found, i, Py_NewRef((PyObject *)(size_t)nodes[i].node));
    free_table(&met), PyMem_Free(stack.items), PyMem_Free(order.items);
    return found;
}

/* What the walk over the nodes finds. */
typedef struct {
    PyObject *leaves, *scalars, *values;
    Table numbers;
    Row key, reads, leaf_numbers;
} Found;

static int read_by(Found *found, PyObject *given) {
    if (Py_TYPE(given) != version_type)
        return push(&found->key, -1) || PyList_Append(found->scalars, given);
    Py_ssize_t number = number_of(&found->numbers, given);
    if (number >= 0) {
        found->reads.items[number]++;
    } else {
        number = found->reads.n;
        if (put_number(&found->numbers, given, number) || push(&found->reads, 1) ||
            push(&found->leaf_numbers, number) || PyList_Append(found->values, given) ||
            PyList_Append(found->leaves, given))
            return -1;
    }
    return push(&found->key, number);
}

static int made_by(Found *found, PyObject *ref) {
    PyObject *made = PyWeakref_GET_OBJECT(ref);
    if (made != Py_None && put_number(&found->numbers, made, found->reads.n)) return -1;
    return push(&found->reads, 0) || PyList_Append(found->values, made);
}

static int add_node(Found *found, PyObject *node) {
    Row *key = &found->key;
    if (push(key, (long long)(size_t)O(node, O_OP)) || push(key, (long long)(size_t)O(node, O_CALL)) ||
        push(key, (long long)(size_t)O(node, O_REGION)))
        return -1;
    PyObject *inputs = O(node, O_INPUTS), *accesses = O(node, O_ACCESSES), *outs = O(node, O_OUTS);
    int is_seen = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++)
        if (read_by(found, PyTuple_GET_ITEM(inputs, i))) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(accesses); i++)
        is_seen |= PyTuple_GET_ITEM(accesses, i) != Py_None;
    for (Py_ssize_t i = 0; is_seen && i < PyTuple_GET_SIZE(accesses); i++)
        if (push(key, (long long)(size_t)PyTuple_GET_ITEM(accesses, i))) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outs); i++)
        if (made_by(found, PyTuple_GET_ITEM(outs, i))) return -1;
    return 0;
}

/* New: the numbers of values of nodes that were asked for, are shown, or are read elsewhere too. */
static PyObject *needed_of(const Found *found, PyObject *roots) {
    PyObject *needed = PyList_New(0);
    Table asked = {0};
    for (Py_ssize_t i = 0; needed && i < PyList_GET_SIZE(roots); i++)
        if (put_number(&asked, PyList_GET_ITEM(roots, i), 0)) Py_CLEAR(needed);
    for (Py_ssize_t n = 0; needed && n < found->reads.n; n++) {
        PyObject *value = PyList_GET_ITEM(found->values, n);
        if (value == Py_None || V(value, V_NODE) == Py_None) continue;
        int is = integer(V(value, V_LIVE)) > 0 || number_of(&asked, value) >= 0 ||
                 integer(V(value, V_READERS)) > found->reads.items[n];
        PyObject *number = is ? PyLong_FromSsize_t(n) : NULL;
        if (is && (!number || PyList_Append(needed, number))) Py_CLEAR(needed);
        Py_XDECREF(number);
    }
    free_table(&asked);
    return needed;
}

/* New: for each leaf, whether nobody but these nodes will read its tiles. */
static PyObject *free_of(const Found *found) {
    PyObject *is_free = PyList_New(found->leaf_numbers.n);
    for (Py_ssize_t i = 0; is_free && i < found->leaf_numbers.n; i++) {
        PyObject *leaf = PyList_GET_ITEM(found->leaves, i);
        int is = integer(V(leaf, V_LIVE)) == 0 && integer(V(leaf, V_EXPORTED)) == 0 &&
                 V(leaf, V_TABLE) != Py_None &&
                 integer(V(leaf, V_READERS)) == found->reads.items[found->leaf_numbers.items[i]];
        PyList_SET_ITEM(is_free, i, PyBool_FromLong(is));
    }
    return is_free;
}

static PyObject *list_of(const Row *row) {
    PyObject *made = PyList_New(row->n);
    for (Py_ssize_t i = 0; made && i < row->n; i++) {
        PyObject *item = PyLong_FromLongLong(row->items[i]);
        if (!item) Py_CLEAR(made);
        else PyList_SET_ITEM(made, i, item);
    }
    return made;
}

/* Walk from the roots; new: the nodes, or NULL with an error. */
static PyObject *find(Found *found, PyObject *roots) {
    if (!PyList_CheckExact(roots)) return PyErr_Format(PyExc_TypeError, "roots are a list");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(roots); i++)
        if (Py_TYPE(PyList_GET_ITEM(roots, i)) != version_type)
            return PyErr_Format(PyExc_TypeError, "roots are versions");
    PyObject *nodes = nodes_of(roots);
    found->leaves = PyList_New(0), found->scalars = PyList_New(0), found->values = PyList_New(0);
    int bad = !nodes || !found->leaves || !found->scalars || !found->values;
    for (Py_ssize_t i = 0; !bad && i < PyList_GET_SIZE(nodes); i++)
        bad = add_node(found, PyList_GET_ITEM(nodes, i));
    if (bad) Py_CLEAR(nodes);
    return nodes;
}

static PyObject *key_of(const Found *found) {
    return PyBytes_FromStringAndSize((char *)found->key.items, found->key.n * sizeof *found->key.items);
}

static void let_go(Found *found) {
    free_table(&found->numbers);
    PyMem_Free(found->key.items), PyMem_Free(found->reads.items), PyMem_Free(found->leaf_numbers.items);
    Py_XDECREF(found->leaves), Py_XDECREF(found->scalars), Py_XDECREF(found->values);
}

/* walk(roots) */
static PyObject *walk(PyObject *Py_UNUSED(module), PyObject *roots) {
    Found found = {0};
    PyObject *made = NULL, *nodes = find(&found, roots);
    if (nodes)
        made = Py_BuildValue("OOOONNNN", nodes, found.leaves, found.scalars, found.values, list_of(&found.reads),
                             needed_of(&found, roots), free_of(&found), key_of(&found));
    let_go(&found);
    Py_XDECREF(nodes);
    return made;
}

/* New: the values that have these numbers, by number. */
static PyObject *kept_of(const Found *found, PyObject *needed) {
    PyObject *kept = PyDict_New();
    for (Py_ssize_t i = 0; kept && i < PyList_GET_SIZE(needed); i++) {
        PyObject *number = PyList_GET_ITEM(needed, i);
        if (PyDict_SetItem(kept, number, PyList_GET_ITEM(found->values, PyLong_AsSsize_t(number)))) Py_CLEAR(kept);
    }
    return kept;
}

/* New: the tables of leaves, which `store(session, leaf)` gives where they have none. */
static PyObject *tables_of(PyObject *leaves, PyObject *store, PyObject *session) {
    PyObject *tables = PyList_New(PyList_GET_SIZE(leaves));
    for (Py_ssize_t i = 0; tables && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i), *table = V(leaf, V_TABLE);
        table = table && table != Py_None ? Py_NewRef(table) : PyObject_CallFunctionObjArgs(store, session, leaf, NULL);
        if (!table) Py_CLEAR(tables);
        else PyList_SET_ITEM(tables, i, table);
    }
    return tables;
}

/* New: what plans know of the tables. */
static PyObject *forms_of(PyObject *tables) {
    PyObject *forms = PyTuple_New(PyList_GET_SIZE(tables));
    for (Py_ssize_t i = 0; forms && i < PyTuple_GET_SIZE(forms); i++) {
        PyObject *table = PyList_GET_ITEM(tables, i), *form = Py_TYPE(table) == table_type ? AT(table, table_at[T_FORM]) : NULL;
        form = form && form != Py_None ? Py_NewRef(form) : PyObject_GetAttr(table, form_name);
        if (!form) Py_CLEAR(forms);
        else PyTuple_SET_ITEM(forms, i, form);
    }
    return forms;
}

/* sight(roots, settings, store, session) */
static PyObject *sight(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 4) return PyErr_Format(PyExc_TypeError, "sight takes roots, settings, a function and a session");
    Found found = {0};
    PyObject *nodes = find(&found, args[0]), *made = NULL;
    PyObject *needed = nodes ? needed_of(&found, args[0]) : NULL, *is_free = needed ? free_of(&found) : NULL;
    PyObject *tables = is_free ? tables_of(found.leaves, args[2], args[3]) : NULL, *forms = tables ? forms_of(tables) : NULL;
    if (forms)
        made = Py_BuildValue("OONOO(NNNOOO)", found.leaves, found.scalars, kept_of(&found, needed), is_free, tables, key_of(&found),
                             PyList_AsTuple(needed), PyList_AsTuple(is_free), forms, Py_None, args[1]);
    let_go(&found);
    Py_XDECREF(nodes), Py_XDECREF(needed), Py_XDECREF(is_free), Py_XDECREF(tables), Py_XDECREF(forms);
    return made;
}

/* install(Version, Node, TileTable) */
static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *version, *node, *table;
    static const char *const of_version[] = {"exported", "live", "node", "readers", "table"};
    static const char *const of_node[] = {"accesses", "call", "inputs", "op", "outs", "region", "seq"};
    static const char *const of_table[] = {"_form"};
    if (!PyArg_ParseTuple(args, "OOO", &version, &node, &table) ||
        find_slots(version, of_version, version_at, N_VERSION) || find_slots(node, of_node, node_at, N_NODE) ||
        find_slots(table, of_table, table_at, N_TABLE) || !(form_name = PyUnicode_InternFromString("form")))
        return NULL;
    version_type = (PyTypeObject *)version;
    table_type = (PyTypeObject *)table;
    Py_INCREF(args); /* they stay */
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"install", install, METH_VARARGS, NULL},
                                {"walk", walk, METH_O, NULL},
                                {"sight", (PyCFunction)(void (*)(void))sight, METH_FASTCALL, NULL},
                                {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_waiting", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__waiting(void) { return PyModule_Create(&definition); }
