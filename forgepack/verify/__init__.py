"""The verifier: rules over a pair of drafter package and target, run by one engine into one report."""
