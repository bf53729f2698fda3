"""What a file or folder is: its kind, identity, facts and faults; nothing is checked or written.

``recognition`` names the kind, ``kinds`` finds its describer, describers write into ``notes`` what they find, and
``inspection`` is the way in. What two describers need is below both: ``notes``, ``document_facts``, ``tensors``.

May import: artifacts, coreai_backend, verify.
"""
