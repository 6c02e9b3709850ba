"""Configuration of Sphinx: ``sphinx-build -W -n --keep-going docs build/site`` makes the pages, without the network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from dra_spawner import __version__

project = "dra_spawner"
author = "the authors of dra_spawner"
copyright = f"the authors of {project}"  # noqa: A001 (the name that Sphinx reads)
release = __version__

extensions = ["myst_parser", "sphinx_copybutton", "site_parts"]
exclude_patterns = ["_extensions"]
suppress_warnings = ["myst.header"]  # generated parts have headings below the page's own

# The links of the pages are those that GitHub shows: headings have its anchors, to the fourth level.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# The theme below JupyterHub's own, which adds JupyterHub's logo and its team's links: they are not this project's.
html_theme = "pydata_sphinx_theme"
html_title = "dra_spawner"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
