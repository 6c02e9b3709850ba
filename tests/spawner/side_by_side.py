"""One configuration with KubeSpawner and with DRASpawner: what each makes of it before the first request to a cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from kubespawner.objects import make_owner_reference
from tornado import web
from traitlets import HasTraits
from traitlets.config import Config

from dra_spawner.spawner import DRASpawner
from tests.spawner.hub_patterns import Pattern, PatternHub
from tests.spawner.hub_side import HubSide

__all__ = ["controls", "differences", "error_text", "overridden", "prepared", "spawner_of", "traced"]

#: Traits whose values differ by design: options of profiles are applied later, and each view of the form is rendered.
_OTHER_TRAITS: Final = ("apply_user_options", "options_form")
#: Attributes of a class that Python and traitlets make by themselves.
_MADE: Final = {*vars(HasTraits), "_abc_impl"}
_AUTH_STATE: Final = {"access_token": "of-ada"}


def overridden(base: type = KubeSpawner) -> dict[str, Any]:
    """Methods, properties, traits and defaults of a base class that DRASpawner replaces, by name; a default by ``default:NAME``."""
    found: dict[str, Any] = {}
    for cls in DRASpawner.__mro__[: DRASpawner.__mro__.index(base)]:
        for name, value in vars(cls).items():
            if trait := getattr(value, "trait_name", ""):
                found.setdefault(f"default:{trait}", value)
            elif name == "__init__" or (hasattr(base, name) and not name.startswith("__") and name not in _MADE):
                found.setdefault(name, value)
    return found


def traced(base: type, called: set[str]) -> type:
    """A class whose methods that replace KubeSpawner's note that they are called."""
    if not issubclass(base, DRASpawner):
        return base

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return function(*args, **kwargs)

        return method

    parts: dict[str, Any] = {}
    for name, value in overridden().items():
        if inspect.isfunction(value):
            parts[name] = noting(name, value)
        elif isinstance(value, property):
            setter = noting(name, value.fset) if value.fset else None
            parts[name] = property(noting(name, value.fget), setter)  # type: ignore[arg-type]
    return type(base.__name__, (base,), {**parts, "__module__": base.__module__})


def without_requests(base: type) -> type:
    """A class whose start makes the objects of a server, and requests none."""

    class Spawner(base):
        made: dict[str, Any]

        async def _start(self) -> str:
            await self.load_user_options()
            pod = await self.get_pod_manifest()
            if self.modify_pod_hook:
                pod = await maybe_future(self.modify_pod_hook(self, pod))
            owner = make_owner_reference(self.pod_name, "uid")
            self.made = {
                "pod": pod,
                "pvc": self.get_pvc_manifest() if self.storage_pvc_ensure else None,
                "secret": self.get_secret_manifest(owner) if self.internal_ssl else None,
                "service": self.get_service_manifest(owner, self.port) if self.services_enabled else None,
            }
            return f"http://{self.pod_name}"

    # A class of the hub's own would be another configuration.
    Spawner.__name__, Spawner.__module__ = base.__name__, base.__module__
    return Spawner


def spawner_of(
    side: HubSide, pattern: Pattern, base: type, directory: Path, calls: list[str], more: Mapping[str, Any]
) -> Any:
    """The user's spawner in a hub with a pattern's configuration.

    Parameters
    ----------
    calls
        Gets the names of hooks that are called.
    more
        Traits that the hub has in any case.
    """
    side.config = Config({"KubeSpawner": {"image": "example/notebook:1", **more}})
    side.spawner_class = pattern.configure(PatternHub(side.config, base, calls.append, directory)) or base
    return side.spawner(side.user(pattern.user, *pattern.groups), pattern.server)


async def prepared(side: HubSide, pattern: Pattern, base: type, directory: Path) -> dict[str, Any]:
    """What a hub does of one start up to the first request: form, options, hooks, objects, traits and state."""
    calls: list[str] = []
    spawner = spawner_of(side, pattern, without_requests(base), directory, calls, {"namespace": "jupyterhub"})
    spawner.api_token = "token"
    found: dict[str, Any] = {"calls": calls}
    if pattern.internal_ssl:
        spawner.internal_ssl, spawner.services_enabled = True, True
        files = {name: str(directory / name) for name in ("keyfile", "certfile", "cafile", "hub-ca")}
        for name, path in files.items():
            Path(path).write_text(name)
        spawner.cert_paths, spawner.internal_trust_bundles = files, files
    spawner.user_options = dict(pattern.saved)
    found["form"] = await _outcome(spawner.get_options_form())
    options = pattern.options
    if pattern.form is not None:
        options = await _outcome(spawner.run_options_from_form, dict(pattern.form))
        found["options"] = options
    spawner.user_options = {} if options is None else options
    spawner.clear_state()
    found["start"] = await _outcome(_start(spawner))
    found["traits"] = {
        name: _plain(getattr(spawner, name))
        for name in sorted(KubeSpawner.class_traits(config=True))
        if name not in _OTHER_TRAITS
    }
    plain = spawner.api.api_client.sanitize_for_serialization
    found |= {name: plain(value) for name, value in getattr(spawner, "made", {}).items()}
    found["state"] = spawner.get_state()
    spawner.load_state(found["state"])
    found["state again"] = spawner.get_state()
    spawner.clear_state()
    found["state after"] = spawner.get_state()
    return found


async def _start(spawner: Any) -> str:
    """Call the hooks of a start in JupyterHub's order (``User.spawn``)."""
    await spawner.run_auth_state_hook(_AUTH_STATE)
    await spawner.apply_group_overrides()
    await spawner._run_apply_user_options(spawner.user_options)
    await maybe_future(spawner.run_pre_spawn_hook())
    return str(await maybe_future(spawner.start()))


async def _outcome(work: Any, *arguments: Any) -> Any:
    """The result, or the text of the error."""
    try:
        found = work(*arguments) if callable(work) else work
        return await maybe_future(found)
    except Exception as error:
        return error_text(error)


def error_text(error: BaseException) -> str:
    """What a user sees of an error: status and sentence; other errors by type."""
    if isinstance(error, web.HTTPError):
        return f"{error.status_code} {getattr(error, 'jupyterhub_message', '') or error.log_message}"
    return f"500 {type(error).__name__}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, (str, int, float)) else "code"


class _Controls(HTMLParser):
    """Fields of a form with their values, and its visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._hidden += tag in ("style", "script", "legend")
        if tag in ("input", "select", "option"):
            kept = ("type", "name", "data-name", "value", "pattern", "title", "checked", "selected")
            self.found.append(
                (
                    tag,
                    {
                        name: given[name] or ""
                        for name in kept
                        if given.get(name) or (name in ("checked", "selected") and name in given)
                    },
                )
            )

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script", "legend")

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._hidden:
            self.found.append(" ".join(data.split()))


def controls(form: str) -> list[Any]:
    """What a user sees of a form, and what a browser sends; markup, style and script are left out."""
    parser = _Controls()
    parser.feed(form)
    return parser.found


def differences(by_design: Mapping[str, str], kube: Mapping[str, Any], dra: Mapping[str, Any]) -> list[str]:
    """Parts of two outcomes that are not equal, or that are equal although they differ by design.

    Parameters
    ----------
    by_design
        Why parts differ, by their names.
    """
    found = []
    for part in sorted({*kube, *dra}):
        expected, got = kube.get(part), dra.get(part)
        if part == "form" and expected != got:
            expected, got = controls(str(expected)), controls(str(got))
        if part in by_design:
            if expected == got:
                found.append(f"{part} does not differ: {by_design[part]}")
        elif expected != got:
            found.append(f"{part}: KubeSpawner has {_shown(expected, got)}, DRASpawner {_shown(got, expected)}")
    return found


def _shown(value: Any, other: Any) -> Any:
    """The part of a value that another one has not."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {key: _shown(each, other.get(key)) for key, each in value.items() if each != other.get(key, ...)}
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [_shown(each, that) for each, that in zip(value, other, strict=True) if each != that]
    return value
