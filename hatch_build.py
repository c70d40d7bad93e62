"""What a build adds to the Python files: the compiled marks, and the .pth file for OUTPLACE=1."""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

FAST = Extension("outplace.runtime._fast", ["src/outplace/runtime/_fast.c"], optional=True)


class OutplaceHook(BuildHookInterface):
    """Compiles where there is a compiler (else the same is done in Python, slower), and adds the .pth file."""

    def initialize(self, version, build_data):
        """Called by hatchling before each build."""
        if self.target_name != "wheel":
            return
        where = "force_include_editable" if version == "editable" else "force_include"
        build_data[where]["src/outplace.pth"] = "outplace.pth"  # reaches every child process
        if self._compile():
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"] += ["src/outplace/runtime/_fast.*.so", "src/outplace/runtime/_fast.*.pyd"]

    def _compile(self):
        """Builds the extension beside its source, as an editable installation needs it too."""
        command = Distribution({"ext_modules": [FAST], "package_dir": {"": "src"}}).get_command_obj("build_ext")
        command.inplace = True
        command.ensure_finalized()
        command.run()
        return Path(self.root, command.get_ext_fullpath(FAST.name)).exists()
