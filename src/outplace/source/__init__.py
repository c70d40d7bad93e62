"""Finds in-place bugs in source, before anything runs: an abstract interpreter that follows what autograd records.

`project` reads files and resolves imports, `values` are what names can stand for, `tape` keeps storages, nodes, what
they save and who writes, `interpreter` runs statements and calls, `python_model` knows builtins and containers,
`torch_model` knows torch, `analysis` picks what to run, `rules` say what a finding means. torch is never imported.
"""
