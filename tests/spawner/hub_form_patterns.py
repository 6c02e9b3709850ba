"""More configurations in the patterns of public hubs: profiles, forms, and spawner classes of the hub's own."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from jupyterhub_fancy_profiles import setup_ui  # type: ignore[import-untyped]
from kubespawner import KubeSpawner
from tornado import web
from traitlets import List, Unicode

from tests.spawner.hub_patterns import PatternHub, pattern

# --- Profiles and forms -----------------------------------------------------------------------------------------

IMAGES: Final = {
    "minimal": {"display_name": "Minimal", "default": True, "kubespawner_override": {"image": "minimal:1"}},
    "data": {
        "display_name": "Data <b>science</b>",
        "kubespawner_override": {"image": "data:1", "environment": {"D": "1"}},
    },
}


def two_profiles() -> list[dict[str, Any]]:
    free_text = {
        "enabled": True,
        "display_name": "Other image",
        "display_name_in_choices": "Another…",
        "validation_regex": "^example/.+:.+$",
        "validation_message": "A name and a tag",
        "kubespawner_override": {"image": "{value}", "extra_labels": {"custom": "true"}},
    }
    return [
        {
            "display_name": "Small",
            "description": "For <em>all</em>",
            "kubespawner_override": {"cpu_limit": 1, "mem_limit": "1G"},
        },
        {
            "display_name": "Large machine",
            "slug": "large",
            "default": True,
            "profile_options": {
                "image": {"display_name": "Image", "choices": IMAGES, "unlisted_choice": free_text},
                "memory": {
                    "display_name": "Memory",
                    "choices": {
                        "4": {
                            "display_name": "4 GB",
                            "kubespawner_override": {"mem_guarantee": "4G", "mem_limit": "4G"},
                        },
                        "8": {
                            "display_name": "8 GB",
                            "kubespawner_override": {"mem_guarantee": "8G", "mem_limit": "8G"},
                        },
                    },
                },
            },
            "kubespawner_override": {"node_selector": {"pool": "large"}, "start_timeout": 600},
        },
    ]


@pattern(form={"profile": ["small"]})
def profiles_by_form(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(options={})
def profiles_by_default(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(form={"profile": ["large"], "profile-option-large--image": ["data"], "profile-option-large--memory": ["8"]})
def choices_by_form(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(form={"profile": ["large"], "profile-option-large--image--unlisted-choice": ["example/own:2"]})
def free_text_by_form(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(options={"profile": "large", "image--unlisted-choice": "elsewhere/x:1"}, differs={"start": "a sentence, 400"})
def free_text_that_is_refused(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(options={"profile": "none"}, differs={"start": "a sentence, 400"})
def a_profile_that_does_not_exist(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(options={"profile": "small"}, saved={"profile": "small"})
def a_saved_profile(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()


@pattern(options={"profile": "small"})
def profiles_in_a_dictionary(hub: PatternHub) -> None:
    large, small = two_profiles()[::-1]
    hub.c.KubeSpawner.profile_list = {"20-small": small, "10-large": large}


@pattern(form={"profile": ["small"]})
def profiles_from_a_function(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = lambda spawner: two_profiles()[
        : 1 if spawner.user.name.startswith("profiles") else 2
    ]


@pattern(form={"profile": ["large"], "profile-option-large--memory": ["4"]}, groups=("org:team-a",))
def profiles_of_groups(hub: PatternHub) -> None:
    async def allowed(spawner: Any) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        groups = {group.name for group in spawner.user.groups}
        profiles = [{**profile, "allowed_groups": ["org:team-a"]} for profile in two_profiles()]
        found = [each for each in profiles if groups & set(each.pop("allowed_groups"))]
        if not found:
            raise web.HTTPError(403, "Your groups have no profile here.")
        return found

    hub.c.KubeSpawner.profile_list = allowed


@pattern(options={"profile": "small"})
def a_function_that_refuses(hub: PatternHub) -> None:
    def profiles(spawner: Any) -> list[dict[str, Any]]:
        raise web.HTTPError(403, "Ask your teacher to add you to the course.")

    hub.c.KubeSpawner.profile_list = profiles


@pattern(options={"profile": "all"})
def a_profile_that_overrides_everything(hub: PatternHub) -> None:
    k = hub.c.KubeSpawner
    k.environment, k.extra_labels = {"GONE": "1", "KEPT": "1"}, {"kept": "yes"}
    k.volumes, k.node_selector = [{"name": "before", "emptyDir": {}}], {"pool": "before"}
    override = {
        "image": "all:1", "cmd": ["start"], "args": ["--x"], "uid": lambda spawner: 7, "gid": 8, "fs_gid": 9,
        "supplemental_gids": [3], "privileged": True, "environment": {"GONE": None, "NEW": "{username}"},
        "extra_labels": {"new": "{username}"}, "extra_annotations": {"n": "1"}, "node_selector": {"disk": "ssd"},
        "volumes": [{"name": "own", "emptyDir": {}}], "volume_mounts": [{"name": "own", "mountPath": "/own"}],
        "tolerations": [{"operator": "Exists"}], "cpu_limit": 2, "cpu_guarantee": 1, "mem_limit": "2G", "mem_guarantee": "1G",
        "extra_resource_limits": {"amd.com/gpu": 1}, "extra_resource_guarantees": {"amd.com/gpu": 1},
        "lifecycle_hooks": {"preStop": {"exec": {"command": ["true"]}}}, "init_containers": [{"name": "i", "image": "i"}],
        "extra_containers": [{"name": "e", "image": "e"}], "extra_pod_config": {"hostNetwork": True},
        "extra_container_config": {"stdin": True}, "scheduler_name": "s", "priority_class_name": "p", "service_account": "sa",
        "image_pull_policy": "Always", "image_pull_secrets": ["one"], "default_url": "/tree", "http_timeout": 77,
        "start_timeout": 99, "working_dir": "/w", "allow_privilege_escalation": True, "port": 9999,
        "node_affinity_required": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
        "pod_affinity_required": [{"topologyKey": "zone"}], "pod_security_context": {"fsGroup": 5}, "own_attribute": 1,
        "container_security_context": {"runAsUser": 6}, "automount_service_account_token": True, "notebook_dir": "/n",
    }  # fmt: skip
    k.profile_list = [{"display_name": "All", "slug": "all", "kubespawner_override": override}]


@pattern(form={"profile": ["large"]})
def a_form_template_of_the_hub(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()
    hub.c.KubeSpawner.profile_form_template = (
        "{% for p in profile_list %}<a data-slug='{{ p.slug }}'>{{ p.display_name }} {{ p | tojson }}</a>{% endfor %}"
        "{{ user_options | tojson }}"
    )


@pattern(options={"profile": "small"})
def form_templates_in_a_directory(hub: PatternHub) -> None:
    (hub.directory / "form.html").write_text("<h1>Own</h1>{% for p in profile_list %}<i>{{ p.slug }}</i>{% endfor %}")
    hub.c.KubeSpawner.profile_list = lambda spawner: two_profiles()
    hub.c.KubeSpawner.additional_profile_form_template_paths = [str(hub.directory)]


@pattern(form={"profile": ["large"], "profile-option-large--image": ["unlisted_choice"], "profile-option-large--image--unlisted-choice": ["example/own:2"]})  # fmt: skip
def fancy_profiles(hub: PatternHub) -> None:
    hub.c.KubeSpawner.profile_list = two_profiles()
    hub.c.JupyterHub.extra_handlers = []
    setup_ui(hub.c)


@pattern()
def a_form_per_user(hub: PatternHub) -> None:
    async def options_form(spawner: Any) -> Any:
        hub.call("options_form")
        spawner.profile_list = two_profiles()[:1]
        if spawner.user.name.startswith("a-form"):
            spawner.profile_list.append({"display_name": "For few", "slug": "few"})
        return spawner._options_form_default()

    hub.c.KubeSpawner.options_form = options_form


@pattern(form={"image": ["a:1"], "gpu_id": ["0,1"], "cpu_limit": ["2"]})
def a_form_of_the_hub(hub: PatternHub) -> None:
    def options(formdata: dict[str, list[str]]) -> dict[str, Any]:
        hub.call("options_from_form")
        return {"image": formdata["image"][0], "gpus": {"amd.com/gpu": "1"}, "cpu": float(formdata["cpu_limit"][0])}

    async def apply(spawner: Any) -> None:
        hub.call("pre_spawn_hook")
        chosen = spawner.user_options
        spawner.image, spawner.extra_resource_limits = chosen["image"], chosen["gpus"]
        spawner.cpu_limit = chosen["cpu"]

    hub.c.Spawner.options_form = lambda spawner: (
        "<select name='image'><option>a:1</option></select><input name='gpu_id'>"
    )
    hub.c.Spawner.options_from_form = options
    hub.c.KubeSpawner.pre_spawn_hook = apply


@pattern(options={"image": "other:1", "memory": "3G"})
def options_applied_by_a_dictionary(hub: PatternHub) -> None:
    hub.c.Spawner.options_form = "<input name='image'>"
    hub.c.Spawner.apply_user_options = {"image": "image", "memory": "mem_limit"}


@pattern(options={"profile": "large", "memory": "8", "course": "b"})
def options_applied_by_a_function(hub: PatternHub) -> None:
    async def apply(spawner: Any, options: dict[str, Any]) -> None:
        hub.call("apply_user_options")
        spawner.environment = {**spawner.environment, "COURSE": options["course"]}

    hub.c.KubeSpawner.profile_list = two_profiles()
    hub.c.Spawner.apply_user_options = apply
    hub.c.DRASpawner.other_user_options = ["course"]


# --- Classes of hubs --------------------------------------------------------------------------------------------


@pattern(
    options={"image": "registry/r2d-abc:1", "token": "t", "repo_url": "https://git/a/b", "binder_request": "v2/gh/a/b"}
)
def binder_mixin(hub: PatternHub) -> type:
    class BinderMixin:
        def get_args(self: Any) -> list[str]:
            return [f"--ServerApp.token={self.user_options['token']}", *super().get_args()]  # type: ignore[misc]

        def start(self: Any) -> Any:
            hub.call("start")
            self.image = self.user_options["image"]
            return super().start()  # type: ignore[misc]

        def get_env(self: Any) -> dict[str, str]:
            return {**super().get_env(), "BINDER_REPO_URL": self.user_options["repo_url"]}  # type: ignore[misc]

    return type("BinderSpawner", (BinderMixin, hub.base), {})


@pattern(groups=("course::physics",), options={})
def attributes_by_group(hub: PatternHub) -> type:
    class CourseSpawner(hub.base):  # type: ignore[name-defined]
        admin_mounts = List(config=True)
        course = Unicode("none", config=True)

        async def start(self: Any) -> Any:
            hub.call("start")
            for group in sorted(each.name for each in self.user.groups):
                self.course = group.partition("::")[2]
                self.volume_mounts = [*self.volume_mounts, *self.admin_mounts]
                self.mem_limit = "5G"
            return await super().start()

        async def stop(self, now: bool = False) -> None:
            hub.call("stop")
            await super().stop(now)

    hub.c.CourseSpawner.admin_mounts = [{"name": "home", "mountPath": "/home/rw"}]
    hub.c.CourseSpawner.volumes = [{"name": "home", "emptyDir": {}}]
    hub.c.KubeSpawner.volumes = [{"name": "lost", "emptyDir": {}}]
    return CourseSpawner


@pattern(form={"profile": ["small"], "projects": ["ID1"], "tasks": ["t"]})
def a_class_with_more_fields(hub: PatternHub) -> type:
    class FormSpawner(hub.base):  # type: ignore[name-defined]
        def options_from_form(self, formdata: dict[str, list[str]]) -> dict[str, Any]:
            options = self._options_from_form(formdata)
            return {**options, **{name: formdata[name][0] for name in ("projects", "tasks") if name in formdata}}

        async def load_user_options(self) -> None:
            hub.call("load_user_options")
            await super().load_user_options()
            self.extra_annotations = {"projects": self.user_options.get("projects", "")}

    hub.c.KubeSpawner.profile_list = two_profiles()
    return FormSpawner


@pattern(options={})
def a_class_that_changes_manifests(hub: PatternHub) -> type:
    class PodSpawner(hub.base):  # type: ignore[name-defined]
        async def get_pod_manifest(self) -> Any:
            hub.call("get_pod_manifest")
            pod = await super().get_pod_manifest()
            pod.metadata.labels["owner"] = "team"
            pod.spec.containers[0].args = ["own"]
            return pod

        def get_env(self) -> dict[str, str]:
            return {**super().get_env(), "OWN": self.pod_name}

        def _expand_user_properties(self, template: str, slug_scheme: str | None = None) -> str:
            return str(super()._expand_user_properties(template.replace("{course}", "physics"), slug_scheme))

    hub.c.PodSpawner.pod_name_template = "{course}-{username}"
    return PodSpawner


@pattern(options={"profile": "small"})
def a_class_that_calls_kubespawner_by_name(hub: PatternHub) -> type:
    class OldSpawner(hub.base):  # type: ignore[name-defined]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            hub.call("__init__")
            KubeSpawner.__init__(self, *args, **kwargs)
            self.extra_labels = {"made": "by-hand"}

        async def start(self) -> Any:
            hub.call("start")
            return await KubeSpawner.start(self)

        def get_env(self) -> dict[str, str]:
            return {**KubeSpawner.get_env(self), "OLD": "1"}

    hub.c.KubeSpawner.profile_list = two_profiles()
    return OldSpawner


@pattern(options={}, saved={"profile": "x"})
def a_class_with_a_state(hub: PatternHub) -> type:
    class StateSpawner(hub.base):  # type: ignore[name-defined]
        own = ""

        def get_state(self) -> dict[str, Any]:
            return {**super().get_state(), "own": self.own}

        def load_state(self, state: dict[str, Any]) -> None:
            hub.call("load_state")
            super().load_state(state)
            self.own = state.get("own", "")

        def clear_state(self) -> None:
            super().clear_state()
            self.own = "of this start"

    return StateSpawner


@pattern(form={"profile": ["small"]})
def a_class_with_its_own_profiles(hub: PatternHub) -> type:
    class ProfileSpawner(hub.base):  # type: ignore[name-defined]
        async def _render_options_form_dynamically(self, current_spawner: Any) -> Any:
            hub.call("_render_options_form_dynamically")
            return await super()._render_options_form_dynamically(current_spawner)

        def _load_profile(self, slug: str | None, profile_list: list[Any]) -> Any:
            hub.call(f"_load_profile {slug}")
            return super()._load_profile(slug, profile_list)

    hub.c.KubeSpawner.profile_list = lambda spawner: two_profiles()
    return ProfileSpawner
