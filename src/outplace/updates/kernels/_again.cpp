/* An update of a CUDA tensor whose like was done before, done again: again.py says what that is for.
 *
 * `lookup` describes the operands, all that a way to update them may depend on, and finds the kernels that did the same
 * for operands of this description. A Recipe starts these kernels, with nothing left to work out but addresses; where a
 * gradient is wanted, as a node of autograd, whose backward is looked up in the same way, without Python.
 */
#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/TracerMode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <dlfcn.h>

#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace py = pybind11;

namespace outplace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t MOST_KEPT = 1024, MOST_ITEMS = 8;
constexpr uintptr_t ALIGNMENT = 16;
constexpr int INVALID_CONTEXT = 201;
enum Operand { OUT, X, INDEX, VALUE, LAST, LATEST, SECOND, OPERANDS }; /* as in on_cuda.py */
enum How : int64_t { SET, SET_UNIQUE, ADD, TAKE, SPLIT };              /* as in again.py */

/* -- what `connect` was given --------------------------------------------------------------------------------------- */

/* What becomes of a gradient: by a function in Python, unless what is to be looked up for x and for the value is known. */
struct Kind {
    PyObject *gradients;
    bool looked_up;
    std::optional<int64_t> to_x; /* or it is the gradient itself */
    std::optional<int64_t> to_value;
};

c10::DeviceType device_type = c10::DeviceType::CUDA;
std::vector<Kind> kinds;
PyObject *current_stream, *set_device;

/* What DLPack 1.3 has for C: torch gives it since 2.10, and here the last of it is of use. */
struct DLPack {
    uint32_t major, minor;
    void *older, *allocate, *give, *take, *read;
    int (*stream)(int32_t device_type, int32_t number, void **out);
};
const DLPack *dlpack;
constexpr int32_t DL_CUDA = 2;

/* The driver's own functions, as far as the loader finds them. */
int (*launch_kernel)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                     void *stream, void **arguments, void **extra);
int (*parameter_info)(void *function, size_t number, size_t *offset, size_t *size);

bool find_driver()
{
    if (void *library = dlopen("libcuda.so.1", RTLD_LAZY)) {
        launch_kernel = reinterpret_cast<decltype(launch_kernel)>(dlsym(library, "cuLaunchKernel"));
        parameter_info = reinterpret_cast<decltype(parameter_info)>(dlsym(library, "cuFuncGetParamInfo"));
    }
    return launch_kernel && parameter_info;
}

void *stream_of(c10::DeviceIndex device)
{
    void *stream = nullptr;
    if (dlpack != nullptr && dlpack->stream(DL_CUDA, device, &stream) == 0)
        return stream;
    py::gil_scoped_acquire gil;
    py::object number = py::reinterpret_borrow<py::object>(current_stream)(static_cast<int>(device));
    return reinterpret_cast<void *>(number.cast<uintptr_t>());
}

/* -- the description of an update ------------------------------------------------------------------------------------ */

using Description = c10::SmallVector<int64_t, 64>;
enum Word : int64_t { NONE = 1, INTEGER, SLICE, ELLIPSIS, TUPLE, TENSOR, NUMBER };

/* Is anything active that has to see the operations, or that changes what they do? A checkpoint counts what is saved,
 * and what is saved must not depend on how often an update came. */
bool is_watched()
{
    return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) ||
           c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::PreDispatch) ||
           c10::impl::dispatch_mode_enabled() || at::tracer::impl::is_dispatch_enabled() ||
           !at::SavedTensorDefaultHooks::get_tls_state().stack.empty() ||
           at::globalContext().deterministicAlgorithms();
}

c10::Device current_device()
{
    return c10::impl::getDeviceGuardImpl(device_type)->getDevice();
}

/* All functions from here on that give a bool: is there a Recipe for such a thing? */

/* A tensor whose memory is what an operation would see: no bits that change its meaning, no wrapper, no tangent. */
bool is_plain(const Tensor &tensor)
{
    constexpr auto ignored = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
    const c10::DispatchKeySet dense(device_type == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA
                                                                         : c10::DispatchKey::CPU);
    return tensor.defined() && tensor.key_set() - ignored == dense && !tensor._fw_grad(0).defined();
}

bool describe(Description &words, const Tensor &tensor, c10::Device device)
{
    if (!is_plain(tensor) || tensor.device() != device)
        return false;
    const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    if (address == 0 || address % ALIGNMENT != 0)
        return false;
    words.append({TENSOR, static_cast<int64_t>(tensor.scalar_type()), tensor.dim()});
    words.append(tensor.sizes().begin(), tensor.sizes().end());
    words.append(tensor.strides().begin(), tensor.strides().end());
    return true;
}

bool describe_place(Description &words, PyObject *place)
{
    if (place == Py_None) {
        words.push_back(NONE);
        return true;
    }
    if (!PyLong_CheckExact(place))
        return false;
    int overflow;
    words.append({INTEGER, PyLong_AsLongLongAndOverflow(place, &overflow)});
    return overflow == 0;
}

bool describe_item(Description &words, PyObject *item)
{
    if (item == Py_Ellipsis) {
        words.push_back(ELLIPSIS);
        return true;
    }
    if (!PySlice_Check(item))
        return describe_place(words, item);
    const auto *slice = reinterpret_cast<PySliceObject *>(item);
    words.push_back(SLICE);
    return describe_place(words, slice->start) && describe_place(words, slice->stop) &&
           describe_place(words, slice->step);
}

bool describe_index(Description &words, PyObject *index)
{
    if (!PyTuple_CheckExact(index))
        return describe_item(words, index);
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(index));
    if (count > MOST_ITEMS)
        return false;
    words.append({TUPLE, static_cast<int64_t>(count)});
    for (size_t i = 0; i < count; i++)
        if (!describe_item(words, PyTuple_GET_ITEM(index, i)))
            return false;
    return true;
}

/* The index that has been described so. */
py::object described_index(const int64_t *&word)
{
    switch (*word++) {
    case INTEGER:
        return py::int_(*word++);
    case ELLIPSIS:
        return py::ellipsis();
    case SLICE: {
        py::object start = described_index(word), stop = described_index(word), step = described_index(word);
        return py::reinterpret_steal<py::object>(PySlice_New(start.ptr(), stop.ptr(), step.ptr()));
    }
    case TUPLE: {
        py::tuple items(*word++);
        for (size_t i = 0; i < items.size(); i++)
            items[i] = described_index(word);
        return items;
    }
    default:
        return py::none();
    }
}

/* A number that the dtype can hold, as torch has it: an int or float which is infinite or not too large. */
bool read_number(PyObject *value, at::ScalarType dtype, double *number)
{
    if (PyFloat_CheckExact(value))
        *number = PyFloat_AS_DOUBLE(value);
    else if (!PyLong_CheckExact(value))
        return false;
    else {
        *number = PyLong_AsDouble(value);
        if (PyErr_Occurred()) { /* it is too large */
            PyErr_Clear();
            return false;
        }
    }
    const double most = dtype == at::kHalf       ? 65504.0
                        : dtype == at::kBFloat16 ? 0x1.FEp127
                                                 : static_cast<double>(std::numeric_limits<float>::max());
    return !std::isfinite(*number) || std::fabs(*number) <= most;
}

/* What is asked for: `at(x)[index]`, the value, and what is to be done with it. */
struct Request {
    Tensor x, index, value; /* the last two where they are tensors */
    double number = 0;
    bool wants_gradient = false;
    Description words;
    size_t index_at = 0; /* where the words of the index begin, and those after it */
    size_t index_end = 0;

    /* For a gradient, in C++. */
    bool read(const Tensor &x, const Tensor &index, const Tensor &value, How how)
    {
        this->x = x;
        this->index = index;
        this->value = value;
        const auto device = current_device();
        return !is_watched() && begin(device, how) && describe(words, index, device) && finish(device);
    }

    /* For what comes from Python. */
    bool read(PyObject *const *args)
    {
        if (!THPVariable_CheckExact(args[0]) || is_watched())
            return false;
        x = THPVariable_Unpack(args[0]);
        const auto device = current_device();
        const auto how = PyLong_AsLong(args[3]);
        if (PyErr_Occurred())
            throw python_error();
        if (!begin(device, static_cast<How>(how)))
            return false;
        index_at = words.size();
        if (THPVariable_CheckExact(args[1])) {
            index = THPVariable_Unpack(args[1]);
            if (!describe(words, index, device))
                return false;
        } else if (!describe_index(words, args[1]))
            return false;
        index_end = words.size();
        if (THPVariable_CheckExact(args[2]))
            value = THPVariable_Unpack(args[2]);
        else if (!read_number(args[2], x.scalar_type(), &number))
            return false;
        return finish(device);
    }

    std::string_view key() const
    {
        return {reinterpret_cast<const char *>(words.data()), words.size() * sizeof(int64_t)};
    }

  private:
    bool begin(c10::Device device, How how)
    {
        words.append({device.index(), how});
        return describe(words, x, device);
    }

    bool finish(c10::Device device)
    {
        if (!value.defined())
            words.push_back(NUMBER);
        else if (!describe(words, value, device))
            return false;
        const bool gradients = at::GradMode::is_enabled(), of_x = gradients && x.requires_grad(),
                   of_value = gradients && value.defined() && value.requires_grad();
        wants_gradient = of_x || of_value;
        words.push_back(of_x << 1 | of_value); /* if of the value, it counts which of several for a place is the last */
        return true;
    }
};

/* -- recipes ---------------------------------------------------------------------------------------------------------- */

struct Argument {
    char kind; /* the address of an operand ('t'), the number that is the value ('f'), 32 ('i') or 64 ('l') bits */
    union {
        int64_t wide;
        int32_t narrow;
    };
};

struct Launch {
    void *function;
    unsigned blocks, rows_of_blocks, threads, shared;
    std::vector<Argument> arguments;
};

struct Results {
    Tensor first, second;
    Tensor last; /* which of several rows for a place is the last one, for backward */
};

using GivenLaunch =
    std::tuple<uintptr_t, unsigned, unsigned, unsigned, unsigned, std::vector<std::tuple<char, int64_t>>>;
using Shape = std::optional<std::vector<int64_t>>; /* of a result; none for one like x */

/* Kernels to start one after the other, which make one tensor or two. */
class Recipe {
  public:
    Recipe(const std::vector<GivenLaunch> &launches, py::object kernels, std::vector<Shape> shapes, uintptr_t crowded)
        : shapes_(std::move(shapes)), crowded_(reinterpret_cast<const volatile int32_t *>(crowded)),
          kernels_(std::move(kernels))
    {
        if (shapes_.size() != 1 && shapes_.size() != 2)
            throw py::value_error("a recipe has one result or two");
        if (!launches.empty() && !(launch_kernel && parameter_info))
            throw py::value_error("the driver cannot be asked");
        for (const auto &launch : launches)
            add(launch);
    }

    ~Recipe()
    {
        py::gil_scoped_acquire gil;
        kernels_ = py::object();
    }

    Recipe(const Recipe &) = delete;
    Recipe &operator=(const Recipe &) = delete;

    /* Have the kernels said that others would be quicker? */
    bool is_crowded() const { return crowded_ != nullptr && *crowded_ != 0; }

    Results run(const Tensor &x, const Tensor &index, const Tensor &value, double number) const
    {
        at::AutoDispatchBelowADInplaceOrView only_memory;
        Results results{made(x, shapes_[0]), shapes_.size() == 2 ? made(x, shapes_[1]) : Tensor(), Tensor()};
        Tensor latest;
        if (uses(LAST))
            results.last = at::empty_like(index);
        if (uses(LATEST))
            latest = at::empty({x.size(0)}, x.options().dtype(at::kInt));
        const Tensor *operands[OPERANDS] = {};
        operands[OUT] = &results.first, operands[X] = &x, operands[INDEX] = &index, operands[VALUE] = &value;
        operands[LAST] = &results.last, operands[LATEST] = &latest, operands[SECOND] = &results.second;
        const void *addresses[OPERANDS] = {};
        for (int operand = 0; operand < OPERANDS; operand++)
            if (uses(operand) && operands[operand]->defined())
                addresses[operand] = operands[operand]->const_data_ptr();
        if (!launches_.empty()) {
            void *stream = stream_of(x.device().index());
            for (const auto &launch : launches_)
                start(launch, stream, addresses, static_cast<float>(number), x.device().index());
        }
        return results;
    }

  private:
    std::vector<Launch> launches_;
    std::vector<Shape> shapes_;
    unsigned used_ = 0; /* a bit for each operand */
    const volatile int32_t *crowded_;
    py::object kernels_; /* whose functions are started, kept from being unloaded */

    bool uses(int operand) const { return used_ >> operand & 1; }

    static Tensor made(const Tensor &x, const Shape &shape)
    {
        return shape ? at::empty(*shape, x.options()) : at::empty_like(x);
    }

    void add(const GivenLaunch &given)
    {
        const auto &[function, blocks, rows_of_blocks, threads, shared, arguments] = given;
        Launch launch{reinterpret_cast<void *>(function), blocks, rows_of_blocks, threads, shared, {}};
        size_t offset, size;
        for (const auto &[kind, value] : arguments) {
            const size_t expected = kind == 'f' || kind == 'i' ? 4 : kind == 't' || kind == 'l' ? 8 : 0;
            if (expected == 0)
                throw py::value_error("an argument of an unknown kind");
            if (kind == 't' && (value < 0 || value >= OPERANDS))
                throw py::value_error("there is no such operand");
            if (parameter_info(launch.function, launch.arguments.size(), &offset, &size) != 0 || size != expected)
                throw py::value_error("the kernel takes other arguments");
            Argument argument{kind, {value}};
            if (kind == 'i')
                argument.narrow = static_cast<int32_t>(value);
            if (kind == 't')
                used_ |= 1u << value;
            launch.arguments.push_back(argument);
        }
        /* Triton adds pointers to memory of its own, which these kernels do without. */
        while (parameter_info(launch.function, launch.arguments.size(), &offset, &size) == 0) {
            if (size != 8)
                throw py::value_error("the kernel takes more arguments");
            launch.arguments.push_back({'l', {0}});
        }
        launches_.push_back(std::move(launch));
    }

    static void start(const Launch &launch, void *stream, const void **addresses, float number, c10::DeviceIndex device)
    {
        c10::SmallVector<void *, 32> arguments;
        for (const auto &argument : launch.arguments)
            arguments.push_back(argument.kind == 't'   ? static_cast<void *>(&addresses[argument.wide])
                                : argument.kind == 'f' ? static_cast<void *>(&number)
                                                       : const_cast<int64_t *>(&argument.wide));
        const auto once = [&] {
            return launch_kernel(launch.function, launch.blocks, launch.rows_of_blocks, 1, launch.threads, 1, 1,
                                 launch.shared, stream, arguments.data(), nullptr);
        };
        int failed = once();
        if (failed == INVALID_CONTEXT) { /* a thread that has not used CUDA yet */
            {
                py::gil_scoped_acquire gil;
                py::reinterpret_borrow<py::object>(set_device)(static_cast<int>(device));
            }
            failed = once();
        }
        TORCH_CHECK(failed == 0, "CUDA error ", failed, " at the start of a kernel");
    }
};

/* -- what is known ---------------------------------------------------------------------------------------------------- */

struct Entry {
    std::shared_ptr<const Recipe> recipe; /* none if such an update has been seen once */
    std::optional<size_t> kind;           /* of the gradients; none for what is a gradient itself */
};

struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using Known = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;

/* By description. Never freed: Python may be gone when C++ would do it. The GIL is never asked for under the lock, which
 * is why what leaves this memory is freed outside it. */
Known &known = *new Known;
std::mutex &lock = *new std::mutex;

Entry find(std::string_view key)
{
    Entry found;
    std::lock_guard guard(lock);
    if (const auto at = known.find(key); at != known.end()) {
        found = at->second;
        if (found.recipe && found.recipe->is_crowded()) { /* it is to be found out anew */
            at->second.recipe.reset();
            known.erase(at);
            return {};
        }
    }
    return found;
}

void forget()
{
    Known forgotten;
    std::lock_guard guard(lock);
    forgotten.swap(known);
}

/* -- autograd --------------------------------------------------------------------------------------------------------- */

py::object wrapped(const Tensor &tensor)
{
    return tensor.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)) : py::none();
}

Tensor unwrapped(py::handle object)
{
    return object.is_none() ? Tensor() : THPVariable_Unpack(object.ptr());
}

/* What becomes of a gradient. Saved are the index, and which rows are the last of several for a place. */
struct Update : torch::autograd::Function<Update> {
    static constexpr bool is_traceable = true; /* by compiled autograd: under its tracers Python is asked */

    static variable_list backward(AutogradContext *ctx, const variable_list &grads)
    {
        const Tensor &grad = grads[0];
        const int64_t saved_kind = ctx->saved_data["kind"].toInt();
        const Kind &kind = kinds.at(saved_kind >> 1);
        const bool of_x = ctx->needs_input_grad(0), of_value = saved_kind & 1 && ctx->needs_input_grad(1);
        const variable_list saved = ctx->get_saved_variables();
        variable_list gradients(2); /* of x and of the value */
        if (!(kind.looked_up && !(at::GradMode::is_enabled() && grad.requires_grad()) &&
              look_up(kind, grad, saved, of_x, of_value, gradients)))
            ask_python(kind, grad, saved, ctx, of_x, of_value, gradients);
        return gradients;
    }

  private:
    static bool look_up(const Kind &kind, const Tensor &grad, const variable_list &saved, bool of_x, bool of_value,
                        variable_list &gradients)
    {
        Request for_x, for_value;
        Entry of_x_known, of_value_known;
        const bool both = of_value && kind.to_value == SPLIT;
        if (of_value) {
            const Tensor last = saved.size() > 1 ? saved[1] : Tensor();
            if (!for_value.read(grad, saved[0], last, static_cast<How>(*kind.to_value)))
                return false;
            of_value_known = find(for_value.key());
            if (!of_value_known.recipe)
                return false;
        }
        if (of_x && kind.to_x && !both) {
            if (!for_x.read(grad, saved[0], Tensor(), static_cast<How>(*kind.to_x)))
                return false;
            of_x_known = find(for_x.key());
            if (!of_x_known.recipe)
                return false;
        }
        if (of_x_known.recipe)
            gradients[0] = of_x_known.recipe->run(grad, saved[0], Tensor(), 0).first;
        else if (of_x && !both)
            gradients[0] = grad;
        if (of_value) {
            Results results = of_value_known.recipe->run(grad, saved[0], for_value.value, 0);
            if (both)
                gradients[0] = results.first;
            gradients[1] = both ? results.second : results.first;
        }
        return true;
    }

    static void ask_python(const Kind &kind, const Tensor &grad, const variable_list &saved, AutogradContext *ctx,
                           bool of_x, bool of_value, variable_list &gradients)
    {
        py::gil_scoped_acquire gil;
        py::list args;
        args.append(wrapped(grad));
        args.append(py::bool_(of_x));
        args.append(py::bool_(of_value));
        if (saved.empty()) {
            const auto words = ctx->saved_data["index"].toIntVector();
            const int64_t *word = words.data();
            args.append(described_index(word));
        }
        for (const auto &tensor : saved)
            args.append(wrapped(tensor));
        py::object pair = py::reinterpret_steal<py::object>(PyObject_CallObject(kind.gradients, py::tuple(args).ptr()));
        if (!pair) {
            python_error error;
            error.persist();
            throw error;
        }
        gradients[0] = unwrapped(pair[py::int_(0)]);
        gradients[1] = unwrapped(pair[py::int_(1)]);
    }
};

struct UpdateBackward : torch::autograd::CppNode<Update> {
    std::string name() const override { return "UpdateBackward"; }
};

/* torch counts the references to a node in one way or the other. */
template <class Node> auto make_node()
{
    if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Node>)
        return c10::make_intrusive<Node>();
    else
        return std::shared_ptr<Node>(new Node, [](Node *node) { deleteNode(node); });
}

/* The update as `Update::apply` would make it, without the parts of that which are for other Functions: views, results
 * that are inputs, tangents. They take longer than the rest. */
Tensor recorded(const Request &request, const Entry &entry)
{
    auto node = make_node<UpdateBackward>();
    Results results = entry.recipe->run(request.x, request.index, request.value, request.number);
    const bool has_value = request.value.defined();
    auto &ctx = node->ctx_;
    ctx.saved_data["kind"] = static_cast<int64_t>(*entry.kind << 1 | has_value);
    if (!request.index.defined())
        ctx.saved_data["index"] = std::vector<int64_t>(request.words.begin() + request.index_at,
                                                       request.words.begin() + request.index_end);
    else if (results.last.defined())
        ctx.save_for_backward({request.index, results.last});
    else
        ctx.save_for_backward({request.index});
    node->is_variable_input_ = {true, has_value};
    node->set_ctx_grad_fn(node);
    node->set_next_edges(has_value ? torch::autograd::collect_next_edges(request.x, request.value)
                                   : torch::autograd::collect_next_edges(request.x));
    torch::autograd::set_history(results.first, node);
    node->output_info_.emplace_back(results.first);
    node->save_variables_to_ctx();
    return results.first;
}

/* -- for Python ------------------------------------------------------------------------------------------------------- */

bool read_all(Request &request, PyObject *const *args, Py_ssize_t count, const char *name)
{
    if (count != 4)
        throw torch::TypeError(std::string(name) + " takes x, the index, the value, and how");
    return request.read(args);
}

PyObject *lookup(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    HANDLE_TH_ERRORS
    Request request;
    if (!read_all(request, args, count, "lookup"))
        Py_RETURN_NONE;
    const Entry entry = find(request.key());
    if (!entry.recipe || (request.wants_gradient && !entry.kind))
        Py_RETURN_NONE;
    Results results;
    {
        py::gil_scoped_release others_run;
        if (request.wants_gradient)
            results.first = recorded(request, entry);
        else
            results = entry.recipe->run(request.x, request.index, request.value, request.number);
    }
    if (!results.second.defined())
        return THPVariable_Wrap(std::move(results.first));
    return py::make_tuple(wrapped(results.first), wrapped(results.second)).release().ptr();
    END_HANDLE_TH_ERRORS
}

PyObject *seen(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    HANDLE_TH_ERRORS
    Request request;
    if (!read_all(request, args, count, "seen"))
        Py_RETURN_FALSE;
    Known forgotten;
    std::lock_guard guard(lock);
    if (const auto at = known.find(request.key()); at != known.end())
        return PyBool_FromLong(!at->second.recipe);
    if (known.size() >= MOST_KEPT)
        forgotten.swap(known);
    known.emplace(request.key(), Entry());
    Py_RETURN_FALSE;
    END_HANDLE_TH_ERRORS
}

void remember(py::object x, py::object index, py::object value, py::object how, std::optional<size_t> kind,
              std::shared_ptr<Recipe> recipe)
{
    PyObject *args[] = {x.ptr(), index.ptr(), value.ptr(), how.ptr()};
    Request request;
    if (!request.read(args))
        return;
    Entry entry{std::move(recipe), kind};
    std::lock_guard guard(lock);
    std::swap(known[std::string(request.key())], entry);
}

using GivenKind = std::tuple<py::object, bool, std::optional<int64_t>, std::optional<int64_t>>;

bool connect(bool on_cuda, const std::vector<GivenKind> &given, py::object stream, py::object device, py::object exchange)
{
    device_type = on_cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
    kinds.clear();
    for (const auto &[gradients, looked_up, to_x, to_value] : given)
        kinds.push_back({gradients.inc_ref().ptr(), looked_up, to_x, to_value});
    current_stream = stream.release().ptr();
    set_device = device.release().ptr();
    constexpr auto name = "dlpack_exchange_api";
    dlpack = PyCapsule_IsValid(exchange.ptr(), name)
                 ? static_cast<const DLPack *>(PyCapsule_GetPointer(exchange.ptr(), name))
                 : nullptr;
    if (dlpack != nullptr && (dlpack->major != 1 || dlpack->stream == nullptr))
        dlpack = nullptr;
    forget();
    return find_driver();
}

PyMethodDef quick_functions[] = {
    {"lookup", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(lookup)), METH_FASTCALL,
     "The update, done by what did such a one before; None where nothing is known."},
    {"seen", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(seen)), METH_FASTCALL,
     "Has such an update been seen once before? Only what comes again is worth a Recipe."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace outplace

PYBIND11_MODULE(_again, module)
{
    using namespace outplace;
    py::class_<Recipe, std::shared_ptr<Recipe>>(module, "Recipe", "Kernels to start one after the other.")
        .def(py::init<const std::vector<GivenLaunch> &, py::object, std::vector<Shape>, uintptr_t>());
    module.def("connect", connect, "Takes what there is to ask of torch; is CUDA's driver there to start kernels?");
    module.def("remember", remember, "Remembers of an update what makes it, and what becomes of its gradients.");
    module.def("forget", forget, "Forgets all that is remembered.");
    PyModule_AddFunctions(module.ptr(), quick_functions);
}
