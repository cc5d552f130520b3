/* `in_python` and `sight_in_python` of `api/evaluate/waiting.py`: the same numbers by the same rule, over the slots of nodes and
   versions. What it is known by is one row of bytes, not a tuple of integers. */

#include "api/session/slots.h"
#include "runtime/replay/few_kernels.h"

enum { V_EXPORTED, V_HOST, V_LIVE, V_NODE, V_READERS, V_TABLE, N_VERSION };
enum { O_ACCESSES, O_CALL, O_INPUTS, O_OP, O_OUTS, O_REGION, O_SEQ, O_SITE, N_NODE };
enum { T_FORM, T_MADE, T_USED_AT, T_WHOLE, N_TABLE };
enum { S_CLOSED, S_GRAVEYARD, S_SEQ, S_TAPE, S_WAITING_BYTES, N_SESSION };
enum { R_ALONE, R_COUNTS, R_FEW, R_PEAKS, R_SMALL, R_WAY, R_WINDOWS, N_TRACE };
static Py_ssize_t version_at[N_VERSION], node_at[N_NODE], table_at[N_TABLE], session_at[N_SESSION], trace_at[N_TRACE];
static PyTypeObject *version_type, *table_type, *session_type, *trace_type;
static PyObject *form_name, *zero, *commit_small, *forget_done, *hold_back;

#define AT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define V(object, field) AT(object, version_at[field])
#define O(object, field) AT(object, node_at[field])
#define T(object, field) AT(object, table_at[field])
#define S(object, field) AT(object, session_at[field])
#define R(object, field) PyTuple_GET_ITEM(object, trace_at[field])

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
        PyObject *table = PyList_GET_ITEM(tables, i), *form = Py_TYPE(table) == table_type ? T(table, T_FORM) : NULL;
        form = form && form != Py_None ? Py_NewRef(form) : PyObject_GetAttr(table, form_name);
        if (!form) Py_CLEAR(forms);
        else PyTuple_SET_ITEM(forms, i, form);
    }
    return forms;
}

/* New: the key of a program (`trace_key`). */
static PyObject *trace_key_of(const Found *found, PyObject *needed, PyObject *is_free, PyObject *tables, PyObject *settings) {
    PyObject *forms = forms_of(tables);
    if (!forms) return NULL;
    return Py_BuildValue("(NNNNOO)", key_of(found), PyList_AsTuple(needed), PyList_AsTuple(is_free), forms, Py_None, settings);
}

/* sight(roots, settings, store, session) */
static PyObject *sight(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 4) return PyErr_Format(PyExc_TypeError, "sight takes roots, settings, a function and a session");
    Found found = {0};
    PyObject *nodes = find(&found, args[0]), *made = NULL;
    PyObject *needed = nodes ? needed_of(&found, args[0]) : NULL, *is_free = needed ? free_of(&found) : NULL;
    PyObject *tables = is_free ? tables_of(found.leaves, args[2], args[3]) : NULL;
    PyObject *key = tables ? trace_key_of(&found, needed, is_free, tables, args[1]) : NULL;
    if (key)
        made = Py_BuildValue("OONOOO", found.leaves, found.scalars, kept_of(&found, needed), is_free, tables, key);
    let_go(&found);
    Py_XDECREF(nodes), Py_XDECREF(needed), Py_XDECREF(is_free), Py_XDECREF(tables), Py_XDECREF(key);
    return made;
}

/* Programs that have run before ------------------------------------------------------------------------------------------------ */

/* What handlers of signals raise is held back from the first line of Python on that may change something: `block` is NULL before
   it. 0 if it went well. */
static int hold(PyObject **block) { return *block || (*block = PyObject_CallNoArgs(hold_back)) ? 0 : -1; }

#define NAMES(_) \
    _(__exit__) _(counts) _(discard) _(drain) _(engine) _(has_files) _(has_room) _(key) _(leans) _(move_to_end) _(name) \
    _(progress) _(start) _(stored) _(traces) _(was_stopped) _(ways) _(window)
#define DECLARED(word) static PyObject *n_##word;
NAMES(DECLARED)
#define INTERNED(word) || !(n_##word = PyUnicode_InternFromString(#word))

static void put(PyObject **slot, PyObject *value) {
    Py_INCREF(value);
    Py_XSETREF(*slot, value);
}

/* Whether an attribute is true; -1 with an error. */
static int is_true(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    const int is = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is;
}

/* Whether a session is in a state in which programs are looked up at first sight; -1 with an error. */
static int is_plain(PyObject *session, PyObject *config) {
    if (S(session, S_CLOSED) != Py_False) return 0;
    PyObject *const unusual[] = {n_was_stopped, n_has_files, n_leans};
    for (int k = 0; k < 3; k++) {
        const int is = is_true(session, unusual[k]);
        if (is) return is < 0 ? -1 : 0;
    }
    PyObject *progress = PyObject_GetAttr(session, n_progress);
    if (!progress) return -1;
    const int shows = progress == Py_None ? is_true(config, n_progress) : PyObject_IsTrue(progress);
    Py_DECREF(progress);
    return shows < 0 ? -1 : !shows;
}

/* `counts[name] += n`. */
static int count(PyObject *counts, PyObject *name, PyObject *n) {
    PyObject *before = PyDict_GetItemWithError(counts, name);
    if (!before && PyErr_Occurred()) return -1;
    PyObject *after = before ? PyNumber_Add(before, n) : Py_NewRef(n);
    const int bad = !after || PyDict_SetItem(counts, name, after);
    Py_XDECREF(after);
    return bad;
}

static int count_all(PyObject *session, PyObject *trace) {
    PyObject *counts = PyObject_GetAttr(session, n_counts), *ways = counts ? PyObject_GetAttr(session, n_ways) : NULL;
    PyObject *name, *n, *one = ways ? PyLong_FromLong(1) : NULL;
    int bad = !one || count(ways, R(trace, R_WAY), one);
    for (Py_ssize_t at = 0; !bad && PyDict_Next(R(trace, R_COUNTS), &at, &name, &n);) bad = count(counts, name, n);
    Py_XDECREF(counts), Py_XDECREF(ways), Py_XDECREF(one);
    return bad;
}

/* `Session.keep` and the rest of `commit` for a version whose tiles are made. */
static int commit(PyObject *session, PyObject *version, PyObject *table) {
    PyObject *node = V(version, V_NODE), *name = PyObject_GetAttr(O(node, O_OP), n_name);
    PyObject *made = name ? PyTuple_Pack(2, name, O(node, O_SITE)) : NULL;
    PyObject *stored = made ? PyObject_GetAttr(session, n_stored) : NULL;
    PyObject *discard = stored ? PyObject_GetAttr(stored, n_discard) : NULL;
    PyObject *ref = discard ? PyWeakref_NewRef(version, discard) : NULL;
    const int bad = !ref || PySet_Add(stored, ref) || PyList_Append(S(session, S_GRAVEYARD), node);
    if (!bad) {
        put(&T(table, T_MADE), made), put(&T(table, T_USED_AT), S(session, S_SEQ));
        put(&V(version, V_TABLE), table), put(&V(version, V_HOST), T(table, T_WHOLE)), put(&V(version, V_NODE), Py_None);
    }
    Py_XDECREF(name), Py_XDECREF(made), Py_XDECREF(stored), Py_XDECREF(discard), Py_XDECREF(ref);
    return bad;
}

/* What was held back is raised; a block that has not begun has nothing to end. */
static void end(PyObject *block, PyObject **result) {
    if (!block) return;
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (type) PyErr_NormalizeException(&type, &value, &trace);
    PyObject *given[] = {block, type ? type : Py_None, value ? value : Py_None, trace ? trace : Py_None};
    PyObject *done = PyObject_VectorcallMethod(n___exit__, given, 4, NULL);
    if (done) PyErr_Restore(type, value, trace);
    else {
        Py_CLEAR(*result);
        Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    }
    Py_XDECREF(done), Py_DECREF(block);
}

/* Leaves that nobody else reads are used up; what was made is committed. */
static int commit_all(PyObject *session, const Found *found, PyObject *needed, PyObject *is_free, PyObject *made, PyObject *small) {
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(is_free); k++)
        if (PyList_GET_ITEM(is_free, k) == Py_True) {
            PyObject *leaf = PyList_GET_ITEM(found->leaves, k);
            put(&V(leaf, V_TABLE), Py_None), put(&V(leaf, V_HOST), Py_None);
        }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(needed); k++) {
        PyObject *number = PyList_GET_ITEM(needed, k), *table = PyDict_GetItemWithError(made, number);
        if (!table) return PyErr_Occurred() ? -1 : (PyErr_SetObject(PyExc_KeyError, number), -1);
        PyObject *version = PyList_GET_ITEM(found->values, PyLong_AsSsize_t(number));
        const int is_small = PySequence_Contains(small, number);
        if (is_small < 0) return -1;
        if (is_small || Py_TYPE(table) != table_type) {
            PyObject *done = PyObject_CallFunctionObjArgs(commit_small, session, version, table, NULL);
            if (!done) return -1;
            Py_DECREF(done);
        } else if (commit(session, version, table))
            return -1;
    }
    return 0;
}

/* Let go of what is done, and of the part of the tape that waits no more: mostly all of it. */
static int clear_up(PyObject *session) {
    PyObject *tape = S(session, S_TAPE), *done = PyObject_CallMethodNoArgs(session, n_drain);
    int waits = !done || !PyList_CheckExact(tape);
    for (Py_ssize_t k = 0; !waits && k < PyList_GET_SIZE(tape); k++) {
        PyObject *version = PyWeakref_GET_OBJECT(PyList_GET_ITEM(tape, k));
        waits = version != Py_None && V(version, V_NODE) != Py_None;
    }
    if (done && waits) Py_SETREF(done, PyObject_CallOneArg(forget_done, session));
    else if (done && PyList_GET_SIZE(tape)) {
        PyObject *none = PyList_New(0);
        if (none) {
            Py_XSETREF(S(session, S_TAPE), none);
            put(&S(session, S_WAITING_BYTES), zero);
        } else
            Py_CLEAR(done);
    }
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* New: those of the roots that wait. */
static PyObject *waiting_of(PyObject *roots) {
    PyObject *waiting = PyList_New(0);
    for (Py_ssize_t k = 0; waiting && k < PyList_GET_SIZE(roots); k++) {
        PyObject *root = PyList_GET_ITEM(roots, k);
        if (Py_TYPE(root) != version_type) {
            Py_CLEAR(waiting);
            PyErr_SetString(PyExc_TypeError, "roots are versions");
        } else if (V(root, V_NODE) != Py_None && PyList_Append(waiting, root))
            Py_CLEAR(waiting);
    }
    return waiting;
}

/* `FirstSight.look_through`: parts of leaves stand for them, which are not used up. */
static int look_through(PyObject *session, PyObject *windows, PyObject *tables, PyObject *is_free) {
    PyObject *leaf, *box;
    for (Py_ssize_t at = 0; PyDict_Next(windows, &at, &leaf, &box);) {
        const Py_ssize_t k = PyLong_AsSsize_t(leaf);
        PyObject *table = k < 0 ? NULL : PyList_GetItem(tables, k);
        if (!table) return -1;
        if (Py_TYPE(table) == table_type) put(&T(table, T_USED_AT), S(session, S_SEQ));
        PyObject *seen = PyObject_CallMethodOneArg(table, n_window, box);
        if (!seen || PyList_SetItem(tables, k, seen) || PyList_SetItem(is_free, k, Py_NewRef(Py_False))) return -1;
    }
    return 0;
}

/* New: what starting a program gives, tables by number; None where a run has to. By C alone if that can be. */
static PyObject *started(PyObject *session, PyObject *trace, PyObject *tables, PyObject *scalars, PyObject **block) {
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(tables); k++) {
        PyObject *table = PyList_GET_ITEM(tables, k);
        if (Py_TYPE(table) == table_type) put(&T(table, T_USED_AT), S(session, S_SEQ));
    }
    if (R(trace, R_ALONE) != Py_None && !*block && !PyTuple_GET_SIZE(R(trace, R_SMALL))) {
        const FewKernels *few = PyCapsule_GetPointer(R(trace, R_ALONE), FEW_KERNELS);
        PyObject *made = few ? few->start_alone(R(trace, R_FEW), tables, scalars) : NULL;
        if (made || !few) return made;
    }
    PyObject *engine = PyObject_GetAttr(session, n_engine);
    PyObject *room = engine ? PyObject_CallMethodOneArg(engine, n_has_room, R(trace, R_PEAKS)) : NULL;
    const int has = room ? PyObject_IsTrue(room) : -1;
    Py_XDECREF(engine), Py_XDECREF(room);
    if (has <= 0) return has ? NULL : Py_NewRef(Py_None);
    return hold(block) ? NULL : PyObject_CallMethodObjArgs(R(trace, R_FEW), n_start, tables, scalars, NULL);
}

/* Start a program that is recognised and commit what it makes: new, True; else its trace, or None. */
static PyObject *started_again(PyObject *session, const Found *found, PyObject *needed, PyObject *is_free, PyObject *tables,
                               PyObject *key, PyObject **block) {
    PyObject *traces = PyObject_GetAttr(session, n_traces);
    PyObject *trace = traces ? Py_XNewRef(PyDict_GetItemWithError(traces, key)) : NULL, *made = NULL, *moved = NULL;
    PyObject *result = traces && !trace && !PyErr_Occurred() ? Py_NewRef(Py_None) : NULL;
    if (trace && Py_TYPE(trace) == trace_type) {
        if (R(trace, R_FEW) == Py_None) result = Py_NewRef(Py_None);
        else if (look_through(session, R(trace, R_WINDOWS), tables, is_free)) result = NULL;
        else if ((made = started(session, trace, tables, found->scalars, block)) == Py_None) result = Py_NewRef(trace);
        else if (made && PyDict_CheckExact(made) && !commit_all(session, found, needed, is_free, made, R(trace, R_SMALL)) &&
                 !count_all(session, trace) && (moved = PyObject_CallMethodOneArg(traces, n_move_to_end, key)))
            result = Py_NewRef(Py_True);
    } else if (trace)
        PyErr_SetString(PyExc_TypeError, "no trace");
    Py_XDECREF(traces), Py_XDECREF(trace), Py_XDECREF(made), Py_XDECREF(moved);
    return result;
}

/* Whether all leaves have tables: then no Python has to store any. */
static int have_tables(PyObject *leaves) {
    int have = 1;
    for (Py_ssize_t i = 0; have && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *table = V(PyList_GET_ITEM(leaves, i), V_TABLE);
        have = table && table != Py_None;
    }
    return have;
}

/* repeat(session, roots, config, store): as `repeat_in_python` of `evaluate.py` */
static PyObject *repeat(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 4 || !session_type || !PyObject_TypeCheck(args[0], session_type) || !PyList_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "repeat takes a session, versions, the configuration and a function");
    PyObject *session = args[0];
    const int plain = is_plain(session, args[2]);
    if (plain <= 0) return plain ? NULL : Py_NewRef(Py_None);
    PyObject *drained = PyObject_CallMethodNoArgs(session, n_drain), *roots = drained ? waiting_of(args[1]) : NULL, *result = NULL;
    Py_XDECREF(drained);
    Found found = {0};
    PyObject *nodes = roots ? find(&found, roots) : NULL, *settings = nodes ? PyObject_CallMethodNoArgs(args[2], n_key) : NULL;
    PyObject *needed = settings ? needed_of(&found, roots) : NULL, *is_free = needed ? free_of(&found) : NULL, *block = NULL;
    const int is_ready = is_free && (have_tables(found.leaves) || !hold(&block));
    PyObject *tables = is_ready ? tables_of(found.leaves, args[3], session) : NULL;
    PyObject *key = tables ? trace_key_of(&found, needed, is_free, tables, settings) : NULL;
    if (key) result = started_again(session, &found, needed, is_free, tables, key, &block);
    let_go(&found);
    Py_XDECREF(nodes), Py_XDECREF(settings), Py_XDECREF(needed), Py_XDECREF(is_free), Py_XDECREF(tables), Py_XDECREF(key);
    Py_XDECREF(roots);
    if (result == Py_True && clear_up(session)) Py_CLEAR(result);
    end(block, &result);
    return result;
}

/* install(Version, Node, TileTable) */
static PyObject *install(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *version, *node, *table;
    static const char *const of_version[] = {"exported", "host", "live", "node", "readers", "table"};
    static const char *const of_node[] = {"accesses", "call", "inputs", "op", "outs", "region", "seq", "site"};
    static const char *const of_table[] = {"_form", "made", "used_at", "whole"};
    if (!PyArg_ParseTuple(args, "OOO", &version, &node, &table) ||
        find_slots(version, of_version, version_at, N_VERSION) || find_slots(node, of_node, node_at, N_NODE) ||
        find_slots(table, of_table, table_at, N_TABLE) || !(form_name = PyUnicode_InternFromString("form")))
        return NULL;
    version_type = (PyTypeObject *)version;
    table_type = (PyTypeObject *)table;
    Py_INCREF(args); /* they stay */
    Py_RETURN_NONE;
}

/* repeat_by(Session, Trace, commit, forget_done, hold_back): from now on programs can be repeated */
static PyObject *repeat_by(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *session, *trace;
    static const char *const of_session[] = {"closed", "graveyard", "seq", "tape", "waiting_bytes"};
    static const char *const of_trace[] = {"alone", "counts", "few", "peaks", "small", "way", "windows"};
    if (!PyArg_ParseTuple(args, "OOOOO", &session, &trace, &commit_small, &forget_done, &hold_back) ||
        find_slots(session, of_session, session_at, N_SESSION) || find_fields(trace, of_trace, trace_at, N_TRACE))
        return NULL;
    trace_type = (PyTypeObject *)trace;
    session_type = (PyTypeObject *)session;
    Py_INCREF(args); /* they stay */
    Py_RETURN_NONE;
}

#define FAST(call) (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL
static PyMethodDef methods[] = {{"install", install, METH_VARARGS, NULL}, {"repeat_by", repeat_by, METH_VARARGS, NULL},
                                {"walk", walk, METH_O, NULL},             {"sight", FAST(sight)},
                                {"repeat", FAST(repeat)},                 {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_waiting", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__waiting(void) {
    if (!(zero = PyLong_FromLong(0)) NAMES(INTERNED)) return NULL;
    return PyModule_Create(&definition);
}
