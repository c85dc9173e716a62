"""Writes crates/extensor-cli/tests/names.txt: every public name of PyTorch's and JAX's functional API, and the operation that it
is here, or `-` where there is none.

    python3 tools/names.py target/release/extensor     # with torch and jax installed

What a name stands for is settled in crates/extensor-derive/src/aliases.rs. Run after an upgrade of either library, the file's
difference shows the names that are new: each is an alias to add, or something that is not here.
Names in place (`add_`) and those of classes are left out; the former are found by a rule.
"""

import inspect
import pathlib
import subprocess
import sys

import jax
import jax.nn
import jax.numpy
import jax.scipy.special
import torch

OUT = pathlib.Path(__file__).parent.parent / "crates/extensor-cli/tests/names.txt"

MODULES = {
    "torch": torch, "torch.nn.functional": torch.nn.functional, "torch.special": torch.special, "torch.linalg": torch.linalg,
    "torch.Tensor": torch.Tensor, "jax.numpy": jax.numpy, "jax.nn": jax.nn, "jax.lax": jax.lax,
    "jax.scipy.special": jax.scipy.special,
}
# Variants of one vendor's library or of one number format, and what is left over from imports.
PREFIXES = ("cudnn_", "miopen_", "mkldnn_", "quantized_", "fbgemm_", "sym_", "is_", "has_torch", "set_", "get_", "parse_", "import_")


def names():
    found = {}
    for place, module in MODULES.items():
        for name in dir(module):
            value = getattr(module, name, None)
            if name.startswith(("_", *PREFIXES)) or name.endswith("_") or inspect.isclass(value) or inspect.ismodule(value):
                continue
            if place == "torch.Tensor" or callable(value):
                name = name.removeprefix(place.split(".")[-1] + "_")
                found.setdefault(name, []).append(place)
    return found


def operations(program, name):
    run = subprocess.run([program, "ops", name], capture_output=True, text=True)
    if run.returncode == 0:
        return run.stdout.split("operation", 1)[1].split("(")[0].strip()
    _, here, those = run.stderr.partition("here it is called ")
    return ",".join(part.strip().strip('"') for part in those.split(" or ")) if here else "-"


def main():
    program = sys.argv[1]
    lines = [f"# torch {torch.__version__.split('+')[0]}, jax {jax.__version__}; written by tools/names.py"]
    for name, places in sorted(names().items()):
        lines.append(f"{name} {operations(program, name)} {' '.join(places)}")
    OUT.write_text("\n".join(lines) + "\n")


main()
