"""The generators of calls, by family; importing this fills calls.GENERATORS."""

from . import arrays, assertions, composites, datasets, elementwise, examples  # noqa: F401
from . import images, matrices, objects, places, reductions, sparse, texts, waves  # noqa: F401
