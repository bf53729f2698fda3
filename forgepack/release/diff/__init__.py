"""Two artifacts of one kind compared: what differs, by how much, and which rules check that.

``compare`` picks the comparison by kind; ``assets``, ``coreml``, ``json_documents``, ``tensors`` compare by content,
``rules`` and ``tables`` map a difference to the verifier's rules, ``values`` is what all of them yield.

May import: artifacts, facts, coreai_backend, verify, release.inspect.
"""
