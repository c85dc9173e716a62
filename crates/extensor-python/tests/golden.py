"""The golden cases, PyTorch's answers in float64, as the tests of the package read them.

It must not know any particular operation: what a call needs is in the catalogue and in the case.
"""

import json
import math
import pathlib
import struct

import extensor as ex

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "extensor" / "tests" / "golden"
#: The cases of operations that came later, which `tools/golden_more.py` writes, are in a folder of their own.
FOLDERS = [FOLDER, FOLDER / "more"]
_CODES = {"F64": ("d", 8, ex.float64), "I64": ("q", 8, ex.int64), "BOOL": ("?", 1, ex.bool)}


def tensors():
    """The tensors of the files, by name."""
    return {name: x for folder in FOLDERS for name, x in tensors_of(folder).items()}


def tensors_of(folder):
    """The tensors of one file, by name."""
    data = (folder / "tensors.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        code, size, dtype = _CODES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        values = struct.unpack_from(f"<{(end - begin) // size}{code}", data, 8 + length + begin)
        if values:
            flat = ex.asarray(list(values), dtype=dtype)
            found[name] = ex.ops.reshape(flat, entry["shape"])
        else:
            found[name] = ex.full(entry["shape"], 0, dtype=dtype)
    return found


def cases():
    """The cases of the manifests."""
    return [case for folder in FOLDERS for case in json.loads((folder / "manifest.json").read_text())["cases"]]


def flat(x):
    """The elements of a tensor as one list."""
    return ex.ops.reshape(x, [-1]).tolist()


def disagreement(what, got, want, relative=1e-7, absolute=1e-10):
    """What is wrong with `got`, or nothing."""
    if got.shape != want.shape:
        return f"{what} has shape {got.shape}, not {want.shape}"
    if got.dtype.is_float != want.dtype.is_float:
        return f"{what} has dtype {got.dtype}, not {want.dtype}"
    limit = got.dtype.float_limits[0] if got.dtype.is_float else math.inf
    for i, (y, exact) in enumerate(zip(flat(got), flat(want))):
        if y == exact or (y != y and exact != exact):
            continue
        beyond = abs(exact) >= limit and abs(y) >= limit and (y > 0) == (exact > 0)
        if not beyond and not abs(y - exact) <= absolute + relative * abs(exact):
            return f"{what} is {y!r} at element {i}, not {exact!r}"
    return None


class Case:
    """A call of an operation with everything that is known of it."""

    def __init__(self, case, stored):
        self.id, self.name = case["id"], case["op"]
        self.op = getattr(ex.ops, self.name)
        self.info = self.op.info
        # What may be several is called by its plural in the cases.
        known, singular = self.op.info["params"], {"axes": "axis", "shifts": "shift"}
        self.params = {n if n in known else singular[n]: value for n, value in case["params"].items()}
        get = lambda kind: stored[f"{self.id}/{kind}"]  # noqa: E731
        self.names = case["inputs"]
        self.inputs = [get(f"in/{name}") for name in self.names]
        self.wanted = [name in case["grads"] for name in self.names]
        self.out = get("out")
        self.grads = {name: get(f"grad/{name}") for name in case["grads"]}
        self.cotangent = get("cotangent") if case["grads"] else None
        self.tangents = self.hvp = None
        if case["hvp"]:
            self.tangents = [get(f"tangent/{name}") for name in self.names if name in self.grads]
            self.hvp = {name: get(f"hvp/{name}") for name in case["grads"]}

    def cast(self, x, dtype):
        return ex.ops.cast(x, dtype) if x.dtype.is_float and x.dtype != dtype else x

    def magnitude(self):
        every = [*self.inputs, self.out, *self.grads.values()]
        values = [abs(v) for x in every if x.dtype.is_float for v in flat(x)]
        return max([1.0] + [v for v in values if math.isfinite(v)])

    def call(self, inputs, auxiliary=False):
        function = self.op.with_auxiliary if auxiliary else self.op
        args = [inputs] if self.info["many"] else inputs
        if len(args) < len(self.info["inputs"]):
            args = [*args, *[None] * (len(self.info["inputs"]) - len(args))]
        return function(*args, **self.params)

    def moving(self):
        return [x for x, wanted in zip(self.inputs, self.wanted) if wanted]

    def of_moving(self, inputs):
        """The result as a function of the inputs that are differentiated by."""

        def f(*moving):
            moving = iter(moving)
            return self.call([next(moving) if w else x for x, w in zip(inputs, self.wanted)])

        return f

    def backward(self, inputs, cotangent):
        """The gradients by the operation's explicit backward function, by the inputs' names."""
        return explicit(self.op, self.names, inputs, self.params, cotangent)


def backward_names(op):
    """The name of an operation's backward function, and those of its arguments."""
    name, _, rest = op.info["backward"].partition("(")
    names = [part.strip().strip("[]") for part in rest.rstrip(")").split(",")]
    return name, [part for part in names if part]


def backward_arguments(op, inputs, params, cotangents):
    """The arguments of an operation's backward function that its record lists, by name."""
    info = op.info
    many = info["many"]
    args = [inputs] if many else [*inputs, *[None] * (len(info["inputs"]) - len(inputs))]
    outputs = op.with_auxiliary(*args, **params)
    results = len(outputs) - info["auxiliary"]
    by_name = dict(zip(info["inputs"], args))
    names = backward_names(op)[1]
    given, rest = {}, []
    for name in names:
        if name == "grad_output":
            given[name] = cotangents
        elif name == "grad_outputs":
            given[name] = list(cotangents)
        elif name == "output":
            given[name] = outputs[0]
        elif name == "outputs":
            given[name] = list(outputs[:results])
        elif name in info["inputs"] and not many:
            given[name] = by_name[name]
        elif many and name == "x":
            given[name] = inputs
        elif name in info["params"]:
            given[name] = params.get(name)
        elif name == "input_shape":
            given[name] = inputs[0].shape
        elif name.endswith("_shape") and name[:-6] in info["inputs"]:
            given[name] = by_name[name[:-6]].shape
        elif name == "input_dtype":
            given[name] = inputs[0].dtype
        elif name == "sizes":
            given[name] = [x.shape[params.get("axis") or 0] for x in inputs]
        else:
            rest.append(name)
    # What remains was found on the way; the last ones are those saved.
    for name, found in zip(reversed(rest), reversed(outputs[results:])):
        given[name] = found
    missing = [name for name in names if name not in given]
    assert not missing, f"{info['backward']}: what are {missing}?"
    return {name: given[name] for name in names}


def explicit(op, names, inputs, params, cotangents):
    """The gradients by the explicit backward function, by the names of the inputs."""
    function = getattr(ex.ops, backward_names(op)[0])
    given = backward_arguments(op, inputs, params, cotangents)
    found = function(**{name: value for name, value in given.items() if value is not None})
    again = function(*given.values())
    if not isinstance(found, tuple):
        found, again = (found,), (again,)
    for one, other in zip(found, again, strict=True):
        assert disagreement("by position", other, one, 0, 0) is None
    if op.info["many"]:
        moving = list(names)
    else:
        # Inputs that were not given may have a gradient all the same: they come after the others.
        flags = zip(names, inputs, op.info["differentiable"])
        moving = [name for name, x, flag in flags if flag and x.dtype.is_float]
    assert len(found) >= len(moving), f"{len(found)} gradients came back for {moving}"
    return dict(zip(moving, found))
