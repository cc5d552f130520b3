/* Memory of NumPy's arrays that begins at a multiple of 64 bytes, as vectors and lines of caches do. NumPy's own begins 16
   bytes behind one, so that of vectors of 64 bytes each is in two lines: loops over what is in caches take up to 2.7 times
   as long. Small arrays keep NumPy's, which has some ready. Before each block stands how large it is and where it is. */

enum { LINE = 64, LEAST_ALIGNED = 2048 };

typedef struct {
    size_t size;
    void *whole; /* of what malloc gave; NULL: NumPy's */
} Before;

static PyDataMemAllocator numpys;

static int is_too_large(size_t size) { return size > SIZE_MAX - LINE - sizeof(Before); }

static void *begin_block(char *at, size_t size, void *whole) {
    if (!at) return NULL;
    ((Before *)at)[-1] = (Before){size, whole};
    return at;
}

static void *small_block(char *whole, size_t size) {
    return whole ? begin_block(whole + sizeof(Before), size, NULL) : NULL;
}

#ifdef __SANITIZE_ADDRESS__
/* Nothing is behind the block: a check of memory sees who writes there. (Blocks that the system aligns are not found again by
   the next of their size once they are free: memory grows.) */
static void *lines_of(size_t size, int are_zeros) {
    void *whole;
    if (posix_memalign(&whole, LINE, LINE + size)) return NULL;
    if (are_zeros) memset(whole, 0, LINE + size);
    return begin_block((char *)whole + LINE, size, whole);
}
#else
static void *lines_of(size_t size, int are_zeros) {
    const size_t with_space = size + LINE + sizeof(Before);
    void *const whole = are_zeros ? calloc(1, with_space) : malloc(with_space);
    const uintptr_t first = (uintptr_t)whole + sizeof(Before) + LINE - 1;
    return whole ? begin_block((char *)(first - first % LINE), size, whole) : NULL;
}
#endif

static void *allocate(void *Py_UNUSED(context), size_t size) {
    if (is_too_large(size)) return NULL;
    if (size < LEAST_ALIGNED) return small_block(numpys.malloc(numpys.ctx, size + sizeof(Before)), size);
    return lines_of(size, 0);
}

static void *allocate_zeros(void *Py_UNUSED(context), size_t n, size_t each) {
    if (each && n > SIZE_MAX / each) return NULL;
    const size_t size = n * each;
    if (is_too_large(size)) return NULL;
    if (size < LEAST_ALIGNED) return small_block(numpys.calloc(numpys.ctx, 1, size + sizeof(Before)), size);
    return lines_of(size, 1);
}

static void release(void *Py_UNUSED(context), void *at, size_t Py_UNUSED(size)) {
    if (!at) return;
    const Before before = ((Before *)at)[-1];
    if (before.whole) free(before.whole);
    else numpys.free(numpys.ctx, (char *)at - sizeof(Before), before.size + sizeof(Before));
}

static void *change_size(void *context, void *at, size_t size) {
    void *made = allocate(context, size);
    if (!made || !at) return made;
    const size_t held = ((Before *)at)[-1].size;
    memcpy(made, at, held < size ? held : size);
    release(context, at, held);
    return made;
}

static PyDataMem_Handler aligned = {
    "infinitensor", 1, {NULL, allocate, allocate_zeros, change_size, release}};

/* From now on, in this thread. */
static PyObject *align_arrays(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    PyObject *held = PyDataMem_GetHandler();
    if (!held) return NULL;
    const PyDataMem_Handler *handler = PyCapsule_GetPointer(held, "mem_handler");
    const int is_numpys = handler && !strcmp(handler->name, "default_allocator");
    if (is_numpys) numpys = handler->allocator;
    Py_DECREF(held);
    if (!is_numpys) return handler ? Py_NewRef(Py_False) : NULL; /* somebody else's, or ours */
    PyObject *ours = PyCapsule_New(&aligned, "mem_handler", NULL);
    held = ours ? PyDataMem_SetHandler(ours) : NULL;
    Py_XDECREF(ours);
    if (!held) return NULL;
    Py_DECREF(held);
    Py_RETURN_TRUE;
}
