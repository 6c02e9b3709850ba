"""Options from outside are what a form of the hub can send; everything else is refused, with a suggestion."""

from __future__ import annotations

import re
import time

import pytest

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.syntax.user_options import (
    MAX_FREE_TEXT,
    UnreadName,
    form_fields_problem,
    user_options_problem,
)
from tests.all_of_them import all_of_them
from tests.presence import present

#: As KubeSpawner initialises them.
PROFILES: list[JsonObject] = [
    {
        "slug": "gpu",
        "display_name": "GPU",
        "default": True,
        "profile_options": {
            "memory": {
                "choices": {"5Gi": {}, "10Gi": {}},
                "unlisted_choice": {"enabled": True, "validation_regex": r"^\d+Gi"},
            },
            "image": {"choices": {"a": {}}, "unlisted_choice": {"enabled": False}},
        },
    },
    {"slug": "cpu", "display_name": "CPU", "profile_options": {"cores": {"choices": {"1": {}, "2": {}}}}},
    {"slug": "plain", "display_name": "Plain"},
    {"slug": "typed", "display_name": "Typed", "profile_options": {"size": {"unlisted_choice": {"enabled": True}}}},
    {"slug": "gpu--big", "display_name": "Big", "profile_options": {"cards": {"choices": {"1": {}, "2": {}}}}},
]


def gpu(**options):
    return {"profile": "gpu", **{name.replace("_text", "--unlisted-choice"): value for name, value in options.items()}}


@all_of_them("sent", {
    "nothing": None,
    "empty": {},
    "profile alone": {"profile": "gpu"},
    "profile without options": {"profile": "plain"},
    "choice": gpu(memory="10Gi"),
    "choice of the default profile": {"memory": "5Gi"},
    "free text, as KubeSpawner's form sends it": gpu(memory_text="15Gi"),
    "free text, as fancy-profiles sends it": gpu(memory="unlisted_choice", memory_text="15Gi"),
    "free text, with both fields of KubeSpawner's form": gpu(memory="unlisted-choice", memory_text="15Gi"),
    "image built by fancy-profiles": gpu(memory="--extra-selectable-item", memory_text="15Gi")
        | {"memory--unlisted-choice--ref": "HEAD", "memory--unlisted-choice--repo": "a/b"},
    "choice and an empty text field": gpu(memory="5Gi", memory_text=""),
    "another profile's field that KubeSpawner takes for one": {"profile": "gpu", "big--cards": "2"},
})  # fmt: skip
def test_options_of_a_form_are_accepted(sent):
    assert user_options_problem(PROFILES, sent) is None


@all_of_them("sent, sentence", {
    "list": (["gpu"], "the options of a server must be a JSON object"),
    "text": ("gpu", "the options of a server must be a JSON object"),
    "empty list": ([], "the options of a server must be a JSON object"),
    "empty text": ("", "the options of a server must be a JSON object"),
    "false": (False, "the options of a server must be a JSON object"),
    "number": (7, "the options of a server must be a JSON object"),
    "bool": (True, "the options of a server must be a JSON object"),
    # The profile
    "empty profile": ({"profile": ""}, "the profile is empty; there are: gpu, cpu, plain, typed, gpu--big"),
    "profile null": ({"profile": None}, "a profile must be the name of one, not null"),
    "profile false": ({"profile": False}, "a profile must be the name of one, not false"),
    "profile 0": ({"profile": 0}, "a profile must be the name of one, not a number"),
    "profile as list": ({"profile": ["gpu"]}, "a profile must be the name of one, not a list"),
    "profile as object": ({"profile": {"slug": "gpu"}}, "a profile must be the name of one, not an object"),
    "unknown profile": ({"profile": "root"}, "there is no profile 'root'; there are: gpu, cpu, plain, typed, gpu--big"),
    "misspelt profile": ({"profile": "gpuu"}, "there is no profile 'gpuu'; did you mean gpu? There are: gpu, cpu, plain, typed, gpu--big"),
    "name in the form instead of the slug": ({"profile": "GPU"}, "there is no profile 'GPU'; did you mean gpu? There are: gpu, cpu, plain, typed, gpu--big"),
    "profile and a newline": ({"profile": "gpu\n"}, "there is no profile 'gpu\\n'; did you mean gpu? There are: gpu, cpu, plain, typed, gpu--big"),
    "profile and NUL": ({"profile": "gpu\x00"}, "there is no profile 'gpu\\x00'; did you mean gpu? There are: gpu, cpu, plain, typed, gpu--big"),
    # Options
    "misspelt option": (gpu(memroy="10Gi"), "profile gpu has no option 'memroy'; did you mean memory?"),
    "misspelt option of the default profile": ({"memroy": "10Gi"}, "profile gpu has no option 'memroy'; did you mean memory?"),
    "misspelt key of the profile": ({"profil": "gpu"}, "profile gpu has no option 'profil'; did you mean profile?"),
    "upper case": (gpu(MEMORY="10Gi"), "profile gpu has no option 'MEMORY'; did you mean memory?"),
    "option of another profile": (gpu(cores="2"), "profile gpu has no option 'cores'; this is an option of cpu"),
    "nothing like it": ({"profile": "cpu", "memory_": "5Gi"}, "profile cpu has no option 'memory_'; there are: cores"),
    "profile without options": ({"profile": "plain", "x": 1}, "profile plain has no option 'x', nor any other"),
    "a spawner's setting": (gpu(kubespawner_override={"image": "evil"}), "profile gpu has no option 'kubespawner_override'; there are: memory, image"),
    "claims": (gpu(device_claims={"gpu": {"count": "all"}}), "profile gpu has no option 'device_claims'; there are: memory, image"),
    "an attribute": (gpu(__class__="x"), "profile gpu has no option '__class__'; there are: memory, image"),
    "empty name": ({"profile": "gpu", "": "x"}, "profile gpu has no option ''; there are: memory, image"),
    "markup as name": ({"profile": "gpu", "<script>alert(1)</script>": "x"}, "profile gpu has no option '<script>alert(1)</script>'; there are: memory, image"),
    "half a character as name": ({"profile": "gpu", "\ud800": "x"}, "profile gpu has no option '\\ud800'; there are: memory, image"),
    "a form's field by REST": ({"profile": "gpu", "profile-option-gpu--memory": "5Gi"}, "profile gpu has no option 'profile-option-gpu--memory'; there are: memory, image"),
    "beside free text that is not taken": ({"profile": "gpu", "image--unlisted-choice--ref": "HEAD"}, "profile gpu has no option 'image--unlisted-choice--ref'; there are: memory, image"),
    # Choices
    "unknown choice": (gpu(memory="80Gi"), "option memory has no choice '80Gi'; there are: 5Gi, 10Gi"),
    "unknown choice of the default profile": ({"memory": "80Gi"}, "option memory has no choice '80Gi'; there are: 5Gi, 10Gi"),
    "choice of another profile": ({"profile": "cpu", "cores": "5Gi"}, "option cores has no choice '5Gi'; there are: 1, 2"),
    "choice as number": ({"profile": "cpu", "cores": 2}, "a choice of option cores must be the name of one, not a number"),
    "choice as list": (gpu(memory=["5Gi"]), "a choice of option memory must be the name of one, not a list"),
    "choice as object": (gpu(memory={"x": {"y": [1]}}), "a choice of option memory must be the name of one, not an object"),
    "choice null": (gpu(memory=None), "a choice of option memory must be the name of one, not null"),
    "choice false": (gpu(memory=False), "a choice of option memory must be the name of one, not false"),
    "choice 0": (gpu(memory=0.0), "a choice of option memory must be the name of one, not a number"),
    "empty choice": (gpu(memory=""), "option memory has no choice ''; there are: 5Gi, 10Gi"),
    "free text as choice where none is taken": (gpu(image="unlisted-choice"), "option image has no choice 'unlisted-choice'; there are: a"),
    # Free text
    "free text left out": (gpu(memory="unlisted-choice"), "type a value for option memory"),
    "free text left empty": (gpu(memory_text=""), "type a value for option memory"),
    "no choices and no text": ({"profile": "typed"}, "type a value for option size"),
    "choice and free text": (gpu(memory="5Gi", memory_text="15Gi"), "option memory has both a choice and free text; send one of them"),
    "free text as number, beside": (gpu(memory="unlisted-choice", memory_text=10), "type a value for option memory"),
    "free text as number": (gpu(memory_text=10), "a number is not a valid value of option memory"),
    "free text as object": (gpu(memory_text={"x": 1}), "an object is not a valid value of option memory"),
    "free text null": (gpu(memory_text=None), "null is not a valid value of option memory"),
    "junk after the pattern": (gpu(memory_text="10Gi; evil"), "'10Gi; evil' is not a valid value of option memory"),
    "newline after the pattern": (gpu(memory_text="10Gi\n"), "'10Gi\\n' is not a valid value of option memory"),
    "digits of another script": (gpu(memory_text="\u0661\u0660Gi"), "'\u0661\u0660Gi' is not a valid value of option memory"),
    "free text not offered": (gpu(image_text="b"), "option image takes no free text"),
    "free text not offered, empty": (gpu(image_text=""), "option image takes no free text"),
    "half a character": ({"profile": "typed", "size--unlisted-choice": "\ud800"}, "'\\ud800' is not a valid value of option size"),
    "a placeholder": ({"profile": "typed", "size--unlisted-choice": "{username}"}, "'{username}' is not a valid value of option size"),
    "text too long": ({"profile": "typed", "size--unlisted-choice": "x" * (MAX_FREE_TEXT + 1)}, "is not a valid value of option size"),
    "beside free text, as list": (gpu(memory_text="5Gi") | {"memory--unlisted-choice--ref": []}, "what belongs to the free text of option memory must be text"),
})  # fmt: skip
def test_anything_else_is_refused(sent, sentence):
    problem = present(user_options_problem(PROFILES, sent))
    assert problem.endswith(sentence)
    assert problem.isprintable()


@all_of_them("none", [None, [], ()])
def test_without_profiles_options_are_of_other_code(none):
    for sent in ({}, None, {"x": 1}, {"profile": "gpu"}, {"profile": {"x": [None]}}):
        assert user_options_problem(none, sent) is None
    for other in (["x"], "x", 0):
        assert user_options_problem(none, other) == "the options of a server must be a JSON object"


def test_options_of_other_readers_are_accepted():
    sent = gpu(memory="5Gi", course=["any", {"thing": None}])
    assert user_options_problem(PROFILES, sent, others={"course"}) is None
    assert user_options_problem(PROFILES, sent, others={"courses"})


def test_other_code_may_read_options_that_no_profile_has_but_no_wrong_values():
    for sent in (gpu(course=["any"], memory="5Gi"), {"profil": "gpu"}, gpu(kubespawner_override={"image": "x"})):
        assert isinstance(user_options_problem(PROFILES, sent), UnreadName)
        assert user_options_problem(PROFILES, sent, others_read_more=True) is None
    for sent in ({"profile": None}, {"profile": "", "image": None}, gpu(memory="", memory_text=None)):
        assert user_options_problem(PROFILES, sent)
        assert user_options_problem(PROFILES, sent, others_read_more=True) is None, "not filled in"
    for sent in (gpu(course=1, memory="80Gi"), {"profile": "root", "course": 1}, gpu(course=1, image_text="b")):
        problem = present(user_options_problem(PROFILES, sent, others_read_more=True))
        assert not isinstance(problem, UnreadName)
    assert isinstance(form_fields_problem({"profile": ["gpu"], "course": ["x"]}, PROFILES), UnreadName)
    assert not isinstance(form_fields_problem({"profile": ["root"]}, PROFILES), UnreadName)


def test_a_choice_with_a_number_as_its_name_is_named():
    option = {"choices": {1: {"display_name": "One"}, 2: {"display_name": "Two"}}}
    problem = user_options_problem(
        [{"slug": "a", "default": True, "profile_options": {"cores": option}}], {"cores": "3"}
    )
    assert problem == "option cores has no choice '3'; there are: 1, 2"


def nested(levels):
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


@all_of_them("made", {
    "choice": lambda: gpu(memory="x" * 20_000_000),
    "free text": lambda: gpu(memory_text="9" * 20_000_000 + "Gi"),
    "profile": lambda: {"profile": "gpu" * 5_000_000},
    "name": lambda: {"profile": "gpu", "memory" * 2_000_000: 1},
    "many": lambda: {"profile": "gpu", **{f"option{number}": number for number in range(200_000)}},
    "deep": lambda: gpu(memory=nested(100_000)),
    "deep and unknown": lambda: gpu(other=nested(100_000)),
})  # fmt: skip
def test_huge_options_are_refused_fast_and_briefly(made):
    """One of these takes minutes if it is compared with names, or written out; milliseconds as it is."""
    sent = made()
    began = time.process_time()
    problem = user_options_problem(PROFILES, sent)
    assert time.process_time() - began < 60
    assert len(present(problem)) < 300


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"(.*a){20}", r"^(\w+\s?)*$", r"([a-z]+)*=\d"])
def test_a_pattern_that_takes_exponential_time_elsewhere_does_not_here(pattern):
    text = "a" * (MAX_FREE_TEXT - 1) + "!"
    option = {"unlisted_choice": {"enabled": True, "validation_regex": pattern}}
    profiles = [{"slug": "p", "default": True, "profile_options": {"o": option}}]
    assert user_options_problem(profiles, {"o--unlisted-choice": text})


@pytest.mark.parametrize("pattern", [r"\d+Gi", r"^\d+Gi$", r"^\d+Gi\Z", r"(?=1)\d+Gi", r"\A\d+Gi", r"1|\d+Gi"])
def test_a_pattern_is_for_the_whole_text(pattern):
    option = {"unlisted_choice": {"enabled": True, "validation_regex": pattern}}
    profiles = [{"slug": "p", "default": True, "profile_options": {"o": option}}]

    def problem(text):
        return user_options_problem(profiles, {"o--unlisted-choice": text})

    assert problem("15Gi") is None
    for text in ("15Gi\n", "15Gi\r", "15Gi\x00", "\n15Gi", " 15Gi", "15Gi15Gi", "15Gi\u2028", "15Gi|"):
        assert problem(text), repr(text)


def test_a_pattern_that_is_none_is_the_administrators_problem():
    option = {"unlisted_choice": {"enabled": True, "validation_regex": "("}}
    with pytest.raises(ValueError, match=re.escape("validation_regex '('")):
        user_options_problem(
            [{"slug": "p", "default": True, "profile_options": {"o": option}}], {"o--unlisted-choice": "x"}
        )


FIELD = "profile-option-gpu--"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"profile": ["gpu"]},
        {"profile": ["gpu"], f"{FIELD}memory": ["5Gi"], "profile-option-cpu--cores": ["1"]},
        {"profile": ["gpu"], f"{FIELD}memory--unlisted-choice": ["5Gi"], "_xsrf": ["x"]},
        {"profile": ["gpu", "gpu"], "select-profile": ["cpu"], f"{FIELD}image--unlisted-choice--ref": ["HEAD"]},
        {"profile": ["gpu"], "course": ["algebra"]},
    ],
    ids=str,
)
def test_fields_of_forms_are_accepted(fields):
    for profiles in (PROFILES, None):
        assert form_fields_problem(fields, profiles, {"course"}) is None


@all_of_them("fields, sentence, unknown", [
    ({"profile": [""]}, "the profile is empty; there are: gpu, cpu", "the profile is empty"),
    ({"profile": []}, "the profile is empty; there are: gpu, cpu", "the profile is empty"),
    ({"profile": ["gpuu"]}, "there is no profile 'gpuu'; did you mean gpu? There are: gpu, cpu, plain, typed, gpu--big", None),
    ({"profile": ["gpu", "cpu"]}, "several profiles are picked; pick one", "several profiles are picked; pick one"),
    ({"profile": ["gpu"], "memroy": ["5Gi"]}, "there is no field 'memroy'; did you mean profile-option-gpu--memory?", "there is no field 'memroy'; that of an option is profile-option-PROFILE--OPTION"),
    ({"profile": ["gpu"], "memory": ["5Gi"]}, "there is no field 'memory'; did you mean profile-option-gpu--memory?", "there is no field 'memory'; that of an option"),
    ({"memory": ["5Gi"]}, "there is no field 'memory'; did you mean profile-option-gpu--memory?", "there is no field 'memory'; that of an option"),
    ({"profle": ["gpu"]}, "there is no field 'profle'; did you mean profile?", "there is no field 'profle'; did you mean profile?"),
    ({f"{FIELD}memory": ["5Gi"]}, "'profile-option-gpu--memory' needs a profile beside it", "'profile-option-gpu--memory' needs a profile beside it"),
    ({"profile": ["gpu"], "profile-option-gpuu--memory": ["5Gi"]}, "'profile-option-gpuu--memory' is no field of any profile; there are the profiles gpu, cpu", None),
    ({"profile": ["gpu"], "x" * 10_000: ["5Gi"]}, "...; that of an option is profile-option-PROFILE--OPTION", "..."),
    ({"profile": [{"filename": "x"}]}, "a profile must be the name of one, not an object", "a profile must be the name of one, not an object"),
])  # fmt: skip
def test_other_fields_are_refused(fields, sentence, unknown):
    """With the profiles that there are, and where they are not known before the start."""
    assert sentence in present(form_fields_problem(fields, PROFILES))
    found = form_fields_problem(fields, None)
    assert unknown in (found or "") if unknown else found is None
