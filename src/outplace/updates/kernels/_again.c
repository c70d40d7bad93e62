/* An update of a CUDA tensor whose like was done before, done again: again.py says what that is for.
 *
 * `lookup` describes the operands, all that a way to update them may depend on, and finds the kernels that did the same
 * for operands of this description. A Recipe starts these kernels, with nothing left to work out but addresses.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(__unix__)
#include <dlfcn.h>
#endif

enum { MOST_ARGUMENTS = 32, MOST_KEPT = 1024, MOST_DIMS = 8, MOST_ITEMS = 8, ALIGNMENT = 16, INVALID_CONTEXT = 201 };
enum { OUT, X, INDEX, VALUE, LAST, LATEST, SECOND, OPERANDS };
enum { SET, SET_UNIQUE, ADD, TAKE, SPLIT, WAYS }; /* as in again.py */

/* -- what `connect` was given ------------------------------------------------------------------------------------- */

static PyTypeObject *tensor_type, *parameter_type;
static PyObject *float16, *bfloat16, *empty_like, *transforms_active, *dispatch_modes, *tracing_state, *forward_ad,
    *is_deterministic, *is_grad_enabled, *current_device, *current_stream, *set_device;
/* By description: the function to apply where a gradient is wanted, and a Recipe or what else makes the update. */
static PyObject *known;

static PyObject *name_dtype, *name_shape, *name_stride, *name_get_device, *name_data_ptr, *name_is_neg, *name_new_empty,
    *name_requires_grad, *name_level, *name_to_save, *name_saved_tensors, *name_needs_input_grad;

/* What DLPack 1.3 has for C: torch gives it since 2.10, and it takes a tenth of the time that Python's attributes take. */

typedef struct {
    void *data;
    struct {
        int32_t type, number;
    } device;
    int32_t dims;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t offset;
} DLTensor;

typedef struct {
    uint32_t major, minor;
    void *older, *allocate, *give, *take;
    int (*read)(void *tensor, DLTensor *out);
    int (*stream)(int32_t device_type, int32_t number, void **out);
} DLPack;

enum { DL_CUDA = 2, DL_FLOAT = 2, DL_BFLOAT = 4 };
static const DLPack *dlpack;

/* The driver's own functions, as far as the loader finds them. */
static int (*launch_kernel)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                            void *stream, void **arguments, void **extra);
static int (*parameter_info)(void *function, size_t number, size_t *offset, size_t *size);

static void find_driver(void)
{
#if defined(__unix__)
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library != NULL) {
        *(void **)&launch_kernel = dlsym(library, "cuLaunchKernel");
        *(void **)&parameter_info = dlsym(library, "cuFuncGetParamInfo");
    }
#endif
}

/* -- asking torch -------------------------------------------------------------------------------------------------- */

/* 1 or 0 for a truth, -1 for an error; the reference is taken. */
static int truth(PyObject *answer)
{
    if (answer == NULL)
        return -1;
    int is_true = answer == Py_True ? 1 : answer == Py_False ? 0 : PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return is_true;
}

static int whole(PyObject *answer, long long *number)
{
    if (answer == NULL)
        return -1;
    *number = (long long)PyLong_AsUnsignedLongLongMask(answer);
    Py_DECREF(answer);
    return PyErr_Occurred() ? -1 : 0;
}

/* Is anything active that has to see the operations, or that changes what they do? */
static int is_watched(void)
{
    int found = truth(PyObject_CallNoArgs(transforms_active));
    if (found == 0)
        found = truth(PyObject_CallNoArgs(dispatch_modes));
    if (found == 0)
        found = truth(PyObject_CallNoArgs(is_deterministic));
    if (found == 0) {
        PyObject *state = PyObject_CallNoArgs(tracing_state);
        if (state == NULL)
            return -1;
        found = state != Py_None;
        Py_DECREF(state);
    }
    if (found == 0) {
        PyObject *level = PyObject_GetAttr(forward_ad, name_level);
        if (level == NULL)
            return -1;
        found = PyLong_AsLong(level) >= 0;
        Py_DECREF(level);
        if (PyErr_Occurred())
            return -1;
    }
    return found;
}

static int is_tensor(PyObject *object)
{
    return Py_TYPE(object) == tensor_type || Py_TYPE(object) == parameter_type;
}

/* -- the description of an update ---------------------------------------------------------------------------------- */

typedef struct {
    int64_t words[3 * (2 + 2 * MOST_DIMS) + 7 * MOST_ITEMS + 8];
    int count;
} Description;

enum { NONE = 1, INTEGER, SLICE, ELLIPSIS, TUPLE, TENSOR, NUMBER };

static void add_word(Description *description, int64_t word)
{
    description->words[description->count++] = word;
}

typedef struct {
    int64_t device; /* -1 for a CPU */
    int64_t address;
    double most; /* the largest number of its dtype, as far as that is one of the kernels' */
} Facts;

/* All functions from here on: 1 for done, 0 for what no Recipe is for, -1 for an error. */

static int read_by_dlpack(PyObject *tensor, Description *description, Facts *facts)
{
    DLTensor read;
    if (dlpack->read(tensor, &read) != 0)
        return -1;
    if (read.dims > MOST_DIMS || (read.dims > 0 && read.strides == NULL))
        return 0;
    facts->device = read.device.type == DL_CUDA ? read.device.number : -1;
    facts->address = (int64_t)((uintptr_t)read.data + read.offset);
    facts->most = read.dtype.bits != 16          ? (double)FLT_MAX
                  : read.dtype.code == DL_BFLOAT ? 0x1.FEp127
                                                 : 65504.0;
    add_word(description, (int64_t)read.dtype.code << 32 | (int64_t)read.dtype.bits << 16 | read.dtype.lanes);
    add_word(description, read.dims);
    for (int32_t i = 0; i < read.dims; i++)
        add_word(description, read.shape[i]);
    for (int32_t i = 0; i < read.dims; i++)
        add_word(description, read.strides[i]);
    return 1;
}

static int add_sizes(Description *description, PyObject *sizes)
{
    if (sizes == NULL)
        return -1;
    int done = PyTuple_Check(sizes) && PyTuple_GET_SIZE(sizes) <= MOST_DIMS;
    for (Py_ssize_t i = 0; done && i < PyTuple_GET_SIZE(sizes); i++)
        add_word(description, PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)));
    Py_DECREF(sizes);
    return PyErr_Occurred() ? -1 : done;
}

static int read_by_attributes(PyObject *tensor, Description *description, Facts *facts)
{
    long long device, address;
    if (whole(PyObject_CallMethodNoArgs(tensor, name_get_device), &device) < 0 ||
        whole(PyObject_CallMethodNoArgs(tensor, name_data_ptr), &address) < 0)
        return -1;
    facts->device = device;
    facts->address = address;
    PyObject *dtype = PyObject_GetAttr(tensor, name_dtype);
    if (dtype == NULL)
        return -1;
    facts->most = dtype == float16 ? 65504.0 : dtype == bfloat16 ? 0x1.FEp127 : (double)FLT_MAX;
    add_word(description, (int64_t)(uintptr_t)dtype);
    Py_DECREF(dtype);
    int dims = description->count; /* where their number is to be */
    add_word(description, 0);
    int found = add_sizes(description, PyObject_GetAttr(tensor, name_shape));
    description->words[dims] = description->count - dims - 1;
    return found == 1 ? add_sizes(description, PyObject_CallMethodNoArgs(tensor, name_stride)) : found;
}

static int read_tensor(PyObject *tensor, Description *description, Facts *facts)
{
    return dlpack != NULL ? read_by_dlpack(tensor, description, facts)
                          : read_by_attributes(tensor, description, facts);
}

static int describe_tensor(Description *description, PyObject *tensor, long long device, Facts *facts)
{
    if (!is_tensor(tensor))
        return 0;
    int found = truth(PyObject_CallMethodNoArgs(tensor, name_is_neg)); /* then its memory has the other sign */
    if (found != 0)
        return found < 0 ? -1 : 0;
    add_word(description, TENSOR);
    found = read_tensor(tensor, description, facts);
    if (found != 1)
        return found;
    return facts->device == device && facts->address != 0 && facts->address % ALIGNMENT == 0;
}

/* A number that the dtype can hold, as torch has it: an int or float which is infinite or not too large. */
static int is_number(PyObject *value, double most)
{
    double number;
    if (PyFloat_CheckExact(value))
        number = PyFloat_AS_DOUBLE(value);
    else if (!PyLong_CheckExact(value))
        return 0;
    else {
        number = PyLong_AsDouble(value);
        if (PyErr_Occurred()) { /* it is too large */
            PyErr_Clear();
            return 0;
        }
    }
    return !isfinite(number) || fabs(number) <= most;
}

static int describe_place(Description *description, PyObject *place)
{
    if (place == Py_None) {
        add_word(description, NONE);
        return 1;
    }
    if (!PyLong_CheckExact(place))
        return 0;
    int overflow;
    add_word(description, INTEGER);
    add_word(description, PyLong_AsLongLongAndOverflow(place, &overflow));
    return !overflow;
}

static int describe_item(Description *description, PyObject *item)
{
    if (item == Py_Ellipsis) {
        add_word(description, ELLIPSIS);
        return 1;
    }
    if (!PySlice_Check(item))
        return describe_place(description, item);
    PySliceObject *slice = (PySliceObject *)item;
    add_word(description, SLICE);
    return describe_place(description, slice->start) && describe_place(description, slice->stop) &&
           describe_place(description, slice->step);
}

static int describe_index(Description *description, PyObject *index, long long device)
{
    Facts facts;
    if (is_tensor(index))
        return describe_tensor(description, index, device, &facts);
    if (!PyTuple_CheckExact(index))
        return describe_item(description, index);
    Py_ssize_t count = PyTuple_GET_SIZE(index);
    if (count > MOST_ITEMS)
        return 0;
    add_word(description, TUPLE);
    add_word(description, count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (!describe_item(description, PyTuple_GET_ITEM(index, i)))
            return 0;
    return 1;
}

static int describe(Description *description, PyObject *const *args, int *wants_gradient)
{
    PyObject *x = args[0], *index = args[1], *value = args[2], *how = args[3];
    Facts facts_of_x, facts_of_value;
    long long device;
    int found = is_watched();
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (whole(PyObject_CallNoArgs(current_device), &device) < 0)
        return -1;
    add_word(description, device);
    add_word(description, PyLong_AsLong(how));
    if (PyErr_Occurred())
        return -1;
    found = describe_tensor(description, x, device, &facts_of_x);
    if (found == 1)
        found = describe_index(description, index, device);
    if (found != 1)
        return found;
    int gradients = truth(PyObject_CallNoArgs(is_grad_enabled)), of_value = 0;
    if (gradients < 0)
        return -1;
    if (is_tensor(value)) {
        found = describe_tensor(description, value, device, &facts_of_value);
        if (found != 1)
            return found;
        of_value = gradients ? truth(PyObject_GetAttr(value, name_requires_grad)) : 0;
    } else if (is_number(value, facts_of_x.most))
        add_word(description, NUMBER);
    else
        return 0;
    int of_x = gradients ? truth(PyObject_GetAttr(x, name_requires_grad)) : 0;
    if (of_x < 0 || of_value < 0)
        return -1;
    *wants_gradient = of_x || of_value;
    add_word(description, of_x << 1 | of_value); /* if of the value, it counts which of several for a place is the last */
    return 1;
}

static int key_of(PyObject *const *args, int *wants_gradient, PyObject **key)
{
    Description description;
    description.count = 0;
    *key = NULL;
    int found = describe(&description, args, wants_gradient);
    if (found < 0 && (PyErr_ExceptionMatches(PyExc_RuntimeError) || PyErr_ExceptionMatches(PyExc_BufferError))) {
        PyErr_Clear(); /* a tensor without memory or strides: sparse, nested, or what a transform has left behind */
        found = 0;
    }
    if (found == 1)
        *key = PyBytes_FromStringAndSize((char *)description.words, (Py_ssize_t)sizeof(int64_t) * description.count);
    return found == 1 && *key == NULL ? -1 : found;
}

/* -- recipes ------------------------------------------------------------------------------------------------------- */

typedef struct {
    char kind; /* as in `add_argument` */
    int operand;
    union {
        int64_t wide;
        int32_t narrow;
    } value;
} Argument;

typedef struct {
    void *function;
    unsigned blocks, rows_of_blocks, threads, shared;
    int count;
    Argument arguments[MOST_ARGUMENTS];
} Launch;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Py_ssize_t count;
    Launch *launches;
    PyObject *shapes;  /* of the one result or the two; None for one that is like x */
    PyObject *kernels; /* whose functions are started, kept from being unloaded */
    int used;          /* a bit for each operand that is a tensor */
    const volatile int32_t *crowded; /* where the kernels say that others would be quicker, or NULL */
} Recipe;

static int add_argument(Recipe *recipe, Launch *launch, PyObject *given)
{
    int kind;
    long long value;
    if (!PyArg_ParseTuple(given, "CL", &kind, &value))
        return -1;
    if (launch->count == MOST_ARGUMENTS) {
        PyErr_SetString(PyExc_ValueError, "a kernel with too many arguments");
        return -1;
    }
    Argument *argument = &launch->arguments[launch->count++];
    size_t offset, size, expected;
    argument->kind = (char)kind;
    argument->operand = 0;
    switch (kind) {
    case 't': /* the address of an operand */
        if (value < 0 || value >= OPERANDS) {
            PyErr_SetString(PyExc_ValueError, "there is no such operand");
            return -1;
        }
        argument->operand = (int)value;
        recipe->used |= 1 << value;
        expected = 8;
        break;
    case 'f': /* the number that is the value */
        expected = 4;
        break;
    case 'i':
        argument->value.narrow = (int32_t)value;
        expected = 4;
        break;
    case 'l':
        argument->value.wide = value;
        expected = 8;
        break;
    default:
        PyErr_SetString(PyExc_ValueError, "an argument of an unknown kind");
        return -1;
    }
    if (parameter_info(launch->function, (size_t)launch->count - 1, &offset, &size) != 0 || size != expected) {
        PyErr_SetString(PyExc_ValueError, "the kernel takes other arguments");
        return -1;
    }
    return 0;
}

static int add_launch(Recipe *recipe, Launch *launch, PyObject *given)
{
    unsigned long long function;
    PyObject *arguments;
    if (!PyArg_ParseTuple(given, "KIIIIO!", &function, &launch->blocks, &launch->rows_of_blocks, &launch->threads,
                          &launch->shared, &PyTuple_Type, &arguments))
        return -1;
    launch->function = (void *)(uintptr_t)function;
    launch->count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++)
        if (add_argument(recipe, launch, PyTuple_GET_ITEM(arguments, i)) < 0)
            return -1;
    /* Triton adds pointers to memory of its own, which these kernels do without. */
    size_t offset, size;
    for (int more = launch->count; parameter_info(launch->function, (size_t)more, &offset, &size) == 0; more++) {
        if (size != 8 || launch->count == MOST_ARGUMENTS) {
            PyErr_SetString(PyExc_ValueError, "the kernel takes more arguments");
            return -1;
        }
        launch->arguments[launch->count++] = (Argument){.kind = 'l', .value.wide = 0};
    }
    return 0;
}

static int start(const Launch *launch, void *stream, const uint64_t *addresses, const float *number, long long device)
{
    void *arguments[MOST_ARGUMENTS];
    for (int i = 0; i < launch->count; i++) {
        const Argument *argument = &launch->arguments[i];
        arguments[i] = argument->kind == 't'   ? (void *)&addresses[argument->operand]
                       : argument->kind == 'f' ? (void *)number
                                               : (void *)&argument->value;
    }
    int failed = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        Py_BEGIN_ALLOW_THREADS
        failed = launch_kernel(launch->function, launch->blocks, launch->rows_of_blocks, 1, launch->threads, 1, 1,
                               launch->shared, stream, arguments, NULL);
        Py_END_ALLOW_THREADS
        if (failed != INVALID_CONTEXT || attempt == 1)
            break;
        PyObject *done = PyObject_CallFunction(set_device, "L", device); /* a thread that has not used CUDA yet */
        if (done == NULL)
            return -1;
        Py_DECREF(done);
    }
    if (failed == 0)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "CUDA error %d at the start of a kernel", failed);
    return -1;
}

static int address_of(PyObject *tensor, uint64_t *address)
{
    if (dlpack != NULL) {
        DLTensor read;
        if (dlpack->read(tensor, &read) != 0)
            return -1;
        *address = (uint64_t)(uintptr_t)read.data + read.offset;
        return 0;
    }
    long long number;
    if (whole(PyObject_CallMethodNoArgs(tensor, name_data_ptr), &number) < 0)
        return -1;
    *address = (uint64_t)number;
    return 0;
}

static int stream_of(long long device, void **stream)
{
    if (dlpack != NULL && device >= 0)
        return dlpack->stream(DL_CUDA, (int32_t)device, stream);
    PyObject *which = PyLong_FromLongLong(device);
    if (which == NULL)
        return -1;
    long long number = 0;
    int found = whole(PyObject_CallOneArg(current_stream, which), &number);
    Py_DECREF(which);
    *stream = (void *)(uintptr_t)number;
    return found;
}

static PyObject *result_like(PyObject *x, PyObject *shape)
{
    return shape == Py_None ? PyObject_CallOneArg(empty_like, x) : PyObject_CallMethodOneArg(x, name_new_empty, shape);
}

static const char recipe_doc[] = "Kernels to start one after the other: one tensor or two, of x, index, value, ...";

static PyObject *recipe_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Recipe *recipe = (Recipe *)self;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given < 3 || given >= SECOND || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a recipe takes x, the index, the value, and what else its kernels need");
        return NULL;
    }
    PyObject *operands[OPERANDS] = {NULL};
    for (Py_ssize_t i = 0; i < given; i++)
        operands[X + i] = args[i];
    PyObject *out = result_like(args[0], PyTuple_GET_ITEM(recipe->shapes, 0)), *second = NULL;
    if (out == NULL)
        return NULL;
    if (PyTuple_GET_SIZE(recipe->shapes) == 2 &&
        (second = result_like(args[0], PyTuple_GET_ITEM(recipe->shapes, 1))) == NULL)
        goto failed;
    operands[OUT] = out;
    operands[SECOND] = second;
    uint64_t addresses[OPERANDS] = {0};
    for (int operand = 0; operand < OPERANDS; operand++)
        if (recipe->used >> operand & 1 && operands[operand] != NULL &&
            address_of(operands[operand], &addresses[operand]) < 0)
            goto failed;
    float number = 0;
    if (PyFloat_Check(args[VALUE - 1]))
        number = (float)PyFloat_AS_DOUBLE(args[VALUE - 1]);
    else if (PyLong_Check(args[VALUE - 1])) {
        number = (float)PyLong_AsDouble(args[VALUE - 1]);
        if (PyErr_Occurred())
            goto failed;
    }
    long long device;
    void *stream;
    if (whole(PyObject_CallMethodNoArgs(out, name_get_device), &device) < 0 || stream_of(device, &stream) < 0)
        goto failed;
    for (Py_ssize_t i = 0; i < recipe->count; i++)
        if (start(&recipe->launches[i], stream, addresses, &number, device) < 0)
            goto failed;
    if (second == NULL)
        return out;
    PyObject *both = PyTuple_Pack(2, out, second);
    Py_DECREF(out);
    Py_DECREF(second);
    return both;
failed:
    Py_DECREF(out);
    Py_XDECREF(second);
    return NULL;
}

static void recipe_free(PyObject *self)
{
    free(((Recipe *)self)->launches);
    Py_XDECREF(((Recipe *)self)->shapes);
    Py_XDECREF(((Recipe *)self)->kernels);
    PyObject_Free(self);
}

static PyObject *recipe_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *launches, *kernels, *shapes;
    unsigned long long crowded;
    if (names != NULL && PyDict_GET_SIZE(names) != 0) {
        PyErr_SetString(PyExc_TypeError, "a recipe takes no arguments by name");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!OO!K", &PyTuple_Type, &launches, &kernels, &PyTuple_Type, &shapes, &crowded))
        return NULL;
    if (PyTuple_GET_SIZE(shapes) != 1 && PyTuple_GET_SIZE(shapes) != 2) {
        PyErr_SetString(PyExc_ValueError, "a recipe has one result or two");
        return NULL;
    }
    if (launch_kernel == NULL || parameter_info == NULL) {
        PyErr_SetString(PyExc_ValueError, "the driver cannot be asked");
        return NULL;
    }
    Recipe *recipe = PyObject_New(Recipe, type);
    if (recipe == NULL)
        return NULL;
    recipe->call = recipe_call;
    recipe->used = 0;
    recipe->shapes = Py_NewRef(shapes);
    recipe->crowded = (const volatile int32_t *)(uintptr_t)crowded;
    recipe->kernels = Py_NewRef(kernels);
    recipe->count = PyTuple_GET_SIZE(launches);
    recipe->launches = calloc((size_t)recipe->count + 1, sizeof(Launch));
    for (Py_ssize_t i = 0; i < recipe->count; i++)
        if (recipe->launches == NULL || add_launch(recipe, &recipe->launches[i], PyTuple_GET_ITEM(launches, i)) < 0) {
            Py_DECREF(recipe);
            return PyErr_Occurred() ? NULL : PyErr_NoMemory();
        }
    return (PyObject *)recipe;
}

static PyTypeObject recipe_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.updates.kernels._again.Recipe",
    .tp_basicsize = sizeof(Recipe),
    .tp_dealloc = recipe_free,
    .tp_new = recipe_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Recipe, call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = recipe_doc,
};

static int is_crowded(PyObject *make)
{
    return Py_TYPE(make) == &recipe_type && ((Recipe *)make)->crowded != NULL && *((Recipe *)make)->crowded;
}

/* -- an update whose like is known --------------------------------------------------------------------------------- */

static const char lookup_doc[] = "The update, done by what did such a one before; None where nothing is known.";

static PyObject *lookup(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "lookup takes x, the index, the value, and how");
        return NULL;
    }
    if (known == NULL || PyDict_GET_SIZE(known) == 0)
        Py_RETURN_NONE;
    PyObject *key;
    int wants_gradient = 0, found = key_of(args, &wants_gradient, &key);
    if (found < 0)
        return NULL;
    if (found == 0)
        Py_RETURN_NONE;
    PyObject *entry = PyDict_GetItemWithError(known, key);
    if (entry != NULL && entry != Py_None && is_crowded(PyTuple_GET_ITEM(entry, 1))) {
        entry = NULL; /* it is to be found out anew */
        PyDict_DelItem(known, key);
    }
    Py_DECREF(key);
    if (entry == NULL || entry == Py_None) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    if (wants_gradient && PyTuple_GET_ITEM(entry, 0) == Py_None)
        Py_RETURN_NONE;
    PyObject *apply = Py_NewRef(PyTuple_GET_ITEM(entry, 0)), *recipe = Py_NewRef(PyTuple_GET_ITEM(entry, 1)), *result;
    PyObject *operands[] = {args[0], args[1], args[2], recipe};
    result = wants_gradient ? PyObject_Vectorcall(apply, operands, 4, NULL)
                            : PyObject_Vectorcall(recipe, operands, 3, NULL);
    Py_DECREF(apply);
    Py_DECREF(recipe);
    return result;
}

static const char forward_doc[] = "The forward of a Function that saves the index and makes the update.";

static PyObject *forward(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "forward takes a context, x, the index, the value, and what makes the update");
        return NULL;
    }
    PyObject *saved = PyTuple_Pack(1, args[2]);
    int failed = saved == NULL || PyObject_SetAttr(args[0], name_to_save, saved) < 0;
    Py_XDECREF(saved);
    return failed ? NULL : PyObject_Vectorcall(args[4], args + 1, 3, NULL);
}

/* -- the backward of a Function --------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    int how;             /* what is looked up where the value wants a gradient, too: SET, if it is a number */
    PyObject *otherwise; /* the backward in Python, for what is not known */
} Backward;

static PyObject *zero, *ways[WAYS];

/* The gradients of x, index, value and what makes the update; None where nothing is known. */
static PyObject *known_gradients(int how, PyObject *context, PyObject *grad)
{
    PyObject *found = NULL, *result = NULL, *needs = PyObject_GetAttr(context, name_needs_input_grad),
             *saved = needs == NULL ? NULL : PyObject_GetAttr(context, name_saved_tensors);
    if (saved == NULL)
        goto done;
    if (!PyTuple_Check(needs) || PyTuple_GET_SIZE(needs) != 4 || !PyTuple_Check(saved) || PyTuple_GET_SIZE(saved) != 1) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    int of_value = how != SET && PyTuple_GET_ITEM(needs, 2) == Py_True;
    PyObject *operands[] = {grad, PyTuple_GET_ITEM(saved, 0), zero, ways[of_value ? how : SET]};
    found = how == TAKE && !of_value ? Py_NewRef(Py_None) : lookup(NULL, operands, 4);
    if (found == NULL || found == Py_None)
        result = Py_XNewRef(found);
    else if (!of_value)
        result = PyTuple_Pack(4, found, Py_None, Py_None, Py_None);
    else if (how == TAKE)
        result = PyTuple_Pack(4, grad, Py_None, found, Py_None);
    else
        result = PyTuple_Pack(4, PyTuple_GET_ITEM(found, 0), Py_None, PyTuple_GET_ITEM(found, 1), Py_None);
done:
    Py_XDECREF(found);
    Py_XDECREF(saved);
    Py_XDECREF(needs);
    return result;
}

static PyObject *backward_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Backward *backward = (Backward *)self;
    if (PyVectorcall_NARGS(nargsf) == 2 && names == NULL) {
        PyObject *result = known_gradients(backward->how, args[0], args[1]);
        if (result != Py_None)
            return result;
        Py_DECREF(result);
    }
    return PyObject_Vectorcall(backward->otherwise, args, nargsf, names);
}

static PyObject *backward_bound(PyObject *self, PyObject *context, PyObject *type)
{
    (void)type;
    return context == NULL || context == Py_None ? Py_NewRef(self) : PyMethod_New(self, context);
}

static void backward_free(PyObject *self)
{
    Py_XDECREF(((Backward *)self)->otherwise);
    PyObject_Free(self);
}

static PyObject *backward_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    int how;
    PyObject *otherwise;
    if (names != NULL && PyDict_GET_SIZE(names) != 0) {
        PyErr_SetString(PyExc_TypeError, "a backward takes no arguments by name");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "iO", &how, &otherwise))
        return NULL;
    if (how != SET && how != TAKE && how != SPLIT) {
        PyErr_SetString(PyExc_ValueError, "no backward looks that up");
        return NULL;
    }
    Backward *backward = PyObject_New(Backward, type);
    if (backward == NULL)
        return NULL;
    backward->call = backward_call;
    backward->how = how;
    backward->otherwise = Py_NewRef(otherwise);
    return (PyObject *)backward;
}

static const char backward_doc[] = "A method of a context: what is known to be done with a gradient, or another function.";

static PyTypeObject backward_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.updates.kernels._again.Backward",
    .tp_basicsize = sizeof(Backward),
    .tp_dealloc = backward_free,
    .tp_new = backward_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Backward, call),
    .tp_descr_get = backward_bound,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = backward_doc,
};

/* -- remembering --------------------------------------------------------------------------------------------------- */

static const char seen_doc[] = "Has such an update been seen once before? Only what comes again is worth a Recipe.";

static PyObject *seen(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 4 || known == NULL) {
        PyErr_SetString(PyExc_TypeError, "seen takes x, the index, the value, and how");
        return NULL;
    }
    PyObject *key;
    int wants_gradient, found = key_of(args, &wants_gradient, &key);
    if (found < 0)
        return NULL;
    if (found == 0)
        Py_RETURN_FALSE;
    PyObject *entry = PyDict_GetItemWithError(known, key);
    found = entry == Py_None;
    if (entry == NULL) {
        if (PyDict_GET_SIZE(known) >= MOST_KEPT)
            PyDict_Clear(known);
        if (PyErr_Occurred() || PyDict_SetItem(known, key, Py_None) < 0)
            found = -1;
    }
    Py_DECREF(key);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

static const char remember_doc[] = "Remembers of an update what makes it, and the Function for gradients.";

static PyObject *remember(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 6 || known == NULL) {
        PyErr_SetString(PyExc_TypeError, "remember takes x, the index, the value, how, the function and what makes it");
        return NULL;
    }
    PyObject *key;
    int wants_gradient, found = key_of(args, &wants_gradient, &key);
    if (found < 0)
        return NULL;
    if (found == 0)
        Py_RETURN_NONE;
    PyObject *entry = PyTuple_Pack(2, args[4], args[5]);
    if (entry == NULL || PyDict_SetItem(known, key, entry) < 0)
        found = -1;
    Py_DECREF(key);
    Py_XDECREF(entry);
    if (found < 0)
        return NULL;
    Py_RETURN_NONE;
}

static const char connect_doc[] = "Takes what there is to ask of torch; is CUDA's driver there to start kernels?";

static PyObject *connect(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *types[2], *asked[12], *exchange;
    if (!PyArg_ParseTuple(args, "O!O!OOOOOOOOOOOOO", &PyType_Type, &types[0], &PyType_Type, &types[1], &asked[0],
                          &asked[1], &asked[2], &asked[3], &asked[4], &asked[5], &asked[6], &asked[7], &asked[8],
                          &asked[9], &asked[10], &asked[11], &exchange))
        return NULL;
    PyObject **kept[] = {&float16,       &bfloat16,   &empty_like,       &transforms_active, &dispatch_modes,
                         &tracing_state, &forward_ad, &is_deterministic, &is_grad_enabled,   &current_device,
                         &current_stream, &set_device};
    for (int i = 0; i < 12; i++)
        Py_XSETREF(*kept[i], Py_NewRef(asked[i]));
    tensor_type = (PyTypeObject *)Py_NewRef(types[0]);
    parameter_type = (PyTypeObject *)Py_NewRef(types[1]);
    find_driver();
    dlpack = PyCapsule_IsValid(exchange, "dlpack_exchange_api") ? PyCapsule_GetPointer(exchange, "dlpack_exchange_api")
                                                                : NULL;
    if (dlpack != NULL && (dlpack->major != 1 || dlpack->read == NULL || dlpack->stream == NULL))
        dlpack = NULL;
    Py_XSETREF(known, PyDict_New());
    return known == NULL ? NULL : PyBool_FromLong(launch_kernel != NULL && parameter_info != NULL);
}

static const char forget_doc[] = "Forgets all that is remembered.";

static PyObject *forget(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (known != NULL)
        PyDict_Clear(known);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"lookup", (PyCFunction)(void (*)(void))lookup, METH_FASTCALL, lookup_doc},
    {"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL, forward_doc},
    {"seen", (PyCFunction)(void (*)(void))seen, METH_FASTCALL, seen_doc},
    {"remember", (PyCFunction)(void (*)(void))remember, METH_FASTCALL, remember_doc},
    {"connect", connect, METH_VARARGS, connect_doc},
    {"forget", forget, METH_NOARGS, forget_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "outplace.updates.kernels._again", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__again(void)
{
    struct {
        PyObject **where;
        const char *text;
    } names[] = {
        {&name_dtype, "dtype"},
        {&name_shape, "shape"},
        {&name_stride, "stride"},
        {&name_get_device, "get_device"},
        {&name_data_ptr, "data_ptr"},
        {&name_is_neg, "is_neg"},
        {&name_new_empty, "new_empty"},
        {&name_requires_grad, "requires_grad"},
        {&name_level, "_current_level"},
        {&name_to_save, "to_save"},
        {&name_saved_tensors, "saved_tensors"},
        {&name_needs_input_grad, "needs_input_grad"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((*names[i].where = PyUnicode_InternFromString(names[i].text)) == NULL)
            return NULL;
    if ((zero = PyFloat_FromDouble(0.0)) == NULL)
        return NULL;
    for (int way = 0; way < WAYS; way++)
        if ((ways[way] = PyLong_FromLong(way)) == NULL)
            return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    if (PyModule_AddType(module, &recipe_type) < 0 || PyModule_AddType(module, &backward_type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
