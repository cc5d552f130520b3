/* What `ledger.c` gives other C files, by a pointer of this name. */
#define LEDGERS "infinitensor.ledgers"
typedef struct {
    PyObject *(*take_at_rest)(PyObject *ledger, PyObject *n_bytes); /* new: a buffer; None where Python has to look */
    int (*has)(PyObject *ledger, PyObject *n_bytes);                /* whether there is room for sure; -1 with an error */
} Ledgers;
