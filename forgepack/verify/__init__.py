"""The verifier: rules over a pair of drafter package and target, run by one engine into one report.

``subject`` is the pair as rules see it and ``open_pair`` says how each of its inputs is read; ``engine`` evaluates
the rules, ``policy`` what the gate's owner accepts, ``report`` the outcome. Helpers of rules take a pair. The rules
themselves are found in the room below, which this one never imports by name.

May import: artifacts, disk, coreai_backend, facts, drafter, quantize, emit.
"""
