"""The spawner class that a hub's configuration names: with devices, and without the hub's own code."""

from __future__ import annotations

from copy import copy
from typing import Any, cast

from jupyterhub.spawner import Spawner
from jupyterhub.traitlets import EntryPointType
from kubespawner import KubeSpawner
from traitlets import TraitType
from traitlets.config.loader import LazyConfigValue

from dra_spawner.spawner.spawner import DRASpawner

#: Keys of profiles that only DRASpawner understands.
_OF_DEVICES = ("device_claims", "intel_gas")
#: Types of a value that a class writes in place of a trait, such as ``profile_list = [...]``.
_PLAIN = (bool, dict, float, int, list, str, tuple)
_NAMES: Any = EntryPointType(klass=Spawner, entry_point_group="jupyterhub.spawners")


def spawner_class_of(configured: object) -> type[Spawner] | None:
    """Return the class that JupyterHub makes of ``c.JupyterHub.spawner_class``; None if that is no spawner class.

    Parameters
    ----------
    configured
        A class, its dotted name, or the name of an installed spawner, such as ``kubespawner``.
    """
    if isinstance(configured, str) and configured.lower() == KubeSpawner.__name__.lower():
        return cast(type[Spawner], KubeSpawner)  # which registers no name of its own
    try:
        found: type[Spawner] = _NAMES.validate(None, configured)
    except Exception:  # whatever a module does that is imported for it; JupyterHub itself will report it
        return None
    return found


def with_devices(spawner_class: type[Spawner]) -> type[Spawner]:
    """Return a hub's class with `DRASpawner` as its base in place of KubeSpawner.

    The result is what ``class X(DRASpawner)`` would be. A class that is not based on KubeSpawner is returned unchanged,
    and so is one that cannot be combined.
    """
    if spawner_class is KubeSpawner:
        return DRASpawner
    if not issubclass(spawner_class, KubeSpawner) or issubclass(spawner_class, DRASpawner):
        return spawner_class
    metaclass: Any = type(spawner_class)
    marks = {name: getattr(spawner_class, name) for name in ("__module__", "__qualname__", "__doc__")}
    try:
        return cast(type[Spawner], metaclass(spawner_class.__name__, (spawner_class, DRASpawner), marks))
    except Exception:  # no order of base classes, another metaclass, or code of the class that refuses subclasses
        return spawner_class


def is_combined(spawner_class: type[Spawner]) -> bool:
    """Whether `with_devices` has made the class."""
    first, *others = spawner_class.__bases__
    return others == [DRASpawner] and first.__name__ == spawner_class.__name__


def class_problem(spawner_class: type[Spawner]) -> str:
    """Return why a hub's class gives its servers no devices, and what to write; empty if it does."""
    # A class of a configuration file is in no module.
    name = f"{spawner_class.__module__}.{spawner_class.__name__}".removeprefix("builtins.")
    if issubclass(spawner_class, DRASpawner) or "child_class" in spawner_class.class_trait_names():
        return ""  # the latter wraps spawners of other classes, among which DRASpawner may be
    if spawner_class is KubeSpawner:
        write = "Remove that line."
    elif not issubclass(spawner_class, KubeSpawner):
        write = "It is not based on KubeSpawner, so it can have no devices: remove that line, or setup(c)."
    elif issubclass(with_devices(spawner_class), DRASpawner):
        write = (
            "Write that line before setup(c) of dra_spawner.hub, or base the class on DRASpawner: "
            f"class {spawner_class.__name__}(DRASpawner)."
        )
    else:
        bases = ", ".join(each.__name__ for each in spawner_class.__bases__)
        write = (
            f"It cannot be combined with DRASpawner; base it on DRASpawner: class {spawner_class.__name__}(DRASpawner) "
            f"in place of {spawner_class.__name__}({bases})."
        )
    return f"c.JupyterHub.spawner_class is {name}, which is no DRASpawner. {write}"


def without_code_of_others(spawner_class: type[Spawner]) -> type[DRASpawner]:
    """Return a class with a hub's class's traits and configuration, and with none of its code.

    It may be used for a user who does not exist.
    """
    if not issubclass(spawner_class, DRASpawner) or spawner_class is DRASpawner:
        return DRASpawner
    of_hub = [each for each in spawner_class.__mro__ if not issubclass(DRASpawner, each)]
    known = set(DRASpawner.class_trait_names())
    settings = {
        name: copy(value)
        for each in reversed(of_hub)
        for name, value in vars(each).items()
        if isinstance(value, TraitType) or (name in known and isinstance(value, _PLAIN))
    }

    class WithoutCode(DRASpawner):
        @classmethod
        def section_names(cls) -> list[str]:
            return cast(list[str], spawner_class.section_names())

    return cast(type[DRASpawner], type(spawner_class.__name__, (WithoutCode,), settings))


def asks_for_devices(value: object) -> bool:
    """Whether a profile, a list of them, or a section of the configuration asks for devices."""
    if isinstance(value, LazyConfigValue):  # `c.DRASpawner.profile_list.append(…)`
        value = value.to_dict()
    if isinstance(value, dict):
        return any((key in _OF_DEVICES and bool(each)) or asks_for_devices(each) for key, each in value.items())
    return isinstance(value, list | tuple) and any(map(asks_for_devices, value))
