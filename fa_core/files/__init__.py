"""The doors to files and processes: how a file is opened, decoded and written, how a pickle is read
without running it, how a child process is started.

Imports no other folder of `fa_core`; torch is imported by `inert`, `torch_file` and
`tensor_mappings` alone.
"""
