/* What `few_kernels.c` gives other C files, by a pointer of this name. */
#define FEW_KERNELS "infinitensor.few_kernels"
typedef struct {
    /* New: the tables of what a program holds, by number, which was recorded on the memory it gets and is started. NULL, no
       error and nothing started, where Python has to look. No Python runs from the start of its kernels on. */
    PyObject *(*start_alone)(PyObject *few, PyObject *leaves, PyObject *scalars);
} FewKernels;
