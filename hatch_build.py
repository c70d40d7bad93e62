"""What a build adds to the Python files: what is compiled of them, and the .pth file for OUTPLACE=1."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

COMPILED = [
    Extension("outplace.runtime.record._native", ["src/outplace/runtime/record/_native.c"], optional=True),
]


class OutplaceHook(BuildHookInterface):
    """Compiles where there is a compiler (else the same is done in Python, slower), and adds the .pth file.

    With OUTPLACE_BUILD_PURE=1 nothing is compiled: the wheel fits every machine.
    """

    def initialize(self, version, build_data):
        """Called by hatchling before each build."""
        if self.target_name != "wheel":
            return
        where = "force_include_editable" if version == "editable" else "force_include"
        build_data[where]["src/outplace.pth"] = "outplace.pth"  # reaches every child process
        compiled = [] if os.environ.get("OUTPLACE_BUILD_PURE") else self._compile()
        if compiled:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"] += compiled

    def _compile(self):
        """Builds the extensions beside their sources, where an editable installation needs them; returns the paths."""
        command = Distribution({"ext_modules": COMPILED, "package_dir": {"": "src"}}).get_command_obj("build_ext")
        command.inplace = True
        command.ensure_finalized()
        command.run()
        paths = [Path(command.get_ext_fullpath(extension.name)) for extension in COMPILED]
        return [path.relative_to(self.root).as_posix() for path in paths if path.exists()]
