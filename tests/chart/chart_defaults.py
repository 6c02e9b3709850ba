"""Makes ``files/defaults.json`` of the chart from its ``values.yaml``: ``python -m tests.chart.chart_defaults``.

Templates cannot read ``values.yaml``, and not every program that packages a chart follows links.
"""

from __future__ import annotations

import json

import yaml

from tests.chart.rendering import CHART

DEFAULTS = CHART / "files" / "defaults.json"


def defaults_text() -> str:
    """The text of the file: a line for each key."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in values.items())
    return f"{{\n{lines}\n}}\n"


if __name__ == "__main__":
    DEFAULTS.write_text(defaults_text())
