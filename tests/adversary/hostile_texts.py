"""Texts of hostile users: for names of users, groups and servers, and for free text."""

from __future__ import annotations

_NAMES_OF_ONE_WORD = """
ada Ada ADA ada- -ada --ada ada--work ada-work ada_work ada.work ada/work ada---36f028db jupyter-ada
ada@example.org ada@example-org default kube-system root 0 123456 true null ~ user:ada group:physics
everybody . .. ../../etc/passwd ..%2f..%2fetc %2F%00 %s%d%(x)s <script>alert(1)</script>
{username} {unescaped_username} {vlan} {0.__class__} {{7*7}} ${7*7} $(id) `id`
"""
_NUMBERS = "10gi -10Gi +10Gi 0 0Gi NaN Infinity 1e3 0x10 1_000"
_PATTERNS = r"* .* A100|.* (?i)a $^ [ ( a{2} \Q \E.*"

#: Names that JupyterHub may have: an authenticator decides, and some take whatever an identity provider says.
NAMES = (
    *_NAMES_OF_ONE_WORD.split(),
    "ada work",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE users; --",
    'a"b',
    "a\\b",
    'a\\"} : {',
    "a\nb: c",
    "a\r\nX-Header: 1",
    "a\tb",
    "a\x00b",
    "a\x1b[31mb",
    "äöü",
    "a\u0308",  # the same as ä to a reader
    "\u00e4",
    "\u0430da",  # begins with a Cyrillic letter
    "\u212aelvin",  # the sign of kelvin, a k in lower case
    "Kelvin",
    "kelvin",
    "\u202eada",  # from right to left
    "\u05d0\u05d1\u05d2",
    "\u200b",
    "\U0001f600",
    "ﬁ",
    "fi",
    "ﬀ" * 60,
    "x" * 48,
    "x" * 49,
    "x" * 63,
    "x" * 64,
    "x" * 255,
    "x" * 254 + "y",
    "-" * 100,
)

#: Of named servers, besides the default one.
SERVERS = ("ada", "work", "Work", "a--b", "..", "{username}", '"', "<b>", "a\nb", "%2F", "x" * 255, "ä", "$(id)")

#: Texts of users where an administrator allows free text.
TEXTS = (
    *NAMES,
    "",
    " ",
    "10Gi",
    "10Gi\n",
    "10Gi ",
    "10Gi; rm -rf /",
    "10Gi\x00",
    *_NUMBERS.split(),
    "\u0661\u0660Gi",  # ten in Arabic digits
    "\uff11\uff10Gi",  # ten in full width
    "10Gi' || true || '",
    '10Gi") || true || ("',
    '") || true || ("',
    "') || true || ('",
    '\\") || true || (\\"',
    '"""',
    "\\",
    "\\\\",
    "?" * 64,
    *_PATTERNS.split(),
    "- a: b",
    "&anchor *anchor",
    "!!python/object:os.system",
    '{"driver": "evil"}',
    "A" * 64,
    "A" * 65,
    "A" * 1024,
    "A" * 1025,
    "A" * 100_000,
)
