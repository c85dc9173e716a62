"""The pool that recycles large buffers: how much it keeps, and how much it may.

>>> import extensor as ex
>>> ex.memory.set_pool_limit(0)
>>> ex.memory.pool_bytes()
0
>>> ex.memory.set_pool_limit(1 << 30)
"""

from ._core import pool_bytes, set_pool_limit

__all__ = ["pool_bytes", "set_pool_limit"]
