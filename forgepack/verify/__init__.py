"""The verifier: rules over a pair of drafter package and target, run by one engine into one report.

``open_pair`` says how each input of a pair is read, ``bundle`` those of a release; ``engine`` evaluates the rules of
the room ``rules``, which it never imports by name. The other rooms hold the pair, the policy and the findings.

May import: artifacts, disk, coreai_backend, facts, drafter, quantize, emit.
"""
