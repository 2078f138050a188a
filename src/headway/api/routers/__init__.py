"""One router a word, each only translating between HTTP and `headway.services`.

Route functions are synchronous (they run in the thread pool) except where a body or an answer is a stream.
"""
