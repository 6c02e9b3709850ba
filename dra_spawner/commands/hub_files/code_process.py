"""The process that runs a hub's configuration code, and answers with the settings that the code leaves.

It is started as ``python -m dra_spawner.commands.hub_files.code_process DIRECTORY``: it reads ``question.json`` there,
and writes ``answer.json``. Code of the configuration cannot disturb the command that started it: not its output, its
modules, its working directory or its time.
"""

from __future__ import annotations

import builtins
import contextlib
import glob
import io
import json
import os
import re
import resource
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue, PyFileConfigLoader

import dra_spawner
from dra_spawner.commands.hub_files.code_exchange import (
    ANSWER,
    CHART_CLASS,
    KNOWN_CLASSES,
    OBJECT,
    OUR_CLASS,
    QUESTION,
    SECTIONS,
    SERVICE_SECTION,
)

_MEMORY_BYTES: Final = 4 * 2**30
_MAX_VALUES: Final = 500_000
_MAX_LEVELS: Final = 100
_LONGEST_TEXT: Final = 300
_HUB_DIRECTORY: Final = "/usr/local/etc/jupyterhub"
#: Names that the chart's own configuration file imports, so that pieces use them without an import of their own.
_IMPORTED_BY_CHART: Final = {
    "AsyncHTTPClient": ("tornado.httpclient", "AsyncHTTPClient"),
    "client": ("kubernetes_asyncio.client", ""),
    "url_path_join": ("jupyterhub.utils", "url_path_join"),
}


class _TooLong(BaseException):
    """Raised in code that runs too long; no ``except Exception`` catches it."""


class _TooLarge(Exception):
    """Raised for settings with too many values."""


def run(directory: Path) -> None:
    """Run the code of a question, and write the answer."""
    question, as_json = json.loads((directory / QUESTION).read_text()), json.dumps
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _end_of_time)
    config, problems, set_by = (_run_file if "file" in question else _run_pieces)(question, directory)
    spawner = {**_spawner_class(config), "set_by": set_by}
    answer: dict[str, Any] = {"problems": problems, "spawner": spawner}
    try:
        answer["settings"] = encoded(_settings(config, spawner))
        answer["service"] = encoded(_settings_of_service(config))
    except _TooLarge:
        answer["settings"], answer["service"] = {}, {}
        answer["problems"] = [*problems, {"piece": "", "type": "", "message": "leaves too many settings", "line": 0}]
    (directory / ANSWER).write_text(as_json(answer))


def _end_of_time(*_: object) -> NoReturn:
    raise _TooLong


def _attempt(piece: str, code_file: str, seconds: float, work: Callable[[], object]) -> Iterator[dict[str, Any]]:
    """Do work within a time; the problem that ends it."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        work()
    except _TooLong:
        yield {"piece": piece, "type": "", "message": f"did not end within {seconds:g} seconds", "line": 0}
    except BaseException as error:  # SystemExit, too
        line = error.lineno or 0 if isinstance(error, SyntaxError) and error.filename == code_file else 0
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == code_file:
                line = frame.lineno or line
        message = str(error)[:_LONGEST_TEXT]
        yield {"piece": piece, "type": type(error).__name__, "message": message, "line": line}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


_Outcome = tuple[Config, list[dict[str, Any]], str]
"""The configuration, problems, and the piece that set the spawner class last."""


class _HubModule(types.ModuleType):
    """`dra_spawner.hub` with a ``setup`` that does not load JupyterHub, which takes seconds.

    Where no code looks at the spawner class, its name is as good as the class. Everything else is the real module's.
    """

    @staticmethod
    def install(code: Iterable[str]) -> None:
        if not any("spawner_class" in each for each in code):
            sys.modules["dra_spawner.hub"] = dra_spawner.hub = _HubModule("dra_spawner.hub")  # type: ignore[attr-defined]

    def setup(self, c: Config) -> None:
        chosen = _class_set(c)
        if chosen is None or chosen in KNOWN_CLASSES:
            c.JupyterHub.spawner_class = OUR_CLASS
        else:
            self.__getattr__("setup")(c)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # what the import itself looks for
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _run_file(question: Mapping[str, Any], directory: Path) -> _Outcome:
    """A ``jupyterhub_config.py``, as JupyterHub runs it."""
    path = Path(question["file"])
    _HubModule.install([path.read_text(errors="replace")])
    loader = PyFileConfigLoader(path.name, str(path.parent))
    loaded: list[Config] = []
    problems = list(_attempt("", str(path), question["seconds"], lambda: loaded.append(loader.load_config())))
    return (loaded[0] if loaded else Config()), problems, ""


def _run_pieces(question: Mapping[str, Any], directory: Path) -> _Outcome:
    """The pieces of Helm values in one namespace, as the chart's configuration file runs them."""
    config = Config()
    for section, settings in question["settings"].items():
        config[section].update(settings)
    config.JupyterHub.setdefault("spawner_class", CHART_CLASS)
    config.JupyterHub.setdefault("services", [])
    config.JupyterHub.setdefault("load_roles", [])
    os.environ.update(question["environment"])
    _lay_out(question["files"], directory)
    _HubModule.install(code for _, code in question["pieces"])
    chart = _chart_module(question["values"], question["names_prefix"])
    namespace = {
        "__name__": "__main__",
        "__file__": f"{_HUB_DIRECTORY}/jupyterhub_config.py",
        "c": config,
        "configuration_directory": _HUB_DIRECTORY,
        **{name: each for name, each in vars(chart).items() if not name.startswith("_")},
        **{each.__name__: each for each in (glob, os, re, sys)},
    }
    problems: list[dict[str, Any]] = []
    set_by = ""
    for piece, code in question["pieces"]:
        for name, (module, member) in _IMPORTED_BY_CHART.items():
            if name not in namespace and re.search(rf"\b{name}\b", code):
                with contextlib.suppress(Exception):
                    found = import_module(module)
                    namespace[name] = getattr(found, member) if member else found

        def work(piece: str = piece, code: str = code) -> None:
            exec(compile(code, piece, "exec"), namespace)  # noqa: S102 (the hub does)

        before = _class_set(config)
        problems += _attempt(piece, piece, question["seconds"], work)
        set_by = piece if _class_set(config) is not before else set_by
    return config, problems, set_by


def _class_set(config: Config) -> object:
    return config.get("JupyterHub", {}).get("spawner_class")


def _chart_module(values: Mapping[str, Any], prefix: str) -> types.ModuleType:
    """The module ``z2jh`` of the chart's hub, over these values. It is imported by pieces, and its names are theirs."""

    def get_config(key: str, default: object = None) -> Any:
        value: Any = values
        for level in key.split("."):
            if not isinstance(value, dict) or level not in value:
                return default
            value = value[level]
        return value

    def set_config_if_not_none(cparent: Any, name: str, key: str) -> None:
        if (value := get_config(key)) is not None:
            setattr(cparent, name, value)

    def get_name(name: str) -> str:
        return f"{prefix}{name}"

    def get_name_env(name: str, suffix: str = "") -> str:
        variable = f"{get_name(name)}{suffix}".upper().replace("-", "_")
        # Kubernetes sets these for the chart's services.
        return os.environ.get(variable, "8081" if suffix.endswith("PORT") else get_name(name))

    def get_secret_value(key: str, default: object = "never-explicitly-set") -> Any:
        made_by_chart = f"secret {key}" if default == "never-explicitly-set" else default
        return get_config(key, made_by_chart)

    module = types.ModuleType("z2jh")
    members = (get_config, get_name, get_name_env, get_secret_value, set_config_if_not_none)
    vars(module).update({each.__name__: each for each in members})
    sys.modules["z2jh"] = module
    return module


def _lay_out(files: Mapping[str, str], directory: Path) -> None:
    """Let code read and import files of ``hub.extraFiles`` where the hub has them."""
    root = directory / "files"
    known: dict[str, str] = {}
    for name, text in files.items():
        # Below the root, whatever the name says.
        place = os.path.normpath(f"/{name}").replace("//", "/")
        path = root / place.lstrip("/")
        with contextlib.suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            known[place] = str(path)
    sys.path.insert(0, str(root / _HUB_DIRECTORY.lstrip("/")))

    def redirected(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **more: Any) -> Any:
            if isinstance(path, str | os.PathLike):
                path = known.get(os.path.normpath(os.fspath(path)), path)
            return function(path, *arguments, **more)

        return call

    if known:
        io.open = builtins.open = redirected(open)
        os.stat = redirected(os.stat)


def _spawner_class(config: Config) -> dict[str, Any]:
    """The hub's spawner class: its name, whether it is a DRASpawner, and the classes that it is derived from."""
    chosen = _class_set(config)
    if chosen is None:
        return {"name": "", "is_ours": False, "bases": [], "problem": ""}
    if isinstance(chosen, str):
        if chosen in KNOWN_CLASSES:
            return {"name": chosen, "is_ours": KNOWN_CLASSES[chosen], "bases": [], "problem": ""}
        try:
            chosen = _imported(chosen)
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
            return {"name": chosen, "is_ours": None, "bases": [str(chosen).rpartition(".")[2]], "problem": problem}
    if not isinstance(chosen, type):
        return {"name": str(chosen)[:_LONGEST_TEXT], "is_ours": None, "bases": [], "problem": "is no class"}
    bases = [each.__name__ for each in reversed(chosen.__mro__)]
    is_ours = any(
        each.__module__.startswith("dra_spawner.") and each.__name__ == "DRASpawner" for each in chosen.__mro__
    )
    name = f"{chosen.__module__}.{chosen.__name__}".removeprefix("__main__.").removeprefix("builtins.")
    return {"name": name, "is_ours": is_ours, "bases": bases, "problem": ""}


def _imported(name: str) -> object:
    from importlib.metadata import entry_points

    for entry in entry_points(group="jupyterhub.spawners", name=name):
        return entry.load()
    module, _, member = name.rpartition(".")
    return getattr(import_module(module), member)


def _settings(config: Config, spawner: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by section, of the spawner's classes; ``+=``, ``append`` and ``update`` are applied to the default."""
    sections: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    for section in dict.fromkeys((*SECTIONS[:2], *spawner["bases"], SECTIONS[2])):
        for name, value in config.get(section, {}).items():
            plain = value.get_value(before.get(name, _default(name))) if isinstance(value, LazyConfigValue) else value
            sections.setdefault(section, {})[name] = before[name] = plain
    return sections


def _settings_of_service(config: Config) -> dict[str, Any]:
    """Settings in a configuration file of the service; empty in a hub's."""
    found: dict[str, Any] = {}
    for name, value in config.get(SERVICE_SECTION, {}).items():
        if isinstance(value, LazyConfigValue):
            # Imported here, as it loads the service.
            from dra_spawner.service.application import DRASpawnerService

            traits = DRASpawnerService.class_traits()
            value = value.get_value(traits[name].default() if name in traits else None)
        found[name] = value
    return found


def _default(name: str) -> Any:
    # Imported here, as it loads JupyterHub.
    from dra_spawner.spawner import DRASpawner

    traits = DRASpawner.class_traits()
    return traits[name].default() if name in traits else None


class _Encoder:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: Any, levels: int = _MAX_LEVELS) -> Any:
        self.count += 1
        if self.count > _MAX_VALUES or not levels:
            raise _TooLarge
        if value is None or type(value) in (bool, str, float) or (type(value) is int and value.bit_length() < 1_000):
            return value
        if isinstance(value, list | tuple):
            return [self(each, levels - 1) for each in value]
        if isinstance(value, dict):
            if all(type(key) is str and key != OBJECT for key in value):
                return {key: self(each, levels - 1) for key, each in value.items()}
            return {OBJECT: [[self(key, levels - 1), self(each, levels - 1)] for key, each in value.items()]}
        return {OBJECT: {"text": _text(value), "is_callable": callable(value)}}


def _text(value: object) -> str:
    try:
        return repr(value)[:_LONGEST_TEXT]
    except Exception:
        return f"<{type(value).__name__}>"


def encoded(value: Any) -> Any:
    """A value as JSON; what JSON lacks is a mapping with the key `OBJECT`.

    Raises
    ------
    _TooLarge
        If it has too many values or levels.
    """
    return _Encoder()(value)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
