"""Formats of names, labels and identifiers, and lists of checked items."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dra_spawner.devcluster.api.errors import FieldError, duplicate, invalid_value, required, too_long, too_many

Check = Callable[[Any, str], list[FieldError]]
"""Checks a value; the second argument is the field's path."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_NAME_PART})?"
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
ANY_CASE_SUBDOMAIN_TEXT = (
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'Example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_PART_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)
MAX_LABEL_CHARACTERS = 63
MAX_SUBDOMAIN_CHARACTERS = 253


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _format_errors(text: str, field: str, most: int, pattern: str, explanation: str) -> list[FieldError]:
    errors = []
    if len(text) > most:
        errors.append(invalid_value(field, text, f"must be no more than {most} characters"))
    if not _matches(pattern, text):
        errors.append(invalid_value(field, text, explanation))
    return errors


def check_dns_label(text: str, field: str) -> list[FieldError]:
    """Errors of a name of one part: at most 63 lower-case letters, digits and hyphens."""
    dots = "." in text and _matches(_SUBDOMAIN, text)
    return _format_errors(text, field, MAX_LABEL_CHARACTERS, _LABEL, "must not contain dots" if dots else _LABEL_TEXT)


def check_dns_subdomain(text: str, field: str, begins: str = "") -> list[FieldError]:
    """Errors of a name of labels joined by dots, of at most 253 characters."""
    return _format_errors(text, field, MAX_SUBDOMAIN_CHARACTERS, _SUBDOMAIN, f"{begins}{SUBDOMAIN_TEXT}")


def qualified_name_problems(text: str) -> list[str]:
    """Problems of a label's key: a name, with or without a domain before a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and ("/" in prefix):
        return [
            "a valid label key "
            + _NAME_PART_TEXT.removeprefix("name part ")
            + " with an optional DNS subdomain prefix "
            "and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash and not (len(prefix) <= MAX_SUBDOMAIN_CHARACTERS and _matches(_SUBDOMAIN, prefix)):
        problems.append("prefix part " + SUBDOMAIN_TEXT)
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > MAX_LABEL_CHARACTERS:
        problems.append(f"name part must be no more than {MAX_LABEL_CHARACTERS} characters")
    if not _matches(_NAME_PART, name):
        problems.append(_NAME_PART_TEXT)
    return problems


def check_qualified_name(text: str, field: str) -> list[FieldError]:
    """Errors of a label's key."""
    return [invalid_value(field, text, problem) for problem in qualified_name_problems(text)]


def check_label_value(text: str, field: str) -> list[FieldError]:
    return _format_errors(text, field, MAX_LABEL_CHARACTERS, _VALUE, _VALUE_TEXT)


def check_identifier(text: str, field: str, most: int) -> list[FieldError]:
    """Errors of a C identifier, as in names of attributes and capacities."""
    if len(text) > most:
        return [too_long(field, most)]
    return [] if _matches(_IDENTIFIER, text) else [invalid_value(field, text, _IDENTIFIER_TEXT)]


def check_config_key(text: str, field: str) -> list[FieldError]:
    """Errors of a key of a ConfigMap or Secret."""
    return _format_errors(text, field, MAX_SUBDOMAIN_CHARACTERS, _CONFIG_KEY, _CONFIG_KEY_TEXT)


def check_driver_name(text: str, field: str, text_of_error: str = SUBDOMAIN_TEXT) -> list[FieldError]:
    """Errors of a DRA driver's name: a subdomain of at most 63 characters, in upper or lower case."""
    if not text:
        return [required(field)]
    if len(text) > MAX_LABEL_CHARACTERS:
        return [too_long(field, MAX_LABEL_CHARACTERS)]
    if _matches(_SUBDOMAIN, text.lower()):
        return []
    return [invalid_value(field, text, text_of_error)]


def check_list(items: Sequence[Any], field: str, check: Check, *, most: int | None = None) -> list[FieldError]:
    """Check each item of a list with at most `most` items; of a longer list only the length."""
    errors = []
    if most is not None and len(items) > most:
        return [too_many(field, len(items), most)]
    for index, item in enumerate(items):
        errors += check(item, f"{field}[{index}]")
    return errors


def check_unique(keys: Iterable[Any], field: str, *, items: Sequence[Any] | None = None) -> list[FieldError]:
    """Check that keys are unique; other checks refuse empty keys.

    Parameters
    ----------
    items
        What a message shows instead of the keys.
    """
    errors = []
    seen = set()
    for index, key in enumerate(keys):
        if key in seen:
            errors.append(duplicate(f"{field}[{index}]", key if items is None else items[index]))
        seen.add(key)
    return errors
