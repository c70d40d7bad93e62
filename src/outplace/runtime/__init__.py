"""The record of a running program, and what is read from it after a failure.

`usercode` says which files are the user's own, `instrument` puts marks into them, `record` keeps what the marks and the
writes report, `writes` and `engine` are the hooks inside torch, `graph` and `hidden` read a failed graph, `culprits`
finds who wrote, `sites` and `names` turn what was recorded into places and names, `postmortem` and `refused` make the
diagnoses, `attach` ties it together and `launch` runs a program under it.
"""
