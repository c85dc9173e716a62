"""Writes golden cases of the operations that came later: crates/extensor/tests/golden/more.

    python3 tools/golden_more.py [--seed N] [--cases 4] [--skip ENTRY …] [--out FOLDER]          needs: torch, numpy

The calls are the smaller ones of those that `crates/extensor-python/conformance/beside` draws; the answers are PyTorch's,
in float64, in the format of the cases beside them. The package is not needed: a stand-in for it writes down what each
operation is called with; what operations there are, and the names of their arguments, are read from the package's
stubs (`extensor/ops.pyi`), so write those first. What is called with something made inside a function, has several
results or is no operation of the catalogue is left out, and said.
"""

import argparse
import inspect
import json
import math
import pathlib
import re
import struct
import sys
import types
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "crates/extensor/tests/golden"
PYTHON = ROOT / "crates/extensor-python"

#: No case has more numbers than this among its inputs and its result, and no file is larger.
MOST_NUMBERS, MOST_BYTES = 160, 1_500_000


class LeftOut(Exception):
    """The call cannot be written as a case; why."""


class Slot:
    """An input of a call: it can be handed on, and nothing else."""

    def __init__(self, number):
        self.number = number


class Result:
    """What a call was, in place of what it gives."""

    def __init__(self, name, inputs, params):
        self.name, self.inputs, self.params = name, inputs, params


class StandIn:
    """An operation that only writes down how it is called."""

    def __init__(self, name, arguments, tensors):
        self.name, self.tensors = name, tensors
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(a, kind, default=None) for a in arguments])
        self.info = {"name": name}

    def __call__(self, *args, **kwargs):
        bound = self.__signature__.bind(*args, **kwargs).arguments
        inputs, params = {}, {}
        for key, value in bound.items():
            if isinstance(value, Slot):
                inputs[key] = value.number
            elif isinstance(value, list) and value and all(isinstance(x, Slot) for x in value):
                # Operands of which there may be any number are x0, x1 and so on.
                inputs.update({f"x{i}": x.number for i, x in enumerate(value)})
            elif value is None and key in self.tensors:
                continue
            elif key in self.tensors:
                raise LeftOut(f"{key} is no tensor")
            else:
                params[key] = plain(value)
        # The runners hand inputs on one after the other.
        if inputs.keys() & set(self.tensors) and list(inputs) != self.tensors[: len(inputs)]:
            raise LeftOut("an input is given after one that is not")
        return Result(self.name, inputs, params)


def plain(value):
    """A parameter as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise LeftOut("a parameter that JSON has no number for")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise LeftOut(f"a parameter of type {type(value).__name__}")


def stand_ins():
    """The operations of the catalogue, from the stubs."""
    text = (PYTHON / "python/extensor/ops.pyi").read_text()
    found = {}
    pattern = r"class _(\w+)\(Operation\):\n    def __call__\(\s*self,?(.*?)\) -> (.*?): \.\.\."
    for name, arguments, result in re.findall(pattern, text, re.S):
        arguments = re.sub(r"\[[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*\]", "", arguments)
        pairs = [part.split(":") for part in arguments.split(",") if ":" in part]
        names = [pair[0].strip() for pair in pairs]
        tensors = [pair[0].strip() for pair in pairs if pair[1].strip().startswith("Operand")]
        found[name] = (names, tensors, result)
    return found


#: What the operations return, in the stubs' words.
RESULTS = {}


def install():
    """Puts the stand-in in the package's place, and returns the entries."""
    package = types.ModuleType("extensor")
    operations = {}
    for name, (names, tensors, result) in stand_ins().items():
        operations[name], RESULTS[name] = StandIn(name, names, tensors), result
    package.ops = types.SimpleNamespace(**operations)
    sys.modules["extensor"] = package
    sys.path.insert(0, str(PYTHON / "conformance"))
    from beside import draw, judge, tables

    return tables.ENTRIES, draw.Draw, judge


def case(entry, d, judge):
    """The row of a case and its tensors."""
    import torch

    call = entry.draw(d)
    written = call.ours(*map(Slot, range(len(call.inputs))))
    if not isinstance(written, Result):
        raise LeftOut("something is computed around it")
    if sorted(written.inputs.values()) != list(range(len(call.inputs))):
        raise LeftOut("inputs that are not handed on")
    inputs = [torch.from_numpy(np.array(x)) for x in call.inputs]
    outputs = judge.several(call.theirs(*inputs))
    if len(outputs) != 1 and RESULTS[written.name] != "Tensor":
        raise LeftOut("several results")
    # What comes beside one result is where it was found: no part of a case.
    out = outputs[0]
    arrays = [*call.inputs, out.numpy()]
    if sum(x.size for x in arrays) > MOST_NUMBERS:
        raise LeftOut("too large")
    if any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in arrays):
        raise LeftOut("numbers that are not finite")
    names = {number: name for name, number in written.inputs.items()}
    tensors = {f"in/{names[i]}": x for i, x in enumerate(call.inputs)}
    tensors["out"] = out.detach().numpy()
    grads = [names[i] for i in call.moving] if call.order and out.is_floating_point() else []
    row = {"op": written.name, "params": written.params, "inputs": list(written.inputs), "grads": grads, "hvp": False}
    if grads:
        derived = judge.Derivatives(None, call, None, inputs, None, [0], d, 1.0)
        derived.cotangents = [torch.from_numpy(d.normal(*out.shape))]
        tensors["cotangent"] = derived.cotangents[0].numpy()
        _, found = derived.pulled(derived.moving)
        tensors.update({f"grad/{n}": g.detach().numpy() for n, g in zip(grads, found)})
        if call.order >= 2:
            row["hvp"] = True
            tensors.update({f"tangent/{n}": v for n, v in zip(grads, derived.tangents)})
            tensors.update({f"hvp/{n}": h.detach().numpy() for n, h in zip(grads, derived.bent())})
    if any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in tensors.values()):
        raise LeftOut("derivatives that are not finite")
    # The runners take gradients in the order of the inputs.
    row["grads"] = [name for name in row["inputs"] if name in grads]
    return row, tensors


def safetensors(tensors):
    """The bytes of a safetensors file."""
    codes = {"f": "F64", "i": "I64", "b": "BOOL"}
    header, data = {}, []
    at = 0
    for name, x in tensors.items():
        # (ascontiguousarray would give a scalar an axis.)
        raw = np.array(x, order="C").tobytes()
        header[name] = {"dtype": codes[x.dtype.kind], "shape": list(x.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=4, help="cases of each entry, at most (4)")
    parser.add_argument("--skip", nargs="+", default=[], metavar="ENTRY", help="entries of which no case is written")
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN / "more")
    options = parser.parse_args()
    entries, draw, judge = install()
    import torch

    from beside.entry import Missing

    first = {row["op"] for row in json.loads((GOLDEN / "manifest.json").read_text())["cases"]}
    rows, stored, left = [], {}, {}
    for entry in entries.values():
        if entry.name in ("vmap", *options.skip) or (not entry.new and entry.name in first):
            continue
        taken, reasons = 0, []
        for number in range(12 * options.cases):
            if taken == options.cases:
                break
            try:
                row, tensors = case(entry, draw(options.seed, zlib.crc32(entry.name.encode()), number), judge)
            except LeftOut as error:
                reasons.append(str(error))
                continue
            except Missing as error:
                reasons.append(f"missing {error}")
                continue
            except (AttributeError, TypeError) as error:
                # A slot is no tensor: something is computed with it.
                reasons.append(f"something is computed around it ({error})")
                continue
            taken += 1
            # The cases of the first folder are numbered from 0.
            name = f"{row['op']}/{100 + sum(r['op'] == row['op'] for r in rows)}"
            note = {} if entry.name == row["op"] else {"note": entry.name}
            rows.append({"id": name, **row, **note})
            stored.update({f"{name}/{key}": x for key, x in tensors.items()})
        if taken == 0:
            left[entry.name] = reasons[-1]
    raw = safetensors(stored)
    if len(raw) > MOST_BYTES:
        raise SystemExit(f"{len(raw)} bytes are too many: fewer --cases")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "tensors.safetensors").write_bytes(raw)
    version = torch.__version__.split("+")[0]
    head = {"format": 1, "source": f"PyTorch {version} float64, tools/golden_more.py", "seed": options.seed}
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    (options.out / "manifest.json").write_text(json.dumps(head)[:-1] + ',\n "cases": [\n' + lines + "\n ]}\n")
    print(f"{len(rows)} cases of {len({row['op'] for row in rows})} operations, {len(raw)} bytes -> {options.out}")
    for name, reason in left.items():
        print(f"  left out: {name}: {reason}")


if __name__ == "__main__":
    main()
