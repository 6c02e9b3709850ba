"""How many entries the API server takes in lists and maps of the objects that the allocator works on.

Where releases differ, the largest number counts: an object of an older cluster is not refused.
"""

from __future__ import annotations

from dra_spawner.dra.model.decoding import Reader


def check_sizes(reader: Reader, **most: int) -> None:
    """Look at lists and maps by field name.

    Raises
    ------
    ObjectError
        When one has more entries than the API server takes (``k8s.io/api/resource/v1``, constants ``…Max…``).
    """
    for key, limit in most.items():
        value = reader.raw(key)
        if isinstance(value, (list, tuple, dict)) and len(value) > limit:
            reader.fail(
                key, f"has {len(value):,} entries, which is more than the API server takes; at most {limit} are read"
            )
