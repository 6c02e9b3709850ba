"""Names by which users pick: each stands for one profile, one option, one choice."""

from __future__ import annotations

from slugify import slugify

from dra_spawner.profiles.choices import profile_slug
from dra_spawner.profiles.profile_list import profile_list_problems
from tests.all_of_them import all_of_them


def profiles(*entries):
    return [{"display_name": f"P{number}", **entry} for number, entry in enumerate(entries)]


def options(**choices):
    return {
        "profile_options": {"size": {"choices": {key: {"display_name": "x", **more} for key, more in choices.items()}}}
    }


def option(name, **more):
    return {"profile_options": {name: {"choices": {"a": {"display_name": "a"}}, **more}}}


@all_of_them(
    "found, paths",
    {
        "sound": (profiles({}, {"default": True}, options(a={"default": True}, b={})), []),
        "sound dict": ({"a": {"display_name": "A"}, "b": {"display_name": "B", **option("size")}}, []),
        "slugs that are written": (profiles({"slug": "a"}, {"slug": "b"}, {"slug": "a"}), ["profile_list[2].slug"]),
        "slugs that are made": (profiles({"display_name": "Large"}, {"display_name": "Large!"}), ["profile_list[1].display_name"]),
        "one of each": (profiles({"display_name": "Grosse GPU"}, {"slug": "grosse-gpu"}), ["profile_list[1].slug"]),
        "other letters": (profiles({"display_name": "Größe"}, {"slug": "grosse"}), ["profile_list[1].slug"]),
        "in a mapping": ({"b": {"display_name": "x"}, "a": {"display_name": "X"}}, ["profile_list.b.display_name"]),
        "thrice": (profiles({"slug": "a"}, {"slug": "a"}, {"slug": "a"}), ["profile_list[1].slug", "profile_list[2].slug"]),
        "no slug": (profiles({"slug": ""}, {"slug": 12}, {"slug": None}), [f"profile_list[{number}].slug" for number in range(3)]),
        "a name without letters": (profiles({"display_name": "!!"}), ["profile_list[0].display_name"]),
        "two defaults": (profiles({"default": True}, {}, {"default": True}), ["profile_list[2].default"]),
        "two default choices": (
            profiles(options(a={"default": True}, b={"default": True})),
            ["profile_list[0].profile_options.size.choices.b.default"],
        ),
        "a number as a choice, which no form sends": (
            profiles({"profile_options": {"size": {"choices": {1: {"display_name": "1"}}}}}),
            ["profile_list[0].profile_options.size.choices.1"],
        ),
        "an option that replaces the profile": (profiles(option("profile")), ["profile_list[0].profile_options.profile"]),
        "two options with one field": (
            profiles({"slug": "a", **option("b--c")}, {"slug": "a--b", **option("c")}),
            ["profile_list[1].profile_options.c"],
        ),
        "an option and the free text of another": (
            profiles({"profile_options": {
                "size": {"choices": {}, "unlisted_choice": {"enabled": True}}, "size--unlisted-choice": {"choices": {}}
            }}),
            ["profile_list[0].profile_options.size--unlisted-choice"],
        ),
    },
)  # fmt: skip
def test_names(found, paths):
    assert [problem.path for problem in profile_list_problems(found)] == paths


def test_the_problem_names_both_profiles():
    (problem,) = profile_list_problems(profiles({"display_name": "Large"}, {"display_name": "Large!"}))
    assert problem.found == "'Large!', which makes the slug 'large'"
    assert "profile_list[0] has this one, too" in problem.allowed


@all_of_them(
    "name",
    [
        "GPU",
        "A  b--c_d",
        "-x-",
        "1,000 GPUs",
        "Don't",
        "R&amp;D",
        "&#65;",
        "Größe",
        "大きい",
        "a·b",
        "1.5 (new)",
        "!",
        "",
    ],
)
def test_slugs_are_those_of_kubespawner(name):
    assert profile_slug({"display_name": name}) == slugify(name)
