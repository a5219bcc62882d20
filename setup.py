"""The build settings that `pyproject.toml` cannot express.

- Building leaves nothing in the checkout: intermediate files go to a temporary folder.
- The description on a package index is the README with absolute links: setuptools copies it unchanged, and relative links do
  not work there.
"""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from typing import Any

from setuptools import Distribution, setup


def make_links_absolute(readme: str, source: str | None, version: str) -> str:
    """Make the relative links of a README absolute, or plain text if the project has no address.

    Parameters
    ----------
    readme : str
        Markdown.
    source : str or None
        The address of the repository, the URL `Source` of the project.
    version : str
        The version; the links point to the tag `v` and the version.

    Returns
    -------
    str
        The same text. Links to a heading become plain text, since headings have no anchors on package indexes; without an
        address, pictures are left out.
    """

    def replace(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if source is None or target.startswith("#"):
            return "" if mark else text
        return f"{mark}[{text}]({source.rstrip('/')}/{'raw' if mark else 'blob'}/v{version}/{target})"

    return re.sub(r"(!?)\[([^\]]+)\]\((?![a-z]+:)([^)\s]+)\)", replace, readme)


class ProjectDistribution(Distribution):
    """A distribution whose description can be read on a package index."""

    def parse_config_files(self, *arguments: Any, **options: Any) -> None:
        """Read `pyproject.toml`, then fix the links of the description."""
        super().parse_config_files(*arguments, **options)
        metadata = self.metadata
        if metadata.long_description:
            source = (metadata.project_urls or {}).get("Source")
            metadata.long_description = make_links_absolute(metadata.long_description, source, str(metadata.version))


def main() -> None:
    """Build, and remove the intermediate files at the end of the process."""
    options = {}
    if "sdist" in sys.argv:  # setuptools wants the list of its files inside the checkout
        scratch = "bpejit.egg-info"
    else:
        scratch = tempfile.mkdtemp(prefix="bpejit-build-")
        options = {"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}}
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    setup(distclass=ProjectDistribution, options=options)


if __name__ == "__main__":
    main()
