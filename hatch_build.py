"""Puts outplace.pth into site-packages, so that OUTPLACE=1 in the environment reaches every child process."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PthHook(BuildHookInterface):
    """Adds the .pth file to wheels, editable ones included."""

    def initialize(self, version, build_data):
        """Called by hatchling before each build."""
        if self.target_name == "wheel":
            where = "force_include_editable" if version == "editable" else "force_include"
            build_data[where]["src/outplace.pth"] = "outplace.pth"
