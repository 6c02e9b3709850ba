"""Code of a hub's own around the spawner works as with KubeSpawner: its forms, options, errors, classes and users."""

from __future__ import annotations

import re
from logging import getLogger
from types import SimpleNamespace

import pytest
from aiohttp import ClientError
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from tornado.web import HTTPError
from traitlets import default
from traitlets.config import Config

from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.spawn_refusal import (
    ErrorInHubCode,
    OptionsRefused,
    SpawnRefused,
    UnexpectedFailure,
    refusal_of_error,
)
from tests.all_of_them import all_of_them

CPU = {"display_name": "CPU", "slug": "cpu", "default": True, "kubespawner_override": {"cpu_limit": 1}}
GPU = {
    "display_name": "GPU",
    "slug": "gpu",
    "kubespawner_override": {"extra_resource_limits": {"example.com/gpu": "1"}},
    "profile_options": {"size": {"display_name": "Size", "choices": {"s": {}, "l": {}}}},
}


def spawner_of(hub, kind=DRASpawner, **config):
    """The spawner of a user of a hub with this class and configuration."""
    hub.spawner_class = kind
    hub.config.DRASpawner.pop("profile_list", None)
    for name in ("options_form", "options_from_form", "apply_user_options", "profile_form_template"):
        hub.config.DRASpawner.pop(name, None)
    for name, value in config.items():
        hub.config.DRASpawner[name] = value
    return hub.user("ada").spawner


async def started_with(spawner, options):
    """Load the options of a start as JupyterHub gives them."""
    spawner.user_options = options
    spawner.clear_state()
    await spawner.load_user_options()
    return spawner


# Forms


def per_user(spawner):
    spawner.profile_list = [CPU, *([GPU] if spawner.user.name == "ada" else [])]
    return spawner._options_form_default()


async def per_user_later(spawner):
    return per_user(spawner)


def list_from_a_function(spawner):
    spawner.profile_list = lambda spawner: [CPU, GPU]
    return spawner._options_form_default()


async def list_from_a_coroutine(spawner):
    async def profiles(spawner):
        return [CPU, GPU]

    spawner.profile_list = profiles
    return spawner._options_form_default()


async def rendered(spawner):
    return spawner._render_options_form([CPU, GPU])


class AddsText(DRASpawner):
    def _options_form_default(self):
        form = super()._options_form_default()
        return form if callable(form) else form.replace("<fieldset", "<b>Ours</b><fieldset") + "<!-- end -->"


class NamesItsDefault(DRASpawner):
    @default("options_form")
    def _own_default(self):
        return self._options_form_default()


@all_of_them(
    "kind, config",
    {
        "function": (DRASpawner, {"options_form": per_user}),
        "coroutine": (DRASpawner, {"options_form": per_user_later}),
        "function, list from a function": (DRASpawner, {"options_form": list_from_a_function}),
        "coroutine, list from a coroutine": (DRASpawner, {"options_form": list_from_a_coroutine}),
        "coroutine that renders a list": (DRASpawner, {"options_form": rendered}),
        "class that adds text": (AddsText, {"profile_list": [CPU, GPU]}),
        "class that adds text, list from a function": (AddsText, {"profile_list": lambda spawner: [CPU, GPU]}),
        "class with a default of its own": (NamesItsDefault, {"profile_list": [CPU, GPU]}),
    },
)
async def test_a_form_made_by_code_of_the_hub_shows_profiles(nowhere, kind, config):
    spawner = spawner_of(nowhere, kind, **config)
    _ = spawner.options_form  # JupyterHub's pages read it before the form is shown
    for chosen in ("cpu", "gpu"):
        spawner.user_options = {"profile": chosen}
        form = await spawner.get_options_form()
        assert isinstance(form, str)
        assert "bound method" not in form
        assert re.findall(r'name="profile"[^>]*value="(\w+)"', form) == ["cpu", "gpu"]
        assert re.findall(r'value="(\w+)"[^>]*checked', form) == [chosen], "rendered for this view of the page"
        assert form.endswith("<!-- end -->") == (kind is AddsText and not callable(config["profile_list"]))


class HasText(DRASpawner):
    options_form = "<input name=energy>"

    def options_from_form(self, formdata):
        return {"energy": formdata["energy"][0], "bounds": [-1, 1]}


async def test_a_form_of_the_hub_stays_as_it_is(nowhere):
    spawner = spawner_of(nowhere, HasText)
    assert await spawner.get_options_form() == HasText.options_form
    options = spawner.run_options_from_form({"energy": ["511keV"]})
    assert (await started_with(spawner, options)).user_options == {"energy": "511keV", "bounds": [-1, 1]}
    for form in ("", "<input name=image>"):
        assert await spawner_of(nowhere, options_form=form, profile_list=[CPU]).get_options_form() == form
    spawner = spawner_of(nowhere, profile_list=[CPU])
    spawner.options_form = "<b>set later</b>"
    assert await spawner.get_options_form() == "<b>set later</b>"
    spawner = spawner_of(nowhere, profile_list=lambda spawner: None)
    assert isinstance(await spawner.get_options_form(), str)


# Options

BUILT = {"image": "registry.example.org/a:1", "repo_url": "https://git.example.org/a", "launch": {"request": [1, None]}}


class MoreFields(DRASpawner):
    def options_from_form(self, formdata):
        return {**self._options_from_form(formdata), **{name: formdata[name][0] for name in ("project", "tasks")}}


class ReadsOptions(DRASpawner):
    def start(self):
        self.image = self.user_options["image"]
        return super().start()


def own_options(formdata):
    return {"profile": formdata["profile"][0], "course": formdata["course"][0]}


async def apply(spawner, options):
    spawner.environment = {"COURSE": options.get("course", "")}


#: Of JupyterHub 5.3.
BY_NEWER_SETTINGS = {
    "options_from_form by name": (DRASpawner, {"profile_list": [CPU], "options_from_form": "simple"}, {"c": "a"}),
    "apply_user_options": (DRASpawner, {"profile_list": [CPU], "apply_user_options": apply}, {"course": "a"}),
}
if not DRASpawner.class_traits().get("apply_user_options"):
    BY_NEWER_SETTINGS.clear()


@all_of_them(
    "kind, config, options",
    {
        "no profiles": (DRASpawner, {}, BUILT),
        "no profiles, but one is asked for": (DRASpawner, {}, {"profile": "gpu", "size": "xl"}),
        "no profiles, and another meaning": (DRASpawner, {}, {"profile": {"name": "x"}}),
        "no profiles for this user": (DRASpawner, {"profile_list": lambda spawner: []}, {"profile": "gpu"}),
        "no list for this user": (DRASpawner, {"profile_list": lambda spawner: None}, {}),
        "class": (ReadsOptions, {"profile_list": [CPU, GPU]}, {"profile": "cpu", **BUILT}),
        "fields left empty": (
            ReadsOptions,
            {"profile_list": [CPU, GPU]},
            {"profile": None, "size": "", "image": "a:1"},
        ),
        "options_from_form": (DRASpawner, {"profile_list": [CPU], "options_from_form": own_options}, {"course": "a"}),
        **BY_NEWER_SETTINGS,
    },
)
async def test_options_that_code_of_the_hub_reads_are_let_through(nowhere, kind, config, options):
    spawner = await started_with(spawner_of(nowhere, kind, **config), options)
    await spawner.get_pod_manifest()
    assert spawner.user_options == options


async def test_fields_that_a_class_adds_become_options_beside_a_profile(nowhere):
    spawner = spawner_of(nowhere, MoreFields, profile_list=[CPU, GPU])
    fields = {"profile": ["gpu"], "profile-option-gpu--size": ["l"], "project": ["p1"], "tasks": ["t"], "extra": ["x"]}
    options = spawner.run_options_from_form(fields)
    assert options == {"profile": "gpu", "size": "l", "project": "p1", "tasks": "t"}
    assert (await started_with(spawner, options)).extra_resource_limits == {"example.com/gpu": "1"}
    with pytest.raises(OptionsRefused, match="option size has no choice 'xl'"):
        await started_with(spawner, {**options, "size": "xl"})


@all_of_them(
    "config",
    {
        "form": {"profile_list": [CPU, GPU], "options_form": per_user},
        "template": {
            "profile_list": [CPU, GPU],
            "profile_form_template": '<input name="profile"><input name="course">',
        },
        "no profiles": {"options_form": '<input name="course">'},
    },
)
async def test_other_fields_of_a_form_of_the_hub_are_passed_over(nowhere, config):
    spawner = spawner_of(nowhere, **config)
    assert spawner.run_options_from_form({"profile": ["cpu"], "course": ["a"]}) == {"profile": "cpu"}


async def test_a_refused_name_is_logged_with_the_setting_that_accepts_it(nowhere, caplog):
    spawner = spawner_of(nowhere, profile_list=[CPU, GPU])
    with pytest.raises(OptionsRefused, match="profile gpu has no option 'course'; there are: size"):
        await started_with(spawner, {"profile": "gpu", "course": "a"})
    assert "'course'" in caplog.text
    assert "add its name to c.DRASpawner.other_user_options" in caplog.text
    caplog.clear()
    with pytest.raises(OptionsRefused, match="there is no field 'course'"):
        spawner.run_options_from_form({"profile": ["gpu"], "course": ["a"]})
    assert "c.DRASpawner.other_user_options" in caplog.text
    caplog.clear()
    with pytest.raises(OptionsRefused, match="no choice"):
        await started_with(spawner, {"profile": "gpu", "size": "xl"})
    assert "other_user_options" not in caplog.text
    nowhere.spawner_config.other_user_options = ["course"]
    await started_with(nowhere.user("bob").spawner, {"profile": "gpu", "course": "a"})


# Profiles that have changed since the last start


@all_of_them(
    "stored, sentence",
    [
        ({"profile": "gone"}, "there is no profile 'gone'; there are: cpu, gpu. Please choose again."),
        (
            {"profile": "gpus"},
            "there is no profile 'gpus'; did you mean gpu? There are: cpu, gpu. Please choose again.",
        ),
        ({"profile": "gpu", "size": "xl"}, "option size has no choice 'xl'; there are: s, l. Please choose again."),
        (
            {"profile": "gpu", "memory": "5Gi"},
            "profile gpu has no option 'memory'; there are: size. Please choose again.",
        ),
        (["gpu"], "the options of a server must be a JSON object. Please choose again."),
    ],
)
async def test_stored_options_that_no_profile_has_let_the_user_choose_again(nowhere, caplog, stored, sentence):
    template = "{% for p in profile_list %}{{ p.slug }}={{ (user_options or {}).get('profile', 'none') }} {% endfor %}"
    for config in ({}, {"profile_form_template": template}):
        spawner = spawner_of(nowhere, profile_list=[CPU, GPU], **config)
        spawner.user_options = stored
        form = await spawner.get_options_form()
        assert (form == "cpu=none gpu=none ") if config else re.findall(r'value="(\w+)"[^>]*checked', form) == ["cpu"]
        assert spawner.user_options == stored
        assert "An option is refused" not in caplog.text, "nothing is refused yet"
        with pytest.raises(OptionsRefused) as caught:
            await started_with(spawner, stored)
        assert caught.value.status_code == 400
        assert caught.value.jupyterhub_message == f"Cannot start with these options: {sentence}"
        await started_with(spawner, spawner.run_options_from_form({"profile": ["gpu"]}))
        await started_with(spawner, {})
        assert spawner.cpu_limit == 1, "the default profile"
        caplog.clear()
    if isinstance(stored, dict):
        await started_with(spawner_of(nowhere), stored)  # there are no profiles any more, and so no form


# Errors


class TellsUsers(Exception):
    jupyterhub_message = "The licence server is away until noon."


def raises(error):
    def function(*_):
        raise error

    return function


async def raised_by(spawner):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        await spawner.start()
    return caught.value


@all_of_them(
    "config_of",
    {
        "profile_list": lambda function: {"profile_list": function},
        "override": lambda function: {"profile_list": [{**CPU, "kubespawner_override": {"uid": function}}]},
    },
)
async def test_errors_of_functions_of_the_hub(nowhere, caplog, config_of):
    refused = HTTPError(403, "course %s", "DRA-101", reason="Ask your teacher")
    vars(refused)["jupyterhub_message"] = "Ask your teacher to add you."
    error: Exception
    for error in (refused, HTTPError(429), TellsUsers("the log reads this")):
        before = dict(vars(error))
        assert await raised_by(spawner_of(nowhere, **config_of(raises(error)))) is error
        assert {name: value for name, value in vars(error).items() if name != "__notes__"} == before
    for error in (RuntimeError("password=hunter2"), KeyError("hunter2"), TimeoutError("hunter2")):
        caplog.clear()
        shown = await raised_by(spawner_of(nowhere, **config_of(raises(error))))
        assert "hunter2" not in f"{shown} {shown.jupyterhub_message} {shown.reason}"
        assert shown.status_code >= 500
        assert "hunter2" in caplog.text


async def test_an_error_of_a_function_for_the_pod_is_not_taken_for_one_of_the_cluster(nowhere, caplog):
    error: Exception
    for error in (TimeoutError("hunter2"), ClientError("hunter2"), ApiException(409, "hunter2")):
        caplog.clear()
        spawner = await started_with(spawner_of(nowhere, uid=raises(error)), {})
        with pytest.raises(ErrorInHubCode, match="because of an error in this hub"):
            await spawner.get_pod_manifest()
        assert "hunter2" in caplog.text
    for error in (HTTPError(403), ValueError("KubeSpawner's")):
        spawner = await started_with(spawner_of(nowhere, uid=raises(error)), {})
        with pytest.raises(type(error)) as caught:
            await spawner.get_pod_manifest()
        assert caught.value is error


async def test_an_http_error_of_a_form_passes(nowhere):
    error = HTTPError(403, "Ask your teacher")
    for config in ({"options_form": raises(error)}, {"profile_list": raises(error)}):
        with pytest.raises(HTTPError) as caught:
            await spawner_of(nowhere, **config).get_options_form()
        assert caught.value is error


# Users


class NameOnly:
    """A user as tests of spawners make them up: what no profile needs is not read."""

    name, id, url = "ada", 7, "/user/ada/"
    asked: tuple[str, ...] = ()

    def __getattr__(self, name):
        if name in ("admin", "groups", "settings"):
            self.asked = (*self.asked, name)
            return {"admin": True, "groups": [SimpleNamespace(name="physics")]}[name]
        raise AttributeError(name)


@all_of_them(
    "claims, asked",
    [
        ({}, ()),
        ({"gpu": {"device_class": "gpu.example.com"}}, ()),
        ({"gpu": {"device_class": "gpu.example.com", "shared": {"by": "user"}}}, ()),
        ({"gpu": {"device_class": "gpu.example.com", "shared": {"by": "everybody"}}}, ()),
        (
            {"gpu": {"device_class": "gpu.example.com", "shared": {"by": "group", "group": "physics"}}},
            ("groups", "groups"),
        ),
        ({"gpu": {"device_class": "gpu.example.com", "admin_access": True}}, ("admin",)),
    ],
)
async def test_of_a_user_only_what_a_claim_asks_for_is_read(nowhere, claims, asked):
    nowhere.config.DRASpawner.profile_list = [{**CPU, "kubespawner_override": {"device_claims": claims}}]
    user = NameOnly()
    for more in ({"user": user}, {}) if not asked else ({"user": user},):
        spawner = DRASpawner(config=Config(nowhere.config), _mock=True, **more)
        spawner.get_env = dict
        await started_with(spawner, {"profile": "cpu"})
        pod = ApiClient().sanitize_for_serialization(await spawner.get_pod_manifest())
        assert len(pod["spec"].get("resourceClaims") or ()) == len(claims)
        assert "cpu" in await spawner.get_options_form()
    assert user.asked == asked


def test_an_unexpected_error_of_a_start_is_told_by_the_log_alone(caplog):
    error = refusal_of_error(RuntimeError("password=hunter2"), "", None, getLogger("hub"))
    assert isinstance(error, UnexpectedFailure)
    assert not isinstance(error, SpawnRefused), "it counts as a failure of the hub"
    assert (error.status_code, "hunter2" in f"{error} {error.jupyterhub_message}") == (500, False)
    assert "hunter2" in caplog.text
    for passed in (HTTPError(403), TellsUsers("x"), KeyboardInterrupt()):
        assert refusal_of_error(passed, "", None, getLogger("hub")) is passed
