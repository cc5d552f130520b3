/* Calls of NVIDIA's driver that are made at every evaluation, without what torch and `ctypes` put around them. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

static int (*graph_launch)(void *, void *);
static int (*stream_synchronize)(void *);
static int (*copy_to_host)(void *, uint64_t, size_t);

/* launch_graph(graph, stream): whether the driver has started a recording on a stream; else torch has to, and says what is wrong */
static PyObject *launch_graph(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 2) return PyErr_Format(PyExc_TypeError, "launch_graph takes two addresses");
    void *graph = PyLong_AsVoidPtr(args[0]), *stream = PyLong_AsVoidPtr(args[1]);
    if (PyErr_Occurred()) return NULL;
    int refused = 1;
    if (graph_launch && graph) {
        Py_BEGIN_ALLOW_THREADS
        refused = graph_launch(graph, stream);
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(!refused);
}

/* wait(streams): whether the driver has waited for all of them; else torch has to */
static PyObject *wait(PyObject *Py_UNUSED(module), PyObject *streams) {
    if (!PyTuple_CheckExact(streams)) return PyErr_Format(PyExc_TypeError, "wait takes a tuple of addresses");
    int refused = !stream_synchronize;
    for (Py_ssize_t k = 0; !refused && k < PyTuple_GET_SIZE(streams); k++) {
        void *stream = PyLong_AsVoidPtr(PyTuple_GET_ITEM(streams, k));
        if (PyErr_Occurred()) return NULL;
        Py_BEGIN_ALLOW_THREADS
        refused = stream_synchronize(stream);
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(!refused);
}

/* read(to, from, bytes): whether the driver has copied bytes of a GPU, on which nothing is at work, to the host */
static PyObject *read_bytes(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t n) {
    if (n != 3) return PyErr_Format(PyExc_TypeError, "read takes two addresses and a number of bytes");
    void *to = PyLong_AsVoidPtr(args[0]), *from = PyLong_AsVoidPtr(args[1]);
    size_t n_bytes = PyLong_AsSize_t(args[2]);
    if (PyErr_Occurred()) return NULL;
    int refused = 1;
    if (copy_to_host) {
        Py_BEGIN_ALLOW_THREADS
        refused = copy_to_host(to, (uintptr_t)from, n_bytes);
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(!refused);
}

/* use(cuGraphLaunch, cuStreamSynchronize, cuMemcpyDtoH): their addresses */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_ssize_t launch, synchronize, copy;
    if (!PyArg_ParseTuple(args, "nnn", &launch, &synchronize, &copy)) return NULL;
    *(Py_ssize_t *)&graph_launch = launch;
    *(Py_ssize_t *)&stream_synchronize = synchronize;
    *(Py_ssize_t *)&copy_to_host = copy;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"launch_graph", (PyCFunction)(void (*)(void))launch_graph, METH_FASTCALL, NULL},
                                  {"wait", wait, METH_O, NULL},
                                  {"read", (PyCFunction)(void (*)(void))read_bytes, METH_FASTCALL, NULL},
                                  {"use", use, METH_VARARGS, NULL},
                                  {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_gpu_driver", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__gpu_driver(void) { return PyModule_Create(&definition); }
