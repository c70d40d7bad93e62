"""What a build adds to the Python files: what is compiled of them, and the .pth file for OUTPLACE=1."""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
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
            build_data["artifacts"] += compiled
            platform = manylinux([Path(self.root, path) for path in compiled])
            if platform:
                python = f"cp{sysconfig.get_config_var('py_version_nodot')}"
                build_data["tag"] = f"{python}-{python}-{platform}"
            else:
                build_data["infer_tag"] = True

    def _compile(self):
        """Builds the extensions beside their sources, where an editable installation needs them; returns the paths."""
        command = Distribution({"ext_modules": COMPILED, "package_dir": {"": "src"}}).get_command_obj("build_ext")
        command.inplace = True
        command.ensure_finalized()
        command.run()
        paths = [Path(command.get_ext_fullpath(extension.name)) for extension in COMPILED]
        return [path.relative_to(self.root).as_posix() for path in paths if path.exists()]


def manylinux(compiled):
    """The oldest Linux that these libraries run on, as auditwheel tells it; None where it is not installed."""
    command = shutil.which("auditwheel")
    if command is None or not sysconfig.get_platform().startswith("linux"):
        return None
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder, f"probe-0-py3-none-{platform}.whl")
        about = "probe-0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            for library in compiled:
                archive.write(library, library.name)
            archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 0\n")
            tag = f"Wheel-Version: 1.0\nGenerator: probe\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
            archive.writestr(f"{about}/WHEEL", tag)
            archive.writestr(f"{about}/RECORD", "".join(f"{library.name},,\n" for library in compiled))
        # pip hides the packages of the environment from an isolated build by this variable
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        shown = subprocess.run([command, "show", str(wheel)], env=environment, capture_output=True, text=True)
    found = re.search(r'platform\s+tag:\s*"((?:many|musl)linux_\w+)"', shown.stdout)
    return found[1] if found else None
