"""The functions of the Array API standard, version 2025.12, in the standard's own argument lists.

They are made of the catalogue's operations and compute nothing by themselves, so all that is
differentiable there is differentiable here.
"""

from . import constants, creation, dtypes, elementwise, info, linear, manipulation, reduction, searching

__all__: list[str] = []
for _module in (constants, creation, dtypes, elementwise, info, linear, manipulation, reduction, searching):
    for _name in _module.__all__:
        globals()[_name] = getattr(_module, _name)
        __all__.append(_name)
