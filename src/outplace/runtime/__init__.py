"""Records a running program, and reads the record after a failure or a silent bug.

`program` starts and ends a recording; `instrument` adds marks to the user's source; `patches` changes torch and Python
while outplace is attached; `record` stores what marks and patches report; `locate` finds lines and names; `errors`
diagnoses what PyTorch raises; `silent` finds wrong numbers that raise no error.
"""
