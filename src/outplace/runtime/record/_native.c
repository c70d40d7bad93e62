/* The few calls that a program makes again and again under `outplace run`: the marks, what is noted of an optimizer's
 * step and of a backward pass, the look-up of a writing method during a step, and what is appended to a list. record.py,
 * writes.py, steps.py, engine.py and kept.py have the same in Python, for where this was not compiled.
 *
 * A mark in Python takes a fifth of a microsecond in a loop of marks and ten times that in a training step, where the
 * program's own work has emptied the caches between two marks. In C there is little to fetch.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif
#ifdef _MSC_VER
#define THREAD_LOCAL __declspec(thread)
#else
#define THREAD_LOCAL _Thread_local
#endif

/* What the functions named `connect` were given; all of it is used under the interpreter's lock. */
static PyObject *next_number, *starts, *places, *own_files, *mark_elsewhere, *forget_old_marks;
static PyObject *marked; /* (starts, places, steps, backwards) of other threads, by torch's number of the thread */
static Py_ssize_t most_marks;
static unsigned long main_thread;
static unsigned long long last = UINT64_MAX;
static uint64_t (*peek)(void), (*thread_number)(void);

/* -- code without marks ---------------------------------------------------------------------------------------------
 *
 * A frame that was running when outplace was attached has no marks. While it runs itself, each node gets a tag; while
 * it has called marked code, none does. Marks see the change: the first mark after it, and the return to it. While it
 * waits in a library and another thread builds a graph in marked code, no node gets a tag either.
 */

static PyObject *unmarked, *marks_begin, *marks_end, *ask_whether_it_waits; /* the code objects, and what is called */
static unsigned long unmarked_thread;
static uint64_t unmarked_state; /* Python's number of that thread */
static int in_unmarked;         /* was the last that we know of one of these frames? */

static struct {
    PyFrameObject *frame; /* not dereferenced, and not kept alive; NULL if the thread is not known to wait */
    long instruction;
} waits;

static int call(PyObject *function)
{
    PyObject *done = PyObject_CallNoArgs(function);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A mark: the innermost frame of the user is one with marks. */
static int leave_unmarked(void)
{
    if (PyThread_get_thread_ident() != unmarked_thread)
        return 0;
    in_unmarked = 0;
    waits.frame = NULL;
    return call(marks_begin);
}

static long instruction_of(PyFrameObject *frame);

/* The innermost frame of the thread without marks; a new reference, or NULL. */
static PyFrameObject *frame_without_marks(void)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    while (thread != NULL && PyThreadState_GetID(thread) != unmarked_state)
        thread = PyThreadState_Next(thread);
    return thread == NULL ? NULL : PyThreadState_GetFrame(thread);
}

/* Another thread builds a graph in marked code. */
static int build_elsewhere(void)
{
    PyFrameObject *frame = frame_without_marks();
    if (frame == NULL)
        return 0;
    if (frame != waits.frame || instruction_of(frame) != waits.instruction) {
        PyObject *answer = PyObject_CallOneArg(ask_whether_it_waits, (PyObject *)frame);
        waits.frame = answer == Py_True ? frame : NULL;
        waits.instruction = instruction_of(frame);
        Py_XDECREF(answer);
    }
    Py_DECREF(frame);
    return PyErr_Occurred() ? -1 : 0;
}

/* The code of the user that built a graph in another thread has returned. */
static int built_elsewhere(void)
{
    if (waits.frame == NULL || PyThread_get_thread_ident() == unmarked_thread)
        return 0;
    waits.frame = NULL;
    return call(marks_end);
}

/* A function with marks returns to this place. */
static int come_back(PyObject *place)
{
    if (place == Py_None)
        return built_elsewhere();
    if (in_unmarked || PyThread_get_thread_ident() != unmarked_thread)
        return 0;
    PyObject *code = PyTuple_GET_ITEM(place, 0);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(unmarked); i++)
        if (PyTuple_GET_ITEM(unmarked, i) == code) {
            in_unmarked = 1;
            return call(marks_end);
        }
    return 0;
}

/* torch's own functions behind `next_number`, and for the number of a thread, where the loader finds them. */
static void find_functions_of_torch(void)
{
    peek = thread_number = NULL;
#if defined(__unix__) || defined(__APPLE__)
#ifdef __APPLE__
    void *library = dlopen("libtorch_cpu.dylib", RTLD_LAZY | RTLD_NOLOAD);
#else
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
#endif
    if (library != NULL) {
        *(void **)&peek = dlsym(library, "_ZN2at15sequence_number4peekEv");
        *(void **)&thread_number = dlsym(library, "_ZN2at14RecordFunction15currentThreadIdEv");
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

static int read_number(unsigned long long *number)
{
    if (peek == NULL)
        return ask_python(number);
    *number = peek();
    return 0;
}

/* The lists of this thread, which is not the main one; NULL where it has none, or for an error. */
static PyObject *lists_elsewhere(void)
{
    if (thread_number == NULL)
        return NULL;
    PyObject *key = PyLong_FromUnsignedLongLong(thread_number());
    PyObject *lists = key == NULL ? NULL : PyDict_GetItemWithError(marked, key);
    Py_XDECREF(key);
    return lists;
}

/* Appends a mark to the lists of another thread than the main one. 0: it has none, or they are full; -1: error. */
static int add_elsewhere(unsigned long long number, PyObject *place)
{
    PyObject *lists = lists_elsewhere();
    if (lists == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *begun = PyTuple_GET_ITEM(lists, 0), *where = PyTuple_GET_ITEM(lists, 1);
    Py_ssize_t count = PyList_GET_SIZE(begun);
    if (count >= most_marks)
        return 0;
    PyObject *start = PyLong_FromUnsignedLongLong(number);
    int same = start == NULL ? -1 : PyObject_RichCompareBool(PyList_GET_ITEM(begun, count - 1), start, Py_EQ);
    if (same > 0) {
        Py_INCREF(place);
        same = PyList_SetItem(where, count - 1, place);
    } else if (same == 0) {
        same = PyList_Append(begun, start) < 0 || PyList_Append(where, place) < 0 ? -1 : 0;
        if (same == 0 && in_unmarked && unmarked != NULL)
            same = build_elsewhere();
    }
    Py_XDECREF(start);
    return same < 0 ? -1 : 1;
}

static int note_elsewhere(unsigned long long number, PyObject *place)
{
    int added = add_elsewhere(number, place);
    if (added != 0)
        return added < 0 ? -1 : 0;
    PyObject *done = PyObject_CallFunction(mark_elsewhere, "KO", number, place);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int note(PyObject *place)
{
    unsigned long long number;
    if (next_number == NULL)
        return 0;
    if (read_number(&number) < 0)
        return -1;
    if (PyThread_get_thread_ident() != main_thread)
        return note_elsewhere(number, place);
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
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime.record._native.Mark",
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
    if ((in_unmarked && leave_unmarked() < 0) || note(args[0]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* at(value, statement): marks in the middle of a statement. */
static PyObject *at(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    if (PyVectorcall_NARGS(count) != 2)
        return PyErr_Format(PyExc_TypeError, "at() takes a value and a statement");
    if ((in_unmarked && leave_unmarked() < 0) || note(args[1]) < 0)
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

/* Where the frame is, as (code, offset). NULL for an error. */
static PyObject *place_of(PyFrameObject *frame, PyCodeObject *code)
{
    PyObject *offset = PyLong_FromLong(instruction_of(frame));
    PyObject *place = offset == NULL ? NULL : PyTuple_New(2);
    if (place == NULL) {
        Py_XDECREF(offset);
        return NULL;
    }
    Py_INCREF(code);
    PyTuple_SET_ITEM(place, 0, (PyObject *)code);
    PyTuple_SET_ITEM(place, 1, offset);
    return place;
}

/* The innermost instruction of the user's own code above the calling function; None where there is none. */
static PyObject *caller(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    frame = frame == NULL ? NULL : PyFrame_GetBack(frame);
    while (frame != NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int own = is_own(code);
        PyObject *place = own > 0 ? place_of(frame, code) : NULL;
        PyFrameObject *outer = own == 0 ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(code);
        Py_DECREF(frame);
        if (own != 0)
            return place;
        frame = outer;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(frames_doc, "frames_to_own_code(frame)\n--\n\nThe instructions from this frame out to the first frame of the "
                         "user's own code; empty where there is none.");

static PyObject *frames_from(PyFrameObject *frame)
{
    PyObject *found = PyList_New(0);
    if (found == NULL)
        return NULL;
    Py_XINCREF(frame);
    int own = 0;
    while (frame != NULL && !own) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        own = is_own(code);
        PyObject *place = own < 0 ? NULL : place_of(frame, code);
        int failed = place == NULL || PyList_Append(found, place) < 0;
        Py_XDECREF(place);
        Py_DECREF(code);
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

static PyObject *frames_to_own_code(PyObject *module, PyObject *frame)
{
    if (frame != Py_None && !PyFrame_Check(frame))
        return PyErr_Format(PyExc_TypeError, "not a frame: %R", frame);
    return frames_from(frame == Py_None ? NULL : (PyFrameObject *)frame);
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
    int failed = place == NULL || note(place) < 0 || (unmarked != NULL && come_back(place) < 0);
    Py_XDECREF(place);
    if (failed)
        return NULL;
    Py_INCREF(value);
    return value;
}

static void keep_all(PyObject **kept[], PyObject *given[], int count)
{
    for (int i = 0; i < count; i++) {
        Py_INCREF(given[i]);
        Py_XSETREF(*kept[i], given[i]);
    }
}

PyDoc_STRVAR(connect_doc, "connect(next_number, starts, places, own_files, mark_elsewhere, forget_old_marks, most_marks, "
                          "main_thread, marked)\n--\n\nTies the marks to torch's node counter and to the record's lists.");

static PyObject *connect(PyObject *module, PyObject *args)
{
    PyObject *given[7];
    Py_ssize_t most;
    unsigned long thread;
    if (!PyArg_ParseTuple(args, "OO!O!O!OOnkO!", &given[0], &PyList_Type, &given[1], &PyList_Type, &given[2],
                          &PyDict_Type, &given[3], &given[4], &given[5], &most, &thread, &PyDict_Type, &given[6]))
        return NULL;
    PyObject **kept[7] = {&next_number, &starts, &places, &own_files, &mark_elsewhere, &forget_old_marks, &marked};
    keep_all(kept, given, 7);
    most_marks = most;
    main_thread = thread;
    last = UINT64_MAX; /* the next mark is a new one */
    find_functions_of_torch();
    unsigned long long number;
    if (ask_python(&number) < 0)
        return NULL;
    if (peek != NULL && peek() != number)
        peek = NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(switch_tags_doc, "switch_tags(unmarked, marks_begin, marks_end, waits, inside)\n--\n\nFrom now on in this "
                              "thread, calls one function when code with marks begins and the next when it returns to "
                              "a frame of one of these code objects. `inside`: is such a frame running now? "
                              "`waits(frame)` is called when another thread builds a graph: does the innermost frame of "
                              "this thread wait? Without code objects, nothing is called any more.");

static PyObject *switch_tags(PyObject *module, PyObject *args)
{
    PyObject *given[4];
    int inside;
    if (!PyArg_ParseTuple(args, "O!OOOp", &PyTuple_Type, &given[0], &given[1], &given[2], &given[3], &inside))
        return NULL;
    waits.frame = NULL;
    if (PyTuple_GET_SIZE(given[0]) == 0) {
        in_unmarked = 0;
        Py_CLEAR(unmarked);
        Py_RETURN_NONE;
    }
    PyObject **kept[4] = {&unmarked, &marks_begin, &marks_end, &ask_whether_it_waits};
    keep_all(kept, given, 4);
    unmarked_thread = PyThread_get_thread_ident();
    unmarked_state = PyThreadState_GetID(PyThreadState_Get());
    in_unmarked = inside;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(own_functions_doc, "own_functions(objects)\n--\n\nThe functions and generators among these objects whose "
                                "code is the user's own.");

static PyObject *own_functions(PyObject *module, PyObject *objects)
{
    if (!PyList_Check(objects))
        return PyErr_Format(PyExc_TypeError, "not a list: %R", objects);
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(objects); i++) {
        PyObject *item = PyList_GET_ITEM(objects, i);
        PyObject *code = NULL;
        if (PyFunction_Check(item)) {
            code = PyFunction_GET_CODE(item);
            Py_INCREF(code);
        } else if (PyGen_CheckExact(item))
            code = PyObject_GetAttrString(item, "gi_code");
        else if (PyCoro_CheckExact(item))
            code = PyObject_GetAttrString(item, "cr_code");
        else if (PyAsyncGen_CheckExact(item))
            code = PyObject_GetAttrString(item, "ag_code");
        else
            continue;
        int own = code == NULL ? -1 : is_own((PyCodeObject *)code);
        Py_XDECREF(code);
        if (own < 0 || (own && PyList_Append(found, item) < 0))
            Py_CLEAR(found);
    }
    return found;
}

PyDoc_STRVAR(put_constant_doc, "put_constant(code, index, value)\n--\n\nPuts a code object in the place of one of the "
                               "code's constants, which are code objects, too. The caller keeps the old one alive.");

static PyObject *put_constant(PyObject *module, PyObject *args)
{
    PyObject *code, *value;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "O!nO!", &PyCode_Type, &code, &index, &PyCode_Type, &value))
        return NULL;
    PyObject *constants = ((PyCodeObject *)code)->co_consts;
    if (index < 0 || index >= PyTuple_GET_SIZE(constants) || !PyCode_Check(PyTuple_GET_ITEM(constants, index)))
        return PyErr_Format(PyExc_IndexError, "no code object at %zd", index);
    PyObject *old = PyTuple_GET_ITEM(constants, index);
    Py_INCREF(value);
    PyTuple_SET_ITEM(constants, index, value);
#if PY_VERSION_HEX >= 0x030E0000
    ((PyTupleObject *)constants)->ob_hash = -1;
#endif
    Py_DECREF(old);
    Py_RETURN_NONE;
}

/* -- steps and backward passes --------------------------------------------------------------------------------------
 *
 * Each is noted in Python by steps.py and engine.py; here is the short way for the plain ones, which are nearly all.
 * What is not plain, and what comes from another thread than the main one, is handed to Python.
 */

/* As log.State. */
typedef struct {
    PyObject_HEAD
    unsigned long long backwards;
} State;

/* The steps that this thread runs. They count only since the hooks of steps were last put in place. */
static THREAD_LOCAL struct {
    unsigned placed;
    int steps, stepping;
} here;
static unsigned placed;
static char here_stepping; /* its address tells the two attributes apart */

static void renew_here(void)
{
    if (here.placed != placed) {
        here.placed = placed;
        here.steps = here.stepping = 0;
    }
}

static PyObject *get_here(PyObject *self, void *which)
{
    renew_here();
    return PyLong_FromLong(which == NULL ? here.steps : here.stepping);
}

static int set_here(PyObject *self, PyObject *value, void *which)
{
    long number = value == NULL ? 0 : PyLong_AsLong(value);
    if (PyErr_Occurred())
        return -1;
    renew_here();
    *(which == NULL ? &here.steps : &here.stepping) = (int)number;
    return 0;
}

static PyMemberDef state_members[] = {
    {"backwards", T_ULONGLONG, offsetof(State, backwards), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef state_of_thread[] = {
    {"steps", get_here, set_here, NULL, NULL},
    {"stepping", get_here, set_here, NULL, &here_stepping},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject state_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime.record._native.State",
    .tp_basicsize = sizeof(State),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = state_members,
    .tp_getset = state_of_thread,
};

static State *state;

static PyObject *mode_active, *known_optimizers, *steps_begun, *slow_before, *slow_after;
static PyObject *steps, *backwards, *step_class, *backward_class;
static Py_ssize_t most_steps;

/* The record's list of this thread's steps or backward passes; NULL where Python keeps it, or for an error. */
static PyObject *list_here(int backward)
{
    if (PyThread_get_thread_ident() == main_thread)
        return backward ? backwards : steps;
    PyObject *lists = lists_elsewhere();
    return lists == NULL ? NULL : PyTuple_GET_ITEM(lists, 2 + backward);
}

/* What this thread has begun; NULL where Python has made no list for it yet, or for an error. */
static PyObject *begun_here(void)
{
    PyObject *key = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject *begun = key == NULL ? NULL : PyDict_GetItemWithError(steps_begun, key);
    Py_XDECREF(key);
    return begun;
}

/* A named tuple of this class, made without a call in Python; takes over the fields, which may be NULL for an error. */
static PyObject *named_tuple(PyObject *class, PyObject *fields[], Py_ssize_t count)
{
    int failed = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        failed |= fields[i] == NULL;
    PyObject *made = failed ? NULL : ((PyTypeObject *)class)->tp_alloc((PyTypeObject *)class, count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (made != NULL)
            PyTuple_SET_ITEM(made, i, fields[i]);
        else
            Py_XDECREF(fields[i]);
    }
    return made;
}

static PyObject *moment(void)
{
    unsigned long long number;
    return read_number(&number) < 0 ? NULL : PyLong_FromUnsignedLongLong(number);
}

/* Appends what it takes over; the older half is dropped when there are too many. */
static int remember(PyObject *list, PyObject *entry)
{
    if (entry == NULL || PyList_Append(list, entry) < 0) {
        Py_XDECREF(entry);
        return -1;
    }
    Py_DECREF(entry);
    return PyList_GET_SIZE(list) > most_steps ? PyList_SetSlice(list, 0, most_steps / 2, NULL) : 0;
}

/* Is this the optimizer that is known, of a library, with plain parameters only, and sees no mode our looking? */
static int is_plain(PyObject *known, PyObject *optimizer)
{
    /* steps._Known: (optimizer, own, plain, name, parameters) */
    if (PyTuple_GET_ITEM(known, 1) != Py_False || PyTuple_GET_ITEM(known, 2) != Py_True)
        return 0;
    PyObject *same = PyObject_CallNoArgs(PyTuple_GET_ITEM(known, 0));
    PyObject *mode = same == optimizer ? PyObject_CallNoArgs(mode_active) : NULL;
    int answer = same == NULL ? -1 : same != optimizer ? 0 : mode == NULL ? -1 : mode == Py_False;
    Py_XDECREF(same);
    Py_XDECREF(mode);
    return answer;
}

static PyObject *groups_of(PyObject *optimizer)
{
    static PyObject *key;
    if (key == NULL && (key = PyUnicode_InternFromString("param_groups")) == NULL)
        return NULL;
    return PyObject_GetAttr(optimizer, key);
}

/* Does one of the groups ask for a fused step? */
static int has_fused(PyObject *groups)
{
    static PyObject *key;
    if (key == NULL && (key = PyUnicode_InternFromString("fused")) == NULL)
        return -1;
    for (Py_ssize_t i = 0; PyList_Check(groups) && i < PyList_GET_SIZE(groups); i++) {
        PyObject *group = PyList_GET_ITEM(groups, i);
        PyObject *fused = PyDict_Check(group) ? PyDict_GetItemWithError(group, key) : NULL;
        if (fused != NULL && fused != Py_None && fused != Py_False)
            return 1;
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int has_closure(PyObject *args, PyObject *kwargs)
{
    return (PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 1) || (PyDict_Check(kwargs) && PyDict_GET_SIZE(kwargs) > 0);
}

/* 1: noted; 0: not for the short way; -1: error. */
static int note_before(PyObject *optimizer, PyObject *args, PyObject *kwargs)
{
    PyObject *stack = begun_here();
    if (stack == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (has_closure(args, kwargs) || PyList_GET_SIZE(stack) > 0)
        return 0; /* a step inside another, or after one that raised */
    PyObject *key = PyLong_FromVoidPtr(optimizer);
    PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(known_optimizers, key);
    Py_XDECREF(key);
    int plain = known == NULL ? (PyErr_Occurred() ? -1 : 0) : is_plain(known, optimizer);
    if (plain <= 0)
        return plain;
    PyObject *groups = groups_of(optimizer);
    int fused = groups == NULL ? -1 : has_fused(groups);
    PyObject *before = fused == 0 ? versions(NULL, groups) : NULL;
    Py_XDECREF(groups);
    PyObject *begun = before == NULL ? NULL : PyTuple_Pack(2, known, before);
    Py_XDECREF(before);
    if (begun == NULL)
        return fused == 1 ? 0 : -1;
    int failed = PyList_Append(stack, begun);
    Py_DECREF(begun);
    if (failed)
        return -1;
    renew_here();
    here.steps++;
    here.stepping = 1;
    return 1;
}

PyDoc_STRVAR(before_doc, "before_step(optimizer, args, kwargs)\n--\n\nAn optimizer is about to step.");

static PyObject *before_step(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int noted = count != 3 ? 0 : note_before(args[0], args[1], args[2]);
    if (noted < 0)
        return NULL;
    if (noted == 0)
        return PyObject_Vectorcall(slow_before, args, count, NULL);
    Py_RETURN_NONE;
}

static int note_after(PyObject *optimizer)
{
    PyObject *stack = begun_here(), *done = stack == NULL ? NULL : list_here(0);
    Py_ssize_t count = stack == NULL ? 0 : PyList_GET_SIZE(stack);
    if (done == NULL || count == 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *begun = PyList_GET_ITEM(stack, count - 1);
    PyObject *known = PyTuple_GET_ITEM(begun, 0), *before = PyTuple_GET_ITEM(begun, 1);
    int plain = is_plain(known, optimizer);
    if (plain <= 0)
        return plain;
    PyObject *groups = groups_of(optimizer);
    PyObject *after = groups == NULL ? NULL : versions(NULL, groups);
    Py_XDECREF(groups);
    if (after == NULL)
        return -1;
    PyObject *parameters = PyTuple_GET_ITEM(known, 4), *name = PyTuple_GET_ITEM(known, 3);
    Py_ssize_t size = PyTuple_GET_SIZE(parameters) * (Py_ssize_t)sizeof(uint64_t);
    if (PyBytes_GET_SIZE(after) != size || PyBytes_GET_SIZE(before) != size) { /* it has got new parameters */
        Py_DECREF(after);
        return 0;
    }
    PyObject *fields[6] = {moment(), name, frames_from(PyEval_GetFrame()), parameters, before, after};
    Py_INCREF(name);
    Py_INCREF(parameters);
    Py_INCREF(before);
    if (remember(done, named_tuple(step_class, fields, 6)) < 0)
        return -1;
    renew_here();
    here.steps--;
    here.stepping = 0;
    return PyList_SetSlice(stack, count - 1, count, NULL) < 0 ? -1 : 1;
}

PyDoc_STRVAR(after_doc, "after_step(optimizer, args, kwargs)\n--\n\nAn optimizer has stepped.");

static PyObject *after_step(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int noted = count != 3 ? 0 : note_after(args[0]);
    if (noted < 0)
        return NULL;
    if (noted == 0)
        return PyObject_Vectorcall(slow_after, args, count, NULL);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(connect_steps_doc, "connect_steps(mode_active, known, begun, before, after)\n--\n\nTies the hooks of "
                                "optimizers to what steps.py knows; the last two are called for what is not plain.");

static PyObject *connect_steps(PyObject *module, PyObject *args)
{
    PyObject *given[5];
    if (!PyArg_ParseTuple(args, "OO!O!OO", &given[0], &PyDict_Type, &given[1], &PyDict_Type, &given[2], &given[3],
                          &given[4]))
        return NULL;
    PyObject **kept[5] = {&mode_active, &known_optimizers, &steps_begun, &slow_before, &slow_after};
    keep_all(kept, given, 5);
    placed++;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(connect_record_doc, "connect_record(steps, backwards, step_class, backward_class, most)\n--\n\nTies the "
                                 "hooks of steps and backward passes to the main thread's record.");

static PyObject *connect_record(PyObject *module, PyObject *args)
{
    PyObject *given[4];
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n", &PyList_Type, &given[0], &PyList_Type, &given[1], &PyType_Type, &given[2],
                          &PyType_Type, &given[3], &most))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)given[2], &PyTuple_Type) ||
        !PyType_IsSubtype((PyTypeObject *)given[3], &PyTuple_Type))
        return PyErr_Format(PyExc_TypeError, "not classes of tuples");
    PyObject **kept[4] = {&steps, &backwards, &step_class, &backward_class};
    keep_all(kept, given, 4);
    most_steps = most;
    Py_RETURN_NONE;
}

static PyObject *noticed, *look, *unfinished, *finish, *backward_elsewhere;

/* Is one of these collections not empty? */
static int any_filled(PyObject *collections)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(collections); i++) {
        int filled = PyObject_IsTrue(PyList_GET_ITEM(collections, i));
        if (filled != 0)
            return filled;
    }
    return 0;
}

static PyObject *call_with_frame(PyObject *function)
{
    return PyObject_CallFunctionObjArgs(function, (PyObject *)PyEval_GetFrame(), NULL);
}

PyDoc_STRVAR(started_doc, "started()\n--\n\nA backward pass begins: called from inside torch's function.");

static PyObject *started(PyObject *module, PyObject *nothing)
{
    state->backwards++;
    PyObject *list = list_here(1);
    if (list == NULL) {
        if (PyErr_Occurred())
            return NULL;
        PyObject *done = call_with_frame(backward_elsewhere);
        if (done == NULL)
            return NULL;
        Py_DECREF(done);
    } else {
        PyFrameObject *outer = PyFrame_GetBack(PyEval_GetFrame());
        PyObject *fields[2] = {moment(), frames_from(outer)};
        Py_XDECREF(outer);
        if (remember(list, named_tuple(backward_class, fields, 2)) < 0)
            return NULL;
    }
    int filled = any_filled(noticed);
    if (filled < 0)
        return NULL;
    if (filled)
        return call_with_frame(look);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(finished_doc, "finished()\n--\n\nA backward pass is over, well or not.");

static PyObject *finished(PyObject *module, PyObject *nothing)
{
    int filled = any_filled(unfinished);
    if (filled < 0)
        return NULL;
    if (filled)
        return call_with_frame(finish);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(connect_backwards_doc,
             "connect_backwards(noticed, look, unfinished, finish, note_elsewhere)\n--\n\nWhat is called, with the frame "
             "of torch's function: `look` at the beginning while one of the noticed collections is not empty, `finish` at "
             "the end while one of the unfinished is not, `note_elsewhere` on other threads than the main one.");

static PyObject *connect_backwards(PyObject *module, PyObject *args)
{
    PyObject *given[5];
    if (!PyArg_ParseTuple(args, "O!OO!OO", &PyList_Type, &given[0], &given[1], &PyList_Type, &given[2], &given[3],
                          &given[4]))
        return NULL;
    PyObject **kept[5] = {&noticed, &look, &unfinished, &finish, &backward_elsewhere};
    keep_all(kept, given, 5);
    Py_RETURN_NONE;
}

/* -- what is kept -------------------------------------------------------------------------------------------------- */

static PyObject *plain_types, *note_kept, *untracked;

/* Is nothing to be noted of this: no tensor, or one that nobody has ever written? 0 where that is not certain. */
static int is_untouched(PyObject *value)
{
    static PyObject *key;
    if (key == NULL && (key = PyUnicode_InternFromString("_version")) == NULL)
        return -1;
    int plain = PySet_Contains(plain_types, (PyObject *)Py_TYPE(value));
    if (plain < 0)
        return -1;
    if (!plain) /* tuples may hold tensors, and arrays may lie over one */
        return !PyTuple_Check(value) && strcmp(Py_TYPE(value)->tp_name, "numpy.ndarray") != 0;
    if (PyDict_GET_SIZE(untracked)) { /* a tensor over an array is changed by others, and has no version of that */
        PyObject *identity = PyLong_FromVoidPtr(value);
        int alias = identity == NULL ? -1 : PyDict_Contains(untracked, identity);
        Py_XDECREF(identity);
        if (alias != 0)
            return alias < 0 ? -1 : 0;
    }
    PyObject *mode = PyObject_CallNoArgs(mode_active);
    Py_XDECREF(mode);
    if (mode != Py_False)
        return mode == NULL ? -1 : 0;
    PyObject *version = PyObject_GetAttr(value, key);
    if (version == NULL) { /* inference tensors have none */
        PyErr_Clear();
        return 0;
    }
    int untouched = PyLong_Check(version) && PyLong_AsLong(version) == 0;
    Py_DECREF(version);
    return untouched;
}

/* keep(value, way): something is appended to a list, multiplied, kept in a Function's ctx ... */
static PyObject *keep(PyObject *self, PyObject *const *args, size_t given, PyObject *names)
{
    Py_ssize_t count = PyVectorcall_NARGS(given);
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "keep() takes a value and a way");
    if (note_kept == NULL) {
        Py_INCREF(args[0]);
        return args[0];
    }
    if (PyUnicode_Check(args[1]) && PyUnicode_CompareWithASCIIString(args[1], "append") == 0) {
        int untouched = is_untouched(args[0]);
        if (untouched < 0)
            return NULL;
        if (untouched) {
            Py_INCREF(args[0]);
            return args[0];
        }
    }
    return PyObject_Vectorcall(note_kept, args, count, NULL);
}

PyDoc_STRVAR(connect_kept_doc, "connect_kept(plain_types, mode_active, note_kept, untracked)\n--\n\nTies `keep` to kept.py.");

static PyObject *connect_kept(PyObject *module, PyObject *args)
{
    PyObject *given[4];
    if (!PyArg_ParseTuple(args, "O!OOO!", &PyFrozenSet_Type, &given[0], &given[1], &given[2], &PyDict_Type, &given[3]))
        return NULL;
    PyObject **kept[4] = {&plain_types, &mode_active, &note_kept, &untracked};
    keep_all(kept, given, 4);
    Py_RETURN_NONE;
}

/* -- writing methods ---------------------------------------------------------------------------------------------- */

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
    if (here.stepping && here.placed == placed)
        return Py_TYPE(self->method)->tp_descr_get(self->method, tensor, owner);
    return PyObject_CallFunctionObjArgs(self->look_up, tensor, owner == NULL ? Py_None : owner, NULL);
}

static PyTypeObject lookup_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime.record._native.Lookup",
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

/* -- item assignment ------------------------------------------------------------------------------------------------
 *
 * In Python this would be a function with a frame of its own, and a warning of torch's would name that frame's line.
 */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *method; /* torch's own */
    PyObject *note; /* called first, with the tensor and the index */
} SetItem;

static PyObject *setitem_call(PyObject *self, PyObject *const *args, size_t given, PyObject *names)
{
    SetItem *item = (SetItem *)self;
    if (PyVectorcall_NARGS(given) == 3 && names == NULL) {
        PyObject *done = PyObject_CallFunctionObjArgs(item->note, args[0], args[1], NULL);
        if (done == NULL)
            return NULL;
        Py_DECREF(done);
    }
    return PyObject_Vectorcall(item->method, args, PyVectorcall_NARGS(given), names);
}

static int setitem_init(SetItem *self, PyObject *args, PyObject *kwargs)
{
    PyObject *method, *noting;
    if (!PyArg_ParseTuple(args, "OO", &method, &noting))
        return -1;
    Py_INCREF(method);
    Py_INCREF(noting);
    Py_XSETREF(self->method, method);
    Py_XSETREF(self->note, noting);
    self->call = setitem_call;
    return 0;
}

static int setitem_traverse(SetItem *self, visitproc visit, void *arg)
{
    Py_VISIT(self->method);
    Py_VISIT(self->note);
    return 0;
}

static int setitem_clear(SetItem *self)
{
    Py_CLEAR(self->method);
    Py_CLEAR(self->note);
    return 0;
}

static void setitem_dealloc(SetItem *self)
{
    PyObject_GC_UnTrack(self);
    setitem_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *setitem_get(PyObject *self, PyObject *tensor, PyObject *owner)
{
    if (tensor == NULL || tensor == Py_None) {
        Py_INCREF(self);
        return self;
    }
    return PyMethod_New(self, tensor);
}

/* Its name, its text and all else are those of torch's method. */
static PyObject *setitem_attribute(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((SetItem *)self)->method, name);
}

static PyTypeObject setitem_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime.record._native.SetItem",
    .tp_basicsize = sizeof(SetItem),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(SetItem, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)setitem_init,
    .tp_dealloc = (destructor)setitem_dealloc,
    .tp_traverse = (traverseproc)setitem_traverse,
    .tp_clear = (inquiry)setitem_clear,
    .tp_descr_get = setitem_get,
    .tp_getattro = setitem_attribute,
};

/* -- compiled regions -----------------------------------------------------------------------------------------------
 *
 * Stands for the function that a backend has made of a region. It has no frame: tracebacks look as without outplace.
 */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *compiled, *region, *begin, *end;
} RegionCall;

static PyObject *region_call(PyObject *self, PyObject *const *args, size_t given, PyObject *names)
{
    RegionCall *own = (RegionCall *)self;
    PyObject *begun = PyObject_CallNoArgs(own->begin);
    if (begun == NULL)
        return NULL;
    PyObject *result = PyObject_Vectorcall(own->compiled, args, given, names);
    if (result != NULL) {
        PyObject *tensors = PyTuple_New(PyVectorcall_NARGS(given)), *noted = NULL;
        for (Py_ssize_t i = 0; tensors != NULL && i < PyTuple_GET_SIZE(tensors); i++)
            PyTuple_SET_ITEM(tensors, i, Py_NewRef(args[i]));
        if (tensors != NULL)
            noted = PyObject_CallFunctionObjArgs(own->end, own->region, begun, tensors, result, NULL);
        if (noted == NULL)
            Py_CLEAR(result);
        Py_XDECREF(noted);
        Py_XDECREF(tensors);
    }
    Py_DECREF(begun);
    return result;
}

static int region_call_init(RegionCall *self, PyObject *args, PyObject *kwargs)
{
    PyObject *given[4];
    if (!PyArg_ParseTuple(args, "OOOO", &given[0], &given[1], &given[2], &given[3]))
        return -1;
    PyObject **kept[4] = {&self->compiled, &self->region, &self->begin, &self->end};
    keep_all(kept, given, 4);
    self->call = region_call;
    return 0;
}

static int region_call_traverse(RegionCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->compiled);
    Py_VISIT(self->region);
    Py_VISIT(self->begin);
    Py_VISIT(self->end);
    return 0;
}

static int region_call_clear(RegionCall *self)
{
    Py_CLEAR(self->compiled);
    Py_CLEAR(self->region);
    Py_CLEAR(self->begin);
    Py_CLEAR(self->end);
    return 0;
}

static void region_call_dealloc(RegionCall *self)
{
    PyObject_GC_UnTrack(self);
    region_call_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject region_call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "outplace.runtime.record._native.RegionCall",
    .tp_doc = PyDoc_STR("RegionCall(compiled, region, begin, end)\n--\n\nCalls `compiled`. Before it, `begin()`; after "
                        "it, `end(region, what begin returned, arguments, result)`."),
    .tp_basicsize = sizeof(RegionCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(RegionCall, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)region_call_init,
    .tp_traverse = (traverseproc)region_call_traverse,
    .tp_clear = (inquiry)region_call_clear,
    .tp_dealloc = (destructor)region_call_dealloc,
};

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, connect_doc},
    {"switch_tags", switch_tags, METH_VARARGS, switch_tags_doc},
    {"own_functions", own_functions, METH_O, own_functions_doc},
    {"put_constant", put_constant, METH_VARARGS, put_constant_doc},
    {"frames_to_own_code", frames_to_own_code, METH_O, frames_doc},
    {"versions", versions, METH_O, versions_doc},
    {"connect_record", connect_record, METH_VARARGS, connect_record_doc},
    {"connect_steps", connect_steps, METH_VARARGS, connect_steps_doc},
    {"before_step", (PyCFunction)(void (*)(void))before_step, METH_FASTCALL, before_doc},
    {"after_step", (PyCFunction)(void (*)(void))after_step, METH_FASTCALL, after_doc},
    {"connect_backwards", connect_backwards, METH_VARARGS, connect_backwards_doc},
    {"started", started, METH_NOARGS, started_doc},
    {"finished", finished, METH_NOARGS, finished_doc},
    {"connect_kept", connect_kept, METH_VARARGS, connect_kept_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "outplace.runtime.record._native", .m_size = -1, .m_methods = functions};

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

PyMODINIT_FUNC PyInit__native(void)
{
    if (PyType_Ready(&mark_type) < 0 || PyType_Ready(&lookup_type) < 0 || PyType_Ready(&state_type) < 0 ||
        PyType_Ready(&setitem_type) < 0 || PyType_Ready(&region_call_type) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_USED); /* what is kept has no lock of its own */
#endif
    state = PyObject_New(State, &state_type);
    if (state == NULL) {
        Py_DECREF(module);
        return NULL;
    }
    state->backwards = 0;
    Py_INCREF(state); /* one for the module, one for us */
    Py_INCREF(&lookup_type);
    Py_INCREF(&setitem_type);
    Py_INCREF(&region_call_type);
    if (add(module, "Lookup", (PyObject *)&lookup_type) < 0 ||
        add(module, "SetItem", (PyObject *)&setitem_type) < 0 ||
        add(module, "RegionCall", (PyObject *)&region_call_type) < 0 || add(module, "mark", new_mark("mark", mark)) < 0 ||
        add(module, "at", new_mark("at", at)) < 0 || add(module, "back", new_mark("back", back)) < 0 ||
        add(module, "keep", new_mark("keep", keep)) < 0 || add(module, "state", (PyObject *)state) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
