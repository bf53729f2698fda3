"""One recipe, five steps: fetch, quantize, emit, verify, bundle; up to date by digest.

``inputs`` is what a recipe names, ``lock`` what a build records, ``places`` where it may write, ``build`` the steps.
The room isn't called build because linters, test runners and git leave folders of that name out.

May import: artifacts, disk, coreai_backend, facts, hub, quantize, emit, verify, release.bundle,
release.verification.
"""
