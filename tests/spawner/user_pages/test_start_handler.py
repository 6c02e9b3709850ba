"""Options of a start that follows one which waited in vain."""

from dra_spawner.spawner.availability.form_choices import form_choices
from dra_spawner.spawner.user_pages.start_handler import options_with
from tests.all_of_them import all_of_them

FORM = form_choices(
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
def test_options(before, name, after):
    assert options_with(before, name, FORM) == after
