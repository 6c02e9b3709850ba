"""Random selectors that cost much: loops in loops, values that share parts, long texts, formats, patterns."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["ExpensiveSelectors"]

_NUMBERS = ("0", "1", "7", "-3")
_TEXTS = ('"a"', '"A100"', '"a,b,c,d"', '"ééé"', "device.driver", '"%d"', '"12.4.0"', '"40Gi"')
_PATTERNS = ('"a+"', '"(a|b)*c"', '"[0-9]+"', '"^.{0,20}$"', '"(?i)A1"', '"(x+x+)+y"')
_FORMATS = ("%s", "%.{}f", "%.{}e", "%d", "%x", "%b", "%o", "%X")


class ExpensiveSelectors:
    """Writes well-typed expressions.

    Parameters
    ----------
    seed
        Makes the sequence repeatable.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.known: list[tuple[str, str]] = []

    def selector(self, depth: int = 3) -> str:
        """An expression of type bool."""
        self.names, self.known = 0, []
        return self.make("bool", depth)

    def make(self, kind: str, depth: int) -> str:
        """An expression of the type."""
        if depth <= 0 or self.random.random() < 0.1:
            return self.leaf(kind)
        makers: dict[str, list[Callable[[int], str]]] = {
            "bool": [self.comparison, self.comparison, self.quantifier, self.doubled, self.text_test, self.sets],
            "int": [self.number, self.number],
            "string": [self.text, self.text, self.formatted],
            "list(int)": [self.numbers, self.numbers, self.mapped],
            "list(string)": [self.texts],
        }
        if self.random.random() < 0.2:
            return self.bound(kind, depth - 1)
        return self.random.choice(makers[kind])(depth - 1)

    def leaf(self, kind: str) -> str:
        pick = self.random.choice
        known = [name for name, of in self.known if of == kind]
        if known and self.random.random() < 0.7:
            return pick(known)
        size = self.random.choice((0, 1, 3, 20, 120))
        match kind:
            case "bool":
                return pick(["true", "false", "device.allowMultipleAllocations"])
            case "int":
                return pick(_NUMBERS)
            case "string":
                return pick([pick(_TEXTS), f'"{"ab" * size}"', 'device.attributes["gpu.example.com"].product'])
            case "list(int)":
                return pick([f"lists.range({size})", f"[{', '.join(_NUMBERS[index % 4] for index in range(size))}]"])
        return f"[{', '.join(self.leaf('string') for _ in range(min(size, 20)))}]"

    def scoped(self, kind: str, make: Callable[[str], str]) -> str:
        """An expression in which one more variable is known."""
        self.names += 1
        name = f"v{self.names}"
        self.known.append((name, kind))
        text = make(name)
        self.known.pop()
        return text

    def bound(self, kind: str, depth: int) -> str:
        of = self.random.choice(["int", "string", "list(int)", "list(string)"])
        value = self.make(of, depth)
        return self.scoped(of, lambda name: f"cel.bind({name}, {value}, {self.make(kind, depth)})")

    def comparison(self, depth: int) -> str:
        kind = self.random.choice(["int", "string", "list(int)", "list(string)"])
        operators = ["==", "!="] + ([] if kind.startswith("list") else ["<", ">="])
        return f"({self.make(kind, depth)} {self.random.choice(operators)} {self.make(kind, depth)})"

    def quantifier(self, depth: int) -> str:
        kind = self.random.choice(["int", "string"])
        values = self.make(f"list({kind})", depth)
        macro = self.random.choice(["all", "exists", "exists_one"])
        return self.scoped(kind, lambda name: f"{values}.{macro}({name}, {self.make('bool', depth)})")

    def doubled(self, depth: int) -> str:
        """Lists or maps that contain one list or map twice, and so on."""
        count = self.random.randrange(2, 9)
        first, last = self.make("list(int)", depth), f"w{count}"
        form = self.random.choice(["[{0}, {0}]", "{{1: {0}, 2: {0}}}", "({0} + {0})", "[dyn({0}), dyn({0})]"])
        tests = [f"{last} == {last}", f"{last} != w{count - 1}", f'"%s".format([{last}]).size() > 3']
        if form.startswith(("[", "(")):
            tests += [f"{last} in [{last}]", f"{last}.indexOf({last}[0]) == 0", f"sets.contains({last}, {last})"]
        text = self.random.choice(tests)
        for index in range(count, 0, -1):
            text = f"cel.bind(w{index}, {form.format(f'w{index - 1}')}, {text})"
        return f"cel.bind(w0, {first}, {text})"

    def text_test(self, depth: int) -> str:
        text, other = self.make("string", depth), self.make("string", depth)
        return self.random.choice(
            [
                f"{text}.contains({other})",
                f"{text}.startsWith({other})",
                f"{text}.matches({self.random.choice(_PATTERNS)})",
                f"matches({text}, {self.random.choice(_PATTERNS)})",
                f"isQuantity({text})",
                f"isSemver({text})",
                f"({text} in {self.make('list(string)', depth)})",
                f"{self.make('list(int)', depth)}.isSorted()",
            ]
        )

    def sets(self, depth: int) -> str:
        kind = self.random.choice(["list(int)", "list(string)"])
        function = self.random.choice(["contains", "equivalent", "intersects"])
        return f"sets.{function}({self.make(kind, depth)}, {self.make(kind, depth)})"

    def number(self, depth: int) -> str:
        text, values = self.make("string", depth), self.make("list(int)", depth)
        return self.random.choice(
            [
                f"{text}.size()",
                f"{text}.indexOf({self.make('string', depth)})",
                f"{values}.size()",
                f"{values}.sum()",
                f"{values}.indexOf({self.make('int', depth)})",
                f"{text}.split({self.make('string', depth)}).size()",
                f'{text}.findAll("[a-z]").size()',
                f"({self.make('int', depth)} % 7 + {self.make('int', depth)} % 5)",
                f'quantity("{self.random.randrange(10**6)}Mi").add({self.make("int", depth)}).compareTo(quantity("1Gi"))',
                f"bytes({text}).size()",
            ]
        )

    def text(self, depth: int) -> str:
        text = self.make("string", depth)
        return self.random.choice(
            [
                f"({text} + {self.make('string', depth)})",
                f"{text}.replace({self.make('string', depth)}, {self.make('string', depth)})",
                f'{text}.replace("a", {self.make("string", depth)})',
                f"{text}.lowerAscii()",
                f"{text}.trim()",
                f"strings.quote({text})",
                f'{text}.find("[a-z]+")',
                f"string(bytes({text}))",
                f"{self.make('list(string)', depth)}.join({text})",
                f"string({self.make('int', depth)})",
            ]
        )

    def formatted(self, depth: int) -> str:
        clause = self.random.choice(_FORMATS)
        precision = self.random.choice([0, 2, 20, 255, 256, 1000, 65537, 9999999, 10000010, 999999999])
        if "e" in clause:
            precision %= 300
        if clause == "%s":
            value = self.make(self.random.choice(["int", "string", "list(int)", "list(string)", "bool"]), depth)
        elif "{}" in clause:
            value = self.random.choice(["1.5", "-1234567.891", "0.1", "1e300"])
        else:
            value = self.make("int", depth)
        return f'"<{clause.format(precision)}>".format([{value}])'

    def numbers(self, depth: int) -> str:
        values = self.make("list(int)", depth)
        method = self.random.choice(["reverse()", "distinct()", "sort()", "slice(0, 1)"])
        return self.random.choice(
            [
                f"{values}.{method}",
                f"({values} + {self.make('list(int)', depth)})",
                f"[{values}, {values}].flatten()",
                self.scoped("int", lambda name: f"{values}.filter({name}, {self.make('bool', depth)})"),
                self.scoped("int", lambda name: f"{values}.sortBy({name}, -{name})"),
            ]
        )

    def mapped(self, depth: int) -> str:
        kind = self.random.choice(["int", "string"])
        values = self.make(f"list({kind})", depth)
        if self.random.random() < 0.3:
            return self.scoped(kind, lambda name: f"{values}.transformList(i, {name}, {self.make('int', depth)})")
        return self.scoped(kind, lambda name: f"{values}.map({name}, {self.make('int', depth)})")

    def texts(self, depth: int) -> str:
        text, values = self.make("string", depth), self.make("list(string)", depth)
        return self.random.choice(
            [
                f"{text}.split({self.make('string', depth)})",
                f"{values}.distinct()",
                f"{values}.reverse()",
                f"{values}.sort()",
                self.scoped("string", lambda name: f"{values}.map({name}, {self.make('string', depth)})"),
            ]
        )
