"""Names of a form's choices."""

from __future__ import annotations

from typing import Any

from dra_spawner.spawner.availability.form_choices import form_choices, options_with
from tests.all_of_them import all_of_them

PROFILES: list[dict[str, Any]] = [
    {"slug": "cpu"},
    {
        "slug": "gpu",
        "profile_options": {
            "size": {"choices": {"5Gi": {}, "10Gi": {"default": True}}},
            "image": {"choices": {"a,b": {"default": True}, "c": {}}},
            "note": {"unlisted_choice": {"enabled": True}},
        },
    },
]


def test_names_of_single_choices():
    assert list(form_choices(PROFILES).names()) == ["cpu", "gpu", "gpu/size=5Gi", "gpu/image=c"]


@all_of_them(
    "asked, known",
    [
        ("cpu", "cpu"),
        ("gpu/size=10Gi", "gpu"),
        ("gpu/size=10Gi,image=c", "gpu/image=c"),
        ("gpu/image=c,size=5Gi", "gpu/size=5Gi,image=c"),
        ("gpu/image=a,b", "gpu"),
        ("gpu/size=7Gi", None),
        ("gpu/place=here", None),
        ("gpu/note=text", None),
        ("gpu/note=", "gpu"),
        ("cpu/size=5Gi", None),
        ("other", None),
        ("", None),
        ("/=", None),
    ],
)
def test_a_name_is_known_without_its_defaults(asked, known):
    assert form_choices(PROFILES).known_name(asked) == known


def test_equal_forms_are_one_object():
    assert form_choices(PROFILES).profiles is form_choices([dict(each) for each in PROFILES]).profiles


OF_STARTS = form_choices(
    [
        {"slug": "slice", "profile_options": {"memory": {"choices": {"5Gi": {"default": True}, "15Gi": {}}}}},
        {"slug": "cpu", "profile_options": {"image": {"choices": {"a": {"default": True}, "b": {}}}}},
    ]
)


@all_of_them(
    "before, name, after",
    {
        "another size": (
            {"profile": "slice", "memory": "5Gi"},
            "slice/memory=15Gi",
            {"profile": "slice", "memory": "15Gi"},
        ),
        "another profile": ({"profile": "slice", "memory": "15Gi"}, "cpu", {"profile": "cpu"}),
        "free text goes": ({"profile": "slice", "memory--unlisted-choice": "3Gi"}, "slice", {"profile": "slice"}),
        "options of other code stay": (
            {"profile": "slice", "course": "a"},
            "cpu/image=b",
            {"profile": "cpu", "image": "b", "course": "a"},
        ),
        "no options": (None, "cpu", {"profile": "cpu"}),
    },
)
def test_options_of_a_start_that_follows_one_which_waited_in_vain(before, name, after):
    assert options_with(before, name, OF_STARTS) == after
