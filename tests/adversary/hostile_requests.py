"""Parts of requests, to be made hostile one by one: questions to the service, parameters, and options of servers."""

from __future__ import annotations

from typing import Any, Final

from tests.placeholders.controller.objects import WHOLE

_WORDS: Final = (
    "limit after continue name server kind profile node live search before hours code state error token _xsrf user key "
    "users count added lost instead_of"
)
PARAMETERS: Final = tuple(_WORDS.split())
"""Of requests at the service."""


def hostile_question(shape: str, namespace: str, definition: str) -> dict[str, Any]:
    """A question with all its parts, which are right; each is made hostile in turn."""
    user = {"user": "ada", "groups": ["maths"], "tickets": ["0" * 16]}
    return {"shape": shape, "pod": "p", "namespace": namespace, "definition": definition, **user}


_TERM = {"key": "a", "operator": "In", "values": ["b"]}


DEFINITION: dict[str, Any] = {
    "claims": WHOLE,
    "containers": [
        {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": ["gpu"]},
        {"requests": {"cpu": "1"}, "init": True, "sidecar": True},
    ],
    "node_fields": {
        "nodeSelector": {"a": "b"},
        "runtimeClassName": "r",
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [_TERM]}]}
            }
        },
    },
}
"""Of a shape, with all that it may have."""

FIELD = "profile-option-sized--"
#: Options of servers as users send them, and what the refusal says.
SENT: list[tuple[Any, str]] = [
    ({"profile": "sized", "memroy": "5Gi"}, "profile sized has no option 'memroy'; did you mean memory?"),
    ({"memroy": "5Gi"}, "profile sized has no option 'memroy'; did you mean memory?"),
    ({"profil": "sized"}, "did you mean profile?"),
    ({"profile": ""}, "the profile is empty; there are: sized, other"),
    ({"profile": None}, "not null"),
    ({"profile": 0}, "not a number"),
    ({"profile": False}, "not false"),
    ({"profile": True}, "not true"),
    ({"profile": []}, "not a list"),
    ({"profile": ["sized"]}, "not a list"),
    ({"profile": {"slug": "sized"}}, "not an object"),
    ({"profile": "Sized"}, "did you mean sized?"),
    ({"profile": "nothing-like-it"}, "there are: sized, other"),
    ({"profile": "sized\n"}, "there is no profile 'sized\\n'"),
    ({"profile": "sized\x00"}, "there is no profile 'sized\\x00'"),
    ({"profile": "../sized"}, "there is no profile '../sized'"),
    ({"profile": "{username}"}, "there is no profile '{username}'"),
    ({"profile": "%s%d%(x)s"}, "there is no profile '%s%d%(x)s'"),
    ({"profile": "<script>alert(1)</script>"}, "there is no profile '<script>alert(1)</script>'"),
    ({"profile": "sized", "memory": "20Gi"}, "no choice '20Gi'; there are: 5Gi, 10Gi"),
    ({"profile": "sized", "memory": ""}, "no choice ''"),
    ({"profile": "sized", "memory": None}, "not null"),
    ({"profile": "sized", "memory": 5}, "not a number"),
    ({"profile": "sized", "memory": ["5Gi"]}, "not a list"),
    ({"profile": "sized", "memory": {"value": "5Gi"}}, "not an object"),
    ({"profile": "sized", "memory": "display_name"}, "no choice 'display_name'"),
    ({"profile": "sized", "memory": "__class__"}, "no choice '__class__'"),
    ({"profile": "sized", "cores": "1"}, "this is an option of other"),
    ({"profile": "other", "memory": "5Gi"}, "this is an option of sized"),
    ({"profile": "other", "cores": "5Gi"}, "no choice '5Gi'; there are: 1"),
    ({"profile": "other", "cores--unlisted-choice": "4"}, "option cores takes no free text"),
    ({"profile": "sized", "memory--unlisted-choice": ""}, "type a value for option memory"),
    ({"profile": "sized", "memory": "unlisted-choice"}, "type a value for option memory"),
    ({"profile": "sized", "memory--unlisted-choice": "10Gi\n"}, "'10Gi\\n' is not a valid value"),
    ({"profile": "sized", "memory--unlisted-choice": "\u0661\u0660Gi"}, "is not a valid value"),
    ({"profile": "sized", "memory--unlisted-choice": "10Gi {username}"}, "is not a valid value"),
    ({"profile": "sized", "memory--unlisted-choice": 10}, "a number is not a valid value"),
    ({"profile": "sized", "memory--unlisted-choice": ["10Gi"]}, "a list is not a valid value"),
    ({"profile": "sized", "memory--unlisted-choice": "9" * 2_000_000 + "Gi"}, "is not a valid value"),
    ({"profile": "sized", "memory": "5Gi", "memory--unlisted-choice": "10Gi"}, "both a choice and free text"),
    *(
        ({"profile": "sized", "memory--unlisted-choice": "10Gi", f"memory--unlisted-choice--{each}": 1}, "must be text")
        for each in ("ref", "repo")
    ),
    ({"profile": "sized", f"{FIELD}memory": "5Gi"}, f"no option '{FIELD}memory'"),
    ({"profile": "sized", "kubespawner_override": {"image": "evil"}}, "no option 'kubespawner_override'"),
    ({"profile": "sized", "device_claims": {"gpu": {"count": "all"}}}, "no option 'device_claims'"),
    ({"profile": "sized", "image": "evil"}, "no option 'image'"),
    ({"profile": "sized", "cmd": ["sh"]}, "no option 'cmd'"),
    ({"profile": "sized", "": ""}, "no option ''"),
    ({"profile": "sized", "x" * 1_000_000: "y"}, "has no option 'xxx"),
    ({"profile": "sized", "x\n[I JupyterHub] eve is an administrator now": "y"}, "no option 'x\\n[I JupyterHub]"),
    ({f"option{number}": number for number in range(50_000)}, "no option 'option0'"),
]  # fmt: skip
