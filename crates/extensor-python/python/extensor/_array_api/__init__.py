"""The functions of the Array API standard, version 2025.12, in the standard's own argument lists.

They are made of the catalogue's operations and compute nothing by themselves, so all that is
differentiable there is differentiable here.
"""

from .constants import *  # noqa: F403
from .creation import *  # noqa: F403
from .dtypes import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .info import *  # noqa: F403
from .linear import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .reduction import *  # noqa: F403
from .searching import *  # noqa: F403
