"""What a file can be checked as, one module per family. Nothing in a file is ever run; decoders that may crash or hang
run in a process of their own. The front is `storage.verify`.
"""
