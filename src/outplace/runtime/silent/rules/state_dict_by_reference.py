"""A `state_dict()` that was stored without a copy, and is loaded back after further training."""

from __future__ import annotations

import ast

from outplace.knowledge.silent_rules.two_names import STATE_DICT_BY_REFERENCE
from outplace.model import Tensor
from outplace.runtime.locate import sites
from outplace.runtime.record.log import frames_to_own_code
from outplace.runtime.silent import detector, reporting, scan
from outplace.runtime.silent.rules.shallow_model_copy import is_shallow_copy
from outplace.runtime.silent.state_dicts import Loaded


class Detector(detector.Detector):
    """Examines states that are loaded."""

    def on_own_state_loaded(self, loaded: Loaded) -> None:
        """Does the state hold the module's own parameters, and were they stepped since? Then it preserved nothing."""
        own = loaded.own()
        if not own & loaded.held() or is_shallow_copy(loaded):
            return
        mutations = scan.steps_on(own, loaded.since)
        if mutations:
            places = frames_to_own_code(loaded.frame)
            call = sites.at_instruction(places[-1]).node if places else None
            name = ast.unparse(call.args[0]) if isinstance(call, ast.Call) and call.args else None
            reporting.tell(STATE_DICT_BY_REFERENCE, Tensor(name), mutations)
