/* The few calls that a program makes again and again under `outplace run`: the marks, what is noted of an optimizer's
 * step, and the look-up of a writing method during one. record.py and writes.py have the same in Python, for where this
 * was not compiled.
 *
 * A mark in Python takes a fifth of a microsecond in a loop of marks and ten times that in a training step, where the
 * program's own work has emptied the caches between two marks. In C there is little to fetch.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

/* What `connect` was given; all of it is used under the interpreter's lock. */
static PyObject *next_number, *starts, *places, *own_files, *mark_elsewhere, *forget_old_marks;
static Py_ssize_t most_marks;
static unsigned long main_thread;
static unsigned long long last = UINT64_MAX;
static uint64_t (*peek)(void);

/* torch's own function behind `next_number`, where the loader finds it. */
static void find_peek(void)
{
    peek = NULL;
#if defined(__unix__) || defined(__APPLE__)
#ifdef __APPLE__
    void *library = dlopen("libtorch_cpu.dylib", RTLD_LAZY | RTLD_NOLOAD);
#else
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
#endif
    if (library != NULL) {
        *(void **)&peek = dlsym(library, "_ZN2at15sequence_number4peekEv");
        dlclose(library); /* torch keeps it loaded */
    }
#endif
}

static int ask_python(unsigned long long *number)
{
    PyObject *answer = PyObject_CallNoArgs(next_number);
    if (answer == NULL)
        return -1;
    *number = PyLong_AsUnsignedLongLong(answer);
    Py_DECREF(answer);
    return PyErr_Occurred() ? -1 : 0;
}

static int note(PyObject *place)
{
    unsigned long long number;
    if (peek != NULL)
        number = peek();
    else if (next_number == NULL)
        return 0;
    else if (ask_python(&number) < 0)
        return -1;
    if (PyThread_get_thread_ident() != main_thread) {
        PyObject *done = PyObject_CallFunction(mark_elsewhere, "KO", number, place);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    if (number == last) {
        Py_INCREF(place);
        return PyList_SetItem(places, PyList_GET_SIZE(places) - 1, place);
    }
    PyObject *start = PyLong_FromUnsignedLongLong(number);
    if (start == NULL)
        return -1;
    int failed = PyList_Append(starts, start) < 0 || PyList_Append(places, place) < 0;
    Py_DECREF(start);
    if (failed)
        return -1;
    last = number;
    if (PyList_GET_SIZE(starts) > most_marks) {
        PyObject *done = PyObject_CallNoArgs(forget_old_marks);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    return 0;
}

/* -- calls that Python does not count ------------------------------------------------------------------------------
 *
 * A built-in function counts as a level of recursion. A program that recurses to the limit would then fail in our mark,
 * with other words and one level too early. An object with a vectorcall of its own is called without being counted.
 */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    const char *name;
} Mark;

static PyObject *mark_repr(Mark *self)
{
    return PyUnicode_FromFormat("<compiled %s>", self->name);
}

static PyTypeObject mark_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime._fast.Mark",
    .tp_doc = "A function that marked code calls.",
    .tp_basicsize = sizeof(Mark),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Mark, call),
    .tp_call = PyVectorcall_Call,
    .tp_repr = (reprfunc)mark_repr,
};

/* mark(statement): a statement of the user's own code begins. */
static PyObject *mark(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    if (PyVectorcall_NARGS(count) != 1)
        return PyErr_Format(PyExc_TypeError, "mark() takes a statement");
    if (note(args[0]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* at(value, statement): marks in the middle of a statement. */
static PyObject *at(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    if (PyVectorcall_NARGS(count) != 2)
        return PyErr_Format(PyExc_TypeError, "at() takes a value and a statement");
    if (note(args[1]) < 0)
        return NULL;
    Py_INCREF(args[0]);
    return args[0];
}

/* Is the code of the user's own? -1 for an error. */
static int is_own(PyCodeObject *code)
{
    if (own_files == NULL)
        return 0;
    PyObject *own = PyDict_GetItemWithError(own_files, code->co_filename);
    if (own != NULL)
        return own == Py_True;
    if (PyErr_Occurred())
        return -1;
    own = PyObject_GetItem(own_files, code->co_filename); /* asks `__missing__` */
    int answer = own == NULL ? -1 : PyObject_IsTrue(own);
    Py_XDECREF(own);
    return answer;
}

static long instruction_of(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return frame->f_lasti * 2L;
#endif
}

/* Where the frame is, as (code, offset); `own` says whether that is the user's own code. NULL for an error. */
static PyObject *place_in(PyFrameObject *frame, int *own)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    *own = is_own(code);
    PyObject *place = *own < 0 ? NULL : Py_BuildValue("(Ol)", code, instruction_of(frame));
    Py_DECREF(code);
    return place;
}

/* The innermost instruction of the user's own code above the calling function; None where there is none. */
static PyObject *caller(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    frame = frame == NULL ? NULL : PyFrame_GetBack(frame);
    while (frame != NULL) {
        int own;
        PyObject *place = place_in(frame, &own);
        PyFrameObject *outer = place == NULL || own ? NULL : PyFrame_GetBack(frame);
        Py_DECREF(frame);
        if (place == NULL || own)
            return place;
        Py_DECREF(place);
        frame = outer;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(frames_doc, "frames_to_own_code(frame)\n--\n\nThe instructions from this frame out to the first frame of the "
                         "user's own code; empty where there is none.");

static PyObject *frames_to_own_code(PyObject *module, PyObject *given)
{
    PyObject *found = PyList_New(0);
    PyFrameObject *frame = given == Py_None ? NULL : (PyFrameObject *)given;
    if (found == NULL || (frame != NULL && !PyFrame_Check(given))) {
        Py_XDECREF(found);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "not a frame: %R", given);
    }
    Py_XINCREF(frame);
    int own = 0;
    while (frame != NULL && !own) {
        PyObject *place = place_in(frame, &own);
        int failed = place == NULL || PyList_Append(found, place) < 0;
        Py_XDECREF(place);
        PyFrameObject *outer = failed ? NULL : PyFrame_GetBack(frame);
        Py_DECREF(frame);
        if (failed) {
            Py_DECREF(found);
            return NULL;
        }
        frame = outer;
    }
    Py_XDECREF(frame);
    PyObject *frames = own ? PyList_AsTuple(found) : PyTuple_New(0);
    Py_DECREF(found);
    return frames;
}

PyDoc_STRVAR(versions_doc, "versions(param_groups)\n--\n\nThe versions of an optimizer's parameters, 8 bytes each.");

/* Every step of every optimizer asks for this, before and after. */
static PyObject *versions(PyObject *module, PyObject *groups)
{
    static PyObject *params_key, *version_key;
    if (params_key == NULL && (params_key = PyUnicode_InternFromString("params")) == NULL)
        return NULL;
    if (version_key == NULL && (version_key = PyUnicode_InternFromString("_version")) == NULL)
        return NULL;
    if (!PyList_Check(groups))
        return PyErr_Format(PyExc_TypeError, "not a list of groups: %R", groups);
    Py_ssize_t count = 0, filled = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
        PyObject *group = PyList_GET_ITEM(groups, i);
        PyObject *params = PyDict_Check(group) ? PyDict_GetItemWithError(group, params_key) : NULL;
        if (params == NULL || !PyList_Check(params))
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "not a group of parameters: %R", group);
        count += PyList_GET_SIZE(params);
    }
    PyObject *packed = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(uint64_t));
    if (packed == NULL)
        return NULL;
    uint64_t *numbers = (uint64_t *)PyBytes_AS_STRING(packed);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
        PyObject *params = PyDict_GetItemWithError(PyList_GET_ITEM(groups, i), params_key);
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(params) && filled < count; k++) {
            PyObject *version = PyObject_GetAttr(PyList_GET_ITEM(params, k), version_key);
            numbers[filled++] = version == NULL ? 0 : PyLong_AsUnsignedLongLong(version);
            Py_XDECREF(version);
            if (PyErr_Occurred()) {
                Py_DECREF(packed);
                return NULL;
            }
        }
    }
    return packed;
}

/* back(value=None, _mark=None): a function of the user's own code returns or yields. */
static PyObject *back(PyObject *self, PyObject *const *args, size_t given, PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(given);
    PyObject *value = count > 0 ? args[0] : Py_None;
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < named; i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "value") == 0)
            value = args[count + i];
    PyObject *place = next_number == NULL ? (Py_INCREF(Py_None), Py_None) : caller();
    int failed = place == NULL || note(place) < 0;
    Py_XDECREF(place);
    if (failed)
        return NULL;
    Py_INCREF(value);
    return value;
}

PyDoc_STRVAR(connect_doc, "connect(next_number, starts, places, own_files, mark_elsewhere, forget_old_marks, most_marks, "
                          "main_thread)\n--\n\nTies the marks to torch's node counter and to the record's lists.");

static PyObject *connect(PyObject *module, PyObject *args)
{
    PyObject *given[6];
    Py_ssize_t most;
    unsigned long thread;
    if (!PyArg_ParseTuple(args, "OO!O!O!OOnk", &given[0], &PyList_Type, &given[1], &PyList_Type, &given[2],
                          &PyDict_Type, &given[3], &given[4], &given[5], &most, &thread))
        return NULL;
    PyObject **kept[6] = {&next_number, &starts, &places, &own_files, &mark_elsewhere, &forget_old_marks};
    for (int i = 0; i < 6; i++) {
        Py_INCREF(given[i]);
        Py_XSETREF(*kept[i], given[i]);
    }
    most_marks = most;
    main_thread = thread;
    last = UINT64_MAX; /* the next mark is a new one */
    find_peek();
    unsigned long long number;
    if (ask_python(&number) < 0)
        return NULL;
    if (peek != NULL && peek() != number)
        peek = NULL;
    Py_RETURN_NONE;
}

/* -- writing methods ---------------------------------------------------------------------------------------------- */

static unsigned long stepping_thread;

PyDoc_STRVAR(step_doc, "set_stepping_thread(ident)\n--\n\nThe thread that is inside a library's optimizer step; 0: none.");

static PyObject *set_stepping_thread(PyObject *module, PyObject *ident)
{
    stepping_thread = PyLong_AsUnsignedLong(ident);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

typedef struct {
    PyObject_HEAD
    PyObject *method; /* torch's own */
    PyObject *look_up; /* called with the tensor and its class, unless an optimizer is stepping */
} Lookup;

static int lookup_init(Lookup *self, PyObject *args, PyObject *kwargs)
{
    PyObject *method, *look_up;
    if (!PyArg_ParseTuple(args, "OO", &method, &look_up))
        return -1;
    if (Py_TYPE(method)->tp_descr_get == NULL) {
        PyErr_SetString(PyExc_TypeError, "not a method");
        return -1;
    }
    Py_INCREF(method);
    Py_INCREF(look_up);
    Py_XSETREF(self->method, method);
    Py_XSETREF(self->look_up, look_up);
    return 0;
}

static int lookup_traverse(Lookup *self, visitproc visit, void *arg)
{
    Py_VISIT(self->method);
    Py_VISIT(self->look_up);
    return 0;
}

static int lookup_clear(Lookup *self)
{
    Py_CLEAR(self->method);
    Py_CLEAR(self->look_up);
    return 0;
}

static void lookup_dealloc(Lookup *self)
{
    PyObject_GC_UnTrack(self);
    lookup_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *lookup_get(Lookup *self, PyObject *tensor, PyObject *owner)
{
    if (tensor == NULL || tensor == Py_None) {
        Py_INCREF(self->method);
        return self->method;
    }
    if (stepping_thread != 0 && stepping_thread == PyThread_get_thread_ident())
        return Py_TYPE(self->method)->tp_descr_get(self->method, tensor, owner);
    return PyObject_CallFunctionObjArgs(self->look_up, tensor, owner == NULL ? Py_None : owner, NULL);
}

static PyTypeObject lookup_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime._fast.Lookup",
    .tp_doc = "Stands in a class for a method: hands it out while an optimizer steps, and else asks `look_up`.",
    .tp_basicsize = sizeof(Lookup),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)lookup_init,
    .tp_dealloc = (destructor)lookup_dealloc,
    .tp_traverse = (traverseproc)lookup_traverse,
    .tp_clear = (inquiry)lookup_clear,
    .tp_descr_get = (descrgetfunc)lookup_get,
};

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, connect_doc},
    {"frames_to_own_code", frames_to_own_code, METH_O, frames_doc},
    {"versions", versions, METH_O, versions_doc},
    {"set_stepping_thread", set_stepping_thread, METH_O, step_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "outplace.runtime._fast", .m_size = -1, .m_methods = functions};

static int add(PyObject *module, const char *name, PyObject *object)
{
    if (object == NULL || PyModule_AddObject(module, name, object) == 0)
        return object == NULL ? -1 : 0;
    Py_DECREF(object);
    return -1;
}

static PyObject *new_mark(const char *name, vectorcallfunc call)
{
    Mark *made = PyObject_New(Mark, &mark_type);
    if (made != NULL) {
        made->call = call;
        made->name = name;
    }
    return (PyObject *)made;
}

PyMODINIT_FUNC PyInit__fast(void)
{
    if (PyType_Ready(&mark_type) < 0 || PyType_Ready(&lookup_type) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    Py_INCREF(&lookup_type);
    if (add(module, "Lookup", (PyObject *)&lookup_type) < 0 || add(module, "mark", new_mark("mark", mark)) < 0 ||
        add(module, "at", new_mark("at", at)) < 0 || add(module, "back", new_mark("back", back)) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
