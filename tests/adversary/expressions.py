"""CEL expressions that Kubernetes accepts and that would cost much without limits."""

from __future__ import annotations


def bound(form: str, count: int, last: str, start: str = "[1]") -> str:
    """Values that each contain the previous value twice; ``last`` is about the last one."""
    text = last.replace("V", f"v{count}")
    for index in range(count, 0, -1):
        text = f"cel.bind(v{index}, {form.replace('V', f'v{index - 1}')}, {text})"
    return f"cel.bind(v0, {start}, {text})"


def listed(element: str, count: int) -> str:
    return f"[{', '.join([element] * count)}]"


PAIR = "[V, V]"


ACCEPTED = {
    "precision": '"%.999999999f".format([1.5]).size() > 0',
    "precision just read": '"%.10000009f".format([1.5]).size() > 0',
    "width": f'"{"%.65535e" * 150}".format({listed("1.5", 150)}).size() > 0',
    "widths in a loop": 'lists.range(9000).all(i, "%.65535e".format([1.5]) != "")',
    "digits in a loop": 'lists.range(9000).all(i, "%.255f".format([1e300]) != "")',
    "pairs compared": bound(PAIR, 24, "V == V"),
    "more pairs compared": bound(PAIR, 45, "V == V"),
    "pairs of maps compared": bound("{1: V, 2: V}", 45, "V == V", "{1: 1}"),
    "pairs found": bound(PAIR, 45, "V in [V]"),
    "pairs printed": bound(PAIR, 45, '"%s".format([V]).size() > 0'),
    "pairs in sets": bound(PAIR, 45, "sets.contains(V, V)"),
    "pairs distinct": bound(PAIR, 45, "V.distinct().size() > 0"),
    "pairs looked up": bound(PAIR, 45, "V.indexOf(V[0]) == 0"),
    "pairs flattened": bound(PAIR, 45, "V.flatten(45).size() > 0"),
    "lists that double": bound("V + V", 45, "V.size() > 0"),
    "text in text": f'"{"a" * 2000}".replace("", "{"b" * 2000}").size() > 0',
    "text in text in text": '"aaaaaaaaaaaa"' + '.replace("a", "aaaaaaaaaaaaaaaa")' * 3 + ".size() > 0",
    "loops": "lists.range(300).all(i, lists.range(300).all(j, i + j >= 0))",
    "loops that build": f"lists.range(900).map(i, {listed('1', 3000)} + [i]).size() > 0",
    "one long list": "lists.range(900000).size() > 0",
    "sorting": "lists.range(700).map(i, 0 - i).sort().size() > 0",
    "distinct": "lists.range(700).distinct().size() > 0",
    "sets": "sets.equivalent(lists.range(700), lists.range(700))",
    "pattern": f'"{"a" * 1500}".matches("{"(a?)" * 300}{"a" * 300}")',
    "pattern of words": r'"x".matches("\\pL{1000}\\pN{1000}")',
    "pattern in a loop": f'lists.range(1000).all(i, matches("{"ab" * 1000}", "(x+x+)+y") || true)',
    "finding in a loop": f'lists.range(20).all(i, "{"ab" * 2000}".findAll("a").size() > 0)',
    "splitting": f'"{"a" * 9000}".split("").size() > 0',
    "quantity": f'isQuantity("{"9" * 9000}")',
    "quantity of zeros": 'isQuantity("1e999999999")',
    "version": f'isSemver("1.2.3-{"a." * 4000}a")',
    "numbers": f'isQuantity("{"0" * 4500}1") || isSemver("{"1" * 4500}.0.0")',
    "optionals": f"optional.of(1){'.optMap(x, x)' * 8}.hasValue()",
}
